"""What is read next, and when a table is complete (design 7)."""

from __future__ import annotations

from sidecar.core.manifest import ChunkFile, ClosedWindow
from sidecar.core.model import CommitTs, Seq, TableName
from sidecar.core.plan import Plan
from sidecar.core.progress import TableProgress

A, B = TableName("s", "a"), TableName("s", "b")


def plan(*tables: TableName) -> Plan:
    return Plan(tuple(TableProgress(table) for table in tables))


def chunk(table: TableName, last: str | None, *, rows: int = 10) -> ChunkFile:
    return ChunkFile(table, "c", rows, rows * 10, None, None if last is None else (last,))


def window(*chunks: ChunkFile, high_ts: int = 450) -> ClosedWindow:
    return ClosedWindow("d1", CommitTs(410), CommitTs(high_ts), Seq(5), chunks)


def test_tables_are_claimed_in_the_order_of_the_dump_and_by_one_reader_each() -> None:
    p = plan(B, A)
    assert [p.claim(), p.claim(), p.claim()] == [B, A, None]
    p.release(A)
    assert p.claim() == A


def test_an_exhausted_table_is_not_claimed_again() -> None:
    p = plan(A)
    p.claim()
    p.read(chunk(A, "7"), exhausted=True)
    p.release(A)
    assert p.claim() is None


def test_reading_is_ahead_of_what_the_log_has() -> None:
    p = plan(A)
    first = chunk(A, "10")
    p.read(first, exhausted=False)
    p.read(chunk(A, "20"), exhausted=False)
    p.closed(window(first))
    assert p.cursor(A) == ("20",)
    assert p.progress[A] == TableProgress(A, cursor=("10",), chunks=1, rows=10, bytes=100)


def test_a_table_is_complete_at_the_high_ts_of_its_last_open_chunk() -> None:
    p = plan(A)
    first, last = chunk(A, "10"), chunk(A, "13", rows=3)
    p.read(first, exhausted=False)
    p.read(last, exhausted=True)
    p.closed(window(first, high_ts=450))
    assert p.progress[A].complete_at is None
    p.closed(window(last, high_ts=480))
    assert p.progress[A] == TableProgress(A, cursor=("13",), chunks=2, rows=13, bytes=130, complete_at=CommitTs(480))


def test_a_table_with_all_its_chunks_in_one_window_is_complete_with_it() -> None:
    p = plan(A)
    chunks = chunk(A, "10"), chunk(A, "13")
    p.read(chunks[0], exhausted=False)
    p.read(chunks[1], exhausted=True)
    p.closed(window(*chunks))
    assert p.progress[A].complete_at == 450


def test_an_empty_chunk_keeps_the_cursor() -> None:
    p = plan(A)
    full, empty = chunk(A, "10"), chunk(A, None, rows=0)
    p.read(full, exhausted=False)
    p.read(empty, exhausted=True)
    assert p.cursor(A) == ("10",)
    p.closed(window(full, empty))
    assert p.progress[A] == TableProgress(A, cursor=("10",), chunks=2, rows=10, bytes=100, complete_at=CommitTs(450))


def test_the_dump_is_complete_with_its_last_table() -> None:
    p = plan(A, B)
    for table in (A, B):
        p.read(chunk(table, "1"), exhausted=True)
    p.closed(window(chunk(A, "1")))
    assert not p.complete()
    p.closed(window(chunk(B, "1")))
    assert p.complete()


def test_goes_on_from_what_the_log_has() -> None:
    p = Plan((TableProgress(A, cursor=("9",), chunks=1, complete_at=CommitTs(450)), TableProgress(B, cursor=("5", "x"), chunks=1, rows=10)))
    assert [p.claim(), p.claim()] == [B, None]
    assert p.cursor(B) == ("5", "x")
    assert not p.complete()
    last = chunk(B, "6")
    p.read(last, exhausted=True)
    p.closed(window(last))
    assert p.progress[B].rows == 20
    assert p.complete()
