"""The source: marks and chunk SELECTs carried out by threads of its own, so that no call waits for the database (P3).

    request ──► marks ──► one thread ───────────────────────────────┐
            └─► reads ──► up to `readers_max` readers (shared/reads/reader.py) ────┴──► results

- Readers are threads of this process, or tasks of Spark (remote_reads.py); the commands, the events and the reader are the same.
- Marks are sent strictly one after another, in the order of the commands.
- The watermark row is ours while it holds what we wrote last. A new owner reads what it holds before its first UPDATE, so an
  UPDATE of a previous owner that comes later matches nothing. An UPDATE whose answer was lost is sent again: it matches once. One that
  was given up, and that the server carries out later, is known as ours and goes before the next.
- What SQL cannot do ends the command (SourceFailed), with whether the server was away. What else goes wrong (the log's storage, a
  defect) is raised by `results`, in the thread that waits for it.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from queue import SimpleQueue
from typing import Protocol

import pymysql

from sidecar.adapters.tidb.read_queue import Reads
from sidecar.core.marks import is_previous
from sidecar.shared.config import SourceSection
from sidecar.shared.errors import ConfigError
from sidecar.shared.model.messages import (
    READERS_MAX,
    ChunkLost,
    ChunkMisfit,
    ChunkRead,
    Command,
    MarkFenced,
    MarkSent,
    ReadChunk,
    SendMark,
    SourceEvent,
    SourceFailed,
)
from sidecar.shared.model.nouns import MARK_TABLE, MarkKind, TableName, TableSchema
from sidecar.shared.mysql.account import Account
from sidecar.shared.mysql.errors import NO_RELATION, code_of
from sidecar.shared.mysql.flavour import Flavour
from sidecar.shared.mysql.retry import carried_out
from sidecar.shared.mysql.roles import Role
from sidecar.shared.mysql.session import MysqlSession
from sidecar.shared.process.background import Background
from sidecar.shared.reads.reader import ReadPlace, ReadsByWay, ReadSession, Report, TableReader, WriteChunk, carry_out
from sidecar.shared.reads.sql_reads import SqlReads
from sidecar.shared.ticdc.changefeed import ChangefeedName

CLOSE_WAIT_S = 5.0
"""Threads that have not ended by then are left behind; they are daemons and report to nobody."""

CHANGEFEED_ID_LENGTH_MAX = 128

MARK_SCHEMA_DDL = f"CREATE DATABASE IF NOT EXISTS {MARK_TABLE.schema}"
MARK_TABLE_DDL = f"""CREATE TABLE IF NOT EXISTS {MARK_TABLE} (
  id BIGINT NOT NULL AUTO_RANDOM COMMENT 'the row, of no meaning',
  changefeed_id VARCHAR({CHANGEFEED_ID_LENGTH_MAX}) NOT NULL COMMENT 'whose dumps mark their windows here',
  unique_identifier VARCHAR(32) NOT NULL COMMENT 'the newest mark: dump id, epoch and number',
  event_type TINYINT NOT NULL COMMENT 'of the newest mark: 1 low, 2 high',
  create_time INT NOT NULL COMMENT 'when the row was made, in Unix seconds',
  update_time INT NOT NULL COMMENT 'when the newest mark was made, in Unix seconds',
  PRIMARY KEY (id),
  UNIQUE KEY (changefeed_id)
)"""
"""One row for each changefeed. An UPDATE touches no column of a key: TiCDC would split it in two. A table with AUTO_INCREMENT, and without
the comments, serves as well: nothing reads the id."""

_DEFAULT = "default"


def ensure_mark_table(settings: SourceSection) -> None:
    """Create the watermark table unless it is there; a right to create is needed only if it is not. Raises SourceError."""

    def ensure() -> None:
        try:
            session.rows(f"SELECT id, changefeed_id, unique_identifier, event_type, create_time, update_time FROM {MARK_TABLE} LIMIT 0")
        except pymysql.err.MySQLError as error:
            if code_of(error) not in NO_RELATION:
                raise
            session.rows(MARK_SCHEMA_DDL)
            session.rows(MARK_TABLE_DDL if session.flavour is Flavour.TIDB else MARK_TABLE_DDL.replace("AUTO_RANDOM", "AUTO_INCREMENT"))

    with closing(MysqlSession(Account.of(settings), Role.MARK)) as session:
        carried_out(session, ensure, doing=f"creating the watermark table {MARK_TABLE}")


class ChunkReaders(Protocol):
    """Where a source's chunks are read. For the thread of the source; what is read is reported in any thread."""

    def read(self, command: ReadChunk, under_way: int) -> None:
        """Begin to carry it out. `under_way`: commands that are not reported, with this one."""

    def follow(self, schemas: Mapping[TableName, TableSchema]) -> None:
        """As `Source.follow`."""

    def look(self, under_way: int) -> None:
        """Called often. Raises what a reader died of, if that is not the source's doing."""

    def tell(self) -> None:
        """End what is under way: nothing is reported any more. Waits for nothing."""

    def close(self, timeout_s: float) -> None:
        """`tell`, and wait for the end, no longer than so."""


