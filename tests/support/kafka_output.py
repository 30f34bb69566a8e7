"""The Kafka sink's output as an independent consumer sees it: plain confluent-kafka, read committed, decoded by our own decoder.

Each look checks what holds for every consumer: in a partition commit_ts never goes back, no resolved mark comes before a row that it
covers, none goes back, and no record is there twice.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from confluent_kafka import Consumer, KafkaError, TopicPartition

from sidecar.replay.judge.rows import Key, Row
from sidecar.replay.tables import logged
from sidecar.shared.codecs.registry import written_codec
from sidecar.shared.model.nouns import Change, Ddl, Lane, Message, Resolved, TableName, TableSchema
from spark_merge.codecs.decode.rows import decode
from spark_merge.codecs.protocols import written_decoder
from spark_merge.sinks.kafka.ending import DUMP_HEADER, HEADER
from spark_merge.testing.places import Shown
from tests.support.eventually import PATIENCE_S

UNDER_WAY_S = 5.0


@dataclass(frozen=True)
class Read:
    """One record. `origin`: the header's words. `dump`: what a mark says of the dump, None where it says nothing."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    origin: tuple[str, ...]
    dump: Any = None

    @property
    def place(self) -> tuple[str, int]:
        return self.topic, self.partition


def read_all(bootstrap: str, topics: Sequence[str], *, committed: bool = True) -> list[Read]:
    """All that is there, by partition and offset; waits for transactions whose end is being written."""
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap, "group.id": "independent", "enable.auto.commit": False, "enable.partition.eof": True,
        "isolation.level": "read_committed" if committed else "read_uncommitted", "auto.offset.reset": "earliest", "fetch.wait.max.ms": 5,
    }  # fmt: skip
    consumer = Consumer(settings)
    try:
        known = consumer.list_topics(timeout=PATIENCE_S).topics
        places = [TopicPartition(topic, number, 0) for topic in topics if topic in known for number in sorted(known[topic].partitions)]
        return [record for place in places for record in _partition(consumer, place)]
    finally:
        consumer.close()


def without_repeats(records: Sequence[Read]) -> list[Read]:
    """Of each record the first one in its partition, by where it is from: what a consumer makes of a sink that writes at least once."""
    first: dict[tuple[tuple[str, int], tuple[str, ...]], Read] = {}
    for record in records:
        first.setdefault((record.place, record.origin), record)
    return list(first.values())


def _partition(consumer: Any, place: TopicPartition) -> Iterator[Read]:
    consumer.assign([place])
    until_s, under_way_s = time.monotonic() + PATIENCE_S, None
    while time.monotonic() < until_s:
        message = consumer.poll(0.1)
        if message is None:
            continue
        if message.error() is None:
            headers = dict(message.headers() or ())
            origin, dump = tuple(headers.get(HEADER, b"").decode().split()), json.loads(headers.get(DUMP_HEADER, b"null"))
            yield Read(place.topic, place.partition, message.offset(), message.key(), message.value(), origin, dump)
        elif message.error().code() == KafkaError._PARTITION_EOF:
            _, high = consumer.get_watermark_offsets(place, cached=True)
            under_way_s = under_way_s or time.monotonic() + UNDER_WAY_S
            if message.offset() >= high or time.monotonic() > under_way_s:
                return
            consumer.assign([TopicPartition(place.topic, place.partition, message.offset())])
        else:
            raise AssertionError(message.error())
    raise AssertionError(f"{place.topic}/{place.partition} does not come to its end")


@dataclass(frozen=True)
class Output:
    """`rows` by table in the order of the stream; `changes`: each message of a row with its codec's envelope."""

    rows: dict[TableName, list[Shown]]
    changes: list[tuple[Read, Change]]
    marks: list[tuple[Read, int]]
    ddls: list[tuple[Read, str]]


Schemas = Mapping[TableName, TableSchema]


