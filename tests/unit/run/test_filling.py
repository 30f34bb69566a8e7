"""Dumps of what is incomplete, without an operator: one for each hole, and none again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import grpc
import pytest

from sidecar.control.local_call import CallRejected
from sidecar.control.status import SidecarStatus
from sidecar.pace.controller import SinkState
from sidecar.run.filling import BESIDE_MAX, STEM, TABLES_MAX, Filling
from sidecar.shared.log import storage
from sidecar.shared.log.owned import OwnedLog
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.hole import HoleCause, OpenHole
from sidecar.shared.model.messages import Brackets
from sidecar.shared.model.nouns import CommitTs, Seq, TableName
from sidecar.shared.model.progress import OVER, DumpState, Progress, TableProgress
from sidecar.shared.model.sink_delivery import SinkTables
from sidecar.shared.ticdc.table_rules import TableRules
from tests.unit.control.serving import Owner
from ticdc_dump.v1 import control_pb2 as pb

A, B, C = (TableName("s", name) for name in "abc")


def refused(request: pb.StartRequest) -> None:
    raise CallRejected(grpc.StatusCode.FAILED_PRECONDITION, f"{list(request.table_rules)} cannot be", {})


def away(_: pb.StartRequest) -> None:
    raise CallRejected(grpc.StatusCode.UNAVAILABLE, "TiDB is away", {})


class Life:
    """A term that fills, over a log's folder. `answers`: as the control service."""

    def __init__(self, folder: Path, *, epoch: int = 1) -> None:
        status = Owner().status
        assert status is not None
        sinks = tuple(SinkState(name, 0.0, 0.0, 0.0, 0, holds=False) for name in ("lake", "copy"))
        self.status: SidecarStatus | None = replace(status, dumps=(), sinks=sinks, carried=(A, B, C))
        self.started: list[frozenset[TableName]] = []
        self.ids: list[str] = []
        self.notes: list[str] = []
        self.answers: Callable[[pb.StartRequest], None] = lambda _: None
        self.filling = Filling(lambda: self.status, OwnedLog(open_folder(str(folder)), epoch), self.start, self.notes.append)

    def start(self, request: pb.StartRequest) -> None:
        self.answers(request)
        rules = TableRules.of(list(request.table_rules))
        assert request.holes
        self.ids.append(request.dump_id)
        self.started.append(frozenset(table for table in (A, B, C) if rules.matches(table)))

    def holes(self, sink: str = "lake", **at: int) -> None:
        """Below 0: rows vanished."""
        holes = {TableName("s", name): OpenHole(HoleCause.IMPORT, CommitTs(7), Seq(abs(seq)), seq < 0, "") for name, seq in at.items()}
        assert self.status is not None
        tables = SinkTables(sink, sink, Seq(0), None, Seq(9), None, holes=holes)
        self.status = replace(self.status, sink_tables={**self.status.sink_tables, sink: tables})

    def look(self) -> list[frozenset[TableName]]:
        before = len(self.started)
        self.filling.look()
        return self.started[before:]

    def dumps(self, *dumps: tuple[DumpState, TableName]) -> None:
        assert self.status is not None
        self.status = replace(
            self.status,
            dumps=tuple(
                Progress(f"{n:016d}", state, Brackets.WATERMARK, 10, 1, 1, Seq(5), (TableProgress(table),), number=n)
                for n, (state, table) in enumerate(dumps)
            ),
        )


def test_each_hole_has_one_dump_whatever_becomes_of_the_others(tmp_path: Path) -> None:
    """Sinks accept a dump's end at different times, so holes end one by one."""
    life = Life(tmp_path)
    assert life.look() == []
    life.holes(a=3, b=3)
    life.holes("copy", a=3, b=3)
    assert life.look() == [{A, B}]
    life.holes(a=3)
    assert life.look() == []
    life.holes()
    assert life.look() == []
    life.holes("copy", b=3)
    assert life.look() == []
    life.holes("copy", b=3, c=4)
    assert life.look() == [{C}]
    life.holes(b=5)
    assert life.look() == [{B}], "it was noticed again"


