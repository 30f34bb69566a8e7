"""A dump beside sinks of 0.05 to 30 s a batch: live delivery stays within its limit, and the sinks have work.

**Limit**: the bound or, where a batch's fixed cost F makes that impossible with half of the sink's throughput, 4 x F. **Overshoot**: after
SETTLING batches the p99 of any LIVE_OVER_S (of a slow sink: of any LIVE_BATCHES_MIN batches) is at most OVERSHOOT times the limit.
**Settling**: after a jump of its cost a sink is back
there within as many batches as SETTLING says. **Busy**: at least BUSY of the time a batch is under way.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sidecar.pace.flight import FIRST_ROWS, LEAST_ROWS_S
from sidecar.pace.live import LIVE_BATCHES_MIN, LIVE_OVER_S
from sidecar.shared.model.messages import Brackets
from sidecar.shared.model.nouns import TableName
from tests.simulation.pace_world import PaceWorld, Price, Sink

OVERSHOOT = 1.6
SETTLING = 40
BUSY = 0.7
FAST = Price(fixed_s=0.015, row_s=8e-6, job_s=0.1)
"""As measured of files on local disk: a batch in the worker's own process, a Spark job, a row."""
DEAR_ROWS = Price(fixed_s=0.015, row_s=8e-5, job_s=0.1)
LAKE = Price(fixed_s=30.0, row_s=1e-5)


def always(price: Price) -> Callable[[float], Price | None]:
    return lambda _: price


def batch_s(price: Price) -> float:
    return price.fixed_s + (0.0 if price.cores else price.job_s)


def limit_s(price: Price, bound_s: float = 0.5) -> float:
    return max(bound_s, 4 * batch_s(price))


def over(sink: Sink, price: Price) -> float:
    return max(LIVE_OVER_S, LIVE_BATCHES_MIN * batch_s(price))


def check_live(world: PaceWorld, sink: Sink, price: Price, *, since_s: float, bound_s: float) -> None:
    """Every stretch from `since_s` until now."""
    stretch_s = over(sink, price)
    at_s = since_s
    while at_s + stretch_s <= world.clock.time_s:
        assert sink.p99_s(at_s, at_s + stretch_s) <= OVERSHOOT * bound_s, f"{sink.name}, from {at_s:.0f} s"
        at_s += stretch_s / 2


@pytest.mark.parametrize("brackets", Brackets)
@pytest.mark.parametrize(
    ("price", "whole", "bound_s", "rows_s_least"),
    [
        (FAST, False, 0.5, 35_000),
        (FAST, False, 2.0, 80_000),
        (Price(0.05, 1e-3), False, 0.5, 450),
        (Price(1.0, 1e-5), True, 0.0, 7_000),
        (Price(3.0, 1e-5), True, 0.0, 6_000),
        (LAKE, True, 0.0, 9_000),
    ],
    ids=["files", "files, bound 2 s", "dear rows", "1 s", "3 s", "30 s"],
)
def test_live_delivery_stays_within_the_bound_and_the_sink_is_busy(
    price: Price, brackets: Brackets, bound_s: float, rows_s_least: int, *, whole: bool
) -> None:
    sink = Sink("sink", always(price), whole=whole)
    world = PaceWorld(sink, step_s=min(max(batch_s(price) / 50, 0.02), 0.2))
    begins_s = max(10.0, LIVE_BATCHES_MIN * batch_s(price))
    world.run(begins_s)
    without_s = sink.p99_s(0, begins_s)
    world.start(brackets=brackets, bound_s=bound_s)
    settled_s = begins_s + max(10.0, SETTLING / 4 * batch_s(price))
    world.run(settled_s + max(60.0, SETTLING * batch_s(price)))
    bound_s = bound_s or max(0.5, 1.2 * without_s)
    check_live(world, sink, price, since_s=settled_s, bound_s=limit_s(price, bound_s))
    assert sink.busy(settled_s, world.clock.time_s) >= BUSY
    assert sink.rows_s(settled_s, world.clock.time_s) >= rows_s_least