MakeReaders = Callable[[Mapping[TableName, TableSchema], Report], ChunkReaders]
"""Of a term, with the schemas in force."""


class TidbSource:
    """`Source`. `request`, `follow` and `results` are for one thread."""

    def __init__(
        self,
        settings: SourceSection,
        *,
        schemas: Mapping[TableName, TableSchema],
        write_chunk: WriteChunk,
        changefeed_id: str,
        readers_max: int = READERS_MAX,
        make_readers: MakeReaders | None = None,
    ) -> None:
        """`make_readers` None: threads of this process read, over SQL. Raises ConfigError. Nothing is sent to a server before the first
        command."""
        self._account = Account.of(settings)
        self._closed = threading.Event()
        self._marks: SimpleQueue[SendMark | None] = SimpleQueue()
        self._done: SimpleQueue[SourceEvent] = SimpleQueue()
        self._reading = 0
        self._marking: tuple[Background, MysqlSession] | None = None
        make_readers = make_readers or own_readers(settings, None, write_chunk=write_chunk, readers_max=readers_max)
        self._readers = make_readers(schemas, self._done.put)
        self._mark_row = MarkRow(changefeed_id)

    def request(self, command: Command) -> None:
        match command:
            case SendMark():
                self._marks.put(command)
                if self._marking is None:
                    session = MysqlSession(self._account, Role.MARK)
                    self._marking = Background(partial(self._send_marks, session), name="tidb-marks"), session
            case ReadChunk():
                self._reading += 1
                self._readers.read(command, self._reading)

    def follow(self, schemas: Mapping[TableName, TableSchema]) -> None:
        self._readers.follow(schemas)

    def results(self) -> Sequence[SourceEvent]:
        """As the port. Raises what a thread of ours died of, after the events that came before it. Nothing once closed."""
        events: list[SourceEvent] = []
        if self._closed.is_set():
            return events
        while not self._done.empty():
            events.append(self._done.get())
        self._reading -= sum(
            isinstance(event, ChunkRead | ChunkMisfit | ChunkLost)
            or (isinstance(event, SourceFailed) and isinstance(event.command, ReadChunk))
            for event in events
        )
        if not events:
            if self._marking is not None:
                self._marking[0].check()
            self._readers.look(self._reading)
        return events

    def close(self) -> None:
        """Ends SELECTs by closing their connections. What was under way may yet be done; it is not reported."""
        self._closed.set()
        if self._marking is not None:
            self._marking[1].interrupt()
        self._marks.put(None)
        self._readers.tell()
        give_up_s = time.monotonic() + CLOSE_WAIT_S
        if self._marking is not None:
            self._marking[0].close(CLOSE_WAIT_S)
        self._readers.close(max(0.0, give_up_s - time.monotonic()))

    def _send_marks(self, session: MysqlSession, _: threading.Event) -> None:
        with closing(session):
            while (mark := self._marks.get()) is not None and not self._closed.is_set():
                doing = f"sending mark {mark.uuid} ({MARK_TABLE})"
                update = partial(self._mark_row.update, session, mark)
                carry_out(mark, partial(carried_out, session, update, doing=doing, stopped=self._closed.is_set), self._done.put)


def own_readers(settings: SourceSection, raw: ReadPlace | None, *, write_chunk: WriteChunk, readers_max: int = READERS_MAX) -> MakeReaders:
    """Threads of this process. `raw`: what they read with from TiKV; None: nothing."""

    def make(schemas: Mapping[TableName, TableSchema], report: Report) -> OwnReaders:
        reads = ReadsByWay(SqlReads(Account.of(settings), schemas), raw)
        reads.follow(schemas)
        return OwnReaders(reads, report, write_chunk=write_chunk, readers_max=readers_max)

    return make


