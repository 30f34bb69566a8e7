"""What a recording's binlogs did to its rows, worked out slowly, a transaction and a key at a time; and where they are not true.

Keys are handle keys here, as texts, and not TiDB's handles: another way to the same end than the log's (shared/rowcodec/binlog_fold.py).

**UPDATE IGNORE** that moves a clustered key onto one that is taken changes nothing, and yet its binlog deletes the row: TiDB undoes
what it wrote to TiKV, not what it wrote down for the binlog. Such a deletion looks like any other. Only the truth shows that it is false:
the row is still there as it was, and nothing wrote it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import pyarrow as pa

from sidecar.feeds.kv.schemas import KvSchemas
from sidecar.replay.judge.rows import Key, Row, equal_rows, rows_by_key
from sidecar.replay.recorded_line import RowChange
from sidecar.replay.recording import Recording
from sidecar.shared.model.nouns import Change, CommitTs, Ddl, Lane, Rank, TableName, TableSchema
from sidecar.shared.partition.ids import partition_ids
from sidecar.shared.rowcodec.binlog_event import event_of, schema_version_of
from sidecar.shared.rowcodec.binlog_row import decode_event
from sidecar.shared.rowcodec.binlog_table import binlog_table_of
from sidecar.shared.schema.ddl import DdlJob

Tables = Mapping[TableName, TableSchema]


@dataclass(frozen=True, slots=True)
class FalseDelete:
    """A row that a binlog deletes and TiDB kept."""

    commit_ts: CommitTs
    table: TableName
    key: Key


def net_rows(schemas: KvSchemas, jobs: Iterable[DdlJob], changes: Iterable[Change], upto_ts: CommitTs) -> list[RowChange]:
    """Of tables with a handle key, by commit_ts. `changes`: unfolded, by commit_ts. `schemas` has not begun."""
    tables = schemas.begin()
    for job in jobs:
        schemas.know_job(job)
    cuts = [ddl.commit_ts for ddl in schemas.resolve(upto_ts)]
    row_changes: list[RowChange] = []
    for commit_ts, of_commit in groupby(changes, key=lambda change: change.commit_ts):
        while cuts and cuts[0] < commit_ts:
            tables = schemas.after([Ddl(cuts.pop(0), Rank.DDL, "", "", "", Lane(""), 0)])
        row_changes += _of_commit(commit_ts, schemas.named(of_commit), tables)
    return row_changes


def _of_commit(commit_ts: CommitTs, changes: Iterable[Change], tables: Tables) -> list[RowChange]:
    """One transaction: what each key was before it, and is after it."""
    first: dict[tuple[TableName, Key], Row | None] = {}
    last: dict[tuple[TableName, Key], Row | None] = {}
    for change in sorted(changes, key=lambda change: event_of(change.value).ordinal):
        schema = tables[TableName(change.schema, change.table)]
        old, new = decode_event(binlog_table_of(schema, schema_version_of(change.value)), change.value)
        for texts, is_new in ((old, False), (new, True)):
            if texts is not None:
                place = schema.name, key_of(schema, tuple(texts))
                first.setdefault(place, None if is_new else tuple(texts))
                last[place] = tuple(texts) if is_new else None
    nets = [(table, first[table, key], after) for (table, key), after in last.items()]
    return [
        RowChange(commit_ts, name, _home(tables[name], before or after or ()), before, after)
        for name, before, after in nets
        if before or after
    ]


def _home(schema: TableSchema, row: Row) -> int:
    """The physical id that the row is under."""
    ids = partition_ids(schema, [pa.array([text], pa.string()) for text in row])
    return schema.table_id if ids is None else int(ids[0])


def key_of(schema: TableSchema, row: Row) -> Key:
    names = schema.column_names()
    texts = [row[names.index(column)] for column in schema.key]
    assert None not in texts
    return tuple(text for text in texts if text is not None)


def without_false_deletes(recording: Recording, changes: Sequence[RowChange]) -> tuple[list[RowChange], list[FalseDelete]]:
    """The changes as TiDB made them, and what was omitted. Of a recording without DDLs."""
    false: dict[tuple[TableName, Key], RowChange] = {}
    for tso in recording.truth_ts:
        truth = recording.truth(tso)
        kept = _by_table(recording, truth)
        for (name, key), change in _last(recording, changes, tso).items():
            row = kept.get(name, {}).get(key)
            if (
                change.after is None
                and row is not None
                and change.before is not None
                and equal_rows(recording.schemas[name], row, change.before)
            ):
                false.setdefault((name, key), change)
    left_out = {id(change) for change in false.values()}
    false_deletes = [FalseDelete(change.commit_ts, name, key) for (name, key), change in false.items()]
    return [change for change in changes if id(change) not in left_out], false_deletes


def _last(recording: Recording, changes: Iterable[RowChange], upto_ts: CommitTs) -> dict[tuple[TableName, Key], RowChange]:
    """Of each key, its last change up to there."""
    return {
        (change.table, key_of(recording.schemas[change.table], image)): change
        for change in changes
        if change.commit_ts <= upto_ts and change.table in recording.schemas and (image := change.after or change.before) is not None
    }


def _by_table(recording: Recording, truth: Mapping[TableName, pa.Table]) -> dict[TableName, dict[Key, Row]]:
    return {
        name: rows_by_key(recording.schemas[name], rows)
        for name, rows in truth.items()
        if name in recording.schemas and recording.schemas[name].key
    }
