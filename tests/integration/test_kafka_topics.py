"""Tables with topics of their own appear and vanish by DDLs that come in these very topics: what holds R, and what does not."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from threading import Event

import pytest

from sidecar.adapters.memory.log import MemoryDisk, MemoryLog
from sidecar.adapters.memory.progress import MemoryProgress
from sidecar.feeds.kafka.feed import KafkaFeed
from sidecar.feeds.kafka.lanes import TableTopics
from sidecar.feeds.kafka.make import feed_of
from sidecar.feeds.kafka.reading import KafkaSettings
from sidecar.pipeline import Outside, Pipeline, PipelineLimits, attach
from sidecar.replay.replay import NoSource
from sidecar.shared.codecs.open_protocol import OpenProtocol
from sidecar.shared.config import KafkaSection
from sidecar.shared.errors import FeedUnsuitable, SourceLost
from sidecar.shared.log.spill import MemorySpill
from sidecar.shared.model.nouns import Column, Lane, Message, Seq, TableName, TableSchema
from sidecar.shared.ticdc.changefeed import Changefeed, ChangefeedName, Dispatcher
from tests.support.eventually import PATIENCE_S
from tests.support.services.kafka import KafkaBroker
from tests.tools.rig import open_protocol
from tests.unit.adapters.test_tidb_follow import Followed, History
from tests.unit.test_pipeline import FakeRequests, Notes

pytestmark = pytest.mark.xdist_group("kafka-topics")


class Hurried:
    """A clock that runs fast once it may, so that what is asked for every few seconds is asked for soon. What it bounds may take its time
    before that, on a machine that is slow."""

    times = 1

    def now_s(self) -> float:
        return time.monotonic() * self.times

    def hurry(self) -> None:
        self.times = 20


@dataclass
class Tables:
    """Topics of tables by the log and by the source, as a test says."""

    logged: set[str]
    present: set[str]
    unmarked: set[str] = field(default_factory=set)
    asked: int = 0
    fails: Exception | None = None
    may_answer: Event = field(default_factory=Event)
    name: str = field(default_factory=lambda: uuid.uuid4().hex[:8])

    def topic(self, table: str) -> str:
        return f"{self.name}-{table}"

    def lane(self, table: str) -> Lane:
        return Lane(f"kafka/{self.topic(table)}/0")

    def at_log(self) -> frozenset[str]:
        return frozenset(map(self.topic, self.logged))

    def now(self) -> TableTopics:
        self.asked += 1
        assert self.may_answer.wait(PATIENCE_S)
        if self.fails is not None:
            raise self.fails
        return TableTopics(frozenset(map(self.topic, self.present)), frozenset(map(self.topic, self.present - self.unmarked)))


@pytest.fixture
def tables() -> Tables:
    result = Tables({"default", "t"}, {"default", "t"})
    result.may_answer.set()
    return result


@pytest.fixture
def feed(broker: KafkaBroker, tables: Tables) -> Iterator[KafkaFeed]:
    for table in ("default", "t"):
        broker.create_topic(tables.topic(table), 1)
    clock = Hurried()
    opened = KafkaFeed(KafkaSettings(broker.bootstrap, tables.name, 1 << 20), tables.at_log, present=tables.now, clock=clock)
    opened.seek({})
    clock.hurry()
    yield opened
    tables.may_answer.set()
    opened.close()


class Writer:
    """What TiCDC writes: a message to each of these topics, one round after another."""

    def __init__(self, broker: KafkaBroker, tables: Tables) -> None:
        self._broker, self._tables, self._written = broker, tables, dict[str, int]()

    def write(self, *tables: str) -> None:
        for table in tables:
            number = self._written[table] = self._written.get(table, 0) + 1
            self._broker.write(self._tables.topic(table), [(0, b"", b"%d" % number)])


@pytest.fixture
def writer(broker: KafkaBroker, tables: Tables) -> Writer:
    return Writer(broker, tables)


def poll(feed: KafkaFeed, until: Callable[[list[Message]], bool]) -> list[Message]:
    messages: list[Message] = []
    until_s = time.monotonic() + PATIENCE_S
    while not until(messages):
        assert time.monotonic() < until_s, f"{messages[-3:]} came last; lanes {sorted(feed.lanes())}"
        messages += feed.poll(timeout_s=0.05)
    return messages


def take(feed: KafkaFeed, count: int) -> list[Message]:
    return poll(feed, lambda messages: len(messages) >= count)


def test_a_table_of_the_source_is_a_lane_before_what_could_let_r_pass_it(
    feed: KafkaFeed, tables: Tables, writer: Writer, broker: KafkaBroker
) -> None:
    writer.write("default", "t")
    take(feed, 2)
    broker.create_topic(tables.topic("new"), 1)
    writer.write("new")  # the DDL that makes the table
    tables.present.add("new")
    writer.write("default", "t")  # marks above it
    received = take(feed, 2)
    assert tables.lane("new") in feed.lanes()
    received += poll(feed, lambda messages: any(m.lane == tables.lane("new") for m in received + messages))
    assert [m.position for m in received if m.lane == tables.lane("new")] == [0]


def test_a_table_that_a_ddl_in_the_log_made_holds_r_until_the_brokers_were_queried(
    feed: KafkaFeed, tables: Tables, writer: Writer, broker: KafkaBroker
) -> None:
    """A rename in a backlog: at present the table is called otherwise again, or gone."""
    writer.write("default", "t")
    take(feed, 2)
    broker.create_topic(tables.topic("renamed"), 1)
    writer.write("renamed")
    tables.logged = {"default", "renamed"}
    assert tables.lane("renamed") in feed.lanes(), "at once, without asking anybody"
    (row,) = take(feed, 1)
    assert row.lane == tables.lane("renamed")
    assert tables.lane("renamed") in feed.lanes()


def test_a_table_whose_topic_is_not_there_yet_does_not_hold_r_for_ever(feed: KafkaFeed, tables: Tables, writer: Writer) -> None:
    writer.write("default", "t")
    take(feed, 2)
    tables.logged.add("later")
    assert tables.lane("later") in feed.lanes()
    poll(feed, lambda _: tables.lane("later") not in feed.lanes())


def test_a_topic_without_a_table_leaves_r_alone_once_it_is_read_to_its_end(feed: KafkaFeed, tables: Tables, writer: Writer) -> None:
    """TiCDC marks it no more: the last mark in it was below the DROP, which is the last message there, and R would never reach it."""
    writer.write("default", "t")
    take(feed, 2)
    tables.present.discard("t")
    writer.write("t")

    def left(messages: list[Message]) -> bool:
        writer.write("default")
        return tables.lane("t") not in feed.lanes()

    messages = poll(feed, left)
    assert [m.position for m in messages if m.lane == tables.lane("t")] == [1], "before R may pass it"
    tables.logged.discard("t")
    assert feed.lanes() == {tables.lane("default")}


def test_a_table_that_comes_back_holds_r_again(feed: KafkaFeed, tables: Tables, writer: Writer) -> None:
    test_a_topic_without_a_table_leaves_r_alone_once_it_is_read_to_its_end(feed, tables, writer)
    tables.present.add("t")
    writer.write("t", "default")
    take(feed, 2)
    assert tables.lane("t") in feed.lanes()


def test_a_topic_without_a_table_may_be_deleted(feed: KafkaFeed, tables: Tables, writer: Writer, broker: KafkaBroker) -> None:
    test_a_topic_without_a_table_leaves_r_alone_once_it_is_read_to_its_end(feed, tables, writer)
    broker.delete_topic(tables.topic("t"))
    until_s = time.monotonic() + 3
    while time.monotonic() < until_s:  # longer, by the feed's clock, than a topic of a table may be away
        writer.write("default")
        feed.poll(timeout_s=0.05)
    assert feed.lanes() == {tables.lane("default")}
    feed.seek({tables.lane("default"): 0, tables.lane("t"): 2})
    assert feed.lanes() == {tables.lane("default")}


def test_a_topic_without_a_table_may_be_made_again_and_is_read_from_its_beginning(
    feed: KafkaFeed, tables: Tables, writer: Writer, broker: KafkaBroker
) -> None:
    test_a_topic_without_a_table_leaves_r_alone_once_it_is_read_to_its_end(feed, tables, writer)
    known = feed.incarnations()
    broker.delete_topic(tables.topic("t"))
    broker.create_topic(tables.topic("t"), 1)
    broker.write(tables.topic("t"), [(0, b"", b"of the new one")])
    feed.seek({tables.lane("default"): 1, tables.lane("t"): 2}, known)
    messages = poll(feed, lambda messages: any(message.lane == tables.lane("t") for message in messages))
    assert [message.position for message in messages if message.lane == tables.lane("t")] == [0]


def test_a_topic_of_a_table_may_not(feed: KafkaFeed, tables: Tables, broker: KafkaBroker) -> None:
    broker.delete_topic(tables.topic("t"))
    with pytest.raises(FeedUnsuitable, match="does not exist"):
        poll(feed, lambda _: False)


def test_a_source_that_cannot_be_queried_holds_what_a_round_ends_with_until_it_can(feed: KafkaFeed, tables: Tables, writer: Writer) -> None:
    """Finding 14d: the term does not end, R waits, and whoever asks is told for whom."""
    tables.fails = SourceLost("nobody at tidb:4000", hint="wait")
    writer.write("default", "t")
    assert len(poll(feed, lambda _: "nobody at tidb:4000" in feed.still_because())) < 2
    tables.fails = None
    poll(feed, lambda _: feed.still_because() == "")
    writer.write("default", "t")
    take(feed, 2)


def test_a_table_without_a_key_that_took_a_name_over_holds_nothing_back(
    feed: KafkaFeed, tables: Tables, writer: Writer, broker: KafkaBroker
) -> None:
    """Finding 8: its topic has the DROP TABLE that made it, and no mark ever; what comes in it is read all the same."""
    writer.write("default", "t")
    take(feed, 2)
    broker.create_topic(tables.topic("keyless"), 1)
    writer.write("keyless")
    tables.present.add("keyless")
    tables.unmarked.add("keyless")

    def left(messages: list[Message]) -> bool:
        writer.write("default", "t")
        return any(m.lane == tables.lane("keyless") for m in messages) and tables.lane("keyless") not in feed.lanes()

    messages = poll(feed, left)
    assert [m.value for m in messages if m.lane == tables.lane("keyless")] == [b"1"]


def test_an_error_that_nobody_expected_ends_the_queries_and_is_raised(feed: KafkaFeed, tables: Tables) -> None:
    tables.fails = KeyError("what nobody expected")
    with pytest.raises(KeyError):
        poll(feed, lambda _: False)


def test_a_source_that_hangs_holds_no_poll_and_r_does_not_pass(
    feed: KafkaFeed, tables: Tables, writer: Writer, broker: KafkaBroker
) -> None:
    """What is no whole round comes as it is written. What completes one waits, each poll returns, and R has the table that came."""
    writer.write("default", "t")
    take(feed, 2)
    requested = tables.asked
    tables.may_answer.clear()
    writer.write("default")
    assert [m.lane for m in take(feed, 1)] == [tables.lane("default")]
    poll(feed, lambda _: tables.asked > requested)  # by its clock the feed asks again, with or without messages, and hangs
    writer.write("default")
    assert [m.position for m in take(feed, 1)] == [2]
    broker.create_topic(tables.topic("new"), 1)
    writer.write("new")
    tables.present.add("new")
    writer.write("t")
    assert poll(feed, lambda _: "source" in feed.still_because()) == []
    assert [list(feed.poll(timeout_s=0.05)) for _ in range(10)] == [[]] * 10
    assert feed.lanes() == {tables.lane("default"), tables.lane("t")}
    tables.may_answer.set()
    (first, *_) = take(feed, 1)
    assert (first.lane, first.position) == (tables.lane("t"), 1)
    assert tables.lane("new") in feed.lanes()
    assert feed.still_because() == ""


# ---- with the pipeline ----------------------------------------------------------------------------------------------


def row(ts: int, table: str, number: int, *, schema: str = "shop") -> tuple[bytes, bytes]:
    head = {"ts": ts, "scm": schema, "tbl": table, "t": 1}
    return open_protocol.message([(json.dumps(head).encode(), b'{"u":{"id":{"t":3,"h":true,"f":11,"v":%d}}}' % number)])


def ddl(ts: int, table: str, query: str, *, schema: str = "shop") -> tuple[bytes, bytes]:
    return open_protocol.ddl(commit_ts=ts, schema=schema, table=table, query=query, action=3)


class Line:
    """A pipeline over tables with topics of their own, whose source is what `history` says."""

    def __init__(self, broker: KafkaBroker, history: History, *, carried: tuple[TableName, ...]) -> None:
        self.broker, self.name, self.history, self.epoch = broker, uuid.uuid4().hex[:8], history, 0
        self.schemas = Followed(history, carried=carried).schemas
        self.disk = MemoryDisk()
        self.feed = self.open()

    def open(self) -> KafkaFeed:
        """As the sidecar makes it out of a changefeed of the classic architecture, by a faster clock."""
        changefeed = Changefeed(
            ChangefeedName("default", "default", "cf"),
            "1",
            f"kafka://{self.broker.bootstrap}/{self.topic('default')}",
            dispatchers=(Dispatcher(("changefeed_dump.*",), "", ""), Dispatcher(("*.*",), self.topic("{schema}-{table}"), "")),
        )
        made = feed_of(
            changefeed,
            KafkaSection(brokers=self.broker.bootstrap),
            lambda: self.schemas.tables,
            lambda: {name: table.table_id for name, table in self.history.tables().items()},
        )
        settings = KafkaSettings(self.broker.bootstrap, self.name, 1 << 20)
        self.clock = Hurried()
        return KafkaFeed(settings, made._topics, present=made._present, clock=self.clock)

    def topic(self, table: str) -> str:
        return f"{self.name}-{table}" if table == "default" or "-" in table else f"{self.name}-shop-{table}"

    def write(self, table: str, *messages: tuple[bytes, bytes]) -> None:
        self.broker.write(self.topic(table), [(0, key, value) for key, value in messages])

    def attach(self) -> Pipeline:
        outside = Outside(
            feed=self.feed,
            codec=OpenProtocol(),
            log=MemoryLog(self.disk),
            source=NoSource(),
            schemas=self.schemas,
            progress=MemoryProgress(),
            requests=FakeRequests(Notes()),
            clock=Hurried(),
            spill=MemorySpill(),
        )
        self.epoch += 1
        pipeline = attach(outside, changefeed_id="cf", epoch=self.epoch, limits=PipelineLimits())
        self.clock.hurry()
        return pipeline

    def again(self, *, carried: tuple[TableName, ...]) -> Pipeline:
        """Another process goes on with the log."""
        self.feed.close()
        self.schemas = Followed(self.history, carried=carried).schemas
        self.feed = self.open()
        return self.attach()

    def begin(self, pipeline: Pipeline) -> None:
        """Until the log has a segment, so that who comes again goes on with it."""
        self.write("default", open_protocol.resolved(12))
        pipeline.write_soon()
        until_s = time.monotonic() + PATIENCE_S
        while not self.disk.manifests:
            assert time.monotonic() < until_s, (pipeline.lane_lags(), self.feed.still_because())
            pipeline.step(poll_s=0.05)

    def run(self, pipeline: Pipeline, until_ts: int, *marked: str) -> None:
        """With a mark above it in each of these topics now and then, as TiCDC's never end."""
        until_s, ts = time.monotonic() + PATIENCE_S, until_ts
        while pipeline.sequence.after_ts < until_ts:
            assert time.monotonic() < until_s, (self.logged(), pipeline.lane_lags(), self.feed.still_because())
            ts += 1
            for topic in marked:
                self.write(topic, open_protocol.resolved(ts))
            pipeline.step(poll_s=0.05)

    def logged(self) -> list[tuple[int, str]]:
        """Rows and DDLs by commit_ts and table."""
        log, results, seq = MemoryLog(self.disk), [], 0
        while (manifest := log.manifest(Seq(seq))) is not None:
            results += [(change.commit_ts, change.table) for change in log.read_data(manifest)]
            results += [(ddl.commit_ts, ddl.query) for ddl in manifest.ddls]
            seq += 1
        return [(int(ts), text) for ts, text in results]


