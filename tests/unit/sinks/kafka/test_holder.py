"""Whose holder of a transactional id a task gets, and that none is left open."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from spark_merge.port.contract import Owner
from spark_merge.sinks.kafka import holder
from spark_merge.sinks.kafka.holder import IdHolder, IdHolders
from spark_merge.sinks.kafka.output import Output
from spark_merge.sinks.kafka.position_records import SinkTerm

OUTPUT = cast(Output, SimpleNamespace(cluster=SimpleNamespace(brokers="b:9092"), transactional_id=str, transactions=True))
FIRST, SECOND = SinkTerm(Owner(1, 1)), SinkTerm(Owner(1, 2))


class Noted(IdHolder):
    """One that knows whether it is open."""

    def __init__(self, output: Output, number: int, term: SinkTerm) -> None:
        super().__init__(output, number, term)
        self.is_open = True

    def close(self) -> None:
        self.is_open = False


@pytest.fixture
def holders(monkeypatch: pytest.MonkeyPatch) -> IdHolders:
    monkeypatch.setattr(holder, "IdHolder", Noted)
    return IdHolders()


def test_tasks_of_one_term_have_one_holder_which_stays_open(holders: IdHolders) -> None:
    with holders.held(OUTPUT, 0, FIRST) as one:
        pass
    with holders.held(OUTPUT, 0, FIRST) as again:
        assert again is one
    assert cast(Noted, one).is_open
    holders.release()
    assert not cast(Noted, one).is_open


def test_the_holder_of_an_earlier_term_is_closed_by_the_next_one(holders: IdHolders) -> None:
    with holders.held(OUTPUT, 0, FIRST) as previous:
        pass
    with holders.held(OUTPUT, 0, SECOND) as later:
        assert not cast(Noted, previous).is_open
    assert cast(Noted, later).is_open


def test_one_that_is_at_work_is_closed_by_its_own_task(holders: IdHolders) -> None:
    with holders.held(OUTPUT, 0, FIRST) as previous:
        with holders.held(OUTPUT, 0, SECOND) as later:
            assert cast(Noted, previous).is_open
        assert cast(Noted, later).is_open
    assert not cast(Noted, previous).is_open


def test_a_task_of_an_earlier_term_closes_the_one_that_it_got(holders: IdHolders) -> None:
    with holders.held(OUTPUT, 0, SECOND) as later:
        pass
    with holders.held(OUTPUT, 0, FIRST) as previous:
        assert previous is not later
    assert (cast(Noted, previous).is_open, cast(Noted, later).is_open) == (False, True)
