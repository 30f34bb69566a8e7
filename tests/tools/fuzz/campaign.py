"""Batches in processes that are watched: each says which batch it begins, so what hangs or dies is known by its batch.

A batch that takes longer than BATCH_S is ended where Python runs (an alarm), and by its process's end where C does not come back; a process
that dies otherwise (a crash in C) has its batch counted as a fault and is followed by another one.
"""

from __future__ import annotations

import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from random import Random
from time import monotonic
from typing import Any

from tests.tools.fuzz import binlogs, ddl_jobs, json_protocols, key_values
from tests.tools.fuzz.verdict import Counts, Fault, Hang

BATCH_SIZE = 250
BATCH_S = 60
"""A batch takes a tenth of a second; the machine may be loaded, and the first one reads the recordings."""

_GRACE_S = 30
"""Beyond BATCH_S, for an alarm to be heard."""

_FAULTS_SHOWN_MAX = 10

TARGETS: dict[str, Callable[[Random, int], Counts]] = {
    **{name: partial(json_protocols.batch, name) for name in json_protocols.PROTOCOLS},
    "kv": key_values.batch,
    "ddl-jobs": ddl_jobs.batch,
    "binlog": binlogs.batch,
}


@dataclass(frozen=True, slots=True)
class Batch:
    """All that its messages are made of."""

    target: str
    seed: int
    number: int
    size: int = BATCH_SIZE

    def random(self) -> Random:
        return Random(f"{self.target}/{self.seed}/{self.number}")

    def again(self) -> str:
        return f"python -m tests.tools.fuzz --only {self.target} --seed {self.seed} --batch {self.number} --size {self.size}"


@dataclass(slots=True)
class Result:
    """Of one target."""

    counts: Counts = field(default_factory=Counts)
    faults: list[str] = field(default_factory=list)
    took_s: float = 0.0


def carried_out(batch: Batch) -> Counts | str:
    """Its counts, or its fault with what makes it again."""
    try:
        with _alarm(BATCH_S):
            return TARGETS[batch.target](batch.random(), batch.size)
    except Fault as found:
        return f"{found}\n  again: {batch.again()}"
    except Exception:  # noqa: BLE001  # whatever it is, it is told with its batch
        return f"the fuzzer itself broke: {traceback.format_exc()}\n  again: {batch.again()}"


@contextmanager
def _alarm(within_s: int) -> Iterator[None]:
    def received(*_: object) -> None:
        raise Hang(f"no end within {within_s} s")

    previous = signal.signal(signal.SIGALRM, received)
    previous_s, _ = signal.setitimer(signal.ITIMER_REAL, within_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
        signal.setitimer(signal.ITIMER_REAL, previous_s)  # a test's own


def campaign(target: str, *, messages: int, seed: int, processes: int) -> Result:
    """So many messages, at least, of one target."""
    rows, began_s = Result(), monotonic()
    batches = iter([Batch(target, seed, number) for number in range(-(-messages // BATCH_SIZE))])
    workers = [_Worker() for _ in range(processes)]
    try:
        for worker in workers:
            worker.give(next(batches, None))
        while busy := [worker for worker in workers if worker.batch is not None]:
            for worker in _ready(busy):
                _take(rows, worker.result())
                worker.give(next(batches, None))
            if sys.stderr.isatty():
                print(f"\r{target}: {rows.counts.messages} messages, {len(rows.faults)} faults", end="", file=sys.stderr)  # noqa: T201  # a command's
    finally:
        for worker in workers:
            worker.end()
    rows.took_s = monotonic() - began_s
    return rows


def _take(rows: Result, result: Counts | str) -> None:
    if isinstance(result, Counts):
        rows.counts.add(result)
        return
    rows.faults.append(result)
    if len(rows.faults) <= _FAULTS_SHOWN_MAX:
        print(f"\n{result}\n", file=sys.stderr)  # noqa: T201  # a command's


class _Worker:
    """A process that carries out batches, one at a time; when it dies, another takes its place."""

    def __init__(self) -> None:
        self.batch: Batch | None = None
        self.begun_s = 0.0
        self._start()

    def _start(self) -> None:
        context = get_context("spawn")
        self.pipe, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other,), daemon=True)
        self._process.start()
        other.close()

    def give(self, batch: Batch | None) -> None:
        self.batch, self.begun_s = batch, monotonic()
        if batch is not None:
            self.pipe.send(batch)

    def is_late(self) -> bool:
        return monotonic() - self.begun_s > BATCH_S + _GRACE_S

    def result(self) -> Counts | str:
        """Of the batch that is done, or how the process ended. Ends one that is late."""
        assert self.batch is not None
        if not self.pipe.poll():
            self.end()
            return self._again(f"no end within {BATCH_S + _GRACE_S} s, where no signal was heard")
        try:
            made: Counts | str = self.pipe.recv()
        except (EOFError, ConnectionError):
            self._process.join()
            return self._again(f"the process died: exit code {self._process.exitcode}")
        return made

    def _again(self, what: str) -> str:
        assert self.batch is not None
        self._start()
        return f"{what}\n  again: {self.batch.again()}"

    def end(self) -> None:
        self._process.kill()
        self._process.join()
        self.pipe.close()


def _ready(busy: Sequence[_Worker]) -> list[_Worker]:
    """Those with an answer or without a process, and those that are late."""
    answered: list[Any] = wait([worker.pipe for worker in busy], timeout=1.0)
    return [worker for worker in busy if worker.pipe in answered or worker.is_late()]


def _serve(pipe: Connection) -> None:
    try:
        while True:
            pipe.send(carried_out(pipe.recv()))
    except (EOFError, KeyboardInterrupt):
        return


def table(value: dict[str, Result]) -> str:
    """A line a target."""
    heads = ("target", "messages", "equal", "refused, by error", "refused by ours alone", "rows read twice", "faults", "messages/s")
    lines = [f"| {' | '.join(heads)} |"]
    lines.append("|---" * 8 + "|")
    for name, one in value.items():
        counts = one.counts
        refused = ", ".join(f"{kind} {number}" for kind, number in counts.refused.most_common()) or "-"
        rate = counts.messages / one.took_s if one.took_s else 0
        cells = (name, counts.messages, counts.equal, refused, counts.only_slow, counts.rows, len(one.faults), f"{rate:.0f}")
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)
