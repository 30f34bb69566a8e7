"""What an expression names, whoever wrote it."""

from __future__ import annotations

import pytest

from sidecar.core.model import Column, TableName, TableSchema
from sidecar.ticdc.expression import FilterExpression, NotAnExpression

SCHEMA = TableSchema(TableName("shop", "orders"), (Column("id", "int"), Column("by`x", "text")), ("id",))


def test_columns_are_told_from_functions_types_and_labels_of_the_same_name() -> None:
    found = FilterExpression.of("id(1) + orders.id + cast(1 as id) + `by``x` + id'x'", SCHEMA)
    assert [found.tokens[at].text for at in found.columns()] == ["id", "`by``x`"]


@pytest.mark.parametrize(
    "text", ["id in (SELECT 1)", "with x", "TABLE x", "values row(1)", "id /* x */", "id -- x", "id = @x", "(id", "id)", " "]
)
def test_what_is_of_other_rows_or_leaves_its_place_is_none(text: str) -> None:
    with pytest.raises(NotAnExpression):
        FilterExpression.of(text, SCHEMA)


@pytest.mark.parametrize("text", ["items.id", "shop.orders.id"])
def test_a_column_of_something_else_is_none_of_ours(text: str) -> None:
    with pytest.raises(NotAnExpression, match="by something else than its table"):
        FilterExpression.of(text, SCHEMA).columns()
