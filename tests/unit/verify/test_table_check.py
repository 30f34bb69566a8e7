"""A comparison of a sink that is written while its source changes: it names each fault, and nothing else."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from time import sleep
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from sidecar.shared.errors import SinkError, SourceChanged, SourceLost
from sidecar.shared.log.identity import known_id
from sidecar.shared.log.sink_tables import write_sink_tables
from sidecar.shared.log.verification import CheckState, RequestedTable, Slice, Unjudged
from sidecar.shared.model.keyset import Key
from sidecar.shared.model.nouns import CommitTs, Seq, TableName, TableSchema
from sidecar.shared.model.sink_delivery import SinkTables
from sidecar.shared.mysql.key_ranges import KeySpan
from spark_merge.merge.rule import Image
from spark_merge.port.contract import Accepted
from spark_merge.port.readable import Reading, ReadPart, RowsRead
from spark_merge.sinks.registry import open_sink
from spark_merge.sinks.sqlite import reading, sink
from spark_merge.verify import chosen, compare, keeping_up, positions, table_check
from spark_merge.verify.compare import BucketDifference
from spark_merge.verify.digest import DigestWork
from spark_merge.verify.moving import Moving
from spark_merge.verify.positions import Positions
from spark_merge.verify.table_check import TableCheck
from spark_merge.verify.tally import DUPLICATES
from tests.support.table_shapes import TABLE
from tests.support.verified import InOrder, World, WorldPart, WorldSource


def check_of(world: World, uri: str, *, where: str = "", hidden: Sequence[str] = (), **parts: Any) -> TableCheck:
    """`hidden`: kinds of differences that the changefeed's filter explains. `parts`: `sample` and `slice`, and of the context."""
    sink, of_check = open_sink(uri, log_id="log-1"), {name: parts.pop(name) for name in ("sample", "slice") if name in parts}
    table = RequestedTable(TABLE.schema, TABLE.table, where)
    unjudged = [Unjudged("mine", *TABLE, (kind,), "hidden") for kind in hidden]
    return TableCheck(world.context(**parts), "mine", sink, table, "one", unjudged=unjudged, **of_check)  # type: ignore[arg-type]  # it can be read


def in_slices(world: World, uri: str, *, rows: int) -> list[TableCheck]:
    """Of the whole table, one after another."""
    checks, after = list[TableCheck](), Key()
    while not checks or after:
        check = check_of(world, uri, slice=Slice(after, (), rows))
        check.run()
        checks.append(check)
        after = check.report.upper
    return checks


def world_of(tmp_path: Path, seed: int, uri: str, *, snapshots: bool) -> World:
    world = World(tmp_path, Random(seed), snapshots=snapshots)
    world.follow(open_sink(uri, log_id="log-1"))
    return world


