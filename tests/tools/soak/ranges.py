"""Tables that change in ranges: a statement changes fifty rows, so that a source of two cores makes thousands of changes a second."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.tools.rig.tables import SCHEMA

RANGE_ROWS = 50
KEYS = 4_000
"""Of a table: few enough that each row changes again and again."""

_KINDS, _WEIGHTS = ("update", "insert", "delete"), (70, 20, 10)


def table_names(count: int) -> tuple[str, ...]:
    return tuple(f"{SCHEMA}.range_{number:02d}" for number in range(count))


def statements(count: int) -> tuple[str, ...]:
    """What makes and fills so many of them."""
    columns = "id bigint primary key, version int not null, at datetime(6) not null, amount decimal(12,2) not null, note varchar(200)"
    return tuple(
        statement
        for name in table_names(count)
        for statement in (f"create table {name} ({columns})", _insert(name, 1, KEYS))
    )  # fmt: skip


class RangeWriter:
    """Makes the statements of one session of a Workload: each changes up to RANGE_ROWS rows of one of `tables`."""

    def __init__(self, tables: tuple[str, ...], numbers: Random) -> None:
        self._tables, self._numbers = tables, numbers

    def statement(self) -> tuple[str, str, list[Any]]:
        """Kind, SQL and arguments."""
        name, (kind,) = self._numbers.choice(self._tables), self._numbers.choices(_KINDS, _WEIGHTS)
        first = self._numbers.randrange(1, KEYS, RANGE_ROWS)
        last = first + RANGE_ROWS - 1
        if kind == "insert":
            return kind, _insert(name, first, last), []
        if kind == "delete":
            return kind, f"delete from {name} where id between %s and %s", [first, last]
        changed = f"update {name} set version = version + 1, at = sysdate(6), note = %s where id between %s and %s"
        return kind, changed, [f"changed {self._numbers.randrange(10**9)} " * self._numbers.randrange(1, 8), first, last]


def _insert(name: str, first: int, last: int) -> str:
    """Those that are not there."""
    return f"insert ignore into {name} select seq, 0, sysdate(6), seq / 8, repeat('x', mod(seq, 60)) from {SCHEMA}.seq_{first}_to_{last}"
