"""Writes canal-json with TiDB's extension as TiCDC does (tiflow pkg/sink/codec/canal): one row a message, all values text."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from tests.tools.rig.changes import Change
from tests.tools.rig.columns import Table, TableColumn
from tests.tools.rig.row_image import Image, Value
from tests.tools.rig.tso import ms_of_tso
from tests.tools.rig.values import go_json, plain_float

_JAVA_TYPES = {
    "tinyint": -6, "smallint": 5, "mediumint": 4, "int": 4, "bigint": -5, "float": 7, "double": 8, "decimal": 3, "bit": -7,
    "set": -7, "enum": 4, "year": 12, "date": 91, "time": 92, "datetime": 93, "timestamp": 93, "char": 1, "varchar": 12,
    "tinytext": 2005, "text": 2005, "mediumtext": 2005, "longtext": 2005, "binary": 2004, "varbinary": 2004, "tinyblob": 2004,
    "blob": 2004, "mediumblob": 2004, "longblob": 2004, "json": 12,
}  # fmt: skip
_PROMOTED = {"tinyint": (127, 5), "smallint": (32767, 4), "int": (2**31 - 1, -5), "bigint": (2**63 - 1, 3)}
"""An unsigned value above the bound has the next java type."""

_DDL_TYPES = {
    1: "CREATE", 2: "ERASE", 3: "CREATE", 4: "ERASE", 5: "ALTER", 6: "ALTER", 7: "CINDEX", 8: "DINDEX", 11: "TRUNCATE",
    12: "ALTER", 14: "RENAME",
}  # fmt: skip
"""By TiDB's model.ActionType."""


def row(change: Change, commit_ts: int, *, now_ms: int) -> tuple[bytes, bytes]:
    """Key (empty) and value of one row's message."""
    image = change.before if change.after is None else change.after
    assert image is not None
    kind = "DELETE" if change.after is None else "INSERT" if change.before is None else "UPDATE"
    old = change.before if kind == "UPDATE" else None
    return b"", _message(
        table=change.table,
        head={"database": change.table.name.schema, "table": change.table.name.table, "isDdl": False, "type": kind, "sql": ""},
        images=(old, image),
        extension={"commitTs": commit_ts},
        ts=commit_ts,
        now_ms=now_ms,
    )


def resolved(ts: int, *, now_ms: int) -> tuple[None, bytes]:
    """Key (null) and value of a mark."""
    head = {"database": "", "table": "", "isDdl": False, "type": "TIDB_WATERMARK", "sql": ""}
    return None, _message(table=None, head=head, images=(None, None), extension={"watermarkTs": ts}, ts=ts, now_ms=now_ms)


def ddl(*, commit_ts: int, schema: str, table: str, query: str, action: int, now_ms: int) -> tuple[None, bytes]:
    head = {"database": schema, "table": table, "isDdl": True, "type": _DDL_TYPES.get(action, "QUERY"), "sql": query}
    return None, _message(table=None, head=head, images=(None, None), extension={"commitTs": commit_ts}, ts=commit_ts, now_ms=now_ms)


def _message(
    *,
    table: Table | None,
    head: dict[str, Any],
    images: tuple[Image | None, Image | None],
    extension: dict[str, int],
    ts: int,
    now_ms: int,
) -> bytes:
    old, data = (None if table is None or image is None else [_texts(table, image)] for image in images)
    fields = {
        "id": 0,
        "database": head["database"],
        "table": head["table"],
        "pkNames": list(table.primary) if table is not None and table.primary else None,
        "isDdl": head["isDdl"],
        "type": head["type"],
        "es": ms_of_tso(ts),
        "ts": now_ms,
        "sql": head["sql"],
        "sqlType": None if table is None or images[1] is None else _java_types(table, images[1]),
        "mysqlType": None if table is None else _mysql_types(table),
        "old": old,
        "data": data,
        "_tidb": extension,
    }
    return go_json(fields)


def _texts(table: Table, image: Image) -> dict[str, str | None]:
    return {name: None if value is None else text(value) for (name, text), value in zip(_encoders(table), image, strict=True)}


@lru_cache(maxsize=1024)
def _encoders(table: Table) -> list[tuple[str, Callable[[Any], str]]]:
    return [(column.name, _encoder(column)) for column in table.columns]


def _encoder(column: TableColumn) -> Callable[[Any], str]:
    if column.is_binary:
        return lambda value: bytes(value).decode("iso-8859-1")
    if column.encoding:
        return lambda value: bytes(value).decode(column.encoding)
    return plain_float if column.data_type in ("float", "double") else str


def _java_types(table: Table, image: Image) -> dict[str, int]:
    return {column.name: _java_type(column, value) for column, value in zip(table.columns, image, strict=True)}


def _java_type(column: TableColumn, value: Value) -> int:
    bound, promoted = _PROMOTED.get(column.data_type, (0, 0))
    if promoted and column.is_unsigned and isinstance(value, int) and value > bound:
        return promoted
    return _JAVA_TYPES[column.data_type]


@lru_cache(maxsize=1024)
def _mysql_types(table: Table) -> dict[str, str]:
    return {column.name: column.data_type + (" unsigned" if column.is_unsigned else "") for column in table.columns}
