"""Raw key-values: what any table and row decode to, the columnar decoder held equal to the slow one, and broken bytes refused."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from sidecar.shared.columns.kv import decode_rows
from sidecar.shared.errors import MessageUnreadable
from sidecar.shared.model.canonical import equal_text
from sidecar.shared.model.nouns import Kind
from sidecar.shared.rowcodec.kv_json import json_text
from sidecar.shared.rowcodec.kv_row import decode_row
from sidecar.shared.rowcodec.kv_table import KvTable
from tests.lanes import examples
from tests.support.kv_encoder import json_bytes
from tests.support.kv_values import EncodedRow, Table, encoded_rows, json_values, tables

_SETTINGS = settings(
    max_examples=examples(50),
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # shrinking whole tables of rows takes minutes
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def columns_of(table: KvTable, rows: list[tuple[bytes, bytes]]) -> list[list[str | None]]:
    """Rows of texts, by the columnar decoder."""
    keys, values = pa.array([key for key, _ in rows], pa.binary()), pa.array([value for _, value in rows], pa.binary())
    result = decode_rows(table, keys, values)
    result.validate(full=True)
    return [list(row) for row in zip(*(column.to_pylist() for column in result.columns), strict=True)]


def outcome(table: KvTable, key: bytes, value: bytes) -> list[str | None] | str:
    """Texts, or the text of the one error that there may be."""
    try:
        return decode_row(table, key, value)
    except MessageUnreadable as error:
        return str(error)


@st.composite
def tables_with_rows(draw: st.DrawFn, formats: str = "v12lh") -> tuple[Table, list[EncodedRow]]:
    table, values = draw(tables())
    return table, draw(st.lists(encoded_rows(table, values, formats=formats), min_size=1, max_size=8))


def same(kind: Kind, text: str | None, expected: str | None) -> bool:
    if kind != "vector" or text is None or expected is None:
        return equal_text(kind, text, expected)
    numbers, others = json.loads(text), json.loads(expected)
    return len(numbers) == len(others) and all(equal_text("float", str(a), str(b)) for a, b in zip(numbers, others, strict=True))


@_SETTINGS
@given(tables_with_rows())
def test_every_row_decodes_to_its_values(made: tuple[Table, list[EncodedRow]]) -> None:
    table, rows = made
    for row in rows:
        results = decode_row(table.kv, row.key, row.value)
        for column, text, expected in zip(table.kv.columns, results, row.texts, strict=True):
            assert same(column.column.kind, text, expected), (column, text, expected)


@_SETTINGS
@given(tables_with_rows())
def test_the_columnar_decoder_gives_what_the_slow_one_gives(made: tuple[Table, list[EncodedRow]]) -> None:
    table, rows = made
    slow = [decode_row(table.kv, row.key, row.value) for row in rows]
    assert columns_of(table.kv, [(row.key, row.value) for row in rows]) == slow


@st.composite
def mutations(draw: st.DrawFn, data: bytes) -> bytes:
    """A few bits flipped, bytes replaced, cut out or put in."""
    made = bytearray(data)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, max(len(made) - 1, 0)))
        match draw(st.sampled_from(["flip", "replace", "cut", "insert"])):
            case "flip" if made:
                made[at] ^= 1 << draw(st.integers(0, 7))
            case "replace" if made:
                made[at] = draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]))
            case "cut":
                del made[at : at + draw(st.integers(1, 4))]
            case _:
                made[at:at] = draw(st.binary(min_size=1, max_size=4))
    return bytes(made)


@_SETTINGS
@given(st.data())
def test_both_decoders_refuse_the_same_broken_rows_with_the_same_words(data: st.DataObject) -> None:
    table, rows = data.draw(tables_with_rows())
    broken = [
        (row.key, data.draw(mutations(row.value))) if data.draw(st.booleans()) else (data.draw(mutations(row.key)), row.value)
        for row in rows
    ]
    outcomes = [outcome(table.kv, key, value) for key, value in broken]
    refused = [text for text in outcomes if isinstance(text, str)]
    if refused:
        with pytest.raises(MessageUnreadable) as caught:
            columns_of(table.kv, broken)
        assert str(caught.value) == refused[0]
    fit = [row for row, result in zip(broken, outcomes, strict=True) if not isinstance(result, str)]
    if fit:
        assert columns_of(table.kv, fit) == [results for results in outcomes if not isinstance(results, str)]


@_SETTINGS
@given(st.data())
def test_a_row_of_format_2_that_is_cut_or_has_more_bytes_has_no_value(data: st.DataObject) -> None:
    table, rows = data.draw(tables_with_rows(formats="v12l"))
    for row in rows:
        cut = row.value[: data.draw(st.integers(0, len(row.value) - 1))]
        more = row.value + data.draw(st.binary(min_size=1, max_size=3))
        for broken in (cut, more):
            assert isinstance(outcome(table.kv, row.key, broken), str), broken.hex()


@_SETTINGS
@given(st.data())
def test_any_flipped_bit_of_a_row_with_a_checksum_is_found(data: st.DataObject) -> None:
    table, rows = data.draw(tables_with_rows(formats="12"))
    row = rows[0]
    bit = data.draw(st.integers(0, 8 * len(row.value) - 1))
    broken = bytearray(row.value)
    broken[bit // 8] ^= 1 << bit % 8
    assert isinstance(outcome(table.kv, row.key, bytes(broken)), str)


@settings(max_examples=examples(200))
@given(json_values)
def test_binary_json_is_the_value_it_was_made_of(value: Any) -> None:
    assert equal_text("json", json_text(json_bytes(value)), json.dumps(value))
