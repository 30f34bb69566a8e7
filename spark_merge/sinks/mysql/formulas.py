"""Generated columns: the feed has the values of stored ones. The target computes them itself only where each server has the same result;
all others are plain columns there, and are written.
"""

from __future__ import annotations

from sidecar.core.model import ColumnDefinition, TableDefinition, lowered
from sidecar.mysql.flavour import Flavour
from sidecar.rowcodec.type_cast import column_type
from sidecar.sql.lexer import tokens

_CERTAIN_SIGNS = frozenset("()+-*,")
_NUMBERS = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "decimal"})
_TEXTS = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})


def plain_columns(definition: TableDefinition, flavour: Flavour) -> frozenset[str]:
    """The generated columns that the target is given as plain ones, folded: their values are in the feed."""
    if flavour is Flavour.TIDB:
        return frozenset()
    return frozenset(lowered(one.name) for one in definition.columns if one.generated and one.stored and not is_certain(one, definition))


def is_certain(column: ColumnDefinition, definition: TableDefinition) -> bool:
    """Whether each server has the same result: sums, differences and products of integers and decimals that are stored as such, and texts
    that are put together."""
    types = {lowered(one.name): column_type(one).name for one in definition.columns}
    used = list(tokens(column.generated))[:-1]
    names = {lowered(one.name) for one in used if one.kind == "name" or (one.kind == "word" and lowered(one.name) in types)}
    words = {one.value for one in used if one.kind == "word" and lowered(one.name) not in types}
    signs = {one.text for one in used if one.kind == "sign"}
    if not names <= types.keys() or not signs <= _CERTAIN_SIGNS or any(one.kind in ("invalid", "foreign") for one in used):
        return False
    of = {types[name] for name in names} | {column_type(column).name}
    strings = any(one.kind == "string" for one in used)
    if of <= _NUMBERS:
        return not words and not strings and all(one.text.isdecimal() for one in used if one.kind == "number")
    return of <= _TEXTS and words <= {"CONCAT", "_UTF8MB4"} and not signs & set("+-*") and all(one.kind != "number" for one in used)
