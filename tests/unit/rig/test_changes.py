"""What a transaction comes to: TiKV's net effect, TiCDC's split and order."""

from __future__ import annotations

from tests.tools.rig.changes import Change, net_changes
from tests.tools.rig.row_image import Image
from tests.unit.rig.shapes import ID, column, table

T = table(ID, column("email", "varchar(9)", nullable=False), column("v", "int"), unique=(("email",),))
NO_KEY = table(column("a", "int"), primary=())


def ops(*rows: tuple[Image | None, Image | None]) -> list[tuple[Image | None, Image | None]]:
    return [(net_change.before, net_change.after) for net_change in net_changes(Change(T, *row) for row in rows)]


def test_several_versions_of_a_row_become_one_change() -> None:
    assert ops((None, (1, b"a", 1)), ((1, b"a", 1), (1, b"a", 2))) == [(None, (1, b"a", 2))]
    assert ops(((1, b"a", 1), (1, b"a", 2)), ((1, b"a", 2), (1, b"a", 3))) == [((1, b"a", 1), (1, b"a", 3))]
    assert ops(((1, b"a", 1), None), (None, (1, b"a", 5))) == [((1, b"a", 1), (1, b"a", 5))]


def test_what_comes_to_nothing_is_no_change() -> None:
    assert ops((None, (1, b"a", 1)), ((1, b"a", 1), None)) == []
    assert ops(((1, b"a", 1), (1, b"a", 2)), ((1, b"a", 2), (1, b"a", 1))) == []


def test_a_changed_key_is_a_delete_and_an_insert() -> None:
    assert ops(((1, b"a", 1), (2, b"a", 1))) == [((1, b"a", 1), None), (None, (2, b"a", 1))]


def test_swapped_keys_are_updates_of_each_row_and_split_by_the_unique_value() -> None:
    swap = [((1, b"a", 1), (9, b"a", 1)), ((2, b"b", 2), (1, b"b", 2)), ((9, b"a", 1), (2, b"a", 1))]
    assert ops(*swap) == [((1, b"a", 1), None), ((2, b"b", 2), None), (None, (1, b"b", 2)), (None, (2, b"a", 1))]


def test_a_changed_unique_value_is_split_and_the_table_is_sorted_deletes_first() -> None:
    rows = [(None, (3, b"c", 0)), ((4, b"d", 0), (4, b"d", 1)), ((1, b"a", 1), (1, b"x", 1))]
    assert ops(*rows) == [((1, b"a", 1), None), ((4, b"d", 0), (4, b"d", 1)), (None, (3, b"c", 0)), (None, (1, b"x", 1))]


def test_without_a_split_the_order_stays() -> None:
    rows = [(None, (3, b"c", 0)), ((4, b"d", 0), (4, b"d", 1)), (None, (5, b"e", 0))]
    assert ops(*rows) == rows


def test_a_table_without_a_handle_key_is_left_out() -> None:
    assert net_changes([Change(NO_KEY, None, (1,)), Change(T, None, (1, b"a", 1))]) == [Change(T, None, (1, b"a", 1))]