class Sqlite:
    """What somebody does to the output behind the sink's back."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def spoil(self, world: World, rng: Random) -> dict[Image, str]:
        """What each spoilt key is then."""
        spoil: dict[Image, str] = {}
        with closing(sqlite3.connect(self.path)) as db, db:
            for number in rng.sample(range(world.keys), 8):
                key = world.key(number)
                there = key in world.rows
                if not there:
                    db.execute('INSERT INTO "s.t" (id, part, v) VALUES (?, ?, ?)', (*key, "extra"))
                    spoil[key] = "extra"
                elif rng.random() < 0.4:
                    db.execute('DELETE FROM "s.t" WHERE id = ? AND part = ?', key)
                    spoil[key] = "missing"
                else:
                    other = next(one for one in ("", None, "X") if one != world.rows[key][2])
                    db.execute('UPDATE "s.t" SET v = ? WHERE id = ? AND part = ?', (other, *key))
                    spoil[key] = "different"
            return spoil

    def add(self, key: Image, v: str | None) -> None:
        """A second row of a key: somebody has made the table again without its primary key."""
        with closing(sqlite3.connect(self.path)) as db, db:
            db.execute('CREATE TABLE other AS SELECT * FROM "s.t"')
            db.execute('DROP TABLE "s.t"')
            db.execute('ALTER TABLE other RENAME TO "s.t"')
            db.execute('INSERT INTO "s.t" (id, part, v) VALUES (?, ?, ?)', (*key, v))

    def put(self, key: Image, v: str | None) -> None:
        with closing(sqlite3.connect(self.path)) as db, db:
            db.execute('INSERT OR REPLACE INTO "s.t" (id, part, v) VALUES (?, ?, ?)', (*key, v))

    def delete(self, key: Image) -> None:
        with closing(sqlite3.connect(self.path)) as db, db:
            db.execute('DELETE FROM "s.t" WHERE id = ? AND part = ?', key)


OUTPUTS = ["sqlite:///{}/out.db", "file://{}/out?format=parquet", "file://{}/out?format=jsonl"]


@pytest.mark.parametrize("snapshots", [True, False])
@pytest.mark.parametrize("output", OUTPUTS)
def test_a_sink_that_follows_has_no_difference_whatever_happens_meanwhile(tmp_path: Path, output: str, snapshots: bool) -> None:
    for seed in range(5):
        uri = output.format(tmp_path / str(seed))
        world = world_of(tmp_path / str(seed), seed, uri, snapshots=snapshots)
        report = check_of(world, uri).run()
        assert (report.state, report.differences, report.examples) == (CheckState.EQUAL, 0, []), seed
        assert report.rows > 10


@pytest.mark.parametrize("snapshots", [True, False])
def test_each_fault_is_named_and_nothing_else(tmp_path: Path, snapshots: bool) -> None:
    named = 0
    for seed in range(8):
        uri = f"sqlite:///{tmp_path}/{seed}/out.db"
        world = world_of(tmp_path / str(seed), seed, uri, snapshots=snapshots)
        spoilt, since_ts = Sqlite(tmp_path / str(seed) / "out.db").spoil(world, Random(seed)), world.ts
        check = check_of(world, uri)
        report = check.run()
        healed = {key for ts, key in world.changed if ts > since_ts}
        result = {one.key: one.kind for one in check.tally.differences}
        assert result.items() <= spoilt.items(), seed
        assert spoilt.keys() - healed <= result.keys(), seed
        assert (report.differences, report.moving) == (len(result), 0)
        assert {cell.column for one in check.tally.differences for cell in one.cells} <= {"v"}
        named += len(result)
    assert named > 10, "how many are healed before they are named depends on time"


def test_a_row_without_a_key_fails_its_table_with_what_to_do(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/out.db"
    world = world_of(tmp_path, 1, uri, snapshots=True)
    world.busy = 1
    Sqlite(tmp_path / "out.db").add((None, "1"), "x")
    with pytest.raises(SinkError, match=r"1 rows of s\.t have NULL in a column of the key") as failed:
        check_of(world, uri).run()
    assert failed.value.hint.endswith("delete these rows in the sink, and verify again")


@pytest.mark.parametrize("by_keys", [False, True])
@pytest.mark.parametrize("same", [True, False], ids=["the same row", "another row"])
def test_a_key_with_two_rows_is_a_duplicate_also_in_a_sink_that_finds_one_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, same: bool, by_keys: bool
) -> None:
    uri = f"sqlite:///{tmp_path}/out.db"
    world = world_of(tmp_path, 3, uri, snapshots=True)
    world.busy = 1
    key = min(world.rows)
    Sqlite(tmp_path / "out.db").add(key[:2], world.rows[key][2] if same else "other")
    check = check_of(world, uri, slice=Slice((), (), 10) if by_keys else None)
    if not by_keys:
        monkeypatch.setattr(type(check.sink), "reading", finding_one(type(check.sink).reading))
    report = check.run()
    assert [(one.kind, one.key) for one in check.tally.all()] == [("duplicate", key[:2])]
    assert [cell.column for one in check.tally.all() for cell in one.cells] == ([] if same else ["v"])
    assert (report.state, report.duplicate, report.differences, report.why) == (CheckState.DIFFERENT, 1, 1, DUPLICATES)


def test_a_second_row_of_a_key_in_a_merged_lake_is_a_duplicate(tmp_path: Path) -> None:
    uri = f"delta://{tmp_path}/lake?mode=merge"
    world = world_of(tmp_path, 3, uri, snapshots=True)
    world.busy = 1
    place = str(tmp_path / "lake" / TABLE.schema / TABLE.table)
    write_deltalake(place, DeltaTable(place).to_pyarrow_table().slice(0, 1), mode="append")
    report = check_of(world, uri).run()
    assert (report.state, report.duplicate, report.differences) == (CheckState.DIFFERENT, 1, 1)


def finding_one(reading_: Callable[..., Reading]) -> Callable[..., Reading]:
    """Of a sink that finds a row by its key alone: OpenSearch by the document's id, and not a document of another id."""

    def found(sink: object, schema: TableSchema, *, parts: int, keys: pa.Table | None = None) -> Reading:
        made = reading_(sink, schema, parts=parts, keys=keys)
        return made if keys is None else replace(made, parts=tuple(partial(first_of_each, part, schema) for part in made.parts))

    return found


