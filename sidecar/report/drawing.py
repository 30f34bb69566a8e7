"""Pictures of the stream and of a dump, as SVG in HTML: what the console shows and a report keeps.

    chart          values over time, one line each, with the bound as a dashed line
    interleaving   chunks as boxes between their low and high marks, the rows of each that live changes have replaced, the live rate below

- A scale is that of most values. A few that are far above are cut at its top, where the greatest is written.
- The values at a time are a text that shows while the pointer is over that time. No script is needed.

Colours and fonts are classes of `pages/look.css`: no style is in an element, so a page may forbid styles of its own. Each picture has a
text for those who do not see it. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from math import ceil, inf
from typing import NamedTuple
from unicodedata import east_asian_width

from markupsafe import Markup

from sidecar.report.chunks import DumpedChunk
from sidecar.report.figures import axis_time, short
from sidecar.shared.model.nouns import TableName, physical_ms

WIDTH, LEFT, RIGHT = 960, 56, 8
"""In units of the picture; LEFT is where values are written."""
CHART_WIDTH, CHART_HEIGHT, TOP, BOTTOM = 480, 120, 8, 20
"""Two charts are side by side where there is room, and their texts are as large as those of an interleaving."""
BOX_HEIGHT, BOX_GAP = 15, 2
LANES_MAX = 24
"""Of all tables, where these are few; boxes beyond are drawn over others."""
RATE_HEIGHT = 60
TICKS = 5
NEAR_MS = 5_000
"""Rates that were measured so close to the chunks are drawn, too: chunks may take less time than two samples are apart."""
POINTS_MAX = 480
"""Of a line: of more, the greatest of each part of the axis is drawn."""
BOX_LEAST = 2.0
TEXT_CHAR, TEXT_WIDE_CHAR, TEXT_AWAY = 6.2, 11.5, 3.0
"""The widths of a character of a text, and how far it is from what it belongs to."""
NAMES = 150
"""Of the tables' names, at the newer end of an interleaving: a narrow window shows that end first."""
TABLES_MAX = 8
"""With lanes of their own; the others share theirs."""
TABLE_LANES_LEAST = 3
USUAL, FAR = 0.95, 3.0
"""The scale has this part of the values, and those that are up to so many times as large."""
COLUMNS = 60
"""Times of which the values are a text."""

Point = tuple[float, float]
"""Milliseconds since 1970, and a value."""


class Series(NamedTuple):
    """`kind`: a class of look.css."""

    name: str
    kind: str
    points: Sequence[Point]


class TimedEvent(NamedTuple):
    """A vertical line. `is_command`: an operator wanted it."""

    at_ms: float
    text: str
    is_command: bool = False


class Period(NamedTuple):
    """The time that a picture shows, in milliseconds since 1970, the picture's width, and what is free at its ends."""

    first_ms: float
    last_ms: float
    width: float = WIDTH
    left: float = LEFT
    right: float = RIGHT

    @property
    def length_ms(self) -> float:
        return max(self.last_ms - self.first_ms, 1.0)

    def x(self, at_ms: float) -> float:
        share = (min(max(at_ms, self.first_ms), self.last_ms) - self.first_ms) / self.length_ms
        return round(self.left + share * (self.end - self.left), 1)

    @property
    def end(self) -> float:
        return self.width - self.right

    def has(self, at_ms: float) -> bool:
        return self.first_ms <= at_ms <= self.last_ms


def chart(title: str, series: Sequence[Series], span: Period, *, unit: str, events: Iterable[TimedEvent] = ()) -> Markup:
    """Lines over `span`. Values are not negative; `unit` is written behind them."""
    span, known = span._replace(width=CHART_WIDTH), list(events)
    points = [[point for point in one.points if span.has(point[0])] for one in series]
    top, peak = _top_of_most(points), max((point for line in points for point in line), key=lambda point: point[1], default=None)
    bottom = CHART_HEIGHT - BOTTOM

    def y(value: float) -> float:
        return round(bottom - min(value / top, 1.0) * (bottom - TOP), 1)

    drawn = [_grid(span, CHART_HEIGHT, bottom), _scale(top, span, y, unit), *(_line(event, span, bottom) for event in known)]
    for one, line in zip(series, points, strict=True):
        drawn += [_path(part, one.kind, span, y) for part in _parts(_thinned(line, span))]
    last = (
        "; ".join(f"{one.name} {short(line[-1][1])}{unit}" for one, line in zip(series, points, strict=True) if line) or "nothing measured"
    )
    text = f"{title}: {last} at the end; at most {short(top)}{unit} is shown"
    if peak is not None and peak[1] > top:
        drawn.append(_peak(peak, span, unit))
        text += f", the greatest was {short(peak[1])}{unit}"
    drawn.append(_values(series, points, span, (0, CHART_HEIGHT), unit))
    legend = Markup("").join(_key(one.kind, one.name) for one in series) + _event_keys(known, span)
    return _figure("chart", title, legend, text, (CHART_WIDTH, CHART_HEIGHT), drawn)


