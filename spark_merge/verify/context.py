"""What a comparison of a table works with: the log's keys, the source, a place for files, and who does the work."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from sidecar.shared.log.storage import Folder
from sidecar.shared.log.verification import TableReport
from sidecar.shared.model.nouns import CommitTs, Seq, ts_at
from spark_merge.verify.moving import LogKeys
from spark_merge.verify.source import ComparedSource

R = TypeVar("R")

AHEAD_MS = 2_000
"""How far the source's clock may be ahead of this machine's."""


class TaskRunner(Protocol):
    """Where the work is done: in this process, or by Spark."""

    @property
    def cores(self) -> int: ...

    def run(self, work: Sequence[Callable[[], R]], *, rows: int) -> list[R]:
        """All of it, in any order, which is about so many rows; each piece is picklable. Raises what one of them raised."""


@dataclass(frozen=True, slots=True)
class CheckContext:
    """What a comparison works with. `folder`: for its files. `gate`: called after each piece of work with the seconds that it took, and
    with 0 while it waits; it pauses while live delivery is late, and raises what ends the verification. `progress` receives the report
    after each piece. `needs`: the segments of the log after this one are still to be read. `present_ts`: what has committed at the source
    by this moment is at or below it. `now_ms`: of reports."""

    log: LogKeys
    folder: Folder
    source: ComparedSource
    runner: TaskRunner
    gate: Callable[[float], None]
    progress: Callable[[TableReport], None] = lambda _: None
    needs: Callable[[Seq], None] = lambda _: None
    wait: Callable[[float], object] = time.sleep
    present_ts: Callable[[], CommitTs] = lambda: ts_at(int(time.time() * 1000) + AHEAD_MS)
    now_ms: Callable[[], int] = lambda: int(time.time() * 1000)
