"""Which column has which mask, how rules are written, and what is no rule."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from sidecar.shared.errors import ConfigError
from sidecar.shared.model.nouns import Column, ColumnDefinition, TableDefinition, TableName, TableSchema
from spark_merge.masks.rules import ColumnMask, ColumnRules, MaskKind, is_value, rules_of, text_of
from tests.support.masked import rules
from tests.support.one_table import HARD

USERS = TableSchema(
    TableName("Shop", "users"),
    (Column("id", "int", nullable=False), Column("E-Mail", "text"), Column("name", "text", nullable=False), Column("points", "int")),
    ("id",),
)


def kinds(given: ColumnRules, schema: TableSchema = USERS) -> dict[str, str]:
    return {name: mask.kind.value for name, mask in given.of(schema).items()}


@pytest.mark.parametrize(
    "rule",
    ["shop.users.`e-mail`", 'SHOP.users."E-MAIL"', "*.*.e*", "sh?p.u*.e\\-mail", "*.users./^e/", "shop.*.[e]*", "`shop`.`users`.*mail"],
)
def test_a_rule_is_a_table_rule_with_a_column_in_any_case(rule: str) -> None:
    assert kinds(rules(hash=rule)) == {"E-Mail": "hash"}
    assert kinds(rules(hash=rule), replace(USERS, name=TableName("hr", "people"))).keys() <= {"E-Mail"}


def test_of_several_rules_of_a_kind_the_first_one_decides() -> None:
    masks = rules(constant="shop.users.name=>'x',shop.users.*a*=>'y'").of(USERS)
    assert [(name, mask.text) for name, mask in masks.items()] == [("E-Mail", "y"), ("name", "x")]


def test_constants_are_null_quoted_or_bare() -> None:
    given = "a.b.c=>NULL, a.b.`d,e`=>'NULL' ,a.b.f=>null,a.b.g=>2020-01-01 00:00:00,a.b.h=>'it''s, =>',a.b.i=>-1.50,a.b.j=>''"
    masks = rules_of(MaskKind.CONSTANT, given)
    assert [mask.text for mask in masks] == [None, "NULL", None, "2020-01-01 00:00:00", "it's, =>", "-1.50", ""]
    assert masks[1].rule == "a.b.`d,e`"
    assert rules_of(MaskKind.CONSTANT, text_of(masks)) == masks
    assert rules_of(MaskKind.HASH, text_of(rules_of(MaskKind.HASH, "a.b.c, d.e.f"))) == rules_of(MaskKind.HASH, "a.b.c,d.e.f")


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        (MaskKind.HASH, "", "hash names no column"),
        (MaskKind.HASH, "shop.users", "column rule shop.users, column 11: expected '.' between the table's pattern and the column's"),
        (MaskKind.LEAVE_OUT, "a.b.c.d", "expected the end of the rule"),
        (MaskKind.LEAVE_OUT, "!a.b.c", "expected a letter"),
        (MaskKind.LEAVE_OUT, "a..c", "expected a pattern"),
        (MaskKind.CONSTANT, "a.b.c", "'a.b.c' has no =>"),
        (MaskKind.CONSTANT, "a.b.c=>", "'' for a.b.c is no value"),
        (MaskKind.CONSTANT, "a.b.c=>'x' 'y'", "is no value"),
        (MaskKind.CONSTANT, "a.b=>1", "column rule a.b"),
    ],
)
def test_what_is_no_rule_is_refused_with_what_was_expected(kind: MaskKind, given: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as refused:
        rules_of(kind, given)
    assert "shop." in refused.value.hint


def test_two_kinds_of_rules_for_one_column_are_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"column name of Shop.users has two column rules: leave-out=\*\.\*\.name and hash=shop\.\*\.na\*"
    ):
        rules(leave_out="*.*.name", hash="shop.*.na*").of(USERS)
    assert kinds(rules(leave_out="*.*.name", hash="shop.*.e*")) == {"E-Mail": "hash", "name": "leave-out"}


@pytest.mark.parametrize("given", [{"leave_out": "*.*.*"}, {"hash": "*.users.ID"}, {"constant": "shop.users.id=>0"}])
def test_a_column_of_the_handle_key_has_no_mask(given: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"matches column id of Shop.users, which is of the handle key"):
        rules(**given).of(USERS)
    assert rules(**given).of(replace(USERS, key=())) == {}, "it has no rows"


@pytest.mark.parametrize("column", [column for column, _ in HARD], ids=lambda column: column.kind)
def test_a_value_that_may_have_several_texts_has_no_hash(column: Column) -> None:
    """Those of a live change and of a dump may differ."""
    schema = replace(USERS, columns=(*USERS.columns, column))
    if column.kind in ("float", "double", "json"):
        with pytest.raises(ConfigError, match=f"a column of kind {column.kind}: one value may have several texts"):
            rules(hash=f"*.*.{column.name}").of(schema)
        assert kinds(rules(leave_out=f"*.*.{column.name}"), schema) == {column.name: "leave-out"}
    else:
        assert kinds(rules(hash=f"*.*.{column.name}"), schema) == {column.name: "hash"}


def test_null_is_a_constant_of_a_column_that_may_be_null() -> None:
    assert rules(constant="*.*.points=>NULL").of(USERS)["points"].text is None
    with pytest.raises(ConfigError, match=r"constant=\*\.\*\.name=>NULL: column name of Shop.users is NOT NULL"):
        rules(constant="*.*.name=>NULL").of(USERS)


def test_a_constant_that_is_no_value_names_both() -> None:
    with pytest.raises(ConfigError, match=r"'many' is no value of column points of Shop.users, a column of kind int"):
        rules(constant="*.*.points=>many").of(USERS)


@pytest.mark.parametrize("column", [column for column, _ in HARD], ids=lambda column: column.kind)
def test_every_value_of_a_kind_is_one_and_a_text_that_is_none_is_not(column: Column) -> None:
    for text in next(texts for one, texts in HARD if one is column):
        assert text is None or is_value(USERS, column, text), text
    assert column.kind in ("text",) or not is_value(USERS, column, "\x01")


@pytest.mark.parametrize(
    ("type_text", "column", "good", "bad"),
    [
        ("tinyint(4)", Column("c", "int"), "127", "128"),
        ("int(10) unsigned", Column("c", "uint"), "0", "-1"),
        ("int(11)", Column("c", "int"), "5", "05"),
        ("varchar(3)", Column("c", "text"), "äöü", "abcd"),
        ("decimal(4,2)", Column("c", "decimal", length=4, scale=2), "10.50", "10.5"),
        ("decimal(4,2)", Column("c", "decimal", length=4, scale=2), "99.99", "100.00"),
        ("binary(2)", Column("c", "binary", length=2), "00FF", "00ff"),
        ("varbinary(2)", Column("c", "binary"), "00FF", "00FF00"),
        ("bit(4)", Column("c", "bit", length=4), "15", "16"),
        ("year(4)", Column("c", "year"), "0000", "0"),
        ("datetime(3)", Column("c", "datetime", scale=3), "2020-01-01 00:00:00.000", "2020-01-01 00:00:00"),
        ("enum('a','b')", Column("c", "enum", elements=("a", "b")), "a", "A"),
        ("set('a','b')", Column("c", "set", elements=("a", "b")), "a,b", "b,a"),
        ("double", Column("c", "double"), "1.5", "1.50"),
        ("json", Column("c", "json"), '{"a": 1}', "{"),
        ("enum('a')", Column("c", "enum"), "a", "a"),
    ],
)
def test_a_constant_is_canonical_text_within_the_type(type_text: str, column: Column, good: str, bad: str) -> None:
    schema = replace(USERS, definition=TableDefinition((ColumnDefinition("c", type_text),)))
    assert is_value(schema, column, good) == (good != bad)
    assert not is_value(schema, column, bad)


def test_a_rule_without_a_column_is_idle() -> None:
    given = rules(hash="shop.users.name,shop.*.phone", constant="hr.*.*=>NULL")
    assert [mask.shown for mask in given.idle([USERS])] == ["hash=shop.*.phone", "constant=hr.*.*"]


def test_rules_travel_to_tasks() -> None:
    given = rules(hash="*.*./^e/", constant="*.*.points=>0")
    assert pickle.loads(pickle.dumps(given)).of(USERS) == given.of(USERS)
    assert given.masks[1] == ColumnMask(MaskKind.CONSTANT, "*.*.points", "0")
