"""What every ProgressStore keeps: the file on each storage, and the twin in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sidecar.adapters.memory import MemoryProgress
from sidecar.adapters.progress_file import FileProgress
from sidecar.core.messages import Brackets
from sidecar.core.model import CommitTs, Seq, TableName
from sidecar.core.progress import DumpState, Progress, Span, TableProgress
from sidecar.errors import LogBroken
from sidecar.ports import ProgressStore
from sidecar.storage import open_folder

PROGRESS = Progress(
    dump_id="d1",
    state=DumpState.RUNNING,
    brackets=Brackets.SNAPSHOT,
    chunk_rows=1000,
    epoch=3,
    revision=17,
    seq=Seq(4),
    tables=(
        TableProgress(TableName("shop", "ü"), (Span(("1", "a'b")),), 2, 2000, 12345, CommitTs((1 << 63) - 1)),
        TableProgress(TableName("shop", "empty")),
    ),
)
Open = Callable[[], ProgressStore]


@pytest.fixture(params=["twin", "local", "memory"])
def reopened(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """Opens the store as the next process would."""
    if request.param == "twin":
        kept = MemoryProgress()
        return lambda: kept
    folder = open_folder(str(tmp_path / "new" / "folder") if request.param == "local" else f"memory://progress{tmp_path}")
    return lambda: FileProgress(folder)


def test_there_is_nothing_at_first(reopened: Open) -> None:
    assert reopened().load() is None


def test_loads_what_was_saved_last(reopened: Open) -> None:
    for progress in (PROGRESS, replace(PROGRESS, state=DumpState.FAILED, reason="table `x` is gone", revision=18)):
        reopened().save(progress)
        assert reopened().load() == progress


@pytest.mark.parametrize("found", [b"", b"{", b"[]", b"null", b'{"dump_id": "d1"}', b"\xff"])
def test_a_file_that_is_no_progress_says_that_it_may_be_deleted(tmp_path: Path, found: bytes) -> None:
    (tmp_path / "progress.json").write_bytes(found)
    with pytest.raises(LogBroken, match="delete the file"):
        FileProgress(open_folder(str(tmp_path))).load()
