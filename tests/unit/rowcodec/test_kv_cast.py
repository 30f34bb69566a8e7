"""A value under another column type: the same value, or nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.shared.rowcodec.kv_cast import cast_text, clipped_text
from sidecar.shared.rowcodec.kv_table import KvColumn, kv_table
from tests.support.kv_encoder import column, info

TEXT = "utf8mb4_bin"


def of(type_: str, **more: Any) -> KvColumn:
    if type_ in ("varchar", "char", "blob") and "collation" not in more:
        more["collation"] = TEXT
    (only,) = kv_table(info([column(1, "c", type_, **more)]), schema="s").columns
    return only


TINY, INT, BIG, UBIG = of("tinyint"), of("int"), of("bigint"), of("bigint", unsigned=True)
DEC, LONG_DEC, UDEC = of("decimal", flen=6, decimal=2), of("decimal", flen=10, decimal=4), of("decimal", flen=6, decimal=2, unsigned=True)
VARCHAR, CHAR, TINYTEXT = of("varchar", flen=5), of("char", flen=5), of("tinyblob", flen=8, collation=TEXT)
ENUM, SET = of("enum", elems=["a", "b"], collation=TEXT), of("set", elems=["a", "b", "c"], collation=TEXT)
DATETIME, DATETIME3, TIMESTAMP = of("datetime"), of("datetime", decimal=3), of("timestamp")


@pytest.mark.parametrize(
    ("text", "source", "target", "expected"),
    [
        ("127", INT, TINY, "127"),
        ("128", INT, TINY, None),
        ("-128", INT, TINY, "-128"),
        ("-1", INT, UBIG, None),
        ("18446744073709551615", UBIG, BIG, None),
        ("0", UBIG, BIG, "0"),
        ("12.0000", LONG_DEC, DEC, "12.00"),
        ("12.3400", LONG_DEC, DEC, "12.34"),
        ("12.3450", LONG_DEC, DEC, None),
        ("10000.0000", LONG_DEC, DEC, None),
        ("-12.3400", LONG_DEC, DEC, "-12.34"),
        ("-12.3400", LONG_DEC, UDEC, None),
        ("0.0000", LONG_DEC, UDEC, "0.00"),
        ("12", INT, DEC, "12.00"),
        ("12.00", DEC, INT, "12"),
        ("12.50", DEC, INT, None),
        ("12", INT, VARCHAR, "12"),
        ("123456", INT, VARCHAR, None),
        ("12", VARCHAR, INT, "12"),
        ("012", VARCHAR, INT, None),
        ("1e2", VARCHAR, INT, None),
        ("+1", VARCHAR, INT, None),
        (" 1", VARCHAR, INT, None),
        ("-0", VARCHAR, INT, None),
        ("abc", VARCHAR, INT, None),
        ("1_0", VARCHAR, INT, None),
        ("NaN", VARCHAR, DEC, None),
        ("1e999999999", VARCHAR, DEC, None),
        ("1.50", VARCHAR, DEC, "1.50"),
        ("1.5", VARCHAR, DEC, None),
        ("x" * 6, of("varchar", flen=6), VARCHAR, None),
        ("ééééé", of("varchar", flen=6), VARCHAR, "ééééé"),
        ("ééééé", VARCHAR, TINYTEXT, None),
        ("ab ", VARCHAR, CHAR, None),
        ("ab", CHAR, VARCHAR, "ab"),
        ("a", VARCHAR, ENUM, "a"),
        ("c", VARCHAR, ENUM, None),
        ("", ENUM, ENUM, None),
        ("b", ENUM, VARCHAR, "b"),
        ("a,c", VARCHAR, SET, "a,c"),
        ("c,a", VARCHAR, SET, None),
        ("a,a", VARCHAR, SET, None),
        ("", VARCHAR, SET, ""),
        ("a,d", VARCHAR, SET, None),
        ("2020-01-01 00:00:00.000", DATETIME3, DATETIME, "2020-01-01 00:00:00"),
        ("2020-01-01 00:00:00.001", DATETIME3, DATETIME, None),
        ("2020-01-01 00:00:00", DATETIME, DATETIME3, "2020-01-01 00:00:00.000"),
        ("2020-01-01 00:00:00", DATETIME, TIMESTAMP, None),
        ("2020-01-01 00:00:00", DATETIME, VARCHAR, None),
        ("1.5", of("float"), of("double"), "1.5"),
        ("1.5", of("double"), of("float"), None),
        ("1.5", of("double"), VARCHAR, None),
        ("AB", of("varchar", collation="binary"), VARCHAR, None),
        ("{}", of("json"), of("json"), "{}"),
        ("{}", of("json"), VARCHAR, None),
        ("5", of("bit", flen=4), INT, None),
        ("2020", of("year"), of("year"), "2020"),
    ],
)
def test_the_same_value_or_nothing(text: str, source: KvColumn, target: KvColumn, expected: str | None) -> None:
    assert cast_text(text, source, target) == expected


@pytest.mark.parametrize(
    ("text", "source", "target", "expected"),
    [
        ("-1", INT, UBIG, "0"),
        ("300", INT, TINY, "127"),
        ("-300", INT, TINY, "-128"),
        ("18446744073709551615", UBIG, BIG, "9223372036854775807"),
        ("5", INT, UBIG, "5"),
        ("1.5", DEC, INT, None),
        ("-1.00", DEC, UBIG, None),
        ("-1", VARCHAR, UBIG, None),
    ],
)
def test_integers_beyond_the_new_type_are_clipped_as_a_ddl_without_strict_mode_does(
    text: str, source: KvColumn, target: KvColumn, expected: str | None
) -> None:
    assert clipped_text(text, source, target) == expected


NUMBERS = [TINY, INT, BIG, UBIG, DEC, LONG_DEC, UDEC, of("varchar", flen=40)]


@given(st.sampled_from(NUMBERS), st.sampled_from(NUMBERS), st.decimals(-(2**64), 2**64, places=4) | st.integers(-(2**64), 2**64))
def test_what_is_cast_comes_back_the_same(one: KvColumn, other: KvColumn, number: object) -> None:
    text = cast_text(str(number), NUMBERS[-1], one) if one is not NUMBERS[-1] else str(number)
    result = cast_text(text, one, other) if text is not None else None
    if text is not None and result is not None:
        assert cast_text(result, other, one) == text


@given(st.text(max_size=20), st.sampled_from([*NUMBERS, ENUM, SET, CHAR]))
def test_any_text_has_an_outcome(text: str, target: KvColumn) -> None:
    result = cast_text(text, NUMBERS[-1], target)
    assert result is None or result == text
