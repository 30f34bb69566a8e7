"""A table's rows and schema changes by hand: values that have no exact form elsewhere, and what a merged table has after each DDL."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import write_deltalake

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Column, TableSchema
from spark_merge.sinks.delta import statistics
from spark_merge.sinks.delta.columns import Mode
from spark_merge.sinks.delta.places import table_place
from tests.support.deliveries import ORDERS
from tests.support.delta_place import delta_table, folder_of
from tests.support.one_table import HARD, Story, table

DELTA_TYPES = {
    "i": "long", "u": "decimal(20,0)", "b": "decimal(20,0)", "f": "float", "g": "double", "d": "decimal(38,30)", "e": "string",
    "day": "date", "at": "timestamp_ntz", "ts": "timestamp", "t": "string", "y": "short", "x": "binary", "s": "string", "en": "string",
    "se": "string", "j": "string", "v": "string",
}  # fmt: skip


@pytest.mark.parametrize("mode", ["append", "merge"])
def test_every_value_is_there_as_it_is(tmp_path: Path, mode: Mode) -> None:
    """In a second segment each row takes the values of the next one, so that a MERGE updates and inserts them."""
    schema = table(*(column for column, _ in HARD))
    longest = max(len(values) for _, values in HARD)
    images = [(str(number), *(values[number % len(values)] for _, values in HARD)) for number in range(longest)]
    story = Story(tmp_path, mode, schemas={ORDERS: schema})
    story.deliver(*((None, image) for image in images))
    assert story.rows() == sorted(images, key=repr)
    moved = [(image[0], *images[(number + 1) % longest][1:]) for number, image in enumerate(images)]
    story.deliver(*zip(images, moved, strict=True), (None, ("99", *images[0][1:])))
    assert story.rows() == sorted([*moved, ("99", *images[0][1:])], key=repr)
    result = delta_table(folder_of(story.uri), ORDERS)
    assert result is not None
    types = {one.name: getattr(one.type, "type", None) for one in result.schema().fields}
    assert {name: types[name] for name in DELTA_TYPES} == DELTA_TYPES


def raw(story: Story) -> pa.Table:
    result = delta_table(folder_of(story.uri), ORDERS)
    assert result is not None
    return pa.table(result.scan())


def test_merged_rows_follow_each_schema_change(tmp_path: Path) -> None:
    a, b = Column("a", "year"), Column("b", "text")
    story = Story(tmp_path, "merge", schemas={ORDERS: table(a, b)})
    story.deliver(
        (None, ("1", "2007", "x")), (None, ("2", None, "y")), ddl="ALTER TABLE orders MODIFY a BIGINT", after=table(Column("a", "int"), b)
    )
    assert story.rows() == [("1", "2007", "x"), ("2", None, "y")]
    c = Column("c", "decimal", length=5, scale=2)
    story.deliver(ddl="ALTER TABLE orders ADD c DECIMAL(5,2) DEFAULT 1.5", after=table(Column("a", "int"), b, c, defined={"c": "'1.50'"}))
    assert story.rows() == [("1", "2007", "x", "1.50"), ("2", None, "y", "1.50")]
    d = replace(c, name="d")
    story.deliver(
        (("2", None, "y", "1.50"), None), ddl="ALTER TABLE orders RENAME COLUMN c TO d, DROP COLUMN b", after=table(Column("a", "int"), d)
    )
    assert story.rows() == [("1", "2007", "1.50")]
    story.deliver((None, ("3", "-1", None)), ddl="ALTER TABLE orders ADD b TEXT", after=table(Column("a", "int"), d, b))
    assert story.rows() == [("1", "2007", "1.50", None), ("3", "-1", None, None)]
    assert raw(story).column_names == ["_commit_ts", "_untyped", "id", "a", "b", "a_2", "c", "d"]
    assert raw(story)["a"].null_count == raw(story)["c"].null_count == raw(story)["b"].null_count == 2
    story.deliver((None, ("4", "0", None, "z")), ddl="TRUNCATE TABLE orders", after=story.schemas[ORDERS])
    assert story.rows() == []
    story.deliver((None, ("5", "0", None, "z")))
    assert story.rows() == [("5", "0", None, "z")]


def test_the_files_of_a_key_that_is_renamed_are_skipped_by_it_and_no_reader_loses_a_row(tmp_path: Path) -> None:
    story = Story(tmp_path, "merge", schemas={ORDERS: table(Column("a", "int"))})
    story.deliver((None, ("1", "7")), (None, ("2", "8")))
    after = TableSchema(ORDERS, (Column("number", "int", nullable=False), Column("a", "int")), ("number",))
    story.deliver(ddl="ALTER TABLE orders RENAME COLUMN id TO number", after=after)
    story.deliver((("1", "7"), ("1", "9")))
    result = delta_table(folder_of(story.uri), ORDERS)
    assert result is not None
    assert statistics.named(result) == ["_commit_ts", "id", "a", "number"]
    assert all({"min.number", "max.number"} <= set(file) for file in statistics.files_of(result))
    for where, count in (("number", 1), ("id", None), ("a", 9)):
        value = pc.field(where).is_null() if count is None else pc.field(where) == count
        assert result.to_pyarrow_dataset().to_table(filter=value).num_rows == (2 if count is None else 1), where


def test_a_schema_change_that_is_not_followed_leaves_rows_as_they_were(tmp_path: Path) -> None:
    a = Column("a", "text")
    story = Story(tmp_path, "merge", schemas={ORDERS: table(a)})
    with pytest.raises(SinkError, match="may be others as a int") as refused:
        story.deliver((None, ("1", "7")), ddl="ALTER TABLE orders MODIFY a INT", after=table(Column("a", "int")))
    assert "ddl-done=100" in refused.value.hint
    assert raw(story)["a"].to_pylist() == ["7"]
    story.seq, story.parameters = 0, "&ddl-done=100"
    story.deliver((None, ("1", "7")), ddl="ALTER TABLE orders MODIFY a INT", after=table(Column("a", "int")))
    assert story.rows() == [("1", None)]


def test_a_dumps_rows_are_merged_after_a_ddl_that_was_carried_out_by_hand(tmp_path: Path) -> None:
    """Of the same pass: nobody knows which keys the operator's rows have."""
    story = Story(tmp_path, "merge", schemas={ORDERS: table(Column("a", "int"))})
    query = "ALTER TABLE orders EXCHANGE PARTITION p0 WITH TABLE u"
    with pytest.raises(SinkError, match="rows change places"):
        story.deliver(ddl=query, chunk_rows=[("1", "7")])
    by_hand = raw(story).set_column(2, "id", pa.array([2], pa.int64()))
    write_deltalake(str(tmp_path / "out" / table_place(ORDERS)), by_hand, mode="append")
    story.seq, story.parameters = 0, "&ddl-done=100"
    story.deliver(ddl=query, chunk_rows=[("1", "7")])
    story.deliver(chunk_rows=[("2", "8")])
    assert story.rows() == [("1", "7"), ("2", "8")]


def test_a_date_of_no_calendar_does_not_move_to_another_column(tmp_path: Path) -> None:
    a = Column("a", "date")
    story = Story(tmp_path, "merge", schemas={ORDERS: table(a)})
    with pytest.raises(SinkError, match="dates of no calendar"):
        story.deliver((None, ("1", "0000-00-00")), ddl="ALTER TABLE orders RENAME COLUMN a TO b", after=table(replace(a, name="b")))


@pytest.mark.parametrize(("kind", "value", "why"), [("double", "1.5", "floating-point"), ("date", "0000-00-00", "no calendar")])
def test_a_key_that_a_merge_cannot_compare_is_refused(tmp_path: Path, kind: str, value: str, why: str) -> None:
    schema = TableSchema(ORDERS, (Column("id", kind, nullable=False),), ("id",))  # type: ignore[arg-type]
    with pytest.raises(SinkError, match=why):
        Story(tmp_path, "merge", schemas={ORDERS: schema}).deliver((None, (value,)), ((value,), None))
