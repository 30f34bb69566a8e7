"""Updates of unique values as TiCDC splits them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from sidecar.shared.model.nouns import Column, IndexDefinition, IndexPart, TableDefinition, TableName, TableSchema
from spark_merge.codecs.encode.split import image_column, split
from spark_merge.port.contract import CHANGES

SCHEMA = TableSchema(
    TableName("shop", "t"),
    (Column("id", "int", nullable=False), Column("U", "text"), Column("v", "text")),
    ("id",),
    definition=TableDefinition((), (IndexDefinition("u", (IndexPart("u"),), unique=True, id=2), IndexDefinition("v", (IndexPart("v"),)))),
)


def changes(*rows: tuple[int, str, Sequence[str | None] | None, Sequence[str | None] | None]) -> pa.Table:
    results: list[dict[str, Any]] = [
        {
            "seq": 1, "commit_ts": ts, "rank": 0 if op == "delete" else 1, "ordinal": number, "schema": "shop", "table": "t", "op": op,
            "key": "[]", "before": before, "after": after,
        }
        for number, (ts, op, before, after) in enumerate(rows)
    ]  # fmt: skip
    return pa.Table.from_pylist(results, CHANGES)


def facts(rows: pa.Table) -> list[tuple[int, str, Any, Any]]:
    return [(row["commit_ts"], row["op"], row["before"], row["after"]) for row in rows.to_pylist()]


def test_an_update_of_a_unique_value_is_a_delete_and_an_insert_and_sorts_its_transaction() -> None:
    rows = changes(
        (5, "update", ["1", "a", "x"], ["1", "a", "y"]),
        (7, "insert", None, ["9", "i", "x"]),
        (7, "update", ["1", "a", "y"], ["1", "b", "y"]),
        (7, "update", ["2", "c", "x"], ["2", "c", "z"]),
        (8, "insert", None, ["3", None, "x"]),
        (8, "update", ["4", None, "x"], ["4", None, "z"]),
    )
    assert facts(split(rows, SCHEMA)) == [
        (5, "update", ["1", "a", "x"], ["1", "a", "y"]),
        (7, "delete", ["1", "a", "y"], None),
        (7, "update", ["2", "c", "x"], ["2", "c", "z"]),
        (7, "insert", None, ["9", "i", "x"]),
        (7, "insert", None, ["1", "b", "y"]),
        (8, "insert", None, ["3", None, "x"]),
        (8, "update", ["4", None, "x"], ["4", None, "z"]),
    ]


def test_null_to_a_value_is_a_change_of_a_unique_value() -> None:
    rows = split(changes((5, "update", ["1", None, "x"], ["1", "a", "x"]), (6, "update", ["1", "a", "x"], ["1", None, "x"])), SCHEMA)
    assert [row["op"] for row in rows.to_pylist()] == ["delete", "insert", "delete", "insert"]
    assert [row["rank"] for row in rows.to_pylist()] == [0, 1, 0, 1]


def test_without_unique_values_that_change_it_is_the_same_table() -> None:
    rows = changes((5, "update", ["1", "a", "x"], ["1", "a", "y"]), (6, "delete", ["1", "a", "y"], None))
    assert split(rows, SCHEMA) is rows
    assert image_column(rows, 2).to_pylist() == ["y", "y"]
