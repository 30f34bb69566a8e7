"""All pumps of a cluster as one source of messages in lanes: what a drainer does towards PD and pumps.

    look, again and again: T from PD, then the registry ──► joining: which pumps are lanes ──► a stream and a thread a pump
                                                       └──► our entry as a drainer            └──► backlog, bounded ──► poll

- A message of a pump is one binlog as it was streamed, at the position of its commit_ts. The lane `pumps` says up to where all pumps are
  known (joining.py), and continues there; `lanes`, called after a poll, has every pump that a mark of that poll counts on.
- PD that does not answer for `outage_max_s` is FeedLost or CoordinationLost. A pump that does not is no error: it holds the stream, and
  the view names it.
- TiDB servers that write no binlogs, and pumps that have removed what is to come, stop the feed: what they omit is in no pump.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from threading import Event
from time import monotonic
from typing import Protocol

from sidecar.binlog.nodes import HEARTBEAT_S, PUMPS
from sidecar.feeds.binlog.backlog import Backlog, LaneBacklog
from sidecar.feeds.binlog.channel import connector
from sidecar.feeds.binlog.drainer import Drainer, NodeRegistry
from sidecar.feeds.binlog.gaps import check_kept, metrics_of
from sidecar.feeds.binlog.joining import PUMPS_LANE, JoinedPump, Joining, PumpLook, look
from sidecar.feeds.binlog.notify import NotifyServer
from sidecar.feeds.binlog.pump import PumpStream, Reaching
from sidecar.feeds.binlog.view import StreamsView, view_of
from sidecar.shared.codecs.kv import encode_resolved
from sidecar.shared.config import Tls
from sidecar.shared.errors import CoordinationLost, FeedLost, FeedUnsuitable, TicdcDumpError
from sidecar.shared.model.nouns import CommitTs, Lane, Message
from sidecar.shared.process.background import Background

LOOK_EVERY_S, LOOKS_INTERVAL_S = 0.2, 0.05
"""R goes no further than the last look, which is what joining costs in latency: so a binlog from after it makes us look again. A look is
two answers of PD's, and a millisecond of CPU here."""

GAPS_EVERY_S = 30.0
"""Pumps remove old binlogs every hour; a TiDB that skips is to be seen before much is lost."""

CLOSE_S = 5.0
NO_TLS = Tls()


class Pd(Protocol):
    """`sidecar.shared.tikv.pd.PdClient`. Raises FeedLost, FeedUnsuitable. Called by one thread at a time."""

    def cluster_id(self) -> int: ...

    def tso(self) -> CommitTs: ...


@dataclass(frozen=True, slots=True)
class PullSettings:
    """`node_id`: our name among the drainers. `listen`: where Notify is answered, host:port; `advertise`: under which address pumps reach
    that, `listen` with its port if empty. `from_ts`: a new log has what is committed after it. `queue_bytes_max`: of what was pulled and
    not polled. `ahead_bytes_max`: of what is handed out beyond a pump that stands; it is on disk then. `outage_max_s`: of PD."""

    node_id: str
    listen: str
    from_ts: CommitTs
    advertise: str = ""
    tls: Tls = NO_TLS
    gzip: bool = False
    queue_bytes_max: int = 128 << 20
    ahead_bytes_max: int = 4 << 30
    outage_max_s: float = 60.0


