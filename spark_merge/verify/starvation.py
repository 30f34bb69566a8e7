"""Whether verifications get anything done: they have what deliveries leave, and that may be next to nothing. Then they say so.

Linux counts for each thread how long it has run, and how long it was ready to run and waited for a processor
(/proc/PID/task/TID/schedstat; docs.kernel.org/scheduler/sched-stats.html). A wait for a server, a storage or the log is neither. Where a
system does not count, only lateness is known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from sidecar.shared.process.group import members
from spark_merge.verify.lateness import LATE

WINDOW_S = 30.0
"""Of one judgement."""
LEFT_MIN = 0.1
"""Of the time in which they could have worked. Less is starvation. Where deliveries are always late, runner.py leaves about so much."""
READY_MIN = 0.5
"""Of the window: who is ready to run for less has other reasons to be slow."""
_PROC = Path("/proc")


class Scheduled(NamedTuple):
    ran_s: float = 0.0
    waited_s: float = 0.0


def scheduled(group: int) -> dict[int, Scheduled]:
    """Of each thread of the processes of a group, since it began; none where the system does not count."""
    by_thread = {}
    for process in members(group):
        for file in _PROC.glob(f"{process}/task/[0-9]*/schedstat"):
            with suppress(OSError, ValueError):  # it has ended, or the kernel does not count
                ran_ns, waited_ns, _ = map(int, file.read_text().split())
                by_thread[int(file.parent.name)] = Scheduled(ran_ns / 1e9, waited_ns / 1e9)
    return by_thread


class Starvation:
    """For one thread. `waits_for`: what the verifications of a process have waited for nearly all the time; empty: nothing."""

    def __init__(self, times: Callable[[int], Mapping[int, Scheduled]] = scheduled) -> None:
        self._times = times
        self.forget()

    def forget(self) -> None:
        """There is no process."""
        self.waits_for = ""
        self._group, self._began_s = 0, 0.0
        self._began: Mapping[int, Scheduled] = {}
        self._looks: list[bool] = []

    def look(self, group: int, now_s: float, *, late: bool) -> None:
        """`group`: that of the process. `late`: whether deliveries are."""
        if group != self._group:
            self.forget()
            self._group, self._began_s, self._began = group, now_s, self._times(group)
        self._looks.append(late)
        if now_s - self._began_s >= WINDOW_S:
            now = self._times(group)
            self.waits_for = self._judged(now, now_s - self._began_s)
            self._began_s, self._began, self._looks = now_s, now, []

    def _judged(self, now: Mapping[int, Scheduled], seconds: float) -> str:
        spent = [(each, self._began.get(thread, Scheduled())) for thread, each in now.items()]
        ran_s = sum(max(each.ran_s - before.ran_s, 0.0) for each, before in spent)
        waited_s = sum(max(each.waited_s - before.waited_s, 0.0) for each, before in spent)
        if waited_s >= READY_MIN * seconds and ran_s < LEFT_MIN * (ran_s + waited_s):
            had = ran_s / (ran_s + waited_s)
            return f"a processor: it had {had:.1%} of what it needed in the last {seconds:.0f} s; deliveries and other programs come first"
        return LATE if sum(self._looks) > (1 - LEFT_MIN) * len(self._looks) else ""
