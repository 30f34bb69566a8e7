"""The data plane's order: what is durable before what, and what stops it.

Every port is a fake that notes its calls in one list; the dump is the real one. Marks and chunks that the dump asks for are
done by the fake source when its results are asked for, as an idle database would.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from unittest.mock import Mock

import pyarrow as pa
import pytest

from sidecar.adapters.memory.clock import MemoryClock
from sidecar.adapters.memory.log import MemoryDisk, MemoryLog
from sidecar.adapters.memory.progress import MemoryProgress
from sidecar.adapters.memory.schemas import StillSchemas
from sidecar.core.dump_start import DumpLimits
from sidecar.history.entry import HistoryEntry
from sidecar.pace.controller import NARROW_ROWS
from sidecar.pace.outage import AGAIN_AFTER_S, Outage
from sidecar.pipeline import EMPTY_SEGMENT_EVERY_S, Outside, Pipeline, PipelineLimits, attach, newest_dumps
from sidecar.ports import NO_READ_ENDS, NOT_KNOWN, OperationHistory, Schemas
from sidecar.run.sightings import SeenHoles
from sidecar.shared.errors import FeedUnsuitable, LogBroken, LogTaken, MarkError, RefusedRequest, SourceLost, UnsupportedDdl
from sidecar.shared.log.manifest import DataFile, LoggedDumps, Manifest
from sidecar.shared.log.spill import MemorySpill
from sidecar.shared.model.chunk import ChunkFile
from sidecar.shared.model.hole import Hole, HoleCause, Sighting
from sidecar.shared.model.messages import (
    Brackets,
    ChunkRead,
    Command,
    MarkFenced,
    MarkSent,
    Pace,
    PauseDump,
    Request,
    RestartDump,
    ResumeDump,
    SendMark,
    SetDump,
    Settings,
    SourceEvent,
    SourceFailed,
    StartDump,
)
from sidecar.shared.model.nouns import (
    MARK_TABLE,
    Change,
    Column,
    CommitTs,
    Ddl,
    Envelope,
    Lane,
    Mark,
    MarkKind,
    Message,
    Rank,
    ReadEnd,
    Seq,
    TableName,
    TableSchema,
)
from sidecar.shared.model.progress import DumpState, Progress, Span, TableProgress
from sidecar.shared.model.schema_step import Beside
from sidecar.shared.model.sink_delivery import BatchDone, SinkDelivery
from tests.support.changes import ddl, delete, identity, put, resolved

TABLE = TableName("s", "t")
MORE = TableName("s", "u")
ID = (Column("id", "int", nullable=False),)
SCHEMAS = {TABLE: TableSchema(TABLE, ID, ("id",), 1, (1,)), MORE: TableSchema(MORE, ID, ("id",), 2, (2,))}
WIDER = SCHEMAS | {TABLE: replace(SCHEMAS[TABLE], columns=(*ID, Column("x", "int")))}
DUMP = "1" * 16
LANE = Lane("a")
START = CommitTs(0)
WALL_MS = 1_700_000_000_000
"""Of the clock's beginning."""
DURABLE = ("chunk file", "segment data", "manifest", "progress", "acknowledge")


class Broken(Exception):
    """A step that fails on purpose."""


@dataclass
class Notes:
    calls: list[str] = field(default_factory=list)
    fails_at: str | None = None

    def note(self, call: str) -> None:
        if call == self.fails_at:
            raise Broken(call)
        self.calls.append(call)

    def durable(self) -> list[str]:
        return [call for call in self.calls if call in DURABLE]


@dataclass
class FakeFeed:
    """Envelopes by lane; a message's bytes are nothing, the fake codec knows what it holds."""

    notes: Notes
    held: dict[Lane, list[list[Envelope]]] = field(default_factory=lambda: {LANE: []})
    ended: bool = False
    read: dict[Lane, int] = field(default_factory=dict)
    made: dict[Lane, str] = field(default_factory=dict)
    unmarked: set[Lane] = field(default_factory=set)
    sought: Mapping[Lane, int] | None = None
    sought_of: Mapping[Lane, str] | None = None
    sought_to: Mapping[Lane, ReadEnd] | None = None
    reached: dict[Lane, ReadEnd] = field(default_factory=dict)
    acknowledged: list[dict[Lane, int]] = field(default_factory=list)
    after_gap: set[tuple[Lane, int]] = field(default_factory=set)

    def say(self, *envelopes: Envelope, lane: Lane = LANE) -> None:
        """One message with these envelopes; their own lane and position do not matter."""
        position = len(self.held.setdefault(lane, []))
        self.held[lane].append([envelope._replace(lane=lane, position=position) for envelope in envelopes])

    def lanes(self) -> frozenset[Lane]:
        return frozenset(self.held.keys() - self.unmarked)

    def ends(self) -> Mapping[Lane, int]:
        self.ended = True
        return {lane: len(held) for lane, held in self.held.items()}

    def incarnations(self) -> Mapping[Lane, str]:
        return {lane: self.made.get(lane, "") for lane in self.held}

    def read_ends(self) -> Mapping[Lane, ReadEnd]:
        return self.reached

    def seek(
        self,
        positions: Mapping[Lane, int],
        incarnations: Mapping[Lane, str] = NOT_KNOWN,
        read_ends: Mapping[Lane, ReadEnd] = NO_READ_ENDS,
    ) -> None:
        self.sought, self.sought_of, self.sought_to = dict(positions), dict(incarnations), dict(read_ends)
        self.read = dict(positions)

    def poll(self, *, timeout_s: float) -> Sequence[Message]:
        places = [(lane, at) for lane, held in self.held.items() for at in range(self.read.get(lane, 0), len(held))]
        messages = [Message(lane, at, None, None, after_gap=(lane, at) in self.after_gap) for lane, at in places]
        self.read = {lane: len(held) for lane, held in self.held.items()}
        return messages

    def acknowledge(self, positions: Mapping[Lane, int]) -> None:
        self.notes.note("acknowledge")
        self.acknowledged.append(dict(positions))


@dataclass
class FakeCodec:
    feed: FakeFeed
    name: str = "fake"

    def envelopes(self, message: Message) -> list[Envelope]:
        return self.feed.held[message.lane][message.position]

    def identity(self, change: Change) -> Hashable:
        return identity(change)

    def mark(self, change: Change) -> Mark | None:
        if change.rank is Rank.DELETE:
            return None
        uuid, kind = change.value.decode().split()
        return Mark(change.commit_ts, "cf", uuid, MarkKind[kind])


@dataclass
class NotedLog:
    log: MemoryLog
    notes: Notes

    @property
    def id(self) -> str:
        return self.log.id

    def recover(self, *, epoch: int) -> Manifest | None:
        return self.log.recover(epoch=epoch)

    def write_data(self, seq: Seq, *, epoch: int, codec: str, changes: Iterable[Change]) -> DataFile:
        written = self.log.write_data(seq, epoch=epoch, codec=codec, changes=changes)
        self.notes.note("segment data")
        return written

    def write_schemas(self, schemas: Mapping[TableName, TableSchema]) -> str:
        return self.log.write_schemas(schemas)

    def read_schemas(self, name: str) -> dict[TableName, TableSchema]:
        return self.log.read_schemas(name)

    def write_dumps(self, dumps: Sequence[Progress]) -> LoggedDumps:
        return self.log.write_dumps(dumps)

    def commit(self, manifest: Manifest) -> None:
        self.notes.note("manifest")
        self.log.commit(manifest)


@dataclass
class NotedProgress:
    stored: MemoryProgress
    notes: Notes

    @property
    def history(self) -> OperationHistory:
        return self.stored.history

    def load(self) -> tuple[Progress, ...]:
        return self.stored.load()

    def save(self, dumps: Sequence[Progress], entries: Sequence[HistoryEntry] = ()) -> None:
        self.notes.note("progress")
        self.stored.save(dumps, entries)


@dataclass
class FakeSource:
    """Does what was asked when results are asked for: marks come into the feed at `ts`, a chunk holds the whole table, and says that
    it has `rows`."""

    notes: Notes
    feed: FakeFeed
    disk: MemoryDisk
    ts: int = 100
    asked: list[Command] = field(default_factory=list)
    fails: Callable[[Command], SourceEvent] | None = None
    followed: Mapping[TableName, TableSchema] = field(default_factory=dict)
    rows: int = 3

    def request(self, command: Command) -> None:
        self.notes.note(f"ask {command.kind.name.lower()} mark" if isinstance(command, SendMark) else "ask chunk")
        self.asked.append(command)

    def follow(self, schemas: Mapping[TableName, TableSchema]) -> None:
        self.followed = schemas

    def results(self) -> Sequence[SourceEvent]:
        todo, self.asked = self.asked, []
        return [self._done(command) for command in todo]

    def _done(self, command: Command) -> SourceEvent:
        self.ts += 10
        if self.fails is not None:
            return self.fails(command)
        if isinstance(command, SendMark):
            self.feed.say(mark_row(self.ts, f"{command.uuid} {command.kind.name}"))
            return MarkSent(command.uuid)
        self.notes.note("chunk file")
        path = f"chunks/{command.dump_id}/{command.epoch:010d}-{command.number:08d}.parquet"
        size = MemoryLog(self.disk).write_chunk(path, pa.table({"id": ["1", "2", "3"]})).bytes
        tso = CommitTs(self.ts) if command.brackets is Brackets.SNAPSHOT else None
        return ChunkRead(command.number, ChunkFile(command.table, path, self.rows, size, None, ("3",), tso), exhausted=True)

    def close(self) -> None:
        self.asked = []


