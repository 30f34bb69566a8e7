"""The publisher: stands where TiCDC's changefeed stands. `python -m tests.tools.rig.publisher FOLDER`, with publisher.json in it.

    binlog ─► transactions ─► net changes ─► messages ─► Kafka (acks=all, one request in flight: order kept, repeats possible)

In this order, at least every `mark_every_s`, between two transactions: all rows read are in Kafka (flush); the mark, with
the last transaction's commit_ts, to every partition of every topic; the checkpoint, with the binlog's position and that
commit_ts, at most every `checkpoint_every_s`. So a mark never passes a row still to come, and a killed publisher repeats
what follows its checkpoint with the same commit_ts. MariaDB or Kafka away: it waits for them.

It ends when its standard input does: with the process that started it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pymysql
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from sidecar.shared.model.nouns import TableName
from tests.tools.rig.binlog import Ddl, KnownTables, MySqlAddress, Transaction, transactions
from tests.tools.rig.changes import net_changes
from tests.tools.rig.columns import read_tables
from tests.tools.rig.dispatch import Dispatcher, matches
from tests.tools.rig.etcd_status import StatusWriter
from tests.tools.rig.heartbeat import EVERY_S
from tests.tools.rig.outbox import Outbox
from tests.tools.rig.tso import Tso
from tests.tools.rig.way import Way

SETTINGS_FILE = "publisher.json"
CHECKPOINTS_FILE = "checkpoints.jsonl"
TABLES_FILE = "tables.jsonl"

RECONNECT_EVERY_S = 0.2
PARTITIONS_EVERY_S = 1.0
"""How often a topic's partitions are counted again."""

TOPIC_S_MAX = 300.0
"""How long a new topic may take before it is requested again."""

_TICK_S = EVERY_S / 2
"""A source that is idle gives a transaction every EVERY_S: half of it keeps a mark from waiting for one more."""

ROWS_PENDING_MAX = 2048
"""TiCDC's: rows that are encoded together."""


@dataclass(frozen=True, slots=True)
class Settings:
    """`filter_rules`: TiCDC's. `start`: where the changefeed begins. `partitions`: of a new topic. `etcd`: host:port.
    `ways_s`: as of Way. `files`: a folder in the place of Kafka (files_publisher.py); empty: none."""

    source: MySqlAddress
    brokers: str
    topic: str
    protocol: str
    filter_rules: tuple[str, ...]
    start: Checkpoint
    partitions: int
    dispatchers: tuple[Dispatcher, ...] = ()
    etcd: str = ""
    status_key: str = ""
    mark_every_s: float = 0.2
    ways_s: tuple[float, ...] = ()
    checkpoint_every_s: float = 1.0
    files: str = ""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Everything up to `gtid` is in Kafka, and the last commit_ts was `ts`."""

    gtid: str
    ts: int


def read_checkpoints(folder: Path, start: Checkpoint) -> list[Checkpoint]:
    """From the changefeed's start on, in the order in which they were written; the last one counts."""
    path = folder / CHECKPOINTS_FILE
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []  # one without its end is being written
    return [start, *(msgspec.json.decode(line, type=Checkpoint) for line in lines)]


def write_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """One write, so that a killed writer has written the whole line or nothing."""
    with (folder / CHECKPOINTS_FILE).open("ab") as file:
        file.write(msgspec.json.encode(checkpoint) + b"\n")


