"""TiDB's DDL jobs (JSON in `job_meta`) to `schema.ddl.DdlJob`.

- A job counts once it is done: its last schema change and `state` = done are written in one transaction. That transaction's
  commit_ts is the job's. The JSON does not hold it: `binlog.FinishedTS` is 0 in mysql.tidb_ddl_job; in tidb_ddl_history it
  is 40 to 450 ms later (measured), and rows between the two have the schema after the DDL already.
- So `ddl_job` reads rows of mysql.tidb_ddl_job with the commit_ts of the KV entry. `history_job` reads
  mysql.tidb_ddl_history, where a job is synced, and takes FinishedTS: good to know what changed, not to decode rows by.
- Jobs that are queued, running, paused or rolled back are None, and so is a done job with schema version 0 (it changed
  nothing). A state that TiDB did not have when this was written is an error.
- Of running jobs one step counts: from which on a partition DDL's rows are under the new ids (`PartitionSwitch`). Reorganising
  jobs: schema state public, before which every session writes to the old ids, after which to the new ones. TRUNCATE PARTITION:
  delete-only, from which on SQL sees the new ones. DROP PARTITION: delete-only, from which on SQL sees none in their place and other
  partitions get their keys (in write-only, which newer TiDB has before, nobody writes there, and the job can still be cancelled). Or from
  which on a MODIFY COLUMN's rows may lack the old column
  (`ColumnSwitch`): schema state public, also of a part of a multi-schema change. None of them is rolled back any more. Older
  TiDB has no such steps. Or, also `ColumnSwitch`, the first step of a DROP COLUMN: schema state write-only.
- Arguments are a list in version 1 of the format, an object in version 2 (TiDB 8.4); a finished job may have lost them.

Source: pingcap/tidb pkg/meta/model/{job,job_args}.go; pingcap/ticdc logservice/schemastore/ddl_job_fetcher.go.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from sidecar.shared.errors import MessageUnreadable
from sidecar.shared.model.nouns import CommitTs, TableName
from sidecar.shared.rowcodec.ddl_names import Involved, involved_by, renamed_by
from sidecar.shared.schema.ddl import Action, ColumnSwitch, DdlJob, JobTable, PartitionSwitch, Step, Successor, TableInfo

_RUNNING, _ROLLED_BACK, _DONE, _CANCELLED, _SYNCED = 1, 3, 4, 5, 6
_STATES = range(11)

_SCHEMA_ACTIONS = {Action.CREATE_SCHEMA, Action.DROP_SCHEMA, Action.MODIFY_SCHEMA_CHARSET, Action.MODIFY_SCHEMA_PLACEMENT}
_SCHEMA_ACTIONS |= {Action.MODIFY_SCHEMA_READ_ONLY, Action.RECOVER_SCHEMA}
_REORGANISING = {Action.REORGANIZE_PARTITION, Action.ALTER_TABLE_PARTITIONING, Action.REMOVE_PARTITIONING}
_DELETE_ONLY, _WRITE_ONLY, _PUBLIC = 1, 2, 5
_SWITCH_STATES = dict.fromkeys(map(int, _REORGANISING), _PUBLIC)
_SWITCH_STATES |= dict.fromkeys(map(int, (Action.TRUNCATE_TABLE_PARTITION, Action.DROP_TABLE_PARTITION)), _DELETE_ONLY)
_COLUMN_ACTIONS = {Action.MODIFY_COLUMN, Action.DROP_COLUMN, Action.MULTI_SCHEMA_CHANGE}
_WITHOUT_VERSION = {Action.FLASHBACK_CLUSTER, Action.REFRESH_META}
_MULTIPLE = {Action.CREATE_TABLES, Action.RENAME_TABLES}


class _Name(msgspec.Struct):
    O: str  # noqa: E741  # TiDB's name of the field


class _Schema(msgspec.Struct):
    id: int
    db_name: _Name


class _Binlog(msgspec.Struct):
    SchemaVersion: int = 0
    FinishedTS: int = 0
    DBInfo: _Schema | None = None
    TableInfo: dict[str, Any] | None = None
    MultipleTableInfos: list[dict[str, Any]] | None = None


class _SubJob(msgspec.Struct):
    """A part of a multi-schema change."""

    type: int
    state: int
    schema_state: int = 0
    raw_args: Any = None


class _MultiSchema(msgspec.Struct):
    sub_jobs: list[_SubJob] | None = None


class _Job(msgspec.Struct):
    """Fields that are not named here do not change what a job did."""

    id: int
    type: int
    state: int
    schema_state: int = 0
    schema_id: int = 0
    table_id: int = 0
    schema_name: str = ""
    start_ts: int = 0
    query: str = ""
    binlog: _Binlog | None = None
    raw_args: Any = None
    involving_schema_info: list[Involved] | None = None
    multi_schema_info: _MultiSchema | None = None


class _Partition(msgspec.Struct):
    """`name` and its values say what it is made of, and decide nothing here."""

    id: int
    name: Any = None
    less_than: Any = None
    in_values: Any = None


class _PartInfo(msgspec.Struct):
    definitions: list[_Partition]


class _Reorganised(msgspec.Struct):
    part_info: _PartInfo
    part_names: list[str] | None = None


class _Truncated(msgspec.Struct):
    old_partition_ids: list[int]
    new_partition_ids: list[int]


class _DroppedPartitions(msgspec.Struct):
    part_names: list[str]


class _Modified(msgspec.Struct):
    """`changing_column`: only with reorganisation. `old_column_id`: only where the old column stays on under another name."""

    changing_column: dict[str, Any] | None = None
    old_column_id: int = 0


class _NamedColumn(msgspec.Struct):
    name: _Name


class _Dropped(msgspec.Struct):
    """Version 2 has a column without anything but its name, version 1 the name."""

    column_info: _NamedColumn | None = None
    column_name: _Name | None = None


class _RenamedTable(msgspec.Struct):
    new_schema_id: int


class _Renamed(msgspec.Struct):
    rename_table_infos: list[_RenamedTable] | None = None
    new_schema_ids: list[int] | None = None


class _RecoveredTable(msgspec.Struct):
    TableInfo: dict[str, Any]


class _RecoverInfo(msgspec.Struct):
    """RecoverTabsInfo: the list's name in older TiDB."""

    RecoverTableInfos: list[_RecoveredTable] | None = None
    RecoverTabsInfo: list[_RecoveredTable] | None = None
    LoadTablesOnExecute: bool = False


