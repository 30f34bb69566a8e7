from __future__ import annotations

from zlib import crc32

import numpy as np
import pyarrow as pa
import pytest

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Column, ColumnDefinition, IndexDefinition, IndexPart, TableDefinition, TableName, TableSchema
from sidecar.shared.ticdc.dispatch import Hashing, TopicPartitionRule
from spark_merge.port.contract import CHANGES
from spark_merge.sinks.kafka.partitions import by_handle_key, partitions, verify, verify_whole_keys

ITEM = TableSchema(
    TableName("shop", "item"),
    (Column("Id", "int", nullable=False), Column("name", "text"), Column("state", "enum", elements=("new", "old"))),
    key=("Id",),
    definition=TableDefinition(
        columns=(ColumnDefinition("Id", "bigint(20)"), ColumnDefinition("name", "text"), ColumnDefinition("state", "enum('new','old')")),
        indexes=(
            IndexDefinition("PRIMARY", (IndexPart("Id"),), unique=True, primary=True),
            IndexDefinition("uk_name", (IndexPart("name"),), unique=True, id=1),
            IndexDefinition("by_state", (IndexPart("state"),), id=2),
        ),
    ),
)
BASE = crc32(b"shopitem")
Images = tuple[list[str | None] | None, list[str | None] | None]


def changes(*images: Images, commit_ts: int = 100) -> pa.Table:
    rows = [
        (1, commit_ts, 1, number, "shop", "item", "delete" if after is None else "update" if before else "insert", "k", before, after)
        for number, (before, after) in enumerate(images)
    ]
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(CHANGES)
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, CHANGES, strict=True)], schema=CHANGES)


def hashes(rule: TopicPartitionRule, *images: Images) -> list[int]:
    """Modulo the greatest count that TiCDC knows."""
    return [int(one) for one in partitions(rule, ITEM, changes(*images), 2**31 - 1)]


def modulo(hashed: int) -> int:
    return hashed % (2**31 - 1)


def test_by_table_all_rows_go_together() -> None:
    assert list(partitions(TopicPartitionRule(), ITEM, changes((None, ["1", "a", "new"]), (["1", "a", "new"], None)), 7)) == [BASE % 7] * 2


def test_by_ts_rows_go_with_their_commit() -> None:
    assert list(partitions(TopicPartitionRule("ts"), ITEM, changes((None, ["1", "a", "new"]), commit_ts=470609308971696136), 5)) == [
        470609308971696136 % 5
    ]


def test_an_update_goes_by_its_new_value_and_a_delete_by_its_old_one() -> None:
    old: list[str | None] = ["1", "a", "new"]
    new: list[str | None] = ["2", "b", "old"]
    by_id = [modulo(BASE ^ crc32(b"Id1")), modulo(BASE ^ crc32(b"Id2"))]
    assert hashes(TopicPartitionRule("index-value"), (None, old), (old, new), (old, None)) == [by_id[0], by_id[1], by_id[0]]
    by_name = [modulo(BASE ^ crc32(b"namea")), modulo(BASE ^ crc32(b"nameb"))]
    assert hashes(TopicPartitionRule("index-value", "UK_Name"), (None, old), (old, new), (old, None)) == [
        by_name[0],
        by_name[1],
        by_name[0],
    ]


def test_nulls_have_a_text_in_one_architecture_and_none_in_the_other() -> None:
    row: list[str | None] = ["1", None, None]
    rule = TopicPartitionRule("columns", columns=("NAME", "state"), hashing=Hashing.of("classic"))
    assert hashes(rule, (None, row)) == [modulo(BASE ^ crc32(b"namenull") ^ crc32(b"statenull"))]
    rule = TopicPartitionRule("columns", columns=("NAME", "state"), hashing=Hashing.of("new"))
    assert hashes(rule, (None, row)) == [modulo(BASE)]


