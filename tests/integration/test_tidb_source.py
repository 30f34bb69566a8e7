"""The source against a real server: no row lost or doubled under any key, marks by one writer only, and every way to fail."""

from __future__ import annotations

import contextlib
import io
import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Context, Decimal
from itertools import combinations
from pathlib import Path
from typing import Any

import pyarrow as pa
import pymysql
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from sidecar.adapters.tidb.ranges import slow_reads
from sidecar.adapters.tidb.schema import TidbSchemas
from sidecar.adapters.tidb.source import MARK_TABLE_DDL, TidbSource, ensure_mark_table
from sidecar.control.predicate import predicate
from sidecar.shared.config import SourceSection
from sidecar.shared.errors import ConfigError, StorageFull
from sidecar.shared.log.absent import parted
from sidecar.shared.model.chunk import WrittenChunk
from sidecar.shared.model.keyset import Key
from sidecar.shared.model.messages import Brackets, ChunkRead, Command, MarkFenced, MarkSent, ReadChunk, SendMark, SourceEvent, SourceFailed
from sidecar.shared.model.nouns import MARK_TABLE, MarkKind, TableName
from sidecar.shared.mysql.account import Account
from sidecar.shared.mysql.roles import Role
from sidecar.shared.mysql.session import MysqlSession
from sidecar.shared.reads.read import chunk_select
from sidecar.shared.reads.tables import read_facts, read_key
from sidecar.shared.resultset.packets import read_up_to
from sidecar.shared.ticdc.changefeed import Changefeed, ChangefeedName, EventFilter, FeedFilter
from sidecar.shared.ticdc.event_filter import Through, dump_scope
from sidecar.shared.ticdc.selected_columns import CompiledSelector, SelectedColumns
from sidecar.shared.ticdc.table_rules import TableRules
from tests.lanes import examples
from tests.support.eventually import PATIENCE_S
from tests.support.services.mariadb import MariaDb

pytestmark = pytest.mark.xdist_group("mariadb")

DUMP = "0123456789abcdef"
LOW, HIGH = MarkKind.LOW, MarkKind.HIGH


@pytest.fixture(scope="module")
def db(mariadb: MariaDb) -> Iterator[MariaDb]:
    ensure_mark_table(mariadb.settings())
    yield mariadb
    mariadb.execute(f"DROP DATABASE {MARK_TABLE.schema}")


@pytest.fixture
def schema(db: MariaDb) -> Iterator[str]:
    """An empty schema of this test's own."""
    db.execute("CREATE DATABASE app")
    yield "app"
    db.execute("DROP DATABASE app", f"DELETE FROM {MARK_TABLE}")


@dataclass
class Dumper:
    """A source with the hands that ask it and keep what it wrote."""

    source: TidbSource
    files: dict[str, pa.Table]
    received: list[SourceEvent] = field(default_factory=list)

    def until(self, count: int) -> list[SourceEvent]:
        """The next `count` events, in the order in which they were told."""
        give_up = time.monotonic() + PATIENCE_S
        while len(self.received) < count:
            assert time.monotonic() < give_up, f"{self.received} is all that came"
            self.received += self.source.results()
            time.sleep(0.002)  # a source tells what is done only when asked
        results, self.received = self.received[:count], self.received[count:]
        return results

    def ask(self, *commands: Command) -> list[SourceEvent]:
        for command in commands:
            self.source.request(command)
        return self.until(len(commands))

    def read(self, command: ReadChunk) -> tuple[ChunkRead, list[tuple[Any, ...]]]:
        (event,) = self.ask(command)
        assert isinstance(event, ChunkRead), event
        return event, rows_of(self.files[event.file.path])

    def fails(self, command: Command) -> SourceFailed:
        (event,) = self.ask(command)
        assert isinstance(event, SourceFailed), event
        return event


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True)) if table.num_rows else []


@contextlib.contextmanager
def dumping(settings: SourceSection, **options: Any) -> Iterator[Dumper]:
    files: dict[str, pa.Table] = {}

    def write(path: str, rows: pa.Table) -> WrittenChunk:
        files[path] = rows
        return WrittenChunk(int(rows.nbytes))

    defaults: dict[str, Any] = {"write_chunk": write, "changefeed_id": "cf"}
    schemas = options.pop("schemas", None)
    if schemas is None:
        schemas = TidbSchemas(settings).tables()
    source = TidbSource(settings, schemas=schemas, **{**defaults, **options})
    try:
        yield Dumper(source, files)
    finally:
        source.close()


def chunk(
    table: str, number: int = 0, *, after: Key | None = None, upper: Key | None = None, rows_max: int = 100, **options: Any
) -> ReadChunk:
    return ReadChunk(DUMP, 3, number, TableName("app", table), after, upper, rows_max, **{"brackets": Brackets.WATERMARK, **options})


def walk(dumper: Dumper, table: str, rows_max: int) -> list[tuple[Any, ...]]:
    """All rows, chunk after chunk."""
    rows: list[tuple[Any, ...]] = []
    after: Key | None = None
    for number in range(1000):
        event, results = dumper.read(chunk(table, number, after=after, rows_max=rows_max))
        assert len(results) <= rows_max
        assert event.file.rows == len(results)
        rows += results
        after = event.file.last
        if event.exhausted:
            return rows
    raise AssertionError("the walk does not end")


# ---- every kind of key ----------------------------------------------------------------------------------------------

KEYS: Mapping[str, tuple[str, Sequence[str]]] = {
    "bigint": ("bigint", ["-9223372036854775808", "-1", "0", "1", "2", "10", "9223372036854775807"]),
    "zerofill": ("int(6) unsigned zerofill", ["0", "1", "10", "9", "4294967295"]),
    "unsigned": ("bigint unsigned", ["0", "9", "10", "9223372036854775807", "9223372036854775808", "18446744073709551615"]),
    "decimal": ("decimal(20,3)", ["-10.5", "-10.499", "-2", "0", "0.001", "9", "10", "12345678901234567.891"]),
    "bin text": (
        "varchar(60) collate utf8mb4_bin",
        ["''", "'A'", "'a'", "'a b'", "'b '", "'O''Neil'", "'\\\\'", "'\"'", "'%s'", "'😀'", "'é'"],
    ),
    "ci text": (
        "varchar(60) collate utf8mb4_general_ci",
        ["''", "'B'", "'a'", "'C'", "'d '", "'Z'", "'_'", "'é2'", "'E1'", "'中'", "'😀'"],
    ),
    "uca text": (
        "varchar(60) collate utf8mb4_uca1400_ai_ci",
        ["''", "'B'", "'a'", "'ä2'", "'Zoë'", "'_'", "'ß1'", "'中'", "'😀'", "' a'"],
    ),
    "no pad text": ("varchar(60) collate utf8mb4_nopad_bin", ["''", "' '", "'a'", "'a '", "'a  '", "'a\t'", "'b'"]),
    "latin1 text": ("char(20) character set latin1", ["''", "'a'", "'B'", "'é'", "'Ö'", "'z'", "'ß'"]),
    "gbk text": (
        "varchar(20) character set gbk collate gbk_chinese_ci",
        ["''", "'a'", "'B'", "'中'", "'文'", "'啊'", "'一'", "'龙'"],
    ),
    "varbinary": ("varbinary(20)", ["x''", "x'00'", "x'0000'", "x'0001'", "x'00FF'", "x'27'", "x'5C'", "x'FF'", "x'FFFF'"]),
    "binary": ("binary(4)", ["x''", "x'00000001'", "x'20'", "x'61'", "x'FFFFFFFF'"]),
    "date": ("date", ["'0000-00-00'", "'1000-01-01'", "'2020-00-00'", "'2020-02-29'", "'9999-12-31'"]),
    "datetime": (
        "datetime(6)",
        ["'0000-00-00'", "'2020-01-01 00:00:00'", "'2020-01-01 00:00:00.000001'", "'9999-12-31 23:59:59.999999'"],
    ),
    "timestamp": (
        "timestamp(3)",
        ["'0000-00-00'", "'1970-01-01 00:00:01'", "'2020-10-25 02:30:00.001'", "'2037-01-01 00:00:00'"],
    ),
    "time": (
        "time(6)",
        ["'-838:59:59.999999'", "'-100:00:00'", "'-00:00:00.000001'", "'00:00:00'", "'23:59:59'", "'100:00:00'", "'838:59:59'"],
    ),
    "year": ("year", ["0", "1901", "1999", "2000", "2155"]),
    "enum": ("enum('new','Paid','a','b''c')", ["'new'", "'Paid'", "'a'", "'b''c'"]),
    "set": ("set('z','a','m')", ["''", "'z'", "'a'", "'z,a'", "'m'", "'z,m'", "'z,a,m'"]),
    "wide set": (
        f"set({','.join(repr(f's{n}') for n in range(64))})",
        ["'s0'", "'s62'", "'s63'", "'s0,s63'", "'s62,s63'", "'s1,s62,s63'"],
    ),
    "bit": ("bit(64)", ["0", "1", "255", "9223372036854775808", "18446744073709551615"]),
}
"""A type and values that are different under its own order, in any order."""


