"""Standard error without the lines with which Java and Spark greet: nobody can do anything about what they say, and they stand where a
person is to read what a command does. Everything else passes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from sidecar.shared.process.background import Background

STANDARD_ERROR = 2

GREETINGS = (
    b"WARNING: Using incubator modules: jdk.incubator.vector",
    b"Setting default log level to ",
    b"To adjust logging level use ",
    b"Using Spark's default log4j profile: ",
)


@contextmanager
def without_greeting() -> Iterator[None]:
    """Around what starts a JVM: all that it says on standard error in its life comes through this process, line by line."""
    shown = os.dup(STANDARD_ERROR)
    reading, writing = os.pipe()
    Background(lambda _: pass_on(reading, shown), name="stderr of Java")
    os.dup2(writing, STANDARD_ERROR)
    os.close(writing)
    try:
        yield
    finally:
        os.dup2(shown, STANDARD_ERROR)


def pass_on(reading: int, shown: int) -> None:
    """Until everybody who writes has ended. Both descriptors are closed then."""
    with os.fdopen(reading, "rb") as lines, os.fdopen(shown, "wb", buffering=0) as out:
        for line in lines:
            if not line.startswith(GREETINGS):
                out.write(line)
