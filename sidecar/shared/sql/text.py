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

from sidecar.shared.sql.lexer import tokens


class Shows(Enum):
    """How a server writes labels in COLUMN_TYPE."""

    TIDB = "a backslash as it is"
    MYSQL = "a backslash twice"


_SHOWN = {"'": "''", "\0": "\\0", "\n": "\\n", "\r": "\\r"}
_UNCERTAIN = re.compile(r"\\[0nr]")
_KEYWORDS_AND_NAME = re.compile(r"\s*[A-Z ]+`")
_COMMENT_OF_AN_AUTHOR = re.compile(r"--|#|/\*(?!T?!)")


def quoted(name: str) -> str:
    """A name, in every dialect."""
    return "`" + name.replace("`", "``") + "`"


def quoted_text(text: str) -> str:
    """A string in SQL, under any sql_mode with backslashes as escapes."""
    return "'" + text.replace("\\", "\\\\").replace("'", "''").replace("\0", "\\0") + "'"


def shown(labels: Iterable[str], shows: Shows) -> str:
    """Labels as COLUMN_TYPE has them between its parentheses: `'a','it''s'`."""
    escapes = _SHOWN | ({"\\": "\\\\"} if shows is Shows.MYSQL else {})
    return ",".join(f"'{''.join(escapes.get(char, char) for char in label)}'" for label in labels)


def labels(column_type: str, shows: Shows) -> tuple[str, ...]:
    """Of `enum('a','it''s')`. Empty where the text does not determine them: then only TableInfo has them."""
    if shows is Shows.TIDB and _UNCERTAIN.search(column_type):
        return ()
    return tuple(token.value for token in tokens(column_type, backslashes=shows is Shows.MYSQL) if token.kind == "string")


def for_servers(query: str) -> str:
    r"""The text of a DDL as TiCDC restores it, for a server that reads backslashes as escapes. Text that TiCDC did not restore is returned
    as it is: TiCDC writes keywords in capitals, names in backquotes, no text in double quotes, and of comments those that TiDB reads."""
    if "\\" not in query or _KEYWORDS_AND_NAME.match(query) is None:
        return query
    in_query = list(tokens(query, backslashes=False))
    if any(token.kind == "invalid" or token.text.startswith('"') or _COMMENT_OF_AN_AUTHOR.search(token.gap) for token in in_query):
        return query
    return "".join(token.gap + (_escaped(token.text) if token.kind == "string" else token.text) for token in in_query)


def _escaped(string: str) -> str:
    return string.replace("\\", "\\\\").replace("\0", "\\0")
