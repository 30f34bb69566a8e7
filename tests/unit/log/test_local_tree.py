from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sidecar.shared.log import storage
from sidecar.shared.log.storage import Known, local_tree
from sidecar.shared.log.storage.local_tree import STAMP_S_MAX, WRITTEN_S_MAX


class Bucket:
    """A folder of files, its listings, and how many folders each of them listed. `now_ns` is this process's clock."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.now_ns = root, 1
        self.known: Known | None = None
        self.listed = 0
        monkeypatch.setattr(time, "monotonic_ns", lambda: self.now_ns)
        monkeypatch.setattr(os, "scandir", self._counted(os.scandir))

    def _counted(self, real: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def scandir(handle: Any) -> Any:
            self.listed += 1
            return real(handle)

        return scandir

    def write(self, name: str, data: str = "1") -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / f"{path.name}.tmp").write_text(data)
        (path.parent / f"{path.name}.tmp").replace(path)

    def later(self, seconds: float) -> None:
        self.now_ns += int(seconds * 1.002 * 1_000_000_000)

    def changes(self) -> tuple[list[str], list[str]]:
        self.listed = 0
        now, gone, self.known = local_tree.list_changes(str(self.root), self.known)
        return sorted(entry.name for entry in now), sorted(gone)


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    return Bucket(tmp_path / "bucket", monkeypatch)


def settled(bucket: Bucket, *names: str) -> None:
    """Files in folders that are old enough, and listed."""
    for name in names:
        bucket.write(name)
    bucket.changes()
    bucket.later(STAMP_S_MAX)
    bucket.changes()


def test_a_folder_whose_times_are_young_is_listed_until_they_are_not(bucket: Bucket) -> None:
    """Another change in it could leave them as they are."""
    bucket.write("x/a")
    assert (bucket.changes(), bucket.listed) == ((["x/a"], []), 2)
    bucket.later(STAMP_S_MAX / 2)
    assert (bucket.changes(), bucket.listed) == (([], []), 2)
    bucket.later(STAMP_S_MAX / 2)
    assert (bucket.changes(), bucket.listed) == (([], []), 2), "it is listed once when they are old"
    assert (bucket.changes(), bucket.listed) == (([], []), 0)


def test_only_the_folder_with_a_new_file_is_listed(bucket: Bucket) -> None:
    settled(bucket, *(f"shop/t{number}/1/CDC1" for number in range(20)))
    bucket.write("shop/t7/1/CDC2")
    assert (bucket.changes(), bucket.listed) == ((["shop/t7/1/CDC2"], []), 1)
    (bucket.root / "shop/t9/1/CDC1").unlink()
    bucket.write("shop/t8/2/CDC1")
    assert bucket.changes() == (["shop/t8/2/CDC1"], ["shop/t9/1/CDC1"])


def test_a_file_of_this_moment_shows_the_storage_s_clock(bucket: Bucket) -> None:
    """So a first listing does not list again what is old: whatever this process's clock says."""
    bucket.write("x/a")
    later_ns = os.stat(bucket.root / "x").st_ctime_ns + STAMP_S_MAX * 1_000_000_000
    bucket.known = local_tree._Tree(clock_ns=later_ns, at_ns=bucket.now_ns)
    assert (bucket.changes(), bucket.listed) == ((["x/a"], []), 2)
    assert (bucket.changes(), bucket.listed) == (([], []), 0)


def test_a_file_that_grows_in_place_has_changed_though_its_folder_has_not(bucket: Bucket) -> None:
    settled(bucket, "x/a", "x/b")
    with (bucket.root / "x/a").open("a") as file:
        file.write("2")
    assert (bucket.changes(), bucket.listed) == ((["x/a"], []), 0)
    bucket.later(WRITTEN_S_MAX)
    assert (bucket.changes(), bucket.listed) == (([], []), 0)


