"""The port's suite on the storage sink: csv and canal-json on a disk and on S3, read back by a consumer that goes by TiCDC's rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from sidecar.shared.errors import OwnershipLost, SinkError
from sidecar.shared.log import storage
from sidecar.shared.log.storage import open_folder
from spark_merge.port.contract import Sink
from spark_merge.sinks.kit import chain
from spark_merge.sinks.kit.chain import CommitChain
from spark_merge.sinks.kit.errors import sink_folder
from spark_merge.sinks.registry import open_sink
from spark_merge.sinks.storage import writer
from spark_merge.sinks.storage.options import options_of
from spark_merge.sinks.storage.sink import StorageSink
from spark_merge.testing.histories import SEGMENTS
from spark_merge.testing.places import Here, Place, accepted
from spark_merge.testing.sink_port import SinkPort
from spark_merge.testing.story import Died, Story, die_after_each, mortal, of
from tests.contract.test_sink_port import bucket  # noqa: F401  # a fixture
from tests.lanes import LANE
from tests.support.storage_place import output, storage_place
from tests.support.storage_reader import Form

CSV, JSON = Form(), Form(protocol="canal-json", date="none", digits=6)
QUERIES = {
    "csv": ("protocol=csv&csv.include-commit-ts=true", CSV),
    "json": ("protocol=canal-json&date-separator=none&file-index-digit=6", JSON),
}


class TestStorage(SinkPort):
    @pytest.fixture(params=["csv", "json", *(["s3"] if LANE.whole else [])])
    def place(self, request: pytest.FixtureRequest, tmp_path: Path) -> Place:
        if request.param == "s3":
            query, form = QUERIES["csv"]
            return storage_place(f"s3://merged/{tmp_path.name}?{query}&{request.getfixturevalue('bucket')}", form)
        query, form = QUERIES[request.param]
        return storage_place(f"file://{tmp_path}/out?{query}", form)

    def test_a_death_between_any_two_durable_steps_changes_nothing(self, story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
        """Inside the sink: before and after each write, for some numbers of writes that went well; `make matrix` has all."""
        steps = ("create_exclusively", "write_atomically", "write_all", "copy_files", "make_durable", "remove")
        life = mortal(monkeypatch, storage, *steps)
        died = die_after_each(story, of(life), range(1, 600, 1 if LANE.whole else 5))
        assert died > 4

    def test_no_file_that_an_index_names_ever_changes(self, story: Story) -> None:
        form = JSON if "canal-json" in story.place.uri else CSV
        seen: dict[str, bytes] = {}
        for segments_max in (1, 2, 3, 2, 2):
            story.delivery(segments_max=segments_max).deliver()
            story.begin_and_die()
            there = _data(output(story.place.uri, form).files)
            assert {path: there.get(path) for path in seen} == seen
            seen = there
        assert seen
        story.finish()
        story.check_end()


def _data(files: Mapping[str, bytes]) -> dict[str, bytes]:
    return {path: data for path, data in files.items() if not path.endswith("CDC.index") and path != "metadata"}


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return Story(tmp_path, storage_place(f"file://{tmp_path}/out?{QUERIES['csv'][0]}", CSV), seed=5)


def test_it_is_the_same_on_s3(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """The whole suite is in `make matrix`."""
    uri = f"s3://merged/{tmp_path.name}?{QUERIES['csv'][0]}&{request.getfixturevalue('bucket')}"
    story = Story(tmp_path, storage_place(uri, CSV), seed=5)
    previous = story.place.sink()
    batch, work = story.begin(previous)
    outcomes = Here().run(work)
    story.begin_and_die()
    with pytest.raises(OwnershipLost):
        previous.accept(batch, outcomes)
    story.finish(segments_max=3)
    story.check_end()
    assert not storage.list_names(open_folder(f"s3://merged/{tmp_path.name}/_ticdc_dump/staged?{uri.partition('?')[2]}"), deep=False)


@pytest.mark.parametrize("step", ["copy_files", "write_all", "write_atomically", "remove"])
def test_a_worker_frozen_amid_showing_what_it_accepted_wakes_up_and_changes_no_file(
    story: Story, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Its successor shows the same under the same names. A checkpoint that it puts back is put right by the next opening at the latest."""
    frozen: list[Callable[[], object]] = []
    before = getattr(storage, step)

    def freeze(*args: Any) -> object:
        frozen.append(lambda: before(*args))
        raise Died

    previous = story.place.sink()
    batch, work = story.begin(previous)
    outcomes = Here().run(work)
    with monkeypatch.context() as patch:
        patch.setattr(storage, step, freeze)
        with pytest.raises(Died):
            previous.accept(batch, outcomes)
    story.finish()
    there = _data(output(story.place.uri, CSV).files)
    for go_on in frozen:
        try:
            go_on()
        except SinkError:
            assert step == "copy_files"
    assert frozen
    result = output(story.place.uri, CSV)
    assert _data(result.files) == there
    story.place.sink().open(epoch=None)
    assert output(story.place.uri, CSV).checkpoint == story.manifests[-1].upto_ts


