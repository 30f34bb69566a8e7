"""The data plane, read straight down: the only place where its order is written.

    feed -> codec -> sequence -> segment log              marks, chunks -> dump -> windows -> the same manifest

The order of durability carries weight: each step may rely on the ones above it, and a crash between any two loses
nothing and repeats harmlessly (the simulation crashes between each pair).

    1  chunk file        written by the source before it reports ChunkRead
    2  segment data      rows <= upto_ts, in order; then the schemas file and the dumps file, where the manifest names new ones
    3  manifest          exclusive: from here on the segment exists, with the windows that closed in it and the progress
    4  progress store    the projection that operators read, and the history with it
    5  acknowledge       TiCDC's consumer offsets
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from sidecar.core.dump_start import Demand, DumpLimits, DumpRoom
from sidecar.core.dumps import Dumps, check_there
from sidecar.core.sequence import NO_TS, NO_TS_YET, Sequence, Spill
from sidecar.history.recorder import DumpRecorder
from sidecar.pace.controller import Controller
from sidecar.pace.outage import Outage, outage
from sidecar.pace.throttle import Throttle
from sidecar.ports import Clock, Deliveries, Feed, NoSightings, ProgressStore, Requests, Schemas, SegmentLog, Sightings, Source
from sidecar.shared.codecs.contract import Codec
from sidecar.shared.errors import LogBroken, RefusedRequest
from sidecar.shared.log.layout import logged_dumps
from sidecar.shared.log.manifest import DdlRecord, Manifest
from sidecar.shared.model.chunk import ClosedWindow
from sidecar.shared.model.messages import Command, Request, SegmentBuilt, SourceEvent, StartDump
from sidecar.shared.model.nouns import MARK_TABLE, Change, CommitTs, Ddl, Lane, Mark, Segment, Seq, TableName, TableSchema
from sidecar.shared.model.progress import Progress, newest, shown_first
from sidecar.shared.model.schema_step import Beside, Rewrites, SchemaFate, TableStep, check_marks_continue, not_carried, own_name, steps

EMPTY_SEGMENT_EVERY_S = 10.0
"""Empty stretches are joined: without rows or windows a segment is written at most this often, for R's sake."""


