"""Certificates of a term: what is collected of a dump, what is kept over the death of the follower, and when a dump gets none."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.run import certifying
from sidecar.run.certifying import ACCEPT_WAIT_S, HOLD_MAX_S, SAVE_S, TermCertificates
from sidecar.run.collecting import ReadSegment
from sidecar.run.followed_log import FollowedLog
from sidecar.shared.errors import LogBroken, LogUnreachable, OwnershipLost
from sidecar.shared.log import storage
from sidecar.shared.log.certificate import SegmentLine
from sidecar.shared.log.certificate_parts import collected, read_parts, remove_parts
from sidecar.shared.log.dump_files import CERTIFICATES
from sidecar.shared.log.identity import claim_log, own_id
from sidecar.shared.log.layout import chunk_name, manifest_name, read_manifest
from sidecar.shared.log.manifest import Manifest
from sidecar.shared.log.segment_log import FolderLog
from sidecar.shared.log.sink_tables import write_sink_tables
from sidecar.shared.model.hole import Hole, HoleCause, OpenHole
from sidecar.shared.model.nouns import CommitTs, OperationId, Seq, TableName
from sidecar.shared.model.progress import DumpState, Progress
from sidecar.shared.model.sink_delivery import BatchDone, SinkTables
from tests.unit.run.followed_dumps import DUMP, OTHER, T, U, World, batch


@pytest.fixture
def world(tmp_path: Path) -> World:
    result = World(tmp_path / "log")
    result.records(DumpState.RUNNING)
    return result


def test_a_finished_dump_has_a_certificate_of_its_chunks_and_segments(world: World) -> None:
    world.segment()
    world.segment(world.window(T, U))
    world.segment()
    world.segment(world.window(T, first=2))
    world.segment()
    world.step()
    result = world.finish()
    assert [line["seq"] for line in result["segments"]] == [1, 2, 3]
    assert [line["sha256"] for line in result["segments"]] == [world.sum_of(seq) for seq in (1, 2, 3)]
    assert [line["previous"] for line in result["segments"]] == [world.sum_of(seq) for seq in (0, 1, 2)]
    assert [(line["seq"], line["table"], line["path"], line["sha256"]) for line in result["chunks"]] == [
        (1, "orders", chunk_name(DUMP, epoch=1, number=1), "of it"),
        (1, "items", chunk_name(DUMP, epoch=1, number=2), "of it"),
        (3, "orders", chunk_name(DUMP, epoch=1, number=3), "of it"),
    ]
    assert [(line["table"], line["columns"], line["key"]) for line in result["tables"]] == [
        ("orders", [["id", "int", False, -1, 0, []]], ["id"]),
        ("items", [["id", "int", False, -1, 0, []]], ["id"]),
    ]
    assert (result["first_seq"], result["last_seq"], result["chunk_count"], result["rows_sum_count"]) == (1, 3, 3, 0)
    assert (result["cluster_id"], result["asked_by"]["name"], result["started_ms"]) == ("7", "certificate alice", 5)
    assert {one["table"]: (one["chunks"], one["rows"]) for one in result["rows"]} == {"orders": (2, 20), "items": (1, 10)}
    assert [(one["table"], one["whole"]) for one in result["scope"]["tables"]] == [("orders", True), ("items", True)]
    assert world.reported("certificate written") == [""]
    assert not collected(world.log)


def test_the_certificate_comes_when_the_sinks_have_the_last_window(world: World) -> None:
    world.segment(world.window())
    world.segment(world.window())
    world.reports.say(0)
    world.reports.say(1, sink="other")
    world.step()
    world.records(DumpState.FINISHED)
    world.step()
    world.step()
    assert not CERTIFICATES.ids(world.log)
    world.reports.say(1)
    world.step(0)
    assert world.certificate()["accepted"] == [
        {"sink": "other", "seq": 1, "upto_ts": "20"},
        {"sink": "copy", "seq": 1, "upto_ts": "20"},
    ]


def test_one_manifest_of_a_backlog_is_decoded_at_a_time(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a dump of 10,000 tables, 64 of them would take hundreds of megabytes."""
    for _ in range(100):
        world.segment()
    decoded, at_once = list[Seq](), list[int]()

    def reading(*args: Any) -> Manifest:
        manifest = read_manifest(*args)
        decoded.append(manifest.seq)
        return manifest

    def passing(self: TermCertificates, segment: ReadSegment) -> None:
        at_once.append(len(decoded))
        decoded.clear()
        passed(self, segment)

    passed = TermCertificates._pass
    monkeypatch.setattr("sidecar.shared.log.manifests.read_manifest", reading)
    monkeypatch.setattr(TermCertificates, "_pass", passing)
    world.step()
    assert at_once == [1] * 100


