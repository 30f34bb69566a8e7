"""Rows without events, as a real cluster had them: the recording `holes`, played step by step into a sink.

    recorded feed ─► pipeline ─► log ─► sink ─► its rows and its holes, against the truth
                        ▲ watchers, over TiDB's own tables of that moment

After each step a table is what the truth says, or it has a hole since the cause. In the end a dump of the holes, and the comparison that
makes it exact, leave every table equal.

IMPORT INTO … FROM SELECT shows nowhere that its table differs: a verification finds it.
"""

from __future__ import annotations

import re
import sqlite3
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest

from sidecar.adapters.memory.clock import MemoryClock
from sidecar.adapters.memory.progress import MemoryProgress
from sidecar.control.holes import narrow_to_holes
from sidecar.control.status import SidecarStatus
from sidecar.pipeline import EMPTY_SEGMENT_EVERY_S, Outside, PipelineLimits, attach
from sidecar.replay.feed import Play, RecordingFeed
from sidecar.replay.judge.rows import Key, Row, equal_rows, rows_by_key
from sidecar.replay.source import RecordedSource, WatermarkRow
from sidecar.run.hole_watch import HoleWatch
from sidecar.run.repairing import batches
from sidecar.run.sightings import SeenHoles
from sidecar.run.verified_holes import write_verified
from sidecar.shared.errors import RefusedRequest, SinkError
from sidecar.shared.log.identity import own_id
from sidecar.shared.log.rows_file import write_chunk
from sidecar.shared.log.segment_log import FolderLog
from sidecar.shared.log.spill import MemorySpill
from sidecar.shared.log.storage import open_folder
from sidecar.shared.log.verification import CheckState, RequestedTable, VerifyReport, VerifyRequest
from sidecar.shared.model.hole import HoleCause, OpenHole
from sidecar.shared.model.messages import Brackets, Request, StartDump
from sidecar.shared.model.nouns import CommitTs, TableName, TableSchema, operation_id, physical_ms
from sidecar.shared.model.progress import OVER, DumpState
from sidecar.shared.model.schema_step import Beside
from sidecar.shared.model.sink_delivery import SinkTables
from sidecar.shared.mysql.key_ranges import KeySpan
from sidecar.shared.schema.ddl import Action
from sidecar.shared.ticdc.table_rules import matching
from spark_merge.ddl.eras import WAY_OUT
from spark_merge.delivery.batches import Delivery, JobSettings
from spark_merge.delivery.sink_record import SinkId
from spark_merge.port.readable import Readable, ReadPart, RowForm, RowsRead, newest
from spark_merge.sinks.registry import open_sink, output_of
from spark_merge.sinks.sqlite.tables import create
from spark_merge.testing.places import Here
from spark_merge.verify.context import CheckContext
from spark_merge.verify.moving import LogKeys
from spark_merge.verify.table_check import TableCheck
from tests.support.hole_recording import HoleRecording, HoleStep, Outlook, RecordedSchemas, TrueTables
from tests.support.recordings import recording
from tests.support.services.fake_tidb import FakeTidb
from tests.support.verified import InOrder
from tests.unit.control.serving import Owner
from ticdc_dump.v1 import control_pb2 as pb

pytestmark = pytest.mark.recordings

SINK = "out"
LOOK_EVERY_MS = 1000
QUIET_MS = 3000
"""Into the first step: its statements are over, and nobody writes until its end."""
DUMP_MAX_S = 60
"""Of recorded time: a window takes two of the feed's resolved marks."""


def of(name: str) -> TableName:
    return TableName("holes", name)


FIRST = {of(name) for name in ("imported", "imported_select", "plain", "parts", "dropped", "trunc")}
"""The tables that have a key from the beginning."""


class Caused(NamedTuple):
    table: TableName
    cause: HoleCause
    action: Action


