"""A changefeed with table routes: the log has TiDB's names, at each DDL those of its moment, and no DDL of the messages counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sidecar.adapters.memory.log import MemoryLog
from sidecar.feeds.encoded import hidden
from sidecar.feeds.encoded.checks import settings
from sidecar.feeds.encoded.hidden import CodecWithCuts, WithHiddenDdls, may_change_rows
from sidecar.feeds.encoded.make import of_messages, schemas_of
from sidecar.pipeline import Outside, Pipeline, PipelineLimits, attach
from sidecar.shared.errors import FeedUnsuitable, UnsupportedDdl
from sidecar.shared.log.spill import MemorySpill
from sidecar.shared.model.nouns import MARK_TABLE, Lane, Message, TableName
from sidecar.shared.process.checks import CheckFinding
from sidecar.shared.ticdc.changefeed import Dispatcher
from sidecar.shared.ticdc.scope import LiveScope
from tests.support.changes import ddl as sent_ddl
from tests.support.changes import put, resolved
from tests.unit.adapters.test_tidb_follow import T, U, table, tables
from tests.unit.feeds.test_encoded_hidden import Checking, KafkaStandIn, finished, run
from tests.unit.feeds.test_encoded_selected import WholeTables
from tests.unit.test_pipeline import FakeCodec, Stage
from tests.unit.ticdc.test_scope import changefeed

FEED = replace(
    changefeed(), dispatchers=(Dispatcher(("shop.*", "changefeed_dump.*"), "", "", target_schema="mart", target_table="{table}_x"),)
)
MARKS = replace(table(MARK_TABLE, 9), name=MARK_TABLE)


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hidden, "AGAIN_S", 0.005)


class Line(Stage):
    """A pipeline whose feed is one fake lane of a changefeed with routes."""

    def __init__(self, history: WholeTables) -> None:
        super().__init__()
        self.kafka, self.tidb = KafkaStandIn(self.notes), Checking()
        self.followed = schemas_of(history, LiveScope(server_tz="UTC"), FEED, lambda note: None)
        self.hiding = WithHiddenDdls(
            self.kafka,
            self.tidb,
            begins=lambda: self.followed.known_ts,
            carried=lambda name: name.schema in ("shop", MARK_TABLE.schema),
            hides=may_change_rows,
        )

    def attach(self, *, epoch: int = 1) -> Pipeline:
        outside = Outside(
            feed=self.hiding,
            codec=CodecWithCuts(FakeCodec(self.kafka), all_hidden=True),
            log=MemoryLog(self.disk),
            source=self.source,
            schemas=self.followed,
            progress=self.stored,
            requests=self.requests,
            clock=self.clock,
            spill=MemorySpill(),
        )
        return attach(outside, changefeed_id="cf", epoch=epoch, limits=PipelineLimits())


def row(ts: int, name: str, *, value: str = "v") -> Any:
    return put(ts, str(ts), value=value)._replace(schema="mart", table=name)


def test_rows_are_logged_under_the_name_that_their_table_had_in_tidb_when_they_were_written() -> None:
    """`t` and `u` swap their names, and so whose `t_x` is."""
    history = WholeTables({0: tables(table(T, 1), table(U, 2), MARKS), 1100: tables(table(T, 2), table(U, 1), MARKS)})
    line = Line(history)
    pipeline = line.attach()
    line.kafka.say(row(1050, "t_x"), row(1060, "u_x"), row(1070, "changefeed_dump_event_x", value="u LOW"))
    line.kafka.say(sent_ddl(1100, query="RENAME TABLE `mart`.`t_x` TO …"), row(1150, "t_x"), resolved(1300))
    line.tidb.ddls, line.tidb.upto_ts = [finished(1100, T, kind="rename tables")], 1250
    run(pipeline, lambda: len(line.rows()) == 4)
    log = MemoryLog(line.disk)
    rows = {
        change.commit_ts: (change.schema, change.table, log.read_schemas(one.schemas)[TableName(change.schema, change.table)].table_id)
        for one in line.manifests()
        for change in log.read_data(one)
    }
    assert rows == {1050: (*T, 1), 1060: (*U, 2), 1070: (*MARK_TABLE, 9), 1150: (*T, 2)}
    assert not any(one.ddls for one in line.manifests()), "no text of routed names goes to a sink"
    line.hiding.close()


def test_the_watermark_table_may_be_created_later_and_no_other_ddl_of_it_is_passed() -> None:
    line = Line(WholeTables({0: tables(table(T, 1)), 1100: tables(table(T, 1), MARKS)}))
    pipeline = line.attach()
    line.kafka.say(row(1050, "t_x"), row(1150, "changefeed_dump_event_x", value="u LOW"), resolved(1900))
    created = replace(finished(1100, MARK_TABLE, kind="create table"), query="CREATE TABLE IF NOT EXISTS …")
    line.tidb.ddls, line.tidb.upto_ts = [created], 1250
    run(pipeline, lambda: len(line.rows()) == 2)
    line.tidb.ddls, line.tidb.upto_ts = [finished(1300, MARK_TABLE)], 1400
    with pytest.raises(UnsupportedDdl, match="leave the watermark table"):
        run(pipeline, lambda: False)
    line.hiding.close()


def test_a_name_that_no_table_has_stops_the_stream() -> None:
    line = Line(WholeTables({0: tables(table(T, 1), MARKS)}))
    pipeline = line.attach()
    line.kafka.say(row(1050, "t"), resolved(1300))
    line.tidb.upto_ts = 1250
    with pytest.raises(FeedUnsuitable, match=r"mart\.t at commit_ts 1050, a name under which the changefeed sends no table"):
        run(pipeline, lambda: False)
    line.hiding.close()


def test_two_tables_that_come_to_have_one_name_stop_the_stream_at_the_ddl() -> None:
    other = TableName("mart", "t_x")
    history = WholeTables({0: tables(table(T, 1)), 1100: tables(table(T, 1), replace(table(T, 2), name=other))})
    schemas = schemas_of(history, LiveScope(server_tz="UTC"), replace(FEED, filter=replace(FEED.filter, rules=("*.*",))), lambda note: None)
    schemas.begin()
    with pytest.raises(FeedUnsuitable, match=r"mart\.t_x and shop\.t are both sent as mart\.t_x"):
        schemas.after([sent_ddl(1100)._replace(schema="mart", table="t_x")])


def test_the_schemas_of_a_log_say_what_its_messages_call_a_table() -> None:
    schemas = schemas_of(WholeTables({0: tables(table(T, 1), MARKS)}), LiveScope(server_tz="UTC"), FEED, lambda note: None)
    assert {one.feed_name for one in schemas.begin().values()} == {("mart", "t_x"), ("mart", "changefeed_dump_event_x")}
    assert {one.feed_name for one in schemas.resume(tables(table(T, 1)), upto_ts=schemas.known_ts).values()} == {
        ("mart", "t_x"), ("mart", "changefeed_dump_event_x")
    }  # fmt: skip


def test_of_the_messages_no_ddl_counts_and_all_else_does() -> None:
    feed = SimpleNamespace(held={Lane("a"): [[row(5, "t_x"), sent_ddl(6), resolved(7)]]})
    for all_hidden, kinds in ((True, ["Change", "Resolved"]), (False, ["Change", "Ddl", "Resolved"])):
        codec = CodecWithCuts(FakeCodec(cast(KafkaStandIn, feed)), all_hidden=all_hidden)
        assert [type(one).__name__ for one in codec.envelopes(Message(Lane("a"), 0, None, None))] == kinds


@pytest.mark.parametrize(("kind", "may"), [("add index", False), ("add column", True), ("rename table", True), ("another kind", True)])
def test_where_the_history_may_not_be_read_a_ddl_that_may_change_rows_stops(kind: str, may: bool) -> None:
    assert may_change_rows(T, kind, "…") is may


def test_a_source_without_a_history_of_ddls_is_refused_before_anything_is_read() -> None:
    source = WholeTables({0: tables(table(T, 1))}, keeps_time=False)
    nothing = cast(Callable[..., Any], None)
    with pytest.raises(FeedUnsuitable, match="its DDLs are read from TiDB's history, and the source has none"):
        of_messages(cast(Any, None), FEED, cast(Any, source), nothing, nothing, nothing)  # type: ignore[arg-type]


def test_check_says_which_name_is_whose() -> None:
    findings = [one.what for one in settings(FEED, tables(table(T, 1))) if isinstance(one, CheckFinding)]
    assert "other names, and sinks have TiDB's: shop.t as mart.t_x" in findings[1]