def test_a_sink_that_does_not_receive_the_dump_is_not_waited_for(world: World) -> None:
    world.segment(world.window(sinks=("copy",)))
    world.reports.say(0)
    world.reports.say(-1, sink="other")
    world.records(DumpState.FINISHED)
    world.step()
    world.step()
    assert [one["sink"] for one in world.certificate()["accepted"]] == ["copy"]
    assert world.certificate()["scope"]["sinks"] == ["copy"]


def test_a_window_that_began_before_the_first_one_has_its_segments_too(world: World) -> None:
    for _ in range(4):
        world.segment()
    world.segment(world.window(first=3))
    world.step(SAVE_S)
    world.segment(world.window(first=1))
    assert [line["seq"] for line in world.finish()["segments"]] == [1, 2, 3, 4, 5]


def test_retention_waits_for_what_is_not_in_a_part(world: World) -> None:
    assert world.made.collected() == -1
    world.segment()
    world.segment()
    world.step()
    assert world.made.collected() == 1, "no dump is collected"
    world.segment(world.window(first=1))
    world.step(1.0)
    world.segment()
    world.step(1.0)
    assert world.made.collected() == 1
    world.step(SAVE_S)
    assert world.made.collected() == 3
    assert [line.seq for line in read_parts(world.log, world.epoch, DUMP) if isinstance(line, SegmentLine)] == [1, 2, 3]


def test_the_next_follower_continues_where_the_parts_end_and_retention_may_have_removed_what_they_have(world: World) -> None:
    for _ in range(3):
        world.segment(world.window())
    world.step(SAVE_S)
    sums = [world.sum_of(seq) for seq in range(3)]
    world.segment(world.window())
    world.step(1.0)  # which is lost with this follower
    world.owner.retain(delivered=Seq(world.made.collected() or 0), open_from=None)
    assert not storage.exists(world.log, manifest_name(Seq(1)))
    world.follower()
    assert world.made.collected() == -1
    world.segment(world.window(U))
    result = world.finish()
    assert [line["sha256"] for line in result["segments"]] == [*sums, world.sum_of(3), world.sum_of(4)]
    assert result["chunk_count"] == 5
    assert [line["table"] for line in result["tables"]] == ["orders", "items"]


