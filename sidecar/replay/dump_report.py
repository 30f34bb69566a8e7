"""The report of a replayed dump: the one that a sidecar writes beside its log (sidecar/report), by the same followers of the log.

    log's manifests, the sinks' batches ─► TermCertificates ─► DumpReports ─► {log}/reports/{dump}.html ─► the requested file

- It outlives the sidecars that die in the replay, and sees them only from outside: as samples, and as events.
- Its times are the recording's, as the commit timestamps of the marks are.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from pathlib import Path

from sidecar.control.status import Measured, SidecarStatus, waiting_for
from sidecar.pipeline import Pipeline
from sidecar.ports import Clock, Deliveries, OperationHistory
from sidecar.report.build import CHUNKS_EACH_MAX
from sidecar.report.chunks import Chunks
from sidecar.report.drawing import TimedEvent
from sidecar.run.certifying import ASK_S, FOLLOW_S, TermCertificates
from sidecar.run.dump_reports import CertificateFacts, DumpReports
from sidecar.run.log_event import LogEvent
from sidecar.run.samples import Samples
from sidecar.shared.errors import ConfigError, SinkError
from sidecar.shared.log import storage
from sidecar.shared.log.dump_files import REPORTS
from sidecar.shared.log.owned import OwnedLog
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import OperationId, physical_ms
from sidecar.shared.model.progress import DumpState, Progress
from sidecar.shared.ticdc.changefeed import ChangefeedName

SAMPLE_EVERY_S = 1.0
"""A recording is minutes long, where a dump of a sidecar may be hours long."""
RATE_SAMPLES = 4
"""That a rate of dump rows is over: windows close in steps."""


@dataclass(frozen=True, slots=True)
class ReplayFacts:
    """What the report says of the replay. `log_id`: as of `log.identity`. `played`: the recording and its speed, in words."""

    changefeed: str
    log_id: str
    played: str
    product: str


def check_writable(file: Path) -> None:
    """Makes the file, or empties it: what an earlier replay reported is not this one's. Raises ConfigError where that fails."""
    try:
        file.open("wb").close()
    except OSError as error:
        raise ConfigError(
            f"the report {file} cannot be written: {error.strerror}", hint="give --report a file in a folder that exists"
        ) from error


class ReportedDump:
    """Of one replay, in its thread. `deliveries` and `history` are those of its sidecars."""

    def __init__(self, facts: ReplayFacts, log: Folder, history: OperationHistory, deliveries: Deliveries, clock: Clock) -> None:
        self._log, self._history, self._clock = log, history, clock
        self._name = ChangefeedName("", "", facts.changefeed)
        self._samples = Samples(every_s=SAMPLE_EVERY_S)
        self._lines: list[LogEvent] = []
        self._deaths: list[TimedEvent] = []
        self._rows: deque[tuple[int, int]] = deque(maxlen=RATE_SAMPLES)
        self._sampled_ms = 0
        self._followed_s = self._ahead_s = 0.0
        reports = DumpReports(
            log,
            lambda: CertificateFacts(facts.changefeed, facts.log_id, facts.played, "", facts.product),
            self._samples,
            Chunks(CHUNKS_EACH_MAX),
            self._lines.append,
            self._events,
        )
        self._following = TermCertificates(OwnedLog(log, 1), history, deliveries, reports, now_s=self._now_s, log_line=self._lines.append)

    def see(self, pipeline: Pipeline, at_ms: int, changes: int) -> None:
        """After each step of a sidecar that lives. `changes`: that the sinks have received."""
        if at_ms - self._sampled_ms >= 1000 * SAMPLE_EVERY_S:
            self._sampled_ms = at_ms
            self._samples.see(self._status(pipeline, at_ms, changes), at_ms)
        if self._clock.now_s() - self._followed_s >= FOLLOW_S:
            self._followed_s = self._clock.now_s()
            self._following.step()

    def died(self, where: str, at_ms: int) -> None:
        self._deaths.append(TimedEvent(at_ms, f"the sidecar died {where}, as the replay wanted, and began again"))

    def write(self, dump_id: OperationId, file: Path) -> None:
        """Of the dump that is finished, once the sinks have accepted all. Raises SinkError where there is none, and OSError."""
        self._following.step()
        self._ahead_s = ASK_S  # the history is queried at once for what was read
        self._following.step()
        name = REPORTS.name(dump_id)
        data = storage.read_if_there(self._log, name)
        if data is None:
            raise SinkError(f"dump {dump_id} has no report: {self._lines}", hint="report this with the seed: it is a defect of ticdc-dump")
        file.write_bytes(data)

    def _now_s(self) -> float:
        return self._clock.now_s() + self._ahead_s

    def _events(self) -> list[TimedEvent]:
        """The deaths, and the commands for dumps that were restarted before."""
        others = (one for one in self._history.entries() if one.state is DumpState.STOPPED)
        commands = (
            TimedEvent(one.at_ms, f"{one.command} of dump {other.id}, which this one replaces", is_command=True)
            for other in others
            for one in other.commands
        )
        return [*self._deaths, *commands]

    def _status(self, pipeline: Pipeline, at_ms: int, changes: int) -> SidecarStatus:
        now_s, after_ts = self._clock.now_s(), pipeline.sequence.after_ts or None
        sinks, lag_s, progress = pipeline.pace.states(now_s), pipeline.delivery_lag_s(), pipeline.dump.progress
        measured = Measured(
            dump=progress.state if progress else None,
            delivery_lag_s=lag_s,
            windows_full=pipeline.dump.full(),
            delivery_limit_s=max((max(sink.bound_s, sink.limit_s) for sink in sinks), default=0.0),
            held_by=next((sink for sink in sinks if sink.holds), None),
        )
        return SidecarStatus(
            changefeed=self._name,
            epoch=pipeline.epoch,
            owner="replay",
            dumps=pipeline.dump.records,
            resolved_ts=after_ts,
            open_windows=pipeline.dump.open_windows(),
            resolved_lag_s=0.0 if after_ts is None else max(at_ms - physical_ms(after_ts), 0) / 1000,
            delivery_lag_s=lag_s,
            waiting_for=waiting_for(measured),
            rows_per_s=self._rows_per_s(progress, at_ms),
            changes=changes,
            sinks=sinks,
        )

    def _rows_per_s(self, progress: Progress | None, at_ms: int) -> float:
        self._rows.append((at_ms, sum(table.rows for table in progress.tables) if progress else 0))
        (first_ms, first), (last_ms, last) = self._rows[0], self._rows[-1]
        return max(last - first, 0) / (last_ms - first_ms) * 1000 if last_ms > first_ms else 0.0
