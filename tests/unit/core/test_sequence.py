"""Order: what is released, when, in which order, and what comes back after a restart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.core.sequence import SPARE_TS, Sequence
from sidecar.shared.errors import FeedUnsuitable, MessageUnreadable
from sidecar.shared.model.nouns import CommitTs, Envelope, Lane, ts_at
from tests.support.changes import accept, ddl, delete, keys, put, release, resolved, sequence


def test_releases_strictly_below_resolved() -> None:
    s = sequence()
    accept(s, put(9, "nine"), put(10, "ten"), resolved(10))
    released = release(s, {"a"})
    assert keys(released) == ["nine"]
    assert (released[0][0].after_ts, released[0][0].upto_ts) == (0, 9)


def test_a_little_is_spared_for_segments_without_a_change_and_no_change_waits_for_that() -> None:
    high, lanes = 10 * SPARE_TS, {Lane("a")}
    s = sequence()
    accept(s, put(9, "nine"), put(high - 1, "high", position=1), resolved(high - SPARE_TS, position=2))
    spared_ts = CommitTs(high - 2 * SPARE_TS - 1)
    assert s.upto(lanes, sparing=True) == s.upto(lanes, sparing=True) == spared_ts
    assert [[change.key for change in one.changes] for one in s.release(spared_ts, even_if_empty=False)] == [[b"nine"]]
    after_ts, empty = spared_ts, 0
    while (ts := s.upto(lanes, sparing=True)) is not None:
        assert list(s.release(ts, even_if_empty=False)) == []
        assert [(one.after_ts, one.upto_ts, list(one.changes)) for one in s.release(ts, even_if_empty=True)] == [(after_ts, ts, [])]
        after_ts, empty = ts, empty + 1
    assert after_ts == high - SPARE_TS - 1
    assert empty == SPARE_TS
    accept(s, put(high - 9, "nearly", position=3), put(high + 5, "later", position=4), resolved(high, position=5))
    assert s.upto(lanes, sparing=True) == high - 1, "a change is there, and what is between it and the lanes' end is nothing"
    assert keys(release(s, {"a"})) == ["nearly", "high"]
    accept(s, ddl(3 * high - 2, position=7), resolved(3 * high, position=8))
    assert s.upto(lanes, sparing=True) == 3 * high - 2, "a DDL is there, and one number behind it"
    release(s, {"a"})
    accept(s, resolved(3 * high + SPARE_TS, position=9))
    assert s.upto(lanes, sparing=True) == 3 * high + SPARE_TS - 1, "there are not so many"


def test_waits_for_the_slowest_lane() -> None:
    s = sequence()
    accept(s, put(5, "x"), resolved(100), resolved(6, lane="b"))
    assert keys(release(s, {"a", "b"})) == ["x"]
    accept(s, put(50, "y"), resolved(200))
    assert release(s, {"a", "b"}) == []
    accept(s, resolved(60, lane="b"))
    assert keys(release(s, {"a", "b"})) == ["y"]


def test_a_new_lane_holds_everything_until_its_first_resolved_mark() -> None:
    s = sequence()
    accept(s, put(5, "x"), resolved(100))
    assert s.upto({Lane("a"), Lane("b")}) is None
    accept(s, put(4, "early", lane="b"), resolved(100, lane="b", position=1))
    assert keys(release(s, {"a", "b"})) == ["early", "x"]


def test_no_lanes_release_nothing() -> None:
    s = sequence()
    accept(s, put(5, "x"), resolved(100))
    assert s.upto(set()) is None


def test_orders_by_commit_ts_then_deletes_then_puts_then_arrival() -> None:
    s = sequence()
    accept(
        s, put(7, "b"), put(7, "a", position=1), delete(7, "d", position=2), put(3, "first", lane="b"), resolved(9), resolved(9, lane="b")
    )
    assert keys(release(s, {"a", "b"})) == ["first", "d", "b", "a"]


def test_a_ddl_ends_its_segment_after_the_changes_of_its_commit_ts() -> None:
    s = sequence()
    accept(s, ddl(5), put(5, "same ts", position=1), put(6, "after", position=2), resolved(9, position=3))
    (first, rows), (second, later) = release(s, {"a"})
    assert (first.upto_ts, [c.key for c in rows], [d.query for d in first.ddls]) == (5, [b"same ts"], ["alter table t"])
    assert (second.after_ts, second.upto_ts, [c.key for c in later], second.ddls) == (5, 8, [b"after"], ())


def test_one_ddl_from_every_partition_is_one() -> None:
    s = sequence()
    accept(s, ddl(5), ddl(5, lane="b"), resolved(9), resolved(9, lane="b"))
    assert [len(segment.ddls) for segment, _ in release(s, {"a", "b"}, even_if_empty=True)] == [1, 0]


def test_equal_changes_are_one_and_counted() -> None:
    s = sequence()
    accept(s, put(5, "x"), put(5, "x", position=1), put(5, "y", position=2), put(5, "x", position=3, value="w"), resolved(9, position=4))
    assert keys(release(s, {"a"})) == ["x", "y", "x"]
    assert s.repeats == 1


def test_a_ddl_that_comes_again_in_another_case_is_one() -> None:
    s = sequence()
    accept(s, ddl(5), ddl(5, position=1)._replace(schema="S"), resolved(9))
    assert [len(segment.ddls) for segment, _ in release(s, {"a"}, even_if_empty=True)] == [1, 0]


def test_changes_at_or_below_after_ts_are_repeats() -> None:
    s = sequence(after_ts=10)
    accept(s, put(10, "old"), ddl(9), put(11, "new"), resolved(20))
    assert keys(release(s, {"a"})) == ["new"]
    assert s.repeats == 2


def test_resolved_going_back_is_a_restart_and_releases_nothing_twice() -> None:
    s = sequence()
    accept(s, put(5, "x"), resolved(10))
    assert keys(release(s, {"a"})) == ["x"]
    accept(s, resolved(3), put(5, "x"), put(12, "y"))
    assert release(s, {"a"}) == []
    accept(s, resolved(20))
    assert keys(release(s, {"a"})) == ["y"]
    assert s.repeats == 1


def test_positions_point_at_the_oldest_change_not_yet_released() -> None:
    s = sequence()
    accept(s, put(5, "x", position=3), put(50, "held", position=4), put(6, "y", position=5), resolved(10, position=6))
    ((segment, _),) = release(s, {"a"})
    assert segment.positions == {"a": 4}
    accept(s, resolved(60, position=7))
    ((segment, _),) = release(s, {"a"})
    assert segment.positions == {"a": 8}


def test_a_lane_that_says_nothing_stays_where_it_was() -> None:
    s = sequence(positions={Lane("quiet"): 7, Lane("a"): 3})
    accept(s, put(5, "x", position=3), resolved(10, position=4))
    ((segment, _),) = release(s, {"a"})
    assert segment.positions == {"a": 5, "quiet": 7}


@given(data=st.data())
def test_positions_are_those_of_a_walk_over_all_that_is_held(data: st.DataObject) -> None:
    """In any order within a lane, over DDLs, and where a lane ends and another one of its name comes, at a lower or a higher position."""
    s, lanes = sequence(), ["a", "b", "c"]
    position, marks = dict.fromkeys(lanes, 0), dict.fromkeys(lanes, 1)
    sent: dict[str, list[tuple[int, int]]] = {lane: [] for lane in lanes}
    returned = set[str]()
    accept(s, *(resolved(1, lane=lane, position=0) for lane in lanes))
    for _ in range(data.draw(st.integers(1, 30))):
        lane = data.draw(st.sampled_from(lanes))
        position[lane] += 1
        match data.draw(st.sampled_from(["change", "change", "change", "ddl", "mark", "return"])):
            case "mark":
                marks[lane] += data.draw(st.integers(0, 20))
                accept(s, resolved(marks[lane], lane=lane, position=position[lane]))
            case "return":
                s.forget_ended({Lane(one) for one in lanes if one != lane})
                returned.add(lane)
                position[lane] = data.draw(st.integers(0, 40))
                accept(s, resolved(marks[lane], lane=lane, position=position[lane]))
            case kind:
                ts = marks[lane] + data.draw(st.integers(0, 30))
                make = ddl(ts, lane=lane, position=position[lane]) if kind == "ddl" else put(ts, "x", lane=lane, position=position[lane])
                accept(s, make)
                sent[lane].append((ts, position[lane]))
        released = [segment for segment, _ in release(s, set(lanes))]
        for segment in released:
            whole = segment is released[-1] and not segment.ddls
            for one in lanes if whole else set(lanes) - returned:  # what a lane that has ended has sent cannot be read again
                held = [at for ts, at in sent[one] if ts > segment.upto_ts]
                assert segment.positions[Lane(one)] <= min(held, default=10**9), "what is held would not be read again"
        if released and not released[-1].ddls:
            for one in set(lanes) - returned:
                held = [at for ts, at in sent[one] if ts > s.after_ts]
                assert s.positions[Lane(one)] == min(held, default=position[one] + 1)


def test_what_is_held_of_a_lane_counts_beside_a_later_one_of_its_name() -> None:
    s = sequence()
    accept(s, resolved(10), put(50, "old", lane="b", position=9), resolved(10, lane="b", position=10))
    release(s, {"a", "b"}, even_if_empty=True)
    s.forget_ended({Lane("a")})
    accept(s, put(40, "new", lane="b", position=2), put(60, "last", lane="b", position=3), resolved(20, lane="b", position=4))
    accept(s, resolved(20, position=1))
    ((segment, _),) = release(s, {"a", "b"}, even_if_empty=True)
    assert segment.positions == {"a": 2, "b": 2}


class CountedLane(str):
    """Each look at what is known of a lane hashes its name."""

    looks = 0
    __slots__ = ()

    def __hash__(self) -> int:
        CountedLane.looks += 1
        return super().__hash__()


@pytest.mark.parametrize("marks", [20, 80])
def test_a_change_that_waits_for_a_late_lane_costs_no_more_the_longer_it_waits(marks: int) -> None:
    s, quick, late = sequence(), Lane(CountedLane("quick")), Lane("late")
    rows = 50
    s.accept(late, 0, [resolved(2, lane="late")])
    CountedLane.looks = 0
    for mark in range(1, marks + 1):
        for n in range(rows):
            s.accept(quick, mark * rows + n, [put(mark * 1000 + n, "k", position=mark * rows + n)._replace(lane=quick)])
        s.accept(quick, mark * rows + rows, [resolved(mark * 1000 + 999)._replace(lane=quick)])
        s.accept(late, mark, [resolved(2 + mark, lane="late", position=mark)])
        upto_ts = s.upto({quick, late})
        assert upto_ts is not None
        (segment,) = s.release(upto_ts, even_if_empty=True)
        assert segment.positions[quick] == rows
    assert CountedLane.looks < 8 * marks * rows


def test_a_held_ddl_counts_in_the_positions() -> None:
    s = sequence()
    accept(s, put(5, "x"), ddl(50, position=1), resolved(10, position=2))
    ((segment, _),) = release(s, {"a"})
    assert segment.positions == {"a": 1}


def test_empty_stretches_move_only_on_request() -> None:
    s = sequence()
    accept(s, resolved(10))
    assert release(s, {"a"}) == []
    assert s.after_ts == 0
    ((segment, rows),) = release(s, {"a"}, even_if_empty=True)
    assert (segment.after_ts, segment.upto_ts, rows) == (0, 9, [])


@pytest.mark.parametrize("held_bytes_max", [1, 700, 5000])
def test_spilling_changes_neither_order_nor_rows_nor_positions(held_bytes_max: int) -> None:
    small, large = sequence(held_bytes_max=held_bytes_max), sequence()
    envelopes = [put(1 + (n * 37) % 90, f"k{n}", position=n) for n in range(100)]
    for s in (small, large):
        accept(s, *envelopes, resolved(50, position=100))
    assert small.spilled_rows > 0
    assert keys(release(small, {"a"})) == keys(release(large, {"a"}))
    assert small.positions[Lane("a")] <= large.positions[Lane("a")]
    for s in (small, large):
        accept(s, resolved(500, position=101))
    assert keys(release(small, {"a"})) == keys(release(large, {"a"}))
    for s in (small, large):
        accept(s, resolved(600, position=102))
        release(s, {"a"}, even_if_empty=True)
    assert small.positions == large.positions == {"a": 103}


def test_spilled_repeats_are_found_too() -> None:
    s = sequence(held_bytes_max=700)
    accept(s, *[put(5, f"k{n % 4}", position=n) for n in range(20)], resolved(9, position=20))
    assert keys(release(s, {"a"})) == ["k0", "k1", "k2", "k3"]
    assert s.repeats == 16


def lanes_known(of: Sequence) -> set[str]:
    return {*of.resolved, *of.positions, *of._read}


@pytest.mark.parametrize("held_bytes_max", [1, 1 << 20], ids=["spilled", "in memory"])
def test_of_a_lane_that_has_ended_only_what_is_held_is_kept_and_it_is_released_in_order(held_bytes_max: int) -> None:
    s = sequence(held_bytes_max=held_bytes_max, positions={Lane("silent"): 4, Lane("gone"): 4})
    accept(s, put(5, "x"), put(50, "held", lane="b", position=7), ddl(60, lane="b", position=8), resolved(70, lane="b", position=9))
    accept(s, put(55, "also", position=1), resolved(10, position=2))
    s.forget_ended({Lane("a"), Lane("silent")})
    assert lanes_known(s) == {"a", "silent"}
    ((segment, rows),) = release(s, {"a"})
    assert ([change.key for change in rows], set(segment.positions), segment.positions[Lane("silent")]) == (
        [b"x"],
        {Lane("a"), Lane("silent")},
        4,
    )
    accept(s, resolved(70, position=3))
    assert keys(release(s, {"a"})) == ["held", "also"]
    assert lanes_known(s) == {"a", "silent"}


def test_a_lane_that_comes_back_has_to_join() -> None:
    s = sequence()
    accept(s, resolved(100), resolved(100, lane="b"), put(50, "x"))
    s.forget_ended({Lane("a")})
    s.forget_ended({Lane("a"), Lane("b")})
    assert release(s, {"a", "b"}) == []
    accept(s, resolved(60, lane="b"))
    assert keys(release(s, {"a", "b"})) == ["x"]


def test_a_lane_that_comes_back_is_read_on_from_where_it_began_the_last_time() -> None:
    s = sequence()
    accept(s, resolved(10), resolved(10, lane="b", position=40))
    release(s, {"a", "b"}, even_if_empty=True)
    s.forget_ended({Lane("a")})
    accept(
        s, resolved(30, position=1), ddl(20, lane="b", position=2), put(25, "x", lane="b", position=3), resolved(30, lane="b", position=4)
    )
    of_ddl, last = (segment for segment, _ in release(s, {"a", "b"}))
    assert (of_ddl.positions, last.positions) == ({"a": 1, "b": 2}, {"a": 2, "b": 5})


def test_a_message_that_comes_after_its_lane_has_ended_counts() -> None:
    s = sequence()
    s.forget_ended({Lane("a")})
    accept(s, put(5, "late", lane="b", position=7), resolved(10))
    s.forget_ended({Lane("a")})
    ((segment, rows),) = release(s, {"a"})
    assert ([change.key for change in rows], segment.positions) == ([b"late"], {"a": 1})


NOW = ts_at(1_795_294_000_000)
YEAR = ts_at(365 * 86_400_000)


@pytest.mark.parametrize("envelope", [resolved(NOW + YEAR), put(NOW + YEAR, "x"), ddl(NOW + YEAR)], ids=["mark", "change", "ddl"])
def test_what_is_ahead_of_the_clock_stops_and_changes_nothing(envelope: Envelope) -> None:
    """Finding H6: one mark of next year, and all that follows is a repeat, with a lag of 0."""
    s = sequence()
    s.newest_ts = CommitTs(NOW + ts_at(3_600_000))
    accept(s, put(NOW, "before"), resolved(NOW + ts_at(1000)))
    with pytest.raises(
        MessageUnreadable, match=r"(?s)message a@0: TSO \d+ \(2027-11-.*ahead of this machine's clock.*set this machine's clock"
    ):
        accept(s, envelope)
    assert keys(release(s, {"a"})) == ["before"]


def test_what_is_below_the_changefeeds_start_is_anothers() -> None:
    """Finding 14f: a topic that is used again holds rows whose deletes nobody sent."""
    s = sequence()
    s.start_ts = CommitTs(100)
    accept(s, resolved(50), put(100, "a ddl's twin"), ddl(100))
    for of_another in (put(99, "ghost"), ddl(99)):
        with pytest.raises(FeedUnsuitable, match=r"(?s)TSO 99 .*below start-ts 100.*another changefeed's.*begin behind it"):
            accept(s, of_another)


def test_what_is_below_the_changefeeds_start_and_in_the_log_already_is_a_repeat() -> None:
    s = sequence(after_ts=200)
    s.start_ts = CommitTs(100)
    accept(s, put(99, "old"), put(150, "old"), put(201, "new"), resolved(300))
    assert (keys(release(s, {"a"})), s.repeats) == (["new"], 2)


@pytest.mark.parametrize(
    "first",
    [[resolved(10)], [put(10, "x")], [put(12, "x"), resolved(9)], [ddl(20, query="CREATE TABLE t (id int)")]],
    ids=["mark", "change", "batch", "create"],
)
def test_a_lane_that_comes_later_may_have_lost_what_the_log_has(first: list[Envelope]) -> None:
    """Finding 9: the topic of a table that was dropped and is made again, without its offset 0."""
    result = sequence(after_ts=10)
    result.join_after_gap(Lane("late"), 28, first)
    assert result.after_ts == 10


@pytest.mark.parametrize("first", [[resolved(11)], [put(11, "x")], [ddl(20)]], ids=["mark", "change", "alter"])
def test_a_lane_that_comes_later_and_lost_what_the_log_needs_is_a_gap(first: list[Envelope]) -> None:
    with pytest.raises(FeedUnsuitable, match=r"(?s)message late@28: the lane came after.*above the log's position 10.*retention"):
        sequence(after_ts=10).join_after_gap(Lane("late"), 28, first)
