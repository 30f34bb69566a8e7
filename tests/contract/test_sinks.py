"""What every files sink keeps: one suite for JSON lines and Parquet, on local disk and on S3 (moto's HTTP server)."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from moto.server import ThreadedMotoServer

from sidecar.shared.errors import SinkError
from sidecar.shared.log import storage
from sidecar.shared.log.manifest import DdlRecord
from sidecar.shared.log.storage import Folder, open_folder, s3
from sidecar.shared.model.nouns import Column, CommitTs, TableName, TableSchema
from spark_merge.port.contract import Outcome, Rows, Sink
from spark_merge.sinks.files.reader import read_rows, read_segments
from spark_merge.sinks.folder.layout import table_folder
from spark_merge.sinks.kit.errors import sink_folder
from spark_merge.sinks.registry import open_sink
from spark_merge.testing.places import accepted
from tests.support.deliveries import ORDERS, SCHEMA, Segments, change, chunk, deliver, opened, write, write_chunk

BUCKET = "merged"
Rows_ = list[tuple[int, int, str, str, str | None]]


@dataclass
class Place:
    """An output folder, with the eyes that look into it. Rows are (commit_ts, ordinal, op, id, dump_id)."""

    uri: str
    folder: Folder
    log: Folder

    def open(self, log_id: str = "log-1") -> Sink:
        return opened(open_sink(self.uri, log_id=log_id))

    def names(self) -> set[str]:
        return set(storage.list_names(self.folder, deep=True))

    def delivered(self) -> dict[int, dict[TableName, Rows_]]:
        """Of several files of a table in Parquet the rows in their own order."""
        result: dict[int, dict[TableName, Rows_]] = {}
        for segment in read_segments(self.folder):
            tables = result.setdefault(segment.seq, {})
            for file in segment.files:
                tables[file.table] = sorted([*tables.get(file.table, []), *self.rows(file)], key=lambda row: (row[0], row[4] is not None))
        return result

    def rows(self, file: Any) -> Rows_:
        if file.path.endswith(".jsonl"):
            return [(int(r["commit_ts"]), r["ordinal"], r["op"], r["key"]["id"], r["dump_id"]) for r in read_rows(self.folder, file)]
        table = pq.read_table(io.BytesIO(storage.read_file(self.folder, file.path)))
        return [(r["_commit_ts"], r["_ordinal"], r["_op"], str(r["id"]), r["_dump_id"]) for r in table.to_pylist()]


@pytest.fixture(scope="module")
def storage_parameters() -> Iterator[str]:
    """The URI parameters of a bucket on a real HTTP server."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    parameters = f"endpoint=http://{host}:{port}&region=us-east-1&access-key=x&secret-access-key=y"
    s3.fs(open_folder(f"s3://{BUCKET}?{parameters}")).call_s3("create_bucket", Bucket=BUCKET)
    yield parameters
    server.stop()


