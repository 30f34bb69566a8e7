"""What was collected is on record before it is gone: whatever dies, fills up or is taken away, readers are told, and none skips unheard."""

from __future__ import annotations

import errno
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from threading import Event
from typing import Any
from unittest.mock import patch

import pytest

from sidecar.pump.collected import Collected
from sidecar.pump.index import PumpIndex
from sidecar.pump.record import Binlog
from sidecar.pump.storage import PREWRITES_KEPT_MS
from sidecar.pump.value_log import ValueLog
from sidecar.shared.errors import LogBroken, StorageFull
from tests.unit.pump.test_storage import (
    DAY,
    EVERY_BINLOG_A_FILE,
    commit,
    fake,
    opened,
    prewrite,
    reaches,
    settled,
    streamed,
    write,
)

DAYS = range(1, 6)
WHOLE = [(day * DAY, day * DAY + 1) for day in DAYS]


def filled(folder: Path) -> None:
    """Five transactions, a day apart; each binlog in a file of its own."""
    with opened(folder, EVERY_BINLOG_A_FILE) as storage:
        for day in DAYS:
            write(storage, prewrite(day * DAY), commit(day * DAY, day * DAY + 1))
        reaches(storage, 5 * DAY + 1)


def value_files(folder: Path) -> int:
    return len(list(folder.glob("value/*.binlog")))


def collected(folder: Path, ts: int, *, left: int) -> None:
    """Up to `ts`, to its end."""
    with opened(folder, EVERY_BINLOG_A_FILE) as storage:
        assert storage.collect(ts)
        settled(storage, lambda: value_files(folder) == left)


def remove_index(folder: Path) -> None:
    for path in folder.glob("index.sqlite*"):
        path.unlink()


def remove_record(folder: Path) -> None:
    for path in folder.glob("value/collected.*"):
        path.unlink()


class Died(Exception):
    pass


# ---- the record ------------------------------------------------------------------------------------------------------


def test_the_record_only_rises_and_is_one_file(tmp_path: Path) -> None:
    assert Collected(tmp_path).ts is None
    record = Collected(tmp_path)
    for ts, expected in ((0, 0), (7, 7), (5, 7), (30, 30)):
        record.record(ts)
        assert (record.ts, Collected(tmp_path).ts) == (expected, expected)
        assert [path.name for path in tmp_path.iterdir()] == [f"collected.{expected}"]


def test_a_record_that_cannot_be_read_stops(tmp_path: Path) -> None:
    (tmp_path / "collected.soon").touch()
    with pytest.raises(LogBroken, match=r"collected\.soon is no record"):
        Collected(tmp_path)


def test_a_record_is_durable_before_it_counts(tmp_path: Path) -> None:
    record = Collected(tmp_path)
    record.record(1)
    for code, kind in ((errno.ENOSPC, StorageFull), (errno.EDQUOT, StorageFull), (errno.EIO, LogBroken)):
        with patch("sidecar.pump.collected.os.fsync", side_effect=OSError(code, "failed")), pytest.raises(kind):
            record.record(2)
        assert record.ts == 1
    record.record(2)
    assert Collected(tmp_path).ts == record.ts == 2


# ---- after the index was taken away ----------------------------------------------------------------------------------


def test_an_index_that_is_made_again_knows_what_was_collected(tmp_path: Path) -> None:
    filled(tmp_path)
    collected(tmp_path, 3 * DAY, left=6)
    remove_index(tmp_path)
    with opened(tmp_path, EVERY_BINLOG_A_FILE) as storage:
        assert storage.gc_ts == 3 * DAY
        assert streamed(storage) == WHOLE[2:]


def test_a_folder_that_has_it_in_the_index_only_gets_the_record(tmp_path: Path) -> None:
    filled(tmp_path)
    collected(tmp_path, 3 * DAY, left=6)
    remove_record(tmp_path)
    with closing(PumpIndex(tmp_path / "index.sqlite")) as index:
        index.add((), gc_ts=3 * DAY)
    with opened(tmp_path, EVERY_BINLOG_A_FILE) as storage:
        assert storage.gc_ts == 3 * DAY
    assert Collected(tmp_path / "value").ts == 3 * DAY


