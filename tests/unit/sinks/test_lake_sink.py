"""The sink over a lake, with a lake in memory: when it looks at a table, what it commits, in which order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from sidecar.shared.errors import OwnershipLost, SinkError
from sidecar.shared.log.manifest import DdlRecord
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.nouns import Column, CommitTs, Seq, TableName, TableSchema
from sidecar.shared.model.sink_delivery import TableFiles
from spark_merge.merge.cut import units
from spark_merge.port.contract import Head, Outcome, Owner, Writer
from spark_merge.port.kinds import SinkKind, SinkUri
from spark_merge.port.maintained import FileTotals
from spark_merge.sinks.delta.sink import DELTA
from spark_merge.sinks.delta.uri import DeltaSettings
from spark_merge.sinks.iceberg.sink import ICEBERG
from spark_merge.sinks.kit.position import OutputState, PositionKeeper
from spark_merge.sinks.lake.ddl import LakeAltered, MergeRules, Mode
from spark_merge.sinks.lake.lake_sink import LakeSink, TableShare
from spark_merge.sinks.memory.positions import MemoryPositions
from tests.support.deliveries import ORDERS, SCHEMA, Segments, change

ITEMS = TableName("shop", "items")
OTHER = replace(SCHEMA, name=ITEMS)
WIDER = replace(SCHEMA, columns=(*SCHEMA.columns, Column("more", "int")))


class File(NamedTuple):
    table: TableName


class MemoryLake:
    """`LakeTables`: what it was called for, in order."""

    rules = MergeRules("tables in memory", "they stay", "memory", lambda _: "", lambda *_: True)

    def __init__(self, *, rows_first: bool, at_once_max: int = 1) -> None:
        self.rows_first, self.at_once_max, self.calls = rows_first, at_once_max, list[str]()
        self.totals: dict[TableName, FileTotals] = {}

    def opened(self, state: OutputState[None]) -> None:
        self.calls.append(f"opened by {state.owner.incarnation}")

    def target(self, schema: TableSchema, last: Head) -> int:
        self.calls.append(f"looked at {schema.name.table}")
        return last.seq

    def bring(self, share: TableShare[int]) -> int | None:
        files, altered = "rows " * bool(share.files), "ddl " * (share.altered is not None)
        self.calls.append(f"{files}{altered}to {share.name.table}")
        return share.target

    @contextmanager
    def recorded(
        self, heads: Sequence[Head], files: Mapping[TableName, Sequence[Any]], altered: Mapping[TableName, LakeAltered]
    ) -> Iterator[list[str]]:
        yield [name.table for name in sorted(files)]
        self.calls.append(f"recorded {heads[-1].seq}, altered {len(altered)}")

    def close(self) -> None:
        """Nothing is held."""


def sink_of(lake: MemoryLake, positions: MemoryPositions[None, Any], mode: Mode = "merge", done: int = -1) -> LakeSink[int]:
    settings = DeltaSettings(open_folder("file:///out"), mode, ddl_done=frozenset({CommitTs(done)}))

    def writer(_: Mapping[TableName, int], __: Owner) -> Writer:
        return lambda task, portions: Outcome(task.id, {}, list(portions))

    return LakeSink(
        settings,
        PositionKeeper(positions, log_id="log-1", remedy=""),
        lake,
        lambda heads: units(heads, chunk_parts=0),
        writer,
        lambda _: pytest.fail("nothing is read"),
    )


def batch(sink: LakeSink[int], seq: int, *names: TableName, ddl: str = "", after: TableSchema = SCHEMA) -> None:
    ddls = {seq: (DdlRecord(CommitTs(100 * seq), *ORDERS, ddl),)} if ddl else {}
    before = SCHEMA if after is not WIDER or ddl else WIDER
    (head,) = Segments([seq], [change(seq, 100 * seq - 1, after=("1", "a"), table=name) for name in names], ddls).heads(
        {ORDERS: before, ITEMS: OTHER}
    )
    head = replace(head, manifest=replace(head.manifest, table_rows=dict.fromkeys(names, 1)))
    head = replace(head, next_schemas={ORDERS: after, ITEMS: OTHER}) if ddl else head
    sink.accept(sink.plan([head], cores=1), [Outcome("0", {}, [File(name) for name in names])])


@pytest.mark.parametrize("at_once_max", [1, 2])
def test_a_table_is_looked_at_once_until_its_schema_changes_or_a_ddl_alters_it(at_once_max: int) -> None:
    lake, positions = MemoryLake(rows_first=True, at_once_max=at_once_max), MemoryPositions[None, Any]()
    sink = sink_of(lake, positions)
    sink.open(epoch=None)
    batch(sink, 1, ORDERS, ITEMS)
    batch(sink, 2, ORDERS, ITEMS, ddl="TRUNCATE TABLE orders")
    batch(sink, 3, ORDERS, ITEMS, ddl="ALTER TABLE orders ADD more INT", after=WIDER)
    batch(sink, 4, ORDERS, ITEMS, after=WIDER)
    looks = [call.removeprefix("looked at ") for call in lake.calls if call.startswith("looked")]
    assert sorted(looks) == ["items", "orders", "orders", "orders"]
    sink_of(lake, positions).open(epoch=None)
    lake.calls.clear()
    sink.open(epoch=None)
    batch(sink, 5, ORDERS, after=WIDER)
    assert "looked at orders" in lake.calls, "an owner believes nothing of an earlier one's"


@pytest.mark.parametrize(
    ("rows_first", "calls"),
    [
        (True, ["rows to orders", "ddl to orders", "recorded 1, altered 1"]),
        (False, ["rows ddl to orders", "recorded 1, altered 1"]),
    ],
)
def test_rows_come_before_the_ddl_or_with_it_and_the_record_last(rows_first: bool, calls: list[str]) -> None:
    lake, positions = MemoryLake(rows_first=rows_first), MemoryPositions[None, Any]()
    sink = sink_of(lake, positions)
    sink.open(epoch=None)
    batch(sink, 1, ORDERS, ddl="TRUNCATE TABLE orders")
    assert lake.calls == ["opened by 1", "looked at orders", *calls]
    assert positions.payloads == [["orders"]]


@pytest.mark.parametrize("rows_first", [True, False])
def test_a_ddl_that_no_table_follows_alters_none_and_is_not_accepted(rows_first: bool) -> None:
    lake, positions = MemoryLake(rows_first=rows_first), MemoryPositions[None, Any]()
    sink, query = sink_of(lake, positions), "ALTER TABLE orders EXCHANGE PARTITION p0 WITH TABLE items"
    sink.open(epoch=None)
    with pytest.raises(SinkError, match="cannot be carried out on tables in memory"):
        batch(sink, 1, ORDERS, ddl=query)
    assert lake.calls[2:] == ["rows to orders"] * rows_first, "who carries it out by hand sees the rows of before it"
    assert sink.look() is None
    sink = sink_of(lake, positions, done=100)
    sink.open(epoch=None)
    batch(sink, 1, ORDERS, ddl=query)
    assert (accepted := sink.look()) is not None
    assert accepted.seq == Seq(1)


def test_files_are_counted_of_tables_that_have_been_committed_until_they_go() -> None:
    lake, positions = MemoryLake(rows_first=True), MemoryPositions[None, Any]()
    sink = sink_of(lake, positions)
    sink.open(epoch=None)
    lake.totals = {ITEMS: FileTotals(7, 1 << 30), ORDERS: FileTotals(7, 6)}
    assert sink.small_files() == [TableFiles("shop", "items", 7, 0), TableFiles("shop", "orders", 7, 6)]
    (head,) = Segments([1], (), {1: (DdlRecord(CommitTs(100), *ITEMS, "DROP TABLE items"),)}).heads({ORDERS: SCHEMA, ITEMS: OTHER})
    sink.accept(sink.plan([replace(head, next_schemas={ORDERS: SCHEMA})], cores=1), [])
    assert sink.small_files() == [TableFiles("shop", "orders", 7, 6)]


def test_an_earlier_owner_commits_to_no_table() -> None:
    lake, positions = MemoryLake(rows_first=True), MemoryPositions[None, Any]()
    sink = sink_of(lake, positions)
    sink.open(epoch=None)
    sink_of(lake, positions).open(epoch=None)
    with pytest.raises(OwnershipLost):
        batch(sink, 1, ORDERS)
    assert lake.calls == ["opened by 1", "opened by 2", "looked at orders"]


@pytest.mark.parametrize("mode", ["append", "merge"])
@pytest.mark.parametrize(("kind", "uri"), [(DELTA, "delta:///out?"), (ICEBERG, "iceberg://lake/out?")])
def test_a_key_that_is_no_exact_number_misfits_merged_tables_alone(kind: SinkKind, uri: str, mode: Mode) -> None:
    assert kind.misfits is not None
    floating = TableSchema(ITEMS, (Column("id", "double", nullable=False),), ("id",))
    reported = list(kind.misfits(SinkUri(f"{uri}mode={mode}", urlsplit(uri), {"mode": mode}, "log-1"), [SCHEMA, floating]))
    assert ["floating-point" in why for why, _ in reported] == [True] * (mode == "merge")
