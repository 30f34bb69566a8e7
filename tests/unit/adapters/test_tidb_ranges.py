"""Plans of a real TiDB (v9.0.0-beta.2), of SELECTs that were cheap and of such that made a dump stand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.adapters.tidb.ranges import SCANNED_ROWS_MAX, problem, slow_reads
from sidecar.shared.errors import SourceLost
from sidecar.shared.model.keyset import KeyColumn, ReadKey
from sidecar.shared.model.nouns import Column, TableName
from tests.support.services.fake_tidb import FakeTable, FakeTidb, Refused

T = TableName("shop", "t")


def key(columns: int) -> ReadKey:
    return ReadKey(T, tuple(KeyColumn(Column(name, "int")) for name in "abc"[:columns]))


def plan(scan: str, info: str) -> list[tuple[str, ...]]:
    return [
        ("Limit", "301.00", "root", "", "offset:0, count:301"),
        ("└─TableReader", "301.00", "root", "", "data:Limit"),
        ("  └─Limit", "301.00", "cop[tikv]", "", "offset:0, count:301"),
        (f"    └─{scan}", "301.00", "cop[tikv]", "table:t", info),
    ]


@pytest.mark.parametrize(
    ("columns", "info"),
    [
        (2, "range:(1 390000,1 +inf], [2 -inf,2 5000], keep order:true"),
        (2, "range:(1 0,1 40000], keep order:true, stats:pseudo"),
        (2, "range:(1 320000,1 360000], keep order:true, stats:partial[primary:unInitialized, tenant:allEvicted, id:allEvicted]"),
        (2, "range:(1 5,1 +inf], (1,3), [3 -inf,3 7], keep order:true"),
        (2, "range:(299 2026-06-06,299 +inf], [899 -inf,899 2026-06-06], keep order:true, stats:pseudo"),
        (2, "range:(2025-03-07 22:58:46.118 118:58:58.18,2025-03-07 22:58:46.118 +inf], [2025-03-21 20:32:44.692 -inf,"
            "2025-03-21 20:32:44.692 692:32:32.92], keep order:true"),
        (2, 'range:("a" 100,"a" +inf], ["m" -inf,"m" 7], keep order:true'),
        (1, r'range:("\x00K\x00E, (\x00Y]\"","\x00S\x00Z\x000"], keep order:true'),
        (1, r'range:("\x9eG\x84T00930","\x9eG\xd3!00226"], keep order:true'),
        (1, "range:(9223372036854775507,9223372036854776107], keep order:true"),
        (1, "range:(-9223372036854775808,-5], keep order:true"),
    ],
)  # fmt: skip
def test_a_range_of_the_whole_key_is_well(columns: int, info: str) -> None:
    assert problem(plan("TableRangeScan", info), key(columns)) is None
    assert problem(plan("IndexRangeScan_23(Build)", info), key(columns)) is None


@pytest.mark.parametrize(
    ("columns", "info"),
    [
        (2, "range:[1,1], keep order:true, stats:pseudo"),
        (2, "range:[1,1], [2,2], keep order:true"),
        (2, "range:[299,299], (299,899), [899,899], keep order:true, stats:pseudo"),
        (2, "range:[2025-03-07 22:58:46.118,2025-03-07 22:58:46.118], (2025-03-07 22:58:46.118,2025-03-21 20:32:44.692), keep order:true"),
        (2, 'range:["a b","a b"], keep order:true'),
        (3, "range:(1 5,1 +inf], [2 -inf,2 7], keep order:true"),
        (2, "range:(1 320000,1 +inf], (1,+inf], keep order:true"),
        (2, "something that is not known"),
    ],
)
def test_a_range_of_a_part_of_the_key_is_reported_with_its_columns(columns: int, info: str) -> None:
    text = problem(plan("TableRangeScan_23", info), key(columns))
    assert text is not None
    assert info in text
    assert "whole key (a, b" in text


@pytest.mark.parametrize("scan", ["TableFullScan_24", "TableFullScan", "IndexFullScan(Build)"])
def test_a_scan_of_the_whole_table_is_reported(scan: str) -> None:
    text = problem([*plan("Selection", "gt(cast(t.a, bigint UNSIGNED BINARY), 1)"), *plan(scan, "keep order:true")], key(1))
    assert text is not None
    assert "from its first row" in text


@pytest.mark.parametrize("scan", ["Point_Get", "TableDual", "TableRowIDScan"])
def test_what_reads_single_rows_is_well(scan: str) -> None:
    assert problem(plan(scan, "handle:1"), key(1)) is None


# ---- asked of a server ------------------------------------------------------------------------------------------------


@pytest.fixture
def tidb(tmp_path: Path) -> Iterator[FakeTidb]:
    with FakeTidb(tmp_path) as fake:
        fake.history = {
            0: {T: FakeTable(10, {"id": "bigint NOT NULL"}, rows=tuple((str(n),) for n in (1, 9)), counted=SCANNED_ROWS_MAX + 1)}
        }
        fake.plan = [("TableFullScan", "1.00", "cop[tikv]", "table:t", "keep order:true")]
        yield fake


def test_the_second_chunks_select_is_explained_with_its_predicate(tidb: FakeTidb) -> None:
    result = slow_reads(tidb.settings(), {T: "`t`.`id` <> 5"}, max_s=30)
    assert list(result.why) == [T]
    (requested,) = (sql for sql in tidb.statements if sql.startswith("EXPLAIN"))
    assert requested.startswith(
        "EXPLAIN FORMAT = 'brief' SELECT `t`.`id` AS c0 FROM `shop`.`t` AS `t` WHERE ((`t`.`id` > 1 AND `t`.`id` <= 9))"
    )
    assert "AND (`t`.`id` <> 5\n)" in requested


def test_small_tables_and_those_with_one_row_are_not_queried(tidb: FakeTidb) -> None:
    tidb.history = {0: {T: FakeTable(10, rows=(("1",),)), TableName("shop", "u"): FakeTable(11, rows=(("1",), ("2",)), counted=7)}}
    assert not slow_reads(tidb.settings(), dict.fromkeys(tidb.tables_at(1), ""), max_s=30).why
    assert not any(sql.startswith("EXPLAIN") for sql in tidb.statements)


def test_what_the_server_refuses_is_reported_of_its_table(tidb: FakeTidb) -> None:
    def before(sql: str) -> None:
        if sql.startswith("EXPLAIN"):
            raise Refused(1054, "Unknown column 't.nope' in 'where clause'")

    tidb.before = before
    assert "t.nope" in slow_reads(tidb.settings(), {T: "`t`.`nope` = 1"}, max_s=30).why[T]


def test_a_server_that_goes_away_is_an_error_and_no_answer(tidb: FakeTidb) -> None:
    def before(sql: str) -> None:
        if sql.startswith("EXPLAIN"):
            raise Refused(9001, "PD server timeout")

    tidb.before = before
    with pytest.raises(SourceLost):
        slow_reads(tidb.settings(), {T: ""}, max_s=30)


def test_the_largest_tables_are_queried_first_and_those_without_time_are_counted(tidb: FakeTidb) -> None:
    small, large, unknown = (TableName("shop", name) for name in "abc")
    counted = {small: SCANNED_ROWS_MAX + 1, large: SCANNED_ROWS_MAX * 9, unknown: 0}
    tidb.history = {0: {name: FakeTable(1, {"id": "bigint NOT NULL"}, rows=(("1",), ("9",)), counted=n) for name, n in counted.items()}}
    assert len(slow_reads(tidb.settings(), dict.fromkeys(counted, ""), max_s=30).why) == 3
    explained = [sql for sql in tidb.statements if sql.startswith("EXPLAIN")]
    assert [sql.partition("FROM `shop`.")[2][:3] for sql in explained] == ["`c`", "`b`", "`a`"]
    assert slow_reads(tidb.settings(), dict.fromkeys(counted, ""), max_s=-1).unasked == 3
