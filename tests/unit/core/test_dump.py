"""What holds for a dump in every life of it; single lives are told in tests/scenarios/dump_*.txt."""

from __future__ import annotations

import json
import re
from collections import deque
from dataclasses import replace
from random import Random

import pytest

from sidecar.core.dump import Dump
from sidecar.core.dump_reader import LOST_MAX, MISFITS_MAX
from sidecar.core.dump_run import READY_MS_MAX
from sidecar.core.dump_start import KEYS_BYTES_MAX, Demand, DumpLimits, DumpRoom, Ground, demand_of
from sidecar.core.dumps import WAITING_MAX, Dumps
from sidecar.core.plan import SPANS_MAX
from sidecar.shared.errors import DumpsWait, RefusedRequest, with_hint
from sidecar.shared.model.chunk import ChunkFile, ClosedWindow
from sidecar.shared.model.messages import (
    Brackets,
    ChunkLost,
    ChunkMisfit,
    ChunkRead,
    Command,
    MarkSent,
    Pace,
    PauseDump,
    ReadChunk,
    Request,
    RestartDump,
    ResumeDump,
    SegmentBuilt,
    SendMark,
    SetDump,
    Settings,
    SourceEvent,
    StartDump,
    StopDump,
)
from sidecar.shared.model.nouns import CommitTs, Mark, Seq, TableName, ts_at
from sidecar.shared.model.progress import OVER, DumpState, Progress, Span, TableProgress, keys_bytes, progress_from_json, unread

A, B = TableName("s", "a"), TableName("s", "b")
FIRST, SECOND = "1" * 16, "2" * 16
STEPS_MAX = 5000


def start(dump_id: str = FIRST, *, brackets: Brackets = Brackets.WATERMARK) -> StartDump:
    return StartDump(dump_id, (A, B), brackets, 10)


def dump(progress: Progress | None = None, *, epoch: int = 1, limits: DumpLimits | None = None) -> Dumps:
    return Dumps(
        changefeed_id="cf",
        epoch=epoch,
        limits=limits or DumpLimits(),
        recovered=() if progress is None else (progress,),
        after_ts=CommitTs(400),
        next_seq=Seq(5),
    )


def in_state(state: DumpState | None) -> Dumps:
    tables = (TableProgress(A), TableProgress(B))
    return dump(None if state is None else Progress(FIRST, state, Brackets.WATERMARK, 10, 1, 3, Seq(4), tables))


def state(d: Dumps) -> tuple[DumpState, str | None] | None:
    return (d.progress.state, d.progress.reason) if d.progress else None


LEGAL: dict[type[Request], set[DumpState | None]] = {
    StartDump: {None, *DumpState},
    RestartDump: set(DumpState),
    SetDump: {DumpState.RUNNING, DumpState.PAUSED},
    PauseDump: {DumpState.RUNNING},
    ResumeDump: {DumpState.PAUSED, DumpState.FAILED},
    StopDump: {DumpState.RUNNING, DumpState.PAUSED},
}
REQUESTS: list[Request] = [start(SECOND), RestartDump(SECOND), SetDump(Settings(readers=1)), PauseDump(), ResumeDump(), StopDump()]


@pytest.mark.parametrize("state", [None, DumpState.RUNNING, DumpState.PAUSED, *sorted(OVER)])
@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: type(request).__name__)
def test_a_request_is_legal_in_these_states_and_refused_in_all_others(request_: Request, state: DumpState | None) -> None:
    d = in_state(state)
    before = d.progress
    if state in LEGAL[type(request_)]:
        d.request(request_)
        assert max(record.revision for record in d.records) > (before.revision if before else -1)
        return
    with pytest.raises(RefusedRequest, match="no dump" if state is None else state) as error:
        d.request(request_)
    assert d.progress is before
    possible = {COMMANDS[kind] for kind, states in LEGAL.items() if state in states}
    named = set(re.findall("dump[a-z]+", error.value.hint)) - {"dumpquery"}
    assert named
    assert named <= possible, "what to do is something that can be done in this state"


COMMANDS: dict[type[Request], str] = {
    StartDump: "dumpstart",
    RestartDump: "dumprestart",
    SetDump: "dumpset",
    PauseDump: "dumppause",
    ResumeDump: "dumpresume",
    StopDump: "dumpstop",
}


