"""What a request for a verification means, all that is against it, and what is reported of one."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from msgspec import structs

from sidecar.control.dump_scope import Scope
from sidecar.control.verification_messages import EXAMPLES_REPORTED_MAX, asked, expected, verification
from sidecar.ports import TableEstimate
from sidecar.shared.errors import RefusedRequest
from sidecar.shared.log.verification import (
    OVER,
    CellDifference,
    CheckState,
    RepairReport,
    RepairState,
    RequestedTable,
    RowDifference,
    RowsToDelete,
    TableReport,
    VerifyReport,
    VerifyRequest,
)
from sidecar.shared.model.nouns import OperationId, TableName
from ticdc_dump.v1 import control_pb2 as pb

ORDERS, ITEM = TableName("shop", "orders"), TableName("shop", "item")
ID = OperationId("a" * 16)
SINKS = {"copy": "", "lake": "", "shown": "it keeps nothing"}


def scope(*refusals: str) -> Scope:
    return Scope([ORDERS, ITEM], where={ORDERS: "(`id` > 3)"}, refusals=list(refusals))


def request_of(request: pb.VerifyRequest, value: Scope | None = None, *, sinks: Mapping[str, str] = SINKS) -> VerifyRequest:
    return asked(request, value or scope(), sinks=sinks, asked_ms=7)


def test_without_names_all_sinks_that_can_be_read_are_compared_and_the_others_named() -> None:
    assert request_of(pb.VerifyRequest(id=ID)) == VerifyRequest(
        ID, ("copy", "lake"), (RequestedTable(*ORDERS, "(`id` > 3)"), RequestedTable(*ITEM)), 1.0, {"shown": "it keeps nothing"}, 7
    )


def test_sinks_that_are_named_are_compared_once_and_no_other_is_left_out() -> None:
    request = request_of(pb.VerifyRequest(id=ID, sinks=["lake", "lake"], sample=0.25))
    assert (request.sinks, request.left_out, request.sample) == (("lake",), {}, 0.25)


@pytest.mark.parametrize(
    ("request_", "value", "sinks", "says"),
    [
        (pb.VerifyRequest(id="short"), None, SINKS, ["id 'short' is not 16 letters and digits"]),
        (pb.VerifyRequest(id=ID, sample=1.5), None, SINKS, ["a sample of 1.5 is not above 0 and at most 1"]),
        (pb.VerifyRequest(id=ID, sample=-0.1), None, SINKS, ["a sample of -0.1 is not"]),
        (pb.VerifyRequest(id=ID, sinks=["shown"]), None, SINKS, ["sink shown cannot be read back: it keeps nothing"]),
        (pb.VerifyRequest(id=ID, sinks=["nobody"]), None, SINKS, ["no sink is called nobody: the sinks are copy, lake, shown"]),
        (pb.VerifyRequest(id=ID), None, dict.fromkeys(SINKS, "no rows"), ["no sink can be read back: copy: no rows; lake: no rows"]),
        (pb.VerifyRequest(id=ID), scope("orders has no key"), SINKS, ["orders has no key"]),
        (
            pb.VerifyRequest(id="short", sample=2, sinks=["shown", "nobody"]), scope("orders has no key"), SINKS,
            ["orders has no key", "no sink is called nobody", "id 'short'", "a sample of 2", "sink shown cannot be read back"],
        ),
    ],
)  # fmt: skip
def test_everything_that_is_against_it_is_reported_at_once(
    request_: pb.VerifyRequest, value: Scope | None, sinks: Mapping[str, str], says: list[str]
) -> None:
    with pytest.raises(RefusedRequest) as refused:
        request_of(request_, value, sinks=sinks)
    assert [text for text in says if text not in refused.value.message] == []
    assert refused.value.message.count(";") >= len(says) - 1


def test_a_repair_is_requested_with_it() -> None:
    assert [request_of(pb.VerifyRequest(id=ID, repair=repair)).repair for repair in (True, False)] == [True, False]


@pytest.mark.parametrize("given", [None, 0, 7])
def test_what_a_repair_may_delete_is_requested_with_it_and_0_is_not_nothing(given: int | None) -> None:
    assert request_of(pb.VerifyRequest(id=ID, repair=True, delete_at_most=given)).delete_at_most == given


def test_a_dry_run_needs_no_id() -> None:
    assert request_of(pb.VerifyRequest(dry_run=True)).sinks == ("copy", "lake")


def test_what_would_be_compared_is_reported_with_the_sources_estimates() -> None:
    request = request_of(pb.VerifyRequest(dry_run=True, sample=0.1))
    result = expected(request, [TableEstimate(ORDERS, 1000, None, "key"), TableEstimate(ITEM, None, None, "key")])
    reported = [(one.sink, one.table, one.rows_estimated, one.partial, one.where, one.state) for one in result.tables]
    waiting = pb.CHECK_STATE_WAITING
    assert reported == [
        (sink, *rest)
        for sink in ("copy", "lake")
        for rest in (("orders", 100, True, "(`id` > 3)", waiting), ("item", 0, True, "", waiting))
    ]
    assert [(one.sink, one.why) for one in result.left_out] == [("shown", "it keeps nothing")]


REQUEST = VerifyRequest(ID, ("copy",), (RequestedTable(*ORDERS, "id > 3"), RequestedTable(*ITEM)), 0.5, {"shown": "no rows"}, 7)


def test_one_that_has_not_begun_waits_for_the_merge_worker() -> None:
    result = verification(REQUEST, None)
    assert (result.id, result.state, result.asked_ms, result.sample) == (ID, pb.CHECK_STATE_WAITING, 7, 0.5)
    assert "merge worker" in result.waiting_for
    assert not result.tables


@pytest.mark.parametrize("state", [None, *CheckState])
@pytest.mark.parametrize("waits", ["", "the log"])
@pytest.mark.parametrize("after", ["", "d" * 16])
def test_one_that_gets_next_to_nothing_done_waits_for_that_first(state: CheckState | None, waits: str, after: str) -> None:
    """One that is over waits for nothing, and one that has not begun may wait for its dump."""
    report = None if state is None else VerifyReport(ID, state, 8, waiting_for=waits)
    request = structs.replace(REQUEST, after_dump=after)
    usual = verification(request, report).waiting_for
    result = verification(request, report, starves="a processor").waiting_for
    starves = not after if state is None else state not in OVER
    assert result == ("a processor" if starves else usual)


def test_a_report_is_reported_as_it_is() -> None:
    cell = CellDifference("v", None, "")
    orders = TableReport(
        "copy", *ORDERS, CheckState.DIFFERENT, 9, 10, 5, 1, 2, 3, 4, 6, "470000000000000000", "470000000000000001", 1.5,
        {"v": 3, "a": 1}, [RowDifference("different", ("1", "x"), (cell,))], "", partial=True, parts=8, parts_done=7,
    )  # fmt: skip
    skipped = TableReport("copy", *ITEM, CheckState.SKIPPED, why="DDLs")
    result = verification(REQUEST, VerifyReport(ID, CheckState.DIFFERENT, 8, 9, tables=[orders, skipped]))
    assert (result.state, result.started_ms, result.ended_ms, result.waiting_for) == (pb.CHECK_STATE_DIFFERENT, 8, 9, "")
    reported = result.tables[0]
    counts = (
        reported.rows,
        reported.rows_estimated,
        reported.equal,
        reported.missing,
        reported.extra,
        reported.different,
        reported.moving,
        reported.unlooked,
    )
    assert counts == (9, 10, 5, 1, 2, 3, 4, 6)
    assert (reported.low_tso, reported.high_tso, reported.seconds, reported.parts, reported.parts_done) == (
        470000000000000000,
        470000000000000001,
        1.5,
        8,
        7,
    )
    assert (reported.where, reported.partial, result.tables[1].where) == ("id > 3", True, "")
    assert [(one.column, one.rows) for one in reported.columns] == [("a", 1), ("v", 3)]
    [example] = reported.examples
    assert (example.kind, example.key[:]) == ("different", ["1", "x"])
    [shown] = example.cells
    assert (shown.HasField("source"), shown.HasField("sink"), shown.sink) == (False, True, ""), "NULL is not an empty text"
    assert (result.tables[1].state, result.tables[1].why) == (pb.CHECK_STATE_SKIPPED, "DDLs")


def test_one_that_runs_reports_its_rate_what_is_left_and_what_it_waits_for() -> None:
    done = TableReport("copy", *ORDERS, CheckState.EQUAL, 3_000, 3_000)
    half = TableReport("copy", *ITEM, CheckState.RUNNING, 1_000, 3_000, parts=4, parts_done=2, waiting_for="the log")
    report = VerifyReport(ID, CheckState.RUNNING, 5_000, written_ms=45_000, tables=[done, half])
    result = verification(REQUEST, report)
    assert (result.rows_per_second, result.waiting_for) == (100.0, "the log")
    assert round(result.remaining_s, 3) == 13.333, "a quarter is left of what took 40 s for three"
    assert verification(REQUEST, structs.replace(report, waiting_for="live delivery")).waiting_for == "live delivery"
    over = verification(REQUEST, structs.replace(report, state=CheckState.STOPPED))
    assert (over.rows_per_second, over.remaining_s) == (0.0, 0.0)
    assert verification(REQUEST, structs.replace(report, tables=[structs.replace(half, parts_done=0)])).remaining_s == 0.0, "not known"


@pytest.mark.parametrize(
    ("requested_for", "state", "reported"),
    [
        (True, CheckState.DIFFERENT, True), (True, CheckState.FAILED, True), (True, CheckState.EQUAL, False),
        (True, CheckState.STOPPED, False), (False, CheckState.DIFFERENT, False),
    ],
)  # fmt: skip
def test_a_repair_is_reported_where_one_was_requested_and_something_differs(requested_for: bool, state: CheckState, reported: bool) -> None:
    request = structs.replace(REQUEST, repair=requested_for, partly=True)
    table = TableReport("copy", *ITEM, CheckState.EQUAL if state is CheckState.EQUAL else CheckState.DIFFERENT)
    result = verification(request, VerifyReport(ID, state, 8, tables=[table]))
    assert result.HasField("repair") == reported
    assert not reported or result.repair.state == pb.REPAIR_STATE_RUNNING, "before its first step too"
    deletes = (RowsToDelete("copy", *ITEM, 5, 4),)
    repair = RepairReport(
        RepairState.FAILED, dumps=(OperationId("d1"), OperationId("d2")), keys=3, error="the source is away", deletes=deletes
    )
    result = verification(request, VerifyReport(ID, state, 8, tables=[table]), repair)
    if reported:
        assert result.repair == pb.Repair(
            state=pb.REPAIR_STATE_FAILED, dumps=["d1", "d2"], keys=3, error="the source is away",
            deletes=[pb.RowsToDelete(sink="copy", schema="shop", table="item", rows=5, at_most=4)],
        )  # fmt: skip


def test_an_answer_has_a_bounded_number_of_examples() -> None:
    examples = [RowDifference("missing", (str(number),)) for number in range(EXAMPLES_REPORTED_MAX - 1)]
    tables = [TableReport("copy", "s", f"t{number}", CheckState.DIFFERENT, examples=examples) for number in range(3)]
    result = verification(REQUEST, VerifyReport(ID, CheckState.DIFFERENT, 8, tables=tables))
    assert [len(table.examples) for table in result.tables] == [EXAMPLES_REPORTED_MAX - 1, 1, 0]
