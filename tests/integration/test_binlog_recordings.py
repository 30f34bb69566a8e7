"""Rows of recorded TiDB-Binlogs: what they decode and fold to is what the cluster had, and both decoders say so."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import pyarrow as pa
import pytest

from sidecar.shared.model.canonical import equal_text
from sidecar.shared.model.nouns import MARK_TABLE, TableName, TableSchema
from sidecar.shared.rowcodec.binlog_event import schema_version_of
from sidecar.shared.rowcodec.binlog_row import DecodedBinlogRows, decode_logged
from sidecar.shared.rowcodec.binlog_table import is_older
from spark_merge.codecs.decode.binlog import decode_events
from spark_merge.codecs.images import NO_IMAGE
from tests.lanes import LANE
from tests.support.binlog_recordings import COMPACT, WHOLE, binlog_recording

pytestmark = pytest.mark.recordings

ALL = WHOLE if LANE.whole else COMPACT

FALSE_DELETES = {"binlog-ignore": 8, "binlog-totidb": 4}
"""Of UPDATE IGNORE: the stream deletes a row that TiDB kept (facts: TiDB 7.0 with binlog on). Some are written again before the end."""

EXCHANGED = {TableName("shop", "ledger"), TableName("shop", "swap_me")}
"""In binlog-ddl EXCHANGE PARTITION gives each of them rows of the other, of which no binlog tells."""

PREVIOUS_ROWS = {"binlog-ddl2": 5, "binlog-ddl": 11}
"""Rows that were written under a layout which held no more when they were committed."""

Row = Sequence[str | None]
Key = tuple[str | None, ...]


class Last(NamedTuple):
    """What the stream said of a key last."""

    commit_ts: int
    row: Row | None


def key_of(schema: TableSchema, row: Row) -> Key:
    names = schema.column_names()
    return tuple(row[names.index(name)] for name in schema.key)


class Checking(NamedTuple):
    commit_ts: int
    table_id: str
    schema: TableSchema
    rows: DecodedBinlogRows


@cache
def decoded(name: str) -> list[Checking]:
    """By the slow decoder; changes of tables without a key, and of those that nobody knows, are left out."""
    recording = binlog_recording(name)
    known = [(change, schema) for change in recording.changes if (schema := recording.schema(change.table, change.commit_ts)) is not None]
    return [Checking(change.commit_ts, change.table, schema, decode_logged(schema, change.value)) for change, schema in known if schema.key]


@pytest.mark.parametrize("name", ALL)
def test_every_row_is_as_the_cluster_had_it(name: str) -> None:
    """At each snapshot: what the stream said last of a key, of what it said since the table was changed."""
    recording, left = binlog_recording(name), deque(decoded(name))
    last: defaultdict[str, dict[Key, Last]] = defaultdict(dict)
    seen: Counter[str] = Counter()
    false_deletes = set()
    for truth_ts in sorted(recording.truths[1:]):
        while left and left[0].commit_ts <= truth_ts:
            reported = left.popleft()
            before, after = reported.rows
            if before is not None:
                last[reported.table_id][key_of(reported.schema, before)] = Last(reported.commit_ts, None)
            if after is not None:
                last[reported.table_id][key_of(reported.schema, after)] = Last(reported.commit_ts, after)
        for table_id, schema, since, rows in recording.tables_at(truth_ts):
            if name == "binlog-ddl" and schema.name in EXCHANGED:
                continue
            true = {key_of(schema, row): row for row in rows}
            for key, (commit_ts, row) in last[table_id].items():
                if commit_ts <= since:
                    continue
                seen["row" if row is not None else "no row"] += 1
                if row is None and key in true:
                    false_deletes.add((commit_ts, schema.name, key))
                elif row is not None:
                    assert key in true, (truth_ts, schema.name, key)
                    assert same_row(schema, row, true[key]), (truth_ts, schema.name, row, true[key])
    assert seen["row"] > 300
    assert seen["no row"] > 50
    assert len(false_deletes) == FALSE_DELETES.get(name, 0), false_deletes


@pytest.mark.parametrize("name", [name for name in ALL if "ddl" not in name])
def test_the_start_and_all_changes_come_to_the_end(name: str) -> None:
    """No row more, none fewer but for the false deletes, and each old row is the one that was there."""
    recording = binlog_recording(name)
    state: defaultdict[str, dict[Key, Row]] = defaultdict(dict)
    for table_id, schema, _, rows in recording.tables_at(recording.start_ts):
        state[table_id] = {key_of(schema, row): row for row in rows}
    odd: Counter[str] = Counter()
    for _, table_id, schema, (before, after) in decoded(name):
        if before is not None:
            was = state[table_id].pop(key_of(schema, before), None)
            odd["was not there"] += was is None
            odd["another old row"] += was is not None and not same_row(schema, was, before)
        if after is not None:
            odd["was there"] += key_of(schema, after) in state[table_id]
            state[table_id][key_of(schema, after)] = after
    lacking = 0
    for table_id, schema, _, rows in recording.tables_at(recording.end_ts):
        true = {key_of(schema, row): row for row in rows}
        assert state[table_id].keys() <= true.keys()
        lacking += len(true.keys() - state[table_id].keys())
        assert all(same_row(schema, row, true[key]) for key, row in state[table_id].items()), schema.name
    allowed = FALSE_DELETES.get(name, 0)
    assert odd["another old row"] == odd["was there"] == 0
    assert odd["was not there"] <= allowed
    assert lacking <= allowed
    assert (lacking > 0) == (allowed > 0)


def same_row(schema: TableSchema, one: Row, other: Row) -> bool:
    return all(equal_text(column.kind, *texts) for column, *texts in zip(schema.columns, one, other, strict=True))


@pytest.mark.parametrize("name", ALL)
def test_the_decoder_by_columns_gives_what_the_slow_one_gives(name: str) -> None:
    recording = binlog_recording(name)
    by_schema: defaultdict[TableSchema, list[bytes]] = defaultdict(list)
    for change in recording.changes:
        if (schema := recording.schema(change.table, change.commit_ts)) is not None:
            by_schema[schema].append(change.value)
    previous = 0
    for schema, values in by_schema.items():
        images = decode_events(schema, pa.array(values, pa.binary()))
        rows = [list(row) for row in zip(*(texts.to_pylist() for texts in images.columns), strict=True)]
        for value, old, new in zip(values, images.before, images.after, strict=True):
            assert decode_logged(schema, value) == (None if old == NO_IMAGE else rows[old], None if new == NO_IMAGE else rows[new])
            previous += is_older(schema, schema_version_of(value))
    assert previous == PREVIOUS_ROWS.get(name, 0)


def test_marks_are_among_the_rows() -> None:
    recording = binlog_recording("binlog")
    marks = [change for change in recording.changes if (one := recording.schema(change.table, change.commit_ts)) and one.name == MARK_TABLE]
    assert len(marks) > 5
