"""What the pictures of pages are of: a time that is chosen, and chunks that are wide enough to be seen."""

from __future__ import annotations

import pytest

from sidecar.console.pictures import RANGES, chunks_picture, last_chunks, range_of, stream_charts
from tests.unit.report.made import BEGIN_MS, dumped, sample


def spans(drawn: str) -> int:
    return drawn.count('class="at"')


@pytest.mark.parametrize(("name", "begins"), [("10 min", 600), ("1 h", 3600), ("6 h", 21_600)])
def test_a_chart_is_of_the_range_that_is_chosen(name: str, begins: int) -> None:
    samples = [sample(second, rows=second) for second in range(0, 30_001, 60)]
    shown = str(stream_charts(samples, name)[0])
    assert spans(shown) <= 60
    first = {10: "04:36:40", 60: "03:46:40", 360: "22:46:40"}[begins // 60]
    assert first in shown


def test_of_less_than_the_range_there_is_what_there_is() -> None:
    samples = [sample(second) for second in range(0, 60, 2)]
    assert "20:26:40" in str(stream_charts(samples, "24 h")[0])
    assert stream_charts(samples[:1], "1 h") == []
    assert stream_charts([sample(0), sample(90_000)], "10 min") == [], "one of them is in it"


def test_an_unknown_range_is_the_usual_one() -> None:
    assert [range_of(text) for text in ("6 h", "", "1e9 h", "<b>")] == ["6 h", "1 h", "1 h", "1 h"]
    assert set(RANGES) == {"10 min", "1 h", "6 h", "24 h"}


def test_chunks_of_before_a_pause_do_not_make_slivers_of_the_others() -> None:
    before = [dumped(number, begins_ms=BEGIN_MS + 1000 * number) for number in range(30)]
    after = [dumped(100 + number, begins_ms=BEGIN_MS + 9_000_000 + 1000 * number) for number in range(20)]
    assert [one.seq for one in last_chunks([*before, *after])] == list(range(100, 120))
    assert "The last 20 chunks" in chunks_picture(last_chunks([*before, *after]), [])
    assert last_chunks([]) == []


def test_one_chunk_that_took_long_makes_no_slivers_of_the_others() -> None:
    made = [dumped(0, begins_ms=BEGIN_MS - 3_600_000, lasts_ms=3_605_000), *(dumped(n, begins_ms=BEGIN_MS + 500 * n) for n in range(1, 20))]
    drawn = str(chunks_picture(last_chunks(made), []))
    assert "20:26:" in drawn
    assert "19:" not in drawn, "its begin is cut"
