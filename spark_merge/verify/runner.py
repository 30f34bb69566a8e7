"""The verifications of a merge worker: one after another, a few tables and sinks at once, beside its deliveries.

    verify/{id}/request.json ─► each sink's tables ─► report.json, state.json, after pieces of work

- A worker that starts again continues with the tables that the report does not have, and in a large table with its next ranges (resume).
- A check of a small table mostly waits for the log; so CHECKS_AT_ONCE are under way.
- The report says which segments are still to be read, and the sidecar keeps them (`needs_from`).
- It yields to delivery: after each piece of work it waits while deliveries are late, at most PAUSE_MAX times as long as that took.
- A table that cannot be compared has its reason in the report, and the others continue.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from threading import Event, Lock
from traceback import format_exc

import msgspec

from sidecar.shared.errors import LogUnreachable, SparkLost, TicdcDumpError
from sidecar.shared.log import storage
from sidecar.shared.log.storage import Folder
from sidecar.shared.log.verification import (
    OVER,
    TABLE_OVER,
    CheckState,
    RequestedTable,
    TableReport,
    Unjudged,
    VerifyReport,
    VerifyRequest,
    differences_name,
    stop_name,
    stopped,
    verify_folder,
)
from sidecar.shared.log.verification_files import (
    read_report,
    read_request,
    read_state,
    remove_below,
    remove_work,
    request_ids,
    set_aside,
    write_report,
    write_state,
)
from sidecar.shared.model.nouns import OperationId, Seq, TableName
from spark_merge.delivery.batches import JobSettings
from spark_merge.port.contract import Sink
from spark_merge.port.readable import Readable
from spark_merge.verify.context import CheckContext, TaskRunner
from spark_merge.verify.lateness import LATE
from spark_merge.verify.moving import LogKeys
from spark_merge.verify.resume import saved_in
from spark_merge.verify.source import ComparedSource
from spark_merge.verify.table_check import TableCheck

PAUSE_MAX = 9.0
"""The longest pause, as a multiple of the work before it: where deliveries are always late, a tenth of the time is the verification's."""

CHECKS_AT_ONCE = 8
WRITE_EVERY_S = 0.5
WRITTEN_AT_ONCE_TABLES, STATED_AT_ONCE_TABLES = 500, 10_000
"""The report, and its state, while they change. With more tables each is written less often, so that 30,000 of them do not write 12 MB
twice a second."""
WAIT_USUAL_S = 60.0
"""Where each table that is under way waits for longer than that, it is an outage, and no work."""

LOOK_EVERY_S = 1.0
RETRY_MAX_S = 60.0
"""The wait doubles to this while a verification cannot be carried out: its first work may be large."""
WAIT_S = 0.05


class Stopped(Exception):
    """An operator has ended the verification."""


class Ending(Exception):
    """The worker ends. The next one continues."""


@dataclass(frozen=True, slots=True)
class VerifySettings:
    """`sinks`: makes each by its name, for reading alone. `late`: whether deliveries are (lateness.py). `notice`: receives what an operator
    should know."""

    job: JobSettings
    source: ComparedSource
    runner: TaskRunner
    sinks: Mapping[str, Callable[[], Sink]]
    late: Callable[[], bool] = lambda: False
    now_ms: Callable[[], int] = lambda: int(time.time() * 1000)
    wait: Callable[[float], object] = time.sleep
    checks_at_once: int = CHECKS_AT_ONCE
    write_every_s: float = WRITE_EVERY_S
    notice: Callable[[str], object] = lambda _: None


class Verifications:
    """For one thread."""

    def __init__(self, settings: VerifySettings) -> None:
        self._settings = settings
        self._log: Folder = settings.job.log
        self._over: set[OperationId] = set()

    def run(self, ending: Event) -> None:
        """Until `ending`. An error of a verification is reported, and that is tried again. Raises SparkLost."""
        pause_s, last = LOOK_EVERY_S, dict[str, str]()
        while not ending.wait(pause_s):
            errors: dict[str, str] = {}
            with _caught(errors), set_aside(self._log):
                for request in self.due():
                    with _caught(errors), set_aside(self._log):
                        self.carry_out(request, ending)
            for error in errors.keys() - last.keys():
                self._settings.notice(f"verifications do not continue, and are tried again: {errors[error]}")
            pause_s, last = (min(2 * pause_s, RETRY_MAX_S) if errors else LOOK_EVERY_S), errors

    def due(self) -> Iterator[VerifyRequest]:
        """Those that are not over, in the order of their requests. One that was seen to be over is not read again."""
        waiting, requested = [], request_ids(self._log)
        self._over.intersection_update(requested)
        for operation_id in requested:
            if operation_id in self._over:
                continue
            state = read_state(self._log, operation_id)
            if state is not None and state.is_over:
                self._over.add(operation_id)
                continue
            report, request = self.report(operation_id), read_request(self._log, operation_id)
            if report is not None and report.state in OVER:
                write_state(self._log, report, request)  # who wrote the report has died before its state
            elif request is not None:
                waiting.append(request)
        yield from sorted(waiting, key=lambda one: (one.asked_ms, one.id))

    def report(self, operation_id: OperationId) -> VerifyReport | None:
        return read_report(self._log, operation_id)

    def carry_out(self, request: VerifyRequest, ending: Event) -> VerifyReport:
        report = self.report(request.id) or VerifyReport(request.id, CheckState.RUNNING, self._settings.now_ms())
        return _Verification(self._settings, request, report, ending).run()


