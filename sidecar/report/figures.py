"""Amounts, times and askers as people read them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Protocol


class NamedAsker(Protocol):
    """Who requested an operation: `Asker`, or the message of that name."""

    @property
    def name(self) -> str: ...
    @property
    def address(self) -> str: ...
    @property
    def reason(self) -> str: ...


NOT_AUTHENTICATED = "not authenticated"
"""In the place of a name."""


def asker_text(asker: NamedAsker) -> str:
    """After `by`."""
    name = f"somebody ({NOT_AUTHENTICATED})" if asker.name == NOT_AUTHENTICATED else asker.name
    return " ".join(filter(None, (name, asker.address and f"at {asker.address}", asker.reason and f"({asker.reason})")))


def counted(count: int, noun: str) -> str:
    """`1 row`, `1,234 rows`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


NOT_KNOWN_YET = "not known yet"


def time_left(seconds: float) -> str:
    """Until a dump is complete; 0: nobody knows yet."""
    return duration(seconds) if seconds > 0 else NOT_KNOWN_YET


def duration(seconds: float) -> str:
    """Seconds as people say them; a question mark for 0, which means unknown."""
    if seconds <= 0:
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{max(rest, 1)} s"


def amount(size: float) -> str:
    """Bytes, in the unit that leaves one to four digits before the point."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:,.1f} TiB"


def clock_time(ms: int) -> str:
    """UTC; a dash for none."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S") if ms else "-"


def axis_time(ms: float, span_ms: float) -> str:
    """UTC, as exact as an axis of that length needs."""
    at = datetime.fromtimestamp(ms / 1000, UTC)
    if span_ms < 20_000:
        return at.strftime("%H:%M:%S.%f")[:-5]
    return at.strftime("%H:%M:%S") if span_ms < 24 * 3_600_000 else at.strftime("%m-%d %H:%M")


def short(value: float) -> str:
    """Three significant digits at most, for an axis: 12, 3.4, 1.2 k, 450 k, 2.1 M."""
    for unit in ("", " k", " M", " G"):
        if value < 999.5:
            text = f"{value:.0f}" if value >= 99.5 or value == round(value) else f"{value:.1f}" if value >= 9.95 else f"{value:.2f}"
            return (text.rstrip("0").rstrip(".") if "." in text else text) + unit
        value /= 1000
    return f"{value:,.0f} T"
