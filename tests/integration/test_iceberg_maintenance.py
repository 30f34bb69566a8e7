"""Iceberg tables that `ticdc-dump maintain` compacts and expires on a real Spark while the sink writes to them."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from pyiceberg.manifest import DataFileContent
from pyiceberg.table import Table

from sidecar.shared.log.identity import own_id
from sidecar.shared.log.sink_tables import write_sink_tables
from sidecar.shared.model.nouns import CommitTs, Seq
from sidecar.shared.model.sink_delivery import SinkTables
from spark_merge.sinks.iceberg.tables import totals_of
from spark_merge.testing import histories
from spark_merge.testing.places import Place
from spark_merge.testing.story import Story
from spark_merge.testing.true_histories import true_history
from tests.lanes import LANE
from tests.support.lake import CATALOG, catalog_of, lake_place, tables_of, uri_of
from tests.support.merge_command import ENTRY, MergeSettings
from tests.support.merged_lake import merged_place, merged_rows
from tests.support.services.iceberg_spark import POM
from tests.support.services.jars import jars

pytestmark = pytest.mark.xdist_group("iceberg")

TABLES, DEATHS = 2, 3
BEGIN_S, LOOK_S = 10.0, 0.3
"""Until a run's Spark has begun, about, and between two batches beside it."""


def place_of(folder: Path, mode: str) -> Place:
    uri = uri_of(folder / "lake", mode=mode, name="lake")
    return merged_place(uri) if mode == "merge" else lake_place(uri)


class MaintainCommand:
    """Spark's own configuration has Iceberg's runtime and the catalog; the sink has all tables whole."""

    def __init__(self, story: Story, folder: Path, *, whole: bool = True) -> None:
        self._config, self._conf = folder / "sidecar.toml", folder / "conf"
        self._conf.mkdir()
        query, name = dict(parse_qsl(urlsplit(story.place.uri).query)), f"spark.sql.catalog.{CATALOG}"
        settings = {
            "spark.jars": ",".join(map(str, sorted(jars(POM).glob("*.jar")))),
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            name: "org.apache.iceberg.spark.SparkCatalog",
            f"{name}.catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
            f"{name}.uri": f"jdbc:{query['uri'].replace('sqlite:///', 'sqlite:', 1)}",
            f"{name}.warehouse": query["warehouse"],
            f"{name}.jdbc.schema-version": "V1",
            f"{name}.cache-enabled": "false",
        }
        (self._conf / "spark-defaults.conf").write_text("".join(f"{key} {value}\n" for key, value in settings.items()))
        self._config.write_text(MergeSettings(str(folder / "log"), (story.place.uri,), "local[1]").toml())
        complete = dict.fromkeys(story.tables, CommitTs(1)) if whole else {}
        write_sink_tables(story.log, SinkTables("lake", "", Seq(0), None, Seq(0), None, complete), log_id=own_id(story.log))

    def begin(self) -> subprocess.Popen[str]:
        options = ["--json", "--min-files", "2", "--file-mib", "1", "--keep-hours", "24"]
        return subprocess.Popen(
            [sys.executable, str(ENTRY), "maintain", "--config", str(self._config), *options],
            env=os.environ | {"SPARK_CONF_DIR": str(self._conf)},
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )


def answer(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, _ = process.communicate()
    assert process.returncode == 0, out
    (sink,) = json.loads(out)["sinks"]
    return {one["table"]: one for one in sink["tables"]}


def rows_of(table: Table, mode: str, snapshot: int) -> list[str]:
    rows = merged_rows(table, snapshot) if mode == "merge" else table.scan(snapshot_id=snapshot).to_arrow().to_pylist()
    return sorted(map(repr, rows))


def check_snapshots(story: Story, mode: str) -> int:
    """One of somebody else has the rows of the one before it. How many there are."""
    count, catalog = 0, catalog_of(story.place.uri)
    for _, table in tables_of(catalog):
        for one in table.metadata.snapshots:
            if one.parent_snapshot_id is not None and one.summary is not None and one.summary["ticdc-dump.seq"] is None:
                count += 1
                assert rows_of(table, mode, one.snapshot_id) == rows_of(table, mode, one.parent_snapshot_id)
    catalog.close()
    return count


def check_compacted(table: Table) -> None:
    """One file of rows. Files of deletes that hide nothing any more may be there until the next compaction."""
    snapshot = table.current_snapshot()
    assert snapshot is not None
    entries = [entry for manifest in snapshot.manifests(table.io) for entry in manifest.fetch_manifest_entry(table.io)]
    assert sum(one.data_file.content == DataFileContent.DATA for one in entries) == 1
    assert totals_of(table).files == len(entries)


def story_of(folder: Path, mode: str, patch: pytest.MonkeyPatch) -> Story:
    patch.setattr(histories, "TABLES", TABLES)
    patch.setattr(histories, "random_history", true_history)
    return Story(folder, place_of(folder, mode), seed=5)


if LANE.whole:  # a Spark of its own for each run

    @pytest.mark.parametrize("mode", ["append", "merge"])
    def test_no_row_changes_by_a_run_beside_the_sink_and_the_next_run_has_what_it_left(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
    ) -> None:
        story = story_of(tmp_path, mode, monkeypatch)
        delivery = story.delivery(segments_max=1)
        batches = iter(range(histories.SEGMENTS - 2))  # two are for the next run
        for _ in itertools.islice(batches, histories.SEGMENTS // 2):
            delivery.deliver()
        command = MaintainCommand(story, tmp_path)
        beside = command.begin()
        with suppress(subprocess.TimeoutExpired):
            beside.wait(BEGIN_S)
        while beside.poll() is None:
            if next(batches, None) is not None:
                delivery.deliver()
            with suppress(subprocess.TimeoutExpired):
                beside.wait(LOOK_S)
        assert {one["state"] for one in answer(beside).values()} <= {"done", "overtaken"}
        story.finish(segments_max=1)
        assert {one["state"] for one in answer(command.begin()).values()} == {"done"}
        assert check_snapshots(story, mode) >= TABLES
        story.check_end()
        story.check_read_back(end=True)
        catalog = catalog_of(story.place.uri)
        for _, table in tables_of(catalog):
            check_compacted(table)
        catalog.close()

    def test_a_merged_table_whose_dump_runs_is_not_compacted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        story = story_of(tmp_path, "merge", monkeypatch)
        story.finish(segments_max=1)
        assert {one["state"] for one in answer(MaintainCommand(story, tmp_path, whole=False).begin()).values()} == {"dump"}
        assert check_snapshots(story, "merge") == 0
        story.check_end()

    @pytest.mark.parametrize("mode", ["append", "merge"])
    def test_a_run_that_is_killed_anywhere_leaves_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
        story = story_of(tmp_path, mode, monkeypatch)
        delivery, command = story.delivery(segments_max=1), MaintainCommand(story, tmp_path)
        began_s, seconds = time.monotonic(), 0.0
        for number in range(DEATHS + 1):
            for _ in range(2):
                delivery.deliver()
            process = command.begin()
            with suppress(subprocess.TimeoutExpired):
                process.wait(seconds * (1 - number / (DEATHS + 1) / 3) if number else None)  # the last part is Spark at work
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            seconds = seconds or time.monotonic() - began_s
            story.check_beginning()
            story.check_read_back()
        story.finish(segments_max=1)
        story.check_end()
        check_snapshots(story, mode)
        story.check_read_back(end=True)
