"""A term's verifications: requested from the merge worker by files beside the log, followed by its reports, and kept in the history.

    operator ─► history entry, request.json ─► merge worker ─► report.json ─► history entry
    continuous.py ─► request.json ─► merge worker ─► report.json ─► history entry, unless all rows are equal

- The entry comes first. If a death prevents the request's file, the client repeats the request, or the verification ends here as failed.
- A report is in the history within FOLLOW_S, its rows within PROGRESS_S. Retention keeps what is still to be read (`needs_from`).
- A service beside the stream (auxiliary.py). What is wrong with one verification or its files ends that one, by a result that says so; an
  outage of etcd ends the service's life, and the next one takes over again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from threading import Event, RLock
from time import monotonic

from msgspec import structs

from sidecar.core.messages import Asker
from sidecar.core.model import FIRST_SEQ, OperationId, Seq
from sidecar.core.progress import OVER, DumpState
from sidecar.errors import CoordinationError, LogUnreachable, RefusedRequest, StorageFull, TicdcDumpError
from sidecar.history.entry import HistoryEntry, OperationKind
from sidecar.log import storage
from sidecar.log import verification as files
from sidecar.log.errors import storage_errors
from sidecar.log.storage import Folder
from sidecar.log.verification import CheckState, RepairReport, RepairState, RowDifference, TableReport, VerifyReport, VerifyRequest
from sidecar.log.verification_files import (
    differences_of,
    end_stopped,
    read_repair,
    read_report,
    read_request,
    read_waiting,
    remove_files,
    remove_others,
    remove_waiting,
    set_aside,
)
from sidecar.run import logs, retention
from sidecar.run.awaited_dumps import AwaitedDumps
from sidecar.run.continuous import ASKER, ContinuousVerification
from sidecar.run.cycle import VerifiedSinks
from sidecar.run.log_event import LogEvent
from sidecar.run.repairing import KeyDump, Repair, ended_by, follow_up, question, rows_to_delete
from sidecar.run.verification_texts import EQUAL, STATES, deletes_line, ended_line, entry_of, repair_line, result_of

FOLLOW_S, PROGRESS_S = 1.0, 10.0
WAITING_MAX = 20
"""Verifications that run or wait: one runs at a time."""
HOLD_S = 60.0
"""After the begin of a term: so long retention waits until it is known what is to be read. The stream comes first then (retention.py)."""
KEPT_MAX = 100
"""Verifications whose reports and differences are kept; of older ones the history has the result."""


class TermVerifications:
    """`control.verifying.VerificationPort`. `log_line` receives a line for each that ends. `start_dump`: as of Repair."""

    def __init__(
        self,
        log: Folder,
        dumps: AwaitedDumps,
        wall_ms: Callable[[], int],
        *,
        start_dump: Callable[[KeyDump], KeyDump],
        continuous: ContinuousVerification,
        log_line: Callable[[LogEvent], object] = logs.say,
    ) -> None:
        self._log, self._history, self._wall_ms, self._log_line = log, dumps.history, wall_ms, log_line
        self._start_dump, self._continuous = start_dump, continuous
        self._awaited = dumps
        self._slice: VerifyRequest | None = None
        self._repairs: dict[OperationId, Repair] = {}
        self._lock = RLock()
        self._begun, self._hold_until_s = False, monotonic() + HOLD_S
        self._running: dict[OperationId, HistoryEntry] = {}
        self._needs = retention.NeededSegments()
        self._recorded_s: dict[OperationId, float] = {}
        self._last: OperationId | None = None

    def serve(self, ending: Event) -> None:
        """A life of the service. Raises what the history raises, and what keeps it from knowing what is there."""
        self.begin()
        while not ending.wait(FOLLOW_S):
            self.follow()

    def begin(self) -> None:
        """Take over what an earlier term or life has left. Raises as `serve`."""
        with self._lock, set_aside(self._log):
            self._running, self._repairs, self._slice, self._needs = {}, {}, None, retention.NeededSegments()
            entries = [entry for entry in self._history.entries() if entry.kind is OperationKind.VERIFICATION]
            self._last = entries[0].id if entries else None
            for entry in entries:
                self._separate(entry.id, partial(self._take_over, entry))
            self._take_over_slice()
        self.follow()
        self._begun = True

    def _take_over(self, entry: HistoryEntry) -> None:
        if entry.state in OVER:
            self._take_over_repair(entry)
            return
        self._running[entry.id] = entry
        if read_request(self._log, entry.id) is None and read_waiting(self._log, entry.id) is None:
            self._end(entry.id, DumpState.FAILED, "the sidecar ended before it could request this from the merge worker")

    def needs_from(self) -> Seq | None:
        """The first segment that a verification still has to read, by the last report."""
        if not self._begun and monotonic() < self._hold_until_s:
            return FIRST_SEQ
        return self._needs.first()

    def metrics(self) -> VerifiedSinks:
        return self._continuous.metrics()

    # ---- control.verifying.VerificationPort -------------------------------------------------------------------------------

    def start(self, request: VerifyRequest, asker: Asker) -> None:
        with self._lock:
            if request.id not in self._running:
                if len(self._running) >= WAITING_MAX:
                    raise RefusedRequest(f"{WAITING_MAX} verifications run or wait already", hint="wait, or end one with dumpverify --stop")
                entry = entry_of(request, asker, self._wall_ms())
                self._history.record(entry)
                with storage_errors(self._log):
                    storage.remove(self._log, [files.stop_name(request.id)])  # of one that was rejected under this id
                name = files.waiting_name(request.id) if request.after_dump else files.request_name(request.id)
                self._write(name, request.to_json())
                self._running[request.id], self._last = entry, request.id  # now: one without files is given up
                self._remove_old()

    def stop(self, operation_id: OperationId, asker: Asker) -> None:
        with self._lock:
            entry = self._running.get(operation_id)
            if entry is None:
                self._stop_repair(operation_id, asker)
                return
            self._write(files.stop_name(operation_id), b"")
            self._running[operation_id] = entry.commanded("stop", asker, self._wall_ms())
            if read_waiting(self._log, operation_id) is not None:
                self._end_waiting(operation_id, "before it began")
            else:
                self._received(operation_id, end_stopped(self._log, operation_id, self._wall_ms()))

    def _stop_repair(self, operation_id: OperationId, asker: Asker) -> None:
        """Of a verification that is over. Again it changes nothing."""
        entry, known = self._history.find(operation_id), self._repairs.get(operation_id)
        report = read_repair(self._log, operation_id) if known is None else known.report
        if entry is None or report is None or report.state in (RepairState.FINISHED, RepairState.FAILED):
            if entry is not None and any(one.command == "stop" for one in entry.commands):
                return
            raise RefusedRequest(f"verification {operation_id} is over, and it has no repair to end", hint="see dumpverify --list")
        ended = ended_by(asker, report, self._history.find(report.dumps[-1]) if report.dumps else None)
        self._history.record(entry.commanded("stop", asker, self._wall_ms()))
        self._write(files.repair_name(operation_id), ended.to_json())
        self._repairs.pop(operation_id, None)
        self._log_line(repair_line(operation_id, ended))

    def allow(self, operation_id: OperationId, delete_at_most: int | None, asker: Asker) -> None:
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
            allowed = RepairReport(deletes=deletes, delete_at_most=delete_at_most)
            self._write(files.repair_name(operation_id), allowed.to_json())
            self._begin_repair(entry, report, delete_at_most)

    def last_id(self) -> OperationId | None:
        return self._last

    def find(self, operation_id: OperationId) -> tuple[VerifyRequest, VerifyReport | None, RepairReport | None] | None:
        request = read_request(self._log, operation_id) or read_waiting(self._log, operation_id)
        return None if request is None else (request, read_report(self._log, operation_id), read_repair(self._log, operation_id))

    def differences(self, operation_id: OperationId) -> Iterator[tuple[TableReport, RowDifference]]:
        return differences_of(self._log, operation_id, read_report(self._log, operation_id))

    # ---- following the worker's reports ----------------------------------------------------------------------------------

    def follow(self) -> None:
        """What the reports say. A storage that does not answer is read again. Raises what the history raises."""
        for operation_id in tuple(self._running):  # a copy: other threads change it
            with suppress(LogUnreachable, StorageFull):
                self._separate(operation_id, partial(self._follow_one, operation_id))
        for operation_id, repair in list(self._repairs.items()):
            with suppress(LogUnreachable, StorageFull):
                self._separate(operation_id, partial(self._repair, operation_id, repair))
        with suppress(LogUnreachable, StorageFull), set_aside(self._log):
            self._begin_slice()

    def _separate(self, operation_id: OperationId, work: Callable[[], object]) -> None:
        """Whatever is wrong with one of them ends that one. Raises what a retry can help, and what the history raises."""
        try:
            with set_aside(self._log):
                work()
        except TicdcDumpError as error:
            if error.retryable or isinstance(error, CoordinationError):
                raise
            self._give_up(operation_id, str(error))
        except Exception as error:  # noqa: BLE001  # a defect in one of them ends that one
            logs.log.warning("a defect in a verification", verification=operation_id, exc_info=error)
            self._give_up(operation_id, f"a defect: {error!r}")

    def _give_up(self, operation_id: OperationId, why: str) -> None:
        """As `_separate`."""
        self._log_line(LogEvent("verification given up", {"verification": operation_id, "text": why}, "warning"))
        repair = self._repairs.pop(operation_id, None)
        try:
            if repair is not None:
                failed = structs.replace(repair.report, state=RepairState.FAILED, error=f"{why}; verify and repair again", waiting_for="")
                self._write(files.repair_name(operation_id), failed.to_json())
            elif operation_id in self._running:
                self._write(files.stop_name(operation_id), b"")  # the worker is to end it, too
                self._end(operation_id, DumpState.FAILED, why)
        except TicdcDumpError as error:
            if error.retryable or isinstance(error, CoordinationError):
                raise
            with self._lock:  # not even that can be written: it is as not there until the next life looks again
                self._running.pop(operation_id, None)
                self._needs.drop(operation_id)
                self._slice = None if self._is_slice(operation_id) else self._slice

    def _follow_one(self, operation_id: OperationId) -> None:
        report = read_report(self._log, operation_id)
        if report is not None and report.state in files.OVER:
            self._received(operation_id, report)
        elif (request := read_waiting(self._log, operation_id)) is not None:
            self._await_dump(operation_id, request)
        elif read_request(self._log, operation_id) is None:
            self._give_up(operation_id, "its files are gone")
        elif report is not None:
            self._received(operation_id, report)

    def _await_dump(self, operation_id: OperationId, request: VerifyRequest) -> None:
        """One that is to begin after a dump."""
        match self._awaited.next_of(request, now_ms=self._wall_ms()):
            case VerifyRequest() as follows if follows.after_dump == request.after_dump:
                self._write(files.request_name(operation_id), request.to_json())
                remove_waiting(self._log, operation_id)
            case VerifyRequest() as follows:
                self._write(files.waiting_name(operation_id), follows.to_json())
            case str(why):
                self._end_waiting(operation_id, why)
            case None:
                pass

    def _end_waiting(self, operation_id: OperationId, why: str) -> None:
        remove_waiting(self._log, operation_id)
        self._end(operation_id, DumpState.STOPPED, why)

    def _take_over_repair(self, entry: HistoryEntry) -> None:
        """One that an earlier term has not ended. One that waits for an answer continues when it has one."""
        if entry.state in (DumpState.FINISHED, DumpState.FAILED) and entry.result != EQUAL:
            repair, request = read_repair(self._log, entry.id), read_request(self._log, entry.id)
            if request is None or not request.repair or (repair is not None and repair.state is not RepairState.RUNNING):
                return
            if (report := read_report(self._log, entry.id)) is not None and request.is_to_repair(report):
                self._begin_repair(entry, report, request.delete_at_most if repair is None else repair.delete_at_most)

    def _begin_repair(self, entry: HistoryEntry, report: VerifyReport, delete_at_most: int | None) -> None:
        deletes, differences = rows_to_delete(report, delete_at_most), partial(self.differences, entry.id)
        if deletes:
            self._log_line(deletes_line(entry.id, deletes))
        begins = RepairReport(deletes=deletes, delete_at_most=delete_at_most)
        self._repairs[entry.id] = Repair(self._history, entry.id, entry.asked_by, differences, self._start_dump, begins)

    def _repair(self, operation_id: OperationId, repair: Repair) -> None:
        before = repair.report
        try:
            report = repair.step()
            if report.state is not RepairState.RUNNING:
                self._end_repair(operation_id, repair)
            with self._lock:  # one that asks may be answered as soon as it is on record
                if self._repairs.get(operation_id) is not repair:
                    return  # an operator has ended it amid the step
                if report != before:
                    self._write(files.repair_name(operation_id), report.to_json())
                if report.state is not RepairState.RUNNING:
                    del self._repairs[operation_id]
        except (LogUnreachable, StorageFull, RefusedRequest):
            repair.report = before  # the next step does it again; RefusedRequest: too many verifications wait

    def _end_repair(self, operation_id: OperationId, repair: Repair) -> None:
        report = repair.report
        result = self.find(operation_id)
        if report.state is RepairState.FINISHED and result is not None and result[1] is not None:
            asker = replace(repair.asker, reason=f"after the repair of {operation_id}")
            self.start(follow_up(result[0], result[1], asked_ms=self._wall_ms()), asker)
        self._log_line(repair_line(operation_id, report))

    def _received(self, operation_id: OperationId, report: VerifyReport) -> None:
        rows = sum(table.rows for table in report.tables)
        if report.state in files.OVER:
            request = read_request(self._log, operation_id)
            if request is not None and request.slice is None:
                self._continuous.ended(request, report)
            ended = self._end(operation_id, STATES[report.state], result_of(report), rows, report)
            if ended is not None and request is not None and request.is_to_repair(report):
                self._begin_repair(ended, report, request.delete_at_most)
            return
        with self._lock:
            entry, now_s = self._running.get(operation_id), monotonic()
            if entry is not None and report.needs_from is not None:
                self._needs.put(operation_id, Seq(report.needs_from))
            if entry is None or self._is_slice(operation_id):
                return
            if rows != entry.rows and now_s - self._recorded_s.get(operation_id, 0) >= PROGRESS_S:
                self._recorded_s[operation_id] = now_s
                self._running[operation_id] = replace(entry, rows=rows)
                self._history.record(self._running[operation_id])

    def _end(
        self, operation_id: OperationId, state: DumpState, result: str, rows: int = 0, report: VerifyReport | None = None
    ) -> HistoryEntry | None:
        """None: another thread has ended it."""
        with self._lock:
            entry = self._running.get(operation_id)
            if entry is None:
                return None
            entry = replace(entry, rows=rows)
            if self._slice is not None and self._is_slice(operation_id):
                self._end_slice(self._slice, entry, state, result, report)
            else:
                entry = self._ended(entry, state, result)
            del self._running[operation_id]
            self._needs.drop(operation_id)
        return entry

    def _ended(self, entry: HistoryEntry, state: DumpState, result: str) -> HistoryEntry:
        now_ms = self._wall_ms()
        entry = replace(entry, state=state, ended_ms=now_ms, result=result, running_s=entry.running_s_at(now_ms), running_since_ms=0)
        self._history.record(entry)
        self._log_line(ended_line(entry))
        return entry

    # ---- slices of a continuous verification ------------------------------------------------------------------------------

    def _is_slice(self, operation_id: OperationId) -> bool:
        return self._slice is not None and self._slice.id == operation_id

    def _take_over_slice(self) -> None:
        """One without a request was not begun."""
        requested = self._continuous.begin()
        request = read_request(self._log, requested) if requested else None
        if request is not None and request.slice is not None:
            self._slice = request
            self._running.setdefault(request.id, entry_of(request, ASKER, request.asked_ms))

    def _begin_slice(self) -> None:
        """If nothing else is there to be done. Raises as the log's storage."""
        with self._lock:
            running = list(self._running)
        if self._repairs or any(read_waiting(self._log, one) is None for one in running):
            return
        request = self._continuous.due()
        if request is not None:
            with self._lock, storage_errors(self._log):
                storage.write_atomically(self._log, files.request_name(request.id), request.to_json())
                self._slice, self._running[request.id] = request, entry_of(request, ASKER, request.asked_ms)

    def _end_slice(self, request: VerifyRequest, entry: HistoryEntry, state: DumpState, result: str, report: VerifyReport | None) -> None:
        """The history has those of which somebody may want to see the report. Each step can be done again."""
        equal = report is not None and report.state is CheckState.EQUAL and not entry.commands
        if not equal:
            self._ended(entry, state, result)
            self._last = request.id
        self._continuous.ended(request, report)
        self._slice = None
        if equal:
            remove_files(self._log, request.id)
        else:
            self._remove_old()

    def _write(self, name: str, data: bytes) -> None:
        with storage_errors(self._log):
            storage.write_atomically(self._log, name, data)

    def _remove_old(self) -> None:
        kept = [entry.id for entry in self._history.entries() if entry.kind is OperationKind.VERIFICATION][:KEPT_MAX]
        remove_others(self._log, {*kept, *self._running, *self._repairs})
