"""Which partitions a row of a chunk goes to."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from sidecar.core.model import Seq
from sidecar.ticdc.dispatch import PartitionRule
from spark_merge.contract import ChunkPiece, Survivors
from spark_merge.encode.messages import changes_of
from spark_merge.sinks.kafka.writer import KafkaWriter
from tests.support.deliveries import DUE, SCHEMA


def partitions_of(rule: PartitionRule, *, deletes: bool) -> list[list[int]]:
    """Of two rows, in a topic of three partitions."""
    output: Any = SimpleNamespace(router=SimpleNamespace(partition_rule=lambda _: rule))
    writer = KafkaWriter(output, None, Seq(1), (), {}, {}, {"t": 3})  # type: ignore[arg-type]  # nothing is written
    names = pa.nulls(2, pa.string()) if deletes else pa.array(["a", "b"])
    rows = pa.table({"id": ["1", "2"], "name": names})
    piece = ChunkPiece(DUE, Survivors(rows, pa.array([0, 1]), 0), deletes=deletes)
    return [list(found) for found in writer._partitions("t", SCHEMA, piece, changes_of(piece, SCHEMA))]


@pytest.mark.parametrize("rule", [PartitionRule("table"), PartitionRule("index-value")])
def test_a_delete_of_a_key_goes_where_the_keys_row_goes(rule: PartitionRule) -> None:
    rows = partitions_of(rule, deletes=False)
    assert partitions_of(rule, deletes=True) == rows
    assert [len(found) for found in rows] == [1, 1]


def test_where_another_column_decides_a_delete_of_a_key_goes_to_every_partition() -> None:
    """The row that it deletes may be in any of them."""
    rule = PartitionRule("columns", columns=("name",))
    assert partitions_of(rule, deletes=True) == [[0, 1, 2], [0, 1, 2]]
    assert [len(found) for found in partitions_of(rule, deletes=False)] == [1, 1]