def test_a_worker_that_is_a_previous_one_writes_no_index_and_no_checkpoint(story: Story) -> None:
    previous = story.place.sink()
    batch, work = story.begin(previous)
    previous.accept(batch, Here().run(work))
    assert isinstance(previous, StorageSink)
    positions = previous._position._store
    assert isinstance(positions, CommitChain)
    last = positions._output.last().commit
    assert last is not None
    story.finish()
    there = output(story.place.uri, CSV).files
    with pytest.raises(OwnershipLost):
        positions._show(last)
    assert output(story.place.uri, CSV).files == there


def test_dates_part_folders_and_never_go_back(story: Story) -> None:
    options = options_of({"protocol": "csv", "csv.include-commit-ts": "true"})
    days = iter([21, 22, 20, 22, 23, 23, 23, 23, 23])

    def sink(log_id: str = "log-1") -> Sink:
        return StorageSink(sink_folder(story.place.uri), options, log_id=log_id, now=lambda: datetime(2026, 11, next(days), tzinfo=UTC))

    delivery = story.delivery(sink(), segments_max=1)
    while delivery.deliver():
        pass
    story.check_end()
    dates = {part for path in output(story.place.uri, CSV).files for part in path.split("/") if part.startswith("2026-")}
    assert dates == {"2026-11-21", "2026-11-22", "2026-11-23"}


