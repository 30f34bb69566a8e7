"""What is read next, and when a table is complete (design 7)."""

from __future__ import annotations

from itertools import count

from sidecar.core.chunk import ChunkFile, ClosedWindow
from sidecar.core.messages import ChunkRead
from sidecar.core.model import CommitTs, Seq, TableName
from sidecar.core.plan import CHUNK_BYTES_TARGET, FIRST_CHUNK_ROWS_MAX, SPANS_MAX, Plan, Work
from sidecar.core.progress import Span, TableProgress

A, B = TableName("s", "a"), TableName("s", "b")
NUMBERS = count()


def plan(*tables: TableName) -> Plan:
    return Plan(tuple(TableProgress(table) for table in tables))


def claimed(p: Plan) -> Work:
    work = p.claim()
    assert work is not None
    return work


def chunk(table: TableName, last: str | None, *, rows: int = 10, size: int | None = None) -> ChunkFile:
    path = f"c{next(NUMBERS)}"
    return ChunkFile(table, path, rows, rows * 10 if size is None else size, None, None if last is None else (last,))


def read(p: Plan, work: Work, file: ChunkFile, *, exhausted: bool = False, bounds: str = "", read_s: float = 0.0) -> ChunkFile:
    p.read(work, ChunkRead(0, file, exhausted, tuple((key,) for key in bounds.split()), read_s))
    return file


def window(*chunks: ChunkFile, high_ts: int = 450) -> ClosedWindow:
    return ClosedWindow("d1", CommitTs(410), CommitTs(high_ts), Seq(5), chunks)


def test_tables_are_claimed_in_the_order_of_the_dump_and_by_one_reader_each() -> None:
    p = plan(B, A)
    b, a = claimed(p), claimed(p)
    assert [b.table, a.table, p.claim()] == [B, A, None]
    p.release(a)
    assert p.claim() == a


def test_an_exhausted_table_is_not_claimed_again() -> None:
    p = plan(A)
    a = claimed(p)
    read(p, a, chunk(A, "7"), exhausted=True)
    p.release(a)
    assert p.claim() is None


def test_reading_is_ahead_of_what_the_log_has() -> None:
    p = plan(A)
    a = claimed(p)
    first = read(p, a, chunk(A, "10"))
    read(p, a, chunk(A, "20"))
    p.closed(window(first))
    assert p.after(a) == ("20",)
    assert p.progress[A] == TableProgress(A, (Span(("10",)),), chunks=1, rows=10, bytes=100)


def test_a_table_is_complete_at_the_high_ts_of_its_last_open_chunk() -> None:
    p = plan(A)
    a = claimed(p)
    first, last = read(p, a, chunk(A, "10")), read(p, a, chunk(A, "13", rows=3), exhausted=True)
    p.closed(window(first, high_ts=450))
    assert p.progress[A].complete_at is None
    p.closed(window(last, high_ts=480))
    assert p.progress[A] == TableProgress(A, (), chunks=2, rows=13, bytes=130, complete_at=CommitTs(480))


def test_a_table_with_all_its_chunks_in_one_window_is_complete_with_it() -> None:
    p = plan(A)
    a = claimed(p)
    p.closed(window(read(p, a, chunk(A, "10")), read(p, a, chunk(A, "13"), exhausted=True)))
    assert p.progress[A].complete_at == 450


def test_an_empty_chunk_keeps_the_cursor() -> None:
    p = plan(A)
    a = claimed(p)
    full, empty = read(p, a, chunk(A, "10")), read(p, a, chunk(A, None, rows=0), exhausted=True)
    assert p.after(a) == ("10",)
    p.closed(window(full, empty))
    assert p.progress[A] == TableProgress(A, (), chunks=2, rows=10, bytes=100, complete_at=CommitTs(450))


def test_the_dump_is_complete_with_its_last_table() -> None:
    p = plan(A, B)
    a, b = (read(p, claimed(p), chunk(table, "1"), exhausted=True) for table in (A, B))
    p.closed(window(a))
    assert not p.complete()
    p.closed(window(b))
    assert p.complete()


def test_goes_on_from_what_the_log_has() -> None:
    done = TableProgress(A, (), chunks=1, complete_at=CommitTs(450))
    p = Plan((done, TableProgress(B, (Span(("5", "x")),), chunks=1, rows=10)))
    b = claimed(p)
    assert (b.table, p.claim(), p.after(b)) == (B, None, ("5", "x"))
    assert not p.complete()
    p.closed(window(read(p, b, chunk(B, "6"), exhausted=True)))
    assert p.progress[B].rows == 20
    assert p.complete()


def test_the_first_chunk_s_bounds_cut_the_rest_of_the_table_and_fix_its_end() -> None:
    p = plan(A)
    a = claimed(p)
    assert p.bounds_wanted(a) == SPANS_MAX
    first = read(p, a, chunk(A, "10"), bounds="40 70 99")
    second, third = claimed(p), claimed(p)
    assert [(p.after(w), p.upper(w)) for w in (a, second, third)] == [(("10",), ("40",)), (("40",), ("70",)), (("70",), ("99",))]
    assert p.claim() is None
    assert [p.bounds_wanted(w) for w in (a, second)] == [0, 0]
    p.closed(window(read(p, second, chunk(A, "70"), exhausted=True)))
    assert p.progress[A].spans == (Span(None, ("40",)), Span(("70",), ("99",)))
    p.closed(window(first, read(p, third, chunk(A, "99"), exhausted=True)))
    assert p.progress[A].spans == (Span(("10",), ("40",)),)
    assert not p.complete()
    p.closed(window(read(p, a, chunk(A, "40"), exhausted=True), high_ts=480))
    assert p.progress[A].complete_at == 480


def test_bounds_of_a_table_that_one_chunk_exhausted_cut_nothing() -> None:
    p = plan(A)
    read(p, claimed(p), chunk(A, "10"), exhausted=True, bounds="40 70")
    assert p.claim() is None


def test_a_cut_table_goes_on_in_each_of_its_ranges() -> None:
    p = Plan((TableProgress(A, (Span(None, ("40",)), Span(("70",), ("99",))), chunks=1),))
    first, second = claimed(p), claimed(p)
    assert [(p.after(w), p.upper(w)) for w in (first, second)] == [(None, ("40",)), (("70",), ("99",))]
    assert p.bounds_wanted(first) == 0


def test_the_next_chunk_s_rows_keep_to_the_targets_and_to_what_was_asked_for() -> None:
    p = plan(A)
    a = claimed(p)
    assert p.rows_wanted(A, at_most=10) == 10
    assert p.rows_wanted(A, at_most=10_000) == FIRST_CHUNK_ROWS_MAX
    read(p, a, chunk(A, "1", rows=100, size=100 * CHUNK_BYTES_TARGET // 50))
    assert p.rows_wanted(A, at_most=10_000) == 50
    read(p, a, chunk(A, "2", rows=50, size=5_000), read_s=0.5)
    assert p.rows_wanted(A, at_most=10_000) == 100
    read(p, a, chunk(A, "3", rows=1, size=2 * CHUNK_BYTES_TARGET))
    assert p.rows_wanted(A, at_most=10_000) == 1
