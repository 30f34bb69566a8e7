"""A process that must not outlive the one that started it, however that dies."""

from __future__ import annotations

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1
"""prctl(2). It is sent when the thread that started this process ends."""


def end_with_parent(parent: int) -> None:
    """From now on the kernel kills this process when `parent`, which started it, is gone. A process that has to notice that itself may wait
    for a core for long, or stand still, and then continue beside its successor. Where there is no prctl (macOS), nothing is done."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is None:
        return
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)
