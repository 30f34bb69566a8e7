"""A folder as TiCDC's storage sink writes it, with canal-json and what its crashes leave (facts of the versions: feeds/storage/reading.py).

Time is the sink's own: files have its times, so that a reader can tell old from new.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import NamedTuple

from msgspec import json

from sidecar.shared.model.nouns import CommitTs, TableName, ts_at

BEGIN_MS = 1_790_000_000_000
NO_TS = CommitTs(0)


class BucketRow(NamedTuple):
    """`line` empty: a DDL of the table."""

    table: TableName
    commit_ts: CommitTs
    line: bytes


def line_of(table: TableName, commit_ts: CommitTs, row: int) -> bytes:
    data = [{"id": str(row), "note": f"{row} é"}]
    head = {"id": 0, "database": table.schema, "table": table.table, "pkNames": ["id"], "isDdl": False, "type": "INSERT"}
    return json.encode({**head, "sql": "", "data": data, "old": None, "_tidb": {"commitTs": commit_ts}})


@dataclass
class BucketSink:
    """One changefeed. `overwrites`: after a crash a file that the index lacks is written again under its number (8.5.5, 8.5.6); else its
    rows come again under the next one. `dated`: folders by day."""

    root: Path
    rng: Random
    tables: Sequence[TableName] = (TableName("shop", "a"), TableName("shop", "b"), TableName("other", "a/b"))
    overwrites: bool = False
    dated: bool = True
    now_ms: int = BEGIN_MS
    rows: list[BucketRow] = field(default_factory=list)
    checkpoint: CommitTs = NO_TS
    versions: dict[TableName, CommitTs] = field(default_factory=dict)
    _sent: int = 0
    _numbers: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    _unnoted: set[str] = field(default_factory=set)
    """Folders whose last file the index lacks."""

    def commit(self, count: int = 1) -> None:
        """Transactions of one row."""
        for _ in range(count):
            self.now_ms += self.rng.choice([1, 7, 400, 40_000])
            ts = ts_at(self.now_ms, len(self.rows) % 1000)
            table = self.rng.choice(self.tables)
            self.rows.append(BucketRow(table, ts, line_of(table, ts, len(self.rows))))

    def ddl(self) -> None:
        self.now_ms += 3
        self.rows.append(BucketRow(self.rng.choice(self.tables), ts_at(self.now_ms, len(self.rows) % 1000), b""))

    def flush(self) -> list[str]:
        """What is committed is in files, and their names; `metadata` is as before."""
        upto, names = self.rng.randint(self._sent, len(self.rows)), list[str]()
        of_table: dict[TableName, list[BucketRow]] = defaultdict(list)
        for row in [*self.rows[self._sent : upto], BucketRow(TableName("", ""), NO_TS, b"")]:
            if not row.line:
                names += self._write_all(of_table)
                of_table.clear()
            if row.line:
                of_table[row.table].append(row)
            elif row.commit_ts:
                self._write_ddl(row)
        self._sent = upto
        return names

    def _write_all(self, of_table: Mapping[TableName, Sequence[BucketRow]]) -> list[str]:
        names = list[str]()
        for table, rows in of_table.items():
            cut = self.rng.randint(0, len(rows))
            names += [self._write(table, part) for part in (rows[:cut], rows[cut:]) if part]
        return names

    def _write_ddl(self, ddl: BucketRow) -> None:
        self.versions[ddl.table] = ddl.commit_ts
        form = {"Table": ddl.table.table, "Schema": ddl.table.schema, "TableVersion": ddl.commit_ts, "Query": f"ALTER {ddl.commit_ts}"}
        name = f"{ddl.table.schema}/{ddl.table.table}/meta/schema_{ddl.commit_ts}_0000000001.json"
        self.put(name, json.encode({**form, "TableColumns": None}))

    def mark(self) -> None:
        """`metadata` is what the files have: all transactions that are whole there."""
        left_ts = self.rows[self._sent].commit_ts if self._sent < len(self.rows) else None
        whole = [row.commit_ts for row in self.rows[: self._sent] if row.commit_ts != left_ts]
        if whole:
            self.checkpoint = max(self.checkpoint, whole[-1])
            self._unnoted.clear()
            self.put("metadata", json.encode({"checkpoint-ts": self.checkpoint}))

    def crash(self) -> None:
        """It begins again from the checkpoint."""
        self._sent = next((number for number, row in enumerate(self.rows) if row.commit_ts > self.checkpoint), len(self.rows))
        if self.overwrites:
            for folder in self._unnoted:
                self._numbers[folder] -= 1
        self._unnoted.clear()

    def folder_of(self, table: TableName) -> str:
        day = datetime.fromtimestamp(self.now_ms / 1000, UTC).strftime("%Y-%m-%d")
        return f"{table.schema}/{table.table}/{self.versions.get(table, ts_at(BEGIN_MS))}" + (f"/{day}" if self.dated else "")

    def put(self, name: str, data: bytes) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.parent / f"{path.name}.tmp.{self.rng.random()}"
        temporary.write_bytes(data)
        os.utime(temporary, (self.now_ms / 1000, self.now_ms / 1000))
        temporary.rename(path)

    def _write(self, table: TableName, rows: Sequence[BucketRow]) -> str:
        folder = self.folder_of(table)
        self._numbers[folder] += 1
        name = f"{folder}/CDC{self._numbers[folder]:020d}.json"
        self.put(name, b"".join(row.line + b"\r\n" for row in rows))
        if self.rng.random() < 0.5:
            self._unnoted.add(folder)
        else:
            self._unnoted.discard(folder)
        return name
