"""Of the control service: who subscribes. Names, numbers and logs that nobody was given, and many who never read what they are sent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import grpc

from sidecar.control.subscribe import SUBSCRIBERS_AT_ONCE_MAX
from sidecar.shared.log.identity import name_of
from sidecar.shared.log.storage import open_folder
from spark_merge.sinks.kit.errors import sink_folder
from spark_merge.sinks.registry import open_sink
from spark_merge.sinks.spool.keeping import SUBSCRIBERS_MAX
from spark_merge.sinks.spool.reader import SpoolReader
from tests.support.deliveries import Segments, change, deliver
from tests.tools.hostile.attempts import Attempt, Fault, Outcome, refuses, serves
from tests.tools.hostile.floods import FLOOD_S, SERVICE, flood
from ticdc_dump.v1 import control_pb2 as pb

if TYPE_CHECKING:
    from tests.tools.hostile.control import Target

FEED = pb.Changefeed(id="cf")
OWN = "a" * 32
SEGMENTS, SEGMENT_CHARS = 40, 1 << 20
"""More than a connection holds for one who does not read."""
CALL_S = 60.0


def spool(folder: Path) -> SpoolReader:
    log = open_folder(str(folder / "log"))
    sink = open_sink(f"grpc://{folder}/spool", log_id=name_of("cf", OWN))
    sink.open(epoch=1)
    for seq in range(SEGMENTS):
        deliver(sink, Segments([seq], [change(seq, 100 * seq, after=[str(seq), "x" * SEGMENT_CHARS])]), log=log)
    return SpoolReader(sink_folder(f"{folder}/spool"), log)


NAMES = {
    "a line": "a\nb",
    "NUL": "a\0b",
    "an escape": "\x1b[31m",
    "101 characters": "x" * 101,
    "100 characters of three bytes": "名" * 100,
    "1 MiB": "x" * (1 << 20),
}
ODD = ("../../etc/passwd", "..", "/", "%2e%2e", "a b", "名前", ".json", "tmp")
SEQS = (SEGMENTS, SEGMENTS + 1, 1 << 31, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
LOGS = ("b" * 32, "../x", "A" * 32, " ", "x" * 100_000)


def subscribers(target: Target) -> Iterator[Attempt]:
    def first(request: pb.SubscribeRequest) -> bytes:
        stream = target.channel.unary_stream(SERVICE + "Subscribe")(request.SerializeToString(), metadata=(target.right,), timeout=CALL_S)
        try:
            return bytes(next(stream))
        finally:
            stream.cancel()

    def acknowledged(request: pb.AcknowledgeRequest) -> bool:
        target.ask("Acknowledge", request)
        return True

    yield serves("subscribe", partial(first, pb.SubscribeRequest(changefeed=FEED)))
    for what, name in NAMES.items():
        yield refuses(f"subscriber: {what}", partial(first, pb.SubscribeRequest(changefeed=FEED, subscriber=name)))
        yield refuses(f"acknowledge: {what}", partial(acknowledged, pb.AcknowledgeRequest(changefeed=FEED, subscriber=name)))
    yield refuses("acknowledge: no name", partial(acknowledged, pb.AcknowledgeRequest(changefeed=FEED)))
    for name in ODD:
        yield serves(f"subscriber {name!r}", partial(first, pb.SubscribeRequest(changefeed=FEED, subscriber=name)))
    for seq in SEQS:
        yield refuses(f"after segment {seq}", partial(first, pb.SubscribeRequest(changefeed=FEED, after_seq=seq)))
        yield refuses(f"acknowledge {seq}", partial(acknowledged, pb.AcknowledgeRequest(changefeed=FEED, subscriber="a", seq=seq)))
    for log in LOGS:
        yield refuses(f"subscribe to log {log!r:.20}", partial(first, pb.SubscribeRequest(changefeed=FEED, after_seq=1, log=log)))
        yield refuses(
            f"acknowledge of log {log!r:.20}", partial(acknowledged, pb.AcknowledgeRequest(changefeed=FEED, subscriber="a", log=log))
        )
    other = pb.Changefeed(id="other")
    yield refuses("subscribe to another changefeed", partial(first, pb.SubscribeRequest(changefeed=other)))
    yield refuses("acknowledge to another changefeed", partial(acknowledged, pb.AcknowledgeRequest(changefeed=other, subscriber="a")))
    for name, tried in {
        f"flood: {12 * SUBSCRIBERS_AT_ONCE_MAX} subscribers that do not read": _never_reading,
        "flood: one name subscribes 100 times": _one_name,
        f"flood: {2 * SUBSCRIBERS_MAX} names": _names,
    }.items():
        yield Attempt(name, partial(flood, target, tried), within_s=2 * FLOOD_S, whole=True)


def _streams(target: Target, names: list[str]) -> int:
    """Each reads one delivery and nothing more; how many were given one."""
    served = 0
    with ExitStack() as opened:
        for name in names:
            channel = opened.enter_context(target.connected())
            request = pb.SubscribeRequest(changefeed=FEED, subscriber=name).SerializeToString()
            stream = channel.unary_stream(f"{SERVICE}Subscribe")(request, metadata=(target.right,), timeout=FLOOD_S)
            opened.callback(stream.cancel)
            try:
                served += bool(next(stream))
            except grpc.RpcError as error:
                if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
                    raise
        target.ask("Query", pb.DumpRequest(changefeed=FEED))
    return served


def _never_reading(target: Target) -> None:
    served = _streams(target, [""] * (12 * SUBSCRIBERS_AT_ONCE_MAX))
    if served > SUBSCRIBERS_AT_ONCE_MAX:
        raise Fault(Outcome.ACCEPTED, f"{served} subscribers were served at once")


def _one_name(target: Target) -> None:
    if _streams(target, ["one"] * 100) < SUBSCRIBERS_AT_ONCE_MAX:
        raise Fault(Outcome.HANG, "streams that another one has ended keep their places")


def _names(target: Target) -> None:
    acknowledge, refused = f"{SERVICE}Acknowledge", 0
    with target.connected() as channel:
        for number in range(2 * SUBSCRIBERS_MAX):
            request = pb.AcknowledgeRequest(changefeed=FEED, subscriber=f"n{number}").SerializeToString()
            try:
                channel.unary_unary(acknowledge)(request, metadata=(target.right,), timeout=CALL_S)
            except grpc.RpcError as error:
                refused += error.code() is grpc.StatusCode.FAILED_PRECONDITION
    if refused < SUBSCRIBERS_MAX:
        raise Fault(Outcome.ACCEPTED, f"{2 * SUBSCRIBERS_MAX - refused} names are remembered")
