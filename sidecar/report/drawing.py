"""Pictures of the stream and of a dump, as SVG in HTML: what the console shows and a report keeps.

    chart          values over time, one line each, with the bound as a dashed line
    interleaving   chunks as boxes between their low and high marks, the rows of each that live changes have replaced, the live rate below

Colours and fonts are classes of `pages/look.css`: no style is in an element, so a page may forbid styles of its own. Each picture has a
text for those who do not see it. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from math import inf
from typing import NamedTuple
from unicodedata import east_asian_width

from markupsafe import Markup

from sidecar.core.model import physical_ms
from sidecar.report.chunks import DumpedChunk
from sidecar.report.figures import axis_time, short

WIDTH, LEFT, RIGHT = 960, 56, 8
"""In units of the picture; LEFT is where values are written."""
CHART_WIDTH, CHART_HEIGHT, TOP, BOTTOM = 480, 120, 8, 20
"""Two charts are side by side where there is room, and their texts are as large as those of an interleaving."""
BOX_HEIGHT, BOX_GAP = 15, 2
LANES_MAX = 24
"""Boxes beyond are drawn over others."""
RATE_HEIGHT = 60
TICKS = 5
NEAR_MS = 5_000
"""Rates that were measured so close to the chunks are drawn, too: chunks may take less time than two samples are apart."""
POINTS_MAX = 480
"""Of a line: of more, the greatest of each part of the axis is drawn."""
BOX_LEAST = 2.0
TEXT_CHAR, TEXT_WIDE_CHAR, TEXT_AWAY = 6.2, 11.5, 3.0
"""The widths of a character in a box's text, and how far it is from the box's edge."""
NAME_CHARS_MAX = 20

Point = tuple[float, float]
"""Milliseconds since 1970, and a value."""


class Series(NamedTuple):
    """`kind`: a class of look.css."""

    name: str
    kind: str
    points: Sequence[Point]


class TimedEvent(NamedTuple):
    """A vertical line. `asked`: an operator wanted it."""

    at_ms: float
    text: str
    asked: bool = False


class Period(NamedTuple):
    """The time that a picture shows, in milliseconds since 1970, and the picture's width."""

    first_ms: float
    last_ms: float
    width: float = WIDTH

    @property
    def length_ms(self) -> float:
        return max(self.last_ms - self.first_ms, 1.0)

    def x(self, at_ms: float) -> float:
        share = (min(max(at_ms, self.first_ms), self.last_ms) - self.first_ms) / self.length_ms
        return round(LEFT + share * (self.width - LEFT - RIGHT), 1)

    def has(self, at_ms: float) -> bool:
        return self.first_ms <= at_ms <= self.last_ms


def chart(title: str, series: Sequence[Series], span: Period, *, unit: str, events: Iterable[TimedEvent] = ()) -> Markup:
    """Lines over `span`. Values are not negative; `unit` is written behind them."""
    span = span._replace(width=CHART_WIDTH)
    points = [[point for point in one.points if span.has(point[0])] for one in series]
    top = _top(value for line in points for _, value in line)
    bottom = CHART_HEIGHT - BOTTOM

    def y(value: float) -> float:
        return round(bottom - value / top * (bottom - TOP), 1)

    drawn = [_grid(span, CHART_HEIGHT, bottom), _scale(top, span, y, unit), *(_line(event, span, bottom) for event in events)]
    for one, line in zip(series, points, strict=True):
        drawn += [_path(part, one.kind, span, y) for part in _parts(_thinned(line, span))]
    last = (
        "; ".join(f"{one.name} {short(line[-1][1])}{unit}" for one, line in zip(series, points, strict=True) if line) or "nothing measured"
    )
    legend = Markup("").join(Markup('<span class="key {}"></span>{} ').format(one.kind, one.name) for one in series)
    text = f"{title}: {last} at the end; at most {short(top)}{unit} is shown"
    return _figure("chart", title, legend, text, (CHART_WIDTH, CHART_HEIGHT), drawn)


