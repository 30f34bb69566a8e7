"""A seeded mutator over what tells a feed its schemas: jobs, TableInfos, keys, and the order of it all.

Nothing loops and nothing but the errors of shared/errors.py comes out; what is refused has changed nothing. What no reader can see: a
well-formed job that says something else, or one that was never there (the next TableInfo of its table takes its place).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import cache
from itertools import pairwise
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from sidecar.shared.columns.kv import decode_rows
from sidecar.shared.errors import FeedUnsuitable, MessageUnreadable, TicdcDumpError
from sidecar.shared.model.nouns import CommitTs
from sidecar.shared.rowcodec.ddl_job import ddl_job
from sidecar.shared.rowcodec.kv_error import Broken
from sidecar.shared.rowcodec.kv_key import record_key
from sidecar.shared.rowcodec.kv_row import decode_row
from sidecar.shared.rowcodec.kv_table import KvTable, kv_table
from sidecar.shared.schema.ddl import ColumnSwitch, DdlJob, JobTable, PartitionSwitch, Step, Successor
from sidecar.shared.schema.history import SchemaHistory
from tests.property.test_kv_mutator import mutant
from tests.support.kv_ddl import DdlRecording, Raw, ddl_recording, describe, job_metas, job_rows, snapshot

SEEDS = range(4)
Job = DdlJob | Step

pytestmark = pytest.mark.recordings

JUNK: tuple[Any, ...] = (None, 0, -1, 1 << 70, 1.5, "", "x", True, [], {}, [None], [{}], {"id": 1}, {"O": None, "L": None})


def spoiled(random: Random, value: Any) -> Any:
    """One place of a parsed JSON is gone, is something else, or is doubled."""
    made = deepcopy(value)
    at = random.choice(list(_places(made)))
    parent, key = at
    match random.randrange(4):
        case 0:
            del parent[key]
        case 1 if isinstance(parent, list):
            parent.insert(key, deepcopy(parent[key]))
        case _:
            parent[key] = random.choice(JUNK)
    return made


def retyped(random: Random, info: dict[str, Any]) -> dict[str, Any]:
    """A column has another one's type, or one more or less of its digits: well formed, and another table."""
    made = deepcopy(info)
    column, other = random.choice(made["cols"]), random.choice(random.choice(infos())[1]["cols"])
    column["type"] = deepcopy(other["type"])
    column["type"]["Flen"] += random.randint(-1, 1)
    column["type"]["Decimal"] += random.randint(-1, 1)
    return made


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _places(value[key])


@cache
def jobs() -> tuple[tuple[int, bytes], ...]:
    return tuple((raw.commit_ts, meta) for raw in job_rows("ddl") for meta in job_metas(raw.value))


@cache
def infos() -> tuple[tuple[str, dict[str, Any]], ...]:
    """Of the start, of every job, and amid every MODIFY COLUMN, where columns have successors."""
    recording = ddl_recording("ddl")
    tables = [
        (schema.name, dict(info)) for schema in snapshot(recording.recording.folder, recording.recording.start_ts) for info in schema.tables
    ]
    tables += [("shop", dict(one.info)) for job in steps() if isinstance(job, DdlJob) for one in job.tables]
    history = begun(recording)
    for step in steps():
        if history.apply(step) is not None and isinstance(step, ColumnSwitch):
            tables.append(("shop", dict(history.info(step.table_id))))
    return tuple(tables)


@cache
def steps() -> tuple[Job, ...]:
    return ddl_recording("ddl").steps


# ---- one thing at a time --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_mutated_jobs_are_jobs_or_refused(seed: int) -> None:
    random = Random(seed)
    outcomes = {"job": 0, "none": 0, "refused": 0}
    for _ in range(1500):
        commit_ts, meta = random.choice(jobs())
        if random.randrange(2):
            meta = json.dumps(spoiled(random, json.loads(meta))).encode()
        else:
            meta = mutant(random, meta, random.choice(jobs())[1])
        try:
            result = ddl_job(meta, commit_ts=CommitTs(commit_ts), at="entry")
        except MessageUnreadable:
            outcomes["refused"] += 1
            continue
        outcomes["none" if result is None else "job"] += 1
        assert result is None or isinstance(result, DdlJob | PartitionSwitch | ColumnSwitch)
    assert min(outcomes.values()) > 50


@pytest.mark.parametrize("seed", SEEDS)
def test_mutated_keys_are_keys_or_refused(seed: int) -> None:
    """A key that is read is read whole: its parts make it again."""
    random = Random(seed)
    keys = [raw.key for raw in ddl_recording("ddl").entries]
    read = 0
    for _ in range(5000):
        key = mutant(random, random.choice(keys), random.choice(keys))
        key = b"x\0\0\7" + key if not random.randrange(4) else key
        try:
            result = record_key(key)
        except Broken:
            continue
        read += 1
        keyspace = b"" if result.keyspace is None else b"x" + result.keyspace.to_bytes(3, "big")
        assert keyspace + b"t" + (result.table_id + (1 << 63)).to_bytes(8, "big") + b"_r" + result.handle == key
        assert keyspace + result.bare == key
    assert 500 < read < 4500


