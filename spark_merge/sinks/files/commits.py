"""The files sink's position: commits one after another, each created exclusively. Whoever makes the next one has read all before it.

    open     the next commit says who the owner is: a former one, who counts on that number for itself, can commit no more
    accept   the next commit names the segments with their files, then `_segments` repeats it for readers

A crash between a commit and its `_segments` is mended by the next owner before it opens. The last commit is found from `_head.json`,
which is at or before it, however long the output is.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace
from itertools import count

from sidecar.core.model import Seq
from sidecar.errors import OwnershipLost, SinkError
from sidecar.log import storage
from sidecar.log.storage import Folder
from spark_merge.contract import Owner
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
    head_from_json,
    head_to_json,
    segment_path,
    segment_to_json,
    seq_of,
    storage_errors,
)

HEAD_EVERY = 50
"""Commits between two writes of `_head.json`: what an opening owner reads at most, but for a former one's last word."""


class Commits:
    """For one owner at a time. Where no commit is, version 1's `_segments` say how far the output is."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._by = secrets.token_hex(8)
        self._last: Commit | None = None

    def look(self) -> Seq | None:
        """The last accepted segment; nothing is written."""
        last = self._find()
        return self._accepted_by_version_1() if last is None else last.accepted

    def open(self, epoch: int | None) -> Commit:
        """Become the owner. Raises OwnershipLost if a later epoch has opened it, SinkError where the fence would not hold."""
        self._check_exclusive()
        while True:
            last = self._find()
            if last is not None:
                self._repeat_for_readers(last.segments)
            accepted = self._accepted_by_version_1() if last is None else last.accepted
            opened = Commit(last.number + 1 if last else 0, self._next_owner(last, epoch), self._by, accepted)
            if self._create(opened):
                self._last = opened
                self._write_head(opened.number)
                return opened

    def accept(self, segments: Sequence[DeliveredSegment]) -> None:
        """Raises OwnershipLost for a former owner, SinkError for a gap or a step back."""
        assert self._last is not None, "a sink is opened first"
        for before, segment in zip([None, *segments], segments, strict=False):
            self._check_next(segment.seq, after=before.seq if before else self._last.accepted)
        commit = Commit(self._last.number + 1, self._last.owner, self._by, segments[-1].seq, tuple(segments))
        if not self._create(commit):
            raise self._taken()
        self._last = commit
        self._repeat_for_readers(segments)
        if commit.number % HEAD_EVERY == 0:
            self._write_head(commit.number)

    def _check_next(self, seq: Seq, *, after: Seq | None) -> None:
        if after is not None and seq != after + 1:
            raise SinkError(
                f"{self._folder} has accepted segment {after} and is given {seq}",
                hint="start the merge worker again; if it repeats, report it: this is a defect of ticdc-dump",
            )

    def _next_owner(self, last: Commit | None, epoch: int | None) -> Owner:
        if last is None:
            return Owner(epoch or 0, 1)
        if epoch is not None and epoch < last.owner.epoch:
            raise OwnershipLost(
                f"{self._folder} is written by owner epoch {last.owner.epoch}, this worker serves epoch {epoch}",
                hint="nothing: the later owner has a merge worker of its own",
            )
        known = last.owner.epoch if epoch is None else epoch
        return Owner(known, last.owner.incarnation + 1 if known == last.owner.epoch else 1)

    def _taken(self) -> OwnershipLost:
        return OwnershipLost(
            f"another merge worker has opened {self._folder} after this one: this one accepts nothing any more",
            hint="nothing, if it was started in this one's place; else stop one of them: one log has one worker",
        )

    # ---- files ------------------------------------------------------------------------------------------------------

    def _find(self) -> Commit | None:
        with storage_errors(self._folder):
            hint = storage.read_files(self._folder, [HEAD]).get(HEAD)
            if hint is None:
                names = storage.list_names(replace(self._folder, root=self._folder.path(COMMITS)), deep=False)
                numbers = [int(number) for number in map(seq_of, names) if number is not None]
                if not numbers:
                    return None
                number = max(numbers)
            else:
                number = head_from_json(hint, name=f"{self._folder}/{HEAD}")
        return self._read_on(number)

    def _read_on(self, number: int) -> Commit:
        """The last commit, from one that is there."""
        last: Commit | None = None
        for start in count(number, HEAD_EVERY):
            names = [commit_path(at) for at in range(start, start + HEAD_EVERY)]
            with storage_errors(self._folder):
                found = storage.read_files(self._folder, names)
            for name in names:
                if name not in found:
                    break
                last = commit_from_json(found[name], name=f"{self._folder}/{name}")
            if len(found) < len(names):
                break
        if last is None:
            raise SinkError(
                f"{self._folder}/{commit_path(number)} is gone, which {HEAD} names", hint="restore it, or deliver to a new folder"
            )
        return last

    def _check_exclusive(self) -> None:
        with storage_errors(self._folder):
            exclusive = storage.keeps_exclusive(self._folder, PROBE)
        if not exclusive:
            raise SinkError(
                f"{self._folder} lets a file be created twice, so a former worker could overwrite the output",
                hint="use a storage that honours `If-None-Match: *` (S3, MinIO), or a local or network file system",
            )

    def _create(self, commit: Commit) -> bool:
        with storage_errors(self._folder):
            return storage.create_exclusively(self._folder, commit_path(commit.number), commit_to_json(commit))

    def _repeat_for_readers(self, segments: Sequence[DeliveredSegment]) -> None:
        with storage_errors(self._folder):
            storage.write_in_order(self._folder, [(segment_path(segment.seq), segment_to_json(segment)) for segment in segments])

    def _write_head(self, number: int) -> None:
        with storage_errors(self._folder):
            storage.write_atomically(self._folder, HEAD, head_to_json(number))

    def _accepted_by_version_1(self) -> Seq | None:
        with storage_errors(self._folder):
            names = storage.list_names(replace(self._folder, root=self._folder.path(SEGMENTS)), deep=False)
        seqs = sorted(seq for seq in map(seq_of, names) if seq is not None)
        if seqs and seqs[-1] - seqs[0] != len(seqs) - 1:
            raise SinkError(f"{self._folder}/{SEGMENTS} has a gap before {seqs[-1]}", hint="restore what is gone, or use a new folder")
        return seqs[-1] if seqs else None
