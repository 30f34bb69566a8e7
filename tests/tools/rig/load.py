"""Cores that are taken by others: loops of no use beside what is tested or measured."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def busy_loops(number: int) -> Iterator[None]:
    """So many processes, each of which wants a core until the end of the body."""
    loops = [subprocess.Popen([sys.executable, "-c", "while 1: pass"], stdin=subprocess.DEVNULL) for _ in range(number)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
        for loop in loops:
            loop.wait()
