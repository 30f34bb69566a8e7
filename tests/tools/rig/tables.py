"""The rig's twelve tables: every kind of key that TiCDC takes a handle from, every column type that MariaDB shares with TiDB.

A table's keys are few enough that deleted ones come back and some are hot. Values reach the ends of each type. Floats have at
most six digits: MariaDB's own text of a FLOAT has no more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

from sidecar.shared.model.nouns import MARK_TABLE
from tests.tools.rig.columns import TableColumn

SCHEMA = "shop"

MARK_TABLE_DDL = (
    f"create database {MARK_TABLE.schema}",
    f"create table {MARK_TABLE} (id bigint not null auto_increment primary key, changefeed_id varchar(128) not null,"
    " unique_identifier varchar(32) not null, event_type tinyint not null, create_time int not null, update_time int not null,"
    " unique key changefeed_id (changefeed_id))",
)
"""As TiDB's in the recordings, where the id is AUTO_RANDOM."""

Key = tuple[Any, ...]

_T0 = datetime(2020, 1, 1, tzinfo=UTC)
_WORDS = ("alpha", "beta", "gamma", "", "null", "NULL", "O'Neil", 'quote"', "back\\slash", "tab\t", "nl\n", "<b>&amp;</b>", "中文",
          "emoji😀", "épsilon", "\u2028", "\ufeffbom", "\x7f", "\u200b")  # fmt: skip


@dataclass(frozen=True, slots=True)
class RigTable:
    """`key(n)` is the n-th key, of `keys` many; `key_columns` name its parts. `ddl` is what stands in the brackets."""

    name: str
    ddl: str
    key_columns: tuple[str, ...]
    keys: int
    key: Callable[[int], Key]

    def create(self) -> str:
        return f"create table {SCHEMA}.{self.name} ({self.ddl})"


TABLES = (
    RigTable(
        "account",
        "id bigint auto_increment primary key, email varchar(64) not null unique, name varchar(200), balance decimal(20,4) not null,"
        " level enum('new','silver','gold','x''y') not null, tags set('a','b','c d'), created timestamp(6) not null default 0,"
        " updated datetime(3), birthday date, note text, version int not null default 0",
        ("id",), 600, lambda n: (n + 1,),
    ),
    RigTable(
        "orders",
        "customer_id bigint, seq int unsigned, status enum('open','paid','sent','back'), amount double not null, fee float,"
        " placed datetime(6) not null, gift bit(1) not null, flags bit(12), primary key (customer_id, seq), key placed (placed)",
        ("customer_id", "seq"), 1000, lambda n: (1000 + n // 4, n % 4),
    ),
    RigTable(
        "item",
        "sku varchar(40) primary key, title varchar(200) not null, price decimal(12,2) not null, stock int unsigned not null,"
        " picture varbinary(64), dims json, weight float, cost mediumint, rank_ smallint unsigned",
        ("sku",), 400, lambda n: (f"SKU-{n}-é",),
    ),
    RigTable(
        "ledger", "id int, y int, delta decimal(30,10) not null, memo varchar(120), primary key (y, id)",
        ("y", "id"), 600, lambda n: (2020 + n % 6, n),
    ),
    RigTable("bin_pk", "k varbinary(12) primary key, b binary(8), v int", ("k",), 300, lambda n: (bytes((n & 255, 0, 255, n >> 8)),)),
    RigTable(
        "dec_pk", "d decimal(12,3), t datetime(6), v int, primary key (d, t)",
        ("d", "t"), 300, lambda n: (Decimal(n * 125 - 20000) / 1000, f"2020-01-01 00:00:00.{n:06d}"),
    ),
    RigTable("uid", "id bigint unsigned primary key, v varchar(60)", ("id",), 300, lambda n: (n if n % 2 else 2**64 - 1 - n,)),
    RigTable(
        "str_pk", "id char(36) primary key, v int, s varchar(20)",
        ("id",), 400, lambda n: (f"{n:08x}-0000-4000-8000-{n * 7919:012x}",),
    ),
    RigTable(
        "ci_pk", "code varchar(40) collate utf8mb4_general_ci, part int, v varchar(40), primary key (code, part)",
        ("code", "part"), 300, lambda n: (f"{('Code', 'cöde', 'CODE x')[n % 3]} {n}", n % 2),
    ),
    RigTable(
        "uk_only", "code char(16) not null, v bigint, w varchar(40), unique key code (code)",
        ("code",), 300, lambda n: (f"c{n:06d}",),
    ),
    RigTable(
        "event_log", "id bigint primary key, kind tinyint not null, at datetime not null, took time(3), payload varchar(200)",
        ("id",), 3000, lambda n: (10_000_000 + n * 37,),
    ),
    RigTable(
        "kinds",
        "id int primary key, c_tiny tinyint, c_utiny tinyint unsigned, c_small smallint, c_usmall smallint unsigned, c_med mediumint,"
        " c_umed mediumint unsigned, c_int int, c_uint int unsigned, c_big bigint, c_ubig bigint unsigned, c_bool tinyint(1),"
        " c_float float, c_double double, c_dec decimal(10,2), c_dec65 decimal(65,30), c_udec decimal(20,0) unsigned, c_date date,"
        " c_time time, c_time6 time(6), c_dt datetime, c_dt6 datetime(6), c_ts timestamp null, c_ts3 timestamp(3) null, c_year year,"
        " c_char char(10), c_varchar varchar(300), c_ci varchar(40) collate utf8mb4_general_ci, c_latin1 varchar(40) character set latin1,"
        " c_ascii varchar(40) character set ascii, c_bin binary(16), c_varbin varbinary(300), c_tinytext tinytext, c_text text,"
        " c_medtext mediumtext, c_longtext longtext, c_tinyblob tinyblob, c_blob blob, c_medblob mediumblob, c_longblob longblob,"
        " c_enum enum('a','b','ü'), c_set set('x','y','z'), c_bit1 bit(1), c_bit64 bit(64)",
        ("id",), 300, lambda n: (n - 20,),
    ),
)  # fmt: skip


def random_value(column: TableColumn, numbers: Random) -> Any:
    """A value for pymysql; an end of the type, zero, empty or NULL often enough."""
    if column.flags & 64 and numbers.random() < 0.12:
        return None
    if column.is_integer:
        return _integer(column, numbers)
    match column.data_type:
        case "float":
            return numbers.choice((0.0, -2.5, 0.1, round(numbers.uniform(-999, 999), 2)))
        case "double":
            return numbers.choice((0.0, 1e-7, -1.5e300, 0.1 + 0.2, numbers.uniform(-1e6, 1e6), 1e21))
        case "decimal":
            return _decimal(column, numbers)
        case "bit":
            return numbers.choice((0, (1 << column.length) - 1, numbers.getrandbits(column.length)))
        case "enum":
            return numbers.randint(1, len(column.labels))
        case "set":
            return numbers.getrandbits(len(column.labels))
        case "year":
            return numbers.choice((0, 1901, 2155, numbers.randint(1970, 2040)))
        case "date" | "datetime" | "timestamp" | "time":
            return _time(column, numbers)
        case "json":
            return numbers.choice(('{"a": [1, 2.5, null], "é": "<b>"}', "[]", "null", '"x"', "[1, 2]"))
        case _:
            return _string(column, numbers)


def _integer(column: TableColumn, numbers: Random) -> int:
    bits = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}[column.data_type]
    low, high = (0, (1 << bits) - 1) if column.is_unsigned else (-(1 << bits - 1), (1 << bits - 1) - 1)
    return numbers.choice((low, high, 0, numbers.randint(low, high), numbers.randint(0, 100)))


