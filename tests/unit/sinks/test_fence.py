"""One rule for all sinks: whose output it is, which segment comes, who else has it. Each sink's own suite shows that it asks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sidecar.shared.errors import OwnershipLost, SinkError
from sidecar.shared.log import storage
from sidecar.shared.log.identity import name_of
from sidecar.shared.log.storage import Folder, dispatch
from sidecar.shared.model.nouns import Seq
from spark_merge.sinks.kit.errors import sink_folder
from spark_merge.sinks.kit.fence import check_exclusive, check_log, check_next, taken


def test_an_output_is_of_one_log() -> None:
    mine, other = name_of("log-1", "a" * 32), name_of("log-1", "b" * 32)
    check_log("out", mine, mine, hint="elsewhere")
    check_log("out", "log-1", mine, hint="elsewhere")
    for text in ("log-2", other):
        with pytest.raises(SinkError, match=f"out holds the output of log {text}, this is log {mine}") as refused:
            check_log("out", text, mine, hint="elsewhere")
        assert refused.value.hint == "elsewhere"


def test_the_next_segment_comes() -> None:
    check_next("out", None, Seq(7))
    check_next("out", Seq(0), Seq(1))
    for first in (0, 1, 3):
        with pytest.raises(SinkError, match=f"out has accepted segment 1 and is given {first}"):
            check_next("out", Seq(1), Seq(first))


def _overwrites(folder: Folder, name: str, data: bytes) -> bool:
    storage.write_atomically(folder, name, data)
    return True


def test_a_storage_that_overwrites_is_no_fence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = sink_folder(str(tmp_path))
    check_exclusive(folder, "probe")
    create: Callable[[Folder, str, bytes], bool] = _overwrites
    monkeypatch.setattr(dispatch, "create_exclusively", create)
    with pytest.raises(SinkError, match="lets a file be created twice"):
        check_exclusive(folder, "probe")


def test_the_error_of_one_that_was_shut_out_names_by_whom() -> None:
    lost = taken("out")
    assert isinstance(lost, OwnershipLost)
    assert "another merge worker has opened out" in lost.message
