"""One sink's loop: what it goes on after, what ends it, and that one sink holds no other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random
from threading import Event
from time import monotonic, sleep

import pytest

from sidecar.shared.errors import FeedUnsuitable, LogBroken, OwnershipLost, SinkError, SparkLost, StorageFull, TicdcDumpError
from sidecar.shared.log import storage
from sidecar.shared.log.layout import manifest_name
from sidecar.shared.log.storage import Folder, open_folder
from sidecar.shared.model.nouns import TableName
from sidecar.shared.model.sink_delivery import TableFiles
from spark_merge.delivery import loop as loops
from spark_merge.delivery.batches import JobSettings
from spark_merge.delivery.loop import SinkLoop
from spark_merge.delivery.sink_record import SinkId
from spark_merge.log.read import new_manifests
from spark_merge.port.contract import Batch, Delivered, Head, Outcome, Portion, Standing, Task
from spark_merge.sinks.files.sink import FileSink
from spark_merge.sinks.kit.errors import sink_folder
from spark_merge.testing.histories import SEGMENTS, random_history, write_log
from spark_merge.testing.places import Here
from tests.support.eventually import PATIENCE_S


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
        self.reported: list[list[Delivered]] = []
        self.running: list[SinkLoop] = []

    def sink(self, name: str) -> FileSink:
        return FileSink(sink_folder(str(self.folder / name)), log_id="cf", file_format="jsonl")

    def start(self, sink: FileSink, *, epoch: int | None = None) -> SinkLoop:
        loop = SinkLoop(SinkId("out", "out"), sink, JobSettings(self.log, epoch_max=epoch), Here(), self.reported.append)
        loop.start()
        self.running.append(loop)
        return loop

    def wait_for(self, loop: SinkLoop, seq: int = SEGMENTS - 1) -> None:
        until_s = monotonic() + PATIENCE_S
        while loop.standing().accepted != seq:
            loop.check()
            assert monotonic() < until_s, loop.standing()
            sleep(0.005)


@pytest.fixture
def story(log: Folder, tmp_path: Path) -> Iterator[Story]:
    result = Story(log, tmp_path)
    yield result
    for loop in result.running:
        loop.end(to_the_end=False)
        loop.close(PATIENCE_S)


def test_it_delivers_the_log_and_reports_each_batch(story: Story) -> None:
    loop = story.start(story.sink("out"))
    story.wait_for(loop)
    standing = loop.standing()
    assert (standing.sink, standing.accepted, standing.error) == ("out", SEGMENTS - 1, "")
    assert [segment.seq for segments in story.reported for segment in segments] == list(range(SEGMENTS))
    assert [batch.last for batch in standing.batches] == [segments[-1].seq for segments in story.reported if segments]
    reported = [rows for segments in story.reported for segment in segments for rows in segment.tables.values()]
    assert sum(batch.log_rows for batch in standing.batches) == sum(rows.log for rows in reported) > 0
    assert sum(batch.dump_rows for batch in standing.batches) == sum(rows.dump + rows.dropped for rows in reported) > 0
    dropped = [(TableName(one.schema, one.table), one.rows) for batch in standing.batches for one in batch.dropped or ()]
    of_tables = [(table, rows.dropped) for segments in story.reported for segment in segments for table, rows in segment.tables.items()]
    assert (
        {table: sum(rows for name, rows in dropped if name == table) for table, _ in dropped}
        == {table: total for table in dict(of_tables) if (total := sum(rows for name, rows in of_tables if name == table))}
        != {}
    )
    assert all(batch.seconds >= batch.accept_s >= 0 for batch in standing.batches)
    assert loop.upto_ts > 0


def test_it_delivers_to_the_end_on_request(story: Story) -> None:
    loop = story.start(story.sink("out"))
    loop.end(to_the_end=True)
    loop.close(PATIENCE_S)
    loop.check()
    assert loop.standing().accepted == SEGMENTS - 1


# ---- the owner has another epoch ------------------------------------------------------------------------------------------


def test_a_loop_that_gets_the_owners_next_epoch_opens_its_sink_with_it(story: Story) -> None:
    """The log's segments are of epoch 1: a worker of epoch 0 that is not told may not deliver them."""
    sink = story.sink("out")
    loop = story.start(sink, epoch=0)
    loop.serve(JobSettings(story.log, epoch_max=1))
    story.wait_for(loop)
    assert sink.open(epoch=None).owner.epoch == 1
    assert loop.standing().error == ""


