"""Delta tables beside delta-rs' own writer: the same rows out of memory into a table like it, in one commit."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from spark_merge.sinks.delta.columns import Mode
from spark_merge.sinks.delta.places import table_place
from tests.tools.bench.account import ACCOUNT
from tests.tools.bench.figures import Cost, timed_tree
from tests.tools.bench.sinks import Target


def target(folder: Path, mode: Mode) -> Target:
    """Outputs below `folder`, on a local disk."""
    return Target(
        f"Delta-{mode}",
        lambda name: f"delta://{folder}/{name}?mode={mode}&commit-interval=0s",
        partial(_written, folder),
        "write_deltalake of the same rows from memory",
        "a core a task; of live rows the commits, one a table and batch"
        + (", and the files that a MERGE rewrites" if mode == "merge" else ""),
        "≥ 0.7 ×" if mode == "append" else "",
    )


def _written(folder: Path, name: str) -> Cost:
    rows, cost = pa.table(DeltaTable(folder / name / table_place(ACCOUNT)).scan()), Cost()
    with timed_tree(cost):
        write_deltalake(folder / f"{name}-written-{time.monotonic_ns()}", rows)
    return cost
