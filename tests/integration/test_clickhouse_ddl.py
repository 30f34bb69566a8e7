"""Schema changes at ClickHouse's engine, each by itself: what the rows that are there have after it, done again, and met by a former
worker's late insert. With whole streams: test_sink_recordings.py."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from sidecar.shared.errors import OwnershipLost, SinkError
from sidecar.shared.log.manifest import DdlRecord, Manifest
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.nouns import Column, ColumnDefinition, CommitTs, Seq, TableDefinition, TableName, TableSchema
from spark_merge.port.contract import Accepted, Batch, Head, Outcome
from spark_merge.sinks.clickhouse.ddl import ClickHouseDdlRunner
from spark_merge.sinks.clickhouse.server import ClickHouseServer
from spark_merge.sinks.clickhouse.sink import ClickHouseSink
from spark_merge.sinks.clickhouse.writer import ClickHouseWriter
from spark_merge.sinks.kit.written import count_rows
from spark_merge.sinks.registry import open_sink
from tests.support.clickhouse_place import rows_of, uri_of
from tests.support.deliveries import Row, Segments, change, write
from tests.support.services.clickhouse import ClickHouse

pytestmark = pytest.mark.xdist_group("clickhouse")

numbers = itertools.count()

Schemas = Mapping[TableName, TableSchema]
ID, NAME = Column("id", "int", nullable=False), Column("name", "text")
OLD, FIVE = Column("old", "int"), Column("five", "int")
FIVE_BY_DEFAULT = TableDefinition((ColumnDefinition("five", "int", default="5"),))


class Shop:
    """Tables `a` and `b` of a database of their own, with two rows each, and a sink that has accepted segment 1."""

    def __init__(self, server: ClickHouse, folder: Path, *columns: Column, **parameters: str) -> None:
        self.server, self.folder = server, folder
        self.database = f"ddl{next(numbers)}"
        self.a, self.b, self.c = (TableName(self.database, name) for name in "abc")
        self.parameters = parameters
        self.schemas = {name: TableSchema(name, (ID, *(columns or (NAME,))), ("id",)) for name in (self.a, self.b)}
        self.sink = self.opened()
        width = len(columns or (NAME,))
        self.rows = [
            change(1, 50 + at, after=[str(at), *[str(at)] * width], table=name, ordinal=at) for name in self.schemas for at in (1, 2)
        ]
        self.batch, outcomes = self.write()
        self.sink.accept(self.batch, outcomes)

    def opened(self, **parameters: str) -> ClickHouseSink:
        uri = uri_of(self.server, f"pos_{self.database}", **self.parameters, **parameters)
        sink = open_sink(uri, log_id="l")
        self.standing = sink.open(epoch=None)
        assert isinstance(sink, ClickHouseSink)
        return sink

    def write(self) -> tuple[Batch, list[Outcome]]:
        return write(self.sink, Segments([1], self.rows), log=open_folder(str(self.folder)), schemas=self.schemas)

    def late(self) -> None:
        """What a task of segment 1 inserts, that had been frozen."""
        writer = self.batch.writer
        assert isinstance(writer, ClickHouseWriter)
        segments = Segments([1], self.rows)
        for task in self.batch.stages[0]:
            replace(writer, output="late")(task, segments.portions(task, self.schemas, open_folder(str(self.folder))))

    def deliver(self, query: str, after: Schemas, rows: Sequence[Row], *, seq: int = 2) -> None:
        """A batch of one segment, which has `rows` and ends with the DDL, from opening to accepting."""
        sink = self.opened()
        batch, outcomes = write(sink, Segments([seq], rows), log=open_folder(str(self.folder)), schemas=self.schemas)
        (head,) = batch.heads
        manifest = replace(head.manifest, ddls=self.head(query, after, seq=seq).ddls)
        head = replace(head, manifest=manifest, next_schemas=after)
        sink.accept(replace(batch, heads=(head,)), outcomes)

    def head(self, query: str, after: Schemas, *, seq: int = 2) -> Head:
        upto_ts = CommitTs(100 * seq)
        ddl = DdlRecord(upto_ts, self.database, "a", query)
        manifest = Manifest(Seq(seq), 1, CommitTs(upto_ts - 100), upto_ts, None, 0, 0, {}, "s", "c", (ddl,), ())
        return Head(manifest, self.schemas, after)

    def carry_out(self, query: str, after: Schemas, *, seq: int = 2) -> None:
        """Twice, the second time as by a worker that does not know of the first; then it is accepted."""
        head = self.head(query, after, seq=seq)
        ClickHouseDdlRunner(self.sink._tables, lambda: None).carry_out(head)
        batch = self.sink.plan([head], cores=1)
        assert batch is not None
        self.sink.accept(Batch((head,), batch.stages, batch.writer), [])
        self.schemas = dict(after)

    def put(self, seq: int, name: TableName, *images: list[str | None]) -> None:
        rows = [change(seq, 100 * seq - 50 + at, after=image, table=name, ordinal=at) for at, image in enumerate(images)]
        segments = Segments([seq], rows)
        self.sink.accept(*write(self.sink, segments, log=open_folder(str(self.folder)), schemas=self.schemas))

    def read(self, name: TableName) -> list[tuple[str | None, ...]]:
        return sorted(rows_of(self.server, self.schemas[name]), key=repr)


def with_columns(schema: TableSchema, *columns: Column, definition: TableDefinition | None = None) -> TableSchema:
    return replace(schema, columns=columns, definition=definition)


def test_a_truncate_leaves_nothing_and_a_late_insert_brings_nothing_back(clickhouse: ClickHouse, tmp_path: Path) -> None:
    shop = Shop(clickhouse, tmp_path)
    shop.carry_out("TRUNCATE TABLE a", shop.schemas)
    assert shop.read(shop.a) == []
    assert clickhouse.rows(f"SELECT count() FROM {shop.database}.a__rows") == [[0]]
    assert len(shop.read(shop.b)) == 2
    shop.put(3, shop.a, ["1", "after"])
    shop.late()
    assert shop.read(shop.a) == [("1", "after")]


def test_a_truncate_by_a_previous_worker_takes_no_newer_row(clickhouse: ClickHouse, tmp_path: Path) -> None:
    shop = Shop(clickhouse, tmp_path)
    head = shop.head("TRUNCATE TABLE a", shop.schemas)
    shop.carry_out("TRUNCATE TABLE a", shop.schemas)
    shop.put(3, shop.a, ["1", "after"])
    ClickHouseDdlRunner(shop.sink._tables, lambda: None).carry_out(head)
    assert shop.read(shop.a) == [("1", "after")]


def test_a_table_that_is_dropped_and_made_again_has_nothing_of_the_previous_one(clickhouse: ClickHouse, tmp_path: Path) -> None:
    shop = Shop(clickhouse, tmp_path)
    a = shop.schemas[shop.a]
    shop.carry_out("DROP TABLE a", {shop.b: shop.schemas[shop.b]})
    assert clickhouse.rows(f"SELECT name FROM system.tables WHERE database = '{shop.database}' ORDER BY name") == [["b"], ["b__rows"]]
    before = shop.batch
    shop.carry_out("CREATE TABLE a (id INT PRIMARY KEY, name TEXT)", {**shop.schemas, shop.a: a}, seq=3)
    shop.batch = before
    shop.late()
    assert shop.read(shop.a) == []
    shop.put(4, shop.a, ["1", "after"])
    assert shop.read(shop.a) == [("1", "after")]


def test_tables_that_take_each_others_names_keep_their_rows(clickhouse: ClickHouse, tmp_path: Path) -> None:
    shop = Shop(clickhouse, tmp_path)
    shop.put(2, shop.a, ["3", "of a"])
    a, b = shop.schemas[shop.a], shop.schemas[shop.b]
    after = {shop.b: replace(a, name=shop.b), shop.a: replace(b, name=shop.a)}
    shop.carry_out("RENAME TABLE a TO c, b TO a, c TO b", after, seq=3)
    assert ("3", "of a") in shop.read(shop.b)
    assert len(shop.read(shop.a)) == 2


def test_columns_come_go_and_are_renamed_and_older_rows_have_what_the_sources_have(clickhouse: ClickHouse, tmp_path: Path) -> None:
    shop = Shop(clickhouse, tmp_path, NAME, Column("old", "int"))
    new, five = Column("new", "text"), Column("five", "decimal", nullable=False, length=10, scale=2)
    definition = TableDefinition((ColumnDefinition("five", "decimal(10,2)", nullable=False, default="'5.50'"),))
    wide = Column("wide", "decimal", length=60, scale=30)
    a = with_columns(shop.schemas[shop.a], ID, new, five, definition=definition)
    shop.carry_out(
        "ALTER TABLE a DROP COLUMN old, RENAME COLUMN name TO new, ADD COLUMN five DECIMAL(10,2) NOT NULL", {**shop.schemas, shop.a: a}
    )
    assert shop.read(shop.a) == [("1", "1", "5.50"), ("2", "2", "5.50")]
    b = with_columns(shop.schemas[shop.b], ID, NAME, replace(wide, name="old"))
    shop.carry_out("ALTER TABLE b MODIFY COLUMN old DECIMAL(60,30)", {**shop.schemas, shop.b: b}, seq=3)
    assert shop.read(shop.b) == [(one, one, f"{one}.{'0' * 30}") for one in ("1", "2")]
    shop.put(4, shop.a, ["1", "x", "7.25"])
    assert ("1", "x", "7.25") in shop.read(shop.a)


@pytest.mark.parametrize(
    ("query", "columns", "key", "reported"),
    [
        ("ALTER TABLE a MODIFY COLUMN name INT", (ID, replace(NAME, kind="int")), ("id",), "name: text becomes int"),
        ("ALTER TABLE a DROP PRIMARY KEY, ADD PRIMARY KEY (name)", (ID, replace(NAME, nullable=False)), ("name",), "handle key changes"),
        ("ALTER TABLE a RENAME COLUMN id TO no", (replace(ID, name="no"), NAME), ("no",), "handle key changes"),
        ("ALTER TABLE a ADD COLUMN x INT", (ID, NAME, Column("x", "int")), ("id",), "x is new"),
        ("ALTER TABLE a DROP PARTITION p0", (ID, NAME), ("id",), "has no partitions"),
    ],
)
def test_what_the_target_cannot_follow_stops_and_goes_on_when_it_was_done_by_hand(
    clickhouse: ClickHouse, tmp_path: Path, query: str, columns: tuple[Column, ...], key: tuple[str, ...], reported: str
) -> None:
    shop = Shop(clickhouse, tmp_path)
    after = {**shop.schemas, shop.a: replace(shop.schemas[shop.a], columns=columns, key=key)}
    with pytest.raises(SinkError, match=reported) as refused:
        shop.carry_out(query, after)
    assert "ddl-done" in refused.value.hint
    by_hand = (
        "DROP TABLE {} SYNC"
        if "PARTITION" not in query
        else "INSERT INTO {0} SELECT * REPLACE (400 AS _version, 1 AS _is_deleted) FROM {0} FINAL"
    )
    clickhouse.execute(by_hand.format(f"{shop.database}.a__rows"))
    shop.sink = shop.opened(ddl_done="200")
    shop.carry_out(query, after)
    assert shop.read(shop.a) == []


def test_a_previous_owner_carries_out_no_ddl(clickhouse: ClickHouse, tmp_path: Path) -> None:
    shop = Shop(clickhouse, tmp_path)
    previous = shop.sink
    shop.opened()
    with pytest.raises(OwnershipLost):
        previous.accept(Batch((shop.head("TRUNCATE TABLE a", shop.schemas),), (), shop.batch.writer), [])
    assert len(shop.read(shop.a)) == 2


def test_a_death_between_any_two_steps_of_a_ddl_leaves_nothing_undone(
    clickhouse: ClickHouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the three that have most steps: names that are swapped, a column that is renamed while others come, a TRUNCATE."""
    shop = Shop(clickhouse, tmp_path, NAME, Column("old", "int"))
    a, b = shop.schemas[shop.a], shop.schemas[shop.b]
    swapped = {shop.b: replace(a, name=shop.b), shop.a: replace(b, name=shop.a)}
    definition = TableDefinition((ColumnDefinition("five", "int", default="5"),))
    new = with_columns(swapped[shop.a], ID, replace(NAME, name="new"), Column("five", "int"), definition=definition)
    steps: list[tuple[str, Schemas]] = [
        ("RENAME TABLE a TO c, b TO a, c TO b", swapped),
        ("ALTER TABLE a CHANGE COLUMN name new TEXT, DROP COLUMN old, ADD COLUMN five INT DEFAULT 5", {**swapped, shop.a: new}),
        ("TRUNCATE TABLE b", {**swapped, shop.a: new}),
    ]
    for seq, (query, after) in enumerate(steps, 2):
        head = shop.head(query, after, seq=seq)
        _die_at_each_step(shop, head, monkeypatch)
        shop.carry_out(query, after, seq=seq)
    assert shop.read(shop.a) == [("1", "1", "5"), ("2", "2", "5")]
    assert shop.read(shop.b) == []


