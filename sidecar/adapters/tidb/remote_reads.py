"""Chunks that tasks of Spark read: a server for their readers (shared/reads/reader.py), which run elsewhere with the same code.

    TidbSource ──► RemoteReaders: the queue ◄── a call of gRPC for each reader ──► a task of Spark ──► SELECT, the chunk's file

- The sidecar decides what is read, and when: a reader receives one command at a time, and reports what became of it. Rows do not come
  here: the task writes the chunk's file into the log's storage.
- A call that ends is a reader that has ended, whatever of: what it had begun is ChunkLost, and is requested again under another number. So
  a task that lives on, with nobody to report to, writes a file that no manifest ever names.
- What fails in a task is its commands' failure, and no error of this process: another host's disk may be full, or not there. So a chunk
  counts when this process sees its file in the log.
- The calls end with the term. A reader whose call ends gives up its SELECT at once.
- Beyond this machine all is TLS, by a certificate that this process makes for itself; on loopback too each call needs the token. Both go to
  tasks through Spark, which encrypts what it sends (worker/session.py).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from threading import Event, Lock
from time import monotonic
from typing import Any

import grpc
import msgspec

from sidecar.adapters.tidb.read_queue import Reads
from sidecar.shared.errors import ConfigError, TicdcDumpError
from sidecar.shared.log import storage
from sidecar.shared.log.layout import chunk_name
from sidecar.shared.log.schemas_file import schemas_to_json
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.messages import READERS_MAX, ChunkLost, ChunkMisfit, ChunkRead, ReadChunk, SourceFailed
from sidecar.shared.model.nouns import TableName, TableSchema
from sidecar.shared.process.background import Background
from sidecar.shared.process.listening import TokenInterceptor, server_options
from sidecar.shared.process.tls import own_certificate
from sidecar.shared.reads.reader import Report
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
    ReadersWanted,
    ReadsAhead,
    ReadsPlace,
    ReadyForCommand,
    SentCommand,
    message_of,
    to_bytes,
)

IDLE_S = 10.0
"""Without a command: then no task waits for one, and Spark's cores are free."""

NO_READER_S = 60.0
"""Commands that no reader takes for so long have failed: the source is not read, which an operator must see."""

_LOST_HINT = "see the merge worker's own lines, and Spark's, for what its task died of; the range is read again"

Schemas = Mapping[TableName, TableSchema]


