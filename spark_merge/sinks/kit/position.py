"""How far an output is and which worker may write it: one durable state for each output, which changes by compare-and-swap only.

    stored    read → is it this log's?
    open      read → is it this log's? → the next owner → swap; after a conflict or an unknown result: read again, the owner after that
    change    the owner's next state → swap; after a conflict or an unknown result: read → another owner: OwnershipLost
              │                                                                         the next state is there: done
              │                                                                         the state is as it was: swap again
              │                                                                         anything else: SinkError

Rules
- A swap succeeds only on the state that its caller has read. So every owner is unique, and once a later owner is in the state, no swap of
  an earlier one succeeds: however late its request arrives, and whatever became of the answer.
- A swap whose result is unknown is never taken for done or for failed before the state has been read again.
- `accepted` moves forward by whole batches: the first segment of a batch is the one after `accepted`.

What a store is made of, in which format, and what else becomes durable with a swap (its payload) is the sink's. The state of an output that
0.1 to 0.4 wrote stays readable.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Generic, Protocol, TypeVar

from sidecar.shared.errors import OwnershipLost, SinkError
from sidecar.shared.model.nouns import CommitTs, Seq
from spark_merge.port.contract import Accepted, Owner
from spark_merge.sinks.kit.fence import check_log, check_next

SWAPS_MAX = 100
"""Swaps of one change, where others write to the store and leave the state as it is (a compaction of its table), or answers are lost."""

Detail = TypeVar("Detail")
Payload = TypeVar("Payload")
Payload_contra = TypeVar("Payload_contra", contravariant=True)


@dataclass(frozen=True, slots=True)
class OutputState(Generic[Detail]):
    """`log_id`: the log that the output is of. `accepted`: the last segment that it has, None at the start. `detail`: what the sink keeps
    in the same place, such as a batch that has begun; None at the start."""

    log_id: str
    owner: Owner
    accepted: Accepted | None = None
    detail: Detail | None = None


@dataclass(frozen=True, slots=True)
class Stored(Generic[Detail]):
    """A state as the store has it. `version`: the store's own, what its next swap compares."""

    state: OutputState[Detail]
    version: Any = None


class Missed(Enum):
    """CONFLICT: the store had another version, and nothing was written. UNKNOWN: the answer was lost; the swap may have succeeded, or may
    still succeed on this version later."""

    CONFLICT = "conflict"
    UNKNOWN = "unknown"


class PositionStore(Protocol[Detail, Payload_contra]):
    """The place of one output's state. One thread at a time. Both calls raise SinkError for a store that cannot be reached (after the
    driver's own retries) or that holds something else."""

    @property
    def place(self) -> str:
        """What an error calls it."""

    def read(self) -> Stored[Detail] | None:
        """The state after all swaps that were answered before the call; None before the first one. Writes nothing."""

    def compare_and_swap(
        self, before: Stored[Detail] | None, after: OutputState[Detail], payload: Payload_contra | None = None
    ) -> Stored[Detail] | Missed:
        """Write `after` and `payload`, both or neither, if the state still has the version of `before` (None: if there is none; then what
        holds the state is created first). Returns it as stored, durable."""


