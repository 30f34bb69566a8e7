"""What a delivery decides before a task has anything to do."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

import pytest

from sidecar.shared.errors import FeedError, LogBroken, OwnershipLost, SinkError
from sidecar.shared.log import storage
from sidecar.shared.log.layout import is_manifest, manifest_name
from sidecar.shared.log.manifest import Manifest, from_json, to_json
from sidecar.shared.log.segment_log import FolderLog
from sidecar.shared.log.storage import Folder, open_folder
from sidecar.shared.model.chunk import ClosedWindow
from sidecar.shared.model.nouns import CommitTs, Seq
from sidecar.shared.model.sink_delivery import SinkTables
from spark_merge.delivery import sink_record
from spark_merge.delivery.batches import BatchResult, Delivery, JobSettings, TaskWork
from spark_merge.delivery.sink_record import SinkId
from spark_merge.merge.cut import BatchLimits
from spark_merge.port.contract import Accepted, Batch, Head, Outcome, Owner, Standing
from spark_merge.sinks.files.sink import FileSink
from spark_merge.sinks.kit.errors import sink_folder
from spark_merge.sinks.memory.committing import CommittingSink
from spark_merge.sinks.memory.target import target
from spark_merge.sinks.registry import open_sink
from spark_merge.testing.histories import SEGMENTS, RandomHistory, random_history, write_log
from spark_merge.testing.places import Here


class NoTasks(Here):
    """Where none may come to."""

    def run(self, work: Sequence[TaskWork]) -> list[Outcome]:
        raise AssertionError(f"{len(work)} tasks came")


class Died(Exception):
    """The worker's process is gone."""


def die() -> None:
    raise Died


@pytest.fixture
def log(tmp_path: Path) -> Folder:
    return open_folder(str(tmp_path / "log"))


@pytest.fixture
def history() -> RandomHistory:
    return random_history(Random(1))


def without_windows(history: RandomHistory) -> RandomHistory:
    for windows in history.windows:
        windows.clear()
    return history


def of(log: Folder, name: Path, *, segments_max: int, tasks: Here | None = None) -> Delivery:
    """To the committing twin at `name`."""
    return Delivery(
        CommittingSink(str(name), log_id="log-1"), JobSettings(log, limits=BatchLimits(segments_max=segments_max)), tasks or Here()
    )


def seqs_of(batch: BatchResult | None) -> list[Seq]:
    return [] if batch is None else [segment.seq for segment in batch.segments]


def test_segments_of_a_later_owner_are_not_delivered(tmp_path: Path, log: Folder, history: RandomHistory) -> None:
    """It is refused before a task is asked for."""
    write_log(log, history)
    sink = open_sink(f"file://{tmp_path}/out?format=jsonl", log_id="cf")
    with pytest.raises(OwnershipLost, match="owner epoch 1, this worker serves epoch 0"):
        Delivery(sink, JobSettings(log, epoch_max=0), NoTasks()).deliver()
    assert sink.look() is None


def test_each_call_of_the_sink_is_watched_and_no_task_is_within_that_watch(tmp_path: Path, log: Folder, history: RandomHistory) -> None:
    """A task of Spark may take longer than the worker's own process may be silent."""
    write_log(log, history)
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

    sink = Noting(sink_folder(str(tmp_path / "out")), log_id="cf", file_format="jsonl")
    delivery = Delivery(sink, JobSettings(log), Here(before=lambda: note("task")), watched=watched)
    while delivery.deliver():
        pass
    assert set(came) == {("look", True), ("open", True), ("plan", True), ("task", False), ("accept", True)}


@dataclass
class ManifestReads:
    """Of one log, whoever else reads in this process."""

    log: Folder
    names: list[str] = field(default_factory=list)

    def read_files(self, folder: Folder, names: Collection[str]) -> dict[str, bytes]:
        self.names += filter(is_manifest, names if folder == self.log else ())
        return read_files(folder, names)


read_files = storage.read_files


