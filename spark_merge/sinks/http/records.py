"""What a body has besides rows, an object a line, named by `kind` (a line without one is a row):

    schema     a table's columns and key: before the first of its rows in each body, and after a DDL where they are others
    gone       a table that is no more under that name after the DDL before it
    window     a part of a dump whose rows this segment has; those that changed meanwhile are omitted
    ddl        a schema change, after all rows before it
    resolved   the end of a segment, and how the dump stands

All of it is a function of the log's segment, so what is sent again is the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec

from sidecar.shared.model.nouns import MARK_TABLE, Column, TableSchema
from sidecar.shared.model.progress import SegmentDump
from spark_merge.port.contract import Accepted, Head

SCHEMAS_KEPT = 1024
"""Encoded; a process lives for months."""


@dataclass(frozen=True, slots=True)
class SegmentEnding:
    """What comes behind a segment's rows, and what is accepted then. `received_as`: as of the segment's `Head`."""

    accepted: Accepted
    data: bytes
    received_as: str


def ending_of(head: Head) -> SegmentEnding:
    record_lines = [*_windows(head), *_ddls(head), *_changed(head), _line(_resolved(head))]
    return SegmentEnding(Accepted.of(head.manifest), b"".join(record_lines), head.received_as)


@lru_cache(SCHEMAS_KEPT)
def schema_line(schema: TableSchema) -> bytes:
    types = {column.name: column.type_text for column in schema.definition.columns} if schema.definition is not None else {}
    return _line(
        {
            "kind": "schema",
            "schema": schema.name.schema,
            "table": schema.name.table,
            "table_id": schema.table_id,
            "columns": [_column(column, types.get(column.name, "")) for column in schema.columns],
            "key": schema.key,
        }
    )


def _column(column: Column, type_text: str) -> dict[str, Any]:
    record: dict[str, Any] = {"name": column.name, "kind": column.kind, "type": type_text, "nullable": column.nullable}
    record |= {"length": column.length} if column.length >= 0 else {}
    record |= {"scale": column.scale} if column.scale else {}
    return record | ({"elements": column.elements} if column.elements else {})


def _windows(head: Head) -> Iterator[bytes]:
    for window in head.windows:
        yield _line(
            {
                "kind": "window",
                "seq": head.seq,
                "dump_id": window.dump_id,
                "low_ts": str(window.low_ts),
                "high_ts": str(window.high_ts),
                "chunks": [{"schema": chunk.table.schema, "table": chunk.table.table, "rows_read": chunk.rows} for chunk in window.chunks],
            }
        )


def _ddls(head: Head) -> Iterator[bytes]:
    for ddl in head.ddls:
        ddl_record = {"commit_ts": str(ddl.commit_ts), "schema": ddl.schema, "table": ddl.table, "query": ddl.query}
        yield _line({"kind": "ddl", "seq": head.seq} | ddl_record)


def _changed(head: Head) -> Iterator[bytes]:
    before, after = head.schemas, head.next_schemas
    if before is after:
        return
    for name in sorted(before.keys() - after.keys() - {MARK_TABLE}):
        yield _line({"kind": "gone", "seq": head.seq, "schema": name.schema, "table": name.table, "table_id": before[name].table_id})
    for name in sorted(after.keys() - {MARK_TABLE}):
        line = schema_line(after[name])
        if name not in before or schema_line(before[name]) != line:
            yield line


def _resolved(head: Head) -> dict[str, Any]:
    record: dict[str, Any] = {"kind": "resolved", "seq": head.seq, "upto_ts": str(head.upto_ts)}
    if head.dump is not None:
        record["dump"] = _dump(head.dump)
    return record


def _dump(dump: SegmentDump) -> dict[str, Any]:
    complete = [{"schema": table.schema, "table": table.table} for table in dump.complete]
    record: dict[str, Any] = {"dump_id": dump.dump_id, "state": dump.state, "complete": complete}
    return record | ({"others": list(map(_dump, dump.others))} if dump.others else {})


def _line(record: dict[str, Any]) -> bytes:
    return msgspec.json.encode(record) + b"\n"
