"""Verifications of a term: what is asked of the merge worker, what its reports become in the history, and what a next term takes over."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from pathlib import Path
from threading import get_ident
from unittest.mock import Mock

import pytest
from msgspec import structs

from sidecar.adapters.memory.progress import MemoryHistory
from sidecar.control.verification_messages import derived_id
from sidecar.history.entry import HistoryEntry, OperationKind, OperationScope
from sidecar.run.awaited_dumps import AwaitedDumps
from sidecar.run.continuous import ContinuousVerification
from sidecar.run.log_event import LogEvent
from sidecar.run.repairing import KeyDump, Repair
from sidecar.run.term_verifications import KEPT_MAX, WAITING_MAX, TermVerifications
from sidecar.shared.errors import CoordinationError, CoordinationLost, DumpsWait, LogUnreachable, OwnershipLost, RefusedRequest
from sidecar.shared.log import storage, verification_files
from sidecar.shared.log.filled import read_words
from sidecar.shared.log.identity import claim_log, own_id
from sidecar.shared.log.owned import OwnedLog, latest
from sidecar.shared.log.sink_tables import write_sink_tables
from sidecar.shared.log.storage import Folder, open_folder
from sidecar.shared.log.verification import (
    CYCLE_STEM,
    CheckState,
    RepairReport,
    RepairState,
    RequestedTable,
    RowDifference,
    TableReport,
    VerifyReport,
    VerifyRequest,
    differences_name,
    report_name,
    request_name,
    stop_name,
)
from sidecar.shared.log.verification_files import read_repair, read_request, read_waiting, request_ids, write_report
from sidecar.shared.log.verification_state import VerifyState
from sidecar.shared.model.hole import HoleCause, OpenHole
from sidecar.shared.model.messages import Asker
from sidecar.shared.model.nouns import FIRST_SEQ, CommitTs, OperationId, Seq, TableName
from sidecar.shared.model.progress import DumpState
from sidecar.shared.model.sink_delivery import SinkTables
from tests.support.slices import NamedSlices

ALICE = Asker("certificate alice", "10.0.0.7:41000")
ITEM = TableName("shop", "item")
REQUEST = VerifyRequest(
    OperationId("a" * 16), ("copy",), (RequestedTable("shop", "orders", "id > 3"), RequestedTable("shop", "item")), asked_ms=5
)

EPOCHS: defaultdict[Path, Iterator[int]] = defaultdict(lambda: count(1))
"""Of the next term over the log in a folder."""


class Term:
    """A term over a log and a history that outlive it."""

    def __init__(self, folder: Path, history: MemoryHistory, *, share_per_day: float = 0.0) -> None:
        self.log: Folder = open_folder(str(folder))
        self.owner = OwnedLog(self.log, next(EPOCHS[folder]), self.check_held)
        self.held = True
        self.on_check: Callable[[], object] = lambda: None
        self.history, self.lines = history, list[LogEvent]()
        self.now_ms = 1000
        self.dumps = list[KeyDump]()
        self.slices = NamedSlices()
        self.made = TermVerifications(
            self.owner,
            AwaitedDumps(history),
            lambda: self.now_ms,
            start_dump=lambda dump: self.start(dump),
            continuous=ContinuousVerification(self.owner, share_per_day, lambda: self.now_ms, self.slices, self.lines.append),
            log_line=self.lines.append,
        )

    def check_held(self) -> None:
        if not self.held:
            raise OwnershipLost("another process is the owner", hint="none")
        self.on_check()

    def start(self, dump: KeyDump) -> KeyDump:
        self.dumps.append(dump)
        self.ended(dump, DumpState.RUNNING)
        return dump

    def ended(self, dump: KeyDump, state: DumpState, result: str = "") -> None:
        entry = HistoryEntry(dump.dump_id, OperationKind.DUMP, OperationScope(), dump.asker, 1, state, result=result)
        self.history.record(entry)

    def report(self, operation_id: OperationId, state: CheckState, *tables: TableReport, needs_from: int | None = None) -> None:
        report = VerifyReport(operation_id, state, 1, tables=list(tables), needs_from=needs_from)
        write_report(self.log, report, read_request(self.log, operation_id))
        self.made.follow()


@pytest.fixture
def term(tmp_path: Path) -> Term:
    result = Term(tmp_path, MemoryHistory())
    result.made.begin()
    return result


def test_a_start_is_in_the_history_and_requested_of_the_worker(term: Term) -> None:
    term.made.start(REQUEST, ALICE)
    term.made.start(REQUEST, ALICE)
    [entry] = term.history.entries()
    assert (entry.kind, entry.state, entry.asked_by) == (OperationKind.VERIFICATION, DumpState.RUNNING, ALICE)
    assert (entry.scope.tables, entry.scope.filtered, entry.scope.sinks) == (("shop.orders", "shop.item"), 1, ("copy",))
    assert read_request(term.log, REQUEST.id) == REQUEST
    assert term.made.last_id() == REQUEST.id
    assert term.made.find(REQUEST.id) == (REQUEST, None, None)


def test_a_look_amid_a_start_ends_nothing(term: Term, monkeypatch: pytest.MonkeyPatch) -> None:
    """One looks each second, and a start takes long at a storage that is slow."""
    write = term.made._write

    def slow(name: str, data: bytes) -> None:
        monkeypatch.setattr(term.made, "_write", write)
        term.made.follow()
        write(name, data)
        term.made.follow()

    monkeypatch.setattr(term.made, "_write", slow)
    monkeypatch.setattr(term.made, "_remove_old", term.made.follow)
    term.made.start(REQUEST, ALICE)
    assert [entry.state for entry in term.history.entries()] == [DumpState.RUNNING]
    assert not storage.exists(term.log, stop_name(REQUEST.id))


def test_one_that_was_rejected_can_be_requested_again(term: Term) -> None:
    """Its worker would end it for the first one's stop."""
    waits = structs.replace(REQUEST, after_dump="d1")
    for _ in range(2):
        term.made.start(waits, ALICE)
        assert not storage.exists(term.log, stop_name(REQUEST.id))
        term.made.stop(REQUEST.id, ALICE)


