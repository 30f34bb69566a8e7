"""A column's canonical texts as canal-json has them: what random tables (test_canal_json.py) do not show by name."""

from __future__ import annotations

from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest

from sidecar.shared.columns.values import UnfitValue
from sidecar.shared.model.nouns import Column
from spark_merge.codecs.encode.canal_texts import canal_texts
from tests.lanes import examples
from tests.support.slow_canal import without_exponent

UTC = ZoneInfo("UTC")


def texts(values: list[str | None], kind: Any, zone: ZoneInfo = UTC, **more: Any) -> list[str | None]:
    results: list[str | None] = canal_texts(pa.array(values, pa.string()), Column("c", kind, **more), zone).to_pylist()
    return results


def test_floats_have_no_exponent() -> None:
    assert texts(["238.0", "0.1", "-0.0", "1e-07", "1e+16", None], "double") == ["238", "0.1", "-0", "0.0000001", "10000000000000000", None]
    assert texts(["3.4e+38", "0.16138063", "16777216.0"], "float") == ["340000000000000000000000000000000000000", "0.16138063", "16777216"]


def test_a_float_may_have_been_reported_by_its_double() -> None:
    assert texts(["0.16138062953948975", "11.989999771118164"], "float") == ["0.16138063", "11.99"]


@pytest.mark.parametrize("kind", ["float", "double"])
def test_floats_of_any_bits_have_the_shortest_digits(kind: str) -> None:
    random = Random(kind)
    single = kind == "float"
    count = examples(4000)
    frombuffer = np.frombuffer(random.randbytes(count * (4 if single else 8)), np.float32 if single else np.float64)
    numbers = [number for number in frombuffer if np.isfinite(number)]
    assert texts([repr(float(number)) for number in numbers], kind) == [without_exponent(str(number)) for number in numbers]


def test_bytes_are_read_as_latin_1_and_escaped() -> None:
    assert texts(["", "FF80", None, "00413C22"], "binary") == ["", "ÿ\x80", None, '\\u0000A\\u003c\\"']
    assert texts([None, None], "binary") == [None, None]
    everything = bytes(range(256))
    assert canal_texts(pa.array(["FF", everything.hex()]).slice(1), Column("c", "binary"), UTC)[0].as_py().startswith("\\u0000\\u0001")


def test_labels_are_numbers_and_masks() -> None:
    assert texts(["a", "B b", None], "enum", elements=("a", "B b")) == ["1", "2", None]
    assert texts(["", "b", "a,b", "a,c", None], "set", elements=("a", "b", "c")) == ["0", "2", "3", "5", None]
    labels = tuple(f"l{place}" for place in range(64))
    assert texts(["l63", ",".join(labels)], "set", elements=labels) == [str(1 << 63), str((1 << 64) - 1)]


def test_two_values_that_canonical_text_does_not_distinguish() -> None:
    """0 of an enum that has an empty label is told as the label; the set of the empty label alone as the empty set."""
    assert texts([""], "enum", elements=("a",)) == ["0"]
    assert texts([""], "enum", elements=("a", "")) == ["2"]
    assert texts(["", "a,"], "set", elements=("a", "")) == ["0", "3"]


def test_years_lose_leading_zeros_and_timestamps_move() -> None:
    assert texts(["0000", "1901", None], "year") == ["0", "1901", None]
    assert texts(["2024-01-01 00:00:00.5", None], "timestamp", ZoneInfo("Asia/Shanghai")) == ["2024-01-01 08:00:00.5", None]
    assert texts(["2024-01-01 00:00:00.5"], "datetime", ZoneInfo("Asia/Shanghai")) == ["2024-01-01 00:00:00.5"]


@pytest.mark.parametrize(
    ("kind", "values", "index", "reason"),
    [
        ("double", ["1.0", "x"], 1, "is not a number"),
        ("uint", ["18446744073709551615", "-1"], 1, "is not an unsigned integer"),
        ("year", ["99999"], 0, "is not a year"),
        ("binary", ["00", "0"], 1, "is not hexadecimal"),
        ("binary", ["00", None, "XY"], 2, "is not hexadecimal"),
        ("enum", [None, "z"], 1, "is no label of the enum"),
        ("set", ["a", "a,z"], 1, "holds what is no label of the set"),
        ("timestamp", ["2024-01-01 00:00:00", "now"], 1, "is not a timestamp"),
    ],
)
def test_what_is_no_text_of_its_kind_is_named(kind: str, values: list[str | None], index: int, reason: str) -> None:
    with pytest.raises(UnfitValue, match=reason) as refused:
        texts(values, kind, ZoneInfo("Asia/Shanghai"), elements=("a",))
    assert refused.value.index == index
