"""Verifications of a worker: what is asked, table by table, over a death, and how one is ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from threading import Event
from time import monotonic, sleep
from types import SimpleNamespace
from typing import TypeVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.shared.errors import LogUnreachable, SinkError, SparkLost, StorageFull
from sidecar.shared.log import storage
from sidecar.shared.log.owned import OwnedLog
from sidecar.shared.log.storage import Folder
from sidecar.shared.log.verification import (
    CheckState,
    RequestedTable,
    Unjudged,
    VerifyReport,
    VerifyRequest,
    differences_name,
    report_name,
    request_name,
    state_name,
    stop_name,
)
from sidecar.shared.log.verification_files import read_report, read_state, remove_files, write_report
from sidecar.shared.log.verification_state import VerifyState
from sidecar.shared.model.nouns import OperationId, TableName
from spark_merge.port.contract import Sink
from spark_merge.sinks.registry import open_sink
from spark_merge.verify import runner
from spark_merge.verify.lateness import LATE
from spark_merge.verify.runner import PAUSE_MAX, WAIT_S, WAIT_USUAL_S, Verifications, VerifySettings, WorkedTime
from tests.support.table_shapes import TABLE
from tests.support.verified import InOrder, World, WorldSource
from tests.unit.verify.test_table_check import Sqlite, world_of

V1 = OperationId("v1")
R = TypeVar("R")


def settings_of(world: World, **sinks: str) -> VerifySettings:
    made = {name: partial(open_sink, uri, log_id="log-1") for name, uri in sinks.items()}
    settings = VerifySettings(world.job, WorldSource(world), InOrder(), made, now_ms=lambda: 7, wait=world.wait)
    return replace(settings, checks_at_once=1, write_every_s=0)


def asked(world: World, *sinks: str, operation_id: str = "v1", asked_ms: int = 0) -> VerifyRequest:
    request = VerifyRequest(OperationId(operation_id), sinks, (RequestedTable(*TABLE),), asked_ms=asked_ms)
    storage.write_atomically(world.job.log, request_name(OperationId(operation_id)), request.to_json())
    return request


@pytest.fixture
def world(tmp_path: Path) -> World:
    return world_of(tmp_path, 3, f"sqlite:///{tmp_path}/out.db", snapshots=True)


def test_a_verification_has_a_report_and_its_differences_in_a_file(world: World) -> None:
    spoilt = Sqlite(world.folder / "out.db").spoil(world, Random(1))
    verifications = Verifications(settings_of(world, mine=f"sqlite:///{world.folder}/out.db"))
    request = asked(world, "mine")
    assert [one.id for one in verifications.due()] == ["v1"]
    before = set(storage.list_names(world.job.log, deep=True))
    verifications.carry_out(request, Event())
    report = verifications.report(V1)
    assert report is not None
    assert (report.state, report.ended_ms) == (CheckState.DIFFERENT, 7)
    [table] = report.tables
    assert table.why == ""
    lines = storage.read_file(world.job.log, differences_name(V1, 0)).splitlines()
    assert 0 < len(lines) == table.differences <= len(spoilt)
    assert not list(verifications.due())
    left = storage.list_names(world.job.log, deep=True)
    assert not [name for name in left if "/work/" in name], "digests are removed"
    assert before <= set(left), "and nothing else"


def test_a_sink_that_cannot_be_read_or_is_unknown_says_why_and_the_others_are_compared(world: World) -> None:
    settings = settings_of(world, mine=f"sqlite:///{world.folder}/out.db", shown="console:")
    report = Verifications(settings).carry_out(asked(world, "shown", "mine", "other"), Event())
    assert [(one.state, one.why) for one in report.tables] == [
        (CheckState.SKIPPED, "its rows cannot be read back"), (CheckState.EQUAL, ""), (CheckState.SKIPPED, "there is no sink other"),
    ]  # fmt: skip
    assert report.state is CheckState.FAILED, "what was not compared is not equal"


def of_tables(count: int, *, unjudged: bool = False) -> VerifyRequest:
    tables = tuple(RequestedTable("shop", f"t{number}") for number in range(count))
    why = tuple(Unjudged("mine", one.schema, one.table, ("extra",), "the filter") for one in tables)
    return VerifyRequest(V1, ("mine",), tables, unjudged=why if unjudged else ())


@pytest.mark.parametrize("count", [500, 2_000])
def test_the_reports_of_a_verification_of_many_tables_grow_with_the_tables(
    world: World, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """As often as a short report, one of 30,000 tables would be 12 MB twice a second, for as long as they all take."""
    clock, written, states = iter(range(20 * count)), list[int](), list[int]()
    write_atomically = storage.write_atomically

    def counted(folder: Folder, name: str, data: bytes) -> None:
        (states if name == state_name(V1) else written).append(len(data))
        write_atomically(folder, name, data)

    monkeypatch.setattr(storage, "write_atomically", counted)
    monkeypatch.setattr(runner, "time", SimpleNamespace(monotonic=lambda: next(clock) / 10))
    Verifications(replace(settings_of(world), write_every_s=1.0)).carry_out(of_tables(count), Event())
    assert len(written) <= 60
    assert sum(written) < 33_000 * count
    assert max(states) < 40_000, "a state does not grow with them"


def test_each_table_of_many_looks_up_what_is_not_judged_of_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    looked = list[str]()

    def named(self: Unjudged) -> TableName:
        looked.append(self.table)
        return TableName(self.schema, self.table)

    def refused(*_: object) -> None:
        raise SinkError("nothing is compared here", hint="nothing")

    monkeypatch.setattr(Unjudged, "name", property(named))
    monkeypatch.setattr(runner, "TableCheck", refused)
    report = Verifications(settings_of(world, mine=f"sqlite:///{world.folder}/out.db")).carry_out(of_tables(20, unjudged=True), Event())
    assert {one.state for one in report.tables} == {CheckState.FAILED}
    assert len(looked) == 20


def test_a_worker_that_ends_in_a_table_leaves_the_others_to_the_next_one(world: World) -> None:
    settings, request, ending = settings_of(world, mine=f"sqlite:///{world.folder}/out.db"), asked(world, "mine", "mine"), Event()

    def end(seconds: float) -> None:
        ending.set()
        world.wait(seconds)

    first = Verifications(replace(settings, wait=end, late=lambda: True))
    assert first.carry_out(request, ending).state is CheckState.RUNNING
    assert [one.id for one in first.due()] == ["v1"]
    assert Verifications(settings).carry_out(request, Event()).state is CheckState.EQUAL


def test_what_a_worker_has_done_of_a_table_is_kept_until_the_table_is_compared(world: World) -> None:
    settings, request, ending = settings_of(world, mine=f"sqlite:///{world.folder}/out.db"), asked(world, "mine"), Event()

    class Ended(InOrder):
        """After a range of the source."""

        cores, left = 1, 2

        def run(self, work: Sequence[Callable[[], R]], *, rows: int) -> list[R]:
            self.left -= 1
            if not self.left:
                ending.set()
            return super().run(work, rows=rows)

    first = Verifications(replace(settings, runner=Ended()))
    assert first.carry_out(request, ending).state is CheckState.RUNNING
    kept = [name for name in storage.list_names(world.job.log, deep=True) if "/work/" in name]
    assert "verify/v1/work/0/progress.json" in kept
    report = first.report(V1)
    assert report is not None
    assert report.needs_from is not None, "the log keeps what is to be followed"
    assert Verifications(settings).carry_out(request, Event()).state is CheckState.EQUAL
    assert not [name for name in storage.list_names(world.job.log, deep=True) if "/work/" in name]


def test_what_was_done_is_removed_when_an_operator_ends_it(world: World) -> None:
    request = asked(world, "mine")
    storage.write_atomically(world.job.log, "verify/v1/work/0/progress.json", b"{}")
    storage.write_atomically(world.job.log, stop_name(V1), b"")
    verifications = Verifications(settings_of(world, mine=f"sqlite:///{world.folder}/out.db"))
    assert verifications.carry_out(request, Event()).state is CheckState.STOPPED
    assert not storage.exists(world.job.log, "verify/v1/work/0/progress.json")


class Failing(InOrder):
    """Its work raises these, one after another, and then is done."""

    def __init__(self, *errors: Exception) -> None:
        self.left = list(errors)

    def run(self, work: Sequence[Callable[[], R]], *, rows: int) -> list[R]:
        if self.left:
            raise self.left.pop(0)
        return super().run(work, rows=rows)


def test_a_lost_spark_ends_the_thread_and_a_next_worker_goes_on(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "LOOK_EVERY_S", 0.0)
    settings = settings_of(world, mine=f"sqlite:///{world.folder}/out.db")
    asked(world, "mine")
    with pytest.raises(SparkLost):
        Verifications(replace(settings, runner=Failing(SparkLost("it is gone", hint="nothing")))).run(Event())
    [request] = Verifications(settings).due()
    assert Verifications(settings).carry_out(request, Event()).state is CheckState.EQUAL


@pytest.mark.parametrize("error", [SinkError("its server is away", hint="start it"), ValueError("a defect of ours")])
def test_a_sink_that_cannot_be_opened_fails_its_own_tables_alone(world: World, error: Exception) -> None:
    def broken() -> Sink:
        raise error

    settings, notices = settings_of(world, mine=f"sqlite:///{world.folder}/out.db"), list[str]()
    settings = replace(settings, sinks={**settings.sinks, "away": broken}, notice=notices.append)
    report = Verifications(settings).carry_out(asked(world, "away", "mine"), Event())
    assert [(one.sink, one.state) for one in report.tables] == [("away", CheckState.FAILED), ("mine", CheckState.EQUAL)]
    assert str(error) in report.tables[0].why
    assert len(notices) == isinstance(error, ValueError)


@pytest.mark.parametrize("error", [LogUnreachable("the log is away", hint="wait"), OSError("of a kind that nobody expects")])
def test_what_keeps_verifications_from_going_on_is_reported_once_and_they_are_tried_again(
    world: World, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(runner, "LOOK_EVERY_S", 0.0)
    ending, notices, tries = Event(), list[str](), iter([error, error, error])

    def carry_out(self: Verifications, request: VerifyRequest, ending: Event) -> None:
        if (failure := next(tries, None)) is not None:
            raise failure
        ending.set()

    monkeypatch.setattr(Verifications, "carry_out", carry_out)
    asked(world, "mine")
    Verifications(replace(settings_of(world), notice=notices.append)).run(ending)
    assert len(notices) == 1
    assert str(error) in notices[0]


def test_a_table_whose_digests_do_not_fit_on_the_volume_fails_and_the_others_are_compared(world: World) -> None:
    settings = settings_of(world, mine=f"sqlite:///{world.folder}/out.db")
    full = Failing(StorageFull("no room on /log: 0 of 9 bytes are free", hint="make room", place="/log"))
    report = Verifications(replace(settings, runner=full)).carry_out(asked(world, "mine", "mine"), Event())
    assert [one.state for one in report.tables] == [CheckState.FAILED, CheckState.EQUAL]
    assert "0 of 9 bytes are free" in report.tables[0].why
    assert not [name for name in storage.list_names(world.job.log, deep=True) if "/work/" in name], "what was written makes room again"


def test_one_that_cannot_be_carried_out_keeps_no_other_from_its_turn_and_is_tried_ever_less_often(world: World) -> None:
    asked(world, "mine", operation_id="v1")
    asked(world, "mine", operation_id="v2", asked_ms=1)
    waited, done = list[float](), list[str]()

    class Clock(Event):
        def wait(self, timeout: float | None = None) -> bool:
            waited.append(timeout or 0)
            return len(waited) > 9

    class Odd(Verifications):
        def carry_out(self, request: VerifyRequest, ending: Event) -> VerifyReport:
            if request.id == "v1":
                raise LogUnreachable("the log is away", hint="wait")
            done.append(request.id)
            return super().carry_out(request, ending)

    Odd(settings_of(world, mine=f"sqlite:///{world.folder}/out.db")).run(Clock())
    assert done == ["v2"]
    assert waited == [1, 2, 4, 8, 16, 32, 60, 60, 60, 60]


def test_an_operator_ends_it(world: World) -> None:
    request = asked(world, "mine")
    storage.write_atomically(world.job.log, stop_name(V1), b"")
    verifications = Verifications(settings_of(world, mine=f"sqlite:///{world.folder}/out.db"))
    assert verifications.carry_out(request, Event()).state is CheckState.STOPPED
    assert not list(verifications.due())


def test_it_pauses_while_live_changes_are_late_and_not_for_ever(world: World) -> None:
    settings, request = settings_of(world, mine=f"sqlite:///{world.folder}/out.db"), asked(world, "mine")
    pauses: list[float] = []
    waits_s: list[float] = []
    reports: list[str] = []

    def paused_s() -> float:
        return sum(one for one in pauses if one == WAIT_S)

    def worked_s() -> float:
        return monotonic() - began_s - sum(waits_s)

    def slept(seconds: float) -> None:
        at_s = monotonic()
        pauses.append(seconds)
        assert paused_s() <= PAUSE_MAX * worked_s() + 20 * WAIT_S, "no longer than the work, of fewer than 20 pieces"
        report = read_report(world.job.log, V1)
        reports.append(report.waiting_for if report is not None else "")
        world.wait(seconds)
        waits_s.append(monotonic() - at_s)

    class Slow(InOrder):
        def run(self, work: Sequence[Callable[[], R]], *, rows: int) -> list[R]:
            sleep(0.05)
            return super().run(work, rows=rows)

    late = replace(settings, late=lambda: True, runner=Slow(), wait=slept, write_every_s=0.0)
    began_s = monotonic()
    assert Verifications(late).carry_out(request, Event()).state is CheckState.EQUAL, "a sink that is always late does not stop it"
    assert LATE in reports
    assert paused_s() >= 3 * PAUSE_MAX * 0.05 - WAIT_S, "the sink, the source, the buckets"
    pauses.clear()
    quick = replace(late, late=lambda: False)
    assert Verifications(quick).carry_out(asked(world, "mine", operation_id="v2"), Event()).state is CheckState.EQUAL
    assert WAIT_S not in pauses


def test_verifications_are_carried_out_in_the_order_in_which_they_were_requested(world: World) -> None:
    for operation_id, asked_ms in (("b", 2), ("a", 3), ("c", 1)):
        asked(world, "mine", operation_id=operation_id, asked_ms=asked_ms)
    assert [one.id for one in Verifications(settings_of(world)).due()] == ["c", "b", "a"]


def test_the_report_says_which_segments_are_still_to_be_read(world: World) -> None:
    settings, request = settings_of(world, mine=f"sqlite:///{world.folder}/out.db"), asked(world, "mine")
    verifications = Verifications(settings)
    needed: list[int] = []
    accepted = world.seq - 1

    def note() -> bool:
        report = verifications.report(V1)
        if report is not None and report.needs_from is not None:
            needed.append(report.needs_from)
        return False

    end = Verifications(replace(settings, late=note)).carry_out(request, Event())
    assert end.state is CheckState.EQUAL
    assert end.needs_from is None, "they may be removed again"
    assert needed == sorted(needed)
    assert accepted < needed[0] <= needed[-1] <= world.seq


def test_what_another_worker_had_to_read_is_kept_until_each_table_has_begun(world: World) -> None:
    """`missing` begins after `mine`, and may have to follow the log from where it was."""
    settings, request = settings_of(world, mine=f"sqlite:///{world.folder}/out.db"), asked(world, "mine", "missing")
    before = VerifyReport(V1, CheckState.RUNNING, 1, needs_from=0)
    storage.write_atomically(world.job.log, report_name(V1), before.to_json())
    for number in (0, 1):
        storage.write_atomically(world.job.log, f"verify/v1/work/{number}/progress.json", b"{}")  # both would continue
    needed: list[int | None] = []

    def note() -> bool:
        report = read_report(world.job.log, V1)
        needed.append(report.needs_from if report is not None else None)
        return False

    end = Verifications(replace(settings, late=note, checks_at_once=1, write_every_s=0.0)).carry_out(request, Event())
    assert [one.state for one in end.tables] == [CheckState.EQUAL, CheckState.SKIPPED]
    assert set(needed) == {0}
    assert end.needs_from is None


def test_what_is_to_be_read_is_reported_before_the_first_piece_of_work(world: World) -> None:
    """Which may take hours: until then nothing else is told."""
    reports: list[int | None] = []

    class Looking(InOrder):
        def run(self, work: Sequence[Callable[[], R]], *, rows: int) -> list[R]:
            report = verifications.report(V1)
            assert report is not None
            reports.append(report.needs_from)
            return super().run(work, rows=rows)

    settings = settings_of(world, mine=f"sqlite:///{world.folder}/out.db")
    verifications = Verifications(replace(settings, runner=Looking(), write_every_s=600))
    first = world.seq
    assert verifications.carry_out(asked(world, "mine"), Event()).state is CheckState.EQUAL
    assert reports[0] == first


@given(st.lists(st.tuples(st.floats(0, 3 * WAIT_USUAL_S), st.booleans()), max_size=30), st.floats(0, 1e5))
def test_an_outage_is_no_work(looks: list[tuple[float, bool]], before_s: float) -> None:
    """Of each look: how long after the one before it is, and whether all that is under way waits. What an earlier process has worked
    counts, and the time between the two does not."""
    worked, now_s, expected_s = WorkedTime(before_s, 100.0), 100.0, before_s
    since_s: float | None = None
    for passed_s, waits in looks:
        now_s += passed_s
        since_s = (since_s if since_s is not None else now_s) if waits else None
        expected_s += passed_s if since_s is None or now_s - since_s <= WAIT_USUAL_S else 0.0
        assert worked.seconds(now_s, waits=waits) == pytest.approx(expected_s)


def test_what_it_needs_is_kept_over_the_lives_of_its_processes(world: World) -> None:
    """From its first moment: retention may not remove it meanwhile."""
    settings, request = settings_of(world, mine=f"sqlite:///{world.folder}/out.db"), asked(world, "mine")
    before = VerifyReport(V1, CheckState.RUNNING, 1, needs_from=0)
    write_report(world.job.log, before, request)
    storage.write_atomically(world.job.log, "verify/v1/work/0/progress.json", b"{}")
    states: list[int | None] = []

    def note() -> bool:
        state = read_state(world.job.log, V1)
        assert state is not None
        states.append(state.needs_from)
        return False

    Verifications(replace(settings, late=note, write_every_s=0.0, now_ms=lambda: 99)).carry_out(request, Event())
    assert states[0] == 0
    assert states[-1] != 0, "a step"


def test_what_is_over_is_read_once_however_often_somebody_looks(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each second, of the hundred that are kept; one that is removed and requested again is read again."""
    log = world.job.log
    for number in range(3):
        request = msgspec.structs.replace(asked(world, "mine"), id=f"v{number}")
        storage.write_atomically(log, request_name(request.id), request.to_json())
        write_report(log, VerifyReport(request.id, CheckState.RUNNING if number == 0 else CheckState.EQUAL, 1), request)
    looks = list[str]()

    def noted(log: Folder, operation_id: OperationId) -> VerifyState | None:
        looks.append(operation_id)
        return read_state(log, operation_id)

    monkeypatch.setattr(runner, "read_state", noted)
    verifications = Verifications(settings_of(world))
    assert [[one.id for one in verifications.due()] for _ in range(3)] == [["v0"]] * 3
    assert looks == ["v0", "v1", "v2", "v0", "v0"]
    remove_files(OwnedLog(log, 1), OperationId("v2"))
    assert [one.id for one in verifications.due()] == ["v0"]
    again = msgspec.structs.replace(asked(world, "mine"), id="v2")
    storage.write_atomically(log, request_name(again.id), again.to_json())
    assert {one.id for one in verifications.due()} == {"v0", "v2"}


def test_a_state_that_is_older_than_the_report_is_written_again(world: World) -> None:
    """Its process died between the two: nobody would learn of the end."""
    request = asked(world, "mine")
    write_report(world.job.log, VerifyReport(V1, CheckState.RUNNING, 1), request)
    storage.write_atomically(world.job.log, report_name(V1), VerifyReport(V1, CheckState.EQUAL, 1).to_json())
    assert list(Verifications(settings_of(world)).due()) == []
    state = read_state(world.job.log, V1)
    assert state is not None
    assert state.is_over