def test_without_any_record_what_is_not_surely_whole_counts_as_collected(tmp_path: Path) -> None:
    """The first transaction that is here from its prewrite on came after all that was removed; with the margin of prewrites."""
    filled(tmp_path)
    collected(tmp_path, 3 * DAY, left=6)
    remove_index(tmp_path)
    remove_record(tmp_path)
    for _ in range(2):
        with opened(tmp_path, EVERY_BINLOG_A_FILE) as storage:
            assert storage.gc_ts == 3 * DAY + 1 + (PREWRITES_KEPT_MS << 18)
            assert storage.is_gc_assumed
            assert streamed(storage) == WHOLE[3:]
        remove_index(tmp_path)
        remove_record(tmp_path)


def test_without_any_record_rows_of_removed_files_are_no_proof(tmp_path: Path) -> None:
    """An index from before the collection, after a power cut."""
    filled(tmp_path)
    previous = tmp_path / "previous"
    shutil.copy(tmp_path / "index.sqlite", previous)
    collected(tmp_path, 3 * DAY, left=6)
    remove_index(tmp_path)
    remove_record(tmp_path)
    shutil.copy(previous, tmp_path / "index.sqlite")
    with opened(tmp_path, EVERY_BINLOG_A_FILE) as storage:
        assert storage.gc_ts == 3 * DAY + 1 + (PREWRITES_KEPT_MS << 18)
        assert streamed(storage) == WHOLE[3:]


@pytest.mark.parametrize("newest", [[fake(5 * DAY)], [prewrite(5 * DAY - 1), commit(5 * DAY - 1, 5 * DAY)]])
def test_without_any_record_no_more_than_all_counts_as_collected(tmp_path: Path, newest: list[Binlog]) -> None:
    """Nothing is whole, or only what came last: what comes next is not collected."""
    with opened(tmp_path, EVERY_BINLOG_A_FILE) as storage:
        write(storage, *(fake(day * DAY) for day in range(1, 5)), *newest)
        reaches(storage, 5 * DAY)
    collected(tmp_path, 3 * DAY, left=2 + len(newest))
    remove_index(tmp_path)
    remove_record(tmp_path)
    with opened(tmp_path, EVERY_BINLOG_A_FILE) as storage:
        assert storage.gc_ts == 5 * DAY


def test_without_any_record_a_stream_that_is_held_changes_nothing(tmp_path: Path) -> None:
    """A prewrite that came again, whose end was collected, holds the mark below all that is here."""
    with opened(tmp_path, EVERY_BINLOG_A_FILE) as storage:
        write(storage, prewrite(DAY), commit(DAY, DAY + 1), prewrite(DAY), prewrite(2 * DAY), commit(2 * DAY, 2 * DAY + 1), fake(3 * DAY))
    for number in (1, 2):
        (tmp_path / "value" / f"{number:010}.binlog").unlink()
    remove_index(tmp_path)
    remove_record(tmp_path)
    with opened(tmp_path, EVERY_BINLOG_A_FILE) as storage:
        assert (storage.max_commit_ts, storage.gc_ts) == (0, 2 * DAY + 1 + (PREWRITES_KEPT_MS << 18))


def test_a_folder_that_has_its_first_file_has_collected_nothing(tmp_path: Path) -> None:
    filled(tmp_path)
    remove_index(tmp_path)
    remove_record(tmp_path)
    with opened(tmp_path, EVERY_BINLOG_A_FILE) as storage:
        assert (storage.gc_ts, storage.is_gc_assumed) == (0, False)
        assert streamed(storage) == WHOLE


# ---- deaths ----------------------------------------------------------------------------------------------------------

STEPS = 9
"""Of the collection below: the record and rows, twice, for rows go in parts; four files; the rows of files."""


