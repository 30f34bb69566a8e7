"""What can be done with files in a folder, whatever it is on: the one place that looks at a folder's protocol.

What is written here appears under its name whole and durable, or not at all. The end of each operation is progress. An error of the
storage is raised as what it means to the reader that the folder was opened for (`Folder.meaning`), with the StorageError as its cause.
"""

from __future__ import annotations

import errno
import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from functools import partial, wraps
from typing import IO, Concatenate, NoReturn, ParamSpec, Protocol, TypeAlias, TypeVar

import pyarrow as pa

import sidecar.shared.log.storage.local as local  # a `from … import` would ask the package's face, which asks this file
import sidecar.shared.log.storage.memory as memory
from sidecar.shared.log.storage.errors import Refused, StorageError, by_errno
from sidecar.shared.log.storage.files import Changes, FileEntry, Known
from sidecar.shared.log.storage.folder import Folder
from sidecar.shared.process.progress import progressed, side_by_side

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

    def list_changes(self, folder: Folder, known: Known | None) -> Changes:
        """In any order. A `known` of another back end is as none."""
        ...

    def exists(self, folder: Folder, name: str) -> bool: ...

    def read_file(self, folder: Folder, name: str) -> bytes: ...

    def read_start(self, folder: Folder, name: str, size: int) -> bytes: ...

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


P = ParamSpec("P")
R = TypeVar("R")


def _operation(carried_out: Callable[Concatenate[Backend, Folder, P], R]) -> Callable[Concatenate[Folder, P], R]:
    @wraps(carried_out)
    def operation(folder: Folder, /, *args: P.args, **named: P.kwargs) -> R:
        try:
            result = carried_out(_BACKENDS.get(folder.protocol) or _of(folder), folder, *args, **named)
        except OSError as error:
            _raise(folder, "", error)
        progressed()
        return result

    return operation


def _raise(folder: Folder, name: str, error: Exception) -> NoReturn:
    """`name`: of the file that was open."""
    if isinstance(error, OSError) and not isinstance(error, StorageError):
        cause, error = error, by_errno(error)
        error.__cause__ = cause
    of_reader = folder.meaning(folder, name, error)
    if of_reader is error:
        raise error
    raise of_reader from error


# ---- reading --------------------------------------------------------------------------------------------------------


@_operation
def list_names(back: Backend, folder: Folder, *, deep: bool, under: str = "", beginning: str = "") -> list[str]:
    """Names of the files in the folder, or in the one `under` it, and below that if `deep`, relative to it and sorted; empty when there
    is no folder.

    `beginning`: names that begin otherwise may be omitted, which S3 does. A bucket that does not exist is Absent.
    """
    return sorted(back.list_names(_below(folder, under), deep=deep, beginning=beginning))


@_operation
def list_folders(back: Backend, folder: Folder, *, under: str = "") -> list[str]:
    """Names of the folders directly in the folder, or in the one `under` it, sorted. Absent when there is no such folder."""
    return sorted(back.list_folders(_below(folder, under)))


@_operation
def list_files(back: Backend, folder: Folder, *, under: str = "") -> list[FileEntry]:
    """The files in the folder, or in the one `under` it, and below that. Names are relative to `folder`, so that they can be read by them;
    they are sorted. Empty when there is no folder. A bucket that does not exist is Absent."""
    entries = sorted(back.list_changes(_below(folder, under), None).now)
    return [entry._replace(name=f"{under}/{entry.name}") for entry in entries] if under else entries


@_operation
def list_changes(back: Backend, folder: Folder, known: Known | None) -> Changes:
    """How the files in the folder, and below it, differ from those of the listing that gave `known`; without it, all of them are new. Both
    lists are sorted by name.

    Every file that was there under its name when the call began is accounted for. A local folder that has not changed costs one open, and
    a bucket one request for 900 files, 16 at a time. Errors are as list_files'; `known` can be used again after one.
    """
    now, gone, known = back.list_changes(folder, known)
    return Changes(sorted(now), sorted(gone), known)