class _Recovered(msgspec.Struct):
    recover_info: _RecoverInfo | None = None


A = TypeVar("A", _Reorganised, _Truncated, _DroppedPartitions, _Modified, _Dropped, _Renamed, _Recovered)

_MODIFIED = (
    "column", "old_column_name", "position", "modify_column_type", "new_shard_bits", "changing_column", "changing_idxs",
    "redundant_idxs", "old_column_id",
)  # fmt: skip

_decoder = msgspec.json.Decoder(_Job)


def ddl_job(job_meta: bytes, *, commit_ts: CommitTs, at: str) -> DdlJob | Step | None:
    """A row of mysql.tidb_ddl_job as it was written at `commit_ts`; None if that write did not change what rows are.

    `at` names the place in errors. Raises MessageUnreadable.
    """
    job = _decoded(job_meta, at)
    if job.state == _RUNNING:
        if job.type in _COLUMN_ACTIONS:
            return _column_switch(job, commit_ts, at)
        return _switch(job, commit_ts, at) if _SWITCH_STATES.get(job.type, -1) == job.schema_state else None
    return _done_job(job, commit_ts, at)


def done_job(job_meta: bytes, *, commit_ts: CommitTs, at: str) -> DdlJob | None:
    """As `ddl_job`, without the steps of jobs that run."""
    return _done_job(_decoded(job_meta, at), commit_ts, at)


def history_job(job_meta: bytes, *, at: str) -> DdlJob | None:
    """A row of mysql.tidb_ddl_history, with FinishedTS as commit_ts: later than the true one. Raises MessageUnreadable."""
    job = _decoded(job_meta, at)
    if job.state != _SYNCED or job.binlog is None or job.binlog.SchemaVersion == 0:
        return None
    return _done(job, job.binlog, CommitTs(job.binlog.FinishedTS), at)


def past_job(job_meta: bytes, *, at: str) -> DdlJob | None:
    """As `history_job`, and also what changes rows without a schema version of its own: FLASHBACK CLUSTER (seen on 9.0.0-beta.2), REFRESH
    META."""
    job = _decoded(job_meta, at)
    if job.state == _SYNCED and job.binlog is not None and job.type in _WITHOUT_VERSION:
        return _done(job, job.binlog, CommitTs(job.binlog.FinishedTS), at)
    return history_job(job_meta, at=at)


