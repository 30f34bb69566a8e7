"""Which DDLs TiDB has finished since a TSO, and at which commit_ts, from mysql.tidb_ddl_job and mysql.tidb_ddl_history.

- Both tables are read as of one TSO: a job that was finished by then is in the first, done, or in the second, synced.
- No row has the commit_ts of a job: `FinishedTS` is 0 while it is done, and 40 to 450 ms late in the history
  (shared/rowcodec/ddl_job.py). It is the first TSO at which the job is seen done: searched for by halves between its begin and a moment
  at which it was seen so.
- Jobs are numbered as they are submitted. The first look goes down from the newest to those submitted OLD_S before; later ones go down
  to the oldest that was under way then.
- Accounts that may not read them see in information_schema which jobs there were, without the commit_ts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, Protocol

import pymysql

from sidecar.shared.config import SourceSection
from sidecar.shared.errors import SourceError
from sidecar.shared.model.nouns import CommitTs, TableName, physical_ms, ts_at
from sidecar.shared.mysql.account import Account
from sidecar.shared.mysql.errors import NO_RIGHT, code_of
from sidecar.shared.mysql.flavour import Flavour
from sidecar.shared.mysql.retry import carried_out
from sidecar.shared.mysql.roles import Role
from sidecar.shared.mysql.session import MysqlSession
from sidecar.shared.reads.snapshot import as_of, present_ts
from sidecar.shared.rowcodec.ddl_job import done_job, history_job
from sidecar.shared.schema.ddl import Action, DdlJob, FinishedDdl
from sidecar.shared.schema.system import is_system_schema

OLD_S = 30 * 86_400
"""No column is rewritten for longer."""
DDL_TABLES = ("mysql.tidb_ddl_job", "mysql.tidb_ddl_history")
PAGE = 100
JOBS_MAX = 1024
SUBMITTED_AT_ONCE = 16
"""Numbers are taken before jobs are seen: what comes late is not far below the newest."""


class HistoryJob(Protocol):
    """As rowcodec.ddl_job.history_job."""

    def __call__(self, job_meta: bytes, *, at: str) -> DdlJob | None: ...


class DoneJob(Protocol):
    """As rowcodec.ddl_job.done_job."""

    def __call__(self, job_meta: bytes, *, commit_ts: CommitTs, at: str) -> DdlJob | None: ...


@dataclass(frozen=True, slots=True)
class FinishedJobs:
    """As of a TSO: finished jobs by number, with a TSO by which they were; and where the next look may end."""

    finished: dict[int, tuple[DdlJob, CommitTs]]
    low: int


class DdlHistory:
    """For one term. One thread. `wanted`: of a DDL, without its commit_ts: one that nobody wants is not searched for."""

    def __init__(self, settings: SourceSection, wanted: Callable[[FinishedDdl], bool]) -> None:
        self._account, self._wanted = Account.of(settings), wanted
        self._returned_numbers: set[int] = set()
        self._low: int | None = None
        self._readable = True

    def since(self, after_ts: CommitTs) -> tuple[list[FinishedDdl], CommitTs]:
        """What was finished after `after_ts` and not returned before, and up to when that is complete: a moment after the call.

        Raises SourceError, also for a source that is no TiDB or a moment that is garbage-collected; SourceLost for an outage.
        """
        with closing(MysqlSession(self._account, Role.READ_SOURCE)) as session:
            upto_ts = carried_out(session, lambda: present_ts(session), doing="asking for a TSO")
            if upto_ts is None:
                raise SourceError(f"{self._account} is no TiDB, which keeps its DDLs", hint="set source to the changefeed's upstream TiDB")
            if self._readable:
                low = self._low
                doing = "reading TiDB's DDL jobs"
                seen = carried_out(
                    session, lambda: as_of(session, upto_ts, lambda on: finished_jobs(on, low, after_ts, upto_ts)), doing=doing
                )
                if seen is not None:
                    return self._finished(session, seen, after_ts), upto_ts
                self._readable = False
            finished_ddls = carried_out(session, lambda: _without_commit_ts(session, after_ts), doing="reading information_schema.ddl_jobs")
            return finished_ddls, upto_ts

    def _finished(self, session: MysqlSession, seen: FinishedJobs, after_ts: CommitTs) -> list[FinishedDdl]:
        """They count as returned when all of them are known: an outage between two of them loses none."""
        ddls: dict[int, FinishedDdl] = {}
        for number, (job, by_ts) in sorted(seen.finished.items()):
            tables = tuple(TableName(job.schema_name, one.info["name"]["O"]) for one in job.tables)
            ddl = FinishedDdl(number, None, job.schema_name, tables, _kind(job.action), job.query)
            if number in self._returned_numbers or is_system_schema(job.schema_name) or not self._wanted(ddl):
                continue
            commit_ts = self._done_at(session, number, after_ts=CommitTs(max(after_ts, job.start_ts)), by_ts=by_ts)
            ddls[number] = replace(ddl, commit_ts=commit_ts)
        self._low = seen.low
        self._returned_numbers = {number for number in self._returned_numbers | ddls.keys() if number >= seen.low}
        return [ddl for ddl in ddls.values() if ddl.commit_ts is not None and ddl.commit_ts > after_ts]

    def _done_at(self, session: MysqlSession, number: int, *, after_ts: CommitTs, by_ts: CommitTs) -> CommitTs:
        """The first TSO at which the job is seen done; `after_ts` if it was so then."""

        def done(ts: int) -> bool:
            query = partial(as_of, session, CommitTs(ts), partial(_is_done, number=number))
            return carried_out(session, query, doing=f"asking when DDL job {number} was done")

        if done(after_ts):
            return after_ts
        not_yet, known = int(after_ts), int(by_ts)
        while known - not_yet > 1:
            middle = (known + not_yet) // 2
            not_yet, known = (not_yet, middle) if done(middle) else (middle, known)
        return CommitTs(known)


class JobReads(NamedTuple):
    """How rows of the two tables are read. `running` and `history`: as of rowcodec.ddl_job; either may raise MessageUnreadable."""

    running: DoneJob = done_job
    history: HistoryJob = history_job


EACH_JOB = JobReads()
"""One that cannot be read is an error."""


def finished_jobs(
    session: MysqlSession, low: int | None, after_ts: CommitTs, upto_ts: CommitTs, reads: JobReads = EACH_JOB
) -> FinishedJobs | None:
    """As of `upto_ts`, where `session` reads; `low` None: down to those submitted OLD_S before `after_ts`. None: the account may not read
    them. Raises pymysql's errors, and what `reads` raises."""
    finished: dict[int, tuple[DdlJob, CommitTs]] = {}
    newest, running = (low or 0) - 1 + SUBMITTED_AT_ONCE, []
    try:
        for number, meta in session.rows("SELECT job_id, job_meta FROM mysql.tidb_ddl_job"):
            job = reads.running(_bytes(meta), commit_ts=upto_ts, at=f"DDL job {number} in mysql.tidb_ddl_job")
            if job is None:
                running.append(int(number))
            else:
                finished[int(number)] = job, upto_ts
        for number, past in _history(session, low, after_ts, reads.history):
            newest = max(newest, number)
            if past is not None and past.commit_ts > after_ts:
                finished[number] = past, past.commit_ts
    except pymysql.err.MySQLError as error:
        if code_of(error) in NO_RIGHT:
            return None
        raise
    return FinishedJobs(finished, max(0, min([*running, newest + 1 - SUBMITTED_AT_ONCE])))


