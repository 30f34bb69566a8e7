"""What is collected for a dump's certificate while the dump runs: `certificates/{dump_id}.parts/{first}-{last}-{epoch}.jsonl`.

A part has what segments `first` to `last` bring, a line each: their sums, the chunks of the dump, the schemas of their tables, the dump's
scope and what batches of the sinks dropped. What a segment brings follows from its manifest. Of a segment that is in two parts the first
one counts. A batch is identified by its sink and its last segment.

An owner reads, writes and removes parts of its own epoch, so a late one cannot touch what a later one has. It begins with what it takes
over (`taken_over`): the parts of the owner before it, as one part of its own.

Samples of the status are beside them, for the dump's report (sidecar/report).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import msgspec

from sidecar.shared.errors import LogBroken
from sidecar.shared.log import storage
from sidecar.shared.log.certificate import ChunkLine, HoleLine, SchemaLine, SegmentLine
from sidecar.shared.log.dump_files import CERTIFICATES
from sidecar.shared.log.owned import NO_EPOCH
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import OPERATION_ID, OperationId, Seq
from sidecar.shared.model.progress import Progress

_PART = re.compile(rf"({OPERATION_ID})\.parts/([0-9]{{20}})-([0-9]{{20}})(?:-([0-9]{{10}}))?\.jsonl")
"""Without an epoch it is of 0.4.0 or before."""


class _Part(NamedTuple):
    first: int
    last: int
    epoch: int
    name: str


class ScopeTable(msgspec.Struct, frozen=True):
    """As of TableProgress. `keys`: how many handle keys are requested; 0: all. `since_seq`: 0 by 0.4 and before."""

    schema: str
    table: str
    where: str | None
    keys: int
    whole: bool
    complete_at: str | None
    since_seq: int = 0


class ScopeLine(msgspec.Struct, frozen=True, tag_field="is", tag="scope"):
    """The dump's tables as of segment `seq`. `sinks`: as of Progress."""

    seq: int
    tables: tuple[ScopeTable, ...]
    sinks: tuple[str, ...]

    @classmethod
    def of(cls, seq: Seq, progress: Progress) -> ScopeLine:
        tables = (
            ScopeTable(
                *(*one.table, one.where, one.key_count, one.whole),
                complete_at=None if one.complete_at is None else str(one.complete_at),
                since_seq=one.since_seq,
            )
            for one in progress.tables
        )
        return cls(seq, tuple(tables), progress.sinks)


class DroppedLine(msgspec.Struct, array_like=True, frozen=True):
    """Of the dump, in a batch; None where another dump has rows of the table in the batch, too."""

    schema: str
    table: str
    rows: int | None


class BatchLine(msgspec.Struct, frozen=True, tag_field="is", tag="batch"):
    """`sink` has accepted segments `first` to `last`. `dropped`: by table, of tables of the dump; None: not known."""

    sink: str
    first: int
    last: int
    dropped: tuple[DroppedLine, ...] | None


class SinkSample(msgspec.Struct, array_like=True, frozen=True):
    """As of SinkState."""

    sink: str
    median_s: float
    live_s: float
    bound_s: float
    limit_s: float


class SampleLine(msgspec.Struct, frozen=True, tag_field="is", tag="sample"):
    """As of SidecarStatus, at `at_ms` by the owner's wall clock. `running`: the ids of the dumps that run. `changes_per_s`: since the
    sample before."""

    at_ms: int
    epoch: int
    running: tuple[str, ...]
    rows_per_s: float
    changes_per_s: float
    resolved_lag_s: float
    delivery_lag_s: float
    open_windows: int
    waiting_for: str
    sinks: tuple[SinkSample, ...] = ()


Line: TypeAlias = SegmentLine | SchemaLine | ChunkLine | ScopeLine | BatchLine | SampleLine | HoleLine
OfSegment = (SegmentLine, SchemaLine, ChunkLine, ScopeLine)
"""Lines that a segment brings. A hole can be of a segment before the first one."""

_line_of = msgspec.json.Decoder(Line).decode


def collected(log: Folder) -> list[OperationId]:
    """The ids of the dumps that have parts."""
    return sorted({OperationId(match[1]) for name in _names(log) if (match := _PART.fullmatch(name))})


