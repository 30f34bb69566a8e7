"""Where rows go: TiCDC's rules, held against a recording."""

from __future__ import annotations

import json
from zlib import crc32

import pyarrow.parquet as pq
import pytest

from sidecar.shared.codecs.open_protocol import OpenProtocol
from sidecar.shared.model.nouns import Change, Lane, Message, TableName
from tests.support.recordings import recording
from tests.tools.rig.dispatch import Dispatcher, dispatcher_of, matches, partition_of, topic_of
from tests.unit.rig.shapes import ID, column, table

ORDERS = TableName("shop", "orders")


def test_the_last_rule_that_matches_decides() -> None:
    assert matches(("shop.*", "!shop.heap"), ORDERS)
    assert not matches(("shop.*", "!shop.heap"), TableName("shop", "heap"))
    assert not matches(("app.*",), ORDERS)


def test_the_first_dispatcher_that_matches_decides_and_else_it_is_by_table() -> None:
    named = Dispatcher(("shop.o*",), "index-value", "x_{schema}_{table}")
    assert dispatcher_of((named, Dispatcher(("*.*",))), ORDERS) is named
    assert topic_of(named, ORDERS, "default") == "x_shop_orders"
    other = dispatcher_of((named,), TableName("shop", "item"))
    assert (other.partition, topic_of(other, TableName("shop", "item"), "default")) == ("table", "default")


def test_by_table_all_rows_of_a_table_share_a_partition() -> None:
    t = table(ID, column("v", "int"))
    results = {partition_of(Dispatcher(("*.*",)), t, (number, 0), 5) for number in range(50)}
    assert results == {crc32(b"shopt") % 5}


@pytest.mark.parametrize("key", [1, -7, 2**63])
def test_by_index_value_the_handle_key_decides(key: int) -> None:
    t = table(ID, column("v", "int"))
    by_value = Dispatcher(("*.*",), "index-value")
    assert (
        partition_of(by_value, t, (key, 1), 7)
        == partition_of(by_value, t, (key, 2), 7)
        == (crc32(b"shopt") ^ crc32(f"id{key}".encode())) % 7
    )


@pytest.mark.recordings
@pytest.mark.parametrize(("feed", "partition"), [("open-protocol", "table"), ("open-protocol-index", "index-value")])
def test_a_real_changefeed_sent_its_rows_to_the_same_partitions(feed: str, partition: str) -> None:
    t = table(column("id", "bigint unsigned", nullable=False), column("v", "varchar(60)"), name="uid")
    records = pq.read_table(recording("shop") / "kafka" / f"{feed}.parquet").to_pylist()
    partitions = 1 + max(record["partition"] for record in records)
    rule = Dispatcher(("*.*",), partition)  # type: ignore[arg-type]  # one of the two
    results: set[int] = set()
    for record in records:
        for change in OpenProtocol().envelopes(Message(Lane("l"), 0, record["key"], record["value"])):
            if isinstance(change, Change) and change.table == "uid":
                row = json.loads(change.value)
                image = (row.get("u") or row["d"])["id"]["v"], None
                assert partition_of(rule, t, image, partitions) == record["partition"]
                results.add(record["partition"])
    assert len(results) == (1 if partition == "table" else partitions)