def test_files_that_are_old_are_not_looked_at(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    settled(bucket, "x/a", "x/b")
    bucket.later(WRITTEN_S_MAX)
    bucket.changes()

    def fails(path: object) -> os.stat_result:
        raise AssertionError(path)

    with monkeypatch.context() as watched:
        watched.setattr(os, "stat", fails)
        assert bucket.changes() == ([], [])


def test_a_young_file_that_vanishes_from_a_settled_folder_is_gone(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the folder's times were read."""
    settled(bucket, "x/a", "x/b")
    real = os.stat

    def stat(path: str, **options: Any) -> os.stat_result:
        if str(path).endswith("x/a"):
            Path(path).unlink(missing_ok=True)
        return real(path, **options)

    monkeypatch.setattr(os, "stat", stat)
    assert bucket.changes() == ([], ["x/a"])
    assert bucket.changes() == ([], [])


def test_another_folder_under_a_known_name_is_listed(bucket: Bucket) -> None:
    settled(bucket, "x/y/a", "x/y/b", "z/y/c")
    shutil.move(bucket.root / "x", bucket.root.parent / "away")
    shutil.move(bucket.root / "z", bucket.root / "x")
    assert bucket.changes() == (["x/y/c"], ["x/y/a", "x/y/b", "z/y/c"])


def test_a_folder_that_becomes_a_file_takes_its_files_away(bucket: Bucket) -> None:
    settled(bucket, "x/y/a")
    shutil.rmtree(bucket.root / "x")
    bucket.write("x")
    assert bucket.changes() == (["x"], ["x/y/a"])


@pytest.mark.parametrize("instead", [None, "a file"])
def test_a_folder_that_vanishes_after_the_one_above_was_listed_is_not_there(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch, instead: str | None
) -> None:
    for name in ("x/a", "y/a", "b"):
        bucket.write(name)
    real = os.open

    def opened(path: str, flags: int, **options: Any) -> int:
        if path.endswith("/bucket/x") and Path(path).is_dir():
            Path(path).rename(bucket.root.parent / "away")
            if instead is not None:
                Path(path).write_text(instead)
        return real(path, flags, **options)

    monkeypatch.setattr(os, "open", opened)
    assert bucket.changes() == (["b", "y/a"], [])
    assert bucket.changes() == (([], []) if instead is None else (["x"], []))


def test_links_are_followed_and_what_is_no_file_is_not_listed(bucket: Bucket) -> None:
    bucket.write("x/a")
    outside = bucket.root.parent / "outside"
    outside.mkdir()
    (outside / "b").write_text("1")
    (bucket.root / "link").symlink_to(outside)
    (bucket.root / "file").symlink_to(outside / "b")
    (bucket.root / "nowhere").symlink_to(outside / "nothing")
    os.mkfifo(bucket.root / "pipe")
    assert bucket.changes() == (["file", "link/b", "x/a"], [])
    (outside / "c").write_text("1")
    assert bucket.changes() == (["link/c"], [])


def test_a_listing_that_fails_keeps_nothing_open_and_can_be_made_again(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket.write("x/a")
    with monkeypatch.context() as broken:

        def fails(_: object) -> None:
            raise PermissionError

        broken.setattr(os, "scandir", fails)
        there = len(os.listdir("/proc/self/fd"))
        with pytest.raises(PermissionError):
            bucket.changes()
        assert len(os.listdir("/proc/self/fd")) == there
    assert bucket.changes() == (["x/a"], [])


def test_where_folders_keep_no_times_every_file_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a mount of a bucket: a file at the root is written again and again, and what a folder says of itself stays."""
    old_ns = time.time_ns() - 5_000_000_000_000
    folder, stat_of = storage.open_folder(str(tmp_path)), os.fstat

    def still(handle: int) -> SimpleNamespace:
        status = stat_of(handle)
        return SimpleNamespace(st_dev=status.st_dev, st_ino=status.st_ino, st_mtime_ns=old_ns, st_ctime_ns=old_ns)

    monkeypatch.setattr(os, "fstat", still)
    (tmp_path / "a").mkdir()
    known: Known | None = None
    for number in range(4):
        (tmp_path / "a" / str(number)).write_bytes(b"1")
        (tmp_path / "metadata").write_bytes(b"1" * (number + 1))
        changes = storage.list_changes(folder, known)
        assert {f"a/{number}", "metadata"} <= {entry.name for entry in changes.now}
        known = changes.known
