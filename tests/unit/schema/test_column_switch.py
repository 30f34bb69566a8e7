"""Steps of MODIFY COLUMN in the schema history: from where on a column has a successor, and until when."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.shared.errors import FeedError, UnsupportedDdl
from sidecar.shared.model.nouns import CommitTs
from sidecar.shared.schema.ddl import Action, ColumnSwitch, DdlJob, Effect, JobTable, Successor, TableInfo
from sidecar.shared.schema.history import SchemaHistory
from sidecar.shared.schema.version import SchemaSnapshot

START, STEP, DONE = CommitTs(100), CommitTs(120), CommitTs(140)
OLD_TO_NEW = (Successor(2, {"id": 3, "name": "new"}),)


def column(id_: int, name: str, state: int = 5) -> dict[str, Any]:
    return {"id": id_, "name": {"O": name, "L": name.lower()}, "state": state}


def table(*columns: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": 10, "name": {"O": "t", "L": "t"}, "cols": list(columns), "partition": None, "view": None, "sequence": None,
        "update_timestamp": 1, "state": 5,
    }  # fmt: skip


def successors(info: TableInfo, schema: str) -> dict[int, int]:
    """Column id to its successor's."""
    return {one["id"]: one["successor"]["id"] for one in info["cols"] if "successor" in one}


def history(*columns: dict[str, Any]) -> SchemaHistory[dict[int, int]]:
    return SchemaHistory(START, [SchemaSnapshot(1, "shop", [table(*columns)])], describe=successors)


def step(ts: int, successors: tuple[Successor, ...] = OLD_TO_NEW, *, schema: str = "shop", job_id: int = 7, **more: Any) -> ColumnSwitch:
    return ColumnSwitch(job_id, Action.MODIFY_COLUMN, CommitTs(ts), 90, "alter table t …", schema, 10, successors, **more)


def done(*columns: dict[str, Any]) -> DdlJob:
    return DdlJob(7, Action.MODIFY_COLUMN, DONE, 90, "alter table t …", 1, "shop", 10, (JobTable(table(*columns), 1),))


def at(value: SchemaHistory[dict[int, int]], ts: int) -> dict[int, int]:
    version = value.table_at(10, ts)
    assert version is not None
    return version.description


def test_a_column_has_its_successor_from_the_step_to_the_end_of_the_job() -> None:
    result = history(column(1, "id"), column(2, "c"))
    event = result.apply(step(STEP))
    assert event is not None
    assert (event.effect, event.commit_ts, [(one.appeared, one.vanished) for one in event.tables]) == (
        Effect.SWITCH, STEP, [(frozenset(), frozenset())],
    )  # fmt: skip
    assert result.apply(done(column(1, "id"), column(3, "c"))) is not None
    assert [at(result, ts) for ts in (STEP - 1, STEP, DONE - 1, DONE)] == [{}, {2: 3}, {2: 3}, {}]


def test_the_step_again_changes_nothing() -> None:
    result = history(column(1, "id"), column(2, "c"))
    assert result.apply(step(STEP)) is not None
    assert [result.apply(step(ts)) for ts in (STEP, STEP + 5)] == [None, None]
    result.apply(done(column(1, "id"), column(3, "c")))
    assert result.apply(step(STEP)) is None


def test_a_snapshot_amid_the_ddl_has_the_new_column_already() -> None:
    result = history(column(1, "id"), column(3, "c"), column(2, "_Tombstone$_c", state=1))
    assert result.apply(step(STEP)) is None
    assert at(result, STEP) == {}


def test_a_snapshot_before_the_step_has_the_new_column_under_another_state() -> None:
    result = history(column(1, "id"), column(2, "c"), column(3, "_Col$_c_0", state=3))
    assert result.apply(step(STEP)) is not None
    assert at(result, STEP) == {2: 3}


def test_a_step_for_a_column_that_is_not_there_is_refused_and_changes_nothing() -> None:
    result = history(column(1, "id"))
    with pytest.raises(FeedError, match=r"replaces columns \[2\] of table id 10"):
        result.apply(step(STEP))
    result.advance(STEP)
    assert at(result, STEP) == {}


def test_a_step_in_a_system_schema_counts_for_nothing() -> None:
    assert history(column(1, "id")).apply(step(STEP, schema="mysql")) is None


def described(info: TableInfo, schema: str) -> set[str]:
    return {one["name"]["O"] for one in info["cols"] if one.get("dropped")}


@pytest.mark.parametrize(("is_unique", "expected"), [(True, {"C"}), (False, set[str]())])
def test_a_dropped_column_is_reported_if_the_handle_key_may_have_it(is_unique: bool, expected: set[str]) -> None:
    index = {"is_unique": is_unique, "idx_cols": [{"name": {"O": "C", "L": "c"}}]}
    info = table(column(1, "id"), column(2, "C"), column(3, "d")) | {"index_info": [index]}
    schema_history = SchemaHistory(START, [SchemaSnapshot(1, "shop", [info])], describe=described)
    event = schema_history.apply(step(STEP, (), dropped=frozenset({"c", "d"})))
    assert (event is not None) is is_unique
    schema_history.advance(STEP)
    version = schema_history.table_at(10, STEP)
    assert version is not None
    assert version.description == expected


def test_a_step_that_replaces_nothing_leaves_the_next_one_its_effect() -> None:
    result = history(column(1, "id"), column(2, "c"))
    assert result.apply(step(STEP, (), dropped=frozenset({"c"}))) is None
    assert result.apply(step(STEP + 5)) is not None
    assert at(result, STEP + 5) == {2: 3}


BEFORE = (column(1, "id"), column(2, "c"), column(5, "d"))


@pytest.mark.parametrize(
    ("columns", "drops", "expected"),
    [
        ((column(1, "id"), column(2, "c"), column(5, "d", state=2)), 1, {}),
        ((column(1, "id"), column(3, "C"), column(5, "d")), 0, {2: 3}),
        ((column(1, "id"), column(3, "c"), column(5, "d", state=2)), 1, {2: 3}),
        ((column(1, "id"), column(3, "c"), column(4, "d")), 0, {2: 3, 5: 4}),
        ((column(1, "id"), column(3, "c")), 1, {2: 3}),
    ],
)
def test_amid_a_multi_schema_change_a_column_is_followed_by_the_one_of_its_name(
    columns: tuple[dict[str, Any], ...], drops: int, expected: dict[int, int]
) -> None:
    result = history(*BEFORE)
    result.apply(step(STEP, (), amid=table(*columns), drops=drops))
    result.advance(STEP)
    assert at(result, STEP) == expected


@pytest.mark.parametrize(
    ("columns", "drops"),
    [
        ((column(1, "id"), column(3, "c2"), column(5, "d")), 0),
        ((column(1, "id"), column(3, "c2"), column(5, "d", state=2)), 1),
    ],
)
def test_a_column_that_is_followed_by_none_of_its_name_stops(columns: tuple[dict[str, Any], ...], drops: int) -> None:
    with pytest.raises(UnsupportedDdl, match="changes type and name of a column"):
        history(*BEFORE).apply(step(STEP, (), amid=table(*columns), drops=drops))
