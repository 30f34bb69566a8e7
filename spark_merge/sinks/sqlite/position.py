"""The position (`PositionStore`): the one row of the table `_ticdc_dump`. A swap compares and writes it in one transaction, with the
statements that are its payload."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from sidecar.shared.model.nouns import Seq
from spark_merge.port.contract import Accepted, Owner
from spark_merge.sinks.kit.position import Missed, OutputState, Stored, as_text, from_fields, to_fields
from spark_merge.sinks.sqlite.database import reader, transaction

_CREATE = """CREATE TABLE IF NOT EXISTS _ticdc_dump (id INTEGER PRIMARY KEY CHECK (id = 1), log_id TEXT NOT NULL, epoch INTEGER NOT NULL,
  incarnation INTEGER NOT NULL, seq INTEGER, upto_ts TEXT, manifest TEXT NOT NULL, written INTEGER)"""
_READ = "SELECT log_id, epoch, incarnation, seq, upto_ts, manifest FROM _ticdc_dump"
_WRITE = "INSERT OR REPLACE INTO _ticdc_dump VALUES (1, ?, ?, ?, ?, ?, ?, ?)"


class SqlitePositions:
    """`PositionStore` in the file `path`. The payload is statements, such as schema changes."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.place = path

    def read(self) -> Stored[None] | None:
        with reader(self._path) as connection:
            return None if connection is None else stored_in(connection)

    def compare_and_swap(
        self, before: Stored[None] | None, after: OutputState[None], payload: Sequence[str] | None = None
    ) -> Stored[None] | Missed:
        with transaction(self._path) as connection:
            if stored_in(connection) != before:
                return Missed.CONFLICT
            connection.execute(_CREATE)
            for statement in payload or ():
                connection.execute(statement)
            kept = before is not None and before.state.accepted == after.accepted
            seq, upto_ts, manifest = to_fields(after.accepted)
            written = written_in(connection) if kept else None
            connection.execute(_WRITE, (after.log_id, *after.owner, seq, as_text(upto_ts), manifest, _as_column(written)))
        return Stored(after)

    def written(self) -> Accepted | None:
        """The last segment of a batch whose rows are there, and that is not accepted yet."""
        with transaction(self._path) as connection:
            return written_in(connection)


def stored_in(connection: sqlite3.Connection) -> Stored[None] | None:
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = '_ticdc_dump'").fetchone() is None:
        return None
    row = connection.execute(_READ).fetchone()
    if row is None:
        return None
    log_id, epoch, incarnation, *accepted = row
    return Stored(OutputState(log_id, Owner(epoch, incarnation), from_fields(*accepted)))


def written_in(connection: sqlite3.Connection) -> Accepted | None:
    row = connection.execute("SELECT written FROM _ticdc_dump").fetchone()
    if row is None or row[0] is None:
        return None
    seq, _, manifest = str(row[0]).partition(" ")  # 0.4 and before wrote the number alone
    return Accepted(Seq(int(seq)), manifest=manifest)


def note_written(connection: sqlite3.Connection, last: Accepted) -> None:
    connection.execute("UPDATE _ticdc_dump SET written = ?", (_as_column(last),))


def _as_column(written: Accepted | None) -> str | None:
    return None if written is None else f"{written.seq} {written.manifest}"