@pytest.mark.parametrize("state", DumpState)
@pytest.mark.parametrize("sinks", [(), ("lake", "search"), ("search",)])
@pytest.mark.parametrize("dumped_for", [(), ("lake",), ("lake", "kafka")])
def test_a_dump_that_no_sink_would_receive_fails_and_can_be_resumed_when_one_has_its_name_back(
    state: DumpState, sinks: tuple[str, ...], dumped_for: tuple[str, ...]
) -> None:
    """`sinks`: their names since the last start, none where they are not known."""
    read = TableProgress(A, spans=(Span(("7",)),), chunks=3, rows=30)
    before = Progress(FIRST, state, Brackets.WATERMARK, 10, 1, 3, Seq(4), (read,), sinks=dumped_for, reason="why")
    progress = dump(before, limits=DumpLimits(sinks=sinks)).progress
    assert progress is not None
    if not dumped_for or sinks != ("search",):
        expected = DumpState.RUNNING if state is DumpState.QUEUED else state
        assert (progress.state, progress.reason) == (expected, "why")
        return
    assert progress.state is (state if state in OVER else DumpState.FAILED)
    if progress.state is not DumpState.FAILED:
        return
    assert state is DumpState.FAILED or f"is for {', '.join(sorted(dumped_for))}, and no sink has that name now" in str(progress.reason)
    again = dump(progress, limits=DumpLimits(sinks=sinks))
    with pytest.raises(RefusedRequest, match="no sink has that name now: the sinks are search"):
        again.request(ResumeDump())
    back = dump(progress, limits=DumpLimits(sinks=("lake",)))
    back.request(ResumeDump())
    assert back.progress is not None
    assert (back.progress.state, back.progress.tables) == (DumpState.RUNNING, (read,))


@pytest.mark.parametrize("brackets", Brackets)
@pytest.mark.parametrize("state", DumpState)
def test_a_dump_whose_marks_do_not_come_any_more_fails_and_a_restart_has_snapshots(state: DumpState, brackets: Brackets) -> None:
    """The changefeed's filter was changed while no sidecar ran, or between two terms."""
    omitted = DumpLimits(no_marks=with_hint("the filter omits them", "add the rule"))
    read = TableProgress(A, spans=(Span(("7",)),), chunks=3, rows=30)
    before = Progress(FIRST, state, brackets, 10, 1, 3, Seq(4), (read,), reason="why")
    with_marks = brackets is Brackets.WATERMARK
    d = dump(before, limits=omitted)
    assert d.progress is not None
    fails = with_marks and state not in OVER
    left = DumpState.RUNNING if state is DumpState.QUEUED else state
    assert d.progress.state is (DumpState.FAILED if fails else left)
    assert ("the filter omits them" in str(d.progress.reason)) is fails
    if fails:
        with pytest.raises(RefusedRequest, match="dumprestart") as refused:
            d.request(ResumeDump())
        assert "add the rule" in refused.value.hint
        back = dump(d.progress)
        back.request(ResumeDump())
        assert back.progress is not None
        assert (back.progress.state, back.progress.tables) == (DumpState.RUNNING, (read,)), "the filter is as it was again"
    d.request(RestartDump(SECOND))
    assert {one.dump_id: one.brackets for one in d.records}[SECOND] is Brackets.SNAPSHOT


def test_a_dump_with_marks_is_refused_where_none_come() -> None:
    d = dump(limits=DumpLimits(no_marks=with_hint("the filter omits them", "add the rule")))
    with pytest.raises(RefusedRequest, match="marks do not come by the feed: the filter omits them") as refused:
        d.request(StartDump(FIRST, (A,), Brackets.WATERMARK, 10))
    assert refused.value.hint == "use --brackets snapshot; or add the rule"
    d.request(StartDump(FIRST, (A,), Brackets.SNAPSHOT, 10))
    assert d.progress is not None


def test_a_dump_of_the_sidecars_own_has_snapshots_where_no_marks_come() -> None:
    """After a DDL that rewrote rows: refused, it would stop the stream at that DDL for ever."""
    again = StartDump(FIRST, (A,), Brackets.WATERMARK, 10)
    d = dump(limits=DumpLimits(no_marks=with_hint("the filter omits them", "add the rule")))
    d.request(d.bracketed(again))
    assert [one.brackets for one in d.records] == [Brackets.SNAPSHOT]
    assert dump().bracketed(again) == again


def test_a_dump_for_which_there_is_no_room_is_refused_as_such() -> None:
    """So that a repair can tell it from one that can never be."""
    d = dump()
    for number in range(WAITING_MAX):
        d.request(start(f"{number:016d}"))
    with pytest.raises(DumpsWait, match=f"{WAITING_MAX} dumps run or wait already"):
        d.request(start("f" * 16))


@pytest.mark.parametrize("state", [DumpState.QUEUED, *sorted(OVER)])
def test_a_dump_that_waits_or_is_over_takes_none_of_what_is_shared(state: DumpState) -> None:
    ground = Ground("cf", 1, DumpLimits(), CommitTs(400), Seq(5))
    one = Dump(Progress(FIRST, state, Brackets.WATERMARK, 10, 1, 3, Seq(4), (TableProgress(A),)), ground)
    assert (ground.runs, one.next(), one.segment(SegmentBuilt(Seq(5), CommitTs(400), CommitTs(500)), [])) == ([], [], ())
    if state is DumpState.QUEUED:
        one.begin()
        assert len(ground.runs) == 1
        one.request(StopDump())
        assert ground.runs == []