OLD, NEW, THIRD = TableName("shop", "old"), TableName("shop", "new"), TableName("shop", "third")


def table(name: TableName, number: int) -> TableSchema:
    return TableSchema(name, (Column("id", "int", nullable=False),), ("id",), number, (number,))


def test_tables_come_and_go_in_topics_of_their_own_and_nothing_is_left_out(broker: KafkaBroker) -> None:
    """DROP and CREATE come in the tables' own topics; the one is never marked again, the other was never seen before."""
    history = History({0: {OLD: table(OLD, 1)}, 20: {}, 40: {NEW: table(NEW, 2)}}, now=10)
    line = Line(broker, history, carried=(OLD, NEW))
    for name in ("default", "old"):
        broker.create_topic(line.topic(name), 1)
        line.write(name, open_protocol.resolved(11))
    pipeline = line.attach()
    try:
        until_s = time.monotonic() + PATIENCE_S

        def run(until_ts: int) -> None:
            while pipeline.sequence.after_ts < until_ts:
                assert time.monotonic() < until_s, (line.logged(), pipeline.lane_lags())
                pipeline.step(poll_s=0.05)

        run(10)
        history.now = 50
        line.write("old", row(15, "old", 1), ddl(20, "old", "DROP TABLE old"))
        broker.create_topic(line.topic("new"), 1)
        line.write("new", ddl(40, "new", "CREATE TABLE new …"), row(45, "new", 1), open_protocol.resolved(60))
        line.write("default", open_protocol.resolved(30))
        line.write("default", open_protocol.resolved(60))
        run(59)
        assert line.logged() == [(15, "old"), (20, "DROP TABLE old"), (40, "CREATE TABLE new …"), (45, "new")]
        assert line.feed.lanes() == {Lane(f"kafka/{line.topic(name)}/0") for name in ("default", "new")}
    finally:
        line.feed.close()


