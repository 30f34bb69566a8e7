"""Binlogs in append-only files, in the order of their arrival. What `append` returned from is on the disk.

    0000000001.binlog, 0000000002.binlog, …      the last one is written to

- A death leaves at most one write unfinished, at the end of the last file: what of it is not whole is cut. It was not answered.
- A record that is not whole anywhere else was durable once: LogBroken, for nobody may skip it unnoticed.
- A write that does not fit on the disk is taken back, and the next one may fit. A sync that fails ends the log for this process: nobody can
  say then what is on the disk, and the next start finds it out.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from sidecar.pump.record import HEADER_BYTES, MAGIC, Binlog, header, record_at
from sidecar.shared.errors import LogBroken, StorageFull

SUFFIX = ".binlog"
FIRST_FILE = 1
BY_TABLE_BYTES_MAX = 1 << 20
"""Larger payloads are written as they are, smaller ones together."""


class ValuePlace(NamedTuple):
    """Where a record begins; places are in the order of arrival."""

    file: int
    offset: int


class Pointer(NamedTuple):
    file: int
    offset: int
    size: int


class ValueLog:
    """`append` and `remove` by one thread, `read` by any."""

    def __init__(self, folder: Path, *, file_bytes_max: int) -> None:
        """Raises LogBroken where files are missing between others."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._file_bytes_max = file_bytes_max
        self._files: dict[int, int] = {number: os.open(self._path(number), os.O_RDWR) for number in self._numbers()}
        self._lock = Lock()
        self._failed = False
        self.cut_bytes = 0
        """Of a write that a death left unfinished."""
        if not self._files:
            self._begin(FIRST_FILE)
        self._last = max(self._files)
        self.first = ValuePlace(min(self._files), 0)

    @property
    def end(self) -> ValuePlace:
        """Where the next record will begin, unless that opens a file."""
        return ValuePlace(self._last, os.fstat(self._files[self._last]).st_size)

    def append(self, binlogs: Sequence[Binlog]) -> list[Pointer]:
        """Durable when it returns. Raises StorageFull, and then nothing was written; LogBroken when the disk failed."""
        if self._failed:
            raise self._unusable("was not synced before")
        if self.end.offset >= self._file_bytes_max:
            self._begin(self._last + 1)
        file, begin = self.end
        pointers, at = [], begin
        fd = self._files[file]
        try:
            for parts in _by_table(binlogs, begin):
                _write(fd, parts, at)
                at += len(parts)
        except OSError as error:
            os.ftruncate(fd, begin)
            raise StorageFull(f"{self._path(file)} cannot be written: {error.strerror}", hint=_MAKE_ROOM) from error
        try:
            os.fdatasync(fd)
        except OSError as error:
            self._failed = True
            raise self._unusable(f"cannot be synced: {error.strerror}") from error
        at = begin
        for binlog in binlogs:
            pointers.append(Pointer(file, at, HEADER_BYTES + len(binlog.payload)))
            at += pointers[-1].size
        return pointers

    def read(self, pointer: Pointer) -> Binlog:
        """Raises LogBroken."""
        with self._lock:
            fd = self._files.get(pointer.file)
            data = b"" if fd is None else _read(fd, pointer.size, pointer.offset)
        record = record_at(data, 0)
        if record is None or record.size != pointer.size:
            raise self._broken(ValuePlace(pointer.file, pointer.offset))
        return record.binlog

    def scan(self, begin: ValuePlace) -> Iterator[tuple[Pointer, Binlog]]:
        """All from `begin` on; cuts what a death left unfinished. To be read to its end before the first `append`. Raises LogBroken."""
        for file in sorted(number for number in self._files if number >= begin.file):
            at = begin.offset if file == begin.file else 0
            fd = self._files[file]
            if os.fstat(fd).st_size < at:
                raise self._broken(ValuePlace(file, os.fstat(fd).st_size))
            if os.fstat(fd).st_size == 0:
                continue
            with closing(mmap.mmap(fd, 0, access=mmap.ACCESS_READ)) as mapped, memoryview(mapped) as data:
                while (record := record_at(data, at)) is not None:
                    yield Pointer(file, at, record.size), record.binlog
                    at += record.size
                was_durable = at < len(data) and (file != self._last or _synced_behind(mapped, data, at))
                is_whole = at == len(data)
            if was_durable:
                raise self._broken(ValuePlace(file, at))
            if not is_whole:
                self.cut_bytes += os.fstat(fd).st_size - at
                os.ftruncate(fd, at)
                os.fsync(fd)

    def remove(self, file: int) -> None:
        """A file that is not the last one."""
        assert file != self._last
        with self._lock:
            os.close(self._files.pop(file))
            self.first = ValuePlace(min(self._files), 0)
        self._path(file).unlink()

    def files(self) -> list[int]:
        """Without the one that is written to."""
        return sorted(number for number in self._files if number != self._last)

    def close(self) -> None:
        with self._lock:
            for fd in self._files.values():
                os.close(fd)
            self._files.clear()

    def _begin(self, number: int) -> None:
        try:
            fd = os.open(self._path(number), os.O_RDWR | os.O_CREAT, 0o600)
            folder = os.open(self.folder, os.O_RDONLY)
            os.fsync(folder)
            os.close(folder)
        except OSError as error:
            raise StorageFull(f"{self._path(number)} cannot be made: {error.strerror}", hint=_MAKE_ROOM) from error
        with self._lock:
            self._files[number] = fd
        self._last = number

    def _numbers(self) -> list[int]:
        numbers = sorted(int(path.name.removesuffix(SUFFIX)) for path in self.folder.glob(f"*{SUFFIX}"))
        missing = sorted(set(range(numbers[0], numbers[-1])) - set(numbers)) if numbers else []
        if missing:
            raise LogBroken(f"{self._path(missing[0])} is gone, and there are files before and after it", hint=_RESTORE)
        return numbers

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:010}{SUFFIX}"

    def _broken(self, place: ValuePlace) -> LogBroken:
        return LogBroken(f"{self._path(place.file)} is damaged at byte {place.offset:,}: what was there had been answered", hint=_RESTORE)

    def _unusable(self, why: str) -> LogBroken:
        return LogBroken(f"{self._path(self._last)} {why}", hint="see to the disk, and start the pump again: it finds out what is durable")


