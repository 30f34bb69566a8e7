"""Random logs of tables that are really there (histories.py has any rows in chunks): rows from before the log, changes of them in
transactions, and dumps whose chunks have what a SELECT has read between their marks. Of a pass no two chunks have one key. Some tables have
no change before the last segment.

Two dumps read a table side by side, each once or several times: all of it, or some keys, or all keys that anybody may have; what the source
does not have of the keys is absent. A dump is for all sinks, for `MINE` alone, or for another one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from random import Random

from sidecar.shared.log.layout import chunk_name
from sidecar.shared.model.chunk import ChunkFile, ClosedWindow
from sidecar.shared.model.nouns import Change, CommitTs, Seq, TableName
from sidecar.shared.model.progress import Key
from spark_merge.merge.rule import Image
from spark_merge.testing import histories
from spark_merge.testing.histories import SEGMENT_TS, SEGMENTS, RandomHistory, change_of, rows_of_change

KEYS = 12
CHANGES_A_SEGMENT = 6
CHUNKS = 3
DUMPS = 2
MINE, OTHER = "mine", "another"
"""Names of sinks."""

PASS_TS = 10
"""What each pass takes at the least: its marks are at moments of their own."""

Rows = Mapping[Image, Image]


@dataclass
class _Table:
    """A table over time: its rows from each commit_ts on."""

    name: TableName
    rows: dict[Image, Image]
    states: list[tuple[int, Rows]] = field(default_factory=list)
    written: int = 0
    chunks: Iterator[int] = field(default_factory=count)
    marks: set[int] = field(default_factory=set)

    def at(self, ts: int) -> Rows:
        return next(rows for since, rows in reversed(self.states) if since <= ts)

    def value(self) -> str:
        self.written += 1
        return str(self.written)


def true_history(rng: Random, *, passes: int = 2) -> RandomHistory:
    """As histories.random_history. `passes`: at most that many of a dump over a table, one after another."""
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
        begun = [_add_dump(rng, history, table, dump, rng.randrange(1, passes + 1)) for dump in range(rng.randrange(1, DUMPS + 1))]
        _lose_changes(rng, history, table, min(begun))
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
        kind = "UPDATE" if table.written % 2 else "INSERT"  # as a row comes again whose table deletes softly
        yield change_of(table.name, ts, kind, new=new, old=(*key, "gone"))
    elif rng.random() < 0.4:
        yield change_of(table.name, ts, "DELETE", new=table.rows.pop(key), old=None)
    else:
        table.rows[key] = new
        yield change_of(table.name, ts, "UPDATE", new=new, old=old)


def _add_dump(rng: Random, history: RandomHistory, table: _Table, dump: int, passes: int) -> int:
    """The segment in which it begins. Passes that begin in one segment are of dumps of their own."""
    edges = sorted(rng.sample(range(0, SEGMENTS * SEGMENT_TS, PASS_TS), 2 * passes))
    sinks = rng.choice([(), (), (MINE,), (OTHER,)])
    own, last = 100 * dump, -1
    for begin, end in zip(edges[::2], edges[1::2], strict=True):
        since = begin // SEGMENT_TS
        own, last = own + (since == last), since
        _add_pass(rng, history, table, f"{own:016d}", (begin, end), sinks)
    return edges[0] // SEGMENT_TS


def _add_pass(rng: Random, history: RandomHistory, table: _Table, dump_id: str, span: tuple[int, int], sinks: tuple[str, ...]) -> None:
    begin, end = span
    keys, requested = _keys(), rng.choice(["all rows", "some keys", "all keys"])
    rng.shuffle(keys)
    if requested == "some keys":
        keys = keys[: rng.randrange(1, len(keys))]
    for part in range(CHUNKS):
        high = rng.choice([ts for ts in range(begin + 1, end + 2) if ts not in table.marks])
        low = rng.randrange(begin, high)
        table.marks.add(high)
        result, wanted = table.at(rng.randrange(low, high + 1)), keys[part::CHUNKS]
        rows = [result[key] for key in wanted if key in result]
        absent: list[Key] = [] if requested == "all rows" else [tuple(map(str, key)) for key in wanted if key not in result]
        path = chunk_name(table.name.table, epoch=1, number=next(table.chunks))
        history.chunk_rows[path], history.absent[path] = rows, absent
        size, since = len(rows) + len(absent), Seq(begin // SEGMENT_TS)
        chunk = ChunkFile(table.name, path, size, 1, None, None, since_seq=since, absent=len(absent))
        closes = (high - 1) // SEGMENT_TS
        first = Seq(min(low // SEGMENT_TS, closes))
        history.windows[closes].append(ClosedWindow(dump_id, CommitTs(low), CommitTs(high), first, (chunk,), sinks))


def _lose_changes(rng: Random, history: RandomHistory, table: _Table, begun: int) -> None:
    """The stream may lack changes of before the first dump, which brings the rows."""
    kept = rng.choice([1.0, 0.5])
    for changes in history.changes[:begun]:
        changes[:] = [change for change in changes if change.table != table.name.table or rng.random() < kept]
