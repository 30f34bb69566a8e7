"""A sidecar attaches to a changefeed that has run for long: DDLs are in the topic, and the log is new.

Played is what a real TiCDC wrote (real-cluster/exp12_history.json): enum and set labels that change places, two columns that are renamed
crosswise, a decimal with another scale; and after each a row.
"""

from __future__ import annotations

import json
import time
import uuid
from base64 import b64decode
from typing import Any

import pytest

from sidecar.adapters.memory.log import MemoryDisk, MemoryLog
from sidecar.adapters.memory.progress import MemoryProgress
from sidecar.feeds.kafka.feed import KafkaFeed
from sidecar.feeds.kafka.reading import KafkaSettings
from sidecar.pipeline import Outside, Pipeline, PipelineLimits, attach
from sidecar.replay.replay import NoSource
from sidecar.shared.codecs.open_protocol import OpenProtocol
from sidecar.shared.log.spill import MemorySpill
from sidecar.shared.model.nouns import Column, CommitTs, Seq, TableName, TableSchema
from spark_merge.codecs.decode.rows import decode
from tests.support.eventually import PATIENCE_S
from tests.support.recordings import real_cluster
from tests.support.services.kafka import KafkaBroker
from tests.tools.rig import open_protocol
from tests.unit.adapters.test_tidb_follow import Followed, History
from tests.unit.decode.log import logged
from tests.unit.test_pipeline import FakeRequests, Notes

pytestmark = pytest.mark.xdist_group("kafka-topics")

E, SW, DC = (TableName("ex_tz", name) for name in ("e", "sw", "dc"))
ID = Column("id", "int", nullable=False)
PRESENT = {
    E: TableSchema(E, (ID, Column("x", "enum", elements=("b", "a")), Column("s", "set", elements=("q", "p"))), ("id",), 1, (1,)),
    SW: TableSchema(SW, (ID, Column("b", "text"), Column("a", "text")), ("id",), 2, (2,)),
    DC: TableSchema(DC, (ID, Column("d", "decimal", length=12, scale=4)), ("id",), 3, (3,)),
}
LAST_DDL_TS, ATTACHED_TS, END_TS = 470625388367708162, 470625388400000000, 470625388500000000
Messages = list[tuple[bytes, bytes]]


def recorded() -> tuple[Messages, Messages]:
    """What was in the topic when the sidecar was attached, and what came after."""
    results: list[dict[str, Any]] = real_cluster("exp12_history.json")["messages"]
    messages = [(b64decode(one["key_b64"]), b64decode(one["value_b64"])) for one in results]
    before = [one for one in messages if ts_of(one[0]) <= LAST_DDL_TS]
    return before, [one for one in messages if ts_of(one[0]) > LAST_DDL_TS]


def ts_of(key: bytes) -> int:
    """Of a message's first event."""
    return int(json.loads(key[16 : 16 + int.from_bytes(key[8:16], "big")])["ts"])


class Attached:
    """A new log over one topic, which TiDB's tables of the moment are told for."""

    def __init__(self, broker: KafkaBroker, *, partitions: int, from_now: bool = True) -> None:
        self.broker, self.topic, self.disk = broker, f"begin-{uuid.uuid4().hex[:8]}", MemoryDisk()
        broker.create_topic(self.topic, partitions)
        self.partitions = partitions
        self.schemas = Followed(History({0: PRESENT}, now=ATTACHED_TS), carried=(E, SW, DC), from_now=from_now).schemas
        self.feed = KafkaFeed(KafkaSettings(broker.bootstrap, self.topic, 1 << 20), lambda: frozenset({self.topic}))

    def write(self, messages: Messages, *, partition: int = 0) -> None:
        self.broker.write(self.topic, [(partition, key, value) for key, value in messages])

    def resolve(self, ts: int) -> None:
        for partition in range(self.partitions):
            self.write([open_protocol.resolved(ts)], partition=partition)

    def attach(self, *, epoch: int = 1) -> Pipeline:
        outside = Outside(
            feed=self.feed,
            codec=OpenProtocol(),
            log=MemoryLog(self.disk),
            source=NoSource(),
            schemas=self.schemas,
            progress=MemoryProgress(),
            requests=FakeRequests(Notes()),
            clock=Clock(),
            spill=MemorySpill(),
        )
        return attach(outside, changefeed_id="cf", epoch=epoch, limits=PipelineLimits())

    def run(self, pipeline: Pipeline, upto_ts: int) -> None:
        until_s = time.monotonic() + PATIENCE_S
        while pipeline.sequence.after_ts < upto_ts:
            assert time.monotonic() < until_s, pipeline.lane_lags()
            pipeline.step(poll_s=0.05)

    def rows(self) -> list[dict[str, Any]]:
        """As they are decoded with the log's schemas."""
        log, rows, seq = MemoryLog(self.disk), [], Seq(0)
        while (manifest := log.manifest(seq)) is not None:
            changes = logged(log.read_data(manifest), codec="open-protocol")
            rows += decode(changes, codec="open-protocol", schemas=log.read_schemas(manifest.schemas)).to_pylist()
            seq = Seq(seq + 1)
        return rows


