"""What a repair deletes: it says so before, and more than a bound only if an operator answers. One failed table stops no repair."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from sidecar.adapters.memory.progress import MemoryHistory
from sidecar.control.dump_scope import NAMED_MAX
from sidecar.control.verification_messages import verification
from sidecar.run.repairing import DELETED_MIN, KeyDump, follow_up, question, rows_to_delete
from sidecar.shared.errors import RefusedRequest
from sidecar.shared.log import storage
from sidecar.shared.log.verification import (
    CheckState,
    RepairReport,
    RepairState,
    RequestedTable,
    RowsToDelete,
    TableReport,
    VerifyReport,
    VerifyRequest,
    decoded,
    differences_name,
)
from sidecar.shared.log.verification_files import read_request
from sidecar.shared.model.nouns import OperationId
from sidecar.shared.model.progress import DumpState
from tests.unit.run.test_term_verifications import AGAIN, ALICE, ITEM, TO_REPAIR, Term, finish_repair, repair_of


@pytest.fixture
def term(tmp_path: Path) -> Term:
    return Term(tmp_path, MemoryHistory())


def table(sink: str, extra: int, rows: int = 0, name: str = "item") -> TableReport:
    return TableReport(sink, "shop", name, CheckState.DIFFERENT, rows=rows, extra=extra)


def differing(term: Term, extra: int, request: VerifyRequest = TO_REPAIR) -> None:
    """So many rows of a sink alone; of the other sink one row is missing."""
    term.made.start(request, ALICE)
    storage.write_atomically(term.log, differences_name(TO_REPAIR.id, 0), b'{"kind":"extra","key":["9"]}\n')
    storage.write_atomically(term.log, differences_name(TO_REPAIR.id, 1), b'{"kind":"missing","key":["1"]}\n')
    missing = TableReport("lake", "shop", "item", CheckState.DIFFERENT, missing=1)
    term.report(TO_REPAIR.id, CheckState.DIFFERENT, table("copy", extra), missing)


@pytest.mark.parametrize(
    ("rows", "given", "bound"),
    [(0, None, DELETED_MIN), (100_000, None, 1000), (100_100, None, 1001), (10**9, None, 10**7), (10**9, 3, 3), (10**9, 0, 0)],
)
def test_without_a_bound_a_repair_deletes_a_hundredth_of_a_table_and_a_thousand_rows_of_a_small_one(
    rows: int, given: int | None, bound: int
) -> None:
    report = VerifyReport(OperationId("a" * 16), CheckState.DIFFERENT, 1, tables=[table("copy", 7, rows), table("lake", 0, rows)])
    assert rows_to_delete(report, given) == (RowsToDelete("copy", "shop", "item", 7, bound),)


def test_the_question_names_rows_tables_sinks_and_the_answer() -> None:
    deletes = [RowsToDelete("copy", "shop", f"t{number}", 2000 + number, 1500) for number in range(NAMED_MAX + 2)]
    text = question(OperationId("a" * 16), [RowsToDelete("copy", "shop", "few", 1500, 1500), *deletes])
    assert "2,000 rows of shop.t0 in sink copy are to be deleted, more than 1,500" in text
    assert "and 2 more tables" in text
    assert f"`dumpverify --id {'a' * 16} --repair --delete-at-most 2011` continues" in text
    assert "few" not in text
    assert question(OperationId("a" * 16), [RowsToDelete("copy", "shop", "few", 1500, 1500)]) == ""


def test_what_is_deleted_is_reported_before_the_first_dump(term: Term) -> None:
    reports = list[int]()

    def start(dump: KeyDump) -> KeyDump:
        reports.append(len(term.lines))
        return Term.start(term, dump)

    term.start = start  # type: ignore[method-assign]  # of this test
    differing(term, DELETED_MIN)
    [line] = [line for line in term.lines if line.event == "repair deletes rows"]
    assert line.values["from"] == "1,000 rows of shop.item in sink copy"
    assert reports == [term.lines.index(line) + 1], "one dump, after the line"
    assert repair_of(term).deletes == (RowsToDelete("copy", "shop", "item", DELETED_MIN, DELETED_MIN),)


def test_a_repair_that_deletes_too_much_asks_and_has_corrected_nothing(term: Term, tmp_path: Path) -> None:
    differing(term, DELETED_MIN + 1)
    report = repair_of(term)
    assert (report.state, report.dumps, term.dumps) == (RepairState.ASKS, (), []), "the sink with a missing row waits too"
    assert "1,001 rows of shop.item in sink copy are to be deleted, more than 1,000" in report.waiting_for
    assert [line.event for line in term.lines[-2:]] == ["repair deletes rows", "repair asks"]
    following = Term(tmp_path, term.history)
    following.made.begin()
    following.made.follow()
    assert (following.dumps, repair_of(following).state) == ([], RepairState.ASKS), "a next owner asks too"
    with pytest.raises(RefusedRequest, match=r"1,001 rows of shop\.item in sink copy are to be deleted, more than 1,000"):
        following.made.allow(TO_REPAIR.id, 1000, ALICE)
    with pytest.raises(RefusedRequest, match="more than 1,000"):
        following.made.allow(TO_REPAIR.id, None, ALICE)
    assert repair_of(following).state is RepairState.ASKS
    following.made.allow(TO_REPAIR.id, 1001, ALICE)
    following.made.allow(TO_REPAIR.id, 1001, ALICE)
    following.made.follow()
    assert [dump.keys for dump in following.dumps] == [{ITEM: (("9",),)}]
    [entry] = term.history.entries()[-1:]
    assert [(command.command, command.asked_by) for command in entry.commands] == [("repair", ALICE)]
    last = Term(tmp_path, term.history)
    last.dumps = following.dumps
    last.made.begin()
    last.made.follow()
    finish_repair(last)
    report = repair_of(last)
    assert (report.state, report.delete_at_most, report.followed_by) == (RepairState.FINISHED, 1001, AGAIN), "the answer outlives its owner"


def test_a_bound_that_is_given_at_once_is_kept(term: Term) -> None:
    differing(term, 6, structs.replace(TO_REPAIR, delete_at_most=5))
    assert repair_of(term).state is RepairState.ASKS
    assert "more than 5" in repair_of(term).waiting_for


def test_what_earlier_versions_wrote_is_read() -> None:
    assert decoded(VerifyRequest, b'{"id":"x","sinks":["copy"],"tables":[],"repair":true}').delete_at_most is None
    assert decoded(RepairReport, b'{"state":"running","keys":3,"dumps":["d"]}') == RepairReport(keys=3, dumps=(OperationId("d"),))


def test_the_differences_of_a_repair_that_runs_are_kept(term: Term, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without them it would have no more keys, and end as if all were corrected."""
    monkeypatch.setattr("sidecar.run.term_verifications.KEPT_MAX", 1)
    differing(term, 1)
    term.made.start(structs.replace(TO_REPAIR, id="f" * 16, repair=False), ALICE)
    assert [row.key for _, row in term.made.differences(TO_REPAIR.id)] == [("9",), ("1",)]


