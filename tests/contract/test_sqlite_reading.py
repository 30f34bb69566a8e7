"""What the SQLite sink has, read back."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Column, Kind, TableName, TableSchema
from spark_merge.sinks.sqlite import reading
from tests.integration.test_opensearch_rows import KINDS
from tests.support.read_back import reading_of
from tests.support.reading_suite import LOG, ReadingOutput, ReadingSuite, bring, dumped


class TestReading(ReadingSuite):
    @pytest.fixture
    def output(self, tmp_path: Path) -> ReadingOutput:
        return ReadingOutput(f"sqlite://{tmp_path}/out.db", "s", {column: texts for column, texts in KINDS.items() if column.name != "id"})


@pytest.mark.parametrize(("bound", "sizes"), [("PAGE_ROWS_MAX", [3] * 6 + [2]), ("PAGE_BYTES", [1] * 20)])
def test_pages_follow_the_key(bound: str, sizes: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, bound, sizes[0])
    output = ReadingOutput(f"sqlite://{tmp_path}/out.db", "s", {})
    schema = output.table(Column("v", "text"), Column("a", "int", nullable=False), Column("b", "text", nullable=False), key=["a", "b"])
    rows = [(None, str(at % 4 - 2), f"b{at}") for at in range(20)]
    bring(output, tmp_path, schema, 1, [dumped(tmp_path, schema, 1, rows)])
    (part,) = reading_of(output.uri, schema, log_id=LOG, parts=4).parts
    assert [piece.rows.num_rows for piece in part()] == sizes
    assert output.read(schema) == sorted(rows, key=repr)


def test_a_column_that_is_not_there_is_an_error_and_no_text(tmp_path: Path) -> None:
    """For SQLite, a quoted name that no column has is a text."""
    output = ReadingOutput(f"sqlite://{tmp_path}/out.db", "s", {})
    schema = output.table(Column("id", "int", nullable=False), key=["id"])
    bring(output, tmp_path, schema, 1, [dumped(tmp_path, schema, 1, [("1",)])])
    more = TableSchema(TableName("s", "t"), (*schema.columns, Column("more", "text")), ("id",))
    with pytest.raises(SinkError, match=r"no such column: t\.more"):
        output.read(more)


def test_a_blob_of_somebody_else_is_no_text(tmp_path: Path) -> None:
    """Also where its bytes are those of the text."""
    output = ReadingOutput(f"sqlite://{tmp_path}/out.db", "s", {})
    schema = output.table(Column("id", "int", nullable=False), Column("b", "binary"), Column("v", "text"), key=["id"])
    bring(output, tmp_path, schema, 1, [dumped(tmp_path, schema, 1, [("1", "AA", "x"), ("2", "BB", "y")])])
    with closing(sqlite3.connect(tmp_path / "out.db")) as db, db:
        db.execute("UPDATE \"s.t\" SET b = X'FF', v = X'78' WHERE id = 1")
    assert output.read(schema) == [("1", "X'FF'", "X'78'"), ("2", "BB", "y")]
    with closing(sqlite3.connect(tmp_path / "out.db")) as db, db:
        db.execute('CREATE TABLE "s.u" (id, v)')
        db.execute("INSERT INTO \"s.u\" VALUES (X'78', 'z')")
    kinds: tuple[Kind, ...] = ("int", "text")
    for kind in kinds:
        other = TableSchema(TableName("s", "u"), (Column("id", kind, nullable=False), Column("v", "text")), ("id",))
        with pytest.raises(SinkError, match="have a BLOB as id"):
            output.read(other)
