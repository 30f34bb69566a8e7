"""Numbers of a message as a page shows them. Each has its place in the message and its value as JSON has it:
`<data data-of="tables.0.rows" value="1200">1,200</data>`, so that a page can be compared with `--json`."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from markupsafe import Markup

from sidecar.report.figures import amount, clock_time, duration, time_left
from sidecar.shared.model.nouns import physical_ms

KINDS: dict[str, Callable[[Any], str]] = {
    "count": "{:,}".format,
    "rate": "{:,.0f}/s".format,
    "seconds": "{:.2f} s".format,
    "lag": "{:,.1f} s".format,
    "duration": duration,
    "time_left": time_left,
    "bytes": amount,
    "bytes_rate": lambda value: f"{amount(value)}/s",
    "share": "{:.0%}".format,
    "tso": lambda value: f"{clock_time(physical_ms(value))} UTC" if value else "-",
    "ms": lambda value: f"{clock_time(value)} UTC" if value else "-",
    "none_for_0": lambda value: f"{value:,}" if value else "no bound",
}


class Numbers:
    """Of one message."""

    def __init__(self, message: Any) -> None:
        self._message = message

    def __call__(self, path: str, kind: str = "count") -> Markup:
        """`path`: names of fields and numbers of list items, with dots between them."""
        value = self._message
        for name in path.split("."):
            value = value[int(name)] if name.isdecimal() else getattr(value, name)
        raw = str(value) if path.endswith("_tso") else json.dumps(value)
        return Markup('<data data-of="{}" value="{}">{}</data>').format(path, raw, KINDS[kind](value))
