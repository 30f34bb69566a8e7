"""The whole push feed but its sockets, under any interleaving: senders that connect, die, come back, take spans over, run out of
credit and obey what they are told whenever they come to read it; a puller that is polled now and then, a little at a time.

The cluster's history is known, so every Pulled is held against it; and in the end everything is complete. Each seed is one life:
a failure names its own.
"""

from __future__ import annotations

from random import Random
from threading import Event
from typing import Any

import pytest

from sidecar.feeds.push.puller import PushPuller
from sidecar.feeds.push.server import PushStream
from sidecar.shared.config import PushSection
from sidecar.shared.model.nouns import CommitTs
from sidecar.shared.rowcodec.key_values import KeyRange, KvEntry
from tests.unit.feeds.pushing import sent
from ticdc_dump.v1 import feed_pb2 as pb

NAMES = ("node-1", "node-2", "node-3")
RANGES = (KeyRange(b"a", b"d"), KeyRange(b"d", b"g"))
PIECES = (*RANGES, KeyRange(b"a", b"b"), KeyRange(b"b", b"d"), KeyRange(b"e", b"f"))
LETTERS = "abcdef"
QUEUE_BYTES_MAX = 16 << 10
POLL_BYTES = 300
PADDING = b"x" * 40
SEEDS = 60
STEPS = 250

Commit = tuple[bytes, int]


class Boxes:
    """In the place of PushServer and its Streams."""

    port = 0

    def __init__(self, push: PushSection) -> None:
        self.arrived = Event()
        self.streams = self
        self.new: list[PushStream] = []
        self.last = 0

    def connect(self) -> PushStream:
        self.last += 1
        self.new.append(PushStream(self.last, "here", self.arrived))
        return self.new[-1]

    def new_streams(self) -> list[PushStream]:
        streams, self.new = self.new, []
        return streams

    def close(self) -> None:
        pass


class Span:
    """As its sender knows it: `missing` in the order in which it will send."""

    def __init__(self, range: KeyRange) -> None:
        self.range = range
        self.from_ts: int | None = None
        self.sent: set[Commit] = set()
        self.count = self.marked_ts = 0


class Node:
    """A sender by the rules of feed.proto, on one stream."""

    def __init__(self, name: str, stream: PushStream) -> None:
        self.name = name
        self.stream = stream
        self.number = self.credit = self.last_span = 0
        self.welcome = False
        self.spans: dict[int, Span] = {}
        self.wanted: set[KeyRange] = set()
        self._send(hello=pb.Hello(version_min=1, version_max=1, sender=name))

    def _send(self, **body: Any) -> None:
        self.number += 1
        data = pb.SenderMessage(number=self.number, **body).SerializeToString()
        if self.welcome:
            self.credit -= len(data)
        if not self.stream.gone():
            assert self.stream.arrived(data), "had credit, and was cut off"

    def read(self) -> None:
        """All answers that wait."""
        for answer in self.stream.drain():
            kind = answer.WhichOneof("body")
            if kind == "welcome":
                self.welcome, self.credit = True, answer.welcome.credit_bytes
            elif kind == "credit":
                self.credit += answer.credit.bytes
            elif kind == "wanted":
                self.wanted |= {KeyRange(one.start, one.end) for one in answer.wanted.ranges}
                self.wanted -= {KeyRange(one.start, one.end) for one in answer.wanted.ended}
            elif kind == "opened" and answer.opened.span in self.spans:
                self.spans[answer.opened.span].from_ts = answer.opened.from_ts
            elif kind == "refused":
                del self.spans[answer.refused.span]
            elif kind == "lost":
                lost = self.spans.get(answer.lost.span)
                if lost is not None and lost.range == (answer.lost.start, answer.lost.end):
                    del self.spans[answer.lost.span]

    def open(self, range: KeyRange) -> None:
        self.last_span = span = self.last_span + self.number  # greater, and not always by one
        self._send(open=pb.OpenSpan(span=span, start=range.start, end=range.end))
        self.spans[span] = Span(range)

    def push(self, number: int, history: list[Commit], count: int) -> None:
        span = self.spans[number]
        chosen = self.missing(span, history)[:count]
        span.sent |= {*chosen}
        span.count += len(chosen)
        self._send(entries=pb.Entries(span=number, entries=[sent(key, ts, PADDING) for key, ts in chosen]))

    def mark(self, number: int, history: list[Commit], now_ts: int) -> None:
        span = self.spans[number]
        highest = min((ts - 1 for _, ts in self.missing(span, history)), default=now_ts)
        span.marked_ts = max(span.marked_ts, highest)
        self._send(resolved=pb.Resolved(spans=[pb.SpanResolved(span=number, ts=span.marked_ts, entries=span.count)]))

    def missing(self, span: Span, history: list[Commit]) -> list[Commit]:
        assert span.from_ts is not None
        above = max(span.from_ts, span.marked_ts)
        return [commit for commit in history if commit[0] in span.range and commit[1] > above and commit not in span.sent]

    def ready(self) -> list[int]:
        return [number for number, span in self.spans.items() if span.from_ts is not None]


