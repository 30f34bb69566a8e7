"""What a table is to TiCDC: its columns with type codes and flags, and its handle key, read from information_schema.

Type codes are the MySQL protocol's and flags TiCDC's (tiflow cdc/model/sink.go, schema_storage.go): 1 binary, 2 handle key,
8 primary key, 16 unique, 32 in an index of several columns or not unique, 64 nullable, 128 unsigned. MariaDB's JSON is a
LONGTEXT with a check of its own; here it is `json` again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sidecar.shared.model.nouns import Column, Kind, TableName, TableSchema

_TYPE_CODES = {
    "tinyint": 1, "smallint": 2, "int": 3, "float": 4, "double": 5, "timestamp": 7, "bigint": 8, "mediumint": 9, "date": 10,
    "time": 11, "datetime": 12, "year": 13, "varchar": 15, "varbinary": 15, "bit": 16, "decimal": 246, "enum": 247, "set": 248,
    "tinyblob": 249, "tinytext": 249, "mediumblob": 250, "mediumtext": 250, "longblob": 251, "longtext": 251, "blob": 252,
    "text": 252, "char": 254, "binary": 254, "json": 245,
}  # fmt: skip
_INTEGERS = frozenset(("tinyint", "smallint", "mediumint", "int", "bigint"))
_BINARIES = frozenset(("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"))
_TEXTS = frozenset(("char", "varchar", "tinytext", "text", "mediumtext", "longtext"))
_LABELS = frozenset(("enum", "set"))
_ENCODINGS = {"utf8mb4": "utf-8", "utf8mb3": "utf-8", "ascii": "ascii", "latin1": "cp1252"}

_FLAG_BINARY, _FLAG_HANDLE, _FLAG_PRIMARY, _FLAG_UNIQUE, _FLAG_MULTIPLE, _FLAG_NULLABLE, _FLAG_UNSIGNED = 1, 2, 8, 16, 32, 64, 128

_JSON_CHECK = re.compile(r"json_valid\(`(.+)`\)")
_LABEL = re.compile(r"'((?:[^']|'')*)'")


@dataclass(frozen=True, slots=True)
class TableColumn:
    """`data_type` is the type's first word; `length` n of binary(n) and bit(n); `digits` of the fraction; `encoding` Python's
    for a text, empty for anything else; `labels` of an enum or set."""

    name: str
    data_type: str
    type_code: int
    flags: int
    length: int
    digits: int
    encoding: str
    labels: tuple[str, ...]

    @property
    def is_handle(self) -> bool:
        return bool(self.flags & _FLAG_HANDLE)

    @property
    def is_unsigned(self) -> bool:
        """An integer's or a number's; TiCDC's flag is set on bit and year too."""
        return bool(self.flags & _FLAG_UNSIGNED) and self.data_type not in ("bit", "year")

    @property
    def is_binary(self) -> bool:
        return self.data_type in _BINARIES

    @property
    def is_integer(self) -> bool:
        return self.data_type in _INTEGERS

    @property
    def kind(self) -> Kind:
        if self.is_integer:
            return "uint" if self.is_unsigned else "int"
        if self.is_binary:
            return "binary"
        if self.data_type in _TEXTS:
            return "text"
        kind: Kind = self.data_type  # type: ignore[assignment]  # the other types are kinds by name
        return kind


@dataclass(frozen=True, slots=True, eq=False)  # one object a shape: hashed by identity, for each row
class Table:
    """`handle`: numbers of the handle key's columns, empty for a table that TiCDC does not replicate. `unique`: numbers of
    all columns of the primary and the unique keys. `primary`: names of the primary key's columns in its order."""

    name: TableName
    columns: tuple[TableColumn, ...]
    handle: tuple[int, ...]
    unique: tuple[int, ...]
    primary: tuple[str, ...]

    def schema(self) -> TableSchema:
        """As the product knows the table."""
        return TableSchema(self.name, tuple(map(_model_column, self.columns)), tuple(self.columns[at].name for at in self.handle))


@dataclass(frozen=True, slots=True)
class Index:
    """Its columns in order; the primary key is named PRIMARY."""

    name: str
    unique: bool
    columns: tuple[str, ...]


