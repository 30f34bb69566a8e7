"""The scope follows the tables as DDLs change them, and knows a filter that hides such DDLs."""

from __future__ import annotations

import pytest

from sidecar.shared.model.nouns import MARK_TABLE, Column, TableName, TableSchema
from sidecar.shared.ticdc.changefeed import Changefeed, ChangefeedName, Dispatcher, EventFilter, FeedFilter
from sidecar.shared.ticdc.scope import LiveScope, ddls_hidden

NAME = ChangefeedName("default", "default", "orders")
T, BORN, OTHER = TableName("shop", "t"), TableName("shop", "born"), TableName("other", "x")


def schema(name: TableName) -> TableSchema:
    return TableSchema(name, (Column("id", "int", nullable=False),), ("id",))


def tables(*names: TableName) -> dict[TableName, TableSchema]:
    return {name: schema(name) for name in names}


def changefeed(*filters: EventFilter, dispatchers: tuple[Dispatcher, ...] = (), ignored: tuple[int, ...] = ()) -> Changefeed:
    rules = ("shop.*", "changefeed_dump.*")
    return Changefeed(
        NAME,
        "1",
        "kafka://127.0.0.1:1/default?protocol=open-protocol",
        protocol="open-protocol",
        filter=FeedFilter(rules, event_filters=filters, ignore_txn_start_ts=ignored),
        dispatchers=dispatchers,
    )


def test_the_scope_follows_the_tables() -> None:
    scope = LiveScope(server_tz="UTC")
    assert set(scope.follow(changefeed(), tables(T, OTHER, MARK_TABLE))) == {T, MARK_TABLE}
    assert scope.through(T) == (True, "")
    assert scope.through(BORN)[0] is False
    assert "has not come by the feed yet" in scope.through(BORN)[1]
    scope.follow(changefeed(), tables(BORN, MARK_TABLE))
    assert scope.through(BORN) == (True, "")
    assert scope.through(T)[0] is False
    assert [scope.has(table) for table in (T, BORN, OTHER)] == [True, True, False], "by the rules, whether it has come or not"


@pytest.mark.parametrize(
    ("filters", "ignored", "hidden"),
    [
        ((), (), False),
        ((EventFilter(("shop.*",), ignore_event=("insert",)),), (), False),
        ((EventFilter(("shop.*",), ignore_event=("truncate table",)),), (), True),
        ((EventFilter(("shop.*",), ignore_event=("all ddl",)),), (), True),
        ((EventFilter(("shop.not_there_yet",), ignore_event=("all ddl",)),), (), True),
        ((EventFilter(("shop.t",), ignore_sql=("^drop",)),), (), True),
        ((), (470609343168643082,), True),
    ],
)
def test_a_filter_that_leaves_ddls_out_is_known(filters: tuple[EventFilter, ...], ignored: tuple[int, ...], hidden: bool) -> None:
    assert ddls_hidden(changefeed(*filters, ignored=ignored)) is hidden
