"""The file: connections, transactions, and what SQLite's errors mean."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager

from sidecar.shared.errors import SinkError, StorageFull
from sidecar.shared.process.progress import progressed

BUSY_S = 60.0
"""How long a transaction waits for another process's."""

FULL = "SQLITE_FULL"

STEPS_A_REPORT = 1_000_000
"""Of SQLite's machine, of which a copied row takes some ten: after so many, a statement that is under way reports progress."""


@contextmanager
def transaction(path: str) -> Iterator[sqlite3.Connection]:
    """All of it is durable at the end, or none of it where an error leaves it. Nobody else writes meanwhile. Raises SinkError,
    StorageFull."""
    with sqlite_errors(path), _connection(path) as connection:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")


@contextmanager
def reader(path: str) -> Iterator[sqlite3.Connection | None]:
    """Each statement reads what is committed then, and the sink continues to write. None: there is no file. Not read-only for SQLite, which
    may have to undo what a process left that died. Raises SinkError."""
    if not os.path.exists(path):
        yield None
        return
    with sqlite_errors(path), _connection(path) as connection:
        connection.execute("PRAGMA query_only = ON")
        yield connection


@contextmanager
def _connection(path: str) -> Iterator[sqlite3.Connection]:
    """Each statement on it reports progress while it runs: a DDL copies a table of any size by one statement."""
    with closing(sqlite3.connect(path, timeout=BUSY_S, isolation_level=None)) as connection:
        connection.set_progress_handler(progressed, STEPS_A_REPORT)  # its None lets the statement continue
        yield connection


@contextmanager
def sqlite_errors(path: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorname", "") == FULL:
            raise StorageFull(f"no room left for {path}", hint="make room: nothing accepted is lost, and the sink continues") from error
        raise SinkError(
            f"{path} cannot be read or written: {error}",
            hint="make its folder exist and be writable for this process and Spark's workers; nothing accepted is lost",
        ) from error


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
