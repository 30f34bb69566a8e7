"""Sinks of any speed under the real pipeline, dump and controller, by virtual time: seconds of CPU for an hour of a slow lake.

The source has tables without an end and reads `readers` chunks side by side; marks take their way through the feed; the worker takes
what the log has as it does (what stands before a window is accepted first; else all that is there) and reports each batch by a clock
of its own; the sidecar reads the report four times a second. Rows are counted, not made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from sidecar.adapters.memory.clock import MemoryClock
from sidecar.adapters.memory.progress import MemoryProgress
from sidecar.adapters.memory.schemas import StillSchemas
from sidecar.core.dump_start import DumpLimits
from sidecar.core.sequence import NO_TS, SPARE_TS
from sidecar.pipeline import Outside, Pipeline, PipelineLimits, attach
from sidecar.ports import NO_READ_ENDS, NOT_KNOWN
from sidecar.shared.errors import RefusedRequest
from sidecar.shared.log.layout import chunk_name
from sidecar.shared.log.manifest import DataFile, LoggedDumps, Manifest
from sidecar.shared.log.spill import MemorySpill
from sidecar.shared.model.chunk import ChunkFile
from sidecar.shared.model.messages import Brackets, ChunkRead, Command, MarkSent, Pace, ReadChunk, Request, SendMark, SourceEvent, StartDump
from sidecar.shared.model.nouns import (
    MARK_TABLE,
    Change,
    Column,
    CommitTs,
    Envelope,
    Lane,
    Mark,
    MarkKind,
    Message,
    Rank,
    ReadEnd,
    Resolved,
    Seq,
    TableName,
    TableSchema,
    ts_at,
)
from sidecar.shared.model.progress import DumpState, Progress
from sidecar.shared.model.sink_delivery import BATCHES_KEPT, BatchDone, ReportTimes, SinkDelivery

LANE = Lane("a")
TABLES = tuple(TableName("s", f"t{number}") for number in range(8))
BEGAN_MS = 1_700_000_000_000
READ_EVERY_S = 0.25
ROWS_A_BATCH_MAX = 2_000_000


@dataclass(frozen=True)
class Price:
    """Seconds of a batch: `fixed_s` of one without windows, `job_s` more of one with some, and by rows. `cores`: Spark's, where
    the worker merges a window itself if that ends first (0: it merges none)."""

    fixed_s: float
    row_s: float
    job_s: float = 0.0
    live_s: float = 1e-5
    cores: int = 0

    def of(self, live: int, dumped: int) -> float:
        seconds = self.fixed_s + live * self.live_s
        if not dumped:
            return seconds
        on_spark = self.job_s + dumped * self.row_s / max(self.cores, 1)
        return seconds + (min(dumped * self.row_s, on_spark) if self.cores else on_spark)


@dataclass
class Sink:
    """One sink's loop. `price` of a moment; None: it hangs until there is one. `whole`: it commits all that is there, as a lake does."""

    name: str
    price: Callable[[float], Price | None]
    noise: float = 0.05
    whole: bool = False
    batches: list[BatchDone] = field(default_factory=list)
    accepted: int = -1
    took_s: list[tuple[float, float]] = field(default_factory=list)
    done: list[tuple[float, float, int]] = field(default_factory=list)
    _rng: Random = field(default_factory=lambda: Random(1))
    _under_way: tuple[float, BatchDone] | None = None

    def turn(self, now_s: float, log: LightLog) -> bool:
        """Whether a batch ended."""
        ended = False
        while True:
            if self._under_way is not None:
                until_s, batch = self._under_way
                if until_s > now_s:
                    return ended
                self._end(until_s, batch, log)
                ended = True
            price = self.price(now_s)
            heads = log.manifests[self.accepted + 1 :]
            if not heads or price is None:
                return ended
            self._begin(now_s, heads, price)

    def _begin(self, now_s: float, heads: Sequence[Manifest], price: Price) -> None:
        before = next((at for at, head in enumerate(heads) if head.windows), len(heads))
        taken, dumped = (list(heads[:before]), 0) if before and not self.whole else ([], 0)
        for head in heads if not taken else ():
            rows = rows_of(head)
            if taken and dumped + rows > ROWS_A_BATCH_MAX:
                break
            taken.append(head)
            dumped += rows
        live = sum(head.rows for head in taken)
        seconds = price.of(live, dumped)
        seconds *= max(1 + self._rng.gauss(0, self.noise), 0.5)
        done = BatchDone(taken[-1].seq, len(taken), live, dumped, seconds, 0.0, worker_ms(now_s + seconds))
        self._under_way = now_s + seconds, done

    def _end(self, at_s: float, batch: BatchDone, log: LightLog) -> None:
        self.took_s += [(at_s, at_s - log.at_s[seq]) for seq in range(self.accepted + 1, batch.last + 1)]
        self.done.append((at_s, batch.seconds, batch.dump_rows))
        self.accepted = batch.last
        self.batches = [*self.batches, batch][-BATCHES_KEPT:]
        self._under_way = None

    def p99_s(self, since_s: float, until_s: float) -> float:
        took = sorted(took for at_s, took in self.took_s if since_s <= at_s < until_s)
        return took[int(len(took) * 0.99)] if took else 0.0

    def busy(self, since_s: float, until_s: float) -> float:
        """The share of the time in which it had a batch; one that began before is whole in it."""
        return sum(seconds for at_s, seconds, _ in self.done if since_s <= at_s < until_s) / (until_s - since_s)

    def rows_s(self, since_s: float, until_s: float) -> float:
        return sum(rows for at_s, _, rows in self.done if since_s <= at_s < until_s) / (until_s - since_s)