def first_of_each(part: ReadPart, schema: TableSchema) -> Iterator[RowsRead]:
    for item in part():
        rows = {tuple(row[name] for name in schema.key): row for row in item.rows.to_pylist()}
        yield RowsRead(pa.Table.from_pylist(list(rows.values()), schema=item.rows.schema))


@pytest.mark.parametrize("hidden", [("extra",), ("different",), ("missing", "extra"), ("missing", "extra", "different")], ids=str)
def test_differences_that_the_filter_explains_are_counted_and_are_none(tmp_path: Path, hidden: Sequence[str]) -> None:
    uri = f"sqlite:///{tmp_path}/out.db"
    world = world_of(tmp_path, 5, uri, snapshots=True)
    world.busy = 1
    spoilt = Sqlite(tmp_path / "out.db").spoil(world, Random(5))
    check = check_of(world, uri, hidden=hidden)
    report = check.run()
    assert set(spoilt.values()) == {"missing", "extra", "different"}
    assert {one.key: one.kind for one in check.tally.all()} == {key: kind for key, kind in spoilt.items() if kind not in hidden}
    assert report.expected == sum(kind in hidden for kind in spoilt.values())
    assert report.equal == len(world.rows) - sum(kind != "extra" for kind in spoilt.values())
    assert report.state is (CheckState.SKIPPED if len(hidden) == 3 else CheckState.DIFFERENT)


@pytest.mark.parametrize(("where", "sample"), [("part = '1'", 1.0), ("", 0.3), ("", 0.01), ("part = '1'", 0.01)])
def test_of_a_part_of_the_rows_no_extra_ones_are_reported(tmp_path: Path, where: str, sample: float) -> None:
    named = 0
    for seed in range(6):
        uri = f"sqlite:///{tmp_path}/{seed}/out.db"
        world = world_of(tmp_path / str(seed), seed, uri, snapshots=bool(seed % 2))
        spoilt = Sqlite(tmp_path / str(seed) / "out.db").spoil(world, Random(seed))
        check = check_of(world, uri, where=where, sample=sample)
        report = check.run()
        assert report.partial
        assert 0 < report.rows < len(world.rows)
        result = {one.key: one.kind for one in check.tally.differences}
        assert result.items() <= {key: kind for key, kind in spoilt.items() if kind != "extra"}.items(), seed
        assert all(key[1] == "1" for key in result if where)
        named += len(result)
    assert named > 2


@pytest.mark.parametrize("output", OUTPUTS[:1])
@pytest.mark.parametrize("snapshots", [True, False])
def test_a_part_of_a_sink_that_follows_has_no_difference_whatever_happens_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str, snapshots: bool
) -> None:
    monkeypatch.setattr(chosen, "PART_ROWS", 5)
    for seed in range(3):
        uri = output.format(tmp_path / str(seed))
        world = world_of(tmp_path / str(seed), seed, uri, snapshots=snapshots)
        reports = [check_of(world, uri, sample=0.01).run(), *(check.report for check in in_slices(world, uri, rows=10))]
        assert {(report.state, report.differences) for report in reports} == {(CheckState.EQUAL, 0)}, seed
        assert len(reports) > 2


@pytest.mark.parametrize("snapshots", [True, False])
def test_slices_name_each_fault_but_extra_rows_once_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, snapshots: bool
) -> None:
    monkeypatch.setattr(chosen, "PART_ROWS", 5)
    named = 0
    for seed in range(8):
        uri = f"sqlite:///{tmp_path}/{seed}/out.db"
        world = world_of(tmp_path / str(seed), seed, uri, snapshots=snapshots)
        spoilt, since_ts = Sqlite(tmp_path / str(seed) / "out.db").spoil(world, Random(seed)), world.ts
        checks = in_slices(world, uri, rows=10)
        healed = {key for ts, key in world.changed if ts > since_ts}
        results = [(one.key, one.kind) for check in checks for one in check.tally.differences]
        assert len(dict(results)) == len(results), "by one slice"
        assert set(results) <= spoilt.items(), seed
        assert {key for key, kind in spoilt.items() if kind != "extra"} - healed <= dict(results).keys(), seed
        assert all(check.report.partial for check in checks)
        named += len(results)
    assert named > 10, "how many are healed before they are named depends on time"


@pytest.mark.parametrize(
    ("output", "rows"), [(OUTPUTS[0], 1000), (OUTPUTS[1], 5)], ids=["a table of few rows", "a sink that finds no keys"]
)
def test_a_slice_that_cannot_be_less_is_the_whole_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str, rows: int) -> None:
    monkeypatch.setattr(chosen, "PART_ROWS", 5)
    uri = output.format(tmp_path)
    world = world_of(tmp_path, 1, uri, snapshots=True)
    [check] = in_slices(world, uri, rows=rows)
    assert not check.report.partial, "extra rows are looked for"
    assert check.report.rows_total <= check.report.rows + 20


