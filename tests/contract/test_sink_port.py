"""The port's suite on the three twins, on the files sink in each format and on S3, and on a third party's that is found by entry point."""

from __future__ import annotations

import itertools
import logging
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from moto.server import ThreadedMotoServer

from sidecar.shared.errors import OwnershipLost, SinkError
from sidecar.shared.log import storage
from sidecar.shared.log.storage import Folder, open_folder, s3
from spark_merge.port.contract import Sink
from spark_merge.port.kinds import ENTRY_POINTS
from spark_merge.sinks.files.reader import read_segments
from spark_merge.sinks.kit.errors import sink_folder
from spark_merge.sinks.memory.committing import CommittingSink
from spark_merge.sinks.memory.hidden import HiddenSink
from spark_merge.sinks.memory.twin import Twin
from spark_merge.sinks.memory.versioned import VersionedSink
from spark_merge.sinks.registry import open_sink
from spark_merge.testing.places import Here, Place
from spark_merge.testing.sink_port import SinkPort
from spark_merge.testing.story import Died, Story, change_names_between_steps, die_after_each, mortal, of
from tests.lanes import LANE
from tests.support.sinks import memory_place, place_of, spool_place

numbers = itertools.count()


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """A bucket on a real HTTP server, as the URI's parameters."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    parameters = f"endpoint=http://{host}:{port}&region=us-east-1&access-key=x&secret-access-key=y"
    s3.fs(open_folder(f"s3://merged?{parameters}")).call_s3("create_bucket", Bucket="merged")
    yield parameters
    server.stop()


TWINS = [HiddenSink, CommittingSink, VersionedSink]


def test_each_twin_runs_the_suite() -> None:
    assert {one for one in Twin.__subclasses__() if one.__module__.startswith("spark_merge.sinks.memory.")} == set(TWINS)


class TestTwins(SinkPort):
    @pytest.fixture(params=TWINS)
    def place(self, request: pytest.FixtureRequest) -> Place:
        name, kind = f"twin-{next(numbers)}", request.param
        return memory_place(name, lambda log_id: kind(name, log_id=log_id), versioned=kind is VersionedSink)

    def test_what_a_committing_sink_had_begun_is_done_again_as_it_was(self, story: Story) -> None:
        """A batch of two segments, one of whose tasks is done: the next owner's bounds would cut it to one."""
        sink = story.place.sink()
        batch, work = story.begin(sink)
        work[0].carry_out()
        standing = story.place.sink().open(epoch=None)
        if standing.begun is None:
            return  # the other kinds
        assert standing.begun is not None
        assert standing.begun.seq == batch.heads[-1].seq
        delivered = story.delivery(segments_max=1).deliver()
        assert delivered is not None
        assert [segment.seq for segment in delivered.segments] == [head.seq for head in batch.heads]
        story.finish()
        story.check_end()

    @pytest.mark.parametrize("seed", range(12))
    def test_names_of_sinks_change_in_other_histories_too(self, story: Story, tmp_path: Path, seed: int) -> None:
        change_names_between_steps(Story(tmp_path / "named", story.place, seed=seed, names=("a", "b")))


