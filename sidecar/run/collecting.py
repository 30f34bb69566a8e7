"""What a term has collected of one dump for its certificate: lines that are in parts, and lines that are yet to be written.

It must not read the log, nor know when a dump is over.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sidecar.run.samples import Samples
from sidecar.shared.errors import LogBroken
from sidecar.shared.log.certificate import ChunkLine, HoleLine, SchemaLine, SegmentLine
from sidecar.shared.log.certificate_parts import BatchLine, DroppedLine, Line, SampleLine, ScopeLine
from sidecar.shared.log.manifest import Manifest
from sidecar.shared.model.chunk import ClosedWindow
from sidecar.shared.model.nouns import FIRST_SEQ, OperationId, Seq, TableName, TableSchema
from sidecar.shared.model.sink_delivery import BatchDone

WINDOWS_KEPT_MAX = 50_000
HOLES_KEPT_MAX = 1_000
"""The last ones, of before a dump's first window closes: each is of a cause, which an operator or another program began."""

NO_HINT = "nothing: the dump is what it is without one, in whatever state; dump again for a certificate"


class ReadSegment(NamedTuple):
    """`sha256`: of the bytes of its manifest."""

    manifest: Manifest
    sha256: str

    @property
    def line(self) -> SegmentLine:
        return SegmentLine(self.manifest.seq, self.sha256, self.manifest.previous)


class PassedWindow(NamedTuple):
    """A window that has closed in segment `seq`."""

    seq: Seq
    dump_id: str
    tables: frozenset[TableName]
    sinks: tuple[str, ...]

    @classmethod
    def of(cls, seq: Seq, window: ClosedWindow) -> PassedWindow:
        return cls(seq, window.dump_id, frozenset(chunk.table for chunk in window.chunks), window.sinks)

    def reaches(self, sink: str) -> bool:
        return not self.sinks or sink in self.sinks


