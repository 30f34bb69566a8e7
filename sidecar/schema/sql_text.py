r"""Text in quotes, as TiDB, TiCDC and MySQL write and read it. Every reader and writer of such text uses these functions.

    who writes it                                        between the quotes
    TiDB: COLUMN_TYPE, SHOW CREATE TABLE (`shown`)       '' for a quote; \0 \n \r for NUL, LF, CR; a backslash as it is
    MySQL, MariaDB: COLUMN_TYPE (`shown`)                the same, and \\ for a backslash
    TiCDC, TiDB-Binlog: a DDL's text (`for_servers`)     '' for a quote; everything else as it is, whatever the sql_mode
    this project, for any server (`quoted_text`)         '' for a quote, \\ for a backslash, \0 for NUL

In TiDB's COLUMN_TYPE a backslash before 0, n or r has two meanings: `\n` is a line feed, or a backslash and an n. Labels that have one are
not known from it (`labels`). TableInfo has them exactly.

Sources: pingcap/tidb pkg/parser/format/format.go (OutputFormat, RestoreCtx.WriteString), pkg/parser/types/field_type.go (CompactStr);
pingcap/tiflow cdc/owner/ddl_sink.go and pingcap/ticdc logservice/schemastore (they restore without RestoreStringEscapeBackslash);
MySQL sql/unireg.cc (append_unescaped).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum


class Shows(Enum):
    """How a server writes labels in COLUMN_TYPE."""

    TIDB = "a backslash as it is"
    MYSQL = "a backslash twice"


_SHOWN = {"'": "''", "\0": "\\0", "\n": "\\n", "\r": "\\r"}
_UNCERTAIN = re.compile(r"\\[0nr]")
_BARE_LABEL = re.compile(r"'((?:[^']|'')*)'")
_ESCAPED_LABEL = re.compile(r"'((?:[^'\\]|''|\\.)*)'", re.DOTALL)
_ESCAPE = re.compile(r"''|\\(.)", re.DOTALL)
_ESCAPED = {"n": "\n", "r": "\r", "0": "\0", "t": "\t", "Z": "\x1a", "b": "\b"}
_RESTORED = re.compile(r"""(?:[^'"`]|`(?:[^`]|``)*`|'(?:[^']|'')*')*""")
_STRING_OR_NAME = re.compile(r"`(?:[^`]|``)*`|'(?:[^']|'')*'")
_KEYWORDS_AND_NAME = re.compile(r"\s*[A-Z ]+`")


def quoted_text(text: str) -> str:
    """A string in SQL, under any sql_mode with backslashes as escapes."""
    return "'" + text.replace("\\", "\\\\").replace("'", "''").replace("\0", "\\0") + "'"


def unescaped(text: str) -> str:
    """What a server with backslashes as escapes reads between single quotes."""
    return _ESCAPE.sub(lambda found: "'" if found[1] is None else _ESCAPED.get(found[1], found[1]), text)


def shown(labels: Iterable[str], shows: Shows) -> str:
    """Labels as COLUMN_TYPE has them between its parentheses: `'a','it''s'`."""
    escapes = _SHOWN | ({"\\": "\\\\"} if shows is Shows.MYSQL else {})
    return ",".join(f"'{''.join(escapes.get(char, char) for char in label)}'" for label in labels)


def labels(column_type: str, shows: Shows) -> tuple[str, ...]:
    """Of `enum('a','it''s')`. Empty where the text does not determine them: then only TableInfo has them."""
    if shows is Shows.MYSQL:
        return tuple(map(unescaped, _ESCAPED_LABEL.findall(column_type)))
    if _UNCERTAIN.search(column_type):
        return ()
    return tuple(label.replace("''", "'") for label in _BARE_LABEL.findall(column_type))


def for_servers(query: str) -> str:
    r"""The text of a DDL as TiCDC restores it, for a server that reads backslashes as escapes. Text that TiCDC did not restore is returned
    as it is: TiCDC writes keywords in capitals, names in backquotes and no text in double quotes."""
    if "\\" not in query or _KEYWORDS_AND_NAME.match(query) is None or _RESTORED.fullmatch(query) is None:
        return query
    return _STRING_OR_NAME.sub(lambda found: _escaped(found[0]), query)


def _escaped(token: str) -> str:
    return token if token.startswith("`") else token.replace("\\", "\\\\").replace("\0", "\\0")
