"""A task of Spark that reads chunks of dumps, with the readers and the connection to the sidecar that its Python worker keeps.

    read_slice ──► TableReader (shared/reads/reader.py) ◄── _SidecarLink ◄──► the sidecar (adapters/tidb/remote_reads.py)

- A task reads for SLICE_S, then gives its core up: a sink's batch waits no longer for one. Its connection to the source stays in its Python
  worker for the next task, for HELD_S.
- It leaves when all that it has begun is reported, if it can where nothing is read ahead.
- What fails in a task ends the commands that it has, and no delivery.
- A task that ends amid a chunk is not what repeats it: the sidecar sees the call end, and requests the range again. A task that Spark
  repeats makes a call of its own.
- A task has the source's password from where its host keeps it (sinks/kit/passwords.py); no task and no page of Spark has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from threading import Condition, Event, Lock
from time import monotonic

import grpc
import msgspec

from sidecar.shared.config import TikvSection, Tls
from sidecar.shared.errors import ConfigError, SinkError, SourceError, TicdcDumpError
from sidecar.shared.log.rows_file import write_chunk
from sidecar.shared.log.schemas_file import schemas_from_json
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.messages import ChunkMisfit, ChunkRead, ReadChunk, SourceEvent, SourceFailed
from sidecar.shared.model.nouns import TableName, TableSchema
from sidecar.shared.mysql.account import Account
from sidecar.shared.mysql.session import Login
from sidecar.shared.process.background import Background
from sidecar.shared.process.progress import progressed
from sidecar.shared.reads.reader import ReadsByWay, ReadSession, TableReader
from sidecar.shared.reads.remote_wire import (
    MESSAGE_BYTES_MAX,
    METHOD,
    SERVER_NAME,
    ChunkFailed,
    ChunkNotFitted,
    ChunkWritten,
    FromReader,
    ReaderBroken,
    ReaderLeaving,
    ReadsAhead,
    ReadsPlace,
    ReadyForCommand,
    SentCommand,
    command_of,
    to_bytes,
)
from sidecar.shared.reads.sql_reads import SqlReads
from sidecar.shared.reads.tikv_reads import TikvReads
from spark_merge.sinks.mysql.server import SqlServer

SLICE_S = 3.0
"""Of a core, for a sink's batch to wait for one; a job around it costs a tenth of a second."""
AHEAD_S = 3.0
"""So much longer a task stays where it has read ahead: for the command that that is for."""
HELD_S = 30.0
"""A connection to the source that no task uses is closed after so long, or twice that."""
TRIED_S = 10.0
"""How long a task tries what passes, with a core that others wait for: the sidecar requests the chunk again."""
CONNECT_S = 10.0
KEEPALIVE_MS = 10_000

CUT = -1
"""In the place of a number of chunks: the sidecar ended the call, or was not there."""


@dataclass(frozen=True, slots=True)
class ReadSource:
    """`session.MysqlServer`: the source as a dump reads it, as `source` in the settings has it. `server`: what knows its password."""

    server: SqlServer
    tls: Tls
    statement_timeout_s: float
    retry_seconds: float

    @property
    def user(self) -> str:
        return self.server.user

    @property
    def statement_s(self) -> float:
        return self.statement_timeout_s

    @property
    def retry_s(self) -> float:
        return min(self.retry_seconds, TRIED_S)

    def login(self) -> Login:
        """As the sidecar's own. Raises SourceError in a process without the password, and for files of TLS that cannot be used."""
        server = self.server
        try:
            password = server.password()
            account = Account(server.host, server.port, server.user, password, self.tls, self.statement_timeout_s, self.retry_seconds)
            return account.login()
        except SinkError as error:
            hint = "put source.password_file at the same path on every executor, or set TICDC_DUMP_MYSQL_PASSWORD in their environment"
            raise SourceError(f"a Spark task cannot log in to the source: {error.message}", hint=hint) from error
        except ConfigError as error:
            raise SourceError(error.message, hint=error.hint) from error

    def __str__(self) -> str:
        return str(self.server)


@dataclass(frozen=True, slots=True)
class ReadingSettings:
    """What tasks need besides their commands. `row_sums`: as of `write_chunk`. `tikv`: for what is read from there; None: nothing is."""

    source: ReadSource
    log: Folder
    row_sums: bool = False
    tikv: TikvSection | None = None


