"""JSON lines against Python's own JSON, value by value."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.shared.model.nouns import Column, TableName, TableSchema
from spark_merge.codecs.encode.block import Block, of_changes, of_chunk
from spark_merge.port.contract import ChunkPiece, Survivors
from spark_merge.sinks.formats.json_lines import few_json_lines, json_columns, json_lines, many_json_lines
from tests.support.deliveries import DUE, ORDERS, SCHEMA, Row, batches, change

TEXT = st.text(st.characters(exclude_categories=["Cs"]))


def encoded(block: Block) -> bytes:
    """Row by row; column by column it is the same, where a name can be a column's."""
    data = few_json_lines(block)
    assert json_lines(block) == data
    if not any("\0" in name for name in block.schema.column_names()):
        assert many_json_lines(block) == data
    return data


def lines(rows: Sequence[Row], schema: TableSchema = SCHEMA) -> list[dict[str, Any]]:
    [batch] = batches(rows, rows_max=1000)
    data = encoded(of_changes(schema, 7, batch))
    assert data.endswith(b"\n")
    return [json.loads(line) for line in data[:-1].split(b"\n")]


def test_a_line_has_every_field_in_order() -> None:
    [line] = lines([change(7, (1 << 60) + 1, before=["1", "a"], after=["1", "b"], ordinal=5)])
    assert line == {
        "seq": 7,
        "ordinal": 5,
        "commit_ts": str((1 << 60) + 1),
        "schema": "shop",
        "table": "orders",
        "op": "update",
        "key": {"id": "1"},
        "before": {"id": "1", "name": "a"},
        "after": {"id": "1", "name": "b"},
        "origin": "log",
        "dump_id": None,
    }
    assert list(line) == ["seq", "ordinal", "commit_ts", "schema", "table", "op", "key", "before", "after", "origin", "dump_id"]


def test_a_null_image_is_null_and_a_null_value_is_null_in_its_image() -> None:
    rows = [change(7, 1, after=["1", None]), change(7, 2, before=["2", None]), change(7, 3, before=["3", "x"], after=["3", None])]
    assert [(line["before"], line["after"]) for line in lines(rows)] == [
        (None, {"id": "1", "name": None}),
        ({"id": "2", "name": None}, None),
        ({"id": "3", "name": "x"}, {"id": "3", "name": None}),
    ]


def test_an_image_of_nothing_but_nulls_is_not_a_null_image() -> None:
    [line] = lines([change(7, 1, after=[None, None])])
    assert line["after"] == {"id": None, "name": None}


def test_a_table_without_a_key_has_a_null_key() -> None:
    [line] = lines([change(7, 1, after=["1", "x"])], TableSchema(ORDERS, SCHEMA.columns, ()))
    assert line["key"] is None


def test_the_key_is_of_the_new_image_and_of_a_deleted_row_the_old_one() -> None:
    results = lines([change(7, 1, before=["1", "x"]), change(7, 2, after=["2", "x"]), change(7, 3, before=["3", "x"], after=["3", "y"])])
    assert [line["key"]["id"] for line in results] == ["1", "2", "3"]


def test_a_key_of_many_columns_is_in_key_order() -> None:
    schema = TableSchema(ORDERS, SCHEMA.columns, ("name", "id"))
    [line] = lines([change(7, 1, after=["1", "x"])], schema)
    assert list(line["key"].items()) == [("name", "x"), ("id", "1")]


def test_chunk_rows_are_inserts_of_the_dump() -> None:
    survivors = Survivors(pa.table({"id": ["1", "4"], "name": ["a", None]}), pa.array([0, 3]), 2)
    data = encoded(of_chunk(SCHEMA, 7, ChunkPiece(DUE, survivors)))
    results = [json.loads(line) for line in data.splitlines()]
    assert [(r["ordinal"], r["commit_ts"], r["op"], r["origin"], r["dump_id"], r["before"], r["after"]) for r in results] == [
        (0, "90", "insert", "dump", "d1", None, {"id": "1", "name": "a"}),
        (3, "90", "insert", "dump", "d1", None, {"id": "4", "name": None}),
    ]


def test_keys_that_the_source_does_not_have_are_deletes_of_the_dump() -> None:
    survivors = Survivors(pa.table({"id": ["1"], "name": pa.array([None], pa.string())}), pa.array([0]), 0)
    [row] = map(json.loads, encoded(of_chunk(SCHEMA, 7, ChunkPiece(DUE, survivors, deletes=True))).splitlines())
    assert (row["op"], row["key"], row["before"], row["after"]) == ("delete", {"id": "1"}, {"id": "1", "name": None}, None)
    assert (row["commit_ts"], row["origin"], row["dump_id"]) == ("90", "dump", "d1")


def test_no_rows_are_no_bytes() -> None:
    survivors = Survivors(pa.table({"id": pa.array([], pa.string()), "name": pa.array([], pa.string())}), pa.array([], pa.int64()), 0)
    assert encoded(of_chunk(SCHEMA, 7, ChunkPiece(DUE, survivors))) == b""


@pytest.mark.parametrize("text", ["\x00\x01\x1f\x7f", '"\\/', "\n\r\t\b\f", "\u2028\u2029\ufeff\uffff", "😀é漢", "null", "{}", ""])
def test_every_text_comes_back(text: str) -> None:
    without_nul = text.replace("\x00", "")  # MySQL permits it in no identifier
    names = (f"a{without_nul}", f"b{without_nul}")
    schema = TableSchema(TableName(f"s{text}", f"t{text}"), tuple(Column(name, "text") for name in names), names)
    [line] = lines([change(7, 1, after=[text, f"{text}{text}"], table=schema.name)], schema)
    assert line["after"] == line["key"] == dict(zip(names, (text, f"{text}{text}"), strict=True))
    assert (line["schema"], line["table"]) == schema.name


@given(st.lists(st.tuples(st.none() | TEXT, st.none() | TEXT, st.booleans()), min_size=1))
def test_any_images_come_back(images: list[tuple[str | None, str | None, bool]]) -> None:
    rows = [
        change(7, number, before=[a, b] if deleted else None, after=None if deleted else [a, b])
        for number, (a, b, deleted) in enumerate(images)
    ]
    assert [(line["before"], line["after"]) for line in lines(rows)] == [
        ({"id": a, "name": b}, None) if deleted else (None, {"id": a, "name": b}) for a, b, deleted in images
    ]


@given(st.lists(st.text(st.sampled_from("\"\\'`\0\n\x7f.{}: é😀"), min_size=1, max_size=5), min_size=2, max_size=3, unique=True))
def test_columns_of_any_name_are_read_back_from_their_lines(names: list[str]) -> None:
    schema = TableSchema(TableName("s", "t"), tuple(Column(name, "text") for name in names), (names[0],))
    texts = [f"value {place}" for place in range(len(names))]
    [batch] = batches([change(7, 1, after=texts, table=schema.name)], rows_max=10)
    read = json_columns(encoded(of_changes(schema, 7, batch)), names)
    assert {name: column.to_pylist() for name, column in read.images.items()} == {
        name: [text] for name, text in zip(names, texts, strict=True)
    }
