"""A value expression of an event filter, evaluated here exactly as TiCDC's mounter does: for feeds that have no mounter in between.

    or    ─► and { OR and }             and  ─► not { AND not }            not ─► NOT ( or ) | ( or ) | test
    test  ─► column op literal | literal op column | column [NOT] IN (literal, …) | column [NOT] BETWEEN literal AND literal
             | column IS [NOT] NULL                                     op: = <> != < <= > >=

- Only what has one meaning in every TiDB and under every sql-mode is taken: a column beside literals of its own kind. Anything else is
  refused with its text, never guessed: no arithmetic, no functions, no casts between kinds, no dates (their literals are parsed), no
  `||`, no double quotes and no backslashes (their meaning is the sql-mode's).
- NULL is SQL's: a test of it is neither true nor false, and NOT leaves it so. An event is omitted where the whole is true.
- Text is compared byte by byte, as TiCDC does it, which switches collations off (8.1.2 and later); an enum is its label.
- A float's text is the double of its float32 value, which is what TiDB compares; decimals are exact.

Source: pingcap/tiflow and pingcap/ticdc pkg/filter/expr_filter.go; pingcap/tidb pkg/expression builtin_compare.go (getBaseCmpType),
builtin_other.go (IN), pkg/planner/core/expression_rewriter.go (BETWEEN).
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.model.nouns import Column, Kind, TableSchema
from sidecar.shared.sql.lexer import SqlToken, tokens
from sidecar.shared.ticdc.event_filter import ValueExpr

Row = Sequence[str | None]
"""Canonical texts, in the order of the table's columns."""
Test = Callable[[Row], bool | None]
"""None: neither true nor false."""

_WORDS = frozenset({"AND", "OR", "NOT", "IN", "BETWEEN", "IS", "NULL", "TRUE", "FALSE"})
_NUMBER = re.compile(r"[0-9]+\.?[0-9]*|\.[0-9]+")
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "<>": operator.ne, "!=": operator.ne,
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_EQUALITIES = frozenset({"=", "<>", "!="})

_INT_MAX, _INT_CHARACTERS_MAX = 2**63 - 1, 20
_DECIMAL_DIGITS_MAX, _DECIMAL_SCALE_MAX = 65, 30
_DEPTH_MAX = 50


class _Literal(NamedTuple):
    kind: str
    text: str


class ExprColumns(NamedTuple):
    """What an expression may look at. `usable`: the columns whose place TiCDC finds too: those before the first virtual one.
    `collations`: of text columns."""

    schema: TableSchema
    usable: Collection[str]
    collations: dict[str, str]


def check_form(expr: ValueExpr) -> None:
    """Raises FeedUnsuitable for what can be judged without a table."""
    _Parser(expr, None).whole()


def compiled_test(expr: ValueExpr, columns: ExprColumns) -> Test:
    """Raises FeedUnsuitable for what cannot be evaluated exactly."""
    return _Parser(expr, columns).whole()


