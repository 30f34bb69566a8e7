"""`Keys` in a local folder, for a changefeed whose etcd nobody here reaches: one SQLite file, with revisions as etcd has them.

    state.db    keys: key, value, created, modified, lease      leases: id, ttl_s, until, renewals, boot      revision

- Each call is one SQLite transaction that takes the write lock at once, so the processes of the machine come one after another.
- When a lease ends depends on who granted it. A process of this boot of the machine: at `until`, by the clock that all processes of the
  machine have, which also runs while it sleeps. Any other, of before the last boot or of another machine: when it was not renewed while
  this process looked on for `ttl_s`. The wall clock has no part in it.
- A file that is made again has other revisions than the one before, so an owner of that one is none in this one.
- Reading makes no file: where there is none, nothing is there.
- The holder counts from when it *sent* a renewal, as with etcd (keeper.py): it gives up before anybody else can see the lease end.
- SQLite's locks hold on a local disk; on a network's they may not.
"""

from __future__ import annotations

import random
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sidecar.adapters.clock import running_clock
from sidecar.adapters.etcd.keys import Compare, Delete, EtcdNamed, KeyEntry, Put, Transaction, after
from sidecar.shared.config import EtcdSection
from sidecar.shared.errors import Compacted, ConfigError, CoordinationError, CoordinationLost, OwnershipLost, StorageFull, TicdcDumpError

FILE = "state.db"
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
VERSION = 1
BY_FOLDER = EtcdNamed(endpoints="etcd.folder", tls="etcd.folder", login="etcd.folder has no login")

_TABLES = """
CREATE TABLE keys (key BLOB PRIMARY KEY, value BLOB NOT NULL, created INTEGER NOT NULL, modified INTEGER NOT NULL, lease INTEGER NOT NULL);
CREATE TABLE leases (id INTEGER PRIMARY KEY, ttl_s INTEGER NOT NULL, until REAL NOT NULL, renewals INTEGER NOT NULL,
                     boot TEXT NOT NULL);
CREATE TABLE revision (number INTEGER NOT NULL);
"""


