"""S3 and what speaks like it, through s3fs: one PUT or one multipart upload a file, exclusive by `If-None-Match: *`.

Errors are classified by S3's error code and HTTP status, which s3fs keeps as the cause. That is why this is not `obstore`, which would
bring GCS and Azure. Its errors (0.12) have neither. A full bucket (507), a busy one (503) and one out of reach differ by their text only,
and a PUT that met another in flight (409, to be sent again) looks like one that came too late.

Which errors pass is botocore's own classification, plus the codes that botocore leaves to its caller. Such an error says nothing of what
a PUT did: `create` returns no answer then, and the recovery of the log shows it.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from typing import IO, Any

import fsspec
from aiohttp import ClientPayloadError
from botocore.awsrequest import AWSResponse  # type: ignore[import-untyped]  # botocore ships no types
from botocore.exceptions import (  # type: ignore[import-untyped]
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    MetadataRetrievalError,
)
from botocore.retries.standard import (  # type: ignore[import-untyped]
    OrRetryChecker,
    RetryContext,
    ThrottledRetryableChecker,
    TransientRetryableChecker,
)
from fsspec.asyn import sync
from s3fs import S3FileSystem

import sidecar.shared.log.storage.s3_listing as s3_listing  # as in dispatch.py
from sidecar.shared.errors import ConfigError
from sidecar.shared.log.storage.errors import Full, Refused, StorageError, Unreachable, by_errno
from sidecar.shared.log.storage.files import Changes, Known
from sidecar.shared.log.storage.folder import Folder
from sidecar.shared.process.kept_secrets import kept
from sidecar.shared.process.progress import progressed

READS_AT_ONCE_MAX = 16
"""Small reads wait for the network, not for the CPU; more than this only queues in the connection pool."""

PART_BYTES = 8 << 20
"""What an open upload holds in memory; S3 takes 10,000 parts, so a file may have 80 GB."""

DELETE_KEYS_MAX = 1000
"""S3's own bound on one DeleteObjects."""

CONFLICT_TRIES = 5
"""S3 answers 409 to a conditional PUT that met another one in flight, and asks for it to be sent again."""

REQUEST_TRIES = 2
"""By s3fs, of one request, each of which is botocore's five tries of up to 20 s (s3fs' 5 s for the connection and 15 s for the answer) with
15 s of pauses: all of them end before a watch takes the request for a hang (spark_merge/delivery/watchdog.py)."""

_FULL_CODES = frozenset({"XMinioStorageFull", "XMinioAdminBucketQuotaExceeded", "QuotaExceeded"})
"""MinIO and Ceph; S3 itself is never full."""

_FULL_STATUS = 507
_BUSY_STATUS = frozenset({408, 429, 509})
"""Whatever the code is: botocore's standard mode goes by codes here."""

_EXPIRED_CODES = ("ExpiredToken", "TokenRefreshRequired")
"""Of credentials that their issuer is to renew."""

_PASSING_CODES = frozenset(
    {
        *("BadDigest", "IncompleteBody"),  # damaged on the way
        *("ConditionalRequestConflict", "OperationAborted"),  # met another request in flight
        *_EXPIRED_CODES,
        "RequestTimeTooSkewed",  # until the clock is right
        "InternalError",  # of one key of a DeleteObjects, which has no status
        "IDPCommunicationError",  # STS did not reach who vouches for the role
    }
)
"""Not in botocore's classification."""

_NO_CREDENTIALS = (CredentialRetrievalError, MetadataRetrievalError)
"""They were not renewed this time: a process that has had some is not to end for it."""

_RETRYABLE = OrRetryChecker([TransientRetryableChecker(), ThrottledRetryableChecker()])
"""botocore's standard mode: codes, statuses and errors of the connection."""


def fs(folder: Folder) -> Any:
    """s3fs' file system; fsspec keeps one for equal options. Raises ConfigError where a URL's access key has no secret here."""
    key = folder.options.get("key")
    filesystem = fsspec.filesystem("s3", **folder.options, **({} if key is None else {"secret": _secret(folder, key)}))
    filesystem.retries = REQUEST_TRIES
    return filesystem


def _secret(folder: Folder, key: str) -> str:
    if (secret := kept("s3", key)) is not None:
        return secret
    raise ConfigError(
        f"{folder}: the secret of access key {key} is not known to this process: what a URI says is not sent to a cluster's tasks",
        hint="take access-key and secret-access-key out of the URIs of log and sinks, and give this process and every executor S3's"
        " keys by their environment, their files or their role (deploy/spark/README.md)",
    )


