"""Whose log it is, and which one."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar.shared.errors import LogBroken
from sidecar.shared.log import storage
from sidecar.shared.log.identity import CHANGEFEED_NAME, OWN_ID_NAME, claim_log, continues, known_id, name_of, own_id
from sidecar.shared.log.storage import Folder


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return storage.open_folder(str(tmp_path))


def test_a_log_has_one_id_for_ever_whoever_needs_it_first(folder: Folder) -> None:
    assert known_id(folder) == ""
    assert not storage.exists(folder, OWN_ID_NAME), "asking writes nothing"
    text = own_id(folder)
    assert claim_log(folder, "c/n/cf/1") == own_id(folder) == known_id(folder) == text


def test_two_logs_of_one_changefeed_are_two(tmp_path: Path) -> None:
    one, other = (claim_log(storage.open_folder(str(tmp_path / name)), "c/n/cf/1") for name in "ab")
    assert one != other


def test_a_log_of_before_gets_its_id_when_it_is_claimed(folder: Folder) -> None:
    storage.write_atomically(folder, CHANGEFEED_NAME, b"c/n/cf/1")
    assert len(claim_log(folder, "c/n/cf/1")) == 32


def test_the_log_of_another_changefeed_gets_none(folder: Folder) -> None:
    storage.write_atomically(folder, CHANGEFEED_NAME, b"c/n/cf/2")
    with pytest.raises(LogBroken, match="is of changefeed c/n/cf/2, and this sidecar serves c/n/cf/1"):
        claim_log(folder, "c/n/cf/1")
    assert known_id(folder) == ""


@pytest.mark.parametrize("data", [b"", b"x", b"\xff" * 32, b"0" * 33, b"0" * 32 + b"\n"])
def test_what_is_no_id_is_a_broken_log(folder: Folder, data: bytes) -> None:
    storage.write_atomically(folder, OWN_ID_NAME, data)
    with pytest.raises(LogBroken, match="which is no log's id"):
        claim_log(folder, "c/n/cf/1")


def test_what_only_names_the_changefeed_is_continued_and_what_names_another_log_is_not() -> None:
    mine = name_of("c/n/cf/1", "ab")
    assert name_of(mine, "ab") == mine
    assert continues(mine, mine)
    assert continues("c/n/cf/1", mine)
    assert not continues(name_of("c/n/cf/1", "cd"), mine)
    assert not continues("c/n/cf/2", mine)
    assert not continues("", mine)
    assert not continues(mine, "c/n/cf/1")
    assert not continues("", "c/n/cf/1")
