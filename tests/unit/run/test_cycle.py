"""Slices of a continuous verification: a pass has each row once, what is known of the others stays right, and the pace."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import pytest

from sidecar.run import cycle
from sidecar.run.cycle import DAY_MS, ROWS_MIN, Cycle, TableInSink, TableTurn
from sidecar.shared.log.verification import CheckState, Slice, TableReport
from sidecar.shared.model.nouns import TableName

Key = tuple[str, ...]
ORDERS, ITEM, ZONE = (TableInSink("copy", TableName("shop", name)) for name in ("orders", "item", "zone"))


@dataclass
class SlicedRows:
    """A table in the order of its key, and a worker that compares slices of it: as table_check does. `differing`: keys whose rows differ.
    `compared_ms`: of each key, when it was compared last. `seen`: differing when it was compared last."""

    rng: Random
    keys: set[Key] = field(default_factory=set)
    differing: set[Key] = field(default_factory=set)
    compared_ms: dict[Key, int] = field(default_factory=dict)
    seen: set[Key] = field(default_factory=set)

    def live(self, count: int) -> set[Key]:
        """Rows come, in clusters, and go. Returns those that went."""
        cluster = self.rng.randrange(1000)
        self.keys |= {(f"{cluster + self.rng.randrange(30):06}",) for _ in range(count)}
        gone = set(self.rng.sample(sorted(self.keys), min(len(self.keys), self.rng.randrange(count + 1))))
        self.keys -= gone
        return gone

    def compare(self, part: Slice, at_ms: int) -> tuple[TableReport, list[Key]]:
        """The statistics are wrong."""
        results = [key for key in sorted(self.keys) if key > part.after and (not part.upper or key <= part.upper)]
        rows = results[: part.rows]
        upper = rows[-1] if len(rows) < len(results) else part.upper
        self.compared_ms |= dict.fromkeys(rows, at_ms)
        self.seen = (self.seen - set(rows)) | (self.differing & set(rows))
        differences = len(self.differing & set(rows))
        state = CheckState.DIFFERENT if differences else CheckState.EQUAL
        report = TableReport("copy", "shop", "orders", state, rows=len(rows), rows_total=self.rng.randrange(2 * len(self.keys) + 2))
        report.different, report.lower, report.upper = differences, part.after, upper
        return report, rows


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cycle, "SLICE_ROWS", 10)


def test_a_pass_has_each_row_once_whatever_is_written_and_estimated() -> None:
    for seed in range(60):
        rng = Random(seed)
        table, turn, now_ms = SlicedRows(rng), TableTurn("copy", "shop", "orders"), 0
        table.live(rng.choice([0, 3, 80]))
        for _ in range(4):
            there, read = set(table.keys), list[Key]()
            while not read or turn.behind:
                now_ms += 1
                part = turn.next_slice()
                if rng.random() < 0.1:  # the sink is away
                    turn.ended(part, rng.choice([None, TableReport("copy", "shop", "orders", CheckState.FAILED)]), now_ms)
                    continue
                report, rows = table.compare(part, now_ms)
                turn.ended(part, report, now_ms)
                read += rows
                assert len(read) == len(set(read)), f"seed {seed}: none twice"
                there -= table.live(rng.randrange(1, 15))
                if not table.keys and not turn.behind:
                    break
            assert there <= set(read), f"seed {seed}: none is passed over"
            assert turn.oldest_ms is not None


def test_what_differs_and_the_age_are_of_the_last_comparison_of_each_row() -> None:
    for seed in range(20):
        rng = Random(seed)
        keys: set[Key] = {(f"{number:06}",) for number in rng.sample(range(1000), 200)}
        table, turn = SlicedRows(rng, keys), TableTurn("copy", "shop", "orders")
        for now_ms in range(1, 80):
            if rng.random() < 0.5:
                table.differing = set(rng.sample(sorted(keys), rng.randrange(20)))
            part = turn.next_slice()
            report, _ = table.compare(part, now_ms)
            turn.ended(part, report, now_ms)
            assert turn.differences == len(table.seen)
            whole = table.keys <= table.compared_ms.keys()
            assert turn.oldest_ms == (min(table.compared_ms.values()) if whole else None)


def test_slices_that_have_lost_their_rows_become_one() -> None:
    turn = TableTurn("copy", "shop", "orders", ahead=[cycle.CoveredSlice((key,), 3, 0, 1) for key in "abcde"])
    assert turn.next_slice() == Slice((), ("c",), 10)


def test_a_large_table_has_larger_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cycle, "SLICES_MAX", 100)
    assert TableTurn("copy", "shop", "orders", rows=7000).next_slice().rows == 70


def test_a_pass_begins_again_where_the_key_has_other_columns() -> None:
    turn = TableTurn("copy", "shop", "orders", behind=[cycle.CoveredSlice(("a",), 9, 3, 1)])
    part = turn.next_slice()
    turn.ended(part, TableReport("copy", "shop", "orders", CheckState.EQUAL, rows=9, upper=("x", "1")), 2)
    assert (turn.oldest_ms, turn.differences) == (None, 0)
    assert turn.next_slice().after == ("x", "1")


def test_a_sink_that_does_not_find_keys_is_compared_whole() -> None:
    turn = TableTurn("copy", "shop", "orders", behind=[cycle.CoveredSlice(("a",), 9, 3, 1)])
    turn.ended(turn.next_slice(), TableReport("copy", "shop", "orders", CheckState.EQUAL, rows=90), 2)
    assert (turn.oldest_ms, turn.differences) == (2, 0)


# ---- tables, and the pace ---------------------------------------------------------------------------------------------------


def compared(value: Cycle, at_ms: int, *, rows: int = 5, upper: Key = (), state: CheckState = CheckState.EQUAL) -> TableInSink:
    turn = value.next([one.name for one in value.tables])
    assert turn is not None
    part = turn.next_slice()
    report = TableReport(turn.sink, turn.schema, turn.table, state, rows=rows, rows_total=rows, lower=part.after, upper=upper)
    value.ended(turn, part, report, at_ms)
    return turn.name


def test_a_pass_is_ended_before_another_table_which_waits_longest() -> None:
    result = Cycle()
    result.follow([ORDERS, ITEM])
    assert [compared(result, 1, upper=("k",)), compared(result, 2), compared(result, 3), compared(result, 4)] == [ITEM, ITEM, ORDERS, ITEM]


def test_a_sink_that_is_away_does_not_keep_the_others_waiting() -> None:
    result = Cycle()
    result.follow([ORDERS, ITEM])
    compared(result, 1, upper=("k",))
    assert compared(result, 2, state=CheckState.FAILED) == ITEM
    assert compared(result, 3) == ORDERS
    assert result.tables[0].next_slice().after == ("k",), "it goes on there"


def test_only_tables_that_are_ready_are_compared() -> None:
    result = Cycle()
    result.follow([ORDERS, ITEM])
    turn = result.next([ORDERS])
    assert turn is not None
    assert turn.name == ORDERS
    assert result.next([]) is None


def test_tables_come_and_go() -> None:
    result = Cycle()
    assert [one.name for one in result.follow([ORDERS, ITEM])] == [ITEM, ORDERS]
    compared(result, 1)
    assert [one.name for one in result.follow([ZONE, ITEM])] == [ZONE]
    assert [(one.name, one.oldest_ms) for one in result.tables] == [(ITEM, 1), (ZONE, None)]


@pytest.mark.parametrize("share_per_day", [1.0, 0.05])
def test_a_cycle_takes_its_time(share_per_day: float) -> None:
    result, now_ms = Cycle(), 10**12
    began_ms = now_ms
    result.follow([ORDERS, ITEM, ZONE])
    result.estimated({ORDERS.table: 90_000, ITEM.table: 10_000, ZONE.table: 3})
    assert result.due_ms(share_per_day) <= now_ms, "the first slice is due at once"
    seen: list[TableInSink] = []
    while len(seen) < 12:
        turn = result.next([ORDERS, ITEM, ZONE])
        assert turn is not None
        rows = min(turn.rows, 10_000)
        upper = (f"{len(turn.behind)}",) if (len(turn.behind) + 1) * 10_000 < turn.rows else ()
        seen.append(compared_rows(result, turn, rows, upper, now_ms))
        due_ms = result.due_ms(share_per_day)
        assert due_ms > now_ms
        now_ms = int(due_ms)
        if len(seen) == 11:
            assert {one.name for one in result.tables if one.oldest_ms is not None} == {ORDERS, ITEM, ZONE}
            assert now_ms - began_ms == pytest.approx(DAY_MS / share_per_day, rel=0.01)


def compared_rows(value: Cycle, turn: TableTurn, rows: int, upper: Key, at_ms: int) -> TableInSink:
    part = turn.next_slice()
    report = TableReport(turn.sink, turn.schema, turn.table, CheckState.EQUAL, rows=rows, rows_total=turn.rows)
    report.lower, report.upper = part.after, upper
    value.ended(turn, part, report, at_ms)
    return turn.name


def test_what_an_outage_delays_is_not_made_up_for() -> None:
    result = Cycle()
    result.follow([ORDERS, ITEM])
    compared(result, 5 * DAY_MS)
    compared(result, 50 * DAY_MS)
    assert result.due_ms(1.0) == 50.5 * DAY_MS


def test_a_slice_that_failed_has_its_pause() -> None:
    result = Cycle()
    result.follow([ORDERS, ITEM])
    result.estimated({ORDERS.table: 3 * ROWS_MIN, ITEM.table: ROWS_MIN})
    compared(result, 1, rows=0, state=CheckState.FAILED)
    assert result.due_ms(1.0) == 1 + 10 / (4 * ROWS_MIN) * DAY_MS, "of the rows that it would have had"


def test_a_table_that_an_operator_verifies_is_compared() -> None:
    result = Cycle()
    result.follow([ORDERS])
    compared(result, 1, upper=("k",))
    report = TableReport("copy", "shop", "orders", CheckState.DIFFERENT, rows=7, missing=2, seconds=3.0)
    part = TableReport("copy", "shop", "zone", CheckState.EQUAL, partial=True)
    away = TableReport("copy", "shop", "item", CheckState.FAILED)
    assert result.compared([report, part, away], 5000)
    assert [(one.name, one.oldest_ms, one.differences) for one in result.tables] == [(ORDERS, 2000, 2)]
    assert not result.compared([part, away], 6000)


@pytest.mark.parametrize("ends", [CheckState.SKIPPED, CheckState.FAILED, CheckState.INCOMPLETE, None])
def test_a_table_that_never_could_be_compared_waits_since_it_was_tried_first(ends: CheckState | None) -> None:
    turn, part = TableTurn("copy", "shop", "orders"), Slice((), (), 10)
    assert turn.oldest_ms is None
    for at_ms in (5, 6, 7):
        turn.ended(part, None if ends is None else TableReport("copy", "shop", "orders", ends), at_ms)
        assert [turn.failed, turn.oldest_ms, turn.differences] == [True, 5, None]
    turn.ended(part, TableReport("copy", "shop", "orders", CheckState.EQUAL, rows=3), 8)
    assert [turn.failed, turn.oldest_ms, turn.differences] == [False, 8, 0]


@pytest.mark.parametrize("state", [CheckState.EQUAL, CheckState.DIFFERENT])
def test_a_slice_of_which_some_ranges_were_left_is_not_covered(state: CheckState) -> None:
    turn = TableTurn("copy", "shop", "orders")
    turn.ended(Slice((), (), 10), TableReport("copy", "shop", "orders", state, rows=3, missing=1, parts=9, parts_done=4), 8)
    assert (turn.failed, turn.behind, turn.ahead) == (True, [], [])
