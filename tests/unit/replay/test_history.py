"""What a DDL makes of rows that nobody writes again."""

from __future__ import annotations

import pytest

from sidecar.replay.history import _reshaped
from sidecar.shared.errors import SourceError
from sidecar.shared.rowcodec.kv_table import KvTable, kv_table
from tests.support.kv_encoder import column, info


def table(type_: str, *, id: int, unsigned: bool = False) -> KvTable:
    return kv_table(info([column(1, "id", "int"), column(id, "c", type_, unsigned=unsigned)]), schema="s")


def test_modify_to_unsigned_over_negative_values_leaves_zeros() -> None:
    """As the server without strict mode, which alone carries it out; a column that is made anew has another id."""
    before, after = table("int", id=2), table("int", id=3, unsigned=True)
    assert _reshaped(before, after, ("1", "-5")) == ("1", "0")
    assert _reshaped(before, after, ("1", "5")) == ("1", "5")
    assert _reshaped(before, after, ("1", None)) == ("1", None)
    assert _reshaped(after, before, ("1", "4294967295")) == ("1", "2147483647")


def test_a_conversion_that_is_not_known_is_refused_by_the_column() -> None:
    with pytest.raises(SourceError, match="'2020' of column c cannot be written as json after a DDL"):
        _reshaped(table("year", id=2), table("json", id=2), ("1", "2020"))
