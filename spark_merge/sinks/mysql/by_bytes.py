"""What texts have at a target that compares them otherwise than the source: a table that we make passes our own checks of it
(`tables.target_table`, `ddl_partitions.other_rows`).

Where the source's cluster compares bytes and the target's collations count (sidecar/shared/mysql/collation.py), a column compares bytes,
whether it is a key or becomes one later:

    MariaDB        its character set, and that one's …_nopad_bin
    MySQL, TiDB    utf8mb4, utf8mb4_0900_bin: no other character set has a collation that keeps spaces at the end apart

What RANGE COLUMNS goes by is ordered as in TiDB (compares.py), as far as the target can:

    by code points    utf8mb4, utf8mb4_0900_bin
    all others        at MariaDB the collation of that name with nopad; at MySQL what it is

Where a text comes into utf8mb4 it may have more bytes there than at the source, so its type is the first that holds each of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from sidecar.shared.model.nouns import ColumnDefinition, TableDefinition, lowered
from sidecar.shared.mysql.flavour import Flavour
from sidecar.shared.partition.clause import NotRead, read_clause
from sidecar.shared.rowcodec.type_cast import KINDS, column_type
from spark_merge.sinks.mysql.compares import comparison
from spark_merge.sinks.mysql.holds import holding_type

_LAST_WORD = re.compile(r"_(?=(bin|ci)$)")


class TextCharset(NamedTuple):
    """In TiDB's words; `ddl_dialect` has the target's."""

    charset: str
    collation: str


class MadeText(NamedTuple):
    """`type`: as the definition has it, or the one that holds its values there; empty: as the statement has it."""

    type: str
    charset: str
    collation: str


_BY_CODE_POINTS = TextCharset("utf8mb4", "utf8mb4_0900_bin")


def charset_by_bytes(charset: str, dialect: Flavour) -> TextCharset:
    if charset == "binary":
        return TextCharset(charset, charset)
    if dialect is Flavour.MARIADB and charset != "utf8mb4":
        return TextCharset(charset, f"{'utf8mb3' if charset == 'utf8' else charset}_nopad_bin")
    return _BY_CODE_POINTS


def made_texts(definition: TableDefinition, dialect: Flavour, *, by_bytes: bool) -> Mapping[str, MadeText]:
    """The columns that have another character set or collation than at the source, by their names in small letters. `by_bytes`: those of
    texts compare bytes at the source and not at the target."""
    ranged = _ranged(definition) if dialect is not Flavour.TIDB else frozenset()
    results: dict[str, MadeText] = {}
    for one in definition.columns:
        if one.charset and (by_bytes or lowered(one.name) in ranged):
            made = charset_by_bytes(one.charset, dialect) if by_bytes else TextCharset(one.charset, one.collation)
            if lowered(one.name) in ranged:
                by_code_points = not comparison(one.collation, by_bytes=by_bytes, at_tidb=True).order
                made = _BY_CODE_POINTS if by_code_points else _unpadded(made, dialect)
            results[lowered(one.name)] = _made(one, made)
    return results


def made_table(definition: TableDefinition, dialect: Flavour, *, by_bytes: bool) -> TableDefinition:
    """Columns that come later without a character set have the table's."""
    texts = made_texts(definition, dialect, by_bytes=by_bytes)
    table = TextCharset(definition.charset, definition.collation)
    if definition.charset and by_bytes:
        table = charset_by_bytes(definition.charset, dialect)
    columns = tuple(_as_made(one, texts[lowered(one.name)]) if lowered(one.name) in texts else one for one in definition.columns)
    return replace(definition, columns=columns, charset=table.charset, collation=table.collation)


def _ranged(definition: TableDefinition) -> frozenset[str]:
    """What RANGE COLUMNS goes by. What cannot be read stops where rows leave with a partition (ddl_partitions.py)."""
    if not definition.partitioning:
        return frozenset()
    try:
        clause = read_clause(definition.partitioning)
    except NotRead:
        return frozenset()
    return frozenset(map(lowered, clause.columns)) if clause.kind == "RANGE" else frozenset()


def _unpadded(made: TextCharset, dialect: Flavour) -> TextCharset:
    pads = comparison(made.collation, by_bytes=False, at_tidb=False).end == "padded"
    return made._replace(collation=_LAST_WORD.sub("_nopad_", made.collation)) if pads and dialect is Flavour.MARIADB else made


def _made(column: ColumnDefinition, made: TextCharset) -> MadeText:
    is_text = KINDS[column_type(column).name] == "text"
    return MadeText(holding_type(column, made.charset) if is_text else "", made.charset, made.collation)


def _as_made(column: ColumnDefinition, made: MadeText) -> ColumnDefinition:
    return replace(column, type_text=made.type or column.type_text, charset=made.charset, collation=made.collation)
