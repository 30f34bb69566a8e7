"""From which segment on a spool is kept, and for whom.

    kept.json                    `began`: the output's first segment;  `first`: what is below it is gone, whatever is left of it;
                                 `removed`: below it nothing is left
    _subscribers/{name}.json     what a named subscriber has acknowledged, and when it was heard of last

Kept is what a named subscriber has not acknowledged, and without any subscriber everything, in either case within the bounds: beyond them
nobody holds anything. A subscriber that was not heard of for as long as the bound of age is forgotten. The newest segment always stays.

The merge worker removes, for it alone may write (it has the fence); the sidecar that serves subscribers writes down what they have.
Order, with a crash between any two: `first` in kept.json → files, then `_segments` → `removed` in kept.json.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from sidecar.core.model import Seq
from sidecar.errors import RefusedRequest, SinkError
from sidecar.log import storage
from sidecar.log.storage import Folder
from spark_merge.sinks.errors import storage_errors
from spark_merge.sinks.folder.layout import SEGMENTS, DeliveredSegment, segment_from_json, segment_path, seq_of
from spark_merge.sinks.folder.output import SWEPT_SEGMENTS
from spark_merge.sinks.options import option, real

KEPT = "kept.json"
SUBSCRIBERS = "_subscribers"
SUBSCRIBERS_MAX = 100
"""Names that are remembered at once: a client that makes up another name each time is told."""
NAME_CHARS_MAX = 100
FILE_CHARS_MAX = 200
"""Of a name as a file's, of which storages take 255 with what we write it under first."""
LOOK_EVERY_MS = 10_000
"""Between two looks at what need not be kept any more."""
REMOVED_AT_ONCE = 500
_VERSION = 1


_HOURS = real(0.01, 1 << 59).then(lambda hours: 3600 * hours, lambda age_s: f"{age_s / 3600:.15g}")


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of what is kept: bytes of frames, and age since a segment was accepted."""

    bytes_max: int = option("retain-bytes", real(1 << 20, 1 << 59).then(int, str), 10 << 30,
        "Bytes of rows that are kept at most, as they are on the wire.")  # fmt: skip
    age_max_s: float = option("retain-hours", _HOURS, 24 * 3600.0,
        "Hours that a segment is kept at most. A subscriber's name that is not used for so long is forgotten.")  # fmt: skip


@dataclass(frozen=True, slots=True)
class KeptSegments:
    began: Seq
    first: Seq
    removed: Seq


@dataclass(frozen=True, slots=True)
class Subscriber:
    """`acknowledged`: the last segment that it has, -1 before the first. `heard_ms`: the sidecar's wall clock."""

    name: str
    acknowledged: int
    heard_ms: int


