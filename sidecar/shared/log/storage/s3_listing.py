"""What has changed in a bucket, by as few requests at a time as it takes. It knows S3's XML, not how a request is sent.

S3 says nothing of a part of a bucket but by listing it, and TiCDC overwrites files. So each listing reads all of it, and no range of keys
is omitted. A listing that is known gives the ranges: each of RANGE_KEYS keys, listed from `StartAfter` its first one to its last one, many
ranges side by side. The ranges cover all keys, before, between and after the known ones. S3 lists what was there when a request began, so
what was there when the listing began is in it. A storage that does not list in the order of keys (S3 Express) is Refused.

A page is read here and not by botocore, which takes 20 times the CPU: 60 ms for 1,000 keys.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple, TypeAlias
from urllib.parse import unquote_plus
from xml.etree import ElementTree

from sidecar.shared.log.storage.errors import Refused, Unreachable
from sidecar.shared.log.storage.files import Changes, FileEntry, Known, differing
from sidecar.shared.process.progress import side_by_side

RANGE_KEYS = 900
"""Of the 1,000 that a page holds: a range with few new keys still takes one request."""

RANGES_AT_ONCE_MAX = 16
"""Requests wait for the network; more than this only queues in the connection pool."""

Ask: TypeAlias = "Callable[[str, str], bytes]"
"""The body of a page: of the keys after the first argument, or by the token that the second one is, where there is one."""


class Page(NamedTuple):
    """Names relative to the prefix. `keys` has the folders' too, which end in `/`. `token`: of the next page."""

    files: list[FileEntry]
    keys: list[str]
    token: str


@dataclass(frozen=True, slots=True)
class _Keys(Known):
    """`bounds`: the last key of each range but the last one."""

    files: dict[str, FileEntry] = field(default_factory=dict)
    bounds: tuple[str, ...] = ()


def list_changes(ask: Ask, prefix: str, known: Known | None) -> Changes:
    before = known if isinstance(known, _Keys) else _Keys()
    ranges = list(pairwise(["", *before.bounds, ""]))
    if len(ranges) == 1:
        lists = [_range(ask, prefix, "", "")]
    else:
        with side_by_side(min(len(ranges), RANGES_AT_ONCE_MAX)) as readers:
            lists = list(readers.map(lambda ends: _range(ask, prefix, *ends), ranges))
    files = {entry.name: entry for entries in lists for entry in entries}
    now, gone = differing(before.files, files)
    return Changes(now, gone, _Keys(files, tuple(list(files)[RANGE_KEYS - 1 : -1 : RANGE_KEYS])))


def _range(ask: Ask, prefix: str, after: str, last: str) -> list[FileEntry]:
    """The files behind `after`, up to `last`; each of them empty for no bound."""
    files: list[FileEntry] = []
    at, token = after, ""
    while True:
        page = read_page(ask(prefix + after if after else "", token), prefix)
        _check_order([at, *page.keys] if at else page.keys)
        if page.token and page.token == token:
            raise Refused("the storage gives a page of a listing again and again")
        at, token = page.keys[-1] if page.keys else at, page.token
        if last and at >= last:
            return files + [entry for entry in page.files if entry.name <= last]
        files += page.files
        if not token:
            return files


def _check_order(keys: Sequence[str]) -> None:
    if any(first >= second for first, second in pairwise(keys)):
        raise Refused("the storage does not list its keys in their order, after the key that was given")


def _entry(key: str, size: str, tag: str, modified: str) -> FileEntry:
    try:
        return FileEntry(key, int(size), tag.strip('"'), int(datetime.fromisoformat(modified).timestamp() * 1000))
    except ValueError as error:
        raise Refused(f"the storage lists {key!r} without a size and a time: {error}") from error


def read_page(body: bytes, prefix: str) -> Page:
    """Raises Unreachable for a body that is cut."""
    try:
        root = ElementTree.fromstring(body)
    except ElementTree.ParseError as error:
        raise Unreachable(f"a listing is not whole: {error}") from error
    space = root.tag.removesuffix("ListBucketResult")  # MinIO, Ceph and GCS have names of their own for it
    key_of, size_of, tag_of, modified_of = (f"{space}{name}" for name in ("Key", "Size", "ETag", "LastModified"))
    encoded = root.findtext(f"{space}EncodingType") == "url"
    files: list[FileEntry] = []
    keys: list[str] = []
    for item in root.iterfind(f"{space}Contents"):
        fields = {child.tag: child.text or "" for child in item}
        text = fields.get(key_of, "")
        key = (unquote_plus(text) if encoded else text)[len(prefix) :]
        keys.append(key)
        if not key.endswith("/") and key:
            files.append(_entry(key, fields.get(size_of, ""), fields.get(tag_of, ""), fields.get(modified_of, "")))
    more = root.findtext(f"{space}IsTruncated") == "true"
    token = root.findtext(f"{space}NextContinuationToken") or ""
    if more and not token:
        raise Refused("the storage gives a page of a listing and no token for the next one")
    return Page(files, keys, token if more else "")
