"""Signals that tell a process to end, as a call: SIGTERM, SIGINT, and SIGHUP of a terminal that goes, unless it is ignored (nohup).

A signal comes in the middle of anything, also while a lock is held, so its handler does no more than a SimpleQueue takes at any moment;
what is to be done is done by a thread, and done again until the process is gone, for what it ends may just have begun.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Event

from sidecar.shared.process.background import Background

AGAIN_S = 1.0


def end_on_signal(stop: Callable[[], None]) -> None:
    """Call `stop`, which raises nothing, when a signal says so. In the main thread."""
    signals: SimpleQueue[int] = SimpleQueue()

    def wait(_: Event) -> None:
        signals.get()
        while True:
            stop()
            with suppress(Empty):
                signals.get(timeout=AGAIN_S)

    Background(wait, name="signals")
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda number, _: signals.put(number))
