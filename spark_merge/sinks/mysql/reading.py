"""The target's rows, read back: SELECTs of key ranges, each in a part of its own, or of some keys.

    position ─► the table's columns ─► cuts of its key ─► in tasks, each part: SELECT … WHERE key in (after, upper]

- The position comes before the rows, so rows are of it or of later segments. No snapshot spans both: a part makes its own connection,
  whenever and wherever it runs. The rows of a part are of one moment.
- A part reads as the source's reader does (sidecar/resultset). What its connection has sent is made into columns while more comes.
- Nothing is locked: a SELECT of READ COMMITTED reads the newest committed rows.
- A part whose connection is lost amid its rows fails, and can run again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pymysql

from sidecar.core.keyset import (
    Key,
    KeyColumn,
    NotAKey,
    ReadKey,
    between,
    evenly_between,
    key_columns,
    order_by,
    qualified,
    read_as,
    unreadable,
)
from sidecar.core.model import Column, TableName, TableSchema, lowered
from sidecar.process.progress import may_take
from sidecar.resultset.packets import read_blocks
from sidecar.resultset.selects import as_sent, key_select, spelt
from spark_merge.readable import Reading, ReadPart, RowsRead
from spark_merge.sinks.mysql.position import position_of
from spark_merge.sinks.mysql.session import SqlFlavour, SqlServer, SqlSession, code_of, retried, sink_error
from spark_merge.sinks.mysql.statements import ROWS_A_DELETE, SqlTexts
from spark_merge.sinks.mysql.tables import FoundTable, read_table, target_table
from spark_merge.sinks.mysql.uri import SqlSettings

PART_ROWS_MIN = 10_000
"""A smaller part is not worth its connection."""

_UNKNOWN_VARIABLE = 1193

_SCALED = frozenset({"decimal", "time", "datetime", "timestamp"})


@dataclass(frozen=True, slots=True)
class SqlPart:
    """The rows of these SELECTs, one after another. `first`: statements that each connection executes before. Picklable."""

    server: SqlServer
    table: TableName
    columns: tuple[Column, ...]
    statements: tuple[str, ...]
    first: tuple[str, ...] = ()

    def __call__(self) -> Iterator[RowsRead]:
        with closing(SqlSession(self.server)) as session:
            for sql in self.statements:
                for block in self._blocks(session, sql):
                    rows = spelt(pa.Table.from_batches([block]), self.columns)
                    yield RowsRead(_scaled(rows, self.columns))

    def _blocks(self, session: SqlSession, sql: str) -> Iterator[pa.RecordBatch]:
        """Until the first rows are there, it is tried again while its errors pass. Raises SinkError."""
        doing = f"reading rows of {self.table}"
        try:
            blocks, found = retried(session, lambda _: self._begun(session, sql), doing=doing)
            while found is not None:
                yield found
                with may_take(self.server.answer_s):
                    found = next(blocks, None)
        except (pymysql.err.MySQLError, UnicodeDecodeError) as error:
            raise sink_error(error, self.server, doing) from error

    def _begun(self, session: SqlSession, sql: str) -> tuple[Iterator[pa.RecordBatch], pa.RecordBatch | None]:
        for statement in self.first:
            session.rows(statement)
        blocks = read_blocks(session, sql, len(self.columns))
        with may_take(self.server.answer_s):
            return blocks, next(blocks, None)


def reading(settings: SqlSettings, schema: TableSchema, *, log_id: str, parts: int, keys: pa.Table | None) -> Reading:
    """`Readable.reading`. A table that is not there has no rows while nothing is accepted."""
    with closing(SqlSession(settings.server)) as session:
        state = position_of(session, settings.position_schema, log_id=log_id).look()
        accepted = state.accepted if state else None
        name = settings.routes.target(schema.name)
        found = retried(session, lambda _: read_table(session, name), doing=f"reading what {name} has")
        if found is None and accepted is None:
            return Reading(None, exact=False, parts=())
        texts = SqlTexts(schema, target_table(schema, name, found, session.flavour))
        if keys is not None:
            statements = of_keys(schema, name, texts, keys)
            return Reading(accepted, exact=False, parts=(SqlPart(settings.server, name, schema.columns, statements),))
        assert found is not None, "it is checked"
        key = read_key(schema, name, found)
        made: list[ReadPart] = [*of_ranges(settings.server, schema, key, cut(session, key, parts=parts))]
        return Reading(accepted, exact=False, parts=tuple(made))


def of_ranges(server: SqlServer, schema: TableSchema, key: ReadKey, ranges: Sequence[KeySpan], *, where: str = "") -> list[SqlPart]:
    """The rows of the key's table in these ranges. `where`: an SQL predicate of the rows that are read."""
    bounds = [between(key, after=one.after or None, upper=one.upper or None, where=where) for one in ranges]
    return [SqlPart(server, key.table, schema.columns, (f"{_select(schema, key.table)}{bound}",)) for bound in bounds]


