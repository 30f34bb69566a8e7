"""A subscriber that is a process of its own and is killed amid a stream, again and again, while the log goes on: what it has written to its
file is every delivery once, and what is kept for it meanwhile is what it has not acknowledged, within the sink's bound."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Self

import pytest

from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.nouns import Seq
from spark_merge.sinks.spool import frames, keeping
from spark_merge.sinks.spool.keeping import Bounds, read_kept, read_segment
from spark_merge.sinks.spool.reader import SpoolReader
from spark_merge.sinks.spool.sink import SpoolSink
from tests.support.deliveries import Segments, change, deliver
from tests.support.eventually import eventually
from tests.support.subscriber import rows_of
from tests.unit.control.serving import Owner, Serving
from ticdc_dump.v1 import delivery_pb2 as pb

pytestmark = pytest.mark.xdist_group("control")

NAME = "search"
SEGMENTS, ROWS, TEXT = 12, 40, 500
BEHIND_MAX = 6
"""Segments; so far the subscriber is behind at most."""

BYTES_MAX = BEHIND_MAX * 2 * ROWS * TEXT
"""Of what is kept: more than so many segments have."""

PROGRAM = """
import os
import sys

import grpc

from ticdc_dump.v1 import control_pb2, control_pb2_grpc, delivery_pb2

address, name, path = sys.argv[1:]
kept, end, given = open(path, "a+b"), 0, {}
kept.seek(0)
while len(head := kept.read(4)) == 4 and len(data := kept.read(int.from_bytes(head, "big"))) == int.from_bytes(head, "big"):
    delivery = delivery_pb2.Delivery.FromString(data)
    if delivery.HasField("resolved"):
        end, given = kept.tell(), {"after_seq": delivery.seq, "log": delivery.resolved.log}
kept.truncate(end)
feed = control_pb2.Changefeed(id="cf")
with grpc.insecure_channel(address) as channel:
    sidecar = control_pb2_grpc.ControlStub(channel)
    for delivery in sidecar.Subscribe(control_pb2.SubscribeRequest(changefeed=feed, subscriber=name, **given)):
        data = delivery.SerializeToString()
        data = len(data).to_bytes(4, "big") + data
        kept.write(data[: len(data) // 2])
        kept.flush()
        print(delivery.seq, flush=True)
        sys.stdin.readline()
        kept.write(data[len(data) // 2 :])
        kept.flush()
        if delivery.HasField("resolved"):
            os.fsync(kept.fileno())
            sidecar.Acknowledge(control_pb2.AcknowledgeRequest(changefeed=feed, subscriber=name, seq=delivery.seq))
"""
"""Takes up after the last whole segment of its file. Half of a delivery is written when it says its number; the rest when it is told to."""


class Subscriber:
    """The process. Killed at the end."""

    def __init__(self, address: str, path: Path) -> None:
        command = [sys.executable, "-c", PROGRAM, address, NAME, str(path)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.kill()
        self._process.communicate()

    def write_half(self) -> int:
        """Of the next delivery; its number."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "it ended"
        return int(line)

    def write_whole(self) -> int:
        assert self._process.stdin is not None
        seq = self.write_half()
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return seq


def in_file(path: Path) -> Iterator[pb.Delivery]:
    """The whole deliveries."""
    data = path.read_bytes() if path.exists() else b""
    while len(data) >= 4 and len(data) >= 4 + (size := int.from_bytes(data[:4], "big")):
        yield pb.Delivery.FromString(data[4 : 4 + size])
        data = data[4 + size :]


def without_tables(delivery: pb.Delivery) -> bytes:
    """Each stream is told the columns anew."""
    delivery.ClearField("tables")
    return bytes(delivery.SerializeToString(deterministic=True))


def test_a_subscriber_that_is_killed_amid_its_stream_has_every_delivery_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "FRAME_BYTES", 4 * TEXT)
    monkeypatch.setattr(keeping, "LOOK_EVERY_MS", 0)
    spool, log, own = open_folder(str(tmp_path / "spool")), open_folder(str(tmp_path / "log")), tmp_path / "own"
    sink = SpoolSink(spool, log_id="cf#" + "a" * 32, bounds=Bounds(bytes_max=BYTES_MAX))
    sink.open(epoch=None)
    reader, random = SpoolReader(spool, log), Random(7)
    sent: list[pb.Delivery] = []
    has, last, killed = -1, -1, 0
    """The last segment that the subscriber has, and the log."""

    def check_what_is_kept() -> None:
        kept, oldest, newest = read_kept(spool), read_segment(spool, has + 1), read_segment(spool, last)
        assert kept is not None
        assert oldest is not None
        assert newest is not None
        assert kept.first == has + 1, "what it has not acknowledged, and no more"
        assert all(reader.deliveries(Seq(seq)) is not None for seq in range(has + 1, last + 1))
        assert newest.bytes_so_far - oldest.bytes_so_far <= BYTES_MAX

    with Owner() as owner, Serving(owner.served(spool=reader)) as server:
        while has < SEGMENTS - 1:
            while last < SEGMENTS - 1 and last - has < BEHIND_MAX:
                last += 1
                rows = [change(last, 100 * last + 1, after=[str(at), "x" * TEXT], ordinal=at) for at in range(ROWS)]
                deliver(sink, Segments([last], rows, rows_max=ROWS), log=log)
                sent += reader.deliveries(Seq(last)) or ()
                check_what_is_kept()
            there = sum(delivery.seq > has for delivery in sent)
            with Subscriber(server.address, own) as subscriber:
                assert all(subscriber.write_whole() > has for _ in range(random.randrange(there)))
                subscriber.write_half()
                killed += 1
            has = max((delivery.seq for delivery in in_file(own) if delivery.HasField("resolved")), default=-1)
            if killed > 7:
                with Subscriber(server.address, own) as subscriber:
                    assert all(subscriber.write_whole() > has for delivery in sent if delivery.seq > has)
                    eventually(lambda: [one.segments for one in reader.subscribers()] == [0])
                has = last
    assert killed > 3
    deliveries = list(in_file(own))
    assert list(rows_of(deliveries)) == list(rows_of(sent))
    assert list(map(without_tables, deliveries)) == list(map(without_tables, sent))
    assert len(sent) > 4 * SEGMENTS
