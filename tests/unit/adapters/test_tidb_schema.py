"""What orders reads and how a type's labels are read, by the schema alone (tests/integration/test_tidb_schema.py: by a server)."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from threading import Event, Timer
from typing import Any, cast

import pymysql
import pytest

from sidecar.adapters.tidb import schema
from sidecar.adapters.tidb.schema import TidbSchemas, _with_statistics
from sidecar.ports import Caller
from sidecar.shared.config import SourceSection
from sidecar.shared.errors import SourceError, SourceLost, parted
from sidecar.shared.model.nouns import Column, TableName, TableSchema
from sidecar.shared.mysql.flavour import Flavour
from sidecar.shared.mysql.session import MysqlSession
from sidecar.shared.reads.tables import TableFacts, has_columns_of, read_key
from tests.support.eventually import PATIENCE_S
from tests.support.services.fake_tidb import FakeTidb

TABLE = TableName("app", "t")
NOTHING: Mapping[str, int] = {}
ID, NAME, PRICE = Column("id", "int", nullable=False), Column("name", "text", nullable=False), Column("price", "double", nullable=False)


def facts(*, clustered: bool | None = True, partitioned: bool = False) -> TableFacts:
    return TableFacts(rows=1, bytes=1, clustered=clustered, partitioned=partitioned, charsets={"name": ("utf8mb4", "utf8mb4_bin")})


# ---- labels -----------------------------------------------------------------------------------------------------------


class WithLabels:
    """A TiDB with one table of one column, an enum that it shows as `column_type`."""

    flavour = Flavour.TIDB

    def __init__(self, column_type: str) -> None:
        self._column_type = column_type

    def rows(self, _: str, __: object = None) -> Sequence[tuple[object, ...]]:
        return (("app", "t", "e", "YES", "enum", self._column_type, "", None, "utf8mb4", "utf8mb4_bin", ""),)


@pytest.mark.parametrize(
    ("shown", "elements", "same"),
    [
        (r"enum('C:\dir','a\')", ("C:\\dir", "a\\"), True),
        (r"enum('C:\new')", ("C:\\new",), True),
        (r"enum('C:\new')", ("C:\new",), True),
        (r"enum('C:\dir')", ("C:dir",), False),
    ],
)
def test_a_table_of_key_values_is_the_one_that_sql_shows_whatever_its_labels_hold(
    shown: str, elements: tuple[str, ...], same: bool
) -> None:
    table = TableSchema(TABLE, (Column("e", "enum", elements=elements),), ())
    assert has_columns_of(cast(MysqlSession, WithLabels(shown)), table) is same


class WithColumns:
    """A TiDB with one table of these columns, integers."""

    flavour = Flavour.TIDB

    def __init__(self, *names: str) -> None:
        self._names = names

    def rows(self, _: str, __: object = None) -> Sequence[tuple[object, ...]]:
        return tuple(("app", "t", name, "YES", "int", "int(11)", "", None, None, None, "") for name in self._names)


@pytest.mark.parametrize(
    ("shown", "same"),
    [
        (("id", "note", "paid"), True),
        (("note", "id", "paid"), True),
        (("id", "paid"), False),
        (("id", "note", "paid", "more"), False),
        (("id", "note", "more"), False),
        (("paid", "note", "id"), False),
    ],
)
def test_sql_shows_also_what_the_feed_does_not_carry_and_nothing_else(shown: tuple[str, ...], same: bool) -> None:
    """A DDL of such a column comes by the feed like any other, and chunks wait for it."""
    table = TableSchema(TABLE, (Column("id", "int"), Column("paid", "int")), (), omitted=(Column("note", "json"),))
    assert has_columns_of(cast(MysqlSession, WithColumns(*shown)), table) is same


# ---- statistics -----------------------------------------------------------------------------------------------------


class Statistics:
    """A TiDB that has analyzed no table: `filled` have rows, `refused` answer with an error's code."""

    def __init__(self, *, filled: Collection[str] = (), refused: Mapping[str, int] = NOTHING) -> None:
        self.filled, self.refused = filled, refused
        self.asked: list[str] = []

    def rows(self, sql: str) -> Sequence[tuple[object, ...]]:
        (name,) = re.findall(r"^SELECT 1 FROM `app`\.`(\w+)` LIMIT 1$", sql)
        self.asked.append(name)
        if name in self.refused:
            raise pymysql.err.OperationalError(self.refused[name], "the text says nothing")
        return ((1,),) if name in self.filled else ()


