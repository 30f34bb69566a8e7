"""Which task of a transactional id is written, and what a task answers that is not. Pure: no I/O, no clock, no Kafka.

One `Claims` serves the tasks of one id in one process and term, one after another. `handle` takes what has happened, and returns what the
caller does next (holder.py).

    state               event           command                                             next state
    FREE, WAITING       TaskRequested       TAKE_ID                                             READING
    READY               TaskRequested       as below; without a fence READ_POSITION             READING
    READING             PositionRead    as below
    BEGINNING           TaskBegun       WRITE_ROWS                                          WRITING
    BEGINNING           FencedOff       TAKE_ID; SinkError for the CLAIMS_MAX-th time       READING
    WRITING             PositionRead    WRITE_ROWS, or STOP_WRITING if the task is done     WRITING
    WRITING             Committed       TaskAnswer                                          READY
    READING, WRITING    FencedOff       READ_POSITION                                       WAITING
    WAITING             PositionRead    TaskAnswer if the task is done                      FREE
                                        else READ_AGAIN; SinkError after TWIN_MAX_S         WAITING
    any                 Failed          AWAIT_TASK: READY from BEGINNING and WRITING if the producer is kept, else FREE

    "as below": TaskAnswer in READY if the task is done, else BEGIN_TASK in BEGINNING

- PositionRead raises OwnershipLost if control is of another term.
- A task is done if its batch is accepted, if a later batch of this term has begun, or if there is a slot of it.
- With a fence the id is taken between two reads of control. A previous task that takes the id before the next owner does is fenced by that
  owner; one that takes it afterwards reads the new owner in control, and stops. The owner that it has fenced takes the id again: the claim
  fails, before a row is read. While claims succeed nobody else has had the id, so READY needs no other read.
- Without a fence nothing holds others off: each task reads control and slots first, and again while it writes.
- Of two that do one task at once, one is fenced. It waits for the slot of the other, which is its own answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeAlias

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Seq
from spark_merge.port.contract import Outcome
from spark_merge.sinks.kafka.position_records import PositionRead, SinkTerm, check_term

CLAIMS_MAX = 3

TWIN_MAX_S = 20.0
"""How long a task waits for the slot of the one that fenced it. Then the next owner tries the batch again."""


class ClaimState(Enum):
    FREE = auto()
    READING = auto()
    READY = auto()
    BEGINNING = auto()
    WRITING = auto()
    WAITING = auto()


@dataclass(frozen=True, slots=True)
class TaskRequested:
    """`batch`: the last segment of the task's batch. `slots_from`: the offset from which the batch's slots are."""

    batch: Seq
    task: str
    slots_from: int


@dataclass(frozen=True, slots=True)
class TaskBegun:
    """The claim succeeded."""


@dataclass(frozen=True, slots=True)
class FencedOff:
    """Another instance has the id, or has done the task. This one's producer is closed."""


@dataclass(frozen=True, slots=True)
class Committed:
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Failed:
    """`is_kept`: the producer can continue with the next task."""

    is_kept: bool


ClaimEvent: TypeAlias = TaskRequested | PositionRead | TaskBegun | FencedOff | Committed | Failed


class ClaimStep(Enum):
    """TAKE_ID: read control, raise OwnershipLost if it is another's, take the id, and then READ_POSITION: control, and slots from
    `Claims.read_from` on."""

    TAKE_ID = auto()
    READ_POSITION = auto()
    READ_AGAIN = auto()
    BEGIN_TASK = auto()
    WRITE_ROWS = auto()
    STOP_WRITING = auto()
    AWAIT_TASK = auto()


@dataclass(frozen=True, slots=True)
class TaskAnswer:
    outcome: Outcome


ClaimCommand: TypeAlias = ClaimStep | TaskAnswer


