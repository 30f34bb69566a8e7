"""The position of an output folder (`PositionStore`): commits one after another, each created exclusively by a worker that has read the one
before.

    opening      _log.json says whose output it is → the next commit names the owner → _head.json
    accepting    the next commit names the segments with their files → `_segments` repeats them for readers

The last commit alone counts and is found by a listing; all but the last few are removed. A crash between a commit and its `_segments` is
repaired by the next owner before it opens. A previous owner that was frozen may create a number again that was removed: so who has created
a commit looks for later ones, and there are some, or the number would still be there.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sidecar.core.model import Seq
from sidecar.errors import SinkError
from sidecar.log import storage
from sidecar.log.storage import Folder
from spark_merge.port.contract import Accepted, Owner
from spark_merge.sinks.errors import storage_errors
from spark_merge.sinks.fence import check_exclusive
from spark_merge.sinks.folder.layout import (
    COMMITS,
    FORMAT_VERSION,
    HEAD,
    IDENTITY,
    PROBE,
    SEGMENTS,
    DeliveredSegment,
    FolderCommit,
    FolderIdentity,
    commit_from_json,
    commit_path,
    commit_to_json,
    head_to_json,
    identity_from_json,
    identity_to_json,
    segment_from_json,
    segment_path,
    segment_to_json,
    seq_of,
)
from spark_merge.sinks.position import Missed, OutputState, Stored

KEPT = 50
"""Commits that stay before the last one, for who examines what happened. As many again gather before they are removed."""

NO_OWNER = Owner(0, 0)
"""Of a folder that has an identity and no commit: version 1 wrote it, or its first opening died."""


@dataclass(frozen=True, slots=True)
class FolderVersion:
    """What the next swap is compared with; `last` None where no commit is."""

    identity: FolderIdentity
    last: FolderCommit | None


class FolderPositions:
    """`PositionStore` in `folder`; the payload is the segments that are accepted. `identity`: what a new folder becomes; an existing one
    keeps its own constants. `parameter`: the URI's, that names the identity's `file_format`."""

    def __init__(self, folder: Folder, identity: FolderIdentity, *, parameter: str = "format") -> None:
        self._folder, self._parameter = folder, parameter
        self._by = secrets.token_hex(8)
        self.identity = identity
        self.place = str(folder)

    def read(self) -> Stored[None] | None:
        identity = self._read_identity()
        if identity is None:
            return None
        last = last_commit(self._folder)
        owner, accepted = (last.owner if last else NO_OWNER), accepted_by(self._folder, last)
        return Stored(OutputState(identity.log_id, owner, accepted), FolderVersion(identity, last))

    def compare_and_swap(
        self, before: Stored[None] | None, after: OutputState[None], payload: Sequence[DeliveredSegment] | None = None
    ) -> Stored[None] | Missed:
        opening = before is None or after.owner != before.state.owner
        version = _version(before)
        if opening:
            check_exclusive(self._folder, PROBE)
            if (version := self._identified(version, after.log_id)) is None:
                return Missed.CONFLICT
            if version.last is not None:
                self._repeat_for_readers(version.last.segments)
        assert version is not None
        number = version.last.number + 1 if version.last else 0
        accepted, segments = after.accepted and after.accepted.seq, tuple(payload or ())
        commit = FolderCommit(number, after.owner, self._by, accepted, segments, _first(before, version.last, segments))
        if not self._create(commit):
            return Missed.CONFLICT
        if opening:
            with storage_errors(self._folder):
                storage.write_atomically(self._folder, HEAD, head_to_json(number))
        self._repeat_for_readers(commit.segments)
        if opening or number % KEPT == 0:
            self._forget(number)
        return Stored(after, replace(version, last=commit))

    # ---- files ------------------------------------------------------------------------------------------------------

    def _read_identity(self) -> FolderIdentity | None:
        with storage_errors(self._folder):
            data = storage.read_files(self._folder, [IDENTITY]).get(IDENTITY)
            if data is None and storage.list_names(replace(self._folder, root=self._folder.path(SEGMENTS)), deep=False):
                raise SinkError(f"{self._folder} has segments but no {IDENTITY}", hint=f"restore {IDENTITY}, or deliver to a new folder")
        if data is None:
            return None
        identity = identity_from_json(data, name=f"{self._folder}/{IDENTITY}")
        if identity.file_format != self.identity.file_format:
            raise SinkError(
                f"{self._folder} holds {identity.file_format} files, not {self.identity.file_format}",
                hint=f"add ?{self._parameter}={identity.file_format}, or deliver to a new folder",
            )
        return identity

    def _identified(self, version: FolderVersion | None, log_id: str) -> FolderVersion | None:
        """The folder says that it is this log's output, in the last format; None where another worker was first."""
        mine = replace(self.identity, log_id=log_id)
        if version is None:
            with storage_errors(self._folder):
                created = storage.create_exclusively(self._folder, IDENTITY, identity_to_json(mine))
            self.identity = mine
            return FolderVersion(mine, None) if created else None
        if version.identity.version == FORMAT_VERSION:
            mine = replace(version.identity, log_id=log_id)
        if mine != version.identity:
            with storage_errors(self._folder):
                storage.write_atomically(self._folder, IDENTITY, identity_to_json(mine))
        self.identity = mine
        return replace(version, identity=mine)

    def _create(self, commit: FolderCommit) -> bool:
        with storage_errors(self._folder):
            created = storage.create_exclusively(self._folder, commit_path(commit.number), commit_to_json(commit))
        return created and max(_numbers(self._folder)) == commit.number

    def _forget(self, last: int) -> None:
        with storage_errors(self._folder):
            storage.remove(self._folder, [commit_path(number) for number in _numbers(self._folder) if number < last - KEPT])

    def _repeat_for_readers(self, segments: Sequence[DeliveredSegment]) -> None:
        with storage_errors(self._folder):
            storage.write_in_order(self._folder, [(segment_path(segment.seq), segment_to_json(segment)) for segment in segments])


