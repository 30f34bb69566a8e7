"""Owners of one log, each of which can freeze at any call of the storage, and wake when others have committed and retained.

    live(seed)    one life: owners after one another over one folder, some of them frozen for a while, and what came of it

Each owner runs the product's FolderLog in a thread of its own. Its calls of the storage pass a gate, where it can be made to wait: then
what it looked up before is old when it acts. One thread runs at a time, and the seed says which, so a life can be lived again.

What must hold: no owner ever reports that the log is broken. The newest one is fenced off only by a segment that an earlier one had begun
to commit, and its next term continues behind that. At the end the log has each segment above its floor, with all files that its manifests
name.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field
from random import Random
from typing import Any
from zlib import crc32

from sidecar.shared.errors import LogTaken, OwnershipLost
from sidecar.shared.log import storage
from sidecar.shared.log.dumps_file import TABLES_MIN
from sidecar.shared.log.layout import chunk_name, data_name, files_of, logged_schemas, manifest_name, shared_files_of
from sidecar.shared.log.manifest import Manifest, from_json
from sidecar.shared.log.segment_log import FolderLog, listed
from sidecar.shared.log.storage import Folder, dispatch, open_folder
from sidecar.shared.model.chunk import ChunkFile, ClosedWindow
from sidecar.shared.model.messages import Brackets
from sidecar.shared.model.nouns import Column, CommitTs, Seq, TableName, TableSchema
from sidecar.shared.model.progress import DumpState, Progress, TableProgress

TABLE = TableName("shop", "orders")
LAYOUTS = 3
"""Layouts that the table changes between: so each comes back."""
OWNERS_MAX = 5
STEPS_MAX = 8
"""Of an owner, before the next one begins: commits and retentions."""
LOOKER_SHARE = 0.1
"""Of the steps beside which a process starts that does not own the log, and reads it."""
FREEZE_SHARE = 0.7
"""Of the owners that freeze amid a step when the next one begins. The others are dead then."""


@dataclass(slots=True)
class Life:
    """What came of a life. `woken`: owners that continued after another one had begun. `fenced`: those of them that noticed it.
    `overtaken`: terms of the newest owner that ended by a segment of one that woke."""

    commits: int = 0
    removed: int = 0
    woken: int = 0
    fenced: int = 0
    overtaken: int = 0
    came_back: int = 0
    """Layouts that a later owner wrote again."""

    def __add__(self, other: Life) -> Life:
        return Life(*(mine + its for mine, its in zip(astuple(self), astuple(other), strict=True)))


@dataclass(slots=True)
class Owner:
    """A thread with a log. `turn`, `over`: the two sides of its gate."""

    epoch: int
    folder: Folder
    numbers: Random
    held: bool = True
    calls_left: int | None = None
    """Of the storage, until it freezes; None: it does not."""
    frozen: bool = False
    error: BaseException | None = None
    turn: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    over: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    log: FolderLog = field(init=False)
    last: Manifest | None = None
    removed: int = 0
    commits: int = 0
    layouts: set[int] = field(default_factory=set)
    thread: threading.Thread | None = None

    def __post_init__(self) -> None:
        self.log = FolderLog(self.folder, check_held=self._check_held)

    def _check_held(self) -> None:
        if not self.held:
            raise OwnershipLost("another one owns it", hint="none")

    def begin(self, step: Callable[[], object]) -> None:
        """Runs the step until its end, or until it freezes."""

        def run() -> None:
            _here.owner = self
            self.turn.acquire()
            try:
                step()
            except BaseException as error:  # noqa: BLE001  # the life judges it
                self.error = error
            self.frozen = False
            self.over.release()

        self.thread = threading.Thread(target=run, daemon=True)
        self.thread.start()
        self.go_on()

    def go_on(self) -> None:
        self.turn.release()
        self.over.acquire()
        if not self.frozen and self.thread is not None:
            self.thread.join()

    def pass_gate(self) -> None:
        """Called for each call of the storage, in the owner's thread."""
        if self.calls_left is None:
            return
        self.calls_left -= 1
        if self.calls_left < 0:
            self.calls_left, self.frozen = None, True
            self.over.release()
            self.turn.acquire()
            self.frozen = False

    def first_page(self, names: list[str]) -> Callable[[str], bool]:
        """Which names a listing has before it is held up."""
        if self.numbers.random() < 0.5:
            salt = str(self.numbers.random())
            return lambda name: crc32((salt + name).encode()) % 2 == 0
        middle = sorted(names)[len(names) // 2] if names else ""
        return lambda name: name < middle

    def recover(self) -> None:
        self.last = self.log.recover(epoch=self.epoch)

    def commit(self) -> None:
        """One segment: data and a window with a chunk in some, in a layout that may have been there before, with many tables of a dump."""
        seq = Seq(0 if self.last is None else self.last.seq + 1)
        layout = self.numbers.randrange(LAYOUTS)
        schemas = self.log.write_schemas(
            {TABLE: TableSchema(TABLE, (Column("id", "int", False), *(Column(f"c{n}", "text") for n in range(layout))), ("id",))}
        )
        dumps = self.log.write_dumps([_dump(layout)])
        data: str | None = None
        windows: tuple[ClosedWindow, ...] = ()
        if self.numbers.random() < 0.5:
            data = data_name(seq, epoch=self.epoch)
            storage.write_atomically(self.folder, data, b"rows")
        if self.numbers.random() < 0.3:
            path = chunk_name("d1", epoch=self.epoch, number=seq)
            storage.write_atomically(self.folder, path, b"chunk")
            chunk = ChunkFile(TABLE, path, 1, 1, None, ("9",), CommitTs(1))
            first = Seq(max(self.log.segments.start if self.log.segments else 0, seq - self.numbers.randrange(3)))
            windows = (ClosedWindow("d1", CommitTs(seq * 10), CommitTs(seq * 10 + 5), first, (chunk,)),)
        manifest = Manifest(
            seq, self.epoch, CommitTs(seq * 10), CommitTs(seq * 10 + 10), data, 1, 1, {}, schemas, "canal-json", windows=windows,
            id=f"{self.numbers.getrandbits(64):016x}", open_from=None, progress=dumps.dumps[0], dumps_file=dumps.file,
        )  # fmt: skip
        self.log.commit(manifest)
        self.last = manifest
        self.commits += 1
        self.layouts.add(layout)

    def retain(self) -> None:
        if self.last is not None:
            delivered = Seq(max(0, self.last.seq - self.numbers.randrange(3)))
            self.removed += self.log.retain(delivered=delivered, open_from=None)


def _dump(layout: int) -> Progress:
    """As many tables as a manifest leaves to a file. The layout decides which: so files of dumps come back, too."""
    tables = tuple(TableProgress(TableName("shop", f"t{layout}-{number}")) for number in range(TABLES_MIN + 1))
    return Progress("d1", DumpState.FINISHED, Brackets.WATERMARK, 1_000, 1, 1, Seq(0), tables)


_here = threading.local()


class _Gate:
    """The storage in memory, where each call of an owner's thread passes its gate first. A listing has two pages, and another gate between
    them: in the order of names, as on S3, or in any order, as in a folder."""

    READS_AT_ONCE_MAX = 1

    def __init__(self, back: Any) -> None:
        self._back = back

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._back, name)

        def gated(*arguments: Any, **named: Any) -> Any:
            owner: Owner | None = getattr(_here, "owner", None)
            if owner is None:
                return call(*arguments, **named)
            owner.pass_gate()
            if name != "list_names":
                return call(*arguments, **named)
            first = call(*arguments, **named)
            owner.pass_gate()
            of_first = owner.first_page(first)
            return [one for one in first if of_first(one)] + [one for one in call(*arguments, **named) if not of_first(one)]

        return gated


