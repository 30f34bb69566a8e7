"""Key-values amid thirty schema changes, each row under the schema at its commit_ts - 1, are the changes that TiCDC sent in
open-protocol and canal-json; and kept as they were written and read under a later schema, they are the truth.

What differs is listed by name, with its count; deploy/KV.md has the same list for who runs this. `SUCCESSORS`: amid MODIFY COLUMN a
row holds the new column alone, and TiCDC puts NULL or a default (pingcap/ticdc#5548). `LOST`: an UPDATE committed between the switch
of REMOVE PARTITIONING and its end, which no TiCDC sends. `UPDATES_SPLIT`: TiCDC sends an update that changes a unique key as a delete
and an insert of the same key. Left out by TiCDC and by us: what has no table at its moment, and tables without a usable key.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pytest

from sidecar.replay.judge.rows import equal_rows, rows_by_key
from sidecar.shared.columns.kv import decode_rows
from sidecar.shared.model.canonical import equal_text
from sidecar.shared.model.nouns import MARK_TABLE, CommitTs, TableName
from sidecar.shared.rowcodec.kv_row import cells_of, decode_row
from sidecar.shared.rowcodec.kv_table import KvTable
from sidecar.shared.schema.ddl import DdlEvent, Effect
from sidecar.shared.schema.version import TableVersion
from tests.support.kv_ddl import DdlRecording, Raw, Row, ddl_recording, feed_versions, kv_versions
from tests.support.kv_state import State

NAMES = ("ddl", "ddl-new")
FEEDS = ("open-protocol", "canal-json")

SUCCESSORS = {
    "ddl": {
        ("item", 470609352317992964, "SKU-159-é", "cost", "3108857", None),
        ("item", 470609352331100170, "SKU-197-é", "cost", "-8379703", None),
    },
    "ddl-new": {
        ("item", 470609407891996676, "SKU-410-é", "rank_", "47070", None),
        ("item", 470609409215561738, "SKU-104-é", "cost", "4223567", None),
    },
}
"""Table, commit_ts, key, column, our text, the feed's."""

LOST = {"ddl": {(TableName("shop", "event_log"), 470609369277923349, ("751305",))}, "ddl-new": set()}
UPDATES_SPLIT = {"ddl": 166, "ddl-new": 145}
NO_TABLE = {"ddl": {"not yet": 253, "gone": 2}, "ddl-new": {"not yet": 263, "gone": 2}}
"""Copies amid REMOVE PARTITIONING; a row late for TRUNCATE, and one written to an old partition too (test_schema_history_recordings)."""
NO_KEY = {"ddl": 865, "ddl-new": 939}
DELETES_OF_NOTHING = {"ddl": 2, "ddl-new": 1}
REPEATS = {"ddl": 9, "ddl-new": 13}

HIDDEN_FROM_SQL = {("ddl-new", 470609405335830529): {("orders", "flags")}}
"""A truth amid DROP COLUMN: SQL sees the column no more, while the schema of the feed has it to the end of the DDL."""

pytestmark = pytest.mark.recordings


# ---- row for row ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("feed", FEEDS)
@pytest.mark.parametrize("name", NAMES)
def test_key_values_are_the_changes_of_the_feed_but_for_what_is_listed(name: str, feed: str) -> None:
    mine, theirs = kv_versions(name), feed_versions(name, feed)
    assert theirs.keys() - mine.keys() == set()
    assert mine.keys() - theirs.keys() == LOST[name]
    other_cells, other_ops = set(), Counter[tuple[tuple[str, ...], tuple[str, ...]]]()
    for place, other in theirs.items():
        versions, columns = mine[place], mine[place].version.description.schema.columns
        assert versions.version is other.version, "both were looked up at commit_ts - 1"
        for ours, feeds in ((versions.before, other.before), (versions.after, other.after)):
            assert (ours is None) == (feeds is None), place
            for column, a, b in zip(columns, ours or (), feeds or (), strict=False):
                if not equal_text(column.kind, a, b):
                    other_cells.add((place[0].table, place[1], place[2][0], column.name, a, b))
        other_ops[versions.ops, other.ops] += versions.ops != other.ops
    assert other_cells == SUCCESSORS[name]
    assert +other_ops == {(("update",), ("delete", "insert")): UPDATES_SPLIT[name]}


