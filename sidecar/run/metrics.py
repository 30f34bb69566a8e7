"""Prometheus metrics and /healthz over HTTP. Everything is read from the published status at each request.

`/healthz` answers 200 while the process can do its duty: as the owner, or as a standby, and then has what keeps it from taking over: no
restart would mend that. Whether it is the owner is
`ticdc_dump_owner`; a lag that grows is for an alert to judge, not for a probe that would restart the process.

Anybody who reaches the port may connect, so a connection costs a thread for a few seconds at most, there are CONNECTIONS_MAX of
them, and the oldest gives way to the newest: who says nothing, or a byte at a time, keeps no scrape and no probe waiting.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from socketserver import ThreadingMixIn
from threading import Lock
from time import sleep, time
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, ProcessCollector, make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from stamina.instrumentation import get_prometheus_counter

from sidecar.control.status import SidecarStatus
from sidecar.pace.controller import SinkState
from sidecar.run.cycle import VerifiedSinks, VerifiedTable
from sidecar.run.gc_hold import GcHoldState
from sidecar.run.logs import log
from sidecar.shared.errors import ConfigError
from sidecar.shared.model.nouns import physical_ms
from sidecar.shared.model.progress import DumpState, TableProgress
from sidecar.shared.model.sink_delivery import TableFiles
from sidecar.shared.process.background import Background

TABLES_MAX = 1000
"""Series a metric by table: what is above is summed under the table `…`."""
REST = "…"
SINK_TABLES_MAX = 300
"""Of a changefeed with more tables, each sink's are only counted."""
CONNECTIONS_MAX = 16
"""More than scrapers and probes hold: each asks one question and goes."""
SILENT_MAX_S = 5.0
"""For the next byte of a request, and for room to send an answer."""
NO_DESCRIPTOR_PAUSE_S = 0.1
"""Between attempts to accept while the process has no descriptor left: the listener stays ready meanwhile."""
CLOSING_MAX_S = 5.0


@dataclass(slots=True)
class MetricsTally:
    """Counted by the process itself, over all its terms. `terms_ended`: by the class of the error that ended them. `log_volume_bytes`:
    free, and in all, on the log's volume; None where it is on none. `verified`: by verifications; None: this is
    no owner. `against_takeover`: as `Takeover.against`. `gc_hold`: what the term reads as of a moment of TiDB; None: not known."""

    terms: int = 0
    worker_deaths: int = 0
    terms_ended: dict[str, int] = field(default_factory=dict)
    log_volume_bytes: tuple[int, int] | None = None
    verified: VerifiedSinks | None = None
    against_takeover: tuple[str, ...] | None = None
    gc_hold: Callable[[], GcHoldState | None] = lambda: None


class _StatusCollector(Collector):
    def __init__(self, status: Callable[[], SidecarStatus | None], tally: Callable[[], MetricsTally]) -> None:
        self._status, self._tally = status, tally
        self._failed: set[str] = set()

    def collect(self) -> Iterator[Metric]:
        """A part that fails lacks its metrics, and is named in one: alerts need the others all the more then."""
        status = self._status()
        yield GaugeMetricFamily("ticdc_dump_owner", "1 while this process owns its changefeed", value=float(status is not None))
        parts: dict[str, Callable[[], Iterator[Metric]]] = {"process": self._process}
        if status is not None:
            parts |= {"stream": partial(_stream, status), "dump": partial(_dump, status)}
        failed = GaugeMetricFamily("ticdc_dump_metrics_failed", "1 while this part of the metrics cannot be made", labels=["part"])
        for name, part in parts.items():
            try:
                yield from [*part()]
                self._failed.discard(name)
            except Exception as error:  # noqa: BLE001  # whatever it is: it is one part's
                if name not in self._failed:
                    log.warning("a part of the metrics fails", part=name, exc_info=error)
                self._failed.add(name)
            failed.add_metric([name], float(name in self._failed))
        yield failed

    def _process(self) -> Iterator[Metric]:
        tally = self._tally()
        if tally.against_takeover is not None:
            ready = "1 if by its last check nothing keeps this standby from taking over"
            yield GaugeMetricFamily("ticdc_dump_standby_ready", ready, value=float(not tally.against_takeover))
        yield CounterMetricFamily("ticdc_dump_terms", "Terms of ownership begun", value=tally.terms)
        yield CounterMetricFamily("ticdc_dump_merge_worker_deaths", "Merge workers that had to be started again", value=tally.worker_deaths)
        ended = CounterMetricFamily("ticdc_dump_terms_ended", "Terms that an error ended", labels=["error"])
        for error, count in tally.terms_ended.items():
            ended.add_metric([error], count)
        yield ended
        if tally.log_volume_bytes is not None:
            free, size = tally.log_volume_bytes
            yield GaugeMetricFamily("ticdc_dump_log_volume_free_bytes", "Free on the log's volume, beside the log's reserve", value=free)
            yield GaugeMetricFamily("ticdc_dump_log_volume_size_bytes", "The log's volume", value=size)
        retries = get_prometheus_counter()  # what stamina retried: etcd, TiDB, the control client
        if retries is not None:
            yield from retries.collect()
        if tally.verified is not None:
            yield from _verified(tally.verified)
        if (gc_hold := tally.gc_hold()) is not None:
            yield from _old_versions(gc_hold)


