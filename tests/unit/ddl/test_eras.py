"""What an output's rows of all times are in a table's present columns, by its DDLs alone."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from sidecar.shared.errors import SinkError
from sidecar.shared.log.manifest import DdlRecord
from sidecar.shared.model.nouns import Column, CommitTs, IndexDefinition, IndexPart, TableName, TableSchema
from spark_merge.ddl.eras import WAY_OUT, Era, era_of, eras
from tests.unit.encode.open_tables import changed, table

T = TableName("shop", "t")
SCHEMA = table([("id", "int(11)"), ("a", "varchar(20)"), ("n", "bigint(20) unsigned")])
DEFAULTED = changed(SCHEMA, "n", default="'7'", nullable=False)


def ddl(commit_ts: int, query: str, schema: str = "shop", name: str = "t") -> DdlRecord:
    return DdlRecord(CommitTs(commit_ts), schema, name, query)


def texts(**columns: str | None) -> dict[str, pa.Array]:
    return {name: pa.array([text], pa.string()) for name, text in columns.items()}


def present(era: Era, types: dict[str, Column] | None = None, **columns: str | None) -> list[str | None]:
    return [column[0].as_py() for column in era.present(texts(**columns), 1, types=types)]


def spans(value: tuple[Era, ...]) -> list[tuple[str, int]]:
    return [(str(era.name), era.after_ts) for era in value]


def test_a_table_without_ddls_is_one_era() -> None:
    (era,) = eras(SCHEMA, [ddl(10, "ALTER TABLE u ADD COLUMN x INT", name="u")])
    assert era_of([era], TableName("SHOP", "T"), 1) is era
    assert era_of([era], TableName("shop", "u"), 1) is None
    assert present(era, id="1", a=None, n="2") == ["1", None, "2"]
    assert era.previous_schema().column_names() == SCHEMA.column_names()


def test_a_row_at_a_ddls_commit_ts_is_from_before_it() -> None:
    results = eras(DEFAULTED, [ddl(10, "ALTER TABLE t ADD COLUMN n BIGINT UNSIGNED NOT NULL DEFAULT '7'")])
    assert [era_of(results, T, ts) for ts in (10, 11)] == [results[1], results[0]]
    assert present(results[1], id="1", a="x") == ["1", "x", "7"]


@pytest.mark.parametrize(
    ("query", "begins"),
    [
        ("TRUNCATE TABLE T", True),
        ("DROP TABLE t, u", True),
        ("DROP DATABASE shop", True),
        ("CREATE TABLE t (id INT PRIMARY KEY)", True),
        ("CREATE TABLE t LIKE u", True),
        ("CREATE TABLE t (id INT) UNHEARD_OF=1", True),
        ("RECOVER TABLE t", True),
        ("FLASHBACK TABLE old TO t", True),
        ("RENAME TABLE t TO u", True),
        ("CREATE TABLE u LIKE t", False),
        ("DROP DATABASE store", False),
        ("TRUNCATE TABLE u", False),
    ],
)
def test_rows_from_before_a_table_begins_are_not_its_rows(query: str, begins: bool) -> None:
    results = eras(SCHEMA, [ddl(10, query)])
    assert (era_of(results, T, 10) is None) == begins


def test_ddls_of_other_tables_and_of_no_columns_end_no_era() -> None:
    others = (
        "ALTER TABLE u RENAME COLUMN a TO b", "RENAME TABLE u TO v", "RENAME TABLE shop.v TO crm.t", "CREATE UNIQUE INDEX i ON t (a)",
        "ALTER TABLE t ADD INDEX i (a), COMMENT 'x'", "ALTER TABLE t DROP COLUMN gone", "ALTER TABLE t REMOVE PARTITIONING",
        "CREATE VIEW v AS SELECT 1", "RECOVER TABLE u", "RECOVER TABLE crm.t", "ALTER TABLE t_2 SECONDARY_LOAD",
    )  # fmt: skip
    assert spans(eras(SCHEMA, [ddl(10 + place, query, name="other") for place, query in enumerate(others)])) == [("shop.t", 0)]


def test_rows_of_partitions_that_left_stay_where_the_outputs_readers_see_them() -> None:
    for query in (
        "ALTER TABLE t TRUNCATE PARTITION p",
        "ALTER TABLE t DROP PARTITION p",
        "ALTER TABLE u EXCHANGE PARTITION p WITH TABLE t",
    ):
        (era,) = eras(SCHEMA, [ddl(10, query)], keeps_partitions=True)
        era.check()


def test_an_era_meets_the_times_that_are_in_it() -> None:
    era = replace(eras(SCHEMA, [])[0], after_ts=CommitTs(3), upto_ts=CommitTs(5))
    assert [era.meets(*pair) for pair in [(0, 3), (0, 4), (4, 9), (5, 9), (6, 9)]] == [False, True, True, True, False]


def test_a_renamed_tables_rows_are_under_each_of_its_names() -> None:
    results = eras(
        SCHEMA,
        [ddl(10, "RENAME TABLE shop.x TO shop.y"), ddl(20, "ALTER TABLE shop.y RENAME TO shop.t"), ddl(5, "CREATE TABLE x (id INT)")],
    )
    assert spans(results) == [("shop.t", 20), ("shop.y", 10), ("shop.x", 5)]


def test_tables_that_change_names_are_distinguished() -> None:
    """In one statement, and as TiCDC tells it: each by itself, at one commit_ts."""
    other = replace(SCHEMA, name=TableName("shop", "u"))
    swap = "RENAME TABLE shop.t TO shop.aside, shop.u TO shop.t, shop.aside TO shop.u"
    queries = ["RENAME TABLE shop.t TO shop.u", "RENAME TABLE shop.u TO shop.t"]
    for records in ([ddl(10, swap)], [ddl(10, one) for one in queries], [ddl(10, one) for one in reversed(queries)]):
        assert spans(eras(SCHEMA, records)) == [("shop.t", 10), ("shop.u", 0)]
        assert spans(eras(other, records)) == [("shop.u", 10), ("shop.t", 0)]
    moved_away = eras(SCHEMA, [ddl(10, "RENAME TABLE shop.t TO shop.z"), ddl(11, "CREATE TABLE t (id INT)")])
    assert spans(moved_away) == [("shop.t", 11)]


def test_columns_are_followed_by_their_names() -> None:
    records = [
        ddl(10, "ALTER TABLE t RENAME COLUMN b TO c, ADD COLUMN n BIGINT UNSIGNED NOT NULL DEFAULT 7"),
        ddl(20, "ALTER TABLE t CHANGE c a VARCHAR(20), DROP COLUMN gone"),
    ]
    last, middle, first = eras(DEFAULTED, records)
    assert present(last, id="1", a="x", n="2") == ["1", "x", "2"]
    assert middle.previous_schema().column_names() == ("id", "c", "n")
    assert first.previous_schema().column_names() == ("id", "b")
    assert present(first, first.present_types, id="1", b="x", gone="y") == ["1", "x", "7"]
    swapped = eras(SCHEMA, [ddl(10, "ALTER TABLE t RENAME COLUMN a TO n, RENAME COLUMN n TO a")])[1]
    assert present(swapped, id="1", a="2", n="x") == ["1", "x", "2"]


def test_a_column_that_was_dropped_and_added_again_has_its_default() -> None:
    for records in (
        [ddl(10, "ALTER TABLE t DROP COLUMN n"), ddl(11, "ALTER TABLE t ADD COLUMN n BIGINT UNSIGNED NOT NULL DEFAULT 7")],
        [ddl(10, "ALTER TABLE t DROP COLUMN n, ADD COLUMN n BIGINT UNSIGNED NOT NULL DEFAULT 7")],
    ):
        assert present(eras(DEFAULTED, records)[-1], id="1", a="x", n="2") == ["1", "x", "7"]


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("ALTER TABLE t TRUNCATE PARTITION p", "moved rows without a change event"),
        ("ALTER TABLE t DROP PARTITION p", "moved rows without a change event"),
        ("ALTER TABLE u EXCHANGE PARTITION p WITH TABLE t", "moved rows without a change event"),
        ("ALTER TABLE t DROP PRIMARY KEY", "may have changed the handle key"),
        ("ALTER TABLE t ADD COLUMN id INT PRIMARY KEY", "may have changed the handle key"),
        ("ALTER TABLE t FROBNICATE", "is not understood"),
        ("FLASHBACK DATABASE shop TO TIMESTAMP '2024-01-01'", "is not understood"),
    ],
)
def test_rows_from_before_what_cannot_be_followed_are_refused_by_its_text(query: str, why: str) -> None:
    name = "" if "DATABASE" in query else "t"
    last, first = eras(SCHEMA, [ddl(10, query, name=name)])
    last.check()
    for act in (first.check, first.previous_schema, lambda: present(first, id="1", a="x", n="2")):
        with pytest.raises(SinkError, match=why) as refused:
            act()
        assert query in refused.value.message
        assert refused.value.hint == WAY_OUT


def test_a_default_that_may_have_been_another_one_is_refused() -> None:
    records = [ddl(10, "ALTER TABLE t ADD COLUMN n BIGINT UNSIGNED DEFAULT 3"), ddl(11, "ALTER TABLE t ALTER COLUMN n SET DEFAULT 7")]
    with pytest.raises(SinkError, match="SET DEFAULT 7' may have changed in column n"):
        eras(DEFAULTED, records)[-1].check()
    eras(DEFAULTED, [*records[:1], ddl(11, "ALTER TABLE t MODIFY a TEXT DEFAULT 'x'")])[-1].check()
    computed = changed(SCHEMA, "a", default="(uuid())")
    with pytest.raises(SinkError, match="computed default"):
        eras(computed, [ddl(10, "ALTER TABLE t ADD COLUMN a VARCHAR(20) DEFAULT (uuid())")])[-1].check()


def test_values_from_before_a_change_of_type_are_converted_where_their_type_is_known() -> None:
    schema = TableSchema(T, (Column("id", "int"), Column("d", "decimal", length=10, scale=3)), ("id",))
    first = eras(schema, [ddl(10, "ALTER TABLE t MODIFY d DECIMAL(10,3)")])[1]
    ident = Column("id", "int")
    assert present(first, {"id": ident, "d": Column("d", "decimal", scale=1)}, id="1", d="2.5") == ["1", "2.500"]
    assert present(first, {"id": ident, "d": Column("d", "int")}, id="1", d="-2") == ["1", "-2.000"]
    positive = eras(replace(schema, columns=(ident, Column("d", "uint"))), [ddl(10, "ALTER TABLE t MODIFY d BIGINT UNSIGNED")])[1]
    assert present(positive, {"id": ident, "d": Column("d", "int")}, id="1", d="5") == ["1", "5"]
    with pytest.raises(SinkError, match="-5 is out of range for kind uint"):
        present(positive, {"id": ident, "d": Column("d", "int")}, id="1", d="-5")
    years = replace(schema, columns=(ident, Column("d", "int")))
    assert present(eras(years, [])[0], {"id": ident, "d": Column("d", "year")}, id="1", d="0000") == ["1", "0"]
    for types in (None, {"id": ident, "d": Column("d", "text")}, {"id": ident, "d": Column("d", "decimal", scale=5)}):
        with pytest.raises(SinkError, match=r"before .*MODIFY d"):
            present(first, types, id="1", d="2.5")


def test_labels_are_not_read_by_numbers_of_another_type() -> None:
    schema = TableSchema(T, (Column("id", "int"), Column("e", "enum", elements=("b", "a"))), ("id",))
    first = eras(schema, [ddl(10, "ALTER TABLE t MODIFY e ENUM('b','a')")])[1]
    with pytest.raises(SinkError, match="rows of column e are from before"):
        first.previous_schema()


def test_a_column_that_no_ddl_names_is_refused() -> None:
    with pytest.raises(SinkError, match="have no column n, and no DDL of the output added it"):
        present(eras(SCHEMA, [])[0], id="1", a="x")


@pytest.mark.parametrize("schema", ["archive", "shop"])
def test_a_name_without_its_schema_is_not_guessed(schema: str) -> None:
    renamed = replace(SCHEMA, name=TableName("archive", "t"))
    last, first = eras(renamed, [ddl(10, "RENAME TABLE t TO archive.t", schema=schema)])
    last.check()
    with pytest.raises(SinkError, match="does not tell of which schema"):
        first.check()


def test_a_handle_key_without_a_primary_key_is_followed_by_its_previous_names() -> None:
    """A column that may have been NULL makes a unique key none."""
    unique = table([("u", "int(11)"), ("a", "varchar(20)")], IndexDefinition("u", (IndexPart("u"),), unique=True), key=("u",))
    rename = ddl(20, "ALTER TABLE t RENAME COLUMN v TO u")
    eras(unique, [ddl(10, "ALTER TABLE t MODIFY u INT NOT NULL"), rename])[-1].check()
    with pytest.raises(SinkError, match="MODIFY v INT NOT NULL' may have changed the handle key"):
        eras(unique, [ddl(10, "ALTER TABLE t MODIFY v INT NOT NULL"), rename])[-1].check()