OPENED = {
    "import-into-file": Caused(of("imported"), HoleCause.IMPORT, Action.ALTER_TABLE_MODE),
    "exchange-with-outside": Caused(of("parts"), HoleCause.DDL, Action.EXCHANGE_PARTITION),
    "first-key": Caused(of("keyless"), HoleCause.DDL, Action.ADD_PRIMARY_KEY),
    "drop-recover": Caused(of("dropped"), HoleCause.DDL, Action.RECOVER_TABLE),
    "drop-flashback-other-name": Caused(of("dropped_again"), HoleCause.DDL, Action.RECOVER_TABLE),
    "truncate-flashback": Caused(of("trunc_old"), HoleCause.DDL, Action.RECOVER_TABLE),
}
"""The hole that a step opens, and the DDL job in which it begins; the other steps open none."""

UNSEEN = of("imported_select")
"""It has rows that no feed and no place shows."""
PARTS, FOREIGN = of("parts"), ("181", "mine")
"""A row of outside.other that the feed says is one of holes.parts."""


@dataclass
class OneByOne:
    """The requests port: a rejected one fails the test."""

    waiting: deque[Request] = field(default_factory=deque)

    def take(self) -> Request | None:
        return self.waiting.popleft() if self.waiting else None

    def answer(self, refused: RefusedRequest | None) -> None:
        assert refused is None, refused


class Case(NamedTuple):
    """`uri`: of the sink, with a place for the test's folder. `unreadable`: tables whose rows it does not read back in the end.
    `owner_dies`: each second in which no dump runs, for a window takes two."""

    feed: str
    uri: str
    unreadable: frozenset[TableName] = frozenset()
    owner_dies: bool = False
    watched: bool = True


SQLITE = Case("canal-json", "sqlite:///{}/out.db")
FILES = Case("open-protocol", "file://{}/out?format=jsonl", frozenset([of("plain")]))
"""What `MODIFY COLUMN n` makes of a default that rows of holes.plain have, files do not say."""


