"""How long what fails is tried again, where somebody waits for the answer: the stream is patient, a person at a preflight is not.

with patience(5.0): …      in the block, and in the work that it begins (Background), nothing is tried for longer
patience_s(60.0)           for how long the caller tries again; without a block, the usual time
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_at_most_s: ContextVar[float | None] = ContextVar("patience", default=None)


@contextmanager
def patience(seconds: float) -> Iterator[None]:
    before = _at_most_s.set(seconds)
    try:
        yield
    finally:
        _at_most_s.reset(before)


def patience_s(usual_s: float) -> float:
    at_most_s = _at_most_s.get()
    return usual_s if at_most_s is None else min(usual_s, at_most_s)
