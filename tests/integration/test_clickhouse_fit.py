"""What is asked of a ClickHouse before anything is delivered: misfits are told and nothing is written, and rows of others are found."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Column, TableName, TableSchema
from spark_merge.sinks.clickhouse.fit import _SERVERS_OWN
from spark_merge.sinks.registry import holds_rows, misfits, open_sink
from spark_merge.testing.story import TABLES, Story
from tests.support.clickhouse_place import history_place, uri_of
from tests.support.services.clickhouse import ClickHouse

pytestmark = pytest.mark.xdist_group("clickhouse")

numbers = itertools.count(5000)
COLUMNS = (Column("id", "int", nullable=False), Column("v", "text"), Column("d", "date"))


class Shop:
    """A table of the source, and where it would be."""

    def __init__(self, server: ClickHouse) -> None:
        self.server, self.name = server, f"fit{next(numbers)}"
        self.schema = TableSchema(TableName("shop", "orders"), COLUMNS, ("id",))

    def uri(self, **parameters: str) -> str:
        return uri_of(self.server, f"pos_{self.name}", **{"routes": f"shop.*=>{self.name}.*", **parameters})

    def misfits_of(self, *schemas: TableSchema, **parameters: str) -> list[str]:
        before = self.all()
        results = misfits(self.uri(**parameters), schemas or [self.schema], log_id="l")
        assert self.all() == before, "nothing is written"
        assert all(way_out for _, way_out in results)
        return [problem for problem, _ in results]

    def all(self) -> list[list[str]]:
        return self.server.rows(
            f"SELECT database, name, create_table_query FROM system.tables WHERE database NOT IN {_SERVERS_OWN} ORDER BY 1, 2"
        )

    def execute(self, *statements: str) -> None:
        self.server.execute(f"CREATE DATABASE IF NOT EXISTS {self.name}", *(text.format(self.name) for text in statements))

    def made(self, **parameters: str) -> None:
        """As the sink makes it, with nothing accepted."""
        sink = open_sink(self.uri(**parameters), log_id="l")
        sink.open(epoch=None)
        sink._tables.ready([self.schema], fresh=True)  # type: ignore[attr-defined]
        sink.close()


@pytest.fixture
def shop(clickhouse: ClickHouse) -> Shop:
    return Shop(clickhouse)


def test_a_target_that_is_empty_or_as_the_sink_makes_it_fits(shop: Shop) -> None:
    keyless = TableSchema(TableName("shop", "keyless"), COLUMNS, ())
    assert shop.misfits_of(shop.schema, keyless) == []
    shop.made()
    assert shop.misfits_of() == []
    assert shop.misfits_of(dates="text") == [], "its dates will become text, and are not yet"


def test_tables_and_views_of_others_are_reported(shop: Shop) -> None:
    shop.execute("CREATE TABLE {}.orders__rows (id Int64) ENGINE = Memory")
    assert ["no rows of this sink's" in problem for problem in shop.misfits_of()] == [True]
    assert shop.misfits_of(rows_table="{table}_versions") == []
    shop.execute("DROP TABLE {}.orders__rows", "CREATE TABLE {}.orders (id Int64) ENGINE = Memory")
    assert ["is none of ours" in problem for problem in shop.misfits_of()] == [True]
    assert shop.misfits_of(view="") == []


def test_what_a_table_of_ours_cannot_hold_is_reported_by_column(shop: Shop) -> None:
    shop.made()
    shop.execute("ALTER TABLE {}.orders__rows DROP COLUMN v SETTINGS mutations_sync = 2")
    wider = replace(shop.schema, columns=(COLUMNS[0], COLUMNS[1], replace(COLUMNS[2], kind="datetime")))
    (problem,) = shop.misfits_of(wider)
    assert "no column v; d Nullable(Date32) and not Nullable(DateTime64(0, 'UTC'))" in problem
    (problem,) = shop.misfits_of(replace(shop.schema, columns=(COLUMNS[0], COLUMNS[2]), key=("d",)))
    assert "ORDER BY (id) and not (d)" in problem


def test_an_order_by_an_expression_and_a_narrow_version_are_reported(shop: Shop) -> None:
    """Two keys, or the versions of a row, would be one there."""
    shop.made()
    ((sql,),) = shop.server.rows(f"SELECT create_table_query FROM system.tables WHERE database = '{shop.name}' AND name = 'orders__rows'")
    for old, new, problem in (
        ("ORDER BY (id)", "ORDER BY intDiv(id, 2)", "ORDER BY (intDiv(id, 2)) and not (id)"),
        ("UInt64", "UInt32", "UInt32 and not"),
    ):
        assert old in sql
        shop.server.execute(f"DROP TABLE {shop.name}.orders__rows", sql.replace(old, new, 1))
        assert [problem in one for one in shop.misfits_of()] == [True]


def test_two_tables_of_one_name_are_reported(shop: Shop) -> None:
    again = replace(shop.schema, name=TableName("shop", "orders__rows"))
    (problem,) = shop.misfits_of(shop.schema, again)
    assert problem == f"shop.orders and shop.orders__rows would both be {shop.name}.orders__rows"
    copied = replace(shop.schema, name=TableName("copy", "orders"))
    assert len(shop.misfits_of(shop.schema, copied, routes=f"shop.*=>{shop.name}.*,copy.*=>{shop.name}.*")) == 1


def test_a_table_that_had_rows_and_is_gone_is_reported_and_so_is_another_logs_output(clickhouse: ClickHouse, tmp_path: Path) -> None:
    number = next(numbers)
    place = history_place(clickhouse, number, tables=TABLES)
    story = Story(tmp_path, place, seed=3)
    story.delivery(segments_max=1).deliver()
    schemas = [TableSchema(name, COLUMNS, ("id",)) for name in sorted(story.tables)][:1]
    clickhouse.execute(f"DROP TABLE history{number}.{schemas[0].name.table}__rows")
    log_id = clickhouse.rows(f"SELECT log_id FROM pos{number}.ticdc_dump_position LIMIT 1")[0][0]
    ((problem, way_out),) = misfits(place.uri, schemas, log_id=log_id)
    assert "is not at the target" in problem
    assert "CREATE TABLE" in way_out
    with pytest.raises(SinkError, match="holds the output of log"):
        misfits(place.uri, schemas, log_id="another")


def test_a_server_that_is_away_is_reported(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_merge.sinks.clickhouse.server.RETRY_S", 0.2)
    for ask in (lambda uri: misfits(uri, [shop.schema], log_id="l"), lambda uri: holds_rows(uri, log_id="l")):
        with pytest.raises(SinkError, match="reading the position"):
            ask("clickhouse://u:p@127.0.0.1:1/")


def test_rows_that_others_brought_are_found(shop: Shop) -> None:
    assert not holds_rows(shop.uri(), log_id="l")
    shop.execute("CREATE TABLE {}.orders (id Int64) ENGINE = MergeTree ORDER BY id")
    assert not holds_rows(shop.uri(), log_id="l"), "it has no rows"
    shop.execute("INSERT INTO {}.orders VALUES (1)")
    assert holds_rows(shop.uri(), log_id="l")
    assert holds_rows(shop.uri(routes=f"shop.orders=>{shop.name}.orders"), log_id="l")
    assert not holds_rows(shop.uri(routes=f"shop.orders=>{shop.name}.others"), log_id="l")
    assert not holds_rows(shop.uri(routes="shop.*=>elsewhere.*"), log_id="l")
    assert holds_rows(shop.uri(routes=""), log_id="l"), "without routes: whatever the account may see"
    open_sink(shop.uri(view=""), log_id="l").open(epoch=None)
    assert not holds_rows(shop.uri(), log_id="l"), "a log of ours has opened it"


def test_rows_of_ours_are_not_others(shop: Shop) -> None:
    shop.made()
    shop.execute("INSERT INTO {}.orders__rows VALUES (1, 'a', NULL, 3, 0)", f"DROP TABLE pos_{shop.name}.ticdc_dump_position")
    assert not holds_rows(shop.uri(), log_id="l"), "its note says whose they are"
