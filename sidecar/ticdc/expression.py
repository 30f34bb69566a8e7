"""One SQL expression over one table's columns, taken apart: what it may not hold, which columns it names, its text with them anew.

- It is spliced into a SELECT within parentheses, so it is one that cannot end them, nor the statement, nor hide what follows.
- It reads its own row only: no subquery, no variable.
- It is read as a session of ours reads it: without ANSI_QUOTES, NO_BACKSLASH_ESCAPES and PIPES_AS_CONCAT.

It must not know whose expression it is: the changefeed's are compared as TiCDC does (event_filter.py), an operator's may use
harmless functions only (control/predicate.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sidecar.core.model import Column, TableSchema

_TOKEN = re.compile(
    r"""(?P<blank>\s+)
    | (?P<text>(?:_\w+\s*|[nNxXbB])?'(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*")
    | (?P<quoted>`(?:[^`]|``)+`)
    | (?P<comment>--(?=\s|\Z) | \# | /\*)
    | (?P<number>(?:0[xX][0-9a-fA-F]+ | (?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)(?![\w$]))
    | (?P<word>[\w$]+)
    | (?P<sign><=>|<=|>=|<>|!=|&&|\|\||<<|>>|->>?|[-+*/%=<>!~^&|(),.])""",
    re.VERBOSE | re.DOTALL,
)
_OF_OTHER_ROWS = frozenset({"select", "with", "table", "values"})


class NotAnExpression(ValueError):
    """The text says why, as the end of a sentence that begins with the expression."""


class ExpressionToken(NamedTuple):
    kind: str
    text: str
    at: int


@dataclass(frozen=True, slots=True)
class FilterExpression:
    """`of` makes it. Tokens are told by their number; -1 is none."""

    schema: TableSchema
    tokens: Sequence[ExpressionToken]

    @classmethod
    def of(cls, text: str, schema: TableSchema) -> FilterExpression:
        """Raises NotAnExpression."""
        tokens: list[ExpressionToken] = []
        at = deep = 0
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                raise NotAnExpression(f"has {text[at]!r} at character {at + 1}, which begins nothing that an expression may have")
            token = ExpressionToken(str(found.lastgroup), found[0], at)
            if token.kind == "comment" or token.text.lower() in _OF_OTHER_ROWS:
                raise NotAnExpression(f"has {token.text!r} at character {at + 1}, which an expression may not use")
            deep += {"(": 1, ")": -1}.get(token.text, 0)
            if deep < 0:
                raise NotAnExpression(f"closes a parenthesis at character {at + 1} that it did not open")
            tokens.append(token)
            at = found.end()
        if deep or not any(token.kind != "blank" for token in tokens):
            raise NotAnExpression("leaves a parenthesis open" if deep else "is empty")
        return cls(schema, tokens)

    def columns(self) -> dict[int, Column]:
        """The tokens that name a column of the table. Raises NotAnExpression for one that is qualified by anything but its table."""
        by_name = {column.name.lower(): column for column in self.schema.columns}
        found = {}
        for at in range(len(self.tokens)):
            if self._is_name(at) and (column := by_name.get(unquoted(self.text(at)))):
                found[at] = column
        return found

    def rewritten(self, place: Callable[[Column], str], table: str) -> str:
        """The text, each column at its `place`, and `table` where the table qualifies what is none of its columns."""
        return "".join(self._rewritten(place, table))

    def _rewritten(self, place: Callable[[Column], str], table: str) -> Iterator[str]:
        columns = self.columns()
        for at, token in enumerate(self.tokens):
            qualified = self.qualified(at)
            if at in columns:
                yield place(columns[at])
            elif qualified < 0:
                yield token.text
            elif qualified not in columns:
                yield "." if token.text == "." else table

    def next(self, at: int, step: int = 1) -> int:
        """The next token that is not blank; with a `step` of -1 the one before."""
        at += step
        while 0 <= at < len(self.tokens) and self.tokens[at].kind == "blank":
            at += step
        return at if at < len(self.tokens) else -1

    def text(self, at: int) -> str:
        """In lower case; empty for none."""
        return self.tokens[at].text.lower() if at >= 0 else ""

    def qualified(self, at: int) -> int:
        """The name after it where it is a table's name or the dot of `table.column`; else -1."""
        name = at if self.text(at) != "." else self.next(at, -1)
        dot = self.next(name)
        is_name = name >= 0 and self.tokens[name].kind in ("word", "quoted")
        return self.next(dot) if is_name and self.text(dot) == "." else -1

    def _is_name(self, at: int) -> bool:
        if self.tokens[at].kind not in ("word", "quoted"):
            return False
        before, after = self.next(at, -1), self.next(at)
        literal = after >= 0 and self.tokens[after].kind == "text"
        if self.text(after) in ("(", ".") or literal or self.text(before) == "as":
            return False
        if self.text(before) == ".":
            table = self.next(before, -1)
            if unquoted(self.text(table)) != self.schema.name.table.lower() or self.text(self.next(table, -1)) == ".":
                raise NotAnExpression(f"qualifies {self.tokens[at].text} by something else than its table")
        return True


def unquoted(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name
