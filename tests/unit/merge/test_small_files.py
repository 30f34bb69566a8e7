"""The small files of a log where each request waits for the network (here: one in memory): several are requested at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from sidecar.shared.errors import LogBroken
from sidecar.shared.log import storage
from sidecar.shared.log.manifest import Manifest
from sidecar.shared.log.segment_log import FolderLog
from sidecar.shared.log.storage import Folder, open_folder
from spark_merge.log import read as log_read
from spark_merge.log.read import SmallFiles, iter_rows
from tests.support.requested_files import Requests
from tests.unit.merge.test_read import append


@pytest.fixture
def manifests(request: pytest.FixtureRequest) -> tuple[Folder, list[Manifest]]:
    log = FolderLog(open_folder(f"memory://{request.node.name}"))
    log.recover(epoch=1)
    return log.folder, [append(log, seq, rows=seq % 3 + (seq != 6)) for seq in range(40)]


def read(folder: Folder, manifests: Sequence[Manifest], files: SmallFiles) -> list[int]:
    return [sum(rows.num_rows for rows in iter_rows(folder, one, files=files)) for one in manifests]


def test_the_next_ones_are_requested_with_the_one_that_is_wanted(
    manifests: tuple[Folder, list[Manifest]], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, all_of = manifests
    requests = Requests(monkeypatch)
    assert read(folder, all_of, SmallFiles(folder, all_of)) == [one.rows for one in all_of]
    assert [len(names) for names in requests.together] == [16, 16, 7]
    assert requests.single == []


def test_what_is_held_is_bounded_in_bytes_and_one_is_always_read(
    manifests: tuple[Folder, list[Manifest]], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, all_of = manifests
    monkeypatch.setattr(log_read, "AHEAD_BYTES_MAX", 3 * max(one.bytes for one in all_of))
    requests = Requests(monkeypatch)
    read(folder, all_of, SmallFiles(folder, all_of))
    assert {len(names) for names in requests.together[:-1]} == {3}
    monkeypatch.setattr(log_read, "AHEAD_BYTES_MAX", 1)
    requests.together.clear()
    read(folder, all_of, SmallFiles(folder, all_of))
    assert [len(names) for names in requests.together] == [1] * 39


def test_one_that_is_not_wanted_in_turn_or_is_read_twice_is_read_alone(
    manifests: tuple[Folder, list[Manifest]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A window reaches back; a segment of many tables is read in several passes. What is held is not requested again for it."""
    folder, all_of = manifests
    requests = Requests(monkeypatch)
    wanted = [all_of[seq] for seq in (20, 3, 21, 20, 4, 22, 30)]
    assert read(folder, wanted, SmallFiles(folder, all_of[20:])) == [one.rows for one in wanted]
    assert requests.together == [[one.data for one in all_of[20:36]]]
    assert requests.single == [all_of[seq].data for seq in (3, 20, 4)]


def test_what_is_passed_over_is_given_up(manifests: tuple[Folder, list[Manifest]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Another sink has decoded it already."""
    folder, all_of = manifests
    requests = Requests(monkeypatch)
    files, wanted = SmallFiles(folder, all_of), [all_of[seq] for seq in (7, 30, 8)]
    assert read(folder, wanted, files) == [one.rows for one in wanted]
    assert requests.together == [[one.data for one in all_of[7:23]], [one.data for one in all_of[30:]]]
    assert requests.single == [all_of[8].data]
    assert not files._waiting


def test_where_one_is_refused_each_is_read_alone_and_that_one_is_named(
    manifests: tuple[Folder, list[Manifest]], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, all_of = manifests
    refused, read_file = all_of[4].data, storage.read_file

    def several(_: Folder, names: Iterable[str]) -> dict[str, bytes]:
        assert refused in list(names)
        raise storage.Refused("Access Denied")

    def one(where: Folder, name: str) -> bytes:
        if name == refused:
            raise storage.Refused("Access Denied")
        return read_file(where, name)

    monkeypatch.setattr(storage, "read_files", several)
    monkeypatch.setattr(storage, "read_file", one)
    files = SmallFiles(folder, all_of[:8])
    assert read(folder, all_of[:4], files) == [one.rows for one in all_of[:4]]
    with pytest.raises(LogBroken, match=str(refused)):
        read(folder, all_of[4:5], files)
    assert read(folder, all_of[5:8], files) == [one.rows for one in all_of[5:8]]


def test_one_that_is_gone_is_an_error_that_names_it(manifests: tuple[Folder, list[Manifest]]) -> None:
    folder, all_of = manifests
    storage.remove(folder, [str(all_of[7].data)])
    files = SmallFiles(folder, all_of)
    read(folder, all_of[:7], files)
    with pytest.raises(LogBroken, match=str(all_of[7].data)):
        read(folder, all_of[7:8], files)
    assert read(folder, all_of[8:], files) == [one.rows for one in all_of[8:]]


def test_of_a_local_log_nothing_is_requested_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = FolderLog(open_folder(str(tmp_path)))
    log.recover(epoch=1)
    all_of = [append(log, seq, rows=1) for seq in range(3)]
    requests = Requests(monkeypatch)
    assert read(log.folder, all_of, SmallFiles(log.folder, all_of)) == [1, 1, 1]
    assert not requests.together
    assert not requests.single
