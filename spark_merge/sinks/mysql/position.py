"""Our own tables at the target, in a schema of ours.

    sink   one row, the state of the output: the log, the owner, the last accepted segment, the batch that has begun, its DDL
    slot   a row for each worker of each task of that batch: the owner, and how many of the task's rows the worker has committed

- A swap of the state is one transaction: it reads the row with a lock, compares it with the row that its caller has read, and writes the
  next one. What becomes of the slots is in the same transaction.
- A transaction of rows updates its slot `… WHERE epoch = mine AND incarnation = mine AND done = what I know`. That matches nothing for a
  replaced owner, and for another attempt of the same task; then the transaction is rolled back.
- An opening writes the next owner to all slots. So it waits for the transactions that hold a slot, and no transaction of an earlier owner
  commits after it.
- A connection that is lost during a commit leaves open whether the commit took place. The next attempt waits for the lock and compares
  the row again: if it is unchanged, nothing was committed.
- One schema holds the output of one log. Another log's has a schema of its own (`position-schema`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple, TypeAlias

import msgspec
import pymysql

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Seq
from sidecar.shared.mysql.errors import NO_RELATION, code_of
from sidecar.shared.mysql.retry import carried_out
from sidecar.shared.mysql.session import MysqlSession
from spark_merge.port.contract import Owner
from spark_merge.sinks.kit.position import Missed, OutputState, PositionKeeper, Stored, check_owner, from_fields, to_fields

_SINK = """CREATE TABLE IF NOT EXISTS {sink} (
  id TINYINT NOT NULL PRIMARY KEY,
  log_id VARCHAR(512) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  epoch BIGINT NOT NULL, incarnation BIGINT NOT NULL,
  accepted_seq BIGINT NULL, accepted_ts BIGINT UNSIGNED NULL, accepted_id VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  begun LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  ddl LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL)"""
_SLOT = """CREATE TABLE IF NOT EXISTS {slot} (
  task VARCHAR(100) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, worker INT NOT NULL,
  epoch BIGINT NOT NULL, incarnation BIGINT NOT NULL, done BIGINT NOT NULL,
  PRIMARY KEY (task, worker))"""

SLOTS_A_STATEMENT = 500

_DUPLICATE_KEY = 1062


class SqlBatch(msgspec.Struct, frozen=True):
    """The batch whose tasks may have been seen in part: its last segment with its `manifest`, and what its cut and its distribution over
    workers depend on: the number of workers, `keys`, a sum of the target's unique keys, and `sink`, `Head.received_as`. `written`: all
    tasks are done, only the DDLs of its end may not be. In records of 0.4 and before `sink` is None and `manifest` empty."""

    last: Seq
    workers: int
    keys: str
    written: bool = False
    sink: str | None = None
    manifest: str = ""

    @property
    def by_bytes(self) -> bool:
        """Whether a commit is long by its bytes, too: to 0.4 and before rows alone made it so, and a batch ends with the workers that its
        rows have gone to."""
        return self.sink is not None


@dataclass(frozen=True, slots=True)
class Underway:
    """What comes after the last accepted segment. `ddl`: the last DDL of the batch's end that its runner has noted, as text."""

    begun: SqlBatch | None = None
    ddl: str | None = None


Tasks: TypeAlias = Sequence[tuple[str, int]]
"""The tasks of a batch, by id, each with its number of workers."""


class SinkRow(NamedTuple):
    """The columns of `sink`, but its id."""

    log_id: str
    epoch: int
    incarnation: int
    accepted_seq: int | None
    accepted_ts: int | None
    accepted_id: str
    begun: str | None
    ddl: str | None

    @classmethod
    def of(cls, state: OutputState[Underway]) -> SinkRow:
        underway = state.detail or Underway()
        begun = None if underway.begun is None else msgspec.json.encode(underway.begun).decode()
        seq, ts, manifest = to_fields(state.accepted)
        return cls(state.log_id, *state.owner, seq, ts, manifest, begun, underway.ddl)

    def state(self) -> OutputState[Underway]:
        """Raises msgspec's errors."""
        accepted = from_fields(self.accepted_seq, self.accepted_ts, self.accepted_id)
        begun = msgspec.json.decode(self.begun, type=SqlBatch) if self.begun else None
        detail = Underway(begun, self.ddl) if begun or self.ddl is not None else None
        return OutputState(self.log_id, Owner(self.epoch, self.incarnation), accepted, detail)


