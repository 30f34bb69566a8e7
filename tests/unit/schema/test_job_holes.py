"""Which job makes which hole: as a real cluster recorded them, and each kind that there is."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.shared.model.hole import HoleCause
from sidecar.shared.model.nouns import CommitTs, TableName
from sidecar.shared.schema.ddl import Action, DdlJob, JobTable
from sidecar.shared.schema.job_holes import BY_BR, MODE_UNKNOWN, hole_of, unknown
from tests.recordings.make_holes import kept, text
from tests.support.holes import PLACE, inside, jobs_of, steps
from tests.support.recordings import whole_set

HOLES = {
    "import-into-file": [(HoleCause.IMPORT, {597}, False), (HoleCause.IMPORT, {597}, False)],
    "exchange-with-outside": [(HoleCause.DDL, {603}, True)],
    "rename-in": [(HoleCause.DDL, {613}, False)],
    "flashback-cluster": [(HoleCause.FLASHBACK, set(), True)],
    "drop-flashback-database": [(HoleCause.FLASHBACK, set(), False)],
}
"""Of the recording's jobs by step. All others make none: the feeds had them, or they change no row."""

A, B, OTHER = TableName("holes", "a"), TableName("holes", "b"), TableName("outside", "c")


def job(action: int, *involved: TableName, query: str = "…", mode: int | None = None, ids: tuple[int, ...] = (7,)) -> DdlJob:
    tables = tuple(JobTable({"id": number, "name": {"O": "a"}} | ({} if mode is None else {"mode": mode}), 1) for number in ids)
    return DdlJob(5, action, CommitTs(900), 800, query, 1, "holes", 7, tables, involved=involved)


@pytest.mark.parametrize("step", [one["step"] for one in steps()])
def test_each_step_of_the_recording_has_the_holes_that_no_feed_showed(step: str) -> None:
    results = [result for one in jobs_of(step) if (result := hole_of(one, inside)) is not None]
    assert [(one.hole.cause, set(one.table_ids), one.hole.vanished) for one in results] == HOLES.get(step, [])


def test_a_flashback_of_the_cluster_is_of_each_table_since_it_began() -> None:
    ((one,), result) = (jobs_of("flashback-cluster"), hole_of(jobs_of("flashback-cluster")[0], inside))
    assert result is not None
    assert (result.hole.tables, result.hole.since_ts) == (None, one.start_ts)


def test_a_database_that_comes_back_has_the_tables_that_tidb_names() -> None:
    result = hole_of(jobs_of("drop-flashback-database")[-1], inside)
    assert result is not None
    assert (result.schema, result.table_ids) == ("holes2", frozenset())


def test_an_import_is_a_hole_when_it_begins_and_again_when_it_ends() -> None:
    begun, ended = (hole_of(one, inside) for one in jobs_of("import-into-file"))
    assert begun is not None
    assert ended is not None
    assert begun.hole.since_ts < ended.hole.since_ts
    assert "is Import" in begun.hole.text
    assert "Normal again" in ended.hole.text
    restored = hole_of(job(Action.ALTER_TABLE_MODE, mode=2), inside)
    assert restored is not None
    assert restored.hole.cause is HoleCause.RESTORE
    shown = hole_of(job(Action.ALTER_TABLE_MODE, mode=MODE_UNKNOWN), inside)
    assert shown is not None
    assert "mode changed" in shown.hole.text


@given(st.sampled_from([A, B, OTHER]), st.sampled_from([A, B, OTHER]))
def test_an_exchange_is_a_hole_only_across_the_table_rules(partitioned: TableName, other: TableName) -> None:
    """Inside, sinks carry the DDL out with all its rows: nothing vanishes there that they do not take out."""
    result = hole_of(job(Action.EXCHANGE_PARTITION, partitioned, other), inside)
    assert (result is None) == (inside(partitioned) == inside(other))
    if result is not None:
        assert result.hole.vanished
        assert (result.table_ids, result.hole.tables) == ((frozenset({7}), ()) if inside(partitioned) else (frozenset(), (other,)))


