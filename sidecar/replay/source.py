"""The source port over a recording: marks and SELECTs carried out by a stand-in cluster, as a seed schedules them.

Each `results()` is one step of time. A mark commits after some steps and is reported after some more; the next mark waits
for that. A SELECT happens at one moment after some steps, its chunk file is written then, and is reported after some
more: reads that are under way together finish in any order.

`close` is a crash: a mark may be committed and a chunk file written that were never reported.

`recorded_windows` reads the dump that was recorded beside the feed, for a run that plays its marks and chunks instead.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from sidecar.replay.judge.rows import Key
from sidecar.replay.recording import Recording
from sidecar.replay.tables import RecordedTables
from sidecar.shared.errors import FeedUnsuitable, SourceError
from sidecar.shared.log.absent import with_absent
from sidecar.shared.model.chunk import ChunkFile, WrittenChunk
from sidecar.shared.model.messages import (
    Brackets,
    ChunkMisfit,
    ChunkRead,
    Command,
    MarkSent,
    ReadChunk,
    SendMark,
    SourceEvent,
    SourceFailed,
)
from sidecar.shared.model.nouns import CommitTs, MarkKind, TableName, TableSchema, physical_ms

MARK_ROW_ID = 1
"""The watermark row's `id`; the recordings' own row has a random one."""

STEPS_MAX = 8
"""The longest a command waits in each of its phases."""

WriteChunk = Callable[[str, pa.Table], WrittenChunk]
"""Write the table durably under this path of the log."""


class MarkEncoder(Protocol):
    """The feed's own form of a watermark row's new version."""

    @property
    def encode_mark(self) -> Callable[..., tuple[bytes | None, bytes]]: ...


class RecordedCluster(Protocol):
    """The part of sidecar.replay.feed.RecordingFeed that a database would have: time, and commits that reach the feed."""

    @property
    def config(self) -> MarkEncoder: ...
    def now_ts(self) -> CommitTs: ...
    def inject(self, commit_ts: CommitTs, key: bytes | None, value: bytes) -> None: ...


@dataclass(slots=True)
class WatermarkRow:
    """The row in the stand-in cluster: it outlives a source. `holds` is None before the first mark."""

    changefeed_id: str
    holds: tuple[str, MarkKind] | None = None


@dataclass(slots=True)
class _Mark:
    """Steps until it commits, then steps until that is reported."""

    command: SendMark
    steps: int
    committed: bool = False


@dataclass(slots=True)
class _Read:
    """Steps until the SELECT, then steps until its event is reported."""

    command: ReadChunk
    steps: int
    event: ChunkRead | ChunkMisfit | SourceFailed | None = None


@dataclass(slots=True)
class RecordedSource:
    """sidecar.ports.Source. `steps_max` 0 does everything within the next `results`."""

    tables: RecordedTables
    cluster: RecordedCluster
    row: WatermarkRow
    write_chunk: WriteChunk
    seed: int = 0
    steps_max: int = STEPS_MAX
    _random: Random = field(init=False)
    _marks: deque[_Mark] = field(default_factory=deque, init=False)
    _reads: list[_Read] = field(default_factory=list, init=False)
    _schemas: Mapping[TableName, TableSchema] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._random = Random(self.seed)

    def request(self, command: Command) -> None:
        match command:
            case SendMark():
                self._marks.append(_Mark(command, self._steps()))
            case ReadChunk():
                self._reads.append(_Read(command, self._steps()))

    def follow(self, schemas: Mapping[TableName, TableSchema]) -> None:
        self._schemas = schemas

    def results(self) -> Sequence[SourceEvent]:
        """What one step of time brings."""
        return [*self._step_marks(), *self._step_reads()]

    def close(self) -> None:
        self._marks.clear()
        self._reads.clear()

    def _steps(self) -> int:
        return self._random.randint(0, self.steps_max)

    def _step_marks(self) -> list[SourceEvent]:
        events: list[SourceEvent] = []
        while self._marks:
            mark = self._marks[0]
            if mark.steps > 0:
                mark.steps -= 1
                break
            if mark.committed:
                events.append(MarkSent(self._marks.popleft().command.uuid))
            else:
                self._commit(mark.command)
                mark.committed, mark.steps = True, self._steps()
        return events

    def _commit(self, command: SendMark) -> None:
        commit_ts = self.cluster.now_ts()
        key, value = self.cluster.config.encode_mark(
            commit_ts=commit_ts,
            row_id=MARK_ROW_ID,
            changefeed_id=self.row.changefeed_id,
            uuid=command.uuid,
            kind=command.kind,
            previous=self.row.holds,
            now_ms=physical_ms(commit_ts),
        )
        self.cluster.inject(commit_ts, key, value)
        self.row.holds = (command.uuid, command.kind)

    def _step_reads(self) -> list[SourceEvent]:
        """Reads of one step are taken in any order: they run side by side."""
        events: list[SourceEvent] = []
        for read in self._random.sample(self._reads, len(self._reads)):
            if read.event is None and read.steps == 0:
                read.event, read.steps = self._select(read.command), self._steps()
            if read.event is not None and read.steps == 0:
                events.append(read.event)
                self._reads.remove(read)
            read.steps -= 1
        return events

    def _select(self, command: ReadChunk) -> ChunkRead | ChunkMisfit | SourceFailed:
        read_tso = self.cluster.now_ts()
        if command.where is not None:
            return SourceFailed(command, reason="a recording evaluates no SQL predicate", hint="replay the whole table")
        wanted, present = self._schemas.get(command.table), self.tables.schema(command.table, read_tso)
        if wanted is not None and (present is None or not set(wanted.column_names()) <= set(present.column_names())):
            reason = f"{command.table} is not what it was at {read_tso}"
            return ChunkMisfit(command, self.cluster.now_ts(), reason=reason, hint="wait for its DDL")
        try:
            chunk = (
                self.tables.by_key(command.table, command.keys, at_ts=read_tso)
                if command.keys
                else self.tables.chunk(command.table, after=command.after, upper=command.upper, rows_max=command.rows_max, at_ts=read_tso)
            )
        except SourceError as error:
            return SourceFailed(command, reason=error.message, hint=error.hint)
        path = f"chunks/{command.dump_id}/{command.epoch:010d}-{command.number:08d}.parquet"
        rows = chunk.rows if wanted is None else chunk.rows.select(list(wanted.column_names()))
        if wanted is not None:
            rows = with_absent(rows, wanted.key, chunk.absent)
        written = self.write_chunk(path, rows)
        file = ChunkFile(
            table=command.table,
            path=path,
            rows=rows.num_rows,
            bytes=written.bytes,
            after=command.after,
            last=chunk.last,
            read_tso=read_tso if command.brackets is Brackets.SNAPSHOT else None,
            absent=len(chunk.absent),
            sha256=written.sha256,
            rows_sum=written.rows_sum,
        )
        parts = command.bounds_max if not chunk.exhausted else 0
        bounds = self.tables.bounds(command.table, after=chunk.last, at_ts=read_tso, at_most=parts) if parts else ()
        return ChunkRead(command.number, file, chunk.exhausted, bounds)


# ---- the recorded dump ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RecordedChunk:
    """Rows of `table` with key in `(after, last]` as the recorded SELECT gave them: canonical text, the feed's columns."""

    table: TableName
    rows: pa.Table
    after: Key | None
    last: Key | None
    read_tso: CommitTs


