"""A SELECT of a table that a DDL has changed, or is changing: it is told with a TSO, and never as a chunk."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from sidecar.adapters.tidb.schema import TidbSchemas
from sidecar.adapters.tidb.source import TidbSource
from sidecar.shared.model.chunk import WrittenChunk
from sidecar.shared.model.messages import Brackets, ChunkMisfit, ChunkRead, ReadChunk, SourceEvent, SourceFailed
from sidecar.shared.model.nouns import TableName
from tests.support.eventually import PATIENCE_S
from tests.support.services.fake_tidb import FakeTable, FakeTidb, Refused

T = TableName("shop", "t")
OLD = FakeTable(10, {"id": "bigint NOT NULL", "size": "int"}, rows=(("1", "7"), ("2", None)))
NEW = FakeTable(10, {"id": "bigint NOT NULL", "size": "varchar(20)"}, rows=(("1", "7"), ("2", None)))
WITHOUT = FakeTable(10, {"id": "bigint NOT NULL"}, rows=(("1",), ("2",)))


class Reading:
    """A source with the schemas as they were when it began."""

    def __init__(self, tidb: FakeTidb) -> None:
        self.tidb = tidb
        self.files: dict[str, pa.Table] = {}
        self.source = TidbSource(
            tidb.settings(), schemas=TidbSchemas(tidb.settings()).tables(), write_chunk=self._write, changefeed_id="cf"
        )
        self.asked = 0

    def _write(self, path: str, rows: pa.Table) -> WrittenChunk:
        self.files[path] = rows
        return WrittenChunk(int(rows.nbytes))

    def ask(self, where: str | None = None) -> None:
        self.asked += 1
        self.source.request(ReadChunk("0123456789abcdef", 1, self.asked, T, None, None, 100, Brackets.WATERMARK, where))

    def receive(self) -> SourceEvent:
        give_up_s = time.monotonic() + PATIENCE_S
        while not (events := self.source.results()):
            assert time.monotonic() < give_up_s, "nothing came"
            time.sleep(0.002)  # a source tells what is done only when asked
        (event,) = events
        return event

    def read(self) -> pa.Table:
        self.ask()
        event = self.receive()
        assert isinstance(event, ChunkRead), event
        return self.files[event.file.path]

    def fails(self, where: str | None = None) -> SourceFailed | ChunkMisfit:
        self.ask(where)
        event = self.receive()
        assert isinstance(event, SourceFailed | ChunkMisfit), event
        return event

    def misfits(self) -> ChunkMisfit:
        event = self.fails()
        assert isinstance(event, ChunkMisfit), event
        return event


@pytest.fixture
def tidb(tmp_path: Path) -> Iterator[FakeTidb]:
    with FakeTidb(tmp_path) as server:
        server.history = {0: {T: OLD}}
        yield server


@pytest.fixture
def reading(tidb: FakeTidb) -> Iterator[Reading]:
    result = Reading(tidb)
    yield result
    result.source.close()


def test_a_table_as_it_was_reported_is_read(reading: Reading) -> None:
    assert reading.read().to_pydict() == {"id": ["1", "2"], "size": ["7", None]}


@pytest.mark.parametrize("shown", [NEW, WITHOUT, FakeTable(10, {**OLD.columns, "more": "int"}, rows=(("1", "7", None),))])
@pytest.mark.parametrize("before", [0, 1], ids=["the first chunk", "a later chunk"])
def test_rows_whose_columns_are_not_those_in_force_are_no_chunk(reading: Reading, tidb: FakeTidb, shown: FakeTable, before: int) -> None:
    """SQL shows a column that is being modified with its new type, and one that is being dropped no more, before the DDL's commit."""
    for _ in range(before):
        reading.read()
    tidb.shown = {T: shown}
    tidb.now_ts = 2000
    failed = reading.misfits()
    assert failed.schema_ts == 2001, "of a statement after the failure"
    assert "shop.t" in failed.reason
    assert len(reading.files) == before


def test_a_change_between_the_select_and_its_end_is_seen(reading: Reading, tidb: FakeTidb) -> None:
    reading.read()

    def change(sql: str) -> None:
        if "FROM `shop`.`t`" in sql:
            tidb.shown = {T: NEW}

    tidb.before = change
    assert reading.misfits()


def test_a_table_that_is_gone_is_reported_with_a_tso(reading: Reading, tidb: FakeTidb) -> None:
    tidb.history = {0: {}}
    assert reading.misfits().schema_ts == 1001