@pytest.mark.parametrize("resolved_every_s", [0.2, 1.0])
@pytest.mark.parametrize("cores", [0, 2], ids=["all windows on Spark", "small windows in the worker"])
@pytest.mark.parametrize("job_s", [0.1, 0.3, 0.45, 1.0, 3.0])
def test_a_default_dump_beside_a_slow_spark_has_half_of_the_throughput_or_keeps_the_bound(
    job_s: float, cores: int, resolved_every_s: float
) -> None:
    """And the other one as good as it can be: half of the throughput within four times the fixed cost of a batch."""
    price = Price(0.015, 3e-6, job_s, cores=cores)
    rows_s, p99_s, within_10_s = slow_spark(price, resolved_every_s, bound_s=0.0)
    unbounded_rows_s, _, _ = slow_spark(price, resolved_every_s, bound_s=1e6)
    assert rows_s >= 0.9 * 0.5 * unbounded_rows_s or p99_s <= 1.25 * 0.5
    assert p99_s <= OVERSHOOT * limit_s(price)
    assert rows_s >= 20_000
    assert within_10_s >= 60_000 or batch_s(price) >= 1.0


def slow_spark(price: Price, resolved_every_s: float, *, bound_s: float) -> tuple[float, float, int]:
    """Rows/s and live p99 of a dump that has settled, and its rows of the first ten seconds."""
    sink = Sink("sink", always(price))
    world = PaceWorld(sink, resolved_every_s=resolved_every_s)
    world.run(10)
    world.start(bound_s=bound_s)
    world.run(75)
    first = sum(rows for at_s, _, rows in sink.done if 10 < at_s <= 20)
    return sink.rows_s(40, 75), sink.p99_s(40, 75), first


def even(trip_s: float) -> tuple[float, Callable[[float], float]]:
    return 0.2, lambda _: max(trip_s - 0.2, 0.0)


def in_steps(trip_s: float) -> tuple[float, Callable[[float], float]]:
    return trip_s, lambda _: 0.1


def wandering(trip_s: float) -> tuple[float, Callable[[float], float]]:
    return 0.2, lambda now_s: trip_s * (0.5 + int(now_s / 3) % 3 / 2)


WAYS = {"even": even, "in steps": in_steps, "wandering": wandering}
IN_WORKER = Price(0.015, 3e-6, 0.1, cores=2)


def behind_ticdc(price: Price, way: str, trip_s: float, *, bound_s: float = 0.0, strict: bool = False) -> tuple[Sink, float]:
    """Live delivery and a dump of which each mark takes `trip_s` to come back; and when it has had five round trips."""
    every_s, way_s = WAYS[way](trip_s)
    sink = Sink("sink", always(price))
    world = PaceWorld(sink, resolved_every_s=every_s, way_s=way_s)
    world.run(10)
    world.start(bound_s=bound_s, strict_bound=strict)
    since_s = 20 + 6 * trip_s
    world.run(since_s + 35)
    return sink, since_s


@pytest.mark.parametrize("price", [FAST, IN_WORKER], ids=["on Spark", "in the worker"])
@pytest.mark.parametrize("trip_s", [0.3, 1.0, 5.0, 20.0])
@pytest.mark.parametrize("way", WAYS)
def test_a_mark_that_takes_long_to_come_back_costs_neither_rows_nor_the_bound(way: str, trip_s: float, price: Price) -> None:
    """However long: a part of the sink's own pace. Of what is on its way more than this the bytes are bounded."""
    sink, since_s = behind_ticdc(price, way, trip_s)
    until_s = since_s + 35
    assert sink.p99_s(since_s, until_s) <= 1.4 * 0.5
    assert sink.rows_s(since_s, until_s) >= 30_000


