"""`mysql://user:password@host:3306/?…`, `tidb://…`, and `mysql+ssl:`, `tidb+ssl:` with TLS by the machine's authorities. The parameters are
TiCDC's, and a few of ours. One of TiCDC's that would change what arrives is rejected; one that is about its own ways to be quick is
accepted and has no effect here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import CommitTs
from spark_merge.ddl.routes import Routes
from spark_merge.port.kinds import SinkUri
from spark_merge.sinks.kit.options import commit_tss, flag, matching, names_of, number, option, read, routes, text
from spark_merge.sinks.kit.server import one_host, server_of
from spark_merge.sinks.mysql.ddl import Decided
from spark_merge.sinks.mysql.server import SqlServer

POSITION_SCHEMA = "ticdc_dump"
PORTS = {"mysql": 3306, "tidb": 4000}

NO_EFFECT = dict.fromkeys(
    ("multi-stmt-enable", "cache-prep-stmts", "max-multi-update-row", "max-multi-update-row-size", "tidb-txn-mode", "has-vector-type"),
    "TiCDC's. They have no effect.",
)

_FLAG = flag(any_case=True)
_SCHEMA_NAME = matching(
    re.compile(r"[A-Za-z0-9_$-]{1,64}"), "schema's name", values="1 to 64 letters, digits, `_`, `$`, `-`",
    hint="use letters, digits, _ and -",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SqlSettings:
    server: SqlServer
    workers: int = option("worker-count", number(1, 64), 4,
        "Connections for changes, and tasks of a dump. A batch that has begun keeps its number.")  # fmt: skip
    txn_rows: int = option("max-txn-row", number(1, 65_536), 256,
        "Changes in a transaction, about.")  # fmt: skip
    batched: bool = option("batch-dml-enable", _FLAG, True, "Whether a statement may hold several rows.")
    routes: Routes = routes("Where tables go.")
    create_tables: bool = option("create-tables", _FLAG, False,
        "[Creates missing tables](SQL-DDL.md#tables-that-the-sink-creates) while the target has accepted nothing. "
        "Later, DDLs do.")  # fmt: skip
    position_schema: str = option("position-schema", _SCHEMA_NAME, POSITION_SCHEMA,
        "The schema of the sink's own two tables. Each sink at a server needs its own.")  # fmt: skip
    ddl_done: frozenset[CommitTs] = commit_tss("ddl-done", "DDLs that are done, or not needed.")
    ddl_again: frozenset[CommitTs] = commit_tss("ddl-again", "DDLs to be carried out, whatever the tables look like.")
    skip_views: bool = option("skip-views", _FLAG, False,
        "Skips CREATE VIEW, which otherwise stops the sink.")  # fmt: skip
    safe_mode: bool = option("safe-mode", _FLAG, True, "Only `true` is possible.")
    time_zone: str = option("time-zone", text("UTC"), "UTC", "Only UTC is possible.")

    @property
    def decided(self) -> Mapping[CommitTs, Decided]:
        done: dict[CommitTs, Decided] = dict.fromkeys(self.ddl_done, "done")
        again: dict[CommitTs, Decided] = dict.fromkeys(self.ddl_again, "again")
        return done | again


def settings_of(uri: SinkUri) -> SqlSettings:
    """Raises SinkError for what is not valid; it shows no value of a parameter that may be a secret."""
    parts, scheme = uri.parts, uri.parts.scheme.partition("+")[0]
    hosts = one_host(parts, PORTS[scheme])
    if not parts.hostname or not parts.username or parts.path not in ("", "/"):
        raise SinkError(
            f"a {parts.scheme}: sink's URI names user and host, and no database",
            hint=f"write {scheme}://user@host:{PORTS[scheme]}/?…; where tables go is said by routes=",
        )
    settings = read(SqlSettings, uri.parameters, server=server_of(SqlServer, uri, hosts))
    if not settings.safe_mode:
        raise SinkError(
            "safe-mode=false is not possible: rows of a dump meet rows that are there", hint="leave safe-mode out: rows are always replaced"
        )
    if settings.time_zone.strip("\"'").upper() not in ("UTC", "+00:00", "ETC/UTC", ""):
        raise SinkError(
            "time-zone: a TIMESTAMP is a moment, and is written in UTC by a session in UTC",
            hint="leave time-zone out; readers see the moment in their own session's time_zone",
        )
    return settings


OPTIONS = (SqlServer, SqlSettings, NO_EFFECT)
PARAMETERS = names_of(*OPTIONS)
