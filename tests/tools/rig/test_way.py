"""What takes how long through the TiCDC of the rig."""

from __future__ import annotations

from tests.tools.rig.way import EACH_S, Way


def test_each_takes_the_present_way_and_none_overtakes_another() -> None:
    way: Way[str] = Way((1.0, 5.0))
    came = {}
    for at in range(40):
        now_s = at / 2
        for one in way.through(f"{now_s}", now_s):
            came[float(one)] = now_s - float(one)
    assert (came[0.0], came[EACH_S]) == (1.0, 5.0)
    assert list(came) == sorted(came)
    assert came[2 * EACH_S] >= came[EACH_S] + EACH_S - 2 * EACH_S + 0.5, "behind those that took longer"


def test_without_a_way_all_comes_at_once_and_what_is_given_up_never_does() -> None:
    assert list(Way[int](()).through(1, 7.0)) == [1]
    way: Way[int] = Way((1.0,))
    assert list(way.through(1, 0.0)) == []
    way.clear()
    assert list(way.through(2, 5.0)) == []
    assert list(way.through(3, 6.0)) == [2]