def known(server: Statistics, **rows: int | None) -> dict[str, tuple[int | None, int | None]]:
    tables = {
        TableName("app", name): TableFacts(count, count, clustered=True, partitioned=False, charsets={}) for name, count in rows.items()
    }
    statistics = _with_statistics(cast(MysqlSession, server), tables, [*tables, TableName("app", "dropped")])
    return {table.table: (about.rows, about.bytes) for table, about in statistics.items()}


def test_no_rows_by_the_statistics_of_a_table_that_has_one_is_not_known() -> None:
    server = Statistics(filled={"loaded", "analyzed"})
    assert known(server, loaded=0, empty=0, analyzed=7, silent=None) == {
        "loaded": (None, None), "empty": (0, 0), "analyzed": (7, 7), "silent": (None, None),
    }  # fmt: skip
    assert server.asked == ["loaded", "empty"], "the others say it themselves"


def test_no_more_tables_are_queried_than_an_operator_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "EMPTY_REQUESTED_MAX", 2)
    server = Statistics(filled={"a", "c"})
    assert known(server, a=0, b=0, c=0) == {"a": (None, None), "b": (0, 0), "c": (0, 0)}
    assert server.asked == ["a", "b"]


def test_a_table_that_may_not_be_read_or_is_gone_is_not_known_and_any_other_error_is_raised() -> None:
    assert known(Statistics(refused={"t": 1142}), t=0) == {"t": (None, None)}
    assert known(Statistics(refused={"t": 1146}), t=0) == {"t": (None, None)}
    with pytest.raises(pymysql.err.OperationalError):
        known(Statistics(refused={"t": 2013}), t=0)


# ---- what orders the SELECTs ----------------------------------------------------------------------------------------


def test_a_clustered_primary_key_orders_the_reads() -> None:
    key = read_key(TableSchema(TABLE, (ID, NAME), ("name", "id")), facts(), Flavour.TIDB)
    assert [(part.column.name, part.charset, part.collation) for part in key.columns] == [
        ("name", "utf8mb4", "utf8mb4_bin"),
        ("id", "", ""),
    ]


def test_tidb_reads_a_table_without_a_clustered_key_by_rowid_whatever_its_key_is() -> None:
    assert read_key(TableSchema(TABLE, (ID, PRICE), ("price",)), facts(clustered=False), Flavour.TIDB).by_rowid


def test_a_partitioned_table_is_never_read_by_rowid() -> None:
    """EXCHANGE PARTITION can leave two rows of it with one _tidb_rowid."""
    unclustered = facts(clustered=False, partitioned=True)
    assert not read_key(TableSchema(TABLE, (ID, PRICE), ("id",)), unclustered, Flavour.TIDB).by_rowid
    with pytest.raises(SourceError, match="price is a double"):
        read_key(TableSchema(TABLE, (ID, PRICE), ("price",)), unclustered, Flavour.TIDB)


def test_other_servers_have_no_rowid() -> None:
    assert not read_key(TableSchema(TABLE, (ID,), ("id",)), facts(clustered=None), Flavour.MARIADB).by_rowid


def test_a_table_without_a_key_is_refused_also_where_a_rowid_would_help() -> None:
    with pytest.raises(SourceError, match="does not replicate"):
        read_key(TableSchema(TABLE, (ID,), ()), facts(clustered=False), Flavour.TIDB)


# ---- a source that stands ---------------------------------------------------------------------------------------------


OWN_S = 2 * PATIENCE_S
"""The source's own patience, far longer than that of the callers here."""


def caller(left_s: float, *, gone: bool = False) -> Caller:
    return Caller(lambda: left_s, lambda: gone, lambda _: not gone)


def test_a_source_that_says_nothing_is_queried_for_as_long_as_the_caller_waits() -> None:
    """It takes the connection and does not greet, as a frozen server does."""
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        settings = SourceSection(host="127.0.0.1", port=silent.getsockname()[1], user="u", retry_s=OWN_S)
        began_s = time.monotonic()
        with pytest.raises(SourceLost, match="reading the tables' schemas failed"):
            TidbSchemas(settings).asked_by(caller(0.3)).tables()
        assert time.monotonic() - began_s < OWN_S


