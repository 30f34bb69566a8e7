"""Tables for the rig's pure tests, made without a server."""

from __future__ import annotations

from typing import Any

from sidecar.shared.model.nouns import TableName
from tests.tools.rig.columns import Index, Table, table_of


def table(*columns: dict[str, Any], primary: tuple[str, ...] = ("id",), unique: tuple[tuple[str, ...], ...] = (), name: str = "t") -> Table:
    """`primary` empty: none. `unique`: more unique keys."""
    indexes = [Index("PRIMARY", True, primary)] if primary else []
    indexes += [Index(f"u{number}", True, key) for number, key in enumerate(unique)]
    return table_of(TableName("shop", name), list(columns), indexes)


def column(name: str, column_type: str, *, nullable: bool = True, **more: Any) -> dict[str, Any]:
    """As information_schema.columns has it; text is utf8mb4."""
    data_type, _, sizes = column_type.partition(" ")[0].partition("(")
    first, _, second = sizes.rstrip(")").partition(",")
    is_text = data_type in ("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set", "json")
    result = {
        "column_name": name,
        "data_type": data_type,
        "column_type": column_type,
        "is_nullable": "YES" if nullable else "NO",
        "character_octet_length": int(first) if data_type in ("binary", "varbinary") else None,
        "numeric_precision": int(first) if data_type in ("decimal", "bit") else None,
        "numeric_scale": int(second or 0) if data_type == "decimal" else None,
        "datetime_precision": int(first or 0) if data_type in ("time", "datetime", "timestamp") else None,
        "character_set_name": "utf8mb4" if is_text else None,
    }
    return result | more


ID = column("id", "int", nullable=False)
