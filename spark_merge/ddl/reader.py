"""A place in a statement's tokens, and the pieces that were made of those before it.

`take` and `need` copy words as they are; `skip` passes over them; `name`, `table`, `schema`, `parens` and `value` copy what they read.
What the parser does not expect raises UnsupportedDdl with the word at which the reading ended: no text is copied that was not understood.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

from sidecar.shared.errors import UnsupportedDdl
from sidecar.shared.model.nouns import TableName
from sidecar.shared.sql.lexer import SqlToken
from sidecar.shared.sql.text import quoted
from spark_merge.ddl.statement import Feature, FeatureKind, Piece, Pieces, SchemaPiece
from spark_merge.ddl.tokens import REPORT, ddl_tokens

_OTHER_TABLES = frozenset({"SELECT", "NEXTVAL", "LASTVAL", "SETVAL", "NEXT", "TABLE", "WITH"})
"""In an expression of a DDL they lead to other tables or sequences."""

Words = str
"""Several, by spaces; of each the others by `|`: `IF NOT EXISTS`, `INDEX|KEY`."""


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NO_OPTION = words(
    "ADD AFTER ALTER AS CHANGE CHARACTER CHARSET COLLATE CONVERT DEFAULT DELETE DISCARD DROP EXCHANGE FIRST FOREIGN GENERATED IGNORE IMPORT"
    " INSERT LIKE MERGE MODIFY NOT NULL PARTITION PRIMARY REFERENCES REMOVE RENAME REORGANIZE REPLACE SELECT SUBPARTITION TRUNCATE UNION"
    " UNIQUE UNSIGNED UPDATE ZEROFILL"
)
"""Of TiDB's grammar: with one of them a comment may hold more than an option, and change rows, columns or partitions."""


