"""Row events and transactions as TiDB writes them to a pump, from pingcap/tidb table/tables/tables.go: written
from the format, not from the decoder.

`columns` are TableInfo's, values are plain ones (kv_encoder.py), both by column id. An **event** is a kind (I, U, D) and its row's bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.support.kv_encoder import TYPES, Plain, datum, memcomparable_int, row_1, varint
from ticdc_dump.binlog.binlog_pb2 import Binlog, DeleteRow, Insert, MutationType, PrewriteValue, Rollback, Update

ROWID = {-1: {"type": {"Tp": TYPES["bigint"], "Flag": 0}}}

Columns = Mapping[int, dict[str, Any]]
Values = Mapping[int, Plain | None]
Event = tuple[str, bytes]


def int_handle(value: int) -> bytes:
    """An unsigned key is written as the signed number of the same bits."""
    return b"\x08" + varint(value - (1 << 64) if value >= 1 << 63 else value)


def common_handle(parts: Sequence[tuple[dict[str, Any], Plain]]) -> bytes:
    """Bytes are sort keys already. A TIME is the only one that is not as in a row."""
    return b"".join(
        b"\x07" + memcomparable_int(plain) if result["type"]["Tp"] == TYPES["time"] and isinstance(plain, int) else datum(result, plain)
        for result, plain in parts
    )


def inserted(handle: bytes, columns: Columns, values: Values) -> Event:
    return "I", handle + row_1(columns, values)


def updated(columns: Columns, old: Values, new: Values, *, rowid: int | None = None) -> Event:
    return "U", pairs(columns, old, rowid) + pairs(columns, new, rowid)


def deleted(columns: Columns, old: Values, *, rowid: int | None = None) -> Event:
    return "D", pairs(columns, old, rowid)


def pairs(columns: Columns, values: Values, rowid: int | None = None) -> bytes:
    return row_1({**columns, **ROWID}, values if rowid is None else {**values, -1: rowid})


def transaction(
    commit_ts: int, tables: Mapping[int, Sequence[Event]], *, schema_version: int = 1, start_ts: int | None = None, **more: Any
) -> bytes:
    """What a pump streams. `more` overrides its fields."""
    reported: dict[str, Any] = {
        "tp": 1, "start_ts": commit_ts - 5 if start_ts is None else start_ts, "commit_ts": commit_ts, "prewrite_key": b"t",
        "prewrite_value": prewrite_value(tables, schema_version=schema_version),
    }  # fmt: skip
    made: bytes = Binlog(**(reported | more)).SerializeToString()
    return made


def prewrite_value(tables: Mapping[int, Sequence[Event]], *, schema_version: int = 1) -> bytes:
    prewrite = PrewriteValue(schema_version=schema_version)
    for table_id, events in tables.items():
        mutation = prewrite.mutations.add(table_id=table_id)
        kinds: dict[str, tuple[MutationType, Any]] = {
            "I": (Insert, mutation.inserted_rows), "U": (Update, mutation.updated_rows), "D": (DeleteRow, mutation.deleted_rows)
        }  # fmt: skip
        for kind, row in events:
            mutation.sequence.append(kinds[kind][0])
            kinds[kind][1].append(row)
    made: bytes = prewrite.SerializeToString()
    return made


def fake(ts: int) -> bytes:
    made: bytes = Binlog(tp=Rollback, start_ts=ts, commit_ts=ts, ddl_schema_state=0).SerializeToString()
    return made
