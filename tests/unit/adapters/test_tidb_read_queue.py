"""Which reader gets which command."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor, wait
from threading import Event

from sidecar.adapters.tidb.read_queue import Reads
from sidecar.shared.model.messages import Brackets, ReadChunk
from sidecar.shared.model.nouns import TableName
from tests.support.eventually import PATIENCE_S


def command(number: int, *, follows: int | None = None) -> ReadChunk:
    return ReadChunk("0123456789abcdef", 1, number, TableName("app", "t"), None, None, 1, Brackets.WATERMARK, follows=follows)


def test_commands_come_in_the_order_in_which_they_were_requested() -> None:
    reads = Reads()
    for number in (1, 2, 3):
        reads.put(command(number))
    assert [reads.take(None) for _ in range(3)] == [command(1), command(2), command(3)]


def test_a_command_that_follows_waits_for_the_reader_that_reads_ahead() -> None:
    reads = Reads()
    reads.keep(1)
    reads.put(command(2, follows=1))
    reads.put(command(3))
    assert reads.take(None) == command(3)
    assert reads.take(1) == command(2, follows=1)


def test_who_reads_ahead_takes_what_follows_before_all_else() -> None:
    reads = Reads()
    reads.keep(1)
    reads.put(command(3))
    reads.put(command(2, follows=1))
    assert reads.take(1) == command(2, follows=1)


def test_where_nobody_else_is_idle_who_reads_ahead_takes_another_command_and_gives_up_its_own() -> None:
    reads = Reads()
    reads.keep(1)
    reads.put(command(3))
    assert reads.take(1) == command(3)
    reads.put(command(2, follows=1))
    assert reads.take(None) == command(2, follows=1), "it is anybody's"


def test_closing_ends_every_wait() -> None:
    reads, takers = Reads(), ThreadPoolExecutor(2)
    reads.keep(1)
    waiting: list[Future[ReadChunk | None]] = [takers.submit(reads.take, None), takers.submit(reads.take, 1)]
    reads.close()
    assert not wait(waiting, PATIENCE_S).not_done
    assert [one.result() for one in waiting] == [None, None]
    reads.put(command(1))
    assert reads.take(None) is None


def test_a_reader_that_is_gone_leaves_what_came_for_it_to_who_is_idle() -> None:
    """Whichever of the two wakes first."""
    for _ in range(50):
        reads, takers, gone = Reads(), ThreadPoolExecutor(2), Event()
        reads.keep(1)
        leaving = takers.submit(reads.take, 1, gone.is_set)
        idle = takers.submit(reads.take, None)
        gone.set()
        reads.put(command(2, follows=1))
        assert leaving.result(PATIENCE_S) in (None, command(2, follows=1))
        if leaving.result() is None:
            assert idle.result(PATIENCE_S) == command(2, follows=1)
        reads.close()


def test_an_idle_reader_that_is_gone_leaves_a_command_to_who_reads_ahead() -> None:
    for _ in range(50):
        reads, takers, gone = Reads(), ThreadPoolExecutor(2), Event()
        reads.keep(1)
        ahead, leaving = takers.submit(reads.take, 1), takers.submit(reads.take, None, gone.is_set)
        gone.set()
        reads.put(command(3))
        if leaving.result(PATIENCE_S) is None:
            assert ahead.result(PATIENCE_S) == command(3)
        reads.close()
