"""What a Kafka feed brings to a term: schemas that move the scope, and topics that follow the tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from sidecar.adapters.tidb.schema import TidbSchemas
from sidecar.feeds.encoded.make import Begins, schemas_of
from sidecar.feeds.kafka.lanes import TableTopics
from sidecar.feeds.kafka.make import feed_of
from sidecar.shared.config import KafkaSection, SourceSection
from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.model.nouns import MARK_TABLE, CommitTs, Ddl, Lane, Rank, TableName, TableSchema
from sidecar.shared.ticdc.changefeed import ColumnSelector, Dispatcher
from sidecar.shared.ticdc.scope import LiveScope
from tests.unit.ticdc.test_scope import BORN, OTHER, T, changefeed, tables

BY_TABLE = changefeed(dispatchers=(Dispatcher(("shop.*",), "{schema}_{table}", ""),))


def test_the_schemas_of_a_term_narrow_to_the_changefeed_and_move_its_scope() -> None:
    class Now(TidbSchemas):
        def now_ts(self) -> None:
            return None

        def tables(self, at_ts: object = None, **_: object) -> Mapping[TableName, TableSchema]:
            return tables(T, OTHER, MARK_TABLE)

    source, scope = Now(SourceSection(host="h", user="u")), LiveScope(server_tz="UTC")
    schemas = schemas_of(source, scope, changefeed(), lambda note: None)
    assert set(schemas.begin()) == {T, MARK_TABLE}
    assert scope.through(T) == (True, "")


def test_a_table_that_comes_and_that_a_setting_spoils_stops_the_feed() -> None:
    class Growing(TidbSchemas):
        def now_ts(self) -> CommitTs:
            return CommitTs(100)

        def tables(self, at_ts: CommitTs | None = None, **_: object) -> Mapping[TableName, TableSchema]:
            return tables(T, MARK_TABLE) if at_ts == 100 else tables(T, BORN, MARK_TABLE)

    result = replace(changefeed(), column_selectors=(ColumnSelector(("shop.born",), ("!id",)),))
    source, scope = Growing(SourceSection(host="h", user="u")), LiveScope(server_tz="UTC")
    schemas = schemas_of(source, scope, result, lambda note: None)
    assert set(schemas.begin()) == {T, MARK_TABLE}
    with pytest.raises(FeedUnsuitable, match="column-selectors"):
        schemas.after([Ddl(CommitTs(200), Rank.DDL, *BORN, "CREATE TABLE born …", Lane("a"), 1)])


def test_the_topics_are_those_of_the_tables_where_the_log_is_and_of_the_sources_own() -> None:
    at_log = [tables(T)]
    asked = 0

    def names() -> dict[TableName, int]:
        nonlocal asked
        asked += 1
        return dict.fromkeys([T, BORN, OTHER], 0)

    feed = feed_of(BY_TABLE, KafkaSection(), lambda: at_log[0], names)
    assert feed._topics() == {"default", "shop_t"}
    assert feed._present().all == {"default", "shop_t", "shop_born"}, "what the rules leave out is not read"
    at_log[0] = tables(BORN)
    assert feed._topics() == {"default", "shop_born"}
    assert asked == 1
    feed = feed_of(changefeed(), KafkaSection(), lambda: at_log[0], names)
    assert feed._present() == TableTopics(frozenset({"default"}), frozenset({"default"}))
    assert asked == 1, "nobody is asked where one topic has everything"


def test_only_a_table_with_a_key_that_the_log_has_too_is_surely_marked() -> None:
    """Finding 8: a table without a key that has taken a name over has a topic, by the DROP TABLE before it, and no marks in it."""
    keyless, again, view = TableName("shop", "keyless"), TableName("shop", "again"), TableName("shop", "view")
    logged = {
        T: replace(tables(T)[T], table_id=1),
        keyless: replace(tables(keyless)[keyless], key=(), table_id=2),
        again: replace(tables(again)[again], table_id=3),
    }
    now = {T: 1, keyless: 2, again: 30, BORN: 4, view: 5}
    topics = feed_of(BY_TABLE, KafkaSection(), lambda: logged, lambda: now)._present()
    assert topics.all == {"default", "shop_t", "shop_keyless", "shop_again", "shop_born", "shop_view"}
    assert topics.marked == {"default", "shop_t"}


def test_a_dispatcher_that_is_not_understood_is_refused_at_once() -> None:
    broken = changefeed(dispatchers=(Dispatcher(("shop.*",), "{nothing}", ""),))
    with pytest.raises(FeedUnsuitable, match="no topic expression"):
        feed_of(broken, KafkaSection(), lambda: tables(T), lambda: {T: 0})


def test_the_start_says_where_a_new_log_begins_and_why() -> None:
    now, oldest = CommitTs(100), CommitTs(0)

    def in_words(since_ts: CommitTs, said: str) -> str:
        return Begins("kafka.begin", said, "the topics' oldest messages").in_words(since_ts)

    assert "now, at TSO 100" in in_words(now, "")
    assert "the default of kafka.begin" in in_words(now, "")
    assert "as kafka.begin says" in in_words(now, "now")
    assert "oldest messages (as kafka.begin says)" in in_words(oldest, "topic")
    assert "reports no TSO" in in_words(oldest, "")
