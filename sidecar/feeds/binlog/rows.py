"""What TiDB-Binlog's changes are to filters and to the log: all of a row in one transaction are one, and each has its schema version."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import pyarrow as pa

from sidecar.feeds.kv.row_filter import Judged, TableOf
from sidecar.shared.errors import FeedError, SinkError
from sidecar.shared.model.nouns import Change, TableSchema
from sidecar.shared.partition.ids import partition_ids
from sidecar.shared.rowcodec.binlog_event import event_of, schema_version_of
from sidecar.shared.rowcodec.binlog_fold import folded
from sidecar.shared.rowcodec.binlog_row import Texts, decode_event, unreadable
from sidecar.shared.rowcodec.binlog_table import BinlogTable, binlog_table_of
from sidecar.shared.rowcodec.kv_error import Broken
from sidecar.shared.rowcodec.kv_layout import kv_table_of, schema_under
from sidecar.shared.ticdc.event_filter import RowEvent


class BinlogRows:
    """A transaction carries the schema version at which it began. Its rows are as its table was when it first touched that: at most one DDL
    behind, and only before that DDL is over. For TiDB ends a DDL when no transaction is left that may use what was before it (by
    metadata locks, else by its schema lease, where such a transaction cannot commit), and begins no other one of the table before.

    Source: pingcap/tidb planner/core/preprocess.go tryLockMDLAndUpdateSchemaIfNecessary, ddl/ddl_worker.go (waits, then finishDDLJob, whose
    start is FinishedTS), domain/schema_validator.go Check; seen in all rows of the recordings.
    """

    has_previous = True
    logical_ids = True

    def settled(self, changes: Iterable[Change], table_of: TableOf) -> Iterable[Change]:
        return folded(changes, table_of)

    def home(self, table: TableSchema, change: Change) -> int | None:
        """Raises FeedError for a table of which the partitions are unknown."""
        previous = table.former
        if previous is None or schema_version_of(change.value) >= previous.until or 0 < previous.upto_ts < change.commit_ts:
            return None
        before = schema_under(table, previous.layout)
        if before.physical_ids == table.physical_ids or before.physical_ids == (before.table_id,):
            return None
        old, new = decode_event(BinlogTable(kv_table_of(before)), change.value)
        try:
            ids = partition_ids(before, [pa.array([text], pa.string()) for text in new or old or ()])
        except SinkError as error:
            raise FeedError(
                f"a row of {table.name} at commit_ts {change.commit_ts} was written before its partitions changed, and {error.message}",
                hint="begin a new log behind this moment with new sinks, and dump again; then report this text",
            ) from error
        return None if ids is None else int(ids[0])

    def reader(self, table: TableSchema) -> Callable[[Change], Judged]:
        return partial(_judged, table)


def _judged(table: TableSchema, change: Change) -> Judged:
    try:
        event = event_of(change.value)
    except Broken as broken:
        raise unreadable(kv_table_of(table), broken) from broken
    kind = RowEvent.INSERT if event.old is None else RowEvent.UPDATE if event.new is not None else RowEvent.DELETE
    return Judged(kind, partial(_row, table, change.value, is_old=True), partial(_row, table, change.value, is_old=False))


def _row(table: TableSchema, value: bytes, *, is_old: bool) -> Texts:
    before, after = decode_event(binlog_table_of(table, schema_version_of(value)), value)
    row = before if is_old else after
    assert row is not None, "the kind of its change requires it"
    return row
