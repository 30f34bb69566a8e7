"""A table that is read by its key, and for how long what it has is believed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pytest

from sidecar.shared.model.nouns import Column, Seq, TableDefinition, TableName, TableSchema
from spark_merge.port.contract import Accepted
from spark_merge.port.readable import newest
from spark_merge.sinks.kit import keyed
from spark_merge.sinks.kit.keyed import KnownTables, keyed_reading, keys_of

SCHEMA = TableSchema(TableName("s", "t"), (Column("a", "int"), Column("v", "text"), Column("b", "text")), ("b", "a"))
OTHER = TableSchema(TableName("s", "u"), SCHEMA.columns, ("a",))


@dataclass(frozen=True, slots=True)
class Echo:
    """A target whose rows are the statements."""

    def rows(self, statements: Sequence[str]) -> Iterator[pa.Table]:
        for sql in statements:
            yield pa.table({name: pa.array([sql]) for name in SCHEMA.column_names()})


def test_each_part_reads_its_own_statements_in_their_order() -> None:
    reading = keyed_reading(Accepted(Seq(3)), Echo(), [["x", "y"], ["z"], []])
    assert (reading.accepted, reading.exact, len(reading.parts)) == (Accepted(Seq(3)), False, 3)
    assert newest(reading, SCHEMA)["v"].to_pylist() == ["x", "y", "z"]


def test_a_key_has_its_columns_in_the_keys_order() -> None:
    assert keys_of(SCHEMA, pa.table({"a": ["1", "2"], "b": ["x", "y"]})) == [("x", "1"), ("y", "2")]


def test_what_a_table_has_is_believed_for_a_while_or_until_it_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    known = KnownTables[str]()
    assert known.unknown([SCHEMA, OTHER]) == [SCHEMA, OTHER]
    known.learn({SCHEMA: "columns"})
    assert (known.unknown([SCHEMA, OTHER]), known.get(SCHEMA), known.get(OTHER)) == ([OTHER], "columns", None)
    with monkeypatch.context() as patch:
        patch.setattr(keyed, "TABLES_KNOWN_S", 0)
        assert known.unknown([SCHEMA]) == [SCHEMA]
    redefined = replace(SCHEMA, definition=TableDefinition(()))
    assert known.unknown([redefined]) == [redefined], "a DDL may have changed what it is compared with"
    known.forget()
    assert (known.unknown([SCHEMA]), known.get(SCHEMA)) == ([SCHEMA], None)
