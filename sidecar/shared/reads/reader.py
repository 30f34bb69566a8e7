"""A reader of chunks: one session, one chunk after another, and a writer beside it that makes their files.

    commands ──take──► reader: the rows ──► writer: the chunk's file ──► report

- It reads by SQL (sql_reads.py) or from TiKV (adapters/tikv), as each command says.
- It runs in a thread of the sidecar (adapters/tidb/source.py), or in a task of Spark (spark_merge/worker/read_task.py), and is the same.
- A chunk's file is durable before its ChunkRead is reported. A read changes nothing and may be done again.
- A reader does not wait for the file: while its writer makes it, it reads ahead what the same window is likely to ask for next
  (ReadChunk.ahead). That serves only the command that follows in the window, of the same range, by the same schemas; else it is dropped.
- Rows that are not of the schema in force are reported with a TSO taken after they were read (ChunkMisfit); where there is none, the
  command fails.
- What the source cannot do ends the command (SourceFailed), with whether the server was away. What else goes wrong (the log's storage, a
  defect) is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from queue import SimpleQueue
from typing import Protocol

import pyarrow as pa

from sidecar.shared.errors import SourceError
from sidecar.shared.log.layout import chunk_name
from sidecar.shared.model.chunk import ChunkFile, WrittenChunk
from sidecar.shared.model.keyset import Key
from sidecar.shared.model.messages import ChunkMisfit, ChunkRead, Command, ReadChunk, ReadWith, SourceEvent, SourceFailed
from sidecar.shared.model.nouns import CommitTs, TableName, TableSchema
from sidecar.shared.mysql.errors import is_away
from sidecar.shared.reads.read import Misfit

WriteChunk = Callable[[str, pa.Table], WrittenChunk]
"""Write the table durably under this path of the log."""


Report = Callable[[SourceEvent], object]
"""In any thread."""


class ReadRows(Protocol):
    """What was read for a command, with what ChunkFile and ChunkRead say of it."""

    @property
    def last(self) -> Key | None: ...
    @property
    def read_tso(self) -> CommitTs | None: ...
    @property
    def exhausted(self) -> bool: ...
    @property
    def bounds(self) -> tuple[Key, ...]: ...
    @property
    def read_s(self) -> float: ...
    @property
    def absent(self) -> tuple[Key, ...]: ...
    @property
    def keys_read(self) -> int: ...

    def texts(self, *, where: str) -> pa.Table | Misfit:
        """The rows of the chunk's file. Raises SourceError that begins with `where`."""


class ReadSession(Protocol):
    """What one reader reads with: by one thread, but for `interrupt`. Its errors are SourceError."""

    def read(self, command: ReadChunk, *, stopped: Callable[[], bool]) -> ReadRows | Misfit: ...

    def serves(self, rows: ReadRows) -> bool:
        """Whether the schemas are still those that it was read by."""

    def interrupt(self) -> None:
        """End what is under way, as an error."""

    def close(self) -> None: ...


class ReadPlace(Protocol):
    """A place that chunks are read from, for all readers of a process."""

    def follow(self, schemas: Mapping[TableName, TableSchema]) -> None:
        """What is opened before and after this reads by these schemas from now on."""

    def open(self) -> ReadSession: ...


class ReadCommands(Protocol):
    """Where a reader's commands come from. `read_queue.Reads` says what both do."""

    def take(self, kept: int | None) -> ReadChunk | None: ...

    def keep(self, number: int) -> None: ...


@dataclass(frozen=True, slots=True)
class _Ahead:
    """What was read behind chunk `behind`, by a command of our own; `chunk` None: it failed."""

    behind: int
    command: ReadChunk
    chunk: ReadRows | None


