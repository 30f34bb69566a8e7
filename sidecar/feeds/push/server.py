"""The gRPC server of the push feed: moves messages between the network and the streams' boxes, and looks into none of them.

- What arrives waits in its stream's inbox as bytes, so that what waits is what is counted. A sender's credit is counted down
  here, at arrival: who sends without any is cut off before it costs memory. A stream begins with credit for one message.
- Who has not said its name costs nothing: its first message comes within HELLO_S and is small, few are taken from the network at a time,
  and nothing more is until it is welcomed.
- What is sent to a sender waits in its outbox, and gets its number as it leaves. Credit and what is durable are added up as they wait:
  a sender that does not read makes the outbox no longer.
- A stream that ended keeps its inbox: what has arrived counts.
- Two threads a stream: gRPC's, which waits for what to send, and `push-{number}`, which waits for what comes. All streams set
  one event, `arrived`: clear it, then look into all inboxes, and nothing is overlooked.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Condition, Event, Lock
from time import monotonic
from typing import Any

import grpc

from sidecar.feeds.push.credits import SENDERS_MAX
from sidecar.shared.config import PushSection
from sidecar.shared.errors import with_hint
from sidecar.shared.process.background import Background, still_running
from sidecar.shared.process.listening import bind, interceptors, server_options
from ticdc_dump.v1 import feed_pb2 as pb

MESSAGE_BYTES_MAX = 256 << 20
"""TiDB takes rows of up to 120 MB (txn-entry-size-limit), and an entry has two."""

HELLO_S = 5.0
"""From a stream's beginning to its first message."""

HELLO_BYTES_MAX = 64 << 10
"""A name and a version; a first message that is larger is none."""

HELLO_TURN_S = 1.0
"""For a first message while others wait to send theirs: a sender says Hello as soon as its stream is there."""

HELLOS_MAX = 2
"""First messages under way at a time: gRPC takes each in whole, up to MESSAGE_BYTES_MAX, and holds it twice, before its size shows."""

STOP_GRACE_S = 1.0

ENDING = "the sidecar ends its term; connect again"

SERVICE = pb.DESCRIPTOR.services_by_name["KvFeed"]
PUSH = f"/{SERVICE.full_name}/Push"


