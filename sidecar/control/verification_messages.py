"""Verifications as operators ask for them: what a request means, and what is reported.

`VerificationPort` keeps them. Which rows a changefeed carries is dump_scope's to say, as for a dump: what its filter hides is not
compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from types import MappingProxyType
from typing import Protocol

from msgspec import structs

from sidecar.control.dump_scope import Scope, is_dump_id, refused, unknown_sinks
from sidecar.control.judging import Targets, not_repairable, unjudged
from sidecar.control.wire import CHECKS, REPAIRS
from sidecar.core.marks import DUMP_ID_LENGTH
from sidecar.ports import TableEstimate
from sidecar.shared.errors import RefusedRequest
from sidecar.shared.log.verification import (
    OVER,
    TABLE_OVER,
    CheckState,
    RepairReport,
    RequestedTable,
    RowDifference,
    TableReport,
    Unjudged,
    VerifyReport,
    VerifyRequest,
)
from sidecar.shared.log.verification_state import VerifyState, state_of
from sidecar.shared.model.messages import Asker
from sidecar.shared.model.nouns import OperationId, operation_id
from ticdc_dump.v1 import control_pb2 as pb

NO_TARGETS: Targets = MappingProxyType({})
EXAMPLES_REPORTED_MAX = 2_000
"""Of all tables together: an answer stays within what gRPC sends."""


class VerificationPort(Protocol):
    """Of the changefeed that this process owns. For any thread. Raises what the log's storage and the history raise."""

    def start(self, request: VerifyRequest, asker: Asker) -> None:
        """Durable when it returns; again with the same id changes nothing. Raises RefusedRequest."""

    def stop(self, operation_id: OperationId, asker: Asker) -> None:
        """As `start`. Of one that is over, its repair is ended, and not the repair's dump that may run. Raises RefusedRequest where nothing
        is to be ended."""

    def allow(self, operation_id: OperationId, delete_at_most: int | None, asker: Asker) -> None:
        """Its repair asks, and continues with this bound; None: the bound that it has without one. Raises RefusedRequest where it would
        ask again."""

    def last_id(self) -> OperationId | None:
        """Of the one that was requested last."""

    def find(self, operation_id: OperationId) -> tuple[VerifyRequest, VerifyReport | None, RepairReport | None] | None:
        """The request, how far it is, and its repair; no report before these begin. None: there is none of this id, or its files are
        removed."""

    def look(self, operation_id: OperationId) -> tuple[VerifyState, RepairReport | None] | None:
        """How far it is, without its tables and its request. None: it has not begun."""

    def running(self) -> VerifyState | None:
        """How far the one is that runs, as of a moment ago; None: none runs. Reads no file."""

    def differences(self, operation_id: OperationId) -> Iterator[tuple[TableReport, RowDifference]]:
        """All that the verification has."""


def asked(
    request: pb.VerifyRequest, scope: Scope, *, sinks: Mapping[str, str], targets: Targets = NO_TARGETS, asked_ms: int
) -> VerifyRequest:
    """`sinks`: of each, by name, why its rows cannot be read back; empty where they can. `targets`: as of judging. Raises RefusedRequest
    with everything that is against it."""
    refusals = [*scope.refusals, *unknown_sinks(request.sinks, sinks)]
    if not request.dry_run and not is_dump_id(request.id):
        refusals.append(f"id {request.id!r} is not {DUMP_ID_LENGTH} letters and digits")
    if not 0 <= request.sample <= 1:
        refusals.append(f"a sample of {request.sample:g} is not above 0 and at most 1")
    refusals += [f"sink {name} cannot be read back: {sinks[name]}" for name in request.sinks if sinks.get(name)]
    chosen = tuple(dict.fromkeys(request.sinks)) or tuple(name for name in sinks if not sinks.get(name))
    if not chosen and not refusals:
        refusals.append("no sink can be read back: " + "; ".join(f"{name}: {why}" for name, why in sinks.items() if why))
    legitimate = unjudged(scope, chosen, targets)
    rows = {one.table: one.rows or 0 for one in scope.estimates}
    refusals += not_repairable(legitimate) if request.repair else ()
    if refusals:
        raise refused(refusals, hint="see dumpverify --dry-run for what would be compared")
    return VerifyRequest(
        id=OperationId(request.id),
        sinks=chosen,
        tables=tuple(RequestedTable(*table, scope.where.get(table, ""), rows.get(table, 0)) for table in scope.tables),
        sample=request.sample or 1.0,
        left_out={name: why for name, why in sinks.items() if why and not request.sinks},
        asked_ms=asked_ms,
        repair=request.repair,
        partly=request.repair,
        unjudged=legitimate,
        delete_at_most=request.delete_at_most if request.HasField("delete_at_most") else None,
    )


def derived_id(operation_id: str, what: str) -> OperationId:
    """The id of an operation that follows another one."""
    return OperationId(sha256(f"{operation_id}/{what}".encode()).hexdigest()[:DUMP_ID_LENGTH])


def expected(request: VerifyRequest, estimates: Iterable[TableEstimate]) -> pb.Verification:
    """Of a request that is not to be carried out: it has no id, and waits for nothing."""
    rows = {one.table: one.rows or 0 for one in estimates}
    result = verification(request, None)
    for name in ("id", "asked_ms", "state", "waiting_for", "table_count"):
        result.ClearField(name)
    for sink in request.sinks:
        for table in request.tables:
            result.tables.append(
                pb.CheckedTable(
                    sink=sink,
                    schema=table.schema,
                    table=table.table,
                    state=pb.CHECK_STATE_WAITING,
                    where=table.where,
                    rows_estimated=int(rows.get(table.name, 0) * request.sample),
                    partial=bool(table.where) or request.sample < 1,
                    unjudged=_unjudged(one for one in request.unjudged if (one.sink, one.name) == (sink, table.name)),
                )
            )
    return result