def interleaving(title: str, chunks: Sequence[DumpedChunk], changes: Series, span: Period, *, events: Iterable[TimedEvent] = ()) -> Markup:
    """`changes`: the rate of live changes. Each table has lanes of its own."""
    span, known = span._replace(right=NAMES), list(events)
    shown = [one for one in chunks if physical_ms(one.high_ts) >= span.first_ms and physical_ms(one.low_ts) <= span.last_ms]
    groups = _groups(shown, span)
    boxes_end = TOP + sum(group.lanes for group in groups) * (BOX_HEIGHT + BOX_GAP)
    height = boxes_end + RATE_HEIGHT + BOTTOM
    bottom = height - BOTTOM
    near = span._replace(first_ms=span.first_ms - NEAR_MS, last_ms=span.last_ms + NEAR_MS)
    points = _thinned([point for point in changes.points if near.has(point[0])], near)
    top = _top_of_most([points])

    def y(value: float) -> float:
        return round(bottom - min(value / top, 1.0) * (RATE_HEIGHT - 8), 1)

    drawn = [_grid(span, height, bottom), _scale(top, span, y, "/s"), *(_line(event, span, bottom) for event in known)]
    drawn += [_area(part, span, y, bottom) for part in _parts(points)]
    drawn.append(_values([changes], [points], span, (boxes_end, height), "/s"))
    lane = 0
    for group in groups:
        drawn += [_table_name(group, lane, span), *(_drawn(box, lane + at) for box, at in group.boxes)]
        lane += group.lanes
    dropped = sum(one.dropped or 0 for one in shown)
    text = f"{title}: {len(shown)} chunks with {sum(one.rows for one in shown):,} rows, of which live changes have replaced {dropped:,}"
    legend = _key("chunk", "chunk, from its low to its high mark") + _key("replaced", "with rows that live changes have replaced (−)")
    legend += _key("changes", "live changes/s") + _event_keys(known, span)
    return _figure("interleaving", title, legend, text, (WIDTH, height), drawn)


# ---- parts of a picture ---------------------------------------------------------------------------------------------------------


def _figure(kind: str, title: str, legend: Markup, text: str, size: tuple[float, float], drawn: Iterable[Markup]) -> Markup:
    return Markup(
        '<figure class="drawing {}"><figcaption><strong>{}</strong> <span class="legend">{}</span></figcaption>'
        '<div class="scrolls" tabindex="0" role="group" aria-label="{}">'
        '<svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg></div></figure>'
    ).format(kind, title, legend, title, size[0], round(size[1]), text, Markup("").join(drawn))


def _key(kind: str, name: str) -> Markup:
    return Markup('<span><span class="key {}"></span>{}</span> ').format(kind, name)


def _event_keys(events: Iterable[TimedEvent], span: Period) -> Markup:
    kinds = {event.is_command for event in events if span.has(event.at_ms)}
    words = {True: _key("requested", "a command"), False: _key("happened", "what happened")}
    return Markup("").join(key for is_command, key in words.items() if is_command in kinds)