class Died(Exception):
    pass


ALTERED: dict[str, tuple[str, Callable[[Shop], Schemas], str, list[tuple[str | None, ...]]]] = {
    "drop column": (
        "ALTER TABLE a DROP COLUMN old",
        lambda shop: {**shop.schemas, shop.a: with_columns(shop.schemas[shop.a], ID, NAME)},
        "a",
        [("1", "x"), ("2", "2"), ("3", "z")],
    ),
    "rename": (
        "RENAME TABLE a TO c",
        lambda shop: {shop.b: shop.schemas[shop.b], shop.c: replace(shop.schemas[shop.a], name=shop.c)},
        "c",
        [("1", "x", "7"), ("2", "2", "2"), ("3", "z", None)],
    ),
    "drop": ("DROP TABLE a", lambda shop: {shop.b: shop.schemas[shop.b]}, "", []),
    "add column": (
        "ALTER TABLE a ADD COLUMN five INT DEFAULT 5",
        lambda shop: {**shop.schemas, shop.a: with_columns(shop.schemas[shop.a], ID, NAME, OLD, FIVE, definition=FIVE_BY_DEFAULT)},
        "a",
        [("1", "x", "7", "5"), ("2", "2", "2", "5"), ("3", "z", None, "5")],
    ),
    "modify column": (
        "ALTER TABLE a MODIFY COLUMN old BIGINT",
        lambda shop: {**shop.schemas, shop.a: with_columns(shop.schemas[shop.a], ID, NAME, replace(OLD, kind="decimal", length=20))},
        "a",
        [("1", "x", "7"), ("2", "2", "2"), ("3", "z", None)],
    ),
}


