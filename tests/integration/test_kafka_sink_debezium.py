"""Messages as Debezium has them, on a real broker: topics, tombstones, and what is read back, after deaths at any step."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sidecar.shared.errors import SinkError
from sidecar.shared.log.manifest import DdlRecord
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.nouns import CommitTs, TableName
from spark_merge.sinks.kafka import reading, sink
from spark_merge.sinks.kafka.client import SinkCluster
from spark_merge.sinks.kafka.holder import IdHolder
from spark_merge.sinks.kafka.producer import TransactionalProducer
from spark_merge.sinks.registry import holds_rows, open_sink
from spark_merge.testing import histories
from spark_merge.testing.places import Place, Shown
from spark_merge.testing.story import Died, Story, before_each, die_after_each
from tests.integration.test_kafka_sink import SCHEMAS
from tests.support.deliveries import ORDERS, Segments, change, chunk, deliver, write_chunk
from tests.support.kafka_feeds import new_topic
from tests.support.kafka_output import decoded, read_all, without_repeats
from tests.support.read_back import reading_of, texts_of
from tests.support.services.kafka import KafkaBroker
from tests.unit.encode.open_tables import table

pytestmark = pytest.mark.xdist_group("kafka-sink")

LOG = "log-1"
SMALL = replace(table([("id", "int(11)"), ("name", "varchar(20)")]), name=ORDERS)
AN_HOUR = 3_600_000 << 18
FIRST_TS = 1_795_231_963_612 << 18


def place_at(broker: KafkaBroker, more: str) -> Place:
    prefix = new_topic()
    uri = f"kafka://{broker.bootstrap}/{prefix}?protocol=debezium&partition-num=2{more}"
    topics = [*(f"{prefix}.{name.schema}.{name.table}" for name in SCHEMAS), prefix, f"__debezium-heartbeat.{prefix}"]

    def rows() -> dict[TableName, list[Shown]]:
        records = read_all(broker.bootstrap, topics, committed="transactions" not in more)
        return decoded(without_repeats(records) if "transactions" in more else records, "debezium", SCHEMAS).rows

    return Place(uri, lambda log_id: open_sink(uri, log_id=log_id), rows)


@pytest.mark.parametrize("more", ["", "&transactions=false&debezium-disable-schema=true"])
def test_a_reader_and_a_verification_have_each_row_after_deaths_at_any_step(
    tmp_path: Path, broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch, more: str
) -> None:
    monkeypatch.setattr(histories, "TABLES", 3)
    monkeypatch.setattr(sink, "FEW_ROWS", 3)
    story = Story(tmp_path, place_at(broker, more), seed=7)

    @contextmanager
    def dying(at: int) -> Iterator[None]:
        left = at

        def step() -> None:
            nonlocal left
            if left == 0:
                raise Died
            left -= 1

        with monkeypatch.context() as patch:
            before_each(patch, step, IdHolder, "claim", "write", "commit")
            patch.setattr(TransactionalProducer, "abort", lambda _: False)  # nobody is left to abort it
            yield

    assert die_after_each(story, dying, range(0, 60, 5)) > 2
    story.check_read_back(end=True)


class Delivered:
    """A dump's row and a key that it does not know, live changes, a DDL."""

    def __init__(self, broker: KafkaBroker, folder: Path, more: str = "") -> None:
        self.broker, self.log, self.prefix = broker, open_folder(str(folder)), new_topic()
        self.uri = f"kafka://{broker.bootstrap}/{self.prefix}?protocol=debezium{more}"

    def bring(self) -> None:
        write_chunk(self.log, "chunk", [("7", "dumped")], SMALL, absent=[("9",)])
        rows = [
            change(1, 10, after=["1", "a"], ordinal=0),
            change(1, 20, before=["1", "a"], ordinal=1),
            change(1, 20, after=["1", "b"], ordinal=2),
            change(1, 30, after=["2", None], ordinal=3),
            chunk(2, 150, "chunk"),
            change(3, 210, before=["2", None], ordinal=0),
        ]
        ddl = DdlRecord(CommitTs(FIRST_TS + 300 * AN_HOUR), *ORDERS, "ALTER TABLE `shop`.`orders` COMMENT = 'x'")
        moved = [row | {"commit_ts": FIRST_TS + row["commit_ts"] * AN_HOUR} for row in rows]
        opened = open_sink(self.uri, log_id=LOG)
        opened.open(epoch=None)
        for seq in (1, 2, 3):
            some = [row for row in moved if row["seq"] == seq]
            deliver(opened, Segments([seq], some, ddls={3: (ddl,)}, rows_max=50), log=self.log, schemas={ORDERS: SMALL})
        opened.close()

    def records(self, topic: str) -> list[tuple[Any, Any, tuple[str, ...]]]:
        return [(_json(one.key), _json(one.value), one.origin) for one in read_all(self.broker.bootstrap, [topic])]

    def read(self) -> list[tuple[str | None, ...]]:
        return sorted(texts_of(reading_of(self.uri, SMALL, log_id=LOG, parts=2), SMALL))


