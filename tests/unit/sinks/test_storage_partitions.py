"""Rows by partition: each in its order, and one that moves is taken out here and put in there."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Column, ColumnDefinition, IndexDefinition, IndexPart, TableDefinition, TableName, TableSchema
from spark_merge.port.contract import CHANGES, RAW_CHANGES
from spark_merge.sinks.storage.partitions import by_partition
from tests.support.deliveries import change

NAME = TableName("s", "t")


def table(partitioning: str) -> TableSchema:
    columns = (ColumnDefinition("id", "int(11)", nullable=False), ColumnDefinition("y", "int(11)", nullable=False))
    index = IndexDefinition("PRIMARY", (IndexPart("id"), IndexPart("y")), unique=True, primary=True)
    definition = TableDefinition(columns, (index,), partitioning=partitioning)
    return TableSchema(NAME, (Column("id", "int"), Column("y", "int")), ("id",), 1, (70, 71), definition=definition)


HASHED = table("PARTITION BY HASH (`y`) PARTITIONS 2")


def found(changes: pa.Table, schema: TableSchema = HASHED) -> dict[int, list[tuple[int, str, object, object]]]:
    return {
        partition: [(row["commit_ts"], row["op"], row["before"], row["after"]) for row in rows.to_pylist()]
        for partition, rows in by_partition(changes, schema)
    }


def test_a_row_that_moves_between_partitions_is_a_delete_and_an_insert() -> None:
    rows = [
        change(1, 10, after=["1", "0"], table=NAME),
        change(1, 11, before=["1", "0"], after=["1", "2"], table=NAME, ordinal=1),
        change(1, 12, before=["1", "2"], after=["1", "3"], table=NAME, ordinal=2),
        change(1, 13, before=["1", "3"], table=NAME, ordinal=3),
    ]
    assert found(pa.Table.from_pylist(rows, CHANGES)) == {
        70: [(10, "insert", None, ["1", "0"]), (11, "update", ["1", "0"], ["1", "2"]), (12, "delete", ["1", "2"], None)],
        71: [(12, "insert", None, ["1", "3"]), (13, "delete", ["1", "3"], None)],
    }


def test_raw_key_values_know_where_they_are() -> None:
    key = b"t" + (71 ^ 1 << 63).to_bytes(8, "big") + b"_r"
    row = change(1, 10, after=["1", "0"], table=NAME) | {"message_key": key, "message_value": b"", "lane": "kv/71", "position": 1}
    assert list(found(pa.Table.from_pylist([row], RAW_CHANGES))) == [71]


def test_where_it_cannot_be_worked_out_the_way_out_is_named() -> None:
    with pytest.raises(SinkError) as refused:
        found(
            pa.Table.from_pylist([change(1, 10, after=["1", "0"], table=NAME)], CHANGES), table("PARTITION BY HASH (sin(`y`)) PARTITIONS 2")
        )
    assert "enable-partition-separator=false" in refused.value.hint
