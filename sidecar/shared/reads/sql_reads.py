"""Chunks over SQL: what a reader of them (reader.py) reads with is a session, and the schemas and keys that all readers share (read.py)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from sidecar.shared.model.messages import ReadChunk
from sidecar.shared.model.nouns import TableName, TableSchema
from sidecar.shared.mysql.retry import carried_out
from sidecar.shared.mysql.roles import Role
from sidecar.shared.mysql.session import MysqlServer, MysqlSession
from sidecar.shared.reads.read import ChunkReader, Misfit, SelectedChunk
from sidecar.shared.reads.reader import ReadRows
from sidecar.shared.reads.snapshot import present_ts


class SqlReads:
    """`reader.ReadPlace`."""

    def __init__(self, server: MysqlServer, schemas: Mapping[TableName, TableSchema]) -> None:
        self._server, self._chunks = server, ChunkReader(schemas)

    def follow(self, schemas: Mapping[TableName, TableSchema]) -> None:
        self._chunks.follow(schemas)

    def open(self) -> SqlReadSession:
        return SqlReadSession(MysqlSession(self._server, Role.READ_SOURCE), self._chunks)


@dataclass(frozen=True, slots=True)
class SqlReadSession:
    """`reader.ReadSession`. A SELECT whose rows are not of the schema in force is a Misfit with a TSO taken after it: a DDL that did this
    before is at or below. A server without TSOs cannot say so."""

    session: MysqlSession
    chunks: ChunkReader

    def read(self, command: ReadChunk, *, stopped: Callable[[], bool]) -> SelectedChunk | Misfit:
        chunk = self.chunks.read(self.session, command, stopped=stopped)
        if isinstance(chunk, SelectedChunk) or stopped():
            return chunk
        doing = f"asking for a TSO after chunk {command.number} of {command.table}"
        return replace(chunk, schema_ts=carried_out(self.session, lambda: present_ts(self.session), doing=doing, stopped=stopped))

    def serves(self, rows: ReadRows) -> bool:
        return isinstance(rows, SelectedChunk) and self.chunks.serves(rows)

    def interrupt(self) -> None:
        self.session.interrupt()

    def close(self) -> None:
        self.session.close()
