"""The SQL by which tables are read: what the server will compare, written so that it cannot be taken otherwise."""

from __future__ import annotations

import pytest

from sidecar.shared.model.keyset import (
    Key,
    KeyColumn,
    NotAKey,
    ReadKey,
    above,
    between,
    evenly_between,
    key_columns,
    literal,
    one_of,
    order_by,
    quoted_table,
    read_as,
    rowid_key,
    spelled,
    thinned,
    unreadable,
    up_to,
    within,
)
from sidecar.shared.model.nouns import Column, Kind, TableName, TableSchema
from sidecar.shared.sql.text import quoted

TABLE = TableName("shop", "t")


def key(*columns: Column | KeyColumn) -> ReadKey:
    return ReadKey(TABLE, tuple(part if isinstance(part, KeyColumn) else KeyColumn(part) for part in columns))


A, B, C = (Column(name, "int", nullable=False) for name in "abc")


@pytest.mark.parametrize(("name", "expected"), [("a", "`a`"), ("a`b", "`a``b`"), ("a.b 'ü\"", "`a.b 'ü\"`")])
def test_names_are_quoted_whatever_is_in_them(name: str, expected: str) -> None:
    assert quoted(name) == expected


def test_a_table_is_named_with_its_schema() -> None:
    assert quoted_table(TableName("a.b", "c`d")) == "`a.b`.`c``d`"


def test_a_table_is_read_under_an_alias_that_outlives_its_name() -> None:
    assert read_as(TableName("a.b", "c`d")) == "`a.b`.`c``d` AS `t`"
    assert order_by(ReadKey(TableName("a", "b"), key(A).columns)) == " ORDER BY `t`.`a`"


@pytest.mark.parametrize(
    ("column", "text", "expected"),
    [
        (Column("k", "int"), "-9223372036854775808", "-9223372036854775808"),
        (Column("k", "uint"), "18446744073709551615", "18446744073709551615"),
        (Column("k", "decimal", scale=2), "-0.50", "-0.50"),
        (Column("k", "text"), "a'\\b😀", "_utf8mb4 x'61275c62f09f9880'"),
        (Column("k", "text"), "", "_utf8mb4 x''"),
        (Column("k", "binary"), "00FF", "x'00FF'"),
        (Column("k", "enum", elements=("b", "a")), "a", "2"),
        (Column("k", "enum", elements=("b", "a")), "", "0"),
        (Column("k", "set", elements=("b", "a", "c")), "b,c", "5"),
        (Column("k", "set", elements=("b", "a", "c")), "", "0"),
        (Column("k", "bit", length=64), "18446744073709551615", "18446744073709551615"),
        (Column("k", "year"), "0000", "0"),
        (Column("k", "date"), "0000-00-00", "'0000-00-00'"),
        (Column("k", "time", scale=6), "-838:59:59.000001", "'-838:59:59.000001'"),
        (Column("k", "datetime", scale=3), "2020-01-02 03:04:05.678", "'2020-01-02 03:04:05.678'"),
        (Column("k", "float"), "11.989999771118164", "1.19899997711181641e+01"),
    ],
)
def test_a_literal_is_of_the_columns_type(column: Column, text: str, expected: str) -> None:
    assert literal(KeyColumn(column), text) == expected


def test_text_of_another_character_set_is_converted_to_it_and_compared_by_its_collation() -> None:
    text = literal(KeyColumn(Column("k", "text"), "gbk", "gbk_chinese_ci"), "中")
    assert text == "CONVERT(_utf8mb4 x'e4b8ad' USING gbk) COLLATE gbk_chinese_ci"


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (Column("k", "int"), "9223372036854775808"),
        (Column("k", "int"), "1.5"),
        (Column("k", "int"), "1 OR 1=1"),
        (Column("k", "int"), "١"),
        (Column("k", "uint"), "-1"),
        (Column("k", "uint"), "18446744073709551616"),
        (Column("k", "decimal"), "1e3"),
        (Column("k", "decimal"), "١.٢"),
        (Column("k", "date"), "٢٠٢٠-01-02"),
        (Column("k", "binary"), "0"),
        (Column("k", "binary"), "zz"),
        (Column("k", "text"), "\ud800"),
        (Column("k", "enum", elements=("a",)), "b"),
        (Column("k", "set", elements=("a", "b")), "a,a"),
        (Column("k", "set", elements=("a", "b")), "c"),
        (Column("k", "bit", length=3), "8"),
        (Column("k", "date"), "2020-01-02' OR '1"),
        (Column("k", "date"), "2020-01-02\n"),
        (Column("k", "double"), "nan"),
        (Column("k", "double"), "one"),
        (Column("k", "json"), "{}"),
    ],
)
def test_what_the_type_cannot_have_is_no_key(column: Column, text: str) -> None:
    with pytest.raises(NotAKey, match="key column k"):
        literal(KeyColumn(column), text)


