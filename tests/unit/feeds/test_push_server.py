"""The push feed's protocol errors, stream by stream, without a network (grpcio-testing): what is wrong ends the stream by the code that
feed.proto names, in the order in which it came; what is wrong with the data stops the sidecar, and nothing else does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import grpc
import grpc_testing
import pytest
from grpc_testing._server._servicer_context import ServicerContext

from sidecar.feeds.push import server
from sidecar.feeds.push.puller import PushPuller
from sidecar.feeds.push.server import HELLOS_MAX, SERVICE
from sidecar.shared.config import PushSection
from sidecar.shared.errors import MessageUnreadable
from sidecar.shared.model.nouns import CommitTs
from sidecar.shared.rowcodec.key_values import KeyRange, KvEntry
from sidecar.shared.ticdc.changefeed import ChangefeedName
from tests.unit.feeds.pushing import BROKEN, HELLO, KEY, NO_HELLO, ORDERS, Polling, sent, waiting
from ticdc_dump.v1 import feed_pb2 as pb

T0 = CommitTs(100)
Code = grpc.StatusCode


class Sender:
    """One stream at gRPC's own test server, which hands messages over as they are."""

    def __init__(self, puller: PushPuller) -> None:
        testing = grpc_testing.server_from_dictionary({SERVICE: puller._streams}, grpc_testing.strict_real_time())
        self.rpc = testing.invoke_stream_stream(SERVICE.methods_by_name["Push"], (), None)
        self.polling = Polling(puller)
        self.number = 0

    def send(self, *, number: int | None = None, **body: Any) -> Sender:
        self.number = self.number + 1 if number is None else number
        return self.send_bytes(pb.SenderMessage(number=self.number, **body).SerializeToString())

    def send_bytes(self, data: bytes) -> Sender:
        self.rpc.send_request(data)
        return self

    def take(self, kind: str) -> Any:
        """The next answer, which is of this kind. It comes in the order of the stream."""
        self.polling.until(self._answered)
        answer = self.rpc.take_response()
        assert answer.WhichOneof("body") == kind
        return getattr(answer, kind)

    def _answered(self) -> bool:
        with self.rpc._handler._condition:
            return bool(self.rpc._handler._responses)

    def welcomed(self, **hello: Any) -> Sender:
        first = pb.Hello()
        first.CopyFrom(HELLO)
        for name, value in hello.items():
            setattr(first, name, value)
        self.send(hello=first)
        assert self.take("welcome").version == 1
        assert self.take("wanted").ranges
        return self

    def opened(self, span: int = 1, range: KeyRange = ORDERS) -> Sender:
        self.send(open=pb.OpenSpan(span=span, start=range.start, end=range.end))
        assert self.take("opened").from_ts == T0
        return self

    def over(self) -> tuple[grpc.StatusCode, str]:
        """How the stream ended; polled for, as the pipeline does."""
        self.polling.until(lambda: self.rpc._handler._code is not None)
        _, code, details = self.rpc.termination()
        return code, details


@pytest.fixture(autouse=True)
def _peers(monkeypatch: pytest.MonkeyPatch) -> None:
    """gRPC's test server knows no peers."""
    monkeypatch.setattr(ServicerContext, "peer", lambda _: "ipv4:127.0.0.1:1")


@pytest.fixture
def puller() -> Iterator[PushPuller]:
    with closing(PushPuller(PushSection(listen="127.0.0.1:0"), changefeed=ChangefeedName("c", "default", "cf"))) as made:
        made.want({ORDERS: T0})
        yield made
        made._streams.end()


@pytest.fixture
def sender(puller: PushPuller) -> Sender:
    return Sender(puller)


def goes_on(puller: PushPuller) -> None:
    """A sender that does all well is heard."""
    other = Sender(puller).welcomed(sender="another").opened()
    other.send(entries=pb.Entries(span=1, entries=[sent(KEY, 120)]))
    other.polling.until(other.polling.entries)
    assert [entry.commit_ts for entry in other.polling.entries()] == [120]


# ---- before a sender has its name --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("first", "code", "wrong"), NO_HELLO)
def test_what_is_no_hello_of_ours_ends_its_stream_by_name_and_nothing_else(
    puller: PushPuller, sender: Sender, first: bytes, code: grpc.StatusCode, wrong: str
) -> None:
    sender.send_bytes(first)
    assert sender.over()[0] is code
    assert wrong in sender.over()[1]
    goes_on(puller)


def test_a_stream_that_ends_before_hello_is_no_event(puller: PushPuller, sender: Sender) -> None:
    sender.rpc.requests_closed()
    assert sender.over()[0] is Code.OK
    goes_on(puller)


