"""A table that is read by its key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from sidecar.shared.model.nouns import Column, Seq, TableName, TableSchema
from spark_merge.port.contract import Accepted
from spark_merge.port.readable import newest
from spark_merge.sinks.kit.keyed import keyed_reading, keys_of

SCHEMA = TableSchema(TableName("s", "t"), (Column("a", "int"), Column("v", "text"), Column("b", "text")), ("b", "a"))


@dataclass(frozen=True, slots=True)
class Echo:
    """A target whose rows are the statements."""

    def rows(self, statements: Sequence[str]) -> Iterator[pa.Table]:
        for sql in statements:
            yield pa.table({name: pa.array([sql]) for name in SCHEMA.column_names()})


def test_each_part_reads_its_own_statements_in_their_order() -> None:
    reading = keyed_reading(Accepted(Seq(3)), Echo(), [["x", "y"], ["z"], []])
    assert (reading.accepted, reading.exact, len(reading.parts)) == (Accepted(Seq(3)), False, 3)
    assert newest(reading, SCHEMA)["v"].to_pylist() == ["x", "y", "z"]


def test_a_key_has_its_columns_in_the_keys_order() -> None:
    assert keys_of(SCHEMA, pa.table({"a": ["1", "2"], "b": ["x", "y"]})) == [("x", "1"), ("y", "2")]
