"""A sender of the push feed in the test's hands, message by message, and somebody who polls meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import pairwise
from queue import SimpleQueue
from threading import Condition, Thread
from types import TracebackType
from typing import Any

import grpc

from sidecar.feeds.push.conversation import SENDER_NAME_LENGTH_MAX
from sidecar.feeds.push.server import HELLO_BYTES_MAX
from sidecar.ports import Puller
from sidecar.shared.rowcodec.key_values import KeyRange, KvEntry, KvEvent, Pulled, rows_of
from tests.support.eventually import PATIENCE_S
from ticdc_dump.v1 import feed_pb2 as pb


def sent(key: bytes, commit_ts: int, value: bytes = b"v", **other: Any) -> pb.Entry:
    """A put, or a delete where `value` is empty; `other` fields as they are."""
    op = pb.OP_PUT if value else pb.OP_DELETE
    fields: dict[str, Any] = {"op": op, "key": key, "value": value, "start_ts": commit_ts - 1, "commit_ts": commit_ts}
    return pb.Entry(**(fields | other))


def waiting(there: Callable[[], object]) -> bool:
    """Whether it comes; for what happens in threads that tell nobody."""
    until_s = time.monotonic() + PATIENCE_S
    while not (result := there()) and time.monotonic() < until_s:
        time.sleep(0.001)
    return bool(result)


class RawSender(AbstractContextManager["RawSender"]):
    """One stream. `answers`: all that it was told, in order. Leaving cancels it."""

    def __init__(self, port: int, *, channel: Any = None, token: str = "") -> None:
        self.answers: list[pb.SidecarMessage] = []
        self.ended: tuple[grpc.StatusCode, str] | None = None
        self.sent_bytes = 0
        self.number = 0
        self._changed = Condition()
        self._to_send: SimpleQueue[pb.SenderMessage | bytes | None] = SimpleQueue()
        self._channel = channel or grpc.insecure_channel(f"127.0.0.1:{port}")
        push = self._channel.stream_stream(
            "/ticdc_dump.v1.KvFeed/Push",
            request_serializer=lambda message: message if isinstance(message, bytes) else message.SerializeToString(),
            response_deserializer=pb.SidecarMessage.FromString,
        )
        self._call = push(iter(self._to_send.get, None), metadata=[("authorization", f"Bearer {token}")] if token else None)
        self._thread = Thread(target=self._receive, name="raw-sender", daemon=True)
        self._thread.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.kill()

    def kill(self) -> None:
        self._call.cancel()
        self._to_send.put(None)
        self._thread.join(PATIENCE_S)
        self._channel.close()

    def finish(self) -> None:
        """The sender says that it has nothing more to say."""
        self._to_send.put(None)

    def send(self, *, number: int | None = None, **body: Any) -> int:
        """The message's bytes. `number` is for tests of wrong ones."""
        self.number = self.number + 1 if number is None else number
        return self.send_message(pb.SenderMessage(number=self.number, **body))

    def send_message(self, message: pb.SenderMessage) -> int:
        self._to_send.put(message)
        size: int = message.ByteSize()
        self.sent_bytes += size
        return size

    def send_bytes(self, data: bytes) -> None:
        self._to_send.put(data)

    def hello(self, name: str = "a", **other: Any) -> None:
        fields: dict[str, Any] = {"version_min": 1, "version_max": 1, "sender": name}
        self.send(hello=pb.Hello(**(fields | other)))

    def open(self, span: int, range: KeyRange, *, available_ts: int = 0) -> None:
        self.send(open=pb.OpenSpan(span=span, start=range.start, end=range.end, available_ts=available_ts))

    def messages(self, *messages: tuple[str, int, bytes | None, bytes | None]) -> int:
        """Topic, partition, key and value of each."""
        made = [pb.TopicMessage(topic=topic, partition=number, key=key, value=value) for topic, number, key, value in messages]
        return self.send(messages=pb.Messages(messages=made))

    def kept(self) -> int:
        """Up to which of its messages all is kept."""
        return max((message.number for message in self.of_kind("kept")), default=0)

    def entries(self, span: int, *entries: pb.Entry) -> int:
        return self.send(entries=pb.Entries(span=span, entries=entries))

    def resolved(self, span: int, ts: int, *, entries: int = 0) -> None:
        self.send(resolved=pb.Resolved(spans=[pb.SpanResolved(span=span, ts=ts, entries=entries)]))

    def of_kind(self, kind: str) -> list[Any]:
        """Those answers, without what is around them."""
        with self._changed:
            return [getattr(answer, kind) for answer in self.answers if answer.WhichOneof("body") == kind]

    def wanted(self) -> list[KeyRange]:
        return [KeyRange(range.start, range.end) for message in self.of_kind("wanted") for range in message.ranges]

    def credit(self) -> int:
        """All that was granted, less what was sent."""
        granted: int = sum(message.credit_bytes for message in self.of_kind("welcome")) + sum(
            message.bytes for message in self.of_kind("credit")
        )
        return granted - self.sent_bytes

    def wait_credit(self) -> None:
        """For senders in a thread of their own."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.credit() > 0 or self.ended is not None, PATIENCE_S), "no credit comes"

    def wait_end(self) -> tuple[grpc.StatusCode, str]:
        """For streams that end without anybody polling."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.ended is not None, PATIENCE_S), "the stream does not end"
            assert self.ended is not None
            return self.ended

    def _receive(self) -> None:
        try:
            for answer in self._call:
                with self._changed:
                    self.answers.append(answer)
                    self._changed.notify_all()
        except grpc.RpcError:
            pass  # its status is told below
        with self._changed:
            self.ended = (self._call.code(), self._call.details())
            self._changed.notify_all()


