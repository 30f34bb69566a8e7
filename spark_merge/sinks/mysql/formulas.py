"""Generated columns: the feed has the values of stored ones. The target computes them itself only where each server has the same result,
and the column holds each result; all others are plain columns there, and are written.

What does not fit is cut, or below zero, in some sessions of TiDB, and the target rejects such a row (`fits`). A column that is generated at
the target may be of that kind: the error of the row names it. It may not have another result (`differing_columns`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import NamedTuple

from sidecar.shared.model.nouns import Column, ColumnDefinition, TableDefinition, lowered
from sidecar.shared.mysql.flavour import Flavour
from sidecar.shared.rowcodec.type_cast import ColumnType, column_type
from sidecar.shared.sql.lexer import SqlToken, tokens
from spark_merge.ddl.conversion import Typed, capacity, longest
from spark_merge.sinks.mysql.holds import exact

_CERTAIN_SIGNS = frozenset("()+-*,")
_NUMBERS = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "decimal"})
_TEXTS = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})
_DIGITS_MAX, _SCALE_MAX = 65, 30
"""Of a DECIMAL in TiDB; other servers have more."""
_BIGINT, _UNSIGNED = (-(1 << 63), (1 << 63) - 1), (0, (1 << 64) - 1)
"""What is beyond is an error at each server, in each session."""


def plain_columns(definition: TableDefinition, flavour: Flavour) -> frozenset[str]:
    """The generated columns that the target is given as plain ones, folded: their values are in the feed."""
    return frozenset(one.name for one in _judged(definition, flavour) if not (one.is_same() and one.fits()))


def differing_columns(definition: TableDefinition, flavour: Flavour) -> frozenset[str]:
    """Those that may have other values than in the feed where the target generates them, folded."""
    return frozenset(one.name for one in _judged(definition, flavour) if not one.is_same())


def _judged(definition: TableDefinition, flavour: Flavour) -> Iterable[_Formula]:
    """Of the stored columns. TiDB has the result of each but those over a column that the changefeed omits."""
    formulas = (_Formula(one, definition) for one in definition.columns if one.generated and one.stored)
    return (one for one in formulas if flavour is not Flavour.TIDB or not one.has_columns())


class _Span(NamedTuple):
    """From `low` to `high`, with so many digits behind the point; None: a whole number, a BIGINT or an `unsigned` one."""

    low: Fraction
    high: Fraction
    scale: int | None = None
    unsigned: bool = False


class _Formula:
    def __init__(self, column: ColumnDefinition, definition: TableDefinition) -> None:
        self.name = lowered(column.name)
        self._type = column_type(column)
        self._types = {lowered(one.name): column_type(one) for one in definition.columns}
        self._used = list(tokens(column.generated))[:-1]
        self._columns = [lowered(one.name) for one in self._used if self._is_column(one)]

    def _is_column(self, one: SqlToken) -> bool:
        return one.kind == "name" or (one.kind == "word" and lowered(one.name) in self._types)

    def _signs(self) -> set[str]:
        return {one.text for one in self._used if one.kind == "sign"}

    def has_columns(self) -> bool:
        """Whether the table has each column that it names."""
        return {*self._columns} <= self._types.keys()

    def is_same(self) -> bool:
        """Whether each server has the same result, where it has one: sums, differences and products of integers and decimals that are
        stored as such and are no longer than a DECIMAL of TiDB in between, and texts that are put together."""
        words = {one.value for one in self._used if one.kind == "word" and not self._is_column(one)}
        signs = self._signs()
        if not self.has_columns() or not signs <= _CERTAIN_SIGNS:
            return False
        if any(one.kind in ("invalid", "foreign") for one in self._used):
            return False
        of = {self._types[name].name for name in self._columns} | {self._type.name}
        strings = any(one.kind == "string" for one in self._used)
        if of <= _NUMBERS:
            plain = not words and not strings and all(one.text.isdecimal() for one in self._used if one.kind == "number")
            return plain and self._made() is not None
        return (
            of <= _TEXTS and words <= {"CONCAT", "_UTF8MB4"} and not signs & set("+-*") and all(one.kind != "number" for one in self._used)
        )

    def fits(self) -> bool:
        """Of one that is the same, whether the column takes every result, whatever the session at the source was."""
        return self._fits_text() if self._type.name in _TEXTS else self._fits_number()

    # ---- texts ---------------------------------------------------------------------------------------------------------

    def _fits_text(self) -> bool:
        parts = [self._types[name] for name in self._columns]
        literals = "".join(one.value for one in self._used if one.kind == "string")
        if self._type.charset != "utf8mb4" and not (literals.isascii() and {one.charset for one in parts} <= {self._type.charset}):
            return False
        return sum(longest(_text(one)) for one in parts) + len(literals) <= capacity(_text(self._type))

    # ---- numbers -------------------------------------------------------------------------------------------------------

    def _fits_number(self) -> bool:
        """A difference of unsigned numbers is below zero in a session with NO_UNSIGNED_SUBTRACTION."""
        made = self._made()
        if made is None or ("-" in self._signs() and any(self._types[name].unsigned for name in self._columns)):
            return False
        mine = _span_of(self._type)
        half = Fraction(1, 2 * 10 ** (mine.scale or 0))
        return mine.low - half < made.low and made.high < mine.high + half

    def _made(self) -> _Span | None:
        """None: not known, or too long for a DECIMAL, which each server cuts in its own way."""
        spans = {f"c{place}": _span_of(self._types[name]) for place, name in enumerate(self._columns)}
        names = iter(spans)
        text = " ".join(next(names) if self._is_column(one) else one.text for one in self._used)
        try:
            return _span(ast.parse(text, mode="eval").body, spans)
        except (SyntaxError, ValueError):
            return None


def _text(one: ColumnType) -> Typed:
    return Typed(Column("", "text"), one)


def _span_of(one: ColumnType) -> _Span:
    if one.name == "decimal":
        numbers = exact("decimal", one)
        return _Span(numbers.least(), numbers.greatest(), numbers.scale)
    numbers = exact("int", one)
    return _Span(numbers.least(), numbers.greatest(), unsigned=one.unsigned)


def _span(node: ast.expr, spans: Mapping[str, _Span]) -> _Span:
    """Signs and parentheses are Python's, too. Raises ValueError for what may be too long for a DECIMAL, and for all else."""
    match node:
        case ast.Name(name):
            return spans[name]
        case ast.Constant(int(number)) if number <= _UNSIGNED[1]:
            return _Span(Fraction(number), Fraction(number), unsigned=number > _BIGINT[1])
        case ast.UnaryOp(ast.USub(), operand):
            one = _span(operand, spans)
            return _Span(-one.high, -one.low, one.scale)
        case ast.BinOp(left, operator, right):
            return _combined(_span(left, spans), operator, _span(right, spans))
    raise ValueError(ast.dump(node))


def _combined(one: _Span, operator: ast.operator, other: _Span) -> _Span:
    match operator:
        case ast.Add():
            ends = [one.low + other.low, one.high + other.high]
        case ast.Sub():
            ends = [one.low - other.high, one.high - other.low]
        case _:
            ends = [left * right for left in (one.low, one.high) for right in (other.low, other.high)]
    if one.scale is None and other.scale is None:
        unsigned = one.unsigned or other.unsigned
        least, greatest = _UNSIGNED if unsigned else _BIGINT
        low, high = (min(max(end, Fraction(least)), Fraction(greatest)) for end in (min(ends), max(ends)))
        return _Span(low, high, unsigned=unsigned)
    scales = (one.scale or 0, other.scale or 0)
    scale = sum(scales) if isinstance(operator, ast.Mult) else max(scales)
    if scale > _SCALE_MAX or max(map(abs, ends)) >= 10 ** (_DIGITS_MAX - scale):
        raise ValueError("a DECIMAL that is too long")
    return _Span(min(ends), max(ends), scale)