class TestFiles(SinkPort):
    @pytest.fixture(params=["jsonl", "parquet", "s3"])
    def place(self, request: pytest.FixtureRequest, tmp_path: Path) -> Place:
        if request.param == "s3":
            return place_of(f"s3://merged/{tmp_path.name}?format=jsonl&{request.getfixturevalue('bucket')}")
        return place_of(f"file://{tmp_path}/out?format={request.param}")

    def test_a_large_segment_is_several_files_where_rows_carry_their_order(self, story: Story) -> None:
        story.finish()
        folder = sink_folder(story.place.uri)
        per_table = [Counter(file.table for file in segment.files if file.from_log) for segment in read_segments(folder)]
        assert (max(max(item.values(), default=0) for item in per_table) > 1) == ("parquet" in story.place.uri)
        story.check_end()

    def test_a_death_between_any_two_durable_steps_changes_nothing(self, story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
        """As the suite's own, but inside the sink: before and after each write, for each number of writes that went well."""
        die_between_durable_steps(story, monkeypatch)

    def test_a_previous_owner_frozen_in_its_sweep_removes_nothing_of_its_successors(
        self, story: Story, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        _, work = story.begin(story.place.sink())
        Here().run(work)
        thawed: list[Callable[[], None]] = []

        def frozen(folder: Folder, names: object) -> None:
            previous = story.place.sink()
            thawed.append(lambda: storage.remove(folder, list(names)))  # type: ignore[call-overload]  # it goes on where it was
            assert previous is not None
            raise Died

        with monkeypatch.context() as patch:
            patch.setattr(storage, "remove", frozen)
            with pytest.raises(Died):
                story.place.sink().open(epoch=None)
        story.finish()
        for go_on in thawed:
            go_on()
        assert thawed
        story.check_end()

    def test_a_reader_that_follows_never_loses_a_file(self, story: Story) -> None:
        """What an entry names stays, whatever workers do after it."""
        folder = sink_folder(story.place.uri)
        for segments_max in (1, 2, 3, 2, 2):
            story.delivery(segments_max=segments_max).deliver()
            story.begin_and_die()
            for segment in read_segments(folder):
                for file in segment.files:
                    assert storage.exists(folder, file.path), file.path
        story.finish()
        story.check_end()

    @pytest.mark.parametrize("winner_delivers", [False, True], ids=["opened", "delivered"])
    def test_an_owner_that_lost_a_race_to_open_comes_after_the_winner(
        self, story: Story, monkeypatch: pytest.MonkeyPatch, winner_delivers: bool
    ) -> None:
        create, raced = storage.create_exclusively, list[str]()

        def overtaken(folder: Folder, name: str, data: bytes) -> bool:
            if not raced:
                raced.append(name)
                winner = story.delivery(segments_max=2)
                if winner_delivers:
                    winner.deliver()
            return create(folder, name, data)

        monkeypatch.setattr(storage, "create_exclusively", overtaken)
        standing = story.place.sink().open(epoch=None)
        assert standing.owner.incarnation == 2
        assert (standing.accepted and standing.accepted.seq) == (1 if winner_delivers else None)
        story.finish()
        story.check_end()


class TestSpool(SinkPort):
    """What subscribers are given."""

    @pytest.fixture(params=["disk", "s3"])
    def place(self, request: pytest.FixtureRequest, tmp_path: Path) -> Place:
        if request.param == "s3":
            return spool_place(f"grpc://merged/{tmp_path.name}?{request.getfixturevalue('bucket')}")
        return spool_place(f"grpc://{tmp_path}/spool")

    def test_a_death_between_any_two_durable_steps_changes_nothing(self, story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
        die_between_durable_steps(story, monkeypatch)


def die_between_durable_steps(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where each step is a request to S3, a third of the lives; `make matrix` has all."""
    life = mortal(monkeypatch, storage, "create_exclusively", "write_atomically", "write_in_order", "make_durable", "remove")
    die_after_each(story, of(life), range(1, 400, 1 if LANE.whole or "endpoint=" not in story.place.uri else 3))


@pytest.fixture
def third_party(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A package that is installed beside ours, with a sink of its own: `shelf://NAME`."""
    site = tmp_path / "site"
    (site / "shelf_sink-1.0.dist-info").mkdir(parents=True)
    (site / "shelf_sink-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: shelf-sink\nVersion: 1.0\n")
    (site / "shelf_sink-1.0.dist-info" / "entry_points.txt").write_text(
        f"[{ENTRY_POINTS}]\nshelf = shelf_sink:SHELF\nbroken = shelf_sink:open_shelf\n"
    )
    (site / "shelf_sink.py").write_text(
        "from spark_merge.port.kinds import SinkKind\n"
        "from spark_merge.sinks.memory.hidden import HiddenSink\n\n"
        "def open_shelf(uri):\n"
        "    return HiddenSink(uri.parts.netloc, log_id=uri.log_id)\n\n"
        'SHELF = SinkKind(open_shelf, frozenset({"height"}))\n'
    )
    monkeypatch.syspath_prepend(str(site))
    yield "shelf"
    sys.modules.pop("shelf_sink", None)


class TestThirdParty(SinkPort):
    @pytest.fixture
    def place(self, third_party: str) -> Place:
        name = f"shelf-{next(numbers)}"

        def make(log_id: str) -> Sink:
            return open_sink(f"{third_party}://{name}?height=3", log_id=log_id)

        return memory_place(name, make)

    def test_its_uri_is_checked_as_ours_are(self, third_party: str) -> None:
        with pytest.raises(SinkError, match="has no parameter depth") as refused:
            open_sink(f"{third_party}://x?depth=3", log_id="log-1")
        assert "height" in refused.value.hint
        with pytest.raises(SinkError, match="is no SinkKind"):
            open_sink("broken://x", log_id="log-1")
        with pytest.raises(SinkError, match="no sink is known for nothing:") as unknown:
            open_sink("nothing://x", log_id="log-1")
        assert "shelf:" in unknown.value.hint
        assert "file:" in unknown.value.hint


def test_a_committing_task_of_a_previous_owner_is_refused(tmp_path: Path) -> None:
    name = f"twin-{next(numbers)}"
    story = Story(tmp_path, memory_place(name, lambda log_id: CommittingSink(name, log_id=log_id)), seed=3)
    _, work = story.begin(story.place.sink())
    story.place.sink().open(epoch=None)
    with pytest.raises(OwnershipLost):
        work[0].carry_out()
