"""A line of the log for people, as a value. `logs` writes it; `log_events` and `dump_events` make it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Level = Literal["info", "warning"]


@dataclass(frozen=True, slots=True)
class LogEvent:
    """`values` are texts and numbers. What is not worth a line is not in it."""

    event: str
    values: Mapping[str, object]
    level: Level = "info"


def given(**values: object) -> dict[str, object]:
    """Those that say something."""
    return {name: value for name, value in values.items() if value}
