"""Keys that the log changes behind a position: the same as in its history, whoever reads at once, and whatever is kept of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest

from sidecar.shared.errors import LogBroken, SinkError
from sidecar.shared.log import storage
from sidecar.shared.log.layout import manifest_name
from sidecar.shared.log.manifest import Manifest
from sidecar.shared.log.segment_log import FolderLog
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.nouns import CommitTs, Seq, TableName, TableSchema
from spark_merge.delivery.batches import JobSettings
from spark_merge.merge.rule import Image
from spark_merge.testing.histories import COLUMNS, DEFINITION, SEGMENT_TS, SEGMENTS, RandomHistory, random_history, write_log
from spark_merge.verify import moving as moving_module
from spark_merge.verify.look import key_of
from spark_merge.verify.moving import LogKeys, Moving, PassedSegment

TABLES = (TableName("s", "t0"), TableName("s", "t1"))


def schema(table: TableName) -> TableSchema:
    return TableSchema(table, COLUMNS, ("id", "part"), definition=DEFINITION)


def log_of(folder: Path, history: RandomHistory) -> LogKeys:
    settings = JobSettings(open_folder(str(folder)))
    manifests = write_log(settings.log, history)
    there = {row.table for row in history.rows} | {chunk.table for one in manifests for w in one.windows for chunk in w.chunks}
    return LogKeys(settings, [table for table in TABLES if table in there])


def moved(log: LogKeys, table: TableName, after: int, low_ts: int) -> set[Image]:
    moving = Moving(log, schema(table), after=Seq(after), low_ts=CommitTs(low_ts))
    assert moving.follow() == SEGMENTS * SEGMENT_TS
    assert not moving.altered
    return {key_of(key) for key in moving.keys.to_pylist()}


def expected(history: RandomHistory, table: TableName, after: int, low_ts: int) -> set[Image]:
    changed = {row.key for row in history.rows if row.table == table and row.seq > after and row.commit_ts > low_ts}
    chunks = [chunk for windows in history.windows[after + 1 :] for window in windows for chunk in window.chunks if chunk.table == table]
    dumped = {row[:2] for chunk in chunks for row in history.chunk_rows[chunk.path]}
    return changed | dumped | {key for chunk in chunks for key in history.absent[chunk.path]}


@pytest.mark.parametrize("seed", range(6))
def test_keys_of_changes_and_of_due_chunks_behind_the_position_are_moving(tmp_path: Path, seed: int) -> None:
    history = random_history(Random(seed))
    log = log_of(tmp_path, history)
    for after in range(SEGMENTS - 1):
        for low_ts in ((after + 1) * SEGMENT_TS, (after + 1) * SEGMENT_TS + SEGMENT_TS // 2):
            for table in log._tables:
                assert moved(log, table, after, low_ts) == expected(history, table, after, low_ts), (after, low_ts)


@pytest.fixture
def passed(monkeypatch: pytest.MonkeyPatch) -> Counter[Seq]:
    """How often each segment was decoded."""
    result, real = Counter[Seq](), LogKeys._passed

    def counted(self: LogKeys, manifests: Sequence[Manifest]) -> Iterator[PassedSegment]:
        result.update(one.seq for one in manifests)
        return real(self, manifests)

    monkeypatch.setattr(LogKeys, "_passed", counted)
    return result


def test_checks_that_follow_at_once_decode_each_segment_once(tmp_path: Path, passed: Counter[Seq]) -> None:
    history = random_history(Random(1))
    log = log_of(tmp_path, history)
    (table, *_) = log._tables
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: moved(log, table, 0, SEGMENT_TS), range(32)))
    assert results == [expected(history, table, 0, SEGMENT_TS)] * 32
    assert results[0]
    assert passed == Counter(map(Seq, range(1, SEGMENTS)))


def test_a_segment_that_is_not_kept_is_read_again(tmp_path: Path, passed: Counter[Seq], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moving_module, "KEYS_KEPT_MAX", 1)
    history = random_history(Random(1))
    log = log_of(tmp_path, history)
    (table, *_) = log._tables
    for _ in range(3):
        assert moved(log, table, 0, SEGMENT_TS) == expected(history, table, 0, SEGMENT_TS)
        assert len(log._kept) == 1, "the last one, after which the log is looked into"
    assert passed[Seq(1)] == 3


def test_what_is_kept_is_bounded_by_what_it_takes_and_not_by_its_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments of many tables with a change or two each: their arrays take more than their keys."""
    history = random_history(Random(1))
    log = log_of(tmp_path, history)
    (table, *_) = log._tables
    moved(log, table, 0, SEGMENT_TS)
    assert len(log._kept) == SEGMENTS - 1
    tables = sum(len(one.keys) + len(one.dumped) for one in log._kept.values())
    keys = sum(len(array) for one in log._kept.values() for array in (*one.keys.values(), *one.dumped.values()))
    monkeypatch.setattr(moving_module, "KEYS_KEPT_MAX", keys + tables)
    bounded = LogKeys(log.settings, log._tables)
    assert moved(bounded, table, 0, SEGMENT_TS) == expected(history, table, 0, SEGMENT_TS)
    assert len(bounded._kept) == 1, "the last one, after which the log is looked into"


