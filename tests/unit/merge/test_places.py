"""Which place a batch gets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from random import Random

import pytest

from sidecar.shared.log.storage import Folder, open_folder
from sidecar.shared.model.nouns import CommitTs, Seq, TableName
from spark_merge.delivery import places
from spark_merge.delivery.batches import Delivery, JobSettings, TaskWork
from spark_merge.delivery.places import SPARK, WORKER, Places
from spark_merge.log.read import new_manifests
from spark_merge.merge.cut import LIVE_ROW_COST, BatchLimits
from spark_merge.port.contract import Batch, DueChunk, Head, Outcome, Unit
from spark_merge.sinks.files.sink import FileSink
from spark_merge.sinks.registry import open_sink
from spark_merge.testing.histories import SEGMENTS, check, random_history, write_log
from spark_merge.testing.places import Here, accepted
from tests.lanes import examples


class NotedHere(Here):
    """Spark's part, in this process: what came to it, by segment."""

    def __init__(self, *, ready: bool = True, job_s: float = 0.0) -> None:
        super().__init__(ready=ready, job_s=job_s)
        self.came: list[tuple[Seq, bool]] = []
        self.wanted = 0

    def want(self) -> None:
        self.wanted += 1

    def run(self, work: Sequence[TaskWork]) -> list[Outcome]:
        self.came += [(unit.seq, bool(unit.chunks)) for one in work for unit in one.task.units]
        return super().run(work)


@pytest.fixture
def log(tmp_path: Path) -> Folder:
    folder = open_folder(str(tmp_path / "log"))
    write_log(folder, random_history(Random(1)))
    return folder


def deliver(
    log: Folder, out: Path, rows_max: int, limits: BatchLimits | None = None, spark: NotedHere | None = None
) -> tuple[Places, NotedHere, list[list[Seq]]]:
    """Each batch's segments too."""
    spark, done = spark or NotedHere(), list[list[Seq]]()
    tasks = Places(spark, rows_max=rows_max)
    delivery = Delivery(open_sink(f"file://{out}?format=jsonl", log_id="cf"), JobSettings(log, limits=limits or BatchLimits()), tasks)
    while batch := delivery.deliver():
        done.append([segment.seq for segment in batch.segments])
    return tasks, spark, done


def windows(log: Folder, out: Path) -> set[Seq]:
    """The segments in which windows with rows closed, as a delivery sees them."""
    seen: set[Seq] = set()

    class Looking(NotedHere):
        def cores(self, heads: Sequence[Head]) -> int:
            seen.update(head.seq for head in heads if head.due_chunks())
            return 1

    delivery = Delivery(open_sink(f"file://{out}?format=jsonl", log_id="cf"), JobSettings(log), Looking())
    while delivery.deliver():
        pass
    return seen


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("rows_max", [0, 3, 1_000])
def test_where_a_batch_was_done_is_not_seen_in_the_output(tmp_path: Path, seed: int, rows_max: int) -> None:
    history = random_history(Random(seed))
    log = open_folder(str(tmp_path / "log"))
    manifests = write_log(log, history)
    tasks, _, _ = deliver(log, tmp_path / "out", rows_max, BatchLimits(segments_max=2))
    check(history, manifests, open_folder(str(tmp_path / "out")))
    assert not (rows_max == 0 and tasks.rows[WORKER])


def test_small_windows_are_merged_here_as_live_rows_are(tmp_path: Path, log: Folder) -> None:
    assert windows(log, tmp_path / "looked")
    tasks, spark, _ = deliver(log, tmp_path / "out", 1_000)
    assert spark.came == []
    assert tasks.rows[WORKER] > 0


def test_rows_of_chunks_count_by_what_they_cost(log: Folder) -> None:
    """A row of a chunk costs a third of a live one, which is decoded."""
    (manifest,) = [item for item in new_manifests(log, after=None, limit=SEGMENTS) if item.rows][:1]
    table = TableName("s", "t")
    due = DueChunk(table, CommitTs(0), CommitTs(1), manifest.seq, manifest.seq, 0, "d", "c", rows=7, bytes=50)
    heads = {manifest.seq: Head(manifest, {}, {})}
    alone, both = Unit(manifest.seq, live=False, chunks=(due,)), Unit(manifest.seq, live=True, chunks=(due,), part=1)
    assert places._cost(heads, [alone]) == (7, 50)
    assert places._cost(heads, [alone, both]) == (14 + LIVE_ROW_COST * manifest.rows, 100 + manifest.bytes)