@dataclass
class FakeRequests:
    notes: Notes
    waiting: list[Request] = field(default_factory=list)
    answers: list[RefusedRequest | None] = field(default_factory=list)

    def take(self) -> Request | None:
        return self.waiting.pop(0) if self.waiting else None

    def answer(self, refused: RefusedRequest | None) -> None:
        self.notes.note("answer")
        self.answers.append(refused)


class FakeDeliveries:
    """Sinks that have accepted what a test says."""

    def __init__(self) -> None:
        self.seq: Seq | None = None
        self.batches: tuple[BatchDone, ...] = ()

    def accepted(self) -> Seq | None:
        return self.seq

    def sinks(self) -> tuple[SinkDelivery, ...]:
        return (SinkDelivery("file:///out", self.seq, self.batches),) if self.batches else ()

    def report_times(self) -> None:
        """At the moment of asking."""


@dataclass
class MovingSchemas:
    """`Schemas` of a source that changes: `at` says from which ts on there are which tables."""

    at: dict[int, Mapping[TableName, TableSchema]]
    asked: list[int] = field(default_factory=list)
    since_ts: CommitTs = START

    def begin(self) -> Mapping[TableName, TableSchema]:
        return self.at[0]

    def resume(self, tables: Mapping[TableName, TableSchema], *, upto_ts: CommitTs) -> Mapping[TableName, TableSchema]:
        return tables

    def after(self, ddls: Sequence[Ddl]) -> Mapping[TableName, TableSchema]:
        (ts,) = {ddl.commit_ts for ddl in ddls}
        self.asked.append(ts)
        return self.at[max(since for since in self.at if since <= ts)]

    def named(self, changes: Iterable[Change]) -> Iterable[Change]:
        return changes


class Stage:
    """A pipeline over fakes. `attach` again is what happens after a crash: memory is lost, disk and store are not."""

    def __init__(self) -> None:
        self.disk, self.stored = MemoryDisk(), MemoryProgress()
        self.notes, self.clock = Notes(), MemoryClock(1000.0)
        self.feed, self.requests = FakeFeed(self.notes), FakeRequests(self.notes)
        self.source = FakeSource(self.notes, self.feed, self.disk)
        self.deliveries: FakeDeliveries | None = None
        self.schemas: Schemas = StillSchemas(SCHEMAS)
        self.beside = Beside.RIGHT
        self.limits = DumpLimits(readers=1)
        self.through: Callable[[TableName], tuple[bool, str]] = lambda _: (True, "")
        self.sightings = SeenHoles(lambda: CommitTs(1 << 62), lambda _: None)

    def attach(self, *, epoch: int = 1) -> Pipeline:
        self.sightings = SeenHoles(lambda: CommitTs(1 << 62), lambda _: None)
        outside = Outside(
            feed=self.feed,
            codec=FakeCodec(self.feed),
            log=NotedLog(MemoryLog(self.disk), self.notes),
            source=self.source,
            schemas=self.schemas,
            progress=NotedProgress(self.stored, self.notes),
            requests=self.requests,
            clock=self.clock,
            spill=MemorySpill(),
            deliveries=self.deliveries,
            through=self.through,
            beside=self.beside,
            wall_ms=lambda: WALL_MS + int(self.clock.time_s * 1000),
            sightings=self.sightings,
        )
        return attach(outside, changefeed_id="cf", epoch=epoch, limits=PipelineLimits(dump=self.limits))

    def manifests(self) -> list[Manifest]:
        log = MemoryLog(self.disk)
        manifests: list[Manifest] = []
        while (manifest := log.manifest(Seq(len(manifests)))) is not None:
            manifests.append(manifest)
        return manifests

    def rows(self) -> list[bytes]:
        log = MemoryLog(self.disk)
        return [change.key for manifest in self.manifests() for change in log.read_data(manifest)]


def mark_row(ts: int, text: str) -> Change:
    return put(ts, "1", value=text)._replace(schema=MARK_TABLE.schema, table=MARK_TABLE.table)


def start(brackets: Brackets = Brackets.WATERMARK) -> StartDump:
    return StartDump(DUMP, (TABLE,), brackets, 10)


def progress(state: DumpState, *, revision: int, tables: tuple[TableProgress, ...] = (TableProgress(TABLE),)) -> Progress:
    return Progress(DUMP, state, Brackets.WATERMARK, 10, 1, revision, Seq(0), tables)


def state(pipeline: Pipeline) -> DumpState | None:
    return pipeline.dump.progress.state if pipeline.dump.progress else None


def before_the_window_closes(stage: Stage) -> Pipeline:
    """A dump whose chunk is asked for; the next steps write it, send the high mark, and show that in the feed."""
    pipeline = stage.attach()
    stage.requests.waiting.append(start())
    pipeline.step(poll_s=0)
    pipeline.step(poll_s=0)
    assert stage.notes.calls[-1] == "ask chunk"
    stage.notes.calls.clear()
    return pipeline


def close_the_window(stage: Stage, pipeline: Pipeline) -> None:
    stage.feed.say(put(115, "x"))
    pipeline.step(poll_s=0)
    pipeline.step(poll_s=0)
    stage.feed.say(resolved(201))
    pipeline.step(poll_s=0)


# ---- the order of durability ----------------------------------------------------------------------------------------


def test_each_step_comes_after_what_it_relies_on() -> None:
    stage = Stage()
    pipeline = before_the_window_closes(stage)
    close_the_window(stage, pipeline)
    assert stage.notes.calls == ["chunk file", "ask high mark", "segment data", "manifest", "progress", "acknowledge"]
    (manifest,) = stage.manifests()
    (window,) = manifest.windows
    assert (window.low_ts, window.high_ts, manifest.upto_ts, manifest.rows) == (110, 130, 200, 3)
    (stored,) = stage.stored.load()
    assert newest_dumps(manifest, (), log_id="") == (stored,)
    assert stored.state is DumpState.FINISHED
    assert stage.feed.acknowledged == [manifest.positions]
    assert (pipeline.counts.segments, pipeline.counts.changes, pipeline.counts.dump_rows) == (1, 3, 3)


@pytest.mark.parametrize("step", DURABLE)
def test_an_error_in_a_step_stops_the_ones_after_it(step: str) -> None:
    stage = Stage()
    pipeline = before_the_window_closes(stage)
    stage.notes.fails_at = step
    with pytest.raises(Broken, match=step):
        close_the_window(stage, pipeline)
    assert stage.notes.durable() == list(DURABLE[: DURABLE.index(step)])


@pytest.mark.parametrize("step", DURABLE)
def test_what_an_error_stopped_is_done_by_the_next_owner(step: str) -> None:
    stage = Stage()
    pipeline = before_the_window_closes(stage)
    stage.notes.fails_at = step
    with pytest.raises(Broken):
        close_the_window(stage, pipeline)
    stage.notes.fails_at = None
    stage.source.close()
    stage.source.ts = 300
    heir = stage.attach(epoch=2)
    for _ in range(4):
        heir.step(poll_s=0)
    stage.feed.say(put(390, "y"), resolved(401))
    heir.step(poll_s=0)
    assert state(heir) is DumpState.FINISHED
    assert [key for key in stage.rows() if key != b"1"] == [b"x", b"y"]
    assert stage.feed.acknowledged[-1] == stage.manifests()[-1].positions


def test_dump_and_epoch_are_on_record_before_a_mark_of_them_is_sent() -> None:
    stage = Stage()
    pipeline = stage.attach()
    stage.requests.waiting.append(start())
    pipeline.step(poll_s=0)
    assert stage.notes.calls == ["progress", "answer", "ask low mark"]
    stage.notes.calls.clear()
    heir = stage.attach(epoch=2)
    heir.step(poll_s=0)
    (stored,) = stage.stored.load()
    assert stored.epoch == 2
    assert stage.notes.calls[0] == "progress"


