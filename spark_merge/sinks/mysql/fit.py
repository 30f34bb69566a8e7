"""Before anything is delivered: whether the target can take the rows of a changefeed's tables, and whether somebody else has fed it.

Rights are tried by statements that match no row (REPLACE … SELECT … WHERE FALSE needs SELECT, INSERT and DELETE), so nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing

import pymysql

from sidecar.shared.model.nouns import TableName, TableSchema
from sidecar.shared.mysql.errors import failure
from sidecar.shared.mysql.retry import carried_out
from sidecar.shared.mysql.roles import Role
from sidecar.shared.mysql.session import MysqlSession
from sidecar.shared.sql.text import quoted
from spark_merge.port.kinds import SinkUri
from spark_merge.sinks.mysql.position import SinkTable, position_of
from spark_merge.sinks.mysql.tables import TargetTable, read_tables
from spark_merge.sinks.mysql.uri import SqlSettings, settings_of

_NOT_THE_SOURCES = ("information_schema", "performance_schema", "metrics_schema", "inspection_schema", "mysql", "sys")


def misfits(uri: SinkUri, schemas: Sequence[TableSchema]) -> Iterator[tuple[str, str]]:
    """`SinkKind.misfits`. A table that the sink will make is no misfit; whether it may is not tried. Raises SinkError for a target that
    cannot be queried, or that has another log's position."""
    settings = settings_of(uri)
    with closing(MysqlSession(settings.server, Role.WRITE_TARGET)) as session:
        accepted = position_of(session, settings.position_schema, log_id=uri.log_id).look()
        made = settings.create_tables and accepted is None
        wanted = [schema for schema in schemas if schema.key]
        targets = {schema.name: settings.routes.target(schema.name) for schema in wanted}
        tables = carried_out(session, lambda: read_tables(session, wanted, targets), doing="reading what the tables have")
        for table in tables.values():
            if table.problem and not (made and not table.there):
                yield table.problem, table.way_out
            elif table.there:
                yield from _refused(session, table)


def _refused(session: MysqlSession, table: TargetTable) -> Iterator[tuple[str, str]]:
    name, columns = f"{quoted(table.name.schema)}.{quoted(table.name.table)}", ", ".join(map(quoted, table.names))
    try:
        session.rows(f"REPLACE INTO {name} ({columns}) SELECT {columns} FROM {name} WHERE FALSE")
    except pymysql.err.MySQLError as error:
        reported = failure(error, session.server, session.role, f"trying to write to {table.name}")
        yield reported.message, reported.hint


def holds_rows(uri: SinkUri) -> bool:
    """A table that the routes lead to has rows, and no position, of whatever log, says that we wrote any. Where there are no routes: any
    table that the account may see, so let it see those of the changefeed alone."""
    settings = settings_of(uri)
    with closing(MysqlSession(settings.server, Role.WRITE_TARGET)) as session:
        ours = SinkTable(session, settings.position_schema).read()
        if ours is not None and (ours.state.accepted or ours.state.detail):
            return False
        return carried_out(session, lambda: _any_row(session, settings), doing="looking whether the tables have rows")


def _any_row(session: MysqlSession, settings: SqlSettings) -> bool:
    routes = settings.routes
    schemas, tables = set(routes.schemas.values()), {name.folded() for name in routes.tables.values()}
    seen = session.rows("SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE = 'BASE TABLE'")
    for schema, table in seen:
        name = TableName(schema, table)
        if schema.lower() in _NOT_THE_SOURCES or schema == settings.position_schema:
            continue
        led_to = schema in schemas or name.folded() in tables or not (schemas or tables)
        if led_to and session.rows(f"SELECT 1 FROM {quoted(schema)}.{quoted(table)} LIMIT 1"):
            return True
    return False