@pytest.mark.parametrize("cuts", [True, False], ids=["its key can be cut", "its key cannot be cut"])
@pytest.mark.parametrize("statistics", [1, 40, 5_000])
def test_whatever_the_statistics_say_ranges_and_buckets_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statistics: int, cuts: bool
) -> None:
    """And each fault is named once, though ranges are read again in smaller ones."""
    part_rows, read, bucket = 3, list[int](), list[int]()
    for module in (chosen, table_check):
        monkeypatch.setattr(module, "PART_ROWS", part_rows)
    monkeypatch.setattr(chosen, "COUNTED_MAX", 4)
    monkeypatch.setattr(table_check, "BUCKET_ROWS", 40)
    monkeypatch.setattr(table_check, "BUCKET_ROWS_MAX", 80)
    monkeypatch.setattr(WorldSource, "rows", lambda *_: statistics)
    if not cuts:
        monkeypatch.setattr(WorldSource, "walk", lambda *_, **__: [KeySpan()])
        monkeypatch.setattr(WorldSource, "cut", lambda *_, **__: [KeySpan()])
    work, result_of = DigestWork.__call__, compare.compared

    def digested(self: DigestWork) -> list[tuple[str, int]] | None:
        result = work(self)
        read.append(sum(rows for _, rows in result or ()) if "source" in self.path else 0)
        return result

    def compared(source: pa.Table, sink: pa.Table) -> BucketDifference:
        bucket.append(source.num_rows + sink.num_rows)
        return result_of(source, sink)

    monkeypatch.setattr(DigestWork, "__call__", digested)
    monkeypatch.setattr(compare, "compared", compared)
    world = World(tmp_path, Random(1), keys=300)
    world.live = lambda _=0: None  # type: ignore[method-assign]  # nothing heals a fault
    uri = f"sqlite:///{tmp_path}/out.db"
    world.follow(open_sink(uri, log_id="log-1"))
    spoilt = Sqlite(tmp_path / "out.db").spoil(world, Random(1))
    check = check_of(world, uri)
    report = check.run()
    assert sorted((one.key, one.kind) for one in check.tally.all()) == sorted(spoilt.items())
    assert report.rows == len(world.rows)
    assert not cuts or max(read) <= chosen.LARGER_MAX * part_rows
    assert max(bucket) <= 2 * 80, "keys are spread by a hash"


@pytest.mark.parametrize(("sample", "slice"), [(0.01, None), (1.0, Slice((), (), 10))], ids=["sample", "slice"])
def test_of_a_sink_that_finds_keys_a_small_part_is_read(
    still: Still, monkeypatch: pytest.MonkeyPatch, sample: float, slice: Slice | None
) -> None:
    monkeypatch.setattr(chosen, "PART_ROWS", 5)
    looked, read = list[int](), reading.reading

    def noted(*given: Any, keys: pa.Table | None) -> Reading:
        assert keys is not None, "all of the sink would be read"
        looked.append(keys.num_rows)
        return read(*given, keys=keys)

    monkeypatch.setattr(sink, "reading", noted)
    report = check_of(still.world, still.uri, sample=sample, slice=slice).run()
    assert (report.state, sum(looked)) == (CheckState.EQUAL, report.rows)
    assert 0 < report.rows < len(still.world.rows)


# ---- one step at a time: nothing happens but what the test says ------------------------------------------------------


class Steps:
    """What happens at each call, one after another; nothing after the last."""

    def __init__(self, *steps: Callable[[], object]) -> None:
        self.left = list(steps)

    def __call__(self, _: float) -> None:
        if self.left:
            self.left.pop(0)()


class Still:
    """A world in which the row `key` is everywhere. `check`: the gate is called when the sink has been read, and later."""

    def __init__(self, folder: Path, *, snapshots: bool = True) -> None:
        self.uri = f"sqlite:///{folder}/out.db"
        self.output = Sqlite(folder / "out.db")
        self.world = world_of(folder, 1, self.uri, snapshots=snapshots)
        self.world.live = lambda _=0: None  # type: ignore[method-assign]  # it lives by the test's steps
        self.key = self.world.key(1)
        self.change("x")
        self.world.deliver()

    def change(self, v: str) -> None:
        self.world.put(self.key, v)
        self.world.append()

    def check(self, *, gate: Callable[[float], None], wait: Callable[[float], None], where: str = "") -> TableCheck:
        return check_of(self.world, self.uri, where=where, gate=gate, wait=wait)


