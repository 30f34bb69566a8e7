"""What TiDB has of DDL jobs, as JSON, by their ids: of those that are over in mysql.tidb_ddl_history, of the others in mysql.tidb_ddl_job.

Both tables are there since TiDB 6.2. Rights: SELECT on them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import partial

from sidecar.shared.config import SourceSection
from sidecar.shared.mysql.account import Account
from sidecar.shared.mysql.retry import carried_out
from sidecar.shared.mysql.roles import Role
from sidecar.shared.mysql.session import MysqlSession

PAGE = 500


class JobMetas:
    """Each call has a connection of its own: DDLs are rare. Raises SourceError, SourceLost."""

    def __init__(self, settings: SourceSection) -> None:
        self._account = Account.of(settings)

    def of(self, number: int) -> bytes | None:
        """As the job is now; None: it is not seen."""
        with closing(MysqlSession(self._account, Role.READ_SOURCE)) as session:
            return carried_out(session, lambda: _of(session, number), doing=f"reading DDL job {number}")

    def history(self) -> Iterator[tuple[int, bytes]]:
        """All jobs that are over, by id."""
        with closing(MysqlSession(self._account, Role.READ_SOURCE)) as session:
            above = 0
            while True:
                page = carried_out(session, partial(_page, session, above), doing="reading TiDB's DDL jobs")
                yield from page
                if len(page) < PAGE:
                    return
                above = page[-1][0]


def _of(session: MysqlSession, number: int) -> bytes | None:
    """A job that ends between the two looks is seen by neither, and by the next call. Raises pymysql's errors."""
    for table in ("mysql.tidb_ddl_history", "mysql.tidb_ddl_job"):
        if rows := session.rows(f"SELECT job_meta FROM {table} WHERE job_id = %s", (number,)):
            return _bytes(rows[0][0])
    return None


def _page(session: MysqlSession, above: int) -> list[tuple[int, bytes]]:
    rows = session.rows(
        f"SELECT job_id, job_meta FROM mysql.tidb_ddl_history WHERE job_id > %s ORDER BY job_id LIMIT {PAGE}",
        (above,),
    )
    return [(int(number), _bytes(meta)) for number, meta in rows]


def _bytes(meta: bytes | str) -> bytes:
    return meta if isinstance(meta, bytes) else meta.encode()