def test_a_finished_dump_leaves_what_is_shared_with_its_last_window() -> None:
    ground = Ground("cf", 1, DumpLimits(readers=1), CommitTs(400), Seq(5))
    table = TableProgress(A)
    one = Dump(Progress(FIRST, DumpState.RUNNING, Brackets.SNAPSHOT, 10, 1, 3, Seq(4), (table,), sinks=("lake",)), ground)
    (read,) = one.next()
    assert isinstance(read, ReadChunk)
    one.handle(ChunkRead(read.number, ChunkFile(A, "1-1", 3, 30, None, ("3",), CommitTs(500)), exhausted=True))
    assert demand_of(ground).sinks == ("lake",)
    assert len(one.segment(SegmentBuilt(Seq(5), CommitTs(400), CommitTs(500)), [])) == 1
    assert (one.progress.state, ground.runs, demand_of(ground)) == (DumpState.FINISHED, [], Demand())


def test_a_dump_that_was_restarted_takes_no_part_in_what_is_shared() -> None:
    """What it was reading would keep the dump that follows it from reading."""
    d = dump(limits=DumpLimits(readers=2))
    d.request(StartDump(FIRST, (A, B), Brackets.SNAPSHOT, 1_000))
    d.allow(room(window=100, open_rows=200))
    assert [command.rows_max for command in d.next() if isinstance(command, ReadChunk)] == [100, 100]
    d.request(RestartDump(SECOND))
    assert d.demand().open_rows == 0
    assert [run.progress.dump_id for run in d._ground.runs] == [SECOND]
    assert [(command.dump_id, command.rows_max) for command in d.next() if isinstance(command, ReadChunk)] == [(SECOND, 100)] * 2


@pytest.mark.parametrize("state", [None, DumpState.PAUSED, *sorted(OVER)])
def test_nothing_begins_in_a_dump_that_does_not_run(state: DumpState | None) -> None:
    assert in_state(state).next() == []


def test_restart_keeps_the_scope_and_begins_at_the_start() -> None:
    done = (
        TableProgress(A, (), chunks=1, rows=9, bytes=90, complete_at=CommitTs(300)),
        TableProgress(B, (Span(("5",)),), chunks=1, where="v > 1"),
    )
    d = dump(
        Progress(FIRST, DumpState.FAILED, Brackets.SNAPSHOT, 7, 1, 3, Seq(4), done, reason="no table", for_ddl=CommitTs(50), exact=True)
    )
    d.request(RestartDump(SECOND, exact=True))
    fresh = (TableProgress(A, since_seq=Seq(5)), TableProgress(B, where="v > 1", since_seq=Seq(5)))
    again = Progress(
        SECOND, DumpState.RUNNING, Brackets.SNAPSHOT, 7, 1, 5, Seq(4), fresh, reason=None, number=1, for_ddl=CommitTs(50), exact=True
    )
    assert d.progress == again


@pytest.mark.parametrize("state", [DumpState.QUEUED, DumpState.RUNNING, DumpState.PAUSED])
@pytest.mark.parametrize("for_ddl", [None, CommitTs(50)])
def test_the_stop_of_a_dump_for_a_ddl_says_what_its_sinks_lack_then(state: DumpState, for_ddl: CommitTs | None) -> None:
    """They may have carried the DDL out already, with values of their own."""
    tables = (TableProgress(A, (), complete_at=CommitTs(300)), TableProgress(B))
    other = Progress(SECOND, DumpState.RUNNING, Brackets.SNAPSHOT, 7, 1, 3, Seq(4), tables)
    one = Progress(FIRST, state, Brackets.SNAPSHOT, 7, 1, 3, Seq(4), tables, sinks=("copy", "lake"), for_ddl=for_ddl, number=1)
    d = Dumps(changefeed_id="cf", epoch=1, limits=DumpLimits(), recovered=(other, one), after_ts=CommitTs(400), next_seq=Seq(5))
    d.request(StopDump(FIRST))
    stopped = next(one for one in d.records if one.dump_id == FIRST)
    lacks = "1 of its 2 tables lack the values of the DDL at commit_ts 50 in each of these sinks that has carried it out: copy, lake"
    assert stopped.state is DumpState.STOPPED
    hint = f"use dumprestart --id {FIRST}, or dumpstart --for-ddl 50 --sink copy,lake with its tables"
    assert stopped.reason == (with_hint(lacks, hint) if for_ddl else None)
    d.request(RestartDump(SECOND[:-1] + "3", FIRST))
    assert (d.records[-1].for_ddl, d.records[-1].reason) == (for_ddl, None)