@pytest.fixture
def still(tmp_path: Path) -> Still:
    return Still(tmp_path)


def test_a_key_that_differs_at_one_look_alone_is_no_difference(still: Still) -> None:
    """It changes while it is first looked at, which says nothing; then the sink does not have it; then it has."""

    def deliver_without() -> None:
        still.world.deliver()
        still.output.delete(still.key)

    still.output.delete(still.key)
    check = still.check(gate=Steps(lambda: still.change("y")), wait=Steps(deliver_without, lambda: still.output.put(still.key, "y")))
    report = check.run()
    assert (report.state, report.differences, report.moving) == (CheckState.EQUAL, 0, 0)


def record(world: World, *complete: TableName) -> None:
    """What the sink's worker knows of its tables."""
    tables = SinkTables("mine", "", Seq(0), None, Seq(world.seq), CommitTs(world.upto_ts), dict.fromkeys(complete, CommitTs(1)))
    write_sink_tables(world.job.log, tables, log_id=known_id(world.job.log))


def test_a_report_says_where_the_sink_was_before_either_side_was_read(still: Still) -> None:
    """So that a hole of a later segment is not taken for one that was looked at."""
    before = still.check(gate=lambda _: None, wait=lambda _: None).sink.look()
    assert before is not None

    def go_on() -> None:
        still.change("y")
        still.world.deliver()

    check = still.check(gate=Steps(go_on), wait=lambda _: None)
    report, after = check.run(), check.sink.look()
    assert after is not None
    assert (report.state, report.after_seq) == (CheckState.EQUAL, before.seq)
    assert after.seq > before.seq


@pytest.mark.parametrize("complete", [False, True])
def test_rows_that_a_sink_has_not_received_yet_are_no_differences_and_all_else_is_one(tmp_path: Path, complete: bool) -> None:
    """As beside a first dump. The world changes meanwhile."""
    for seed in range(8):
        uri = f"sqlite:///{tmp_path}/{seed}/out.db"
        world = world_of(tmp_path / str(seed), seed, uri, snapshots=bool(seed % 2))
        record(world, *([TABLE] if complete else []))
        spoilt, since_ts = Sqlite(tmp_path / str(seed) / "out.db").spoil(world, Random(seed)), world.ts
        check = check_of(world, uri)
        report = check.run()
        result = {one.key: one.kind for one in check.tally.all()}
        healed = {key for ts, key in world.changed if ts > since_ts}
        stay = {key: kind for key, kind in spoilt.items() if key not in healed}
        assert result.items() <= spoilt.items(), seed
        assert stay.keys() - {key for key, kind in spoilt.items() if kind == "missing" and not complete} <= result.keys(), seed
        if not complete:
            assert "missing" not in result.values()
            assert report.expected >= list(stay.values()).count("missing")
            assert report.state is (CheckState.DIFFERENT if result else CheckState.INCOMPLETE if report.expected else CheckState.EQUAL)


@pytest.mark.parametrize("lacks", [False, True])
def test_a_sink_that_lacks_rows_is_incomplete_and_says_what_to_do(still: Still, lacks: bool) -> None:
    """One that another program has filled is equal, although nobody knows that it is complete."""
    record(still.world)
    if lacks:
        still.output.delete(still.key)
    report = still.check(gate=lambda _: None, wait=lambda _: None).run()
    assert (report.state, report.differences, report.expected) == (CheckState.INCOMPLETE if lacks else CheckState.EQUAL, 0, int(lacks))
    assert ("dumpstart" in report.why) == lacks
    assert [one.kinds for one in report.unjudged] == [("missing",)]


@pytest.mark.parametrize("brought", [False, True])
def test_a_dump_that_makes_the_sink_complete_meanwhile_is_waited_for_by_the_second_look(still: Still, brought: bool) -> None:
    """The row is missing when the sink is read. With the dump's last chunk the sink is complete: then it has the row, or lacks it."""
    record(still.world)
    row = still.world.rows[still.key]
    still.output.delete(still.key)

    def dumped() -> None:
        if brought:
            still.output.put(still.key, row[2])
        record(still.world, TABLE)

    report = still.check(gate=Steps(dumped), wait=lambda _: None).run()
    state = CheckState.EQUAL if brought else CheckState.DIFFERENT
    assert (report.state, report.missing, report.expected, report.unjudged) == (state, int(not brought), 0, [])


def test_a_row_that_comes_while_the_sink_is_incomplete_is_none_that_it_lacks(still: Still) -> None:
    """An inserted row moves at the first look, and is there at the second one."""
    record(still.world)
    key = next(key for key in map(still.world.key, range(still.world.keys)) if key not in still.world.rows)

    def inserted() -> None:
        still.world.put(key, "new")
        still.world.append()

    report = still.check(gate=Steps(inserted), wait=still.world.wait).run()
    assert (report.state, report.expected, report.moving) == (CheckState.EQUAL, 0, 0)


