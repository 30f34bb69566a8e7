"""The repairs of a term: taken over, begun after a verification, answered and ended by operators. repairing.py has one repair.

- A repair's file is of its owner's epoch (shared/log/owned.py): an owner writes one as it takes over a repair that has not ended,
  and a late one's is not read.
- No repair of a verification that an operator has stopped corrects anything from then on. The history, where the stop is first, says so:
  an owner that takes the repair over, or would begin it, ends it (`_stopped`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from threading import RLock

from msgspec import structs

from sidecar.history.entry import HistoryEntry, OperationCommand
from sidecar.ports import OperationHistory
from sidecar.run.log_event import LogEvent
from sidecar.run.repairing import KeyDump, Repair, ended_by, follow_up, question, rows_to_delete
from sidecar.run.verification_texts import EQUAL, deletes_line, repair_line
from sidecar.shared.errors import LogUnreachable, RefusedRequest, StorageFull
from sidecar.shared.log.owned import OwnedLog
from sidecar.shared.log.verification import RepairReport, RepairState, VerifyReport, VerifyRequest, repair_stem
from sidecar.shared.log.verification_files import differences_of, read_repair, read_report, read_request
from sidecar.shared.model.messages import Asker
from sidecar.shared.model.nouns import OperationId
from sidecar.shared.model.progress import DumpState

ENDED = frozenset({RepairState.FINISHED, RepairState.FAILED})


class TermRepairs:
    """`lock`: of the verifications. `start_dump`: as of Repair. Raises what the log's storage and the history raise."""

    def __init__(
        self,
        log: OwnedLog,
        history: OperationHistory,
        wall_ms: Callable[[], int],
        lock: RLock,
        start_dump: Callable[[KeyDump], KeyDump],
        log_line: Callable[[LogEvent], object],
    ) -> None:
        self._owned, self._log, self._history, self._wall_ms = log, log.folder, history, wall_ms
        self._lock, self._start_dump, self._log_line = lock, start_dump, log_line
        self.running: dict[OperationId, Repair] = {}

    def take_over(self, entry: HistoryEntry) -> None:
        """One that an earlier term has not ended. One that asks continues when it has an answer."""
        if entry.state not in (DumpState.FINISHED, DumpState.FAILED) or entry.result == EQUAL:
            return
        request = read_request(self._log, entry.id)
        if request is None or not request.repair:
            return
        repair = read_repair(self._log, entry.id)
        if repair is not None and repair.state in ENDED:
            return
        if repair is not None and repair.state is RepairState.ASKS and _stop_of(entry) is None:
            self._write(entry.id, repair)
        elif (report := read_report(self._log, entry.id)) is not None and request.is_to_repair(report):
            self.begin(entry, report, request.delete_at_most if repair is None else repair.delete_at_most, before=repair)
            if entry.id in self.running:
                self._write(entry.id, repair or self.running[entry.id].report)

    def begin(self, entry: HistoryEntry, report: VerifyReport, delete_at_most: int | None, *, before: RepairReport | None = None) -> None:
        """`before`: how far it is, if it had begun."""
        if (stop := _stop_of(entry)) is not None:
            self._stopped(entry.id, stop.asked_by, before or RepairReport())
            return
        deletes = rows_to_delete(report, delete_at_most)
        if deletes:
            self._log_line(deletes_line(entry.id, deletes))
        begins = RepairReport(deletes=deletes, delete_at_most=delete_at_most)
        differences = partial(differences_of, self._log, entry.id, report)
        self.running[entry.id] = Repair(self._history, entry.id, entry.asked_by, differences, self._start_dump, begins)

    def allow(self, operation_id: OperationId, delete_at_most: int | None, asker: Asker) -> None:
        """As of VerificationPort."""
        with self._lock:
            report, repair = read_report(self._log, operation_id), read_repair(self._log, operation_id)
            entry = self._history.find(operation_id)
            if entry is None or report is None or repair is None or repair.state is not RepairState.ASKS:
                return  # another call was first
            deletes = rows_to_delete(report, delete_at_most)
            if requested := question(operation_id, deletes):
                raise RefusedRequest(
                    f"the repair of {operation_id} waits for {requested}", hint="look at the extra rows first: --differences"
                )
            self._history.record(entry.commanded("repair", asker, self._wall_ms()))
            self._write(operation_id, RepairReport(deletes=deletes, delete_at_most=delete_at_most))
            self.begin(entry, report, delete_at_most)

    def stop(self, operation_id: OperationId, asker: Asker) -> None:
        """Of a verification that is over. Again it changes nothing."""
        entry, known = self._history.find(operation_id), self.running.get(operation_id)
        report = read_repair(self._log, operation_id) if known is None else known.report
        if entry is None or report is None or report.state in ENDED:
            if entry is not None and _stop_of(entry) is not None:
                return
            raise RefusedRequest(f"verification {operation_id} is over, and it has no repair to end", hint="see dumpverify --list")
        self._history.record(entry.commanded("stop", asker, self._wall_ms()))
        self._stopped(operation_id, asker, report)

    def _stopped(self, operation_id: OperationId, asker: Asker, report: RepairReport) -> None:
        """`report`: the last one of the repair."""
        ended = ended_by(asker, report, self._history.find(report.dumps[-1]) if report.dumps else None)
        self.running.pop(operation_id, None)  # whether it can be written or not: the history has the stop
        self._write(operation_id, ended)
        self._log_line(repair_line(operation_id, ended))

    def give_up(self, operation_id: OperationId, why: str) -> bool:
        """Whether there was one."""
        repair = self.running.pop(operation_id, None)
        if repair is not None:
            failed = structs.replace(repair.report, state=RepairState.FAILED, error=f"{why}; verify and repair again", waiting_for="")
            self._write(operation_id, failed)
        return repair is not None

    def step(self, operation_id: OperationId, repair: Repair, start: Callable[[VerifyRequest, Asker], object]) -> None:
        """`start`: a verification."""
        before = repair.report
        try:
            report = repair.step()
            if report.state is not RepairState.RUNNING:
                self._end(operation_id, repair, start)
            with self._lock:  # one that asks may be answered as soon as it is on record
                if self.running.get(operation_id) is not repair:  # an operator has ended it amid the step
                    self._note_last_dump(operation_id, report, before)
                    return
                if report != before:
                    self._write(operation_id, report)
                if report.state is not RepairState.RUNNING:
                    del self.running[operation_id]
        except (LogUnreachable, StorageFull, RefusedRequest):
            repair.report = before  # the next step does it again; RefusedRequest: too many verifications wait

    def _note_last_dump(self, operation_id: OperationId, report: RepairReport, before: RepairReport) -> None:
        """A dump that the step had started by then is on record, so that an operator can end it."""
        ended, entry = read_repair(self._log, operation_id), self._history.find(operation_id)
        if report.dumps != before.dumps and ended is not None and entry is not None and (stop := _stop_of(entry)) is not None:
            now = structs.replace(ended, dumps=report.dumps)
            self._write(operation_id, ended_by(stop.asked_by, now, self._history.find(report.dumps[-1])))

    def _end(self, operation_id: OperationId, repair: Repair, start: Callable[[VerifyRequest, Asker], object]) -> None:
        report, request = repair.report, read_request(self._log, operation_id)
        verified = read_report(self._log, operation_id)
        if report.state is RepairState.FINISHED and request is not None and verified is not None:
            asker = replace(repair.asker, reason=f"after the repair of {operation_id}")
            start(follow_up(request, verified, asked_ms=self._wall_ms()), asker)
        self._log_line(repair_line(operation_id, report))

    def _write(self, operation_id: OperationId, report: RepairReport) -> None:
        self._owned.write(repair_stem(operation_id), report.to_json())


def _stop_of(entry: HistoryEntry) -> OperationCommand | None:
    return next((one for one in entry.commands if one.command == "stop"), None)
