"""Iceberg tables beside pyiceberg's own append of the same rows: a SQL catalog on SQLite, a warehouse on this disk."""

from __future__ import annotations

import contextlib
import time
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.table import Table

from spark_merge.sinks.iceberg.types import Mode
from tests.support.lake import NAMESPACE, catalog_of, uri_of
from tests.tools.bench.account import ACCOUNT
from tests.tools.bench.figures import Cost, timed
from tests.tools.bench.sinks import Target


def target(folder: Path, mode: Mode) -> Target:
    return Target(
        f"Iceberg-{mode}",
        lambda name: uri_of(folder / name, mode=mode, commit_interval="0s"),
        partial(_appended, folder),
        "pyiceberg's append of the same rows",
        "a core a task; a commit a table and batch",
        "≥ 0.7 ×" if mode == "append" else "",
    )


def _appended(folder: Path, name: str) -> Cost:
    cost = Cost()
    with contextlib.closing(catalog_of(uri_of(folder / name))) as catalog:
        table = catalog.load_table((NAMESPACE, *ACCOUNT))
        rows = _written(table)
        other = catalog.create_table((NAMESPACE, ACCOUNT.schema, f"appended_{time.monotonic_ns()}"), table.schema())
        with timed(cost):
            other.append(rows)
    return cost


def _written(table: Table) -> pa.Table:
    """The rows of its data files: pyiceberg does not read tables with equality deletes."""
    paths = table.inspect.data_files()["file_path"].to_pylist()
    return pa.concat_tables([pq.read_table(path.removeprefix("file://")) for path in paths]).cast(table.schema().as_arrow())