@pytest.mark.parametrize(
    ("row_s", "job_s", "here"),
    [(1e-5, 0.5, True), (1e-5, 0.1, False), (1e-4, 0.5, False), (1e-6, 0.05, True)],
)
def test_above_the_bound_a_batch_runs_where_it_is_expected_to_end_first(
    tmp_path: Path, log: Folder, monkeypatch: pytest.MonkeyPatch, row_s: float, job_s: float, *, here: bool
) -> None:
    """Of 60,000 rows, on two cores: half of what they take here is saved by Spark, and its job is paid."""
    monkeypatch.setattr(places, "_cost", lambda *_: (60_000, 100))
    times = iter(range(1_000_000))
    monkeypatch.setattr(places, "monotonic", lambda: next(times) * 60_000 * row_s)
    tasks = Places(NotedHere(job_s=job_s), rows_max=20_000)
    delivery = Delivery(open_sink(f"file://{tmp_path}/out?format=jsonl", log_id="cf"), JobSettings(log), tasks)
    delivery.deliver()
    assert tasks.rows[SPARK] == 0, "nothing is compared up to the bound"
    monkeypatch.setattr(places, "_cost", lambda *_: (60_001, 100))
    delivery.deliver()
    assert (tasks.rows[SPARK] == 0) == here


def test_while_spark_starts_windows_are_merged_here_in_batches_that_fit(tmp_path: Path, log: Folder) -> None:
    _, spark, batches = deliver(log, tmp_path / "out", 5, spark=NotedHere(ready=False))
    assert spark.came == []
    assert [seq for batch in batches for seq in batch] == list(range(SEGMENTS))
    assert len(batches) > len(deliver(log, tmp_path / "ready", 5)[2])


