"""What a dump scenario may say, a line each:

    new after=400 next_seq=5 epoch=1 readers=1 window_chunks_max=8 open_windows_max=16 chunk_bytes_max=1000   (as wanted)
    start tables=a,b brackets=watermark chunk_rows=10 dump=1         pause    resume    stop    restart dump=2    each with id=1 as wanted
    set chunk_rows=5 readers=2 rows_per_s=0            each as wanted; resume takes them too
    next [throttled=1]                                 what can begin now
    sent mark 0                                        the UPDATE is committed
    read chunk 1 rows=10 last=10 [bytes=100] [tso=420] [exhausted]
    failed mark 0 [fenced | away]                      failed chunk 1 [schema_ts=500 | away]
    ddl a:kept b:again a:gone a:kept:renamed :born:c   a DDL is the last thing in the segment before
    segment seq=5 upto=500 [marks=low@410#0,high@450#1]
    recover                                            die; a Dump of the next epoch goes on from the progress, as JSON

A mark is of this changefeed, dump and epoch unless it says so: `low@410#0/epoch=1`, `sent mark 0/dump=1`,
`high@450#1/changefeed=other`.
Rows are 10 bytes each unless told. Out come commands, closed windows, errors, then the progress if its revision has moved
and the open windows if their number or oldest segment have. Whatever raises is checked to have changed nothing at all.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from typing import Any

from sidecar.core.dump_start import DumpLimits
from sidecar.core.dumps import Dumps
from sidecar.core.marks import DUMP_ID_LENGTH, mark_uuid
from sidecar.shared.errors import RefusedRequest, TicdcDumpError
from sidecar.shared.model.chunk import ChunkFile, ClosedWindow
from sidecar.shared.model.messages import (
    Brackets,
    ChunkMisfit,
    ChunkRead,
    Command,
    MarkFenced,
    MarkSent,
    Pace,
    PauseDump,
    ReadChunk,
    Request,
    RestartDump,
    ResumeDump,
    SegmentBuilt,
    SendMark,
    SetDump,
    Settings,
    SourceEvent,
    SourceFailed,
    StartDump,
    StopDump,
)
from sidecar.shared.model.nouns import CommitTs, Mark, MarkKind, Seq, TableName
from sidecar.shared.model.progress import Progress, Span, TableProgress, progress_from_json
from sidecar.shared.model.schema_step import SchemaFate, TableStep

CHANGEFEED = "cf"
ROW_BYTES = 10


class DumpPlayer:
    dump: Dumps

    def __init__(self) -> None:
        self.asked: dict[int, ReadChunk] = {}
        self.shown: list[str] = []
        self._new([])

    def play(self, line: str) -> list[str]:
        words = line.split()
        if words[0] == "new":
            self._new(words[1:])
            return []
        given = dict(word.split("=", 1) for word in words[1:] if "=" in word)
        flags = {word for word in words[1:] if "=" not in word}
        before = pickle.dumps(self.dump)
        try:
            out = self._act(words, given, flags)
        except TicdcDumpError as error:
            assert pickle.dumps(self.dump) == before, "what is illegal changes nothing"
            reported = "refused" if isinstance(error, RefusedRequest) else type(error).__name__
            out = [f"{reported}: {_first_line(error)}"]
        return [*out, *self._events()] or ["nothing"]

    def _act(self, words: list[str], given: dict[str, str], flags: set[str]) -> list[str]:
        match words:
            case ["next", *_]:
                return self._reported(self.dump.next(throttled={_dump_id(int(given["throttled"]))} if "throttled" in given else ()))
            case ["sent", "mark", number]:
                return self._reported(self.dump.handle(MarkSent(self._uuid(number))))
            case ["read", "chunk", number, *_]:
                return self._reported(self.dump.handle(self._chunk_read(int(number), given, exhausted="exhausted" in flags)))
            case ["failed", kind, number, *_]:
                command: Command = SendMark(self._uuid(number), MarkKind.LOW) if kind == "mark" else self.asked[int(number)]
                return self._reported(self.dump.handle(_failed(command, given, flags)))
            case ["ddl", *reported]:
                self.dump.changed([_step(text) for text in reported])
                return []
            case ["segment", *_]:
                return self._segment(given)
            case ["recover"]:
                stored = json.loads(json.dumps([record.to_json() for record in self.dump.records]))
                self.dump = self._dump(epoch=self.epoch + 1, recovered=tuple(map(progress_from_json, stored)))
                return []
            case _:
                return self._request(words[0], given)

    def _new(self, words: list[str]) -> None:
        given: dict[str, Any] = {name: int(value) for name, value in (word.split("=") for word in words)}
        self.after_ts, self.next_seq, self.dump_number = given.pop("after", 400), given.pop("next_seq", 5), 0
        epoch = given.pop("epoch", 1)
        self.limits = DumpLimits(**{"readers": 1, **given})
        self.dump = self._dump(epoch=epoch, recovered=())
        self.reported = self._state()

    def _dump(self, *, epoch: int, recovered: tuple[Progress, ...]) -> Dumps:
        self.epoch = epoch
        return Dumps(
            changefeed_id=CHANGEFEED,
            epoch=epoch,
            limits=self.limits,
            recovered=recovered,
            after_ts=CommitTs(self.after_ts),
            next_seq=Seq(self.next_seq),
        )

    def _request(self, word: str, given: dict[str, str]) -> list[str]:
        self.dump_number = int(given.get("dump", self.dump_number + (word in ("start", "restart"))))
        dump_id, intended = _dump_id(self.dump_number), _dump_id(int(given["id"])) if "id" in given else ""
        tables = tuple(TableName("s", table) for table in given.get("tables", "").split(",") if table)
        brackets, rows = Brackets(given.get("brackets", "watermark")), int(given.get("chunk_rows", 10))
        changed: dict[str, Any] = {name: int(given[name]) for name in ("chunk_rows", "readers", "rows_per_s") if name in given}
        settings = Settings(**changed)
        requests: dict[str, Request] = {
            "start": StartDump(
                dump_id, tables, brackets, rows, pace=Pace(rows_per_s=int(given.get("rows_per_s", 0))), grows="grows" in given
            ),
            "restart": RestartDump(dump_id, intended),
            "pause": PauseDump(intended),
            "resume": ResumeDump(settings, intended),
            "set": SetDump(settings, intended),
            "stop": StopDump(intended),
        }
        self.dump.request(requests[word])
        return []

    def _chunk_read(self, number: int, given: dict[str, str], *, exhausted: bool) -> ChunkRead:
        requested, rows = self.asked[number], int(given["rows"])
        last = (given["last"],) if "last" in given else None
        size, tso = int(given.get("bytes", rows * ROW_BYTES)), CommitTs(int(given["tso"])) if "tso" in given else None
        bounds = tuple((key,) for key in given.get("bounds", "").split(",") if key)
        file = ChunkFile(requested.table, f"chunk {number}", rows, size, requested.after, last, tso)
        return ChunkRead(number, file, exhausted, bounds, float(given.get("read_s", 0)))

    def _segment(self, given: dict[str, str]) -> list[str]:
        upto_ts = CommitTs(int(given["upto"]))
        built = SegmentBuilt(Seq(int(given["seq"])), CommitTs(self.after_ts), upto_ts)
        closed = self.dump.segment(built, [self._mark(text) for text in given.get("marks", "").split(",") if text])
        self.after_ts, self.next_seq = upto_ts, built.seq + 1
        return [_window(window) for window in closed]

    def _mark(self, text: str) -> Mark:
        place, _, number = text.partition("#")
        kind, _, ts = place.partition("@")
        return Mark(CommitTs(int(ts)), _said(number).get("changefeed", CHANGEFEED), self._uuid(number), MarkKind[kind.upper()])

    def _uuid(self, number: str) -> str:
        said = _said(number)
        dump, epoch = int(said.get("dump", self.dump_number)), int(said.get("epoch", self.epoch))
        return mark_uuid(_dump_id(dump), epoch, int(number.partition("/")[0]))

    def _reported(self, commands: Sequence[Command]) -> list[str]:
        """The commands as text; SELECTs are remembered, so that their ends can be played."""
        out = []
        for command in commands:
            if isinstance(command, SendMark):
                number = int(command.uuid[-8:], 16)
                whose = f" of dump {int(command.uuid[:DUMP_ID_LENGTH])}" if len(self.dump.records) > 1 else ""
                out.append(f"send mark {number} {command.kind.name.lower()}{whose}")
            else:
                self.asked[command.number] = command
                out.append(f"read chunk {command.number} of {command.table.table} {_place(command)}, at most {command.rows_max} rows")
        return out

    def _state(self) -> list[str]:
        open_windows = f"open windows {self.dump.open_windows()}"
        oldest = self.dump.oldest_open_seq()
        shown = [record.dump_id for record in self.dump.records]
        forgotten = [f"dump {int(dump_id)} is forgotten" for dump_id in self.shown if dump_id not in shown] if len(self.shown) > 1 else []
        self.shown = shown
        dumps = [_progress(record) for record in self.dump.records]
        return [*forgotten, *dumps, open_windows + (f", segments kept from {oldest}" if oldest is not None else "")]

    def _events(self) -> list[str]:
        state = self._state()
        events = [now for now in state if now not in self.reported]
        self.reported = state
        return events


def _failed(command: Command, given: dict[str, str], flags: set[str]) -> SourceEvent:
    reason, hint = "TiDB said no", "ask it why"
    if "fenced" in flags and isinstance(command, SendMark):
        return MarkFenced(command, reason, hint)
    if "schema_ts" in given and isinstance(command, ReadChunk):
        return ChunkMisfit(command, CommitTs(int(given["schema_ts"])), reason, hint)
    return SourceFailed(command, reason, hint, away="away" in flags)


def _dump_id(number: int) -> str:
    return f"{number:016d}"


def _said(number: str) -> dict[str, str]:
    return dict(part.split("=") for part in number.split("/")[1:])


def _first_line(error: TicdcDumpError) -> str:
    return str(error).splitlines()[0]


def _key(key: tuple[str, ...] | None) -> str:
    return "none" if key is None else ",".join(key)


def _window(window: ClosedWindow) -> str:
    chunks = [f"{chunk.table.table} after {_key(chunk.after)} {chunk.rows} rows, last {_key(chunk.last)}" for chunk in window.chunks]
    return f"window ({window.low_ts}, {window.high_ts}] from segment {window.first_seq}: {'; '.join(chunks) or 'no chunk'}"


def _progress(progress: Progress) -> str:
    reason = f" because {progress.reason}" if progress.reason else ""
    head = (
        f"dump {int(progress.dump_id)} {progress.state}{reason}, revision {progress.revision}, epoch {progress.epoch}, seq {progress.seq}"
    )
    return f"{head}: {'; '.join(map(_table, progress.tables))}"


def _table(table: TableProgress) -> str:
    name = table.table.table
    if not table.chunks:
        return f"{name} not begun"
    done = f", complete at {table.complete_at}" if table.complete_at is not None else ""
    left = " ".join(_span(span) for span in table.spans)
    return f"{name} chunks {table.chunks}, rows {table.rows}{left and f', left {left}'}{done}"


def _place(command: ReadChunk) -> str:
    return f"after {_key(command.after)}" + (f" up to {_key(command.upper)}" if command.upper else "")


def _span(span: Span) -> str:
    return f"({_key(span.cursor)}, {_key(span.upper)}]"


def _step(text: str) -> TableStep:
    before, fate, after = [*text.split(":"), "", ""][:3]
    name = None if fate == "gone" else TableName("s", after or before)
    return TableStep(TableName("s", before) if before else None, name, SchemaFate(fate))
