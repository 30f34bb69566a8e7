"""One term of ownership over a real log folder and fakes of the rest: what it may write, and until when."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from threading import Event
from unittest.mock import Mock

import msgspec
import pytest

from sidecar.adapters.memory.owner import Election, MemoryOwner
from sidecar.adapters.memory.schemas import StillSchemas
from sidecar.pipeline import Outside, Pipeline
from sidecar.ports import SegmentLog
from sidecar.run import term
from sidecar.run.gc_hold import DDLS, VERIFICATIONS, TsoReads
from sidecar.run.term import Term
from sidecar.shared.config import Config
from sidecar.shared.errors import FeedError, LogBroken, MessageUnreadable, OwnershipLost, StorageFull
from sidecar.shared.log import segment_log, storage
from sidecar.shared.log.identity import CHANGEFEED_NAME, claim_log, known_id
from sidecar.shared.log.layout import is_manifest, read_manifest
from sidecar.shared.log.manifest import Manifest
from sidecar.shared.log.parked import Parked, StoppedAt
from sidecar.shared.log.reserve import RESERVE_NAME
from sidecar.shared.log.segment_log import FolderLog
from sidecar.shared.log.spill import MemorySpill
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.nouns import Lane, Seq
from sidecar.shared.model.progress import DumpState, Progress
from sidecar.shared.model.sink_delivery import ReportTimes, SinkDelivery
from sidecar.shared.ticdc.changefeed import Changefeed, ChangefeedName
from tests.support.changes import put, resolved
from tests.support.volumes import small_volume
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
    had_at_close = False
    at_close: Callable[[], bool] = staticmethod(lambda: False)

    def close(self) -> None:
        self.closed, self.had_at_close = True, self.at_close()


class Reports(FakeDeliveries):
    """A merge worker's reports, none at first. `coming`: what it reports as soon as it is asked once more."""

    def __init__(self) -> None:
        super().__init__()
        self.last: ReportTimes | None = None
        self.coming: list[tuple[int, int]] = []

    def report(self, seq: int, *, epoch: int) -> None:
        self.seq = Seq(seq)
        self.last = ReportTimes(self.last.written_ms + 1 if self.last else 1, 0.0, epoch=epoch, accepted=self.seq)

    def report_times(self) -> ReportTimes | None:  # type: ignore[override]  # of a file that a worker writes
        report_times = self.last
        if self.coming:
            seq, epoch = self.coming.pop(0)
            self.report(seq, epoch=epoch)
        return report_times

    def sinks(self) -> tuple[SinkDelivery, ...]:
        return (SinkDelivery("file:///out", self.seq, error="it is away"),) if self.last else ()


class Life:
    """A process that won the changefeed. Another `incarnation` makes the log another's. `reports`: of the worker, as they stand; `kept`:
    the epoch of a worker that an earlier term has left."""

    def __init__(
        self,
        folder: Path,
        election: Election,
        *,
        incarnation: str = "1",
        reports: Reports | None = None,
        kept: int | None = None,
        retain: bool = True,
        managed: bool = True,
        sinks: tuple[str, ...] = (),
    ) -> None:
        self.stage = Stage()
        self.feed = ClosingFeed(self.stage.notes)
        self.owner = MemoryOwner(election)
        self.deliveries = reports or Reports()
        self.folder = open_folder(str(folder))
        epoch = self.owner.acquire(timeout_s=0)
        assert epoch is not None
        config = msgspec.convert(SETTINGS | {"log": {"uri": str(folder), "retain": retain}, "spark": {"managed": managed}}, Config)
        changefeed = Changefeed(NAME, incarnation, "custom://x")
        self.term = Term(config, changefeed, self.owner, self.deliveries, epoch=epoch, worker_epoch=kept)
        self.term.sinks = sinks

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


@pytest.mark.parametrize("call", ["recover", "write_data", "retain"])
@pytest.mark.parametrize(("expired", "raised"), [(True, OwnershipLost), (False, LogBroken)])
def test_a_file_that_is_gone_is_the_next_owners_doing_once_the_lease_ran_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expired: bool, raised: type[Exception], call: str
) -> None:
    """A process that slept amid a write finds its file swept: it becomes a standby, and does not end for a broken log."""
    election = Election()
    reports = Reports()
    life = Life(tmp_path / "log", election, reports=reports)
    life.begin()
    reports.report(0, epoch=life.term.epoch)
    life.feed.say(put(5, "x"), resolved(10))

    def swept(*_: object, **__: object) -> None:
        if expired:
            election.expire()
        raise LogBroken("a file is gone", hint="restore it")

    monkeypatch.setattr(FolderLog, call, swept)
    with pytest.raises(raised, match="a file is gone"):
        life.begin() if call == "recover" else life.run(steps=1)


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
        (progress,) = first.stage.stored.load()
        assert progress.log == known_id(life.folder)
        return progress

    assert next_life("two").state is DumpState.FAILED
    assert next_life("one").state is DumpState.RUNNING
    assert next_life("two").state is DumpState.FAILED