def test_a_schema_that_went_on_changing_for_all_retries_is_reported_with_a_tso(reading: Reading, tidb: FakeTidb) -> None:
    def refuse(sql: str) -> None:
        if "FROM `shop`.`t`" in sql:
            raise Refused(8028, "Information schema is changed during the execution of the statement")

    tidb.before = refuse
    assert reading.misfits().schema_ts == 1001


@pytest.mark.parametrize(("code", "text"), [(1142, "SELECT command denied"), (1064, "syntax"), (9001, "PD server timeout")])
def test_an_error_that_no_ddl_explains_has_no_tso(reading: Reading, tidb: FakeTidb, code: int, text: str) -> None:
    def refuse(sql: str) -> None:
        if "FROM `shop`.`t`" in sql:
            raise Refused(code, text)

    tidb.before = refuse
    failed = reading.fails()
    assert isinstance(failed, SourceFailed)
    assert text in failed.reason


@pytest.mark.parametrize("dropped", [False, True])
def test_a_predicate_of_a_column_that_never_was_fails_at_once_and_one_of_a_dropped_column_waits(
    reading: Reading, tidb: FakeTidb, dropped: bool
) -> None:
    def refuse(sql: str) -> None:
        if "typo = 1" in sql:
            raise Refused(1054, "Unknown column 'typo' in 'where clause'")

    tidb.before = refuse
    if dropped:
        tidb.shown = {T: WITHOUT}
    failed = reading.fails("typo = 1")
    assert isinstance(failed, ChunkMisfit) is dropped


def test_a_right_that_is_missing_is_named_although_it_hides_columns_too(reading: Reading, tidb: FakeTidb) -> None:
    def refuse(sql: str) -> None:
        if "FROM `shop`.`t`" in sql:
            raise Refused(1143, "SELECT command denied for column 'size'")

    tidb.shown = {T: WITHOUT}
    tidb.before = refuse
    failed = reading.fails()
    assert isinstance(failed, SourceFailed)
    assert "GRANT SELECT" in failed.hint


@pytest.mark.parametrize("code", [8128, 1105, 3024])
def test_bounds_that_the_server_does_not_return_are_none_and_the_chunk_is_one(reading: Reading, tidb: FakeTidb, code: int) -> None:
    """They are a help for the readers; a chunk is right without them."""
    requests = []

    def before(sql: str) -> None:
        if "TABLESAMPLE" in sql:
            requests.append(sql)
            raise Refused(code, "TABLESAMPLE cannot be planned here")

    tidb.before = before
    reading.source.request(ReadChunk("0123456789abcdef", 1, 1, T, None, None, 1, Brackets.WATERMARK, bounds_max=4))
    event = reading.receive()
    assert isinstance(event, ChunkRead), event
    assert len(requests) == 1
    assert "FROM `shop`.`t` AS `t` TABLESAMPLE REGIONS() WHERE" in requests[0], "the alias comes first"


def test_after_the_ddl_the_new_columns_are_read(reading: Reading, tidb: FakeTidb) -> None:
    reading.read()
    tidb.shown = {T: WITHOUT}
    assert reading.misfits()
    reading.source.follow(TidbSchemas(tidb.settings()).tables())
    assert reading.read().to_pydict() == {"id": ["1", "2"]}


def test_what_a_read_learns_amid_a_ddl_is_not_left_to_what_comes_after(reading: Reading, tidb: FakeTidb) -> None:
    """It asks for the table's key before the DDL and hears it after: the key that it learned is the old table's."""
    learning, followed = threading.Event(), threading.Event()

    def hold(sql: str) -> None:
        if "TIDB_PK_TYPE" in sql and not learning.is_set():
            learning.set()
            assert followed.wait(PATIENCE_S)

    tidb.before = hold
    reading.ask()
    assert learning.wait(PATIENCE_S)
    reading.source.follow(TidbSchemas(tidb.settings()).tables())
    tidb.statements.clear()
    followed.set()
    assert isinstance(reading.receive(), ChunkRead)
    reading.read()
    assert sum("TIDB_PK_TYPE" in sql for sql in tidb.statements) == 1, "the read after the DDL learned for itself"
    reading.read()
    assert sum("TIDB_PK_TYPE" in sql for sql in tidb.statements) == 1, "and kept what it learned"
