"""An output folder as its one writer has it: whose it is, its position, what is accepted, and what former owners left.

The order carries weight; a crash between any two repeats harmlessly:

    _log.json → a commit that opens → sweep → the writer's files (in tasks) → _ddl → a commit that accepts → _segments

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
from spark_merge.contract import Accepted, Head, Owner, Standing
from spark_merge.sinks.fence import check_log
from spark_merge.sinks.files.commits import Commits
from spark_merge.sinks.files.layout import (
    FORMAT_VERSION,
    IDENTITY,
    SEGMENTS,
    DeliveredFile,
    DeliveredSegment,
    Identity,
    ddl_path,
    ddls_to_json,
    identity_from_json,
    identity_to_json,
    owner_of,
    seq_of,
    storage_errors,
)

SWEPT_SEGMENTS = 1_000
"""How far beyond the last accepted segment a half-written batch can have left files: no batch is longer. Bounds the
sweep to two listings a table on S3, however much has been delivered."""


class OutputFolder:
    """`identity`: what a folder that is new becomes; one that is there keeps its own constants. `parameter`: the URI's, that names the
    identity's `file_format`."""

    def __init__(self, folder: Folder, identity: Identity, *, parameter: str = "format") -> None:
        self.folder = folder
        self.identity = identity
        self.owner = Owner(-1, 0)
        self._parameter = parameter
        self._commits = Commits(folder)

    def look(self) -> Accepted | None:
        """`Sink.look`."""
        self._read_identity()
        return self._commits.look()

    def open(self, epoch: int | None) -> Standing:
        """`Sink.open`."""
        found = self._read_identity()
        if found is not None and found.version == FORMAT_VERSION:
            self.identity = replace(found, log_id=self.identity.log_id)
        if found != self.identity:
            with storage_errors(self.folder):
                storage.write_atomically(self.folder, IDENTITY, identity_to_json(self.identity))
        opened = self._commits.open(epoch)
        self.owner = opened.owner
        with storage_errors(self.folder):
            storage.remove(self.folder, list(self._strays(opened.accepted)))
        return Standing(opened.owner, self._commits.told(opened))

    def check(self, heads: Sequence[Head]) -> None:
        """`Commits.check`."""
        self._commits.check(heads[0].seq)

    def accept(self, heads: Sequence[Head], segments: Sequence[DeliveredSegment]) -> None:
        """`segments` are these heads'. As `Sink.accept`."""
        with storage_errors(self.folder):
            for head in heads:
                if head.ddls:
                    storage.write_atomically(self.folder, ddl_path(head.seq), ddls_to_json(head.seq, head.ddls))
        self._commits.accept(segments)

    def _read_identity(self) -> Identity | None:
        with storage_errors(self.folder):
            data = storage.read_files(self.folder, [IDENTITY]).get(IDENTITY)
            if data is None and storage.list_names(replace(self.folder, root=self.folder.path(SEGMENTS)), deep=False):
                raise SinkError(f"{self.folder} has segments but no {IDENTITY}", hint=f"restore {IDENTITY}, or deliver to a new folder")
        if data is None:
            return None
        found = identity_from_json(data, name=f"{self.folder}/{IDENTITY}")
        hint = "deliver a new log to a new folder, and dump again; or set log.uri back to the log that the output is of"
        check_log(self.folder, found.log_id, self.identity.log_id, hint=hint)
        if found.file_format != self.identity.file_format:
            raise SinkError(
                f"{self.folder} holds {found.file_format} files, not {self.identity.file_format}",
                hint=f"add ?{self._parameter}={found.file_format}, or deliver to a new folder",
            )
        return found

    # ---- the sweep --------------------------------------------------------------------------------------------------

    def _strays(self, accepted: Seq | None) -> Iterator[str]:
        """Files of former owners, of segments that are not accepted."""
        for name in storage.list_folders(self.folder):
            if "." in name:
                below = replace(self.folder, root=self.folder.path(name))
                for beginning in beginnings(accepted):
                    found = storage.list_names(below, deep=False, beginning=beginning)
                    yield from (f"{name}/{file}" for file in found if self._is_stray(file, accepted))

    def _is_stray(self, name: str, accepted: Seq | None) -> bool:
        seq = seq_of(name)
        unaccepted = storage.is_temporary(name) or (seq is not None and (accepted is None or seq > accepted))
        return unaccepted and owner_of(name) < self.owner


def beginnings(accepted: Seq | None) -> set[str]:
    """What S3 lists by; local listings hold more, so every name is looked at again."""
    return {""} if accepted is None else {f"{seq:020d}"[:-3] for seq in (accepted + 1, accepted + SWEPT_SEGMENTS)}


def segment_of(head: Head, files: Sequence[DeliveredFile]) -> DeliveredSegment:
    in_order = tuple(sorted(files, key=lambda file: (file.table, file.path)))
    ddl = ddl_path(head.seq) if head.ddls else None
    return DeliveredSegment(head.seq, CommitTs(head.upto_ts), in_order, ddl, head.manifest.id, dump=head.dump)
