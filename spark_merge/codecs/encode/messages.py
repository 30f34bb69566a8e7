"""Rows, DDLs and resolved marks as messages of a changefeed's protocol: what every protocol's encoder gives.

An encoder knows a table's schema, its definition and canonical texts, and nothing else: so a dump's rows, and rows of feeds that have no
such bytes (raw key-values, TiDB-Binlog), come out as TiCDC would have written them. Which encoder a protocol has: codecs/protocols.py.

Options, under TiCDC's names where it has one; what an encoder does not know it leaves alone:

    time-zone                                 the TiCDC server's `--tz`, in which TIMESTAMPs are written: UTC
    delete-only-output-handle-key-columns     of a deleted row the key alone: false
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from sidecar.shared.errors import SinkError
from sidecar.shared.log.manifest import DdlRecord
from sidecar.shared.model.nouns import CommitTs, TableDefinition, TableSchema
from sidecar.shared.partition.ids import NEW_LOG
from spark_merge.port.contract import CHANGES, RANK_CHUNK, TEXTS, ChunkPiece
from spark_merge.port.keys import key_text

Architecture: TypeAlias = Literal["classic", "new"]
"""TiCDC's: tiflow's, or pingcap/ticdc's (`newarch`)."""


RowMessage: TypeAlias = "tuple[bytes | None, bytes | None]"
"""Key and value. A plain tuple: making a named one of each row costs as much as a third of its text (measured)."""


class Encoder(Protocol):
    """One protocol as TiCDC of one architecture writes it. Picklable."""

    def rows(
        self,
        schema: TableSchema,
        changes: pa.Table,
        physical_ids: Sequence[int] | None,
        *,
        keys_only: bool = False,
        topic: str = "",
    ) -> Sequence[RowMessage]:
        """One message a row of `changes` (contract.CHANGES). `physical_ids` of a partitioned table's rows, where known. `keys_only`: of
        deleted rows no more is known than the handle key, and no other column is written. `topic`: where the messages go. Raises SinkError
        naming the table, the column and what is missing (a definition, a partition)."""

    def location_message(self, whole: RowMessage, schema: TableSchema, location: str) -> RowMessage:
        """For a row whose message, TiCDC's or ours, is in a file (sidecar/shared/codecs/claim_file.py): its handle key, and `location`."""

    def resolved(self, ts: CommitTs) -> RowMessage: ...

    def ddl(self, ddl: DdlRecord, before: TableSchema | None, after: TableSchema | None) -> RowMessage: ...


class SchemaIds(Protocol):
    """A schema registry, for who writes. Picklable."""

    def id_of(self, subject: str, schema: str) -> int:
        """Of the schema, JSON, which the subject has from now on. Raises SinkError."""


def definition_of(schema: TableSchema) -> TableDefinition:
    """What the table was made of. Raises SinkError where the log does not tell it."""
    if schema.definition is None:
        raise SinkError(f"the log does not tell what {schema.name} was made of, so its rows cannot be encoded", hint=NEW_LOG)
    return schema.definition


def changes_of(piece: ChunkPiece, schema: TableSchema) -> pa.Table:
    """A chunk's survivors as CHANGES as of the window's high_ts: inserts, or deletes of keys."""
    rows, due = piece.survivors.rows, piece.due
    columns = [rows.column(name) for name in schema.column_names()]
    key = key_text([rows.column(name) for name in schema.key]) if schema.key and len(rows) else pa.nulls(len(rows), pa.string())
    ordinals = piece.survivors.ordinals
    schema_name, table = schema.name
    op = "delete" if piece.deletes else "insert"
    fixed = {"seq": due.seq, "commit_ts": due.high_ts, "rank": RANK_CHUNK, "schema": schema_name, "table": table, "op": op}
    filled = {name: pa.repeat(pa.scalar(value, CHANGES.field(name).type), len(rows)) for name, value in fixed.items()}
    there, none = ("before", "after") if piece.deletes else ("after", "before")
    filled |= {"ordinal": ordinals, "key": key, there: _lists(columns, len(rows)), none: pa.nulls(len(rows), TEXTS)}
    return pa.table([filled[name] for name in CHANGES.names], schema=CHANGES)


def _lists(columns: Sequence[pa.ChunkedArray], rows: int) -> pa.Array:
    """Columns to one list a row: the values of all columns one behind the other, taken row by row."""
    if not columns or not rows:
        return pa.array([[]] * rows, TEXTS)
    width = len(columns)
    stacked = pa.concat_arrays([chunk for column in columns for chunk in column.chunks])
    order = np.arange(width * rows).reshape(width, rows).T.ravel()
    offsets = np.arange(0, width * rows + 1, width, dtype=np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), stacked.take(pa.array(order)), type=TEXTS)
