"""Tables whose values are the ends of every type, for readers that skip files by statistics. Canonical text (shared/model/nouns.py::Kind).

`WIDE` has a column for each type; row `at` has each column's extreme number `at`. The other tables have a key of one type and a value.
"""

from __future__ import annotations

from dataclasses import replace

from sidecar.shared.model.nouns import Column, TableName, TableSchema
from tests.support.deliveries import Row, change

Texts = tuple[str | None, ...]

_LONG = "common prefix that is longer than what statistics keep of a text, which are 16 characters, 32 or 64 of them "
_LAST = "\U0010ffff"


def _ints(bits: int) -> list[str]:
    return [str(-(1 << bits - 1)), str((1 << bits - 1) - 1), "0", "-1"]


def _uints(bits: int) -> list[str]:
    top, half = (1 << bits) - 1, 1 << bits - 1
    return [str(top), str(half), str(half - 1), str(top - 1), "0"]


def _decimals(digits: int, scale: int) -> list[str]:
    nines = "9" * digits
    whole, part = nines[: digits - scale], nines[digits - scale :]
    top = f"{whole or '0'}.{part}" if scale else whole
    near = f"{top[:-1]}8"
    least = f"0.{'0' * (scale - 1)}1" if scale else "1"
    return [top, f"-{top}", near, f"-{near}", least]


EXTREMES: dict[Column, list[str]] = {
    **{Column(f"i{bits}", "int"): _ints(bits) for bits in (8, 16, 24, 32, 64)},
    **{Column(f"u{bits}", "uint"): _uints(bits) for bits in (8, 16, 24, 32, 64)},
    **{
        Column(f"d{digits}_{scale}", "decimal", length=digits, scale=scale): _decimals(digits, scale)
        for digits, scale in [(4, 4), (9, 2), (18, 0), (19, 0), (20, 4), (20, 0), (30, 10), (38, 0), (38, 30), (65, 30)]
    },
    Column("f", "float"): ["-0.0", "3.4028234663852886e+38", "-3.4028234663852886e+38", "1.401298464324817e-45", "0.10000000149011612"],
    Column("g", "double"): ["-0.0", "1.7976931348623157e+308", "-1.7976931348623157e+308", "5e-324", "0.1"],
    Column("day", "date"): ["0001-01-01", "9999-12-31", "1969-12-31", "0000-00-00", "1582-10-10"],
    Column("at", "datetime", scale=6): [
        "0001-01-01 00:00:00.000001",
        "9999-12-31 23:59:59.999999",
        "1969-12-31 23:59:59.999999",
        "2024-02-29 12:00:00.000999",
        "0000-00-00 00:00:00.000000",
    ],
    Column("ts", "timestamp", scale=6): [
        "1970-01-01 00:00:01.000000",
        "2038-01-19 03:14:07.999999",
        "2024-02-29 12:00:00.000999",
        "2024-02-29 12:00:00.001001",
    ],
    Column("hours", "time", scale=6): ["-838:59:59.000000", "838:59:59.000000", "-00:00:00.000001", "00:00:00.999999"],
    Column("y", "year"): ["1901", "2155", "0000"],
    Column("s", "text"): [f"{_LONG}a", f"{_LONG}{_LAST}", _LAST * 100, "", f"{_LONG}é"],
    Column("e", "enum", elements=("", "a", f"{_LONG}z")): ["", "a", f"{_LONG}z"],
    Column("c", "set", elements=("a", "b", "é")): ["", "a,b,é", "é"],
    Column("b", "binary"): ["FF" * 100, "", "00", f"{'FF' * 16}00", "80"],
    Column("bits", "bit", length=64): _uints(64),
    Column("j", "json"): [f'{{"k": "{_LONG}"}}', "null", "[]", f'"{_LAST}"'],
    Column("v", "vector"): ["[1,2]", "[-3.4028235e+38]"],
}  # fmt: skip
ROWS = max(map(len, EXTREMES.values()))
WIDE = TableSchema(TableName("ends", "wide"), (Column("id", "int", nullable=False), *EXTREMES), ("id",))


_KEYS = ("i64", "u64", "d20_4", "d30_10", "ts", "y", "s", "b", "bits")
"""One of each type that may be the key of a merged table: no floating point, no date that is none."""

KEYED = tuple(
    TableSchema(TableName("ends", f"key_{column.name}"), (replace(column, name="k", nullable=False), Column("v", "text")), ("k",))
    for column in EXTREMES
    if column.name in _KEYS
)
TABLES = {schema.name: schema for schema in (WIDE, *KEYED)}


def rows_of(schema: TableSchema, value: str) -> list[Texts]:
    if schema is WIDE:
        columns = [[*values, *[None] * ROWS][:ROWS] for values in EXTREMES.values()]
        return [(str(at), *row) for at, row in enumerate(zip(*columns, strict=True))]
    name = schema.name.table.removeprefix("key_")
    values = next(values for column, values in EXTREMES.items() if column.name == name)
    return [(key, value) for key in values]


def inserts() -> list[list[Row]]:
    """Three segments, from 1: the first two rows of each table have files of their own, so statistics of one value."""
    results: list[list[Row]] = [[], [], []]
    for at in range(ROWS):
        seq = min(at, 2)
        rows = [(schema, rows[at]) for schema in TABLES.values() if at < len(rows := rows_of(schema, "first"))]
        ordinal = len(results[seq])
        results[seq] += [
            change(1 + seq, 100 * seq + 1 + at, after=row, table=schema.name, ordinal=ordinal + n) for n, (schema, row) in enumerate(rows)
        ]
    return results


def updates() -> list[Row]:
    """All rows again, in one segment after those."""
    rows = [
        (schema, old, new)
        for schema in TABLES.values()
        for old, new in zip(rows_of(schema, "first"), rows_of(schema, "second"), strict=True)
    ]
    return [change(4, 301, before=old, after=new, table=schema.name, ordinal=number) for number, (schema, old, new) in enumerate(rows)]
