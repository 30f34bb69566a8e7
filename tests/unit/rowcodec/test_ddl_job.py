"""TiDB's job JSON: which rows are jobs that count, in both versions of the format."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.shared.errors import MessageUnreadable, TicdcDumpError
from sidecar.shared.model.nouns import CommitTs
from sidecar.shared.rowcodec.ddl_job import ddl_job, ended_job, history_job
from sidecar.shared.schema.ddl import Action, ColumnSwitch, DdlJob, JobTable, PartitionSwitch, Successor

DONE, RUNNING, SYNCED = 4, 1, 6
T = CommitTs(500)


def name(text: str) -> dict[str, str]:
    return {"O": text, "L": text.lower()}


def meta(action: int = Action.ADD_COLUMN, *, state: int = DONE, version: int = 1, **more: Any) -> bytes:
    binlog = {"SchemaVersion": version, "DBInfo": None, "TableInfo": None, "FinishedTS": 0, "MultipleTableInfos": None}
    binlog |= {key: more.pop(key) for key in tuple(more) if key in binlog}
    job = {"id": 77, "type": int(action), "state": state, "schema_id": 1, "table_id": 10, "schema_name": "shop", "table_name": "t"}
    job |= {"start_ts": 400, "query": "alter table t …", "schema_state": 0, "raw_args": None, "binlog": binlog, "priority": 0, "err": None}
    return json.dumps(job | more).encode()


def done(*arguments: Any, **more: Any) -> DdlJob:
    result = ddl_job(meta(*arguments, **more), commit_ts=T, at="entry 1")
    assert isinstance(result, DdlJob)
    return result


def test_a_done_job_has_the_entrys_commit_ts_and_its_table_info() -> None:
    info = {"id": 10, "name": name("t")}
    result = done(TableInfo=info, FinishedTS=9)
    assert result == DdlJob(77, Action.ADD_COLUMN, T, 400, "alter table t …", 1, "shop", 10, (JobTable(info, 1),), 1, 9)


@pytest.mark.parametrize("state", [0, 1, 2, 3, 5, 6, 7, 8, 9, 10])
def test_a_job_that_is_not_done_by_this_write_does_not_count(state: int) -> None:
    assert ddl_job(meta(state=state), commit_ts=T, at="entry 1") is None


def test_a_job_that_changed_no_schema_does_not_count() -> None:
    assert ddl_job(meta(version=0), commit_ts=T, at="entry 1") is None
    assert ddl_job(meta(binlog=None), commit_ts=T, at="entry 1") is None


@pytest.mark.parametrize(("state", "counts"), [(SYNCED, True), (DONE, False), (3, False), (5, False)])
def test_in_the_history_only_synced_jobs_count(state: int, counts: bool) -> None:
    result = history_job(meta(state=state, FinishedTS=900, TableInfo={"id": 10}), at="job 77")
    assert (result.commit_ts if result is not None else None) == (900 if counts else None)


@pytest.mark.parametrize("action", [Action.CREATE_SCHEMA, Action.DROP_SCHEMA, Action.MODIFY_SCHEMA_CHARSET, Action.RECOVER_SCHEMA])
def test_a_schemas_job_has_the_schemas_own_spelling(action: Action) -> None:
    result = done(action, schema_id=0, DBInfo={"id": 5, "db_name": name("Shop"), "charset": "utf8mb4"})
    assert (result.schema_id, result.schema_name, result.tables) == (5, "Shop", ())


def test_a_batch_holds_all_its_tables() -> None:
    infos = [{"id": 10}, {"id": 11}]
    assert done(Action.CREATE_TABLES, MultipleTableInfos=infos, TableInfo=infos[1]).tables == (JobTable(infos[0], 1), JobTable(infos[1], 1))


@pytest.mark.parametrize(
    "more",
    [
        {"raw_args": {"rename_table_infos": [{"new_schema_id": 2, "table_id": 10}, {"new_schema_id": 3, "table_id": 11}]}},
        {"raw_args": [[1, 1], [2, 3], [name("x"), name("y")], [10, 11], [name("shop"), name("shop")]]},
    ],
    ids=["version 2", "version 1"],
)
def test_renamed_tables_go_to_the_schemas_that_the_arguments_name(more: dict[str, Any]) -> None:
    result = done(Action.RENAME_TABLES, MultipleTableInfos=[{"id": 10}, {"id": 11}], **more)
    assert [one.schema for one in result.tables] == [2, 3]


def test_renamed_tables_of_a_job_without_arguments_go_by_what_it_locked() -> None:
    locked = [{"database": "shop", "table": "a"}, {"database": "other", "table": "b"}]
    result = done(Action.RENAME_TABLES, MultipleTableInfos=[{"id": 10}], involving_schema_info=locked)
    assert [one.schema for one in result.tables] == ["other"]


def test_renamed_tables_without_a_word_on_their_schemas_are_refused() -> None:
    with pytest.raises(MessageUnreadable, match="renames 2 tables and names 0 schemas"):
        done(Action.RENAME_TABLES, MultipleTableInfos=[{"id": 10}, {"id": 11}])


RECOVERED = {"RecoverTableInfos": [{"TableInfo": {"id": 10}}]}


@pytest.mark.parametrize(
    ("raw_args", "ids"),
    [
        ({"recover_info": RECOVERED, "check_flag": 1}, [10]),
        ([{"RecoverTabsInfo": RECOVERED["RecoverTableInfos"]}, 1], [10]),
        ({"recover_info": RECOVERED | {"LoadTablesOnExecute": True}}, []),
        ({"recover_info": {"RecoverTableInfos": None}}, []),
        (None, []),
    ],
)
def test_a_recovered_schema_brings_the_tables_that_the_job_holds(raw_args: Any, ids: list[int]) -> None:
    result = done(Action.RECOVER_SCHEMA, DBInfo={"id": 5, "db_name": name("shop")}, raw_args=raw_args)
    assert [one.info["id"] for one in result.tables] == ids


PART_INFO = {"definitions": [{"id": 40, "name": name("p9")}, {"id": 41, "name": name("p10")}]}


@pytest.mark.parametrize(
    ("action", "schema_state", "raw_args", "gone", "came"),
    [
        (Action.REMOVE_PARTITIONING, 5, {"part_names": ["p0"], "part_info": PART_INFO}, None, (40, 41)),
        (Action.ALTER_TABLE_PARTITIONING, 5, [["p0"], PART_INFO], None, (40, 41)),
        (Action.REORGANIZE_PARTITION, 5, {"part_names": ["P0", "p1"], "part_info": PART_INFO}, {"p0", "p1"}, (40, 41)),
        (Action.TRUNCATE_TABLE_PARTITION, 1, {"old_partition_ids": [20], "new_partition_ids": [40]}, {20}, (40,)),
        (Action.TRUNCATE_TABLE_PARTITION, 1, [[20], [40]], {20}, (40,)),
        (Action.DROP_TABLE_PARTITION, 1, {"part_names": ["P0", "p1"]}, {"p0", "p1"}, ()),
        (Action.DROP_TABLE_PARTITION, 1, [["p0"]], {"p0"}, ()),
    ],
)
def test_the_step_from_which_rows_are_elsewhere_counts(action: Action, schema_state: int, raw_args: Any, gone: Any, came: Any) -> None:
    result = ddl_job(meta(action, state=RUNNING, version=0, schema_state=schema_state, raw_args=raw_args), commit_ts=T, at="entry 1")
    expected = frozenset(gone) if gone is not None else None
    assert result == PartitionSwitch(77, action, T, 400, "alter table t …", "shop", 10, expected, came)
    for other in {0, 1, 2, 3, 4, 5} - {schema_state}:
        assert ddl_job(meta(action, state=RUNNING, schema_state=other, raw_args=raw_args), commit_ts=T, at="entry 1") is None


def test_a_reorganisation_reports_what_the_new_partitions_are() -> None:
    def part(id_: int, value: Any) -> dict[str, Any]:
        return {"id": id_, "name": value, "less_than": ["7"], "in_values": None, "policy_ref_info": None}

    for named, is_named in ((name("p9"), True), (7, False), ({"O": "", "L": ""}, False)):
        raw_args = {"part_names": ["p0"], "part_info": {"definitions": [part(40, named)]}}
        result = ddl_job(
            meta(Action.REORGANIZE_PARTITION, state=RUNNING, version=0, schema_state=5, raw_args=raw_args), commit_ts=T, at="entry 1"
        )
        assert isinstance(result, PartitionSwitch)
        assert result.came == (40,)
        assert result.definitions == (({"id": 40, "name": named, "less_than": ["7"], "in_values": None},) if is_named else ())


NEW = {"id": 13, "name": name("_Col$_c_0"), "state": 1}
MODIFIED = {"column": {"id": 8}, "old_column_id": 8, "changing_column": NEW}
MODIFIED_V1 = [{"id": 8}, name("c"), None, 4, 0, NEW, [], [], 8]


def amid(action: Action, schema_state: int, **more: Any) -> object:
    return ddl_job(meta(action, state=RUNNING, schema_state=schema_state, **more), commit_ts=T, at="entry 1")


@pytest.mark.parametrize("raw_args", [MODIFIED, MODIFIED_V1], ids=["version 2", "version 1"])
def test_the_step_from_which_rows_may_lack_the_modified_column_counts(raw_args: Any) -> None:
    """Public is the state of the new column: earlier, and in older TiDB at all times, rows have the old one."""
    expected = ColumnSwitch(77, Action.MODIFY_COLUMN, T, 400, "alter table t …", "shop", 10, (Successor(8, NEW),))
    assert [amid(Action.MODIFY_COLUMN, state, raw_args=raw_args) for state in range(6)] == [None] * 5 + [expected]


def test_a_column_that_is_modified_without_reorganisation_has_no_step() -> None:
    assert amid(Action.MODIFY_COLUMN, 5, raw_args={"column": {"id": 8}, "old_column_id": 8}) is None


@pytest.mark.parametrize("wrong", [{"old_column_id": 0}, {"changing_column": {"name": name("x")}}])
def test_a_step_that_does_not_name_its_columns_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(MessageUnreadable, match="does not name its columns"):
        amid(Action.MODIFY_COLUMN, 5, raw_args=MODIFIED | wrong)


def test_the_modified_columns_of_a_multi_schema_change_are_reported_together() -> None:
    """What is done already, as older TiDB does it, is told by the table as it is."""
    info = {"id": 10, "cols": []}
    parts = [
        {"type": 12, "state": RUNNING, "schema_state": 5, "raw_args": MODIFIED},
        {"type": 12, "state": RUNNING, "schema_state": 3, "raw_args": MODIFIED},
        {"type": 6, "state": RUNNING, "schema_state": 5, "raw_args": None},
        {"type": 12, "state": DONE, "schema_state": 5, "raw_args": [[], []]},
    ]
    result = amid(Action.MULTI_SCHEMA_CHANGE, 0, multi_schema_info={"sub_jobs": parts}, TableInfo=info)
    assert isinstance(result, ColumnSwitch)
    assert (result.successors, result.amid, result.drops) == ((Successor(8, NEW),), info, 1)
    assert amid(Action.MULTI_SCHEMA_CHANGE, 0, multi_schema_info={"sub_jobs": parts[1:3]}, TableInfo=info) is None
    assert amid(Action.MULTI_SCHEMA_CHANGE, 0, multi_schema_info={"sub_jobs": None}) is None


@pytest.mark.parametrize(
    "raw_args", [{"column_info": {"id": 0, "name": name("Note")}}, [name("Note"), False]], ids=["version 2", "version 1"]
)
def test_the_first_step_of_a_dropped_column_counts(raw_args: Any) -> None:
    expected = ColumnSwitch(
        77, Action.DROP_COLUMN, T, 400, "alter table t …", "shop", 10, (), drops=1, dropped=frozenset({"note"})
    )  # fmt: skip
    assert [amid(Action.DROP_COLUMN, state, raw_args=raw_args) for state in range(6)] == [None, None, expected, None, None, None]
    part = {"type": 6, "state": RUNNING, "schema_state": 2, "raw_args": raw_args}
    result = amid(Action.MULTI_SCHEMA_CHANGE, 0, multi_schema_info={"sub_jobs": [part]})
    assert isinstance(result, ColumnSwitch)
    assert result.dropped == {"note"}


def test_a_dropped_column_without_a_name_is_refused() -> None:
    with pytest.raises(MessageUnreadable, match="does not name its columns"):
        amid(Action.DROP_COLUMN, 2, raw_args={})


def test_a_step_that_does_not_name_its_partitions_is_refused() -> None:
    with pytest.raises(MessageUnreadable, match="has other arguments than expected"):
        ddl_job(meta(Action.REMOVE_PARTITIONING, state=RUNNING, schema_state=5, raw_args=None), commit_ts=T, at="entry 1")


@pytest.mark.parametrize(
    ("job_meta", "problem"),
    [
        (b"", "no DDL job of TiDB"),
        (b"{", "no DDL job of TiDB"),
        (b"[]", "no DDL job of TiDB"),
        (b'{"id\xff": 1}', "no DDL job of TiDB"),
        (meta(query="?").replace(b"?", b"\xff"), "no DDL job of TiDB"),
        (meta(raw_args="?").replace(b'"?"', b"[" * 100_000), "no DDL job of TiDB"),
        (b'{"id": 1}', "no DDL job of TiDB"),
        (b'{"id": "1", "type": 3, "state": 4}', "no DDL job of TiDB"),
        (meta(state=11), "state 11, expected 0 to 10"),
        (meta(state=-1), "state -1, expected 0 to 10"),
        (meta(Action.DROP_SCHEMA), "holds no schema"),
        (
            meta(Action.RECOVER_SCHEMA, DBInfo={"id": 5, "db_name": name("s")}, raw_args=[{"RecoverTabsInfo": [7]}]),
            "has other arguments than expected",
        ),
    ],
)
def test_what_is_no_job_is_refused_with_its_place(job_meta: bytes, problem: str) -> None:
    with pytest.raises(MessageUnreadable, match=problem) as result:
        ddl_job(job_meta, commit_ts=T, at="lane 1@2")
    assert "lane 1@2" in str(result.value)


KEYS = ["rename_table_infos", "new_schema_id", "recover_info", "RecoverTabsInfo", "TableInfo"]
KEYS += ["changing_column", "old_column_id", "column", "column_info", "column_name", "name", "O"]
KEYS += ["part_names", "part_info", "definitions", "id", "old_partition_ids", "new_partition_ids"]
WORDS = st.recursive(
    st.none() | st.integers(0, 50) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(
    "raw_args",
    [{"rename_table_infos": [7]}, {"rename_table_infos": [{}]}, [[1], ["x"]], [[1], 7], 7, "x"],
)
def test_arguments_of_another_shape_are_refused(raw_args: Any) -> None:
    with pytest.raises(MessageUnreadable, match="has other arguments than expected"):
        done(Action.RENAME_TABLES, MultipleTableInfos=[{"id": 10}], raw_args=raw_args)


@pytest.mark.parametrize("raw_args", [{"part_names": [], "part_info": PART_INFO}, {"part_names": ["p0"], "part_info": {"definitions": []}}])
def test_a_step_without_partitions_is_refused(raw_args: Any) -> None:
    with pytest.raises(MessageUnreadable, match="does not name its partitions"):
        ddl_job(meta(Action.REORGANIZE_PARTITION, state=RUNNING, schema_state=5, raw_args=raw_args), commit_ts=T, at="entry 1")


@given(action=st.sampled_from(list(Action)), state=st.sampled_from([DONE, RUNNING]), schema_state=st.integers(0, 5), raw_args=WORDS)
def test_no_arguments_do_anything_but_parse_or_stop(action: Action, state: int, schema_state: int, raw_args: Any) -> None:
    more: dict[str, Any] = {"DBInfo": {"id": 5, "db_name": name("shop")}, "MultipleTableInfos": [{"id": 10}], "TableInfo": {"id": 10}}
    try:
        result = ddl_job(meta(action, state=state, schema_state=schema_state, raw_args=raw_args, **more), commit_ts=T, at="entry 1")
    except TicdcDumpError:
        return
    if isinstance(result, PartitionSwitch):
        assert all(isinstance(one, int) for one in result.came)
        assert result.gone is None or all(isinstance(one, int | str) for one in result.gone)
    elif isinstance(result, ColumnSwitch):
        assert all(isinstance(one.column_id, int) and isinstance(one.column["id"], int) for one in result.successors)
    elif result is not None:
        assert all(isinstance(one.schema, int | str) and isinstance(one.info, dict) for one in result.tables)


@pytest.mark.parametrize(
    ("query", "schemas"),
    [
        ("RENAME TABLE `a` TO `b`, `other`.`c` TO `d``.e`;", ["shop", "shop"]),
        ("rename table a to x.b, c to d", ["x", "shop"]),
        ("RENAME TABLE `a` TO `X`.`b`, `c` TO `Y`.`d`", ["x", "y"]),
        ("RENAME TABLE `a` TO `b`, `c` TO `y`.`d`", None),
    ],
)
def test_what_older_tidb_renames_is_reported_by_the_statement(query: str, schemas: list[str] | None) -> None:
    """Its history has neither arguments nor what the job locked. The session's schema is the last table's, where that names none."""
    infos = [{"id": 10, "name": name("b")}, {"id": 11, "name": name("d")}]
    job = {"id": 5, "type": 47, "state": 6, "schema_id": 1, "schema_name": "shop", "query": "…", "raw_args": None}
    job_json = json.dumps(job | {"binlog": {"SchemaVersion": 3, "MultipleTableInfos": infos}}).encode()
    if schemas is None:
        with pytest.raises(MessageUnreadable, match="renames 2 tables and names 0 schemas"):
            ended_job(job_json, commit_ts=T, query=query, at="here")
    else:
        is_over, result = ended_job(job_json, commit_ts=T, query=query, at="here")
        assert is_over
        assert result is not None
        assert [one.schema for one in result.tables] == schemas