def _stream(status: SidecarStatus) -> Iterator[Metric]:
    def gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
        return GaugeMetricFamily(f"ticdc_dump_{name}", text, value=value)

    yield gauge("epoch", "The owner's epoch", status.epoch)
    yield gauge("resolved_tso", "The log's position, a TSO", status.resolved_ts or 0)
    yield gauge("delivered_tso", "What every sink has accepted, a TSO", status.delivered_ts or 0)
    yield gauge("resolved_lag_seconds", "Wall clock against the log's position", status.resolved_lag_s)
    yield gauge("delivery_lag_seconds", "From now back to the commit time up to which every sink has accepted all", status.delivery_lag_s)
    yield gauge("segments", "Segments ever written to the log", status.segments)
    yield gauge("merge_worker_up", "1 while the merge worker runs", float(status.merge_worker in ("running", "external")))
    yield CounterMetricFamily("ticdc_dump_changes", "Live changes logged in this term", value=status.changes)
    yield CounterMetricFamily("ticdc_dump_repeats", "Changes dropped as repeats in this term", value=status.repeats)
    yield CounterMetricFamily("ticdc_dump_spilled_rows", "Changes that waited on disk in this term", value=status.spilled_rows)
    yield CounterMetricFamily("ticdc_dump_ddls", "DDLs passed in this term", value=status.ddls)
    beside = "DDLs passed in this term beside which TiCDC's rows may be wrong"
    yield CounterMetricFamily("ticdc_dump_rewriting_ddls", beside, value=status.rewrites)
    yield gauge("last_ddl_tso", "Commit of the newest DDL passed in this term, a TSO; 0: none", status.last_ddl_ts or 0)
    dropped = "Chunk rows omitted because their key was touched in the window, since the merge worker began"
    yield CounterMetricFamily("ticdc_dump_dropped_rows", dropped, value=status.dropped_rows)
    yield gauge("skipped_rows", "Rows of the log that an operator skips in every output", status.skipped_rows)
    ambiguous = "TIMESTAMPs of an hour that the TiCDC server's zone has twice, taken as kafka.ambiguous says, since the merge worker began"
    yield CounterMetricFamily("ticdc_dump_ambiguous_timestamps", ambiguous, value=status.ambiguous_timestamps)
    merged = "Rows merged for all sinks since the merge worker began, in its own process or by Spark's tasks"
    places = CounterMetricFamily("ticdc_dump_merged_rows", merged, labels=["place"])
    for place, count in status.merged_rows.items():
        places.add_metric([place], count)
    yield places
    works = GaugeMetricFamily("ticdc_dump_service_up", "1 while this work beside the stream runs", labels=["service"])
    failed = CounterMetricFamily("ticdc_dump_service_failures", "How often it ended with an error in this term", labels=["service"])
    for service in status.services:
        works.add_metric([service.name], float(not service.again_s))
        failed.add_metric([service.name], service.failures)
    yield works
    yield failed
    held = GaugeMetricFamily("ticdc_dump_retention_held_seconds", "For which it has kept a segment that every sink has", labels=["by"])
    for hold in status.holds:
        held.add_metric([hold.by], hold.seconds)
    yield held
    lag = GaugeMetricFamily("ticdc_dump_lane_lag_seconds", "Behind the foremost lane", labels=["lane"])
    joined = GaugeMetricFamily("ticdc_dump_lane_joined", "1 once the lane had a resolved mark", labels=["lane"])
    for lane in status.lanes:
        lag.add_metric([lane.lane], lane.lag_s)
        joined.add_metric([lane.lane], float(lane.resolved_ts is not None))
    yield lag
    yield joined