def accepted_in(folder: Folder) -> Accepted | None:
    """What the output has, whosever and whatever it is."""
    return accepted_by(folder, last_commit(folder))


def last_commit(folder: Folder) -> FolderCommit | None:
    """One that was listed and is gone has later ones: it is listed again."""
    while numbers := _numbers(folder):
        path = commit_path(max(numbers))
        with storage_errors(folder):
            found = storage.read_files(folder, [path])
        if path in found:
            return commit_from_json(found[path], name=f"{folder}/{path}")
    with storage_errors(folder):
        if storage.exists(folder, HEAD):
            raise SinkError(f"{folder}/{COMMITS} has no commit, and {HEAD} says that it had", hint="restore it, or deliver to a new folder")
    return None


def accepted_by(folder: Folder, last: FolderCommit | None) -> Accepted | None:
    """What is accepted by `last` and all commits before it; None: by version 1."""
    if last is not None and last.segments:
        return _accepted(last.segments[-1])
    seq = _accepted_by_version_1(folder) if last is None else last.accepted
    if seq is None:
        return None
    path = segment_path(seq)
    with storage_errors(folder):
        data = storage.read_files(folder, [path]).get(path)
    return Accepted(seq) if data is None else _accepted(segment_from_json(data, name=f"{folder}/{path}"))


def _accepted_by_version_1(folder: Folder) -> Seq | None:
    with storage_errors(folder):
        names = storage.list_names(replace(folder, root=folder.path(SEGMENTS)), deep=False)
    seqs = sorted(seq for seq in map(seq_of, names) if seq is not None)
    if seqs and seqs[-1] - seqs[0] != len(seqs) - 1:
        raise SinkError(f"{folder}/{SEGMENTS} has a gap before {seqs[-1]}", hint="restore what is gone, or use a new folder")
    return seqs[-1] if seqs else None


def _accepted(segment: DeliveredSegment) -> Accepted:
    return Accepted(segment.seq, segment.upto_ts, segment.manifest)


def _numbers(folder: Folder) -> list[int]:
    with storage_errors(folder):
        names = storage.list_names(replace(folder, root=folder.path(COMMITS)), deep=False)
    return [int(number) for number in map(seq_of, names) if number is not None]


def _first(before: Stored[None] | None, last: FolderCommit | None, segments: Sequence[DeliveredSegment]) -> Seq | None:
    """The first segment that the output ever accepted."""
    if last is not None and last.first is not None:
        return last.first
    begins = bool(segments) and (before is None or before.state.accepted is None)
    return segments[0].seq if begins else None


def _version(stored: Stored[None] | None) -> FolderVersion | None:
    if stored is None:
        return None
    assert isinstance(stored.version, FolderVersion)
    return stored.version