class Line:
    """The recording from its feed to one sink."""

    def __init__(self, folder: Path, case: Case, tidb: FakeTidb) -> None:
        self.recording = HoleRecording(recording("holes"))
        self.schemas = RecordedSchemas(self.recording)
        self.truth = TrueTables(self.recording, self.schemas)
        self.clock, self.asked = MemoryClock(), OneByOne()
        config = self.recording.feed_config(case.feed)
        self.cluster = RecordingFeed(self.recording, config, Play(speed=1.0, batch_messages_max=50), clock=self.clock, wait=self.clock.wait)
        self.folder, self.log, self.stored, self.row = folder, open_folder(str(folder / "log")), MemoryProgress(), WatermarkRow("holes")
        own_id(self.log)
        self.outlook, self.epoch = Outlook(self.recording, tidb, self.recording.start_ts), 0
        self.take_over()
        self.case, self.uri, self.job, self.numbers = case, case.uri.format(folder), JobSettings(self.log), count(1)
        self.delivery = self._opened()

    def take_over(self) -> None:
        """The next owner, and its watchers."""
        self.epoch += 1
        self.seen, codec = SeenHoles(), self.cluster.config.codec()
        source = RecordedSource(self.truth, self.cluster, self.row, partial(write_chunk, self.log), steps_max=0)
        outside = Outside(
            feed=self.cluster, codec=codec, log=FolderLog(self.log), source=source, schemas=self.schemas, progress=self.stored,
            requests=self.asked, clock=self.clock, spill=MemorySpill(), beside=Beside.REPORTED, sightings=self.seen,
        )  # fmt: skip
        self.pipeline = attach(outside, changefeed_id="holes", epoch=self.epoch, limits=PipelineLimits())
        begin_ts = self.pipeline.sequence.after_ts or self.recording.start_ts
        self.watch = HoleWatch(self.outlook.watchers(begin_ts, self.seen.seen), self.seen.put, _refuse)

    def play(self, until_ms: int) -> None:
        """Recorded time goes by; the watchers look each second of it."""
        while (now_ms := self.cluster.reached_ms()) < until_ms:
            self.clock.wait(min(LOOK_EVERY_MS, until_ms - now_ms) / 1000)
            self.outlook.move(self.cluster.now_ts())
            if self.case.owner_dies and all(dump.state in OVER for dump in self.pipeline.dump.records):
                self.watch.look()  # what it saw, and is not durable, dies with it
                self.take_over()
            if self.case.watched:
                self.watch.look()
            while self.pipeline.step(poll_s=0):
                pass
        self._deliver()

    def _opened(self) -> Delivery:
        return Delivery(open_sink(self.uri, log_id="holes"), self.job, Here(), sink_id=SinkId(SINK, output_of(self.uri)))

    def _deliver(self) -> None:
        """SQLite's sink stops where a table arrives with rows, and at a MODIFY COLUMN: an operator does what its error says."""
        try:
            while self.delivery.deliver():
                pass
        except SinkError as error:
            (done,) = re.findall(r"add ddl-done=(\d+) to the sink's URI", error.hint)
            self.delivery.sink.close()
            if "by hand, and add" in error.hint:
                copied(self.folder / "out.db", self.schemas.at(CommitTs(int(done)))[of("plain")])
            self.uri += f",{done}" if "ddl-done" in self.uri else f"?ddl-done={done}"
            self.delivery = self._opened()
            self._deliver()

    def let_pass(self, seconds: float) -> None:
        self.play(self.cluster.reached_ms() + int(seconds * 1000))

    def dump(self, *tables: TableName, keys: Mapping[TableName, tuple[Key, ...]] | None = None, exact: bool = False) -> None:
        """From its request to its end, in the sink."""
        dump_id = f"{next(self.numbers):016x}"
        names, of_keys = tuple(keys or tables), tuple((keys or {}).items())
        self.asked.waiting.append(
            StartDump(dump_id, names, Brackets.WATERMARK, 1000, keys=of_keys, narrowed=tuple(keys or ()), exact=exact)
        )
        for _ in range(DUMP_MAX_S):
            self.let_pass(1)
            state = next((one.state for one in self.pipeline.dump.records if one.dump_id == dump_id), None)
            assert state is not DumpState.FAILED, self.pipeline.dump.records
            if state is DumpState.FINISHED:
                return
        raise AssertionError(f"the dump of {names} does not end: {self.pipeline.dump.records}")

    # ---- what the sink has ------------------------------------------------------------------------------------------

    @property
    def known(self) -> SinkTables:
        assert self.delivery.record is not None
        assert self.delivery.record.tables is not None
        return self.delivery.record.tables

    def carried(self) -> dict[TableName, TableSchema]:
        return {name: table for name, table in self.pipeline.tables.items() if table.key}

    def rows(self, table: TableName) -> dict[Key, Row]:
        schema, sink = self.pipeline.tables[table], self.delivery.sink
        assert isinstance(sink, Readable)
        return rows_by_key(schema, newest(sink.reading(schema, parts=1), schema))

    def judged(self) -> dict[TableName, TableSchema]:
        """The tables that the sink reads back."""
        return {name: schema for name, schema in self.carried().items() if self._is_readable(schema)}

    def _is_readable(self, schema: TableSchema) -> bool:
        assert isinstance(self.delivery.sink, Readable)
        try:
            self.delivery.sink.reading(schema, parts=1)
        except SinkError as error:
            if error.hint != WAY_OUT:
                raise
            return False
        return True

    def differing(self) -> set[TableName]:
        """From the truth of this moment."""
        return {name for name, schema in self.judged().items() if not self._is_true(schema)}

    def _is_true(self, schema: TableSchema) -> bool:
        rows, true = self.rows(schema.name), self.truth.rows(schema.name, self.outlook.now_ts)
        return rows.keys() == true.keys() and all(equal_rows(schema, row, true[key]) for key, row in rows.items())

    # ---- comparing --------------------------------------------------------------------------------------------------

    def verify(self) -> dict[TableName, TableCheck]:
        """All tables, by the real comparison; where one is equal that fills its hole."""
        verification = operation_id(f"{next(self.numbers):016x}")
        context = CheckContext(
            LogKeys(self.job, set(self.judged())), open_folder(str(self.folder / verification)), TrueSource(self), InOrder(),
            gate=lambda _: None, wait=self.let_pass, present_ts=self.cluster.now_ts,
        )  # fmt: skip
        checks = {}
        for table in self.judged():
            with closing(open_sink(self.uri, log_id="holes")) as sink:
                check = TableCheck(context, SINK, sink, RequestedTable(*table), f"{table.table}")  # type: ignore[arg-type]  # it can be read
                check.run()
            checks[table] = check
        request = VerifyRequest(verification, (SINK,), tuple(RequestedTable(*table) for table in checks))
        report = VerifyReport(verification, CheckState.DIFFERENT, 1, tables=[check.report for check in checks.values()])
        write_verified(self.log, request, report, now_ms=self.cluster.reached_ms())
        self.let_pass(EMPTY_SEGMENT_EVERY_S + 1)  # a sink looks for words with its next batch
        return checks

    def repair(self, checks: Mapping[TableName, TableCheck]) -> None:
        """Dumps of the keys that differ, as the repair makes them."""
        differences = [(check.report, difference) for check in checks.values() for difference in check.tally.all()]
        for sink, keys in batches(differences):
            assert sink == SINK
            self.dump(keys=keys)


