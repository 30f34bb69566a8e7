"""What a process keeps between two terms, and until when."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar.core.dump_start import Demand
from sidecar.pace.controller import NARROW_ROWS, Controller
from sidecar.run import own_worker
from sidecar.run.between_terms import LOSSES_WITHIN_S, WORKER_KEPT_MAX_S, BetweenTerms
from sidecar.run.own_worker import OwnWorker
from sidecar.shared.errors import ConfigError, CoordinationLost, LogTaken, OwnershipLost
from sidecar.shared.model.nouns import Seq
from sidecar.shared.model.sink_delivery import BatchDone, SinkDelivery

LOST = OwnershipLost("the lease may have run out", hint="nothing")


class Worker:
    """In place of MergeProcess: what it was told."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def __call__(self, command: list[str], _: object) -> Worker:
        self.notes.append(f"start {command[-1]}")
        return self

    def start(self) -> None:
        """It runs."""

    def tell(self, line: bytes) -> None: ...

    def serve(self, command: list[str], line: bytes) -> None:
        assert command[-2:] == ["--epoch", line.decode().strip()]
        self.notes.append(f"serve {command[-1]}")

    def close(self, *, at_once: bool) -> None:
        self.notes.append("end at once" if at_once else "end")


class Process:
    """Its terms, its worker, and the time."""

    def __init__(self, worker: Worker) -> None:
        self.worker, self.now_s = worker, 100.0
        self.between = BetweenTerms(OwnWorker(Path("sidecar.toml"), managed=True), lambda: self.now_s)

    def enter(self, epoch: int, *, full: bool = False, own_id: str = "a") -> Controller:
        pace = Controller()
        pace.wrote(Seq(6), self.now_s)
        self.between.begin(epoch, "cf/1", own_id=own_id)
        self.between.enter(pace, epoch, full=full)
        return pace


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Process:
    worker = Worker()
    monkeypatch.setattr(own_worker, "MergeProcess", worker)
    return Process(worker)


def learn(pace: Controller) -> int:
    """How wide a dump may be by the batches of one sink, each of a segment that it had at once."""
    for seq in range(7, 13):
        pace.wrote(Seq(seq), 100.0)
    batches = tuple(BatchDone(Seq(seq), 1, 10, 5_000, 0.01 * seq, 0.0, 0) for seq in range(7, 13))
    pace.room(Demand(open_rows=50_000))
    pace.receive(None, [SinkDelivery("lake", Seq(12), batches)], None, now_s=100.0)
    return pace.room(Demand()).width_rows


@pytest.mark.parametrize("error", [LOST, CoordinationLost("etcd does not answer", hint="wait")])
def test_a_process_that_regains_its_changefeed_keeps_its_worker_and_what_the_pace_has_learned(
    process: Process, error: OwnershipLost | CoordinationLost
) -> None:
    width = learn(process.enter(3))
    assert width != NARROW_ROWS
    process.between.leave(error)
    process.now_s += WORKER_KEPT_MAX_S
    process.between.wait()
    pace = process.enter(4)
    assert process.worker.notes == ["start 3", "serve 4"]
    pace.receive(None, [SinkDelivery("lake", Seq(5))], None, now_s=process.now_s)
    assert pace.room(Demand()).width_rows == width
    assert pace.lag_s(process.now_s + 3.0) == 3.0, "what waits is the new term's"


def test_another_owner_in_between_ends_the_worker_and_the_pace_begins_again(process: Process) -> None:
    learn(process.enter(3))
    process.between.leave(LOST)
    process.between.stand_by()
    assert process.worker.notes == ["start 3", "end at once"]
    assert process.enter(5).room(Demand()).width_rows == NARROW_ROWS
    assert process.worker.notes[2:] == ["start 5"]


@pytest.mark.parametrize("full", [False, True])
def test_another_log_in_the_place_of_the_workers_has_another_worker(process: Process, full: bool) -> None:
    """The worker has the former one's id, and would deliver this one's segments of those numbers as that one's."""
    learn(process.enter(3))
    process.between.leave(LOST)
    process.enter(4, full=full, own_id="b")
    assert process.worker.notes == ["start 3", "end at once", "start 4"]


def test_a_worker_starts_when_the_term_has_its_log_and_stays_if_the_rest_cannot_be_opened(process: Process) -> None:
    process.between.begin(3, "cf/1", own_id="a")
    assert process.worker.notes == ["start 3"]
    process.between.leave(CoordinationLost("etcd does not answer", hint="wait"))
    process.enter(4)
    assert process.worker.notes == ["start 3", "serve 4"]


def test_a_worker_is_kept_for_a_minute(process: Process) -> None:
    process.enter(3)
    process.between.wait()
    process.between.leave(LOST)
    process.now_s += WORKER_KEPT_MAX_S + 1
    process.between.wait()
    process.between.wait()
    assert process.worker.notes == ["start 3", "end at once"]


@pytest.mark.parametrize(
    ("error", "ended"),
    [
        (None, "end"),
        (ZeroDivisionError("a defect"), "end at once"),
        (ConfigError("no such sink", hint="name another"), "end at once"),
        (LogTaken("segment 3 was written by another owner", hint="nothing"), "end at once"),
    ],
)
def test_what_does_not_pass_ends_the_worker_with_the_term(process: Process, error: BaseException | None, ended: str) -> None:
    process.enter(3)
    process.between.leave(error)
    assert process.worker.notes == ["start 3", ended]


def test_on_a_full_volume_the_worker_stays_as_it_is(process: Process) -> None:
    process.enter(3)
    process.enter(4, full=True)
    assert process.worker.notes == ["start 3"]


def test_leases_that_are_lost_again_and_again_are_the_machines_doing_and_it_says_so(process: Process) -> None:
    assert process.between.causes(LOST) == ()
    assert process.between.causes(CoordinationLost("etcd does not answer", hint="wait")) == ()
    process.now_s += 170
    (cause,) = process.between.causes(LOST)
    assert cause.startswith("the lease was lost 2 times in 3 min: this machine is too busy")
    process.now_s += LOSSES_WITHIN_S + 1
    assert process.between.causes(LOST) == ()
