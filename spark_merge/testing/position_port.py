"""What every PositionStore keeps, and what PositionKeeper makes of it (spark_merge/sinks/kit/position.py): a suite to be run on each
store, by a class that gives it `output`."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from threading import Barrier
from typing import Any

import pytest

from sidecar.shared.errors import OwnershipLost, SinkError
from sidecar.shared.model.nouns import CommitTs, Seq
from spark_merge.port.contract import Accepted, Owner
from spark_merge.sinks.kit.position import Missed, OutputState, PositionKeeper, PositionStore, Stored

LOG = "default/feed 1#0123456789abcdef0123456789abcdef"
OTHER_LOG = "default/feed 1#fedcba9876543210fedcba9876543210"
REMEDY = "deliver another log to another output"
RACERS = 4


@dataclass(frozen=True, slots=True)
class PositionOutput:
    """One output that nobody has opened. `store`: its store, as another process opens it; `close` after its use. `details`: what the sink
    may keep there, none for a sink that keeps nothing. `payload`: what must go with an accepted position. `term`: what distinguishes
    owners of this store, rising; None: Owner alone."""

    store: Callable[[], PositionStore[Any, Any]]
    details: tuple[Any, ...] = ()
    payload: Callable[[Accepted], Any] = lambda _: None
    close: Callable[[PositionStore[Any, Any]], None] = lambda _: None
    term: Callable[[PositionStore[Any, Any]], Any] | None = None

    def worker(self, log_id: str = LOG) -> PositionWorker:
        return PositionWorker(self, self.store(), log_id)


class PositionWorker:
    """A process that has a keeper of the output."""

    def __init__(self, output: PositionOutput, store: PositionStore[Any, Any], log_id: str = LOG) -> None:
        self.store, self._output = store, output
        self.keeper: PositionKeeper[Any, Any] = PositionKeeper(store, log_id=log_id, remedy=REMEDY)

    def accept(self, last: int, *, first: int) -> Accepted:
        accepted = accepted_of(last)
        self.keeper.accept(accepted, first=Seq(first), payload=self._output.payload(accepted))
        return accepted


def accepted_of(seq: int) -> Accepted:
    return Accepted(Seq(seq), CommitTs((1 << 62) + seq), f"manifest {seq}")


@dataclass(slots=True)
class Unanswered:
    """A store whose next swaps are not answered. `happens`: for each of them whether the store carries it out."""

    real: PositionStore[Any, Any]
    happens: list[bool]
    missed: Missed = Missed.UNKNOWN

    @property
    def place(self) -> str:
        return self.real.place

    def read(self) -> Stored[Any] | None:
        return self.real.read()

    def compare_and_swap(self, before: Stored[Any] | None, after: OutputState[Any], payload: Any = None) -> Stored[Any] | Missed:
        if not self.happens:
            return self.real.compare_and_swap(before, after, payload)
        if self.happens.pop(0):
            assert isinstance(self.real.compare_and_swap(before, after, payload), Stored)
        return self.missed


class PositionPort:
    # ---- opening ----------------------------------------------------------------------------------------------------

    def test_nothing_is_stored_before_the_first_owner(self, output: PositionOutput) -> None:
        assert output.worker().keeper.look() is None

    def test_the_first_owner_starts_with_nothing_accepted(self, output: PositionOutput) -> None:
        state = output.worker().keeper.open(7)
        assert (state.log_id, state.owner, state.accepted, state.detail) == (LOG, Owner(7, 1), None, None)

    def test_each_opening_is_a_later_owner(self, output: PositionOutput) -> None:
        owners = [output.worker().keeper.open(epoch).owner for epoch in (3, 3, None, 5, None)]
        assert owners == [Owner(3, 1), Owner(3, 2), Owner(3, 3), Owner(5, 1), Owner(5, 2)]

    def test_an_earlier_epoch_cannot_open(self, output: PositionOutput) -> None:
        owner = output.worker().keeper.open(5).owner
        with pytest.raises(OwnershipLost, match="epoch 5"):
            output.worker().keeper.open(4)
        assert looked(output).owner == owner

    def test_of_workers_that_open_at_once_each_is_another_owner_and_the_last_one_writes(self, output: PositionOutput) -> None:
        """One whose store fences it meanwhile may give up."""
        workers, together = [output.worker() for _ in range(RACERS)], Barrier(RACERS)

        def race(worker: PositionWorker) -> Any:
            together.wait(timeout=600)
            with suppress(OwnershipLost):
                owner = worker.keeper.open(1).owner
                return owner if output.term is None else output.term(worker.store)
            return None

        with ThreadPoolExecutor(RACERS) as pool:
            raced = list(zip(pool.map(race, workers), workers, strict=True))
        opened = sorted(((term, worker) for term, worker in raced if term is not None), key=lambda pair: pair[0])
        terms = [term for term, _ in opened]
        assert len(set(terms)) == len(terms) > 0
        assert looked(output).owner == opened[-1][1].keeper.state.owner
        for _, worker in opened[:-1]:
            with pytest.raises(OwnershipLost):
                worker.accept(0, first=0)
        assert opened[-1][1].accept(0, first=0) == looked(output).accepted

    # ---- accepting --------------------------------------------------------------------------------------------------

    def test_what_is_accepted_is_there_for_the_next_owner(self, output: PositionOutput) -> None:
        worker = output.worker()
        worker.keeper.open(1)
        worker.accept(2, first=0)
        last = worker.accept(5, first=3)
        assert worker.keeper.state.accepted == looked(output).accepted == last
        assert output.worker().keeper.open(None).accepted == last

    @pytest.mark.parametrize("first", [2, 4])
    def test_a_step_back_and_a_gap_accept_nothing(self, output: PositionOutput, first: int) -> None:
        worker = output.worker()
        worker.keeper.open(1)
        last = worker.accept(2, first=0)
        with pytest.raises(SinkError, match="accepted segment 2"):
            worker.accept(6, first=first)
        assert looked(output).accepted == last
        worker.accept(3, first=3)

    def test_a_detail_is_there_for_the_next_owner_until_a_batch_is_accepted(self, output: PositionOutput) -> None:
        for last, detail in enumerate(output.details):
            worker = output.worker()
            worker.keeper.open(1)
            worker.keeper.change(detail)
            assert looked(output).detail == detail
            following = output.worker()
            assert following.keeper.open(1).detail == detail
            following.accept(last, first=last)
            assert (looked(output).detail, following.keeper.state.detail) == (None, None)

    # ---- ownership --------------------------------------------------------------------------------------------------

    def test_a_replaced_owner_changes_nothing(self, output: PositionOutput) -> None:
        frozen, later = output.worker(), output.worker()
        frozen.keeper.open(1)
        last = frozen.accept(0, first=0)
        later.keeper.open(1)
        with pytest.raises(OwnershipLost):
            frozen.keeper.check()
        with pytest.raises(OwnershipLost):
            frozen.accept(1, first=1)
        for detail in (frozen.keeper.state.detail, *output.details):
            with pytest.raises(OwnershipLost):
                frozen.keeper.change(detail)
        assert looked(output) == replace(later.keeper.state, accepted=last)
        later.keeper.check()
        later.accept(1, first=1)

    def test_a_replaced_owner_changes_nothing_after_the_later_one_has_accepted(self, output: PositionOutput) -> None:
        frozen, later = output.worker(), output.worker()
        frozen.keeper.open(1)
        later.keeper.open(2)
        for seq in range(3):
            last = later.accept(seq, first=seq)
        with pytest.raises(OwnershipLost):
            frozen.accept(0, first=0)
        assert looked(output).accepted == last

    def test_another_log_neither_looks_nor_opens(self, output: PositionOutput) -> None:
        owner = output.worker().keeper.open(1).owner
        other = output.worker(OTHER_LOG).keeper
        for act in (other.look, partial(other.open, 9)):
            with pytest.raises(SinkError, match="is log") as raised:
                act()
            assert raised.value.hint == REMEDY
        assert looked(output).owner == owner

    def test_an_output_that_names_the_changefeed_alone_becomes_this_logs(self, output: PositionOutput) -> None:
        older = output.worker(LOG.partition("#")[0])
        older.keeper.open(1)
        last = older.accept(4, first=0)
        state = output.worker().keeper.open(1)
        assert (state.log_id, state.accepted, looked(output).log_id) == (LOG, last, LOG)

    # ---- lost answers and stale requests ----------------------------------------------------------------------------

    @pytest.mark.parametrize("happens", [[True], [False], [False, False, True]], ids=str)
    def test_an_answer_that_is_lost_is_looked_for(self, output: PositionOutput, happens: list[bool]) -> None:
        worker, store = _unanswered(output)
        store.happens = list(happens)
        worker.keeper.open(1)
        store.happens = list(happens)
        last = worker.accept(0, first=0)
        for number, detail in enumerate(output.details, start=1):
            store.happens = list(happens)
            worker.keeper.change(detail)
            assert looked(output) == replace(worker.keeper.state, accepted=last, detail=detail)
            store.happens = list(happens)
            last = worker.accept(number, first=number)
        assert store.happens == []
        assert looked(output) == worker.keeper.state
        output.worker().keeper.open(1)

    def test_an_owner_that_is_replaced_while_its_answer_is_lost_stops(self, output: PositionOutput) -> None:
        worker, store = _unanswered(output)
        worker.keeper.open(1)
        output.worker().keeper.open(2)
        store.happens = [False]
        with pytest.raises(OwnershipLost):
            worker.accept(0, first=0)
        assert looked(output).accepted is None

    def test_a_store_that_others_write_to_is_swapped_again(self, output: PositionOutput) -> None:
        worker, store = _unanswered(output)
        worker.keeper.open(1)
        store.missed, store.happens = Missed.CONFLICT, [False] * 3
        assert worker.accept(0, first=0) == looked(output).accepted

    def test_a_request_that_arrives_late_changes_nothing(self, output: PositionOutput) -> None:
        worker, store = output.worker(), output.store()
        state = worker.keeper.open(1)
        before = store.read()
        worker.accept(0, first=0)
        late = accepted_of(7)
        assert isinstance(store.compare_and_swap(before, replace(state, accepted=late), output.payload(late)), Missed)
        assert isinstance(store.compare_and_swap(None, OutputState(LOG, Owner(9, 9))), Missed)
        assert looked(output) == worker.keeper.state
        worker.accept(1, first=1)
        output.close(store)


def _unanswered(output: PositionOutput) -> tuple[PositionWorker, Unanswered]:
    store = Unanswered(output.store(), [])
    return PositionWorker(output, store, LOG), store


def looked(output: PositionOutput) -> OutputState[Any]:
    worker = output.worker()
    state = worker.keeper.stored()
    output.close(worker.store)
    assert state is not None
    return state