def test_a_report_that_is_over_ends_the_entry_and_says_what_was_found(term: Term) -> None:
    term.made.start(REQUEST, ALICE)
    term.report(REQUEST.id, CheckState.RUNNING, TableReport("copy", "shop", "item", rows=7), needs_from=12)
    assert term.made.needs_from() == Seq(12)
    assert term.history.entries()[0].state is DumpState.RUNNING
    term.now_ms = 61_000
    orders = TableReport("copy", "shop", "orders", CheckState.DIFFERENT, rows=5, missing=2, extra=1)
    term.report(REQUEST.id, CheckState.DIFFERENT, orders, TableReport("copy", "shop", "item", CheckState.EQUAL, rows=7))
    [entry] = term.history.entries()
    assert (entry.state, entry.result, entry.rows, entry.ended_ms) == (DumpState.FINISHED, "2 missing, 1 extra", 12, 61_000)
    assert entry.running_s == 60.0
    assert term.made.needs_from() is None, "its segments may be removed"
    assert [line.level for line in term.lines] == ["warning"]


def test_what_was_not_compared_is_reported(term: Term) -> None:
    term.made.start(REQUEST, ALICE)
    term.report(REQUEST.id, CheckState.FAILED, TableReport("copy", "shop", "item", CheckState.FAILED, why="no route to host"))
    assert term.history.entries()[0].result == "shop.item in copy was not compared: no route to host"


def holed(term: Term) -> None:
    """Sink `copy` has a hole of shop.item, noticed in segment 4."""
    claim_log(term.log, "cf/1")
    hole = OpenHole(HoleCause.IMPORT, CommitTs(5), Seq(4), vanished=False, text="")
    write_sink_tables(term.log, SinkTables("copy", "", Seq(0), None, Seq(9), None, holes={ITEM: hole}), log_id=own_id(term.log))


def test_an_equal_table_gives_the_word_that_its_hole_is_filled_before_the_verification_is_over(
    term: Term, monkeypatch: pytest.MonkeyPatch
) -> None:
    holed(term)
    term.made.start(REQUEST, ALICE)
    orders, item = (TableReport("copy", "shop", name, CheckState.EQUAL, after_seq=6) for name in ("orders", "item"))
    term.report(REQUEST.id, CheckState.RUNNING, orders, item)
    assert read_words(term.log) == [], "it is not over"
    with monkeypatch.context() as patch:
        patch.setattr("sidecar.run.verified_holes.write_words", Mock(side_effect=LogUnreachable("away", hint="none")))
        term.report(REQUEST.id, CheckState.EQUAL, orders, item)
        assert [entry.state for entry in term.history.entries()] == [DumpState.RUNNING], "it is done again"
    term.made.follow()
    [word] = read_words(term.log)
    assert (word.sink, word.table, word.upto_seq, word.by) == ("copy", ITEM, 6, f"verification {REQUEST.id}")
    assert [entry.state for entry in term.history.entries()] == [DumpState.FINISHED]
    term.made.follow()
    assert len(read_words(term.log)) == 1