def _grid(span: Period, height: float, bottom: float) -> Markup:
    marks = [Markup('<line class="axis" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(span.left, span.end, bottom, bottom)]
    for tick in range(TICKS):
        at_ms = span.first_ms + tick / (TICKS - 1) * span.length_ms
        anchor = ("start", "middle", "end")[(tick > 0) + (tick == TICKS - 1)]
        kind = "label between" if tick % 2 else "label"  # a narrow window leaves these out
        place = Markup('<text class="{}" x="{}" y="{}" text-anchor="{}">{}</text>')
        marks.append(place.format(kind, span.x(at_ms), round(height) - 5, anchor, axis_time(at_ms, span.length_ms)))
    return Markup("").join(marks)


def _scale(top: float, span: Period, y: Callable[[float], float], unit: str) -> Markup:
    line = Markup('<line class="grid" x1="{}" x2="{}" y1="{}" y2="{}"/><text class="label" x="{}" y="{}" text-anchor="end">{}{}</text>')
    return Markup("").join(
        line.format(span.left, span.end, y(at), y(at), span.left - 4, y(at) + 4, short(at), unit) for at in (top, top / 2)
    )


def _line(event: TimedEvent, span: Period, bottom: float) -> Markup:
    if not span.has(event.at_ms):
        return Markup("")
    x = span.x(event.at_ms)
    kind = "event requested" if event.is_command else "event"
    return Markup('<g><title>{}</title><line class="{}" x1="{}" x2="{}" y1="0" y2="{}"/></g>').format(event.text, kind, x, x, bottom)


def _path(points: Sequence[Point], kind: str, span: Period, y: Callable[[float], float]) -> Markup:
    """A single point is a dot."""
    drawn = points if len(points) > 1 else [*points, *points]
    return Markup('<polyline class="line {}" points="{}"/>').format(kind, " ".join(f"{span.x(at)},{y(value)}" for at, value in drawn))


def _area(points: Sequence[Point], span: Period, y: Callable[[float], float], bottom: float) -> Markup:
    places = [f"{span.x(at)},{y(value)}" for at, value in points]
    ends = f"{span.x(points[0][0])},{bottom}", f"{span.x(points[-1][0])},{bottom}"
    return Markup('<polygon class="changes" points="{}"/>').format(" ".join([ends[0], *places, ends[1]]))


def _peak(peak: Point, span: Period, unit: str) -> Markup:
    x = span.x(peak[0])
    anchor = "end" if x > span.width / 2 else "start"
    away = -TEXT_AWAY if anchor == "end" else TEXT_AWAY
    return Markup('<text class="label away" x="{}" y="{}" text-anchor="{}">▲ {}{}</text>').format(
        x + away, TOP + 10, anchor, short(peak[1]), unit
    )


def _values(series: Sequence[Series], points: Sequence[Sequence[Point]], span: Period, between: tuple[float, float], unit: str) -> Markup:
    """The greatest values of each part of the axis, as texts that show under the pointer. `between`: where it has to be, from above."""
    columns: dict[int, dict[str, float]] = {}
    for one, line in zip(series, points, strict=True):
        for at_ms, value in line:
            if span.has(at_ms):
                column = columns.setdefault(min(int((at_ms - span.first_ms) / span.length_ms * COLUMNS), COLUMNS - 1), {})
                column[one.name] = max(value, column.get(one.name, 0.0))
    wide = (span.end - span.left) / COLUMNS
    drawn = Markup(
        '<g class="at"><rect x="{}" y="{}" width="{}" height="{}"/><text class="label away" x="{}" y="{}" text-anchor="{}">{}</text></g>'
    )
    parts = []
    for place, values in sorted(columns.items()):
        at_ms = span.first_ms + (place + 0.5) / COLUMNS * span.length_ms
        text = "  ".join([axis_time(at_ms, span.length_ms), *(f"{name} {short(value)}{unit}" for name, value in values.items())])
        anchor = ("start", "middle", "end")[place * 3 // COLUMNS]
        x = (span.left, (span.left + span.end) / 2, span.end)[place * 3 // COLUMNS]
        left = round(span.left + place * wide, 1)
        parts.append(drawn.format(left, between[0], round(wide, 1), round(between[1] - between[0]), x, round(between[1]) - 5, anchor, text))
    return Markup("").join(parts)


class _Box(NamedTuple):
    """A chunk between its marks."""

    chunk: DumpedChunk
    left: float
    right: float


class _Group(NamedTuple):
    """The chunks of a table, or of the tables that share their lanes: each box with its lane in the group."""

    name: str
    whole_name: str
    boxes: Sequence[tuple[_Box, int]]

    @property
    def lanes(self) -> int:
        return max(lane for _, lane in self.boxes) + 1


def _groups(chunks: Iterable[DumpedChunk], span: Period) -> list[_Group]:
    """By their tables, the one that is first read on top."""
    of: dict[TableName, list[_Box]] = {}
    for chunk in sorted(chunks, key=lambda one: (one.low_ts, one.high_ts)):
        left = span.x(physical_ms(chunk.low_ts))
        of.setdefault(chunk.table, []).append(_Box(chunk, left, max(span.x(physical_ms(chunk.high_ts)), left + BOX_LEAST)))
    named = list(of)
    own = named if len(named) <= TABLES_MAX else named[: TABLES_MAX - 1]
    lanes_max = max(LANES_MAX // max(len(own), 1), TABLE_LANES_LEAST)
    is_unique = len({table.table for table in own}) == len(own)
    groups = [_Group(table.table if is_unique else str(table), str(table), _in_lanes(of[table], lanes_max)) for table in own]
    if rest := named[len(own) :]:
        boxes = sorted((box for table in rest for box in of[table]), key=lambda box: box.left)
        groups.append(_Group(f"{len(rest):,} more tables", ", ".join(map(str, rest[:TABLES_MAX])), _in_lanes(boxes, lanes_max)))
    return groups


def _in_lanes(boxes: Iterable[_Box], lanes_max: int) -> list[tuple[_Box, int]]:
    """Each in the first lane that has room, else over another one."""
    ends: list[float] = [-inf] * lanes_max
    placed = []
    for box in boxes:
        lane = next((number for number, end in enumerate(ends) if end < box.left), min(range(lanes_max), key=ends.__getitem__))
        ends[lane] = max(ends[lane], box.right)
        placed.append((box, lane))
    return placed


def _table_name(group: _Group, lane: int, span: Period) -> Markup:
    top = TOP + lane * (BOX_HEIGHT + BOX_GAP)
    text = '<g><title>{}</title><text class="name" x="{}" y="{}">{}</text></g>'
    ruled = Markup('<line class="grid" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(span.left, span.width, top - 1, top - 1) if lane else ""
    return Markup("{}" + text).format(ruled, group.whole_name, span.end + 2 * TEXT_AWAY, top + 11, _cut(group.name, NAMES - 4 * TEXT_AWAY))


def _cut(name: str, room: float) -> str:
    if sum(map(_char_width, name)) <= room:
        return name
    shown, left = "", room - TEXT_WIDE_CHAR
    for one in name:
        if (left := left - _char_width(one)) < 0:
            break
        shown += one
    return f"{shown}…"


def _char_width(one: str) -> float:
    return TEXT_WIDE_CHAR if east_asian_width(one) in "WF" else TEXT_CHAR


def _drawn(box: _Box, lane: int) -> Markup:
    chunk, top = box.chunk, TOP + lane * (BOX_HEIGHT + BOX_GAP)
    replaced = f"; {chunk.dropped:,} rows of its batch replaced by live changes" if chunk.dropped else ""
    text = f"−{short(chunk.dropped)}" if chunk.dropped else ""
    fits = text and TEXT_CHAR * len(text) + 2 * TEXT_AWAY <= box.right - box.left
    return Markup('<g><title>{}</title><rect class="chunk{}" x="{}" y="{}" width="{}" height="{}" rx="2"/>{}</g>').format(
        f"{chunk.table}: {chunk.rows:,} rows{replaced}; segment {chunk.seq:,}",
        " replaced" if chunk.dropped else "",
        box.left,
        top,
        round(box.right - box.left, 1),
        BOX_HEIGHT,
        Markup('<text class="name" x="{}" y="{}">{}</text>').format(round(box.left + TEXT_AWAY, 1), top + 11, text) if fits else "",
    )


def _top_of_most(lines: Sequence[Sequence[Point]]) -> float:
    """A round number that few values are above, and only where they are far above the others."""
    values = [sorted(value for _, value in line) for line in lines if line]
    most = max((line[-1] for line in values), default=0.0)
    usual = max((line[ceil(USUAL * (len(line) - 1))] for line in values), default=0.0)
    return _top([FAR / 2 * usual if 0 < FAR * usual < most else most])


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
    parts = [[points[0]]]
    for before, point in pairwise(points):
        if point[0] - before[0] > widest:
            parts.append([])
        parts[-1].append(point)
    return parts
