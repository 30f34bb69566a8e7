"""How much of a dump the log may have that sinks have not accepted, so that the live changes are delivered within a bound (P3).

Two bounds. What is read and not in the log holds no live change up, and is as much as the way of the marks needs (`flight`). What is in the
log and not accepted stands before live segments: a window closes there only if it fits the **width** of each sink on its own.

    width = gain x slack / (seconds that a dump's row adds)          slack = limit - delivery without a dump - fixed cost of a dump's batch

- The limit of live delivery is the bound, where the bound can be kept with a dump that is worth its name. A batch with any dump rows has
  a fixed cost F (a Spark job, a commit), and a narrower dump does not make it less. While rows cost less than F, narrowing gains little
  latency and loses most of the throughput. So the limit is never below what batches of 2 x F come to: half of the sink's throughput, and
  twice the latency that any dump costs there. A bound below that is exceeded, and `SinkState` says by how much and why.
- Without a bound of the operator's it follows what delivery takes without a dump, and never exceeds `max_s` (of a sink that collects
  rows, beyond its wait for them). Where delivery takes longer without a dump, the sink is overloaded, which no bound should hide.
- For the same reason a width is never below LEAST_ROWS_S rows for each second that delivery takes now, or half of what the sink could
  take in that time if that is less: whatever holds delivery up (a machine that is busy), a dump continues at a pace that ends.
- A strict bound is kept as far as it can be: the dump then gets LEAST_SHARE of what cannot be avoided, however slow it is.
- Forward: all of the width may stand before a live segment at once; then that segment is delivered at the bound. What a row adds, and
  what delivery takes without any, comes from the sink's batches (`cost`). A jump in either narrows the width with the second batch
  that shows it.
- Feedback: rows count until their acceptance is reported, and a live segment seldom comes behind all of them; so the width may be several
  times more (`gain`). What was delivered under one width is judged once what was in the log before it has been accepted: near the bound
  the gain falls by as much, at most by half. While the dump was held back by this sink it rises: well below the bound, and up to 1
  wherever it was not near it. The reason: under a narrow bound the fixed cost of batches is most of the bound, however few rows they have.
  A gain that had fallen for a stall of the machine would stay down. For the same reason it does not fall below 1 where rows are less than
  half of a batch and the limit is the bound (`_bare`): another process that has the machine makes each batch long, however narrow.
- A batch of which no segment is a sample (`live`: the worker was away, or is behind since then) says nothing: not what it cost, nor how
  wide a dump may be.
- A dump for some sinks: only their widths hold. Another sink is **beside** it: its batches have none of its rows and still compete with
  it for the machine. What its delivery takes without a dump is not learned meanwhile. Where it comes near its own bound its gain falls as
  above, and the dump gets that share of the width, GAIN_MIN at least.
- What is not known is narrow: the first batch with dump rows has NARROW_ROWS, and each one that was delivered below the bound doubles
  what the next may have.
- A dump always continues: with nothing of it in the log and not delivered, one window may close, however narrow the width and slow the
  sink. But not while there is no Spark and the worker merges no windows itself: live changes after a window would wait for that.

A sink takes a segment from the moment its manifest was written, by the sidecar's clock, to the moment at which the worker says that
it was accepted, in the sidecar's clock (`clocks`); where no batch shows that, to the moment at which the report was read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from sidecar.core.dump_start import UNLIMITED, Demand, DumpRoom
from sidecar.pace.clocks import Clocks
from sidecar.pace.cost import Cost
from sidecar.pace.flight import LEAST_ROWS_S, Flight
from sidecar.pace.live import LIVE_OVER_S, Live
from sidecar.shared.model.chunk import ClosedWindow
from sidecar.shared.model.messages import DELIVERY_BOUND_MAX_S
from sidecar.shared.model.nouns import FIRST_SEQ, Seq
from sidecar.shared.model.sink_delivery import BatchDone, ReportTimes, SinkDelivery

BOUND_LEAST_S = 0.5
BOUND_SHARE = 1.2
"""Without a bound of the operator's: this much, or this many times what delivery takes without a dump, whichever is more."""
LEAST_SHARE = 0.1
"""Of what delivery takes without a dump's rows: what they may add even if a strict bound leaves nothing."""
WORTH_BATCHES = 2.0
"""In fixed costs of a batch: at that length half of a batch is rows."""
WAITS = 2.0
WAITS_MAX = 3.0
"""A segment waits for the batch that has just begun, and then for its own. Measured where there was no dump; pauses between batches
make it less, the worker's own pauses a little more."""
NARROW_ROWS = 500
"""Of a sink whose batches are not known yet: a table's first chunk."""
GROWTH = 8
WINDOWS = 4
"""A width is so many windows: sinks have some while others are on their way."""
CHEAP = 0.1
"""Of the limit of live delivery: a window that takes no longer is not worth being cut."""
HALF = 0.5
"""Of a sink's throughput."""
GAIN_MIN, GAIN_MAX = 0.25, 6.0
GAIN_UP_MAX, GAIN_DOWN_MIN, GAIN_DOWN_MAX = 1.3, 0.5, 0.9
"""In one round. Up to 1 a gain rises as fast as it may fall."""
OVER, AIM, WELL_BELOW = 0.85, 0.58, 0.45
"""Of the slack: from where a gain falls, what it is changed for, and below what it rises. Between them is what batches differ by."""
ROUND_BATCHES = 5
ROUND_S = 2.5
"""At least so many with dump rows, and so long, before a gain rises: of a fast sink its slowest segments are to be among them."""