def test_a_follower_that_dies_after_the_certificate_was_written_leaves_it_as_it_is(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.segment(world.window())
    world.step(SAVE_S)
    world.records(DumpState.FINISHED)
    world.step()

    def away(*_: object) -> None:
        raise LogUnreachable("away", hint="wait")

    with monkeypatch.context() as patch:
        patch.setattr(certifying, "remove_parts", away)
        for _ in range(2):
            with pytest.raises(LogUnreachable):
                world.step(ACCEPT_WAIT_S)
    written = storage.read_file(world.log, f"certificates/{DUMP}.json")
    world.reports.say(0)
    assert collected(world.log) == [DUMP]
    world.follower()
    world.step()
    assert storage.read_file(world.log, f"certificates/{DUMP}.json") == written
    assert not collected(world.log)
    assert world.reported("certificate written") == [""]


def test_a_dump_that_was_under_way_before_has_no_certificate(world: World) -> None:
    world.counts[DUMP] = {T: 1}
    world.segment(world.window())
    world.segment(world.window())
    world.records(DumpState.FINISHED)
    world.step(SAVE_S)
    world.step(ACCEPT_WAIT_S)
    assert not CERTIFICATES.ids(world.log)
    assert world.reported("no certificate") == ["its first windows closed before segment 0, where this version began to follow it"]
    assert world.made.collected() == 1


def test_a_dump_of_which_chunks_are_missing_has_no_certificate(world: World) -> None:
    world.segment(world.window())
    world.step()
    world.records(DumpState.FINISHED, chunks=2)
    world.step()
    world.step(ACCEPT_WAIT_S)
    assert not CERTIFICATES.ids(world.log)
    assert world.reported("no certificate") == ["1 of its 2 chunks were collected"]


def test_a_stopped_dump_has_none_and_its_parts_are_removed(world: World) -> None:
    world.segment(world.window())
    world.step(SAVE_S)
    assert collected(world.log) == [DUMP]
    world.records(DumpState.STOPPED)
    world.step()
    assert not collected(world.log)
    assert not CERTIFICATES.ids(world.log)
    assert world.reported("no certificate") == [], "nobody expects one"


def test_a_failed_dump_is_collected_until_the_log_knows_it_no_more(world: World) -> None:
    world.segment(world.window())
    world.step(SAVE_S)
    world.records(DumpState.FAILED)
    world.segment()
    world.step(SAVE_S)
    assert collected(world.log) == [DUMP]
    world.segment(known=OTHER)
    world.step()
    assert not collected(world.log)


def test_a_failed_dump_that_was_resumed_has_a_whole_certificate(world: World) -> None:
    world.segment(world.window())
    world.records(DumpState.FAILED)
    world.step(SAVE_S)
    world.segment()
    world.segment(world.window())
    assert [line["seq"] for line in world.finish()["segments"]] == [0, 1, 2]


def knows_both(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The progress of one is that of the other."""
    world.segment()
    progress = world.made._followed.dump_of(world.segment(known=DUMP), DUMP)
    assert progress is not None
    monkeypatch.setattr(FollowedLog, "dump_of", lambda _, manifest, dump_id: replace(progress, dump_id=dump_id))


def test_two_dumps_at_once_have_a_certificate_each(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    knows_both(world, monkeypatch)
    world.records(DumpState.RUNNING, OTHER)
    world.segment(world.window(T), world.window(U, dump=OTHER))
    world.segment(world.window(U))
    world.segment(world.window(T, dump=OTHER))
    assert [(line["table"], line["seq"]) for line in world.finish()["chunks"]] == [("orders", 2), ("items", 3)]
    result = world.finish(OTHER)
    assert [(line["table"], line["seq"]) for line in result["chunks"]] == [("items", 2), ("orders", 4)]
    assert [line["seq"] for line in result["segments"]] == [2, 3, 4]


# ---- dropped rows ---------------------------------------------------------------------------------------------------------


def dropped(world: World) -> dict[str, int | None]:
    return {one["table"]: one["dropped"] for one in world.finish()["rows"]}


def test_dropped_rows_are_those_of_the_batches_that_have_the_dump(world: World) -> None:
    world.segment()
    world.segment(world.window(T, U))
    world.step(SAVE_S)
    world.reports.say(1, batch(0, 0, {T: 100}), batch(1, 1, {T: 3}))
    world.step(SAVE_S)
    world.follower()
    world.segment(world.window(T))
    world.segment()
    world.reports.say(3, batch(1, 1, {T: 3}), batch(2, 3, {T: 4, TableName("shop", "none"): 50}))
    world.step()
    assert dropped(world) == {"orders": 7, "items": 0}


@pytest.mark.parametrize(
    "reported",
    [
        [batch(0, 0, {T: 1})],
        [batch(0, 1, None), batch(2, 2, {T: 1})],
        [batch(0, 1, {T: 1}), batch(1, 2, {T: 1})],
        [batch(1, 2, {T: 1})],
    ],
    ids=["a batch that nobody reported", "an earlier worker", "a sink that went back", "a batch from behind the first window"],
)
def test_dropped_rows_that_are_not_known_are_null(world: World, reported: list[BatchDone]) -> None:
    for _ in range(3):
        world.segment(world.window(T))
    world.step()
    world.reports.say(2, *reported)
    world.step()
    assert dropped(world) == {"orders": None}


def test_rows_that_may_be_another_dumps_are_not_counted(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    knows_both(world, monkeypatch)
    world.segment(world.window(T, U), world.window(T, dump=OTHER))
    world.step()
    world.reports.say(2, batch(0, 2, {T: 3, U: 4}))
    world.step()
    assert dropped(world) == {"orders": None, "items": 4}


def test_sinks_that_do_not_agree_say_nothing(world: World) -> None:
    world.segment(world.window(T, U))
    world.step()
    world.reports.say(0, batch(0, 0, {T: 1, U: 2}))
    world.reports.say(0, batch(0, 0, {T: 1, U: 3}), sink="other")
    world.step()
    assert dropped(world) == {"orders": 1, "items": None}


# ---- what goes wrong ------------------------------------------------------------------------------------------------------


def test_a_log_that_was_restored_under_a_dump_gives_it_no_certificate(world: World) -> None:
    world.segment(world.window())
    world.segment()
    world.step(SAVE_S)
    storage.remove(world.log, [manifest_name(Seq(1))])
    world.owner = FolderLog(world.log)
    world.owner.recover(epoch=2)
    world.next = 1
    world.segment(known=None)
    world.segment()
    world.follower()
    world.step()
    assert world.reported("no certificate") == ["segment 2 does not follow the segment 1 that was collected"]
    assert not collected(world.log)


def test_segments_that_were_removed_before_they_were_collected_give_it_no_certificate(world: World) -> None:
    for _ in range(2):
        world.segment(world.window())
    world.step(SAVE_S)
    for _ in range(4):
        world.segment()
    world.owner.retain(delivered=Seq(5), open_from=None)
    world.follower()
    world.step()
    assert world.reported("no certificate") == ["its parts come to segment 1, and the log has segments 5 to 5"]
    assert world.made.collected() == 5


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_segments_that_are_removed_unread_stop_no_later_certificate(world: World, missing: int) -> None:
    """As on a full volume. The dump had its last window before them, or `missing` ones among them; another one begins after them."""
    world.segment(world.window())
    world.step(SAVE_S)
    for number in range(3):
        world.segment(*([world.window()] if number < missing else []))
    world.records(DumpState.FINISHED if missing < 2 else DumpState.RUNNING, chunks=1 + missing)
    world.reports.say(3)
    world.owner.retain(delivered=Seq(3), open_from=None)
    removed = [seq for seq in range(1, 4) if not storage.exists(world.log, manifest_name(Seq(seq)))]
    assert removed == [1, 2]
    world.step()
    whole = "1 of its 2 chunks were collected" if missing == 1 else "segments 1 to 2 were removed before they were read"
    assert world.reported("no certificate") == ([] if missing == 0 else [whole])
    assert CERTIFICATES.ids(world.log) == ([DUMP] if missing == 0 else [])
    world.segment(world.window(dump=OTHER), known=OTHER)
    world.reports.say(4)
    assert [line["seq"] for line in world.finish(OTHER)["segments"]] == [4]
    assert world.made.collected() == 4


def test_a_storage_that_is_away_is_tried_again_and_nothing_is_lost(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.segment(world.window())
    world.segment(world.window())
    calls = 0
    kept = storage.read_files

    def sometimes(*arguments: Any) -> dict[str, bytes]:
        nonlocal calls
        calls += 1
        if calls % 2:
            raise storage.log_error("log", "", storage.Unreachable(5, "away", "log"))
        return kept(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(storage, "read_files", sometimes)
        for _ in range(12):
            try:
                world.step(SAVE_S)
            except LogUnreachable:
                continue
    assert [line["seq"] for line in world.finish()["segments"]] == [0, 1]


def test_a_storage_that_stays_away_holds_retention_for_a_bounded_time_and_says_so(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """And when it is back the dump has its certificate, if the log has its segments still."""
    world.segment(world.window())
    world.step(SAVE_S)
    world.segment(world.window())
    monkeypatch.setattr(certifying, "FOLLOW_S", 0.001)
    looks = list[Seq | None]()

    def away(*_: object) -> dict[str, bytes]:
        looks.append(world.made.collected())
        assert len(looks) <= 20
        world.now_s += HOLD_MAX_S / 10
        raise storage.log_error("log", "", storage.Unreachable(5, "Input/output error", "log"))

    with monkeypatch.context() as patch:
        patch.setattr(storage, "read_files", away)
        with pytest.raises(LogUnreachable):
            world.made.serve(Event())
        assert (len(looks), world.made.collected()) == (10, None)
        assert "Input/output error" in world.reported("certificates ended")[0]
        with pytest.raises(LogUnreachable):
            world.made.serve(Event())
    world.made._next = None  # the next life
    assert [line["seq"] for line in world.finish()["segments"]] == [0, 1]
    assert world.reported("no certificate") == []


@pytest.mark.parametrize("segments", [5, 6])
def test_a_dump_that_is_idle_for_long_gets_no_certificate_and_its_parts_go(
    world: World, monkeypatch: pytest.MonkeyPatch, segments: int
) -> None:
    """Paused, or failed and not resumed. A jump of the log's time alone costs no certificate."""
    world.segment(world.window())
    world.step(SAVE_S)
    monkeypatch.setattr(certifying, "IDLE_SEGMENTS_MAX", 5)
    world.jump_ms(48 * 3_600_000)
    for _ in range(segments):
        world.segment()
    world.follower()
    world.step(SAVE_S)
    assert bool(collected(world.log)) == (segments <= 5)
    assert world.reported("no certificate") == ([] if segments <= 5 else ["no window of it has closed in 5 segments"])


@given(damaged=st.sets(st.sampled_from([DUMP, OTHER])), foreign=st.booleans(), order=st.permutations([DUMP, OTHER]))
def test_what_is_wrong_with_a_dump_costs_its_certificate_alone(
    tmp_path_factory: pytest.TempPathFactory, damaged: set[str], foreign: bool, order: list[str]
) -> None:
    """Its progress in manifests and the file that they name, whichever of two dumps it is of; and the id of a dump of another program."""
    world = World(tmp_path_factory.mktemp("log") / "log")
    for dump in order:
        world.records(DumpState.RUNNING, dump)
    with pytest.MonkeyPatch.context() as patched:
        whole = FollowedLog.dump_of

        def read(followed: FollowedLog, manifest: Manifest, dump_id: OperationId) -> Progress | None:
            return whole(followed, replace(manifest, dumps_file="gone") if dump_id in damaged else manifest, dump_id)

        patched.setattr(FollowedLog, "dump_of", read)
        strange = [replace(world.window(), dump_id="not/ours")] if foreign else []
        world.segment(*strange, *(world.window(dump=dump) for dump in order), known=order)
        world.segment(*strange, world.window(dump=order[0]), known=order)
        world.step(SAVE_S)
        for dump in order:
            world.records(DumpState.FINISHED, dump)
        world.step()
        world.step(ACCEPT_WAIT_S)
    assert set(CERTIFICATES.ids(world.log)) == {DUMP, OTHER} - damaged
    assert len(world.reported("no certificate")) == len(damaged)
    assert all("gone" in reason for reason in world.reported("no certificate"))
    assert len(world.reported("windows of a foreign dump")) == foreign


LATE: dict[str, Callable[[TermCertificates], object]] = {
    "follows": lambda late: late.step(),
    "gives up": lambda late: late._give_up("an error"),
    "drops the dump": lambda late: late._drop(DUMP, "an error"),
    "begins again": lambda late: late._resume(),
}


@given(begins=st.integers(0, 2), actions=st.lists(st.sampled_from(sorted(LATE)), min_size=1, max_size=4))
def test_a_late_owner_removes_and_replaces_nothing_of_a_later_ones(
    tmp_path_factory: pytest.TempPathFactory, begins: int, actions: list[str]
) -> None:
    """It acts between the steps of the later one, and believes that it is the owner."""
    world = World(tmp_path_factory.mktemp("log") / "log")
    world.records(DumpState.RUNNING)
    late = world.made
    for number in range(3):
        world.segment(world.window())
        if number <= begins:
            world.step(SAVE_S)
    world.follower().step()
    for action in actions:
        with suppress(LogBroken):
            LATE[action](late)
        world.segment(world.window())
        world.step(SAVE_S)
    assert [line["seq"] for line in world.finish()["segments"]] == list(range(world.next))
    assert not list(read_parts(world.log, world.epoch, DUMP))


def test_an_owner_that_knows_that_it_is_late_removes_nothing(world: World) -> None:
    """What it takes for a broken log is what the next owner's retention has removed."""
    held = True

    def check_held() -> None:
        if not held:
            raise OwnershipLost("late", hint="")

    world.check_held = check_held
    late = world.made
    world.segment(world.window())
    world.step(SAVE_S)
    held = False
    for action in LATE.values():
        with suppress(OwnershipLost):
            action(late)
    assert collected(world.log) == [DUMP]


def test_a_broken_log_ends_certificates_with_a_line_and_lets_retention_go_on(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.segment(world.window())
    world.step(SAVE_S)
    world.segment()
    name = manifest_name(Seq(1))
    storage.write_atomically(world.log, name, storage.read_file(world.log, name)[:-9])
    monkeypatch.setattr(certifying, "FOLLOW_S", 0.001)
    with pytest.raises(LogBroken):
        world.made.step()
    with pytest.raises(LogBroken):
        world.made.serve(Event())
    assert world.made.collected() is None
    assert "is not readable" in world.reported("certificates ended")[0]
    assert not collected(world.log)


def test_a_defect_ends_certificates_and_nothing_else(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.segment(world.window())

    def breaks(_: object) -> bool:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr(certifying, "FOLLOW_S", 0.001)
    monkeypatch.setattr(TermCertificates, "_read_on", breaks)
    with pytest.raises(ZeroDivisionError):
        world.made.serve(Event())
    assert world.made.collected() is None
    assert world.reported("certificates ended") == ["a defect: ZeroDivisionError('a defect')"]


def test_a_dump_whose_parts_an_earlier_owner_has_removed_has_no_certificate(world: World) -> None:
    """Certificates are followed by a thread, which may wake when another owner collects the same dump."""
    world.segment(world.window())
    world.step(SAVE_S)
    world.segment(world.window())
    world.step()
    remove_parts(world.log, world.epoch, DUMP)
    world.records(DumpState.FINISHED, chunks=2)
    world.step()
    world.step(ACCEPT_WAIT_S)
    assert not CERTIFICATES.ids(world.log)
    assert world.reported("no certificate") == ["1 of its 2 chunks were collected"]


# ---- holes ----------------------------------------------------------------------------------------------------------------


def hole(*tables: TableName, vanished: bool = False, at: int = 5) -> Hole:
    """Of no table: of each that is there."""
    return Hole(HoleCause.IMPORT, CommitTs(at), tables or None, vanished, "IMPORT INTO")


def certified_holes(world: World) -> list[tuple[str, int, bool]]:
    return [(one["table"], one["seq"], one["vanished"]) for one in world.finish()["holes"]]


def test_holes_of_before_the_pass_are_filled_by_it_and_later_ones_are_in_the_certificate(world: World) -> None:
    """A window closes two segments after the pass has begun: what was noticed between is none of what the dump has read for certain."""
    world.segment(holes=(hole(T),))
    world.segment(holes=(hole(T, U, vanished=True),))
    world.segment(holes=(hole(U),))
    world.segment(holes=(hole(),))
    world.segment(world.window(T, first=3, since=3))
    world.segment(holes=(hole(T), hole(TableName("shop", "other"))))
    world.segment(world.window(T, since=3))
    world.segment(holes=(hole(T),))
    world.step(SAVE_S)
    result = world.finish()
    assert result["holes"] == [
        {"schema": "shop", "table": "orders", "seq": seq, "cause": "import", "since_ts": "5", "vanished": False, "text": "IMPORT INTO"}
        for seq in (3, 5)
    ]
    assert CERTIFICATES.ids(world.log) == [DUMP]


def test_a_next_owner_knows_the_holes_that_were_noticed_before_it(world: World) -> None:
    world.segment()
    world.segment(holes=(hole(),))
    world.segment(world.window(T, U, first=1, since=1), holes=(hole(U, vanished=True),))
    world.step(SAVE_S)
    world.follower()
    world.segment(world.window(T, since=1))
    assert certified_holes(world) == [("items", 1, False), ("items", 2, True), ("orders", 1, False)]


def test_what_is_open_in_a_sink_and_no_dump_fills_is_in_the_certificate_whenever_it_was_noticed(world: World) -> None:
    """Rows that vanished before the dump, of segments that are not there any more."""
    claim_log(world.log, "cf/1")
    first, second = Seq(2), Seq(6)
    of_t, of_u = (
        OpenHole(HoleCause.FLASHBACK, CommitTs(7), seq, vanished=vanished, text="") for seq, vanished in ((first, True), (second, False))
    )
    there = {T: of_t, U: of_u, TableName("shop", "other"): of_t}
    for sink in ("copy", "other"):
        write_sink_tables(world.log, SinkTables(sink, "", Seq(0), None, Seq(9), None, holes=there), log_id=own_id(world.log))
    for _ in range(8):
        world.segment()
    world.segment(world.window(T, U, since=7))
    for sink in ("copy", "other"):
        world.reports.say(8, sink=sink)
    assert certified_holes(world) == [("orders", 2, True)], "the dump fills that of the other table: the sink has not accepted it yet"


def test_a_sinks_file_that_cannot_be_read_costs_the_dump_its_certificate(world: World) -> None:
    claim_log(world.log, "cf/1")
    storage.write_atomically(world.log, "sinks/copy.json", b"{")
    world.segment(world.window())
    world.reports.say(0)
    world.step()
    world.records(DumpState.FINISHED)
    world.step()
    world.step(0)
    assert not CERTIFICATES.ids(world.log)
    [why] = world.reported("no certificate")
    assert "sinks/copy.json" in why
