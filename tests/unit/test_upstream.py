"""What of the changefeed's tables the sidecar is made of: the scope that follows DDLs, and the topics that follow tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from sidecar.adapters.tidb_schema import TidbSchemas
from sidecar.config import KafkaSection, SourceSection
from sidecar.core.changefeed import Changefeed, ChangefeedName, ColumnSelector, Dispatcher, EventFilter, FeedFilter
from sidecar.core.model import MARK_TABLE, Column, CommitTs, Ddl, Lane, Rank, TableName, TableSchema
from sidecar.errors import FeedUnsuitable
from sidecar.upstream import LiveScope, ddls_hidden, feed_of, schemas_of

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
    scope = LiveScope(changefeed(), server_tz="UTC")
    assert set(scope.follow(changefeed(), tables(T, OTHER, MARK_TABLE))) == {T, MARK_TABLE}
    assert scope.through(T) == (True, "")
    assert scope.through(BORN)[0] is False
    assert "has not come by the feed yet" in scope.through(BORN)[1]
    scope.follow(changefeed(), tables(BORN, MARK_TABLE))
    assert scope.through(BORN) == (True, "")
    assert scope.through(T)[0] is False


@pytest.mark.parametrize(
    ("filters", "ignored", "hidden"),
    [
        ((), (), False),
        ((EventFilter(("shop.*",), ignore_event=("insert",)),), (), False),
        ((EventFilter(("shop.*",), ignore_event=("truncate table",)),), (), True),
        ((EventFilter(("shop.*",), ignore_event=("all ddl",)),), (), True),
        ((EventFilter(("shop.other",), ignore_event=("all ddl",)),), (), False),
        ((EventFilter(("shop.t",), ignore_sql=("^drop",)),), (), True),
        ((), (470609343168643082,), True),
    ],
)
def test_a_filter_that_leaves_ddls_out_is_known(filters: tuple[EventFilter, ...], ignored: tuple[int, ...], hidden: bool) -> None:
    assert ddls_hidden(changefeed(*filters, ignored=ignored), tables(T, OTHER)) is hidden


def test_the_schemas_of_a_term_narrow_to_the_changefeed_and_move_its_scope() -> None:
    class Now(TidbSchemas):
        def now_ts(self) -> None:
            return None

        def tables(self, at_ts: object = None) -> Mapping[TableName, TableSchema]:
            return tables(T, OTHER, MARK_TABLE)

    source, scope = Now(SourceSection(host="h", user="u")), LiveScope(changefeed(), server_tz="UTC")
    found = schemas_of(source, scope, changefeed(), tables(T), lambda note: None)
    assert set(found.begin()) == {T, MARK_TABLE}
    assert scope.through(T) == (True, "")


def test_a_table_that_comes_and_that_a_setting_spoils_stops_the_feed() -> None:
    class Growing(TidbSchemas):
        def now_ts(self) -> CommitTs:
            return CommitTs(100)

        def tables(self, at_ts: CommitTs | None = None) -> Mapping[TableName, TableSchema]:
            return tables(T, MARK_TABLE) if at_ts == 100 else tables(T, BORN, MARK_TABLE)

    found = replace(changefeed(), column_selectors=(ColumnSelector(("shop.born",), ("!id",)),))
    source, scope = Growing(SourceSection(host="h", user="u")), LiveScope(found, server_tz="UTC")
    schemas = schemas_of(source, scope, found, tables(T), lambda note: None)
    assert set(schemas.begin()) == {T, MARK_TABLE}
    with pytest.raises(FeedUnsuitable, match="column-selectors"):
        schemas.after([Ddl(CommitTs(200), Rank.DDL, *BORN, "CREATE TABLE born …", Lane("a"), 1)])


def test_the_topics_are_those_of_the_tables_where_the_log_is_and_of_the_sources_own() -> None:
    at_log = [tables(T)]
    asked = 0

    def names() -> list[TableName]:
        nonlocal asked
        asked += 1
        return [T, BORN, OTHER]

    by_table = changefeed(dispatchers=(Dispatcher(("shop.*",), "{schema}_{table}", ""),))
    feed = feed_of(by_table, KafkaSection(), lambda: at_log[0], names)
    assert feed._topics() == {"default", "shop_t"}
    assert feed._present() == {"default", "shop_t", "shop_born"}, "what the rules leave out is not read"
    at_log[0] = tables(BORN)
    assert feed._topics() == {"default", "shop_born"}
    assert asked == 1
    feed = feed_of(changefeed(), KafkaSection(), lambda: at_log[0], names)
    assert feed._present() == {"default"}
    assert asked == 1, "nobody is asked where one topic has everything"


def test_a_dispatcher_that_is_not_understood_is_refused_at_once() -> None:
    broken = changefeed(dispatchers=(Dispatcher(("shop.*",), "{nothing}", ""),))
    with pytest.raises(FeedUnsuitable, match="no topic expression"):
        feed_of(broken, KafkaSection(), lambda: tables(T), lambda: [T])
