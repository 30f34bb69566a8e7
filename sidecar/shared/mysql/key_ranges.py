"""Ranges of a table's key: which rows a SELECT reads, where the key begins and ends, and where it is cut into ranges.

A chunk of a dump, a sink's read-back and a verification read a table by the same text: `rows_select`, with `keyset.between` behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from sidecar.shared.model.keyset import Key, NotAKey, ReadKey, between, evenly_between, order_by, qualified, read_as, unreadable
from sidecar.shared.model.nouns import Column, TableName
from sidecar.shared.model.soft_delete import is_soft_delete_time
from sidecar.shared.mysql.retry import carried_out
from sidecar.shared.mysql.session import MysqlSession, Row
from sidecar.shared.resultset.selects import as_sent, key_select

PART_ROWS_MIN = 10_000
"""A smaller range is not worth its connection."""


class KeySpan(NamedTuple):
    """Keys in `(after, upper]`; empty: without this bound."""

    after: Key = ()
    upper: Key = ()


def rows_select(columns: Sequence[Column], table: TableName, *, at_source: bool, also: str = "") -> str:
    """The columns `as_sent`, named by their places, and `also` behind them. What follows the table's alias is the caller's. `at_source`: no
    row that is deleted softly is there (model/soft_delete.py)."""
    hidden = [at_source and is_soft_delete_time(column) for column in columns]
    texts = ("NULL" if is_hidden else as_sent(column, qualified(column.name)) for column, is_hidden in zip(columns, hidden, strict=True))
    selected = ", ".join(f"{text} AS c{place}" for place, text in enumerate(texts))
    return f"SELECT {selected}{also} FROM {read_as(table)}"


def end_key(session: MysqlSession, key: ReadKey, *, last: bool = False, after: Key | None = None, upper: Key | None = None) -> Row | None:
    """The first key in `(after, upper]`, or the last one; None where there is none. Raises pymysql's errors."""
    rows = session.rows(key_select(key, f"{between(key, after=after, upper=upper)}{order_by(key, descending=last)} LIMIT 1"))
    return rows[0] if rows else None


def cut(session: MysqlSession, key: ReadKey, *, parts: int) -> list[KeySpan]:
    """All keys, in at most `parts` ranges. Raises as `carried_out`."""
    cuts = carried_out(session, lambda: _cuts(session, key, parts), doing=f"reading the keys of {key.table}")
    return _spans(KeySpan(), cuts)


def walk(session: MysqlSession, key: ReadKey, within: KeySpan, *, range_rows: int, ranges_max: int) -> list[KeySpan]:
    """The first keys of `within` in ranges of about so many rows, each but the last one; all of them where so many ranges are enough. Keys
    that the key cannot have any more bound nothing. Raises as `carried_out`."""
    if unreadable([part.column for part in key.columns]):
        return [KeySpan()]
    try:
        between(key, after=within.after or None, upper=within.upper or None)
    except NotAKey:
        within = KeySpan()
    doing = f"reading the keys of {key.table}"
    cuts = carried_out(session, lambda: _walked(session, key, within, range_rows, ranges_max), doing=doing)
    return _spans(within, cuts)[:ranges_max]


def row_count(session: MysqlSession, table: TableName) -> int:
    """By the server's statistics. Raises pymysql's errors."""
    rows = session.rows("SELECT TABLE_ROWS FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s", table)
    return int(rows[0][0] or 0) if rows else 0


def _spans(within: KeySpan, cuts: Sequence[Key]) -> list[KeySpan]:
    return [KeySpan(*bounds) for bounds in pairwise([within.after, *cuts, within.upper])]


def _cuts(session: MysqlSession, key: ReadKey, parts: int) -> Sequence[Key]:
    """At most `parts - 1` keys that rise. A key of one integer is cut by its values, another one by walking along its index."""
    if parts < 2 or unreadable([part.column for part in key.columns]):
        return ()
    lowest = end_key(session, key)
    if lowest is None:
        return ()
    if len(key.columns) > 1 or key.columns[0].column.kind not in ("int", "uint"):
        return _walked(session, key, KeySpan(), max(row_count(session, key.table) // parts, PART_ROWS_MIN), parts - 1)
    highest = end_key(session, key, last=True)
    return evenly_between(key, lowest, highest, count=parts)[:-1] if highest is not None and highest != lowest else ()


def _walked(session: MysqlSession, key: ReadKey, within: KeySpan, step: int, count: int) -> Sequence[Key]:
    """Each `step` rows a key, `count` at most."""
    cuts, after = list[Key](), within.after
    while len(cuts) < count:
        left = between(key, after=after or None, upper=within.upper or None)
        rows = session.rows(key_select(key, f"{left}{order_by(key)} LIMIT 1 OFFSET {step}"))
        if not rows:
            break
        after = tuple(map(str, rows[0]))
        cuts.append(after)
    return cuts
