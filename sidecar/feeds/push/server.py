"""The gRPC server of the push feed: moves messages between the network and the streams' boxes, and looks into none of them.

- What arrives waits in its stream's inbox as bytes, so that what waits is what is counted. A sender's credit is counted down
  here, at arrival: who sends without any is cut off before it costs memory. A stream begins with credit for one message.
- What is told to a sender waits in its outbox, and gets its number as it leaves. Credit and durable ts that wait are added up:
  a sender that does not read makes the outbox no longer.
- A stream that ended keeps its inbox: what has arrived counts.
- Two threads a stream: gRPC's, which waits for what to tell, and `push-{number}`, which waits for what comes. All streams set
  one event, `arrived`: clear it, then look into all inboxes, and nothing is overlooked.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Condition, Event, Lock
from typing import Any

import grpc

from sidecar.config import PushSection
from sidecar.errors import with_hint
from sidecar.feeds.push.credits import SENDERS_MAX
from sidecar.process.background import Background, still_running
from sidecar.process.listening import bind, interceptors
from ticdc_dump.v1 import feed_pb2 as pb

MESSAGE_BYTES_MAX = 256 << 20
"""TiDB takes rows of up to 120 MB (txn-entry-size-limit), and an entry has two."""

KEEPALIVE_MS = 10_000
"""How often a connection is asked whether it lives; one without an answer for as long is cut, and its spans are free."""

STOP_GRACE_S = 1.0

SERVICE = pb.DESCRIPTOR.services_by_name["KvFeed"]


class Stream:
    """One sender's connection. `number`: unique in its server. `arrived` is shared by all streams."""

    def __init__(self, number: int, peer: str, arrived: Event) -> None:
        self.number = number
        self.peer = peer
        self._arrived = arrived
        self._receiving, self._telling = Lock(), Condition()
        self._inbox: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._credit = 1
        self._gone = False
        self._outbox: deque[pb.SidecarMessage] = deque()
        self._durable: dict[int, int] = {}
        self._granted = 0
        self._end: tuple[grpc.StatusCode, str] | None = None

    # ---- for whoever takes in what came ---------------------------------------------------------------------------------

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
        with self._telling:
            self._outbox.append(pb.SidecarMessage(**body))
            self._telling.notify_all()

    def tell_durable(self, span: int, ts: int) -> None:
        with self._telling:
            self._durable[span] = ts
            self._telling.notify_all()

    def grant(self, bytes: int, *, tell: bool = True) -> None:
        """`tell` False: Welcome says it."""
        with self._receiving:
            self._credit += bytes
        if tell:
            with self._telling:
                self._granted += bytes
                self._telling.notify_all()

    def end(self, code: grpc.StatusCode, text: str) -> None:
        """Once everything told has been sent. What has arrived stays; nothing more is taken from the network."""
        with self._telling:
            self._end = self._end or (code, text)
            self._telling.notify_all()
        self._set_gone()

    # ---- for the network ------------------------------------------------------------------------------------------------

    def arrived(self, data: bytes) -> bool:
        """Whether more is wanted."""
        with self._receiving:
            if self._gone:
                return False
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

    def disconnected(self) -> None:
        with self._telling:
            self._end = self._end or (grpc.StatusCode.UNAVAILABLE, "the connection is gone")
            self._telling.notify_all()
        self._set_gone()

    def to_tell(self) -> Iterator[pb.SidecarMessage | tuple[grpc.StatusCode, str]]:
        """Waits for what to tell; how the stream ends comes last."""
        number = 0
        while True:
            with self._telling:
                self._telling.wait_for(lambda: self._outbox or self._granted or self._durable or self._end)
                messages = self.drain()
                end = self._end if not messages else None
            for message in messages:
                number += 1
                message.number = number
                yield message
            if end is not None:
                yield end
                return

    def drain(self) -> list[pb.SidecarMessage]:
        """What waits to be told, which is told with this; `to_tell` sets the numbers."""
        with self._telling:
            messages = [*self._outbox]
            self._outbox.clear()
            if self._durable:
                spans = [pb.SpanDurable(span=span, ts=ts) for span, ts in self._durable.items()]
                messages.append(pb.SidecarMessage(durable=pb.Durable(spans=spans)))
                self._durable = {}
            if self._granted:
                messages.append(pb.SidecarMessage(credit=pb.Credit(bytes=self._granted)))
                self._granted = 0
            return messages

    def _set_gone(self) -> None:
        with self._receiving:
            self._gone = True
        self._arrived.set()


