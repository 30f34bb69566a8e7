"""The recording `holes` as a cluster: its feed, its tables at each moment, its schemas, and what the watchers of holes see there.

    HoleRecording        steps, the feed's messages, the truth after each step
    TrueTables           what a SELECT sees: the truth, for no feed has all of these rows
    RecordedSchemas      tables inside the changefeed's filter at a DDL's commit_ts, by TiDB's DDL history
    Outlook              the real watchers, over TiDB's own tables and the leases as they were at each moment

A step is its statements, some seconds in which nobody writes, and a snapshot. So at a moment between the statements and the end of a step
the tables are its truth. What is not here: a watcher of the changefeed's definition, which did not change.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

from sidecar.adapters.etcd.keys import KeyEntry
from sidecar.adapters.tidb.imports import import_jobs, pitr_maps, restore_tasks, table_names
from sidecar.adapters.tidb.seen_jobs import JobReader
from sidecar.replay.history import HistorySchemas, RecordedHistory
from sidecar.replay.judge.rows import rows_by_key
from sidecar.replay.kv import snapshot_at_start
from sidecar.replay.recorded_line import RowChange
from sidecar.replay.recording import FeedConfig, Recording
from sidecar.replay.tables import RecordedTables
from sidecar.shared.model.nouns import CommitTs, Ddl, TableName, TableSchema, physical_ms
from sidecar.shared.rowcodec.ddl_job import history_job
from sidecar.shared.rowcodec.kv_layout import KvSnapshot
from sidecar.shared.rowcodec.kv_table import KvTable
from sidecar.shared.schema.ddl import DdlJob
from sidecar.shared.schema.history import SchemaHistory
from sidecar.watch.contract import IMPORTS, JOBS, LEASES, RESTORES, Looked, Watcher
from sidecar.watch.imports import ImportWatch
from sidecar.watch.jobs import JobPlaces, JobWatch
from sidecar.watch.leases import PREFIX, LeasePlaces, LeaseWatch
from sidecar.watch.restores import RestorePlaces, RestoreWatch
from tests.support.holes import every_job, inside, steps
from tests.support.services.fake_tidb import FakeTidb

FAILED_IN = "rename-in"
"""The step in which the changefeed failed: nothing came after it."""


class HoleStep(NamedTuple):
    name: str
    before_ts: CommitTs
    after_ts: CommitTs


class HoleRecording(Recording):
    """Up to the changefeed's failure. Its recording.json has another form than that of a stream."""

    def __init__(self, folder: Path) -> None:
        fields = json.loads((folder / "recording.json").read_bytes())
        every = [HoleStep(one["step"], CommitTs(int(one["before_tso"])), CommitTs(int(one["after_tso"]))) for one in fields["steps"]]
        names = [one.name for one in every]
        self.folder = folder
        self.name = fields["name"]
        self.steps = tuple(every[: names.index(FAILED_IN)])
        self.start_ts = CommitTs(int(fields["start_ts"]))
        self.end_ts = self.steps[-1].after_ts
        self.truth_ts = tuple(one.after_ts for one in self.steps)
        self.ddls = ()
        self._feeds = fields["feeds"]

    def feed_config(self, name: str | None = None) -> FeedConfig:
        """Two partitions, plain messages."""
        name = name or "canal-json"
        path = self.folder / "kafka" / f"{name}.parquet"
        return FeedConfig(name, self._feeds[name], "holes", name, tidb_extension=True, compression="", encoding="", partitions=2, path=path)

    # ---- as a RecordedLine ------------------------------------------------------------------------------------------

    def snapshot(self) -> KvSnapshot:
        return snapshot_at_start(self)

    def jobs(self) -> list[DdlJob]:
        return sorted(self._jobs.values(), key=lambda job: job.commit_ts)

    def rows(self, schemas: SchemaHistory[KvTable]) -> Sequence[RowChange]:
        """None: the truth has them."""
        return ()

    @cached_property
    def _jobs(self) -> dict[int, DdlJob]:
        metas: dict[int, str] = {}
        for path in sorted((self.folder / "observed").glob("*.json")):
            metas |= {row[0]: row[1] for row in json.loads(path.read_bytes())["ddl_history"]}
        jobs = (history_job(meta.encode(), at=f"DDL job {number}") for number, meta in metas.items())
        return {job.job_id: job for job in jobs if job is not None and job.commit_ts <= self.end_ts}


class RecordedSchemas(HistorySchemas):
    """The feed has a DDL's true commit_ts, the history has the job up to 450 ms later; nobody ran two DDLs at a time."""

    def __init__(self, recording: HoleRecording) -> None:
        self.history = RecordedHistory(recording, recording)
        super().__init__(self.history)

    def begin(self) -> Mapping[TableName, TableSchema]:
        return _inside(super().begin())

    def after(self, ddls: Sequence[Ddl]) -> Mapping[TableName, TableSchema]:
        return self.at(max(ddl.commit_ts for ddl in ddls))

    def at(self, commit_ts: CommitTs) -> Mapping[TableName, TableSchema]:
        """After the DDL with this commit_ts in the feed."""
        return _inside(self.history.schemas_at(next(event.commit_ts for event in self.history.events if event.commit_ts >= commit_ts)))