class Polling:
    """Polls a puller while the test waits for something; `events`: all that came."""

    def __init__(self, puller: Puller) -> None:
        self.puller = puller
        self.events: list[KvEvent] = []

    def until(self, there: Callable[[], object]) -> None:
        until_s = time.monotonic() + PATIENCE_S
        while not there():
            assert time.monotonic() < until_s, f"does not come; so far {self.events[-5:]}"
            self.events += self.puller.poll(timeout_s=0.02)

    def until_raises(self) -> BaseException:
        until_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < until_s:
            try:
                self.events += self.puller.poll(timeout_s=0.02)
            except Exception as error:  # noqa: BLE001  # what it is, is what the test asks
                return error
        raise AssertionError(f"raises nothing; so far {self.events[-5:]}")

    def entries(self) -> list[KvEntry]:
        return [event for event in self.events if isinstance(event, KvEntry)]

    def pulled(self) -> list[Pulled]:
        return [event for event in self.events if isinstance(event, Pulled)]

    def upto_ts(self, range: KeyRange) -> int:
        """Up to where all of the range has been pulled; 0 where a part of it has not."""
        return _upto_ts(self.pulled(), range)


def _upto_ts(pulled: Sequence[Pulled], range: KeyRange) -> int:
    edges = sorted({range.start, range.end, *(edge for event in pulled for edge in event.range if range.start < edge < range.end)})
    lows: Iterator[int] = (
        max((event.upto_ts for event in pulled if event.range.start <= low and high <= event.range.end), default=0)
        for low, high in pairwise(edges)
    )
    return min(lows)


# ---- what no sender may say ------------------------------------------------------------------------------------------------

ORDERS, ITEMS = rows_of(104), rows_of(107)
KEY = ORDERS.start + b"\x80\0\0\0\0\0\0\1"
CHANGEFEED = "c/default/cf"
HELLO = pb.Hello(version_min=1, version_max=1, sender="node-1", changefeed=CHANGEFEED)


def hello(**given: Any) -> bytes:
    fields: dict[str, Any] = {"version_min": 1, "version_max": 1, "sender": "node-1", "changefeed": CHANGEFEED}
    data: bytes = pb.SenderMessage(number=1, hello=pb.Hello(**fields | given)).SerializeToString()
    return data


