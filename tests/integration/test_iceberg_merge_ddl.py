"""Schema changes, one by one, at Iceberg tables of `mode=merge`: what rows that are there have afterwards, and what is refused by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Column, ColumnDefinition, TableDefinition, TableName, TableSchema
from spark_merge.sinks.iceberg.merge import Below
from tests.support.deliveries import ORDERS, Segments, change, chunk, deliver, write_chunk
from tests.support.lake_target import ID, Schemas, Target
from tests.support.merged_lake import rows_as_texts

pytestmark = pytest.mark.xdist_group("iceberg")

NAME, TITLE, N = Column("name", "text"), Column("title", "text"), Column("n", "int")


def columns(*others: Column, key: Sequence[str] = ("id",), **defaults: str) -> Schemas:
    defined = tuple(ColumnDefinition(one.name, "", one.nullable, default=defaults.get(one.name)) for one in (ID, *others))
    return {ORDERS: TableSchema(ORDERS, (ID, *others), tuple(key), definition=TableDefinition(defined))}


PLAIN = columns(NAME)


class Merged(Target):
    def __init__(self, folder: Path, **parameters: str) -> None:
        super().__init__(folder, mode="merge", **parameters)

    def texts(self, schemas: Schemas = PLAIN, name: TableName = ORDERS) -> list[tuple[str | None, ...]]:
        return sorted(rows_as_texts(self.table(), schemas[name]), key=repr)


def test_columns_are_added_dropped_and_renamed_under_rows_that_are_there(tmp_path: Path) -> None:
    to, titled = Merged(tmp_path), columns(TITLE)
    to.bring(("1", "one"), PLAIN)
    to.bring(("2", "two"), PLAIN, titled, "ALTER TABLE orders RENAME COLUMN name TO title")
    assert to.texts(titled) == [("1", "one"), ("2", "two")]
    more = columns(TITLE, N)
    to.bring(("1", "uno"), titled, more, "ALTER TABLE orders ADD COLUMN n INT")
    to.bring(("3", "three", "3"), more)
    assert to.texts(more) == [("1", "uno", None), ("2", "two", None), ("3", "three", "3")]
    less = columns(N)
    to.bring(None, more, less, "ALTER TABLE orders DROP COLUMN title")
    assert to.texts(less) == [("1", None), ("2", None), ("3", "3")]


@pytest.mark.parametrize("query", ["TRUNCATE TABLE orders", "DROP TABLE orders", "DROP DATABASE shop"])
def test_a_table_that_is_emptied_has_no_row_and_no_file(tmp_path: Path, query: str) -> None:
    to = Merged(tmp_path)
    to.bring(("1", "one"), PLAIN)
    to.bring(("2", "two"), PLAIN, PLAIN if "TRUNC" in query else {}, query)
    assert to.texts() == []
    assert to.table().inspect.files().num_rows == 0
    last = to.table().current_snapshot()
    assert last is not None
    assert Below.of(to.table()).base == last.sequence_number
    if "TRUNC" not in query:
        number = columns(Column("name", "int"))
        to.bring(None, {}, number, "CREATE TABLE orders (id INT PRIMARY KEY, name INT)")
        to.bring(("1", "7"), number)
        assert to.texts(number) == [("1", "7")]
        return
    to.bring(("2", "zwei"), PLAIN)
    assert to.texts() == [("2", "zwei")]


def test_chunks_after_a_truncate_come_below_what_came_after_it(tmp_path: Path) -> None:
    to = Merged(tmp_path)
    log = to.log
    write_chunk(log, "c1", [("1", "one"), ("2", "two")])
    write_chunk(log, "c2", [("2", "zwei"), ("3", "drei")])
    deliver(to.sink, Segments([0], [change(0, -50, after=("1", "one")), chunk(0, -10, "c1")]), log=log, schemas=PLAIN)
    assert to.texts() == [("1", "one"), ("2", "two")]
    to.seq = 1
    to.bring(None, PLAIN, PLAIN, "TRUNCATE TABLE orders")
    to.bring(("2", "zwei"), PLAIN)
    deliver(to.sink, Segments([3], [chunk(3, 250, "c2")]), log=log, schemas=PLAIN)
    assert to.texts() == [("2", "zwei"), ("3", "drei")]
    assert Below.of(to.table()).base is not None


@pytest.mark.parametrize(
    ("after", "query", "why"),
    [
        (columns(NAME, N, n="7"), "ALTER TABLE orders ADD COLUMN n INT DEFAULT 7", "column n begins with"),
        (columns(NAME, replace(N, nullable=False)), "ALTER TABLE orders ADD COLUMN n INT NOT NULL", "column n begins with"),
        (columns(Column("name", "int")), "ALTER TABLE orders MODIFY name INT", "may be others as a int"),
        (PLAIN, "ALTER TABLE orders TRUNCATE PARTITION p0", "rows go without a change of each"),
        (columns(NAME, key=()), "ALTER TABLE orders DROP PRIMARY KEY", "has no key any more"),
    ],
)
def test_what_rows_that_are_there_cannot_follow_is_refused_and_goes_on_by_the_operators_word(
    tmp_path: Path, after: Schemas, query: str, why: str
) -> None:
    to = Merged(tmp_path)
    to.bring(("1", "one"), PLAIN)
    batch, outcomes = to.write(("2", "two"), PLAIN, after, query)
    with pytest.raises(SinkError, match=why) as refused:
        to.sink.accept(batch, outcomes)
    assert "ddl-done=100" in refused.value.hint
    assert to.texts() == [("1", "one")]
    again = Merged(tmp_path, ddl_done="100")
    again.seq = to.seq
    again.bring(("2", "two"), PLAIN, after, query)
    assert again.sink.look() is not None
    if after[ORDERS].key:
        assert Below.of(again.table()).base is None, "rows that a dump has may be others than those of before"


def test_what_cannot_be_followed_is_nothing_to_a_table_without_rows(tmp_path: Path) -> None:
    to, number = Merged(tmp_path), columns(Column("name", "int"))
    to.bring(None, PLAIN)
    to.bring(("1", "x"), PLAIN, PLAIN, "TRUNCATE TABLE orders")
    to.bring(None, PLAIN, number, "ALTER TABLE orders MODIFY name INT")
    to.bring(("1", "7"), number)
    assert to.texts(number) == [("1", "7")]


def test_a_table_that_is_renamed_stays_in_its_place_by_a_route(tmp_path: Path) -> None:
    moved = TableName("shop", "aa_orders")
    after = {moved: replace(PLAIN[ORDERS], name=moved)}
    to, query = Merged(tmp_path), "RENAME TABLE orders TO aa_orders"
    to.bring(("1", "one"), PLAIN)
    batch, outcomes = to.write(("2", "two"), PLAIN, after, query)
    with pytest.raises(SinkError, match="not renamed") as refused:
        to.sink.accept(batch, outcomes)
    assert "shop.aa_orders=>shop.orders" in refused.value.hint
    routed = Merged(tmp_path, routes="shop.aa_orders=>shop.orders")
    routed.seq = to.seq
    routed.bring(("2", "two"), PLAIN, after, query)
    assert routed.texts() == [("1", "one"), ("2", "two")]
    deliver(routed.sink, Segments([2], [change(2, 150, after=("1", "uno"), table=moved)]), log=routed.log, schemas=after)
    assert routed.texts() == [("1", "uno"), ("2", "two")]


def test_a_column_that_delete_files_go_by_is_not_dropped(tmp_path: Path) -> None:
    code = Column("code", "text", nullable=False)
    by_code, by_id = columns(code, NAME, key=("code",)), columns(code, NAME)
    to = Merged(tmp_path)
    to.bring(("1", "a", "one"), by_code)
    to.bring(None, by_code, by_id, "ALTER TABLE orders ADD PRIMARY KEY (id)")
    assert Below.of(to.table()).base is None
    to.bring(("1", "b", "uno"), by_id)
    assert to.texts(by_id) == [("1", "b", "uno")]
    batch, outcomes = to.write(None, by_id, PLAIN, "ALTER TABLE orders DROP COLUMN code")
    with pytest.raises(SinkError, match="column code is in the key of rows that were deleted"):
        to.sink.accept(batch, outcomes)


@pytest.mark.parametrize(("kind", "value", "why"), [("double", "1.5", "floating-point"), ("date", "0000-00-00", "no calendar")])
def test_a_key_that_a_delete_cannot_name_is_refused(tmp_path: Path, kind: str, value: str, why: str) -> None:
    schema = TableSchema(ORDERS, (Column("id", kind, nullable=False),), ("id",))  # type: ignore[arg-type]
    with pytest.raises(SinkError, match=why):
        Merged(tmp_path).bring((value,), {ORDERS: schema})


def test_partitions_are_by_columns_of_the_key_alone(tmp_path: Path) -> None:
    with pytest.raises(SinkError, match="by other columns than its key's"):
        Merged(tmp_path / "name", partitions="shop.orders(name)").bring(("1", "one"), PLAIN)
    to = Merged(tmp_path / "id", partitions="shop.orders(bucket(4,id))")
    to.bring_all([(str(number), "old") for number in range(20)], PLAIN)
    to.bring_all([(str(number), "new") for number in range(0, 20, 2)], PLAIN)
    assert to.texts() == sorted([(str(number), "old" if number % 2 else "new") for number in range(20)], key=repr)
    assert len({str(row["partition"]) for row in to.table().inspect.files().to_pylist()}) == 4
