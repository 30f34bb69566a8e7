"""Texts in JSON: what is escaped, and as what."""

from __future__ import annotations

import json

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from spark_merge.codecs.encode.easy_json import escaped, quoted

TEXT = st.text(st.characters(exclude_categories=["Cs"]))


def test_each_character_that_is_escaped() -> None:
    assert quoted('\t\n\r"\\') == '"\\t\\n\\r\\"\\\\"'
    assert quoted("\x00\b\f\x1f<>&\u2028\u2029") == '"\\u0000\\u0008\\u000c\\u001f\\u003c\\u003e\\u0026\\u2028\\u2029"'
    assert quoted("/'\x7f\x80ü😀\ufffd") == '"/\'\x7f\x80ü😀\ufffd"'


@given(st.lists(st.none() | TEXT, max_size=8))
def test_a_column_is_its_texts_one_by_one_and_reads_back(texts: list[str | None]) -> None:
    result = escaped(pa.array(texts, pa.string()))
    assert result.type == pa.string()
    assert result.to_pylist() == [None if text is None else quoted(text)[1:-1] for text in texts]
    assert [None if text is None else json.loads(f'"{text}"') for text in result.to_pylist()] == texts


def test_a_long_column_is_written_as_a_short_one() -> None:
    texts = [None if number % 7 == 0 else f"<{number}\u2029" if number % 2 else f"plain {number} é" for number in range(5000)]
    assert escaped(pa.array(texts)).to_pylist() == [None if text is None else quoted(text)[1:-1] for text in texts]


def test_of_a_slice_the_slice_is_escaped() -> None:
    assert escaped(pa.array(["<", "a", "&", None]).slice(1)).to_pylist() == ["a", "\\u0026", None]
