"""The frames' schemas and the sink's port: what crosses a boundary inside the Spark application.

    deliveries = changes of the batch's segments  +  one row for each chunk of a window that closed in them  +  its keys

A **change row** is one live change, decoded. A **chunk row** stands for all survivors of one chunk: it names the chunk's
file, and the sink's task opens it with `merge.survivors`. A chunk's rows so never cross the JVM (measured: a third of the
cost, see ARCHITECTURE.md). A **key row** has keys touched in a chunk's window; those of a chunk come before it.

Output order is `seq, commit_ts, rank, ordinal`: a chunk row has commit_ts = high_ts and the last rank, so its rows come
after every change <= high_ts and before every change > high_ts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from sidecar.core.model import Seq, TableName, TableSchema

RANK_DELETE, RANK_PUT, RANK_KEYS, RANK_CHUNK = 0, 1, 8, 9

CHANGE_SCHEMA = (
    "seq long, commit_ts long, rank int, ordinal long, schema string, table string, op string, key string,"
    " before array<string>, after array<string>"
)
"""One decoded live change. `op` insert | update | delete; `before`/`after` are canonical text in the order of the table
schema's columns, null where there is no such image. `key` is `key_text` of the row's handle key. An update that changes
the handle key is two rows, a delete of the old key (rank 0) and an insert of the new one (rank 1), both with the
change's ordinal: so each row has one key, and deletes come before puts at one commit_ts."""

DELIVERY_SCHEMA = CHANGE_SCHEMA + ", chunk struct<dump_id: string, path: string, touched: array<string>>"
"""`chunk` is null in change rows; in key and chunk rows op, key, before and after are null and ordinal is the chunk's number in
the segment. A chunk is touched by the keys of its own row and of all key rows that have its path. Writers get one more column,
`part int`: it spreads a table's chunks over the sink's `parts`; change rows are in part 0."""

TEXTS = pa.list_(pa.field("element", pa.string()))
CHANGES = pa.schema(
    [
        ("seq", pa.int64()), ("commit_ts", pa.int64()), ("rank", pa.int32()), ("ordinal", pa.int64()), ("schema", pa.string()),
        ("table", pa.string()), ("op", pa.string()), ("key", pa.string()), ("before", TEXTS), ("after", TEXTS),
    ]
)  # fmt: skip
DELIVERIES = CHANGES.append(pa.field("chunk", pa.struct([("dump_id", pa.string()), ("path", pa.string()), ("touched", TEXTS)])))
"""CHANGE_SCHEMA and DELIVERY_SCHEMA as Arrow, arrays' elements named as Spark names them."""

DELIVERED_SCHEMA = "seq long, schema string, table string, path string, from_log long, from_dump long, dropped long"
"""What a sink's task reports for each file it wrote: rows from the log, from the dump, and dropped in windows."""


@dataclass(frozen=True, slots=True)
class DeliveredFile:
    """One file of a segment and table; `path` is relative to the output. Its rows are `from_log + from_dump`; `dropped`
    are rows of chunks whose key was touched in the window."""

    path: str
    table: TableName
    from_log: int
    from_dump: int
    dropped: int


@dataclass(frozen=True, slots=True)
class Delivered:
    """A segment's outcome in one sink."""

    seq: Seq
    files: tuple[DeliveredFile, ...]

    @property
    def tables(self) -> dict[TableName, tuple[int, int, int]]:
        """Rows by table, as (from_log, from_dump, dropped)."""
        found: dict[TableName, tuple[int, int, int]] = {}
        for file in self.files:
            log, dump, dropped = found.get(file.table, (0, 0, 0))
            found[file.table] = (log + file.from_log, dump + file.from_dump, dropped + file.dropped)
        return found


@dataclass(frozen=True, slots=True)
class SegmentHead:
    """What a sink must know of a segment besides its rows."""

    seq: Seq
    upto_ts: int
    ddls: tuple[tuple[int, str, str, str], ...]
    """(commit_ts, schema, table, query), after all rows of the segment."""


class Sink(Protocol):
    """An output. Delivery is at least once and a redone batch writes the same thing under the same identity."""

    @property
    def parts(self) -> int:
        """How many tasks may share the chunks of one segment and table; 1 where output order is the file's order."""

    def accepted(self) -> Seq | None:
        """The last seq accepted durably, None at the start. Every earlier one is accepted too."""

    def writer(self, schemas: Mapping[TableName, TableSchema], log: object) -> Writer:
        """The part that runs in Spark's tasks: picklable, knows no session."""

    def accept(self, heads: Iterable[SegmentHead], delivered: Iterable[Delivered]) -> None:
        """Make the batch's segments accepted, in order of seq: the last durable step. Refuses to go back (SinkError)."""


class Writer(Protocol):
    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Takes deliveries clustered by (seq, schema, table, part), in output order inside each; yields DELIVERED_SCHEMA."""