class Dumper(Protocol):
    """What the pipeline asks of dumps; `core.dumps.Dumps` are those that run, a recorded one is played by the replay."""

    @property
    def records(self) -> tuple[Progress, ...]: ...
    @property
    def progress(self) -> Progress | None: ...
    def bracketed(self, request: StartDump) -> StartDump: ...
    def intended(self, request: Request) -> Progress | None: ...
    def request(self, request: Request) -> None: ...
    def handle(self, event: SourceEvent) -> list[Command]: ...
    def next(self, *, throttled: Collection[str] = ()) -> list[Command]: ...
    def segment(self, built: SegmentBuilt, marks: list[Mark]) -> tuple[ClosedWindow, ...]: ...
    def closes_by(self, upto_ts: CommitTs) -> bool: ...
    def open_windows(self) -> int: ...
    def demand(self) -> Demand: ...
    def allow(self, room: DumpRoom, accepted: Mapping[str, Seq | None]) -> None: ...
    def changed(self, steps: Iterable[TableStep]) -> None: ...
    def oldest_open_seq(self) -> Seq | None: ...
    def full(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Outside:
    """Everything that is not pure, by port. `deliveries` None: nobody reports them, and the sinks hold no dump back. `through`: whether the
    rows of a table that a DDL brings may be dumped, and the SQL predicate of those that may (empty: all). `newest_ts`: above it nothing
    can be yet, by this machine's clock; `wall_ms`: since 1970, by the same. `beside`: whether rows beside a DDL that rewrites are right.
    `sightings`: what watchers of holes saw."""

    feed: Feed
    codec: Codec
    log: SegmentLog
    source: Source
    schemas: Schemas
    progress: ProgressStore
    requests: Requests
    clock: Clock
    spill: Spill
    deliveries: Deliveries | None = None
    through: Callable[[TableName], tuple[bool, str]] = lambda _: (True, "")
    newest_ts: Callable[[], CommitTs] = lambda: NO_TS_YET
    wall_ms: Callable[[], int] = lambda: 0
    beside: Beside = Beside.RIGHT
    sightings: Sightings = field(default_factory=NoSightings)


@dataclass(slots=True)
class Counts:
    """Since the start of this process."""

    messages: int = 0
    changes: int = 0
    segments: int = 0
    ddls: int = 0
    dump_rows: int = 0
    dump_bytes: int = 0


class Pipeline:
    """One changefeed's sidecar. `step` is called for ever by one thread. It waits for messages for `poll_s` at most, and for
    what must be durable; for the tables after a DDL, which is a barrier, it waits for the source."""

    def __init__(
        self, outside: Outside, dump: Dumper, sequence: Sequence, *, tables: Mapping[TableName, TableSchema], epoch: int, next_seq: Seq
    ) -> None:
        self.outside = outside
        self.dump = dump
        self.sequence = sequence
        self.epoch = epoch
        self.next_seq = next_seq
        self.counts = Counts()
        self.last_ddl: Ddl | None = None
        self.rewrites = Rewrites(outside.beside)
        self.tables = tables
        self._schemas = outside.log.write_schemas(tables)
        outside.source.follow(tables)
        self._last_segment_s = outside.clock.now_s()
        self.pace = Controller()
        if next_seq:
            self.pace.wrote(Seq(next_seq - 1), self._last_segment_s)  # what previous owners wrote ages from now on
        self._throttle = Throttle()
        self._last_event_s = self._last_segment_s
        self._unanswered = 0
        self.outage: Outage | None = None
        self.recorder = DumpRecorder(outside.progress.history.entries(), outside.wall_ms, dump.records, after_ts=sequence.after_ts)
        self._save_progress()  # dump id and epoch are on record before a mark of them is sent

    def step(self, *, poll_s: float) -> bool:
        """Take what is there, let the dump continue, and write what is resolved. False when nothing at all happened."""
        read = self._take_messages(poll_s)
        requested = self._take_requests()
        received = self._drive_dump()
        return bool(read + requested + received + self._write_what_is_resolved())

    def _write_what_is_resolved(self) -> int:
        """How many segments. After a DDL the lanes are read again: it may have made some, whose rows R must not pass. They are read after
        the marks came, before R is released. A dump's windows close as sinks leave room, not only as lanes advance: it needs spare ts."""
        wrote = 0
        while (upto_ts := self.sequence.upto(self.outside.feed.lanes(), sparing=self.dump.demand().open_rows > 0)) is not None:
            passed = False
            for segment in self.sequence.release(upto_ts, even_if_empty=self._must_write(upto_ts)):
                self._write(segment)
                wrote += 1
                if passed := bool(segment.ddls):
                    break
            if not passed:
                break
        return wrote

    def _take_messages(self, poll_s: float) -> int:
        messages = self.outside.feed.poll(timeout_s=poll_s)
        envelopes, self.sequence.newest_ts = self.outside.codec.envelopes, self.outside.newest_ts()
        for message in messages:
            results = envelopes(message)
            if message.after_gap or message.lane in self.sequence.gaps:
                self.sequence.join_after_gap(message.lane, message.position, results)
            self.sequence.accept(message.lane, message.position, results)
        self.sequence.forget_ended(self.outside.feed.incarnations())  # before a later lane of the same name can come
        self.counts.messages += len(messages)
        return len(messages)

    def _take_requests(self) -> int:
        """Carry out the requests of operators. A refused request changes nothing, and the operator receives the reason."""
        taken = 0
        while (request := self.outside.requests.take()) is not None:
            taken += 1
            try:
                intended = self.dump.intended(request)
                check_there(request, intended, self.tables)
                self.dump.request(request)
            except RefusedRequest as refused:
                self.outside.requests.answer(refused)
            else:
                self.outage = None  # who asks does not want to wait
                self.recorder.requested(request, intended=intended)
                self._save_progress()
                self.outside.requests.answer(None)
        return taken

    def _drive_dump(self) -> int:
        """Hear what the source finished and ask for what comes next, as much as the sinks leave. Never waits for the database (P3)."""
        self._receive_sinks()
        events = self.outside.source.results()
        before, now_s = self.dump.records, self.outside.clock.now_s()
        self._throttle.pay(events, before, now_s)
        self.outage = outage(self.outage, events, answered_s=self._last_event_s, now_s=now_s)
        commands = [command for event in events for command in self.dump.handle(event)]
        if self.outage is None or now_s >= self.outage.again_s:
            commands += self.dump.next(throttled=self._throttle.held(before, now_s))
        if self.dump.records != before:
            self._save_progress()
        self._throttle.requested(commands)
        for command in commands:
            self.outside.source.request(command)
        if events or (commands and not self._unanswered):
            self._last_event_s = self.outside.clock.now_s()
        self._unanswered += len(commands) - len(events)
        return len(events) + len(commands)

    def _receive_sinks(self) -> None:
        """What they have accepted, and so what they leave to the dump."""
        if (deliveries := self.outside.deliveries) is not None:
            self.pace.receive(deliveries.accepted(), deliveries.sinks(), deliveries.report_times(), now_s=self.outside.clock.now_s())
            self.dump.allow(self.pace.room(self.dump.demand()), {one.sink: one.accepted for one in deliveries.sinks()})

    def throttled_s(self) -> float:
        """Seconds until the pace of a dump lets it read on; 0 or less: now."""
        return self._throttle.wait_s(self.dump.records, self.outside.clock.now_s())

    def source_busy(self) -> bool:
        """Whether the source has a command that it has not finished."""
        return self._unanswered > 0

    def source_still_s(self) -> float:
        """How long the source has been silent about a command; 0 when it has none."""
        return self.outside.clock.now_s() - self._last_event_s if self.source_busy() else 0.0

    def delivery_lag_s(self) -> float:
        """How long the oldest segment that is not delivered has been in the log; 0 when all is, as of the last step."""
        return 0.0 if self.outside.deliveries is None else self.pace.lag_s(self.outside.clock.now_s())

    def _must_write(self, upto_ts: CommitTs) -> bool:
        idle_s = self.outside.clock.now_s() - self._last_segment_s
        return idle_s >= EMPTY_SEGMENT_EVERY_S or self.dump.closes_by(upto_ts) or self.outside.sightings.due(upto_ts)

    def write_soon(self) -> None:
        """Write the next segment even if it is empty: from then on an old owner that comes to life again is fenced off."""
        self._last_segment_s = self.outside.clock.now_s() - EMPTY_SEGMENT_EVERY_S

    def _write(self, segment: Segment) -> None:
        """Steps 2 to 5. Step 1, the chunk files, was done before their ChunkRead was received."""
        marks: list[Mark] = []
        outside, seq, before = self.outside, self.next_seq, self.dump.records
        incarnations = outside.feed.incarnations()
        positions = {lane: position for lane, position in segment.positions.items() if lane in incarnations}  # of none that has ended
        data = outside.log.write_data(seq, epoch=self.epoch, codec=outside.codec.name, changes=self._watch(segment.changes, marks))
        windows = self.dump.segment(SegmentBuilt(seq, segment.after_ts, segment.upto_ts, bool(segment.ddls)), marks)
        reported = [ddl for ddl in segment.ddls if ddl.query]  # without a text it only says that the schemas change here
        tables = self.tables
        next_schemas = self._pass_ddls(segment.ddls) if segment.ddls else None
        dumps = outside.log.write_dumps(shown_first(self._records()))
        holes, waiting, seen = outside.sightings.take(segment.upto_ts, self.tables)
        outside.log.commit(
            Manifest(
                seq=seq,
                epoch=self.epoch,
                after_ts=segment.after_ts,
                upto_ts=segment.upto_ts,
                data=data.name,
                rows=data.rows,
                bytes=data.bytes,
                positions=positions,
                schemas=self._schemas,
                codec=outside.codec.name,
                ddls=tuple(DdlRecord(ddl.commit_ts, *own_name(ddl, self.tables, tables), ddl.query) for ddl in reported),
                windows=windows,
                progress=dumps.dumps[0] if dumps.dumps else None,
                more_dumps=dumps.dumps[1:],
                dumps_file=dumps.file,
                next_schemas=next_schemas,
                table_rows=data.table_rows,
                incarnations={lane: incarnation for lane in positions if (incarnation := incarnations[lane])},
                read_ends={lane: end for lane, end in outside.feed.read_ends().items() if lane in positions},
                id=secrets.token_hex(8),
                open_from=self.dump.oldest_open_seq(),
                data_sha256=data.sha256,
                holes=holes,
                waiting=waiting,
                seen=seen,
            )
        )
        self._schemas = next_schemas or self._schemas
        if self.dump.records != before:
            self._save_progress()
        outside.feed.acknowledge(positions)
        self._last_segment_s = outside.clock.now_s()
        if outside.deliveries is not None:
            self.pace.wrote(seq, self._last_segment_s, windows)
        self.next_seq = Seq(seq + 1)
        self.counts.segments += 1
        self.counts.ddls += len(reported)
        self.last_ddl = reported[-1] if reported else self.last_ddl
        self.counts.changes += data.rows
        self.counts.dump_rows += sum(chunk.rows for window in windows for chunk in window.chunks)
        self.counts.dump_bytes += sum(chunk.bytes for window in windows for chunk in window.chunks)

    def _watch(self, changes: Iterable[Change], marks: list[Mark]) -> Iterator[Change]:
        """Yield the rows, note the marks, and stop at a table of which no row can be decoded. A table that the feed writes in another
        case gets its name as in the schemas."""
        tables, read_mark = self.tables, self.outside.codec.mark
        own_names: dict[TableName, TableName] = {}
        for arrived in self.outside.schemas.named(changes):
            change, table = arrived, (arrived[2], arrived[3])
            if table not in tables and table != MARK_TABLE:
                own_names = own_names or {name.folded(): name for name in (*tables, MARK_TABLE)}
                if (own := own_names.get(TableName(*table).folded())) is not None:
                    table = own
                    change = change._replace(schema=own[0], table=own[1])
            if table == MARK_TABLE:
                mark = read_mark(change)
                marks += [mark] if mark else []
            elif (schema := tables.get(table)) is None or not schema.key:  # type: ignore[call-overload]  # a TableName is a tuple
                raise not_carried(change, schema)
            yield change

    def _pass_ddls(self, ddls: tuple[Ddl, ...]) -> str | None:
        """A barrier: everything up to the DDL's commit_ts is in this segment or an earlier one, and what comes next has the tables
        after it. Returns the name of their file, None if they are the same. Only the dump's SELECTs are under way meanwhile; what
        they read is read again."""
        check_marks_continue(ddls)
        before, after = self.tables, self.outside.schemas.after(ddls)
        results = steps(before, after, named={TableName(ddl.schema, ddl.table) for ddl in ddls})
        results, once_more = self.rewrites.passed(results, before, after, ddls, self.dump.records)
        self.dump.changed([step for one in results if (step := self._offered(one)) is not None])
        if once_more is not None:
            self.recorder.requested(once_more, last=self.dump.records)
            self.dump.request(self.dump.bracketed(once_more))
        self.tables = after
        self.outside.source.follow(after)
        return self.outside.log.write_schemas(after) if after != before else None

    def _offered(self, step: TableStep) -> TableStep | None:
        """A table that is BORN, as the changefeed's filter lets it be dumped; None: not at all."""
        if step.fate is not SchemaFate.BORN or step.after is None:
            return step
        may, where = self.outside.through(step.after)
        return replace(step, where=where or None) if may else None

    def _save_progress(self) -> None:
        if dumps := self._records():
            self.outside.progress.save(dumps, self.recorder.due(dumps))

    def _records(self) -> tuple[Progress, ...]:
        """Of the dumps, with the log that their cursors are of."""
        return tuple(replace(dump, log=self.outside.log.id) for dump in self.dump.records)

    def lane_lags(self) -> dict[Lane, CommitTs | None]:
        """Each lane's last resolved, None for one that has not joined."""
        return {lane: self.sequence.resolved.get(lane) for lane in self.outside.feed.lanes()}


@dataclass(frozen=True, slots=True)
class PipelineLimits:
    """Bounds with their units. `held_bytes_max`: changes above R in memory before they spill. `start_ts`: the changefeed sends nothing
    below it."""

    held_bytes_max: int = 256 << 20
    start_ts: CommitTs = NO_TS
    dump: DumpLimits = field(default_factory=DumpLimits)


def attach(outside: Outside, *, changefeed_id: str, epoch: int, limits: PipelineLimits) -> Pipeline:
    """Take over where the log ends: the log is the truth, the progress store may be behind or hold a newer request.

    `epoch` is this owner's and greater than every earlier owner's. Raises LogBroken for a log that cannot be trusted.
    """
    last = outside.log.recover(epoch=epoch)
    after_ts, next_seq = (last.upto_ts, Seq(last.seq + 1)) if last else (CommitTs(0), Seq(0))
    if last is not None and last.codec != outside.codec.name:
        raise LogBroken(
            f"the log's last segment {last.seq} holds rows of {last.codec}, and this feed has {outside.codec.name}",
            hint="set log.uri to a new folder for the new way of the feed, and dump again; or set the feed back to what it was",
        )
    if last is None:
        ends = outside.feed.ends()  # before the moment of the tables: what is committed after it comes at or above them
        tables, after_ts = outside.schemas.begin(), outside.schemas.since_ts
        positions = dict(ends) if after_ts else {}
    else:
        positions = dict(last.positions)
        tables = outside.schemas.resume(outside.log.read_schemas(last.next_schemas or last.schemas), upto_ts=last.upto_ts)
    outside.feed.seek(positions, last.incarnations if last else {}, last.read_ends if last else {})
    positions = {lane: positions[lane] for lane in filter(outside.feed.incarnations().__contains__, positions)}
    sequence = Sequence(outside.codec.identity, outside.spill, after_ts, limits.held_bytes_max, positions, limits.start_ts)
    outside.sightings.resume(*((last.seen, last.waiting) if last else ({}, ())))
    dump = Dumps(
        changefeed_id=changefeed_id,
        epoch=epoch,
        limits=limits.dump,
        recovered=newest_dumps(last, outside.progress.load(), log_id=outside.log.id),
        after_ts=after_ts,
        next_seq=next_seq,
    )
    pipeline = Pipeline(outside, dump, sequence, tables=tables, epoch=epoch, next_seq=next_seq)
    if last is not None and last.epoch != epoch:
        pipeline.write_soon()
    return pipeline


def newest_dumps(last: Manifest | None, stored: Iterable[Progress], *, log_id: str) -> tuple[Progress, ...]:
    """By `core.progress.newest`. Raises LogBroken for a progress in the log that is none."""
    return newest(logged_dumps(last.dumps if last else ()), tuple(stored), log=log_id, last_seq=last.seq if last else Seq(-1))
