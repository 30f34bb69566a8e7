"""Dumps of what is incomplete, without an operator: one for the holes that there are, and none again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sidecar.adapters.memory.progress import MemoryHistory
from sidecar.control.status import SidecarStatus
from sidecar.history.entry import HistoryEntry, OperationKind, OperationScope
from sidecar.pace.controller import SinkState
from sidecar.run.filling import Filling, filling_id
from sidecar.shared.model.hole import HoleCause, OpenHole
from sidecar.shared.model.messages import NOT_RECORDED, Brackets
from sidecar.shared.model.nouns import CommitTs, Seq, TableName
from sidecar.shared.model.progress import OVER, DumpState, Progress, TableProgress
from sidecar.shared.model.sink_delivery import SinkTables
from tests.unit.control.serving import Owner
from ticdc_dump.v1 import control_pb2 as pb

A, B = TableName("s", "a"), TableName("s", "b")


class Life:
    """A term that fills; its history has what was started."""

    def __init__(self) -> None:
        status = Owner().status
        assert status is not None
        self.status: SidecarStatus | None = replace(
            status, dumps=(), sinks=(*(SinkState(name, 0.0, 0.0, 0.0, 0, holds=False) for name in ("lake", "copy")),)
        )
        self.history, self.started = MemoryHistory(), list[pb.StartRequest]()
        self.filling = Filling(lambda: self.status, self.history, self.start)

    def start(self, request: pb.StartRequest) -> None:
        self.started.append(request)
        entry = HistoryEntry(request.dump_id, OperationKind.DUMP, OperationScope(), NOT_RECORDED, 1)  # type: ignore[arg-type]  # an id
        self.history.record(entry)

    def holes(self, sink: str = "lake", **at: int) -> None:
        holes = {TableName("s", name): OpenHole(HoleCause.IMPORT, CommitTs(7), Seq(seq), False, "") for name, seq in at.items()}
        assert self.status is not None
        tables = SinkTables(sink, sink, Seq(0), None, Seq(9), None, holes=holes)
        self.status = replace(self.status, sink_tables={**self.status.sink_tables, sink: tables})

    def look(self) -> list[pb.StartRequest]:
        before = len(self.started)
        self.filling.look()
        return self.started[before:]

    def dumps(self, state: DumpState, table: TableName) -> None:
        assert self.status is not None
        dump = Progress("1" * 16, state, Brackets.WATERMARK, 10, 1, 1, Seq(5), (TableProgress(table),))
        self.status = replace(self.status, dumps=(dump,))


def test_each_set_of_holes_has_one_dump() -> None:
    life = Life()
    assert life.look() == []
    life.holes(a=3)
    (request,) = life.look()
    assert (request.holes, list(request.table_rules), request.dump_id) == (True, [], filling_id([("lake", A, 3)]))
    assert life.look() == [], "whatever became of it"
    life.holes(a=4)
    assert len(life.look()) == 1, "it was noticed again"
    life.holes(a=4, b=4)
    assert len(life.look()) == 1
    life.holes("copy", a=4)
    assert len(life.look()) == 1
    life.holes()
    life.holes("copy")
    assert life.look() == []


def test_the_next_owner_asks_for_the_same_one() -> None:
    first, second = Life(), Life()
    for life in (first, second):
        life.holes(a=3, b=2)
    assert first.look()[0].dump_id == second.look()[0].dump_id


@pytest.mark.parametrize("state", DumpState)
def test_a_dump_of_such_a_table_that_is_not_over_is_waited_for(state: DumpState) -> None:
    life = Life()
    life.holes(a=3)
    life.dumps(state, A)
    assert bool(life.look()) is (state in OVER)
    other = Life()
    other.holes(a=3)
    other.dumps(state, B)
    assert other.look()


def test_a_sink_that_was_taken_out_and_a_process_that_owns_nothing_start_none() -> None:
    life = Life()
    life.holes("removed", a=3)
    assert life.look() == []
    life.holes(a=3)
    life.status = None
    assert life.look() == []