def _by_table(binlogs: Sequence[Binlog], begin: int) -> Iterator[bytes]:
    parts: list[bytes] = []
    size = 0
    for binlog in binlogs:
        parts.append(header(binlog, begin))
        if len(binlog.payload) > BY_TABLE_BYTES_MAX:
            yield b"".join(parts)
            yield binlog.payload
            parts, size = [], 0
            continue
        parts.append(binlog.payload)
        size += len(binlog.payload)
        if size > BY_TABLE_BYTES_MAX:
            yield b"".join(parts)
            parts, size = [], 0
    yield b"".join(parts)


def _write(fd: int, data: bytes, at: int) -> None:
    left = memoryview(data)
    while left:
        done = os.pwrite(fd, left, at)
        left, at = left[done:], at + done


def _read(fd: int, size: int, at: int) -> bytes:
    """One call reads 2 GiB less a page at most."""
    parts = []
    while size and (data := os.pread(fd, size, at)):
        parts.append(data)
        size, at = size - len(data), at + len(data)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _synced_behind(mapped: mmap.mmap, data: memoryview, place: int) -> bool:
    """Whether a record behind `place` belongs to a write that began behind it."""
    at = mapped.find(MAGIC, place + 1)
    while at >= 0:
        record = record_at(data, at)
        if record is not None and record.batch > place:
            return True
        at = mapped.find(MAGIC, at + 1)
    return False


_MAKE_ROOM = "make room on the disk of pump.data_dir; writes are taken again as soon as there is"
_RESTORE = (
    "restore pump.data_dir from a copy; else take this pump offline by binlogctl -cmd update-pump -state offline, begin again with an "
    "empty pump.data_dir and another node id, and let the drainers begin again from a dump: transactions are missing"
)
