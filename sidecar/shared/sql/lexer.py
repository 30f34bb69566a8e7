r"""SQL text as TiDB's lexer cuts it (pingcap/tidb pkg/parser/lexer.go, misc.go): words, quoted names, strings, numbers, signs. No other
module cuts SQL; each reader has its grammar over these tokens, and decides what it refuses.

- TiDB reads `/*! … */`, `/*T! … */` and `/*T![feature] … */` of the features that it knows (pkg/parser/tidb/features.go). The tokens in
  them are read here too, and say in which comment they are.
- A comment of a feature that the caller does not know is one token: a TiDB that does not know the feature skipped it, another did not.
- Other comments and hints are skipped; `gap` has them. A comment that TiDB reads may lack its end, as in TiDB.
- Quotes are those of a session without ANSI_QUOTES. Without `backslashes`, they are those of NO_BACKSLASH_ESCAPES, as TiCDC writes.
- What is no lexeme is `invalid`, a character at a time: nothing raises. A reader that must not guess refuses it.
- Blanks, digits and letters are ASCII's; each other character is part of a word. MySQL's lexer (sql/sql_lex.cc) agrees, but
  for versions and features of comments, and for `0x1Fg`: one word in MySQL, as here; a number and a word in TiDB.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from itertools import islice
from typing import Literal, NamedTuple

TokenKind = Literal["word", "name", "string", "number", "sign", "variable", "foreign", "invalid", "end"]
"""`number`: also literals of hex, bits and the national charset. `variable`: `@name`, `@@name`, the host of an account. `foreign`: a
comment of a feature that is not known, as a whole."""


class SqlToken(NamedTuple):
    """`value`: of a word in capitals, of a name or a string what its quotes mean, else the text. `gap`: blanks and comments before it.
    `comment`: what opens the comment in which TiDB reads it, empty outside of one."""

    kind: TokenKind
    text: str
    value: str
    at: int
    gap: str
    comment: str = ""

    @property
    def spaced(self) -> bool:
        return self.at == 0 or bool(self.gap)

    def comment_before(self) -> str:
        """What opens the first comment in the gap, also one that TiDB reads; empty for none."""
        opened = _COMMENT.search(self.gap)
        return opened[0] if opened else ""

    @property
    def name(self) -> str:
        """Of a word or a name: what it names, in its own case."""
        return self.value if self.kind == "name" else self.text


_COMMENT = re.compile(r"--|#|/\*")
_IN_WORDS = r"[\w$\u0080-\U0010ffff]"
_NAME = r"`(?:[^`]|``)*+`"


def _lexemes(*, backslashes: bool) -> re.Pattern[str]:
    but, escape = (r"\\", r"|\\.") if backslashes else ("", "")
    single, double = (rf"{quote}(?:[^{quote}{but}]|{quote}{quote}{escape})*+{quote}" for quote in "'\"")
    return re.compile(
        rf"""(?P<blank>[\t-\r\ ]+)
          | (?P<opened>/\*(?:T!(?:\[{_IN_WORDS}+(?:,{_IN_WORDS}+)*\])?|!(?:\d{{5}})?))
          | (?P<comment>/\*.*?\*/|--(?=[\t-\r\ ]|\Z)[^\n]*|\#[^\n]*)
          | (?P<number>[nN]{single}|[xX]'[0-9a-fA-F]*'|[bB]'[01]*'|(?:0[xX][0-9a-fA-F]+|0b[01]+)(?!{_IN_WORDS})|\d+[eE][+-]?\d+
              |(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+|(?![eE]))|\d+(?!{_IN_WORDS}))
          | (?P<invalid>/\*|[xXbB]')
          | (?P<string>{single}|{double})
          | (?P<name>{_NAME})
          | (?P<word>{_IN_WORDS}+)
          | (?P<variable>@@?(?:{single}|{double}|{_NAME}|(?:{_IN_WORDS}|\.)*))
          | (?P<sign>->>|->|<=>|<=|>=|<>|!=|:=|\|\||&&|&\^|<<|>>|\\N|[-+*/%(),.;=<>!~^&|:?\[\]{{}}])
        """,
        re.VERBOSE | re.DOTALL | re.ASCII,
    )


_LEXEMES = {backslashes: _lexemes(backslashes=backslashes) for backslashes in (True, False)}
_AFTER_A_DOT = re.compile(rf"{_IN_WORDS}+", re.ASCII)
"""Behind a name and a dot digits are a name."""

_ESCAPES = {quote: re.compile(rf"{quote}{quote}|\\(.)", re.DOTALL) for quote in "'\""}
_ESCAPED = {"n": "\n", "r": "\r", "0": "\0", "t": "\t", "Z": "\x1a", "b": "\b", "%": "\\%", "_": "\\_"}


def tokens(text: str, *, features: Collection[str] | None = None, backslashes: bool = True) -> Iterator[SqlToken]:
    """An `end` is the last. `features`: of TiDB's, those that the caller knows; None: all."""
    comment, at, gap_at = "", 0, 0
    last = before = SqlToken("end", "", "", 0, "")
    while at < len(text):
        if comment and text.startswith("*/", at):
            comment, at = "", at + 2
            continue
        if last.kind in ("word", "name") and at == gap_at and text[at] == ".":
            kind, lexeme = "sign", "."
        elif last.text == "." and before.kind in ("word", "name") and (name := _AFTER_A_DOT.match(text, at)):
            kind, lexeme = "word", name[0]
        else:
            kind, lexeme = _lexeme(_LEXEMES[backslashes], text, at, features)
        if kind == "opened":
            comment = lexeme
        elif kind not in ("blank", "comment"):
            before, last = last, _token(kind, lexeme, at, text[gap_at:at], comment, backslashes)
            yield last
            gap_at = at + len(lexeme)
        at += len(lexeme)
    yield SqlToken("end", "", "", at, text[gap_at:])


def _lexeme(lexemes: re.Pattern[str], text: str, at: int, features: Collection[str] | None) -> tuple[str, str]:
    match = lexemes.match(text, at)
    if match is None:
        return "invalid", text[at]
    wanted = match[0].partition("[")[2].rstrip("]")
    if match.lastgroup != "opened" or not wanted or features is None or set(wanted.split(",")) <= set(features):
        return str(match.lastgroup), match[0]
    end = text.find("*/", match.end())
    return ("invalid", match[0]) if end < 0 else ("foreign", text[at : end + 2])


def _token(kind: str, lexeme: str, at: int, gap: str, comment: str, backslashes: bool) -> SqlToken:
    match kind:
        case "word":
            return SqlToken("word", lexeme, lexeme.upper(), at, gap, comment)
        case "name":
            return SqlToken("name", lexeme, lexeme[1:-1].replace("``", "`"), at, gap, comment)
        case "string":
            quote, inner = lexeme[0], lexeme[1:-1]
            read = _ESCAPES[quote].sub(lambda one: _ESCAPED.get(one[1], one[1]) if one[1] else quote, inner)
            return SqlToken("string", lexeme, read if backslashes else inner.replace(quote * 2, quote), at, gap, comment)
        case "number" | "sign" | "variable" | "foreign":
            return SqlToken(kind, lexeme, lexeme, at, gap, comment)
        case _:
            return SqlToken("invalid", lexeme, lexeme, at, gap, comment)


def begins(text: str, *beginnings: str) -> bool:
    """Whether one of these are the first words, in capitals, whatever comments stand between."""
    first = [token.value for token in islice(tokens(text), 3) if token.kind == "word"]
    return any(first[: len(one.split())] == one.split() for one in beginnings)
