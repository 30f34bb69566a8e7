"""Which rows a continuous verification compares next. Pure: no clock, no files.

    table ─► slice, slice, slice … : a pass ─► the table that waits longest ─► …        a cycle: a pass of each table in each sink

- A slice begins behind the last key of the slice before it. So a pass has each row once, whatever is written or estimated meanwhile.
- `ahead` are the slices of the pass before that are not compared again yet. A slice ends where one of them ends, unless it has too many
  rows. So what is known of the others stays right.
- After a slice comes a pause: the slice's part of all rows, as a part of the cycle's time. What an outage delays is not made up for.
- A verification of a whole table by an operator is a pass.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from sidecar.shared.log.verification import CheckState, Slice, TableReport
from sidecar.shared.model.nouns import TableName

DAY_MS = 86_400_000

SLICE_ROWS = 1_000_000
"""Of a slice, about: minutes of work."""

SLICES_MAX = 1_000
"""Of a table, about. A larger table has larger slices."""

ROWS_MIN = 1_000
"""What a slice costs, however few rows it has."""

COMPARED = (CheckState.EQUAL, CheckState.DIFFERENT)


class TableInSink(NamedTuple):
    sink: str
    table: TableName


class CoveredSlice(msgspec.Struct, frozen=True):
    """Rows up to key `upper` (empty: the table's last ones), compared at `at_ms` since 1970."""

    upper: tuple[str, ...]
    rows: int
    differences: int
    at_ms: int


class VerifiedTable(NamedTuple):
    """For metrics. `age_s`: since the rows were compared that wait longest, or since none could be; None: a first pass is under way.
    `differences`: as of TableTurn."""

    name: TableInSink
    age_s: float | None
    differences: int | None


class VerifiedSinks(NamedTuple):
    """`cycle_s`: what a cycle is to take; 0: there is none."""

    tables: Sequence[VerifiedTable]
    cycle_s: float


class TableTurn(msgspec.Struct):
    """One table in one sink. `rows`: by the source's statistics. `tried_ms`: the end of its last slice, which was not compared if
    `failed`, and none since `failing_ms` (0: the last one was). `behind`: the slices of this pass."""

    sink: str
    schema: str
    table: str
    rows: int = 0
    tried_ms: int = 0
    failed: bool = False
    failing_ms: int = 0
    behind: list[CoveredSlice] = []
    ahead: list[CoveredSlice] = []

    @property
    def name(self) -> TableInSink:
        return TableInSink(self.sink, TableName(self.schema, self.table))

    @property
    def cost(self) -> int:
        """In rows, of a pass."""
        return max(self.rows, ROWS_MIN)

    @property
    def oldest_ms(self) -> int | None:
        """When the slice was compared that waits longest, or since when none could be; None: a first pass is under way."""
        return min(one.at_ms for one in (*self.ahead, *self.behind)) if self.ahead else self.failing_ms or None

    @property
    def differences(self) -> int | None:
        """Rows that differed when they were compared last; None: none was compared."""
        covered = (*self.ahead, *self.behind)
        return sum(one.differences for one in covered) if covered else None

    def next_slice(self) -> Slice:
        """As many slices of the pass before as make one."""
        rows = max(SLICE_ROWS, self.rows // SLICES_MAX)
        upper: tuple[str, ...] = ()
        count = 0
        for one in self.ahead:
            if count and count + one.rows > rows:
                break
            upper, count = one.upper, count + one.rows
        return Slice(self.behind[-1].upper if self.behind else (), upper, rows)

    def ended(self, part: Slice, report: TableReport | None, at_ms: int) -> int:
        """A verification of `part`; `report` None: there is no report. Returns its rows, as a part of the cycle."""
        self.tried_ms, self.failed = at_ms, report is None or not _is_whole(report)
        self.failing_ms = (self.failing_ms or at_ms) if self.failed else 0
        if report is None or self.failed:
            return min(self.cost, part.rows)
        self.rows = report.rows_total or self.rows
        if report.lower != part.after:
            self.behind, self.ahead = [], []  # the bounds are none of the table's key any more, or the sink finds no keys
        self.behind.append(CoveredSlice(report.upper, report.rows, report.differences, at_ms))
        ends = [number for number, one in enumerate(self.ahead, 1) if one.upper == report.upper]
        self.ahead = self.ahead[ends[0] :] if ends else self.ahead
        if not report.upper:
            self.behind, self.ahead = [], self.behind
        return max(report.rows, ROWS_MIN)


class Cycle(msgspec.Struct):
    """The turns of the tables, and the id of the slice's verification that is under way; empty: none is. `share`: the part of all rows that
    the last slice had. It ended at `ended_ms`."""

    tables: list[TableTurn] = []
    asked: str = ""
    share: float = 0.0
    ended_ms: int = 0

    def due_ms(self, share_per_day: float) -> float:
        return self.ended_ms + self.share * DAY_MS / share_per_day

    def turn(self, name: TableInSink) -> TableTurn:
        """It is added if it is new."""
        turn = next((one for one in self.tables if one.name == name), None)
        if turn is None:
            turn = TableTurn(name.sink, *name.table)
            self.tables.append(turn)
        return turn

    def follow(self, names: Collection[TableInSink]) -> list[TableTurn]:
        """Tables come and go. Returns the new ones."""
        kept, wanted = {one.name: one for one in self.tables}, sorted(names)
        self.tables = [kept.get(name) or TableTurn(name.sink, *name.table) for name in wanted]
        return [one for one in self.tables if one.name not in kept]

    def next(self, ready: Collection[TableInSink]) -> TableTurn | None:
        """Of those that are ready the one that has begun a pass, else the one that waits longest."""
        turns = [one for one in self.tables if one.name in ready]
        begun = [one for one in turns if one.behind and not one.failed]
        return min(begun or turns, key=lambda one: one.tried_ms, default=None)

    def ended(self, turn: TableTurn, part: Slice, report: TableReport | None, at_ms: int) -> None:
        self.share = turn.ended(part, report, at_ms) / sum(one.cost for one in self.tables)
        self.asked, self.ended_ms = "", at_ms

    def compared(self, reports: Iterable[TableReport], at_ms: int) -> bool:
        """Whole tables, by an operator. Returns whether any of them is one."""
        whole = [report for report in reports if _is_whole(report) and not report.partial]
        for report in whole:
            turn = self.turn(TableInSink(report.sink, report.name))
            turn.behind = []
            turn.ended(Slice((), (), SLICE_ROWS), report, at_ms - int(report.seconds * 1000))
        return bool(whole)

    def estimated(self, rows: Mapping[TableName, int]) -> None:
        """Of tables that were not compared yet."""
        for one in self.tables:
            one.rows = one.rows or rows.get(one.name.table, 0)


def _is_whole(report: TableReport) -> bool:
    """All ranges were compared: one that could not keep up has left some, and can have differences all the same."""
    return report.state in COMPARED and report.parts_done >= report.parts


def cycle_from_json(data: bytes) -> Cycle:
    """Raises ValueError for what is not one."""
    try:
        return msgspec.json.decode(data, type=Cycle)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not the state of a continuous verification: {error}") from error
