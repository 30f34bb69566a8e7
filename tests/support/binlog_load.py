"""Sessions that write to a made TiDB with TiDB-Binlog until they are stopped: what becomes of each transaction is a seed's to say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import count, cycle
from random import Random
from threading import Event
from types import TracebackType
from typing import Self

from sidecar.shared.process.background import Background
from tests.support.binlog_tables import KEYS, NAMES, NOKEY, Row, made_row
from tests.support.binlog_tidb import BinlogTidb, Fate, Place, Written
from tests.support.eventually import PATIENCE_S

SESSIONS = 3
PAUSE_S = 0.05
"""Between two transactions of a session: a load, and no measurement of how fast a pump is."""
FATES = {Fate.COMMITTED: 12, Fate.LOST: 1, Fate.DOUBLED: 2, Fate.ROLLED_BACK: 1, Fate.FORGOTTEN: 1}
"""Of so many transactions one after another."""


class Load:
    """`with Load(tidb, seed=1)`. Leaving it raises what stopped a session."""

    def __init__(self, tidb: BinlogTidb, *, seed: int) -> None:
        self._tidb = tidb
        self._values = count(1 << 20)
        deck = [*Counter(FATES).elements()]
        self._fates = cycle(Random(seed).sample(deck, len(deck)))
        self._sessions = [Background(partial(self._run, Random(f"{seed} {number}")), name=f"load-{number}") for number in range(SESSIONS)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for session in self._sessions:
            session.close(0)
        for session in self._sessions:
            session.close(PATIENCE_S)
            session.check()
            assert error is not None or not session.alive, "a transaction does not end"

    def _run(self, numbers: Random, ending: Event) -> None:
        while not ending.wait(PAUSE_S):
            self._write(numbers, next(self._fates))

    def _write(self, numbers: Random, fate: Fate) -> None:
        """Rows of any tables; of some rows several changes."""
        of = {(name, numbers.randrange(KEYS)) for name in numbers.choices(NAMES, k=numbers.randint(1, 4))}
        keys: dict[Place, int] = {}
        for name, number in sorted(of):
            table = self._tidb.tables[name]
            keys[name, table.key(made_row(table, number, 0, 0))] = number

        def changes(before: Mapping[Place, Row | None]) -> Iterator[Written]:
            for place, old in before.items():
                yield from self._changes_of(numbers, place, keys[place], old)

        self._tidb.transact([*keys], changes, fate)

    def _changes_of(self, numbers: Random, place: Place, number: int, old: Row | None) -> Iterator[Written]:
        table = self._tidb.tables[place[0]]
        rowid = next(self._values) if old is None else table.rowid_of(old) or 0

        def made() -> Row:
            return made_row(table, number, next(self._values), rowid=rowid)

        new = made()
        if old is not None and numbers.random() < 0.25:
            yield Written(table, old, None)
            if place[0] == NOKEY or numbers.random() < 0.5:
                return
            old = None  # a REPLACE
        yield Written(table, old, new)
        if numbers.random() < 0.2:
            yield Written(table, new, made())