def _dump(status: SidecarStatus) -> Iterator[Metric]:
    state = GaugeMetricFamily("ticdc_dump_state", "1 while a dump is in this state", labels=["state"])
    for known in DumpState:
        state.add_metric([known], float(any(dump.state is known for dump in status.dumps)))
    yield state
    scans = any(table.where for dump in status.dumps if dump.state is DumpState.RUNNING for table in dump.tables if not table.complete_at)
    text = "1 while a dump reads the rows of a predicate: it may read many that do not meet it"
    yield GaugeMetricFamily("ticdc_dump_filtered", text, value=float(scans))
    yield GaugeMetricFamily("ticdc_dump_open_windows", "Windows read or being read and not closed in the log", value=status.open_windows)
    yield GaugeMetricFamily("ticdc_dump_source_away_seconds", "For which a running dump has had no answer", value=status.source_away_s)
    yield GaugeMetricFamily("ticdc_dump_rows_per_second", "Of the dump, over the last seconds", value=status.rows_per_s)
    yield GaugeMetricFamily("ticdc_dump_bytes_per_second", "Of the dump, over the last seconds", value=status.bytes_per_s)
    yield GaugeMetricFamily("ticdc_dump_eta_seconds", "Until the dump is complete; 0: unknown", value=status.eta_s or 0.0)
    waiting = GaugeMetricFamily("ticdc_dump_waiting", "1 while something holds the stream or the dump up", labels=["part"])
    waiting.add_metric([status.waiting_for.partition(":")[0] or "nothing"], float(bool(status.waiting_for)))
    yield waiting
    yield from _sinks(status)
    yield from _sink_tables(status)
    yield from _files(status)
    rows = GaugeMetricFamily("ticdc_dump_table_rows", "Rows of the dump in the log", labels=["schema", "table"])
    complete = GaugeMetricFamily("ticdc_dump_table_complete", "1 once the table is complete", labels=["schema", "table"])
    tables = _tables(status)
    for table in tables[:TABLES_MAX]:
        rows.add_metric(table.table, table.rows)
        complete.add_metric(table.table, float(table.complete_at is not None))
    if rest := tables[TABLES_MAX:]:
        rows.add_metric([REST, REST], sum(table.rows for table in rest))
        complete.add_metric([REST, REST], float(all(table.complete_at is not None for table in rest)))
    yield rows
    yield complete


def _tables(status: SidecarStatus) -> tuple[TableProgress, ...]:
    """Of the dumps that have begun and are not over, which have no table in common; else of the last one."""
    under_way = [dump for dump in status.dumps if dump.state in (DumpState.RUNNING, DumpState.PAUSED)]
    shown = under_way or ([status.progress] if status.progress is not None else [])
    return tuple(table for dump in shown for table in dump.tables)


