"""Which statistics a Delta table's log has, for tables that this version makes and for those of earlier ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import CommitProperties, DeltaTable

from sidecar.shared.errors import SinkError
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.nouns import Column, TableSchema
from spark_merge.sinks.delta import statistics
from spark_merge.sinks.delta.columns import DeltaColumn
from spark_merge.sinks.delta.table import Table
from spark_merge.sinks.delta.tables import DeltaTables
from spark_merge.sinks.registry import open_sink
from tests.support.deliveries import ORDERS, Row, Segments, change, deliver, opened
from tests.support.read_back import reading_of, texts_of

TOP = str((1 << 64) - 1)
UNSIGNED = TableSchema(ORDERS, (Column("id", "uint", nullable=False), Column("n", "int"), Column("at", "datetime")), ("id",))
AT = "2024-02-29 12:00:00"
"""Of a type that makes the table one with features."""


class Output:
    def __init__(self, folder: Path, mode: str) -> None:
        self.log, self.uri, self.table = open_folder(str(folder / "log")), f"delta://{folder}/out?mode={mode}", folder / "out/shop/orders"

    def deliver(self, seq: int, *rows: Row, schema: TableSchema = UNSIGNED) -> None:
        sink = opened(open_sink(self.uri, log_id="log-1"))
        deliver(sink, Segments([seq], rows), log=self.log, schemas={ORDERS: schema})

    def open(self) -> None:
        opened(open_sink(self.uri, log_id="log-1"))

    def found(self, where: Any) -> int:
        return int(DeltaTable(self.table).to_pyarrow_dataset().to_table(filter=where).num_rows)

    def named(self) -> list[str] | None:
        return statistics.named(DeltaTable(self.table))

    def rows(self) -> list[dict[str, Any]]:
        return sorted(pa.table(DeltaTable(self.table).scan()).to_pylist(), key=repr)


@contextmanager
def version_0_4(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """It set no property, and corrected nothing."""
    with monkeypatch.context() as patch:
        patch.setattr(statistics, "properties", lambda _: {})
        patch.setattr(statistics, "DONE", "nothing")
        patch.setattr(Table, "exact", lambda *_: True)
        patch.setattr(DeltaTables, "_correct_statistics", lambda _: None)
        yield


@pytest.fixture
def earlier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Output:
    """A merged table as version 0.4 left it."""
    output = Output(tmp_path, "merge")
    with version_0_4(monkeypatch):
        output.deliver(1, change(1, 10, after=(TOP, "1", AT)), change(1, 11, after=("7", "2", AT), ordinal=1))
        output.deliver(2, change(2, 110, before=("7", "2", AT), after=("7", "3", AT)))
    assert output.found(pc.field("id") == pa.scalar(int(TOP), pa.decimal128(20, 0))) == 0, "its statistics say so"
    return output


def test_a_table_of_an_earlier_version_is_corrected_when_its_output_is_opened(earlier: Output) -> None:
    rows, before = earlier.rows(), DeltaTable(earlier.table).version()
    earlier.open()
    check_corrected(earlier)
    assert earlier.rows() == rows
    assert features(earlier) == {"timestampNtz"}, "other readers refuse a table with a feature that they do not know"
    after = DeltaTable(earlier.table).version()
    assert after > before
    earlier.open()
    assert DeltaTable(earlier.table).version() == after, "once"


def features(output: Output) -> set[str]:
    protocol = DeltaTable(output.table).protocol()
    return {*(protocol.reader_features or ()), *(protocol.writer_features or ())}


@pytest.mark.parametrize("overtaken", [False, True])
def test_the_property_alone_is_set_and_only_on_the_version_that_was_looked_at(earlier: Output, overtaken: bool) -> None:
    result, table = DeltaTable(earlier.table), Table(open_folder(str(earlier.table.parent)), earlier.table.name)
    before = (result.schema().to_json(), result.metadata(), result.file_uris(), result.history()[0]["version"])
    if overtaken:
        DeltaTable(earlier.table).alter.set_table_description("of somebody else")
    named = table.name_statistics(result, ["n"])
    assert (named is None) is overtaken
    now = DeltaTable(earlier.table)
    assert (statistics.named(now) == ["n"]) is not overtaken
    assert (now.schema().to_json(), now.file_uris()) == (before[0], before[2])
    about = now.metadata()
    assert (about.id, about.created_time, about.partition_columns) == (before[1].id, before[1].created_time, before[1].partition_columns)
    assert named is None or named.version() == before[3] + 1, "the next commit is of the version after it"
    assert features(earlier) == {"timestampNtz"}


def test_a_table_that_is_not_corrected_yet_is_read_back_by_its_keys(earlier: Output) -> None:
    """A verification may run before the worker opens the output."""
    reading = reading_of(earlier.uri, UNSIGNED, log_id="log-1", parts=1, keys=[[TOP]])
    assert (TOP, "1", AT) in texts_of(reading, UNSIGNED)
    assert earlier.named() is None


def test_a_table_that_an_earlier_version_wrote_after_that_is_corrected_by_its_next_batch(
    earlier: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DeltaTables, "_correct_statistics", lambda _: None)
    earlier.deliver(3, change(3, 210, after=("8", "4", AT)))
    check_corrected(earlier)


@pytest.mark.parametrize("commits", [0, 1])
def test_a_worker_that_dies_between_its_two_commits_leaves_the_second_to_the_next_one(
    earlier: Output, monkeypatch: pytest.MonkeyPatch, commits: int
) -> None:
    made = list[object]()

    def dying(commit: Callable[..., object]) -> Callable[..., object]:
        def committing(*about: Any) -> object:
            if len(made) == commits:
                raise SinkError("the worker is gone", hint="none")
            made.append(about)
            return commit(*about)

        return committing

    with monkeypatch.context() as patch:
        for name in ("commit", "name_statistics"):
            patch.setattr(Table, name, dying(getattr(Table, name)))
        with pytest.raises(SinkError, match="gone"):
            earlier.open()
    earlier.open()
    check_corrected(earlier)


def check_corrected(output: Output) -> None:
    for value in (int(TOP), 7):
        assert output.found(pc.field("id") == pa.scalar(value, pa.decimal128(20, 0))) == 1
    for log in (output.table / "_delta_log").glob("*.json"):
        reported = [json.loads(line) for line in log.read_text().splitlines()]
        if any(one.get("txn", {}).get("appId") == statistics.DONE for one in reported):
            adds = [json.loads(one["add"]["stats"]) for one in reported if "add" in one]
            break
    else:
        pytest.fail("its files are not done")
    assert adds
    assert all("id" not in stats["maxValues"] and "n" in stats["maxValues"] for stats in adds)
    assert output.named() == ["_commit_ts", "n"]


def test_a_table_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "out/shop/theirs"
    DeltaTable.create(folder, pa.schema([("x", pa.int64())]))
    Output(tmp_path, "merge").open()
    assert DeltaTable(folder).version() == 0


def test_files_with_more_than_an_add_can_say_are_left_alone() -> None:
    class Odd:
        def protocol(self) -> Any:
            return type("Protocol", (), {"reader_features": ["deletionVectors"], "writer_features": ["deletionVectors"]})

    file = {"path": "a.parquet", "size_bytes": 1, "modification_time": 1, "num_records": 1}
    assert not list(statistics.corrected(Odd(), [file], []))  # type: ignore[arg-type]  # what is asked of a table


@pytest.mark.parametrize("mode", ["append", "merge"])
def test_columns_that_come_and_go_lose_no_row_for_any_filter(tmp_path: Path, mode: str) -> None:
    output, field = Output(tmp_path, mode), pc.field
    after = TableSchema(ORDERS, (UNSIGNED.columns[0], Column("m", "int")), ("id",))
    output.deliver(1, change(1, 10, after=("1", "5", AT)))
    output.deliver(2, change(2, 110, after=("2", "6")), schema=after)
    output.deliver(3, change(3, 210, after=("3", None)), schema=after)
    assert [output.found(field("n") == 5), output.found(field("m") == 6), output.found(field("n").is_null())] == [1, 1, 2]
    assert [output.found(field("m").is_null()), output.found(field("m").is_valid()), output.found(~(field("n") == 5))] == [2, 1, 0]


def test_only_what_every_file_has_is_named() -> None:
    columns = [DeltaColumn(name, kind, name) for name, kind in [("a", pa.int64()), ("b", pa.int16()), ("c", pa.decimal128(20, 0))]]
    all_of_it = {f"{what}.{name}": 1 for name in "abc" for what in ("min", "max", "null_count")} | {"num_records": 5}
    assert statistics.had_by_all([all_of_it], columns) == ["a", "b"]
    assert statistics.had_by_all([all_of_it, all_of_it | {"min.a": None}], columns) == ["b"]
    assert statistics.had_by_all([all_of_it | {"min.a": None, "max.a": None, "null_count.a": 5}], columns) == ["a", "b"]
    assert statistics.with_others([all_of_it, all_of_it | {"min.c": None, "max.c": None}], ["a", "b"]) == [all_of_it]


def test_the_property_is_read_as_it_is_written(tmp_path: Path) -> None:
    """By delta-rs, too: names with blanks, dots, words of SQL."""
    names = ["größe a.b", "1x", "select"]
    schema = pa.schema([*((name, pa.int64()) for name in names), ("d", pa.decimal128(20, 0))])
    table = DeltaTable.create(tmp_path, schema, configuration=statistics.properties(names))
    assert statistics.named(table) == names
    rows = pa.table({**{name: [1] for name in names}, "d": pa.array([1], pa.decimal128(20, 0))})
    merging = table.merge(rows, "t.`1x` = s.`1x`", source_alias="s", target_alias="t", commit_properties=CommitProperties())
    merging.when_not_matched_insert_all().execute()
    (result,) = statistics.files_of(DeltaTable(tmp_path))
    assert {name.partition(".")[2] for name in result if name.startswith("min.")} == set(names)