@dataclass(frozen=True, slots=True)
class _Held:
    """What a Python worker keeps from one task to the next."""

    session: ReadSession
    tables: dict[TableName, TableSchema]
    reads: ReadsByWay

    @classmethod
    def opened(cls, settings: ReadingSettings, cluster_id: int) -> _Held:
        tables: dict[TableName, TableSchema] = {}
        tikv: TikvReads | None = None
        if settings.tikv is not None:
            brief = msgspec.structs.replace(settings.tikv, outage_max_s=min(settings.tikv.outage_max_s, TRIED_S))
            tikv = TikvReads(brief, tables, cluster_id=cluster_id)
        reads = ReadsByWay(SqlReads(settings.source, tables), tikv)
        return cls(reads.open(), tables, reads)


class _HeldReaders:
    """A task takes one, and gives it back if it has come to a good end."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._free: list[tuple[float, tuple[ReadingSettings, int], _Held]] = []
        self._channels: dict[ReadsPlace, grpc.Channel] = {}
        self._closing: Background | None = None

    def take(self, settings: ReadingSettings, cluster_id: int) -> _Held:
        with self._lock:
            for free in self._free:
                if free[1] == (settings, cluster_id):
                    self._free.remove(free)
                    return free[2]
        return _Held.opened(settings, cluster_id)

    def give_back(self, settings: ReadingSettings, cluster_id: int, held: _Held) -> None:
        with self._lock:
            self._free.append((monotonic(), (settings, cluster_id), held))
            if self._closing is None or not self._closing.alive:
                self._closing = Background(self._close_old, name="held-readers")

    def channel(self, place: ReadsPlace) -> grpc.Channel:
        with self._lock:
            if place not in self._channels:
                for old in self._channels.values():
                    old.close()
                self._channels = {place: _channel(place)}
            return self._channels[place]

    def _close_old(self, ending: Event) -> None:
        """Until none is left."""
        while not ending.wait(HELD_S):
            with self._lock:
                old = [free for free in self._free if monotonic() - free[0] >= HELD_S]
                self._free = [free for free in self._free if free not in old]
                if not self._free:
                    self._closing = None
                    ending.set()
            for _, _, held in old:
                held.session.close()


_held = _HeldReaders()


def read_slice(settings: ReadingSettings, place: ReadsPlace, slice_s: float = SLICE_S) -> int:
    """A task: chunks, for about so long. Returns how many, or CUT. Raises SinkError where there is no sidecar at `place`."""
    held, is_good = _held.take(settings, place.cluster_id), False
    link = _SidecarLink(_held.channel(place), place, held, slice_s)
    try:
        reader = TableReader(
            held.session,
            link,
            write_chunk=partial(write_chunk, settings.log, row_sums=settings.row_sums),
            report=link.report,
            stopped=link.ended,
        )
        writing = Background(lambda _: _reporting(reader.write, link), name="chunk-writer")
        try:
            _reporting(reader.read, link)
        finally:
            writing.close()
        writing.check()
        link.check()
        is_good = not link.was_cut
    finally:
        link.close()
        if is_good:
            _held.give_back(settings, place.cluster_id, held)
        else:
            held.session.close()
    return CUT if link.was_cut else link.reported


def _reporting(work: Callable[[], None], link: _SidecarLink) -> None:
    """An error of ours is the commands' that this task has; any other one is the task's. Either ends it."""
    try:
        work()
    except TicdcDumpError as error:
        link.broke(error)
    except BaseException:
        link.cut()
        raise


class _SidecarLink:
    """`reader.ReadCommands` over the call of one task."""

    def __init__(self, channel: grpc.Channel, place: ReadsPlace, held: _Held, slice_s: float) -> None:
        self._held, self._place = held, place
        self._until_s = monotonic() + slice_s
        self._changed = Condition()
        self._begun = self.reported = 0
        self._waits = False
        self._is_over = False
        self.was_cut = False
        self._sending: SimpleQueue[FromReader | None] = SimpleQueue()
        self._commands: SimpleQueue[SentCommand | None] = SimpleQueue()
        self._version = -1
        call = channel.stream_stream(METHOD)
        self._call = call(self._messages(), metadata=[("authorization", f"Bearer {place.token}")], wait_for_ready=False)
        self._receiving = Background(self._receive, name="reads-link")

    # ---- ReadCommands ------------------------------------------------------------------------------------------------

    def take(self, kept: int | None) -> ReadChunk | None:
        """None: the slice is over, or the sidecar is gone."""
        self._waits = True
        until_s = self._until_s if kept is None else self._until_s + AHEAD_S
        sent: SentCommand | None = None
        try:
            if monotonic() >= until_s:
                raise Empty
            self._send(ReadyForCommand(kept))
            sent = self._commands.get(timeout=max(until_s - monotonic(), 0.0))
        except Empty:
            self._await_reports()
            self._send(ReaderLeaving())
            sent = self._commands.get()
        progressed()
        self._waits = False
        if sent is None or self._is_over or self.was_cut:
            return None
        self._begun += 1
        self._follow(sent)
        return sent.read

    def keep(self, number: int) -> None:
        self._send(ReadsAhead(number))

    # ---- what becomes of them ----------------------------------------------------------------------------------------

    def report(self, event: SourceEvent) -> None:
        match event:
            case ChunkRead():
                self._send(ChunkWritten(event))
            case ChunkMisfit(command, schema_ts, reason, hint):
                self._send(ChunkNotFitted(command.number, schema_ts, reason, hint))
            case SourceFailed(ReadChunk(number=number), reason, hint, away):
                self._send(ChunkFailed(number, reason, hint, away))
            case _:
                raise AssertionError(event)
        with self._changed:
            self.reported += 1
            self._changed.notify_all()

    def broke(self, error: TicdcDumpError) -> None:
        """Nothing more is reported."""
        self._send(ReaderBroken.of(error))
        self.cut()

    def cut(self) -> None:
        """End this task."""
        self.was_cut = True
        self._commands.put(None)
        with self._changed:
            self._changed.notify_all()

    def check(self) -> None:
        """Raises what the call ended with, if that is no end of the sidecar's."""
        self._receiving.check()

    def ended(self) -> bool:
        """Nobody wants what is under way."""
        return self._is_over

    def close(self) -> None:
        self._sending.put(None)
        self._receiving.close(CONNECT_S)
        self._call.cancel()

    # ---- the call ----------------------------------------------------------------------------------------------------

    def _send(self, message: FromReader) -> None:
        self._sending.put(message)

    def _messages(self) -> Iterator[bytes]:
        while (message := self._sending.get()) is not None:
            yield to_bytes(message)

    def _receive(self, _: Event) -> None:
        received = 0
        try:
            for data in self._call:
                self._commands.put(command_of(data))
                received += 1
        except grpc.RpcError as error:
            self.was_cut = True
            if not received:
                raise self._unreachable(error) from error
        except BaseException:
            self.was_cut = True
            self._call.cancel()
            raise
        finally:
            self._is_over = True
            is_cut = self.was_cut = self.was_cut or not self._waits
            self._commands.put(None)
            with self._changed:
                self._changed.notify_all()
            if is_cut:  # last, whatever it raises
                self._held.session.interrupt()

    def _unreachable(self, error: grpc.RpcError) -> SinkError:
        what = f"a Spark task does not reach the sidecar at {self._place.host}:{self._place.port}: {error.code().name}: {error.details()}"
        hint = "let executors connect to spark.driver.host at dump.read_port (any free port if that is 0), or set dump.read_on to sidecar"
        return SinkError(what, hint=hint)

    def _await_reports(self) -> None:
        """Until all that was begun is reported, or nobody wants it."""
        with self._changed:
            self._changed.wait_for(lambda: self.reported >= self._begun or self._is_over or self.was_cut)

    def _follow(self, sent: SentCommand) -> None:
        held = self._held
        if sent.version != self._version:
            self._version = sent.version
            held.tables.clear()
            held.reads.follow(held.tables)
        if sent.schemas:
            held.tables.update(schemas_from_json(sent.schemas.encode(), name=f"of {sent.read.table}"))


def _channel(place: ReadsPlace) -> grpc.Channel:
    options = (
        ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
        ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
        ("grpc.keepalive_time_ms", KEEPALIVE_MS),
        ("grpc.keepalive_timeout_ms", KEEPALIVE_MS),
    )
    address = f"{place.host}:{place.port}"
    if not place.certificate:
        return grpc.insecure_channel(address, options)
    credentials = grpc.ssl_channel_credentials(place.certificate.encode())
    return grpc.secure_channel(address, credentials, (*options, ("grpc.ssl_target_name_override", SERVER_NAME)))