@pytest.mark.parametrize("altered", ALTERED)
def test_a_death_between_any_two_steps_of_a_batch_with_rows_of_the_altered_table_changes_nothing(
    clickhouse: ClickHouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, altered: str
) -> None:
    shop = Shop(clickhouse, tmp_path, NAME, OLD)
    query, changed, name, expected = ALTERED[altered]
    after = changed(shop)
    images: list[tuple[TableName, list[str | None]]] = [(shop.a, ["1", "x", "7"]), (shop.a, ["3", "z", None]), (shop.b, ["1", "y", None])]
    rows = [change(2, 150 + at, after=image, table=table, ordinal=at) for at, (table, image) in enumerate(images)]
    assert _lives(lambda: shop.deliver(query, after, rows), monkeypatch) > 5
    shop.schemas, shop.sink = dict(after), shop.opened()
    assert shop.read(shop.b) == [("1", "y", None), ("2", "2", "2")]
    there = clickhouse.rows(f"SELECT name FROM system.tables WHERE database = '{shop.database}' AND name LIKE '%\\_\\_rows' ORDER BY name")
    assert there == [[f"{table.table}__rows"] for table in sorted(after)]
    if name:
        table = TableName(shop.database, name)
        assert shop.read(table) == expected
        later = ["9", *[None] * (len(expected[0]) - 1)]
        shop.put(3, table, later)
        assert shop.read(table) == [*expected, tuple(later)]


