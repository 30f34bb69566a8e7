"""Schema changes, one by one, at Iceberg tables: which field a column is afterwards, and that a batch done again changes it once."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Column
from spark_merge.sinks.kit.position import PositionKeeper
from tests.support.lake import NAMESPACE, catalog_of
from tests.support.lake_target import Target, columns

pytestmark = pytest.mark.xdist_group("iceberg")

NAME = Column("name", "text")
PLAIN = columns(NAME)


def test_a_column_that_is_renamed_has_what_it_had_and_one_of_its_previous_name_has_not(tmp_path: Path) -> None:
    to, title = Target(tmp_path), Column("title", "text")
    to.bring(("1", "one"), PLAIN, columns(title), "ALTER TABLE orders RENAME COLUMN name TO title")
    to.bring(("2", "two"), columns(title), columns(title, NAME), "ALTER TABLE orders ADD COLUMN name TEXT")
    to.bring(("3", "three", "new"), columns(title, NAME))
    assert to.fields() == [(8, "id", "long"), (9, "title", "string"), (10, "name", "string")]
    assert to.rows("id", "title", "name") == [(1, "one", None), (2, "two", None), (3, "three", "new")]
    assert to.rows("id", "name", seq=0) == [(1, "one")]


def test_a_column_that_is_dropped_is_there_in_the_past_alone(tmp_path: Path) -> None:
    to = Target(tmp_path)
    to.bring(("1", "one"), PLAIN, columns(), "ALTER TABLE orders DROP COLUMN name")
    to.bring(("2",), columns(), PLAIN, "ALTER TABLE orders ADD COLUMN name TEXT")
    to.bring(("3", "three"), PLAIN)
    assert to.rows("id", "name") == [(1, None), (2, None), (3, "three")]
    assert to.rows("id", "name", seq=0) == [(1, "one")]


def test_a_type_is_widened_and_what_was_written_before_is_read_in_the_wider_one(tmp_path: Path) -> None:
    to = Target(tmp_path)
    narrow = columns(Column("d", "decimal", length=10, scale=2), Column("f", "float"))
    wide = columns(Column("d", "decimal", length=30, scale=2), Column("f", "double"))
    to.bring(("1", "12345678.90", "0.5"), narrow, wide, "ALTER TABLE orders MODIFY d DECIMAL(30, 2), MODIFY f DOUBLE")
    to.bring(("2", "1234567890123456789012345678.90", "0.1"), wide, narrow, "ALTER TABLE orders MODIFY d DECIMAL(10, 2), MODIFY f FLOAT")
    to.bring(("3", "1.00", "0.25"), narrow)
    assert [kind for _, _, kind in to.fields()] == ["long", "decimal(30, 2)", "double"]
    assert [(str(d), f) for d, f in to.rows("d", "f")] == [("12345678.90", 0.5), ("1234567890123456789012345678.90", 0.1), ("1.00", 0.25)]


def test_a_type_that_iceberg_cannot_follow_stops_and_goes_on_by_the_operators_word(tmp_path: Path) -> None:
    to, number = Target(tmp_path), columns(Column("name", "int"))
    batch, outcomes = to.write(("1", "1"), PLAIN, number, "ALTER TABLE orders MODIFY name INT")
    with pytest.raises(SinkError, match=r"shop\.orders\.name is string in Iceberg and long after this DDL"):
        to.sink.accept(batch, outcomes)
    assert to.sink.look() is None
    again = Target(tmp_path, changed_types="anew")
    again.bring(("1", "1"), PLAIN, number, "ALTER TABLE orders MODIFY name INT")
    again.bring(("2", "2"), number)
    assert again.fields()[1] == (10, "name", "long")
    assert again.rows("id", "name") == [(1, None), (2, 2)]


def test_a_table_that_is_dropped_and_made_again_goes_on_in_its_log(tmp_path: Path) -> None:
    to = Target(tmp_path)
    old, new = columns(NAME, Column("n", "int"), table_id=1), columns(NAME, Column("n", "date"), table_id=2)
    to.bring(("1", "one", "1"), old, {}, "DROP TABLE orders")
    to.bring(None, {}, new, "CREATE TABLE orders (…)")
    to.bring(("1", "uno", "2020-01-02"), new)
    assert [(key, name) for key, name, _ in to.rows("id", "name", "n")] == [(1, "one"), (1, "uno")]
    record = catalog_of(to.uri).load_table((NAMESPACE, "_ticdc_dump")).scan("what = 'ddl'").to_arrow()
    assert sorted(record["query"].to_pylist()) == ["CREATE TABLE orders (…)", "DROP TABLE orders"]


def test_a_change_whose_batch_is_done_again_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker dies between the table's commit and the position."""
    to, title, query = Target(tmp_path), columns(Column("title", "text")), "ALTER TABLE orders CHANGE name title TEXT"
    batch, outcomes = to.write(("1", "one"), PLAIN, title, query)

    class Died(Exception):
        pass

    def dies(*_: object, **__: object) -> None:
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(PositionKeeper, "accept", dies)
        with pytest.raises(Died):
            to.sink.accept(batch, outcomes)
    snapshots = len(to.table().metadata.snapshots)
    again = Target(tmp_path)
    again.bring(("1", "one"), PLAIN, title, query)
    assert len(again.table().metadata.snapshots) == snapshots
    again.bring(("2", "two"), title)
    assert again.rows("id", "title") == [(1, "one"), (2, "two")]


def test_files_for_columns_that_a_table_has_no_more_are_not_taken(tmp_path: Path) -> None:
    """Somebody alters it, or a former worker that woke up, between the tasks and the commit; who opens next finds what it is."""
    to = Target(tmp_path)
    to.write(None, PLAIN, PLAIN, "")  # makes the table
    batch, outcomes = to.write(("1", "one"), PLAIN, PLAIN, "")
    with to.table().update_schema() as update:
        update.delete_column("name")
    with pytest.raises(SinkError, match="was replaced or altered while this batch was written"):
        to.sink.accept(batch, outcomes)
    again = Target(tmp_path)
    again.bring(("1", "one"), PLAIN)
    assert again.rows("id", "name") == [(1, "one")]


def test_a_table_that_somebody_altered_is_refused(tmp_path: Path) -> None:
    to = Target(tmp_path)
    to.bring(("1", "one"), PLAIN)
    with to.table().update_schema() as update:
        update.delete_column("name")
    again = Target(tmp_path)
    again.seq = to.seq
    with pytest.raises(SinkError, match="has not the columns that this sink gave it"):
        again.write(("2", "two"), PLAIN, PLAIN, "")