class PushStream:
    """One sender's connection. `number`: unique in its server. `arrived` is shared by all streams."""

    def __init__(self, number: int, peer: str, arrived: Event) -> None:
        self.number = number
        self.peer = peer
        self._arrived = arrived
        self._receiving, self._notifying = Condition(), Condition()
        self._inbox: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._credit = 1
        self._has_message = self._gone = False
        self._outbox: deque[pb.SidecarMessage] = deque()
        self._durable: dict[int, int] = {}
        self._kept = 0
        self._granted = 0
        self._end: tuple[grpc.StatusCode, str] | None = None

    # ---- for the owner, which takes in what came ------------------------------------------------------------------------

    def next(self) -> bytes | None:
        """The oldest message, or None."""
        with self._receiving:
            if not self._inbox:
                return None
            data = self._inbox.popleft()
            self._waiting_bytes -= len(data)
            return data

    def waiting_bytes(self) -> int:
        with self._receiving:
            return self._waiting_bytes

    def discard(self) -> None:
        """Forget what waits."""
        with self._receiving:
            self._inbox.clear()
            self._waiting_bytes = 0

    def gone(self) -> bool:
        """Nothing more will come."""
        with self._receiving:
            return self._gone

    def tell(self, **body: Any) -> None:
        """One of SidecarMessage's bodies, by its name."""
        with self._notifying:
            self._outbox.append(pb.SidecarMessage(**body))
            self._notifying.notify_all()

    def notify_durable(self, span: int, ts: int) -> None:
        with self._notifying:
            self._durable[span] = ts
            self._notifying.notify_all()

    def notify_kept(self, number: int) -> None:
        with self._notifying:
            self._kept = number
            self._notifying.notify_all()

    def grant(self, bytes: int, *, tell: bool = True) -> None:
        """`tell` False: Welcome says it."""
        with self._receiving:
            self._credit += bytes
            self._receiving.notify_all()
        if tell:
            with self._notifying:
                self._granted += bytes
                self._notifying.notify_all()

    def end(self, code: grpc.StatusCode, text: str) -> None:
        """Once the outbox has been sent. What has arrived stays; nothing more is taken from the network."""
        with self._notifying:
            self._end = self._end or (code, text)
            self._notifying.notify_all()
        self._set_gone()

    # ---- for the network ------------------------------------------------------------------------------------------------

    def arrived(self, data: bytes) -> bool:
        """Whether more is wanted."""
        with self._receiving:
            if self._gone:
                return False
            self._has_message = True
            if self._credit > 0:
                self._credit -= len(data)
                self._inbox.append(data)
                self._waiting_bytes += len(data)
                self._arrived.set()
                return True
        self.end(
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            with_hint(f"{len(data)} bytes came without credit", "after Hello wait for Welcome, and count down each message's size"),
        )
        return False

    def welcomed(self) -> bool:
        """Waits until the sender may send more; False if its stream ends instead."""
        with self._receiving:
            self._receiving.wait_for(lambda: self._gone or self._credit > 0)
            return not self._gone

    def disconnected(self) -> None:
        with self._notifying:
            self._end = self._end or (grpc.StatusCode.UNAVAILABLE, "the connection is gone")
            self._notifying.notify_all()
        self._set_gone()

    def to_notify(self) -> Iterator[pb.SidecarMessage | tuple[grpc.StatusCode, str]]:
        """Waits for what to tell; how the stream ends comes last. To be called when the stream begins: so long it may say nothing."""
        number, until_s = 0, monotonic() + HELLO_S
        while True:
            with self._notifying:
                left_s = None if self._has_message else max(until_s - monotonic(), 0.0)
                due = self._notifying.wait_for(lambda: self._outbox or self._granted or self._durable or self._kept or self._end, left_s)
                messages = self.drain()
                end = self._end if not messages else None
            if not due and not self._has_message:
                self.end(grpc.StatusCode.DEADLINE_EXCEEDED, f"no Hello came within {HELLO_S:g} s")
            for message in messages:
                number += 1
                message.number = number
                yield message
            if end is not None:
                yield end
                return

    def drain(self) -> list[pb.SidecarMessage]:
        """Takes and returns what waits to be sent; `to_notify` sets the numbers."""
        with self._notifying:
            messages = [*self._outbox]
            self._outbox.clear()
            if self._durable:
                spans = [pb.SpanDurable(span=span, ts=ts) for span, ts in self._durable.items()]
                messages.append(pb.SidecarMessage(durable=pb.Durable(spans=spans)))
                self._durable = {}
            if self._kept:
                messages.append(pb.SidecarMessage(kept=pb.Kept(number=self._kept)))
                self._kept = 0
            if self._granted:
                messages.append(pb.SidecarMessage(credit=pb.Credit(bytes=self._granted)))
                self._granted = 0
            return messages

    def _set_gone(self) -> None:
        with self._receiving:
            self._gone = True
            self._receiving.notify_all()
        self._arrived.set()


class Streams:
    """The service KvFeed: every sender's stream, as it comes."""

    def __init__(self) -> None:
        self.arrived = Event()
        self._lock = Lock()
        self._new: list[PushStream] = []
        self._open: dict[int, PushStream] = {}
        self._receiving: list[Background] = []
        self._hellos = Hellos()
        self._last_number = 0
        self._ended = False

    def new_streams(self) -> list[PushStream]:
        """Those that came since the last call. Raises what receiving from one broke of: nobody would miss what it does not tell."""
        with self._lock:
            streams, self._new = self._new, []
            self._receiving = still_running(self._receiving)
        return streams

    def end(self) -> None:
        """Every stream, those that come later too."""
        with self._lock:
            self._ended = True
            streams = [*self._open.values()]
        for stream in streams:
            stream.end(grpc.StatusCode.UNAVAILABLE, ENDING)

    def Push(self, requests: Iterator[bytes], context: Any) -> Iterator[pb.SidecarMessage]:  # noqa: N802  # as gRPC names it
        with self._lock:
            self._last_number += 1
            stream = PushStream(self._last_number, context.peer(), self.arrived)
            if self._ended:
                stream.end(grpc.StatusCode.UNAVAILABLE, ENDING)
            self._open[stream.number] = stream
            self._new.append(stream)
            self._receiving.append(Background(partial(_receive, requests, stream, self._hellos), name=f"push-{stream.number}"))
        self.arrived.set()
        context.add_callback(stream.disconnected)
        try:
            for message in stream.to_notify():
                if isinstance(message, tuple):
                    context.set_code(message[0])
                    context.set_details(message[1])
                else:
                    yield message
        finally:
            with self._lock:
                del self._open[stream.number]


