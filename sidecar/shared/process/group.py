"""A process group: a child that leads one of its own, with all that it started in turn, by the child's process id.

Members outlive the child, and are nobody's children then: they are looked for, not waited for.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep

_LOOK_S = 0.02
_PROC = Path("/proc")


def await_end(group: int, most_s: float) -> None:
    """Until nobody of it lives, no longer than `most_s`."""
    until_s = monotonic() + most_s
    while lives(group) and monotonic() < until_s:
        sleep(_LOOK_S)


def lives(group: int) -> bool:
    """A zombie does not: where nobody reaps orphans it stays for ever."""
    with suppress(ProcessLookupError):
        with suppress(PermissionError):  # another user's: the number was given again
            os.killpg(group, 0)
        return bool(members(group)) or not (_PROC / "self").exists()
    return False


def members(group: int) -> list[int]:
    """The ids of its processes that are no zombies; none where the system has no /proc."""
    states = ((process, _state(process)) for process in _PROC.glob("[0-9]*/stat"))
    return [int(process.parent.name) for process, state in states if state[2:3] == [str(group)] and state[0] not in "ZX"]


def _state(stat: Path) -> list[str]:
    """State, parent and process group; nothing for one that has gone."""
    with suppress(OSError):
        return stat.read_text(errors="replace").rpartition(")")[2].split()[:3]
    return []