@pytest.mark.parametrize("seq", [1, 2])
def test_a_segment_that_is_missing_is_an_error_and_not_the_logs_end(tmp_path: Path, seq: int) -> None:
    log = log_of(tmp_path, random_history(Random(1)))
    storage.remove(log.settings.log, [manifest_name(Seq(seq))])
    (table, *_) = log._tables
    with pytest.raises(LogBroken, match=manifest_name(Seq(seq))):
        moved(log, table, 0, SEGMENT_TS)


def test_segments_that_retention_removed_are_an_error_too(tmp_path: Path) -> None:
    log = log_of(tmp_path, random_history(Random(1)))
    owner = FolderLog(log.settings.log)
    owner.recover(epoch=1)
    assert owner.retain(delivered=Seq(SEGMENTS - 1), open_from=None)
    (table, *_) = log._tables
    with pytest.raises(SinkError, match="is kept"):
        moved(log, table, 0, SEGMENT_TS)


class Hidden:
    """The log's segments from `first` on, until they `come`."""

    def __init__(self, log: LogKeys, first: int) -> None:
        self.folder = log.settings.log
        names = [name for name in storage.list_names(self.folder, deep=False) if name[:20].isdigit() and int(name[:20]) >= first]
        self.data = {name: storage.read_file(self.folder, name) for name in names}
        storage.remove(self.folder, names)

    def come(self, _: float = 0) -> None:
        for name, data in self.data.items():
            storage.write_atomically(self.folder, name, data)


def test_what_is_logged_while_the_log_is_followed_is_for_the_next_time(tmp_path: Path) -> None:
    """Else a comparison that follows more slowly than the log grows would never return."""
    history = random_history(Random(1))
    log = log_of(tmp_path, history)
    table, later = min(log._tables), Hidden(log, 3)
    moving = Moving(LogKeys(log.settings, log._tables, gate=later.come), schema(table), after=Seq(0), low_ts=CommitTs(SEGMENT_TS))
    assert moving.follow() == 3 * SEGMENT_TS
    assert moving.follow() == SEGMENTS * SEGMENT_TS
    assert {key_of(key) for key in moving.keys.to_pylist()} == expected(history, table, 0, SEGMENT_TS)


@pytest.mark.parametrize("first", range(1, SEGMENTS))
def test_what_is_there_is_followed_whatever_another_check_has_seen_a_moment_before(tmp_path: Path, first: int) -> None:
    """And whatever a clock says: these segments end in 1970. Else a sink has a row already that is not known to be moving."""
    log = log_of(tmp_path, random_history(Random(1)))
    table, later = min(log._tables), Hidden(log, first)
    one, other = (Moving(log, schema(table), after=None, low_ts=CommitTs(0)) for _ in range(2))
    for moving in (one, other):
        assert moving.follow() == first * SEGMENT_TS
    assert one.follow() == first * SEGMENT_TS
    later.come()
    assert other.follow() == SEGMENTS * SEGMENT_TS
    assert one.follow() == SEGMENTS * SEGMENT_TS


def test_the_gate_is_passed_after_each_part_of_a_long_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It pauses, and ends a verification that an operator has stopped."""
    monkeypatch.setattr(moving_module, "ROWS_AT_ONCE", 1)
    history, passed = random_history(Random(1)), list[float]()
    log = log_of(tmp_path, history)
    gated = LogKeys(log.settings, log._tables, gate=passed.append)
    table = min(log._tables)
    assert Moving(gated, schema(table), after=None, low_ts=CommitTs(0)).follow() == SEGMENTS * SEGMENT_TS
    assert len(passed) >= SEGMENTS / 2, "where each has rows: one by one"
    assert all(seconds >= 0 for seconds in passed)
