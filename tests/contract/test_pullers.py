"""Every Puller against its contract (sidecar/ports.py): the in-memory twin, the push feed with a real sender over TCP, and the TiKV feed
with a cluster of gRPC servers.

A rig is a puller and the cluster behind it: `commit`, `resolve`, `repeat`, `acknowledged`. To add a puller, add a rig to RIGS.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Protocol

import pytest

from sidecar.adapters.memory.puller import EVERYTHING, MemoryPuller
from sidecar.feeds.push.puller import PushPuller
from sidecar.ports import Puller
from sidecar.shared.config import PushSection
from sidecar.shared.errors import FeedLost
from sidecar.shared.model.nouns import CommitTs
from sidecar.shared.rowcodec.key_values import KeyRange, KvEntry, KvEvent, rows_of
from tests.support.tikv.rig import TikvRig
from tests.unit.feeds.pushing import Polling, RawSender, sent

ORDERS, ITEMS = rows_of(104), rows_of(107)
MIDDLE = ORDERS.start + b"\x80\0\0\0\0\0\0\x50"
LEFT, RIGHT = KeyRange(ORDERS.start, MIDDLE), KeyRange(MIDDLE, ORDERS.end)
T0 = CommitTs(100)


def key(table: KeyRange, handle: int) -> bytes:
    return table.start + (handle + (1 << 63)).to_bytes(8, "big")


def entry(table: KeyRange, handle: int, commit_ts: int, value: bytes = b"row", old: bytes = b"") -> KvEntry:
    return KvEntry(CommitTs(commit_ts), commit_ts - 3, key(table, handle), value, old, 5)


class Rig(Protocol):
    @property
    def puller(self) -> Puller: ...

    def commit(self, *entries: KvEntry) -> None:
        """In the cluster, above all marks that cover them."""

    def resolve(self, upto_ts: int, within: KeyRange = EVERYTHING) -> None:
        """In the cluster. `within`: all, or one of ORDERS, ITEMS, LEFT, RIGHT."""

    def repeat(self, wanted: KeyRange) -> None:
        """Its connection is lost; the next one sends again what it must."""

    def acknowledged(self, wanted: KeyRange, ts: int) -> bool:
        """Whether the senders know by now that this is durable, and nothing above it."""

    def outage(self) -> None:
        """Nobody serves the ranges any more."""


class Twin:
    def __init__(self, held: ExitStack) -> None:
        self.puller = MemoryPuller()
        self.commit, self.resolve, self.repeat = self.puller.commit, self.puller.resolve, self.puller.repeat

    def acknowledged(self, wanted: KeyRange, ts: int) -> bool:
        return self.puller.durable.get(wanted) == ts

    def outage(self) -> None:
        self.puller.fail(FeedLost("nobody is there", hint="wait"))


class Push:
    """One sender, which opens what is wanted: ORDERS as two spans. It sends when the puller is polled, for then it is answered."""

    SPANS = (LEFT, RIGHT, ITEMS)

    def __init__(self, held: ExitStack) -> None:
        self._held = held
        self._clock = Clock()
        self.puller = Answering(self, PushSection(listen="127.0.0.1:0"), self._clock)
        held.callback(self.puller.close)
        self._history: list[KvEntry] = []
        self._marks: dict[KeyRange, int] = {}
        self._connect()

    def _connect(self) -> None:
        self._sender = self._held.enter_context(RawSender(self.puller.port))
        self._sender.hello()
        self._spans: dict[int, KeyRange] = {}
        self._received = 0
        self._from: dict[int, int] = {}
        self._sent: dict[int, int] = {}

    def commit(self, *entries: KvEntry) -> None:
        self._history += entries
        for span in self._from:
            self._send(span, [entry for entry in entries if entry.key in self._spans[span]])

    def resolve(self, upto_ts: int, within: KeyRange = EVERYTHING) -> None:
        for range in self.SPANS:
            if within.start <= range.start and range.end <= within.end:
                self._marks[range] = upto_ts
        for span in self._from:
            self._mark(span)

    def repeat(self, wanted: KeyRange) -> None:
        self._sender.kill()
        self._connect()

    def acknowledged(self, wanted: KeyRange, ts: int) -> bool:
        known: dict[int, int] = {span.span: span.ts for reported in self._sender.of_kind("durable") for span in reported.spans}
        return all(known.get(span) == ts for span, range in self._spans.items() if wanted.start <= range.start and range.end <= wanted.end)

    def outage(self) -> None:
        self._sender.kill()
        self._clock.hurry()
        self.receive = lambda: None  # type: ignore[method-assign]  # nobody is there

    def receive(self) -> None:
        """What a sender does with the answers that came since the last time."""
        answers = self._sender.answers[self._received :]
        self._received += len(answers)
        for answer in answers:
            if answer.WhichOneof("body") == "wanted":
                wanted = [KeyRange(range.start, range.end) for range in answer.wanted.ranges]
                for range in self.SPANS:
                    if any(one.start <= range.start and range.end <= one.end for one in wanted):
                        span = len(self._spans) + 1
                        self._spans[span] = range
                        self._sender.open(span, range)
            elif answer.WhichOneof("body") == "opened":
                span, from_ts = answer.opened.span, answer.opened.from_ts
                self._from[span], self._sent[span] = from_ts, 0
                self._send(span, [e for e in self._history if e.key in self._spans[span] and e.commit_ts > from_ts])
                self._mark(span)
            elif answer.WhichOneof("body") == "lost":
                self._from.pop(answer.lost.span, None)

    def _send(self, span: int, entries: list[KvEntry]) -> None:
        self._sent[span] += len(entries)
        self._sender.entries(
            span, *(sent(e.key, e.commit_ts, e.value, old_value=e.old, start_ts=e.start_ts, region=e.region) for e in entries)
        )

    def _mark(self, span: int) -> None:
        if (ts := self._marks.get(self._spans[span], 0)) > 0:
            self._sender.resolved(span, ts, entries=self._sent[span])


class Clock:
    """The machine's, until there is no time to lose."""

    def __init__(self) -> None:
        self._hurried_s: float | None = None

    def hurry(self) -> None:
        self._hurried_s = time.monotonic()

    def now_s(self) -> float:
        now_s = time.monotonic()
        return now_s if self._hurried_s is None else now_s + 100 * (now_s - self._hurried_s)


