"""The Iceberg sink's URI, types and what becomes of columns, without a catalog."""

from __future__ import annotations

import pickle
from dataclasses import replace
from urllib.parse import parse_qsl, quote, urlsplit

import pytest
from pyiceberg.schema import Schema

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Column, TableName, TableSchema
from spark_merge.ddl import columns
from spark_merge.ddl.columns import column_effects
from spark_merge.ddl.parser import parsed
from spark_merge.port.contract import Gathers, Owner
from spark_merge.port.kinds import SinkUri
from spark_merge.sinks.iceberg.evolution import evolved, renamed
from spark_merge.sinks.iceberg.types import iceberg_schema, iceberg_type
from spark_merge.sinks.iceberg.uri import IcebergSettings, settings_of
from spark_merge.sinks.iceberg.writer import IcebergWriter, LakeTarget
from spark_merge.sinks.registry import misfits, name_of, open_sink

ORDERS = TableName("shop", "orders")
PLACE = "iceberg://prod/lake?uri=sqlite:////var/c.db&warehouse=s3://bucket/wh"


def settings(uri: str) -> IcebergSettings:
    parts = urlsplit(uri)
    return settings_of(SinkUri(uri, parts, dict(parse_qsl(parts.query)), "log-1"))


# ---- the URI -------------------------------------------------------------------------------------------------------------


def test_a_table_is_where_its_name_and_the_routes_say() -> None:
    assert settings(PLACE).identifier(ORDERS) == ("lake", "shop", "orders")
    flat = settings("iceberg://prod/lake/raw?uri=http://x&tables={schema}_{table}")
    assert flat.identifier(ORDERS) == ("lake", "raw", "shop_orders")
    routed = settings(PLACE + "&routes=" + quote("shop.orders=>`copy`.`o2`"))
    assert routed.identifier(ORDERS) == ("lake", "copy", "o2")


@pytest.mark.parametrize("name", ["a.b", "a/b", ""])
def test_a_name_that_a_catalog_cannot_distinguish_from_anothers_is_refused_with_the_way_out(name: str) -> None:
    with pytest.raises(SinkError, match="no usable name") as refused:
        settings(PLACE).identifier(TableName(name, "t"))
    assert "routes=" in refused.value.hint
    reported = misfits(PLACE, [TableSchema(TableName(name, "t"), (), ()), TableSchema(ORDERS, (), ())], log_id="log-1")
    assert len(reported) == 1


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("iceberg://prod", "a catalog and a namespace"),
        ("iceberg:///lake", "a catalog and a namespace"),
        (PLACE + "&mode=merge&changed-types=anew", "changed-types= is nothing to mode=merge"),
        (PLACE + "&mode=merge&ddl-done=soon", "no list of commit_ts"),
        (PLACE + "&mode=upsert", "is none of append, merge"),
        (PLACE + "&type=hadoop", "hadoop catalog"),
        (PLACE + "&tables={schema}", "is no table's name"),
        (PLACE + "&tables={table}{x}", "is no table's name"),
        (PLACE + "&changed-types=guess", "is none of refuse, anew"),
        (PLACE + "&routes=x", "routes"),
        (PLACE + "&commit-interval=soon", "commit-interval"),
        (PLACE + "&commit-interval=61m", "commit-interval"),
        (PLACE + "&depth=3", "has no parameter depth"),
    ],
)
def test_what_makes_no_sense_is_refused(uri: str, message: str) -> None:
    with pytest.raises(SinkError, match=message):
        open_sink(uri, log_id="log-1")


def test_no_secret_is_shown_or_goes_to_tasks() -> None:
    uri = "iceberg://prod/lake?uri=postgresql://u:pa55%40word@h/c&token=t0ken&access-key=AK&secret-access-key=s3cret&warehouse=s3://b/w"
    result = settings(uri)
    writer = IcebergWriter({ORDERS: LakeTarget("v", "s3://b/w", result.folder("s3://b/w/data"), "{}")}, Owner(1, 1))
    assert set(result.secrets()) >= {"t0ken", "s3cret", "pa55@word"}
    for text in (repr(result), name_of(uri), repr(pickle.dumps(writer))):
        assert not [secret for secret in result.secrets() if secret in text]


@pytest.mark.parametrize(("text", "seconds"), [("", 10.0), ("&commit-interval=0s", 0.0), ("&commit-interval=2m", 120.0)])
def test_batches_are_collected_for_a_while(text: str, seconds: float) -> None:
    sink = open_sink(PLACE + text, log_id="log-1")
    assert isinstance(sink, Gathers)
    assert sink.gather_s == seconds


def test_a_warehouse_where_no_files_are_written_is_refused() -> None:
    with pytest.raises(SinkError, match="writes no files"):
        settings(PLACE).folder("hdfs://name/wh")


# ---- types and what becomes of them ----------------------------------------------------------------------------------------


def table(*columns: Column, table_id: int = 1) -> TableSchema:
    return TableSchema(ORDERS, columns, (columns[0].name,), table_id)


ID = Column("id", "int", nullable=False)
BEFORE = table(ID, Column("price", "decimal", length=10, scale=2), Column("Note", "text"), Column("ratio", "float"))


