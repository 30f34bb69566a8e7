"""The source's rows for a comparison: a table's key ranges and keys, read at a TSO where the server has snapshots.

It reads as the SQL sink reads its target back (sinks/mysql/reading.py): the source speaks the same protocol. Its sessions are set up as
those of a dump (Role.READ_SOURCE), and its errors are the source's. Nothing is locked or written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Protocol

import pyarrow as pa

from sidecar.shared.errors import SourceChanged
from sidecar.shared.model.keyset import quoted_table
from sidecar.shared.model.nouns import CommitTs, TableName, TableSchema, lowered
from sidecar.shared.mysql.flavour import Flavour
from sidecar.shared.mysql.key_ranges import KeySpan, cut, row_count, walk
from sidecar.shared.mysql.retry import carried_out
from sidecar.shared.mysql.roles import Role
from sidecar.shared.mysql.session import MysqlSession
from sidecar.shared.reads.tables import check_soft_delete
from spark_merge.port.readable import ReadPart, RowForm, RowsRead, rows_of
from spark_merge.sinks.kit.keyed import KeyedPart
from spark_merge.sinks.mysql.reading import SqlRows, read_key
from spark_merge.sinks.mysql.server import SqlServer
from spark_merge.sinks.mysql.server_table import ServerTable, read_table
from spark_merge.sinks.mysql.statements import SqlTexts
from spark_merge.sinks.mysql.tables import target_table

ROLE = Role.READ_SOURCE


class TimedPart(ReadPart, Protocol):
    """Some rows of the source, in the form that a sink promises. Picklable."""

    def at(self, ts: CommitTs | None) -> ReadPart:
        """As of this TSO; None: the present."""


class ComparedSource(Protocol):
    """The source of a verification. Raises SourceError; SourceChanged where it has another schema than the requested one."""

    def has_snapshots(self) -> bool:
        """Whether it reads as of a TSO."""

    def rows(self, schema: TableSchema) -> int:
        """Of the table, about."""

    def cut(self, schema: TableSchema, *, parts: int) -> Sequence[KeySpan]:
        """All keys, in about so many ranges or in fewer."""

    def walk(self, schema: TableSchema, within: KeySpan, *, range_rows: int, ranges_max: int) -> Sequence[KeySpan]:
        """The first keys of `within`, or of all where the table's key cannot have these bounds any more: ranges of about so many rows. The
        last one ends as `within` does, unless there are more rows."""

    def ranges(self, schema: TableSchema, ranges: Sequence[KeySpan], *, form: RowForm | None, where: str = "") -> Sequence[TimedPart]:
        """The rows of each range for which the SQL predicate `where` is true."""

    def by_keys(self, schema: TableSchema, keys: pa.Table, *, form: RowForm | None, where: str = "") -> TimedPart:
        """The rows with these handle keys (columns named and ordered as `schema.key`), as far as the predicate is true for them."""


@dataclass(frozen=True, slots=True)
class SourcePart:
    """`TimedPart`."""

    source: SqlRows
    statements: tuple[str, ...]
    form: RowForm | None = None

    def __call__(self) -> Iterator[RowsRead]:
        for row in rows_of(KeyedPart(self.source, self.statements)):
            yield row if self.form is None else RowsRead(self.form(row.rows))

    def at(self, ts: CommitTs | None) -> SourcePart:
        return self if ts is None else replace(self, source=replace(self.source, first=(f"SET @@tidb_snapshot = '{ts}'",)))


class SqlSource:
    """`ComparedSource`. `server`: the changefeed's upstream."""

    def __init__(self, server: SqlServer) -> None:
        self.server = server
        self._has_snapshots: bool | None = None

    def has_snapshots(self) -> bool:
        if self._has_snapshots is None:
            with closing(self._session()) as session:
                self._has_snapshots = carried_out(session, lambda: session.flavour, doing="asking the source what it is") is Flavour.TIDB
        return self._has_snapshots

    def rows(self, schema: TableSchema) -> int:
        with closing(self._session()) as session:
            number = carried_out(session, lambda: row_count(session, schema.name), doing=f"reading the statistics of {schema.name}")
            return number or carried_out(session, lambda: _counted(session, schema.name), doing=f"counting the rows of {schema.name}")

    def cut(self, schema: TableSchema, *, parts: int) -> list[KeySpan]:
        with closing(self._session()) as session:
            return cut(session, read_key(schema, *self._table(session, schema)), parts=parts)

    def walk(self, schema: TableSchema, within: KeySpan, *, range_rows: int, ranges_max: int) -> list[KeySpan]:
        with closing(self._session()) as session:
            key = read_key(schema, *self._table(session, schema))
            return walk(session, key, within, range_rows=range_rows, ranges_max=ranges_max)

    def ranges(self, schema: TableSchema, ranges: Sequence[KeySpan], *, form: RowForm | None, where: str = "") -> list[SourcePart]:
        with closing(self._session()) as session:
            key = read_key(schema, *self._table(session, schema))
            source = SqlRows(self.server, key.table, schema.columns, ROLE)
            return [SourcePart(source, (sql,), form) for sql in source.of_ranges(key, ranges, where=where)]

    def by_keys(self, schema: TableSchema, keys: pa.Table, *, form: RowForm | None, where: str = "") -> SourcePart:
        with closing(self._session()) as session:
            name, table = self._table(session, schema)
            texts = SqlTexts(schema, target_table(schema.undefined(), name, table, session.flavour))
            source = SqlRows(self.server, name, schema.columns, ROLE)
            return SourcePart(source, tuple(source.of_keys(texts, keys, where=where)), form)

    def _session(self) -> MysqlSession:
        return MysqlSession(self.server, ROLE)

    def _table(self, session: MysqlSession, schema: TableSchema) -> tuple[TableName, ServerTable]:
        table = carried_out(session, lambda: read_table(session, schema.name), doing=f"reading what {schema.name} has")
        if table is None:
            raise SourceChanged(f"the source has no table {schema.name}", hint="a DDL has removed it, or source.user has no SELECT on it")
        there = {lowered(column.name) for column in table.columns}
        if missing := [column for column in schema.column_names() if lowered(column) not in there]:
            raise SourceChanged(
                f"{schema.name} at the source has no column {missing[0]}", hint="a DDL has changed it: verify again once the sinks have it"
            )
        carried_out(session, lambda: check_soft_delete(session, schema), doing=f"reading what {schema.name} is")
        return schema.name, table


def _counted(session: MysqlSession, name: TableName) -> int:
    """Where there are no statistics: TiDB has none of a table that was never analyzed, however large it is."""
    return int(session.rows(f"SELECT COUNT(*) FROM {quoted_table(name)}")[0][0])


def key_table(schema: TableSchema, keys: Sequence[Sequence[str]]) -> pa.Table:
    """Keys as `Readable.reading` takes them."""
    return pa.table({name: pa.array([key[place] for key in keys], pa.string()) for place, name in enumerate(schema.key)})
