"""The Delta sink on a folder, and on S3 in the matrix lane: the port's suite in both modes, and what a commit of a former owner may do."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError
from moto.server import ThreadedMotoServer

from sidecar.shared.errors import OwnershipLost, SinkError
from sidecar.shared.log import storage
from sidecar.shared.log.storage import open_folder, s3
from sidecar.shared.model.nouns import TableName
from spark_merge.sinks.delta.places import table_place
from spark_merge.sinks.delta.table import Table, transaction_only
from spark_merge.sinks.delta.tables import DeltaTables
from spark_merge.sinks.registry import open_sink
from spark_merge.testing import histories
from spark_merge.testing.places import Here, Place
from spark_merge.testing.sink_port import SinkPort
from spark_merge.testing.story import TABLES, Story, die_after_each, mortal, of
from spark_merge.testing.true_histories import true_history
from tests.contract.test_sink_port import bucket as bucket  # a fixture
from tests.lanes import LANE
from tests.support.deliveries import Segments, change, deliver, opened
from tests.support.delta_place import delta_table, folder_of, history_place
from tests.support.services.ports import free_port
from tests.support.services.s3 import BUCKET, S3

WHERE = ["append", "merge", *(["append on s3", "merge on s3"] if LANE.whole else [])]


class TestDelta(SinkPort):
    @pytest.fixture(params=WHERE)
    def place(self, request: pytest.FixtureRequest, tmp_path: Path) -> Place:
        mode, _, where = request.param.partition(" on ")
        if where:
            return history_place(f"delta+s3://merged/{tmp_path.name}?mode={mode}&{request.getfixturevalue('bucket')}", tables=TABLES)
        return history_place(f"delta://{tmp_path}/out?mode={mode}", tables=TABLES)

    def test_a_death_between_any_two_steps_at_the_storage_changes_nothing(self, story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
        life = mortal(monkeypatch, storage, "create_exclusively", "write_atomically", "write_in_order", "make_durable", "remove")
        die_after_each(story, of(life), range(1, 400, 1 if LANE.whole else 9))

    def test_a_death_between_any_two_commits_of_tables_changes_nothing(self, story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
        die_after_each(story, of(mortal(monkeypatch, Table, "commit", "_make")), range(1, 400, 1 if LANE.whole else 4))

    def test_rows_that_a_previous_owner_commits_late_are_there_once(self, story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
        """It was frozen between its look at the fence and its tables' commits, with what it staged read; the next owner cuts otherwise."""
        monkeypatch.setattr(DeltaTables, "_sweep_staged", lambda _: None)
        previous = story.place.sink()
        batch, work = story.begin(previous)
        outcomes = Here().run(work)
        successor = story.delivery(segments_max=3)
        with monkeypatch.context() as patch:
            patch.setattr("spark_merge.sinks.kit.position.PositionKeeper.check", lambda *_: None)
            with pytest.raises(OwnershipLost):
                previous.accept(batch, outcomes)
        story.check_beginning()
        while successor.deliver():
            pass
        story.check_end()

    def test_files_of_which_a_previous_owner_has_brought_a_part_are_taken_by_no_table(
        self, story: Story, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A previous owner commits two segments of each table late, and its successor's tasks have written four of them in one file."""
        monkeypatch.setattr(DeltaTables, "_sweep_staged", lambda _: None)
        previous, successor = story.place.sink(), story.place.sink()
        batch, work = story.begin(previous)
        outcomes = Here().run(work)
        with monkeypatch.context() as patch:
            patch.setattr(story, "delivery", partial(story.delivery, segments_max=4))
            longer, tasks = story.begin(successor)
        assert len(longer.heads) > len(batch.heads)
        written = Here().run(tasks)
        with monkeypatch.context() as patch:
            patch.setattr("spark_merge.sinks.kit.position.PositionKeeper.check", lambda *_: None)
            with pytest.raises(OwnershipLost):
                previous.accept(batch, outcomes)
        with pytest.raises(SinkError, match="from an earlier worker while this batch was written"):
            successor.accept(longer, written)
        story.check_beginning()
        story.finish()

    def test_what_a_previous_owner_has_brought_behind_a_batch_is_in_no_file_of_the_next_one(
        self, story: Story, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Nothing is done twice for it."""
        monkeypatch.setattr(DeltaTables, "_sweep_staged", lambda _: None)
        previous, successor, delivery = story.place.sink(), story.place.sink(), story.delivery
        monkeypatch.setattr(story, "delivery", partial(delivery, segments_max=6))
        batch, work = story.begin(previous)
        outcomes = Here().run(work)
        monkeypatch.setattr(story, "delivery", partial(delivery, segments_max=3))
        shorter, tasks = story.begin(successor)
        with monkeypatch.context() as patch:
            patch.setattr("spark_merge.sinks.kit.position.PositionKeeper.check", lambda *_: None)
            with pytest.raises(OwnershipLost):
                previous.accept(batch, outcomes)
        written = Here().run(tasks)
        successor.accept(shorter, written)
        last = batch.heads[-1].seq
        tables = successor.plan(batch.heads[len(shorter.heads) :], cores=1).writer.targets  # type: ignore[attr-defined]  # a DeltaWriter
        brought = {file.table for outcome in written for file in outcome.note} & tables.keys()
        assert brought
        assert {tables[name].due for name in brought} == {last + 1}
        story.check_beginning()

    def test_a_commit_of_somebody_else_between_look_and_commit_is_no_loss(self, story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
        """An OPTIMIZE, say: the table is looked at anew."""
        commit, raced = Table.commit, set[str]()

        def overtaken(self: Table, *args: object) -> bool:
            if self.uri not in raced and (result := self.load()) is not None and result.file_uris():
                raced.add(self.uri)
                result.optimize.compact()
                transaction_only(result, CommitProperties())
            return commit(self, *args)  # type: ignore[arg-type]

        monkeypatch.setattr(Table, "commit", overtaken)
        story.finish(segments_max=1)
        assert raced
        story.check_end()

    def test_no_file_of_ours_is_left_beside_the_tables(self, story: Story) -> None:
        story.begin_and_die()
        story.finish()
        folder = folder_of(story.place.uri)
        assert not [name for name in storage.list_names(folder, deep=True) if name.startswith("_staged/")]
        story.check_end()


@pytest.mark.parametrize("seed", range(100) if LANE.whole else [1, 3])
def test_tables_are_as_they_are_however_often_a_dump_reads_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Of tables that are really there, among them some without any live row for long, to which a dump's files are added as they are."""
    rng = Random(seed)
    monkeypatch.setattr(histories, "TABLES", TABLES)
    monkeypatch.setattr(histories, "random_history", partial(true_history, passes=3))
    story = Story(tmp_path, history_place(f"delta://{tmp_path}/out?mode=merge", tables=TABLES), seed=seed)
    delivery = story.delivery(segments_max=rng.choice([1, 2, 6]))
    while delivery.deliver():
        story.check_beginning()
    story.check_end()


@pytest.mark.parametrize("batches", [3, 12])
def test_a_batch_reads_as_much_however_many_commits_a_table_has(tmp_path: Path, batches: int, monkeypatch: pytest.MonkeyPatch) -> None:
    requests, answer = list[str](), S3._answer

    def counted(self: S3, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] == "GET":
            requests.append(environ["PATH_INFO"])
        return answer(self, environ, start_response)

    monkeypatch.setattr(S3, "_answer", counted)
    log = open_folder(str(tmp_path))
    with S3() as server:
        sink = opened(open_sink(f"delta+{server.uri(tmp_path.name + str(batches), keys=True)}&mode=append", log_id="log-1"))
        for seq in range(batches):
            requests.clear()
            deliver(sink, Segments([seq], [change(seq, 100 * seq, after=[str(seq), "x"])]), log=log)
        listings, looks = requests.count(f"/{BUCKET}"), [path for path in requests if "/_commits/" in path or path.endswith("_log.json")]
        assert (len(requests) - listings, listings, looks) == (4, 5, [])


def test_of_two_commits_from_one_version_delta_takes_one(tmp_path: Path) -> None:
    """What the sink's fence rests on, whatever the two bring."""
    DeltaTable.create(tmp_path, _schema())
    one, two = DeltaTable(tmp_path), DeltaTable(tmp_path)

    def commit(table: DeltaTable, version: int) -> None:
        how = CommitProperties(max_commit_retries=0, app_transactions=[Transaction("x", version)])
        transaction_only(table, how)

    commit(one, 5)
    with pytest.raises(CommitFailedError):
        commit(two, 9)
    again = DeltaTable(tmp_path)
    assert (again.version(), again.transaction_version("x")) == (1, 5)
    commit(again, 9)
    assert DeltaTable(tmp_path).transaction_version("x") == 9


def test_delta_rs_itself_refuses_a_second_transaction_of_one_application(tmp_path: Path) -> None:
    """With retries, which the sink does not use: the second one's application has been updated since it read the table."""
    DeltaTable.create(tmp_path, _schema())
    one, two = DeltaTable(tmp_path), DeltaTable(tmp_path)
    transaction_only(one, CommitProperties(app_transactions=[Transaction("x", 5)]))
    with pytest.raises(CommitFailedError):
        transaction_only(two, CommitProperties(app_transactions=[Transaction("x", 9)]))
    transaction_only(two, CommitProperties(app_transactions=[Transaction("y", 9)]))


@pytest.mark.parametrize("mode", ["append", "merge"])
def test_a_delta_table_of_somebody_else_is_refused(tmp_path: Path, mode: str) -> None:
    story = Story(tmp_path, history_place(f"delta://{tmp_path}/out?mode={mode}", tables=TABLES), seed=7)
    for number in range(TABLES):
        DeltaTable.create(tmp_path / "out" / table_place(TableName("s", f"t{number}")), _schema())
    with pytest.raises(SinkError, match="none that this sink made"):
        story.finish()


@pytest.mark.parametrize("mode", ["append", "merge"])
def test_a_table_that_is_gone_is_not_made_again_without_its_rows(tmp_path: Path, mode: str) -> None:
    story = Story(tmp_path, history_place(f"delta://{tmp_path}/out?mode={mode}", tables=TABLES), seed=7)
    delivery = story.delivery(segments_max=1)
    while not all(delta_table(folder_of(story.place.uri), name) for name in story.tables):
        assert delivery.deliver()
    (tmp_path / "out" / "s").rename(tmp_path / "elsewhere")
    with pytest.raises(SinkError, match="is gone"):  # noqa: PT012  # until it meets one
        while delivery.deliver():
            pass


def test_one_folder_has_one_mode(tmp_path: Path) -> None:
    history_place(f"delta://{tmp_path}/out?mode=append", tables=1).sink().open(epoch=None)
    with pytest.raises(SinkError, match="append"):
        history_place(f"delta://{tmp_path}/out?mode=merge", tables=1).sink().look()


def _schema() -> pa.Schema:
    return pa.schema([("a", pa.int64())])


if LANE.whole:  # the clients' own retries take half a minute

    @pytest.mark.parametrize("mode", ["append", "merge"])
    def test_what_an_outage_of_the_storage_delays_all_arrives(tmp_path: Path, mode: str) -> None:
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        port = free_port()
        with served(port):
            parameters = f"endpoint=http://127.0.0.1:{port}&region=us-east-1&access-key=x&secret-access-key=y"
            s3.fs(open_folder(f"s3://away?{parameters}")).call_s3("create_bucket", Bucket="away")
            story = Story(
                tmp_path, history_place(f"delta+s3://away/{tmp_path.name}?mode={mode}&{parameters}", tables=histories.TABLES), seed=7
            )
            batch, work = story.begin(sink := story.place.sink())
            outcomes = Here().run(work)
        with pytest.raises(SinkError, match="cannot be read or written"):
            sink.accept(batch, outcomes)
        with pytest.raises(SinkError, match="cannot be read or written"):
            Table(folder_of(story.place.uri), "s/t0").load()
        with served(port):
            story.finish()
            story.check_end()


@contextmanager
def served(port: int) -> Iterator[None]:
    """moto's S3, whose buckets outlive its servers."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False)
    server.start()
    try:
        yield
    finally:
        server.stop()