def test_every_dump_that_is_there_is_in_the_manifest_and_goes_on_from_it() -> None:
    stage = Stage()
    pipeline = stage.attach()
    second = "2" * 16
    stage.requests.waiting += [start(), replace(start(), dump_id=second, tables=(MORE,)), replace(start(), dump_id="3" * 16)]
    pipeline.step(poll_s=0)
    stage.feed.say(put(5, "x"), resolved(10))
    pipeline.step(poll_s=0)
    (manifest,) = stage.manifests()
    states = {DUMP: "running", second: "running", "3" * 16: "queued"}
    assert {dump["dump_id"]: dump["state"] for dump in manifest.dumps} == states
    stage.stored.stored = None
    assert {dump.dump_id: dump.state for dump in stage.attach(epoch=2).dump.records} == states


def test_a_manifest_says_since_when_the_oldest_window_is_open_that_it_does_not_close() -> None:
    """What its writer may still close, though it slept meanwhile, must stay until another owner has written."""
    stage = Stage()
    pipeline = stage.attach()
    stage.feed.say(put(5, "w"), resolved(10))
    pipeline.step(poll_s=0)
    stage.requests.waiting.append(start())
    pipeline.step(poll_s=0)
    pipeline.step(poll_s=0)
    stage.feed.say(put(105, "x"), resolved(107))
    pipeline.step(poll_s=0)
    close_the_window(stage, pipeline)
    assert [manifest.open_from for manifest in stage.manifests()] == [None, 1, None]
    assert stage.manifests()[-1].windows[0].first_seq == 1


def test_a_segment_without_a_window_saves_no_progress() -> None:
    stage = Stage()
    pipeline = before_the_window_closes(stage)
    stage.feed.say(put(105, "x"), resolved(107))
    pipeline.step(poll_s=0)
    assert stage.notes.durable() == ["chunk file", "segment data", "manifest", "acknowledge"]


def test_a_segment_that_another_owner_has_written_stops_before_the_feed_is_acknowledged() -> None:
    stage = Stage()
    previous, heir = stage.attach(epoch=1), stage.attach(epoch=2)
    stage.feed.say(put(5, "x"), resolved(10))
    heir.step(poll_s=0)
    stage.feed.read.clear()
    stage.notes.calls.clear()
    with pytest.raises(LogTaken):
        previous.step(poll_s=0)
    assert "acknowledge" not in stage.notes.calls


# ---- what stops the line --------------------------------------------------------------------------------------------


def test_a_table_without_a_schema_is_refused_before_its_segment_is_written() -> None:
    stage = Stage()
    pipeline = stage.attach()
    stage.feed.say(put(5, "x"))
    stage.feed.say(put(6, "y", table="other"), resolved(10))
    with pytest.raises(
        FeedUnsuitable, match=r"a@1 has a change of s\.other at commit_ts 6, a table whose schema is not known\n.*deploy/FIRST-DAY\.md"
    ):
        pipeline.step(poll_s=0)
    assert stage.notes.calls == []
    assert (stage.disk.rows, stage.disk.manifests) == ({}, {})


def test_a_row_of_a_table_without_a_key_is_refused_before_its_segment_is_written() -> None:
    """Nobody could decode any row of it once it were in the log."""
    stage = Stage()
    stage.schemas = StillSchemas(SCHEMAS | {MORE: replace(SCHEMAS[MORE], key=())})
    pipeline = stage.attach()
    stage.feed.say(put(6, "y", table=MORE.table), resolved(10))
    with pytest.raises(FeedUnsuitable, match=r"a change of s\.u at commit_ts 6, a table without a handle key.*\n.*force-replicate"):
        pipeline.step(poll_s=0)
    assert (stage.disk.rows, stage.disk.manifests) == ({}, {})


def test_a_table_that_the_feed_calls_in_another_case_goes_on_by_its_own_name() -> None:
    """Finding 3: classic TiCDC has the schema in lower case after a RENAME, in rows and DDLs, until the table's next DDL."""
    own = TableName("Shop", "Bb")
    stage = Stage()
    stage.schemas = MovingSchemas({0: {TABLE: SCHEMAS[TABLE]}, 7: {own: replace(SCHEMAS[TABLE], name=own)}})
    pipeline = stage.attach()
    stage.feed.say(ddl(7, query="RENAME TABLE …")._replace(schema="shop", table="Bb"))
    stage.feed.say(put(8, "x", table="Bb")._replace(schema="shop"), put(9, "y", table="Bb")._replace(schema="Shop"), resolved(20))
    while not stage.feed.lanes() or pipeline.sequence.after_ts < 19:
        pipeline.step(poll_s=0)
    at, after = stage.manifests()
    assert [(reported.schema, reported.table) for reported in at.ddls] == [own]
    assert {(change.schema, change.table) for change in MemoryLog(stage.disk).read_data(after)} == {own}
    assert after.rows == 2


def test_segments_before_an_unsupported_ddl_are_written_and_nothing_after_it() -> None:
    stage = Stage()
    pipeline = stage.attach()
    stage.feed.say(put(5, "before"), resolved(7))
    pipeline.step(poll_s=0)
    stage.feed.say(put(7, "at"), put(8, "after"), ddl(7, query="alter table t add x int"), resolved(20))
    with pytest.raises(UnsupportedDdl, match=r"DDL at commit_ts 7 in a@1 changes s\.t: alter table t add x int"):
        pipeline.step(poll_s=0)
    assert stage.rows() == [b"before"]
    assert stage.manifests()[-1].upto_ts == 6
    with pytest.raises(UnsupportedDdl):
        stage.attach(epoch=2).step(poll_s=0)


def test_changes_before_an_unsupported_ddl_are_written_although_they_are_released_with_it() -> None:
    """The error says that everything below its commit_ts is delivered."""
    stage = Stage()
    pipeline = stage.attach()
    stage.feed.say(put(5, "before"), ddl(7), put(8, "after"), resolved(20))
    with pytest.raises(UnsupportedDdl, match="everything below its commit_ts is delivered"):
        pipeline.step(poll_s=0)
    assert stage.rows() == [b"before"]


@pytest.mark.parametrize(
    "passing",
    [
        ddl(7, query="create table changefeed_dump_event (…)")._replace(schema=MARK_TABLE.schema, table=MARK_TABLE.table),
        ddl(7, query="create database changefeed_dump")._replace(schema=MARK_TABLE.schema, table=""),
        ddl(7, query="create database other")._replace(schema="other", table=""),
    ],
    ids=lambda passing: passing.query,
)
def test_a_ddl_that_changes_nothing_replicated_passes_and_is_recorded(passing: Ddl) -> None:
    stage = Stage()
    pipeline = stage.attach()
    stage.feed.say(put(5, "x"), passing, put(8, "y"), resolved(20))
    pipeline.step(poll_s=0)
    assert stage.rows() == [b"x", b"y"]
    assert [(d.commit_ts, d.schema, d.query) for m in stage.manifests() for d in m.ddls] == [(7, passing.schema, passing.query)]


@pytest.mark.parametrize("table", ["t", "u", ""], ids=["a replicated table", "another table of its schema", "its schema"])
def test_a_ddl_of_a_schema_with_replicated_tables_stops(table: str) -> None:
    stage = Stage()
    pipeline = stage.attach()
    stage.feed.say(ddl(7)._replace(table=table), resolved(20))
    with pytest.raises(UnsupportedDdl):
        pipeline.step(poll_s=0)


@pytest.mark.parametrize(
    ("table", "query"),
    [
        (MARK_TABLE.table, "DROP TABLE `changefeed_dump`.`changefeed_dump_event`"),
        (MARK_TABLE.table, "ALTER TABLE `changefeed_dump`.`changefeed_dump_event` ADD COLUMN x int"),
        ("", "DROP DATABASE `changefeed_dump`"),
    ],
)
def test_a_ddl_that_may_end_the_marks_stops(table: str, query: str) -> None:
    stage = Stage()
    pipeline = stage.attach()
    stage.feed.say(ddl(7, query=query)._replace(schema=MARK_TABLE.schema, table=table), resolved(20))
    with pytest.raises(UnsupportedDdl, match="changefeed_dump"):
        pipeline.step(poll_s=0)


def test_a_mark_out_of_order_closes_no_window() -> None:
    stage = Stage()
    pipeline = before_the_window_closes(stage)
    stage.feed.say(mark_row(150, f"{DUMP}{1:08x}{7:08x} LOW"), resolved(201))
    pipeline.step(poll_s=0)
    (manifest,) = stage.manifests()
    assert manifest.windows == ()
    assert manifest.progress is not None
    assert manifest.progress["state"] == DumpState.FAILED
    assert "never sent" in manifest.progress["reason"]


def fenced(command: Command) -> MarkFenced:
    assert isinstance(command, SendMark)
    return MarkFenced(command, "no row matched", "")