class Claims:
    """Of the transactional id `name`, for the owner's `term`. `output`: for messages. `is_fenced`: a broker fences off other instances."""

    def __init__(self, term: SinkTerm, *, output: str, name: str, is_fenced: bool) -> None:
        self.state = ClaimState.FREE
        self._term, self._output, self._name, self._is_fenced = term, output, name, is_fenced
        self._requested = TaskRequested(Seq(-1), "", 0)
        self._accepted, self._latest = Seq(-1), Seq(-1)
        self._done: dict[tuple[Seq, str], Outcome] = {}
        self._upto = self._claims = 0
        self._wait_until_s = 0.0

    @property
    def read_from(self) -> int:
        """The offset behind those slots of the task's batch that have been read."""
        return max(self._requested.slots_from, self._upto)

    def handle(self, event: ClaimEvent, *, now_s: float) -> ClaimCommand:
        """Raises OwnershipLost, SinkError, with the state as it was."""
        match self.state, event:
            case ((ClaimState.FREE | ClaimState.WAITING | ClaimState.READY), TaskRequested()):
                return self._ask(event)
            case ((ClaimState.READING | ClaimState.WRITING | ClaimState.WAITING), PositionRead()):
                return self._learn(event, now_s)
            case ClaimState.BEGINNING, TaskBegun():
                return self._next(ClaimState.WRITING, ClaimStep.WRITE_ROWS)
            case ClaimState.BEGINNING, FencedOff():
                if self._claims == CLAIMS_MAX:
                    raise SinkError(
                        f"{self._output}: transactional id {self._name} is taken by another again and again",
                        hint="end whatever else writes with this position topic",
                    )
                return self._next(ClaimState.READING, ClaimStep.TAKE_ID)
            case ((ClaimState.READING | ClaimState.WRITING), FencedOff()):
                self._wait_until_s = now_s + TWIN_MAX_S
                return self._next(ClaimState.WAITING, ClaimStep.READ_POSITION)
            case ClaimState.WRITING, Committed(outcome):
                self._done[self._requested.batch, outcome.task] = outcome
                return self._next(ClaimState.READY, TaskAnswer(outcome))
            case ((ClaimState.BEGINNING | ClaimState.WRITING), Failed(is_kept=True)):
                return self._next(ClaimState.READY, ClaimStep.AWAIT_TASK)
            case _, Failed():
                return self._next(ClaimState.FREE, ClaimStep.AWAIT_TASK)
            case _:
                raise AssertionError(f"{event} in {self.state}")

    def _next(self, state: ClaimState, command: ClaimCommand) -> ClaimCommand:
        self.state = state
        return command

    def _ask(self, requested: TaskRequested) -> ClaimCommand:
        self._requested, self._claims = requested, 0
        if requested.batch > self._latest:
            self._latest = requested.batch
            self._done = {place: outcome for place, outcome in self._done.items() if place[0] >= requested.batch}
        if self.state is not ClaimState.READY:
            return self._next(ClaimState.READING, ClaimStep.TAKE_ID)
        return self._answer_or_begin() if self._is_fenced else self._next(ClaimState.READING, ClaimStep.READ_POSITION)

    def _learn(self, read: PositionRead, now_s: float) -> ClaimCommand:
        accepted = check_term(read.control, self._term, self._output).accepted
        self._accepted = accepted.seq if accepted else Seq(-1)
        self._upto = max(self._upto, read.upto)
        self._done |= {(slot.batch, slot.outcome.task): slot.outcome for slot in read.slots if slot.batch >= self._requested.batch}
        if self.state is ClaimState.READING:
            return self._answer_or_begin()
        outcome = self._outcome()
        if self.state is ClaimState.WRITING:
            return ClaimStep.WRITE_ROWS if outcome is None else ClaimStep.STOP_WRITING
        if outcome is not None:
            return self._next(ClaimState.FREE, TaskAnswer(outcome))
        if now_s > self._wait_until_s:
            raise SinkError(
                f"{self._output}: task {self._requested.task} was fenced off by one that has not done it", hint="nothing: it is tried again"
            )
        return ClaimStep.READ_AGAIN

    def _answer_or_begin(self) -> ClaimCommand:
        if (outcome := self._outcome()) is not None:
            return self._next(ClaimState.READY, TaskAnswer(outcome))
        self._claims += 1
        return self._next(ClaimState.BEGINNING, ClaimStep.BEGIN_TASK)

    def _outcome(self) -> Outcome | None:
        """Of the task, if it is done. There is nothing more to report of one whose batch is accepted."""
        batch, task = self._requested.batch, self._requested.task
        return Outcome(task, {}) if batch <= self._accepted or batch < self._latest else self._done.get((batch, task))
