"""The twin in memory of the segment log, for simulations and tests.

    MemoryDisk      what survives; several logs can be opened over one, as the previous owner and the next one
    MemoryLog       dropping it is a crash; nothing of the log lives in it that a new one would not recover

Manifests and schemas are kept as the bytes that would be written, so that their formats are exercised.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from sidecar.shared.log.dumps_file import DumpsFile
from sidecar.shared.log.hashed import sha256_of
from sidecar.shared.log.layout import (
    Contents,
    check_next,
    data_name,
    dumps_name,
    files_of,
    first_needed,
    keep_from,
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
from sidecar.shared.log.schemas_file import schemas_from_json, schemas_to_json
from sidecar.shared.model.chunk import WrittenChunk
from sidecar.shared.model.nouns import Change, Seq, TableName, TableSchema
from sidecar.shared.model.progress import Progress


@dataclass(slots=True)
class MemoryDisk:
    """Files by kind and name; `floor` stands for the notes of retention, `id` for the log's own."""

    manifests: dict[str, bytes] = field(default_factory=dict)
    rows: dict[str, list[Change]] = field(default_factory=dict)
    chunks: dict[str, pa.Table] = field(default_factory=dict)
    schemas: dict[str, bytes] = field(default_factory=dict)
    dumps: dict[str, bytes] = field(default_factory=dict)
    floor: int = 0
    id: str = ""

    def __str__(self) -> str:
        return "in memory"

    def names(self) -> list[str]:
        notes = [retained_name(Seq(self.floor))] if self.floor else []
        return [*self.manifests, *self.rows, *self.chunks, *self.schemas, *self.dumps, *notes]

    def remove(self, names: Iterable[str]) -> None:
        for name in names:
            for kind in (self.manifests, self.rows, self.chunks, self.schemas, self.dumps):
                kind.pop(name, None)


class MemoryLog:
    """`SegmentLog` over a MemoryDisk. Reading needs no `recover`."""

    def __init__(self, disk: MemoryDisk) -> None:
        self.disk = disk
        self._epoch = 0
        self._run: range = range(0)
        self._orphans: list[str] = []
        self._unnamed: set[str] = set()
        self._committed = False
        self._dumps = DumpsFile()
        self._previous_open: Seq | None = None

    @property
    def id(self) -> str:
        return self.disk.id

    def recover(self, *, epoch: int) -> Manifest | None:
        contents = Contents.of(self.disk.names())
        self._run, self._epoch, self._dumps = contents.run(self.disk), epoch, DumpsFile()
        last = self._read(Seq(self._run[-1])) if self._run else None
        named = set() if last is None else files_of(last)
        if missing := named - contents.names:
            raise missing_files(self.disk, missing)
        self._orphans, self._unnamed = contents.orphans(self._run, named=named, epoch=epoch), contents.written_before(epoch)
        self._previous_open, self._committed = None if last is None else last.open_from, False
        return None if last is None else with_logged_tables(self.disk, last, self.disk.dumps.get)

    def write_data(self, seq: Seq, *, epoch: int, codec: str, changes: Iterable[Change]) -> DataFile:  # noqa: ARG002 - rows are kept as they are
        check_next(self.disk, self._run, seq)
        rows = list(changes)
        if not rows:
            return DataFile(None, 0, 0)
        name = data_name(seq, epoch=epoch)
        self.disk.rows[name] = rows
        by_table = Counter((change.schema, change.table) for change in rows)
        return DataFile(name, len(rows), sum(len(change.key) + len(change.value) for change in rows), counted(by_table))

    def write_schemas(self, schemas: Mapping[TableName, TableSchema]) -> str:
        data = schemas_to_json(dict(schemas))
        name = schemas_name(data, epoch=self._epoch)
        self.disk.schemas[name] = data
        return name

    def write_dumps(self, dumps: Sequence[Progress]) -> LoggedDumps:
        def written(data: bytes) -> str:
            name = dumps_name(data, epoch=self._epoch)
            self.disk.dumps[name] = data
            return name

        return self._dumps.logged(dumps, written)

    def commit(self, manifest: Manifest) -> None:
        repeated = bool(self._run) and manifest.seq == self._run[-1]
        if not repeated:
            check_next(self.disk, self._run, manifest.seq)
        data = to_json(replace(manifest, previous=self._previous(manifest.seq)))
        if manifest.seq < self.disk.floor or self.disk.manifests.setdefault(manifest_name(manifest.seq), data) != data:
            raise taken(self.disk, manifest.seq)
        self._run = range(self._run.start, manifest.seq + 1)
        self._previous_open, self._committed = None, True
        self.disk.remove(self._orphans)
        self._orphans = []

    def retain(self, *, delivered: Seq, open_from: Seq | None) -> int:
        """As `FolderLog.retain`, all at once."""
        if not self._run:
            return 0
        if self._unnamed and self._committed:
            there = [self._read(Seq(seq)) for seq in self._run]
            self.disk.remove(self._unnamed.difference(*map(files_of, there), *map(shared_files_of, there)))
            self._unnamed = set()
        needed = [first_needed(self._read(Seq(seq))) for seq in self._run if seq > delivered]
        needed += [seq for seq in (open_from, self._previous_open) if seq is not None]
        gone = range(self._run.start, keep_from(self._run, delivered=delivered, needed=needed))
        if gone and manifest_name(Seq(self._run.stop)) in self.disk.manifests:
            raise taken(self.disk, Seq(self._run.stop))
        removed = [self._read(Seq(seq)) for seq in gone]
        if removed:
            self._run = range(gone.stop, self._run.stop)
            self.disk.floor = gone.stop
            kept = {self._dumps.name}.union(*(shared_files_of(self._read(Seq(seq))) for seq in self._run))
            shared = set[str]().union(*map(shared_files_of, removed)) - kept
            below = Contents.of(self.disk.names()).below(Seq(gone.stop))
            self.disk.remove([*below, *(name for manifest in removed for name in files_of(manifest)), *shared])
        return len(removed)

    def write_chunk(self, path: str, rows: pa.Table) -> WrittenChunk:
        """As `rows_file.write_chunk`."""
        self.disk.chunks[path] = rows
        return WrittenChunk(int(rows.nbytes))

    def manifest(self, seq: Seq) -> Manifest | None:
        """The manifest of segment `seq`, None if it does not exist."""
        name = manifest_name(seq)
        data = self.disk.manifests.get(name)
        return None if data is None else read_manifest(self.disk, name, data)

    def read_data(self, manifest: Manifest) -> list[Change]:
        return [] if manifest.data is None else self.disk.rows[manifest.data]

    def read_chunk(self, path: str) -> pa.Table:
        return self.disk.chunks[path]

    def read_schemas(self, path: str) -> dict[TableName, TableSchema]:
        return schemas_from_json(self.disk.schemas[path], name=path)

    def _previous(self, seq: Seq) -> str:
        """That of a manifest that is there already, for retention may have removed the one before it."""
        if (there := self.manifest(seq)) is not None:
            return there.previous
        before = self.disk.manifests.get(manifest_name(Seq(seq - 1)))
        return "" if before is None else sha256_of(before)

    def _read(self, seq: Seq) -> Manifest:
        name = manifest_name(seq)
        return read_manifest(self.disk, name, self.disk.manifests[name])
