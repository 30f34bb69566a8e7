"""A term's verifications: requested from the merge worker by files beside the log, followed by its reports, and kept in the history.

    operator ─► history entry, request.json ─► merge worker ─► state.json, report.json ─► history entry
    continuous.py ─► request.json ─► merge worker ─► state.json, report.json ─► history entry, unless all rows are equal

- The entry comes first. If a death prevents the request's file, the client repeats the request, or the verification ends here as failed.
  So it does at the end: a stop is written, and files are removed, of what the history says is over or is to stop. The history is fenced,
  so a late owner ends nothing of a later one; and a later one does what the history says and the files do not yet (`_end_left`).
- A state is read each second, a report once it is over or somebody asks for all of it. Its end is in the history within FOLLOW_S, its rows
  within PROGRESS_S. Retention keeps what is still to be read (`needs_from`).
- The service's thread alone counts what continuous verification has compared; an end by another thread waits for it (`_to_count`).
- A service beside the stream (auxiliary.py). What is wrong with one verification or its files ends that one, by a result that says so; an
  outage of etcd ends the service's life, and the next one takes over again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from functools import partial
from threading import Event, RLock
from time import monotonic

from sidecar.history.entry import HistoryEntry, OperationKind
from sidecar.run import logs, retention
from sidecar.run.awaited_dumps import AwaitedDumps
from sidecar.run.continuous import ASKER, ContinuousVerification
from sidecar.run.cycle import VerifiedSinks
from sidecar.run.log_event import LogEvent
from sidecar.run.repairing import KeyDump
from sidecar.run.term_repairs import TermRepairs
from sidecar.run.verification_texts import STATES, ended_line, entry_of, result_of
from sidecar.run.verified_holes import write_verified
from sidecar.shared.errors import CoordinationError, LogUnreachable, RefusedRequest, SinkError, StorageFull, TicdcDumpError
from sidecar.shared.log import storage
from sidecar.shared.log import verification as files
from sidecar.shared.log.owned import OwnedLog
from sidecar.shared.log.verification import CheckState, RepairReport, RowDifference, TableReport, VerifyReport, VerifyRequest
from sidecar.shared.log.verification_files import (
    FollowedStates,
    differences_of,
    end_stopped,
    is_requested,
    read_repair,
    read_report,
    read_request,
    read_state,
    read_waiting,
    remove_files,
    remove_others,
    remove_waiting,
    request_ids,
    set_aside,
    waiting_ids,
)
from sidecar.shared.log.verification_state import VerifyState
from sidecar.shared.model.messages import Asker
from sidecar.shared.model.nouns import FIRST_SEQ, OperationId, Seq
from sidecar.shared.model.progress import OVER, DumpState

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
        log: OwnedLog,
        dumps: AwaitedDumps,
        wall_ms: Callable[[], int],
        *,
        start_dump: Callable[[KeyDump], KeyDump],
        continuous: ContinuousVerification,
        log_line: Callable[[LogEvent], object] = logs.say,
    ) -> None:
        self._owned, self._log = log, log.folder
        self._history, self._wall_ms, self._log_line = dumps.history, wall_ms, log_line
        self._continuous, self._awaited = continuous, dumps
        self._slice: VerifyRequest | None = None
        self._lock = RLock()
        self._repairs = TermRepairs(log, dumps.history, wall_ms, self._lock, start_dump, log_line)
        self._to_count: deque[tuple[VerifyRequest, VerifyReport | None, bool]] = deque()
        self._to_stop: set[OperationId] = set()
        self._states: dict[OperationId, VerifyState] = {}
        self._followed = FollowedStates(self._log)
        self._begun, self._hold_until_s = False, monotonic() + HOLD_S
        self._running: dict[OperationId, HistoryEntry] = {}
        self._needs = retention.NeededSegments(log, wall_ms)
        self._recorded_s: dict[OperationId, float] = {}
        self._last: OperationId | None = None

    def serve(self, ending: Event) -> None:
        """A life of the service. Raises what the history raises, and what keeps it from knowing what is there."""
        self.begin()
        while not ending.wait(FOLLOW_S):
            self.follow()

    def begin(self) -> None:
        """Take over what an earlier term or life has left. Raises as `serve`."""
        with self._lock, self._set_aside():
            if self._begun:  # lives that fail one after another hold the log no longer than one
                self._begun, self._hold_until_s = False, monotonic() + HOLD_S
            self._running, self._slice, self._needs = {}, None, retention.NeededSegments(self._owned, self._wall_ms)
            self._repairs.running.clear()
            self._to_count.clear()
            self._states.clear()
            there = self._owned.of_no_later(lambda: {*waiting_ids(self._log), *request_ids(self._log)})  # before the history is read
            entries = [entry for entry in self._history.entries() if entry.kind is OperationKind.VERIFICATION]
            self._last = entries[0].id if entries else None
            for entry in entries:
                self._separate(entry.id, partial(self._take_over, entry))
            self._take_over_slice()
            for operation_id in there - self._running.keys():
                self._separate(operation_id, partial(self._end_left, operation_id))
        self.follow()
        self._begun = True

    def _take_over(self, entry: HistoryEntry) -> None:
        if entry.state in OVER:
            self._repairs.take_over(entry)
            return
        self._running[entry.id] = entry
        if read_request(self._log, entry.id) is None and read_waiting(self._log, entry.id) is None:
            self._end(entry.id, DumpState.FAILED, "the sidecar ended before it could request this from the merge worker")
        elif any(one.command == "stop" for one in entry.commands):
            self._stop(entry.id)

    def _end_left(self, operation_id: OperationId) -> None:
        """Of one that is over by the history, or that it never had, as a late owner's slice."""
        remove_waiting(self._log, operation_id)
        state = read_state(self._log, operation_id)
        if is_requested(self._log, operation_id) and (state is None or not state.is_over):
            self._to_stop.add(operation_id)

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
                storage.remove(self._log, [files.stop_name(request.id)])  # of one that was rejected under this id
                name = files.waiting_name(request.id) if request.after_dump else files.request_name(request.id)
                self._write(name, request.to_json())
                self._running[request.id], self._last = entry, request.id  # now: one without files is given up
                self._remove_old()

    def stop(self, operation_id: OperationId, asker: Asker) -> None:
        with self._lock:
            entry = self._running.get(operation_id)
            if entry is None:
                self._repairs.stop(operation_id, asker)
                return
            self._running[operation_id] = entry = entry.commanded("stop", asker, self._wall_ms())
            self._history.record(entry)
            self._stop(operation_id)

    def _stop(self, operation_id: OperationId) -> None:
        """As the history says."""
        self._write(files.stop_name(operation_id), b"")
        if read_waiting(self._log, operation_id) is not None:
            self._end_waiting(operation_id, "before it began")
        else:
            self._received(operation_id, end_stopped(self._log, operation_id, self._wall_ms()))

    def allow(self, operation_id: OperationId, delete_at_most: int | None, asker: Asker) -> None:
        self._repairs.allow(operation_id, delete_at_most, asker)

    def last_id(self) -> OperationId | None:
        return self._last

    def find(self, operation_id: OperationId) -> tuple[VerifyRequest, VerifyReport | None, RepairReport | None] | None:
        request = read_request(self._log, operation_id) or read_waiting(self._log, operation_id)
        return None if request is None else (request, read_report(self._log, operation_id), read_repair(self._log, operation_id))

    def look(self, operation_id: OperationId) -> tuple[VerifyState, RepairReport | None] | None:
        state = read_state(self._log, operation_id)
        return None if state is None else (state, read_repair(self._log, operation_id) if state.differing else None)

    def running(self) -> VerifyState | None:
        """Without the lock, which is held while files are read: each status asks for it."""
        return next((one for one in tuple(self._states.values()) if not one.is_over), None)

    def differences(self, operation_id: OperationId) -> Iterator[tuple[TableReport, RowDifference]]:
        return differences_of(self._log, operation_id, read_report(self._log, operation_id))

    # ---- following the worker's reports ----------------------------------------------------------------------------------

    def follow(self) -> None:
        """What the reports say. A storage that does not answer is read again. Raises what the history raises."""
        for operation_id in tuple(self._running):  # a copy: other threads change it
            with suppress(LogUnreachable, StorageFull):
                self._separate(operation_id, partial(self._follow_one, operation_id))
        for operation_id, repair in list(self._repairs.running.items()):
            with suppress(LogUnreachable, StorageFull):
                self._separate(operation_id, partial(self._repairs.step, operation_id, repair, self.start))
        with suppress(LogUnreachable, StorageFull), self._set_aside():
            for operation_id in tuple(self._to_stop):
                self._write(files.stop_name(operation_id), b"")
                self._to_stop.discard(operation_id)
            self._count()
            self._begin_slice()

    def _count(self) -> None:
        """What has ended, for continuous verification. An equal slice leaves no files."""
        while self._to_count:
            request, report, leaves_files = self._to_count[0]
            self._continuous.ended(request, report)
            if not leaves_files:
                remove_files(self._owned, request.id)
            self._to_count.popleft()

    def _set_aside(self) -> AbstractContextManager[None]:
        return set_aside(self._log, self._owned.check_held)

    def _separate(self, operation_id: OperationId, work: Callable[[], object]) -> None:
        """Whatever is wrong with one of them ends that one. Raises what a retry can help, and what the history raises."""
        try:
            with self._set_aside():
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
        try:
            if not self._repairs.give_up(operation_id, why) and operation_id in self._running:
                self._end(operation_id, DumpState.FAILED, why)
                self._to_stop.add(operation_id)  # the worker is to end it, too
        except TicdcDumpError as error:
            if error.retryable or isinstance(error, CoordinationError):
                raise
            with self._lock:  # not even that can be written: it is as not there until the next life looks again
                self._running.pop(operation_id, None)
                self._states.pop(operation_id, None)
                self._needs.drop(operation_id)
                self._slice = None if self._is_slice(operation_id) else self._slice

    def _follow_one(self, operation_id: OperationId) -> None:
        state = self._followed.read(operation_id)
        if state is not None and state.is_over:
            if (report := read_report(self._log, operation_id)) is not None:
                self._received(operation_id, report)
        elif (request := read_waiting(self._log, operation_id)) is not None:
            self._await_dump(operation_id, request)
        elif not is_requested(self._log, operation_id):
            self._give_up(operation_id, "its files are gone")
        elif state is not None:
            self._progressed(operation_id, state)

    def _await_dump(self, operation_id: OperationId, request: VerifyRequest) -> None:
        """One that is to begin after a dump."""
        begins = self._awaited.begins(request, now_ms=self._wall_ms())
        if isinstance(begins, str):
            self._end_waiting(operation_id, begins)
        elif begins:
            self._write(files.request_name(operation_id), request.to_json())
            remove_waiting(self._log, operation_id)

    def _end_waiting(self, operation_id: OperationId, why: str) -> None:
        self._end(operation_id, DumpState.STOPPED, why)
        remove_waiting(self._log, operation_id)

    def _received(self, operation_id: OperationId, report: VerifyReport) -> None:
        """Of one that is over."""
        request = read_request(self._log, operation_id)
        if request is not None:
            self._fill_holes(request, report)
        ended = self._end(operation_id, STATES[report.state], result_of(report), sum(table.rows for table in report.tables), report)
        if ended is not None and request is not None:
            if request.slice is None:
                self._to_count.append((request, report, True))
            if request.is_to_repair(report):
                self._repairs.begin(ended, report, request.delete_at_most)

    def _fill_holes(self, request: VerifyRequest, report: VerifyReport) -> None:
        """Before its end is on record: what a death or an outage prevents is done again."""
        try:
            write_verified(self._log, request, report, now_ms=self._wall_ms())
        except SinkError as error:
            values = {"verification": request.id, "reason": error.message, "hint": error.hint}
            self._log_line(LogEvent("holes stay open", values, "warning"))

    def _progressed(self, operation_id: OperationId, state: VerifyState) -> None:
        with self._lock:
            entry, now_s = self._running.get(operation_id), monotonic()
            if entry is None:
                return
            self._states[operation_id] = state
            if state.needs_from is not None:
                self._needs.put(operation_id, Seq(state.needs_from))
            is_due = now_s - self._recorded_s.get(operation_id, 0) >= PROGRESS_S
            if is_due and state.rows != entry.rows and not self._is_slice(operation_id):
                self._recorded_s[operation_id] = now_s
                self._running[operation_id] = replace(entry, rows=state.rows)
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
            self._states.pop(operation_id, None)
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
        if self._repairs.running or any(read_waiting(self._log, one) is None for one in running):
            return
        request = self._continuous.due()
        if request is not None:
            with self._lock:
                storage.write_atomically(self._log, files.request_name(request.id), request.to_json())
                self._slice, self._running[request.id] = request, entry_of(request, ASKER, request.asked_ms)

    def _end_slice(self, request: VerifyRequest, entry: HistoryEntry, state: DumpState, result: str, report: VerifyReport | None) -> None:
        """The history has those of which somebody may want to see the report. Each step can be done again."""
        equal = report is not None and report.state is CheckState.EQUAL and not entry.commands
        if not equal:
            self._ended(entry, state, result)
            self._last = request.id
            self._remove_old()
        self._to_count.append((request, report, not equal))
        self._slice = None

    def _write(self, name: str, data: bytes) -> None:
        storage.write_atomically(self._log, name, data)

    def _remove_old(self) -> None:
        remove_others(self._owned, self._kept)

    def _kept(self) -> set[OperationId]:
        kept = [entry.id for entry in self._history.entries() if entry.kind is OperationKind.VERIFICATION][:KEPT_MAX]
        return {*kept, *self._running, *self._repairs.running}