@pytest.mark.parametrize("index", ["as it was", "gone", "from before"])
@pytest.mark.parametrize("at", range(STEPS + 1))
def test_a_death_while_it_collects_leaves_no_reader_without_word(tmp_path: Path, at: int, index: str) -> None:
    """Between any two steps; after it, the index may be behind or taken away."""
    filled(tmp_path)
    previous = tmp_path / "previous"
    shutil.copy(tmp_path / "index.sqlite", previous)
    left, over = iter(range(at)), Event()

    def mortal(call: Callable[..., Any]) -> Callable[..., Any]:
        def step(*given: Any) -> Any:
            if next(left, None) is None:
                raise Died
            return call(*given)

        return step

    last = mortal(PumpIndex.forget_files)

    def forget_files(*given: Any) -> None:
        last(*given)
        over.set()

    with (
        opened(tmp_path, EVERY_BINLOG_A_FILE) as storage,
        patch.object(Collected, "record", mortal(Collected.record)),
        patch.object(PumpIndex, "forget", mortal(PumpIndex.forget)),
        patch.object(ValueLog, "remove", mortal(ValueLog.remove)),
        patch.object(PumpIndex, "forget_files", forget_files),
        suppress(Died),
    ):
        assert storage.collect(3 * DAY)
        settled(storage, over.is_set)
    assert over.is_set() == (at == STEPS)
    is_recorded = Collected(tmp_path / "value").ts == 3 * DAY
    assert is_recorded or value_files(tmp_path) == 10, "nothing goes before it is on record"
    if index != "as it was":
        remove_index(tmp_path)
    if index == "from before":
        shutil.copy(previous, tmp_path / "index.sqlite")
    with opened(tmp_path, EVERY_BINLOG_A_FILE) as storage:
        assert storage.gc_ts == (3 * DAY if is_recorded else 0)
        assert streamed(storage) == (WHOLE[2:] if is_recorded else WHOLE)
        assert storage.collect(4 * DAY)
        settled(storage, lambda: value_files(tmp_path) == 4)


# ---- a full disk -----------------------------------------------------------------------------------------------------


class FullIndex:
    """A connection on whose disk there is no room for a change."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def execute(self, sql: str, *given: Any) -> sqlite3.Cursor:
        if sql.startswith(("DELETE", "INSERT", "BEGIN")):
            full = sqlite3.OperationalError("database or disk is full")
            full.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise full
        return self._db.execute(sql, *given)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._db, name)


def test_on_a_full_disk_files_go_by_the_record_and_rows_later(tmp_path: Path) -> None:
    """Files are what makes room; a restart knows by the record that they were collected."""
    filled(tmp_path)
    with opened(tmp_path, EVERY_BINLOG_A_FILE) as storage:
        storage._index._db = FullIndex(storage._index._db)  # type: ignore[assignment]
        assert storage.collect(3 * DAY)
        settled(storage, lambda: value_files(tmp_path) == 6)
    with opened(tmp_path, EVERY_BINLOG_A_FILE) as storage:
        storage.check()
        assert storage.gc_ts == 3 * DAY
        assert streamed(storage) == WHOLE[2:]
        assert storage.collect(4 * DAY)
        settled(storage, lambda: value_files(tmp_path) == 4)
    with closing(PumpIndex(tmp_path / "index.sqlite")) as index:
        assert index.files_upto(3 * DAY) == [], "with the rows of the files from before"


def test_what_cannot_be_put_on_record_stays(tmp_path: Path) -> None:
    filled(tmp_path)
    with opened(tmp_path, EVERY_BINLOG_A_FILE) as storage:
        full = StorageFull("full", hint="make room")
        with patch.object(Collected, "record", side_effect=full) as record:
            assert storage.collect(3 * DAY)
            settled(storage, lambda: record.called)
            storage.write(fake(6 * DAY))
            reaches(storage, 6 * DAY)
        assert value_files(tmp_path) == 11
        with closing(storage.reader()) as reader:
            assert reader.binlog_at(DAY) == prewrite(DAY)
        assert storage.collect(4 * DAY)
        settled(storage, lambda: value_files(tmp_path) == 5)


def test_a_prewrite_that_went_without_its_row_is_none(tmp_path: Path) -> None:
    """Its transaction took longer than prewrites are kept: left out and counted, with the row or without."""
    with opened(tmp_path, EVERY_BINLOG_A_FILE) as storage:
        write(storage, prewrite(DAY), commit(DAY, 4 * DAY), prewrite(5 * DAY), commit(5 * DAY, 5 * DAY + 1))
        reaches(storage, 5 * DAY + 1)
        storage._index._db = FullIndex(storage._index._db)  # type: ignore[assignment]
        assert storage.collect(3 * DAY)
        settled(storage, lambda: value_files(tmp_path) == 3)
        assert streamed(storage) == [(5 * DAY, 5 * DAY + 1)]
        assert storage.unmatched == 1
        with closing(storage.reader()) as reader:
            assert reader.binlog_at(DAY) is None


def test_an_index_says_a_full_disk_from_a_broken_file(tmp_path: Path) -> None:
    with closing(PumpIndex(tmp_path / "index.sqlite")) as index:
        index._db = FullIndex(index._db)  # type: ignore[assignment]
        acts: list[Callable[[], object]] = [lambda: index.add(()), lambda: index.forget(1), lambda: index.forget_files(2)]
        for act in acts:
            with pytest.raises(StorageFull, match="disk is full"):
                act()
