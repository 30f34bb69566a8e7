"""What `--where` may ask: the table's own columns and harmless functions, nothing else (an authorisation boundary).

A caller that may start a dump may request rows of tables that the changefeed carries. The sidecar's account makes the SELECT. It may read
more, and the caller sees the text of the server's errors. So every word of a predicate is on one of these lists or is a column: no other
table, no column that the changefeed omits, no variable, nothing that waits, locks, reads files, knows the account, or shows values in
its errors.
"""

from __future__ import annotations

import re
from dataclasses import replace

from sidecar.shared.errors import RefusedRequest, nearest
from sidecar.shared.model.keyset import ALIAS, qualified
from sidecar.shared.model.nouns import TableSchema
from sidecar.shared.sql.text import quoted
from sidecar.shared.ticdc.expression import FilterExpression, NotAnExpression

PREDICATE_BYTES_MAX = 256 << 10
"""Of one table: it goes into every SELECT, and with the progress into every manifest and into etcd."""
NAMED_MAX = 20
"""Columns that a message names."""
DEEP_MAX = 100
"""Parentheses within parentheses: servers parse them on a stack."""


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text))


FUNCTIONS = _words("""
    abs adddate ascii bin bit_count bit_length cast ceil ceiling char char_length character_length coalesce concat concat_ws convert
    convert_tz crc32 curdate current_date current_time current_timestamp curtime date date_add date_format date_sub datediff day dayname
    dayofmonth dayofweek dayofyear elt extract field find_in_set floor from_days from_unixtime greatest hex hour if ifnull instr isnull
    json_contains json_contains_path json_extract json_length json_overlaps json_type json_unquote json_valid last_day lcase least left
    length localtime localtimestamp locate lower ltrim makedate md5 microsecond mid minute mod month monthname now nullif octet_length ord
    position pow power quarter replace reverse right round rtrim second sha1 sha2 sign strcmp subdate substr substring substring_index
    time time_to_sec timediff timestamp timestampadd timestampdiff to_days to_seconds trim truncate ucase unhex unix_timestamp upper
    utc_date utc_time utc_timestamp week weekday weekofyear year yearweek
""")
"""Of a row, of literals and of the time."""

WORDS = _words("""
    and or not xor is null true false unknown in like between escape div mod binary collate using as case when then else end member of
    interval both leading trailing from microsecond second minute hour day week month quarter year
    signed unsigned integer int char decimal double float date datetime time timestamp json current_date current_time current_timestamp
    localtime localtimestamp utc_date utc_time utc_timestamp
""")
"""Operators, units and types; some may stand before a parenthesis."""

_MATCHES = frozenset({"regexp", "rlike"})
"""The pattern is a text: one that is made of a row comes back in the error that it gives."""
_NAMES = frozenset({"collate", "using"})
"""What follows is a collation's or a character set's name."""


def predicate(text: str, schema: TableSchema) -> str:
    """The operator's predicate, its columns `keyset.qualified`. Raises RefusedRequest."""
    if len(text.encode()) > PREDICATE_BYTES_MAX:
        raise RefusedRequest(f"the predicate of {schema.name} has more than {PREDICATE_BYTES_MAX:,} bytes of SQL", hint="dump it in parts")
    try:
        expression = FilterExpression.of(text, replace(schema, omitted=()))
        _check(expression)
        return expression.rewritten(lambda column: qualified(column.name), quoted(ALIAS))
    except NotAnExpression as error:
        raise RefusedRequest(
            f"the predicate of {schema.name} {error}",
            hint="give one expression over the table's columns, such as amount > 5 AND created_at < '2026-01-01'; its columns are"
            f" {_listed(schema)}",
        ) from error


def _listed(schema: TableSchema) -> str:
    names = [column.name for column in schema.columns]
    return ", ".join(names[:NAMED_MAX]) + (f" and {len(names) - NAMED_MAX:,} more" if len(names) > NAMED_MAX else "")


def _check(expression: FilterExpression) -> None:
    columns, deep = expression.columns(), 0
    for at, token in enumerate(expression.tokens):
        deep += {"(": 1, ")": -1}.get(token.text, 0)
        if deep > DEEP_MAX:
            raise NotAnExpression(f"has more than {DEEP_MAX} parentheses within each other at character {token.at + 1}")
        if token.kind not in ("word", "name") or at in columns or expression.qualified(at) in columns:
            continue
        if not _may_stand(expression, at):
            intended = nearest(token.name, [column.name for column in expression.schema.columns])
            raise NotAnExpression(
                f"has {token.text} at character {token.at + 1}, which is neither a column of the table as the feed carries it nor what a"
                f" predicate may use{intended}"
            )


def _may_stand(expression: FilterExpression, at: int) -> bool:
    """A word that is no column."""
    word, before, after = expression.text(at), expression.text(expression.next(at, -1)), expression.text(expression.next(at))
    if expression.tokens[at].kind == "name" or before == "." or after == ".":
        return False  # no column of this table
    if expression.is_text(at):
        return True  # the charset of a literal
    if word in _MATCHES:
        return expression.is_text(expression.next(at))
    if before in _NAMES:
        return after != "("
    return word in WORDS or (word in FUNCTIONS and after == "(")
