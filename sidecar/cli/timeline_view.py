"""A timeline in a terminal: what a watch has received of it, and its values as lines of blocks.

- The timeline of a status is of the last hour, or, in a watch, what is new. `WatchedTimeline` keeps the last minutes of it.
- A line covers the last `SPAN_MS`. Each column is the same time and shows the greatest value in it; one in which nothing was measured is
  a space. The newest column is on the right.
- A value with a bound is drawn against it: the lower half of the blocks is within the bound, the upper half above it. So the line says
  the same without colours. The bound of live delivery is for the time in which a dump runs: what was measured in another time is in the
  lower half.
- The scale is that of the greatest value, but not where a few values are far above all others: they are full blocks, and named beside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from ticdc_dump.v1 import control_pb2 as pb

SPAN_MS = 600_000
COLUMN_MS_MIN = 4_000
"""Two samples, so that one that comes late leaves no gap."""
COLUMNS_MIN = 10
"""Where fewer fit, the values stand alone."""
TEXT_WIDTH = 38
"""Of `now 1,234,567, max 1,234,567 in 10 min`: lines below each other are of one width."""
BLOCKS = "▁▂▃▄▅▆▇█"
BLOCKS_ASCII = ".:-=+*#@"
HALF = len(BLOCKS) // 2
ABOVE_STYLE = "red"
USUAL_PART, SPIKE_TIMES, SPIKE_AMONG = 0.95, 4, 20
"""A spike is so many times what this part of the values is within; of fewer values nobody can say what is usual."""
ABOVE_FULL = 2.0
"""Bounds that the highest block is at least, so that what is hardly above does not look like the worst."""


@dataclass(frozen=True, slots=True)
class TimedValue:
    """`bound` 0: there is none. `judged`: it was in force then."""

    at_ms: int
    value: float
    bound: float = 0.0
    judged: bool = True

    @property
    def is_above(self) -> bool:
        return self.judged and 0 < self.bound < self.value


@dataclass(frozen=True, slots=True)
class Sparkline:
    """`values`: of the last minutes, at least one. `now`: the present one, which `shown` makes words of. `end_ms`: of the newest column.
    `is_bounded`: it is drawn against its bounds."""

    values: Sequence[TimedValue]
    now: float
    end_ms: int
    shown: Callable[[float], str]
    is_bounded: bool = False

    @property
    def above(self) -> str:
        """In words, how often it was above its bound; empty: never."""
        count = sum(one.is_above for one in self.values)
        return f"above the bound in {count:,} of {len(self.values):,} samples" if count else ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        greatest, scale = max(one.value for one in self.values), _scale([one.value for one in self.values])
        most = _scale([one.value / one.bound for one in self.values if one.is_above] or [ABOVE_FULL])
        line = Text()
        room = options.max_width - TEXT_WIDTH - 2
        if room >= COLUMNS_MIN:
            blocks = BLOCKS_ASCII if options.ascii_only else BLOCKS
            for column in self._columns(room):
                level = self._level(column, scale, max(most, ABOVE_FULL)) if column else 0
                line.append(blocks[level] if column else " ", style=ABOVE_STYLE if column and column.is_above else "")
            line.append("  ")
        line.append(f"now {self.shown(self.now)}, max {self.shown(max(self.now, greatest))} in {SPAN_MS // 60_000} min")
        yield line

    def _columns(self, room: int) -> Iterator[TimedValue | None]:
        """Oldest first. They begin at multiples of their time, so that a value stays in its column while the line moves."""
        column_ms = max(COLUMN_MS_MIN, 1000 * -(-SPAN_MS // (1000 * room)))
        worst: dict[int, TimedValue] = {}
        for one in self.values:
            at = one.at_ms // column_ms
            worst[at] = max(one, worst.get(at, one), key=lambda value: (value.is_above, value.value))
        last = self.end_ms // column_ms
        yield from (worst.get(at) for at in range(last - SPAN_MS // column_ms + 1, last + 1))

    def _level(self, one: TimedValue, scale: float, most: float) -> int:
        """`scale`: the value of the highest block; `most`: the same, in bounds."""
        if not self.is_bounded:
            return round((len(BLOCKS) - 1) * min(one.value / (scale or 1), 1))
        if not one.is_above:
            return round((HALF - 1) * min(one.value / (one.bound or scale or 1), 1))
        return HALF + round((HALF - 1) * min((one.value / one.bound - 1) / (most - 1), 1))


def _scale(values: Sequence[float]) -> float:
    """Of at least one value: the greatest, or, where that is a spike beside many, what nearly all are within."""
    ordered = sorted(values)
    usual = ordered[int(USUAL_PART * (len(ordered) - 1))]
    return usual if len(ordered) >= SPIKE_AMONG and ordered[-1] > SPIKE_TIMES * usual > 0 else ordered[-1]


def dump_rates(status: pb.DumpStatus) -> Sparkline | None:
    """Of every dump, in rows a second. None where nothing was measured; here and below."""
    return _rates(status, [TimedValue(one.at_ms, one.rows_per_second) for one in _recent(status)], status.rows_per_second)


def change_rates(status: pb.DumpStatus) -> Sparkline | None:
    timed_values = [TimedValue(one.at_ms, one.changes_per_second) for one in _recent(status)]
    return _rates(status, timed_values, timed_values[-1].value) if timed_values else None


def live_times(status: pb.DumpStatus, sink: pb.SinkStatus) -> Sparkline | None:
    """The p99 of one sink, against its bound."""
    timed_values = [
        TimedValue(at.at_ms, one.live_s, one.bound_s, judged=at.rows_per_second > 0 or at.open_windows > 0)
        for at in _recent(status)
        for one in at.sinks
        if one.sink == sink.sink
    ]
    return (
        Sparkline(timed_values, sink.live_s, _end_ms(status), lambda seconds: f"{seconds:.2f} s", is_bounded=True) if timed_values else None
    )


def _rates(status: pb.DumpStatus, timed_values: Sequence[TimedValue], now: float) -> Sparkline | None:
    return Sparkline(timed_values, now, _end_ms(status), lambda rate: f"{rate:,.0f}") if timed_values else None


def _end_ms(status: pb.DumpStatus) -> int:
    return max((one.at_ms for one in status.timeline.samples), default=0)


def _recent(status: pb.DumpStatus) -> list[pb.Sample]:
    return _of_last_minutes(status.timeline.samples)


def _of_last_minutes(samples: Iterable[pb.Sample]) -> list[pb.Sample]:
    known = list(samples)
    end_ms = max((one.at_ms for one in known), default=0)
    return [one for one in known if one.at_ms > end_ms - SPAN_MS]


class WatchedTimeline:
    """Of the statuses of one watch, in their order. A watch that was interrupted begins again with the last hour, perhaps of another
    owner: what it has returned stays, and is not returned twice."""

    def __init__(self) -> None:
        self._samples: list[pb.Sample] = []
        self._last = (0, 0)
        self._chunks: set[bytes] = set()

    def new(self, timeline: pb.Timeline) -> pb.Timeline:
        """Of `timeline` what was not there before. A chunk of which the dropped rows have become known is there again."""
        samples = [one for one in timeline.samples if (one.epoch, one.at_ms) > self._last]
        if samples:
            self._last = (samples[-1].epoch, samples[-1].at_ms)
            self._samples = _of_last_minutes([*self._samples, *samples])
        known, self._chunks = self._chunks, {one.SerializeToString(deterministic=True) for one in timeline.chunks}
        chunks = [one for one in timeline.chunks if one.SerializeToString(deterministic=True) not in known]
        return pb.Timeline(samples=samples, chunks=chunks)

    def recent(self, timeline: pb.Timeline) -> pb.Timeline:
        """The last minutes, with `timeline`."""
        self.new(timeline)
        return pb.Timeline(samples=self._samples, chunks=timeline.chunks)