def test_a_key_that_changes_at_each_look_is_moving_and_no_difference(still: Still) -> None:
    values = iter(range(1000))
    report = still.check(gate=lambda worked_s: still.change(str(next(values))), wait=still.world.wait).run()
    assert (report.state, report.differences, report.moving) == (CheckState.EQUAL, 0, 1)


def test_without_snapshots_the_log_is_followed_to_the_moment_of_the_read_at_the_first_look(tmp_path: Path) -> None:
    """The source's row is newer than the log when it is read. So what is found says nothing, and neither does one later look."""
    still = Still(tmp_path, snapshots=False)

    def deliver_without() -> None:
        still.world.deliver()
        still.output.delete(still.key)

    wait = Steps(still.world.append, deliver_without, lambda: still.output.put(still.key, "y"))
    report = still.check(gate=Steps(lambda: still.world.put(still.key, "y")), wait=wait).run()
    assert (report.state, report.differences, report.moving) == (CheckState.EQUAL, 0, 0)
    assert not wait.left


def test_without_snapshots_the_log_is_followed_to_the_moment_of_the_read_at_each_look(tmp_path: Path) -> None:
    still, values = Still(tmp_path, snapshots=False), iter(range(1000))
    check = still.check(gate=lambda worked_s: still.world.put(still.key, str(next(values))) if worked_s else None, wait=still.world.wait)
    report = check.run()
    assert (report.state, report.differences, report.moving) == (CheckState.EQUAL, 0, 1)


def test_the_second_look_waits_for_a_sink_that_is_behind(still: Still) -> None:
    """However long it takes: looks at the position of the first one would say the same again."""
    wait = Steps(*[lambda: None] * 50, still.world.deliver)
    report = still.check(gate=Steps(lambda: still.change("y")), wait=wait).run()
    assert (report.state, report.differences, report.moving) == (CheckState.EQUAL, 0, 0)
    assert not wait.left


@pytest.mark.parametrize(("gather_s", "moves"), [(0.0, True), (400.0, False)], ids=["a sink that moves", "a sink that gathers"])
def test_a_sink_is_waited_for_while_it_moves_and_as_long_as_it_gathers(
    still: Still, monkeypatch: pytest.MonkeyPatch, gather_s: float, moves: bool
) -> None:
    """1,000 s in all: more than any sink may take that accepts nothing and gathers nothing."""
    now_s = 0.0
    monkeypatch.setattr(positions, "time", SimpleNamespace(monotonic=lambda: now_s))
    upto_ts, sink = still.world.ts + 100, Mock(gather_s=gather_s) if gather_s else Mock(spec=["look"])
    seqs = iter(range(20))
    sink.look.side_effect = lambda: Accepted(Seq(next(seqs) if moves else 0), CommitTs(upto_ts if now_s >= 1000 else 1))

    def wait(_: float) -> None:
        nonlocal now_s
        now_s += 100

    Positions(still.world.context(wait=wait), "mine", sink, TABLE, lambda _: None).await_sink(CommitTs(upto_ts))
    assert now_s == 1000


@pytest.mark.parametrize("accepts", [True, False])
def test_what_a_ddl_may_explain_is_read_again_once_the_sink_has_accepted_more(still: Still, accepts: bool) -> None:
    """A sink carries out a DDL before it accepts the DDL's segment: meanwhile its table does not fit its position."""
    waits, sink = list[float](), Mock(spec=["look"])
    sink.look.side_effect = lambda: Accepted(Seq(3 + (accepts and len(waits) > 7)), CommitTs(1))
    made = Positions(still.world.context(wait=waits.append), "mine", sink, TABLE, lambda _: None)
    made.await_next(made.accepted())
    assert len(waits) == (8 if accepts else positions.NEXT_WAITS_MAX)