class OwnReaders:
    """`ChunkReaders` by threads of this process: as many as commands are under way, up to `readers_max`."""

    def __init__(
        self,
        chunks: ReadPlace,
        report: Report,
        *,
        write_chunk: WriteChunk,
        readers_max: int,
    ) -> None:
        self._chunks, self._report, self._write_chunk, self._readers_max = chunks, report, write_chunk, readers_max
        self._reads = Reads()
        self._closed = threading.Event()
        self._sessions: list[ReadSession] = []
        self._threads: list[Background] = []

    def read(self, command: ReadChunk, under_way: int) -> None:
        self._reads.put(command)
        if len(self._sessions) < min(under_way, self._readers_max):
            self._start_reader()

    def follow(self, schemas: Mapping[TableName, TableSchema]) -> None:
        self._chunks.follow(schemas)

    def look(self, under_way: int) -> None:  # noqa: ARG002  # the port's
        for thread in self._threads:
            thread.check()

    def tell(self) -> None:
        self._closed.set()
        for session in self._sessions:
            session.interrupt()
        self._reads.close()

    def close(self, timeout_s: float) -> None:
        self.tell()
        give_up_s = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.close(max(0.0, give_up_s - time.monotonic()))

    def _start_reader(self) -> None:
        session, number = self._chunks.open(), len(self._sessions)
        self._sessions.append(session)
        closed = self._closed.is_set
        reader = TableReader(session, self._reads, write_chunk=self._write_chunk, report=self._report, stopped=closed)

        def read(_: threading.Event) -> None:
            with closing(session):
                reader.read()

        self._threads.append(Background(lambda _: reader.write(), name=f"tidb-writer-{number}"))
        self._threads.append(Background(read, name=f"tidb-reader-{number}"))


def mark_row_id(name: ChangefeedName) -> str:
    """How the watermark row names this changefeed: by its id alone where that is unique, in the default namespace and cluster."""
    return name.id if (name.cluster, name.namespace) == (_DEFAULT, _DEFAULT) else str(name)


class MarkRow:
    """The watermark row of one changefeed, as its owner. `_holds`: what this owner wrote last, None before it read the row. `_doubtful`:
    what it tried to write after that, and was not answered for."""

    def __init__(self, changefeed_id: str) -> None:
        """Raises ConfigError for an id that does not fit into the row."""
        if len(changefeed_id) > CHANGEFEED_ID_LENGTH_MAX:
            raise ConfigError(
                f"changefeed id {changefeed_id!r} is longer than the {CHANGEFEED_ID_LENGTH_MAX} characters of {MARK_TABLE}.changefeed_id",
                hint="create a changefeed with a shorter id",
            )
        self.changefeed_id = changefeed_id
        self._holds: str | None = None
        self._doubtful: set[str] = set()

    def update(self, session: MysqlSession, mark: SendMark) -> MarkSent | MarkFenced | SourceFailed:
        """One attempt; repeating it is harmless. Raises pymysql's errors."""
        if self._holds is None:
            self._holds = self._present(session) or self._created(session)
        self._doubtful.add(mark.uuid)
        while not self._changed(session, mark, self._holds):
            present = self._present(session)
            if present == mark.uuid:  # our own UPDATE, whose answer was lost
                break
            if present is None or not (present in self._doubtful or is_previous(present, of=mark.uuid)):
                return self._lost(mark, self._holds, present)
            self._holds = present  # given up by us, or by a previous owner, and carried out since
        self._holds = mark.uuid
        self._doubtful.clear()  # they compare with what the row will never hold again
        return MarkSent(mark.uuid)

    def _changed(self, session: MysqlSession, mark: SendMark, holds: str) -> bool:
        return bool(
            session.change(
                f"UPDATE {MARK_TABLE} SET unique_identifier = %s, event_type = %s, update_time = UNIX_TIMESTAMP()"
                " WHERE changefeed_id = %s AND unique_identifier = %s",
                (mark.uuid, int(mark.kind), self.changefeed_id, holds),
            )
        )

    def _lost(self, mark: SendMark, holds: str, value: str | None) -> MarkFenced | SourceFailed:
        if value is None:
            self._holds = None
            return SourceFailed(
                mark,
                reason=f"the row of changefeed {self.changefeed_id} in {MARK_TABLE} is gone",
                hint="let nothing else write that table, then dumpresume: the next mark makes a new row",
            )
        return MarkFenced(
            mark,
            reason=f"the row of changefeed {self.changefeed_id} in {MARK_TABLE} holds {value}, not {holds}, which this sidecar wrote last",
            hint="another sidecar dumps the same changefeed: stop one of them; if there is none, it was a previous owner's UPDATE that came"
            " late, and nothing needs to be done",
        )

    def _present(self, session: MysqlSession) -> str | None:
        rows = session.rows(f"SELECT unique_identifier FROM {MARK_TABLE} WHERE changefeed_id = %s", (self.changefeed_id,))
        return str(rows[0][0]) if rows else None

    def _created(self, session: MysqlSession) -> str:
        """A row with a uuid that is no dump's. If somebody was faster, the row is theirs, and the next UPDATE shows that."""
        uuid = secrets.token_hex(16)
        self._doubtful.add(uuid)
        session.change(
            f"INSERT INTO {MARK_TABLE} (changefeed_id, unique_identifier, event_type, create_time, update_time)"
            " VALUES (%s, %s, %s, UNIX_TIMESTAMP(), UNIX_TIMESTAMP()) ON DUPLICATE KEY UPDATE changefeed_id = changefeed_id",
            (self.changefeed_id, uuid, int(MarkKind.HIGH)),
        )
        return uuid
