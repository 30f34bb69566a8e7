from __future__ import annotations

import pytest

from spark_merge.sinks.kit.durations import seconds_of


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30), ("5m", 300), ("1h", 3600), ("1h30m", 5400), ("1m0.5s", 60.5), ("0s", 0),
        ("", None), ("30", None), ("s", None), ("30 s", None), ("-1s", None), ("1s1m", None), ("1e3s", None), ("\u0663s", None),
    ],
)  # fmt: skip
def test_a_time_in_seconds(text: str, seconds: float | None) -> None:
    assert seconds_of(text) == seconds
