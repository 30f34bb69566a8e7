"""The SQLite sink keeps the port's suite, and follows schema changes."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from sidecar.shared.errors import SinkError
from sidecar.shared.log.manifest import DdlRecord, Manifest
from sidecar.shared.model.nouns import Column, ColumnDefinition, CommitTs, Kind, Seq, TableDefinition, TableName, TableSchema
from spark_merge.port.contract import Accepted, Head
from spark_merge.port.readable import newest
from spark_merge.sinks.registry import misfits, open_sink
from spark_merge.sinks.sqlite.database import transaction
from spark_merge.sinks.sqlite.position import SqlitePositions
from spark_merge.sinks.sqlite.reading import reading
from spark_merge.sinks.sqlite.tables import made, make, statements
from spark_merge.testing.places import Here, Place, Shown
from spark_merge.testing.position_port import PositionOutput, PositionPort
from spark_merge.testing.sink_port import SinkPort
from spark_merge.testing.story import Story


def tables_of(path: Path) -> dict[TableName, list[Shown]]:
    """All rows; their key is what the tables of spark_merge/testing/histories.py have."""
    if not path.exists():
        return {}
    with closing(sqlite3.connect(path)) as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE '%.%'")]
        rows = {name: [tuple(map(_text, row)) for row in connection.execute(f'SELECT * FROM "{name}"')] for name in names}
    return {
        TableName(*name.split(".", 1)): [(0, 0, "insert", row[:2], row) for row in results] for name, results in rows.items() if results
    }


def _text(value: object) -> str | None:
    return None if value is None else str(value)


class TestSqlite(SinkPort):
    @pytest.fixture
    def place(self, tmp_path: Path) -> Place:
        path = tmp_path / "out.db"
        return Place(str(path), lambda log_id: open_sink(f"sqlite://{path}", log_id=log_id), lambda: tables_of(path), newest=True)


class TestPosition(PositionPort):
    @pytest.fixture
    def output(self, tmp_path: Path) -> PositionOutput:
        return PositionOutput(
            lambda: SqlitePositions(str(tmp_path / "out.db")), payload=lambda accepted: [f"CREATE TABLE t{accepted.seq} (id)"]
        )


def _schema(name: str, *columns: Column, key: str = "id") -> TableSchema:
    return TableSchema(TableName("s", name), columns, (key,))


ID, A, B, C = Column("id", "int", nullable=False), Column("a", "text"), Column("b", "text"), Column("c", "int")


def _changed(path: Path, query: str, before: Sequence[TableSchema], after: Sequence[TableSchema], *, done: Sequence[int] = ()) -> None:
    """What `query` makes of the file, as the sink does it."""
    ddl = DdlRecord(CommitTs(90), "s", before[0].name.table, query)
    manifest = Manifest(Seq(3), 1, CommitTs(0), CommitTs(90), None, 0, 0, {}, "s", "c", (ddl,), next_schemas="n")
    head = Head(manifest, {one.name: one for one in before}, {one.name: one for one in after})
    with transaction(str(path)) as connection:
        for statement in statements(head, frozenset(map(CommitTs, done))):
            connection.execute(statement)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "out.db"
    with transaction(str(path)) as connection:
        for name in ("t", "u"):
            connection.execute(made(_schema(name, ID, A, C)))
            connection.execute(f"INSERT INTO \"s.{name}\" VALUES (1, 'of {name}', 7)")
    return path


def _table(path: Path, name: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        columns = [column for _, column, *_ in connection.execute(f"PRAGMA table_info('s.{name}')")]
        return [tuple(columns), *connection.execute(f'SELECT * FROM "s.{name}"')]


@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        ("id INTEGER, a TEXT, c INTEGER, PRIMARY KEY (a)", ""),
        ("ID BIGINT, A VARCHAR(20), c INT, PRIMARY KEY (A)", ""),
        ("id REAL, a TEXT, c INTEGER, PRIMARY KEY (a)", "id REAL and not id INTEGER"),
        ("a TEXT, id INTEGER, c INTEGER, PRIMARY KEY (a)", "nothing more and not that order"),
        ("id INTEGER, a TEXT, c INTEGER UNIQUE, PRIMARY KEY (a)", "unique key .c BINARY. and not that order"),
        ("id INTEGER, a TEXT, c INTEGER, PRIMARY KEY (a COLLATE NOCASE)", "unique key .a NOCASE. and not unique key .a BINARY."),
        ("id INTEGER, a TEXT, c INTEGER", "nothing more and not unique key"),
    ],
)
def test_a_table_that_keeps_less_than_one_of_ours_is_reported_and_gets_no_row(tmp_path: Path, sql: str, problem: str) -> None:
    schema, path, with_rowid = _schema("t", ID, A, C, key="a"), tmp_path / "out.db", "PRIMARY" not in sql
    with transaction(str(path)) as connection:
        connection.execute(f'CREATE TABLE "s.t" ({sql}) {"" if with_rowid else "WITHOUT ROWID"}')
    reported = [text for text, _ in misfits(f"sqlite://{path}", [schema], log_id="log-1")]
    assert len(reported) == bool(problem)
    with transaction(str(path)) as connection:
        if problem:
            assert re.search(problem, reported[0]), reported
            with pytest.raises(SinkError, match="not as this sink makes it"):
                make(connection, schema)
        else:
            make(connection, schema)


T, U = _schema("t", ID, A, C), _schema("u", ID, A, C)


def test_columns_are_renamed_dropped_and_added(file: Path) -> None:
    after = _schema("t", ID, B)
    _changed(file, "ALTER TABLE t CHANGE a b TEXT, DROP COLUMN c", [T, U], [after, U])
    assert _table(file, "t") == [("id", "b"), (1, "of t")]
    defined = TableDefinition(
        (ColumnDefinition("id", "bigint"), ColumnDefinition("b", "text"), ColumnDefinition("c", "int", default="'5'"))
    )
    more = replace(_schema("t", ID, B, C), definition=defined)
    _changed(file, "ALTER TABLE t ADD COLUMN c INT DEFAULT 5", [after, U], [more, U])
    assert _table(file, "t") == [("id", "b", "c"), (1, "of t", 5)]


def test_tables_exchange_their_names(file: Path) -> None:
    _changed(file, "RENAME TABLE t TO x, u TO t, x TO u", [T, U], [U, T])
    assert (_table(file, "t")[1:], _table(file, "u")[1:]) == ([(1, "of u", 7)], [(1, "of t", 7)])


def test_a_table_that_is_truncated_or_dropped_has_no_rows(file: Path) -> None:
    _changed(file, "TRUNCATE TABLE t", [T, U], [T, U])
    _changed(file, "DROP TABLE u", [T, U], [T])
    assert tables_of(file) == {}


def test_what_no_statement_can_follow_is_refused_until_the_operator_has_done_it(file: Path) -> None:
    with pytest.raises(SinkError, match="rows leave with a partition") as raised:
        _changed(file, "ALTER TABLE t DROP PARTITION p0", [T, U], [T, U])
    assert "ddl-done=90" in raised.value.hint
    assert _table(file, "t")[1:] == [(1, "of t", 7)]
    _changed(file, "ALTER TABLE t DROP PARTITION p0", [T, U], [T, U], done=[90])


def test_a_type_that_makes_other_texts_is_refused(file: Path) -> None:
    before, after = (_schema("t", ID, Column("a", "decimal", length=5, scale=scale), C) for scale in (1, 2))
    with pytest.raises(SinkError, match="column a has values of a decimal, whose text may change"):
        _changed(file, "ALTER TABLE t MODIFY a DECIMAL(5,2)", [before, U], [after, U])
    _changed(file, "ALTER TABLE t MODIFY c TEXT", [T, U], [_schema("t", ID, A, Column("c", "text")), U])
    assert _table(file, "t")[1:] == [(1, "of t", "7")]


@pytest.mark.parametrize("kind", ["int", "uint"])
def test_a_year_that_becomes_an_integer_has_no_zeros_before_it(file: Path, kind: Kind) -> None:
    years, numbers = (_schema("y", ID, Column("a", one)) for one in ("year", kind))
    with transaction(str(file)) as connection:
        connection.execute(made(years))
        connection.execute("INSERT INTO \"s.y\" VALUES (1, '0000'), (2, '2024'), (3, NULL)")
    _changed(file, "ALTER TABLE y MODIFY a BIGINT", [years], [numbers])
    result = newest(reading(str(file), numbers, None, keys=None), numbers)
    assert result.column("a").to_pylist() == ["0", "2024", None]


def test_a_batch_whose_rows_are_there_is_begun(tmp_path: Path) -> None:
    """The next owner is to give the same segments, whatever its bounds are."""
    story = Story(tmp_path, Place("x", lambda log_id: open_sink(f"sqlite://{tmp_path}/out.db", log_id=log_id), dict, newest=True), seed=3)
    _, work = story.begin(story.place.sink())
    Here().run(work)
    assert story.place.sink().open(epoch=None).begun == Accepted(Seq(1), manifest=story.manifests[1].id)


@pytest.mark.parametrize("uri", ["sqlite://host/out.db", "sqlite:///", "sqlite:///out.db?ddl-done=soon", "sqlite:///out.db?x=1"])
def test_what_makes_no_sense_is_refused(uri: str) -> None:
    with pytest.raises(SinkError):
        open_sink(uri, log_id="log-1")


def test_a_file_that_is_no_database_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "out.db"
    path.write_text("something else, and long enough to be read as a header of a database")
    with pytest.raises(SinkError, match="cannot be read or written"):
        open_sink(f"sqlite://{path}", log_id="log-1").look()
