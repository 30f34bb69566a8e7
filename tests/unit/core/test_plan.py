"""What is read next, and when a table is complete."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import count

import pytest

from sidecar.core.plan import CHUNK_BYTES_TARGET, CHUNK_ROWS_MIN, FIRST_CHUNK_ROWS_MAX, HELD_CHUNKS, SPANS_MAX, Plan, Work
from sidecar.shared.model.chunk import ChunkFile, ClosedWindow
from sidecar.shared.model.messages import ChunkRead
from sidecar.shared.model.nouns import CommitTs, Seq, TableName
from sidecar.shared.model.progress import KEYS_A_SPAN, Span, TableProgress, unread
from sidecar.shared.model.schema_step import SchemaFate, TableStep

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


def test_the_next_chunk_s_rows_keep_to_the_targets_and_to_what_was_requested() -> None:
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


def sizes(p: Plan, cost_s: Callable[[int], float], chunks: int) -> list[int]:
    """Rows of so many chunks of A, of which each takes what its rows cost."""
    a = claimed(p)
    result = []
    for number in range(chunks):
        rows = p.rows_wanted(A, at_most=10_000)
        result.append(rows)
        read(p, a, chunk(A, str(number), rows=rows), read_s=cost_s(rows))
    p.release(a)
    return result


def test_a_select_that_costs_the_same_whatever_its_rows_does_not_drive_them_down() -> None:
    """A key whose range TiDB does not build is scanned from its first row, each time: fewer rows make it no quicker, and the dump stand."""
    results = sizes(plan(A), lambda rows: 1.5, 20 * HELD_CHUNKS)
    assert min(results) >= CHUNK_ROWS_MIN
    assert sum(rows < FIRST_CHUNK_ROWS_MAX for rows in results) <= 21, "it tries now and then whether that is still so"


def test_a_scan_whose_time_wavers_is_not_taken_for_one_that_fewer_rows_help() -> None:
    wavers = random.Random(7)
    results = sizes(plan(A), lambda rows: 1.5 * wavers.uniform(0.85, 1.15), 20 * HELD_CHUNKS)
    assert sum(rows < FIRST_CHUNK_ROWS_MAX for rows in results) <= 21


def test_a_scan_that_grows_with_the_table_leaves_the_rows_alone_too() -> None:
    grown = count()
    assert min(sizes(plan(A), lambda rows: 0.8 + next(grown) / 100, 500)) >= CHUNK_ROWS_MIN


def test_rows_that_cost_are_made_fewer_down_to_a_floor_and_more_when_they_do_not() -> None:
    p = plan(A)
    assert 200 <= sizes(p, lambda rows: rows / 250, 9)[-1] <= 250
    assert sizes(p, lambda rows: rows / 10, 9)[-1] == CHUNK_ROWS_MIN
    assert sizes(p, lambda rows: rows / 5000, 3)[-1] == 5000


@pytest.mark.parametrize("rows", [1, 3])
def test_the_few_rows_at_the_end_of_a_range_say_nothing_about_the_next_one(rows: int) -> None:
    p = plan(A)
    sizes(p, lambda requested: requested / 2000, 3)
    read(p, claimed(p), chunk(A, "x", rows=rows), read_s=0.2)
    assert p.rows_wanted(A, at_most=10_000) == 2000


def test_keys_are_read_in_lists_and_the_log_says_which_are_left() -> None:
    keys = tuple((str(number),) for number in range(KEYS_A_SPAN + 2))
    p = Plan((TableProgress(A, unread(keys), keys=keys, whole=False),))
    first, second = claimed(p), claimed(p)
    assert p.claim() is None
    assert (p.keys(first), p.keys(second)) == (keys[:KEYS_A_SPAN], keys[KEYS_A_SPAN:])
    assert p.bounds_wanted(first) == 0
    file = read(p, second, chunk(A, None, rows=2), exhausted=True)
    p.closed(window(file))
    assert p.progress[A].spans == (Span(keys=(0, KEYS_A_SPAN)),)
    assert not p.complete()
    again = Plan(tuple(p.progress.values()))
    work = claimed(again)
    assert again.keys(work) == keys[:KEYS_A_SPAN]
    again.closed(window(read(again, work, chunk(A, None), exhausted=True)))
    assert again.complete()


def test_a_list_of_keys_whose_chunk_ended_early_is_read_on_behind_it_also_after_a_crash() -> None:
    keys = tuple((str(number),) for number in range(9))
    p = Plan((TableProgress(A, unread(keys), keys=keys, whole=False),))
    work = claimed(p)
    chunks = list[tuple[ChunkFile, int]]()
    for keys_read in (4, 2):
        assert p.keys(work) == keys[sum(chunks_read for _, chunks_read in chunks) :]
        file = chunk(A, None)
        p.read(work, ChunkRead(0, file, exhausted=False, keys_read=keys_read))
        chunks.append((file, keys_read))
    assert p.progress[A].spans == (Span(keys=(0, 9)),), "nothing is in the log"
    p.closed(window(chunks[0][0]))
    assert p.progress[A].spans == (Span(keys=(4, 9)),), "the second chunk is open"
    again = Plan((p.progress[A],))
    assert again.keys(claimed(again)) == keys[4:]
    last = read(p, work, chunk(A, None), exhausted=True)
    p.closed(window(chunks[1][0]))
    assert (p.progress[A].spans, p.complete()) == ((Span(keys=(6, 9)),), False)
    p.closed(window(last))
    assert (p.progress[A].spans, p.complete()) == ((), True)


def test_rows_that_are_large_unpacked_make_the_next_chunk_smaller() -> None:
    p = plan(A)
    work, rows = claimed(p), FIRST_CHUNK_ROWS_MAX
    p.read(work, ChunkRead(0, chunk(A, "500", rows=rows, size=1000), exhausted=False, text_bytes=2 * CHUNK_BYTES_TARGET))
    assert p.rows_wanted(A, at_most=10_000) == rows // 2


def test_a_table_that_is_read_again_is_queried_for_all_its_keys() -> None:
    keys = (("1",), ("2",))
    p = Plan((TableProgress(A, (), keys=keys, whole=False, complete_at=CommitTs(9)),))
    p.change([TableStep(A, B, SchemaFate.AGAIN)], next_seq=Seq(7))
    assert p.progress == {B: TableProgress(B, unread(keys), keys=keys, whole=False, since_seq=Seq(7))}
