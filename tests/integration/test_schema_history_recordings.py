"""The schema history over the recorded DDL of a real cluster: its end is what TiDB says, and every row finds its table."""

from __future__ import annotations

import json
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from sidecar.shared.model.nouns import CommitTs, TableName, TableSchema
from sidecar.shared.rowcodec.ddl_job import ddl_job, history_job
from sidecar.shared.rowcodec.key_values import DDL_JOB_TABLE_ID
from sidecar.shared.rowcodec.table_info import table_schema
from sidecar.shared.schema.ddl import Action, ColumnSwitch, DdlEvent, DdlJob, Effect, Step, TableInfo
from sidecar.shared.schema.history import SchemaHistory
from sidecar.shared.schema.version import Rowless, SchemaSnapshot, TableVersion
from tests.support.kv_ddl import job_metas, snapshot
from tests.support.recordings import recording

pytestmark = pytest.mark.recordings

WITH_DDL = ("ddl", "ddl-new")


@dataclass(frozen=True)
class Described:
    """What a decoder would need, and all of the TableInfo that says what the table is."""

    schema: TableSchema
    shape: str


VOLATILE = {"update_timestamp", "auto_inc_id", "auto_id_cache", "auto_rand_id", "revision", "exchange_partition_info", "schema_id", "db_id"}
"""Counters and traces of the last write: TiDB changes them without a DDL, or a job holds them as they were just before."""


def describe(info: TableInfo, schema: str) -> Described:
    return Described(table_schema(dict(info), schema=schema), json.dumps(shape(info), sort_keys=True))


def shape(info: TableInfo) -> dict[str, Any]:
    return {key: value for key, value in info.items() if key not in VOLATILE}


