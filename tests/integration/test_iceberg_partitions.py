"""Partitions of Iceberg tables: which row is in which, what a reader's filter leaves out, and what becomes of them when columns change."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.expressions import BooleanExpression, EqualTo, IsNull, Reference
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform, IdentityTransform, MonthTransform

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Column, TableName, TableSchema
from spark_merge.sinks.iceberg import partitions, writer
from spark_merge.sinks.iceberg.partition_rules import partitions_of
from spark_merge.sinks.kit import held
from spark_merge.sinks.registry import misfits, open_sink
from tests.support.deliveries import ORDERS, Segments, change, deliver, opened
from tests.support.lake import NAMESPACE, catalog_of, rows_at, uri_of
from tests.support.lake_target import ID, Target, columns

pytestmark = pytest.mark.xdist_group("iceberg")

AT = Column("at", "datetime")
AMOUNT = Column("amount", "decimal", length=10, scale=2)
BY_DAY = columns(AT)


def hashed(value: int, buckets: int = 1000) -> int:
    return (value & (2**31 - 1)) % buckets


# a column, TiDB's text of its value, the rule, and the partition by Iceberg's specification: hashes are those of its appendix B
VALUES: list[tuple[Column, str, str, Any]] = [
    (Column("id", "int", nullable=False), "34", "bucket(1000, id)", hashed(2017239379)),
    (Column("b2", "decimal", length=10, scale=2), "14.20", "bucket(1000, b2)", hashed(-500754589)),
    (Column("b3", "date"), "2017-11-16", "bucket(1000, b3)", hashed(-653330422)),
    (Column("b4", "datetime"), "2017-11-16 22:31:08", "bucket(1000, b4)", hashed(-2047944441)),
    (Column("b5", "timestamp"), "2017-11-16 22:31:08", "bucket(1000, b5)", hashed(-2047944441)),
    (Column("b6", "text"), "iceberg", "bucket(1000, b6)", hashed(1210000089)),
    (Column("b7", "binary", length=4), "00010203", "bucket(1000, b7)", hashed(-188683207)),
    (Column("y1", "date"), "1969-12-31", "year(y1)", -1),
    (Column("y2", "datetime"), "2017-12-31 23:59:59", "years(y2)", 47),
    (Column("m1", "date"), "1969-12-31", "months(m1)", -1),
    (Column("m2", "timestamp"), "2017-12-01 10:12:55", "MONTH(m2)", 575),
    (Column("d1", "date"), "1969-12-31", "days(d1)", date(1969, 12, 31)),
    (Column("d2", "datetime", scale=6), "1969-12-31 23:59:59.999999", "day(d2)", date(1969, 12, 31)),
    (Column("h1", "timestamp"), "1970-01-01 10:00:01", "hours(h1)", 10),
    (Column("h2", "datetime"), "1969-12-31 23:59:59", "hour(h2)", -1),
    (Column("t1", "int"), "-1", "truncate(10, t1)", -10),
    (Column("t2", "decimal", length=10, scale=2), "-0.05", "truncate(10, t2)", Decimal("-0.10")),
    (Column("t3", "text"), "\U0001f600ab\U0001f600cd", "truncate(4, t3)", "\U0001f600ab\U0001f600"),
    (Column("t4", "binary", length=4), "00010203", "truncate(3, t4)", b"\x00\x01\x02"),
    (Column("t5", "int"), str(-(2**63)), "truncate(10, t5)", 2**63 - 2),
    (Column("i1", "uint"), str(2**64 - 1), "i1", Decimal(2**64 - 1)),
    (Column("i2", "date"), "2020-02-29", "i2", date(2020, 2, 29)),
    (Column("i3", "datetime", scale=6), "1000-01-01 00:00:00.000001", "i3", datetime(1000, 1, 1, 0, 0, 0, 1)),  # noqa: DTZ001 - it has none
    (Column("i4", "text"), "ü", "i4", "ü"),
    (Column("i5", "decimal", length=38, scale=30), "-1.5" + "0" * 29, "i5", Decimal("-1.5" + "0" * 29)),
    (Column("Odd `name`", "text"), "o", "`odd ``name```", "o"),
]
WIDE = TableSchema(ORDERS, tuple(column for column, *_ in VALUES), ("id",))
OF_ALL = f"shop.orders({', '.join(rule for _, _, rule, _ in VALUES)}, _op)"


def places(table: Table) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = table.inspect.files()["partition"].to_pylist()
    return results


def planned(table: Table, wanted: BooleanExpression) -> tuple[int, list[Any]]:
    """How many files a reader opens, and the ids that it gets."""
    scan = table.scan(row_filter=wanted)
    return len(list(scan.plan_files())), sorted(scan.to_arrow()["id"].to_pylist())


def equal(name: str, value: Any) -> BooleanExpression:
    return EqualTo(name, value)  # type: ignore[call-arg,arg-type]  # its own way to be made, which its types do not tell


def test_a_row_is_where_icebergs_specification_has_it_and_a_null_where_nulls_are(tmp_path: Path) -> None:
    uri = uri_of(tmp_path / "lake", partitions=OF_ALL)
    nulls: list[str | None] = ["35", *(None for _ in VALUES[1:])]
    changes = [change(0, 5, after=[text for _, text, _, _ in VALUES]), change(0, 6, before=nulls, ordinal=1)]
    deliver(opened(open_sink(uri, log_id="log-1")), Segments([0], changes), log=None, schemas={ORDERS: WIDE})  # type: ignore[arg-type]
    table = catalog_of(uri).load_table((NAMESPACE, *ORDERS))
    first, second = sorted(places(table), key=lambda place: str(place["_op"]), reverse=True)
    assert list(first.values()) == [*(value for *_, value in VALUES), "insert"]
    assert [*second.values()][1:] == [*(None for _ in VALUES[1:]), "delete"]
    assert [row["id"] for row in sorted(rows_at(table), key=lambda row: int(row["id"]))] == [34, 35]
    for name in ("b6", "y1", "m2", "d2", "h1", "t3", "i2"):
        assert planned(table, IsNull(Reference(name))) == (1, [35])  # type: ignore[call-arg]  # as in `equal`


def test_a_filter_reads_the_files_of_its_partitions_alone(tmp_path: Path) -> None:
    to = Target(tmp_path, partitions="shop.*(days(at), bucket(4, id))")
    rows = [(str(n), f"2020-01-{1 + n % 3:02d} {n % 24:02d}:00:00") for n in range(120)]
    to.bring_all(rows, BY_DAY)
    table, bucket = to.table(), BucketTransform(4).transform(to.table().schema().find_type("id"))
    there = {(row[1][:10], bucket(int(row[0]))) for row in rows}
    assert sorted((str(place["at_day"]), place["id_bucket"]) for place in places(table)) == sorted(there)
    assert sorted(row["id"] for row in rows_at(table)) == list(range(120))
    day = [int(key) for key, at in rows if at.startswith("2020-01-02")]
    assert planned(table, equal("at", "2020-01-02T07:00:00")) == (4, [n for n in day if n % 24 == 7])
    assert planned(table, equal("id", 60)) == (3, [60])  # of 12
    files = table.scan(row_filter="at >= '2020-01-02T00:00:00' and at < '2020-01-03T00:00:00'").plan_files()
    assert len(list(files)) == 4


def test_a_large_task_writes_a_partition_in_several_files_and_holds_no_more_than_it_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = list[int]()

    def parted(rows: pa.Table, *args: Any, **named: Any) -> Any:
        sizes.append(rows.nbytes)
        return partitions.parted(rows, *args, **named)

    monkeypatch.setattr(held, "HELD_BYTES_MAX", 1000)
    monkeypatch.setattr(writer, "parted", parted)
    to = Target(tmp_path, partitions="shop.orders(months(at))")
    to.bring_all([(str(n), f"2020-{1 + n % 2:02d}-01 00:00:00") for n in range(100)], BY_DAY)
    assert len(places(to.table())) > 10
    assert {place["at_month"] for place in places(to.table())} == {600, 601}
    assert len(rows_at(to.table())) == 100
    assert max(sizes) < 2000 / 2 + 1000  # with the piece that is too much


def test_rows_of_too_many_partitions_are_refused_until_they_are_fewer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "PARTITIONS_MAX", 10)
    to, rows = Target(tmp_path, partitions="shop.orders(id)"), [(str(n), "2020-01-01 00:00:00") for n in range(11)]
    with pytest.raises(SinkError, match=r"shop\.orders: 11 rows fall into 11 partitions") as error:
        to.write_all(rows, BY_DAY)
    assert "REPLACE PARTITION FIELD" in error.value.hint
    with to.table().update_spec() as update:
        update.remove_field("id").add_field("at", MonthTransform(), "at_month")
    again = Target(tmp_path)
    again.bring_all(rows, BY_DAY)
    assert [place["at_month"] for place in places(again.table())] == [600]


# ---- a table that is there ---------------------------------------------------------------------------------------------------


def test_a_table_that_is_there_keeps_its_partitions_whatever_the_uri_says(tmp_path: Path) -> None:
    to = Target(tmp_path, partitions="shop.orders(days(at))")
    to.bring(("1", "2020-01-01 00:00:00"), BY_DAY)
    again = Target(tmp_path, partitions="shop.orders(bucket(2, id))")
    again.seq = to.seq
    again.bring(("2", "2020-01-02 00:00:00"), BY_DAY)
    assert sorted(str(place["at_day"]) for place in places(to.table())) == ["2020-01-01", "2020-01-02"]


def test_partitions_that_somebody_changes_are_those_of_the_next_rows(tmp_path: Path) -> None:
    """Amid a batch it is done again."""
    to = Target(tmp_path)
    to.bring(("1", "2020-01-01 00:00:00"), BY_DAY)
    batch = to.write(("2", "2020-01-02 00:00:00"), BY_DAY, BY_DAY, "")
    with to.table().update_spec() as update:
        update.add_field("at", MonthTransform(), "at_month")
    with pytest.raises(SinkError, match="was replaced or altered while this batch was written"):
        to.sink.accept(*batch)
    again = Target(tmp_path)
    again.seq = to.seq
    again.bring(("2", "2020-01-02 00:00:00"), BY_DAY)
    assert sorted((place["at_month"] for place in places(to.table())), key=str) == [600, None]
    assert planned(to.table(), equal("at", "2020-01-02T00:00:00")) == (1, [2])
    assert to.rows("id") == [(1,), (2,)]


def test_partitions_that_this_sink_does_not_write_are_refused_by_name(tmp_path: Path) -> None:
    to, ratio = Target(tmp_path), columns(Column("ratio", "double"))
    to.bring(("1", "-0"), ratio)
    with to.table().update_spec() as update:
        update.add_field("ratio", IdentityTransform(), "ratio")
    again = Target(tmp_path)
    again.seq = to.seq
    with pytest.raises(SinkError, match="has got partitions that this sink does not write: ratio, identity"):
        again.write(("2", "0"), ratio, ratio, "")


# ---- schema changes -----------------------------------------------------------------------------------------------------------


def test_a_source_that_is_renamed_goes_on(tmp_path: Path) -> None:
    to, made = Target(tmp_path, partitions="shop.orders(days(at))"), columns(Column("made", "datetime"))
    to.bring(("1", "2020-01-01 00:00:00"), BY_DAY, made, "ALTER TABLE orders RENAME COLUMN at TO made")
    to.bring(("2", "2020-01-02 00:00:00"), made)
    assert sorted(str(place["at_day"]) for place in places(to.table())) == ["2020-01-01", "2020-01-02"]
    assert planned(to.table(), equal("made", "2020-01-01T00:00:00")) == (1, [1])


def test_a_source_that_gets_wider_goes_on(tmp_path: Path) -> None:
    wide = columns(Column("amount", "decimal", length=30, scale=2))
    to = Target(tmp_path, partitions="shop.orders(amount, bucket(8, amount))")
    to.bring(("1", "12.50"), columns(AMOUNT), wide, "ALTER TABLE orders MODIFY amount DECIMAL(30, 2)")
    with to.table().transaction() as change:
        change.set_properties({"commit.manifest.min-count-to-merge": "2"})
    to.bring(("2", f"{'9' * 28}.99"), wide)
    to.bring(("3", "12.50"), wide)
    results = sorted((place["amount"], place["amount_bucket"]) for place in places(to.table()))
    assert [amount for amount, _ in results] == [Decimal("12.50"), Decimal("12.50"), Decimal(f"{'9' * 28}.99")]
    assert results[0] == results[1]
    assert planned(to.table(), equal("amount", Decimal("12.50"))) == (2, [1, 3])


@pytest.mark.parametrize(
    ("after", "query", "parameters", "what"),
    [
        (columns(), "ALTER TABLE orders DROP COLUMN at", {}, "day of at, which is gone after"),
        (columns(Column("at", "text")), "ALTER TABLE orders MODIFY at TEXT", {"changed_types": "anew"}, "day of at, which is gone after"),
        (
            columns(AT, Column("AT_DAY", "date")),
            "ALTER TABLE orders ADD at_day DATE",
            {},
            "a partition at_day, and after this DDL a column",
        ),
    ],
)
def test_a_change_that_partitions_do_not_stand_stops_until_they_are_dropped(
    tmp_path: Path, after: Any, query: str, parameters: dict[str, str], what: str
) -> None:
    to = Target(tmp_path, partitions="shop.orders(days(at))", **parameters)
    for number in range(3):
        to.bring((str(number), f"2020-01-0{number + 1} 00:00:00"), BY_DAY)
    batch = to.write(("3", "2020-01-04 00:00:00"), BY_DAY, after, query)
    with pytest.raises(SinkError, match=what) as error:
        to.sink.accept(*batch)
    assert "DROP PARTITION FIELD at_day" in error.value.hint
    with to.table().update_spec() as update:
        update.remove_field("at_day")
    again = Target(tmp_path, **parameters)
    again.seq = to.seq
    again.bring(("3", "2020-01-04 00:00:00"), BY_DAY, after, query)
    with to.table().transaction() as change:
        change.set_properties({"commit.manifest.min-count-to-merge": "2"})
    for number in range(4, 7):
        again.bring((str(number), *(None for _ in after[ORDERS].columns[1:])), after)
    assert again.table().inspect.manifests().num_rows == 2  # one of before, one of since
    assert again.rows("id") == [(number,) for number in range(7)]
    assert planned(again.table(), equal("id", 1)) == (1, [1])


# ---- the rules ----------------------------------------------------------------------------------------------------------------


def spec_of(text: str, *others: Column, table: TableName = ORDERS) -> list[str]:
    spec = partitions_of(text).spec(TableSchema(table, (ID, *others), ("id",)))
    return [f"{one.name}: {one.transform} of {one.source_id}" for one in spec.fields]


def test_a_tables_rule_goes_before_its_schemas_and_names_are_tidbs() -> None:
    rules = "shop.orders(), `s``h`.`T 1`(Days(`At`), bucket(16,ID)) , SHOP.*(id,_commit_ts)"
    assert spec_of(rules) == []
    assert spec_of(rules, table=TableName("Shop", "other")) == ["id: identity of 8", "_commit_ts: identity of 3"]
    assert spec_of(rules, AT, table=TableName("S`H", "t 1")) == ["at_day: day of 9", "id_bucket: bucket[16] of 8"]
    assert spec_of(rules, table=TableName("crm", "orders")) == []
    assert spec_of("") == []
    clash = Column("_id_bucket", "int"), Column("ID_BUCKET", "int")
    assert spec_of("shop.orders(bucket(3, id))", *clash) == ["__id_bucket: bucket[3] of 8"]


WRONG = [
    ("shop.orders", "has its end where '(' is to be"),
    ("shop(id)", "has '(' where '.' is to be"),
    ("shop.orders(id", "where ',' is to be"),
    ("shop.orders(id,)", "where a name is to be"),
    ("shop.orders(id) shop.x(id)", "has 'shop' where ',' is to be"),
    ("shop.orders(id),SHOP.`orders`(id)", "names SHOP.orders twice"),
    ("shop.*(id),shop.*()", "names shop.* twice"),
    ("shop.orders(bucket(id, 16))", "has 'id' where a whole number above 0"),
    ("shop.orders(bucket(0, id))", "has '0' where a whole number above 0"),
    ("shop.orders(truncate(3000000000, id))", "where a whole number above 0"),
    ("shop.orders(weeks(id))", "has weeks(…), which is no transform"),
    ("shop.orders(days(at), hours(at))", "by two units of time"),
    ("shop.orders(id, `ID`)", "one column twice"),
    ("shop.orders('id')", "where a name is to be"),
    ("shop.orders(\0)", "cannot be read"),
]


@pytest.mark.parametrize(("text", "what"), WRONG)
def test_what_is_no_rule_is_refused_at_the_start(tmp_path: Path, text: str, what: str) -> None:
    with pytest.raises(SinkError) as error:
        open_sink(uri_of(tmp_path, partitions=text), log_id="log-1")
    assert what in error.value.message
    assert "write partitions=" in error.value.hint


MISFITS: Sequence[tuple[str, str]] = [
    ("shop.*(made)", "shop.orders has no column made"),
    ("shop.*(days(id))", "shop.orders.id is long in Iceberg, of which there is no days partition"),
    ("shop.*(ratio)", "shop.orders.ratio is double in Iceberg, of which there is no identity partition"),
    ("shop.*(bucket(4, ratio))", "there is no bucket partition"),
    ("shop.*(truncate(4, at))", "shop.orders.at is timestamp in Iceberg, of which there is no truncate partition"),
]


@pytest.mark.parametrize(("rule", "what"), MISFITS)
def test_a_rule_that_does_not_fit_a_table_is_reported_by_the_check_and_when_the_table_comes(tmp_path: Path, rule: str, what: str) -> None:
    uri, made = uri_of(tmp_path / "lake", partitions=rule), columns(AT, Column("ratio", "double"))
    ((reported, hint),) = misfits(uri, list(made.values()), log_id="log-1")
    assert what in reported
    assert hint
    with pytest.raises(SinkError, match=what):
        Target(tmp_path, partitions=rule).write(("1", None, None), made, made, "")
    assert not misfits(uri_of(tmp_path / "lake", partitions=f"{rule},shop.orders()"), list(made.values()), log_id="log-1")