@dataclass(frozen=True, slots=True)
class RecordedWindow:
    """The marks around the chunks: their uuids, and the commit_ts with which they are in the feed."""

    low_uuid: str
    high_uuid: str
    low_ts: CommitTs
    high_ts: CommitTs
    chunks: tuple[RecordedChunk, ...]


@dataclass(frozen=True, slots=True)
class RecordedWindows:
    """The dump as it was recorded; its marks are in the feed under `changefeed_id`. Windows in the order of their marks."""

    changefeed_id: str
    windows: tuple[RecordedWindow, ...]


def recorded_windows(recording: Recording) -> RecordedWindows:
    """Chunks of tables that TiCDC does not replicate are omitted. Raises FeedUnsuitable for a recording without a dump."""
    folder = recording.folder / "dump"
    try:
        content = json.loads((folder / "windows.json").read_bytes())
    except (OSError, ValueError) as error:
        raise FeedUnsuitable(f"{folder / 'windows.json'} holds no recorded dump: {error}", hint="choose a recording with a dump") from error

    def chunk(entry: dict[str, object]) -> RecordedChunk:
        table = TableName(*str(entry["table"]).split(".", 1))
        rows = pq.read_table(folder / str(entry["file"]), columns=list(recording.schemas[table].column_names()))
        return RecordedChunk(table, rows, _key(entry["after"]), _key(entry["last"]), CommitTs(int(str(entry["tso"]))))

    replicated = {str(name) for name, schema in recording.schemas.items() if schema.key}
    windows = tuple(
        RecordedWindow(
            low_uuid=window["low"],
            high_uuid=window["high"],
            low_ts=CommitTs(int(window["low_commit_ts"])),
            high_ts=CommitTs(int(window["high_commit_ts"])),
            chunks=tuple(chunk(entry) for entry in window["chunks"] if entry["table"] in replicated),
        )
        for window in content["windows"]
    )
    return RecordedWindows(content["changefeed_id"], windows)


def _key(value: object) -> Key | None:
    return tuple(str(text) for text in value) if isinstance(value, list) else None