@pytest.fixture(params=["local jsonl", "local parquet", "s3 jsonl", "s3 parquet"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    where, file_format = request.param.split()
    if where == "local":
        uri = f"file://{tmp_path}/out?format={file_format}"
    else:
        uri = f"s3://{BUCKET}/{tmp_path.name}?format={file_format}&{request.getfixturevalue('storage_parameters')}"
    return Place(uri, sink_folder(uri), open_folder(str(tmp_path / "log")))


def sum_of(outcomes: list[Outcome]) -> dict[TableName, Rows]:
    result: dict[TableName, Rows] = {}
    for outcome in outcomes:
        for (_, table), rows in outcome.counts.items():
            result[table] = result.get(table, Rows()).plus(rows)
    return result


def test_nothing_is_accepted_at_the_start(place: Place) -> None:
    assert place.open().look() is None


def test_rows_come_in_output_order_with_chunk_rows_at_high_ts(place: Place) -> None:
    write_chunk(place.log, "c1", [("1", "a"), ("2", "b"), ("3", "c")])
    write_chunk(place.log, "c2", [("8", "y"), ("9", "z")])
    rows = [
        change(1, 10, after=["2", "new"], ordinal=0),
        change(1, 20, before=["7", "x"], ordinal=1),
        chunk(1, 20, "c1", touched=["2"], ordinal=0),
        chunk(1, 20, "c2", touched=[], ordinal=1),
        change(1, 21, before=["1", "a"], after=["1", "later"], ordinal=2),
    ]
    delivered = deliver(place.open(), Segments([1], rows), log=place.log)
    assert sum_of(delivered) == {ORDERS: Rows(3, 4, 1)}
    assert place.delivered()[1][ORDERS] == [
        (10, 0, "insert", "2", None),
        (20, 1, "delete", "7", None),
        (20, 0, "insert", "1", "d1"),
        (20, 2, "insert", "3", "d1"),
        (20, 0, "insert", "8", "d1"),
        (20, 1, "insert", "9", "d1"),
        (21, 2, "update", "1", None),
    ]


def test_each_segment_and_table_has_its_own_rows(place: Place) -> None:
    users = TableName("shop", "users")
    schemas = {ORDERS: SCHEMA, users: TableSchema(users, SCHEMA.columns, ("id",))}
    rows = [change(seq, 100 * seq, after=[str(seq), "x"], table=table) for seq in (1, 2, 4) for table in (ORDERS, users)]
    deliver(place.open(), Segments([1, 2, 3, 4], rows), log=place.log, schemas=schemas)
    result = place.delivered()
    assert result[3] == {}
    assert {seq: {table: [row[3] for row in of] for table, of in tables.items()} for seq, tables in result.items() if seq != 3} == {
        seq: {ORDERS: [str(seq)], users: [str(seq)]} for seq in (1, 2, 4)
    }


def test_what_was_accepted_is_known_after_a_restart(place: Place) -> None:
    deliver(place.open(), Segments([7, 8], [change(7, 700, after=["1", "x"])]), log=place.log)
    again = place.open()
    assert accepted(again) == 8
    deliver(again, Segments([9]), log=place.log)
    assert accepted(place.open()) == 9


def test_files_of_a_batch_that_was_not_accepted_are_not_delivered(place: Place) -> None:
    write(place.open(), Segments([1], [change(1, 10, after=["1", "x"])]), log=place.log)
    assert place.open().look() is None
    assert place.delivered() == {}


def test_a_redone_batch_replaces_what_was_half_written(place: Place) -> None:
    sink = place.open()
    deliver(sink, Segments([1], [change(1, 10, after=["1", "x"])]), log=place.log)
    write(sink, Segments([2], [change(2, 20, after=["2", "x"])]), log=place.log)
    deliver(place.open(), Segments([2], [change(2, 20, after=["3", "x"])]), log=place.log)
    assert place.delivered() == {1: {ORDERS: [(10, 0, "insert", "1", None)]}, 2: {ORDERS: [(20, 0, "insert", "3", None)]}}


def test_a_redone_batch_removes_files_that_it_does_not_write(place: Place) -> None:
    deliver(place.open(), Segments([1], [change(1, 10, after=["1", "x"])]), log=place.log)
    half = [change(seq, 100, after=["2", "x"]) for seq in (2, 3, 900)]
    write(place.open(), Segments([2, 3, 900], half), log=place.log)
    deliver(place.open(), Segments([2], []), log=place.log)
    tables = {name for name in place.names() if not name.startswith("_")}
    assert len(tables) == 1
    assert place.delivered() == {1: {ORDERS: [(10, 0, "insert", "1", None)]}, 2: {}}


@pytest.mark.parametrize("seq", [1, 2, 4])
def test_refuses_to_go_back_repeat_or_leave_a_gap(place: Place, seq: int) -> None:
    sink = place.open()
    deliver(sink, Segments([1, 2]), log=place.log)
    with pytest.raises(SinkError, match=f"has accepted segment 2 and is given {seq}"):
        deliver(sink, Segments([seq]), log=place.log)
    assert accepted(place.open()) == 2


def test_refuses_the_output_of_another_log(place: Place) -> None:
    deliver(place.open("log-1"), Segments([1]), log=place.log)
    other = open_sink(place.uri, log_id="log-2")
    for act in (other.look, lambda: other.open(epoch=None)):
        with pytest.raises(SinkError, match="holds the output of log log-1"):
            act()


def test_refuses_to_mix_formats(place: Place) -> None:
    deliver(place.open(), Segments([1]), log=place.log)
    mixed = place.uri.replace("jsonl", "X").replace("parquet", "jsonl").replace("X", "parquet")
    with pytest.raises(SinkError, match="files, not"):
        open_sink(mixed, log_id="log-1").look()


def test_ddls_are_named_by_their_segment(place: Place) -> None:
    deliver(place.open(), Segments([1, 2], ddls={2: (DdlRecord(CommitTs(200), "shop", "orders", "drop table orders"),)}), log=place.log)
    assert [segment.ddl for segment in read_segments(place.folder)] == [None, "_ddl/00000000000000000002.json"]
    assert b"drop table orders" in storage.read_file(place.folder, "_ddl/00000000000000000002.json")


def test_a_table_whose_rows_were_all_dropped_is_counted(place: Place) -> None:
    write_chunk(place.log, "c1", [("1", "a")])
    deliver(place.open(), Segments([1], [chunk(1, 50, "c1", touched=["1"])]), log=place.log)
    [segment] = read_segments(place.folder)
    assert [(file.from_log, file.from_dump, file.dropped) for file in segment.files] == [(0, 0, 1)]
    assert place.delivered() == {1: {ORDERS: []}}


@pytest.mark.parametrize("name", ["a/b", "..", "a.b", "spa ce", "名前" * 32, "_log", "100%", "a~b", "*?[x]", "\"'`", "x" * 64])
def test_any_legal_name_is_a_folder_of_its_own(place: Place, name: str) -> None:
    tables = [TableName(name, name), TableName(name, "t"), TableName("_s", name)]
    schemas = {table: TableSchema(table, (Column("id", "int"), Column(name, "text")), ("id",)) for table in tables}
    rows = [change(1, 10, after=[str(i), "x"], table=table) for i, table in enumerate(tables)]
    deliver(place.open(), Segments([1], rows), log=place.log, schemas=schemas)
    assert place.delivered()[1] == {table: [(10, 0, "insert", str(i), None)] for i, table in enumerate(tables)}
    assert {table_folder(table) for table in tables} == {path.split("/")[0] for path in place.names() if not path.startswith("_")}


def test_an_unreachable_bucket_is_a_sink_error(place: Place) -> None:
    if place.folder.protocol == "s3":
        uri = place.uri.replace(f"s3://{BUCKET}/", "s3://no-such-bucket/")
    else:
        storage.write_atomically(place.log, "../out", b"a file where the folder should be")
        uri = place.uri
    with pytest.raises(SinkError, match="cannot be read or written"):
        open_sink(uri, log_id="log-1").open(epoch=None)
