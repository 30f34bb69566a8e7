"""A dump and live rows into the sinks that systems read from, beside each system's own bulk path for the same rows.

    Kafka        the messages that the sink wrote, written again by a plain producer (idempotent, no transactions)
    MariaDB      INSERTs of 1,000 of the same rows each, by hand, into a table like it
    subscribers  the spool's bytes into one file, synced; and what a subscriber reads of it (subscribers.py)

"Its own part": without what reading the log, decoding its live rows and merging cost for any sink, measured with one that only counts rows.
That, and not the whole, is what the bulk path does too.

Live: the whole line in this process, paced by the wall (latency.py); from a segment's manifest to the sink that has accepted it.
"""

from __future__ import annotations

import contextlib
import io
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import quote

from confluent_kafka import Consumer, Producer, TopicPartition

from sidecar.shared.model.nouns import Seq
from spark_merge.delivery.batches import JobSettings
from spark_merge.port.contract import Sink
from spark_merge.sinks.console.sink import ConsoleSink
from spark_merge.sinks.registry import open_sink
from spark_merge.worker.job import SparkJob
from spark_merge.worker.session import OpenSession
from spark_merge.worker.spark_tasks import SparkTasks
from tests.support.services.kafka import KafkaBroker
from tests.support.services.mariadb import MariaDb
from tests.tools.bench import subscribers
from tests.tools.bench.account import ACCOUNT, SCHEMA
from tests.tools.bench.bench import Bench
from tests.tools.bench.dumped import Dumped, dumped
from tests.tools.bench.figures import Cost, Figure, beside, best, percentile, rate, timed, timed_tree
from tests.tools.bench.latency import live
from tests.tools.bench.source import make_table

WINDOWS, WINDOW_CHUNKS, CHUNK_ROWS = 10, 2, 40_000
"""A Spark job's start costs about a second of CPU: more rows make it less of a row's."""
PARTITIONS = 4
TOPIC_CONFIG = {"retention.ms": "-1", "retention.bytes": "-1"}
INSERT_ROWS = 1_000
DEADLINE_S = 120.0


@dataclass(frozen=True, slots=True)
class Target:
    """`uri(name)` of a new and empty output of that name. `bulk(name)` brings into another one what that one has, by its own path.
    `aim`: of the sink's own part."""

    name: str
    uri: Callable[[str], str]
    bulk: Callable[[str], Cost]
    reference: str
    limit: str
    aim: str = ""


def measure(bench: Bench) -> Iterator[Figure]:
    source = some_rows(bench)
    merged = read_alone(bench, source)
    yield rate(f"{source.rows:,} rows read and merged, for no output", source.rows, merged, aim="", limit="a tenth of them is decoded")
    with contextlib.ExitStack() as servers:
        broker = servers.enter_context(KafkaBroker(bench.new_folder("kafka")))
        db = servers.enter_context(MariaDb(bench.new_folder("mariadb"), settings={"innodb-buffer-pool-size": "256M", "skip-log-bin": "ON"}))
        for target in (_kafka(broker), _mariadb(db, bench.new_folder("load"))):
            yield from of_target(bench, source, target, merged)
    folder = bench.new_folder("spools")
    yield from of_target(bench, source, _subscribers(folder), merged)
    deliver_to(bench, source, f"grpc://{folder}/read")
    yield from subscribers.measure(folder / "read", source.log, rows=source.rows, last=Seq(source.windows - 1))


def some_rows(bench: Bench, *, chunk_rows: int = CHUNK_ROWS) -> Dumped:
    """What each target gets."""
    return dumped(bench.new_folder("log"), windows=WINDOWS, window_chunks=WINDOW_CHUNKS, chunk_rows=bench.sized(chunk_rows))


def read_alone(bench: Bench, source: Dumped) -> Cost:
    """What any sink costs: one that only counts rows."""
    return best(lambda: _delivered(bench, source, ConsoleSink(io.StringIO())))


def of_target(bench: Bench, source: Dumped, target: Target, merged: Cost) -> Iterator[Figure]:
    """`merged`: `read_alone` of the source."""
    names = iter(f"{target.name.lower()}-{number}" for number in range(100))
    last = next(names)
    deliver_to(bench, source, target.uri(last))

    def once() -> Cost:
        nonlocal last
        last = next(names)
        return deliver_to(bench, source, target.uri(last))

    cost = best(once, 2)
    bulk = best(partial(target.bulk, last), 2)
    figure = rate(f"dump of {source.rows:,} rows into {target.name}", source.rows, cost, aim="", limit=target.limit)
    yield beside(figure, target.reference, source.rows, bulk)
    own = Cost(max(cost.wall_s - merged.wall_s, 0.001), max(cost.cpu_s - merged.cpu_s, 0.001))
    yield beside(rate(f"{target.name}, its own part", source.rows, own, aim=target.aim, limit=""), target.reference, source.rows, bulk)
    for name, dump in (("no dump", False), ("dump", True)):
        line = live(bench, {"sink": open_sink(target.uri(next(names)), log_id="bench")}, dump=dump)
        ages_s = line.ages_s["sink"]
        busy = f"{len(ages_s)} segments, {line.cost.cpu_s / line.cost.wall_s:.1f} cores busy"
        reported = f"{busy}, {line.dump_rows_a_s:,.0f} dump rows/s" if dump else busy
        yield Figure(f"resolved to delivered, {target.name}, {name}: p50", percentile(ages_s, 0.5), "s", aim="", limit=reported)
        yield Figure(f"resolved to delivered, {target.name}, {name}: p99", percentile(ages_s, 0.99), "s", aim="", limit=reported)


