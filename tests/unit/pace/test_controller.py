"""The width of a dump, sink by sink. How it behaves in time: tests/simulation/test_pace.py."""

from __future__ import annotations

from itertools import pairwise

import pytest

from sidecar.core.dump_start import Demand
from sidecar.pace.controller import (
    GAIN_DOWN_MIN,
    GAIN_MAX,
    GAIN_MIN,
    GROWTH,
    HALF,
    NARROW_ROWS,
    ROUND_BATCHES,
    ROUND_S,
    Controller,
    Gain,
)
from sidecar.pace.flight import LEAST_ROWS_S
from sidecar.shared.model.chunk import ChunkFile, ClosedWindow
from sidecar.shared.model.nouns import CommitTs, Seq, TableName
from sidecar.shared.model.sink_delivery import BatchDone, ReportTimes, SinkDelivery

SINK = "file:///out"


def batch(last: int, *, seconds: float, dump_rows: int = 0, accepted_ms: int = 0) -> BatchDone:
    return BatchDone(Seq(last), 1, 10, dump_rows, seconds, 0.0, accepted_ms)


def receive(controller: Controller, *batches: BatchDone, now_s: float, reported: ReportTimes | None = None, sink: str = SINK) -> None:
    controller.receive(None, [SinkDelivery(sink, batches[-1].last if batches else None, batches)], reported, now_s=now_s)


def closed(rows: int, *, size: int = 0, sinks: tuple[str, ...] = ()) -> tuple[ClosedWindow, ...]:
    """A window of one chunk; none of no rows."""
    chunk = ChunkFile(TableName("s", "t"), "chunk", rows, size, None, None, None)
    return (ClosedWindow("d", CommitTs(1), CommitTs(2), Seq(0), (chunk,), sinks),) if rows else ()


def test_before_anything_is_reported_one_chunk_may_be_read_and_the_next_when_that_is_accepted() -> None:
    controller = Controller()
    assert controller.room(Demand()).rows == NARROW_ROWS
    controller.wrote(Seq(0), 1.0, closed(NARROW_ROWS, size=100))
    assert controller.room(Demand()).rows <= 0
    controller.receive(Seq(0), (), None, now_s=2.0)
    assert controller.room(Demand()).rows > 0


def test_where_sinks_are_not_reported_each_what_is_accepted_at_once_is_a_batch() -> None:
    controller = Controller()
    for seq, rows in ((0, 0), (1, 0), (2, 500), (3, 500)):
        controller.wrote(Seq(seq), float(seq), closed(rows, size=rows * 100))
        controller.receive(Seq(seq), (), None, now_s=seq + 0.1)
    assert controller.room(Demand()).width_rows > NARROW_ROWS


def there(controller: Controller, *, sink: str = SINK) -> BatchDone:
    """A worker whose first batch, of segment 0, is accepted at 0 s."""
    first = batch(0, seconds=0.01)
    receive(controller, now_s=-0.1, sink=sink)
    controller.wrote(Seq(0), -0.01)
    receive(controller, first, now_s=0.0, sink=sink)
    return first


def test_live_delivery_is_from_the_manifest_to_the_workers_word_for_it() -> None:
    controller = Controller()
    there(controller)
    controller.wrote(Seq(1), 10.0)
    controller.wrote(Seq(2), 10.5)
    receive(controller, batch(2, seconds=0.2, accepted_ms=500_000), now_s=11.4, reported=ReportTimes(500_100, 11.1))
    (state,) = controller.states(11.4)
    assert (state.sink, round(state.live_s, 3), state.bound_s) == (SINK, 1.0, 0.5)
    assert controller.lag_s(11.4) == 0.0


def test_the_median_is_of_half_of_the_segments_and_0_of_none() -> None:
    controller = Controller()
    there(controller)
    assert controller.states(0.0)[0].median_s == 0.0
    for seq, took_s in enumerate((0.1, 0.2, 0.3, 0.4, 9.0), start=1):
        controller.wrote(Seq(seq), 10.0 * seq)
        receive(controller, batch(seq, seconds=took_s), now_s=10.0 * seq + took_s)
    (state,) = controller.states(60.0)
    assert (round(state.median_s, 3), round(state.live_s, 3)) == (0.3, 9.0)


