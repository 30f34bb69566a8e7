"""Column types of TiDB with values of each, and how a table of one column goes to a target: for tests of what columns hold."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import NamedTuple

from sidecar.shared.model.nouns import Column, ColumnDefinition, Kind
from sidecar.shared.mysql.roles import Role
from sidecar.shared.mysql.session import MysqlSession
from sidecar.shared.process.kept_secrets import keep
from sidecar.shared.rowcodec.type_cast import KINDS, ColumnType, column_type
from sidecar.shared.sql.text import Shows, labels
from spark_merge.ddl.conversion import Typed
from spark_merge.sinks.mysql.holds import exact
from spark_merge.sinks.mysql.server import SqlServer
from tests.support.services.mariadb import MariaDb

LONGEST = 70_000
_WIDTHS = ("tinyint(4)", "smallint(6)", "mediumint(9)", "int(11)", "bigint(20)")
INTEGERS = [f"{name}{sign}" for name in _WIDTHS for sign in ("", " unsigned")]
NUMBERS = [
    *INTEGERS, "bit(1)", "bit(8)", "bit(31)", "bit(64)", "year(4)", "decimal(3,0)", "decimal(5,2)", "decimal(5,2) unsigned",
    "decimal(10,0)", "decimal(15,3)", "decimal(16,4)", "decimal(20,0)", "decimal(38,10)", "decimal(65,30)", "float", "float unsigned",
    "float(7,3)", "double", "double(5,2)", "double(20,4)",
]  # fmt: skip
MOMENTS = ["date", *(f"{name}{digits}" for name in ("time", "datetime", "timestamp") for digits in ("", "(3)", "(6)"))]
TEXTS = ["char(3)", "char(20)", "varchar(3)", "varchar(20)", "varchar(300)", "tinytext", "text", "mediumtext", "longtext"]
BYTES = ["binary(2)", "binary(20)", "varbinary(2)", "varbinary(20)", "varbinary(100)", "tinyblob", "blob", "mediumblob", "longblob"]
LABELS = ["enum('a','b')", "enum('b','a','é')", "enum('a','longer')", "set('a','b')", "set('b','a','c')", "set('a','c','b')"]
CHARSETS = ("utf8mb4", "utf8", "latin1", "ascii")


class SqlColumn(NamedTuple):
    """As TiDB makes it."""

    type_text: str
    charset: str = ""
    collation: str = ""

    def __str__(self) -> str:
        return f"{self.type_text} {self.charset}".strip()

    def definition(self, name: str = "v", *, nullable: bool = True) -> ColumnDefinition:
        return ColumnDefinition(name, self.type_text, nullable, self.charset, self.collation)

    def column(self, name: str = "v", *, nullable: bool = True) -> Column:
        shape = ColumnType.of(self.type_text, self.charset)
        kind: Kind = KINDS[shape.name]
        if kind == "int" and shape.unsigned:
            kind = "uint"
        fixed = kind in ("bit", "decimal") or shape.name == "binary"
        scale = shape.scale if kind == "decimal" else max(shape.size, 0) if kind in ("time", "datetime", "timestamp") else 0
        elements = labels(self.type_text, Shows.TIDB) if kind in ("enum", "set") else ()
        return Column(name, kind, nullable, shape.size if fixed else -1, scale, elements)

    def typed(self) -> Typed:
        return Typed(self.column(), column_type(self.definition()))


def _with_charset(text: str, *charsets: str) -> Iterator[SqlColumn]:
    yield from (SqlColumn(text, charset, f"{charset}_bin") for charset in charsets)


COLUMNS: list[SqlColumn] = [
    *map(SqlColumn, (*NUMBERS, *MOMENTS, *BYTES, "json")),
    *(one for text in TEXTS for one in _with_charset(text, *CHARSETS)),
    *(one for text in LABELS for one in _with_charset(text, "utf8mb4")),
]


# ---- values ---------------------------------------------------------------------------------------------------------


def values(one: SqlColumn) -> list[str]:
    """Canonical texts, all different: the ends of the type, and what lies beside them."""
    return list(dict.fromkeys(_values(one)))


def _values(one: SqlColumn) -> Iterator[str]:
    typed, random = one.typed(), Random(str(one))
    column, shape = typed.column, column_type(one.definition())
    match column.kind:
        case "int" | "uint" | "bit" | "decimal":
            numbers = exact(column.kind, shape)
            ends = [numbers.low, numbers.low + 1, numbers.high - 1, numbers.high, 0, 1, 2, 3, 5, 10, 2005, -1, -2]
            ends += [random.randint(numbers.low, numbers.high) for _ in range(6)]
            yield from (numbers.text(units) for units in ends if numbers.low <= units <= numbers.high)
        case "year":
            yield from ("0000", "1901", "1970", "2005", "2155")
        case "float" | "double":
            yield from _floating(column.kind, shape)
        case "date" | "datetime" | "timestamp" | "time":
            yield from _moments(column)
        case "text":
            yield from _texts(shape)
        case "binary":
            pad = 2 * max(column.length, 0)
            room = 2 * (shape.size if shape.size >= 0 else {"tinyblob": 255}.get(shape.name, LONGEST if "long" in shape.name else 60_000))
            yield from (text.ljust(pad, "0") for text in ("", "61", "6161", "FF00", "00", "6100", "FF" * (room // 2)) if len(text) <= room)
        case "enum":
            yield from column.elements
        case "set":
            yield from ("", *column.elements, ",".join(column.elements), ",".join(column.elements[1:]))
        case "json":
            yield from ("null", "1", '"x"', '{"a": 1}', '"😀"', f'"{"x" * LONGEST}"')


def _floating(kind: Kind, shape: ColumnType) -> Iterator[str]:
    plain = [0.0, 1.5, 0.1, 1e-30, 2e-30, 1e30, 3.25e7] + ([1.00000000001, 1.00000000002, 1e300] if kind == "double" else [])
    if shape.size >= 0:
        part, high = 10.0**-shape.scale, 10 ** (shape.size - shape.scale) - 1
        plain = [0.0, part, 2 * part, float(high), 1.0]
    plain += [] if shape.unsigned else [-number for number in plain if number]
    yield from (repr(number if kind == "double" else struct.unpack("<f", struct.pack("<f", number))[0]) for number in plain)


def _moments(column: Column) -> Iterator[str]:
    starts = {
        "date": ("0000-00-00", "1000-01-02", "2024-02-29", "2020-02-30", "9999-12-31"),
        "time": ("-838:59:59", "00:00:00", "00:00:01", "23:00:00", "838:59:58"),
        "timestamp": ("0000-00-00 00:00:00", "1970-01-01 00:00:01", "2024-01-02 00:00:01", "2024-01-02 00:00:02", "2038-01-19 03:14:07"),
        "datetime": ("0000-00-00 00:00:00", "1000-01-02 00:00:00", "2024-01-02 00:00:01", "2024-01-03 00:00:01", "9999-12-31 23:59:58"),
    }[column.kind]
    for start in starts:
        digits = column.scale
        fine = () if start.startswith("0000") else (1, 2, 10**digits - 1)
        yield from (start + (f".{part:0{digits}d}" if digits else "") for part in ((0, *fine) if digits else (0,)))


def _texts(shape: ColumnType) -> Iterator[str]:
    room = shape.size if shape.size >= 0 else {"tinytext": 255, "text": 65_535}.get(shape.name, LONGEST)
    widest = {"utf8mb4": "😀", "utf8": "你", "latin1": "é", "ascii": "z"}[shape.charset]
    by_bytes = shape.size < 0 and room < LONGEST
    many = room // len(widest.encode()) if by_bytes else room
    for text in ("", "a", "A", "b", "a ", "a  ", "aa", " a", "\\", "'", "a\0", "x" * room, "y" * room, widest, widest * many, "1", "01"):
        if len(text) <= room and not (shape.name == "char" and text.endswith(" ")):
            yield text


@contextmanager
def target_session(mariadb: MariaDb, database: str) -> Iterator[MysqlSession]:
    """Of a sink that writes to `database`, which is there meanwhile."""
    server = SqlServer(((mariadb.host, mariadb.port),), mariadb.user)
    keep(SqlServer.SECRET_KIND, str(server), mariadb.password)
    mariadb.execute(f"DROP DATABASE IF EXISTS {database}", f"CREATE DATABASE {database}")
    session = MysqlSession(server, Role.WRITE_TARGET)
    yield session
    session.close()
    mariadb.execute(f"DROP DATABASE {database}")
