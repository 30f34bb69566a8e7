"""TiDB's DDL jobs, as information_schema shows them to every account that has any right on their table.

- A job is `done` from the commit of its last step, which is the DDL's commit_ts, until every TiDB server has loaded what it made and ended
  the transactions that hold the table as it was; then it is `synced` (pingcap/tidb pkg/ddl/job_worker.go, transitOneJobStep and
  updateGlobalVersionAndWaitSynced). TiCDC sends a DDL as soon as it is done. A server that has not loaded it answers
  `SET tidb_snapshot` at its commit_ts, or later, with the schemas before it (pkg/infoschema/cache.go takes its newest for every later
  ts), and keeps to them until the next SET.
- The versions that servers leave in PD's etcd say less: with metadata locks, TiDB's default, /tidb/ddl/all_schema_versions stays as it
  began (pkg/ddl/schemaver/syncer.go, UpdateSelfVersion), and a job's own keys are removed with the job.
- Jobs under way come first in the view, then the newest: a LIMIT keeps it from reading a long history (pkg/executor, DDLJobsReaderExec).
"""

from __future__ import annotations

from collections.abc import Collection

import pymysql

from sidecar.shared.model.nouns import CommitTs, TableName, physical_ms
from sidecar.shared.mysql.errors import NO_RIGHT, code_of
from sidecar.shared.mysql.flavour import Flavour
from sidecar.shared.mysql.session import MysqlSession, Row
from sidecar.shared.sql.text import quoted_text

NEWEST = 256
"""More jobs than are ever under way at once."""

_KINDS = ("create table", "create view", "rename table", "recover", "flashback")
MAKES_NAMES = "(" + " OR ".join(f"JOB_TYPE LIKE '{kind}%'" for kind in _KINDS) + ")"
"""Which jobs may bring a table under a name that was not there."""


def of_table(table: TableName) -> str:
    """Which jobs are a table's own."""
    return f"(DB_NAME = {quoted_text(table.schema)} AND TABLE_NAME = {quoted_text(table.table)})"


ANY = "any DDL: the account may not read information_schema.ddl_jobs"


def not_loaded(session: MysqlSession, *, kinds: str = "TRUE") -> tuple[str, ...]:
    """The finished DDLs that servers may not have loaded yet, in words. For an account that may not read them: ANY. Raises pymysql's
    errors."""
    if session.flavour is not Flavour.TIDB:
        return ()
    try:
        done = _done(session, kinds)
    except pymysql.err.MySQLError as error:
        if code_of(error) in NO_RIGHT:
            return (ANY,)
        raise
    return tuple(f"DDL job {number} ({kind} of {schema}.{table})" for number, kind, schema, table in done)


def _done(session: MysqlSession, kinds: str) -> tuple[Row, ...]:
    return session.rows(
        "SELECT JOB_ID, JOB_TYPE, DB_NAME, TABLE_NAME FROM"
        f" (SELECT JOB_ID, JOB_TYPE, DB_NAME, TABLE_NAME, STATE FROM information_schema.ddl_jobs LIMIT {NEWEST}) AS j"
        f" WHERE STATE = 'done' AND JOB_TYPE NOT LIKE '%subjob%' AND {kinds}"
    )


def under_way(session: MysqlSession, table_ids: Collection[int], at_ts: CommitTs) -> frozenset[int]:
    """Which of these tables a DDL of their own was changing at that TSO: it had begun and was not finished. Older versions tell seconds
    only: one that ended in that very second was. Reads the whole history. Raises pymysql's errors."""
    if not table_ids:
        return frozenset()
    rows = session.rows(
        "SELECT TABLE_ID, UNIX_TIMESTAMP(START_TIME), UNIX_TIMESTAMP(END_TIME) FROM information_schema.ddl_jobs"
        f" WHERE TABLE_ID IN ({', '.join(map(str, sorted(table_ids)))}) AND START_TIME IS NOT NULL"
    )
    at_s = physical_ms(at_ts) / 1000
    return frozenset(int(number) for number, began_s, ended_s in rows if float(began_s) <= at_s and not _ended(ended_s, at_s))


def _ended(ended_s: object, at_s: float) -> bool:
    if not ended_s:
        return False
    at = float(str(ended_s))
    return (at if at % 1 else at + 1) <= at_s
