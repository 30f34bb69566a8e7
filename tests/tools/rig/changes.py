"""What a transaction of the binlog is to TiCDC: one change a row, updates of keys split, in TiCDC's order.

TiKV commits the net effect: the binlog's several images of one row within a transaction become one change, from the first
image before to the last image after. Then as in tiflow cdc/model/sink.go (trySplitAndSortUpdateEvent): an update that changes
a value of the handle key or of any unique key is a delete and an insert, and if a table's transaction holds one, its changes
are ordered deletes, updates, inserts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tests.tools.rig.columns import Table
from tests.tools.rig.row_image import Image


class Change(NamedTuple):
    """`before` None: an insert; `after` None: a delete."""

    table: Table
    before: Image | None
    after: Image | None


_Key = tuple[object, ...]


def net_changes(rows: Iterable[Change]) -> list[Change]:
    """The changes of one transaction, tables in the order of their first row. Tables without a handle key are omitted."""
    by_table: dict[str, tuple[Table, dict[_Key, list[Image | None]]]] = {}
    for row in rows:
        if not row.table.handle:
            continue
        _, versions = by_table.setdefault(str(row.table.name), (row.table, {}))
        old, new = _key(row.table, row.before), _key(row.table, row.after)
        if old is not None and old != new:
            versions.setdefault(old, [row.before, None])[1] = None
        if new is not None:
            versions.setdefault(new, [row.before if old == new else None, None])[1] = row.after
    changes: list[Change] = []
    for table, versions in by_table.values():
        net = [Change(table, first, last) for first, last in versions.values() if first != last]
        changes += _split(table, net)
    return changes


def _key(table: Table, image: Image | None) -> _Key | None:
    return None if image is None else tuple(image[number] for number in table.handle)


def _split(table: Table, changes: list[Change]) -> list[Change]:
    results: list[Change] = []
    for change in changes:
        if _changes_unique(change):
            results += (change._replace(after=None), change._replace(before=None))
        else:
            results.append(change)
    was_split = len(results) > len(changes)
    moved_key = any(change.after is None for change in results) and any(change.before is None for change in results)
    return sorted(results, key=_rank) if was_split or moved_key else results


def _changes_unique(change: Change) -> bool:
    before, after = change.before, change.after
    return before is not None and after is not None and any(before[number] != after[number] for number in change.table.unique)


def _rank(change: Change) -> int:
    return 0 if change.after is None else 2 if change.before is None else 1
