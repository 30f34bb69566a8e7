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
from sidecar.log import storage
from sidecar.log.hashed import sha256_of
from sidecar.log.storage import Folder
from spark_merge.port.contract import Accepted, Head, Owner, Standing
from spark_merge.sinks.errors import storage_errors
from spark_merge.sinks.fence import ANOTHER_FOLDER
from spark_merge.sinks.folder.commits import FolderPositions
from spark_merge.sinks.folder.layout import DeliveredFile, DeliveredSegment, FolderIdentity, ddl_path, ddls_to_json, owner_of, seq_of
from spark_merge.sinks.position import PositionKeeper

SWEPT_SEGMENTS = 1_000
"""How far beyond the last accepted segment a half-written batch can have left files: no batch is longer. Bounds the
sweep to two listings a table on S3, however much has been delivered."""


class OutputFolder:
    """`identity`: what a folder that is new becomes; one that is there keeps its own constants. `parameter`: the URI's, that names the
    identity's `file_format`."""

    def __init__(self, folder: Folder, identity: FolderIdentity, *, parameter: str = "format") -> None:
        self.folder = folder
        self._positions = FolderPositions(folder, identity, parameter=parameter)
        self._position = PositionKeeper(self._positions, log_id=identity.log_id, remedy=ANOTHER_FOLDER)

    @property
    def identity(self) -> FolderIdentity:
        return self._positions.identity

    @property
    def owner(self) -> Owner:
        return self._position.state.owner

    def look(self) -> Accepted | None:
        """`Sink.look`."""
        return self._position.look()

    def open(self, epoch: int | None) -> Standing:
        """`Sink.open`."""
        state = self._position.open(epoch)
        with storage_errors(self.folder):
            storage.remove(self.folder, list(self._strays(state.accepted and state.accepted.seq)))
        return Standing(state.owner, state.accepted)

    def check(self, heads: Sequence[Head]) -> None:
        """What `accept` of these would raise by now; nothing is written."""
        self._position.check_next(heads[0].seq)
        self._position.check()

    def accept(self, heads: Sequence[Head], segments: Sequence[DeliveredSegment]) -> None:
        """`segments` are these heads'. As `Sink.accept`."""
        with storage_errors(self.folder):
            for head in heads:
                if head.ddls:
                    storage.write_atomically(self.folder, ddl_path(head.seq), ddls_to_json(head.seq, head.ddls))
        self._position.accept(Accepted.of(heads[-1].manifest), first=heads[0].seq, payload=segments)

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
    sha256 = sha256_of(ddls_to_json(head.seq, head.ddls)) if head.ddls else ""
    return DeliveredSegment(head.seq, CommitTs(head.upto_ts), in_order, ddl, head.manifest.id, dump=head.dump, ddl_sha256=sha256)