@pytest.mark.parametrize(("recorded", "requested"), [(True, False), (False, True), (None, True), (None, False)])
def test_a_restart_is_of_the_dump_that_its_request_was_about(recorded: bool | None, requested: bool) -> None:
    """The service looks whether that one is exact before the restart, which may name no dump."""
    d = dump(Progress(FIRST, DumpState.FAILED, Brackets.SNAPSHOT, 7, 1, 3, Seq(4), (TableProgress(A),), exact=recorded))
    if recorded is None:
        d.request(RestartDump(SECOND, exact=requested))
        assert d.progress is not None
        assert (d.progress.dump_id, d.progress.exact) == (SECOND, requested)
        return
    with pytest.raises(RefusedRequest, match="is not the one that was shown"):
        d.request(RestartDump(SECOND, exact=requested))
    assert [one.dump_id for one in d.records] == [FIRST]


KEYS = tuple((str(number),) for number in range(9))


def of_keys(dump_id: str, table: TableName, size: int) -> StartDump:
    """A dump whose keys take `size` bytes."""
    return StartDump(dump_id, (table,), Brackets.SNAPSHOT, 10, keys=((table, (("k" * (size - keys_bytes([("",)])),),)),), narrowed=(table,))


def test_keys_that_would_make_each_manifest_too_large_are_rejected_and_change_nothing() -> None:
    d = dump()
    with pytest.raises(RefusedRequest, match="its keys take 524,289 bytes, more than 524,288"):
        d.request(of_keys(FIRST, A, KEYS_BYTES_MAX + 1))
    assert not d.records
    d.request(of_keys(FIRST, A, KEYS_BYTES_MAX - 100))
    before = d.records
    with pytest.raises(DumpsWait, match="those of the dumps that run or wait 524,188"):
        d.request(of_keys(SECOND, B, 101))
    assert d.records == before
    d.request(of_keys(SECOND, B, 100))
    d.request(StartDump("3" * 16, (A,), Brackets.SNAPSHOT, 10))
    d.request(RestartDump("4" * 16, FIRST))
    assert {record.dump_id for record in d.records} == {SECOND, "3" * 16, "4" * 16}, "a dump is restarted with its own keys"


def test_a_dump_of_keys_that_has_finished_keeps_their_number_only() -> None:
    d = dump(limits=DumpLimits(readers=1))
    d.request(StartDump(FIRST, (A,), Brackets.SNAPSHOT, 10, keys=((A, KEYS),), narrowed=(A,)))
    (read,) = d.next()
    assert isinstance(read, ReadChunk)
    d.handle(ChunkRead(read.number, ChunkFile(A, "1-1", 9, 30, None, KEYS[-1], CommitTs(500)), exhausted=True))
    running = d.records[0]
    assert (running.tables[0].keys, running.tables[0].key_count) == (KEYS, 9)
    assert len(d.segment(SegmentBuilt(Seq(5), CommitTs(400), CommitTs(500)), [])) == 1
    (over,) = d.records
    assert (over.state, over.tables[0].keys, over.tables[0].key_count) == (DumpState.FINISHED, (), 9)
    assert over.revision > running.revision, "the newer of two copies is the one without keys"
    assert progress_from_json(over.to_json()) == over
    for request in (RestartDump(SECOND), RestartDump(SECOND, FIRST)):
        with pytest.raises(RefusedRequest, match="its keys are not kept"):
            d.request(request)
    recovered = dump(
        Progress(FIRST, DumpState.FINISHED, Brackets.SNAPSHOT, 10, 1, 3, Seq(4), (TableProgress(A, (), keys=KEYS, whole=False),))
    )
    assert recovered.records[0].tables[0].key_count == 9
    assert not recovered.records[0].tables[0].keys, "of one that an older version has kept, too"


def test_a_dump_whose_keys_are_gone_is_not_resumed_as_one_of_the_whole_table() -> None:
    """Its record is of another log: the dump would read its rows again."""
    failed = Progress(
        FIRST, DumpState.FAILED, Brackets.SNAPSHOT, 10, 1, 3, Seq(4), (TableProgress(A, unread(()), whole=False, past_keys=9),)
    )
    with pytest.raises(RefusedRequest, match="its keys are not kept"):
        dump(failed).request(ResumeDump())


def test_what_is_set_is_of_the_dump_and_what_is_not_given_stays() -> None:
    d = in_state(DumpState.RUNNING)
    d.request(SetDump(Settings(chunk_rows=7, delivery_bound_s=2.5)))
    d.request(SetDump(Settings(readers=3, rows_per_s=100)))
    assert d.progress is not None
    assert (d.progress.state, d.progress.chunk_rows, d.progress.pace) == (DumpState.RUNNING, 7, Pace(3, 100, 0, 2.5))
    d.request(PauseDump())
    d.request(ResumeDump(Settings(rows_per_s=0)))
    assert (d.progress.state, d.progress.pace) == (DumpState.RUNNING, Pace(3, 0, 0, 2.5))
    assert progress_from_json(json.loads(json.dumps(d.progress.to_json()))) == d.progress


