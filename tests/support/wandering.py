"""A source's table whose unique values wander between rows: in one commit and in several, in rings, with the case of a text alone, with
keys that move; its log with a dump in the middle; and the rows that an earlier copy left at the target.

    id   primary key        u   unique, often NULL        c   unique text, compared without case, accents and trailing spaces
    v    the commit_ts of the row's version, so that who looks knows when a row goes back
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from random import Random

import pyarrow as pa

from sidecar.shared.log.layout import chunk_name
from sidecar.shared.log.manifest import Manifest
from sidecar.shared.log.rows_file import write_chunk
from sidecar.shared.log.segment_log import FolderLog
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.chunk import ChunkFile, ClosedWindow
from sidecar.shared.model.nouns import Change, Column, CommitTs, Lane, Rank, Seq, TableName, TableSchema

TABLE = TableName("wandering", "t")
SCHEMA = TableSchema(TABLE, (Column("id", "int"), Column("u", "int"), Column("c", "text"), Column("v", "int")), ("id",))
CREATE = (
    f"CREATE TABLE {TABLE} (id INT PRIMARY KEY, u INT NULL, c VARCHAR(20) COLLATE utf8mb4_general_ci NULL, v INT,"
    " UNIQUE KEY uu (u), UNIQUE KEY cc (c))"
)
CHUNKS, SEGMENT_TS, IDS = 4, 12, 16
SPELLED = (str, str.upper, lambda text: text + " ", lambda text: text.replace("e", "é"))

Row = tuple[int, int | None, str | None, int]
State = dict[int, Row]


@dataclass
class Source:
    """`rows` now; `before`: at the log's beginning; `stale`: some time before that. `bare`: deletes tell the key alone."""

    rng: Random
    bare: bool = False
    rows: State = field(default_factory=dict)
    stale: State = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    windows: list[tuple[ClosedWindow, pa.Table]] = field(default_factory=list)
    ts: int = 0

    def commit(self, *, logged: bool = True, deletes: bool = True) -> None:
        """Some rows at once; the unique values of those that stay go round among them."""
        self.ts += 1
        rng, before = self.rng, dict(self.rows)
        chosen = rng.sample(sorted(self.rows), min(len(self.rows), rng.randrange(1, 5)))
        values = [(self.rows[one][1], self.rows[one][2]) for one in chosen]
        kept = values[1:] + values[:1] if rng.random() < 0.7 else values
        for one in chosen:
            del self.rows[one]
        moved: dict[int, int] = {}
        for one, (u, c) in zip(chosen, kept, strict=True):
            if deletes and rng.random() < 0.2:
                continue
            new = rng.choice(self._free()) if deletes and rng.random() < 0.2 and self._free() else one
            if new in self.rows or (new != one and new in before):
                new = one
            moved[one] = new
            self.rows[new] = (new, self._u(u), self._c(c), self.ts)
        if self._free() and rng.random() < 0.5:
            new = rng.choice([one for one in range(IDS) if one not in self.rows and one not in before] or [-1])
            if new >= 0:
                self.rows[new] = (new, self._u(None), self._c(None), self.ts)
        if logged:
            self._log(before, moved)

    def _free(self) -> list[int]:
        return [one for one in range(IDS) if one not in self.rows]

    def _u(self, kept: int | None) -> int | None:
        used = {row[1] for row in self.rows.values()}
        if kept is not None and kept not in used and self.rng.random() < 0.8:
            return kept
        return self.rng.choice([None, *(value for value in range(IDS) if value not in used)])

    def _c(self, kept: str | None) -> str | None:
        used = {_folded(row[2]) for row in self.rows.values()}
        free = [f"e{number}" for number in range(IDS) if f"e{number}" not in used]
        base = _folded(kept)
        if base is None or base in used or self.rng.random() > 0.8:
            base = self.rng.choice([None, *free])
        return None if base is None else self.rng.choice(SPELLED)(base)

    def _log(self, before: State, moved: dict[int, int]) -> None:
        """An update where the row is the same one, at another key or not."""
        changes, reported = [], set()
        for old, new in moved.items():
            changes.append(_event("UPDATE", self.ts, before[old], self.rows[new]))
            reported |= {new}
        changes += [
            _event("DELETE", self.ts, None, row[:1] if self.bare else row)
            for one, row in before.items()
            if one not in moved and one not in self.rows
        ]
        gone = {one for one in before if one not in moved and one in self.rows and self.rows[one] != before[one] and one not in reported}
        changes += [_event("UPDATE", self.ts, before[one], self.rows[one]) for one in gone]
        changes += [_event("INSERT", self.ts, None, row) for one, row in self.rows.items() if one not in before and one not in reported]
        self.rng.shuffle(changes)
        self.changes += sorted(changes, key=lambda change: change.rank)

    def read(self, number: int, low: int, path: str) -> tuple[ClosedWindow, pa.Table]:
        """A chunk of the rows as they are now, of a window that is open since `low` and ends later."""
        size = IDS // CHUNKS
        rows = [
            row
            for one, row in sorted(self.rows.items())
            if number * size <= one < (number + 1) * size or number == CHUNKS - 1 < one // size
        ]
        columns = {
            column.name: pa.array([None if row[place] is None else str(row[place]) for row in rows], pa.string())
            for place, column in enumerate(SCHEMA.columns)
        }
        chunk = ChunkFile(TABLE, path, len(rows), 1, None, None)
        return ClosedWindow("0" * 16, CommitTs(low), CommitTs(0), Seq(low // SEGMENT_TS), (chunk,)), pa.table(columns)


def _folded(text: str | None) -> str | None:
    return None if text is None else text.rstrip(" ").lower().replace("é", "e")


def _event(kind: str, ts: int, old: Row | None, new: Row | tuple[int]) -> Change:
    names = SCHEMA.column_names()

    def image(row: Row | tuple[int]) -> dict[str, str | None]:
        return {name: None if value is None else str(value) for name, value in zip(names, row, strict=False)}

    event = {
        "database": TABLE.schema, "table": TABLE.table, "isDdl": False, "type": kind, "sql": "",
        "mysqlType": {"id": "int", "u": "int", "c": "varchar", "v": "int"},
        "data": [image(new)], "old": [image(old)] if old else None, "_tidb": {"commitTs": ts},
    }  # fmt: skip
    rank = Rank.DELETE if kind == "DELETE" else Rank.PUT
    return Change(CommitTs(ts), rank, TABLE.schema, TABLE.table, b"", json.dumps(event).encode(), Lane("k/0"), 0)


def reported(seed: int, folder: Folder) -> Source:
    """The source at its end, its log in the folder: an earlier copy, unlogged changes, then logged ones amid which all is dumped."""
    source = Source(Random(seed), bare=seed % 4 == 1)
    for _ in range(8):
        source.commit(logged=False)
    source.stale = dict(source.rows) if seed % 2 else {}
    for _ in range(6):
        source.commit(logged=False, deletes=False)
    start = source.ts = (source.ts // SEGMENT_TS + 1) * SEGMENT_TS
    open_window: list[tuple[int, ClosedWindow, pa.Table]] = []
    number = 0
    for _ in range(CHUNKS * 14):
        source.commit()
        if number < CHUNKS and not open_window and source.rng.random() < 0.3:
            low = source.ts
            for _ in range(source.rng.randrange(3)):
                source.commit()
            window, rows = source.read(number, low, chunk_name(TABLE.table, epoch=1, number=number))
            open_window, number = [(source.ts + source.rng.randrange(1, 9), window, rows)], number + 1
        if open_window and source.ts >= open_window[0][0]:
            _, window, rows = open_window.pop()
            source.windows.append((_closed(window, source.ts), rows))
    for left in range(number, CHUNKS):
        window, rows = source.read(left, source.ts, chunk_name(TABLE.table, epoch=1, number=left))
        source.commit()
        source.windows.append((_closed(window, source.ts), rows))
    if open_window:
        source.windows.append((_closed(open_window[0][1], source.ts), open_window[0][2]))
    _write(source, folder, start)
    return source


def _closed(window: ClosedWindow, high: int) -> ClosedWindow:
    return ClosedWindow(window.dump_id, window.low_ts, CommitTs(high), window.first_seq, window.chunks)


def _write(source: Source, folder: Folder, start: int) -> None:
    log = FolderLog(folder)
    log.recover(epoch=1)
    schemas = log.write_schemas({TABLE: SCHEMA})
    first = start // SEGMENT_TS
    for window, rows in source.windows:
        write_chunk(folder, window.chunks[0].path, rows)
    for place in range(first, source.ts // SEGMENT_TS + 1):
        after, upto = place * SEGMENT_TS, (place + 1) * SEGMENT_TS
        seq = Seq(place - first)
        changes = [change for change in source.changes if after < change.commit_ts <= upto]
        windows = tuple(
            ClosedWindow(
                window.dump_id, window.low_ts, window.high_ts, Seq(max((window.low_ts - 1) // SEGMENT_TS - first, 0)), window.chunks
            )
            for window, _ in source.windows
            if after < window.high_ts <= upto
        )
        data = log.write_data(seq, epoch=1, codec="canal-json", changes=changes)
        log.commit(
            Manifest(
                seq, 1, CommitTs(after), CommitTs(upto), data.name, data.rows, data.bytes, {}, schemas, "canal-json", (), windows,
                table_rows=data.table_rows, id=f"w{seq}",
            )
        )  # fmt: skip
