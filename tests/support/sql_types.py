"""The widest SQL type of a column's kind, as COLUMN_TYPE has it."""

from __future__ import annotations

from sidecar.shared.model.nouns import Column
from sidecar.shared.sql.text import Shows, shown

_WIDEST = {"int": "bigint(20)", "uint": "bigint(20) unsigned", "text": "longtext", "year": "year(4)"}


def sql_type(column: Column) -> str:
    match column.kind:
        case "decimal":
            return f"decimal({column.length},{column.scale})"
        case "bit":
            return f"bit({column.length})"
        case "time" | "datetime" | "timestamp" if column.scale:
            return f"{column.kind}({column.scale})"
        case "binary":
            return "longblob" if column.length < 0 else f"binary({column.length})"
        case "enum" | "set":
            return f"{column.kind}({shown(column.elements, Shows.TIDB)})"
        case kind:
            return _WIDEST.get(kind, kind)