def _decimal(column: TableColumn, numbers: Random) -> Decimal:
    digits = numbers.randint(1, column.length)
    number = numbers.choice((0, 10**column.length - 1, numbers.randrange(10**digits)))
    sign = 1 if column.is_unsigned else numbers.choice((1, -1))
    return Decimal((0 if sign == 1 else 1, tuple(map(int, str(number))), -column.digits))


def _time(column: TableColumn, numbers: Random) -> str:
    fraction = f".{numbers.randrange(10**6):06d}"[: column.digits + 1] if column.digits else ""
    if column.data_type == "time":
        hours = numbers.choice((0, 838, numbers.randint(0, 23)))
        whole = f"{hours:02d}:{numbers.randint(0, 58):02d}:{numbers.randint(0, 59):02d}"
        return f"{numbers.choice(('', '-'))}{whole}{fraction}"
    if numbers.random() < 0.05:
        return "0000-00-00" if column.data_type == "date" else "0000-00-00 00:00:00"
    moment = _T0 + timedelta(seconds=numbers.randint(-5 * 10**8, 5 * 10**8))
    return f"{moment:%Y-%m-%d}" if column.data_type == "date" else f"{moment:%Y-%m-%d %H:%M:%S}{fraction}"


def _string(column: TableColumn, numbers: Random) -> str | bytes:
    if column.is_binary:
        length = column.length if column.length > 0 else numbers.choice((0, 1, 12, 60))
        return numbers.randbytes(numbers.randint(0, length))
    if column.encoding in ("ascii", "cp1252"):
        return numbers.choice(("", "abc", "x y") if column.encoding == "ascii" else ("", "abc", "épsilon", "ÿ"))
    if column.data_type == "char":
        return numbers.choice(("", "abc", "中文字", "emoji😀"))
    words = 12 if column.data_type.endswith("text") else 2
    return " ".join(numbers.choice(_WORDS) for _ in range(numbers.randint(1, words)))
