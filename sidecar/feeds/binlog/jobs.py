"""The DDL jobs that a stream of binlogs speaks of: a DDL's binlog has its job's id and statement, TiDB has what the job did.

- TiDB writes a job's binlog with the transaction that ends it, and a reader may have it before SQL shows the job so: it is waited for.
- DROP COLUMN sends two. At the first one (delete-only) sessions do not see the column any more, and rows lack it, which decoding allows
  for; the table changes at the second one.
- A job that was rolled back has a binlog too, and did nothing. `SELECT setval(…)` of a sequence comes as a DDL whose id is no job's.

Source: pingcap/tidb ddl/ddl_worker.go writeBinlog; pingcap/tidb-binlog drainer/collector.go.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from sidecar.shared.errors import SourceLost
from sidecar.shared.model.nouns import CommitTs
from sidecar.shared.rowcodec.ddl_job import ended_job
from sidecar.shared.schema.ddl import DdlJob
from sidecar.shared.sql.lexer import begins

DELETE_ONLY = 1
WAIT_MAX_S = 60.0
"""Jobs are seen within tenths of a second; a TiDB that is on its way up takes longer."""
LOOK_EVERY_S = 0.1

Meta = Callable[[int], bytes | None]
"""`job_meta` of the job with this id, as TiDB has it now; None: it is not seen. Raises SourceError, SourceLost."""


@dataclass(frozen=True, slots=True)
class DdlBinlog:
    """`state`: the job's schema state."""

    commit_ts: CommitTs
    job_id: int
    state: int
    query: str


class BinlogJobs:
    """One thread. `wait`: sleeps."""

    def __init__(self, meta: Meta, *, wait_max_s: float = WAIT_MAX_S, wait: Callable[[float], object] = time.sleep) -> None:
        self._meta, self._wait_max_s, self._wait = meta, wait_max_s, wait

    def job(self, ddl: DdlBinlog) -> DdlJob | None:
        """What the job did, at its binlog's commit_ts; None for nothing that counts.

        Raises SourceLost if the job is not seen to have ended in time, MessageUnreadable, and what asking raises.
        """
        if ddl.state == DELETE_ONLY or begins(ddl.query, "SELECT SETVAL"):
            return None
        left_s = self._wait_max_s
        while True:
            meta = self._meta(ddl.job_id)
            if meta is not None:
                at = f"the binlog at {ddl.commit_ts}"
                is_over, job = ended_job(meta, commit_ts=ddl.commit_ts, query=ddl.query, at=at)
                if is_over:
                    return job
            if left_s <= 0:
                raise SourceLost(
                    f"DDL job {ddl.job_id} of the binlog at {ddl.commit_ts} ({ddl.query[:200]}) "
                    f"{'is not seen' if meta is None else 'has not ended'} in TiDB's DDL jobs after {self._wait_max_s:g} s",
                    hint="let source be the TiDB whose pumps are read, and its account read mysql.tidb_ddl_job and mysql.tidb_ddl_history;"
                    " if it is, nothing: it is looked for again",
                )
            self._wait(LOOK_EVERY_S)
            left_s -= LOOK_EVERY_S
