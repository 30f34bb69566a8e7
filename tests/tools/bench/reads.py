"""A dump's chunks read by tasks of Spark: on this machine beside the sidecar's own threads, and by two executors of a cluster beside one.

A server that takes its time (a predicate that sleeps) shows what readers side by side are worth where the machine is not the limit: on two
cores two executors, the server and the driver share them. The driver on a cluster is a process of its own:
`python -m tests.tools.bench.reads MASTER FOLDER SETTINGS ROWS READERS WHERE` prints the seconds of its best run.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgspec

from sidecar.adapters.tidb.remote_reads import RemoteReads
from sidecar.adapters.tidb.source import MakeReaders
from sidecar.shared.config import SourceSection
from sidecar.shared.log.storage import open_folder
from spark_merge.worker.read_task import ReadingSettings
from spark_merge.worker.reading import ReadingJobs
from spark_merge.worker.session import OpenSession, session
from spark_merge.worker.spark_tasks import SparkTasks
from tests.support.read_tasks import reading_settings
from tests.support.services.mariadb import MariaDb
from tests.support.services.spark import SparkCluster
from tests.tools.bench.bench import Bench
from tests.tools.bench.figures import TICKS_A_SECOND, Cost, Figure, beside, best, best_in_turn, rate
from tests.tools.bench.source import fill, read_all
from tests.tools.bench.spark_cluster import REGISTERED

ROWS, SLOW_ROWS = 600_000, 40_000
READERS = 2
SLEEPS = "SLEEP(0.00005) = 0"
"""For each row, in the server: a tenth of a millisecond about, without CPU."""


def measure(bench: Bench) -> Iterator[Figure]:
    rows, slow_rows = bench.sized(ROWS), bench.sized(SLOW_ROWS)
    with MariaDb(bench.new_folder("mariadb"), settings={"innodb-buffer-pool-size": "256M", "skip-log-bin": "ON"}) as db:
        fill(db, rows)
        yield _here(bench, db, rows)
        with SparkCluster(bench.new_folder("cluster")) as cluster:
            yield _executors(bench, cluster, db, rows, where=None)
            db.execute(f"DELETE FROM bench.account WHERE id >= {slow_rows}")
            yield _executors(bench, cluster, db, slow_rows, where=SLEEPS)


def _here(bench: Bench, db: MariaDb, rows: int) -> Figure:
    folder, spark = bench.new_folder("chunks"), bench.spark
    settings = reading_settings(db.settings(), open_folder(str(folder)))
    with reading(settings, SparkTasks(lambda: OpenSession(spark)), on_cluster=False) as remote:
        read = partial(read_all, db.settings(), folder, rows=rows, readers=READERS)

        def by_tasks() -> Cost:
            """Without the server's CPU: it is a process of this one."""
            before = server_s(db)
            cost = read(remote=remote)
            return Cost(cost.wall_s, cost.cpu_s - (server_s(db) - before))

        own, tasks = best_in_turn(read, by_tasks)
    figure = rate(f"chunk reads by {READERS} Spark tasks on this machine", rows, tasks, aim="≥ 0.9 ×", limit="the machine's cores")
    return beside(figure, f"{READERS} threads of the sidecar", rows, own)


def _executors(bench: Bench, cluster: SparkCluster, db: MariaDb, rows: int, *, where: str | None) -> Figure:
    taken = []
    for count in (1, 2):
        before = server_s(db)
        taken.append((_on_cluster(bench, cluster, db, rows, count, where), (server_s(db) - before) / RUNS))
    (one, server_one), (two, server_two) = taken
    return Figure(
        f"chunk reads by two executors of one core{', of a server that sleeps for each row' if where else ''}",
        rows / two,
        "rows/s",
        aim="≥ 1.7 ×",
        limit=f"server: {server_two / two:.2f} cores, with one executor {server_one / one:.2f}; the machine has {os.cpu_count()}",
        reference=f"one executor {rows / one:,.0f} rows/s",
        ratio=one / two,
    )


RUNS = 4
"""One of them warms up."""


def _on_cluster(bench: Bench, cluster: SparkCluster, db: MariaDb, rows: int, count: int, where: str | None) -> float:
    conf = cluster.write_conf(cluster.folder / f"cores-{count}", {"spark.cores.max": str(count), **REGISTERED})
    settings = msgspec.json.encode(db.settings()).decode()
    command = [
        sys.executable,
        "-m",
        "tests.tools.bench.reads",
        cluster.url,
        str(bench.new_folder("chunks")),
        settings,
        str(rows),
        str(count),
    ]
    environment = {**os.environ, "SPARK_CONF_DIR": str(conf)}
    done = subprocess.run([*command, where or ""], env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return float(done.stdout.split()[-1])


@contextmanager
def reading(settings: ReadingSettings, spark: SparkTasks, *, on_cluster: bool) -> Iterator[MakeReaders]:
    jobs = ReadingJobs(settings, spark, print)
    remote = RemoteReads(jobs.want, settings.log, on_cluster=on_cluster)
    try:
        yield remote.readers
    finally:
        remote.close()
        jobs.close()


def server_s(db: MariaDb) -> float:
    """Seconds of CPU that the server has taken."""
    fields = Path(f"/proc/{db.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_A_SECOND


def main(arguments: Sequence[str]) -> None:
    master, folder, given, rows, readers, where = arguments
    source = msgspec.json.decode(given, type=SourceSection)
    spark = session(master=master, memory="512m")
    with reading(reading_settings(source, open_folder(folder)), SparkTasks(lambda: OpenSession(spark)), on_cluster=True) as remote:
        read: Callable[[], Cost] = partial(
            read_all, source, Path(folder), rows=int(rows), readers=int(readers), where=where or None, remote=remote
        )
        read()
        cost = best(read, RUNS - 1)
    spark.stop()
    sys.stdout.write(f"{cost.wall_s}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
