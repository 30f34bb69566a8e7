"""What a DDL means for a dump, from the tables before and after it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sidecar.shared.model.nouns import Column, PreviousLayout, TableName, TableSchema
from sidecar.shared.model.schema_step import SchemaFate, TableStep, steps

ID, X = Column("id", "int", nullable=False), Column("x", "text")


def table(name: str, table_id: int = 1, physical_ids: tuple[int, ...] = (), **given: object) -> TableSchema:
    return replace(TableSchema(TableName("s", name), (ID, X), ("id",), table_id, physical_ids or (table_id,)), **given)  # type: ignore[arg-type]


def reported(before: list[TableSchema], after: list[TableSchema], *named: str) -> list[tuple[str | None, str | None, str]]:
    results = steps({t.name: t for t in before}, {t.name: t for t in after}, named={TableName("s", name) for name in named})
    return [(s.before.table if s.before else None, s.after.table if s.after else None, s.fate.value) for s in results]


PARTS = (11, 12, 13)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([table("t")], [table("t")], []),
        ([table("t", former=PreviousLayout(7, "layout"))], [table("t")], []),
        ([table("t")], [table("t", columns=(ID,))], [("t", "t", "kept")]),
        ([table("t")], [table("t", columns=(Column("id", "uint", nullable=False), X))], [("t", "t", "again")]),
        ([table("t")], [table("t", columns=(ID, replace(X, nullable=False)), key=("x",))], [("t", "t", "again")]),
        ([table("t")], [table("t", 2)], [("t", "t", "again")]),
        ([table("t")], [table("u")], [("t", "u", "kept")]),
        ([table("t", columns=(ID,))], [table("t", columns=(ID,), omitted=(X,))], [("t", "t", "kept")]),
        ([table("t")], [table("u", columns=(ID,), omitted=(X,))], [("t", "u", "kept")]),
        ([table("t", columns=(ID,), omitted=(X,))], [table("u")], [("t", "u", "again")]),
        ([table("t", columns=(ID,), omitted=(X,))], [table("t", columns=(ID, replace(X, name="y")))], [("t", "t", "again")]),
        ([table("t", columns=(ID,), omitted=(X,))], [table("t", omitted=(replace(X, name="y"),))], [("t", "t", "again")]),
        ([table("t", columns=(ID,), omitted=(X,))], [table("t", columns=(ID, replace(X, name="y")), omitted=(X,))], [("t", "t", "kept")]),
        ([table("t", columns=(ID,), omitted=(X,))], [table("t", columns=(ID,))], [("t", "t", "kept")]),
        ([table("a", 1), table("b", 2)], [table("a", 2), table("b", 1)], [("a", "b", "kept"), ("b", "a", "kept")]),
        ([table("a", 1), table("b", 2)], [table("a", 2)], [("a", None, "gone"), ("b", "a", "kept")]),
        ([table("t")], [], [("t", None, "gone")]),
        ([], [table("t")], [(None, "t", "born")]),
        ([table("t")], [table("t", key=())], [("t", None, "gone")]),
        ([table("t", 1, PARTS)], [table("t", 1, (*PARTS, 14))], [("t", "t", "kept")]),
        ([table("t", 1, PARTS)], [table("t", 1, PARTS[1:])], [("t", "t", "kept")]),
        ([table("t", 1, PARTS)], [table("t", 1, (11, 12, 20))], [("t", "t", "again")]),
        ([table("t", 1, (1,))], [table("t", 2, PARTS)], [("t", "t", "again")]),
        ([table("t", 1, PARTS), table("e", 5)], [table("t", 1, (11, 12, 5)), table("e", 13)], [("e", "e", "again"), ("t", "t", "again")]),
    ],
    ids=[
        "nothing", "a former layout forgotten", "a column dropped", "the key's type", "another key", "truncated", "renamed",
        "a column that is omitted added", "renamed into a selector", "renamed out of one", "a column renamed out of one",
        "renamed to another selector", "a column added beside one that is omitted", "one that is omitted dropped",
        "swapped",
        "dropped, the name taken over",
        "dropped", "created", "without a key", "partition added", "partition dropped", "partition truncated", "partitioned", "exchanged",
    ],
)  # fmt: skip
def test_by_id_where_the_source_reports_ids(
    before: list[TableSchema], after: list[TableSchema], expected: list[tuple[str | None, str | None, str]]
) -> None:
    assert reported(before, after) == expected


def test_by_name_where_it_does_not() -> None:
    old, new = replace(table("t"), table_id=0, physical_ids=()), replace(table("t"), table_id=0, physical_ids=(), columns=(ID,))
    assert reported([old], [new]) == [("t", "t", "kept")]
    assert reported([old], [replace(new, name=TableName("s", "u"))]) == [("t", None, "gone"), (None, "u", "born")]


def test_a_table_that_the_ddl_names_is_read_again_from_where_the_log_is_though_it_looks_the_same() -> None:
    assert reported([table("t"), table("u", 2)], [table("t"), table("u", 2)], "t") == [("t", "t", "kept")]
    assert steps({}, {}, named={TableName("s", "view")}) == ()


def test_a_step_says_what_it_is_of() -> None:
    assert steps({}, {TableName("s", "t"): table("t")}, named=()) == (TableStep(None, TableName("s", "t"), SchemaFate.BORN),)
