"""What a delivery decides before a task has anything to do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from sidecar.errors import OwnershipLost
from sidecar.log.storage import Folder, open_folder
from spark_merge.contract import Outcome
from spark_merge.delivery import Delivery, JobSettings, Work
from spark_merge.sinks.registry import open_sink
from tests.support.histories import random_history, write_log
from tests.support.sinks import Here


class NoTasks(Here):
    """Where none may come to."""

    def run(self, work: Sequence[Work]) -> list[Outcome]:
        raise AssertionError(f"{len(work)} tasks came")


@pytest.fixture
def log(tmp_path: Path) -> Folder:
    folder = open_folder(str(tmp_path / "log"))
    write_log(folder, random_history(Random(1)))
    return folder


def test_segments_of_a_later_owner_are_not_delivered(tmp_path: Path, log: Folder) -> None:
    """It is refused before a task is asked for."""
    sink = open_sink(f"file://{tmp_path}/out?format=jsonl", log_id="cf")
    with pytest.raises(OwnershipLost, match="owner epoch 1, this worker serves epoch 0"):
        Delivery(sink, JobSettings(log, epoch_max=0), NoTasks()).deliver()
    assert sink.look() is None
