"""`clickhouse://user:password@host:8123/database?…`, and `clickhouse+ssl:` with TLS by the machine's authorities or `ssl-ca`.

`database` holds our position alone (it is made if it is not there); where tables go is said by `routes`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal, TypeAlias
from urllib.parse import unquote

from sidecar.core.model import CommitTs, TableName
from sidecar.errors import SinkError
from spark_merge.ddl.routes import Routes
from spark_merge.sinks.clickhouse.server import PASSWORD, SECRET_KIND, Server
from spark_merge.sinks.kind import SinkUri
from spark_merge.sinks.parameters import Parameters
from spark_merge.sinks.passwords import keep_password

PARAMETERS = frozenset(
    {"routes", "rows-table", "view", "dates", "compression", "fsync", "password-file", "ssl-ca", "timeout", "read-timeout", "ddl-done"}
)
PORT, TLS_PORT = 8123, 8443
DATABASE = "ticdc_dump"
ROWS_TABLE, VIEW = "{table}__rows", "{table}"
CONNECT_S, READ_S = 10, 300

Dates: TypeAlias = Literal["typed", "text"]
"""typed: Date32 and DateTime64, and a value that these cannot hold stops the sink. text: String, which holds all of them."""


@dataclass(frozen=True, slots=True)
class Names:
    """Where a table of the log is. `rows_table` and `view` hold `{table}`; no `view`: none is made."""

    routes: Routes = field(default_factory=Routes)
    rows_table: str = ROWS_TABLE
    view: str = VIEW

    def rows(self, name: TableName) -> TableName:
        return _named(self.rows_table, self.routes.target(name))

    def reader(self, name: TableName) -> TableName | None:
        return _named(self.view, self.routes.target(name)) if self.view else None

    def may_lead_to(self, there: TableName) -> bool:
        """Whether a table of the source may be there; without routes, any may."""
        routes = self.routes
        if there.schema in routes.schemas.values() or not (routes.schemas or routes.tables):
            return True
        return any(there in (_named(self.rows_table, target), _named(self.view, target)) for target in routes.tables.values())


def _named(pattern: str, target: TableName) -> TableName:
    return TableName(target.schema, pattern.replace("{table}", target.table))


@dataclass(frozen=True, slots=True)
class Settings:
    """`fsync`: what is written is on the server's disk when it is answered. `done`: commit_ts of DDLs that an operator has carried out."""

    server: Server
    database: str = DATABASE
    names: Names = field(default_factory=Names)
    dates: Dates = "typed"
    fsync: bool = True
    done: frozenset[CommitTs] = frozenset()


def settings_of(uri: SinkUri) -> Settings:
    """Raises SinkError for what cannot be meant; it shows no secret. A password is kept here, in this process and those it starts."""
    found = Parameters(uri.parameters)
    database = unquote(uri.parts.path).strip("/") or DATABASE
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,63}", database):
        raise SinkError("a clickhouse: sink's URI names no usable database", hint="write clickhouse://user@host:8123/ticdc_dump?…")
    return Settings(
        server=_server(uri, found),
        database=database,
        names=_names(found),
        dates=found.one_of("dates", ("typed", "text")),
        fsync=found.flag("fsync", otherwise=True),
        done=found.commit_tss("ddl-done"),
    )


def _server(uri: SinkUri, found: Parameters) -> Server:
    parts, tls = uri.parts, uri.parts.scheme.endswith("+ssl")
    try:
        port = parts.port or (TLS_PORT if tls else PORT)
    except ValueError as error:
        raise SinkError(f"a {parts.scheme}: sink's URI has no usable port", hint=f"write {parts.scheme}://user@host:{PORT}/…") from error
    if not parts.hostname:
        raise SinkError(f"a {parts.scheme}: sink's URI names no host", hint=f"write {parts.scheme}://user@host:{PORT}/{DATABASE}?…")
    if "ssl-ca" in uri.parameters and not tls:
        raise SinkError("ssl-ca without TLS", hint="use clickhouse+ssl:, and the port of the server's HTTPS")
    server = Server(
        host=parts.hostname,
        port=port,
        user=unquote(parts.username or "default"),
        password_file=found.text("password-file") if parts.password is None else "",
        tls=tls,
        ssl_ca=found.text("ssl-ca"),
        connect_s=found.bare_seconds("timeout", CONNECT_S),
        read_s=found.bare_seconds("read-timeout", READ_S),
        compression=found.one_of("compression", ("lz4", "zstd", "none")),
    )
    keep_password(server, parts.password, kind=SECRET_KIND, file=server.password_file, variable=PASSWORD)
    return server


def _names(found: Parameters) -> Names:
    rows, view = found.text("rows-table", ROWS_TABLE), found.text("view", VIEW)
    if "{table}" not in rows or ("{table}" not in view and view) or rows == view:
        raise SinkError(
            f"rows-table={rows!r} and view={view!r} are not two names, each with {{table}} in it",
            hint=f"leave them out for {ROWS_TABLE} and {VIEW}; an empty view makes none",
        )
    return Names(found.routes(), rows, view)
