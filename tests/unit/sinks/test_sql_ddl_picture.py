"""Whether a DDL was carried out, told by what its tables were before and are now; and the moment it is carried out at."""

from __future__ import annotations

from typing import cast

import pytest

from sidecar.shared.model.nouns import CommitTs, TableName, TableSchema, ts_at
from sidecar.shared.mysql.flavour import Flavour
from spark_merge.ddl.parser import parsed
from spark_merge.sinks.mysql.ddl import Intent, MemoryDdlPosition
from spark_merge.sinks.mysql.ddl_clock import session_time
from spark_merge.sinks.mysql.ddl_picture import Picture, Pictures, PictureSession, done, pictures, wanted

A, B, TMP = (TableName("s", one) for one in ("a", "b", "tmp"))
NONE = Picture()


def table(definition: str, number: int | None = None, **partitions: int) -> Picture:
    return Picture(definition, None if number is None else {"": number, **partitions})


SWAP = "rename table a to tmp, b to a, tmp to b"
EXCHANGE = "alter table a exchange partition P1 with table b"
PARTED = Picture("x", {"": 1, "p1": 11, "p2": 12})


@pytest.mark.parametrize(
    ("query", "before", "now", "expected"),
    [
        ("create table a (x int)", {A: NONE}, {A: NONE}, False),
        ("create table a (x int)", {A: NONE}, {A: table("x", 1)}, True),
        ("drop table a", {A: table("x", 1)}, {A: table("x", 1)}, False),
        ("drop table a", {A: table("x", 1)}, {A: NONE}, True),
        ("alter table a add x int", {A: table("x", 1)}, {A: table("x", 1)}, False),
        ("alter table a add x int", {A: table("x", 1)}, {A: table("xy", 2)}, True),
        ("alter table a comment 'same'", {A: table("x", 1)}, {A: table("x", 2)}, False),
        ("truncate a", {A: table("x", 1)}, {A: table("x", 2)}, False),
        ("alter table a rename b", {A: table("x", 1), B: NONE}, {A: NONE, B: table("x", 1)}, True),
        ("alter table a rename b", {A: table("x", 1), B: NONE}, {A: table("x", 1), B: NONE}, False),
        ("alter table a rename b", {A: table("x", 1), B: NONE}, {A: NONE, B: NONE}, None),
        (SWAP, {A: table("x", 1), TMP: NONE, B: table("x", 2)}, {A: table("x", 1), TMP: NONE, B: table("x", 2)}, False),
        (SWAP, {A: table("x", 1), TMP: NONE, B: table("x", 2)}, {A: table("x", 2), TMP: NONE, B: table("x", 1)}, True),
        (SWAP, {A: table("x", 1), TMP: NONE, B: table("x", 2)}, {A: table("x", 1), TMP: NONE, B: NONE}, None),
        (SWAP, {A: table("x", 1), TMP: NONE, B: table("x", 2)}, {A: table("x", 3), TMP: NONE, B: table("x", 1)}, None),
        (SWAP, {A: table("x"), TMP: NONE, B: table("y")}, {A: table("y"), TMP: NONE, B: table("x")}, True),
        (SWAP, {A: table("x"), TMP: NONE, B: table("y")}, {A: table("x"), TMP: NONE, B: table("y")}, False),
        (SWAP, {A: table("x"), TMP: NONE, B: table("x")}, {A: table("x"), TMP: NONE, B: table("x")}, None),
        (EXCHANGE, {A: PARTED, B: table("x", 2)}, {A: PARTED, B: table("x", 2)}, False),
        (EXCHANGE, {A: PARTED, B: table("x", 2)}, {A: Picture("x", {"": 1, "p1": 2, "p2": 12}), B: table("x", 11)}, True),
        (EXCHANGE, {A: PARTED, B: table("x", 2)}, {A: Picture("x", {"": 1, "p1": 2, "p2": 12}), B: table("x", 9)}, None),
        (EXCHANGE, {A: table("x"), B: table("x")}, {A: table("x"), B: table("x")}, None),
    ],
)  # fmt: skip
def test_what_was_noted_reports_whether_it_is_done(query: str, before: Pictures, now: Pictures, expected: bool | None) -> None:
    assert done(parsed(query, "s"), before, now) is expected


@pytest.mark.parametrize(
    ("query", "there", "expected"),
    [
        ("drop table a", False, True),
        ("drop table a", True, False),
        ("drop database a", False, True),
        ("create database a", True, True),
        ("create table a (x int)", True, None),
        ("create table if not exists a (x int)", True, None),
        ("create table a (x int)", False, False),
        ("alter table a add x int", False, False),
    ],
)
def test_what_is_as_it_should_be_needs_nothing(query: str, there: bool, expected: bool | None) -> None:
    assert wanted(parsed(query, "s"), {A: table("x", 1) if there else NONE}) is expected


def test_an_intent_comes_back_as_it_was_noted() -> None:
    intent = Intent(4, 1, "DROP TABLE `s`.`a`", "2026-01-01T00:00:00+00:00", {A: PARTED, B: NONE})
    position = MemoryDdlPosition()
    assert position.intent() is None
    position.note_intent(intent)
    assert position.intent() == intent


def test_without_the_logs_word_the_moment_is_the_commits_in_seconds() -> None:
    schema = TableSchema(A, (), ())
    assert session_time(ts_at(1_700_000_000_999), schema, schema) == 1_700_000_000.0
    assert session_time(CommitTs(0), None, None) == 0.0


@pytest.mark.parametrize(
    ("name", "ids"),
    [(TableName("s", "a"), {"": 7, "p1": 8}), (TableName("s", "my-table$"), {"": 9}), (TableName("s", "tabelle_ä"), None)],
)
def test_at_mysql_tables_are_looked_up_by_the_names_that_innodb_gives_them(name: TableName, ids: dict[str, int] | None) -> None:
    """It has no `filename` for CONVERT."""
    files = {"s/a": 7, "s/a#p#p1": 8, "s/my@002dtable@0024": 9}

    class Checking:
        def rows(self, sql: str, values: tuple[str, ...] = ()) -> list[tuple[object, ...]]:
            assert "filename" not in sql
            if "INNODB_TABLES" in sql:
                return [(file, number) for file, number in files.items() if file == values[0] or file.startswith(values[3])]
            return [("t", "CREATE TABLE `t` (`x` int)")] if sql.startswith("SHOW CREATE") else [("BASE TABLE",)]

    assert pictures(cast("PictureSession", Checking()), Flavour.MYSQL, [name])[name].ids == ids