class RemoteReads:
    """For the life of a process; `readers` makes those of a term, one after another. `want` receives how many are to be at work, each time
    that changes. `log`: where chunks are. `on_cluster`: readers come from other machines. Raises ConfigError for a port that is taken."""

    def __init__(
        self, want: Callable[[ReadersWanted], object], log: Folder, *, on_cluster: bool, port: int = 0, cluster_id: int = 0
    ) -> None:
        self._want, self._log = want, log
        self._wanted = 0
        self._present: RemoteReaders | None = None
        token = secrets.token_hex(32)
        self._threads = ThreadPoolExecutor(2 * READERS_MAX, thread_name_prefix="reads")
        self._server = grpc.server(
            self._threads,
            interceptors=[TokenInterceptor(token, "readers are tasks that this sidecar's merge worker has begun")],
            handlers=[grpc.method_handlers_generic_handler(*_handlers(self._read))],
            maximum_concurrent_rpcs=2 * READERS_MAX,
            options=server_options(received_bytes_max=MESSAGE_BYTES_MAX, sent_bytes_max=MESSAGE_BYTES_MAX),
        )
        certificate = b""
        try:
            if on_cluster:
                key, certificate = own_certificate(SERVER_NAME)
                bound = self._server.add_secure_port(f"[::]:{port}", grpc.ssl_server_credentials([(key, certificate)]))
            else:
                bound = self._server.add_insecure_port(f"127.0.0.1:{port}")
        except RuntimeError as error:
            hint = "see which process has the port (ss -ltnp), or set dump.read_port to another one, or to 0 for any"
            raise ConfigError(f"dump.read_port {port} cannot be listened on", hint=hint) from error
        self.place = ReadsPlace(bound, token, certificate.decode(), "" if on_cluster else "127.0.0.1", cluster_id)
        self._server.start()

    def readers(self, schemas: Schemas, report: Report) -> RemoteReaders:
        """Of a term: those of the one before it are closed."""
        self._present = RemoteReaders(schemas, report, self.want, self._log)
        return self._present

    def want(self, readers: int) -> None:
        if readers != self._wanted:
            self._wanted = readers
            self._want(ReadersWanted(self.place, readers))

    def close(self) -> None:
        if self._present is not None:
            self._present.tell()
        self._server.stop(None)
        self._threads.shutdown(wait=False)

    def _read(self, messages: Iterable[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        present = self._present
        return iter(()) if present is None else present.serve(messages, context)


class RemoteReaders:
    """`source.ChunkReaders`. `want` receives how many readers are to be at work."""

    def __init__(self, schemas: Schemas, report: Report, want: Callable[[int], object], log: Folder) -> None:
        self.reads, self.report, self.log = Reads(), report, log
        self._want, self._schemas = want, (0, schemas)
        self._closed = Event()
        self._calls: set[_Call] = set()
        self._lock = Lock()
        self._most, self._most_before = 0, 0
        self._since_s = self._alone_s = monotonic()

    def read(self, command: ReadChunk, under_way: int) -> None:
        self.reads.put(command)
        self.look(under_way)

    def follow(self, schemas: Schemas) -> None:
        self._schemas = self._schemas[0] + 1, schemas

    def tell(self) -> None:
        self._closed.set()
        self.reads.close()
        with self._lock:
            calls = list(self._calls)
        for call in calls:
            call.end()
        self._want(0)

    def close(self, timeout_s: float) -> None:  # noqa: ARG002  # nothing of it has a thread that outlives its call
        self.tell()

    def serve(self, messages: Iterable[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        """The commands for a reader that sends these messages."""
        call = _Call(self)
        with self._lock:
            self._calls.add(call)
        if not context.add_callback(call.lose):
            call.lose()
        if self._closed.is_set():
            call.end()
        Background(lambda _: call.listen(messages, context), name="reads-call")
        return call.commands()

    def sent(self, command: ReadChunk, known: set[tuple[int, TableName]]) -> SentCommand:
        """With the table's schema where it is not `known` in the call."""
        version, schemas = self._schemas
        schema = schemas.get(command.table)
        if schema is None or (version, command.table) in known:
            return SentCommand(command, version)
        known.add((version, command.table))
        return SentCommand(command, version, schemas_to_json({command.table: schema.undefined()}).decode())

    def ended(self, call: _Call) -> None:
        with self._lock:
            self._calls.discard(call)

    def look(self, under_way: int) -> None:
        """As many are wanted as there were commands at once in the last IDLE_S or two."""
        now_s = monotonic()
        if now_s - self._since_s >= IDLE_S:
            self._since_s, self._most_before, self._most = now_s, self._most, under_way
        self._most = max(self._most, under_way)
        self._want(max(self._most, self._most_before))
        if not under_way or self._calls:
            self._alone_s = now_s
        elif now_s - self._alone_s >= NO_READER_S:
            self._alone_s = now_s
            for command in self.reads.drain():
                reason = f"chunk {command.number} of {command.table} is not read: no Spark task has taken it for {NO_READER_S:.0f} s"
                hint = 'see the merge worker\'s own lines and whether the cluster has free cores; or set dump.read_on = "sidecar"'
                self.report(SourceFailed(command, reason, hint, away=True))


class _Call:
    """One reader. `commands` is for gRPC's thread, `listen` for one of its own, the others for any."""

    def __init__(self, readers: RemoteReaders) -> None:
        self._readers = readers
        self._waits: SimpleQueue[ReadyForCommand | ReaderLeaving | None] = SimpleQueue()
        self._lock = Lock()
        self._under_way: dict[int, ReadChunk] = {}
        self._known: set[tuple[int, TableName]] = set()
        self._ends = self._lost = self._leaving = False
        self._ahead: int | None = None
        self._why = "its call ended"

    def commands(self) -> Iterator[bytes]:
        while (waits := self._waits.get()) is not None:
            if isinstance(waits, ReaderLeaving):
                if self._under_way:  # a command is on its way to it
                    continue
                return
            command = self._readers.reads.take(waits.kept, lambda: self._ends or self._leaving)
            self._ahead = None
            if command is None:
                return
            with self._lock:
                is_lost = self._lost
                if not is_lost:
                    self._under_way[command.number] = command
            if is_lost:
                self._report_lost(command)
                return
            yield to_bytes(self._readers.sent(command, self._known))

    def listen(self, messages: Iterable[bytes], context: grpc.ServicerContext) -> None:
        try:
            for data in messages:
                self._handle(message_of(data))
            self.end()
        except (msgspec.DecodeError, UnicodeDecodeError, TicdcDumpError) as error:
            self._why = f"it sent what is no message of a reader: {error}"
            context.cancel()
        except Exception as error:  # noqa: BLE001  # gRPC's own bare one, where the call has ended: `lose` is called
            if error.args:
                self._why = f"a defect: {error!r}"
            context.cancel()

    def end(self) -> None:
        """No further command; the reader gives up what it does when it sees that."""
        self._ends = True
        self._readers.reads.wake()
        self._waits.put(None)

    def lose(self) -> None:
        """The call has ended."""
        with self._lock:
            self._lost = True
            lost, self._under_way = self._under_way, {}
        self.end()
        self._readers.ended(self)
        if self._ahead is not None:
            self._readers.reads.forget(self._ahead)
        for command in lost.values():
            self._report_lost(command)

    def _handle(self, message: FromReader) -> None:
        match message:
            case ReadyForCommand():
                self._leaving = False  # which a command overtook
                self._waits.put(message)
            case ReadsAhead(number):
                self._ahead = number
                self._readers.reads.keep(number)
            case ReaderLeaving():
                self._leaving = True
                self._waits.put(message)
                self._readers.reads.wake()
            case ReaderBroken(error, hint, passes):
                with self._lock:
                    broken, self._under_way = self._under_way, {}
                for each in broken.values():
                    self._fail(each, error, hint, away=passes)
            case ChunkWritten(chunk):
                if (command := self._pop_command(chunk.number)) is not None:
                    self._written(command, chunk)
            case ChunkNotFitted(number, schema_ts, reason, hint):
                if (command := self._pop_command(number)) is not None:
                    self._readers.report(ChunkMisfit(command, schema_ts, reason, hint))
            case ChunkFailed(number, reason, hint, away):
                if (command := self._pop_command(number)) is not None:
                    self._readers.report(SourceFailed(command, reason, hint, away))

    def _written(self, command: ReadChunk, chunk: ChunkRead) -> None:
        """Counts if the log as this process sees it has the file: a task's may be another disk, where nothing is mounted."""
        path = chunk_name(command.dump_id, epoch=command.epoch, number=command.number)
        if (chunk.file.path, chunk.file.table) != (path, command.table):
            what = f"it reports {chunk.file.path} of {chunk.file.table}, not {path}"
            self._fail(command, what, "see that executors run the same release as the sidecar", away=False)
            return
        try:
            is_there = storage.exists(self._readers.log, chunk.file.path)
        except TicdcDumpError as error:
            self._fail(command, error.message, error.hint, away=error.retryable)
            return
        if is_there:
            self._readers.report(chunk)
        else:
            what = f"{chunk.file.path}, which it has written, is not in {self._readers.log}"
            self._fail(
                command, what, "let log.uri be the same place on every executor: S3, or a shared file system that is mounted", away=False
            )

    def _fail(self, command: ReadChunk, why: str, hint: str, *, away: bool) -> None:
        reason = f"the Spark task that read chunk {command.number} of {command.table} failed: {why}"
        self._readers.report(SourceFailed(command, reason, hint, away))

    def _pop_command(self, number: int) -> ReadChunk | None:
        with self._lock:
            return self._under_way.pop(number, None)

    def _report_lost(self, command: ReadChunk) -> None:
        reason = f"the Spark task that read chunk {command.number} of {command.table} is gone: {self._why}"
        self._readers.report(ChunkLost(command, reason, _LOST_HINT))


def _handlers(read: Callable[[Any, grpc.ServicerContext], Iterator[bytes]]) -> tuple[str, dict[str, Any]]:
    service, _, name = METHOD.strip("/").partition("/")
    return service, {name: grpc.stream_stream_rpc_method_handler(read)}
