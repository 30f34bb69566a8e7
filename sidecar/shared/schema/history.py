"""Every table's schema at every commit-ts: a snapshot at one ts, then the finished DDL jobs after it, in commit order.

Rules:
- A job with commit_ts F decides lookups at ts >= F. A row is looked up at its commit_ts - 1, so that a row at F has the schema
  before the DDL (tiflow cdc/entry/mounter.go). Order is commit_ts; `SchemaVersion` is not an order (tiflow#11714) and has gaps anyway.
- All jobs count, also those that TiCDC discards. A job seen before is a repeat and changes nothing; one that comes late, or
  that speaks of a table or schema that is not there (a gap), raises and changes nothing.
- Lookups are answered only between `floor_ts` (snapshot, then `collect`) and `complete_ts` (`advance`, then the last job):
  outside of it the answer would be a guess.
- Row keys hold physical ids. A partition's id leads to its table; a partitioned table's own id has no rows. An id without a
  table finds None: what a reorganisation copies to new partitions (until its switch) and what is written to old ones (after
  it) is there twice, and what a late transaction writes to a truncated table is nowhere to be seen in TiDB.
- TiDB's and TiCDC's own schemas are omitted: no rows of theirs are replicated.

The history does not know what a description is: it keeps what `describe` makes of a TableInfo. Source of what jobs do: pingcap/tidb
pkg/ddl, pkg/meta/model; pingcap/tiflow cdc/entry/schema/snapshot.go; pingcap/ticdc logservice/schemastore.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Generic, Literal, TypeVar, assert_never

from sidecar.shared.errors import FeedError, UnsupportedDdl
from sidecar.shared.model.nouns import CommitTs, TableName
from sidecar.shared.schema.ddl import Action, ColumnSwitch, DdlEvent, DdlJob, Effect, JobTable, PartitionSwitch, Step, TableInfo, effect_of
from sidecar.shared.schema.system import is_system_schema
from sidecar.shared.schema.tables import AGAIN, Move, SchemaTables
from sidecar.shared.schema.version import Describe, Rowless, SchemaSnapshot, TableVersion, read_version

T = TypeVar("T")

_PUBLIC = 5


class SchemaHistory(Generic[T]):
    """`describe(TableInfo, schema's name)` is called once a version, for tables only; what it raises stops the job."""

    def __init__(self, ts: CommitTs, schemas: Iterable[SchemaSnapshot], *, describe: Describe[T]) -> None:
        self._describe = describe
        self._tables: SchemaTables[T] = SchemaTables()
        self._applied: dict[tuple[int, bool], CommitTs] = {}
        self._idle: set[int] = set()
        self._floor_ts = self._resolved_ts = self._last_job_ts = ts
        moves: list[Move[T]] = []
        for schema in schemas:
            self._tables.put_schema(ts, schema.schema_id, schema.name)
            if not self._tables.is_system(schema.schema_id):
                moves += [Move(None, self._version(one, schema.schema_id, schema.name, ts), one) for one in schema.tables]
        self._tables.refuse_conflicts(moves, f"the snapshot at {ts}")
        self._tables.move(ts, moves)

    @property
    def floor_ts(self) -> CommitTs:
        """The lowest ts that can be looked up."""
        return self._floor_ts

    @property
    def complete_ts(self) -> CommitTs:
        """The highest ts that can be looked up."""
        return max(self._resolved_ts, self._last_job_ts)

    # ---- lookups ------------------------------------------------------------------------------------------------------

    def table_at(self, physical_id: int, ts: int) -> TableVersion[T] | None:
        """The table whose rows have this id in their keys; for a row, `ts` is its commit_ts - 1. Raises FeedError outside the bounds."""
        self._check(ts)
        return self._tables.owner_at(physical_id, ts)

    def table_by_id(self, table_id: int, ts: int) -> TableVersion[T] | None:
        """The table with this logical id, which a partitioned table has beside those of its partitions. Raises as `table_at`."""
        self._check(ts)
        return self._tables.table_at(table_id, ts)

    def absence(self, an_id: int, ts: int, *, logical: bool = False) -> Literal["unknown", "not yet", "gone"]:
        """Why `table_at`, and with `logical` also `table_by_id`, finds none: the id gets its table by a later DDL that is known, lost it
        by an earlier one that is not collected, or is none of a table that is known."""
        return self._tables.absence(an_id, ts, logical=logical)

    def by_name(self, name: TableName, ts: int) -> TableVersion[T] | Rowless | None:
        """Names are compared without case, as TiDB does."""
        self._check(ts)
        return self._tables.named_at(name, ts)

    def tables_at(self, ts: int) -> tuple[TableVersion[T], ...]:
        """All tables with rows, without views and sequences."""
        self._check(ts)
        return self._tables.all_at(ts)

    def info(self, table_id: int) -> TableInfo:
        """The TableInfo of a table, view or sequence that exists after the last job: with what its steps have changed so far."""
        return self._tables.info(table_id)

    def snapshot(self) -> list[SchemaSnapshot]:
        """All schemas as they are after the last job; those of the system without tables."""
        return self._tables.snapshot()

    def _check(self, ts: int) -> None:
        if not self._floor_ts <= ts <= self.complete_ts:
            raise FeedError(
                f"schemas at {ts} were requested; they are known from {self._floor_ts} to {self.complete_ts}",
                hint="this is a bug of ticdc-dump, or a row came before its lane's resolved mark; start again from the checkpoint",
            )

    # ---- what comes in ------------------------------------------------------------------------------------------------

    def advance(self, resolved_ts: CommitTs) -> None:
        """Every job with commit_ts <= resolved_ts has been applied. Going back is a repeat."""
        self._resolved_ts = max(self._resolved_ts, resolved_ts)

    def apply(self, job: DdlJob | Step) -> DdlEvent | None:
        """What the job changed; None if it is a repeat, or a step that replaces no column.

        Raises FeedError for a job that is late or does not fit what is known, UnsupportedDdl for one that cannot be followed.
        """
        if self._is_repeat(job):
            return None
        if isinstance(job, DdlJob):
            action, effect = effect_of(job.action, job=job.at())
            moves = self._plan(job, effect)
        else:
            action, effect = job.action, Effect.SWITCH
            moves = self._switch(job)
        self._tables.refuse_conflicts(moves, job.at())
        if isinstance(job, DdlJob):
            self._follow_schema(job, effect)
        self._tables.move(job.commit_ts, moves)
        self._applied[job.job_id, effect is Effect.SWITCH] = self._last_job_ts = job.commit_ts
        if isinstance(job, ColumnSwitch):
            self._idle = self._idle - {job.job_id} if moves else self._idle | {job.job_id}
            if not moves:
                return None
        changes = tuple(move.change() for move in moves)
        return DdlEvent(job.commit_ts, job.start_ts, job.job_id, action, effect, job.query, job.schema_name, changes)

    def _is_repeat(self, job: DdlJob | Step) -> bool:
        known = self._applied.get((job.job_id, not isinstance(job, DdlJob)))
        if job.commit_ts <= self._floor_ts or known == job.commit_ts:
            return True
        if known is not None and not isinstance(job, DdlJob) and known < job.commit_ts:
            # the step is tried again, or written again with its progress; one that changed nothing may be followed by one that does
            return job.job_id not in self._idle
        if known is not None and isinstance(job, ColumnSwitch):
            return True
        if known is not None:
            raise _misfit(job, f"is known with commit_ts {known}")
        if job.commit_ts < self._last_job_ts or job.commit_ts <= self._resolved_ts:
            raise _misfit(job, f"comes late: all jobs up to {self.complete_ts} were known")
        return False

    def collect(self, below_ts: CommitTs) -> None:
        """Forget what no lookup at ts >= below_ts needs; lookups below are refused from here on."""
        self._floor_ts = max(self._floor_ts, min(below_ts, self.complete_ts))
        self._tables.forget(self._floor_ts)
        self._applied = {job: ts for job, ts in self._applied.items() if ts > self._floor_ts}
        self._idle = {job_id for job_id in self._idle if (job_id, True) in self._applied}

    # ---- what a job does ----------------------------------------------------------------------------------------------

    def _plan(self, job: DdlJob, effect: Effect) -> list[Move[T]]:
        """The tables before and after. Changes nothing, and raises for a job that does not fit."""
        if is_system_schema(job.schema_name) and effect is not Effect.RENAME:
            return []
        match effect:
            case Effect.NONE:
                return []
            case Effect.CREATE_SCHEMA:
                if self._tables.schema_id(job.schema_name) not in (None, job.schema_id):
                    raise _misfit(job, f"creates schema {job.schema_name}, which exists")
                return []
            case Effect.ALTER_SCHEMA:
                self._schema_of(job, job.schema_id)
                return []
            case Effect.DROP_SCHEMA:
                self._schema_of(job, job.schema_id)
                return [Move(one, None, None) for one in self._tables.tables_in(job.schema_id)]
            case Effect.RECOVER_SCHEMA:
                return [Move(None, self._after(job, one), one.info) for one in self._recovered(job)]
            case Effect.CREATE:
                return [move for one in _some(job) for move in self._create(job, one)]
            case Effect.DROP:
                return [Move(self._before(job, job.table_id), None, None)]
            case Effect.ALTER | Effect.REPLACE:
                one = _only(job)
                if effect is Effect.ALTER and one.info["id"] != job.table_id:
                    raise _misfit(job, f"is for table id {job.table_id} and holds table id {one.info['id']}")
                return [Move(self._before(job, job.table_id), self._after(job, one), one.info)]
            case Effect.RENAME:
                # A table that is renamed twice in one job is there twice; where it ends is what counts.
                last = {one.info["id"]: one for one in _some(job)}
                return [Move(self._before(job, table_id), self._after(job, one), one.info) for table_id, one in last.items()]
            case Effect.EXCHANGE:
                return self._exchange(job)
            case Effect.SWITCH:
                raise _misfit(job, "is finished and called a step")
            case _:
                assert_never(effect)

    def _switch(self, step: Step) -> list[Move[T]]:
        """The same table under other ids, or with columns that are written in another way. Amid a DDL whose snapshot has them
        already, nothing changes."""
        if is_system_schema(step.schema_name):
            return []
        before = self._before(step, step.table_id)
        if isinstance(step, ColumnSwitch):
            try:
                return self._succeed(step, before)
            except (AttributeError, LookupError, TypeError) as error:
                raise _misfit(step, f"or its table's info lacks or breaks a field: {error!r}") from error
        info = self._tables.info(step.table_id)
        partition = info.get("partition") or {}
        definitions = partition.get("definitions") or []
        kept = [one for one in definitions if step.gone is not None and not {one["id"], one["name"]["L"]} & step.gone]
        if set(step.came) <= set(before.physical_ids) and (step.came or len(kept) == len(definitions)):
            return []
        if isinstance(before, Rowless) or (step.gone is not None and len(definitions) - len(kept) != len(step.gone)):
            raise _misfit(step, f"replaces {step.gone} by {step.came} in table id {step.table_id}, which has {before.physical_ids}")
        now = _after_switch(definitions, kept, step)
        info["partition"] = partition | {"enable": True, "definitions": now}
        return [Move(before, self._again(info, before, step.commit_ts), info)]

    def _succeed(self, step: ColumnSwitch, before: TableVersion[T] | Rowless) -> list[Move[T]]:
        """`successor` and `dropped` are no fields of TiDB's: the description reads them, and the finished job's TableInfo has none."""
        info = self._tables.info(step.table_id)
        columns = [column for column in info["cols"] if column["state"] == _PUBLIC]
        successors = {one.column_id: one.column for one in step.successors} | _replaced(step, columns)
        if {column["id"] for column in columns} & {one["id"] for one in successors.values()}:
            successors = {}
        dropped = step.dropped & _in_unique_indexes(info)
        if not successors and not dropped:
            return []
        if not successors.keys() <= {column["id"] for column in columns}:
            raise _misfit(step, f"replaces columns {sorted(successors)} of table id {step.table_id}, which has not all of them")
        for column in columns:
            if column["id"] in successors:
                column["successor"] = dict(successors[column["id"]])
            if column["name"]["L"] in dropped:
                column["dropped"] = True
        return [Move(before, self._again(info, before, step.commit_ts), info)]

    def _create(self, job: DdlJob, one: JobTable) -> list[Move[T]]:
        """A table that is there already was in the snapshot before it was public, or its creation is reported twice (TiDB 8.0 to 8.2)."""
        after = self._after(job, one)
        moves = [Move(self._tables.table(one.info["id"]), after, one.info)]
        if job.action == Action.CREATE_VIEW and after is not None:
            holder = self._tables.named(after.schema_id, after.name.table)
            if isinstance(holder, Rowless) and holder.table_id != after.table_id:
                moves.append(Move(holder, None, None))
        return moves

    def _exchange(self, job: DdlJob) -> list[Move[T]]:
        """The job holds the partitioned table only (tidb#43819): the other one keeps its columns under the partition's id."""
        parted_info = _only(job).info
        single, parted = self._before(job, job.table_id), self._before(job, parted_info["id"])
        parted_after = self._again(parted_info, parted, job.commit_ts)
        left = set(parted.physical_ids) - set(parted_after.physical_ids)
        came = set(parted_after.physical_ids) - set(parted.physical_ids)
        if came != {single.table_id} or len(left) != 1 or single.physical_ids != (single.table_id,):
            raise _misfit(job, f"does not swap table id {single.table_id} with one partition: {sorted(left)} went, {sorted(came)} came")
        info = self._tables.info(single.table_id) | {"id": left.pop(), "exchange_partition_info": None}
        return [Move(parted, parted_after, parted_info), Move(single, self._again(info, single, job.commit_ts), info)]

    def _recovered(self, job: DdlJob) -> Iterable[JobTable]:
        """The job's own tables, else those that were dropped with the schema while we looked on."""
        if job.tables:
            return job.tables
        dropped = self._tables.dropped_with(job.schema_id)
        if dropped is None:
            raise UnsupportedDdl(
                f"{job.at()} brings back schema {job.schema_name}, whose tables were dropped before this feed saw them",
                hint="start a new feed from a position after this DDL, and dump the schema's tables",
            )
        return [JobTable(info, job.schema_id) for info in dropped]

    def _before(self, job: DdlJob | Step, table_id: int) -> TableVersion[T] | Rowless:
        table = self._tables.table(table_id)
        if table is None:
            raise _misfit(job, f"changes table id {table_id}, which does not exist")
        return table

    def _after(self, job: DdlJob, one: JobTable) -> TableVersion[T] | Rowless | None:
        """None: the table goes to a schema that is omitted."""
        schema_id = one.schema if isinstance(one.schema, int) else self._tables.schema_id(one.schema)
        if schema_id is not None and self._tables.is_system(schema_id):
            return None
        if job.action == Action.RECOVER_SCHEMA:
            return self._version(one.info, job.schema_id, job.schema_name, job.commit_ts)
        if schema_id is None:
            raise _misfit(job, f"is for schema {one.schema}, which does not exist")
        return self._version(one.info, schema_id, self._schema_of(job, schema_id), job.commit_ts)

    def _again(self, info: TableInfo, before: TableVersion[T] | Rowless, ts: CommitTs) -> TableVersion[T] | Rowless:
        return self._version(info, before.schema_id, before.name.schema, ts)

    def _version(self, info: TableInfo, schema_id: int, schema: str, ts: CommitTs) -> TableVersion[T] | Rowless:
        return read_version(info, self._describe, schema_id=schema_id, schema=schema, since_ts=ts)

    def _schema_of(self, job: DdlJob, schema_id: int) -> str:
        name = self._tables.schema_name(schema_id)
        if name is None:
            raise _misfit(job, f"is for schema id {schema_id}, which does not exist")
        return name

    def _follow_schema(self, job: DdlJob, effect: Effect) -> None:
        if effect in (Effect.CREATE_SCHEMA, Effect.RECOVER_SCHEMA):
            self._tables.put_schema(job.commit_ts, job.schema_id, job.schema_name)
        elif effect is Effect.DROP_SCHEMA and self._tables.schema_name(job.schema_id) is not None:
            self._tables.drop_schema(job.commit_ts, job.schema_id)


def _after_switch(definitions: list[dict[str, Any]], kept: list[dict[str, Any]], step: PartitionSwitch) -> list[dict[str, Any]]:
    """The partitions in their order, where the step says what the new ones are; else those behind the others, without names, as the job
    names them when it is done."""
    gone = [place for place, one in enumerate(definitions) if one not in kept]
    if step.action is Action.TRUNCATE_TABLE_PARTITION and len(step.came) == len(gone) == 1:
        return [one if one in kept else one | {"id": step.came[0]} for one in definitions]
    if gone and len(step.definitions) == len(step.came) and gone == list(range(gone[0], gone[0] + len(gone))):
        return [*definitions[: gone[0]], *map(dict, step.definitions), *definitions[gone[-1] + 1 :]]
    return kept + [{"id": one, "name": {"O": "", "L": ""}} for one in step.came]


def _in_unique_indexes(info: Mapping[str, Any]) -> set[str]:
    """Columns that may be of the handle key, by name in small letters."""
    return {column["name"]["L"] for index in info.get("index_info") or () if index["is_unique"] for column in index["idx_cols"]}


def _replaced(step: ColumnSwitch, columns: list[Mapping[str, Any]]) -> dict[int, Mapping[str, Any]]:
    """By id, of `columns` that the table amid the step has no more, those of the same name. Raises UnsupportedDdl without one."""
    if step.amid is None:
        return {}
    public = {column["id"]: column["state"] == _PUBLIC for column in step.amid["cols"]}
    by_name = {column["name"]["L"]: column for column in step.amid["cols"] if column["state"] == _PUBLIC}
    successor_ids = {one.column_id for one in step.successors}
    gone = [column for column in columns if column["id"] not in public.keys() | successor_ids]
    lost = [column["name"]["O"] for column in gone if column["name"]["L"] not in by_name]
    being_dropped = sum(not public.get(column["id"], True) for column in columns if column["id"] not in successor_ids)
    if len(lost) > step.drops - being_dropped:
        raise UnsupportedDdl(
            f"{step.at()} changes type and name of a column ({', '.join(lost)}) in one statement with other changes",
            hint="start a new feed from a position after this DDL, and dump the table; change type and name by statements of their own",
        )
    return {column["id"]: by_name[column["name"]["L"]] for column in gone if column["name"]["L"] in by_name}


def _misfit(job: DdlJob | Step, problem: str) -> FeedError:
    return FeedError(f"{job.at()} {problem}", hint=AGAIN)


def _some(job: DdlJob) -> tuple[JobTable, ...]:
    if not job.tables:
        raise _misfit(job, "holds no table info")
    return job.tables


def _only(job: DdlJob) -> JobTable:
    if len(_some(job)) > 1:
        raise _misfit(job, f"holds {len(job.tables)} table infos, expected one")
    return job.tables[0]
