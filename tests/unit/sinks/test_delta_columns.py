"""Where a table's columns are in its Delta table: by name and type, also after the table was changed."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Column, TableName, TableSchema
from spark_merge.sinks.delta.columns import DeltaColumn, Layout, Mode, delta_type, layout_of
from spark_merge.sinks.delta.places import NAME_BYTES_MAX, table_place

NAME = TableName("shop", "orders")
TEXT, INT = Column("c", "text"), Column("c", "int")


def of(*columns: Column) -> TableSchema:
    return TableSchema(NAME, columns, (columns[0].name,))


def after(there: list[DeltaColumn], schema: TableSchema, mode: Mode = "append") -> tuple[Layout, list[DeltaColumn]]:
    layout = layout_of(schema, there, mode)
    return layout, [*there, *layout.missing]


def names(layout: Layout) -> list[str]:
    return [column.name for column in layout.columns]


def test_a_new_table_has_the_envelope_and_the_columns() -> None:
    layout, there = after([], of(Column("id", "int"), TEXT))
    assert [column.name for column in there] == ["_seq", "_ordinal", "_commit_ts", "_op", "_origin", "_dump_id", "_untyped", "id", "c"]
    assert layout.files().names == [column.name for column in there]
    merged, there = after([], of(Column("id", "int"), TEXT), "merge")
    assert [column.name for column in there] == ["_commit_ts", "_untyped", "id", "c"]
    assert merged.missing == tuple(there)


def test_what_is_there_is_missing_no_more() -> None:
    schema = of(Column("id", "int"), TEXT)
    _, there = after([], schema)
    assert layout_of(schema, there, "append").missing == ()


def test_a_column_of_another_type_is_another_one_and_the_former_is_found_again() -> None:
    key = Column("id", "int")
    _, there = after([], of(key, TEXT))
    retyped, there = after(there, of(key, INT))
    assert names(retyped) == ["id", "c_2"]
    assert retyped.missing == (DeltaColumn("c_2", pa.int64(), "c"),)
    again, there = after(there, of(key, TEXT))
    assert names(again) == ["id", "c"]
    third, there = after(there, of(key, Column("C", "double"), Column("c_3", "int")))
    assert names(third) == ["id", "C_4", "c_3"]
    assert names(layout_of(of(key, Column("C", "int")), there, "append")) == ["id", "c_2"]


def test_a_column_named_as_the_envelope_comes_later_or_first() -> None:
    first, _ = after([], of(Column("_seq", "int")))
    assert (first.prefix, names(first)) == ("__", ["_seq"])
    _, there = after([], of(Column("id", "int")))
    later, _ = after(there, of(Column("id", "int"), Column("_Seq", "int")))
    assert (later.prefix, names(later)) == ("_", ["id", "_Seq_2"])


@pytest.mark.parametrize("name", ["a b", "a,b", "a`b", "a=b"])
def test_a_name_that_delta_does_not_take_is_refused_by_name(name: str) -> None:
    with pytest.raises(SinkError, match="cannot be a Delta column"):
        layout_of(of(Column(name, "int")), [], "append")


def test_a_table_that_is_none_of_ours_is_refused() -> None:
    with pytest.raises(SinkError, match="none that this sink made"):
        layout_of(of(INT), [DeltaColumn("c", pa.int64(), None)], "append")
    _, there = after([], of(INT))
    with pytest.raises(SinkError, match="none that this sink made"):
        layout_of(of(INT), [*there, DeltaColumn("mine", pa.null(), None)], "append")


def test_every_kind_has_a_type_that_delta_has() -> None:
    assert delta_type(Column("c", "uint")) == delta_type(Column("c", "bit", length=64)) == pa.decimal128(20, 0)
    assert delta_type(Column("c", "decimal", length=38, scale=30)) == pa.decimal128(38, 30)
    assert delta_type(Column("c", "decimal", length=39)) == delta_type(Column("c", "decimal")) == pa.string()


def test_a_place_has_no_letter_that_a_uri_or_an_engine_reads_otherwise() -> None:
    assert table_place(NAME) == "shop/orders"
    assert table_place(TableName("_log.json", "n ö%~")) == "~5Flog~2Ejson/n~20~C3~B6~25~7E"
    long, other = (table_place(TableName("s", "ö" * 63 + last)) for last in "ab")
    assert long != other
    assert len(long) <= NAME_BYTES_MAX + 2
