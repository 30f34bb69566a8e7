"""Files of dumps that are over: which there are, and which are removed."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar.shared.errors import LogUnreachable
from sidecar.shared.log import dump_files, storage
from sidecar.shared.log.dump_files import CERTIFICATES, REPORTS, DumpFiles
from sidecar.shared.log.storage import Folder, open_folder
from sidecar.shared.model.nouns import OperationId


@pytest.fixture
def log(tmp_path: Path) -> Folder:
    return open_folder(str(tmp_path / "log"))


def write(log: Folder, files: DumpFiles, *dump_ids: str) -> None:
    for dump_id in dump_ids:
        storage.write_atomically(log, files.name(OperationId(dump_id)), b"of it")


def test_names_are_what_the_log_s_layout_says() -> None:
    assert [files.name(OperationId("a1")) for files in (CERTIFICATES, REPORTS)] == ["certificates/a1.json", "reports/a1.html"]


def test_ids_are_those_of_whole_files_of_the_kind(log: Folder) -> None:
    assert REPORTS.ids(log) == [], "a log without one has no folder"
    write(log, REPORTS, "a", "b")
    write(log, CERTIFICATES, "c")
    for name in ("certificates/d.parts/1.jsonl", "reports/readme.txt", "reports/.e.html.tmp"):
        storage.write_atomically(log, name, b"another")
    assert storage.is_temporary(".e.html.tmp")
    assert (sorted(REPORTS.ids(log)), CERTIFICATES.ids(log)) == (["a", "b"], ["c"])


def test_old_ones_go_before_those_that_the_history_has(log: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dump_files, "KEPT_MAX", 3)
    write(log, REPORTS, *"abcde")
    write(log, CERTIFICATES, *"abcde")
    REPORTS.remove_old(log, lambda: map(OperationId, "ab"))
    assert set(REPORTS.ids(log)) > {"a", "b"}
    assert len(REPORTS.ids(log)) == 3
    assert len(CERTIFICATES.ids(log)) == 5, "another kind"
    REPORTS.remove_old(log, lambda: map(OperationId, "abcde"))
    assert len(REPORTS.ids(log)) == 3
    write(log, REPORTS, *"abcde")
    REPORTS.remove_old(log, lambda: map(OperationId, "abcde"))
    assert len(REPORTS.ids(log)) == 5, "what the history has is kept, though it is more"


def test_a_storage_that_does_not_answer_is_the_logs_error(log: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object, **__: object) -> list[str]:
        raise storage.log_error("log", "", storage.Unreachable(5, "away", "log"))

    monkeypatch.setattr(storage, "list_names", away)
    with pytest.raises(LogUnreachable):
        REPORTS.ids(log)
