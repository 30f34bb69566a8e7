"""What a pump's storage answered it has, through restarts and deaths; what it streams is complete up to its mark."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event
from typing import Any
from unittest.mock import patch

import pytest

from sidecar.pump import storage as storage_module
from sidecar.pump.index import End, IndexReader, PumpIndex
from sidecar.pump.record import COMMIT, PREWRITE, ROLLBACK, Binlog, binlog_of, made
from sidecar.pump.storage import PumpRoom, Storage
from sidecar.pump.value_log import Pointer, ValuePlace
from sidecar.shared.errors import ConfigError, LogBroken, RefusedRequest, StorageFull
from tests.support.eventually import PATIENCE_S
from ticdc_dump.binlog import binlog_pb2

CLUSTER_ID = 7
ROOMY = PumpRoom(free_bytes_min=0)
EVERY_BINLOG_A_FILE = PumpRoom(value_file_bytes_max=1, free_bytes_min=0)


def prewrite(start_ts: int, value: bytes = b"value") -> Binlog:
    message = binlog_pb2.Binlog(tp=binlog_pb2.Prewrite, start_ts=start_ts, prewrite_key=b"key", prewrite_value=value)
    return binlog_of(message.SerializeToString())


def commit(start_ts: int, commit_ts: int) -> Binlog:
    return made(COMMIT, start_ts, commit_ts)


def rollback(start_ts: int) -> Binlog:
    return made(ROLLBACK, start_ts, 0)


def fake(ts: int) -> Binlog:
    return made(ROLLBACK, ts, ts)


@contextmanager
def opened(folder: Path, room: PumpRoom = ROOMY) -> Iterator[Storage]:
    with closing(Storage(folder, cluster_id=CLUSTER_ID, room=room)) as storage:
        yield storage


def write(storage: Storage, *binlogs: Binlog) -> None:
    for one in binlogs:
        storage.write(one)


def settled(storage: Storage, holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        storage.check()
        assert time.monotonic() < deadline
        time.sleep(0.001)


def reaches(storage: Storage, ts: int) -> None:
    settled(storage, lambda: storage.max_commit_ts >= ts)


def streamed(storage: Storage, after_ts: int = 0) -> list[tuple[int, int]]:
    """start_ts and commit_ts of all up to the mark."""
    results: list[tuple[int, int]] = []
    with closing(storage.reader()) as reader:
        while True:
            some, upto_ts = reader.read(after_ts)
            results += [(start_ts, commit_ts) for start_ts, commit_ts, _ in some]
            if upto_ts <= after_ts:
                return results
            after_ts = upto_ts


def test_it_streams_by_commit_ts_what_came_in_any_order(tmp_path: Path) -> None:
    with opened(tmp_path) as storage:
        write(storage, prewrite(1), prewrite(2), commit(2, 3), prewrite(4), rollback(4), commit(1, 5), fake(6))
        reaches(storage, 6)
        assert streamed(storage) == [(2, 3), (1, 5), (6, 6)]
        assert streamed(storage, 3) == [(1, 5), (6, 6)]
        assert streamed(storage, 9) == []
        with closing(storage.reader()) as reader:
            result = binlog_pb2.Binlog.FromString(reader.read(0)[0][1].payload)
            assert (result.start_ts, result.commit_ts, result.prewrite_value) == (1, 5, b"value")
            assert reader.binlog_at(4) == prewrite(4)
            assert reader.binlog_at(5) == commit(1, 5)
            assert reader.binlog_at(7) is None


def test_a_prewrite_without_an_end_holds_all_behind_it(tmp_path: Path) -> None:
    with opened(tmp_path) as storage:
        write(storage, prewrite(1), commit(1, 2), prewrite(3), prewrite(4), commit(4, 5), fake(6))
        settled(storage, lambda: storage.waiting == 1)
        assert storage.max_commit_ts == 2
        assert streamed(storage) == [(1, 2)]
        assert [held.start_ts for held in storage.held(longer_than_s=0)] == [3]
        write(storage, commit(3, 7))
        reaches(storage, 7)
        assert streamed(storage) == [(1, 2), (4, 5), (6, 6), (3, 7)]


def test_what_comes_twice_is_streamed_once_and_holds_nothing(tmp_path: Path) -> None:
    with opened(tmp_path) as storage:
        write(storage, prewrite(1), prewrite(1), commit(1, 2), commit(1, 2), prewrite(1), fake(3), fake(3))
        reaches(storage, 3)
        assert streamed(storage) == [(1, 2), (3, 3)]


def test_a_commit_whose_prewrite_is_not_here_is_left_out_and_counted(tmp_path: Path) -> None:
    with opened(tmp_path) as storage:
        write(storage, commit(1, 2), fake(3))
        reaches(storage, 3)
        assert streamed(storage) == [(3, 3)]
        assert storage.unmatched == 1


def test_a_long_stream_is_read_in_parts(tmp_path: Path) -> None:
    with (
        patch.object(storage_module, "READ_COUNT_MAX", 3),
        patch.object(storage_module, "READ_BYTES_MAX", 40),
        opened(tmp_path) as storage,
    ):
        for ts in range(1, 40, 2):
            write(storage, prewrite(ts, b"x" * ts), commit(ts, ts + 1))
        reaches(storage, 40)
        assert streamed(storage) == [(ts, ts + 1) for ts in range(1, 40, 2)]


def history() -> list[Binlog]:
    return [prewrite(1), prewrite(2), commit(1, 3), fake(4), prewrite(5), rollback(2), prewrite(6), commit(6, 7), commit(5, 8), fake(9)]


def test_a_restart_at_any_moment_goes_on_as_if_there_had_been_none(tmp_path: Path) -> None:
    for died_at in range(len(history()) + 1):
        folder = tmp_path / str(died_at)
        for part in (history()[:died_at], history()[died_at:], []):
            with opened(folder) as storage:
                write(storage, *part)
                if part[-1:] == [fake(9)]:
                    reaches(storage, 9)
        with opened(folder) as storage:
            assert storage.max_commit_ts == 9
            assert storage.waiting == 0
            assert streamed(storage) == [(1, 3), (4, 4), (6, 7), (5, 8), (9, 9)]


def test_an_index_that_is_gone_or_behind_is_made_again(tmp_path: Path) -> None:
    with opened(tmp_path) as storage:
        write(storage, *history()[:4])
    previous = tmp_path / "former.sqlite"
    shutil.copy(tmp_path / "index.sqlite", previous)
    with opened(tmp_path) as storage:
        write(storage, *history()[4:])
        reaches(storage, 9)
    for index in (previous, None):
        for path in tmp_path.glob("index.sqlite*"):
            path.unlink()
        if index is not None:
            shutil.copy(index, tmp_path / "index.sqlite")
        with opened(tmp_path) as storage:
            assert storage.max_commit_ts == 9
            assert streamed(storage) == [(1, 3), (4, 4), (6, 7), (5, 8), (9, 9)]


def test_an_index_that_is_no_database_says_how_to_go_on(tmp_path: Path) -> None:
    with opened(tmp_path) as storage:
        write(storage, fake(1))
    for path in tmp_path.glob("index.sqlite*"):
        path.unlink()
    (tmp_path / "index.sqlite").write_bytes(b"no database" * 1000)
    with pytest.raises(LogBroken, match=r"index.sqlite cannot be used(.|\n)*delete index.sqlite\*: it is re-created"):
        Storage(tmp_path, cluster_id=CLUSTER_ID, room=ROOMY)


def test_a_folder_of_another_cluster_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path):
        pass
    with pytest.raises(ConfigError, match="holds binlogs of cluster 7, and PD is of cluster 8"):
        Storage(tmp_path, cluster_id=8, room=ROOMY)


WRITER = """
import sys
from pathlib import Path
from tests.unit.pump.test_storage import CLUSTER_ID, ROOMY, Storage, commit, prewrite
storage = Storage(Path(sys.argv[1]), cluster_id=CLUSTER_ID, room=ROOMY)
def told(text):
    def tell(error):
        assert error is None
        print(text, flush=True)
    return tell
