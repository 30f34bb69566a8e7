"""Folders that a child process keeps its temporary files in, gone when it is: the process that starts it makes them, and removes them.

- The child may be killed at any moment with all that it started, and then nobody below it removes anything.
- A folder is in use as long as its lock is held, by its maker or the child, which inherits it, or anybody of the child's group lives: a
  JVM that still starts when both are killed makes its files after that. What is not in use was left, and is removed before another
  folder is made there, and with it.
- A folder is locked before it has the lock's name: one that is being made is never taken for one that was left.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from sidecar.shared.errors import ConfigError, StorageFull
from sidecar.shared.process.group import lives

PREFIX = "ticdc-dump-worker-"
WANTING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN})
"""What a machine lacks for a while."""
_LOCK = ".lock"
_GROUP_BYTES_MAX = 20


class Scratch:
    """A new folder in each of `places`, for this user only. `locks`: what the child is to inherit (`subprocess`: pass_fds)."""

    def __init__(self, places: Sequence[str | Path]) -> None:
        """Raises ConfigError for a place that is no folder or cannot be written, StorageFull where the machine lacks room, memory or
        descriptors."""
        self.folders: list[Path] = []
        self.locks: list[int] = []
        for place in places:
            sweep(Path(place))
            try:
                self._make(place)
            except OSError as error:
                self.remove()
                if error.errno in WANTING:
                    what = f"no temporary folder can be made in {place} now: {error.strerror}"
                    raise StorageFull(what, hint="make room, or see what holds so much of this machine: it is tried again") from error
                raise ConfigError(
                    f"no temporary folder can be made in {place}: {error.strerror}",
                    hint="make it a folder that this user may write, or let SPARK_LOCAL_DIRS or TMPDIR name another one",
                ) from error

    def _make(self, place: str | Path) -> None:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
        self.folders.append(folder)
        making = folder / f"{_LOCK}.new"
        lock = os.open(making, os.O_CREAT | os.O_RDWR, 0o600)
        self.locks.append(lock)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        making.rename(folder / _LOCK)

    def used_by(self, group: int) -> None:
        """The child's process group, as soon as there is one."""
        for lock in self.locks:
            os.pwrite(lock, str(group).encode(), 0)

    def remove(self) -> None:
        """What cannot be removed is left, for the next one to sweep. Nothing to do the second time."""
        folders, locks = self.folders, self.locks
        self.folders, self.locks = [], []
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
        for lock in locks:
            os.close(lock)
        for folder in folders:
            sweep(folder.parent)


def sweep(place: Path) -> None:
    """Remove this user's folders there that are not in use."""
    for folder in _ours(place):
        with suppress(OSError):
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                group = os.pread(lock, _GROUP_BYTES_MAX, 0)
                if not (group.isdigit() and lives(int(group))):
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


def _ours(place: Path) -> Iterable[Path]:
    with suppress(OSError):
        return [one for one in place.glob(f"{PREFIX}*") if one.is_dir() and not one.is_symlink() and one.stat().st_uid == os.getuid()]
    return []
