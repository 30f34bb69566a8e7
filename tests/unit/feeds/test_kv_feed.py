"""The feed of key-values, and its tables: which ranges are pulled from when to when, what a lane says, what is left out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from sidecar.adapters.memory.puller import MemoryPuller
from sidecar.feeds.kv.feed import DDL_LANE, IGNORED, OF_NOTHING, REPEATS, UNWANTED, KvFeed, lane_of
from sidecar.feeds.kv.row_filter import RowFilter
from sidecar.feeds.kv.schemas import FILTERED, NOT_REPLICATED, KvSchemas
from sidecar.replay.kv_rows import row_key
from sidecar.shared.codecs.kv import KvCodec, encode_images
from sidecar.shared.errors import FeedError, FeedUnsuitable, UnsupportedDdl
from sidecar.shared.model.nouns import MARK_TABLE, Change, CommitTs, Ddl, Envelope, Lane, Message, Rank, Resolved, TableName
from sidecar.shared.rowcodec.key_values import DDL_JOB_TABLE_ID, KeyRange, KvEntry, Pulled, rows_of
from sidecar.shared.rowcodec.kv_layout import KvSnapshot
from sidecar.shared.schema.ddl import Action, DdlJob, PartitionSwitch
from sidecar.shared.ticdc.changefeed import Changefeed, ChangefeedName, EventFilter, FeedFilter
from sidecar.shared.ticdc.event_filter import FilterRules
from tests.support.kv_jobs import job_entry, snapshot
from tests.support.kv_line import rules_of
from tests.unit.schema.test_schema_history import Database, table

START = 100
DDL = rows_of(DDL_JOB_TABLE_ID)
ORDERS, ITEMS, NEW = 104, 107, 204


def database(*infos: dict[str, Any]) -> Database:
    """`shop` with `orders` (104) and `items` (107), and these."""
    results = [table(ORDERS, "orders"), table(ITEMS, "items"), *infos]
    return Database(ts=START, schemas={1: "shop", 2: "other", 3: "mysql"}, tables={info["id"]: (1, info) for info in results}, last_id=200)


def put(physical_id: int, handle: int, ts: int, *, new: bytes = b"new", old: bytes = b"", start_ts: int = 0) -> KvEntry:
    return KvEntry(CommitTs(ts), start_ts or ts - 1, row_key(physical_id, handle), new, old)


@dataclass
class World:
    """A cluster, and a feed of it."""

    db: Database = field(default_factory=database)
    feed_filter: FeedFilter = field(default_factory=FeedFilter)
    puller: MemoryPuller = field(default_factory=MemoryPuller)
    version: str = ""

    def __post_init__(self) -> None:
        self.start: KvSnapshot = replace(snapshot(self.db.ts, self.db.snapshot()), version=self.version)
        of = Changefeed(ChangefeedName("default", "default", "cf"), "1", "custom://sink", filter=self.feed_filter)
        self.schemas = KvSchemas(lambda: self.start, rules_of(feed_filter=self.feed_filter), RowFilter(FilterRules.of(of)))
        self.tables = self.schemas.begin()
        self.feed = KvFeed(self.puller, self.schemas)
        self.feed.seek({})
        self.codec = KvCodec(self.schemas.mark_table)
        self.messages: list[Message] = []

    def ddl(self, *jobs: DdlJob | PartitionSwitch) -> None:
        self.puller.commit(*map(job_entry, jobs))

    def poll(self) -> list[Envelope]:
        self.messages = list(self.feed.poll(timeout_s=0))
        return [envelope for message in self.messages for envelope in self.codec.envelopes(message)]

    def resolve(self, ts: int, *physical_ids: int) -> list[Envelope]:
        for one in physical_ids:
            self.puller.resolve(ts, rows_of(one))
        return self.poll()

    def after(self, ts: int) -> dict[TableName, Any]:
        return dict(self.schemas.after([Ddl(CommitTs(ts), Rank.DDL, "", "", "", DDL_LANE, 0)]))

    def names(self, *rows: tuple[int, int]) -> list[str]:
        """Of rows by physical id and commit_ts, as the log gets them."""
        changes = [
            Change(CommitTs(ts), Rank.PUT, "", str(one), row_key(one, 1), encode_images(b"n", b""), lane_of(one), 0) for one, ts in rows
        ]
        return [f"{change.schema}.{change.table}" for change in self.schemas.named(changes)]


def marks(envelopes: list[Envelope]) -> dict[Lane, int]:
    return {envelope.lane: envelope.ts for envelope in envelopes if isinstance(envelope, Resolved)}


# ---- where it begins ------------------------------------------------------------------------------------------------


def test_a_new_log_pulls_the_tables_and_the_jobs_from_the_snapshot_on() -> None:
    world = World()
    assert world.puller.wanted() == {rows_of(ORDERS): START, rows_of(ITEMS): START, DDL: START}
    assert world.feed.lanes() == {DDL_LANE, lane_of(ORDERS), lane_of(ITEMS)}
    assert marks(world.poll()) == dict.fromkeys(world.feed.lanes(), START)
    assert world.poll() == []


def test_the_snapshot_is_the_whole_cluster_and_what_is_replicated_has_columns() -> None:
    world = World(feed_filter=FeedFilter(rules=("shop.orders",)))
    assert {name: bool(schema.columns) for name, schema in world.tables.items()} == {
        TableName("shop", "orders"): True,
        TableName("shop", "items"): False,
        TableName("shop", ""): False,
        TableName("other", ""): False,
        TableName("mysql", ""): False,
        TableName("mysql", "tidb_ddl_job"): False,
    }
    assert all(schema.layout for schema in world.tables.values())


def test_what_is_not_replicated_is_not_pulled_and_the_watermark_table_always() -> None:
    db = database()
    db.schemas[4] = MARK_TABLE.schema
    db.tables[300] = (4, table(300, MARK_TABLE.table))
    world = World(db, FeedFilter(rules=("shop.orders",)))
    assert set(world.puller.wanted()) == {rows_of(ORDERS), rows_of(300), DDL}


def test_all_lanes_go_on_below_the_lowest_position_of_those_that_are_there() -> None:
    world = World()
    world.feed.seek({lane_of(ORDERS): 90, DDL_LANE: 95, lane_of(999): 7})
    assert world.puller.wanted() == dict.fromkeys((rows_of(ORDERS), rows_of(ITEMS), DDL), 89)
    assert marks(world.poll()) == dict.fromkeys(world.feed.lanes(), 89)


def test_what_a_lane_left_behind_does_not_lead_beyond_the_end_of_the_log() -> None:
    world = World()
    world.feed.seek({lane_of(ORDERS): START + 50, lane_of(ITEMS): START + 60, DDL_LANE: START + 70})
    assert set(world.puller.wanted().values()) == {START}


@pytest.mark.parametrize("lane", ["kafka/orders/0", "kv/x", "kv/", "kv", "kv/ddl/1"])
def test_a_lane_of_another_feed_is_refused(lane: str) -> None:
    with pytest.raises(FeedError, match=f"lane {lane}:"):
        World().feed.seek({Lane(lane): 1})


@pytest.mark.parametrize(("version", "text"), [("8.0.11-TiDB-v6.1.7", "6.2"), ("10.11.6-MariaDB", "has no version of TiDB")])
def test_a_cluster_whose_jobs_cannot_be_followed_is_refused(version: str, text: str) -> None:
    with pytest.raises(FeedUnsuitable, match=text):
        World(version=version)


# ---- rows and marks -------------------------------------------------------------------------------------------------


def test_a_rows_position_is_what_its_lane_was_resolved_to_and_a_marks_is_its_ts() -> None:
    world = World()
    world.poll()
    world.puller.commit(put(ORDERS, 1, 120), put(ORDERS, 2, 110))
    world.resolve(115, ORDERS)
    world.puller.commit(put(ORDERS, 3, 130))
    world.poll()
    assert [(m.lane, m.position) for m in world.messages] == [(lane_of(ORDERS), 115)]


def test_a_lane_is_as_far_as_its_slowest_region() -> None:
    world = World()
    world.poll()
    whole, middle = rows_of(ORDERS), row_key(ORDERS, 50)
    world.puller.resolve(150, KeyRange(whole.start, middle))
    assert world.poll() == []
    world.puller.resolve(140, KeyRange(middle, whole.end))
    assert marks(world.poll()) == {lane_of(ORDERS): 140}


def test_repeats_and_deletes_of_nothing_make_no_message_and_are_counted() -> None:
    world = World(feed_filter=FeedFilter(ignore_txn_start_ts=(77,)))
    world.poll()
    world.puller.commit(put(ORDERS, 1, 110), put(ORDERS, 2, 111, new=b""), put(ORDERS, 3, 112, start_ts=77), put(ORDERS, 4, 120))
    world.resolve(120, ORDERS)
    world.puller.repeat(rows_of(ORDERS))
    world.poll()
    assert world.feed.counts == {OF_NOTHING: 1, IGNORED: 1, REPEATS: 4}


def test_what_comes_of_a_range_that_is_not_wanted_is_counted() -> None:
    class Late(MemoryPuller):
        def poll(self, *, timeout_s: float) -> Any:
            return [put(999, 1, 110), Pulled(rows_of(999), CommitTs(120)), *super().poll(timeout_s=timeout_s)]

    world = World(puller=Late())
    assert all(envelope.lane != lane_of(999) for envelope in world.poll())
    assert world.feed.counts[UNWANTED] == 1


def test_what_is_below_all_positions_is_what_the_senders_need_not_keep() -> None:
    world = World()
    lanes = dict.fromkeys(world.feed.lanes(), 130)
    world.feed.acknowledge(lanes | {lane_of(ORDERS): 120, lane_of(999): 7})
    assert world.puller.durable == dict.fromkeys(world.puller.wanted(), 118)
    world.feed.acknowledge(dict.fromkeys(lanes, 110))
    world.feed.acknowledge({lane_of(ORDERS): 150, DDL_LANE: 150})
    assert world.puller.durable == dict.fromkeys(world.puller.wanted(), 118)


@pytest.mark.parametrize("position", [START + 2, START + 30])
def test_what_was_acknowledged_is_not_requested_again(position: int) -> None:
    world = World()
    positions = dict.fromkeys(world.feed.lanes(), position)
    world.feed.acknowledge(positions)
    later = KvSchemas(lambda: world.start, rules_of())
    later.resume(world.tables, upto_ts=CommitTs(position - 2))  # R - 1, where all lanes are resolved to R and nothing is held
    KvFeed(world.puller, later).seek(positions)
    assert set(world.puller.wanted().values()) == {position - 2}


# ---- tables that come and go ----------------------------------------------------------------------------------------


def test_a_new_tables_lane_comes_with_its_ddl_and_holds_r_there() -> None:
    world = World()
    world.poll()
    job = world.db.create(1, table(NEW, "fresh"))
    world.ddl(job)
    world.puller.commit(put(NEW, 1, job.commit_ts + 3))
    assert world.feed.lanes() == {DDL_LANE, lane_of(ORDERS), lane_of(ITEMS)}
    results = world.resolve(job.commit_ts + 20, DDL_JOB_TABLE_ID)
    assert [type(envelope).__name__ for envelope in results] == ["Ddl", "Resolved", "Resolved"]
    assert marks(results) == {DDL_LANE: job.commit_ts + 20, lane_of(NEW): job.commit_ts}
    assert lane_of(NEW) in world.feed.lanes()
    (row,) = world.poll()
    assert isinstance(row, Change)
    assert (row.table, row.commit_ts, row.position) == (str(NEW), job.commit_ts + 3, job.commit_ts)


def test_a_table_that_is_gone_again_by_the_same_mark_is_pulled_all_the_same() -> None:
    world = World()
    world.poll()
    created = world.db.create(1, table(NEW, "brief"))
    dropped = world.db.drop(NEW)
    world.ddl(dropped, created)
    world.puller.commit(put(NEW, 1, created.commit_ts + 3))
    results = world.resolve(dropped.commit_ts, DDL_JOB_TABLE_ID)
    assert [envelope.commit_ts for envelope in results if isinstance(envelope, Ddl)] == [created.commit_ts, dropped.commit_ts]
    assert [envelope.commit_ts for envelope in world.poll() if isinstance(envelope, Change)] == [created.commit_ts + 3]
    assert world.names((NEW, created.commit_ts + 3), (ORDERS, created.commit_ts + 3)) == ["shop.brief", "shop.orders"]


def test_a_vanished_tables_lane_stays_until_the_log_has_passed_its_end() -> None:
    world = World()
    world.poll()
    job = world.db.drop(ORDERS)
    world.ddl(job)
    world.resolve(200, DDL_JOB_TABLE_ID, ORDERS, ITEMS)
    positions = {DDL_LANE: 201, lane_of(ORDERS): job.commit_ts, lane_of(ITEMS): 201}
    world.feed.acknowledge(positions)
    assert lane_of(ORDERS) in world.feed.lanes()
    world.feed.acknowledge(positions | {lane_of(ORDERS): job.commit_ts + 2})
    assert world.feed.lanes() == {DDL_LANE, lane_of(ITEMS)}
    assert set(world.puller.wanted()) == {rows_of(ITEMS), DDL}


def test_a_late_row_of_a_truncated_table_is_left_out_even_after_its_end_is_history() -> None:
    """It was delivered before the DDL was known, and is released long after its lane has gone."""
    world = World()
    world.poll()
    job = world.db.replace(ORDERS, table(NEW, "orders"))
    world.puller.commit(put(ORDERS, 1, 300))
    world.poll()
    world.ddl(job)
    world.resolve(290, DDL_JOB_TABLE_ID, ORDERS, ITEMS, NEW)
    world.feed.acknowledge({DDL_LANE: 280, lane_of(ORDERS): 280, lane_of(ITEMS): 280, lane_of(NEW): 280})
    assert lane_of(ORDERS) not in world.feed.lanes()
    world.resolve(310, DDL_JOB_TABLE_ID, ITEMS, NEW)
    assert world.names((ORDERS, 300), (NEW, 300)) == ["shop.orders"]
    assert world.schemas.dropped == {"gone": 1}
    world.feed.acknowledge({DDL_LANE: 305, lane_of(ITEMS): 305, lane_of(NEW): 305})
    with pytest.raises(FeedError, match="schemas at"):
        world.names((ORDERS, 300))


def test_rows_of_new_partitions_count_from_the_step_on_and_not_before() -> None:
    world = World(database(table(110, "log", partitions=(111, 112))))
    step = world.db.step(Action.REORGANIZE_PARTITION, 110, frozenset({"p111"}), (113,))
    world.poll()
    world.ddl(step)
    world.puller.commit(put(113, 1, step.commit_ts - 2), put(113, 1, step.commit_ts + 2), put(111, 1, step.commit_ts + 2))
    results = world.resolve(step.commit_ts + 5, DDL_JOB_TABLE_ID)
    assert [envelope for envelope in results if isinstance(envelope, Ddl)] == [Ddl(step.commit_ts, Rank.DDL, "", "", "", DDL_LANE, START)]
    results = world.poll()
    assert [(row.table, row.commit_ts) for row in results if isinstance(row, Change)] == [("113", step.commit_ts + 2)]
    assert world.names((113, step.commit_ts + 2), (111, step.commit_ts + 2)) == ["shop.log"]
    assert world.names((113, step.commit_ts), (111, step.commit_ts)) == ["shop.log"]
    assert world.schemas.dropped == {"gone": 1, "not yet": 1}
    assert world.after(step.commit_ts)[TableName("shop", "log")].physical_ids == (112, 113)


def test_a_step_that_is_written_again_is_no_other_cut() -> None:
    world = World(database(table(110, "log", partitions=(111, 112))))
    step = world.db.step(Action.REORGANIZE_PARTITION, 110, frozenset({"p111"}), (113,))
    world.ddl(step, replace(step, commit_ts=CommitTs(step.commit_ts + 3)))
    results = world.resolve(step.commit_ts + 5, DDL_JOB_TABLE_ID)
    assert [envelope.commit_ts for envelope in results if isinstance(envelope, Ddl)] == [step.commit_ts]


def test_rows_of_an_exchanged_partition_change_tables_at_the_ddl() -> None:
    world = World(database(table(110, "log", partitions=(111, 112))))
    world.poll()
    job = world.db.exchange(ORDERS, 110, 111)
    world.ddl(job)
    lanes = world.feed.lanes()
    world.resolve(job.commit_ts + 5, DDL_JOB_TABLE_ID)
    assert world.feed.lanes() == lanes
    assert world.names((ORDERS, job.commit_ts), (111, job.commit_ts)) == ["shop.orders", "shop.log"]
    assert world.names((ORDERS, job.commit_ts + 1), (111, job.commit_ts + 1)) == ["shop.log", "shop.orders"]


def test_a_table_that_leaves_the_rules_is_pulled_to_its_rename_and_not_on() -> None:
    world = World(feed_filter=FeedFilter(rules=("shop.*",)))
    world.poll()
    job = world.db.rename((ORDERS, 2, "orders"))
    world.ddl(job)
    world.resolve(job.commit_ts + 5, DDL_JOB_TABLE_ID)
    assert world.names((ORDERS, job.commit_ts)) == ["shop.orders"]
    assert world.names((ORDERS, job.commit_ts + 1)) == []
    assert world.schemas.dropped == {NOT_REPLICATED: 1}
    assert world.schemas.leaving == {ORDERS: job.commit_ts}


def test_a_table_that_comes_back_before_the_log_has_passed_its_end_goes_on() -> None:
    world = World()
    world.poll()
    _, info = world.db.tables[ORDERS]
    dropped = world.db.drop(ORDERS)
    back = world.db.create(1, info, action=Action.RECOVER_TABLE)
    world.ddl(dropped, back)
    results = world.resolve(back.commit_ts + 5, DDL_JOB_TABLE_ID)
    assert marks(results) == {DDL_LANE: back.commit_ts + 5}, "its lane is the one that was there"
    assert world.schemas.leaving == {}
    assert world.names((ORDERS, dropped.commit_ts)) == ["shop.orders"]
    assert world.names((ORDERS, dropped.commit_ts + 1)) == []
    assert world.names((ORDERS, back.commit_ts + 1)) == ["shop.orders"]


def test_a_row_of_an_id_that_nobody_had_is_an_error() -> None:
    with pytest.raises(FeedError, match=r"kv/999@0 .* no table has or had that id"):
        World().names((999, START + 1))


# ---- DDLs -----------------------------------------------------------------------------------------------------------


def test_jobs_are_reported_in_commit_order_when_all_before_them_are_known() -> None:
    world = World()
    world.poll()
    one, two = world.db.create(1, table(NEW, "one")), world.db.create(1, table(NEW + 1, "two"))
    world.ddl(two)
    assert world.poll() == []
    world.ddl(one)
    assert [envelope.table for envelope in world.resolve(two.commit_ts, DDL_JOB_TABLE_ID) if isinstance(envelope, Ddl)] == ["one", "two"]


def test_the_tables_after_a_ddl_are_those_of_its_moment_however_far_the_lane_is() -> None:
    world = World()
    one = world.db.alter(ORDERS, {"cols": [{"name": "id"}, {"name": "a"}]})
    two = world.db.alter(ORDERS, {"cols": [{"name": "id"}, {"name": "a"}, {"name": "b"}]})
    three = world.db.drop(ORDERS)
    world.ddl(one, two, three)
    world.resolve(three.commit_ts, DDL_JOB_TABLE_ID)
    name = TableName("shop", "orders")
    assert world.after(one.commit_ts)[name].column_names() == ("id", "a")
    assert world.after(two.commit_ts)[name].column_names() == ("id", "a", "b")
    assert name not in world.after(three.commit_ts)


def test_a_ddl_that_takes_a_filters_column_away_stops_where_the_log_comes_to_it() -> None:
    filters = (EventFilter(("shop.orders",), ignore_delete_value_expr="a = 1"),)
    world = World(database(table(ORDERS, "orders", columns=("id", "a"))), FeedFilter(rules=("shop.*",), event_filters=filters))
    first = world.db.alter(ITEMS, {"cols": [{"name": "id"}, {"name": "b"}]})
    gone = world.db.alter(ORDERS, {"cols": [{"name": "id"}]}, Action.DROP_COLUMN)
    world.ddl(first, gone)
    world.resolve(gone.commit_ts, DDL_JOB_TABLE_ID)
    assert world.after(first.commit_ts)[TableName("shop", "items")].column_names() == ("id", "b")
    with pytest.raises(FeedUnsuitable, match=r"of shop\.orders \(a = 1\).*'a', which is no column"):
        world.after(gone.commit_ts)


def test_rows_that_a_filter_leaves_out_have_no_name_and_are_counted() -> None:
    world = World(feed_filter=FeedFilter(event_filters=(EventFilter(("shop.orders",), ignore_event=("insert",)),)))
    world.resolve(START + 5, DDL_JOB_TABLE_ID)
    assert world.names((ORDERS, START + 2), (ITEMS, START + 3)) == ["shop.items"]
    assert world.schemas.dropped == {FILTERED: 1}


def test_what_ticdc_would_not_send_is_a_cut_that_is_reported_to_nobody() -> None:
    ignoring = FeedFilter(rules=("shop.*",), event_filters=(EventFilter(("shop.items",), ignore_event=("add column",)),))
    world = World(feed_filter=ignoring)
    jobs = [
        world.db.alter(ITEMS, {"cols": [{"name": "id"}, {"name": "a"}]}),
        world.db.create(2, table(NEW, "elsewhere")),
        world.db.alter(ORDERS, {"comment": "x"}, Action.CACHE_TABLE),
        world.db.job(Action.LOCK_TABLE, 1, ORDERS),
        world.db.alter(ORDERS, {"cols": [{"name": "id"}, {"name": "a"}]}),
    ]
    world.ddl(*jobs)
    ddls = [envelope for envelope in world.resolve(jobs[-1].commit_ts, DDL_JOB_TABLE_ID) if isinstance(envelope, Ddl)]
    facts = [(ddl.commit_ts, ddl.schema, ddl.table, ddl.query) for ddl in ddls]
    assert facts == [
        (jobs[0].commit_ts, "", "", ""),
        (jobs[1].commit_ts, "", "", ""),
        (jobs[2].commit_ts, "", "", ""),
        (jobs[4].commit_ts, "shop", "orders", jobs[4].query),
    ]
    assert TableName("other", "elsewhere") in world.after(jobs[1].commit_ts)


def test_schemas_come_and_go_by_name() -> None:
    world = World()
    created, dropped = world.db.create_schema("fresh"), world.db.drop_schema(1)
    world.ddl(created, dropped)
    ddls = [envelope for envelope in world.resolve(dropped.commit_ts, DDL_JOB_TABLE_ID) if isinstance(envelope, Ddl)]
    assert [(ddl.schema, ddl.table) for ddl in ddls] == [("fresh", ""), ("shop", "")]
    assert TableName("fresh", "") in world.after(created.commit_ts)
    assert {name.schema for name in world.after(dropped.commit_ts)} == {"other", "mysql", "fresh"}


@pytest.mark.parametrize("action", [Action.FLASHBACK_CLUSTER, 999])
def test_what_cannot_be_followed_stops_the_log_when_it_comes_there_and_not_before(action: int) -> None:
    world = World()
    before = world.db.alter(ORDERS, {"cols": [{"name": "id"}, {"name": "a"}]})
    stop = world.db.job(action, 0, 0)  # type: ignore[arg-type]  # an unknown one, too
    behind = world.db.alter(ORDERS, {"cols": [{"name": "id"}]})
    world.ddl(before, stop, behind)
    results = world.resolve(behind.commit_ts + 5, DDL_JOB_TABLE_ID)
    assert [envelope.commit_ts for envelope in results if isinstance(envelope, Ddl)] == [before.commit_ts, stop.commit_ts]
    assert world.names((ORDERS, stop.commit_ts)) == ["shop.orders"]
    world.after(before.commit_ts)
    with pytest.raises(UnsupportedDdl):
        world.after(stop.commit_ts)


def test_a_rename_into_the_rules_stops_as_ticdc_does() -> None:
    db = database()
    db.tables[300] = (2, table(300, "outside"))
    world = World(db, FeedFilter(rules=("shop.*",)))
    job = world.db.rename((300, 1, "inside"))
    world.ddl(job)
    world.resolve(job.commit_ts, DDL_JOB_TABLE_ID)
    with pytest.raises(UnsupportedDdl, match="from outside the changefeed's table rules to inside"):
        world.after(job.commit_ts)


@pytest.mark.parametrize("what", ["drop", "truncate", "alter"])
def test_the_watermark_table_stays_as_it_is(what: str) -> None:
    db = database()
    db.schemas[4] = MARK_TABLE.schema
    db.tables[300] = (4, table(300, MARK_TABLE.table))
    world = World(db)
    jobs = {
        "drop": lambda: world.db.drop(300),
        "truncate": lambda: world.db.replace(300, table(NEW, MARK_TABLE.table)),
        "alter": lambda: world.db.alter(300, {"cols": [{"name": "id"}, {"name": "a"}]}),
    }
    job = jobs[what]()
    world.ddl(job)
    world.resolve(job.commit_ts, DDL_JOB_TABLE_ID)
    with pytest.raises(UnsupportedDdl, match="leave the watermark table as it was made"):
        world.after(job.commit_ts)


def test_without_the_watermark_table_there_is_no_mark() -> None:
    with pytest.raises(FeedUnsuitable, match="watermark table"):
        World().schemas.mark_table()


def test_a_type_that_is_unknown_stops_the_log_only_if_the_table_is_replicated() -> None:
    world = World(feed_filter=FeedFilter(rules=("shop.*",)))
    strange = {"cols": [{"name": "id"}, {"name": "shape", "type_code": 255}]}
    outside = world.db.create(2, table(NEW, "x") | strange)
    inside = world.db.create(1, table(NEW + 1, "y") | strange)
    world.ddl(outside, inside)
    world.resolve(inside.commit_ts, DDL_JOB_TABLE_ID)
    assert TableName("other", "x") in world.after(outside.commit_ts)
    with pytest.raises(FeedUnsuitable, match=r"shop\.y, column shape: type 255"):
        world.after(inside.commit_ts)


# ---- going on -------------------------------------------------------------------------------------------------------


def test_another_life_goes_on_from_the_logs_schemas() -> None:
    world = World()
    world.poll()
    one = world.db.create(1, table(NEW, "fresh"))
    two = world.db.alter(NEW, {"cols": [{"name": "id"}, {"name": "a"}]})
    world.ddl(one, two)
    world.resolve(two.commit_ts + 5, DDL_JOB_TABLE_ID)
    tables = world.after(one.commit_ts)
    later = KvSchemas(lambda: pytest.fail("asked the cluster"), rules_of())
    assert later.resume(tables, upto_ts=one.commit_ts) == tables
    feed = KvFeed(world.puller, later)
    feed.seek({DDL_LANE: START + 1, lane_of(NEW): one.commit_ts + 1})
    assert set(world.puller.wanted().values()) == {START}
    results = [envelope for message in feed.poll(timeout_s=0) for envelope in world.codec.envelopes(message)]
    assert [envelope.commit_ts for envelope in results if isinstance(envelope, Ddl)] == [two.commit_ts]
    after = later.after([Ddl(two.commit_ts, Rank.DDL, "", "", "", DDL_LANE, 0)])
    assert after == world.after(two.commit_ts)