@pytest.mark.parametrize("wrong", [Settings(chunk_rows=0), Settings(readers=65), Settings(readers=-1), Settings(delivery_bound_s=-1.0)])
def test_settings_that_cannot_be_are_refused_and_change_nothing(wrong: Settings) -> None:
    d = in_state(DumpState.PAUSED)
    before = d.progress
    for request in (SetDump(wrong), ResumeDump(wrong)):
        with pytest.raises(RefusedRequest, match="cannot be"):
            d.request(request)
    assert d.progress is before


def room(*, rows: int = 400, size: int = 1 << 20, width: int = 400, window: int = 100, open_rows: int = 400) -> DumpRoom:
    return DumpRoom(rows, size, width, window, open_rows)


def test_what_is_read_and_not_in_the_log_has_a_bound_but_for_one_chunk_when_nothing_is() -> None:
    d = dump(limits=DumpLimits(readers=3))
    d.request(StartDump(FIRST, (A, B, TableName("s", "c")), Brackets.SNAPSHOT, 1_000))
    d.allow(room(rows=0, open_rows=0))
    (read,) = d.next()
    assert isinstance(read, ReadChunk)
    assert read.rows_max == 100, "a window"
    assert d.demand() == Demand(100, starved=True, readers=3, opened=1, waiting=1)
    d.allow(room(rows=0, open_rows=200))
    assert len(d.next()) == 1
    assert (d.demand().open_rows, d.demand().starved) == (200, True)
    d.allow(room(rows=0, open_rows=300))
    assert len(d.next()) == 1
    file = ChunkFile(A, "1-1", 100, 1000, None, ("100",), CommitTs(500))
    assert d.handle(ChunkRead(read.number, file, exhausted=False)) == [], "the window has no room for more"
    assert (d.demand().open_rows, d.demand().waiting) == (300, 3)


def windows_of(d: Dumps, number: int) -> list[ClosedWindow]:
    return list(d.segment(SegmentBuilt(Seq(number), CommitTs(100 * number), CommitTs(100 * number + 100)), []))


def test_windows_close_in_the_log_as_the_sinks_leave_room_and_the_dumps_take_turns() -> None:
    d = dump(limits=DumpLimits(readers=1, window_chunks_max=1))
    for dump_id, table in ((FIRST, A), (SECOND, B)):
        d.request(StartDump(dump_id, (table,), Brackets.SNAPSHOT, 100))
    for at in range(3):
        for read in [command for command in d.next() if isinstance(command, ReadChunk)]:
            file = ChunkFile(read.table, f"{read.number}", 99, 990, None, (str(at),), CommitTs(450))
            assert d.handle(ChunkRead(read.number, file, exhausted=at == 2)) == []
    assert d.demand().waiting == 6
    d.allow(room(rows=0))
    assert windows_of(d, 4) == []
    assert (d.demand().held, d.demand().ready_rows, d.demand().open_rows, d.demand().waiting) == (True, 594, 594, 0)
    assert not d.closes_by(CommitTs(10**9))
    d.allow(room(rows=400, width=400))
    assert d.closes_by(CommitTs(0))
    (first,) = windows_of(d, 5)
    assert first.dump_id == FIRST, "one window for sinks that had nothing"
    d.allow(room(rows=399, width=400, size=2_000))
    (one, two) = windows_of(d, 6)
    assert one.dump_id == two.dump_id == SECOND, "the other dump's turn; its third window has too many bytes"
    assert {one.high_ts, two.high_ts} == {601}


@pytest.mark.parametrize("large_first", [True, False])
def test_a_window_that_never_fits_beside_another_dumps_windows_closes_while_that_one_goes_on(large_first: bool) -> None:
    """Sinks that are never without a row of the other dump leave no room for it; open, it holds the log and grows by all live changes."""
    d = dump(limits=DumpLimits(readers=1, window_chunks_max=1))
    dumps = ((FIRST, A), (SECOND, B)) if large_first else ((FIRST, B), (SECOND, A))
    for dump_id, table in dumps:
        d.request(StartDump(dump_id, (table,), Brackets.SNAPSHOT, 100))
    closed: list[ClosedWindow] = []
    queued = 0
    for seq in range(5, 25):
        for read in [command for command in d.next() if isinstance(command, ReadChunk)]:
            rows, size = 9, (2 << 20 if read.table == A else 90)
            tso = CommitTs(100 * (seq - 1) + 50)
            file = ChunkFile(read.table, f"{read.number}", rows, size, read.after, (str(seq),), tso)
            d.handle(ChunkRead(read.number, file, exhausted=read.table == A))
        left = 400 - queued if queued else 400
        d.allow(room(rows=left - (queued > 0), width=400))
        there = d.closes_by(CommitTs(100 * seq))
        windows = d.segment(SegmentBuilt(Seq(seq), CommitTs(100 * seq - 100), CommitTs(100 * seq)), [])
        assert bool(windows) is there, "a segment without a change is written for a window that closes there, and for no other"
        closed += windows
        queued = queued // 2 + 10 * len(windows)
    assert [window for window in closed if window.chunks[0].table == A], "the large one"
    assert d.records[1 - large_first].state is DumpState.FINISHED
    assert len([window for window in closed if window.chunks[0].table == B]) > 5, "those of the other dump"


