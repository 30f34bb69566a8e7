"""Amounts as people read them."""

from __future__ import annotations

import pytest

from sidecar.report.figures import amount, asker_text, axis_time, clock_time, duration, short
from sidecar.shared.model.messages import Asker


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "?"), (0.2, "1 s"), (59.4, "59 s"), (59.6, "1 min 0 s"), (125, "2 min 5 s"), (3600, "1 h 0 min"), (7 * 3600 + 300, "7 h 5 min"),
     (200_000, "2 d 7 h")],
)  # fmt: skip
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (5 * 1024**2, "5.0 MiB"), (3 * 1024**3, "3.0 GiB"),
                       (2500 * 1024**4, "2,500.0 TiB")],
)  # fmt: skip
def test_sizes(size: float, text: str) -> None:
    assert amount(size) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (12, "12"), (3.4, "3.4"), (0.05, "0.05"), (0.001, "0"), (9.996, "10"), (1200, "1.2 k"), (999.7, "1 k"), (450_000, "450 k"),
     (2_100_000, "2.1 M"), (3e9, "3 G"), (5e15, "5,000 T")],
)  # fmt: skip
def test_short_values(value: float, text: str) -> None:
    assert short(value) == text


def test_times() -> None:
    at_ms = 1_780_000_001_234
    assert (clock_time(at_ms), clock_time(0)) == ("2026-05-28 20:26:41", "-")
    assert [axis_time(at_ms, span_ms) for span_ms in (5000, 60_000, 90_000_000)] == ["20:26:41.2", "20:26:41", "05-28 20:26"]


@pytest.mark.parametrize("address", ["", "h:1"])
@pytest.mark.parametrize(("name", "text"), [("not authenticated", "somebody (not authenticated)"), ("token a", "token a"), ("", "")])
def test_who_is_not_known_is_somebody(name: str, text: str, address: str) -> None:
    """N33: "by not authenticated at"."""
    asker = Asker(name, address)
    assert asker_text(asker) == " ".join(filter(None, (text, address and f"at {address}")))
