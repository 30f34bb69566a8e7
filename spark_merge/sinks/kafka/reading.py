"""Reading a Kafka sink's rows back (spark_merge/port/readable.py): slices of the partitions of each topic that the table's rows are in.

    position ─► DDLs (partition 0 of their topics) ─► eras ─► topics of the names that the table had ─► slices of their partitions

- The position comes first, and the header of each record says of which segment it is: so the rows are exactly those of the position. A
  record without the header is TiCDC's own, from before the sink continued its topic.
- The last slice of a partition ends at the resolved mark of the position, so it has all of it, also what is yet to become visible. A
  topic that has no marks (debezium_topics.py) is read to where its partition ended after the position had been read, open transactions
  included: a position is durable when all its records are.
- A partition that has lost its first records is not read: its rows would be fewer, and nothing would say so.
- A row that is larger than a message is read from its file (large_rows.py).
- Rows from before a schema change are read by the present types; in the messages there are no others.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from confluent_kafka import KafkaError, TopicPartition

from sidecar.shared.codecs.contract import ReadBackCodec
from sidecar.shared.codecs.registry import WRITTEN, written_codec
from sidecar.shared.errors import FeedError, SinkError
from sidecar.shared.log.manifest import DdlRecord
from sidecar.shared.model.nouns import Change, CommitTs, Ddl, Envelope, Lane, Message, Seq, TableName, TableSchema
from sidecar.shared.process.progress import progressed
from spark_merge.codecs.encode.local_time import UTC
from spark_merge.codecs.protocols import replaced_dates, written_decoder
from spark_merge.ddl.eras import Era, eras
from spark_merge.port.contract import Accepted
from spark_merge.port.readable import Reading, RowsRead
from spark_merge.sinks.formats.messages import StoredChange, form_of, message_rows
from spark_merge.sinks.kafka.client import OUTAGE_MAX_S, passing
from spark_merge.sinks.kafka.ending import HEADER, TS_HEADER
from spark_merge.sinks.kafka.large_rows import whole_messages
from spark_merge.sinks.kafka.output import Output
from spark_merge.sinks.kafka.registry_messages import avro_in_json, debezium_in_json
from spark_merge.sinks.kafka.topics import TopicReader, consumer_of

MESSAGES_AT_ONCE = 10_000
_MARK, _DDL, _ROWS = "resolved", ("ddl", ""), ("log", "dump", "")
_RESTORE = "deliver to a new topic and dump again: a topic that is shortened cannot be compared (cleanup.policy=delete, retention.ms)"


@dataclass(frozen=True, slots=True)
class TopicSlice:
    """Records from offset `start` on, up to `end`; with `mark` to the resolved mark of that segment, wherever it is."""

    topic: str
    partition: int
    start: int
    end: int
    mark: Seq | None = None

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


def read_back(
    output: Output, reader: TopicReader, accepted: Accepted, partitions: Mapping[str, int], schema: TableSchema, *, parts: int
) -> Reading:
    """`partitions`: by topic, as written. Raises SinkError."""
    router = output.router
    marked, isolation = router.mark_topics([schema.name]), "read_uncommitted" if router.without_rows else "read_committed"
    with closing(TopicReader(output.cluster, output.position_topic, isolation=isolation)) as ends:

        def whole_of(topic: str, number: int) -> TopicSlice:
            return _whole(reader, topic, number, accepted.seq) if topic in marked else _whole(ends, topic, number, None)

        ddls = [ddl for topic in sorted(router.ddl_topics(partitions)) for ddl in _ddls(output, whole_of(topic, 0), accepted.seq)]
        results = eras(schema, ddls)
        topics = {topic for era in results if (topic := router.topic(era.name)) in partitions}
        whole = [whole_of(topic, number) for topic in sorted(topics) for number in range(partitions[topic])]
    records = sum(one.end - one.start for one in whole)
    pieces = [piece for one in whole for piece in _cut(one, max(1, round(parts * (one.end - one.start) / max(1, records))))]
    record, dates = WRITTEN[output.protocol], replaced_dates(output.protocol, output.shape, schema)
    zone = UTC.key if record.as_debezium else router.hashing.zone
    form = form_of(schema.columns, zone, unsigned_zeros=record.unsigned_zeros, dates=dates)
    return Reading(accepted, True, tuple(KafkaPart(output, results, accepted.seq, piece) for piece in pieces), form)


def _whole(reader: TopicReader, topic: str, partition: int, mark: Seq | None) -> TopicSlice:
    low, high = reader.edges(topic, partition)
    if low:
        raise SinkError(f"topic {topic}/{partition} has lost its records before offset {low}", hint=_RESTORE)
    return TopicSlice(topic, partition, low, high, mark)


def _cut(whole: TopicSlice, count: int) -> Iterator[TopicSlice]:
    edges = [whole.start + (whole.end - whole.start) * number // count for number in range(count + 1)]
    for number, (start, end) in enumerate(pairwise(edges)):
        last = number == count - 1
        if start < end or (last and whole.mark is not None):
            yield TopicSlice(whole.topic, whole.partition, start, end, whole.mark if last else None)


def _ddls(output: Output, piece: TopicSlice, accepted: Seq) -> Iterator[DdlRecord]:
    codec = written_codec(output.protocol)
    for batch in _batches(output, piece):
        for record in batch:
            if record.seq <= accepted and record.kind in _DDL and not codec.parts(_message(piece, record)):
                yield from (
                    DdlRecord(envelope.commit_ts, envelope.schema, envelope.table, envelope.query)
                    for envelope in _envelopes(output, codec, _message(piece, record))
                    if isinstance(envelope, Ddl)
                )


@dataclass(frozen=True, slots=True)
class KafkaPart:
    output: Output
    eras: tuple[Era, ...]
    accepted: Seq
    piece: TopicSlice

    def __call__(self) -> Iterator[RowsRead]:
        codec, places = written_codec(self.output.protocol), _Places(self.eras)
        decoders = [
            written_decoder(self.output.protocol, self.output.shape, redefined=any(column.redefined for column in era.columns))
            for era in self.eras
        ]
        for batch in _batches(self.output, self.piece):
            by_era: dict[int, list[StoredChange]] = {}
            for record in batch:
                if record.seq <= self.accepted and record.kind in _ROWS:
                    for envelope in self._envelopes(codec, record):
                        if isinstance(envelope, Change) and (number := places.number(envelope)) is not None:
                            by_era.setdefault(number, []).append(StoredChange(envelope, record.kind == "dump"))
            for number, changes in by_era.items():
                zone = self.output.router.hashing.zone
                yield from message_rows(changes, self.eras[number], protocol=self.output.protocol, time_zone=zone, decoder=decoders[number])

    def _envelopes(self, codec: ReadBackCodec, record: _Record) -> Sequence[Envelope]:
        message = _message(self.piece, record)
        if self.output.registry is None:
            return _envelopes(self.output, codec, message)
        if WRITTEN[self.output.protocol].bare_deletes:
            row = avro_in_json(self.output.registry, message, record.commit_ts, self._era_at)
        else:
            row = debezium_in_json(self.output.registry, message, self._era_at)
        return () if row is None else _envelopes(self.output, codec, row)

    def _era_at(self, commit_ts: CommitTs) -> Era | None:
        """Of the topic's rows, where it has those of one table at a time; None: they are not of the table that is read."""
        topic = self.output.router.topic
        eras_of_topic = (era for era in self.eras if topic(era.name) == self.piece.topic)
        return next((era for era in eras_of_topic if era.after_ts < commit_ts <= era.upto_ts), None)