class PushServer:
    """Listens from the constructor on. `port`: the one it got, where the setting's is 0. Raises ConfigError."""

    def __init__(self, push: PushSection) -> None:
        self.arrived = Event()
        self._lock = Lock()
        self._new: list[Stream] = []
        self._open: dict[int, Stream] = {}
        self._receiving: list[Background] = []
        self._last_number = 0
        self._closing = False
        self._threads = ThreadPoolExecutor(SENDERS_MAX + 1, thread_name_prefix="push-tell")
        self._server = grpc.server(
            self._threads,
            interceptors=interceptors("push", push),
            maximum_concurrent_rpcs=SENDERS_MAX + 1,
            options=(
                ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
                ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
                ("grpc.keepalive_time_ms", KEEPALIVE_MS),
                ("grpc.keepalive_timeout_ms", KEEPALIVE_MS),
                ("grpc.http2.min_ping_interval_without_data_ms", KEEPALIVE_MS // 2),
                ("grpc.so_reuseport", 0),  # else a second sidecar would listen on the same port and get half of the senders
            ),
        )
        # Bytes as they are: they are decoded when they are taken, not in gRPC's threads before.
        push_method = grpc.stream_stream_rpc_method_handler(
            self._push, request_deserializer=None, response_serializer=pb.SidecarMessage.SerializeToString
        )
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE.full_name, {"Push": push_method}),))
        self.port = bind("push", self._server, push)
        self._server.start()

    def new_streams(self) -> list[Stream]:
        """Those that came since the last call. Raises what receiving from one broke of: nobody would miss what it does not tell."""
        with self._lock:
            found, self._new = self._new, []
            self._receiving = still_running(self._receiving)
        return found

    def close(self) -> None:
        """Ends every stream with UNAVAILABLE and frees the port."""
        with self._lock:
            self._closing = True
            streams = [*self._open.values()]
        for stream in streams:
            stream.end(grpc.StatusCode.UNAVAILABLE, "the sidecar ends its term; connect again")
        self._server.stop(STOP_GRACE_S).wait()
        self._threads.shutdown(wait=False)

    def _push(self, requests: Iterator[bytes], context: Any) -> Iterator[pb.SidecarMessage]:
        with self._lock:
            self._last_number += 1
            stream = Stream(self._last_number, context.peer(), self.arrived)
            if self._closing:
                stream.end(grpc.StatusCode.UNAVAILABLE, "the sidecar ends its term; connect again")
            self._open[stream.number] = stream
            self._new.append(stream)
            self._receiving.append(Background(partial(_receive, requests, stream), name=f"push-{stream.number}"))
        self.arrived.set()
        context.add_callback(stream.disconnected)
        try:
            for message in stream.to_tell():
                if isinstance(message, tuple):
                    context.set_code(message[0])
                    context.set_details(message[1])
                else:
                    yield message
        finally:
            with self._lock:
                del self._open[stream.number]


def _receive(requests: Iterator[bytes], stream: Stream, _: Event) -> None:
    """gRPC ends the requests in whatever way the stream ends: by the sender, the network, or our own answer."""
    try:
        for data in requests:
            if not stream.arrived(data):
                return
    except grpc.RpcError:
        stream.disconnected()
    else:
        stream.end(grpc.StatusCode.OK, "")