def test_a_key_that_no_row_of_the_source_can_have_fails_alone_and_is_named(term: Term) -> None:
    def start(dump: KeyDump) -> KeyDump:
        dump = replace(dump, keys={} if dump.sink == "copy" else dump.keys)
        return Term.start(term, dump) if dump.keys else dump

    term.start = start  # type: ignore[method-assign]  # of this test
    differing(term, 1)
    term.made.follow()
    assert [(dump.sink, dump.keys) for dump in term.dumps] == [("lake", {ITEM: (("1",),)})], "a dump without keys is not started"
    term.ended(term.dumps[0], DumpState.FINISHED)
    term.made.follow()
    term.made.follow()
    report = repair_of(term)
    assert (report.state, report.keys, report.followed_by) == (RepairState.FINISHED, 1, AGAIN)
    assert "such as shop.item ('9',): delete these rows in sink copy" in report.error
    assert [line.level for line in term.lines if line.event == "repair ended"] == ["warning"]


# ---- an operator ends it --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("extra", [1, DELETED_MIN + 1])
def test_a_stop_ends_the_repair_of_a_verification_that_is_over(term: Term, tmp_path: Path, extra: int) -> None:
    differing(term, extra)
    started = len(term.dumps)
    assert repair_of(term).state is (RepairState.ASKS if extra > DELETED_MIN else RepairState.RUNNING)
    term.made.stop(TO_REPAIR.id, ALICE)
    report = repair_of(term)
    assert report.state is RepairState.FAILED
    assert report.error.startswith(f"{ALICE.name} ended it")
    assert [f"its dump {dump.dump_id} continues: dumpstop ends it" in report.error for dump in term.dumps] == [True] * started
    term.made.stop(TO_REPAIR.id, ALICE)
    for dump in term.dumps:
        term.ended(dump, DumpState.FINISHED)
    following = Term(tmp_path, term.history)
    following.made.begin()
    for one in (term, following):
        one.made.follow()
        assert repair_of(one) == report
    assert (len(term.dumps), following.dumps, read_request(term.log, AGAIN)) == (started, [], None)
    [entry] = [one for one in term.history.entries() if one.id == TO_REPAIR.id]
    assert [(command.command, command.asked_by) for command in entry.commands] == [("stop", ALICE)]


def test_a_stop_amid_a_step_of_the_repair_is_not_undone_by_it(term: Term) -> None:
    def start(dump: KeyDump) -> KeyDump:
        term.made.stop(TO_REPAIR.id, ALICE)
        return Term.start(term, dump)

    term.start = start  # type: ignore[method-assign]  # of this test
    differing(term, 1)
    term.made.follow()
    assert (repair_of(term).state, len(term.dumps)) == (RepairState.FAILED, 1)


