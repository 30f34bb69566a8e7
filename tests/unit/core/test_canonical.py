from __future__ import annotations

import pytest

from sidecar.shared.model.canonical import equal_text
from sidecar.shared.model.nouns import Kind


@pytest.mark.parametrize(
    ("kind", "a", "b"),
    [
        ("text", "a", "a"),
        ("text", None, None),
        ("float", "0.1", "0.10000000149011612"),
        ("float", "-3.4e+38", "-3.3999999521443642e+38"),
        ("double", "1e20", "100000000000000000000"),
        ("json", '{"a": 1, "b": [true, null]}', '{"b":[true,null],"a":1.0}'),
        ("json", '"\\u00e9"', '"é"'),
    ],
)
def test_equal_values(kind: Kind, a: str | None, b: str | None) -> None:
    assert equal_text(kind, a, b)
    assert equal_text(kind, b, a)


@pytest.mark.parametrize(
    ("kind", "a", "b"),
    [
        ("text", "a", "a "),
        ("text", "", None),
        ("json", "null", None),
        ("decimal", "1.0", "1.00"),
        ("float", "0.1", "0.2"),
        ("float", "1e39", "2e39"),
        ("double", "0.1", "0.10000000149011612"),
        ("json", "1", "true"),
        ("json", "[0]", "[false]"),
        ("json", "[1]", "[1, 1]"),
        ("json", '{"a": 1}', '{"b": 1}'),
        ("json", '{"a": {"x": 1}}', '{"a": {"x": 2}}'),
        ("json", "18446744073709551615", "18446744073709551614"),
    ],
)
def test_different_values(kind: Kind, a: str | None, b: str | None) -> None:
    assert not equal_text(kind, a, b)
    assert not equal_text(kind, b, a)
