"""One simulated life of a changefeed with dumps: cluster, sidecars that die and come back, two sinks that are checked and verified.

`run(seed)` is deterministic. A crash may fall before or after every durable step (chunk file, segment data, manifest,
progress store, acknowledge); everything in memory is lost and the feed is read again from the log's positions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from random import Random
from typing import cast
from unittest.mock import patch

import pyarrow as pa
import pymysql

from sidecar.adapters.memory.clock import MemoryClock
from sidecar.adapters.memory.log import MemoryDisk, MemoryLog
from sidecar.adapters.memory.progress import MemoryProgress
from sidecar.adapters.memory.schemas import StillSchemas
from sidecar.adapters.tidb.source import MarkRow
from sidecar.core.dump_start import UNLIMITED, DumpLimits, DumpRoom
from sidecar.pipeline import Outside, Pipeline, PipelineLimits, attach
from sidecar.ports import OperationHistory
from sidecar.replay.crashes import Crash, CrashFate, MortalFeed, MortalLog, MortalProgress
from sidecar.shared.codecs.canal_json import CanalJson
from sidecar.shared.errors import MarkRowTaken, RefusedRequest
from sidecar.shared.log import dumps_file
from sidecar.shared.log.absent import with_absent
from sidecar.shared.log.spill import MemorySpill
from sidecar.shared.model.chunk import ChunkFile
from sidecar.shared.model.messages import (
    Brackets,
    ChunkLost,
    ChunkRead,
    Command,
    PauseDump,
    ReadChunk,
    Request,
    RestartDump,
    ResumeDump,
    SendMark,
    SetDump,
    Settings,
    SourceEvent,
    SourceFailed,
    StartDump,
    StopDump,
)
from sidecar.shared.model.nouns import OperationId, TableName, TableSchema
from sidecar.shared.model.progress import OVER, DumpState, Progress
from sidecar.shared.mysql.session import MysqlSession
from tests.simulation.cluster import CHANGEFEED, Cluster, SimFeed, schema_of
from tests.simulation.output import Output
from tests.simulation.verification import Verification


class SimSource:
    """TiDB behind the Source port: marks one after another, SELECTs at any moment, answers in any order, or none while TiDB is away."""

    def __init__(self, cluster: Cluster, log: MemoryLog, rng: Random, fate: CrashFate) -> None:
        self.cluster, self.log, self.rng, self.fate = cluster, log, rng, fate
        self.marks: list[SendMark] = []
        self.reads: list[ReadChunk] = []
        self.gone: list[ReadChunk] = []
        self.done: list[SourceEvent] = []
        self.row = MarkRow(CHANGEFEED)

    def request(self, command: Command) -> None:
        (self.marks if isinstance(command, SendMark) else self.reads).append(command)  # type: ignore[arg-type]  # split by type

    def follow(self, schemas: Mapping[TableName, TableSchema]) -> None:
        """The tables here do not change."""

    def results(self) -> Sequence[SourceEvent]:
        if self.marks and self.rng.random() < 0.5:
            self.done.append(self._send(self.marks.pop(0)))
        for read in [read for read in self.reads if self.rng.random() < 0.5]:
            self.reads.remove(read)
            self.done.append(self._read(read))
        for read in [read for read in self.gone if self.rng.random() < 0.1]:
            self.gone.remove(read)
            self._select(read)  # the file is reported to no owner
        ready = [event for event in self.done if self.rng.random() < 0.7]
        self.done = [event for event in self.done if event not in ready]
        return ready

    def _send(self, mark: SendMark) -> SourceEvent:
        """Also after several attempts, each of which may be carried out late."""
        for _ in range(self.rng.randint(1, 3)):
            with suppress(pymysql.err.OperationalError):
                return self.row.update(cast(MysqlSession, self.cluster), mark)
        return SourceFailed(mark, "lost", "", away=True)

    def _read(self, read: ReadChunk) -> SourceEvent:
        if self.cluster.away:
            return SourceFailed(read, "lost", "", away=True)
        if self.rng.random() < 0.02:
            self.gone.append(read)
            return ChunkLost(read, "killed", "")
        return self._select(read) if self.rng.random() < 0.995 else SourceFailed(read, "refused", "")

    def _select(self, read: ReadChunk) -> ChunkRead:
        ts = self.cluster.next_ts()
        state = sorted(self.cluster.state_at(read.table, ts).items())
        above = [
            (key, value)
            for key, value in state
            if (read.after is None or key > read.after[0]) and (read.upper is None or key <= read.upper[0])
        ]
        keys = read.keys if read.number % 3 else read.keys[: -(-len(read.keys) // 2)]  # as if the rows of all were too large for a chunk
        rows = [(key, value) for key, value in state if (key,) in keys] if keys else above[: read.rows_max]
        there = {key for key, _ in rows}
        absent = tuple(key for key in keys if key[0] not in there)
        path = f"chunks/{read.dump_id}/{read.epoch:010d}-{read.number:08d}.parquet"
        table = pa.table({"id": pa.array([k for k, _ in rows], pa.string()), "v": pa.array([v for _, v in rows], pa.string())})
        table = with_absent(table, ("id",), absent)
        size = self.fate.around("chunk file", lambda: self.log.write_chunk(path, table)).bytes
        tso = ts if read.brackets is Brackets.SNAPSHOT else None
        if read.keys:
            file = ChunkFile(read.table, path, len(keys), size, None, None, tso, absent=len(absent))
            return ChunkRead(read.number, file, exhausted=len(keys) == len(read.keys), keys_read=len(keys))
        file = ChunkFile(read.table, path, len(rows), size, read.after, (rows[-1][0],) if rows else None, tso)
        left = [(key,) for key, _ in above[read.rows_max :]]
        cuts = {self.rng.choice(left) for _ in range(self.rng.randint(0, read.bounds_max))} | {left[-1]} if left else set()
        bounds = tuple(sorted(cuts)) if self.rng.random() < 0.7 and read.bounds_max else ()
        return ChunkRead(read.number, file, exhausted=not left, bounds=bounds)

    def close(self) -> None:
        self.marks, self.reads, self.done = [], [], []


@dataclass
class SimRequests:
    waiting: list[Request] = field(default_factory=list)
    answers: list[RefusedRequest | None] = field(default_factory=list)

    def take(self) -> Request | None:
        return self.waiting.pop(0) if self.waiting else None

    def answer(self, refused: RefusedRequest | None) -> None:
        self.answers.append(refused)


@dataclass(frozen=True)
class Result:
    crashes: list[str]
    points: int
    segments: int
    dump_rows: int
    repeats: int
    snapshots: int
    spilled: int
    late_marks: int
    fenced: int
    repaired: int
    deleted: int
    beside: int
    queued: int
    held: int
    one_sink: int
    verified: int
    differing: int


SINKS = ("first", "second")

STEPS_MAX = 20_000
"""Until all has settled: several dumps of single rows by one reader, one after another, take a quarter of that."""


def run(seed: int, *, steps: int = 220, die_at: int | None = None) -> Result:
    """Live through `steps` of chance, then let the last dump finish, and check the end. Raises AssertionError.

    `die_at`: die once, at this point between durable steps, instead of by chance; 0 never. In every other life manifests leave the tables
    of dumps to a file, however few they are.
    """
    with patch.object(dumps_file, "TABLES_MIN", seed % 2 * dumps_file.TABLES_MIN):
        return _lived(seed, steps=steps, die_at=die_at)


def _lived(seed: int, *, steps: int, die_at: int | None) -> Result:
    rng = Random(seed)
    cluster = Cluster(rng, tuple(TableName("s", f"t{n}") for n in range(rng.randint(1, 3))))
    disk, stored = MemoryDisk(), MemoryProgress()
    fate, clock, requests = CrashFate(rng, crashes=rng.randrange(5), at=die_at), MemoryClock(), SimRequests()
    outputs = [Output(name, cluster, disk, rng) for name in SINKS]
    verification: Verification | None = None
    brackets, chunk_rows = rng.choice(list(Brackets)), rng.choice([1, 3, 10, 100])
    limits = PipelineLimits(
        held_bytes_max=rng.choice([4_000, 1 << 20]),
        dump=DumpLimits(readers=rng.randint(1, 3), window_chunks_max=rng.randint(1, 4), open_windows_max=rng.randint(1, 6)),
    )
    pipeline: Pipeline | None = None
    epoch = repeats = dumps = step = fenced = extra = beside = queued = held = one_sink = verified = differing = 0
    rooms = Random(f"rooms of {seed}")

    def ask() -> None:
        nonlocal dumps
        kind = rng.randrange(8)
        dumps += 1
        dump_id = f"{seed % 2**32:08x}{dumps:08x}"
        some = cluster.tables if rng.random() < 0.4 else (rng.choice(cluster.tables),)
        sinks = rng.choice([(), SINKS[:1], SINKS[1:]])
        start = StartDump(dump_id, some, rng.choice(list(Brackets)), chunk_rows, sinks=sinks)
        there = [] if pipeline is None else [record.dump_id for record in pipeline.dump.records]
        intended = rng.choice(there) if there and rng.random() < 0.8 else ""
        change = SetDump(Settings(readers=rng.randint(1, 4), chunk_rows=rng.choice([1, 3, 10, 100])), intended)
        keyed = keyed_dump(dump_id, rng.choice(outputs).faults, start, cluster, more=rng.sample(range(45), rng.randrange(2, 8)))
        moves: list[Request] = [
            PauseDump(intended),
            ResumeDump(dump_id=intended),
            StopDump(intended),
            RestartDump(dump_id, intended),
            change,
        ]
        choices: list[Request] = [start, start, *moves, keyed]
        requests.waiting.append(choices[kind])

    while True:
        step += 1
        clock.time_s += rng.random()
        settling = step > steps
        cluster.pass_time()
        if settling:
            cluster.settle()
        else:
            for _ in range(rng.randrange(3)):
                cluster.transact()
            if rng.random() < 0.8:
                cluster.replicate()
            if rng.random() < 0.01:
                cluster.restart_ticdc()
            if rng.random() < 0.005 and len(cluster.lanes) < 6:
                cluster.add_lane()
            if rng.random() < 0.03:
                for _ in range(rng.randint(1, 3)):
                    ask()
            if rng.random() < 0.05:
                rng.choice(outputs).spoil()
            verification = verification or Verification(rng.choice(outputs), rng)
        if verification is not None and (differing_keys := verification.step()) is not None:
            verified, differing = verified + bool(verification.tables), differing + len(differing_keys)
            if differing_keys and not settling:
                extra += 1
                repair = StartDump(f"{seed % 2**32:08x}eeeee{extra:03x}", cluster.tables, brackets, chunk_rows)
                requests.waiting.append(keyed_dump(repair.dump_id, differing_keys, repair, cluster, sinks=(verification.output.name,)))
            verification = None
        try:
            if pipeline is None:
                epoch += 1
                log = MemoryLog(disk)
                source = SimSource(cluster, log, rng, fate)
                outside = Outside(
                    feed=MortalFeed(SimFeed(cluster, rng), fate),
                    codec=CanalJson(),
                    log=MortalLog(log, fate),
                    source=source,
                    schemas=StillSchemas({table: schema_of(table) for table in cluster.tables}),
                    progress=MortalProgress(stored, fate),
                    requests=requests,
                    clock=clock,
                    spill=MemorySpill(),
                )
                pipeline = attach(outside, changefeed_id=CHANGEFEED, epoch=epoch, limits=limits)
                check_goes_on(pipeline.dump.records)
                check_history(stored.history, pipeline.dump.records)
            if settling:
                last = StartDump(f"{seed % 2**32:08x}ffffffff", cluster.tables, brackets, chunk_rows)
                if _is_done(pipeline, cluster):
                    for output in outputs:
                        output.deliver()
                        if not output.right() and not requests.waiting:
                            extra += 1
                            again = replace(last, dump_id=f"{seed % 2**32:08x}fffff{extra:03x}", sinks=(output.name,))
                            keyed = keyed_dump(again.dump_id, output.faults, again, cluster, sinks=again.sinks)
                            requests.waiting.append(keyed if output.complete() else again)
                _finish_dump(pipeline, requests, last)
            pipeline.dump.allow(UNLIMITED if settling or seed % 2 else some_room(rooms), {})
            pipeline.step(poll_s=0)
            held += pipeline.dump.demand().held
            states = [record.state for record in pipeline.dump.records]
            beside, queued = beside + (states.count(DumpState.RUNNING) > 1), queued + (DumpState.QUEUED in states)
            one_sink += any(record.sinks for record in pipeline.dump.records if record.state is DumpState.RUNNING)
            check_disjoint(pipeline.dump.records)
        except (Crash, MarkRowTaken) as end:
            fenced += isinstance(end, MarkRowTaken)
            repeats += pipeline.sequence.repeats if pipeline else 0
            pipeline = None
        for output in outputs:
            if rng.random() < 0.2:
                output.deliver()
        if settling and pipeline is not None and _is_done(pipeline, cluster) and not requests.waiting:
            for output in outputs:
                output.deliver()
            if all(output.right() for output in outputs):
                break
        assert step < steps + STEPS_MAX, f"seed {seed}: does not end: {pipeline and pipeline.dump.progress}"
    check_history(stored.history, pipeline.dump.records)
    for output in outputs:
        output.deliver()
        for table in cluster.tables:
            assert output.state[table] == cluster.state_at(table, cluster.ts), f"end state of {table} in {output.name}"
    return Result(
        fate.deaths,
        fate.points,
        outputs[0].next_seq,
        sum(output.dump_rows for output in outputs),
        repeats + pipeline.sequence.repeats,
        sum(output.snapshots for output in outputs),
        pipeline.sequence.spilled_rows,
        cluster.late_marks,
        fenced,
        sum(output.repaired for output in outputs),
        sum(output.deleted for output in outputs),
        beside,
        queued,
        held,
        one_sink,
        verified,
        differing,
    )


def some_room(rng: Random) -> DumpRoom:
    """Of sinks that are slow: windows that are ready wait, some for many segments."""
    width = rng.choice([1, 20])
    return DumpRoom(rng.choice([-5, -5, 0, 4, width]), rng.choice([500, 1 << 20]), width, rng.choice([1, 20]), rng.choice([1, 60]))


def check_disjoint(dumps: Iterable[Progress]) -> None:
    """Dumps that have begun have no table in common."""
    tables = [table.table for dump in dumps if dump.state in (DumpState.RUNNING, DumpState.PAUSED) for table in dump.tables]
    assert len(set(tables)) == len(tables), tables


def check_goes_on(dumps: Iterable[Progress]) -> None:
    """There is one log here: a dump that is found to have come beyond its end was on record before its segment was."""
    for dump in dumps:
        assert dump.state is not DumpState.FAILED or "its log is another one" not in (dump.reason or ""), dump


def keyed_dump(
    dump_id: str,
    wrong: Iterable[tuple[TableName, str]],
    like: StartDump,
    cluster: Cluster,
    *,
    more: Iterable[int] = (),
    sinks: tuple[str, ...] | None = None,
) -> StartDump:
    """Of the keys that are `wrong`, and of `more`, which may not exist. `sinks`: None for those of `like`."""
    keys = {table: [(f"{key:03d}",) for key in more] for table in cluster.tables}
    for table, key in sorted(wrong):
        keys[table].append((key,))
    requested = tuple((table, tuple(dict.fromkeys(results))) for table, results in keys.items() if results)
    tables = tuple(table for table, _ in requested)
    receiving = like.sinks if sinks is None else sinks
    return replace(like, dump_id=dump_id, tables=tables, keys=requested, narrowed=tables, sinks=receiving)


def check_history(history: OperationHistory, dumps: Sequence[Progress]) -> None:
    """Each dump that is there is in it as its progress is, at the start of a life and at the end; of all others none is not over."""
    entries = {entry.id: entry for entry in history.entries()}
    for dump in dumps:
        entry, rows = entries.pop(OperationId(dump.dump_id)), sum(table.rows for table in dump.tables)
        assert entry.state is dump.state
        assert entry.rows == rows or entry.state not in OVER, f"{entry.rows} rows are recorded of {rows}"
    assert all(entry.state in OVER for entry in entries.values()), entries


def _finish_dump(pipeline: Pipeline, requests: SimRequests, last: StartDump) -> None:
    """Once the writers are quiet: resume what is paused or has failed; where no dump ran, or all were stopped, run one."""
    dumps = pipeline.dump.records
    if requests.waiting:
        return
    rest = [dump.dump_id for dump in dumps if dump.state in (DumpState.PAUSED, DumpState.FAILED)]
    if rest:
        requests.waiting.append(ResumeDump(dump_id=rest[0]))
    elif all(dump.state is DumpState.STOPPED for dump in dumps):
        requests.waiting.append(last)


def _is_done(pipeline: Pipeline, cluster: Cluster) -> bool:
    states = {dump.state for dump in pipeline.dump.records}
    newest = max((versions[-1][0] for rows in cluster.history.values() for versions in rows.values() if versions), default=0)
    return DumpState.FINISHED in states and states <= {DumpState.FINISHED, DumpState.STOPPED} and pipeline.sequence.after_ts >= newest