class PositionKeeper(Generic[Detail, Payload]):
    """What every sink does with its store. One thread. `remedy`: what an operator does who meets another log's output there."""

    def __init__(self, store: PositionStore[Detail, Payload], *, log_id: str, remedy: str) -> None:
        self._store, self._log_id, self._remedy = store, log_id, remedy
        self._known: Stored[Detail] | None = None

    @property
    def state(self) -> OutputState[Detail]:
        """As this owner wrote it last."""
        return self._own().state

    def look(self) -> Accepted | None:
        """`Sink.look`."""
        stored = self.stored()
        return None if stored is None else stored.accepted

    def stored(self) -> OutputState[Detail] | None:
        """What is stored, of whichever owner; None before the first owner. Raises SinkError for another log's output."""
        stored = self._read()
        return None if stored is None else stored.state

    def open(self, epoch: int | None) -> OutputState[Detail]:
        """Become the owner; `epoch` as in `Sink.open`. Raises OwnershipLost if a later epoch owns the output, SinkError as `stored`."""
        for _ in range(SWAPS_MAX):
            before = self._read()
            owner = Owner.after(before.state.owner if before else None, epoch, of=self._store.place)
            start: OutputState[Detail] = before.state if before else OutputState(self._log_id, owner)
            after = replace(start, log_id=self._log_id, owner=owner)
            result = self._store.compare_and_swap(before, after)
            if isinstance(result, Stored):
                self._known = result
                return result.state
        raise self._outpaced()

    def check(self) -> None:
        """Raises OwnershipLost if another worker has opened the output since."""
        stored = self._read_own()
        if stored.state == self.state:
            self._known = stored

    def check_next(self, first: Seq) -> None:
        """Raises SinkError if `first` is not the segment after the last accepted one."""
        accepted = self.state.accepted
        check_next(self._store.place, accepted and accepted.seq, first)

    def change(self, detail: Detail | None, *, payload: Payload | None = None) -> None:
        """Store `detail`. Raises OwnershipLost, SinkError."""
        self._swap(replace(self.state, detail=detail), payload)

    def accept(self, accepted: Accepted, *, first: Seq, detail: Detail | None = None, payload: Payload | None = None) -> None:
        """Accept the segments from `first` to `accepted`. Raises OwnershipLost, SinkError as `check_next`; then nothing is accepted."""
        self.check_next(first)
        self._swap(replace(self.state, accepted=accepted, detail=detail), payload)

    # ---- steps ------------------------------------------------------------------------------------------------------

    def _swap(self, after: OutputState[Detail], payload: Payload | None) -> None:
        before = self._own()
        if before.state == after and payload is None:
            self.check()
            return
        for _ in range(SWAPS_MAX):
            result = self._store.compare_and_swap(before, after, payload)
            if isinstance(result, Stored):
                self._known = result
                return
            stored = self._read_own()
            if stored.state == after:
                self._known = stored
                return
            if stored.state != before.state:
                raise SinkError(
                    f"{self._store.place} has {stored.state}, and its owner wrote {before.state}",
                    hint="restart the merge worker: it continues from what is stored; if this repeats, find out what else writes there",
                )
            before = stored
        raise self._outpaced()

    def _own(self) -> Stored[Detail]:
        assert self._known is not None, "open comes first"
        return self._known

    def _read_own(self) -> Stored[Detail]:
        stored, mine = self._read(), self._own().state.owner
        check_owner(self._store.place, stored, mine)
        assert stored is not None
        return stored

    def _read(self) -> Stored[Detail] | None:
        stored = self._store.read()
        if stored is not None:
            check_log(self._store.place, stored.state.log_id, self._log_id, hint=self._remedy)
        return stored

    def _outpaced(self) -> SinkError:
        return SinkError(
            f"{self._store.place} is changed by others faster than it can be written, or its answers are lost, {SWAPS_MAX} times in a row",
            hint="find out what else writes there (each changefeed needs a position of its own), and look at the target's own log",
        )


def to_fields(accepted: Accepted | None) -> tuple[int | None, int | None, str]:
    """Its fields for a store, in this order: the segment, its upto_ts, the manifest. A store names them as it likes."""
    return accepted or (None, None, "")


def from_fields(seq: int | str | None, upto_ts: int | str | None, manifest: str) -> Accepted | None:
    """Inverse of `to_fields`; numbers may have become decimal texts. Raises ValueError for a text that is none."""
    return None if seq is None else Accepted(Seq(int(seq)), None if upto_ts is None else CommitTs(int(upto_ts)), manifest)


def as_text(number: int | None) -> str | None:
    """A ts for a store whose readers know only doubles, which would round it."""
    return None if number is None else str(number)


def check_owner(place: object, stored: Stored[Any] | None, mine: Owner) -> None:
    """For the driver, and for tasks. `stored`: the state of the output at `place`. Raises OwnershipLost if its owner is not `mine`,
    SinkError where there is no state."""
    if stored is None:
        raise gone(place)
    owner = stored.state.owner
    if owner != mine:
        raise OwnershipLost(
            f"{place} has owner {owner.epoch}-{owner.incarnation}, and this worker is owner {mine.epoch}-{mine.incarnation}: it can write"
            " nothing more",
            hint="nothing, if the other worker was started in place of this one; else stop one of them: a log has one merge worker",
        )


def gone(place: object) -> SinkError:
    return SinkError(f"{place}, which held the position, is gone", hint="restore it, or deliver to a new output and dump again")
