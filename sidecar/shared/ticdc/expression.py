"""One SQL expression over one table's columns, taken apart: what it may not hold, which columns it names, its text with new names.

- It is spliced into a SELECT within parentheses, so it is one that cannot end them, nor the statement, nor hide what follows.
- It reads its own row only: no subquery, no variable.
- It is read as a session of ours reads it: without ANSI_QUOTES, NO_BACKSLASH_ESCAPES and PIPES_AS_CONCAT.

It must not know whose expression it is: the changefeed's are compared as TiCDC does (event_filter.py), an operator's may use
harmless functions only (control/predicate.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from sidecar.shared.model.nouns import Column, TableSchema
from sidecar.shared.sql.lexer import SqlToken, tokens

_SIGNS = frozenset(
    {"<=>", "<=", ">=", "<>", "!=", "&&", "||", "<<", ">>", "->", "->>", "-", "+", "*", "/", "%", "=", "<", ">", "!", "~", "^", "&", "|"}
    | {"(", ")", ",", "."}
)
_OF_OTHER_ROWS = frozenset({"SELECT", "WITH", "TABLE", "VALUES"})


class NotAnExpression(ValueError):
    """The text says why, as the end of a sentence that begins with the expression."""


@dataclass(frozen=True, slots=True)
class FilterExpression:
    """`of` makes it. Tokens are named by their number; -1 is none."""

    schema: TableSchema
    tokens: Sequence[SqlToken]

    @classmethod
    def of(cls, text: str, schema: TableSchema) -> FilterExpression:
        """Raises NotAnExpression."""
        in_text = list(tokens(text))
        deep = 0
        for token in in_text:
            if comment := token.comment_before():
                at = token.at - len(token.gap) + token.gap.index(comment) + 1
                raise NotAnExpression(f"has {comment!r} at character {at}, which an expression may not use")
            other_sign = token.kind == "sign" and token.text not in _SIGNS
            if other_sign or token.kind in ("variable", "invalid"):
                raise NotAnExpression(
                    f"has {token.text[0]!r} at character {token.at + 1}, which begins nothing that an expression may have"
                )
            if token.kind == "word" and token.value in _OF_OTHER_ROWS:
                raise NotAnExpression(f"has {token.text!r} at character {token.at + 1}, which an expression may not use")
            deep += {"(": 1, ")": -1}.get(token.text, 0)
            if deep < 0:
                raise NotAnExpression(f"closes a parenthesis at character {token.at + 1} that it did not open")
        if deep or len(in_text) == 1:
            raise NotAnExpression("leaves a parenthesis open" if deep else "is empty")
        return cls(schema, in_text)

    def columns(self) -> dict[int, Column]:
        """The tokens that name a column of the table in TiDB, which TiCDC's filter sees whole. Raises NotAnExpression for one that is
        qualified by anything but its table."""
        by_name = {column.name.lower(): column for column in (*self.schema.columns, *self.schema.omitted)}
        columns = {}
        for at in range(len(self.tokens)):
            if self._is_name(at) and (column := by_name.get(self.tokens[at].name.lower())):
                columns[at] = column
        return columns

    def rewritten(self, place: Callable[[Column], str], table: str) -> str:
        """The text, each column at its `place`, and `table` where the table qualifies what is none of its columns."""
        return "".join(self._rewritten(place, table))

    def _rewritten(self, place: Callable[[Column], str], table: str) -> Iterator[str]:
        columns = self.columns()
        for at, token in enumerate(self.tokens):
            yield token.gap
            qualified = self.qualified(at)
            if at in columns:
                yield place(columns[at])
            elif qualified < 0:
                yield token.text
            elif qualified not in columns:
                yield "." if token.text == "." else table

    def next(self, at: int, step: int = 1) -> int:
        """The next token, -1 at the end; with a `step` of -1 the one before."""
        return at + step if at + step < len(self.tokens) - 1 else -1

    def text(self, at: int) -> str:
        """In lower case; empty for none."""
        return self.tokens[at].text.lower() if at >= 0 else ""

    def is_text(self, at: int) -> bool:
        """Whether a literal in quotes begins there, with its charset or without."""
        if at >= 0 and self.tokens[at].kind == "word" and self.text(at).startswith("_"):
            at = self.next(at)
        return at >= 0 and self.tokens[at].kind in ("string", "number") and self.tokens[at].text[-1] in "'\""

    def qualified(self, at: int) -> int:
        """The name after it where it is a table's name or the dot of `table.column`; else -1."""
        name = at if self.text(at) != "." else self.next(at, -1)
        dot = self.next(name)
        is_name = name >= 0 and self.tokens[name].kind in ("word", "name")
        return self.next(dot) if is_name and self.text(dot) == "." else -1

    def _is_name(self, at: int) -> bool:
        if self.tokens[at].kind not in ("word", "name"):
            return False
        before, after = self.next(at, -1), self.next(at)
        if self.text(after) in ("(", ".") or self.is_text(after) or self.text(before) == "as":
            return False
        if self.text(before) == ".":
            table = self.next(before, -1)
            if table < 0 or self.tokens[table].name.lower() != self.schema.name.table.lower() or self.text(self.next(table, -1)) == ".":
                raise NotAnExpression(f"qualifies {self.tokens[at].text} by something else than its table")
        return True
