"""Typed values as Kafka Connect's JsonConverter writes them: every text is JSON of the value."""

from __future__ import annotations

import base64
import json
import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.shared.model.nouns import Column, Kind
from spark_merge.codecs.encode.debezium_fields import ConnectType, DebeziumField
from spark_merge.codecs.encode.debezium_json import images, objects, values_in_json
from spark_merge.codecs.encode.debezium_rows import DebeziumImage


def field(type_name: str, kind: Kind = "text", name: str = "c") -> DebeziumField:
    return DebeziumField(Column(name, kind), 0, ConnectType(type_name), False)


def read(type_name: str, kind: pa.DataType, values: list[Any]) -> list[Any]:
    texts = values_in_json(field(type_name), pa.array(values, kind)).to_pylist()
    return [None if text is None else json.loads(text) for text in texts]


@given(st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"]))))
def test_texts(values: list[str | None]) -> None:
    assert read("string", pa.string(), values) == values


@given(st.lists(st.none() | st.binary()))
def test_bytes_are_base64(values: list[bytes | None]) -> None:
    assert read("bytes", pa.binary(), values) == [None if one is None else base64.b64encode(one).decode() for one in values]


@given(st.lists(st.none() | st.integers(-(1 << 63), (1 << 63) - 1)))
def test_integers(values: list[int | None]) -> None:
    assert read("int64", pa.int64(), values) == values


def test_booleans() -> None:
    assert read("boolean", pa.bool_(), [True, False, None]) == [True, False, None]


@given(st.lists(st.none() | st.floats(allow_nan=False, allow_infinity=False)))
def test_doubles_keep_their_value_and_the_sign_of_zero_and_are_never_whole_numbers(values: list[float | None]) -> None:
    results = read("double", pa.float64(), values)
    assert results == values
    assert [math.copysign(1, one) for one in results if one is not None] == [math.copysign(1, one) for one in values if one is not None]
    assert all(isinstance(one, float) for one in results if one is not None), "a reader without the schema makes the column an integer"


@given(st.lists(st.none() | st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32), max_size=4)))
def test_vectors_are_arrays_of_floats(values: list[list[float] | None]) -> None:
    results = [one and [float(number) for number in one] for one in read("array", pa.list_(pa.float32()), values)]
    assert pa.array(results, pa.list_(pa.float32())).equals(pa.array(values, pa.list_(pa.float32())))


def test_numbers_in_text_need_no_escapes() -> None:
    assert values_in_json(field("string", "decimal"), pa.array(["1.50", None])).to_pylist() == ['"1.50"', None]


@pytest.mark.parametrize("name", ['a"\\\n', "é", "<&>"])
def test_objects_have_columns_of_any_name(name: str) -> None:
    fields = [field("string", name=name), field("int64", "int", "n")]
    made = objects(fields, [pa.array(["x", None]), pa.array([None, 7], pa.int64())])
    assert [json.loads(one) for one in made.to_pylist()] == [{name: "x", "n": None}, {name: None, "n": 7}]


def test_an_image_that_is_not_there_is_null() -> None:
    fields = [field("int64", "int", "n")]
    values = [pa.array([1, None], pa.int64())]
    assert images(fields, None) == "null"
    some, every = images(fields, DebeziumImage(values, pa.array([True, False]))), images(fields, DebeziumImage(values, None))
    assert not isinstance(some, str)
    assert not isinstance(every, str)
    assert some.to_pylist() == ['{"n":1}', "null"]
    assert every.to_pylist() == ['{"n":1}', '{"n":null}']