class Written(NamedTuple):
    """A segment in the log: when its manifest was durable, and what of a dump closed in it. `rows` counts a chunk as one row more."""

    seq: Seq
    at_s: float
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class SinkState:
    """One sink for people. `live_s`: p99 of manifest -> accepted (`live`), or the age of what waits if that is more. `without_s`: what
    that is without a dump, 0 if not known. `rows`: of a dump, that may be in the log and not delivered. `holds`: it keeps the dump from
    more. `lag_s`: how long the oldest segment that it has not accepted has been in the log; in a `SidecarStatus` from the wall clock to
    where it has accepted all. `error`: why it does not continue. `limit_s`: what
    the dump keeps `live_s` within; above `bound_s` because a batch with dump rows takes `fixed_s`, however few they are. `began`: as of
    SinkDelivery. `median_s`: the p50 of the same, 0 without a sample. `overloaded`: live changes alone take longer than a dump may make
    them take, besides what the sink gathers for."""

    sink: str
    live_s: float
    bound_s: float
    without_s: float
    rows: int
    holds: bool
    lag_s: float = 0.0
    error: str = ""
    limit_s: float = 0.0
    fixed_s: float = 0.0
    began: Seq = FIRST_SEQ
    median_s: float = 0.0
    overloaded: bool = False


class Bound(NamedTuple):
    """The operator's bound of live delivery, 0 for none. `strict`: it holds, however slow the dump is. `max_s`: where there is none."""

    seconds: float = 0.0
    strict: bool = False
    max_s: float = DELIVERY_BOUND_MAX_S


@dataclass(slots=True)
class Gain:
    """The feedback on one width. A round: `flush` rows that were in the log at its beginning are accepted, then batches are judged."""

    value: float = 1.0
    held: bool = False
    flush: int = 0
    batches: int = 0
    used: float = 0.0
    since_s: float = 0.0

    def judge(self, used: float | None, *, rows: int, at_s: float, queued_rows: int) -> None:
        """A batch with `rows` of the dump was accepted at `at_s`, or the one after it. `used`: how much of the slack the slowest of its
        samples took, 1 at the bound; None: it has none. `queued_rows`: of the dump, in the log now."""
        if self.flush > 0:
            self.flush -= rows
            self.since_s = at_s
            return
        if used is None:
            return
        self.used = max(self.used, used)
        self.batches += rows > 0
        if self.used > OVER:
            self._round(min(max(AIM / self.used, GAIN_DOWN_MIN), GAIN_DOWN_MAX), at_s=at_s, flush=queued_rows)
        elif self.batches >= ROUND_BATCHES and at_s - self.since_s >= ROUND_S:
            change, most = 1.0, max(GAIN_UP_MAX, min(1.0 / self.value, 1.0 / GAIN_DOWN_MIN))
            if self.held and self.used < WELL_BELOW:
                change = AIM / max(self.used, AIM / most)
            elif self.held and self.value < 1.0:
                change = min(1.0 / self.value, GAIN_UP_MAX)
            self._round(change, at_s=at_s, flush=0)

    def _round(self, change: float, *, at_s: float, flush: int) -> None:
        self.value = min(max(self.value * change, GAIN_MIN), GAIN_MAX)
        self.held, self.flush, self.batches, self.used, self.since_s = False, flush, 0, 0.0, at_s