def status_of(line: Line) -> SidecarStatus:
    """As far as a dump of holes goes by it."""
    status = Owner().status
    assert status is not None
    return replace(status, sink_tables={SINK: line.known}, carried=tuple(line.carried()))


@dataclass(frozen=True)
class TruePart:
    """`TimedPart`: all rows of the table that are `wanted`."""

    line: Line
    schema: TableSchema
    form: RowForm | None
    wanted: frozenset[Key] | None = None
    ts: CommitTs | None = None

    def __call__(self) -> Iterator[RowsRead]:
        ts = self.line.cluster.now_ts() if self.ts is None else self.ts
        rows = [row for key, row in self.line.truth.rows(self.schema.name, ts).items() if self.wanted is None or key in self.wanted]
        columns = {name: pa.array([row[place] for row in rows], pa.string()) for place, name in enumerate(self.schema.column_names())}
        yield RowsRead(pa.table(columns) if self.form is None else self.form(pa.table(columns)))

    def at(self, ts: CommitTs | None) -> ReadPart:
        return replace(self, ts=ts)


@dataclass(frozen=True)
class TrueSource:
    """`ComparedSource` of small tables: each is one range."""

    line: Line

    def has_snapshots(self) -> bool:
        return True

    def rows(self, schema: TableSchema) -> int:
        return len(self.line.truth.rows(schema.name, self.line.outlook.now_ts))

    def cut(self, schema: TableSchema, *, parts: int) -> list[KeySpan]:
        return [KeySpan()]

    def walk(self, schema: TableSchema, within: KeySpan, *, range_rows: int, ranges_max: int) -> list[KeySpan]:
        return [within]

    def ranges(self, schema: TableSchema, ranges: Sequence[KeySpan], *, form: RowForm | None, where: str = "") -> list[TruePart]:
        assert list(ranges) == [KeySpan()]
        assert not where
        return [TruePart(self.line, schema, form)]

    def by_keys(self, schema: TableSchema, keys: pa.Table, *, form: RowForm | None, where: str = "") -> TruePart:
        assert not where
        wanted = frozenset(zip(*(column.to_pylist() for column in keys.columns), strict=True))
        return TruePart(self.line, schema, form, wanted)


def copied(database: Path, schema: TableSchema) -> None:
    """The table by hand as TiDB has it after a DDL that changes the types of columns."""
    name, columns = f'"{schema.name}"', ", ".join(schema.column_names())
    with closing(sqlite3.connect(database)) as db, db:
        db.execute(f"ALTER TABLE {name} RENAME TO old")
        db.execute(create(name, schema))
        db.execute(f"INSERT INTO {name} SELECT {columns} FROM old")
        db.execute("DROP TABLE old")


def _refuse(text: str) -> None:
    raise AssertionError(f"a watcher cannot see: {text}")


@pytest.fixture
def tidb(tmp_path: Path) -> Iterator[FakeTidb]:
    with FakeTidb(tmp_path) as server:
        yield server


@pytest.fixture(params=[SQLITE, FILES, SQLITE._replace(owner_dies=True)], ids=["sqlite", "files", "takeovers"])
def line(request: pytest.FixtureRequest, tmp_path: Path, tidb: FakeTidb) -> Line:
    return begun(tmp_path, request.param, tidb)