@pytest.mark.parametrize(("output", "looks"), [(OUTPUTS[0], 4), (OUTPUTS[2], 1)], ids=["finds keys", "is read whole"])
def test_a_sink_that_is_read_whole_for_its_keys_is_read_once_for_all_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str, looks: int
) -> None:
    monkeypatch.setattr(table_check, "KEYS_AT_ONCE", 5)
    uri, looked, look = output.format(tmp_path), list[int](), TableCheck._look
    world = world_of(tmp_path, 1, uri, snapshots=True)
    world.live = lambda _=0: None  # type: ignore[method-assign]  # it lives by the test's steps

    def noted(self: TableCheck, schema: TableSchema, pending: dict[str, int], keys: Sequence[str]) -> None:
        looked.append(len(keys))
        look(self, schema, pending, keys)

    def change_all() -> None:
        for key in sorted(world.rows)[:20]:
            world.put(key[:2], "new")
        world.append()

    monkeypatch.setattr(TableCheck, "_look", noted)
    report = check_of(world, uri, gate=Steps(change_all), wait=world.wait).run()
    assert (report.state, report.moving) == (CheckState.EQUAL, 0)
    assert (len(looked), sum(looked)) == (looks, 20)


def test_a_table_that_was_dropped_is_skipped_and_named_so(still: Still) -> None:
    still.world.schemas = still.world.log.write_schemas({})
    still.world.append()
    still.world.deliver()
    report = still.check(gate=lambda _: None, wait=lambda _: None).run()
    assert report.state is CheckState.SKIPPED
    assert report.why == "the changefeed has no such table any more: it was dropped, renamed or has lost its key"


