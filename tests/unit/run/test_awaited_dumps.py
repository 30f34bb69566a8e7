"""When a verification begins that follows a dump."""

from __future__ import annotations

from itertools import product

import pytest

from sidecar.adapters.memory.progress import MemoryHistory
from sidecar.history.entry import HistoryEntry, OperationKind, OperationScope
from sidecar.run.awaited_dumps import AwaitedDumps, LogPosition
from sidecar.shared.log.verification import RequestedTable, VerifyRequest
from sidecar.shared.model.messages import Asker
from sidecar.shared.model.nouns import OperationId, Seq
from sidecar.shared.model.progress import DumpState

REQUEST = VerifyRequest(OperationId("v1"), ("copy", "lake"), (RequestedTable("shop", "orders"),), repair=True, after_dump="d1")


def history(state: DumpState) -> MemoryHistory:
    made = MemoryHistory()
    made.record(HistoryEntry(OperationId("d1"), OperationKind.DUMP, OperationScope(), Asker("alice", "", ""), 1, state))
    return made


@pytest.mark.parametrize(("copy", "lake"), [*product([None, 4, 5, 6], repeat=2)])
def test_it_begins_once_each_sink_has_what_the_log_had_when_the_dump_was_finished(copy: int | None, lake: int | None) -> None:
    """The log grows meanwhile: that is not waited for."""
    end, accepted = 5, dict[str, Seq | None](copy=None, lake=None, other=None)
    awaited = AwaitedDumps(history(DumpState.FINISHED), lambda: LogPosition(Seq(end), accepted))
    assert awaited.begins(REQUEST, now_ms=0) is False
    end = 9
    accepted |= {"copy": None if copy is None else Seq(copy), "lake": None if lake is None else Seq(lake)}
    has_it = all(one is not None and one >= 5 for one in (copy, lake))
    assert awaited.begins(REQUEST, now_ms=0) is has_it


def test_a_sink_that_is_no_more_is_not_waited_for() -> None:
    awaited = AwaitedDumps(history(DumpState.FINISHED), lambda: LogPosition(Seq(5), {"copy": Seq(5)}))
    assert awaited.begins(REQUEST, now_ms=0) is True


def test_it_does_not_begin_before_any_report_was_read() -> None:
    """As just after a takeover."""
    accepted = dict[str, Seq | None]()
    awaited = AwaitedDumps(history(DumpState.FINISHED), lambda: LogPosition(Seq(5), accepted))
    assert awaited.begins(REQUEST, now_ms=0) is False
    accepted |= {"copy": Seq(5), "lake": Seq(5)}
    assert awaited.begins(REQUEST, now_ms=0) is True


def test_a_dump_that_runs_is_waited_for_whatever_the_sinks_have() -> None:
    awaited = AwaitedDumps(history(DumpState.RUNNING), lambda: LogPosition(Seq(5), {"copy": Seq(5), "lake": Seq(5)}))
    assert awaited.begins(REQUEST, now_ms=0) is False
