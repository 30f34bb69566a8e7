"""Typed columns as canonical text again: what typed.py made of a text comes back as it was, and what a later type makes of it."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Column, TableSchema
from spark_merge.codecs.encode.typed import arrow_type
from spark_merge.codecs.encode.untyped import texts
from tests.support.deliveries import ORDERS
from tests.unit.encode.test_typed import CASES, Moment, table_of

DATES = [
    (Column("c", "date"), ["0000-00-00", "2020-02-30", "2020-01-01"]),
    (Column("c", "datetime", scale=6), ["2020-10-00 01:02:03.000004", "0000-06-01 01:02:03.000000", "2020-01-01 00:00:00.000001"]),
    (Column("c", "datetime"), ["0000-00-00 00:00:00", "1000-01-01 00:00:00"]),
    (Column("c", "timestamp", scale=1), ["0000-00-00 00:00:00.0", "2020-01-01 00:00:00.1"]),
]
SMALL = ["0.00000000", "0.00000001", "-0.00000001", "-12.00000001", "0.00000010", "123456789012.00000000"]


def back(written: dict[str, list[str | None]], *columns: Column, read_as: tuple[Column, ...] = ()) -> dict[str, list[str | None]]:
    """Through the file's types."""
    typed = table_of(written, *columns)
    schema = TableSchema(ORDERS, read_as or columns, ())
    result = texts(typed.select(typed.column_names[7:]), schema, typed.column(6), written_as=[(column.name,) for column in columns])
    assert result.schema == pa.schema([(name, pa.string()) for name in schema.column_names()])
    return {name: result.column(name).to_pylist() for name in result.column_names}


@pytest.mark.parametrize(
    ("column", "values"),
    [(column, list(values)) for column, _, values in CASES]
    + DATES
    + [(Column("c", "decimal", length=20, scale=8), SMALL), (Column("c", "decimal", length=60, scale=8), SMALL)],
    ids=str,
)
def test_every_text_comes_back_as_it_was(column: Column, values: list[str]) -> None:
    assert back({"c": [None, *values, None]}, column)["c"] == [None, *values, None]
    assert back({"c": [None]}, column)["c"] == [None]
    assert back({"c": []}, column)["c"] == []


@given(st.lists(st.none() | st.floats(allow_nan=False, allow_infinity=False)))
def test_any_double_comes_back(values: list[float | None]) -> None:
    written = [None if value is None else repr(value) for value in values]
    assert back({"c": written}, Column("c", "double"))["c"] == written


@given(st.integers(1, 65).flatmap(lambda digits: st.tuples(st.just(digits), st.integers(0, min(digits, 30)))), st.data())
def test_any_decimal_comes_back(kind: tuple[int, int], data: st.DataObject) -> None:
    digits, scale = kind
    numbers = data.draw(st.lists(st.none() | st.integers(-(10**digits) + 1, 10**digits - 1)))
    column = Column("c", "decimal", length=digits, scale=scale)
    written = [None if number is None else _decimal(number, scale) for number in numbers]
    assert back({"c": written}, column)["c"] == written


def _decimal(number: int, scale: int) -> str:
    digits = f"{abs(number):0{scale + 1}}"
    return ("-" if number < 0 else "") + (f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits)


@given(st.lists(st.none() | st.binary()), st.lists(st.none() | st.datetimes(min_value=Moment(1, 1, 1))), st.integers(0, 3))
def test_any_bytes_and_moments_come_back_from_a_slice(found: list[bytes | None], moments: list[dt.datetime | None], skipped: int) -> None:
    size = min(len(found), len(moments))
    columns = (Column("b", "binary"), Column("d", "datetime", scale=6))
    table = pa.table({"x": pa.array(found[:size], pa.binary()), "y": pa.array(moments[:size], pa.timestamp("us"))}).slice(skipped)
    there = texts(table, TableSchema(ORDERS, columns, ()))
    assert there.column("b").to_pylist() == [None if one is None else one.hex().upper() for one in found[:size]][skipped:]
    texts_of = [None if one is None else one.isoformat(sep=" ", timespec="microseconds") for one in moments[:size]]
    assert there.column("d").to_pylist() == texts_of[skipped:]


def test_values_without_a_typed_form_come_back_by_the_names_that_columns_had() -> None:
    columns = (Column('a"\\é', "date"), Column("b", "datetime"))
    now = (Column("b", "date"), Column('a"\\é', "datetime", scale=3))
    written: dict[str, list[str | None]] = {'a"\\é': ["0000-00-00", None], "b": ["0000-00-00 00:00:00", "2020-01-01 00:00:00"]}
    assert back(written, *columns, read_as=now) == {
        "b": ["0000-00-00", None],
        'a"\\é': ["0000-00-00 00:00:00.000", "2020-01-01 00:00:00.000"],
    }


