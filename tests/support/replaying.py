"""A recording through the whole line without Spark: the real pipeline over the twins in memory, merged by `rule.py`.

What does not depend on the schedule (decoded changes, truth, the tables' history) is made once for each feed, so that many
schedules are cheap. Spark's own way through the same recordings is in tests/spark.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from random import Random
from typing import Any

import pyarrow as pa

from sidecar.adapters.memory import MemoryDisk, MemoryLog, MemoryProgress, StillSchemas
from sidecar.adapters.spill import MemorySpill
from sidecar.codecs.contract import Codec
from sidecar.core.manifest import ChunkFile, Manifest
from sidecar.core.messages import Brackets, StartDump
from sidecar.core.model import MARK_TABLE, Change, CommitTs, Message, Rank, Seq, TableName, TableSchema
from sidecar.core.progress import DumpState
from sidecar.pipeline import Limits, Outside, Pipeline, attach
from sidecar.replay.crashes import Crash, Fate, MortalFeed, MortalLog, MortalProgress
from sidecar.replay.feed import Play, RecordingFeed
from sidecar.replay.operator import Script
from sidecar.replay.recorded_dump import RecordedDump
from sidecar.replay.recording import FeedConfig, Recording
from sidecar.replay.replay import NoSource
from sidecar.replay.source import RecordedSource, RecordedWindows, WatermarkRow, recorded_windows
from sidecar.replay.tables import RecordedTables
from sidecar.replay.verify import Verdict, replay
from spark_merge.decode.rows import decode
from spark_merge.rule import Image, OutputRow, merged
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
    config: FeedConfig
    codec: Codec
    truth: CachedTruth
    tables: tuple[TableName, ...]
    history: RecordedTables
    windows: RecordedWindows
    decoded: dict[tuple[int, Hashable], list[OutputRow]] = field(default_factory=dict)

    def rows_of(self, seq: Seq, ordinal: int, change: Change) -> list[OutputRow]:
        """What the change is in the output, decoded once."""
        found = self.decoded[change.commit_ts, self.codec.identity(change)]
        return [row._replace(seq=seq, ordinal=ordinal) for row in found]


@cache
def stage(name: str, feed: str) -> Stage:
    found = Recording(recording(name))
    config = found.feed_config(feed)
    tables = tuple(table for table, schema in found.schemas.items() if schema.key and table != MARK_TABLE)
    made = Stage(found, config, config.codec(), CachedTruth(found), tables, RecordedTables(found, config), recorded_windows(found))
    _decode_all(made)
    return made


def _decode_all(made: Stage) -> None:
    changes = [
        change
        for lane, messages in made.recording.messages(made.config).items()
        for position, message in enumerate(messages)
        for change in made.codec.envelopes(Message(lane, position, message.key, message.value))
        if isinstance(change, Change) and (change.schema, change.table) != MARK_TABLE
    ]
    table = pa.table(
        {
            "ordinal": range(len(changes)),
            "commit_ts": [c.commit_ts for c in changes],
            "op": ["delete" if c.rank is Rank.DELETE else "put" for c in changes],
            "schema": [c.schema for c in changes],
            "table": [c.table for c in changes],
            "codec": [made.codec.name] * len(changes),
            "key": [c.key for c in changes],
            "value": [c.value for c in changes],
            "lane": [c.lane for c in changes],
            "position": [c.position for c in changes],
            "seq": pa.array([0] * len(changes), pa.int64()),
        }
    )
    for row in decode(table, codec=made.codec.name, schemas=made.recording.schemas).to_pylist():
        change = changes[row["ordinal"]]
        name = TableName(row["schema"], row["table"])
        image = row["after"] or row["before"]
        key = _key(made.recording.schemas[name], image)
        output = OutputRow(0, row["commit_ts"], row["rank"], 0, name, row["op"], key, _image(row["before"]), _image(row["after"]))
        place = made.decoded.setdefault((change.commit_ts, made.codec.identity(change)), [])
        if output not in place:
            place.append(output)


def _image(found: list[str | None] | None) -> Image | None:
    return None if found is None else tuple(found)


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


def play(made: Stage, run: Run) -> tuple[Verdict, list[str]]:
    """Play to the end, with crashes, and judge. Returns the verdict and the deaths."""
    disk, stored = MemoryDisk(), MemoryProgress()
    fate = Fate(Random(run.seed), run.crashes, chance=0.02)
    feed = RecordingFeed(made.recording, made.config, Play(seed=run.seed, resends=run.resends))
    row = WatermarkRow(CHANGEFEED)
    brackets = Brackets.WATERMARK if run.brackets == "recorded" else Brackets(run.brackets)
    script = Script(Random(run.seed), StartDump(f"{run.seed:016x}", made.tables, brackets, run.chunk_rows))
    pipeline: Pipeline | None = None
    epoch = 0
    for _ in range(STEPS_MAX):
        try:
            if pipeline is None:
                epoch += 1
                pipeline = _attach(made, run, disk=disk, stored=stored, fate=fate, feed=feed, row=row, script=script, epoch=epoch)
            pipeline.step(poll_s=0)
        except Crash:
            pipeline = None
            continue
        progress = pipeline.dump.progress
        if progress and progress.state is DumpState.FINISHED and feed.exhausted and pipeline.sequence.after_ts >= made.recording.end_ts:
            complete_at = {t.table: t.complete_at for t in progress.tables if t.complete_at is not None}
            upto_ts = pipeline.sequence.after_ts
            return replay(
                _output(made, disk, drop_nothing=run.drop_nothing), made.truth, upto_ts=upto_ts, complete_at=complete_at, tables=made.tables
            ), fate.deaths
    raise AssertionError(f"does not end: {pipeline and pipeline.dump.progress}")


def _attach(
    made: Stage,
    run: Run,
    *,
    disk: MemoryDisk,
    stored: MemoryProgress,
    fate: Fate,
    feed: RecordingFeed,
    row: WatermarkRow,
    script: Script,
    epoch: int,
) -> Pipeline:
    log = MemoryLog(disk)
    write_chunk = partial(_write_chunk, log, fate)
    outside = Outside(
        feed=MortalFeed(feed, fate),
        codec=made.codec,
        log=MortalLog(log, fate),
        source=NoSource() if run.brackets == "recorded" else RecordedSource(made.history, feed, row, write_chunk, seed=run.seed + epoch),
        schemas=StillSchemas(made.recording.schemas),
        progress=MortalProgress(stored, fate),
        requests=script,
        clock=_Clock(),
        spill=MemorySpill(),
    )
    pipeline = attach(outside, changefeed_id=CHANGEFEED, epoch=epoch, limits=Limits())
    if run.brackets == "recorded":
        pipeline.dump = RecordedDump(
            made.windows.windows,
            tables=made.tables,
            changefeed_id=made.windows.changefeed_id,
            epoch=epoch,
            after_ts=pipeline.sequence.after_ts,
            next_seq=pipeline.next_seq,
            progress=pipeline.dump.progress,
            write_chunk=log.write_chunk,
        )
    return pipeline


def _write_chunk(log: MemoryLog, fate: Fate, path: str, rows: pa.Table) -> int:
    return fate.around("chunk file", lambda: log.write_chunk(path, rows))


class _Clock:
    """Every look is a tenth of a second later."""

    def __init__(self) -> None:
        self.time_s = 0.0

    def now_s(self) -> float:
        self.time_s += 0.1
        return self.time_s


def _output(made: Stage, disk: MemoryDisk, *, drop_nothing: bool) -> Iterator[dict[str, Any]]:
    """The merged output in order, as the jsonl sink's rows."""
    log, seq = MemoryLog(disk), 0
    changes: list[OutputRow] = []
    while (manifest := log.manifest(Seq(seq))) is not None:
        for ordinal, change in enumerate(log.read_data(manifest)):
            if (change.schema, change.table) != MARK_TABLE:
                changes += made.rows_of(manifest.seq, ordinal, change)
        if drop_nothing:
            manifest = replace(manifest, windows=tuple(replace(window, low_ts=window.high_ts) for window in manifest.windows))
        yield from (_as_json(made, row) for row in merged(manifest, _needed(manifest, changes), rows_of=partial(_chunk_rows, made, log)))
        seq += 1


def _needed(manifest: Manifest, changes: list[OutputRow]) -> list[OutputRow]:
    first = min((window.first_seq for window in manifest.windows), default=manifest.seq)
    return [change for change in changes if change.seq >= first]


def _chunk_rows(made: Stage, log: MemoryLog, chunk: ChunkFile) -> Iterator[tuple[Image, Image]]:
    schema = made.recording.schemas[chunk.table]
    columns = log.read_chunk(chunk.path).select(list(schema.column_names())).to_pydict().values()
    for image in zip(*columns, strict=True):
        yield _key(schema, image), image


def _as_json(made: Stage, row: OutputRow) -> dict[str, Any]:
    schema = made.recording.schemas[row.table]
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