@pytest.mark.parametrize("name", NAMES)
def test_what_is_left_out_is_counted(name: str) -> None:
    recording = ddl_recording(name)
    without: Counter[str] = Counter()
    for raw in recording.entries:
        version = recording.history.table_at(raw.table_id, raw.commit_ts - 1)
        if version is None:
            without[recording.history.absence(raw.table_id, raw.commit_ts - 1)] += 1
        elif not version.description.schema.key:
            without[f"no key: {version.name.table}"] += 1
            assert all(decode_row(version.description, raw.key, value) for value in (raw.value, raw.old) if value)
        elif not (raw.value or raw.old):
            without["nothing"] += 1
    expected = NO_TABLE[name] | {"no key: heap": NO_KEY[name], "nothing": DELETES_OF_NOTHING[name]}
    assert without == Counter(expected)
    assert recording.repeats == REPEATS[name]


# ---- amid MODIFY COLUMN ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_value_that_ticdc_does_not_find_is_the_one_that_sql_sees(name: str) -> None:
    """The same bytes under the schema after the DDL, whose column is the successor."""
    recording = ddl_recording(name)
    for table, commit_ts, key, column, text, _ in SUCCESSORS[name]:
        (raw,) = [one for one in _rows_at(recording, commit_ts) if key in (decode_row(_amid(recording, one), one.key, one.value))]
        amid = _amid(recording, raw)
        (done,) = [e for e in recording.events if e.commit_ts >= commit_ts and e.effect is Effect.ALTER and _is_of(e, table)][:1]
        after = recording.history.table_at(raw.table_id, done.commit_ts)
        assert after is not None
        number = amid.schema.column_names().index(column)
        successor = amid.columns[number].successor
        assert successor is not None
        held = cells_of(raw.value).present
        assert amid.columns[number].id not in held
        assert successor.id in held
        assert done.start_ts < commit_ts <= done.commit_ts
        assert decode_row(after.description, raw.key, raw.value)[after.description.schema.column_names().index(column)] == text


def _rows_at(recording: DdlRecording, commit_ts: int) -> list[Raw]:
    return [raw for raw in recording.entries if raw.commit_ts == commit_ts and raw.value]


def _amid(recording: DdlRecording, raw: Raw) -> KvTable:
    version = recording.history.table_at(raw.table_id, raw.commit_ts - 1)
    assert version is not None
    return version.description


def _is_of(event: DdlEvent, table: str) -> bool:
    return any(one.name_after is not None and one.name_after.table == table for one in event.tables)


@pytest.mark.parametrize("name", NAMES)
def test_without_the_step_of_the_running_job_the_values_would_be_lost(name: str) -> None:
    """The count of rows that need it is the count of those listed: nothing else is decoded by a successor."""
    recording = ddl_recording(name)
    other = 0
    for raw in recording.entries:
        version = recording.history.table_at(raw.table_id, raw.commit_ts - 1)
        if version is None or all(column.successor is None for column in version.description.columns):
            continue
        plain = replace(version.description, columns=tuple(replace(column, successor=None) for column in version.description.columns))
        for value in filter(None, (raw.value, raw.old)):
            other += decode_row(version.description, raw.key, value) != decode_row(plain, raw.key, value)
    assert other == len(SUCCESSORS[name])


# ---- the columnar decoder -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_columns_are_the_slow_decoders_rows_in_every_version_of_every_table(name: str) -> None:
    recording = ddl_recording(name)
    groups: dict[tuple[int, int, bool], list[tuple[bytes, bytes]]] = {}
    tables: dict[tuple[int, int], KvTable] = {}
    for raw in recording.entries:
        version = recording.history.table_at(raw.table_id, raw.commit_ts - 1)
        if version is None:
            continue
        tables[version.table_id, version.since_ts] = version.description
        for is_old, value in ((False, raw.value), (True, raw.old)):
            if value:
                groups.setdefault((version.table_id, version.since_ts, is_old), []).append((raw.key, value))
    assert len(tables) > 30
    for (table_id, since_ts, is_old), rows in groups.items():
        table = tables[table_id, since_ts]
        keys, values = (pa.array(column, pa.binary()) for column in zip(*rows, strict=True))
        batch = decode_rows(table, keys, values, at_rest=is_old)
        expected = [decode_row(table, key, value, at_rest=is_old) for key, value in rows]
        assert [list(row) for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)] == expected