class TableReader:
    """`read` and `write` are for a thread each. `stopped`: nobody wants what is under way any more."""

    def __init__(
        self,
        session: ReadSession,
        commands: ReadCommands,
        *,
        write_chunk: WriteChunk,
        report: Report,
        stopped: Callable[[], bool],
    ) -> None:
        self._session, self._commands = session, commands
        self._write_chunk, self._report, self._stopped = write_chunk, report, stopped
        self._selected: SimpleQueue[tuple[ReadChunk, ReadRows] | None] = SimpleQueue()

    def read(self) -> None:
        """Until there are no more commands; then `write` ends too."""
        ahead: _Ahead | None = None
        try:
            while (command := self._commands.take(ahead.behind if ahead else None)) is not None:
                ahead = self._read_one(command, ahead)
        finally:
            self._selected.put(None)

    def write(self) -> None:
        while (work := self._selected.get()) is not None and not self._stopped():
            carry_out(work[0], partial(self._write_file, *work), self._report)

    def _read_one(self, command: ReadChunk, ahead: _Ahead | None) -> _Ahead | None:
        """Carry out the command, by what was read `ahead` if that serves, and read ahead behind it if it says so."""
        chunk = self._served(command, ahead)
        if chunk is None:
            chunks: list[ReadRows] = []
            carry_out(command, lambda: self._read(command, chunks), self._report)
            if not chunks:
                return None
            (chunk,) = chunks
        goes_on = command.ahead and not (command.bounds_max or command.keys or chunk.exhausted)  # bounds move the upper end of what follows
        if goes_on:
            self._commands.keep(command.number)
        self._selected.put((command, chunk))
        if not goes_on:
            return None
        following = replace(command, after=chunk.last)
        return _Ahead(command.number, following, self._read_ahead(following))

    def _served(self, command: ReadChunk, ahead: _Ahead | None) -> ReadRows | None:
        """What was read ahead for the command; None: nothing, or not what it asks for."""
        if ahead is None or ahead.chunk is None or command.follows != ahead.behind or not self._session.serves(ahead.chunk):
            return None
        return ahead.chunk if _range(ahead.command) == _range(command) else None

    def _read_ahead(self, command: ReadChunk) -> ReadRows | None:
        """The rows behind a chunk. None where that fails: the command for them fails too, with the reason."""
        try:
            chunk = self._session.read(command, stopped=self._stopped)
        except SourceError:
            return None
        return None if isinstance(chunk, Misfit) else chunk

    def _read(self, command: ReadChunk, chunks: list[ReadRows]) -> SourceEvent | None:
        """Put the chunk into `chunks`, or return why there is none."""
        chunk = self._session.read(command, stopped=self._stopped)
        if self._stopped():
            return None
        if isinstance(chunk, Misfit):
            return _not_fitted(command, chunk)
        chunks.append(chunk)
        return None

    def _write_file(self, command: ReadChunk, chunk: ReadRows) -> SourceEvent:
        rows = chunk.texts(where=f"reading chunk {command.number} of {command.table}")
        if isinstance(rows, Misfit):
            return _not_fitted(command, rows)
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


def carry_out(command: Command, action: Callable[[], SourceEvent | None], report: Report) -> None:
    """The result of the command is reported, if there is one."""
    try:
        event = action()
    except SourceError as error:
        event = SourceFailed(command, reason=error.message, hint=error.hint, away=is_away(error))
    if event is not None:
        report(event)


def _not_fitted(command: ReadChunk, misfit: Misfit) -> SourceEvent:
    if misfit.schema_ts is None:
        return SourceFailed(command, reason=misfit.reason, hint=misfit.hint)
    return ChunkMisfit(command, misfit.schema_ts, reason=misfit.reason, hint=misfit.hint)


def _range(command: ReadChunk) -> tuple[object, ...]:
    """What the rows of a chunk depend on, but for how many they are: a chunk read ahead has as many as the one before it."""
    return command.dump_id, command.epoch, command.table, command.after, command.upper, command.where, command.brackets, command.bounds_max


class ReadsByWay:
    """`ReadPlace` of TiDB over SQL and, where that is set up, from TiKV: as each command says."""

    def __init__(self, sql: ReadPlace, raw: ReadPlace | None) -> None:
        self._sql, self._raw = sql, raw

    def follow(self, schemas: Mapping[TableName, TableSchema]) -> None:
        self._sql.follow(schemas)
        if self._raw is not None:
            self._raw.follow(schemas)

    def open(self) -> SessionsByWay:
        return SessionsByWay(self._sql.open(), self._raw.open() if self._raw is not None else None)


@dataclass(frozen=True, slots=True)
class SessionsByWay:
    """`ReadSession`. Each of the two connects when it has something to read."""

    sql: ReadSession
    raw: ReadSession | None

    def read(self, command: ReadChunk, *, stopped: Callable[[], bool]) -> ReadRows | Misfit:
        if command.read_with is ReadWith.SQL:
            return self.sql.read(command, stopped=stopped)
        if self.raw is None:
            what = f"reading chunk {command.number} of {command.table}: its dump reads from TiKV, and tikv.pd is not set"
            raise SourceError(what, hint="set tikv.pd; or end it with dumpstop and start another one, which reads as the settings say")
        return self.raw.read(command, stopped=stopped)

    def serves(self, rows: ReadRows) -> bool:
        return self.sql.serves(rows) or (self.raw is not None and self.raw.serves(rows))

    def interrupt(self) -> None:
        self.sql.interrupt()
        if self.raw is not None:
            self.raw.interrupt()

    def close(self) -> None:
        self.sql.close()
        if self.raw is not None:
            self.raw.close()