def _below(folder: Folder, under: str) -> Folder:
    return replace(folder, root=folder.path(under)) if under else folder


@_operation
def exists(back: Backend, folder: Folder, name: str) -> bool:
    return back.exists(folder, name)


@_operation
def read_file(back: Backend, folder: Folder, name: str) -> bytes:
    """A whole file; Absent where there is none."""
    return back.read_file(folder, name)


@_operation
def read_start(back: Backend, folder: Folder, name: str, size: int) -> bytes:
    """The first `size` bytes of a file that is not empty, or all of it; Absent where there is none."""
    return back.read_start(folder, name, size)


@_operation
def read_files(back: Backend, folder: Folder, names: Iterable[str]) -> dict[str, bytes]:
    """The files of these names, in parallel where that helps; those that do not exist are omitted."""
    requested, at_once = list(names), back.READS_AT_ONCE_MAX
    if at_once == 1 or len(requested) < 2:
        results = [_read_if_there(back, folder, name) for name in requested]
    else:
        with side_by_side(at_once) as readers:
            results = list(readers.map(partial(_read_if_there, back, folder), requested))
    return {name: data for name, data in zip(requested, results, strict=True) if data is not None}


@_operation
def read_if_there(back: Backend, folder: Folder, name: str) -> bytes | None:
    """A whole file; None where there is none."""
    return _read_if_there(back, folder, name)


def _read_if_there(back: Backend, folder: Folder, name: str) -> bytes | None:
    try:
        data = back.read_file(folder, name)
    except FileNotFoundError:  # as Absent is
        return None
    progressed()
    return data


@contextmanager
def open_to_read(folder: Folder, name: str) -> Iterator[IO[bytes]]:
    """A file that can be read anywhere (Parquet is read from its end), not wholly held in memory; Absent where there is none.

    An OSError of the block is taken for the storage's, and an error of Arrow for the file's.
    """
    try:
        with _of(folder).open_to_read(folder, name) as file:
            yield file
    except (OSError, pa.ArrowException) as error:
        _raise(folder, name, error)
    progressed()


# ---- writing --------------------------------------------------------------------------------------------------------


@contextmanager
def new_file(folder: Folder, name: str, *, durable: bool = True) -> Iterator[IO[bytes]]:
    """A file to write in a stream: it appears under `name`, replacing what is there, when the block ends without error.

    `durable` False: it is whole but may be lost, until `make_durable` is called for it. For many files at once.
    An OSError of the block is taken for the storage's, and an error of Arrow for the file's.
    """
    try:
        with _of(folder).new_file(folder, name, durable=durable) as file:
            yield file
    except (OSError, pa.ArrowException) as error:
        _raise(folder, name, error)
    progressed()


NewFile: TypeAlias = "Callable[[str], AbstractContextManager[IO[bytes]]]"


@contextmanager
def new_files(folder: Folder) -> Iterator[NewFile]:
    """A function that is as `new_file`, for many files one after another: all of them are whole and durable when this block ends without
    error. On S3 the end of a file, which is mostly its only request, continues while the next files are written. So its error is raised
    later; it names the file."""
    if _reads_at_once(folder) > 1:
        with side_by_side(FILES_ENDED_AT_ONCE_MAX) as enders:
            ends = _Ends(folder, enders)
            yield ends.new_file
            ends.wait()
        return
    names = list[str]()

    @contextmanager
    def begin(name: str) -> Iterator[IO[bytes]]:
        with new_file(folder, name, durable=False) as file:
            yield file
        names.append(name)

    yield begin
    make_durable(folder, names)


@_operation
def _reads_at_once(back: Backend, _: Folder) -> int:
    return back.READS_AT_ONCE_MAX


