"""What the lexer promises for any text. What each lexeme is: tests/scenarios/sql_*.txt."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.shared.sql.lexer import begins, tokens

_PIECES = [
    *("'", '"', "`", "\\", "''", "/*", "*/", "/*!", "/*!50100", "/*T![ttl]", "/*T![new]", "--", "#", "\n", " ", ".", "5", "1.5", "9e9"),
    *("a", "é", "\u00a0", "N'", "x'", "b'1'", "0x", "@", "@@", "->>", ":=", "\\N", "(", ")", ";", "\0"),
]
TEXTS = st.lists(st.sampled_from(_PIECES), max_size=20).map("".join) | st.text()


@given(TEXTS, st.booleans(), st.sampled_from([None, frozenset({"ttl"})]))
def test_nothing_of_a_text_is_lost_whatever_it_is(text: str, backslashes: bool, features: frozenset[str] | None) -> None:
    results = list(tokens(text, backslashes=backslashes, features=features))
    assert "".join(token.gap + token.text for token in results) == text
    assert all(text.startswith(token.text, token.at) for token in results)
    assert [token.kind for token in results].index("end") == len(results) - 1


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("create table t (a int)", True),
        ("/* by bob */ CREATE -- x\n TABLE t", True),
        ("CREATE /*T![new] TABLE */ t", True),
        ("CREATE `TABLE`", False),
        ("'CREATE' TABLE t", False),
        ("CREATE TABLES", False),
        ("", False),
    ],
)
def test_the_first_words_are_those_outside_of_comments_and_quotes(text: str, first: bool) -> None:
    assert begins(text, "DROP TABLE", "CREATE TABLE") is first