def _sink_tables(status: SidecarStatus) -> Iterator[Metric]:
    lacking = GaugeMetricFamily(
        "ticdc_dump_sink_incomplete_tables", "Tables that the sink lacks rows of, as far as is known", labels=["sink"]
    )
    complete = GaugeMetricFamily(
        "ticdc_dump_sink_complete", "1 while the sink has all rows of the table", labels=["sink", "schema", "table"]
    )
    holes = GaugeMetricFamily("ticdc_dump_sink_holes", "Tables of the sink with a hole that nothing has filled", labels=["sink"])
    oldest = GaugeMetricFamily("ticdc_dump_hole_oldest_seconds", "Since the TSO of the sink's oldest hole; 0: it has none", labels=["sink"])
    for sink, known in status.sink_tables.items():
        since_ms = min((physical_ms(hole.since_ts) for hole in known.holes.values()), default=None)
        holes.add_metric([sink], len(known.holes))
        oldest.add_metric([sink], 0.0 if since_ms is None else max(time() - since_ms / 1000, 0.0))
        lacking.add_metric([sink], len(status.incomplete(sink)))
        for table in status.carried if len(status.carried) <= SINK_TABLES_MAX else ():
            complete.add_metric([sink, *table], float(table in known.complete))
    yield lacking
    yield complete
    yield holes
    yield oldest


def _files(status: SidecarStatus) -> Iterator[Metric]:
    """Of lakes. Of a sink with more tables than SINK_TABLES_MAX, one series."""
    labels = ["sink", "schema", "table"]
    files = GaugeMetricFamily("ticdc_dump_lake_files", "Files that a reader of the table opens, deletes among them", labels=labels)
    small = "Files that a compaction to files of 128 MiB would save at the most: deploy/MAINTAIN.md"
    extra = GaugeMetricFamily("ticdc_dump_lake_small_files", small, labels=labels)
    for sink, tables in status.files.items():
        if len(tables) > SINK_TABLES_MAX:
            tables = [TableFiles(REST, REST, sum(one.files for one in tables), sum(one.extra for one in tables))]
        for one in tables:
            files.add_metric([sink, one.schema, one.table], one.files)
            extra.add_metric([sink, one.schema, one.table], one.extra)
    yield files
    yield extra


def _verified(verified: VerifiedSinks) -> Iterator[Metric]:
    """Of more tables than SINK_TABLES_MAX each sink's are one series: the oldest, and all differences."""
    labels = ["sink", "schema", "table"]
    age = GaugeMetricFamily("ticdc_dump_verified_age_seconds", "Since those rows were compared that wait longest for it", labels=labels)
    differences = GaugeMetricFamily("ticdc_dump_differences", "Rows that differed when they were compared last", labels=labels)
    each: dict[tuple[str, str, str], list[VerifiedTable]] = {}
    names = {one.name.table for one in verified.tables}
    for one in verified.tables:
        table = one.name.table if len(names) <= SINK_TABLES_MAX else (REST, REST)
        each.setdefault((one.name.sink, *table), []).append(one)
    for series, tables in each.items():
        if counted := [one.differences for one in tables if one.differences is not None]:
            differences.add_metric(series, sum(counted))
        ages = [one.age_s for one in tables if one.age_s is not None]
        if len(ages) == len(tables):
            age.add_metric(series, max(ages))
    yield age
    yield differences
    if verified.cycle_s:
        yield GaugeMetricFamily("ticdc_dump_verify_cycle_seconds", "In which all rows are to be compared", value=verified.cycle_s)


def _old_versions(state: GcHoldState) -> Iterator[Metric]:
    """Without a series where nothing is read, or it is not known how long it is kept."""
    age = GaugeMetricFamily("ticdc_dump_gc_needed_age_seconds", "Back to the oldest moment of TiDB that is still to be read", labels=["by"])
    for by, seconds in state.ages_s.items():
        age.add_metric([by], seconds)
    yield age
    yield GaugeMetricFamily("ticdc_dump_gc_held", "1 while PD keeps that moment for the sidecar", value=float(state.held))
    kept = "How far back a moment is kept: gc.hold_max_s while PD keeps it, else tidb_gc_life_time"
    remaining = "Until the oldest moment that is still to be read may be collected as garbage"
    for name, text, value in (("kept", kept, state.kept_s), ("remaining", remaining, state.remaining_s)):
        family = GaugeMetricFamily(f"ticdc_dump_gc_{name}_seconds", text, labels=[])
        if value is not None:
            family.add_metric([], value)
        yield family


