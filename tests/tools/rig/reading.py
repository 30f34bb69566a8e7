"""What is in the topics, decoded by the product's codecs: for tests of the rig itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition

from sidecar.replay.tables import logged
from sidecar.shared.codecs.registry import codec_for
from sidecar.shared.model.nouns import MARK_TABLE, Change, Envelope, Lane, Message, TableName, TableSchema
from spark_merge.codecs.decode.rows import decode

POLL_S = 5.0


def read_messages(brokers: str, topics: Iterable[str]) -> list[Message]:
    """Every record that is there at this moment, in order inside each lane."""
    consumer = Consumer({"bootstrap.servers": brokers, "group.id": "rig-reading", "enable.auto.commit": False})
    try:
        left: dict[tuple[str, int], int] = {}
        for topic in topics:
            for partition in consumer.list_topics(topic, timeout=POLL_S).topics[topic].partitions:
                low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=POLL_S)
                if high > low:
                    left[topic, partition] = high
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for topic, partition in left])
        messages: list[Message] = []
        while left:
            record = consumer.poll(POLL_S)
            if record is None:
                raise TimeoutError(f"Kafka gives no more records of {left}")
            if record.error() is not None:
                raise KafkaException(record.error())
            topic, partition, offset = str(record.topic()), int(record.partition() or 0), int(record.offset() or 0)
            if offset < left.get((topic, partition), 0):
                messages.append(Message(Lane(f"kafka/{topic}/{partition}"), offset, record.key(), record.value()))
            if offset + 1 >= left.get((topic, partition), 0):
                left.pop((topic, partition), None)
        return messages
    finally:
        consumer.close()


def envelopes(messages: Iterable[Message], protocol: str) -> list[Envelope]:
    codec = codec_for(protocol, tidb_extension=True, compression="none")
    return [envelope for message in messages for envelope in codec.envelopes(message)]


def replayed(
    start: Mapping[TableName, pa.Table], changes: Iterable[Change], schemas: Mapping[TableName, TableSchema], protocol: str
) -> dict[TableName, set[tuple[str | None, ...]]]:
    """The rows of each table after `changes`, in the product's order (commit_ts, deletes first), over `start`."""
    ordered = sorted({(c.commit_ts, c.rank, c.key, c.value): c for c in changes if (c.schema, c.table) != MARK_TABLE}.values())
    rows: dict[TableName, dict[tuple[str | None, ...], tuple[str | None, ...]]] = {}
    for name, table in start.items():
        columns = [schemas[name].column_names().index(column) for column in schemas[name].key]
        images = zip(*table.to_pydict().values(), strict=True)
        rows[name] = {tuple(image[at] for at in columns): image for image in images}
    for item in sorted(decoded(ordered, schemas, protocol), key=lambda row: (row["commit_ts"], row["rank"], row["ordinal"])):
        name = TableName(item["schema"], item["table"])
        image: tuple[str | None, ...] = tuple(item["after"] or item["before"])
        columns = [schemas[name].column_names().index(column) for column in schemas[name].key]
        key = tuple(image[at] for at in columns)
        if item["after"] is None:
            rows[name].pop(key, None)
        else:
            rows[name][key] = image
    return {name: set(result.values()) for name, result in rows.items()}


def decoded(changes: list[Change], schemas: Mapping[TableName, TableSchema], protocol: str) -> list[dict[str, Any]]:
    """Rows of the change frame."""
    results: list[dict[str, Any]] = decode(logged(changes, protocol), codec=protocol, schemas=schemas).to_pylist()
    return results