def test_a_sinks_file_that_cannot_be_read_ends_no_verification(term: Term) -> None:
    storage.write_atomically(term.log, "sinks/copy.json", b"{")
    term.made.start(REQUEST, ALICE)
    term.report(REQUEST.id, CheckState.EQUAL, TableReport("copy", "shop", "item", CheckState.EQUAL, after_seq=6))
    assert [entry.result for entry in term.history.entries()] == ["equal"]
    assert [line.event for line in term.lines] == ["holes stay open", "verification ended"]


def test_an_operator_ends_one_and_the_history_says_who(term: Term) -> None:
    term.made.start(REQUEST, ALICE)
    term.made.stop(REQUEST.id, ALICE)
    assert storage.exists(term.log, stop_name(REQUEST.id))
    [entry] = term.history.entries()
    assert (entry.state, [command.command for command in entry.commands]) == (DumpState.STOPPED, ["stop"])


@pytest.mark.parametrize("begun", [True, False])
def test_a_stop_ends_one_at_once_whether_a_worker_is_there_or_not(term: Term, begun: bool) -> None:
    term.made.start(REQUEST, ALICE)
    orders = TableReport("copy", "shop", "orders", CheckState.EQUAL, rows=5)
    if begun:
        term.report(REQUEST.id, CheckState.RUNNING, orders, TableReport("copy", "shop", "item", CheckState.RUNNING), needs_from=3)
    term.made.stop(REQUEST.id, ALICE)
    entry, result = term.history.find(REQUEST.id), term.made.find(REQUEST.id)
    assert entry is not None
    assert (entry.state, entry.rows) == (DumpState.STOPPED, 5 if begun else 0)
    assert result is not None
    assert result[1] is not None
    assert (result[1].state, result[1].needs_from) == (CheckState.STOPPED, None)
    assert [one.state for one in result[1].tables] == ([CheckState.EQUAL, CheckState.STOPPED] if begun else [])
    assert term.made.needs_from() is None, "retention waits for nothing"
    term.made.stop(REQUEST.id, ALICE)
    assert term.history.find(REQUEST.id) == entry, "again it changes nothing"


def test_one_whose_request_is_gone_ends_although_a_worker_had_begun(term: Term) -> None:
    """The worker does not know it any more, and the log would be kept for it."""
    term.made.start(REQUEST, ALICE)
    term.report(REQUEST.id, CheckState.RUNNING, needs_from=3)
    storage.remove(term.log, [request_name(REQUEST.id)])
    term.made.follow()
    entry = term.history.find(REQUEST.id)
    assert entry is not None
    assert (entry.state, entry.result) == (DumpState.FAILED, "its files are gone")
    assert storage.exists(term.log, stop_name(REQUEST.id))
    assert term.made.needs_from() is None


def test_one_that_is_given_up_is_ended_by_the_worker_too(term: Term) -> None:
    term.made.start(REQUEST, ALICE)
    storage.write_atomically(term.log, report_name(REQUEST.id), b"{")
    term.made.follow()
    entry = term.history.find(REQUEST.id)
    assert entry is not None
    assert entry.state is DumpState.FAILED
    assert storage.exists(term.log, stop_name(REQUEST.id))


def test_what_is_reported_of_one_that_is_over_keeps_nothing(term: Term) -> None:
    """A report that was read before a stop."""
    term.made.start(REQUEST, ALICE)
    term.made.stop(REQUEST.id, ALICE)
    term.made._progressed(REQUEST.id, VerifyState(REQUEST.id, CheckState.RUNNING, 1, needs_from=3))
    assert term.made.needs_from() is None


def test_a_stop_of_one_that_is_just_over_leaves_its_result(term: Term) -> None:
    term.made.start(REQUEST, ALICE)
    report = VerifyReport(REQUEST.id, CheckState.EQUAL, 1)
    storage.write_atomically(term.log, report_name(REQUEST.id), report.to_json())
    term.made.stop(REQUEST.id, ALICE)
    entry = term.history.find(REQUEST.id)
    assert entry is not None
    assert (entry.state, entry.result) == (DumpState.FINISHED, "equal")


