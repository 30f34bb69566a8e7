"""What there is: the files of the log, the lease, the feed, the sinks, and what each process has in memory. Values alone, which are
compared and hashed: an exploration (explore.py) meets each of them once.

Changes are numbers from 1. A segment has those of `(after, upto]`, so its rows are two numbers. An epoch is granted once, also after a
restore (`EtcdOwner.epoch_min`), so a segment's number and epoch stand for the id that is drawn for a manifest.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

NONE = -1
"""No segment, no process, no window: values are compared, so all are numbers."""

Name: TypeAlias = "tuple[str, int, int]"
"""Of a file of the log: ("manifest", seq, 0), ("data", seq, epoch), ("schemas", epoch, layout), ("retained", floor, 0), and
("record", sink, 0)."""


class Manifest(NamedTuple):
    """`first`: of the windows that close in it, the first segment that one needs; `seq` where none reaches back. `open_from`: of a window
    that is open after it, NONE without one. `data`: () where it has no rows."""

    seq: int
    epoch: int
    after: int
    upto: int
    first: int
    open_from: int
    data: Name | tuple[()]
    schemas: Name

    @property
    def name(self) -> Name:
        return ("manifest", self.seq, 0)

    @property
    def files(self) -> set[Name]:
        return {self.schemas} | ({self.data} if self.data else set())


Files: TypeAlias = "tuple[tuple[Name, tuple[object, ...]], ...]"
"""The folder of the log, by name. The content of data is `(after, upto)`, of a sink's record a Record, of a manifest a Manifest."""


def names_of(files: Files, kind: str) -> list[Name]:
    return [name for name, _ in files if name[0] == kind]


def read(files: Files, name: Name | tuple[()]) -> tuple[object, ...] | None:
    return next((content for one, content in files if one == name), None)


def manifest_at(files: Files, seq: int) -> Manifest | None:
    content = read(files, ("manifest", seq, 0))
    return content if isinstance(content, Manifest) else None


def with_file(files: Files, name: Name, content: tuple[object, ...] = ()) -> Files:
    rest = [one for one in files if one[0] != name]
    return tuple(sorted([*rest, (name, content)], key=lambda one: one[0]))


def without(files: Files, names: Iterable[Name]) -> Files:
    gone = set(names)
    return tuple(one for one in files if one[0] not in gone)


def floor_of(files: Files) -> int:
    return max((name[1] for name in names_of(files, "retained")), default=0)


class Segment(NamedTuple):
    """`Accepted`: the last segment that an output has, or has begun."""

    seq: int
    epoch: int
    upto: int

    @classmethod
    def of(cls, manifest: Manifest) -> Segment:
        return cls(manifest.seq, manifest.epoch, manifest.upto)


class Record(NamedTuple):
    """A sink's file in the log: `known` is the change up to which its tables are known, which is that of `seq` or the file is wrong."""

    seq: int
    known: int
    owner: tuple[int, int]


class Position(NamedTuple):
    """`OutputState`: what a sink's store swaps."""

    owner: tuple[int, int] = (0, 0)
    accepted: Segment | tuple[()] = ()
    begun: Segment | tuple[()] = ()


class Target(NamedTuple):
    """An output. `has`: readers see the changes 1 to `has`. `slots`: tasks of the begun batch that are done. `aside`: rows that are
    written and not shown, by their names."""

    position: Position = Position()
    has: int = 0
    slots: int = 0
    aside: tuple[tuple[tuple[int, int], tuple[int, int]], ...] = ()


