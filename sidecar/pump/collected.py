"""Up to which commit_ts a pump's binlogs are collected: an empty file beside the value files, whose name holds it.

    collected.461373440000000000      readers cannot rely on any binlog with this commit_ts or an earlier one

- It rises before the first value file or index row goes, and is durable when `record` returns. The index can be deleted and made again
  from the value files; how much was removed before them is nowhere else.
- It rises by a rename, which is atomic and needs no room: removing value files is what makes room on a full disk.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from sidecar.shared.errors import LogBroken, StorageFull

PREFIX = "collected."


class Collected:
    """`ts`: what is on record; None: nothing ever was. By one thread at a time."""

    def __init__(self, folder: Path) -> None:
        """Raises LogBroken."""
        self.ts: int | None = None
        self._folder, self._name = folder, ""
        for path in folder.glob(f"{PREFIX}*"):
            ts = path.name.removeprefix(PREFIX)
            if not ts.isdecimal():
                raise LogBroken(f"{path} is no record of what was collected", hint=f"name it {PREFIX} and a TSO again, as it was")
            if self.ts is None or int(ts) > self.ts:
                self._name, self.ts = path.name, int(ts)

    def record(self, ts: int) -> None:
        """Durable when it returns; an earlier `ts` changes nothing. Raises StorageFull, LogBroken."""
        if self.ts is not None and ts <= self.ts:
            return
        name = f"{PREFIX}{ts}"
        try:
            if self._name:
                os.rename(self._folder / self._name, self._folder / name)
            else:
                _sync(self._folder / name, os.O_WRONLY | os.O_CREAT)
            self._name = name
            _sync(self._folder, os.O_RDONLY)
        except OSError as error:
            what = f"{self._folder / name} cannot be written: {error.strerror}"
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise StorageFull(what, hint="make room on the disk of pump.data_dir; the next collection tries again") from error
            raise LogBroken(what, hint="see to the disk, and start the pump again") from error
        self.ts = ts


def _sync(path: Path, flags: int) -> None:
    fd = os.open(path, flags, 0o600)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
