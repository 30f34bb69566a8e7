"""What the dump sends and receives: commands out, events in. Plain frozen values, no behaviour.

The pipeline carries commands to the source (TiDB) and brings events back; nothing here knows how.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from enum import StrEnum

from sidecar.shared.model.chunk import ChunkFile
from sidecar.shared.model.nouns import CommitTs, MarkKind, Seq, TableName


class Brackets(StrEnum):
    """How a chunk's window is bracketed."""

    WATERMARK = "watermark"
    SNAPSHOT = "snapshot"


class ReadWith(StrEnum):
    """What a dump's chunks are read with: SELECTs of TiDB, or a snapshot of TiKV's own. A dump keeps its own from its start to its end: the
    keys in its progress are of it."""

    SQL = "sql"
    TIKV = "tikv"


DELIVERY_BOUND_MAX_S = 30.0
"""More than a sink needs that does not gather changes. One that gathers has twice that time in addition (sidecar/pace)."""
READERS_MAX = 64
"""SELECTs of one dump at one time: each is a connection to the source."""


CHUNK_TEXT_BYTES_MAX = 32 << 20
"""Of a chunk's text, which a reader holds up to three times: what it reads ahead, what it writes, and what waits between the two."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How gently a dump reads. 0: `readers` and `delivery_bound_s` as the sidecar is configured, rows and bytes without a bound.
    `delivery_bound_s`: within what the live changes are to be delivered while it runs; `strict_bound`: however slow that makes the dump."""

    readers: int = 0
    rows_per_s: int = 0
    bytes_per_s: int = 0
    delivery_bound_s: float = 0.0
    strict_bound: bool = False

    @property
    def bounded(self) -> bool:
        return bool(self.rows_per_s or self.bytes_per_s)

    def chunks_a_window(self, chunk_rows: int, *, at_most: int) -> int:
        """In rows, about a second's worth; in bytes one chunk, whose size nobody knows yet."""
        if not self.bounded:
            return at_most
        if not self.rows_per_s or self.bytes_per_s:
            return 1
        return max(1, min(at_most, self.rows_per_s // chunk_rows))

    def cost_s(self, rows: int, size: int) -> float:
        """Seconds that reading so many rows and bytes takes at this pace."""
        by_rows = rows / self.rows_per_s if self.rows_per_s else 0.0
        return max(by_rows, size / self.bytes_per_s if self.bytes_per_s else 0.0)


UNBOUNDED = Pace()


# ---- commands -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SendMark:
    """UPDATE the watermark row to `uuid` and `kind`, only if it holds what this owner wrote last.

    Marks are sent one after another, in the order of the commands.
    """

    uuid: str
    kind: MarkKind


@dataclass(frozen=True, slots=True)
class ReadChunk:
    """SELECT the next `rows_max` rows of `table` with handle key in `(after, upper]`, in the server's key order.

    `after` None: from the start. `upper` None: to the end. `number` is unique in the dump and names the chunk's file.
    `where`: only rows for which this SQL predicate is true. `bounds_max` > 0: if rows are left above the chunk, report at
    most that many keys at which the rest can be cut. The chunk file must be durable before ChunkRead is reported.

    `ahead`: its window is likely to request the chunk after it, so that one's SELECT may begin before this chunk is durable. `follows`:
    the chunk of the same window that this one continues. Only what was read ahead behind that chunk may serve, because its window's low
    mark was committed before. None: nothing that was read before the command may serve.

    `bytes_max`: the chunk ends, before `rows_max`, a little after the row with which its text has become more than that; so it has one row
    at least, however large. It is not exhausted then.

    `keys`: read the rows with these handle keys (canonical text) by one SELECT, in any order, instead of a range; `after` and `upper` are
    None and the chunk is exhausted. Of these keys those for which there is no row, whatever `where` says of it, are in the file as ABSENT.
    Where their rows are more than `bytes_max`, the chunk is of the first `ChunkRead.keys_read` of the keys alone, again by one SELECT: of
    the others it says nothing.

    `read_with` TIKV: keys are raw ones of TiKV, each a text of hexadecimal digits, and there is neither `where` nor `keys`.
    """

    dump_id: str
    epoch: int
    number: int
    table: TableName
    after: tuple[str, ...] | None
    upper: tuple[str, ...] | None
    rows_max: int
    brackets: Brackets
    where: str | None = None
    bounds_max: int = 0
    ahead: bool = False
    follows: int | None = None
    keys: tuple[tuple[str, ...], ...] = ()
    bytes_max: int = CHUNK_TEXT_BYTES_MAX
    read_with: ReadWith = ReadWith.SQL


Command = SendMark | ReadChunk


# ---- events ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MarkSent:
    """The UPDATE of mark `uuid` is committed. Its commit_ts counts only as seen in the feed."""

    uuid: str


@dataclass(frozen=True, slots=True)
class ChunkRead:
    """Chunk `number` is durable. `exhausted`: no row of the table is left above it (below the upper bound).

    `bounds`: where requested, keys above the chunk's last one, rising in the server's order; the last of them is the table's
    highest key at this moment. Empty: nobody could tell. `read_s`: seconds from the SELECT to its last row, 0 if not measured.
    `text_bytes`: of its rows, unpacked, 0 if not measured. `keys_read`: of a list of keys that is not exhausted, how many of its first
    keys the chunk is of.
    """

    number: int
    file: ChunkFile
    exhausted: bool
    bounds: tuple[tuple[str, ...], ...] = ()
    read_s: float = 0.0
    text_bytes: int = 0
    keys_read: int = 0


@dataclass(frozen=True, slots=True)
class MarkFenced:
    """The UPDATE matched nothing: the watermark row is another writer's. `hint`: what an operator can do."""

    command: SendMark
    reason: str
    hint: str


@dataclass(frozen=True, slots=True)
class ChunkMisfit:
    """The SELECT did not fit the table as it is now. A DDL that changed it is at or below `schema_ts`, and may not have come by the
    feed yet. `reason` and `hint`: for an operator, if this continues."""

    command: ReadChunk
    schema_ts: CommitTs
    reason: str
    hint: str


@dataclass(frozen=True, slots=True)
class SourceFailed:
    """A command failed, after the source's own retries, and neither a writer of marks nor a DDL is why. `away`: the source was not to be
    had for all that time, and may carry out later what it never answered; else it said no."""

    command: Command
    reason: str
    hint: str
    away: bool = False


@dataclass(frozen=True, slots=True)
class ChunkLost:
    """Who was reading chunk `number` ended before it was reported, and the source has nothing to do with it. Whatever it still does is of
    this number, and so of no dump: the range is requested again under another one. `reason` and `hint`: for an operator, if this
    continues."""

    command: ReadChunk
    reason: str
    hint: str


SourceEvent = MarkSent | MarkFenced | ChunkRead | ChunkMisfit | ChunkLost | SourceFailed


@dataclass(frozen=True, slots=True)
class SegmentBuilt:
    """The data of segment `seq` is durable and its manifest comes next: windows may close in it. `ddl`: a DDL is the last thing in it,
    after all that closes; what it does to the tables comes next (`Dumps.changed`), and decides whether a dump is complete."""

    seq: Seq
    after_ts: CommitTs
    upto_ts: CommitTs
    ddl: bool = False


# ---- an operator's requests -----------------------------------------------------------------------------------------
# `dump_id` of a request for a dump that is there: which one; empty: the only one that the request can be for.


@dataclass(frozen=True, slots=True)
class Asker:
    """Who made a request, for the history: `certificate alice`, and the peer's address. The sidecar has a `reason` and no address. Requests
    do not compare it: one that is made again, from another port, is the same request."""

    name: str
    address: str = ""
    reason: str = ""


NOT_RECORDED = Asker("not recorded")


@dataclass(frozen=True, slots=True)
class StartDump:
    """Start dump `dump_id` of `tables`, or queue it while others have one of them. `grows`: also of those that appear while it runs.
    `where`: the SQL predicate of each table that has one, by the changefeed's own filter or the operator's. `keys`: of these tables only
    the rows with these handle keys, in canonical text, each key once; a key that the source does not have becomes a delete. `narrowed`:
    tables of which the operator wants a part. `sinks`: the names of those that receive the rows; empty: all. `read_with`: of the tables
    without a predicate and keys. `for_ddl`, `exact`: as of Progress."""

    dump_id: str
    tables: tuple[TableName, ...]
    brackets: Brackets
    chunk_rows: int
    where: tuple[tuple[TableName, str], ...] = ()
    pace: Pace = UNBOUNDED
    grows: bool = False
    keys: tuple[tuple[TableName, tuple[tuple[str, ...], ...]], ...] = ()
    narrowed: tuple[TableName, ...] = ()
    sinks: tuple[str, ...] = ()
    read_with: ReadWith = ReadWith.SQL
    for_ddl: CommitTs | None = None
    exact: bool = False
    asker: Asker = field(default=NOT_RECORDED, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class PauseDump:
    dump_id: str = ""
    asker: Asker = field(default=NOT_RECORDED, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Settings:
    """What an operator changes of a dump that is there; None: stays as it is. A 0 means what it means in `Pace`."""

    chunk_rows: int | None = None
    readers: int | None = None
    rows_per_s: int | None = None
    bytes_per_s: int | None = None
    delivery_bound_s: float | None = None
    strict_bound: bool | None = None

    def of(self, chunk_rows: int, pace: Pace) -> tuple[int, Pace]:
        """These chunk rows and this pace, changed."""
        given = {one.name: value for one in fields(Pace) if (value := getattr(self, one.name)) is not None}
        return chunk_rows if self.chunk_rows is None else self.chunk_rows, replace(pace, **given)


UNCHANGED = Settings()


@dataclass(frozen=True, slots=True)
class SetDump:
    """Change a dump that is not over, from its next chunk on."""

    settings: Settings
    dump_id: str = ""
    asker: Asker = field(default=NOT_RECORDED, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class ResumeDump:
    settings: Settings = UNCHANGED
    dump_id: str = ""
    asker: Asker = field(default=NOT_RECORDED, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class StopDump:
    dump_id: str = ""
    asker: Asker = field(default=NOT_RECORDED, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class RestartDump:
    """Stop a dump if it is not over, and start the same scope from the beginning under `new_dump_id`. `exact`: as of Progress; it must be
    what the record of that dump says, if that says it. `brackets`: None for those of that dump, or snapshots where no marks come."""

    new_dump_id: str
    dump_id: str = ""
    exact: bool = False
    brackets: Brackets | None = None
    asker: Asker = field(default=NOT_RECORDED, compare=False, kw_only=True)


Request = StartDump | SetDump | PauseDump | ResumeDump | StopDump | RestartDump
