"""What every Source keeps: one suite for the recorded twin and for the one that asks a real server, by threads of its own and by tasks that
read elsewhere, over the same rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from sidecar.adapters.tidb.source import TidbSource, ensure_mark_table
from sidecar.ports import Source
from sidecar.replay.recording import FeedConfig, Recording
from sidecar.replay.source import RecordedSource, WatermarkRow
from sidecar.replay.tables import RecordedTables
from sidecar.shared.log import storage
from sidecar.shared.log.storage import Folder, open_folder
from sidecar.shared.model.chunk import WrittenChunk
from sidecar.shared.model.keyset import Key, quoted_table
from sidecar.shared.model.messages import Brackets, ChunkRead, Command, MarkSent, ReadChunk, SendMark, SourceEvent, SourceFailed
from sidecar.shared.model.nouns import MARK_TABLE, Column, CommitTs, MarkKind, TableName, TableSchema
from sidecar.shared.sql.text import quoted
from tests.support.eventually import PATIENCE_S
from tests.support.read_tasks import reading_settings, tasks_here
from tests.support.recordings import recording
from tests.support.services.mariadb import MariaDb

pytestmark = pytest.mark.xdist_group("mariadb")

DUMP = "0123456789abcdef"
TABLES = [TableName("shop", name) for name in ("customer", "orders", "uid", "event_log")]
"""Tables of the recording whose keys both order alike; collations are the real server's alone."""


@dataclass
class Files:
    """Where chunks are written, by path."""

    written: dict[str, pa.Table] = field(default_factory=dict)

    def write(self, path: str, rows: pa.Table) -> WrittenChunk:
        self.written[path] = rows
        return WrittenChunk(int(rows.nbytes) + 1, f"sha256 of {path}", f"sum of {path}")


@dataclass
class Case:
    open: Callable[[], Source]
    files: Files
    schemas: dict[TableName, TableSchema]
    rows: dict[TableName, list[tuple[str | None, ...]]]


@dataclass
class StillCluster:
    """A cluster in which nothing changes but our marks."""

    config: FeedConfig
    ts: CommitTs

    def now_ts(self) -> CommitTs:
        return self.ts

    def inject(self, commit_ts: CommitTs, key: bytes | None, value: bytes) -> None:
        assert commit_ts == self.ts


@pytest.fixture(scope="module")
def demo() -> Recording:
    return Recording(recording("demo"))


@pytest.fixture(scope="module")
def tables(demo: Recording) -> RecordedTables:
    return RecordedTables(demo, demo.feed_config())


@pytest.fixture(scope="module")
def rows(demo: Recording, tables: RecordedTables) -> dict[TableName, list[tuple[str | None, ...]]]:
    """In the order of the key."""
    return {name: list(tables.rows(name, demo.end_ts).values()) for name in TABLES}


@pytest.fixture(scope="module")
def db(demo: Recording, rows: dict[TableName, list[tuple[str | None, ...]]], mariadb: MariaDb) -> Iterator[MariaDb]:
    ensure_mark_table(mariadb.settings())
    mariadb.execute("CREATE DATABASE shop")
    with mariadb.connect(sql_mode="") as connection, connection.cursor() as cursor:
        for name in TABLES:
            schema = demo.schemas[name]
            columns = ", ".join(f"{quoted(column.name)} {declared(column)}" for column in schema.columns)
            cursor.execute(f"CREATE TABLE {quoted_table(name)} ({columns}, PRIMARY KEY ({', '.join(map(quoted, schema.key))}))")
            places = ", ".join("CAST(%s AS UNSIGNED)" if column.kind == "bit" else "%s" for column in schema.columns)
            cursor.executemany(f"INSERT INTO {quoted_table(name)} VALUES ({places})", rows[name])
    yield mariadb
    mariadb.execute("DROP DATABASE shop", f"DROP DATABASE {MARK_TABLE.schema}")


def declared(column: Column) -> str:
    labels = ", ".join(f"'{label}'" for label in column.elements)
    types = {
        "int": "bigint", "uint": "bigint unsigned", "float": "float", "double": "double", "year": "year", "json": "longtext",
        "text": "varchar(300)", "decimal": f"decimal({column.length}, {column.scale})", "bit": f"bit({column.length})",
        "enum": f"enum({labels})", "set": f"set({labels})", "date": "date",
        "time": f"time({column.scale})", "datetime": f"datetime({column.scale})", "timestamp": f"timestamp({column.scale})",
    }  # fmt: skip
    return f"{types[column.kind]} {'NULL' if column.nullable else 'NOT NULL'}"


