"""Where a new log begins: the tables of a moment in the past are made of TiDB's DDL jobs, or the start is refused."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from sidecar.feeds.binlog.start import beginning, snapshot_at
from sidecar.replay.binlog import BinlogRecording
from sidecar.replay.kv import snapshot_at_start
from sidecar.replay.recording import Recording
from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.model.nouns import CommitTs
from sidecar.shared.rowcodec.ddl_job import history_job
from sidecar.shared.rowcodec.kv_layout import KvSnapshot
from sidecar.shared.schema.ddl import DdlJob
from sidecar.shared.schema.system import is_system_schema
from sidecar.shared.schema.version import SchemaSnapshot
from tests.support.recordings import recording

TIDB = "8.0.11-TiDB-v7.5.1"


@pytest.fixture(scope="module")
def found() -> tuple[KvSnapshot, Sequence[DdlJob]]:
    made = Recording(recording("binlog-ddl2"))
    metas = BinlogRecording(made).metas
    jobs = [job for number, meta in metas.items() if (job := history_job(meta, at=f"{number}")) is not None]
    now = snapshot_at_start(made)
    with_tables = {schema.name for schema in now.schemas if list(schema.tables)}  # of the others the recording has no tables
    others = {job.schema_name for job in jobs} & {schema.name for schema in now.schemas} - with_tables
    return replace(now, version=TIDB), [job for job in jobs if job.schema_name not in others]


def ids(schemas: Sequence[SchemaSnapshot]) -> set[tuple[str, str, int]]:
    return {(one.name, info["name"]["O"], info["id"]) for one in schemas for info in one.tables if not is_system_schema(one.name)}


def test_the_jobs_of_a_real_cluster_lead_to_its_tables_at_a_moment_of_the_past(found: tuple[KvSnapshot, Sequence[DdlJob]]) -> None:
    """`now` is the recording's start; what there was some jobs earlier has none of what these made."""
    now, jobs = found
    last = max((job for job in jobs if job.commit_ts <= now.ts), key=lambda job: job.commit_ts)
    at_end = snapshot_at(now, jobs, now.ts)
    assert ids(list(at_end.schemas)) == ids(list(now.schemas))
    before = snapshot_at(now, jobs, CommitTs(last.start_ts))
    assert before.ts == last.start_ts
    made = {one.info["id"] for one in last.tables}
    assert made
    infos = {info["id"]: info for schema in before.schemas for info in schema.tables}
    assert all(infos.get(one.info["id"]) != one.info for one in last.tables)


def test_a_start_amid_a_job_in_the_future_or_over_jobs_that_are_gone_is_refused(found: tuple[KvSnapshot, Sequence[DdlJob]]) -> None:
    now, jobs = found
    some = next(job for job in reversed(jobs) if job.commit_ts < now.ts and job.start_ts < job.commit_ts - 1)
    with pytest.raises(FeedUnsuitable, match=f"amid DDL job {some.job_id}"):
        snapshot_at(now, [some], CommitTs(some.commit_ts - 1))
    with pytest.raises(FeedUnsuitable, match="still to come"):
        snapshot_at(now, jobs, CommitTs(now.ts + 1))
    with pytest.raises(FeedUnsuitable, match="cannot be made of TiDB's DDL jobs"):
        snapshot_at(now, sorted(jobs, key=lambda job: job.job_id)[60:], now.ts)
    with pytest.raises(FeedUnsuitable, match="other tables than TiDB has"):
        snapshot_at(now, [], now.ts)


@pytest.mark.parametrize(
    ("version", "text"), [("5.7.25-TiDB-v6.1.7", "by SQL"), ("8.0.11-TiDB-v8.4.0", "has no TiDB-Binlog"), ("10.11-MariaDB", "no version")]
)
def test_a_tidb_without_jobs_in_sql_or_without_binlogs_is_refused(
    found: tuple[KvSnapshot, Sequence[DdlJob]], version: str, text: str
) -> None:
    with pytest.raises(FeedUnsuitable, match=text):
        beginning(replace(found[0], version=version), list, 0)


def test_without_a_start_a_log_begins_now_and_asks_for_no_job(found: tuple[KvSnapshot, Sequence[DdlJob]]) -> None:
    made = beginning(replace(found[0], fast_create_table=True), lambda: pytest.fail("it was asked"), 0)
    assert (made.ts, made.version, made.fast_create_table) == (found[0].ts, "", False)
    assert json.dumps([info["id"] for one in made.schemas for info in one.tables])
