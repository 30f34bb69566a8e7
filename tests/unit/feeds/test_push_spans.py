"""Ownership of spans: cases by hand, and any interleaving of openings, moves, deaths and resends against the obvious truth."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sidecar.feeds.push.spans import Opened, SpanOpening, SpanRefused, SpanTable, describe
from sidecar.shared.errors import MessageUnreadable
from sidecar.shared.model.nouns import CommitTs
from sidecar.shared.rowcodec.key_values import KeyRange, KvEntry, Pulled, rows_of
from tests.lanes import examples
from tests.unit.feeds.pushing import sent

AM, MZ, AZ = KeyRange(b"a", b"m"), KeyRange(b"m", b"z"), KeyRange(b"a", b"z")
T0 = CommitTs(100)


def opened(
    spans: SpanTable, range: KeyRange = AZ, *, sender: str = "a", span: int = 1, available_ts: int = 0
) -> tuple[SpanOpening, Opened]:
    opening = SpanOpening(1, sender, span, range)
    answer = spans.open(opening, available_ts=available_ts, now_s=0.0)
    assert isinstance(answer, Opened)
    return opening, answer


@pytest.fixture
def spans() -> SpanTable:
    made = SpanTable()
    made.want({AZ: T0}, now_s=0.0)
    return made


def keys(entries: list[KvEntry]) -> list[bytes]:
    return [entry.key for entry in entries]


def test_an_opening_begins_where_the_range_was_wanted(spans: SpanTable) -> None:
    assert opened(spans)[1].from_ts == T0


def test_a_mark_of_the_owner_counts_for_what_it_owns(spans: SpanTable) -> None:
    opening, _ = opened(spans, AM)
    assert spans.resolve(opening, 120) == [Pulled(AM, CommitTs(120))]
    assert [wanted.upto_ts() for wanted in spans] == [T0]


def test_a_mark_below_what_is_resolved_says_nothing(spans: SpanTable) -> None:
    opening, _ = opened(spans)
    assert spans.resolve(opening, 90) == []
    assert spans.resolve(opening, 100) == []


def test_the_next_owner_begins_at_the_last_mark_and_not_at_what_was_sent(spans: SpanTable) -> None:
    previous, _ = opened(spans)
    spans.take(previous, [sent(b"b", 130)])
    spans.resolve(previous, 120)
    spans.take(previous, [sent(b"c", 140)])
    assert opened(spans, sender="b")[1].from_ts == 120


def test_a_mark_of_a_previous_owner_does_not_count(spans: SpanTable) -> None:
    previous, _ = opened(spans)
    owner, answer = opened(spans, sender="b")
    assert [(loss.opening, loss.range, loss.to) for loss in answer.losses] == [(previous, AZ, "b")]
    assert spans.resolve(previous, 150) == []
    assert spans.take(previous, [sent(b"b", 160)]) == []
    assert spans.resolve(owner, 110) == [Pulled(AZ, CommitTs(110))]


def test_of_a_span_that_lost_a_part_the_rest_still_counts(spans: SpanTable) -> None:
    previous, _ = opened(spans)
    _, answer = opened(spans, KeyRange(b"f", b"m"), sender="b")
    assert [loss.range for loss in answer.losses] == [KeyRange(b"f", b"m")]
    assert keys(spans.take(previous, [sent(b"b", 110), sent(b"g", 111), sent(b"n", 112)])) == [b"b", b"n"]
    assert spans.resolve(previous, 115) == [Pulled(KeyRange(b"a", b"f"), CommitTs(115)), Pulled(KeyRange(b"m", b"z"), CommitTs(115))]


def test_who_takes_over_parts_at_different_marks_begins_at_the_lowest(spans: SpanTable) -> None:
    spans.resolve(opened(spans, AM)[0], 150)
    spans.resolve(opened(spans, MZ, span=2)[0], 120)
    owner, answer = opened(spans, sender="b")
    assert answer.from_ts == 120
    assert keys(spans.take(owner, [sent(b"b", 130), sent(b"n", 130)])) == [b"n"], "what is above the lower mark only is a repeat"
    assert spans.resolve(owner, 140) == [Pulled(MZ, CommitTs(140))]
    assert spans.resolve(owner, 150) == [Pulled(AZ, CommitTs(150))], "neighbours at one ts are one part"


def test_a_sender_with_a_hole_before_what_it_has_is_refused_and_changes_nothing(spans: SpanTable) -> None:
    previous, _ = opened(spans)
    refused = spans.open(SpanOpening(2, "b", 1, AZ), available_ts=101, now_s=0.0)
    assert isinstance(refused, SpanRefused)
    assert refused.from_ts == 100
    assert spans.resolve(previous, 150) == [Pulled(AZ, CommitTs(150))]


@pytest.mark.parametrize("range", [KeyRange(b"0", b"1"), KeyRange(b"Z", b"c"), KeyRange(b"x", b"{"), KeyRange(b"z", b"zz")])
def test_a_span_that_no_wanted_range_holds_is_refused(spans: SpanTable, range: KeyRange) -> None:
    refused = spans.open(SpanOpening(1, "a", 1, range), available_ts=0, now_s=0.0)
    assert isinstance(refused, SpanRefused)
    assert refused.from_ts == 0


def test_a_range_that_was_wanted_before_goes_on_where_it_is(spans: SpanTable) -> None:
    opening, _ = opened(spans)
    spans.resolve(opening, 150)
    changed = spans.want({AZ: CommitTs(7), KeyRange(b"zz", b"zzz"): CommitTs(9)}, now_s=0.0)
    assert (changed.begun, changed.ended, changed.losses) == ([KeyRange(b"zz", b"zzz")], [], [])
    assert [wanted.upto_ts() for wanted in spans] == [150, 9]
    assert spans.resolve(opening, 160) == [Pulled(AZ, CommitTs(160))]


def test_a_range_that_ended_and_is_wanted_again_begins_again(spans: SpanTable) -> None:
    opening, _ = opened(spans)
    spans.resolve(opening, 150)
    changed = spans.want({}, now_s=0.0)
    assert [(loss.opening, loss.range, loss.to) for loss in changed.losses] == [(opening, AZ, "")]
    spans.want({AZ: CommitTs(110)}, now_s=0.0)
    assert spans.take(opening, [sent(b"b", 160)]) == []
    assert spans.resolve(opening, 170) == []
    assert opened(spans, sender="b")[1].from_ts == 110


def test_durable_is_reported_to_the_owners_and_never_goes_back(spans: SpanTable) -> None:
    left, _ = opened(spans, AM)
    right, _ = opened(spans, MZ, sender="b")
    assert spans.acknowledge({AZ: CommitTs(130), KeyRange(b"0", b"1"): CommitTs(140)}) == [(left, 130), (right, 130)]
    assert spans.acknowledge({AZ: CommitTs(120)}) == []
    assert opened(spans, sender="c")[1].durable_ts == 130


@pytest.mark.parametrize(
    ("entry", "wrong"),
    [
        (sent(b"", 130), "outside the span"),
        (sent(b"zz", 130), "outside the span"),
        (sent(b"b", 130, start_ts=130), "not above start_ts"),
        (sent(b"b", 120), "not above the span's own mark 120"),
        (sent(b"b", 1 << 63), "commit_ts 9223372036854775808, which is no TSO"),
        (sent(b"b", (1 << 64) - 1), "which is no TSO"),
        (sent(b"b", 130, op=2), "a delete with a value"),
        (sent(b"b", 130, b"", op=1), "a put without a value"),
        (sent(b"b", 130, op=7), "op 7"),
    ],
)
def test_a_broken_entry_is_named_with_its_sender(spans: SpanTable, entry: object, wrong: str) -> None:
    opening, _ = opened(spans, sender="node-7")
    spans.resolve(opening, 120)
    with pytest.raises(MessageUnreadable, match=wrong) as raised:
        spans.take(opening, [sent(b"b", 125), entry])  # type: ignore[list-item]  # generated without types
    assert "node-7" in str(raised.value)


def test_a_mark_that_goes_back_is_a_broken_sender(spans: SpanTable) -> None:
    opening, _ = opened(spans)
    spans.resolve(opening, 120)
    spans.resolve(opening, 120)
    with pytest.raises(MessageUnreadable, match="goes back from 120 to 119"):
        spans.resolve(opening, 119)


@pytest.mark.parametrize("ts", [1 << 63, (1 << 64) - 1])
def test_a_mark_that_the_log_cannot_hold_is_a_broken_sender(spans: SpanTable, ts: int) -> None:
    opening, _ = opened(spans)
    assert spans.resolve(opening, (1 << 63) - 1)
    with pytest.raises(MessageUnreadable, match=f"its mark {ts} is no TSO"):
        spans.resolve(opening, ts)


def test_an_empty_span_is_a_broken_sender(spans: SpanTable) -> None:
    with pytest.raises(MessageUnreadable, match="empty or reversed"):
        spans.open(SpanOpening(1, "a", 1, KeyRange(b"m", b"m")), available_ts=0, now_s=0.0)


def test_ranges_are_reported_as_people_know_them() -> None:
    assert describe(rows_of(104)) == "table 104"
    assert describe(rows_of(104, keyspace=b"x\0\0\1")) == "table 104"
    assert describe(KeyRange(rows_of(104).start + b"\x80", rows_of(104).end)).startswith("table 104 (74")
    assert describe(AZ) == "keys 61 to 7a"


# ---- any interleaving ---------------------------------------------------------------------------------------------------

LETTERS = "abcdef"
RANGES = {"left": KeyRange(b"a", b"d"), "right": KeyRange(b"d", b"g")}
EDGES = [b"a", b"b", b"c", b"d", b"e", b"f", b"g"]


@dataclass(eq=False)
class Pushing:
    """A span as its sender sees it: what it must still send, and what it sent. It never hears that it lost anything."""

    opening: SpanOpening
    from_ts: int
    sent: set[tuple[bytes, int]] = field(default_factory=set)
    marked_ts: int = 0


class Interleavings(RuleBasedStateMachine):
    """The cluster's history is known; every Pulled is held against it. Senders obey feed.proto and know nothing of each other."""

    def __init__(self) -> None:
        super().__init__()
        self.spans = SpanTable()
        self.now_ts = 100
        self.history: list[tuple[bytes, int]] = []
        self.wanted: dict[KeyRange, int] = {}
        self.delivered: dict[KeyRange, set[tuple[bytes, int]]] = {}
        self.pushing: list[Pushing] = []
        self.streams = 0

    @initialize()
    def want_all(self) -> None:
        self.want([*RANGES], 0)

    @rule(names=st.lists(st.sampled_from([*RANGES]), unique=True), back=st.integers(0, 20))
    def want(self, names: list[str], back: int) -> None:
        wanted = {RANGES[name]: CommitTs(max(self.now_ts - back, 1)) for name in names}
        self.spans.want(wanted, now_s=0.0)
        self.wanted = {range: self.wanted.get(range, ts) for range, ts in wanted.items()}
        self.delivered = {range: self.delivered.get(range, set()) for range in wanted}

    @rule(letter=st.sampled_from(LETTERS))
    def commit(self, letter: str) -> None:
        self.now_ts += 1
        self.history.append((letter.encode(), self.now_ts))

    @rule(edges=st.lists(st.sampled_from(EDGES), min_size=2, max_size=2, unique=True))
    def open(self, edges: list[bytes]) -> None:
        self.streams += 1
        opening = SpanOpening(self.streams, f"s{self.streams}", 1, KeyRange(*sorted(edges)))
        answer = self.spans.open(opening, available_ts=0, now_s=0.0)
        if isinstance(answer, Opened):
            self.pushing.append(Pushing(opening, answer.from_ts))

    @precondition(lambda self: self.pushing)
    @rule(data=st.data(), count=st.integers(1, 4))
    def send(self, data: st.DataObject, count: int) -> None:
        one = data.draw(st.sampled_from(self.pushing))
        self._send(one, data.draw(st.permutations(self._missing(one)))[:count])

    @precondition(lambda self: self.pushing)
    @rule(data=st.data())
    def mark(self, data: st.DataObject) -> None:
        """As high as the sender may: below the first that it has not sent."""
        one = data.draw(st.sampled_from(self.pushing))
        highest = min((ts - 1 for _, ts in self._missing(one)), default=self.now_ts)
        self._mark(one, max(highest - data.draw(st.integers(0, 2)), one.marked_ts))

    @precondition(lambda self: self.pushing)
    @rule(data=st.data())
    def die(self, data: st.DataObject) -> None:
        one = data.draw(st.sampled_from(self.pushing))
        self.pushing.remove(one)
        self.spans.close(one.opening, now_s=0.0)

    def _missing(self, one: Pushing) -> list[tuple[bytes, int]]:
        return [
            (key, ts)
            for key, ts in self.history
            if key in one.opening.range and ts > max(one.from_ts, one.marked_ts) and (key, ts) not in one.sent
        ]

    def _send(self, one: Pushing, entries: list[tuple[bytes, int]]) -> None:
        one.sent |= set(entries)
        for entry in self.spans.take(one.opening, [sent(key, ts) for key, ts in entries]):
            for range, delivered in self.delivered.items():
                if entry.key in range:
                    delivered.add((entry.key, entry.commit_ts))

    def _mark(self, one: Pushing, ts: int) -> None:
        one.marked_ts = ts
        for pulled in self.spans.resolve(one.opening, ts):
            wanted = next(range for range in self.wanted if range.start <= pulled.range.start and pulled.range.end <= range.end)
            due = {(key, at) for key, at in self.history if key in pulled.range and self.wanted[wanted] < at <= pulled.upto_ts}
            assert due <= self.delivered[wanted], f"{pulled} passes {due - self.delivered[wanted]}"

    @invariant()
    def parts_cover_their_ranges_without_gap_or_overlap(self) -> None:
        assert {wanted.range for wanted in self.spans} == self.wanted.keys()
        for wanted in self.spans:
            edges = [(part.start, part.end) for part in wanted.parts]
            assert [edges[0][0], *(end for _, end in edges)] == [*(start for start, _ in edges), wanted.range.end]
            assert edges[0][0] == wanted.range.start
            for part in wanted.parts:
                assert part.owner is None or part in part.owner.parts

    def teardown(self) -> None:
        """Whatever happened, a sender that comes and sends everything completes everything."""
        for range in self.wanted:
            self.streams += 1
            opening = SpanOpening(self.streams, "last", 1, range)
            answer = self.spans.open(opening, available_ts=0, now_s=0.0)
            assert isinstance(answer, Opened)
            last = Pushing(opening, answer.from_ts)
            self._send(last, self._missing(last))
            self._mark(last, self.now_ts)
        assert all(wanted.upto_ts() == max(self.now_ts, self.wanted[wanted.range]) for wanted in self.spans)


TestInterleavings = Interleavings.TestCase
TestInterleavings.settings = settings(max_examples=examples(150), stateful_step_count=40, deadline=None)
