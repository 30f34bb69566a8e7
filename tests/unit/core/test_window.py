"""Where the interval `(low_ts, high_ts]` of a chunk comes from."""

from __future__ import annotations

import pytest

from sidecar.core.window import Windows
from sidecar.shared.errors import SourceError
from sidecar.shared.model.chunk import ChunkFile, ClosedWindow
from sidecar.shared.model.nouns import CommitTs, MarkKind, Seq, TableName

TABLE = TableName("s", "t")


def chunk(name: str, *, tso: int | None = None, size: int = 10) -> ChunkFile:
    return ChunkFile(TABLE, name, 1, size, None, ("1",), None if tso is None else CommitTs(tso))


def windows(*opened: int, next_seq: int = 5) -> Windows:
    made = Windows("d1")
    for number in opened:
        made.open(number, next_seq=Seq(next_seq))
    return made


def high(of: Windows, number: int, ts: int) -> ClosedWindow:
    of.mark(number, MarkKind.HIGH, CommitTs(ts))
    (closed,) = of.close(after_ts=CommitTs(0))
    return closed


def reached(by: Windows, ts: int, *, after: int = 0) -> list[ClosedWindow]:
    """A segment `(after, ts]` in which the sinks leave room for all."""
    by.reach(CommitTs(ts))
    return by.close(after_ts=CommitTs(after))


def test_marks_are_the_interval_and_the_high_one_closes_it() -> None:
    w = windows(1)
    w.mark(1, MarkKind.LOW, CommitTs(410))
    first, second = chunk("c1"), chunk("c2")
    w.add(1, first)
    w.add(1, second)
    assert high(w, 1, 450) == ClosedWindow("d1", CommitTs(410), CommitTs(450), Seq(5), (first, second))
    assert len(w) == 0


def test_windows_overlap_and_close_out_of_order() -> None:
    w = windows(1, 2)
    w.mark(1, MarkKind.LOW, CommitTs(410))
    w.mark(2, MarkKind.LOW, CommitTs(420))
    w.add(2, chunk("of two"))
    w.add(1, chunk("of one"))
    closed = [high(w, 2, 430), high(w, 1, 440)]
    assert [(c.low_ts, c.high_ts, c.chunks[0].path) for c in closed] == [(420, 430, "of two"), (410, 440, "of one")]


def test_a_window_without_a_chunk_closes_too() -> None:
    w = windows(1)
    w.mark(1, MarkKind.LOW, CommitTs(410))
    assert high(w, 1, 420).chunks == ()


def test_what_is_open_keeps_its_segments_and_its_bytes() -> None:
    w = Windows("d1")
    assert (w.oldest_first_seq(), w.bytes_held) == (None, 0)
    w.open(1, next_seq=Seq(5))
    w.open(2, next_seq=Seq(7))
    w.add(1, chunk("c1", size=10))
    w.add(2, chunk("c2", size=30))
    assert (w.oldest_first_seq(), w.bytes_held) == (5, 40)
    w.mark(1, MarkKind.LOW, CommitTs(1))
    high(w, 1, 2)
    assert (w.oldest_first_seq(), w.bytes_held) == (7, 30)


def test_a_snapshot_closes_in_the_first_segment_that_reaches_its_tso() -> None:
    w = windows(1)
    read = chunk("c1", tso=450)
    w.add_snapshot(1, read, after_ts=CommitTs(400))
    w.whole(1)
    assert not w.closes_by(CommitTs(449))
    assert reached(w, 449) == []
    assert w.closes_by(CommitTs(450))
    assert reached(w, 470) == [ClosedWindow("d1", CommitTs(450), CommitTs(470), Seq(5), (read,))]
    assert not w.closes_by(CommitTs(500))


def test_a_snapshot_that_is_still_being_read_waits_for_no_segment() -> None:
    w = windows(1)
    assert not w.closes_by(CommitTs(10**9))
    w.add_snapshot(1, chunk("c1", tso=450), after_ts=CommitTs(400))
    assert not w.closes_by(CommitTs(10**9))
    assert reached(w, 10**9) == []


