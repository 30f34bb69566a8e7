"""What an operator's predicate may ask: its own row, by harmless means. All that an attacker tried is here."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from sidecar.control.predicate import DEEP_MAX, NAMED_MAX, PREDICATE_BYTES_MAX, predicate
from sidecar.shared.errors import RefusedRequest
from sidecar.shared.model.nouns import Column, TableName, TableSchema

COLUMNS = (
    Column("id", "int"),
    Column("amount", "int"),
    Column("name", "text"),
    Column("at", "datetime"),
    Column("doc", "json"),
    Column("we;ird)", "int"),
    Column("left", "int"),
)
SCHEMA = TableSchema(TableName("shop", "account"), COLUMNS, ("id",))


@pytest.mark.parametrize("text", ["id in (select id from hr.salary)", "", "  "])
def test_whatever_is_not_of_the_row_is_refused(text: str) -> None:
    with pytest.raises(RefusedRequest, match=re.escape("the predicate of shop.account")) as error:
        predicate(text, SCHEMA)
    assert "created_at" in error.value.hint


def test_what_is_refused_is_named_with_its_place() -> None:
    with pytest.raises(RefusedRequest, match="has secret at character 11, which is neither a column of the table as the feed carries it"):
        predicate("id = 1 or secret > 1", SCHEMA)


def test_a_column_that_the_changefeed_leaves_out_is_none_though_the_source_has_it() -> None:
    with pytest.raises(RefusedRequest, match="has secret at character 11"):
        predicate("id = 1 or secret > 1", replace(SCHEMA, omitted=(Column("secret", "int"),)))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("id = 1 or select", "has 'select' at character 11, which an expression may not use"),
        ("id = ?", "has '?' at character 6, which begins nothing"),
        ("amuont > 1", "did you mean amount?"),
        ("`amuont` > 1", "did you mean amount?"),
        ("AMUONT > 1", "did you mean amount?"),
    ],
)
def test_a_refusal_is_a_sentence_and_names_the_columns_of_the_table(text: str, says: str) -> None:
    with pytest.raises(RefusedRequest) as error:
        predicate(text, SCHEMA)
    assert says in error.value.message
    assert ", ".join(column.name for column in SCHEMA.columns) in error.value.hint


def test_of_many_columns_the_first_are_named() -> None:
    many = replace(SCHEMA, columns=tuple(replace(SCHEMA.columns[0], name=f"c{number}") for number in range(NAMED_MAX + 5)))
    with pytest.raises(RefusedRequest, match=f"c{NAMED_MAX - 1} and 5 more") as error:
        predicate("nothing = 1", many)
    assert f"c{NAMED_MAX}" not in error.value.hint


def test_parentheses_and_length_are_bounded() -> None:
    deep = "(" * DEEP_MAX
    assert predicate(f"{deep}id{')' * DEEP_MAX}", SCHEMA)
    with pytest.raises(RefusedRequest, match=f"more than {DEEP_MAX} parentheses"):
        predicate(f"({deep}id{')' * DEEP_MAX})", SCHEMA)
    with pytest.raises(RefusedRequest, match="bytes of SQL"):
        predicate("id > " + "1" * PREDICATE_BYTES_MAX, SCHEMA)