def _history(session: MysqlSession, low: int | None, after_ts: CommitTs, read: HistoryJob) -> Iterator[tuple[int, DdlJob | None]]:
    """Newest first; None for one that changed nothing."""
    old_ts = ts_at(physical_ms(after_ts) - OLD_S * 1000)
    below = 1 << 62
    while True:
        page = session.rows(
            "SELECT job_id, job_meta FROM mysql.tidb_ddl_history WHERE job_id >= %s AND job_id < %s ORDER BY job_id DESC LIMIT %s",
            (low or 0, below, PAGE),
        )
        for number, meta in page:
            job = read(_bytes(meta), at=f"DDL job {number} in mysql.tidb_ddl_history")
            if job is not None and job.start_ts < old_ts:
                return
            yield int(number), job
        if len(page) < PAGE:
            return
        below = int(page[-1][0])


def _is_done(session: MysqlSession, number: int) -> bool:
    """As of where `session` reads. Raises pymysql's errors."""
    running = session.rows("SELECT job_meta FROM mysql.tidb_ddl_job WHERE job_id = %s", (number,))
    if running:
        return done_job(_bytes(running[0][0]), commit_ts=CommitTs(0), at=f"DDL job {number}") is not None
    return bool(session.rows("SELECT job_id FROM mysql.tidb_ddl_history WHERE job_id = %s", (number,)))