def test_rows_under_a_name_that_a_table_had_for_a_while_in_a_backlog_are_read(broker: KafkaBroker) -> None:
    """At present the table is called otherwise: only the DDL tells of the topic, and R waits for it although its marks are here."""
    one = table(OLD, 1)
    history = History({0: {OLD: one}, 20: {NEW: replace(one, name=NEW)}, 40: {THIRD: replace(one, name=THIRD)}}, now=10)
    line = Line(broker, history, carried=(OLD, NEW, THIRD))
    for name in ("default", "old"):
        broker.create_topic(line.topic(name), 1)
        line.write(name, open_protocol.resolved(11))
    pipeline = line.attach()
    try:
        until_s = time.monotonic() + PATIENCE_S
        while pipeline.sequence.after_ts < 10:
            assert time.monotonic() < until_s, (line.logged(), pipeline.lane_lags())
            pipeline.step(poll_s=0.05)
        history.now = 50
        for name in ("new", "third"):
            broker.create_topic(line.topic(name), 1)
        line.write("old", row(15, "old", 1), ddl(20, "new", "RENAME TABLE old TO new"))
        line.write("new", row(30, "new", 2), ddl(40, "third", "RENAME TABLE new TO third"))
        line.write("third", row(45, "third", 3))
        ts = 60
        while pipeline.sequence.after_ts < 59:
            assert time.monotonic() < until_s, (line.logged(), pipeline.lane_lags())
            line.write("default", open_protocol.resolved(ts))
            line.write("third", open_protocol.resolved(ts))
            pipeline.step(poll_s=0.05)
            ts += 1
        assert [commit_ts for commit_ts, _ in line.logged()] == [15, 20, 30, 40, 45]
    finally:
        line.feed.close()


