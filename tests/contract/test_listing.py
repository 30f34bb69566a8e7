"""What every storage's listings of files keep: one suite for a local folder, memory:// and S3 (moto)."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from sidecar.feeds.storage.listing import Listing
from sidecar.shared.log import storage
from sidecar.shared.log.storage import FileEntry, Folder, bare, list_files, local_tree, s3_listing
from tests.support.eventually import eventually
from tests.support.services.s3 import S3, ErrorAnswer

FOLDERS = count()
HOSTILE = ("a b", "a%20b", "a+b", "a&b<c>", "ü/日本 語", "x/.hidden", "x/CDC1.json.tmp.1f", ".x.1.tmp", "x/'\"", "100%", "~")


@pytest.fixture(scope="module")
def s3() -> Iterator[S3]:
    with S3() as server:
        yield server


@pytest.fixture(params=["local", "memory", "s3"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Folder:
    if request.param == "s3":
        url = request.getfixturevalue("s3").uri(f"listing-{next(FOLDERS)}", keys=True)
    else:
        url = str(tmp_path / "a[1]*") if request.param == "local" else f"memory://listing{tmp_path}"
    return storage.open_folder(url).opened_for(bare)


@pytest.fixture
def between(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """So much time passes for a local folder that nothing in it is young; its clock shows another time than before."""
    passed_ns = count(1, local_tree.WRITTEN_S_MAX * 2_000_000_000)
    monkeypatch.setattr(time, "monotonic_ns", lambda: next(passed_ns))

    def pass_time() -> None:
        probe = tmp_path / "probe"
        probe.write_bytes(b"")
        first = probe.stat().st_mtime_ns

        def is_later() -> bool:
            probe.write_bytes(b"1")
            return probe.stat().st_mtime_ns > first

        eventually(is_later)

    return pass_time


def write(folder: Folder, name: str, data: bytes) -> None:
    with storage.new_file(folder, name, durable=False) as file:
        file.write(data)


def names_of(entries: list[FileEntry]) -> list[str]:
    return [entry.name for entry in entries]


def test_files_are_listed_by_the_names_that_read_them(folder: Folder) -> None:
    assert list_files(folder) == []
    for name, data in (("b", b"12"), ("x/y/a", b"1"), ("x/b", b""), ("xx/a", b"1")):
        write(folder, name, data)
    entries = list_files(folder)
    assert [(entry.name, entry.size) for entry in entries] == [("b", 2), ("x/b", 0), ("x/y/a", 1), ("xx/a", 1)]
    assert list_files(folder, under="x") == [entry for entry in entries if entry.name.startswith("x/")]
    assert list_files(folder, under="nothing") == []
    assert storage.list_names(folder, deep=True) == names_of(entries), "what reads a listing's XML leaves s3fs its own"
    assert len({entry.modified_ms // 3_600_000 for entry in entries}) <= 2, "all of them were written within the hour"
    assert entries[0].modified_ms > 1_600_000_000_000


def test_the_start_of_a_file_is_read_alone(folder: Folder) -> None:
    write(folder, "a", b"0123456789")
    assert [storage.read_start(folder, "a", size) for size in (1, 4, 10, 100)] == [b"0", b"0123", b"0123456789", b"0123456789"]
    with pytest.raises(FileNotFoundError):
        storage.read_start(folder, "b", 4)


def test_hostile_names_are_listed_as_they_are(folder: Folder) -> None:
    listing = Listing(folder)
    for name in HOSTILE:
        write(folder, name, name.encode())
    entries = listing.changes().now
    assert names_of(entries) == sorted(HOSTILE)
    assert all(storage.read_file(folder, entry.name) == entry.name.encode() for entry in entries)
    assert listing.changes()[:2] == ([], [])


def test_another_content_of_one_size_has_another_tag(folder: Folder) -> None:
    listing = Listing(folder)
    write(folder, "metadata", b"1")
    (first,) = listing.changes().now
    write(folder, "metadata", b"2")
    (second,) = listing.changes().now
    assert (second.name, second.size) == (first.name, first.size)
    assert second.tag != first.tag


def test_a_folder_that_is_gone_is_empty(folder: Folder) -> None:
    listing = Listing(folder)
    assert listing.changes()[:2] == ([], [])
    write(folder, "x/a", b"1")
    assert names_of(listing.changes().now) == ["x/a"]
    storage.remove(folder, ["x/a"])
    assert listing.changes()[:2] == ([], ["x/a"])


def test_a_bucket_that_is_not_there_is_absent(s3: S3) -> None:
    folder = storage.open_folder(s3.uri("", keys=True).replace("s3://lake/", "s3://nobody-s/")).opened_for(bare)
    for call in (lambda: list_files(folder), Listing(folder).changes):
        with pytest.raises(storage.Absent):
            call()


def test_a_listing_that_failed_loses_nothing(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some of its ranges had an answer."""
    monkeypatch.setattr(s3_listing, "RANGE_KEYS", 2)
    monkeypatch.setattr(s3_listing, "RANGES_AT_ONCE_MAX", 1)
    folder = storage.open_folder(s3.uri(f"listing-{next(FOLDERS)}", keys=True)).opened_for(bare)
    listing = Listing(folder)
    for name in "acegi":
        write(folder, name, b"1")
    listing.changes()
    for name in "bdfhj":
        write(folder, name, b"1")
    with s3.answering(ErrorAnswer(signed_by="nobody"), ErrorAnswer(403, "AccessDenied")), pytest.raises(storage.Refused):
        listing.changes()
    assert names_of(listing.changes().now) == [*"bdfhj"]


