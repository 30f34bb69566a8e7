"""JSON lines read back: which era each line is of, and what no line may be."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence

import polars as pl
import pyarrow as pa
import pytest

from sidecar.shared.errors import SinkError
from sidecar.shared.log.manifest import DdlRecord
from sidecar.shared.model.nouns import Column, CommitTs, TableName, TableSchema
from spark_merge.ddl.eras import eras
from spark_merge.port.contract import RANK_CHUNK, RANK_DELETE, RANK_PUT
from spark_merge.sinks.formats import json_lines as reading
from spark_merge.sinks.formats.json_lines import json_columns, json_rows, line_blocks, split_by_era

T = TableName("shop", "t")
SCHEMA = TableSchema(T, (Column("id", "int"), Column("name", "text")), ("id",))
ERAS = eras(SCHEMA, [DdlRecord(CommitTs(ts), *T, f"ALTER TABLE t ALTER {name} DROP DEFAULT") for ts, name in ((10, "id"), (20, "name"))])


def line(commit_ts: int, op: str, *, table: str = "t", origin: str = "log", **image: str | None) -> bytes:
    before, after = (image, None) if op == "delete" else (None, image)
    row = {"seq": 1, "commit_ts": str(commit_ts), "schema": "shop", "table": table, "op": op, "before": before, "after": after}
    return json.dumps(row | {"key": {}, "origin": origin, "dump_id": None}).encode() + b"\n"


@pytest.mark.parametrize("times", [[1], [10, 11], [1, 5, 9, 10, 15, 20, 21, 30], [*range(1, 40)], [25], [10, 30]])
def test_each_line_comes_with_its_era_in_order(times: Sequence[int]) -> None:
    pieces = list(split_by_era(b"".join(line(ts, "insert", id="1", name=None) for ts in times), ERAS))
    assert [int(json.loads(one)["commit_ts"]) for lines, _ in pieces for one in lines.splitlines()] == list(times)
    for lines, era in pieces:
        assert all(era.after_ts < int(json.loads(one)["commit_ts"]) <= era.upto_ts for one in lines.splitlines())


def test_lines_of_no_era_are_left_out() -> None:
    begun = eras(SCHEMA, [DdlRecord(CommitTs(10), *T, "TRUNCATE TABLE t")])
    results = list(split_by_era(b"".join(line(ts, "insert", id="1", name="x") for ts in (9, 10, 11)), begun))
    assert [era.after_ts for _, era in results] == [10]
    assert not list(split_by_era(line(11, "insert", table="u", id="1", name="x"), begun))
    assert not list(split_by_era(b"", begun))


def test_a_dumps_rows_have_their_own_rank() -> None:
    lines = [line(1, "insert", id="1", name=None), line(2, "delete", id="2", name="x"), line(3, "update", id="3", name='ä\0"\\')]
    lines += [line(4, op, origin="dump", id=str(at), name=None) for at, op in ((4, "insert"), (5, "delete"))]
    rows = json_rows(b"".join(lines), ERAS[-1])
    assert rows is not None
    assert rows.versions is not None
    assert rows.rows.to_pydict() == {"id": ["1", "2", "3", "4", "5"], "name": [None, "x", 'ä\0"\\', None, None]}
    assert rows.versions.rank.to_pylist() == [RANK_PUT, RANK_DELETE, RANK_PUT, RANK_CHUNK, RANK_CHUNK]
    assert rows.versions.deleted.to_pylist() == [False, True, False, False, True]


@pytest.mark.parametrize(
    ("lines", "match"),
    [
        (line(1, "insert", id="1"), "have no column name, and no DDL of the output added it"),
        (line(1, "insert", id=None, name="x"), "a row has no value of id, which is in its key"),
        (b"{\n", "are no rows"),
        (line(1, "insert", id="1", name="x")[:-9] + b"\n", "are no rows"),
    ],
)
def test_what_is_no_row_of_the_table_is_an_error(lines: bytes, match: str) -> None:
    with pytest.raises(SinkError, match=match):
        json_rows(lines, ERAS[-1])


def test_blocks_are_whole_lines_however_long_one_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "BLOCK_BYTES", 10)
    data = b"".join(b"x" * size + b"\r\n" for size in (1, 40, 3, 0, 9, 25))
    results = list(line_blocks(io.BytesIO(data), b"\r\n"))
    assert b"".join(results) == data
    assert all(block.endswith(b"\r\n") for block in results)
    assert len(results) > 3
    with pytest.raises(SinkError, match="has no end"):
        list(line_blocks(io.BytesIO(data + b"y"), b"\r\n"))


def passes(columns: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """How often polars goes through a whole image of a table with so many columns: for each call by which an image gives columns away."""
    names = [f"c{number}" for number in range(columns)]
    images = [json.dumps(dict.fromkeys(names, text)) for text in "ab"]
    line = '{{"commit_ts":"1","op":"{}","origin":"log","before":{},"after":{}}}'
    lines = "\n".join([line.format("insert", "null", images[0]), line.format("delete", images[1], "null")]).encode()
    counted: list[str] = []
    to_arrow, struct = pl.Series.to_arrow, pl.Series.__dict__["struct"]

    class Counting:
        def __get__(self, series: pl.Series | None, owner: type) -> object:
            counted.append("struct")
            return struct.__get__(series, owner)

    def whole(series: pl.Series, **options: object) -> pa.Array:
        counted.extend(["to_arrow"] * (series.dtype == pl.Struct))
        return to_arrow(series, **options)  # type: ignore[arg-type]  # as given

    with monkeypatch.context() as patched:
        patched.setattr(pl.Series, "struct", Counting())
        patched.setattr(pl.Series, "to_arrow", whole)
        result = json_columns(lines, names)
    assert {tuple(one.to_pylist()) for one in result.images.values()} == {("a", "b")}
    return len(counted)


def test_an_image_is_gone_through_once_whatever_its_columns_are(monkeypatch: pytest.MonkeyPatch) -> None:
    assert passes(2, monkeypatch) == passes(300, monkeypatch) <= 6
