"""Times as TiCDC's and our URIs have them: `30s`, `5m`, `1h30m`, `0.5s`."""

from __future__ import annotations

import re

_TIME = re.compile(r"(?:(\d{1,5})h)?(?:(\d{1,6})m)?(?:(\d{1,8}(?:\.\d{1,6})?)s)?", re.ASCII)


def seconds_of(text: str) -> float | None:
    """None for a text that is no time."""
    match = _TIME.fullmatch(text)
    if not text or match is None:
        return None
    return sum(float(part or 0) * unit for part, unit in zip(match.groups(), (3600, 60, 1), strict=True))


def text_of(seconds: float) -> str:
    for unit, size in (("h", 3600), ("m", 60)):
        if seconds and seconds % size == 0:
            return f"{seconds // size:g}{unit}"
    return f"{seconds:g}s"