class Life:
    """Random steps of all who take part."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.puller = PushPuller(PushSection(queue_bytes_max=QUEUE_BYTES_MAX))
        boxes: object = self.puller._server
        assert isinstance(boxes, Boxes)
        self.boxes = boxes
        self.now_ts = 100
        self.history: list[Commit] = []
        self.wanted: dict[KeyRange, int] = {}
        self.delivered: dict[KeyRange, set[Commit]] = {}
        self.nodes: dict[str, Node] = {}
        self.want([*RANGES])

    def step(self) -> None:
        random = self.random
        name = random.choice(NAMES)
        node = self.nodes.get(name)
        match random.choices(["send", "commit", "open", "connect", "die", "want"], [60, 20, 20, 4, 4, 2])[0]:
            case "send" if node is not None:
                self.send(node)
            case "commit":
                self.commit(random.choices(LETTERS, k=random.randint(1, 5)))
            case "open" if node is not None:
                if node.credit > 0:
                    node.open(random.choice(PIECES))
            case "connect" | "open":
                self.nodes[name] = Node(name, self.boxes.connect())  # its former stream may be there still
            case "die" if node is not None:
                self.nodes.pop(name).stream.disconnected()
            case "want":
                self.want(random.sample(RANGES, random.choice([1, 2, 2])))
        if random.random() < 0.7:
            self.poll()
        for reader in self.nodes.values():
            if random.random() < 0.7:
                reader.read()
        assert sum(view.waiting_bytes for view in self.puller.senders()) <= QUEUE_BYTES_MAX
        for one in self.nodes.values():
            assert one.stream._end is None, "obeys, and was cut off"

    def want(self, ranges: list[KeyRange]) -> None:
        self.puller.want({range: CommitTs(self.now_ts - 10) for range in ranges})
        self.wanted = {range: self.wanted.get(range, self.now_ts - 10) for range in ranges}
        self.delivered = {range: self.delivered.get(range, set()) for range in ranges}

    def commit(self, letters: list[str]) -> None:
        for letter in letters:
            self.now_ts += 1
            self.history.append((letter.encode(), self.now_ts))

    def send(self, node: Node) -> None:
        for number in self.random.sample(node.ready(), len(node.ready())):
            if node.credit > 0 and self.random.random() < 0.6:
                node.push(number, self.random.sample(self.history, len(self.history)), self.random.randint(1, 6))
            if node.credit > 0 and self.random.random() < 0.4:
                node.mark(number, self.history, self.now_ts)

    def poll(self) -> None:
        for event in self.puller.poll(timeout_s=0.0):
            if isinstance(event, KvEntry):
                for range, delivered in self.delivered.items():
                    if event.key in range:
                        delivered.add((event.key, event.commit_ts))
                continue
            (wanted,) = (range for range in self.wanted if range.start <= event.range.start and event.range.end <= range.end)
            due = {(key, ts) for key, ts in self.history if key in event.range and self.wanted[wanted] < ts <= event.upto_ts}
            assert due <= self.delivered[wanted], f"{event} passes {due - self.delivered[wanted]}"

    def end(self) -> None:
        """When all that was sent has been taken in, one sender comes that can do everything: it completes everything."""
        while any(view.waiting_bytes for view in self.puller.senders()):
            self.poll()
        last = Node("last", self.boxes.connect())
        opened: set[KeyRange] = set()
        for _ in range(2000):
            self.poll()
            last.read()
            for range_ in sorted(last.wanted - opened) if last.credit > 0 else ():
                last.open(range_)
                opened.add(range_)
            for number in last.ready():
                if last.credit > 0:
                    last.push(number, self.history, 20)
                if last.credit > 0:
                    last.mark(number, self.history, self.now_ts)
            if all(known.upto_ts() >= self.now_ts for known in self.puller._spans):
                return
        raise AssertionError("is never complete")


@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_pulled_passes_what_was_not_delivered_and_all_is_complete_in_the_end(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sidecar.feeds.push.puller.PushServer", Boxes)
    monkeypatch.setattr("sidecar.feeds.push.puller.POLL_BYTES_MAX", POLL_BYTES)
    life = Life(seed)
    for _ in range(STEPS):
        life.step()
    life.end()
