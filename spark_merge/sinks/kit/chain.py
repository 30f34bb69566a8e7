"""The position of an output of files (`PositionStore`): commits with numbers, each created exclusively by a worker that has read the one
before.

    opening      the folder says whose output it is → what the last commit accepted is shown → the next commit names the owner → a head
    accepting    the next commit says what is accepted → it is shown

- The last commit counts. What is shown of it is a repetition for readers: a crash between the two is repaired by the next owner, before it
  opens.
- Every now and then a head says what the commits come to, and commits well before it are removed. A previous owner that was frozen may
  create a number again that was removed. So who has created a commit looks for later ones: there are some, or the number would still be
  there.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Generic, NamedTuple, Protocol, TypeVar, cast

from sidecar.shared.errors import OwnershipLost
from sidecar.shared.log import storage
from sidecar.shared.log.storage import Folder
from spark_merge.port.contract import Accepted, Owner
from spark_merge.sinks.kit.fence import check_exclusive, taken
from spark_merge.sinks.kit.position import Missed, OutputState, Stored
from spark_merge.sinks.kit.records import JsonRecord

KEPT = 50
"""Commits that stay before a head, for who examines what happened. As many again gather before they are removed."""

NO_OWNER = Owner(0, 0)
"""Of a folder that has an identity and no commit: a version before commits wrote it, or its first opening died."""

_DIGITS = 20


@dataclass(frozen=True, slots=True)
class NumberedFiles:
    """Files directly in `place`, which are named by their numbers."""

    folder: Folder
    place: str
    ending: str = ""

    def path(self, number: int) -> str:
        return f"{self.place}/{number:0{_DIGITS}d}{self.ending}"

    def names(self) -> list[str]:
        names = storage.list_names(self.folder, under=self.place, deep=False)
        return [name for name in names if name[:_DIGITS].isdecimal() and name[_DIGITS:] == self.ending]

    def numbers(self) -> list[int]:
        return [int(name[:_DIGITS]) for name in self.names()]

    def remove_below(self, number: int) -> None:
        gone = [self.path(one) for one in self.numbers() if one < number]
        storage.remove(self.folder, gone)


class NumberedCommit(Protocol):
    @property
    def number(self) -> int: ...

    @property
    def owner(self) -> Owner: ...


Commit = TypeVar("Commit", bound=NumberedCommit)
Detail = TypeVar("Detail")
Payload = TypeVar("Payload")
Payload_contra = TypeVar("Payload_contra", contravariant=True)


class LastCommit(NamedTuple, Generic[Commit, Detail]):
    """`accepted`, `detail`: by all commits up to this one. `commit` None where there is none."""

    commit: Commit | None
    accepted: Accepted | None
    detail: Detail | None


class CommittedOutput(Protocol[Commit, Detail, Payload_contra]):
    """What an output keeps in its commits. All raise SinkError."""

    commits: NumberedFiles
    record: JsonRecord[Commit]
    probe: str
    """The file with which it is tried whether this storage lets a file be created once only."""

    def log_id(self) -> str | None:
        """Of the log whose output the folder is, as it says; None where it is new."""

    def claim(self, log_id: str) -> bool:
        """The folder says that it is this log's, in the last format; False where it was new and another worker was first."""

    def last(self) -> LastCommit[Commit, Detail]: ...

    def next(
        self, number: int, by: str, before: Stored[Detail] | None, after: OutputState[Detail], payload: Payload_contra | None
    ) -> Commit:
        """`by`: drawn by this process, so that two workers that open at once can tell whose a commit is."""

    def show(self, commit: Commit, check_last: Callable[[], None]) -> None:
        """What it accepts, to readers. May be done again, and by several at once. `check_last` raises OwnershipLost where there is a later
        one: before what would be overwritten."""

    def head(self, number: int, detail: Detail | None) -> None:
        """What the commits up to this one come to."""


class CommitChain(Generic[Commit, Detail, Payload]):
    def __init__(self, output: CommittedOutput[Commit, Detail, Payload]) -> None:
        self._output, self._commits = output, output.commits
        self._by = secrets.token_hex(8)
        self._mine: Stored[Detail] | None = None
        self.place = str(output.commits.folder)

    def read(self) -> Stored[Detail] | None:
        """A commit never changes: while this process' own one is the last, a listing is enough."""
        if (mine := self._mine) is not None and self._is_last(cast("Commit", mine.version).number):
            return mine
        log_id = self._output.log_id()
        if log_id is None:
            return None
        last, accepted, detail = self._output.last()
        return Stored(OutputState(log_id, NO_OWNER if last is None else last.owner, accepted, detail), last)

    def compare_and_swap(
        self, before: Stored[Detail] | None, after: OutputState[Detail], payload: Payload | None = None
    ) -> Stored[Detail] | Missed:
        opening = before is None or after.owner != before.state.owner
        last = None if before is None else cast("Commit | None", before.version)
        if opening and not self._may_open(last, after.log_id):
            return Missed.CONFLICT
        number = 0 if last is None else last.number + 1
        commit = self._output.next(number, self._by, before, after, payload)
        if not self._create(commit):
            return Missed.CONFLICT
        if not opening:
            self._show(commit)
        if opening or number % KEPT == 0:
            self._output.head(number, after.detail)
            self._commits.remove_below(number - KEPT)
        self._mine = Stored(after, commit)
        return self._mine

    def _may_open(self, last: Commit | None, log_id: str) -> bool:
        check_exclusive(self._commits.folder, self._output.probe)
        if not self._output.claim(log_id):
            return False
        try:
            if last is not None:
                self._show(last)
        except OwnershipLost:
            return False
        return True

    def _create(self, commit: Commit) -> bool:
        folder, path = self._commits.folder, self._commits.path(commit.number)
        created = storage.create_exclusively(folder, path, self._output.record.to_json(commit))
        return created and self._is_last(commit.number)

    def _show(self, commit: Commit) -> None:
        self._output.show(commit, partial(self._check_last, commit.number))

    def _check_last(self, number: int) -> None:
        if not self._is_last(number):
            raise taken(self.place)

    def _is_last(self, number: int) -> bool:
        return self._commits.names()[-1:] == [self._commits.path(number).rpartition("/")[2]]