def decoded(records: Sequence[Read], protocol: str, schemas: Schemas | Callable[[int], Schemas], *, server_tz: str = "UTC") -> Output:
    """`schemas`: those of all segments, or of each (which gives the same mapping for segments of the same ones)."""
    codec = written_codec(protocol)
    output = Output({}, [], [], [])
    for record in records:
        for envelope in codec.envelopes(Message(Lane(f"{record.topic}/{record.partition}"), record.offset, record.key, record.value)):
            match envelope:
                case Change():
                    output.changes.append((record, envelope))
                case Resolved():
                    output.marks.append((record, envelope.ts))
                case Ddl():
                    output.ddls.append((record, envelope.query))
    check_order(output)
    known: dict[int, Schemas] = {}
    groups: dict[int, list[tuple[Read, Change]]] = {}
    for record, change in output.changes:
        its = schemas(int(record.origin[1])) if callable(schemas) else schemas
        known[id(its)] = its
        groups.setdefault(id(its), []).append((record, change))
    by_table: dict[TableName, list[tuple[tuple[int, ...], Shown]]] = {}
    for number, changes in groups.items():
        _shown(changes, codec.name, known[number], server_tz, by_table)
    for name, shown in by_table.items():
        output.rows[name] = [row for _, row in sorted(shown, key=lambda one: one[0])]
    return output


def _shown(
    changes: Sequence[tuple[Read, Change]],
    codec: str,
    schemas: Schemas,
    server_tz: str,
    by_table: dict[TableName, list[tuple[tuple[int, ...], Shown]]],
) -> None:
    """An update that moves a key is one message, and two rows: the delete comes first at its commit_ts, as everywhere."""
    logged_rows, module = logged([change for _, change in changes], codec), written_decoder(codec, {}, redefined=False)
    table = decode(logged_rows, codec=codec, schemas=schemas, server_tz=server_tz, module=module)
    rows = sorted(table.to_pylist(), key=lambda row: (row["ordinal"], row["rank"]))
    for row in rows:
        record, change = changes[row["ordinal"]]
        name = TableName(row["schema"], row["table"])
        image = row["after"] if row["after"] is not None else row["before"]
        key = tuple(image[schemas[name].column_names().index(column)] for column in schemas[name].key)
        after = None if row["after"] is None else tuple(row["after"])
        seq = int(record.origin[1])
        is_dump = record.origin[0] == "dump"
        place = (seq, change.commit_ts, 9 if is_dump else row["rank"], *((int(record.origin[4]), int(record.origin[2])) if is_dump else ()))
        by_table.setdefault(name, []).append((place, (seq, change.commit_ts, row["op"], key, after)))


def newest(output: Output) -> dict[TableName, dict[Key, Row]]:
    """The rows that a consumer has in the end."""
    rows: dict[TableName, dict[Key, Row]] = {}
    for table, shown in output.rows.items():
        kept = rows.setdefault(table, {})
        for _, _, _, key, after in shown:
            kept.pop(cast(Key, key), None)
            if after is not None:
                kept[cast(Key, key)] = after
    return rows


def check_order(output: Output) -> None:
    """Of each partition. Raises AssertionError."""
    last: dict[tuple[str, int], int] = {}
    for record, change in output.changes:
        assert change.commit_ts >= last.get(record.place, 0), f"{record} goes back"
        last[record.place] = change.commit_ts
    origins = [(record.place, record.origin) for record, _ in output.changes]
    assert len(origins) == len(set(origins)), "a row is there twice"
    marks: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for record, ts in output.marks:
        before = marks.setdefault(record.place, [])
        assert not before or before[-1][1] < ts, f"{record} goes back"
        before.append((record.offset, ts))
    for record, change in output.changes:
        covering = [ts for offset, ts in marks.get(record.place, ()) if offset < record.offset]
        assert not covering or change.commit_ts > covering[-1], f"{record} comes after a mark that covers it"