def test_a_file_ends_at_file_size_and_few_are_open_at_once(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers without a gap, rows in their order."""
    monkeypatch.setattr(writer, "FILES_OPEN_MAX", 2)
    options = replace(options_of({"protocol": "csv", "csv.include-commit-ts": "true"}), file_bytes=40)
    delivery = story.delivery(StorageSink(sink_folder(story.place.uri), options, log_id="log-1"), segments_max=100)
    while delivery.deliver():
        pass
    story.check_end()
    assert max(int(path.partition("CDC")[2][:20]) for path in output(story.place.uri, CSV).files if path.endswith(".csv")) > 3


def test_an_output_goes_on_as_it_was_begun(story: Story) -> None:
    story.delivery().deliver()
    for change, named in (("&csv.quote=", "csv.quote"), ("&date-separator=month", "date-separator")):
        with pytest.raises(SinkError, match=f"other values of {named}"):
            open_sink(story.place.uri + change, log_id="log-1").look()
    assert (
        open_sink(story.place.uri + "&file-size=2000000&flush-interval=7s&csv.quote=%22&time-zone=UTC", log_id="log-1").look() is not None
    )


def test_a_folder_that_ticdc_wrote_to_is_not_gone_on_with(story: Story, tmp_path: Path) -> None:
    (tmp_path / "out" / "shop").mkdir(parents=True)
    for act in (story.place.sink().look, lambda: story.place.sink().open(epoch=None)):
        with pytest.raises(SinkError, match=r"holds shop, and no output of ours"):
            act()


def test_a_storage_that_is_away_stops_a_batch_and_the_next_opening_goes_on(story: Story, tmp_path: Path) -> None:
    """In its place is something that is no folder: every write fails."""
    delivery = story.delivery(segments_max=1)
    assert delivery.deliver()
    (tmp_path / "out").rename(tmp_path / "away")
    (tmp_path / "out").touch()
    with pytest.raises(SinkError, match="cannot be read or written"):
        delivery.deliver()
    with pytest.raises(SinkError, match="cannot be read or written"):
        story.delivery()
    (tmp_path / "out").unlink()
    (tmp_path / "away").rename(tmp_path / "out")
    story.check_beginning()
    story.finish()
    story.check_end()


def test_a_reader_may_remove_what_it_has_read(story: Story, tmp_path: Path) -> None:
    seen: dict[str, bytes] = {}
    for _ in range(SEGMENTS):
        story.delivery(segments_max=1).deliver()
        result = {path: data for path, data in output(story.place.uri, CSV).files.items() if path.endswith(".csv")}
        assert not result.keys() & seen.keys(), "no number comes twice"
        seen |= result
        storage.remove(sink_folder(story.place.uri), list(result))
    for path, data in seen.items():
        (tmp_path / "out" / path).write_bytes(data)
    story.check_end()


def test_what_neither_is_staged_nor_there_of_an_accepted_batch_stops(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    previous = story.place.sink()
    batch, work = story.begin(previous)
    outcomes = Here().run(work)

    def die(*_: object) -> None:
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(storage, "copy_files", die)
        with pytest.raises(Died):
            previous.accept(batch, outcomes)
    storage.remove(sink_folder(story.place.uri), [one.path for outcome in outcomes for one in outcome.note])
    with pytest.raises(SinkError, match="neither _ticdc_dump/staged/"):
        story.place.sink().open(epoch=None)


def _numbers(place: str, uri: str) -> list[int]:
    return sorted(map(int, storage.list_names(open_folder(f"{uri.partition('?')[0]}/_ticdc_dump/{place}"), deep=False)))


@pytest.fixture
def few_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain, "KEPT", 2)


@pytest.mark.usefixtures("few_commits")
def test_a_file_a_batch_does_not_stay_and_a_number_that_was_removed_lets_no_previous_worker_in(story: Story) -> None:
    previous = story.place.sink()
    batch, work = story.begin(previous)
    outcomes = Here().run(work)
    delivery = story.delivery(segments_max=1)
    assert isinstance(previous, StorageSink)
    positions = previous._position._store
    assert isinstance(positions, CommitChain)
    before, _, names = positions._output.last()
    assert before is not None
    while delivery.deliver():
        commits, heads = (_numbers(place, story.place.uri) for place in ("commits", "heads"))
        assert len(commits) <= 5
        assert (len(heads), commits[-1] - heads[0] < 2) == (1, True)
    assert commits[0] > 2, "the former worker's next number is free"
    with pytest.raises(OwnershipLost):
        positions._check_last(before.number)
    for _ in range(2):
        with pytest.raises(OwnershipLost):
            previous.accept(batch, outcomes)
    positions._output.head(before.number, names)
    assert accepted(story.place.sink()) == SEGMENTS - 1
    story.place.sink().open(epoch=None)
    story.check_end()


@pytest.mark.usefixtures("few_commits")
def test_one_that_reads_while_others_go_on_reads_to_the_end(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    delivery = story.delivery(segments_max=1)
    delivery.deliver()
    reader, read, waiting = story.place.sink(), storage.read_files, [story.finish]

    def slow(place: storage.Folder, names: list[str]) -> dict[str, bytes]:
        while waiting and "/heads/" in names[0]:
            waiting.pop()()
        return read(place, names)

    with monkeypatch.context() as patch:
        patch.setattr(storage, "read_files", slow)
        result = reader.look()
    assert not waiting
    assert result is not None
    assert result.seq == SEGMENTS - 1


def test_an_output_of_version_1_is_gone_on_with(story: Story) -> None:
    story.delivery(segments_max=2).deliver()
    folder = sink_folder(story.place.uri.partition("?")[0])
    (head,) = (f"_ticdc_dump/heads/{number:020d}" for number in _numbers("heads", story.place.uri))
    storage.write_atomically(folder, "_ticdc_dump/head", storage.read_file(folder, head))
    storage.remove(folder, [head])
    identity = storage.read_file(folder, "_ticdc_dump/log")
    storage.write_atomically(folder, "_ticdc_dump/log", identity.replace(b'"version":2', b'"version":1'))
    there = story.place.sink().look()
    assert there is not None
    assert there.seq == 1
    story.finish()
    story.check_end()
    assert storage.read_file(folder, "_ticdc_dump/log") == identity, "an earlier release, which removes nothing, refuses it"


@pytest.mark.parametrize("kept", ["heads", "head"])
def test_commits_that_are_lost_are_not_taken_for_none(story: Story, kept: str) -> None:
    story.delivery().deliver()
    folder = sink_folder(story.place.uri.partition("?")[0])
    if kept == "head":
        (head,) = (f"_ticdc_dump/heads/{number:020d}" for number in _numbers("heads", story.place.uri))
        storage.write_atomically(folder, "_ticdc_dump/head", storage.read_file(folder, head))
        storage.remove(folder, [head])
    storage.remove(folder, [f"_ticdc_dump/commits/{number:020d}" for number in _numbers("commits", story.place.uri)])
    for act in (lambda: story.place.sink().look(), lambda: story.place.sink().open(epoch=None)):
        with pytest.raises(SinkError, match="has no commit of its head's number"):
            act()