def test_what_has_waited_very_long_for_the_sinks_is_read_again_but_for_the_first() -> None:
    """A window over all live changes of an outage would hold up who merges it."""
    d = dump(limits=DumpLimits(readers=1, window_chunks_max=1))
    d.request(StartDump(FIRST, (A,), Brackets.SNAPSHOT, 100))
    afters = []
    for at in range(3):
        (read,) = [command for command in d.next() if isinstance(command, ReadChunk)]
        afters.append(read.after)
        d.handle(ChunkRead(read.number, ChunkFile(A, f"{at}", 99, 990, read.after, (str(at),), ts_at(1_000)), exhausted=False))
    ends_ms = (2_000, 2_000 + READY_MS_MAX, 2_001 + READY_MS_MAX, 2_002 + READY_MS_MAX)
    closed: list[ClosedWindow] = []
    for seq, end_ms in enumerate(ends_ms):
        d.allow(room(rows=0 if seq != 2 else 400))
        closed += d.segment(SegmentBuilt(Seq(5 + seq), ts_at(end_ms - 1), ts_at(end_ms)), [])
    assert ([chunk.after for window in closed for chunk in window.chunks], d.demand().ready_rows, d.open_windows()) == ([None], 0, 0)
    (again,) = [command for command in d.next() if isinstance(command, ReadChunk)]
    assert again.after == afters[1] == ("0",)


def test_goes_on_under_its_own_epoch_as_a_newer_revision() -> None:
    d = dump(Progress(FIRST, DumpState.PAUSED, Brackets.WATERMARK, 10, 1, 3, Seq(4), (TableProgress(A),)), epoch=2)
    assert d.progress == Progress(FIRST, DumpState.PAUSED, Brackets.WATERMARK, 10, 2, 4, Seq(4), (TableProgress(A),))


def test_chunk_numbers_are_never_used_twice_by_one_owner() -> None:
    """They name files: a restarted dump, or one that was stopped, must not write over what is still being read."""
    d = dump(limits=DumpLimits(readers=1))
    d.request(start(brackets=Brackets.SNAPSHOT))
    numbers = [command.number for command in d.next() if isinstance(command, ReadChunk)]
    d.request(RestartDump(SECOND))
    numbers += [command.number for command in d.next() if isinstance(command, ReadChunk)]
    assert numbers == [1, 2]


def test_a_command_reports_dump_and_epoch_so_that_files_of_previous_owners_are_known() -> None:
    d = dump(epoch=9, limits=DumpLimits(readers=1))
    d.request(start(brackets=Brackets.SNAPSHOT))
    assert d.next() == [
        ReadChunk(
            dump_id=FIRST, epoch=9, number=1, table=A, after=None, upper=None, rows_max=10, brackets=Brackets.SNAPSHOT, bounds_max=SPANS_MAX
        )
    ]


def test_a_table_that_does_not_fit_again_and_again_fails_the_dump() -> None:
    """After so many SELECTs, each with every DDL before it passed, no DDL that is on its way explains it."""
    d = dump(limits=DumpLimits(readers=1))
    d.request(StartDump(FIRST, (A,), Brackets.SNAPSHOT, 10))
    for at in range(MISFITS_MAX + 1):
        assert state(d) == (DumpState.RUNNING, None)
        (read,) = d.next()
        assert isinstance(read, ReadChunk)
        assert d.handle(ChunkMisfit(read, CommitTs(401 + at), "no such column", "look at it")) == []
        assert d.next() == [], "its range waits"
        d.segment(SegmentBuilt(Seq(5 + at), CommitTs(400 + at), CommitTs(401 + at)), [])
    assert state(d) == (DumpState.FAILED, "no such column (look at it)")