def test_only_tables_that_are_renamed_from_outside_have_a_hole() -> None:
    renamed = job(Action.RENAME_TABLES, A, B, OTHER, A, B, OTHER, ids=(1, 2, 3))
    result = hole_of(renamed, inside)
    assert result is not None
    assert result.table_ids == {2}
    assert hole_of(job(Action.RENAME_TABLE, A, B), inside) is None


def test_renames_of_which_one_table_is_shown_are_holes_by_name() -> None:
    """As information_schema shows RENAME of several tables."""
    result = hole_of(job(Action.RENAME_TABLES, A, B, OTHER, A, B, OTHER, ids=(1,)), inside)
    assert result is not None
    assert (result.table_ids, result.hole.tables, result.hole.vanished) == (frozenset(), (A,), False)
    assert hole_of(job(Action.RENAME_TABLES, A, B, B, A, ids=(1,)), inside) is None


@pytest.mark.parametrize("action", [Action.ALTER_TABLE_MODE, Action.CREATE_TABLES, Action.REFRESH_META, Action.RECOVER_SCHEMA])
@given(schema=st.sampled_from(["holes", "outside", ""]), ids=st.sets(st.integers(1, 9), min_size=1))
def test_of_tables_whose_names_are_known_only_those_inside_have_a_hole(action: Action, schema: str, ids: set[int]) -> None:
    """The changefeed has tables with even numbers."""
    tables = tuple(JobTable({"id": number, "name": {"O": f"t{number}"}, "mode": 1}, 1) for number in sorted(ids))
    made = DdlJob(5, action, CommitTs(900), 800, BY_BR, 1, schema, min(ids), tables)
    result = hole_of(made, lambda name: name.schema == "holes" and int(name.table[1:]) % 2 == 0)
    there = {number for number in ids if number % 2 == 0} if schema == "holes" else ids if not schema else set[int]()
    assert (set[int]() if result is None else set(result.table_ids)) == there
    assert result is None or not result.schema


@pytest.mark.parametrize("action", [Action.CREATE_TABLE, Action.CREATE_TABLES])
def test_tables_that_br_makes_get_rows_that_no_feed_has(action: Action) -> None:
    made = job(action, query=f"{BY_BR}CREATE TABLE `a` (…)", ids=(7, 8))
    result = hole_of(made, inside)
    assert result is not None
    assert (result.hole.cause, set(result.table_ids), int(result.hole.since_ts)) == (HoleCause.RESTORE, {7, 8}, 900)
    assert hole_of(replace(made, query="CREATE TABLE a (…)"), inside) is None, "fast creation uses the same kind"


MAKE_HOLES = {Action.ALTER_TABLE_MODE, Action.FLASHBACK_CLUSTER, Action.RECOVER_SCHEMA, Action.REFRESH_META}


@given(st.sampled_from(sorted(set(Action) - MAKE_HOLES)), st.permutations([A, B]), st.booleans())
def test_an_hour_of_ordinary_ddls_makes_no_hole_and_no_note(action: Action, names: list[TableName], has_tables: bool) -> None:
    one = job(action, *names, query="ALTER TABLE a …", ids=(7,) if has_tables else ())
    assert hole_of(one, inside) is None
    assert unknown(one) == ""


@given(st.sampled_from(sorted(MAKE_HOLES)))
def test_what_only_a_watcher_can_see_makes_one(action: Action) -> None:
    assert hole_of(job(action), inside) is not None


def test_a_kind_that_is_not_known_is_for_a_note() -> None:
    assert hole_of(job(99), inside) is None
    assert "kind 99" in unknown(job(99))


def test_the_repositorys_steps_are_the_recordings() -> None:
    """As far as the recording is there; `python -m tests.recordings.make_holes` writes them again."""
    whole = whole_set()
    if whole is not None and (whole / "holes").is_dir():
        assert text(kept(whole)) == PLACE.read_text()
    assert [one["step"] for one in json.loads(PLACE.read_text())][-1] == "flashback-cluster"
