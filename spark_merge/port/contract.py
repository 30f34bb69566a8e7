"""The sink's port, and what a task hands to a sink. The rules of all sinks are in tests/PROMISES.md, "Delivery".

    open ─► plan ─► [task, task, …] a stage ─► the next stage ─► accept ─► plan ─► …

A **batch** is some segments in a row, cut by the sink into independent **tasks**; a task is a list of **units**, and a unit is what the
sink's output is made of: the live rows of one segment, chunks of one segment and table, or both. What is in a unit is a function of
the log and of constants that the sink keeps beside its output, never of the batch, the cores or the place: so a batch that is done
again in another cut writes the same units.

The rows of a task come as **portions**, one table's rows of one segment, each a sequence of pieces in output order:
`commit_ts, rank, ordinal`. A chunk's rows have commit_ts = high_ts and the last rank: they come after every change <= high_ts and before
every change > high_ts.

Three kinds of sink, each with a twin in sinks/memory/; spark_merge/testing/sink_port.py is what all must pass:

    hidden       nothing is seen before `accept`                               files, storage layout, lakes, subscribers
    committing   each task's own transaction is seen, and holds its slot       Kafka, SQL, SQLite, HTTP
    versioned    of each key the greatest (commit_ts, rank) wins               ClickHouse, search engines
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

import pyarrow as pa

from sidecar.shared.errors import OwnershipLost
from sidecar.shared.log.manifest import DdlRecord, Manifest
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.chunk import ChunkFile, ClosedWindow
from sidecar.shared.model.nouns import FIRST_SEQ, MARK_TABLE, CommitTs, Seq, TableName, TableSchema
from sidecar.shared.model.progress import SegmentDump

RANK_DELETE, RANK_PUT, RANK_CHUNK = 0, 1, 9

TEXTS = pa.list_(pa.field("element", pa.string()))
CHANGES = pa.schema(
    [
        ("seq", pa.int64()), ("commit_ts", pa.int64()), ("rank", pa.int32()), ("ordinal", pa.int64()), ("schema", pa.string()),
        ("table", pa.string()), ("op", pa.string()), ("key", pa.string()), ("before", TEXTS), ("after", TEXTS),
    ]
)  # fmt: skip
"""Decoded live changes. `op` insert | update | delete; `before`/`after` are canonical text in the order of the table schema's columns,
null where there is no such image. `key` is `key_text` of the row's handle key. An update that changes the handle key is two rows, a
delete of the old key (rank 0) and an insert of the new one (rank 1), both with the change's ordinal: so each row has one key, and
deletes come before puts at one commit_ts."""

RAW_CHANGES = pa.schema(
    [*CHANGES, ("message_key", pa.binary()), ("message_value", pa.binary()), ("lane", pa.string()), ("position", pa.int64())]
)
"""For a sink that asks: the message as TiCDC wrote it, and where. Of an update that is two rows, the delete has no value. Rows of a table
with masked columns (spark_merge/masks) have CHANGES alone, and the `message_key` of raw key-values: a message has what is masked."""


# ---- what there is to deliver --------------------------------------------------------------------------------------


class DumpPass(NamedTuple):
    """One reading of a table by a dump, from its beginning to its end: a key is in one chunk of it at most (sidecar/core/plan.py). It has
    no chunk in segments before `since_seq`. Two passes over a table differ as text."""

    dump_id: str
    since_seq: Seq

    def __str__(self) -> str:
        return f"{self.dump_id} {self.since_seq}" if self.since_seq else self.dump_id


@dataclass(frozen=True, slots=True)
class DueChunk:
    """A chunk whose window closed in segment `seq`; `number` is its place among the segment's chunks. Changes of its window begin in
    segment `first_seq`. `since_seq`: as of its ChunkFile."""

    table: TableName
    low_ts: CommitTs
    high_ts: CommitTs
    first_seq: Seq
    seq: Seq
    number: int
    dump_id: str
    path: str
    rows: int
    since_seq: Seq = FIRST_SEQ
    bytes: int = 0

    @property
    def dump_pass(self) -> DumpPass:
        return DumpPass(self.dump_id, self.since_seq)


@dataclass(frozen=True, slots=True)
class Head:
    """A segment, but its rows. `schemas` hold in it, `next_schemas` after its DDLs, which end it. `dump`: the states of the dumps, for
    readers of the output; None before the log's first one. `received_as`: the name of the sink that receives the segment, on which it hangs
    which dumps are in it (delivery/complete.py::received). `reread`: its DDLs, each with its table, whose values a dump brings to this sink
    in later segments (delivery/rereads.py). Small to send to a task."""

    manifest: Manifest
    schemas: Mapping[TableName, TableSchema]
    next_schemas: Mapping[TableName, TableSchema]
    dump: SegmentDump | None = None
    received_as: str = ""
    reread: frozenset[tuple[CommitTs, TableName]] = frozenset()

    @property
    def seq(self) -> Seq:
        return self.manifest.seq

    @property
    def upto_ts(self) -> CommitTs:
        return self.manifest.upto_ts

    @property
    def table_rows(self) -> Mapping[TableName, int] | None:
        """Live rows by table; None where the manifest does not say."""
        return {} if self.manifest.data is None else self.manifest.table_rows

    @property
    def ddls(self) -> tuple[DdlRecord, ...]:
        return self.manifest.ddls

    @property
    def windows(self) -> tuple[ClosedWindow, ...]:
        return self.manifest.windows

    def due_chunks(self) -> list[DueChunk]:
        """The chunks of the windows that closed in it, but empty ones."""
        chunks = [(window, chunk) for window in self.windows for chunk in window.chunks]
        return [self._due(number, window, chunk) for number, (window, chunk) in enumerate(chunks) if chunk.rows]

    def _due(self, number: int, window: ClosedWindow, chunk: ChunkFile) -> DueChunk:
        times = window.low_ts, window.high_ts, window.first_seq
        rows, size = chunk.rows, chunk.bytes
        return DueChunk(chunk.table, *times, self.seq, number, window.dump_id, chunk.path, rows, chunk.since_seq, size)


def has_rows(schema: TableSchema) -> bool:
    """Whether a log has rows of the table that are data: TiCDC sends none of a table without a handle key."""
    return bool(schema.key and schema.columns) and schema.name.schema != MARK_TABLE.schema


# ---- how a sink cuts it ---------------------------------------------------------------------------------------------


Between: TypeAlias = "tuple[CommitTs, CommitTs]"
"""What was committed after the first and up to the second."""


@dataclass(frozen=True, slots=True)
class Unit:
    """Of segment `seq`: its live rows if `live`, and these chunks. `part` identifies it among the segment's units; a table is in each of
    them once at most. `within`: only live rows of these ordinals, which count all rows of the segment in commit order from 0. `between`:
    only live rows of these commit_ts."""

    seq: Seq
    live: bool
    chunks: tuple[DueChunk, ...] = ()
    part: int = 0
    within: range | None = None
    between: Between | None = None


Order: TypeAlias = Literal["table", "segment"]
"""Of the portions of a unit. table: each table once, by name. segment: as committed, so a table comes as often as others lie between;
at one commit_ts deletes first across all tables, then by ordinal."""


@dataclass(frozen=True, slots=True)
class Task:
    """`id` is unique in its batch. `raw`: pieces of live rows have RAW_CHANGES, where nothing of them is masked."""

    id: str
    units: tuple[Unit, ...]
    order: Order = "table"
    raw: bool = False


class Survivors(NamedTuple):
    """`rows`: a chunk's rows that the window's changes did not touch, canonical text by column; `ordinals`: each one's place in the chunk;
    `dropped`: how many were touched."""

    rows: pa.Table
    ordinals: pa.Array
    dropped: int


@dataclass(frozen=True, slots=True)
class ChunkPiece:
    """A chunk's survivors, as rows of commit_ts = `due.high_ts` and rank RANK_CHUNK. `deletes`: each deletes a key that the source does not
    have; the columns beside the handle key's are null. They come before the chunk's rows."""

    due: DueChunk
    survivors: Survivors
    deletes: bool = False


Piece: TypeAlias = "pa.Table | ChunkPiece"
"""A pa.Table has CHANGES (or RAW_CHANGES) of one table, at least one row. Of a task it is bounded in bytes, or one row (pieces.py)."""


@dataclass(frozen=True, slots=True)
class Portion:
    """Rows of one table in one segment. `pieces` are read in place, once: finish one portion before the next. `row_bytes`: about, of
    changes of the order `segment`, whose short pieces are too many to be weighed one by one; else 0."""

    unit: Unit
    schema: TableSchema
    pieces: Iterator[Piece]
    row_bytes: int = 0


class Rows(NamedTuple):
    """Rows by where they came from; `dropped` are rows of chunks whose key was touched in the window."""

    log: int = 0
    dump: int = 0
    dropped: int = 0

    def plus(self, other: Rows) -> Rows:
        return Rows(self.log + other.log, self.dump + other.dump, self.dropped + other.dropped)

    @classmethod
    def of(cls, piece: Piece) -> Rows:
        if isinstance(piece, ChunkPiece):
            return cls(dump=piece.survivors.rows.num_rows, dropped=piece.survivors.dropped)
        return cls(log=piece.num_rows)


Counts: TypeAlias = dict[tuple[Seq, TableName], Rows]


def counted(portion: Portion, counts: Counts) -> Iterator[Piece]:
    """Its pieces; `counts` grows as they are read."""
    place = (portion.unit.seq, portion.schema.name)
    for piece in portion.pieces:
        counts[place] = counts.get(place, Rows()).plus(Rows.of(piece))
        yield piece


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a task has done. `note`: what the sink's `accept` needs of it besides; small, picklable. `guessed`: TIMESTAMPs that it decoded
    and that stood for two moments (shared/columns/zone.py); set by who runs the task."""

    task: str
    counts: Counts
    note: Any = None
    guessed: int = 0