def worker_ms(now_s: float) -> int:
    """Its clock is three minutes off."""
    return BEGAN_MS + 180_000 + int(now_s * 1000)


def rows_of(manifest: Manifest) -> int:
    return sum(chunk.rows for window in manifest.windows for chunk in window.chunks)


@dataclass
class LightLog:
    """Manifests, and when each was written. Rows of live changes are those of the time since the segment before."""

    clock: MemoryClock
    live_rows_s: Callable[[float], float]
    manifests: list[Manifest] = field(default_factory=list)
    at_s: list[float] = field(default_factory=list)
    id: str = ""

    def recover(self, *, epoch: int) -> Manifest | None:
        return None

    def write_data(self, seq: Seq, *, epoch: int, codec: str, changes: Iterable[Change]) -> DataFile:
        for _ in changes:
            pass
        now_s = self.clock.time_s
        rows = int(self.live_rows_s(now_s) * (now_s - (self.at_s[-1] if self.at_s else 0.0)))
        return DataFile(f"{seq}-{epoch}", rows, rows * 100)

    def write_schemas(self, schemas: Mapping[TableName, TableSchema]) -> str:
        return "schemas"

    def read_schemas(self, name: str) -> dict[TableName, TableSchema]:
        raise AssertionError("nobody takes over")

    def write_dumps(self, dumps: Sequence[Progress]) -> LoggedDumps:
        return LoggedDumps(tuple(dump.to_json() for dump in dumps))

    def commit(self, manifest: Manifest) -> None:
        self.manifests.append(manifest)
        self.at_s.append(self.clock.time_s)


@dataclass
class LightFeed:
    """Resolved every `every_s`, as of `way_s` before: a mark comes with the first one above it."""

    clock: MemoryClock
    every_s: float = 0.2
    way_s: Callable[[float], float] = lambda _: 0.0
    held: list[Change] = field(default_factory=list)
    said: list[Envelope] = field(default_factory=list)
    _due_s: float = 0.0
    _position: int = 0
    _upto_ts: CommitTs = NO_TS

    def lanes(self) -> frozenset[Lane]:
        return frozenset([LANE])

    def ends(self) -> Mapping[Lane, int]:
        return {}

    def incarnations(self) -> Mapping[Lane, str]:
        return dict.fromkeys([LANE], "")

    def read_ends(self) -> Mapping[Lane, ReadEnd]:
        return NO_READ_ENDS

    def seek(
        self,
        positions: Mapping[Lane, int],
        incarnations: Mapping[Lane, str] = NOT_KNOWN,
        read_ends: Mapping[Lane, ReadEnd] = NO_READ_ENDS,
    ) -> None:
        """It begins at the beginning."""

    def acknowledge(self, positions: Mapping[Lane, int]) -> None:
        """Nobody sends again."""

    def poll(self, *, timeout_s: float) -> Sequence[Message]:
        if self.clock.time_s < self._due_s:
            return []
        self._due_s = self.clock.time_s + self.every_s
        self._position += 1
        now_s = self.clock.time_s
        self._upto_ts = max(self._upto_ts, ts_at(BEGAN_MS + int((now_s - self.way_s(now_s)) * 1000)))
        live = Change(CommitTs(self._upto_ts - SPARE_TS - 1), Rank.PUT, *TABLES[0], b"k", b"v", LANE, self._position)
        self.said = [*(mark for mark in self.held if mark.commit_ts < self._upto_ts), live, Resolved(LANE, self._upto_ts, self._position)]
        self.held = [mark for mark in self.held if mark.commit_ts >= self._upto_ts]
        return [Message(LANE, self._position, None, None)]


