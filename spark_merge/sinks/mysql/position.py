"""Our own tables at the target, in a schema of ours: whose output it is, what it has, and how far each worker of what is under way is.

    sink   one row: the log, the owner, the last accepted segment, the batch that is begun, the DDL under way
    slot   a row for each worker of each task that is begun: the owner, and how many of the task's rows it has behind it

- A transaction of rows updates its slot `… WHERE epoch = mine AND incarnation = mine AND done = what I know`: one of a former owner, and
  one of a twin of the same task, matches nothing and is rolled back.
- Who opens takes the slots over with the row of `sink`: it waits for the transactions that hold one, and none comes after.
- One schema holds the output of one log. Another log's has a schema of its own (`position-schema`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import msgspec
import pymysql

from sidecar.core.model import CommitTs, Seq
from sidecar.errors import OwnershipLost
from spark_merge.contract import Accepted, Owner
from spark_merge.sinks.fence import check_log, check_next
from spark_merge.sinks.mysql.session import NO_SCHEMA, NO_TABLE, Session, code_of, retried

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


class Begun(msgspec.Struct, frozen=True):
    """The batch whose tasks may have been seen in part: its last segment, and what its cut and its spreading over workers hang on: how many
    these are, and `keys`, a sum of the target's unique keys. `written`: all tasks are done, only the DDLs of its end may not be."""

    last: Seq
    workers: int
    keys: str
    written: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """The row of `sink`. `ddl` is its runner's."""

    log_id: str
    owner: Owner
    accepted: Accepted | None
    begun: Begun | None
    ddl: str | None


class _Row(NamedTuple):
    """The columns of `sink`, but its id."""

    log_id: str
    epoch: int
    incarnation: int
    accepted_seq: int | None
    accepted_ts: int | None
    accepted_id: str
    begun: str | None
    ddl: str | None

    def found(self) -> Found:
        seq, ts = self.accepted_seq, self.accepted_ts
        accepted = None if seq is None else Accepted(Seq(seq), None if ts is None else CommitTs(ts), self.accepted_id)
        begun = msgspec.json.decode(self.begun, type=Begun) if self.begun else None
        return Found(self.log_id, Owner(self.epoch, self.incarnation), accepted, begun, self.ddl)


@dataclass(frozen=True, slots=True)
class Place:
    """Where our tables are. Picklable: tasks have it, with the owner they work for."""

    schema: str
    owner: Owner

    @property
    def sink(self) -> str:
        return f"`{self.schema}`.sink"

    @property
    def slot(self) -> str:
        return f"`{self.schema}`.slot"

    # ---- a task's ----------------------------------------------------------------------------------------------------

    def advance(self, session: Session, task: str, worker: int, *, known: int, done: int) -> bool:
        """Within the transaction that writes these rows. False: the slot is not as known, so nothing may be committed."""
        sql = f"UPDATE {self.slot} SET done = %s WHERE task = %s AND worker = %s AND epoch = %s AND incarnation = %s AND done = %s"
        return session.change(sql, (done, task, worker, *self.owner, known)) == 1

    def slots(self, session: Session, task: str) -> list[int] | None:
        """How far each worker is; None: the task's batch is accepted. Raises OwnershipLost for a former owner."""
        rows = session.rows(f"SELECT epoch, incarnation, done FROM {self.slot} WHERE task = %s ORDER BY worker", (task,))
        if not rows:
            found = self.read(session)
            if found is None or found.owner != self.owner:
                raise lost(found, self.owner)
            return None
        for epoch, incarnation, _ in rows:
            if Owner(epoch, incarnation) != self.owner:
                raise OwnershipLost(f"the target has owner {(epoch, incarnation)}, this is {tuple(self.owner)}", hint=_LATER)
        return [done for _, _, done in rows]

    def read(self, session: Session, *, locked: bool = False) -> Found | None:
        """None where nothing of ours is."""
        try:
            rows = session.rows(f"SELECT {', '.join(_Row._fields)} FROM {self.sink} WHERE id = 1{' FOR UPDATE' if locked else ''}")
        except pymysql.err.MySQLError as error:
            if code_of(error) in (NO_SCHEMA, NO_TABLE):
                return None
            raise
        return _Row(*rows[0]).found() if rows else None


_LATER = "nothing: it has a later owner"


def lost(found: Found | None, owner: Owner) -> OwnershipLost:
    return OwnershipLost(f"the target has owner {tuple(found.owner) if found else 'none'}, this is {tuple(owner)}", hint=_LATER)