def test_what_waits_is_seen_before_it_is_accepted() -> None:
    controller = Controller()
    receive(controller, now_s=0.0)
    controller.wrote(Seq(0), 10.0)
    assert (controller.lag_s(17.0), controller.states(17.0)[0].live_s) == (7.0, 7.0)


def test_the_bound_is_half_a_second_or_more_beside_a_sink_that_takes_longer_or_the_operators() -> None:
    controller = Controller()
    receive(controller, batch(0, seconds=0.05), now_s=1.0)
    assert controller.states(1.0)[0].bound_s == 0.5
    receive(controller, *(batch(seq, seconds=10.0) for seq in range(4)), now_s=50.0)
    assert controller.states(50.0)[0].bound_s == 24.0
    controller.room(Demand(delivery_bound_s=3.0))
    assert controller.states(50.0)[0].bound_s == 3.0


def test_no_bound_exceeds_the_setting_and_what_takes_longer_without_a_dump_is_overloaded() -> None:
    """N3: beside a worker that needs 80 s, a bound of 98 s was shown as kept."""
    controller = Controller()
    receive(controller, batch(0, seconds=0.05), now_s=1.0)
    assert not controller.states(1.0)[0].overloaded
    receive(controller, *(batch(seq, seconds=40.0) for seq in range(4)), now_s=200.0)
    (state,) = controller.states(200.0)
    assert (state.without_s, state.bound_s, state.limit_s, state.overloaded) == (80.0, 30.0, 30.0, True)
    room = controller.room(Demand(delivery_bound_max_s=7.0))
    assert controller.states(200.0)[0].bound_s == 7.0
    assert room.rows > 0, "a dump goes on"


def test_a_sink_that_gathers_has_that_time_besides() -> None:
    controller = Controller()
    batches = tuple(batch(seq, seconds=100.0) for seq in range(4))
    controller.receive(None, [SinkDelivery(SINK, Seq(3), batches, gather_s=100.0)], None, now_s=400.0)
    (state,) = controller.states(400.0)
    assert (state.without_s, state.bound_s, state.overloaded) == (200.0, 230.0, False)
    controller.room(Demand(delivery_bound_s=2.0))
    assert not controller.states(400.0)[0].overloaded, "nor by an operator's bound"
    controller.room(Demand(delivery_bound_s=0.1))
    batches += tuple(batch(seq, seconds=120.0) for seq in range(4, 8))
    controller.receive(None, [SinkDelivery(SINK, Seq(7), batches, gather_s=100.0)], None, now_s=900.0)
    assert controller.states(900.0)[0].overloaded, "by what it takes besides"


def test_the_least_of_all_sinks_holds_and_is_named() -> None:
    controller = Controller()
    batches = (there(controller, sink="fast"), batch(1, seconds=0.1, dump_rows=10_000))
    sinks = [SinkDelivery("fast", None, batches[:1]), SinkDelivery("new", None)]
    controller.receive(None, sinks, None, now_s=0.5)
    controller.wrote(Seq(1), 1.0)
    controller.receive(None, [SinkDelivery("fast", Seq(1), batches), SinkDelivery("new", None)], None, now_s=1.1)
    room = controller.room(Demand(held=True))
    assert (room.rows, room.width_rows) == (NARROW_ROWS, NARROW_ROWS)
    assert [(state.sink, state.holds) for state in controller.states(1.0)] == [("fast", False), ("new", True)]


@pytest.mark.parametrize("behind", ["narrow", "wide"])
def test_a_window_wider_than_a_width_closes_only_where_no_sink_has_any_of_the_dump_left(behind: str) -> None:
    """Not where the sink with the narrowest width has none and another one has: that one would have the window behind what it has."""
    controller, row_s = Controller(), {"narrow": 1e-4, "wide": 1e-5}
    batches: dict[str, tuple[BatchDone, ...]] = dict.fromkeys(row_s, ())

    def reported(seq: int, *names: str) -> None:
        rows = (100, 400)[seq % 2]
        for name in names:
            batches[name] = (*batches[name], batch(seq, seconds=0.01 + rows * row_s[name], dump_rows=rows))
        controller.receive(None, [SinkDelivery(name, done[-1].last, done) for name, done in batches.items()], None, now_s=seq + 0.1)

    for seq in range(20):
        controller.wrote(Seq(seq), float(seq), closed((100, 400)[seq % 2]))
        reported(seq, *row_s)
    room = controller.room(Demand())
    assert room.fits(10 * room.width_rows, 0)
    controller.wrote(Seq(20), 20.0, closed(100))
    reported(20, *(row_s.keys() - {behind}))
    assert not controller.room(Demand()).fits(10 * room.width_rows, 0)