class Writer(Protocol):
    """The part of a sink that runs in tasks: picklable, knows no session, and may run twice at once for one task."""

    def __call__(self, task: Task, portions: Iterator[Portion]) -> Outcome:
        """Write what the task is. Raises SinkError, StorageFull; what reading the log raises passes through."""


@dataclass(frozen=True, slots=True)
class Batch:
    """`heads` in a row, all of one schemas file; a DDL ends the last one. Tasks of a stage may run at once, the next stage when all are
    done."""

    heads: tuple[Head, ...]
    stages: tuple[tuple[Task, ...], ...]
    writer: Writer


# ---- the port -------------------------------------------------------------------------------------------------------


class Owner(NamedTuple):
    """Who may write: the sidecar's epoch, and which of its workers. A later one fences off all before it."""

    epoch: int
    incarnation: int

    @classmethod
    def after(cls, last: Owner | None, epoch: int | None, *, of: object) -> Owner:
        """The owner that opens `of` now, after `last`. `epoch` as in `Sink.open`. Raises OwnershipLost for an earlier epoch."""
        if last is None:
            return cls(epoch or 0, 1)
        if epoch is not None and epoch < last.epoch:
            raise OwnershipLost(
                f"{of} is written by owner epoch {last.epoch}, this worker serves epoch {epoch}",
                hint="nothing: the later owner has a merge worker of its own",
            )
        return cls(last.epoch, last.incarnation + 1) if epoch in (None, last.epoch) else cls(epoch, 1)


