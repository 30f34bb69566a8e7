"""Updates of unique values as TiCDC splits them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sidecar.shared.codecs.simple import encode_row
from sidecar.shared.model.nouns import (
    Column,
    ColumnDefinition,
    CommitTs,
    IndexDefinition,
    IndexPart,
    TableDefinition,
    TableName,
    TableSchema,
)
from spark_merge.codecs.encode.split import image_column, split
from spark_merge.codecs.protocols import encoder
from spark_merge.port.contract import CHANGES, RAW_CHANGES
from spark_merge.sinks.kafka.rows import encoded, of_log

MADE = (ColumnDefinition("id", "int(11)", nullable=False), ColumnDefinition("U", "text"), ColumnDefinition("v", "text"))
SCHEMA = TableSchema(
    TableName("shop", "t"),
    (Column("id", "int", nullable=False), Column("U", "text"), Column("v", "text")),
    ("id",),
    definition=TableDefinition(MADE, (IndexDefinition("u", (IndexPart("u"),), unique=True, id=2), IndexDefinition("v", (IndexPart("v"),)))),
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


CANAL = "canal-json"
ENCODER = encoder(CANAL, architecture="classic", options={"enable-tidb-extension": "true"})


@given(st.lists(st.tuples(st.booleans(), st.sampled_from(["insert", "delete", "update", "moved"])), min_size=1, max_size=6))
def test_a_row_that_was_read_is_encoded_amid_rows_that_are_as_they_were_sent(sent: list[tuple[bool, str]]) -> None:
    """moved: an update of the handle key, two rows of which the put has the message."""
    columns: dict[str, list[Any]] = {name: [] for name in RAW_CHANGES.names}
    for number, (is_read, op) in enumerate(sent):
        before, after = ["1", "a", "x"], ["2" if op == "moved" else "1", "a", "y"]
        value = encode_row(SCHEMA.name, CommitTs(number), before=None, after={}) if is_read else b"sent %d" % number
        rows = [("delete", before, None), ("insert", None, after)] if op == "moved" else [(op, before, after)]
        for place, (one, old, new) in enumerate(rows):
            old, new = (None if one == "insert" else old), (None if one == "delete" else new)
            row = (1, number, int(one != "delete"), number, "shop", "t", one, "[]", old, new, b"", value, "kafka/t/0", number)
            for name, cell in zip(RAW_CHANGES.names, row, strict=True):
                columns[name].append(None if name == "message_value" and place + 1 < len(rows) else cell)
    changes = pa.table(columns, schema=RAW_CHANGES)
    written = of_log(changes, SCHEMA, ENCODER, CANAL, codec=CANAL)
    places = [number for number, (_, op) in enumerate(sent) for _ in range(2 if op == "moved" else 1)]
    assert written.changes["ordinal"].to_pylist() == places
    whole = encoded(changes.select(CHANGES.names), SCHEMA, ENCODER, CANAL).messages
    for number, (is_read, _) in enumerate(sent):
        messages = [message for message, place in zip(written.messages, places, strict=True) if place == number and message is not None]
        assert messages == (
            [one for one, at in zip(whole, places, strict=True) if at == number] if is_read else [(b"", b"sent %d" % number)]
        )


def test_as_debezium_has_it_an_update_of_a_unique_value_is_one_and_a_split_one_is_one_again() -> None:
    own = encoder("debezium", architecture="new", options={})
    rows = changes(
        (7, "update", ["1", "a", "y"], ["1", "b", "y"]), (8, "delete", ["1", "b", "y"], None), (8, "insert", None, ["1", "c", "y"])
    )
    result = encoded(rows, SCHEMA, own, "debezium")
    assert facts(result.changes) == [
        (7, "update", ["1", "a", "y"], ["1", "b", "y"]),
        (8, "update", ["1", "b", "y"], ["1", "c", "y"]),
    ]
    assert len(result.messages) == 2
    logged = of_log(rows, SCHEMA, own, "debezium", codec="canal-json")
    assert list(logged.messages) == list(result.messages)
