"""A table's columns as TiCDC's storage sink writes them in a schema file, and the checksum that is in the file's name.

The checksum is the CRC-32 of the file's JSON with the columns sorted by name, Version 0, and without TableVersion, Query and Type. A reader
makes it again out of what it has read.

- Lengths that a type does not tell are TiDB's defaults. YEAR and BIT are UNSIGNED, as TiDB has them.
- Virtual generated columns are omitted, as they are of the rows: TiCDC lists them, and then its own reader of csv takes rows as too short.
- The labels of ENUM and SET are in files of the new architecture (ColumnElems), and so in its checksum; a reader of the classic one would
  not know them, and stop.
- A view, and a table of which the log has no columns, has none here.

Source: pingcap/tiflow pkg/sink/cloudstorage/table_definition.go, pingcap/ticdc pkg/cloudstorage/schema_file.go; the recordings.
"""

from __future__ import annotations

import json
import re
import zlib
from dataclasses import dataclass, field
from typing import Any

from sidecar.shared.errors import SinkError, UnsupportedDdl
from sidecar.shared.log.manifest import DdlRecord
from sidecar.shared.model.nouns import Column, ColumnDefinition, TableName, TableSchema
from sidecar.shared.ticdc.ddl_text import action_of
from spark_merge.codecs.decode.canal_json import kind_of
from spark_merge.codecs.encode.defaults import default_text
from spark_merge.codecs.encode.go_json import string
from spark_merge.codecs.encode.messages import Architecture, definition_of
from spark_merge.sinks.storage.layout import schema_path

_TYPE = re.compile(r"([a-z]+)(?:\((.*)\))?((?: unsigned)?)(?: zerofill)?", re.DOTALL)
_ALWAYS_UNSIGNED = frozenset({"year", "bit"})
_LENGTHS = {
    "tinyint": 4, "smallint": 6, "mediumint": 9, "int": 11, "bigint": 20, "bit": 1, "year": 4, "float": 12, "double": 22, "decimal": 10,
    "char": 1, "binary": 1, "tinytext": 255, "tinyblob": 255, "text": 65535, "blob": 65535, "mediumtext": 16777215, "mediumblob": 16777215,
    "longtext": 4294967295, "longblob": 4294967295,
}  # fmt: skip
"""TiDB's, where the type's text has none."""

_SIZED = _LENGTHS.keys() | {"varchar", "varbinary"}
_OF_TIME = frozenset({"time", "datetime", "timestamp"})
_LABELLED = frozenset({"enum", "set"})


@dataclass(frozen=True, slots=True)
class SchemaFile:
    """`columns`: each TiCDC's fields in their order. `query` and `action`: of the DDL that made it; empty and 0 for none."""

    name: TableName
    version: int
    columns: tuple[dict[str, Any], ...] = ()
    query: str = ""
    action: int = 0
    checksum: int = field(init=False)

    def __post_init__(self) -> None:
        in_order = sorted(self.columns, key=lambda column: column["ColumnName"].encode())
        head = {"Table": self.name.table, "Schema": self.name.schema, "Version": 0}
        object.__setattr__(self, "checksum", zlib.crc32(_go_json({**head, **_tail(in_order)}).encode()))

    @property
    def path(self) -> str:
        return schema_path(self.name, self.version, self.checksum)

    def text(self) -> str:
        head = {"Table": self.name.table, "Schema": self.name.schema, "Version": 1, "TableVersion": self.version}
        return _go_json({**head, "Query": self.query, "Type": self.action, **_tail(list(self.columns) or None)})


def _tail(columns: list[dict[str, Any]] | None) -> dict[str, Any]:
    return {"TableColumns": columns, "TableColumnsTotal": len(columns or ())}


def schema_file(name: TableName, table: TableSchema | None, version: int, architecture: Architecture, ddl: DdlRecord | None) -> SchemaFile:
    """Of `table` under `name`. Raises SinkError where the log does not tell what it was made of."""
    columns = () if table is None or not table.columns else table_columns(table, architecture)
    if ddl is None:
        return SchemaFile(name, version, columns)
    try:
        action = int(action_of(ddl.query))
    except UnsupportedDdl:
        action = 0  # a reader goes by the statement
    return SchemaFile(name, version, columns, ddl.query, action)


def table_columns(table: TableSchema, architecture: Architecture) -> tuple[dict[str, Any], ...]:
    definition = definition_of(table)
    primary = {part.column.lower() for index in definition.indexes if index.primary for part in index.parts}
    labels = {column.name: column.elements for column in table.columns} if architecture == "new" else {}
    written_columns = [column for column in definition.columns if not column.generated or column.stored]
    return tuple(_column(table.name, one, one.name.lower() in primary, labels.get(one.name, ())) for one in written_columns)


def _column(table: TableName, column: ColumnDefinition, is_primary: bool, labels: tuple[str, ...]) -> dict[str, Any]:
    match = _TYPE.fullmatch(column.type_text)
    if match is None:
        raise SinkError(
            f"table {table}, column {column.name}: its type {column.type_text} is not known to TiCDC's storage layout",
            hint="leave the table out of this sink (filter rules of the changefeed), and report this",
        )
    word, inside, unsigned = match.groups()
    length, _, scale = (inside or "").partition(",")
    made: dict[str, Any] = {
        "ColumnName": column.name,
        "ColumnType": word.upper() + (" UNSIGNED" if unsigned or word in _ALWAYS_UNSIGNED else ""),
        "ColumnDefault": default_text(column),
        "ColumnPrecision": (length or str(_LENGTHS[word])) if word in _SIZED else None,
        "ColumnScale": _scale(word, length, scale),
        "ColumnNullable": None if column.nullable else "false",
        "ColumnIsPk": "true" if is_primary else None,
        "ColumnElems": list(labels) if word in _LABELLED and labels else None,
    }
    return {name: value for name, value in made.items() if value is not None}


def _scale(word: str, length: str, scale: str) -> str | None:
    if word == "decimal":
        return scale or "0"
    digits = length if word in _OF_TIME else scale if word in ("float", "double") else ""
    return digits if digits not in ("", "0") else None


def column_of(fields: dict[str, Any]) -> Column:
    """What a column's fields say of its values. Labels are not in files of the classic architecture."""
    words = str(fields["ColumnType"]).lower()
    kind = kind_of(words)
    if kind is None:
        raise ValueError(f"type {words}")
    scale = int(fields.get("ColumnScale") or 0) if kind in ("decimal", "time", "datetime", "timestamp") else 0
    length = int(fields.get("ColumnPrecision") or -1) if words.partition(" ")[0] in ("binary", "bit", "decimal") else -1
    return Column(str(fields["ColumnName"]), kind, length=length, scale=scale, elements=tuple(fields.get("ColumnElems") or ()))


# ---- JSON as Go's MarshalIndent ------------------------------------------------------------------------------------------


def _go_json(value: object, indent: str = "\n") -> str:
    deeper = indent + "    "
    match value:
        case dict():
            return (
                "{" + ",".join(f"{deeper}{string(name, html=True)}: {_go_json(one, deeper)}" for name, one in value.items()) + indent + "}"
            )
        case list() if value:
            return "[" + ",".join(deeper + _go_json(one, deeper) for one in value) + indent + "]"
        case str():
            return string(value, html=True)
        case _:
            return json.dumps(value)
