"""Digests of rows: equal for equal values however they are spelt, and not for others."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Column, Kind, TableName, TableSchema
from spark_merge.port.readable import RowsRead
from spark_merge.verify.digest import digests
from spark_merge.verify.look import difference


def hashes(kind: Kind, *texts: str | None) -> list[tuple[int, int]]:
    schema = TableSchema(TableName("s", "t"), (Column("id", "int"), Column("v", kind)), ("id",))
    rows = pa.table({"id": pa.array(["1"] * len(texts)), "v": pa.array(texts, pa.string())})
    result = digests(schema, RowsRead(rows))
    return list(zip(result["high"].to_pylist(), result["low"].to_pylist(), strict=True))


def are_equal(kind: Kind, one: str | None, other: str | None) -> bool:
    """For the second look; for the first one it is the same, also where the two are in batches apart."""
    schema = TableSchema(TableName("s", "t"), (Column("id", "int"), Column("v", kind)), ("id",))
    result = difference(schema, '["1"]', ("1", one), ("1", other)) is None
    first, second = hashes(kind, one, other)
    assert (first == second) is result
    assert hashes(kind, one) == [first]
    assert hashes(kind, other) == [second]
    return result


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        ("float", "0.1", "0.10000000149011612"),
        ("double", "1e+22", "1e22"),
        ("json", '{"a": 1, "b": [2.0]}', '{"b":[2],"a":1}'),
        ("json", '["\\ud800", 1.0]', '["\\uD800",1]'),
        ("json", '{"\\ud800": "\\u00e9"}', '{"\\ud800":"é"}'),
        ("json", "[" * 900 + "]" * 900, "[" * 900 + "]" * 900),
        ("json", "1e22", "10000000000000000000000"),
        ("text", None, None),
    ],
)
def test_equal_values_have_equal_digests(kind: Kind, one: str | None, other: str | None) -> None:
    assert are_equal(kind, one, other)


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        ("float", "0.1", "0.1000001"),
        ("double", "0.1", "0.10000000149011612"),
        ("double", "0.0", None),
        ("json", "1", "true"),
        ("json", "null", None),
        ("json", '"1"', "1"),
        ("json", '"\\ud800"', '"\\ud801"'),
        ("json", "[" * 900 + "]" * 900, "[" * 899 + "]" * 899),
        ("text", "", None),
        ("text", "K1", "k1"),
        ("decimal", "0.1000", "0.1001"),
    ],
)
def test_other_values_have_other_digests(kind: Kind, one: str | None, other: str | None) -> None:
    assert not are_equal(kind, one, other)


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("float", "0.1", "a tenth"), ("float", "0.1", ""), ("double", "0.1", "0,1"), ("double", None, "NULL"),
        ("json", '{"a": 1}', '{"a": 1'), ("json", '"x"', "x"), ("json", "null", ""), ("json", "[]", "[" * 5000), ("json", "1", "X'31'"),
    ],
)  # fmt: skip
def test_a_text_that_is_no_value_of_its_kind_is_a_difference(kind: Kind, value: str | None, text: str) -> None:
    """Somebody has put it into a sink; the rows beside it are still equal to the source's."""
    assert not are_equal(kind, value, text)
    assert are_equal(kind, value, value)
    assert hashes(kind, value, text)[0] == hashes(kind, value)[0]


def test_a_row_without_a_key_is_reported_as_what_it_is() -> None:
    schema = TableSchema(TableName("s", "t"), (Column("a", "int"), Column("b", "int")), ("a", "b"))
    rows = pa.table({"a": ["1", "1", None], "b": ["1", None, "2"]})
    with pytest.raises(SinkError, match=r"^2 rows of s\.t have NULL in a column of the key \(a, b\)"):
        digests(schema, RowsRead(rows))
