"""Typed columns: every kind, its ends, and what has no typed form."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal
from typing import Any, get_args

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Column, Kind, TableName, TableSchema
from spark_merge.codecs.encode.block import of_changes, of_chunk
from spark_merge.codecs.encode.typed import arrow_type, dictionary_columns, file_schema, typed
from spark_merge.port.contract import ChunkPiece, Survivors
from tests.support.deliveries import DUE, ORDERS, SCHEMA, batches, change

Moment = dt.datetime

CASES: list[tuple[Column, pa.DataType, dict[str, Any]]] = [
    (Column("c", "int"), pa.int64(), {"-9223372036854775808": -(1 << 63), "9223372036854775807": (1 << 63) - 1, "0": 0}),
    (Column("c", "uint"), pa.uint64(), {"18446744073709551615": (1 << 64) - 1, "0": 0}),
    (Column("c", "bit", length=64), pa.uint64(), {"18446744073709551615": (1 << 64) - 1, "1": 1}),
    (Column("c", "float"), pa.float32(), {"3.4028234663852886e+38": 3.4028234663852886e38, "0.10000000149011612": 0.10000000149011612}),
    (Column("c", "double"), pa.float64(), {"1.7976931348623157e+308": 1.7976931348623157e308, "5e-324": 5e-324, "0.1": 0.1}),
    (Column("c", "decimal", length=10, scale=2), pa.decimal128(10, 2), {"-12345678.90": Decimal("-12345678.90"), "0.00": Decimal("0.00")}),
    (Column("c", "decimal", length=65, scale=30), pa.decimal256(65, 30), {f"{'9' * 35}.{'9' * 30}": Decimal(f"{'9' * 35}.{'9' * 30}")}),
    (Column("c", "decimal", scale=4), pa.decimal256(65, 4), {"1.0000": Decimal("1.0000")}),
    (
        Column("c", "date"),
        pa.date32(),
        {"0001-01-01": dt.date(1, 1, 1), "9999-12-31": dt.date(9999, 12, 31), "2024-02-29": dt.date(2024, 2, 29)},
    ),
    (Column("c", "datetime"), pa.timestamp("us"), {"1000-01-01 00:00:00": Moment(1000, 1, 1)}),
    (Column("c", "datetime", scale=6), pa.timestamp("us"), {"9999-12-31 23:59:59.999999": Moment.max}),
    (
        Column("c", "timestamp", scale=3),
        pa.timestamp("us", "UTC"),
        {"2038-01-19 03:14:07.120": Moment(2038, 1, 19, 3, 14, 7, 120000, dt.UTC)},
    ),
    (Column("c", "time", scale=6), pa.string(), {"-838:59:59.000000": "-838:59:59.000000"}),
    (Column("c", "year"), pa.int16(), {"0000": 0, "2155": 2155}),
    (Column("c", "binary"), pa.binary(), {"": b"", "00FF": b"\x00\xff", "0A": b"\n"}),
    (Column("c", "text"), pa.string(), {"": "", "漢\x00": "漢\x00"}),
    (Column("c", "enum", elements=("a", "b")), pa.string(), {"a": "a"}),
    (Column("c", "set", elements=("a", "b")), pa.string(), {"a,b": "a,b"}),
    (Column("c", "json"), pa.string(), {'{"a": 1}': '{"a": 1}'}),
    (Column("c", "vector"), pa.string(), {"[1,2.5]": "[1,2.5]"}),
]


def table_of(columns: dict[str, list[str | None]], *kinds: Column) -> pa.Table:
    schema = TableSchema(ORDERS, kinds, ())
    rows = pa.table({name: pa.array(texts, pa.string()) for name, texts in columns.items()})
    survivors = Survivors(rows, pa.array(range(rows.num_rows), pa.int64()), 0)
    return typed(of_chunk(schema, 7, ChunkPiece(DUE, survivors)), file_schema(schema))


def values_of(table: pa.Table, name: str) -> list[Any]:
    results: list[Any] = table.column(name).to_pylist()
    return results


@pytest.mark.parametrize(("column", "kind", "values"), CASES, ids=lambda case: str(case) if isinstance(case, pa.DataType) else "")
def test_every_kind_has_its_type_and_values(column: Column, kind: pa.DataType, values: dict[str, Any]) -> None:
    table = table_of({"c": [None, *values, None]}, column)
    assert table.schema.field("c").type == kind
    assert values_of(table, "c") == [None, *values.values(), None]
    assert values_of(table, "_untyped") == [None] * table.num_rows


@pytest.mark.parametrize(("column", "kind", "values"), CASES, ids=lambda case: str(case) if isinstance(case, pa.DataType) else "")
def test_every_type_goes_through_parquet(column: Column, kind: pa.DataType, values: dict[str, Any]) -> None:
    table = table_of({"c": [None, *values]}, column)
    out = pa.BufferOutputStream()
    pq.write_table(table, out)
    assert pq.read_table(pa.BufferReader(out.getvalue())).column("c").to_pylist() == [None, *values.values()]


def test_the_cases_name_every_kind() -> None:
    assert {column.kind for column, _, _ in CASES} == set(get_args(Kind))


def test_a_float_is_the_one_that_its_text_was_made_of() -> None:
    assert values_of(table_of({"c": ["0.1"]}, Column("c", "float")), "c")[0] == pytest.approx(0.1, abs=1e-8)
    assert math.copysign(1, values_of(table_of({"c": ["-0"]}, Column("c", "double")), "c")[0]) == -1


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (Column("c", "date"), "0000-00-00"),
        (Column("c", "date"), "2020-00-10"),
        (Column("c", "date"), "2020-02-30"),
        (Column("c", "date"), "0000-01-01"),
        (Column("c", "datetime"), "0000-00-00 00:00:00"),
        (Column("c", "datetime", scale=6), "2020-10-00 01:02:03.000004"),
        (Column("c", "datetime"), "2021-02-29 01:02:03"),
        (Column("c", "datetime"), "0000-06-01 01:02:03"),
        (Column("c", "timestamp", scale=1), "0000-00-00 00:00:00.0"),
    ],
)
def test_a_date_of_no_calendar_is_null_and_its_text_is_kept(column: Column, text: str) -> None:
    real = text.replace("0000-", "2020-").replace("-00", "-01").replace("-30", "-28").replace("-29", "-28")
    table = table_of({"c": [real, text, None, real]}, column)
    assert [value is None for value in values_of(table, "c")] == [False, True, True, False]
    assert [None if item is None else json.loads(item) for item in values_of(table, "_untyped")] == [None, {"c": text}, None, None]


def test_untyped_holds_all_such_columns_of_a_row_and_no_other() -> None:
    columns: dict[str, list[str | None]] = {
        'a"\\é': ["0000-00-00", "2020-01-01", "0000-00-00"],
        "b": ["0000-00-00 00:00:00", "0000-00-00 00:00:00", None],
        "c": ["1", "2", "3"],
    }
    table = table_of(columns, Column('a"\\é', "date"), Column("b", "datetime"), Column("c", "int"))
    assert [json.loads(text) for text in values_of(table, "_untyped")] == [
        {'a"\\é': "0000-00-00", "b": "0000-00-00 00:00:00"},
        {"b": "0000-00-00 00:00:00"},
        {'a"\\é': "0000-00-00"},
    ]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("int", "1.5"), ("uint", "-1"), ("double", "x"), ("decimal", "1.23456"), ("date", "yesterday"), ("date", "0000-x\""),
        ("datetime", "2020-01-01 00:00:00.1234567"), ("binary", "ABC"), ("binary", "GG"), ("year", "99999"),
    ],
)  # fmt: skip
def test_a_text_that_is_no_value_stops(kind: Kind, text: str) -> None:
    with pytest.raises(SinkError, match=rf"shop\.orders\.c in segment 7 holds a text that is no {kind}"):
        table_of({"c": ["0000-00-00" if kind == "date" else None, text]}, Column("c", kind, scale=2))


def test_hex_of_odd_lengths_does_not_run_into_the_next_value() -> None:
    with pytest.raises(SinkError, match="odd number of hex digits"):
        table_of({"c": ["A", "BCD"]}, Column("c", "binary"))


@given(st.lists(st.none() | st.binary()), st.integers(0, 3))
def test_any_bytes_come_back_from_hex(values: list[bytes | None], skipped: int) -> None:
    texts = [None if value is None else value.hex().upper() for value in values]
    rows = pa.table({"c": pa.array(texts, pa.string()).slice(skipped)})
    schema = TableSchema(ORDERS, (Column("c", "binary"),), ())
    survivors = Survivors(rows, pa.array(range(rows.num_rows), pa.int64()), 0)
    table = typed(of_chunk(schema, 7, ChunkPiece(DUE, survivors)), file_schema(schema))
    assert values_of(table, "c") == values[skipped:]


@given(st.lists(st.datetimes(min_value=Moment(1, 1, 1), max_value=Moment.max)), st.booleans())
def test_any_datetime_comes_back_also_beside_a_zero_date(moments: list[Moment], zero: bool) -> None:
    texts = [moment.isoformat(sep=" ", timespec="microseconds") for moment in moments] + ["0000-00-00 00:00:00.000000"] * zero
    table = table_of({"c": texts}, Column("c", "datetime", scale=6))  # type: ignore[dict-item]  # list is invariant
    assert values_of(table, "c") == moments + [None] * zero


def test_the_image_is_the_new_one_and_of_a_deleted_row_the_old_one() -> None:
    rows = [change(7, 1, after=["1", None]), change(7, 2, before=["2", "b"]), change(7, 3, before=["3", "c"], after=["3", "d"])]
    [batch] = batches(rows, rows_max=10)
    table = typed(of_changes(SCHEMA, 7, batch), file_schema(SCHEMA))
    assert list(zip(values_of(table, "_op"), values_of(table, "id"), values_of(table, "name"), strict=True)) == [
        ("insert", 1, None),
        ("delete", 2, "b"),
        ("update", 3, "d"),
    ]


def test_the_envelope_comes_first_and_the_metadata_reports_its_prefix() -> None:
    schema = file_schema(SCHEMA)
    assert schema.names == ["_seq", "_ordinal", "_commit_ts", "_op", "_origin", "_dump_id", "_untyped", "id", "name"]
    assert json.loads(schema.metadata[b"ticdc-dump"]) == {"schema": "shop", "table": "orders", "key": ["id"], "prefix": "_"}


def test_an_envelope_name_that_a_column_has_gives_way() -> None:
    columns = (Column("_SEQ", "int"), Column("__op", "int"), Column("id", "int"))
    schema = file_schema(TableSchema(TableName("s", "t"), columns, ("id",)))
    assert schema.names[:7] == [f"___{name}" for name in ["seq", "ordinal", "commit_ts", "op", "origin", "dump_id", "untyped"]]
    assert schema.names[7:] == ["_SEQ", "__op", "id"]
    assert set(dictionary_columns(TableSchema(TableName("s", "t"), columns, ("id",)))) <= set(schema.names)


def test_a_decimal_within_38_digits_is_one_that_spark_reads() -> None:
    assert arrow_type(Column("c", "decimal", length=38, scale=10)) == pa.decimal128(38, 10)
    assert arrow_type(Column("c", "decimal", length=39, scale=10)) == pa.decimal256(39, 10)
