"""What a run of `ticdc-dump maintain` does with each table, whatever overtakes it; and how many files are too many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pytest

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import TableName
from spark_merge.port.maintained import FileTotals, Upkeep
from spark_merge.sinks.iceberg.maintenance import MaintainedIceberg
from spark_merge.sinks.lake.maintenance import SNAPSHOTS_KEPT, TRIES, UpkeepState, looked_at, maintained
from spark_merge.sinks.lake.steps import Outpaced
from spark_merge.sinks.registry import maintained_of

A, B, C = (TableName("shop", name) for name in "abc")
UPKEEP = Upkeep()


class LakeInMemory:
    """`Maintained`. `overtaken`: how often compactions of a table are, and expiries; `fails`: its tables."""

    needs_spark = False

    def __init__(self, *, overtaken: int = 0, expiry_overtaken: bool = False, fails: Sequence[TableName] = (), waits: bool = False) -> None:
        self.files = {A: FileTotals(9, 900), B: FileTotals(3, 300)}
        self.left = dict.fromkeys(self.files, overtaken)
        self.expiry_overtaken, self.fails, self.waits_for_dump = expiry_overtaken, fails, waits
        self.calls: list[str] = []
        self.unreadable: set[TableName] = set()

    def totals(self, name: TableName) -> FileTotals | None:
        if name in self.unreadable:
            raise SinkError("it is none of ours", hint="move it")
        return self.files.get(name)

    def compact(self, name: TableName, upkeep: Upkeep, sql: Any) -> None:
        self.calls.append(f"compact {name.table}")
        if name in self.fails:
            raise SinkError("it is away", hint="bring it back")
        if self.left[name]:
            self.left[name] -= 1
            raise Outpaced
        self.files[name] = FileTotals(1, self.files[name].bytes)

    def expire(self, name: TableName, upkeep: Upkeep, sql: Any) -> int:
        self.calls.append(f"expire {name.table}")
        if self.expiry_overtaken:
            raise Outpaced
        return 2

    def close(self) -> None:
        """Nothing is held."""


def nobody(statement: str) -> Sequence[Mapping[str, Any]]:
    raise AssertionError(statement)


def run(lake: LakeInMemory, *names: TableName, complete: Sequence[TableName] = ()) -> list[tuple[TableName, UpkeepState, int, int]]:
    return [(one.table, one.state, one.after.files, one.removed) for one in maintained(lake, names, UPKEEP, nobody, complete=complete)]


def test_each_table_is_compacted_and_then_expired() -> None:
    lake = LakeInMemory()
    assert run(lake, A, B, C) == [(A, UpkeepState.DONE, 1, 2), (B, UpkeepState.DONE, 1, 2), (C, UpkeepState.NONE, 0, 0)]
    assert lake.calls == ["compact a", "expire a", "compact b", "expire b"]


@pytest.mark.parametrize("overtaken", range(TRIES + 2))
def test_a_compaction_that_is_overtaken_is_tried_again_so_often_and_then_left(overtaken: int) -> None:
    lake = LakeInMemory(overtaken=overtaken)
    ((_, state, files, removed),) = run(lake, A)
    assert (state, files) == ((UpkeepState.DONE, 1) if overtaken < TRIES else (UpkeepState.OVERTAKEN, 9))
    assert removed == 2
    assert lake.calls.count("compact a") == min(overtaken + 1, TRIES)


def test_an_expiry_that_is_overtaken_is_the_next_runs() -> None:
    assert run(LakeInMemory(expiry_overtaken=True), A) == [(A, UpkeepState.OVERTAKEN, 1, 0)]


def test_a_table_that_fails_stops_no_other() -> None:
    lake = LakeInMemory(fails=[A])
    assert run(lake, A, B) == [(A, UpkeepState.FAILED, 9, 0), (B, UpkeepState.DONE, 1, 2)]
    (failed,) = maintained(lake, [A], UPKEEP, nobody, complete=())
    assert "it is away" in failed.error
    assert failed.to_json()["before"] == {"files": 9, "bytes": 900}


def test_a_table_whose_dump_runs_only_expires() -> None:
    lake = LakeInMemory(waits=True)
    assert run(lake, A, B, complete=[B]) == [(A, UpkeepState.DUMP, 9, 2), (B, UpkeepState.DONE, 1, 2)]


def test_a_look_changes_nothing() -> None:
    lake = LakeInMemory()
    assert [(one.table, one.state, one.after.files) for one in looked_at(lake, [A, C])] == [
        (A, UpkeepState.LOOK, 9),
        (C, UpkeepState.NONE, 0),
    ]
    assert lake.calls == []


def test_a_table_that_a_look_or_a_run_cannot_read_stops_no_other() -> None:
    lake = LakeInMemory()
    lake.unreadable = {A}
    for results, state in (
        (looked_at(lake, [A, B]), UpkeepState.LOOK),
        (maintained(lake, [A, B], UPKEEP, nobody, complete=()), UpkeepState.DONE),
    ):
        first, second = results
        assert (first.state, "none of ours" in first.error) == (UpkeepState.FAILED, True)
        assert second.state is state


def test_as_many_files_are_extra_as_a_compaction_of_all_would_save() -> None:
    """Held against files that are filled one after another."""
    rng = Random(3)
    for _ in range(500):
        size = rng.randrange(1, 50)
        sizes = [rng.randrange(1, size * 3) for _ in range(rng.randrange(30))]
        left, filled = sum(sizes), 0
        while left > 0:
            left, filled = left - size, filled + 1
        totals = FileTotals(len(sizes), sum(sizes))
        assert totals.extra(size) == max(0, len(sizes) - filled)


class Statements:
    def __init__(self, *answers: Mapping[str, Any]) -> None:
        self.said: list[str] = []
        self.answers = answers

    def __call__(self, statement: str) -> Sequence[Mapping[str, Any]]:
        self.said.append(statement)
        return self.answers


def iceberg(uri: str) -> MaintainedIceberg:
    lake = maintained_of(uri)
    assert isinstance(lake, MaintainedIceberg)
    return lake


@pytest.mark.parametrize("mode", ["append", "merge"])
def test_deletes_are_compacted_of_merged_tables_alone(mode: str) -> None:
    lake, sql = iceberg(f"iceberg://prod/lake?mode={mode}"), Statements()
    lake.compact(A, Upkeep(1 << 20, 7, 24), sql)
    (said,) = sql.said
    assert said.startswith("CALL `prod`.system.rewrite_data_files(table => '`lake`.`shop`.`a`', options => map(")
    assert "'target-file-size-bytes', '1048576', 'min-input-files', '7'" in said
    assert ("'delete-file-threshold', '7', 'remove-dangling-deletes', 'true'" in said) is (mode == "merge") is lake.waits_for_dump


def test_snapshots_expire_by_their_age_but_the_last_ones_stay() -> None:
    sql = Statements({"deleted_data_files_count": 3, "deleted_manifest_files_count": None, "deleted_manifest_lists_count": 2})
    assert iceberg("iceberg://prod/lake").expire(A, Upkeep(keep_hours=24), sql) == 5
    (said,) = sql.said
    assert "older_than => TIMESTAMP '2" in said
    assert " UTC'" in said
    assert f"retain_last => {SNAPSHOTS_KEPT}" in said


@pytest.mark.parametrize(("name", "text"), [("o'r`d\\s", r"'`lake`.`shop`.`o\'r``d\\s`'"), ("é 1", "'`lake`.`shop`.`é 1`'")])
def test_any_name_of_a_table_is_one_name_in_sql(name: str, text: str) -> None:
    sql = Statements()
    iceberg("iceberg://prod/lake").compact(TableName("shop", name), UPKEEP, sql)
    assert f"table => {text}, " in sql.said[0]


def test_a_target_without_files_is_not_maintained() -> None:
    assert maintained_of("console:") is None
