"""Where a target's name is made of a schema and a table, two tables never have one name, or the sink stops and names both."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Column, TableName, TableSchema
from spark_merge.ddl.routes import check_disjoint, route, routes_of
from spark_merge.delivery.batches import Delivery, JobSettings
from spark_merge.port.contract import KeepsTables
from spark_merge.port.kinds import SinkUri
from spark_merge.sinks.delta.places import table_place
from spark_merge.sinks.folder.layout import table_folder
from spark_merge.sinks.iceberg.uri import settings_of
from spark_merge.sinks.opensearch.names import IndexNames
from spark_merge.sinks.registry import open_sink
from spark_merge.sinks.sqlite.tables import COLUMNS_MAX, made, misfits
from spark_merge.sinks.storage.layout import StoragePlace, data_folder
from spark_merge.testing.places import Here
from tests.support.renamed_tables import RenameStory, T

PAIRS = [
    (TableName("a.b", "c"), TableName("a", "b.c")),
    (TableName("a", "b_c"), TableName("a_b", "c")),
    (TableName("a-b", "c"), TableName("a", "b-c")),
    (TableName("a/b", "c"), TableName("a", "b/c")),
    (TableName("a.b", "c"), TableName("a%2Eb", "c")),
    (TableName("a.b", "c"), TableName("a~2Eb", "c")),
    (TableName("_a", "b"), TableName("%5Fa", "b")),
    (TableName("_a", "b"), TableName("~5Fa", "b")),
    (TableName("a", "b\0c"), TableName("a\0b", "c")),
    (TableName("x" * 64, "é" * 64), TableName("x" * 64, "é" * 63 + "è")),
]
ID = Column("id", "int", nullable=False)


def of(name: TableName, columns: int = 1) -> TableSchema:
    return TableSchema(name, (ID, *(Column(f"c{number}", "int") for number in range(columns - 1))), ("id",))


def apart(uri: str, names: Sequence[TableName], before: Sequence[TableName] = ()) -> None:
    """As the delivery asks each sink that keeps tables."""
    sink = open_sink(uri, log_id="cf")
    assert isinstance(sink, KeepsTables)
    sink.check_places(names, before)


def iceberg(tables: str) -> Callable[[Sequence[TableName]], list[Hashable]]:
    text = f"iceberg://lake/raw?uri=http://c&warehouse=file:///w&tables={tables}"
    given = {"uri": "http://c", "warehouse": "file:///w", "tables": tables}

    def places(names: Sequence[TableName]) -> list[Hashable]:
        settings = settings_of(SinkUri(text, urlsplit(text), given, "cf"))
        check_disjoint(names, settings.identifier, hint="")
        return [settings.identifier(name) for name in names]

    return places


def opensearch(names: Sequence[TableName]) -> list[Hashable]:
    apart("opensearch://h:9200/", names)
    return [IndexNames().alias(name) for name in names]


def sqlite(names: Sequence[TableName]) -> list[Hashable]:
    apart("sqlite:///out.db", names)
    return [made(of(name)).partition("(")[0].lower() for name in names]


PLACES: Mapping[str, Callable[[Sequence[TableName]], list[Hashable]]] = {
    "files": lambda names: list(map(table_folder, names)),
    "delta": lambda names: list(map(table_place, names)),
    "iceberg": iceberg("{schema}.{table}"),
    "iceberg, one name": iceberg("{schema}_{table}"),
    "opensearch": opensearch,
    "sqlite": sqlite,
    "storage": lambda names: [data_folder(StoragePlace(name), 1, "") for name in names],
}


def has_two_places(sink: str, names: Sequence[TableName]) -> bool | None:
    """None: they are refused."""
    try:
        one, other = PLACES[sink](names)
    except SinkError:
        return None
    return one != other


@pytest.mark.parametrize("sink", PLACES)
@pytest.mark.parametrize("pair", PAIRS)
def test_two_tables_have_two_places_or_are_refused(sink: str, pair: tuple[TableName, TableName]) -> None:
    assert has_two_places(sink, pair) in (True, None)


ODD = st.text("ab._~%-/\0", min_size=1, max_size=4)


@pytest.mark.parametrize("sink", PLACES)
@given(st.lists(st.builds(TableName, ODD, ODD), unique=True, min_size=2, max_size=2))
def test_no_two_names_make_one(sink: str, names: list[TableName]) -> None:
    assert has_two_places(sink, names) in (True, None)


@pytest.mark.parametrize("sink", ["sqlite", "opensearch", "iceberg, one name"])
def test_a_pair_that_a_name_cannot_distinguish_is_refused_with_both_named(sink: str) -> None:
    one, other = PAIRS[1] if sink.startswith("iceberg") else PAIRS[0]
    with pytest.raises(SinkError) as refused:
        PLACES[sink]([one, other])
    shown = ("a.b_c", "a_b.c") if sink.startswith("iceberg") else ("`a`.`b.c`", "`a.b`.`c`")
    assert all(name in refused.value.message for name in shown)


def test_a_target_that_keeps_schema_and_table_apart_takes_such_a_pair() -> None:
    """As SQL servers and Delta's folders do."""
    routes = routes_of("x.*=>y.*")
    check_disjoint(PAIRS[0], lambda name: routes.target(name).folded(), hint="")
    with pytest.raises(SinkError, match=r"x\.T and y\.t would both be y\.t"):
        check_disjoint([TableName("x", "T"), TableName("y", "t")], lambda name: routes.target(name).folded(), hint="")


