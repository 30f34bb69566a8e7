"""Subscribe, call by call, without a network (grpcio-testing) and over a spool in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from threading import Event
from typing import Any

import grpc
import grpc_testing
import pytest

from sidecar.control import subscribe as module
from sidecar.control.served import Served
from sidecar.control.service import ControlService
from sidecar.control.subscribe import SUBSCRIBERS_AT_ONCE_MAX, SubscriberReport, Subscriptions
from sidecar.shared.errors import OutOfReach, SinkError
from sidecar.shared.model.nouns import Seq
from sidecar.shared.model.sink_delivery import SubscriberState
from tests.support.eventually import PATIENCE_S
from tests.unit.control.serving import Owner, standby
from ticdc_dump.v1 import control_pb2 as pb
from ticdc_dump.v1 import delivery_pb2

SERVICE = pb.DESCRIPTOR.services_by_name["Control"]
FEED = pb.Changefeed(id="cf")


@dataclass
class MemorySpool:
    """`Spool`: segments from 0, of one delivery with the columns of table 1 each; `failing` is raised by the one after the last."""

    segments: int = 3
    failing: Exception | None = None
    look_s: float = 0.005
    acknowledged: dict[str, int] = field(default_factory=dict)
    received_of: list[str] = field(default_factory=list)
    asked: Event = field(default_factory=Event)

    def begin(self, subscriber: str, after: Seq | None, log: str) -> Seq | None:
        if log not in ("", "log"):
            raise OutOfReach("another log", hint="begin anew")
        if self.segments == 0:
            return None
        after = Seq(self.acknowledged.get(subscriber, -1)) if after is None else after
        self.acknowledged[subscriber] = after
        return Seq(after + 1)

    def deliveries(self, seq: Seq) -> Iterator[delivery_pb2.Delivery] | None:
        if seq < self.segments:
            return iter([delivery_pb2.Delivery(seq=seq, tables=[_columns(1)], resolved=delivery_pb2.ResolvedUpTo(tso=seq, log="log"))])
        self.asked.set()
        if self.failing is not None:
            raise self.failing
        return None

    def acknowledge(self, subscriber: str, seq: Seq, log: str) -> None:
        self.acknowledged[subscriber] = seq

    def received(self, subscriber: str) -> None:
        self.received_of.append(subscriber)

    def subscribers(self) -> list[SubscriberState]:
        return [SubscriberState(name, Seq(seq + 1), self.segments - seq - 1, 2.5) for name, seq in self.acknowledged.items()]


def _columns(ident: int, table: str = "t") -> delivery_pb2.TableColumns:
    return delivery_pb2.TableColumns(id=ident, schema="s", table=table)


class Calls:
    """The service behind gRPC's own test server."""

    def __init__(self, served: Served) -> None:
        self.service = ControlService(served)
        self.server = grpc_testing.server_from_dictionary({SERVICE: self.service}, grpc_testing.strict_real_time())

    def subscribe(self, **given: Any) -> Any:
        request = pb.SubscribeRequest(changefeed=FEED, **given)
        return self.server.invoke_unary_stream(SERVICE.methods_by_name["Subscribe"], (), request, None)

    def unary(self, method: str, request: Any) -> tuple[Any, grpc.StatusCode, str]:
        answer, _, code, details = self.server.invoke_unary_unary(SERVICE.methods_by_name[method], (), request, 30).termination()
        return answer, code, details


@pytest.fixture
def spool() -> MemorySpool:
    return MemorySpool()


@pytest.fixture
def owner() -> Iterator[Owner]:
    with Owner() as made:
        yield made


@pytest.fixture
def calls(owner: Owner, spool: MemorySpool) -> Calls:
    return Calls(owner.served(spool=spool))


def ended(rpc: Any) -> tuple[grpc.StatusCode, str]:
    _, code, details = rpc.termination()
    return code, details


def test_segments_come_in_order_and_the_next_ones_as_they_are_there(calls: Calls, spool: MemorySpool) -> None:
    rpc = calls.subscribe()
    assert [rpc.take_response().seq for _ in range(3)] == [0, 1, 2]
    assert spool.asked.wait(PATIENCE_S)
    spool.segments = 5
    assert [rpc.take_response().seq for _ in range(2)] == [3, 4]
    calls.service.close()
    assert ended(rpc)[0] is grpc.StatusCode.OK


def test_a_stream_begins_when_there_is_something(calls: Calls, spool: MemorySpool) -> None:
    spool.segments = 0
    rpc = calls.subscribe(subscriber="a")
    spool.segments = 1
    assert rpc.take_response().seq == 0
    calls.service.close()
    assert ended(rpc)[0] is grpc.StatusCode.OK


def test_it_goes_on_after_what_the_subscriber_names_which_is_acknowledged(calls: Calls, spool: MemorySpool) -> None:
    rpc = calls.subscribe(subscriber="a", after_seq=1, log="log")
    assert rpc.take_response().seq == 2
    assert spool.acknowledged == {"a": 1}
    _, code, _ = calls.unary("Acknowledge", pb.AcknowledgeRequest(changefeed=FEED, subscriber="a", seq=2))
    assert (code, spool.acknowledged) == (grpc.StatusCode.OK, {"a": 2})
    calls.service.close()
    assert ended(rpc)[0] is grpc.StatusCode.OK


