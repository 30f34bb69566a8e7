"""URL to file system: the one place that knows how a folder is named, opened and written. A leaf: fsspec and botocore only.

`file:///var/log/x`, a bare path, `s3://bucket/prefix?endpoint=…&region=…&access-key=…&secret-access-key=…` (TiCDC's own
parameter names; keys are better left to the environment or the machine's role), `memory://…` in tests.

What is written here appears under its name whole and durable, or not at all:

    file    a hidden temporary file, fsync, then rename (replaces) or link (exclusive), then fsync of the folder
    s3      one PUT or one multipart upload; exclusive by `If-None-Match: *`
    memory  a dict; exclusive by a lock, so inside one process only

Errors are the drivers' own (OSError, botocore's); `is_full` tells the one that an operator ends by making room.
"""

from __future__ import annotations

import errno
import io
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import IO, Any
from urllib.parse import parse_qs, urlsplit

import fsspec
from botocore.exceptions import (  # type: ignore[import-untyped]  # botocore ships no types
    ConnectionClosedError,
    EndpointConnectionError,
    HTTPClientError,
)

S3_PART_BYTES = 8 << 20
"""What an open upload holds in memory; S3 takes 10,000 parts, so a file may have 80 GB."""

S3_DELETE_KEYS_MAX = 1000
"""S3's own bound on one DeleteObjects."""

S3_READS_AT_ONCE_MAX = 16
"""Small reads wait for the network, not for the CPU; more than this only queues in the connection pool."""

SYNCS_AT_ONCE_MAX = 16
"""fsyncs that wait together share the journal's commits."""

S3_CONFLICT_TRIES = 5
"""S3 answers 409 to a conditional PUT that met another one in flight, and asks for it to be sent again."""

_S3_FULL_CODES = frozenset({"XMinioStorageFull", "XMinioAdminBucketQuotaExceeded", "QuotaExceeded"})
"""MinIO and Ceph; S3 itself is never full."""

_UNREACHABLE = frozenset({errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN, errno.EHOSTDOWN, errno.ESTALE})
_S3_UNREACHABLE = (ConnectionClosedError, EndpointConnectionError, HTTPClientError)
"""botocore's own, after its retries and s3fs'."""

_TEMPORARY = re.compile(r"\.[^/]+\.tmp")
_memory_lock = Lock()


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder on any storage. Picklable: Spark's tasks open it anew. `options` may hold secrets and is not shown."""

    protocol: str
    root: str
    options: dict[str, Any] = field(default_factory=dict, repr=False)

    def fs(self) -> Any:
        return fsspec.filesystem(self.protocol, **self.options)

    def path(self, name: str) -> str:
        return f"{self.root}/{name}" if name else self.root

    def __str__(self) -> str:
        return f"{self.protocol}://{self.root}"


def open_folder(url: str) -> Folder:
    """The folder a URL names; parameters that are not the storage's own (`format=…`) are left to the caller."""
    parts = urlsplit(url)
    if parts.scheme in ("", "file"):
        return Folder("file", (parts.path or url).rstrip("/"), {"auto_mkdir": True})
    if parts.scheme == "s3":
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        options: dict[str, Any] = {"use_listings_cache": False, "skip_instance_cache": False}
        if "access-key" in query:
            options |= {"key": query["access-key"], "secret": query.get("secret-access-key", "")}
        client = {
            name: query[parameter] for name, parameter in (("endpoint_url", "endpoint"), ("region_name", "region")) if parameter in query
        }
        return Folder("s3", (parts.netloc + parts.path).rstrip("/"), options | {"client_kwargs": client})
    return Folder(parts.scheme, (parts.netloc + parts.path).rstrip("/"), {})


# ---- reading --------------------------------------------------------------------------------------------------------


def list_names(folder: Folder, *, deep: bool) -> list[str]:
    """Names of the files in the folder, and below it if `deep`, relative to it and sorted; empty when there is no folder.

    Raises FileNotFoundError for a bucket that does not exist.
    """
    fs = folder.fs()
    root = fs._strip_protocol(folder.root).rstrip("/")  # the form in which this storage answers
    return sorted(path[len(root) + 1 :] for path in fs.find(folder.root, maxdepth=None if deep else 1))


