"""What the log says of a table, an event for each: the rows of all sinks' outputs, and what the merge does not deliver.

    begin        the first segment that the log still has: what came before was removed by retention
    live         a change, as committed
    dump         a row of a chunk that is delivered at `commit_ts`, the high end of its window: no live change of the window has its key
    dropped      a row of a chunk that is not delivered: `change` is the last one of its key in the window
    unknown      a row of a chunk of which the log does not say any more whether it was delivered: its window began in a segment that
                 retention has removed
    ddl          a statement of the table
    hole         rows of the table came, changed or vanished without a change in the feed (sidecar/shared/model/hole.py)
    skipped      a change that an operator skipped, because it cannot be decoded: its key is not known
    undecodable  a change that cannot be decoded, and that nobody has skipped
    removed      segments that retention removed while they were read

The order is that of the output: segments, and in each `commit_ts`, deletes first; a chunk's rows behind all changes up to its `commit_ts`.
DDLs and holes are a segment's last.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from sidecar.shared.model.nouns import CommitTs, Seq, TableName, TableSchema
from spark_merge.merge.rule import Image
from spark_merge.port.contract import DueChunk


class EventKind(StrEnum):
    BEGIN = "begin"
    LIVE = "live"
    DUMP = "dump"
    DROPPED = "dropped"
    UNKNOWN = "unknown"
    DDL = "ddl"
    HOLE = "hole"
    SKIPPED = "skipped"
    UNDECODABLE = "undecodable"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class LiveChange:
    """One change of one key. `before` None: an insert; `after` None: a delete."""

    commit_ts: CommitTs
    op: str
    before: Image | None
    after: Image | None


@dataclass(frozen=True, slots=True)
class TailEvent:
    """`table`: its name at that moment. `schema`, `op`, `key`, `before` and `after`: of rows; images in the order of the schema's columns,
    as the source has them (`shown` masks them). A dump's delete has no image. `chunk`: of a chunk's rows; `sinks`: the names of those that
    it is for, empty: all. `change`: of what was dropped; None where it cannot be read. `text`: what else there is to say."""

    kind: EventKind
    seq: Seq
    commit_ts: CommitTs
    table: TableName
    schema: TableSchema | None = None
    op: str = ""
    key: tuple[str, ...] | None = None
    before: Image | None = None
    after: Image | None = None
    chunk: DueChunk | None = None
    sinks: tuple[str, ...] = ()
    change: LiveChange | None = None
    text: str = ""

    @property
    def is_version(self) -> bool:
        """Whether sinks have this of its key."""
        return self.kind in (EventKind.LIVE, EventKind.DUMP)