def test_a_predicate_of_several_columns_is_an_or_of_ands_with_qualified_names() -> None:
    a, b, c = "`t`.`a`", "`t`.`b`", "`t`.`c`"
    expected = f"({a} > 1) OR ({a} = 1 AND {b} > 2) OR ({a} = 1 AND {b} = 2 AND {c} > 3)"
    assert above(key(A, B, C), ("1", "2", "3")) == expected


def test_the_upper_bound_is_included() -> None:
    assert up_to(key(A, B), ("1", "2")) == "(`t`.`a` < 1) OR (`t`.`a` = 1 AND `t`.`b` <= 2)"
    assert up_to(key(A), ("1",)) == "(`t`.`a` <= 1)"


@pytest.mark.parametrize(("kind", "value"), [("enum", "y"), ("bit", "2")])
def test_labels_and_bits_are_compared_by_their_number(kind: Kind, value: str) -> None:
    column = Column("e", kind, length=8, elements=("x", "y"))
    assert above(key(column), (value,)) == "(`t`.`e` > 2)", "a cast would hide the range"


def test_a_set_is_cast_for_its_64th_label_is_no_minus_sign() -> None:
    """TiDB compares a set as a signed number, and has no range for it either way."""
    column = Column("s", "set", elements=tuple(f"s{n}" for n in range(64)))
    assert above(key(column), ("s63",)) == f"(CAST(`t`.`s` AS UNSIGNED) > {1 << 63})"


def test_the_order_is_of_qualified_columns() -> None:
    assert order_by(key(A, B)) == " ORDER BY `t`.`a`, `t`.`b`"
    assert order_by(key(A, B), descending=True) == " ORDER BY `t`.`a` DESC, `t`.`b` DESC"


def test_no_bound_is_no_where() -> None:
    assert between(key(A), after=None, upper=None) == ""


def test_bounds_and_the_callers_predicate_all_hold() -> None:
    text = between(key(A), after=("1",), upper=("9",), where="x = 1 OR y = 2 -- why")
    assert text == " WHERE ((`t`.`a` > 1 AND `t`.`a` <= 9)) AND (x = 1 OR y = 2 -- why\n)"


def test_both_bounds_of_a_composite_key_are_one_or_of_ands() -> None:
    """Two ORs are no full range: TiDB reads the whole prefix (pingcap/tidb 54337)."""
    assert within(key(A, B), ("1", "5"), ("3", "7")) == (
        "(`t`.`a` = 1 AND `t`.`b` > 5) OR (`t`.`a` > 1 AND `t`.`a` < 3) OR (`t`.`a` = 3 AND `t`.`b` <= 7)"
    )


def test_columns_in_which_both_bounds_are_equal_are_plain_equalities() -> None:
    assert within(key(A, B), ("7", "5"), ("7", "9")) == "(`t`.`a` = 7 AND `t`.`b` > 5 AND `t`.`b` <= 9)"
    assert within(key(A, B, C), ("7", "5", "1"), ("7", "6", "2")) == (
        "(`t`.`a` = 7 AND `t`.`b` = 5 AND `t`.`c` > 1)"
        " OR (`t`.`a` = 7 AND `t`.`b` > 5 AND `t`.`b` < 6)"
        " OR (`t`.`a` = 7 AND `t`.`b` = 6 AND `t`.`c` <= 2)"
    )


@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [
        ("text", "a", "A"),
        ("decimal", "1.0", "1.00"),
        ("time", "00:00:00", "-00:00:00"),
        ("datetime", "2020-01-01 00:00:00", "2020-01-01 00:00:00.000"),
        ("binary", "00", "0000"),
    ],
)
def test_where_texts_that_differ_may_be_one_key_the_server_reports(kind: Kind, low: str, high: str) -> None:
    """Else `a = 'a' AND b > 5` and `a = 'A' AND b <= 7` would each let in what the other keeps out."""
    text = within(key(Column("s", kind), B), (low, "5"), (high, "7"))
    assert text.count("`t`.`s`") == 8, "each end is compared with both"
    assert text.endswith(" AND `t`.`b` > 5 AND `t`.`b` <= 7)")


@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [("date", "2020-01-01", "2020-01-02"), ("timestamp", "2020-01-01 00:00:00", "2020-01-02 00:00:00"), ("binary", "00FF", "0100")],
)
def test_what_is_distinguished_by_its_text_is_compared_once(kind: Kind, low: str, high: str) -> None:
    column = KeyColumn(Column("s", kind))
    one, other = literal(column, low), literal(column, high)
    assert within(key(column, B), (low, "5"), (high, "7")) == (
        f"(`t`.`s` = {one} AND `t`.`b` > 5) OR (`t`.`s` > {one} AND `t`.`s` < {other}) OR (`t`.`s` = {other} AND `t`.`b` <= 7)"
    )
    assert within(key(column, B), (high, "5"), (low, "7")) == f"(`t`.`s` > {other} AND `t`.`s` < {one})", "no row"


