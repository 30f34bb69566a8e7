"""A column's default as TiDB keeps it and TiCDC writes it: the value's text, or that of an expression.

The log has it as SQL (ColumnDefinition). What TiCDC's encoders make of the text depends on the protocol.
"""

from __future__ import annotations

import re

from sidecar.shared.model.nouns import ColumnDefinition
from sidecar.shared.sql.lexer import tokens

_NOW = re.compile(r"(CURRENT_TIMESTAMP)(\(\d\))?")


def default_bits(column: ColumnDefinition) -> int | None:
    """Of a BIT; None without a default."""
    return int(column.default[2:-1] or "0", 2) if column.default is not None and column.default.startswith("b'") else None


def default_text(column: ColumnDefinition) -> str | None:
    """As TableInfo has it: the value's text, or that of an expression."""
    sql = column.default
    if sql is None:
        return None
    if now := _NOW.fullmatch(sql):
        return now[1]
    if (number := default_bits(column)) is not None:
        return number.to_bytes(max(1, (number.bit_length() + 7) // 8), "big").decode(errors="replace")
    if sql.startswith("'"):
        return next(tokens(sql)).value
    return sql[1:-1] if sql.startswith("(") and sql.endswith(")") else sql
