"""Chunks as pictures need them: the first and the last ones, and rows that live changes have replaced, never a number that is another's."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from sidecar.report.chunks import Chunks
from sidecar.shared.log.certificate_parts import Line
from tests.unit.report.made import DUMP, ITEMS, ORDERS, OTHER, batch_line, chunk_line, sample


def dropped(*lines: Line, each_max: int = 100) -> list[int | None]:
    chunks = Chunks(each_max)
    chunks.add(DUMP, lines)
    return [chunk.dropped for chunk in chunks.kept()]


def seqs(chunks: Chunks, dump_id: str = DUMP) -> list[int]:
    return [chunk.seq for chunk in chunks.kept() if chunk.dump_id == dump_id]


def test_the_first_and_the_last_are_kept_and_all_are_counted() -> None:
    chunks = Chunks(3)
    chunks.add(DUMP, map(chunk_line, range(20)))
    assert seqs(chunks) == [0, 1, 2, 17, 18, 19]
    assert chunks.count == 20


def test_without_the_first_ones_the_last_are_kept() -> None:
    chunks = Chunks(3, first=False)
    chunks.add(DUMP, map(chunk_line, range(20)))
    assert seqs(chunks) == [17, 18, 19]


def test_lines_pass_as_they_are() -> None:
    lines: list[Line] = [chunk_line(1), sample(1.0), batch_line(1, 1, {ORDERS: 2})]
    chunks = Chunks(3)
    assert list(chunks.passed(DUMP, iter(lines))) == lines
    assert [(chunk.table, chunk.rows, chunk.dropped) for chunk in chunks.kept()] == [(ORDERS, 10, 2)]


def test_a_batch_s_number_is_at_its_last_chunk_of_the_table() -> None:
    lines = [chunk_line(1), chunk_line(2), chunk_line(2, ITEMS), chunk_line(3), chunk_line(4)]
    assert dropped(*lines, batch_line(1, 3, {ORDERS: 5, ITEMS: 1})) == [None, None, 1, 5, None]
    assert dropped(*lines, batch_line(1, 3, {ORDERS: 5})) == [None, None, 0, 5, None], "of which nothing is said, nothing was dropped"
    assert dropped(*lines, batch_line(1, 2, {}), batch_line(3, 4, {ORDERS: 1})) == [0, 0, 0, None, 1]


def test_what_is_not_known_of_a_table_or_a_batch_is_not_said() -> None:
    lines = [chunk_line(1), chunk_line(1, ITEMS)]
    assert dropped(*lines, batch_line(1, 1, {ORDERS: None, ITEMS: 2})) == [None, 2]
    assert dropped(*lines, batch_line(1, 1, None)) == [None, None]


def test_the_first_sink_that_says_something_counts_and_no_other() -> None:
    lines = [chunk_line(1), chunk_line(2)]
    others = (batch_line(1, 1, None, "silent"), batch_line(1, 1, {ORDERS: 3}, "first"), batch_line(1, 2, {ORDERS: 9}, "second"))
    assert dropped(*lines, *others) == [3, None]
    assert dropped(*lines, *others, batch_line(2, 2, {ORDERS: 4}, "first")) == [3, 4]


def test_two_dumps_at_once_have_their_own_numbers_in_whatever_order_their_lines_come() -> None:
    chunks = Chunks(10)
    chunks.add(DUMP, [chunk_line(5), chunk_line(6)])
    chunks.add(OTHER, [chunk_line(3, ITEMS), chunk_line(6, ITEMS)])
    chunks.add(DUMP, [batch_line(5, 6, {ORDERS: 7}, "copy")])
    chunks.add(OTHER, [batch_line(3, 6, {ITEMS: 8}, "another sink")])
    assert [(chunk.seq, chunk.dump_id, chunk.dropped) for chunk in chunks.kept()] == [
        (3, OTHER, None), (5, DUMP, None), (6, DUMP, 7), (6, OTHER, 8),
    ]  # fmt: skip


def test_a_dump_that_is_forgotten_can_be_added_again_and_the_others_stay() -> None:
    chunks = Chunks(10)
    chunks.add(DUMP, [chunk_line(1), chunk_line(4), batch_line(1, 4, {ORDERS: 3}, "copy")])
    chunks.add(OTHER, [chunk_line(2, ITEMS), batch_line(2, 2, {ITEMS: 4}, "copy")])
    chunks.forget(DUMP)
    assert [(chunk.seq, chunk.dropped) for chunk in chunks.kept()] == [(2, 4)]
    chunks.add(DUMP, [chunk_line(1), chunk_line(4), batch_line(1, 4, {ORDERS: 6}, "another sink")])
    assert [(chunk.seq, chunk.dropped) for chunk in chunks.kept()] == [(1, None), (2, 4), (4, 6)]


def test_what_was_given_does_not_change_afterwards() -> None:
    chunks = Chunks(10)
    chunks.add(DUMP, [chunk_line(1)])
    before = chunks.kept()
    chunks.add(DUMP, [batch_line(1, 1, {ORDERS: 3})])
    assert (before[0].dropped, chunks.kept()[0].dropped) == (None, 3)


def test_one_thread_adds_while_others_read() -> None:
    chunks, count = Chunks(50), 3000

    def add() -> None:
        for seq in range(count):
            chunks.add(DUMP, [chunk_line(seq), batch_line(seq, seq, {ORDERS: seq})])

    with ThreadPoolExecutor(3) as pool:
        adding = pool.submit(add)

        def read() -> int:
            reads = 0
            while not adding.done() or not reads:
                results = chunks.kept()
                assert all(chunk.dropped in (None, chunk.seq) for chunk in results)
                assert len(results) <= 100
                reads += 1
            return reads

        assert all(reading.result() for reading in [pool.submit(read), pool.submit(read)])
        adding.result()
    assert seqs(chunks) == [*range(50), *range(count - 50, count)]