def test_another_writer_of_the_watermark_row_stops() -> None:
    stage = Stage()
    pipeline = stage.attach()
    stage.requests.waiting.append(start())
    stage.source.fails = fenced
    pipeline.step(poll_s=0)
    with pytest.raises(MarkError, match="another writer"):
        pipeline.step(poll_s=0)


def test_a_failed_dump_is_on_record_and_the_live_changes_go_on() -> None:
    stage = Stage()
    pipeline = stage.attach()
    stage.requests.waiting.append(start())
    stage.source.fails = lambda command: SourceFailed(command, "access denied", "grant UPDATE")
    pipeline.step(poll_s=0)
    stage.feed.say(put(5, "x"), resolved(10))
    pipeline.step(poll_s=0)
    (stored,) = stage.stored.load()
    assert (stored.state, stored.reason) == (DumpState.FAILED, "access denied (grant UPDATE)")
    assert stage.rows() == [b"x"]


@pytest.mark.parametrize("brackets", list(Brackets))
def test_a_source_that_is_away_holds_the_dump_and_not_the_stream_and_it_goes_on_by_itself(brackets: Brackets) -> None:
    stage = Stage()
    pipeline = stage.attach()
    stage.requests.waiting.append(start(brackets))
    pipeline.step(poll_s=0)
    began_s = stage.clock.now_s()
    stage.source.fails = lambda command: SourceFailed(command, "no route to TiDB", "wait", away=True)
    for minute in range(60):
        stage.clock.time_s += 60
        stage.feed.say(put(200 + minute, f"k{minute}"), resolved(201 + minute))
        pipeline.step(poll_s=0)
        assert stage.rows()[-1] == f"k{minute}".encode()
        assert pipeline.dump.progress is not None
        assert pipeline.dump.progress.state is DumpState.RUNNING
        assert pipeline.outage == Outage(began_s, stage.clock.now_s() + AGAIN_AFTER_S, "no route to TiDB")
        stage.clock.time_s += AGAIN_AFTER_S - 0.5
        pipeline.step(poll_s=0)
        assert not pipeline.source_busy(), "it is asked again after a pause"
        stage.clock.time_s += 0.5
        pipeline.step(poll_s=0)
        assert pipeline.source_busy()
    stage.source.fails, stage.source.ts = None, 300
    for _ in range(8):
        pipeline.step(poll_s=0)
    stage.feed.say(resolved(500))
    pipeline.step(poll_s=0)
    assert pipeline.outage is None
    assert pipeline.dump.progress is not None
    assert pipeline.dump.progress.state is DumpState.FINISHED


def test_dumps_know_what_each_sink_has_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    """By that a dump for a DDL is known for as long as a sink may need it (core/dumps.py)."""
    stage = Stage()
    stage.deliveries = FakeDeliveries()
    stage.deliveries.batches, stage.deliveries.seq = (BatchDone(Seq(0), 1, 1, 0, 0.01, 0.0, 0),), Seq(0)
    pipeline = stage.attach()
    allowed = Mock()
    monkeypatch.setattr(pipeline.dump, "allow", allowed)
    pipeline.step(poll_s=0)
    assert allowed.call_args.args[1] == {"file:///out": Seq(0)}


def test_an_operators_request_does_not_wait_for_the_end_of_the_pause() -> None:
    stage = Stage()
    pipeline = stage.attach()
    stage.requests.waiting.append(start())
    stage.source.fails = lambda command: SourceFailed(command, "no route to TiDB", "wait", away=True)
    for _ in range(3):
        pipeline.step(poll_s=0)
    assert pipeline.outage is not None
    assert not pipeline.source_busy()
    stage.requests.waiting.append(SetDump(Settings(chunk_rows=5)))
    pipeline.step(poll_s=0)
    assert pipeline.source_busy()


def test_a_mark_that_came_twice_fails_the_dump_and_the_live_changes_go_on() -> None:
    stage = Stage()
    pipeline = stage.attach()
    stage.requests.waiting.append(start())
    for _ in range(2):
        pipeline.step(poll_s=0)
    ((mark,),) = stage.feed.held[LANE]
    assert isinstance(mark, Change)
    stage.feed.say(mark._replace(commit_ts=CommitTs(mark.commit_ts + 1)), put(150, "x"), resolved(160))
    pipeline.step(poll_s=0)
    (stored,) = stage.stored.load()
    assert stored.state is DumpState.FAILED
    assert "came a second time" in str(stored.reason)
    assert stage.rows()[-1] == b"x"
    stage.requests.waiting.append(ResumeDump())
    stage.source.ts = 200
    for _ in range(8):
        pipeline.step(poll_s=0)
    stage.feed.say(resolved(500))
    pipeline.step(poll_s=0)
    assert pipeline.dump.progress is not None
    assert pipeline.dump.progress.state is DumpState.FINISHED


def test_the_log_has_one_window_of_a_dump_while_the_sinks_are_not_known_and_the_next_when_that_is_delivered() -> None:
    """What is read meanwhile waits outside of the log, and live changes pass it."""
    stage = Stage()
    stage.deliveries = FakeDeliveries()
    stage.source.rows = NARROW_ROWS
    pipeline = stage.attach()
    stage.requests.waiting.append(StartDump(DUMP, (TABLE, MORE), Brackets.SNAPSHOT, NARROW_ROWS, pace=Pace(readers=1)))
    stage.feed.say(put(15, "y"), resolved(20))
    for _ in range(3):
        pipeline.step(poll_s=0)
    assert pipeline.dump.open_windows() == 2
    stage.feed.say(put(200, "z"), resolved(250))
    for _ in range(3):
        pipeline.step(poll_s=0)
        assert (pipeline.dump.open_windows(), pipeline.dump.demand().held) == (1, True)
    assert [len(manifest.windows) for manifest in stage.manifests()] == [0, 1]
    stage.feed.say(put(300, "x"), resolved(5_000))
    pipeline.step(poll_s=0)
    assert stage.rows() == [b"y", b"z", b"x"]
    stage.deliveries.seq = Seq(1)
    pipeline.step(poll_s=0)
    assert pipeline.dump.open_windows() == 0
    *_, before, last = stage.manifests()
    assert ([window.high_ts for window in last.windows], last.rows) == ([before.upto_ts + 1], 0), "before the lanes go on"


def test_a_dump_reads_on_while_what_is_not_delivered_fits_into_the_sinks_width() -> None:
    stage = Stage()
    stage.deliveries = FakeDeliveries()
    stage.deliveries.batches = (BatchDone(Seq(0), 1, 1, 0, 0.01, 0.0, 0), BatchDone(Seq(1), 1, 1, 100, 0.02, 0.0, 0))
    stage.deliveries.seq = Seq(1)
    pipeline = stage.attach()
    stage.requests.waiting.append(StartDump(DUMP, (TABLE, MORE), Brackets.SNAPSHOT, 10, pace=Pace(readers=1)))
    for ts in (20, 250, 500):
        stage.feed.say(put(ts - 5, "y"), resolved(ts))
        pipeline.step(poll_s=0)
        pipeline.step(poll_s=0)
    assert state(pipeline) is DumpState.FINISHED
    assert pipeline.dump.demand().open_rows == 0


@dataclass
class SilentSource(FakeSource):
    """Carries out nothing. `waits`: it was asked a second time in one step."""

    waits: bool = False

    def results(self) -> Sequence[SourceEvent]:
        assert not self.waits, "a step waits for the source"
        self.waits = True
        return []


def test_a_source_that_never_answers_holds_no_live_change() -> None:
    stage = Stage()
    source = stage.source = SilentSource(stage.notes, stage.feed, stage.disk)
    pipeline = stage.attach()
    stage.requests.waiting.append(start())
    for ts in (5, 15, 25):
        source.waits = False
        stage.feed.say(put(ts, f"k{ts}"), resolved(ts + 5))
        pipeline.step(poll_s=0)
        assert stage.rows()[-1] == f"k{ts}".encode()
    assert pipeline.source_busy()
    assert pipeline.dump.open_windows() == 1


def test_what_previous_owners_wrote_and_the_sinks_have_not_is_lag_and_a_dump_waits_for_it() -> None:
    stage = Stage()
    stage.deliveries = FakeDeliveries()
    stage.feed.say(put(5, "x"), resolved(10))
    stage.attach().step(poll_s=0)
    pipeline = stage.attach(epoch=2)
    assert pipeline.delivery_lag_s() == 0
    stage.clock.time_s += 7
    assert pipeline.delivery_lag_s() == 7
    stage.deliveries.seq = Seq(0)
    pipeline.step(poll_s=0)
    assert pipeline.delivery_lag_s() == 0


