"""A table's rows and schema changes by hand: values that have no exact form elsewhere, and what a merged table has after each DDL."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pytest

from sidecar.core.model import Column, ColumnDefinition, CommitTs, TableDefinition, TableName, TableSchema
from sidecar.errors import SinkError
from sidecar.log.manifest import DdlRecord
from sidecar.log.storage import open_folder
from spark_merge.contract import Sink
from spark_merge.sinks.delta.columns import Mode
from spark_merge.sinks.registry import open_sink
from tests.support.deliveries import ORDERS, Segments, change
from tests.support.delta_place import Texts, delta_table, folder_of, rows_of

KEY = Column("id", "int", nullable=False)

HARD: list[tuple[Column, list[str | None]]] = [
    (Column("i", "int"), ["-9223372036854775808", "9223372036854775807", None]),
    (Column("u", "uint"), ["18446744073709551615", "0", None]),
    (Column("b", "bit", length=64), ["18446744073709551615", "1", None]),
    (Column("f", "float"), ["3.4028234663852886e+38", "0.10000000149011612", None]),
    (Column("g", "double"), ["1.7976931348623157e+308", "5e-324", None]),
    (Column("d", "decimal", length=38, scale=30), ["-12345678.000000000000000000000000000001", "0." + "0" * 30, None]),
    (Column("e", "decimal", length=65, scale=30), [f"{'9' * 35}.{'9' * 30}", "-0." + "0" * 29 + "1", None]),
    (Column("day", "date"), ["0001-01-01", "0000-00-00", "2020-02-30", "9999-12-31", None]),
    (Column("at", "datetime", scale=6), ["9999-12-31 23:59:59.999999", "0000-00-00 00:00:00.000000", "2020-00-10 01:02:03.000004", None]),
    (Column("ts", "timestamp", scale=3), ["2038-01-19 03:14:07.120", "0000-00-00 00:00:00.000", None]),
    (Column("t", "time", scale=6), ["-838:59:59.000000", "838:59:59.999999", None]),
    (Column("y", "year"), ["0000", "2155", None]),
    (Column("x", "binary"), ["00FF", "", None]),
    (Column("s", "text"), ["", "漢\x00'\"`", None]),
    (Column("en", "enum", elements=("a", "b")), ["a", None]),
    (Column("se", "set", elements=("a", "b")), ["a,b", "", None]),
    (Column("j", "json"), ['{"a": [1, null]}', None]),
    (Column("v", "vector"), ["[1,2.5]", None]),
]
DELTA_TYPES = {
    "i": "long", "u": "decimal(20,0)", "b": "decimal(20,0)", "f": "float", "g": "double", "d": "decimal(38,30)", "e": "string",
    "day": "date", "at": "timestamp_ntz", "ts": "timestamp", "t": "string", "y": "short", "x": "binary", "s": "string", "en": "string",
    "se": "string", "j": "string", "v": "string",
}  # fmt: skip


@dataclass
class Story:
    """A sink, and a table as it is at each segment."""

    folder: Path
    mode: Mode
    parameters: str = ""
    schemas: Mapping[TableName, TableSchema] = field(default_factory=dict)
    seq: int = -1

    def deliver(self, *changes: tuple[Texts | None, Texts | None], ddl: str = "", after: TableSchema | None = None) -> None:
        """Rows (before, after) of a segment, ended by a DDL after which the table is `after`."""
        self.seq += 1
        rows = [
            change(self.seq, 100 * self.seq + number - 99, before=before, after=now, ordinal=number)
            for number, (before, now) in enumerate(changes)
        ]
        ddls = {self.seq: (DdlRecord(CommitTs(100 * self.seq), ORDERS.schema, ORDERS.table, ddl),)} if ddl else {}
        segments = Segments([self.seq], rows, ddls)
        sink, log = self.sink(), open_folder(str(self.folder / "log"))
        sink.open(epoch=None)
        then = {ORDERS: after} if after else self.schemas
        batch = sink.plan([replace(head, next_schemas=then) for head in segments.heads(self.schemas)], cores=2)
        assert batch is not None
        writer = pickle.loads(pickle.dumps(batch.writer))
        outcomes = [writer(task, segments.portions(task, self.schemas, log)) for task in batch.stages[0]]
        sink.accept(batch, outcomes)
        self.schemas = then

    def sink(self) -> Sink:
        return open_sink(self.uri, log_id="log-1")

    @property
    def uri(self) -> str:
        return f"delta://{self.folder}/out?mode={self.mode}{self.parameters}"

    def rows(self) -> list[Texts]:
        return sorted(rows_of(folder_of(self.uri), self.mode, self.schemas[ORDERS]), key=repr)

    def raw(self) -> pa.Table:
        found = delta_table(folder_of(self.uri), ORDERS)
        assert found is not None
        return pa.table(found.scan())


def table(*columns: Column, defined: Mapping[str, str] | None = None) -> TableSchema:
    definitions = tuple(ColumnDefinition(one.name, "", one.nullable, default=(defined or {}).get(one.name)) for one in (KEY, *columns))
    return TableSchema(ORDERS, (KEY, *columns), ("id",), definition=TableDefinition(definitions))


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
    found = delta_table(folder_of(story.uri), ORDERS)
    assert found is not None
    types = {one.name: getattr(one.type, "type", None) for one in found.schema().fields}
    assert {name: types[name] for name in DELTA_TYPES} == DELTA_TYPES


def test_merged_rows_follow_each_schema_change(tmp_path: Path) -> None:
    a, b = Column("a", "uint"), Column("b", "text")
    story = Story(tmp_path, "merge", schemas={ORDERS: table(a, b)})
    story.deliver(
        (None, ("1", "7", "x")), (None, ("2", None, "y")), ddl="ALTER TABLE orders MODIFY a BIGINT", after=table(Column("a", "int"), b)
    )
    assert story.rows() == [("1", "7", "x"), ("2", None, "y")]
    c = Column("c", "decimal", length=5, scale=2)
    story.deliver(ddl="ALTER TABLE orders ADD c DECIMAL(5,2) DEFAULT 1.5", after=table(Column("a", "int"), b, c, defined={"c": "'1.50'"}))
    assert story.rows() == [("1", "7", "x", "1.50"), ("2", None, "y", "1.50")]
    d = replace(c, name="d")
    story.deliver(
        (("2", None, "y", "1.50"), None), ddl="ALTER TABLE orders RENAME COLUMN c TO d, DROP COLUMN b", after=table(Column("a", "int"), d)
    )
    assert story.rows() == [("1", "7", "1.50")]
    story.deliver((None, ("3", "-1", None)), ddl="ALTER TABLE orders ADD b TEXT", after=table(Column("a", "int"), d, b))
    assert story.rows() == [("1", "7", "1.50", None), ("3", "-1", None, None)]
    assert story.raw().column_names == ["_commit_ts", "_untyped", "id", "a", "b", "a_2", "c", "d"]
    assert story.raw()["a"].null_count == story.raw()["c"].null_count == story.raw()["b"].null_count == 2
    story.deliver((None, ("4", "0", None, "z")), ddl="TRUNCATE TABLE orders", after=story.schemas[ORDERS])
    assert story.rows() == []
    story.deliver((None, ("5", "0", None, "z")))
    assert story.rows() == [("5", "0", None, "z")]


def test_a_schema_change_that_is_not_followed_leaves_rows_as_they_were(tmp_path: Path) -> None:
    a = Column("a", "text")
    story = Story(tmp_path, "merge", schemas={ORDERS: table(a)})
    with pytest.raises(SinkError, match="may be others as a int") as refused:
        story.deliver((None, ("1", "7")), ddl="ALTER TABLE orders MODIFY a INT", after=table(Column("a", "int")))
    assert "ddl-done=0" in refused.value.hint
    assert story.rows() == [("1", "7")]
    story.seq, story.parameters = -1, "&ddl-done=0"
    story.deliver((None, ("1", "7")), ddl="ALTER TABLE orders MODIFY a INT", after=table(Column("a", "int")))
    assert story.rows() == [("1", None)]


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