class PumpStreams:
    """No request before `seek`. One thread calls all but `view`. The caller that made `pd` and `nodes` closes them, after this."""

    def __init__(self, settings: PullSettings, nodes: NodeRegistry, pd: Pd) -> None:
        """Raises ConfigError for certificates that cannot be used."""
        self._settings = settings
        self._nodes, self._pd = nodes, pd
        self._connect = connector(settings.tls, gzip=settings.gzip)
        self._metrics = metrics_of(settings.tls)
        self._backlog = Backlog(settings.queue_bytes_max, settings.ahead_bytes_max)
        self._changed = self._backlog.changed
        self._joining = Joining({}, settings.from_ts)
        self._drainer = Drainer(nodes, settings.node_id, settings.advertise, settings.from_ts)
        self._streams: dict[Lane, PumpStream] = {}
        self._reported_ts = settings.from_ts
        self._look_requests = self._look_answered = 0
        self._wake = Event()
        self._work: list[Background] = []
        self._server: NotifyServer | None = None
        self._pd_why = ""

    def seek(self, positions: Mapping[Lane, int]) -> None:
        """Begin; once. `positions`: of `pumps`, up to where the log has everything; of a pump, what comes next of it, where that is not
        just above. Empty for a new log. Raises ConfigError for an address that cannot be listened on."""
        self._joining = Joining(positions, self._settings.from_ts)
        self._reported_ts = self._joining.resolved_ts
        self._server = NotifyServer(self._settings.listen, self._settings.tls, self._look_now)
        host = self._settings.advertise or f"{self._settings.listen.rpartition(':')[0]}:{self._server.port}"
        durable_ts = min((CommitTs(position - 1) for position in positions.values()), default=self._settings.from_ts)
        self._drainer = Drainer(self._nodes, self._settings.node_id, host, durable_ts)
        self._work = [Background(self._look_on, name="binlog-look"), Background(self._watch_gaps, name="binlog-gaps")]

    def lanes(self) -> frozenset[Lane]:
        with self._changed:
            return self._joining.lanes()

    def poll(self, *, timeout_s: float) -> Sequence[Message]:
        """Of any lanes, in order inside each; empty when there is nothing within the timeout. Raises FeedLost or CoordinationLost for an
        outage of PD that lasts, FeedUnsuitable or MessageUnreadable for what cannot be used."""
        self._check()
        with self._changed:
            self._changed.wait_for(self._has_events, timeout_s)
            messages = self._backlog.take(self._joining.resolved_ts)
            for message in messages:
                self._joining.pumps[message.lane].handed_ts = CommitTs(message.position)
            if self._joining.resolved_ts > self._reported_ts:
                self._reported_ts = self._joining.resolved_ts
                messages.append(Message(PUMPS_LANE, self._reported_ts - 1, None, encode_resolved(self._reported_ts)))
        return messages

    def acknowledge(self, durable_ts: CommitTs) -> None:
        """Everything at or below it is durable in the log. Pumps go by it when they go offline."""
        self._drainer.acknowledge(durable_ts)

    def view(self) -> StreamsView:
        """As of now, from any thread."""
        with self._changed:
            now_ts, held = self._joining.resolved_ts, self._backlog.held()
            rows = [(lane, pump.node, pump.handed_ts, self._streams[lane].why) for lane, pump in self._joining.pumps.items()]
        return StreamsView(
            pumps=tuple(view_of(node, handed_ts, now_ts, why, held=lane in held) for lane, node, handed_ts, why in rows),
            looked_ts=now_ts,
            pd_why=self._pd_why,
            bytes_waiting=self._backlog.bytes_waiting,
        )

    def close(self) -> None:
        """Ends all connections and threads and leaves our entry as a paused drainer's; never raises."""
        if self._server is not None:
            self._server.close()
        self._backlog.close()
        for work in self._work:
            work.close(0)
        self._wake.set()
        until_s = monotonic() + CLOSE_S
        for work in self._work:
            work.close(max(until_s - monotonic(), 0))
        for stream in self._streams.values():
            stream.close(wait_s=max(until_s - monotonic(), 0))

    def _check(self) -> None:
        for work in self._work:
            work.check()
        with self._changed:
            streams = list(self._streams.values())
        for stream in streams:
            stream.check()

    def _has_events(self) -> bool:
        return self._joining.resolved_ts > self._reported_ts or self._backlog.ready(self._joining.resolved_ts)

    # ---- the threads ------------------------------------------------------------------------------------------------

    def _look_now(self, timeout_s: float) -> bool:
        """Whether the registry was read after this call, and what is in it are lanes."""
        with self._changed:
            self._look_requests += 1
            mine = self._look_requests
            self._wake.set()
            return self._changed.wait_for(lambda: self._look_answered >= mine, timeout_s)

    def _look_on(self, ending: Event) -> None:
        lost_since_s: float | None = None
        beat_due_s = 0.0
        while not ending.is_set():
            self._wake.clear()
            with self._changed:
                look_number = self._look_requests
            try:
                cluster_id = self._pd.cluster_id()
                pump_look = look(self._pd.tso, self._nodes.pumps)
                if monotonic() >= beat_due_s:
                    beat_due_s = monotonic() + HEARTBEAT_S
                    self._drainer.beat(pump_look.ts)
            except (FeedLost, CoordinationLost) as error:
                self._pd_why, now_s = error.message, monotonic()
                lost_since_s = now_s if lost_since_s is None else lost_since_s
                if now_s - lost_since_s > self._settings.outage_max_s:
                    raise
            else:
                lost_since_s, self._pd_why = None, ""
                self._take(pump_look, look_number, cluster_id)
            if not ending.wait(LOOKS_INTERVAL_S):
                self._wake.wait(LOOK_EVERY_S - LOOKS_INTERVAL_S)
        with suppress(TicdcDumpError):  # an entry that stays online grows old, and is judged by that
            self._drainer.pause(self._joining.resolved_ts)

    def _take(self, pump_look: PumpLook, look_number: int, cluster_id: int) -> None:
        if not pump_look.pumps:
            raise FeedUnsuitable(
                f"PD's etcd names no pump below {PUMPS}", hint="set binlog.pd to the cluster's PD; start its pumps before the sidecar"
            )
        with self._changed:
            change = self._joining.take(pump_look)
            for pump in change.joined:
                self._open(pump, cluster_id)
            ended = [self._streams.pop(pump.lane) for pump in change.ended]
            for pump in change.ended:
                self._backlog.remove(pump.lane)
            following = [(self._streams[lane], pump.node) for lane, pump in self._joining.pumps.items()]
            self._look_answered = look_number
            self._changed.notify_all()
        for stream in ended:
            stream.close(wait_s=0)
        for stream, node in following:
            stream.follow(node)

    def _open(self, pump: JoinedPump, cluster_id: int) -> None:
        waiting = self._backlog.add(pump.lane, pump.handed_ts)
        reaching = Reaching(cluster_id, self._connect, self._metrics, self._settings.outage_max_s)
        self._streams[pump.lane] = PumpStream(pump.node, pump.handed_ts, reaching, partial(self._deliver, pump, waiting))

    def _deliver(self, pump: JoinedPump, waiting: LaneBacklog, commit_ts: CommitTs, payload: bytes) -> bool:
        pump.received_ts = commit_ts
        if commit_ts > self._joining.resolved_ts:
            self._wake.set()
        return self._backlog.put(waiting, commit_ts, payload)

    def _watch_gaps(self, ending: Event) -> None:
        """A TiDB that starts may not write yet: what is so at two looks counts."""
        before: set[str] = set()
        while not ending.is_set():
            with self._changed:
                reading = list(self._streams.values())
            with suppress(FeedLost, CoordinationLost):  # the pump's reader, and the look, say so
                silent = set(self._nodes.without_binlogs())
                if both := before & silent:
                    raise _without(sorted(both))
                before = silent
            for stream in reading:
                with suppress(FeedLost):
                    check_kept(self._metrics, stream.node, stream.received_ts)
            ending.wait(GAPS_EVERY_S)


def _without(servers: Sequence[str]) -> FeedUnsuitable:
    return FeedUnsuitable(
        f"{', '.join(servers)}: transactions go to no pump, and what they change cannot be known",
        hint="let the server write binlogs (binlog.enable; one that skips after a failed write: restart it, or POST /binlog/recover to its "
        "status port), then begin a new log with new sinks and dump again",
    )
