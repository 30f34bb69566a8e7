"""What a sender may forget, on every storage: files under numbers that only one owner gets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sidecar.shared.errors import LogBroken, LogTaken
from sidecar.shared.log import storage
from sidecar.shared.log.inbox import FOLDER, Inbox
from sidecar.shared.log.storage import Folder, open_folder
from tests.support.services.s3 import S3


@pytest.fixture(scope="module")
def bucket() -> Iterator[S3]:
    with S3() as server:
        yield server


@pytest.fixture(params=["local", "s3", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Folder:
    match request.param:
        case "local":
            return open_folder(str(tmp_path))
        case "memory":
            return open_folder(f"memory://inboxes{tmp_path}")
        case _:
            server: S3 = request.getfixturevalue("bucket")
            return open_folder(server.uri(f"inboxes{tmp_path}", keys=True))


def opened(folder: Folder) -> Inbox:
    inbox = Inbox(folder)
    inbox.open()
    return inbox


def all_of(inbox: Inbox) -> list[bytes]:
    """What was sent, in order."""
    results, at = [], inbox.first
    while at < inbox.next:
        part = inbox.read(at)
        results += [entry for entry in part.entries if entry]
        at = part.end
    return results


def files(folder: Folder) -> list[int]:
    names = [name.rpartition("/")[2] for name in storage.list_names(folder, deep=True, beginning=FOLDER)]
    return sorted(int(name) for name in names if name.isdecimal())


def test_what_was_kept_is_there_for_the_next_owner(place: Folder) -> None:
    first = opened(place)
    assert first.append([b"a", b"b"]) == 1, "0 is the owner's own"
    assert first.append([b"c"]) == 3
    second = opened(place)
    assert second.id == first.id != ""
    assert second.append([b"d"]) == 5
    assert all_of(second) == [b"a", b"b", b"c", b"d"]


def test_a_previous_owner_is_out_as_soon_as_another_begins(place: Folder) -> None:
    previous, other = opened(place), opened(place)
    with pytest.raises(LogTaken, match="entry 1 was written by another owner"):
        previous.append([b"late"])
    other.append([b"mine"])
    assert all_of(opened(place)) == [b"mine"]


def test_the_same_entries_of_two_owners_are_not_taken_for_one(place: Folder) -> None:
    """A sender that was not answered sends again to whoever is there."""
    one = opened(place)
    other = Inbox(place)
    other._files, other.id, other.next = [0], one.id, one.next  # it has looked, and not begun yet
    one.append([b"a"])
    with pytest.raises(LogTaken):
        other.append([b"a"])


def test_a_previous_owner_that_slept_through_a_removal_promises_nothing(place: Folder) -> None:
    previous = opened(place)
    previous.append([b"a"])
    other = opened(place)
    other.append([b"b"])
    other.append([b"c"])
    other.trim(other.next)
    assert files(place) == [4]
    with pytest.raises(LogTaken):
        previous.append([b"late"])
    assert files(place) == [4], "a file left behind would stand for one that is gone"


def test_who_begins_while_a_previous_owner_writes_comes_after_it(place: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    previous, other = opened(place), Inbox(place)
    look, writes = other.look, [b"a", b"b"]

    def look_while_it_writes() -> None:
        look()
        if writes:
            previous.append([writes.pop(0)])

    monkeypatch.setattr(other, "look", look_while_it_writes)
    other.open()
    with pytest.raises(LogTaken):
        previous.append([b"late"])
    other.append([b"c"])
    assert all_of(other) == [b"a", b"b", b"c"]


def test_what_nobody_reads_goes_in_whole_files_and_the_last_one_stays(place: Folder) -> None:
    inbox = opened(place)
    inbox.append([b"a", b"b"])
    inbox.append([b"c"])
    inbox.trim(2)
    assert (files(place), inbox.first) == ([1, 3], 1)
    inbox.trim(3)
    assert files(place) == [3]
    inbox.trim(100)
    assert files(place) == [3]
    with pytest.raises(LogBroken, match="entry 2 is gone: the oldest is 3"):
        inbox.read(2)
    assert opened(place).next == 5


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: data[:-2] + b"xy", lambda _: b"", lambda data: b"?" + data[1:]])
def test_a_damaged_file_is_reported_by_name(place: Folder, damage: Callable[[bytes], bytes]) -> None:
    opened(place).append([b"abc"])
    name = f"{FOLDER}/{1:020d}"
    storage.write_atomically(place, name, damage(storage.read_file(place, name)))
    with pytest.raises(LogBroken, match=f"{name} is damaged"):
        opened(place)


def test_a_file_that_is_gone_from_between_is_reported_by_name(place: Folder) -> None:
    inbox = opened(place)
    inbox.append([b"a"])
    inbox.append([b"b"])
    storage.remove(place, [f"{FOLDER}/{1:020d}"])
    with pytest.raises(LogBroken, match="has entries 0 to 0, and the next file begins at 2"):
        all_of(opened(place))
