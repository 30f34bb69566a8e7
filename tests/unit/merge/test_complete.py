"""Which tables a sink has whole: every fate of a table, and every kind of dump."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from sidecar.core.chunk import ClosedWindow
from sidecar.core.messages import Brackets
from sidecar.core.model import Column, CommitTs, Seq, TableName, TableSchema
from sidecar.core.progress import DumpState, Progress, TableProgress
from sidecar.log.manifest import DdlRecord, Manifest
from sidecar.pace.sinks import SinkTables
from spark_merge.complete import followed, received

A, B, C = (TableName("shop", name) for name in "abc")
SINCE = CommitTs(150)
BEGAN = SinkTables("lake", "file:///out", Seq(3), CommitTs(300), Seq(4), CommitTs(500))
HAS_A = replace(BEGAN, complete={A: SINCE})


def schema(name: TableName, table_id: int, *physical_ids: int, key: tuple[str, ...] = ("id",)) -> TableSchema:
    return TableSchema(name, (Column("id", "int"), Column("v", "int")), key, table_id=table_id, physical_ids=physical_ids or (table_id,))


def segment(
    *, progress: Progress | None = None, query: str = "", of: TableName = A, tables: tuple[dict[TableName, TableSchema], ...] = ({}, {})
) -> tuple[Manifest, Mapping[str, Mapping[TableName, TableSchema]]]:
    """Segment 5, `(500, 600]`, which `query` ends if given; and the schemas files."""
    ddls = (DdlRecord(CommitTs(600), *of, query),) if query else ()
    after = "after" if tables[0] != tables[1] else None
    found = Manifest(
        Seq(5), 1, CommitTs(500), CommitTs(600), None, 0, 0, {}, "before", "canal-json", ddls, next_schemas=after,
        progress=progress.to_json() if progress else None,
    )  # fmt: skip
    return found, {"before": tables[0], "after": tables[1]}


def dump(table: TableProgress, *, state: DumpState = DumpState.RUNNING, sinks: tuple[str, ...] = ()) -> Progress:
    return Progress("1" * 16, state, Brackets.WATERMARK, 10, 1, 1, Seq(5), (table,), sinks=sinks)


DONE = TableProgress(A, spans=(), complete_at=CommitTs(550), since_seq=Seq(3))


def after_dump(progress: Progress, tables: SinkTables = BEGAN) -> Mapping[TableName, CommitTs]:
    found, schemas = segment(progress=progress)
    return followed(tables, received(found, "lake"), schemas.__getitem__).complete


def after_ddl(query: str, before: list[TableSchema], after: list[TableSchema], of: TableName = A, has: SinkTables = HAS_A) -> object:
    tables = tuple({one.name: one for one in each} for each in (before, after))
    found, schemas = segment(query=query, of=of, tables=tables)
    return followed(has, received(found, "lake"), schemas.__getitem__).complete


# ---- dumps ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", DumpState)
def test_a_table_that_a_dump_is_done_with_is_complete_whatever_becomes_of_the_dump(state: DumpState) -> None:
    assert after_dump(dump(DONE, state=state)) == {A: 550}


def test_a_pass_that_began_before_the_sink_did_completes_nothing() -> None:
    """Its first chunks are in segments that the sink never receives."""
    assert after_dump(dump(replace(DONE, since_seq=Seq(2)))) == {}
    assert after_dump(dump(replace(DONE, since_seq=Seq(3)))) == {A: 550}


@pytest.mark.parametrize("part", [replace(DONE, whole=False), replace(DONE, complete_at=None), replace(DONE, complete_at=CommitTs(500))])
def test_some_rows_a_table_that_is_not_done_and_one_that_was_done_before_complete_nothing(part: TableProgress) -> None:
    assert after_dump(dump(part)) == {}


def test_a_sink_receives_only_the_dumps_that_are_for_it() -> None:
    others, ours = dump(DONE, sinks=("other",)), replace(dump(replace(DONE, table=B), sinks=("lake",)), dump_id="2" * 16)
    found, schemas = segment(progress=others)
    found = replace(found, more_dumps=(ours.to_json(),))
    assert followed(BEGAN, received(found, "lake"), schemas.__getitem__).complete == {B: 550}
    assert [one["dump_id"] for one in received(found, "lake").dumps] == ["2" * 16]
    assert received(found, "third").dumps == ()
    both = replace(found, progress=replace(others, sinks=()).to_json())
    assert received(both, "lake") is both
    assert followed(BEGAN, both, schemas.__getitem__).complete == {A: 550, B: 550}


def test_a_dump_for_other_sinks_completes_nothing() -> None:
    assert after_dump(dump(DONE, sinks=("other",))) == {}
    assert after_dump(dump(DONE, sinks=("other", "lake"))) == {A: 550}


def test_a_table_that_was_complete_stays_so_from_the_earlier_moment_on() -> None:
    assert after_dump(dump(DONE), HAS_A) == {A: SINCE}


def test_the_segment_is_counted_in() -> None:
    found, schemas = segment()
    tables = followed(HAS_A, found, schemas.__getitem__)
    assert (tables.seq, tables.upto_ts, tables.complete, tables.began_seq) == (5, 600, {A: SINCE}, 3)


# ---- DDLs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("query", ["CREATE TABLE a (id INT PRIMARY KEY)", "create /* c */ table if not exists shop.a like b"])
def test_a_table_that_is_created_is_complete(query: str) -> None:
    assert after_ddl(query, [], [schema(A, 1)], has=BEGAN) == {A: 600}


@pytest.mark.parametrize(
    "query", ["RENAME TABLE other.x TO shop.a", "RECOVER TABLE a", "FLASHBACK TABLE a", "ALTER TABLE a ADD PRIMARY KEY (id)", ""]
)
def test_a_table_that_arrives_with_rows_is_not_complete(query: str) -> None:
    """An empty statement: the changefeed hides it."""
    assert after_ddl(query, [], [schema(A, 1)], has=BEGAN) == {}


def test_a_create_of_another_table_says_nothing() -> None:
    assert after_ddl("CREATE TABLE b (id INT)", [], [schema(A, 1), schema(B, 2)], of=B, has=BEGAN) == {B: 600}


def test_a_dropped_table_is_gone_and_is_complete_when_it_is_created_again() -> None:
    assert after_ddl("DROP TABLE a", [schema(A, 1)], []) == {}
    assert after_ddl("CREATE TABLE a (id INT)", [], [schema(A, 2)], has=BEGAN) == {A: 600}


@pytest.mark.parametrize("has", [BEGAN, HAS_A])
def test_a_truncated_table_is_complete(has: SinkTables) -> None:
    assert after_ddl("TRUNCATE TABLE a", [schema(A, 1)], [schema(A, 2)], has=has) == {A: 600}


def test_a_table_that_is_renamed_keeps_what_it_was_also_where_names_are_swapped() -> None:
    before, after = [schema(A, 1), schema(B, 2)], [schema(C, 1), schema(A, 2)]
    assert after_ddl("RENAME TABLE a TO c, b TO a", before, after) == {C: SINCE}
    assert after_ddl("RENAME TABLE a TO c, b TO a", before, after, has=replace(HAS_A, complete={B: SINCE})) == {A: SINCE}


@pytest.mark.parametrize("query", ["ALTER TABLE a ADD COLUMN w INT", "ALTER TABLE a ADD PARTITION (PARTITION p2 VALUES LESS THAN (9))"])
def test_columns_and_more_partitions_leave_a_table_as_it_was(query: str) -> None:
    assert after_ddl(query, [schema(A, 1, 11)], [replace(schema(A, 1, 11, 12), columns=(Column("id", "int"),))]) == {A: SINCE}


@pytest.mark.parametrize(
    ("query", "now"),
    [
        ("ALTER TABLE a EXCHANGE PARTITION p0 WITH TABLE b", schema(A, 1, 2, 12)),
        ("ALTER TABLE a TRUNCATE PARTITION p0", schema(A, 1, 13, 12)),
        ("ALTER TABLE a PARTITION BY HASH (id)", schema(A, 3, 14, 15)),
        ("ALTER TABLE a DROP PRIMARY KEY, ADD PRIMARY KEY (v)", schema(A, 1, 11, 12, key=("v",))),
    ],
)
def test_rows_that_no_change_brings_take_completeness_away_until_a_dump_has_read_them(query: str, now: TableSchema) -> None:
    assert after_ddl(query, [schema(A, 1, 11, 12)], [now]) == {}
    assert after_dump(dump(DONE), BEGAN) == {A: 550}


def test_a_statement_that_is_not_known_empties_nothing() -> None:
    assert after_ddl("CREATE SOMETHING a", [], [schema(A, 1)], has=BEGAN) == {}


# ---- what a sink receives -------------------------------------------------------------------------------------------


def test_a_sink_receives_neither_windows_nor_progress_of_a_dump_for_others() -> None:
    for_all, for_other = (ClosedWindow("1" * 16, CommitTs(500), CommitTs(600), Seq(5), (), sinks) for sinks in ((), ("other",)))
    found = replace(segment(progress=dump(DONE, sinks=("other",)))[0], windows=(for_all, for_other))
    assert received(found, "other") is found
    assert received(found, "lake") == replace(found, windows=(for_all,), progress=None)
