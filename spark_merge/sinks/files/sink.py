"""The files sink: an output folder on a local disk or S3, as JSON lines or Parquet. `layout` says what is in it.

The order carries weight; a crash between any two repeats harmlessly:

    _log.json → a commit that opens → sweep → the tables' files (in tasks) → _ddl → a commit that accepts → _segments

- It is of the hidden kind: files count when a commit names them. `commits` is the position, and the fence against former owners.
- One folder is the output of one log in one format: anything else in it is refused, never mixed.
- What former owners left of segments that were not accepted is swept by who opens after them: they can commit no more, and names tell
  whose a file is. What a former owner's late task writes after that is swept by the next one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sidecar.core.model import CommitTs, Seq
from sidecar.errors import SinkError
from sidecar.log import storage
from sidecar.log.storage import Folder
from spark_merge.contract import Batch, Head, Outcome, Owner, Standing, Task
from spark_merge.cut import LIVE_PART_ROWS, spread, units
from spark_merge.sinks.files.commits import Commits
from spark_merge.sinks.files.layout import (
    FORMAT_VERSION,
    IDENTITY,
    SEGMENTS,
    DeliveredFile,
    DeliveredSegment,
    FileFormat,
    Identity,
    ddl_path,
    ddls_to_json,
    identity_from_json,
    identity_to_json,
    owner_of,
    seq_of,
    storage_errors,
)
from spark_merge.sinks.files.writer import FileWriter

CHUNK_PARTS: dict[FileFormat, int] = {"jsonl": 0, "parquet": 16}
LIVE_PARTS: dict[FileFormat, int] = {"jsonl": 0, "parquet": LIVE_PART_ROWS}
"""A JSON lines file is in output order, so it has all of a segment and table; Parquet's rows carry their order, so tasks may share the
chunks, and a large segment's live rows. 16: a large dump keeps that many cores busy. A folder keeps what it began with."""

SWEPT_SEGMENTS = 1_000
"""How far beyond the last accepted segment a half-written batch can have left files: no batch is longer. Bounds the
sweep to two listings a table on S3, however much has been delivered."""


class FileSink:
    """`log_id` names the log for ever: a folder with another log's output is refused."""

    def __init__(self, folder: Folder, *, log_id: str, file_format: FileFormat) -> None:
        self.folder = folder
        self.file_format: FileFormat = file_format
        self._log_id = log_id
        self._commits = Commits(folder)
        self._identity = Identity(log_id, file_format, CHUNK_PARTS[file_format], LIVE_PARTS[file_format])
        self._owner = Owner(-1, 0)

    def look(self) -> Seq | None:
        self._read_identity()
        return self._commits.look()

    def open(self, *, epoch: int | None) -> Standing:
        found = self._read_identity()
        if found is None or found.version < FORMAT_VERSION:
            with storage_errors(self.folder):
                storage.write_atomically(self.folder, IDENTITY, identity_to_json(self._identity))
        else:
            self._identity = found
        opened = self._commits.open(epoch)
        self._owner = opened.owner
        with storage_errors(self.folder):
            storage.remove(self.folder, list(self._strays(opened.accepted)))
        return Standing(opened.owner, opened.accepted)

    def plan(self, heads: Sequence[Head], *, cores: int) -> Batch | None:
        found = units(heads, chunk_parts=self._identity.chunk_parts, live_part_rows=self._identity.live_part_rows)
        groups = spread(found, heads, cores=cores)
        tasks = tuple(Task(str(number), group) for number, group in enumerate(groups))
        return Batch(tuple(heads), (tasks,), FileWriter(self.folder, self.file_format, self._owner))

    def accept(self, batch: Batch, outcomes: Sequence[Outcome]) -> None:
        files: dict[Seq, list[DeliveredFile]] = {head.seq: [] for head in batch.heads}
        for outcome in outcomes:
            for seq, file in outcome.note:
                files[seq].append(file)
        with storage_errors(self.folder):
            for head in batch.heads:
                if head.ddls:
                    storage.write_atomically(self.folder, ddl_path(head.seq), ddls_to_json(head.seq, head.ddls))
        self._commits.accept([_segment(head, files[head.seq]) for head in batch.heads])

    def close(self) -> None:
        """Nothing is held."""

    def _read_identity(self) -> Identity | None:
        with storage_errors(self.folder):
            data = storage.read_files(self.folder, [IDENTITY]).get(IDENTITY)
            if data is None and storage.list_names(replace(self.folder, root=self.folder.path(SEGMENTS)), deep=False):
                raise SinkError(f"{self.folder} has segments but no {IDENTITY}", hint=f"restore {IDENTITY}, or deliver to a new folder")
        if data is None:
            return None
        found = identity_from_json(data, name=f"{self.folder}/{IDENTITY}")
        if found.log_id != self._log_id:
            raise SinkError(
                f"{self.folder} holds the output of log {found.log_id}, this is log {self._log_id}",
                hint="give each log a folder of its own; a new log starts in a new folder",
            )
        if found.file_format != self.file_format:
            raise SinkError(
                f"{self.folder} holds {found.file_format} files, not {self.file_format}",
                hint=f"add ?format={found.file_format}, or deliver to a new folder",
            )
        return found

    # ---- the sweep --------------------------------------------------------------------------------------------------

    def _strays(self, accepted: Seq | None) -> Iterator[str]:
        """Files of former owners, of segments that are not accepted."""
        for name in storage.list_folders(self.folder):
            if "." in name:
                below = replace(self.folder, root=self.folder.path(name))
                for beginning in _beginnings(accepted):
                    found = storage.list_names(below, deep=False, beginning=beginning)
                    yield from (f"{name}/{file}" for file in found if self._is_stray(file, accepted))

    def _is_stray(self, name: str, accepted: Seq | None) -> bool:
        seq = seq_of(name)
        unaccepted = storage.is_temporary(name) or (seq is not None and (accepted is None or seq > accepted))
        return unaccepted and owner_of(name) < self._owner


def _beginnings(accepted: Seq | None) -> set[str]:
    """What S3 lists by; local listings hold more, so every name is looked at again."""
    return {""} if accepted is None else {f"{seq:020d}"[:-3] for seq in (accepted + 1, accepted + SWEPT_SEGMENTS)}


def _segment(head: Head, files: Sequence[DeliveredFile]) -> DeliveredSegment:
    in_order = tuple(sorted(files, key=lambda file: (file.table, file.path)))
    return DeliveredSegment(head.seq, CommitTs(head.upto_ts), in_order, ddl_path(head.seq) if head.ddls else None)
