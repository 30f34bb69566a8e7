"""The parent of Spark's Python workers (`spark.python.daemon.module`): pyspark's own, without a cost of 0.2 s a task.

Before each task a worker calls `importlib.invalidate_caches()`. Up to Python 3.11 this reads the directory of every zip on
the path again, in Python: pyspark.zip, py4j and spark-core.jar, 0.2 s of CPU. These never change while a worker lives, and
zips added later (`--py-files`) get an importer of their own, so forgetting that call loses nothing. Measured: an empty
job of four tasks on two cores went from 0.45 s to 0.1 s.

What tasks need is loaded here, before the fork: Spark ends workers that were idle for a minute, and the first window after that
would wait for each new one to load it.
"""

from __future__ import annotations

import zipimport

import polars  # noqa: F401  # sinks load it when they write
import pyarrow.compute
import pyarrow.parquet  # noqa: F401
from pyspark.daemon import manager

import sidecar.shared.log.storage.s3  # whether or not the log is there: this process does not know it
import sidecar.shared.process.plain_arrow  # noqa: F401  # before anything makes an array
import spark_merge.delivery.batches  # noqa: F401
from spark_merge.sinks.registry import load_without_extras


def _keep_directory(self: zipimport.zipimporter) -> None:
    """In the place of zipimporter.invalidate_caches."""


if __name__ == "__main__":
    load_without_extras()
    zipimport.zipimporter.invalidate_caches = _keep_directory  # type: ignore[method-assign]  # see above
    manager()  # type: ignore[no-untyped-call]  # pyspark ships it without types
