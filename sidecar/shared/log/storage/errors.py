"""The errors of any storage that does not carry out a call.

    Absent        there is no such file, folder or bucket
    Full          no room: an operator ends it by making some
    Unreachable   no answer, or it asks to be left alone for a while: it ends without an operator
    Exhausted     this process or machine has no descriptor or memory left for the call: it ends when others give theirs back
    Refused       anything else: not allowed, not a folder, broken

Each back end raises these and nothing else, by errno or error code, with the driver's own error as the cause. They are OSErrors because
FileNotFoundError, which `Absent` is, is one. The caller decides what they mean to the product.
"""

from __future__ import annotations

import errno

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