def test_the_next_owner_knows_which_had_one(tmp_path: Path) -> None:
    first = Life(tmp_path)
    first.holes(a=3)
    assert first.look() == [{A}]
    second = Life(tmp_path, epoch=2)
    second.holes(a=3, b=3)
    assert second.look() == [{B}]


def test_what_is_known_of_it_is_below_a_folder(tmp_path: Path) -> None:
    """A name without one would begin with a slash, which is another key on S3."""
    life = Life(tmp_path)
    life.holes(a=3)
    life.look()
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.json")] == [f"{STEM}-0000000001.json"]
    assert "/" in STEM


def test_where_a_process_dies_before_it_is_on_record_the_same_dump_is_requested(tmp_path: Path) -> None:
    lives = [Life(tmp_path / str(number)) for number in range(2)]
    for life in lives:
        life.holes(a=3, b=2)
        life.look()
    assert lives[0].ids == lives[1].ids != []


def test_holes_where_rows_vanished_have_a_dump_of_their_own(tmp_path: Path) -> None:
    life = Life(tmp_path)
    life.holes(a=3)
    life.holes("copy", b=-3)
    assert life.look() == [{A}, {B}]


@pytest.mark.parametrize("state", DumpState)
def test_a_dump_of_such_a_table_that_is_not_over_is_waited_for(tmp_path: Path, state: DumpState) -> None:
    life = Life(tmp_path)
    life.holes(a=3)
    life.dumps((state, A))
    assert bool(life.look()) is (state in OVER)
    other = Life(tmp_path / "other")
    other.holes(a=3)
    other.dumps((state, B))
    assert other.look() == [{A}]


def test_operators_have_room_for_dumps_of_their_own(tmp_path: Path) -> None:
    life = Life(tmp_path)
    life.holes(a=3)
    life.dumps(*[(DumpState.PAUSED, B)] * BESIDE_MAX)
    assert life.look() == []
    life.dumps(*[(DumpState.PAUSED, B)] * (BESIDE_MAX - 1))
    assert life.look() == [{A}]


def test_a_table_that_cannot_be_dumped_leaves_the_others_theirs(tmp_path: Path) -> None:
    life = Life(tmp_path)
    life.holes(a=3, b=3, c=3)
    life.answers = lambda request: refused(request) if any("b" in rule for rule in request.table_rules) else None
    assert life.look() == [{A}, {C}]
    assert [note for note in life.notes if "the hole of s.b is not filled automatically" in note] == life.notes != []
    assert life.look() == []


def test_an_outage_is_no_refusal(tmp_path: Path) -> None:
    life = Life(tmp_path)
    life.holes(a=3, b=3)
    life.answers = away
    with pytest.raises(CallRejected):
        life.look()
    life.answers = lambda _: None
    assert life.look() == [{A, B}]


def test_a_sink_that_was_taken_out_a_table_that_is_gone_and_a_process_that_owns_nothing_start_none(tmp_path: Path) -> None:
    life = Life(tmp_path)
    life.holes("removed", a=3)
    life.holes(gone=3)
    assert life.look() == []
    life.holes(a=3)
    life.status = None
    assert life.look() == []


def test_of_many_tables_a_dump_has_some(tmp_path: Path) -> None:
    life = Life(tmp_path)
    names = [f"t{number}" for number in range(TABLES_MAX + 1)]
    assert life.status is not None
    life.status = replace(life.status, carried=tuple(TableName("s", name) for name in names))
    life.holes("lake", **dict.fromkeys(names, 3))
    sizes: list[int] = []
    life.answers = lambda request: sizes.append(len(request.table_rules))
    life.look()
    life.look()
    assert sizes == [TABLES_MAX, 1]


def test_a_record_that_cannot_be_read_is_noted(tmp_path: Path) -> None:
    storage.write_atomically(open_folder(str(tmp_path)), f"{STEM}-0000000001.json", b"{")
    life = Life(tmp_path, epoch=2)
    life.holes(a=3)
    assert life.look() == [{A}]
    assert "cannot be read" in life.notes[0]
