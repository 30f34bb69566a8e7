"""Each quadrant of tests/scenarios/f1_*.txt in the recordings of a real cluster: rows written under old, intermediate and new schema,
read under old and new. What a session saw is told by the row's bytes: which column ids are there, as value, as NULL, or not at all.

Two scenarios have no case here, which is asserted: no recorded DDL changes a handle key, and the recorded TiDB is a newer one, whose
MODIFY COLUMN with reorganisation takes several steps at its end.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache

import pytest

from sidecar.shared.rowcodec.kv_row import cells_of, decode_row
from sidecar.shared.schema.ddl import ColumnSwitch, DdlEvent, Effect
from tests.support.kv_ddl import DdlRecording, ddl_recording

pytestmark = pytest.mark.recordings

NAMES = ("ddl", "ddl-new")


SPAN_MS = 3000
"""Rows this long before the job was queued, and after it was done, are looked at: those of old and new schema."""


def event_of(recording: DdlRecording, query: str) -> DdlEvent:
    (event,) = [one for one in recording.events if query in one.query and one.effect is not Effect.SWITCH]
    return event


def shape(value: bytes, ids: tuple[int, ...]) -> str:
    """Of each id: `v` a value, `n` NULL, `-` not there; empty without a row."""
    if not value:
        return ""
    cells = cells_of(value)
    return "".join("v" if id_ in cells.present else "n" if id_ in cells.nulls else "-" for id_ in ids)


def columns_of(recording: DdlRecording, event: DdlEvent) -> tuple[int, ...]:
    """The ids that the DDL takes, then those that it brings."""
    (change,) = event.tables
    before = recording.history.table_at(change.physical_before[0], event.commit_ts - 1)
    after = recording.history.table_at(change.physical_after[0], event.commit_ts)
    assert before is not None
    assert after is not None
    ids, ids_after = ({column.id for column in one.description.columns} for one in (before, after))
    return (*sorted(ids - ids_after), *sorted(ids_after - ids))


@cache
def seen(name: str, query: str) -> Counter[str]:
    """Rows around the DDL, each as `op old-shape>new-shape read under`; all of them decode. `behind`: its transaction began before
    the DDL was done and committed after."""
    recording = ddl_recording(name)
    event = event_of(recording, query)
    (change,), ids = event.tables, columns_of(recording, event)
    span = SPAN_MS << 18
    counted: Counter[str] = Counter()
    for raw in recording.entries:
        if raw.table_id not in change.physical_before or not event.start_ts - span < raw.commit_ts <= event.commit_ts + span:
            continue
        version = recording.history.table_at(raw.table_id, raw.commit_ts - 1)
        assert version is not None
        for is_old, value in ((False, raw.value), (True, raw.old)):
            if value:
                decode_row(version.description, raw.key, value, at_rest=is_old)
        op = "delete" if not raw.value else "update" if raw.old else "insert"
        under = "old" if raw.commit_ts <= event.commit_ts else "behind" if raw.start_ts < event.commit_ts else "new"
        counted[f"{op} {shape(raw.old, ids)}>{shape(raw.value, ids)} {under}"] += 1
    return counted


ADD = ("add column score", "add column nick", "add column extra", "add column late")
DROP = ("drop column flags",)
REORGANISED = ("modify column rank_", "modify column cost", "change column balance")
IN_PLACE = ("modify column level", "rename column fee", "alter column v set default")
INDEX = ("add index k_level", "drop index k_placed")
KEYS = ("add unique index uk_v_id", "drop index uk_email, add unique")
MULTI = ("drop column note",)

QUADRANTS: dict[str, tuple[tuple[str, ...], str, tuple[int, int]]] = {
    "ADD: old or delete-only, read old": (ADD, "(insert|update) -?>- old", (48, 80)),
    "ADD: deleted, read old": (ADD, "delete -> old", (13, 14)),
    "ADD: write-only or write-reorg, read old": (ADD, "(insert|update) [-v]?>v old", (6, 5)),
    "ADD: new, read new": (ADD, "(insert|update) [-v]?>v new", (28, 30)),
    "ADD: NULL is left out, read new": (ADD, "(insert|update) -?>- new", (11, 10)),
    "ADD: old value from before, read new": (ADD, "(update|delete) ->[-v]? new", (36, 34)),
    "ADD: begun before the DDL was done": (ADD, ".* behind", (3, 3)),
    "DROP: old, read old": (DROP, "(insert|update) [-v]?>v old", (6, 9)),
    "DROP: deleted, read old": (DROP, "delete v> old", (1, 2)),
    "DROP: delete-only, read old": (DROP, "(insert|update) v?>- old", (1, 3)),
    "DROP: new, read new": (DROP, "(insert|update) .?>- new", (11, 15)),
    "DROP: what was dropped is in the old value": (DROP, "(update|delete) v>.? new", (10, 9)),
    "DROP: begun before the DDL was done": (DROP, ".* behind", (0, 2)),
    "MODIFY: old or delete-only, read old": (REORGANISED, "(insert|update) (v-)?>v- old", (36, 38)),
    "MODIFY: deleted, read old": (REORGANISED, "delete .* old", (18, 29)),
    "MODIFY: write-only to tombstone write-only, read old": (REORGANISED, "(insert|update) (..)?>vv old", (22, 16)),
    "MODIFY: the reorganisation was there first": (REORGANISED, "(update|delete) vv>.* old", (10, 10)),
    "MODIFY: tombstone delete-only, read old": (REORGANISED, "(insert|update) (..)?>-v old", (2, 2)),
    "MODIFY: new, read new": (REORGANISED, "(insert|update) (..)?>-v new", (25, 33)),
    "MODIFY: old value with both, read new": (REORGANISED, "(update|delete) vv>(..)? new", (21, 27)),
    "MODIFY: deleted, read new": (REORGANISED, "delete .* new", (8, 11)),
    "MODIFY: begun before the DDL was done": (REORGANISED, ".* behind", (5, 1)),
    "MODIFY in place: read old": (IN_PLACE, ".* old", (39, 53)),
    "MODIFY in place: read new": (IN_PLACE, ".* new", (29, 37)),
    "INDEX: read old": (INDEX, ".* old", (79, 98)),
    "INDEX: read new": (INDEX, ".* new", (20, 37)),
    "UNIQUE: read old": (KEYS, ".* old", (126, 132)),
    "UNIQUE: read new": (KEYS, ".* new", (10, 17)),
    "MULTI: everything old, read old": (MULTI, "(insert|update) (...)?>v-- old", (8, 10)),
    "MULTI: dropped one delete-only, added ones public, read old": (MULTI, "(insert|update) (...)?>-v- old", (8, 5)),
    "MULTI: added ones write-only, read old": (MULTI, "(insert|update) (...)?>vv- old", (10, 8)),
    "MULTI: new, read new": (MULTI, "(insert|update) (...)?>-v- new", (4, 6)),
    "MULTI: deleted, read old and new": (MULTI, "delete .* (old|new)", (13, 12)),
}
"""By scenario: which DDLs, which rows, and how many of them in `ddl` and in `ddl-new`."""


@pytest.mark.parametrize("quadrant", QUADRANTS)
def test_the_quadrant_has_rows_in_the_recordings(quadrant: str) -> None:
    queries, pattern, expected = QUADRANTS[quadrant]
    counts = tuple(sum(n for reported, n in (seen(name, q).items()) if re.fullmatch(pattern, reported)) for name in NAMES for q in queries)
    half = len(queries)
    assert (sum(counts[:half]), sum(counts[half:])) == expected
    assert sum(expected) > 0


@pytest.mark.parametrize("name", NAMES)
def test_no_recorded_ddl_changes_a_handle_key_or_switches_in_one_step(name: str) -> None:
    recording = ddl_recording(name)
    for event in (one for one in recording.events if one.effect is Effect.ALTER):
        for change in event.tables:
            before = recording.history.table_at(change.physical_before[0], event.commit_ts - 1)
            after = recording.history.table_at(change.physical_after[0], event.commit_ts)
            if before is not None and after is not None:
                assert before.description.schema.key == after.description.schema.key
    stepped = {step.job_id for step in recording.steps if isinstance(step, ColumnSwitch) and step.successors}
    assert stepped == {event_of(recording, query).job_id for query in REORGANISED}
