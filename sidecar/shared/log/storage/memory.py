"""A dict in this process, for tests and for trying things out: exclusive by a lock, durable as long as the process lives."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from threading import Lock
from typing import IO, NamedTuple

from sidecar.shared.log.storage.errors import Absent
from sidecar.shared.log.storage.files import Changes, FileEntry, Known, differing
from sidecar.shared.log.storage.folder import Folder

READS_AT_ONCE_MAX = 1


class _File(NamedTuple):
    data: bytes
    number: int
    """Of the write, in this process."""
    modified_ms: int


_files: dict[str, _File] = {}
_lock = Lock()
_numbers = count()


def _file(data: bytes) -> _File:
    return _File(data, next(_numbers), time.time_ns() // 1_000_000)


@dataclass(frozen=True, slots=True)
class _Listed(Known):
    files: dict[str, FileEntry] = field(default_factory=dict)


def list_names(folder: Folder, *, deep: bool, beginning: str) -> list[str]:
    names = _below(folder)
    return [name for name in names if name.startswith(beginning) and (deep or "/" not in name)]


def list_folders(folder: Folder) -> list[str]:
    names = _below(folder)
    if not names:
        raise Absent(str(folder))
    return list({name.partition("/")[0] for name in names if "/" in name})


def _below(folder: Folder) -> list[str]:
    with _lock:
        return [path[len(folder.root) + 1 :] for path in _files if path.startswith(f"{folder.root}/")]


def list_changes(folder: Folder, known: Known | None) -> Changes:
    before = known.files if isinstance(known, _Listed) else {}
    start = len(folder.root) + 1
    with _lock:
        there = {path[start:]: file for path, file in _files.items() if path.startswith(f"{folder.root}/")}
    files = {name: FileEntry(name, len(file.data), str(file.number), file.modified_ms) for name, file in there.items()}
    return Changes(*differing(before, files), _Listed(files))


def exists(folder: Folder, name: str) -> bool:
    return folder.path(name) in _files


def read_file(folder: Folder, name: str) -> bytes:
    try:
        return _files[folder.path(name)].data
    except KeyError:
        raise Absent(folder.path(name)) from None


def read_start(folder: Folder, name: str, size: int) -> bytes:
    return read_file(folder, name)[:size]


@contextmanager
def open_to_read(folder: Folder, name: str) -> Iterator[IO[bytes]]:
    yield io.BytesIO(read_file(folder, name))


@contextmanager
def new_file(folder: Folder, name: str, *, durable: bool) -> Iterator[IO[bytes]]:  # noqa: ARG001  # nothing here outlives the process
    buffer = io.BytesIO()
    yield buffer
    with _lock:
        _files[folder.path(name)] = _file(buffer.getvalue())


def make_durable(folder: Folder, names: Sequence[str]) -> None:
    """They are, as far as they can be."""


def write_in_order(folder: Folder, files: Sequence[tuple[str, bytes]]) -> None:
    with _lock:
        _files.update({folder.path(name): _file(data) for name, data in files})


def copy(folder: Folder, names: Sequence[tuple[str, str]]) -> None:
    for name, to in names:
        _files.setdefault(folder.path(to), _file(read_file(folder, name)))


def create(folder: Folder, name: str, data: bytes) -> bool:
    with _lock:
        if folder.path(name) in _files:
            return False
        _files[folder.path(name)] = _file(data)
    return True


def remove(folder: Folder, names: Sequence[str]) -> None:
    with _lock:
        for name in names:
            _files.pop(folder.path(name), None)


def volume_bytes(folder: Folder) -> tuple[int, int] | None:  # noqa: ARG001  # it is not bounded
    return None


def age_s(folder: Folder, name: str) -> float | None:  # noqa: ARG001  # nothing here is temporary
    return None