class Answering(PushPuller):
    """Its sender acts between polls."""

    def __init__(self, rig: Push, push: PushSection, clock: Clock) -> None:
        super().__init__(push, clock=clock)
        self._rig = rig

    def poll(self, *, timeout_s: float) -> Sequence[KvEvent]:
        self._rig.receive()
        return super().poll(timeout_s=timeout_s)


def tikv(held: ExitStack) -> Rig:
    return TikvRig(held, parts=(LEFT, RIGHT, ITEMS), region=5)


RIGS: dict[str, Callable[[ExitStack], Rig]] = {"twin": Twin, "push": Push, "tikv": tikv}


@pytest.fixture(params=RIGS)
def rig(request: pytest.FixtureRequest) -> Iterator[Rig]:
    with ExitStack() as held:
        yield RIGS[request.param](held)


def test_all_above_the_wanted_ts_comes_before_the_mark_that_covers_it(rig: Rig) -> None:
    rig.commit(
        entry(ORDERS, 1, 90), entry(ORDERS, 2, 100), entry(ORDERS, 3, 101), entry(ORDERS, 90, 130, b"", b"was"), entry(ITEMS, 1, 120)
    )
    rig.resolve(125)
    rig.puller.want({ORDERS: T0})
    polling = Polling(rig.puller)
    polling.until(lambda: polling.upto_ts(ORDERS) == 125)
    before = polling.events[: max(at for at, event in enumerate(polling.events) if not isinstance(event, KvEntry))]
    assert entry(ORDERS, 3, 101) in before
    polling.until(lambda: entry(ORDERS, 90, 130, b"", b"was") in polling.events)
    assert {e for e in polling.entries() if e.commit_ts > T0} == {entry(ORDERS, 3, 101), entry(ORDERS, 90, 130, b"", b"was")}


def test_nothing_comes_of_ranges_that_are_not_wanted(rig: Rig) -> None:
    rig.commit(entry(ORDERS, 1, 110), entry(ITEMS, 1, 111))
    rig.resolve(120)
    rig.puller.want({ITEMS: T0})
    polling = Polling(rig.puller)
    polling.until(lambda: polling.upto_ts(ITEMS) == 120)
    assert polling.entries() == [entry(ITEMS, 1, 111)]
    assert {event.range for event in polling.pulled()} == {ITEMS}


def test_marks_are_of_wanted_ranges_or_of_parts_that_advance_by_themselves(rig: Rig) -> None:
    rig.puller.want({ORDERS: T0})
    polling = Polling(rig.puller)
    rig.resolve(150, RIGHT)
    polling.until(lambda: polling.upto_ts(RIGHT) == 150)
    assert polling.upto_ts(ORDERS) == 0
    rig.resolve(130, LEFT)
    polling.until(lambda: polling.upto_ts(ORDERS) == 130)
    assert all(ORDERS.start <= event.range.start and event.range.end <= ORDERS.end for event in polling.pulled())


