"""One sink's loop: what it goes on after, what ends it, and that one sink holds no other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from threading import Event
from time import monotonic, sleep

import pytest

from sidecar.errors import LogBroken, OwnershipLost, SinkError, StorageFull, TicdcDumpError
from sidecar.log.storage import Folder, open_folder
from spark_merge import loop as loops
from spark_merge.contract import Batch, Delivered, Outcome
from spark_merge.delivery import JobSettings
from spark_merge.loop import SinkLoop
from spark_merge.sinks.files.sink import FileSink
from tests.support.histories import SEGMENTS, random_history, write_log
from tests.support.sinks import Here

DEADLINE_S = 60.0


@pytest.fixture
def log(tmp_path: Path) -> Folder:
    folder = open_folder(str(tmp_path / "log"))
    write_log(folder, random_history(Random(1)))
    return folder


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "RETRY_FIRST_S", 0.01)
    monkeypatch.setattr(loops, "RETRY_MAX_S", 0.02)


class Story:
    """Loops over one log that end with the test."""

    def __init__(self, log: Folder, tmp_path: Path) -> None:
        self.log, self.folder = log, tmp_path
        self.told: list[list[Delivered]] = []
        self.running: list[SinkLoop] = []

    def sink(self, name: str) -> FileSink:
        return FileSink(open_folder(str(self.folder / name)), log_id="cf", file_format="jsonl")

    def start(self, sink: FileSink, *, epoch: int | None = None) -> SinkLoop:
        loop = SinkLoop("out", sink, JobSettings(self.log, epoch_max=epoch), Here(), self.told.append)
        loop.start()
        self.running.append(loop)
        return loop

    def wait_for(self, loop: SinkLoop) -> None:
        until_s = monotonic() + DEADLINE_S
        while loop.standing().accepted != SEGMENTS - 1:
            loop.check()
            assert monotonic() < until_s, loop.standing()
            sleep(0.005)


@pytest.fixture
def story(log: Folder, tmp_path: Path) -> Iterator[Story]:
    found = Story(log, tmp_path)
    yield found
    for loop in found.running:
        loop.end(to_the_end=False)
        loop.close(DEADLINE_S)


def test_it_delivers_the_log_and_tells_each_batch(story: Story) -> None:
    loop = story.start(story.sink("out"))
    story.wait_for(loop)
    standing = loop.standing()
    assert (standing.sink, standing.accepted, standing.error) == ("out", SEGMENTS - 1, "")
    assert [segment.seq for segments in story.told for segment in segments] == list(range(SEGMENTS))
    assert [batch.last for batch in standing.batches] == [segments[-1].seq for segments in story.told if segments]
    told = [rows for segments in story.told for segment in segments for rows in segment.tables.values()]
    assert sum(batch.log_rows for batch in standing.batches) == sum(rows.log for rows in told) > 0
    assert sum(batch.dump_rows for batch in standing.batches) == sum(rows.dump + rows.dropped for rows in told) > 0
    assert all(batch.seconds >= batch.accept_s >= 0 for batch in standing.batches)
    assert loop.upto_ts > 0


def test_it_delivers_to_the_end_where_it_is_asked_to(story: Story) -> None:
    loop = story.start(story.sink("out"))
    loop.end(to_the_end=True)
    loop.close(DEADLINE_S)
    loop.check()
    assert loop.standing().accepted == SEGMENTS - 1


class Failing(FileSink):
    """Accepts nothing `left` times."""

    error: TicdcDumpError = SinkError("out of order", hint="wait")
    left = 3

    def accept(self, batch: Batch, outcomes: Sequence[Outcome]) -> None:
        if self.left:
            self.left -= 1
            raise self.error
        super().accept(batch, outcomes)


def failing(story: Story, error: TicdcDumpError, times: int) -> Failing:
    sink = Failing(open_folder(str(story.folder / "out")), log_id="cf", file_format="jsonl")
    sink.error, sink.left = error, times
    return sink


@pytest.mark.parametrize("error", [SinkError("out of order", hint="wait"), StorageFull("full", hint="make room")])
def test_a_sink_that_fails_is_told_and_opened_again(story: Story, error: TicdcDumpError) -> None:
    loop = story.start(failing(story, error, 3))
    story.wait_for(loop)
    assert loop.error is None
    assert story.told.count([]) == 3 + 4, "three failures, and four times it was opened"


@pytest.mark.parametrize(
    "error", [OwnershipLost("another has it", hint="nothing"), LogBroken("a gap", hint="restore"), ZeroDivisionError()]
)
def test_what_a_sink_cannot_recover_from_ends_the_loop(story: Story, error: TicdcDumpError) -> None:
    loop = story.start(failing(story, error, 1))
    with pytest.raises(type(error)):
        story.wait_for(loop)


def test_a_sink_that_waits_for_ever_holds_no_other(story: Story) -> None:
    free = Event()

    class Waiting(FileSink):
        def accept(self, batch: Batch, outcomes: Sequence[Outcome]) -> None:
            free.wait()
            super().accept(batch, outcomes)

    slow = story.start(Waiting(open_folder(str(story.folder / "slow")), log_id="cf", file_format="jsonl"))
    story.wait_for(story.start(story.sink("fast")))
    assert slow.standing().accepted is None
    free.set()
    story.wait_for(slow)
