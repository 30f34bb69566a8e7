"""Writes open-protocol as TiCDC's classic architecture does (tiflow pkg/sink/codec/open, internal/column.go).

A message holds up to `ROWS_MAX` rows; columns are sorted by name. `rid` is the row's number where the primary key is one
integer, omitted when 0.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from tests.tools.rig.changes import Change
from tests.tools.rig.columns import Table, TableColumn
from tests.tools.rig.row_image import Image, Value
from tests.tools.rig.values import go_json, go_quoted

ROWS_MAX = 16
"""TiCDC's default of max-batch-size."""

_VERSION = (1).to_bytes(8, "big")
_ROW, _DDL, _RESOLVED = 1, 2, 3
_BASE64_TYPES = frozenset((249, 250, 251, 252))


def row(change: Change, commit_ts: int) -> tuple[bytes, bytes]:
    """Key JSON and value JSON of one row."""
    table = change.table
    image = change.before if change.after is None else change.after
    assert image is not None
    head: dict[str, Any] = {"ts": commit_ts, "scm": table.name.schema, "tbl": table.name.table}
    if row_id := _row_id(table, image):
        head["rid"] = row_id
    key = go_json({**head, "t": _ROW})
    if change.after is None:
        return key, b'{"d":' + _columns(table, image) + b"}"
    if change.before is None:
        return key, b'{"u":' + _columns(table, image) + b"}"
    return key, b'{"u":' + _columns(table, image) + b',"p":' + _columns(table, change.before) + b"}"


def message(rows: Sequence[tuple[bytes, bytes]]) -> tuple[bytes, bytes]:
    """Key and value of a message with these rows."""
    return _VERSION + b"".join(_framed(key) for key, _ in rows), b"".join(_framed(value) for _, value in rows)


def resolved(ts: int) -> tuple[bytes, bytes]:
    return message([(go_json({"ts": ts, "t": _RESOLVED}), b"")])


def ddl(*, commit_ts: int, schema: str, table: str, query: str, action: int) -> tuple[bytes, bytes]:
    """`action` is TiDB's model.ActionType."""
    head: dict[str, Any] = {"ts": commit_ts, "scm": schema} | ({"tbl": table} if table else {})
    return message([(go_json({**head, "t": _DDL}), go_json({"q": query, "t": action}))])


def _framed(content: bytes) -> bytes:
    return len(content).to_bytes(8, "big") + content


def _row_id(table: Table, image: Image) -> int:
    if len(table.primary) != 1 or not table.columns[table.handle[0]].is_integer:
        return 0
    number = image[table.handle[0]]
    assert isinstance(number, int)
    return number - (1 << 64) if number >= 1 << 63 else number


def _columns(table: Table, image: Image) -> bytes:
    return b"{" + b",".join([start + encode(image[at]) + b"}" for at, start, encode in _encoders(table)]) + b"}"


@lru_cache(maxsize=1024)
def _encoders(table: Table) -> list[tuple[int, bytes, Callable[[Value], bytes]]]:
    """Of each column, sorted by name: its number, what stands before its value, and how the value is written."""
    encoders = []
    for number, column in sorted(enumerate(table.columns), key=lambda entry: entry[1].name.encode()):
        handle = b'"h":true,' if column.is_handle else b""
        start = go_json(column.name) + b':{"t":%d,%b"f":%d,"v":' % (column.type_code, handle, column.flags)
        encoders.append((number, start, _encoder(column)))
    return encoders


def _encoder(column: TableColumn) -> Callable[[Value], bytes]:
    if column.type_code in _BASE64_TYPES:
        return lambda value: b"null" if value is None else b'"' + b64encode(_utf8(column, value)) + b'"'
    if column.is_binary:
        return lambda value: b"null" if value is None else go_json(go_quoted(_bytes(value)))
    if column.encoding:
        return lambda value: b"null" if value is None else go_json(_bytes(value).decode(column.encoding))
    return go_json


def _bytes(value: Value) -> bytes:
    assert isinstance(value, bytes)
    return value


def _utf8(column: TableColumn, value: Value) -> bytes:
    return _bytes(value).decode(column.encoding).encode() if column.encoding else _bytes(value)
