"""Tables that come with rows of which the log has no change event, or that leave the log without a statement, in every sink that keeps
tables."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest

from sidecar.shared.errors import SinkError
from sidecar.shared.log.manifest import DdlRecord
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.nouns import CommitTs, TableName, TableSchema
from spark_merge.sinks.delta.columns import Mode
from spark_merge.sinks.registry import open_sink
from tests.support import clickhouse_place, delta_place, opensearch_place, sql_place
from tests.support.deliveries import SCHEMA, Row, Segments, change, opened, write
from tests.support.lake import uri_of as lake_uri
from tests.support.targets.iceberg import Reader

Texts = tuple[str | None, ...]

numbers = itertools.count()

T, V = (replace(SCHEMA, name=TableName("comego", name), table_id=at, physical_ids=(at,)) for at, name in enumerate("tv", 1))
RENAME = "RENAME TABLE hidden.v TO comego.v"
ARRIVALS = {"a rename": ([RENAME], repr(RENAME)), "a DDL that the changefeed hides": ([], "whose statement is not in the log")}


def _nothing(_: TableSchema) -> None: ...


@dataclass
class Output:
    """`rows` of a table; none where the target has no such table. `create`: what an operator does before `ddl-done`."""

    uri: str
    log: str
    rows: Callable[[TableSchema], Sequence[Texts]]
    create: Callable[[TableSchema], object] = _nothing

    def bring(self, seq: int, before: Sequence[TableSchema], after: Sequence[TableSchema], ddls: Sequence[str] = (), **rows: str) -> None:
        """A segment by a worker of its own: a row of each of these tables, then the DDLs."""
        made: list[Row] = [
            change(seq, 100 * seq - 50, after=("1", text), table=TableName("comego", table), ordinal=at)
            for at, (table, text) in enumerate(rows.items())
        ]
        now, later = ({schema.name: schema for schema in schemas} for schemas in (before, after))
        records = tuple(DdlRecord(CommitTs(100 * seq), "comego", "v", query) for query in ddls)
        with closing(opened(open_sink(self.uri, log_id="log"))) as sink:
            batch, outcomes = write(sink, Segments([seq], made), log=open_folder(self.log), schemas=now)
            (head,) = batch.heads
            changed = replace(head.manifest, ddls=records, next_schemas="next" if now != later else None)
            sink.accept(replace(batch, heads=(replace(head, manifest=changed, next_schemas=later if now != later else now),)), outcomes)


# ---- the outputs -------------------------------------------------------------------------------------------------------


def _sqlite(_: pytest.FixtureRequest, folder: Path) -> Iterator[Output]:
    def rows(schema: TableSchema) -> list[Texts]:
        with closing(sqlite3.connect(folder / "out.db")) as connection:
            fetchall = connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (str(schema.name),)).fetchall()
            rows = connection.execute(f'SELECT * FROM "{schema.name}"').fetchall() if fetchall else []
            return [tuple(map(str, row)) for row in rows]

    yield Output(f"sqlite://{folder}/out.db?", str(folder), rows)


def _delta(mode: Mode, _: pytest.FixtureRequest, folder: Path) -> Iterator[Output]:
    uri = f"delta://{folder}/out?mode={mode}"
    yield Output(uri, str(folder), partial(delta_place.rows_of, delta_place.folder_of(uri), mode))


def _iceberg(mode: Mode, _: pytest.FixtureRequest, folder: Path) -> Iterator[Output]:
    uri = lake_uri(folder / "lake", mode=mode)
    yield Output(uri, str(folder), lambda schema: Reader(uri, mode).rows(schema))


def _opensearch(request: pytest.FixtureRequest, folder: Path) -> Iterator[Output]:
    node, name = request.getfixturevalue("opensearch"), f"comego{next(numbers)}"
    yield Output(opensearch_place.uri_of(node, name), str(folder), partial(opensearch_place.rows_of, node, name))
    node.remove(f"{name}*,position-{name}*")


def _clickhouse(request: pytest.FixtureRequest, folder: Path) -> Iterator[Output]:
    server, database = request.getfixturevalue("clickhouse"), f"comego{next(numbers)}"

    def rows(schema: TableSchema) -> list[Texts]:
        there = server.rows(f"SELECT 1 FROM system.tables WHERE database = 'comego' AND name = '{schema.name.table}'")
        return clickhouse_place.rows_of(server, schema) if there else []

    yield Output(clickhouse_place.uri_of(server, database), str(folder), rows)
    server.execute(f"DROP DATABASE {database} SYNC", "DROP DATABASE comego SYNC")


def _sql(request: pytest.FixtureRequest, folder: Path) -> Iterator[Output]:
    db, position = request.getfixturevalue("mariadb"), f"comego{next(numbers)}"

    def create(schema: TableSchema) -> None:
        db.execute(f"CREATE TABLE {schema.name} (id INT PRIMARY KEY, name VARCHAR(20))")

    def rows(schema: TableSchema) -> list[Texts]:
        there = db.execute(f"SELECT 1 FROM information_schema.tables WHERE table_schema = 'comego' AND table_name = '{schema.name.table}'")
        return sql_place.rows_of(db, schema) if there else []

    db.execute("CREATE DATABASE comego", "CREATE DATABASE hidden", "CREATE TABLE hidden.v (id INT PRIMARY KEY, name VARCHAR(20))")
    create(T)
    yield Output(sql_place.uri_of(db, position), str(folder), rows, create)
    db.execute(*(f"DROP DATABASE IF EXISTS {database}" for database in ("comego", "hidden", position)))


OUTPUTS: Mapping[str, tuple[Callable[[pytest.FixtureRequest, Path], Iterator[Output]], str]] = {
    "sqlite": (_sqlite, ""),
    "delta-append": (partial(_delta, "append"), ""),
    "delta-merge": (partial(_delta, "merge"), ""),
    "iceberg-append": (partial(_iceberg, "append"), "iceberg"),
    "iceberg-merge": (partial(_iceberg, "merge"), "iceberg"),
    "opensearch": (_opensearch, "opensearch"),
    "clickhouse": (_clickhouse, "clickhouse"),
    "mysql": (_sql, "sql-target"),
}


def _params(*names: str) -> list[object]:
    result = ((name, OUTPUTS[name][1]) for name in names or OUTPUTS)
    return [pytest.param(name, id=name, marks=[pytest.mark.xdist_group(group)] if group else []) for name, group in result]


@pytest.fixture
def output(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Output]:
    yield from OUTPUTS[request.param][0](request, tmp_path)


# ---- what they do ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arrival", ARRIVALS)
@pytest.mark.parametrize("output", _params(), indirect=True)
def test_a_table_that_arrives_with_rows_stops_the_sink_until_the_operator_decides(output: Output, arrival: str) -> None:
    ddls, named = ARRIVALS[arrival]
    output.bring(1, [T], [T], t="of t")
    for _ in range(2):
        with pytest.raises(
            SinkError, match=rf"the DDL at commit_ts 200, {named}: rows of comego\.v arrive without a change event"
        ) as stopped:
            output.bring(2, [T], [T, V], ddls, t="later")
    assert "ddl-done=200" in stopped.value.hint
    assert "dump comego.v" in stopped.value.hint
    assert output.rows(V) == []
    output.create(V)
    output.uri += "&ddl-done=200"
    output.bring(2, [T], [T, V], ddls, t="later")
    output.bring(3, [T, V], [T, V], v="of v")
    assert (output.rows(T), output.rows(V)) == ([("1", "later")], [("1", "of v")])


@pytest.mark.parametrize("output", _params(), indirect=True)
def test_a_table_that_leaves_the_log_without_a_statement_keeps_its_rows(output: Output) -> None:
    output.create(V)
    output.bring(1, [T, V], [T, V], t="of t", v="of v")
    output.bring(2, [T, V], [T], t="later")
    output.bring(3, [T], [T], t="last")
    assert (output.rows(T), output.rows(V)) == ([("1", "last")], [("1", "of v")])


@pytest.mark.parametrize("output", _params("sqlite", "opensearch", "clickhouse"), indirect=True)
def test_a_table_that_is_created_has_no_row_of_one_that_left_the_log(output: Output) -> None:
    output.bring(1, [T, V], [T, V], v="of v")
    output.bring(2, [T, V], [T])
    again = replace(V, table_id=9, physical_ids=(9,))
    output.bring(3, [T], [T, again], ["CREATE TABLE v (id INT PRIMARY KEY, name TEXT)"])
    assert output.rows(again) == []
    output.bring(4, [T, again], [T, again], v="again")
    assert output.rows(again) == [("1", "again")]
