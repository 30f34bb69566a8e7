"""A table as the target has it: its columns, what it is made of, and what of it would show what is masked."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace

import pytest

from sidecar.shared.errors import ConfigError
from sidecar.shared.model.nouns import Column, ColumnDefinition, IndexDefinition, IndexPart, TableDefinition, TableName, TableSchema
from spark_merge.ddl.columns import added_column
from spark_merge.masks.tables import MaskedTable, masked_table
from tests.support.masked import SALT, rules, slow_hash

ID, EMAIL, POINTS, DOMAIN = (
    Column("id", "int", nullable=False),
    Column("email", "text"),
    Column("points", "decimal"),
    Column("domain", "text"),
)
DEFINITION = TableDefinition(
    (
        ColumnDefinition("id", "int(11)", nullable=False),
        ColumnDefinition("email", "varchar(100)", default="'nobody'"),
        ColumnDefinition("points", "decimal(10,0)"),
        ColumnDefinition("lower_email", "varchar(100)", generated="lower(`Email`)"),
    ),
    (
        IndexDefinition("PRIMARY", (IndexPart("id"),), unique=True, primary=True, id=1),
        IndexDefinition("by_email", (IndexPart("email"),), unique=True, id=2),
        IndexDefinition("by_beginning", (IndexPart("email", 4),), id=3),
        IndexDefinition("by_formula", (IndexPart(expression="lower(`email`)"),), id=4),
        IndexDefinition("by_points", (IndexPart("points"), IndexPart("id")), id=5),
    ),
)
TABLE = TableSchema(TableName("shop", "users"), (ID, EMAIL, POINTS), ("id",), definition=DEFINITION)


def shown(table: TableSchema = TABLE, *, statements: bool = False, **given: str) -> MaskedTable:
    return masked_table(table, rules(**given).of(table), SALT, statements=statements)


def names(schema: TableSchema) -> tuple[Sequence[str], Sequence[str], Sequence[str]]:
    assert schema.definition is not None
    definition = schema.definition
    return schema.column_names(), [one.name for one in definition.columns], [one.name for one in definition.indexes]


def test_a_column_that_is_left_out_is_nowhere() -> None:
    columns = ("id", "points"), ["id", "points"], ["PRIMARY", "by_points"]
    assert names(shown(leave_out="*.*.email").schema) == columns
    assert shown(replace(TABLE, definition=None), leave_out="*.*.email").schema.columns == (ID, POINTS)


def test_a_hash_is_a_text_of_64_characters_whatever_the_column_was() -> None:
    schema = shown(hash="*.*.email,*.*.points").schema
    assert schema.columns == (ID, Column("email", "text"), Column("points", "text"))
    assert names(schema)[2] == ["PRIMARY", "by_email", "by_points"], "equal values have equal hashes, and their beginnings do not"
    assert schema.definition is not None
    assert [one.type_text for one in schema.definition.columns] == ["int(11)", "varchar(64)", "varchar(64)"]


def test_a_constant_keeps_the_column_and_makes_no_unique_index() -> None:
    schema = shown(constant="*.*.email=>'x'").schema
    assert schema.columns == TABLE.columns
    assert names(schema)[2] == ["PRIMARY", "by_points"]


@pytest.mark.parametrize("schema", [shown(constant="*.*.email=>'x'").schema, shown(hash="*.*.email").schema])
def test_a_masked_column_has_no_default(schema: TableSchema) -> None:
    """Debezium's and Avro's schemas would say it."""
    assert schema.definition is not None
    assert "nobody" not in repr(schema.definition)
    assert "nobody" in repr(DEFINITION)


def test_what_rows_from_before_a_column_have_in_it_is_masked() -> None:
    schema = shown(hash="*.*.email", constant="*.*.points=>7").schema
    assert pickle.loads(pickle.dumps(schema)) == schema
    assert added_column(schema.columns[1], schema).existing == slow_hash("nobody")
    assert added_column(schema.columns[2], schema).existing == "7"
    without = replace(TABLE, definition=replace(DEFINITION, columns=(*DEFINITION.columns[:1], ColumnDefinition("email", "varchar(9)"))))
    assert added_column(EMAIL, shown(without, hash="*.*.email").schema).existing is None
    computed = ColumnDefinition("email", "varchar(36)", default="uuid()")
    by_default = replace(TABLE, definition=replace(DEFINITION, columns=(*DEFINITION.columns[:1], computed)))
    assert added_column(EMAIL, shown(by_default, hash="*.*.email").schema).unknown == "the computed default uuid()"


STORED = replace(
    TABLE,
    columns=(*TABLE.columns, DOMAIN),
    definition=replace(
        DEFINITION, columns=(*DEFINITION.columns, ColumnDefinition("domain", "varchar(9)", generated="right(`EMAIL`, 9)", stored=True))
    ),
)


def test_a_generated_column_of_a_masked_one_needs_a_rule_too() -> None:
    with pytest.raises(ConfigError, match=r"hash=\*\.\*\.email: the generated column domain of shop.users is computed of email"):
        shown(STORED, hash="*.*.email")
    assert shown(STORED, hash="*.*.email", leave_out="*.*.domain").schema.column_names() == ("id", "email", "points")


def test_a_target_that_carries_out_tidbs_statements_keeps_the_table() -> None:
    assert shown(constant="*.*.points=>0", statements=True).schema is TABLE


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("*.*.email=>NULL", "computes the generated column lower_email of shop.users for itself"),
        ("*.*.domain=>''", "computes the generated column lower_email|computes the generated column domain"),
    ],
)
def test_such_a_target_computes_generated_columns_itself(rule: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        shown(STORED, constant=rule, statements=True)


def test_such_a_target_makes_one_row_of_those_with_one_value_in_a_unique_index() -> None:
    plain = replace(TABLE, definition=replace(DEFINITION, columns=DEFINITION.columns[:3]))
    with pytest.raises(ConfigError, match=r"constant=\*\.\*\.email would give all rows .* unique index by_email"):
        shown(plain, constant="*.*.email=>'x'", statements=True)
    assert shown(plain, constant="*.*.email=>NULL", statements=True).schema is plain


def test_a_column_that_a_table_is_partitioned_by_has_no_mask() -> None:
    """Outputs compute a row's partition of the row."""
    parted = replace(TABLE, definition=replace(DEFINITION, partitioning="PARTITION BY HASH (`Points`) PARTITIONS 4"))
    with pytest.raises(ConfigError, match=r"constant=\*\.\*\.points: shop\.users is partitioned by points"):
        shown(parted, constant="*.*.points=>0")
    assert shown(parted, leave_out="*.*.email").schema.column_names() == ("id", "points")