def _select(schema: TableSchema, name: TableName) -> str:
    selected = ", ".join(f"{as_sent(column, qualified(column.name))} AS c{place}" for place, column in enumerate(schema.columns))
    return f"SELECT {selected} FROM {read_as(name)}"


def of_keys(schema: TableSchema, name: TableName, texts: SqlTexts, keys: pa.Table, *, where: str = "") -> tuple[str, ...]:
    """As many rows in a statement as the sink deletes by one. `where` as of `of_ranges`."""
    columns = [keys.column(column).to_pylist() if column in schema.key else [""] * keys.num_rows for column in schema.column_names()]
    wheres = texts.keys(columns)
    groups = [wheres[start : start + ROWS_A_DELETE] for start in range(0, len(wheres), ROWS_A_DELETE)]
    also = f" AND ({where}\n)" if where else ""
    return tuple(f"{_select(schema, name)} WHERE ({texts.condition(group)}){also}" for group in groups)


def read_key(schema: TableSchema, name: TableName, found: FoundTable) -> ReadKey:
    """Of table `name`, which the server has as `found`: by its character sets and collations."""
    there = {lowered(column.name): column for column in found.columns}
    columns = []
    for column in key_columns(schema):
        target = there[lowered(column.name)]
        columns.append(KeyColumn(column, target.charset or "", target.collation or "") if column.kind == "text" else KeyColumn(column))
    return ReadKey(name, tuple(columns))


# ---- cuts -----------------------------------------------------------------------------------------------------------


class KeySpan(NamedTuple):
    """Keys in `(after, upper]`; empty: without this bound."""

    after: Key = ()
    upper: Key = ()


def cut(session: SqlSession, key: ReadKey, *, parts: int) -> list[KeySpan]:
    """All keys, in at most `parts` ranges."""
    cuts = retried(session, lambda _: _cuts(session, key, parts), doing=f"reading the keys of {key.table}")
    return _between(KeySpan(), cuts)


def walk(session: SqlSession, key: ReadKey, within: KeySpan, *, range_rows: int, ranges_max: int) -> list[KeySpan]:
    """The first keys of `within` in ranges of about so many rows, each but the last one; all of them where so many ranges are enough. Keys
    that the key cannot have any more bound nothing."""
    if unreadable([part.column for part in key.columns]):
        return [KeySpan()]
    try:
        between(key, after=within.after or None, upper=within.upper or None)
    except NotAKey:
        within = KeySpan()
    doing = f"reading the keys of {key.table}"
    found = _between(within, retried(session, lambda _: _walked(session, key, within, range_rows, ranges_max), doing=doing))
    return found[:ranges_max]


def _between(within: KeySpan, cuts: Sequence[Key]) -> list[KeySpan]:
    return [KeySpan(*bounds) for bounds in pairwise([within.after, *cuts, within.upper])]


def _cuts(session: SqlSession, key: ReadKey, parts: int) -> Sequence[Key]:
    """At most `parts - 1` keys that rise. A key of one integer is cut by its values, another one by walking along its index."""
    if parts < 2 or unreadable([part.column for part in key.columns]):
        return ()
    lowest = session.rows(key_select(key, f"{order_by(key)} LIMIT 1"))
    if not lowest:
        return ()
    if len(key.columns) > 1 or key.columns[0].column.kind not in ("int", "uint"):
        return _walked(session, key, KeySpan(), max(row_count(session, key.table) // parts, PART_ROWS_MIN), parts - 1)
    highest = session.rows(key_select(key, f"{order_by(key, descending=True)} LIMIT 1"))
    return evenly_between(key, lowest[0], highest[0], count=parts)[:-1] if highest[0] != lowest[0] else ()


def _walked(session: SqlSession, key: ReadKey, within: KeySpan, step: int, count: int) -> Sequence[Key]:
    """Each `step` rows a key, `count` at most."""
    cuts, after = list[Key](), within.after
    while len(cuts) < count:
        left = between(key, after=after or None, upper=within.upper or None)
        found = session.rows(key_select(key, f"{left}{order_by(key)} LIMIT 1 OFFSET {step}"))
        if not found:
            break
        after = tuple(map(str, found[0]))
        cuts.append(after)
    return cuts


def row_count(session: SqlSession, name: TableName) -> int:
    """By the server's statistics."""
    if session.flavour is SqlFlavour.MYSQL:
        try:
            session.rows("SET information_schema_stats_expiry = 0")  # else they may be a day old
        except pymysql.err.MySQLError as error:
            if code_of(error) != _UNKNOWN_VARIABLE:  # before 8.0 they never are
                raise
    sql = "SELECT TABLE_ROWS FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
    found = session.rows(sql, name)
    return int(found[0][0] or 0) if found else 0


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
