"""`clickhouse://user:password@host:8123/database?…`, and `clickhouse+ssl:` with TLS by the machine's authorities or `ssl-ca`.

`database` holds our position alone (it is made if it is not there); where tables go is said by `routes`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias
from urllib.parse import unquote

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import CommitTs, TableName
from spark_merge.ddl.routes import Routes
from spark_merge.port.kinds import SinkUri
from spark_merge.sinks.clickhouse.server import ClickHouseServer
from spark_merge.sinks.kit.options import block, commit_tss, flag, names_of, one_of, option, read, routes, text
from spark_merge.sinks.kit.server import one_host, server_of

PORT, TLS_PORT = 8123, 8443
DATABASE = "ticdc_dump"
ROWS_TABLE, VIEW = "{table}__rows", "{table}"

Dates: TypeAlias = Literal["typed", "text"]
"""typed: Date32 and DateTime64, and a value that these cannot hold stops the sink. text: String, which holds all of them."""


@dataclass(frozen=True, slots=True)
class ClickHouseNames:
    """Where a table of the log is. `rows_table` and `view` hold `{table}`; no `view`: none is made."""

    routes: Routes = routes("Where tables go.")
    rows_table: str = option("rows-table", text("a name with `{table}`"), ROWS_TABLE,
        "The table with the rows.")  # fmt: skip
    view: str = option("view", text("a name with `{table}`, or empty"), VIEW, "The view that readers use. Empty: the sink creates none.")

    def places(self, target: TableName) -> list[TableName]:
        """All that a table has, by its name after the routes; folded."""
        return [_named(pattern, target).folded() for pattern in (self.rows_table, self.view) if pattern]

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
class ClickHouseSettings:
    server: ClickHouseServer
    database: str = DATABASE
    names: ClickHouseNames = block(ClickHouseNames)
    dates: Dates = option("dates", one_of("typed", "text"), "typed",
        "`typed`: Date32 and DateTime64. `text`: String, which holds all.")  # fmt: skip
    fsync: bool = option("fsync", flag(), True,
        "Tables are created so that an answered insert is on the server's disk. `false`: rows that a power failure takes are not written "
        "again.")  # fmt: skip
    done: frozenset[CommitTs] = commit_tss("ddl-done",
        "DDLs that you carried out. The sink compares their tables, and creates missing ones.")  # fmt: skip


def settings_of(uri: SinkUri) -> ClickHouseSettings:
    """Raises SinkError for what is not valid; it shows no secret."""
    parts, tls = uri.parts, uri.parts.scheme.endswith("+ssl")
    database = unquote(parts.path).strip("/") or DATABASE
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,63}", database):
        raise SinkError("a clickhouse: sink's URI names no usable database", hint="write clickhouse://user@host:8123/ticdc_dump?…")
    hosts = one_host(parts, TLS_PORT if tls else PORT)
    if not parts.hostname:
        raise SinkError(f"a {parts.scheme}: sink's URI names no host", hint=f"write {parts.scheme}://user@host:{hosts[0][1]}/{DATABASE}?…")
    if "ssl-ca" in uri.parameters and not tls:
        raise SinkError("ssl-ca without TLS", hint="use clickhouse+ssl:, and the port of the server's HTTPS")
    settings = read(ClickHouseSettings, uri.parameters, server=server_of(ClickHouseServer, uri, hosts, user="default"), database=database)
    rows, view = settings.names.rows_table, settings.names.view
    if "{table}" not in rows or ("{table}" not in view and view) or rows == view:
        raise SinkError(
            f"rows-table={rows!r} and view={view!r} are not two names, each with {{table}} in it",
            hint=f"leave them out for {ROWS_TABLE} and {VIEW}; an empty view makes none",
        )
    return settings


OPTIONS = (ClickHouseServer, ClickHouseSettings)
PARAMETERS = names_of(*OPTIONS)
