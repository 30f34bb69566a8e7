"""A statement's text as TiDB's lexer cuts it: words, quoted names, strings, numbers, signs.

What TiDB reads inside comments is read here too: `/*T! … */`, `/*T![feature] … */` and `/*! … */`. Other comments and hints are not there.
Quotes are those of a session without ANSI_QUOTES and NO_BACKSLASH_ESCAPES, TiDB's default: another session's text ends in a name where
a string is expected, or the other way round, and is refused.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from sidecar.errors import UnsupportedDdl

TokenKind = Literal["word", "name", "string", "number", "sign", "end"]


class SqlToken(NamedTuple):
    """`value`: of a word in capitals, of a name without its quotes, else the text. `spaced`: something stood before it."""

    kind: TokenKind
    text: str
    value: str
    spaced: bool


_END = SqlToken("end", "", "", True)

_LEXEMES = re.compile(
    r"""(?P<space>\s+)
      | (?P<opened>/\*(?:T!(?:\[[^\]]*\])?|!\d{0,6}))
      | (?P<closed>\*/)
      | (?P<comment>/\*.*?\*/|--(?=\s|$)[^\n]*|\#[^\n]*)
      | (?P<literal>[bBxXnN]'(?:[^'\\]|''|\\.)*')
      | (?P<string>'(?:[^'\\]|''|\\.)*'|"(?:[^"\\]|""|\\.)*")
      | (?P<name>`(?:[^`]|``)+`)
      | (?P<number>0[xX][0-9a-fA-F]+(?![\w$])|0b[01]+(?![\w$])|(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?![\w$]))
      | (?P<word>@{0,2}[\w$\u0080-\uffff]+)
      | (?P<sign>->>|->|<=>|<=|>=|<>|!=|:=|\|\||&&|<<|>>|[-+*/%(),.;=<>!~^&|:?\[\]{}])
    """,
    re.VERBOSE | re.DOTALL,
)


def tokens(text: str) -> list[SqlToken]:
    """An `end` is the last. Raises UnsupportedDdl for what is no token, and for a comment that TiDB would read and that does not end."""
    found: list[SqlToken] = []
    at, spaced, inside = 0, True, False
    while at < len(text):
        match = _LEXEMES.match(text, at)
        kind, lexeme = (match.lastgroup, match[0]) if match else (None, text[at : at + 20])
        at += len(lexeme)
        if kind in ("space", "comment", "opened", "closed"):
            if kind in ("opened", "closed"):
                if inside is (kind == "opened"):
                    raise UnsupportedDdl(f"the DDL {text!r} has {lexeme!r} where it cannot be", hint=REPORT)
                inside = not inside
            spaced = True
            continue
        if match is None or kind is None:
            raise UnsupportedDdl(f"the DDL {text!r} holds {lexeme!r}, which no statement does", hint=REPORT)
        found.append(_token(kind, lexeme, spaced))
        spaced = False
    if inside:
        raise UnsupportedDdl(f"the DDL {text!r} ends inside a comment", hint=REPORT)
    return [*found, _END]


REPORT = "carry it out at the target by hand and name its commit_ts in the sink's `ddl-done`; report this text"


def _token(kind: str, lexeme: str, spaced: bool) -> SqlToken:
    match kind:
        case "word":
            return SqlToken("word", lexeme, lexeme.upper(), spaced)
        case "name":
            return SqlToken("name", lexeme, lexeme[1:-1].replace("``", "`"), spaced)
        case "string":
            return SqlToken("string", lexeme, lexeme, spaced)
        case "literal" | "number":
            return SqlToken("number", lexeme, lexeme, spaced)
        case _:
            return SqlToken("sign", lexeme, lexeme, spaced)


def quoted(name: str) -> str:
    """As a name in every dialect."""
    return "`" + name.replace("`", "``") + "`"
