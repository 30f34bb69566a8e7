"""Which partitions a row of a chunk goes to, and which DDLs are sent."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

from sidecar.shared.errors import SinkError
from sidecar.shared.log.manifest import DdlRecord
from sidecar.shared.model.nouns import (
    Column,
    ColumnDefinition,
    CommitTs,
    IndexDefinition,
    IndexPart,
    Seq,
    TableDefinition,
    TableName,
    TableSchema,
)
from sidecar.shared.ticdc.dispatch import TopicPartitionRule
from spark_merge.codecs.encode.messages import changes_of
from spark_merge.masks.rows import masked_pieces
from spark_merge.masks.tables import masked_table
from spark_merge.port.contract import CHANGES, RAW_CHANGES, ChunkPiece, Survivors
from spark_merge.port.kinds import SinkUri
from spark_merge.sinks.kafka.ending import TopicEnding
from spark_merge.sinks.kafka.uri import output_of
from spark_merge.sinks.kafka.writer import KafkaWriter
from tests.support.deliveries import DUE, SCHEMA, change
from tests.support.masked import SALT, rules, slow_hash
from tests.support.slow_canal import table

TABLE = table({"id": "int(11)"}, ("id",))


def partitions_of(rule: TopicPartitionRule, *, deletes: bool) -> list[list[int]]:
    """Of two rows, in a topic of three partitions."""
    output: Any = SimpleNamespace(router=SimpleNamespace(partition_rule=lambda _: rule))
    writer = KafkaWriter(output, None, Seq(1), (), {}, {}, {"t": 3})  # type: ignore[arg-type]  # nothing is written
    names = pa.nulls(2, pa.string()) if deletes else pa.array(["a", "b"])
    rows = pa.table({"id": ["1", "2"], "name": names})
    piece = ChunkPiece(DUE, Survivors(rows, pa.array([0, 1]), 0), deletes=deletes)
    return [list(partition) for partition in writer._partitions("t", SCHEMA, piece, changes_of(piece, SCHEMA))]


@pytest.mark.parametrize("rule", [TopicPartitionRule("table"), TopicPartitionRule("index-value")])
def test_a_delete_of_a_key_goes_where_the_keys_row_goes(rule: TopicPartitionRule) -> None:
    rows = partitions_of(rule, deletes=False)
    assert partitions_of(rule, deletes=True) == rows
    assert [len(row) for row in rows] == [1, 1]


def test_where_another_column_decides_a_delete_of_a_key_goes_to_every_partition() -> None:
    """The row that it deletes may be in any of them."""
    rule = TopicPartitionRule("columns", columns=("name",))
    assert partitions_of(rule, deletes=True) == [[0, 1, 2], [0, 1, 2]]
    assert [len(partition) for partition in partitions_of(rule, deletes=False)] == [1, 1]


def test_a_ddl_that_the_protocol_has_no_number_for_is_not_sent_once_the_operator_says_so() -> None:
    known, unknown = (DdlRecord(CommitTs(ts), "s", "t", text) for ts, text in ((8, "DROP TABLE t"), (9, "ALTER TABLE t FROBNICATE")))
    ending = TopicEnding(0, "open-protocol", CommitTs(9), ("t",), ((unknown, None, None), (known, None, None)))

    def sent(ddl_done: str) -> list[tuple[int, Any]]:
        text = "kafka://b:9092/t"
        output = output_of(SinkUri(text, urlsplit(text), {"ddl-done": ddl_done}, "log-1"))
        writer = KafkaWriter(output, None, Seq(1), (), {}, {}, {"t": 2})  # type: ignore[arg-type]  # nothing is written
        return [(record[1], (record[4] or [("", b"")])[0][1]) for record in writer._ddls(Seq(3), ending)]

    with pytest.raises(SinkError, match=r"(?s)FROBNICATE.*ddl-done=9"):
        sent("8")
    assert sent("7,9") == [(0, b"ddl 3 1"), (1, b"ddl 3 1")]


@pytest.mark.parametrize("protocol", ["open-protocol", "canal-json"])
def test_a_message_of_a_masked_row_is_made_of_its_columns_and_any_other_is_ticdcs_own(protocol: str) -> None:
    text = f"kafka://b:9092/t?protocol={protocol}&enable-tidb-extension=true"
    parameters = {"protocol": protocol} | ({"enable-tidb-extension": "true"} if protocol == "canal-json" else {})
    output = output_of(SinkUri(text, urlsplit(text), parameters, "log-1"))
    writer = KafkaWriter(output, None, Seq(1), (), {}, {Seq(1): TopicEnding(0, protocol, CommitTs(9), ("t",))}, {"t": 1})  # type: ignore[arg-type]  # nothing is written
    key = IndexDefinition("PRIMARY", (IndexPart("id"),), unique=True, primary=True)
    definition = TableDefinition((ColumnDefinition("id", "int(11)", nullable=False), ColumnDefinition("name", "varchar(9)")), (key,))
    schema = replace(SCHEMA, definition=definition)
    sent = {"message_key": b"key", "message_value": b"as TiCDC sent it: secret", "lane": "l", "position": 1}
    raw = pa.Table.from_pylist([change(1, 5, after=("1", "secret")) | sent], RAW_CHANGES)
    ((_, (_, _, _, value, _)),) = writer._rows(Seq(1), schema, raw)
    assert b"secret" in (value or b"")
    table = masked_table(schema, rules(hash="*.*.name").of(schema), SALT, statements=False)
    (piece,) = masked_pieces(table, raw, SALT, codec=protocol)
    ((_, (_, _, key_bytes, value, _)),) = writer._rows(Seq(1), table.schema, piece)
    assert b"secret" not in (key_bytes or b"") + (value or b"")
    assert slow_hash("secret").encode() in (value or b"")


@pytest.mark.parametrize(
    ("schema", "as_sent"),
    [
        (TABLE, True),
        (replace(TABLE, omitted=(Column("secret", "int"),)), False),
        (replace(TABLE, feed_name=TableName("mart", "x")), False),
    ],
)
def test_a_message_of_ticdcs_is_passed_on_only_where_it_has_the_tables_name_and_columns(schema: TableSchema, as_sent: bool) -> None:
    """A dump's rows have TiDB's name, and never what the changefeed omits; TiCDC's storage sink may have written that."""
    text = "kafka://b:9092/t?protocol=canal-json&enable-tidb-extension=true"
    output = output_of(SinkUri(text, urlsplit(text), {"protocol": "canal-json", "enable-tidb-extension": "true"}, "log-1"))
    ending = TopicEnding(0, "canal-json", CommitTs(9), ("t",), ())
    writer = KafkaWriter(output, None, Seq(1), (), {}, {Seq(3): ending}, {"t": 1})  # type: ignore[arg-type]  # nothing is written
    row = {"seq": 3, "commit_ts": 8, "rank": 1, "ordinal": 0, "schema": "shop", "table": "t", "op": "insert", "key": "1"}
    sent = {"after": ["1"], "message_key": b"", "message_value": b'{"what":"TiCDC sent"}', "lane": "a", "position": 0}
    ((_, record),) = writer._rows(Seq(3), schema, pa.Table.from_pylist([row | sent], RAW_CHANGES))
    assert (record[3] == sent["message_value"]) is as_sent
    assert as_sent or b'"database":"shop","table":"t"' in (record[3] or b"")