def test_columns_are_reported_once_a_stream(calls: Calls) -> None:
    rpc = calls.subscribe()
    assert [[table.id for table in rpc.take_response().tables] for _ in range(3)] == [[1], [], []]
    calls.service.close()
    ended(rpc)


def test_columns_are_reported_again_when_they_are_others(monkeypatch: pytest.MonkeyPatch) -> None:
    reported = SubscriberReport()

    def new(*tables: delivery_pb2.TableColumns) -> list[int]:
        return [table.id for table in reported.only_new(delivery_pb2.Delivery(tables=tables)).tables]

    assert new(_columns(1), _columns(2, "u")) == [1, 2]
    assert new(_columns(1), _columns(3, "u")) == [3]
    assert new(_columns(2, "u")) == [2]
    monkeypatch.setattr(module, "TABLES_REPORTED_MAX", 2)
    assert new(_columns(1), _columns(4, "v")) == [1, 4], "it forgets what it told, and tells it again"


def test_what_is_out_of_reach_says_so(calls: Calls, spool: MemorySpool) -> None:
    code, details = ended(calls.subscribe(log="other"))
    assert code is grpc.StatusCode.OUT_OF_RANGE
    assert "what to do: begin anew" in details
    spool.failing = OutOfReach("too late", hint="dump")
    rpc = calls.subscribe(after_seq=1)
    rpc.take_response()
    assert ended(rpc)[0] is grpc.StatusCode.OUT_OF_RANGE


def test_a_broken_spool_ends_the_stream_by_name(calls: Calls, spool: MemorySpool) -> None:
    spool.failing = SinkError("the spool is cut", hint="restore it")
    code, details = ended(calls.subscribe(after_seq=5))
    assert (code, "the spool is cut" in details) == (grpc.StatusCode.FAILED_PRECONDITION, True)


def test_a_sidecar_without_such_a_sink_says_so(owner: Owner) -> None:
    calls = Calls(owner.served())
    code, details = ended(calls.subscribe())
    assert (code, "no sink for subscribers" in details) == (grpc.StatusCode.FAILED_PRECONDITION, True)
    _, code, details = calls.unary("Acknowledge", pb.AcknowledgeRequest(changefeed=FEED, subscriber="a"))
    assert (code, "no sink for subscribers" in details) == (grpc.StatusCode.FAILED_PRECONDITION, True)


def test_an_acknowledgement_names_its_subscriber(calls: Calls) -> None:
    _, code, details = calls.unary("Acknowledge", pb.AcknowledgeRequest(changefeed=FEED, seq=1))
    assert (code, "names no subscriber" in details) == (grpc.StatusCode.FAILED_PRECONDITION, True)


def test_another_changefeed_and_a_standby_are_reported_as_by_any_call(calls: Calls) -> None:
    request = pb.SubscribeRequest(changefeed=pb.Changefeed(id="other"))
    rpc = calls.server.invoke_unary_stream(SERVICE.methods_by_name["Subscribe"], (), request, None)
    assert ended(rpc)[0] is grpc.StatusCode.NOT_FOUND
    assert ended(Calls(standby(lambda: "there:1")).subscribe())[0] is grpc.StatusCode.FAILED_PRECONDITION


def test_a_stream_ends_where_the_sidecar_is_no_longer_the_owner(owner: Owner, spool: MemorySpool) -> None:
    owns = [True]
    calls = Calls(replace(owner.served(spool=spool), status=lambda: owner.status if owns[0] else None))
    rpc = calls.subscribe(after_seq=1)
    rpc.take_response()
    owns[0] = False
    assert ended(rpc)[0] is grpc.StatusCode.FAILED_PRECONDITION


def test_so_many_subscribers_at_once_and_no_more(calls: Calls) -> None:
    streams = [calls.subscribe(after_seq=1) for _ in range(SUBSCRIBERS_AT_ONCE_MAX)]
    for stream in streams:
        stream.take_response()
    code, details = ended(calls.subscribe())
    assert (code, f"{SUBSCRIBERS_AT_ONCE_MAX} subscribers" in details) == (grpc.StatusCode.RESOURCE_EXHAUSTED, True)
    calls.service.close()
    for stream in streams:
        assert ended(stream)[0] is grpc.StatusCode.OK


def test_a_query_reports_subscribers(calls: Calls) -> None:
    rpc = calls.subscribe(subscriber="a", after_seq=0)
    rpc.take_response()
    answer, _, _ = calls.unary("Query", pb.DumpRequest(changefeed=FEED))
    [result] = answer.subscribers
    assert (result.name, result.next_seq, result.segments, result.heard_s, result.connected) == ("a", 1, 2, 2.5, True)
    calls.service.close()
    ended(rpc)


def test_a_subscriber_that_only_listens_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RECEIVED_EVERY_S", -1.0)
    spool, turns = MemorySpool(), iter(range(8))
    streams = Subscriptions(spool)
    list(streams.stream(pb.SubscribeRequest(subscriber="a"), object(), lambda _: next(turns, None) is not None))
    assert set(spool.received_of) == {"a"}
