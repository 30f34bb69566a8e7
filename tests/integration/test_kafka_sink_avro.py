"""avro on a real broker, with a real schema registry: what an independent consumer reads, a DDL, a registry that is away or refuses."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

import fastavro
import pytest
from confluent_kafka import Consumer

from sidecar.shared.errors import SinkError
from sidecar.shared.log.manifest import DdlRecord
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.nouns import Column, ColumnDefinition, CommitTs, Lane, Message, TableDefinition, TableName, TableSchema
from sidecar.shared.process.patience import patience
from spark_merge.ddl.eras import eras
from spark_merge.port.contract import Sink
from spark_merge.sinks.kafka import schema_registry as client
from spark_merge.sinks.kafka import sink
from spark_merge.sinks.kafka.holder import IdHolder
from spark_merge.sinks.kafka.producer import TransactionalProducer
from spark_merge.sinks.kafka.registry_messages import debezium_in_json
from spark_merge.sinks.registry import open_sink
from spark_merge.testing import histories
from spark_merge.testing.places import Place, Shown
from spark_merge.testing.story import Died, Story, before_each, die_after_each
from tests.integration.test_kafka_sink import SCHEMAS
from tests.support.deliveries import ORDERS, Row, Segments, change, chunk, deliver, write_chunk
from tests.support.eventually import PATIENCE_S
from tests.support.kafka_feeds import new_topic
from tests.support.kafka_output import Read, decoded, read_all
from tests.support.read_back import reading_of, texts_of
from tests.support.services.kafka import KafkaBroker
from tests.support.services.schema_registry import ApicurioRegistry
from tests.unit.encode.open_tables import table

pytestmark = pytest.mark.xdist_group("kafka-sink")

LOG = "log-1"
AN_HOUR = 3_600_000 << 18
SMALL = replace(table([("id", "int(11)"), ("name", "varchar(20)")]), name=ORDERS)
ADDED = replace(
    SMALL,
    columns=(*SMALL.columns, Column("note", "text")),
    definition=TableDefinition((
        ColumnDefinition("id", "int(11)", nullable=False),
        ColumnDefinition("name", "varchar(20)"),
        ColumnDefinition("note", "varchar(9)"),
    )),
)  # fmt: skip
RETYPED = replace(
    SMALL,
    columns=(SMALL.columns[0], Column("name", "int")),
    definition=TableDefinition((ColumnDefinition("id", "int(11)", nullable=False), ColumnDefinition("name", "int(11)"))),
)  # fmt: skip
DDL = DdlRecord(CommitTs(300 * AN_HOUR), *ORDERS, "ALTER TABLE `shop`.`orders` ADD COLUMN `note` VARCHAR(9)")
AT_ONCE_S = 0.5


class Avro:
    """A sink and its topic of orders."""

    def __init__(self, broker: KafkaBroker, registry: ApicurioRegistry, folder: Path, more: str = "") -> None:
        client._id_of.cache_clear()
        self.broker, self.registry, self.log, self.prefix = broker, registry, open_folder(str(folder)), new_topic()
        self.topic = f"{self.prefix}.shop.orders"
        address = f"schema-registry={quote(registry.url, safe='')}"
        self.uri = f"kafka://{broker.bootstrap}/{self.prefix}?protocol=avro&partition-num=1&{address}{more}"

    def opened(self) -> Sink:
        opened = open_sink(self.uri, log_id=LOG)
        opened.open(epoch=None)
        return opened

    def deliver(self, to: Sink, seq: int, *rows: Row, schema: TableSchema = SMALL, ddl: DdlRecord | None = None) -> None:
        moved = [row | {"commit_ts": row["commit_ts"] * AN_HOUR} for row in rows]
        ddls = {} if ddl is None else {seq: (ddl,)}
        deliver(to, Segments([seq], moved, ddls=ddls, rows_max=50), log=self.log, schemas={ORDERS: schema})

    def history(self) -> None:
        """A dump's row and a key that it does not know, live changes, a DDL, a change after it."""
        write_chunk(self.log, "chunk", [("7", "dumped")], SMALL, absent=[("9",)])
        opened = self.opened()
        self.deliver(
            opened, 1,
            change(1, 10, after=["1", "a"], ordinal=0),
            change(1, 20, before=["1", "a"], after=["1", "b"], ordinal=1),
            change(1, 30, after=["2", None], ordinal=2),
        )  # fmt: skip
        self.deliver(opened, 2, chunk(2, 150, "chunk"))
        self.deliver(opened, 3, change(3, 210, before=["2", None], ordinal=0), ddl=DDL)
        self.deliver(opened, 4, change(4, 310, before=["1", "b", None], after=["1", "b", "n"], ordinal=0), schema=ADDED)
        opened.close()

    def records(self) -> list[tuple[Any, Any, str]]:
        """Key, value, and what the header says, by a reader that knows the registry alone."""
        return [
            (self._decoded(one.key), self._decoded(one.value), " ".join(one.origin))
            for one in read_all(self.broker.bootstrap, [self.topic])
        ]

    def read(self, schema: TableSchema) -> list[tuple[str | None, ...]]:
        return sorted(texts_of(reading_of(self.uri, schema, log_id=LOG, parts=2), schema), key=repr)

    def _decoded(self, data: bytes | None) -> Any:
        if data is None:
            return None
        assert data[0] == 0
        schema = json.loads(self.registry.asked("GET", f"/schemas/ids/{int.from_bytes(data[1:5], 'big')}")["schema"])
        file = io.BytesIO(data[5:])
        content = fastavro.schemaless_reader(file, fastavro.parse_schema(schema), None)
        assert not file.read()
        return content


