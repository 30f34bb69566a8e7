"""The snapshot that raw key-values are decoded from at first: every TableInfo of a TiDB cluster at one TSO.

SQL shows neither column ids nor what is not public; TiDB's status port returns the whole TableInfo (`/schema/{database}`), but only as the
server that answers has it now. So it is read between two looks at the DDL jobs, and counts only if between them

    no job finished          the newest of the history is the same
    no job went a step       those under way are the same, each in the same state
    every server has it      no job is Done: it leaves the jobs' table when all servers have loaded what it made; after a step of one
                             that continues, servers have `settle_s` for it

The second look is at a TSO of its own (`tidb_snapshot`), and so the TableInfos are those of that TSO. Tables that SQL shows there
must be among them under their ids, or the status port is that of another cluster.

Rights: SELECT on mysql.tidb_ddl_job, mysql.tidb_ddl_history and mysql.tidb.
Source: pingcap/tidb docs/tidb_http_api.md, pkg/server/handler/tikvhandler, pkg/ddl/job_worker.go.
"""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException
from typing import Any, TypeVar
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import urlopen

import pymysql
import stamina

from sidecar.shared.config import SourceSection
from sidecar.shared.errors import ConfigError, SourceError, SourceLost
from sidecar.shared.model.nouns import CommitTs, TableName
from sidecar.shared.mysql.account import CONNECT_TIMEOUT_S, Account
from sidecar.shared.mysql.errors import code_of
from sidecar.shared.mysql.flavour import Flavour
from sidecar.shared.mysql.retry import SQL_RETRY_WAIT_MAX_S, carried_out
from sidecar.shared.mysql.roles import Role
from sidecar.shared.mysql.session import MysqlSession
from sidecar.shared.reads.snapshot import as_of, present_ts
from sidecar.shared.reads.tables import read_ids
from sidecar.shared.rowcodec.kv_layout import DDL_JOB_TABLE, KvSnapshot
from sidecar.shared.schema.ddl import TableInfo
from sidecar.shared.schema.system import is_system_schema
from sidecar.shared.schema.version import SchemaSnapshot

T = TypeVar("T")

SETTLE_S = 2.0
"""TiDB servers load a new schema version within tens of milliseconds, by a watch on etcd."""

_DONE = 4
_UNKNOWN_VARIABLE = 1193


@dataclass(frozen=True, slots=True)
class _Jobs:
    """`finished`: the highest id in the history. `under_way`: each job's id with all of its states."""

    finished: int
    under_way: frozenset[tuple[int, ...]]
    some_done: bool


class _Moved(Exception):
    """What was read is not of one moment; another attempt can succeed."""


