"""What a DDL means for a dump, by comparing the tables before and after it. No SQL is parsed.

    KEPT    the same rows, perhaps in other columns       what is in the log stays; what is read and not in the log is read again
    AGAIN   rows that the feed did not bring, or another key to read by         the whole table is read again
    GONE    the table is dropped, or leaves what is replicated                  nothing more is read
    BORN    a table that was not there                                          offered to a dump of all tables

A table is followed by its id; where the source tells no ids, by its name. Ids in row keys tell what happened to the rows: more
of them (a partition was added) or fewer of them (one was dropped) leave the other rows where they were; others in their place
(TRUNCATE, EXCHANGE, another partitioning, DROP and CREATE) may hold rows that no change told of, so the table is read again.

Columns do not ask for another read: whoever takes the stream carries out the DDL on the rows it has, as TiCDC's own consumers do.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum

from sidecar.core.keyset import key_columns
from sidecar.core.model import TableName, TableSchema

Tables = Mapping[TableName, TableSchema]


class Fate(Enum):
    KEPT = "kept"
    AGAIN = "again"
    GONE = "gone"
    BORN = "born"


@dataclass(frozen=True, slots=True)
class TableStep:
    """One table over a DDL. `before` None: BORN; `after` None: GONE; both and different: renamed. `where`: which rows of a table that
    is BORN may be dumped, as SQL; None: all."""

    before: TableName | None
    after: TableName | None
    fate: Fate
    where: str | None = None


def steps(before: Tables, after: Tables, *, named: Collection[TableName]) -> tuple[TableStep, ...]:
    """The tables that differ, and those that the DDL names, in the order of their names. Tables without a key are not there."""
    old = {name: table for name, table in before.items() if table.key}
    new = {name: table for name, table in after.items() if table.key}
    by_id = {table.table_id: name for name, table in new.items() if table.table_id}
    ids_before = {table.table_id for table in old.values() if table.table_id}
    found: dict[TableName, TableStep] = {}
    taken: set[TableName] = set()
    for name, table in sorted(old.items()):
        now = by_id.get(table.table_id)
        if now is None and name in new and new[name].table_id not in ids_before:
            now = name  # another table has taken the name over, or the source tells no ids
        if now is None:
            found[name] = TableStep(name, None, Fate.GONE)
            continue
        taken.add(now)
        if now != name or name in named or new[now] != table:
            found[name] = TableStep(name, now, Fate.KEPT if _same_rows(table, new[now]) else Fate.AGAIN)
    born = [TableStep(None, name, Fate.BORN) for name in sorted(new.keys() - taken)]
    return (*found.values(), *born)


def _same_rows(old: TableSchema, new: TableSchema) -> bool:
    ids, ids_now = set(old.physical_ids), set(new.physical_ids)
    added_or_dropped = bool(ids and ids_now) and (ids <= ids_now or ids_now <= ids)
    return key_columns(old) == key_columns(new) and (ids == ids_now or added_or_dropped)