class _Ends:
    """Of files of a storage that is far away."""

    def __init__(self, folder: Folder, enders: Executor) -> None:
        self._folder, self._enders = folder, enders
        self._waiting: deque[Future[None]] = deque()

    @contextmanager
    def new_file(self, name: str) -> Iterator[IO[bytes]]:
        with ExitStack() as file:
            yield file.enter_context(new_file(self._folder, name))
            self._waiting.append(self._enders.submit(file.pop_all().close))
        if len(self._waiting) == FILES_ENDED_AT_ONCE_MAX:
            self._waiting.popleft().result()

    def wait(self) -> None:
        while self._waiting:
            self._waiting.popleft().result()


@_operation
def make_durable(back: Backend, folder: Folder, names: Iterable[str]) -> None:
    """The files of these names, written by `new_file`, are durable when it returns. Many wait for the disk together."""
    back.make_durable(folder, list(names))


@_operation
def write_in_order(back: Backend, folder: Folder, files: Sequence[tuple[str, bytes]]) -> None:
    """Write the files durably, all in one folder, as many `write_atomically` would: after a crash, the first ones are there."""
    back.write_in_order(folder, files)


@_operation
def write_all(back: Backend, folder: Folder, files: Mapping[str, bytes]) -> None:
    """Write the files durably, as many `write_atomically` would, in any order."""
    if (at_once := back.READS_AT_ONCE_MAX) == 1 or len(files) < 2:
        back.write_in_order(folder, list(files.items()))
        return
    with side_by_side(at_once) as writers:
        list(writers.map(lambda one: back.write_in_order(folder, [one]), files.items()))


@_operation
def copy_files(back: Backend, folder: Folder, names: Sequence[tuple[str, str]]) -> None:
    """Each second name becomes the first one's file as well, whole and durable; those in one folder appear in this order. A file that has
    the name is kept where that costs nothing, else replaced: so only for names that had no file, or this very one. Absent where a first
    one is gone."""
    by_folder: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for name, to in names:
        by_folder[to.rpartition("/")[0]].append((name, to))
    if (at_once := back.READS_AT_ONCE_MAX) == 1 or len(by_folder) < 2:
        back.copy(folder, names)
        return
    with side_by_side(at_once) as copiers:
        list(copiers.map(lambda some: back.copy(folder, some), by_folder.values()))


@_operation
def write_atomically(back: Backend, folder: Folder, name: str, data: bytes) -> None:
    """Durable when it returns; a reader sees the old bytes or the new ones."""
    back.write_in_order(folder, [(name, data)])


@_operation
def create_exclusively(back: Backend, folder: Folder, name: str, data: bytes) -> bool:
    """Create the file, whole and durable, if no file has that name; False if another one has.

    A file that already holds equal bytes counts as created by this call, because the answer to an earlier attempt may
    have been lost (S3, NFS): so `data` must tell its writer from any other.
    """
    return back.create(folder, name, data) or _read_if_there(back, folder, name) == data


def keeps_exclusive(folder: Folder, probe: str) -> bool:
    """Whether `create_exclusively` is exclusive here: some S3-like storages pass over `If-None-Match`, some mounts have no links. Leaves
    the file `probe` behind."""
    create_exclusively(folder, probe, b"first")
    return not create_exclusively(folder, probe, b"second")


@_operation
def remove(back: Backend, folder: Folder, names: Iterable[str]) -> None:
    """Remove the files, in this order where the storage has one; a name that does not exist is no error."""
    back.remove(folder, list(names))


@_operation
def volume_bytes(back: Backend, folder: Folder) -> tuple[int, int] | None:
    """Bytes that are free on the folder's volume, and its size; None for a storage that is no volume. Absent without a folder."""
    return back.volume_bytes(folder)


def is_temporary(name: str) -> bool:
    """Whether a listed name is a temporary file of `new_file` or `create_exclusively` (a crash leaves them behind)."""
    return _TEMPORARY.fullmatch(name.rpartition("/")[2]) is not None


@_operation
def is_old_temporary(back: Backend, folder: Folder, name: str) -> bool:
    """Whether it is a temporary file that nobody has written for TEMPORARY_MAX_S. False where it is gone."""
    if not is_temporary(name):
        return False
    age_s = back.age_s(folder, name)
    return age_s is not None and age_s > TEMPORARY_MAX_S