def test_a_next_term_continues_and_fails_what_was_never_requested_of_the_worker(term: Term, tmp_path: Path) -> None:
    term.made.start(REQUEST, ALICE)
    lost = replace_id("b" * 16)
    term.made.start(lost, ALICE)
    storage.remove(term.log, [request_name(lost.id)])
    following = Term(tmp_path, term.history)
    following.made.begin()
    states = {entry.id: (entry.state, entry.result) for entry in term.history.entries()}
    assert states[lost.id] == (DumpState.FAILED, "the sidecar ended before it could request this from the merge worker")
    following.report(REQUEST.id, CheckState.EQUAL)
    assert term.history.entries()[1].result == "equal"
    assert following.made.last_id() == lost.id


def test_a_report_that_is_none_ends_its_verification_and_no_other(term: Term) -> None:
    term.made.start(REQUEST, ALICE)
    term.made.start(replace_id("b" * 16), ALICE)
    storage.write_atomically(term.log, report_name(REQUEST.id), b"[]")
    term.made.follow()
    states = {entry.id: entry.state for entry in term.history.entries()}
    assert states == {REQUEST.id: DumpState.FAILED, "b" * 16: DumpState.RUNNING}


def test_too_many_that_wait_are_refused(term: Term) -> None:
    for number in range(WAITING_MAX):
        term.made.start(replace_id(f"{number:016d}"), ALICE)
    with pytest.raises(RefusedRequest, match="run or wait already"):
        term.made.start(REQUEST, ALICE)


def test_files_of_old_verifications_are_removed(term: Term) -> None:
    for number in range(KEPT_MAX + 5):
        request = replace_id(f"{number:016d}")
        term.made.start(request, ALICE)
        storage.write_atomically(term.log, differences_name(request.id, 0), b"")
        term.report(request.id, CheckState.EQUAL)
    kept = request_ids(term.log)
    assert len(kept) == KEPT_MAX
    assert f"{0:016d}" not in kept
    assert not storage.exists(term.log, differences_name(OperationId(f"{0:016d}"), 0))
    assert len(term.history.entries()) == KEPT_MAX + 5, "the history has their results"


def test_differences_are_read_table_by_table(term: Term) -> None:
    term.made.start(REQUEST, ALICE)
    storage.write_atomically(term.log, differences_name(REQUEST.id, 1), b'{"kind":"extra","key":["7"]}\n{"kind":"missing","key":["8"]}\n')
    item = TableReport("copy", "shop", "item", CheckState.DIFFERENT, extra=1, missing=1)
    term.report(REQUEST.id, CheckState.DIFFERENT, TableReport("copy", "shop", "orders", CheckState.EQUAL), item)
    results = [(table.table, row) for table, row in term.made.differences(REQUEST.id)]
    assert results == [("item", RowDifference("extra", ("7",))), ("item", RowDifference("missing", ("8",)))]


def replace_id(text: str) -> VerifyRequest:
    return VerifyRequest(OperationId(text), REQUEST.sinks, REQUEST.tables, asked_ms=6)


# ---- repairs ----------------------------------------------------------------------------------------------------------

TO_REPAIR = structs.replace(REQUEST, id="c" * 16, sinks=("copy", "lake"), repair=True, partly=True)
AGAIN = derived_id(TO_REPAIR.id, "again")


def differing(term: Term) -> None:
    """In one table in each of two sinks."""
    term.made.start(TO_REPAIR, ALICE)
    tables = [TableReport(sink, "shop", "item", CheckState.DIFFERENT, missing=1, extra=1) for sink in ("copy", "lake")]
    for number in range(2):
        rows = b'{"kind":"missing","key":["%d"]}\n{"kind":"extra","key":["9"]}\n' % number
        storage.write_atomically(term.log, differences_name(TO_REPAIR.id, number), rows)
    term.report(TO_REPAIR.id, CheckState.DIFFERENT, *tables)


def repair_of(term: Term) -> RepairReport:
    result = term.made.find(TO_REPAIR.id)
    assert result is not None
    assert result[2] is not None
    return result[2]


