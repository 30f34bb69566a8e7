"""A folder of a local or network file system.

A file is written as a hidden temporary one, fsync, then rename (replaces) or link (exclusive), then fsync of the folder. Errors are the
operating system's, which dispatch.py takes by their number.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO

import sidecar.shared.log.storage.local_tree as local_tree  # as in dispatch.py
from sidecar.shared.log.storage.files import Changes, Known
from sidecar.shared.log.storage.folder import Folder
from sidecar.shared.process.progress import progressed, side_by_side

READS_AT_ONCE_MAX = 1

SYNCS_AT_ONCE_MAX = 16
"""fsyncs that wait together share the journal's commits."""


# ---- reading --------------------------------------------------------------------------------------------------------


def list_names(folder: Folder, *, deep: bool, beginning: str) -> list[str]:
    """A file system lists whole folders only: of those below one another, from the one that `beginning` names on."""
    names: list[str] = []
    top = os.path.join(folder.root, os.path.dirname(beginning)) if deep and "/" in beginning else folder.root
    for parent, folders, files in os.walk(top, onerror=_unless_gone, followlinks=True):
        names += [os.path.join(parent, name)[len(folder.root) + 1 :] for name in files]
        if not deep:
            folders.clear()
        progressed()
    return names


def _unless_gone(error: OSError) -> None:
    """What is removed while it is listed is not there."""
    if not isinstance(error, FileNotFoundError):
        raise error


def list_folders(folder: Folder) -> list[str]:
    with os.scandir(folder.root) as entries:
        return [entry.name for entry in entries if entry.is_dir()]


def list_changes(folder: Folder, known: Known | None) -> Changes:
    return local_tree.list_changes(folder.root, known)


def exists(folder: Folder, name: str) -> bool:
    try:
        os.stat(folder.path(name))
    except FileNotFoundError:
        return False
    return True


def read_file(folder: Folder, name: str) -> bytes:
    with open(folder.path(name), "rb") as file:
        return file.read()


def read_start(folder: Folder, name: str, size: int) -> bytes:
    with open(folder.path(name), "rb") as file:
        return file.read(size)


@contextmanager
def open_to_read(folder: Folder, name: str) -> Iterator[IO[bytes]]:
    with open(folder.path(name), "rb") as file:
        yield file


# ---- writing --------------------------------------------------------------------------------------------------------


@contextmanager
def new_file(folder: Folder, name: str, *, durable: bool) -> Iterator[IO[bytes]]:
    path = folder.path(name)
    with _temporary_beside(path) as (file, temporary):
        yield file
        if durable:
            _sync_file(file)
        else:
            file.flush()
        os.replace(temporary, path)
        if durable:
            _sync_folder(os.path.dirname(path))


def make_durable(folder: Folder, names: Sequence[str]) -> None:
    paths = [folder.path(name) for name in names]
    with side_by_side(SYNCS_AT_ONCE_MAX) as waiters:
        list(waiters.map(_sync_path, paths))
        list(waiters.map(_sync_folder, sorted({os.path.dirname(path) for path in paths})))


def write_in_order(folder: Folder, files: Sequence[tuple[str, bytes]]) -> None:
    """Contents are made durable together, then the files are renamed one after another: a file system's journal keeps the
    order of renames in one folder (ext4, xfs, btrfs)."""
    if len(files) == 1:
        with new_file(folder, files[0][0], durable=True) as file:
            file.write(files[0][1])
        return
    temporary = [(f"{os.path.dirname(name)}/.{os.path.basename(name)}.{os.getpid()}.tmp", name) for name, _ in files]
    for (hidden, _), (_, data) in zip(temporary, files, strict=True):
        with new_file(folder, hidden, durable=False) as file:
            file.write(data)
        progressed()
    make_durable(folder, [hidden for hidden, _ in temporary])
    for hidden, name in temporary:
        os.replace(folder.path(hidden), folder.path(name))
    for parent in sorted({os.path.dirname(folder.path(name)) for _, name in temporary}):
        _sync_folder(parent)


def copy(folder: Folder, names: Sequence[tuple[str, str]]) -> None:
    """Links, so no byte is written again."""
    for name, to in names:
        _make_folders(os.path.dirname(folder.path(to)))
        with suppress(FileExistsError):
            os.link(folder.path(name), folder.path(to))
        progressed()
    for parent in sorted({os.path.dirname(folder.path(to)) for _, to in names}):
        _sync_folder(parent)


def create(folder: Folder, name: str, data: bytes) -> bool:
    """A link is atomic and exclusive, where O_EXCL would show readers an empty file first."""
    path = folder.path(name)
    with _temporary_beside(path) as (file, temporary):
        file.write(data)
        _sync_file(file)
        try:
            os.link(temporary, path)
            created = True
        except FileExistsError:
            created = False
        _sync_folder(os.path.dirname(path))  # also for the one that is there: it may be ours, of a call that failed here
    return created


def remove(folder: Folder, names: Sequence[str]) -> None:
    for name in names:
        with suppress(FileNotFoundError):
            os.unlink(folder.path(name))
        progressed()


def volume_bytes(folder: Folder) -> tuple[int, int] | None:
    result = os.statvfs(folder.root)
    return result.f_bavail * result.f_frsize, result.f_blocks * result.f_frsize


def age_s(folder: Folder, name: str) -> float | None:
    """By the file system's own clock: it can be another machine's. None where it has no room for a file that shows it."""
    try:
        with tempfile.NamedTemporaryFile(dir=folder.root, prefix=".now.", suffix=".tmp") as file:
            return os.stat(file.name).st_mtime - os.stat(folder.path(name)).st_mtime
    except OSError:
        return None


@contextmanager
def _temporary_beside(path: str) -> Iterator[tuple[IO[bytes], str]]:
    """A new file in the same folder, gone after the block whatever happens."""
    parent, name = os.path.split(path)
    _make_folders(parent)
    temporary = os.path.join(parent, f".{name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "xb") as file:
            try:
                yield file, temporary
            except BaseException:
                with suppress(OSError):  # the buffer's last write meets the same full disk; the first error counts
                    file.close()
                raise
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)


def _make_folders(path: str) -> None:
    """Create what is missing of the path; each new folder's entry is as durable as the files in it."""
    if not path or os.path.isdir(path):
        return
    parent = os.path.dirname(path)
    _make_folders(parent)
    with suppress(FileExistsError):
        os.mkdir(path)
    _sync_folder(parent)


def _sync_file(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())


def _sync_path(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
    progressed()


def _sync_folder(path: str) -> None:
    handle = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
    progressed()