def kinds(schema: Schema | None) -> list[tuple[int, str, str]]:
    assert schema is not None
    return [(field.field_id, field.name, str(field.field_type)) for field in schema.fields[7:]]


def test_what_iceberg_lacks_has_an_exact_type() -> None:
    results = [
        Column("u", "uint"), Column("b", "bit", length=64), Column("d", "decimal", length=38, scale=30),
        Column("w", "decimal", length=39, scale=30), Column("x", "decimal"), Column("t", "time"), Column("y", "year"),
    ]  # fmt: skip
    expected = ["decimal(20, 0)", "decimal(20, 0)", "decimal(38, 30)", "string", "string", "string", "int"]
    assert [str(iceberg_type(column)) for column in results] == expected


def test_columns_come_go_and_widen_and_those_that_stay_keep_their_ids() -> None:
    there = iceberg_schema(BEFORE)
    after = table(ID, Column("price", "decimal", length=12, scale=2), Column("added", "date"), Column("ratio", "double"))
    result = evolved(there, 11, after, {}, again=False)
    assert kinds(result) == [(8, "id", "long"), (9, "price", "decimal(12, 2)"), (11, "ratio", "double"), (12, "added", "date")]
    assert evolved(there, 11, BEFORE, {}, again=False) is None


def test_a_narrower_type_is_not_adopted() -> None:
    after = table(ID, Column("price", "decimal", length=5, scale=2), *BEFORE.columns[2:])
    assert evolved(iceberg_schema(BEFORE), 11, after, {}, again=False) is None


def test_a_type_that_iceberg_does_not_widen_to_is_refused_or_a_column_of_its_own() -> None:
    after = table(ID, Column("price", "int"), *BEFORE.columns[2:])
    with pytest.raises(SinkError, match=r"shop.orders.price is decimal\(10, 2\) in Iceberg and long") as refused:
        evolved(iceberg_schema(BEFORE), 11, after, {}, again=False)
    assert "changed-types=anew" in refused.value.hint
    assert (12, "price", "long") in kinds(evolved(iceberg_schema(BEFORE), 11, after, {}, again=True))


def test_a_column_that_is_named_like_the_envelope_moves_the_envelope() -> None:
    result = evolved(iceberg_schema(BEFORE), 11, table(*BEFORE.columns, Column("_op", "text")), {}, again=False)
    assert result is not None
    assert [(field.field_id, field.name) for field in result.fields[:4]] == [
        (1, "__seq"),
        (2, "__ordinal"),
        (3, "__commit_ts"),
        (4, "__op"),
    ]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("ALTER TABLE orders RENAME COLUMN `note` TO remark", {"remark": "note"}),
        ("ALTER TABLE orders CHANGE COLUMN Note Remark TEXT", {"remark": "note"}),
        ("alter table orders change if exists note remark text, add column x int", {"remark": "note"}),
        ("ALTER TABLE orders DROP COLUMN note, ADD COLUMN remark TEXT", {}),
        ("ALTER TABLE orders CHANGE price price INT", {}),
        ("ALTER TABLE orders RENAME COLUMN gone TO remark", {}),
    ],
)
def test_a_renamed_column_is_reported_by_the_ddl(query: str, expected: dict[str, str]) -> None:
    after = table(ID, BEFORE.columns[1], Column("Remark", "text"), BEFORE.columns[3])
    result = renamed(column_effects(BEFORE, after, [parsed(query, "shop")]))
    assert result == expected
    field = next(field for field in kinds(evolved(iceberg_schema(BEFORE), 11, after, result, again=False)) if field[1] == "Remark")
    assert field[0] == (10 if expected else 12)


def test_a_change_that_gives_the_column_another_id_is_reported_by_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """As TiDB does where rows are rewritten; ids tell of the others."""
    monkeypatch.setattr(columns, "_by_id", lambda before, after: {"quota": "ratio"})
    before = replace(BEFORE, layout="before")
    after = replace(table(ID, Column("cost", "decimal", length=12, scale=4), BEFORE.columns[2], Column("quota", "float")), layout="after")
    query = "ALTER TABLE orders CHANGE price cost DECIMAL(12, 4), RENAME COLUMN ratio TO quota"
    result = renamed(column_effects(before, after, [parsed(query, "shop")]))
    assert result == {"cost": "price", "quota": "ratio"}
    with pytest.raises(SinkError, match=r"shop\.orders\.cost is decimal\(10, 2\) in Iceberg"):
        evolved(iceberg_schema(before), 11, after, result, again=False)


def test_two_columns_that_swap_their_names_keep_their_values() -> None:
    query = "ALTER TABLE orders RENAME COLUMN a TO b, RENAME COLUMN b TO a"
    before = table(ID, Column("a", "text"), Column("b", "text"))
    after = table(ID, Column("b", "text"), Column("a", "text"))
    result = renamed(column_effects(before, after, [parsed(query, "shop")]))
    assert kinds(evolved(iceberg_schema(before), 10, after, result, again=False))[1:] == [(9, "b", "string"), (10, "a", "string")]