def now_ts(clock: MemoryClock) -> CommitTs:
    return ts_at(BEGAN_MS + int(clock.time_s * 1000))


@dataclass
class LightCodec:
    feed: LightFeed
    name: str = "light"

    def envelopes(self, message: Message) -> list[Envelope]:
        return self.feed.said

    def identity(self, change: Change) -> tuple[bytes, bytes, int]:
        return change.key, change.value, change.position

    def mark(self, change: Change) -> Mark | None:
        uuid, kind = change.value.decode().split()
        return Mark(change.commit_ts, "cf", uuid, MarkKind[kind])


@dataclass
class LightSource:
    """Chunks of as many rows as asked for, `rows_s` a reader; a mark takes `mark_s`. `table_rows`: of each table; 0: without an end."""

    clock: MemoryClock
    feed: LightFeed
    rows_s: float
    row_bytes: int
    mark_s: float = 0.02
    table_rows: int = 0
    chunks: list[tuple[float, int]] = field(default_factory=list)
    _due: list[tuple[float, int, Command]] = field(default_factory=list)
    _marks_s: float = 0.0
    _requested: int = 0

    def request(self, command: Command) -> None:
        now_s = self.clock.time_s
        if isinstance(command, SendMark):
            due_s = self._marks_s = max(self._marks_s, now_s) + self.mark_s
        else:
            due_s = now_s + 0.01 + command.rows_max / self.rows_s
        self._requested += 1
        self._due = sorted([*self._due, (due_s, self._requested, command)], key=lambda due: due[:2])

    def follow(self, schemas: Mapping[TableName, TableSchema]) -> None:
        """The tables do not change."""

    def results(self) -> Sequence[SourceEvent]:
        ready = [due for due in self._due if due[0] <= self.clock.time_s]
        self._due = self._due[len(ready) :]
        return [self._done(command) for _, _, command in ready]

    def _done(self, command: Command) -> SourceEvent:
        if isinstance(command, SendMark):
            self._requested += 1
            text = f"{command.uuid} {command.kind.name}".encode()
            self.feed.held.append(Change(now_ts(self.clock), Rank.PUT, *MARK_TABLE, b"", text, LANE, self._requested))
            return MarkSent(command.uuid)
        return self._read(command)

    def _read(self, read: ReadChunk) -> ChunkRead:
        first = int(read.after[0] if read.after else 0)
        last = min(first + read.rows_max, self.table_rows or first + read.rows_max)
        rows = last - first
        tso = now_ts(self.clock) if read.brackets is Brackets.SNAPSHOT else None
        self.chunks.append((self.clock.time_s, rows))
        name = chunk_name(read.dump_id, epoch=read.epoch, number=read.number)
        file = ChunkFile(read.table, name, rows, rows * self.row_bytes, read.after, (str(last),), tso)
        return ChunkRead(read.number, file, exhausted=last == self.table_rows, read_s=read.rows_max / self.rows_s)

    def close(self) -> None:
        self._due = []


@dataclass
class Requested:
    waiting: list[Request] = field(default_factory=list)

    def take(self) -> Request | None:
        return self.waiting.pop(0) if self.waiting else None

    def answer(self, refused: RefusedRequest | None) -> None:
        assert refused is None, refused