def finish_repair(term: Term) -> None:
    for number in range(2):
        term.ended(term.dumps[number], DumpState.FINISHED)
        term.made.follow()
        term.made.follow()


def test_a_repair_dumps_the_keys_of_one_sink_after_the_other_and_compares_again(term: Term) -> None:
    differing(term)
    assert [(dump.sink, dump.keys) for dump in term.dumps] == [("copy", {ITEM: (("0",), ("9",))})]
    assert term.dumps[0].asker == Asker(ALICE.name, ALICE.address, f"repair of verification {TO_REPAIR.id}")
    term.made.follow()
    assert len(term.dumps) == 1, "the second waits for the first"
    finish_repair(term)
    assert [(dump.sink, dump.keys) for dump in term.dumps[1:]] == [("lake", {ITEM: (("1",), ("9",))})]
    report = repair_of(term)
    assert (report.state, report.keys, report.followed_by) == (RepairState.FINISHED, 4, AGAIN)
    following = read_request(term.log, AGAIN)
    assert following is not None
    assert (following.sinks, [table.table for table in following.tables], following.repair) == (("copy", "lake"), ["item"], False)
    assert term.made.last_id() == AGAIN


def test_one_without_a_repair_dumps_nothing(term: Term) -> None:
    term.made.start(REQUEST, ALICE)
    storage.write_atomically(term.log, differences_name(REQUEST.id, 0), b'{"kind":"missing","key":["7"]}\n')
    term.report(REQUEST.id, CheckState.DIFFERENT, TableReport("copy", "shop", "item", CheckState.DIFFERENT, missing=1))
    term.made.follow()
    assert term.dumps == []


def test_a_repair_whose_dump_is_queued_says_so(term: Term) -> None:
    differing(term)
    term.ended(term.dumps[0], DumpState.QUEUED)
    term.made.follow()
    assert repair_of(term).waiting_for == "other dumps: its own is queued"
    term.ended(term.dumps[0], DumpState.RUNNING)
    term.made.follow()
    assert (len(term.dumps), repair_of(term).waiting_for) == (1, "")


@pytest.mark.parametrize("state", [DumpState.FAILED, DumpState.STOPPED])
def test_a_repair_whose_dump_has_failed_or_was_stopped_fails_and_says_why(term: Term, state: DumpState) -> None:
    differing(term)
    term.ended(term.dumps[0], state, "the source is away")
    term.made.follow()
    report = repair_of(term)
    assert (report.state, f"is {state}: the source is away" in report.error) == (RepairState.FAILED, True)
    term.made.follow()
    assert len(term.dumps) == 1
    assert read_request(term.log, AGAIN) is None


@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_next_term_goes_on_with_a_repair_and_starts_no_dump_twice(term: Term, tmp_path: Path, after: int) -> None:
    differing(term)
    for dump in term.dumps[:after]:
        term.ended(dump, DumpState.FINISHED)
    if after == 2:
        term.made.follow()
        term.made.follow()
        term.ended(term.dumps[1], DumpState.FINISHED)
    following = Term(tmp_path, term.history)
    following.dumps = term.dumps
    following.made.begin()
    for _ in range(4):
        for dump in following.dumps:
            following.ended(dump, DumpState.FINISHED)
        following.made.follow()
    assert [dump.sink for dump in following.dumps] == ["copy", "lake"]
    assert repair_of(following).state is RepairState.FINISHED
    assert read_request(following.log, AGAIN) is not None
    last = Term(tmp_path, term.history)
    last.made.begin()
    assert last.dumps == [], "one that is over stays so"


def test_what_passes_is_tried_again(term: Term) -> None:
    failures = iter([CoordinationLost("the request was not answered", hint=""), DumpsWait("16 dumps run or wait already", hint=""), None])

    def start(dump: KeyDump) -> KeyDump:
        if (error := next(failures)) is not None:
            raise error
        return Term.start(term, dump)

    term.start = start  # type: ignore[method-assign]  # of this test
    differing(term)
    assert repair_of(term).waiting_for == "the request was not answered"
    term.made.follow()
    assert (repair_of(term).state, repair_of(term).waiting_for) == (RepairState.RUNNING, "16 dumps run or wait already")
    term.made.follow()
    assert len(term.dumps) == 1
    assert repair_of(term).waiting_for == ""


# ---- after a dump -----------------------------------------------------------------------------------------------------

