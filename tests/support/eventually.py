"""What becomes true without more, and soon."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

PATIENCE_S = float(os.environ.get("TICDC_DUMP_PATIENCE_S", "300"))
"""For an event that comes within a second alone on a machine: nothing is judged by it but that the event comes. Mutations have less: what
they wait for may never come (tests/mutations/warm.py)."""


def eventually(holds: Callable[[], Any], what: str = "", *, within_s: float = PATIENCE_S) -> Any:
    """What it is, once it is true."""
    deadline = time.monotonic() + within_s
    while not (result := holds()):
        assert time.monotonic() < deadline, what or "it did not come"
        time.sleep(0.01)
    return result
