"""A table as Debezium's schema change messages describe it: `tableChanges`, of the table after a DDL.

    type   CREATE, ALTER, DROP         id   "schema"."table"         table   null after a DROP

`jdbcType` is java.sql.Types' number as Debezium's MySQL connector resolves it. Without the table's definition there is no description.
Source: debezium at aad55199, ConnectTableChangeSerializer.java, MySqlAntlrDdlParser.java.
"""

from __future__ import annotations

import re
from typing import Any

from sidecar.shared.model.nouns import Column, ColumnDefinition, TableName, TableSchema

_JDBC_TYPES = {
    "tinyint": 5, "smallint": 5, "mediumint": 4, "int": 4, "bigint": -5, "float": 6, "double": 8, "decimal": 3, "char": 1, "varchar": 12,
    "tinytext": 12, "text": 12, "mediumtext": 12, "longtext": 12, "binary": -2, "varbinary": -3, "tinyblob": 2004, "blob": 2004,
    "mediumblob": 2004, "longblob": 2004, "enum": 1, "set": 1, "bit": -7, "date": 91, "time": 92, "datetime": 93, "timestamp": 2014,
    "year": 4, "json": 1111, "vector": 1111,
}  # fmt: skip
_OTHER = 1111
_TYPE = re.compile(r"([a-z]+)(?:\((\d+)(?:,(\d+))?\))?")


def table_changes(before: TableSchema | None, after: TableSchema | None) -> list[dict[str, Any]]:
    """Of one DDL, with its table before and after it; empty where neither is known."""
    if after is None:
        return [] if before is None else [{"type": "DROP", "id": _id(before.name), "table": None}]
    if after.definition is None:
        return []
    kind = "CREATE" if before is None else "ALTER"
    return [{"type": kind, "id": _id(after.name), "table": _table(after)}]


def _id(table: TableName) -> str:
    return ".".join(f'"{part.replace(chr(34), chr(34) * 2)}"' for part in table)


def _table(schema: TableSchema) -> dict[str, Any]:
    assert schema.definition is not None, "only such tables are described"
    shapes = {column.name: column for column in schema.columns}
    columns = [_column(one, place, shapes.get(one.name)) for place, one in enumerate(schema.definition.columns, 1)]
    return {
        "defaultCharsetName": schema.definition.charset or None,
        "primaryKeyColumnNames": list(schema.key),
        "columns": columns,
        "comment": None,
    }


def _column(one: ColumnDefinition, position: int, shape: Column | None) -> dict[str, Any]:
    match = _TYPE.match(one.type_text)
    word, length, scale = match.groups() if match else (one.type_text, None, None)
    name = f"{word} unsigned" if " unsigned" in one.type_text else word
    return {
        "name": one.name,
        "jdbcType": _JDBC_TYPES.get(word, _OTHER),
        "nativeType": None,
        "typeName": name.upper(),
        "typeExpression": name.upper(),
        "charsetName": one.charset or None,
        "length": None if length is None else int(length),
        "scale": None if scale is None else int(scale),
        "position": position,
        "optional": one.nullable,
        "autoIncremented": False,
        "generated": bool(one.generated),
        "comment": None,
        "defaultValueExpression": one.default,
        "enumValues": [f"'{label}'" for label in shape.elements] if shape is not None and shape.elements else None,
    }
