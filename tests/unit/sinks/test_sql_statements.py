"""Rows as SQL text."""

from __future__ import annotations

from typing import cast

import pyarrow as pa
import pytest

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Column, TableName, TableSchema
from sidecar.shared.mysql.flavour import Flavour
from sidecar.shared.mysql.session import MysqlSession
from spark_merge.sinks.mysql.server_table import ServerColumn, ServerTable, read_table
from spark_merge.sinks.mysql.statements import NotCanonical, Puts, SqlTexts, SqlWrite, literal_of, statements
from spark_merge.sinks.mysql.tables import target_table

NAME = TableName("s", "t")
A, B = ServerColumn("a", "int", None, False), ServerColumn("b", "int", None, False)


@pytest.mark.parametrize(
    ("kind", "text", "literal"),
    [
        ("int", "-5", "-5"), ("decimal", "1.50", "1.50"), ("double", "1.5", "1.5e0"), ("double", "1e-07", "1e-07"), ("bit", "5", "5"),
        ("binary", "00FF", "x'00FF'"), ("binary", "", "x''"), ("text", "it's \\ \x00", "'it''s \\\\ \x00'"), ("year", "0000", "'0000'"),
        ("time", "-01:00:00", "'-01:00:00'"),
    ],
)  # fmt: skip
def test_a_value_is_a_literal_of_its_kind(kind: str, text: str, literal: str) -> None:
    assert literal_of(Column("c", kind))(text) == literal  # type: ignore[arg-type]  # kinds


@pytest.mark.parametrize(
    ("kind", "text"), [("int", "1; DROP TABLE x"), ("double", "nan"), ("binary", "0"), ("decimal", "1e5"), ("bit", "")]
)
def test_what_is_no_canonical_text_is_never_sent(kind: str, text: str) -> None:
    with pytest.raises(NotCanonical):
        literal_of(Column("c", kind))(text)  # type: ignore[arg-type]  # kinds


def texts(*key: str, columns: tuple[str, ...] = ("a", "b")) -> SqlTexts:
    schema = TableSchema(NAME, tuple(Column(name, "int") for name in columns), key)
    table = ServerTable(tuple(ServerColumn(name, "int", None, name == "g") for name in columns), (tuple((name, None) for name in key),))
    return SqlTexts(schema, target_table(schema, NAME, table, Flavour.MARIADB))


def write(made: SqlTexts, number: int, row: tuple[str, str], *, gone: bool = False) -> SqlWrite:
    columns = [[value] for value in row]
    return SqlWrite(number, made, row[0], made.keys(columns)[0], None if gone else made.rows(columns)[0])


def test_the_last_of_each_row_deletes_first_in_the_order_of_last_changes() -> None:
    made = texts("a")
    rows = [write(made, 0, ("1", "5")), write(made, 1, ("2", "6")), write(made, 2, ("3", "0"), gone=True), write(made, 3, ("1", "7"))]
    delete, replace = statements(rows, batched=True)
    assert delete == "DELETE FROM `s`.`t` WHERE `a` IN (3)"
    assert replace == "REPLACE INTO `s`.`t` (`a`, `b`) VALUES (2,6),(1,7)"
    assert len(list(statements(rows, batched=False))) == 3


def test_a_key_of_several_columns_is_a_condition_and_generated_columns_are_not_written() -> None:
    made = texts("a", "b", columns=("a", "b", "g"))
    assert (
        made.delete(made.keys([["1", "2"], ["3", "4"], ["9", "9"]]))
        == "DELETE FROM `s`.`t` WHERE (`a` = 1 AND `b` = 3) OR (`a` = 2 AND `b` = 4)"
    )
    assert made.replace(made.rows([["1"], ["2"], ["9"]])) == "REPLACE INTO `s`.`t` (`a`, `b`) VALUES (1,2)"


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        (None, "table s.t is not at the target"),
        (ServerTable((ServerColumn("a", "int", None, False),), ((("a", None),),)), "has no column b"),
        (ServerTable((ServerColumn("a", "int", None, False), ServerColumn("b", "int", None, False)), ()), "no unique key of exactly"),
        (
            ServerTable((ServerColumn("a", "int", None, False), ServerColumn("b", "int", None, False)), ((("a", 3),),)),
            "no unique key of exactly",
        ),
    ],
)
def test_a_table_that_cannot_take_the_rows_says_so(table: ServerTable | None, problem: str) -> None:
    schema = TableSchema(NAME, (Column("a", "int"), Column("b", "int")), ("a",))
    with pytest.raises(SinkError, match=problem):
        SqlTexts(schema, target_table(schema, NAME, table, Flavour.MARIADB))