def ended_job(job_meta: bytes, *, commit_ts: CommitTs, query: str, at: str) -> tuple[bool, DdlJob | None]:
    """A row of either table, of a job whose true commit_ts is known: whether the job is over, and what it did, None for nothing (rolled
    back, or without a change). `query`: its statement as TiDB restores it, names in backquotes. Raises MessageUnreadable."""
    job = _decoded(job_meta, at)
    if job.type == Action.RENAME_TABLES and job.raw_args is None and not job.involving_schema_info:
        job.involving_schema_info = renamed_by(query, job.schema_name)
    if job.state in (_ROLLED_BACK, _CANCELLED):
        return True, None
    if job.state not in (_DONE, _SYNCED):
        return False, None
    changed = job.binlog is not None and job.binlog.SchemaVersion
    return True, _done(job, job.binlog, commit_ts, at) if changed and job.binlog is not None else None


def _decoded(job_meta: bytes, at: str) -> _Job:
    try:
        job = _decoder.decode(job_meta)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _unreadable(at, f"no DDL job of TiDB: {error}") from error
    if job.state not in _STATES:
        raise _unreadable(at, f"DDL job {job.id} has state {job.state}, expected 0 to {_STATES.stop - 1}")
    return job


def _done_job(job: _Job, commit_ts: CommitTs, at: str) -> DdlJob | None:
    if job.state != _DONE or job.binlog is None or job.binlog.SchemaVersion == 0:
        return None
    return _done(job, job.binlog, commit_ts, at)


def _done(job: _Job, binlog: _Binlog, commit_ts: CommitTs, at: str) -> DdlJob:
    schema_id, schema_name = job.schema_id, job.schema_name
    if job.type in _SCHEMA_ACTIONS:
        if binlog.DBInfo is None:
            raise _unreadable(at, f"DDL job {job.id} ({job.query[:200]}) holds no schema")
        schema_id, schema_name = binlog.DBInfo.id, binlog.DBInfo.db_name.O
    return DdlJob(
        job_id=job.id,
        action=job.type,
        commit_ts=commit_ts,
        start_ts=job.start_ts,
        query=job.query,
        schema_id=schema_id,
        schema_name=schema_name,
        table_id=job.table_id,
        tables=_tables(job, binlog, at),
        schema_version=binlog.SchemaVersion,
        finished_ts=binlog.FinishedTS,
        involved=_involved(job),
    )


def _switch(job: _Job, commit_ts: CommitTs, at: str) -> PartitionSwitch:
    gone: frozenset[int | str] | None = None
    came: tuple[int, ...] = ()
    definitions: tuple[dict[str, Any], ...] = ()
    if job.type == Action.TRUNCATE_TABLE_PARTITION:
        truncated = _arguments(job, _Truncated, ("old_partition_ids", "new_partition_ids"), at)
        gone, came = frozenset(truncated.old_partition_ids), tuple(truncated.new_partition_ids)
    elif job.type == Action.DROP_TABLE_PARTITION:
        gone = frozenset(name.lower() for name in _arguments(job, _DroppedPartitions, ("part_names",), at).part_names)
    else:
        reorganised = _arguments(job, _Reorganised, ("part_names", "part_info"), at)
        came = tuple(one.id for one in reorganised.part_info.definitions)
        if job.type == Action.REORGANIZE_PARTITION:
            gone = frozenset(name.lower() for name in reorganised.part_names or ())
            definitions = tuple(map(msgspec.structs.asdict, filter(_is_reported, reorganised.part_info.definitions)))
    if gone == frozenset() or (not came and job.type != Action.DROP_TABLE_PARTITION):
        raise _unreadable(at, f"DDL job {job.id} ({job.query[:200]}) does not name its partitions")
    return PartitionSwitch(
        job.id, Action(job.type), commit_ts, job.start_ts, job.query, job.schema_name, job.table_id, gone, came, definitions
    )


def _is_reported(one: _Partition) -> bool:
    names = [one.name.get(form) for form in ("O", "L")] if isinstance(one.name, dict) else [None]
    return all(isinstance(name, str) and name for name in names)


