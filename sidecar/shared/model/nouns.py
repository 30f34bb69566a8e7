"""The nouns of the flow, as plain values. Nothing in here acts.

    Message  --codec-->  Change | Ddl | Resolved  --sequence-->  Segment  --log-->  Manifest

A ts is a TiDB TSO (uint64: physical milliseconds, then a logical counter). A position counts messages inside one
lane and is never used as an order between changes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import IntEnum
from typing import Literal, NamedTuple, NewType

CommitTs = NewType("CommitTs", int)
Seq = NewType("Seq", int)
FIRST_SEQ = Seq(0)
"""Of every log."""
Lane = NewType("Lane", str)
"""A part of the feed that advances independently, named for people: `kafka/orders/2`."""
OperationId = NewType("OperationId", str)
"""Of a dump or a verification. A file's path and a key of etcd are made of it and of no other text. Of a text `operation_id` makes one."""
OPERATION_ID = r"[0-9A-Za-z]{1,64}"
"""Each that a client or a sidecar has made has 16 (`marks.DUMP_ID_LENGTH`)."""

TSO_LOGICAL_BITS = 18
ID_SHOWN_MAX = 64
"""Characters in an error."""


def operation_id(text: str) -> OperationId:
    """Raises ValueError for what is not one."""
    if re.fullmatch(OPERATION_ID, text) is None:
        shown = text if len(text) <= ID_SHOWN_MAX else f"{text[:ID_SHOWN_MAX]}… ({len(text):,} characters)"
        raise ValueError(f"{shown!r} is not the id of a dump or a verification: expected letters and digits, such as 0123456789abcdef")
    return OperationId(text)


def physical_ms(ts: int) -> int:
    """The wall clock in a TSO, in milliseconds since 1970; of a distance between two the milliseconds."""
    return ts >> TSO_LOGICAL_BITS


def ts_at(ms: int, logical: int = 0) -> CommitTs:
    """The TSO of a moment; of a number of milliseconds the distance between two TSOs."""
    return CommitTs((ms << TSO_LOGICAL_BITS) + logical)


def complete_since(ts: CommitTs | None) -> str:
    """What is said of a table at a sink. 0 and None: it lacks rows, as far as is known."""
    return f"complete since {ts} ({utc(ts)})" if ts else "not complete"


