"""A recording through the whole line without Spark: the real pipeline over the twins in memory, merged by `rule.py`.

What does not depend on the schedule (decoded changes, truth, the tables' history) is made once for each feed, so that many
schedules are cheap. Spark's own way through the same recordings is in tests/spark.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from random import Random
from typing import Any

import pyarrow as pa

from sidecar.adapters.memory.clock import MemoryClock
from sidecar.adapters.memory.log import MemoryDisk, MemoryLog
from sidecar.adapters.memory.progress import MemoryProgress
from sidecar.core.dump_start import DumpLimits, Ground
from sidecar.pipeline import Outside, Pipeline, PipelineLimits, attach
from sidecar.replay.crashes import Crash, CrashFate, MortalFeed, MortalLog, MortalProgress
from sidecar.replay.feed import Play
from sidecar.replay.judge.verify import VerifyVerdict, replay
from sidecar.replay.operator import Script
from sidecar.replay.played import PlayedCluster, PlayedFeed
from sidecar.replay.recorded_dump import RecordedDump
from sidecar.replay.recording import Recording
from sidecar.replay.replay import NoSource
from sidecar.replay.source import RecordedSource, RecordedWindows, WatermarkRow, recorded_windows
from sidecar.replay.tables import RecordedTables, logged
from sidecar.shared.codecs.contract import Codec
from sidecar.shared.errors import RefusedRequest
from sidecar.shared.log.absent import parted
from sidecar.shared.log.manifest import Manifest
from sidecar.shared.log.spill import MemorySpill
from sidecar.shared.model.chunk import ChunkFile, WrittenChunk
from sidecar.shared.model.messages import Brackets, Request, StartDump
from sidecar.shared.model.nouns import MARK_TABLE, Change, CommitTs, Seq, TableName, TableSchema
from sidecar.shared.model.progress import DumpState
from spark_merge.codecs.decode.rows import decode
from spark_merge.merge.rule import Image, OutputRow, merged
from tests.support.recordings import recording

STEPS_MAX = 200_000
CHANGEFEED = "replay"


class CachedTruth:
    """A recording's truth, each snapshot read once."""

    def __init__(self, of: Recording) -> None:
        self._of = of
        self._read: dict[CommitTs, Mapping[TableName, pa.Table]] = {}

    @property
    def schemas(self) -> Mapping[TableName, TableSchema]:
        return self._of.schemas

    @property
    def truth_ts(self) -> tuple[CommitTs, ...]:
        return self._of.truth_ts

    def truth(self, tso: CommitTs) -> Mapping[TableName, pa.Table]:
        if tso not in self._read:
            self._read[tso] = self._of.truth(tso)
        return self._read[tso]


@dataclass
class Stage:
    """One recording and feed, ready to be played many times."""

    recording: Recording
    feed: PlayedFeed
    codec: Codec
    truth: CachedTruth
    tables: tuple[TableName, ...]
    history: RecordedTables
    windows: RecordedWindows | None
    decoded: dict[tuple[int, Hashable], list[OutputRow]] = field(default_factory=dict)

    def rows_of(self, seq: Seq, changes: list[Change], schemas: Mapping[TableName, TableSchema]) -> list[OutputRow]:
        """What a segment's changes are in the output; each is decoded once, with the schemas of its segment."""
        places = [(change.commit_ts, self.codec.identity(change)) for change in changes]
        data = [(change.schema, change.table) != MARK_TABLE for change in changes]
        new = [change for change, place, is_data in zip(changes, places, data, strict=True) if is_data and place not in self.decoded]
        for change in new:
            self.decoded[change.commit_ts, self.codec.identity(change)] = []
        for row in decode(logged(new, self.codec.name), codec=self.codec.name, schemas=schemas).to_pylist() if new else ():
            change = new[row["ordinal"]]
            name = TableName(row["schema"], row["table"])
            key = _key(schemas[name], row["after"] or row["before"])
            output = OutputRow(0, row["commit_ts"], row["rank"], 0, name, row["op"], key, _image(row["before"]), _image(row["after"]))
            self.decoded[change.commit_ts, self.codec.identity(change)].append(output)
        return [
            row._replace(seq=seq, ordinal=ordinal)
            for ordinal, (place, is_data) in enumerate(zip(places, data, strict=True))
            if is_data
            for row in self.decoded[place]
        ]