def verification(
    request: VerifyRequest, report: VerifyReport | None, repair: RepairReport | None = None, *, starves: str = ""
) -> pb.Verification:
    """`starves`: what the verifications of the merge worker wait for while they get next to nothing done; empty: they do."""
    result = brief(request, None if report is None else state_of(report, request), repair, starves=starves)
    if report is None:
        result.table_count = len(request.sinks) * len(request.tables)
    else:
        result.ClearField("tables")
        wheres = {table.name: table.where for table in request.tables}
        room = EXAMPLES_REPORTED_MAX
        for table in report.tables:
            result.tables.append(_table(table, wheres.get(table.name, ""), examples_max=room))
            room -= len(result.tables[-1].examples)
    return result


def brief(request: VerifyRequest, state: VerifyState | None, repair: RepairReport | None = None, *, starves: str = "") -> pb.Verification:
    """With the tables that the state shows. `request`: its tables may be omitted. `starves`: as of `verification`."""
    result = pb.Verification(
        id=request.id,
        state=CHECKS[state.state if state else CheckState.WAITING],
        asked_ms=request.asked_ms,
        sample=request.sample,
        left_out=[pb.LeftOutSink(sink=name, why=why) for name, why in request.left_out.items()],
        waiting_for=_waiting_for(request, state, starves),
    )
    if state is not None:
        result.started_ms, result.ended_ms = state.started_ms, state.ended_ms
        result.rows, result.differences = state.rows, state.differences
        result.table_count = sum(state.tables.values())
        result.tables_done = sum(number for one, number in state.tables.items() if one in TABLE_OVER)
        if state.state is CheckState.RUNNING:
            result.rows_per_second, result.remaining_s = state.rows_per_s, state.remaining_s
        result.tables.extend(_table(table, "", examples_max=0) for table in state.shown)
        if request.is_to_repair(state):
            result.repair.CopyFrom(_repair(repair or RepairReport()))
    return result


def answer_of(
    port: VerificationPort, request: pb.VerificationRequest | pb.VerifyRequest, *, is_brief: bool = False, starves: str = ""
) -> pb.Verification:
    """Of the id that the request has, or the last one. Raises RefusedRequest for one that is not there, and as the port."""
    wanted = operation_id(request.id) if request.id else port.last_id()
    looked = port.look(wanted) if wanted and is_brief else None
    if looked is not None and (known := looked[0].request) is not None:
        shown = brief(known, *looked, starves=starves)
    else:
        there = port.find(wanted) if wanted else None
        if there is None and request.id:
            raise RefusedRequest(f"there is no verification {request.id}, or its report is removed", hint="see dumpverify --list")
        shown = verification(*there, starves=starves) if there is not None else pb.Verification()
    shown.changefeed.CopyFrom(request.changefeed)
    return shown


def note_running(status: pb.DumpStatus, port: VerificationPort | None, starves: str) -> None:
    """The verification that is under way, in a status."""
    running = None if port is None else port.running()
    if running is not None and running.request is not None:
        status.verification.CopyFrom(brief(running.request, running, starves=starves))


def row_difference(difference: RowDifference) -> pb.RowDifference:
    cells = [pb.CellDifference(column=cell.column, source=cell.source, sink=cell.sink) for cell in difference.cells]
    return pb.RowDifference(kind=difference.kind, key=difference.key, cells=cells)


def _waiting_for(request: VerifyRequest, state: VerifyState | None, starves: str) -> str:
    if state is not None:
        return (starves if state.state not in OVER else "") or state.waiting_for
    if starves and not request.after_dump:
        return starves
    dump = f"dump {request.after_dump} and its delivery to the sinks, or " if request.after_dump else ""
    return f"{dump}the merge worker, which has not begun with it"


def _repair(report: RepairReport) -> pb.Repair:
    return pb.Repair(
        state=REPAIRS[report.state],
        keys=report.keys,
        dumps=report.dumps,
        followed_by=report.followed_by,
        error=report.error,
        waiting_for=report.waiting_for,
        deletes=[pb.RowsToDelete(**structs.asdict(one)) for one in report.deletes],
    )


def _table(report: TableReport, where: str, *, examples_max: int) -> pb.CheckedTable:
    return pb.CheckedTable(
        sink=report.sink,
        schema=report.schema,
        table=report.table,
        state=CHECKS[report.state],
        rows=report.rows,
        rows_estimated=report.rows_total,
        equal=report.equal,
        missing=report.missing,
        extra=report.extra,
        different=report.different,
        moving=report.moving,
        unlooked=report.unlooked,
        low_tso=int(report.low_tso or 0),
        high_tso=int(report.high_tso or 0),
        seconds=report.seconds,
        columns=[pb.ColumnDifferences(column=column, rows=rows) for column, rows in sorted(report.columns.items())],
        examples=[row_difference(one) for one in report.examples[: max(examples_max, 0)]],
        why=report.why,
        partial=report.partial,
        where=where,
        parts=report.parts,
        parts_done=report.parts_done,
        duplicate=report.duplicate,
        expected=report.expected,
        unjudged=_unjudged(report.unjudged),
        look=report.look,
        look_ms=report.look_ms,
        pending=report.pending,
    )


def _unjudged(value: Iterable[Unjudged]) -> list[pb.UnjudgedKinds]:
    return [pb.UnjudgedKinds(kinds=one.kinds, why=one.why) for one in value]
