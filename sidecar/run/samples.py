"""What the stream and its dumps did over time: a sample of the published status every few seconds, for charts and for a dump's report."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from threading import Lock

from msgspec import structs

from sidecar.control.status import SidecarStatus
from sidecar.report.chunks import Chunks, DumpedChunk
from sidecar.report.samples import slowest
from sidecar.run.ddls import SeenDdl, SeenDdls
from sidecar.shared.log.certificate_parts import SampleLine, SinkSample
from sidecar.shared.model.progress import DumpState
from ticdc_dump.v1 import control_pb2 as pb

EVERY_S = 2.0
KEPT_S = 3600.0
DAY_MS, MINUTE_MS = 24 * 3_600_000, 60_000
"""After the hour, the slowest sample of each minute is kept for a day: a console shows that, too."""
WAITING_CHARS_MAX = 200


class Samples:
    """Those of the last hour, and fewer of a day. One thread adds, any thread reads."""

    def __init__(self, *, every_s: float = EVERY_S, kept_s: float = KEPT_S) -> None:
        self._every_ms, self._kept_ms = int(every_s * 1000), int(kept_s * 1000)
        self._lock = Lock()
        self._samples: deque[SampleLine] = deque()
        self._minutes: deque[SampleLine] = deque()
        self._epoch = self._changes = 0

    def see(self, status: SidecarStatus, at_ms: int) -> None:
        """Adds a sample if one is due."""
        last = self._samples[-1] if self._samples else None
        passed_ms = self._every_ms if last is None else at_ms - last.at_ms
        if 0 <= passed_ms < self._every_ms:  # a clock that was set back begins again
            return
        known = last is not None and self._epoch == status.epoch and passed_ms > 0
        sample_line = SampleLine(
            at_ms=at_ms,
            epoch=status.epoch,
            running=tuple(dump.dump_id for dump in status.dumps if dump.state is DumpState.RUNNING),
            rows_per_s=round(status.rows_per_s, 1),
            changes_per_s=round((status.changes - self._changes) / passed_ms * 1000, 1) if known else 0.0,
            resolved_lag_s=round(status.resolved_lag_s, 3),
            delivery_lag_s=round(status.delivery_lag_s, 3),
            open_windows=status.open_windows,
            waiting_for=status.waiting_for[:WAITING_CHARS_MAX],
            sinks=tuple(
                SinkSample(one.sink, round(one.median_s, 3), round(one.live_s, 3), round(one.bound_s, 3), round(one.limit_s, 3))
                for one in status.sinks
            ),
        )
        self._epoch, self._changes = status.epoch, status.changes
        with self._lock:
            if passed_ms < 0:
                self._samples.clear()
                self._minutes.clear()
            self._samples.append(sample_line)
            while self._samples[0].at_ms <= at_ms - self._kept_ms:
                self._thin(self._samples.popleft())

    def _thin(self, sample: SampleLine) -> None:
        last = self._minutes[-1] if self._minutes else None
        if last is not None and last.at_ms // MINUTE_MS == sample.at_ms // MINUTE_MS and last.epoch == sample.epoch:
            self._minutes[-1] = slowest((last, sample))
        else:
            self._minutes.append(sample)
        while self._minutes[0].at_ms <= sample.at_ms - DAY_MS:
            self._minutes.popleft()

    def day(self) -> list[SampleLine]:
        """Those of the last hour, and before them one of each minute. Oldest first."""
        with self._lock:
            return [*self._minutes, *self._samples]

    def after(self, at_ms: int) -> list[SampleLine]:
        """Those later than that, oldest first."""
        with self._lock:
            if self._samples and self._samples[-1].at_ms <= at_ms:
                return []
            return [one for one in self._samples if one.at_ms > at_ms]


@dataclass(frozen=True, slots=True)
class MeasuredTerms:
    """What a process has measured of the terms in which it was the owner. `chunks`: the last ones of dumps."""

    samples: Samples
    chunks: Chunks
    ddls: SeenDdls

    def see(self, status: SidecarStatus, at_ms: int) -> None:
        """After each step of the pipeline that publishes a status."""
        self.samples.see(status, at_ms)
        self.ddls.see(status)

    def timeline(self, after_ms: int) -> pb.Timeline:
        """As of Served."""
        return timeline(self.samples.after(after_ms), self.chunks.kept(), self.ddls.seen())


def timeline(samples: Iterable[SampleLine], chunks: Iterable[DumpedChunk], ddls: Iterable[SeenDdl]) -> pb.Timeline:
    return pb.Timeline(
        samples=[_sample(one) for one in samples],
        chunks=[_chunk(one) for one in chunks],
        ddls=[pb.PassedDdl(commit_tso=one.commit_ts, text=one.text, unseen=one.unseen) for one in ddls],
    )


def _sample(sample: SampleLine) -> pb.Sample:
    return pb.Sample(
        at_ms=sample.at_ms,
        epoch=sample.epoch,
        rows_per_second=sample.rows_per_s,
        changes_per_second=sample.changes_per_s,
        resolved_lag_s=sample.resolved_lag_s,
        delivery_lag_s=sample.delivery_lag_s,
        open_windows=sample.open_windows,
        waiting_for=sample.waiting_for,
        sinks=[pb.SinkSample(**structs.asdict(sink)) for sink in sample.sinks],
    )


def _chunk(chunk: DumpedChunk) -> pb.DumpedChunk:
    return pb.DumpedChunk(
        dump_id=chunk.dump_id,
        schema=chunk.table.schema,
        table=chunk.table.table,
        low_tso=chunk.low_ts,
        high_tso=chunk.high_ts,
        rows=chunk.rows,
        dropped=chunk.dropped,
        seq=chunk.seq,
    )
