"""What an expression names, whoever wrote it."""

from __future__ import annotations

from sidecar.shared.model.nouns import Column, TableName, TableSchema
from sidecar.shared.ticdc.expression import FilterExpression

SCHEMA = TableSchema(TableName("shop", "orders"), (Column("id", "int"), Column("by`x", "text")), ("id",))


def test_columns_are_distinguished_from_functions_types_and_labels_of_the_same_name() -> None:
    expression = FilterExpression.of("id(1) + orders.id + cast(1 as id) + `by``x` + id'x'", SCHEMA)
    assert [expression.tokens[at].text for at in expression.columns()] == ["id", "`by``x`"]
