"""Logs for the events of a table, and what is made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sidecar.shared.log.manifest import DdlRecord, Manifest
from sidecar.shared.log.segment_log import FolderLog
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.chunk import ChunkFile, ClosedWindow
from sidecar.shared.model.hole import Hole
from sidecar.shared.model.keyset import Key
from sidecar.shared.model.nouns import Change, CommitTs, Seq, TableName, TableSchema
from spark_merge.log.undecodable import Decoding
from spark_merge.tail.events import TailEvent
from spark_merge.tail.segment import TailScope
from spark_merge.tail.stream import Since, TableStream
from spark_merge.tail.wanted import table_named
from spark_merge.testing.histories import COLUMNS, change_of

STEP = 100
"""Of the commit-ts, from segment to segment."""
ORDERS = TableName("shop", "orders")


def schema(name: TableName, table_id: int = 0) -> TableSchema:
    return TableSchema(name, COLUMNS, ("id", "part"), table_id)


def put(name: TableName, ts: int, key: str, v: str | None, old: str | None = None) -> Change:
    return change_of(name, CommitTs(ts), "UPDATE", new=(key, "1", v), old=(key, "1", old))


class WrittenLog:
    """Segment by segment, a hundred commit-ts long each."""

    def __init__(self, folder: Folder, tables: Mapping[TableName, int]) -> None:
        self.folder, self.log = folder, FolderLog(folder)
        self.log.recover(epoch=1)
        self.manifests: list[Manifest] = []
        self._tables = tables

    def segment(
        self,
        *changes: Change,
        ddl: str = "",
        of: TableName = ORDERS,
        tables: Mapping[TableName, int] | None = None,
        windows: Sequence[ClosedWindow] = (),
        holes: Sequence[Hole] = (),
    ) -> Manifest:
        """`tables`: those after its DDL, with their ids."""
        seq = Seq(len(self.manifests))
        schemas = self.log.write_schemas({name: schema(name, id_) for name, id_ in self._tables.items()})
        self._tables = self._tables if tables is None else tables
        after = None if tables is None else self.log.write_schemas({name: schema(name, id_) for name, id_ in tables.items()})
        data = self.log.write_data(seq, epoch=1, codec="canal-json", changes=changes)
        first, last = CommitTs(seq * STEP), CommitTs((seq + 1) * STEP)
        ddls = (DdlRecord(last, of.schema, of.table, ddl),) if ddl else ()
        manifest = Manifest(
            seq, 1, first, last, data.name, data.rows, data.bytes, {}, schemas, "canal-json", ddls, tuple(windows), next_schemas=after,
            table_rows=data.table_rows, id=str(seq), open_from=None, holes=tuple(holes),
        )  # fmt: skip
        self.manifests.append(manifest)
        self.log.commit(manifest)
        return manifest


def window(low: int, high: int, first_seq: int, *chunks: ChunkFile, sinks: tuple[str, ...] = ()) -> ClosedWindow:
    return ClosedWindow("d" * 16, CommitTs(low), CommitTs(high), Seq(first_seq), chunks, sinks)


def stream_of(log: Folder, name: TableName = ORDERS, *, key: Key | None = None, sink: str = "", since: Since | None = None) -> TableStream:
    followed, _ = table_named(log, str(name))
    return TableStream(TailScope(log, Decoding(), key, sink), followed, since or Since())


def events_of(log: Folder, name: TableName = ORDERS, *, key: Key | None = None, sink: str = "") -> list[TailEvent]:
    return list(stream_of(log, name, key=key, sink=sink).all())
