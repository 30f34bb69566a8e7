"""`Deliveries` from the merge worker's file in the log's folder, read in the background: asking costs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Event
from time import monotonic

from sidecar.shared.errors import LogBroken, LogUnreachable, SinkError
from sidecar.shared.log import storage
from sidecar.shared.log.delivery_report import DELIVERED_NAME, RUNNING, SPARK_STARTING, DeliveryReport, report_from_json
from sidecar.shared.log.filled import FilledWord, Words
from sidecar.shared.log.identity import known_id
from sidecar.shared.log.layout import manifest_name
from sidecar.shared.log.sink_tables import read_sink_tables
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import Seq
from sidecar.shared.model.sink_delivery import ReportTimes, SinkDelivery, SinkTables
from sidecar.shared.process.background import Background

READ_EVERY_S, READ_REMOTE_EVERY_S = 0.05, 0.25
"""What a dump may read next waits for what was accepted. A read of a local file is 0.1 ms; on S3 four small reads a second."""


class LogDeliveries:
    """`report` is what the worker last wrote of this log, None before the first; `trouble` why it cannot be read at the moment, or is not
    believed. `needs_spark`: the worker merges no window without it (`spark.worker_rows` is 0)."""

    def __init__(self, folder: Folder, *, needs_spark: bool = False) -> None:
        self._folder, self._needs_spark = folder, needs_spark
        self._own_id = ""
        self._known_seq: Seq | None = None
        self.report: DeliveryReport | None = None
        self.tables: dict[str, SinkTables] = {}
        """Of each sink that has been reported, by its name, as its file says."""
        self.words: Sequence[FilledWord] = ()
        """Which say who filled a hole: read when a table has none any more, before `tables` says so."""
        self._said = Words(folder)
        self._tables_at: dict[str, tuple[int, int]] = {}
        self.trouble = ""
        self._reported: ReportTimes | None = None
        self._reading: Background | None = None

    def start(self) -> None:
        self._read()
        self._reading = Background(self._run, name="deliveries")

    def check(self) -> None:
        """Raises what reading broke of: `accepted` would stand still."""
        if self._reading is not None:
            self._reading.check()

    def accepted(self) -> Seq | None:
        return self.report.seq if self.report is not None else None

    def sinks(self) -> Sequence[SinkDelivery]:
        return self.report.sinks if self.report is not None else ()

    def report_times(self) -> ReportTimes | None:
        return self._reported

    def close(self) -> None:
        if self._reading is not None:
            self._reading.close()

    def _run(self, ending: Event) -> None:
        while not ending.wait(READ_EVERY_S if self._folder.protocol == "file" else READ_REMOTE_EVERY_S):
            self._read()

    def _read(self) -> None:
        """A file that cannot be read is shown, not raised: the log's own writes tell about a broken storage, and stop."""
        try:
            data = storage.read_files(self._folder, [DELIVERED_NAME]).get(DELIVERED_NAME)
            read_s = monotonic()  # the pipeline's clock
            report = None if data is None else report_from_json(data)
            if report is not None:
                self._check_is_of_this_log(report)
                self._read_tables(report)
            self.report = report
            if report is not None and (self._reported is None or self._reported.written_ms != report.written_ms):
                accepted = report.seq if report.state == RUNNING else None  # a worker that came to nothing repeats what one before it had
                starting = self._needs_spark and report.spark == SPARK_STARTING
                self._reported = ReportTimes(report.written_ms, read_s, starting, report.epoch, accepted)
            self.trouble = ""
        except (LogBroken, LogUnreachable, SinkError, ValueError) as error:
            self.trouble = f"{self._folder}/{DELIVERED_NAME} cannot be used: {error}"

    def _read_tables(self, report: DeliveryReport) -> None:
        """The files that were written since they were read. A later worker may have written one again that is no further: its sink has
        another output under that name."""
        written = {sink.sink: (report.pid, sink.tables_seq) for sink in report.sinks if sink.tables_seq is not None}
        unread = [name for name, at in written.items() if at != self._tables_at.get(name)]
        if unread:
            tables = read_sink_tables(self._folder, unread)
            if any(self.tables[name].holes.keys() - one.holes.keys() for name, one in tables.items() if name in self.tables):
                self.words = self._said.read()
            self.tables = self.tables | tables
            self._tables_at |= {name: written[name] for name in unread}

    def _check_is_of_this_log(self, report: DeliveryReport) -> None:
        """Raises ValueError for a report of another log, or of a segment that is not here. The segment that sinks are at is always kept."""
        if report.log and report.log != (self._own_id or self._learn_id()):
            raise ValueError(f"it is of log {report.log}, and this is log {self._own_id}")
        if report.seq is not None and report.seq != self._known_seq:
            if not storage.exists(self._folder, manifest_name(report.seq)):
                raise ValueError(f"it says that segment {report.seq} is delivered, which is not in this log")
            self._known_seq = report.seq

    def _learn_id(self) -> str:
        self._own_id = known_id(self._folder)
        return self._own_id