@cache
def stage(name: str, feed: str) -> Stage:
    result = Recording(recording(name))
    played = PlayedFeed(result, feed)
    tables = tuple(table for table, schema in result.schemas.items() if schema.key and table != MARK_TABLE)
    windows = None if played.history else recorded_windows(result)
    codec = played.attach(played.open(Play())).codec
    return Stage(result, played, codec, _truth_of(name), tables, played.tables(), windows)


@cache
def _truth_of(name: str) -> CachedTruth:
    """One for all feeds of a recording."""
    return CachedTruth(Recording(recording(name)))


def _image(value: list[str | None] | None) -> Image | None:
    return None if value is None else tuple(value)


def _key(schema: TableSchema, image: list[str | None] | Image) -> Image:
    columns = schema.column_names()
    return tuple(image[columns.index(name)] for name in schema.key)


@dataclass(frozen=True)
class Run:
    """`brackets`: recorded, watermark or snapshot. `drop_nothing`: merge wrongly, with no key touched in any window."""

    brackets: str
    seed: int
    chunk_rows: int = 1000
    crashes: int = 2
    resends: int = 1
    drop_nothing: bool = False
    after_part: float = 0.0
    """How much of the feed is played before the dump is requested, of the tables that there are then."""


@dataclass
class Later:
    """The requests port: nothing is requested before its time has come."""

    made: Stage
    run: Run
    cluster: PlayedCluster
    tables: Mapping[TableName, TableSchema] = field(default_factory=dict)
    script: Script | None = None

    def take(self) -> Request | None:
        if self.script is None and self.cluster.played_part() >= self.run.after_part:
            brackets = Brackets.WATERMARK if self.run.brackets == "recorded" else Brackets(self.run.brackets)
            request = StartDump(f"{self.run.seed:016x}", (), brackets, self.run.chunk_rows, grows=self.made.feed.history is not None)
            self.script = Script(Random(self.run.seed), request)
        requested = None if self.script is None else self.script.take()
        return replace(requested, tables=self._present()) if isinstance(requested, StartDump) else requested

    def _present(self) -> tuple[TableName, ...]:
        if self.made.feed.history is None:
            return self.made.tables
        return tuple(name for name, schema in self.tables.items() if schema.key and name != MARK_TABLE)

    def answer(self, refused: RefusedRequest | None) -> None:
        assert self.script is not None
        self.script.answer(refused)


def play(made: Stage, run: Run) -> tuple[VerifyVerdict, list[str]]:
    """Play to the end, with crashes, and judge. Returns the verdict and the deaths."""
    verdict, deaths, _ = live(made, run)
    return verdict, deaths


def live(made: Stage, run: Run) -> tuple[VerifyVerdict, list[str], MemoryLog]:
    """As `play`, with the log."""
    disk, stored = MemoryDisk(), MemoryProgress()
    fate = CrashFate(Random(run.seed), run.crashes, chance=0.02)
    cluster = made.feed.open(Play(seed=run.seed, resends=run.resends))
    row = WatermarkRow(CHANGEFEED)
    script = Later(made, run, cluster)
    pipeline: Pipeline | None = None
    epoch = 0
    for _ in range(STEPS_MAX):
        try:
            if pipeline is None:
                epoch += 1
                pipeline = _attach(made, run, disk=disk, stored=stored, fate=fate, cluster=cluster, row=row, script=script, epoch=epoch)
            script.tables = pipeline.tables
            pipeline.step(poll_s=0)
        except Crash:
            pipeline = None
            continue
        progress = pipeline.dump.progress
        assert progress is None or progress.state is not DumpState.FAILED, progress.reason
        if progress and progress.state is DumpState.FINISHED and cluster.exhausted and pipeline.sequence.after_ts >= made.recording.end_ts:
            complete_at = {t.table: t.complete_at for t in progress.tables if t.complete_at is not None}
            upto_ts = pipeline.sequence.after_ts
            output = output_of(made, disk, drop_nothing=run.drop_nothing)
            false, steps = made.feed.false_deletes, made.feed.steps
            verdict = replay(
                output, made.truth, upto_ts=upto_ts, complete_at=complete_at, tables=made.tables, steps=steps, false_deletes=false
            )
            return verdict, fate.deaths, MemoryLog(disk)
    raise AssertionError(f"does not end: {pipeline and pipeline.dump.progress}")