def write_part(log: Folder, epoch: int, dump_id: OperationId, first: Seq, last: Seq, lines: Sequence[Line]) -> None:
    """Raises as the log's storage."""
    data = b"".join(map(_encoded, lines))
    storage.write_atomically(log, _part_name(dump_id, first, last, epoch), data)


def read_parts(log: Folder, epoch: int, dump_id: OperationId) -> Iterator[Line]:
    """All lines of this owner's parts in the order of their segments, those of a segment once. Raises LogBroken for a gap, and for what is
    no part."""
    return _lines_of(log, dump_id, [part for part in _parts(log, dump_id) if part.epoch == epoch])


def taken_over(log: Folder, epoch: int, dump_id: OperationId) -> Iterator[Line]:
    """As `read_parts`, with what the latest owner before this one has left, which is this owner's when all is read."""
    parts = [part for part in _parts(log, dump_id) if part.epoch <= epoch]
    latest = max((part.epoch for part in parts), default=epoch)
    mine = [part for part in parts if part.epoch == latest]
    if latest == epoch:
        yield from _lines_of(log, dump_id, mine)
        return
    name = _part_name(dump_id, min(part.first for part in mine), max(part.last for part in mine), epoch)
    with storage.new_file(log, name) as out:
        for line in _lines_of(log, dump_id, mine):
            out.write(_encoded(line))
            yield line
    storage.remove(log, [part.name for part in parts])


def _lines_of(log: Folder, dump_id: OperationId, parts: Iterable[_Part]) -> Iterator[Line]:
    passed: int | None = None
    for part in parts:
        if passed is not None and part.first > passed + 1:
            raise LogBroken(f"{log}: segment {passed + 1} is in no part of certificate {dump_id}", hint="nothing: it has no certificate")
        if passed is None or part.last > passed:
            lines = _lines(log, part.name)
            yield from (line for line in lines if not isinstance(line, OfSegment) or passed is None or line.seq > passed)
            passed = part.last


def read_samples(log: Folder, after_ms: int, *, parts_max: int) -> list[SampleLine]:
    """Those of all dumps that have parts, of the newest parts, until one ends before `after_ms`. Oldest first, each once.
    Raises as the log's storage."""
    sample_lines: dict[tuple[int, int], SampleLine] = {}
    for dump_id in collected(log):
        for part in _parts(log, dump_id)[: -parts_max - 1 : -1]:
            there = list(_sample_lines(log, part.name))
            sample_lines |= {(line.at_ms, line.epoch): line for line in there if line.at_ms > after_ms}
            if there and there[-1].at_ms <= after_ms:
                break
    return [sample_lines[key] for key in sorted(sample_lines)]


def _sample_lines(log: Folder, name: str) -> Iterator[SampleLine]:
    try:
        yield from (line for line in _lines(log, name) if isinstance(line, SampleLine))
    except (FileNotFoundError, LogBroken):
        return  # it was removed meanwhile, or is damaged, of which the dump's certificate says more


def remove_parts(log: Folder, epoch: int, dump_id: OperationId) -> None:
    """Those of this owner and of earlier ones."""
    storage.remove(log, [part.name for part in _parts(log, dump_id) if part.epoch <= epoch])


def _part_name(dump_id: OperationId, first: int, last: int, epoch: int) -> str:
    return f"{CERTIFICATES.folder}/{dump_id}.parts/{first:020d}-{last:020d}-{epoch:010d}.jsonl"


def _parts(log: Folder, dump_id: OperationId) -> list[_Part]:
    """Of all owners."""
    matches = (_PART.fullmatch(name) for name in _names(log))
    mine = (one for one in matches if one is not None and one[1] == dump_id)
    parts = (_Part(int(one[2]), int(one[3]), int(one[4] or NO_EPOCH), f"{CERTIFICATES.folder}/{one[0]}") for one in mine)
    return sorted(parts, key=lambda part: (part.first, -part.last))


def _encoded(line: Line) -> bytes:
    return msgspec.json.encode(line) + b"\n"


def _names(log: Folder) -> list[str]:
    return storage.list_names(log, under=CERTIFICATES.folder, deep=True)


def _lines(log: Folder, name: str) -> Iterator[Line]:
    try:
        with storage.open_to_read(log, name) as file:
            for line in file:
                yield _line_of(line)
    except (ValueError, RecursionError) as error:
        raise LogBroken(f"{log}/{name} is no part of a certificate: {error}", hint="nothing: its dump has no certificate") from error