class _Parser:
    def __init__(self, expr: ValueExpr, columns: ExprColumns | None) -> None:
        self._expr, self._columns = expr, columns
        self._tokens = self._read(expr.text)
        self._next = 0
        self._depth = 0

    def whole(self) -> Test:
        test = self._or()
        if self._tokens[self._next].kind != "end":
            raise self._refused("its end, AND or OR")
        return test

    # ---- tokens ---------------------------------------------------------------------------------------------------------

    def _read(self, text: str) -> list[SqlToken]:
        """Without what a sql-mode or a server's version gives its meaning."""
        in_text = list(tokens(text))
        for token in in_text:
            by_mode = token.kind == "string" and (token.text.startswith('"') or "\\" in token.text)
            other = token.kind in ("variable", "invalid") or (token.kind == "number" and not _NUMBER.fullmatch(token.text))
            if by_mode or other or token.comment_before():
                at = token.at - len(token.gap.lstrip())
                raise self._failed(f"has {text[at:].strip()[:10]!r} at character {at + 1}, which is no part of a value expression")
        return in_text

    def _take(self, *texts: str) -> str | None:
        """The next token if it is one of these words or signs."""
        token = self._tokens[self._next]
        if token.value not in texts or token.kind not in ("word", "sign"):
            return None
        self._next += 1
        return token.value

    def _expect(self, text: str) -> None:
        if self._take(text) is None:
            raise self._refused(text)

    def _refused(self, what: str) -> FeedUnsuitable:
        token = self._tokens[self._next]
        where = "ends" if token.kind == "end" else f"continues with {token.text!r} at character {token.at + 1},"
        return self._failed(f"{where} where {what} was expected")

    def _failed(self, what: str) -> FeedUnsuitable:
        of = f" of {self._columns.schema.name}" if self._columns else ""
        return FeedUnsuitable(
            f"{self._expr.setting},{of} ({self._expr.text}) cannot be evaluated here exactly as TiCDC does: it {what}",
            hint="compare columns with literals of their own kind (=, <>, <, <=, >, >=, IN, BETWEEN, IS NULL; integers, decimals, floats,"
            " text, enums, bits) and join that by AND, OR and NOT (…); or attach to a Kafka changefeed, whose TiCDC filters itself",
        )

    # ---- the grammar ----------------------------------------------------------------------------------------------------

    def _or(self) -> Test:
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise self._failed(f"is nested deeper than {_DEPTH_MAX}")
        parts = [self._and()]
        while self._take("OR"):
            parts.append(self._and())
        self._depth -= 1
        return parts[0] if len(parts) == 1 else lambda row: _any(parts, row)

    def _and(self) -> Test:
        parts = [self._not()]
        while self._take("AND", "&&"):
            parts.append(self._not())
        return parts[0] if len(parts) == 1 else lambda row: _all(parts, row)

    def _not(self) -> Test:
        negated = self._take("NOT") is not None
        if self._take("("):
            test = self._or()
            self._expect(")")
        elif negated:
            raise self._refused("( behind NOT")  # without, a sql-mode decides what NOT is of
        else:
            return self._test()
        return _negated(test) if negated else test

    def _test(self) -> Test:
        if (literal := self._literal()) is not None:
            sign = self._sign()
            return self._compare(_FLIPPED.get(sign, sign), self._column(), literal)
        column = self._column()
        if self._take("IS"):
            is_null = self._take("NOT") is None
            self._expect("NULL")
            return self._null(column, is_null=is_null)
        negated = self._take("NOT") is not None
        if self._take("IN"):
            test = self._in(column)
        elif self._take("BETWEEN"):
            low = self._compare(">=", column, self._some_literal())
            self._expect("AND")
            bounds = [low, self._compare("<=", column, self._some_literal())]
            test = lambda row: _all(bounds, row)  # noqa: E731  # a test like the others
        elif negated:
            raise self._refused("IN or BETWEEN")
        else:
            return self._compare(self._sign(), column, self._some_literal())
        return _negated(test) if negated else test

    def _in(self, column: str) -> Test:
        self._expect("(")
        each = [self._compare("=", column, self._some_literal())]
        while self._take(","):
            each.append(self._compare("=", column, self._some_literal()))
        self._expect(")")
        return lambda row: _any(each, row)

    def _sign(self) -> str:
        sign = self._take(*_COMPARE)
        if sign is None:
            raise self._refused("a comparison (=, <>, <, <=, >, >=)")
        return sign

    def _some_literal(self) -> _Literal:
        literal = self._literal()
        if literal is None:
            raise self._refused("a literal")
        return literal

    def _literal(self) -> _Literal | None:
        if truth := self._take("TRUE", "FALSE"):
            return _Literal("int", "1" if truth == "TRUE" else "0")
        minus = self._take("-") or ""
        token = self._tokens[self._next]
        if token.kind == "number":
            self._next += 1
            return _Literal("decimal" if "." in token.text else "int", minus + token.text)
        if minus:
            raise self._refused("a number")
        if token.kind != "string":
            return None
        self._next += 1
        return _Literal("text", token.value)

    def _column(self) -> str:
        """A name, or the table's and a name. The table is not known where only the form is looked at."""
        name = self._name()
        if not self._take("."):
            return name
        table = name.lower()
        if self._columns is not None and table != self._columns.schema.name.table.lower():
            raise self._failed(f"qualifies a column by {name!r}, which is not the table")
        return self._name()

    def _name(self) -> str:
        token = self._tokens[self._next]
        if token.kind != "name" and (token.kind != "word" or token.value in _WORDS):
            raise self._refused("a column")
        self._next += 1
        return token.name

    # ---- against a table ------------------------------------------------------------------------------------------------

    def _null(self, name: str, *, is_null: bool) -> Test:
        if self._columns is None:
            return _unknown
        at, _ = self._column_of(name)
        return lambda row: (row[at] is None) is is_null

    def _compare(self, sign: str, name: str, literal: _Literal) -> Test:
        if self._columns is None:
            return _unknown
        at, column = self._column_of(name)
        value = self._value(column, sign, literal)
        read, compare = _READ[column.kind], _COMPARE[sign]

        def test(row: Row) -> bool | None:
            text = row[at]
            return None if text is None else compare(read(text), value)

        return test

    def _column_of(self, name: str) -> tuple[int, Column]:
        assert self._columns is not None
        for at, column in enumerate(self._columns.schema.columns):
            if column.name.lower() == name.lower():
                if column.name not in self._columns.usable:
                    raise self._failed(f"looks at {name!r}, behind a virtual generated column, where TiCDC's two architectures differ")
                return at, column
        raise self._failed(f"looks at {name!r}, which is no column of the table that is stored")

    def _value(self, column: Column, sign: str, literal: _Literal) -> Any:
        """The literal as what the column's values are read as."""
        kind, text = column.kind, literal.text
        fits = literal.kind in _LITERALS.get(kind, ())
        if kind == "text":
            assert self._columns is not None
            fits = fits and self._columns.collations.get(column.name, "").startswith(("utf8", "ascii", "latin1"))
        if kind == "enum":
            fits = fits and sign in _EQUALITIES
        if literal.kind == "int":
            fits = fits and len(text) <= _INT_CHARACTERS_MAX and abs(int(text)) <= _INT_MAX
        if literal.kind == "decimal":
            digits, _, scale = text.lstrip("-").partition(".")
            fits = fits and len(digits) + len(scale) <= _DECIMAL_DIGITS_MAX and len(scale) <= _DECIMAL_SCALE_MAX
        if not fits:
            raise self._failed(f"compares {column.name!r}, of kind {kind}, by {sign} with {text!r}")
        return _READ[kind](text)


_LITERALS: dict[Kind, tuple[str, ...]] = {
    "int": ("int",), "uint": ("int",), "bit": ("int",), "decimal": ("int", "decimal"), "double": ("int", "decimal"),
    "float": ("int", "decimal"), "text": ("text",), "enum": ("text",),
}  # fmt: skip
"""By the kind of a column, those of the literals that TiDB compares it with as what it is."""

_READ: dict[Kind, Callable[[str], Any]] = {
    "int": int, "uint": int, "bit": int, "decimal": Decimal, "double": float, "float": float, "text": str.encode, "enum": str.encode,
}  # fmt: skip


def _unknown(_: Row) -> bool | None:
    return None


def _any(tests: Sequence[Test], row: Row) -> bool | None:
    answers = [test(row) for test in tests]
    return True if True in answers else None if None in answers else False


def _all(tests: Sequence[Test], row: Row) -> bool | None:
    answers = [test(row) for test in tests]
    return False if False in answers else None if None in answers else True


def _negated(test: Test) -> Test:
    def negated(row: Row) -> bool | None:
        answer = test(row)
        return None if answer is None else not answer

    return negated
