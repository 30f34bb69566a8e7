"""A DDL whose values a real MariaDB cannot make as TiDB did: the sink stops and names one command, a dump for that DDL. Once the log has
the dump, the sink carries the DDL out, at whatever step a worker dies, and ends with the values of TiDB. No other dump lets it continue."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pytest
import typer
from typer.testing import CliRunner

from sidecar.cli.dump_commands import register
from sidecar.shared.errors import SinkError, UnsupportedDdl
from sidecar.shared.log.identity import known_id
from sidecar.shared.log.layout import chunk_name
from sidecar.shared.log.manifest import DdlRecord, Manifest
from sidecar.shared.log.rows_file import write_chunk
from sidecar.shared.log.segment_log import FolderLog
from sidecar.shared.log.sink_tables import read_sink_tables, write_sink_tables
from sidecar.shared.log.storage import Folder, open_folder
from sidecar.shared.model.chunk import ChunkFile, ClosedWindow
from sidecar.shared.model.messages import Brackets
from sidecar.shared.model.nouns import (
    Change,
    Column,
    ColumnDefinition,
    CommitTs,
    IndexDefinition,
    IndexPart,
    Lane,
    Rank,
    Seq,
    TableDefinition,
    TableName,
    TableSchema,
)
from sidecar.shared.model.progress import DumpState, Progress, TableProgress
from spark_merge.delivery.batches import Delivery, JobSettings
from spark_merge.delivery.sink_record import SinkId
from spark_merge.sinks.mysql.sink import NotedDdls, SqlSink
from spark_merge.sinks.registry import open_sink
from spark_merge.testing.places import Here
from spark_merge.testing.story import Died, mortal, of
from tests.support.services.mariadb import MariaDb
from tests.support.sql_place import rows_of, uri_of
from tests.unit.control.serving import ORDERS, Owner, Serving

pytestmark = pytest.mark.xdist_group("sql-target")

TABLE, SINK, DUMP = ORDERS, "copy", "d" * 16
THERE = TableName("reread", TABLE.table)
SEGMENT_TS = 100
DDL_TS = CommitTs(2 * SEGMENT_TS)
QUERY = "ALTER TABLE orders MODIFY a VARCHAR(30), MODIFY b INT, ADD COLUMN c DATETIME DEFAULT CURRENT_TIMESTAMP"
Row = tuple[str | None, ...]


def table(columns: Sequence[tuple[Column, ColumnDefinition]]) -> TableSchema:
    key = (Column("id", "int", nullable=False), ColumnDefinition("id", "int(11)", nullable=False))
    every = (key, *columns)
    index = IndexDefinition("PRIMARY", (IndexPart("id"),), unique=True, primary=True)
    definition = TableDefinition(tuple(one for _, one in every), (index,), charset="utf8mb4", collation="utf8mb4_bin")
    return TableSchema(TABLE, tuple(one for one, _ in every), ("id",), definition=definition)


def text(name: str) -> tuple[Column, ColumnDefinition]:
    return Column(name, "text"), ColumnDefinition(name, "varchar(30)", charset="utf8mb4", collation="utf8mb4_bin")


BEFORE = table([(Column("a", "double"), ColumnDefinition("a", "double")), text("b")])
AFTER = table(
    [
        text("a"),
        (Column("b", "int"), ColumnDefinition("b", "int(11)")),
        (Column("c", "datetime"), ColumnDefinition("c", "datetime", default="CURRENT_TIMESTAMP")),
    ]
)
INSERTED: list[Row] = [("1", "1e+20", "abc"), ("2", "1.5", "12"), ("3", "7", "3"), ("4", "2", "9")]
LIVE: Row = ("2", "live", "13", "2024-01-01 00:00:00")
"""Of row 2, between the DDL and the dump; row 3 is deleted there."""
READ: list[Row] = [
    ("1", "100000000000000000000", "0", "2024-01-02 08:00:00"),
    ("2", "stale", "12", "2024-01-02 08:00:00"),
    ("4", "2", "9", "2024-01-02 08:00:00"),
]
"""By the dump: what TiDB made of the values; row 2 as it was before its change."""
EXPECTED = [READ[0], LIVE, READ[2]]


def dump(
    state: DumpState = DumpState.RUNNING, *, for_ddl: CommitTs | None = DDL_TS, sinks: tuple[str, ...] = (SINK,), since: int = 2
) -> Progress:
    one = TableProgress(TABLE, since_seq=Seq(since))
    return Progress(DUMP, state, Brackets.WATERMARK, 100, 1, 1, Seq(1), (one,), sinks=sinks, for_ddl=for_ddl)


@dataclass
class Logged:
    """A log that grows by segments of SEGMENT_TS."""

    folder: Folder

    def __post_init__(self) -> None:
        self.log = FolderLog(self.folder)
        self.log.recover(epoch=1)
        self.schemas = [self.log.write_schemas({TABLE: schema}) for schema in (BEFORE, AFTER)]
        self.next = 0

    def segment(
        self, changes: Sequence[Change] = (), *, ddl: bool = False, windows: tuple[ClosedWindow, ...] = (), dumps: Sequence[Progress] = ()
    ) -> None:
        seq, upto_ts = Seq(self.next), CommitTs((self.next + 1) * SEGMENT_TS)
        data = self.log.write_data(seq, epoch=1, codec="canal-json", changes=changes)
        schemas = self.schemas[int(upto_ts > DDL_TS)]
        ddls = (DdlRecord(DDL_TS, *TABLE, QUERY),) if ddl else ()
        records = tuple(one.to_json() for one in dumps)
        self.log.commit(
            Manifest(
                seq, 1, CommitTs(upto_ts - SEGMENT_TS), upto_ts, data.name, data.rows, data.bytes, {}, schemas, "canal-json", ddls, windows,
                progress=records[0] if records else None, more_dumps=records[1:],
                next_schemas=self.schemas[1] if ddl else None, table_rows=data.table_rows, id=f"m{seq}",
            )
        )  # fmt: skip
        self.next += 1

    def to_the_ddl(self) -> None:
        self.segment([change(BEFORE, number + 1, row) for number, row in enumerate(INSERTED)])
        self.segment(ddl=True)

    def chunks(self, state: DumpState = DumpState.FINISHED, *others: Progress) -> None:
        path = chunk_name(DUMP, epoch=1, number=1)
        write_chunk(self.folder, path, pa.table({one.name: [row[n] for row in READ] for n, one in enumerate(AFTER.columns)}))
        chunk = ChunkFile(TABLE, path, len(READ), 1, None, None, since_seq=Seq(2))
        low, high = CommitTs(2 * SEGMENT_TS + 1), CommitTs(3 * SEGMENT_TS + 50)
        record = replace(dump(state), number=len(others))
        done = replace(record.tables[0], spans=(), complete_at=CommitTs((self.next + 1) * SEGMENT_TS))
        window = ClosedWindow(DUMP, low, high, Seq(2), (chunk,), (SINK,))
        self.segment(windows=(window,), dumps=[replace(record, tables=(done,)), *others])


def change(schema: TableSchema, ts: int, row: Row, kind: str = "INSERT") -> Change:
    assert schema.definition is not None
    names = schema.column_names()
    event = {
        "database": TABLE.schema, "table": TABLE.table, "isDdl": False, "type": kind, "sql": "",
        "mysqlType": {one.name: one.type_text.partition("(")[0] for one in schema.definition.columns},
        "data": [dict(zip(names, row, strict=True))], "old": [dict(zip(names, row, strict=True))] if kind == "UPDATE" else None,
        "_tidb": {"commitTs": ts},
    }  # fmt: skip
    rank = Rank.DELETE if kind == "DELETE" else Rank.PUT
    return Change(CommitTs(ts), rank, *TABLE, b"", json.dumps(event).encode(), Lane("k/0"), 0)


@pytest.fixture
def db(mariadb: MariaDb) -> Iterator[MariaDb]:
    drop = ("DROP DATABASE IF EXISTS reread", "DROP DATABASE IF EXISTS reread_pos")
    mariadb.execute(*drop)
    yield mariadb
    mariadb.execute(*drop)


@pytest.fixture
def log(tmp_path: Path) -> Logged:
    return Logged(open_folder(str(tmp_path / "log")))


def deliver(db: MariaDb, log: Logged) -> None:
    """All that is there, by a worker that opens the sink for the first time."""
    sink = open_sink(uri_of(db, "reread_pos", create_tables="true", routes=quote(f"{TABLE.schema}.*=>{THERE.schema}.*")), log_id="r")
    assert isinstance(sink, SqlSink)
    delivery = Delivery(sink, JobSettings(log.folder), Here(), sink_id=SinkId(SINK, "r"))
    try:
        while delivery.deliver():
            pass
    finally:
        sink.close()


def stopped(db: MariaDb, log: Logged) -> UnsupportedDdl:
    with pytest.raises(UnsupportedDdl, match="is not carried out at MariaDB") as caught:
        deliver(db, log)
    assert type_there(db) == "double"
    return caught.value


def complete(log: Logged) -> set[TableName]:
    """As the sink's record says."""
    return set(read_sink_tables(log.folder, [SINK])[SINK].complete)


