"""Under which names files appear, and which schema files with them: versions, numbers and dates over batches and schema changes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from sidecar.shared.errors import SinkError
from sidecar.shared.log.manifest import DdlRecord, Manifest
from sidecar.shared.model.nouns import (
    MARK_TABLE,
    Column,
    ColumnDefinition,
    CommitTs,
    IndexDefinition,
    IndexPart,
    Seq,
    TableDefinition,
    TableName,
    TableSchema,
)
from spark_merge.codecs.encode.defaults import default_text
from spark_merge.port.contract import Head
from spark_merge.sinks.storage.layout import StoragePlace
from spark_merge.sinks.storage.names import Last, Named, Staged, StorageNames, StoredVersion, named
from spark_merge.sinks.storage.options import options_of
from spark_merge.sinks.storage.schema_file import table_columns

OPTIONS = options_of({"protocol": "csv", "file-index-digit": "6"})
A, B = TableName("s", "a"), TableName("s", "b")
BEGIN = 100


def table(name: TableName, *columns: str, table_id: int = 1, physical_ids: tuple[int, ...] = ()) -> TableSchema:
    definitions = tuple(ColumnDefinition(column, "int(11)", nullable=False) for column in columns)
    index = IndexDefinition("PRIMARY", (IndexPart(columns[0]),), unique=True, primary=True)
    results = tuple(Column(column, "int", nullable=False) for column in columns)
    return TableSchema(name, results, columns[:1], table_id, physical_ids, definition=TableDefinition(definitions, (index,)))


def head(
    before: Sequence[TableSchema],
    after: Sequence[TableSchema] | None = None,
    *,
    ts: int = BEGIN,
    ddls: Sequence[tuple[TableName, str]] = (),
) -> Head:
    """A segment after `ts` and up to ts + 10, where its DDLs are."""
    records = tuple(DdlRecord(CommitTs(ts + 10), *name, query) for name, query in ddls)
    manifest = Manifest(
        Seq(1), 1, CommitTs(ts), CommitTs(ts + 10), None, 0, 0, {}, "s", "canal-json", records, next_schemas=None if after is None else "n"
    )
    return Head(manifest, {one.name: one for one in before}, {one.name: one for one in (before if after is None else after)})


def files(*places: StoragePlace) -> list[Staged]:
    return [Staged(place, f"staged-{number}") for number, place in enumerate(places)]


def finals(value: Named) -> list[str]:
    return [path for _, path in value.files]


def schema_files(texts: dict[str, str] | object) -> list[tuple[str, int, str, int]]:
    assert isinstance(texts, dict)
    result = map(json.loads, texts.values())
    return [(one["Table"], one["TableVersion"], one["Query"], one["Type"]) for one in result]


def versions(names: StorageNames) -> dict[TableName, int]:
    return {name: version.version for name, version in names.versions.items()}


def test_numbers_go_on_in_a_folder_and_begin_again_with_a_date() -> None:
    first = named(
        StorageNames(), [head([table(A, "id")])], files(StoragePlace(A), StoragePlace(A, 7), StoragePlace(A)), OPTIONS, date="2026-01-01"
    )
    assert finals(first) == ["s/a/100/2026-01-01/CDC000001.csv", "s/a/100/7/2026-01-01/CDC000001.csv", "s/a/100/2026-01-01/CDC000002.csv"]
    assert schema_files(first.before) == [("a", 100, "", 0)]
    names = StorageNames().after(first.change)
    again = named(names, [head([table(A, "id")], ts=300)], files(StoragePlace(A)), OPTIONS, date="2025-12-31")
    assert (finals(again), again.before) == (["s/a/100/2026-01-01/CDC000003.csv"], {})
    later = named(names.after(again.change), [head([table(A, "id")], ts=400)], files(StoragePlace(A)), OPTIONS, date="2026-01-02")
    assert finals(later) == ["s/a/100/2026-01-02/CDC000001.csv"]


def test_the_same_is_named_the_same_whoever_asks_again() -> None:
    given = ([head([table(A, "id"), table(B, "id")])], files(StoragePlace(B), StoragePlace(A)), OPTIONS)
    assert named(StorageNames(), *given, date="") == named(StorageNames(), *given, date="")


def test_a_ddl_makes_a_version_whose_file_reports_it() -> None:
    names, before, after = StorageNames(begin_ts=BEGIN), table(A, "id"), table(A, "id", "more")
    query = "ALTER TABLE `a` ADD COLUMN `more` INT NOT NULL"
    result = named(names, [head([before], [after], ts=200, ddls=[(A, query)])], files(StoragePlace(A)), OPTIONS, date="")
    assert finals(result) == ["s/a/100/CDC000001.csv"]
    assert (schema_files(result.before), schema_files(result.after)) == ([("a", 100, "", 0)], [("a", 210, query, 5)])
    names = names.after(result.change)
    result = named(names, [head([after], ts=210)], files(StoragePlace(A)), OPTIONS, date="")
    assert (finals(result), result.before, result.after) == (["s/a/210/CDC000001.csv"], {}, {})


def test_an_index_makes_one_too_and_what_only_partitions_do_does_not() -> None:
    before = table(A, "id", physical_ids=(5, 6))
    result = named(
        StorageNames(begin_ts=BEGIN), [head([before], ts=200, ddls=[(A, "ALTER TABLE a ADD INDEX k(id)")])], [], OPTIONS, date=""
    )
    assert schema_files(result.after) == [("a", 210, "ALTER TABLE a ADD INDEX k(id)", 7)]
    result = named(StorageNames(begin_ts=BEGIN), [head([before], [replace(before, physical_ids=(5, 6, 7))], ts=200)], [], OPTIONS, date="")
    assert (result.after, result.change.versions) == ({}, {})


def test_a_renamed_table_is_reported_under_its_new_name() -> None:
    names = StorageNames(begin_ts=BEGIN, versions={A: StoredVersion(100, 1)}, lasts={StoragePlace(A): Last(100, "", 4)})
    for name in (A, B, TableName("S", "B")):
        result = named(
            names,
            [head([table(A, "id")], [table(B, "id")], ts=200, ddls=[(name, "RENAME TABLE s.a TO s.b")])],
            [],
            OPTIONS,
            date="",
        )
        assert schema_files(result.after) == [("b", 210, "RENAME TABLE s.a TO s.b", 14)]
        after = names.after(result.change)
        assert (versions(after), dict(after.lasts)) == ({B: 210}, {})


def test_a_dropped_table_is_reported_as_it_was_and_one_made_again_begins_again() -> None:
    names = StorageNames(begin_ts=BEGIN, versions={A: StoredVersion(100, 1)}, lasts={StoragePlace(A): Last(100, "", 4)})
    result = named(names, [head([table(A, "id")], [], ts=200, ddls=[(A, "DROP TABLE s.a")])], [], OPTIONS, date="")
    assert schema_files(result.after) == [("a", 210, "DROP TABLE s.a", 4)]
    assert json.loads(next(iter(result.after.values())))["TableColumnsTotal"] == 1
    names = names.after(result.change)
    assert (dict(names.versions), dict(names.lasts)) == ({}, {})
    made = [table(A, "id", "v", table_id=2)]
    result = named(names, [head([], made, ts=300, ddls=[(A, "CREATE TABLE a (id INT PRIMARY KEY, v INT)")])], [], OPTIONS, date="")
    names = names.after(result.change)
    assert versions(names) == {A: 310}
    assert finals(named(names, [head(made, ts=310)], files(StoragePlace(A)), OPTIONS, date="")) == ["s/a/310/CDC000001.csv"]


def test_the_other_table_of_an_exchange_has_a_version_without_a_statement() -> None:
    before = [table(A, "id", table_id=1, physical_ids=(7, 8)), table(B, "id", table_id=2)]
    after = [table(A, "id", table_id=1, physical_ids=(7, 2)), table(B, "id", table_id=8)]
    query = "ALTER TABLE a EXCHANGE PARTITION p WITH TABLE b"
    result = named(StorageNames(begin_ts=BEGIN), [head(before, after, ts=200, ddls=[(A, query)])], [], OPTIONS, date="")
    assert sorted(schema_files(result.after)) == [("a", 210, query, 42), ("b", 210, "", 0)]


def test_ddls_of_schemas_are_reported_beside_their_tables_and_the_marks_nowhere() -> None:
    ddls = [
        (TableName("s", ""), "CREATE DATABASE s"),
        (MARK_TABLE, "CREATE TABLE x"),
        (TableName(MARK_TABLE.schema, ""), "CREATE DATABASE y"),
    ]
    result = named(StorageNames(), [head([], ddls=ddls)], [], OPTIONS, date="")
    (path,) = result.after
    assert path.startswith("s/meta/schema_110_")
    assert json.loads(result.after[path]) == {
        "Table": "", "Schema": "s", "Version": 1, "TableVersion": 110, "Query": "CREATE DATABASE s", "Type": 1, "TableColumns": None,
        "TableColumnsTotal": 0,
    }  # fmt: skip


def test_columns_that_are_others_without_a_ddl_have_a_version_of_their_own() -> None:
    first = named(StorageNames(), [head([table(A, "id")])], files(StoragePlace(A)), OPTIONS, date="")
    result = named(StorageNames().after(first.change), [head([table(A, "id", "x")], ts=300)], files(StoragePlace(A)), OPTIONS, date="")
    assert (finals(result), schema_files(result.before)) == (["s/a/300/CDC000001.csv"], [("a", 300, "", 0)])


@pytest.mark.parametrize("name", [TableName("s", "a/b"), TableName("..", "a"), TableName("_ticdc_dump", "a"), TableName("s", "x" * 256)])
def test_a_name_that_leads_elsewhere_is_refused(name: TableName) -> None:
    with pytest.raises(SinkError, match="cannot be a folder"):
        named(StorageNames(), [head([table(name, "id")])], files(StoragePlace(name)), OPTIONS, date="")


@pytest.mark.parametrize(
    ("type_text", "default", "made"),
    [
        ("int(11) unsigned zerofill", None, {"ColumnType": "INT UNSIGNED", "ColumnPrecision": "11"}),
        ("decimal(65,30)", "'0'", {"ColumnType": "DECIMAL", "ColumnDefault": "0", "ColumnPrecision": "65", "ColumnScale": "30"}),
        ("double(7,3)", None, {"ColumnType": "DOUBLE", "ColumnPrecision": "7", "ColumnScale": "3"}),
        ("float", None, {"ColumnType": "FLOAT", "ColumnPrecision": "12"}),
        ("datetime(3)", "CURRENT_TIMESTAMP(3)", {"ColumnType": "DATETIME", "ColumnDefault": "CURRENT_TIMESTAMP", "ColumnScale": "3"}),
        ("time", None, {"ColumnType": "TIME"}),
        ("bit(8)", "b'101'", {"ColumnType": "BIT UNSIGNED", "ColumnDefault": "\x05", "ColumnPrecision": "8"}),
        ("year(4)", None, {"ColumnType": "YEAR UNSIGNED", "ColumnPrecision": "4"}),
        ("varchar(5)", r"'it''s \\ \0'", {"ColumnType": "VARCHAR", "ColumnDefault": "it's \\ \0", "ColumnPrecision": "5"}),
        ("longblob", None, {"ColumnType": "LONGBLOB", "ColumnPrecision": "4294967295"}),
        ("vector(3)", None, {"ColumnType": "VECTOR"}),
        ("json", "(json_array())", {"ColumnType": "JSON", "ColumnDefault": "json_array()"}),
        ("enum('a','b(1)')", "'a'", {"ColumnType": "ENUM", "ColumnDefault": "a"}),
    ],
)
def test_a_column_as_ticdc_reports_it(type_text: str, default: str | None, made: dict[str, str]) -> None:
    column = ColumnDefinition("c", type_text, default=default)
    schema = TableSchema(A, (Column("c", "text", elements=("a", "b(1)")),), (), definition=TableDefinition((column,)))
    assert table_columns(schema, "classic") == ({"ColumnName": "c", **made},)
    labels = {"ColumnElems": ["a", "b(1)"]} if type_text.startswith("enum") else {}
    assert table_columns(schema, "new") == ({"ColumnName": "c", **made, **labels},)
    assert default_text(column) == made.get("ColumnDefault")


def test_virtual_columns_are_left_out_as_of_rows_and_what_is_unknown_is_refused() -> None:
    columns = (ColumnDefinition("v", "int(11)", generated="1"), ColumnDefinition("w", "int(11)", generated="1", stored=True))
    schema = TableSchema(A, (Column("w", "int"),), ("w",), definition=TableDefinition(columns))
    assert [column["ColumnName"] for column in table_columns(schema, "classic")] == ["w"]
    with pytest.raises(SinkError, match=r"s\.a, column g: its type point\?"):
        table_columns(replace(schema, definition=TableDefinition((ColumnDefinition("g", "point?"),))), "classic")
    with pytest.raises(SinkError, match=r"does not tell what s\.a was made of"):
        table_columns(replace(schema, definition=None), "classic")