for ts in range(1, 1_000_000, 2):
    storage.submit(prewrite(ts, b"x" * (ts % 3000)), told(ts))
    if ts % 6 != 1:
        storage.submit(commit(ts, ts + 1), told(-ts))
"""


@pytest.mark.parametrize("answers", [1, 50, 2000])
def test_a_kill_loses_nothing_that_was_answered(tmp_path: Path, answers: int) -> None:
    process = subprocess.Popen([sys.executable, "-c", WRITER, tmp_path], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    answered_ts = [int(process.stdout.readline()) for _ in range(answers)]
    process.send_signal(signal.SIGKILL)
    answered_ts += [int(line) for line in process.stdout.read().splitlines(keepends=True) if line.endswith("\n")]
    process.wait()
    process.stdout.close()
    with opened(tmp_path) as storage, closing(storage.reader()) as reader:
        for ts in answered_ts:
            binlog = reader.binlog_at(ts if ts > 0 else -ts + 1)
            assert binlog is not None
            assert binlog == (prewrite(ts, b"x" * (ts % 3000)) if ts > 0 else commit(-ts, -ts + 1))
        assert storage.max_commit_ts == 0, "the first prewrite has no end"


def test_below_the_room_that_is_to_stay_only_fakes_are_written(tmp_path: Path) -> None:
    with opened(tmp_path, PumpRoom(free_bytes_min=1 << 60)) as storage:
        with pytest.raises(StorageFull, match=r"no available space in .*expected 1,152,921,504,606,846,976 at least"):
            storage.write(prewrite(1))
        storage.write(fake(2))
        reaches(storage, 2)
        with patch.object(storage, "free_bytes", return_value=1 << 61):
            write(storage, prewrite(3), commit(3, 4))
            reaches(storage, 4)


def test_a_disk_that_is_full_refuses_and_takes_writes_again(tmp_path: Path) -> None:
    with opened(tmp_path) as storage:
        storage.write(fake(1))
        full = OSError(errno.ENOSPC, "No space left on device")
        with patch("sidecar.pump.value_log.os.pwrite", side_effect=full), pytest.raises(StorageFull, match="No space left"):
            storage.write(prewrite(2))
        storage.check()
        write(storage, prewrite(3), commit(3, 4))
        reaches(storage, 4)
        assert streamed(storage) == [(1, 1), (3, 4)]


def test_an_index_without_room_is_brought_up_later(tmp_path: Path) -> None:
    with opened(tmp_path) as storage:
        real, refused = PumpIndex.add, [True, True]

        def add(index: PumpIndex, binlogs: Any, **state: int) -> set[Pointer]:
            if refused:
                refused.pop()
                raise StorageFull("full", hint="make room")
            return real(index, binlogs, **state)

        with patch.object(PumpIndex, "add", add):
            write(storage, prewrite(1), commit(1, 2))
            assert streamed(storage) == []
            reaches(storage, 2)
        assert streamed(storage) == [(1, 2)]


def test_a_disk_that_fails_ends_the_storage_and_is_reported_to_everybody(tmp_path: Path) -> None:
    storage = Storage(tmp_path, cluster_id=CLUSTER_ID, room=ROOMY)
    failed = OSError(errno.EIO, "Input/output error")
    with patch("sidecar.pump.value_log.os.fdatasync", side_effect=failed), pytest.raises(LogBroken, match="cannot be synced"):
        storage.write(fake(1))
    with pytest.raises(LogBroken, match="cannot be synced"):
        settled(storage, lambda: False)
    with pytest.raises(LogBroken, match="cannot be synced"):
        storage.write(fake(2))
    storage.close()


def test_what_no_message_can_carry_is_refused_by_its_size(tmp_path: Path) -> None:
    with opened(tmp_path) as storage, patch.object(storage_module, "PAYLOAD_BYTES_MAX", 100):
        with pytest.raises(RefusedRequest, match=r"a binlog of 1,\d+ bytes \(start_ts 1\): expected 100 at most"):
            storage.write(prewrite(1, bytes(1000)))
        storage.write(fake(2))


def test_after_its_end_nothing_is_taken(tmp_path: Path) -> None:
    storage = Storage(tmp_path, cluster_id=CLUSTER_ID, room=ROOMY)
    storage.close()
    with pytest.raises(RefusedRequest, match="has ended"):
        storage.write(fake(1))


DAY = 86_400_000 << 18


def test_collection_lets_old_files_go_and_keeps_what_commits_need(tmp_path: Path) -> None:
    with opened(tmp_path, EVERY_BINLOG_A_FILE) as storage:
        for day in range(1, 6):
            write(storage, prewrite(day * DAY), commit(day * DAY, day * DAY + 1))
        reaches(storage, 5 * DAY + 1)
        assert not storage.collect(6 * DAY)
        assert storage.collect(3 * DAY)
        assert not storage.collect(2 * DAY)
        settled(storage, lambda: len(list((tmp_path / "value").glob("*.binlog"))) == 6)
        assert streamed(storage) == [(day * DAY, day * DAY + 1) for day in (3, 4, 5)]
        with closing(storage.reader()) as reader:
            assert reader.binlog_at(2 * DAY) is None
    with opened(tmp_path, EVERY_BINLOG_A_FILE) as storage:
        assert storage.gc_ts == 3 * DAY
        assert streamed(storage) == [(day * DAY, day * DAY + 1) for day in (3, 4, 5)]


def test_collection_waits_for_a_prewrite_without_an_end(tmp_path: Path) -> None:
    with opened(tmp_path, EVERY_BINLOG_A_FILE) as storage:
        write(storage, fake(DAY), prewrite(2 * DAY), fake(9 * DAY))
        settled(storage, lambda: storage.waiting == 1)
        assert not storage.collect(5 * DAY)
        write(storage, commit(2 * DAY, 9 * DAY + 1))
        reaches(storage, 9 * DAY + 1)
        assert storage.collect(5 * DAY)


def test_many_writers_share_a_sync(tmp_path: Path) -> None:
    with opened(tmp_path) as storage:
        syncs: list[int] = []
        real = os.fdatasync

        all_came = Event()

        def slow(fd: int) -> None:
            syncs.append(fd)
            assert all_came.wait(PATIENCE_S)
            real(fd)

        reports: list[Exception | None] = []
        with patch("sidecar.pump.value_log.os.fdatasync", slow):
            for ts in range(1, 1000):
                storage.submit(fake(ts), reports.append)
            all_came.set()
            settled(storage, lambda: len(reports) == 999)
        assert reports == [None] * 999
        assert len(syncs) < 100


def test_the_index_reads_and_writes_beside_each_other(tmp_path: Path) -> None:
    index = PumpIndex(tmp_path / "index.sqlite")
    reader = IndexReader(tmp_path / "index.sqlite")
    at: Sequence[Pointer] = [Pointer(1, number, 9) for number in range(4)]
    known = index.add(
        [(at[0], prewrite(1)), (at[1], commit(1, 3)), (at[2], fake(2)), (at[3], rollback(5))], indexed_file=1, indexed_offset=36
    )
    assert known == set()
    assert index.add([(at[3], prewrite(1))]) == {at[3]}
    assert reader.ends(0, 9, 10) == [End(2, 2, at[2], None), End(3, 1, at[1], at[0])]
    assert reader.ends(0, 2, 10) == [End(2, 2, at[2], None)]
    assert index.state().indexed == ValuePlace(1, 36)
    reader.close()
    index.close()


def test_the_first_binlog_of_a_timestamp_stays(tmp_path: Path) -> None:
    """In one write and in two: a reader that comes again reads what it read."""
    first, second, third = [Pointer(1, number, 9) for number in range(3)]
    with closing(PumpIndex(tmp_path / "index.sqlite")) as index, closing(IndexReader(tmp_path / "index.sqlite")) as reader:
        for at in ([first, second], [third]):
            index.add([(pointer, binlog) for pointer in at for binlog in (prewrite(1), commit(1, 3), fake(4))])
            assert reader.ends(0, 9, 10) == [End(3, 1, first, first), End(4, 4, first, None)]
            assert [reader.pointer_at(ts) for ts in (1, 3, 4)] == [first] * 3


def test_a_value_that_comes_again_does_not_replace_the_first(tmp_path: Path) -> None:
    with opened(tmp_path) as storage:
        write(storage, prewrite(1, b"first"), prewrite(1, b"again"), commit(1, 2), prewrite(1, b"late"), fake(3))
        reaches(storage, 3)
        with closing(storage.reader()) as reader:
            (result, _), _ = reader.read(0)
            assert binlog_pb2.Binlog.FromString(result.payload).prewrite_value == b"first"


def test_kinds_are_those_of_the_wire() -> None:
    assert (PREWRITE, COMMIT, ROLLBACK) == (0, 1, 2)