def interleaving(title: str, chunks: Sequence[DumpedChunk], changes: Series, span: Period, *, events: Iterable[TimedEvent] = ()) -> Markup:
    """`changes`: the rate of live changes."""
    shown = [one for one in chunks if physical_ms(one.high_ts) >= span.first_ms and physical_ms(one.low_ts) <= span.last_ms]
    placed = _in_lanes(shown, span)
    lanes = max((lane for _, lane in placed), default=0) + 1
    boxes_end = TOP + lanes * (BOX_HEIGHT + BOX_GAP)
    height = boxes_end + RATE_HEIGHT + BOTTOM
    bottom = height - BOTTOM
    near = Period(span.first_ms - NEAR_MS, span.last_ms + NEAR_MS)
    points = _thinned([point for point in changes.points if near.has(point[0])], near)
    top = _top(value for _, value in points)

    def y(value: float) -> float:
        return round(bottom - value / top * (RATE_HEIGHT - 8), 1)

    drawn = [_grid(span, height, bottom), _scale(top, span, y, "/s"), *(_line(event, span, bottom) for event in events)]
    drawn += [_area(part, span, y, bottom) for part in _parts(points)]
    drawn += [_drawn(box, lane) for box, lane in placed]
    dropped = sum(one.dropped or 0 for one in shown)
    text = f"{title}: {len(shown)} chunks with {sum(one.rows for one in shown):,} rows, of which live changes have replaced {dropped:,}"
    legend = Markup(
        '<span class="key chunk"></span>chunk, from its low to its high mark <span class="key replaced"></span>'
        'with rows that live changes have replaced <span class="key changes"></span>live changes/s'
    )
    return _figure("interleaving", title, legend, text, (WIDTH, height), drawn)


# ---- parts of a picture ---------------------------------------------------------------------------------------------------------


def _figure(kind: str, title: str, legend: Markup, text: str, size: tuple[float, float], drawn: Iterable[Markup]) -> Markup:
    return Markup(
        '<figure class="drawing {}"><figcaption><strong>{}</strong> <span class="legend">{}</span></figcaption>'
        '<div class="scrolls" tabindex="0" role="group" aria-label="{}">'
        '<svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg></div></figure>'
    ).format(kind, title, legend, title, size[0], round(size[1]), text, Markup("").join(drawn))


