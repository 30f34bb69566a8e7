"""The changefeed's definition: what an earlier one omitted of its tables, and this one lets through.

- What a filter or a selector omitted was right then, and is missing once another one lets it through. It is a hole of that table, since
  where the log ends: TiCDC takes another definition only while the changefeed is paused. Rules that omit more than before miss nothing.
- A table that comes into the table rules has no hole by that: it was never complete. One that leaves them is not carried any more.
- `seen` has a digest of the rules and the revision of the definition. Each definition since then is compared with this one, also one that
  came and went while nobody looked. They are read from etcd's history, an hour of it. What is older is a hole of each table where the
  rules differ from those that were looked at; where they are equal, it is for a note.
- Where deletes were omitted before, rows of the sink may be gone in TiDB.

Where a file has the definition nothing is kept to compare it with: it is not watched.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import NamedTuple

from sidecar.adapters.etcd.changefeed import read_definition
from sidecar.adapters.etcd.keys import KeyEntry, Keys
from sidecar.shared.errors import Compacted
from sidecar.shared.model.hole import Hole, HoleCause, Sighting
from sidecar.shared.model.nouns import MARK_TABLE, CommitTs, TableName, TableSchema
from sidecar.shared.ticdc.changefeed import Changefeed, ChangefeedName
from sidecar.shared.ticdc.changefeed_info import changefeed
from sidecar.shared.ticdc.event_filter import FilterRules
from sidecar.shared.ticdc.hidden_changes import explanations
from sidecar.shared.ticdc.selected_columns import SelectedColumns
from sidecar.watch.contract import DEFINITION, seen_fields, seen_text

_EXTRA = "extra"


class LogPlace(NamedTuple):
    """`tables`: with the columns that are not carried among `omitted`. `note`: of what is not known."""

    tables: Callable[[], Mapping[TableName, TableSchema]]
    upto_ts: Callable[[], CommitTs]
    note: Callable[[str], object]


class DefinitionWatch:
    """`seen`: as of Looked."""

    name = DEFINITION
    unwatched = ""

    def __init__(self, keys: Keys, name: ChangefeedName, log_end: LogPlace, seen: str | None) -> None:
        self._keys, self._changefeed, self._log_end = keys, name, log_end
        fields = seen_fields(seen, "digest")
        self._digest: str = fields.get("digest", "")
        self._revision: int = fields.get("revision", 0)

    def look(self) -> list[Sighting]:
        entry = read_definition(self._keys, self._changefeed)
        if entry is None:
            return []
        now = changefeed(self._changefeed, entry.value)
        digest, hole = _digest(now), None
        if self._digest and entry.modified != self._revision:
            hole = self._hole(*self._before(entry), now)
        self._digest, self._revision = digest, entry.modified
        return [Sighting(self.name, seen_text(digest=digest, revision=entry.modified), hole)]

    def _before(self, newest: KeyEntry) -> tuple[dict[str, Changefeed], bool]:
        """Those since the one that was looked at, by their digests, and whether they are all of them."""
        before, at = dict[str, Changefeed](), newest
        try:
            while at.modified > self._revision:
                entry = read_definition(self._keys, self._changefeed, revision=at.modified - 1)
                if entry is None:
                    return before, False
                one = changefeed(self._changefeed, entry.value)
                before[_digest(one)] = one
                at = entry
        except Compacted:
            return before, False
        return before, True

    def _hole(self, before: Mapping[str, Changefeed], whole: bool, now: Changefeed) -> Hole | None:
        if not whole and self._digest not in {_digest(now), *before}:
            text = "the changefeed's filter or column selectors changed longer ago than etcd's history: of which tables is not known"
            return Hole(HoleCause.GAP, self._log_end.upto_ts(), None, vanished=True, text=text)
        if not whole:
            self._log_end.note(
                f"changefeed {self._changefeed} was changed while no sidecar looked, longer ago than etcd's history: whether it omitted"
                " more for a time is not known; if it did, verify with repair: what it omitted is missing"
            )
        missed: dict[TableName, bool] = {}
        for one in (one for digest, one in before.items() if digest != _digest(now)):
            for name, table in self._log_end.tables().items():
                if (extra := _misses(table, one, now)) is not None:
                    missed[name] = extra or missed.get(name, False)
        if not missed:
            return None
        text = "the changefeed's filter or column selectors of the table changed: what they omitted before is missing"
        return Hole(HoleCause.GAP, self._log_end.upto_ts(), tuple(sorted(missed)), vanished=any(missed.values()), text=text)


def _misses(table: TableSchema, before: Changefeed, now: Changefeed) -> bool | None:
    """None: it omitted nothing of the table that it lets through now. Else whether a sink may have rows that TiDB has not any more."""
    old, new = FilterRules.of(before), FilterRules.of(now)
    if table.name == MARK_TABLE or not (old.has(table.name) and new.has(table.name)):
        return None
    if set(before.filter.ignore_txn_start_ts) - set(now.filter.ignore_txn_start_ts):
        return True
    omitted, omits = (
        {(one.why.partition(", ")[2] or one.why, one.kinds) for one in explanations(rules, table.name, key=table.key)}
        for rules in (old, new)
    )
    if omitted - omits:
        return any(_EXTRA in kinds for _, kinds in omitted - omits)
    return False if _carried(table, now) - _carried(table, before) else None


def _carried(table: TableSchema, of: Changefeed) -> frozenset[str]:
    selector = SelectedColumns.of(of).selector(table.name)
    names = {one.name for one in (*table.columns, *table.omitted)}
    return frozenset(name for name in names if selector is None or selector.has(name))


def _digest(of: Changefeed) -> str:
    """Of all that decides which rows and columns come; the same in each process."""
    return hashlib.sha256(repr((of.filter, of.column_selectors)).encode()).hexdigest()[:16]
