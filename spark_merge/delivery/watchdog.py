"""A hang ends the process, with the stacks of all threads on standard error. The supervisor of the process starts it again.

    with dog.watched(): …     work of this thread, and of the threads that it begins
    progressed()              (sidecar/shared/process/progress.py) the work's next deadline is HANG_S from now

A hang is a step that does not end: 300 answers of 1 s each are none. The rule: between two reports the work is bounded, however much there
is to do. What iterates reports, so a sink does not have to (tests/unit/sinks/test_progress_of_work.py counts the work of each):

- a task: each portion and piece, which are bounded in bytes (merge/task.py, port/pieces.py)
- Parquet: each row group and batch (log/read.py::iter_rows, batches_of); rows that are decoded: each block (codecs/decode/rows.py)
- rows that are read back from a sink: each piece (port/readable.py::rows_of), and each block of a file of lines
- the log, chunks and files of any storage: each request, each file that is whole
- SQLite: a statement after so many steps of its machine (sinks/sqlite/database.py)
- HTTP, OpenSearch, ClickHouse, SQL: each request or statement that is answered, also with an error
- Kafka: whenever the brokers have taken some of what waits (`producer._Patience`), each answer that is not a record's
- lakes: each call of delta-rs and of a catalog, and each file

No single step may take HANG_S unless it says so with `may_take`. Where the timeouts come from:

- S3: s3fs' and botocore's, as `shared/log/storage/s3.py::REQUEST_TRIES` says; a local disk has none
- HTTP, OpenSearch, ClickHouse, SQL: the timeouts of the sink's URI, which an operator may set to any value: `may_take` gets them. A DDL of
  SQL has `sinks/mysql/sink.py::DDL_S_MAX`
- Kafka: `sinks/kafka/client.py::REQUEST_TIMEOUT_S` a call, OUTAGE_MAX_S for a queue that gets no shorter
- lakes: delta-rs and pyiceberg have a timeout for a request and none for a call of many: `CALL_S_MAX` in their folders
"""

from __future__ import annotations

import faulthandler
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from time import monotonic

from sidecar.shared.process.progress import watched_by

HANG_S = 300.0
"""Without progress. Longer than any request that a task waits for; those that may be longer say so."""

_NOTED_PART = 0.01
"""Of HANG_S: progress within so short a time of the last is not noted again, because each note starts a thread of Python's timer."""

_SPARE_PART = 0.1
"""Of HANG_S: what a client's timeout needs beyond its number to become an error."""


class Watchdog:
    """Ends the process where some watched work makes no progress for `hang_s`. Python's own timer thread does it (faulthandler): it
    needs no lock of the interpreter, so a hang in C ends as well. That has one deadline a process: the earliest of all work that is under
    way. So a process has one Watchdog at a time: the worker's own, or that of a task in a Python worker of Spark."""

    def __init__(self, hang_s: float = HANG_S) -> None:
        self.hang_s = hang_s
        self.lock = Lock()
        self._watches: set[_Watch] = set()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Work within has a deadline of its own; other work, also around it, does not extend that, nor is it extended by it."""
        watch = _Watch(self)
        with self.lock:
            self._watches.add(watch)
            self.arm()
        try:
            with watched_by(watch):
                yield
        finally:
            with self.lock:
                self._watches.remove(watch)
                self.arm()

    def arm(self) -> None:
        """Under the lock."""
        if self._watches:
            left_s = min(watch.deadline_s() for watch in self._watches) - monotonic()
            faulthandler.dump_traceback_later(max(left_s, 0.001), exit=True)
        else:
            faulthandler.cancel_dump_traceback_later()


class _Watch:
    """progress.Watch: of one piece of work. After its end it does nothing."""

    def __init__(self, dog: Watchdog) -> None:
        self._dog = dog
        self._progress_s = monotonic()
        self._calls_end_s: dict[object, float] = {}

    def deadline_s(self) -> float:
        return max([self._progress_s + self._dog.hang_s, *self._calls_end_s.values()])

    def progressed(self) -> None:
        if monotonic() - self._progress_s >= _NOTED_PART * self._dog.hang_s:
            with self._dog.lock:
                self._note()

    @contextmanager
    def may_take(self, seconds: float) -> Iterator[None]:
        self.progressed()
        call, hang_s = object(), self._dog.hang_s
        most_s = seconds + _SPARE_PART * hang_s
        if most_s > (1 - _NOTED_PART) * hang_s:
            with self._dog.lock:
                self._calls_end_s[call] = monotonic() + most_s
                self._note()
        try:
            yield
        finally:
            if call in self._calls_end_s:
                with self._dog.lock:
                    del self._calls_end_s[call]
                    self._note()
            else:
                self.progressed()

    def _note(self) -> None:
        self._progress_s = monotonic()
        self._dog.arm()