@pytest.mark.parametrize("delivered", [0, 2])
@pytest.mark.parametrize("kept_from", [0, 1])
def test_a_batch_that_was_begun_is_done_again_without_a_look_at_what_follows_it(
    tmp_path: Path, log: Folder, history: RandomHistory, monkeypatch: pytest.MonkeyPatch, delivered: int, kept_from: int
) -> None:
    """However many segments the log had before it, and has after it."""
    write_log(log, without_windows(history))
    previous = FolderLog(log)
    previous.recover(epoch=1)
    previous.retain(delivered=Seq(kept_from), open_from=None)
    for _ in range(delivered):
        of(log, tmp_path, segments_max=1).deliver()
    first = kept_from + delivered
    with pytest.raises(Died):
        of(log, tmp_path, segments_max=2, tasks=Here(before=die)).deliver()
    again, reads = of(log, tmp_path, segments_max=1), ManifestReads(log)
    monkeypatch.setattr(storage, "read_files", reads.read_files)
    assert seqs_of(again.deliver()) == [first, first + 1]
    assert reads.names == [manifest_name(Seq(first)), manifest_name(Seq(first + 1))]
    assert first + 1 < SEGMENTS - 1, "there is more in the log"


def one_at_a_time(log: Folder, name: Path) -> Delivery:
    """Though many segments are there: as where each ends at a DDL."""
    return Delivery(CommittingSink(str(name), log_id="log-1"), JobSettings(log, limits=BatchLimits(rows_max=-1)), Here())


