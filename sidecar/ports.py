"""What the pipeline needs from the outside, as contracts. What a dump cannot do without has a twin in memory that is shipped, and Feed,
Puller, SegmentLog, Source, ProgressStore, OperationHistory and Ownership have one suite each in tests/contract, which the twin and the
real thing pass: tests/test_tidy.py::PORTS says which.

Methods raise errors of `sidecar.shared.errors` only; adapters translate their drivers' errors at the edge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple, Protocol

from sidecar.history.entry import HistoryEntry
from sidecar.shared.errors import RefusedRequest, parted, with_hint
from sidecar.shared.log.manifest import DataFile, LoggedDumps, Manifest
from sidecar.shared.model.hole import Hole, WaitingHole
from sidecar.shared.model.messages import Command, Request, SourceEvent
from sidecar.shared.model.nouns import Change, CommitTs, Ddl, Lane, Message, OperationId, ReadEnd, Seq, TableName, TableSchema
from sidecar.shared.model.progress import Progress
from sidecar.shared.model.sink_delivery import ReportTimes, SinkDelivery
from sidecar.shared.rowcodec.key_values import KeyRange, KvEvent

NOT_KNOWN: Mapping[Lane, str] = MappingProxyType({})
"""No incarnation of any lane is."""

NO_READ_ENDS: Mapping[Lane, ReadEnd] = MappingProxyType({})
"""Of lanes that cannot lose their end, and of those of which nobody noted it."""


class Feed(Protocol):
    """TiCDC's output. A position says where reading continues: after seeking to p, everything that was delivered at p or later
    in this lane comes (again). Positions are not unique; they never fall but where the feed begins again. In Kafka they count
    messages, in lanes of key-values they are TSOs."""

    def lanes(self) -> frozenset[Lane]:
        """The lanes that exist now. Read fresh on each call: a new lane must be here before R may pass it by."""

    def ends(self) -> Mapping[Lane, int]:
        """For a new log: where each lane ends at this moment. What is committed after the call comes there or later, or in a lane that is
        not named. Empty where positions are TSOs: there the schemas' moment says it all."""

    def incarnations(self) -> Mapping[Lane, str]:
        """After `seek`: every lane that is read, also one that R does not wait for, with what distinguishes it from a later lane of its
        name; empty where nothing does. A caller that keeps positions keeps these beside them. A lane that is not here has ended: nobody
        reads on in it. Called after each poll: unless positions are TSOs, an ended lane is missing after a poll before another of its
        name comes."""

    def read_ends(self) -> Mapping[Lane, ReadEnd]:
        """How far each lane was read, where a lane can lose its end and grow again. A caller that keeps positions keeps these beside
        them."""

    def seek(
        self,
        positions: Mapping[Lane, int],
        incarnations: Mapping[Lane, str] = NOT_KNOWN,
        read_ends: Mapping[Lane, ReadEnd] = NO_READ_ENDS,
    ) -> None:
        """Read on from these positions; a lane that is not named starts at what is there of its beginning, and its first message says so
        if more was (`Message.after_gap`). `incarnations`, `read_ends`: as returned with the positions.

        Raises FeedError for a lane that is another one by now, whatever is in it, and for one that lost messages that were read.
        """

    def poll(self, *, timeout_s: float) -> Sequence[Message]:
        """The next messages of any lanes, in order inside each lane; empty when there is nothing within the timeout."""

    def acknowledge(self, positions: Mapping[Lane, int]) -> None:
        """Everything below these positions is durable here. Never goes back; may be lost: the log is the truth."""


class Puller(Protocol):
    """Key-values as they are committed, from TiKV's change feed or from a custom sink that is in its place (issue: no mounter in
    between). Entries of a range come in any order and more than once; `Pulled` says up to where they are complete.

    What waits to be polled is bounded in bytes: a puller that is full lets its senders wait. One thread calls `want`, `poll`,
    `acknowledge` and `close`.
    """

    def want(self, wanted: Mapping[KeyRange, CommitTs]) -> None:
        """From now on pull exactly these ranges, each complete from its ts on: every commit with commit_ts > ts. A range that was
        wanted before continues where it is, whatever its ts; one that is not named any more ends. Ranges do not overlap. Cheap."""

    def poll(self, *, timeout_s: float) -> Sequence[KvEvent]:
        """What has come, entries before the `Pulled` that covers them; empty when there is nothing within the timeout. Parts of a
        wanted range may advance independently: the range of a `Pulled` is a wanted one or a part of one.

        Raises FeedLost for an outage that lasts, FeedUnsuitable or MessageUnreadable for what cannot be used.
        """

    def acknowledge(self, durable: Mapping[KeyRange, CommitTs]) -> None:
        """Of these wanted ranges everything up to the ts is durable here: senders need not keep it. May be lost."""

    def close(self) -> None:
        """End all connections and threads; never raises."""