def test_a_vector_is_refused_by_name_but_by_tidb() -> None:
    schema = TableSchema(NAME, (Column("a", "int"), Column("b", "vector")), ("a",))
    table = ServerTable((ServerColumn("a", "int", None, False), ServerColumn("b", "vector", None, False)), ((("a", None),),))
    with pytest.raises(SinkError, match=r"column b of .* is a vector"):
        target_table(schema, NAME, table, Flavour.MARIADB).check()
    target_table(schema, NAME, table, Flavour.TIDB).check()


def of_one(kind: str) -> SqlTexts:
    schema = TableSchema(NAME, (Column("a", kind),), ("a",))  # type: ignore[arg-type]  # kinds
    return SqlTexts(schema, target_table(schema, NAME, ServerTable((A,), ((("a", None),),)), Flavour.MARIADB))


@pytest.mark.parametrize("kind", ["int", "text", "binary"])
def test_many_values_are_as_each_alone(kind: str) -> None:
    literal = literal_of(Column("a", kind))  # type: ignore[arg-type]  # kinds
    odd = ("it's", "back\\slash", "new\nline") if kind == "text" else ()
    every: list[list[str | None]] = [["12", "34"], ["12", None, "34"]]
    every += [["12", one] for one in odd]
    for many in every:
        assert of_one(kind).rows([many]) == [f"({'NULL' if text is None else literal(text)})" for text in many]


@pytest.mark.parametrize("bad", ["2)", "", "1\n", " 1"])
def test_one_bad_number_among_many_is_found(bad: str) -> None:
    with pytest.raises(SinkError, match="no text of its column's kind"):
        of_one("int").rows([["1", bad, "4"]])


TEXTS = {
    "int": ["12", "-3"], "uint": ["18446744073709551615"], "decimal": ["-1.50"], "bit": ["7"], "float": ["0.5", "1e+20"],
    "double": ["-2.0", "3e-5"], "binary": ["", "00FF"], "text": ["", "it's", "back\\slash", "new\nline", "😀"],
    "datetime": ["0000-00-00 00:00:00"],
}  # fmt: skip


@pytest.mark.parametrize("kind", TEXTS)
def test_a_chunks_rows_are_as_each_row_alone(kind: str) -> None:
    """Also where there is no value at all, and with nulls among them."""
    texts = of_one(kind)
    for many in ([], [None], TEXTS[kind], [None, *TEXTS[kind], None]):
        table = pa.table({"a": pa.chunked_array([pa.array(many, pa.string())])})
        assert texts.table_rows(table) == texts.rows([many])


@pytest.mark.parametrize(("kind", "text"), [("int", "1; DROP"), ("int", "1\n"), ("double", "nan"), ("binary", "0"), ("decimal", "")])
def test_what_is_no_value_is_refused_in_a_chunk_and_in_a_row(kind: str, text: str) -> None:
    table = pa.table({"a": ["00" if kind == "binary" else "1", text]})
    with pytest.raises(SinkError, match=r"a value of .* is no text of its column's kind"):
        of_one(kind).table_rows(table)
    with pytest.raises(SinkError, match=r"a value of .* is no text of its column's kind"):
        of_one(kind).rows([[text]])


def test_a_chunk_that_is_done_again_goes_on_behind_its_slot() -> None:
    texts = of_one("int")
    puts = Puts(10, texts, pa.table({"a": ["1", "2", "3"]}))
    assert list(puts.statements(known=0, batched=True)) == [texts.replace(["(1)", "(2)", "(3)"])]
    assert list(puts.statements(known=12, batched=True)) == [texts.replace(["(3)"])]
    assert list(puts.statements(known=13, batched=True)) == []
    assert list(puts.statements(known=11, batched=False)) == [texts.replace(["(2)"]), texts.replace(["(3)"])]
    assert [(write.number, write.key, write.values) for write in puts.writes()] == [
        (10, '["1"]', "(1)"),
        (11, '["2"]', "(2)"),
        (12, '["3"]', "(3)"),
    ]


@pytest.mark.parametrize(
    ("extra", "generated"),
    [
        ("", False), ("auto_increment", False), ("DEFAULT_GENERATED", False), ("DEFAULT_GENERATED on update CURRENT_TIMESTAMP(6)", False),
        ("STORED GENERATED", True), ("VIRTUAL GENERATED", True), ("VIRTUAL GENERATED, INVISIBLE", True),
    ],
)  # fmt: skip
def test_a_column_whose_default_is_generated_is_written_as_others(extra: str, generated: bool) -> None:
    """As MySQL 8 and TiDB, unlike MariaDB, tell of DEFAULT CURRENT_TIMESTAMP."""

    class Checking:
        def rows(self, sql: str, _: object) -> list[tuple[object, ...]]:
            return [("at", "timestamp", None, extra, None, "timestamp", "YES", 1)] if "COLUMNS" in sql else []

    table = read_table(cast("MysqlSession", Checking()), NAME)
    assert table is not None
    assert [column.generated for column in table.columns] == [generated]
