"""What the sink checks of its server before anything is written there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import TableName, TableSchema
from spark_merge.port.contract import has_rows
from spark_merge.port.kinds import SinkUri
from spark_merge.sinks.clickhouse.position import Journal, position_of
from spark_merge.sinks.clickhouse.server import ClickHouseServer, forget
from spark_merge.sinks.clickhouse.tables import ClickHouseTables, note_of
from spark_merge.sinks.clickhouse.uri import ClickHouseSettings, settings_of

_SERVERS_OWN = "('system', 'information_schema', 'INFORMATION_SCHEMA')"


def misfits(uri: SinkUri, schemas: Sequence[TableSchema]) -> Iterator[tuple[str, str]]:
    """`SinkKind.misfits`. Raises SinkError for a server that cannot be queried, or that has another log's position."""
    with _forgotten_after(uri) as settings:
        accepted = position_of(Journal(settings.server, settings.database), log_id=uri.log_id).look()
        tables, wanted = ClickHouseTables(settings, uri.log_id), [schema for schema in schemas if has_rows(schema)]
        there = tables.read(tables.names(wanted))
        for schema in wanted:
            yield from _problems_of(partial(tables.check, schema, there, fresh=accepted is None))


def _problems_of(check: Callable[[], None]) -> Iterator[tuple[str, str]]:
    try:
        check()
    except SinkError as error:
        yield error.message, error.hint


def holds_rows(uri: SinkUri) -> bool:
    """A table to which the routes lead has rows and no note of ours, and no log of ours has opened this output. Where there are no routes:
    any table that the account may see, so let it see those of the changefeed alone."""
    with _forgotten_after(uri) as settings:
        if Journal(settings.server, settings.database).is_opened():
            return False
        return any(settings.names.may_lead_to(name) for name in _with_rows_of_others(settings.server))


def _with_rows_of_others(server: ClickHouseServer) -> Iterator[TableName]:
    """Of engines that count their rows: those that keep any."""
    sql = f"SELECT database, name, comment FROM system.tables WHERE total_rows > 0 AND database NOT IN {_SERVERS_OWN}"
    for schema, table, comment in server.rows(sql, doing="looking whether the tables have rows") or ():
        if note_of(comment) is None:
            yield TableName(schema, table)


@contextmanager
def _forgotten_after(uri: SinkUri) -> Iterator[ClickHouseSettings]:
    settings = settings_of(uri)
    try:
        yield settings
    finally:
        forget(settings.server)
