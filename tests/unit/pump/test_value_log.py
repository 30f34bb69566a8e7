"""Value files after deaths: what was answered is there, what was not is cut, and what is damaged is told."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

import pytest

from sidecar.pump.record import HEADER_BYTES, PREWRITE, Binlog
from sidecar.pump.value_log import BY_TABLE_BYTES_MAX, ValueLog, ValuePlace
from sidecar.shared.errors import LogBroken, StorageFull

LARGE = 1 << 40
FIRST = "0000000001.binlog"


def binlog(ts: int, payload: bytes = b"payload") -> Binlog:
    return Binlog(PREWRITE, ts, 0, payload)


def opened(folder: Path, *, file_bytes_max: int = LARGE) -> ValueLog:
    return ValueLog(folder, file_bytes_max=file_bytes_max)


def found(folder: Path) -> list[Binlog]:
    """As a start finds it; twice, for the first look may cut."""
    looks = []
    for _ in range(2):
        log = opened(folder)
        looks.append([one for _, one in log.scan(log.first)])
        log.close()
    assert looks[0] == looks[1]
    return looks[0]


def written(folder: Path, *batches: Sequence[Binlog], file_bytes_max: int = LARGE) -> list[int]:
    """Where each batch ended."""
    log = opened(folder, file_bytes_max=file_bytes_max)
    ends = []
    for batch in batches:
        log.append(batch)
        ends.append(log.end.offset)
    log.close()
    return ends


def test_what_was_appended_is_read_by_pointer_and_in_order(tmp_path: Path) -> None:
    log = opened(tmp_path)
    wanted = [binlog(1, b""), binlog(2, b"x" * (BY_TABLE_BYTES_MAX + 1)), binlog(3, b"y" * 700_000), binlog(4, b"z" * 700_000), binlog(5)]
    pointers = log.append(wanted)
    assert [log.read(pointer) for pointer in pointers] == wanted
    log.close()
    assert found(tmp_path) == wanted


def test_a_death_at_every_byte_of_the_last_write_keeps_all_that_was_answered(tmp_path: Path) -> None:
    batches = [[binlog(1)], [binlog(2), binlog(3)], [binlog(4), binlog(5, b"longer than that"), binlog(6, b"")]]
    ends = written(tmp_path / "whole", *batches)
    whole = [one for batch in batches for one in batch]
    answered = [*batches[0], *batches[1]]
    for size in range(ends[1], ends[2] + 1):
        folder = tmp_path / str(size)
        shutil.copytree(tmp_path / "whole", folder)
        os.truncate(folder / FIRST, size)
        log = opened(folder)
        kept = [one for _, one in log.scan(log.first)]
        assert log.cut_bytes == size - log.end.offset
        log.close()
        assert kept == found(folder)
        assert kept == whole[: len(kept)]
        assert len(kept) >= len(answered)
        written(folder, [binlog(7)])
        assert found(folder) == [*kept, binlog(7)]


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_power_cut_may_leave_any_part_of_the_last_write(tmp_path: Path, missing: int) -> None:
    """Its blocks reach the disk in any order: a hole before whole records of the same write is no damage."""
    ends = written(tmp_path, [binlog(1)], [binlog(2), binlog(3), binlog(4)])
    size = HEADER_BYTES + len(b"payload")
    data = bytearray((tmp_path / FIRST).read_bytes())
    hole = ends[0] + missing * size
    data[hole : hole + size] = bytes(size)
    (tmp_path / FIRST).write_bytes(data)
    assert found(tmp_path) == [binlog(1), binlog(2), binlog(3), binlog(4)][: 1 + missing]


def test_damage_before_a_later_write_is_reported_wherever_it_is(tmp_path: Path) -> None:
    ends = written(tmp_path / "whole", [binlog(1)], [binlog(2)], [binlog(3)])
    for at in range(ends[1]):
        folder = tmp_path / str(at)
        shutil.copytree(tmp_path / "whole", folder)
        data = bytearray((folder / FIRST).read_bytes())
        data[at] ^= 0x55
        (folder / FIRST).write_bytes(data)
        log = opened(folder)
        with pytest.raises(LogBroken, match=rf"{FIRST} is damaged at byte [\d,]+: .*\n.*restore pump.data_dir from a copy"):
            list(log.scan(log.first))
        log.close()
        assert (folder / FIRST).read_bytes() == data


def test_a_file_that_is_not_the_last_has_no_torn_end(tmp_path: Path) -> None:
    written(tmp_path, [binlog(1)], [binlog(2)], file_bytes_max=1)
    os.truncate(tmp_path / FIRST, HEADER_BYTES)
    log = opened(tmp_path)
    with pytest.raises(LogBroken, match="damaged at byte 0"):
        list(log.scan(log.first))
    log.close()


def test_a_file_that_is_gone_is_reported(tmp_path: Path) -> None:
    written(tmp_path, [binlog(1)], [binlog(2)], [binlog(3)], file_bytes_max=1)
    (tmp_path / "0000000002.binlog").unlink()
    with pytest.raises(LogBroken, match=r"0000000002.binlog is gone"):
        opened(tmp_path)


def test_a_place_behind_the_end_says_that_something_is_gone(tmp_path: Path) -> None:
    (end,) = written(tmp_path, [binlog(1)])
    log = opened(tmp_path)
    with pytest.raises(LogBroken, match="damaged"):
        list(log.scan(ValuePlace(1, end + 1)))
    log.close()


def test_damage_is_reported_by_the_reader(tmp_path: Path) -> None:
    log = opened(tmp_path)
    (pointer,) = log.append([binlog(1)])
    with (tmp_path / FIRST).open("r+b") as file:
        file.seek(HEADER_BYTES)
        file.write(b"P")
    with pytest.raises(LogBroken, match="damaged at byte 0"):
        log.read(pointer)
    log.close()


@pytest.mark.parametrize("after_bytes", [0, 20, 60])
def test_a_write_without_room_is_taken_back_and_the_next_one_may_fit(tmp_path: Path, after_bytes: int) -> None:
    log = opened(tmp_path)
    log.append([binlog(1)])
    real = os.pwrite

    def full(fd: int, data: memoryview, at: int) -> int:
        if after_bytes and at == first:
            return real(fd, data[:after_bytes], at)
        raise OSError(errno.ENOSPC, "No space left on device")

    first = log.end.offset
    with patch("sidecar.pump.value_log.os.pwrite", full), pytest.raises(StorageFull, match="No space left"):
        log.append([binlog(2), binlog(3)])
    log.append([binlog(4)])
    log.close()
    assert found(tmp_path) == [binlog(1), binlog(4)]


def test_after_a_sync_that_failed_nothing_is_written_any_more(tmp_path: Path) -> None:
    log = opened(tmp_path)
    with (
        patch("sidecar.pump.value_log.os.fdatasync", side_effect=OSError(errno.EIO, "Input/output error")),
        pytest.raises(LogBroken, match="cannot be synced: Input/output error"),
    ):
        log.append([binlog(1)])
    with pytest.raises(LogBroken, match="start the pump again"):
        log.append([binlog(2)])
    log.close()


def test_files_are_removed_from_the_front(tmp_path: Path) -> None:
    log = opened(tmp_path, file_bytes_max=1)
    for ts in (1, 2, 3):
        log.append([binlog(ts)])
    assert log.files() == [1, 2]
    log.remove(1)
    assert log.first == ValuePlace(2, 0)
    log.close()
    assert found(tmp_path) == [binlog(2), binlog(3)]
