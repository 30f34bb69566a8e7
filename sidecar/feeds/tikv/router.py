"""Which part of which wanted range is pulled from which store: the thread that finds regions, registers them and tries again.

    waiting ──due: regions from PD, cut along them──► subscribed in its leader's stream ──error, stream broken──► waiting

- The parts of a wanted range are, waiting or subscribed, always the whole of it. A part that waits resumes at the resolved ts that
  it had; parts that wait side by side become one, for their regions may have merged.
- Each failure in a row doubles the rest before the next try. A part counts as served again when its region is initialized: one that
  is refused over and over is an outage like one whose store is away. After `outage_max_s` it is FeedLost, with the last reason.
- A new stream asks PD for the store's address again.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from threading import Event
from typing import assert_never

from sidecar.feeds.tikv.gc import VersionKeeper
from sidecar.feeds.tikv.queue import EventQueue, WantedRange
from sidecar.feeds.tikv.stream import Ended, RegionRequest, StoreStream
from sidecar.shared.config import TikvSection
from sidecar.shared.errors import FeedLost, FeedUnsuitable
from sidecar.shared.model.nouns import CommitTs
from sidecar.shared.process.background import Background
from sidecar.shared.rowcodec.key_values import KeyRange
from sidecar.shared.tikv.channel import connector
from sidecar.shared.tikv.pd import PdClient
from sidecar.shared.tikv.regions import RegionPart, cut

RANGE_RETRY_FIRST_S, RANGE_RETRY_MAX_S = 0.05, 2.0
"""As TiCDC tries again (ticdc logservice/logpuller/region_failure_handler.go)."""

GATHER_S = 0.01
"""What is due so soon is done together: the regions of a store that is gone, the halves of a merge."""

STORE_WAIT_MAX_S = 10.0
"""Of the rest that a busy store asks for."""

CLOSE_WAIT_S = 2.0

STORE_VERSION_MIN = (7, 1)
"""TiCDC's own (tiflow pkg/version/check.go). From 7.0 on TiKV sends the requested keys and no others."""


@dataclass(frozen=True, slots=True)
class WaitingRange:
    """A part of a wanted range that nobody serves, for `since_s` by our clock. `failures` in a row."""

    wanted: WantedRange
    range: KeyRange
    resolved_ts: CommitTs
    due_s: float
    since_s: float
    failures: int = 0
    why: str = ""


@dataclass(frozen=True, slots=True)
class Want:
    wanted: Sequence[WantedRange]


@dataclass(frozen=True, slots=True)
class Drop:
    wanted: Sequence[WantedRange]


