"""Continuous verification of a term: a slice is asked of the worker when it is due and nothing else is there to be done, only what somebody
may want to see is in the history, and the next owner continues."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from sidecar.adapters.memory.progress import MemoryHistory
from sidecar.pace.controller import SinkState
from sidecar.run import continuous
from sidecar.run.continuous import ContinuousVerification, ServedSlices
from sidecar.run.cycle import DAY_MS, ROWS_MIN, SLICE_ROWS, TableInSink, VerifiedTable
from sidecar.shared.errors import LogUnreachable, RefusedRequest, SourceLost
from sidecar.shared.log import storage
from sidecar.shared.log.verification import (
    CYCLE_STEM,
    CheckState,
    Slice,
    TableReport,
    VerifyRequest,
    report_name,
    request_name,
)
from sidecar.shared.log.verification_files import read_request, request_ids
from sidecar.shared.model.messages import Brackets
from sidecar.shared.model.nouns import CommitTs, Seq, TableName
from sidecar.shared.model.progress import OVER, DumpState, Progress
from sidecar.shared.model.sink_delivery import SinkTables
from sidecar.shared.ticdc.hidden_changes import KINDS, Explanation
from tests.unit.control.serving import ITEM, ORDERS, Filter, Owner
from tests.unit.run.test_term_verifications import ALICE, REQUEST, Term

FIRST, SECOND = TableInSink("copy", TableName("shop", "item")), TableInSink("copy", TableName("shop", "orders"))
NOON_MS = 100 * DAY_MS


class Owned(Term):
    """A term whose owner compares continuously."""

    def __init__(
        self, folder: Path, history: MemoryHistory, *, share_per_day: float = 1.0, names: Sequence[TableInSink] = (FIRST, SECOND)
    ) -> None:
        super().__init__(folder, history, share_per_day=share_per_day)
        self.now_ms = NOON_MS
        self.slices.names = names
        self.made.begin()

    def asked(self) -> VerifyRequest:
        """The slice that is under way."""
        [operation_id] = request_ids(self.log)
        request = read_request(self.log, operation_id)
        assert request is not None
        assert request.slice is not None
        return request

    def end(self, state: CheckState = CheckState.EQUAL, *, rows: int = 5, different: int = 0, upper: tuple[str, ...] = ()) -> VerifyRequest:
        """The slice that is under way."""
        request = self.asked()
        assert request.slice is not None
        table = TableReport("copy", *request.tables[0].name, state, rows=rows, rows_total=rows, different=different, upper=upper)
        table.lower = request.slice.after
        self.report(request.id, state, table)
        return request

    def next(self) -> bool:
        """Whether a slice begins when the pause is over."""
        self.now_ms += DAY_MS
        self.made.follow()
        return bool(request_ids(self.log))


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(continuous, "AGAIN_S", 0.0)


@pytest.fixture
def owned(tmp_path: Path) -> Owned:
    return Owned(tmp_path, MemoryHistory())


def test_an_equal_slice_leaves_nothing_but_what_was_compared_when(owned: Owned) -> None:
    request = owned.asked()
    assert (request.sinks, request.slice, request.asked_ms) == (("copy",), Slice((), (), SLICE_ROWS), NOON_MS)
    owned.now_ms += 7000
    owned.end()
    assert owned.history.entries() == []
    assert owned.lines == []
    assert storage.list_names(owned.log, deep=True) == [owned.owner.name(CYCLE_STEM)]
    assert owned.made.last_id() is None
    assert owned.made.needs_from() is None
    owned.now_ms += 3000
    assert owned.made.metrics() == ([VerifiedTable(FIRST, 3.0, 0)], DAY_MS / 1000)


def test_a_slice_that_differs_is_in_the_history_with_its_report(owned: Owned) -> None:
    request = owned.end(CheckState.DIFFERENT, different=2)
    [entry] = owned.history.entries()
    assert (entry.id, entry.state, entry.result) == (request.id, DumpState.FINISHED, "2 different")
    assert entry.asked_by.reason == "continuous verification"
    assert owned.made.find(request.id) is not None
    assert owned.made.last_id() == request.id
    assert owned.made.metrics().tables == [VerifiedTable(FIRST, 0.0, 2)]


@pytest.mark.parametrize("state", [CheckState.FAILED, CheckState.STOPPED])
def test_one_that_was_not_compared_is_in_the_history_and_another_table_comes_next(owned: Owned, state: CheckState) -> None:
    owned.end(state)
    assert [entry.state for entry in owned.history.entries()] == [DumpState(state)]
    assert [(one.age_s, one.differences) for one in owned.made.metrics().tables] == [(0.0, None)]
    storage.remove(owned.log, [name for name in storage.list_names(owned.log, deep=True) if name != owned.owner.name(CYCLE_STEM)])
    assert owned.next()
    assert owned.asked().tables[0].name == SECOND.table


def test_a_report_that_is_none_ends_its_slice(owned: Owned) -> None:
    request = owned.asked()
    storage.write_atomically(owned.log, report_name(request.id), b"[]")
    owned.made.follow()
    assert [entry.state for entry in owned.history.entries()] == [DumpState.FAILED]
    storage.remove(owned.log, [request_name(request.id), report_name(request.id)])
    assert owned.next()


def test_the_next_slice_begins_behind_the_last_one_after_a_pause(owned: Owned) -> None:
    owned.end(upper=("k",))
    pause_ms = DAY_MS // 2  # of two tables that cost the least
    owned.now_ms += pause_ms - 1
    owned.made.follow()
    assert request_ids(owned.log) == []
    owned.now_ms += 1
    owned.made.follow()
    assert (owned.asked().tables[0].name, owned.asked().slice) == (FIRST.table, Slice(("k",), (), SLICE_ROWS))
    owned.end()
    assert owned.next()
    assert owned.asked().tables[0].name == SECOND.table


def test_without_a_share_nothing_is_compared_but_what_operators_ask_for(tmp_path: Path) -> None:
    off = Owned(tmp_path, MemoryHistory(), share_per_day=0.0)
    assert not off.next()
    off.made.start(REQUEST, ALICE)
    orders = TableReport("copy", "shop", "orders", CheckState.DIFFERENT, rows=5, missing=2)
    off.report(REQUEST.id, CheckState.DIFFERENT, orders, TableReport("copy", "shop", "item", CheckState.EQUAL, rows=7, partial=True))
    assert off.made.metrics() == ([VerifiedTable(SECOND, 0.0, 2)], 0.0)
    again = Owned(tmp_path, off.history, share_per_day=0.0)
    assert again.made.metrics().tables == [VerifiedTable(SECOND, 0.0, 2)]


def test_it_waits_for_another_verification_but_not_for_one_that_waits_for_a_dump(tmp_path: Path) -> None:
    owned = Owned(tmp_path, MemoryHistory(), names=())
    owned.slices.names = [FIRST]
    owned.made.start(REQUEST, ALICE)
    owned.made.follow()
    assert request_ids(owned.log) == [REQUEST.id]
    owned.report(REQUEST.id, CheckState.EQUAL)
    owned.made.follow()
    assert len(request_ids(owned.log)) == 2


def test_one_slice_at_a_time(owned: Owned) -> None:
    first = owned.asked()
    for _ in range(5):
        assert owned.next()
    assert owned.asked() == first


def test_the_next_owner_ends_the_slice_that_is_under_way(owned: Owned, tmp_path: Path) -> None:
    request = owned.asked()
    following = Owned(tmp_path, owned.history)
    assert following.asked() == request, "and begins no other"
    following.end()
    assert following.made.metrics().tables == [VerifiedTable(FIRST, 0.0, 0)]
    assert following.next()
    assert following.asked().tables[0].name == SECOND.table


def test_a_slice_whose_request_was_never_written_is_begun_again(owned: Owned, tmp_path: Path) -> None:
    storage.remove(owned.log, [request_name(owned.asked().id)])
    following = Owned(tmp_path, owned.history)
    assert following.asked().tables[0].name == FIRST.table


def test_an_end_that_could_not_be_written_is_written_again(owned: Owned, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: object) -> None:
        raise LogUnreachable("the log is away", hint="wait")

    with monkeypatch.context() as patched:
        patched.setattr(ContinuousVerification, "_write", broken)
        request = owned.end(CheckState.DIFFERENT, different=2, upper=("k",))
    owned.made.follow()
    assert [entry.id for entry in owned.history.entries()] == [request.id]
    assert owned.made.metrics().tables == [VerifiedTable(FIRST, None, 2)], "counted once"


def test_a_file_that_is_none_begins_a_cycle_and_says_so(owned: Owned, tmp_path: Path) -> None:
    owned.end()
    storage.write_atomically(owned.log, owned.owner.name(CYCLE_STEM), b"[]")
    following = Owned(tmp_path, owned.history)
    assert [line.level for line in following.lines] == ["warning"]
    assert following.asked().tables[0].name == FIRST.table


def test_files_of_old_verifications_are_removed_and_the_cycle_is_not(owned: Owned) -> None:
    owned.end()
    owned.made.start(REQUEST, ALICE)
    assert storage.exists(owned.log, owned.owner.name(CYCLE_STEM))


def test_a_source_that_does_not_answer_is_queried_again_and_a_table_that_cannot_be_compared_waits(tmp_path: Path) -> None:
    owned = Owned(tmp_path, MemoryHistory(), names=())
    owned.slices.names, owned.slices.error = [FIRST, SECOND], SourceLost("no route to host", hint="wait")
    owned.made.follow()
    assert request_ids(owned.log) == []
    owned.slices.error = RefusedRequest("it has no key", hint="give it one")
    owned.made.follow()
    assert request_ids(owned.log) == []
    assert [line.event for line in owned.lines] == ["continuous verification waits"] * 2
    assert owned.next()
    assert owned.asked().tables[0].name == SECOND.table


def test_a_clock_that_is_set_back_makes_no_longer_pause(owned: Owned) -> None:
    owned.end()
    owned.now_ms -= 50 * DAY_MS
    owned.made.follow()
    assert owned.next()


def test_gone_tables_have_no_metrics(owned: Owned) -> None:
    owned.end()
    owned.slices.names = [SECOND]
    assert owned.made.metrics().tables == []


# ---- what the sidecar serves ------------------------------------------------------------------------------------------------


def test_tables_that_a_sink_has_whole_are_ready_while_it_works() -> None:
    whole = SinkTables("copy", "sqlite:///x", Seq(0), None, Seq(9), None, {ORDERS: CommitTs(3)})
    sink = SinkState("copy", 0.1, 0.5, 0.1, 0, holds=False)
    with Owner() as owner:
        assert owner.status is not None
        status = replace(owner.status, carried=(ORDERS, ITEM), sink_tables={"copy": whole}, sinks=(sink,))
        served = replace(owner.served(sinks={"copy": "", "shown": "it keeps nothing"}), status=lambda: status)
        slices = ServedSlices(lambda: served)
        assert slices.carried() == frozenset({TableInSink("copy", ORDERS), TableInSink("copy", ITEM)})
        assert slices.ready() == frozenset({TableInSink("copy", ORDERS)})
        assert slices.rows([ORDERS, ORDERS])[ORDERS] == 1000
        request = slices.request(TableInSink("copy", ORDERS), Slice(("1",), (), ROWS_MIN))
        assert (request.sinks, [table.name for table in request.tables]) == (("copy",), [ORDERS])
        assert request.slice == Slice(("1",), (), ROWS_MIN)
        whole_status = status
        status = replace(status, sinks=(replace(sink, error="no route to host"),))
        assert not slices.ready()
        for state in DumpState:
            status = replace(whole_status, dumps=(Progress("d" * 16, state, Brackets.WATERMARK, 10, 1, 1, Seq(0), ()),))
            assert bool(slices.ready()) is (state in OVER), "none while a dump is there"


def test_a_table_of_which_no_difference_can_be_judged_is_in_no_cycle() -> None:
    hides = Filter(
        explained={ORDERS: [Explanation("updates are hidden", frozenset(KINDS))], ITEM: [Explanation("deletes are", frozenset({"extra"}))]}
    )
    with Owner() as owner:
        assert owner.status is not None
        status = replace(owner.status, carried=(ORDERS, ITEM))
        served = replace(owner.served(sinks={"copy": ""}, feed_scope=hides), status=lambda: status)
        slices = ServedSlices(lambda: served)
        assert slices.carried() == frozenset({TableInSink("copy", ITEM)}), "it would be one that differs, in each cycle"
        [reported] = slices.request(TableInSink("copy", ITEM), Slice((), (), ROWS_MIN)).unjudged
        assert (reported.name, reported.kinds) == (ITEM, ("extra",))
        served = replace(served, feed_scope=Filter(), targets={"copy": lambda _: "one"})
        assert slices.carried() == frozenset()