def test_a_bucket_is_listed_from_its_root(s3: S3) -> None:
    name = f"listing-{next(FOLDERS)}/a"
    folder = storage.open_folder(s3.uri("", keys=True)).opened_for(bare)
    write(folder, name, b"1")
    assert name in names_of(list_files(folder))


def test_a_key_of_a_folder_is_no_file(s3: S3) -> None:
    folder = storage.open_folder(s3.uri(f"listing-{next(FOLDERS)}", keys=True)).opened_for(bare)
    for key in ("", "x/"):
        storage.s3.fs(folder).call_s3("put_object", Bucket="lake", Key=f"{folder.root.partition('/')[2]}/{key}", Body=b"")
    write(folder, "x/a", b"1")
    assert names_of(list_files(folder)) == ["x/a"]


class Model:
    """Random writes, removals and renames, in few folders, so that they meet."""

    def __init__(self, folder: Folder, seed: int) -> None:
        self.folder, self.random = folder, random.Random(seed)
        self.files: dict[str, bytes] = {}
        self._numbers = count()

    def step(self) -> None:
        chosen = self.random.random()
        if not self.files or chosen < 0.55:
            self._write(self._name())
        elif chosen < 0.7:
            self._write(self.random.choice([*self.files]))
        elif chosen < 0.85:
            self._remove(self.random.choice([*self.files]))
        else:
            self._rename(self.random.choice([*self.files]), self._name())

    def _name(self) -> str:
        parts = [self.random.choice("ab %ü") for _ in range(self.random.randint(0, 3))]
        return "/".join([*(f"d{part}" for part in parts), f"f{self.random.randint(0, 4)}"])

    def _write(self, name: str) -> None:
        self.files[name] = b"%d" % next(self._numbers)
        write(self.folder, name, self.files[name])

    def _remove(self, name: str) -> None:
        del self.files[name]
        storage.remove(self.folder, [name])

    def _rename(self, name: str, to: str) -> None:
        if self.folder.protocol == "file" and to in self.files:
            Path(self.folder.path(name)).replace(self.folder.path(to))
            self.files[to] = self.files.pop(name)
        elif to not in self.files:
            storage.copy_files(self.folder, [(name, to)])
            self.files[to] = self.files[name]
            self._remove(name)


@pytest.mark.parametrize("seed", range(4))
def test_accumulated_changes_are_a_listing(folder: Folder, between: Callable[[], None], seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_listing, "RANGE_KEYS", 3)
    model, listing = Model(folder, seed), Listing(folder)
    contents: dict[str, tuple[FileEntry, bytes]] = {}
    for _ in range(12):
        for _ in range(model.random.choice((0, 1, 1, 2, 9))):
            model.step()
        now, gone, _ = listing.changes()
        for name in gone:
            del contents[name]
        contents |= {entry.name: (entry, storage.read_file(folder, entry.name)) for entry in now}
        assert {name: data for name, (_, data) in contents.items()} == model.files, f"seed {seed}"
        assert sorted(entry for entry, _ in contents.values()) == list_files(folder)
        assert all(entry.size == len(data) for entry, data in contents.values())
        between()
    assert model.files
