"""The verifications of a merge worker: one after another, table by table and sink by sink, beside its deliveries.

    verify/{id}/request.json ─► each sink's tables ─► report.json, after each piece of work

- The report is all that it remembers. A worker that starts again continues with the first table that the report does not have.
- It yields to delivery: before each piece of work it waits while a sink delivers live changes later than LATE_S.
- A table that cannot be compared has its reason in the report, and the others go on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from threading import Event

import msgspec

from sidecar.core.model import TableName
from sidecar.errors import TicdcDumpError
from sidecar.log import storage
from sidecar.log.errors import storage_errors
from sidecar.log.storage import Folder
from sidecar.log.verification import (
    REQUEST_NAME,
    CheckState,
    TableReport,
    VerifyReport,
    VerifyRequest,
    differences_name,
    report_from_json,
    report_name,
    request_from_json,
    stop_name,
    verify_folder,
)
from spark_merge.contract import Sink
from spark_merge.delivery import JobSettings
from spark_merge.readable import Readable
from spark_merge.verify.source import ComparedSource
from spark_merge.verify.table_check import CheckContext, Hands, TableCheck

LATE_S = 2.0
"""Live changes that a sink has not delivered after so long are late."""

LOOK_EVERY_S = 1.0
WAIT_S = 0.1

OVER = frozenset({CheckState.EQUAL, CheckState.DIFFERENT, CheckState.FAILED, CheckState.STOPPED})
DONE = frozenset({CheckState.EQUAL, CheckState.DIFFERENT, CheckState.SKIPPED, CheckState.FAILED})
"""Of a table."""


class Stopped(Exception):
    """An operator has ended the verification."""


class Ending(Exception):
    """The worker ends. The next one continues."""


@dataclass(frozen=True, slots=True)
class VerifySettings:
    """`sinks`: makes each by its name, for reading alone. `unreadable`: why a sink of this name cannot be read; empty where it can.
    `late_s`: for how long the oldest live change waits that a sink has not delivered."""

    job: JobSettings
    source: ComparedSource
    hands: Hands
    sinks: Mapping[str, Callable[[], Sink]]
    unreadable: Callable[[str], str] = lambda _: ""
    late_s: Callable[[], float] = lambda: 0.0
    now_ms: Callable[[], int] = lambda: int(time.time() * 1000)
    wait: Callable[[float], object] = time.sleep


class Verifications:
    """For one thread."""

    def __init__(self, settings: VerifySettings) -> None:
        self._settings = settings
        self._log: Folder = settings.job.log

    def run(self, ending: Event) -> None:
        """Until the worker ends. Raises what the log's storage raises."""
        while not ending.wait(LOOK_EVERY_S):
            for request in self.due():
                self.carry_out(request, ending)

    def due(self) -> Iterator[VerifyRequest]:
        """Those that are not over, in the order of their ids."""
        with storage_errors(self._log):
            names = sorted(filter(REQUEST_NAME.fullmatch, storage.list_names(self._log, deep=True, beginning="verify/")))
            found = storage.read_files(self._log, names)
        for name in names:
            request = request_from_json(found[name])
            report = self.report(request.id)
            if report is None or report.state not in OVER:
                yield request

    def report(self, operation_id: str) -> VerifyReport | None:
        with storage_errors(self._log):
            data = storage.read_files(self._log, [report_name(operation_id)]).get(report_name(operation_id))
        return None if data is None else report_from_json(data)

    def carry_out(self, request: VerifyRequest, ending: Event) -> VerifyReport:
        report = self.report(request.id) or VerifyReport(request.id, CheckState.RUNNING, self._settings.now_ms())
        done = {(one.sink, one.table): one for one in report.tables if one.state in DONE}
        wanted = [(sink, table) for sink in request.sinks for table in request.names()]
        report.tables = [done.get((sink, str(table))) or TableReport(sink, str(table)) for sink, table in wanted]
        self._write(report)
        try:
            for number, (sink, table) in enumerate(wanted):
                if (sink, str(table)) not in done:
                    report.tables[number] = self._checked(request, report, number, sink, table, ending)
                    self._write(report)
            different = any(one.state in (CheckState.DIFFERENT, CheckState.FAILED) for one in report.tables)
            report.state = CheckState.DIFFERENT if different else CheckState.EQUAL
        except Stopped:
            report.state = CheckState.STOPPED
        except Ending:
            return report
        report.ended_ms = self._settings.now_ms()
        self._write(report)
        return report

    def _checked(
        self, request: VerifyRequest, report: VerifyReport, number: int, sink: str, table: TableName, ending: Event
    ) -> TableReport:
        if why := self._why_not(sink):
            return TableReport(sink, str(table), CheckState.SKIPPED, why=why)
        told = partial(self._told, report, number)
        settings = self._settings
        context = CheckContext(
            settings.job, self._log, settings.source, settings.hands, partial(self._gate, request.id, ending), told, settings.wait
        )
        opened = settings.sinks[sink]()
        check = TableCheck(context, sink, opened, table, _work(request.id, number))  # type: ignore[arg-type]  # it can be read
        try:
            found = check.run()
            self._write_differences(request.id, number, check)
            return found
        except TicdcDumpError as error:
            return msgspec.structs.replace(check.report, state=CheckState.FAILED, why=str(error))
        finally:
            opened.close()
            self._forget(request.id, number)

    def _why_not(self, sink: str) -> str:
        make = self._settings.sinks.get(sink)
        if make is None:
            return f"there is no sink {sink}"
        if why := self._settings.unreadable(sink):
            return why
        opened = make()
        try:
            return "" if isinstance(opened, Readable) else "its rows cannot be read back"
        finally:
            opened.close()

    def _told(self, report: VerifyReport, number: int, table: TableReport) -> None:
        report.tables[number] = table
        self._write(report)

    def _gate(self, operation_id: str, ending: Event) -> None:
        while True:
            if ending.is_set():
                raise Ending
            if storage.exists(self._log, stop_name(operation_id)):
                raise Stopped
            if self._settings.late_s() <= LATE_S:
                return
            ending.wait(WAIT_S)

    # ---- files -------------------------------------------------------------------------------------------------------

    def _write(self, report: VerifyReport) -> None:
        with storage_errors(self._log):
            storage.write_atomically(self._log, report_name(report.id), report.to_json())

    def _write_differences(self, operation_id: str, number: int, check: TableCheck) -> None:
        if check.differences:
            lines = b"".join(msgspec.json.encode(one) + b"\n" for one in check.differences)
            with storage_errors(self._log):
                storage.write_atomically(self._log, differences_name(operation_id, number), lines)

    def _forget(self, operation_id: str, number: int) -> None:
        work = f"{_work(operation_id, number)}/"
        with storage_errors(self._log):
            names = storage.list_names(self._log, deep=True, beginning=work)  # which may give others too
            storage.remove(self._log, [name for name in names if name.startswith(work)])


def _work(operation_id: str, number: int) -> str:
    return f"{verify_folder(operation_id)}/work/{number}"
