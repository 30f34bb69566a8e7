"""commit_ts of the binlog's transactions."""

from __future__ import annotations

from itertools import accumulate, pairwise

from hypothesis import given
from hypothesis import strategies as st

from tests.tools.rig.tso import STEP, Tso, ms_of_tso, tso_of_ms

BINLOGS = st.lists(st.none() | st.integers(0, 2**41), max_size=60)
"""Heartbeats with their times, in any order (a clock may go back), and other transactions."""


def along(start: Tso, binlog: list[int | None]) -> list[int]:
    return [tso.last for tso in accumulate(binlog, Tso.after, initial=start)]


@given(st.integers(0, 2**59), BINLOGS)
def test_it_rises_strictly_whatever_the_clock_does(start: int, binlog: list[int | None]) -> None:
    assert all(a < b for a, b in pairwise(along(Tso(start), binlog)))


@given(BINLOGS, st.data())
def test_reading_on_from_any_checkpoint_gives_the_same(binlog: list[int | None], data: st.DataObject) -> None:
    whole = along(Tso(0), binlog)
    at = data.draw(st.integers(0, len(binlog)))
    assert along(Tso(whole[at]), binlog[at:]) == whole[at:]


def test_a_heartbeat_brings_it_to_its_time() -> None:
    now_ms = 1_795_231_954_467
    assert along(Tso(5), [now_ms, None, None])[1:] == [tso_of_ms(now_ms), tso_of_ms(now_ms) + STEP, tso_of_ms(now_ms) + 2 * STEP]
    assert ms_of_tso(Tso(tso_of_ms(now_ms)).after(None).last) == now_ms
