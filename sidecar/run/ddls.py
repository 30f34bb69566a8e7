"""The last DDLs that the stream has passed, for people: the published status has the newest one only."""

from __future__ import annotations

from collections import deque
from threading import Lock
from typing import NamedTuple

from sidecar.control.status import SidecarStatus
from sidecar.shared.model.nouns import CommitTs

KEPT = 20
CHARS_MAX = 2000


class SeenDdl(NamedTuple):
    """`unseen`: those that passed between the one before and this one, in one step of the pipeline."""

    commit_ts: CommitTs
    text: str
    unseen: int


class SeenDdls:
    """Of this process's terms. One thread adds, any thread reads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._seen: deque[SeenDdl] = deque(maxlen=KEPT)
        self._epoch = self._passed = 0

    def see(self, status: SidecarStatus) -> None:
        before = self._passed if self._epoch == status.epoch else 0
        self._epoch, self._passed = status.epoch, status.ddls
        if status.ddls > before and status.last_ddl_ts is not None:
            with self._lock:
                self._seen.append(SeenDdl(status.last_ddl_ts, status.last_ddl[:CHARS_MAX], status.ddls - before - 1))

    def seen(self) -> list[SeenDdl]:
        """Oldest first."""
        with self._lock:
            return list(self._seen)
