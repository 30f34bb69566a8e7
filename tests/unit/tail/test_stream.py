"""Segments in their order: the last events, all, those that come; and retention that removes meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from random import Random

import pytest

from sidecar.shared.errors import LogBroken
from sidecar.shared.log import storage
from sidecar.shared.log.layout import manifest_name
from sidecar.shared.log.segment_log import FolderLog
from sidecar.shared.log.storage import Folder, open_folder
from sidecar.shared.model.nouns import Seq, TableName
from spark_merge.tail import stream
from spark_merge.tail.events import EventKind, TailEvent
from spark_merge.tail.stream import Since
from spark_merge.testing.histories import random_history, write_log
from tests.unit.tail.logs import ORDERS, WrittenLog, events_of, put, stream_of, window
from tests.unit.tail.test_segment import chunk_of

OLD = TableName("shop", "old")


@pytest.fixture
def log(tmp_path: Path) -> Folder:
    return open_folder(str(tmp_path / "log"))


def tss(events: Iterator[TailEvent] | list[TailEvent]) -> list[int]:
    return [event.commit_ts for event in events]


def waits(_: float) -> None:
    raise AssertionError("it waits where there is something")


@pytest.mark.parametrize("at_once", [1, 2, 32])
def test_the_last_events_are_the_end_of_all(log: Folder, monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr(stream, "MANIFESTS_AT_ONCE", at_once)
    history = random_history(Random(7))
    write_log(log, history)
    for table in sorted({row.table for row in history.rows})[:4]:
        events = events_of(log, table)
        for limit in (1, 2, 3, len(events), len(events) + 5):
            assert stream_of(log, table).last(limit) == events[-limit:]


def test_since_a_segment_or_a_commit_ts(log: Folder) -> None:
    base = 1 << 41
    to = WrittenLog(log, {ORDERS: 1})
    for seq in range(4):
        to.segment(put(ORDERS, seq * 100 + 10, "a", "x"), put(ORDERS, seq * 100 + 20, "b", "x"))
    assert tss(stream_of(log, since=Since.of(2)).all()) == [210, 220, 310, 320]
    assert tss(stream_of(log, since=Since.of(2)).last(3)) == [220, 310, 320]
    assert Since.of(base) == Since(commit_ts=base)  # type: ignore[arg-type]  # a number is a TSO
    assert tss(stream_of(log, since=Since(commit_ts=220)).all()) == [220, 310, 320]  # type: ignore[arg-type]
    assert tss(stream_of(log, since=Since(commit_ts=220)).last(10)) == [220, 310, 320]  # type: ignore[arg-type]
    assert tss(stream_of(log, since=Since.of(9)).all()) == []


@pytest.mark.parametrize("whole", [True, False])
def test_what_comes_follows_what_is_there(log: Folder, whole: bool) -> None:
    to = WrittenLog(log, {ORDERS: 1})
    to.segment(put(ORDERS, 10, "a", "x"))
    to.segment(put(ORDERS, 110, "a", "y"))
    one = stream_of(log)
    to.segment(put(ORDERS, 210, "a", "z"))
    assert tss(one.all() if whole else one.last(9)) == [10, 110]
    assert (tss(one.to_end()), one.next_seq) == ([210], 3)
    assert tss(one.to_end()) == []
    to.segment(put(ORDERS, 310, "a", "z"))
    waited = list[float]()

    def wait(seconds: float) -> None:
        waited.append(seconds)
        to.segment(put(ORDERS, len(to.manifests) * 100 + 10, "a", "z"))

    assert tss(islice(one.coming(wait), 3)) == [310, 410, 510]
    assert waited == [stream.POLL_S, stream.POLL_S]


def test_a_renamed_table_has_its_name_of_each_moment(log: Folder) -> None:
    to = WrittenLog(log, {OLD: 7})
    to.segment(put(OLD, 10, "a", "x"), ddl="RENAME TABLE old TO orders", of=OLD, tables={ORDERS: 7})
    to.segment(put(ORDERS, 110, "a", "y"))
    one = stream_of(log)
    rows = [(EventKind.LIVE, OLD, 10), (EventKind.DDL, OLD, 100), (EventKind.LIVE, ORDERS, 110)]
    assert [(event.kind, event.table, event.commit_ts) for event in one.all()] == rows
    assert [(event.kind, event.table, event.commit_ts) for event in stream_of(log).last(2)] == rows[1:]
    again = TableName("shop", "again")
    to.segment(put(ORDERS, 210, "a", "z"), ddl="RENAME TABLE orders TO again", of=ORDERS, tables={again: 7})
    to.segment(put(again, 310, "a", "z"))
    assert [event.table for event in islice(one.coming(waits), 3)] == [ORDERS, ORDERS, again]
    assert tss(stream_of(log, OLD).all()) == [10, 100, 110, 200 + 10, 300, 310]


def retain(log: Folder, upto: int) -> None:
    """As the sidecar does."""
    to = FolderLog(log)
    to.recover(epoch=2)
    assert to.retain(delivered=Seq(upto), open_from=None) == upto


def filled(log: Folder, count: int) -> None:
    to = WrittenLog(log, {ORDERS: 1})
    for seq in range(count):
        to.segment(put(ORDERS, seq * 100 + 10, "a", "x"))


def test_a_log_that_retention_has_cut_says_where_it_begins(log: Folder) -> None:
    filled(log, 5)
    assert stream_of(log).begin().text == "the log has every segment"
    retain(log, 3)
    begin = stream_of(log).begin()
    assert (begin.seq, begin.commit_ts, begin.text) == (3, 300, "earlier segments were removed by retention")
    assert tss(stream_of(log).all()) == [310, 410]
    assert tss(stream_of(log).last(9)) == [310, 410]


def test_segments_that_are_removed_while_they_are_read_are_named(log: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "MANIFESTS_AT_ONCE", 2)
    filled(log, 8)
    events = stream_of(log).all()
    before = next(events)
    retain(log, 5)
    after = list(events)
    assert before.commit_ts == 10
    assert tss([one for one in after if one.kind is EventKind.LIVE]) == [510, 610, 710]
    removed = [(one.seq, one.text) for one in after if one.kind is EventKind.REMOVED]
    assert removed
    assert all(text.endswith("to 4 were removed by retention while the log was read") for _, text in removed)
    assert removed[0][0] == 1


def test_a_window_whose_beginning_is_removed_amid_the_log_has_rows_of_which_nothing_is_said(log: Folder) -> None:
    to = WrittenLog(log, {ORDERS: 1})
    chunk = chunk_of(log, ("a", "1", "old"), ("b", "1", "y"))
    for seq in range(7):
        windows = [window(310, 510, 3, chunk)] if seq == 5 else []
        to.segment(put(ORDERS, seq * 100 + 20, "a", "x"), windows=windows)
    whole = list(stream_of(log).all())
    assert [one.kind for one in whole if one.chunk] == [EventKind.DUMP, EventKind.DROPPED]
    events = stream_of(log).all()
    before = list(islice(events, 5))
    retain(log, 5)
    after = list(events)
    assert tss(before) == [20, 120, 220, 320, 420]
    assert [(one.kind, one.commit_ts) for one in after] == [
        (EventKind.UNKNOWN, 510), (EventKind.UNKNOWN, 510), (EventKind.LIVE, 520), (EventKind.LIVE, 620),
    ]  # fmt: skip


def test_backwards_retention_ends_what_is_there(log: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "MANIFESTS_AT_ONCE", 2)
    filled(log, 8)
    one = stream_of(log)
    retain(log, 5)
    assert tss([event for event in one.last(50) if event.kind is EventKind.LIVE]) == [510, 610, 710]


def test_what_retention_removes_before_it_comes_is_named(log: Folder) -> None:
    to = WrittenLog(log, {ORDERS: 1})
    to.segment(put(ORDERS, 10, "a", "x"))
    one = stream_of(log)
    assert tss(one.all()) == [10]
    for seq in range(1, 6):
        to.segment(put(ORDERS, seq * 100 + 10, "a", "x"))
    retain(log, 4)
    coming = one.coming(waits)
    assert next(coming).kind is EventKind.REMOVED
    assert tss(islice(coming, 2)) == [410, 510]


def test_a_segment_that_is_lost_is_an_error(log: Folder) -> None:
    filled(log, 4)
    one = stream_of(log)
    storage.remove(log, [manifest_name(Seq(2))])
    with pytest.raises(LogBroken):
        list(one.all())