def test_a_dump_opens_no_window_before_what_it_read_is_paid_for_at_its_pace() -> None:
    stage = Stage()
    pipeline = stage.attach()
    stage.requests.waiting.append(StartDump(DUMP, (TABLE, MORE), Brackets.SNAPSHOT, 10, pace=Pace(readers=1, rows_per_s=2)))
    pipeline.step(poll_s=0)
    pipeline.step(poll_s=0)
    assert pipeline.dump.open_windows() == 1
    assert pipeline.throttled_s() == 1.5
    stage.clock.time_s += 1.5
    pipeline.step(poll_s=0)
    assert pipeline.dump.open_windows() == 2


def test_the_deletion_of_the_watermark_row_is_no_mark() -> None:
    stage = Stage()
    pipeline = stage.attach()
    stage.feed.say(delete(5, "1")._replace(schema=MARK_TABLE.schema, table=MARK_TABLE.table), resolved(10))
    pipeline.step(poll_s=0)
    assert stage.rows() == [b"1"]


# ---- when a segment is written --------------------------------------------------------------------------------------


def test_empty_stretches_are_joined() -> None:
    stage = Stage()
    pipeline = stage.attach()
    for ts, passed_s in ((10, 0.0), (20, EMPTY_SEGMENT_EVERY_S / 2), (30, EMPTY_SEGMENT_EVERY_S / 2 - 0.1)):
        stage.clock.time_s += passed_s
        stage.feed.say(resolved(ts))
        pipeline.step(poll_s=0)
    assert stage.manifests() == []
    stage.clock.time_s += 0.1
    pipeline.step(poll_s=0)
    stage.feed.say(resolved(40))
    pipeline.step(poll_s=0)
    (manifest,) = stage.manifests()
    assert (manifest.after_ts, manifest.upto_ts, manifest.data, manifest.rows) == (0, 29, None, 0)


def test_rows_are_written_as_soon_as_they_are_resolved() -> None:
    stage = Stage()
    pipeline = stage.attach()
    for ts in (5, 15):
        stage.feed.say(put(ts, f"k{ts}"), resolved(ts + 5))
        pipeline.step(poll_s=0)
    assert [(m.seq, m.after_ts, m.upto_ts, m.rows) for m in stage.manifests()] == [(0, 0, 9, 1), (1, 9, 19, 1)]


def test_a_snapshot_window_does_not_wait_for_rows_or_for_the_clock() -> None:
    stage = Stage()
    pipeline = stage.attach()
    stage.requests.waiting.append(start(Brackets.SNAPSHOT))
    stage.feed.say(resolved(50))
    pipeline.step(poll_s=0)
    assert stage.manifests() == []
    stage.feed.say(resolved(301))
    pipeline.step(poll_s=0)
    (manifest,) = stage.manifests()
    assert [(window.low_ts, window.high_ts) for window in manifest.windows] == [(110, 300)]
    assert state(pipeline) is DumpState.FINISHED


def test_a_lane_that_has_not_joined_holds_everything_and_is_reported() -> None:
    stage = Stage()
    pipeline = stage.attach()
    stage.feed.say(put(5, "x"), resolved(10))
    stage.feed.held[Lane("b")] = []
    pipeline.step(poll_s=0)
    assert stage.manifests() == []
    assert pipeline.lane_lags() == {LANE: 10, Lane("b"): None}
    stage.feed.say(resolved(10), lane=Lane("b"))
    pipeline.step(poll_s=0)
    assert stage.rows() == [b"x"]


@pytest.mark.parametrize(("resolved_ts", "gap"), [(10, False), (11, True)])
def test_a_gap_is_judged_by_the_first_message_that_says_anything(resolved_ts: int, gap: bool) -> None:
    """simple's BOOTSTRAP has no envelope: nothing of it shows that the log has what is gone."""
    stage, late = Stage(), Lane("late")
    pipeline = stage.attach()
    stage.feed.say(put(5, "x"), resolved(11))
    pipeline.step(poll_s=0)
    stage.feed.say(lane=late)
    stage.feed.after_gap = {(late, 0)}
    pipeline.step(poll_s=0)
    stage.feed.say(resolved(resolved_ts), lane=late)
    if gap:
        with pytest.raises(FeedUnsuitable, match="message late@1: the lane came after the log began"):
            pipeline.step(poll_s=0)
    else:
        pipeline.step(poll_s=0)
        stage.feed.say(resolved(30), lane=late)
        pipeline.step(poll_s=0)


def test_reports_when_nothing_at_all_happened() -> None:
    stage = Stage()
    pipeline = stage.attach()
    assert not pipeline.step(poll_s=0)
    stage.feed.say(resolved(10))
    assert pipeline.step(poll_s=0)
    assert not pipeline.step(poll_s=0)


# ---- requests -------------------------------------------------------------------------------------------------------


def test_a_request_is_durable_before_it_is_answered() -> None:
    stage = Stage()
    pipeline = stage.attach()
    stage.requests.waiting += [start(), PauseDump()]
    pipeline.step(poll_s=0)
    assert stage.notes.calls == ["progress", "answer", "progress", "answer"]
    assert stage.requests.answers == [None, None]
    (stored,) = stage.stored.load()
    assert stored.state is DumpState.PAUSED


def test_a_refused_request_is_answered_and_nothing_is_saved() -> None:
    stage = Stage()
    pipeline = stage.attach()
    stage.requests.waiting.append(PauseDump())
    pipeline.step(poll_s=0)
    assert stage.notes.calls == ["answer"]
    (refused,) = stage.requests.answers
    assert refused is not None
    assert "no dump has been started" in str(refused)
    assert stage.stored.load() == ()


# ---- following a DDL ------------------------------------------------------------------------------------------------


def test_a_ddl_is_a_barrier_and_the_log_names_the_tables_on_both_sides() -> None:
    stage = Stage()
    stage.schemas = MovingSchemas({0: SCHEMAS, 7: WIDER})
    pipeline = stage.attach()
    stage.feed.say(put(5, "before"), put(7, "at"), ddl(7), put(8, "after"), resolved(20))
    pipeline.step(poll_s=0)
    before, at, after = stage.manifests()
    log = MemoryLog(stage.disk)
    assert [(m.upto_ts, [d.query for d in m.ddls]) for m in (before, at, after)] == [(6, []), (7, ["alter table t"]), (19, [])]
    assert [log.read_schemas(m.schemas) for m in (before, at, after)] == [SCHEMAS, SCHEMAS, WIDER]
    assert (before.next_schemas, at.next_schemas, after.next_schemas) == (None, after.schemas, None)
    assert stage.source.followed == pipeline.tables == WIDER
    assert pipeline.counts.ddls == 1


def test_a_ddl_that_changes_no_columns_leaves_the_schemas_as_they_are() -> None:
    stage = Stage()
    stage.schemas = MovingSchemas({0: SCHEMAS})
    stage.attach().step(poll_s=0)
    stage.feed.say(ddl(7, query="alter table t add index k (x)"), resolved(20))
    stage.attach(epoch=2).step(poll_s=0)
    (at,) = [m for m in stage.manifests() if m.ddls]
    assert at.next_schemas is None


def test_a_ddl_without_a_text_changes_the_tables_and_is_reported_to_no_sink() -> None:
    stage = Stage()
    stage.schemas = MovingSchemas({0: SCHEMAS, 7: WIDER})
    pipeline = stage.attach()
    stage.feed.say(ddl(7, query="")._replace(schema="", table=""), put(8, "after"), resolved(20))
    pipeline.step(poll_s=0)
    assert [(m.upto_ts, m.ddls, m.next_schemas is not None) for m in stage.manifests()] == [(7, (), True), (19, (), False)]
    assert (pipeline.tables, pipeline.counts.ddls) == (WIDER, 0)


def test_whoever_takes_over_after_a_ddl_has_the_tables_after_it_from_the_log() -> None:
    stage = Stage()
    stage.schemas = MovingSchemas({0: SCHEMAS, 7: WIDER})
    pipeline = stage.attach()
    stage.feed.say(ddl(7), put(8, "after"), resolved(20))
    stage.notes.fails_at = "acknowledge"
    with pytest.raises(Broken):
        pipeline.step(poll_s=0)
    stage.notes.fails_at = None
    assert stage.manifests()[-1].ddls
    stage.schemas = schemas = MovingSchemas({})
    heir = stage.attach(epoch=2)
    assert heir.tables == WIDER
    heir.step(poll_s=0)
    assert not schemas.asked, "the DDL comes again, and is a repeat"
    assert MemoryLog(stage.disk).read_schemas(stage.manifests()[-1].schemas) == WIDER


def test_what_the_dump_lost_to_a_ddl_is_on_record_with_it() -> None:
    """Else whoever takes over would count a chunk that was read with the columns before."""
    stage = Stage()
    stage.schemas = MovingSchemas({0: SCHEMAS, 200: {}})
    pipeline = stage.attach()
    stage.requests.waiting.append(start())
    for _ in range(3):
        pipeline.step(poll_s=0)
    stage.feed.say(ddl(200, query="drop table t"), resolved(300))
    pipeline.step(poll_s=0)
    (at,) = [m for m in stage.manifests() if m.ddls]
    assert at.progress is not None
    assert (at.progress["state"], at.progress["tables"]) == ("finished", [])
    assert not [chunk for m in stage.manifests() for window in m.windows for chunk in window.chunks]