def test_rows_of_a_slice_are_their_own() -> None:
    rows: list[Images] = [(None, [str(number), f"name {number}", "new" if number % 3 else None]) for number in range(50)]
    rule = TopicPartitionRule("columns", columns=("Id", "name", "state"))
    whole = partitions(rule, ITEM, changes(*rows), 1009)
    parts = [partitions(rule, ITEM, changes(*rows).slice(at, 7), 1009) for at in range(0, 50, 7)]
    assert np.array_equal(whole, np.concatenate(parts))
    assert np.array_equal(whole, partitions(rule, ITEM, pa.concat_tables([changes(*rows[:20]), changes(*rows[20:])]), 1009))
    assert partitions(rule, ITEM, changes(), 7).dtype == np.int32


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (TopicPartitionRule("index-value", "none"), "index not found when dispatch event, table: shop.item, index: none"),
        (TopicPartitionRule("index-value", "primary"), "index not found .* the row's handle"),
        (TopicPartitionRule("columns", columns=("Id", "gone")), "columns not found when dispatch event, table: shop.item, .* column: gone"),
    ],
)
def test_what_the_table_lacks_is_named(rule: TopicPartitionRule, message: str) -> None:
    with pytest.raises(SinkError, match=message):
        partitions(rule, ITEM, changes((None, ["1", "a", "new"])), 3)
    with pytest.raises(SinkError, match=message):
        verify(rule, ITEM)


def test_an_index_that_is_not_unique_is_refused_beforehand_as_ticdc_does() -> None:
    with pytest.raises(SinkError, match=r"by_state of shop.item, .* is not unique"):
        verify(TopicPartitionRule("index-value", "by_state"), ITEM)
    verify(TopicPartitionRule("index-value", "uk_name"), ITEM)


def test_a_value_that_the_schema_does_not_have_is_named() -> None:
    with pytest.raises(SinkError, match=r"'gone' in column state of shop.item is no enum"):
        hashes(TopicPartitionRule("columns", columns=("state",)), (None, ["1", "a", "gone"]))


def test_rows_of_another_width_are_refused() -> None:
    with pytest.raises(SinkError, match="has not the 3 columns"):
        hashes(TopicPartitionRule("index-value"), (None, ["1", "a"]))


def test_timestamps_are_hashed_in_the_servers_zone() -> None:
    schema = TableSchema(TableName("s", "t"), (Column("at", "timestamp", scale=2),), key=("at",))
    rows = changes((None, ["2024-02-29 23:59:59.12"]), (None, ["0000-00-00 00:00:00.00"]))
    result = partitions(TopicPartitionRule("index-value", hashing=Hashing(zone="Asia/Shanghai")), schema, rows, 2**31 - 1)
    texts = (b"at2024-03-01 07:59:59.12", b"at0000-00-00 00:00:00.00")
    assert list(result) == [modulo(crc32(b"st") ^ crc32(text)) for text in texts]


@pytest.mark.parametrize(
    ("rule", "decides"),
    [
        (TopicPartitionRule("table"), True),
        (TopicPartitionRule("ts"), True),
        (TopicPartitionRule("index-value"), True),
        (TopicPartitionRule("index-value", index="uk_name"), False),
        (TopicPartitionRule("columns", columns=("id",)), True),
        (TopicPartitionRule("columns", columns=("id", "state")), False),
    ],
)
def test_whether_the_handle_key_alone_decides(rule: TopicPartitionRule, decides: bool) -> None:
    assert by_handle_key(rule, ITEM) is decides


@pytest.mark.parametrize(
    "rule",
    [TopicPartitionRule(), TopicPartitionRule("index-value"), TopicPartitionRule("columns", columns=("id",))],
    ids=lambda one: one.kind,
)
def test_where_the_key_alone_decides_all_events_of_a_key_are_in_one_partition(rule: TopicPartitionRule) -> None:
    verify_whole_keys(rule, ITEM)
    old: list[str | None] = ["1", "a", "new"]
    new: list[str | None] = ["1", "b", "old"]
    assert len(set(hashes(rule, (None, old), (old, new), (new, None)))) == 1


@pytest.mark.parametrize(
    ("rule", "by"),
    [
        (TopicPartitionRule("ts"), "ts"),
        (TopicPartitionRule("index-value", index="uk_name"), "uk_name"),
        (TopicPartitionRule("columns", columns=("id", "state")), "id, state"),
    ],
)
def test_elsewhere_debeziums_form_is_refused(rule: TopicPartitionRule, by: str) -> None:
    with pytest.raises(SinkError, match=rf"rows of shop.item into partitions by {by}, and a key's events would be in several") as error:
        verify_whole_keys(rule, ITEM)
    assert "columns of the handle key (Id)" in error.value.hint