def test_a_stream_that_says_nothing_is_ended_without_anybody_polling(puller: PushPuller, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as impatient:
        impatient.setattr(server, "HELLO_S", 0.2)
        sender = Sender(puller)
        assert sender.rpc.termination()[1:] == (Code.DEADLINE_EXCEEDED, "no Hello came within 0.2 s")
    goes_on(puller)


def test_few_first_messages_are_taken_from_the_network_at_a_time(puller: PushPuller) -> None:
    """Each may be as large as a message can be before it is seen. Who says nothing gives way to who does."""
    hellos = puller._streams._hellos
    silent = [Sender(puller) for _ in range(HELLOS_MAX)]
    assert waiting(lambda: hellos.under_way() == HELLOS_MAX)
    late = Sender(puller).welcomed()
    assert hellos.under_way() < HELLOS_MAX
    assert [sender.over()[0] for sender in silent if sender.rpc._handler._code] in ([Code.UNAVAILABLE], [Code.UNAVAILABLE] * HELLOS_MAX)
    late.opened()


def test_between_hello_and_welcome_nothing_is_taken(puller: PushPuller, sender: Sender) -> None:
    sender.send(hello=HELLO)
    sender.send(heartbeat=pb.Heartbeat())
    assert waiting(lambda: puller._streams._new and puller._streams._new[0].waiting_bytes())
    with sender.rpc._handler._condition:
        assert len(sender.rpc._handler._requests) == 1
    assert sender.take("welcome").credit_bytes
    assert waiting(lambda: not sender.rpc._handler._requests)


# ---- numbers, credit, names ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [1, 2, 4, 0, (1 << 64) - 1])
def test_a_number_that_is_not_the_next_ends_the_stream_to_be_sent_again(puller: PushPuller, sender: Sender, number: int) -> None:
    sender.welcomed().send(heartbeat=pb.Heartbeat())
    sender.send(number=number, heartbeat=pb.Heartbeat())
    code, text = sender.over()
    assert code is Code.DATA_LOSS
    assert f"message {number} came in the place of 3: connect and send again" in text
    goes_on(puller)


def test_a_count_that_does_not_fit_ends_the_stream_to_be_sent_again(puller: PushPuller, sender: Sender) -> None:
    sender.welcomed().opened()
    sender.send(entries=pb.Entries(span=1, entries=[sent(KEY, 120)]))
    sender.send(resolved=pb.Resolved(spans=[pb.SpanResolved(span=1, ts=130, entries=2)]))
    assert sender.over()[0] is Code.DATA_LOSS
    assert not sender.polling.pulled()
    goes_on(puller)


def test_bytes_without_credit_end_the_stream(puller: PushPuller, sender: Sender) -> None:
    sender.welcomed().opened()
    size = puller._credits.batch_bytes
    for _ in range(1000):  # all of it is sent before anybody takes any
        sender.number += 1
        sender.send_bytes(b"\0" * size)
    assert waiting(lambda: sender.rpc._handler._code is not None)
    assert sender.rpc.termination()[1] is Code.RESOURCE_EXHAUSTED
    assert "came without credit" in sender.rpc.termination()[2]


def test_a_newer_stream_of_a_name_ends_the_previous_one(puller: PushPuller, sender: Sender) -> None:
    sender.welcomed()
    Sender(puller).welcomed()
    code, text = sender.over()
    assert code is Code.ABORTED
    assert "has the name node-1" in text


def test_the_end_of_a_term_asks_every_stream_to_come_again(puller: PushPuller, sender: Sender) -> None:
    sender.welcomed()
    puller._streams.end()
    assert sender.rpc.termination()[1:] == (Code.UNAVAILABLE, server.ENDING)
    assert Sender(puller).rpc.termination()[1:] == (Code.UNAVAILABLE, server.ENDING)


# ---- broken senders --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("breaks", "wrong"), BROKEN.values(), ids=BROKEN)
def test_a_broken_sender_ends_its_stream_and_stops_the_sidecar_by_its_name(
    puller: PushPuller, sender: Sender, breaks: Callable[[Sender], object], wrong: str
) -> None:
    sender.welcomed().opened()
    breaks(sender)
    error = sender.polling.until_raises()
    assert isinstance(error, MessageUnreadable)
    assert "node-1" in str(error)
    assert wrong in str(error)
    _, code, details = sender.rpc.termination()
    assert code is Code.INVALID_ARGUMENT
    assert details == str(error)


def test_what_came_before_the_broken_message_counts(puller: PushPuller, sender: Sender) -> None:
    sender.welcomed().opened()
    sender.send(entries=pb.Entries(span=1, entries=[sent(KEY, 120)]))
    sender.send_bytes(b"\xff\xff")
    assert isinstance(sender.polling.until_raises(), MessageUnreadable)
    assert sender.polling.events == [KvEntry(CommitTs(120), 119, KEY, b"v", b"", 0)]
