"""The sidecar's process: settings in, parts together, terms of ownership one after another, until an operator stops it.

    standby --lease won--> term --retryable error--> standby (after a pause)
                             |--lease lost, log taken--> standby
                             '--any other error--> the process ends with it (P6), nothing skipped

The control service, the metrics and the status live as long as the process; what may write lives as long as a term.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event

import sidecar
from sidecar.adapters.clock import MonotonicClock, wall_ms
from sidecar.adapters.etcd.history import read_history
from sidecar.adapters.etcd.keeper import KeeperProcess
from sidecar.adapters.etcd.keys import changefeed_root
from sidecar.adapters.etcd.opening import open_keys
from sidecar.adapters.etcd.owner import EtcdOwner, OwnerHolder, owner, owner_console
from sidecar.adapters.etcd.progress import EtcdProgress
from sidecar.adapters.tidb.ranges import slow_reads
from sidecar.adapters.tidb.schema import TidbSchemas
from sidecar.console.listening import check_console, console_address
from sidecar.control.asker import asker_of, token_name
from sidecar.control.judging import Targets
from sidecar.control.local_call import LocalCall
from sidecar.control.requests import QueuedRequests
from sidecar.control.security import serve
from sidecar.control.served import Served
from sidecar.control.service import ControlService
from sidecar.control.status import SidecarStatus
from sidecar.control.subscribe import Spool
from sidecar.feeds.contract import Brought
from sidecar.feeds.kafka.checks import sharing
from sidecar.feeds.registry import MAKES
from sidecar.pipeline import Outside, Pipeline
from sidecar.ports import SegmentLog
from sidecar.report.chunks import Chunks
from sidecar.run.auxiliary import Services
from sidecar.run.awaited_dumps import AwaitedDumps, position
from sidecar.run.beginning import HoldsRows, check_beginning, undelivered_dumps
from sidecar.run.between_terms import BetweenTerms
from sidecar.run.certificates import serve_certificates
from sidecar.run.changefeed_watch import ChangefeedWatch, read_changefeed, settled_changefeed
from sidecar.run.console import begin_console
from sidecar.run.continuous import ContinuousVerification, ServedSlices
from sidecar.run.ddls import SeenDdls
from sidecar.run.filling import NAME, Filling
from sidecar.run.gauge import Estimates, Gauge
from sidecar.run.hole_watch import serve_holes
from sidecar.run.log_event import LogEvent
from sidecar.run.log_events import StatusEvents, cannot_begin, open_secrets, started, stopped, stopping, term_ended
from sidecar.run.logs import note, say
from sidecar.run.metrics import MetricsServer, MetricsTally
from sidecar.run.outside import Lasting, outside_of
from sidecar.run.own_worker import OwnWorker, remote_reads
from sidecar.run.repairing import start_key_dump
from sidecar.run.samples import MeasuredTerms, Samples
from sidecar.run.sightings import SeenHoles, note_passed
from sidecar.run.takeover import Takeover, another_owns
from sidecar.run.term import Term
from sidecar.run.term_verifications import TermVerifications
from sidecar.shared.config import Config
from sidecar.shared.errors import LogBroken, LogTaken, LogUnreachable, OwnershipLost, StorageFull, TicdcDumpError
from sidecar.shared.log import storage
from sidecar.shared.log.deliveries import LogDeliveries
from sidecar.shared.log.disjoint import check_disjoint
from sidecar.shared.log.segment_log import FolderLog
from sidecar.shared.log.spill import FileSpill
from sidecar.shared.mysql.retry import end_questions
from sidecar.shared.process.listening import check_listening, read_token
from sidecar.shared.ticdc.scope import LiveScope

ACQUIRE_S = 1.0
"""A standby looks up from waiting this often, to see whether it is to stop."""
PAUSE_FIRST_S, PAUSE_MAX_S = 1.0, 30.0
"""Between terms that ended with an error which a retry can help; doubled each time, until a term lives for long."""
LONG_TERM_S = 60.0
CHUNKS_SHOWN_MAX = 200
SLOW_READS_S = 5.0
"""Of a --dry-run, to query how tables would be read: its caller waits for 30 s."""


class Sidecar:
    """One process for one changefeed. `run` returns when an operator stops it, and raises what ends it. `hindered`: what keeps it from
    serving the changefeed, as far as it is not a standby. `spool`: what subscribers read. `sinks`, `targets`: as of Served."""

    def __init__(
        self,
        config: Config,
        config_path: Path,
        *,
        holds_rows: HoldsRows = lambda *_: False,
        spool: Spool | None = None,
        sinks: Mapping[str, str] | None = None,
        targets: Targets | None = None,
    ) -> None:
        check_console(config.console)
        self._token = token_name(read_token("control", config.control))  # once: no scrape or repair needs the file, or time for this
        check_listening("control", config.control.listen, config.control.tls, has_token=bool(self._token))
        storage.log_folder(config.log.uri)
        self.spill = FileSpill(config.log.spill_folder or None)
        self.config = config
        self.stopping, self.clock = Event(), MonotonicClock()
        self.status: SidecarStatus | None = None
        self.last_error = self.hindered = ""
        self.requests, self.tally = QueuedRequests(), MetricsTally()
        self.measured = MeasuredTerms(Samples(), Chunks(CHUNKS_SHOWN_MAX, first=False), SeenDdls())
        self._config_path, self._holds_rows, self._spool, self._sinks = config_path, holds_rows, spool, sinks or {}
        self._targets = targets or {}
        self._verifications: TermVerifications | None = None
        self._parts, self._full = ExitStack(), False
        self._checks: list[Callable[[], object]] = []
        self._worker = OwnWorker(config_path, managed=config.spark.managed)
        self._between = BetweenTerms(self._worker, self.clock.now_s)
        self._takeover = Takeover(config_path, self.clock.now_s, lease_s=config.etcd.lease_s)

    def stop(self) -> None:
        """End within seconds, whatever the database does. From any thread."""
        say(*([] if self.stopping.is_set() else [stopping()]))
        self.stopping.set()
        end_questions()

    def _prepare(self) -> None:
        """Make the parts, again and again while only an outage is in the way: a machine may come up before its etcd does."""
        pause_s = PAUSE_FIRST_S
        while not self.stopping.is_set():
            try:
                self._make()
                return
            except TicdcDumpError as error:
                self._close_parts()
                if not error.retryable:
                    raise
                self._ended(error, cannot_begin(error))
            self.stopping.wait(pause_s)
            pause_s = min(pause_s * 2, PAUSE_MAX_S)

    def _make(self) -> None:
        config = self.config
        check_disjoint(config.log.uri, config.sinks)
        self.client = open_keys(config.etcd)
        self._parts.callback(self.client.close)
        self.changefeed = read_changefeed(self.client, config)
        self.schemas = TidbSchemas(config.source)
        self.scope = LiveScope(server_tz=config.kafka.server_tz)
        folder = storage.log_folder(config.log.uri)
        if (last := FolderLog(folder).recover(epoch=0)) is None:
            check_beginning(config, self.changefeed.log_id, self._holds_rows)
        self.ownership = EtcdOwner(
            self.client,
            self.root,
            lease_s=config.etcd.lease_s,
            holder=OwnerHolder(
                *(socket.gethostname(), os.getpid(), config.control.advertise or config.control.listen),
                console=console_address(config.console),
            ),
            epoch_min=last.epoch + 1 if last else 1,
        )
        self.ownership.keeper = KeeperProcess(config.etcd)
        self._parts.callback(self.ownership.close)
        self.deliveries = LogDeliveries(folder, needs_spark=not config.spark.worker_rows)
        self.deliveries.start()
        self._parts.callback(self.deliveries.close)
        self._checks.append(self.deliveries.check)
        self.estimates = Estimates(self.schemas)
        self._remote = remote_reads(config, self._worker, self._parts, cluster_id=self.changefeed.upstream_id)
        self.service = service = ControlService(self._served())
        self.server = serve(service, config.control)
        self._parts.callback(self.server.close)
        console = begin_console(
            config, self._config_path, service, self.measured, partial(owner_console, self.client, self.root), self._takeover.reasons
        )
        if console is not None:
            self._parts.callback(console.close)
        if config.metrics.listen:
            metrics = MetricsServer(config.metrics.listen, lambda: self.status, self._count)
            self._parts.callback(metrics.close)
            self._checks.append(metrics.check)

    @property
    def root(self) -> str:
        """Of this changefeed's keys in etcd."""
        return changefeed_root(self.changefeed.name, self.changefeed.incarnation)

    def _served(self) -> Served:
        return Served(
            status=lambda: self.status,
            owner_address=self._owner_address,
            requests=self.requests,
            schemas=self.schemas,
            feed_scope=self.scope,
            defaults=self.config.dump,
            asker=partial(asker_of, token=self._token),
            history=lambda: read_history(self.client, self.root, note),
            hindered=self._why_hindered,
            against_takeover=self._takeover.reasons,
            case_sensitive=self.changefeed.filter.case_sensitive,
            sinks=self._sinks,
            targets=self._targets,
            bracketing=lambda caller: self.schemas.asked_by(caller).bracketing(self.changefeed, encoded=self.config.encoded),
            slow_reads=partial(slow_reads, self.config.source, max_s=SLOW_READS_S),
            spool=self._spool,
            verifications=lambda: self._verifications,
            timeline=self.measured.timeline,
        )

    def run(self) -> None:
        """Terms of ownership until `stopping`. Raises the error that ends the process."""
        say(started(self.config, version=sidecar.__version__))
        say(*open_secrets(self.config))
        self._prepare()
        pause_s = PAUSE_FIRST_S
        while not self.stopping.is_set():
            began_s = self.clock.now_s()
            self._check_parts()
            self._between.wait()
            try:
                epoch = self.ownership.acquire(timeout_s=ACQUIRE_S)
                if epoch is None:
                    self._stand_by()
                    continue
                self._own(epoch)
            except (OwnershipLost, LogTaken) as error:
                self.hindered = ""
                self._ended(error, term_ended(error, goes_on=True))
            except TicdcDumpError as error:
                if self.stopping.is_set() and error.retryable:
                    break
                self.hindered = str(error)
                self._ended(error, term_ended(error, goes_on=error.retryable))
                if not error.retryable:
                    raise
            pause_s = PAUSE_FIRST_S if self.clock.now_s() - began_s > LONG_TERM_S else min(pause_s * 2, PAUSE_MAX_S)
            self.stopping.wait(pause_s)
        self._worker.end(at_once=False)
        say(stopped())

    def _stand_by(self) -> None:
        self._between.stand_by()
        self.hindered = ""
        say(*self._takeover.stand_by(self._owner_address))

    def _own(self, epoch: int) -> None:
        waited_s = self._takeover.end()
        self.hindered = self.hindered or "it is attaching to the changefeed"
        self.tally.terms += 1
        with ExitStack() as ending:  # whatever closes badly, the rest is closed, and the last error is raised
            ending.push(partial(self._leave, epoch))
            self.changefeed = settled_changefeed(self.client, self.config, self.changefeed)
            brought = MAKES[self.config.way](self.config, self.changefeed, self.scope, note)
            term = Term(self.config, self.changefeed, self.ownership, self.deliveries, epoch=epoch, worker_epoch=self._worker.epoch)
            term.sinks = tuple(self._sinks)
            watch = ChangefeedWatch(self.client, self.config, self.changefeed)
            ending.callback(term.close)
            ending.callback(watch.close)
            ending.callback(self._disown)
            if self._full:
                term.make_room(self.stopping)
            term.begin(partial(self._open, epoch, brought, holes := SeenHoles()))
            if brought.parking is not None:
                term.parking = brought.parking
                brought.parking.passed = partial(note_passed, term.pipeline, holes)
            self.ownership.record_log(term.pipeline.outside.log.id)
            others = sharing(self.client, self.changefeed, term.pipeline.tables) if self.config.feed == "kafka" else ()
            for what in (*others, *undelivered_dumps(term.pipeline.dump.records, self._sinks, self.deliveries.sinks())):
                note(what)
            services = self._begin_services(term, ending)
            self._run_term(term, brought, watch, services, waited_s)

    def _begin_services(self, term: Term, ending: ExitStack) -> Services:
        """Nothing of them is read, written or requested in this thread."""
        services = Services()
        ending.callback(services.close)
        log, history = term.owned(storage.log_folder(self.config.log.uri)), term.pipeline.outside.progress.history
        verifications = TermVerifications(
            *(log, AwaitedDumps(history, partial(position, term.pipeline, self.deliveries)), wall_ms),
            start_dump=lambda dump: start_key_dump(self._served(), dump),
            continuous=ContinuousVerification(log, self.config.verify.share_per_day, wall_ms, ServedSlices(self._served), say),
        )
        term.kept_from = verifications.needs_from
        self._verifications = verifications
        services.serve("verifications", verifications.serve)
        serve_certificates(term, self.client, self.measured, services)
        serve_holes(term, self.client, services)
        self.tally.gc_hold = term.serve_gc_hold(services)
        if self.config.dump.fill_holes:
            start = lambda request: self.service.Start(request, LocalCall(NAME, ""))  # noqa: E731 - as short as it is used
            services.serve("holes' dumps", Filling(lambda: self.status, log, start, note).serve)
        return services

    def _run_term(self, term: Term, brought: Brought, watch: ChangefeedWatch, services: Services, waited_s: float) -> None:
        """Raises what ends the term."""
        pipeline = term.pipeline
        self._between.enter(pipeline.pace, term.epoch, full=self._full)
        process = f"{socket.gethostname()}:{os.getpid()}"
        events = StatusEvents(self.config, self.changefeed, brought.place(), waited_s=waited_s)
        gauge = Gauge(self.changefeed.name, process, term.pipeline, self.deliveries, self.estimates, brought.still_because)

        def seen(_: Pipeline, now_s: float) -> None:
            watch.check()
            self._check_parts()
            if term.pipeline.counts.segments:
                self._worker.serve(term.epoch)
            if gauge.due(now_s):
                worker, died = self._worker.state(self.deliveries), self._worker.died(self.deliveries)
                read = gauge.read(now_s, worker=worker, died=died, last_error=self.last_error, services=services.states())
                status = self.status = replace(read, read_on="spark" if self.config.reads_on_spark else "sidecar", holds=term.holds.states)
                services.spare("samples", lambda: self.measured.see(status, wall_ms()))
                services.spare("log lines", lambda: say(*events.received(status, self.deliveries.report, now_s)))

        seen(term.pipeline, self.clock.now_s())
        self.hindered = ""
        self.server.owner(owns=True)
        term.run(self.stopping, seen)

    def _leave(self, epoch: int, _: object, error: BaseException | None, __: object) -> None:
        """The lease ends with the term. On a full volume it stays, with the worker: what the sinks accept is what makes room there."""
        self._full = isinstance(error, StorageFull) and error.place == str(storage.log_folder(self.config.log.uri))
        if self._full and self.config.spark.managed:
            self._worker.start(epoch, self.changefeed.log_id)
            return
        with ExitStack() as ending:
            ending.callback(self.ownership.release)
            ending.callback(self._between.leave, error)

    def _disown(self) -> None:
        self.status = self._verifications = None
        self.server.owner(owns=False)
        self.requests.abandon("this sidecar is no longer the owner of the changefeed")

    def _open(self, epoch: int, brought: Brought, holes: SeenHoles, segments: SegmentLog, opened: ExitStack) -> Outside:
        self._between.begin(epoch, self.changefeed.log_id, own_id=segments.id)
        lasting = Lasting(self.config, self.changefeed, self.requests, self.clock, self.spill, self.deliveries, self.scope, self._remote)
        progress = EtcdProgress(self.client, self.root, self.ownership, note)
        return outside_of(brought, lasting, progress, segments, holes, opened)

    def _count(self) -> MetricsTally:
        room: tuple[int, int] | None = None
        with suppress(LogUnreachable, LogBroken):  # no folder yet, or it does not answer: the log's own writes tell
            room = storage.volume_bytes(storage.log_folder(self.config.log.uri))
        verified = None if (verifications := self._verifications) is None else verifications.metrics()
        against = self._takeover.against
        return replace(self.tally, worker_deaths=self._worker.deaths, log_volume_bytes=room, verified=verified, against_takeover=against)

    def _ended(self, error: TicdcDumpError, line: LogEvent) -> None:
        causes = self._between.causes(error)
        self.last_error = "; ".join((str(error), *causes))
        ended = self.tally.terms_ended
        ended[type(error).__name__] = ended.get(type(error).__name__, 0) + 1
        say(line, *(LogEvent(cause, {}, "warning") for cause in causes))

    def _owner_address(self) -> str | None:
        holder = owner(self.client, self.root)
        return holder.address if holder is not None else None

    def _why_hindered(self) -> str:
        stops = self.stopping.is_set() and not another_owns(self._owner_address, self.ownership.holder.address)
        return "it is stopping" if stops else self.hindered

    def close(self) -> None:
        """Free everything, in the order opposite to its making."""
        with ExitStack() as closing:
            closing.callback(self._close_parts)
            closing.callback(self._worker.end, at_once=True)
            closing.callback(self.requests.close, "the sidecar is ending")

    def _check_parts(self) -> None:
        """Raises what anything of ours in the background ended with: an unknown error ends the process, and says so (P6)."""
        for check in self._checks:
            check()
        self._worker.check()

    def _close_parts(self) -> None:
        self._checks.clear()
        self._parts.close()
