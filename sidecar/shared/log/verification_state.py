"""What is read of a verification again and again, as a file beside its report: how far it is, what it keeps, whether its process dies.

A report of 90,000 tables takes half a second to decode. So it is decoded when somebody asks for all of it, and once when it is over. The
state is written after the report of which it is; one that is not there, or cannot be read, is made of the report.

- Time left goes by rows: a table counts what its statistics say, and one of which nothing is known counts as the others do on average.
  In a table it goes by ranges.
- The time that it has taken is that of its processes. An outage is no work.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from sidecar.shared.log.verification import OVER, TABLE_OVER, CheckState, StoredId, TableReport, VerifyReport, VerifyRequest

SHOWN_MAX = 40
"""Tables of a state: a screen."""

SHARE_MIN = 0.02
"""Of the work. From less of it nobody knows how long the rest takes."""

TABLE_ROWS_MIN = 1_000
"""What a table costs, however few rows it has."""

_ORDER = (CheckState.DIFFERENT, CheckState.FAILED, CheckState.SKIPPED, CheckState.INCOMPLETE, CheckState.RUNNING)


class VerifyState(msgspec.Struct, frozen=True):
    """As of VerifyReport. `request`: without its tables; None: not known. `tables`: how many are in each state; `rows`, `differences`: of
    all. `shown`: the first ones of those that are under way or not equal, without examples. `differing`: whether a repair can correct
    some. `rows_per_s`, `remaining_s`: of one that runs, about; 0: not known."""

    id: StoredId
    state: CheckState
    started_ms: int
    request: VerifyRequest | None = None
    ended_ms: int = 0
    written_ms: int = 0
    needs_from: int | None = None
    waiting_for: str = ""
    tables: Mapping[CheckState, int] = {}
    rows: int = 0
    differences: int = 0
    differing: bool = False
    rows_per_s: float = 0.0
    remaining_s: float = 0.0
    shown: tuple[TableReport, ...] = ()

    @property
    def is_over(self) -> bool:
        return self.state in OVER

    def to_json(self) -> bytes:
        return msgspec.json.encode(self)


def state_of(report: VerifyReport, request: VerifyRequest | None) -> VerifyState:
    rows = sum(one.rows for one in report.tables)
    seconds = report.worked_s or max(report.written_ms - report.started_ms, 0) / 1000
    share = share_done(report.tables)
    return VerifyState(
        report.id,
        report.state,
        report.started_ms,
        request=None if request is None else msgspec.structs.replace(request, tables=(), unjudged=()),
        ended_ms=report.ended_ms,
        written_ms=report.written_ms,
        needs_from=report.needs_from,
        waiting_for=report.waits,
        tables=Counter(one.state for one in report.tables),
        rows=rows,
        differences=sum(one.differences for one in report.tables),
        differing=bool(report.differing),
        rows_per_s=rows / seconds if seconds > 0 else 0.0,
        remaining_s=seconds * (1 - share) / share if share >= SHARE_MIN else 0.0,
        shown=_shown(report.tables),
    )


def share_done(tables: Sequence[TableReport]) -> float:
    """Of the work."""
    known = [one.rows_total for one in tables if one.rows_total]
    usual = sum(known) / len(known) if known else 0.0
    costs = [max(one.rows_total or usual, one.rows, TABLE_ROWS_MIN) for one in tables]
    done = [1.0 if one.state in TABLE_OVER else one.parts_done / max(one.parts, one.parts_done, 1) for one in tables]
    return sum(cost * part for cost, part in zip(costs, done, strict=True)) / (sum(costs) or 1)


def _shown(tables: Sequence[TableReport]) -> tuple[TableReport, ...]:
    shown = [one for state in _ORDER for one in tables if one.state is state][:SHOWN_MAX]
    return tuple(msgspec.structs.replace(one, examples=[]) for one in shown)


DEATHS_MAX, DEATHS_IN_ALL_MAX = 5, 20
"""Of the processes of a verification: without a piece of work done between them, and in all. It would die for ever, at one place or at two
in turn."""


class Beginnings(msgspec.Struct, frozen=True):
    """How many `times` a process has begun with a verification of which `parts_done` were done, and `in_all`, without those that have ended
    in good order."""

    parts_done: int
    times: int
    in_all: int = 0

    def next(self, parts_done: int) -> Beginnings:
        return Beginnings(parts_done, self.times + 1 if self.parts_done == parts_done else 1, self.in_all + 1)

    def taken_back(self) -> Beginnings:
        """The last one has ended in good order."""
        return Beginnings(self.parts_done, max(self.times - 1, 0), max(self.in_all - 1, 0))

    @property
    def given_up(self) -> str:
        """Why it does not begin once more; empty: it does."""
        if self.times > DEATHS_MAX:
            where = f"{self.times - 1} times at the same place"
        elif self.in_all > DEATHS_IN_ALL_MAX:
            where = f"{self.in_all - 1} times in all"
        else:
            return ""
        return f"its process ended {where}: see the worker's lines; most often the memory is too small"

    def to_json(self) -> bytes:
        return msgspec.json.encode(self)


class KeptLog(msgspec.Struct, frozen=True):
    """For how many `seconds` a verification has kept the log from segment `first` on; an owner looked last at `at_ms`."""

    first: int
    seconds: float
    at_ms: int

    def to_json(self) -> bytes:
        return msgspec.json.encode(self)
