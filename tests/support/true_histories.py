"""Random logs of tables that are really there (spark_merge.testing.histories has any rows in chunks): rows from before the log, changes of
them in transactions, and dumps whose chunks have what a SELECT has found between their marks. Of a pass no two chunks have one key. Some
tables have no change before the last segment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from random import Random

from sidecar.core.chunk import ChunkFile, ClosedWindow
from sidecar.core.model import Change, CommitTs, Seq, TableName
from sidecar.log.layout import chunk_name
from spark_merge.rule import Image
from spark_merge.testing import histories
from spark_merge.testing.histories import SEGMENT_TS, SEGMENTS, RandomHistory, change_of, rows_of_change

KEYS = 12
CHANGES_A_SEGMENT = 6
CHUNKS = 3
Rows = Mapping[Image, Image]


@dataclass
class _Table:
    """A table over time: its rows from each commit_ts on."""

    name: TableName
    rows: dict[Image, Image]
    states: list[tuple[int, Rows]] = field(default_factory=list)
    written: int = 0

    def at(self, ts: int) -> Rows:
        return next(rows for since, rows in reversed(self.states) if since <= ts)

    def value(self) -> str:
        self.written += 1
        return str(self.written)


def true_history(rng: Random, *, passes: int = 2) -> RandomHistory:
    """As histories.random_history. `passes`: at most that many over a table, one after another."""
    history = RandomHistory([[] for _ in range(SEGMENTS)], [], [[] for _ in range(SEGMENTS)], {})
    for number in range(histories.TABLES):
        table = _Table(TableName("s", f"t{number}"), {})
        for key in _keys():
            if rng.random() < 0.5:
                table.rows[key] = (*key, table.value())
        table.states.append((-1, dict(table.rows)))
        quiet = SEGMENTS - 1 if number % 3 == 2 else 0
        for seq in range(quiet, SEGMENTS):
            for ts in sorted(rng.sample(range(1, SEGMENT_TS + 1), rng.randrange(CHANGES_A_SEGMENT))):
                history.changes[seq] += _transaction(rng, table, CommitTs(seq * SEGMENT_TS + ts))
        _add_passes(rng, history, table, rng.randrange(1, passes + 1))
    for seq, changes in enumerate(history.changes):
        changes.sort(key=lambda change: (change.commit_ts, change.rank))
        history.rows += [row for ordinal, change in enumerate(changes) for row in rows_of_change(seq, ordinal, change)]
    for windows in history.windows:
        rng.shuffle(windows)
    return history


def _keys() -> list[Image]:
    return [(text, str(part)) for text in ("a", 'b"', "c\\", 'd","e', "é", "")[: KEYS // 2] for part in range(2)]


def _transaction(rng: Random, table: _Table, ts: CommitTs) -> Iterator[Change]:
    """One to three changes of rows, each row once, or a swap of two keys."""
    there = list(table.rows)
    if len(there) > 1 and rng.random() < 0.15:
        one, two = rng.sample(there, 2)
        old, other = table.rows[one], table.rows[two]
        table.rows[one], table.rows[two] = (*one, other[2]), (*two, old[2])
        yield change_of(table.name, ts, "UPDATE", new=table.rows[two], old=old)
        yield change_of(table.name, ts, "UPDATE", new=table.rows[one], old=other)
    else:
        for key in rng.sample(_keys(), rng.randrange(1, 4)):
            yield from _change(rng, table, ts, key)
    table.states.append((ts, dict(table.rows)))


def _change(rng: Random, table: _Table, ts: CommitTs, key: Image) -> Iterator[Change]:
    old, new = table.rows.get(key), (*key, table.value())
    if old is None:
        table.rows[key] = new
        yield change_of(table.name, ts, "INSERT", new=new, old=None)
    elif rng.random() < 0.4:
        yield change_of(table.name, ts, "DELETE", new=table.rows.pop(key), old=None)
    else:
        table.rows[key] = new
        yield change_of(table.name, ts, "UPDATE", new=new, old=old)


def _add_passes(rng: Random, history: RandomHistory, table: _Table, passes: int) -> None:
    """Of one dump, where each begins with a segment of its own; else of another one. The stream may lack changes of before the first."""
    edges = sorted(rng.sample(range(SEGMENTS * SEGMENT_TS), 2 * passes))
    begun = [(0, edges[0] // SEGMENT_TS)]
    for begin in edges[2::2]:
        (dump, last), since = begun[-1], begin // SEGMENT_TS
        begun.append((dump + (since == last), since))
    number = 0
    for (dump, since), begin, end in zip(begun, edges[::2], edges[1::2], strict=True):
        keys = _keys()
        rng.shuffle(keys)
        for part in range(CHUNKS):
            low = rng.randrange(begin, end + 1)
            high = rng.randrange(low, end + 1) + 1
            found = table.at(rng.randrange(low, high + 1))
            rows = [found[key] for key in keys[part::CHUNKS] if key in found]
            path = chunk_name(table.name.table, epoch=1, number=number)
            number += 1
            history.chunk_rows[path] = rows
            closes = (high - 1) // SEGMENT_TS
            chunks = (ChunkFile(table.name, path, len(rows), 1, None, None, since_seq=Seq(since)),)
            window = ClosedWindow(f"{dump:016d}", CommitTs(low), CommitTs(high), Seq(min(low // SEGMENT_TS, closes)), chunks)
            history.windows[closes].append(window)
    kept = rng.choice([1.0, 0.5])
    for changes in history.changes[: begun[0][1]]:
        changes[:] = [change for change in changes if change.table != table.name.table or rng.random() < kept]
