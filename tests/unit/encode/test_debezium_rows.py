"""What is in an image and in a key before it is JSON or Avro."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sidecar.shared.model.nouns import physical_ms
from spark_merge.codecs.encode.debezium_fields import DebeziumOptions, fields_of_table
from spark_merge.codecs.encode.debezium_rows import DebeziumRows, debezium_rows, key_fields, position_ms, position_ns, position_us
from tests.unit.encode.debezium_tables import one_column
from tests.unit.encode.open_tables import Image, changes

SCHEMA = one_column("char(9)")


def rows(*pairs: tuple[Image | None, Image | None], options: DebeziumOptions | None = None, keys_only: bool = False) -> DebeziumRows:
    (batch,) = changes(SCHEMA, *pairs).combine_chunks().to_batches()
    return debezium_rows(SCHEMA, batch, options or DebeziumOptions(), keys_only=keys_only)


def test_images_are_there_where_a_row_has_them() -> None:
    made = rows((None, ["1", "a"]), (["1", "a"], ["1", None]), (["1", None], None))
    assert made.before is not None
    assert made.after is not None
    assert [one.is_there.to_pylist() for one in (made.before, made.after) if one.is_there] == [[False, True, True], [True, True, False]]
    assert [one.to_pylist() for one in made.after.values] == [[1, 1, None], ["a", None, None]]
    assert (made.op.to_pylist(), made.snapshot.to_pylist()) == (["c", "u", "d"], ["false"] * 3)
    assert [one.to_pylist() for one in made.key] == [[1, 1, 1]]


def test_an_image_that_no_row_has_is_none() -> None:
    inserts, deletes = rows((None, ["1", "a"])), rows((["1", "a"], None))
    assert inserts.before is None
    assert inserts.after is not None
    assert inserts.after.is_there is None
    assert deletes.after is None


def test_only_a_delete_is_reduced_to_its_key() -> None:
    for made in (
        rows((["1", "a"], None), (["2", "b"], ["2", "c"]), options=DebeziumOptions(key_of_deleted=True)),
        rows((["1", "a"], None), (["2", "b"], ["2", "c"]), keys_only=True),
    ):
        assert made.before is not None
        assert [one.to_pylist() for one in made.before.values] == [[1, 2], [None, "b"]]


def test_key_fields_come_in_the_keys_order() -> None:
    schema = replace(SCHEMA, key=("c", "id"))
    assert [field.column.name for field in key_fields(schema, fields_of_table(schema, DebeziumOptions()))] == ["c", "id"]


@given(st.lists(st.integers(1, 2_500_000_000_000 << 18), min_size=1, unique=True).map(sorted))
def test_positions_rise_strictly_with_commit_ts_and_are_its_time(stamps: list[int]) -> None:
    commit_ts = pa.array(stamps, pa.int64())
    ns = position_ns(commit_ts).to_pylist()
    assert all(before < after for before, after in pairwise(ns))
    assert position_ms(commit_ts).to_pylist() == [physical_ms(ts) for ts in stamps] == [one // 1_000_000 for one in ns]
    assert position_us(commit_ts).to_pylist() == [1000 * physical_ms(ts) for ts in stamps]
