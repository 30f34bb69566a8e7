"""Pictures of the stream and of a dump, as SVG in HTML: what the console shows and a report keeps.

    chart          values over time, one line each, with the bound as a dashed line
    interleaving   chunks as boxes between their low and high marks, the rows of each that live changes have replaced, the live rate below

Colours and fonts are classes of `drawing.css`: no style is in an element, so a page may forbid styles of its own. Each picture has a text
for those who do not see it. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from markupsafe import Markup

from sidecar.core.model import physical_ms
from sidecar.report.chunks import DumpedChunk
from sidecar.report.figures import axis_time, short

WIDTH, LEFT, RIGHT = 960, 56, 8
"""In units of the picture; LEFT is where values are written."""
CHART_HEIGHT, TOP, BOTTOM = 120, 8, 20
BOX_HEIGHT, BOX_GAP = 15, 2
LANES_MAX = 24
"""Boxes beyond are drawn over others."""
RATE_HEIGHT = 60
TICKS = 5
POINTS_MAX = 480
"""Of a line: of more, the greatest of each part of the axis is drawn."""
BOX_LEAST = 2.0
NAME_FROM, NAME_CHAR = 42.0, 6.2
"""A box has text from this width on, of so many characters as fit into it."""

Point = tuple[float, float]
"""Milliseconds since 1970, and a value."""


class Series(NamedTuple):
    """`kind`: a class of drawing.css."""

    name: str
    kind: str
    points: Sequence[Point]


class TimedEvent(NamedTuple):
    """A vertical line."""

    at_ms: float
    text: str


class Period(NamedTuple):
    """The time that a picture shows, in milliseconds since 1970."""

    first_ms: float
    last_ms: float

    @property
    def length_ms(self) -> float:
        return max(self.last_ms - self.first_ms, 1.0)

    def x(self, at_ms: float) -> float:
        share = (min(max(at_ms, self.first_ms), self.last_ms) - self.first_ms) / self.length_ms
        return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)

    def has(self, at_ms: float) -> bool:
        return self.first_ms <= at_ms <= self.last_ms


def chart(title: str, series: Sequence[Series], span: Period, *, unit: str, events: Iterable[TimedEvent] = ()) -> Markup:
    """Lines over `span`. Values are not negative; `unit` is written behind them."""
    points = [[point for point in one.points if span.has(point[0])] for one in series]
    top = _top(value for line in points for _, value in line)
    bottom = CHART_HEIGHT - BOTTOM

    def y(value: float) -> float:
        return round(bottom - value / top * (bottom - TOP), 1)

    drawn = [_grid(span, CHART_HEIGHT, bottom), _scale(top, y, unit), *(_line(event, span, bottom) for event in events)]
    for one, line in zip(series, points, strict=True):
        drawn += [_path(part, one.kind, span, y) for part in _parts(_thinned(line, span))]
    last = (
        "; ".join(f"{one.name} {short(line[-1][1])}{unit}" for one, line in zip(series, points, strict=True) if line) or "nothing measured"
    )
    legend = Markup("").join(Markup('<span class="key {}"></span>{} ').format(one.kind, one.name) for one in series)
    return _figure(title, legend, f"{title}: {last} at the end; at most {short(top)}{unit} is shown", CHART_HEIGHT, drawn)


def interleaving(title: str, chunks: Sequence[DumpedChunk], changes: Series, span: Period, *, events: Iterable[TimedEvent] = ()) -> Markup:
    """`changes`: the rate of live changes."""
    shown = [one for one in chunks if physical_ms(one.high_ts) >= span.first_ms and physical_ms(one.low_ts) <= span.last_ms]
    placed = _lanes(shown, span)
    lanes = max((lane for _, lane in placed), default=0) + 1
    boxes_end = TOP + lanes * (BOX_HEIGHT + BOX_GAP)
    height = boxes_end + RATE_HEIGHT + BOTTOM
    bottom = height - BOTTOM
    points = _thinned([point for point in changes.points if span.has(point[0])], span)
    top = _top(value for _, value in points)

    def y(value: float) -> float:
        return round(bottom - value / top * (RATE_HEIGHT - 8), 1)

    drawn = [_grid(span, height, bottom), _scale(top, y, "/s"), *(_line(event, span, bottom) for event in events)]
    drawn += [_area(part, span, y, bottom) for part in _parts(points)]
    drawn += [_box(chunk, lane, span) for chunk, lane in placed]
    dropped = sum(one.dropped or 0 for one in shown)
    text = f"{title}: {len(shown)} chunks with {sum(one.rows for one in shown):,} rows, of which live changes have replaced {dropped:,}"
    legend = Markup(
        '<span class="key chunk"></span>chunk, from its low to its high mark <span class="key replaced"></span>'
        'with rows that live changes have replaced <span class="key changes"></span>live changes/s'
    )
    return _figure(title, legend, text, height, drawn)


# ---- parts of a picture ---------------------------------------------------------------------------------------------------------


def _figure(title: str, legend: Markup, text: str, height: float, drawn: Iterable[Markup]) -> Markup:
    return Markup(
        '<figure class="drawing"><figcaption><strong>{}</strong> <span class="legend">{}</span></figcaption>'
        '<div class="scrolls" tabindex="0" role="group" aria-label="{}">'
        '<svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg></div></figure>'
    ).format(title, legend, title, WIDTH, round(height), text, Markup("").join(drawn))


def _grid(span: Period, height: float, bottom: float) -> Markup:
    found = [Markup('<line class="axis" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(LEFT, WIDTH - RIGHT, bottom, bottom)]
    for tick in range(TICKS):
        at_ms = span.first_ms + tick / (TICKS - 1) * span.length_ms
        anchor = ("start", "middle", "end")[(tick > 0) + (tick == TICKS - 1)]
        place = Markup('<text class="label" x="{}" y="{}" text-anchor="{}">{}</text>')
        found.append(place.format(span.x(at_ms), round(height) - 5, anchor, axis_time(at_ms, span.length_ms)))
    return Markup("").join(found)


def _scale(top: float, y: Callable[[float], float], unit: str) -> Markup:
    line = Markup('<line class="grid" x1="{}" x2="{}" y1="{}" y2="{}"/><text class="label" x="{}" y="{}" text-anchor="end">{}{}</text>')
    return Markup("").join(line.format(LEFT, WIDTH - RIGHT, y(at), y(at), LEFT - 4, y(at) + 4, short(at), unit) for at in (top, top / 2))


def _line(event: TimedEvent, span: Period, bottom: float) -> Markup:
    if not span.has(event.at_ms):
        return Markup("")
    x = span.x(event.at_ms)
    return Markup('<g><title>{}</title><line class="event" x1="{}" x2="{}" y1="{}" y2="{}"/></g>').format(event.text, x, x, 0, bottom)


def _path(points: Sequence[Point], kind: str, span: Period, y: Callable[[float], float]) -> Markup:
    return Markup('<polyline class="line {}" points="{}"/>').format(kind, " ".join(f"{span.x(at)},{y(value)}" for at, value in points))


def _area(points: Sequence[Point], span: Period, y: Callable[[float], float], bottom: float) -> Markup:
    places = [f"{span.x(at)},{y(value)}" for at, value in points]
    ends = f"{span.x(points[0][0])},{bottom}", f"{span.x(points[-1][0])},{bottom}"
    return Markup('<polygon class="changes" points="{}"/>').format(" ".join([ends[0], *places, ends[1]]))


def _box(chunk: DumpedChunk, lane: int, span: Period) -> Markup:
    left, right = span.x(physical_ms(chunk.low_ts)), span.x(physical_ms(chunk.high_ts))
    width, top = max(right - left, BOX_LEAST), TOP + lane * (BOX_HEIGHT + BOX_GAP)
    replaced = f", {chunk.dropped:,} replaced by live changes" if chunk.dropped else ""
    told = f"{chunk.table}: {chunk.rows:,} rows{replaced}; segment {chunk.seq:,}"
    text = f"{chunk.table.table} {short(chunk.rows)}" + (f" −{short(chunk.dropped)}" if chunk.dropped else "")
    fits = int((width - 6) / NAME_CHAR)
    shown = text if len(text) <= fits else (f"−{short(chunk.dropped)}" if chunk.dropped else "")
    name = Markup('<text class="name" x="{}" y="{}">{}</text>').format(round(left + 3, 1), top + 11, shown)
    return Markup('<g><title>{}</title><rect class="chunk{}" x="{}" y="{}" width="{}" height="{}" rx="2"/>{}</g>').format(
        told,
        " replaced" if chunk.dropped else "",
        left,
        top,
        round(width, 1),
        BOX_HEIGHT,
        name if width >= NAME_FROM or chunk.dropped else "",
    )


def _lanes(chunks: Iterable[DumpedChunk], span: Period) -> list[tuple[DumpedChunk, int]]:
    """Each in the first lane that is free where it begins."""
    ends: list[float] = []
    placed = []
    for chunk in sorted(chunks, key=lambda one: (one.low_ts, one.high_ts)):
        left = span.x(physical_ms(chunk.low_ts))
        right = max(span.x(physical_ms(chunk.high_ts)), left + BOX_LEAST)
        lane = next((number for number, end in enumerate(ends) if end < left), len(ends))
        if lane == len(ends) and lane < LANES_MAX:
            ends.append(right)
        elif lane < len(ends):
            ends[lane] = right
        else:
            lane = min(range(LANES_MAX), key=ends.__getitem__)
            ends[lane] = max(ends[lane], right)
        placed.append((chunk, lane))
    return placed


def _top(values: Iterable[float]) -> float:
    """A round number that none is above."""
    most = max(values, default=0.0)
    if most <= 0:
        return 1.0
    step = 10.0 ** (len(f"{most:.0f}") - 1) if most >= 1 else 0.1 if most >= 0.1 else 0.01
    return next(step * factor for factor in (1, 1.5, 2, 3, 4, 5, 6, 8, 10, 20) if step * factor >= most)


def _thinned(points: Sequence[Point], span: Period) -> list[Point]:
    """The greatest value of each part of the axis."""
    if len(points) <= POINTS_MAX:
        return list(points)
    best: dict[int, Point] = {}
    for at_ms, value in points:
        part = int((at_ms - span.first_ms) / span.length_ms * POINTS_MAX)
        if part not in best or value > best[part][1]:
            best[part] = (at_ms, value)
    return list(best.values())


def _parts(points: Sequence[Point]) -> list[list[Point]]:
    """Without a line over times in which nothing was measured."""
    if not points:
        return []
    gaps = sorted(later - earlier for (earlier, _), (later, _) in pairwise(points))
    widest = 4 * gaps[len(gaps) // 2] if gaps else 0.0
    found = [[points[0]]]
    for before, point in pairwise(points):
        if point[0] - before[0] > widest:
            found.append([])
        found[-1].append(point)
    return found
