"""What texts have at a target whose collations count, where the source's cluster compares their bytes (sidecar/shared/mysql/collation.py).

A column that we make passes our own check of it (`tables.target_table`). So it compares bytes, whether it is a key or becomes one later:

    MariaDB        its character set, and that one's …_nopad_bin
    MySQL, TiDB    utf8mb4, utf8mb4_0900_bin: no other character set has a collation that keeps spaces at the end apart

Where a text comes into utf8mb4 it may have more bytes there than at the source, so its type is the first that holds each of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from sidecar.shared.model.nouns import ColumnDefinition, TableDefinition, lowered
from sidecar.shared.mysql.flavour import Flavour
from sidecar.shared.rowcodec.type_cast import KINDS, column_type
from spark_merge.sinks.mysql.holds import holding_type


class TextCharset(NamedTuple):
    """In TiDB's words; `ddl_dialect` has the target's."""

    charset: str
    collation: str


class MadeText(NamedTuple):
    """`type`: as the definition has it, or the one that holds its values there; empty: as the statement has it."""

    type: str
    charset: str
    collation: str


def charset_by_bytes(charset: str, dialect: Flavour) -> TextCharset:
    if charset == "binary":
        return TextCharset(charset, charset)
    if dialect is Flavour.MARIADB and charset != "utf8mb4":
        return TextCharset(charset, f"{'utf8mb3' if charset == 'utf8' else charset}_nopad_bin")
    return TextCharset("utf8mb4", "utf8mb4_0900_bin")


def texts_by_bytes(definition: TableDefinition, dialect: Flavour) -> Mapping[str, MadeText]:
    """Of its columns that have a character set, by their names in small letters."""
    return {lowered(one.name): _made(one, dialect) for one in definition.columns if one.charset}


def table_by_bytes(definition: TableDefinition, dialect: Flavour) -> TableDefinition:
    """Columns that come later without a character set have the table's."""
    texts = texts_by_bytes(definition, dialect)
    table = TextCharset(definition.charset, definition.collation)
    if definition.charset:
        table = charset_by_bytes(definition.charset, dialect)
    columns = tuple(_as_made(one, texts[lowered(one.name)]) if one.charset else one for one in definition.columns)
    return replace(definition, columns=columns, charset=table.charset, collation=table.collation)


def _made(column: ColumnDefinition, dialect: Flavour) -> MadeText:
    made = charset_by_bytes(column.charset, dialect)
    is_text = KINDS[column_type(column).name] == "text"
    return MadeText(holding_type(column, made.charset) if is_text else "", made.charset, made.collation)


def _as_made(column: ColumnDefinition, made: MadeText) -> ColumnDefinition:
    return replace(column, type_text=made.type or column.type_text, charset=made.charset, collation=made.collation)