class PassedWindows:
    """The last ones, and the last holes. `begins`: the first segment of which all windows are known."""

    def __init__(self, begins: Seq = FIRST_SEQ) -> None:
        self.begins = begins
        self._windows: list[PassedWindow] = []
        self._holes: deque[HoleLine] = deque(maxlen=HOLES_KEPT_MAX)

    def remember(self, manifest: Manifest) -> None:
        self._holes += _holes(manifest)
        self._windows += [PassedWindow.of(manifest.seq, window) for window in manifest.windows]
        if len(self._windows) > WINDOWS_KEPT_MAX:
            self.begins = Seq(self._windows[WINDOWS_KEPT_MAX // 2].seq + 1)
            del self._windows[: bisect_left(self._windows, self.begins, key=_seq)]

    def begun(self, dump_id: OperationId, seq: Seq, first: Sequence[ClosedWindow]) -> CollectedDump:
        """A dump whose `first` windows close in segment `seq`, which comes next, with the holes since its passes over tables began."""
        since = min((chunk.since_seq for window in first for chunk in window.chunks), default=seq)
        dump = CollectedDump.begun(dump_id, seq, first[0].sinks)
        dump.pending += [hole for hole in self._holes if hole.seq >= since]
        return dump

    def within(self, first: Seq, last: Seq) -> list[PassedWindow] | None:
        """Those that closed in these segments; None where that is not known any more, or not yet."""
        if first < self.begins:
            return None
        return self._windows[bisect_left(self._windows, first, key=_seq) : bisect_right(self._windows, last, key=_seq)]


def _holes(manifest: Manifest) -> list[HoleLine]:
    return [HoleLine.of(manifest.seq, hole) for hole in manifest.holes]


def _seq(window: PassedWindow) -> Seq:
    return window.seq


@dataclass(slots=True)
class CollectedDump:
    """Segments `first` to `read` are collected; those up to `saved` are in parts. `last`: the last one in which a window closed.
    `sum`: of the manifest of `read`. `passed`: the last batch of each sink that was looked at. `windows`: the newest segment in
    which a window closed since the last part. `sampled_ms`: the time of the last sample."""

    dump_id: OperationId
    first: Seq
    read: Seq
    saved: Seq
    last: Seq
    sinks: tuple[str, ...] = ()
    sum: str = ""
    chunks: int = 0
    schemas: dict[TableName, SchemaLine] = field(default_factory=dict)
    passed: dict[str, Seq] = field(default_factory=dict)
    pending: list[Line] = field(default_factory=list)
    windows: Manifest | None = None
    sampled_ms: int = 0
    _reported: int = 0

    @classmethod
    def begun(cls, dump_id: OperationId, seq: Seq, sinks: tuple[str, ...]) -> CollectedDump:
        """Its first window closes in segment `seq`, which comes next."""
        before = Seq(seq - 1)
        return cls(dump_id, seq, before, before, seq, sinks)

    @classmethod
    def resumed(cls, dump_id: OperationId, lines: Iterable[Line]) -> CollectedDump | None:
        """By its parts; None where they say nothing."""
        dump: CollectedDump | None = None
        for line in lines:
            match line:
                case SegmentLine(seq=seq, sha256=sha256):
                    dump = dump or cls.begun(dump_id, Seq(seq), ())
                    dump.read = dump.saved = Seq(seq)
                    dump.sum = sha256
                case ChunkLine(seq=seq) if dump is not None:
                    dump.last, dump.chunks = Seq(seq), dump.chunks + 1
                case SchemaLine() if dump is not None:
                    dump.schemas[TableName(line.schema, line.table)] = line
                case ScopeLine(sinks=sinks) if dump is not None:
                    dump.sinks = sinks
                case BatchLine(sink=sink, last=last) if dump is not None:
                    dump.passed[sink] = Seq(max(last, dump.passed.get(sink, -1)))
                case SampleLine(at_ms=at_ms) if dump is not None:
                    dump.sampled_ms = max(at_ms, dump.sampled_ms)
        return dump

    def add(self, segment: ReadSegment, schemas: Mapping[TableName, TableSchema]) -> None:
        """The segment behind `read`; one that is collected already changes nothing. Raises LogBroken for one that does not follow."""
        manifest = segment.manifest
        if manifest.seq <= self.read:
            return
        if self.sum and manifest.previous and manifest.previous != self.sum:
            raise LogBroken(f"segment {manifest.seq} does not follow the segment {self.read} that was collected", hint=NO_HINT)
        self.pending += [segment.line, *_holes(manifest)]
        self.read, self.sum = manifest.seq, segment.sha256
        for window in manifest.windows:
            if window.dump_id == self.dump_id:
                self._add_window(manifest.seq, window, schemas)
                self.windows = manifest

    def _add_window(self, seq: Seq, window: ClosedWindow, schemas: Mapping[TableName, TableSchema]) -> None:
        self.last, self.sinks = seq, window.sinks
        for chunk in window.chunks:
            schema = schemas.get(chunk.table)
            line = None if schema is None else SchemaLine.of(schema, seq)
            before = self.schemas.get(chunk.table)
            if line is not None and (before is None or (before.columns, before.key) != (line.columns, line.key)):
                self.schemas[chunk.table] = line
                self.pending.append(line)
            self.pending.append(ChunkLine.of(seq, window, chunk))
            self.chunks += 1

    def accepted_by(self, sink: str) -> bool:
        """Whether it receives the dump."""
        return not self.sinks or sink in self.sinks

    def note(self, sink: str, batch: BatchDone, windows: Iterable[PassedWindow] | None) -> None:
        """A batch of a sink that receives the dump. `windows`: those that closed in its segments; None where that is not known."""
        if batch.last <= self.passed.get(sink, -1):
            return
        self.passed[sink] = batch.last
        first = Seq(batch.last - batch.segments + 1)
        mine: set[TableName] = set()
        others: set[TableName] = set()
        for window in windows or ():
            (mine if window.dump_id == self.dump_id else others).update(window.tables if window.reaches(sink) else ())
        if windows is None or (mine and batch.dropped is None):
            self.pending.append(BatchLine(sink, first, batch.last, None))
        elif mine:
            rows = ((TableName(one.schema, one.table), one.rows) for one in batch.dropped or ())
            dropped = (DroppedLine(*table, None if table in others else number) for table, number in rows if table in mine)
            self.pending.append(BatchLine(sink, first, batch.last, tuple(dropped)))

    def sample(self, samples: Samples) -> None:
        """Those in which it runs."""
        sample_lines = [one for one in samples.after(self.sampled_ms) if self.dump_id in one.running]
        self.pending += sample_lines
        self.sampled_ms = sample_lines[-1].at_ms if sample_lines else self.sampled_ms

    def new_lines(self) -> list[Line]:
        """Those that are pending since the last call."""
        lines, self._reported = self.pending[self._reported :], len(self.pending)
        return lines

    def saved_lines(self) -> None:
        """The pending lines are in a part."""
        self.pending, self.windows, self.saved, self._reported = [], None, self.read, 0
