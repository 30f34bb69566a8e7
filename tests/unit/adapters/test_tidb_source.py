"""Whose the watermark row is, over UPDATEs that a server carries out when nobody waits for them any more.

What the source does with a real server is in tests/integration/test_tidb_source.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import pymysql
import pytest

from sidecar.adapters.tidb.source import MarkRow
from sidecar.core.marks import mark_uuid
from sidecar.shared.model.messages import MarkFenced, MarkSent, SendMark
from sidecar.shared.model.nouns import MarkKind
from tests.support.mark_table import MarkTable

DUMP, OTHER = "d" * 16, "e" * 16


class FrozenTable(MarkTable):
    """While `frozen`, statements are left to `carry_out`, and lost for whoever waits."""

    def __init__(self) -> None:
        super().__init__()
        self.frozen = False
        self.late: list[Callable[[], int]] = []

    def change(self, sql: str, values: Sequence[object]) -> int:
        if not self.frozen:
            return super().change(sql, values)
        self.late.append(lambda: MarkTable.change(self, sql, values))
        raise pymysql.err.OperationalError(2013, "Lost connection")

    def thaw(self, *, carry_out: bool) -> None:
        self.frozen = False
        for statement in self.late if carry_out else []:
            statement()
        self.late.clear()


def mark(number: int, *, dump: str = DUMP, epoch: int = 3) -> SendMark:
    return SendMark(mark_uuid(dump, epoch, number), MarkKind.LOW)


def sent(row: MarkRow, table: MarkTable, command: SendMark) -> Any:
    return row.update(cast(Any, table), command)


def give_up(row: MarkRow, table: FrozenTable, command: SendMark) -> None:
    table.frozen = True
    for _ in range(2):
        with pytest.raises(pymysql.err.OperationalError):
            sent(row, table, command)


@pytest.mark.parametrize("carried_out", [True, False])
@pytest.mark.parametrize("dump", [DUMP, OTHER], ids=["of the same dump", "of the next dump"])
def test_a_mark_that_was_given_up_and_comes_late_is_ours(dump: str, carried_out: bool) -> None:
    table, row = FrozenTable(), MarkRow("cf")
    assert sent(row, table, mark(7)) == MarkSent(mark(7).uuid)
    give_up(row, table, mark(8))
    table.thaw(carry_out=carried_out)
    assert sent(row, table, mark(9, dump=dump)) == MarkSent(mark(9, dump=dump).uuid)
    assert table.held["cf"][0] == mark(9, dump=dump).uuid


def test_one_that_comes_after_the_next_changes_nothing() -> None:
    table, row = FrozenTable(), MarkRow("cf")
    sent(row, table, mark(7))
    give_up(row, table, mark(8))
    table.frozen = False
    sent(row, table, mark(9))
    table.thaw(carry_out=True)
    assert table.held["cf"][0] == mark(9).uuid
    assert sent(row, table, mark(10)) == MarkSent(mark(10).uuid)


def test_the_first_row_of_all_may_come_late_as_well() -> None:
    table, row = FrozenTable(), MarkRow("cf")
    give_up(row, table, mark(0))
    table.thaw(carry_out=True)
    assert sent(row, table, mark(0)) == MarkSent(mark(0).uuid)


def test_a_late_mark_of_the_owner_before_is_no_other_sidecars() -> None:
    table, previous, row = FrozenTable(), MarkRow("cf"), MarkRow("cf")
    sent(previous, table, mark(7, epoch=2))
    give_up(previous, table, mark(8, epoch=2))
    row._holds = mark(7, epoch=2).uuid  # it read the row just before
    table.thaw(carry_out=True)
    assert sent(row, table, mark(0)) == MarkSent(mark(0).uuid)
    fenced = sent(previous, table, mark(9, epoch=2))
    assert isinstance(fenced, MarkFenced)


@pytest.mark.parametrize("other", [mark(5, dump=OTHER), mark(5, epoch=4), mark(5, epoch=3)], ids=["dump", "later epoch", "same epoch"])
def test_anybody_elses_row_fences(other: SendMark) -> None:
    table, row = MarkTable(), MarkRow("cf")
    sent(row, table, mark(0))
    table.held["cf"] = (other.uuid, 0)
    fenced = sent(row, table, mark(1))
    assert isinstance(fenced, MarkFenced)
    assert other.uuid in fenced.reason