def _attach(
    made: Stage,
    run: Run,
    *,
    disk: MemoryDisk,
    stored: MemoryProgress,
    fate: CrashFate,
    cluster: PlayedCluster,
    row: WatermarkRow,
    script: Later,
    epoch: int,
) -> Pipeline:
    log = MemoryLog(disk)
    write_chunk = partial(_write_chunk, log, fate)
    attached = made.feed.attach(cluster)
    outside = Outside(
        feed=MortalFeed(attached.feed, fate),
        codec=attached.codec,
        log=MortalLog(log, fate),
        source=NoSource() if run.brackets == "recorded" else RecordedSource(made.history, cluster, row, write_chunk, seed=run.seed + epoch),
        schemas=attached.schemas,
        progress=MortalProgress(stored, fate),
        requests=script,
        clock=MemoryClock(every_s=0.1),
        spill=MemorySpill(),
    )
    pipeline = attach(outside, changefeed_id=CHANGEFEED, epoch=epoch, limits=PipelineLimits())
    if run.brackets == "recorded":
        assert made.windows is not None
        pipeline.dump = RecordedDump(
            made.windows.windows,
            tables=made.tables,
            ground=Ground(made.windows.changefeed_id, epoch, DumpLimits(), pipeline.sequence.after_ts, pipeline.next_seq),
            progress=pipeline.dump.progress,
            write_chunk=log.write_chunk,
        )
    return pipeline


def _write_chunk(log: MemoryLog, fate: CrashFate, path: str, rows: pa.Table) -> WrittenChunk:
    return fate.around("chunk file", lambda: log.write_chunk(path, rows))


def output_of(made: Stage, disk: MemoryDisk, *, drop_nothing: bool = False) -> Iterator[dict[str, Any]]:
    """The merged output in order, as the jsonl sink's rows."""
    log, seq = MemoryLog(disk), 0
    schemas_at = cache(log.read_schemas)
    changes: list[OutputRow] = []
    while (manifest := log.manifest(Seq(seq))) is not None:
        schemas = schemas_at(manifest.schemas)
        changes += made.rows_of(manifest.seq, log.read_data(manifest), schemas)
        if drop_nothing:
            manifest = replace(manifest, windows=tuple(replace(window, low_ts=window.high_ts) for window in manifest.windows))
        rows = merged(manifest, _needed(manifest, changes), rows_of=partial(_chunk_rows, log, schemas))
        yield from (_as_json(schemas[row.table], row) for row in rows)
        seq += 1


def _needed(manifest: Manifest, changes: list[OutputRow]) -> list[OutputRow]:
    first = min((window.first_seq for window in manifest.windows), default=manifest.seq)
    return changes[bisect_left(changes, int(first), key=lambda change: int(change.seq)) :]


def _chunk_rows(log: MemoryLog, schemas: Mapping[TableName, TableSchema], chunk: ChunkFile) -> Iterator[tuple[Image, Image | None]]:
    schema = schemas[chunk.table]
    absent, rows = (part.select(list(schema.column_names())).to_pylist() for part in parted(log.read_chunk(chunk.path)))
    yield from ((_key(schema, tuple(row.values())), None) for row in absent)
    yield from ((_key(schema, tuple(row.values())), tuple(row.values())) for row in rows)


def _as_json(schema: TableSchema, row: OutputRow) -> dict[str, Any]:
    columns = schema.column_names()
    return {
        "seq": row.seq,
        "ordinal": row.ordinal,
        "commit_ts": str(row.commit_ts),
        "schema": row.table.schema,
        "table": row.table.table,
        "op": row.op,
        "key": dict(zip(schema.key, row.key, strict=True)),
        "before": None if row.before is None else dict(zip(columns, row.before, strict=True)),
        "after": None if row.after is None else dict(zip(columns, row.after, strict=True)),
        "origin": "dump" if row.dump_id else "log",
        "dump_id": row.dump_id,
    }
