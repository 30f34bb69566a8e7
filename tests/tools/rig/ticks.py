"""A table whose rows say which of two is the newer: so a reader sees a row go back.

    Rig(folder, statements=TICK_STATEMENTS)
    with Ticker(rig.source):
            floors.look(rows)          AssertionError for a row that is older than what was seen before

`n` comes from one counter for all rows, and no row has the number of another or of an earlier life of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random
from threading import Event
from types import TracebackType
from typing import Self

from sidecar.shared.model.nouns import Column, TableName, TableSchema
from sidecar.shared.process.background import Background
from tests.tools.rig.binlog import MySqlAddress
from tests.tools.rig.tables import SCHEMA
from tests.tools.rig.workload import connect

TICKS = TableSchema(TableName(SCHEMA, "tick"), (Column("id", "int", nullable=False), Column("n", "int", nullable=False)), ("id",))
ROWS, HOT = 200, 10
TICK_STATEMENTS = (
    f"create table {TICKS.name} (id int primary key, n bigint not null)",
    f"insert into {TICKS.name} values {', '.join(f'({number}, {number})' for number in range(ROWS))}",
)
"""Rows that only a dump brings, but for those that are written meanwhile."""

Texts = tuple[str | None, ...]

EVERY_S = 0.1
_DELETES, _HOT_SHARE = 0.15, 0.4


class Ticker:
    """Writes until the end of the body. `last`: the number of the last row that was written."""

    def __init__(self, source: MySqlAddress, *, seed: int = 1) -> None:
        self.last = ROWS
        self._source, self._random = source, Random(seed)
        self._writing: Background | None = None

    def __enter__(self) -> Self:
        self._writing = Background(self._write, name="ticks")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """All is committed when it returns. Raises what stopped it before."""
        if self._writing is not None:
            self._writing.close()
            self._writing.check()

    def _write(self, ending: Event) -> None:
        connection = connect(self._source)
        try:
            with connection.cursor() as cursor:
                while not ending.wait(EVERY_S):
                    key = self._random.randrange(HOT if self._random.random() < _HOT_SHARE else ROWS)
                    if self._random.random() < _DELETES:
                        cursor.execute(f"delete from {TICKS.name} where id = %s", [key])
                    else:
                        cursor.execute(f"replace into {TICKS.name} values (%s, %s)", [key, self.last + 1])
                        self.last += 1
        finally:
            connection.close()


@dataclass
class Floors:
    """What each row may not fall below. `looks`: how often all rows were looked at."""

    looks: int = 0
    _last: dict[str, int] = field(default_factory=dict)
    _gone: set[str] = field(default_factory=set)

    def look(self, rows: Iterable[Texts]) -> None:
        """All rows of one moment: one that is not there was deleted."""
        there = {str(key): int(str(n)) for key, n in rows}
        for key, n in there.items():
            self.put(key, n)
        self._gone |= self._last.keys() - there.keys()
        self.looks += 1

    def follow(self, changes: Iterable[tuple[str, Texts]]) -> None:
        """A log of changes: op and image, of which a delete's may have the key alone."""
        for op, (key, n) in changes:
            if op.lower().startswith("d"):
                self._gone.add(str(key))
            else:
                self.put(str(key), int(str(n)))

    def put(self, key: str, n: int) -> None:
        """Raises AssertionError for what is older than what was there, or came back from what was deleted."""
        before = self._last.get(key, -1)
        assert n > before or (n == before and key not in self._gone), f"row {key} goes back from {before} to {n}"
        self._last[key] = n
        self._gone.discard(key)
