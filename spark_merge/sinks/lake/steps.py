"""How a table is brought to its end: the first step that is not done, on the table as it is, until none is left.

Each step is a commit on the version that was looked at. Where another commit was first, nothing was changed, and the table is looked at
again: the other one may have done the step, or a part of it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from sidecar.shared.errors import SinkError

STEPS_MAX = 20
"""Steps of ours, and commits of others (compaction, expiry, an earlier owner) that one of ours gives way to, in a row."""

There = TypeVar("There")
End = TypeVar("End")


class Outpaced(Exception):
    """Another commit came first; nothing was changed."""


def at_its_end(look: Callable[[], There], step: Callable[[There], End | None], overtaken: SinkError) -> End:
    """`step` takes one, and gives the end, or None: there may be another one. It may raise Outpaced. Raises `overtaken`."""
    for _ in range(STEPS_MAX):
        with suppress(Outpaced):
            if (end := step(look())) is not None:
                return end
    raise overtaken
