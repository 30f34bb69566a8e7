"""Subscribe: the deliveries of a spool to each subscriber, one segment after another in order.

    begin (what it has) ─► the next segment, as soon as it is there ─► its deliveries ─► …

- Nothing is read before gRPC took what came before it, and gRPC takes what the subscriber has room for: so a subscriber that does not
  read costs a thread and a delivery or two, whatever is there for it.
- The columns of a table go before its first rows in a stream, and again when they are others.
- A named subscriber has one stream: a second one ends the first, which may be a connection that nobody has noticed to be dead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import BoundedSemaphore, Lock
from time import monotonic
from typing import Protocol

import grpc

from sidecar.shared.errors import RefusedRequest
from sidecar.shared.model.nouns import Seq
from sidecar.shared.model.sink_delivery import SubscriberState
from ticdc_dump.v1 import control_pb2 as pb
from ticdc_dump.v1 import delivery_pb2

SUBSCRIBERS_AT_ONCE_MAX = 16
"""Each holds one thread of the server."""
RECEIVED_EVERY_S = 60.0
"""A subscriber with a stream is not forgotten."""
TABLES_REPORTED_MAX = 10_000
"""Beyond that all are sent again: a stream continues for months, and tables come and go."""


class Spool(Protocol):
    """What subscribers read. For several threads at once. Raises SinkError; OutOfReach for what is not kept, or is another log's."""

    look_s: float
    """Between two looks for the next segment."""

    def begin(self, subscriber: str, after: Seq | None, log: str) -> Seq | None:
        """The first segment to give to who has all up to `after`, which is acknowledged by it; None: nothing was delivered yet, ask again.
        `after` None: what the subscriber acknowledged last, else all. `log` empty: not compared."""

    def deliveries(self, seq: Seq) -> Iterator[delivery_pb2.Delivery] | None:
        """Of a segment, the last one with `resolved`, each with all columns that it needs and no other file's have; None: it is not
        there yet."""

    def acknowledge(self, subscriber: str, seq: Seq, log: str) -> None:
        """One that comes after a later one changes nothing: only `begin` with `after` goes back."""

    def received(self, subscriber: str) -> None:
        """It is there, whatever it has acknowledged."""

    def subscribers(self) -> Sequence[SubscriberState]:
        """Those that have a name."""


class Subscriptions:
    """The streams of one service. `spool` None: its sidecar has no such sink."""

    def __init__(self, spool: Spool | None) -> None:
        self._spool = spool
        self._places = BoundedSemaphore(SUBSCRIBERS_AT_ONCE_MAX)
        self._streams: dict[str, grpc.ServicerContext] = {}
        self._lock = Lock()

    def stream(
        self, request: pb.SubscribeRequest, context: grpc.ServicerContext, goes_on: Callable[[float], bool]
    ) -> Iterator[delivery_pb2.Delivery]:
        """`goes_on(s)`: whether it does, `s` seconds later or as soon as it does not."""
        spool, name = self._reading(), request.subscriber
        with self._one_stream(name, context):
            after = Seq(request.after_seq) if request.HasField("after_seq") else None
            seq = spool.begin(name, after, request.log)
            while seq is None:
                if not goes_on(spool.look_s):
                    return
                seq = spool.begin(name, after, request.log)
            yield from self._from(seq, name, goes_on)

    def acknowledge(self, request: pb.AcknowledgeRequest) -> None:
        if not request.subscriber:
            raise RefusedRequest("an acknowledgement names no subscriber", hint="give the name that Subscribe was called with")
        self._reading().acknowledge(request.subscriber, Seq(request.seq), request.log)

    def states(self) -> list[pb.SubscriberStatus]:
        states = [] if self._spool is None else self._spool.subscribers()
        return [
            pb.SubscriberStatus(
                name=one.name, next_seq=one.next_seq, segments=one.segments, heard_s=one.heard_s, connected=one.name in self._streams
            )
            for one in states
        ]

    def full(self) -> bool:
        """Whether there is no place for one more; else it is taken, to be left by `leave`."""
        return not self._places.acquire(blocking=False)

    def leave(self) -> None:
        self._places.release()

    def _from(self, seq: Seq, name: str, goes_on: Callable[[float], bool]) -> Iterator[delivery_pb2.Delivery]:
        spool, reported, heard_s = self._reading(), SubscriberReport(), monotonic()
        while goes_on(0):
            if name and monotonic() - heard_s > RECEIVED_EVERY_S:
                spool.received(name)
                heard_s = monotonic()
            deliveries = spool.deliveries(seq)
            if deliveries is None:
                if not goes_on(spool.look_s):
                    return
                continue
            yield from map(reported.only_new, deliveries)
            seq = Seq(seq + 1)

    def _reading(self) -> Spool:
        if self._spool is None:
            raise RefusedRequest("this sidecar has no sink for subscribers", hint="add grpc: to `sinks` in its settings, and restart it")
        return self._spool

    @contextmanager
    def _one_stream(self, name: str, context: grpc.ServicerContext) -> Iterator[None]:
        if not name:
            yield
            return
        with self._lock:
            previous, self._streams[name] = self._streams.get(name), context
        if previous is not None:
            previous.cancel()
        try:
            yield
        finally:
            with self._lock:
                if self._streams.get(name) is context:
                    del self._streams[name]


class SubscriberReport:
    """The tables whose columns a stream has sent."""

    def __init__(self) -> None:
        self._ids: dict[tuple[str, str], int] = {}

    def only_new(self, delivery: delivery_pb2.Delivery) -> delivery_pb2.Delivery:
        """Without columns that were sent before and are still so."""
        fresh = [table for table in delivery.tables if self._ids.get((table.schema, table.table)) != table.id]
        if len(self._ids) + len(fresh) > TABLES_REPORTED_MAX:
            self._ids.clear()
            fresh = list(delivery.tables)
        for table in fresh:
            self._ids[table.schema, table.table] = table.id
        if len(fresh) < len(delivery.tables):
            kept = [delivery_pb2.TableColumns.FromString(table.SerializeToString()) for table in fresh]
            delivery.ClearField("tables")
            delivery.tables.extend(kept)
        return delivery
