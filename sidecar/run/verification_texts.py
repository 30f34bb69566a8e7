"""What the history and the log say of a verification."""

from __future__ import annotations

from collections.abc import Sequence

from sidecar.control.dump_scope import NAMED_MAX
from sidecar.history.entry import HistoryEntry, OperationKind, OperationScope
from sidecar.run.log_event import LogEvent
from sidecar.shared.log.verification import CheckState, RepairReport, RepairState, RowsToDelete, VerifyReport, VerifyRequest
from sidecar.shared.model.messages import Asker
from sidecar.shared.model.progress import DumpState

EQUAL = "equal"
"""The result of a verification without a difference."""

STATES = {
    CheckState.EQUAL: DumpState.FINISHED,
    CheckState.DIFFERENT: DumpState.FINISHED,
    CheckState.FAILED: DumpState.FAILED,
    CheckState.STOPPED: DumpState.STOPPED,
    CheckState.INCOMPLETE: DumpState.FINISHED,
}
"""Of the history, by that of the report."""


def entry_of(request: VerifyRequest, asker: Asker, now_ms: int) -> HistoryEntry:
    tables = tuple(str(table.name) for table in request.tables)
    scope = OperationScope(tables, len(tables), filtered=sum(bool(table.where) for table in request.tables), sinks=request.sinks)
    return HistoryEntry(request.id, OperationKind.VERIFICATION, scope, asker, now_ms, running_since_ms=now_ms)


def ended_line(entry: HistoryEntry) -> LogEvent:
    values = {"id": entry.id, "state": entry.state.value, "result": entry.result, "rows": entry.rows}
    return LogEvent("verification ended", values, "info" if entry.result in (EQUAL, "") else "warning")


def deletes_line(operation_id: str, deletes: Sequence[RowsToDelete]) -> LogEvent:
    """Before the repair begins."""
    values = {"verification": operation_id, "rows": sum(one.rows for one in deletes), "from": "; ".join(map(str, deletes[:NAMED_MAX]))}
    return LogEvent("repair deletes rows", values, "warning")


def repair_line(operation_id: str, report: RepairReport) -> LogEvent:
    values = {"verification": operation_id, "state": report.state.value, "keys": report.keys, "dumps": len(report.dumps)}
    values |= {"error": report.error} if report.error else {}
    if report.state is RepairState.ASKS:
        return LogEvent("repair asks", values | {"waiting_for": report.waiting_for}, "warning")
    return LogEvent("repair ended", values, "warning" if report.error else "info")


def result_of(report: VerifyReport) -> str:
    """Its result, in a few words."""
    failed = [table for table in report.tables if table.state in (CheckState.FAILED, CheckState.SKIPPED)]
    counts = {kind: sum(getattr(table, kind) for table in report.tables) for kind in ("missing", "extra", "different", "duplicate")}
    text = ", ".join(f"{count:,} {kind}" for kind, count in counts.items() if count)
    if not text:
        text = EQUAL if report.state is CheckState.EQUAL else ""
    if report.state is CheckState.INCOMPLETE:
        lacking = [table for table in report.tables if table.state is CheckState.INCOMPLETE]
        more = f" and {len(lacking) - 1} more tables" if len(lacking) > 1 else ""
        return f"incomplete: {lacking[0].sink} has not received all rows of {lacking[0].name}{more} yet"
    why = f"{failed[0].name} in {failed[0].sink} was not compared: {failed[0].why}" if failed else ""
    return "; ".join(filter(None, [text, why]))