class _Places:
    """The number of a change's era. A topic has millions of changes and few tables."""

    def __init__(self, eras: Sequence[Era]) -> None:
        self._eras = eras
        self._by_name: dict[tuple[str, str], list[tuple[int, Era]]] = {}

    def number(self, change: Change) -> int | None:
        place = change.schema, change.table
        if (own := self._by_name.get(place)) is None:
            folded = TableName(*place).folded()
            own = self._by_name[place] = [(number, era) for number, era in enumerate(self._eras) if era.name.folded() == folded]
        return next((number for number, era in own if era.after_ts < change.commit_ts <= era.upto_ts), None)


# ---- records ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Record:
    """`kind`: the first word of the header; empty for TiCDC's own, whose `seq` is -1. `commit_ts`: of its TS_HEADER."""

    offset: int
    key: bytes | None
    value: bytes | None
    kind: str
    seq: int
    commit_ts: CommitTs | None = None


def _message(piece: TopicSlice, record: _Record) -> Message:
    return Message(Lane(str(piece)), record.offset, record.key, record.value)


def _envelopes(output: Output, codec: ReadBackCodec, message: Message) -> Sequence[Envelope]:
    """With the rows that are in files."""
    try:
        return [one for whole in whole_messages(output.claims, message, codec) for one in codec.envelopes(whole)]
    except FeedError as error:
        raise SinkError(f"topic {message.lane}, offset {message.position}: {error.message}", hint=error.hint) from error


def _batches(output: Output, piece: TopicSlice) -> Iterator[list[_Record]]:
    if piece.start >= piece.end and piece.mark is None:
        return
    with closing(consumer_of(output.cluster, output.position_topic, {"auto.offset.reset": "error"})) as consumer:
        consumer.assign([TopicPartition(piece.topic, piece.partition, piece.start)])
        yield from _consumed(consumer, output, piece)


def _consumed(consumer: Any, output: Output, piece: TopicSlice) -> Iterator[list[_Record]]:
    until_s = time.monotonic() + OUTAGE_MAX_S
    while True:
        result, ended = [], False
        for message in consumer.consume(MESSAGES_AT_ONCE, timeout=0.2):
            error = message.error()
            if error is None:
                record = _record(message)
                ended = ended or (record.offset >= piece.end if piece.mark is None else record.kind == _MARK and record.seq >= piece.mark)
                if not ended:
                    result.append(record)
            elif error.code() == KafkaError._PARTITION_EOF:
                ended = ended or (piece.mark is None and message.offset() >= piece.end)
            elif not passing(error):
                raise output.cluster.raised(error, f"topic {piece}")
        if result:
            progressed()
            until_s = time.monotonic() + OUTAGE_MAX_S
            yield result
        if ended:
            return
        if time.monotonic() > until_s:
            raise SinkError(
                f"Kafka at {output.cluster.brokers} has nothing of topic {piece} up to {_upto(piece)} for {OUTAGE_MAX_S:.0f} s",
                hint="start the brokers; a transaction that a dead worker left open ends within ten minutes; a topic that was made again"
                " does not have its records: deliver to a new one and dump again",
            )


def _upto(piece: TopicSlice) -> str:
    return f"offset {piece.end}" if piece.mark is None else f"the resolved mark of segment {piece.mark}"


def _record(message: Any) -> _Record:
    headers = dict(message.headers() or ())
    words, ts = headers.get(HEADER), headers.get(TS_HEADER)
    kind, seq = ("", -1) if words is None else (words.split()[0].decode(), int(words.split()[1]))
    return _Record(message.offset(), message.key(), message.value(), kind, seq, None if ts is None else CommitTs(int(ts)))
