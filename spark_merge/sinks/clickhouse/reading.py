"""The rows that a table's view shows, read back: SELECTs with FINAL of key ranges, each in a part of its own, or of some keys.

- All versions of a key are in one range, so each part merges its own, and the parts together are what the view shows.
- The server makes canonical text of the values, but of floats, whose shortest text of Python is made here.
- An insert is seen at once, before its batch is accepted.
- The table itself is read, and not its view: an operator may have none (`view=`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from sidecar.shared.errors import SinkError
from sidecar.shared.log.float_texts import reprs
from sidecar.shared.model.keyset import Key, beyond, key_columns
from sidecar.shared.model.nouns import Column, TableName, TableSchema
from sidecar.shared.process.progress import progressed
from spark_merge.port.contract import Accepted
from spark_merge.port.readable import Reading
from spark_merge.sinks.clickhouse.block import Ours
from spark_merge.sinks.clickhouse.columns import column_type
from spark_merge.sinks.clickhouse.server import ClickHouseServer, identifier, literal, quoted
from spark_merge.sinks.clickhouse.tables import ClickHouseTables
from spark_merge.sinks.kit.grouped import grouped
from spark_merge.sinks.kit.keyed import keyed_reading, keys_of

PART_ROWS_MIN = 10_000
"""A smaller part is not worth its query."""

SAMPLED_KEYS = 1_000
"""Of which the cuts are taken."""

KEYS_BYTES_MAX = 64 << 10
"""Of keys in a statement: a server takes one of 256 KiB. Texts are hex here, so a character is a byte."""

_FLOATS = ("float", "double")


def _texts(batch: pa.RecordBatch, columns: Sequence[Column]) -> pa.Table:
    arrays = [
        reprs(column_array.cast(pa.float64())) if column.kind in _FLOATS else column_array.cast(pa.string())
        for column_array, column in zip(batch.columns, columns, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=pa.schema([pa.field(column.name, pa.string()) for column in columns]))


def reading(tables: ClickHouseTables, schema: TableSchema, accepted: Accepted | None, *, parts: int, keys: pa.Table | None) -> Reading:
    """`Readable.reading`, of a sink that has had `accepted` before. A table that is not there has no rows while nothing is accepted."""
    target = tables.target(schema)
    there = tables.read([target.rows])
    try:
        tables.check(schema, there, fresh=accepted is None)
    except SinkError as error:
        raise SinkError(error.message, hint=f"if a schema change is being carried out, read again after it; else {error.hint}") from error
    rows_table = there.get(target.rows)
    if rows_table is None or rows_table.note is None:
        return Reading(accepted, exact=False, parts=())
    source = ClickHouseRows(tables.settings.server, target.rows, schema, tables.kept(schema), rows_table.note.floor)
    groups = zip(_of_ranges(source, _cuts(source, parts))) if keys is None else [_of_keys(source.kept, keys)]
    return keyed_reading(accepted, source, (map(source.select, conditions) for conditions in groups))


@dataclass(frozen=True, slots=True)
class ClickHouseRows:
    """`KeyedTable`. `kept`: the schema with the kinds that its columns have in the table. `floor`: a version, as of tables.Note."""

    server: ClickHouseServer
    table: TableName
    schema: TableSchema
    kept: TableSchema
    floor: int

    def rows(self, statements: Sequence[str]) -> Iterator[pa.Table]:
        for sql in statements:
            for batch in self.server.batches(sql, doing=f"reading rows of {self.table}"):
                progressed()
                if batch.num_rows:
                    yield _texts(batch, self.schema.columns)

    def select(self, condition: str) -> str:
        """Its columns have no names of ours: in a condition, one that is a column's name would hide it."""
        texts = ", ".join(map(_text, self.schema.columns))
        floor = f"{quoted(Ours.of(self.schema).version)} > {self.floor}" if self.floor else ""
        where = " AND ".join(f"({one})" for one in (condition, floor) if one)
        return f"SELECT {texts} FROM {identifier(self.table)} FINAL{f' WHERE {where}' if where else ''}"


def _text(column: Column) -> str:
    name = quoted(column.name)
    match column.kind:
        case "float" | "double":
            return name
        case "int" | "uint" | "bit" | "date" | "datetime" | "timestamp":
            return f"toString({name})"
        case "decimal":
            return f"toDecimalString({name}, {column.scale})"
        case "year":
            return f"leftPad(toString({name}), 4, '0')"
        case "binary":
            return f"hex({name})"
        case _:
            return name


def _literal(column: Column, text: str) -> str:
    """Bytes as hex: a text may hold what ends a statement."""
    kind = column_type(column, in_key=True)
    if kind != "String":
        return f"CAST({literal(text)} AS {kind})"
    return f"unhex({literal(text if column.kind == 'binary' else text.encode().hex())})"


# ---- keys and ranges ------------------------------------------------------------------------------------------------------------------


def _of_keys(schema: TableSchema, keys: pa.Table) -> list[str]:
    """A condition for some of the keys, and so on."""
    columns = key_columns(schema)
    texts = (f"({', '.join(map(_literal, columns, key))})" for key in keys_of(schema, keys))
    names = ", ".join(quoted(column.name) for column in columns)
    return [f"({names}) IN ({', '.join(group)})" for group in grouped(texts, bytes_max=KEYS_BYTES_MAX)]


def _of_ranges(source: ClickHouseRows, cuts: Sequence[Key]) -> list[str]:
    """A condition for each part."""
    columns = key_columns(source.kept)
    bounds = [[(quoted(column.name), _literal(column, text)) for column, text in zip(columns, key, strict=True)] for key in cuts]
    after = ["", *(beyond(bound, ">", last=">") for bound in bounds)]
    upto = [*(beyond(bound, "<", last="<=") for bound in bounds), ""]
    return [" AND ".join(f"({one})" for one in pair if one) for pair in zip(after, upto, strict=True)]


def _cuts(source: ClickHouseRows, parts: int) -> list[Key]:
    """At most `parts - 1` keys that rise, of a sample of all. Not of floats, whose literals are not exact on every server."""
    columns, place = key_columns(source.schema), identifier(source.table)
    if parts < 2 or any(column.kind in _FLOATS for column in columns):
        return []
    doing = f"reading keys of {source.table}"
    ((rows,),) = source.server.rows(f"SELECT count() FROM {place}", doing=doing) or [[0]]
    count = min(parts, int(rows) // PART_ROWS_MIN)
    if count < 2:
        return []
    key = "key"
    while key in source.schema.key:
        key += "_"
    names = ", ".join(quoted(column.name) for column in columns)
    sample = f"SELECT arrayJoin(arraySort(groupArraySample({SAMPLED_KEYS}, 1)(tuple({names})))) AS {key} FROM {place}"
    separate = ", ".join(f"{key}.{number} AS {quoted(column.name)}" for number, column in enumerate(columns, 1))
    sql = f"SELECT {', '.join(map(_text, columns))} FROM (SELECT {separate} FROM ({sample}))"
    keys = [tuple(map(str, row)) for row in source.server.rows(sql, doing=doing) or ()]
    return list(dict.fromkeys(keys[len(keys) * number // count] for number in range(1, count)))