class Clock:
    def now_s(self) -> float:
        return time.monotonic()


def by_table(rows: list[dict[str, Any]]) -> dict[str, list[list[str]]]:
    return {table: [row["after"] for row in rows if row["table"] == table] for table in ("e", "sw", "dc")}


def test_a_new_log_reads_no_row_with_tables_that_it_was_not_written_under(broker: KafkaBroker) -> None:
    line, (before, after) = Attached(broker, partitions=1), recorded()
    line.write(before)
    pipeline = line.attach()
    try:
        line.write(after)
        line.resolve(END_TS)
        line.run(pipeline, END_TS - 1)
        assert by_table(line.rows()) == {"e": [["4", "a", "p"]], "sw": [["2", "BB", "AA"]], "dc": [["2", "2.5000"]]}
        assert MemoryLog(line.disk).manifest(Seq(0)).after_ts == ATTACHED_TS  # type: ignore[union-attr]  # it is there
    finally:
        line.feed.close()


def test_the_oldest_message_is_where_it_begins_if_the_operator_says_so(broker: KafkaBroker) -> None:
    line, (before, after) = Attached(broker, partitions=1, from_now=False), recorded()
    line.write(before)
    pipeline = line.attach()
    try:
        line.write(after)
        line.resolve(END_TS)
        line.run(pipeline, END_TS - 1)
        assert by_table(line.rows())["e"][0] == ["1", "b", "q"], "written as 'a' and 'p': that is the price, and why it is not the default"
    finally:
        line.feed.close()


def test_each_partition_is_read_from_before_the_moment_whatever_retention_has_left_of_it(broker: KafkaBroker) -> None:
    line, (before, after) = Attached(broker, partitions=3), recorded()
    line.write(before)
    line.write(before, partition=1)
    broker.delete_records(line.topic, 1, len(before) - 1)
    pipeline = line.attach()
    try:
        late = [one for one in before if b'"rid"' in one[0]]
        line.write(late, partition=1)  # sent again, or late: at or below the moment all the same
        line.write(after[:1])
        line.write(after[1:], partition=2)
        line.resolve(ATTACHED_TS)
        line.resolve(END_TS)
        line.run(pipeline, END_TS - 1)
        assert [row["commit_ts"] for row in line.rows()] == sorted(ts_of(key) for key, _ in after)
        positions = MemoryLog(line.disk).manifest(Seq(0)).positions  # type: ignore[union-attr]  # it is there
        assert len(positions) == 3
        line.feed.close()
        line.write(after)  # repeats
        line.resolve(END_TS + 10)
        heir = line.attach(epoch=2)
        line.run(heir, END_TS + 9)
        assert len(line.rows()) == len(after)
    finally:
        line.feed.close()


def test_a_topic_that_comes_between_the_ends_and_the_moment_is_read_from_its_beginning(broker: KafkaBroker) -> None:
    line, (_, after) = Attached(broker, partitions=1), recorded()
    other = f"{line.topic}-other"
    line.feed = KafkaFeed(KafkaSettings(broker.bootstrap, line.topic, 1 << 20), lambda: frozenset({line.topic, other}))
    begin = line.schemas._source.now_ts

    def now_ts() -> CommitTs | None:
        broker.create_topic(other, 1)
        broker.write(other, [(0, key, value) for key, value in after])
        return begin()

    line.schemas._source.now_ts = now_ts  # type: ignore[method-assign]  # the moment is asked for after the ends
    pipeline = line.attach()
    try:
        line.resolve(END_TS)
        broker.write(other, [(0, *open_protocol.resolved(END_TS))])
        line.run(pipeline, END_TS - 1)
        assert len(line.rows()) == len(after)
    finally:
        line.feed.close()