@pytest.fixture(params=["recorded", "recorded at once", "sql", "sql by tasks", "sql by tasks on a cluster"])
def case(
    request: pytest.FixtureRequest,
    demo: Recording,
    rows: dict[TableName, list[tuple[str | None, ...]]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Iterator[Case]:
    files, opened, tasks = Files(), [], ExitStack()
    schemas = {name: demo.schemas[name] for name in TABLES}

    def recorded() -> Source:
        cluster = StillCluster(demo.feed_config(), demo.end_ts)
        tables = request.getfixturevalue("tables")
        return RecordedSource(tables, cluster, WatermarkRow("test"), files.write, seed=7, steps_max=0 if "once" in request.param else 3)

    def live() -> Source:
        settings, remote = request.getfixturevalue("db").settings(), None
        if "tasks" in request.param:
            log = open_folder(str(tmp_path))

            def write(_: Folder, path: str, rows: pa.Table, **__: object) -> WrittenChunk:
                storage.write_atomically(log, path, b"what the server looks for")
                return files.write(path, rows)

            monkeypatch.setattr("spark_merge.worker.read_task.write_chunk", write)
            reads = tasks_here(reading_settings(settings, log), on_cluster="cluster" in request.param)
            remote = tasks.enter_context(reads).readers
        source = TidbSource(settings, schemas=schemas, write_chunk=files.write, changefeed_id="test", make_readers=remote)
        opened.append(source)
        return source

    yield Case(recorded if request.param.startswith("recorded") else live, files, schemas, rows)
    for source in opened:
        source.close()
    tasks.close()
    if opened:
        request.getfixturevalue("db").execute(f"DELETE FROM {MARK_TABLE}")


def chunk(table: TableName, number: int = 1, *, after: Key | None = None, upper: Key | None = None, rows_max: int = 10) -> ReadChunk:
    return ReadChunk(DUMP, 3, number, table, after, upper, rows_max, Brackets.WATERMARK)


def ask(source: Source, *commands: Command) -> list[SourceEvent]:
    for command in commands:
        source.request(command)
    events: list[SourceEvent] = []
    give_up = time.monotonic() + PATIENCE_S
    while len(events) < len(commands):
        assert time.monotonic() < give_up, f"{events} is all that came"
        events += source.results()
        time.sleep(0.001)  # a source tells what is done only when asked
    return events


def read(case: Case, source: Source, command: ReadChunk) -> tuple[ChunkRead, list[tuple[str | None, ...]]]:
    (event,) = ask(source, command)
    assert isinstance(event, ChunkRead), event
    table = case.files.written[event.file.path]
    assert table.column_names == list(case.schemas[command.table].column_names())
    assert all(kind == pa.string() for kind in table.schema.types)
    return event, list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def key_of(schema: TableSchema, row: Sequence[str | None]) -> Key:
    texts = dict(zip(schema.column_names(), row, strict=True))
    return tuple(str(texts[name]) for name in schema.key)


def test_nothing_under_way_gives_nothing(case: Case) -> None:
    assert list(case.open().results()) == []


def test_marks_are_reported_in_the_order_of_the_commands(case: Case) -> None:
    marks = [SendMark(f"{DUMP}{3:08x}{number:08x}", MarkKind.LOW if number % 3 else MarkKind.HIGH) for number in range(20)]
    assert ask(case.open(), *marks) == [MarkSent(mark.uuid) for mark in marks]


@pytest.mark.parametrize("table", TABLES, ids=str)
@pytest.mark.parametrize("rows_max", [7, 1000])
def test_chunk_after_chunk_is_the_whole_table_in_the_order_of_its_key(case: Case, table: TableName, rows_max: int) -> None:
    source, results, after = case.open(), [], None
    for number in range(1, 1000):
        event, part = read(case, source, chunk(table, number, after=after, rows_max=rows_max))
        assert len(part) <= rows_max
        assert event.number == number
        assert event.file.after == after
        assert event.file.rows == len(part)
        results += part
        after = event.file.last
        if part:
            assert after == key_of(case.schemas[table], part[-1])
        if event.exhausted:
            break
    assert results == case.rows[table]
    assert results


def test_a_chunk_has_the_rows_between_its_bounds(case: Case) -> None:
    table = TableName("shop", "orders")
    schema, whole = case.schemas[table], case.rows[table]
    source = case.open()
    event, results = read(case, source, chunk(table, after=key_of(schema, whole[2]), upper=key_of(schema, whole[9]), rows_max=100))
    assert results == whole[3:10]
    assert event.exhausted
    event, results = read(case, source, chunk(table, 2, after=key_of(schema, whole[2]), upper=key_of(schema, whole[9]), rows_max=3))
    assert results == whole[3:6]
    assert not event.exhausted


def test_above_the_last_key_there_is_an_empty_chunk_that_ends_where_it_began(case: Case) -> None:
    table = TableName("shop", "uid")
    highest = key_of(case.schemas[table], case.rows[table][-1])
    event, results = read(case, case.open(), chunk(table, after=highest))
    assert results == []
    assert event.exhausted
    assert event.file.last == highest


def test_a_chunk_file_is_reported_with_its_name_and_size(case: Case) -> None:
    event, _ = read(case, case.open(), chunk(TableName("shop", "customer"), 42))
    assert event.file.path == f"chunks/{DUMP}/0000000003-00000042.parquet"
    path = event.file.path
    assert event.file.bytes == case.files.written[path].nbytes + 1
    assert (event.file.sha256, event.file.rows_sum) == (f"sha256 of {path}", f"sum of {path}")
    assert event.file.table == ("shop", "customer")
    assert event.file.read_tso is None


def test_reads_that_are_under_way_together_all_end(case: Case) -> None:
    commands = [chunk(TABLES[number % len(TABLES)], number) for number in range(1, 41)]
    marks = [SendMark(f"{DUMP}{3:08x}{number:08x}", MarkKind.LOW) for number in range(10)]
    events = ask(case.open(), *(command for pair in zip(commands[:10], marks, strict=True) for command in pair), *commands[10:])
    assert {event.number for event in events if isinstance(event, ChunkRead)} == set(range(1, 41))
    assert [event.uuid for event in events if isinstance(event, MarkSent)] == [mark.uuid for mark in marks]


def test_a_table_that_is_not_there_fails_its_command_and_no_other(case: Case) -> None:
    missing = chunk(TableName("shop", "nowhere"), 1)
    events = ask(case.open(), missing, chunk(TableName("shop", "uid"), 2))
    (failed,) = [event for event in events if isinstance(event, SourceFailed)]
    assert failed.command == missing
    assert "shop.nowhere" in failed.reason
    assert failed.hint


def test_a_source_that_is_closed_reports_nothing_any_more(case: Case) -> None:
    source = case.open()
    for number in range(10):
        source.request(chunk(TableName("shop", "orders"), number))
        source.request(SendMark(f"{DUMP}{3:08x}{number:08x}", MarkKind.LOW))
    source.close()
    assert list(source.results()) == []


@pytest.mark.parametrize("case", ["sql", "sql by tasks"], indirect=True)
def test_a_ddl_that_was_followed_gives_chunks_of_the_new_columns(case: Case, request: pytest.FixtureRequest) -> None:
    """A recording's tables change with its own DDLs: tests/unit/replay/test_recording_source.py."""
    db = request.getfixturevalue("db")
    table = TableName("shop", "moving")
    db.execute("CREATE TABLE shop.moving (id bigint PRIMARY KEY, gone int)", "INSERT INTO shop.moving VALUES (1, 7), (2, 8), (3, 9)")
    try:
        source = case.open()
        follow(case, source, TableSchema(table, (Column("id", "int", nullable=False), Column("gone", "int")), ("id",)))
        event, results = read(case, source, chunk(table, 1, rows_max=2))
        assert results == [("1", "7"), ("2", "8")]
        db.execute("ALTER TABLE shop.moving DROP COLUMN gone, ADD COLUMN note varchar(9) DEFAULT 'x', ADD COLUMN size int")
        (failed,) = ask(source, chunk(table, 2, after=event.file.last))
        assert isinstance(failed, SourceFailed), "what is no more as it was told is no chunk"
        assert "shop.moving" in failed.reason
        columns = (Column("id", "int", nullable=False), Column("note", "text"), Column("size", "int"))
        follow(case, source, TableSchema(table, columns, ("id",)))
        event, results = read(case, source, chunk(table, 3, after=event.file.last))
        assert results == [("3", "x", None)]
        assert event.exhausted
    finally:
        db.execute("DROP TABLE shop.moving")


def follow(case: Case, source: Source, schema: TableSchema) -> None:
    case.schemas = {**case.schemas, schema.name: schema}
    source.follow(case.schemas)
