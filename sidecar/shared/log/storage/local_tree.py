"""What has changed below a folder of a local or network file system: what is not new is not listed again.

- Each folder is opened and its status read; on NFS an open asks the server. Create, rename and remove change a folder's times.
- A folder whose times are as before is not listed again, if they were at least STAMP_S_MAX old when it was listed. Until then another
  change could leave them as they are, because a file system's clock is coarse.
- Where a file is newer than its folder, folder times say nothing (mounts of buckets by FUSE need not keep them): then all is listed.
- A file that was written in the last WRITTEN_S_MAX, or is empty, is looked at again, in a folder that has not changed too: TiCDC with
  flush-concurrency > 1 writes a file under its final name (`LocalStorage.Create`); else it renames one.
- Ages are by the storage's own clock, which can be another machine's: it is at least the latest change time that any file or folder
  here has shown, plus the time since then. An estimate that is too low only lists more.

An open folder's times are read before its names, and a folder before the ones in it: so what was there when the listing began is in it.
Links are followed. What is no regular file is not listed, and what is removed meanwhile is not there.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace

from sidecar.shared.log.storage.files import Changes, FileEntry, Known, differing
from sidecar.shared.process.progress import progressed

STAMP_S_MAX = 2
"""Between two different times of the coarsest file system (FAT)."""

WRITTEN_S_MAX = 600
"""Between two writes of a file in place; its writer may wait for a network file system."""

_RECOVERED, _RECOVERED_LENGTH = "lost+", 10
"""What the folder at the root of a volume of ext4 begins with, where nobody else may read."""

_NS = 1_000_000_000
_SLOWEST = 0.999
"""The storage's clock against ours: a clock that is being corrected differs by 0.05 % (adjtime)."""


@dataclass(frozen=True, slots=True)
class _Listed:
    """A folder: `stamp` identifies it and its times, `settled` says that they are old enough. Names are relative to the root of all."""

    stamp: tuple[int, ...]
    settled: bool
    folders: list[str]
    files: dict[str, FileEntry]
    young: list[str]
    """The files that may still be written."""


@dataclass(frozen=True, slots=True)
class _Tree(Known):
    """`clock_ns`: the storage's clock is at least this at our `at_ns`."""

    clock_ns: int = 0
    at_ns: int = 0
    folders: dict[str, _Listed] = field(default_factory=dict)
    times_kept: bool = True


def list_changes(root: str, known: Known | None) -> Changes:
    """Raises the operating system's errors. Empty when there is no such folder."""
    before = known if isinstance(known, _Tree) else _Tree()
    tree = _Walk(root, before).tree()
    now: list[FileEntry] = []
    gone: list[str] = []
    for at, listed in tree.folders.items():
        old = before.folders.get(at)
        old_files = {} if old is None else old.files
        if listed.files is not old_files:
            new, lost = differing(old_files, listed.files)
            now += new
            gone += lost
    for at in before.folders.keys() - tree.folders.keys():
        gone += before.folders[at].files
    return Changes(now, gone, tree)


class _Walk:
    """One listing."""

    def __init__(self, root: str, before: _Tree) -> None:
        self._root, self._before = root, before
        self._times_kept = before.times_kept
        self._clock_ns = before.clock_ns + int(_SLOWEST * (time.monotonic_ns() - before.at_ns)) if before.clock_ns else 0

    def tree(self) -> _Tree:
        folders: dict[str, _Listed] = {}
        waiting = [""]
        while waiting:
            at = waiting.pop()
            listed = self._folder(at, self._before.folders.get(at))
            progressed()
            if listed is not None:
                folders[at] = listed
                waiting += listed.folders
        return _Tree(self._clock_ns, time.monotonic_ns(), folders, self._times_kept)

    def _folder(self, at: str, before: _Listed | None) -> _Listed | None:
        try:
            handle = os.open(self._path(at), os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            return None
        except NotADirectoryError:  # it was one when the folder above was listed
            if at == "":
                raise
            return None
        try:
            status = os.fstat(handle)
            age_ns = self._age_ns(status)
            stamp = (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns)
            if before is not None and before.settled and before.stamp == stamp and self._times_kept:
                unchanged = self._unchanged(before)
                if self._are_older(unchanged, status):
                    return unchanged
            listed = self._listed(at, handle, stamp, settled=age_ns >= STAMP_S_MAX * _NS)
            self._times_kept = self._are_older(listed, status)
            return listed
        finally:
            os.close(handle)

    def _are_older(self, listed: _Listed, status: os.stat_result) -> bool:
        """Its files, than the folder: none was made after what its times say."""
        latest_ms = status.st_mtime_ns // 1_000_000 + STAMP_S_MAX * 1000
        return self._times_kept and all(listed.files[name].modified_ms <= latest_ms for name in listed.young)

    def _listed(self, at: str, handle: int, stamp: tuple[int, ...], *, settled: bool) -> _Listed:
        folders: list[str] = []
        names: list[str] = []
        with os.scandir(handle) as entries:
            for entry in entries:
                if at or not (entry.name.startswith(_RECOVERED) and len(entry.name) == _RECOVERED_LENGTH):
                    (folders if entry.is_dir() else names).append(f"{at}/{entry.name}" if at else entry.name)
        files, young = self._files(names)
        return _Listed(stamp, settled, folders, files, young)

    def _unchanged(self, before: _Listed) -> _Listed:
        if not before.young:
            return before
        files, young = self._files(before.young)
        if all(files.get(name) == before.files[name] for name in before.young):
            return before if len(young) == len(before.young) else replace(before, young=young)
        others = {name: entry for name, entry in before.files.items() if name not in set(before.young)}
        return replace(before, files=others | files, young=young)

    def _files(self, names: Iterable[str]) -> tuple[dict[str, FileEntry], list[str]]:
        files: dict[str, FileEntry] = {}
        young: list[str] = []
        for name in names:
            with suppress(FileNotFoundError, NotADirectoryError):
                status = os.stat(self._path(name))
                if not stat.S_ISREG(status.st_mode):
                    continue
                if not status.st_size or self._age_ns(status) < WRITTEN_S_MAX * _NS:
                    young.append(name)
                files[name] = FileEntry(name, status.st_size, str(status.st_mtime_ns), status.st_mtime_ns // 1_000_000)
        return files, young

    def _age_ns(self, status: os.stat_result) -> int:
        """At least so old is the last change, by the storage's clock, of which the status says more."""
        self._clock_ns = max(self._clock_ns, status.st_ctime_ns)  # nobody can set it, unlike st_mtime
        return self._clock_ns - max(status.st_mtime_ns, status.st_ctime_ns)

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root
