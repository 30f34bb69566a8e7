"""Who owns which part of a wanted range, and up to where each part is resolved: the rules at the top of feed.proto, without I/O.

- A wanted range is cut into parts without gap or overlap. Each has `upto_ts`, up to where all of it has been delivered, and one
  owner or none: the span that was opened last over it.
- `open` answers from where the new owner must send: the lowest `upto_ts` of what it takes over. So whatever a previous
  owner delivered above that counts for nothing, and the new owner of a part sends all of it.
- Entries and marks count for the parts that their span owns at that moment. Others are dropped: their owner sends them again.
- `Pulled` is said for a part when its own owner's mark passes it: all entries between two of its `upto_ts` came from one owner.
- A sender that contradicts itself (an entry at or below its own mark, a mark that goes back, a key outside its span) is broken
  and raises MessageUnreadable: what else it says cannot be believed.

Time comes in as `now_s`; streams are numbers, senders are names.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple, Protocol

from sidecar.shared.errors import MessageUnreadable
from sidecar.shared.model.nouns import CommitTs
from sidecar.shared.rowcodec.key_values import KeyRange, KvEntry, Pulled

OP_PUT, OP_DELETE = 1, 2
"""`Op` of feed.proto."""

_SIGN_BIT = 1 << 63
TS_END = 1 << 63
"""No TSO reaches it: the log keeps them as signed numbers of 64 bits."""
_NOTHING = CommitTs(0)
_MEND = "this sender is at fault: mend or replace it; its stream may be sent again from what is durable"


class SentEntry(Protocol):
    """`Entry` of feed.proto."""

    op: int
    key: bytes
    value: bytes
    old_value: bytes
    start_ts: int
    commit_ts: int
    region: int


@dataclass(eq=False, slots=True)
class SpanOpening:
    """A span as one stream opened it. `parts`: what it still owns, in key order; none: all is lost or closed. `entries`: how many
    were sent of it; `marked_ts`: its last mark."""

    stream: int
    sender: str
    span: int
    range: KeyRange
    parts: list[SpanPart] = field(default_factory=list)
    marked_ts: int = 0
    entries: int = 0

    def __str__(self) -> str:
        return f"sender {self.sender}, span {self.span} of {describe(self.range)}"


@dataclass(eq=False, slots=True)
class SpanPart:
    """`since_s`: when it lost its last owner, or was wanted; of use while it has none."""

    start: bytes
    end: bytes
    upto_ts: CommitTs
    owner: SpanOpening | None
    since_s: float


class TooLate(NamedTuple):
    """Who offered a span from `available_ts` only."""

    sender: str
    available_ts: int


@dataclass(eq=False, slots=True)
class WantedSpan:
    """A wanted range. `too_late`: the last sender that could have had it, were it not for a hole."""

    range: KeyRange
    parts: list[SpanPart]
    durable_ts: CommitTs = _NOTHING
    too_late: TooLate | None = None

    def upto_ts(self) -> CommitTs:
        return min(part.upto_ts for part in self.parts)


class Loss(NamedTuple):
    """`to`: the sender that took `range` over from `opening`; empty: nobody wants it any more."""

    opening: SpanOpening
    range: KeyRange
    to: str


class Opened(NamedTuple):
    opening: SpanOpening
    from_ts: CommitTs
    durable_ts: CommitTs
    losses: Sequence[Loss]


class SpanRefused(NamedTuple):
    """`from_ts` 0: no wanted range holds the span; else it is needed from there, and the sender has less."""

    from_ts: CommitTs
    text: str


class Changed(NamedTuple):
    """What a `want` changed."""

    begun: Sequence[KeyRange]
    ended: Sequence[KeyRange]
    losses: Sequence[Loss]


class SpanTable:
    """All wanted ranges. Not for two threads at once."""

    def __init__(self) -> None:
        self._wanted: dict[KeyRange, WantedSpan] = {}
        self._starts: list[bytes] = []
        self._sorted: list[WantedSpan] = []

    def __iter__(self) -> Iterator[WantedSpan]:
        """In key order."""
        return iter(self._sorted)

    def want(self, wanted: Mapping[KeyRange, CommitTs], *, now_s: float) -> Changed:
        """As Puller.want."""
        ended = [known for key, known in self._wanted.items() if key not in wanted]
        begun = [key for key in wanted if key not in self._wanted]
        losses = [loss for known in ended for loss in _losses(known.parts, "")]
        for known in ended:
            for part in known.parts:
                if part.owner is not None:
                    part.owner.parts = []
            del self._wanted[known.range]
        for key in begun:
            self._wanted[key] = WantedSpan(key, [SpanPart(key.start, key.end, wanted[key], None, now_s)])
        self._sorted = [self._wanted[key] for key in sorted(self._wanted)]
        self._starts = [known.range.start for known in self._sorted]
        return Changed(begun, [known.range for known in ended], losses)

    def open(self, opening: SpanOpening, *, available_ts: int, now_s: float) -> Opened | SpanRefused:
        """Give `opening` its range, or say why not. Changes nothing when refused."""
        start, end = opening.range
        if not start < end:
            raise MessageUnreadable(f"{opening}: the span is empty or reversed", hint=_MEND)
        known = self._holding(start)
        if known is None or end > known.range.end:
            return SpanRefused(_NOTHING, f"no wanted range holds all of {describe(opening.range)}")
        taken, kept = _cut(known.parts, start, end)
        from_ts = min(part.upto_ts for part in taken)
        if available_ts > from_ts:
            known.too_late = TooLate(opening.sender, available_ts)
            return SpanRefused(from_ts, f"{describe(opening.range)} is needed from {from_ts}, and can be given from {available_ts} only")
        known.too_late = None
        losses = _losses(taken, opening.sender)
        for part in taken:
            part.owner, part.since_s = opening, now_s
        _set_parts(known, [*taken, *kept], {opening, *(loss.opening for loss in losses)})
        return Opened(opening, from_ts, known.durable_ts, losses)

    def close(self, opening: SpanOpening, *, now_s: float) -> None:
        """Its parts have no owner from now on. Again: nothing."""
        if opening.parts:
            known = self._holding(opening.parts[0].start)
            assert known is not None
            for part in opening.parts:
                part.owner, part.since_s = None, now_s
            _set_parts(known, known.parts, {opening})

    def take(self, opening: SpanOpening, entries: Sequence[SentEntry]) -> list[KvEntry]:
        """Those that count and are no repeats. Raises MessageUnreadable for a broken sender."""
        opening.entries += len(entries)
        if not opening.parts:
            return []
        start, end = opening.range
        first = opening.parts[0]
        whole = first if (first.start, first.end) == opening.range else None
        upto_ts = whole.upto_ts if whole is not None else 0
        marked_ts = opening.marked_ts
        starts = [part.start for part in opening.parts]
        taken = []
        for entry in entries:
            key, commit_ts, start_ts = entry.key, entry.commit_ts, entry.start_ts
            value = entry.value
            in_time = marked_ts < commit_ts > start_ts and commit_ts < TS_END
            if not start <= key < end or not in_time or entry.op != (OP_PUT if value else OP_DELETE):
                raise _broken_entry(opening, entry)
            if whole is None:
                part = opening.parts[max(bisect_right(starts, key) - 1, 0)]
                if not part.start <= key < part.end:
                    continue
                upto_ts = part.upto_ts
            if commit_ts > upto_ts:
                taken.append(KvEntry(CommitTs(commit_ts), start_ts, key, value, entry.old_value, entry.region))
        return taken

    def resolve(self, opening: SpanOpening, ts: int) -> list[Pulled]:
        """A mark of the span. Raises MessageUnreadable if it goes back or is none."""
        if ts < opening.marked_ts:
            raise MessageUnreadable(f"{opening}: its mark goes back from {opening.marked_ts} to {ts}", hint=_MEND)
        if ts >= TS_END:
            raise MessageUnreadable(f"{opening}: its mark {ts} is no TSO", hint=_MEND)
        opening.marked_ts = ts
        passed = [part for part in opening.parts if part.upto_ts < ts]
        if not passed:
            return []
        for part in passed:
            part.upto_ts = CommitTs(ts)
        if len(opening.parts) > 1:
            known = self._holding(passed[0].start)
            assert known is not None
            _set_parts(known, known.parts, {opening})
        return [Pulled(KeyRange(part.start, part.end), part.upto_ts) for part in opening.parts if part.upto_ts == ts]

    def acknowledge(self, durable: Mapping[KeyRange, CommitTs]) -> list[tuple[SpanOpening, CommitTs]]:
        """What to tell: each owner of a range whose durable ts has moved. Ranges that are not wanted any more are passed over."""
        acknowledgements = []
        for key, ts in durable.items():
            known = self._wanted.get(key)
            if known is not None and ts > known.durable_ts:
                known.durable_ts = ts
                acknowledgements += [(owner, ts) for owner in dict.fromkeys(part.owner for part in known.parts) if owner is not None]
        return acknowledgements

    def _holding(self, key: bytes) -> WantedSpan | None:
        at = bisect_right(self._starts, key) - 1
        return self._sorted[at] if at >= 0 and key in self._sorted[at].range else None


def _cut(parts: Iterable[SpanPart], start: bytes, end: bytes) -> tuple[list[SpanPart], list[SpanPart]]:
    """Copies of the parts, cut at `start` and `end`: those within, and the others."""
    within: list[SpanPart] = []
    without: list[SpanPart] = []
    for part in parts:
        edges = [part.start, *(edge for edge in (start, end) if part.start < edge < part.end), part.end]
        for low, high in pairwise(edges):
            side = within if start <= low and high <= end else without
            side.append(SpanPart(low, high, part.upto_ts, part.owner, part.since_s))
    return within, without


def _losses(parts: Iterable[SpanPart], to: str) -> list[Loss]:
    """Neighbours of one owner are one loss."""
    losses: list[Loss] = []
    for part in parts:
        if part.owner is None:
            continue
        if losses and losses[-1].opening is part.owner and losses[-1].range.end == part.start:
            losses[-1] = Loss(part.owner, KeyRange(losses[-1].range.start, part.end), to)
        else:
            losses.append(Loss(part.owner, KeyRange(part.start, part.end), to))
    return losses


def _set_parts(known: WantedSpan, parts: Iterable[SpanPart], owners: set[SpanOpening]) -> None:
    """Neighbours that differ in nothing become one; `owners`: whose parts may have changed."""
    joined: list[SpanPart] = []
    for part in sorted(parts, key=lambda part: part.start):
        last = joined[-1] if joined else None
        if last is not None and last.owner is part.owner and last.upto_ts == part.upto_ts:
            joined[-1] = SpanPart(last.start, part.end, last.upto_ts, last.owner, min(last.since_s, part.since_s))
        else:
            joined.append(part)
    known.parts = joined
    for owner in {*owners, *(part.owner for part in joined)} - {None}:
        assert owner is not None
        owner.parts = [part for part in joined if part.owner is owner]


def _broken_entry(opening: SpanOpening, entry: SentEntry) -> MessageUnreadable:
    start, end = opening.range
    if not start <= entry.key < end:
        wrong = f"key {entry.key.hex() or '(empty)'} is outside the span"
    elif entry.commit_ts >= TS_END:
        wrong = f"commit_ts {entry.commit_ts}, which is no TSO"
    elif entry.commit_ts <= entry.start_ts:
        wrong = f"commit_ts {entry.commit_ts} is not above start_ts {entry.start_ts}"
    elif entry.commit_ts <= opening.marked_ts:
        wrong = f"commit_ts {entry.commit_ts} is not above the span's own mark {opening.marked_ts}"
    elif entry.op in (OP_PUT, OP_DELETE):
        wrong = "a put without a value" if entry.op == OP_PUT else "a delete with a value"
    else:
        wrong = f"op {entry.op}, expected 1 (put) or 2 (delete)"
    return MessageUnreadable(f"{opening}: an entry with {wrong} (key {entry.key.hex()}, commit_ts {entry.commit_ts})", hint=_MEND)


def describe(span: KeyRange) -> str:
    """For people: `table 104`, with the keys where it is not one of a table's own."""
    key = span.start[4:] if span.start[:1] == b"x" else span.start
    if len(key) < 9 or key[:1] != b"t":
        return f"keys {span.start.hex()} to {span.end.hex()}"
    table = f"table {int.from_bytes(key[1:9], 'big') ^ _SIGN_BIT}"
    whole = key[9:] == b"_r" and span.end == span.start[:-1] + b"s"
    return table if whole else f"{table} ({span.start.hex()} to {span.end.hex()})"