def test_a_sink_that_comes_later_has_what_waits_before_it_and_one_that_is_gone_holds_nothing() -> None:
    controller = Controller()
    receive(controller, now_s=0.0, sink="first")
    controller.wrote(Seq(0), 1.0, closed(300, size=10))
    receive(controller, now_s=2.0, sink="second")
    assert [state.sink for state in controller.states(2.0)] == ["second"]
    assert controller.room(Demand()).rows == NARROW_ROWS - 301


def grown(*, took_s: float) -> list[int]:
    """The widths before the first batch with rows and after each of four, which were delivered in so long."""
    controller = Controller()
    batches: tuple[BatchDone, ...] = (there(controller), batch(1, seconds=0.01))
    controller.wrote(Seq(1), 0.5)
    receive(controller, *batches, now_s=0.52)
    widths = [controller.room(Demand()).width_rows]
    for seq in range(2, 6):
        controller.wrote(Seq(seq), float(seq), closed(1_000))
        batches = (*batches, batch(seq, seconds=0.0101, dump_rows=1_000))
        receive(controller, *batches, now_s=seq + took_s)
        widths.append(controller.room(Demand()).width_rows)
    return widths


def test_a_width_grows_with_each_batch_below_the_bound_whatever_was_open() -> None:
    widths = grown(took_s=0.02)
    assert widths[0] == NARROW_ROWS
    assert all(2 * before <= after <= GROWTH * before for before, after in pairwise(widths[:4]))
    assert max(grown(took_s=0.49)[1:]) <= LEAST_ROWS_S * 0.5


def test_wide_rows_are_held_by_their_bytes() -> None:
    controller = Controller()
    batches: tuple[BatchDone, ...] = (batch(0, seconds=0.01),)
    receive(controller, *batches, now_s=0.5)
    for seq in (1, 2):
        controller.wrote(Seq(seq), float(seq), closed(1_000, size=10_000_000))
        batches = (*batches, batch(seq, seconds=0.11, dump_rows=1_000))
        receive(controller, *batches, now_s=seq + 0.3)
    room = controller.room(Demand())
    assert 4_000 < room.bytes / 10_000 < 5_000, "the slack of 0.48 s at a hundred microseconds a row"


def test_a_width_that_was_too_wide_falls_by_what_was_too_much() -> None:
    gain = Gain()
    gain.judge(4.0, rows=100, at_s=1.0, queued_rows=150)
    assert gain.value == GAIN_DOWN_MIN
    gain.judge(4.0, rows=100, at_s=2.0, queued_rows=150)
    gain.judge(4.0, rows=100, at_s=3.0, queued_rows=150)
    assert gain.value == GAIN_DOWN_MIN, "what was open at the change says nothing of the width after it"
    gain.judge(1.01, rows=100, at_s=4.0, queued_rows=150)
    assert GAIN_DOWN_MIN * 0.5 < gain.value < GAIN_DOWN_MIN


def test_a_gain_rises_when_the_dump_was_held_and_delivery_was_well_below_the_bound() -> None:
    for held, used, rises in ((True, 0.1, True), (False, 0.1, False), (True, 0.9, False)):
        gain = Gain()
        for at in range(ROUND_BATCHES):
            gain.held = held
            gain.judge(used, rows=100, at_s=(at + 1) * ROUND_S, queued_rows=100)
        assert (gain.value > 1.0) == rises


def test_a_gain_that_fell_rises_to_one_again_where_delivery_is_not_near_the_bound() -> None:
    gain = Gain(value=0.5, held=True)
    for at in range(8 * ROUND_BATCHES):
        gain.held = True
        gain.judge(0.7, rows=100, at_s=(at + 1) * ROUND_S, queued_rows=100)
    assert gain.value == pytest.approx(1.0), "and no further"


