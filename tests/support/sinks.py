"""Sinks' batches without Spark: tasks run here, as their pickles, and what a sink shows is looked at by table."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow.parquet as pq

from sidecar.core.model import Seq, TableName
from sidecar.log import storage
from sidecar.log.storage import Folder, open_folder
from spark_merge.contract import Head, Outcome, Sink
from spark_merge.cut import BatchLimits
from spark_merge.delivery import TaskWork
from spark_merge.sinks.files.reader import read_output, read_segments
from spark_merge.sinks.memory.target import target
from spark_merge.sinks.registry import open_sink
from tests.support.subscriber import rows_of, spooled

Shown = tuple[int, int, str, tuple[str | None, ...], tuple[str | None, ...] | None]
"""seq, commit_ts, op, key, the row after it (None: deleted)."""


@dataclass(frozen=True)
class Here:
    """`delivery.Tasks` in this process, or what stands for Spark there. `before` is called before each task."""

    at_once: int = 2
    before: Callable[[], object] = lambda: None
    ready: bool = True
    job_s: float = 0.0

    def limits(self, most: BatchLimits) -> BatchLimits:
        return most

    def cores(self, heads: Sequence[Head]) -> int:
        return self.at_once

    def run(self, work: Sequence[TaskWork]) -> list[Outcome]:
        return [self._run(one) for one in work]

    def _run(self, work: TaskWork) -> Outcome:
        self.before()
        outcome: Outcome = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(work)).carry_out()))
        return outcome


@dataclass(frozen=True)
class Place:
    """One output that outlives its sinks. `rows`: by table what a consumer has seen, in the order it saw it if `in_order`; only
    the newest of each key if `versioned` or `newest`, of which the latter has rows take effect in order, and has none that are deleted."""

    uri: str
    make: Callable[[str], Sink]
    rows: Callable[[], dict[TableName, list[Shown]]]
    in_order: bool = True
    versioned: bool = False
    newest: bool = False

    def sink(self, log_id: str = "log-1") -> Sink:
        return self.make(log_id)


def accepted(sink: Sink) -> Seq | None:
    """The last segment that it has."""
    found = sink.look()
    return None if found is None else found.seq


def place_of(uri: str) -> Place:
    """Of the files sink; its tables have the columns and key of tests/support/histories.py."""
    folder = open_folder(uri)
    if "parquet" in uri:
        return Place(uri, lambda log_id: open_sink(uri, log_id=log_id), lambda: _parquet(folder), in_order=False)
    return Place(uri, lambda log_id: open_sink(uri, log_id=log_id), lambda: _json_lines(folder))


def spool_place(uri: str) -> Place:
    """Of the sink of subscribers, by a `grpc:` URI."""
    folder = open_folder(uri)

    def rows() -> dict[TableName, list[Shown]]:
        found: dict[TableName, list[Shown]] = {}
        for row in rows_of(spooled(folder, open_folder("/nowhere"))):
            found.setdefault(row.table, []).append((row.seq, row.commit_ts, row.op, row.key, row.after))
        return found

    return Place(uri, lambda log_id: open_sink(uri, log_id=log_id), rows)


def memory_place(name: str, make: Callable[[str], Sink], *, versioned: bool = False) -> Place:
    """Of a twin in memory whose target has this name."""

    def rows() -> dict[TableName, list[Shown]]:
        found: dict[TableName, list[Shown]] = {}
        to = target(name, "log-1")
        for row in to.newest.values() if versioned else to.rows:
            found.setdefault(row.table, []).append((row.seq, row.commit_ts, row.op, row.key, row.after))
        return found

    return Place(f"memory {name}", make, rows, versioned=versioned)


def _json_lines(folder: Folder) -> dict[TableName, list[Shown]]:
    found: dict[TableName, list[Shown]] = {}
    for row in read_output(folder):
        shown = (row["seq"], int(row["commit_ts"]), row["op"], tuple(row["key"].values()), _texts(row["after"]))
        found.setdefault(TableName(row["schema"], row["table"]), []).append(shown)
    return found


def _parquet(folder: Folder) -> dict[TableName, list[Shown]]:
    found: dict[TableName, list[Shown]] = {}
    for segment in read_segments(folder):
        for file in segment.files:
            for row in pq.read_table(io.BytesIO(storage.read_file(folder, file.path))).to_pylist():
                image = tuple(None if value is None else str(value) for name, value in row.items() if not name.startswith("_"))
                after = None if row["_op"] == "delete" else image
                found.setdefault(file.table, []).append((row["_seq"], row["_commit_ts"], row["_op"], image[:2], after))
    return found


def _texts(image: dict[str, Any] | None) -> tuple[str | None, ...] | None:
    return None if image is None else tuple(image.values())
