"""TableInfo of a real cluster, and made by hand for what it does not hold."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.model.nouns import Column, TableName, TableSchema
from sidecar.shared.rowcodec.table_info import table_schema
from tests.support.recordings import recording

RECORDINGS = ("demo", "shop", "shop-new", "ddl", "ddl-new", "restart", "large", "rowformats", "filter", "tz")


def col(name: str, offset: int, tp: int, *, flag: int = 0, state: int = 5, virtual: bool = False, **field_type: Any) -> dict[str, Any]:
    return {
        "name": {"O": name, "L": name.lower()},
        "offset": offset,
        "state": state,
        "generated_expr_string": "x" if virtual else "",
        "generated_stored": False,
        "type": {"Tp": tp, "Flag": flag, "Flen": 11, "Decimal": -1, "Charset": "binary", "Elems": None} | field_type,
    }


def index(id_: int, *columns: str, unique: bool = True, primary: bool = False, state: int = 5) -> dict[str, Any]:
    names = [{"name": {"O": name}, "length": -1} for name in columns]
    return {"id": id_, "idx_cols": names, "is_unique": unique, "is_primary": primary, "state": state}


def info(*cols: dict[str, Any], indexes: list[dict[str, Any]] | None = None, pk_is_handle: bool = False) -> dict[str, Any]:
    return {"name": {"O": "T", "L": "t"}, "cols": list(cols), "index_info": indexes, "pk_is_handle": pk_is_handle}


def key(*cols: dict[str, Any], indexes: list[dict[str, Any]] | None = None, pk_is_handle: bool = False) -> tuple[str, ...]:
    return table_schema(info(*cols, indexes=indexes, pk_is_handle=pk_is_handle), schema="s").key


@pytest.mark.recordings
@pytest.mark.parametrize("name", RECORDINGS)
def test_keys_are_those_that_ticdc_used(name: str) -> None:
    folder = recording(name)
    about = json.loads((folder / "recording.json").read_bytes())
    result = {
        table: table_schema(
            json.loads((folder / "schema" / about["end_ts"] / f"{about['database']}.{table}.json").read_bytes()), schema=about["database"]
        ).key
        for table in about["keys"]
    }
    assert result == {table: tuple(key or ()) for table, key in about["keys"].items()}


def test_kinds_of_a_real_table_with_every_type() -> None:
    folder = recording("demo")
    start = json.loads((folder / "recording.json").read_bytes())["start_ts"]
    schema = table_schema(json.loads((folder / "schema" / start / "shop.kinds.json").read_bytes()), schema="shop")
    columns = {column.name: column for column in schema.columns}
    assert columns["c_ubig"] == Column("c_ubig", "uint")
    assert columns["c_dec65"] == Column("c_dec65", "decimal", length=65, scale=30)
    assert columns["c_bin"] == Column("c_bin", "binary", length=6)
    assert columns["c_varbin"] == Column("c_varbin", "binary")
    assert columns["c_tinyblob"].kind == "binary"
    assert columns["c_gbk"].kind == columns["c_longtext"].kind == "text"
    assert columns["c_ts3"] == Column("c_ts3", "timestamp", scale=3)
    assert columns["c_time6"] == Column("c_time6", "time", scale=6)
    assert columns["c_enum"] == Column("c_enum", "enum", elements=("a", "", "B b", "ü"))
    assert columns["c_set"] == Column("c_set", "set", elements=("x", "y", "z w"))
    assert columns["c_bit64"] == Column("c_bit64", "bit", length=64)
    assert columns["id"] == Column("id", "int", nullable=False)


def test_columns_are_the_public_ones_in_offset_order_without_virtual_ones() -> None:
    schema = table_schema(info(col("b", 1, 3), col("A", 0, 3), col("v", 2, 3, virtual=True), col("w", 3, 3, state=3)), schema="s")
    assert schema == TableSchema(TableName("s", "T"), (Column("A", "int"), Column("b", "int")), ())


def test_the_primary_key_comes_before_any_unique_key() -> None:
    columns = [col("a", 0, 3, flag=1), col("b", 1, 3, flag=1)]
    assert key(*columns, indexes=[index(1, "a"), index(2, "b", "a", primary=True)]) == ("b", "a")
    assert key(col("a", 0, 3, flag=1), col("b", 1, 3, flag=3), indexes=[index(1, "a")], pk_is_handle=True) == ("b",)


def test_of_unique_keys_the_one_with_fewest_columns_then_smallest_id_is_taken() -> None:
    columns = [col(name, offset, 3, flag=1) for offset, name in enumerate("abc")]
    assert key(*columns, indexes=[index(1, "a", "b"), index(4, "b"), index(3, "c")]) == ("c",)


@pytest.mark.parametrize(
    "unusable",
    [index(1, "nullable"), index(1, "a", "nullable"), index(1, "virtual"), index(1, "a", unique=False), index(1, "a", state=3)],
)
def test_keys_that_cannot_be_the_handle_are_passed_over(unusable: dict[str, Any]) -> None:
    columns = [col("a", 0, 3, flag=1), col("nullable", 1, 3), col("virtual", 2, 3, flag=1, virtual=True)]
    assert key(*columns, indexes=[unusable]) == ()


def test_an_unknown_type_is_refused_by_table_and_column() -> None:
    with pytest.raises(FeedUnsuitable, match=r"table s.T, column g: type 255 is unknown\n  what to do: leave the table out"):
        table_schema(info(col("g", 0, 255)), schema="s")


def test_a_text_column_with_the_binary_attribute_is_refused() -> None:
    with pytest.raises(FeedUnsuitable, match=r"table s.T, column c: a text column with the BINARY attribute"):
        table_schema(info(col("c", 0, 15, flag=128, Charset="utf8mb4")), schema="s")


def test_a_table_info_without_its_fields_is_refused() -> None:
    with pytest.raises(FeedUnsuitable, match=r"the table info of s.None lacks or breaks a field: KeyError"):
        table_schema({}, schema="s")
    with pytest.raises(FeedUnsuitable, match=r"the table info of s.*lacks or breaks a field: ValueError"):
        table_schema(info({**col("c", 0, 3), "offset": "x"}), schema="s")
