"""Value expressions as TiCDC's mounter evaluates them: three truths, no collation, and nothing that could mean something else."""

from __future__ import annotations

import pytest

from sidecar.core.model import Column, TableName, TableSchema
from sidecar.errors import FeedUnsuitable
from sidecar.ticdc.event_filter import ValueExpr
from sidecar.ticdc.value_expr import Columns, check_form, compiled_test

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
COLUMNS = Columns(SCHEMA, {one.name for one in SCHEMA.columns} - {"late"}, {"name": "utf8mb4_general_ci", "g": "gbk_chinese_ci"})


def expr(text: str) -> ValueExpr:
    return ValueExpr("filter.event-filters number 1, ignore-insert-value-expr", text, old=False)


def truth(text: str, **values: object) -> bool | None:
    """Columns that are not given are NULL."""
    row = [None if (value := values.get(column.name)) is None else str(value) for column in SCHEMA.columns]
    return compiled_test(expr(text), COLUMNS)(row)


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("id = 1", {"id": 1}, True),
        ("id = 1", {"id": 2}, False),
        ("id = 1", {}, None),
        ("1 < id", {"id": 2}, True),
        ("1 >= id", {"id": 2}, False),
        ("id <> -5", {"id": -5}, False),
        ("id != 0", {"id": -0}, False),
        ("u > -1", {"u": 2**64 - 1}, True),
        ("u > 9223372036854775807", {"u": 2**63}, True),
        ("id = true", {"id": 1}, True),
        ("ORDERS.ID = TRUE", {"id": 1}, True),
        ("`orders`.`id` >= FALSE", {"id": 0}, True),
        ("amount < 100", {"amount": "99.99"}, True),
        ("amount = 0.10", {"amount": "0.1"}, True),
        ("amount >= 100.", {"amount": "100.00"}, True),
        ("amount > .5", {"amount": "0.51"}, True),
        ("amount > 12345678901234567890.01", {"amount": "12345678901234567890.02"}, True),
        ("d < 100", {"d": "99.99999999999999"}, True),
        ("d = 0.1", {"d": "0.1"}, True),
        ("f = 0.1", {"f": "0.10000000149011612"}, False),
        ("f = 0.5", {"f": "0.5"}, True),
        ("f > 0.1", {"f": "0.10000000149011612"}, True),
        ("name = 'gold'", {"name": "GOLD"}, False),
        ("name = 'gold'", {"name": "gold "}, False),
        ("name = 'it''s'", {"name": "it's"}, True),
        ("name < 'b'", {"name": "ä"}, False),
        ("name > 'Z'", {"name": "a"}, True),
        ("name = ''", {"name": ""}, True),
        ("name = 'and'", {"name": "and"}, True),
        ("status = 'back'", {"status": "back"}, True),
        ("status != 'back'", {"status": "new"}, True),
        ("status in ('back', 'new')", {"status": "new"}, True),
        ("gift = 1", {"gift": 1}, True),
        ("`Be tween``s` = 1", {"Be tween`s": 1}, True),
    ],
)
def test_a_column_beside_a_literal_of_its_kind(text: str, values: dict[str, object], expected: bool | None) -> None:
    assert truth(text, **values) is expected


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("id in (1, 2)", {"id": 2}, True),
        ("id not in (1, 2)", {"id": 2}, False),
        ("id not in (1, 2)", {}, None),
        ("id between 1 and 3", {"id": 3}, True),
        ("id not between 1 and 3", {"id": 4}, True),
        ("id between 3 and 1", {"id": 2}, False),
        ("id between 1 and 3 and name = 'x'", {"id": 2, "name": "x"}, True),
        ("id is null", {}, True),
        ("at is not null", {"at": "2026-01-01"}, True),
        ("j is null", {"j": "{}"}, False),
        ("not (id is null)", {}, False),
    ],
)
def test_lists_ranges_and_null(text: str, values: dict[str, object], expected: bool | None) -> None:
    assert truth(text, **values) is expected


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


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "id", "1", "id = 1 2", "id =", "= 1", "id = id", "id = u", "1 = 1", "id + 1 = 2", "id = 1 + 1", "abs(id) = 1", "id = (1)",
        "(id) = 1", "not id = 1", "! (id = 1)", "id = 1 || u = 1", "id xor u", "id <=> 1", "id = null", "id in ()", "id in (1, null)",
        "id in (select 1)", "id like 1", "name like 'a%'", "name regexp 'a'", 'name = "a"', "name = 'a\\b'", "name = 'a", "name = x'41'",
        "name = _utf8'a'", "name = N'a'", "id = 0x10", "id = b'1'", "id = 1e3", "id is true", "id is not unknown", "id between 1 or 2",
        "id = 1 -- x", "id = 1 # x", "id = 1 /* x */", "id = 1;", "id = @a", "id = ?", "case when id = 1 then 1 end", "id = 1 = 1",
        "id < 1 < 2", "interval 1 day", "shop.orders.id = 1", "(id = 1", "id = 1)", "id = 1.2.3", "id = 1a", "id collate utf8mb4_bin = 1",
        "id = ١", "(" * 60 + "id = 1" + ")" * 60,
    ],
)  # fmt: skip
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
        ("id = 1.5", "of kind int"),
        ("id = '1'", "of kind int"),
        ("id = 9223372036854775808", "of kind int"),
        ("id = " + "9" * 5000, "of kind int"),
        ("d = " + "9" * 5000 + ".0", "of kind double"),
        ("amount = '1'", "of kind decimal"),
        ("amount = 0.1234567890123456789012345678901", "of kind decimal"),
        ("name = 1", "of kind text"),
        ("g = 'a'", "of kind text"),
        ("status < 'back'", "of kind enum"),
        ("status between 'a' and 'b'", "of kind enum"),
        ("status = 1", "of kind enum"),
        ("gift = '1'", "of kind bit"),
        ("at > '2026-01-01'", "of kind datetime"),
        ("b = 'a'", "of kind binary"),
        ("tags = 'a'", "of kind set"),
        ("y = 2026", "of kind year"),
        ("j = '{}'", "of kind json"),
        ("nope = 1", "'nope', which is no column"),
        ("other.id = 1", "'other', which is not the table"),
        ("late = 1", "behind a virtual generated column"),
    ],
)
def test_what_a_table_decides_is_refused_with_the_table(text: str, why: str) -> None:
    check_form(expr(text))
    with pytest.raises(FeedUnsuitable, match=why) as refused:
        compiled_test(expr(text), COLUMNS)
    assert "shop.orders" in refused.value.message
