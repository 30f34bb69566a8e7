"""TIMESTAMPs from UTC to a server's zone, held equal to Python's own, and read back by the decoder's zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from sidecar.shared.columns.zone import Ambiguous, ServerZone
from spark_merge.codecs.encode.local_time import local_texts
from tests.lanes import examples

BOTH: tuple[Ambiguous, Ambiguous] = ("first", "second")
ZONES = ("Asia/Shanghai", "Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Africa/Monrovia", "Pacific/Apia", "UTC")


@pytest.mark.parametrize("name", ZONES)
def test_every_moment_is_pythons_and_the_decoder_reads_it_back(name: str) -> None:
    random, zone = Random(name), ZoneInfo(name)
    moments = [datetime.fromtimestamp(random.randrange(1, 1 << 31), UTC) for _ in range(examples(2000))]
    texts = [moment.strftime("%Y-%m-%d %H:%M:%S") + random.choice(["", ".5", ".000001"]) for moment in moments]
    result = local_texts(pa.array(texts), zone).to_pylist()
    assert result == [
        moment.astimezone(zone).strftime("%Y-%m-%d %H:%M:%S") + text[19:] for moment, text in zip(moments, texts, strict=True)
    ]
    for local, text in zip(result, texts, strict=True):
        first, second = (ServerZone(name, ambiguous).utc_text(local) for ambiguous in BOTH)
        assert text in (first, second)


@pytest.mark.parametrize(
    ("name", "day"),
    [("Europe/Berlin", "2024-03-31"), ("Europe/Berlin", "2024-10-27"), ("Africa/Monrovia", "1972-01-07"), ("Pacific/Apia", "2011-12-30")],
)
def test_the_minutes_about_a_change_of_the_clock(name: str, day: str) -> None:
    begin, zone = datetime.fromisoformat(day).replace(tzinfo=UTC) - timedelta(hours=12), ZoneInfo(name)
    moments = [begin + timedelta(seconds=30 * step) for step in range(2 * 1440 + 1440)]
    result = local_texts(pa.array([moment.strftime("%Y-%m-%d %H:%M:%S") for moment in moments]), zone).to_pylist()
    assert result == [moment.astimezone(zone).strftime("%Y-%m-%d %H:%M:%S") for moment in moments]


def test_null_and_zero_are_no_moments() -> None:
    texts = ["0000-00-00 00:00:00", None, "0000-00-00 00:00:00.000", "2024-01-01 00:00:00"]
    assert local_texts(pa.array(texts), ZoneInfo("Asia/Shanghai")).to_pylist() == [*texts[:3], "2024-01-01 08:00:00"]
    assert local_texts(pa.nulls(2, pa.string()), ZoneInfo("Asia/Shanghai")).to_pylist() == [None, None]


def test_what_is_no_timestamp_is_refused() -> None:
    with pytest.raises(pa.ArrowInvalid):
        local_texts(pa.array(["yesterday"]), ZoneInfo("Asia/Shanghai"))
