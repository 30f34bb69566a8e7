"""Which columns a changefeed carries, and what is left of a table without the others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.model.nouns import (
    MARK_TABLE,
    Column,
    ColumnDefinition,
    IndexDefinition,
    IndexPart,
    TableDefinition,
    TableName,
    TableSchema,
)
from sidecar.shared.ticdc.changefeed import Changefeed, ChangefeedName, ColumnSelector, FeedFilter
from sidecar.shared.ticdc.selected_columns import SelectedColumns

T, U = TableName("shop", "t"), TableName("Shop", "U")
NAMES = ("id", "Note", "paid")


def selected(*selectors: tuple[str, tuple[str, ...]], case_sensitive: bool = False) -> SelectedColumns:
    name = ChangefeedName("default", "default", "c")
    each = tuple(ColumnSelector((matcher,), columns) for matcher, columns in selectors)
    return SelectedColumns.of(
        Changefeed(name, "i", "kafka://h:9092/t", filter=FeedFilter(case_sensitive=case_sensitive), column_selectors=each)
    )


def table(name: TableName = T, *names: str) -> TableSchema:
    return TableSchema(name, tuple(Column(one, "int") for one in names or NAMES), ("id",))


def carried(by: SelectedColumns, name: TableName = T) -> tuple[str, ...]:
    narrowed = by.narrowed(table(name))
    assert {*narrowed.columns, *narrowed.omitted} == {*table(name).columns}
    assert narrowed.key == ("id",)
    return narrowed.column_names()


@pytest.mark.parametrize(
    ("columns", "names"),
    [
        (("*",), NAMES),
        (("*", "!note"), ("id", "paid")),
        (("!note", "*"), NAMES),
        (("id", "P*"), ("id", "paid")),
        (("*", "!p*", "paid"), NAMES),
        (("i?", "[m-o]ote"), ("id", "Note")),
        (("*", "!/o.e/"), ("id", "paid")),
        (("*", '!"Note"'), ("id", "paid")),
        (("# all", " ", "id"), ("id",)),
        ((), ()),
    ],
)
def test_columns_are_matched_as_tables_are_and_without_case(columns: tuple[str, ...], names: tuple[str, ...]) -> None:
    assert carried(selected(("*.*", columns))) == names


def test_the_first_selector_that_has_a_table_decides_and_a_table_without_one_is_whole() -> None:
    by = selected(("shop.t", ("id",)), ("*.*", ("*", "!paid")))
    assert (carried(by), carried(by, U), carried(selected(("hr.*", ("id",))))) == (("id",), ("id", "Note"), NAMES)
    assert carried(selected(("shop.u", ("id",))), U) == ("id",)
    assert carried(selected(("shop.u", ("id",)), case_sensitive=True), U) == NAMES


def test_narrowing_again_changes_nothing_and_the_watermark_table_is_never_narrowed() -> None:
    by = selected(("*.*", ("id",)))
    assert by.narrowed(by.narrowed(table())) == by.narrowed(table())
    assert by.narrowed(table(MARK_TABLE)) == table(MARK_TABLE)
    assert selected().narrowed(table()) == table()


def test_a_rule_that_is_none_is_named_with_its_selector() -> None:
    with pytest.raises(FeedUnsuitable, match=r"sink.column-selectors number 2"):
        selected(("*.*", ("*",)), ("shop", ("id",)))
    with pytest.raises(FeedUnsuitable, match=r"sink.column-selectors number 1"):
        selected(("*.*", ("a b",)))


def defined(*columns: ColumnDefinition, indexes: tuple[IndexDefinition, ...] = ()) -> TableSchema:
    public = tuple(Column(one.name, "int") for one in columns if one.stored or not one.generated)
    return TableSchema(
        T, public, ("id",), definition=TableDefinition(columns, indexes, partitioning="PARTITION BY HASH (`id`) PARTITIONS 2")
    )


def plain(*names: str) -> tuple[ColumnDefinition, ...]:
    return tuple(ColumnDefinition(name, "int(11)") for name in names)


def test_virtual_columns_that_a_formula_makes_of_such_columns_go_with_them() -> None:
    made = [
        ColumnDefinition("twice", "int(11)", generated="`note` * 2"),
        ColumnDefinition("more", "int(11)", generated="`twice` + `id`"),
        ColumnDefinition("other", "int(11)", generated="`id` + 1"),
        ColumnDefinition("kept", "int(11)", generated="`note` + 1", stored=True),
    ]
    narrowed = selected(("*.*", ("*", "!note"))).narrowed(defined(*plain("id", "note"), *made))
    assert narrowed.definition is not None
    assert [one.name for one in narrowed.definition.columns] == ["id", "other", "kept"]
    assert narrowed.column_names() == ("id", "kept")
    only_virtual = selected(("*.*", ("*", "!twice"))).narrowed(defined(*plain("id", "note"), *made))
    assert only_virtual == defined(*plain("id", "note"), *made), "no row has it"


def test_indexes_and_partitions_stay_as_they_are() -> None:
    """Flags of the other columns hang on them."""
    indexes = (
        IndexDefinition("PRIMARY", (IndexPart("id"),), unique=True, primary=True),
        IndexDefinition("i", (IndexPart("paid"), IndexPart("note")), unique=True),
    )
    whole = defined(*plain("id", "note", "paid"), indexes=indexes)
    narrowed = selected(("*.*", ("*", "!note"))).narrowed(whole)
    assert whole.definition is not None
    assert narrowed.definition == replace(whole.definition, columns=plain("id", "paid"))
    assert selected(("*.*", ("*", "!note"))).narrowed(replace(whole, definition=None)).definition is None
