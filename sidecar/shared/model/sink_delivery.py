"""What the merge worker reports of each sink: how far it is, which tables it has whole, and what its batches cost. The sensor of a dump's
pace (P3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from sidecar.shared.model.hole import OpenHole
from sidecar.shared.model.nouns import FIRST_SEQ, CommitTs, Seq, TableName

BATCHES_KEPT = 64
"""Of a sink, written in each report: more than it accepts between two reads of the report."""


class DroppedRows(NamedTuple):
    """Rows of a table's chunks that were dropped, because a live change touched their keys in the window."""

    schema: str
    table: str
    rows: int


class TableFiles(NamedTuple):
    """Of a table of a lake: the files that a reader opens, and how many of them a compaction would save
    (`FileTotals` in spark_merge/port/maintained.py)."""

    schema: str
    table: str
    files: int
    extra: int


@dataclass(frozen=True, slots=True)
class BatchDone:
    """A batch of one sink, accepted. `last`: its last segment. `log_rows` and `dump_rows`: those written, and rows of chunks that were
    dropped count as dump rows (they cost the same). `seconds` from its planning to its end, of them `accept_s` for `Sink.accept`.
    `accepted_ms`: the worker's wall clock then. `dropped`: by table, where there are any; None: not reported, by a worker of 0.4 or
    before."""

    last: Seq
    segments: int
    log_rows: int
    dump_rows: int
    seconds: float
    accept_s: float
    accepted_ms: int
    dropped: tuple[DroppedRows, ...] | None = None


_NOT_KNOWN = CommitTs(0)


@dataclass(frozen=True, slots=True)
class SinkDelivery:
    """`sink`: its name. `accepted`: its last segment, None before the first. `batches`: the last BATCHES_KEPT of this worker, oldest
    first. `error`: why it has stopped, empty while it runs. `began`: the first segment that it received, where the log had no earlier
    ones any more when it began; 0: it received the log from its beginning, or that is not known. `tables_seq`: `SinkTables.seq` as its file
    was written last, None where there is none yet. `upto_ts`: the end of `accepted`, 0 where that is not known. `gather_s`: for how long it
    gathers changes before a batch. `files`: of a lake, of the tables that this worker has committed."""

    sink: str
    accepted: Seq | None
    batches: tuple[BatchDone, ...] = ()
    error: str = ""
    began: Seq = FIRST_SEQ
    tables_seq: Seq | None = None
    upto_ts: CommitTs = _NOT_KNOWN
    gather_s: float = 0.0
    files: tuple[TableFiles, ...] = ()


@dataclass(frozen=True, slots=True)
class SinkTables:
    """From where on a sink has which tables whole, as of segment `seq`, which is counted in. `sink`: its name; `output`: its URI without
    secrets. `began_seq`: the first segment that it is known to have received; `began_ts`: where that segment begins, None for a sink that
    had earlier ones, of which nothing is known. `upto_ts`: the end of segment `seq`, None where that is not known. `complete`: the
    commit-ts from which on it has all rows of a table. A table that is not in it lacks rows, as far as is known. `epoch`, `incarnation`: of
    the worker that wrote it. `rules`: the identity of the sink's column rules and salt, empty for none. `holes`: of tables that are not in
    `complete` (model/hole.py). `generation`: how often a sink of this name has begun without any segment: once more for each target that
    was emptied or taken instead of another one."""

    sink: str
    output: str
    began_seq: Seq
    began_ts: CommitTs | None
    seq: Seq
    upto_ts: CommitTs | None
    complete: Mapping[TableName, CommitTs] = field(default_factory=dict)
    epoch: int = 0
    incarnation: int = 0
    rules: str = ""
    holes: Mapping[TableName, OpenHole] = field(default_factory=dict)
    generation: int = 0

    def incomplete(self, tables: Iterable[TableName]) -> list[TableName]:
        """Those of `tables`, by name."""
        return sorted(table for table in tables if table not in self.complete)


@dataclass(frozen=True, slots=True)
class ReportTimes:
    """When a report was made: `written_ms` by the worker's wall clock, `read_s` by the sidecar's clock. `starting`: there is no Spark
    yet, the worker merges no window itself, and the live changes after one would wait. `epoch`: the owner's that the worker serves, 0: any
    owner's. `accepted`: the last segment that every sink has accepted, None where a worker that runs does not know it yet."""

    written_ms: int
    read_s: float
    starting: bool = False
    epoch: int = 0
    accepted: Seq | None = None


@dataclass(frozen=True, slots=True)
class SubscriberState:
    """Of a sink that is read by subscribers: `next_seq` is the first segment that it has not acknowledged, `segments` how many it has
    not, and the last field is the seconds since its last request."""

    name: str
    next_seq: Seq
    segments: int
    heard_s: float
