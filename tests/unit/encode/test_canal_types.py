"""Types in canal-json, by what TiCDC's own tests expect (tiflow pkg/sink/codec/canal/type_test.go)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import TableDefinition
from spark_merge.codecs.encode.canal_types import canal_table
from tests.support.slow_canal import TYPES, table

EXPECTED = {
    "int(11)": "int", "int(10) unsigned": "int unsigned", "tinyint(3) unsigned zerofill": "tinyint unsigned zerofill",
    "bigint(19) unsigned": "bigint unsigned", "bit(3)": "bit", "float": "float", "float(10,3)": "float",
    "float(10,3) unsigned": "float unsigned", "double": "double", "double(10,3)": "double",
    "double unsigned zerofill": "double unsigned zerofill", "decimal(10,0)": "decimal", "decimal(10,2) unsigned": "decimal unsigned",
    "year(4)": "year", "date": "date", "datetime(6)": "datetime", "timestamp(3)": "timestamp", "time(2)": "time", "char(123)": "char",
    "varchar(123)": "varchar", "varbinary(256)": "varbinary", "binary(5)": "binary", "tinyblob": "tinyblob", "longtext": "longtext",
    "enum('a','b(unsigned')": "enum", "set('a','c zerofill')": "set", "json": "json", "enum('line\n','x')": "enum",
}  # fmt: skip


@pytest.mark.parametrize("type_text", EXPECTED)
def test_a_type_is_its_word_or_all_of_it(type_text: str) -> None:
    schema = table({"c": type_text}, ())
    [short], [full] = (canal_table(schema, full_types=full).columns for full in (False, True))
    assert short.mysql == f'"{EXPECTED[type_text]}"'
    assert full.mysql == '"' + type_text.replace("\n", "\\n") + '"'


@pytest.mark.parametrize("type_text", TYPES)
def test_java_types_of_what_fits_and_of_what_does_not(type_text: str) -> None:
    [column] = canal_table(table({"c": type_text}, ()), full_types=False).columns
    assert (column.java, column.java if column.promotion is None else column.promotion.java) == TYPES[type_text]


def test_primary_keys_come_in_the_order_of_the_columns_and_no_other_index_counts() -> None:
    assert canal_table(table({"a": "int(11)", "b": "int(11)"}, ("a", "b")), full_types=False).head.endswith(
        '"pkNames":["a","b"],"isDdl":false,"type":'
    )


def test_a_definition_that_does_not_fit_names_table_and_column() -> None:
    schema = table({"c": "int(11)"}, ())
    with pytest.raises(SinkError, match=r"table shop\.t, column c: it is not among those"):
        canal_table(replace(schema, definition=TableDefinition(())), full_types=False)
    with pytest.raises(SinkError, match=r"table shop\.t, column c: it has the type geometry"):
        canal_table(replace(schema, definition=table({"c": "geometry"}, ()).definition), full_types=False)