def first_kept(kept: KeptSegments, last: Seq, acknowledged: Iterable[int], beyond: Callable[[Seq], bool]) -> Seq:
    """`last`: the newest segment. `beyond` tells whether a segment is beyond the bounds: if one is, so is each before it."""
    low, high = kept.first, last
    while low < high:
        middle = Seq((low + high) // 2)
        if beyond(middle):
            low = Seq(middle + 1)
        else:
            high = middle
    needed = min(acknowledged, default=-1) + 1
    return Seq(min(max(low, needed), last))


# ---- what is in the folder ----------------------------------------------------------------------------------------------


def read_kept(folder: Folder) -> KeptSegments | None:
    """None: nothing was ever accepted."""
    found = _read(folder, KEPT)
    return None if found is None else KeptSegments(Seq(int(found["began"])), Seq(int(found["first"])), Seq(int(found["removed"])))


def write_kept(folder: Folder, kept: KeptSegments) -> None:
    _write(folder, KEPT, _plain(kept))


def _plain(kept: KeptSegments) -> dict[str, Any]:
    return {"began": kept.began, "first": kept.first, "removed": kept.removed}


def subscriber_path(name: str) -> str:
    """Raises RefusedRequest for what is no name."""
    file = quote(name, safe="")
    if not name or len(name) > NAME_CHARS_MAX or len(file) > FILE_CHARS_MAX or not name.isprintable():
        raise RefusedRequest(
            f"a subscriber's name has {len(name)} characters",
            hint=f"give 1 to {NAME_CHARS_MAX} characters that can be printed; fewer of those that are no ASCII",
        )
    return f"{SUBSCRIBERS}/{file}.json"


def read_subscriber(folder: Folder, name: str) -> Subscriber | None:
    found = _read(folder, subscriber_path(name))
    return None if found is None else _subscriber(found)


def read_subscribers(folder: Folder) -> list[Subscriber]:
    with storage_errors(folder):
        below = Folder(folder.protocol, folder.path(SUBSCRIBERS), folder.options)
        names = [name for name in storage.list_names(below, deep=False) if not storage.is_temporary(name)]
        found = storage.read_files(folder, [f"{SUBSCRIBERS}/{name}" for name in names])
    return [_subscriber(_parsed(data, f"{folder}/{path}")) for path, data in found.items()]


def write_subscriber(folder: Folder, subscriber: Subscriber) -> None:
    plain = {"name": subscriber.name, "acknowledged": subscriber.acknowledged, "heard_ms": subscriber.heard_ms}
    _write(folder, subscriber_path(subscriber.name), plain)


def read_segment(folder: Folder, seq: int) -> DeliveredSegment | None:
    path = segment_path(seq)
    with storage_errors(folder):
        data = storage.read_files(folder, [path]).get(path)
    return None if data is None else segment_from_json(data, name=f"{folder}/{path}")


def _subscriber(found: Any) -> Subscriber:
    return Subscriber(str(found["name"]), int(found["acknowledged"]), int(found["heard_ms"]))


def _read(folder: Folder, path: str) -> Any | None:
    with storage_errors(folder):
        data = storage.read_files(folder, [path]).get(path)
    return None if data is None else _parsed(data, f"{folder}/{path}")


def _parsed(data: bytes, name: str) -> Any:
    try:
        found = json.loads(data)
        if found["version"] != _VERSION:
            raise ValueError(f"version {found['version']}")
    except (ValueError, KeyError, TypeError) as error:
        raise SinkError(f"{name} is not readable: {error!r}", hint="restore it, or set the grpc: sink to a new folder") from error
    return found


def _write(folder: Folder, path: str, plain: dict[str, Any]) -> None:
    with storage_errors(folder):
        storage.write_atomically(folder, path, _json(plain))


def _json(plain: dict[str, Any]) -> bytes:
    return json.dumps({"version": _VERSION} | plain).encode()


# ---- the merge worker's part --------------------------------------------------------------------------------------------


class Keeping:
    """Of one worker, which has opened the output. `bytes_so_far`: of all frames that were ever accepted."""

    def __init__(self, folder: Folder, bounds: Bounds) -> None:
        self.bytes_so_far = 0
        self._folder, self._bounds = folder, bounds
        self._kept: KeptSegments | None = None
        self._looked_ms = 0

    def open(self, accepted: Seq | None) -> None:
        """What a former worker's last commit repeated for readers though it was removed is removed again."""
        self._kept, last = read_kept(self._folder), None if accepted is None else read_segment(self._folder, accepted)
        self.bytes_so_far = 0 if last is None else last.bytes_so_far
        if self._kept is not None:
            again = range(max(self._kept.removed - SWEPT_SEGMENTS, self._kept.began), self._kept.removed)
            with storage_errors(self._folder):
                storage.remove(self._folder, [segment_path(seq) for seq in again])

    def begin(self, seq: Seq) -> None:
        """Before the first segment is accepted. A former worker's word does not replace what is there."""
        if self._kept is None:
            with storage_errors(self._folder):
                storage.create_exclusively(self._folder, KEPT, _json(_plain(KeptSegments(seq, seq, seq))))
            self._kept = read_kept(self._folder)

    def is_due(self, now_ms: int) -> bool:
        """Whether it is time to `look`."""
        return now_ms - self._looked_ms >= LOOK_EVERY_MS

    def look(self, last: DeliveredSegment, now_ms: int) -> None:
        """Remove what need not be kept, after `last` was accepted with all before it."""
        self._looked_ms = now_ms
        assert self._kept is not None, "begun before anything is accepted"
        if read_kept(self._folder) != self._kept:
            write_kept(self._folder, self._kept)  # over what a former worker wrote that was frozen in here
        age_max_ms = self._bounds.age_max_s * 1000

        def beyond(seq: Seq) -> bool:
            found = read_segment(self._folder, seq)
            if found is None:
                raise SinkError(f"{self._folder}/{segment_path(seq)} is gone", hint="restore it, or set the grpc: sink to a new folder")
            return last.bytes_so_far - found.bytes_so_far >= self._bounds.bytes_max or now_ms - found.accepted_ms > age_max_ms

        known = self._known(now_ms - age_max_ms)
        first = first_kept(self._kept, last.seq, [subscriber.acknowledged for subscriber in known], beyond)
        if first > self._kept.removed:
            self._remove_below(first, self._kept)

    def _known(self, since_ms: float) -> list[Subscriber]:
        """Those that were heard of since; the others are forgotten."""
        found = read_subscribers(self._folder)
        gone = [subscriber_path(one.name) for one in found if one.heard_ms < since_ms]
        with storage_errors(self._folder):
            storage.remove(self._folder, gone)
        return [one for one in found if one.heard_ms >= since_ms]

    def _remove_below(self, first: Seq, kept: KeptSegments) -> None:
        self._kept = KeptSegments(kept.began, first, kept.removed)
        write_kept(self._folder, self._kept)
        for start in range(kept.removed, first, REMOVED_AT_ONCE):
            self._remove(range(start, min(start + REMOVED_AT_ONCE, first)))
        self._kept = KeptSegments(kept.began, first, first)
        write_kept(self._folder, self._kept)

    def _remove(self, seqs: Sequence[int]) -> None:
        paths = [segment_path(seq) for seq in seqs]
        with storage_errors(self._folder):
            records = storage.read_files(self._folder, paths)
            segments = [segment_from_json(data, name=f"{self._folder}/{path}") for path, data in records.items()]
            files = [file.path for segment in segments for file in segment.files]
            storage.remove(self._folder, [*files, *(segment.ddl for segment in segments if segment.ddl), *paths])


def now_ms() -> int:
    return int(time.time() * 1000)


def newest(folder: Folder) -> Seq | None:
    """By the listing of what readers go by: for who wants to know and is in no hurry."""
    with storage_errors(folder):
        names = storage.list_names(Folder(folder.protocol, folder.path(SEGMENTS), folder.options), deep=False)
    return max((seq for seq in map(seq_of, names) if seq is not None), default=None)
