"""Which differences of a sink the changefeed's filter explains: one case for each kind of filter that TiCDC has."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.shared.model.nouns import MARK_TABLE, TableName
from sidecar.shared.ticdc.changefeed import EventFilter
from sidecar.shared.ticdc.ddl_rules import EVENT_TYPES
from sidecar.shared.ticdc.event_filter import FilterRules
from sidecar.shared.ticdc.hidden_changes import _OF_DDLS, KINDS, Explanation, are_all, explanations
from sidecar.shared.ticdc.scope import LiveScope
from tests.unit.ticdc.test_event_filter import ITEM, ORDERS, feed, schemas

ALL = frozenset(KINDS)
FILTERS: dict[str, tuple[dict[str, Any], frozenset[str], str]] = {
    "deletes": ({"ignore_event": ("delete",)}, frozenset({"extra"}), "omits deletes"),
    "deletes by value": (
        {"ignore_delete_value_expr": "amount > 3"},
        frozenset({"extra"}),
        "omits deletes for which (amount > 3) holds",
    ),
    "updates": ({"ignore_event": ("update",)}, ALL, "omits updates"),
    "updates by old value": ({"ignore_update_old_value_expr": "amount > 3"}, ALL, "ignore-update-old-value-expr, omits updates"),
    "updates by new value": ({"ignore_update_new_value_expr": "amount > 3"}, ALL, "ignore-update-new-value-expr, omits updates"),
    "updates of columns": ({"ignore_update_only_columns": ("Amount",)}, frozenset({"different"}), "that change only Amount"),
    "updates of the key": ({"ignore_update_only_columns": ("amount", "ID")}, ALL, "that change only amount, ID"),
    "inserts": ({"ignore_event": ("insert",)}, frozenset({"extra"}), "omits inserts"),
    "inserts by value": ({"ignore_insert_value_expr": "amount > 3"}, frozenset({"extra"}), "omits inserts for which"),
    "all changes": ({"ignore_event": ("all dml",)}, ALL, "omits deletes"),
    "truncations": ({"ignore_event": ("truncate table",)}, frozenset({"extra"}), "omit DDLs: truncate table"),
    "drops of a schema": ({"ignore_event": ("drop schema",)}, frozenset({"extra"}), "omit DDLs: drop database"),
    "new columns": ({"ignore_event": ("add column",)}, frozenset({"different"}), "omit DDLs: add column"),
    "columns of another type": ({"ignore_event": ("modify column",)}, ALL, "omit DDLs: modify column"),
    "recoveries": ({"ignore_event": ("recover table",)}, frozenset({"missing"}), "omit DDLs: recover table"),
    "all alterations": ({"ignore_event": ("alter table",)}, ALL, "omit DDLs: alter table"),
    "DDLs by text": ({"ignore_sql": ("^DROP",)}, ALL, "omit DDLs: /^DROP/"),
    "indexes": ({"ignore_event": ("create index", "add table partition")}, frozenset(), ""),
}


def found(*filters: EventFilter, table: TableName = ORDERS) -> tuple[Explanation, ...]:
    return explanations(FilterRules.of(feed(*filters)), table, key=("id",))


@pytest.mark.parametrize("name", FILTERS)
def test_what_a_filter_leaves_out_explains_the_differences_that_it_makes(name: str) -> None:
    setting, kinds, says = FILTERS[name]
    explained = found(EventFilter(("shop.orders",), **setting))
    assert {kind for one in explained for kind in one.kinds} == kinds
    assert says in "; ".join(one.why for one in explained)
    assert all("event-filters number 1" in one.why or "DDLs" in one.why for one in explained)


@pytest.mark.parametrize("name", FILTERS)
def test_a_table_that_no_matcher_has_is_judged(name: str) -> None:
    setting, _, _ = FILTERS[name]
    assert found(EventFilter(("shop.orders",), **setting), table=TableName("hr", "staff")) == ()


def test_a_dropped_schema_that_is_left_out_is_one_of_all_its_tables() -> None:
    """TiCDC looks whether some table of the schema may match (ddl_rules.schema_matches)."""
    assert [one.kinds for one in found(EventFilter(("shop.orders",), ignore_event=("drop database",)), table=ITEM)] == [{"extra"}]


def test_transactions_that_are_left_out_explain_whatever_differs() -> None:
    (one,) = explanations(FilterRules.of(feed()), ORDERS, key=("id",), skipped_transactions=True)
    assert (one.why, one.kinds) == ("filter.ignore-txn-start-ts omits transactions", ALL)


def test_every_type_of_ddl_is_known_or_explains_anything() -> None:
    assert _OF_DDLS.keys() <= set(EVENT_TYPES.values())
    for kind in sorted(set(EVENT_TYPES.values())):
        explained = found(EventFilter(("shop.orders",), ignore_event=(kind,)))
        assert {each for one in explained for each in one.kinds} == _OF_DDLS.get(kind, ALL), kind


def test_the_scope_of_a_feed_has_what_its_filter_explains() -> None:
    scope = LiveScope(server_tz="UTC")
    assert scope.explains(ORDERS) == ()
    scope.follow(feed(EventFilter(("shop.orders",), ignore_event=("delete",))), schemas(ORDERS, ITEM, MARK_TABLE))
    assert [one.kinds for one in scope.explains(ORDERS)] == [{"extra"}]
    assert scope.explains(ITEM) == ()


def test_no_kind_is_judged_where_all_can_be_right() -> None:
    assert are_all([("missing", "extra"), ("different",)])
    assert not are_all([("missing", "extra")])
    assert not are_all([])
