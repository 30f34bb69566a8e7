"""What `Claims` decides, as transcripts: an event, and the command that follows it."""

from __future__ import annotations

import pytest

from sidecar.shared.errors import OwnershipLost, SinkError
from sidecar.shared.model.nouns import Seq, TableName
from spark_merge.port.contract import Accepted, Outcome, Owner, Rows
from spark_merge.sinks.kafka.claims import (
    CLAIMS_MAX,
    TWIN_MAX_S,
    ClaimCommand,
    ClaimEvent,
    Claims,
    ClaimState,
    ClaimStep,
    Committed,
    Failed,
    FencedOff,
    TaskAnswer,
    TaskBegun,
    TaskRequested,
)
from spark_merge.sinks.kafka.position_records import Control, PositionRead, SinkTerm, Slot

OWNER = Owner(3, 7)
TASK, NEXT = TaskRequested(Seq(5), "live", 10), TaskRequested(Seq(6), "live", 10)
DONE = Outcome("live", {(Seq(5), TableName("s", "t")): Rows(1)})
NOTHING_TO_SAY = Outcome("live", {})
TAKE, READ, AGAIN = ClaimStep.TAKE_ID, ClaimStep.READ_POSITION, ClaimStep.READ_AGAIN
BEGIN, WRITE, STOP, AWAIT = ClaimStep.BEGIN_TASK, ClaimStep.WRITE_ROWS, ClaimStep.STOP_WRITING, ClaimStep.AWAIT_TASK
Transcript = list[tuple[ClaimEvent, ClaimCommand]]


def position(accepted: int = 4, *slots: Slot, owner: Owner = OWNER, upto: int = 0) -> PositionRead:
    return PositionRead(Control("log-1", "canal-json", owner, Accepted(Seq(accepted))), slots, upto)


def claims(*, is_fenced: bool = True) -> Claims:
    return Claims(SinkTerm(OWNER), output="kafka://b/t", name="id-0", is_fenced=is_fenced)


def play(machine: Claims, transcript: Transcript, *, now_s: float = 0.0) -> None:
    for number, (event, command) in enumerate(transcript):
        assert machine.handle(event, now_s=now_s) == command, f"step {number}: {event}"


WRITING: Transcript = [(TASK, TAKE), (position(), BEGIN), (TaskBegun(), WRITE)]
READY: Transcript = [*WRITING, (Committed(DONE), TaskAnswer(DONE))]


@pytest.mark.parametrize(
    ("is_fenced", "transcript"),
    [
        pytest.param(True, [*READY, (NEXT, BEGIN), (TaskBegun(), WRITE)], id="the next task is begun without another read"),
        pytest.param(False, [*READY, (NEXT, READ), (position(5), BEGIN)], id="without a fence each task reads first"),
        pytest.param(True, [*READY, (TASK, TaskAnswer(DONE))], id="a task that it has done is answered"),
        pytest.param(True, [(TASK, TAKE), (position(4, Slot(Seq(5), DONE)), TaskAnswer(DONE))], id="a task with a slot is answered"),
        pytest.param(True, [(TASK, TAKE), (position(4, Slot(Seq(4), DONE)), BEGIN)], id="a slot of another batch is none"),
        pytest.param(True, [(TASK, TAKE), (position(5), TaskAnswer(NOTHING_TO_SAY))], id="a batch that is accepted is done"),
        pytest.param(True, [*READY, (NEXT, BEGIN), (Failed(True), AWAIT), (TASK, TaskAnswer(NOTHING_TO_SAY))], id="an older batch is done"),
        pytest.param(True, [(TASK, TAKE), (position(), BEGIN), (FencedOff(), TAKE), (position(), BEGIN)], id="a failed claim is repeated"),
        pytest.param(True, [*WRITING, (Failed(True), AWAIT), (NEXT, BEGIN)], id="an aborted transaction keeps the id"),
        pytest.param(True, [*WRITING, (Failed(False), AWAIT), (NEXT, TAKE)], id="a producer that failed takes the id again"),
        pytest.param(True, [(TASK, TAKE), (Failed(True), AWAIT), (TASK, TAKE)], id="what was not read is read again"),
        pytest.param(False, [*WRITING, (position(), WRITE)], id="a task that is still its own is written on"),
        pytest.param(False, [*WRITING, (position(4, Slot(Seq(5), DONE)), STOP), (FencedOff(), READ)], id="one that another did is stopped"),
        pytest.param(False, [*WRITING, (position(5), STOP)], id="one whose batch was accepted is stopped"),
        pytest.param(
            True,
            [*WRITING, (FencedOff(), READ), (position(), AGAIN), (position(4, Slot(Seq(5), DONE)), TaskAnswer(DONE)), (NEXT, TAKE)],
            id="one that is fenced answers what the other has done",
        ),
        pytest.param(True, [(TASK, TAKE), (FencedOff(), READ), (position(5), TaskAnswer(NOTHING_TO_SAY))], id="fenced as it took the id"),
        pytest.param(True, [*WRITING, (FencedOff(), READ), (NEXT, TAKE)], id="after a wait that failed the id is taken"),
    ],
)
def test_a_task_is_written_once_or_answered(is_fenced: bool, transcript: Transcript) -> None:
    play(claims(is_fenced=is_fenced), transcript)


@pytest.mark.parametrize("before", [WRITING[:1], WRITING, [*WRITING, (FencedOff(), READ)]], ids=["reading", "writing", "waiting"])
@pytest.mark.parametrize("read", [position(owner=Owner(3, 8)), position(owner=Owner(4, 1)), PositionRead(None)])
def test_a_replaced_owner_stops_wherever_it_reads_the_position(before: Transcript, read: PositionRead) -> None:
    machine = claims(is_fenced=False)
    play(machine, before)
    with pytest.raises(OwnershipLost, match="this is Owner"):
        machine.handle(read, now_s=0)


def test_an_id_that_is_taken_again_and_again_is_given_up() -> None:
    machine = claims()
    fenced: Transcript = [(position(), BEGIN), (FencedOff(), TAKE)]
    play(machine, [(TASK, TAKE), *fenced * (CLAIMS_MAX - 1), (position(), BEGIN)])
    with pytest.raises(SinkError, match="transactional id id-0 is taken by another again and again"):
        machine.handle(FencedOff(), now_s=0)
    play(machine, [(Failed(False), AWAIT), (TASK, TAKE), (position(), BEGIN), (FencedOff(), TAKE)])


def test_a_twin_that_does_not_do_the_task_is_waited_for_a_bounded_time() -> None:
    machine = claims()
    play(machine, [*WRITING, (FencedOff(), READ)], now_s=100)
    play(machine, [(position(), AGAIN)], now_s=100 + TWIN_MAX_S)
    with pytest.raises(SinkError, match="task live was fenced off by one that has not done it"):
        machine.handle(position(), now_s=101 + TWIN_MAX_S)


def test_slots_that_were_read_are_not_read_again() -> None:
    machine = claims(is_fenced=False)
    play(machine, [(TASK, TAKE)])
    assert machine.read_from == 10
    play(machine, [(position(upto=17), BEGIN), (TaskBegun(), WRITE), (position(upto=12), WRITE)])
    assert machine.read_from == 17


@pytest.mark.parametrize("event", [Committed(DONE), TaskBegun(), FencedOff(), position()])
def test_an_event_that_cannot_be_is_an_error_and_changes_nothing(event: ClaimEvent) -> None:
    machine = claims()
    play(machine, READY)
    with pytest.raises(AssertionError, match=r"ClaimState\.READY"):
        machine.handle(event, now_s=0)
    assert machine.state is ClaimState.READY