class TidbInfos:
    """For one TiDB; each call has connections of its own."""

    def __init__(self, settings: SourceSection, *, settle_s: float = SETTLE_S) -> None:
        """Raises ConfigError for files of source.tls that cannot be used."""
        self._account = Account.of(settings)
        self._status = TidbStatusPort(settings)
        self._settle_s = settle_s

    def snapshot(self) -> KvSnapshot:
        """All schemas, those of the system without their tables; views and sequences are among the tables.

        Raises SourceError for a source that is no TiDB, a missing right or an answer that is not TiDB's; SourceLost (retry helps) for an
        outage, or if DDLs kept finishing for `source.retry_s`.
        """
        with closing(MysqlSession(self._account, Role.READ_SOURCE)) as session:
            give_up_s = time.monotonic() + self._account.retry_s
            while True:
                try:
                    return self._attempt(session)
                except _Moved as moved:
                    if time.monotonic() >= give_up_s:
                        raise SourceLost(
                            f"{self._account}: the schemas could not be read between two DDLs in {self._account.retry_s:g} s: {moved}",
                            hint="nothing, it is tried again; if DDLs run all the time, let them rest for some seconds",
                        ) from moved
                    time.sleep(min(self._settle_s, SQL_RETRY_WAIT_MAX_S))  # no event reports a DDL's next step

    def _attempt(self, session: MysqlSession) -> KvSnapshot:
        def query(action: Callable[[MysqlSession], T]) -> T:
            return carried_out(session, lambda: action(session), doing="reading the DDL jobs and settings of TiDB")

        if query(lambda on: on.flavour) is not Flavour.TIDB:
            raise SourceError(f"{self._account} is no TiDB, whose key-values are read", hint="set source to the changefeed's upstream TiDB")
        before = query(_jobs)
        if before.under_way:
            time.sleep(self._settle_s)
        databases = self._status.databases()
        schemas = [SchemaSnapshot(one_id, name, self._status.tables(name)) for name, one_id in databases.items()]
        ddl_job = self._status.table(DDL_JOB_TABLE)
        at_ts = query(present_ts)
        assert at_ts is not None, "it is TiDB"
        after, ids = query(lambda on: as_of(on, at_ts, lambda then: (_jobs(then), read_ids(then))))
        if before != after or after.some_done:
            raise _Moved("a DDL finished, or took its next step, while they were read")
        self._check_cluster(schemas, ids, at_ts)
        version, new_collation, fast_create = query(_settings)
        return KvSnapshot(at_ts, schemas, ddl_job, new_collation, version, fast_create)

    def _check_cluster(self, schemas: list[SchemaSnapshot], ids: Mapping[TableName, int], at_ts: CommitTs) -> None:
        status_ids = {TableName(schema.name, info["name"]["O"]): info["id"] for schema in schemas for info in schema.tables}
        other = sorted(name for name, number in ids.items() if status_ids.get(name) != number and not is_system_schema(name.schema))
        if other:
            name = other[0]
            raise SourceError(
                f"{self._status}: it returns {name} with id {status_ids.get(name)}, and SQL at TSO {at_ts} returns {ids[name]}",
                hint="let source.host and source.status_port be of the TiDB that source.port is of",
            )


# ---- SQL ------------------------------------------------------------------------------------------------------------


def _jobs(session: MysqlSession) -> _Jobs:
    """Raises pymysql's errors, SourceError for a job that is not JSON."""
    ((newest,),) = session.rows("SELECT MAX(job_id) FROM mysql.tidb_ddl_history")
    jobs = [_states(number, meta) for number, meta in session.rows("SELECT job_id, job_meta FROM mysql.tidb_ddl_job")]
    return _Jobs(int(newest or 0), frozenset(jobs), any(_DONE in states[1:2] for states in jobs))


def _states(number: int, meta: str | bytes) -> tuple[int, ...]:
    """The job's id, its state and schema state, and those of its parts."""
    try:
        job = json.loads(meta)
        parts = (job.get("multi_schema_info") or {}).get("sub_jobs") or ()
        return (int(number), *(int(one[name]) for one in (job, *parts) for name in ("state", "schema_state")))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SourceError(
            f"the DDL job {number} in mysql.tidb_ddl_job is not understood: {error!r}", hint="run a ticdc-dump that knows this TiDB version"
        ) from error


def _settings(session: MysqlSession) -> tuple[str, bool, bool]:
    """TiDB's version, whether new collations are enabled, and whether tables are created fast. Raises pymysql's errors, SourceError."""
    ((version,),) = session.rows("SELECT VERSION()")
    rows = session.rows("SELECT VARIABLE_VALUE FROM mysql.tidb WHERE VARIABLE_NAME = 'new_collation_enabled'")
    if not rows or str(rows[0][0]) not in ("True", "False"):
        raise SourceError(
            f"mysql.tidb has {rows!r} for new_collation_enabled, not True or False", hint="GRANT SELECT ON mysql.tidb to source.user"
        )
    try:
        ((fast,),) = session.rows("SELECT @@global.tidb_enable_fast_create_table")
    except pymysql.err.MySQLError as error:
        if code_of(error) != _UNKNOWN_VARIABLE:
            raise
        fast = 0  # older than the variable
    return str(version), str(rows[0][0]) == "True", str(fast) in ("1", "ON")


# ---- the status port ------------------------------------------------------------------------------------------------


