"""A consumer of the topic into which a system brings the table, as a process: which row came when.

`python -m tests.tools.peers.topic_reader FOLDER BROKERS TOPIC debezium|open-protocol`. It appends four int64 a row to a file in FOLDER: the
time at which the poll that brought the row returned, id, touched, and 1 for a row of the dump. It ends with its standard input. What a
transaction has not committed is not read (librdkafka's default).
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import IO, Self, TypeAlias

import msgspec
import numpy as np
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from tests.tools.peers.arrivals import Arrivals

ROWS_FILE, LOG_FILE = "arrivals.int64", "reader.log"
ROW_BYTES = 4 * 8
MESSAGES_MAX = 2_000
WRITE_EVERY_S = 0.5
SNAPSHOT = "r"
"""Debezium's `op` of a row that was read, not changed."""
ROW_EVENT = 1
"""open-protocol's `t` of a row."""
ORIGIN, DUMP = "ticdc-dump", b"dump "
"""The header of our sink's records, and how it begins for a row of a dump (deploy/KAFKA-SINK.md)."""

Row: TypeAlias = "tuple[int, int, int]"
"""id, touched, and whether it is of a dump."""

_REPOSITORY = Path(__file__).parents[3]


class _Row(msgspec.Struct):
    id: int
    touched: int


class _Event(msgspec.Struct):
    """Of Debezium's envelope (JsonConverter without schemas) what is needed."""

    after: _Row
    op: str


class _Value(msgspec.Struct):
    v: int


class _Columns(msgspec.Struct):
    id: _Value
    touched: _Value


class _Update(msgspec.Struct):
    """Of open-protocol's value what is needed."""

    u: _Columns


class TopicReader:
    """`with TopicReader(folder, brokers=…, topic=…, form=…) as reader`. The topic is there and has one partition. `form`: of FORMS."""

    def __init__(self, folder: Path, *, brokers: str, topic: str, form: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._arguments = (str(folder), brokers, topic, form)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        with (self.folder / LOG_FILE).open("wb") as log:
            command = [sys.executable, "-m", "tests.tools.peers.topic_reader", *self._arguments]
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


def of_debezium(message: Message) -> list[Row]:
    """Raises msgspec.ValidationError for what is no row of the table."""
    event = msgspec.json.decode(_value(message), type=_Event)
    return [(event.after.id, event.after.touched, int(event.op == SNAPSHOT))]


def of_open_protocol(message: Message) -> list[Row]:
    """TiCDC's framing: a version before the keys, a length before each of several. Marks and DDLs have no rows. Raises as `of_debezium`."""
    key, origin = message.key(), dict(message.headers() or ()).get(ORIGIN)
    assert key is not None, "open-protocol has a key for each"
    dumped = int(isinstance(origin, bytes) and origin.startswith(DUMP))
    keys, values = _frames(key[8:]), _frames(_value(message))
    rows = [value for key, value in zip(keys, values, strict=False) if msgspec.json.decode(key)["t"] == ROW_EVENT]
    columns = [msgspec.json.decode(row, type=_Update).u for row in rows]
    return [(row.id.v, row.touched.v, dumped) for row in columns]


FORMS: dict[str, Callable[[Message], list[Row]]] = {"debezium": of_debezium, "open-protocol": of_open_protocol}


def _value(message: Message) -> bytes:
    value = message.value()
    assert value is not None, "nothing is deleted, so there are no tombstones"
    return value


def _frames(data: bytes) -> list[bytes]:
    frames, at = [], 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 8], "big")
        frames.append(data[at + 8 : at + 8 + size])
        at += 8 + size
    return frames


def _read(brokers: str, topic: str, rows_of: Callable[[Message], list[Row]], out: IO[bytes]) -> None:
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
            waiting += [(at_ns, *row) for row in rows_of(message)]
        if waiting and time.monotonic() - written_s >= WRITE_EVERY_S:
            np.array(waiting, dtype=np.int64).tofile(out)
            out.flush()
            waiting.clear()
            written_s = time.monotonic()


def _end_with_stdin() -> None:
    os.read(sys.stdin.fileno(), 1)  # not sys.stdin: its lock would be held while another thread ends the process
    os._exit(0)


def main() -> None:
    folder, brokers, topic, form = sys.argv[1:]
    threading.Thread(target=_end_with_stdin, name="end-with-stdin", daemon=True).start()
    with (Path(folder) / ROWS_FILE).open("ab") as out:
        _read(brokers, topic, FORMS[form], out)


if __name__ == "__main__":
    main()