def _sinks(status: SidecarStatus) -> Iterator[Metric]:
    """The pace of a dump, by sink."""
    values: tuple[tuple[str, str, Callable[[SinkState], float]], ...] = (
        (
            "live_delivery_seconds",
            "p99 from a segment's manifest to its acceptance, or the age of what waits if that is more",
            lambda sink: sink.live_s,
        ),
        ("live_delivery_bound_seconds", "What a dump is to keep live delivery within", lambda sink: sink.bound_s),
        (
            "live_delivery_limit_seconds",
            "What a dump keeps live delivery within: the bound or, if a batch takes too long for it, more",
            lambda sink: sink.limit_s,
        ),
        ("batch_fixed_seconds", "What a batch with any dump rows takes, however few; 0: unknown", lambda sink: sink.fixed_s),
        ("live_delivery_without_dump_seconds", "What live delivery would take without a dump; 0: unknown", lambda sink: sink.without_s),
        ("sink_overloaded", "1 while live changes alone take longer than their bound", lambda sink: float(sink.overloaded)),
        ("rows_allowed", "Rows that a dump may have read and not delivered", lambda sink: float(max(sink.rows, 0))),
        ("sink_lag_seconds", "From now back to the commit time up to which this sink has accepted all", lambda sink: sink.lag_s),
        ("sink_failing", "1 while this sink is stopped by an error", lambda sink: float(bool(sink.error))),
        ("held_back", "1 while this sink keeps the dump from reading more", lambda sink: float(sink.holds)),
    )
    for name, text, value in values:
        family = GaugeMetricFamily(f"ticdc_dump_{name}", text, labels=["sink"])
        for sink in status.sinks:
            family.add_metric([sink.sink], value(sink))
        yield family


class _Quiet(WSGIRequestHandler):
    timeout = SILENT_MAX_S

    def log_message(self, format: str, *args: object) -> None:
        """A scrape every few seconds is not worth a line."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, *given: Any) -> None:
        self._lock = Lock()
        self._connections: dict[socket.socket, None] = {}
        super().__init__(*given)

    def get_request(self) -> tuple[socket.socket, Any]:
        try:
            return super().get_request()
        except OSError:
            sleep(NO_DESCRIPTOR_PAUSE_S)
            raise  # serve_forever continues

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._connections[request] = None
            if len(self._connections) > CONNECTIONS_MAX:
                with suppress(OSError):  # the other side may have ended it
                    next(iter(self._connections)).shutdown(socket.SHUT_RDWR)
                del self._connections[next(iter(self._connections))]
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._connections.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes before its answer is not worth a line. An error of ours is answered with 500; the WSGI handler logs it."""


def _of_standby(against: tuple[str, ...]) -> list[bytes]:
    return [b"standby\n", *(f"could not take over: {' '.join(what.split())}\n".encode() for what in against)]


class MetricsServer:
    """Answers /metrics and /healthz until `close`. `port`: the one it got, where the setting's is 0."""

    def __init__(self, listen: str, status: Callable[[], SidecarStatus | None], tally: Callable[[], MetricsTally]) -> None:
        host, _, port = listen.rpartition(":")
        registry = CollectorRegistry()
        registry.register(_StatusCollector(status, tally))
        ProcessCollector(registry=registry)
        metrics = make_wsgi_app(registry)

        def app(environ: dict[str, object], start_response: Callable[..., object]) -> object:
            if environ["PATH_INFO"] == "/healthz":
                start_response("200 OK", [("Content-Type", "text/plain")])
                return [b"owner\n"] if status() is not None else _of_standby(tally().against_takeover or ())
            return metrics(environ, start_response)

        try:
            self._server = make_server(host.strip("[]"), int(port), app, _Server, _Quiet)  # type: ignore[arg-type]  # a WSGI app
        except (OSError, ValueError) as error:
            raise ConfigError(f"metrics.listen {listen!r} cannot be listened on: {error}", hint="give host:port, or '' for none") from error
        self.port = self._server.server_port
        self._serving = Background(lambda _: self._server.serve_forever(), name="metrics")
        self.check = self._serving.check

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._serving.close(CLOSING_MAX_S)
