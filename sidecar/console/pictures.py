"""The pictures of pages: charts of the stream over a time that is chosen, and the interleaving of the last chunks of a dump."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from markupsafe import Markup

from sidecar.report.build import changes, charts
from sidecar.report.chunks import DumpedChunk
from sidecar.report.drawing import Period, interleaving
from sidecar.shared.log.certificate_parts import SampleLine
from sidecar.shared.model.nouns import physical_ms


class TimeRange(NamedTuple):
    words: str
    length_ms: int


RANGES = {
    "10 min": TimeRange("10 minutes", 600_000),
    "1 h": TimeRange("hour", 3_600_000),
    "6 h": TimeRange("6 hours", 6 * 3_600_000),
    "24 h": TimeRange("24 hours", 24 * 3_600_000),
}
"""By their parameter."""
USUAL_RANGE = "1 h"
SINK_CHARTS_MAX = 6
CHUNKS_DRAWN = 60
WIDTHS_DRAWN = 30
"""How many chunks that take as long as most of them are side by side: more would be slivers."""


def range_of(given: str) -> str:
    return given if given in RANGES else USUAL_RANGE


def stream_charts(samples: Sequence[SampleLine], chosen: str) -> list[Markup]:
    """Empty where there are no two samples: a line needs them."""
    shown = [one for one in samples if one.at_ms >= samples[-1].at_ms - RANGES[chosen].length_ms]
    if len(shown) < 2:
        return []
    return charts(shown, Period(shown[0].at_ms, shown[-1].at_ms), sinks_max=SINK_CHARTS_MAX)


def last_chunks(chunks: Sequence[DumpedChunk]) -> list[DumpedChunk]:
    """Those that a picture has room for: none is from before a pause, or so long ago that the others are slivers."""
    last = list(chunks[-CHUNKS_DRAWN:])
    if not last:
        return []
    usual_ms = max(median(physical_ms(one.high_ts) - physical_ms(one.low_ts) for one in last), 1.0)
    end_ms = max(physical_ms(one.high_ts) for one in last)
    return [one for one in last if physical_ms(one.high_ts) > end_ms - WIDTHS_DRAWN * usual_ms]


def chunks_picture(chunks: Sequence[DumpedChunk], samples: Sequence[SampleLine]) -> Markup:
    """`chunks`: at least one."""
    usual_ms = median(physical_ms(one.high_ts) - physical_ms(one.low_ts) for one in chunks)
    end_ms = max(physical_ms(one.high_ts) for one in chunks)
    begins_ms = max(min(physical_ms(one.low_ts) for one in chunks), end_ms - (WIDTHS_DRAWN + 1) * max(usual_ms, 1.0))
    title = "The last chunk" if len(chunks) == 1 else f"The last {len(chunks)} chunks"
    return interleaving(title, chunks, changes(samples), Period(begins_ms, end_ms))
