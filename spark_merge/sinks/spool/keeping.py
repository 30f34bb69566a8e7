"""From which segment on a spool is kept, and for whom.

    kept.json                    `began`: the output's first segment;  `first`: what is below it is gone, whatever is left of it;
                                 `removed`: below it nothing is left
    _subscribers/{name}.json     what a named subscriber has acknowledged, and when it last called

Kept is what a named subscriber has not acknowledged, and without any subscriber everything, in either case within the bounds: beyond them
nobody holds anything. A subscriber that has not called for as long as the bound of age is forgotten. The newest segment always stays.

The merge worker removes, for it alone may write (it has the fence); the sidecar that serves subscribers writes down what they have.
Order, with a crash between any two: `first` in kept.json → files, then `_segments` → `removed` in kept.json.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from urllib.parse import quote

from sidecar.shared.errors import InvalidField, SinkError
from sidecar.shared.log import storage
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import Seq
from spark_merge.sinks.folder.layout import SEGMENT, DeliveredSegment, segment_path
from spark_merge.sinks.folder.output import SWEPT_SEGMENTS
from spark_merge.sinks.kit.options import option, real
from spark_merge.sinks.kit.records import JsonRecord

KEPT = "kept.json"
SUBSCRIBERS = "_subscribers"
SUBSCRIBERS_MAX = 100
"""Names that are remembered at once: a client that makes up another name each time gets an error."""
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
        "Bytes of rows that are kept at most.")  # fmt: skip
    age_max_s: float = option("retain-hours", _HOURS, 24 * 3600.0,
        "Hours that a segment is kept, and an unused subscriber's name.")  # fmt: skip


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
    """`last`: the newest segment. `beyond` returns whether a segment is beyond the bounds: if one is, so is each before it."""
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


def subscriber_path(name: str) -> str:
    """Raises InvalidField for what is no name."""
    file = quote(name, safe="")
    if not name or len(name) > NAME_CHARS_MAX or len(file) > FILE_CHARS_MAX or not name.isprintable():
        raise InvalidField(
            f"subscriber: the name has {len(name)} characters, or some that cannot be printed",
            hint=f"give 1 to {NAME_CHARS_MAX} characters that can be printed; fewer of those that are no ASCII",
        )
    return f"{SUBSCRIBERS}/{file}.json"


def read_kept(folder: Folder) -> KeptSegments | None:
    """None: nothing was ever accepted."""
    return KEPT_RECORD.read(folder, KEPT)


def write_kept(folder: Folder, kept: KeptSegments) -> None:
    KEPT_RECORD.write(folder, KEPT, kept)


def read_subscriber(folder: Folder, name: str) -> Subscriber | None:
    return SUBSCRIBER.read(folder, subscriber_path(name))


def read_subscribers(folder: Folder) -> list[Subscriber]:
    names = storage.list_names(folder, under=SUBSCRIBERS, deep=False)
    paths = [f"{SUBSCRIBERS}/{name}" for name in names if not storage.is_temporary(name)]
    return list(SUBSCRIBER.read_all(folder, paths).values())


def write_subscriber(folder: Folder, subscriber: Subscriber) -> None:
    SUBSCRIBER.write(folder, subscriber_path(subscriber.name), subscriber)


def read_segment(folder: Folder, seq: int) -> DeliveredSegment | None:
    return SEGMENT.read(folder, segment_path(seq))


_HINT = "restore it, or set the grpc: sink to a new folder"

KEPT_RECORD: JsonRecord[KeptSegments] = JsonRecord(
    lambda kept: {"version": _VERSION} | asdict(kept),
    lambda value: KeptSegments(*(Seq(int(value[name])) for name in ("began", "first", "removed"))),
    (_VERSION,),
    _HINT,
)
SUBSCRIBER: JsonRecord[Subscriber] = JsonRecord(
    lambda subscriber: {"version": _VERSION} | asdict(subscriber),
    lambda value: Subscriber(str(value["name"]), int(value["acknowledged"]), int(value["heard_ms"])),
    (_VERSION,),
    _HINT,
)


# ---- the merge worker's part --------------------------------------------------------------------------------------------


class Keeping:
    """Of one worker, which has opened the output. `bytes_so_far`: of all frames that were ever accepted."""

    def __init__(self, folder: Folder, bounds: Bounds) -> None:
        self.bytes_so_far = 0
        self._folder, self._bounds = folder, bounds
        self._kept: KeptSegments | None = None
        self._looked_ms = 0

    def open(self, accepted: Seq | None) -> None:
        """What an earlier worker's last commit repeated for readers though it was removed is removed again."""
        self._kept, last = read_kept(self._folder), None if accepted is None else read_segment(self._folder, accepted)
        self.bytes_so_far = 0 if last is None else last.bytes_so_far
        if self._kept is not None:
            again = range(max(self._kept.removed - SWEPT_SEGMENTS, self._kept.began), self._kept.removed)
            storage.remove(self._folder, [segment_path(seq) for seq in again])

    def begin(self, seq: Seq) -> None:
        """Before the first segment is accepted. What an earlier worker writes does not replace what is there."""
        if self._kept is None:
            KEPT_RECORD.create(self._folder, KEPT, KeptSegments(seq, seq, seq))
            self._kept = read_kept(self._folder)

    def is_due(self, now_ms: int) -> bool:
        return now_ms - self._looked_ms >= LOOK_EVERY_MS

    def look(self, last: DeliveredSegment, now_ms: int) -> None:
        """Remove what need not be kept, after `last` was accepted with all before it."""
        self._looked_ms = now_ms
        assert self._kept is not None, "begun before anything is accepted"
        if read_kept(self._folder) != self._kept:
            write_kept(self._folder, self._kept)  # over what an earlier worker wrote that was frozen in here
        age_max_ms = self._bounds.age_max_s * 1000

        def beyond(seq: Seq) -> bool:
            segment = read_segment(self._folder, seq)
            if segment is None:
                raise SinkError(f"{self._folder}/{segment_path(seq)} is gone", hint="restore it, or set the grpc: sink to a new folder")
            return last.bytes_so_far - segment.bytes_so_far >= self._bounds.bytes_max or now_ms - segment.accepted_ms > age_max_ms

        known = self._known(now_ms - age_max_ms)
        first = first_kept(self._kept, last.seq, [subscriber.acknowledged for subscriber in known], beyond)
        if first > self._kept.removed:
            self._remove_below(first, self._kept)

    def _known(self, since_ms: float) -> list[Subscriber]:
        """Those that have called since; the others are forgotten."""
        subscribers = read_subscribers(self._folder)
        gone = [subscriber_path(one.name) for one in subscribers if one.heard_ms < since_ms]
        storage.remove(self._folder, gone)
        return [one for one in subscribers if one.heard_ms >= since_ms]

    def _remove_below(self, first: Seq, kept: KeptSegments) -> None:
        self._kept = KeptSegments(kept.began, first, kept.removed)
        write_kept(self._folder, self._kept)
        for start in range(kept.removed, first, REMOVED_AT_ONCE):
            self._remove(range(start, min(start + REMOVED_AT_ONCE, first)))
        self._kept = KeptSegments(kept.began, first, first)
        write_kept(self._folder, self._kept)

    def _remove(self, seqs: Sequence[int]) -> None:
        paths = [segment_path(seq) for seq in seqs]
        segments = SEGMENT.read_all(self._folder, paths).values()
        files = [file.path for segment in segments for file in segment.files]
        storage.remove(self._folder, [*files, *(segment.ddl for segment in segments if segment.ddl), *paths])


def now_ms() -> int:
    return int(time.time() * 1000)