@pytest.mark.parametrize("seed", SEEDS)
def test_mutated_table_infos_are_tables_that_decode_or_refuse(seed: int) -> None:
    random = Random(seed)
    by_table = rows_by_table()
    refused = rows_refused = rows_read = 0
    for _ in range(400):
        schema, info = random.choice(infos())
        try:
            table = kv_table(random.choice([spoiled, retyped])(random, info), schema=schema)
        except FeedUnsuitable:
            refused += 1
            continue
        for raw in random.sample(by_table.get(info["id"], []), k=min(3, len(by_table.get(info["id"], [])))):
            try:
                texts = decode_row(table, raw.key, raw.value)
            except MessageUnreadable as error:
                rows_refused += 1
                with pytest.raises(MessageUnreadable, match=re.escape(str(error))):
                    decode_rows(table, pa.array([raw.key]), pa.array([raw.value]))
                continue
            rows_read += 1
            assert [one[0].as_py() for one in decode_rows(table, pa.array([raw.key]), pa.array([raw.value])).columns] == texts
            assert len(texts) == len(table.columns)
            assert all(text is None or isinstance(text, str) for text in texts)
    assert min(refused, rows_refused, rows_read) > 30


@cache
def rows_by_table() -> dict[int, list[Raw]]:
    made: dict[int, list[Raw]] = {}
    for raw in ddl_recording("ddl").entries:
        if raw.value:
            made.setdefault(raw.table_id, []).append(raw)
    return made


# ---- sequences ------------------------------------------------------------------------------------------------------


def begun(recording: DdlRecording) -> SchemaHistory[KvTable]:
    return SchemaHistory(
        recording.recording.start_ts, snapshot(recording.recording.folder, recording.recording.start_ts), describe=describe
    )


def reported(history: SchemaHistory[KvTable], ts: int) -> object:
    return {one.table_id: one for one in history.tables_at(ts)}


def _spoiled_job(random: Random, job: Job) -> Job:
    fields = {name: getattr(job, name) for name in type(job).__slots__}
    match job:
        case DdlJob(tables=(first, *rest)) if random.randrange(2):
            fields["tables"] = (JobTable(spoiled(random, first.info), first.schema), *rest)
        case ColumnSwitch(successors=(first, *rest)) if random.randrange(2):
            fields["successors"] = (Successor(first.column_id, spoiled(random, first.column)), *rest)
        case ColumnSwitch(amid=dict()) if random.randrange(2):
            fields["amid"] = spoiled(random, job.amid)
        case _:
            name = random.choice(
                [one for one in ("table_id", "schema_id", "action", "commit_ts", "job_id", "came", "gone") if one in fields]
            )
            others = [getattr(other, name) for other in steps() if hasattr(other, name)]
            fields[name] = random.choice(others)
    return type(job)(**fields)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_spoiled_job_is_refused_and_changes_nothing_or_is_followed(seed: int) -> None:
    random, recording = Random(seed), ddl_recording("ddl")
    refused = followed = 0
    for _ in range(40):
        history, place = begun(recording), random.randrange(len(steps()))
        for job in steps()[:place]:
            history.apply(job)
        ts = max(history.complete_ts - 1, history.floor_ts)  # at the last job's ts another may follow
        before = reported(history, ts)
        try:
            history.apply(_spoiled_job(random, steps()[place]))
        except TicdcDumpError:
            refused += 1
            assert reported(history, ts) == before
            history.apply(steps()[place])
            continue
        followed += 1
        assert reported(history, ts) == before, "what was true at a ts stays true"
        reported(history, history.complete_ts)
    assert min(refused, followed) > 5


def repeated(random: Random, sequence: list[Job]) -> None:
    for _ in range(random.randint(1, 5)):
        at = random.randrange(len(sequence))
        sequence[at + 1 : at + 1] = sequence[random.randint(0, at) : at + 1]


def reordered(random: Random, sequence: list[Job]) -> None:
    at, to = random.sample(range(len(sequence)), k=2)
    sequence.insert(to, sequence.pop(at))


def dropped(random: Random, sequence: list[Job]) -> None:
    del sequence[random.randrange(len(sequence))]


@pytest.mark.parametrize("disorder", [repeated, reordered, dropped])
@pytest.mark.parametrize("seed", SEEDS)
def test_jobs_in_disorder_are_refused_or_lead_to_the_same(seed: int, disorder: Callable[[Random, list[Job]], None]) -> None:
    """A job that is gone and that nothing later needs is not to be seen; whatever it did to one table, the others are right."""
    random, recording = Random(seed), ddl_recording("ddl")
    expected = {one.table_id: one for one in recording.history.tables_at(recording.recording.end_ts)}
    refused = same = 0
    for _ in range(25):
        sequence = list(steps())
        disorder(random, sequence)
        touched = _touched([job for job in steps() if job not in sequence])
        history = begun(recording)
        try:
            for job in sequence:
                history.apply(job)
        except TicdcDumpError:
            refused += 1
            continue
        history.advance(recording.recording.end_ts)
        ours = {one.table_id: one for one in history.tables_at(recording.recording.end_ts)}
        assert {id_ for id_ in ours.keys() | expected.keys() if ours.get(id_) != expected.get(id_)} <= touched
        same += 1
    assert refused + same == 25
    assert (refused > 0) is (disorder is reordered) or disorder is dropped


def _touched(gone: list[Job]) -> set[int | None]:
    ids = {job.job_id for job in gone}
    events = [event for event in ddl_recording("ddl").events if event.job_id in ids]
    return {id_ for event in events for one in event.tables for id_ in (one.id_before, one.id_after)}


def test_lookups_between_and_beyond_the_jobs_are_answered_or_refused() -> None:
    recording = ddl_recording("ddl")
    history = begun(recording)
    for job, later in pairwise(steps()):
        history.apply(job)
        for ts in {min(job.commit_ts - 1, history.complete_ts), history.complete_ts}:
            assert history.tables_at(ts)
        for wrong in (0, -1, recording.recording.start_ts - 1, later.commit_ts + (1 << 60)):
            with pytest.raises(TicdcDumpError):
                history.tables_at(wrong)