class SegmentLog(Protocol):
    """The durable hand-off to Spark. `id` distinguishes it from every other log, also of the same changefeed; empty: not known."""

    @property
    def id(self) -> str: ...

    def recover(self, *, epoch: int) -> Manifest | None:
        """The last manifest, its dumps with all tables, or None for a new log; sweeps data and chunk files of earlier epochs that no
        manifest names.

        Raises LogBroken for a gap in seq, an unreadable manifest or a newer format.
        """

    def write_data(self, seq: Seq, *, epoch: int, codec: str, changes: Iterable[Change]) -> DataFile:
        """Write the rows durably; reads `changes` once, in bounded memory. Writing again replaces (same epoch only)."""

    def write_schemas(self, schemas: Mapping[TableName, TableSchema]) -> str:
        """Write the schemas under a name made of their content and return it, relative to the log; repeat is harmless."""

    def read_schemas(self, name: str) -> dict[TableName, TableSchema]:
        """The inverse. Raises LogBroken for a file that is gone or unreadable."""

    def write_dumps(self, dumps: Sequence[Progress]) -> LoggedDumps:
        """What the next manifest has of the dumps. Tables that it need not have are durable then, in a file that it names."""

    def commit(self, manifest: Manifest) -> None:
        """Create the manifest exclusively and durably. Raises LogTaken if seq exists: another owner was faster."""


class Source(Protocol):
    """TiDB, queried in the background: no call waits for the database."""

    def request(self, command: Command) -> None:
        """Begin to carry out `command`."""

    def follow(self, schemas: Mapping[TableName, TableSchema]) -> None:
        """A DDL has passed: what is requested from now on is read with these schemas."""

    def results(self) -> Sequence[SourceEvent]:
        """What has been finished since the last call, in order; empty when nothing has."""

    def close(self) -> None:
        """Forget what is under way and free the connections."""


class Schemas(Protocol):
    """The changefeed's tables at the position that the log has reached. One of `begin` and `resume` comes first, once. Called by
    the pipeline's thread, which waits: a DDL is a barrier."""

    @property
    def since_ts(self) -> CommitTs:
        """After `begin`: the log has what is committed after this moment, which is that of its tables: older DDLs are in them, and older
        rows are a dump's. 0: it has all that the feed brings."""

    def begin(self) -> Mapping[TableName, TableSchema]:
        """All tables where a new log begins, the watermark table among them. Raises ConfigError where it may not begin so."""

    def resume(self, tables: Mapping[TableName, TableSchema], *, upto_ts: CommitTs) -> Mapping[TableName, TableSchema]:
        """The log ends at `upto_ts` and has these tables then: what holds from there on."""

    def after(self, ddls: Sequence[Ddl]) -> Mapping[TableName, TableSchema]:
        """All tables after these DDLs, which have one commit_ts, the highest so far. Equal to what was before if they change none.

        Raises UnsupportedDdl for one that cannot be carried, SourceLost (retry helps) if the source does not answer.
        """

    def named(self, changes: Iterable[Change]) -> Iterable[Change]:
        """The changes with the names of their tables, all of one segment. Feeds that name their tables: the same. Raw key-values:
        those of tables that are replicated. Raises FeedError for a row whose table cannot be known."""


class OperationHistory(Protocol):
    """The last HISTORY_MAX operations of a changefeed, as of history/entry.py. The owner alone writes, from any thread."""

    def find(self, operation_id: OperationId) -> HistoryEntry | None:
        """None for one that is not there. One that cannot be read is reported, and is as not there."""

    def entries(self) -> Sequence[HistoryEntry]:
        """Newest first: in the opposite order of their first `record`. As `find`."""

    def record(self, *entries: HistoryEntry) -> None:
        """Durable when it returns, all or none. One whose id is there is replaced; another one is added, and others go. Raises
        OwnershipLost, and CoordinationLost if it may have been carried out or not: then it may be repeated."""


class ProgressStore(Protocol):
    """Where the dumps' progress and states survive. It follows the log and may be behind it, never ahead of it."""

    @property
    def history(self) -> OperationHistory: ...

    def load(self) -> tuple[Progress, ...]:
        """As saved last; empty if nothing was."""

    def save(self, dumps: Sequence[Progress], entries: Sequence[HistoryEntry] = ()) -> None:
        """In the place of all that was saved before. Durable when it returns, and `entries` in the history with it, in one step."""