def test_a_dump_whose_sink_has_another_name_since_the_last_start_fails_and_is_in_the_history(tmp_path: Path) -> None:
    election = Election()
    first = Life(tmp_path / "log", election, sinks=("old", "lake"))
    first.begin()
    first.stage.requests.waiting.append(replace(start(), sinks=("old",)))
    first.feed.say(put(5, "x"), resolved(10))
    first.run(steps=1)
    election.expire()
    second = Life(tmp_path / "log", election, sinks=("new", "lake"))
    second.stage.stored = first.stage.stored
    second.begin()
    (progress,) = first.stage.stored.load()
    assert progress.state is DumpState.FAILED
    assert "is for old, and no sink has that name now: the sinks are lake, new" in str(progress.reason)
    (entry,) = first.stage.stored.history.entries()
    assert entry.state is DumpState.FAILED
    assert "no sink has that name now" in entry.result


def test_what_every_sink_has_accepted_is_retained_away_but_the_last(tmp_path: Path) -> None:
    life = Life(tmp_path / "log", Election())
    life.begin()

    def deliver(step: int) -> None:
        life.feed.say(put(step * 10, "x"), resolved(step * 10 + 5))
        life.stage.clock.time_s += 20.0
        if step > 1:
            life.deliveries.report(step - 2, epoch=life.term.epoch)

    life.run(steps=8, each=deliver)
    kept = [manifest.seq for manifest in life.manifests()]
    assert kept[-1] == 6
    assert kept[0] >= 3
    assert kept == list(range(kept[0], 7))


@pytest.mark.parametrize(("who", "first"), [("kept_from", 2), ("collected", 3)])
def test_what_a_verification_or_a_certificate_is_still_to_read_is_not_retained_away(tmp_path: Path, who: str, first: int) -> None:
    life = Life(tmp_path / "log", Election())
    life.begin()
    life.run(steps=8, each=writes(life))
    setattr(life.term, who, lambda: Seq(first))
    life.deliveries.report(5, epoch=life.term.epoch)
    life.run(steps=2, each=writes(life))
    assert life.manifests()[0].seq == first
    setattr(life.term, who, lambda: None)
    life.run(steps=2, each=writes(life))
    assert life.manifests()[0].seq == 5


def test_what_is_read_as_of_a_moment_is_noted_while_the_term_runs(tmp_path: Path) -> None:
    life = Life(tmp_path / "log", Election())
    life.begin()
    life.run(steps=4, each=writes(life))
    assert life.term.reads == TsoReads(life.term.pipeline.sequence.after_ts, (DDLS,))
    life.term.kept_from = lambda: Seq(2)
    life.run(steps=2, each=writes(life))
    assert life.term.reads == TsoReads(life.term.pipeline.sequence.after_ts, (DDLS,), {VERIFICATIONS: Seq(2)})


def writes(life: Life, *values: str) -> Callable[[int], None]:
    """Rows in each step, in a segment of their own."""

    def each(_: int) -> None:
        ts = life.term.pipeline.next_seq * 10 + 20
        life.feed.say(*(put(ts, value) for value in values or ("x",)), resolved(ts + 5))
        life.stage.clock.time_s += 20.0

    return each


@pytest.mark.parametrize("managed", [True, False])
def test_nothing_is_retained_away_by_what_was_reported_before_the_term(tmp_path: Path, managed: bool) -> None:
    """The settings may name another sink now, which has accepted nothing yet. The same position counts once it is reported again."""
    election = Election()
    first = Life(tmp_path / "log", election)
    first.begin()
    first.run(steps=6, each=writes(first))
    first.deliveries.report(4, epoch=2)  # by its epoch it could be the next term's
    election.expire()
    second = Life(tmp_path / "log", election, reports=first.deliveries, managed=managed)
    assert second.term.epoch == 2
    second.begin()
    second.run(steps=3, each=writes(second))
    assert second.manifests()[0].seq == 0
    second.deliveries.report(4, epoch=2 if managed else 0)
    second.run(steps=2, each=writes(second))
    assert second.manifests()[0].seq == 4


def test_the_report_of_another_owners_worker_removes_nothing(tmp_path: Path) -> None:
    """A worker of a former process may live on for a moment, and its sinks may be others. One that a term of this process has kept
    counts."""
    election = Election()
    first = Life(tmp_path / "log", election)
    first.begin()
    first.run(steps=6, each=writes(first))
    election.expire()
    second = Life(tmp_path / "log", election, kept=7)
    second.begin()
    for epoch, kept in ((1, 0), (8, 0), (7, 3)):
        second.deliveries.report(3, epoch=epoch)
        second.run(steps=2, each=writes(second))
        assert second.manifests()[0].seq == kept


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


# ---- no room --------------------------------------------------------------------------------------------------------


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_volume(tmp_path / "disk", size="3m") as volume:
        yield volume


def fill_up(life: Life) -> str:
    """Run until the term ends because the volume is full; its error."""
    with pytest.raises(StorageFull) as full:
        life.run(steps=1_000, each=lambda step: writes(life, os.urandom(30_000).hex(), os.urandom(30_000).hex())(step))
    life.term.close()
    return str(full.value)


