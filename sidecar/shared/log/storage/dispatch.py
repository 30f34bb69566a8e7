"""What can be done with files in a folder, whatever it is on: the one place that looks at a folder's protocol.

What is written here appears under its name whole and durable, or not at all. Every function raises StorageErrors
(sidecar/shared/log/storage/errors.py) and no others of its own.
"""

from __future__ import annotations

import errno
import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import IO, Protocol, TypeAlias

import sidecar.shared.log.storage.local as local  # a `from … import` would ask the package's face, which asks this file
import sidecar.shared.log.storage.memory as memory
from sidecar.shared.log.storage.errors import Absent, Refused, StorageError
from sidecar.shared.log.storage.folder import Folder
from sidecar.shared.process.progress import side_by_side

FILES_ENDED_AT_ONCE_MAX = 8
"""Of `new_files`: each holds what it has not uploaded, up to `PART_BYTES` of s3.py."""

TEMPORARY_MAX_S = 3600.0
"""A file that is not written for so long is of a process that has died: one that wakes after it reports that its file is gone."""

_TEMPORARY = re.compile(r"\.[^/]+\.tmp")


class Backend(Protocol):
    """What each storage does in its own way; the functions of the same names below say what."""

    READS_AT_ONCE_MAX: int
    """More than 1 where a small read waits for the network."""

    def list_names(self, folder: Folder, *, deep: bool, beginning: str) -> list[str]:
        """In any order."""
        ...

    def list_folders(self, folder: Folder) -> list[str]:
        """In any order."""
        ...

    def exists(self, folder: Folder, name: str) -> bool: ...

    def read_file(self, folder: Folder, name: str) -> bytes: ...

    def open_to_read(self, folder: Folder, name: str) -> AbstractContextManager[IO[bytes]]: ...

    def new_file(self, folder: Folder, name: str, *, durable: bool) -> AbstractContextManager[IO[bytes]]: ...

    def make_durable(self, folder: Folder, names: Sequence[str]) -> None: ...

    def write_in_order(self, folder: Folder, files: Sequence[tuple[str, bytes]]) -> None: ...

    def copy(self, folder: Folder, names: Sequence[tuple[str, str]]) -> None: ...

    def create(self, folder: Folder, name: str, data: bytes) -> bool:
        """False when a file of that name is there, whatever is in it."""
        ...

    def remove(self, folder: Folder, names: Sequence[str]) -> None: ...

    def volume_bytes(self, folder: Folder) -> tuple[int, int] | None: ...

    def age_s(self, folder: Folder, name: str) -> float | None:
        """Since it was last written; None where that is not known, or nobody leaves temporary files."""
        ...


_BACKENDS: dict[str, Backend] = {"file": local, "memory": memory}


def _of(folder: Folder) -> Backend:
    if folder.protocol == "s3" and folder.protocol not in _BACKENDS:  # loaded where it is used: it takes 0.4 s of CPU and 20 MB
        import sidecar.shared.log.storage.s3 as s3

        _BACKENDS["s3"] = s3
    if folder.protocol not in _BACKENDS:
        raise Refused(errno.ENOTSUP, f"how {folder.protocol}:// writes durably is not known here", str(folder))
    return _BACKENDS[folder.protocol]


# ---- reading --------------------------------------------------------------------------------------------------------


def list_names(folder: Folder, *, deep: bool, beginning: str = "") -> list[str]:
    """Names of the files in the folder, and below it if `deep`, relative to it and sorted; empty when there is no folder.

    `beginning`: names that begin otherwise may be omitted, which S3 does. Raises Absent for a bucket that does not exist.
    """
    return sorted(_of(folder).list_names(folder, deep=deep, beginning=beginning))


def list_folders(folder: Folder) -> list[str]:
    """Names of the folders directly in the folder, sorted. Raises Absent when there is no such folder."""
    return sorted(_of(folder).list_folders(folder))


def exists(folder: Folder, name: str) -> bool:
    return _of(folder).exists(folder, name)


def read_file(folder: Folder, name: str) -> bytes:
    """Raises Absent, which is a FileNotFoundError."""
    return _of(folder).read_file(folder, name)


def read_files(folder: Folder, names: Iterable[str]) -> dict[str, bytes]:
    """The files of these names, in parallel where that helps; those that do not exist are omitted."""
    requested, at_once = list(names), _of(folder).READS_AT_ONCE_MAX
    if at_once == 1 or len(requested) < 2:
        results = [read_if_there(folder, name) for name in requested]
    else:
        with side_by_side(at_once) as readers:
            results = list(readers.map(partial(read_if_there, folder), requested))
    return {name: data for name, data in zip(requested, results, strict=True) if data is not None}


def read_if_there(folder: Folder, name: str) -> bytes | None:
    """A whole file; None where there is none."""
    try:
        return read_file(folder, name)
    except Absent:
        return None


def open_to_read(folder: Folder, name: str) -> AbstractContextManager[IO[bytes]]:
    """A file that can be read anywhere (Parquet is read from its end), not wholly held in memory. Raises Absent.

    An OSError of the block is taken for the storage's.
    """
    return _of(folder).open_to_read(folder, name)


# ---- writing --------------------------------------------------------------------------------------------------------


def new_file(folder: Folder, name: str, *, durable: bool = True) -> AbstractContextManager[IO[bytes]]:
    """A file to write in a stream: it appears under `name`, replacing what is there, when the block ends without error.

    `durable` False: it is whole but may be lost, until `make_durable` is called for it. For many files at once.
    An OSError of the block is taken for the storage's.
    """
    return _of(folder).new_file(folder, name, durable=durable)