def test_a_consumer_reads_rows_by_the_registry_across_a_ddl(tmp_path: Path, broker: KafkaBroker, schema_registry: ApicurioRegistry) -> None:
    made = Avro(broker, schema_registry, tmp_path)
    made.history()
    assert made.records() == [
        ({"id": 1}, {"id": 1, "name": "a"}, "log 1 0 insert"),
        ({"id": 1}, {"id": 1, "name": "b"}, "log 1 1 update"),
        ({"id": 2}, {"id": 2, "name": None}, "log 1 2 insert"),
        ({"id": 9}, None, "dump 2 0 d1 0"),
        ({"id": 7}, {"id": 7, "name": "dumped"}, "dump 2 1 d1 0"),
        ({"id": 2}, None, "log 3 0 delete"),
        ({"id": 1}, {"id": 1, "name": "b", "note": "n"}, "log 4 0 update"),
    ]  # fmt: skip
    assert len(schema_registry.schemas(f"{made.topic}-key")) == 1
    assert [len(json.loads(one)["fields"]) for one in schema_registry.schemas(f"{made.topic}-value")] == [2, 3]
    assert made.read(ADDED) == [("1", "b", "n"), ("7", "dumped", None)]


def test_each_row_has_its_commit_ts_in_a_header_and_ddls_and_marks_have_topics_of_their_own(
    tmp_path: Path, broker: KafkaBroker, schema_registry: ApicurioRegistry
) -> None:
    made = Avro(broker, schema_registry, tmp_path, "&enable-tidb-extension=true&avro-include-before-value=true")
    made.history()
    records = made.records()
    assert [value and (value["_tidb_op"], value["_tidb_commit_ts"] // AN_HOUR) for _, value, _ in records] == [
        ("c", 10), ("u", 20), ("c", 30), None, ("c", 150), ("d", 210), ("u", 310),
    ]  # fmt: skip
    assert records[1][1]["_ticdc_before"] == {"id": 1, "name": "a"}
    assert [int(headers["ticdc-dump-commit-ts"]) // AN_HOUR for headers in _headers(broker, made.topic)] == [10, 20, 30, 150, 150, 210, 310]
    [ddl] = read_all(broker.bootstrap, [made.prefix])
    assert json.loads(ddl.value or b"")["payload"]["ddl"] == DDL.query
    marks = read_all(broker.bootstrap, [f"__debezium-heartbeat.{made.prefix}"])
    assert [json.loads(one.value or b"")["payload"]["commit_ts"] for one in marks] == [100, 200, 300, 400]
    assert made.read(ADDED) == [("1", "b", "n"), ("7", "dumped", None)]


def _headers(broker: KafkaBroker, topic: str) -> list[Mapping[str, bytes]]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": new_topic(), "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        return [dict(cast("list[tuple[str, bytes]]", message.headers() or [])) for message in consumer.consume(7, timeout=PATIENCE_S)]
    finally:
        consumer.close()


def test_a_registry_that_is_away_stops_the_sink_until_it_is_back(tmp_path: Path, broker: KafkaBroker) -> None:
    with ApicurioRegistry(tmp_path / "registry") as registry:
        made = Avro(broker, registry, tmp_path)
        opened = made.opened()
        made.deliver(opened, 1, change(1, 10, after=["1", "a"]))
        registry.kill()
        made.deliver(opened, 2, change(2, 110, after=["2", "b"]))  # its schema is known
        with patience(AT_ONCE_S), pytest.raises(SinkError, match=r"schema registry .*-value: no answer"):
            made.deliver(opened, 3, change(3, 210, after=["3", "c", None]), schema=ADDED)
        registry.start()
        made.deliver(made.opened(), 3, change(3, 210, after=["3", "c", None]), schema=ADDED)
        assert [value["name"] for _, value, _ in made.records()] == ["a", "b", "c"]


def test_a_schema_that_is_not_compatible_stops_the_sink_until_the_registry_takes_it(
    tmp_path: Path, broker: KafkaBroker, schema_registry: ApicurioRegistry
) -> None:
    made = Avro(broker, schema_registry, tmp_path)
    made.deliver(made.opened(), 1, change(1, 10, after=["1", "a"]))
    schema_registry.set_compatibility("BACKWARD", f"{made.topic}-value")
    retyped = change(2, 110, after=["2", "5"])
    with pytest.raises(SinkError, match=rf"subject {made.topic}-value does not take the table's schema: .*STRING") as error:
        made.deliver(made.opened(), 2, retyped, schema=RETYPED)
    assert f"PUT /config/{made.topic}-value" in error.value.hint
    assert len(made.records()) == 1
    schema_registry.set_compatibility("NONE", f"{made.topic}-value")
    made.deliver(made.opened(), 2, retyped, schema=RETYPED)
    assert [value["name"] for _, value, _ in made.records()] == ["a", 5]


def test_two_tables_of_one_topic_are_refused(tmp_path: Path, broker: KafkaBroker, schema_registry: ApicurioRegistry) -> None:
    config = tmp_path / "changefeed.toml"
    config.write_text('[sink]\ndispatchers = [{matcher = ["shop.*"], topic = "all-{schema}"}]\n')
    made = Avro(broker, schema_registry, tmp_path, f"&config={quote(str(config), safe='')}")
    other = TableName("shop", "other")
    with pytest.raises(SinkError, match=r"rows of shop.orders and of shop.other go to topic all-shop") as error:
        deliver(made.opened(), Segments([1]), log=made.log, schemas={ORDERS: SMALL, other: replace(SMALL, name=other)})
    assert "dispatcher of its own" in error.value.hint


# ---- debezium-avro ------------------------------------------------------------------------------------------------------


def place_at(broker: KafkaBroker, registry: ApicurioRegistry) -> Place:
    prefix = new_topic()
    uri = f"kafka://{broker.bootstrap}/{prefix}?protocol=debezium-avro&partition-num=2&schema-registry={quote(registry.url, safe='')}"
    tables = {f"{prefix}.{name.schema}.{name.table}": schema for name, schema in SCHEMAS.items()}

    def payload(record: Read) -> Read:
        """In JSON, of a row."""
        if record.topic not in tables:
            return record
        message, era = Message(Lane(record.topic), record.offset, record.key, record.value), eras(tables[record.topic], [])[0]
        row = debezium_in_json(client.SchemaRegistry((registry.url,)), message, lambda _: era)
        assert row is not None
        return replace(record, value=row.value)

    def rows() -> dict[TableName, list[Shown]]:
        records = read_all(broker.bootstrap, [*tables, prefix, f"__debezium-heartbeat.{prefix}"])
        return decoded([payload(record) for record in records], "debezium-avro", SCHEMAS).rows

    return Place(uri, lambda log_id: open_sink(uri, log_id=log_id), rows)


def test_a_reader_and_a_verification_have_each_row_after_deaths_at_any_step(
    tmp_path: Path, broker: KafkaBroker, schema_registry: ApicurioRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(histories, "TABLES", 3)
    monkeypatch.setattr(sink, "FEW_ROWS", 3)
    story = Story(tmp_path, place_at(broker, schema_registry), seed=7)

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