# ---- the truth ------------------------------------------------------------------------------------------------------

CELLS = {
    "ddl": {"raw": 83612, "text": 114452, "added, text": 4847, "reorganised, raw": 780, "reorganised, text": 1270},
    "ddl-new": {"raw": 85742, "text": 113227, "added, text": 4759, "reorganised, raw": 799, "reorganised, text": 1225},
}
"""What the compared cells were read from. `raw`: a row's bytes. `text`: a row not written since the start, whose column is as it was;
`added`: whose column is not in the row. `reorganised`: what MODIFY COLUMN wrote itself and hides from every feed, made anew."""


@pytest.mark.parametrize("name", NAMES)
def test_rows_written_before_a_ddl_read_under_the_schema_after_it_are_the_truth(name: str) -> None:
    recording = ddl_recording(name)
    state, hidden = State(recording), {}
    for tso in recording.recording.truth_ts:
        state.advance(tso)
        hidden[name, int(tso)] = _compare(recording, state, tso)
    assert {place: columns for place, columns in hidden.items() if columns} == {
        place: columns for place, columns in HIDDEN_FROM_SQL.items() if place[0] == name
    }
    assert dict(state.cells) == CELLS[name]


@pytest.mark.parametrize("name", NAMES)
def test_the_rows_of_the_table_without_a_key_are_the_truth(name: str) -> None:
    """TiCDC does not replicate it; its schema stays. Which row is which only the old value tells."""
    recording, heap = ddl_recording(name), TableName("shop", "heap")
    rows = Counter(_rows_of(recording, heap, recording.recording.start_ts))
    waiting = [
        raw for raw in recording.entries if (one := recording.history.table_at(raw.table_id, raw.commit_ts - 1)) and one.name == heap
    ]
    for tso in recording.recording.truth_ts:
        while waiting and waiting[0].commit_ts <= tso:
            raw = waiting.pop(0)
            table = _amid(recording, raw)
            rows.subtract([tuple(decode_row(table, raw.key, raw.old, at_rest=True))] if raw.old else [])
            rows.update([tuple(decode_row(table, raw.key, raw.value))] if raw.value else [])
        assert rows == Counter(_rows_of(recording, heap, tso))
    assert rows.total() > 0
    assert waiting == []


def _rows_of(recording: DdlRecording, name: TableName, tso: CommitTs) -> list[Row]:
    version = recording.history.by_name(name, tso)
    assert isinstance(version, TableVersion)
    rows = recording.recording.truth(tso)[name]
    columns = [rows.column(column).to_pylist() for column in version.description.schema.column_names()]
    assert all(column.kind not in ("float", "double", "json") for column in version.description.schema.columns), (
        "texts are compared as texts"
    )
    return list(zip(*columns, strict=True))


def _compare(recording: DdlRecording, state: State, tso: CommitTs) -> set[tuple[str, str]]:
    """The columns that the truth has not."""
    hidden: set[tuple[str, str]] = set()
    truth = recording.recording.truth(tso)
    versions = [one for one in recording.history.tables_at(tso) if one.name != MARK_TABLE and one.description.schema.key]
    assert {one.table_id for one in versions} == state.rows.keys()
    assert {one.name for one in versions} == {name for name in truth if _has_key(recording, name, tso)}
    for version in versions:
        schema, rows = version.description.schema, truth[version.name]
        gone = {column.name for column in schema.columns} - set(rows.column_names)
        hidden |= {(version.name.table, column) for column in gone}
        seen = replace(schema, columns=tuple(column for column in schema.columns if column.name not in gone))
        numbers = [number for number, column in enumerate(schema.columns) if column.name not in gone]
        expected = rows_by_key(seen, rows)
        ours: dict[Row, Row] = {key: tuple(row[number] for number in numbers) for key, row in state.read(version).items()}
        assert ours.keys() == expected.keys(), (version.name, tso)
        assert [key for key in expected if not equal_rows(seen, expected[key], ours[key])] == [], (version.name, tso)
    return hidden


def _has_key(recording: DdlRecording, name: TableName, tso: CommitTs) -> bool:
    version = recording.history.by_name(name, tso)
    return name != MARK_TABLE and isinstance(version, TableVersion) and bool(version.description.schema.key)