@pytest.mark.parametrize("name", KEYS)
def test_no_row_is_lost_or_doubled_in_chunks_of_any_size(db: MariaDb, schema: str, name: str) -> None:
    column, values = KEYS[name]
    inserts = [f"INSERT INTO app.t VALUES ({value}, {number})" for number, value in enumerate(reversed(values))]
    db.execute("SET sql_mode = ''", f"CREATE TABLE app.t (k {column} NOT NULL PRIMARY KEY, v int)", *inserts)
    with dumping(db.settings()) as dumper:
        _, whole = dumper.read(chunk("t"))
        assert Counter(number for _, number in whole) == Counter(str(number) for number in range(len(values)))
        for rows_max in (1, 2, 3):
            assert walk(dumper, "t", rows_max) == whole


@pytest.mark.parametrize("rows_max", [1, 2, 3, 7])
def test_keys_of_several_columns_are_walked_in_the_servers_order(db: MariaDb, schema: str, rows_max: int) -> None:
    columns = "a varchar(10) collate utf8mb4_general_ci not null, b enum('z','a') not null, c decimal(4,1) not null, d date not null"
    db.execute("SET sql_mode = ''", f"CREATE TABLE app.t ({columns}, PRIMARY KEY (b, a, d, c))")
    tuples = [(a, b, c, d) for a in ("x", "A", "é") for b in ("z", "a") for c in ("-1.5", "0") for d in ("0000-00-00", "2020-01-01")]
    db.execute("SET sql_mode = ''", *(f"INSERT INTO app.t VALUES {one}" for one in tuples))
    with dumping(db.settings()) as dumper:
        rows = walk(dumper, "t", rows_max)
    assert len(rows) == len(tuples)
    assert Counter(rows) == Counter((a, b, c if "." in c else f"{c}.0", d) for a, b, c, d in tuples)


def test_every_range_has_the_rows_between_its_bounds(db: MariaDb, schema: str) -> None:
    """Of a key in which texts that differ are one, by all pairs of bounds: the one OR of ANDs against the server's own order."""
    columns = "a varchar(9) collate utf8mb4_general_ci not null, b enum('z','a') not null, c decimal(4,1) not null"
    db.execute(f"CREATE TABLE app.t ({columns}, PRIMARY KEY (a, b, c))")
    db.execute("INSERT INTO app.t VALUES ('x','a',1), ('X','a',2), ('x ','z',1), ('Y','z',0), ('y','z',1), ('y','a',-1.5), ('ü','z',0)")
    with dumping(db.settings()) as dumper:
        _, whole = dumper.read(chunk("t"))
        assert len(whole) == 7
        for number, (low, high) in enumerate(combinations(range(len(whole)), 2), 1):
            _, rows = dumper.read(chunk("t", number, after=whole[low], upper=whole[high]))
            assert rows == whole[low + 1 : high + 1]


def test_both_bounds_of_a_composite_key_are_read_by_its_index(db: MariaDb, schema: str) -> None:
    db.execute("CREATE TABLE app.t (a int not null, b int not null, v int, PRIMARY KEY (a, b))")
    db.execute("INSERT INTO app.t SELECT 1 + seq % 3, seq, 0 FROM app.seq_1_to_30000", "ANALYZE TABLE app.t")
    name = TableName("app", "t")
    known = TidbSchemas(db.settings()).tables()[name]
    with contextlib.closing(MysqlSession(Account.of(db.settings()), Role.READ_SOURCE)) as session:
        key = read_key(known, read_facts(session, name)[name], session.flavour)
        for after, upper in ((("1", "29000"), ("2", "500")), (("3", "14000"), ("3", "15000"))):
            sql = chunk_select(known, key, after=after, upper=upper, where=None, rows_max=1001)
            ((_, _, _, kind, _, index, length, _, rows, *_),) = session.rows(f"EXPLAIN {sql}")
            assert (kind, index, length) == ("range", "PRIMARY", "8")
            assert int(rows) < 2000, "of 30,000"


def test_a_key_of_a_prefix_is_walked_by_the_whole_column(db: MariaDb, schema: str) -> None:
    db.execute("CREATE TABLE app.t (k text NOT NULL, PRIMARY KEY (k(2)))", "INSERT INTO app.t VALUES ('b'), ('aa1'), ('ab'), ('aB')")
    with dumping(db.settings()) as dumper:
        assert walk(dumper, "t", 1) == [("aB",), ("aa1",), ("ab",), ("b",)]


def test_a_unique_key_serves_where_there_is_no_primary_one(db: MariaDb, schema: str) -> None:
    db.execute("CREATE TABLE app.t (a int, b int NOT NULL, c int NOT NULL, UNIQUE (a), UNIQUE (b, c), UNIQUE (c))")
    db.execute("INSERT INTO app.t VALUES (1, 1, 9), (NULL, 1, 8), (NULL, 2, 7)")
    with dumping(db.settings()) as dumper:
        event, rows = dumper.read(chunk("t", rows_max=2))
    assert rows == [(None, "2", "7"), (None, "1", "8")]
    assert event.file.last == ("8",)


def test_all_partitions_are_walked_as_one_table(db: MariaDb, schema: str) -> None:
    db.execute("CREATE TABLE app.t (k int PRIMARY KEY) PARTITION BY HASH (k) PARTITIONS 100")
    db.execute("INSERT INTO app.t SELECT seq FROM app.seq_1_to_500")
    with dumping(db.settings()) as dumper:
        assert walk(dumper, "t", 90) == [(str(number),) for number in range(1, 501)]


