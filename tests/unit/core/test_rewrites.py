"""Beside which DDLs TiCDC's rows may be wrong, and what of a dump is read again for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sidecar.shared.model.messages import Brackets, Pace, StartDump
from sidecar.shared.model.nouns import Column, CommitTs, Ddl, Lane, Rank, Seq, TableName, TableSchema
from sidecar.shared.model.progress import DumpState, Progress, TableProgress
from sidecar.shared.model.schema_step import Beside, Rewrites, SchemaFate, TableStep, rewritten, steps

T, U = TableName("shop", "t"), TableName("shop", "u")
ID = Column("id", "int", nullable=False)
Tables = dict[TableName, TableSchema]


def table(name: TableName = T, *columns: Column, number: int = 1, physical: tuple[int, ...] = ()) -> TableSchema:
    return TableSchema(name, (ID, *columns), ("id",), number, physical or (number,))


def of(*schema: TableSchema) -> Tables:
    return {one.name: one for one in schema}


def ddl(query: str, name: TableName = T, ts: int = 500) -> Ddl:
    return Ddl(CommitTs(ts), Rank.DDL, name.schema, name.table, query, Lane("a"), 1)


D, E = Column("d", "decimal", length=10, scale=2), Column("e", "enum", elements=("a", "b"))
CASES = {
    "another kind": (table(T, Column("v", "int")), table(T, Column("v", "uint")), "", True),
    "another scale": (table(T, D), table(T, replace(D, scale=4)), "", True),
    "labels in another order": (table(T, E), table(T, replace(E, elements=("b", "a"))), "", True),
    "labels at the end": (table(T, E), table(T, replace(E, elements=("a", "b", "c"))), "", False),
    "another column": (table(T), table(T, D), "ALTER TABLE t ADD COLUMN d DECIMAL(10,2)", False),
    "a shorter text shows in the statement only": (table(), table(), "alter table T modify column v varchar(3)", True),
    "so does a change": (table(), table(), "ALTER TABLE t CHANGE a b VARCHAR(3)", True),
    "an index": (table(), table(), "ALTER TABLE t ADD INDEX modify_at (v)", False),
    "partitions removed": (table(T, physical=(11, 12)), table(T, number=2), "", True),
    "partitioned": (table(), table(T, number=2, physical=(11, 12)), "", True),
    "a partition reorganised": (table(T, physical=(11, 12)), table(T, physical=(11, 13, 14)), "", True),
    "a partition added": (table(T, physical=(11,)), table(T, physical=(11, 12)), "", False),
    "truncated": (table(), table(T, number=2), "TRUNCATE TABLE t", False),
    "without a key": (replace(table(T, D), key=()), replace(table(T, replace(D, scale=4)), key=()), "", False),
    "renamed": (table(U, D), table(T, replace(D, scale=4)), "", True),
    "carried, and omitted before": (replace(table(U), omitted=(D,)), table(T, D), "RENAME TABLE u TO t", True),
    "omitted, and carried before": (table(U, D), replace(table(T), omitted=(D,)), "RENAME TABLE u TO t", False),
}


@pytest.mark.parametrize("case", CASES)
def test_rows_are_written_again_where_the_form_or_the_statement_says_so(case: str) -> None:
    before, after, query, again = CASES[case]
    assert rewritten(of(before), of(after), [ddl(query)]) == ((T,) if again else ())


def progress(state: DumpState, *names: TableName, grows: bool = False) -> Progress:
    tables = tuple(TableProgress(name, where="id > 3" if name == T else None) for name in names)
    return Progress("d" * 16, state, Brackets.WATERMARK, 10, 1, 5, Seq(0), tables, pace=Pace(rows_per_s=7), grows=grows)


BEFORE, AFTER = of(table(T, D), table(U, E, number=2)), of(table(T, replace(D, scale=4)), table(U, E, number=2))
RESULT = steps(BEFORE, AFTER, named={T})


def passed(beside: Beside, last: Progress | None) -> tuple[tuple[TableStep, ...], StartDump | None]:
    return Rewrites(beside).passed(RESULT, BEFORE, AFTER, [ddl("ALTER TABLE t MODIFY d …")], () if last is None else (last,))


def test_it_is_counted_with_its_tables_where_the_feed_can_be_wrong() -> None:
    for beside, count in ((Beside.RIGHT, 0), (Beside.REPORTED, 1)):
        rewrites = Rewrites(beside)
        assert rewrites.passed(RESULT, BEFORE, AFTER, [ddl("…")], (progress(DumpState.RUNNING, T),)) == (RESULT, None)
        assert (rewrites.count, rewrites.tables) == (count, (T,) if count else ())
        assert rewrites.passed((), BEFORE, BEFORE, [ddl("ADD INDEX", ts=600)], ()) == ((), None)
        assert rewrites.commit_ts == (500 if count else None)


@pytest.mark.parametrize("state", [DumpState.RUNNING, DumpState.PAUSED])
def test_a_dump_that_is_not_over_reads_the_table_from_the_beginning(state: DumpState) -> None:
    assert passed(Beside.READ_AGAIN, progress(state, T, U)) == ((TableStep(T, T, SchemaFate.AGAIN),), None)


def test_a_dump_that_has_finished_is_followed_by_one_of_its_rewritten_tables() -> None:
    results, once_more = passed(Beside.READ_AGAIN, progress(DumpState.FINISHED, T, U))
    assert {step.before for step in results} == {T}, "which nobody reads again: it is over"
    assert once_more == StartDump(f"{500:016x}", (T,), Brackets.WATERMARK, 10, ((T, "id > 3"),), Pace(rows_per_s=7), grows=True)
    assert passed(Beside.READ_AGAIN, progress(DumpState.FINISHED, U))[1] is None, "it is none of its tables"


def test_a_table_that_another_dump_has_or_takes_in_is_not_read_by_one_more() -> None:
    finished = progress(DumpState.FINISHED, T, U)
    for other in (progress(DumpState.PAUSED, T), progress(DumpState.QUEUED, U, grows=True)):
        rewrites = Rewrites(Beside.READ_AGAIN)
        results, once_more = rewrites.passed(RESULT, BEFORE, AFTER, [ddl("ALTER TABLE t MODIFY d …")], (finished, other))
        assert once_more is None
        assert any(step.after == T and step.fate in (SchemaFate.AGAIN, SchemaFate.BORN) for step in results)
    beside = (finished, progress(DumpState.RUNNING, U))
    assert Rewrites(Beside.READ_AGAIN).passed(RESULT, BEFORE, AFTER, [ddl("ALTER TABLE t MODIFY d …")], beside)[1] is not None


@pytest.mark.parametrize("last", [None, progress(DumpState.FAILED, T), progress(DumpState.STOPPED, T)])
def test_where_nothing_was_dumped_nothing_is_read_again(last: Progress | None) -> None:
    results, once_more = passed(Beside.READ_AGAIN, last)
    assert once_more is None
    assert {step.before for step in results} == {T}


def test_a_dump_that_takes_in_more_takes_in_what_is_rewritten_meanwhile_and_another_does_not() -> None:
    results, _ = passed(Beside.READ_AGAIN, progress(DumpState.RUNNING, U, grows=True))
    assert TableStep(None, T, SchemaFate.BORN) in results
    results, _ = passed(Beside.READ_AGAIN, progress(DumpState.RUNNING, U))
    assert TableStep(None, T, SchemaFate.BORN) not in results