@contextmanager
def _errors() -> Iterator[None]:
    """Around calls of S3; their end is progress."""
    try:
        yield
        progressed()
    except StorageError:
        raise
    except (OSError, BotoCoreError, ClientError, ClientPayloadError) as error:
        raise _translated(error) from error


def _translated(error: Exception) -> StorageError:
    code, status = _answer(error)
    if code in _FULL_CODES or status == _FULL_STATUS:
        return Full(str(error))
    if code in _EXPIRED_CODES:
        S3FileSystem.clear_instance_cache()  # a session keeps the credentials that it read first
    what = repr(error) if code is None else f"{code}, {error!r}"
    if _passes(code, status) or any(map(_broke_off, (error, error.__cause__))):
        return Unreachable(what)
    unknown = code is not None and getattr(error, "errno", None) == errno.EIO  # s3fs's own number for any code that it does not know
    return by_errno(error) if isinstance(error, OSError) and not unknown else Refused(what)


def _answer(error: BaseException) -> tuple[str | None, int | None]:
    """S3's error code and HTTP status behind an error; None when there was no answer."""
    for item in (error, error.__cause__):
        response = getattr(item, "response", None)
        if isinstance(response, dict):
            return response.get("Error", {}).get("Code"), response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    return None, None


def _passes(code: str | None, status: int | None) -> bool:
    if code in _PASSING_CODES or status in _BUSY_STATUS:
        return True
    answer = AWSResponse(None, status, {}, None)
    return bool(_RETRYABLE.is_retryable(RetryContext(1, parsed_response={"Error": {"Code": code}}, http_response=answer)))


def _broke_off(error: BaseException | None) -> bool:
    """Whether the connection gave no answer, or not all of one; or there were no credentials to ask with."""
    if isinstance(error, (ClientPayloadError, *_NO_CREDENTIALS)):
        return True
    return bool(_RETRYABLE.is_retryable(RetryContext(1, caught_exception=error)))


@contextmanager
def _errors_of(folder: Folder, name: str) -> Iterator[None]:
    """For what begins with a HEAD of the file. Its answer has no body, so its code is the status: a GET, which needs the same permission,
    gives S3's. Where that one succeeds, the error has passed."""
    try:
        with _errors():
            yield
    except Refused as error:
        code, status = _answer(error.__cause__ or error)
        if code is None or code != str(status):
            raise
        with _errors():
            fs(folder).cat_file(folder.path(name), start=0, end=1)
        raise Unreachable(*error.args) from error


# ---- reading --------------------------------------------------------------------------------------------------------


@_errors()
def list_names(folder: Folder, *, deep: bool, beginning: str) -> list[str]:
    if beginning:  # s3fs takes a prefix or a depth
        names = _relative(folder, fs(folder).find(folder.root, prefix=beginning))
        return [name for name in names if deep or "/" not in name]
    if deep:
        return _relative(folder, fs(folder).find(folder.root))
    here = fs(folder)  # not its find with a depth: that takes a listing which failed for an empty folder
    result = sync(here.loop, here._lsdir, folder.root)
    return _relative(folder, [entry["name"] for entry in result if entry["type"] != "directory" and not entry["name"].endswith("/")])


@_errors()
def list_folders(folder: Folder) -> list[str]:
    result = fs(folder).ls(folder.root, detail=True)
    return _relative(folder, [entry["name"].rstrip("/") for entry in result if entry["type"] == "directory"])


def _relative(folder: Folder, paths: list[str]) -> list[str]:
    root = fs(folder)._strip_protocol(folder.root).rstrip("/")  # the form in which it answers
    return [path[len(root) + 1 :] for path in paths]


def list_changes(folder: Folder, known: Known | None) -> Changes:
    bucket, key, _ = fs(folder).split_path(folder.root)
    prefix = f"{key}/" if key else ""
    return s3_listing.list_changes(partial(_page, folder, bucket, prefix), prefix, known)


@_errors()
def _page(folder: Folder, bucket: str, prefix: str, after: str, token: str) -> bytes:
    here = fs(folder)
    since = {"ContinuationToken": token} if token else {"StartAfter": after} if after else {}
    answer = sync(here.loop, _raw_page, here, {"Bucket": bucket, "Prefix": prefix, **since})
    if _BODY not in answer:
        raise Refused("the answer to a listing is none")
    return bytes(answer[_BODY])