class SinkTable:
    """`PositionStore` in `schema`. The payload: the tasks of a batch whose rows are all due, because it begins, or because the target's
    keys have changed, and rows went to workers by the keys. Deletes the slots with an acceptance."""

    def __init__(self, session: MysqlSession, schema: str) -> None:
        self._session, self._schema = session, schema
        self._sink, self._slot = _tables(schema)
        self.place = f"schema {schema} at {session.server}"

    def read(self) -> Stored[Underway] | None:
        return carried_out(self._session, lambda: read_state(self._session, self._schema), doing="reading the position")

    def compare_and_swap(
        self, before: Stored[Underway] | None, after: OutputState[Underway], payload: Tasks | None = None
    ) -> Stored[Underway] | Missed:
        if before is None:
            hint = f"let the account create tables in {self._schema}, or create them for it: deploy/SQL-SINK.md"
            carried_out(self._session, lambda: self._create(), doing=f"making our tables in schema {self._schema}", hint=hint)
        row, expected = SinkRow.of(after), None if before is None else before.version

        attempts = count()

        def swap() -> Stored[Underway] | Missed:
            may_be_done = next(attempts) > 0  # an attempt whose answer was lost may have been carried out
            with self._session.transaction():
                sink_row = _read_row(self._session, self._schema, locked=True)
                if sink_row != expected or not self._put(row, first=sink_row is None):
                    return Missed.UNKNOWN if may_be_done else Missed.CONFLICT
                self._change_slots(None if before is None else before.state, after, payload)
            return Stored(after, row)

        return carried_out(self._session, swap, doing="writing the position")

    # ---- statements of a swap ------------------------------------------------------------------------------------------

    def _put(self, row: SinkRow, *, first: bool) -> bool:
        """False: another worker has written the first row."""
        if not first:
            self._session.change(f"UPDATE {self._sink} SET {', '.join(f'{name} = %s' for name in SinkRow._fields)} WHERE id = 1", row)
            return True
        try:
            self._session.change(f"INSERT INTO {self._sink} VALUES (1, %s, %s, %s, %s, %s, %s, %s, %s)", row)
        except pymysql.err.IntegrityError as error:
            if code_of(error) != _DUPLICATE_KEY:
                raise
            return False
        return True

    def _change_slots(self, before: OutputState[Underway] | None, after: OutputState[Underway], due: Tasks | None) -> None:
        if before is None or before.accepted != after.accepted:
            self._session.change(f"DELETE FROM {self._slot}")
        elif before.owner != after.owner:
            self._session.change(f"UPDATE {self._slot} SET epoch = %s, incarnation = %s", after.owner)
        if due is None:
            return
        if before is not None and before.detail is not None and before.detail.begun is not None:
            self._session.change(f"UPDATE {self._slot} SET done = 0 WHERE done > 0")
            return
        slots = [(task, worker, *after.owner) for task, workers in due for worker in range(workers)]
        for start in range(0, len(slots), SLOTS_A_STATEMENT):
            part = slots[start : start + SLOTS_A_STATEMENT]
            values = ", ".join(["(%s, %s, %s, %s, 0)"] * len(part))
            self._session.change(f"INSERT INTO {self._slot} VALUES {values}", [value for slot in part for value in slot])

    def _create(self) -> None:
        try:
            self._session.rows(f"CREATE DATABASE IF NOT EXISTS `{self._schema}`")
        except pymysql.err.MySQLError:
            if not self._session.rows("SELECT 1 FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = %s", (self._schema,)):
                raise
        for text in (_SINK, _SLOT):
            self._session.rows(text.format(sink=self._sink, slot=self._slot))


@dataclass(frozen=True, slots=True)
class OwnedSlots:
    """A task's part of it: `owner` is the one that the task works for. Picklable. Raises pymysql's errors."""

    schema: str
    owner: Owner

    def advance(self, session: MysqlSession, task: str, worker: int, *, known: int, done: int) -> bool:
        """Within the transaction that writes these rows. False: the slot is not as known, so nothing may be committed."""
        _, slot = _tables(self.schema)
        sql = f"UPDATE {slot} SET done = %s WHERE task = %s AND worker = %s AND epoch = %s AND incarnation = %s AND done = %s"
        return session.change(sql, (done, task, worker, *self.owner, known)) == 1

    def done(self, session: MysqlSession, task: str) -> list[int] | None:
        """How many rows each worker has committed; None: the task's batch is accepted. Raises OwnershipLost for a replaced owner."""
        _, slot = _tables(self.schema)
        rows = session.rows(f"SELECT epoch, incarnation, done FROM {slot} WHERE task = %s ORDER BY worker", (task,))
        if rows and all((epoch, incarnation) == self.owner for epoch, incarnation, _ in rows):
            return [done for _, _, done in rows]
        check_owner(f"schema {self.schema} at {session.server}", read_state(session, self.schema), self.owner)
        assert not rows, "the slots' owner is the output's"
        return None


def position_of(session: MysqlSession, schema: str, *, log_id: str) -> PositionKeeper[Underway, Tasks]:
    remedy = (
        "give each changefeed a position-schema of its own; for a new log of the same one, empty the tables,"
        " drop that schema and dump again"
    )
    return PositionKeeper(SinkTable(session, schema), log_id=log_id, remedy=remedy)


def read_state(session: MysqlSession, schema: str) -> Stored[Underway] | None:
    """None where nothing of ours is. Raises pymysql's errors, SinkError."""
    row = _read_row(session, schema)
    try:
        return None if row is None else Stored(row.state(), row)
    except ValueError as error:
        raise SinkError(
            f"table {_tables(schema)[0]} at {session.server} is no position: {error}",
            hint="give the sink another position-schema: this one is somebody else's",
        ) from error


def _read_row(session: MysqlSession, schema: str, *, locked: bool = False) -> SinkRow | None:
    sink, _ = _tables(schema)
    try:
        rows = session.rows(f"SELECT {', '.join(SinkRow._fields)} FROM {sink} WHERE id = 1{' FOR UPDATE' if locked else ''}")
    except pymysql.err.MySQLError as error:
        if code_of(error) in NO_RELATION:
            return None
        raise
    return SinkRow(*rows[0]) if rows else None


def _tables(schema: str) -> tuple[str, str]:
    return f"`{schema}`.sink", f"`{schema}`.slot"