# ---- when tables come -------------------------------------------------------------------------------------------------


LAKE = "uri=sqlite:///catalog.db&warehouse=file:///w"
KEEP_TABLES = {
    "delta": "delta:///lake?mode=merge",
    "delta append": "delta:///lake?mode=append",
    "iceberg": f"iceberg://lake/raw?{LAKE}&mode=merge",
    "iceberg append": f"iceberg://lake/raw?{LAKE}",
    "clickhouse": "clickhouse://u:p@h/db?",
    "opensearch": "opensearch://h:9200/?",
}
ONES = [TableName(schema, table) for schema in ("a", "b") for table in ("t", "T2", "a_t")]


@pytest.mark.parametrize("sink", KEEP_TABLES)
@given(
    st.lists(st.sampled_from(ONES), unique=True, max_size=4),
    st.lists(st.sampled_from(ONES), unique=True, max_size=4),
    st.sampled_from(["a.*=>b.*", "a.*=>c.*,b.*=>c.*", "a.t=>b.t2", "a.t=>b.T2,b.T2=>a.t", ""]),
)
def test_what_a_hint_leads_elsewhere_is_new_and_then_alone(sink: str, there: list[TableName], come: list[TableName], text: str) -> None:
    """Whatever a DDL brings to the tables that were there: the routes that the hints name, one after another, lead to no shared place, and
    no table that was there is led to another one."""
    routes = [one for one in text.split(",") if one]
    places = routes_of(text)
    if len({places.target(name).folded() for name in there}) < len(there):
        return
    for _ in range(len(come) + 1):
        uri = f"{KEEP_TABLES[sink]}&routes={quote(','.join(routes), safe='')}" if routes else KEEP_TABLES[sink]
        try:
            apart(uri, [*there, *(name for name in come if name not in there)], there)
            break
        except SinkError as error:
            led = error.hint.removeprefix("set the route ").partition(" in routes=")[0]
            assert there == [] or routes_of(led).tables.keys() <= {name.folded() for name in come if name not in there}
            routes = [led, *(one for one in routes if one.partition("=>")[0] != led.partition("=>")[0])]
    else:
        pytest.fail(f"no end: {routes}")


def test_such_a_pair_is_refused_when_it_is_there_and_when_a_table_comes() -> None:
    with pytest.raises(SinkError, match=re.escape("`a.b`.`c` and `a`.`b.c` would both be a.b.c")) as refused:
        apart("sqlite:///out.db", PAIRS[0], PAIRS[0][:1])
    assert "filter" in refused.value.hint


def test_delta_takes_such_a_pair_and_refuses_two_tables_of_one_place() -> None:
    apart("delta:///lake?mode=append&routes=x.t%3D%3Ea.t", PAIRS[0])
    with pytest.raises(SinkError, match=r"a\.t and x\.t would both be a\.t"):
        apart("delta:///lake?mode=append&routes=x.t%3D%3Ea.t", [TableName("a", "t"), TableName("x", "t")])


def test_a_route_that_is_written_is_read_as_the_same() -> None:
    for name, other in PAIRS:
        assert routes_of(route(name, other)).target(name) == other


# ---- when tables come -------------------------------------------------------------------------------------------------


class Seen:
    """A sink that notes which tables it had to compare."""

    def __init__(self, path: Path) -> None:
        self.sink, self.calls = open_sink(f"sqlite://{path}", log_id="log-1"), list[tuple[list[str], list[str]]]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.sink, name)

    def check_places(self, names: Collection[TableName], before: Collection[TableName]) -> None:
        self.calls.append((sorted(name.table for name in names), sorted(name.table for name in before)))


def test_the_places_are_looked_at_when_a_sink_is_opened_and_at_each_change_of_the_tables(tmp_path: Path) -> None:
    """Also of tables without a row, and before a batch writes anything."""
    story = RenameStory(tmp_path, f"sqlite://{tmp_path}/out.db")
    u = TableName("s", "u")
    story.create(T)
    story.put(T, 1)
    story.put(T, 2)
    story.create(u)
    story.rename((u, TableName("s", "w")))
    seen = Seen(tmp_path / "again.db")
    delivery = Delivery(seen, JobSettings(story.log), Here())
    while delivery.deliver():
        continue
    assert seen.calls == [([], []), (["t"], []), (["t", "u"], ["t"]), (["t", "w"], ["t", "u"])]
    seen = Seen(tmp_path / "again.db")
    story.put(T, 3)
    Delivery(seen, JobSettings(story.log), Here()).deliver()
    assert seen.calls == [(["t", "w"], [])]


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (of(TableName("sqlite_x", "t")), "names that begin with sqlite_"),
        (of(TableName("SQLite_x", "t")), "names that begin with sqlite_"),
        (of(TableName("s", "t"), COLUMNS_MAX + 1), "2001 columns"),
    ],
)
def test_what_sqlite_cannot_have_is_said_before_and_when_its_first_rows_come(schema: TableSchema, why: str) -> None:
    ((problem, _),) = misfits([schema])
    assert why in problem
    with pytest.raises(SinkError, match=why):
        made(schema)
