"""Against what Go itself wrote: encoding/json of Go 1.26 and jsoniter 1.1.12 (tests/data/go/json.json)."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_merge.codecs.encode.go_json import floats, quoted, string, strings
from tests.unit.encode import open_slow

GO = json.loads((Path(__file__).parents[2] / "data" / "go" / "json.json").read_text())
BY = {True: "classic", False: "new"}


@pytest.mark.parametrize("html", [True, False])
def test_strings_are_those_of_go(html: bool) -> None:
    texts = [text for text, _, _ in GO["strings"]]
    expected = [by_html if html else by_jsoniter for _, by_html, by_jsoniter in GO["strings"]]
    assert strings(pa.array(texts), html=html).to_pylist() == expected
    assert [string(text, html=html) for text in texts] == expected


@pytest.mark.parametrize("html", [True, False])
@pytest.mark.parametrize(("kind", "bits"), [("doubles", 64), ("floats", 32)])
def test_floats_are_those_of_go(kind: str, bits: int, html: bool) -> None:
    texts = [repr(float(text)) for text, _, _ in GO[kind]]
    expected = [by_html if html else by_jsoniter for _, by_html, by_jsoniter in GO[kind]]
    assert floats(pa.array(texts), bits=bits, html=html).to_pylist() == expected
    assert [floats(pa.array([text]), bits=bits, html=html)[0].as_py() for text in texts] == expected


@given(st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"]))), st.booleans())
def test_strings_are_those_written_letter_by_letter(texts: list[str | None], html: bool) -> None:
    expected = [None if text is None else open_slow.text_json(text, BY[html]) for text in texts]  # type: ignore[arg-type]  # a str
    assert strings(pa.array(texts, pa.string()), html=html).to_pylist() == expected


@given(st.lists(st.none() | st.floats(allow_nan=False, allow_infinity=False)), st.booleans())
def test_doubles_have_their_shortest_digits(numbers: list[float | None], html: bool) -> None:
    texts = pa.array([None if number is None else repr(number) for number in numbers], pa.string())
    expected = [None if number is None else open_slow.float_json(repr(number), 64, BY[html]) for number in numbers]  # type: ignore[arg-type]
    assert floats(texts, bits=64, html=html).to_pylist() == expected


@given(st.lists(st.none() | st.floats(allow_nan=False, allow_infinity=False, width=32)), st.booleans())
def test_floats_have_the_digits_of_32_bits(numbers: list[float | None], html: bool) -> None:
    texts = pa.array([None if number is None else repr(number) for number in numbers], pa.string())
    expected = [None if number is None else open_slow.float_json(repr(number), 32, BY[html]) for number in numbers]  # type: ignore[arg-type]
    assert floats(texts, bits=32, html=html).to_pylist() == expected


@pytest.mark.parametrize("text", ["x", "", "nan", "inf", "-inf"])
def test_what_is_no_number_of_json_is_refused(text: str) -> None:
    with pytest.raises(pa.ArrowInvalid):
        floats(pa.array([text]), bits=64, html=True)


def test_nulls_stay_null_and_slices_are_read_in_place() -> None:
    texts = pa.array(["skipped", None, 'a"b', "c"]).slice(1)
    assert quoted(texts).to_pylist() == [None, '"a"b"', '"c"']
    assert strings(texts, html=True).to_pylist() == [None, '"a\\"b"', '"c"']
    assert floats(pa.array(["1", None, "1e300"]).slice(1), bits=64, html=True).to_pylist() == [None, "1e+300"]