def test_a_small_batch_reads_what_it_delivers_and_not_what_is_behind_it(
    tmp_path: Path, log: Folder, history: RandomHistory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each batch that ends at a DDL would read 600 manifests for one segment."""
    write_log(log, without_windows(history))
    delivery, reads = one_at_a_time(log, tmp_path), ManifestReads(log)
    monkeypatch.setattr(storage, "read_files", reads.read_files)
    delivery.deliver()
    assert {manifest_name(Seq(seq)) for seq in range(SEGMENTS + 1)} <= set(reads.names)
    for seq in range(1, SEGMENTS):
        reads.names.clear()
        assert seqs_of(delivery.deliver()) == [seq]
        assert reads.names == [manifest_name(Seq(seq)), manifest_name(Seq(SEGMENTS))]
    assert delivery.deliver() is None


def test_what_was_read_for_a_later_batch_is_not_delivered_of_a_log_that_has_been_replaced(
    tmp_path: Path, log: Folder, history: RandomHistory
) -> None:
    write_log(log, without_windows(history))
    delivery = one_at_a_time(log, tmp_path)
    delivery.deliver()
    name = manifest_name(Seq(1))
    manifest = from_json(storage.read_file(log, name), name=name)
    storage.write_atomically(log, name, to_json(replace(manifest, after_ts=CommitTs(manifest.after_ts + 1))))
    with pytest.raises(SinkError, match="the log was replaced while it was read"):
        delivery.deliver()


@pytest.mark.parametrize("missing", [1, 2, 3])
def test_a_window_that_reaches_back_to_a_missing_segment_is_an_error_before_a_task_runs(
    tmp_path: Path, log: Folder, history: RandomHistory, missing: int
) -> None:
    """Nothing is committed of the stage before the window's."""
    chunk = next(chunk for windows in history.windows for window in windows for chunk in window.chunks if chunk.rows)
    window = ClosedWindow("1" * 16, CommitTs(150), CommitTs(450), Seq(1), (chunk,))
    without_windows(history).windows[4].append(window)
    write_log(log, history)
    delivery = of(log, tmp_path, segments_max=4)
    delivery.deliver()
    seen = list(target(str(tmp_path)).rows)
    manifest = tmp_path / "log" / manifest_name(Seq(missing))
    data = manifest.read_bytes()
    manifest.unlink()
    with pytest.raises(LogBroken, match=rf"{manifest.name}|segment {missing} is gone"):
        delivery.deliver()
    assert target(str(tmp_path)).rows == seen

    manifest.write_bytes(data)
    of(log, tmp_path, segments_max=4).deliver()
    assert target(str(tmp_path)).rows[len(seen) :][0].seq == 4


def test_a_sink_that_is_added_to_a_log_begins_behind_the_windows_that_it_cannot_merge(
    tmp_path: Path, log: Folder, history: RandomHistory
) -> None:
    """Their changes were removed. It says where it began until it has a segment."""
    chunk = next(chunk for windows in history.windows for window in windows for chunk in window.chunks if chunk.rows)
    window = ClosedWindow("1" * 16, CommitTs(50), CommitTs(350), Seq(0), (chunk,))
    without_windows(history).windows[3].append(window)
    write_log(log, history)
    owner = FolderLog(log)
    owner.recover(epoch=1)
    owner.retain(delivered=Seq(3), open_from=None)
    for seq in (0, 1):  # as if those who had them had accepted them before
        (tmp_path / "log" / manifest_name(Seq(seq))).unlink(missing_ok=True)
    late = of(log, tmp_path, segments_max=2)
    assert late.began == 4
    delivered = [seq for _ in range(SEGMENTS) for seq in seqs_of(late.deliver())]
    assert delivered == list(range(4, SEGMENTS))
    assert of(log, tmp_path, segments_max=2).began is None


def test_what_a_sink_has_accepted_of_a_batch_that_met_a_bad_row_counts_for_its_tables(
    tmp_path: Path, log: Folder, history: RandomHistory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An HTTP receiver accepts segment after segment within a task."""
    write_log(log, without_windows(history))
    counted: list[Seq] = []

    def counting(tables: SinkTables, segment: Manifest, schemas: object) -> SinkTables:
        counted.append(segment.seq)
        return replace(tables, seq=segment.seq, upto_ts=segment.upto_ts)

    class Partly(CommittingSink):
        def plan(self, heads: Sequence[Head], *, cores: int) -> Batch:
            batch = super().plan(heads[:1], cores=cores)
            if len(heads) > 1:
                self.accept(batch, ())
                raise FeedError("a bad row", hint="skip it")
            return batch

    monkeypatch.setattr(sink_record, "followed", counting)
    sink, settings = Partly(str(tmp_path), log_id="log-1"), JobSettings(log, limits=BatchLimits(segments_max=3))
    delivery = Delivery(sink, settings, Here(), sink_id=SinkId("out", "out"))
    while delivery.deliver():
        pass
    assert counted == list(range(SEGMENTS))


class WithRecord(CommittingSink):
    """Opening it returns what is on record there."""

    on_record: Standing

    def open(self, *, epoch: int | None) -> Standing:
        return replace(self.on_record, owner=super().open(epoch=epoch).owner)


@pytest.mark.parametrize(
    ("begun", "says"),
    [
        (Accepted(Seq(SEGMENTS + 5)), rf"has begun segment {SEGMENTS + 5}, and the log .* ends at {SEGMENTS - 1}"),
        (Accepted(Seq(2)), "has begun a batch that ends with segment 2, and continues behind segment 3"),
        (Accepted(Seq(5), manifest="of another log"), "has begun segment 5 .* has another one of that number"),
        (5, "returned no Accepted as Standing.begun"),
    ],
    ids=["behind the log's end", "accepted already", "another one", "of a sink of before"],
)
def test_a_begun_batch_that_cannot_be_the_next_one_is_an_error_and_no_wait(
    tmp_path: Path, log: Folder, history: RandomHistory, begun: Accepted, says: str
) -> None:
    manifests = write_log(log, history)
    sink = WithRecord(str(tmp_path), log_id="log-1")
    sink.on_record = Standing(Owner(1, 1), Accepted.of(manifests[3]), begun)
    with pytest.raises(SinkError, match=says):
        Delivery(sink, JobSettings(log), NoTasks()).deliver()


def test_a_log_that_is_put_back_under_a_worker_does_not_end_the_batch_that_is_begun(
    tmp_path: Path, log: Folder, history: RandomHistory
) -> None:
    """Tasks that are done would be skipped, with rows of segments that are there no more."""
    write_log(log, without_windows(history))
    with pytest.raises(Died):
        of(log, tmp_path, segments_max=2, tasks=Here(before=die)).deliver()
    again = of(log, tmp_path, segments_max=2)
    storage.remove(log, [manifest_name(Seq(seq)) for seq in range(1, SEGMENTS)])
    with pytest.raises(SinkError, match=r"has begun a batch that ends with segment 1 .* ends at 0"):
        again.deliver()
    assert again.accepted is None
