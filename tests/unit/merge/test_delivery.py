"""What a delivery decides before a task has anything to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from sidecar.errors import OwnershipLost
from sidecar.log.storage import Folder, open_folder
from spark_merge.contract import Accepted, Batch, Head, Outcome, Standing
from spark_merge.delivery import Delivery, JobSettings, Work
from spark_merge.sinks.files.sink import FileSink
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


def test_each_call_of_the_sink_is_watched_and_no_task_is_within_that_watch(tmp_path: Path, log: Folder) -> None:
    """A task of Spark may take longer than the worker's own process may be silent."""
    under_way: list[str] = []
    came: list[tuple[str, bool]] = []

    @contextmanager
    def watched() -> Iterator[None]:
        under_way.append("watch")
        yield
        under_way.pop()

    def note(call: str) -> None:
        came.append((call, bool(under_way)))

    class Noting(FileSink):
        def look(self) -> Accepted | None:
            note("look")
            return super().look()

        def open(self, *, epoch: int | None) -> Standing:
            note("open")
            return super().open(epoch=epoch)

        def plan(self, heads: Sequence[Head], *, cores: int) -> Batch:
            note("plan")
            return super().plan(heads, cores=cores)

        def accept(self, batch: Batch, outcomes: Sequence[Outcome]) -> None:
            note("accept")
            super().accept(batch, outcomes)

    sink = Noting(open_folder(str(tmp_path / "out")), log_id="cf", file_format="jsonl")
    delivery = Delivery(sink, JobSettings(log), Here(before=lambda: note("task")), watched=watched)
    while delivery.deliver():
        pass
    assert set(came) == {("look", True), ("open", True), ("plan", True), ("task", False), ("accept", True)}
