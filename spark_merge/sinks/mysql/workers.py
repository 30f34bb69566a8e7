"""A task's workers: each a thread with a connection of its own, which commits what it is given in transactions that hold its slot.

- A transaction ends where a commit of the source ends, after `rows_max` rows, or as soon as nothing else waits.
- What is behind the slot is skipped, so a task that is done again continues where each worker was: a row that a reader has seen is not
  written over by an older one.
- Its slot comes first in a transaction: a twin of the same task waits for it, and then sees that it has come late.
- A commit of the source that is longer than that is one transaction of several blocks, in bounded memory. If the target goes away within
  one, the task ends, and is done again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from queue import Empty, Queue
from threading import Event
from typing import NamedTuple

import pymysql

from sidecar.shared.errors import OwnershipLost, SinkError, SourceError
from sidecar.shared.mysql.errors import Warned, failure, passes
from sidecar.shared.mysql.retry import carried_out
from sidecar.shared.mysql.session import MysqlSession
from sidecar.shared.process.background import Background
from spark_merge.sinks.mysql.position import OwnedSlots
from spark_merge.sinks.mysql.statements import Puts, SqlWrite, due, statements

TRANSACTION_BYTES_MAX = 16 << 20
"""Of the values of a transaction's rows: after the commit of the source that makes them more, a transaction ends."""

BLOCKS_WAITING = 8
"""Of each worker: enough that it never waits for the next."""

_DOES_NOT_FIT = "widen the column at the target, give it the source's type and character set, or leave the table out of the changefeed"


class TaskOver(Exception):
    """The batch of the task is accepted already."""


class SqlBlock(NamedTuple):
    """In order. `upto`: all of this worker's rows of the task below that number are in this block or an earlier one. `ends`: it
    ends where a commit of the source does."""

    writes: Sequence[SqlWrite] | Puts
    upto: int
    ends: bool = True

    @property
    def bytes(self) -> int:
        """About, of its values."""
        return int(self.writes.rows.nbytes) if isinstance(self.writes, Puts) else sum(write.bytes for write in self.writes)


@dataclass(frozen=True, slots=True)
class SqlJob:
    """What a worker needs besides its session."""

    slots: OwnedSlots
    task: str
    rows_max: int
    batched: bool


