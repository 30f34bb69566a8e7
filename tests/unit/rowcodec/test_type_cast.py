"""Defaults as TiDB casts them when it reads: the same from TableInfo and from information_schema."""

from __future__ import annotations

from dataclasses import replace
from decimal import ROUND_HALF_UP, Decimal
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.model.nouns import Column, ColumnDefinition, Kind, TableDefinition, TableName, TableSchema
from sidecar.shared.rowcodec.kv_table import kv_table
from sidecar.shared.rowcodec.type_cast import column_type, default_text
from sidecar.shared.sql.text import quoted_text
from spark_merge.ddl.columns import added_column
from tests.support.kv_encoder import column, info

TYPES: dict[str, tuple[str, dict[str, object], str, Kind]] = {
    "year": ("year", {}, "year(4)", "year"),
    "tiny": ("tinyint", {}, "tinyint(4)", "int"),
    "int": ("int", {}, "int(11)", "int"),
    "big": ("bigint", {"unsigned": True}, "bigint(20) unsigned", "uint"),
    "decimal": ("decimal", {"flen": 10, "decimal": 2}, "decimal(10,2)", "decimal"),
    "whole": ("decimal", {"flen": 5, "decimal": 0}, "decimal(5,0)", "decimal"),
    "float": ("float", {}, "float", "float"),
    "char": ("char", {"flen": 4, "collation": "utf8mb4_bin"}, "char(4)", "text"),
    "varchar": ("varchar", {"flen": 4, "collation": "utf8mb4_bin"}, "varchar(4)", "text"),
}


def by_table_info(name: str, default: str) -> str | None:
    """None: the table is refused."""
    type_, more, _, _ = TYPES[name]
    try:
        return kv_table(info([column(1, "a", type_, origin_default=default, **more)]), schema="s").columns[0].absent  # type: ignore[arg-type]
    except FeedUnsuitable:
        return None


def by_sql(name: str, default: str) -> str | None:
    """None: the default is unknown."""
    _, more, sql, kind = TYPES[name]
    shape = Column("a", kind, length=int(str(more.get("flen", -1))), scale=int(str(more.get("decimal", 0)))) if kind == "decimal" else None
    made = ColumnDefinition("a", sql, default=quoted_text(default), charset="utf8mb4" if kind == "text" else "")
    after = TableSchema(TableName("s", "t"), (), (), definition=TableDefinition((made,)))
    return added_column(shape or Column("a", kind), after).existing


@pytest.mark.parametrize(
    ("name", "default", "text"),
    [
        ("year", "24", "2024"), ("year", "70", "1970"), ("year", "0", "2000"), ("year", "0000", "0000"), ("year", "2155", "2155"),
        ("year", "1900", None), ("int", "1.5", "2"), ("int", "-1.5", "-2"), ("int", "1.4999", "1"), ("int", " 7 ", "7"),
        ("int", "1e3", "1000"),
        ("int", "2147483648", None), ("int", "abc", None), ("tiny", "127.4", "127"), ("tiny", "127.5", None), ("big", "-1", None),
        ("big", "18446744073709551615", "18446744073709551615"), ("decimal", "1.005", "1.01"), ("decimal", "-1.005", "-1.01"),
        ("decimal", "-0.001", "0.00"), ("decimal", "99999999.995", None), ("decimal", "1e2", "100.00"), ("whole", "2.5", "3"),
        ("float", "0.1", "0.10000000149011612"), ("char", "ab  ", "ab"), ("char", "ab      ", "ab"), ("varchar", "ab      ", "ab  "),
        ("varchar", "abcde", None), ("varchar", "C:\\\\", "C:\\\\"), ("char", "é中\n'", "é中\n'"),
    ],
)  # fmt: skip
def test_a_default_is_what_tidb_makes_of_it_when_it_reads(name: str, default: str, text: str | None) -> None:
    assert (by_table_info(name, default), by_sql(name, default)) == (text, text)


@given(st.sampled_from(sorted(TYPES)), st.text(st.sampled_from("0123456789.-e +a'\\ "), max_size=8))
def test_both_sources_of_a_default_have_the_same_value_of_it(name: str, default: str) -> None:
    assert by_table_info(name, default) == by_sql(name, default)


@pytest.mark.parametrize("seed", range(20))
def test_numbers_are_rounded_half_away_from_zero(seed: int) -> None:
    random = Random(seed)
    for _ in range(50):
        text = f"{random.choice(['', '-'])}{random.randrange(100)}.{random.choice(['5', '49', '50', '05', '995', '004', '005', '015'])}"
        expected = Decimal(text).quantize(Decimal("0.01"), ROUND_HALF_UP)
        assert Decimal(by_sql("decimal", text) or "none") == expected
        assert int(by_sql("int", text) or "none") == int(Decimal(text).quantize(Decimal(1), ROUND_HALF_UP))


def test_labels_are_the_columns_own_and_in_its_order() -> None:
    shape = Column("a", "set", elements=("x", "B", "c"))
    kind = column_type(ColumnDefinition("a", "set('x','B','c')"))
    assert default_text(shape, "c,b,x", kind) == "x,B,c"
    assert default_text(replace(shape, kind="enum"), "b", kind) == "B"
    with pytest.raises(ValueError, match="none of the labels"):
        default_text(replace(shape, kind="enum"), "y", kind)
