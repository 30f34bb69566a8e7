"""The rig's tables and what is written into them."""

from __future__ import annotations

from random import Random

from tests.tools.rig.tables import TABLES, random_value
from tests.unit.rig.shapes import column, table


def test_keys_of_a_table_differ() -> None:
    for rig in TABLES:
        assert len({rig.key(number) for number in range(rig.keys)}) == rig.keys, rig.name
        assert {len(rig.key(number)) for number in range(rig.keys)} == {len(rig.key_columns)}


def test_values_repeat_with_the_seed_and_reach_the_ends() -> None:
    (result,) = table(column("v", "bigint unsigned"), primary=()).columns
    first, second = ([random_value(result, numbers) for _ in range(200)] for numbers in (Random(3), Random(3)))
    assert first == second
    assert {None, 0, 2**64 - 1} <= set(first)