@dataclass(frozen=True, slots=True)
class TableEstimate:
    """What a dump of `table` would read. Rows and bytes by the source's statistics, None if it has none. `read_by`: what
    orders the SELECTs, for people: `clustered primary key (id)`, `_tidb_rowid`. `refused`: why it cannot be dumped, with the
    way out; else None."""

    table: TableName
    rows: int | None
    bytes: int | None
    read_by: str
    refused: str | None = None


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody who waits for an answer, and may go away. `left_s`: for how long it waits from now on; `gone`: it does not any more;
    `when_gone` calls what it is given then, in any thread: False if it has gone already."""

    left_s: Callable[[], float]
    gone: Callable[[], bool]
    when_gone: Callable[[Callable[[], object]], bool]


@dataclass(frozen=True, slots=True)
class SlowReads:
    """`why`: of each table whose chunks would not be read by a range of their own, or cannot be read. `unasked`: of how many tables there
    was no time to ask."""

    why: Mapping[TableName, str]
    unasked: int = 0


@dataclass(frozen=True, slots=True)
class Bracketing:
    """Why a dump cannot have windows between marks, or between snapshots, each with the way out; empty: it can."""

    marks: str = ""
    snapshots: str = ""

    def neither(self) -> str:
        """Where it can have none of them. One reason can be against both."""
        (marks, mend_marks), (snapshots, mend_snapshots) = parted(self.marks), parted(self.snapshots)
        what, hints = dict.fromkeys((marks, snapshots)), dict.fromkeys((mend_marks, mend_snapshots))
        return with_hint(f"a dump can have neither marks nor snapshots: {'; '.join(what)}", "; or ".join(hints))


class SchemaSource(Protocol):
    """The tables of the changefeed as TiCDC decodes them. Called from threads that may wait."""

    def asked_by(self, caller: Caller) -> SchemaSource:
        """The same tables, queried no longer than `caller` waits: then what is under way ends, and raises what the source raises when
        lost."""

    def tables(self) -> Mapping[TableName, TableSchema]:
        """Every table that exists outside the system's schemas, also those without a usable key (`key` empty)."""

    def estimates(self, tables: Sequence[TableName]) -> Sequence[TableEstimate]:
        """One for each of `tables`, in their order. A table that does not exist is refused, not omitted."""

    def keys(self, table: TableName, keys: Sequence[tuple[str, ...]]) -> tuple[tuple[str, ...], ...]:
        """These handle keys in canonical text, each once, in their order.

        Raises UnfitKeys for keys with the wrong number of columns or a value that the key's type cannot have; RefusedRequest.
        """


class SeenUpTo(NamedTuple):
    """As of Manifest."""

    holes: tuple[Hole, ...]
    waiting: tuple[WaitingHole, ...]
    seen: dict[str, str]


class Sightings(Protocol):
    """What watchers of holes saw (shared/model/hole.py), for the pipeline."""

    def resume(self, seen: Mapping[str, str], waiting: Sequence[WaitingHole]) -> None:
        """How far each watcher had looked, by its name, and what it saw, as the log's last manifest says. Comes first."""

    def due(self, upto_ts: CommitTs, /) -> bool:
        """Whether a segment up to there has a hole to write. Cheap."""

    def take(self, upto_ts: CommitTs, tables: Mapping[TableName, TableSchema], /) -> SeenUpTo:
        """For the manifest of a segment up to there, with `tables` after it."""


class NoSightings:
    """Nobody looks: what the log knows of watchers stays as it is."""

    def __init__(self) -> None:
        self._seen = SeenUpTo((), (), {})

    def resume(self, seen: Mapping[str, str], waiting: Sequence[WaitingHole]) -> None:
        self._seen = SeenUpTo((), tuple(waiting), dict(seen))

    def due(self, _: CommitTs) -> bool:
        return False

    def take(self, _: CommitTs, __: Mapping[TableName, TableSchema]) -> SeenUpTo:
        return self._seen


class Requests(Protocol):
    """Operator requests waiting to be carried out."""

    def take(self) -> Request | None:
        """The oldest request not yet answered, or None. One whose owner died before its answer comes again."""

    def answer(self, refused: RefusedRequest | None) -> None:
        """Report to the operator of the request taken last: it is carried out and durable (None), or why not."""


class Deliveries(Protocol):
    """How far the sinks are and what they cost, for the dump's pace."""

    def accepted(self) -> Seq | None:
        """The last segment that every sink has accepted, None at the start. Cheap: called at every step."""

    def sinks(self) -> Sequence[SinkDelivery]:
        """Each sink alone with its last batches, as last reported; empty before the first report. As cheap."""

    def report_times(self) -> ReportTimes | None:
        """When that was reported; None where each call reports the present. As cheap."""


class Ownership(Protocol):
    """Who may write for a changefeed: at most one process at a time, by lease."""

    def acquire(self, *, timeout_s: float) -> int | None:
        """Become the owner and return the new epoch, greater than every earlier one; None if another is, after the timeout."""

    def held(self) -> bool:
        """Whether the lease is still ours, by our own clock: False as soon as it could have run out. Cheap."""

    def release(self) -> None:
        """Give it up, so that a standby need not wait for the lease to run out. Never raises."""


class Clock(Protocol):
    def now_s(self) -> float:
        """Seconds that never go back, from any origin."""