def utc(ts: CommitTs | None) -> str:
    """A TSO as people read it; a dash for none."""
    if not ts:
        return "-"
    return datetime.fromtimestamp(physical_ms(ts) / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def lowered(name: str) -> str:
    """As TiDB and TiCDC, letter by letter. Only İ becomes two letters in Python; Go has the first of them."""
    return name.lower() if name.isascii() else "".join(char.lower()[0] for char in name)


class TableName(NamedTuple):
    schema: str
    table: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"

    def folded(self) -> TableName:
        """What TiDB compares: two names are one table's if their folded forms are equal. The feed may write a name in another case
        than the source does (ticdc/topics.py says when)."""
        return TableName(lowered(self.schema), lowered(self.table))


MARK_TABLE = TableName("changefeed_dump", "changefeed_dump_event")
"""The watermark table. Its rows are marks, never data: they stay in the log and reach no sink."""


class ReadEnd(NamedTuple):
    """How far a lane was read: what the next message gets, and the leader epoch of the last one (in Kafka: which of a partition's leaders
    wrote it). The greater of two was read later. A manifest keeps 31 bits of `epoch`."""

    position: int
    epoch: int


class Message(NamedTuple):
    """One record as the feed delivered it. `key` and `value` are None where Kafka has null. `after_gap`: what was before it in its lane is
    gone, and nobody has read it."""

    lane: Lane
    position: int
    key: bytes | None
    value: bytes | None
    after_gap: bool = False

    def at(self) -> str:
        """The place that an error message names."""
        return f"message {self.lane}@{self.position}"


class Rank(IntEnum):
    """What comes first at one commit_ts. A DDL is last: a change at its commit_ts has the schema before it."""

    DELETE = 0
    PUT = 1
    DDL = 2


class Change(NamedTuple):
    """One row's insert, update or delete. `key` and `value` are the message's own bytes for that row.

    The first two fields are the order inside a segment; arrival breaks ties.
    """

    commit_ts: CommitTs
    rank: Rank
    schema: str
    table: str
    key: bytes
    value: bytes
    lane: Lane
    position: int


class Ddl(NamedTuple):
    """A schema change. Without a `query` it is a cut only: the tables are others from here on, and no sink receives it."""

    commit_ts: CommitTs
    rank: Rank
    schema: str
    table: str
    query: str
    lane: Lane
    position: int


class Resolved(NamedTuple):
    """TiCDC's promise: nothing at or below `ts` is still to come in this lane (but a DDL at `ts` may still come)."""

    lane: Lane
    ts: CommitTs
    position: int


Envelope = Change | Ddl | Resolved


class MarkKind(IntEnum):
    """`event_type` of the watermark row."""

    LOW = 1
    HIGH = 2


class Mark(NamedTuple):
    """One version of our watermark row, as seen in the feed."""

    commit_ts: CommitTs
    changefeed_id: str
    uuid: str
    kind: MarkKind


@dataclass(frozen=True, slots=True)
class Segment:
    """All changes with `after_ts < commit_ts <= upto_ts`, in order.

    `changes` is read once, in order, and may be longer than memory. A segment ends at a DDL's commit_ts or has no DDL.
    `positions` are where to read on, per lane, to meet every change that is in neither this segment nor an earlier one.
    """

    after_ts: CommitTs
    upto_ts: CommitTs
    changes: Iterable[Change]
    ddls: tuple[Ddl, ...]
    positions: dict[Lane, int]


Kind = Literal[
    "int", "uint", "float", "double", "decimal", "text", "binary", "enum", "set", "bit", "date", "time", "datetime",
    "timestamp", "year", "json", "vector",
]  # fmt: skip
"""What decides a value's canonical text, NULL being null:

int, uint, bit         decimal digits (year: four)         decimal   digits with the column's scale
float, double          shortest text (`repr`); a float as the double of its float32 value
text                   the text                            binary    upper-case hex, binary(n) padded with 00
enum, set              labels; a set's joined by commas    json      TiDB's text; equal if equal when parsed
date time datetime     MySQL's text with `scale` digits    timestamp the same, in UTC        vector   TiDB's text
"""


@dataclass(frozen=True, slots=True)
class Column:
    """`length` is n of binary(n) and bit(n) and decimal's precision, else -1; `scale` the digits after the point or of
    fractional seconds; `elements` the labels of an enum or set in order."""

    name: str
    kind: Kind
    nullable: bool = True
    length: int = -1
    scale: int = 0
    elements: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ColumnDefinition:
    """A column as it was made. `type_text` is information_schema's COLUMN_TYPE as TiDB returns it: `bigint(20) unsigned`,
    `enum('a','b')`. `charset` and `collation` are empty where the type has none. `default` is SQL, a literal with its quotes or an
    expression, None without one. `on_update` and `generated` are SQL, empty without one; a generated column that is not `stored` is
    virtual."""

    name: str
    type_text: str
    nullable: bool = True
    charset: str = ""
    collation: str = ""
    default: str | None = None
    on_update: str = ""
    generated: str = ""
    stored: bool = False


@dataclass(frozen=True, slots=True)
class IndexPart:
    """A column, or an `expression` in SQL; of a column the first `length` characters (bytes of binary types), -1 for all of it."""

    column: str = ""
    length: int = -1
    expression: str = ""


@dataclass(frozen=True, slots=True)
class IndexDefinition:
    """`id` is TiDB's, 0 where it has none (a clustered primary key of one integer column)."""

    name: str
    parts: tuple[IndexPart, ...]
    unique: bool = False
    primary: bool = False
    id: int = 0


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """What a table was made of, as far as a sink can make or describe it again: all public columns in table order, virtual ones too; all
    public indexes, the primary key first and then in order of id. `partitioning` is the PARTITION BY clause of SHOW CREATE TABLE without
    comments of a version, empty for none; its partitions come in the order of `TableSchema.physical_ids`. `new_collation`: texts compare
    as their collations say; False in a cluster that compares bytes whatever these are (mysql/collation.py)."""

    columns: tuple[ColumnDefinition, ...]
    indexes: tuple[IndexDefinition, ...] = ()
    clustered: bool = True
    charset: str = ""
    collation: str = ""
    partitioning: str = ""
    new_collation: bool = True


class PreviousLayout(NamedTuple):
    """What a table was before its last DDL: rows of a schema version below `until` may be of this layout, as long as they commit at or
    below `upto_ts`; 0: that is not known."""

    until: int
    layout: str
    upto_ts: int = 0


@dataclass(frozen=True, slots=True)
class TableSchema:
    """A table as the feed carries it: public columns in table order, without virtual generated ones.

    `key` names the handle key's columns (PK, else the NOT NULL unique key TiCDC uses); empty: TiCDC does not
    replicate the table. `table_id` and `physical_ids` (the partitions' ids, else the table's own) tell another table of the same
    name; 0 and empty where the source does not tell them. `layout` is what decoding raw key-values needs besides (rowcodec/kv_layout.py),
    empty for feeds that name their columns. `definition` is None where the log does not have it: one of 0.3.0 and before.

    `omitted`: public columns in table order that the feed does not carry (ticdc/selected_columns.py). They are columns only for who reads
    the table in TiDB.

    `feed_name`: what the feed calls it, where that is another name (ticdc/table_routes.py); else None.

    It has a `PreviousLayout` in a feed whose rows name the schema version that they were written under (TiDB-Binlog); else None.
    """

    name: TableName
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    table_id: int = 0
    physical_ids: tuple[int, ...] = ()
    layout: str = ""
    definition: TableDefinition | None = None
    former: PreviousLayout | None = None
    omitted: tuple[Column, ...] = ()
    feed_name: TableName | None = None

    def column_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def undefined(self) -> TableSchema:
        """Without what may differ while the table is the same. A definition says nothing of what the feed's rows are: it may come to be
        known, or change by an index. What rows were written under before is forgotten some time after the table was changed. What the feed
        calls a table is no part of it."""
        if self.definition is None and self.former is None and self.feed_name is None:
            return self
        return replace(self, definition=None, former=None, feed_name=None)


def carried(tables: Mapping[TableName, TableSchema]) -> tuple[TableName, ...]:
    """Those of which a log has rows that are data, by name: TiCDC sends none of a table without a handle key."""
    return tuple(sorted(name for name, table in tables.items() if table.key and table.columns and name.schema != MARK_TABLE.schema))