NO_HELLO: tuple[tuple[bytes, grpc.StatusCode, str], ...] = (
    (b"", grpc.StatusCode.DATA_LOSS, "message 0 came in the place of 1"),
    (b"\xff\xff\xff", grpc.StatusCode.INVALID_ARGUMENT, "no SenderMessage"),
    (b"\0" * HELLO_BYTES_MAX, grpc.StatusCode.INVALID_ARGUMENT, "no SenderMessage"),
    (b"\0" * (HELLO_BYTES_MAX + 1), grpc.StatusCode.INVALID_ARGUMENT, "65,537 bytes, more than 65,536"),
    (pb.SenderMessage(number=2, hello=HELLO).SerializeToString(), grpc.StatusCode.DATA_LOSS, "message 2 came in the place of 1"),
    (pb.SenderMessage(number=1).SerializeToString(), grpc.StatusCode.INVALID_ARGUMENT, "the first message is None, expected hello"),
    (
        pb.SenderMessage(number=1, heartbeat=pb.Heartbeat()).SerializeToString(),
        grpc.StatusCode.INVALID_ARGUMENT,
        "is heartbeat, expected hello",
    ),
    (pb.SenderMessage(number=1, open=pb.OpenSpan(span=1)).SerializeToString(), grpc.StatusCode.INVALID_ARGUMENT, "is open, expected hello"),
    (hello(version_min=3, version_max=9), grpc.StatusCode.FAILED_PRECONDITION, "versions 3 to 9"),
    (hello(version_min=0, version_max=0), grpc.StatusCode.FAILED_PRECONDITION, "versions 0 to 0"),
    (hello(version_min=9, version_max=1), grpc.StatusCode.FAILED_PRECONDITION, "versions 9 to 1"),
    (hello(changefeed="c/default/other"), grpc.StatusCode.FAILED_PRECONDITION, "of changefeed 'c/default/other'"),
    (hello(changefeed=""), grpc.StatusCode.FAILED_PRECONDITION, "of changefeed ''"),
    (hello(sender=""), grpc.StatusCode.INVALID_ARGUMENT, "empty or too long"),
    (hello(sender="x" * (SENDER_NAME_LENGTH_MAX + 1)), grpc.StatusCode.INVALID_ARGUMENT, "empty or too long"),
)
"""First messages, the code that ends their stream, and what it says."""

BROKEN: dict[str, tuple[Callable[[Any], object], str]] = {
    "no message": (lambda it: it.send_bytes(b"\xff\xff"), "message 3 is no SenderMessage"),
    "an empty message": (lambda it: it.send(), "message 3 is empty or of a newer version"),
    "Hello again": (lambda it: it.send(hello=HELLO), "message 3 is hello"),
    "an unknown span": (lambda it: it.send(close=pb.CloseSpan(span=7)), "7"),
    "entries of an unknown span": (lambda it: it.send(entries=pb.Entries(span=7, entries=[sent(KEY, 120)])), "7"),
    "a mark of an unknown span": (lambda it: it.send(resolved=pb.Resolved(spans=[pb.SpanResolved(span=7, ts=120)])), "7"),
    "a span number again": (lambda it: it.send(open=pb.OpenSpan(span=1, start=ORDERS.start, end=ORDERS.end)), "span 1"),
    "an empty span": (lambda it: it.send(open=pb.OpenSpan(span=2, start=ORDERS.start, end=ORDERS.start)), "empty or reversed"),
    "a reversed span": (lambda it: it.send(open=pb.OpenSpan(span=2, start=ORDERS.end, end=ORDERS.start)), "empty or reversed"),
    "a key of another table": (lambda it: it.send(entries=pb.Entries(span=1, entries=[sent(ITEMS.start, 120)])), "outside the span"),
    "an empty key": (lambda it: it.send(entries=pb.Entries(span=1, entries=[sent(b"", 120)])), "outside the span"),
    "a commit that is no TSO": (lambda it: it.send(entries=pb.Entries(span=1, entries=[sent(KEY, 1 << 63)])), "no TSO"),
    "a mark that is no TSO": (lambda it: it.send(resolved=pb.Resolved(spans=[pb.SpanResolved(span=1, ts=(1 << 64) - 1)])), "no TSO"),
    "a commit below its start": (lambda it: it.send(entries=pb.Entries(span=1, entries=[sent(KEY, 120, start_ts=121)])), "start_ts"),
    "an unknown op": (lambda it: it.send(entries=pb.Entries(span=1, entries=[sent(KEY, 120, op=9)])), "op 9"),
    "a put without a value": (
        lambda it: it.send(entries=pb.Entries(span=1, entries=[sent(KEY, 120, b"", op=pb.OP_PUT)])),
        "without a value",
    ),
}
"""What a sender says that has ORDERS open as span 1: its stream ends, and the sidecar stops. Of whatever can `send` and `send_bytes`."""