def next_life(disk: Path, election: Election, before: Life, *, retain: bool = True) -> Life:
    """The next term of the same process, which has kept the worker of the first one."""
    election.expire()
    return Life(disk, election, reports=before.deliveries, kept=1, retain=retain)


def test_on_a_full_volume_retention_makes_room_before_anything_is_written(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_log, "MANIFESTS_READ_MAX", 2)
    monkeypatch.setattr(segment_log, "SEGMENTS_REMOVED_MAX", 2)
    election = Election()
    first = Life(disk, election)
    first.begin()
    assert (disk / RESERVE_NAME).exists()
    first.feed.at_close = (disk / RESERVE_NAME).exists
    fill_up(first)
    assert first.feed.had_at_close, "what may still write must not take it"
    assert not (disk / RESERVE_NAME).exists()
    last = first.manifests()[-1].seq
    first.deliveries.report(last, epoch=1)  # and so again, from then on: the sinks have accepted everything
    second = next_life(disk, election, first)
    second.deliveries.coming = [(last, 1), (last, 1)]
    second.term.make_room(Event())
    assert [manifest.seq for manifest in second.manifests()] == [last]
    second.begin()
    assert (disk / RESERVE_NAME).exists()
    second.run(steps=3, each=writes(second))
    second.term.close()
    assert (disk / RESERVE_NAME).exists()
    assert second.manifests()[-1].seq > last


def test_a_report_from_before_the_term_makes_no_room(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(term, "REPORTED_WAIT_S", 0.1)
    election = Election()
    first = Life(disk, election)
    first.begin()
    fill_up(first)
    written = first.manifests()
    first.deliveries.report(written[-1].seq, epoch=1)
    second = next_life(disk, election, first)
    second.term.make_room(Event())
    assert second.manifests() == written


def test_the_error_of_a_full_volume_says_where_the_log_and_the_sinks_are_and_what_can_be_done(disk: Path) -> None:
    election = Election()
    first = Life(disk, election)
    first.begin()
    not_reported = fill_up(first)
    last = first.manifests()[-1].seq
    assert f"no room left in file://{disk}" in not_reported
    assert f"of the volume's {3 << 20} bytes are free" in not_reported
    assert f"the log has segments 0 to {last}; the merge worker has not reported" in not_reported

    def once_more(*, retain: bool) -> str:
        life = next_life(disk, election, first, retain=retain)
        life.deliveries.report(2, epoch=1)
        life.begin()
        return fill_up(life)

    behind = once_more(retain=True)
    assert "sink file:///out has accepted up to 2" in behind
    assert "mend that sink (it is away); or make room on the volume" in behind
    assert "log.retain is false: none is removed" in once_more(retain=False)


def test_no_room_elsewhere_leaves_the_reserve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    life = Life(tmp_path / "log", Election())
    life.begin()

    def spill(**_: object) -> bool:
        raise StorageFull("no room left in /tmp", hint="make room", place="/tmp")

    monkeypatch.setattr(life.term.pipeline, "step", spill)
    with pytest.raises(StorageFull, match=r"^no room left in /tmp\n"):
        life.run(steps=1)
    life.term.close()
    assert (tmp_path / "log" / RESERVE_NAME).exists()


def test_a_previous_owner_leaves_the_next_ones_reserve(disk: Path) -> None:
    election = Election()
    life = Life(disk, election)
    life.begin()
    with pytest.raises(StorageFull):
        life.run(steps=1_000, each=lambda step: writes(life, os.urandom(60_000).hex())(step))
    election.expire()
    life.term.close()
    assert (disk / RESERVE_NAME).exists()


class Kept:
    """As Parking: keeps the message that an error names, if it knows it."""

    def __init__(self, known: bool) -> None:
        self.known, self.stops = known, list[FeedError]()
        self.passed: Callable[[Parked], object] = lambda _: None

    def note_stop(self, error: FeedError, now_ms: int) -> StoppedAt | None:
        self.stops.append(error)
        return StoppedAt(Lane("a"), 0, None, None, error.message, now_ms) if self.known else None


@pytest.mark.parametrize("known", [True, False])
def test_a_message_that_stops_the_term_is_kept_and_the_error_says_how_to_pass_it(tmp_path: Path, known: bool) -> None:
    life = Life(tmp_path / "log", Election())
    life.begin()
    life.term.parking = kept = Kept(known)
    error = MessageUnreadable("message a@0: expected a row", hint="mend it")
    life.term.pipeline.outside = replace(life.term.pipeline.outside, codec=Mock(envelopes=Mock(side_effect=error)))
    life.feed.say(put(5, "x"))
    with pytest.raises(MessageUnreadable, match="expected a row") as raised:
        life.run(steps=2)
    assert kept.stops == [error]
    assert ("ticdc-dump park" in raised.value.hint) is known
    assert raised.value.hint.startswith("mend it")