@pytest.mark.parametrize("tombstones", ["true", "false"])
def test_a_delete_has_a_tombstone_of_its_key_behind_it(tombstones: str) -> None:
    text = "kafka://b:9092/p?protocol=debezium"
    parameters = {"protocol": "debezium", "tombstones-on-delete": tombstones, "debezium-disable-schema": "true"}
    output = output_of(SinkUri(text, urlsplit(text), parameters, "log-1"))
    ending = TopicEnding(0, "canal-json", CommitTs(9), ("__debezium-heartbeat.p",))
    writer = KafkaWriter(output, None, Seq(1), (), {}, {Seq(1): ending}, {"p.shop.t": 1})  # type: ignore[arg-type]  # nothing is written
    rows = [change(1, 5, after=["1"], table=TABLE.name), change(1, 6, before=["1"], table=TABLE.name, ordinal=1)]
    records = [record for _, record in writer._rows(Seq(1), TABLE, pa.Table.from_pylist(rows, CHANGES))]
    assert [(topic, key, value is None, headers) for topic, _, key, value, headers in records] == [
        ("p.shop.t", b'{"id":1}', False, [("ticdc-dump", b"log 1 0 insert")]),
        ("p.shop.t", b'{"id":1}', False, [("ticdc-dump", b"log 1 1 delete")]),
        *([("p.shop.t", b'{"id":1}', True, [("ticdc-dump", b"tombstone 1 1")])] if tombstones == "true" else []),
    ]


def test_ddls_and_marks_of_debezium_go_where_no_rows_are() -> None:
    text = "kafka://b:9092/p?protocol=debezium"
    output = output_of(SinkUri(text, urlsplit(text), {"protocol": "debezium"}, "log-1"))
    ddl = DdlRecord(CommitTs(8), "shop", "t", "DROP TABLE t")
    ending = TopicEnding(0, "canal-json", CommitTs(9), tuple(output.router.mark_topics([TABLE.name])), ((ddl, TABLE, None),))
    counts = {"p": 1, "__debezium-heartbeat.p": 1, "p.shop.t": 3}
    writer = KafkaWriter(output, None, Seq(1), (), {}, {Seq(1): ending}, counts)  # type: ignore[arg-type]  # nothing is written
    assert [record[:2] for record in writer._ddls(Seq(1), ending)] == [("p", 0)]
    assert [record[:2] for record in writer._marks(Seq(1), ending)] == [("__debezium-heartbeat.p", 0)]