def test_a_source_that_cannot_say_what_follows_a_ddl_stops_the_sidecar_before_it() -> None:
    class Lost(MovingSchemas):
        def after(self, ddls: Sequence[Ddl]) -> Mapping[TableName, TableSchema]:
            raise SourceLost(f"TiDB is away at {ddls[0].commit_ts}", hint="start it")

    stage = Stage()
    stage.schemas = Lost({0: SCHEMAS})
    pipeline = stage.attach()
    stage.feed.say(put(5, "before"), ddl(7), resolved(20))
    with pytest.raises(SourceLost):
        pipeline.step(poll_s=0)
    assert [m.upto_ts for m in stage.manifests()] == [6]
    stage.schemas = MovingSchemas({0: SCHEMAS, 7: WIDER})
    heir = stage.attach(epoch=2)
    heir.step(poll_s=0)
    assert heir.tables == WIDER


@pytest.mark.parametrize(
    ("through", "expected"), [((True, ""), [("u", None)]), ((True, "x > 1"), [("u", "x > 1")]), ((False, "filtered"), [])]
)
def test_a_table_that_appears_is_dumped_as_far_as_the_changefeeds_filter_lets_it(
    through: tuple[bool, str], expected: list[tuple[str, str | None]]
) -> None:
    """A dump is never wider than its changefeed."""
    stage = Stage()
    stage.through = lambda _: through
    stage.schemas = MovingSchemas({0: {TABLE: SCHEMAS[TABLE]}, 7: SCHEMAS})
    pipeline = stage.attach()
    stage.requests.waiting.append(replace(start(), grows=True))
    pipeline.step(poll_s=0)
    stage.feed.say(ddl(7, query="create table u"), resolved(20))
    pipeline.step(poll_s=0)
    assert pipeline.dump.progress is not None
    assert [(t.table.table, t.where) for t in pipeline.dump.progress.tables if t.table != TABLE] == expected


def test_a_log_of_another_way_of_the_feed_is_refused_and_left_as_it_is() -> None:
    stage = Stage()
    previous = stage.attach()
    schemas = previous.outside.log.write_schemas(SCHEMAS)
    previous.outside.log.commit(replace(manifest(0, upto_ts=9, positions={}, logged=None, schemas=schemas), codec="other"))
    with pytest.raises(LogBroken, match="holds rows of other, and this feed has fake"):
        stage.attach(epoch=2)
    assert [m.seq for m in stage.manifests()] == [0]


def test_a_request_for_a_table_that_the_feed_does_not_have_is_refused() -> None:
    stage = Stage()
    stage.schemas = MovingSchemas({0: SCHEMAS, 7: {TableName("s", "renamed"): replace(WIDER[TABLE], name=TableName("s", "renamed"))}})
    pipeline = stage.attach()
    stage.feed.say(ddl(7, query="rename table t to renamed"), resolved(20))
    pipeline.step(poll_s=0)
    stage.requests.waiting.append(start())
    pipeline.step(poll_s=0)
    (refused,) = stage.requests.answers
    assert "s.t is not there at the feed's present position" in str(refused)
    assert pipeline.dump.progress is None


@pytest.mark.parametrize("beside", list(Beside))
def test_a_table_beside_whose_ddl_rows_may_be_wrong_is_read_again_by_a_dump_where_the_operator_wants_it(beside: Beside) -> None:
    stage = Stage()
    stage.beside = beside
    text = {TABLE: replace(SCHEMAS[TABLE], columns=(*ID, Column("x", "text")))}
    stage.schemas = MovingSchemas({0: WIDER, 200: WIDER | text})
    pipeline = stage.attach()
    stage.requests.waiting.append(start())
    while state(pipeline) is not DumpState.FINISHED:
        pipeline.step(poll_s=0)
        stage.feed.say(resolved(stage.source.ts + 1))
        assert stage.source.ts < 190
    stage.source.ts = 210
    stage.feed.say(ddl(200, query="ALTER TABLE t MODIFY x TEXT"), resolved(205))
    pipeline.step(poll_s=0)
    assert pipeline.rewrites.tables == (() if beside is Beside.RIGHT else (TABLE,))
    recorded = next(manifest for manifest in stage.manifests() if manifest.ddls)
    assert stage.stored.load() == pipeline.dump.records
    assert recorded.progress is not None
    assert (recorded.progress["state"] == "running") is (beside is Beside.READ_AGAIN), "the log has it with the DDL"
    requested = len(stage.notes.calls)
    while state(pipeline) is not DumpState.FINISHED:
        pipeline.step(poll_s=0)
        stage.feed.say(resolved(stage.source.ts + 1))
        assert stage.source.ts < 400
    assert ("ask chunk" in stage.notes.calls[requested:]) is (beside is Beside.READ_AGAIN)


def test_a_table_that_a_dump_reads_again_has_a_pass_of_its_own_in_the_log_whoever_owns_the_dump() -> None:
    """A sink knows by the pass which chunks share no key; chunks of one pass may be of several owners."""
    stage = Stage()
    stage.limits = DumpLimits(readers=1, window_chunks_max=1)
    separate = {number: {TABLE: replace(SCHEMAS[TABLE], physical_ids=ids)} for number, ids in {0: (5, 6), 200: (7, 8)}.items()}
    stage.schemas = MovingSchemas({number: SCHEMAS | table for number, table in separate.items()})
    pipeline = stage.attach()
    stage.feed.say(put(5, "x"), resolved(6))
    pipeline.step(poll_s=0)
    stage.requests.waiting.append(replace(start(), tables=(TABLE, MORE)))
    while not stage.manifests()[-1].windows:
        pipeline.step(poll_s=0)
        stage.feed.say(resolved(stage.source.ts + 1))
        assert stage.source.ts < 190
    stage.source.ts = 210
    stage.feed.say(ddl(200, query="ALTER TABLE t REORGANIZE PARTITION p0 INTO (PARTITION p1 VALUES LESS THAN (9))"), resolved(205))
    pipeline.step(poll_s=0)
    pipeline = stage.attach(epoch=2)
    while state(pipeline) is not DumpState.FINISHED:
        pipeline.step(poll_s=0)
        stage.feed.say(resolved(stage.source.ts + 1))
        assert stage.source.ts < 400
    results = [(chunk.table, window.dump_id, chunk.since_seq) for m in stage.manifests() for window in m.windows for chunk in window.chunks]
    (behind,) = [m.seq + 1 for m in stage.manifests() if m.ddls]
    assert sorted(results) == [(TABLE, DUMP, 1), (TABLE, DUMP, behind), (MORE, DUMP, 1)]


# ---- where a new log begins -----------------------------------------------------------------------------------------


@dataclass
class SchemasOfAMoment(MovingSchemas):
    """Its moment comes after the feed has told its ends."""

    feed: FakeFeed | None = None
    since_ts: CommitTs = CommitTs(25)  # noqa: RUF009 - a number

    def begin(self) -> Mapping[TableName, TableSchema]:
        assert self.feed is not None
        assert self.feed.ended
        return self.at[25]


def test_a_new_log_begins_at_the_moment_of_its_tables_and_older_rows_and_ddls_are_left_out_in_every_lane() -> None:
    stage, other = Stage(), Lane("b")
    stage.schemas = schemas = SchemasOfAMoment({0: SCHEMAS, 25: WIDER}, feed=stage.feed)
    stage.feed.say(put(10, "old"), ddl(20), put(21, "old"), resolved(22))
    stage.feed.say(resolved(15), lane=other)
    pipeline = stage.attach()
    assert stage.feed.sought == {LANE: 1, other: 1}, "read on from the ends"
    stage.feed.say(put(24, "late"), ddl(25), resolved(28))
    stage.feed.say(put(23, "late"), resolved(25), lane=other)
    while pipeline.step(poll_s=0):
        pass
    assert stage.manifests() == [], "R has to pass the moment first"
    stage.feed.say(put(26, "new"), resolved(30))
    stage.feed.say(put(27, "newer"), resolved(30), lane=other)
    while pipeline.step(poll_s=0):
        pass
    assert stage.rows() == [b"new", b"newer"]
    (first,) = stage.manifests()
    assert (first.after_ts, first.ddls, first.next_schemas) == (25, (), None)
    assert MemoryLog(stage.disk).read_schemas(first.schemas) == WIDER
    assert schemas.asked == []


