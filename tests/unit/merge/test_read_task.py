"""Tasks that read chunks, and the worker's side of them, in threads of this process; the source is played by what reads a chunk."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from threading import Event
from time import sleep

import pyarrow as pa
import pytest

from sidecar.adapters.tidb.remote_reads import RemoteReaders, RemoteReads
from sidecar.shared.config import SourceSection, Tls
from sidecar.shared.errors import LogBroken, SinkError, SourceError
from sidecar.shared.log.rows_file import write_chunk
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.chunk import WrittenChunk
from sidecar.shared.model.messages import Brackets, ChunkLost, ChunkRead, ReadChunk, SourceEvent, SourceFailed
from sidecar.shared.model.nouns import Column, TableName, TableSchema
from sidecar.shared.mysql.account import Account
from sidecar.shared.reads.read import ChunkReader, SelectedChunk
from sidecar.shared.reads.remote_wire import ReadersWanted, ReadsPlace
from spark_merge.sinks.mysql.server import SqlServer
from spark_merge.worker import read_task
from spark_merge.worker.read_task import CUT, ReadingSettings, ReadSource, read_slice
from spark_merge.worker.reading import ReadingJobs
from tests.support.eventually import PATIENCE_S, eventually
from tests.support.read_tasks import reading_settings

TABLE = TableName("shop", "orders")
SCHEMAS = {TABLE: TableSchema(TABLE, (Column("id", "int", nullable=False),), ("id",))}
SOURCE = SourceSection(host="127.0.0.1", port=1, user="root")


def chunk(number: int, **fields: object) -> ReadChunk:
    return replace(ReadChunk("d" * 16, 3, number, TABLE, None, None, 50, Brackets.WATERMARK), **fields)  # type: ignore[arg-type]  # fields of it


class Stage:
    """A server with a term, and a source that answers at once."""

    def __init__(self, folder: Path) -> None:
        self.settings = reading_settings(SOURCE, open_folder(str(folder)))
        self.remote = RemoteReads(lambda _: None, self.settings.log, on_cluster=False)
        self.events: SimpleQueue[SourceEvent] = SimpleQueue()
        self.readers: RemoteReaders = self.remote.readers(SCHEMAS, self.events.put)

    def request(self, *numbers: int) -> None:
        for number in numbers:
            self.readers.read(chunk(number), 1)

    def event(self) -> SourceEvent:
        return self.events.get(timeout=PATIENCE_S)


def selected(reader: ChunkReader, session: object, command: ReadChunk, *, stopped: Callable[[], bool]) -> SelectedChunk:
    del session, stopped
    columns = SCHEMAS[TABLE].columns
    return SelectedChunk(pa.table({"id": ["1"]}), columns, reader._in_force, (str(command.number),), None, False, (), 0.0)


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    monkeypatch.setattr(ChunkReader, "read", selected)
    one = Stage(tmp_path)
    yield one
    one.remote.close()


def test_a_task_ends_with_its_slice_though_more_commands_wait(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its core is for other work. A file takes longer than a command needs to come."""

    def slow(*args: object, **fields: object) -> WrittenChunk:
        sleep(0.05)
        return write_chunk(*args, **fields)  # type: ignore[arg-type]  # its own

    monkeypatch.setattr(read_task, "write_chunk", slow)
    numbers, read = iter(range(1, 201)), list[SourceEvent]()

    def reported(event: SourceEvent) -> None:
        """As a dump with three readers: another command follows each."""
        read.append(event)
        stage.request(*islice(numbers, 1))

    stage.readers.report = reported
    stage.request(*islice(numbers, 3))
    done = read_slice(stage.settings, stage.remote.place, 1.0)
    assert 0 < done < 100
    eventually(lambda: len(read) >= done)
    assert all(isinstance(event, ChunkRead) for event in read), "nothing that was begun is lost"


def test_a_task_that_waits_for_the_command_behind_what_it_has_read_ahead_ends_too(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_task, "AHEAD_S", 0.2)
    stage.readers.read(chunk(1, ahead=True), 1)
    assert read_slice(stage.settings, stage.remote.place, 1.0) == 1
    assert isinstance(stage.event(), ChunkRead)
    stage.readers.read(chunk(2, follows=1), 1)
    assert read_slice(stage.settings, stage.remote.place, 1.0) == 1, "another one reads what follows"


def test_an_error_of_ours_fails_the_commands_that_the_task_has(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object, **__: object) -> WrittenChunk:
        raise LogBroken("the log is read-only here", hint="let this host write it")

    monkeypatch.setattr(read_task, "write_chunk", refuses)
    stage.request(1)
    assert read_slice(stage.settings, stage.remote.place, 5.0) == CUT
    failed = stage.event()
    assert isinstance(failed, SourceFailed)
    assert "the log is read-only here" in failed.reason
    assert (failed.hint, failed.away) == ("let this host write it", False)


def test_a_defect_of_the_writer_ends_the_task_with_it_and_loses_its_chunk(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: object, **__: object) -> WrittenChunk:
        raise MemoryError("no memory for the rows")

    monkeypatch.setattr(read_task, "write_chunk", breaks)
    stage.request(1, 2, 3)
    with pytest.raises(MemoryError, match="no memory for the rows"):
        read_slice(stage.settings, stage.remote.place, 60.0)
    assert isinstance(stage.event(), ChunkLost)