class Accepted(NamedTuple):
    """The last segment that an output has, or has begun; every earlier one is accepted too. `upto_ts` and `manifest` (`Manifest.id`) differ
    from those of another log's segment `seq` (spark_merge/log/follow.py compares). They are None and empty where the output did not keep
    them."""

    seq: Seq
    upto_ts: CommitTs | None = None
    manifest: str = ""

    @classmethod
    def of(cls, manifest: Manifest) -> Accepted:
        return cls(manifest.seq, manifest.upto_ts, manifest.id)


@dataclass(frozen=True, slots=True)
class Standing:
    """`accepted`: what is accepted durably, None at the start. `begun`: the last segment of a batch whose tasks may have been seen in part,
    as on record; None if there is none. The next batch must be of exactly the log's segments up to that very one, which the delivery
    compares (spark_merge/log/follow.py): a sink keeps it, and compares nothing. `begun_as`: `Head.received_as` of that batch: it is
    received under that name again, whatever the name of the sink is now. None: not on record (0.4 and before)."""

    owner: Owner
    accepted: Accepted | None
    begun: Accepted | None = None
    begun_as: str | None = None


class Sink(Protocol):
    """An output. Making one reads and writes nothing. One thread, and `open` comes first.

    Delivery is at least once: whatever dies when, what is done again changes nothing in what a consumer ends with (P5).
    """

    def look(self) -> Accepted | None:
        """`Standing.accepted`, without becoming the writer. Raises SinkError for an output that is another log's or cannot be read.
        An output of 0.2.0 or before names the changefeed alone: it is continued, and `open` makes it this log's
        (sidecar/shared/log/identity.py::continues)."""

    def open(self, *, epoch: int | None) -> Standing:
        """Become its one writer: from here on earlier owners can neither accept nor sweep nor be seen. What they left is swept.

        `epoch` None: that of the last owner. The incarnation is counted in the target. Raises OwnershipLost if a later epoch has opened it,
        SinkError as `look`.
        """

    def plan(self, heads: Sequence[Head], *, cores: int) -> Batch:
        """Cut the segments after `accepted` (a beginning of `heads`, at least one) into tasks. A sink of the committing
        kind has the cut on record when it returns, with its last segment and `Head.received_as`, and gives the same one for a batch that
        it had begun."""

    def accept(self, batch: Batch, outcomes: Sequence[Outcome]) -> None:
        """Make the batch's segments accepted, all tasks being done: the last durable step. A sink that carries out DDLs has carried out the
        last head's before. Raises OwnershipLost for an earlier owner, SinkError for a gap or a step back; then nothing is accepted."""

    def close(self) -> None:
        """Free connections; never raises. What was not accepted is done again by the next owner."""