def test_a_range_that_is_wanted_later_comes_from_its_own_ts(rig: Rig) -> None:
    rig.puller.want({ORDERS: T0})
    polling = Polling(rig.puller)
    rig.commit(entry(ITEMS, 1, 110), entry(ITEMS, 2, 120))
    rig.resolve(130)
    polling.until(lambda: polling.upto_ts(ORDERS) == 130)
    rig.puller.want({ORDERS: T0, ITEMS: CommitTs(110)})
    polling.until(lambda: polling.upto_ts(ITEMS) == 130)
    assert {e for e in polling.entries() if e.commit_ts > 110} == {entry(ITEMS, 2, 120)}


def test_a_range_that_was_wanted_goes_on_where_it_is_whatever_its_ts(rig: Rig) -> None:
    rig.puller.want({ORDERS: T0})
    polling = Polling(rig.puller)
    rig.commit(entry(ORDERS, 1, 110))
    rig.resolve(120)
    polling.until(lambda: polling.upto_ts(ORDERS) == 120)
    rig.puller.want({ORDERS: CommitTs(500), ITEMS: T0})
    rig.commit(entry(ORDERS, 2, 130))
    rig.resolve(140)
    polling.until(lambda: polling.upto_ts(ORDERS) == 140 and polling.upto_ts(ITEMS) == 140)
    assert [e.commit_ts for e in polling.entries()] == [110, 130]


def test_a_range_that_is_not_named_any_more_ends_and_begins_again_when_it_is(rig: Rig) -> None:
    rig.puller.want({ORDERS: T0, ITEMS: T0})
    polling = Polling(rig.puller)
    rig.commit(entry(ORDERS, 1, 110))
    rig.resolve(120)
    polling.until(lambda: polling.upto_ts(ORDERS) == 120 and polling.upto_ts(ITEMS) == 120)
    rig.puller.want({ITEMS: T0})
    polling.events.clear()
    rig.commit(entry(ORDERS, 2, 130))
    rig.resolve(140)
    polling.until(lambda: polling.upto_ts(ITEMS) == 140)
    assert polling.entries() == []
    assert {event.range for event in polling.pulled()} == {ITEMS}
    rig.puller.want({ITEMS: T0, ORDERS: CommitTs(105)})
    polling.until(lambda: polling.upto_ts(ORDERS) == 140)
    assert {e.commit_ts for e in polling.entries()} == {110, 130}


def test_after_a_lost_connection_everything_above_the_last_mark_comes(rig: Rig) -> None:
    rig.puller.want({ORDERS: T0})
    polling = Polling(rig.puller)
    rig.commit(entry(ORDERS, 1, 110))
    rig.resolve(120)
    rig.commit(entry(ORDERS, 2, 130))
    polling.until(lambda: polling.upto_ts(ORDERS) == 120 and entry(ORDERS, 2, 130) in polling.events)
    rig.repeat(ORDERS)
    rig.commit(entry(ORDERS, 3, 140))
    rig.resolve(150)
    polling.until(lambda: polling.upto_ts(ORDERS) == 150)
    assert {e.commit_ts for e in polling.entries()} == {110, 130, 140}


def test_what_is_durable_reaches_the_senders_and_never_goes_back(rig: Rig) -> None:
    rig.puller.want({ORDERS: T0})
    polling = Polling(rig.puller)
    rig.resolve(150)
    polling.until(lambda: polling.upto_ts(ORDERS) == 150)
    rig.puller.acknowledge({ORDERS: CommitTs(140)})
    rig.puller.acknowledge({ORDERS: CommitTs(130), ITEMS: CommitTs(135)})
    polling.until(lambda: rig.acknowledged(ORDERS, 140))


def test_nothing_comes_where_nothing_happens(rig: Rig) -> None:
    assert rig.puller.poll(timeout_s=0.0) == []
    rig.puller.want({})
    assert rig.puller.poll(timeout_s=0.01) == []


def test_an_outage_that_lasts_is_raised(rig: Rig) -> None:
    rig.puller.want({ORDERS: T0})
    rig.outage()
    assert isinstance(Polling(rig.puller).until_raises(), FeedLost)


def test_close_never_raises(rig: Rig) -> None:
    rig.puller.want({ORDERS: T0})
    rig.puller.close()
    rig.puller.close()
