"""Connect types of columns, as Debezium's documentation has them."""

from __future__ import annotations

import pytest

from sidecar.shared.model.nouns import TableName
from spark_merge.codecs.encode.debezium_fields import DECIMAL, ConnectType, DebeziumOptions, fields_of_table, fits, table_name
from tests.unit.encode.debezium_tables import EVERY, KINDS, one_column

TYPES = {
    "tinyint(4)": "int16", "tinyint(3) unsigned": "int16", "smallint(6)": "int16", "smallint(5) unsigned": "int32", "mediumint(9)": "int32",
    "mediumint(8) unsigned": "int32", "int(11)": "int32", "int(10) unsigned": "int64", "bigint(20)": "int64",
    "bigint(20) unsigned": f"bytes {DECIMAL}", "float": "float", "float(7,4)": "double", "double": "double",
    "decimal(10,2)": f"bytes {DECIMAL}", "decimal(65,0)": f"bytes {DECIMAL}", "char(9)": "string", "longtext": "string",
    "binary(3)": "bytes", "longblob": "bytes", "enum('a','b,c','')": "string io.debezium.data.Enum",
    "set('a','b\\\\')": "string io.debezium.data.EnumSet", "bit(1)": "boolean", "bit(9)": "bytes io.debezium.data.Bits",
    "year(4)": "int32 io.debezium.time.Year", "date": "int32 io.debezium.time.Date", "time": "int64 io.debezium.time.MicroTime",
    "time(6)": "int64 io.debezium.time.MicroTime", "datetime": "int64 io.debezium.time.Timestamp",
    "datetime(3)": "int64 io.debezium.time.Timestamp", "datetime(4)": "int64 io.debezium.time.MicroTimestamp",
    "timestamp": "string io.debezium.time.ZonedTimestamp", "json": "string io.debezium.data.Json",
    "vector(3)": "array io.debezium.data.FloatVector",
}  # fmt: skip


@pytest.mark.parametrize("sql", TYPES)
def test_each_type_of_tidb_has_its_connect_type(sql: str) -> None:
    field = fields_of_table(one_column(sql), DebeziumOptions())[1]
    assert f"{field.type.type} {field.type.name}".strip() == TYPES[sql]


def test_parameters_say_what_a_name_does_not() -> None:
    def of(sql: str) -> dict[str, str]:
        return dict(fields_of_table(one_column(sql), DebeziumOptions())[1].type.parameters)

    assert of("decimal(10,2)") == {"scale": "2", "connect.decimal.precision": "10"}
    assert of("bigint(20) unsigned") == {"scale": "0", "connect.decimal.precision": "20"}
    assert of("bit(9)") == {"length": "9"}
    assert of("enum('a','b,c','')") == {"allowed": "a,b\\,c,"}
    assert of("set('a','b\\\\')") == {"allowed": "a,b\\\\"}


def test_modes_choose_another_type() -> None:
    def of(sql: str, options: DebeziumOptions) -> str:
        return fields_of_table(one_column(sql), options)[1].type.type

    assert of("decimal(10,2)", DebeziumOptions(decimals="string")) == "string"
    assert of("bigint(20) unsigned", DebeziumOptions(unsigned="string")) == "string"
    assert of("bigint(20) unsigned", DebeziumOptions(unsigned="long")) == "int64"
    assert of("bigint(20)", DebeziumOptions(unsigned="string")) == "int64"


def test_not_null_columns_are_required() -> None:
    assert [field.optional for field in fields_of_table(one_column("date"), DebeziumOptions())] == [False, True]
    assert [field.optional for field in fields_of_table(one_column("date", nullable=False), DebeziumOptions())] == [False, False]
    assert [field.optional for field in fields_of_table(one_column("date", in_key=True), DebeziumOptions())] == [False, False]


@pytest.mark.parametrize("options", [DebeziumOptions(), DebeziumOptions(decimals="string", unsigned="string")])
def test_a_columns_own_type_fits_and_those_of_other_values_do_not(options: DebeziumOptions) -> None:
    fields = fields_of_table(EVERY, options)[1:]
    assert all(fits(field.column, field.type, options) for field in fields)
    for one in fields:
        for other in fields:
            if fits(one.column, other.type, options):
                assert _alike(one.column.kind, other.column.kind, options), (one, other)
    (decimal,) = (field for field in fields if field.column.name.endswith("decimal(10,2)"))
    assert fits(decimal.column, ConnectType("bytes", DECIMAL, parameters=(("scale", "3"),)), options) is False


def _alike(one: str, other: str, options: DebeziumOptions) -> bool:
    """Kinds whose values in messages mean the same, at least where the rest of the type is the same."""
    groups = [{"int", "uint"}, {"uint", "decimal"}, {"float", "double"}]
    groups += [{"decimal", "uint", "text"}] if options.decimals == "string" else []
    return one == other or any({one, other} <= group for group in groups)


def test_a_tables_name_has_what_kafka_allows() -> None:
    assert table_name("p", TableName("shop", "orders")) == "p.shop.orders"
    assert table_name("p", TableName("s h", "é")) == "p.s_h._"
    assert len(table_name("p", TableName("s", "t" * 300))) == 249


def test_every_kind_is_among_the_tests_own() -> None:
    assert {one.sql for one in KINDS} >= TYPES.keys()
