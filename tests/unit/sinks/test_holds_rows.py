"""Whether a folder has files of somebody else, asked while a worker of ours may begin in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar.shared.log import storage
from sidecar.shared.log.storage import Folder, open_folder
from spark_merge.sinks.kit.folder_uri import has_files_of_others

IDENTITY, PROBE = "_log.json", "_exclusive.probe"


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return open_folder(str(tmp_path))


@pytest.mark.parametrize(
    ("names", "others"),
    [
        ([], False),
        ([PROBE], False),
        ([PROBE, "theirs.csv"], True),
        (["theirs/part-0.csv"], True),
        ([IDENTITY, "part-0.jsonl"], False),
        ([".part-0.jsonl.0123456789abcdef.tmp"], False),
    ],
)
def test_files_are_of_others_where_no_output_of_ours_is(folder: Folder, names: list[str], others: bool) -> None:
    for name in names:
        storage.write_atomically(folder, name, b"{}")
    assert has_files_of_others(folder, IDENTITY, probe=PROBE) is others


def test_a_worker_that_begins_at_this_moment_is_nobody_else(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    real = storage.list_names

    def listed(requested: Folder, *, deep: bool) -> list[str]:
        storage.write_atomically(folder, IDENTITY, b"{}")
        storage.write_atomically(folder, "part-0.jsonl", b"{}")
        return real(requested, deep=deep)

    monkeypatch.setattr(storage, "list_names", listed)
    assert not has_files_of_others(folder, IDENTITY, probe=PROBE)
