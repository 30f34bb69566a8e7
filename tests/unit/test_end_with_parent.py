"""A process that the kernel ends with the one that started it."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys

import pytest

from sidecar.shared.process.end_with_parent import end_with_parent

CHILD = """
import sys
from sidecar.shared.process.end_with_parent import end_with_parent
end_with_parent(int(sys.argv[1]))
"""


@pytest.mark.parametrize(("off", "code"), [(0, 0), (1, -signal.SIGKILL)])
def test_one_whose_parent_is_another_by_now_ends_at_once(off: int, code: int) -> None:
    assert subprocess.run([sys.executable, "-c", CHILD, str(os.getpid() + off)], check=False).returncode == code


def test_where_the_kernel_has_no_such_call_it_is_left_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[int] = []
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    monkeypatch.setattr(os, "kill", lambda *_: killed.append(1))
    end_with_parent(-1)
    assert not killed