AFTER = structs.replace(TO_REPAIR, id="d" * 16, after_dump="e" * 16, asked_ms=1000)
DUMP = KeyDump(OperationId(AFTER.after_dump), "copy", {}, ALICE)


def test_one_that_follows_a_dump_is_requested_of_the_worker_when_that_has_finished(term: Term, tmp_path: Path) -> None:
    term.made.start(AFTER, ALICE)
    for state in (DumpState.RUNNING, DumpState.PAUSED, DumpState.FAILED, DumpState.RUNNING):
        term.ended(DUMP, state)
        term.made.follow()
        assert read_request(term.log, AFTER.id) is None, state
    assert term.made.find(AFTER.id) == (AFTER, None, None)
    following = Term(tmp_path, term.history)
    following.made.begin()
    assert term.history.find(AFTER.id) is not None
    following.ended(DUMP, DumpState.FINISHED)
    following.made.follow()
    assert read_request(term.log, AFTER.id) == AFTER
    assert read_waiting(term.log, AFTER.id) is None
    following.report(AFTER.id, CheckState.EQUAL)
    assert term.history.entries()[-1].result == "equal"


@pytest.mark.parametrize("state", [DumpState.STOPPED, DumpState.FAILED])
def test_one_whose_dump_was_restarted_ends_for_the_restart_has_its_own(term: Term, state: DumpState) -> None:
    """A dump that runs is stopped by its restart; after a failure the restart comes later."""
    term.made.start(AFTER, ALICE)
    term.ended(DUMP, state)
    if state is DumpState.FAILED:
        term.made.follow()
        assert read_waiting(term.log, AFTER.id) == AFTER
        term.made._awaited.looked_s.clear()  # the history is read seldom
    restart = HistoryEntry(OperationId("1" * 16), OperationKind.DUMP, OperationScope(), ALICE, 2, restart_of=AFTER.after_dump)
    term.history.record(restart)
    term.made.follow()
    entry = term.history.find(AFTER.id)
    assert entry is not None
    assert entry.state is DumpState.STOPPED
    assert f"was restarted as {restart.id}" in entry.result
    assert read_waiting(term.log, AFTER.id) is None


@pytest.mark.parametrize(("state", "why"), [(DumpState.STOPPED, "was stopped"), (None, "was not started")])
def test_one_whose_dump_does_not_come_ends(term: Term, state: DumpState | None, why: str) -> None:
    term.made.start(AFTER, ALICE)
    term.made.follow()
    if state is not None:
        term.ended(DUMP, state)
    term.now_ms += 61_000
    term.made.follow()
    entry = term.history.find(AFTER.id)
    assert entry is not None
    assert (entry.state, entry.result) == (DumpState.STOPPED, f"its dump {AFTER.after_dump} {why}")
    assert read_waiting(term.log, AFTER.id) is None


def test_an_operator_ends_one_that_waits_for_its_dump(term: Term) -> None:
    term.made.start(AFTER, ALICE)
    term.made.stop(AFTER.id, ALICE)
    entry = term.history.find(AFTER.id)
    assert entry is not None
    assert entry.state is DumpState.STOPPED


def test_a_log_that_does_not_answer_amid_the_differences_ends_no_repair_early() -> None:
    """An iterator that has raised has no more items, and that is no end of the differences."""
    rows = [(TableReport("copy", "shop", "item"), RowDifference("missing", (key,))) for key in ("1", "2")]
    answers = iter([False, True])

    def differences() -> Iterator[tuple[TableReport, RowDifference]]:
        yield rows[0]
        if not next(answers):
            raise LogUnreachable("no answer", hint="")
        yield rows[1]

    dumps, history = list[KeyDump](), MemoryHistory()

    def start(dump: KeyDump) -> KeyDump:
        dumps.append(dump)
        return dump

    repair = Repair(history, OperationId("f" * 16), ALICE, differences, start)
    with pytest.raises(LogUnreachable):
        repair.step()
    repair.step()
    assert [dump.keys for dump in dumps] == [{ITEM: (("1",), ("2",))}]


def test_a_repair_waits_until_its_last_verification_is_taken(term: Term) -> None:
    differing(term)
    for number in range(WAITING_MAX):
        term.made.start(replace_id(f"{number:016d}"), ALICE)
    finish_repair(term)
    assert (repair_of(term).state, read_request(term.log, AGAIN)) == (RepairState.RUNNING, None)
    term.report(OperationId(f"{0:016d}"), CheckState.EQUAL)
    term.made.follow()
    assert repair_of(term).state is RepairState.FINISHED
    assert read_request(term.log, AGAIN) is not None
    assert [line.event for line in term.lines].count("repair ended") == 1


