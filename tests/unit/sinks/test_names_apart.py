"""Where a target's name is made of a schema and a table, two tables never have one name, or the sink stops and names both."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.core.model import Column, CommitTs, Seq, TableName, TableSchema
from sidecar.errors import SinkError
from sidecar.log.manifest import DdlRecord, Manifest
from spark_merge.ddl.routes import check_disjoint, routes_of
from spark_merge.port.contract import Head
from spark_merge.port.kinds import SinkUri
from spark_merge.sinks.delta.places import table_place
from spark_merge.sinks.folder.layout import table_folder
from spark_merge.sinks.iceberg.uri import settings_of
from spark_merge.sinks.opensearch.names import IndexNames
from spark_merge.sinks.registry import open_sink
from spark_merge.sinks.sqlite.tables import COLUMNS_MAX, check_names, made, misfits
from spark_merge.sinks.storage.layout import StoragePlace, data_folder

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


def iceberg(tables: str) -> Callable[[Sequence[TableName]], list[Hashable]]:
    text = f"iceberg://lake/raw?uri=http://c&warehouse=file:///w&tables={tables}"
    given = {"uri": "http://c", "warehouse": "file:///w", "tables": tables}

    def places(names: Sequence[TableName]) -> list[Hashable]:
        settings = settings_of(SinkUri(text, urlsplit(text), given, "cf"))
        check_disjoint(names, settings.identifier, hint="")
        return [settings.identifier(name) for name in names]

    return places


def opensearch(names: Sequence[TableName]) -> list[Hashable]:
    IndexNames().check(names)
    return [IndexNames().alias(name) for name in names]


def sqlite(names: Sequence[TableName]) -> list[Hashable]:
    check_names(map(of, names))
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
def test_a_pair_that_a_name_cannot_notify_separate_is_refused_with_both_named(sink: str) -> None:
    one, other = PAIRS[1] if sink.startswith("iceberg") else PAIRS[0]
    with pytest.raises(SinkError) as refused:
        PLACES[sink]([one, other])
    shown = ("a.b_c", "a_b.c") if sink.startswith("iceberg") else ("`a`.`b.c`", "`a.b`.`c`")
    assert all(name in refused.value.message for name in shown)


def test_a_target_that_keeps_schema_and_table_separate_takes_such_a_pair() -> None:
    """As SQL servers and Delta's folders do."""
    routes = routes_of("x.*=>y.*")
    check_disjoint(PAIRS[0], lambda name: routes.target(name).folded(), hint="")
    with pytest.raises(SinkError, match=r"x\.T and y\.t would both be y\.t"):
        check_disjoint([TableName("x", "T"), TableName("y", "t")], lambda name: routes.target(name).folded(), hint="")


# ---- when tables come -------------------------------------------------------------------------------------------------


def head(before: Sequence[TableSchema], after: Sequence[TableSchema], query: str = "") -> Head:
    ddls = (DdlRecord(CommitTs(90), after[-1].name.schema, after[-1].name.table, query),) if query else ()
    manifest = Manifest(Seq(0), 1, CommitTs(0), CommitTs(90), None, 0, 0, {}, "s", "c", ddls, next_schemas="n")
    return Head(manifest, {one.name: one for one in before}, {one.name: one for one in after})


@pytest.mark.parametrize("scheme", ["sqlite"])
def test_such_a_pair_is_refused_when_it_is_there_and_when_a_table_comes(scheme: str, tmp_path: Path) -> None:
    first, second = map(of, PAIRS[0])
    sink = open_sink(f"{scheme}://{tmp_path}/out.db", log_id="cf")
    sink.open(epoch=None)
    with pytest.raises(SinkError, match=re.escape("`a.b`.`c` and `a`.`b.c` would both be a.b.c")):
        sink.plan([head([first, second], [first, second])], cores=1)
    batch = sink.plan([head([first], [first, second], "CREATE TABLE `a`.`b.c` (`id` INT PRIMARY KEY)")], cores=1)
    with pytest.raises(SinkError, match=re.escape("`a.b`.`c` and `a`.`b.c` would both be a.b.c")):
        sink.accept(batch, [])


def test_delta_takes_such_a_pair_and_refuses_two_tables_of_one_place(tmp_path: Path) -> None:
    sink = open_sink(f"delta://{tmp_path}/lake?mode=append&routes=x.t%3D%3Ea.t", log_id="cf")
    sink.open(epoch=None)
    places = sink._places  # type: ignore[attr-defined]
    assert places([head_with_rows(list(map(of, PAIRS[0])))]).keys() == {PAIRS[0][1]}
    with pytest.raises(SinkError, match=r"a\.t and x\.t would both be a\.t"):
        places([head_with_rows([of(TableName("a", "t")), of(TableName("x", "t"))])])


def head_with_rows(schemas: Sequence[TableSchema]) -> Head:
    """With rows of the last table alone: the other one had some before, or will have."""
    rows = {schemas[-1].name: 1}
    manifest = Manifest(Seq(0), 1, CommitTs(0), CommitTs(90), "data", 1, 0, {}, "s", "c", (), table_rows=rows)
    known = {one.name: one for one in schemas}
    return Head(manifest, known, known)


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