def exists(folder: Folder, name: str) -> bool:
    try:
        folder.fs().info(folder.path(name))
    except FileNotFoundError:
        return False
    return True


def read_file(folder: Folder, name: str) -> bytes:
    """Raises FileNotFoundError."""
    return bytes(folder.fs().cat_file(folder.path(name)))


def read_files(folder: Folder, names: Iterable[str]) -> dict[str, bytes]:
    """The files of these names, in parallel on S3; those that do not exist are left out."""
    asked = list(names)
    if folder.protocol != "s3" or len(asked) < 2:
        found = [_read_if_there(folder, name) for name in asked]
    else:
        with ThreadPoolExecutor(S3_READS_AT_ONCE_MAX) as readers:
            found = list(readers.map(partial(_read_if_there, folder), asked))
    return {name: data for name, data in zip(asked, found, strict=True) if data is not None}


def _read_if_there(folder: Folder, name: str) -> bytes | None:
    try:
        return read_file(folder, name)
    except FileNotFoundError:
        return None


# ---- writing --------------------------------------------------------------------------------------------------------


@contextmanager
def new_file(folder: Folder, name: str, *, durable: bool = True) -> Iterator[IO[bytes]]:
    """A file to write in a stream: it appears under `name`, replacing what is there, when the block ends without error.

    `durable` False: it is whole but may be lost, until `make_durable` is called for it. For many files at once.
    """
    match folder.protocol:
        case "file":
            with _new_local_file(folder.path(name), durable=durable) as file:
                yield file
        case "s3":
            with _new_upload(folder, name) as file:
                yield file
        case "memory":
            buffer = io.BytesIO()
            yield buffer
            folder.fs().pipe_file(folder.path(name), buffer.getvalue())
        case _:
            raise _unknown_storage(folder)


def make_durable(folder: Folder, names: Iterable[str]) -> None:
    """The files of these names, written by `new_file`, are durable when it returns. Many wait for the disk together."""
    if folder.protocol != "file":
        return
    paths = [folder.path(name) for name in names]
    with ThreadPoolExecutor(SYNCS_AT_ONCE_MAX) as waiters:
        list(waiters.map(_sync_path, paths))
        list(waiters.map(_sync_folder, sorted({os.path.dirname(path) for path in paths})))


def write_in_order(folder: Folder, files: Sequence[tuple[str, bytes]]) -> None:
    """Write the files durably, all in one folder, as many `write_atomically` would: after a crash, the first ones are there.

    On a local disk their contents are made durable together, then they are renamed one after another: a file system's
    journal keeps the order of renames in one folder (ext4, xfs, btrfs).
    """
    if folder.protocol != "file":
        for name, data in files:
            write_atomically(folder, name, data)
        return
    temporary = [(f"{os.path.dirname(name)}/.{os.path.basename(name)}.{os.getpid()}.tmp", name) for name, _ in files]
    for (hidden, _), (_, data) in zip(temporary, files, strict=True):
        with _new_local_file(folder.path(hidden), durable=False) as file:
            file.write(data)
    make_durable(folder, [hidden for hidden, _ in temporary])
    for hidden, name in temporary:
        os.replace(folder.path(hidden), folder.path(name))
    for parent in sorted({os.path.dirname(folder.path(name)) for _, name in temporary}):
        _sync_folder(parent)


def write_atomically(folder: Folder, name: str, data: bytes) -> None:
    """Durable when it returns; a reader sees the old bytes or the new ones."""
    with new_file(folder, name) as file:
        file.write(data)


def create_exclusively(folder: Folder, name: str, data: bytes) -> bool:
    """Create the file, whole and durable, if no file has that name; False if another one has.

    A file that already holds equal bytes counts as created by this call, because the answer to an earlier attempt may
    have been lost (S3, NFS): so `data` must tell its writer from any other.
    """
    match folder.protocol:
        case "file":
            created = _link_local(folder.path(name), data)
        case "s3":
            created = _put_if_none(folder, name, data)
        case "memory":
            with _memory_lock:
                created = not exists(folder, name)
                if created:
                    folder.fs().pipe_file(folder.path(name), data)
        case _:
            raise _unknown_storage(folder)
    return created or _read_if_there(folder, name) == data


