"""A consumer of Debezium's topic of the table, as a process: which row came when.

`python -m tests.peers.topic_reader FOLDER BROKERS TOPIC`. It appends four int64 a row to a file in FOLDER: the time at which the poll
that brought the row returned, id, touched, and 1 for a row that a snapshot read. It ends with its standard input.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import msgspec
import numpy as np
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from tests.peers.arrivals import Arrivals

ROWS_FILE, LOG_FILE = "arrivals.int64", "reader.log"
ROW_BYTES = 4 * 8
MESSAGES_MAX = 2_000
WRITE_EVERY_S = 0.5
SNAPSHOT = "r"
"""Debezium's `op` of a row that was read, not changed."""

_REPOSITORY = Path(__file__).parents[2]


class _Row(msgspec.Struct):
    id: int
    touched: int


class _Event(msgspec.Struct):
    """Of Debezium's envelope (JsonConverter without schemas) what is needed."""

    after: _Row
    op: str


class TopicReader:
    """`with TopicReader(folder, brokers=…, topic=…) as reader`. The topic is there and has one partition."""

    def __init__(self, folder: Path, *, brokers: str, topic: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._arguments = (str(folder), brokers, topic)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        with (self.folder / LOG_FILE).open("wb") as log:
            command = [sys.executable, "-m", "tests.peers.topic_reader", *self._arguments]
            self._process = subprocess.Popen(
                command, cwd=_REPOSITORY, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
            )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def count(self) -> int:
        """How many rows have been written down so far: cheap, beside a measurement."""
        path = self.folder / ROWS_FILE
        return path.stat().st_size // ROW_BYTES if path.exists() else 0

    def arrivals(self) -> Arrivals:
        """What has been written down so far: up to `WRITE_EVERY_S` behind. Raises RuntimeError if the reader has ended."""
        assert self._process is not None, "enter it first"
        if self._process.poll() not in (None, -9):  # killed by us
            raise RuntimeError(f"the consumer ended with {self._process.returncode}: {(self.folder / LOG_FILE).read_text()[-3000:]}")
        path = self.folder / ROWS_FILE
        return Arrivals.read(path) if self.count() else Arrivals(*np.empty((4, 0), np.int64))


def row_of(message: bytes) -> tuple[int, int, int]:
    """id, touched, and whether a snapshot read it. Raises msgspec.ValidationError for what is no row of the table."""
    event = msgspec.json.decode(message, type=_Event)
    return event.after.id, event.after.touched, int(event.op == SNAPSHOT)


def _read(brokers: str, topic: str, out: IO[bytes]) -> None:
    consumer = Consumer({"bootstrap.servers": brokers, "group.id": "bench-peers", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    waiting: list[tuple[int, int, int, int]] = []
    written_s = time.monotonic()
    while True:
        first = consumer.poll(WRITE_EVERY_S)
        messages: list[Message] = [] if first is None else [first, *consumer.consume(MESSAGES_MAX, 0)]
        at_ns = time.time_ns()
        for message in messages:
            if message.error() is not None:
                raise KafkaException(message.error())
            value = message.value()
            assert value is not None, "nothing is deleted, so there are no tombstones"
            waiting.append((at_ns, *row_of(value)))
        if waiting and time.monotonic() - written_s >= WRITE_EVERY_S:
            np.array(waiting, dtype=np.int64).tofile(out)
            out.flush()
            waiting.clear()
            written_s = time.monotonic()


def _end_with_stdin() -> None:
    os.read(sys.stdin.fileno(), 1)  # not sys.stdin: its lock would be held while another thread ends the process
    os._exit(0)


def main() -> None:
    folder, brokers, topic = sys.argv[1:]
    threading.Thread(target=_end_with_stdin, name="end-with-stdin", daemon=True).start()
    with (Path(folder) / ROWS_FILE).open("ab") as out:
        _read(brokers, topic, out)


if __name__ == "__main__":
    main()