class Owner(NamedTuple):
    """A sidecar's process: `at` is the call that it makes next. The rest is the memory of `FolderLog`, and the pipeline's position `upto`.

    `floor`, `seen`: what this look shows; `before`: the one before, where that was broken. `orphans`, `unnamed`: as of FolderLog.
    `learned`: manifests that retention has read, and `unread` the segments that it has not. `delivered`, `gone`: of the retention that is
    under way, of which manifests `left` are still to go; `then` is where it continues behind a look."""

    at: str = "standby"
    epoch: int = 0
    start: int = 0
    stop: int = 0
    upto: int = 0
    committed: bool = False
    open_from: int = NONE
    previous_open: int = NONE
    schemas: Name | tuple[()] = ()
    floor: int = 0
    seen: tuple[int, ...] = ()
    before: tuple[int, ...] = ()
    orphans: tuple[Name, ...] = ()
    unnamed: tuple[Name, ...] = ()
    unread: tuple[int, ...] = ()
    learned: tuple[Manifest, ...] = ()
    draft: Manifest | tuple[()] = ()
    delivered: int = NONE
    gone: tuple[Manifest, ...] = ()
    gone_from: int = 0
    gone_stop: int = 0
    left: tuple[Manifest, ...] = ()
    then: str = ""


class Loop(NamedTuple):
    """A worker's thread for a sink: `SinkLoop`, `Delivery`, `SinkRecord`. `stored`: what its swap compares. `tables`: for its record."""

    at: str = "off"
    owner: tuple[int, int] = (0, 0)
    accepted: Segment | tuple[()] = ()
    begun: Segment | tuple[()] = ()
    before: Segment | tuple[()] = ()
    stored: Position | tuple[()] = ()
    batch: tuple[Manifest, ...] = ()
    limit: int = 0
    task: int = 0
    tables: Record | tuple[()] = ()


class Worker(NamedTuple):
    epoch: int = 0
    loops: tuple[Loop, ...] = ()


class Left(NamedTuple):
    """How often each fault can still happen, and how many windows a dump can still open."""

    freezes: int = 0
    deaths: int = 0
    lapses: int = 0
    log_restores: int = 0
    sink_restores: int = 0
    windows: int = 0


class World(NamedTuple):
    """`lease`: the epoch of the owner that etcd names, 0 for none; `epoch`: the last one granted. `history`: for each segment the epoch
    whose manifest was created first, and its upto; a restored log no longer has what is behind its copy. `acknowledged`: to the feed.
    `report`: the last segment that all sinks have accepted, as a worker has written. `running`: the process that is amid an operation and
    not frozen; other ones amid an operation are frozen. `copy`, `sink_copy`: a backup."""

    lease: int
    epoch: int
    files: Files
    history: tuple[tuple[int, int], ...]
    acknowledged: int
    report: int
    targets: tuple[Target, ...]
    owners: tuple[Owner, ...]
    workers: tuple[Worker, ...]
    left: Left
    running: int = NONE
    copy: tuple[Files, tuple[tuple[int, int], ...], int] | tuple[()] = ()
    sink_copy: tuple[Target, ...] = ()
    restored: bool = False


@dataclass(frozen=True, slots=True)
class Bounds:
    """What an exploration has: `changes` of the source, processes, a sink of each of `kinds`, and faults. `frozen`: which processes freeze
    and die, "owner" or "loop". `forgets`: the feed has no change any more that was acknowledged (a sender's memory, not Kafka).
    `under_workers`: a log is restored while its worker lives."""

    changes: int
    owners: int
    workers: int
    kinds: tuple[str, ...]
    faults: Left
    frozen: tuple[str, ...]
    forgets: bool = True
    under_workers: bool = False


class Violation(Exception):
    """`invariant`: one of explore.INVARIANTS."""

    def __init__(self, invariant: str, text: str) -> None:
        super().__init__(f"{invariant}: {text}")
        self.invariant = invariant


def first_world(bounds: Bounds) -> World:
    return World(
        lease=0,
        epoch=0,
        files=(),
        history=(),
        acknowledged=0,
        report=NONE,
        targets=(Target(),) * len(bounds.kinds),
        owners=(Owner(),) * bounds.owners,
        workers=(Worker(0, (Loop(),) * len(bounds.kinds)),) * bounds.workers,
        left=bounds.faults,
    )