def test_names_may_hold_every_legal_character(db: MariaDb, schema: str) -> None:
    table, column, other = "t `.'\"\\%s;-- ü😺"[:-1], "k `.'\"\\%s/*ü", "SELECT t "[:-1]
    q = [f"`{name.replace('`', '``')}`" for name in (table, column, other)]
    db.execute(f"CREATE TABLE app.{q[0]} ({q[1]} int PRIMARY KEY, {q[2]} int)", f"INSERT INTO app.{q[0]} VALUES (1, 2), (3, 4)")
    with dumping(db.settings()) as dumper:
        assert walk(dumper, table, 1) == [("1", "2"), ("3", "4")]
        event, _ = dumper.read(chunk(table, 99))
        assert dumper.files[event.file.path].column_names == [column, other]


def test_an_empty_table_is_exhausted_by_its_first_chunk(db: MariaDb, schema: str) -> None:
    db.execute("CREATE TABLE app.t (k int PRIMARY KEY, s text)")
    with dumping(db.settings()) as dumper:
        event, rows = dumper.read(chunk("t", rows_max=1))
    assert rows == []
    assert event.exhausted
    assert event.file.last is None


def test_exhausted_is_exact_when_the_last_row_fills_the_chunk(db: MariaDb, schema: str) -> None:
    db.execute("CREATE TABLE app.t (k int PRIMARY KEY)", "INSERT INTO app.t VALUES (1), (2), (3)")
    with dumping(db.settings()) as dumper:
        assert not dumper.read(chunk("t", rows_max=2))[0].exhausted
        assert dumper.read(chunk("t", 1, rows_max=3))[0].exhausted
        assert dumper.read(chunk("t", 2, upper=("2",), rows_max=2))[0].exhausted


def test_bounds_and_a_predicate_limit_the_rows(db: MariaDb, schema: str) -> None:
    db.execute("CREATE TABLE app.t (k int PRIMARY KEY, v varchar(9))", "INSERT INTO app.t SELECT seq, seq % 3 FROM app.seq_1_to_20")
    with dumping(db.settings()) as dumper:
        event, rows = dumper.read(chunk("t", after=("4",), upper=("12",), where="v = '1' OR t.v LIKE '%2%' -- why", rows_max=3))
    assert rows == [("5", "2"), ("7", "1"), ("8", "2")]
    assert not event.exhausted
    assert event.read_s > 0


def test_what_the_changefeeds_filter_lets_through_is_what_a_chunk_has(db: MariaDb, schema: str) -> None:
    db.execute("CREATE TABLE app.orders (id int PRIMARY KEY, amount int)", "INSERT INTO app.orders VALUES (1, 2), (2, 9), (3, NULL)")
    name = TableName("app", "orders")
    filters = (EventFilter(("app.orders",), ignore_insert_value_expr="orders.amount > 5"),)
    feed = Changefeed(ChangefeedName("default", "default", "cf"), "1", "kafka://h/t", filter=FeedFilter(event_filters=filters))
    through = dump_scope(feed, {name: TidbSchemas(db.settings()).tables()[name]}).tables[name]
    assert isinstance(through, Through)
    with dumping(db.settings()) as dumper:
        assert dumper.read(chunk("orders", where=through.predicate))[1] == [("1", "2"), ("3", None)]
        own = predicate("Orders.amount > 1", TidbSchemas(db.settings()).tables()[name])
        assert dumper.read(chunk("orders", 1, where=f"({through.predicate}) AND ({own})"))[1] == [("1", "2")]


def test_a_chunk_has_what_the_changefeed_carries_while_the_table_is_as_it_is_known(db: MariaDb, schema: str) -> None:
    """By a range, by keys with one that is absent, and by a filter that asks for a column that is omitted."""
    db.execute(
        "CREATE TABLE app.t (secret INT, id INT PRIMARY KEY, note VARCHAR(9))",
        "INSERT INTO app.t VALUES (7, 1, 'a'), (8, 2, 'b')",
    )
    selector = CompiledSelector("", TableRules.of(["app.t"]), TableRules.of(["column.*", "!column.secret"]))
    narrowed = SelectedColumns((selector,)).narrowed(TidbSchemas(db.settings()).tables()[TableName("app", "t")])
    with dumping(db.settings(), schemas={narrowed.name: narrowed}) as dumper:
        assert dumper.read(chunk("t"))[1] == [("1", "a"), ("2", "b")]
        assert dumper.read(chunk("t", 1, keys=(("2",), ("3",))))[1] == [("3", None, True), ("2", "b", False)]
        assert dumper.read(chunk("t", 2, where="t.`secret` > 7"))[1] == [("2", "b")]
        db.execute("ALTER TABLE app.t ADD COLUMN more INT")
        assert "are not those after the feed's DDLs (id, note)" in dumper.fails(chunk("t", 3)).reason


def test_keys_that_were_requested_outlive_a_rename_of_their_table(db: MariaDb, schema: str) -> None:
    db.execute("CREATE TABLE app.a (id int PRIMARY KEY)", "INSERT INTO app.a SELECT seq FROM app.seq_1_to_9")
    with dumping(db.settings()) as dumper:
        assert dumper.read(chunk("a", keys=(("3",), ("5",))))[1] == [("3",), ("5",)]
        db.execute("RENAME TABLE app.a TO app.b")
        dumper.source.follow(TidbSchemas(db.settings()).tables())
        assert dumper.read(chunk("b", 1, keys=(("7",),)))[1] == [("7",)]


def test_of_the_keys_that_were_requested_those_without_a_row_are_first_in_the_file(db: MariaDb, schema: str) -> None:
    """A key is absent by its own text: the server finds the row of `b` for `B`. That row is of the chunk that asks for `b`, else a pass
    would have it twice."""
    db.execute("CREATE TABLE app.t (k varchar(5) COLLATE utf8mb4_general_ci, n int, v int, PRIMARY KEY (k, n))")
    db.execute("INSERT INTO app.t VALUES ('a', 1, 5), ('b', 1, NULL), ('c', 1, 7)")
    with dumping(db.settings()) as dumper:
        event, _ = dumper.read(chunk("t", keys=(("a", "1"), ("B", "1"), ("a", "2"), ("c", "1"))))
        absent, rows = parted(dumper.files[event.file.path])
    assert rows_of(absent) == [("B", "1", None), ("a", "2", None)]
    assert sorted(rows_of(rows)) == [("a", "1", "5"), ("c", "1", "7")]
    assert (event.file.rows, event.file.absent, event.file.last, event.exhausted) == (4, 2, None, True)


def test_a_row_that_the_filter_hides_is_neither_dumped_nor_absent(db: MariaDb, schema: str) -> None:
    db.execute("CREATE TABLE app.t (id int PRIMARY KEY, v int)", "INSERT INTO app.t VALUES (1, 1), (2, 9), (3, NULL)")
    with dumping(db.settings()) as dumper:
        event, _ = dumper.read(chunk("t", keys=(("1",), ("2",), ("3",), ("4",)), where="t.v < 5 -- a comment"))
        absent, rows = parted(dumper.files[event.file.path])
    assert (rows_of(absent), rows_of(rows)) == ([("4", None)], [("1", "1")])


