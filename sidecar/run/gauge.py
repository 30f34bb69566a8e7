"""What the owner's pipeline is doing, as a `SidecarStatus`, made a few times a second by the thread that runs the pipeline.

Everything is read from values that others keep anyway; what needs time (rates, a lane that rests) is kept here.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from threading import Event

from sidecar.control.status import LANE_STILL_MAX_S, LaneStatus, Measured, ServiceStatus, SidecarStatus, stream_waiting_for, waiting_for
from sidecar.pace.controller import SinkState
from sidecar.pipeline import Pipeline
from sidecar.ports import SchemaSource
from sidecar.run.logs import log
from sidecar.shared.errors import TicdcDumpError
from sidecar.shared.log.deliveries import LogDeliveries
from sidecar.shared.log.delivery_report import DeliveryReport
from sidecar.shared.model.nouns import CommitTs, Ddl, Lane, TableName, TableSchema, carried, physical_ms
from sidecar.shared.model.progress import OVER, DumpState, Progress
from sidecar.shared.model.schema_step import Beside, Rewrites
from sidecar.shared.process.background import Background
from sidecar.shared.ticdc.changefeed import ChangefeedName

STATUS_EVERY_S = 0.5
RATE_OVER_S = 10.0
"""Long enough to hold several segments, short enough that an operator sees a change of pace."""


@dataclass(frozen=True, slots=True)
class _Sample:
    at_s: float
    rows: int
    bytes: int


class Estimates:
    """Rows of the dumps' tables by the source's statistics, queried in the background: once, and when there are other tables."""

    def __init__(self, schemas: SchemaSource) -> None:
        self._schemas = schemas
        self._requested: frozenset[tuple[str, TableName]] = frozenset()
        self._asking: list[Background] = []
        self.rows: Mapping[TableName, int] = {}

    def want(self, dumps: Iterable[Progress]) -> None:
        """Raises nothing: what is shown of a dump ends no stream."""
        self._asking = [one for one in self._asking if one.alive]
        wanted = frozenset((dump.dump_id, table.table) for dump in dumps if dump.state not in OVER for table in dump.tables)
        if wanted and wanted != self._requested:
            self._requested = wanted
            tables = sorted({table for _, table in wanted})
            self._asking.append(Background(partial(self._ask, tables), name="estimates"))

    def _ask(self, tables: Sequence[TableName], _: Event) -> None:
        try:
            estimates = self._schemas.estimates(tables)
        except TicdcDumpError:
            return  # shown as unknown: the dump's own SELECTs tell what is wrong with the source
        except Exception as error:  # noqa: BLE001  # a defect: it is logged, and shown as unknown
            log.warning("a defect in the estimates", exc_info=error)
            return
        self.rows = {estimate.table: estimate.rows for estimate in estimates if estimate.rows is not None}


class Gauge:
    """For one term of `owner`, host:pid. `still_because`: what the feed knows of why it does not move."""

    def __init__(
        self,
        name: ChangefeedName,
        owner: str,
        pipeline: Pipeline,
        deliveries: LogDeliveries,
        estimates: Estimates,
        still_because: Callable[[], str] = lambda: "",
    ) -> None:
        self._name, self._owner, self._pipeline = name, owner, pipeline
        self._deliveries, self._estimates, self._still_because = deliveries, estimates, still_because
        self._samples: deque[_Sample] = deque()
        self._moved: dict[Lane, tuple[CommitTs | None, float]] = {}
        self._due_s = 0.0
        self._began_seq = pipeline.next_seq
        self._tables: Mapping[TableName, TableSchema] = {}
        self._carried: tuple[TableName, ...] = ()

    def due(self, now_s: float) -> bool:
        if now_s < self._due_s:
            return False
        self._due_s = now_s + STATUS_EVERY_S
        return True

    def read(
        self, now_s: float, *, worker: str, died: str = "", last_error: str = "", services: Sequence[ServiceStatus] = ()
    ) -> SidecarStatus:
        """`now_s` by the pipeline's clock. `worker`: the merge worker's state in a word; `died`: of one that could not say why;
        `last_error`: what is reported where the worker reports no error. Cheap: no call of it waits."""
        pipeline, wall_ms = self._pipeline, time.time() * 1000
        dumps, counts, report = pipeline.dump.records, pipeline.counts, self._deliveries.report
        self._estimates.want(dumps)
        ddl, lanes, sinks, demand = pipeline.last_ddl, self._lanes(now_s), pipeline.pace.states(now_s), pipeline.dump.demand()
        rows_s, bytes_s = self._rates(now_s)
        resolved_ts = pipeline.sequence.after_ts or None
        measured = self._measured(now_s, wall_ms, lanes, sinks, worker=worker)
        delivered_ts = (report.upto_ts or None) if report else None
        behind_s = self._behind_the_clock(wall_ms)
        sinks = tuple(replace(sink, lag_s=behind_s.get(sink.sink, sink.lag_s)) for sink in sinks)
        lags_s = [*behind_s.values(), *([] if delivered_ts is None else [_behind_s(delivered_ts, wall_ms)])]
        return SidecarStatus(
            changefeed=self._name,
            epoch=pipeline.epoch,
            owner=self._owner,
            dumps=dumps,
            resolved_ts=resolved_ts,
            delivered_ts=delivered_ts,
            open_windows=pipeline.dump.open_windows(),
            resolved_lag_s=_behind_s(resolved_ts, wall_ms),
            delivery_lag_s=max(lags_s, default=measured.delivery_lag_s),
            lanes=lanes,
            waiting_for=waiting_for(measured),
            stream_waiting_for=stream_waiting_for(measured),
            rows_per_s=rows_s,
            bytes_per_s=bytes_s,
            eta_s=self._eta_s(dumps, rows_s),
            changes=counts.changes,
            repeats=pipeline.sequence.repeats,
            segments=pipeline.next_seq,
            spilled_rows=pipeline.sequence.spilled_rows,
            dropped_rows=sum(report.dropped.values()) if report else 0,
            ddls=counts.ddls,
            last_ddl_ts=ddl.commit_ts if ddl else None,
            last_ddl=_ddl_text(ddl, pipeline.rewrites),
            rewrites=pipeline.rewrites.count,
            rewritten=pipeline.rewrites.tables,
            merge_worker=measured.merge_worker,
            last_error=measured.source_said or self._deliveries.trouble or _error_of(report, died) or last_error,
            estimates=_expected(dumps, self._estimates.rows),
            readers=demand.readers,
            strict_bound=demand.strict_bound,
            sinks=sinks,
            merged_rows=report.rows if report else {},
            skipped_rows=report.skipped if report else 0,
            ambiguous_timestamps=report.guessed if report else 0,
            source_away_s=measured.source_away_s,
            carried=self._tables_carried(),
            sink_tables=self._deliveries.tables,
            files={one.sink: one.files for one in report.sinks if one.files} if report else {},
            filled_words=self._deliveries.words,
            services=services,
            verification_waits_for=report.verification_waits_for if report else "",
        )

    def _behind_the_clock(self, wall_ms: float) -> dict[str, float]:
        """Of each sink whose position is known, in whatever term and by whatever worker it was reached."""
        return {sink.sink: _behind_s(sink.upto_ts, wall_ms) for sink in self._deliveries.sinks() if sink.upto_ts}

    def _waited_s(self) -> float:
        """How long the oldest segment that is not delivered has been in the log; of one that an earlier term has written, how far the log
        goes beyond it."""
        pipeline, report = self._pipeline, self._deliveries.report
        if report is None or report.seq is None or report.seq >= self._began_seq - 1:
            return pipeline.delivery_lag_s()
        return max(_ms(pipeline.sequence.after_ts, report.upto_ts or None) / 1000, pipeline.delivery_lag_s())

    def _tables_carried(self) -> tuple[TableName, ...]:
        """Made again after a DDL only: there may be tens of thousands."""
        if self._tables is not self._pipeline.tables:
            self._tables = self._pipeline.tables
            self._carried = carried(self._tables)
        return self._carried

    def _measured(self, now_s: float, wall_ms: float, lanes: Sequence[LaneStatus], sinks: Sequence[SinkState], *, worker: str) -> Measured:
        pipeline = self._pipeline
        progress, resolved_ts = pipeline.dump.progress, pipeline.sequence.after_ts or None
        away = pipeline.outage if progress is not None and progress.state is DumpState.RUNNING else None
        least = min((lane.resolved_ts for lane in lanes if lane.resolved_ts is not None), default=None)
        stillest, since_s = min(
            ((lane, at_s) for lane, (_, at_s) in self._moved.items()), key=lambda value: value[1], default=(None, now_s)
        )
        last = [sink.batches[-1] for sink in self._deliveries.sinks() if sink.batches]
        slowest = max(last, key=lambda batch: batch.seconds, default=None)
        return Measured(
            dump=progress.state if progress else None,
            unjoined=tuple(lane.lane for lane in lanes if lane.resolved_ts is None),
            stillest=stillest,
            still_s=now_s - since_s,
            still_because=self._still_because() if now_s - since_s > LANE_STILL_MAX_S else "",
            ticdc_lag_s=_behind_s(least, wall_ms),
            sequence_lag_s=_ms(least, resolved_ts) / 1000,
            delivery_lag_s=self._waited_s(),
            merge_worker=worker,
            batch_s=slowest.seconds if slowest else 0.0,
            batch_sink_s=slowest.accept_s if slowest else 0.0,
            stopped={sink.sink: sink.error for sink in sinks if sink.error},
            source_still_s=pipeline.source_still_s(),
            source_away_s=now_s - away.since_s if away else 0.0,
            source_said=away.said if away else "",
            windows_full=pipeline.dump.full(),
            throttled=pipeline.throttled_s() > 0,
            delivery_limit_s=max((max(sink.bound_s, sink.limit_s) for sink in sinks), default=0.0),
            held_by=next((sink for sink in sinks if sink.holds), None),
            spark_starting=pipeline.pace.starting,
        )

    def _lanes(self, now_s: float) -> tuple[LaneStatus, ...]:
        lags = self._pipeline.lane_lags()
        for lane, ts in lags.items():
            if lane not in self._moved or self._moved[lane][0] != ts:
                self._moved[lane] = (ts, now_s)
        self._moved = {lane: self._moved[lane] for lane in lags}
        foremost = max((ts for ts in lags.values() if ts is not None), default=None)
        return tuple(LaneStatus(lane, ts, _ms(foremost, ts) / 1000) for lane, ts in sorted(lags.items()))

    def _rates(self, now_s: float) -> tuple[float, float]:
        counts = self._pipeline.counts
        self._samples.append(_Sample(now_s, counts.dump_rows, counts.dump_bytes))
        while now_s - self._samples[0].at_s > RATE_OVER_S:
            self._samples.popleft()
        first, seconds = self._samples[0], now_s - self._samples[0].at_s
        return ((counts.dump_rows - first.rows) / seconds, (counts.dump_bytes - first.bytes) / seconds) if seconds else (0.0, 0.0)

    def _eta_s(self, dumps: Iterable[Progress], rows_s: float) -> float | None:
        """Of all that run together, as the rate is; None while that says nothing: a dump begins slowly, so rows are to have come all over
        the time that the rate is of."""
        first, last = self._samples[0], self._samples[-1]
        halves = [one.rows for one in self._samples if one.at_s - first.at_s >= RATE_OVER_S / 2 >= last.at_s - one.at_s]
        if not halves or not first.rows < halves[0] < last.rows:
            return None
        running = [dump for dump in dumps if dump.state is DumpState.RUNNING]
        if not running or not rows_s or not self._estimates.rows:
            return None
        tables = [table for dump in running for table in dump.tables if table.complete_at is None]
        expected = [table.rows_expected(self._estimates.rows.get(table.table, 0)) for table in tables]
        left = [None if rows is None else max(rows - table.rows, 0) for table, rows in zip(tables, expected, strict=True)]
        return None if None in left else sum(rows or 0 for rows in left) / rows_s


def _expected(dumps: Iterable[Progress], rows: Mapping[TableName, int]) -> dict[TableName, int]:
    """Rows of each table that its dump is to read, where that is known. A dump that is not over comes before others of the table."""
    shown = sorted(dumps, key=lambda dump: dump.state not in OVER)
    expected: dict[TableName, int | None] = dict(rows)
    expected |= {table.table: table.rows_expected(rows.get(table.table)) for dump in shown for table in dump.tables}
    return {table: number for table, number in expected.items() if number is not None}


def _error_of(report: DeliveryReport | None, died: str = "") -> str:
    """What stops a sink, or ended the worker: the present before the past, and a death before what was reported before it."""
    if report is None:
        return died
    sink = next((f"{sink.sink}: {sink.error}" for sink in report.sinks if sink.error), "")
    return (sink if report.state == "running" else "") or died or report.error or sink


def _ms(later: CommitTs | None, earlier: CommitTs | None) -> float:
    return 0.0 if later is None or earlier is None else max(physical_ms(later) - physical_ms(earlier), 0)


def _behind_s(ts: CommitTs | None, wall_ms: float) -> float:
    """Negative where a clock is wrong: reported as it is."""
    return 0.0 if ts is None else (wall_ms - physical_ms(ts)) / 1000


def _ddl_text(ddl: Ddl | None, rewrites: Rewrites) -> str:
    """The newest DDL, with what an operator should know of the rows beside it."""
    if ddl is None:
        return ""
    if rewrites.commit_ts != ddl.commit_ts:
        return ddl.query
    then = "they are read again" if rewrites.beside is Beside.READ_AGAIN else "dump again"
    return f"(TiCDC's rows of {', '.join(map(str, rewrites.tables))} beside it may be wrong: {then}) {ddl.query}"
