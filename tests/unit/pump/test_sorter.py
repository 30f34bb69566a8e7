"""The sorter beside its rule, written as slowly as it reads."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sidecar.pump.sorter import Sorter, WaitingPrewrite
from sidecar.pump.value_log import ValuePlace
from tests.lanes import examples


class Arrived(NamedTuple):
    """`commit_ts` None: a prewrite; 0: a rollback."""

    start_ts: int
    commit_ts: int | None


def mark(arrived: list[Arrived]) -> int:
    """The greatest commit_ts before the first prewrite that has no end."""
    ended = {one.start_ts for one in arrived if one.commit_ts is not None}
    highest = 0
    for one in arrived:
        if one.commit_ts is None and one.start_ts not in ended:
            break
        highest = max(highest, one.commit_ts or 0)
    return highest


@st.composite
def arrivals(draw: st.DrawFn) -> list[Arrived]:
    """As TiDB and PD make them: a commit_ts is drawn after its prewrite arrived; ends arrive late, in any order, twice, or never."""
    arrived: list[Arrived] = []
    begun: list[int] = []
    on_their_way: list[Arrived] = []
    steps = draw(st.lists(st.sampled_from(["prewrite", "again", "commit", "rollback", "fake", "arrives", "arrives"]), max_size=60))
    for ts, step in enumerate(steps, 1):
        if step == "prewrite":
            begun.append(ts)
            arrived.append(Arrived(ts, None))
        elif step == "again" and begun:
            arrived.append(Arrived(draw(st.sampled_from(begun)), None))
        elif step in ("commit", "rollback") and begun:
            start_ts = begun.pop(draw(st.integers(0, len(begun) - 1)))
            on_their_way.append(Arrived(start_ts, ts if step == "commit" else 0))
        elif step == "fake":
            arrived.append(Arrived(ts, ts))
        elif step == "arrives" and on_their_way:
            arrived.append(on_their_way.pop(draw(st.integers(0, len(on_their_way) - 1))))
    return arrived


@given(arrivals())
@settings(max_examples=examples(200), suppress_health_check=[HealthCheck.too_slow])
def test_the_mark_is_the_rules_after_every_arrival(all_: list[Arrived]) -> None:
    sorter, so_far = Sorter(0), []
    for number, one in enumerate(all_):
        so_far.append(one)
        if one.commit_ts is None:
            sorter.prewrite(one.start_ts, ValuePlace(1, number), now_s=number)
        else:
            sorter.end(one.start_ts, one.commit_ts, ValuePlace(1, number))
        before = sorter.max_commit_ts
        assert sorter.advance() == (sorter.max_commit_ts > before)
        assert sorter.max_commit_ts == mark(so_far)


@given(arrivals())
@settings(max_examples=examples(200), suppress_health_check=[HealthCheck.too_slow])
def test_nothing_that_commits_at_or_below_the_mark_comes_after_it(all_: list[Arrived]) -> None:
    sorter = Sorter(0)
    for number, one in enumerate(all_):
        if one.commit_ts is None:
            sorter.prewrite(one.start_ts, ValuePlace(1, number), now_s=0)
        else:
            assert one.commit_ts == 0 or one.commit_ts > sorter.max_commit_ts
            sorter.end(one.start_ts, one.commit_ts, ValuePlace(1, number))
        sorter.advance()


@given(arrivals(), st.data())
@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.too_slow])
def test_one_that_begins_at_the_front_of_another_goes_on_as_that(all_: list[Arrived], data: st.DataObject) -> None:
    died_at = data.draw(st.integers(0, len(all_)))
    whole, before = Sorter(0), Sorter(0)
    for number, one in enumerate(all_):
        _push(whole, one, number)
        if number < died_at:
            _push(before, one, number)
    front = before.front()
    after = Sorter(before.max_commit_ts)
    for number, one in enumerate(all_):
        if number >= (died_at if front is None else front.offset):
            _push(after, one, number)
    assert after.max_commit_ts == whole.max_commit_ts
    assert after.front() == whole.front()


def _push(sorter: Sorter, one: Arrived, number: int) -> None:
    if one.commit_ts is None:
        sorter.prewrite(one.start_ts, ValuePlace(1, number), now_s=0)
    else:
        sorter.end(one.start_ts, one.commit_ts, ValuePlace(1, number))
    sorter.advance()


def test_what_has_waited_is_reported_with_the_earliest_first() -> None:
    sorter = Sorter(0)
    for start_ts, now_s in ((1, 10.0), (2, 10.5), (3, 11.0)):
        sorter.prewrite(start_ts, ValuePlace(1, start_ts), now_s=now_s)
    sorter.prewrite(1, ValuePlace(1, 9), now_s=11.5)
    assert sorter.held(longer_than_s=1.0, now_s=11.5) == [WaitingPrewrite(1, 10.0), WaitingPrewrite(2, 10.5)]
    sorter.end(1, 5, ValuePlace(1, 10))
    assert sorter.held(longer_than_s=1.0, now_s=11.5) == [WaitingPrewrite(2, 10.5)]
    assert sorter.waiting == 2