class Hellos:
    """Whose first message is taken from the network: HELLOS_MAX at a time, in the order in which they came. Who says nothing gives way."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._waiting: deque[PushStream] = deque()
        self._taken: dict[PushStream, float] = {}

    def enter(self, stream: PushStream) -> bool:
        """Waits for its turn; False if none comes within HELLO_S, when the stream's time is over."""
        until_s = monotonic() + HELLO_S
        with self._changed:
            self._waiting.append(stream)
            try:
                while len(self._taken) >= HELLOS_MAX or self._waiting[0] is not stream:
                    now_s = monotonic()
                    if now_s >= until_s:
                        return False
                    for silent, since_s in self._taken.items():
                        if now_s - since_s >= HELLO_TURN_S:
                            silent.end(grpc.StatusCode.UNAVAILABLE, "no Hello came while others waited to say theirs; connect again")
                    self._changed.wait(min(until_s - now_s, HELLO_TURN_S / 4))
                self._taken[stream] = monotonic()
            finally:
                self._waiting.remove(stream)
                self._changed.notify_all()
        return True

    def leave(self, stream: PushStream) -> None:
        with self._changed:
            del self._taken[stream]
            self._changed.notify_all()

    def under_way(self) -> int:
        with self._changed:
            return len(self._taken)


def _receive(requests: Iterator[bytes], stream: PushStream, hellos: Hellos, _: Event) -> None:
    """gRPC ends the requests in whatever way the stream ends: by the sender, the network, or our own answer."""
    try:
        if not _hello(requests, stream, hellos) or not stream.welcomed():
            return
        for data in requests:
            if not stream.arrived(data):
                return
    except grpc.RpcError:
        stream.disconnected()
    else:
        stream.end(grpc.StatusCode.OK, "")


def _hello(requests: Iterator[bytes], stream: PushStream, hellos: Hellos) -> bool:
    """Take in the first message; False if there is none that could be Hello. Raises gRPC's error where the stream ends before."""
    if not hellos.enter(stream):
        return False
    try:
        data = next(requests, None)
    finally:
        hellos.leave(stream)
    if data is None:
        stream.end(grpc.StatusCode.OK, "")
        return False
    if len(data) > HELLO_BYTES_MAX:
        what = f"the first message has {len(data):,} bytes, more than {HELLO_BYTES_MAX:,}"
        stream.end(grpc.StatusCode.INVALID_ARGUMENT, with_hint(what, "begin with Hello, and wait for Welcome"))
        return False
    return stream.arrived(data)


class PushServer:
    """Listens from the constructor on. `port`: the one it got, where the setting's is 0. Raises ConfigError."""

    def __init__(self, push: PushSection) -> None:
        self.streams = Streams()
        self._threads = ThreadPoolExecutor(SENDERS_MAX + 1, thread_name_prefix="push-tell")
        self._server = grpc.server(
            self._threads,
            interceptors=interceptors("push", push),
            maximum_concurrent_rpcs=SENDERS_MAX + 1,
            options=server_options(received_bytes_max=MESSAGE_BYTES_MAX, sent_bytes_max=MESSAGE_BYTES_MAX),
        )
        # Bytes as they are: they are decoded when they are taken, not in gRPC's threads before.
        push_method = grpc.stream_stream_rpc_method_handler(
            self.streams.Push, request_deserializer=None, response_serializer=pb.SidecarMessage.SerializeToString
        )
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE.full_name, {"Push": push_method}),))
        self.port = bind("push", self._server, push)
        self._server.start()

    def close(self) -> None:
        """Ends every stream with UNAVAILABLE and frees the port."""
        self.streams.end()
        self._server.stop(STOP_GRACE_S).wait()
        self._threads.shutdown(wait=False)