def _column_switch(job: _Job, commit_ts: CommitTs, at: str) -> ColumnSwitch | None:
    parts: list[_Job | _SubJob] = [job]
    if job.type == Action.MULTI_SCHEMA_CHANGE:
        parts = [*((job.multi_schema_info and job.multi_schema_info.sub_jobs) or ())]
    successors: list[Successor] = []
    amid: TableInfo | None = None
    dropped = frozenset(_dropped(job, part, at) for part in parts if _is_being_dropped(part))
    for part in parts:
        if part.type != Action.MODIFY_COLUMN or part.schema_state != _PUBLIC:
            continue
        if part.state == _DONE and job.binlog is not None:
            amid = job.binlog.TableInfo
        if part.state != _RUNNING:
            continue
        modified = _arguments(job, _Modified, _MODIFIED, at, raw_args=part.raw_args)
        if modified.changing_column is None:
            continue
        if not modified.old_column_id or not isinstance(modified.changing_column.get("id"), int):
            raise _unreadable(at, f"DDL job {job.id} ({job.query[:200]}) does not name its columns")
        successors.append(Successor(modified.old_column_id, modified.changing_column))
    if not successors and amid is None and not dropped:
        return None
    return ColumnSwitch(
        job_id=job.id,
        action=Action(job.type),
        commit_ts=commit_ts,
        start_ts=job.start_ts,
        query=job.query,
        schema_name=job.schema_name,
        table_id=job.table_id,
        successors=tuple(successors),
        amid=amid,
        drops=sum(part.type == Action.DROP_COLUMN for part in parts),
        dropped=dropped,
    )


def _is_being_dropped(part: _Job | _SubJob) -> bool:
    return (part.type, part.state, part.schema_state) == (Action.DROP_COLUMN, _RUNNING, _WRITE_ONLY)


def _dropped(job: _Job, part: _Job | _SubJob, at: str) -> str:
    dropped = _arguments(job, _Dropped, ("column_name",), at, raw_args=part.raw_args)
    name = dropped.column_info.name if dropped.column_info is not None else dropped.column_name
    if name is None:
        raise _unreadable(at, f"DDL job {job.id} ({job.query[:200]}) does not name its columns")
    return name.O.lower()


def _tables(job: _Job, binlog: _Binlog, at: str) -> tuple[JobTable, ...]:
    if job.type == Action.RECOVER_SCHEMA:
        return tuple(JobTable(info, job.schema_id) for info in _recovered(job, at))
    infos: list[TableInfo] = [binlog.TableInfo] if binlog.TableInfo is not None else []
    if job.type in _MULTIPLE:
        infos = list(binlog.MultipleTableInfos or ())
    schemas: list[int | str] = [job.schema_id] * len(infos)
    if job.type == Action.RENAME_TABLES:
        schemas = _renamed_into(job, at)
        if len(schemas) != len(infos):
            raise _unreadable(
                at, f"DDL job {job.id} ({job.query[:200]}) renames {len(infos)} tables and names {len(schemas)} schemas for them"
            )
    return tuple(map(JobTable, infos, schemas))


def _renamed_into(job: _Job, at: str) -> list[int | str]:
    """The schema of each table after, in the job's order. Jobs in the history have lost their arguments; what the job locked is
    there: old and new name of each table in turn, in small letters."""
    renamed = _arguments(job, _Renamed, ("old_schema_ids", "new_schema_ids"), at)
    if renamed.rename_table_infos is not None:
        return [one.new_schema_id for one in renamed.rename_table_infos]
    if renamed.new_schema_ids is not None:
        return list(renamed.new_schema_ids)
    return [one.database for one in (job.involving_schema_info or renamed_by(job.query, job.schema_name))[1::2]]


def _involved(job: _Job) -> tuple[TableName, ...]:
    if job.involving_schema_info:
        return tuple(TableName(one.database, one.table) for one in job.involving_schema_info)
    return involved_by(job.type, job.query, job.schema_name)


def _recovered(job: _Job, at: str) -> list[TableInfo]:
    """Tables that come back with their schema; none if TiDB reads them while it carries the job out."""
    recover_info = _arguments(job, _Recovered, ("recover_info",), at).recover_info
    if recover_info is None or recover_info.LoadTablesOnExecute:
        return []
    return [one.TableInfo for one in recover_info.RecoverTableInfos or recover_info.RecoverTabsInfo or ()]


def _arguments(job: _Job, kind: type[A], names: tuple[str, ...], at: str, *, raw_args: Any = None) -> A:
    """`names`: of version 1's arguments, by place. `raw_args`: of a part of the job, else its own."""
    given = job.raw_args if raw_args is None else raw_args
    raw = dict(zip(names, given, strict=False)) if isinstance(given, list) else given or {}
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        raise _unreadable(at, f"DDL job {job.id} ({job.query[:200]}) has other arguments than expected: {error}") from error


def _unreadable(at: str, problem: str) -> MessageUnreadable:
    return MessageUnreadable(
        f"{at}: {problem}", hint="check that the entry is TiDB's mysql.tidb_ddl_job, and that this ticdc-dump knows its version"
    )
