"""The tables of a key-value feed: `Schemas` for the pipeline, and for the feed what is to be pulled. Two positions in one history.

    DDL lane    the history knows every job that the lane has passed; here tables appear and vanish at once (`wanted`, `leaving`)
    the log     `after` and `named` speak of the tables where the log is, which follows and passes each cut one after another

- Everything that changes a table, or a schema, is a cut (`ReadDdl`): also what TiCDC would not send, and tables that are not replicated.
  So a segment has one state of all tables, its schemas file is the whole state, and `resume` needs nothing else.
- A row is of the table that had its physical id at commit_ts - 1; TiDB-Binlog's rows have the logical id, which partitions share. `named`
  omits and counts what is no data ("gone": a late write to a truncated table, a partition that was reorganised away; "not yet")
  and what is not replicated (outside the table rules, without a handle key). An id that nobody knows is an error: it was pulled
  because it was known.
- What cannot be followed is refused when the log comes to it, with everything below delivered: `resolve` goes no further, `after` raises.
- A physical id is wanted from the commit_ts of what made it a replicated table's, and given up when the log has passed what ended that.
- The history is collected below what is durable. While rows of a vanished id may still wait to be named, it keeps to below its end.
- Rows of TiDB-Binlog carry the schema version that they were written under, which may be an older one: `PreviousLayout`.
- The watermark table is replicated whatever the rules say, and stays as it is.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from sidecar.feeds.kv.jobs import DdlJobReader
from sidecar.feeds.kv.row_filter import KEY_VALUES, FilteredRows, RowFilter, TableFilter
from sidecar.feeds.kv.suitability import refuse_old_tidb
from sidecar.shared.errors import FeedError, FeedUnsuitable, UnsupportedDdl
from sidecar.shared.model.nouns import MARK_TABLE, Change, CommitTs, Ddl, PreviousLayout, TableName, TableSchema
from sidecar.shared.rowcodec.key_values import KvEntry
from sidecar.shared.rowcodec.kv_layout import KvSnapshot, ddl_job_entry, kv_table_of, layout_of, schema_entry, snapshot_of
from sidecar.shared.rowcodec.kv_table import KvTable, kv_table
from sidecar.shared.schema.ddl import DdlEvent, DdlJob, Effect, Step, TableInfo
from sidecar.shared.schema.history import SchemaHistory
from sidecar.shared.schema.version import TableVersion
from sidecar.shared.ticdc.ddl_rules import DdlRules, DdlVerdict

Tables = Mapping[TableName, TableSchema]
NOTHING_PREVIOUS: Mapping[TableName, PreviousLayout] = MappingProxyType({})

_SCHEMA_APPEARS = (Effect.CREATE_SCHEMA, Effect.RECOVER_SCHEMA)
_SCHEMA_DDLS = (Effect.CREATE_SCHEMA, Effect.DROP_SCHEMA, Effect.ALTER_SCHEMA, Effect.RECOVER_SCHEMA)

NOT_REPLICATED, FILTERED = "not replicated", "omitted by an event filter"


class ReadDdl(NamedTuple):
    """A DDL's place in the stream. Without schema, table and query it is a cut that reaches no sink (shared/codecs/kv.py)."""

    commit_ts: CommitTs
    schema: str = ""
    table: str = ""
    query: str = ""


class _Cut(NamedTuple):
    """What the tables are after it, by what goes and what comes. `refused`: why the log cannot pass it."""

    commit_ts: CommitTs
    gone: tuple[TableName, ...]
    came: tuple[TableSchema, ...]
    refused: FeedError | None = None