def test_a_key_that_no_longer_fits_the_tables_key_fails_with_the_way_out(db: MariaDb, schema: str) -> None:
    db.execute("CREATE TABLE app.t (id int PRIMARY KEY)")
    with dumping(db.settings()) as dumper:
        failed = dumper.fails(chunk("t", keys=(("one",),)))
    assert "'one' is no value of key column id" in failed.reason
    assert "present keys" in failed.hint


def test_the_plan_of_a_chunk_reports_a_predicate_that_is_wrong_before_a_dump_does(db: MariaDb, schema: str) -> None:
    db.execute("CREATE TABLE app.t (id int PRIMARY KEY)", "INSERT INTO app.t VALUES (1), (2)", "CREATE TABLE app.u LIKE app.t")
    names = TableName("app", "t"), TableName("app", "u")
    assert not slow_reads(db.settings(), dict.fromkeys(names, ""), max_s=PATIENCE_S).why
    assert "1054" in slow_reads(db.settings(), dict.fromkeys(names, "t.nope > 1"), max_s=PATIENCE_S).why[names[0]]


def test_integers_left_are_cut_evenly_and_end_with_the_highest(db: MariaDb, schema: str) -> None:
    db.execute("CREATE TABLE app.t (k int PRIMARY KEY)", "INSERT INTO app.t SELECT seq FROM app.seq_1_to_1000", "ANALYZE TABLE app.t")
    with dumping(db.settings()) as dumper:
        event, _ = dumper.read(chunk("t", rows_max=10, bounds_max=4))
        assert event.bounds == (("257",), ("505",), ("752",), ("1000",))
        assert dumper.read(chunk("t", 1, rows_max=10, upper=("500",), bounds_max=2))[0].bounds == (("255",), ("500",))
        assert dumper.read(chunk("t", 2, rows_max=900, bounds_max=8))[0].bounds == (("1000",),), "not worth more than one piece"
        assert dumper.read(chunk("t", 3, rows_max=1000, bounds_max=4))[0].bounds == (), "nothing is left"


def test_other_keys_left_are_cut_at_the_highest_only(db: MariaDb, schema: str) -> None:
    db.execute("CREATE TABLE app.t (k varchar(9) PRIMARY KEY)", "INSERT INTO app.t SELECT seq FROM app.seq_1_to_100")
    with dumping(db.settings()) as dumper:
        assert dumper.read(chunk("t", rows_max=10, bounds_max=4))[0].bounds == (("99",),)


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ("k double PRIMARY KEY", "a double"),
        ("k float PRIMARY KEY", "a float"),
        ("k int", "neither a primary key"),
        ("k enum('', 'a') PRIMARY KEY", "empty label"),
    ],
)
def test_a_table_that_cannot_be_read_in_pieces_is_refused_with_the_reason(db: MariaDb, schema: str, columns: str, reason: str) -> None:
    db.execute(f"CREATE TABLE app.t ({columns})")
    with dumping(db.settings()) as dumper:
        assert reason in dumper.fails(chunk("t")).reason


def test_a_snapshot_is_refused_by_a_server_that_does_not_return_its_timestamp(db: MariaDb, schema: str) -> None:
    db.execute("CREATE TABLE app.t (k int PRIMARY KEY)")
    with dumping(db.settings()) as dumper:
        failed = dumper.fails(chunk("t", brackets=Brackets.SNAPSHOT))
    assert "MariaDB" in failed.reason
    assert "--brackets watermark" in failed.hint


# ---- bounds in bytes ------------------------------------------------------------------------------------------------


def test_a_chunk_of_large_rows_ends_early_and_the_next_one_continues(db: MariaDb, schema: str) -> None:
    """The server is still sending then: the connection is closed, and the next SELECT has another one."""
    db.execute(
        "CREATE TABLE app.t (k int PRIMARY KEY, v longtext)", "INSERT INTO app.t SELECT seq, REPEAT('x', 300000) FROM mysql.seq_1_to_20"
    )
    with dumping(db.settings(), readers_max=1) as dumper:
        results, after, exhausted, number = list[str](), None, False, 0
        while not exhausted:
            number += 1
            event, rows = dumper.read(chunk("t", number, after=after, rows_max=100, bytes_max=1_000_000))
            assert len(rows) <= 8
            results += [row[0] for row in rows]
            after, exhausted = event.file.last, event.exhausted
        assert results == [str(at) for at in range(1, 21)]
        keys = tuple((str(at),) for at in range(15, 25))
        event, rows = dumper.read(chunk("t", number + 1, keys=keys, bytes_max=1_000_000))
        assert 0 < event.keys_read < 10
        assert not event.exhausted
        assert [row[0] for row in rows] == [key for (key,) in keys[: event.keys_read]]


# ---- reading ahead --------------------------------------------------------------------------------------------------


@dataclass
class Selects:
    """How many SELECTs of chunks have come back; `fail` lets the one of this number fail instead."""

    done: int = 0
    fail: int = 0

    def read(self, session: MysqlSession, sql: str, columns: int, *, bytes_max: int | None) -> tuple[pa.Table, bool]:
        if self.done + 1 == self.fail:
            self.done += 1
            raise pymysql.err.ProgrammingError(1064, "not this time")
        result = read_up_to(session, sql, columns, bytes_max=bytes_max)
        self.done += 1
        return result

    def until(self, count: int) -> None:
        give_up = time.monotonic() + PATIENCE_S
        while self.done < count:
            assert time.monotonic() < give_up, f"{self.done} of {count} SELECTs came back"
            time.sleep(0.002)  # a reader tells nobody that it reads ahead


@pytest.fixture
def selects(monkeypatch: pytest.MonkeyPatch) -> Selects:
    result = Selects()
    monkeypatch.setattr("sidecar.shared.reads.read.read_up_to", result.read)
    return result


@pytest.fixture
def behind(db: MariaDb, schema: str, selects: Selects) -> Iterator[Dumper]:
    """A source that has told chunk 1, of rows 1 and 2, and has read 3 and 4 behind it, which are no more in the table."""
    db.execute("CREATE TABLE app.t (k int PRIMARY KEY)", "INSERT INTO app.t VALUES (1), (2), (3), (4), (5)")
    with dumping(db.settings(), readers_max=1) as dumper:
        assert dumper.read(chunk("t", 1, rows_max=2, ahead=True))[1] == [("1",), ("2",)]
        selects.until(2)
        db.execute("DELETE FROM app.t WHERE k IN (3, 4)")
        yield dumper


def test_the_chunk_that_follows_in_its_window_was_read_ahead(behind: Dumper, selects: Selects) -> None:
    event, rows = behind.read(chunk("t", 2, after=("2",), rows_max=2, ahead=True, follows=1))
    assert rows == [("3",), ("4",)]
    assert (event.number, event.file.after, event.file.last, event.exhausted) == (2, ("2",), ("4",), False)
    selects.until(3)
    event, rows = behind.read(chunk("t", 3, after=("4",), rows_max=2, ahead=True, follows=2))
    assert (rows, event.exhausted) == ([("5",)], True)
    assert selects.done == 3, "nothing is left to be read ahead"


OTHERS: Mapping[str, dict[str, Any]] = {
    "of another window": {},
    "after another chunk": {"follows": 7},
    "up to another key": {"follows": 1, "upper": ("5",)},
    "of other rows": {"follows": 1, "where": "k > 0"},
}