def test_a_snapshot_of_several_chunks_begins_at_the_least_tso_and_closes_from_the_greatest_on() -> None:
    w = windows(1)
    for tso in (450, 470, 440):
        w.add_snapshot(1, chunk(f"at {tso}", tso=tso), after_ts=CommitTs(400))
    w.whole(1)
    assert not w.closes_by(CommitTs(469))
    assert reached(w, 469) == []
    (closed,) = reached(w, 470)
    assert (closed.low_ts, closed.high_ts, len(closed.chunks)) == (440, 470, 3)


def test_a_snapshot_window_without_a_chunk_is_none() -> None:
    w = windows(1, 2)
    w.whole(1)
    w.add_snapshot(2, chunk("c2", tso=450), after_ts=CommitTs(400))
    w.whole(2)
    assert len(w) == 1
    w.drop({TABLE})
    assert len(w) == 0


def test_snapshots_close_by_tso_and_equal_ones_in_the_order_in_which_they_were_whole() -> None:
    w = windows(1, 2, 3)
    for number, tso in ((3, 450), (2, 430), (1, 450)):
        w.add_snapshot(number, chunk(f"c{number}", tso=tso), after_ts=CommitTs(400))
        w.whole(number)
    assert [c.chunks[0].path for c in reached(w, 500)] == ["c2", "c3", "c1"]


def test_a_watermark_window_waits_for_its_mark_whatever_ts_a_segment_reaches() -> None:
    w = windows(1)
    w.mark(1, MarkKind.LOW, CommitTs(410))
    w.add(1, chunk("c1", tso=415))
    assert not w.closes_by(CommitTs(500))
    assert reached(w, 500) == []


def test_a_snapshot_at_the_position_that_had_left_the_feed_is_covered() -> None:
    w = windows(1)
    w.add_snapshot(1, chunk("c1", tso=400), after_ts=CommitTs(400))
    w.whole(1)
    assert reached(w, 410)[0].low_ts == 400


@pytest.mark.parametrize("tso", [399, None])
def test_a_snapshot_before_it_is_refused_and_changes_nothing(tso: int | None) -> None:
    w = windows(1)
    with pytest.raises(SourceError, match=f"chunk c1 was read at TSO {tso}, before position 400") as raised:
        w.add_snapshot(1, chunk("c1", tso=tso), after_ts=CommitTs(400))
    assert "tidb_snapshot" in raised.value.hint
    assert (w.bytes_held, w.closes_by(CommitTs(500))) == (0, None)


def test_a_window_that_finds_no_room_closes_later_at_the_begin_of_that_segment_and_none_before_it() -> None:
    """Longer than its marks: what changed until then is in it, and what is in the log already comes before it."""
    w = windows(1, 2)
    for number in (1, 2):
        w.mark(number, MarkKind.LOW, CommitTs(400 + number))
        w.add(number, chunk(f"c{number}", size=10 * number))
        w.mark(number, MarkKind.HIGH, CommitTs(410 + number))
    assert w.close(after_ts=CommitTs(400), fits=lambda rows, size: size > 10) == []
    assert (len(w), w.ready(), w.waiting(), w.ready_rows(), w.rows_held, w.bytes_held, w.oldest_first_seq()) == (2, 2, 0, 2, 2, 30, 5)
    assert w.closes_by(CommitTs(0), lambda rows, size: (rows, size) == (2, 10)), "a chunk is one row more"
    (one,) = w.close(after_ts=CommitTs(420), fits=lambda rows, size: size == 10)
    (two,) = w.close(after_ts=CommitTs(430))
    assert [(c.low_ts, c.high_ts, c.chunks[0].path) for c in (one, two)] == [(401, 421, "c1"), (402, 431, "c2")]
    assert (len(w), w.rows_held, w.bytes_held) == (0, 0, 0)


def test_a_snapshot_that_finds_no_room_closes_later_too_and_is_gone_with_its_table() -> None:
    w = windows(1, 2)
    for number in (1, 2):
        w.add_snapshot(number, chunk(f"c{number}", tso=450 + number), after_ts=CommitTs(400))
        w.whole(number)
    w.reach(CommitTs(460))
    w.reach(CommitTs(470))
    (first,) = w.close(after_ts=CommitTs(480), fits=lambda rows, size: w.ready() == 2)
    assert (first.low_ts, first.high_ts, w.ready()) == (451, 481, 1)
    w.drop({TABLE})
    assert (w.ready(), len(w), w.close(after_ts=CommitTs(490)), w.closes_by(CommitTs(500))) == (0, 0, [], None)