def _inside(tables: Mapping[TableName, TableSchema]) -> dict[TableName, TableSchema]:
    return {name: table for name, table in tables.items() if inside(name)}


class TrueTables(RecordedTables):
    """At a moment of a step what the truth after it has; after the last step what it has after that."""

    def __init__(self, recording: HoleRecording, schemas: RecordedSchemas) -> None:
        self._recording = recording
        self._eras = {}  # type: ignore[assignment]  # filled below, with a list for each table
        since_ts = recording.start_ts
        for step in recording.steps:
            truth, tables = recording.truth(step.after_ts), _inside(schemas.history.schemas_at(step.after_ts))
            for name in {*self._eras, *truth}:
                eras = self._eras.setdefault(name, [])
                if name in truth and tables[name].key:
                    self._begin(name, tables[name], since_ts, rows_by_key(tables[name], truth[name]))
                    assert eras[-1][1] is not None
                    eras[-1][1].sort_keys()
                else:
                    eras.append((since_ts, None))
            since_ts = CommitTs(step.after_ts + 1)


# ---- what watchers see ----------------------------------------------------------------------------------------------


@dataclass
class Outlook:
    """TiDB and PD's etcd as a watcher sees them at `now_ts`, which only rises."""

    recording: HoleRecording
    tidb: FakeTidb
    now_ts: CommitTs

    def __post_init__(self) -> None:
        self.tidb.job_list = every_job()
        self.move(self.now_ts)

    def move(self, now_ts: CommitTs) -> None:
        self.now_ts = self.tidb.now_ts = now_ts
        self.tidb.own_tables = {"tidb_import_jobs": list(self._import_jobs()), "tidb_restore_registry": [], "tidb_pitr_id_map": []}

    def now_ms(self) -> int:
        return physical_ms(self.now_ts)

    def now_s(self) -> float:
        return self.now_ms() / 1000

    def get_prefix(self, prefix: str, *, keys_only: bool) -> list[KeyEntry]:
        """A key is there for the seconds of its step in which it was seen."""
        assert (prefix, keys_only) == (PREFIX, True)
        return [KeyEntry(key, b"", 1, 1, 9) for key, (first_ms, last_ms) in self._leases.items() if first_ms <= self.now_ms() <= last_ms]

    def watchers(self, begin_ts: CommitTs, seen: Mapping[str, str]) -> list[Watcher]:
        """Those that the product makes where it reads TiDB and TiCDC's etcd (sidecar/run/hole_watch.py), by its names."""
        source, looked = self.tidb.settings(), {name: Looked(seen.get(name), begin_ts) for name in (JOBS, IMPORTS, RESTORES, LEASES)}
        jobs = JobWatch(JobPlaces(JobReader(source, _refuse_note).look, partial(table_names, source), _refuse_note), inside, looked[JOBS])
        imports = ImportWatch(partial(import_jobs, source), inside, self.now_s, looked[IMPORTS])
        places = RestorePlaces(partial(restore_tasks, source), partial(pitr_maps, source), partial(table_names, source))
        leases = LeasePlaces(self, lambda _: None, inside, lambda: not (jobs.unwatched and imports.unwatched))  # type: ignore[arg-type]  # the one call
        return [
            jobs,
            imports,
            RestoreWatch(places, inside, self.now_s, looked[RESTORES]),
            LeaseWatch(leases, self.now_ms, looked[LEASES]),
        ]

    def _import_jobs(self) -> Iterator[tuple[Any, ...]]:
        """The columns that are read, of the jobs that have begun."""
        for row in steps()[-1]["import_jobs"]:
            number, began_s, ended_s, name, status = row[0], _unix_s(row[2]), _unix_s(row[4]), row[5:8], row[12]
            if began_s <= self.now_s():
                yield (number, *name, status, began_s, ended_s) if ended_s <= self.now_s() else (number, *name, "running", began_s, None)

    @cached_property
    def _leases(self) -> dict[str, tuple[int, int]]:
        """The milliseconds of the first and the last sight, by key."""
        leases = {}
        for step, seen in zip(self.recording.steps, steps(), strict=False):
            assert step.name == seen["step"]
            begin_ms = physical_ms(step.before_ts)
            for key, sight in seen["leases"].items():
                leases[key] = (begin_ms + int(sight["first_s"] * 1000), begin_ms + int(sight["last_s"] * 1000))
        return leases


def _unix_s(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def _refuse_note(text: str) -> None:
    raise AssertionError(f"a watcher does not know: {text}")
