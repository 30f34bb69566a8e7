"""A batch that the target has while its DDLs are pending: the order of its end, and what is done when it comes again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sidecar.shared.errors import OwnershipLost, SinkError
from sidecar.shared.model.nouns import CommitTs, Seq
from spark_merge.port.contract import Accepted, Head, Outcome, Portion, Task, Unit, Writer
from spark_merge.sinks.kit.position import PositionKeeper
from spark_merge.sinks.kit.written import count_rows, end_with_ddls, planned
from spark_merge.sinks.memory.positions import MemoryPositions
from tests.unit.merge.test_cut import head


def opened(store: MemoryPositions[str, None]) -> PositionKeeper[str, None]:
    keeper: PositionKeeper[str, None] = PositionKeeper(store, log_id="log", remedy="")
    keeper.open(None)
    return keeper


def heads(*seqs: int) -> list[Head]:
    return [head(seq, {}) for seq in seqs]


def test_written_is_on_record_before_the_first_ddl() -> None:
    store = MemoryPositions[str, None]()
    keeper, seen = opened(store), list[str | None]()

    def carry_out() -> None:
        assert store.stored is not None
        seen.append(store.stored.state.detail)

    end_with_ddls(keeper, heads(0, 1), note=lambda: keeper.change("written"), carry_out=carry_out)
    assert seen == ["written"]
    assert keeper.look() is None, "the acceptance comes after it"


def test_a_replaced_owner_and_a_batch_that_is_not_the_next_one_change_nothing() -> None:
    store = MemoryPositions[str, None]()
    keeper, steps = opened(store), list[str]()
    keeper.accept(Accepted(Seq(4), CommitTs(9), "m"), first=Seq(0))
    for first, replaced, raised in ((7, False, SinkError), (5, True, OwnershipLost)):
        if replaced:
            opened(store)
        with pytest.raises(raised):
            end_with_ddls(keeper, heads(first), note=lambda: steps.append("note"), carry_out=lambda: steps.append("DDL"))
    assert steps == []


@pytest.mark.parametrize("written", [True, False])
def test_of_a_batch_that_is_written_no_table_is_made_ready_and_tasks_count(written: bool) -> None:
    made = list[str]()

    def write(task: Task, portions: Iterator[Portion]) -> Outcome:
        return count_rows(task, portions)

    def writer() -> Writer:
        made.append("ready")
        return write

    stage = (Task("1", (Unit(Seq(5), live=True),)),)
    batch = planned(heads(5), [stage], written=written, writer=writer)
    assert (batch.stages, batch.writer, made) == ((stage,), count_rows if written else write, [] if written else ["ready"])