def test_a_chunk_whose_reader_is_gone_is_requested_again_under_another_number_and_its_own_counts_no_more() -> None:
    d = dump(limits=DumpLimits(readers=1))
    d.request(StartDump(FIRST, (A,), Brackets.SNAPSHOT, 10))
    (first,) = d.next()
    assert isinstance(first, ReadChunk)
    assert d.handle(ChunkLost(first, "killed", "look at Spark")) == []
    (again,) = d.next()
    assert isinstance(again, ReadChunk)
    assert again == replace(first, number=2)
    late = ChunkRead(first.number, ChunkFile(A, "late", 3, 30, None, ("3",), CommitTs(450)), exhausted=True)
    assert d.handle(late) == []
    assert d.demand().open_rows == 10, "what a reader that is gone reports is of no window"
    file = ChunkFile(A, "again", 3, 30, None, ("3",), CommitTs(450))
    assert d.handle(ChunkRead(again.number, file, exhausted=True)) == []
    (window,) = windows_of(d, 5)
    assert [chunk.path for chunk in window.chunks] == ["again"]


def test_a_table_whose_readers_end_again_and_again_fails_the_dump_unless_one_comes_through() -> None:
    d = dump(limits=DumpLimits(readers=1))
    d.request(StartDump(FIRST, (A,), Brackets.SNAPSHOT, 10))
    for _ in range(LOST_MAX - 1):
        assert d.handle(ChunkLost(read_of(d), "killed", "look at Spark")) == []
    read = read_of(d)
    (command,) = d.handle(ChunkRead(read.number, ChunkFile(A, "one", 3, 30, None, ("3",), CommitTs(450)), exhausted=False))
    for _ in range(LOST_MAX):
        assert state(d) == (DumpState.RUNNING, None)
        assert isinstance(command, ReadChunk)
        d.handle(ChunkLost(command, "killed", "look at Spark"))
        (command,) = d.next() or [command]
    assert state(d) == (DumpState.FAILED, "killed (look at Spark)")


def test_readers_that_end_together_are_one_end_however_many_they_are() -> None:
    d = dump(limits=DumpLimits(readers=2 * LOST_MAX, window_chunks_max=1, open_windows_max=1000))
    d.request(StartDump(FIRST, (A,), Brackets.SNAPSHOT, 10, pace=Pace(readers=2 * LOST_MAX)))
    read = read_of(d)
    spans = tuple((str(10 * number),) for number in range(1, 3 * LOST_MAX))
    d.handle(ChunkRead(read.number, ChunkFile(A, "one", 3, 30, None, ("3",), CommitTs(450)), exhausted=False, bounds=spans))
    for _ in range(2):
        reads = [command for command in d.next() if isinstance(command, ReadChunk)]
        assert len(reads) >= LOST_MAX
        for read in reads:
            d.handle(ChunkLost(read, "the worker was killed", "look at Spark"))
        assert state(d) == (DumpState.RUNNING, None)


def read_of(d: Dumps) -> ReadChunk:
    reads = [command for command in d.next() if isinstance(command, ReadChunk)]
    return reads[0]