async def _raw_page(here: Any, request: dict[str, str]) -> dict[str, Any]:
    await here.set_session()
    client = await here.get_s3(request["Bucket"])
    client.meta.events.register("before-parse.s3.ListObjectsV2", _keep_body, unique_id=_BODY)
    _raw.set(True)  # for this task
    answer: dict[str, Any] = await here._call_s3("list_objects_v2", **request)
    return answer


_BODY = "sidecar-listing"
_raw: ContextVar[bool] = ContextVar("raw", default=False)


def _keep_body(response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: object) -> None:
    """Keeps a listing's body from botocore's parser; what is none, it is to judge."""
    if _raw.get() and response_dict["status_code"] == 200 and b"<ListBucketResult" in response_dict["body"][:1000]:
        customized_response_dict[_BODY], response_dict["body"] = response_dict["body"], b""


def exists(folder: Folder, name: str) -> bool:
    try:
        with _errors_of(folder, name):
            fs(folder).info(folder.path(name))
    except FileNotFoundError:
        return False
    return True


@_errors()
def read_file(folder: Folder, name: str) -> bytes:
    return bytes(fs(folder).cat_file(folder.path(name), max_concurrency=1))  # of more it asks for the size first, by a HEAD


@_errors()
def read_start(folder: Folder, name: str, size: int) -> bytes:
    return bytes(fs(folder).cat_file(folder.path(name), start=0, end=size))


@contextmanager
def open_to_read(folder: Folder, name: str) -> Iterator[IO[bytes]]:
    with _errors_of(folder, name):
        file = fs(folder).open(folder.path(name), "rb")
    with _errors(), file:
        yield file


# ---- writing --------------------------------------------------------------------------------------------------------


@contextmanager
def new_file(folder: Folder, name: str, *, durable: bool) -> Iterator[IO[bytes]]:  # noqa: ARG001  # S3 has no other
    with _errors():
        upload = fs(folder).open(folder.path(name), "wb", block_size=PART_BYTES)
        try:
            yield upload
            upload.close()
        except BaseException:
            upload.closed = True  # or its destructor would complete the upload
            with suppress(Exception):  # the first error counts; parts left behind are the bucket's lifecycle rule's to remove
                upload.discard()
            raise


def make_durable(folder: Folder, names: Sequence[str]) -> None:
    """They are since their upload ended."""


def write_in_order(folder: Folder, files: Sequence[tuple[str, bytes]]) -> None:
    for name, data in files:
        with new_file(folder, name, durable=True) as file:
            file.write(data)


def copy(folder: Folder, names: Sequence[tuple[str, str]]) -> None:
    """By S3 itself, which takes 5 GB in one request; s3fs makes parts of more."""
    for name, to in names:
        with _errors_of(folder, name):
            fs(folder).cp_file(folder.path(name), folder.path(to))


@_errors()
def create(folder: Folder, name: str, data: bytes) -> bool:
    for _ in range(CONFLICT_TRIES):
        try:
            fs(folder).pipe_file(folder.path(name), data, mode="create")
        except OSError as error:
            code, _status = _answer(error)
            if isinstance(error, FileExistsError) or code in ("PreconditionFailed", "412"):
                return False
            if code != "ConditionalRequestConflict":
                raise
            conflict = error
        else:
            return True
    raise conflict


@_errors()
def remove(folder: Folder, names: Sequence[str]) -> None:
    for start in range(0, len(names), DELETE_KEYS_MAX):
        _delete_objects(folder, names[start : start + DELETE_KEYS_MAX])
        progressed()


def volume_bytes(folder: Folder) -> tuple[int, int] | None:  # noqa: ARG001  # S3 reports no bound
    return None


def age_s(folder: Folder, name: str) -> float | None:  # noqa: ARG001  # a file that is not whole has no name
    return None


def _delete_objects(folder: Folder, names: Sequence[str]) -> None:
    """One DeleteObjects. s3fs's own bulk delete passes over the keys that S3 refused to delete."""
    split = [fs(folder).split_path(folder.path(name)) for name in names]
    answer = fs(folder).call_s3(
        "delete_objects", Bucket=split[0][0], Delete={"Objects": [{"Key": key} for _, key, _ in split], "Quiet": True}
    )
    if kept_there := answer.get("Errors"):
        what = f"S3 did not delete {len(kept_there)} objects: {kept_there[0].get('Code')}, {kept_there[0].get('Key')}"
        raise Unreachable(what) if all(_passes(one.get("Code"), None) for one in kept_there) else Refused(what)
