"""Where one reader of a dump is, as a value with the fields that mean something there; and the ranges that have to wait, for a DDL or
for the source to come back.
The transitions are `dump_run.Run`'s.

    watermark   Idle --low mark--> Opening --MarkSent--> Reading (chunk after chunk) --high mark--> Closing --MarkSent--> Idle
    snapshot    Idle --> Snapshot (chunk after chunk) --> Idle

A reader works on one window at a time. In snapshot brackets there are no marks: the window itself stays open until the feed has
reached its TSOs, so windows overlap and readers do not wait for the feed.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from sidecar.core.plan import Work
from sidecar.shared.model.nouns import CommitTs, TableName


@dataclass(frozen=True, slots=True)
class Overtaken:
    """In the place of a range: a DDL of its table has passed, so it is nobody's, and its chunk that is under way is not wanted."""


@dataclass(frozen=True, slots=True)
class Idle:
    """Works on nothing: may open a window."""


@dataclass(frozen=True, slots=True)
class TableOpening:
    """Window `window` waits for its low mark, number `mark`. Up to `chunks_left` chunks will be read in it, `work` first, of about
    `rows` rows."""

    window: int
    mark: int
    chunks_left: int
    work: Work | Overtaken
    rows: int


@dataclass(frozen=True, slots=True)
class TableReading:
    """Chunk `chunk` of `work`, of `rows` rows at most, is under way inside of window `window`, which may take `chunks_left` more."""

    window: int
    chunk: int
    chunks_left: int
    work: Work | Overtaken
    rows: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """As TableReading, with a TSO of the chunk's own. Everything up to `requested_ts` had left the feed before the chunk was requested."""

    window: int
    chunk: int
    chunks_left: int
    work: Work | Overtaken
    rows: int
    requested_ts: CommitTs


@dataclass(frozen=True, slots=True)
class Closing:
    """The high mark, number `mark`, is under way."""

    mark: int


Reader = Idle | TableOpening | TableReading | Snapshot | Closing


def overtaken(reader: Reader, tables: Collection[TableName]) -> Reader:
    """The reader after a DDL of these tables: a range of them is not its own any more."""
    match reader:
        case TableOpening(work=Work(table=table)) | TableReading(work=Work(table=table)) | Snapshot(work=Work(table=table)) if (
            table in tables
        ):
            return replace(reader, work=Overtaken())
        case _:
            return reader


MISFITS_MAX = 100
"""SELECTs in a row that did not fit a table, each after all DDLs before the last one had passed. A column that is being dropped is
gone from SQL some time before its DDL is in the feed, long if transactions hold the DDL up; each try takes a second or two."""

LOST_MAX = 20
"""Of a table, in a row: that is no machine's doing any more. Readers that end together count once."""


@dataclass(slots=True)
class Doubts:
    """Ranges that the dump requests again. One whose SELECT did not fit its table: when the log has reached a TSO after the failure.
    One whose SELECT the source did not answer, or whose reader ended: when the dump next looks for what can begin."""

    _until: list[tuple[CommitTs, Work]] = field(default_factory=list)
    _unanswered: list[Work] = field(default_factory=list)
    _in_a_row: dict[TableName, int] = field(default_factory=dict)
    _lost: dict[TableName, tuple[int, int]] = field(default_factory=dict)

    def add(self, work: Work, *, until_ts: CommitTs) -> None:
        self._until.append((until_ts, work))
        self._in_a_row[work.table] = self._in_a_row.get(work.table, 0) + 1

    def unanswered(self, work: Work) -> None:
        self._unanswered.append(work)

    def requested_again(self) -> list[Work]:
        """The ranges that the source did not answer."""
        results, self._unanswered = self._unanswered, []
        return results

    def too_many(self, table: TableName) -> bool:
        """Whether one more that does not fit cannot be a DDL's doing."""
        return self._in_a_row.get(table, 0) >= MISFITS_MAX

    def lost_too_often(self, table: TableName, number: int, *, newest: int) -> bool:
        """The reader of its chunk `number` has ended: whether that is one of too many. `newest`: of the chunks requested so far. Those that
        were requested before the last loss may be of the same death."""
        times, known = self._lost.get(table, (0, 0))
        if number > known:
            times, self._lost[table] = times + 1, (times + 1, newest)
        return times >= LOST_MAX

    def fitted(self, table: TableName) -> None:
        """A chunk of it was read."""
        self._in_a_row.pop(table, None)
        self._lost.pop(table, None)

    def settled(self, upto_ts: CommitTs) -> list[Work]:
        """The ranges to request again, as the log has reached `upto_ts`."""
        results = [work for until_ts, work in self._until if until_ts <= upto_ts]
        self._until = [(until_ts, work) for until_ts, work in self._until if until_ts > upto_ts]
        return results

    def forget(self, tables: Collection[TableName]) -> None:
        """A DDL of these tables has passed."""
        self._until = [(until_ts, work) for until_ts, work in self._until if work.table not in tables]
        self._unanswered = [work for work in self._unanswered if work.table not in tables]
        self._in_a_row = {table: count for table, count in self._in_a_row.items() if table not in tables}