def _grid(span: Period, height: float, bottom: float) -> Markup:
    found = [Markup('<line class="axis" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(LEFT, span.width - RIGHT, bottom, bottom)]
    for tick in range(TICKS):
        at_ms = span.first_ms + tick / (TICKS - 1) * span.length_ms
        anchor = ("start", "middle", "end")[(tick > 0) + (tick == TICKS - 1)]
        place = Markup('<text class="label" x="{}" y="{}" text-anchor="{}">{}</text>')
        found.append(place.format(span.x(at_ms), round(height) - 5, anchor, axis_time(at_ms, span.length_ms)))
    return Markup("").join(found)


def _scale(top: float, span: Period, y: Callable[[float], float], unit: str) -> Markup:
    line = Markup('<line class="grid" x1="{}" x2="{}" y1="{}" y2="{}"/><text class="label" x="{}" y="{}" text-anchor="end">{}{}</text>')
    return Markup("").join(
        line.format(LEFT, span.width - RIGHT, y(at), y(at), LEFT - 4, y(at) + 4, short(at), unit) for at in (top, top / 2)
    )


def _line(event: TimedEvent, span: Period, bottom: float) -> Markup:
    if not span.has(event.at_ms):
        return Markup("")
    x = span.x(event.at_ms)
    kind = "event asked" if event.asked else "event"
    return Markup('<g><title>{}</title><line class="{}" x1="{}" x2="{}" y1="0" y2="{}"/></g>').format(event.text, kind, x, x, bottom)


def _path(points: Sequence[Point], kind: str, span: Period, y: Callable[[float], float]) -> Markup:
    """A single point is a dot."""
    drawn = points if len(points) > 1 else [*points, *points]
    return Markup('<polyline class="line {}" points="{}"/>').format(kind, " ".join(f"{span.x(at)},{y(value)}" for at, value in drawn))


def _area(points: Sequence[Point], span: Period, y: Callable[[float], float], bottom: float) -> Markup:
    places = [f"{span.x(at)},{y(value)}" for at, value in points]
    ends = f"{span.x(points[0][0])},{bottom}", f"{span.x(points[-1][0])},{bottom}"
    return Markup('<polygon class="changes" points="{}"/>').format(" ".join([ends[0], *places, ends[1]]))


class _Box(NamedTuple):
    """A chunk between its marks. Its text is in the box, or behind it, or before it where the picture ends. `begins`, `ends`: of both."""

    chunk: DumpedChunk
    left: float
    right: float
    text: str
    text_x: float
    anchor: str
    begins: float
    ends: float

    def bare(self) -> _Box:
        return self._replace(text="", begins=self.left, ends=self.right)


def _box(chunk: DumpedChunk, span: Period) -> _Box:
    left, name = span.x(physical_ms(chunk.low_ts)), chunk.table.table
    right = max(span.x(physical_ms(chunk.high_ts)), left + BOX_LEAST)
    name = name if len(name) <= NAME_CHARS_MAX else f"{name[: NAME_CHARS_MAX - 1]}…"
    text = f"{name} {short(chunk.rows)}" + (f" −{short(chunk.dropped)}" if chunk.dropped else "")
    length = sum(TEXT_WIDE_CHAR if east_asian_width(one) in "WF" else TEXT_CHAR for one in text) + TEXT_AWAY
    if left + length + TEXT_AWAY <= right:
        return _Box(chunk, left, right, text, left + TEXT_AWAY, "start", left, right)
    if right + length <= span.width:
        return _Box(chunk, left, right, text, right + TEXT_AWAY, "start", left, right + length)
    return _Box(chunk, left, right, text, left - TEXT_AWAY, "end", left - length, right)


def _drawn(box: _Box, lane: int) -> Markup:
    chunk, top = box.chunk, TOP + lane * (BOX_HEIGHT + BOX_GAP)
    replaced = f"; {chunk.dropped:,} rows of its batch replaced by live changes" if chunk.dropped else ""
    away = "" if box.left <= box.text_x <= box.right else " away"
    text = Markup('<text class="name{}" x="{}" y="{}" text-anchor="{}">{}</text>')
    return Markup('<g><title>{}</title><rect class="chunk{}" x="{}" y="{}" width="{}" height="{}" rx="2"/>{}</g>').format(
        f"{chunk.table}: {chunk.rows:,} rows{replaced}; segment {chunk.seq:,}",
        " replaced" if chunk.dropped else "",
        box.left,
        top,
        round(box.right - box.left, 1),
        BOX_HEIGHT,
        text.format(away, round(box.text_x, 1), top + 11, box.anchor, box.text) if box.text else "",
    )


def _in_lanes(chunks: Iterable[DumpedChunk], span: Period) -> list[tuple[_Box, int]]:
    """Each in the first lane that has room for the box and its text, else without its text in one that has room for the box."""
    ends = [-inf] * LANES_MAX
    placed = []
    for chunk in sorted(chunks, key=lambda one: (one.low_ts, one.high_ts)):
        whole = _box(chunk, span)
        free = ((number, box) for box in (whole, whole.bare()) for number, end in enumerate(ends) if end < box.begins)
        lane, box = next(free, (min(range(LANES_MAX), key=ends.__getitem__), whole.bare()))
        ends[lane] = max(ends[lane], box.ends)
        placed.append((box, lane))
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