@contextmanager
def gated_storage() -> Iterator[None]:
    back = dispatch._BACKENDS["memory"]
    dispatch._BACKENDS["memory"] = _Gate(back)
    try:
        yield
    finally:
        dispatch._BACKENDS["memory"] = back


def live(seed: int) -> Life:
    """Raises what an owner must not meet, and AssertionError for a log that lacks something."""
    numbers, life = Random(seed), Life()
    folder = open_folder(f"memory://owners-{seed}-{numbers.getrandbits(32)}")
    frozen: list[Owner] = []
    written: set[int] = set()
    with gated_storage():
        for epoch in range(1, numbers.randint(2, OWNERS_MAX) + 1):
            owner = Owner(epoch, folder, Random(numbers.getrandbits(64)))
            last_one = epoch == OWNERS_MAX
            _step(owner, owner.recover, life)
            for _ in range(numbers.randint(1, STEPS_MAX)):
                _step(owner, owner.commit if numbers.random() < 0.6 else owner.retain, life)
                if frozen and numbers.random() < 0.4:
                    _wake(frozen.pop(numbers.randrange(len(frozen))), life)
                if numbers.random() < LOOKER_SHARE:
                    looker = Owner(0, folder, numbers, calls_left=numbers.randrange(9))
                    looker.begin(looker.recover)
                    if looker.frozen:
                        frozen.append(looker)
                    _judge(looker, newest=True)
            life.came_back += len(owner.layouts & written)
            written |= owner.layouts
            if not last_one and numbers.random() < FREEZE_SHARE:
                owner.calls_left = numbers.randrange(12)
                _step(owner, owner.commit if numbers.random() < 0.3 else owner.retain, life)
                if owner.frozen:
                    frozen.append(owner)
            life.commits, life.removed = life.commits + owner.commits, life.removed + owner.removed
            owner.held = False
        for owner in frozen:
            _wake(owner, life)
        _check_whole(folder, life, epoch=OWNERS_MAX + 1)
    storage.remove(folder, storage.list_names(folder, deep=True))
    return life


