"""TIMESTAMPs in the zone of TiCDC's server: hours that a zone has twice, and those that it skips."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sidecar.shared.columns.values import UnfitValue, from_texts
from sidecar.shared.columns.zone import Ambiguous, NoMoment, ServerZone
from sidecar.shared.model.nouns import Column

TWICE, NEVER = "2020-10-25 02:30:00.5", "2020-03-29 02:30:00"
"""In Berlin."""


def test_an_hour_that_its_zone_has_twice_is_refused_with_its_own_way_out() -> None:
    with pytest.raises(UnfitValue, match="'2020-10-25 02:30:00' means two moments in the time zone Europe/Berlin") as refused:
        from_texts(pa.array([None, TWICE[:19]]), Column("c", "timestamp"), ServerZone("Europe/Berlin"))
    assert refused.value.index == 1
    assert 'kafka.ambiguous to "first" or "second"' in refused.value.hint


@pytest.mark.parametrize(("ambiguous", "moment"), [("first", "2020-10-25 00:30:00.5"), ("second", "2020-10-25 01:30:00.5")])
def test_one_of_two_moments_is_taken_where_the_operator_says_which_and_counted(ambiguous: Ambiguous, moment: str) -> None:
    zone = ServerZone("Europe/Berlin", ambiguous)
    assert zone.utc_text(TWICE) == moment
    assert zone.utc_text("2020-10-25 01:59:59") == "2020-10-24 23:59:59"
    assert zone.utc_text("2020-10-25 03:00:00") == "2020-10-25 02:00:00"
    assert zone.guessed == 1


@pytest.mark.parametrize("ambiguous", ["refuse", "first", "second"])
def test_a_time_that_the_zone_leaves_out_is_always_refused(ambiguous: Ambiguous) -> None:
    with pytest.raises(NoMoment, match="is a time that the zone Europe/Berlin skips") as refused:
        ServerZone("Europe/Berlin", ambiguous).utc_text(NEVER)
    assert "kafka.server_tz" in refused.value.hint


@pytest.mark.parametrize(("zone", "text"), [("Asia/Shanghai", "0001-01-01 00:00:00"), ("America/New_York", "9999-12-31 23:59:59.5")])
def test_a_moment_that_no_calendar_has_is_refused_as_any_other_that_is_none(zone: str, text: str) -> None:
    with pytest.raises(NoMoment, match="is not a timestamp"):
        ServerZone(zone).utc_text(text)


def test_a_year_has_four_digits() -> None:
    assert ServerZone("Etc/GMT-1").utc_text("0999-06-01 01:00:00.25") == "0999-06-01 00:00:00.25"


def test_old_data_of_a_zone_without_summer_time_today_is_ambiguous_too() -> None:
    zone = ServerZone("Asia/Shanghai")
    assert zone.utc_text("2020-09-16 01:10:00") == "2020-09-15 17:10:00"
    with pytest.raises(NoMoment, match="means two moments"):
        zone.utc_text("1990-09-16 01:10:00")