class Publisher:
    """One run. `run` never returns; errors that waiting cannot help end it."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self._folder = folder
        self._settings = settings
        checkpoint = read_checkpoints(folder, settings.start)[-1]
        self._gtid, self._tso = checkpoint.gtid, Tso(checkpoint.ts)
        self._tables = KnownTables(settings.source, folder / TABLES_FILE)
        self._outbox = Outbox(settings.protocol, settings.topic, settings.dispatchers, self._partitions)
        self._status = StatusWriter(settings.etcd, settings.status_key)
        self._connect(settings)
        self._way: Way[Transaction] = Way(settings.ways_s)
        self._marked_s = self._checked_s = self._counted_s = float("-inf")

    def _connect(self, settings: Settings) -> None:
        self._failed: KafkaError | None = None
        self._admin = AdminClient({"bootstrap.servers": settings.brokers})
        self._producer = Producer(_kafka_settings(settings.brokers, self._on_error))

    def run(self) -> None:
        self._open_topics()
        self._mark()
        while True:
            self._way.clear()
            try:
                result = transactions(self._settings.source, after_gtid=self._gtid, tables=self._tables, in_scope=self._in_scope)
                with contextlib.closing(result):
                    for read in result:
                        for transaction in self._way.through(read, time.monotonic()):
                            self._publish(transaction)
                logging.warning("MariaDB has ended the stream")
            except (pymysql.err.OperationalError, pymysql.err.InternalError, ConnectionError) as error:
                logging.warning("MariaDB is away: %s", error)
            time.sleep(RECONNECT_EVERY_S)  # there is no event when a port opens

    def _open_topics(self) -> None:
        """Of the changefeed, and of every table that it has: marks go to them all from the start."""
        connection = self._wait_for_source()
        try:
            with connection.cursor() as cursor:
                tables = [name for name, table in read_tables(cursor).items() if table.handle and self._in_scope(name)]
        finally:
            connection.close()
        self._outbox.open(tables)

    def _wait_for_source(self) -> pymysql.Connection[Any]:
        while True:
            try:
                return self._settings.source.connect()
            except pymysql.err.OperationalError as error:
                logging.warning("MariaDB is away: %s", error)
                time.sleep(RECONNECT_EVERY_S)  # there is no event when a port opens

    def _in_scope(self, table: TableName) -> bool:
        return matches(self._settings.filter_rules, table)

    def _publish(self, transaction: Transaction) -> None:
        self._tso = self._tso.after(transaction.heartbeat_ms)
        self._gtid = transaction.gtid
        for change in net_changes(transaction.rows):
            self._outbox.add(change, self._tso.last)
        if transaction.ddl is not None and self._is_in_scope(transaction.ddl):
            self._send_rows()
            self._send(self._outbox.ddl(transaction.ddl, self._tso.last))
        if time.monotonic() - self._marked_s >= self._settings.mark_every_s - _TICK_S:
            self._mark()
        elif self._outbox.rows >= ROWS_PENDING_MAX:
            self._send_rows()

    def _is_in_scope(self, ddl: Ddl) -> bool:
        return self._in_scope(TableName(ddl.schema, ddl.table or "*"))

    def _mark(self) -> None:
        """The order of the docstring. Called between two transactions."""
        now_s = time.monotonic()
        if now_s - self._counted_s >= PARTITIONS_EVERY_S:
            self._count_partitions()
            self._counted_s = now_s
        self._send_rows()
        self._flush()
        self._send(self._outbox.resolved(self._tso.last))
        self._marked_s = now_s
        if now_s - self._checked_s >= self._settings.checkpoint_every_s:
            self._flush()
            write_checkpoint(self._folder, Checkpoint(self._gtid, self._tso.last))
            self._status.put(self._tso.last)
            self._checked_s = now_s

    # ---- Kafka ----------------------------------------------------------------------------------------------------------

    def _partitions(self, topic: str) -> int:
        """Waits for Kafka. A topic that does not exist is made with the changefeed's number of partitions."""
        while True:
            try:
                result = self._producer.list_topics(topic, timeout=2).topics[topic]
                if result.error is None and result.partitions:
                    return len(result.partitions)
                self._admin.create_topics([NewTopic(topic, self._settings.partitions, 1)])[topic].result(TOPIC_S_MAX)
            except (KafkaException, TimeoutError) as error:
                logging.warning("Kafka is away or does not have %s yet: %s", topic, error)
            time.sleep(RECONNECT_EVERY_S)  # a new topic's leader is elected in the background

    def _count_partitions(self) -> None:
        """While Kafka is away the topics have as many as before."""
        for topic in list(self._outbox.partitions):
            try:
                result = self._producer.list_topics(topic, timeout=2).topics[topic]
                self._outbox.partitions[topic] = max(len(result.partitions), self._outbox.partitions[topic])
            except KafkaException as error:
                logging.warning("Kafka is away: %s", error)

    def _send_rows(self) -> None:
        self._send(self._outbox.take())

    def _send(self, messages: list[tuple[str, int, bytes | None, bytes]]) -> None:
        for topic, partition, key, value in messages:
            while True:
                try:
                    self._producer.produce(topic, value, key, partition, on_delivery=self._on_delivery)
                    break
                except BufferError:
                    self._producer.poll(0.1)
        self._producer.poll(0)
        self._check()

    def _flush(self) -> None:
        while self._producer.flush(1.0):
            self._check()
        self._check()

    def _on_delivery(self, error: KafkaError | None, _: Message) -> None:
        self._failed = self._failed or error

    def _on_error(self, error: KafkaError) -> None:
        """The client's own retries deal with all but fatal errors."""
        if error.fatal():
            self._failed = error

    def _check(self) -> None:
        if self._failed is not None:
            raise KafkaException(self._failed)


def _kafka_settings(brokers: str, on_error: Any) -> dict[str, Any]:
    """As TiCDC's producer: acks=all, one request in flight, not idempotent; and it never gives a message up."""
    return {
        "bootstrap.servers": brokers,
        "acks": "all",
        "enable.idempotence": False,
        "max.in.flight.requests.per.connection": 1,
        "message.timeout.ms": 0,
        "retries": 2**31 - 1,
        "retry.backoff.max.ms": 500,
        "reconnect.backoff.max.ms": 500,
        "socket.timeout.ms": 5000,
        "topic.metadata.refresh.interval.ms": 1000,
        "linger.ms": 1,
        "message.max.bytes": 32 << 20,
        "error_cb": on_error,
        "log_level": 2,
    }


def _end_with_stdin() -> None:
    os.read(sys.stdin.fileno(), 1)  # not sys.stdin: its lock would be held while another thread ends the process
    os._exit(0)


def main() -> None:
    folder = Path(sys.argv[1])
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    threading.Thread(target=_end_with_stdin, name="end-with-stdin", daemon=True).start()
    settings = msgspec.json.decode((folder / SETTINGS_FILE).read_bytes(), type=Settings)
    if settings.files:
        from tests.tools.rig.files_publisher import FilesPublisher

        FilesPublisher(folder, settings).run()
    else:
        Publisher(folder, settings).run()


if __name__ == "__main__":
    main()