def _die_at_each_step(shop: Shop, head: Head, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _lives(lambda: ClickHouseDdlRunner(shop.sink._tables, lambda: None).carry_out(head), monkeypatch) > 2


def _lives(act: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> int:
    """Each dies before its statement of one number more, until one comes to the end; how many died."""
    for lives in range(100):
        left = [lives]

        def mortal(call: Callable[..., object], left: list[int] = left) -> Callable[..., object]:
            def step(*args: object, **named: object) -> object:
                if left[0] == 0:
                    raise Died
                left[0] -= 1
                return call(*args, **named)

            return step

        with monkeypatch.context() as patch:
            for name in ("run", "insert"):
                patch.setattr(ClickHouseServer, name, mortal(getattr(ClickHouseServer, name)))
            try:
                act()
                return lives
            except Died:
                continue
    pytest.fail("it never came to its end")


def test_a_batch_is_written_from_before_its_ddl_until_it_is_accepted(
    clickhouse: ClickHouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Written is not accepted for who waits for a moment."""
    shop = Shop(clickhouse, tmp_path)
    rows = [change(2, 150, after=["1", "x"], table=shop.a)]
    with monkeypatch.context() as patch:
        patch.setattr(ClickHouseDdlRunner, "carry_out", _dies)
        with pytest.raises(Died):
            shop.deliver("TRUNCATE TABLE b", shop.schemas, rows)
    assert clickhouse.rows(f"SELECT max(upto_ts) FROM pos_{shop.database}.ticdc_dump_position") == [[100]]
    sink, head = shop.opened(), shop.head("TRUNCATE TABLE b", shop.schemas)
    assert shop.standing.accepted is not None
    assert (shop.standing.accepted.seq, shop.standing.begun) == (1, Accepted(head.seq, manifest=head.manifest.id))
    assert sink.plan([head], cores=1).writer is count_rows
    shop.deliver("TRUNCATE TABLE b", shop.schemas, rows)
    shop.opened()
    assert (shop.standing.accepted and shop.standing.accepted.seq, shop.standing.begun) == (2, None)
    assert (shop.read(shop.a), shop.read(shop.b)) == ([("1", "x"), ("2", "2")], [])


def _dies(*_: object) -> None:
    raise Died