def test_a_command_that_cannot_be_read_ends_the_task_with_an_error(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a sidecar of another release."""

    def unreadable(_: bytes) -> None:
        raise ValueError("of another release")

    monkeypatch.setattr(read_task, "command_of", unreadable)
    stage.request(1)
    with pytest.raises(ValueError, match="of another release"):
        read_slice(stage.settings, stage.remote.place, 60.0)
    assert isinstance(stage.event(), ChunkLost)


def test_where_no_sidecar_is_the_task_says_so_with_the_address(stage: Stage) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = ReadsPlace(free.getsockname()[1], "token", host="127.0.0.1")
    with pytest.raises(SinkError, match=rf"does not reach the sidecar at 127.0.0.1:{place.port}: UNAVAILABLE") as raised:
        read_slice(stage.settings, place, 5.0)
    assert "dump.read_port" in raised.value.hint


def test_a_task_amid_a_select_gives_up_when_the_term_ends(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = Event()

    def waits(reader: ChunkReader, session: object, command: ReadChunk, *, stopped: Callable[[], bool]) -> SelectedChunk:
        begun.set()
        eventually(stopped)
        return selected(reader, session, command, stopped=stopped)

    monkeypatch.setattr(ChunkReader, "read", waits)
    stage.request(1)
    jobs = ReadingJobs(stage.settings, Tasks(), lambda _: None)
    jobs.want(ReadersWanted(stage.remote.place, 1))
    assert begun.wait(PATIENCE_S)
    stage.readers.tell()
    jobs.want(ReadersWanted(stage.remote.place, 0))
    eventually(lambda: not jobs._running)


def test_a_task_logs_in_as_the_sidecar_does() -> None:
    """TiDB ends a statement at its timeout before the client gives it up: else a statement that is too long is an outage."""
    source = SourceSection(host="tidb", port=4000, user="dump", statement_timeout_s=60.7, retry_s=45)
    task = reading_settings(source, open_folder("/nowhere")).source
    assert task.login() == Account.of(source).login()
    assert (task.statement_s, task.retry_s) == (60.7, 10.0)


def test_a_task_without_the_password_says_what_executors_need() -> None:
    server = SqlServer((("tidb", 4000),), user="dump", password_file="/nowhere/password")
    with pytest.raises(SourceError, match="cannot log in to the source") as raised:
        ReadSource(server, Tls(), 60, 60).login()
    assert "source.password_file" in raised.value.hint


class Tasks:
    """`reading.ReadTasks`, in the thread that asks. `held`: as if no core were free until it is set."""

    def __init__(self, held: Event | None = None) -> None:
        self.held, self.begun = held, 0
        self.cancelled: list[str] = []

    def each(self, work: Sequence[Callable[[], int]], *, group: str) -> list[int]:
        del group
        self.begun += 1
        if self.held is not None:
            self.held.wait(PATIENCE_S)
        return [one() for one in work]

    def cancel(self, group: str) -> None:
        self.cancelled.append(group)

    def driver_host(self) -> str:
        return "127.0.0.1"


def jobs_of(settings: ReadingSettings, tasks: Tasks, notices: list[str]) -> tuple[ReadingJobs, Callable[[int], None]]:
    jobs = ReadingJobs(settings, tasks, notices.append)
    return jobs, lambda readers: jobs.want(ReadersWanted(ReadsPlace(1, "token", host="127.0.0.1"), readers))


def test_wishes_that_change_while_no_core_is_free_make_no_more_jobs_than_are_wanted(stage: Stage) -> None:
    held, notices = Event(), list[str]()
    tasks = Tasks(held)
    jobs, want = jobs_of(stage.settings, tasks, notices)
    for _ in range(10):
        want(2)
        want(0)
    want(2)
    eventually(lambda: tasks.begun == 2)
    jobs.close()
    assert tasks.cancelled == ["dump"]
    held.set()
    eventually(lambda: not jobs._running)
    assert tasks.begun == 2


def test_what_a_task_dies_of_is_noticed_once(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_merge.worker.reading.READ_RETRY_FIRST_S", 0.01)
    monkeypatch.setattr("spark_merge.worker.reading.READ_RETRY_MAX_S", 0.01)
    notices = list[str]()
    tasks = Tasks()
    jobs, want = jobs_of(stage.settings, tasks, notices)
    want(1)
    eventually(lambda: tasks.begun > 3)
    jobs.close()
    eventually(lambda: not jobs._running)
    (notice,) = notices
    assert "does not reach the sidecar at 127.0.0.1:1" in notice


def test_a_connection_that_no_task_uses_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_task, "HELD_S", 0.05)
    readers, settings = read_task._HeldReaders(), reading_settings(SOURCE, open_folder("/nowhere"))
    held, closed = readers.take(settings, 7), Event()
    monkeypatch.setattr(type(held.session), "close", lambda _: closed.set())
    readers.give_back(settings, 7, held)
    assert readers.take(settings, 8) is not held, "of another cluster"
    assert readers.take(settings, 7) is held, "the next task has it"
    readers.give_back(settings, 7, held)
    assert closed.wait(PATIENCE_S)
    assert readers.take(settings, 7) is not held
