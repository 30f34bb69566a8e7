"""Where changes wait outside of memory: told at once if they could not."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from sidecar.shared.errors import ConfigError, LogBroken, StorageFull
from sidecar.shared.log.spill import FileSpill
from sidecar.shared.model.nouns import Change, CommitTs, Lane, Rank

RUN = [Change(CommitTs(ts), Rank.PUT, "shop", "orders", b"k", b"v", Lane("t/0"), ts) for ts in range(1, 2500)]


def test_a_run_comes_back_as_it_was_and_leaves_no_file(tmp_path: Path) -> None:
    assert list(FileSpill(str(tmp_path)).write(RUN)) == RUN
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("place", ["absent", "file"])
def test_a_folder_that_is_none_is_refused_before_anything_has_to_wait_there(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"log\.spill_folder .* cannot be written: it is no folder"):
        FileSpill(str(tmp_path / place))


def test_a_folder_that_may_not_be_written_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # root, whom tests may run as, may write everywhere
    with pytest.raises(ConfigError, match="may not write it"):
        FileSpill(str(tmp_path))


def test_a_folder_that_went_away_is_an_error_of_ours(tmp_path: Path) -> None:
    (folder := tmp_path / "spill").mkdir()
    spill = FileSpill(str(folder))
    folder.rmdir()
    with pytest.raises(LogBroken, match=r"log\.spill_folder"):
        spill.write(RUN)


def test_a_full_disk_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: object) -> None:
        raise OSError(28, "No space left on device")

    spill = FileSpill(str(tmp_path))
    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with pytest.raises(StorageFull, match=r"log\.spill_folder"):
        spill.write(RUN)
