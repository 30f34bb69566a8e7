"""Which changes the changefeed's event filters omit, where no mounter of TiCDC's has done it: by type, and by value expression.

- One place for live rows: where a change gets its table's name, before it is in the log (`schemas.KvSchemas.named`). So the log has what a
  Kafka feed would have brought, a changed filter changes nothing that is written, and what comes after need not know of filters.
- A change that is omitted does not touch its key: it is no part of the stream, neither here nor in TiCDC's. A dump's row of that key
  goes out as it was read, though the change may come between its SELECT and the high mark: as a snapshot at that SELECT and the
  changefeed from there on would have it. If it did count as touching, neither the dump nor the change would bring the row: it would
  be lost. No version goes back by it: whatever passes inside the window does touch the key.
- The dump's SELECT has the predicate of inserts (`shared/ticdc/event_filter.py::dump_scope`), as with a Kafka feed.
- A change is judged as TiKV has it, one key at a time, which TiDB-Binlog's are after their fold: with an old value and a new one it is an
  update, also of a key that TiCDC splits afterwards; an UPDATE of a clustered key is a delete and an insert.
- The watermark table is not judged: filters that would touch it are refused (`shared/ticdc/event_filter.py::mark_table_problem`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, Protocol

from sidecar.shared.codecs.kv import images_of
from sidecar.shared.model.nouns import MARK_TABLE, Change, TableName, TableSchema
from sidecar.shared.rowcodec.kv_layout import before_virtual, kv_table_of
from sidecar.shared.rowcodec.kv_row import decode_row
from sidecar.shared.rowcodec.kv_table import KvTable
from sidecar.shared.ticdc.event_filter import FilterRules, RowEvent
from sidecar.shared.ticdc.value_expr import ExprColumns, Test, compiled_test

TableOf = Callable[[str], KvTable | None]


class Judged(NamedTuple):
    """What a filter sees of a change. Asking for a row that is not there is an error, as is one that cannot be read: MessageUnreadable."""

    event: RowEvent
    old: Callable[[], Sequence[str | None]]
    new: Callable[[], Sequence[str | None]]


class FilteredRows(Protocol):
    """What a feed's changes are to a filter and to the log. `has_previous`: rows may be as before their table's last DDL. `logical_ids`:
    changes name a partitioned table by the id that its partitions share; else by the physical one."""

    @property
    def has_previous(self) -> bool: ...

    @property
    def logical_ids(self) -> bool: ...

    def settled(self, changes: Iterable[Change], table_of: TableOf) -> Iterable[Change]:
        """A change for each row that a transaction changed, in the order of `changes`. `table_of`: by the table's id in a change."""

    def home(self, table: TableSchema, change: Change) -> int | None:
        """The physical id that the row was written under, where the partitions of `table` may be others by now; None: they are not."""

    def reader(self, table: TableSchema) -> Callable[[Change], Judged]:
        """Of changes whose value is as in the log."""


class KeyValueRows:
    """TiKV's (shared/codecs/kv.py): a key has one change in a commit, and its row says how it was written."""

    has_previous = False
    logical_ids = False

    def settled(self, changes: Iterable[Change], table_of: TableOf) -> Iterable[Change]:  # noqa: ARG002  # they are
        return changes

    def home(self, table: TableSchema, change: Change) -> int | None:  # noqa: ARG002  # its id is that
        return None

    def reader(self, table: TableSchema) -> Callable[[Change], Judged]:
        decoder = kv_table_of(table)

        def judged(change: Change) -> Judged:
            key, (new, old) = change.key, images_of(change.value)
            event = RowEvent.INSERT if not old else RowEvent.UPDATE if new else RowEvent.DELETE
            return Judged(event, partial(decode_row, decoder, key, old, at_rest=True), partial(decode_row, decoder, key, new))

        return judged


KEY_VALUES = KeyValueRows()


@dataclass(frozen=True, slots=True)
class TableFilter:
    """Of one version of a table: what is ignored whatever its values, and the tests of the others' old and new rows."""

    read: Callable[[Change], Judged]
    ignored: frozenset[RowEvent]
    old: Mapping[RowEvent, tuple[Test, ...]]
    new: Mapping[RowEvent, tuple[Test, ...]]

    def leaves_out(self, change: Change) -> bool:
        """Raises MessageUnreadable for a row that a test has to see."""
        event, old, new = self.read(change)
        return event in self.ignored or _holds(self.old[event], old) or _holds(self.new[event], new)


def _holds(tests: tuple[Test, ...], row: Callable[[], Sequence[str | None]]) -> bool:
    if not tests:
        return False
    texts = row()
    return any(test(texts) is True for test in tests)


@dataclass(slots=True)
class RowFilter:
    """The event filters of a changefeed. Filters of tables are kept as long as the tables are as they were."""

    rules: FilterRules
    rows: FilteredRows = KEY_VALUES
    _made: dict[TableName, tuple[TableSchema, TableFilter | None]] = field(default_factory=dict)

    def check(self, tables: Iterable[TableSchema]) -> None:
        """Raises FeedUnsuitable for an expression that cannot be evaluated exactly for one of these."""
        for table in tables:
            if table.key:
                self.of(table)

    def of(self, table: TableSchema) -> TableFilter | None:
        """None: nothing of it is omitted. Raises as `check`."""
        made = self._made.get(table.name)
        if made is None or made[0] != table:
            self._made[table.name] = made = (table, self._filter(table))
        return made[1]

    def _filter(self, table: TableSchema) -> TableFilter | None:
        name = table.name
        if name == MARK_TABLE or not self.rules.has(name):
            return None
        ignored = frozenset(event for event in RowEvent if self.rules.ignoring(name, event) is not None)
        exprs = {event: self.rules.exprs(name, event) for event in RowEvent}
        if not ignored and not any(exprs.values()):
            return None
        decoder = kv_table_of(table)
        collations = {one.column.name: one.collation for one in decoder.columns}
        columns = ExprColumns(decoder.schema, before_virtual(table), collations)
        tests = {event: [(expr.old, compiled_test(expr, columns)) for expr in of_event] for event, of_event in exprs.items()}
        old, new = (
            {event: tuple(test for is_old, test in of_event if is_old is side) for event, of_event in tests.items()}
            for side in (True, False)
        )
        return TableFilter(self.rows.reader(table), ignored, old, new)
