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
    formulas = (_Formula(one, definition) for one in _stored(definition, flavour))
    return frozenset(one.name for one in formulas if not (one.is_certain() and one.fits()))


def differing_columns(definition: TableDefinition, flavour: Flavour) -> frozenset[str]:
    """Those that may have other values than in the feed where the target generates them, folded."""
    return frozenset(one.name for one in (_Formula(one, definition) for one in _stored(definition, flavour)) if not one.is_certain())


def _stored(definition: TableDefinition, flavour: Flavour) -> Iterable[ColumnDefinition]:
    return () if flavour is Flavour.TIDB else (one for one in definition.columns if one.generated and one.stored)


class _Span(NamedTuple):
    """From `low` to `high`, with so many digits behind the point; None: a whole number."""

    low: Fraction
    high: Fraction
    scale: int | None = None


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

    def is_certain(self) -> bool:
        """Whether each server has the same result, where it has one: sums, differences and products of integers and decimals that are
        stored as such, and texts that are put together."""
        words = {one.value for one in self._used if one.kind == "word" and not self._is_column(one)}
        signs = self._signs()
        if not {*self._columns} <= self._types.keys() or not signs <= _CERTAIN_SIGNS:
            return False
        if any(one.kind in ("invalid", "foreign") for one in self._used):
            return False
        of = {self._types[name].name for name in self._columns} | {self._type.name}
        strings = any(one.kind == "string" for one in self._used)
        if of <= _NUMBERS:
            return not words and not strings and all(one.text.isdecimal() for one in self._used if one.kind == "number")
        return (
            of <= _TEXTS and words <= {"CONCAT", "_UTF8MB4"} and not signs & set("+-*") and all(one.kind != "number" for one in self._used)
        )

    def fits(self) -> bool:
        """Of a certain one, whether the column takes every result, whatever the session at the source was."""
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
        unsigned = any(self._types[name].unsigned for name in self._columns)
        if unsigned and "-" in self._signs():
            return False
        spans = {f"c{place}": _span_of(self._types[name]) for place, name in enumerate(self._columns)}
        names = iter(spans)
        text = " ".join(next(names) if self._is_column(one) else one.text for one in self._used)
        try:
            made = _span(ast.parse(text, mode="eval").body, spans, _UNSIGNED if unsigned else _BIGINT)
        except (SyntaxError, ValueError):
            return False
        mine = _span_of(self._type)
        half = Fraction(1, 2 * 10 ** (mine.scale or 0))
        return mine.low - half < made.low and made.high < mine.high + half


def _text(one: ColumnType) -> Typed:
    return Typed(Column("", "text"), one)


def _span_of(one: ColumnType) -> _Span:
    numbers = exact("decimal" if one.name == "decimal" else "int", one)
    return _Span(numbers.least(), numbers.greatest(), numbers.scale if one.name == "decimal" else None)


def _span(node: ast.expr, spans: Mapping[str, _Span], whole: tuple[int, int]) -> _Span:
    """Signs and parentheses are Python's, too. `whole`: what a whole number of theirs is between. Raises ValueError for what may be too
    long for a DECIMAL, and is cut in each server's own way."""
    match node:
        case ast.Name(name):
            return spans[name]
        case ast.Constant(int(number)):
            return _Span(Fraction(number), Fraction(number))
        case ast.UnaryOp(ast.USub(), operand):
            one = _span(operand, spans, whole)
            return _Span(-one.high, -one.low, one.scale)
        case ast.BinOp(left, operator, right):
            return _combined(_span(left, spans, whole), operator, _span(right, spans, whole), whole)
    raise ValueError(ast.dump(node))


def _combined(one: _Span, operator: ast.operator, other: _Span, whole: tuple[int, int]) -> _Span:
    match operator:
        case ast.Add():
            ends = [one.low + other.low, one.high + other.high]
        case ast.Sub():
            ends = [one.low - other.high, one.high - other.low]
        case _:
            ends = [left * right for left in (one.low, one.high) for right in (other.low, other.high)]
    if one.scale is None and other.scale is None:
        low, high = (min(max(end, Fraction(whole[0])), Fraction(whole[1])) for end in (min(ends), max(ends)))
        return _Span(low, high)
    scales = (one.scale or 0, other.scale or 0)
    scale = sum(scales) if isinstance(operator, ast.Mult) else max(scales)
    if scale > _SCALE_MAX or max(map(abs, ends)) >= 10 ** (_DIGITS_MAX - scale):
        raise ValueError("a DECIMAL that is too long")
    return _Span(min(ends), max(ends), scale)