def _json(data: bytes | None) -> Any:
    return None if data is None else json.loads(data)


def test_rows_are_alone_in_their_topic_and_a_delete_has_a_tombstone(tmp_path: Path, broker: KafkaBroker) -> None:
    made = Delivered(broker, tmp_path, "&partition-num=1")
    assert not holds_rows(made.uri, log_id=LOG)
    made.bring()
    records = made.records(f"{made.prefix}.shop.orders")
    shown = [
        (key["payload"]["id"], None if value is None else (value["payload"]["op"], value["payload"]["before"], value["payload"]["after"]))
        for key, value, _ in records
    ]
    assert shown == [
        (1, ("c", None, {"id": 1, "name": "a"})),
        (1, ("u", {"id": 1, "name": "a"}, {"id": 1, "name": "b"})),
        (2, ("c", None, {"id": 2, "name": None})),
        (9, ("d", {"id": 9, "name": None}, None)),
        (9, None),
        (7, ("r", None, {"id": 7, "name": "dumped"})),
        (2, ("d", {"id": 2, "name": None}, None)),
        (2, None),
    ]
    assert [origin[:3] for _, value, origin in records if value is None] == [("tombstone", "2", "0"), ("tombstone", "3", "0")]
    sources = [value["payload"]["source"] for _, value, _ in records if value is not None]
    assert [one["snapshot"] for one in sources] == ["false", "false", "false", "incremental", "incremental", "false"]
    assert [one["ts_ns"] for one in sources] == sorted(one["ts_ns"] for one in sources)
    assert made.read() == [("1", "b"), ("7", "dumped")]


def test_ddls_and_marks_have_topics_of_their_own(tmp_path: Path, broker: KafkaBroker) -> None:
    made = Delivered(broker, tmp_path, "&debezium-disable-schema=true&tombstones-on-delete=false")
    made.bring()
    ((key, value, origin),) = made.records(made.prefix)
    assert (key, value["ddl"], origin) == ({"databaseName": "shop"}, "ALTER TABLE `shop`.`orders` COMMENT = 'x'", ("ddl", "3", "0"))
    marks = made.records(f"__debezium-heartbeat.{made.prefix}")
    assert [(key, value["commit_ts"], origin) for key, value, origin in marks] == [
        ({"serverName": made.prefix}, 100 * seq, ("resolved", str(seq))) for seq in (1, 2, 3)
    ]
    rows = made.records(f"{made.prefix}.shop.orders")
    assert {origin[0] for _, _, origin in rows} == {"log", "dump"}
    assert None not in [value for _, value, _ in rows]
    topics = broker.admin().list_topics().topics
    counts = {name: len(topics[name].partitions) for name in topics if made.prefix in name and "_ticdc" not in name}
    assert counts == {made.prefix: 1, f"__debezium-heartbeat.{made.prefix}": 1, f"{made.prefix}.shop.orders": 3}
    assert holds_rows(f"{made.uri}&position-topic=another.{made.prefix}", log_id=LOG)
    assert made.read() == [("1", "b"), ("7", "dumped")]


def test_a_reader_waits_for_records_whose_transaction_is_not_ended(
    tmp_path: Path, broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A position can be read before the brokers have ended the transaction of its rows: the end is behind them."""
    made = Delivered(broker, tmp_path)
    made.bring()
    monkeypatch.setattr(reading, "OUTAGE_MAX_S", 1.0)
    producer = TransactionalProducer(SinkCluster(broker.bootstrap), f"another.{made.prefix}", {})
    producer.take()
    producer.begin()
    producer.write([(f"{made.prefix}.shop.orders", number, b"k", None, [("ticdc-dump", b"log 99 0 insert")]) for number in range(3)])
    producer.flush()
    with pytest.raises(SinkError, match=r"has nothing of topic .*shop.orders/\d up to offset"):
        made.read()
    producer.commit()
    assert made.read() == [("1", "b"), ("7", "dumped")]
    producer.close()


def test_a_dispatcher_cannot_send_rows_where_ddls_are(tmp_path: Path, broker: KafkaBroker) -> None:
    made = Delivered(broker, tmp_path)
    file = tmp_path / "changefeed.toml"
    file.write_text(f'[[sink.dispatchers]]\nmatcher = ["shop.*"]\ntopic = "{made.prefix}"\n')
    made.uri += f"&config={file}"
    with pytest.raises(SinkError, match="which has DDLs or resolved marks alone"):
        made.bring()