# ---- late owners ----------------------------------------------------------------------------------------------------------


class FencedHistory(MemoryHistory):
    """Of an owner that sleeps once at `sleeps`, and then another one has taken over."""

    def __init__(self, history: MemoryHistory) -> None:
        super().__init__()
        self.kept, self.sleeps = history, ""
        self.sleep: Callable[[], object] = lambda: None
        self.late = False

    def at(self, place: str) -> None:
        if place == self.sleeps and not self.late:
            self.late = True
            self.sleep()

    def record(self, *entries: HistoryEntry) -> None:
        self.at("before the record")
        if self.late:
            raise CoordinationLost("another process is the owner", hint="none")
        self.kept.record(*entries)
        self.at("after the record")

    def find(self, operation_id: OperationId) -> HistoryEntry | None:
        return self.kept.find(operation_id)

    def entries(self) -> Sequence[HistoryEntry]:
        return self.kept.entries()


OTHER = structs.replace(REQUEST, id=OperationId("b" * 16))
WHOLE = TableReport("copy", "shop", "item", CheckState.EQUAL, rows=7)
ACTS: dict[str, Callable[[Term], object]] = {
    "gives up": lambda late: late.made._give_up(REQUEST.id, "an error"),
    "stops": lambda late: late.made.stop(REQUEST.id, ALICE),
    "begins another": lambda late: late.made.start(OTHER, ALICE),
    "removes old ones": lambda late: late.made._remove_old(),
    "follows": lambda late: late.made.follow(),
    "begins again": lambda late: late.made.begin(),
    "counts": lambda late: late.made._continuous.ended(REQUEST, VerifyReport(REQUEST.id, CheckState.EQUAL, 1, tables=[WHOLE])),
}
LATER = structs.replace(REQUEST, id=OperationId("c" * 16), asked_ms=9)


@pytest.mark.parametrize("sleeps", ["before the record", "after the record", "after the check"])
@pytest.mark.parametrize("act", ACTS)
def test_a_late_owner_ends_replaces_and_removes_nothing_of_a_later_one(tmp_path: Path, act: str, sleeps: str) -> None:
    """What it does when it wakes is what it was about to do: whatever it has checked, it has checked before it slept."""
    shared = MemoryHistory()
    history = FencedHistory(shared)
    late = Term(tmp_path, history, share_per_day=1.0)
    late.made.begin()
    late.made.start(REQUEST, ALICE)
    later = Term(tmp_path, shared, share_per_day=1.0)

    def take_over() -> None:
        later.made.begin()
        later.made.start(LATER, ALICE)
        later.made._continuous.ended(LATER, VerifyReport(LATER.id, CheckState.EQUAL, 1, tables=[WHOLE]))

    history.sleep, history.sleeps = take_over, sleeps
    late.on_check = lambda: history.at("after the check")
    with suppress(CoordinationError):
        ACTS[act](late)
    if not history.late:
        history.late = True
        take_over()
    late.held = False
    for again in ACTS.values():
        with suppress(CoordinationError, RefusedRequest):
            again(late)
    files = storage.list_names(later.log, deep=True)
    assert request_name(LATER.id) in files
    assert stop_name(LATER.id) not in files
    cycle = latest(later.log, CYCLE_STEM)
    assert cycle == later.owner.name(CYCLE_STEM)
    for entry in shared.entries():
        if entry.state is DumpState.RUNNING and not entry.commands:
            assert stop_name(entry.id) not in files, "it ends what the history says is over, or is to stop"
            assert request_name(entry.id) in files
    later.report(LATER.id, CheckState.EQUAL, WHOLE)
    assert [entry.result for entry in shared.entries() if entry.id == LATER.id] == ["equal"]


def test_the_repair_of_a_late_owner_is_not_the_one_that_runs(tmp_path: Path) -> None:
    history, request = MemoryHistory(), structs.replace(REQUEST, repair=True)
    late = Term(tmp_path, history)
    late.made.begin()
    late.made.start(request, ALICE)
    storage.write_atomically(late.log, differences_name(request.id, 0), b'{"kind":"missing","key":["7"]}\n')
    late.report(request.id, CheckState.DIFFERENT, TableReport("copy", "shop", "item", CheckState.DIFFERENT, missing=1))
    later = Term(tmp_path, history)
    later.made.begin()
    late.made._repairs.give_up(request.id, "an error")
    repair = read_repair(later.log, request.id)
    assert repair is not None
    assert repair.state is RepairState.RUNNING