def test_a_log_whose_first_segment_ends_at_a_ddl_reads_on_from_where_it_began() -> None:
    stage = Stage()
    stage.schemas = SchemasOfAMoment({0: SCHEMAS, 25: SCHEMAS, 30: WIDER}, feed=stage.feed)
    stage.feed.say(put(10, "old"), resolved(11))
    pipeline = stage.attach()
    stage.feed.say(ddl(30), resolved(31))
    pipeline.step(poll_s=0)
    assert stage.manifests()[0].positions == {LANE: 1}


def test_a_source_without_a_moment_begins_with_all_that_the_feed_has() -> None:
    stage = Stage()
    stage.feed.say(put(10, "old"), resolved(11))
    stage.attach().step(poll_s=0)
    assert stage.feed.sought == {}
    assert stage.rows() == [b"old"]


# ---- taking over ----------------------------------------------------------------------------------------------------


def manifest(seq: int, *, upto_ts: int, positions: Mapping[Lane, int], logged: Progress | None, schemas: str) -> Manifest:
    return Manifest(
        seq=Seq(seq),
        epoch=1,
        after_ts=CommitTs(0),
        upto_ts=CommitTs(upto_ts),
        data=None,
        rows=0,
        bytes=0,
        positions=dict(positions),
        schemas=schemas,
        codec="fake",
        progress=logged.to_json() if logged else None,
    )


def taken_over(*, logged: Progress | None, stored: Progress | None) -> tuple[Stage, Pipeline]:
    """Attached where a former owner stopped: one manifest up to 9, read on from position 1 of lane a."""
    stage = Stage()
    previous = stage.attach()
    stage.feed.say(put(5, "x"), put(6, "y"), resolved(10))
    stage.feed.say(put(12, "z"))
    schemas = previous.outside.log.write_schemas(SCHEMAS)
    previous.outside.log.commit(manifest(0, upto_ts=9, positions={LANE: 1}, logged=logged, schemas=schemas))
    if stored:
        stage.stored.save([stored])
    return stage, stage.attach(epoch=2)


def test_reads_on_from_the_last_manifest_and_drops_what_the_log_has() -> None:
    stage, pipeline = taken_over(logged=None, stored=None)
    assert stage.feed.sought == {LANE: 1}
    stage.feed.say(put(6, "y"), resolved(20))
    pipeline.step(poll_s=0)
    assert [(m.seq, m.epoch, m.after_ts, m.upto_ts) for m in stage.manifests()] == [(0, 1, 0, 9), (1, 2, 9, 19)]
    assert stage.rows() == [b"z"]
    assert pipeline.sequence.repeats == 1


def test_a_lane_is_read_on_as_the_one_that_it_was() -> None:
    """What tells it from a later one of its name goes into the log beside its position, and back to the feed."""
    stage = Stage()
    stage.feed.made[LANE] = "topic id 1"
    stage.feed.reached = {LANE: ReadEnd(7, 3), Lane("without a position"): ReadEnd(9, 0)}
    stage.feed.say(put(5, "x"), resolved(10))
    stage.feed.say(resolved(10), lane=Lane("nobody tells"))
    stage.attach().step(poll_s=0)
    (written,) = stage.manifests()
    assert (written.incarnations, written.read_ends) == ({LANE: "topic id 1"}, {LANE: ReadEnd(7, 3)})
    stage.attach(epoch=2)
    assert (stage.feed.sought, stage.feed.sought_of) == (written.positions, {LANE: "topic id 1"})
    assert stage.feed.sought_to == {LANE: ReadEnd(7, 3)}


def test_the_position_of_a_lane_that_has_ended_is_dropped_with_the_next_owner() -> None:
    stage = Stage()
    ended, silent = Lane("ended"), Lane("silent")
    stage.feed.say(put(5, "x"), resolved(10))
    for lane in (ended, silent):
        stage.feed.say(resolved(10), lane=lane)
    stage.attach().step(poll_s=0)
    del stage.feed.held[ended]
    heir = stage.attach(epoch=2)
    stage.feed.say(put(15, "y"), resolved(20))
    stage.feed.held[silent] = []
    heir.sequence.resolved[silent] = CommitTs(20)
    heir.step(poll_s=0)
    assert stage.manifests()[-1].positions == {LANE: 2, silent: 1}


def test_a_lane_that_ends_while_it_is_read_leaves_no_position_to_read_a_later_one_of_its_name_at() -> None:
    """Of a topic that is gone nobody knows the id any more, so one that is made again would be read on in its middle."""
    stage = Stage()
    ended = Lane("ended")
    stage.feed.made = {LANE: "one", ended: "two"}
    stage.feed.say(put(5, "x"), resolved(10))
    stage.feed.say(resolved(10), lane=ended)
    pipeline = stage.attach()
    pipeline.step(poll_s=0)
    assert stage.manifests()[-1].incarnations == {LANE: "one", ended: "two"}
    del stage.feed.held[ended]
    stage.feed.say(put(15, "y"), resolved(20))
    pipeline.step(poll_s=0)
    assert stage.manifests()[-1].positions == stage.feed.acknowledged[-1] == {LANE: 2}
    assert stage.manifests()[-1].incarnations == {LANE: "one"}


def test_a_lane_that_r_does_not_wait_for_keeps_its_position() -> None:
    stage, lane = Stage(), Lane("b")
    stage.feed.say(put(5, "x"), resolved(10), lane=lane)
    stage.feed.say(resolved(10))
    pipeline = stage.attach()
    pipeline.step(poll_s=0)
    stage.feed.unmarked.add(lane)
    stage.feed.say(put(15, "y"), resolved(20))
    pipeline.step(poll_s=0)
    assert stage.manifests()[-1].positions == {LANE: 2, lane: 1}


def test_lanes_that_come_and_go_leave_nothing_behind() -> None:
    stage = Stage()
    pipeline = stage.attach()
    for number in range(1, 31):
        lane = Lane(f"partition/{number}")
        stage.feed.say(put(10 * number, f"k{number}"), resolved(10 * number + 5), lane=lane)
        stage.feed.say(resolved(10 * number + 5))
        pipeline.step(poll_s=0)
        sequence = pipeline.sequence
        assert sequence.resolved.keys() | sequence.positions.keys() | sequence._read.keys() == {LANE, lane}
        del stage.feed.held[lane]
    assert stage.rows() == [b"k%d" % number for number in range(1, 31)]


def test_a_lane_that_comes_back_is_another_one_and_nothing_of_it_is_lost_whenever_the_sidecar_dies() -> None:
    """A segment that ends at a DDL names where lanes were before it."""
    stage, lane = Stage(), Lane("b")
    stage.schemas = MovingSchemas({0: SCHEMAS, 30: WIDER})
    stage.feed.made = {LANE: "one", lane: "former"}
    for number in range(5):
        stage.feed.say(put(10 + number, f"former {number}"), resolved(20), lane=lane)
    stage.feed.say(resolved(20))
    pipeline = stage.attach()
    pipeline.step(poll_s=0)
    del stage.feed.held[lane]
    pipeline.step(poll_s=0)

    stage.feed.made[lane] = "later"
    stage.feed.say(ddl(30), lane=lane)
    stage.feed.say(put(35, "later"), resolved(40), lane=lane)
    stage.feed.say(resolved(40))
    stage.notes.fails_at = "acknowledge"
    with pytest.raises(Broken):
        pipeline.step(poll_s=0)
    written = stage.manifests()[-1]
    assert (written.upto_ts, written.positions, written.incarnations) == (30, {LANE: 1, lane: 0}, {LANE: "one", lane: "later"})
    stage.notes.fails_at = None
    stage.attach(epoch=2).step(poll_s=0)
    assert stage.rows() == [*(b"former %d" % number for number in range(5)), b"later"]


def test_a_new_owner_writes_its_first_segment_at_once_so_that_the_previous_one_is_fenced_off() -> None:
    stage = Stage()
    previous = stage.attach()
    stage.feed.say(put(5, "x"), resolved(10))
    previous.step(poll_s=0)
    stage.feed.say(resolved(12))
    stage.attach(epoch=2).step(poll_s=0)
    assert [(m.seq, m.epoch, m.rows) for m in stage.manifests()] == [(0, 1, 1), (1, 2, 0)]
    stage.feed.say(put(15, "y"), resolved(20))
    with pytest.raises(LogTaken):
        previous.step(poll_s=0)


def test_starts_at_the_beginning_of_everything_with_an_empty_log() -> None:
    stage = Stage()
    pipeline = stage.attach()
    assert stage.feed.sought == {}
    assert (pipeline.next_seq, pipeline.sequence.after_ts, pipeline.dump.progress) == (0, 0, None)


