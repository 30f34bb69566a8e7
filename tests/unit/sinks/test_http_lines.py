"""What the http: sink's lines are: rows of many tables in their order, values of every kind letter by letter, what is no row."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import get_args

import pyarrow as pa
import pytest

from sidecar.shared.errors import SinkError
from sidecar.shared.log.manifest import DdlRecord, Manifest
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.chunk import ChunkFile, ClosedWindow
from sidecar.shared.model.nouns import MARK_TABLE, Column, ColumnDefinition, CommitTs, Kind, Seq, TableDefinition, TableName, TableSchema
from sidecar.shared.model.progress import DumpState, SegmentDump
from spark_merge.port.contract import CHANGES, Accepted, Counts, Head, Portion, Rows, Task, Unit
from spark_merge.sinks.http import lines as blocks
from spark_merge.sinks.http.lines import Lines, lines, passed
from spark_merge.sinks.http.records import ending_of, schema_line
from spark_merge.sinks.http.state import BegunSegment, ReceiverState, StreamPlace, state_of
from tests.support.deliveries import ORDERS, SCHEMA, Row, Segments, change, chunk, write_chunk
from tests.support.services.http_receiver import SCRIPT

PAGE = SCRIPT.parents[1] / "HTTP-SINK.md"

HARD: dict[Kind, Sequence[str | None]] = {
    "int": ["-9223372036854775808", None],
    "uint": ["18446744073709551615"],
    "float": ["1e-45", "-0.0"],
    "double": ["1.7976931348623157e+308"],
    "decimal": ["12345678901234567890123456789012345." + "9" * 30, "-0.10"],
    "text": ["", 'a\nb\r\t\0\x1f\x7f\u2028"\\😀', "nul\0l"],
    "binary": ["", "00FF0A0D"],
    "enum": ["", "a,b"],
    "set": ["", "a,b"],
    "bit": ["0", "18446744073709551615"],
    "date": ["0000-00-00", "2020-02-30"],
    "time": ["-838:59:59.000000", "24:00:00"],
    "datetime": ["0000-00-00 00:00:00.000000", "2020-00-01 23:59:59"],
    "timestamp": ["0000-00-00 00:00:00", "2038-01-19 03:14:07.999999"],
    "year": ["0000", "2155"],
    "json": ['{"a": 1e400, "b": [null, "\\u0000"]}'],
    "vector": ["[1,-0.5]"],
}


def portions(rows: Sequence[Row], schemas: Sequence[TableSchema]) -> Iterator[Portion]:
    """Row by row, as where tables alternate."""
    by_name = {schema.name: schema for schema in schemas}
    for row in rows:
        yield Portion(
            Unit(Seq(1), live=True), by_name[TableName(row["schema"], row["table"])], iter([pa.Table.from_pylist([row], CHANGES)])
        )


def test_values_of_every_kind_are_letter_by_letter() -> None:
    assert HARD.keys() == set(get_args(Kind))
    columns = (Column("id", "int", nullable=False), *(Column(kind, kind) for kind in HARD))
    schema = TableSchema(ORDERS, columns, ("id",))
    images = [[str(at), *(values[at % len(values)] for values in HARD.values())] for at in range(6)]
    rows = [change(1, 10 + at, before=image if at % 2 else None, after=image) for at, image in enumerate(images)]
    (result,) = lines(Seq(1), portions(rows, [schema]), {})
    read = [json.loads(line) for line in result.data.decode().split("\n")[:-1]]
    assert [list(row["after"].values()) for row in read] == images
    assert [row["before"] and list(row["before"].values()) for row in read] == [
        image if at % 2 else None for at, image in enumerate(images)
    ]


def test_the_page_has_a_line_for_every_kind() -> None:
    rows = re.findall(r"^\| `([a-z`, ]+)` \|", PAGE.read_text(), re.MULTILINE)
    assert {kind for row in rows for kind in re.findall(r"[a-z]+", row)} >= set(get_args(Kind))


def test_rows_of_many_tables_keep_their_order_whatever_a_block_is(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = Random(4)
    schemas = [replace(SCHEMA, name=TableName("shop", f"t{number}")) for number in range(5)]
    rows = [
        change(1, 10 + at, after=[str(at), rng.choice(["x", None, "y\r\n"])], table=rng.choice(schemas).name, ordinal=at)
        for at in range(300)
    ]
    for block_rows in (1, 7, 4096):
        monkeypatch.setattr(blocks, "BLOCK_ROWS", block_rows)
        counts: Counts = {}
        results = list(lines(Seq(1), portions(rows, schemas), counts))
        read = [json.loads(line) for one in results for line in one.data.decode().split("\n")[:-1]]
        assert [(row["ordinal"], row["table"], row["after"]["name"]) for row in read] == [
            (row["ordinal"], row["table"], row["after"][1]) for row in rows
        ]
        again: Counts = {}
        passed(portions(rows, schemas), again)
        assert counts == again
        assert sum(one.log for one in counts.values()) == 300
        for one in results:
            firsts = [(schema.name.table, line) for schema, line in one.firsts()]
            names = [json.loads(line)["table"] for line in one.data.splitlines()]
            assert firsts == [(name, names.index(name)) for name in dict.fromkeys(names)]


def test_a_chunk_is_cut_into_blocks_and_its_dropped_rows_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 50)
    log = open_folder(str(tmp_path))
    write_chunk(log, "a.parquet", [(str(key), "x") for key in range(120)])
    segments = Segments([1], [chunk(1, 50, "a.parquet", touched=["7"]), change(1, 60, after=["1", "y"])])
    head = segments.heads({ORDERS: SCHEMA})[0]
    task = Task("1", (Unit(Seq(1), live=True, chunks=tuple(head.due_chunks())),), "segment")
    counts: Counts = {}
    results = list(lines(Seq(1), segments.portions(task, {ORDERS: SCHEMA}, log), counts))
    assert [one.rows for one in results][:2] == [50, 50]
    read = [json.loads(line) for one in results for line in one.data.splitlines()]
    assert [row["key"]["id"] for row in read] == [str(key) for key in range(120) if key != 7] + ["1"]
    assert counts == {(1, ORDERS): Rows(log=1, dump=119, dropped=1)}


def test_lines_are_split_and_fit_with_what_precedes_them() -> None:
    result = Lines.of([SCHEMA], b"aaaa\nbb\ncccc\n")
    assert [result.fitting(size, {}) for size in (0, 4, 5, 8, 12, 13, 99)] == [0, 0, 1, 2, 2, 3, 3]
    assert [result.fitting(size, {1: 10}) for size in (5, 8, 17, 18)] == [1, 1, 1, 2]
    first, rest = result.split(2)
    assert (first.data, rest.data, rest.ends.tolist()) == (b"aaaa\nbb\n", b"cccc\n", [5])
    assert result.split(0)[1] is result


# ---- what is no row --------------------------------------------------------------------------------------------------


def test_a_schema_has_names_types_and_key() -> None:
    column = Column("amount", "decimal", length=65, scale=30)
    definition = TableDefinition((ColumnDefinition("amount", "decimal(65,30)"), ColumnDefinition("virtual", "int(11)")))
    schema = TableSchema(
        ORDERS, (column, Column("kind", "enum", nullable=False, elements=("a", "b"))), ("amount",), 77, definition=definition
    )
    assert json.loads(schema_line(schema)) == {
        "kind": "schema", "schema": "shop", "table": "orders", "table_id": 77, "key": ["amount"],
        "columns": [
            {"name": "amount", "kind": "decimal", "type": "decimal(65,30)", "nullable": True, "length": 65, "scale": 30},
            {"name": "kind", "kind": "enum", "type": "", "nullable": False, "elements": ["a", "b"]},
        ],
    }  # fmt: skip


def test_what_ends_a_segment_is_windows_ddls_the_tables_after_them_and_the_mark() -> None:
    other, made = replace(SCHEMA, name=TableName("shop", "old")), replace(SCHEMA, name=TableName("shop", "new"))
    window = ClosedWindow("d1", CommitTs(5), CommitTs(7), Seq(3), (ChunkFile(ORDERS, "p", 9, 1, None, None),))
    ddl = DdlRecord(CommitTs(400), "shop", "new", "RENAME TABLE old TO new")
    manifest = Manifest(Seq(4), 1, CommitTs(300), CommitTs(400), None, 0, 0, {}, "s", "c", (ddl,), (window,), id="m4")
    marks = replace(SCHEMA, name=MARK_TABLE)
    dump = SegmentDump("d1", DumpState.RUNNING, (ORDERS,))
    head = Head(manifest, {ORDERS: SCHEMA, other.name: other, MARK_TABLE: marks}, {ORDERS: SCHEMA, made.name: made}, dump)
    ending = ending_of(head)
    assert ending.accepted == Accepted(Seq(4), CommitTs(400), "m4")
    results = [json.loads(line) for line in ending.data.splitlines()]
    assert [record["kind"] for record in results] == ["window", "ddl", "gone", "schema", "resolved"]
    assert (results[0]["high_ts"], results[0]["chunks"]) == ("7", [{"schema": "shop", "table": "orders", "rows_read": 9}])
    assert (results[1]["commit_ts"], results[1]["query"]) == ("400", "RENAME TABLE old TO new")
    assert (results[2]["table"], results[3]["table"]) == ("old", "new")
    dump_line = {"dump_id": "d1", "state": "running", "complete": [{"schema": "shop", "table": "orders"}]}
    assert results[4] == {"kind": "resolved", "seq": 4, "upto_ts": "400", "dump": dump_line}


def test_a_state_is_one_line_of_ascii_and_reads_back() -> None:
    state = ReceiverState("log-1", 5, 2, "by", Seq(7), str((1 << 64) - 1), "m7", BegunSegment(Seq(8), "m8", 3))
    assert state_of(state.text, where="x") == state
    assert state.text.isascii()
    assert "\n" not in state.text
    assert (state.place, ReceiverState("l", 0, 1, "").place) == (StreamPlace(8, 3), StreamPlace(-1, 0))
    assert state.ended(Accepted(Seq(8), CommitTs(9), "m8")).place == StreamPlace(9, 0)
    with pytest.raises(SinkError, match="version 2"):
        state_of(state.text.replace('"version":1', '"version":2'), where="x")
    with pytest.raises(SinkError, match="something else"):
        state_of("<html>", where="x")


def test_an_error_names_the_first_lines_key_and_not_all_of_a_long_one() -> None:
    rows = [change(1, 10, before=None, after=[key, '"key":1,"before":2'], table=SCHEMA.name) for key in ('a","before":', "b" * 1000)]
    results = [Lines.of((SCHEMA,), b"".join(part.data for part in lines(Seq(1), portions([row], [SCHEMA]), {}))) for row in rows]
    assert [one.first_key() for one in results] == ['{"id":"a\\",\\"before\\":"}', '{"id":"' + "b" * 193]
