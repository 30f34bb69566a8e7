"""TiKV's change feed as a `Puller`: whole ranges of keys from whichever stores lead their regions, through splits and moves.

    want ──► router: which region, which store ──► a stream a store: matched, resolved ──► queue, bounded in bytes ──► poll
                                                   └─ is stuck ──► lock watch: locks of dead clients

- Each part of a range continues at its own resolved ts wherever its region goes; what comes twice is allowed by the port.
- A queue that is full stops the reading of streams; prewrites of open transactions are beside it (`TikvView.held_bytes`).
- What is acknowledged may be collected as garbage, and nothing else of what is wanted (gc.py).
- A lock that a dead client left holds its region's resolved ts: it is resolved as any reader in TiDB would do it (shared/tikv/locks.py).
  A lock of a live transaction is waited for, and the view reports it.
- Keys are raw, with a keyspace's prefix where there is one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sidecar.feeds.tikv.lock_watch import LockWatch
from sidecar.feeds.tikv.queue import EventQueue, WantedRange
from sidecar.feeds.tikv.router import Drop, RegionRouter, Want
from sidecar.feeds.tikv.stream import RegionRequest
from sidecar.shared.config import TikvSection
from sidecar.shared.model.nouns import CommitTs
from sidecar.shared.rowcodec.key_values import KeyRange, KvEvent


@dataclass(frozen=True, slots=True)
class SlowestPart:
    """The part of a wanted range that is furthest behind. `waits_for`: why nobody serves it, or which transaction's lock holds it; empty
    if it advances."""

    range: KeyRange
    resolved_ts: CommitTs
    waits_for: str = ""


@dataclass(frozen=True, slots=True)
class TikvView:
    """For operators. `regions` subscribed, `initialized` of them past their scan; `unserved` parts wait for a store. `stores` that
    lead a subscribed region. `bytes_waiting`: pulled and not polled; `held_bytes`: prewrites of open transactions. `locks_resolved` of
    dead clients so far; `lock_errors` so far while looking for such, and the last of them. `held`: parts, by a lock or an error."""

    regions: int
    initialized: int
    unserved: int
    stores: tuple[str, ...]
    bytes_waiting: int
    held_bytes: int
    slowest: SlowestPart | None
    locks_resolved: int
    lock_errors: int
    last_lock_error: str
    held: tuple[SlowestPart, ...]


class TikvPuller:
    """sidecar.ports.Puller. Connects when something is wanted. Raises ConfigError for settings that cannot be used.

    `name` distinguishes the changefeeds of a cluster. One thread calls all but `view`.
    """

    def __init__(self, section: TikvSection, *, name: str, hold_max_s: float = math.inf) -> None:
        """`hold_max_s`: as gc.hold_max_s. Raises ConfigError."""
        self._queue = EventQueue(section.queue_bytes_max)
        self._wanted: dict[KeyRange, WantedRange] = {}
        self._router = RegionRouter(section, self._queue, name=name, hold_max_s=hold_max_s)
        self._locks = LockWatch(section, self._subscriptions)

    def want(self, wanted: Mapping[KeyRange, CommitTs]) -> None:
        gone = [self._wanted.pop(known) for known in self._wanted.keys() - wanted.keys()]
        for it in gone:
            self._queue.end(it)
        new = [WantedRange(range_, from_ts) for range_, from_ts in wanted.items() if range_ not in self._wanted]
        self._wanted |= {it.range: it for it in new}
        if gone:
            self._router.tell(Drop(gone))
        if new:
            self._router.tell(Want(new))

    def poll(self, *, timeout_s: float) -> Sequence[KvEvent]:
        events = self._queue.poll(timeout_s=timeout_s)
        self._router.check()
        self._locks.check()
        return events

    def acknowledge(self, durable: Mapping[KeyRange, CommitTs]) -> None:
        for range_, ts in durable.items():
            it = self._wanted.get(range_)
            if it is not None:
                it.durable_ts = max(it.durable_ts, ts)

    def close(self) -> None:
        self._queue.close()
        self._router.close()
        self._locks.close()

    def view(self) -> TikvView:
        """As of now, from any thread; parts that change hands meanwhile may be counted twice or not at all."""
        waiting, subscribed, locks = self._router.waiting, self._subscriptions(), self._locks.waits_for
        served = [SlowestPart(it.range, it.matcher.resolved_ts, locks.get(it, "")) for it in subscribed]
        parts = served + [SlowestPart(it.range, it.resolved_ts, it.why or "its regions are being looked up") for it in waiting]
        return TikvView(
            regions=len(subscribed),
            initialized=sum(it.matcher.initialized for it in subscribed),
            unserved=len(waiting),
            stores=tuple(sorted({stream.store.address for stream in self._router.streams.values() if stream.subscriptions()})),
            bytes_waiting=self._queue.bytes_waiting,
            held_bytes=sum(it.matcher.held_bytes for it in subscribed),
            slowest=min(parts, key=lambda part: part.resolved_ts, default=None),
            locks_resolved=self._locks.resolved,
            lock_errors=self._locks.errors,
            last_lock_error=self._locks.last_error,
            held=tuple(sorted((part for part in served if part.waits_for), key=lambda part: part.resolved_ts)),
        )

    def _subscriptions(self) -> list[RegionRequest]:
        return [it for stream in self._router.streams.values() for it in stream.subscriptions()]