def test_the_log_repairs_a_store_that_is_behind() -> None:
    done = TableProgress(TABLE, (Span(("3",)),), chunks=1, rows=3, bytes=30)
    logged = progress(DumpState.RUNNING, revision=4, tables=(done,))
    stage, pipeline = taken_over(logged=logged, stored=progress(DumpState.RUNNING, revision=3))
    assert pipeline.dump.progress == replace(logged, epoch=2, revision=5)
    assert stage.stored.load() == pipeline.dump.records


def test_a_request_that_no_segment_has_recorded_yet_is_kept() -> None:
    logged = progress(DumpState.RUNNING, revision=4)
    _, pipeline = taken_over(logged=logged, stored=progress(DumpState.PAUSED, revision=5))
    assert state(pipeline) is DumpState.PAUSED


LOGGED, OLDER, NEWER = (progress(DumpState.RUNNING, revision=revision) for revision in (4, 3, 5))


@pytest.mark.parametrize(
    ("logged", "stored", "newest"),
    [
        (None, None, None),
        (LOGGED, None, LOGGED),
        (None, OLDER, OLDER),
        (LOGGED, OLDER, LOGGED),
        (LOGGED, replace(LOGGED, state=DumpState.PAUSED), LOGGED),
        (LOGGED, NEWER, NEWER),
    ],
    ids=["none", "log only", "store only", "store older", "equal", "store newer"],
)
def test_the_log_is_the_truth_unless_the_store_is_newer(logged: Progress | None, stored: Progress | None, newest: Progress | None) -> None:
    last = manifest(0, upto_ts=9, positions={}, logged=logged, schemas="s")
    assert newest_dumps(last, () if stored is None else (stored,), log_id="") == (() if newest is None else (newest,))


def test_a_request_counts_before_a_new_log_has_its_first_segment() -> None:
    requested = replace(OLDER, seq=Seq(-1))
    assert newest_dumps(None, (requested,), log_id="") == (requested,)


def half_done(*, log: str) -> tuple[Stage, Progress]:
    """A dump in the log `log` that has come to id 500000, and its record in the store."""
    stage = Stage()
    spans = (Span(cursor=("500000",)),)
    there = TableProgress(TABLE, spans=spans, chunks=50, rows=500_000, bytes=1, where="id > 3")
    done = TableProgress(MORE, spans=(), chunks=1, rows=7, bytes=1, complete_at=CommitTs(77))
    stored = replace(progress(DumpState.RUNNING, revision=21, tables=(there, done)), seq=Seq(40), log=log)
    stage.stored.save([stored])
    return stage, stored


@pytest.mark.parametrize("log", ["log of before", "", "new log"], ids=["another log", "not told", "this log, which lost its segments"])
def test_the_dump_of_another_log_is_not_gone_on_with(log: str) -> None:
    """The first 500000 rows would be in no segment of this log, and it would be told as finished (P1)."""
    stage, stored = half_done(log=log)
    stage.disk = MemoryDisk(id="new log")
    pipeline = stage.attach()
    for ts in (10, 20):
        stage.feed.say(resolved(ts))
        pipeline.step(poll_s=0)
    assert not [call for call in stage.notes.calls if call.startswith("ask")], "nothing of it is read or marked"
    (reported,) = stage.stored.load()
    assert (reported.state, reported.log, reported.seq, reported.dump_id) == (DumpState.FAILED, "new log", -1, stored.dump_id)
    assert reported.tables == (TableProgress(TABLE, where="id > 3"), TableProgress(MORE))
    assert "its log is another one" in (reported.reason or "")
    assert "dumpresume (or dumprestart)" in (reported.reason or "")
    assert reported.revision > stored.revision
    assert state(stage.attach(epoch=2)) is DumpState.FAILED, "and it stays so"


@pytest.mark.parametrize("request_", [RestartDump("2" * 16), ResumeDump()], ids=["dumprestart", "dumpresume"])
def test_the_dump_of_another_log_is_restarted_into_this_one_from_its_beginning(request_: Request) -> None:
    stage, _ = half_done(log="log of before")
    stage.disk = MemoryDisk(id="new log")
    pipeline = stage.attach()
    stage.requests.waiting.append(request_)
    pipeline.step(poll_s=0)
    assert stage.requests.answers == [None]
    result = pipeline.dump.progress
    assert result is not None
    assert (result.state, [table.spans for table in result.tables]) == (DumpState.RUNNING, [(Span(),)] * 2)


def test_a_store_that_is_ahead_of_a_log_that_was_restored_is_not_believed() -> None:
    logged = progress(DumpState.RUNNING, revision=4)
    _, pipeline = taken_over(logged=logged, stored=replace(logged, seq=Seq(7), revision=9))
    assert state(pipeline) is DumpState.FAILED
    assert pipeline.dump.progress is not None
    assert "it had come to segment 7, and this log ends at 0" in (pipeline.dump.progress.reason or "")
    assert {table.since_seq for table in pipeline.dump.progress.tables} == {1}, "if it goes on, it is no pass that this log has chunks of"


def test_a_log_that_knows_its_dump_goes_on_with_it_whatever_another_log_left_in_the_store() -> None:
    logged = progress(DumpState.RUNNING, revision=4)
    _, pipeline = taken_over(logged=logged, stored=replace(logged, state=DumpState.FINISHED, log="another", revision=9))
    assert state(pipeline) is DumpState.RUNNING


def test_a_store_of_before_that_names_no_log_is_taken_on_once_and_names_it_then() -> None:
    stage, pipeline = taken_over(logged=None, stored=progress(DumpState.PAUSED, revision=4))
    assert state(pipeline) is DumpState.PAUSED
    stage.disk.id = "this log"
    assert state(stage.attach(epoch=3)) is DumpState.PAUSED
    (result,) = stage.stored.load()
    assert result.log == "this log"


@pytest.mark.parametrize("strange", [{}, {"brackets": 1}, {"tables": 7}, {"tables": [{"spans": None}]}])
def test_a_progress_in_the_log_that_is_none_is_a_broken_log(strange: dict[str, object]) -> None:
    result = progress(DumpState.RUNNING, revision=1).to_json() | strange if strange else {}
    last = replace(manifest(0, upto_ts=9, positions={}, logged=None, schemas="s"), progress={"x": 1, **result})
    with pytest.raises(LogBroken, match="progress that is not readable"):
        newest_dumps(last, (), log_id="")


# ---- holes ----------------------------------------------------------------------------------------------------------


def hole_at(since_ts: int) -> Hole:
    return Hole(HoleCause.IMPORT, CommitTs(since_ts), (TABLE,), False, "IMPORT INTO t")


def test_what_was_seen_is_in_the_next_segment_even_if_nothing_else_is_and_a_hole_once_the_log_is_there() -> None:
    stage = Stage()
    pipeline = stage.attach()
    stage.sightings.put(Sighting("imports", "7", hole_at(150)))
    for upto in (101, 201):
        stage.feed.say(resolved(upto))
        pipeline.step(poll_s=0)
    assert [(one.upto_ts, one.rows, one.holes, [each.hole for each in one.waiting], one.seen) for one in stage.manifests()] == [
        (100, 0, (), [hole_at(150)], {"imports": "7"}),
        (200, 0, (hole_at(150),), [], {"imports": "7"}),
    ]


def test_how_far_watchers_have_looked_is_carried_from_segment_to_segment_and_owner_to_owner() -> None:
    stage = Stage()
    pipeline = stage.attach()
    stage.sightings.put(Sighting("imports", "7"))
    for upto in (101, 201):
        stage.feed.say(put(upto - 50, "1"), resolved(upto))
        pipeline.step(poll_s=0)
    assert [(manifest.seen, manifest.holes) for manifest in stage.manifests()] == [({"imports": "7"}, ())] * 2
    stage.attach(epoch=2)
    assert stage.sightings.seen == {"imports": "7"}


def test_a_hole_that_no_manifest_has_is_looked_for_again() -> None:
    stage = Stage()
    pipeline = stage.attach()
    stage.sightings.put(Sighting("imports", "7", hole_at(50)))
    stage.feed.say(resolved(101))
    stage.notes.fails_at = "manifest"
    with pytest.raises(Broken):
        pipeline.step(poll_s=0)
    stage.notes.fails_at = None
    stage.attach(epoch=2)
    assert stage.sightings.seen == {}


def test_a_hole_names_its_tables_as_they_are_after_the_ddls_of_its_segment() -> None:
    stage = Stage()
    renamed = TableName("s", "renamed")
    stage.schemas = MovingSchemas({0: SCHEMAS, 150: {renamed: replace(SCHEMAS[TABLE], name=renamed), MORE: SCHEMAS[MORE]}})
    pipeline = stage.attach()
    stage.sightings.put(Sighting("imports", "7", hole_at(150), frozenset({1})))
    stage.feed.say(ddl(150), resolved(151))
    pipeline.step(poll_s=0)
    assert [hole.tables for manifest in stage.manifests() for hole in manifest.holes] == [(renamed,)]
