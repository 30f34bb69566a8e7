"""What compares and what is set, without a server; and in `make matrix` every reader, to the end, without and amid schema changes."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from sidecar.shared.model.nouns import Column, TableName, TableSchema
from tests.lanes import LANE
from tests.support.recorded_target import Case
from tests.support.services.connect import properties
from tests.tools.connect import iceberg
from tests.tools.connect.__main__ import CASES, reasons, table
from tests.tools.connect.judge import Verdict, compared, judged
from tests.tools.connect.kinds import KINDS
from tests.tools.connect.plain import of_connect, of_source, of_target
from tests.tools.connect.readers import Kind, topics_regex

SCHEMA = TableSchema(TableName("shop", "orders"), (Column("id", "int", nullable=False), Column("name", "text")), ("id",))
EPOCH_S = 1_700_000_000

EQUAL = [
    (Column("c", "int"), "-7", -7, -7),
    (Column("c", "uint"), "18446744073709551615", Decimal("18446744073709551615"), Decimal("18446744073709551615")),
    (Column("c", "uint"), "300", 300, "ASw="),
    (Column("c", "decimal", length=40, scale=2), "-1.50", "-1.5", "/2o="),
    (Column("c", "float"), "0.10000000149011612", "0.1", 0.1),
    (Column("c", "double"), "1e-07", 1e-7, 1e-7),
    (Column("c", "bit", length=12), "258", b"\x01\x02", "AgE="),
    (Column("c", "binary"), "00FF", b"\x00\xff", "AP8="),
    (Column("c", "date"), "2023-11-14", "2023-11-14", 19675),
    (Column("c", "datetime", scale=3), "2023-11-14 22:13:20.000", datetime.fromisoformat("2023-11-14T22:13:20"), EPOCH_S * 1000),
    (
        Column("c", "datetime", scale=6),
        "2023-11-14 22:13:20.000001",
        datetime.fromisoformat("2023-11-14T22:13:20.000001"),
        EPOCH_S * 10**6 + 1,
    ),
    (Column("c", "timestamp"), "2023-11-14 22:13:20", datetime.fromtimestamp(EPOCH_S, UTC), "2023-11-14T22:13:20Z"),
    (Column("c", "time", scale=3), "-838:59:59.000", -timedelta(hours=838, minutes=59, seconds=59), -3_020_399_000_000),
    (Column("c", "year"), "0000", 0, 0),
    (Column("c", "set", elements=("a", "b")), "a,b", "b,a", "a,b"),
    (Column("c", "json"), '{"a": [1, null, true]}', '{"a":[1.0,null,true]}', '{"a": [1, null, true]}'),
    (Column("c", "vector"), "[1,0.1]", "[1,0.1]", [1.0, 0.1]),
    (Column("c", "text"), None, None, None),
]
"""Canonical text, what a driver gives, and what Connect's own form is."""


@pytest.mark.parametrize(("column", "text", "driver", "connect"), EQUAL, ids=lambda one: getattr(one, "kind", ""))
def test_one_value_is_the_same_in_all_forms(column: Column, text: str | None, driver: object, connect: object) -> None:
    assert of_source(column, text) == of_target(column, driver) == of_connect(column, connect)


@pytest.mark.parametrize(
    ("column", "text", "other"),
    [
        (Column("c", "decimal", length=65, scale=30), f"{'9' * 35}.{'9' * 30}", f"{'9' * 35}.{'9' * 29}8"),
        (Column("c", "double"), "1.5e+300", "9.223372036854776e+18"),
        (Column("c", "datetime", scale=6), "2023-11-14 22:13:20.000001", "2023-11-14 22:13:20.000002"),
        (Column("c", "json"), '{"a": true}', '{"a": 1}'),
        (Column("c", "text"), "a", "A"),
        (Column("c", "text"), "", None),
    ],
)
def test_values_that_differ_a_little_differ(column: Column, text: str, other: str | None) -> None:
    assert of_source(column, text) != of_target(column, other)


@pytest.mark.parametrize("text", ["0000-00-00", "2020-02-30", "2020-00-10"])
def test_a_date_that_no_calendar_has_is_null_or_1970(text: str) -> None:
    assert of_source(Column("c", "date"), text) is None
    assert of_source(Column("c", "date", nullable=False), text) == of_connect(Column("c", "date"), 0) == 0


class TestCompared:
    ROWS = ((1, "a"), (2, None))

    def test_nothing_is_said_of_equal_rows_in_any_order(self) -> None:
        assert not compared(SCHEMA, self.ROWS, self.ROWS[::-1])

    @pytest.mark.parametrize(
        ("result", "said"),
        [
            (ROWS[:1], r"1 rows, 2 in the source; 1 missing \[\(2,\)\]"),
            ((*ROWS, (3, "c")), r"1 too many \[\(3,\)\]"),
            ((ROWS[0], (2, "b")), r"1 other in \['name'\].*is 'b', not None"),
            ((*ROWS, ROWS[0]), r"3 rows, 2 in the source; 0 missing"),
        ],
    )
    def test_each_difference_is_named(self, result: tuple[tuple[object, ...], ...], said: str) -> None:
        assert re.search(said, compared(SCHEMA, self.ROWS, result))

    def test_only_rows_that_a_ddl_removed_may_be_more(self) -> None:
        assert not compared(SCHEMA, self.ROWS, (*self.ROWS, (3, "c")), removed=True)
        assert "1 missing" in compared(SCHEMA, self.ROWS, (self.ROWS[0], (3, "c")), removed=True)


def test_topics_of_ddls_and_marks_are_not_read() -> None:
    is_read = re.compile(topics_regex("feed")).fullmatch
    assert is_read("feed.shop.orders")
    assert not any(map(is_read, ["feed", "__debezium-heartbeat.feed", "feed2.shop.orders"]))


def test_the_newest_of_a_key_has_the_greatest_offset_or_commit_ts() -> None:
    assert iceberg.of_cdc({"_cdc": {"offset": 7, "op": "D"}}) == (7, True)
    assert iceberg.of_flat({"__source_ts_ns": 5, "__op": "r"}) == (5, False)


def test_a_limit_is_kept_from_the_comparison_and_reported_with_its_reason() -> None:
    kind = Kind("one", KINDS[0].made, {"name": "too long"})
    assert kind.narrowed(SCHEMA).column_names() == ("id",)
    verdict = Verdict("one", 5, 2, kind.limits)
    assert reasons([verdict, replace(verdict, reader="two")]) == ["name (one, two): too long"]
    assert table([replace(verdict, differences=["orders: 1 missing"])], title="").row_count == 1


def test_a_backslash_of_a_password_reaches_java() -> None:
    assert properties({"password": r"p@ss:w/ord #1%\x", "a": "1"}) == "password=p@ss:w/ord #1%\\\\x\na=1\n"


@pytest.mark.recordings
@pytest.mark.xdist_group("connect")
@pytest.mark.skipif(not LANE.whole, reason="minutes of Kafka Connect: `make connect` and `make matrix`")
@pytest.mark.parametrize("case", CASES.values(), ids=str)
def test_every_reader_ends_with_the_rows_of_the_source(tmp_path: Path, case: Case) -> None:
    assert {one.reader: one.differences for one in judged(tmp_path, case, KINDS)} == {kind.name: [] for kind in KINDS}
