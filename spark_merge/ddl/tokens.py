"""A statement's text as TiDB's lexer cuts it (pingcap/tidb pkg/parser/lexer.go, misc.go): words, quoted names, strings, numbers, signs.

- TiDB reads `/*! … */`, `/*T! … */` and `/*T![feature] … */` of the features that it knows (pkg/parser/tidb/features.go). The tokens in
  them are read here too, and say in which comment they are.
- A comment of any other feature is one token of its own: a TiDB that does not know the feature skipped it, another one did not.
- Other comments and hints are skipped. A comment that TiDB reads may lack its end, as in TiDB.
- Quotes are those of a session without ANSI_QUOTES and NO_BACKSLASH_ESCAPES, TiDB's default: another session's text ends in a name where
  a string is expected, or the other way round, and is refused.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from sidecar.errors import UnsupportedDdl

TokenKind = Literal["word", "name", "string", "number", "sign", "variable", "foreign", "end"]
"""`variable`: `@name`, `@@name`, the host of an account. `foreign`: a comment of a feature that is not in FEATURES, as a whole."""


class SqlToken(NamedTuple):
    """`value`: of a word in capitals, of a name without its quotes, else the text. `spaced`: something stood before it. `comment`: what
    opens the comment in which TiDB reads it, empty outside of one."""

    kind: TokenKind
    text: str
    value: str
    spaced: bool
    comment: str = ""


_END = SqlToken("end", "", "", True)

FEATURES = frozenset(
    {"auto_rand", "auto_id_cache", "auto_rand_base", "clustered_index", "force_inc", "placement", "ttl", "global_index", "pre_split"}
    | {"resource_group"}
)
"""Of TiDB's features those whose words the grammar here has."""

_LEXEMES = re.compile(
    r"""(?P<space>[\t-\r\ ]+)
      | (?P<opened>/\*(?:T!(?:\[\w+(?:,\w+)*\])?|!(?:\d{5})?))
      | (?P<closed>\*/)
      | (?P<comment>/\*.*?\*/|--(?=[\t-\r\ ]|$)[^\n]*|\#[^\n]*)
      | (?P<literal>[bBxXnN]'(?:[^'\\]|''|\\.)*')
      | (?P<string>'(?:[^'\\]|''|\\.)*'|"(?:[^"\\]|""|\\.)*")
      | (?P<name>`(?:[^`]|``)*`)
      | (?P<number>0[xX][0-9a-fA-F]+(?![\w$])|0b[01]+(?![\w$])|(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?![\w$]))
      | (?P<word>[\w$\u0080-\U0010ffff]+)
      | (?P<variable>@@?(?:'(?:[^'\\]|''|\\.)*'|"(?:[^"\\]|""|\\.)*"|`(?:[^`]|``)*`|[\w$.\u0080-\U0010ffff]*))
      | (?P<sign>->>|->|<=>|<=|>=|<>|!=|:=|\|\||&&|&\^|<<|>>|\\N|[-+*/%(),.;=<>!~^&|:?\[\]{}])
    """,
    re.VERBOSE | re.DOTALL,
)
_AFTER_A_DOT = re.compile(r"[\w$\u0080-\U0010ffff]+")
"""Behind a name and a dot digits are a name."""


def tokens(text: str) -> list[SqlToken]:
    """An `end` is the last. Raises UnsupportedDdl for what is no token, and for the end of a comment that was not begun."""
    found: list[SqlToken] = []
    at, spaced, inside = 0, True, ""
    while at < len(text):
        kind, lexeme = _lexeme(text, at, found, spaced)
        if kind is None:
            raise UnsupportedDdl(f"the DDL {text!r} holds {lexeme!r}, which no statement does", hint=REPORT)
        at += len(lexeme)
        if kind == "closed":
            if not inside:
                raise UnsupportedDdl(f"the DDL {text!r} has {lexeme!r} where it cannot be", hint=REPORT)
            inside = ""
        elif kind == "opened":
            inside = lexeme
        elif kind not in ("space", "comment"):
            found.append(_token(kind, lexeme, spaced, inside))
            spaced = False
            continue
        spaced = True
    return [*found, _END]


REPORT = "carry it out at the target by hand and name its commit_ts in the sink's `ddl-done`; report this text"


def _lexeme(text: str, at: int, before: list[SqlToken], spaced: bool) -> tuple[str | None, str]:
    if not spaced and before[-1].kind in ("word", "name") and text[at] == ".":
        return "sign", "."
    if len(before) > 1 and before[-1].text == "." and before[-2].kind in ("word", "name") and (name := _AFTER_A_DOT.match(text, at)):
        return "word", name[0]
    match = _LEXEMES.match(text, at)
    if match is None:
        return None, text[at : at + 20]
    if match.lastgroup == "opened" and not set(match[0].partition("[")[2].rstrip("]").split(",")) <= FEATURES | {""}:
        end = text.find("*/", match.end())
        return (None, text[at:]) if end < 0 else ("foreign", text[at : end + 2])
    return match.lastgroup, match[0]


def _token(kind: str, lexeme: str, spaced: bool, comment: str) -> SqlToken:
    match kind:
        case "word":
            return SqlToken("word", lexeme, lexeme.upper(), spaced, comment)
        case "name":
            return SqlToken("name", lexeme, lexeme[1:-1].replace("``", "`"), spaced, comment)
        case "literal" | "number":
            return SqlToken("number", lexeme, lexeme, spaced, comment)
        case "string" | "variable" | "foreign":
            return SqlToken(kind, lexeme, lexeme, spaced, comment)
        case _:
            return SqlToken("sign", lexeme, lexeme, spaced, comment)


def quoted(name: str) -> str:
    """As a name in every dialect."""
    return "`" + name.replace("`", "``") + "`"
