"""Folders of a child process: gone with it, and nobody else's are touched."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from sidecar.shared.errors import ConfigError, StorageFull
from sidecar.shared.process.scratch import PREFIX, Scratch, sweep


def test_each_place_gets_a_folder_of_this_user_only_and_keeps_nothing_of_it(tmp_path: Path) -> None:
    places = [tmp_path / "a", tmp_path / "b"]
    for place in places:
        place.mkdir()
    made = Scratch(places)
    assert [folder.parent for folder in made.folders] == places
    assert all(folder.stat().st_mode & 0o777 == 0o700 for folder in made.folders)
    (made.folders[0] / "deep").mkdir()
    (made.folders[0] / "deep" / "block").write_text("a row")
    made.remove()
    assert not any(list(place.iterdir()) for place in places)
    made.remove()


def test_what_a_killed_maker_left_is_swept_and_what_is_in_use_is_not(tmp_path: Path) -> None:
    used = Scratch([tmp_path])
    left = Scratch([tmp_path])
    (gone,) = left.folders
    for lock in left.locks:
        os.close(lock)
    (tmp_path / f"{PREFIX}of-somebody").mkdir()
    (tmp_path / "other").mkdir()
    another = Scratch([tmp_path])
    assert not gone.exists()
    assert all(folder.exists() for folder in (*used.folders, *another.folders))
    assert (tmp_path / "other").exists()
    assert (tmp_path / f"{PREFIX}of-somebody").exists(), "without a lock it may be about to get one"


def test_a_child_that_outlives_its_maker_keeps_the_folder(tmp_path: Path) -> None:
    made = Scratch([tmp_path])
    command = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=made.locks) as child:
        (folder,) = made.folders
        for lock in made.locks:
            os.close(lock)
        sweep(tmp_path)
        assert folder.exists()
        child.communicate()
        sweep(tmp_path)
        assert not folder.exists()


def test_what_the_child_started_keeps_the_folder_too(tmp_path: Path) -> None:
    """As a JVM that still starts when sidecar and worker are killed: it holds no lock, and makes its files later."""
    made = Scratch([tmp_path])
    (folder,) = made.folders
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE, start_new_session=True) as orphan:
        made.used_by(orphan.pid)
        for lock in made.locks:
            os.close(lock)
        sweep(tmp_path)
        assert folder.exists()
        orphan.communicate()
        sweep(tmp_path)
        assert not folder.exists()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EMFILE])
def test_what_the_machine_lacks_for_a_while_is_no_wrong_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def lacking(**_: object) -> str:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(tempfile, "mkdtemp", lacking)
    with pytest.raises(StorageFull, match=os.strerror(number)):
        Scratch([tmp_path])


@pytest.mark.parametrize("place", ["absent", "file"])
def test_a_place_that_cannot_be_used_is_named(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=f"{tmp_path}/{place}.*\n.*SPARK_LOCAL_DIRS"):
        Scratch([tmp_path, tmp_path / place])
    assert not list(tmp_path.glob(f"{PREFIX}*")), "a half-made one is removed"
