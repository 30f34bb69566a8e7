"""Value expressions as TiCDC's mounter evaluates them: three truths, no collation, and nothing that could mean something else."""

from __future__ import annotations

import pytest

from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.model.nouns import Column, TableName, TableSchema
from sidecar.shared.ticdc.event_filter import ValueExpr
from sidecar.shared.ticdc.value_expr import ExprColumns, check_form, compiled_test

SCHEMA = TableSchema(
    TableName("shop", "orders"),
    (
        Column("id", "int"), Column("u", "uint"), Column("amount", "decimal", scale=2), Column("d", "double"),
        Column("f", "float"), Column("name", "text"), Column("status", "enum", elements=("new", "back")),
        Column("gift", "bit", length=1), Column("at", "datetime"),
        Column("b", "binary"), Column("tags", "set"), Column("y", "year"), Column("j", "json"), Column("Be tween`s", "int"),
        Column("g", "text"), Column("late", "int"),
    ),
    ("id",),
)  # fmt: skip
COLUMNS = ExprColumns(SCHEMA, {one.name for one in SCHEMA.columns} - {"late"}, {"name": "utf8mb4_general_ci", "g": "gbk_chinese_ci"})


def expr(text: str) -> ValueExpr:
    return ValueExpr("filter.event-filters number 1, ignore-insert-value-expr", text, old=False)


def truth(text: str, **values: object) -> bool | None:
    """Columns that are not given are NULL."""
    row = [None if (value := values.get(column.name)) is None else str(value) for column in SCHEMA.columns]
    return compiled_test(expr(text), COLUMNS)(row)


T, F, N = {"id": 1}, {"id": 0}, dict[str, int]()


@pytest.mark.parametrize(
    ("one", "other", "both", "either"),
    [(T, T, True, True), (T, F, False, True), (T, N, None, True), (F, F, False, False), (F, N, False, None), (N, N, None, None)],
)
def test_null_is_neither_true_nor_false(one: dict[str, int], other: dict[str, int], both: bool | None, either: bool | None) -> None:
    values = {"id": one.get("id"), "u": other.get("id")}
    for text, expected in (("id = 1 {} u = 1", both), ("u = 1 {} id = 1", both)):
        assert truth(text.format("and"), **values) is expected
        assert truth(text.format("&&"), **values) is expected
    assert truth("id = 1 or u = 1", **values) is either
    opposite = None if both is None else not both
    assert truth("not (id = 1 AND u = 1)", **values) is opposite
    assert truth("not(not (id = 1 AND u = 1))", **values) is both


def test_and_binds_closer_than_or_and_parentheses_closest() -> None:
    assert truth("id = 1 or id = 2 and u = 9", id=1, u=0) is True
    assert truth("(id = 1 or id = 2) and u = 9", id=1, u=0) is False


@pytest.mark.parametrize("text", ["", " ", "id = 1 = 1", "(" * 60 + "id = 1" + ")" * 60])
def test_what_is_not_of_this_form_is_refused_with_its_text_before_a_table_is_known(text: str) -> None:
    with pytest.raises(FeedUnsuitable, match="cannot be evaluated here exactly") as refused:
        check_form(expr(text))
    assert f"({text})" in refused.value.message
    assert "ignore-insert-value-expr" in refused.value.message
    with pytest.raises(FeedUnsuitable):
        compiled_test(expr(text), COLUMNS)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("id = " + "9" * 5000, "of kind int"),
        ("d = " + "9" * 5000 + ".0", "of kind double"),
        ("nope = 1", "'nope', which is no column"),
    ],
)
def test_what_a_table_decides_is_refused_with_the_table(text: str, why: str) -> None:
    check_form(expr(text))
    with pytest.raises(FeedUnsuitable, match=why) as refused:
        compiled_test(expr(text), COLUMNS)
    assert "shop.orders" in refused.value.message
