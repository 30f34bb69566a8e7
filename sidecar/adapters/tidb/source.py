"""The source: marks and chunk SELECTs carried out by threads of its own, so that no call waits for the database (P3).

    request ──► marks ──► one thread ─────────────────────────────────────────────────┐
            └─► reads ──► up to `readers_max` ──► the SELECT's rows ──► a writer each ──┴──► results

- Marks are sent strictly one after another, in the order of the commands.
- The watermark row is ours while it holds what we wrote last. A new owner reads what it holds before its first UPDATE, so an
  UPDATE of a previous owner that comes later matches nothing. An UPDATE whose answer was lost is sent again: it matches once. One that
  was given up, and that the server carries out later, is known as ours and goes before the next.
- A chunk's file is durable before its ChunkRead is reported. A read changes nothing and may be done again.
- A reader does not wait for the file: while its writer makes it, it reads ahead what the same window is likely to ask for next
  (ReadChunk.ahead). That serves only the command that follows in the window, of the same range, by the same schemas; else it is dropped.
- A SELECT whose rows are not of the schema in force is reported with a TSO taken after it (ChunkMisfit): a DDL that did this before is at
  or below. A server without TSOs cannot say so, and the command fails.
- What SQL cannot do ends the command (SourceFailed), with whether the server was away. What else goes wrong (the log's storage, a
  defect) is raised by `results`, in the thread that waits for it.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from queue import SimpleQueue

import pyarrow as pa
import pymysql

from sidecar.adapters.tidb.read import ChunkReader, Misfit, SelectedChunk
from sidecar.adapters.tidb.read_queue import Reads
from sidecar.adapters.tidb.snapshot import present_ts
from sidecar.config import SourceSection
from sidecar.core.chunk import ChunkFile, WrittenChunk
from sidecar.core.marks import is_previous
from sidecar.core.messages import (
    READERS_MAX,
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
from sidecar.core.model import MARK_TABLE, MarkKind, TableName, TableSchema
from sidecar.errors import ConfigError, SourceError
from sidecar.log.layout import chunk_name
from sidecar.mysql.account import Account
from sidecar.mysql.errors import NO_RELATION, code_of, is_away
from sidecar.mysql.flavour import Flavour
from sidecar.mysql.retry import carried_out
from sidecar.mysql.roles import Role
from sidecar.mysql.session import MysqlSession
from sidecar.process.background import Background
from sidecar.ticdc.changefeed import ChangefeedName

WriteChunk = Callable[[str, pa.Table], WrittenChunk]
"""Write the table durably under this path of the log."""

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


_Written = SimpleQueue[tuple[ReadChunk, SelectedChunk] | None]
"""What a reader has for its writer. None: no more."""


@dataclass(frozen=True, slots=True)
class _Ahead:
    """What was read behind chunk `behind`, by a command of our own; `chunk` None: it failed."""

    behind: int
    command: ReadChunk
    chunk: SelectedChunk | None


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
    ) -> None:
        """Raises ConfigError. Nothing is sent to the server before the first command."""
        self._account = Account.of(settings)
        self._write_chunk = write_chunk
        self._readers_max = readers_max
        self._closed = threading.Event()
        self._marks: SimpleQueue[SendMark | None] = SimpleQueue()
        self._reads = Reads()
        self._done: SimpleQueue[SourceEvent] = SimpleQueue()
        self._reading = 0
        self._sessions: list[MysqlSession] = []
        self._threads: dict[str, Background] = {}
        self._written: list[_Written] = []
        self._chunks = ChunkReader(schemas)
        self._mark_row = MarkRow(changefeed_id)

    def request(self, command: Command) -> None:
        match command:
            case SendMark():
                self._marks.put(command)
                if "tidb-marks" not in self._threads:
                    self._start("tidb-marks", self._send_marks, Role.MARK)
            case ReadChunk():
                self._reads.put(command)
                self._reading += 1
                readers = sum(name.startswith("tidb-reader") for name in self._threads)
                if readers < min(self._reading, self._readers_max):
                    self._start_reader(readers)

    def follow(self, schemas: Mapping[TableName, TableSchema]) -> None:
        self._chunks.follow(schemas)

    def results(self) -> Sequence[SourceEvent]:
        """As the port. Raises what a thread of ours died of, after the events that came before it. Nothing once closed."""
        events: list[SourceEvent] = []
        if self._closed.is_set():
            return events
        while not self._done.empty():
            events.append(self._done.get())
        if not events:
            for thread in self._threads.values():
                thread.check()
        self._reading -= sum(
            isinstance(event, ChunkRead | ChunkMisfit) or (isinstance(event, SourceFailed) and isinstance(event.command, ReadChunk))
            for event in events
        )
        return events

    def close(self) -> None:
        """Ends SELECTs by closing their connections. What was under way may yet be done; it is not reported."""
        self._closed.set()
        for session in self._sessions:
            session.interrupt()
        self._reads.close()
        self._marks.put(None)
        for written in self._written:
            written.put(None)
        give_up_s = time.monotonic() + CLOSE_WAIT_S
        for thread in self._threads.values():
            thread.close(max(0.0, give_up_s - time.monotonic()))

    # ---- threads ---------------------------------------------------------------------------------------------------

    def _start(self, name: str, work: Callable[[MysqlSession], None], role: Role = Role.READ_SOURCE) -> None:
        session = MysqlSession(self._account, role)
        self._sessions.append(session)

        def run(_: threading.Event) -> None:
            with closing(session):
                work(session)

        self._threads[name] = Background(run, name=name)

    def _start_reader(self, number: int) -> None:
        written: _Written = SimpleQueue()
        self._written.append(written)
        name = f"tidb-writer-{number}"
        self._threads[name] = Background(partial(self._write_files, written), name=name)
        self._start(f"tidb-reader-{number}", partial(self._read_chunks, written))

    def _send_marks(self, session: MysqlSession) -> None:
        while (mark := self._marks.get()) is not None and not self._closed.is_set():
            doing = f"sending mark {mark.uuid} ({MARK_TABLE})"
            update = partial(self._mark_row.update, session, mark)
            self._report(mark, partial(carried_out, session, update, doing=doing, stopped=self._closed.is_set))

    def _report(self, command: Command, action: Callable[[], SourceEvent | None]) -> None:
        """The result of the command is reported, if there is one."""
        try:
            event = action()
        except SourceError as error:
            event = SourceFailed(command, reason=error.message, hint=error.hint, away=is_away(error))
        if event is not None:
            self._done.put(event)

    def _read_chunks(self, written: _Written, session: MysqlSession) -> None:
        ahead: _Ahead | None = None
        while (command := self._reads.take(ahead.behind if ahead else None)) is not None:
            ahead = self._read_one(session, command, ahead, written)

    def _read_one(self, session: MysqlSession, command: ReadChunk, ahead: _Ahead | None, written: _Written) -> _Ahead | None:
        """Carry out the command, by what was read `ahead` if that serves, and read ahead behind it if it says so."""
        chunk = self._served(command, ahead)
        if chunk is None:
            chunks: list[SelectedChunk] = []
            self._report(command, lambda: self._read(session, command, chunks))
            if not chunks:
                return None
            (chunk,) = chunks
        goes_on = command.ahead and not (command.bounds_max or command.keys or chunk.exhausted)  # bounds move the upper end of what follows
        if goes_on:
            self._reads.keep(command.number)
        written.put((command, chunk))
        if not goes_on:
            return None
        following = replace(command, after=chunk.last)
        return _Ahead(command.number, following, self._read_ahead(session, following))

    def _served(self, command: ReadChunk, ahead: _Ahead | None) -> SelectedChunk | None:
        """What was read ahead for the command; None: nothing, or not what it asks for."""
        if ahead is None or ahead.chunk is None or command.follows != ahead.behind or not self._chunks.serves(ahead.chunk):
            return None
        return ahead.chunk if _range(ahead.command) == _range(command) else None

    def _read_ahead(self, session: MysqlSession, command: ReadChunk) -> SelectedChunk | None:
        """The rows behind a chunk. None where that fails: the command for them fails too, with the reason."""
        try:
            chunk = self._chunks.read(session, command, stopped=self._closed.is_set)
        except SourceError:
            return None
        return None if isinstance(chunk, Misfit) else chunk

    def _read(self, session: MysqlSession, command: ReadChunk, chunks: list[SelectedChunk]) -> SourceEvent | None:
        """Put the chunk into `chunks`, or return why there is none."""
        chunk = self._chunks.read(session, command, stopped=self._closed.is_set)
        if self._closed.is_set():
            return None
        if isinstance(chunk, SelectedChunk):
            chunks.append(chunk)
            return None
        doing = f"asking for a TSO after chunk {command.number} of {command.table}"
        schema_ts = carried_out(session, lambda: present_ts(session), doing=doing, stopped=self._closed.is_set)
        if schema_ts is None:
            return SourceFailed(command, reason=chunk.reason, hint=chunk.hint)
        return ChunkMisfit(command, schema_ts, reason=chunk.reason, hint=chunk.hint)

    def _write_files(self, written: _Written, _: threading.Event) -> None:
        while (work := written.get()) is not None and not self._closed.is_set():
            self._report(work[0], partial(self._write_file, *work))

    def _write_file(self, command: ReadChunk, chunk: SelectedChunk) -> ChunkRead:
        rows = chunk.texts(where=f"reading chunk {command.number} of {command.table}")
        path = chunk_name(command.dump_id, epoch=command.epoch, number=command.number)
        written = self._write_chunk(path, rows)
        file = ChunkFile(
            table=command.table,
            path=path,
            rows=rows.num_rows,
            bytes=written.bytes,
            after=command.after,
            last=chunk.last,
            read_tso=chunk.read_tso,
            absent=len(chunk.absent),
            sha256=written.sha256,
            rows_sum=written.rows_sum,
        )
        return ChunkRead(
            command.number,
            file,
            chunk.exhausted,
            bounds=chunk.bounds,
            read_s=chunk.read_s,
            text_bytes=rows.nbytes,
            keys_read=chunk.keys_read,
        )


def _range(command: ReadChunk) -> tuple[object, ...]:
    """What the rows of a chunk depend on, but for how many they are: a chunk read ahead has as many as the one before it."""
    return command.dump_id, command.epoch, command.table, command.after, command.upper, command.where, command.brackets, command.bounds_max


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
