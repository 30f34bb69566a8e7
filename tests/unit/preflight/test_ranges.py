"""What `check` says of tables that TiDB would scan for each chunk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.adapters.tidb.ranges import SCANNED_ROWS_MAX
from sidecar.adapters.tidb.schema import TidbSchemas
from sidecar.preflight import ranges
from sidecar.preflight.ranges import read_ranges
from sidecar.preflight.source import REPORTED_MAX
from sidecar.shared.model.nouns import TableName
from sidecar.shared.process.checks import CheckFinding, CheckStatus
from sidecar.shared.ticdc.changefeed import Changefeed, ChangefeedName, EventFilter, FeedFilter
from tests.support.services.fake_tidb import FakeTable, FakeTidb, Refused

NAMES = [TableName("shop", f"t{number}") for number in range(REPORTED_MAX + 3)]
SCANNED = [("TableFullScan", "1.00", "cop[tikv]", "table:t", "keep order:true")]
RANGED = [("TableRangeScan", "1.00", "cop[tikv]", "table:t", "range:(1,9], keep order:true")]


@pytest.fixture
def tidb(tmp_path: Path) -> Iterator[FakeTidb]:
    with FakeTidb(tmp_path) as fake:
        large = FakeTable(1, {"id": "bigint NOT NULL"}, rows=(("1",), ("9",)), counted=SCANNED_ROWS_MAX + 1)
        fake.history = {0: dict.fromkeys(NAMES, large)}
        fake.plan = SCANNED
        yield fake


def slow_findings(tidb: FakeTidb, *filters: EventFilter) -> list[CheckFinding]:
    changefeed = Changefeed(
        ChangefeedName("default", "default", "cf"), "1", "kafka://h/t", filter=FeedFilter(("*.*",), event_filters=filters)
    )
    return list(read_ranges(tidb.settings(), changefeed, TidbSchemas(tidb.settings()).tables(), server_tz="UTC"))


def test_tables_that_are_scanned_are_warnings_by_name_and_the_rest_in_one(tidb: FakeTidb) -> None:
    findings = slow_findings(tidb)
    assert {finding.status for finding in findings} == {CheckStatus.WARNING}
    assert len(findings) == REPORTED_MAX + 1
    assert findings[0].what == "shop.t0: each chunk reads the table from its first row (TableFullScan)"
    assert findings[-1].what == "so are shop.t7, shop.t8, shop.t9"
    assert "--chunk-rows" in findings[0].hint


def test_where_all_are_ranges_it_says_of_how_many(tidb: FakeTidb) -> None:
    tidb.plan = RANGED
    (finding,) = slow_findings(tidb)
    assert (finding.status, finding.what) == (
        CheckStatus.OK,
        f"nothing is against reading {len(NAMES)} tables in pieces, by the source's plans",
    )


def test_a_filters_predicate_that_the_server_refuses_is_found_before_a_dump(tidb: FakeTidb) -> None:
    def before(sql: str) -> None:
        if sql.startswith("EXPLAIN") and "nope" in sql:
            raise Refused(1054, "Unknown column 'nope'")

    tidb.plan, tidb.before = RANGED, before
    (finding,) = slow_findings(tidb, EventFilter(("shop.t1",), ignore_insert_value_expr="nope > 1"), EventFilter(("shop.t2",), ("insert",)))
    assert finding.what.startswith("shop.t1: ")
    assert "1054" in finding.what
    assert not any("`t2`" in sql for sql in tidb.statements), "its inserts are left out, so it is not read"


def test_what_there_was_no_time_for_is_counted(tidb: FakeTidb, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "REQUESTED_MAX_S", -1.0)
    assert f"{len(NAMES)} of {len(NAMES)} tables were not checked" in slow_findings(tidb)[0].what
