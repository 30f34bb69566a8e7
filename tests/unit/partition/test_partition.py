"""Rows' partitions: of every recorded row of a partitioned table as TiCDC told it, and of clauses that no recording has."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from datetime import date
from zlib import crc32

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Column, ColumnDefinition, TableDefinition, TableName, TableSchema
from sidecar.shared.partition.clause import Literal, read_clause
from sidecar.shared.partition.ids import is_partitioned, key_ids, partition_ids
from sidecar.shared.partition.value import date_parts, day_number
from spark_merge.codecs.decode.rows import decode
from tests.support.recordings import recording
from tests.unit.decode.log import logged, recorded_changes, recorded_schemas

TABLE = TableName("shop", "t")
KINDS = {
    "i": Column("i", "int"), "u": Column("u", "uint"), "y": Column("y", "year"), "d": Column("d", "date"), "dt": Column("dt", "datetime"),
    "dt3": Column("dt3", "datetime", scale=3), "ts": Column("ts", "timestamp"), "ts3": Column("ts3", "timestamp", scale=3),
    "s": Column("s", "text"), "ci": Column("ci", "text"), "b": Column("b", "binary"), "n": Column("n", "decimal", length=5, scale=2),
    "f": Column("f", "double"), "e": Column("e", "enum", elements=("x", "y")),
}  # fmt: skip
COLLATIONS = {"s": "utf8mb4_bin", "ci": "utf8mb4_general_ci", "e": "utf8mb4_bin"}


def schema(clause: str, count: int, *names: str) -> TableSchema:
    columns = tuple(KINDS[name] for name in names)
    definitions = tuple(ColumnDefinition(name, "", collation=COLLATIONS.get(name, "")) for name in names)
    ids = tuple(range(100, 100 + count))
    return TableSchema(TABLE, columns, names[:1], 9, ids, definition=TableDefinition(definitions, partitioning=f"PARTITION BY {clause}"))


def places(of: TableSchema, *columns: Sequence[str | None]) -> list[int]:
    result = partition_ids(of, [pa.array(column, pa.string()) for column in columns])
    assert result is not None
    return [int(one) - 100 for one in result]


# ---- as TiCDC told --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["shop", "shop-new", "restart"])
@pytest.mark.recordings
def test_every_recorded_row_is_in_the_partition_that_ticdc_says(name: str) -> None:
    """Of deletes too. An update that moves a row to another partition comes as a delete and an insert."""
    folder = recording(name)
    schemas = {name: result for name, result in recorded_schemas(folder).items() if is_partitioned(result)}
    changes = [one for one in recorded_changes(folder, "open-protocol", codec="open-protocol") if (one.schema, one.table) in schemas]
    numbers = {number: json.loads(one.key)["ptn"] for number, one in enumerate(changes) if one.key is not None}
    rows = decode(logged(changes, codec="open-protocol"), codec="open-protocol", schemas=schemas, server_tz="UTC")
    seen: Counter[str] = Counter()
    for row in rows.to_pylist():
        result = schemas[TableName(row["schema"], row["table"])]
        image = row["after"] or row["before"]
        (located,) = partition_ids(result, [pa.array([text], pa.string()) for text in image])  # type: ignore[misc]  # it is partitioned
        assert located == numbers[row["ordinal"]], row
        seen[row["table"]] += 1
    assert seen["event_log"] > 500
    assert seen["ledger"] > 300


# ---- HASH -----------------------------------------------------------------------------------------------------------


def test_hash_is_the_remainder_of_a_signed_number_without_its_sign() -> None:
    assert places(schema("HASH (`i`) PARTITIONS 4", 4, "i"), ["0", "5", "-5", None, "-9223372036854775808"]) == [0, 1, 1, 0, 0]
    assert places(schema("HASH (`u`) PARTITIONS 3", 3, "u"), ["18446744073709551615", "18446744073709551614", "4"]) == [1, 2, 1]
    assert places(schema("HASH (`I`) (PARTITION `a`, PARTITION `b`)", 2, "i"), ["3", "4"]) == [1, 0]


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1), min_size=1), st.integers(1, 9))
def test_columns_at_a_time_are_as_row_by_row(values: list[int], count: int) -> None:
    texts = [str(value) for value in values]
    assert places(schema(f"HASH (`i`) PARTITIONS {count}", count, "i"), texts) == [abs(value) % count for value in values]
    bounds = ", ".join(f"PARTITION `p{number}` VALUES LESS THAN ({number * 1000 - 2000})" for number in range(count))
    both = [
        places(
            schema(f"RANGE ({by}) ({bounds}, PARTITION `m` VALUES LESS THAN (MAXVALUE))", count + 1, "i"), [str(value) for value in small]
        )
        for small in [[value % 10_000 - 5000 for value in values]]
        for by in ("`i`", "`i` + 0")
    ]
    assert both[0] == both[1]


def test_hash_of_an_expression() -> None:
    assert places(schema("HASH (YEAR(`d`)) PARTITIONS 4", 4, "d"), ["2023-05-01", "0000-00-00", None]) == [3, 0, 0]
    assert places(schema("HASH (`i` * 2 + MOD(`u`, 3)) PARTITIONS 5", 5, "i", "u"), ["-3", "4"], ["2", "3"]) == [4, 3]
    assert places(schema("HASH (`i` DIV 0) PARTITIONS 5", 5, "i"), ["7"]) == [0]
    assert places(schema("HASH (abs(`i` DIV -2) % 3) PARTITIONS 5", 5, "i"), ["7", "-7"]) == [0, 0]


# ---- RANGE, LIST ----------------------------------------------------------------------------------------------------

YEARS = "(PARTITION `a` VALUES LESS THAN (2024), PARTITION `b` VALUES LESS THAN (2025), PARTITION `c` VALUES LESS THAN (MAXVALUE))"


def test_a_range_is_below_its_bound_and_null_is_in_the_first() -> None:
    assert places(schema(f"RANGE (`i`) {YEARS}", 3, "i"), ["2023", "2024", "2025", None, "-1"]) == [0, 1, 2, 0, 0]
    assert places(schema(f"RANGE (YEAR(`d`)) {YEARS}", 3, "d"), ["2023-12-31", "2024-01-01", None, "0000-00-00"]) == [0, 1, 0, 0]
    big = "(PARTITION `a` VALUES LESS THAN (9223372036854775808), PARTITION `b` VALUES LESS THAN (18446744073709551615))"
    assert places(schema(f"RANGE (`u`) {big}", 2, "u"), ["9223372036854775807", "9223372036854775808"]) == [0, 1]
    assert places(schema("RANGE (`u`) (PARTITION `a` VALUES LESS THAN (0), PARTITION `b` VALUES LESS THAN (5))", 2, "u"), ["0"]) == [1]


def test_days_and_seconds_are_counted_as_mysql_does() -> None:
    assert day_number(date_parts("2007-10-07")) == 733321
    assert day_number(date_parts("1970-01-01")) == 719528
    assert day_number(date_parts("2024-00-10")) is None
    days = "(PARTITION `a` VALUES LESS THAN (733321), PARTITION `b` VALUES LESS THAN (MAXVALUE))"
    assert places(schema(f"RANGE (to_days(`d`)) {days}", 2, "d"), ["2007-10-06", "2007-10-07", "2007-00-00"]) == [0, 1, 0]
    seconds = "(PARTITION `a` VALUES LESS THAN (1600000000), PARTITION `b` VALUES LESS THAN (MAXVALUE))"
    stamps = ["2020-09-13 12:26:39", "2020-09-13 12:26:40", "0000-00-00 00:00:00"]
    assert places(schema(f"RANGE (UNIX_TIMESTAMP(`ts`)) {seconds}", 2, "ts"), stamps) == [0, 1, 0]
    assert places(schema(f"RANGE (FLOOR(UNIX_TIMESTAMP(`ts3`))) {seconds}", 2, "ts3"), ["2020-09-13 12:26:39.999"]) == [0]


@given(st.dates())
def test_days_are_those_of_the_calendar(day: date) -> None:
    assert day_number((day.year, day.month, day.day, 0, 0, 0)) == day.toordinal() + 365


def weekday_of(call: str, day: str) -> int:
    return places(schema(f"HASH ({call}(`d`)) PARTITIONS 400", 400, "d"), [day])[0]


@given(st.dates())
def test_places_in_the_week_and_the_year_are_those_of_the_calendar(day: date) -> None:
    text = day.isoformat()
    assert weekday_of("WEEKDAY", text) == day.weekday()
    assert weekday_of("DAYOFWEEK", text) == day.isoweekday() % 7 + 1
    assert weekday_of("DAYOFYEAR", text) == day.timetuple().tm_yday
    assert weekday_of("QUARTER", text) == (day.month + 2) // 3


def test_range_columns_compare_one_after_another() -> None:
    clause = (
        "RANGE COLUMNS (`i`,`s`) (PARTITION `a` VALUES LESS THAN (5,'m'), PARTITION `b` VALUES LESS THAN (5,MAXVALUE),"
        " PARTITION `c` VALUES LESS THAN (MAXVALUE,MAXVALUE))"
    )
    numbers, texts = ["4", "5", "5", "5", "6", None, "5"], ["z", "l", "m", "m ", "a", "z", None]
    assert places(schema(clause, 3, "i", "s"), numbers, texts) == [0, 0, 1, 1, 2, 0, 0]


def test_range_columns_of_dates() -> None:
    clause = (
        "RANGE COLUMNS (`dt3`) (PARTITION `a` VALUES LESS THAN ('2024-01-01'), PARTITION `b` VALUES LESS THAN ('2025-01-01 00:00:00.5'))"
    )
    stamps = ["2023-12-31 23:59:59.999", "2024-01-01 00:00:00.000", "2025-01-01 00:00:00.499"]
    assert places(schema(clause, 2, "dt3"), stamps) == [0, 1, 1]
    with pytest.raises(SinkError, match=r"no partition for a row with a value above all bounds"):
        places(schema(clause, 2, "dt3"), ["2025-01-01 00:00:00.500"])


def test_a_list_has_its_values_null_and_the_rest() -> None:
    clause = "LIST (`i`) (PARTITION `a` VALUES IN (1,2), PARTITION `b` VALUES IN (NULL,-3), PARTITION `c` VALUES IN (DEFAULT))"
    assert places(schema(clause, 3, "i"), ["2", None, "-3", "9"]) == [0, 1, 1, 2]
    with pytest.raises(SinkError, match=r"shop\.t has no partition for a row with 9"):
        places(schema("LIST (`i`) (PARTITION `a` VALUES IN (1))", 1, "i"), ["9"])


def test_list_columns() -> None:
    clause = "LIST COLUMNS (`i`,`s`) (PARTITION `a` VALUES IN ((1,'x'),(2,'it''s')), PARTITION `b` VALUES IN ((NULL,_utf8mb4'y')))"
    assert places(schema(clause, 2, "i", "s"), ["1", "2", None], ["x ", "it's", "y"]) == [0, 0, 1]
    clause = "LIST COLUMNS (`d`) (PARTITION `a` VALUES IN ('2024-01-01'), PARTITION `b` VALUES IN (DEFAULT))"
    assert places(schema(clause, 2, "d"), ["2024-01-01", "2024-01-02", None]) == [0, 1, 1]
    assert places(
        schema("LIST COLUMNS (`b`) (PARTITION `a` VALUES IN (0x00FF), PARTITION `b` VALUES IN ('A'))", 2, "b"), ["00FF", "41"]
    ) == [0, 1]


# ---- KEY ------------------------------------------------------------------------------------------------------------


def test_key_is_the_checksum_of_the_texts() -> None:
    assert places(schema("KEY (`i`) PARTITIONS 7", 7, "i"), ["-12", None]) == [crc32(b"-12") % 7, crc32(b"\0") % 7]
    results = places(schema("KEY (`s`,`y`) PARTITIONS 7", 7, "s", "y"), ["ü  "], ["2024"])
    assert results == [crc32("ü2024".encode()) % 7]
    assert places(schema("KEY (`b`) PARTITIONS 7", 7, "b"), ["00FF"]) == [crc32(b"\x00\xff") % 7]
    assert places(schema("KEY (`n`,`e`) PARTITIONS 7", 7, "n", "e"), ["-1.50"], ["y"]) == [crc32(b"-1.50y") % 7]


def test_a_clause_is_read_whole() -> None:
    clause = read_clause(
        "PARTITION BY LIST COLUMNS (`a``b`,c) (PARTITION `p(0` VALUES IN ((1,'it''s, )'),(NULL,0xFF)), PARTITION p1 VALUES IN (DEFAULT))"
    )
    assert (clause.kind, clause.columns, clause.expression, clause.count) == ("LIST", ("a`b", "c"), None, 2)
    assert clause.values == (
        ((Literal("number", "1"), Literal("text", "it's, )")), (Literal("NULL", ""), Literal("hex", "FF"))),
        ((Literal("DEFAULT", ""),),),
    )
    summed = read_clause("PARTITION BY HASH (`i` + -2 * (`u` - `i`)) PARTITIONS 3").expression
    assert summed is not None
    assert summed.columns() == ("i", "u")


# ---- raw key-values -------------------------------------------------------------------------------------------------


@pytest.mark.recordings
def test_keys_of_tikv_name_the_partition() -> None:
    """Put and deleted alike; each value that the change feed brings is in the partition of its table that the key says."""
    folder = recording("shop")
    schemas = [item for item in recorded_schemas(folder).values() if is_partitioned(item)]
    entries = pq.read_table(folder / "kv" / "entries.parquet", columns=["op", "key"]).to_pylist()
    keys = pa.array([row["key"] for row in entries if row["op"] != "resolved"], pa.binary())
    result = key_ids(keys)
    assert [int(one) for one in result[:50]] == [int.from_bytes(key[1:9], "big") - (1 << 63) for key in keys[:50].to_pylist()]
    assert {one for schema in schemas for one in schema.physical_ids} <= set(result.tolist())


# ---- what cannot be told --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("clause", "names", "why"),
    [
        ("KEY (`ci`) PARTITIONS 1", ["ci"], "collation utf8mb4_general_ci does not compare bytes"),
        ("KEY (`f`) PARTITIONS 1", ["f"], "column f, which is a double"),
        ("KEY (`ts`) PARTITIONS 1", ["ts"], "column ts, which is a timestamp"),
        ("HASH (YEARWEEK(`d`)) PARTITIONS 1", ["d"], r"YEARWEEK\(\) of 1 arguments"),
        ("HASH (`i` / 2) PARTITIONS 1", ["i"], "/"),
        ("HASH (`virtual`) PARTITIONS 1", ["i"], "column virtual, which the rows do not have"),
        ("RANGE (UNIX_TIMESTAMP(`ts3`)) (PARTITION `a` VALUES LESS THAN (1))", ["ts3"], "fractional seconds"),
        ("RANGE (UNIX_TIMESTAMP(`dt`)) (PARTITION `a` VALUES LESS THAN (1))", ["dt"], "no column of TIMESTAMP"),
        ("RANGE (YEAR(`ts`)) (PARTITION `a` VALUES LESS THAN (1))", ["ts"], "no column of DATE"),
        ("SYSTEM_TIME (PARTITION `a`)", ["i"], "SYSTEM_TIME"),
        ("HASH (`i`) PARTITIONS 2", ["i"], "2 partitions, while 1 ids are known"),
        ("RANGE (`i`) (PARTITION `a` VALUES LESS THAN (now()))", ["i"], "now"),
        ("RANGE (`i`) (PARTITION `a` VALUES LESS THAN (1)", ["i"], "is expected, nothing more is there"),
        ("HASH (", ["i"], "nothing more"),
        ("HASH (`i` ; 1)", ["i"], ";"),
    ],
)
def test_what_is_not_decided_is_refused_by_table_and_clause(clause: str, names: list[str], why: str) -> None:
    with pytest.raises(SinkError, match=rf"which partition of shop\.t .*{why}") as refused:
        partition_ids(schema(clause, 1, *names), [pa.array(["1"], pa.string()) for _ in names])
    assert "leave the table out" in str(refused.value)


def test_a_log_that_does_not_say_it_is_refused_with_the_way_out() -> None:
    bare = TableSchema(TABLE, (KINDS["i"],), ("i",), 9, (10, 11))
    with pytest.raises(SinkError, match=r"shop\.t is partitioned, and the log does not tell how"):
        partition_ids(bare, [pa.array(["1"], pa.string())])


def test_a_table_without_partitions_has_none() -> None:
    for ids in ((), (9,)):
        assert partition_ids(TableSchema(TABLE, (KINDS["i"],), ("i",), 9, ids), [pa.array(["1"], pa.string())]) is None
    one = schema("HASH (`i`) PARTITIONS 1", 1, "i")
    assert places(one, ["7"]) == [0]
    assert partition_ids(one, [pa.array([], pa.string())]) is not None