def make_complete(log: Logged) -> None:
    """As after an earlier dump."""
    tables = read_sink_tables(log.folder, [SINK])[SINK]
    write_sink_tables(log.folder, replace(tables, complete={TABLE: CommitTs(1)}), log_id=known_id(log.folder))
    assert complete(log) == {TABLE}


def type_there(db: MariaDb) -> str:
    ((name,),) = db.execute("SELECT DATA_TYPE FROM information_schema.columns WHERE TABLE_SCHEMA = 'reread' AND COLUMN_NAME = 'a'")
    return str(name)


def asked(stop: UnsupportedDdl) -> list[Progress]:
    """The records of the dumps once an operator has entered the command that the error names."""
    command = re.search(r"`ticdc-dump (dumpstart [^`]*--for-ddl [0-9]+)`", stop.hint)
    assert command is not None, stop.hint
    app = typer.Typer()
    register(app)
    with Owner() as owner, Serving(owner.served(sinks={SINK: ""})) as serving:
        words = shlex.split(command[1].replace("CHANGEFEED", "cf"))
        done = CliRunner().invoke(app, words, env={"TICDC_DUMP_ADDR": serving.address})
        assert done.exit_code == 0, done.output
        records = owner.dump.records
    return [replace(one, tables=tuple(replace(table, since_seq=Seq(2)) for table in one.tables)) for one in records]