class SqlWorker:
    """`known`: how far its slot is. `offer` and `drain` are called by one thread, which is not the worker's."""

    def __init__(self, session: MysqlSession, job: SqlJob, number: int, *, known: int) -> None:
        self._session, self._job, self._number, self._known = session, job, number, known
        self._given: Queue[SqlBlock | None] = Queue(BLOCKS_WAITING)
        self._error: BaseException | None = None
        self._ended = False
        self._running: Background | None = None

    def offer(self, block: SqlBlock) -> None:
        """Raises what the worker ended with."""
        self.check()
        if self._running is None:
            self._running = Background(self._run, name=f"{self._job.task} {self._number}")
        self._given.put(block)

    def drain(self) -> None:
        """Until all that was offered is committed. Raises as `check`."""
        if self._running is not None:
            self._given.join()
        self.check()

    def check(self) -> None:
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """What is not committed is not written. Never raises."""
        if self._running is not None:
            self._ended = True
            self._given.put(None)
            self._running.close()
            self._running = None

    # ---- its thread ------------------------------------------------------------------------------------------------------

    def _run(self, _: Event) -> None:
        """After an error what is offered is let go, so that nobody waits for ever."""
        while (block := self._given.get()) is not None:
            blocks = [block]
            try:
                if self._error is None and not self._ended:
                    self._more(blocks)
                    self._carry_out(blocks)
            except BaseException as error:  # noqa: BLE001  # kept for who offers and drains
                self._error = error
            for _taken in blocks:
                self._given.task_done()

    def _more(self, blocks: list[SqlBlock]) -> None:
        """What waits too, up to a transaction's rows and bytes; the last one ends a commit, or is the first of a long one."""
        rows, size = len(blocks[0].writes), blocks[0].bytes
        while blocks[-1].ends and rows < self._job.rows_max and size < TRANSACTION_BYTES_MAX:
            try:
                block = self._given.get_nowait()
            except Empty:
                break
            if block is None:
                self._given.put(None)
                break
            blocks.append(block)
            rows, size = rows + len(block.writes), size + block.bytes

    def _carry_out(self, blocks: list[SqlBlock]) -> None:
        ended = blocks if blocks[-1].ends else blocks[:-1]
        if ended:
            self._commit([block.writes for block in ended], ended[-1].upto)
        if len(ended) < len(blocks):
            self._commit_long(blocks[-1])

    def _commit(self, blocks: Sequence[Sequence[SqlWrite] | Puts], upto: int) -> None:
        def attempt() -> int:
            with self._session.transaction():
                if not self._advance(self._known, upto):
                    return self._slot()
                self._execute(due(blocks, known=self._known, batched=self._job.batched))
                return upto

        while self._known < upto:
            try:
                self._known = carried_out(self._session, attempt, doing="writing rows")
            except SinkError as error:
                if (cause := error.__cause__) is None or passes(cause, self._session.role):
                    raise
                raise self._failure(cause, blocks) from cause

    def _commit_long(self, block: SqlBlock) -> None:
        """The blocks up to the one that ends the commit are taken as they come, and let go of one by one."""
        try:
            with self._session.transaction():
                known = self._known
                while True:
                    if known < block.upto:
                        if not self._advance(known, block.upto):
                            self._slot()
                            raise Warned("another attempt of the same task has come before")
                        self._execute(due([block.writes], known=known, batched=self._job.batched))
                        known = block.upto
                    if block.ends:
                        break
                    block = self._next()
                    self._given.task_done()
            self._known = known
        except (pymysql.err.MySQLError, Warned) as error:
            self._session.close()
            if isinstance(error, pymysql.err.DataError):
                raise self._failure(error, [block.writes]) from error
            raise failure(error, self._session.server, self._session.role, "writing a long commit", _DOES_NOT_FIT) from error

    def _next(self) -> SqlBlock:
        block = self._given.get()
        if block is None:
            self._given.put(None)
            raise TaskOver
        return block

    # ---- a transaction's parts -------------------------------------------------------------------------------------------

    def _advance(self, known: int, upto: int) -> bool:
        return self._job.slots.advance(self._session, self._job.task, self._number, known=known, done=upto)

    def _slot(self) -> int:
        """Where a twin, or a commit whose answer was lost, has brought it. Raises OwnershipLost, TaskOver."""
        done = self._job.slots.done(self._session, self._job.task)
        if done is None:
            raise TaskOver
        return done[self._number]

    def _execute(self, texts: Iterable[str]) -> None:
        for sql in texts:
            if len(sql) * 4 > self._session.packet_max and len(sql.encode()) + 64 > self._session.packet_max:
                raise pymysql.err.DataError(
                    1153, f"a statement of {len(sql.encode())} bytes, and max_allowed_packet is {self._session.packet_max}"
                )
            self._session.change(sql)

    def _failure(self, error: BaseException, blocks: Sequence[Sequence[SqlWrite] | Puts]) -> SourceError | SinkError:
        """Each row is tried alone, to name the one that the target does not take; nothing of it stays."""
        writes = [write for block in blocks for write in (block.writes() if isinstance(block, Puts) else block)]
        for write in writes:
            try:
                with rolled_back(self._session):
                    self._execute(statements([write], batched=False))
            except (pymysql.err.MySQLError, Warned) as alone:
                if passes(alone, self._session.role):
                    break
                doing = f"row {write.key} of {write.texts.schema.name}, for {write.texts.table.name}"
                hint = "raise max_allowed_packet at the target" if alone.args[0] == 1153 else _DOES_NOT_FIT
                return failure(alone, self._session.server, self._session.role, doing, hint)
        names = ", ".join(sorted({str(write.texts.table.name) for write in writes}))
        return failure(error, self._session.server, self._session.role, f"writing rows of {names}", _DOES_NOT_FIT)


@contextmanager
def rolled_back(session: MysqlSession) -> Iterator[None]:
    class Back(Exception):
        pass

    try:
        with session.transaction():
            yield
            raise Back
    except Back:
        return


class Workers:
    """All of a task's. `done`: where each begins, from its slot. Use as a context: leaving it ends them."""

    def __init__(self, sessions: Callable[[], MysqlSession], job: SqlJob, done: Sequence[int]) -> None:
        self._sessions = [sessions() for _ in done]
        self._workers = [SqlWorker(session, job, number, known=done[number]) for number, session in enumerate(self._sessions)]

    def offer(self, worker: int, block: SqlBlock) -> None:
        self._workers[worker].offer(block)

    def drain(self) -> None:
        """Raises what one of them ended with; that it has lost the target to a later owner before all else."""
        errors: list[BaseException] = []
        for worker in self._workers:
            try:
                worker.drain()
            except BaseException as error:  # noqa: BLE001  # raised below
                errors.append(error)
        if errors:
            raise next((error for error in errors if isinstance(error, OwnershipLost)), errors[0])

    def close(self) -> list[MysqlSession]:
        """Their sessions, for who uses them next."""
        for worker in self._workers:
            worker.close()
        return self._sessions