@pytest.mark.parametrize("way", WAYS)
def test_a_strict_bound_holds_however_marks_come_back(way: str) -> None:
    sink, since_s = behind_ticdc(FAST, way, 5.0, strict=True)
    assert sink.p99_s(since_s, since_s + 35) <= 1.1 * 0.5


@pytest.mark.parametrize("brackets", Brackets)
def test_many_small_tables_are_on_their_way_at_once(brackets: Brackets) -> None:
    for tables, rows, seconds in ((13, 1_000, 40), (1_000, 10, 60)):
        _, taken_s = of_tables(tables, rows, trip_s=5.0, brackets=brackets)
        assert taken_s <= seconds, f"{tables} tables of {rows} rows, with a round trip of 5 s"


def test_a_dump_takes_little_longer_where_a_mark_takes_a_second() -> None:
    _, quick_s = of_tables(4, 100_000, trip_s=0.3)
    _, slow_s = of_tables(4, 100_000, trip_s=1.0)
    assert slow_s <= 2 * quick_s


def of_tables(tables: int, rows: int, *, trip_s: float, brackets: Brackets = Brackets.WATERMARK) -> tuple[PaceWorld, float]:
    """How long the dump of them takes until all is accepted."""
    every_s, way_s = even(trip_s)
    names = [TableName("s", f"t{number}") for number in range(tables)]
    world = PaceWorld(Sink("sink", always(FAST)), resolved_every_s=every_s, way_s=way_s, tables=names, table_rows=rows)
    world.run(10)
    world.start(brackets=brackets)
    ended_s = world.finish(300)
    assert ended_s is not None
    return world, ended_s - 10


def test_a_busy_sink_gets_the_least_pace_unless_the_bound_is_strict() -> None:
    """A batch without a row takes longer than the bound: nothing is left of that."""
    rows_s = {}
    for strict in (False, True):
        sink = Sink("sink", lambda now_s: FAST if now_s < 20 else Price(2.0, 1e-4))
        world = PaceWorld(sink)
        world.run(10)
        world.start(bound_s=0.5, strict_bound=strict)
        world.run(120)
        rows_s[strict] = sink.rows_s(60, 120)
    assert rows_s[False] >= 0.7 * LEAST_ROWS_S > rows_s[True]


def test_a_strict_bound_is_kept_where_a_dump_would_exceed_it_and_the_status_says_why() -> None:
    price = Price(0.015, 3e-6, 0.2)
    kept, exceeded = Sink("sink", always(price)), Sink("sink", always(price))
    for sink, strict in ((kept, True), (exceeded, False)):
        world = PaceWorld(sink)
        world.run(10)
        world.start(strict_bound=strict)
        world.run(100)
        (state,) = world.pipeline.pace.states(world.clock.time_s)
        assert (state.limit_s > state.bound_s, state.bound_s) == (not strict, 0.5)
        assert state.fixed_s == pytest.approx(0.215, rel=0.3)
    assert kept.p99_s(40, 100) <= 0.6 < exceeded.p99_s(40, 100)
    assert exceeded.rows_s(40, 100) > kept.rows_s(40, 100)


@pytest.mark.parametrize(
    ("before", "after", "step_s", "whole"),
    [
        (FAST, DEAR_ROWS, 0.02, False),
        (DEAR_ROWS, FAST, 0.02, False),
        (Price(5.0, 1e-5), Price(20.0, 1e-5), 0.1, True),
        (Price(20.0, 1e-5), Price(5.0, 1e-5), 0.1, True),
    ],
    ids=["rows ten times dearer", "rows ten times cheaper", "a batch four times longer", "a batch four times shorter"],
)
def test_after_a_jump_the_bound_holds_again_and_the_sink_is_busy(before: Price, after: Price, step_s: float, *, whole: bool) -> None:
    jump_s = 40.0 if batch_s(before) < 1 else 30 * batch_s(before)
    sink = Sink("sink", lambda now_s: before if now_s < jump_s else after, whole=whole)
    world = PaceWorld(sink, step_s=step_s)
    world.run(10 * max(1.0, batch_s(before)))
    world.start()
    world.run(jump_s)
    settled_s = jump_s + SETTLING * max(batch_s(after), 0.5)
    world.run(settled_s + max(40.0, 40 * batch_s(after)))
    bound_s = limit_s(after, max(0.5, 1.2 * 2.2 * batch_s(after)) if whole else 0.5)
    check_live(world, sink, after, since_s=settled_s, bound_s=bound_s)
    assert sink.busy(settled_s, world.clock.time_s) >= BUSY


