"""What an owner writes and removes beside the segments, however late it wakes: nothing that a later owner wrote.

- What is written again and again has its owner's epoch in its name, `{stem}-{epoch}.json`, and that of the latest owner counts. An owner
  writes its own, and removes those of earlier ones.
- Names without an epoch are removed if they were listed before this owner has proved that it is the owner (`of_no_later`): no later one had
  begun by then. What belongs to an operation is removed once the history, which is fenced, says that the operation is over.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from sidecar.shared.log import storage
from sidecar.shared.log.storage import Folder

R = TypeVar("R")

NO_EPOCH = 0
"""Of a file `{stem}.json`, as 0.4.0 and before wrote it."""


def latest(log: Folder, stem: str) -> str | None:
    """The name of the latest owner's file; None: there is none. Raises as the log's storage."""
    return max(_of_epochs(log, stem), default=(NO_EPOCH, None))[1]


def _of_epochs(log: Folder, stem: str) -> Iterator[tuple[int, str]]:
    folder, _, beginning = stem.rpartition("/")
    names = storage.list_names(log, under=folder, deep=False, beginning=beginning)
    for name in names:
        if match := re.fullmatch(rf"{re.escape(beginning)}(?:-([0-9]{{10}}))?\.json", name):
            yield int(match[1] or NO_EPOCH), f"{folder}/{name}"


@dataclass(frozen=True, slots=True)
class OwnedLog:
    """The log's folder for the owner of `epoch`. `check_held` raises OwnershipLost where it may be the owner no more."""

    folder: Folder
    epoch: int
    check_held: Callable[[], object] = lambda: None

    def name(self, stem: str) -> str:
        return f"{stem}-{self.epoch:010d}.json"

    def write(self, stem: str, data: bytes) -> None:
        """Durable under this owner's name. Raises as the log's storage."""
        storage.write_atomically(self.folder, self.name(stem), data)
        storage.remove(self.folder, [name for epoch, name in _of_epochs(self.folder, stem) if epoch < self.epoch])

    def of_no_later(self, listed: Callable[[], R]) -> R:
        """What this lists, if this process is the owner after that. Raises OwnershipLost."""
        result = listed()
        self.check_held()
        return result
