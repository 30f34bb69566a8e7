"""One row by its handle key, in a session that reads as of a TSO."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from sidecar.shared.errors import SourceError
from sidecar.shared.model.keyset import Key, NotAKey, key_columns
from sidecar.shared.model.nouns import Column, TableName
from sidecar.shared.mysql.session import MysqlSession
from sidecar.shared.reads.read import canonical, keys_select
from sidecar.shared.reads.tables import handle_read_key, read_facts, read_schemas
from sidecar.shared.resultset.packets import read_packets

_HINT = "set source to the changefeed's upstream TiDB, and let source.user SELECT this table"

KeyOf = Callable[[Sequence[Column]], Key]
"""The key's columns to the key, canonical text."""


class RowImage(NamedTuple):
    """Columns as in the feed, and canonical texts."""

    columns: Sequence[Column]
    texts: Sequence[str | None]


def read_row(session: MysqlSession, table: TableName, key_of: KeyOf) -> RowImage | None:
    """None: there is no such row. Raises SourceError for a table that is not there or has no handle key, and what `key_of` does; pymysql's
    errors."""
    doing = f"reading a row of {table} by its key"
    schema = next(iter(read_schemas(session, table).values()), None)  # the feed may write the name in another case
    if schema is None or not schema.key:
        raise SourceError(f"{doing}: it {'is not there' if schema is None else 'has no handle key'}", hint=_HINT)
    key = handle_read_key(schema, read_facts(session, table)[schema.name])
    try:
        sql = keys_select(schema, key, [key_of(key_columns(schema))], where=None)
    except NotAKey as error:
        raise SourceError(f"{doing}: {error}", hint=_HINT) from error
    rows = canonical(read_packets(session, sql, len(schema.columns) + 1), schema.columns, where=doing)
    if rows.num_rows > 1:
        raise SourceError(f"{doing}: {rows.num_rows} rows have it", hint=_HINT)
    return RowImage(schema.columns, [column[0].as_py() for column in rows.columns]) if rows.num_rows else None
