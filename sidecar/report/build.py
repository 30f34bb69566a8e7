"""The report of a dump: one HTML file that needs nothing else, made of the lines that were collected for its certificate.

What a person wants to know of a dump that is over: what it read and when, how live changes and chunks interleaved, what it cost the live
stream, what held it back, and what happened meanwhile. Pure: lines in, text out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from itertools import islice, pairwise
from statistics import median
from typing import Any, NamedTuple

from markupsafe import Markup

from sidecar.history.entry import HistoryEntry
from sidecar.report.chunks import Chunks, DumpedChunk
from sidecar.report.drawing import Period, Series, TimedEvent, chart, interleaving
from sidecar.report.figures import asker_text, duration
from sidecar.report.samples import ThinnedSamples
from sidecar.report.templates import templates
from sidecar.shared.log.certificate_parts import Line, SampleLine, ScopeLine
from sidecar.shared.log.certificate_sums import DumpSums
from sidecar.shared.model.nouns import physical_ms

CHUNKS_EACH_MAX = 1000
"""The first and the last ones, that pictures are made of."""
CHUNKS_AT_ONCE = 60
"""Of a picture; all of them where there are up to twice as many."""
TABLES_MAX = 1000
EVENTS_MAX = 200
GAP = 4.0
"""Times the usual distance of two samples: then there was no owner, or the dump did not run."""


@dataclass(frozen=True, slots=True)
class ReportFacts:
    """What the lines do not say. `more`: facts with their names, for the head. `accepted`: by sink, in words. `events`: that happened,
    beside those of the history and of the samples. `certificate`: what there is of one."""

    changefeed: str
    product: str
    more: Sequence[tuple[str, str]] = ()
    accepted: dict[str, str] = field(default_factory=dict)
    events: Sequence[TimedEvent] = ()
    certificate: str = ""


class Held(NamedTuple):
    cause: str
    seconds: float
    example: str


class SinkFigures(NamedTuple):
    """Seconds: medians of the samples, and the greatest p99. `above`: the share of samples whose p99 was above the bound."""

    name: str
    median_s: float
    live_s: float
    most_s: float
    bound_s: float
    above: float
    accepted: str


def report_html(lines: Iterable[Line], entry: HistoryEntry, facts: ReportFacts) -> str:
    chunks, thinned = Chunks(CHUNKS_EACH_MAX), ThinnedSamples()
    sums = DumpSums(thinned.passed(chunks.passed(entry.id, lines)))
    samples = thinned.kept()
    kept_chunks, events = chunks.kept(), sorted([*facts.events, *_events(entry, samples)], key=lambda one: one.at_ms)
    span = _span(kept_chunks, samples)
    rows = sums.rows()
    dropped, only = [table["dropped"] for table in rows], _only(sums.scope)
    page = templates("sidecar.report").get_template("report.html")
    html: str = page.render(
        look=Markup(look()),
        head=_head(entry, facts, sums.scope),
        totals={
            "rows": sum(table["rows"] for table in rows),
            "bytes": sum(table["bytes"] for table in rows),
            "tables": len(rows),
            "dropped": None if None in dropped else sum(dropped),
            "delivered": None if None in dropped else sum(table["rows"] for table in rows) - sum(dropped),
        },
        events=events[:EVENTS_MAX],
        more_events=max(len(events) - EVENTS_MAX, 0),
        interleavings=_interleavings(kept_chunks, chunks.count, samples, events),
        charts=charts(samples, span, events) if samples else [],
        held=held(samples),
        sinks=sink_figures(samples, facts.accepted),
        tables=[table | {"only": only.get((table["schema"], table["table"]), "")} for table in rows[:TABLES_MAX]],
        more_tables=max(len(rows) - TABLES_MAX, 0),
    )
    return html


def look() -> str:
    """The style that reports and the console have in common."""
    return files("sidecar.report").joinpath("pages/look.css").read_text()


def charts(samples: Sequence[SampleLine], span: Period, events: Sequence[TimedEvent] = (), *, sinks_max: int | None = None) -> list[Markup]:
    """Rates, lags, and the live delivery of each sink, of `sinks_max` at most."""
    drawn = [
        chart("Dump", [Series("rows/s", "first", [(one.at_ms, one.rows_per_s) for one in samples])], span, unit="", events=events),
        chart("Live changes", [changes(samples)], span, unit="/s", events=events),
        chart("Lag", [
            Series("log behind the source", "first", [(one.at_ms, one.resolved_lag_s) for one in samples]),
            Series("slowest sink behind the source", "second", [(one.at_ms, one.delivery_lag_s) for one in samples]),
        ], span, unit=" s", events=events),
    ]  # fmt: skip
    for name, measured in islice(_by_sink(samples).items(), sinks_max):
        lines = [
            Series("p50", "first", [(at_ms, sink.median_s) for at_ms, sink in measured]),
            Series("p99", "second", [(at_ms, sink.live_s) for at_ms, sink in measured]),
            Series("bound", "bound", [(at_ms, sink.bound_s) for at_ms, sink in measured]),
        ]
        drawn.append(chart(f"Live delivery to {name}", lines, span, unit=" s", events=events))
    return drawn


def changes(samples: Iterable[SampleLine]) -> Series:
    """Without the first sample of each owner: what it counts is not known by time."""
    rates = [(one.at_ms, one.changes_per_s) for before, one in pairwise(samples) if before.epoch == one.epoch]
    return Series("changes", "third", rates)


def held(samples: Sequence[SampleLine]) -> list[Held]:
    """What was waited for, the longest first."""
    seconds, examples = defaultdict[str, float](float), dict[str, str]()
    longest_s = GAP * _usual_s(samples)
    for one, after in pairwise(samples):
        if one.waiting_for and (passed_s := (after.at_ms - one.at_ms) / 1000) <= longest_s:
            cause, _, text = one.waiting_for.partition(":")
            seconds[cause] += passed_s
            examples[cause] = text.strip()
    return [Held(cause, seconds[cause], examples[cause]) for cause in sorted(seconds, key=lambda cause: -seconds[cause])]


def sink_figures(samples: Sequence[SampleLine], accepted: dict[str, str]) -> list[SinkFigures]:
    figures = []
    for name, measured in _by_sink(samples).items():
        sinks = [sink for _, sink in measured]
        above = sum(sink.live_s > sink.bound_s for sink in sinks) / len(sinks)
        middle = [median(values) for values in zip(*((sink.median_s, sink.live_s, sink.bound_s) for sink in sinks), strict=True)]
        figures.append(
            SinkFigures(name, middle[0], middle[1], max(sink.live_s for sink in sinks), middle[2], above, accepted.get(name, ""))
        )
    return figures


def _interleavings(chunks: Sequence[DumpedChunk], count: int, samples: Sequence[SampleLine], events: Sequence[TimedEvent]) -> list[Markup]:
    """All chunks where there are few; else the first ones, those of which most was dropped, and the last ones."""
    if not chunks:
        return []
    live = changes(samples)
    if count <= 2 * CHUNKS_AT_ONCE:
        return [interleaving("All chunks", chunks, live, _span(chunks, ()), events=events)]
    shown = [(f"The first {CHUNKS_AT_ONCE} of {count:,} chunks", chunks[:CHUNKS_AT_ONCE])]
    most = max(range(len(chunks)), key=lambda place: chunks[place].dropped or 0)
    least, last = _whole_part(len(chunks), most, kept_all=count == len(chunks))
    begins = min(max(most - CHUNKS_AT_ONCE // 2, least), last - CHUNKS_AT_ONCE)
    if chunks[most].dropped and 0 < begins < len(chunks) - CHUNKS_AT_ONCE:
        of = "" if count == len(chunks) else f", of the first and the last {CHUNKS_EACH_MAX:,} chunks"
        shown.append((f"Where live changes have replaced most rows{of}", chunks[begins : begins + CHUNKS_AT_ONCE]))
    shown.append((f"The last {CHUNKS_AT_ONCE} chunks", chunks[-CHUNKS_AT_ONCE:]))
    return [interleaving(title, those, live, _span(those, ()), events=events) for title, those in shown]


def _whole_part(kept: int, place: int, *, kept_all: bool) -> tuple[int, int]:
    """The chunks around `place` between which none is missing: from the first to before the second number."""
    if kept_all:
        return 0, kept
    return (0, CHUNKS_EACH_MAX) if place < CHUNKS_EACH_MAX else (CHUNKS_EACH_MAX, kept)


def _events(entry: HistoryEntry, samples: Sequence[SampleLine]) -> list[TimedEvent]:
    events = [TimedEvent(one.at_ms, f"{one.command}, by " + asker_text(one.asked_by), is_command=True) for one in entry.commands]
    usual_s = _usual_s(samples)
    for before, after in pairwise(samples):
        passed_s = (after.at_ms - before.at_ms) / 1000
        if after.epoch != before.epoch:
            what = f"a new owner takes over (epoch {after.epoch}), {duration(passed_s)} after the last sample of the owner before"
            events.append(TimedEvent(after.at_ms, what))
        elif passed_s > GAP * usual_s:
            events.append(TimedEvent(after.at_ms, f"it runs again, after {duration(passed_s)}"))
    return events


def _head(entry: HistoryEntry, facts: ReportFacts, scope: ScopeLine | None) -> dict[str, Any]:
    return {
        "dump_id": entry.id,
        "changefeed": facts.changefeed,
        "state": entry.state.value,
        "result": entry.result,
        "seconds": entry.running_s,
        "asked_by": asker_text(entry.asked_by),
        "started_ms": entry.started_ms,
        "ended_ms": entry.ended_ms,
        "sinks": () if scope is None else scope.sinks,
        "more": facts.more,
        "product": facts.product,
        "certificate": facts.certificate,
    }


def _only(scope: ScopeLine | None) -> dict[tuple[str, str], str]:
    """Which rows of a table were requested, where that was not all of them."""
    narrowed = [one for one in (scope.tables if scope else ()) if one.keys or one.where]
    return {(one.schema, one.table): f"{one.keys:,} keys" if one.keys else f"where {one.where}" for one in narrowed}


def _by_sink(samples: Iterable[SampleLine]) -> dict[str, list[tuple[int, Any]]]:
    by_sink = defaultdict[str, list[tuple[int, Any]]](list)
    for one in samples:
        for sink in one.sinks:
            by_sink[sink.sink].append((one.at_ms, sink))
    return dict(by_sink)


def _usual_s(samples: Sequence[SampleLine]) -> float:
    """Between two samples; 0 of fewer."""
    return median((after.at_ms - one.at_ms) / 1000 for one, after in pairwise(samples)) if len(samples) > 1 else 0.0


def _span(chunks: Sequence[DumpedChunk], samples: Sequence[SampleLine]) -> Period:
    begins = [physical_ms(one.low_ts) for one in chunks] + [one.at_ms for one in samples[:1]]
    ends = [physical_ms(one.high_ts) for one in chunks] + [one.at_ms for one in samples[-1:]]
    return Period(min(begins, default=0), max(ends, default=1))
