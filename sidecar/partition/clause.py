"""A PARTITION BY clause (model.TableDefinition.partitioning), read: what it goes by, and each partition's values.

Only what TiDB itself writes is read: names in backquotes, literals, NULL, MAXVALUE, DEFAULT, and expressions of columns with calls and
arithmetic. All else raises `NotRead`, whose text is what could not be read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from sidecar.schema.sql_text import unescaped

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
        found = [self.name] if self.name else [name for one in self.arguments for name in one.columns()]
        return tuple(dict.fromkeys(found))


@dataclass(frozen=True, slots=True)
class Clause:
    """`kind`: RANGE, LIST, HASH or KEY. It goes by `columns`, or by `expression`. `values`: of each partition its rows of literals: one row
    of bounds for RANGE; empty for HASH and KEY."""

    kind: str
    columns: tuple[str, ...]
    expression: PartitionExpression | None
    values: tuple[tuple[tuple[Literal, ...], ...], ...] = field(default=())
    count: int = 0


_TOKEN = re.compile(
    r"\s*(?:(?P<name>`(?:[^`]|``)*`)|(?P<text>'(?:[^'\\]|''|\\.)*')|(?P<hex>0x[0-9a-fA-F]+)|(?P<number>\d+(?:\.\d+)?)"
    r"|(?P<word>\w+)|(?P<sign>[-+*/%(),]))",
    re.DOTALL,
)
_WORDS = frozenset({"NULL", "MAXVALUE", "DEFAULT"})
_SUMS, _PRODUCTS = frozenset({"+", "-"}), frozenset({"*", "/", "%", "DIV", "MOD"})


class _Reader:
    """One token ahead."""

    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._place = 0

    def peek(self) -> str:
        """The next token, words in upper case; empty at the end."""
        kind, text = self._tokens[self._place] if self._place < len(self._tokens) else ("word", "")
        return text.upper() if kind == "word" else text

    def take(self, *expected: str) -> bool:
        """Whether the next tokens are these; then they are passed."""
        for number, one in enumerate(expected):
            place = self._place + number
            if place >= len(self._tokens) or self._tokens[place][1].upper() != one or self._tokens[place][0] not in ("word", "sign"):
                return False
        self._place += len(expected)
        return True

    def need(self, *expected: str) -> None:
        if not self.take(*expected):
            raise NotRead(f"{' '.join(expected)} is expected, {self.peek() or 'nothing more'} is there")

    def next(self) -> tuple[str, str]:
        if self._place >= len(self._tokens):
            raise NotRead("nothing more")
        self._place += 1
        return self._tokens[self._place - 1]

    def at_end(self) -> bool:
        return self._place == len(self._tokens)

    def name(self) -> str:
        kind, text = self.next()
        if kind not in ("name", "word"):
            raise NotRead(text)
        return text[1:-1].replace("``", "`") if kind == "name" else text


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    place = 0
    while text[place:].strip():
        found = _TOKEN.match(text, place)
        if found is None or found.lastgroup is None:
            raise NotRead(text[place : place + 40])
        yield found.lastgroup, found[found.lastgroup]
        place = found.end()


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
        _, count = reader.next()
        return Clause(kind, columns, expression, count=int(count))
    reader.need("(")
    values = _listed(reader, lambda: _partition(reader, kind))
    reader.need(")")
    if not reader.at_end():
        raise NotRead(reader.peek())
    return Clause(kind, columns, expression, values, len(values))


def _listed(reader: _Reader, one: Callable[[], T]) -> tuple[T, ...]:
    found = [one()]
    while reader.take(","):
        found.append(one())
    return tuple(found)


def _partition(reader: _Reader, kind: str) -> tuple[tuple[Literal, ...], ...]:
    reader.need("PARTITION")
    reader.name()
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
    minus = reader.take("-")
    kind, text = reader.next()
    if kind == "number":
        return Literal(kind, f"-{text}" if minus else text)
    if minus:
        raise NotRead(text)
    if kind == "word" and text.upper() in _WORDS:
        return Literal(text.upper(), "")
    if kind == "word" and text.lower() in ("_utf8mb4", "_utf8"):
        kind, text = reader.next()
    if kind == "text":
        return Literal(kind, unescaped(text[1:-1]))
    if kind == "hex":
        return Literal(kind, text[2:])
    raise NotRead(text)


# ---- expressions ----------------------------------------------------------------------------------------------------


def _sum(reader: _Reader) -> PartitionExpression:
    found = _product(reader)
    while reader.peek() in _SUMS:
        _, sign = reader.next()
        found = PartitionExpression(sign, arguments=(found, _product(reader)))
    return found


def _product(reader: _Reader) -> PartitionExpression:
    found = _single(reader)
    while reader.peek() in _PRODUCTS:
        _, sign = reader.next()
        found = PartitionExpression({"MOD": "%"}.get(sign.upper(), sign.upper()), arguments=(found, _single(reader)))
    return found


def _single(reader: _Reader) -> PartitionExpression:
    if reader.take("("):
        found = _sum(reader)
        reader.need(")")
        return found
    if reader.take("-"):
        return PartitionExpression("-", arguments=(PartitionExpression(literal=0), _single(reader)))
    kind, text = reader.next()
    if kind == "number" and text.isdigit():
        return PartitionExpression(literal=int(text))
    if kind == "name":
        return PartitionExpression(name=text[1:-1].replace("``", "`"))
    if kind != "word":
        raise NotRead(text)
    if not reader.take("("):
        return PartitionExpression(name=text)
    arguments = _listed(reader, lambda: _sum(reader))
    reader.need(")")
    return PartitionExpression(text.upper(), arguments=arguments)
