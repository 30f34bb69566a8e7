"""A verification of a simulated sink, as deploy/VERIFY.md argues for it: the sink's rows of its position or later, then the source's rows,
each table at a TSO of its own, then the log until it has passed both. A key that the log changes meanwhile is not judged."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from sidecar.adapters.memory.log import MemoryLog
from sidecar.core.sequence import NO_TS
from sidecar.shared.model.nouns import FIRST_SEQ, CommitTs, Seq, TableName
from spark_merge.delivery.complete import received
from tests.simulation.output import Output, rows_of


@dataclass(slots=True)
class Verification:
    """Of the tables that `output` has whole at its position. One `step` reads at most one table of one side."""

    output: Output
    rng: Random
    after_seq: Seq = field(init=False)
    tables: list[TableName] = field(init=False)
    sink: dict[TableName, dict[str, str]] = field(default_factory=dict)
    spoilt: set[tuple[TableName, str]] = field(default_factory=set)
    source: dict[TableName, dict[str, str]] = field(default_factory=dict)
    read_ts: CommitTs = NO_TS
    read_seq: Seq = FIRST_SEQ

    def __post_init__(self) -> None:
        self.after_seq, self.tables = Seq(self.output.next_seq), sorted(self.output.dumped)

    def step(self) -> set[tuple[TableName, str]] | None:
        """The keys that differ, once all is read and followed; None before. Raises AssertionError for one that nobody has spoilt."""
        if unread := [table for table in self.tables if table not in self.sink]:
            table = self.rng.choice(unread)
            self.sink[table] = dict(self.output.state[table])
            self.spoilt |= {(name, key) for name, key in self.output.faults if name == table}
            self.read_seq = Seq(self.output.next_seq)
        elif unread := [table for table in self.tables if table not in self.source]:
            table = self.rng.choice(unread)
            self.read_ts = self.output.cluster.next_ts()
            self.source[table] = self.output.cluster.state_at(table, self.read_ts)
        elif (moving := self._moving()) is not None:
            return self._judged(moving)
        return None

    def _judged(self, moving: set[tuple[TableName, str]]) -> set[tuple[TableName, str]]:
        differing = {
            (table, key)
            for table in self.tables
            for key in self.sink[table].keys() | self.source[table].keys()
            if self.sink[table].get(key) != self.source[table].get(key)
        }
        assert differing - moving <= self.spoilt, f"a false difference in {self.output.name}: {differing - moving - self.spoilt}"
        return differing - moving

    def _moving(self) -> set[tuple[TableName, str]] | None:
        """The keys that the log changes after the position; None until the log has passed what was read."""
        log, seq, upto_ts = MemoryLog(self.output.disk), self.after_seq, NO_TS
        moving = {(row.table, str(row.key[0])) for row in self.output.changes if row.seq >= self.after_seq}
        while (manifest := log.manifest(seq)) is not None:
            for window in received(manifest, self.output.name).windows:
                moving |= {(chunk.table, str(key[0])) for chunk in window.chunks for key, _ in rows_of(log, chunk)}
            seq, upto_ts = Seq(seq + 1), manifest.upto_ts
        passed = upto_ts >= self.read_ts and seq >= self.read_seq and self.output.next_seq >= seq
        return moving if passed else None