class TokenReader:
    def __init__(self, text: str, schema: str) -> None:
        self.text = text
        self._schema = schema
        self._tokens = ddl_tokens(text)
        self._at = 0
        self.unqualified = False
        """Whether the last table's name had no schema."""
        self._made: list[Piece] = []

    # ---- what comes ----------------------------------------------------------------------------------------------------

    @property
    def next(self) -> SqlToken:
        return self._tokens[self._at]

    def sees(self, words: Words) -> bool:
        return all(
            token.value in word.split("|") and token.kind in ("word", "sign")
            for word, token in zip(words.split(), self._tokens[self._at :], strict=False)
        )

    def word_after_name(self) -> str:
        """What comes after the next two, of `CONSTRAINT name CHECK`."""
        return self._tokens[min(self._at + 2, len(self._tokens) - 1)].value

    def kind_after_comma(self) -> str:
        return self._tokens[min(self._at + 1, len(self._tokens) - 1)].kind

    def at_end(self) -> bool:
        return self.next.kind == "end" or self.sees(";")

    def refuse(self, what: str) -> NoReturn:
        text = self.next.text or "its end"
        raise UnsupportedDdl(f"the DDL {self.text!r} is not understood at {text!r}: {what} was expected", hint=REPORT)

    # ---- what is passed over ---------------------------------------------------------------------------------------------

    def skip(self, words: Words) -> bool:
        skip = self.sees(words)
        if skip:
            self._at += len(words.split())
        return skip

    def skip_any(self, words: Iterable[Words]) -> bool:
        return any(self.skip(one) for one in words)

    def must_skip(self, words: Words) -> None:
        if not self.skip(words):
            self.refuse(words)

    # ---- what is copied --------------------------------------------------------------------------------------------------

    def take(self, words: Words) -> bool:
        is_next = self.sees(words)
        if is_next:
            for _ in words.split():
                self._copy()
        return is_next

    def take_any(self, words: Iterable[Words]) -> bool:
        return any(self.take(one) for one in words)

    def need(self, words: Words) -> None:
        if not self.take(words):
            self.refuse(words)

    def write(self, piece: Piece) -> None:
        self._made.append(piece)

    def feature(self, kind: FeatureKind, text: str) -> None:
        self._made.append(Feature(kind, text))

    def made(self) -> Pieces:
        """The pieces since the last call."""
        made, self._made = tuple(self._made), []
        return made

    def name(self) -> str:
        """A column may name its table, and that its schema: the last one is its own."""
        name = self._name()
        while self.skip("."):
            name = self._name()
        self._made.append(" " + quoted(name))
        return name

    def names(self) -> tuple[str, ...]:
        names = [self.name()]
        while self.take(","):
            names.append(self.name())
        return tuple(names)

    def table(self) -> TableName:
        first = self._name()
        whole = self.skip(".")
        table = TableName(first, self._name()) if whole else TableName(self._schema, first)
        self.unqualified = not whole
        if not table.schema:
            self.refuse(f"the schema of {first}")
        self._made.append(table)
        return table

    def schema(self) -> str:
        name = self._name()
        self._made.append(SchemaPiece(name))
        return name

    def plain_word(self) -> str:
        """A word or a name or a string, of a charset, a collation, an option: its text, which is not copied."""
        token = self.next
        if token.kind not in ("word", "name", "string"):
            self.refuse("a word")
        self._at += 1
        return token.value.lower()

    def option(self) -> str:
        """`[=] value`: a word, a number, a string, or what is in parentheses; what it reads is not copied."""
        self.skip("=")
        if self.sees("("):
            return self.bare_parens()
        token = self.next
        if token.kind not in ("word", "name", "string", "number"):
            self.refuse("a value")
        self._at += 1
        return token.text

    def unknown_option(self) -> bool:
        """An option that the grammar here does not have, in one of TiDB's comments: all that is left of the comment is one piece.
        TiDB writes what other databases do not have into such comments, and each of its releases has more of it. False where none comes, or
        where the comment may hold more than options: then nothing is read, and the grammar refuses its first word.

        Source: pingcap/tidb pkg/parser/ast, the callers of WriteWithSpecialComments."""
        first, end = self.next, self._at
        if first.kind == "foreign":
            opened, inside, end = "", ddl_tokens(first.text[first.text.index("]") + 1 : -2])[:-1], end + 1
        else:
            opened = first.comment
            while opened and self._tokens[end].comment == opened:
                end += 1
            inside = self._tokens[self._at : end]
        if not _are_options(inside):
            return False
        self._at = end
        self.feature("unknown option", f" {opened}{''.join(map(_spaced, inside))} */" if opened else f" {first.text}")
        return True

    def number(self) -> None:
        if self.next.kind != "number":
            self.refuse("a number")
        self._copy()

    def string(self) -> None:
        if self.next.kind != "string":
            self.refuse("a text in quotes")
        while self.next.kind == "string":
            self._copy()

    def bare_parens(self) -> str:
        """An expression in parentheses as text, not copied."""
        if not self.sees("("):
            self.refuse("'('")
        start, depth = self._at, 0
        while True:
            token = self.next
            if token.kind == "end":
                self.refuse("')'")
            if token.kind == "word" and token.value in _OTHER_TABLES:
                self.refuse("an expression that leads to no other table")
            if token.text == "||":
                self.refuse("OR or CONCAT: what || is depends on its author's sql_mode")
            depth += (token.text == "(") - (token.text == ")")
            self._at += 1
            if depth == 0:
                return "".join(_spaced(one) for one in self._tokens[start : self._at])

    def parens(self) -> None:
        """An expression in parentheses. No name in it is a table's: it is one table's own columns that it may read."""
        start = self._at
        text = self.bare_parens()
        arrows = any(token.value in ("->", "->>") and token.kind == "sign" for token in self._tokens[start : self._at])
        self._made.append(Feature("json path", text) if arrows else text)

    def formula(self) -> None:
        """`parens` of a generated column. In it a text in double quotes is a column's name in some sql_modes, so there may be none."""
        start = self._at
        self.bare_parens()
        end, self._at = self._at, start
        if any(token.kind == "string" and token.text.startswith('"') for token in self._tokens[start:end]):
            self.refuse("a formula without double quotes, which depend on its author's sql_mode,")
        self.parens()

    def _name(self) -> str:
        token = self.next
        if token.kind not in ("word", "name"):
            self.refuse("a name")
        self._at += 1
        return token.name

    def _copy(self) -> None:
        self._made.append(_spaced(self.next))
        self._at += 1


def _are_options(inside: list[SqlToken]) -> bool:
    """`NAME … [=] value …`, of which nothing is an expression outside of parentheses."""
    depth, before = 0, ""
    for token in inside:
        depth -= token.text == ")"
        named = token.kind == "word" and token.value in (_OTHER_TABLES if depth or before == "=" else _OTHER_TABLES | _NO_OPTION)
        if named or token.kind == "foreign" or (not depth and token.kind == "sign" and token.text not in "=()"):
            return False
        depth += token.text == "("
        before = token.text
    return bool(inside) and inside[0].kind == "word"


def _spaced(token: SqlToken) -> str:
    return " " + token.text if token.spaced else token.text