def deliver_to(bench: Bench, source: Dumped, uri: str) -> Cost:
    return _delivered(bench, source, open_sink(uri, log_id="bench"))


def _delivered(bench: Bench, source: Dumped, sink: Sink) -> Cost:
    cost, job = Cost(), SparkJob(SparkTasks(lambda: OpenSession(bench.spark)), {"sink": sink}, JobSettings(source.log))
    with timed_tree(cost):
        job.start()
        job.finish()
    assert sum(sum(counts[:2]) for counts in job.counts.values()) == source.rows
    return cost


def _kafka(broker: KafkaBroker) -> Target:
    def uri(name: str) -> str:
        broker.create_topic(name, PARTITIONS, TOPIC_CONFIG)
        return f"kafka://{broker.bootstrap}/{name}?protocol=canal-json&enable-tidb-extension=true"

    return Target(
        "Kafka", uri, partial(_produced, broker), "a plain producer of its messages", "a core a task encodes; the broker's own CPU"
    )


def _produced(broker: KafkaBroker, name: str) -> Cost:
    """All that the topic has, keys and values, to the same partitions of another one."""
    results = _all_of(broker, name)
    broker.create_topic(again := f"{name}-again-{time.monotonic_ns()}", PARTITIONS, TOPIC_CONFIG)
    producer, cost = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "linger.ms": 5}), Cost()
    with timed(cost):
        for partition, key, value in results:
            while True:
                try:
                    producer.produce(again, value, key, partition or 0)
                    break
                except BufferError:
                    producer.poll(0.01)
        left = producer.flush(DEADLINE_S)
    assert not left, f"{left} messages were not written within {DEADLINE_S:.0f} s"
    return cost


def _all_of(broker: KafkaBroker, name: str) -> list[tuple[int | None, bytes | None, bytes | None]]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "bench", "enable.partition.eof": True})
    with contextlib.closing(consumer):
        consumer.assign([TopicPartition(name, number, 0) for number in range(PARTITIONS)])
        result, ended, give_up_s = [], 0, time.monotonic() + DEADLINE_S
        while ended < PARTITIONS:
            assert time.monotonic() < give_up_s, f"{name} was not read to its end within {DEADLINE_S:.0f} s"
            for message in consumer.consume(10_000, 0.5):
                if message.error() is not None:
                    ended += 1
                else:
                    result.append((message.partition(), message.key(), message.value()))
    return result


def _subscribers(folder: Path) -> Target:
    return Target(
        "a spool",
        lambda name: f"grpc://{folder}/{name}",
        lambda name: subscribers.copied(folder, folder / name),
        "its bytes into one file",
        "a core a task",
    )


def _mariadb(db: MariaDb, folder: Path) -> Target:
    password = folder / "password"

    def uri(name: str) -> str:
        schema = name.replace("-", "_")
        db.execute(f"CREATE DATABASE {schema}")
        make_table(db, schema)
        password.write_text(db.password)  # Spark's workers have the environment that the first measurement had
        routes = quote(f"{ACCOUNT.schema}.*=>{schema}.*")
        return f"mysql://{db.user}@{db.host}:{db.port}/?password-file={password}&routes={routes}&position-schema=ticdc_dump_{schema}"

    return Target(
        "MariaDB", uri, partial(_inserted, db), "INSERTs of 1,000 of the same rows", "the server, which shares the cores", "≥ 0.8 ×"
    )


def _inserted(db: MariaDb, name: str) -> Cost:
    schema, cost = name.replace("-", "_"), Cost()
    like = f"{schema}.loaded_{time.monotonic_ns()}"
    db.execute(f"CREATE TABLE {like} LIKE {schema}.{ACCOUNT.table}")
    columns, rows = SCHEMA.columns, db.execute(f"SELECT * FROM {schema}.{ACCOUNT.table}")
    numbers = [column.kind in ("int", "decimal", "double") for column in columns]
    with contextlib.closing(db.connect()) as connection, connection.cursor() as cursor, timed(cost):
        for start in range(0, len(rows), INSERT_ROWS):
            values = (
                ",".join(
                    "NULL" if value is None else str(value) if bare else "'" + str(value).replace("'", "''") + "'"
                    for value, bare in zip(row, numbers, strict=True)
                )
                for row in rows[start : start + INSERT_ROWS]
            )
            cursor.execute(f"INSERT INTO {like} VALUES ({'),('.join(values)})")
        connection.commit()
    return cost