@runtime_checkable
class Certifies(Protocol):
    """A sink whose output has a place for certificates of dumps."""

    def certify(self, log: Folder, name: str, accepted: Seq) -> None:
        """Write those that are due, as of the last accepted segment. `name`: of the sink. Cheap where none is. Raises as `Sink.accept`, and
        what reading the log raises."""


@runtime_checkable
class Gathers(Protocol):
    """A sink for which each batch is expensive, however few rows it has (a lake's commit). The next batch begins `gather_s` seconds after
    the last one was accepted, unless more waits than a batch holds."""

    gather_s: float


@runtime_checkable
class KeepsTables(Protocol):
    """A sink whose target keeps each table in a place of its own, which a DDL empties, moves or drops as a whole."""

    def check_places(self, names: Collection[TableName], before: Collection[TableName]) -> None:
        """Of the tables that have rows, after each change of them and when the sink is opened: raises SinkError where two would share a
        place. `before`: those that were there before a DDL; empty, where there was none. Asks nobody (ddl/routes.py::check_apart)."""


@runtime_checkable
class MasksColumns(Protocol):
    """A sink that gives its target some columns otherwise than the source has them. `rules_identity`: of its rules and salt; the rows that
    a target has are of the rules with which they were written."""

    rules_identity: str


@dataclass(frozen=True, slots=True)
class Delivered:
    """A segment's outcome in one sink."""

    seq: Seq
    tables: dict[TableName, Rows] = field(default_factory=dict)


def delivered(batch: Batch, outcomes: Sequence[Outcome]) -> list[Delivered]:
    """The outcomes by segment, in order of seq."""
    result: dict[Seq, dict[TableName, Rows]] = {head.seq: {} for head in batch.heads}
    for outcome in outcomes:
        for (seq, table), rows in outcome.counts.items():
            result[seq][table] = result[seq].get(table, Rows()).plus(rows)
    return [Delivered(seq, tables) for seq, tables in result.items()]
