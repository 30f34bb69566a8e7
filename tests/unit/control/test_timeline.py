"""The timeline of Query and Watch: where it is asked for, and each sample once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from sidecar.control import service as service_module
from sidecar.run.samples import timeline
from tests.unit.control.serving import Owner
from tests.unit.control.test_service import FEED, SERVICE, Calls
from tests.unit.report.made import BEGIN_MS, SINK, dumped, sample
from ticdc_dump.v1 import control_pb2 as pb


class Measured:
    """What `Served.timeline` gives: samples at so many seconds, of which more come."""

    def __init__(self) -> None:
        self.seconds = [1, 2]
        self.asked: list[int] = []

    def __call__(self, after_ms: int) -> pb.Timeline:
        self.asked.append(after_ms)
        sample_lines = [sample(second) for second in self.seconds if BEGIN_MS + 1000 * second > after_ms]
        return timeline(sample_lines, [dumped(1, begins_ms=BEGIN_MS)], [])


@pytest.fixture
def measured() -> Measured:
    return Measured()


@pytest.fixture
def calls(measured: Measured) -> Iterator[Calls]:
    with Owner() as owner:
        made = Calls(owner.served(timeline=measured))
        yield made
        made.service.close()


def seconds(answer: Any) -> list[float]:
    return [(one.at_ms - BEGIN_MS) / 1000 for one in answer.timeline.samples]


def asks(**given: Any) -> pb.DumpRequest:
    return pb.DumpRequest(changefeed=FEED, **given)


def test_a_query_has_it_where_it_is_requested(calls: Calls, measured: Measured) -> None:
    assert not calls.ok("Query", asks()).HasField("timeline")
    assert measured.asked == []
    result = calls.ok("Query", asks(timeline_after_ms=0))
    assert (seconds(result), len(result.timeline.chunks), result.timeline.samples[0].sinks[0].sink) == ([1, 2], 1, SINK)
    assert result.owner == "here:1", "the status is there too"
    later = calls.ok("Query", asks(timeline_after_ms=BEGIN_MS + 2000))
    assert later.HasField("timeline")
    assert seconds(later) == []


def test_a_watch_has_in_each_answer_the_samples_since_the_one_before(
    calls: Calls, measured: Measured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_module, "WATCH_EVERY_S", 0.01)
    rpc = calls.server.invoke_unary_stream(SERVICE.methods_by_name["Watch"], (), asks(timeline_after_ms=BEGIN_MS + 1000), None)
    first = rpc.take_response()
    assert (seconds(first), first.state) == ([2], pb.DUMP_STATE_UNSPECIFIED)
    measured.seconds += [3, 4]
    calls.ok("Start", pb.StartRequest(changefeed=FEED, dump_id="a" * 16))
    second = rpc.take_response()
    assert (seconds(second), second.state) == ([3, 4], pb.DUMP_STATE_RUNNING)
    calls.ok("Pause", asks())
    third = rpc.take_response()
    assert (seconds(third), third.state) == ([], pb.DUMP_STATE_PAUSED)
    measured.seconds.append(5)
    calls.ok("Resume", pb.ResumeRequest(changefeed=FEED))
    assert seconds(rpc.take_response()) == [5], "an answer without samples forgets nothing"
    assert all(len(one.timeline.chunks) == 1 for one in (first, second, third))
    calls.service.close()
    assert rpc.termination()[1] is grpc.StatusCode.OK


def test_a_watch_has_none_where_it_is_not_requested(calls: Calls, measured: Measured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_module, "WATCH_EVERY_S", 0.01)
    rpc = calls.watch()
    assert not rpc.take_response().HasField("timeline")
    calls.service.close()
    assert rpc.termination()[1] is grpc.StatusCode.OK
    assert measured.asked == []