def test_a_sink_that_does_not_come_to_where_the_first_look_was_is_reported(still: Still, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(positions, "SINK_WAIT_S", -1.0)
    with pytest.raises(SinkError, match=r"sink mine has accepted nothing for \d+ s, and not \d+: s\.t cannot be compared"):
        still.check(gate=Steps(*[lambda: still.change("y")] * 9), wait=lambda _: None).run()


@pytest.mark.parametrize(("spoilt", "state"), [(False, CheckState.SKIPPED), (True, CheckState.DIFFERENT)])
def test_a_log_that_grows_faster_than_it_is_followed_ends_the_reading_of_ranges_and_that_is_said(
    still: Still, monkeypatch: pytest.MonkeyPatch, spoilt: bool, state: CheckState
) -> None:
    """What was not compared is not equal."""
    for number in range(2, 12):
        still.world.put(still.world.key(number), "x")
    still.world.append()
    still.world.deliver()
    first = min(still.world.rows)
    if spoilt:
        still.output.delete(first)
    slower = itertools.count(1)
    follow = Moving.follow

    def slowly(moving: Moving) -> CommitTs:
        sleep(0.01 * next(slower))
        return follow(moving)

    class OneAtATime(InOrder):
        cores = 1

    monkeypatch.setattr(keeping_up, "FOLLOW_MAX_S", 0.0)
    monkeypatch.setattr(Moving, "follow", slowly)
    report = check_of(still.world, still.uri, runner=OneAtATime()).run()
    assert (report.state, report.partial, report.missing) == (state, True, int(spoilt))
    assert 0 < report.rows < len(still.world.rows)
    assert report.why.startswith("2 of 3 ranges were compared: the log grows faster than it can be followed beside deliveries")
    assert report.waiting_for == ""


def test_rows_that_changed_and_are_too_many_to_look_at_again_are_not_equal(still: Still, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_check, "MOVED_KEYS_MAX", 2)
    keys = [still.world.key(number) for number in range(2, 12)]

    def put(v: str) -> None:
        for key in keys:
            still.world.put(key, v)
        still.world.append()

    put("x")
    still.world.deliver()
    report = still.check(gate=Steps(partial(put, "y")), wait=still.world.wait).run()
    assert (report.state, report.differences, report.moving) == (CheckState.SKIPPED, 0, 8)
    assert report.equal == report.rows - 8
    assert report.why.startswith("8 rows changed while they were compared and were not looked at again")


def two_parts(value: Reading) -> Reading:
    """The second one has no row."""

    def nothing() -> Iterator[RowsRead]:
        return iter(())

    return replace(value, parts=(*value.parts, nothing))


def test_what_was_passed_while_the_sink_is_read_is_not_kept_for_it(still: Still) -> None:
    """A lake of hours would hold the whole log."""
    for number in range(2, 12):
        still.world.put(still.world.key(number), "x")
    still.world.append()
    still.world.deliver()

    class OneAtATime(InOrder):
        cores = 1

    needed: list[int] = []
    read: list[int] = []

    def gate(worked_s: float) -> None:
        if worked_s:
            still.change("y")
            read.append(len(needed))

    check = check_of(still.world, still.uri, runner=OneAtATime(), needs=needed.append, gate=gate, wait=still.world.wait)
    reading = check.sink.reading
    check.sink.reading = lambda *args, **options: two_parts(reading(*args, **options))  # type: ignore[method-assign]
    assert check.run().state is CheckState.EQUAL
    assert read[:2] == [1, 2], "after the first of the sink's two parts"
    assert needed[1] > needed[0]


def test_what_a_table_waits_for_is_reported_while_it_does(still: Still) -> None:
    reports: list[str] = []
    wait = Steps(*[lambda: None] * 3, still.world.deliver)
    check = check_of(
        still.world,
        still.uri,
        gate=Steps(lambda: still.change("y")),
        wait=wait,
        progress=lambda report: reports.append(report.waiting_for),
    )
    assert check.run().waiting_for == ""
    assert any(text.startswith("sink mine to accept the changes up to ") for text in reports)


def test_a_table_that_ddls_change_again_and_again_is_not_compared(still: Still, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Moving, "_is_another", lambda *_: True)  # each segment has a DDL of the table
    report = still.check(gate=lambda worked_s: still.change("y") if worked_s else None, wait=still.world.wait).run()
    assert (report.state, report.why) == (CheckState.SKIPPED, "DDLs change the table again and again")


@pytest.mark.parametrize(("changed", "state"), [(1, CheckState.EQUAL), (table_check.TRIES_MAX, CheckState.SKIPPED)])
def test_a_source_that_a_ddl_has_changed_already_is_compared_again(
    still: Still, monkeypatch: pytest.MonkeyPatch, changed: int, state: CheckState
) -> None:
    """C2: its error 1054 ended the comparison as a failure. `changed`: so many reads meet the DDL that the sink has not seen yet."""
    reads, call = itertools.count(), WorldPart.__call__

    def read(part: WorldPart) -> Iterator[RowsRead]:
        if next(reads) < changed:
            raise SourceChanged("Unknown column 'c' in 'SELECT' (error 1054)", hint="a DDL changed the table")
        yield from call(part)

    monkeypatch.setattr(WorldPart, "__call__", read)
    assert still.check(gate=Steps(), wait=still.world.wait).run().state is state


def test_a_ddl_is_waited_for_until_the_sink_has_it_however_far_the_sink_is_behind(still: Still, monkeypatch: pytest.MonkeyPatch) -> None:
    """C3: three attempts within 1.5 s ended before a lake had a TRUNCATE."""
    call, waits = WorldPart.__call__, itertools.count()
    lagging = True

    def read(part: WorldPart) -> Iterator[RowsRead]:
        if lagging:
            raise SourceChanged("Unknown column 'c' in 'SELECT' (error 1054)", hint="a DDL changed the table")
        yield from call(part)

    def wait(_: float) -> None:
        nonlocal lagging
        if lagging and next(waits) == 50:
            still.world.wait(0)
            lagging = False

    monkeypatch.setattr(WorldPart, "__call__", read)
    still.world.ts += 1  # the DDL's, which nothing has delivered yet
    assert still.check(gate=Steps(), wait=wait).run().state is CheckState.EQUAL
    assert next(waits) == 51


def test_another_error_of_the_source_is_tried_again_and_then_reported(still: Still, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = []

    def read(part: WorldPart) -> Iterator[RowsRead]:
        reads.append(part)
        raise SourceLost("it is away", hint="start it")

    monkeypatch.setattr(WorldPart, "__call__", read)
    with pytest.raises(SourceLost):
        still.check(gate=Steps(), wait=still.world.wait).run()
    assert len(reads) == table_check.TRIES_MAX


def test_a_row_that_comes_to_be_outside_of_the_predicate_is_no_extra_one(still: Still) -> None:
    """It differs at first. At the second look the source's row does not meet the predicate, and the sink's is right."""
    still.output.put(still.key, "spoilt")

    def leave() -> None:
        still.change("y")
        still.world.deliver()

    gate = Steps(*[lambda: None] * 3, leave)  # when the buckets are compared
    report = still.check(gate=gate, wait=still.world.wait, where="v = 'x'").run()
    assert (report.state, report.differences, report.moving) == (CheckState.EQUAL, 0, 0)
    assert not gate.left


@pytest.mark.parametrize("where", ["", "v = 'x'"])
def test_beyond_the_keys_that_are_looked_at_again_a_difference_counts_at_once(
    still: Still, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.setattr(table_check, "LOOKED_KEYS_MAX", 0)
    extra = next(key for number in range(still.world.keys) if (key := still.world.key(number)) not in still.world.rows)
    still.output.delete(still.key)
    still.output.put(extra, "x")
    check = still.check(gate=Steps(), wait=still.world.wait, where=where)
    report = check.run()
    assert (report.state, report.missing, report.extra, report.different) == (CheckState.DIFFERENT, 1, 0 if where else 1, 0)
    results = [(one.kind, one.key) for one in check.tally.all()]
    assert results == [("missing", still.key), *([] if where else [("extra", extra)])]
    assert report.unlooked == len(results)