def test_a_dump_waits_for_the_spark_that_is_to_merge_it() -> None:
    controller = Controller()
    sinks = (SinkDelivery("a", Seq(0)),)
    controller.receive(Seq(0), sinks, ReportTimes(1, 1.0, starting=True), now_s=1.0)
    assert controller.room(Demand()).rows == 0
    controller.receive(Seq(0), sinks, ReportTimes(2, 2.0), now_s=2.0)
    assert controller.room(Demand()).rows > 0


def test_where_a_dumps_batch_by_itself_is_beyond_the_bound_its_rows_may_still_add_a_share() -> None:
    controller = Controller()
    batches: tuple[BatchDone, ...] = (batch(0, seconds=0.01),)
    for seq in range(1, 25):
        rows = 100 if seq % 2 else 2_000
        controller.room(Demand(held=True))
        controller.wrote(Seq(seq), float(seq), closed(rows))
        batches = (*batches, batch(seq, seconds=1.0 + rows * 1e-5, dump_rows=rows))
        receive(controller, *batches, now_s=seq + 1.0)
    assert controller.room(Demand()).width_rows > 500, "a bound of 0.5 s, and a second of each batch that no width makes less"


def beside(*, slow_s: float, seqs: int = 40) -> int:
    """Rows that a dump for the sink may have open, whose other sink takes `slow_s` for each segment while the dump runs."""
    controller = Controller()
    ours: list[BatchDone] = []
    others: list[BatchDone] = []
    demand = Demand(open_rows=100, held=True, delivery_bound_s=1.0, sinks=(SINK,))
    for seq in range(seqs):
        rows = 1_000 if seq >= 10 else 0
        controller.room(demand if rows else Demand(delivery_bound_s=1.0))
        controller.wrote(Seq(seq), float(seq), closed(rows, sinks=(SINK,)))
        ours.append(batch(seq, seconds=0.02 + rows * 1e-5, dump_rows=rows))
        mine = SinkDelivery(SINK, Seq(seq), tuple(ours))
        controller.receive(None, [mine, SinkDelivery("other", None, tuple(others))], None, now_s=seq + 0.05)
        others.append(batch(seq, seconds=0.02))
        controller.receive(None, [mine, SinkDelivery("other", Seq(seq), tuple(others))], None, now_s=seq + (slow_s if rows else 0.05))
    return controller.room(demand).width_rows


def test_a_sink_beside_a_dump_narrows_it_only_where_it_comes_near_its_own_bound() -> None:
    """Its rows are not counted: it has none of the dump's."""
    near, far = beside(slow_s=0.95), beside(slow_s=0.05)
    assert far > NARROW_ROWS
    assert GAIN_MIN / GAIN_MAX <= near / far < 0.5, "its own gain does not rise meanwhile"


def test_a_dump_for_a_sink_that_is_there_no_more_is_held_by_the_others() -> None:
    controller = Controller()
    receive(controller, now_s=1.0)
    assert controller.room(Demand(sinks=("gone",))).rows == NARROW_ROWS


def test_a_width_is_never_less_than_the_least_pace_for_each_second_of_delivery_or_half_of_what_the_sink_takes_in_it() -> None:
    for row_s, least in ((1e-4, LEAST_ROWS_S), (1e-2, HALF / 1e-2)):
        for strict in (False, True):
            controller = Controller()
            batches: tuple[BatchDone, ...] = (there(controller),)
            for seq in range(1, 40):
                rows = 0 if seq < 10 else (20, 40)[seq % 2]
                controller.room(Demand(delivery_bound_s=0.5, strict_bound=strict))
                controller.wrote(Seq(seq), 10.0 * seq, closed(rows))
                batches = (*batches, batch(seq, seconds=4.5 + rows * row_s, dump_rows=rows))[-8:]
                receive(controller, *batches, now_s=10.0 * seq + 5.0)
            width = controller.room(Demand(delivery_bound_s=0.5, strict_bound=strict)).width_rows
            assert (width >= 0.9 * least * 5.0) is not strict