def test_a_stall_is_outlasted_with_little_open_and_the_dump_goes_on_after_it() -> None:
    sink = Sink("sink", lambda now_s: None if 40 < now_s < 160 else FAST)
    world = PaceWorld(sink)
    world.run(10)
    world.start()
    world.run(60)
    open_rows, logged_rows = world.open_rows(sink), world.logged_rows(sink)
    assert logged_rows * FAST.row_s < 0.6, "more than the bound is waiting"
    assert open_rows * FAST.row_s < 2.0
    world.run(159)
    assert (world.open_rows(sink), world.logged_rows(sink)) == (open_rows, logged_rows), "a dump goes on while nothing is accepted"
    world.run(230)
    check_live(world, sink, FAST, since_s=180, bound_s=0.5)
    assert sink.rows_s(180, 230) >= 30_000


def test_a_sink_that_has_reported_nothing_gets_one_chunk_and_one_that_stalls_from_the_beginning_no_more() -> None:
    sink = Sink("sink", lambda now_s: None if now_s < 60 else FAST)
    world = PaceWorld(sink)
    world.start()
    world.run(59)
    assert 0 < world.logged_rows(sink) <= 1_000
    assert world.open_rows(sink) <= FIRST_ROWS + 1_000
    world.run(90)
    assert sink.rows_s(70, 90) >= 30_000


def test_a_fast_sink_beside_a_slow_one_keeps_its_own_bound_and_the_slow_one_is_busy() -> None:
    fast, lake = Sink("fast", always(FAST)), Sink("lake", always(LAKE), whole=True)
    world = PaceWorld(fast, lake, step_s=0.05)
    world.run(200)
    world.start()
    world.run(1_100)
    check_live(world, fast, FAST, since_s=260, bound_s=0.5)
    check_live(world, lake, LAKE, since_s=500, bound_s=limit_s(LAKE))
    assert lake.busy(500, 1_100) >= BUSY
    assert lake.rows_s(500, 1_100) >= 18_000, "half of what it can take"
    assert (world.width_bound_s(fast), world.width_bound_s(lake)) == (0.5, 30.0), "no more than the setting, however slow the lake is"


def test_live_load_that_rises_and_falls_moves_the_dump_and_not_the_bound() -> None:
    sink = Sink("sink", always(FAST))
    world = PaceWorld(sink, live_rows_s=lambda now_s: 8_000.0 if 40 < now_s < 70 else 500.0)
    world.run(10)
    world.start()
    world.run(110)
    check_live(world, sink, FAST, since_s=20, bound_s=0.5)
    assert sink.rows_s(20, 110) >= 30_000


def test_a_strict_bound_that_no_dump_could_keep_makes_the_gentlest_dump_and_it_continues() -> None:
    sink = Sink("sink", always(Price(2.0, 1e-5)), whole=True)
    world = PaceWorld(sink, step_s=0.04)
    world.run(30)
    without_s = sink.p99_s(0, 30)
    world.start(bound_s=0.5, strict_bound=True)
    world.run(230)
    assert sink.rows_s(60, 230) >= 1_000
    assert sink.p99_s(60, 230) <= 1.25 * without_s


def test_the_same_world_lives_the_same_life() -> None:
    lives = []
    for _ in range(2):
        sink = Sink("sink", always(FAST))
        world = PaceWorld(sink)
        world.run(10)
        world.start()
        world.run(20)
        lives.append((sink.done, world.source.chunks))
    assert lives[0] == lives[1]
