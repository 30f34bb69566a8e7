"""Dates and times by their digits, against Python's own calendar."""

from __future__ import annotations

from datetime import date, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.shared.columns.values import UnfitValue
from spark_merge.codecs.encode.debezium_dates import dates, in_no_calendar, moments, times, zoned

SCALES = st.integers(0, 6)
EPOCH = datetime.fromisoformat("1970-01-01")


@given(st.lists(st.dates() | st.none()))
def test_days_are_pythons(days: list[date | None]) -> None:
    texts = pa.array([None if day is None else f"{day.year:04d}-{day.month:02d}-{day.day:02d}" for day in days], pa.string())
    values, refused = dates(texts)
    assert refused is None
    assert values.to_pylist() == [None if day is None else (day - date(1970, 1, 1)).days for day in days]


@given(st.lists(st.tuples(st.integers(0, 9999), st.integers(0, 13), st.integers(0, 32))))
def test_what_is_a_day_is_what_python_takes_for_one(days: list[tuple[int, int, int]]) -> None:
    def is_one(day: tuple[int, int, int]) -> bool:
        try:
            return date(*day) is not None
        except ValueError:
            return False

    texts = pa.array([f"{year:04d}-{month:02d}-{day:02d}" for year, month, day in days], pa.string())
    values, refused = dates(texts)
    wrong = [not is_one(day) for day in days]
    assert ([False] * len(days) if refused is None else refused.tolist()) == wrong
    assert values.is_null().to_pylist() == wrong
    assert in_no_calendar(texts).to_pylist() == wrong


@given(st.lists(st.datetimes() | st.none()), SCALES)
def test_moments_are_pythons_cut_at_their_digits(whole: list[datetime | None], scale: int) -> None:
    cut = [None if one is None else one.replace(microsecond=one.microsecond // 10 ** (6 - scale) * 10 ** (6 - scale)) for one in whole]
    texts = pa.array([None if one is None else text_of(one, scale) for one in cut], pa.string())
    micros = [None if one is None else (one - EPOCH) // timedelta(microseconds=1) for one in cut]
    assert moments(texts, scale=scale, unit=1)[0].to_pylist() == micros
    assert moments(texts, scale=scale, unit=1000)[0].to_pylist() == [None if one is None else one // 1000 for one in micros]
    written = zoned(texts, scale=scale)[0].to_pylist()
    assert written == [None if one is None else f"{text_of(one, scale).replace(' ', 'T')}Z" for one in cut]
    assert not any(in_no_calendar(texts).to_pylist())


def text_of(one: datetime, scale: int) -> str:
    text = f"{one.year:04d}-{one.month:02d}-{one.day:02d} {one.hour:02d}:{one.minute:02d}:{one.second:02d}"
    return text + (f".{one.microsecond:06d}"[: scale + 1] if scale else "")


@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 838), st.integers(0, 59), st.integers(0, 59), st.integers(0, 999_999)) | st.none()),
    SCALES,
)
def test_times_go_below_zero_and_beyond_a_day(given_times: list[tuple[bool, int, int, int, int] | None], scale: int) -> None:
    texts: list[str | None] = []
    by_hand: list[int | None] = []
    for one in given_times:
        if one is None:
            texts.append(None)
            by_hand.append(None)
            continue
        negative, hours, minutes, seconds, micros = one
        micros = micros // 10 ** (6 - scale) * 10 ** (6 - scale)
        texts.append(f"{'-' if negative else ''}{hours:02d}:{minutes:02d}:{seconds:02d}" + (f".{micros:06d}"[: scale + 1] if scale else ""))
        total = (hours * 3600 + minutes * 60 + seconds) * 1_000_000 + micros
        by_hand.append(-total if negative else total)
    assert times(pa.array(texts, pa.string()), scale=scale).to_pylist() == by_hand


@pytest.mark.parametrize("text", ["", "2024", "2024-1-01", "2024/01/01", "20a4-01-01", "2024-01-01 ", "éé24-01-0"])
def test_what_has_not_the_form_of_a_date_is_refused(text: str) -> None:
    with pytest.raises(UnfitValue, match="is not a date"):
        dates(pa.array(["2024-01-01", text]))


@pytest.mark.parametrize("text", ["", "25", "--1:00:00", "1:0:00", "00:00:0x", "00:00:00.1", "1000:00:00"])
def test_what_has_not_the_form_of_a_time_is_refused(text: str) -> None:
    with pytest.raises(UnfitValue, match="is not a time"):
        times(pa.array([None, "00:00:00", text]), scale=0)


@pytest.mark.parametrize("text", ["2024-01-01", "2024-01-01T00:00:00", "2024-01-01 00:00:00.0"])
def test_what_has_not_the_form_of_a_moment_is_refused(text: str) -> None:
    with pytest.raises(UnfitValue, match="is not a moment"):
        moments(pa.array([text]), scale=0, unit=1)
    with pytest.raises(UnfitValue, match="is not a moment"):
        zoned(pa.array([text]), scale=0)
