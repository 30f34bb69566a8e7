"""Type codes, flags and what is refused. Values are held against Go's rules row by row in test_open_protocol.py."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import IndexDefinition, IndexPart, TableSchema
from spark_merge.codecs.encode.messages import Architecture
from spark_merge.codecs.encode.open_columns import open_columns
from tests.unit.encode.open_tables import TYPES, changed, table

BINARY, HANDLE, GENERATED, PRIMARY, UNIQUE, MULTIPLE, NULLABLE, UNSIGNED = (1 << bit for bit in range(8))


def index(name: str, *columns: str, unique: bool = False, primary: bool = False, id: int = 0) -> IndexDefinition:
    return IndexDefinition(name, tuple(map(IndexPart, columns)), unique=unique, primary=primary, id=id)


def flags(schema: TableSchema, architecture: Architecture = "classic") -> dict[str, int]:
    return {one.column.name: one.flags for one in open_columns(schema, architecture)}


def test_each_type_has_its_code() -> None:
    schema = table([(sql, sql) for sql in TYPES], key=("tinyint(4)",))
    assert {one.column.name: one.type for one in open_columns(schema, "classic")} == {
        "tinyint(4)": 1, "smallint(6) unsigned": 2, "int(11)": 3, "bigint(20) unsigned": 8, "mediumint(9)": 9, "float": 4, "double": 5,
        "decimal(10,2)": 246, "varchar(20)": 15, "char(3)": 254, "tinytext": 249, "text": 252, "mediumtext": 250, "longtext": 251,
        "varbinary(20)": 15, "binary(4)": 254, "tinyblob": 249, "blob": 252, "mediumblob": 250, "longblob": 251, "enum('a','b')": 247,
        "set('a','b','c')": 248, "bit(9)": 16, "date": 10, "time(3)": 11, "datetime": 12, "timestamp(6)": 7, "timestamp": 7,
        "year(4)": 13, "json": 245, "vector(3)": 225,
    }  # fmt: skip


def test_all_but_text_is_binary_and_bit_and_year_are_unsigned() -> None:
    schema = table([("id", "int(11)"), *((sql, sql) for sql in TYPES)])
    result = flags(schema)
    of_text = {sql for sql, kind in TYPES.items() if kind in ("text", "enum", "set")}
    unsigned = {"smallint(6) unsigned", "bigint(20) unsigned", "bit(9)", "year(4)"}
    assert result.pop("id") == BINARY | HANDLE | PRIMARY
    assert result == {sql: NULLABLE | (0 if sql in of_text else BINARY) | (UNSIGNED if sql in unsigned else 0) for sql in TYPES}


def test_unsigned_is_a_word_of_the_type_and_no_label() -> None:
    schema = table([("id", "int(11)"), ("d", "decimal(10,2)"), ("e", "enum('a','b')")])
    schema = changed(changed(schema, "d", type_text="decimal(10,2) unsigned zerofill"), "e", type_text="enum(' unsigned','b)')")
    assert (flags(schema)["d"], flags(schema)["e"]) == (BINARY | NULLABLE | UNSIGNED, NULLABLE)


def test_an_enum_of_charset_binary_is_binary() -> None:
    assert flags(changed(table([("id", "int(11)"), ("e", "enum('a','b')")]), "e", charset=""))["e"] == BINARY | NULLABLE


def test_all_columns_of_an_index_of_several_bear_its_flags_and_of_a_plain_one_the_first() -> None:
    columns = [(name, "int(11)") for name in ("a", "b", "c", "d", "e", "f")]
    indexes = [index("PRIMARY", "a", "b", primary=True, unique=True, id=1), index("u", "b", "c", unique=True, id=2), index("k", "d", id=3)]
    indexes += [index("one", "e", unique=True, id=4), index("k2", "e", "f", id=5)]
    result = flags(table(columns, *indexes, key=("a", "b")))
    assert result == {
        "a": BINARY | HANDLE | PRIMARY | MULTIPLE,
        "b": BINARY | HANDLE | PRIMARY | UNIQUE | MULTIPLE | NULLABLE,
        "c": BINARY | UNIQUE | MULTIPLE | NULLABLE,
        "d": BINARY | MULTIPLE | NULLABLE,
        "e": BINARY | UNIQUE | MULTIPLE | NULLABLE,
        "f": BINARY | MULTIPLE | NULLABLE,
    }


def test_a_unique_key_that_is_the_handle_is_marked_so() -> None:
    schema = table([("id", "int(11)"), ("v", "text")], index("u", "id", unique=True, id=3))
    assert flags(schema)["id"] == BINARY | HANDLE | UNIQUE
    assert [one.is_key for one in open_columns(schema, "new")] == [True, False]


def test_an_expression_counts_as_a_part_of_its_index() -> None:
    parts = (IndexPart("v"), IndexPart(expression="`id` + 1"))
    schema = table(
        [("id", "int(11)"), ("v", "int(11)")], index("PRIMARY", "id", primary=True, unique=True), IndexDefinition("k", parts, id=2)
    )
    assert flags(schema)["v"] == BINARY | MULTIPLE | NULLABLE


@pytest.mark.parametrize(("architecture", "second"), [("classic", UNIQUE | MULTIPLE), ("new", 0)])
def test_the_new_architecture_leaves_a_generated_column_out_of_an_index_that_it_does_not_begin(
    architecture: Architecture, second: int
) -> None:
    schema = table([("id", "int(11)"), ("g", "int(11)")], index("PRIMARY", "id", primary=True), index("u", "id", "g", unique=True, id=2))
    schema = changed(schema, "g", generated="`id` + 1", stored=True)
    assert flags(schema, architecture)["g"] == BINARY | GENERATED | NULLABLE | second


def test_what_precedes_a_value_names_column_type_handle_and_flags() -> None:
    first, second = open_columns(table([("id", "int(11)"), ("a<b", "text")]), "classic")
    assert first.opening(html=True) == '"id":{"t":3,"h":true,"f":11,"v":'
    assert (second.opening(html=True), second.opening(html=False)) == (
        '"a\\u003cb":{"t":252,"f":64,"v":',
        '"a<b":{"t":252,"f":64,"v":',
    )


def test_a_schema_without_a_definition_and_one_that_lacks_a_column_are_refused_by_name() -> None:
    schema = table([("id", "int(11)"), ("v", "text")])
    with pytest.raises(SinkError, match=r"what shop\.t was made of"):
        open_columns(replace(schema, definition=None), "classic")
    with pytest.raises(SinkError, match=r"the definition of shop\.t .* type of column v"):
        open_columns(changed(schema, "v", name="w"), "classic")
    with pytest.raises(SinkError, match=r"the definition of shop\.t .* type of column v"):
        open_columns(changed(schema, "v", type_text="geometry"), "classic")
