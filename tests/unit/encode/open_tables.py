"""Tables and rows of all kinds, for encoders: made by hand, and drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from random import Random

import numpy as np
import pyarrow as pa

from sidecar.shared.model.nouns import Column, ColumnDefinition, IndexDefinition, IndexPart, Kind, TableDefinition, TableName, TableSchema
from spark_merge.port.contract import CHANGES
from tests.support.deliveries import change

Image = list[str | None]

TYPES: dict[str, Kind] = {
    "tinyint(4)": "int", "smallint(6) unsigned": "uint", "int(11)": "int", "bigint(20) unsigned": "uint", "mediumint(9)": "int",
    "float": "float", "double": "double", "decimal(10,2)": "decimal", "varchar(20)": "text", "char(3)": "text", "tinytext": "text",
    "text": "text", "mediumtext": "text", "longtext": "text", "varbinary(20)": "binary", "binary(4)": "binary", "tinyblob": "binary",
    "blob": "binary", "mediumblob": "binary", "longblob": "binary", "enum('a','b')": "enum", "set('a','b','c')": "set", "bit(9)": "bit",
    "date": "date", "time(3)": "time", "datetime": "datetime", "timestamp(6)": "timestamp", "timestamp": "timestamp", "year(4)": "year",
    "json": "json", "vector(3)": "vector",
}  # fmt: skip
_ELEMENTS = {"enum": ("a", "b"), "set": ("a", "b", "c")}

_CHARS = [*map(chr, range(0x20)), *'<>&"\\/\x7f abc \u00ad\u2028\u2029\ufeff\ufffdé中😀']
_NUMBERS = (1e-4, 9.99e-5, 1e-6, 9.99e-7, -1e-7, 0.0, -0.0, 1e10, 1e16, 1e20, 1e21, 5e-324, 3.4e38, 16777216.0, 0.1, -2.5)


def _text(random: Random) -> str:
    return "".join(random.choices(_CHARS, k=random.randrange(12)))


def _double(random: Random) -> float:
    return random.choice(
        [random.choice(_NUMBERS), random.gauss(0, 1) * 10.0 ** random.randrange(-25, 25), float(random.randrange(1 << 60))]
    )


def _clock(random: Random) -> str:
    return datetime.fromtimestamp(random.randrange(31_536_000, 2_147_000_000), UTC).strftime("%Y-%m-%d %H:%M:%S")


_VALUES: dict[Kind, Callable[[Random], str]] = {
    "int": lambda random: str(random.randrange(-(1 << 63), 1 << 63) >> random.randrange(64)),
    "uint": lambda random: str(random.getrandbits(64) >> random.randrange(65)),
    "float": lambda random: repr(float(np.float32(min(_double(random), 3e38)))),
    "double": lambda random: repr(_double(random)),
    "decimal": lambda random: f"{random.randrange(-99999, 99999) / 100:.2f}",
    "text": _text,
    "binary": lambda random: random.choice([random.randbytes(random.randrange(12)), _text(random).encode()]).hex().upper(),
    "enum": lambda random: random.choice(["", "a", "b"]),
    "set": lambda random: random.choice(["", "a", "b,c", "a,b,c"]),
    "bit": lambda random: str(random.randrange(512)),
    "date": lambda random: random.choice(["0000-00-00", "2024-02-29"]),
    "time": lambda random: random.choice(["-838:59:59.000", "00:00:00.001"]),
    "datetime": lambda random: random.choice(["0000-00-00 00:00:00", "9999-12-31 23:59:59"]),
    "timestamp": lambda random: random.choice(["0000-00-00 00:00:00", _clock(random)]),
    "year": lambda random: random.choice(["0000", "1901", "2155"]),
    "json": lambda random: random.choice(['{"a": "<\\"b\\">"}', "null", "[1e20]"]),
    "vector": lambda random: random.choice(["[1,2,3]", "[]"]),
}


def table(
    columns: Sequence[tuple[str, str]],
    *indexes: IndexDefinition,
    key: tuple[str, ...] = ("id",),
    partitioning: str = "",
) -> TableSchema:
    """`columns`: name and SQL type; the first one NOT NULL."""
    kinds = {column: TYPES[sql] for column, sql in columns}
    definition = TableDefinition(
        tuple(
            ColumnDefinition(column, sql, nullable=place > 0, charset="utf8mb4" if kinds[column] in ("text", "enum", "set") else "")
            for place, (column, sql) in enumerate(columns)
        ),
        indexes or (IndexDefinition("PRIMARY", (IndexPart(key[0]),), unique=True, primary=True),),
        partitioning=partitioning,
    )
    shapes = (
        Column(column, kinds[column], place > 0, elements=_ELEMENTS.get(kinds[column], ())) for place, (column, _) in enumerate(columns)
    )
    return TableSchema(TableName("shop", "t"), tuple(shapes), key, definition=definition)


ALL = table([("id", "bigint(20) unsigned"), *((f"c {sql} <{place}>", sql) for place, sql in enumerate(reversed(TYPES)))])


def changed(schema: TableSchema, column: str, **fields: object) -> TableSchema:
    """With another definition of one column."""
    assert schema.definition is not None
    columns = tuple(replace(one, **fields) if one.name == column else one for one in schema.definition.columns)  # type: ignore[arg-type]
    return replace(schema, definition=replace(schema.definition, columns=columns))


def changes(schema: TableSchema, *images: tuple[Image | None, Image | None]) -> pa.Table:
    """Of before and after of each row, at commit_ts 100, 101, …"""
    rows = [
        change(7, 100 + place, before=before, after=after, table=schema.name, ordinal=place) for place, (before, after) in enumerate(images)
    ]
    return pa.Table.from_pylist(rows, CHANGES)


def pairs(schema: TableSchema, random: Random) -> list[tuple[Image | None, Image | None]]:
    """Before and after of some rows: inserts, updates and deletes."""

    def image() -> Image:
        return [_value(schema, column, random) for column in schema.columns]

    kinds = random.choices(("insert", "update", "delete"), k=random.randrange(1, 8))
    return [(None if kind == "insert" else image(), None if kind == "delete" else image()) for kind in kinds]


def _value(schema: TableSchema, column: Column, random: Random) -> str | None:
    if column.name not in schema.key and random.random() < 0.2:
        return None
    text = _VALUES[column.kind](random)
    if "smallint" in column.name and column.kind == "uint":
        text = str(int(text) % (1 << 16))
    return f"{text}.{0 if text.startswith('0000') else 120000:06d}" if "timestamp(6)" in column.name else text