@dataclass
class Reports:
    """`Deliveries` of these sinks, as read four times a second."""

    clock: MemoryClock
    sinks_there: Sequence[Sink]
    _read: tuple[SinkDelivery, ...] = ()
    _reported: ReportTimes | None = None
    _due_s: float = 0.0
    written_s: float = 0.0

    def look(self) -> None:
        if self.clock.time_s >= self._due_s:
            self._due_s = self.clock.time_s + READ_EVERY_S
            self._read = tuple(
                SinkDelivery(s.name, Seq(s.accepted) if s.accepted >= 0 else None, tuple(s.batches)) for s in self.sinks_there
            )
            self._reported = ReportTimes(worker_ms(self.written_s), self.clock.time_s)

    def accepted(self) -> Seq | None:
        known = [sink.accepted for sink in self._read]
        return None if not known or None in known else min(seq for seq in known if seq is not None)

    def sinks(self) -> Sequence[SinkDelivery]:
        return self._read

    def report_times(self) -> ReportTimes | None:
        return self._reported


class PaceWorld:
    """`brackets`, `bound_s` of the dump that begins after `quiet_s`."""

    def __init__(
        self,
        *sinks: Sink,
        step_s: float = 0.02,
        live_rows_s: Callable[[float], float] = lambda _: 500.0,
        read_rows_s: float = 200_000.0,
        resolved_every_s: float = 0.2,
        way_s: Callable[[float], float] = lambda _: 0.0,
        tables: Sequence[TableName] = TABLES,
        table_rows: int = 0,
        limits: DumpLimits | None = None,
    ) -> None:
        self.clock, self.step_s, self.sinks = MemoryClock(), step_s, sinks
        self.tables = tuple(tables)
        self.feed = LightFeed(self.clock, resolved_every_s, way_s)
        self.log = LightLog(self.clock, live_rows_s)
        self.source = LightSource(self.clock, self.feed, read_rows_s, 200, table_rows=table_rows)
        self.reports, self.asked = Reports(self.clock, sinks), Requested()
        schemas = {
            name: TableSchema(name, (Column("id", "int", nullable=False),), ("id",), at + 1, (at + 1,))
            for at, name in enumerate(self.tables)
        }
        outside = Outside(
            feed=self.feed,
            codec=LightCodec(self.feed),
            log=self.log,
            source=self.source,
            schemas=StillSchemas(schemas),
            progress=MemoryProgress(),
            requests=self.asked,
            clock=self.clock,
            spill=MemorySpill(),
            deliveries=self.reports,
        )
        self.pipeline: Pipeline = attach(outside, changefeed_id="cf", epoch=1, limits=PipelineLimits(dump=limits or DumpLimits()))

    def start(self, *, brackets: Brackets = Brackets.WATERMARK, bound_s: float = 0.0, strict_bound: bool = False) -> None:
        pace = Pace(delivery_bound_s=bound_s, strict_bound=strict_bound)
        self.asked.waiting.append(StartDump("1" * 16, self.tables, brackets, 10_000, pace=pace))

    def run(self, until_s: float) -> None:
        while self.clock.time_s < until_s:
            self.clock.time_s += self.step_s
            ended = [sink.turn(self.clock.time_s, self.log) for sink in self.sinks]
            if any(ended):
                self.reports.written_s = self.clock.time_s
            self.reports.look()
            self.pipeline.step(poll_s=0)

    def finish(self, until_s: float) -> float | None:
        """When all of the dump was accepted by all sinks; None: not by `until_s`."""
        while self.clock.time_s < until_s:
            self.run(self.clock.time_s + 0.1)
            progress = self.pipeline.dump.progress
            if progress is not None and progress.state is DumpState.FINISHED and not any(map(self.open_rows, self.sinks)):
                return self.clock.time_s
        return None

    def width_bound_s(self, sink: Sink) -> float:
        """The bound that holds for this sink now."""
        return next(state.bound_s for state in self.pipeline.pace.states(self.clock.time_s) if state.sink == sink.name)

    def open_rows(self, sink: Sink) -> int:
        """Of the dump, read or being read and not accepted."""
        return self.logged_rows(sink) + self.pipeline.dump.demand().open_rows

    def logged_rows(self, sink: Sink) -> int:
        """Of the dump, in the log and not accepted."""
        return sum(rows_of(manifest) for manifest in self.log.manifests[sink.accepted + 1 :])
