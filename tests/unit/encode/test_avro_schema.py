"""A table's Avro schemas: what TiCDC writes wrong, and what cannot be written. All else: test_avro.py, against a slow writer."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any

import fastavro
import pytest
from fastavro.read import SchemaResolutionError

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


def schema_of(type_text: str | None, default: str | None = None, *, nullable: bool = True) -> Any:
    """Of a table with a column of that type, or without it."""
    if type_text is None:
        return json.loads(avro_table(slow_canal.table({"id": "int(11)"}, ("id",)), AvroShape()).value_schema)
    schema = with_default(type_text, default)
    columns = (schema.columns[0], replace(schema.columns[1], nullable=nullable))
    return json.loads(avro_table(replace(schema, columns=columns), AvroShape()).value_schema)


ROWS = {"id": 1, "c": 7}
INT, NOT_NULL = schema_of("int(11)"), schema_of("int(11)", nullable=False)


@pytest.mark.parametrize(
    ("before", "after", "backward", "forward"),
    [
        (schema_of(None), INT, True, True),
        (schema_of(None), NOT_NULL, False, True),
        (schema_of(None), schema_of("int(11)", "'7'", nullable=False), True, True),
        (INT, schema_of("bigint(20)"), True, False),
        (NOT_NULL, schema_of("varchar(9)", nullable=False), False, False),
    ],
)
def test_which_ddls_are_compatible_as_the_page_says(before: Any, after: Any, backward: bool, forward: bool) -> None:
    """deploy/AVRO.md, "Schema changes"; what drops a column is what adds one, the other way round."""

    def reads(writer: Any, reader: Any) -> bool:
        row = {one["name"]: ("7" if "string" in json.dumps(one["type"]) else ROWS[one["name"]]) for one in writer["fields"]}
        file = io.BytesIO()
        fastavro.schemaless_writer(file, fastavro.parse_schema(writer), row)
        file.seek(0)
        try:
            fastavro.schemaless_reader(file, fastavro.parse_schema(writer), fastavro.parse_schema(reader))
        except SchemaResolutionError:
            return False
        return True

    assert (reads(before, after), reads(after, before)) == (backward, forward)