def test_a_table_renamed_in_a_schema_with_capitals_is_read_in_both_of_its_topics(broker: KafkaBroker) -> None:
    """Finding 3 and N6, as classic v9.0.0-beta.2 sent it: the RENAME in the old name's topic, the rows after it and the ALTER in the topic
    of the schema in lower case, which is marked until then, and what follows in the topic of the schema's own name."""
    before, after = TableName("Shop", "Aa"), TableName("Shop", "Bb")
    wider = replace(table(after, 1), columns=(*table(after, 1).columns, Column("c", "int")))
    history = History({0: {before: table(before, 1)}, 20: {after: table(after, 1)}, 40: {after: wider}}, now=10)
    line = Line(broker, history, carried=(before, after))
    old, low, own = line.topic("Shop-Aa"), line.topic("shop-Bb"), line.topic("Shop-Bb")
    for name in (line.topic("default"), old):
        broker.create_topic(name, 1)
        broker.write(name, [(0, *open_protocol.resolved(11))])
    pipeline = line.attach()
    try:
        line.run(pipeline, 10)
        history.now = 50
        for name in (low, own):
            broker.create_topic(name, 1)

        def write(topic: str, *messages: tuple[bytes, bytes]) -> None:
            broker.write(topic, [(0, key, value) for key, value in messages])

        write(old, ddl(20, "Bb", "RENAME TABLE `Shop`.`Aa` TO `Shop`.`Bb`", schema="shop"))
        write(low, row(30, "Bb", 2, schema="shop"), open_protocol.resolved(35), ddl(40, "Bb", "ALTER TABLE …", schema="Shop"))
        write(own, row(45, "Bb", 3, schema="Shop"), open_protocol.resolved(60))
        line.write("default", open_protocol.resolved(35))
        line.run(pipeline, 59, "default", "Shop-Bb")
        assert line.logged() == [(20, "RENAME TABLE `Shop`.`Aa` TO `Shop`.`Bb`"), (30, "Bb"), (40, "ALTER TABLE …"), (45, "Bb")]
        log = MemoryLog(line.disk)
        manifests = [log.manifest(Seq(seq)) for seq in range(pipeline.next_seq)]
        assert {change.schema for manifest in manifests if manifest for change in log.read_data(manifest)} == {"Shop"}
        assert {reported.schema for manifest in manifests if manifest for reported in manifest.ddls} == {"Shop"}
        assert {name for name, columns in pipeline.tables.items() if len(columns.columns) == 2} == {after}
    finally:
        line.feed.close()


