"""TableInfo to KvTable: ids, handles, partitions, and what an absent column means."""

from __future__ import annotations

import pickle
from base64 import b64encode
from typing import Any

import pytest

from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.rowcodec.kv_table import KvKeyPart, kv_table
from tests.support.kv_encoder import BINARY, NOT_NULL, column, info


def absent(value: dict[str, Any]) -> str | None:
    return kv_table(info([value]), schema="s").columns[0].absent


@pytest.mark.parametrize(
    ("type_", "more", "default", "text"),
    [
        ("int", {}, "42", "42"),
        ("int", {}, 42, "42"),
        ("bigint", {"unsigned": True}, "18446744073709551615", "18446744073709551615"),
        ("decimal", {"flen": 10, "decimal": 3}, "-1.5", "-1.500"),
        ("decimal", {"flen": 10, "decimal": 0}, "7", "7"),
        ("double", {}, "1e300", "1e+300"),
        ("varchar", {"collation": "utf8mb4_bin"}, "n/a", "n/a"),
        ("char", {"flen": 4}, "ab", "61620000"),
        ("datetime", {"decimal": 3}, "2026-11-21 03:40:41.131", "2026-11-21 03:40:41.131"),
        ("timestamp", {"decimal": 6}, "2026-11-21 03:40:41", "2026-11-21 03:40:41.000000"),
        ("time", {"decimal": 2}, "-01:02:03", "-01:02:03.00"),
        ("date", {}, "2020-02-29", "2020-02-29"),
        ("year", {}, "2024", "2024"),
        ("enum", {"elems": ["a", "b"]}, "b", "b"),
        ("set", {"elems": ["a", "b"]}, "a,b", "a,b"),
    ],
)
@pytest.mark.parametrize("flag", [0, NOT_NULL])
def test_an_absent_column_has_its_origin_default(type_: str, more: dict[str, Any], default: Any, text: str, flag: int) -> None:
    assert absent(column(1, "a", type_, flag=flag, origin_default=default, **more)) == text


def test_the_origin_default_of_a_bit_is_in_bytes() -> None:
    bits = b64encode(b"\x01\x02").decode()
    assert absent(column(1, "a", "bit", flen=12, origin_default="\x01\x02", origin_default_bit=bits)) == "258"


def test_without_a_default_an_absent_column_is_null() -> None:
    assert absent(column(1, "a", "int")) is None


@pytest.mark.parametrize(
    ("type_", "more", "text"),
    [
        ("int", {}, "0"),
        ("double", {}, "0.0"),
        ("decimal", {"flen": 5, "decimal": 2}, "0.00"),
        ("varchar", {"collation": "utf8mb4_bin"}, ""),
        ("char", {"flen": 3}, "000000"),
        ("blob", {}, ""),
        ("date", {}, "0000-00-00"),
        ("datetime", {"decimal": 1}, "0000-00-00 00:00:00.0"),
        ("time", {}, "00:00:00"),
        ("year", {}, "0000"),
        ("enum", {"elems": ["x", "y"]}, "x"),
        ("set", {"elems": ["x", "y"]}, ""),
        ("bit", {"flen": 3}, "0"),
        ("json", {}, "null"),
        ("vector", {}, "[]"),
    ],
)
def test_without_a_default_an_absent_not_null_column_is_ticdcs_zero(type_: str, more: dict[str, Any], text: str) -> None:
    assert absent(column(1, "a", type_, flag=NOT_NULL, **more)) == text


def test_a_timestamp_default_of_an_unknown_time_zone_is_refused() -> None:
    result = column(1, "a", "timestamp", origin_default="2016-01-01 00:00:00", version=0)
    with pytest.raises(FeedUnsuitable, match="time zone of a TiDB before"):
        absent(result)
    assert absent(result | {"origin_default": "0000-00-00 00:00:00"}) == "0000-00-00 00:00:00"


def test_columns_that_are_not_public_or_virtual_are_left_out() -> None:
    table = kv_table(
        info(
            [
                column(1, "a", "int"),
                column(2, "hidden", "int", state=3),
                column(5, "virtual", "int", generated_expr_string="`a` + 1"),
                column(6, "stored", "int", generated_expr_string="`a` + 1", generated_stored=True),
            ]
        ),
        schema="s",
    )
    assert [item.id for item in table.columns] == [1, 6]
    assert table.schema.column_names() == ("a", "stored")


def test_the_binary_attribute_of_a_text_does_no_harm() -> None:
    table = kv_table(info([column(1, "a", "varchar", collation="utf8mb4_bin", flag=BINARY)]), schema="s")
    assert table.columns[0].column.kind == "text"


def test_partitions_are_the_table_and_the_logical_id_is_not() -> None:
    partition = {"enable": True, "definitions": [{"id": 1}, {"id": 2}], "adding_definitions": [{"id": 3}], "dropping_definitions": None}
    columns = [column(1, "a", "int")]
    assert kv_table(info(columns, partition=partition), schema="s").physical_ids == {1, 2, 3}
    assert kv_table(info(columns, partition=partition | {"enable": False}), schema="s").physical_ids == {104}


def test_key_parts_say_which_columns_the_key_reports() -> None:
    columns = [
        column(1, "a", "int", flag=NOT_NULL),
        column(2, "ci", "varchar", collation="utf8mb4_general_ci", flag=NOT_NULL),
        column(3, "p", "varchar", flag=NOT_NULL),
    ]
    table_info = info(columns, primary=[("ci", -1), ("a", -1), ("p", 3)])
    assert kv_table(table_info, schema="s").key_parts == (KvKeyPart(1, False), KvKeyPart(0, True), KvKeyPart(2, False))
    old = kv_table(table_info, schema="s", new_collation=False)
    assert old.key_parts == (KvKeyPart(1, True), KvKeyPart(0, True), KvKeyPart(2, False))


@pytest.mark.parametrize("field", ["id", "cols", "pk_is_handle", "is_common_handle"])
def test_a_table_info_that_lacks_a_field_is_refused(field: str) -> None:
    broken = info([column(1, "a", "int")])
    del broken[field]
    with pytest.raises(FeedUnsuitable, match=field):
        kv_table(broken, schema="s")


def test_an_origin_default_that_is_no_value_is_refused() -> None:
    with pytest.raises(FeedUnsuitable, match="lacks or breaks a field"):
        absent(column(1, "a", "decimal", flen=5, decimal=1, origin_default="12345.6"))


def test_a_table_travels_to_a_task_and_can_be_a_key() -> None:
    table = kv_table(info([column(1, "a", "enum", elems=["x"])]), schema="s")
    assert {table: 1}[pickle.loads(pickle.dumps(table))] == 1


@pytest.mark.parametrize("softly", [{"softdelete_info": {"retention": "7"}}, {"is_active_active": True}])
def test_a_table_whose_rows_are_deleted_softly_is_refused_by_name(softly: dict[str, Any]) -> None:
    plain = info([column(1, "a", "int")])
    with pytest.raises(FeedUnsuitable, match=rf"s\.{plain['name']['O']}: rows of a SOFTDELETE table"):
        kv_table(plain | softly, schema="s")
    assert kv_table(plain | {"softdelete_info": None, "is_active_active": False}, schema="s") == kv_table(plain, schema="s")