@pytest.mark.parametrize("other", OTHERS)
def test_what_was_read_ahead_serves_no_chunk(behind: Dumper, other: str) -> None:
    assert behind.read(chunk("t", 2, after=("2",), rows_max=2, **OTHERS[other]))[1] == [("5",)]


def test_what_was_read_ahead_serves_no_chunk_behind_another_key(behind: Dumper) -> None:
    assert behind.read(chunk("t", 2, after=("1",), rows_max=2, follows=1))[1] == [("2",), ("5",)]


def test_what_was_read_ahead_by_other_schemas_serves_no_chunk(db: MariaDb, behind: Dumper) -> None:
    behind.source.follow(TidbSchemas(db.settings()).tables())
    assert behind.read(chunk("t", 2, after=("2",), rows_max=2, follows=1))[1] == [("5",)]


def test_a_select_ahead_that_fails_is_done_again_for_whoever_asks(db: MariaDb, schema: str, selects: Selects) -> None:
    db.execute("CREATE TABLE app.t (k int PRIMARY KEY)", "INSERT INTO app.t VALUES (1), (2)")
    selects.fail = 2
    with dumping(db.settings(), readers_max=1) as dumper:
        dumper.read(chunk("t", 1, rows_max=1, ahead=True))
        assert dumper.read(chunk("t", 2, after=("1",), rows_max=1, follows=1))[1] == [("2",)]
    assert selects.done == 3


# ---- values ---------------------------------------------------------------------------------------------------------


def test_values_of_many_megabytes_pass_even_if_their_hex_is_above_the_servers_packet_limit(db: MariaDb, schema: str) -> None:
    """The first chunk ends where its text is too large for one; the next is a row that is larger by itself."""
    db.execute("CREATE TABLE app.t (k int PRIMARY KEY, s longtext, b longblob)")
    db.execute(
        "INSERT INTO app.t VALUES (1, REPEAT('ü', 8 << 20), REPEAT(x'00FF', 8 << 20)), (2, 'x', x'01'), (3, NULL, REPEAT('a', 40 << 20))"
    )
    with dumping(db.settings()) as dumper:
        first, rows = dumper.read(chunk("t"))
        assert not first.exhausted
        last = rows[-1][0]
        _, rest = dumper.read(chunk("t", 2, after=(last,)))
    assert rows + rest == [("1", "ü" * (8 << 20), "00FF" * (8 << 20)), ("2", "x", "01"), ("3", None, "61" * (40 << 20))]