def _step(owner: Owner, step: Callable[[], object], life: Life) -> None:
    """Of the newest owner: where a segment of an earlier one was faster, its next term begins behind that."""
    owner.begin(step)
    if isinstance(owner.error, LogTaken) and life.woken > life.overtaken:
        life.overtaken, owner.error = life.overtaken + 1, None
        owner.begin(owner.recover)
    _judge(owner, newest=True)


def _wake(owner: Owner, life: Life) -> None:
    owner.go_on()
    life.woken += 1
    life.fenced += owner.error is not None
    _judge(owner, newest=False)


def _judge(owner: Owner, *, newest: bool) -> None:
    """An owner that is not the newest may be fenced off. Whatever else it meets is wrong."""
    error, owner.error = owner.error, None
    if error is not None and (newest or not isinstance(error, LogTaken | OwnershipLost)):
        raise AssertionError(f"the owner of epoch {owner.epoch}{'' if newest else ', that woke late,'} met {error!r}") from error


def _check_whole(folder: Folder, life: Life, *, epoch: int) -> None:
    """Each segment above the floor, with what its manifest names; and an owner that continues it."""
    contents, run = listed(folder, deep=True)
    for seq in run:
        name = manifest_name(Seq(seq))
        manifest = from_json(storage.read_file(folder, name), name=name)
        missing = (files_of(manifest) | shared_files_of(manifest)) - contents.names
        assert not missing, f"segment {seq} names {missing}, which is gone"
        logged_schemas(folder, manifest.schemas, storage.read_file(folder, manifest.schemas))
    owner = Owner(epoch, folder, Random(epoch))
    for step in (owner.recover, owner.commit, owner.retain, owner.retain):
        _step(owner, step, life)


if __name__ == "__main__":
    print(live(int(sys.argv[1])))  # noqa: T201  # a command