class TidbStatusPort:
    """TiDB's HTTP API. Raises SourceError that names the address, SourceLost after an outage of `retry_s`."""

    def __init__(self, settings: SourceSection) -> None:
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        self._url = f"{'https' if settings.tls.ca_file else 'http'}://{host}:{settings.status_port}"
        self._retry_s = settings.retry_s
        self._tls = _context(settings)

    def __str__(self) -> str:
        return f"TiDB's status port {self._url}"

    def databases(self) -> dict[str, int]:
        """Names and ids, without TiDB's virtual ones."""
        entries = self._get("/schema", list)
        return self._read("/schema", lambda: {one["db_name"]["O"]: int(one["id"]) for one in entries if one["state"]})

    def tables(self, database: str) -> tuple[TableInfo, ...]:
        """None of the system's schemas: nobody replicates them."""
        if is_system_schema(database):
            return ()
        path = f"/schema/{quote(database, safe='')}"
        infos = self._get(path, list)
        return self._read(path, lambda: tuple(map(_checked, infos)))

    def table(self, name: TableName) -> TableInfo:
        path = f"/schema/{quote(name.schema, safe='')}/{quote(name.table, safe='')}"
        info: dict[str, Any] = self._get(path, dict)
        return self._read(path, lambda: _checked(info))

    def _read(self, path: str, reading: Callable[[], T]) -> T:
        try:
            return reading()
        except (KeyError, TypeError, ValueError) as error:
            raise self._not_tidbs(path, f"lacks or breaks a field: {error!r}") from error

    def _get(self, path: str, kind: type[T]) -> T:
        try:
            for attempt in stamina.retry_context(_passes, attempts=None, timeout=self._retry_s, wait_max=SQL_RETRY_WAIT_MAX_S):
                with attempt, urlopen(self._url + path, timeout=CONNECT_TIMEOUT_S + self._retry_s, context=self._tls) as answer:
                    data = answer.read()
        except HTTPError as error:
            if error.code == HTTPStatus.BAD_REQUEST:
                raise _Moved(f"{path}: {error.read(200).decode(errors='replace')}") from error
            raise self._not_tidbs(path, f"HTTP {error.code}") from error
        except (OSError, HTTPException) as error:
            kinds = SourceLost if _passes(error) else SourceError
            raise kinds(
                f"{self} does not answer {path}: {error}",
                hint="let source.status_port be TiDB's (its status.status-port, 10080 by default), reachable, with TLS as in source.tls",
            ) from error
        try:
            content = json.loads(data)
        except ValueError as error:
            raise self._not_tidbs(path, f"is no JSON: {error}") from error
        if not isinstance(content, kind):
            raise self._not_tidbs(path, f"is a {type(content).__name__}, not a {kind.__name__}")
        return content

    def _not_tidbs(self, path: str, what: str) -> SourceError:
        return SourceError(
            f"{self}: the answer to {path} {what}", hint="let source.host and source.status_port be TiDB's; is there a proxy in between?"
        )


def _checked(info: dict[str, Any]) -> TableInfo:
    """Raises KeyError or TypeError for what is no TableInfo. A sequence has no columns, but it has the field."""
    if not isinstance(info["id"], int) or not isinstance(info["name"]["O"], str) or not isinstance(info["cols"], list | None):
        raise TypeError("id, name or cols")
    return info


def _passes(error: Exception) -> bool:
    """Whether another attempt can succeed: an outage, or a server that is overloaded or on its way up or down."""
    if isinstance(error, HTTPError):
        return error.code >= HTTPStatus.INTERNAL_SERVER_ERROR
    reason = getattr(error, "reason", error)
    return isinstance(error, OSError | HTTPException) and not isinstance(reason, ssl.SSLCertVerificationError)


def _context(settings: SourceSection) -> ssl.SSLContext | None:
    tls = settings.tls
    if not tls.ca_file:
        return None
    try:
        context = ssl.create_default_context(cafile=tls.ca_file)
        if tls.cert_file:
            context.load_cert_chain(tls.cert_file, tls.key_file or None)
    except OSError as error:
        raise ConfigError(
            f"source.tls cannot be used: {error}", hint="check the paths of source.tls and that this user may read them"
        ) from error
    return context
