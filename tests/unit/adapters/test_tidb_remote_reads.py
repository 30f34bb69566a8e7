"""What a sidecar's server does with readers that are elsewhere. That chunks are read so: tests/contract/test_sources.py, and by Spark
tests/spark/test_reads_on_spark.py."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue

import grpc
import pytest

from sidecar.adapters.tidb import remote_reads
from sidecar.adapters.tidb.remote_reads import RemoteReaders, RemoteReads
from sidecar.shared.errors import ConfigError, LogBroken, LogUnreachable, StorageFull, TicdcDumpError
from sidecar.shared.log import storage
from sidecar.shared.log.layout import chunk_name
from sidecar.shared.log.schemas_file import schemas_from_json
from sidecar.shared.log.storage import Folder, open_folder
from sidecar.shared.model.chunk import ChunkFile
from sidecar.shared.model.messages import Brackets, ChunkLost, ChunkMisfit, ChunkRead, ReadChunk, SourceEvent, SourceFailed
from sidecar.shared.model.nouns import Column, CommitTs, TableName, TableSchema
from sidecar.shared.reads.remote_wire import (
    METHOD,
    ChunkFailed,
    ChunkNotFitted,
    ChunkWritten,
    FromReader,
    ReaderBroken,
    ReaderLeaving,
    ReadersWanted,
    ReadsAhead,
    ReadyForCommand,
    SentCommand,
    command_of,
    to_bytes,
)
from tests.support.eventually import PATIENCE_S, eventually

TABLE, OTHER = TableName("shop", "orders"), TableName("shop", "items")
SCHEMAS = {name: TableSchema(name, (Column("id", "int", nullable=False),), ("id",)) for name in (TABLE, OTHER)}


def chunk(number: int, **fields: object) -> ReadChunk:
    return replace(ReadChunk("d" * 16, 3, number, TABLE, None, None, 50, Brackets.WATERMARK), **fields)  # type: ignore[arg-type]  # fields of it


def written(command: ReadChunk) -> ChunkRead:
    path = chunk_name(command.dump_id, epoch=command.epoch, number=command.number)
    return ChunkRead(command.number, ChunkFile(command.table, path, 3, 30, command.after, ("9",)), exhausted=True)


class Served:
    """A server with a term, and what it reports and wants."""

    def __init__(self, log: Folder) -> None:
        self.wanted: list[int] = []
        self.log = log
        self.remote = RemoteReads(lambda wanted: self.wanted.append(wanted.readers), log, on_cluster=False)
        self.events: SimpleQueue[SourceEvent] = SimpleQueue()
        self.readers: RemoteReaders = self.remote.readers(SCHEMAS, self.events.put)
        self.under_way = 0

    def request(self, *commands: ReadChunk) -> None:
        for command in commands:
            self.under_way += 1
            self.readers.read(command, self.under_way)

    def event(self) -> SourceEvent:
        self.under_way -= 1
        return self.events.get(timeout=PATIENCE_S)


class Reader:
    """A call, message by message."""

    def __init__(self, served: Served, token: str = "") -> None:
        self._log = served.log
        self._channel = grpc.insecure_channel(f"127.0.0.1:{served.remote.place.port}")
        self._sending: SimpleQueue[bytes | None] = SimpleQueue()
        metadata = [("authorization", f"Bearer {token or served.remote.place.token}")]
        self.call = self._channel.stream_stream(METHOD)(iter(self._sending.get, None), PATIENCE_S, metadata)

    def send(self, *messages: FromReader) -> None:
        """The file of what is written is there."""
        for message in messages:
            if isinstance(message, ChunkWritten):
                storage.write_atomically(self._log, message.chunk.file.path, b"rows")
            self._sending.put(to_bytes(message))

    def send_bytes(self, data: bytes) -> None:
        self._sending.put(data)

    def command(self) -> SentCommand | None:
        """None: the call has come to its end."""
        data = next(self.call, None)
        return None if data is None else command_of(data)

    def takes(self) -> SentCommand:
        self.send(ReadyForCommand(None))
        command = self.command()
        assert command is not None
        return command

    def kill(self) -> None:
        self._sending.put(None)
        self._channel.close()


@pytest.fixture
def log(tmp_path: Path) -> Folder:
    return open_folder(str(tmp_path))


@pytest.fixture
def served(log: Folder) -> Iterator[Served]:
    one = Served(log)
    yield one
    one.remote.close()


def test_what_a_reader_that_is_gone_had_begun_is_lost_and_what_it_had_not_is_anothers(served: Served) -> None:
    served.request(chunk(1), chunk(2))
    first, second = Reader(served), Reader(served)
    assert first.takes().read == chunk(1)
    first.kill()
    lost = served.event()
    assert isinstance(lost, ChunkLost)
    assert lost.command == chunk(1)
    assert "chunk 1 of shop.orders" in lost.reason
    assert second.takes().read == chunk(2)
    second.send(ChunkWritten(written(chunk(2))))
    assert served.event() == written(chunk(2))


def test_what_was_not_sent_in_this_call_is_not_reported(served: Served) -> None:
    """By a reader of before, whose chunk was requested again under another number."""
    served.request(chunk(2))
    reader = Reader(served)
    assert reader.takes().read == chunk(2)
    reader.send(
        ChunkWritten(written(chunk(1))),
        ChunkNotFitted(1, CommitTs(5), "no", ""),
        ChunkFailed(1, "no", "", True),
        ChunkWritten(written(chunk(2))),
    )
    assert served.event() == written(chunk(2))


def test_each_answer_is_the_sources_event_of_its_command(served: Served) -> None:
    served.request(chunk(1), chunk(2))
    reader = Reader(served)
    reader.takes()
    reader.takes()
    reader.send(ChunkNotFitted(1, CommitTs(5), "no column", "wait"), ChunkFailed(2, "no right", "grant it", away=False))
    assert served.event() == ChunkMisfit(chunk(1), CommitTs(5), "no column", "wait")
    assert served.event() == SourceFailed(chunk(2), "no right", "grant it")


def test_a_command_goes_to_the_reader_that_has_read_ahead_though_another_one_is_idle(served: Served) -> None:
    ahead, idle = Reader(served), Reader(served)
    served.request(chunk(1, ahead=True))
    assert ahead.takes().read.number == 1
    ahead.send(ReadsAhead(1), ChunkWritten(written(chunk(1, ahead=True))))
    assert served.event() == written(chunk(1))
    idle.send(ReadyForCommand(None))
    served.request(chunk(2, follows=1, after=("9",)))
    served.request(chunk(3))
    got = idle.command()
    assert got is not None
    assert got.read.number == 3
    ahead.send(ReadyForCommand(1))
    got = ahead.command()
    assert got is not None
    assert got.read.number == 2


def test_what_a_reader_that_is_gone_had_read_ahead_is_for_any_other(served: Served) -> None:
    ahead, idle = Reader(served), Reader(served)
    served.request(chunk(1, ahead=True))
    ahead.takes()
    ahead.send(ReadsAhead(1), ChunkWritten(written(chunk(1))))
    served.event()
    served.request(chunk(2, follows=1))
    ahead.kill()
    assert idle.takes().read.number == 2


def test_a_reader_that_leaves_ends_its_call_and_a_command_on_its_way_is_carried_out(served: Served) -> None:
    for waiting in ([ReadyForCommand(None), ReaderLeaving()], [ReaderLeaving()]):
        reader = Reader(served)
        reader.send(*waiting)
        assert reader.command() is None
    reader = Reader(served)
    served.request(chunk(1))
    assert reader.takes().read.number == 1
    reader.send(ReaderLeaving(), ChunkWritten(written(chunk(1))), ReadyForCommand(None))
    assert served.event() == written(chunk(1))
    served.request(chunk(2))
    got = reader.command()
    assert got is not None, "it waits again: that it wanted to leave is of before"
    assert got.read.number == 2


def test_a_table_is_sent_once_in_a_call_and_again_after_a_ddl(served: Served) -> None:
    served.request(chunk(1), chunk(2), chunk(3, table=OTHER))
    reader = Reader(served)
    first, second, other = reader.takes(), reader.takes(), reader.takes()
    assert schemas_from_json(first.schemas.encode(), name="it") == {TABLE: SCHEMAS[TABLE]}
    assert schemas_from_json(other.schemas.encode(), name="it") == {OTHER: SCHEMAS[OTHER]}
    assert (second.schemas, second.version) == ("", first.version)
    served.readers.follow({TABLE: replace(SCHEMAS[TABLE], table_id=7)})
    served.request(chunk(4), chunk(5, table=OTHER))
    after, gone = reader.takes(), reader.takes()
    assert schemas_from_json(after.schemas.encode(), name="it")[TABLE].table_id == 7
    assert after.version != first.version
    assert gone.schemas == "", "a table that is not there: the reader fails the command, as the sidecar's own does"


def test_who_has_no_token_is_refused(served: Served) -> None:
    served.request(chunk(1))
    stranger = Reader(served, token="guessed")
    stranger.send(ReadyForCommand(None))
    with pytest.raises(grpc.RpcError) as refused:
        stranger.command()
    assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
    assert Reader(served).takes().read == chunk(1)


@pytest.mark.parametrize("data", [b"{", b'{"type": "Nothing"}', b'{"type": "ChunkWritten"}', b"\xff"], ids=str)
def test_a_call_with_what_is_no_message_is_ended_and_its_command_lost(served: Served, data: bytes) -> None:
    served.request(chunk(1))
    reader = Reader(served)
    reader.takes()
    reader.send_bytes(data)
    lost = served.event()
    assert isinstance(lost, ChunkLost)
    assert "no message of a reader" in lost.reason


def test_a_file_of_another_name_or_table_is_no_chunk(served: Served) -> None:
    served.request(chunk(1))
    reader = Reader(served)
    reader.takes()
    reader.send(ChunkWritten(replace(written(chunk(1)), file=written(chunk(9)).file)))
    failed = served.event()
    assert isinstance(failed, SourceFailed)
    assert (failed.command, failed.away) == (chunk(1), False)
    assert f"not {written(chunk(1)).file.path}" in failed.reason
    assert "same release" in failed.hint


def test_a_chunk_whose_file_is_not_in_the_log_fails_with_what_is_to_be_mounted(served: Served) -> None:
    """On a host without the log's file system a task writes to its own disk."""
    served.request(chunk(1))
    reader = Reader(served)
    reader.takes()
    reader.send_bytes(to_bytes(ChunkWritten(written(chunk(1)))))
    failed = served.event()
    assert isinstance(failed, SourceFailed)
    assert (failed.command, failed.away) == (chunk(1), False)
    assert "is not in" in failed.reason
    assert "mounted" in failed.hint


