"""What a sidecar and a reader of its chunks in another process say to each other, over one call of gRPC (adapters/tidb/remote_reads.py).

    reader ──► ReadyForCommand, ReadsAhead, ChunkWritten, ChunkNotFitted, ChunkFailed, ReaderBroken, ReaderLeaving ──► sidecar
    reader ◄── SentCommand, then the end of the call ◄── sidecar

A message is JSON, for both ends are of one release. No password is in any: a reader has its own from where its host keeps it.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from sidecar.shared.errors import TicdcDumpError
from sidecar.shared.model.messages import ChunkRead, ReadChunk
from sidecar.shared.model.nouns import CommitTs

METHOD = "/ticdc_dump.ChunkReads/Read"
SERVER_NAME = "ticdc-dump-reads"
"""In the certificate that a sidecar makes for itself: a reader that was given it trusts no other one, at any address."""

MESSAGE_BYTES_MAX = 64 << 20
"""Of a command with the keys that it reads, and of a table's schema."""


class ReadsPlace(msgspec.Struct, frozen=True):
    """Where commands are. `host` empty: that of Spark's driver, which runs beside the sidecar. `token`: for this process's life.
    `certificate`: of the sidecar, PEM; empty: no TLS, on this machine. `cluster_id`: of the cluster that the changefeed reads; 0: not
    known."""

    port: int
    token: str
    certificate: str = ""
    host: str = ""
    cluster_id: int = 0


class SentCommand(msgspec.Struct):
    """Read this chunk by the schemas `version`. `schemas`: the table's (log/schemas_file.py), unless it was sent in this call."""

    read: ReadChunk
    version: int
    schemas: str = ""


class ReadyForCommand(msgspec.Struct, tag=True):
    """The reader waits for a command. `kept`: it has read ahead behind this chunk."""

    kept: int | None


class ReadsAhead(msgspec.Struct, tag=True):
    """It reads ahead behind this chunk, whose ChunkWritten comes later."""

    number: int


class ChunkWritten(msgspec.Struct, tag=True):
    chunk: ChunkRead


class ChunkNotFitted(msgspec.Struct, tag=True):
    """ChunkMisfit of a command."""

    number: int
    schema_ts: CommitTs
    reason: str
    hint: str


class ChunkFailed(msgspec.Struct, tag=True):
    """SourceFailed of a command."""

    number: int
    reason: str
    hint: str
    away: bool


class ReaderBroken(msgspec.Struct, tag=True):
    """An error of ours that is not the source's, such as of the log's storage as this host sees it. The commands that the reader has fail.
    It says nothing of the sidecar's own storage. `passes`: a retry can help."""

    message: str
    hint: str
    passes: bool

    @classmethod
    def of(cls, error: TicdcDumpError) -> ReaderBroken:
        return cls(error.message, error.hint, error.retryable)


class ReaderLeaving(msgspec.Struct, tag=True):
    """It has reported all that it has begun, and wants to end. The sidecar ends the call, unless a command is on its way: that is carried
    out first."""


FromReader: TypeAlias = ReadyForCommand | ReadsAhead | ChunkWritten | ChunkNotFitted | ChunkFailed | ReaderBroken | ReaderLeaving

to_bytes = msgspec.json.encode
command_of = msgspec.json.Decoder(SentCommand).decode
message_of = msgspec.json.Decoder(FromReader).decode


class ReadersWanted(msgspec.Struct, frozen=True):
    """From the sidecar to its merge worker: `readers` are to be at work, from now on. One line of its standard input."""

    place: ReadsPlace
    readers: int

    def line(self) -> bytes:
        return to_bytes(self) + b"\n"

    @classmethod
    def of(cls, line: bytes) -> ReadersWanted:
        return msgspec.json.decode(line, type=cls)
