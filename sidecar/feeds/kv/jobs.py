"""DDL jobs out of the rows of mysql.tidb_ddl_job: they come in any order and more than once, and leave in commit order.

- A row counts for what it says at its commit_ts: a job that is done, or a step of a running one (shared/rowcodec/ddl_job.py). Deletes and
  the writes between say nothing.
- A job leaves when the table is complete up to its commit_ts. That it comes again is the schema history's concern.
- The order is commit_ts; jobs of one transaction would be in the order of their ids, as TiDB numbers them.
"""

from __future__ import annotations

from sidecar.shared.errors import FeedUnsuitable, MessageUnreadable
from sidecar.shared.model.nouns import CommitTs
from sidecar.shared.rowcodec.ddl_job import ddl_job
from sidecar.shared.rowcodec.key_values import KvEntry
from sidecar.shared.rowcodec.kv_row import decode_row
from sidecar.shared.rowcodec.kv_table import KvTable
from sidecar.shared.schema.ddl import DdlJob, Step

_META = "job_meta"


class DdlJobReader:
    """`table`: mysql.tidb_ddl_job. Raises FeedUnsuitable if that is not a table of jobs."""

    def __init__(self, table: KvTable) -> None:
        names = table.schema.column_names()
        if _META not in names or table.columns[names.index(_META)].column.kind != "binary":
            raise FeedUnsuitable(
                f"table {table.schema.name} has no {_META}, which holds the DDL jobs: {', '.join(names)}",
                hint="run a ticdc-dump that knows this TiDB version",
            )
        self._table = table
        self._meta = names.index(_META)
        self._waiting: list[DdlJob | Step] = []

    def take(self, entry: KvEntry) -> None:
        """A committed write of the table. Raises MessageUnreadable."""
        if not entry.value:
            return
        at = f"row {entry.key.hex()} of {self._table.schema.name} at {entry.commit_ts}"
        meta = decode_row(self._table, entry.key, entry.value)[self._meta]
        if meta is None:
            raise MessageUnreadable(
                f"{at} has no {_META}", hint="check that the entry is TiDB's, and that this ticdc-dump knows its version"
            )
        job = ddl_job(bytes.fromhex(meta), commit_ts=entry.commit_ts, at=at)
        if job is not None:
            self._waiting.append(job)

    def add(self, job: DdlJob) -> None:
        """One that was read elsewhere."""
        self._waiting.append(job)

    def upto(self, ts: CommitTs) -> list[DdlJob | Step]:
        """All that are waiting with commit_ts <= `ts`, in order; they wait no more."""
        ready = [job for job in self._waiting if job.commit_ts <= ts]
        self._waiting = [job for job in self._waiting if job.commit_ts > ts]
        return sorted(ready, key=lambda job: (job.commit_ts, job.job_id))