class Life:
    """A source, a feed and a log for one dump, driven by chance: answers in any order, marks one after another, segments at
    any moment, crashes, pauses. The tables do not change, so the rows that must be in the log are known."""

    def __init__(self, rng: Random, brackets: Brackets) -> None:
        self.rng = rng
        self.rows = {table: rng.randrange(25) for table in (A, B)}
        self.limits = DumpLimits(rng.randint(1, 3), rng.randint(1, 3), rng.randint(1, 4), rng.choice([1, 100, 1 << 20]))
        self.ts, self.upto_ts, self.seq, self.epoch = 400, 400, 4, 1
        self.closed: list[ClosedWindow] = []
        self.read_at: dict[str, int] = {}
        self.in_log: Progress | None = None
        self.served = self.lost = 0
        self._attach()
        self.dump.request(StartDump(FIRST, (A, B), brackets, rng.choice([1, 3, 10])))

    def _attach(self) -> None:
        stored = progress_from_json(json.loads(json.dumps(self.in_log.to_json()))) if self.in_log else None
        self.dump = Dumps(
            changefeed_id="cf",
            epoch=self.epoch,
            limits=self.limits,
            recovered=() if stored is None else (stored,),
            after_ts=CommitTs(self.upto_ts),
            next_seq=Seq(self.seq + 1),
        )
        self.marks: deque[SendMark] = deque()
        self.reads: list[ReadChunk] = []
        self.answers: list[SourceEvent] = []
        self.feed: list[Mark] = []
        self.ahead: dict[int, tuple[int, int]] = {}

    def live(self) -> Progress:
        for _ in range(STEPS_MAX):
            assert self.dump.progress is not None
            if self.dump.progress.state is DumpState.FINISHED:
                return self.dump.progress
            self.rng.choice([self._ask, self._ask, self._update, self._select, self._receive, self._receive, self._build, self._disturb])()
        raise AssertionError("does not end")

    def _ask(self) -> None:
        self._begin(self.dump.next())

    def _begin(self, commands: list[Command]) -> None:
        for command in commands:
            if isinstance(command, SendMark):
                self.marks.append(command)
            else:
                self.reads.append(command)
        assert self.dump.open_windows() <= self.limits.open_windows_max

    def _update(self) -> None:
        if self.marks:
            mark = self.marks.popleft()
            self.ts += 1
            self.feed.append(Mark(CommitTs(self.ts), "cf", mark.uuid, mark.kind))
            self.answers.append(MarkSent(mark.uuid))

    def _select(self) -> None:
        if not self.reads:
            return
        read = self.reads.pop(self.rng.randrange(len(self.reads)))
        self.ts += 1
        at, rows_max = self.ts, read.rows_max
        if read.follows in self.ahead:
            at, rows_max = self.ahead.pop(read.follows)
            self.served += 1
        first = int(read.after[0]) if read.after else 0
        last = min(first + rows_max, self.rows[read.table])
        path = f"{read.epoch}-{read.number}"
        assert path not in self.read_at, "a chunk's number names its file"
        if self.rng.random() < 0.1:
            self.read_at[path] = -1  # its reader is gone, and may write the file at any time
            self.answers.append(ChunkLost(read, "gone", "nothing"))
            self.lost += 1
            return
        self.read_at[path] = at
        if read.ahead and self.rng.random() < 0.5:
            self.ts += 1
            self.ahead[read.number] = self.ts, rows_max
        tso = CommitTs(self.ts) if read.brackets is Brackets.SNAPSHOT else None
        file = ChunkFile(read.table, path, last - first, (last - first) * 10, read.after, (str(last),) if last > first else None, tso)
        self.answers.append(ChunkRead(read.number, file, last - first < rows_max))

    def _receive(self) -> None:
        if self.answers:
            self._begin(self.dump.handle(self.answers.pop(self.rng.randrange(len(self.answers)))))

    def _build(self) -> None:
        self.ts += 1
        upto_ts = self.rng.randint(self.upto_ts + 1, max(self.upto_ts + 1, self.ts))
        self.ts = max(self.ts, upto_ts)
        self.dump.allow(self._room())
        marks = [mark for mark in self.feed if mark.commit_ts <= upto_ts]
        self.feed = self.feed[len(marks) :]
        self.seq += 1
        closed = self.dump.segment(SegmentBuilt(Seq(self.seq), CommitTs(self.upto_ts), CommitTs(upto_ts)), marks)
        self.upto_ts = upto_ts
        self.closed += closed
        self.in_log = self.dump.progress
        for window in closed:
            assert window.low_ts <= window.high_ts <= upto_ts
            assert window.first_seq <= self.seq
            for chunk in window.chunks:
                assert window.low_ts <= self.read_at[chunk.path] <= window.high_ts, "the SELECT ran inside of its window"

    def _room(self) -> DumpRoom:
        """Of sinks that have accepted all now and then, and leave little else."""
        width = self.rng.choice([1, 5, 100])
        return DumpRoom(self.rng.choice([width, -3, 0, 2, 10]), self.rng.choice([30, 1000]), width, self.rng.choice([1, 4]), 20)

    def _disturb(self) -> None:
        assert self.dump.progress is not None
        if self.rng.random() < 0.1 and self.in_log is not None:
            self.epoch += 1
            self._attach()
        elif self.dump.progress.state is DumpState.PAUSED:
            self.dump.request(ResumeDump())
        elif self.rng.random() < 0.2:
            self.dump.request(PauseDump())


@pytest.mark.parametrize("brackets", Brackets)
@pytest.mark.parametrize("first", range(0, 400, 100))
def test_the_log_has_every_row_once_and_in_order_whatever_happens(first: int, brackets: Brackets) -> None:
    crashes = served = lost = 0
    for seed in range(first, first + 100):
        life = Life(Random(seed), brackets)
        progress = life.live()
        for table in progress.tables:
            check(table, [(window, chunk) for window in life.closed for chunk in window.chunks if chunk.table == table.table], seed)
            assert table.rows == life.rows[table.table], f"seed {seed}"
        assert life.dump.open_windows() == 0, f"seed {seed}"
        crashes += life.epoch - 1
        served += life.served
        lost += life.lost
    assert (served > 0) is (brackets is Brackets.WATERMARK), "chunks that were read ahead took part"
    assert crashes > 50, "these lives died too seldom to prove anything"
    assert lost > 50, "readers died too seldom to prove anything"


def check(table: TableProgress, chunks: list[tuple[ClosedWindow, ChunkFile]], seed: int) -> None:
    end: tuple[str, ...] | None = None
    for _, chunk in chunks:
        assert chunk.after == end, f"seed {seed}: each chunk begins where the one before it in the log ended"
        end = chunk.last or end
    assert sum(chunk.rows for _, chunk in chunks) == table.rows, f"seed {seed}"
    assert table.complete_at == chunks[-1][0].high_ts, f"seed {seed}"