def test_the_topic_of_a_table_that_is_made_again_may_have_lost_what_the_log_has(broker: KafkaBroker) -> None:
    """Finding 9: retention has emptied the topic of a dropped table, and the log does not name it any more."""
    history = History({0: {}, 40: {OLD: table(OLD, 2)}}, now=10)
    line = Line(broker, history, carried=(OLD,))
    for name in ("default", "old"):
        broker.create_topic(line.topic(name), 1)
    line.write("old", row(3, "old", 1), ddl(5, "old", "DROP TABLE old"))
    line.write("default", open_protocol.resolved(11))
    broker.delete_records(line.topic("old"), 0, 2)
    pipeline = line.attach()
    try:
        line.begin(pipeline)
        history.now = 50
        line.write("old", ddl(40, "old", "CREATE TABLE old …"), row(45, "old", 1), open_protocol.resolved(60))
        line.write("default", open_protocol.resolved(60))
        line.run(line.again(carried=(OLD,)), 59)
        assert line.logged() == [(40, "CREATE TABLE old …"), (45, "old")]
    finally:
        line.feed.close()


def test_the_topic_of_a_table_that_lost_what_the_log_needs_is_a_gap(broker: KafkaBroker) -> None:
    history = History({0: {}, 40: {OLD: table(OLD, 2)}}, now=10)
    line = Line(broker, history, carried=(OLD,))
    broker.create_topic(line.topic("default"), 1)
    line.write("default", open_protocol.resolved(11))
    pipeline = line.attach()
    try:
        line.begin(pipeline)
        history.now = 50
        broker.create_topic(line.topic("old"), 1)
        line.write("old", ddl(40, "old", "CREATE TABLE old …"), row(45, "old", 1), row(46, "old", 2), open_protocol.resolved(60))
        broker.delete_records(line.topic("old"), 0, 2)
        line.write("default", open_protocol.resolved(60))
        with pytest.raises(FeedUnsuitable, match=r"(?s)@2: the lane came after the log began.*TSO 46 .*retention has removed"):
            line.run(line.again(carried=(OLD,)), 59)
    finally:
        line.feed.close()
