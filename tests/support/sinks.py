"""Sinks' batches without Spark: tasks run here, as their pickles, and what a sink shows is looked at by table."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pyarrow.parquet as pq

from sidecar.shared.log import storage
from sidecar.shared.log.storage import Folder, open_folder
from sidecar.shared.model.nouns import TableName
from spark_merge.port.contract import Sink
from spark_merge.sinks.files.reader import read_output, read_segments
from spark_merge.sinks.memory.target import target
from spark_merge.sinks.registry import open_sink
from spark_merge.testing.places import Place, Shown
from tests.support.subscriber import rows_of, spooled


def place_of(uri: str) -> Place:
    """Of the files sink; its tables have the columns and key of spark_merge/testing/histories.py."""
    folder = open_folder(uri)
    if "parquet" in uri:
        return Place(uri, lambda log_id: open_sink(uri, log_id=log_id), lambda: _parquet(folder), in_order=False)
    return Place(uri, lambda log_id: open_sink(uri, log_id=log_id), lambda: _json_lines(folder))


def spool_place(uri: str) -> Place:
    """Of the sink of subscribers, by a `grpc:` URI."""
    folder = open_folder(uri)

    def rows() -> dict[TableName, list[Shown]]:
        result: dict[TableName, list[Shown]] = {}
        for row in rows_of(spooled(folder, open_folder("/nowhere"))):
            result.setdefault(row.table, []).append((row.seq, row.commit_ts, row.op, row.key, row.after))
        return result

    return Place(uri, lambda log_id: open_sink(uri, log_id=log_id), rows)


def memory_place(name: str, make: Callable[[str], Sink], *, versioned: bool = False) -> Place:
    """Of a twin in memory whose target has this name."""

    def rows() -> dict[TableName, list[Shown]]:
        result: dict[TableName, list[Shown]] = {}
        to = target(name)
        for row in to.newest.values() if versioned else to.rows:
            result.setdefault(row.table, []).append((row.seq, row.commit_ts, row.op, row.key, row.after))
        return result

    return Place(f"memory {name}", make, rows, versioned=versioned)


def _json_lines(folder: Folder) -> dict[TableName, list[Shown]]:
    lines: dict[TableName, list[Shown]] = {}
    for row in read_output(folder):
        shown = (row["seq"], int(row["commit_ts"]), row["op"], tuple(row["key"].values()), _texts(row["after"]))
        lines.setdefault(TableName(row["schema"], row["table"]), []).append(shown)
    return lines


def _parquet(folder: Folder) -> dict[TableName, list[Shown]]:
    parquet: dict[TableName, list[Shown]] = {}
    for segment in read_segments(folder):
        for file in segment.files:
            for row in pq.read_table(io.BytesIO(storage.read_file(folder, file.path))).to_pylist():
                image = tuple(None if value is None else str(value) for name, value in row.items() if not name.startswith("_"))
                after = None if row["_op"] == "delete" else image
                parquet.setdefault(file.table, []).append((row["_seq"], row["_commit_ts"], row["_op"], image[:2], after))
    return parquet


def _texts(image: dict[str, Any] | None) -> tuple[str | None, ...] | None:
    return None if image is None else tuple(image.values())
