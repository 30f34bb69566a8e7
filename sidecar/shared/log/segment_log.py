"""The segment log on a folder of any storage: Parquet rows, then the manifest that makes the segment exist.

Each rule is against a previous owner that is still alive, or a crash between two steps:
- Only the manifest makes a segment, and only one owner can create it. The next seq is the last one + 1.
- A manifest that was removed could be created again by an owner that slept. So a commit counts only if the manifest
  before it is still there: retention goes upwards and leaves the last one, so it removed nothing after that.
- Recovery reads the last manifest only, however long the log is. It lists orphans; they are removed after the first commit: until then a
  previous owner might still name them. So might it windows that were open when it wrote last (`Manifest.open_from`): until then
  retention leaves their segments, too. Which chunks of earlier epochs are orphans is known when `retain` has read every manifest.
- A volume without room is recovered and retained as any other. That creation is exclusive is then proven before the first commit.
- A manifest has the sha256 of the one before it. A commit that is repeated has it again, so it makes the same bytes.
- Retention notes first up to where it removes. Then manifests go before what they name: who can read a manifest finds
  all its files, and a crash between leaves only what the next recovery or retention removes.
- **Gone is not broken.** A listing, or a run that this process remembers, can be older than another owner's retention, and a folder is no
  snapshot while it is listed. So the log is looked at again (`looked_at`): what is missing below the floor is nobody's. It is broken where
  two looks show the same manifests and the same floor, and both miss something above it.
- An owner removes only what its own epoch and earlier ones wrote (layout.py has the names).
- An owner that slept can only create the first manifest of a later epoch again. So those of one epoch go in any order, by one request where
  the storage has it, and before those of the next epoch: that manifest never lacks while the one before it is there.

What names and listings mean is `layout`; how bytes become durable is `storage`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain, groupby
from typing import TypeVar

from sidecar.shared.errors import LogBroken, StorageFull
from sidecar.shared.log import storage
from sidecar.shared.log.dumps_file import DumpsFile
from sidecar.shared.log.hashed import HashedFile, sha256_of
from sidecar.shared.log.layout import (
    Contents,
    beginning_of,
    check_next,
    data_name,
    dumps_name,
    epoch_of,
    files_of,
    first_needed,
    is_manifest,
    keep_from,
    logged_schemas,
    manifest_name,
    missing_files,
    read_manifest,
    retained_name,
    schemas_name,
    shared_files_of,
    taken,
    with_logged_tables,
)
from sidecar.shared.log.manifest import DataFile, LoggedDumps, Manifest, counted, to_json
from sidecar.shared.log.rows_file import write_rows
from sidecar.shared.log.schemas_file import schemas_to_json
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import Change, Seq, TableName, TableSchema
from sidecar.shared.model.progress import Progress

MANIFESTS_READ_MAX = 100
"""Read by one call of `retain`, so that it never stops the live changes for long (P3)."""

MANIFESTS_HELD_MAX = 100
"""As files, and one of them decoded: each has the progress of all dumps, which is megabytes where they have thousands of tables."""

SEGMENTS_REMOVED_MAX = 100
"""Removed by one call of `retain`, for the same reason."""

LOOKS_MAX = 20
"""At a log that another owner retains meanwhile. Each look but the last two met other segments than the one before."""

_EXCLUSIVE_PROBE = "exclusive.probe"


class FolderLog:
    """`SegmentLog` on a folder. For one owner and one thread; `recover` comes first. `check_held` raises where this process may not be
    the owner any more: called before each commit and removal, so that one that slept does not even try. `id`: as `claim_log` gave it."""

    def __init__(self, folder: Folder, *, check_held: Callable[[], object] = lambda: None) -> None:
        self.folder = folder
        self.id = ""
        self._check_held = check_held
        self._epoch = 0
        self._run: range = range(0)
        self._orphans: list[str] = []
        self._unnamed: set[str] = set()
        """Chunks, schemas and dumps of earlier epochs that no manifest names, of those that were read."""
        self._committed = False
        self._previous_open: Seq | None = None
        self._proven = False
        self._unread = range(0)
        """Segments that are there and not in `_reaches` and `_named_by` yet."""
        self._reaches: dict[int, Seq] = {}
        """Of each segment in which a window closed that began in an earlier one: the first one that has to be there to deliver it."""
        self._named_by: Counter[str] = Counter()
        """How many segments name each file that several may."""
        self._swept = 0
        """Nothing of segments below is left."""
        self._schemas: str | None = None
        self._dumps = DumpsFile()
        self._sums = ("", "")
        """Of the manifests before the last one and of the last one, as they are in `previous` of the one behind each."""

    def recover(self, *, epoch: int) -> Manifest | None:
        with suppress(StorageFull):
            self._prove_exclusive()
        contents, self._run, last = looked_at(self.folder, deep=True, judged=self._whole)
        self._epoch, self._schemas, self._dumps = epoch, None, DumpsFile()
        self._previous_open, self._committed = None if last is None else last.open_from, False
        self._unread, self._swept = self._run, self._run.start
        self._reaches, self._named_by = {}, Counter()
        named = set() if last is None else files_of(last)
        self._orphans = [
            *(name for name in contents.names if storage.is_temporary(name) and self._is_dead(name)),
            *contents.orphans(self._run, named=named, epoch=epoch),
        ]
        self._unnamed = contents.written_before(epoch)
        return last

    def _whole(self, contents: Contents, run: range) -> Manifest | None:
        """The last manifest, with all tables of its dumps. Raises LogBroken if one of its files is missing."""
        last = self._last(run)
        named = set() if last is None else files_of(last)
        if missing := {name for name in named - contents.names if not storage.exists(self.folder, name)}:
            raise missing_files(self.folder, missing)
        return None if last is None else with_logged_tables(self.folder, last, self._file)

    def _is_dead(self, temporary: str) -> bool:
        """Whether nobody writes this temporary file any more: an earlier owner's, or an old one. The merge worker's have no epoch in their
        names, and it lives on."""
        epoch = epoch_of(temporary)
        return storage.is_old_temporary(self.folder, temporary) if epoch is None else epoch < self._epoch

    def write_data(self, seq: Seq, *, epoch: int, codec: str, changes: Iterable[Change]) -> DataFile:
        check_next(self.folder, self._run, seq)
        rest = iter(changes)
        first = next(rest, None)
        if first is None:
            return DataFile(None, 0, 0)
        name, by_table = data_name(seq, epoch=epoch), Counter[tuple[str, str]]()
        with storage.new_file(self.folder, name) as opened:
            file = HashedFile(opened)
            rows = write_rows(file, chain([first], rest), codec, by_table)
            written_bytes = file.tell()
        return DataFile(name, rows, written_bytes, counted(by_table), file.sha256())

    def write_schemas(self, schemas: Mapping[TableName, TableSchema]) -> str:
        data = schemas_to_json(dict(schemas))
        name = schemas_name(data, epoch=self._epoch)
        if name != self._schemas:
            self._schemas = self._write_shared(name, data)
        return name

    def write_dumps(self, dumps: Sequence[Progress]) -> LoggedDumps:
        return self._dumps.logged(dumps, lambda data: self._write_shared(dumps_name(data, epoch=self._epoch), data))

    def _write_shared(self, name: str, data: bytes) -> str:
        if storage.exists(self.folder, name):
            storage.make_durable(self.folder, [name])
        else:
            storage.write_atomically(self.folder, name, data)
        return name

    def read_schemas(self, name: str) -> dict[TableName, TableSchema]:
        if (data := self._file(name)) is None:
            raise missing_files(self.folder, [name])
        return logged_schemas(self.folder, name, data)

    def _file(self, name: str) -> bytes | None:
        return storage.read_if_there(self.folder, name)

    def commit(self, manifest: Manifest) -> None:
        self._check_held()
        repeated = bool(self._run) and manifest.seq == self._run[-1]
        if not repeated:
            check_next(self.folder, self._run, manifest.seq)
        previous = self._sums[0 if repeated else 1]
        data = to_json(replace(manifest, previous=previous))
        self._prove_exclusive()
        created = storage.create_exclusively(self.folder, manifest_name(manifest.seq), data)
        if not created or not (repeated or self._follows(manifest.seq)):
            raise taken(self.folder, manifest.seq)
        self._run = range(self._run.start, manifest.seq + 1)
        self._sums = (previous, sha256_of(data))
        if not repeated:
            self._learn(manifest)
        self._previous_open, self._committed = None, True
        self._remove(self._orphans)
        self._orphans = []

    def retain(self, *, delivered: Seq, open_from: Seq | None) -> int:
        """Remove segments that nobody needs any more and return how many; call it again while it returns some.

        `delivered`: accepted by every sink; that segment itself stays, so that a position in the log always has its
        manifest. `open_from`: the first segment of the oldest window that has not closed. Also kept are the segments
        in which a window began that closed after `delivered`, and the last one.

        Raises LogTaken when another owner has written on.
        """
        self._check_held()
        if not self._run or not self._learn_all():
            return 0
        if self._unnamed and self._committed:
            storage.remove(self.folder, self._unnamed)
            self._unnamed = set()
        needed = [first_seq for seq, first_seq in self._reaches.items() if seq > delivered]
        needed += [seq for seq in (open_from, self._previous_open) if seq is not None]
        keep = keep_from(self._run, delivered=delivered, needed=needed)
        gone = range(self._run.start, min(keep, self._run.start + SEGMENTS_REMOVED_MAX))
        if gone:
            self._remove_segments(gone, sweep=gone.stop == keep)
        return len(gone)

    def _remove_segments(self, gone: range, *, sweep: bool) -> None:
        """The order carries weight: the note, then the manifests, an epoch after another, then what they named. `sweep`: and whatever else
        there is of these segments and of those that were removed since the last sweep: that takes a listing. What a process that was frozen
        writes there later, the next owner removes."""
        next_seq = Seq(self._run[-1] + 1)
        named = {one.seq: (one.epoch, files_of(one), shared_files_of(one)) for one in self._read(gone)}
        if storage.exists(self.folder, manifest_name(next_seq)):
            raise taken(self.folder, next_seq)
        storage.write_atomically(self.folder, retained_name(Seq(gone.stop)), b"")
        self._run = range(max(self._run.start, gone.stop), self._run.stop)
        for _, manifests in groupby(named.items(), key=lambda one: one[1][0]):
            storage.remove(self.folder, [manifest_name(seq) for seq, _ in manifests])
        names = self._forget({seq: shared for seq, (_, _, shared) in named.items()}).union(*(files for _, files, _ in named.values()))
        names.add(retained_name(Seq(gone.start)))
        if sweep:
            beginning = beginning_of(range(self._swept, gone.stop))
            listed_names = storage.list_names(self.folder, deep=False, beginning=beginning)
            names |= {*Contents.of(name for name in listed_names if name.startswith(beginning)).below(Seq(gone.stop))}
            self._swept = gone.stop
        self._remove([*names])

    @property
    def segments(self) -> range:
        """Those that are there."""
        return self._run

    def check_not_taken(self) -> None:
        """Raises LogTaken where the segment behind the last one is there: an earlier owner that woke was faster. Not before `recover`."""
        if self._epoch and storage.exists(self.folder, manifest_name(Seq(self._run.stop))):
            raise taken(self.folder, Seq(self._run.stop))

    @property
    def learned(self) -> bool:
        """Whether `retain` has read every manifest: only then does 0 mean that nothing is left to remove."""
        return not self._unread

    def _learn_all(self) -> bool:
        """Read manifests that this process has not seen yet; False while some are left for the next call."""
        for manifest in self._read(self._unread[:MANIFESTS_READ_MAX]):
            self._learn(manifest)
        rest = self._unread[MANIFESTS_READ_MAX:]
        self._unread = range(max(rest.start, self._run.start), rest.stop)
        return self.learned

    def _learn(self, manifest: Manifest) -> None:
        """What retention has to know of a segment that stays. Once for each."""
        if (first_seq := first_needed(manifest)) < manifest.seq:
            self._reaches[manifest.seq] = first_seq
        self._unnamed -= files_of(manifest) | shared_files_of(manifest)
        self._named_by.update(shared_files_of(manifest))

    def _forget(self, shared: Mapping[Seq, frozenset[str]]) -> set[str]:
        """The files that only these segments named: `shared` has those of each. Until the first commit a previous owner might still
        name one of its own again."""
        for seq, names in shared.items():
            self._reaches.pop(seq, None)
            self._named_by.subtract(names)
        unnamed = {name for name in set[str]().union(*shared.values()) if not self._named_by[name]}
        for name in unnamed:
            del self._named_by[name]
        unnamed -= {self._schemas, self._dumps.name}
        if self._committed:
            return unnamed
        self._unnamed |= unnamed
        return set()

    def _last(self, run: range) -> Manifest | None:
        """The last manifest as it is in the log, whose bytes the next one follows."""
        self._sums = ("", "")
        if not run:
            return None
        name = manifest_name(Seq(run[-1]))
        if (data := self._file(name)) is None:
            raise missing_files(self.folder, [name])
        last = read_manifest(self.folder, name, data)
        self._sums = (last.previous, sha256_of(data))
        return last

    def _prove_exclusive(self) -> None:
        """Else the fence would not hold."""
        if not self._proven and not storage.keeps_exclusive(self.folder, _EXCLUSIVE_PROBE):
            raise LogBroken(
                f"{self.folder} lets a file be created twice, so a previous owner could overwrite the log",
                hint="use a storage that honours `If-None-Match: *` (S3, MinIO), or a local or network file system",
            )
        self._proven = True

    def _follows(self, seq: Seq) -> bool:
        """Whether nothing from `seq` on has been retained away: then its manifest was created for the first time."""
        if seq > 0:
            return storage.exists(self.folder, manifest_name(Seq(seq - 1)))
        return Contents.of(storage.list_names(self.folder, deep=False)).floor == 0

    def _remove(self, names: Sequence[str]) -> None:
        """Manifests, whose epochs are not known, first, one by one and upwards: storages that remove many at once keep no order."""
        for manifest in sorted(filter(is_manifest, names)):
            storage.remove(self.folder, [manifest])
        storage.remove(self.folder, [name for name in names if not is_manifest(name)])

    def _read(self, seqs: Sequence[int]) -> Iterator[Manifest]:
        """Those of them that another owner has not retained away meanwhile. Raises LogTaken where it has written on, and LogBroken."""
        for start in range(0, len(seqs), MANIFESTS_HELD_MAX):
            names = [manifest_name(Seq(seq)) for seq in seqs[start : start + MANIFESTS_HELD_MAX]]
            files = storage.read_files(self.folder, names)
            if missing := {*names} - files.keys():
                self._raise_floor(missing)
            yield from (read_manifest(self.folder, name, data) for name, data in files.items())

    def _raise_floor(self, missing: Collection[str]) -> None:
        """These manifests are gone, and so is whatever is below the floor. Raises LogBroken for what is above it."""

        def judged(contents: Contents, _: range) -> None:
            if lost := [name for name in missing if name >= manifest_name(Seq(contents.floor))]:
                raise missing_files(self.folder, lost)

        floor = looked_at(self.folder, deep=False, judged=judged)[0].floor
        if floor >= self._run.stop:
            raise taken(self.folder, Seq(self._run.stop))
        self._run = range(max(self._run.start, floor), self._run.stop)
        self._reaches = {seq: first for seq, first in self._reaches.items() if seq >= floor}


Judgement = TypeVar("Judgement")


def looked_at(log: Folder, *, deep: bool, judged: Callable[[Contents, range], Judgement]) -> tuple[Contents, range, Judgement]:
    """What is there, the segments, and what `judged` makes of them. Raises LogBroken, of the run or of `judged`, where the look before
    had the same floor and manifests."""
    before: tuple[int, tuple[int, ...]] | None = None
    for look in range(LOOKS_MAX):
        contents = Contents.of(storage.list_names(log, deep=deep))
        seen = (contents.floor, contents.manifests)
        try:
            run = contents.run(log)
            return contents, run, judged(contents, run)
        except LogBroken:
            if seen == before or look == LOOKS_MAX - 1:
                raise
            before = seen
    raise AssertionError("the last look returns or raises")


def listed(log: Folder, *, deep: bool) -> tuple[Contents, range]:
    """What is there, and the segments. Raises LogBroken as `looked_at`."""
    return looked_at(log, deep=deep, judged=lambda *_: None)[:2]