def test_rows_come_whole_however_much_a_stream_has_read_ahead(db: MariaDb, schema: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library in the process may set Python's default for all streams, and clickhouse-connect does. Much has come when it is read first,
    once the system has seen that this connection is for much."""
    answered = pymysql.connections.MySQLResult.init_unbuffered_query

    def late(result: Any) -> None:
        time.sleep(0.05)
        answered(result)

    db.execute(
        "CREATE TABLE app.t (k int PRIMARY KEY, s longtext)", "INSERT INTO app.t SELECT seq, REPEAT(seq, 1000) FROM app.seq_1_to_400"
    )
    monkeypatch.setattr(io, "DEFAULT_BUFFER_SIZE", 1 << 18)
    monkeypatch.setattr(pymysql.connections.MySQLResult, "init_unbuffered_query", late)
    with dumping(db.settings()) as dumper:
        for number in range(10):
            _, rows = dumper.read(chunk("t", number, rows_max=1000))
            assert rows == [(str(k), str(k) * 1000) for k in range(1, 401)]


def spelt_time(micros: int) -> str:
    sign, rest = "-" * (micros < 0), abs(micros)
    return f"{sign}{rest // 3_600_000_000:02d}:{rest // 60_000_000 % 60:02d}:{rest // 1_000_000 % 60:02d}.{rest % 1_000_000:06d}"


def spelt_set(labels: set[str]) -> str:
    return ",".join(label for label in ("x", "y'", "z w", "ü") if label in labels)


def same(values: st.SearchStrategy[str]) -> st.SearchStrategy[tuple[Any, str]]:
    return values.map(lambda text: (text, text))


def whole_numbers(low: int, high: int) -> st.SearchStrategy[tuple[Any, str]]:
    return (st.integers(low, high) | st.sampled_from([low, high])).map(lambda number: (number, str(number)))


def decimals(precision: int, scale: int) -> st.SearchStrategy[tuple[Any, str]]:
    highest = 10**precision - 1
    numbers = st.integers(-highest, highest) | st.sampled_from([0, 1, highest])
    return same(numbers.map(lambda number: f"{Decimal(number).scaleb(-scale, Context(70)):f}"))


def moments(scale: int, low: datetime, high: datetime) -> st.SearchStrategy[tuple[Any, str]]:
    length = 19 + bool(scale) + scale
    result = st.datetimes(low, high).map(lambda at: at.isoformat(" ", "microseconds")[:length])
    return same(result | st.just("0000-00-00 00:00:00.000000"[:length]))


YEAR_1, YEAR_9999 = datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999)  # noqa: DTZ001  (a DATETIME has no zone)
EPOCH, LATEST = datetime(1970, 1, 1, 0, 0, 1), datetime(2038, 1, 19, 3, 14, 7)  # noqa: DTZ001
SET = "set('x','y''','z w','ü')"

TYPES: Mapping[str, st.SearchStrategy[tuple[Any, str]]] = {
    "tinyint": whole_numbers(-128, 127),
    "bigint": whole_numbers(-(1 << 63), (1 << 63) - 1),
    "bigint unsigned": whole_numbers(0, (1 << 64) - 1),
    "int(9) unsigned zerofill": whole_numbers(0, (1 << 32) - 1),
    "float": st.floats(width=32, allow_nan=False, allow_infinity=False).map(lambda value: (repr(value), repr(value))),
    "double": st.floats(allow_nan=False, allow_infinity=False).map(lambda value: (repr(value), repr(value))),
    "decimal(12,3)": decimals(12, 3),
    "decimal(10,0)": decimals(10, 0),
    "decimal(65,30)": decimals(65, 30),
    "decimal(9,2) unsigned zerofill": st.integers(0, 999_999_999).map(lambda n: (f"{n / 100:.2f}", f"{n / 100:.2f}")),
    "date": same(st.dates().map(str) | st.sampled_from(["0000-00-00", "2020-00-00"])),
    "time": same(st.integers(-838, 838).map(lambda hours: f"{'-' * (hours < 0)}{abs(hours):02d}:00:00")),
    "time(6)": same(st.integers(-3_020_399_999_999, 3_020_399_999_999).map(spelt_time)),
    "datetime": moments(0, YEAR_1, YEAR_9999),
    "datetime(6)": moments(6, YEAR_1, YEAR_9999),
    "timestamp": moments(0, EPOCH, LATEST),
    "timestamp(3)": moments(3, EPOCH, LATEST),
    "year": (st.integers(1901, 2155) | st.just(0)).map(lambda year: (year, f"{year:04d}")),
    "char(12)": same(st.text(max_size=9).filter(lambda text: not text.endswith(" "))),
    "varchar(60)": same(st.text(max_size=20)),
    "longtext": same(st.text(max_size=20) | st.just("é" * 70_000)),
    "varchar(20) collate utf8mb4_general_ci": same(st.text(max_size=9)),
    "varchar(20) character set gbk": same(st.text("a'\\中文龙一", max_size=9)),
    "varchar(20) character set latin1": same(st.text("a'\\é€ßÿ", max_size=9)),
    "binary(6)": st.binary(max_size=6).map(lambda data: (data, data.ljust(6, b"\0").hex().upper())),
    "varbinary(40)": st.binary(max_size=40).map(lambda data: (data, data.hex().upper())),
    "longblob": st.binary(max_size=40).map(lambda data: (data, data.hex().upper())),
    "enum('a','','B b','it''s','ü')": same(st.sampled_from(["a", "", "B b", "it's", "ü"])),
    SET: same(st.sets(st.sampled_from(["x", "y'", "z w", "ü"])).map(spelt_set)),
    "bit(1)": whole_numbers(0, 1),
    "bit(12)": whole_numbers(0, 4095),
    "bit(64)": whole_numbers(0, (1 << 64) - 1),
    "json": same(st.lists(st.text(max_size=5) | st.integers() | st.none(), max_size=3).map(json.dumps)),
}
"""What is written, and its canonical text."""


@pytest.fixture(scope="module")
def typed(db: MariaDb) -> Iterator[Dumper]:
    """A source of a table `types.t` with a column of each type."""
    columns = ", ".join(f"c{number} {name} NULL" for number, name in enumerate(TYPES))
    db.execute("CREATE DATABASE types", f"CREATE TABLE types.t (id int PRIMARY KEY, {columns})")
    with dumping(db.settings()) as dumper:
        yield dumper


@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.explicit, Phase.generate])
@given(rows=st.lists(st.tuples(*(st.none() | values for values in TYPES.values())), max_size=6))
def test_every_value_of_every_type_comes_as_its_canonical_text(
    db: MariaDb, typed: Dumper, rows: list[tuple[tuple[Any, str] | None, ...]]
) -> None:
    with contextlib.closing(db.connect(sql_mode="NO_ENGINE_SUBSTITUTION")) as connection, connection.cursor() as cursor:
        cursor.execute("DELETE FROM types.t")
        for number, row in enumerate(rows):
            values = [number, *(value and value[0] for value in row)]
            cursor.execute(f"INSERT INTO types.t VALUES ({', '.join(['%s'] * len(values))})", values)
    expected = [(str(number), *(value and value[1] for value in row)) for number, row in enumerate(rows)]
    _, results = typed.read(replace(chunk("t"), table=TableName("types", "t")))
    assert results == expected


# ---- marks ----------------------------------------------------------------------------------------------------------


def uuid(number: int, dump: str = DUMP) -> str:
    return f"{dump}{3:08x}{number:08x}"


def mark_row(db: MariaDb, changefeed: str = "cf") -> tuple[Any, ...]:
    (row,) = db.execute(f"SELECT unique_identifier, event_type FROM {MARK_TABLE} WHERE changefeed_id = '{changefeed}'")
    return row


def test_marks_are_sent_in_order_and_reported_once_committed(db: MariaDb, schema: str) -> None:
    with dumping(db.settings()) as dumper:
        marks = [SendMark(uuid(number), LOW if number % 2 else HIGH) for number in range(50)]
        assert dumper.ask(*marks) == [MarkSent(mark.uuid) for mark in marks]
    assert mark_row(db) == (uuid(49), int(LOW))


def test_each_changefeed_has_a_row_of_its_own(db: MariaDb, schema: str) -> None:
    with dumping(db.settings()) as one, dumping(db.settings(), changefeed_id="other") as other:
        for number in range(3):
            assert one.ask(SendMark(uuid(number), LOW)) == [MarkSent(uuid(number))]
            assert other.ask(SendMark(uuid(number, "f" * 16), LOW)) == [MarkSent(uuid(number, "f" * 16))]
    assert mark_row(db)[0] == uuid(2)
    assert mark_row(db, "other")[0] == uuid(2, "f" * 16)


def test_a_previous_owner_cannot_send_a_mark(db: MariaDb, schema: str) -> None:
    with dumping(db.settings()) as previous, dumping(db.settings()) as present:
        previous.ask(SendMark(uuid(0), LOW))
        assert present.ask(SendMark(uuid(0, "f" * 16), LOW)) == [MarkSent(uuid(0, "f" * 16))]
        for number in (1, 2):
            (fenced,) = previous.ask(SendMark(uuid(number), HIGH))
            assert isinstance(fenced, MarkFenced)
            assert uuid(0, "f" * 16) in fenced.reason
        assert present.ask(SendMark(uuid(1, "f" * 16), HIGH)) == [MarkSent(uuid(1, "f" * 16))]
    assert mark_row(db) == (uuid(1, "f" * 16), int(HIGH))


def test_of_two_that_begin_together_only_one_goes_on(db: MariaDb, schema: str) -> None:
    """Each has read the row before either wrote."""
    with dumping(db.settings()) as one, dumping(db.settings()) as other:
        lock = db.connect(autocommit=False)
        db.execute(f"INSERT INTO {MARK_TABLE} VALUES (NULL, 'cf', 'nobody', 1, 0, 0)")
        with contextlib.closing(lock), lock.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {MARK_TABLE} FOR UPDATE")
            one.source.request(SendMark(uuid(0), LOW))
            other.source.request(SendMark(uuid(0, "f" * 16), LOW))
            until_waiting(db, "UPDATE%", 2)
            lock.rollback()
        events = [*one.until(1), *other.until(1)]
    assert sorted(type(event).__name__ for event in events) == ["MarkFenced", "MarkSent"]


def test_a_row_that_is_gone_ends_the_dump_and_the_next_mark_makes_a_new_one(db: MariaDb, schema: str) -> None:
    with dumping(db.settings()) as dumper:
        dumper.ask(SendMark(uuid(0), LOW))
        db.execute(f"DELETE FROM {MARK_TABLE}")
        failed = dumper.fails(SendMark(uuid(1), HIGH))
        assert "is gone" in failed.reason
        assert dumper.ask(SendMark(uuid(2), LOW)) == [MarkSent(uuid(2))]


@pytest.mark.parametrize("lost", ["answer", "request"])
def test_a_mark_whose_answer_or_request_is_lost_is_committed_once(db: MariaDb, schema: str, lost: str) -> None:
    with Proxy(db) as proxy, dumping(db.settings(host="127.0.0.1", port=proxy.port, retry_s=20)) as dumper:
        dumper.ask(SendMark(uuid(0), LOW))
        (before,) = db.execute("SHOW MASTER STATUS")
        proxy.lose(lost, b"UPDATE changefeed_dump")
        assert dumper.ask(SendMark(uuid(1), HIGH), SendMark(uuid(2), LOW)) == [MarkSent(uuid(1)), MarkSent(uuid(2))]
        assert proxy.lost == 1
    events = db.execute(f"SHOW BINLOG EVENTS IN '{before[0]}' FROM {before[1]}")
    assert sum(row[2].startswith("Update_rows") for row in events) == 2


def test_a_mark_waits_for_a_server_that_restarts(db: MariaDb, schema: str) -> None:
    with dumping(db.settings(retry_s=PATIENCE_S)) as dumper:
        dumper.ask(SendMark(uuid(0), LOW))
        db.kill()
        dumper.source.request(SendMark(uuid(1), HIGH))
        db.start()
        assert dumper.until(1) == [MarkSent(uuid(1))]


def test_the_watermark_table_is_made_once_and_needs_no_right_when_it_is_there(db: MariaDb, schema: str) -> None:
    db.execute("DROP DATABASE changefeed_dump")
    with dumping(db.settings(), schemas={}) as dumper:
        assert "1146" in dumper.fails(SendMark(uuid(0), LOW)).reason
        ensure_mark_table(db.settings())
        assert dumper.ask(SendMark(uuid(0), LOW)) == [MarkSent(uuid(0))]
    with account(db, f"GRANT SELECT, INSERT, UPDATE ON {MARK_TABLE} TO lesser") as settings:
        ensure_mark_table(settings)
        with dumping(settings, schemas={}) as dumper:
            assert dumper.ask(SendMark(uuid(1), LOW)) == [MarkSent(uuid(1))]


def test_the_documented_ddl_makes_the_table_that_marks_are_sent_to(db: MariaDb, schema: str) -> None:
    here = MARK_TABLE_DDL.replace("AUTO_RANDOM", "AUTO_INCREMENT")  # which is TiDB's own
    db.execute("DROP DATABASE changefeed_dump", "CREATE DATABASE changefeed_dump", here)
    with dumping(db.settings(), schemas={}) as dumper:
        assert dumper.ask(SendMark(uuid(0), LOW)) == [MarkSent(uuid(0))]


def test_a_changefeed_id_that_does_not_fit_is_refused(db: MariaDb, schema: str) -> None:
    with pytest.raises(ConfigError, match="128 characters"), dumping(db.settings(), changefeed_id="x" * 129):
        pass


# ---- trouble --------------------------------------------------------------------------------------------------------


def test_reads_go_on_over_a_killed_and_restarted_server(db: MariaDb, schema: str) -> None:
    db.execute("CREATE TABLE app.t (k int PRIMARY KEY, v int)", "INSERT INTO app.t SELECT seq, seq FROM app.seq_1_to_2000")
    with dumping(db.settings(retry_s=PATIENCE_S)) as dumper:
        commands = [chunk("t", number, after=(str(number * 20),), rows_max=20) for number in range(100)]
        for command in commands[:50]:
            dumper.source.request(command)
        events = dumper.until(10)
        db.kill()
        for command in commands[50:]:
            dumper.source.request(command)
        db.start()
        events += dumper.until(90)
    assert {event.number for event in events if isinstance(event, ChunkRead)} == set(range(100))
    rows = [row for table in dumper.files.values() for row in rows_of(table)]
    assert Counter(rows) == Counter((str(number), str(number)) for number in range(1, 2001))


def test_a_frozen_server_is_waited_for(db: MariaDb, schema: str) -> None:
    db.execute("CREATE TABLE app.t (k int PRIMARY KEY)", "INSERT INTO app.t VALUES (1)")
    with dumping(db.settings()) as dumper:
        dumper.ask(SendMark(uuid(0), LOW))
        db.freeze()
        dumper.source.request(SendMark(uuid(1), HIGH))
        dumper.source.request(chunk("t"))
        assert dumper.source.results() == []
        db.thaw()
        assert {type(event) for event in dumper.until(2)} == {MarkSent, ChunkRead}


def test_a_statement_that_takes_too_long_fails_with_the_setting(db: MariaDb, schema: str) -> None:
    db.execute("CREATE TABLE app.t (k int PRIMARY KEY)", "INSERT INTO app.t VALUES (1)")
    with dumping(db.settings(statement_timeout_s=0.2, retry_s=0.5)) as dumper:
        failed = dumper.fails(chunk("t", where="SLEEP(20) = 0"))
    assert "1969" in failed.reason
    assert "statement_timeout_s" in failed.hint


def test_a_server_that_is_not_there_fails_after_the_retries(db: MariaDb, schema: str) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        settings = db.settings(port=nobody.getsockname()[1], retry_s=0.5)
        with dumping(settings, schemas=TidbSchemas(db.settings()).tables()) as dumper:
            failed = dumper.fails(SendMark(uuid(0), LOW))
            assert "2003" in failed.reason
            assert "tried for 0.5 s" in failed.hint


@contextlib.contextmanager
def account(db: MariaDb, *grants: str) -> Iterator[SourceSection]:
    """The settings of an account `lesser` that has these rights."""
    db.execute("CREATE USER lesser IDENTIFIED BY 'x'", *grants)
    secret = db.folder / "lesser"
    secret.write_text("x\n")
    try:
        yield db.settings(user="lesser", password_file=str(secret), retry_s=0.5)
    finally:
        db.execute("DROP USER lesser")


def test_a_missing_right_is_named_with_its_grant(db: MariaDb, schema: str) -> None:
    db.execute("CREATE TABLE app.t (k int PRIMARY KEY, v int)", "CREATE TABLE app.seen (k int PRIMARY KEY)")
    schemas = TidbSchemas(db.settings()).tables()
    with account(db, "GRANT SELECT (k) ON app.t TO lesser") as settings, dumping(settings, schemas=schemas) as dumper:
        failed = dumper.fails(chunk("t"))
        assert "GRANT SELECT ON" in failed.hint
        assert "'lesser'" in failed.hint
        assert "GRANT SELECT" in dumper.fails(chunk("seen")).hint
        assert "GRANT INSERT, UPDATE ON changefeed_dump.changefeed_dump_event" in dumper.fails(SendMark(uuid(0), LOW)).hint


def test_a_wrong_password_is_reported(db: MariaDb, schema: str, tmp_path: Path) -> None:
    (tmp_path / "wrong").write_text("wrong")
    settings = db.settings(password_file=str(tmp_path / "wrong"))
    with dumping(settings, schemas={}) as dumper:
        failed = dumper.fails(SendMark(uuid(0), LOW))
    assert "1045" in failed.reason
    assert "source.password_file" in failed.hint


def test_a_table_without_a_schema_and_a_key_that_does_not_fit_fail_the_command(db: MariaDb, schema: str) -> None:
    db.execute("CREATE TABLE app.t (k int PRIMARY KEY)")
    schemas = TidbSchemas(db.settings()).tables()
    with dumping(db.settings(), schemas=schemas) as dumper:
        assert "schema is not known" in dumper.fails(chunk("nowhere")).reason
        assert "no value of key column k" in dumper.fails(chunk("t", after=("x",))).reason
        db.execute("DROP TABLE app.t")
        assert "1146" in dumper.fails(chunk("t")).reason
    with dumping(db.settings(), schemas=schemas) as dumper:
        assert "does not exist" in dumper.fails(chunk("t")).reason


def test_a_predicate_that_is_no_sql_fails_the_command(db: MariaDb, schema: str) -> None:
    db.execute("CREATE TABLE app.t (k int PRIMARY KEY)")
    with dumping(db.settings()) as dumper:
        assert "1064" in dumper.fails(chunk("t", where="k = ")).reason


def test_an_error_of_the_logs_storage_is_raised_by_results(db: MariaDb, schema: str) -> None:
    db.execute("CREATE TABLE app.t (k int PRIMARY KEY)")

    def full(path: str, rows: pa.Table) -> WrittenChunk:
        raise StorageFull("no room", hint="make room")

    with dumping(db.settings(), write_chunk=full) as dumper, pytest.raises(StorageFull, match="no room"):
        dumper.ask(chunk("t"))


def test_what_was_done_before_a_storage_error_is_reported_first(db: MariaDb, schema: str) -> None:
    db.execute("CREATE TABLE app.t (k int PRIMARY KEY)")
    raised = threading.Event()

    def full(path: str, rows: pa.Table) -> WrittenChunk:
        raised.set()
        raise StorageFull("no room", hint="make room")

    with dumping(db.settings(), write_chunk=full) as dumper:
        dumper.source.request(SendMark(uuid(0), LOW))
        until_row(db, uuid(0))
        dumper.source.request(chunk("t"))
        assert raised.wait(PATIENCE_S)
        assert dumper.until(1) == [MarkSent(uuid(0))]
        with pytest.raises(StorageFull):
            dumper.until(1)


def test_reads_run_side_by_side(db: MariaDb, schema: str) -> None:
    db.execute("CREATE TABLE app.t (k int PRIMARY KEY)", "INSERT INTO app.t VALUES (1)")
    with contextlib.closing(db.connect()) as holder, holder.cursor() as cursor, dumping(db.settings()) as dumper:
        cursor.execute("SELECT GET_LOCK('gate', 0)")
        waiting = chunk("t", 1, where="GET_LOCK('gate', 50) = 1")
        dumper.source.request(waiting)
        until_waiting(db, "SELECT%GET_LOCK%gate%", 1)
        (event,) = dumper.ask(chunk("t", 2))
        assert isinstance(event, ChunkRead)
        assert event.number == 2
        assert dumper.ask(SendMark(uuid(0), LOW)) == [MarkSent(uuid(0))]
        cursor.execute("SELECT RELEASE_LOCK('gate')")
        (event,) = dumper.until(1)
        assert isinstance(event, ChunkRead)
        assert event.number == 1


def test_no_more_readers_are_started_than_allowed(db: MariaDb, schema: str) -> None:
    db.execute("CREATE TABLE app.t (k int PRIMARY KEY)")
    before = set(threading.enumerate())
    with dumping(db.settings(), readers_max=2) as dumper:
        assert len(dumper.ask(*(chunk("t", number) for number in range(20)))) == 20
        ours = [thread.name for thread in set(threading.enumerate()) - before]
        assert sum(name.startswith("tidb-reader") for name in ours) <= 2


def test_closing_does_not_wait_for_a_long_read(db: MariaDb, schema: str) -> None:
    db.execute("CREATE TABLE app.t (k int PRIMARY KEY)", "INSERT INTO app.t VALUES (1)")
    before = set(threading.enumerate())
    with dumping(db.settings(statement_timeout_s=300)) as dumper:
        dumper.source.request(chunk("t", where="SLEEP(250) = 0"))
        until_waiting(db, "SELECT%SLEEP(250)%", 1)
        dumper.source.close()
        assert not [thread.name for thread in set(threading.enumerate()) - before if thread.name.startswith("tidb-reader")]
        assert dumper.source.results() == []
        assert dumper.files == {}
    running = "INFO LIKE 'SELECT%SLEEP(250)%' AND ID <> CONNECTION_ID()"
    until_true(db, f"SELECT COUNT(*) = 0 FROM information_schema.processlist WHERE {running}")


def test_what_the_server_does_not_end_by_itself_is_killed(db: MariaDb, schema: str) -> None:
    """A server that computes does not look whether its client is still there."""
    db.execute("CREATE TABLE app.t (k int PRIMARY KEY)", "INSERT INTO app.t VALUES (1)")
    with dumping(db.settings(statement_timeout_s=2 * PATIENCE_S)) as dumper:
        dumper.source.request(chunk("t", where="BENCHMARK(1000000000000, MD5(k)) = 0"))
        until_waiting(db, "SELECT%BENCHMARK%", 1)
        dumper.source.close()
    running = "INFO LIKE 'SELECT%BENCHMARK%' AND ID <> CONNECTION_ID()"
    until_true(db, f"SELECT COUNT(*) = 0 FROM information_schema.processlist WHERE {running}")


def test_closing_does_not_wait_for_retries(db: MariaDb, schema: str) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        with dumping(db.settings(port=nobody.getsockname()[1]), schemas={}) as dumper:
            dumper.source.request(SendMark(uuid(0), LOW))
        assert dumper.source.results() == []


def test_a_connection_that_reads_has_the_sessions_settings(db: MariaDb, schema: str) -> None:
    """What the server's defaults are does not matter."""
    db.execute("SET GLOBAL time_zone = '+08:00'", "SET GLOBAL sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH'")
    try:
        db.execute(
            "SET time_zone = '+00:00'",
            "CREATE TABLE app.t (k char(9) PRIMARY KEY, at timestamp(1))",
            "INSERT INTO app.t VALUES ('a\\\\', '2020-01-01')",
        )
        with dumping(db.settings()) as dumper:
            _, rows = dumper.read(chunk("t", where='k LIKE "a%"'))
            assert [(key[0], at) for key, at in rows] == [("a", "2020-01-01 00:00:00.0")]
            assert len(rows[0][0]) < 9
    finally:
        db.execute("SET GLOBAL time_zone = '+00:00'", "SET GLOBAL sql_mode = 'STRICT_TRANS_TABLES'")


# ---- hands ----------------------------------------------------------------------------------------------------------


def until_waiting(db: MariaDb, statement: str, count: int) -> None:
    """Until so many sessions carry out a statement that is LIKE this."""
    condition = f"COMMAND IN ('Query', 'Execute') AND INFO LIKE '{statement}' AND ID <> CONNECTION_ID()"
    until_true(db, f"SELECT COUNT(*) >= {count} FROM information_schema.processlist WHERE {condition}")


def until_row(db: MariaDb, expected: str) -> None:
    until_true(db, f"SELECT COUNT(*) FROM {MARK_TABLE} WHERE unique_identifier = '{expected}'")


def until_true(db: MariaDb, question: str) -> None:
    give_up = time.monotonic() + PATIENCE_S
    with contextlib.closing(db.connect()) as connection, connection.cursor() as cursor:
        while True:
            cursor.execute(question)
            if cursor.fetchone()[0]:
                return
            assert time.monotonic() < give_up, question
            time.sleep(0.01)  # a server tells nobody what its other sessions do


class Proxy:
    """A way to the server on which one statement, or its answer, can be lost together with the connection."""

    def __init__(self, db: MariaDb) -> None:
        self._target = (db.host, db.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.lost = 0
        self._lose: tuple[str, bytes] | None = None

    def __enter__(self) -> Proxy:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def lose(self, what: str, statement: bytes) -> None:
        self._lose = (what, statement)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._target)
                threading.Thread(target=self._forward, args=(client, server), daemon=True).start()
                threading.Thread(target=self._back, args=(server, client), daemon=True).start()

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        with client, server, contextlib.suppress(OSError):
            while data := client.recv(1 << 16):
                if self._lose is not None and self._lose[1] in data:
                    what, self._lose = self._lose[0], None
                    self.lost += 1
                    client.shutdown(socket.SHUT_RDWR)  # the answer has nowhere to go
                    if what == "answer":
                        server.sendall(data)
                        server.recv(1)
                    return
                server.sendall(data)

    def _back(self, server: socket.socket, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(1 << 16):
                client.sendall(data)
