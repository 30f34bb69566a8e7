"""The files sink's position over months: few commits stay, and neither a reader nor a former owner is led astray by those that went."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from sidecar.shared.errors import OwnershipLost, SinkError
from sidecar.shared.log import storage
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import CommitTs, Seq
from spark_merge.port.contract import Accepted, Owner
from spark_merge.sinks.folder.layout import (
    COMMITS,
    HEAD,
    SEGMENTS,
    DeliveredSegment,
    FolderCommit,
    FolderIdentity,
    segment_path,
)
from spark_merge.sinks.folder.output import FolderPosition, OutputFolder, accepted_in, commits_of, position_of
from spark_merge.sinks.kit import chain as module
from spark_merge.sinks.kit.chain import CommitChain
from spark_merge.sinks.kit.errors import sink_folder

KEPT = 3


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT", KEPT)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return sink_folder(str(tmp_path / "out"))


def position_in(folder: Folder) -> FolderPosition:
    return position_of(OutputFolder(folder, FolderIdentity("log", "jsonl", 0, 0)))


def opened(folder: Folder) -> FolderPosition:
    commits = position_in(folder)
    commits.open(None)
    return commits


def accept(commits: FolderPosition, *seqs: int, manifest: str = "mine") -> None:
    for seq in seqs:
        segment = DeliveredSegment(Seq(seq), CommitTs(100 * seq), (), None, manifest)
        commits.accept(Accepted(segment.seq, segment.upto_ts, manifest), first=segment.seq, payload=[segment])


def numbers(folder: Folder) -> list[int]:
    return sorted(int(name[-25:-5]) for name in storage.list_names(folder, deep=True) if name.startswith(COMMITS))


def test_a_file_a_batch_does_not_stay(folder: Folder) -> None:
    mine = opened(folder)
    for seq in range(1, 100):
        accept(mine, seq)
        assert numbers(folder)[-1] == seq
        assert KEPT <= len(numbers(folder)) <= 2 * KEPT + 1 or seq < KEPT
    assert accepted_in(folder) == (99, 9900, "mine")
    assert len(storage.list_names(folder, deep=True)) == len(numbers(folder)) + 99 + 3, f"{SEGMENTS} are the readers', and stay"


@pytest.mark.parametrize("behind", [1, KEPT, 2 * KEPT, 50])
def test_a_previous_owner_can_not_accept_under_a_number_that_was_removed(folder: Folder, behind: int) -> None:
    previous = opened(folder)
    accept(previous, 1)
    mine = opened(folder)
    accept(mine, *range(2, 2 + behind))
    asks: list[Callable[[], None]] = [previous.check, lambda: accept(previous, 2, manifest="of the former")]
    for ask in [*asks, *asks]:
        with pytest.raises(OwnershipLost):
            ask()
        assert accepted_in(folder) == (1 + behind, 100 * (1 + behind), "mine")
    assert b"of the former" not in storage.read_file(folder, segment_path(Seq(2)))
    mine.check()
    accept(mine, 2 + behind)
    accept(opened(folder), 3 + behind)


def test_one_that_opens_under_a_number_that_was_removed_opens_after_the_last(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has read the last one, and others go on for long before it makes its own."""
    accept(opened(folder), 1)
    create, others = CommitChain._create, list[FolderPosition]()

    def amid(self: CommitChain[FolderCommit, None, Sequence[DeliveredSegment]], commit: FolderCommit) -> bool:
        if not others:
            others.append(position_in(folder))
            others[0].open(None)
            accept(others[0], *range(2, 30))
        return create(self, commit)

    with monkeypatch.context() as patch:
        patch.setattr(CommitChain, "_create", amid)
        late = position_in(folder)
        state = late.open(None)
    assert (state.accepted, state.owner) == ((29, 2900, "mine"), Owner(0, 3))
    with pytest.raises(OwnershipLost):
        accept(others[0], 30)
    accept(late, 30)


def test_a_reader_that_is_slow_reads_the_last_one(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = opened(folder)
    accept(mine, 1)
    read, waiting = storage.read_files, [lambda: accept(mine, *range(2, 30))]

    def slow(place: Folder, names: list[str]) -> dict[str, bytes]:
        while waiting:
            waiting.pop()()
        return read(place, names)

    with monkeypatch.context() as patch:
        patch.setattr(storage, "read_files", slow)
        assert accepted_in(folder) == (29, 2900, "mine")


def test_what_was_collected_before_goes_when_it_is_opened(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(module, "KEPT", 10**6)
        mine = opened(folder)
        accept(mine, *range(1, 40))
    assert len(numbers(folder)) == 40
    last = opened(folder)
    assert numbers(folder) == [37, 38, 39, 40]
    with pytest.raises(OwnershipLost):
        accept(mine, 40)
    accept(last, 40)


@pytest.mark.parametrize("act", [FolderPosition.look, lambda commits: commits.open(None)], ids=["look", "open"])
def test_commits_that_are_lost_are_not_taken_for_none(folder: Folder, act: Callable[[FolderPosition], object]) -> None:
    accept(opened(folder), 1, 2)
    storage.remove(folder, [commits_of(folder).path(number) for number in numbers(folder)])
    with pytest.raises(SinkError, match=f"{COMMITS} has no commit, and {HEAD} says that it had"):
        act(position_in(folder))