@contextmanager
def _caught(errors: dict[str, str]) -> Iterator[None]:
    """Errors of the log's storage, of a verification's file, and defects: they end no other verification. By its text, what to report."""
    try:
        yield
    except SparkLost:
        raise
    except Exception as error:  # noqa: BLE001  # it is noticed
        errors[str(error)] = str(error) if isinstance(error, TicdcDumpError) else format_exc()


class WorkedTime:
    """For how long a verification was carried out: by earlier processes, and by this one since it began with it, but for outages."""

    def __init__(self, seconds: float, now_s: float | None = None) -> None:
        self._seconds, self._now_s = seconds, time.monotonic() if now_s is None else now_s
        self._waits_since_s: float | None = None

    def seconds(self, now_s: float, *, waits: bool) -> float:
        """`waits`: whether all that is under way waits now."""
        if not waits:
            self._waits_since_s = None
        elif self._waits_since_s is None:
            self._waits_since_s = now_s
        if self._waits_since_s is None or now_s - self._waits_since_s <= WAIT_USUAL_S:
            self._seconds += now_s - self._now_s
        self._now_s = now_s
        return self._seconds


class _Verification:
    def __init__(self, settings: VerifySettings, request: VerifyRequest, report: VerifyReport, ending: Event) -> None:
        self._settings, self._request, self._report, self._ending = settings, request, report, ending
        self._log = settings.job.log
        self._keys = LogKeys(settings.job, {table.name for table in request.tables}, gate=self._gate)
        self._lock = Lock()
        self._needed: dict[int, Seq] = {}
        self._unjudged: defaultdict[tuple[str, TableName], list[Unjudged]] = defaultdict(list)
        for one in request.unjudged:
            self._unjudged[one.sink, one.name].append(one)
        self._written_s = self._stated_s = 0.0
        self._worked = WorkedTime(report.worked_s)

    def run(self) -> VerifyReport:
        report, request = self._report, self._request
        done = {(one.sink, one.name): one for one in report.tables if one.state in TABLE_OVER}
        wanted = [(sink, table) for sink in request.sinks for table in request.tables]
        self._take_over({number for number, (sink, table) in enumerate(wanted) if (sink, table.name) not in done})
        report.tables = [done.get((sink, table.name)) or self._waiting(sink, table) for sink, table in wanted]
        self._write()
        try:
            with ThreadPoolExecutor(self._settings.checks_at_once, thread_name_prefix="verify") as pool:
                left = [number for number, (sink, table) in enumerate(wanted) if (sink, table.name) not in done]
                for checked in [pool.submit(self._check, number, *wanted[number]) for number in left]:
                    checked.result()
            states = {one.state for one in report.tables}
            ends = (CheckState.FAILED, CheckState.DIFFERENT, CheckState.SKIPPED, CheckState.INCOMPLETE)
            end = next((state for state in ends if state in states), CheckState.EQUAL)
            report.state = CheckState.FAILED if end is CheckState.SKIPPED else end  # what was not compared is not equal
        except Stopped:
            remove_work(self._log, request.id)
            self._report = report = stopped(report, request.id, self._settings.now_ms())
        except Ending:
            return report
        report.waiting_for = ""
        report.ended_ms = self._settings.now_ms()
        report.needs_from = None
        self._write()
        return report

    def _take_over(self, left: Collection[int]) -> None:
        """What another process still had to read: until each table that continues has begun and reported its own. The state is newer than
        the report."""
        state = read_state(self._log, self._request.id)
        if state is not None and state.needs_from is not None:
            self._report.needs_from = state.needs_from
            saved = saved_in(self._log, f"{verify_folder(self._request.id)}/work")
            self._needed = {number: Seq(state.needs_from) for number in left if str(number) in saved}

    def _waiting(self, sink: str, table: RequestedTable) -> TableReport:
        return TableReport(sink, *table.name, rows_total=int(table.rows * self._request.sample))

    def _check(self, number: int, sink: str, table: RequestedTable) -> None:
        self._gate(0)
        report = self._checked(number, sink, table)
        with self._lock:
            self._needed.pop(number, None)
        self._progress(number, report)

    def _checked(self, number: int, sink: str, table: RequestedTable) -> TableReport:
        settings = self._settings
        make = settings.sinks.get(sink)
        if make is None:
            return TableReport(sink, *table.name, CheckState.SKIPPED, why=f"there is no sink {sink}")
        work = f"{verify_folder(self._request.id)}/work/{number}"
        context = CheckContext(
            self._keys,
            self._log,
            settings.source,
            settings.runner,
            gate=self._gate,
            progress=partial(self._progress, number),
            needs=partial(self._needs, number),
            now_ms=settings.now_ms,
            wait=settings.wait,
        )
        check, continues = None, False
        try:
            with closing(make()) as opened:
                if not isinstance(opened, Readable):
                    return TableReport(sink, *table.name, CheckState.SKIPPED, why="its rows cannot be read back")
                unjudged = self._unjudged.get((sink, table.name), [])
                request = self._request
                seed = f"{request.seed or request.id}/{sink}/{table.name}"
                check = TableCheck(context, sink, opened, table, work, request.sample, request.slice, unjudged, seed)
                table_report = check.run()
                self._write_differences(number, check)
                return table_report
        except (Ending, SparkLost, LogUnreachable):
            continues = True
            raise
        except Stopped:
            raise
        except Exception as error:  # noqa: BLE001  # a defect of one table: it is logged, and the others are compared
            why = str(error)
            if not isinstance(error, TicdcDumpError):
                self._settings.notice(f"verification {self._request.id} of {table.name} in {sink} met a defect: {format_exc()}")
                why = f"a defect: {type(error).__name__}: {error}"
            report = TableReport(sink, *table.name) if check is None else check.report
            return msgspec.structs.replace(report, state=CheckState.FAILED, why=why)
        finally:
            if not continues:
                remove_below(self._log, work)

    def _progress(self, number: int, table: TableReport) -> None:
        copied = msgspec.structs.replace(table, columns=dict(table.columns), examples=list(table.examples))
        with self._lock:
            self._report.tables[number] = copied
            self._write_when_due()

    def _needs(self, number: int, after: Seq) -> None:
        """Reported at once where the report does not cover it: the first piece of work may take longer than segments are kept."""
        with self._lock:
            self._needed[number] = Seq(after + 1)
            if self._report.needs_from is None or after + 1 < self._report.needs_from:
                self._write_progress()

    def _gate(self, worked_s: float) -> None:
        """After so much work. Raises Ending and Stopped."""
        self._check_goes_on()
        settings, waited_s = self._settings, 0.0
        while waited_s < PAUSE_MAX * worked_s and settings.late():
            self._waits_for(LATE)
            settings.wait(WAIT_S)
            waited_s += WAIT_S
            self._check_goes_on()
        self._report.waiting_for = ""

    def _waits_for(self, what: str) -> None:
        with self._lock:
            self._report.waiting_for = what
            self._write_when_due()

    def _check_goes_on(self) -> None:
        if self._ending.is_set():
            raise Ending
        if storage.exists(self._log, stop_name(self._request.id)):
            raise Stopped

    # ---- files -------------------------------------------------------------------------------------------------------

    def _write_when_due(self) -> None:
        every_s, tables, now_s = self._settings.write_every_s, len(self._report.tables), time.monotonic()
        if now_s - self._written_s >= every_s * max(1.0, tables / WRITTEN_AT_ONCE_TABLES):
            self._write_progress()
        elif now_s - self._stated_s >= every_s * max(1.0, tables / STATED_AT_ONCE_TABLES):
            self._mark()
            write_state(self._log, self._report, self._request)

    def _write_progress(self) -> None:
        self._report.needs_from = min(self._needed.values(), default=None)
        self._write()

    def _write(self) -> None:
        self._written_s = self._mark()
        write_report(self._log, self._report, self._request)

    def _mark(self) -> float:
        """Before the state is written."""
        report, now_s = self._report, time.monotonic()
        running = [one for one in report.tables if one.state is CheckState.RUNNING]
        report.worked_s = self._worked.seconds(now_s, waits=bool(running) and all(one.waiting_for for one in running))
        report.written_ms, self._stated_s = self._settings.now_ms(), now_s
        return now_s

    def _write_differences(self, number: int, check: TableCheck) -> None:
        if check.report.differences:
            name = differences_name(self._request.id, number)
            with storage.new_file(self._log, name, durable=False) as out:
                for one in check.tally.all():
                    out.write(msgspec.json.encode(one) + b"\n")