def test_a_loop_that_gets_no_epoch_ends_before_it_delivers_anything(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "EPOCH_WAIT_S", 0.01)
    loop = story.start(story.sink("out"), epoch=0)
    with pytest.raises(OwnershipLost):
        story.wait_for(loop)
    assert story.sink("out").look() is None


def test_a_previous_owners_loop_accepts_nothing_after_another_owner_has_opened_the_sink(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it is told an epoch of its own that is before the other owner's."""
    monkeypatch.setattr(loops, "EPOCH_WAIT_S", 0.01)
    standing = story.sink("out").open(epoch=7)
    loop = story.start(story.sink("out"), epoch=5)
    loop.serve(JobSettings(story.log, epoch_max=6))
    with pytest.raises(OwnershipLost):
        story.wait_for(loop)
    assert story.sink("out").look() == standing.accepted


class Failing(FileSink):
    """Accepts nothing `left` times."""

    error: Exception = SinkError("out of order", hint="wait")
    left = 3

    def accept(self, batch: Batch, outcomes: Sequence[Outcome]) -> None:
        if self.left:
            self.left -= 1
            raise self.error
        super().accept(batch, outcomes)


def failing(story: Story, error: Exception, times: int) -> Failing:
    sink = Failing(sink_folder(str(story.folder / "out")), log_id="cf", file_format="jsonl")
    sink.error, sink.left = error, times
    return sink


@pytest.mark.parametrize(
    "error", [SinkError("out of order", hint="wait"), StorageFull("full", hint="make room"), FeedUnsuitable("unreadable", hint="skip it")]
)
def test_a_sink_that_fails_is_reported_and_opened_again(story: Story, error: TicdcDumpError) -> None:
    loop = story.start(failing(story, error, 3))
    story.wait_for(loop)
    assert loop.error is None
    assert story.reported.count([]) == 3 + 4, "three failures, and four times it was opened"


class PanicException(BaseException):
    """As those of libraries in Rust."""


class Unforeseen(FileSink):
    """A library raises where this sink is at `step`."""

    step = ""

    def open(self, *, epoch: int | None) -> Standing:
        self._raise("open")
        return super().open(epoch=epoch)

    def plan(self, heads: Sequence[Head], *, cores: int) -> Batch:
        self._raise("plan")
        batch = super().plan(heads, cores=cores)
        return replace(batch, writer=Broken()) if self.step == "write" else batch

    def accept(self, batch: Batch, outcomes: Sequence[Outcome]) -> None:
        self._raise("accept")
        super().accept(batch, outcomes)

    def _raise(self, step: str) -> None:
        if self.step == step:
            raise PanicException(f"at {step}") if step == "accept" else ZeroDivisionError(f"at {step}")


class Broken:
    def __call__(self, task: Task, portions: Iterator[Portion]) -> Outcome:
        raise ZeroDivisionError(f"at write of {next(portions).schema.name.table}, {task.id}")


@pytest.mark.parametrize(
    ("step", "place"),
    [
        ("open", r"opening the sink: ZeroDivisionError: at open"),
        ("plan", r"planning segments 0 to \d+: ZeroDivisionError: at plan"),
        ("write", r"writing segments 0 to \d+: task .+, table \w+\.\w+, segment 0: ZeroDivisionError: at write of"),
        ("accept", r"accepting segments 0 to \d+: PanicException: at accept"),
    ],
)
def test_what_a_library_raises_is_an_error_of_its_sink_with_its_place_and_of_no_other_sink(story: Story, step: str, place: str) -> None:
    sink = Unforeseen(sink_folder(str(story.folder / "out")), log_id="cf", file_format="jsonl")
    sink.step = step
    reports: list[TicdcDumpError | None] = []
    failed = Event()

    def receive(_: list[Delivered]) -> None:
        reports.append(loop.error)
        if loop.error is not None:
            failed.set()

    loop = SinkLoop(SinkId("out", "out"), sink, JobSettings(story.log), Here(), receive)
    story.running.append(loop)
    loop.start()
    assert failed.wait(PATIENCE_S)
    story.wait_for(story.start(story.sink("other")))
    loop.check()
    assert isinstance(loop.error, SinkError)
    assert re.search(place, str(loop.error))
    sink.step = ""
    story.wait_for(loop)


def test_an_error_is_reported_until_something_has_succeeded(story: Story) -> None:
    """Not only until the sink is opened again: it may take minutes until it comes to the same place."""
    sink = failing(story, FeedUnsuitable("unreadable", hint="skip it"), 2)
    reports: list[str] = []
    loop = SinkLoop(SinkId("out", "out"), sink, JobSettings(story.log), Here(), lambda _: reports.append(loop.standing().error))
    story.running.append(loop)
    loop.start()
    story.wait_for(loop)
    text = str(sink.error)
    assert reports[:6] == ["", text, text, text, text, ""], "opened, failed, opened, failed, opened, and then it has delivered"
    assert set(reports[5:]) == {""}


def test_what_an_operator_has_left_out_is_known_when_a_sink_is_opened_again(log: Folder, story: Story) -> None:
    (Path(log.root) / "skips").mkdir()
    (Path(log.root) / "skips" / f"{3:020d}-{1:010d}.json").write_text("{}")
    loop = story.start(story.sink("out"))
    story.wait_for(loop)
    assert loop.skips == {3: {1}}


@pytest.mark.parametrize(
    "error",
    [
        OwnershipLost("another has it", hint="nothing"),
        LogBroken("a gap", hint="restore"),
        SparkLost("gone", hint="nothing"),
        MemoryError(),
    ],
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

    slow = story.start(Waiting(sink_folder(str(story.folder / "slow")), log_id="cf", file_format="jsonl"))
    story.wait_for(story.start(story.sink("fast")))
    assert slow.standing().accepted is None
    free.set()
    story.wait_for(slow)


class Counting(FileSink):
    def small_files(self) -> list[TableFiles]:
        return [TableFiles("shop", "orders", 9, 8)]


def test_a_sink_of_files_reports_how_many_there_are(story: Story) -> None:
    loop = story.start(Counting(sink_folder(str(story.folder / "counting")), log_id="cf", file_format="jsonl"))
    story.wait_for(loop)
    assert loop.standing().files == (TableFiles("shop", "orders", 9, 8),)
    other = story.start(story.sink("other"))
    story.wait_for(other)
    assert other.standing().files == ()


class Gathering(FileSink):
    gather_s = 3600.0


def test_a_sink_that_gathers_gets_what_has_come_meanwhile_in_one_batch_and_what_waits_already_at_once(log: Folder, story: Story) -> None:
    manifests = list(new_manifests(log, after=None, limit=SEGMENTS))
    first = next(at for at, (one, other) in enumerate(pairwise(manifests)) if at and not one.ddls and one.schemas == other.schemas)
    names = [name for one in manifests[first:] for name in (one.data, manifest_name(one.seq)) if name]
    later = {name: storage.read_file(log, name) for name in names}
    storage.remove(log, list(later))
    loop = story.start(Gathering(sink_folder(str(story.folder / "gathering")), log_id="cf", file_format="jsonl"))
    story.wait_for(loop, first - 1)
    for name, data in later.items():
        storage.write_atomically(log, name, data)
        sleep(0.05)  # a loop that does not gather looks more often
    assert loop.standing().accepted == first - 1
    loop.end(to_the_end=True)
    story.wait_for(loop)
    batches = loop.standing().batches
    assert first not in [batch.last for batch in batches], "a batch of its own"
    (by_table,) = (batch for batch in batches if batch.last - batch.segments == first - 1)
    assert by_table.seconds > 0.05, "its time is from the last one's end"


def test_a_sink_that_collects_ends_on_request(story: Story) -> None:
    closed = Event()

    class Closing(Gathering):
        def close(self) -> None:
            closed.set()

    loop = story.start(Closing(sink_folder(str(story.folder / "gathering")), log_id="cf", file_format="jsonl"))
    story.wait_for(loop)
    loop.end(to_the_end=False)
    assert closed.wait(PATIENCE_S)


def test_how_long_batches_take_is_without_what_the_sink_gathers_for(story: Story) -> None:
    """Else a lake that gathers for longer than its commits take is never late beside a verification."""
    wait_s = 0.3

    class Waiting(FileSink):
        gather_s = wait_s

    loop = story.start(Waiting(sink_folder(str(story.folder / "waiting")), log_id="cf", file_format="jsonl"))
    story.wait_for(loop)
    took_s = list(loop.took_s)
    assert len(took_s) == len(loop.standing().batches)
    assert loop.batch_s() <= max(took_s)
    began_s = loop._batch_began_s = monotonic() - 100
    assert loop.batch_s() >= monotonic() - began_s - 1, "one that is under way counts whole"
