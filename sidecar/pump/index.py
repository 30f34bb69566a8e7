"""Where each binlog is, by its timestamp: a SQLite file beside the value files, made of them and only of them.

    prewrite (start_ts)      ended (commit_ts: commits and fakes)      file (number, newest_ts)      state (what a restart resumes from)

- The standard library's store: kept, transactional, and read by any number of connections beside the one that writes.
- Written without waiting for the disk: after a power cut it may be behind the value files, never ahead of them, and is brought up from
  them. Taken away, it is made again. Up to where value files were collected is on record beside them (collected.py).
- The first binlog of a timestamp stays: a reader that comes again reads what it read.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from sidecar.pump.record import PREWRITE, ROLLBACK, Binlog
from sidecar.pump.value_log import Pointer, ValuePlace
from sidecar.shared.errors import LogBroken, StorageFull, TicdcDumpError

_TABLES = """
CREATE TABLE IF NOT EXISTS prewrite (start_ts INTEGER PRIMARY KEY, file INTEGER NOT NULL, offset INTEGER NOT NULL, size INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS ended (commit_ts INTEGER PRIMARY KEY, start_ts INTEGER NOT NULL,
                                  file INTEGER NOT NULL, offset INTEGER NOT NULL, size INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS file (number INTEGER PRIMARY KEY, newest_ts INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS state (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
"""

DELETED_AT_ONCE = 10_000
"""Rows of one transaction: writers wait for it."""


class IndexState(NamedTuple):
    """`indexed_*`: from where on value files may not be in here. `sorted_*`: the sorter's front. `max_commit_ts`: its mark there. `gc_ts`:
    only read; folders without a record of their own (collected.py) have it here."""

    cluster_id: int = 0
    gc_ts: int = 0
    max_commit_ts: int = 0
    indexed_file: int = 0
    indexed_offset: int = 0
    sorted_file: int = 0
    sorted_offset: int = 0

    @property
    def indexed(self) -> ValuePlace:
        return ValuePlace(self.indexed_file, self.indexed_offset)

    @property
    def sorted(self) -> ValuePlace:
        return ValuePlace(self.sorted_file, self.sorted_offset)


class End(NamedTuple):
    """`prewrite` None: a fake, or a commit whose prewrite is not here."""

    commit_ts: int
    start_ts: int
    end: Pointer
    prewrite: Pointer | None


class PumpIndex:
    """The connection that writes. By one thread at a time."""

    def __init__(self, path: Path) -> None:
        """Raises LogBroken for a file that is not one, StorageFull."""
        self.path = path
        try:
            self._db = connect(path)
            self._db.executescript(_TABLES)
        except sqlite3.Error as error:
            raise _translated(path, error) from error

    def state(self) -> IndexState:
        return IndexState(**dict(self._db.execute("SELECT name, value FROM state").fetchall()))

    def add(self, binlogs: Iterable[tuple[Pointer, Binlog]], **state: int) -> set[Pointer]:
        """All of them or none. The prewrites that were here before. Raises StorageFull."""
        known = set()
        with self._errors():
            self._db.execute("BEGIN")
            newest: dict[int, int] = {}
            for pointer, binlog in binlogs:
                kind, start_ts, commit_ts, _ = binlog
                if kind == PREWRITE:
                    done = self._db.execute("INSERT OR IGNORE INTO prewrite VALUES (?, ?, ?, ?)", (start_ts, *pointer))
                    if not done.rowcount:
                        known.add(pointer)
                elif kind != ROLLBACK or binlog.is_fake:
                    self._db.execute("INSERT OR IGNORE INTO ended VALUES (?, ?, ?, ?, ?)", (commit_ts, start_ts, *pointer))
                newest[pointer.file] = max(newest.get(pointer.file, 0), start_ts, commit_ts)
            self._db.executemany(
                "INSERT INTO file VALUES (?, ?) ON CONFLICT DO UPDATE SET newest_ts = max(newest_ts, excluded.newest_ts)", newest.items()
            )
            self._put(state)
            self._db.execute("COMMIT")
        return known

    def files_upto(self, ts: int) -> list[int]:
        """Files in which nothing is newer."""
        return [number for (number,) in self._db.execute("SELECT number FROM file WHERE newest_ts <= ? ORDER BY number", (ts,))]

    def forget(self, ts: int) -> int:
        """Some of what is not newer; how many rows: 0 when all has gone. Raises StorageFull."""
        with self._errors():
            counts = [
                self._db.execute(
                    f"DELETE FROM {table} WHERE {key} IN (SELECT {key} FROM {table} WHERE {key} <= ? LIMIT ?)", (ts, DELETED_AT_ONCE)
                ).rowcount
                for table, key in (("prewrite", "start_ts"), ("ended", "commit_ts"))
            ]
        return sum(counts)

    def forget_files(self, below: int) -> None:
        """Raises StorageFull."""
        with self._errors():
            self._db.execute("DELETE FROM file WHERE number < ?", (below,))

    def first_whole(self, file: int) -> int | None:
        """The first commit_ts of a transaction whose prewrite and commit are both in value files from `file` on."""
        row = self._db.execute(_FIRST_WHOLE, (file, file)).fetchone()
        return None if row is None else int(row[0])

    def newest_ts(self, file: int) -> int:
        """In value files from `file` on."""
        (newest,) = self._db.execute("SELECT max(newest_ts) FROM file WHERE number >= ?", (file,)).fetchone()
        return int(newest or 0)

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise _translated(self.path, error) from error

    def _put(self, state: dict[str, int]) -> None:
        self._db.executemany("INSERT INTO state VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value", state.items())


_ENDS = """
SELECT e.commit_ts, e.start_ts, e.file, e.offset, e.size, p.file, p.offset, p.size
FROM ended e LEFT JOIN prewrite p ON p.start_ts = e.start_ts AND e.start_ts <> e.commit_ts
WHERE e.commit_ts > ? AND e.commit_ts <= ? ORDER BY e.commit_ts LIMIT ?
"""
_FIRST_WHOLE = """
SELECT e.commit_ts FROM ended e JOIN prewrite p ON p.start_ts = e.start_ts
WHERE e.start_ts <> e.commit_ts AND e.file >= ? AND p.file >= ? ORDER BY e.commit_ts LIMIT 1
"""


class IndexReader:
    """A connection that reads. By one thread at a time."""

    def __init__(self, path: Path) -> None:
        self._db = connect(path)

    def ends(self, after_ts: int, upto_ts: int, count: int) -> Sequence[End]:
        """In the order of commit_ts."""
        rows = self._db.execute(_ENDS, (after_ts, upto_ts, count)).fetchall()
        return [End(row[0], row[1], Pointer(*row[2:5]), Pointer(*row[5:]) if row[5] is not None else None) for row in rows]

    def pointer_at(self, ts: int) -> Pointer | None:
        """The prewrite that started then, or what was committed then."""
        for query in (
            "SELECT file, offset, size FROM prewrite WHERE start_ts = ?",
            "SELECT file, offset, size FROM ended WHERE commit_ts = ?",
        ):
            with closing(self._db.execute(query, (ts,))) as cursor:
                row = cursor.fetchone()
            if row is not None:
                return Pointer(*row)
        return None

    def close(self) -> None:
        self._db.close()


def connect(path: Path) -> sqlite3.Connection:
    """Waits for nobody's lock but for an instant: readers and the writer do not stand in each other's way."""
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=30)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = NORMAL")
    return db


def _translated(path: Path, error: sqlite3.Error) -> TicdcDumpError:
    if error.sqlite_errorcode in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE):
        return StorageFull(f"{path} cannot be written: {error}", hint="make room on the disk of pump.data_dir; the pump retries")
    return _broken(path, error)


def _broken(path: Path, error: sqlite3.Error) -> LogBroken:
    return LogBroken(
        f"{path} cannot be used: {error}", hint=f"stop the pump and delete {path.name}*: it is re-created from the value files"
    )
