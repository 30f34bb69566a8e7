"""The files sink's position: commits one after another, each created exclusively. Whoever makes the next one has read all before it.

    open     the next commit says who the owner is: a former one, who counts on that number for itself, can commit no more
    accept   the next commit names the segments with their files, then `_segments` repeats it for readers

A crash between a commit and its `_segments` is mended by the next owner before it opens. The last commit alone counts and is found by a
listing, for all but the last few are removed. A former owner may then make again a number that was removed: so whoever makes one, or asks
whether its own is the last, looks whether there are later ones; and there are, or its number would still be there.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace

from sidecar.core.model import Seq
from sidecar.errors import SinkError
from sidecar.log import storage
from sidecar.log.storage import Folder
from spark_merge.contract import Accepted, Owner
from spark_merge.sinks.fence import check_exclusive, check_next, taken
from spark_merge.sinks.files.layout import (
    COMMITS,
    HEAD,
    PROBE,
    SEGMENTS,
    Commit,
    DeliveredSegment,
    commit_from_json,
    commit_path,
    commit_to_json,
    head_to_json,
    segment_from_json,
    segment_path,
    segment_to_json,
    seq_of,
    storage_errors,
)

KEPT = 50
"""Commits that stay before the last one, for who looks into what happened. As many again gather before they are removed."""


class Commits:
    """For one owner at a time. Where no commit is, version 1's `_segments` say how far the output is."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._by = secrets.token_hex(8)
        self._last: Commit | None = None

    def look(self) -> Accepted | None:
        """The last accepted segment; nothing is written."""
        return self.told(self._find())

    def told(self, last: Commit | None) -> Accepted | None:
        """What is accepted by it and all before it; None: by version 1."""
        if last is not None and last.segments:
            return _accepted(last.segments[-1])
        seq = self._accepted_by_version_1() if last is None else last.accepted
        if seq is None:
            return None
        with storage_errors(self._folder):
            told = storage.read_files(self._folder, [segment_path(seq)]).get(segment_path(seq))
        return Accepted(seq) if told is None else _accepted(segment_from_json(told, name=f"{self._folder}/{segment_path(seq)}"))

    def open(self, epoch: int | None) -> Commit:
        """Become the owner. Raises OwnershipLost if a later epoch has opened it, SinkError where the fence would not hold."""
        check_exclusive(self._folder, PROBE)
        while True:
            last = self._find()
            if last is not None:
                self._repeat_for_readers(last.segments)
            accepted = self._accepted_by_version_1() if last is None else last.accepted
            owner = Owner.after(last.owner if last else None, epoch, of=self._folder)
            opened = Commit(last.number + 1 if last else 0, owner, self._by, accepted)
            if self._create(opened):
                self._last = opened
                with storage_errors(self._folder):
                    storage.write_atomically(self._folder, HEAD, head_to_json(opened.number))
                self._forget(opened.number)
                return opened

    def check(self, first: Seq) -> None:
        """What `accept` of segments from `first` on would raise by now; nothing is written."""
        assert self._last is not None, "a sink is opened first"
        check_next(self._folder, self._last.accepted, first)
        if max(self._listed()) > self._last.number:
            raise taken(self._folder)

    def accept(self, segments: Sequence[DeliveredSegment]) -> None:
        """Raises OwnershipLost for a former owner, SinkError for a gap or a step back."""
        assert self._last is not None, "a sink is opened first"
        for before, segment in zip([None, *segments], segments, strict=False):
            check_next(self._folder, before.seq if before else self._last.accepted, segment.seq)
        commit = Commit(self._last.number + 1, self._last.owner, self._by, segments[-1].seq, tuple(segments))
        if not self._create(commit):
            raise taken(self._folder)
        self._last = commit
        self._repeat_for_readers(segments)
        if commit.number % KEPT == 0:
            self._forget(commit.number)

    # ---- files ------------------------------------------------------------------------------------------------------

    def _find(self) -> Commit | None:
        """The last one, unless it has been removed since it was listed: then there are later ones."""
        while numbers := self._listed():
            path = commit_path(max(numbers))
            with storage_errors(self._folder):
                found = storage.read_files(self._folder, [path])
            if path in found:
                return commit_from_json(found[path], name=f"{self._folder}/{path}")
        with storage_errors(self._folder):
            if storage.exists(self._folder, HEAD):
                raise SinkError(
                    f"{self._folder}/{COMMITS} has no commit, and {HEAD} says that it had", hint="restore it, or deliver to a new folder"
                )
        return None

    def _forget(self, last: int) -> None:
        with storage_errors(self._folder):
            storage.remove(self._folder, [commit_path(number) for number in self._listed() if number < last - KEPT])

    def _listed(self) -> list[int]:
        with storage_errors(self._folder):
            names = storage.list_names(replace(self._folder, root=self._folder.path(COMMITS)), deep=False)
        return [int(number) for number in map(seq_of, names) if number is not None]

    def _create(self, commit: Commit) -> bool:
        with storage_errors(self._folder):
            created = storage.create_exclusively(self._folder, commit_path(commit.number), commit_to_json(commit))
        return created and max(self._listed()) == commit.number

    def _repeat_for_readers(self, segments: Sequence[DeliveredSegment]) -> None:
        with storage_errors(self._folder):
            storage.write_in_order(self._folder, [(segment_path(segment.seq), segment_to_json(segment)) for segment in segments])

    def _accepted_by_version_1(self) -> Seq | None:
        with storage_errors(self._folder):
            names = storage.list_names(replace(self._folder, root=self._folder.path(SEGMENTS)), deep=False)
        seqs = sorted(seq for seq in map(seq_of, names) if seq is not None)
        if seqs and seqs[-1] - seqs[0] != len(seqs) - 1:
            raise SinkError(f"{self._folder}/{SEGMENTS} has a gap before {seqs[-1]}", hint="restore what is gone, or use a new folder")
        return seqs[-1] if seqs else None


def _accepted(segment: DeliveredSegment) -> Accepted:
    return Accepted(segment.seq, segment.upto_ts, segment.manifest)
