"""The files sink: an output folder on a local disk or S3, as JSON lines or Parquet. `layout` says what is in it.

The order carries weight; a crash between any two repeats harmlessly:

    _log.json → the tables' files (in tasks) → _ddl → _segments, by seq

- A segment is delivered when its `_segments` entry exists. The greatest one is the only position.
- One folder is the output of one log in one format: anything else in it is refused, never mixed.
- Before its first batch a sink removes what a former one left of segments that were not accepted. Files of a redone
  batch are replaced anyway; this is for those that the redo does not write.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from sidecar import storage
from sidecar.core.model import CommitTs, Seq, TableName, TableSchema
from sidecar.errors import SinkError
from sidecar.storage import Folder
from spark_merge.contract import Delivered, DeliveredFile, SegmentHead
from spark_merge.sinks.file_writer import FileWriter
from spark_merge.sinks.layout import (
    DDLS,
    IDENTITY,
    SEGMENTS,
    DeliveredSegment,
    FileFormat,
    ddl_path,
    ddls_to_json,
    identity_from_json,
    identity_to_json,
    segment_path,
    segment_to_json,
    seq_of,
    storage_errors,
)

PARQUET_PARTS = 16
"""Files that the chunks of one segment and table are spread over at most: a large dump keeps that many cores busy."""

SWEPT_SEGMENTS = 1_000
"""How far beyond the last accepted segment a half-written batch can have left files: no batch is longer. Bounds the
sweep to two listings a table on S3, however much has been delivered."""


class FileSink:
    """For one driver at a time. `log_id` names the log for ever: a folder with another log's output is refused."""

    def __init__(self, folder: Folder, *, log_id: str, file_format: FileFormat) -> None:
        self.folder = folder
        self.file_format: FileFormat = file_format
        self._log_id = log_id
        self._opened = False
        self._named = False
        self._swept = False
        self._accepted: Seq | None = None

    @property
    def parts(self) -> int:
        """A JSON lines file is in output order; Parquet rows carry their order, so tasks may share them."""
        return 1 if self.file_format == "jsonl" else PARQUET_PARTS

    def accepted(self) -> Seq | None:
        self._open()
        return self._accepted

    def writer(self, schemas: Mapping[TableName, TableSchema], log: object) -> FileWriter:
        self._open()
        self._sweep()
        self._name()
        return FileWriter(self.folder, self.file_format, schemas, log)

    def accept(self, heads: Iterable[SegmentHead], delivered: Iterable[Delivered]) -> None:
        self._open()
        self._name()
        outcomes = {outcome.seq: outcome.files for outcome in delivered}
        batch = list(heads)
        for number, head in enumerate(batch):
            self._check_next(head.seq, after=batch[number - 1].seq if number else self._accepted)
        segments = [self._segment(head, outcomes.get(head.seq, ())) for head in batch]
        with storage_errors(self.folder):
            for head in batch:
                if head.ddls:
                    storage.write_atomically(self.folder, ddl_path(head.seq), ddls_to_json(head.seq, head.ddls))
            storage.write_in_order(self.folder, [(segment_path(segment.seq), segment_to_json(segment)) for segment in segments])
        self._accepted = batch[-1].seq if batch else self._accepted

    def _segment(self, head: SegmentHead, files: tuple[DeliveredFile, ...]) -> DeliveredSegment:
        in_order = tuple(sorted(files, key=lambda file: (file.table, file.path)))
        return DeliveredSegment(head.seq, CommitTs(head.upto_ts), in_order, ddl_path(head.seq) if head.ddls else None)

    def _check_next(self, seq: Seq, *, after: Seq | None) -> None:
        if after is not None and seq != after + 1:
            raise SinkError(
                f"{self.folder} has accepted segment {after} and is given {seq}",
                hint="one job at a time may deliver to a folder: stop the other one, then start this one again",
            )

    def _open(self) -> None:
        """Read whose folder this is and how far it is, once: from then on this is its only writer."""
        if self._opened:
            return
        with storage_errors(self.folder):
            self._named = storage.exists(self.folder, IDENTITY)
            if self._named:
                self._check_identity(*identity_from_json(storage.read_file(self.folder, IDENTITY), name=f"{self.folder}/{IDENTITY}"))
            names = storage.list_names(replace(self.folder, root=self.folder.path(SEGMENTS)), deep=False)
        seqs = sorted(seq for seq in map(seq_of, names) if seq is not None)
        if seqs and not self._named:
            raise SinkError(f"{self.folder} has segments but no {IDENTITY}", hint=f"restore {IDENTITY}, or deliver to a new folder")
        if seqs and seqs[-1] - seqs[0] != len(seqs) - 1:
            raise SinkError(f"{self.folder}/{SEGMENTS} has a gap before {seqs[-1]}", hint="restore what is gone, or use a new folder")
        self._accepted = seqs[-1] if seqs else None
        self._opened = True

    def _check_identity(self, log_id: str, file_format: str) -> None:
        if log_id != self._log_id:
            raise SinkError(
                f"{self.folder} holds the output of log {log_id}, this is log {self._log_id}",
                hint="give each log a folder of its own; a new log starts in a new folder",
            )
        if file_format != self.file_format:
            raise SinkError(
                f"{self.folder} holds {file_format} files, not {self.file_format}",
                hint=f"add ?format={file_format}, or deliver to a new folder",
            )

    def _name(self) -> None:
        if not self._named:
            with storage_errors(self.folder):
                storage.write_atomically(self.folder, IDENTITY, identity_to_json(self._log_id, self.file_format))
            self._named = True

    def _sweep(self) -> None:
        if self._named and not self._swept:
            with storage_errors(self.folder):
                storage.remove(self.folder, list(self._strays()))
        self._swept = True

    def _strays(self) -> Iterator[str]:
        fs, beginnings = self.folder.fs(), self._stray_beginnings()
        for folder in fs.ls(self.folder.root, detail=True):
            name = folder["name"].rstrip("/").rpartition("/")[2]
            if folder["type"] == "directory" and ("." in name or name == DDLS):
                for beginning in beginnings:
                    found = (path.rpartition("/")[2] for path in fs.find(self.folder.path(name), prefix=beginning))
                    yield from (f"{name}/{file}" for file in found if self._is_stray(file))

    def _stray_beginnings(self) -> set[str]:
        """What S3 lists by; local listings hold more, so every name is looked at again."""
        if self._accepted is None:
            return {""}
        return {f"{seq:020d}"[:-3] for seq in (self._accepted + 1, self._accepted + SWEPT_SEGMENTS)}

    def _is_stray(self, name: str) -> bool:
        seq = seq_of(name)
        return storage.is_temporary(name) or (seq is not None and (self._accepted is None or seq > self._accepted))
