"""However much there is to do, only so much is done between two reports of progress: the watchdog watches work and not time.

Work is counted in calls (Python's and C's) by this thread; so the test needs no clock, and any loop that has no report in it fails, of any
sink: with four times the rows, the longest stretch without a report is as long as before.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from traceback import format_stack
from types import FrameType

import pyarrow as pa
import pytest

from sidecar.shared.log import rows_file
from sidecar.shared.log.layout import chunk_name
from sidecar.shared.log.manifest import DdlRecord, Manifest
from sidecar.shared.log.rows_file import write_chunk
from sidecar.shared.log.segment_log import FolderLog
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.chunk import ChunkFile, ClosedWindow
from sidecar.shared.model.nouns import Change, Column, ColumnDefinition, CommitTs, Seq, TableName, TableSchema
from sidecar.shared.process.progress import watched_by
from spark_merge.codecs.decode import rows as rows_decoded
from spark_merge.codecs.encode import by_table
from spark_merge.delivery.batches import Delivery, JobSettings
from spark_merge.log import read, segments
from spark_merge.port import pieces
from spark_merge.port.readable import Readable, rows_of
from spark_merge.sinks.formats import json_lines
from spark_merge.sinks.memory.committing import CommittingSink
from spark_merge.sinks.memory.hidden import HiddenSink
from spark_merge.sinks.memory.versioned import VersionedSink
from spark_merge.sinks.registry import open_sink
from spark_merge.sinks.spool import frames
from spark_merge.sinks.sqlite import database
from spark_merge.sinks.sqlite import reading as sqlite_reading
from spark_merge.testing.histories import COLUMNS, DEFINITION, change_of
from spark_merge.testing.places import Here
from tests.support.lake import uri_of as lake_uri

FEW, MANY = 40, 160
"""Rows of a segment, of a chunk, and of a transaction."""

GROUP_ROWS = 10

SPARE = 1.5
"""A garbage collection, a cache that is full, the last rows of a group: none of it doubles a stretch."""


class CountedWork:
    """progress.Watch: the calls of this thread between two reports. `longest`: of all stretches, `where`: it ended."""

    def __init__(self) -> None:
        self.calls = self.longest = self.reports = 0
        self.where = ""

    def progressed(self) -> None:
        if self.calls > self.longest:
            self.longest, self.where = self.calls, "".join(format_stack(limit=8))
        self.calls = 0
        self.reports += 1

    @contextmanager
    def may_take(self, _: float) -> Iterator[None]:
        self.progressed()
        yield
        self.progressed()

    @contextmanager
    def counted(self) -> Iterator[None]:
        def count(_: FrameType, event: str, __: object) -> None:
            self.calls += event in ("call", "c_call")

        with watched_by(self):
            sys.setprofile(count)
            try:
                yield
            finally:
                sys.setprofile(None)
                self.progressed()


TABLES = [TableName("s", f"t{number}") for number in range(2)]
SCHEMAS = {name: TableSchema(name, COLUMNS, ("id", "part"), definition=DEFINITION) for name in TABLES}
WITH_W = replace(DEFINITION, columns=(*DEFINITION.columns, ColumnDefinition("w", "int(11)")))
MORE = TableSchema(TABLES[0], (*COLUMNS, Column("w", "int")), ("id", "part"), definition=WITH_W)


def make_log(place: Path, rows: int) -> JobSettings:
    """Segment 0: changes of two tables in turn, then a transaction. Segment 1: changes, and the chunk of a window that began in segment 0.
    It ends with a DDL, after which segment 2 has a row."""
    log = FolderLog(open_folder(str(place)))
    log.recover(epoch=1)

    def put(number: int, ts: int, table: int = 0) -> Change:
        return change_of(TABLES[table], CommitTs(ts), "INSERT", new=(f"k{number}", "0", "v"), old=None)

    def made(seq: int, changes: list[Change]) -> Manifest:
        data = log.write_data(Seq(seq), epoch=1, codec="canal-json", changes=changes)
        after_ts, upto_ts = CommitTs(seq * 10_000), CommitTs((seq + 1) * 10_000)
        known = data.table_rows if seq else None  # where it is not known, the rows are counted
        return Manifest(
            Seq(seq), 1, after_ts, upto_ts, data.name, data.rows, data.bytes, {}, schemas, "canal-json", table_rows=known, id=f"m{seq}"
        )  # fmt: skip

    schemas, after = log.write_schemas(SCHEMAS), log.write_schemas({**SCHEMAS, TABLES[0]: MORE})
    log.commit(made(0, [put(n, n + 1, n % 2) for n in range(2 * rows)] + [put(n, 9_000) for n in range(rows)]))
    chunk = {"id": [f"c{n}" for n in range(rows)], "part": ["0"] * rows, "v": ["x"] * rows}
    path = chunk_name("d" * 16, epoch=1, number=1)
    written = write_chunk(log.folder, path, pa.table(chunk))
    file = ChunkFile(TABLES[0], path, rows, written.bytes, None, ("z",))
    window = ClosedWindow("d" * 16, CommitTs(100), CommitTs(15_000), Seq(0), (file,))
    ddl = DdlRecord(CommitTs(20_000), "s", "t0", "ALTER TABLE t0 ADD COLUMN w INT")
    second = made(1, [put(n, 10_001 + n) for n in range(rows)])
    log.commit(replace(second, windows=(window,), ddls=(ddl,), next_schemas=after))
    last = change_of(TABLES[1], CommitTs(20_001), "INSERT", new=("last", "0", "v"), old=None)
    log.commit(replace(made(2, [last]), schemas=after))
    return JobSettings(log.folder)


SINKS: dict[str, Callable[[Path], object]] = {
    "jsonl": lambda to: open_sink(f"file://{to}?format=jsonl", log_id="log-1"),
    "parquet": lambda to: open_sink(f"file://{to}?format=parquet", log_id="log-1"),
    "storage csv": lambda to: open_sink(f"file://{to}?protocol=csv&csv.include-commit-ts=true", log_id="log-1"),
    "storage json": lambda to: open_sink(f"file://{to}?protocol=canal-json", log_id="log-1"),
    "sqlite": lambda to: open_sink(f"sqlite://{to}.db", log_id="log-1"),
    "grpc": lambda to: open_sink(f"grpc://{to}", log_id="log-1"),
    "delta": lambda to: open_sink(f"delta://{to}?mode=append", log_id="log-1"),
    "delta merge": lambda to: open_sink(f"delta://{to}?mode=merge", log_id="log-1"),
    "iceberg": lambda to: open_sink(lake_uri(to, mode="append"), log_id="log-1"),
    "iceberg merge": lambda to: open_sink(lake_uri(to, mode="merge"), log_id="log-1"),
    "hidden": lambda to: HiddenSink(str(to), log_id="log-1"),
    "committing": lambda to: CommittingSink(str(to), log_id="log-1"),
    "versioned": lambda to: VersionedSink(str(to), log_id="log-1"),
}


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> tuple[JobSettings, JobSettings]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows_file, "ROW_GROUP_ROWS_MAX", GROUP_ROWS)
        return make_log(tmp_path_factory.mktemp("few"), FEW), make_log(tmp_path_factory.mktemp("many"), MANY)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name, bound in (
        (segments, "ROWS_MAX", 2 * GROUP_ROWS),
        (segments, "STREAMED_ROWS", 2 * GROUP_ROWS),
        (segments, "HELD_ROWS_MAX", 2 * GROUP_ROWS),
        (read, "BATCH_BYTES_MAX", 1_000),
        (pieces, "PIECE_BYTES_MAX", 2_000),
        (rows_decoded, "_BLOCK_ROWS_MAX", GROUP_ROWS),
        (database, "STEPS_A_REPORT", 200),
        (sqlite_reading, "PAGE_ROWS_MAX", GROUP_ROWS),
        (json_lines, "BLOCK_BYTES", 2_000),
        (by_table, "ROWS_MAX", GROUP_ROWS),
        (by_table, "HELD_ROWS_MAX", 2 * GROUP_ROWS),
        (frames, "FRAME_ROWS_MAX", GROUP_ROWS),
    ):
        monkeypatch.setattr(module, name, bound)


def life(sink: object, settings: JobSettings) -> CountedWork:
    """All of the log is delivered, and then read back. The reports of each stretch of work."""
    work = CountedWork()
    with work.counted():
        delivery = Delivery(sink, settings, Here())  # type: ignore[arg-type]
        while delivery.deliver():
            pass
        if isinstance(sink, Readable) and not isinstance(sink, HiddenSink | CommittingSink | VersionedSink):  # which are lists in memory
            for part in sink.reading(SCHEMAS[TABLES[1]], parts=1).parts:
                for _ in rows_of(part):
                    pass
    assert delivery.accepted == 2
    return work


@pytest.mark.parametrize("kind", SINKS)
def test_more_rows_make_more_reports_and_no_longer_stretch_without_one(
    kind: str, logs: tuple[JobSettings, JobSettings], tmp_path: Path
) -> None:
    """Tasks, accepts, a DDL and the way back, after a first life that has loaded what is loaded once."""
    lives = [life(SINKS[kind](tmp_path / f"out-{number}"), logs[number > 1]) for number in range(3)]
    _, few, many = lives
    assert many.longest <= SPARE * few.longest, f"{few.longest} calls, now {many.longest}, up to\n{many.where}"
    assert many.reports > 1.5 * few.reports


def test_a_statement_of_sqlite_reports_as_often_as_it_is_long(tmp_path: Path) -> None:
    """A DDL copies a table by one of them."""
    reports = []
    for rows in (FEW, MANY):
        work = CountedWork()
        with watched_by(work), database.transaction(f"{tmp_path}/{rows}.db") as connection:
            connection.execute("CREATE TABLE a (n INTEGER PRIMARY KEY)")
            numbers = f"WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < {rows}) SELECT n FROM c"
            connection.execute(f"INSERT INTO a {numbers}")
            before = work.reports
            connection.execute("CREATE TABLE b AS SELECT * FROM a")
            reports.append(work.reports - before)
    assert 0 < reports[0] * 2 < reports[1]
