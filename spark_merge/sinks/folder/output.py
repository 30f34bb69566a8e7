"""An output folder as its one writer has it: whose it is, what it keeps in its commits (../chain.py), and what previous owners left.

The order carries weight; a crash between any two repeats harmlessly:

    _log.json → a commit that opens → sweep → the writer's files (in tasks) → _ddl → a commit that accepts → _segments

- One folder is the output of one log in one format: anything else in it is refused, never mixed.
- What previous owners left of segments that were not accepted is swept by who opens after them: they can commit no more, and names tell
  whose a file is. What a previous owner's late task writes after that is swept by the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from sidecar.shared.errors import SinkError
from sidecar.shared.log import storage
from sidecar.shared.log.hashed import sha256_of
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import CommitTs, Seq
from spark_merge.port.contract import Accepted, Head, Owner, Standing
from spark_merge.sinks.folder.layout import (
    COMMIT,
    COMMITS,
    DDLS_OF_SEGMENT,
    FORMAT_VERSION,
    HEAD,
    HEAD_NUMBER,
    IDENTITY,
    LOG,
    PROBE,
    SEGMENT,
    SEGMENTS,
    DeliveredFile,
    DeliveredSegment,
    FolderCommit,
    FolderIdentity,
    SegmentDdls,
    ddl_path,
    owner_of,
    segment_path,
    seq_of,
)
from spark_merge.sinks.kit.chain import CommitChain, LastCommit, NumberedFiles
from spark_merge.sinks.kit.fence import ANOTHER_FOLDER
from spark_merge.sinks.kit.position import OutputState, PositionKeeper, Stored

SWEPT_SEGMENTS = 1_000
"""How far beyond the last accepted segment a half-written batch can have left files: no batch is longer. Bounds the
sweep to two listings a table on S3, however much has been delivered."""


class OutputFolder:
    """`CommittedOutput`: a commit has the segments that it accepts. `identity`: what a folder that is new becomes; one that is there keeps
    its own constants. `parameter`: the URI's, that names the identity's `file_format`."""

    record, probe = COMMIT, PROBE

    def __init__(self, folder: Folder, identity: FolderIdentity, *, parameter: str = "format") -> None:
        self.folder, self.identity, self._parameter = folder, identity, parameter
        self.commits = commits_of(folder)
        self._written: FolderIdentity | None = None

    def log_id(self) -> str | None:
        identity = self._written = LOG.read(self.folder, IDENTITY)
        if identity is None:
            there = storage.list_names(self.folder, under=SEGMENTS, deep=False)
            if there:
                raise SinkError(f"{self.folder} has segments but no {IDENTITY}", hint=f"restore {IDENTITY}, or deliver to a new folder")
            return None
        if identity.file_format != self.identity.file_format:
            raise SinkError(
                f"{self.folder} holds {identity.file_format} files, not {self.identity.file_format}",
                hint=f"add ?{self._parameter}={identity.file_format}, or deliver to a new folder",
            )
        return identity.log_id

    def claim(self, log_id: str) -> bool:
        known, mine = self._written, replace(self.identity, log_id=log_id)
        if known is not None and known.version == FORMAT_VERSION:
            mine = replace(known, log_id=log_id)
        self.identity = mine
        if known is None:
            return LOG.create(self.folder, IDENTITY, mine)
        if mine != known:
            LOG.write(self.folder, IDENTITY, mine)
        return True

    def last(self) -> LastCommit[FolderCommit, None]:
        last = last_commit(self.folder)
        return LastCommit(last, accepted_by(self.folder, last), None)

    def next(
        self,
        number: int,
        by: str,
        before: Stored[None] | None,
        after: OutputState[None],
        payload: Sequence[DeliveredSegment] | None,
    ) -> FolderCommit:
        last = None if before is None else before.version
        first = last.first if isinstance(last, FolderCommit) else None
        if first is None and payload and (before is None or before.state.accepted is None):
            first = payload[0].seq
        return FolderCommit(number, after.owner, by, after.accepted and after.accepted.seq, tuple(payload or ()), first)

    def show(self, commit: FolderCommit, _: Callable[[], None]) -> None:
        """All who repeat a segment write the same."""
        storage.write_in_order(self.folder, [(segment_path(one.seq), SEGMENT.to_json(one)) for one in commit.segments])

    def head(self, number: int, _: None) -> None:
        HEAD_NUMBER.write(self.folder, HEAD, number)

    # ---- the driver's -------------------------------------------------------------------------------------------------

    def write_ddls(self, heads: Sequence[Head]) -> None:
        """Before the segments of `heads` are accepted."""
        for head in heads:
            if head.ddls:
                DDLS_OF_SEGMENT.write(self.folder, ddl_path(head.seq), SegmentDdls(head.seq, head.ddls))

    def swept(self, state: OutputState[None]) -> Standing:
        """What previous owners left is gone; `state`: as it was opened."""
        storage.remove(self.folder, list(self._strays(state.owner, state.accepted and state.accepted.seq)))
        return Standing(state.owner, state.accepted)

    def _strays(self, mine: Owner, accepted: Seq | None) -> Iterator[str]:
        for name in storage.list_folders(self.folder):
            if "." in name:
                yield from (f"{name}/{file}" for file in strays(replace(self.folder, root=self.folder.path(name)), accepted, mine))


FolderPosition = PositionKeeper[None, Sequence[DeliveredSegment]]


def position_of(output: OutputFolder) -> FolderPosition:
    return FolderPosition(CommitChain(output), log_id=output.identity.log_id, remedy=ANOTHER_FOLDER)


def strays(folder: Folder, accepted: Seq | None, mine: Owner) -> list[str]:
    """Files directly in it that previous owners left of segments after `accepted`. S3 lists by beginnings; local listings hold more."""
    begins = {""} if accepted is None else {f"{seq:020d}"[:-3] for seq in (accepted + 1, accepted + SWEPT_SEGMENTS)}
    results = {one for beginning in begins for one in storage.list_names(folder, deep=False, beginning=beginning)}
    return [one for one in sorted(results) if _is_unaccepted(one, accepted) and owner_of(one) < mine]


def _is_unaccepted(name: str, accepted: Seq | None) -> bool:
    seq = seq_of(name)
    return storage.is_temporary(name) or (seq is not None and (accepted is None or seq > accepted))


def segment_of(head: Head, files: Sequence[DeliveredFile]) -> DeliveredSegment:
    in_order = tuple(sorted(files, key=lambda file: (file.table, file.path)))
    ddl = ddl_path(head.seq) if head.ddls else None
    sha256 = sha256_of(DDLS_OF_SEGMENT.to_json(SegmentDdls(head.seq, head.ddls))) if head.ddls else ""
    return DeliveredSegment(head.seq, CommitTs(head.upto_ts), in_order, ddl, head.manifest.id, dump=head.dump, ddl_sha256=sha256)


# ---- for readers, too ------------------------------------------------------------------------------------------------------


def commits_of(folder: Folder) -> NumberedFiles:
    return NumberedFiles(folder, COMMITS, ".json")


def accepted_in(folder: Folder) -> Accepted | None:
    """What the output has, whosever and whatever it is."""
    return accepted_by(folder, last_commit(folder))


def last_commit(folder: Folder) -> FolderCommit | None:
    """One that was listed and is gone has later ones: it is listed again."""
    commits = commits_of(folder)
    while names := commits.names():
        if (commit := COMMIT.read(folder, f"{COMMITS}/{names[-1]}")) is not None:
            return commit
    if storage.exists(folder, HEAD):
        raise SinkError(f"{folder}/{COMMITS} has no commit, and {HEAD} says that it had", hint="restore it, or deliver to a new folder")
    return None


def accepted_by(folder: Folder, last: FolderCommit | None) -> Accepted | None:
    """What is accepted by `last` and all commits before it; None: by version 1."""
    if last is not None and last.segments:
        segment: DeliveredSegment | None = last.segments[-1]
    else:
        seq = _accepted_by_version_1(folder) if last is None else last.accepted
        if seq is None:
            return None
        segment = SEGMENT.read(folder, segment_path(seq))
        if segment is None:
            return Accepted(seq)
    assert segment is not None
    return Accepted(segment.seq, segment.upto_ts, segment.manifest)


def _accepted_by_version_1(folder: Folder) -> Seq | None:
    seqs = NumberedFiles(folder, SEGMENTS, ".json").numbers()
    if seqs and seqs[-1] - seqs[0] != len(seqs) - 1:
        raise SinkError(f"{folder}/{SEGMENTS} has a gap before {seqs[-1]}", hint="restore what is gone, or use a new folder")
    return Seq(seqs[-1]) if seqs else None