@pytest.mark.parametrize("waits", [False, True])
def test_a_stop_that_an_owner_died_amid_is_carried_out_by_the_next(
    term: Term, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waits: bool
) -> None:
    request = structs.replace(REQUEST, after_dump="d1") if waits else REQUEST
    term.made.start(request, ALICE)
    monkeypatch.setattr(term.made, "_write", Mock(side_effect=LogUnreachable("away", hint="wait")))
    with pytest.raises(LogUnreachable):
        term.made.stop(REQUEST.id, ALICE)
    following = Term(tmp_path, term.history)
    following.made.begin()
    [entry] = following.history.entries()
    assert (entry.state, [one.command for one in entry.commands]) == (DumpState.STOPPED, ["stop"])
    assert storage.exists(following.log, stop_name(REQUEST.id))


def test_what_is_over_by_the_history_is_stopped_by_the_next_owner(term: Term, tmp_path: Path) -> None:
    """The one before died between the two; a late one has begun a slice that no cycle knows."""
    term.made.start(REQUEST, ALICE)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(term.made, "_write", Mock(side_effect=LogUnreachable("away", hint="wait")))
        term.made._give_up(REQUEST.id, "an error")
        term.made.follow()
    storage.write_atomically(term.log, request_name(OTHER.id), OTHER.to_json())
    assert not storage.exists(term.log, stop_name(REQUEST.id))
    following = Term(tmp_path, term.history)
    following.made.begin()
    assert storage.exists(following.log, stop_name(REQUEST.id))
    assert storage.exists(following.log, stop_name(OTHER.id))


def test_what_was_compared_is_counted_by_one_thread_and_once(term: Term, monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator ends it, in a thread of the control service, as the service reads that it is over."""
    counted, ended = list[int](), ContinuousVerification.ended

    def noted(self: ContinuousVerification, request: VerifyRequest, report: VerifyReport | None) -> None:
        counted.append(get_ident())
        ended(self, request, report)

    monkeypatch.setattr(ContinuousVerification, "ended", noted)
    term.made.start(REQUEST, ALICE)
    write_report(term.log, VerifyReport(REQUEST.id, CheckState.EQUAL, 1, tables=[WHOLE]), REQUEST)
    with ThreadPoolExecutor(1) as operators:
        operators.submit(term.made.stop, REQUEST.id, ALICE).result()
    for _ in range(2):
        term.made.follow()
    assert counted == [get_ident()]


def test_a_report_is_not_decoded_while_its_verification_runs(term: Term, monkeypatch: pytest.MonkeyPatch) -> None:
    term.made.start(REQUEST, ALICE)
    term.report(REQUEST.id, CheckState.RUNNING, TableReport("copy", "shop", "item", CheckState.RUNNING, rows=5), needs_from=3)
    monkeypatch.setattr(verification_files, "read_report", Mock(side_effect=AssertionError("it is decoded")))
    term.made.follow()
    assert term.made.needs_from() == 3
    running = term.made.running()
    assert running is not None
    assert (running.rows, running.tables) == (5, {CheckState.RUNNING: 1})
    assert term.made.look(REQUEST.id) == (running, None)


def test_a_life_that_cannot_begin_holds_the_whole_log(term: Term, monkeypatch: pytest.MonkeyPatch) -> None:
    """Retention looks at any moment, also between two lives of the service."""
    term.made.begin()
    term.made.start(REQUEST, ALICE)
    term.report(REQUEST.id, CheckState.RUNNING, TableReport("copy", "shop", "item", rows=7), needs_from=12)
    term.made.follow()
    assert term.made.needs_from() == Seq(12)

    def away(*_: object) -> None:
        raise CoordinationLost("etcd is away", hint="wait")

    with monkeypatch.context() as patched:
        patched.setattr(term.history, "entries", away)
        with pytest.raises(CoordinationLost):
            term.made.begin()
        assert term.made.needs_from() == FIRST_SEQ
    term.made.begin()
    assert term.made.needs_from() == Seq(12)
