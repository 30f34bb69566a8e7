"""What every measurement is given: its size, a place on disk that goes away, and one warm Spark session."""

from __future__ import annotations

import shutil
import tempfile
from functools import cached_property
from pathlib import Path

from pyspark.sql import SparkSession

from spark_merge.worker.session import session
from tests.tools.bench.dumped import deliver, dumped
from tests.tools.bench.figures import Cost, timed_tree

QUICK_PART = 0.1


class Bench:
    """Close it: it removes all folders and stops Spark. `session_cost` and `cold_cost` are known once `spark` was requested."""

    def __init__(self, *, quick: bool = False) -> None:
        self.quick = quick
        self.root = Path(tempfile.mkdtemp(prefix="ticdc-dump-bench-"))
        self.session_cost, self.cold_cost = Cost(), Cost()
        self._folders = 0

    def sized(self, full: int) -> int:
        return max(1, int(full * QUICK_PART)) if self.quick else full

    def new_folder(self, name: str) -> Path:
        self._folders += 1
        folder = self.root / f"{self._folders:03d}-{name}"
        folder.mkdir(parents=True)
        return folder

    @cached_property
    def spark(self) -> SparkSession:
        """A session on two cores that has delivered a small batch twice."""
        with timed_tree(self.session_cost):
            spark = session(master="local[2]")
        small = dumped(self.new_folder("small"), windows=2, window_chunks=1, chunk_rows=5_000)
        self.cold_cost = deliver(spark, small, self.new_folder("cold"), "parquet")
        deliver(spark, small, self.new_folder("warm"), "parquet")
        return spark

    def close(self) -> None:
        if "spark" in self.__dict__:
            self.spark.stop()
        shutil.rmtree(self.root, ignore_errors=True)
