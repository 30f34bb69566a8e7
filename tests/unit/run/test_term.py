"""One term of ownership over a real log folder and fakes of the rest: what it may write, and until when."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from threading import Event

import msgspec
import pytest

from sidecar.adapters.memory.owner import Election, MemoryOwner
from sidecar.adapters.memory.schemas import StillSchemas
from sidecar.config import Config
from sidecar.core.model import Seq
from sidecar.core.progress import DumpState, Progress
from sidecar.errors import LogBroken, OwnershipLost
from sidecar.log import storage
from sidecar.log.identity import CHANGEFEED_NAME, claim_log, known_id
from sidecar.log.layout import is_manifest, read_manifest
from sidecar.log.manifest import Manifest
from sidecar.log.segment_log import FolderLog
from sidecar.log.spill import MemorySpill
from sidecar.log.storage import open_folder
from sidecar.pipeline import Outside, Pipeline
from sidecar.ports import SegmentLog
from sidecar.run.term import Term
from sidecar.ticdc.changefeed import Changefeed, ChangefeedName
from tests.support.changes import put, resolved
from tests.unit.test_pipeline import SCHEMAS, FakeCodec, FakeDeliveries, FakeFeed, Stage, start

SETTINGS = {
    "changefeed": {"id": "orders"},
    "etcd": {"endpoints": ["127.0.0.1:1"]},
    "source": {"host": "h", "user": "u"},
    "sinks": ["console:"],
}


NAME = ChangefeedName("c", "n", "cf")


class ClosingFeed(FakeFeed):
    closed = False

    def close(self) -> None:
        self.closed = True


class Life:
    """A process that won the changefeed. Another `incarnation` makes the log another's. `told`: what the merge worker's report
    says when it begins."""

    def __init__(self, folder: Path, election: Election, *, incarnation: str = "1", told: Seq | None = None) -> None:
        self.stage = Stage()
        self.feed = ClosingFeed(self.stage.notes)
        self.owner = MemoryOwner(election)
        self.deliveries = FakeDeliveries()
        self.deliveries.seq = told
        self.folder = open_folder(str(folder))
        epoch = self.owner.acquire(timeout_s=0)
        assert epoch is not None
        config = msgspec.convert(SETTINGS | {"log": {"uri": str(folder)}}, Config)
        self.term = Term(config, Changefeed(NAME, incarnation, "custom://x"), self.owner, epoch=epoch)

    def begin(self) -> None:
        self.term.begin(self.opening)

    def opening(self, segments: SegmentLog, opened: ExitStack) -> Outside:
        opened.callback(self.feed.close)
        return Outside(
            feed=self.feed,
            codec=FakeCodec(self.feed),
            log=segments,
            source=self.stage.source,
            schemas=StillSchemas(SCHEMAS),
            progress=self.stage.stored,
            requests=self.stage.requests,
            clock=self.stage.clock,
            spill=MemorySpill(),
            deliveries=self.deliveries,
        )

    def run(self, *, steps: int, each: Callable[[int], None] = lambda step: None) -> None:
        stopping, done = Event(), 0

        def seen(pipeline: Pipeline, now_s: float) -> None:
            nonlocal done
            done += 1
            each(done)
            if done >= steps:
                stopping.set()

        self.term.run(stopping, seen)

    def manifests(self) -> list[Manifest]:
        names = [name for name in storage.list_names(self.folder, deep=False) if is_manifest(name)]
        return [read_manifest(self.folder, name, storage.read_file(self.folder, name)) for name in names]


def test_a_term_writes_what_its_feed_resolves_and_closes_what_it_opened(tmp_path: Path) -> None:
    life = Life(tmp_path / "log", Election())
    life.begin()
    life.feed.say(put(5, "x"), resolved(10))
    life.run(steps=2)
    assert [manifest.rows for manifest in life.manifests()] == [1]
    life.term.close()
    assert life.feed.closed


def test_a_term_whose_lease_ran_out_writes_nothing_more(tmp_path: Path) -> None:
    election = Election()
    life = Life(tmp_path / "log", election)
    life.begin()

    def expire(step: int) -> None:
        life.feed.say(put(step * 10, "x"), resolved(step * 10 + 5))
        if step == 2:
            election.expire()

    with pytest.raises(OwnershipLost, match="may not write any more"):
        life.run(steps=9, each=expire)
    assert len(life.manifests()) == 1


def test_a_lease_that_runs_out_within_a_step_keeps_the_manifest_from_being_written(tmp_path: Path) -> None:
    election = Election()
    life = Life(tmp_path / "log", election)
    life.begin()
    life.feed.say(put(5, "x"), resolved(10))
    election.expire()
    with pytest.raises(OwnershipLost):
        life.term.pipeline.step(poll_s=0)
    assert life.manifests() == []


@pytest.mark.parametrize(("expired", "raised"), [(True, OwnershipLost), (False, LogBroken)])
def test_a_file_that_is_gone_is_the_next_owners_doing_once_the_lease_ran_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expired: bool, raised: type[Exception]
) -> None:
    """A process that slept amid a write finds its file swept: it becomes a standby, and does not end for a broken log."""
    election = Election()
    life = Life(tmp_path / "log", election)
    life.begin()
    life.feed.say(put(5, "x"), resolved(10))

    def swept(*_: object, **__: object) -> None:
        if expired:
            election.expire()
        raise LogBroken("a file is gone", hint="restore it")

    monkeypatch.setattr(FolderLog, "write_data", swept)
    with pytest.raises(raised, match="a file is gone"):
        life.run(steps=1)


def test_a_new_owner_writes_its_first_segment_at_once_even_an_empty_one(tmp_path: Path) -> None:
    election = Election()
    first = Life(tmp_path / "log", election)
    first.begin()
    first.feed.say(put(5, "x"), resolved(10))
    first.run(steps=1)
    election.expire()
    second = Life(tmp_path / "log", election)
    second.feed.say(put(5, "x"), resolved(10))
    second.feed.say(resolved(12))
    second.begin()
    second.run(steps=1)
    assert [(manifest.epoch, manifest.rows) for manifest in second.manifests()] == [(1, 1), (2, 0)]


def test_the_log_of_another_changefeed_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    election = Election()
    life = Life(tmp_path / "log", election)
    life.begin()
    election.expire()
    other = Life(tmp_path / "log", election, incarnation="2")
    with pytest.raises(LogBroken, match=r"is of changefeed c/n/cf/1, and this sidecar serves c/n/cf/2"):
        other.begin()
    assert storage.read_file(life.folder, CHANGEFEED_NAME) == b"c/n/cf/1"
    assert claim_log(life.folder, "c/n/cf/1") == known_id(life.folder)


def test_a_new_log_does_not_go_on_with_the_dump_of_the_old_one_and_the_old_one_does(tmp_path: Path) -> None:
    """`log.uri` is set to a new folder in the middle of a dump, and back."""
    election = Election()
    first = Life(tmp_path / "one", election)
    first.begin()
    first.stage.requests.waiting.append(start())
    first.feed.say(put(5, "x"), resolved(10))
    first.run(steps=1)

    def next_life(log: str) -> Progress:
        election.expire()
        life = Life(tmp_path / log, election)
        life.stage.stored = first.stage.stored
        life.begin()
        found = first.stage.stored.load()
        assert found is not None
        assert found.log == known_id(life.folder)
        return found

    assert next_life("two").state is DumpState.FAILED
    assert next_life("one").state is DumpState.RUNNING
    assert next_life("two").state is DumpState.FAILED


def test_what_every_sink_has_accepted_is_retained_away_but_the_last(tmp_path: Path) -> None:
    life = Life(tmp_path / "log", Election())
    life.begin()

    def deliver(step: int) -> None:
        life.feed.say(put(step * 10, "x"), resolved(step * 10 + 5))
        life.stage.clock.time_s += 20.0
        life.deliveries.seq = Seq(step - 2) if step > 1 else None

    life.run(steps=8, each=deliver)
    kept = [manifest.seq for manifest in life.manifests()]
    assert kept[-1] == 6
    assert kept[0] >= 3
    assert kept == list(range(kept[0], 7))


def test_nothing_is_retained_away_by_what_a_former_term_was_told(tmp_path: Path) -> None:
    """The settings may name another sink now, which has accepted nothing yet."""
    election = Election()
    first = Life(tmp_path / "log", election)
    first.begin()

    def write(life: Life) -> Callable[[int], None]:
        def each(step: int) -> None:
            life.feed.say(put(step * 10, "x"), resolved(step * 10 + 5))
            life.stage.clock.time_s += 20.0

        return each

    first.run(steps=6, each=write(first))
    election.expire()
    second = Life(tmp_path / "log", election, told=Seq(4))
    second.begin()
    second.run(steps=2, each=write(second))
    assert second.manifests()[0].seq == 0
    second.deliveries.seq = Seq(3)
    second.run(steps=2, each=write(second))
    assert second.manifests()[0].seq == 3


@pytest.mark.parametrize("part", ["keeper of the lease", "source", "feed"])
def test_an_unknown_error_of_what_runs_beside_it_ends_the_term_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    def breaks(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a defect")

    life = Life(tmp_path / "log", Election())
    life.begin()
    life.run(steps=1)
    place = {"keeper of the lease": (life.owner, "held"), "source": (life.stage.source, "results"), "feed": (life.feed, "poll")}[part]
    monkeypatch.setattr(*place, breaks)
    with pytest.raises(ZeroDivisionError):
        life.run(steps=2)


def test_nothing_is_retained_away_without_the_lease(tmp_path: Path) -> None:
    election = Election()
    life = Life(tmp_path / "log", election)
    life.begin()
    election.expire()
    with pytest.raises(OwnershipLost):
        life.term._log.retain(delivered=Seq(5), open_from=None)
