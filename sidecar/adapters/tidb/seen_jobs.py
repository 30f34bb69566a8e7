"""The finished DDL jobs that a watcher of holes has not seen yet, by their numbers (sidecar/shared/schema/job_holes.py says which make a
hole).

- They are read as `ddl_history` reads them, of one moment. Jobs are numbered as they are submitted and end in any order: the next look goes
  down to the oldest that was under way, so no job is passed over while it runs.
- A job that cannot be read is noted once and passed, so that it hides no other: when it is in the history, until then it counts as one
  under way.
- A job's `commit_ts` is what the history has, up to 450 ms late: nothing is decoded by it.
- Where the account may not read mysql.tidb_ddl_history, information_schema shows the newest: by one table's id and name, without what the
  job did to it. So a change of a table's mode is seen, and not which.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import NamedTuple

from sidecar.adapters.tidb.ddl_history import JOBS_MAX, JobReads, ShownJob, finished_jobs, shown_jobs
from sidecar.shared.config import SourceSection
from sidecar.shared.errors import MessageUnreadable
from sidecar.shared.model.nouns import CommitTs, ts_at
from sidecar.shared.mysql.account import Account
from sidecar.shared.mysql.retry import carried_out
from sidecar.shared.mysql.roles import Role
from sidecar.shared.mysql.session import MysqlSession
from sidecar.shared.reads.snapshot import as_of, present_ts
from sidecar.shared.rowcodec.ddl_job import done_job, past_job
from sidecar.shared.rowcodec.ddl_names import involved_by
from sidecar.shared.schema.ddl import Action, DdlJob, JobTable
from sidecar.shared.schema.job_holes import MODE_UNKNOWN

_OTHER_KINDS = {"flashback schema": Action.RECOVER_SCHEMA, "flashback cluster": Action.FLASHBACK_CLUSTER}
"""TiDB's words that are not the action's own."""


class SeenJobs(NamedTuple):
    """`jobs`: by number. `low`: the next look may end there. `whole`: False where information_schema alone shows them."""

    jobs: tuple[DdlJob, ...]
    low: int
    whole: bool


ReadJobs = Callable[[CommitTs, int | None], SeenJobs | None]


class JobReader:
    """For one term, of one thread."""

    def __init__(self, settings: SourceSection, note: Callable[[str], object]) -> None:
        self._account, self._note = Account.of(settings), note
        self._readable = True
        self._noted = set[str]()
        self._reads = JobReads(_running, self._past)

    def look(self, since_ts: CommitTs, low: int | None) -> SeenJobs | None:
        """Jobs that ended after `since_ts` with numbers from `low` on; `low` None: all of them. None: the source is no TiDB. Raises
        SourceError, SourceLost."""
        with closing(MysqlSession(self._account, Role.READ_SOURCE)) as session:
            upto_ts = carried_out(session, lambda: present_ts(session), doing="asking for a TSO")
            if upto_ts is None:
                return None
            if self._readable:
                read = lambda on: finished_jobs(on, low, since_ts, upto_ts, self._reads)  # noqa: E731 - as short as it is used
                seen = carried_out(session, lambda: as_of(session, upto_ts, read), doing="reading TiDB's DDL jobs")
                if seen is not None:
                    return SeenJobs(tuple(job for _, (job, _) in sorted(seen.finished.items())), seen.low, whole=True)
                self._readable = False
            shown = carried_out(session, lambda: shown_jobs(session, since_ts), doing="reading information_schema.ddl_jobs")
        over = [job for one in sorted(shown) if one.number >= (low or 0) and (job := _job(one, since_ts)) is not None]
        newest = max((one.number for one in shown), default=low or 0)
        return SeenJobs(tuple(over), max(low or 0, newest + 1 - JOBS_MAX), whole=False)

    def _past(self, job_meta: bytes, *, at: str) -> DdlJob | None:
        try:
            return past_job(job_meta, at=at)
        except MessageUnreadable as error:
            if at not in self._noted:
                self._noted.add(at)
                self._note(f"{error.message}: if that job changed rows, no hole shows it; run a ticdc-dump that knows this TiDB, or verify")
            return None


def _running(job_meta: bytes, *, commit_ts: CommitTs, at: str) -> DdlJob | None:
    try:
        return done_job(job_meta, commit_ts=commit_ts, at=at)
    except MessageUnreadable:
        return None  # as of one under way: it is noted when it has ended


def _job(one: ShownJob, since_ts: CommitTs) -> DdlJob | None:
    """None: it is under way, or was over at `since_ts`. Its end is taken as the end of its second: old versions show no more."""
    if one.ended_s is None or (ended_ts := ts_at((int(one.ended_s) + 1) * 1000)) <= since_ts:
        return None
    action = _OTHER_KINDS.get(one.kind) or next((kind for kind in Action if _word(kind) == one.kind), None)
    if action is None:
        return None
    info = {"id": one.table_id, "name": {"O": one.table, "L": one.table.lower()}, "mode": MODE_UNKNOWN}
    exchanged = action is Action.EXCHANGE_PARTITION  # shown with the id of one table and the name of the other
    tables = () if exchanged or not one.table_id else (JobTable(info, one.schema.lower()),)
    involved = involved_by(action, one.query, one.schema)
    began_ts = CommitTs(ended_ts - ts_at(1000))
    return DdlJob(one.number, action, ended_ts, began_ts, one.query, 0, one.schema, one.table_id, tables, involved=involved)


def _word(action: Action) -> str:
    return action.name.replace("_", " ").lower()
