"""The port's suite on the Iceberg sink, over a SQL catalog and a local warehouse; and its own: frozen owners, sweeps, compaction."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sidecar.shared.errors import OwnershipLost, SinkError
from sidecar.shared.log import storage
from sidecar.shared.model.nouns import Seq
from spark_merge.port.contract import Batch, Outcome
from spark_merge.sinks.iceberg import lake
from spark_merge.sinks.iceberg import sink as iceberg
from spark_merge.sinks.iceberg.lake import Lake
from spark_merge.sinks.iceberg.position import SNAPSHOTS_KEPT
from spark_merge.sinks.iceberg.tables import IcebergTables
from spark_merge.sinks.iceberg.writer import LakeTarget
from spark_merge.sinks.kit import held
from spark_merge.sinks.kit.position import PositionKeeper
from spark_merge.sinks.lake.lake_sink import TableShare
from spark_merge.testing import histories
from spark_merge.testing.places import Here, Place
from spark_merge.testing.sink_port import SinkPort
from spark_merge.testing.story import Story, die_after_each, mortal, of
from tests.lanes import LANE
from tests.support.lake import NAMESPACE, catalog_of, lake_place, on_s3, rows_at, tables_of, uri_of
from tests.support.services.s3 import S3

pytestmark = pytest.mark.xdist_group("iceberg")


class TestIceberg(SinkPort):
    partitions = ""

    @pytest.fixture
    def place(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
        monkeypatch.setattr(iceberg, "LIVE_PART_ROWS", 2)
        return lake_place(uri_of(tmp_path / "lake", partitions=self.partitions))

    def test_a_death_between_any_two_durable_steps_changes_nothing(self, story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
        life = mortal(monkeypatch, Lake, "commit", "make")
        for name in ("make_durable", "remove"):
            monkeypatch.setattr(storage, name, _after(life.step, getattr(storage, name)))
        die_after_each(story, of(life), range(1, 400, 1 if LANE.whole else 5))

    @pytest.mark.parametrize("where", ["before its tables", "within a table's commit", "before the position"])
    @pytest.mark.parametrize("ahead", [0, 1, 100] if LANE.whole else [1])
    def test_a_previous_worker_that_is_frozen_while_it_accepts_brings_no_row_twice(
        self, story: Story, monkeypatch: pytest.MonkeyPatch, where: str, ahead: int
    ) -> None:
        """Its successor has opened meanwhile, and delivered so many batches of another cut."""
        previous = story.place.sink()
        batch, work = story.begin(previous)
        outcomes = Here().run(work)
        with monkeypatch.context() as patch:
            self.freeze(patch, where, lambda: self.succeed(story, ahead))
            with pytest.raises(OwnershipLost):
                previous.accept(batch, outcomes)
        story.check_beginning()
        story.finish(segments_max=1)
        story.check_end()
        self.check_files(story)

    def test_files_that_a_previous_worker_made_too_late_to_know_are_taken_by_no_table(
        self, story: Story, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A former worker commits two segments of each table, and its successor's tasks have written four of them in one file."""
        previous = story.place.sink()
        batch, work = story.begin(previous)
        outcomes = Here().run(work)
        successor, bring = story.place.sink(), IcebergTables.bring
        late: list[tuple[Batch, list[Outcome]]] = []

        def meanwhile(tables: IcebergTables, share: TableShare[LakeTarget]) -> LakeTarget | None:
            if not late:
                monkeypatch.setattr(story, "delivery", partial(story.delivery, segments_max=4))
                longer, tasks = story.begin(successor)
                assert len(longer.heads) > len(batch.heads)
                late.append((longer, Here().run(tasks)))
            return bring(tables, share)

        monkeypatch.setattr(IcebergTables, "bring", meanwhile)
        with pytest.raises(OwnershipLost):
            previous.accept(batch, outcomes)
        with pytest.raises(SinkError, match="from an earlier worker while this batch was written"):
            successor.accept(*late[0])
        story.check_beginning()
        story.finish()
        story.check_end()
        self.check_files(story)

    def test_an_answer_that_is_lost_after_a_commit_brings_nothing_twice(self, story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
        commit, made = Lake.commit, itertools.count(1)

        def lossy(*args: Any) -> None:
            commit(*args)
            if next(made) % 2:
                raise OSError("connection reset by peer")

        monkeypatch.setattr(Lake, "commit", lossy)
        monkeypatch.setattr(lake, "RETRY_FIRST_S", 0.01)
        story.finish(segments_max=2)
        story.check_end()
        assert next(made) > 10

    def test_a_large_task_makes_several_files_of_a_table(self, story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(held, "HELD_BYTES_MAX", 1000)
        story.finish(segments_max=100)
        story.check_end()
        catalog = catalog_of(story.place.uri)
        assert max(table.inspect.files().num_rows for _, table in tables_of(catalog)) > 2
        catalog.close()

    @staticmethod
    def freeze(patch: pytest.MonkeyPatch, where: str, meanwhile: Callable[[], object]) -> None:
        kind, name = {
            "before its tables": (IcebergTables, "bring"),
            "within a table's commit": (Lake, "commit"),
            "before the position": (PositionKeeper, "accept"),
        }[where]
        call, thawed = getattr(kind, name), list[bool]()

        def frozen(*args: Any, **named: Any) -> object:
            if not thawed:
                thawed.append(True)
                meanwhile()
            return call(*args, **named)

        patch.setattr(kind, name, frozen)

    @staticmethod
    def succeed(story: Story, ahead: int) -> None:
        delivery = story.delivery(segments_max=1)
        for _ in range(ahead):
            delivery.deliver()

    @staticmethod
    def check_files(story: Story) -> None:
        """What a table names is there."""
        catalog = catalog_of(story.place.uri)
        for _, table in tables_of(catalog):
            for path in table.inspect.all_files()["file_path"].to_pylist():
                assert Path(path.removeprefix("file://")).exists(), path
        catalog.close()

    def test_what_previous_workers_left_is_swept(self, story: Story, tmp_path: Path) -> None:
        for _ in range(3):
            story.begin_and_die()
        story.finish()
        story.check_end()
        self.check_files(story)
        catalog = catalog_of(story.place.uri)
        named = {Path(path).name for _, table in tables_of(catalog) for path in table.inspect.all_files()["file_path"].to_pylist()}
        catalog.close()
        there = {file.name for file in (tmp_path / "lake").rglob("data/*.parquet") if "_ticdc_dump" not in str(file)}
        assert there == named

    def test_commits_of_others_between_ours_are_no_matter(self, story: Story) -> None:
        """As compaction makes them: a snapshot of its own, of the same rows."""
        delivery = story.delivery(segments_max=1)
        while delivery.deliver():
            catalog = catalog_of(story.place.uri)
            for _, table in tables_of(catalog):
                if table.metadata.current_snapshot_id is not None:
                    table.overwrite(table.scan().to_arrow())
            catalog.close()
        story.check_end()

    def test_a_table_that_somebody_dropped_is_not_made_again_empty(self, story: Story) -> None:
        story.delivery(segments_max=1).deliver()
        catalog = catalog_of(story.place.uri)
        dropped = [table.name() for _, table in tables_of(catalog) if rows_at(table)]
        for name in dropped:
            catalog.drop_table(name)
        catalog.close()
        assert dropped
        with pytest.raises(SinkError, match="is gone, which has got rows"):
            story.finish()

    def test_a_table_that_is_somebody_elses_is_refused(self, story: Story) -> None:
        story.delivery(segments_max=1).deliver()
        catalog = catalog_of(story.place.uri)
        _, table = next(tables_of(catalog))
        with table.transaction() as change:
            change.remove_properties("ticdc-dump.log")
        catalog.close()
        with pytest.raises(SinkError, match="this sink has not made"):
            story.finish()

    def test_the_record_stays_small_and_says_how_far_it_is(self, story: Story) -> None:
        for _ in range(SNAPSHOTS_KEPT + 3):
            story.place.sink().open(epoch=None)
        story.finish()
        catalog = catalog_of(story.place.uri)
        record = catalog.load_table((NAMESPACE, "_ticdc_dump"))
        assert len(record.metadata.snapshots) <= SNAPSHOTS_KEPT + 1
        assert record.properties["ticdc-dump.seq"] == str(Seq(len(story.manifests) - 1))
        reported = {row["table"] for row in record.scan().to_arrow().to_pylist() if row["what"] == "table"}
        assert reported == {name.table for name, table in tables_of(catalog) if rows_at(table)}
        catalog.close()


if LANE.whole:

    class TestPartitioned(TestIceberg):
        partitions = "s.*(bucket(2, id), _op)"
        test_commits_of_others_between_ours_are_no_matter = None  # type: ignore[assignment]  # Spark makes them: test_iceberg_append_spark.py


def test_a_warehouse_on_s3_has_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The catalog's files by pyiceberg, the data by the tasks, both with the keys of the URI."""
    monkeypatch.setattr(histories, "TABLES", 2)
    with S3() as s3:
        story = Story(tmp_path, lake_place(on_s3(s3, tmp_path / "lake")), seed=7)
        story.begin_and_die()
        story.finish(segments_max=3)
        story.check_end()


def _after(step: Callable[[], object], call: Callable[..., object]) -> Callable[..., object]:
    def then(*args: Any, **named: Any) -> object:
        result = call(*args, **named)
        step()
        return result

    return then