class KvSchemas:
    """sidecar.ports.Schemas. `snapshot` queries the cluster, for a new log; `rules` are the changefeed's, and so is `row_filter`, None
    where it omits no row. `rows`: what the feed's changes are. One thread.

    `wanted`: the physical ids to be pulled, each from its ts on; `leaving`: those of them that are no replicated table's any more, since
    when. `dropped` counts changes that `named` omitted, by reason.
    """

    def __init__(
        self, snapshot: Callable[[], KvSnapshot], rules: DdlRules, row_filter: RowFilter | None = None, *, rows: FilteredRows = KEY_VALUES
    ) -> None:
        self._ask = snapshot
        self._rows = rows
        self._rules = rules
        self._row_filter = row_filter
        self._at_log: Tables = {}
        self._newest: dict[TableName, TableSchema] = {}
        self.dropped: Counter[str] = Counter()
        self.wanted: dict[int, CommitTs] = {}
        self.leaving: dict[int, CommitTs] = {}
        self._held_back: dict[int, tuple[CommitTs, CommitTs]] = {}
        self._cuts: deque[_Cut] = deque()
        self._refused = False

    # ---- sidecar.ports.Schemas --------------------------------------------------------------------------------------

    def begin(self) -> Tables:
        """Raises FeedUnsuitable for a TiDB or a table that cannot be followed, and what `snapshot` raises."""
        snapshot = self._ask()
        refuse_old_tidb(snapshot.version, fast_create_table=snapshot.fast_create_table)
        return self._start(snapshot)

    def resume(self, tables: Tables, *, upto_ts: CommitTs) -> Tables:
        return self._start(
            snapshot_of(tables, ts=upto_ts), {name: table.former for name, table in tables.items() if table.former is not None}
        )

    def after(self, ddls: Sequence[Ddl]) -> Tables:
        before, passed = self._at_log, False
        tables = dict(before)
        while self._cuts and self._cuts[0].commit_ts <= ddls[-1].commit_ts:
            cut = self._cuts.popleft()
            if cut.refused is not None:
                raise cut.refused
            passed = bool(cut.gone or cut.came) or passed
            _pass(tables, cut)
        if not passed:
            return before
        _check_mark_table(before, tables, ddls[-1])
        if self._row_filter is not None:
            self._row_filter.check(tables[name] for name in tables if tables[name] != before.get(name))
        self._at_log = tables
        return tables

    def named(self, changes: Iterable[Change]) -> Iterator[Change]:
        """Within a segment no id changes hands, so each is looked up once, with the filter of its table."""
        by_id: dict[str, tuple[TableName | str, TableFilter | None]] = {}
        passing: list[Change] = []
        for change in self._rows.settled(_watched(changes, passing), lambda table: self._decoder(passing[-1]._replace(table=table))):
            known = by_id.get(change[3])
            if known is None:
                known = by_id[change[3]] = self._known(change)
            name, table_filter = known if (home := self._home(change, known[0])) is None else self._known(home)
            if isinstance(name, str):
                self.dropped[name] += 1
            elif table_filter is not None and table_filter.leaves_out(change):
                self.dropped[FILTERED] += 1
            else:
                yield Change(change[0], change[1], name[0], name[1], change[4], change[5], change[6], change[7])

    # ---- for the feed -----------------------------------------------------------------------------------------------

    @property
    def since_ts(self) -> CommitTs:
        """Where `begin` or `resume` has begun: no earlier job is needed."""
        return self._since_ts

    @property
    def ignored_start_ts(self) -> frozenset[int]:
        """Transactions whose rows TiCDC omits."""
        return self._rules.ignored_start_ts

    def mark_table(self) -> KvTable:
        """Raises FeedUnsuitable if the watermark table is not there."""
        table = self._at_log.get(MARK_TABLE)
        if table is None:
            raise FeedUnsuitable(f"the watermark table {MARK_TABLE} is not there", hint="let ticdc-dump create it, and start again")
        return kv_table_of(table)

    def take_job(self, entry: KvEntry) -> None:
        """A write of mysql.tidb_ddl_job above what is resolved."""
        self._jobs.take(entry)

    def know_job(self, job: DdlJob) -> None:
        """A job above what is resolved, of a feed that shows when jobs end and not what they are."""
        self._jobs.add(job)

    def resolve(self, ts: CommitTs) -> list[ReadDdl]:
        """All jobs up to `ts` are known: what happens up to there, in order. Changes `wanted` and `leaving`.

        Raises MessageUnreadable.
        """
        ddls: list[ReadDdl] = []
        for job in self._jobs.upto(ts):
            if self._refused:
                break
            try:
                event = self._history.apply(job)
                cut = self._note(job, event) if event is not None else None
            except FeedError as error:
                cut = self._refuse(job.commit_ts, error)
            if cut is not None:
                ddls.append(cut)
        self._history.advance(ts)
        return ddls

    def passed(self, durable_ts: CommitTs, highest: Callable[[int], CommitTs]) -> list[int]:
        """All commits <= `durable_ts` are in the log. Which physical ids need not be pulled any more; `highest`: the highest commit_ts
        that was delivered of one, which may have to be named yet."""
        given_up = [one for one, ts in self.leaving.items() if ts <= durable_ts]
        for one in given_up:
            del self.wanted[one]
            self._held_back[one] = (self.leaving.pop(one), highest(one))
        self._held_back = {one: ends for one, ends in self._held_back.items() if ends[1] > durable_ts}
        keep = [ts for ts, _ in self._held_back.values()] + list(self.leaving.values())
        below_ts = CommitTs(min([durable_ts, *keep]) - 1)
        if below_ts > self._history.floor_ts:
            self._history.collect(below_ts)
        return given_up

    # ---- within -----------------------------------------------------------------------------------------------------

    def _start(self, snapshot: KvSnapshot, previous: Mapping[TableName, PreviousLayout] = NOTHING_PREVIOUS) -> Tables:
        self._since_ts = snapshot.ts
        self._new_collation = snapshot.new_collation
        schemas = [schema._replace(tables=list(schema.tables)) for schema in snapshot.schemas]
        self._history: SchemaHistory[TableSchema] = SchemaHistory(snapshot.ts, schemas, describe=self._describe)
        entries = [schema_entry(schema.name, schema.schema_id, new_collation=self._new_collation) for schema in schemas]
        mysql = next((schema.schema_id for schema in schemas if schema.name.lower() == "mysql"), 0)
        job_table = ddl_job_entry(snapshot.ddl_job, mysql, new_collation=self._new_collation)
        self._jobs = DdlJobReader(kv_table_of(job_table))
        names = [TableName(schema.name, info["name"]["O"]) for schema in schemas for info in schema.tables]
        carried = (entry for name in names if (entry := self._entry(name, snapshot.ts)) is not None)
        entries += [replace(entry, former=previous.get(entry.name)) for entry in carried]
        if self._row_filter is not None:
            self._row_filter.check(entries)
        self._newest = {entry.name: entry for entry in [job_table, *entries]}
        self._at_log = dict(self._newest)
        self.wanted = {one: snapshot.ts for entry in entries for one in _pulled(entry)}
        return self._at_log

    def _describe(self, info: TableInfo, schema: str) -> TableSchema:
        """Tables that are not replicated may be of types that nobody here knows."""
        name = TableName(schema, info["name"]["O"])
        if name == MARK_TABLE or self._rules.tables.matches(name):
            return kv_table(info, schema=schema, new_collation=self._new_collation).schema
        return TableSchema(name, (), ())

    def _entry(self, name: TableName, ts: CommitTs) -> TableSchema | None:
        """The newest version of a table, view or sequence, as the log's schemas hold it. None: of a schema that is omitted."""
        version = self._history.by_name(name, ts)
        if version is None:
            return None
        schema = version.description if isinstance(version, TableVersion) else TableSchema(version.name, (), ())
        layout = layout_of(version.schema_id, self._history.info(version.table_id), new_collation=self._new_collation)
        return replace(schema, name=version.name, table_id=version.table_id, physical_ids=version.physical_ids, layout=layout)

    def _note(self, job: DdlJob | Step, event: DdlEvent) -> ReadDdl | None:
        """The cut of an event that was applied; None if it changes nothing and reaches no sink."""
        gone = [change.name_before for change in event.tables if change.name_before is not None]
        names = [change.name_after for change in event.tables if change.name_after is not None]
        came = [entry for name in names if (entry := self._entry(name, event.commit_ts)) is not None]
        if self._rows.has_previous and isinstance(job, DdlJob):
            came = [self._remembering(entry, gone, job) for entry in came]
        if isinstance(job, DdlJob) and event.effect in _SCHEMA_APPEARS:
            came.append(schema_entry(event.schema, job.schema_id, new_collation=self._new_collation))
        if event.effect is Effect.DROP_SCHEMA:
            gone.append(TableName(event.schema, ""))
        same = {entry.name for entry in came if self._newest.get(entry.name) == entry}  # a step that is written again, with its progress
        gone, came = [name for name in gone if name not in same], [entry for entry in came if entry.name not in same]
        read_ddl = self._read_ddl(event)
        if read_ddl is None and not gone and not came:
            return None
        cut = _Cut(event.commit_ts, tuple(gone), tuple(came))
        before = {one for name in gone if name in self._newest for one in _pulled(self._newest[name])}
        after = {one for entry in came for one in _pulled(entry)}
        for one in after - before:
            self.leaving.pop(one, None)
            self.wanted.setdefault(one, event.commit_ts)
        self.leaving |= dict.fromkeys(before - after, event.commit_ts)
        _pass(self._newest, cut)
        if isinstance(read_ddl, FeedError):
            return self._refuse(event.commit_ts, read_ddl)
        self._cuts.append(cut)
        return read_ddl or ReadDdl(event.commit_ts)

    def _remembering(self, entry: TableSchema, gone: Iterable[TableName], job: DdlJob) -> TableSchema:
        """With the layout of the same table before."""
        before = next((one for name in gone if (one := self._newest.get(name)) and one.table_id == entry.table_id), None)
        if before is None or before.layout == entry.layout:
            return entry if before is None else replace(entry, former=before.former)
        return replace(entry, former=PreviousLayout(job.schema_version, before.layout, job.finished_ts))

    def _read_ddl(self, event: DdlEvent) -> ReadDdl | FeedError | None:
        """What TiCDC would send of it, None for nothing. The query is the job's: TiCDC's own is the same in its parser's words."""
        if event.effect is Effect.SWITCH:
            return None
        try:
            if self._rules.verdict(event) is not DdlVerdict.SEND:
                return None
        except FeedError as error:
            return error
        query = event.query or f"/* {event.action.name}: its job holds no statement */"
        if event.effect in _SCHEMA_DDLS:
            return ReadDdl(event.commit_ts, event.schema, "", query)
        names = [name for change in event.tables if (name := change.name_after or change.name_before) is not None]
        name = next((name for name in names if self._rules.tables.matches(name)), names[0])
        return ReadDdl(event.commit_ts, name.schema, name.table, query)

    def _refuse(self, commit_ts: CommitTs, error: FeedError) -> ReadDdl:
        self._refused = True
        self._cuts.append(_Cut(commit_ts, (), (), error))
        return ReadDdl(commit_ts)

    def _filter_of(self, name: TableName) -> TableFilter | None:
        """By the table as the log has it, with which the segment is decoded."""
        table = self._at_log.get(name)
        return None if self._row_filter is None or table is None else self._row_filter.of(table)

    def _known(self, change: Change) -> tuple[TableName | str, TableFilter | None]:
        named = self._name(change)
        return named, None if isinstance(named, str) else self._filter_of(named)

    def _home(self, change: Change, name: TableName | str) -> Change | None:
        """A row that was written before its table's partitions became others, by the id of its partition then: it may be another table's
        by now, or nobody's."""
        table = None if isinstance(name, str) or not self._rows.has_previous else self._at_log.get(name)
        if table is None or table.former is None or str(table.table_id) != change.table:
            return None
        home = self._rows.home(table, change)
        return None if home is None else change._replace(table=str(home))

    def _decoder(self, change: Change) -> KvTable | None:
        name = self._name(change)
        return None if isinstance(name, str) else kv_table_of(self._at_log[name])

    def _name(self, change: Change) -> TableName | str:
        """The table, or why there is none."""
        an_id, ts = int(change.table), change.commit_ts - 1
        logical = self._rows.logical_ids
        version = self._history.table_at(an_id, ts) or (self._history.table_by_id(an_id, ts) if logical else None)
        if version is not None:
            return version.name if version.description.key else NOT_REPLICATED
        absence = self._history.absence(an_id, ts, logical=logical)
        if absence == "unknown":
            raise FeedError(
                f"{change.lane}@{change.position} has a row of table id {an_id} at commit_ts {change.commit_ts},"
                " and no table has or had that id",
                hint="start the sidecar again, which reads on from its log; if it stops here again, report this text",
            )
        return absence


def _watched(changes: Iterable[Change], passing: list[Change]) -> Iterator[Change]:
    """`passing`: has the one that passed last."""
    for change in changes:
        passing[:] = [change]
        yield change


def _pulled(entry: TableSchema) -> tuple[int, ...]:
    """The physical ids whose rows are wanted: those of tables with a handle key, which only replicated ones have here."""
    return entry.physical_ids if entry.key else ()


def _pass(tables: dict[TableName, TableSchema], cut: _Cut) -> None:
    for name in cut.gone:
        tables.pop(name, None)
    tables.update((entry.name, entry) for entry in cut.came)


def _check_mark_table(before: Tables, after: Tables, ddl: Ddl) -> None:
    """It may come into being, and nothing else."""
    one, other = before.get(MARK_TABLE), after.get(MARK_TABLE)
    if one is not None and (
        other is None or (other.table_id, other.physical_ids, other.columns) != (one.table_id, one.physical_ids, one.columns)
    ):
        raise UnsupportedDdl(
            f"DDL at commit_ts {ddl.commit_ts} in {ddl.lane}@{ddl.position} changes {MARK_TABLE}: {ddl.query}",
            hint="leave the watermark table as it was made; restore it, then start a new changefeed and a new log, and dump again",
        )
