"""What is read of a verification each second: it is that of its report, and says how much is left."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.shared.log import storage
from sidecar.shared.log.storage import open_folder
from sidecar.shared.log.verification import (
    TABLE_OVER,
    CheckState,
    RequestedTable,
    RowDifference,
    TableReport,
    VerifyReport,
    VerifyRequest,
    report_name,
    state_name,
)
from sidecar.shared.log.verification_files import read_state, write_report
from sidecar.shared.log.verification_state import SHOWN_MAX, TABLE_ROWS_MIN, share_done, state_of
from sidecar.shared.model.nouns import OperationId

V1 = OperationId("v1")
REQUEST = VerifyRequest(V1, ("copy",), (RequestedTable("shop", "item"),), asked_ms=5)
STATES = st.sampled_from([one for one in CheckState if one is not CheckState.STOPPED])
TABLES = st.lists(
    st.builds(
        TableReport,
        st.just("copy"),
        st.just("shop"),
        st.text("abc", min_size=1),
        STATES,
        rows=st.integers(0, 10**6),
        rows_total=st.integers(0, 10**7),
        missing=st.integers(0, 3),
        parts=st.integers(0, 9),
        parts_done=st.integers(0, 9),
        examples=st.lists(st.just(RowDifference("missing", ("1",))), max_size=2),
    ),
    max_size=80,
)


@given(TABLES)
def test_a_state_is_that_of_its_report_and_shows_what_is_not_equal_first(tables: list[TableReport]) -> None:
    report = VerifyReport(V1, CheckState.RUNNING, 1_000, tables=tables, written_ms=41_000, worked_s=10.0)
    state = state_of(report, REQUEST)
    assert (state.rows, state.differences) == (sum(one.rows for one in tables), sum(one.missing for one in tables))
    assert sum(state.tables.values()) == len(tables)
    assert all(state.tables[one] == sum(table.state is one for table in tables) for one in state.tables)
    assert all(not one.examples for one in state.shown)
    others = [one for one in tables if one.state not in (CheckState.WAITING, CheckState.EQUAL)]
    assert len(state.shown) == min(len(others), SHOWN_MAX)
    assert 0 <= share_done(tables) <= 1
    assert state.remaining_s >= 0
    assert state.rows_per_s == state.rows / 10.0, "an outage is no work"
    if tables and all(one.state in TABLE_OVER for one in tables):
        assert share_done(tables) == 1


@pytest.mark.parametrize(
    ("small", "large", "parts_done", "share"),
    [
        (10, 1_000_000, 0, 10 * TABLE_ROWS_MIN / (10 * TABLE_ROWS_MIN + 1_000_000)),
        (10, 1_000_000, 2, (10 * TABLE_ROWS_MIN + 500_000) / (10 * TABLE_ROWS_MIN + 1_000_000)),
        (10, 0, 0, 10 / 11),
    ],
    ids=["all small ones are done", "and half of the large one's ranges", "of which nothing is known"],
)
def test_time_left_goes_by_rows_and_ranges_and_not_by_tables(small: int, large: int, parts_done: int, share: float) -> None:
    tables = [TableReport("copy", "shop", f"t{number}", CheckState.EQUAL, rows=small, rows_total=small) for number in range(10)]
    tables.append(TableReport("copy", "shop", "large", CheckState.RUNNING, rows_total=large, parts=4, parts_done=parts_done))
    assert share_done(tables) == pytest.approx(share)
    report = VerifyReport(V1, CheckState.RUNNING, 1_000, tables=tables, written_ms=86_401_000, worked_s=100.0)
    expected_s = 100 * (1 - share) / share if share >= 0.02 else 0.0
    assert state_of(report, None).remaining_s == pytest.approx(expected_s)


@pytest.mark.parametrize("data", [None, b"", b"{", b"[]", b'{"id": "v1"}'])
def test_a_state_that_is_not_there_or_no_state_is_made_of_the_report(tmp_path: Path, data: bytes | None) -> None:
    log = open_folder(str(tmp_path))
    report = VerifyReport(V1, CheckState.EQUAL, 1, tables=[TableReport("copy", "shop", "item", CheckState.EQUAL, rows=7)])
    assert read_state(log, V1) is None
    write_report(log, report, REQUEST)
    known = read_state(log, V1)
    assert known is not None
    assert known.request is not None
    assert (known.request.asked_ms, known.request.tables) == (5, ())
    storage.remove(log, [state_name(V1)])
    if data is not None:
        storage.write_atomically(log, state_name(V1), data)
    made = read_state(log, V1)
    assert made is not None
    assert (made.rows, made.is_over, made.tables) == (known.rows, True, known.tables)


def test_a_state_is_small_however_many_tables_there_are(tmp_path: Path) -> None:
    log = open_folder(str(tmp_path))
    tables = [TableReport("copy", "shop", f"t{number}", CheckState.DIFFERENT, missing=1) for number in range(3_000)]
    write_report(log, VerifyReport(V1, CheckState.RUNNING, 1, tables=tables), REQUEST)
    assert len(storage.read_file(log, state_name(V1))) < 40_000 < len(storage.read_file(log, report_name(V1)))
