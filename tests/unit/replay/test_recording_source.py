"""The recorded source does what TiDB would: marks in order, reads at one moment, files before reports."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from sidecar.replay.history import RecordedHistory
from sidecar.replay.judge.rows import rows_by_key
from sidecar.replay.recording import FeedConfig, Recording
from sidecar.replay.source import RecordedSource, WatermarkRow, recorded_windows
from sidecar.replay.tables import RecordedTables
from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.model.chunk import WrittenChunk
from sidecar.shared.model.messages import Brackets, ChunkMisfit, ChunkRead, MarkSent, ReadChunk, SendMark, SourceEvent, SourceFailed
from sidecar.shared.model.nouns import Change, CommitTs, Lane, MarkKind, Message, TableName
from tests.support.recordings import recording

CUSTOMER = TableName("shop", "customer")
DUMP = "0123456789abcdef"
STEPS = 100


@pytest.fixture(scope="module")
def demo() -> Recording:
    return Recording(recording("demo"))


@pytest.fixture(scope="module")
def tables(demo: Recording) -> RecordedTables:
    return RecordedTables(demo, demo.feed_config())


class FakeCluster:
    """Time goes on by one a look; what is injected is kept."""

    def __init__(self, config: FeedConfig, *, now_ts: int) -> None:
        self.config = config
        self.ts = now_ts
        self.injected: list[tuple[CommitTs, bytes | None, bytes]] = []

    def now_ts(self) -> CommitTs:
        self.ts += 1
        return CommitTs(self.ts)

    def inject(self, commit_ts: CommitTs, key: bytes | None, value: bytes) -> None:
        self.injected.append((commit_ts, key, value))

    def marks(self) -> list[tuple[CommitTs, str, MarkKind]]:
        codec = self.config.codec()
        rows = [e for _, key, value in self.injected for e in codec.envelopes(Message(Lane("a"), 0, key, value)) if isinstance(e, Change)]
        return [(mark.commit_ts, mark.uuid, mark.kind) for row in rows if (mark := codec.mark(row)) is not None]


class Files:
    def __init__(self) -> None:
        self.written: dict[str, pa.Table] = {}

    def write(self, path: str, rows: pa.Table) -> WrittenChunk:
        self.written[path] = rows
        return WrittenChunk(100 + int(rows.num_rows), f"sha256 of {path}", f"sum of {path}")


Build = Callable[..., tuple[RecordedSource, FakeCluster, Files]]


@pytest.fixture
def build(demo: Recording, tables: RecordedTables) -> Build:
    def made(*, seed: int = 0, row: WatermarkRow | None = None, steps_max: int = 3) -> tuple[RecordedSource, FakeCluster, Files]:
        cluster, files = FakeCluster(demo.feed_config(), now_ts=demo.truth_ts[2]), Files()
        source = RecordedSource(tables, cluster, row or WatermarkRow("test"), files.write, seed=seed, steps_max=steps_max)
        return source, cluster, files

    return made


def read(number: int = 0, *, table: TableName = CUSTOMER, rows_max: int = 20, brackets: Brackets = Brackets.WATERMARK) -> ReadChunk:
    return ReadChunk(DUMP, 3, number, table, None, None, rows_max, brackets)


def finished(source: RecordedSource) -> list[SourceEvent]:
    return [event for _ in range(STEPS) for event in source.results()]


def test_nothing_under_way_gives_nothing(build: Build) -> None:
    source, _, _ = build()
    assert source.results() == []


@pytest.mark.parametrize("seed", range(5))
def test_marks_commit_one_after_another_in_the_order_of_the_commands(build: Build, seed: int) -> None:
    source, cluster, _ = build(seed=seed)
    kinds = [MarkKind.LOW, MarkKind.LOW, MarkKind.HIGH]
    for number, kind in enumerate(kinds):
        source.request(SendMark(f"uuid-{number}", kind))
    assert finished(source) == [MarkSent("uuid-0"), MarkSent("uuid-1"), MarkSent("uuid-2")]
    assert [(uuid, kind) for _, uuid, kind in cluster.marks()] == [(f"uuid-{n}", kind) for n, kind in enumerate(kinds)]
    commits = [ts for ts, _, _ in cluster.marks()]
    assert commits == sorted(set(commits))


@pytest.mark.parametrize("seed", range(20))
def test_a_mark_is_in_the_feed_before_it_is_reported(build: Build, seed: int) -> None:
    source, cluster, _ = build(seed=seed)
    source.request(SendMark("one", MarkKind.LOW))
    while not source.results():
        pass
    assert len(cluster.injected) == 1


def test_each_mark_updates_the_version_before_it(build: Build) -> None:
    row = WatermarkRow("test")
    source, cluster, _ = build(row=row)
    source.request(SendMark("one", MarkKind.LOW))
    source.request(SendMark("two", MarkKind.HIGH))
    finished(source)
    assert [b'"p"' in value for _, _, value in cluster.injected] == [False, True]
    assert row.holds == ("two", MarkKind.HIGH)
    later, cluster, _ = build(row=row)
    later.request(SendMark("three", MarkKind.LOW))
    finished(later)
    assert b'"two"' in cluster.injected[0][2]


def test_a_chunk_holds_the_rows_of_one_moment_and_its_file_is_written_before_the_report(
    build: Build, demo: Recording, tables: RecordedTables
) -> None:
    source, cluster, files = build()
    source.request(read(7))
    while not (events := source.results()):
        pass
    (event,) = events
    assert isinstance(event, ChunkRead)
    path = f"chunks/{DUMP}/0000000003-00000007.parquet"
    expected = list(tables.rows(CUSTOMER, CommitTs(cluster.ts)).items())[:20]
    assert list(rows_by_key(demo.schemas[CUSTOMER], files.written[path]).items()) == expected
    assert (event.number, event.exhausted) == (7, False)
    assert (event.file.table, event.file.path, event.file.rows, event.file.bytes) == (CUSTOMER, path, 20, 120)
    assert (event.file.after, event.file.last, event.file.read_tso) == (None, expected[-1][0], None)


def test_snapshot_brackets_report_the_moment_of_the_select(build: Build) -> None:
    source, cluster, _ = build()
    source.request(read(brackets=Brackets.SNAPSHOT))
    (event,) = finished(source)
    assert isinstance(event, ChunkRead)
    assert event.file.read_tso == cluster.ts


def test_an_empty_chunk_has_a_file_too(build: Build, demo: Recording, tables: RecordedTables) -> None:
    source, _, files = build()
    last = list(tables.rows(CUSTOMER, demo.truth_ts[2]))[-1]
    source.request(ReadChunk(DUMP, 1, 0, CUSTOMER, last, None, 5, Brackets.WATERMARK))
    (event,) = finished(source)
    assert isinstance(event, ChunkRead)
    assert (event.file.rows, event.file.last, event.exhausted) == (0, last, True)
    assert files.written[event.file.path].num_rows == 0


def test_reads_that_are_under_way_together_finish_in_any_order(build: Build) -> None:
    orders = set()
    for seed in range(20):
        source, _, _ = build(seed=seed)
        for number in range(3):
            source.request(read(number))
        orders.add(tuple(event.number for event in finished(source) if isinstance(event, ChunkRead)))
    assert len(orders) > 3
    assert all(sorted(order) == [0, 1, 2] for order in orders)


def test_a_table_that_is_not_there_fails_the_command(build: Build) -> None:
    source, _, files = build()
    command = read(table=TableName("shop", "none"))
    source.request(command)
    (event,) = finished(source)
    assert isinstance(event, SourceFailed)
    assert event.command == command
    assert "shop.none" in event.reason
    assert not files.written


def test_close_forgets_what_is_under_way(build: Build) -> None:
    source, cluster, files = build(steps_max=0)
    source.request(read())
    source.request(SendMark("one", MarkKind.LOW))
    source.close()
    assert finished(source) == []
    assert (cluster.injected, files.written) == ([], {})


def test_a_crash_may_leave_a_mark_and_a_file_that_were_reported_to_nobody(build: Build) -> None:
    lost = set()
    for seed in range(30):
        source, cluster, files = build(seed=seed)
        source.request(read())
        source.request(SendMark("one", MarkKind.LOW))
        events = source.results()
        source.close()
        lost |= {"mark"} if cluster.injected and MarkSent("one") not in events else set()
        lost |= {"file"} if files.written and not any(isinstance(event, ChunkRead) for event in events) else set()
    assert lost == {"mark", "file"}


# ---- the recorded dump ----------------------------------------------------------------------------------------------


def test_recorded_windows_bracket_their_chunks(demo: Recording) -> None:
    windows = recorded_windows(demo)
    assert (windows.changefeed_id, len(windows.windows)) == ("demo-dump", 37)
    for window in windows.windows:
        assert window.low_ts < window.high_ts
        for chunk in window.chunks:
            keys = list(rows_by_key(demo.schemas[chunk.table], chunk.rows))
            assert window.low_ts < chunk.read_tso < window.high_ts
            assert tuple(chunk.rows.column_names) == demo.schemas[chunk.table].column_names()
            assert not keys or keys[-1] == chunk.last
    read_rows = sum(chunk.rows.num_rows for window in windows.windows for chunk in window.chunks)
    assert read_rows == 2228


def test_recorded_rows_are_what_the_stand_in_would_have_read(demo: Recording, tables: RecordedTables) -> None:
    chunk = next(chunk for window in recorded_windows(demo).windows for chunk in window.chunks if chunk.table == CUSTOMER)
    again = tables.chunk(CUSTOMER, after=chunk.after, upper=chunk.last, rows_max=1000, at_ts=chunk.read_tso)
    assert again.rows.equals(chunk.rows)


@pytest.mark.recordings
def test_a_recording_without_a_dump_is_refused() -> None:
    with pytest.raises(FeedUnsuitable, match="holds no recorded dump"):
        recorded_windows(Recording(recording("ddl")))


@pytest.mark.recordings
def test_a_table_that_a_ddl_has_changed_is_read_when_it_was_followed() -> None:
    """Before that its SELECT does not fit, and says from when on the DDL must have passed."""
    ddl = Recording(recording("ddl"))
    history = RecordedHistory(ddl)
    orders, step = next((name, step) for step in history.steps for name in step.names if name.table == "orders")
    assert len(step.schemas[orders].columns) < len(history.schemas_at(step.ts - 1)[orders].columns), "it drops a column"
    files, cluster = Files(), FakeCluster(ddl.feed_config(), now_ts=step.ts + 10)
    source = RecordedSource(
        RecordedTables(ddl, ddl.feed_config(), history=history), cluster, WatermarkRow("test"), files.write, steps_max=0
    )
    source.follow(history.schemas_at(ddl.start_ts))
    source.request(read(1, table=orders))
    (failed,) = finished(source)
    assert isinstance(failed, ChunkMisfit)
    assert failed.schema_ts > step.ts
    source.follow(history.schemas_at(step.ts))
    source.request(read(2, table=orders))
    (event,) = finished(source)
    assert isinstance(event, ChunkRead)
    assert files.written[event.file.path].column_names == list(step.schemas[orders].column_names())
