"""The tables where a new log of TiDB-Binlog begins: those of now, or those at `initial_commit_ts`, made of all DDL jobs up to there.

- SQL and TiDB's status port return the present tables. The jobs that made the tables, from the first one on, show what they were, as
  drainers read it. Where some of these are gone (TiDB upgraded from before 6.2 has older ones elsewhere) what comes out at the end is
  not what is there, and the start is refused.
- A job's true commit_ts is in its binlog alone; its history has a moment up to half a second later. A start amid a job is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from sidecar.feeds.kv.suitability import version_of
from sidecar.shared.errors import FeedError, FeedUnsuitable
from sidecar.shared.model.nouns import CommitTs, TableName, utc
from sidecar.shared.rowcodec.ddl_job import history_job
from sidecar.shared.rowcodec.kv_layout import KvSnapshot
from sidecar.shared.schema.ddl import DdlJob
from sidecar.shared.schema.history import SchemaHistory
from sidecar.shared.schema.system import is_system_schema
from sidecar.shared.schema.version import SchemaSnapshot

_SINCE, _WITHOUT = (6, 2), (8, 4)

Metas = Callable[[], Iterable[tuple[int, bytes]]]
"""Every job that is over, by id, as JSON."""


def refuse_version(version: str) -> None:
    """Raises FeedUnsuitable for a TiDB whose jobs SQL does not tell, or that has no TiDB-Binlog."""
    of_tidb = version_of(version)
    if of_tidb < _SINCE:
        raise FeedUnsuitable(
            f"TiDB v{of_tidb[0]}.{of_tidb[1]} does not tell its DDL jobs by SQL, and without them no binlog can be read",
            hint="upgrade to TiDB 6.2 or later (TiDB-Binlog is there up to 8.3)",
        )
    if of_tidb >= _WITHOUT:
        raise FeedUnsuitable(
            f"TiDB v{of_tidb[0]}.{of_tidb[1]} has no TiDB-Binlog", hint='attach to a TiCDC changefeed: feed = "kafka", "tikv" or "push"'
        )


def beginning(now: KvSnapshot, metas: Metas, initial_commit_ts: int) -> KvSnapshot:
    """`initial_commit_ts` 0: now. Raises FeedUnsuitable where a log cannot begin."""
    refuse_version(now.version)
    snapshot = replace(now, version="", fast_create_table=False)  # such tables have binlogs, and jobs in the history
    if not initial_commit_ts:
        return snapshot
    jobs = [job for number, meta in metas() if (job := history_job(meta, at=f"DDL job {number}")) is not None]
    return snapshot_at(snapshot, jobs, CommitTs(initial_commit_ts))


def snapshot_at(now: KvSnapshot, jobs: Iterable[DdlJob], at_ts: CommitTs) -> KvSnapshot:
    if at_ts > now.ts:
        raise FeedUnsuitable(
            f"binlog.initial_commit_ts is {at_ts} ({utc(at_ts)}), which is still to come", hint="give one of the past, or 0"
        )
    in_order = sorted(jobs, key=lambda job: (job.commit_ts, job.job_id))
    amid = next((job for job in in_order if job.start_ts < at_ts < job.commit_ts), None)
    if amid is not None:
        raise FeedUnsuitable(
            f"binlog.initial_commit_ts is {at_ts}, amid {amid.at()}: on which side of it that lies is unknown",
            hint=f"give {amid.commit_ts + 1}, or one below {amid.start_ts}",
        )
    history: SchemaHistory[None] = SchemaHistory(CommitTs(0), [], describe=lambda _info, _schema: None)
    snapshots: list[SchemaSnapshot] | None = None
    try:
        for job in in_order:
            if job.commit_ts > now.ts:
                break
            if snapshots is None and job.commit_ts > at_ts:
                snapshots = history.snapshot()
            history.apply(job)
    except FeedError as error:
        raise _incomplete(error.message) from error
    if missing := _ids(now.schemas) ^ _ids(history.snapshot()):
        name, number = min(missing)
        raise _incomplete(f"they lead to other tables than TiDB has, as {name} (id {number}) shows")
    return replace(now, ts=at_ts, schemas=history.snapshot() if snapshots is None else snapshots)


def _ids(schemas: Iterable[SchemaSnapshot]) -> set[tuple[TableName, int]]:
    own = (schema for schema in schemas if not is_system_schema(schema.name))
    return {(TableName(schema.name, info["name"]["O"]), info["id"]) for schema in own for info in schema.tables}


def _incomplete(why: str) -> FeedUnsuitable:
    return FeedUnsuitable(
        f"the tables at binlog.initial_commit_ts cannot be made of TiDB's DDL jobs: {why}",
        hint="leave initial_commit_ts at 0: the log begins now, and a dump brings what is older",
    )