def remove(folder: Folder, names: Iterable[str]) -> None:
    """Remove the files, in this order where the storage has one; a name that does not exist is no error."""
    doomed = list(names)
    if folder.protocol == "s3":
        for start in range(0, len(doomed), S3_DELETE_KEYS_MAX):
            _delete_objects(folder, doomed[start : start + S3_DELETE_KEYS_MAX])
        return
    for name in doomed:
        with suppress(FileNotFoundError):
            folder.fs().rm_file(folder.path(name))


def is_temporary(name: str) -> bool:
    """Whether a listed name is a temporary file of `new_file` or `create_exclusively` (a crash leaves them behind)."""
    return _TEMPORARY.fullmatch(name.rpartition("/")[2]) is not None


def is_full(error: BaseException) -> bool:
    """Whether the storage refused for want of room: by errno, or by the S3 error code that s3fs keeps as the cause."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return True
    response = _s3_response(error)
    return response["Error"].get("Code") in _S3_FULL_CODES or response["ResponseMetadata"].get("HTTPStatusCode") == 507


def is_unreachable(error: BaseException) -> bool:
    """Whether the storage did not answer at all, or asked to be left alone for a while."""
    if isinstance(error, TimeoutError | ConnectionError) or (isinstance(error, OSError) and error.errno in _UNREACHABLE):
        return True
    if isinstance(error, _S3_UNREACHABLE) or isinstance(error.__cause__, _S3_UNREACHABLE):
        return True
    return _s3_response(error)["ResponseMetadata"].get("HTTPStatusCode") in (500, 502, 503, 504)


def _unknown_storage(folder: Folder) -> OSError:
    return OSError(errno.ENOTSUP, f"how {folder.protocol}:// writes durably is not known here", str(folder))


# ---- local ----------------------------------------------------------------------------------------------------------


@contextmanager
def _new_local_file(path: str, *, durable: bool) -> Iterator[IO[bytes]]:
    with _temporary_beside(path) as (file, temporary):
        yield file
        if durable:
            _sync_file(file)
        else:
            file.flush()
        os.replace(temporary, path)
        if durable:
            _sync_folder(os.path.dirname(path))


def _link_local(path: str, data: bytes) -> bool:
    """A link is atomic and exclusive, where O_EXCL would show readers an empty file first."""
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


def _sync_folder(path: str) -> None:
    handle = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# ---- S3 -------------------------------------------------------------------------------------------------------------


@contextmanager
def _new_upload(folder: Folder, name: str) -> Iterator[IO[bytes]]:
    upload = folder.fs().open(folder.path(name), "wb", block_size=S3_PART_BYTES)
    try:
        yield upload
        upload.close()
    except BaseException:
        upload.closed = True  # or its destructor would complete the upload
        with suppress(Exception):  # the first error counts; parts left behind are the bucket's lifecycle rule's to remove
            upload.discard()
        raise


def _put_if_none(folder: Folder, name: str, data: bytes) -> bool:
    for _ in range(S3_CONFLICT_TRIES):
        try:
            folder.fs().pipe_file(folder.path(name), data, mode="create")
        except OSError as error:
            code = _s3_response(error)["Error"].get("Code")
            if isinstance(error, FileExistsError) or code in ("PreconditionFailed", "412"):
                return False
            if code != "ConditionalRequestConflict":
                raise
            conflict = error
        else:
            return True
    raise conflict


def _delete_objects(folder: Folder, names: list[str]) -> None:
    """One DeleteObjects. s3fs's own bulk delete passes over the keys that S3 refused to delete."""
    fs = folder.fs()
    split = [fs.split_path(folder.path(name)) for name in names]
    answer = fs.call_s3("delete_objects", Bucket=split[0][0], Delete={"Objects": [{"Key": key} for _, key, _ in split], "Quiet": True})
    if refused := answer.get("Errors"):
        raise OSError(errno.EIO, f"S3 did not delete {len(refused)} objects: {refused[0].get('Code')}", refused[0].get("Key"))


def _s3_response(error: BaseException) -> dict[str, Any]:
    """The answer of S3 behind an error, in botocore's shape; empty parts when there is none."""
    for found in (error, error.__cause__):
        response = getattr(found, "response", None)
        if isinstance(response, dict):
            return {"Error": response.get("Error", {}), "ResponseMetadata": response.get("ResponseMetadata", {})}
    return {"Error": {}, "ResponseMetadata": {}}
