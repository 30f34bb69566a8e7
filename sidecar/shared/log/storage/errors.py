"""The errors of any storage that does not carry out a call.

    Absent        there is no such file, folder or bucket
    Full          no room: an operator ends it by making some
    Unreachable   no answer, or it asks to be left alone for a while: it ends without an operator
    Exhausted     this process or machine has no descriptor or memory left for the call: it ends when others give theirs back
    Refused       anything else: not allowed, not a folder, broken

They are made by errno or error code, with the driver's own error as the cause. They are OSErrors because FileNotFoundError, which `Absent`
is, is one.

Who opens a folder says what they mean to the product (`Folder.meaning`): `log_error` for the log, `spark_merge.sinks.kit.errors.sink_error`
for an output; `bare` where the caller itself distinguishes them.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import TypeAlias

import pyarrow as pa

from sidecar.shared.errors import LogBroken, LogUnreachable, StorageFull

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN})
_UNREACHABLE = frozenset({errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN, errno.EHOSTDOWN, errno.ESTALE, errno.EINTR, errno.EIO})
"""EINTR and EIO are what a network file system says whose server is away."""


class StorageError(OSError):
    """Any of them."""


class Absent(StorageError, FileNotFoundError):
    pass


class Full(StorageError):
    pass


class Unreachable(StorageError):
    pass


class Exhausted(StorageError):
    pass


class Refused(StorageError):
    pass


def by_errno(error: OSError) -> StorageError:
    """The one that an error of the operating system is."""
    text = repr(error) if error.errno is None else str(error)  # which has the file's name, where there is one
    if error.errno in _FULL:
        return Full(text)
    if error.errno in _EXHAUSTED:
        return Exhausted(text)
    if isinstance(error, TimeoutError | ConnectionError) or error.errno in _UNREACHABLE:
        return Unreachable(text)
    if isinstance(error, FileNotFoundError):
        return Absent(text)
    return Refused(text)


Meaning: TypeAlias = "Callable[[object, str, Exception], Exception]"
"""Of an error in a place: a StorageError, or Arrow's while a file of that name was open (else the name is empty). What it returns is
raised: an error that it has no other meaning for, it returns as it is."""


def bare(_place: object, _name: str, error: Exception) -> Exception:
    return error


def log_error(place: object, _name: str, error: Exception) -> Exception:
    """StorageFull, LogUnreachable (a retry helps for both) or LogBroken, which Parquet's errors are too."""
    if isinstance(error, Full):
        return StorageFull(
            f"no room left in {place}: {error}",
            hint="make room or enlarge the storage: nothing is lost, it continues automatically",
            place=str(place),
        )
    if isinstance(error, Unreachable):
        return LogUnreachable(
            f"{place} cannot be reached: {error}",
            hint="make the storage answer this process (network, credentials, clock, rate limits): nothing is lost, it continues "
            "automatically",
        )
    if isinstance(error, Exhausted):
        return LogUnreachable(
            f"{place} cannot be read or written now: {error}",
            hint="see what has many files or connections open, or so much memory, or raise the limit (systemd: LimitNOFILE, MemoryMax): "
            "nothing is lost, it continues automatically",
        )
    if isinstance(error, StorageError | pa.ArrowException):
        return LogBroken(
            f"{place} cannot be read or written: {error}",
            hint="make it exist and be reachable and writable for this process, then start again: nothing acknowledged is lost",
        )
    return error