class FolderKeys:
    """As `Keys`. Makes the folder and its file with the first write."""

    def __init__(self, section: EtcdSection, *, clock: Callable[[], float] = running_clock) -> None:
        self.section, self.named = section, BY_FOLDER
        self._path = Path(section.folder) / FILE
        self._clock = clock
        self._boot = _text_of(BOOT_ID)
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._seen: dict[int, tuple[int, float]] = {}
        """Of each lease: its renewals as seen last, and when that was seen first."""
        self._number = 0
        """The inode of the file that is open."""
        self._closed = False

    def __str__(self) -> str:
        return str(self._path)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def get(self, key: str, *, revision: int = 0) -> KeyEntry | None:
        if self._is_new():
            return None
        with self._begun() as sql:
            if revision not in (0, _revision(sql)):
                raise Compacted(f"{self} keeps no past: revision {revision} was wanted", hint="ask for the present")
            return _get(sql, key)

    def get_prefix(self, prefix: str, *, keys_only: bool = False) -> list[KeyEntry]:
        if self._is_new():
            return []
        column = "x''" if keys_only else "value"
        with self._begun() as sql:
            rows = sql.execute(
                f"SELECT key, {column}, created, modified, lease FROM keys WHERE key >= ? AND key < ? ORDER BY key", _range(prefix)
            )
            return [_entry(*row) for row in rows]

    def members(self) -> tuple[str, ...]:
        return ()

    def transact(
        self,
        compares: Sequence[Compare],
        writes: Sequence[Put | Delete],
        *,
        otherwise: Sequence[str] = (),
        timeout_s: float | None = None,
    ) -> Transaction:
        with self._begun(timeout_s) as sql:
            if not all(_holds(sql, compare) for compare in compares):
                return Transaction(False, _revision(sql), tuple(_get(sql, key) for key in otherwise))
            revision = _revision(sql) + bool(writes)
            sql.execute("UPDATE revision SET number = ?", (revision,))
            for write in writes:
                if isinstance(write, Delete):
                    sql.execute("DELETE FROM keys WHERE key >= ? AND key < ?", _range(write.prefix))
                else:
                    self._put(sql, write, revision)
            return Transaction(True, revision, ())

    def grant(self, ttl_s: int) -> int:
        lease = random.SystemRandom().randrange(1, 1 << 62)
        with self._begun() as sql:
            sql.execute("INSERT INTO leases VALUES (?, ?, ?, 0, ?)", (lease, ttl_s, self._clock() + ttl_s, self._boot))
        return lease

    def keep_alive(self, lease: int, *, timeout_s: float | None = None) -> bool:
        with self._begun(timeout_s) as sql:
            renewed = sql.execute("UPDATE leases SET until = ? + ttl_s, renewals = renewals + 1 WHERE id = ?", (self._clock(), lease))
            return renewed.rowcount == 1

    def revoke(self, lease: int, *, timeout_s: float | None = None) -> None:
        with self._begun(timeout_s) as sql:
            _end(sql, lease)

    def _put(self, sql: sqlite3.Connection, put: Put, revision: int) -> None:
        if put.lease and not sql.execute("SELECT 1 FROM leases WHERE id = ?", (put.lease,)).fetchone():
            raise OwnershipLost(f"{self}: lease {put.lease} has run out", hint="the lease has run out; acquire ownership again")
        sql.execute(
            "INSERT INTO keys VALUES (?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value,"
            " modified = excluded.modified, lease = excluded.lease",
            (put.key.encode(), put.value, revision, revision, put.lease),
        )

    def _end_leases(self, sql: sqlite3.Connection) -> None:
        now = self._clock()
        leases = sql.execute("SELECT id, ttl_s, until, renewals, boot FROM leases").fetchall()
        for gone in self._seen.keys() - {lease for lease, *_ in leases}:
            del self._seen[gone]
        for lease, ttl_s, until, renewals, boot in leases:
            over = now >= until if boot and boot == self._boot else self._watched(lease, renewals, now) > ttl_s
            if over:
                _end(sql, lease)

    def _watched(self, lease: int, renewals: int, now: float) -> float:
        """For how long it was not renewed while this process looked on, s."""
        before, since = self._seen.get(lease, (-1, now))
        if before != renewals:
            self._seen[lease], since = (renewals, now), now
        return now - since

    @contextmanager
    def _begun(self, timeout_s: float | None = None) -> Iterator[sqlite3.Connection]:
        """One transaction, with the leases that have run out ended."""
        with self._lock:
            if self._closed:
                raise CoordinationError(f"{self} was used after it was closed", hint="report this: what uses it ends before it")
            if self._connection is not None and not self._is_there():
                self._forget()
            try:
                sql = self._connection or self._open()
                sql.execute(f"PRAGMA busy_timeout = {int(1000 * min(timeout_s or self.section.timeout_s, self.section.timeout_s))}")
                sql.execute("BEGIN IMMEDIATE")
                with sql:
                    self._end_leases(sql)
                    yield sql
            except sqlite3.Error as error:
                was_open = self._connection is not None
                self._forget()
                raise self._translated(error, was_open=was_open) from error

    def _open(self) -> sqlite3.Connection:
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            sql = sqlite3.connect(self._path, timeout=self.section.timeout_s, isolation_level=None, check_same_thread=False)
        except OSError as error:
            raise ConfigError(
                f"etcd.folder {self._path.parent}: {error.strerror}", hint="name a folder that this user can write"
            ) from error
        try:
            self._prepare(sql)
            self._number = self._path.stat().st_ino
        except BaseException:
            sql.close()
            raise
        self._connection = sql
        return sql

    def _prepare(self, sql: sqlite3.Connection) -> None:
        sql.execute("PRAGMA synchronous = FULL")
        with sql:
            sql.execute("BEGIN IMMEDIATE")
            ((version,),) = sql.execute("PRAGMA user_version")
            if version == 0:
                for statement in _TABLES.split(";"):
                    sql.execute(statement)
                sql.execute("INSERT INTO revision VALUES (?)", (time.time_ns(),))  # no file begins where another one did
                sql.execute(f"PRAGMA user_version = {VERSION}")
            elif version != VERSION:
                raise ConfigError(f"{self} is of version {version}, and this program knows {VERSION}", hint="use the program that wrote it")

    def _is_new(self) -> bool:
        return self._connection is None and not self._path.exists() and not self._closed

    def _is_there(self) -> bool:
        """Whether the file is the one that is open: one that was moved away is nobody else's any more."""
        try:
            return self._path.stat().st_ino == self._number
        except OSError:
            return False

    def _forget(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _translated(self, error: sqlite3.Error, *, was_open: bool) -> TicdcDumpError:
        """`was_open`: it could be used, so that no setting is wrong; a file may have been moved, or the process lack descriptors."""
        said = f"{self}: {error}"
        match getattr(error, "sqlite_errorcode", 0) & 0xFF:
            case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
                return CoordinationLost(said, hint="another process holds it: nothing, it is tried again; see that the disk answers")
            case sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM if was_open:
                return CoordinationLost(said, hint="see that the file is there, and may be written")
            case sqlite3.SQLITE_IOERR:
                return CoordinationLost(said, hint="see that the disk answers and has room")
            case sqlite3.SQLITE_FULL:
                return StorageFull(said, hint="make room on the volume of etcd.folder")
            case sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
                return ConfigError(said, hint="let etcd.folder be a folder on a local disk that this user can write")
            case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
                hint = "stop the sidecar and its standby, and move the file away: the log has the dumps' progress, not older ones"
                return CoordinationError(said, hint=hint)
        return CoordinationError(said, hint="report this with the text")


def _get(sql: sqlite3.Connection, key: str) -> KeyEntry | None:
    row = sql.execute("SELECT key, value, created, modified, lease FROM keys WHERE key = ?", (key.encode(),)).fetchone()
    return None if row is None else _entry(*row)


def _revision(sql: sqlite3.Connection) -> int:
    return int(sql.execute("SELECT number FROM revision").fetchone()[0])


def _holds(sql: sqlite3.Connection, compare: Compare) -> bool:
    there = _get(sql, compare.key)
    return (0 if there is None else getattr(there, compare.what)) == compare.revision


def _end(sql: sqlite3.Connection, lease: int) -> None:
    sql.execute("DELETE FROM keys WHERE lease = ?", (lease,))
    sql.execute("DELETE FROM leases WHERE id = ?", (lease,))
    sql.execute("UPDATE revision SET number = number + 1")


def _range(prefix: str) -> tuple[bytes, bytes]:
    """From it to the first key behind all that begin with it."""
    return prefix.encode(), after(prefix)


def _entry(key: bytes, value: bytes, created: int, modified: int, lease: int) -> KeyEntry:
    return KeyEntry(key.decode(), value, created, modified, lease)


def _text_of(file: Path) -> str:
    """Empty where the system has no such file."""
    try:
        return file.read_text().strip()
    except OSError:
        return ""