def read_tables(cursor: Any, *, only: TableName | None = None) -> dict[TableName, Table]:
    """Every base table outside the server's own schemas, or the requested one (empty if it does not exist)."""
    where = "table_schema not in ('mysql', 'sys', 'information_schema', 'performance_schema')"
    arguments: tuple[str, ...] = ()
    if only is not None:
        where, arguments = "table_schema = %s and table_name = %s", tuple(only)
    columns: dict[TableName, list[dict[str, Any]]] = {}
    cursor.execute(
        "select table_schema, table_name, column_name, data_type, column_type, is_nullable, character_octet_length,"
        " numeric_precision, numeric_scale, datetime_precision, character_set_name"
        f" from information_schema.columns join information_schema.tables using (table_schema, table_name) where {where}"
        " and table_type = 'BASE TABLE' order by table_schema, table_name, ordinal_position",
        arguments,
    )
    names = [str(field[0]).lower() for field in cursor.description]
    rows = cursor.fetchall()
    json_columns = _json_columns(cursor)
    for row in rows:
        result = dict(zip(names, row, strict=True))
        if (result["table_schema"], result["table_name"], result["column_name"]) in json_columns:
            result["data_type"] = "json"
        columns.setdefault(TableName(result["table_schema"], result["table_name"]), []).append(result)
    cursor.execute(
        "select table_schema, table_name, index_name, non_unique, column_name from information_schema.statistics"
        f" where {where} order by table_schema, table_name, index_name, seq_in_index",
        arguments,
    )
    parts: dict[TableName, dict[tuple[str, bool], list[str]]] = {}
    for schema, table, index, non_unique, column in cursor.fetchall():
        parts.setdefault(TableName(schema, table), {}).setdefault((index, not int(non_unique)), []).append(column)
    return {name: table_of(name, results, _indexes(parts.get(name, {}))) for name, results in columns.items()}


def _json_columns(cursor: Any) -> set[tuple[str, str, str]]:
    cursor.execute("select constraint_schema, table_name, check_clause from information_schema.check_constraints")
    result = ((schema, table, _JSON_CHECK.fullmatch(clause)) for schema, table, clause in cursor.fetchall())
    return {(schema, table, match[1]) for schema, table, match in result if match}


def _indexes(parts: Mapping[tuple[str, bool], list[str]]) -> list[Index]:
    return [Index(name, unique, tuple(columns)) for (name, unique), columns in parts.items()]


def table_of(name: TableName, columns: list[dict[str, Any]], indexes: list[Index]) -> Table:
    """`columns`: rows of information_schema.columns in order. The handle key is the primary key, else the unique key of the
    fewest columns, all NOT NULL; of several the first by name, where TiDB takes the oldest (so the rig has no such table)."""
    nullable = {column["column_name"] for column in columns if column["is_nullable"] == "YES"}
    primary = next((index.columns for index in indexes if index.name == "PRIMARY"), ())
    usable = [index.columns for index in indexes if index.unique and nullable.isdisjoint(index.columns)]
    handle = primary or min(usable, key=len, default=())
    numbers = {column["column_name"]: number for number, column in enumerate(columns)}
    made = tuple(_column(column, primary=primary, handle=handle, indexes=indexes) for column in columns)
    unique = sorted({numbers[column] for index in indexes if index.unique for column in index.columns})
    return Table(name, made, tuple(numbers[column] for column in handle), tuple(unique), primary)


def _column(value: dict[str, Any], *, primary: tuple[str, ...], handle: tuple[str, ...], indexes: list[Index]) -> TableColumn:
    name, data_type, column_type = value["column_name"], value["data_type"].lower(), value["column_type"]
    if data_type not in _TYPE_CODES:
        raise ValueError(f"the rig does not publish columns of type {column_type} ({name})")
    charset = value["character_set_name"]
    is_text = data_type in _TEXTS
    flags = 0 if is_text or data_type in _LABELS else _FLAG_BINARY
    flags |= _FLAG_HANDLE if name in handle else 0
    flags |= _FLAG_PRIMARY if name in primary else 0
    flags |= _FLAG_UNIQUE if any(name in index.columns for index in indexes if index.unique and index.name != "PRIMARY") else 0
    flags |= _FLAG_MULTIPLE if any(name in i.columns and (len(i.columns) > 1 or not i.unique) for i in indexes) else 0
    flags |= _FLAG_NULLABLE if value["is_nullable"] == "YES" else 0
    flags |= _FLAG_UNSIGNED if "unsigned" in column_type or data_type in ("bit", "year") else 0
    length = value["character_octet_length"] if data_type == "binary" else value["numeric_precision"]
    return TableColumn(
        name=name,
        data_type=data_type,
        type_code=_TYPE_CODES[data_type],
        flags=flags,
        length=int(length) if data_type in ("binary", "bit", "decimal") else -1,
        digits=int((value["numeric_scale"] if data_type == "decimal" else value["datetime_precision"]) or 0),
        encoding=_ENCODINGS[charset] if is_text or data_type == "json" else "",
        labels=tuple(label.replace("''", "'") for label in _LABEL.findall(column_type)) if data_type in _LABELS else (),
    )


def _model_column(column: TableColumn) -> Column:
    kind = column.kind
    return Column(
        name=column.name,
        kind=kind,
        nullable=bool(column.flags & _FLAG_NULLABLE),
        length=column.length,
        scale=column.digits if kind in ("decimal", "time", "datetime", "timestamp") else 0,
        elements=column.labels,
    )