NewFile: TypeAlias = "Callable[[str], AbstractContextManager[IO[bytes]]]"


@contextmanager
def new_files(folder: Folder) -> Iterator[NewFile]:
    """A function that is as `new_file`, for many files one after another: all of them are whole and durable when this block ends without
    error. On S3 the end of a file, which is mostly its only request, continues while the next files are written. So its error is raised
    later; it names the file."""
    back, names = _of(folder), list[str]()
    if back.READS_AT_ONCE_MAX > 1:
        with side_by_side(FILES_ENDED_AT_ONCE_MAX) as enders:
            ends = _Ends(back, folder, enders)
            yield ends.new_file
            ends.wait()
        return

    @contextmanager
    def begin(name: str) -> Iterator[IO[bytes]]:
        with _named(name), back.new_file(folder, name, durable=False) as file:
            yield file
        names.append(name)

    yield begin
    back.make_durable(folder, names)


class _Ends:
    """Of files of a storage that is far away."""

    def __init__(self, back: Backend, folder: Folder, enders: Executor) -> None:
        self._back, self._folder, self._enders = back, folder, enders
        self._waiting: deque[Future[None]] = deque()

    @contextmanager
    def new_file(self, name: str) -> Iterator[IO[bytes]]:
        with ExitStack() as file:
            file.enter_context(_named(name))
            yield file.enter_context(self._back.new_file(self._folder, name, durable=True))
            self._waiting.append(self._enders.submit(file.pop_all().close))
        if len(self._waiting) == FILES_ENDED_AT_ONCE_MAX:
            self._waiting.popleft().result()

    def wait(self) -> None:
        while self._waiting:
            self._waiting.popleft().result()


@contextmanager
def _named(name: str) -> Iterator[None]:
    """A StorageError of the block names the file."""
    try:
        yield
    except StorageError as error:
        raise type(error)(f"{name}: {error}") from error


def make_durable(folder: Folder, names: Iterable[str]) -> None:
    """The files of these names, written by `new_file`, are durable when it returns. Many wait for the disk together."""
    _of(folder).make_durable(folder, list(names))


def write_in_order(folder: Folder, files: Sequence[tuple[str, bytes]]) -> None:
    """Write the files durably, all in one folder, as many `write_atomically` would: after a crash, the first ones are there."""
    _of(folder).write_in_order(folder, files)


def write_all(folder: Folder, files: Mapping[str, bytes]) -> None:
    """Write the files durably, as many `write_atomically` would, in any order."""
    back, at_once = _of(folder), _of(folder).READS_AT_ONCE_MAX
    if at_once == 1 or len(files) < 2:
        back.write_in_order(folder, list(files.items()))
        return
    with side_by_side(at_once) as writers:
        list(writers.map(lambda one: back.write_in_order(folder, [one]), files.items()))


def copy_files(folder: Folder, names: Sequence[tuple[str, str]]) -> None:
    """Each second name becomes the first one's file as well, whole and durable; those in one folder appear in this order. A file that has
    the name is kept where that costs nothing, else replaced: so only for names that had no file, or this very one. Raises Absent where a
    first one is gone."""
    back, at_once = _of(folder), _of(folder).READS_AT_ONCE_MAX
    by_folder: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for name, to in names:
        by_folder[to.rpartition("/")[0]].append((name, to))
    if at_once == 1 or len(by_folder) < 2:
        back.copy(folder, names)
        return
    with side_by_side(at_once) as copiers:
        list(copiers.map(lambda some: back.copy(folder, some), by_folder.values()))


def write_atomically(folder: Folder, name: str, data: bytes) -> None:
    """Durable when it returns; a reader sees the old bytes or the new ones."""
    with new_file(folder, name) as file:
        file.write(data)


def create_exclusively(folder: Folder, name: str, data: bytes) -> bool:
    """Create the file, whole and durable, if no file has that name; False if another one has.

    A file that already holds equal bytes counts as created by this call, because the answer to an earlier attempt may
    have been lost (S3, NFS): so `data` must tell its writer from any other.
    """
    return _of(folder).create(folder, name, data) or read_if_there(folder, name) == data


def keeps_exclusive(folder: Folder, probe: str) -> bool:
    """Whether `create_exclusively` is exclusive here: some S3-like storages pass over `If-None-Match`, some mounts have no links. Leaves
    the file `probe` behind."""
    create_exclusively(folder, probe, b"first")
    return not create_exclusively(folder, probe, b"second")


def remove(folder: Folder, names: Iterable[str]) -> None:
    """Remove the files, in this order where the storage has one; a name that does not exist is no error."""
    _of(folder).remove(folder, list(names))


def volume_bytes(folder: Folder) -> tuple[int, int] | None:
    """Bytes that are free on the folder's volume, and its size; None for a storage that is no volume. Raises Absent without a folder."""
    return _of(folder).volume_bytes(folder)


def is_temporary(name: str) -> bool:
    """Whether a listed name is a temporary file of `new_file` or `create_exclusively` (a crash leaves them behind)."""
    return _TEMPORARY.fullmatch(name.rpartition("/")[2]) is not None


def is_old_temporary(folder: Folder, name: str) -> bool:
    """Whether it is a temporary file that nobody has written for TEMPORARY_MAX_S. False where it is gone."""
    if not is_temporary(name):
        return False
    age_s = _of(folder).age_s(folder, name)
    return age_s is not None and age_s > TEMPORARY_MAX_S
