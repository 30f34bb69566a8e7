"""A recording with schema changes: which tables there were at each moment, every row's changes, what each DDL did to the rows.

It is made of what TiKV itself sent (kv/entries.parquet) and of the truth at the start, not of TiCDC's feed: TiCDC loses rows amid
REMOVE PARTITIONING, and a cluster that stands in must have them. Rows are decoded as they were written, then follow the DDLs:

- columns are followed by their ids, else by their names; a new column has its origin default; decimals get their new scale; integers
  that a new type does not hold are clipped, for a strict MODIFY COLUMN would not have come to its end;
- which partition a row is in is known from any key-value of its key. Of a row that was never written while the recording ran
  it is not: there the next truth shows whether it left with the partition.

`RecordedTables` holds what comes out against every truth snapshot, so that a rule that is wrong here cannot go unseen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, cast

from sidecar.replay.judge.rows import Key, Row, Rows, RowStep, State
from sidecar.replay.kv import KvRecording
from sidecar.replay.recorded_line import RecordedLine, RowChange
from sidecar.shared.errors import SourceError
from sidecar.shared.model.nouns import Change, CommitTs, Ddl, TableName, TableSchema
from sidecar.shared.rowcodec.kv_cast import cast_text, clipped_text
from sidecar.shared.rowcodec.kv_table import KvColumn, KvTable, kv_table
from sidecar.shared.schema.ddl import Action, DdlEvent, Effect, TableChange, TableInfo
from sidecar.shared.schema.history import SchemaHistory

if TYPE_CHECKING:
    from sidecar.replay.recording import Recording

_ROWS_VANISH = frozenset({Action.TRUNCATE_TABLE_PARTITION, Action.DROP_TABLE_PARTITION})


class RecordedHistory:
    """`line`: what the recording contains, by default its key-values. Opening applies all DDL jobs up to its end."""

    def __init__(self, recording: Recording, line: RecordedLine | None = None) -> None:
        self.recording = recording
        self._line: RecordedLine = line or KvRecording(recording)
        snapshot = self._line.snapshot()
        self._schemas: SchemaHistory[KvTable] = SchemaHistory(snapshot.ts, snapshot.schemas, describe=_described)
        self.events: tuple[DdlEvent, ...] = tuple(self._events())
        self._schemas.advance(recording.end_ts)

    def schemas_at(self, ts: int) -> dict[TableName, TableSchema]:
        """Tables with rows at `ts`; after the end those at the end."""
        ts = min(ts, self.recording.end_ts)
        return {one.name: schema_of(one.description, one.table_id, one.physical_ids) for one in self._schemas.tables_at(ts)}

    def table_at(self, name: TableName, ts: int) -> KvTable | None:
        version = self._schemas.by_name(name, min(ts, self.recording.end_ts))
        return getattr(version, "description", None)

    @cached_property
    def changes(self) -> tuple[RowChange, ...]:
        """Of tables that TiDB has at the moment, by commit_ts, without repeats, up to the end."""
        return tuple(self._line.rows(self._schemas))

    @cached_property
    def steps(self) -> tuple[RowStep, ...]:
        """In commit order, of the DDLs that change tables with rows."""
        return tuple(self._step(event) for event in self.events if event.tables and event.effect is not Effect.SWITCH)

    def _events(self) -> Iterator[DdlEvent]:
        for job in self._line.jobs():
            event = self._schemas.apply(job)
            if event is not None:
                yield event

    # ---- what a DDL does to rows ------------------------------------------------------------------------------------

    def _step(self, event: DdlEvent) -> RowStep:
        names = {change.name_before: change.name_after for change in event.tables if change.name_before is not None}
        after = self.schemas_at(event.commit_ts)
        schemas = {change.name_after: after[change.name_after] for change in event.tables if change.name_after in after}
        return RowStep(event.commit_ts, names, schemas, partial(self._applied, event))

    def _applied(self, event: DdlEvent, state: State) -> State:
        made = {name: rows for name, rows in state.items() if all(name != change.name_before for change in event.tables)}
        moving = self._exchanged(event, state) if event.effect is Effect.EXCHANGE else {}
        for change in event.tables:
            if change.name_after is None or self.table_at(change.name_after, event.commit_ts) is None:
                continue
            if change.name_before is None:
                made[change.name_after] = {}
            elif change.name_before in state:
                rows = moving.get(change.name_before, state[change.name_before])
                made[change.name_after] = self._kept(event, change, rows)
        return made

    def _kept(self, event: DdlEvent, change: TableChange, rows: Rows) -> Rows:
        """The rows of one table that are there after the DDL, in its columns."""
        assert change.name_before is not None
        assert change.name_after is not None
        if event.action is Action.TRUNCATE_TABLE:
            return {}
        old, new = self.table_at(change.name_before, event.commit_ts - 1), self.table_at(change.name_after, event.commit_ts)
        assert old is not None
        assert new is not None
        if event.action in _ROWS_VANISH:
            rows = self._without_partitions(event, change.name_after, rows)
        names = new.schema.column_names()
        places = [names.index(name) for name in new.schema.key]
        renamed = event.action is Action.MODIFY_COLUMN
        reshaped = (_reshaped(old, new, row, renamed=renamed) for row in rows.values())
        return {cast("Key", tuple(row[place] for place in places)): row for row in reshaped}

    def _without_partitions(self, event: DdlEvent, name: TableName, rows: Rows) -> Rows:
        """A partition's ids are those that vanished by this job: at its step, if it has one."""
        of_job = [change for one in self.events if one.job_id == event.job_id for change in one.tables]
        ids = frozenset[int]().union(*(change.vanished | change.appeared for change in of_job))  # the emptied one has a new id
        truth = self._truth_after(event.commit_ts, name)
        return {key: row for key, row in rows.items() if not self._was_in(key, ids, else_=key not in truth)}

    def _exchanged(self, event: DdlEvent, state: State) -> State:
        """The rows of both tables after the exchange, still in their old columns: both have the same ones."""
        parted, single = sorted(event.tables, key=lambda change: len(change.physical_before), reverse=True)
        assert parted.name_before is not None
        assert single.name_before is not None
        assert single.name_after is not None
        truth = self._truth_after(event.commit_ts, single.name_after)
        inside, outside = state.get(parted.name_before, {}), state.get(single.name_before, {})
        leaves = {key for key in inside if self._was_in(key, parted.vanished | parted.appeared, else_=key in truth)}
        stays = {key: row for key, row in inside.items() if key not in leaves}
        return {parted.name_before: stays | outside, single.name_before: {key: inside[key] for key in leaves}}

    def _was_in(self, key: Key, physical_ids: frozenset[int], *, else_: bool) -> bool:
        """Whether the row is in one of these partitions; `else_` where no key-value of its key was ever seen."""
        seen = self._homes.get(key)
        return else_ if seen is None else not seen.isdisjoint(physical_ids)

    @cached_property
    def _homes(self) -> Mapping[Key, frozenset[int]]:
        """The physical ids under which a key of a partitioned table was written."""
        homes: defaultdict[Key, set[int]] = defaultdict(set)
        parted = {change.name_before for event in self.events for change in event.tables if len(change.physical_before) > 1}
        for change in self.changes:
            if change.table in parted:
                homes[self.key_of(change.table, change.commit_ts - 1, change.after or change.before or ())].add(change.physical_id)
        return {key: frozenset(ids) for key, ids in homes.items()}

    def key_of(self, name: TableName, ts: int, row: Row) -> Key:
        table = self.table_at(name, ts)
        assert table is not None
        names = table.schema.column_names()
        return cast("Key", tuple(row[names.index(column)] for column in table.schema.key))

    def _truth_after(self, ts: int, name: TableName) -> frozenset[Key]:
        tso = next(tso for tso in self.recording.truth_ts if tso >= ts)
        rows = self.recording.truth(tso)[name]
        table = self.table_at(name, tso)
        assert table is not None
        return frozenset(zip(*(rows.column(column).to_pylist() for column in table.schema.key), strict=True))