def _without_commit_ts(session: MysqlSession, after_ts: CommitTs) -> list[FinishedDdl]:
    return [
        FinishedDdl(one.number, None, one.schema, (TableName(one.schema, one.table),) if one.table else (), one.kind, one.query)
        for one in shown_jobs(session, after_ts)
        if not is_system_schema(one.schema)
    ]


class ShownJob(NamedTuple):
    """`ended_s`: in Unix seconds, None: not yet, it is done and not synced."""

    number: int
    schema: str
    table: str
    kind: str
    query: str
    table_id: int
    ended_s: float | None


def shown_jobs(session: MysqlSession, after_ts: CommitTs) -> list[ShownJob]:
    """What information_schema shows of finished jobs. TiDB records a job's end later than its commit_ts, and in seconds by older versions:
    what ended at `after_ts` may be among them. Raises pymysql's errors."""
    columns = "JOB_ID, DB_NAME, TABLE_NAME, JOB_TYPE, QUERY, TABLE_ID"
    rows: Iterable[tuple[Any, ...]] = session.rows(
        f"SELECT {columns}, ended_s FROM (SELECT {columns}, STATE,"
        f" UNIX_TIMESTAMP(END_TIME) AS ended_s FROM information_schema.ddl_jobs LIMIT {JOBS_MAX}) AS j"
        " WHERE STATE IN ('done', 'synced') AND JOB_TYPE NOT LIKE '%%subjob%%' AND (ended_s IS NULL OR ended_s >= %s)",
        (physical_ms(after_ts) // 1000,),
    )
    return [
        ShownJob(
            *(int(number), schema or "", table or "", kind, query or "", int(table_id or 0)), None if ended_s is None else float(ended_s)
        )
        for number, schema, table, kind, query, table_id, ended_s in rows
    ]


def _bytes(meta: bytes | str) -> bytes:
    return meta if isinstance(meta, bytes) else meta.encode()


def _kind(action: int) -> str:
    return Action(action).name.replace("_", " ").lower() if action in set(Action) else f"action {action}"


def may_read(settings: SourceSection) -> bool:
    """Whether the account may read TiDB's history of DDLs. Raises SourceError."""

    def readable(session: MysqlSession) -> bool:
        if session.flavour is not Flavour.TIDB:
            return False
        try:
            for table in DDL_TABLES:
                session.rows(f"SELECT job_id FROM {table} LIMIT 0")
        except pymysql.err.MySQLError as error:
            if code_of(error) in NO_RIGHT:
                return False
            raise
        return True

    with closing(MysqlSession(Account.of(settings), Role.READ_SOURCE)) as session:
        return carried_out(session, lambda: readable(session), doing="asking for the right to read TiDB's DDL jobs")
