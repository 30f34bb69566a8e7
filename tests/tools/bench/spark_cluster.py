"""A dump's merge on a real Spark cluster (standalone, authenticated, encrypted, on this machine): two executors of one core beside one.

The driver is a process of its own, as a session has one cluster: `python -m tests.tools.bench.spark_cluster MASTER OUT LOG WINDOWS CHUNKS
ROWS` prints the seconds of its best run. It only waits while executors work, so on two cores both executors have one each.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path

from sidecar.shared.log.storage import Folder
from spark_merge.worker.session import session
from tests.support.services.spark import SparkCluster
from tests.tools.bench.bench import Bench
from tests.tools.bench.dumped import Dumped, deliver, dumped
from tests.tools.bench.figures import Figure, best

WINDOWS, WINDOW_CHUNKS, CHUNK_ROWS = 10, 2, 50_000
REGISTERED = {"spark.scheduler.minRegisteredResourcesRatio": "1.0", "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s"}
"""No task before all executors are there."""


def measure(bench: Bench) -> Iterator[Figure]:
    source = dumped(bench.new_folder("log"), windows=WINDOWS, window_chunks=WINDOW_CHUNKS, chunk_rows=bench.sized(CHUNK_ROWS))
    folder = bench.new_folder("cluster")
    with SparkCluster(folder) as cluster:
        one, two = (_seconds(bench, cluster, source, cores) for cores in (1, 2))
    yield Figure(
        f"dump of {source.rows:,} rows to Parquet, a cluster of two executors of one core",
        source.rows / two,
        "rows/s",
        aim="≥ 1.7 ×",
        limit="the driver between batches, and its CPU beside both executors'",
        reference=f"one executor {source.rows / one:,.0f} rows/s",
        ratio=one / two,
    )


def _seconds(bench: Bench, cluster: SparkCluster, source: Dumped, cores: int) -> float:
    conf = cluster.write_conf(cluster.folder / f"cores-{cores}", {"spark.cores.max": str(cores), **REGISTERED})
    shape = (source.windows, source.window_chunks, source.chunk_rows)
    command = [
        sys.executable,
        "-m",
        "tests.tools.bench.spark_cluster",
        cluster.url,
        str(bench.new_folder(f"cores-{cores}")),
        source.log.root,
    ]
    environment = {**os.environ, "SPARK_CONF_DIR": str(conf)}
    done = subprocess.run([*command, *map(str, shape)], env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return float(done.stdout.split()[-1])


def main(arguments: Sequence[str]) -> None:
    master, out, log, *shape = arguments
    windows, window_chunks, chunk_rows = map(int, shape)
    source = Dumped(Folder("file", log), windows=windows, window_chunks=window_chunks, chunk_rows=chunk_rows)
    spark, runs = session(master=master, memory="512m"), count()
    deliver(spark, source, Path(out, "warm"), "parquet")
    cost = best(lambda: deliver(spark, source, Path(out, str(next(runs))), "parquet"))
    spark.stop()
    sys.stdout.write(f"{cost.wall_s}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
