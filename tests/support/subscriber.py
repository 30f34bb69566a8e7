"""Deliveries to a subscriber as plain rows, read as slowly and obviously as the wire format allows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import Seq, TableName
from spark_merge.sinks.folder.layout import SEGMENTS
from spark_merge.sinks.kit.chain import NumberedFiles
from spark_merge.sinks.spool.keeping import read_kept
from spark_merge.sinks.spool.reader import SpoolReader
from ticdc_dump.v1 import delivery_pb2 as pb

Image = tuple[str | None, ...] | None


def newest(folder: Folder) -> Seq | None:
    """By the listing of what readers go by."""
    return max(map(Seq, NumberedFiles(folder, SEGMENTS, ".json").numbers()), default=None)


OPS = {pb.ROW_OP_INSERT: "insert", pb.ROW_OP_UPDATE: "update", pb.ROW_OP_DELETE: "delete"}


class Row(NamedTuple):
    """`key`: of the row after the change, of a delete before it."""

    seq: int
    commit_ts: int
    ordinal: int
    table: TableName
    op: str
    key: tuple[str | None, ...]
    before: Image
    after: Image
    dump_id: str


def rows_of(deliveries: Iterable[pb.Delivery]) -> Iterator[Row]:
    tables: dict[int, pb.TableColumns] = {}
    for delivery in deliveries:
        tables |= {table.id: table for table in delivery.tables}
        for batch in delivery.rows:
            yield from _rows(delivery.seq, batch, tables[batch.table])


def _rows(seq: int, batch: pb.RowBatch, table: pb.TableColumns) -> Iterator[Row]:
    names = [column.name for column in table.columns]
    key = [names.index(name) for name in table.key]
    befores, afters = images(batch.before), images(batch.after)
    for op, commit_ts, ordinal in zip(batch.ops, batch.commit_tsos, batch.ordinals, strict=True):
        before = befores.pop(0) if op in (pb.ROW_OP_UPDATE, pb.ROW_OP_DELETE) else None
        after = afters.pop(0) if op in (pb.ROW_OP_INSERT, pb.ROW_OP_UPDATE) else None
        image = after or before
        assert image is not None
        assert len(image) == len(names)
        name = TableName(table.schema, table.table)
        if before is not None and batch.dump_id:
            assert all(text is None for at, text in enumerate(before) if at not in key), "of the row no more is known than its key"
            before = None
        yield Row(seq, commit_ts, ordinal, name, OPS[op], tuple(image[at] for at in key), before, after, batch.dump_id)
    assert not befores
    assert not afters


def images(columns: Iterable[pb.Texts]) -> list[tuple[str | None, ...]]:
    texts = [[None if at in set(column.nulls) else text for at, text in enumerate(column.values)] for column in columns]
    return list(zip(*texts, strict=True))


def spooled(folder: Folder, log: Folder) -> Iterator[pb.Delivery]:
    """All that is in the spool now, as a subscriber that comes now is given it, but for `Told`."""
    kept, last = read_kept(folder), newest(folder)
    if kept is None or last is None:
        return
    reader = SpoolReader(folder, log)
    for seq in range(kept.first, last + 1):
        deliveries = reader.deliveries(Seq(seq))
        assert deliveries is not None, seq
        yield from deliveries