def test_keys_are_picked_by_equality() -> None:
    assert one_of(key(A, B), [("1", "2"), ("3", "4")]) == "(`t`.`a` = 1 AND `t`.`b` = 2) OR (`t`.`a` = 3 AND `t`.`b` = 4)"


def test_no_keys_are_no_rows() -> None:
    assert one_of(key(A), []) == "FALSE"


@pytest.mark.parametrize("values", [(), ("1",), ("1", "2", "3")])
def test_a_key_has_a_value_for_each_column(values: Key) -> None:
    with pytest.raises(NotAKey, match=r"2 columns \(a, b\)"):
        above(key(A, B), values)


def test_rowid_is_read_as_a_signed_number() -> None:
    read_key = rowid_key(TABLE)
    assert read_key.by_rowid
    assert above(read_key, ("-5",)) == "(`t`.`_tidb_rowid` > -5)"
    assert not key(A).by_rowid


@pytest.mark.parametrize("kind", ["float", "double", "json", "vector"])
def test_a_key_without_an_exact_order_is_not_read_by(kind: str) -> None:
    reason = unreadable([A, Column("f", kind)])  # type: ignore[arg-type]  # parametrized
    assert reason is not None
    assert f"key column f is a {kind}" in reason


def test_an_enum_with_an_empty_label_is_not_read_by() -> None:
    """Its text does not tell the label from the invalid value, and a guess would lose the rows between them."""
    assert "empty label" in (unreadable([Column("e", "enum", elements=("a", ""))]) or "")
    assert unreadable([Column("e", "enum", elements=("a", "b"))]) is None


def test_integers_are_cut_evenly_up_to_the_highest() -> None:
    assert evenly_between(key(A), ("0",), ("100",), count=4) == (("25",), ("50",), ("75",), ("100",))
    assert evenly_between(key(A), ("-9223372036854775808",), ("9223372036854775807",), count=2) == (("-1",), ("9223372036854775807",))


def test_no_cut_is_made_twice() -> None:
    assert evenly_between(key(A), ("0",), ("2",), count=8) == (("1",), ("2",))
    assert evenly_between(key(A), ("1",), ("2",), count=8) == (("2",),)


def test_keys_that_are_not_one_integer_are_cut_at_the_highest_only() -> None:
    assert evenly_between(key(A, B), ("0", "0"), ("9", "9"), count=4) == (("9", "9"),)
    assert evenly_between(key(Column("s", "text")), ("a",), ("z",), count=4) == (("z",),)


@pytest.mark.parametrize(("count", "expected"), [(0, ""), (1, "9"), (2, "49"), (3, "259"), (10, "0123456789"), (99, "0123456789")])
def test_thinning_keeps_the_last_and_spreads_the_rest(count: int, expected: str) -> None:
    assert "".join(part for (part,) in thinned([(digit,) for digit in "0123456789"], count=count)) == expected


def test_thinning_nothing_is_nothing() -> None:
    assert thinned([], count=3) == ()


def test_the_keys_columns_come_in_its_own_order() -> None:
    assert key_columns(TableSchema(TABLE, (A, B, C), ("c", "a"))) == (C, A)


@pytest.mark.parametrize(
    ("column", "text", "expected"),
    [
        (Column("c", "int"), "-007", "-7"),
        (Column("c", "bit", length=8), "007", "7"),
        (Column("c", "year"), "0", "0000"),
        (Column("c", "decimal", scale=2), "1.5", "1.50"),
        (Column("c", "decimal", scale=0), "-0", "0"),
        (Column("c", "decimal", scale=30), "-0.000000000000000000000000000001", "-0.000000000000000000000000000001"),
        (Column("c", "double"), "1e3", "1000.0"),
        (Column("c", "set", elements=("a", "b", "c")), "c,a", "a,c"),
        (Column("c", "time", scale=1), "-001:02:03", "-01:02:03.0"),
        (Column("c", "time"), "-00:00:00.0", "00:00:00"),
        (Column("c", "datetime", scale=3), "2024-01-02 03:04:05.6", "2024-01-02 03:04:05.600"),
        (Column("c", "text"), "A ", "A "),
    ],
)
def test_a_value_of_a_key_has_one_canonical_text(column: Column, text: str, expected: str) -> None:
    assert spelled(column, text) == expected


@pytest.mark.parametrize(
    ("column", "text"),
    [(Column("c", "decimal", scale=1), "1.55"), (Column("c", "datetime", scale=1), "2024-01-02 03:04:05.67")],
)
def test_digits_that_the_column_does_not_have_are_no_key(column: Column, text: str) -> None:
    with pytest.raises(NotAKey, match="more digits"):
        spelled(column, text)
