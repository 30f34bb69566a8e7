"""A table's Avro schemas: what TiCDC writes wrong, and what cannot be written. All else: test_avro.py, against a slow writer."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import TableSchema
from spark_merge.codecs.encode.avro_columns import NULL_FIRST, NULL_LAST
from spark_merge.codecs.encode.avro_schema import AvroShape, avro_table
from tests.support import slow_canal


def with_default(type_text: str, default: str | None) -> TableSchema:
    schema = slow_canal.table({"id": "int(11)", "c": type_text}, ("id",))
    assert schema.definition is not None
    first, second = schema.definition.columns
    return replace(schema, definition=replace(schema.definition, columns=(first, replace(second, default=default))))


def field(type_text: str, default: str | None, shape: AvroShape = AvroShape()) -> Any:  # noqa: B008  (it is frozen)
    return json.loads(avro_table(with_default(type_text, default), shape).value_schema)["fields"][1]


@pytest.mark.parametrize(
    ("type_text", "sql", "default"),
    [
        ("int(11)", "(nextval(`s`.`q`))", None),
        ("int(11)", "NULL", None),
        ("bit(9)", "b'100000001'", "\x01\x01"),
        ("binary(4)", "'aÿ'", "a\xc3\xbf"),
        ("varbinary(9)", "(uuid_to_bin(uuid()))", None),
        ("varchar(20)", "(uuid())", "uuid()"),
    ],
)
def test_a_default_is_one_of_avro(type_text: str, sql: str, default: Any) -> None:
    made = field(type_text, sql)
    assert made["default"] == default
    assert (made["type"][0] == "null") is (default is None)


def test_a_default_moves_null_behind_the_value() -> None:
    unions = [avro_table(with_default("int(11)", default), AvroShape()).value[1].union for default in (None, "'7'")]
    assert unions == [NULL_FIRST, NULL_LAST]


def test_a_default_that_no_long_holds_stops() -> None:
    with pytest.raises(SinkError, match="column c: its default 18446744073709551615 fits no long of Avro"):
        field("bigint(20) unsigned", "'18446744073709551615'")
    shape = AvroShape(unsigned_as_text=True)
    assert field("bigint(20) unsigned", "'18446744073709551615'", shape)["default"] == "18446744073709551615"


def test_the_digits_of_a_decimal_are_those_of_its_type_where_the_column_does_not_say_them() -> None:
    schema = with_default("decimal(20,4)", None)
    schema = replace(schema, columns=(schema.columns[0], replace(schema.columns[1], length=-1)))
    made = json.loads(avro_table(schema, AvroShape()).value_schema)["fields"][1]["type"][1]
    assert (made["precision"], made["scale"]) == (20, 4)


def test_a_table_without_a_definition_stops() -> None:
    with pytest.raises(SinkError, match="does not tell what"):
        avro_table(replace(with_default("int(11)", None), definition=None), AvroShape())