class SinkPace:
    """One sink: what waits for it, what its batches cost, how wide a dump may be."""

    def __init__(self, waiting: Iterable[Written]) -> None:
        self.waiting = deque(waiting)
        self.queued_rows, self.queued_bytes = sum(one.rows for one in self.waiting), sum(one.bytes for one in self.waiting)
        self.gain = Gain()
        self.error, self.began, self.gather_s = "", FIRST_SEQ, 0.0
        self._cost, self._live = Cost(), Live()
        self._waits = WAITS
        self._last: Seq | None = None
        self._last_event_s = self._dump_s = float("-inf")
        self._before_rows = 0
        self._proven_rows = NARROW_ROWS
        self.beside = False
        """A dump that is not for it has rows open."""

    def resumed(self, waiting: Iterable[Written]) -> SinkPace:
        """The same sink in the next term: what it costs, and how much of a dump was good for it."""
        pace = SinkPace(waiting)
        pace.gain = Gain(self.gain.value)
        pace.error, pace.began, pace.gather_s = self.error, self.began, self.gather_s
        pace._cost, pace._live, pace._waits = self._cost, self._live, self._waits
        pace._last, pace._last_event_s, pace._dump_s = self._last, self._last_event_s, self._dump_s
        pace._proven_rows = self._proven_rows
        return pace

    def wrote(self, written: Written) -> None:
        self.waiting.append(written)
        self.queued_rows += written.rows
        self.queued_bytes += written.bytes

    def receive(self, reported: SinkDelivery, clocks: Clocks, *, now_s: float, bound: Bound) -> None:
        """What the worker reports of it. Batches of an earlier report may be in it again."""
        for batch in reported.batches:
            if self._last is None or batch.last > self._last:
                self._accepted(batch, clocks.at_s(batch.accepted_ms, at_most_s=now_s), bound)
        if reported.accepted is not None and self.waiting and self.waiting[0].seq <= reported.accepted:
            self._accepted(self._guessed(reported.accepted, now_s), now_s, bound)
        self._last_event_s, self.error, self.began, self.gather_s = now_s, reported.error, reported.began, reported.gather_s

    def room(self, bound: Bound, *, share: float = 1.0) -> tuple[int, int, int]:
        """Rows and bytes of a dump that the log may take on now, and the width in rows; `share`: what sinks beside it leave of that."""
        if not self.queued_rows:
            self.gain.flush = 0
        rows, size = (int(wide * share) for wide in self.width(bound))
        return rows - self.queued_rows, size - self.queued_bytes, rows

    def width(self, bound: Bound) -> tuple[int, int]:
        """Rows and bytes of a dump that may be in the log and not accepted."""
        if self._cost.row_s is None:
            return NARROW_ROWS, UNLIMITED.bytes
        slack_s = self.limit_s(bound) - self.without_s
        takes_s = min(self._live.quantile_s(0.99), max(LIVE_OVER_S, self.without_s))  # not a stall
        least = 0 if bound.strict else int(min(LEAST_ROWS_S, HALF / self._cost.row_s) * takes_s)
        rows = max(min(int(self.gain.value * self._cost.rows_in(slack_s)), self._proven_rows), least)
        more_s = max(self.gain.value * (slack_s - self._cost.job_s), least * self._cost.row_s)
        return rows, int(more_s / byte_s) if (byte_s := self._cost.byte_s) is not None else UNLIMITED.bytes

    def window_rows(self, bound: Bound) -> int:
        """How many rows a window should have; of a narrow width more than its share if they cost little, for each takes two marks."""
        if self._cost.row_s is None:
            return NARROW_ROWS
        return max(self.width(bound)[0] // WINDOWS, min(NARROW_ROWS, int(CHEAP * self.limit_s(bound) / self._cost.row_s)))

    @property
    def without_s(self) -> float:
        """What delivery takes without a dump."""
        return self._waits * self._cost.quiet_s

    def bound_s(self, bound: Bound) -> float:
        return bound.seconds or min(max(BOUND_LEAST_S, BOUND_SHARE * self.without_s), bound.max_s + WAITS * self.gather_s)

    def overloaded(self, bound: Bound) -> bool:
        return self.without_s > (bound.seconds + WAITS * self.gather_s if bound.seconds else self.bound_s(bound))

    def limit_s(self, bound: Bound) -> float:
        """What live delivery is kept within. Where that is the floor and not the bound, the gain falls from the floor on, not below it."""
        if bound.strict:
            return max(self.bound_s(bound), (self.without_s + self._cost.job_s) * (1 + LEAST_SHARE))
        floor_s = WAITS * WORTH_BATCHES * self._cost.fixed_s
        return self.bound_s(bound) if floor_s <= self.bound_s(bound) else floor_s / OVER

    @property
    def fixed_s(self) -> float:
        """What a batch with any dump rows takes."""
        return self._cost.fixed_s

    def live_s(self, now_s: float) -> float:
        return max(self._live.quantile_s(0.99), self.lag_s(now_s))

    def median_s(self) -> float:
        return self._live.quantile_s(0.5)

    def lag_s(self, now_s: float) -> float:
        return now_s - self.waiting[0].at_s if self.waiting else 0.0

    def _guessed(self, accepted: Seq, now_s: float) -> BatchDone:
        """What was accepted since the last call, as a batch that began when its first segment was there."""
        passed = [one for one in self.waiting if one.seq <= accepted]
        seconds = now_s - max(self._last_event_s, passed[0].at_s)
        return BatchDone(accepted, len(passed), 0, sum(one.rows for one in passed), seconds, 0.0, 0)

    def _accepted(self, batch: BatchDone, at_s: float, bound: Bound) -> None:
        written_s: list[float] = []
        size = 0
        while self.waiting and self.waiting[0].seq <= batch.last:
            one = self.waiting.popleft()
            self.queued_rows -= one.rows
            self.queued_bytes -= one.bytes
            size += one.bytes
            written_s.append(one.at_s)
        self._last = batch.last
        left_s = self.waiting[0].at_s if self.waiting else inf
        took_s = self._live.accepted(written_s, began_s=at_s - batch.seconds, at_s=at_s, left_s=left_s)
        if (took_s or not written_s) and (not self.beside or not self._cost.quiet_s):
            self._cost.batch(batch, at_s=at_s, dump_bytes=size)
        if batch.dump_rows or self.beside:
            self._dump_s = at_s
        known = (since_s := self._live.since_s()) is not None and self._dump_s < since_s
        if took_s and not batch.dump_rows and known and (quiet_s := self._cost.quiet_s) > 0:
            self._waits = min(max(self._live.quantile_s(0.99) / quiet_s, 1.0), WAITS_MAX)
        if written_s and (batch.dump_rows or self._before_rows or self.beside):
            self._judge(batch, took_s, at_s, bound)
        self._before_rows = batch.dump_rows

    def _judge(self, batch: BatchDone, took_s: Sequence[float], at_s: float, bound: Bound) -> None:
        """A batch with rows of a dump or the one after it, and of a sink beside a dump any."""
        slack_s = max(self.limit_s(bound) - self.without_s, 1e-9)
        used = (max(took_s) - self.without_s) / slack_s if took_s else None
        rows, queued_rows = batch.dump_rows, self.queued_rows
        if self.beside:  # it sees no row of the dump: what was there is over after as many batches
            rows, queued_rows = 1, ROUND_BATCHES
        elif used is not None and used <= OVER:
            self._proven_rows = min(GROWTH * self._proven_rows, UNLIMITED.rows) if rows else self._proven_rows
        elif used is not None and self.gain.value <= 1.0 and self._bare(bound, max(rows, self._before_rows)):
            used = OVER
        self.gain.judge(used, rows=rows, at_s=at_s, queued_rows=queued_rows)

    def _bare(self, bound: Bound, rows: int) -> bool:
        """Whether a batch with so many takes long without them: a narrower dump would lose more than live delivery gains. Not where the
        limit allows for that already."""
        return self.limit_s(bound) <= self.bound_s(bound) and not bound.strict and not self._cost.mostly_rows(rows)


class Controller:
    """All sinks. `wrote` and `receive` as things happen, then `room`, before the dump decides what it reads next and a segment is written.
    `starting`: as reported, nothing merges a window yet."""

    def __init__(self) -> None:
        self._sinks: dict[str, SinkPace] = {"": SinkPace(())}  # until the first report: nothing is accepted
        self._clocks = Clocks()
        self._bound = Bound()
        self._holds: str | None = None
        self._now_s = 0.0
        self.flight = Flight()
        self.starting = False

    def resume(self, before: Controller) -> None:
        """At the beginning of a term: with what an earlier one of this process has learned. What waits is this term's."""
        waiting = self._sinks[""].waiting
        self._sinks = {name: sink.resumed(waiting) for name, sink in before._sinks.items()}
        self._clocks, self.flight = before._clocks, before.flight.resumed()

    def wrote(self, seq: Seq, at_s: float, windows: Collection[ClosedWindow] = ()) -> None:
        """Segment `seq` is in the log, and with it what was read in the windows that closed there."""
        for name, sink in self._sinks.items():
            chunks = [chunk for window in windows if _receives(name, window.sinks) for chunk in window.chunks]
            sink.wrote(Written(seq, at_s, sum(chunk.rows + 1 for chunk in chunks), sum(chunk.bytes for chunk in chunks)))

    def receive(self, accepted: Seq | None, sinks: Sequence[SinkDelivery], reported: ReportTimes | None, *, now_s: float) -> None:
        """How far all sinks are, and each of them. Where `sinks` is empty, all are one."""
        if reported is not None:
            self._clocks.receive(reported)
            self.starting = reported.starting
        self._now_s = now_s
        each = {sink.sink: sink for sink in sinks} or {"": SinkDelivery("", accepted)}
        longest = max((sink.waiting for sink in self._sinks.values()), key=len)
        known = self._sinks
        self._sinks = {name: known.get(name) or SinkPace(longest) for name in each}
        for name, sink in self._sinks.items():
            sink.receive(each[name], self._clocks, now_s=now_s, bound=self._bound)

    def room(self, demand: Demand) -> DumpRoom:
        """What a dump may have in the log, and before it, as of the last `receive`."""
        self._bound = bound = Bound(demand.delivery_bound_s, demand.strict_bound, demand.delivery_bound_max_s)
        receiving = {name: sink for name, sink in self._sinks.items() if _receives(name, demand.sinks)} or self._sinks
        beside = {name: sink for name, sink in self._sinks.items() if name not in receiving}
        for name, sink in self._sinks.items():
            sink.beside = name in beside and demand.open_rows > 0
        share, tight = min(((sink.gain.value, name) for name, sink in beside.items()), default=(1.0, ""))
        rooms = {name: sink.room(bound, share=min(share, 1.0)) for name, sink in receiving.items()}
        least = tight if share < 1.0 else min(rooms, key=lambda name: rooms[name][0])
        self._holds = least if demand.held else None
        if demand.held:
            self._sinks[least].gain.held = True
        queued = any(sink.queued_rows for sink in receiving.values())
        rows, size, width = (min(each) for each in zip(*rooms.values(), strict=True))
        width = max(width, 1)
        rows = 0 if self.starting else min(rows, width - 1) if queued else width  # the width itself says that nothing is queued
        window = min(sink.window_rows(bound) for sink in receiving.values())
        return DumpRoom(rows, size, width, window, self.flight.look(demand, width_rows=width, window_rows=window, now_s=self._now_s))

    def lag_s(self, now_s: float) -> float:
        """How long the oldest segment that a sink has not accepted has been in the log; 0 when all is delivered."""
        return max(sink.lag_s(now_s) for sink in self._sinks.values())

    def states(self, now_s: float) -> tuple[SinkState, ...]:
        """Each sink that was reported."""
        bound = self._bound
        return tuple(
            SinkState(
                name, sink.live_s(now_s), sink.bound_s(bound), sink.without_s, sink.width(bound)[0], self._holds == name,
                sink.lag_s(now_s), sink.error, sink.limit_s(bound), sink.fixed_s, sink.began, sink.median_s(),
                sink.overloaded(bound),
            )
            for name, sink in self._sinks.items()
            if name
        )  # fmt: skip


def _receives(sink: str, requested: Collection[str]) -> bool:
    """A dump for these sinks. Of a sink without a name nobody has reported yet."""
    return not requested or not sink or sink in requested
