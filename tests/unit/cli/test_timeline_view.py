"""The last minutes as lines of blocks: each moment in its column, against the bound, and only what was measured."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from sidecar.cli.timeline_view import (
    BLOCKS,
    BLOCKS_ASCII,
    COLUMNS_MIN,
    SPAN_MS,
    TEXT_WIDTH,
    Sparkline,
    TimedValue,
    WatchedTimeline,
    change_rates,
    dump_rates,
    live_times,
)
from ticdc_dump.v1 import control_pb2 as pb

END_MS = 1_700_000_400_000
WIDTH = TEXT_WIDTH + 2 + 30
COLUMN_MS = SPAN_MS // 30


def drawn(line: Sparkline, *, width: int = WIDTH, encoding: str = "utf-8", colors: bool = False) -> str:
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    console = Console(file=file, width=width, force_terminal=colors, color_system="standard" if colors else None)
    console.print(line)
    file.seek(0)
    return file.read().rstrip()


def of(*values: float, bound: float = 0.0, column_ms: int = COLUMN_MS) -> Sparkline:
    """A column for each, the last at the end."""
    first_ms = END_MS - (len(values) - 1) * column_ms
    timed = [TimedValue(first_ms + index * column_ms, value, bound) for index, value in enumerate(values)]
    return Sparkline(timed, values[-1], END_MS, lambda value: f"{value:g}", is_bounded=bound > 0)


def test_the_greatest_value_is_the_highest_block_and_zero_the_lowest() -> None:
    assert drawn(of(0, 1, 2, 3, 4, 5, 6, 7)) == f"{' ' * 22}{BLOCKS}  now 7, max 7 in 10 min"


def test_the_lower_half_is_within_the_bound_and_the_upper_half_above_it() -> None:
    line = of(0.0, 0.1, 0.5, 0.501, 0.7, 1.0, 0.3, bound=0.5)
    assert drawn(line) == f"{' ' * 23}▁▂▄▅▆█▃  now 0.3, max 1 in 10 min"
    assert line.above == "above the bound in 3 of 7 samples"
    assert of(0.5, 0.1, bound=0.5).above == ""
    assert "▄▅▄" in drawn(of(0.5, 0.51, 0.5, bound=0.5)), "what is hardly above is not drawn as the worst"
    assert "▅█▅" in drawn(of(0.6, 5.0, 0.6, bound=0.5))


def test_what_is_above_the_bound_is_red_and_nothing_else() -> None:
    coloured = drawn(of(0.1, 1.0, 0.1, bound=0.5), colors=True)
    assert coloured.count("\x1b[31m") == 1
    assert "\x1b[31m█\x1b[0m" in coloured
    assert "\x1b" not in drawn(of(1, 9, 1), colors=True), "what has no bound is never above it"


def test_a_spike_among_many_values_does_not_set_the_scale() -> None:
    line = drawn(of(*[7.0, 3.5] * 14, 500.0, 3.5, column_ms=COLUMN_MS))
    assert line.startswith("█▅" * 14 + "█▅")
    assert "max 500" in line
    bounded = drawn(of(*[0.6, 0.9] * 14, 300.0, 0.6, bound=0.5))
    assert bounded.startswith("▆▇" * 14 + "█▆"), "above the bound it is the same"


def test_what_was_measured_while_no_dump_ran_is_not_above_the_bound() -> None:
    samples = [sample(END_MS - (20 - n) * 20_000, rows, live_s=0.7) for n, rows in enumerate([0.0] * 19 + [5.0, 0.0])]
    line = live_times(pb.DumpStatus(timeline=pb.Timeline(samples=samples)), pb.SinkStatus(sink="lake", live_s=0.7))
    assert line is not None
    assert line.above == "above the bound in 1 of 21 samples"
    assert drawn(line).partition("  now")[0].strip() == "▄" * 19 + "▆▄"


def test_values_of_one_column_are_the_worst_of_them_and_stay_there_while_time_goes_on() -> None:
    values = [TimedValue(END_MS - COLUMN_MS, 1.0), TimedValue(END_MS, 2.0), TimedValue(END_MS + 1, 9.0), TimedValue(END_MS + 2, 2.0)]
    for end_ms in (END_MS + 2, END_MS + COLUMN_MS - 1):
        assert drawn(Sparkline(values, 2.0, end_ms, str)).startswith(f"{' ' * 28}▂█  now 2.0, max 9.0")
    assert drawn(Sparkline(values, 2.0, END_MS + COLUMN_MS, str)).startswith(f"{' ' * 27}▂█   now 2.0")


def test_a_time_in_which_nothing_was_measured_is_a_gap_and_late_samples_are_none() -> None:
    values = [TimedValue(END_MS - index * 2_003, 1.0) for index in range(300) if not 100 <= index < 200]
    line = drawn(Sparkline(values, 1.0, END_MS, str), width=300)
    assert len(line.partition("  now")[0]) == SPAN_MS // 4_000
    assert [len(part) for part in line.partition("  now")[0].split()] == [49, 51]


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_where_the_encoding_has_no_blocks_the_line_is_ascii(encoding: str) -> None:
    assert drawn(of(0, 1, 2, 3, 4, 5, 6, 7), encoding=encoding) == f"{' ' * 22}{BLOCKS_ASCII}  now 7, max 7 in 10 min"


def test_where_there_is_no_room_for_columns_the_values_stand_alone() -> None:
    narrow = TEXT_WIDTH + 2 + COLUMNS_MIN
    assert drawn(of(1, 7), width=narrow).endswith("▂█  now 7, max 7 in 10 min")
    assert drawn(of(1, 7), width=narrow - 1) == "now 7, max 7 in 10 min"


def sample(at_ms: int, rows: float = 0.0, *, epoch: int = 1, live_s: float = 0.0) -> pb.Sample:
    sink = pb.SinkSample(sink="lake", live_s=live_s, bound_s=0.5)
    return pb.Sample(at_ms=at_ms, epoch=epoch, rows_per_second=rows, changes_per_second=rows / 10, sinks=[sink])


def test_the_values_are_those_of_the_status_and_of_its_last_minutes() -> None:
    samples = [sample(END_MS - SPAN_MS, 9_999), sample(END_MS - 2_000, 3_000, live_s=0.7), sample(END_MS, 2_000, live_s=0.2)]
    status = pb.DumpStatus(rows_per_second=1_234.4, timeline=pb.Timeline(samples=samples))
    lines = dump_rates(status), change_rates(status), live_times(status, pb.SinkStatus(sink="lake", live_s=0.25))
    shown = [drawn(line).partition("now ")[2] for line in lines if line is not None]
    assert shown == ["1,234, max 3,000 in 10 min", "200, max 300 in 10 min", "0.25 s, max 0.70 s in 10 min"]


@pytest.mark.parametrize("status", [pb.DumpStatus(), pb.DumpStatus(timeline=pb.Timeline())], ids=["an older sidecar", "nothing measured"])
def test_without_a_timeline_there_are_no_lines(status: pb.DumpStatus) -> None:
    assert (dump_rates(status), change_rates(status), live_times(status, pb.SinkStatus(sink="lake"))) == (None, None, None)


def test_a_sink_that_no_sample_has_gets_no_line() -> None:
    status = pb.DumpStatus(timeline=pb.Timeline(samples=[sample(END_MS)]))
    assert live_times(status, pb.SinkStatus(sink="new")) is None


def test_a_watch_keeps_the_last_minutes_of_its_statuses() -> None:
    watched = WatchedTimeline()
    times = [END_MS + index * 2_000 for index in range(2_000)]
    assert len(watched.recent(pb.Timeline(samples=[sample(at) for at in times[:1_800]])).samples) == SPAN_MS // 2_000
    for at in times[1_800:]:
        kept = watched.recent(pb.Timeline(samples=[sample(at)]))
    assert [one.at_ms for one in kept.samples] == times[-SPAN_MS // 2_000 :]
    assert watched.recent(pb.Timeline()) == pb.Timeline(samples=kept.samples), "an answer without anything new"


def test_a_watch_that_begins_again_returns_nothing_twice() -> None:
    watched = WatchedTimeline()
    first, second, other = sample(END_MS), sample(END_MS + 2_000), sample(END_MS - 5_000, epoch=2)
    before = sample(END_MS - 60_000, epoch=0)
    assert watched.new(pb.Timeline(samples=[first])).samples == [first]
    assert watched.new(pb.Timeline(samples=[first, second])).samples == [second]
    assert watched.new(pb.Timeline(samples=[before, other])).samples == [other], "of the next owner, whose clock is behind"


def test_a_chunk_is_reported_once_and_again_when_its_dropped_rows_are_known() -> None:
    watched = WatchedTimeline()
    chunks = [pb.DumpedChunk(dump_id="d" * 16, table=name, rows=10, seq=index) for index, name in enumerate("ab")]
    assert watched.new(pb.Timeline(chunks=chunks)).chunks == chunks
    known = pb.DumpedChunk()
    known.CopyFrom(chunks[1])
    known.dropped = 0
    assert watched.new(pb.Timeline(chunks=[chunks[0], known])).chunks == [known]