@pytest.mark.parametrize(
    ("rows", "batch_s", "pause_s", "wanted"),
    [
        (places.WORKER_ROWS // 2, places.START_WORTH_S, 0.0, [1, 2, 3]),
        (places.WORKER_ROWS // 2, places.START_WORTH_S / 2, 1.0, [0, 1, 2]),
        (places.WORKER_ROWS // 2, places.START_WORTH_S / 3, 1.0, [0, 0, 1]),
        (places.WORKER_ROWS // 2, places.START_WORTH_S / 2, places.LARGE_APART_S, [0, 0, 0]),
        (places.WORKER_ROWS // 2 - 1, 10 * places.START_WORTH_S, 0.0, [0, 0, 0]),
    ],
)
def test_spark_is_wanted_when_large_batches_have_taken_as_long_here_as_its_start_is_worth(
    tmp_path: Path, log: Folder, monkeypatch: pytest.MonkeyPatch, rows: int, batch_s: float, pause_s: float, wanted: list[int]
) -> None:
    """Of small batches, or large ones that are far apart, none ever wants it."""
    seen = wanted_after_each(log, tmp_path / "out", monkeypatch, NotedHere(ready=False), rows, batch_s, pause_s)
    assert seen[: len(wanted)] == wanted


def wanted_after_each(
    log: Folder, out: Path, monkeypatch: pytest.MonkeyPatch, spark: NotedHere, rows: int, batch_s: float, pause_s: float = 0.0
) -> list[int]:
    """How often it was wanted by then, after each batch of a segment. Each is of so many rows, and takes so long."""
    monkeypatch.setattr(places, "_rows", lambda *_: rows)
    times = accumulate([1_000.0, *[batch_s, pause_s] * 1_000])
    monkeypatch.setattr(places, "monotonic", lambda: next(times))
    seen = list[int]()
    limits = BatchLimits(segments_max=1)
    delivery = Delivery(open_sink(f"file://{out}?format=jsonl", log_id="cf"), JobSettings(log, limits=limits), Places(spark))
    while delivery.deliver():
        seen.append(spark.wanted)
    return seen


@pytest.mark.parametrize("seed", range(examples(4)))
def test_what_spark_could_not_get_never_wants_it(tmp_path: Path, log: Folder, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Batches of any size and time: live ones that are large by what they cost alone, large ones without a backlog, as of a stream whose
    segments come one by one, and what runs here although Spark is ready."""
    chance = Random(seed)
    few, many = chance.randrange(places.WORKER_ROWS // 2), chance.randrange(places.WORKER_ROWS // 2, places.WORKER_ROWS)
    batch_s, pause_s = chance.uniform(0.05, 5.0), chance.uniform(0.0, 10.0)
    assert not any(wanted_after_each(log, tmp_path / "few", monkeypatch, NotedHere(ready=False), few, batch_s, pause_s))
    assert not any(wanted_after_each(log, tmp_path / "ready", monkeypatch, NotedHere(), many, batch_s, pause_s))
    assert any(wanted_after_each(log, tmp_path / "backlog", monkeypatch, NotedHere(ready=False), many, batch_s + places.START_WORTH_S))
    ahead = Delivery._ahead
    monkeypatch.setattr(Delivery, "_ahead", lambda self, after, limit: ahead(self, after, min(limit, 1)))
    monkeypatch.setattr(places, "_rows", lambda *_: many)
    times = accumulate([1_000.0, *[batch_s, pause_s] * 1_000])
    monkeypatch.setattr(places, "monotonic", lambda: next(times))
    _, spark, done = deliver(log, tmp_path / "stream", places.WORKER_ROWS, spark=NotedHere(ready=False))
    assert (len(done), spark.wanted) == (SEGMENTS, 0)


def test_live_rows_are_counted_as_the_bound_of_a_batch_counts_them(log: Folder) -> None:
    (manifest,) = [item for item in new_manifests(log, after=None, limit=SEGMENTS) if item.rows][:1]
    due = DueChunk(TableName("s", "t"), CommitTs(0), CommitTs(1), manifest.seq, manifest.seq, 0, "d", "c", rows=7, bytes=50)
    heads = {manifest.seq: Head(manifest, {}, {})}
    both = Unit(manifest.seq, live=True, chunks=(due,))
    assert places._rows(heads, [both, Unit(manifest.seq, live=True, chunks=(), part=1)]) == 7 + manifest.rows


def test_what_must_be_sparks_waits_for_it(tmp_path: Path, log: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "WORKER_BYTES_MAX", 10)
    assert deliver(log, tmp_path / "out", 1_000, spark=NotedHere(ready=False))[0].rows[WORKER] == 0


def test_what_is_larger_than_the_bound_goes_to_spark(tmp_path: Path, log: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    assert deliver(log, tmp_path / "0", 0)[0].rows[WORKER] == 0
    assert deliver(log, tmp_path / "1", 1)[0].rows[WORKER] <= SEGMENTS, "batches of one row at most"
    monkeypatch.setattr(places, "WORKER_BYTES_MAX", 10)
    assert deliver(log, tmp_path / "bytes", 1_000)[0].rows[WORKER] == 0


def test_segments_before_a_window_are_a_batch_of_their_own(tmp_path: Path, log: Folder) -> None:
    closing = windows(log, tmp_path / "looked")
    _, _, batches = deliver(log, tmp_path / "out", 1_000)
    assert [seq for batch in batches for seq in batch] == list(range(SEGMENTS))
    for batch in batches:
        assert not closing & set(batch) or batch[0] in closing, f"{batch} waits for a window, windows close in {closing}"


def test_a_slow_sink_gets_windows_and_what_precedes_them_at_once(tmp_path: Path, log: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_merge.delivery.batches.ACCEPT_QUICK_S", -1.0)
    assert len(deliver(log, tmp_path / "out", 1_000)[2]) < len(deliver_quickly(tmp_path, log, monkeypatch))


def deliver_quickly(tmp_path: Path, log: Folder, monkeypatch: pytest.MonkeyPatch) -> list[list[Seq]]:
    monkeypatch.setattr("spark_merge.delivery.batches.ACCEPT_QUICK_S", 60.0)
    return deliver(log, tmp_path / "quick", 1_000)[2]


def test_what_runs_here_is_watched(tmp_path: Path, log: Folder) -> None:
    under_way: list[int] = []

    @contextmanager
    def watched() -> Iterator[None]:
        under_way.append(1)
        yield
        under_way.append(-1)

    sink = open_sink(f"file://{tmp_path}/out?format=jsonl", log_id="cf")
    delivery = Delivery(sink, JobSettings(log), Places(Here(), rows_max=1_000, watched=watched))
    while delivery.deliver():
        pass
    assert under_way == [1, -1] * (len(under_way) // 2) != []


class Dies(FileSink):
    """Its worker dies before or after a batch is accepted, once `left` accepts were done."""

    left, after = 0, False

    def accept(self, batch: Batch, outcomes: Sequence[Outcome]) -> None:
        if self.left == 0 and not self.after:
            raise ConnectionAbortedError
        super().accept(batch, outcomes)
        if self.left == 0:
            raise ConnectionAbortedError
        self.left -= 1


@pytest.mark.parametrize("seed", range(3))
def test_a_batch_that_one_place_began_is_done_again_by_the_other(tmp_path: Path, seed: int) -> None:
    """One worker after another dies, before and after each of its accepts, and each next one has its batches done in the other place."""
    history = random_history(Random(seed))
    log, out = open_folder(str(tmp_path / "log")), open_folder(str(tmp_path / "out"))
    manifests = write_log(log, history)
    for life in range(40):
        sink = Dies(out, log_id="cf", file_format="jsonl")
        sink.left, sink.after = life % 3, life % 2 == 1
        limits = BatchLimits(segments_max=1 + life % 2)
        delivery = Delivery(sink, JobSettings(log, limits=limits), Places(Here(), rows_max=1_000 if life % 4 < 2 else 0))
        try:
            while delivery.deliver():
                pass
            break
        except ConnectionAbortedError:
            continue
    assert accepted(sink) == SEGMENTS - 1
    check(history, manifests, out)