def begun(folder: Path, case: Case, tidb: FakeTidb) -> Line:
    """At the end of the first step, with a dump of all tables that have a key."""
    line = Line(folder, case, tidb)
    first = line.recording.steps[0]
    line.play(physical_ms(first.before_ts) + QUIET_MS)
    line.dump(*line.carried())
    assert line.cluster.reached_ms() < physical_ms(first.after_ts)
    assert play_step(line, first) == {}
    assert line.known.complete.keys() == line.carried().keys() == FIRST
    assert line.differing() == set()
    return line


def play_step(line: Line, step: HoleStep) -> dict[TableName, OpenHole]:
    """The holes that it opened. Each table is equal to the truth, or has a hole."""
    before = dict(line.known.holes)
    line.play(physical_ms(step.after_ts) - 1)
    known, tables = line.known, line.carried()
    assert known.complete.keys() | known.holes.keys() == tables.keys(), step
    assert not known.complete.keys() & known.holes.keys(), step
    assert line.differing() - known.holes.keys() <= {UNSEEN}, step
    return {name: hole for name, hole in known.holes.items() if name not in before}


def play_steps(line: Line) -> None:
    for step in line.recording.steps[1:]:
        holes = play_step(line, step)
        if (wanted := OPENED.get(step.name)) is None:
            assert not holes, step
        else:
            ((table, hole),) = holes.items()
            assert (table, hole.cause) == wanted[:2], step
            job = next(one for one in line.recording.jobs() if one.action == wanted.action and step.before_ts <= one.start_ts)
            assert job.start_ts <= hole.since_ts <= job.commit_ts < step.after_ts, (step, hole)


def test_after_each_step_a_table_is_the_truth_or_has_a_hole_since_the_cause(line: Line) -> None:
    play_steps(line)
    assert line.differing() == {UNSEEN, *line.known.holes}
    assert [name for name, hole in line.known.holes.items() if hole.vanished] == [PARTS]
    assert FOREIGN in line.rows(PARTS).values()
    assert line.carried().keys() - line.judged().keys() == line.case.unreadable


def test_a_dump_of_the_holes_leaves_every_table_equal(line: Line) -> None:
    play_steps(line)
    request = pb.StartRequest(holes=True)
    holes = set(line.known.holes)
    narrow_to_holes(request, status_of(line), {SINK: ""})
    assert request.exact, "rows vanished in one of them"
    wanted = matching(list(request.table_rules), line.carried())
    assert set(wanted) == holes
    line.dump(*wanted, exact=request.exact)
    assert set(line.known.holes) == {PARTS}, "no dump fills one where rows vanished"
    assert line.differing() == {PARTS, UNSEEN}

    checks = line.verify()
    assert {name for name, check in checks.items() if check.report.state is not CheckState.EQUAL} == {PARTS, UNSEEN}
    assert {one.kind for one in checks[PARTS].tally.all()} == {"extra"}
    assert {one.kind for one in checks[UNSEEN].tally.all()} == {"missing"}
    line.repair(checks)
    assert line.differing() == set()
    assert FOREIGN not in line.rows(PARTS).values()
    assert {check.report.state for check in line.verify().values()} == {CheckState.EQUAL}
    assert line.known.holes == {}
    assert line.known.complete.keys() == line.carried().keys()


def test_where_nobody_watches_the_next_ddl_shows_what_was_exchanged(tmp_path: Path, tidb: FakeTidb) -> None:
    """It is of another table: no sink takes the rows out that went."""
    line = begun(tmp_path, FILES._replace(watched=False), tidb)
    for step in line.recording.steps[1:]:
        line.play(physical_ms(step.after_ts) - 1)
        hole = line.known.holes.get(PARTS)
        assert (hole is not None) == (step.before_ts >= next(one.before_ts for one in line.recording.steps if one.name == "first-key"))
        assert hole is None or hole.vanished
    assert line.differing() - line.known.holes.keys() == {UNSEEN, of("imported")}
