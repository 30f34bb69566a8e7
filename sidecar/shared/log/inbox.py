"""What has come and has no place in the log's order yet, durable: a sender may forget it (feed.proto, messages).

    inbox/{first}       entries from number `first` on, one after another; the number of the next file is where this one ends
    inbox/inbox.txt     which inbox it is, drawn when the first entry came

- All entries have one order, by their numbers. A file is created exclusively under the number that comes next: of two owners one gets it,
  and the other writes, and promises, nothing more. An owner begins with an entry of its own, so that the previous one is out at once.
- A file that was removed could be created again by an owner that slept. So what is written counts only if the file before it is still
  there: removal goes upwards and leaves the last one.
- It must not know what an entry is.
"""

from __future__ import annotations

import re
import secrets
import struct
import zlib
from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress
from threading import Lock
from typing import NamedTuple

import msgspec

from sidecar.shared.errors import LogBroken, LogTaken
from sidecar.shared.log import storage
from sidecar.shared.log.storage import Folder

FOLDER = "inbox"
_ID = f"{FOLDER}/inbox.txt"
_FILE = re.compile(r"([0-9]{20})")
_HEADER = struct.Struct(">8s8sQQI")
"""Magic, who wrote it, the first number, how many, the entries' checksum."""

_MAGIC = b"TDINBOX1"
WAY_OUT = (
    "what is lost cannot be read again: move the changefeed's checkpoint back to where the log is, or begin with a new log and dump again"
)

OPEN_TRIES_MAX = 20
"""A previous owner writes some files a second, and another look is one listing and one file."""

_OWNER = b""
"""The entry that an owner begins with. No other is empty."""


class Entries(NamedTuple):
    """Of one file: the entry at `first`, `first` + 1, …; an empty one is nobody's."""

    first: int
    entries: Sequence[bytes]

    @property
    def end(self) -> int:
        return self.first + len(self.entries)


class Inbox:
    """For one owner. `open` comes first. One thread calls `append`, another may call `read`, and one more `trim`."""

    def __init__(self, folder: Folder) -> None:
        self.id = ""
        self.next = 0
        """The number that the next entry gets. All below it are durable."""
        self._folder = folder
        self._lock = Lock()  # for changes of `_files`, which grows in place; who reads it takes it as it is
        self._writer = secrets.token_bytes(8)  # a file of equal bytes is one that this owner has created
        self._files: list[int] = []

    @property
    def first(self) -> int:
        """The oldest entry that is still there; `next` if none is."""
        return self._files[0] if self._files else self.next

    def look(self) -> None:
        """Find what is there, and change nothing. Raises LogBroken."""
        names = storage.list_names(self._folder, deep=True, beginning=FOLDER + "/")
        matches = (_FILE.fullmatch(name.removeprefix(FOLDER + "/")) for name in names)
        self._files = sorted(int(match[1]) for match in matches if match)
        self.next = self.read(self._files[-1]).end if self._files else 0

    def open(self) -> None:
        """Take over what is there; a previous owner that still writes is out then. Raises LogTaken if others are quicker each time,
        LogBroken."""
        for _ in range(OPEN_TRIES_MAX - 1):
            with suppress(LogTaken):
                return self._begin()
        return self._begin()

    def _begin(self) -> None:
        self.look()
        if not self._files:
            storage.create_exclusively(self._folder, _ID, secrets.token_hex(16).encode())
        self.id = storage.read_file(self._folder, _ID).decode(errors="replace")
        self.append([_OWNER])

    def append(self, entries: Sequence[bytes]) -> int:
        """They are durable when it returns; the number of the first one. Raises LogTaken: another owner continues, nothing was written."""
        first = self.next
        created = storage.create_exclusively(self._folder, _name(first), _file(self._writer, first, entries))
        if not created:
            raise self._taken(first)
        if self._files and not storage.exists(self._folder, _name(self._files[-1])):
            storage.remove(self._folder, [_name(first)])  # it would stand for one that was removed
            raise self._taken(first)
        with self._lock:
            self._files.append(first)
        self.next = first + len(entries)
        return first

    def read(self, number: int) -> Entries:
        """The file that has this entry. Raises LogBroken for one that is gone or damaged."""
        files = self._files
        at = bisect_right(files, number) - 1
        if at < 0:
            raise LogBroken(f"{self}: entry {number} is gone: the oldest is {files[0]}", hint=WAY_OUT)
        name = _name(files[at])
        data = storage.read_file(self._folder, name)
        entries = _entries(f"{self._folder}/{name}", data)
        follows = files[at + 1 : at + 2]
        if entries.first != files[at] or (follows and follows[0] != entries.end):
            raise LogBroken(
                f"{self._folder}/{name} has entries {entries.first} to {entries.end - 1}, and "
                + (f"the next file begins at {follows[0]}" if follows else "another name"),
                hint=WAY_OUT,
            )
        return entries

    def trim(self, number: int) -> None:
        """Nobody reads below this entry any more. The last file stays: it says what comes next."""
        files = self._files
        gone = files[: max(bisect_right(files, number) - 1, 0)]
        for first in gone:  # one after another: the file before one that is gone is gone
            storage.remove(self._folder, [_name(first)])
        with self._lock:
            self._files = self._files[len(gone) :]

    def __str__(self) -> str:
        return f"{self._folder}/{FOLDER}"

    def _taken(self, first: int) -> LogTaken:
        return LogTaken(
            f"{self}: entry {first} was written by another owner",
            hint="nothing: this process is fenced off and stops, the other one continues; if both are to run, give each its own log",
        )


def _name(first: int) -> str:
    return f"{FOLDER}/{first:020d}"


def _file(writer: bytes, first: int, entries: Sequence[bytes]) -> bytes:
    body = msgspec.msgpack.encode(entries)
    return _HEADER.pack(_MAGIC, writer, first, len(entries), zlib.crc32(body)) + body


def _entries(place: str, data: bytes) -> Entries:
    if len(data) >= _HEADER.size:
        magic, _, first, count, checksum = _HEADER.unpack_from(data)
        body = memoryview(data)[_HEADER.size :]
        if magic == _MAGIC and zlib.crc32(body) == checksum:
            entries = msgspec.msgpack.decode(body, type=list[bytes])
            if len(entries) == count:
                return Entries(first, entries)
    raise LogBroken(f"{place} is damaged, or no file of an inbox: {len(data)} bytes", hint=WAY_OUT)