def _reshaped(old: KvTable, new: KvTable, row: Row, *, renamed: bool = False) -> Row:
    """`renamed`: a column that came is the one that went, whatever both are called."""
    by_id = {one.id: (column, text) for column, text in zip(old.columns, row, strict=True) for one in (column.successor, column) if one}
    by_name = {column.column.name: (column, text) for column, text in zip(old.columns, row, strict=True)}
    kept = {one.column.name for one in new.columns if by_id.get(one.id) or one.column.name in by_name}
    gone = [by_name[name] for name in by_name.keys() - {one.column.name for one in new.columns} if by_name[name][0].id not in _ids(new)]
    last = gone[0] if renamed and len(gone) == 1 and len(kept) == len(new.columns) - 1 else None
    return tuple(_converted(column, by_id.get(column.id) or by_name.get(column.column.name) or last) for column in new.columns)


def _ids(table: KvTable) -> set[int]:
    return {column.id for column in table.columns} | {column.successor.id for column in table.columns if column.successor}


def _converted(column: KvColumn, value: tuple[KvColumn, str | None] | None) -> str | None:
    if value is None:
        return column.absent
    source, text = value
    if text is None or source.column == column.column:
        return text
    made = cast_text(text, source, column)
    made = clipped_text(text, source, column) if made is None else made
    if made is None:
        raise SourceError(
            f"{text!r} of column {source.column.name} cannot be written as {column.column.kind} after a DDL",
            hint="choose another recording: this one changes a column to a type that is not known here",
        )
    return made


def schema_of(table: KvTable, table_id: int, physical_ids: tuple[int, ...]) -> TableSchema:
    return replace(table.schema, table_id=table_id, physical_ids=physical_ids)


def _described(info: TableInfo, schema: str) -> KvTable:
    return kv_table(info, schema=schema)


class HistorySchemas:
    """`sidecar.ports.Schemas` of a feed that names its tables, as a TiDB would tell them: those at a DDL's commit_ts."""

    def __init__(self, history: RecordedHistory) -> None:
        self._history = history
        self.since_ts = CommitTs(0)

    def begin(self) -> Mapping[TableName, TableSchema]:
        return self._history.schemas_at(self._history.recording.start_ts)

    def resume(self, tables: Mapping[TableName, TableSchema], *, upto_ts: CommitTs) -> Mapping[TableName, TableSchema]:  # noqa: ARG002
        return tables

    def after(self, ddls: Sequence[Ddl]) -> Mapping[TableName, TableSchema]:
        return self._history.schemas_at(max(ddl.commit_ts for ddl in ddls))

    def named(self, changes: Iterable[Change]) -> Iterable[Change]:
        return changes