class RegionRouter:
    """`tell` from any thread; `waiting` and `streams` may be looked at from any."""

    def __init__(self, section: TikvSection, queue: EventQueue, *, name: str, hold_max_s: float) -> None:
        self._pd = PdClient(section)
        self._keeper = VersionKeeper(self._pd, name, hold_max_s=hold_max_s)
        self._wanted: set[WantedRange] = set()
        self._not_kept = ""
        self._connect = connector(section.tls)
        self._outage_max_s = section.outage_max_s
        self._queue = queue
        self._inbox: SimpleQueue[Want | Drop | Ended | None] = SimpleQueue()
        self._served: dict[tuple[WantedRange, KeyRange], WaitingRange] = {}
        self.waiting: Sequence[WaitingRange] = ()
        self.streams: dict[int, StoreStream] = {}
        self._routing = Background(self._run, name="tikv-router")

    def tell(self, event: Want | Drop | Ended) -> None:
        self._inbox.put(event)

    def check(self) -> None:
        """Raises what a thread broke of that could not tell the queue."""
        self._routing.check()
        for stream in self.streams.values():
            stream.check()

    def close(self) -> None:
        """The queue is closed first, so that nobody waits for room in it."""
        self._inbox.put(None)
        self._routing.close(CLOSE_WAIT_S)

    # ---- the thread -------------------------------------------------------------------------------------------------

    def _run(self, _: Event) -> None:
        try:
            while self._receive():
                self._route()
                self._check_outage()
        except BaseException as error:
            self._queue.fail(error)  # wakes the thread that polls, and those that wait for room
            raise
        finally:
            for stream in self.streams.values():
                stream.close(wait_s=CLOSE_WAIT_S)
            self._pd.close()

    def _receive(self) -> bool:
        """Wait for what ended or for what is due, and take in all that ended. False: close."""
        due_s = min((it.due_s for it in self.waiting), default=self._keeper.due_s)
        try:
            event = self._inbox.get(timeout=max(0.0, min(due_s, self._keeper.due_s) - time.monotonic()))
            while True:
                if event is None:
                    return False
                self._take(event)
                event = self._inbox.get_nowait()
        except Empty:
            return True

    def _take(self, event: Want | Drop | Ended) -> None:
        now_s = time.monotonic()
        match event:
            case Want(wanted):
                self._wanted |= set(wanted)
                self._keeper.due_s = now_s
                self.waiting = [*self.waiting, *(WaitingRange(it, it.range, it.from_ts, now_s, now_s) for it in wanted)]
            case Drop(wanted):
                gone = set(wanted)
                self._wanted -= gone
                self.waiting = [it for it in self.waiting if it.wanted not in gone]
                self._served = {place: it for place, it in self._served.items() if place[0] not in gone}
                for stream in self.streams.values():
                    for it in wanted:
                        stream.drop(it)
            case Ended(subscriptions, why, wait_s):
                self._wait(subscriptions, why, wait_s=wait_s)
            case _:
                assert_never(event)

    def _wait(self, subscriptions: Iterable[RegionRequest], why: str, *, wait_s: float) -> None:
        now_s = time.monotonic()
        again = []
        for it in subscriptions:
            before = self._served.pop((it.wanted, it.range), None)
            if it.wanted.ended:
                continue
            if before is None or it.matcher.initialized:
                before = WaitingRange(it.wanted, it.range, it.matcher.resolved_ts, now_s, now_s)
            again.append(later(replace(before, resolved_ts=it.matcher.resolved_ts), why, now_s, wait_s))
        self.waiting = [*self.waiting, *again]

    # ---- routes -----------------------------------------------------------------------------------------------------

    def _route(self) -> None:
        horizon_s = time.monotonic() + GATHER_S
        due = [it for it in self.waiting if it.due_s <= horizon_s]
        left = [it for it in self.waiting if it.due_s > horizon_s]
        lost = self._keep_versions()
        for it in joined(due):
            try:
                parts = cut(it.range, self._pd.regions(it.range.start, it.range.end)) if not lost else []
            except FeedLost as error:
                lost = error.message
            if lost:  # the others need not wait for PD in vain, too
                left.append(later(it, lost, time.monotonic()))
                continue
            for part in parts:
                here = replace(it, range=part.range)
                if why := self._subscribe(here, part):
                    left.append(later(here, why, time.monotonic()))
        self.waiting = left

    def _keep_versions(self) -> str:
        """Why PD did not agree to the last request; empty: what is wanted may be pulled."""
        now_s = time.monotonic()
        if now_s >= self._keeper.due_s:
            try:
                self._keeper.renew(self._wanted, now_s, now_ms=time.time_ns() // 1_000_000)
                self._not_kept = ""
            except FeedLost as error:
                self._keeper.due_s = now_s + RANGE_RETRY_MAX_S
                self._not_kept = error.message
        return self._not_kept

    def _subscribe(self, it: WaitingRange, part: RegionPart) -> str:
        """Why it cannot be done now; empty: done."""
        region = part.region
        if region is None or region.leader_store is None:
            return "PD knows no region, or no leader of it, for these keys"
        stream = self._stream(region.leader_store)
        if isinstance(stream, str):
            return stream
        new = RegionRequest(it.wanted, it.range, region, it.resolved_ts)
        self._served[it.wanted, it.range] = it
        if not stream.register(new):
            del self._served[it.wanted, it.range]
            return stream.over
        return ""

    def _stream(self, store_id: int) -> StoreStream | str:
        stream = self.streams.get(store_id)
        if stream is not None and not stream.over:
            return stream
        try:
            store = self._pd.store(store_id)
        except FeedLost as error:
            return error.message
        if store is None:
            return f"PD knows no store {store_id}"
        check_version(store.version, f"TiKV store {store.id} ({store.address})")
        stream = StoreStream(
            store,
            self._connect(store.address),
            cluster_id=self._pd.cluster_id(),
            queue=self._queue,
            ended=self.tell,
            failed=self._fail,
        )
        self.streams = {**self.streams, store_id: stream}
        return stream

    def _fail(self, error: BaseException) -> None:
        self._queue.fail(error)
        self._inbox.put(None)

    def _check_outage(self) -> None:
        oldest = min(self.waiting, key=lambda it: it.since_s, default=None)
        if oldest is None or oldest.failures == 0:
            return
        outage_s = time.monotonic() - oldest.since_s
        if outage_s > self._outage_max_s:
            raise FeedLost(
                f"nobody has served keys [{oldest.range.start.hex()}, {oldest.range.end.hex()}) for {outage_s:.0f} s; last: {oldest.why}",
                hint="see PD and this TiKV store; tikv.outage_max_s bounds how long this is waited for",
            )


def later(it: WaitingRange, why: str, now_s: float, wait_s: float = 0.0) -> WaitingRange:
    rest_s = min(RANGE_RETRY_FIRST_S * 2 ** min(it.failures, 10), RANGE_RETRY_MAX_S) * random.uniform(0.5, 1.0)
    return replace(it, failures=it.failures + 1, why=why, due_s=now_s + max(rest_s, min(wait_s, STORE_WAIT_MAX_S)))


def joined(waiting: Iterable[WaitingRange]) -> Sequence[WaitingRange]:
    """Parts side by side as one, from the lower resolved ts."""
    joined: list[WaitingRange] = []
    for it in sorted(waiting, key=lambda it: it.range):
        last = joined[-1] if joined else None
        if last is not None and last.wanted is it.wanted and last.range.end == it.range.start:
            joined[-1] = replace(
                last,
                range=KeyRange(last.range.start, it.range.end),
                resolved_ts=min(last.resolved_ts, it.resolved_ts),
                since_s=min(last.since_s, it.since_s),
                failures=max(last.failures, it.failures),
            )
        else:
            joined.append(it)
    return joined


def check_version(version: str, store: str) -> None:
    match = re.match(r"v?(\d+)\.(\d+)", version)
    if match is not None and (int(match[1]), int(match[2])) < STORE_VERSION_MIN:
        raise FeedUnsuitable(
            f"{store} is version {version}, older than {'.'.join(map(str, STORE_VERSION_MIN))}", hint="upgrade TiKV, or use another feed"
        )
