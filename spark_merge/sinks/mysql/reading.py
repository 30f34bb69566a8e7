"""The target's rows, read back: SELECTs of key ranges, each in a part of its own, or of some keys (../keyed.py).

- The rows of a part are of one moment.
- A part reads as the source's reader does (sidecar/shared/resultset). What its connection has sent is made into columns while more comes.
- Nothing is locked: a SELECT of READ COMMITTED reads the newest committed rows.
- A part whose connection is lost amid its rows fails, and can run again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pymysql

from sidecar.shared.model.keyset import KeyColumn, ReadKey, between, key_columns
from sidecar.shared.model.nouns import Column, TableName, TableSchema, lowered
from sidecar.shared.mysql.errors import failure
from sidecar.shared.mysql.key_ranges import KeySpan, cut, rows_select
from sidecar.shared.mysql.retry import carried_out
from sidecar.shared.mysql.roles import Role
from sidecar.shared.mysql.session import MysqlSession
from sidecar.shared.process.progress import may_take
from sidecar.shared.resultset.packets import read_blocks
from sidecar.shared.resultset.selects import spelt
from spark_merge.port.readable import Reading
from spark_merge.sinks.kit.grouped import grouped
from spark_merge.sinks.kit.keyed import keyed_reading
from spark_merge.sinks.mysql.position import position_of
from spark_merge.sinks.mysql.server import SqlServer
from spark_merge.sinks.mysql.server_table import ServerTable, read_table
from spark_merge.sinks.mysql.statements import ROWS_A_DELETE, STATEMENT_BYTES, SqlTexts
from spark_merge.sinks.mysql.tables import target_table
from spark_merge.sinks.mysql.uri import SqlSettings

_SCALED = frozenset({"decimal", "time", "datetime", "timestamp"})


@dataclass(frozen=True, slots=True)
class SqlRows:
    """`KeyedTable`. `first`: statements that each connection executes before. Raises SourceError or SinkError, by whose server it is."""

    server: SqlServer
    table: TableName
    columns: tuple[Column, ...]
    role: Role = Role.READ_TARGET
    first: tuple[str, ...] = ()

    def rows(self, statements: Sequence[str]) -> Iterator[pa.Table]:
        with closing(MysqlSession(self.server, self.role)) as session:
            for sql in statements:
                for block in self._blocks(session, sql):
                    yield _scaled(spelt(pa.Table.from_batches([block]), self.columns), self.columns)

    def of_ranges(self, key: ReadKey, ranges: Sequence[KeySpan], *, where: str = "") -> list[str]:
        """A SELECT for each of these ranges. `where`: an SQL predicate of the rows that are read."""
        bounds = (between(key, after=one.after or None, upper=one.upper or None, where=where) for one in ranges)
        return [f"{self._select()}{bound}" for bound in bounds]

    def of_keys(self, texts: SqlTexts, keys: pa.Table, *, where: str = "") -> list[str]:
        """As many rows in a statement as the sink deletes by one. `where` as of `of_ranges`."""
        schema = texts.schema
        columns = [keys.column(column).to_pylist() if column in schema.key else [""] * keys.num_rows for column in schema.column_names()]
        also = f" AND ({where}\n)" if where else ""
        groups = grouped(texts.keys(columns), rows_max=ROWS_A_DELETE, bytes_max=STATEMENT_BYTES)
        return [f"{self._select()} WHERE ({texts.condition(group)}){also}" for group in groups]

    def _select(self) -> str:
        return rows_select(self.columns, self.table, at_source=self.role.at_source)

    def _blocks(self, session: MysqlSession, sql: str) -> Iterator[pa.RecordBatch]:
        """Until the first rows are there, it is tried again while its errors pass."""
        doing = f"reading rows of {self.table}"
        try:
            blocks, result = carried_out(session, lambda: self._begun(session, sql), doing=doing)
            while result is not None:
                yield result
                with may_take(self.server.answer_s):
                    result = next(blocks, None)
        except (pymysql.err.MySQLError, UnicodeDecodeError) as error:
            raise failure(error, self.server, self.role, doing) from error

    def _begun(self, session: MysqlSession, sql: str) -> tuple[Iterator[pa.RecordBatch], pa.RecordBatch | None]:
        for statement in self.first:
            session.rows(statement)
        blocks = read_blocks(session, sql, len(self.columns))
        with may_take(self.server.answer_s):
            return blocks, next(blocks, None)


def reading(settings: SqlSettings, schema: TableSchema, *, log_id: str, parts: int, keys: pa.Table | None) -> Reading:
    """`Readable.reading`. A table that is not there has no rows while nothing is accepted."""
    with closing(MysqlSession(settings.server, Role.READ_TARGET)) as session:
        accepted = position_of(session, settings.position_schema, log_id=log_id).look()
        name = settings.routes.target(schema.name)
        table = carried_out(session, lambda: read_table(session, name), doing=f"reading what {name} has")
        if table is None and accepted is None:
            return Reading(None, exact=False, parts=())
        texts = SqlTexts(schema, target_table(schema, name, table, session.flavour))
        rows = SqlRows(settings.server, name, schema.columns)
        if keys is not None:
            return keyed_reading(accepted, rows, [rows.of_keys(texts, keys)])
        assert table is not None, "it is checked"
        key = read_key(schema, name, table)
        return keyed_reading(accepted, rows, zip(rows.of_ranges(key, cut(session, key, parts=parts))))


def read_key(schema: TableSchema, name: TableName, table: ServerTable) -> ReadKey:
    """Of table `name`, which the server has as `table`: by its character sets and collations."""
    there = {lowered(column.name): column for column in table.columns}
    columns = []
    for column in key_columns(schema):
        target = there[lowered(column.name)]
        columns.append(KeyColumn(column, target.charset or "", target.collation or "") if column.kind == "text" else KeyColumn(column))
    return ReadKey(name, tuple(columns))


# ---- digits ---------------------------------------------------------------------------------------------------------


def _scaled(rows: pa.Table, columns: Sequence[Column]) -> pa.Table:
    """With each column's own number of digits after the point, where the target's column has another number. A digit that is no zero
    stays."""
    for place, column in enumerate(columns):
        if column.kind in _SCALED:
            texts = rows.column(place)
            known = texts.drop_null()
            digits = len(known[0].as_py().partition(".")[2]) if len(known) else column.scale
            if digits != column.scale:
                rows = rows.set_column(place, rows.field(place), _with_digits(texts, digits, column.scale))
    return rows


def _with_digits(texts: pa.ChunkedArray, digits: int, wanted: int) -> pa.ChunkedArray:
    if digits < wanted:
        return pc.binary_join_element_wise(texts, ("" if digits else ".") + "0" * (wanted - digits), "")
    pattern = rf"(\.[0-9]{{{wanted}}})0{{{digits - wanted}}}$" if wanted else rf"()\.0{{{digits}}}$"
    return pc.replace_substring_regex(texts, pattern, r"\1")