class Position:
    """The driver's side of it."""

    def __init__(self, session: Session, schema: str, *, log_id: str) -> None:
        self._session, self._log_id = session, log_id
        self.place = Place(schema, Owner(-1, 0))

    @property
    def owner(self) -> Owner:
        return self.place.owner

    def look(self) -> Found | None:
        """Raises SinkError for another log's output."""
        found = retried(self._session, lambda _: self.place.read(self._session), doing="reading the position")
        self._check_log(found)
        return found

    def open(self, epoch: int | None) -> Found:
        """The next owner, with all slots. Raises OwnershipLost if a later epoch is there, SinkError."""
        hint = f"let the account create tables in {self.place.schema}, or create them for it: deploy/SQL-SINK.md"
        if self.look() is None:
            retried(self._session, lambda _: self._create(), doing=f"making our tables in schema {self.place.schema}", hint=hint)
        found = retried(self._session, lambda _: self._take_over(epoch), doing="becoming the target's writer")
        self.place = replace(self.place, owner=found.owner)
        return found

    def begin(self, begun: Begun, tasks: Sequence[tuple[str, int]]) -> None:
        """On record, with the slots of its tasks (each with how many workers). Where it is there already, only what hangs on the target's
        keys may differ: then every row is due again, for rows went to workers by the keys. Raises OwnershipLost."""
        retried(self._session, lambda _: self._begin(begun, tasks), doing="putting a batch on record")

    def wrote(self, *, first: Seq) -> None:
        """All tasks of the batch are done, and the DDLs of its end come now. Raises as `accept`."""

        def note(_: int) -> None:
            with self._session.transaction():
                found = self._mine()
                check_next(self.place.sink, found.accepted and found.accepted.seq, first)
                if found.begun is not None:
                    self._set("begun = %s", _json(msgspec.structs.replace(found.begun, written=True)))

        retried(self._session, note, doing="noting that a batch is written")

    def note_ddl(self, text: str | None) -> None:
        """What the runner of DDLs keeps. Raises OwnershipLost."""

        def note(_: int) -> None:
            with self._session.transaction():
                self._mine()
                self._set("ddl = %s", text)

        retried(self._session, note, doing="noting a DDL")

    def ddl(self) -> str | None:
        found = retried(self._session, lambda _: self.place.read(self._session), doing="reading the position")
        return found.ddl if found else None

    def accept(self, accepted: Accepted, *, first: Seq) -> None:
        """Raises OwnershipLost, SinkError for a gap or a step back."""
        retried(self._session, lambda attempt: self._accept(accepted, first, again=attempt > 0), doing="accepting a batch")

    # ---- each one transaction ------------------------------------------------------------------------------------------

    def _create(self) -> None:
        try:
            self._session.rows(f"CREATE DATABASE IF NOT EXISTS `{self.place.schema}`")
        except pymysql.err.MySQLError:
            if not self._session.rows("SELECT 1 FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = %s", (self.place.schema,)):
                raise
        for text in (_SINK, _SLOT):
            self._session.rows(text.format(sink=self.place.sink, slot=self.place.slot))

    def _take_over(self, epoch: int | None) -> Found:
        with self._session.transaction():
            found = self.place.read(self._session, locked=True)
            self._check_log(found)
            owner = Owner.after(found.owner if found else None, epoch, of=f"the target of {self.place.schema}")
            if found is None:
                self._session.change(
                    f"INSERT INTO {self.place.sink} VALUES (1, %s, %s, %s, NULL, NULL, '', NULL, NULL)", (self._log_id, *owner)
                )
                self._session.change(f"DELETE FROM {self.place.slot}")
                return Found(self._log_id, owner, None, None, None)
            values = (self._log_id, *owner)
            self._session.change(f"UPDATE {self.place.sink} SET log_id = %s, epoch = %s, incarnation = %s WHERE id = 1", values)
            self._session.change(f"UPDATE {self.place.slot} SET epoch = %s, incarnation = %s", owner)
            return replace(found, log_id=self._log_id, owner=owner)

    def _begin(self, begun: Begun, tasks: Sequence[tuple[str, int]]) -> None:
        session, owner = self._session, self.place.owner
        with session.transaction():
            found = self._mine()
            if found.begun == begun:
                return
            self._set("begun = %s", _json(begun))
            if found.begun is not None:
                session.change(f"UPDATE {self.place.slot} SET done = 0 WHERE done > 0")
                return
            slots = [(task, worker, *owner) for task, workers in tasks for worker in range(workers)]
            for start in range(0, len(slots), SLOTS_A_STATEMENT):
                part = slots[start : start + SLOTS_A_STATEMENT]
                values = ", ".join(["(%s, %s, %s, %s, 0)"] * len(part))
                session.change(f"INSERT INTO {self.place.slot} VALUES {values}", [value for slot in part for value in slot])

    def _accept(self, accepted: Accepted, first: Seq, *, again: bool) -> None:
        with self._session.transaction():
            found = self._mine()
            if again and found.accepted == accepted:
                return
            check_next(self.place.sink, found.accepted and found.accepted.seq, first)
            self._set("accepted_seq = %s, accepted_ts = %s, accepted_id = %s, begun = NULL, ddl = NULL", *accepted)
            self._session.change(f"DELETE FROM {self.place.slot}")

    def _mine(self) -> Found:
        """Locked. Raises OwnershipLost for a former owner."""
        found = self.place.read(self._session, locked=True)
        if found is None or found.owner != self.place.owner:
            raise lost(found, self.place.owner)
        return found

    def _set(self, what: str, *values: object) -> None:
        self._session.change(f"UPDATE {self.place.sink} SET {what} WHERE id = 1", values)

    def _check_log(self, found: Found | None) -> None:
        if found is not None:
            check_log(
                f"schema {self.place.schema} at {self._session.server}",
                found.log_id,
                self._log_id,
                hint="give each changefeed a position-schema of its own; for a new log of the same one, empty the tables, drop that schema"
                " and dump again",
            )


def _json(begun: Begun) -> str:
    return msgspec.json.encode(begun).decode()