@pytest.mark.parametrize(
    ("previous", "value", "column", "expected"),
    [
        (Column("c", "uint"), "7", Column("c", "int"), "7"),
        (Column("c", "year"), "0007", Column("c", "int"), "7"),
        (Column("c", "year"), "0007", Column("c", "text"), "0007"),
        (Column("c", "int"), "-7", Column("c", "text"), "-7"),
        (Column("c", "int"), "-7", Column("c", "decimal", length=9, scale=2), "-7.00"),
        (Column("c", "decimal", length=20, scale=8), "0.00000001", Column("c", "decimal", length=60, scale=10), "0.0000000100"),
        (Column("c", "decimal", length=9, scale=2), "1.50", Column("c", "text"), "1.50"),
        (Column("c", "date"), "0000-00-00", Column("c", "text"), "0000-00-00"),
        (Column("c", "datetime"), "0000-00-00 00:00:00", Column("c", "datetime", scale=2), "0000-00-00 00:00:00.00"),
        (Column("c", "datetime", scale=6), "2020-01-01 00:00:00.120000", Column("c", "datetime", scale=2), "2020-01-01 00:00:00.12"),
        (Column("c", "time"), "-838:59:59", Column("c", "time", scale=3), "-838:59:59.000"),
        (Column("c", "float"), "0.10000000149011612", Column("c", "double"), "0.10000000149011612"),
        (Column("c", "double"), "0.5", Column("c", "float"), "0.5"),
    ],
    ids=str,
)
def test_a_value_is_what_tidb_made_of_it_when_its_columns_type_changed(previous: Column, value: str, column: Column, expected: str) -> None:
    assert back({"c": [None, value]}, previous, read_as=(column,))["c"] == [None, expected]


@pytest.mark.parametrize(
    ("previous", "value", "column"),
    [
        (Column("c", "text"), "7", Column("c", "int")),
        (Column("c", "text"), "7", Column("c", "double")),
        (Column("c", "double"), "0.1", Column("c", "float")),
        (Column("c", "double"), "0.1", Column("c", "text")),
        (Column("c", "decimal", length=9, scale=2), "1.50", Column("c", "decimal", length=9, scale=1)),
        (Column("c", "decimal", length=60, scale=2), "1.50", Column("c", "decimal", length=60, scale=1)),
        (Column("c", "datetime", scale=6), "2020-01-01 00:00:00.123456", Column("c", "datetime", scale=2)),
        (Column("c", "datetime", scale=6), "2020-01-01 00:00:00.123456", Column("c", "datetime")),
        (Column("c", "datetime"), "2020-01-01 00:00:00", Column("c", "text")),
        (Column("c", "datetime"), "2020-01-01 00:00:00", Column("c", "timestamp")),
        (Column("c", "time", scale=6), "00:00:00.123456", Column("c", "time", scale=3)),
        (Column("c", "binary"), "00FF", Column("c", "text")),
    ],
    ids=str,
)
def test_a_value_that_tidb_may_have_made_another_of_is_refused(previous: Column, value: str, column: Column) -> None:
    with pytest.raises(SinkError, match=rf"shop\.orders\.c has values that are none of a {column.kind}"):
        back({"c": [value]}, previous, read_as=(column,))


@pytest.mark.parametrize(("column", "kind", "values"), CASES, ids=lambda case: str(case) if isinstance(case, pa.DataType) else "")
def test_other_programs_types_are_read_as_ours(column: Column, kind: pa.DataType, values: dict[str, object]) -> None:
    """What Spark and delta-rs make of a file that they write again."""
    result = table_of({"c": list(values)}, column).column("c")
    others = {
        pa.string(): [pa.large_string(), pa.string_view()],
        pa.binary(): [pa.large_binary()],
        pa.timestamp("us"): [pa.timestamp("ms")],
    }
    for other in others.get(kind, []):
        if column.scale <= 3 or kind != pa.timestamp("us"):
            table = pa.table({"c": pc.cast(result, other)})
            assert texts(table, TableSchema(ORDERS, (column,), ())).column("c").to_pylist() == list(values)
    if kind == pa.string():
        table = pa.table({"c": result.dictionary_encode()})
        assert texts(table, TableSchema(ORDERS, (column,), ())).column("c").to_pylist() == list(values)
    assert arrow_type(column) == kind
