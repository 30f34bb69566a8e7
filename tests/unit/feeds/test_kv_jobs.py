"""DDL jobs wait until all before them are known."""

from __future__ import annotations

import pytest

from sidecar.feeds.kv.jobs import DdlJobReader
from sidecar.replay.kv_rows import DDL_JOB_TABLE_INFO, row_key, row_value
from sidecar.shared.errors import FeedUnsuitable, MessageUnreadable
from sidecar.shared.model.nouns import CommitTs
from sidecar.shared.rowcodec.key_values import DDL_JOB_TABLE_ID
from sidecar.shared.rowcodec.kv_table import kv_table
from sidecar.shared.schema.ddl import DdlJob
from tests.support.kv_encoder import column, info
from tests.support.kv_jobs import job_entry
from tests.unit.schema.test_schema_history import Database, table

TABLE = kv_table(DDL_JOB_TABLE_INFO, schema="mysql")


def jobs_of(count: int) -> list[DdlJob]:
    db = Database(schemas={1: "shop"})
    return [db.create(1, table(200 + number, f"t{number}")) for number in range(count)]


def test_jobs_leave_in_commit_order_when_their_ts_is_passed() -> None:
    made = jobs_of(3)
    jobs = DdlJobReader(TABLE)
    for job in reversed(made):
        jobs.take(job_entry(job))
    assert [job.job_id for job in jobs.upto(made[1].commit_ts)] == [1, 2]
    assert jobs.upto(made[1].commit_ts) == []
    assert [job.job_id for job in jobs.upto(CommitTs(10**6))] == [3]


def test_deletes_say_nothing() -> None:
    (job,) = jobs_of(1)
    jobs = DdlJobReader(TABLE)
    jobs.take(job_entry(job)._replace(value=b"", old=b"old"))
    assert jobs.upto(CommitTs(10**6)) == []


@pytest.mark.parametrize(
    "value", [b"\x80", row_value(TABLE, {"job_meta": "{"}), row_value(TABLE, {"type": 3})], ids=["no row", "no JSON", "no job"]
)
def test_a_row_without_a_job_is_refused_with_its_place(value: bytes) -> None:
    (job,) = jobs_of(1)
    entry = job_entry(job)._replace(value=value)
    with pytest.raises(MessageUnreadable, match=entry.key.hex()):
        DdlJobReader(TABLE).take(entry)


@pytest.mark.parametrize("name", ["job_meta", "other"])
def test_a_table_without_jobs_is_refused(name: str) -> None:
    result = info([column(1, "id", "bigint", primary=True), column(2, name, "int")], int_handle=True, id=DDL_JOB_TABLE_ID)
    with pytest.raises(FeedUnsuitable, match="job_meta"):
        DdlJobReader(kv_table(result, schema="mysql"))


def test_the_key_of_a_job_is_a_row_of_the_table() -> None:
    (job,) = jobs_of(1)
    assert job_entry(job).key == row_key(DDL_JOB_TABLE_ID, 1)
