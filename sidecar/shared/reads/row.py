"""One row by its handle key, in a session that reads as of a TSO."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import NamedTuple

from sidecar.shared.errors import SourceError, SourceGone
from sidecar.shared.model.keyset import Key, NotAKey, key_columns
from sidecar.shared.model.nouns import Column, TableName
from sidecar.shared.mysql.session import MysqlSession
from sidecar.shared.reads.read import canonical, keys_select
from sidecar.shared.reads.tables import check_soft_delete, handle_read_key, read_facts, read_schemas
from sidecar.shared.resultset.packets import read_packets

_HINT = "set source to the changefeed's upstream TiDB, and let source.user SELECT this table"

_KEY_HINT = "a DDL was changing the key: let the changefeed send such rows whole (max-message-bytes, or claim-check)"

KeyOf = Callable[[Sequence[Column]], Key]
"""The key's columns to the key, canonical text."""


class RowImage(NamedTuple):
    """Columns as in the feed, and canonical texts."""

    columns: Sequence[Column]
    texts: Sequence[str | None]


def read_row(session: MysqlSession, table: TableName, columns: Collection[str], key_of: KeyOf) -> RowImage | None:
    """None: there is no such row. `columns`: the key's, which beside a DDL may be another one than SQL shows. Raises SourceGone
    for a table that does not have them, SourceError for one that is not there, what `key_of` does, and pymysql's errors."""
    doing = f"reading a row of {table} by its key"
    schema = next(iter(read_schemas(session, table).values()), None)  # the feed may write the name in another case
    if schema is None:
        raise SourceError(f"{doing}: it is not there", hint=_HINT)
    if not columns or (lost := sorted(set(columns).difference(schema.column_names()))):
        what = f"it does not have {', '.join(lost)}, of the key that the message has" if columns else "the message has no column of its key"
        raise SourceGone(f"{doing}: {what}", hint=_KEY_HINT)
    check_soft_delete(session, schema)
    by_key = replace(schema, key=tuple(name for name in schema.column_names() if name in columns))
    key = handle_read_key(by_key, read_facts(session, table)[schema.name])
    try:
        sql = keys_select(schema, key, [key_of(key_columns(by_key))], where=None)
    except NotAKey as error:
        raise SourceGone(f"{doing}: {error}", hint=_HINT) from error
    rows = canonical(read_packets(session, sql, len(schema.columns) + 1), schema.columns, where=doing)
    if rows.num_rows > 1:
        raise SourceError(f"{doing}: {rows.num_rows} rows have it", hint=_HINT)
    return RowImage(schema.columns, [column[0].as_py() for column in rows.columns]) if rows.num_rows else None