@pytest.mark.parametrize(
    "error",
    [
        StorageFull("no room", hint="make some", place="s3://log"),
        LogUnreachable("no network", hint="wait"),
        LogBroken("read-only", hint="no"),
    ],
    ids=str,
)
def test_an_error_of_a_tasks_storage_is_its_commands_and_ends_nothing_else(served: Served, error: TicdcDumpError) -> None:
    served.request(chunk(1), chunk(2))
    broken, other = Reader(served), Reader(served)
    broken.takes()
    broken.send(ReaderBroken.of(error))
    failed = served.event()
    assert isinstance(failed, SourceFailed)
    assert (failed.command, failed.hint, failed.away) == (chunk(1), error.hint, error.retryable)
    assert error.message in failed.reason
    served.readers.look(1)
    assert other.takes().read == chunk(2)


def test_commands_that_no_reader_takes_fail_as_of_a_source_that_is_away(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    served.request(chunk(1), chunk(2))
    served.readers.look(2)
    assert served.events.empty()
    monkeypatch.setattr(remote_reads, "NO_READER_S", 0.0)
    served.readers.look(2)
    for number in (1, 2):
        failed = served.event()
        assert isinstance(failed, SourceFailed)
        assert (failed.command, failed.away) == (chunk(number), True)
        assert "no Spark task has taken it" in failed.reason
        assert 'dump.read_on = "sidecar"' in failed.hint
    reader = Reader(served)
    reader.send(ReadyForCommand(None))
    eventually(lambda: served.readers._calls)
    served.request(chunk(3))
    command = reader.command()
    assert command is not None
    assert command.read == chunk(3)
    served.readers.look(1)
    assert served.events.empty(), "a reader is there"


def test_as_many_readers_are_wanted_as_commands_were_under_way_and_fewer_after_a_while(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    served.request(chunk(1), chunk(2), chunk(3))
    served.readers.look(2)
    served.readers.look(0)
    assert served.wanted == [1, 2, 3]
    monkeypatch.setattr(remote_reads, "IDLE_S", 0.0)
    for under_way in (2, 2, 0, 0):
        served.readers.look(under_way)
    assert served.wanted == [1, 2, 3, 2, 0]


def test_the_calls_of_a_term_end_with_it_and_those_of_the_next_are_its_own(served: Served) -> None:
    served.request(chunk(1))
    busy, idle = Reader(served), Reader(served)
    busy.takes()
    idle.send(ReadyForCommand(None))
    served.readers.tell()
    assert (busy.command(), idle.command()) == (None, None)
    assert served.wanted[-1] == 0
    events: SimpleQueue[SourceEvent] = SimpleQueue()
    following = served.remote.readers(SCHEMAS, events.put)
    following.read(chunk(7), 1)
    reader = Reader(served)
    assert reader.takes().schemas
    reader.send(ChunkWritten(written(chunk(7))))
    assert events.get(timeout=PATIENCE_S) == written(chunk(7))


def test_a_reader_that_leaves_does_not_wait_for_a_command_though_others_are_there(served: Served) -> None:
    """Its slice is over: the core is for other work."""
    served.request(*(chunk(number) for number in range(1, 20)))
    reader = Reader(served)
    assert reader.takes().read.number == 1
    reader.send(ChunkWritten(written(chunk(1))), ReaderLeaving())
    assert reader.command() is None
    assert served.event() == written(chunk(1))


def test_a_call_before_any_term_ends_at_once(log: Folder) -> None:
    remote = RemoteReads(lambda _: None, log, on_cluster=False)
    try:
        with grpc.insecure_channel(f"127.0.0.1:{remote.place.port}") as channel:
            call = channel.stream_stream(METHOD)(iter([]), metadata=[("authorization", f"Bearer {remote.place.token}")])
            assert list(call) == []
    finally:
        remote.close()


def test_a_port_that_is_taken_is_reported_with_its_setting(served: Served) -> None:
    with pytest.raises(ConfigError, match=f"dump.read_port {served.remote.place.port} cannot be listened on"):
        RemoteReads(lambda _: None, served.log, on_cluster=False, port=served.remote.place.port)


def test_on_a_cluster_a_reader_knows_the_sidecar_by_its_certificate_alone(log: Folder) -> None:
    remote, stranger = (RemoteReads(lambda _: None, log, on_cluster=True) for _ in range(2))
    try:
        for trusted, code in ((remote, None), (stranger, grpc.StatusCode.UNAVAILABLE)):
            credentials = grpc.ssl_channel_credentials(trusted.place.certificate.encode())
            options = [("grpc.ssl_target_name_override", "ticdc-dump-reads")]
            with grpc.secure_channel(f"127.0.0.1:{remote.place.port}", credentials, options) as channel:
                call = channel.stream_stream(METHOD)(iter([]), metadata=[("authorization", f"Bearer {remote.place.token}")])
                assert (call.code() if code else list(call)) == (code or [])
    finally:
        remote.close()
        stranger.close()


def test_a_workers_line_is_one_line_and_comes_back(served: Served) -> None:
    line = ReadersWanted(served.remote.place, 3).line()
    assert line.count(b"\n") == 1
    assert ReadersWanted.of(line) == ReadersWanted(served.remote.place, 3)
