"""Samples of the status: one each two seconds, of the last hour, whatever the clock does; and how they are on the wire."""

from __future__ import annotations

from dataclasses import replace

from sidecar.control.status import SidecarStatus
from sidecar.pace.controller import SinkState
from sidecar.report.chunks import DumpedChunk
from sidecar.run.ddls import SeenDdl
from sidecar.run.samples import WAITING_CHARS_MAX, Samples, timeline
from sidecar.shared.log.certificate_parts import SampleLine, SinkSample
from sidecar.shared.model.messages import Brackets
from sidecar.shared.model.nouns import CommitTs, Seq, TableName
from sidecar.shared.model.progress import DumpState, Progress
from sidecar.shared.ticdc.changefeed import ChangefeedName
from tests.unit.report.made import dumped, sample

NOW_MS = 1_780_000_000_000


def dump(dump_id: str, state: DumpState) -> Progress:
    return Progress(dump_id, state, Brackets.WATERMARK, 10, 1, 1, Seq(0), ())


STATUS = SidecarStatus(
    ChangefeedName("default", "default", "cf"),
    epoch=3,
    owner="here:1",
    dumps=(dump("a", DumpState.RUNNING), dump("b", DumpState.PAUSED), dump("c", DumpState.RUNNING)),
    rows_per_s=1234.56,
    changes=100,
    resolved_lag_s=0.40049,
    delivery_lag_s=0.2,
    open_windows=4,
    waiting_for="sink: slow" + "x" * WAITING_CHARS_MAX,
    sinks=(SinkState("copy", 0.31, 0.5, 0.1, 7, False, limit_s=0.9, median_s=0.12),),
)


def seen(*changes_at: tuple[int, int], epoch: int = 3) -> Samples:
    """Each: milliseconds after NOW_MS, and the changes until then."""
    made = Samples()
    for at_ms, changes in changes_at:
        made.see(replace(STATUS, changes=changes, epoch=epoch), NOW_MS + at_ms)
    return made


def test_a_sample_has_what_the_status_says() -> None:
    assert seen((0, 100)).after(0) == [
        SampleLine(
            NOW_MS, 3, ("a", "c"), 1234.6, 0.0, 0.4, 0.2, 4, STATUS.waiting_for[:WAITING_CHARS_MAX],
            (SinkSample("copy", 0.12, 0.31, 0.5, 0.9),),
        )
    ]  # fmt: skip


def test_there_is_one_each_two_seconds() -> None:
    made = seen(*((at_ms, 0) for at_ms in range(0, 10_000, 500)))
    assert [one.at_ms - NOW_MS for one in made.after(0)] == [0, 2000, 4000, 6000, 8000]
    assert [one.at_ms - NOW_MS for one in made.after(NOW_MS + 4000)] == [6000, 8000], "later than that"
    assert made.after(NOW_MS + 8000) == []


def test_those_of_the_last_hour_are_kept_also_where_there_was_no_owner_for_long() -> None:
    made = seen(*((at_ms, 0) for at_ms in range(0, 3_700_000, 2000)))
    assert [sample_line.at_ms - NOW_MS for sample_line in made.after(0)] == list(range(3_698_000 - 3_598_000, 3_700_000, 2000))
    made.see(STATUS, NOW_MS + 3_698_000 + 3_599_000)
    assert len(made.after(0)) == 2, "the last one of before is of this hour still"


def test_changes_a_second_are_those_since_the_sample_before() -> None:
    assert [one.changes_per_s for one in seen((0, 100), (2000, 160), (6000, 160), (8000, 161)).after(0)] == [0.0, 30.0, 0.0, 0.5]


def test_another_owner_counts_changes_from_its_beginning() -> None:
    made = seen((0, 100), (2000, 160))
    made.see(replace(STATUS, changes=5, epoch=4), NOW_MS + 4000)
    made.see(replace(STATUS, changes=25, epoch=4), NOW_MS + 6000)
    assert [(one.epoch, one.changes_per_s) for one in made.after(0)] == [(3, 0.0), (3, 30.0), (4, 0.0), (4, 10.0)]


def test_a_clock_that_was_set_back_begins_again_with_nothing_of_the_times_that_come_again() -> None:
    made = seen((0, 100), (2000, 160), (-50_000, 180), (-48_000, 190))
    assert [(one.at_ms - NOW_MS, one.changes_per_s) for one in made.after(0)] == [(-50_000, 0.0), (-48_000, 5.0)]


def test_every_field_of_the_timeline_is_filled() -> None:
    made = timeline(
        [sample(1.0, waiting_for="sink: slow")], [dumped(7, begins_ms=NOW_MS, dropped=2)], [SeenDdl(CommitTs(7), "DROP TABLE t", 2)]
    )
    for message in (made, made.samples[0], made.samples[0].sinks[0], made.chunks[0], made.ddls[0]):
        assert [field.name for field in message.DESCRIPTOR.fields if not getattr(message, field.name)] == []


def test_on_the_wire_are_the_values_of_samples_and_chunks() -> None:
    one, chunk = sample(1.0, waiting_for="sink: slow"), dumped(7, TableName("shop", "items"), begins_ms=NOW_MS)
    made = timeline([one, sample(3.0)], [chunk, replace(chunk, dropped=0)], [])
    assert [item.at_ms for item in made.samples] == [one.at_ms, one.at_ms + 2000]
    result = made.samples[0]
    assert (result.epoch, result.rows_per_second, result.changes_per_second) == (one.epoch, one.rows_per_s, one.changes_per_s)
    assert (result.resolved_lag_s, result.delivery_lag_s, result.open_windows) == (one.resolved_lag_s, one.delivery_lag_s, one.open_windows)
    assert result.waiting_for == one.waiting_for
    (sink,) = result.sinks
    assert SinkSample(sink.sink, sink.median_s, sink.live_s, sink.bound_s, sink.limit_s) == one.sinks[0]
    wire = made.chunks[0]
    table = TableName(wire.schema, wire.table)
    assert DumpedChunk(wire.dump_id, table, wire.low_tso, wire.high_tso, wire.rows, wire.seq) == chunk
    assert [one.HasField("dropped") for one in made.chunks] == [False, True], "nothing dropped is not the same as not known"


def test_after_an_hour_the_slowest_sample_of_each_minute_is_kept_for_a_day() -> None:
    made, minute_ms = Samples(every_s=20.0), 60_000
    begin_ms = NOW_MS - NOW_MS % minute_ms
    for number in range(3 * 60 * 26):
        slow = 9.0 if number % 3 == 1 else 0.5
        made.see(replace(STATUS, sinks=(SinkState("copy", slow, 0.5, 0.1, 7, False),)), begin_ms + 20_000 * number)
    sample_lines = made.day()
    assert [one.at_ms for one in sample_lines[-180:]] == [one.at_ms for one in made.after(0)], "the last hour is whole"
    older = sample_lines[:-180]
    assert {one.at_ms % minute_ms for one in older[:-1]} == {20_000}
    assert len(older) in (24 * 60 - 1, 24 * 60, 24 * 60 + 1)
    assert [one.at_ms for one in sample_lines] == sorted(one.at_ms for one in sample_lines)
    made.see(STATUS, begin_ms)
    assert len(made.day()) == 1, "of a clock that was set back, none of the times that come again"
