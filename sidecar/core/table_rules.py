"""TiCDC's table rules: `schema.table` patterns, `!` excludes, the last match wins, no match is out.

`*`, `?`, `[a-z]` and `[!a-z]` stand in either part. The forms with quotes, back quotes, escapes, `/regex/` and `@file`
are refused by name, not guessed at. Case does not matter (TiCDC's default since 6.5.6, 7.1.3, 7.5).
Source: facts/ticdc.md section 6, pingcap/tidb pkg/util/table-filter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import translate

from sidecar.core.model import TableName
from sidecar.errors import RefusedRequest

_PART = re.compile(r"[\w$*?\[\]!^-]+")
_HINT = "write rules as schema.table with * and ?, for example: shop.*,!shop.event_*"


def matching(rules: Iterable[str], tables: Iterable[TableName]) -> list[TableName]:
    """The tables that the rules let through, in their own order. Raises RefusedRequest for a rule that is not one."""
    compiled = [_compiled(rule) for rule in rules]
    return [table for table in tables if _passes(compiled, table)]


def _passes(rules: list[tuple[bool, re.Pattern[str], re.Pattern[str]]], table: TableName) -> bool:
    for positive, schema, name in reversed(rules):
        if schema.match(table.schema) and name.match(table.table):
            return positive
    return False


def _compiled(rule: str) -> tuple[bool, re.Pattern[str], re.Pattern[str]]:
    text = rule.strip()
    parts = text.removeprefix("!").split(".")
    if len(parts) != 2 or not all(_PART.fullmatch(part) for part in parts):
        raise RefusedRequest(f"table rule {rule!r} is not understood", hint=_HINT)
    schema, name = (re.compile(translate(part), re.IGNORECASE) for part in parts)
    return not text.startswith("!"), schema, name