def test_a_stop_of_what_is_over_says_so(term: Term) -> None:
    term.made.start(TO_REPAIR, ALICE)
    term.report(TO_REPAIR.id, CheckState.EQUAL)
    with pytest.raises(RefusedRequest, match="is over, and it has no repair to end"):
        term.made.stop(TO_REPAIR.id, ALICE)
    stopped = structs.replace(TO_REPAIR, id="e" * 16)
    term.made.start(stopped, ALICE)
    term.made.stop(stopped.id, ALICE)
    term.report(stopped.id, CheckState.STOPPED)
    term.made.stop(stopped.id, ALICE)


# ---- a table that could not be compared ---------------------------------------------------------------------------------


def test_a_table_that_could_not_be_compared_stops_no_repair_of_the_others(term: Term, tmp_path: Path) -> None:
    term.made.start(TO_REPAIR, ALICE)
    storage.write_atomically(term.log, differences_name(TO_REPAIR.id, 1), b'{"kind":"missing","key":["1"]}\n')
    failed = TableReport("copy", "shop", "orders", CheckState.FAILED, why="no route to host")
    term.report(TO_REPAIR.id, CheckState.FAILED, failed, TableReport("lake", "shop", "item", CheckState.DIFFERENT, missing=1))
    assert [(dump.sink, dump.keys) for dump in term.dumps] == [("lake", {ITEM: (("1",),)})]
    entry = term.history.find(TO_REPAIR.id)
    assert entry is not None
    assert (entry.state, entry.result) == (DumpState.FAILED, "1 missing; shop.orders in copy was not compared: no route to host")
    following = Term(tmp_path, term.history)
    following.dumps = term.dumps
    following.made.begin()
    following.ended(term.dumps[0], DumpState.FINISHED)
    following.made.follow()
    following.made.follow()
    assert repair_of(following).state is RepairState.FINISHED
    again = read_request(following.log, AGAIN)
    assert again is not None
    assert (again.sinks, {table.table for table in again.tables}) == (("copy", "lake"), {"orders", "item"}), "what failed is compared again"


def test_an_upgrade_repairs_nothing_that_an_earlier_version_has_refused_to_repair(term: Term, tmp_path: Path) -> None:
    """Its operator was told weeks ago that nothing is corrected. One of which all tables were compared goes on."""
    old = structs.replace(TO_REPAIR, partly=False)
    differing(term, 1, old)
    finished = repair_of(term)
    assert finished.dumps, "no table has failed"
    failing = structs.replace(old, id="f" * 16)
    term.made.start(failing, ALICE)
    storage.write_atomically(term.log, differences_name(failing.id, 1), b'{"kind":"extra","key":["1"]}\n')
    failed = TableReport("copy", "shop", "orders", CheckState.FAILED, why="no route to host")
    term.dumps.clear()
    term.report(failing.id, CheckState.FAILED, failed, table("lake", 1))
    following = Term(tmp_path, term.history)
    following.made.begin()
    following.made.follow()
    result = following.made.find(failing.id)
    assert result is not None
    assert [dump.dump_id for dump in (*term.dumps, *following.dumps)] == []
    assert not verification(*result).HasField("repair"), "a command does not wait for one"


@pytest.mark.parametrize("state", [CheckState.FAILED, CheckState.STOPPED])
def test_one_that_has_no_difference_or_was_stopped_repairs_nothing(term: Term, tmp_path: Path, state: CheckState) -> None:
    term.made.start(TO_REPAIR, ALICE)
    of_table = CheckState.FAILED if state is CheckState.FAILED else CheckState.DIFFERENT
    term.report(TO_REPAIR.id, state, TableReport("copy", "shop", "item", of_table, missing=1))
    following = Term(tmp_path, term.history)
    following.made.begin()
    for each in (term, following):
        each.made.follow()
        result = each.made.find(TO_REPAIR.id)
        assert (each.dumps, result and result[2]) == ([], None)


@pytest.mark.parametrize("seed", ["", "first"])
def test_the_second_comparison_is_of_the_sample_of_the_first(seed: str) -> None:
    tables = (RequestedTable("shop", "orders"), RequestedTable("shop", "item"))
    request = VerifyRequest(OperationId("v1"), ("copy", "lake"), tables, sample=0.01, repair=True, seed=seed)
    states = {"orders": CheckState.DIFFERENT, "item": CheckState.EQUAL}
    report = VerifyReport(
        OperationId("v1"), CheckState.DIFFERENT, 1, tables=[TableReport("copy", "shop", name, state) for name, state in states.items()]
    )
    result = follow_up(request, report, asked_ms=2)
    assert (result.sinks, result.tables, result.sample, result.seed) == (("copy",), tables[:1], 0.01, seed or "v1")
    assert not result.repair
