"""A PARTITION BY clause (model.TableDefinition.partitioning), read: what it goes by, and each partition's values.

Only what TiDB itself writes is read: names in backquotes, literals, NULL, MAXVALUE, DEFAULT, and expressions of columns with calls and
arithmetic. All else raises `NotRead`, whose text is what could not be read.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, TypeVar

from sidecar.shared.model.nouns import lowered
from sidecar.shared.sql.lexer import SqlToken, tokens

T = TypeVar("T")


class NotRead(ValueError):
    """The text is the part that is not understood."""


class Literal(NamedTuple):
    """`kind`: number, text, hex (`text` is the digits), NULL, MAXVALUE or DEFAULT."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class PartitionExpression:
    """`name` of a column, a `literal`, or a call: operators are calls of their sign, in upper case."""

    call: str = ""
    name: str = ""
    literal: int | None = None
    arguments: tuple[PartitionExpression, ...] = ()

    def columns(self) -> tuple[str, ...]:
        """In order, each once."""
        names = [self.name] if self.name else [name for one in self.arguments for name in one.columns()]
        return tuple(dict.fromkeys(names))


Rows: TypeAlias = "tuple[tuple[Literal, ...], ...]"


@dataclass(frozen=True, slots=True)
class Clause:
    """`kind`: RANGE, LIST, HASH or KEY. It goes by `columns`, or by `expression`. `names`: of the partitions, in small letters.
    `values`: of each its rows of literals: one row of bounds for RANGE; empty for HASH and KEY."""

    kind: str
    columns: tuple[str, ...]
    expression: PartitionExpression | None
    names: tuple[str, ...]
    values: tuple[Rows, ...] = ()

    @property
    def count(self) -> int:
        return len(self.names)


_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?")
_WORDS = frozenset({"NULL", "MAXVALUE", "DEFAULT"})
_SUMS, _PRODUCTS = frozenset({"+", "-"}), frozenset({"*", "/", "%", "DIV", "MOD"})


class _Reader:
    """One token ahead."""

    def __init__(self, text: str) -> None:
        self._tokens = list(tokens(text))
        self._place = 0
        for token in self._tokens:
            if token.kind in ("invalid", "variable") or token.text.startswith('"') or token.comment_before():
                raise NotRead(text[token.at : token.at + 40])

    def peek(self) -> str:
        """The next token, words in upper case; empty at the end."""
        token = self._tokens[self._place]
        return token.value if token.kind == "word" else token.text

    def take(self, *words: str) -> bool:
        """Whether the next tokens are these; then they are passed."""
        tokens = self._tokens[self._place : self._place + len(words)]
        if [token.value for token in tokens if token.kind in ("word", "sign")] != [*words]:
            return False
        self._place += len(words)
        return True

    def need(self, *words: str) -> None:
        if not self.take(*words):
            raise NotRead(f"{' '.join(words)} is expected, {self.peek() or 'nothing more'} is there")

    def next(self) -> SqlToken:
        if self.at_end():
            raise NotRead("nothing more")
        self._place += 1
        return self._tokens[self._place - 1]

    def at_end(self) -> bool:
        return self._tokens[self._place].kind == "end"

    def name(self) -> str:
        token = self.next()
        if token.kind not in ("name", "word"):
            raise NotRead(token.text)
        return token.name


def read_clause(text: str) -> Clause:
    """Raises NotRead."""
    reader = _Reader(text)
    reader.need("PARTITION", "BY")
    kind = reader.name().upper()
    if kind not in ("RANGE", "LIST", "HASH", "KEY"):
        raise NotRead(kind)
    by_columns = reader.take("COLUMNS") or kind == "KEY"
    reader.need("(")
    columns = _listed(reader, reader.name) if by_columns else ()
    expression = None if by_columns else _sum(reader)
    reader.need(")")
    if reader.take("PARTITIONS"):
        return Clause(kind, columns, expression, tuple(f"p{number}" for number in range(int(reader.next().text))))
    reader.need("(")
    partitions = _listed(reader, lambda: _partition(reader, kind))
    reader.need(")")
    if not reader.at_end():
        raise NotRead(reader.peek())
    return Clause(kind, columns, expression, tuple(name for name, _ in partitions), tuple(rows for _, rows in partitions))


def _listed(reader: _Reader, one: Callable[[], T]) -> tuple[T, ...]:
    items = [one()]
    while reader.take(","):
        items.append(one())
    return tuple(items)


def _partition(reader: _Reader, kind: str) -> tuple[str, Rows]:
    reader.need("PARTITION")
    return lowered(reader.name()), _rows(reader, kind)


def _rows(reader: _Reader, kind: str) -> Rows:
    if kind == "RANGE":
        reader.need("VALUES", "LESS", "THAN")
        return (_row(reader),)
    if kind == "LIST":
        reader.need("VALUES", "IN")
        reader.need("(")
        rows = _listed(reader, lambda: _row(reader) if reader.peek() == "(" else (_literal(reader),))
        reader.need(")")
        return rows
    return ()


def _row(reader: _Reader) -> tuple[Literal, ...]:
    reader.need("(")
    row = _listed(reader, lambda: _literal(reader))
    reader.need(")")
    return row


def _literal(reader: _Reader) -> Literal:
    minus = "-" if reader.take("-") else ""
    token = reader.next()
    if _NUMBER.fullmatch(token.text):
        return Literal("number", minus + token.text)
    if minus:
        raise NotRead(token.text)
    if token.kind == "word" and token.value in _WORDS:
        return Literal(token.value, "")
    if token.kind == "word" and token.value in ("_UTF8MB4", "_UTF8", "_BINARY"):
        token = reader.next()
    if token.kind == "string":
        return Literal("text", token.value)
    if token.kind == "number" and token.text.startswith("0x"):
        return Literal("hex", token.text[2:])
    raise NotRead(token.text)


# ---- expressions ----------------------------------------------------------------------------------------------------


def _sum(reader: _Reader) -> PartitionExpression:
    expression = _product(reader)
    while reader.peek() in _SUMS:
        sign = reader.next().text
        expression = PartitionExpression(sign, arguments=(expression, _product(reader)))
    return expression


def _product(reader: _Reader) -> PartitionExpression:
    expression = _single(reader)
    while reader.peek() in _PRODUCTS:
        sign = reader.next().value
        expression = PartitionExpression({"MOD": "%"}.get(sign, sign), arguments=(expression, _single(reader)))
    return expression


def _single(reader: _Reader) -> PartitionExpression:
    if reader.take("("):
        expression = _sum(reader)
        reader.need(")")
        return expression
    if reader.take("-"):
        return PartitionExpression("-", arguments=(PartitionExpression(literal=0), _single(reader)))
    token = reader.next()
    if token.kind == "number" and token.text.isdigit():
        return PartitionExpression(literal=int(token.text))
    if token.kind == "name":
        return PartitionExpression(name=token.name)
    if token.kind != "word":
        raise NotRead(token.text)
    if not reader.take("("):
        return PartitionExpression(name=token.name)
    arguments = _listed(reader, lambda: _sum(reader))
    reader.need(")")
    return PartitionExpression(token.value, arguments=arguments)