class Recorded:
    def __init__(self, name: str) -> None:
        self.folder: Path = recording(name)
        about = json.loads((self.folder / "recording.json").read_text())
        self.start, self.end = CommitTs(int(about["start_ts"])), CommitTs(int(about["end_ts"]))

    def snapshot(self, ts: int) -> list[SchemaSnapshot]:
        return snapshot(self.folder, ts)

    def history(self) -> SchemaHistory[Described]:
        return SchemaHistory(self.start, self.snapshot(self.start), describe=describe)

    def past_jobs(self) -> list[DdlJob]:
        """Of mysql.tidb_ddl_history, in commit order."""
        lines = (self.folder / "schema" / "ddl_history.jsonl").read_text().splitlines()
        rows = [json.loads(line) for line in lines]
        ddl_jobs = [history_job(row["job_meta"].encode(), at=f"job {row['job_id']}") for row in rows]
        return sorted((job for job in ddl_jobs if job is not None), key=lambda job: job.commit_ts)

    def entries(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = pq.read_table(self.folder / "kv" / "entries.parquet").to_pylist()
        return [row for row in rows if row["op"] != "resolved"]

    def jobs(self) -> list[DdlJob | Step]:
        """Of the change feed of mysql.tidb_ddl_job, in commit order, up to the end."""
        results = [
            ddl_job(meta, commit_ts=CommitTs(row["commit_ts"]), at=f"{self.folder.name} at {row['commit_ts']}")
            for row in self.entries()
            if row["op"] == "put" and physical_id(row["key"]) == DDL_JOB_TABLE_ID
            for meta in job_metas(row["value"])
        ]
        return sorted((job for job in results if job is not None and job.commit_ts <= self.end), key=lambda job: job.commit_ts)

    def replayed(self) -> tuple[SchemaHistory[Described], list[DdlEvent]]:
        history = self.history()
        events = [event for job in self.jobs() if (event := history.apply(job)) is not None]
        history.advance(self.end)
        return history, events


def physical_id(key: bytes) -> int:
    assert key[:1] == b"t"
    (coded,) = struct.unpack(">Q", key[1:9])
    return int(coded) - (1 << 63)


def assert_equals_snapshot(history: SchemaHistory[Described], recorded: Recorded, ts: int) -> None:
    expected: dict[TableName, TableInfo] = {}
    for schema in recorded.snapshot(ts):
        expected |= {TableName(schema.name, info["name"]["O"]): info for info in schema.tables}
    with_rows = {name: info for name, info in expected.items() if info["view"] is None and info["sequence"] is None}
    versions = {version.name: version for version in history.tables_at(ts)}
    assert versions.keys() == with_rows.keys()
    for name, info in with_rows.items():
        version = versions[name]
        assert version.table_id == info["id"]
        assert json.loads(version.description.shape) == shape(info), name
        partitions = [one["id"] for one in info["partition"]["definitions"]] if info["partition"] else [info["id"]]
        assert list(version.physical_ids) == partitions
        assert history.by_name(name, ts) is version
        assert all(history.table_at(one, ts) is version for one in partitions)
    for name in expected.keys() - with_rows.keys():
        assert isinstance(history.by_name(name, ts), Rowless)


@pytest.mark.parametrize("name", [*WITH_DDL, "shop", "restart", "demo"])
def test_the_snapshot_and_the_jobs_of_the_feed_give_the_schemas_at_the_end(name: str) -> None:
    recorded = Recorded(name)
    history, events = recorded.replayed()
    assert_equals_snapshot(history, recorded, recorded.start)
    assert_equals_snapshot(history, recorded, recorded.end)
    assert Counter(event.effect is Effect.SWITCH for event in events) == ({False: 28, True: 5} if name in WITH_DDL else {})


@pytest.mark.parametrize("name", WITH_DDL)
def test_the_job_history_gives_the_same_schemas_at_the_end(name: str) -> None:
    recorded = Recorded(name)
    history = recorded.history()
    events = [event for job in recorded.past_jobs() if job.commit_ts <= recorded.end and (event := history.apply(job)) is not None]
    history.advance(recorded.end)
    assert_equals_snapshot(history, recorded, recorded.end)
    assert [event.job_id for event in events] == [job.job_id for job in recorded.jobs() if isinstance(job, DdlJob)]


@pytest.mark.parametrize("name", WITH_DDL)
def test_the_jobs_again_after_a_restart_change_nothing(name: str) -> None:
    recorded = Recorded(name)
    history, _ = recorded.replayed()
    assert [history.apply(job) for job in recorded.jobs()] == [None] * len(recorded.jobs())
    assert_equals_snapshot(history, recorded, recorded.end)


@pytest.mark.parametrize("name", WITH_DDL)
def test_a_snapshot_at_any_moment_and_the_jobs_after_it_give_the_same(name: str) -> None:
    """A restart between two DDLs, by the history's own word for what was there."""
    recorded = Recorded(name)
    whole, _ = recorded.replayed()
    jobs = recorded.jobs()
    for place, job in enumerate(jobs):
        ts = CommitTs(job.commit_ts)
        views = [whole.by_name(TableName("shop", "v1"), ts)]
        schemas = {
            schema.schema_id: SchemaSnapshot(
                schema.schema_id, schema.name, [*infos(whole, schema.schema_id, ts), *view_infos(views, schema.schema_id)]
            )
            for schema in recorded.snapshot(recorded.start)
        }
        later = SchemaHistory(ts, schemas.values(), describe=describe)
        reported = [later.apply(one) is not None for one in jobs]
        assert reported == [number > place and changes(jobs[place + 1 : number], one) for number, one in enumerate(jobs)]
        later.advance(recorded.end)
        assert_equals_snapshot(later, recorded, recorded.end)


def changes(earlier: list[DdlJob | Step], one: DdlJob | Step) -> bool:
    """A running job is written again with its progress; a step that replaces no column changes nothing."""
    if not isinstance(one, ColumnSwitch):
        return True
    return bool(one.successors) and not any(isinstance(other, ColumnSwitch) and other.job_id == one.job_id for other in earlier)


def infos(history: SchemaHistory[Described], schema_id: int, ts: int) -> list[TableInfo]:
    return [
        json.loads(version.description.shape) | {"update_timestamp": version.update_ts}
        for version in history.tables_at(ts)
        if version.schema_id == schema_id
    ]


def view_infos(value: list[TableVersion[Described] | Rowless | None], schema_id: int) -> list[TableInfo]:
    views = [one for one in value if one is not None and one.schema_id == schema_id]
    return [{"id": one.table_id, "name": {"O": one.name.table}, "view": {}} for one in views]


@pytest.mark.parametrize("name", WITH_DDL)
def test_the_job_history_names_a_later_ts_than_the_one_the_job_was_committed_at(name: str) -> None:
    recorded = Recorded(name)
    finished = {job.job_id: job.commit_ts for job in recorded.past_jobs()}
    late_ms = [(finished[job.job_id] - job.commit_ts) / (1 << 18) for job in recorded.jobs() if isinstance(job, DdlJob)]
    assert 40 < min(late_ms) < max(late_ms) < 450


def rows(recorded: Recorded) -> Iterator[tuple[int, int, bytes]]:
    """commit_ts, physical id and handle of every change of a user table, up to the end; repeats too."""
    for row in recorded.entries():
        if row["commit_ts"] <= recorded.end and physical_id(row["key"]) != DDL_JOB_TABLE_ID:
            yield row["commit_ts"], physical_id(row["key"]), row["key"][9:]


@pytest.mark.parametrize(
    ("name", "late", "copies", "twins"), [("ddl", 1, 253, 1), ("ddl-new", 1, 263, 1), ("shop", 0, 0, 0), ("restart", 0, 0, 0)]
)
def test_every_row_of_the_feed_finds_its_table_or_is_known_not_to_be_data(name: str, late: int, copies: int, twins: int) -> None:
    """Not data: a row written to a truncated table by a transaction that was late for it; what REMOVE PARTITIONING copied until
    its switch; what was written to its old partitions after, whose twin under the new id is."""
    recorded = Recorded(name)
    history, events = recorded.replayed()
    results: set[tuple[int, str, bytes]] = set()
    lost: Counter[str] = Counter()
    gone: list[tuple[int, int, bytes]] = []
    for commit_ts, table_id, handle in rows(recorded):
        version = history.table_at(table_id, commit_ts - 1)
        if version is not None:
            results.add((commit_ts, version.name.table, handle))
        elif history.absence(table_id, commit_ts - 1) == "gone":
            gone.append((commit_ts, table_id, handle))
        else:
            lost[history.absence(table_id, commit_ts - 1)] += 1
    switches = [event for event in events if event.action == Action.REMOVE_PARTITIONING and event.effect is Effect.SWITCH]
    replaced = frozenset().union(*(change.vanished for event in switches for change in event.tables))
    with_twin = [(commit_ts, "event_log", handle) in results for commit_ts, table_id, handle in gone if table_id in replaced]
    truncated = [commit_ts for commit_ts, table_id, _ in gone if table_id not in replaced]
    assert (len(truncated), lost, with_twin) == (late, Counter({"not yet": copies} if copies else {}), [True] * twins)
    for commit_ts in truncated:
        (truncate,) = [event for event in events if event.action == Action.TRUNCATE_TABLE]
        assert 0 < commit_ts - truncate.commit_ts < 20  # the same millisecond


@pytest.mark.parametrize(("name", "lost"), [("ddl", [470609369277923349]), ("ddl-new", [])])
def test_what_ticdc_loses_amid_remove_partitioning_is_found(name: str, lost: list[int]) -> None:
    """One UPDATE, committed 251 ms before the DDL, is in no partition any more, and TiCDC reads the new table from the DDL on."""
    recorded = Recorded(name)
    history, _ = recorded.replayed()
    ours = set()
    for commit_ts, table_id, _ in rows(recorded):
        version = history.table_at(table_id, commit_ts - 1)
        if version is not None and version.name.table == "event_log":
            ours.add(commit_ts)
    values = [json.loads(value) for value in pq.read_table(recorded.folder / "kafka" / "canal-json.parquet")["value"].to_pylist()]
    theirs = {value["_tidb"]["commitTs"] for value in values if value["table"] == "event_log" and not value["isDdl"]}
    assert sorted(ours - theirs) == lost
    assert not {commit_ts for commit_ts in theirs - ours if commit_ts <= recorded.end}


@pytest.mark.parametrize("name", WITH_DDL)
def test_amid_modify_column_the_rows_columns_have_successors(name: str) -> None:
    """Three of the five MODIFY COLUMN reorganise; the tables that SQL sees are told by the finished jobs."""
    recorded = Recorded(name)
    history, events = recorded.replayed()
    switches = [job for job in recorded.jobs() if isinstance(job, ColumnSwitch)]
    steps = [job for number, job in enumerate(switches) if changes([*switches[:number]], job)]
    reported = [(len(step.successors), step.amid is not None, set(step.dropped)) for step in switches]
    dropped: list[tuple[int, bool, set[str]]] = [(0, False, {"flags"}), (0, False, {"note"}), (0, True, {"c_text"})]
    modified = [(1, False, set[str]())] * 2
    assert reported == [*dropped[:1], *modified, *modified, *dropped[1:], *[(0, True, set())] * 3, *modified]
    assert [[(one.column_id, one.column["id"]) for one in step.successors] for step in steps] == [[(9, 12)], [(8, 13)], [(4, 16)]]
    for step in steps:
        (done,) = [job for job in recorded.jobs() if isinstance(job, DdlJob) and job.job_id == step.job_id]
        before, amid = (history.table_at(step.table_id, ts) for ts in (step.commit_ts - 1, done.commit_ts - 1))
        assert before is not None
        assert amid is not None
        assert (before.description.schema, before.physical_ids) == (amid.description.schema, amid.physical_ids)
        assert "successor" not in before.description.shape
        assert "successor" in amid.description.shape
    assert [event.commit_ts for event in events if event.effect is Effect.SWITCH and not any(one.appeared for one in event.tables)] == [
        step.commit_ts for step in steps
    ]


def test_what_the_ddls_did_to_the_tables_is_reported() -> None:
    _, events = Recorded("ddl").replayed()
    reported = [
        f"{event.action.name}{'*' if event.effect is Effect.SWITCH else ''}"
        f" {one.name_before}({one.id_before}) -> {one.name_after}({one.id_after})"
        + (f" +{sorted(one.appeared)}" if one.appeared else "")
        + (f" -{sorted(one.vanished)}" if one.vanished else "")
        for event in events
        for one in event.tables
        if event.effect not in (Effect.ALTER, Effect.SWITCH) or one.appeared
    ]
    assert reported == [
        "RENAME_TABLE shop.nokey(579) -> shop.nokey2(579)",
        "CREATE_TABLE None(None) -> shop.born_later(605) +[605]",
        "TRUNCATE_TABLE_PARTITION* shop.ledger(574) -> shop.ledger(574) +[607] -[575]",
        "TRUNCATE_TABLE shop.uid(581) -> shop.uid(609) +[609] -[581]",
        "REMOVE_PARTITIONING* shop.event_log(568) -> shop.event_log(568) +[615] -[569, 570, 571, 572]",
        "REMOVE_PARTITIONING shop.event_log(568) -> shop.event_log(615)",
        "DROP_TABLE shop.bin_pk(583) -> None(None) -[583]",
        "CREATE_TABLE None(None) -> shop.bin_pk(618) +[618]",
        "RENAME_TABLES shop.ci_pk(585) -> shop.ci_pk2(585)",
        "RENAME_TABLES shop.dec_pk(587) -> shop.dec_pk2(587)",
        "CREATE_TABLE None(None) -> shop.swap_me(624) +[624]",
        "EXCHANGE_PARTITION shop.ledger(574) -> shop.ledger(574) +[624] -[577]",
        "EXCHANGE_PARTITION shop.swap_me(624) -> shop.swap_me(577) +[577] -[624]",
        "CREATE_VIEW None(None) -> shop.v1(629)",
    ]
