"""A reader of chunks: one session, one chunk after another, and a writer beside it that makes their files.

    commands ──take──► reader: the SELECT's rows ──► writer: the chunk's file ──► report

- Where it runs is not its matter: a thread of the sidecar (source.py), or a task of Spark (spark_merge/worker/read_task.py).
- A chunk's file is durable before its ChunkRead is reported. A read changes nothing and may be done again.
- A reader does not wait for the file: while its writer makes it, it reads ahead what the same window is likely to ask for next
  (ReadChunk.ahead). That serves only the command that follows in the window, of the same range, by the same schemas; else it is dropped.
- A SELECT whose rows are not of the schema in force is reported with a TSO taken after it (ChunkMisfit): a DDL that did this before is at
  or below. A server without TSOs cannot say so, and the command fails.
- What SQL cannot do ends the command (SourceFailed), with whether the server was away. What else goes wrong (the log's storage, a
  defect) is raised.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from queue import SimpleQueue
from typing import Protocol

import pyarrow as pa

from sidecar.adapters.tidb.read import ChunkReader, Misfit, SelectedChunk
from sidecar.adapters.tidb.snapshot import present_ts
from sidecar.core.chunk import ChunkFile, WrittenChunk
from sidecar.core.messages import ChunkMisfit, ChunkRead, Command, ReadChunk, SourceEvent, SourceFailed
from sidecar.errors import SourceError
from sidecar.log.layout import chunk_name
from sidecar.mysql.errors import is_away
from sidecar.mysql.retry import carried_out
from sidecar.mysql.session import MysqlSession

WriteChunk = Callable[[str, pa.Table], WrittenChunk]
"""Write the table durably under this path of the log."""


Report = Callable[[SourceEvent], object]
"""In any thread."""


class ReadCommands(Protocol):
    """Where a reader's commands come from. `read_queue.Reads` says what both do."""

    def take(self, kept: int | None) -> ReadChunk | None: ...

    def keep(self, number: int) -> None: ...


@dataclass(frozen=True, slots=True)
class _Ahead:
    """What was read behind chunk `behind`, by a command of our own; `chunk` None: it failed."""

    behind: int
    command: ReadChunk
    chunk: SelectedChunk | None


class TableReader:
    """`read` and `write` are for a thread each. `stopped`: nobody wants what is under way any more."""

    def __init__(
        self,
        session: MysqlSession,
        chunks: ChunkReader,
        commands: ReadCommands,
        *,
        write_chunk: WriteChunk,
        report: Report,
        stopped: Callable[[], bool],
    ) -> None:
        self._session, self._chunks, self._commands = session, chunks, commands
        self._write_chunk, self._reported, self._stopped = write_chunk, report, stopped
        self._selected: SimpleQueue[tuple[ReadChunk, SelectedChunk] | None] = SimpleQueue()

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
            carry_out(work[0], partial(self._write_file, *work), self._reported)

    def _read_one(self, command: ReadChunk, ahead: _Ahead | None) -> _Ahead | None:
        """Carry out the command, by what was read `ahead` if that serves, and read ahead behind it if it says so."""
        chunk = self._served(command, ahead)
        if chunk is None:
            chunks: list[SelectedChunk] = []
            carry_out(command, lambda: self._read(command, chunks), self._reported)
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

    def _served(self, command: ReadChunk, ahead: _Ahead | None) -> SelectedChunk | None:
        """What was read ahead for the command; None: nothing, or not what it asks for."""
        if ahead is None or ahead.chunk is None or command.follows != ahead.behind or not self._chunks.serves(ahead.chunk):
            return None
        return ahead.chunk if _range(ahead.command) == _range(command) else None

    def _read_ahead(self, command: ReadChunk) -> SelectedChunk | None:
        """The rows behind a chunk. None where that fails: the command for them fails too, with the reason."""
        try:
            chunk = self._chunks.read(self._session, command, stopped=self._stopped)
        except SourceError:
            return None
        return None if isinstance(chunk, Misfit) else chunk

    def _read(self, command: ReadChunk, chunks: list[SelectedChunk]) -> SourceEvent | None:
        """Put the chunk into `chunks`, or return why there is none."""
        session = self._session
        chunk = self._chunks.read(session, command, stopped=self._stopped)
        if self._stopped():
            return None
        if isinstance(chunk, SelectedChunk):
            chunks.append(chunk)
            return None
        doing = f"asking for a TSO after chunk {command.number} of {command.table}"
        schema_ts = carried_out(session, lambda: present_ts(session), doing=doing, stopped=self._stopped)
        if schema_ts is None:
            return SourceFailed(command, reason=chunk.reason, hint=chunk.hint)
        return ChunkMisfit(command, schema_ts, reason=chunk.reason, hint=chunk.hint)

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


def carry_out(command: Command, action: Callable[[], SourceEvent | None], report: Report) -> None:
    """The result of the command is reported, if there is one."""
    try:
        event = action()
    except SourceError as error:
        event = SourceFailed(command, reason=error.message, hint=error.hint, away=is_away(error))
    if event is not None:
        report(event)


def _range(command: ReadChunk) -> tuple[object, ...]:
    """What the rows of a chunk depend on, but for how many they are: a chunk read ahead has as many as the one before it."""
    return command.dump_id, command.epoch, command.table, command.after, command.upper, command.where, command.brackets, command.bounds_max
