"""What TiDB's own tables say of imports and restores, which write rows around SQL.

    mysql.tidb_import_jobs         IMPORT INTO … FROM FILE: a row for each, kept; numbers are drawn by each server from a range of its own
    mysql.tidb_restore_registry    a restore by BR that is under way or paused: removed at its end (bootstrap version 249)
    mysql.tidb_pitr_id_map         a restore to a point in time: rows for each, kept (8.5)

An import job that is cancelled has no end_time, ever: it is over at its last update (CancelJob).

A table that this TiDB does not have, or that the account may not read, is no error: its causes are not watched. Times are the servers'
clocks.

Source: pingcap/tidb pkg/session/bootstrap.go, pkg/meta/metadef, pkg/executor/importer/job.go; br/pkg/registry/registration.go;
br/pkg/restore/log_client/id_map.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from enum import Enum
from typing import NamedTuple

import pymysql

from sidecar.shared.config import SourceSection
from sidecar.shared.model.nouns import TableName
from sidecar.shared.mysql.account import Account
from sidecar.shared.mysql.errors import NO_RELATION, NO_RIGHT, code_of
from sidecar.shared.mysql.flavour import Flavour
from sidecar.shared.mysql.retry import carried_out
from sidecar.shared.mysql.roles import Role
from sidecar.shared.mysql.session import MysqlSession, Row
from sidecar.shared.schema.system import is_system_schema

IMPORT_JOBS, RESTORE_REGISTRY, PITR_ID_MAP = "mysql.tidb_import_jobs", "mysql.tidb_restore_registry", "mysql.tidb_pitr_id_map"
FILTERS_APART = "\x1f"
"""Between the filters of a restore (br/pkg/registry, FilterSeparator)."""


_IS_OVER = "end_time IS NOT NULL OR status IN ('finished', 'failed', 'cancelled')"
_ENDED = "UNIX_TIMESTAMP(COALESCE(end_time, update_time, create_time))"


class NotReadable(Enum):
    """Why a table cannot be read."""

    NO_RIGHT = "no right"
    NO_TABLE = "no table"
    NO_TIDB = "no TiDB"


class ImportJob(NamedTuple):
    """`began_s`, `ended_s`: in Unix seconds, None: not yet. It ends finished, failed or cancelled."""

    number: int
    table: TableName
    table_id: int
    status: str
    began_s: float | None
    ended_s: float | None


class RestoreTask(NamedTuple):
    """`filters`: table rules, as of TiCDC. `command`: BR's. `began_s`: in Unix seconds."""

    number: int
    filters: tuple[str, ...]
    command: str
    restored_ts: int
    cluster_id: int
    began_s: float


class PitrMap(NamedTuple):
    """`cluster_id`: that the backup is of. `written_s`: the last of its rows, in Unix seconds."""

    restored_ts: int
    cluster_id: int
    written_s: float


def import_jobs(settings: SourceSection, since_s: float) -> list[ImportJob] | NotReadable:
    """Those that have not ended, or not before `since_s`. Raises SourceError, SourceLost; so do all below."""
    rows = _read(
        settings,
        IMPORT_JOBS,
        f"SELECT id, table_schema, table_name, table_id, status, UNIX_TIMESTAMP(start_time), CASE WHEN {_IS_OVER} THEN {_ENDED} END"
        f" FROM {IMPORT_JOBS} WHERE NOT ({_IS_OVER}) OR {_ENDED} >= %s",
        (since_s,),
    )
    if isinstance(rows, NotReadable):
        return rows
    return [
        ImportJob(int(number), TableName(str(schema), str(table)), int(table_id), str(status), _seconds(began_s), _seconds(ended_s))
        for number, schema, table, table_id, status, began_s, ended_s in rows
    ]


def restore_tasks(settings: SourceSection) -> list[RestoreTask] | NotReadable:
    rows = _read(
        settings,
        RESTORE_REGISTRY,
        f"SELECT id, filter_strings, cmd, restored_ts, upstream_cluster_id, UNIX_TIMESTAMP(task_start_time) FROM {RESTORE_REGISTRY}",
    )
    if isinstance(rows, NotReadable):
        return rows
    return [
        RestoreTask(
            int(number),
            tuple(filter(None, str(filters).split(FILTERS_APART))),
            str(command or ""),
            int(ts),
            int(cluster or 0),
            float(began_s),
        )
        for number, filters, command, ts, cluster, began_s in rows
    ]


def pitr_maps(settings: SourceSection, since_s: float) -> list[PitrMap] | NotReadable:
    """Those written at `since_s` or later."""
    rows = _read(
        settings,
        PITR_ID_MAP,
        f"SELECT restored_ts, upstream_cluster_id, MAX(UNIX_TIMESTAMP(update_time)) AS written_s FROM {PITR_ID_MAP}"
        " GROUP BY restored_ts, upstream_cluster_id HAVING written_s >= %s",
        (since_s,),
    )
    return rows if isinstance(rows, NotReadable) else [PitrMap(int(ts), int(cluster), float(written_s)) for ts, cluster, written_s in rows]


def unread(settings: SourceSection, table: str) -> NotReadable | None:
    """Whether a table of TiDB's own cannot be read."""
    rows = _read(settings, table, f"SELECT 1 FROM {table} LIMIT 0")
    return rows if isinstance(rows, NotReadable) else None


def table_names(settings: SourceSection, schema: str = "") -> tuple[TableName, ...]:
    """Tables that the account sees, of one schema or of all but TiDB's own, in TiDB's case."""
    sql = "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.tables WHERE TABLE_TYPE = 'BASE TABLE'"
    values = (schema,) if schema else ()
    with closing(MysqlSession(Account.of(settings), Role.READ_SOURCE)) as session:
        read = lambda: session.rows(f"{sql} AND TABLE_SCHEMA = %s" if schema else sql, values or None)  # noqa: E731 - used once
        rows = carried_out(session, read, doing="reading the tables' names")
    names = (TableName(str(one), str(table)) for one, table in rows)
    return tuple(sorted(name for name in names if not is_system_schema(name.schema)))


def _read(settings: SourceSection, table: str, sql: str, values: Sequence[object] | None = None) -> tuple[Row, ...] | NotReadable:
    def rows(session: MysqlSession) -> tuple[Row, ...] | NotReadable:
        if session.flavour is not Flavour.TIDB:
            return NotReadable.NO_TIDB
        try:
            return session.rows(sql, values)
        except pymysql.err.MySQLError as error:
            if code_of(error) in NO_RIGHT:
                return NotReadable.NO_RIGHT
            if code_of(error) in NO_RELATION:
                return NotReadable.NO_TABLE
            raise

    with closing(MysqlSession(Account.of(settings), Role.READ_SOURCE)) as session:
        return carried_out(session, lambda: rows(session), doing=f"reading {table}")


def _seconds(value: object) -> float | None:
    return None if value is None else float(str(value))
