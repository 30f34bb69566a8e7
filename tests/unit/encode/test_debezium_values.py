"""Canonical texts as typed values: numbers in as few bytes as Java has them, and what is known of no value."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.shared.model.nouns import Column
from spark_merge.codecs.encode.debezium_fields import ConnectType, DebeziumField, DebeziumOptions, decimal_type, fields_of_table
from spark_merge.codecs.encode.debezium_values import InvalidDate, field_values, typed, zero_text
from tests.unit.encode.debezium_tables import EVERY, KINDS, one_column

ARROW = {
    "boolean": pa.bool_(), "int16": pa.int64(), "int32": pa.int64(), "int64": pa.int64(), "float": pa.float32(), "double": pa.float64(),
    "bytes": pa.binary(), "string": pa.string(), "array": pa.list_(pa.float32()),
}  # fmt: skip


@pytest.mark.parametrize("options", [DebeziumOptions(), DebeziumOptions(decimals="string", unsigned="string")])
def test_each_connect_type_has_one_arrow_type_and_nulls_stay(options: DebeziumOptions) -> None:
    for field, one in zip(fields_of_table(EVERY, options)[1:], KINDS, strict=True):
        for texts in ([None, *one.values], list(one.values), [None], []):
            given_texts = pa.array(texts, pa.string())
            values = typed(field, given_texts).values
            assert values.type == ARROW[field.type.type], one
            assert values.is_null().to_pylist() == [text is None for text in texts]
            padded = pa.array(["9", *texts, None], pa.string()).slice(1, len(texts))
            assert typed(field, padded).values.equals(values), "an array that begins inside another"


def decimal(digits: int, scale: int) -> DebeziumField:
    return DebeziumField(Column("c", "decimal", True, digits, scale), 0, decimal_type(digits, scale), False)


@given(st.data(), st.integers(1, 65))
def test_a_decimal_is_javas_unscaled_bytes(data: st.DataObject, digits: int) -> None:
    scale = data.draw(st.integers(0, min(digits, 30)))
    limit = 10**digits - 1
    edges = (
        st.integers(0, digits * 3)
        .map(lambda bits: min(1 << bits, limit))
        .flatmap(lambda edge: st.sampled_from([edge, -edge, edge - 1, -edge - 1]))
    )
    numbers = data.draw(st.lists(st.none() | st.integers(-limit, limit) | edges.filter(lambda one: abs(one) <= limit), max_size=8))
    texts = [None if one is None else text_of(one, scale) for one in numbers]
    by_hand = [None if one is None else one.to_bytes((one + (one < 0)).bit_length() // 8 + 1, "big", signed=True) for one in numbers]
    assert typed(decimal(digits, scale), pa.array(texts, pa.string())).values.to_pylist() == by_hand


def text_of(unscaled: int, scale: int) -> str:
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    return ("-" if unscaled < 0 else "") + (f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits)


@given(st.lists(st.none() | st.integers(0, (1 << 64) - 1)))
def test_an_unsigned_bigint_is_never_negative(numbers: list[int | None]) -> None:
    field = DebeziumField(Column("c", "uint"), 0, decimal_type(20, 0), False)
    values = typed(field, pa.array([None if one is None else str(one) for one in numbers], pa.string())).values.to_pylist()
    assert values == [None if one is None else one.to_bytes(one.bit_length() // 8 + 1, "big") for one in numbers]


def test_bits_are_little_endian_and_all_there() -> None:
    field = fields_of_table(one_column("bit(9)"), DebeziumOptions())[1]
    assert typed(field, pa.array(["1", None, "256", "511"])).values.to_pylist() == [b"\1\0", None, b"\0\1", b"\xff\1"]


@pytest.mark.parametrize("options", [DebeziumOptions(), DebeziumOptions(decimals="string", unsigned="string")])
def test_zero_has_a_value_of_every_kind(options: DebeziumOptions) -> None:
    for field in fields_of_table(EVERY, options):
        values = field_values(field, pa.array([zero_text(field.column)]), "error")
        assert values.null_count == 0, field


def test_an_invalid_date_is_refused_at_its_place_null_or_1970() -> None:
    texts = pa.array(["2024-01-01", None, "2024-02-30"])
    optional = DebeziumField(Column("c", "date"), 0, ConnectType("int32"), False)
    required = DebeziumField(Column("c", "date", False), 0, ConnectType("int32"), False)
    key = DebeziumField(Column("c", "date", False), 0, ConnectType("int32"), True)
    for field, rule in ((optional, "error"), (required, "error"), (key, "null-or-epoch")):
        with pytest.raises(InvalidDate) as invalid:
            field_values(field, texts, rule)  # type: ignore[arg-type]  # a word of InvalidDates
        assert invalid.value.index == 2
    assert field_values(optional, texts, "null-or-epoch").to_pylist() == [19723, None, None]
    assert field_values(required, texts, "null-or-epoch").to_pylist() == [19723, None, 0]


def test_many_decimals_at_once() -> None:
    random = Random(3)
    numbers = [random.randrange(-(10**18), 10**18) for _ in range(5000)]
    values = typed(decimal(18, 2), pa.array([text_of(one, 2) for one in numbers])).values
    assert [int.from_bytes(one, "big", signed=True) for one in values.to_pylist()] == numbers
