"""Tables and values for tests of Debezium's form: every kind with values at its limits."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from sidecar.shared.model.nouns import Column, ColumnDefinition, Kind, TableDefinition, TableName, TableSchema
from spark_merge.codecs.encode.debezium_fields import BARE, DECIMALS, INVALID_DATES, PREFIX, UNSIGNED
from tests.unit.encode.open_tables import Image

MODES = [
    {PREFIX: "p", BARE: bare, DECIMALS: decimals, UNSIGNED: unsigned}
    for bare in ("false", "true")
    for decimals, unsigned in (("precise", "precise"), ("string", "string"), ("precise", "long"))
]
DATED = {PREFIX: "p", INVALID_DATES: "null-or-epoch"}

_WHOLE = ("-9223372036854775808", "9223372036854775807", "0", "-1", "128", "-129", "255")
_DIGITS = {"2": ("99999999.99", "-99999999.99", "0.00", "-0.01", "1.28", "-1.29"), "0": ("9" * 65, "-" + "9" * 65, "0", "1")}


@dataclass(frozen=True)
class Kinds:
    sql: str
    kind: Kind
    values: tuple[str, ...]
    length: int = -1
    scale: int = 0
    elements: tuple[str, ...] = ()


KINDS = [
    Kinds("tinyint(4)", "int", ("-128", "127", "0")),
    Kinds("tinyint(3) unsigned", "uint", ("0", "255")),
    Kinds("smallint(6)", "int", ("-32768", "32767")),
    Kinds("smallint(5) unsigned", "uint", ("0", "65535")),
    Kinds("mediumint(9)", "int", ("-8388608", "8388607")),
    Kinds("mediumint(8) unsigned", "uint", ("0", "16777215")),
    Kinds("int(11)", "int", ("-2147483648", "2147483647")),
    Kinds("int(10) unsigned", "uint", ("0", "4294967295")),
    Kinds("bigint(20)", "int", _WHOLE),
    Kinds("bigint(20) unsigned", "uint", ("0", "127", "128", "9223372036854775807")),
    Kinds("float", "float", ("0.0", "-0.0", "0.10000000149011612", "3.4028234663852886e+38", "1.401298464324817e-45", "16777216.0")),
    Kinds("float(7,4)", "float", ("0.10000000149011612", "999.9999389648438")),
    Kinds("double", "double", ("0.0", "-0.0", "1.7976931348623157e+308", "5e-324", "0.1", "1e+16", "123456789.125")),
    Kinds("decimal(10,2)", "decimal", _DIGITS["2"], 10, 2),
    Kinds("decimal(18,18)", "decimal", ("0." + "9" * 18, "-0." + "0" * 17 + "1"), 18, 18),
    Kinds("decimal(19,1)", "decimal", ("9" * 18 + ".9", "-" + "9" * 18 + ".9", "0.0"), 19, 1),
    Kinds("decimal(38,0)", "decimal", ("9" * 38, "-" + "9" * 38), 38, 0),
    Kinds("decimal(65,0)", "decimal", _DIGITS["0"], 65, 0),
    Kinds("decimal(65,30)", "decimal", ("9" * 35 + "." + "9" * 30, "-0." + "0" * 29 + "1"), 65, 30),
    Kinds("char(9)", "text", ("", 'a"b\\c', "\x00\x1f\x7f\u2028<>&", "é中😀")),
    Kinds("longtext", "text", ("x" * 300, "\n\r\t\b\f")),
    Kinds("binary(3)", "binary", ("000000", "FFFFFF"), 3),
    Kinds("longblob", "binary", ("", "00", "FFFE", "0102030405")),
    Kinds("enum('a','b,c','')", "enum", ("a", "b,c", ""), elements=("a", "b,c", "")),
    Kinds("set('a','b\\\\')", "set", ("", "a", "a,b\\"), elements=("a", "b\\")),
    Kinds("bit(1)", "bit", ("0", "1"), 1),
    Kinds("bit(9)", "bit", ("0", "511", "256"), 9),
    Kinds("bit(64)", "bit", ("0", "18446744073709551615"), 64),
    Kinds("year(4)", "year", ("0000", "1901", "2155")),
    Kinds("date", "date", ("0001-01-01", "9999-12-31", "2024-02-29", "1900-03-01", "1969-12-31")),
    Kinds("time", "time", ("-838:59:59", "838:59:59", "00:00:00", "-00:00:01")),
    Kinds("time(6)", "time", ("-838:59:58.999999", "00:00:00.000001", "25:00:00.100000"), scale=6),
    Kinds("datetime", "datetime", ("0001-01-01 00:00:00", "9999-12-31 23:59:59"), scale=0),
    Kinds("datetime(3)", "datetime", ("1969-12-31 23:59:59.999", "1970-01-01 00:00:00.001"), scale=3),
    Kinds("datetime(4)", "datetime", ("1969-12-31 23:59:59.9999", "9999-12-31 23:59:59.9999"), scale=4),
    Kinds("timestamp", "timestamp", ("1970-01-01 00:00:01", "2038-01-19 03:14:07")),
    Kinds("timestamp(6)", "timestamp", ("2024-01-01 00:00:00.000001",), scale=6),
    Kinds("json", "json", ('{"a": "<\\"b\\">"}', "null", "[1e20]")),
    Kinds("vector(3)", "vector", ("[1,2.5,-0.1]", "[]", "[100000000000000000000]")),
]

COLUMNS = (
    Column("id", "int", nullable=False),
    *(Column(f"c{place} {one.sql}", one.kind, True, one.length, one.scale, one.elements) for place, one in enumerate(KINDS)),
)
EVERY = TableSchema(
    TableName("shop", "t"),
    COLUMNS,
    ("id",),
    definition=TableDefinition(
        (
            ColumnDefinition("id", "int(11)", nullable=False),
            *(ColumnDefinition(f"c{place} {one.sql}", one.sql) for place, one in enumerate(KINDS)),
        )
    ),
)


def one_column(sql: str, *, nullable: bool = True, in_key: bool = False) -> TableSchema:
    """A table of an `id` and a column `c` of this type."""
    one = next(kind for kind in KINDS if kind.sql == sql)
    return TableSchema(
        TableName("shop", "t"),
        (Column("id", "int", nullable=False), Column("c", one.kind, nullable, one.length, one.scale, one.elements)),
        ("c",) if in_key else ("id",),
        definition=TableDefinition((ColumnDefinition("id", "int(11)", nullable=False), ColumnDefinition("c", sql, nullable=nullable))),
    )


def drawn(random: Random, key: int) -> Image:
    return [str(key), *(None if random.random() < 0.2 else random.choice(one.values) for one in KINDS)]
