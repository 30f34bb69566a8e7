"""What comes when: DDLs after all below them, once, by their jobs; what is acknowledged; whose lanes are read on."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from sidecar.feeds.binlog.feed import DDL_LANE, BinlogFeed
from sidecar.feeds.binlog.jobs import BinlogJobs, DdlBinlog
from sidecar.feeds.binlog.joining import PUMPS_LANE, lane_of
from sidecar.feeds.binlog.rows import BinlogRows
from sidecar.feeds.kv.schemas import KvSchemas
from sidecar.replay.kv_rows import DDL_JOB_TABLE_INFO
from sidecar.shared.codecs.binlog import BinlogCodec
from sidecar.shared.codecs.kv import encode_resolved
from sidecar.shared.errors import FeedError, MessageUnreadable, SourceLost
from sidecar.shared.model.nouns import Change, CommitTs, Ddl, Lane, Message, PreviousLayout, Resolved, TableName
from sidecar.shared.rowcodec.kv_layout import KvSnapshot
from sidecar.shared.schema.ddl import Action
from sidecar.shared.schema.version import SchemaSnapshot
from sidecar.shared.ticdc.changefeed import FeedFilter
from sidecar.shared.ticdc.ddl_rules import DdlRules
from tests.support.made_pumps import fake, transaction
from ticdc_dump.binlog import binlog_pb2 as pb

BEGIN = CommitTs(1000)
A, B = lane_of("a"), lane_of("b")
T = TableName("shop", "t")


def column(number: int, name: str, *, flag: int = 0) -> dict[str, Any]:
    kind = {"Tp": 3, "Flag": flag, "Flen": 11, "Decimal": 0, "Charset": "binary", "Collate": "binary", "Elems": None}
    rest = {"origin_default": None, "origin_default_bit": None, "generated_expr_string": "", "generated_stored": False}
    return {"id": number, "name": {"O": name, "L": name}, "offset": number - 1, "type": kind, "state": 5, "version": 2, **rest}


def info(*names: str, table_id: int = 10, name: str = "t", partition: dict[str, Any] | None = None) -> dict[str, Any]:
    columns = [column(1, "id", flag=3), *(column(number, one) for number, one in enumerate(names, 2))]
    return {
        "id": table_id, "name": {"O": name, "L": name}, "cols": columns, "state": 5, "update_timestamp": 0, "pk_is_handle": True,
        "is_common_handle": False, "index_info": None, "partition": partition, "view": None, "sequence": None,
    }  # fmt: skip


def meta(
    number: int, *, state: int = 6, kind: int = 5, after: dict[str, Any] | None = None, version: int = 7, finished_ts: int = 0
) -> bytes:
    job = {
        "id": number,
        "type": kind,
        "state": state,
        "schema_id": 1,
        "table_id": 10,
        "schema_name": "shop",
        "start_ts": 5,
        "query": "alter",
    }
    return json.dumps(
        job | {"binlog": {"SchemaVersion": version, "FinishedTS": finished_ts, "TableInfo": after or info("x", "y")}}
    ).encode()


def ddl(ts: int, number: int = 1, *, state: int = 5, query: str = "ALTER TABLE `t` …") -> bytes:
    made = pb.Binlog(tp=pb.Commit, start_ts=ts - 1, commit_ts=ts, ddl_query=query.encode(), ddl_job_id=number, ddl_schema_state=state)
    return bytes(made.SerializeToString())


def row(ts: int, *, version: int = 6, table_id: int = 10) -> bytes:
    """An insert of id 1 with x = 2: handle, then pairs of id and value, as varints."""
    mutation = pb.TableMutation(table_id=table_id, inserted_rows=[bytes([8, 2, 8, 4, 8, 4])], sequence=[pb.Insert])
    return transaction(ts - 1, ts, pb.PrewriteValue(schema_version=version, mutations=[mutation]).SerializeToString())


@dataclass
class MadePumps:
    there: set[Lane] = field(default_factory=lambda: {PUMPS_LANE, A, B})
    waiting: list[Message] = field(default_factory=list)
    begun: Mapping[Lane, int] | None = None
    durable: list[CommitTs] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)

    def lanes(self) -> frozenset[Lane]:
        return frozenset(self.there)

    def seek(self, positions: Mapping[Lane, int]) -> None:
        self.begun = positions

    def poll(self, *, timeout_s: float) -> Sequence[Message]:  # nothing waits here
        messages, self.waiting = self.waiting, []
        return messages

    def acknowledge(self, durable_ts: CommitTs) -> None:
        self.durable.append(durable_ts)

    def close(self) -> None:
        self.closed.append("pumps")

    def bring(self, lane: Lane, payload: bytes) -> None:
        self.waiting.append(Message(lane, pb.Binlog.FromString(payload).commit_ts, None, payload))

    def look(self, ts: int) -> None:
        self.waiting.append(Message(PUMPS_LANE, ts - 1, None, encode_resolved(CommitTs(ts))))


class Line:
    def __init__(self, metas: Mapping[int, bytes] | Callable[[int], bytes | None], table: dict[str, Any] | None = None) -> None:
        self.pumps = MadePumps()
        snapshot = KvSnapshot(BEGIN, [SchemaSnapshot(1, "shop", [table or info("x")])], DDL_JOB_TABLE_INFO, new_collation=True)
        rules = DdlRules.of(FeedFilter(rules=("*.*",)), new_architecture=False)
        self.schemas = KvSchemas(lambda: snapshot, rules, rows=BinlogRows())
        self.tables = self.schemas.begin()
        self.codec = BinlogCodec(self.schemas.mark_table)
        ask = metas if callable(metas) else metas.get
        jobs = BinlogJobs(ask, wait_max_s=1.0, wait=lambda _: None)
        self.feed = BinlogFeed(self.pumps, self.schemas, jobs, closers=(lambda: self.pumps.closed.append("etcd"),))
        self.feed.seek({})
        self.feed.poll(timeout_s=0)

    def poll(self) -> list[Change | Ddl | Resolved]:
        return [one for message in self.feed.poll(timeout_s=0) for one in self.codec.envelopes(message)]

    def ddls(self) -> list[CommitTs]:
        return [one.commit_ts for one in self.poll() if isinstance(one, Ddl)]


def test_a_new_log_begins_at_the_moment_of_its_tables_with_all_pumps() -> None:
    line = Line({})
    assert line.pumps.begun == {PUMPS_LANE: BEGIN}
    assert line.feed.lanes() == {PUMPS_LANE, A, B, DDL_LANE}
    assert line.feed.incarnations().keys() == line.feed.lanes()
    assert line.feed.ends() == {}


def test_a_ddl_leaves_in_a_lane_of_its_own_when_nothing_below_it_can_come_any_more() -> None:
    line = Line({1: meta(1)})
    line.pumps.bring(A, ddl(2000))
    line.pumps.look(3000)
    results = line.poll()
    assert Resolved(A, CommitTs(2001), 2000) in results
    assert not any(isinstance(one, Ddl) or (isinstance(one, Resolved) and one.lane == DDL_LANE) for one in results)
    line.pumps.bring(B, row(1999))
    assert line.ddls() == []
    line.pumps.bring(B, fake(2500))
    *_, ddl_message, mark = line.poll()
    assert isinstance(ddl_message, Ddl)
    assert (ddl_message.lane, ddl_message.commit_ts, ddl_message.schema, ddl_message.table) == (DDL_LANE, 2000, "shop", "t")
    assert mark == Resolved(DDL_LANE, CommitTs(2001), 2000)
    assert line.schemas.after([ddl_message])[T].column_names() == ("id", "x", "y")


def test_a_pump_that_has_joined_and_said_nothing_holds_the_ddls() -> None:
    line = Line({1: meta(1)})
    line.pumps.there.add(lane_of("c"))
    for lane, payload in ((A, ddl(2000)), (B, fake(2100))):
        line.pumps.bring(lane, payload)
    line.pumps.look(3000)
    assert line.ddls() == []
    line.pumps.bring(lane_of("c"), fake(2050))
    assert line.ddls() == [2000]


def test_one_ddl_of_two_pumps_is_one() -> None:
    line = Line({1: meta(1)})
    for lane in (A, B):
        line.pumps.bring(lane, ddl(2000))
        line.pumps.bring(lane, fake(2100))
    line.pumps.look(3000)
    assert line.ddls() == [2000]
    line.pumps.bring(A, ddl(2000))
    line.pumps.bring(A, fake(2200))
    line.pumps.bring(B, fake(2200))
    assert line.ddls() == []


@pytest.mark.parametrize(
    ("payload", "metas"),
    [
        (ddl(2000, state=1, query="ALTER TABLE `t` DROP COLUMN `x`"), {1: meta(1, state=1)}),
        (ddl(2000), {1: meta(1, state=3)}),
        (ddl(2000, number=0x7FFF, query="select setval(`shop`.`s`, 5)"), {}),
    ],
    ids=["the first of two", "rolled back", "no job"],
)
def test_what_changes_no_table_is_passed_over(payload: bytes, metas: dict[int, bytes]) -> None:
    line = Line(metas)
    line.pumps.bring(A, payload)
    line.pumps.bring(A, fake(2100))
    line.pumps.bring(B, fake(2100))
    line.pumps.look(3000)
    results = line.poll()
    assert not [one for one in results if isinstance(one, Ddl)]
    assert Resolved(DDL_LANE, CommitTs(2101), 2100) in results


def test_a_job_that_is_not_seen_yet_is_waited_for() -> None:
    answers = [None, meta(1, state=1), meta(1, state=4)]
    line = Line(lambda _: answers.pop(0))
    line.pumps.bring(A, ddl(2000))
    line.pumps.bring(B, fake(2100))
    line.pumps.look(3000)
    assert line.ddls() == [2000]
    assert answers == []


@pytest.mark.parametrize(("value", "text"), [(None, "is not seen"), (meta(1, state=1), "has not ended")])
def test_a_job_that_does_not_come_is_an_outage_that_names_it(value: bytes | None, text: str) -> None:
    jobs = BinlogJobs(lambda _: value, wait_max_s=0.5, wait=lambda _: None)
    with pytest.raises(SourceLost, match=rf"DDL job 4 of the binlog at 2000 .*{text}"):
        jobs.job(DdlBinlog(CommitTs(2000), 4, 5, "ALTER TABLE `t` …"))


def test_rows_of_an_older_schema_version_have_their_layout_in_the_schemas_file() -> None:
    line = Line({1: meta(1), 2: meta(2, after=info("x", "y", "z"), version=9, finished_ts=2150)})
    before = line.tables[T].layout
    for ts, number in ((2000, 1), (2100, 2)):
        line.pumps.bring(A, ddl(ts, number))
    line.pumps.bring(B, fake(2200))
    line.pumps.look(3000)
    ddls = [one for one in line.poll() if isinstance(one, Ddl)]
    first, second = (line.schemas.after([one])[T] for one in ddls)
    assert first.former == PreviousLayout(7, before)
    assert second.former == PreviousLayout(9, first.layout, upto_ts=2150)
    again = Line({})
    assert again.schemas.resume({**line.tables, T: second}, upto_ts=CommitTs(2100))[T].former == second.former


@pytest.mark.parametrize(("version", "commit_ts", "counts"), [(6, 2040, False), (6, 2060, True), (7, 2040, True)])
def test_a_row_is_of_a_truncated_partition_only_until_the_ddl_is_over(
    version: int, commit_ts: int, counts: bool
) -> None:  # a parameter of the test
    """A transaction that began before the DDL and first touches the table after it writes to the partition that is there then."""

    def hashed(partition_id: int) -> dict[str, Any]:
        definitions = [{"id": partition_id, "name": {"O": "p0", "L": "p0"}, "less_than": None, "in_values": None}]
        return {"enable": True, "type": 2, "expr": "`id`", "columns": None, "num": 1, "definitions": definitions}

    job = meta(1, kind=Action.TRUNCATE_TABLE_PARTITION, after=info("x", partition=hashed(21)), finished_ts=2050)
    line = Line({1: job}, info("x", partition=hashed(11)))
    for lane, payload in ((A, ddl(2000)), (A, row(commit_ts, version=version)), (B, fake(2100))):
        line.pumps.bring(lane, payload)
    line.pumps.look(3000)
    results = line.poll()
    line.schemas.after([one for one in results if isinstance(one, Ddl)])
    named = list(line.schemas.named(one for one in results if isinstance(one, Change)))
    assert [(one.schema, one.table) for one in named] == ([T] if counts else [])
    assert line.schemas.dropped["gone"] == (not counts)


def test_rows_are_named_by_the_logical_id() -> None:
    line = Line({})
    line.pumps.bring(A, row(1500))
    line.pumps.bring(B, fake(1700))
    line.pumps.look(1800)
    changes = [one for one in line.poll() if isinstance(one, Change)]
    assert [(one.schema, one.table) for one in line.schemas.named(changes)] == [T]
    line.pumps.bring(A, row(1600, table_id=99))
    unknown = [one for one in line.poll() if isinstance(one, Change)]
    with pytest.raises(FeedError, match="has a row of table id 99 at commit_ts 1600"):
        list(line.schemas.named(unknown))


def test_what_is_acknowledged_is_what_every_lane_has_in_the_log() -> None:
    line = Line({})
    line.feed.acknowledge({A: 1500, B: 1400, PUMPS_LANE: 1600})
    assert line.pumps.durable == []
    for positions in ({A: 1500, B: 1400, PUMPS_LANE: 1600, DDL_LANE: 1450}, {A: 1500, B: 1300, PUMPS_LANE: 1600, DDL_LANE: 1450}):
        line.feed.acknowledge({Lane(lane): position for lane, position in positions.items()})
    assert line.pumps.durable == [1399]


def test_pumps_are_read_on_from_the_lowest_position_and_never_from_above_the_log() -> None:
    line = Line({})
    line.feed.seek({A: 900, B: 2000, PUMPS_LANE: 2100, DDL_LANE: 950})
    assert line.pumps.begun == {PUMPS_LANE: 899}
    line.feed.seek({A: 2000})
    assert line.pumps.begun == {PUMPS_LANE: BEGIN}


def test_the_lane_of_another_feed_and_what_is_no_binlog_are_refused_by_name() -> None:
    line = Line({})
    with pytest.raises(FeedError, match="cannot read on in lane kafka/orders/0"):
        line.feed.seek({Lane("kafka/orders/0"): 5})
    line.pumps.waiting.append(Message(A, 5, None, b"\xff\xff"))
    with pytest.raises(MessageUnreadable, match="pump/a@5: no Binlog"):
        line.feed.poll(timeout_s=0)


def test_the_streams_end_before_what_they_need() -> None:
    line = Line({})
    line.feed.close()
    assert line.pumps.closed == ["pumps", "etcd"]