LATER = (change(AFTER, 2 * SEGMENT_TS + 10, LIVE, "UPDATE"), change(AFTER, 2 * SEGMENT_TS + 20, ("3", "7", "3", None), "DELETE"))


def test_the_command_that_the_stop_names_ends_with_the_values_of_tidb_at_whatever_step_a_worker_dies(
    db: MariaDb, log: Logged, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.to_the_ddl()
    stop = stopped(db, log)
    make_complete(log)
    log.segment(LATER, dumps=asked(stop))  # the command has begun, and nobody has carried the DDL out
    dying = of(mortal(monkeypatch, NotedDdls, "note_intent", "note_done"))
    for at, column in ((0, "double"), (1, "double"), (0, "varchar"), (1, "varchar")):  # before and after each note
        with dying(at), pytest.raises(Died):
            deliver(db, log)
        assert type_there(db) == column
    deliver(db, log)
    assert len(rows_of(db, AFTER, THERE)) == 3
    assert rows_of(db, AFTER, THERE) != EXPECTED, "the target's own values, until the dump is there"
    assert complete(log) == set()
    log.chunks()
    deliver(db, log)
    assert rows_of(db, AFTER, THERE) == EXPECTED
    assert complete(log) == {TABLE}


@pytest.mark.parametrize("state", [DumpState.QUEUED, DumpState.RUNNING, DumpState.PAUSED, DumpState.FINISHED])
def test_a_dump_that_brings_the_values_at_some_time_gives_leave(db: MariaDb, log: Logged, state: DumpState) -> None:
    """Also one whose chunks are in the log before the sink opens again."""
    log.to_the_ddl()
    log.segment(LATER, dumps=[dump()])
    log.chunks(state)
    deliver(db, log)
    assert rows_of(db, AFTER, THERE) == EXPECTED


def test_of_two_dumps_for_a_ddl_the_later_one_gives_leave(db: MariaDb, log: Logged) -> None:
    """Whichever is first in the manifest. The earlier one is from before the DDL."""
    earlier = replace(dump(DumpState.FINISHED, since=1), dump_id="e" * 16)
    log.to_the_ddl()
    log.segment(LATER, dumps=[replace(dump(), number=1), earlier])
    log.chunks(DumpState.FINISHED, earlier)
    deliver(db, log)
    assert rows_of(db, AFTER, THERE) == EXPECTED


NO_LEAVE = {
    "failed": dump(DumpState.FAILED),
    "stopped": dump(DumpState.STOPPED),
    "for another sink": dump(sinks=("other",)),
    "for another DDL": dump(for_ddl=CommitTs(DDL_TS + 1)),
    "for no DDL": dump(for_ddl=None),
    "from before the DDL": dump(since=1),
    "of some keys": replace(dump(), tables=(TableProgress(TABLE, since_seq=Seq(2), keys=(("1",),), whole=False),)),
    "of another table": replace(dump(), tables=(TableProgress(TableName(TABLE.schema, "other"), since_seq=Seq(2)),)),
}


@pytest.mark.parametrize("one", NO_LEAVE)
def test_another_dump_gives_no_leave(db: MariaDb, log: Logged, one: str) -> None:
    log.to_the_ddl()
    log.segment(LATER, dumps=[NO_LEAVE[one]])
    stopped(db, log)


def test_a_dump_of_the_table_that_has_the_name_now_gives_no_leave(db: MariaDb, log: Logged) -> None:
    log.to_the_ddl()
    log.schemas[1] = log.log.write_schemas({TABLE: replace(AFTER, table_id=7)})
    log.segment(LATER, dumps=[dump()])
    stopped(db, log)


def test_the_table_lacks_something_from_before_its_ddl_whatever_becomes_of_the_dump(
    db: MariaDb, log: Logged, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.segment([change(BEFORE, number + 1, row) for number, row in enumerate(INSERTED)])
    deliver(db, log)
    make_complete(log)
    log.segment(ddl=True)
    log.segment(LATER, dumps=[dump()])
    dying = of(mortal(monkeypatch, NotedDdls, "note_intent", "note_done"))
    for at, column in ((0, "double"), (1, "double"), (0, "varchar")):  # the last one behind the statement, and before its note
        with dying(at), pytest.raises(Died):
            deliver(db, log)
        assert (type_there(db), complete(log)) == (column, set())
    log.segment(dumps=[dump(DumpState.STOPPED)])
    deliver(db, log)
    assert complete(log) == set(), "the DDL is done, and nothing brings its values"


def test_a_value_that_a_strict_session_rejects_stops_with_the_command_too(
    db: MariaDb, log: Logged, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TiDB's own session clipped it."""
    monkeypatch.setattr("spark_merge.sinks.mysql.ddl_values.differs", lambda *_: "")
    monkeypatch.setattr("spark_merge.sinks.mysql.ddl_values._unknown", lambda *_, **__: "")
    log.to_the_ddl()
    with pytest.raises(SinkError, match="the target answered") as caught:
        deliver(db, log)
    assert f"--for-ddl {DDL_TS}" in caught.value.hint
    log.segment(LATER, dumps=[dump()])
    log.chunks()
    deliver(db, log)
    assert rows_of(db, AFTER, THERE) == EXPECTED