def test_a_statement_under_way_ends_when_its_caller_goes(tmp_path: Path) -> None:
    requested, gone = Event(), Event()

    def stuck(sql: str) -> None:
        if "information_schema" in sql:
            requested.set()
            gone.wait(PATIENCE_S)

    with FakeTidb(tmp_path) as tidb:
        tidb.before = stuck
        went: list[object] = []

        def when_gone(_: object) -> bool:
            went.append(_)
            return True

        waits = Caller(lambda: OWN_S, gone.is_set, when_gone)

        def goes() -> None:
            assert requested.wait(PATIENCE_S)
            gone.set()
            for reported in went:
                assert callable(reported)
                reported()

        Timer(0.0, goes).start()
        began_s = time.monotonic()
        with pytest.raises(SourceLost):
            TidbSchemas(tidb.settings(retry_s=OWN_S)).asked_by(waits).tables()
        assert time.monotonic() - began_s < OWN_S


def test_for_a_caller_who_has_gone_already_nothing_is_requested(tmp_path: Path) -> None:
    with FakeTidb(tmp_path) as tidb, pytest.raises(SourceLost):
        TidbSchemas(tidb.settings(retry_s=60.0)).asked_by(caller(60.0, gone=True)).tables()
    assert not tidb.statements


def test_who_stays_is_answered_and_others_are_not_bound_by_it(tmp_path: Path) -> None:
    with FakeTidb(tmp_path) as tidb:
        schemas = TidbSchemas(tidb.settings())
        assert schemas.asked_by(caller(30.0)).tables() == schemas.tables() == {}


# ---- brackets ---------------------------------------------------------------------------------------------------------


class Answering:
    """A server that answers a statement by its first word with rows or with an error's code."""

    def __init__(self, flavour: Flavour = Flavour.TIDB, **answers: Any) -> None:
        self.flavour, self._answers = flavour, answers

    def rows(self, sql: str, __: object = None) -> Any:
        answer = self._answers.get(sql.split()[0].lower(), ())
        if isinstance(answer, int):
            raise pymysql.err.OperationalError(answer, f"error {answer}")
        return answer

    change = rows


NO_RIGHTS = [1044, 1142, 1143, 8121, 1146, 1049, 1054, 1290, 1836, 1175]


@pytest.mark.parametrize("code", NO_RIGHTS)
@pytest.mark.parametrize("statement", ["update", "insert"])
def test_who_may_not_write_a_mark_has_none_with_the_grant(statement: str, code: int) -> None:
    session = cast("MysqlSession", Answering(Flavour.TIDB, **{statement: code}))
    what, hint = parted(schema.unwritable(session, "reader"))
    assert f"cannot be written: error {code}" in what
    assert "GRANT SELECT, INSERT, UPDATE ON changefeed_dump.* TO 'reader'@'%'" in hint
    assert not schema.unwritable(cast("MysqlSession", Answering()), "reader")


@pytest.mark.parametrize("code", [2013, 1205, 9005])
def test_an_error_that_passes_says_nothing_of_marks(code: int) -> None:
    with pytest.raises(pymysql.err.OperationalError):
        schema.unwritable(cast("MysqlSession", Answering(update=code)), "reader")


@pytest.mark.parametrize(
    ("flavour", "stored", "upstream", "why"),
    [
        (Flavour.TIDB, (("7",),), 7, ""),
        (Flavour.TIDB, (("7",),), 8, "cluster 7, and the changefeed reads cluster 8"),
        (Flavour.TIDB, (("7",),), 0, ""),
        (Flavour.TIDB, (), 8, ""),
        (Flavour.TIDB, 1142, 8, ""),
        (Flavour.TIDB, (("x",),), 8, ""),
        (Flavour.MARIADB, (("7",),), 8, ""),
    ],
)
def test_a_source_of_another_cluster_than_the_changefeed_reads_is_known(flavour: Flavour, stored: object, upstream: int, why: str) -> None:
    reason = schema._elsewhere(cast("MysqlSession", Answering(flavour, select=stored)), upstream)
    assert (why in reason) if why else not reason
