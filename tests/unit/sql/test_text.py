"""What TiDB, TiCDC and MySQL write between quotes is read back as it was, or is not known."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.shared.columns.values import UnfitValue, from_ints, int_array
from sidecar.shared.model.nouns import Column
from sidecar.shared.schema.ddl import Action
from sidecar.shared.sql.lexer import tokens
from sidecar.shared.sql.text import Shows, for_servers, labels, quoted_text, shown
from sidecar.shared.ticdc.ddl_text import action_of
from spark_merge.ddl.parser import parsed

LABELS = st.lists(st.text(st.sampled_from("ab\\\\''\"`,()%nr0tZ \n\r\0\tü中"), max_size=6), min_size=1, max_size=5, unique=True)


def shown_by_tidb(elements: list[str]) -> str:
    """pkg/parser/types/field_type.go::CompactStr with format.OutputFormat."""
    written = []
    for element in elements:
        text = ""
        for char in element:
            text += "\\0" if char == "\0" else "''" if char == "'" else "\\n" if char == "\n" else "\\r" if char == "\r" else char
        written.append(f"'{text}'")
    return f"enum({','.join(written)})"


def restored(text: str) -> str:
    """pkg/parser/format/format.go::RestoreCtx.WriteString with RestoreStringSingleQuotes alone."""
    return "'" + text.replace("'", "''") + "'"


def as_a_server_reads(string: str) -> str:
    """MySQL's lexer, a character at a time."""
    server_reads, at = "", 1
    while at < len(string) - 1:
        step = 2 if string[at] in "\\'" else 1
        char = string[at + step - 1]
        server_reads += (
            {"n": "\n", "r": "\r", "0": "\0", "t": "\t", "Z": "\x1a", "b": "\b", "%": "\\%", "_": "\\_"}.get(char, char)
            if string[at] == "\\"
            else char
        )
        at += step
    return server_reads


@given(LABELS)
def test_labels_that_tidb_shows_are_read_as_they_are_or_not_at_all(elements: list[str]) -> None:
    text = shown_by_tidb(elements)
    assert f"enum({shown(elements, Shows.TIDB)})" == text
    read = labels(text, Shows.TIDB)
    assert read == tuple(elements) or (read == () and re.search(r"\\[0nr]", text))


@given(LABELS)
def test_labels_that_mysql_shows_are_read_as_they_are(elements: list[str]) -> None:
    assert labels(f"set({shown(elements, Shows.MYSQL)})", Shows.MYSQL) == tuple(elements)


@given(LABELS)
def test_every_index_of_an_enum_is_its_own_label(elements: list[str]) -> None:
    read = labels(shown_by_tidb(elements), Shows.TIDB)
    column, indexes = Column("e", "enum", elements=read), int_array(list(range(1, len(elements) + 1)), Column("e", "enum"))
    if read:
        assert from_ints(indexes, column).to_pylist() == elements
    else:
        with pytest.raises(UnfitValue, match="labels of the enum are not known"):
            from_ints(indexes, column)


@given(st.text())
def test_what_is_quoted_for_sql_is_read_as_it_was(text: str) -> None:
    assert as_a_server_reads(quoted_text(text)) == next(tokens(quoted_text(text))).value == text


@given(LABELS)
def test_a_server_reads_the_text_of_a_ddl_as_ticdc_does(elements: list[str]) -> None:
    strings = ",".join(map(restored, elements))
    query = f"ALTER TABLE `a\\'b`.`t` ADD COLUMN `c` ENUM({strings}) COMMENT {restored(elements[0])}"
    sent = for_servers(query)
    results = [as_a_server_reads(token.text) for token in tokens(sent) if token.kind == "string"]
    assert results == [*elements, elements[0]]
    assert parsed(sent, "s").tables()[0].schema == "a\\'b"
    assert action_of(query) is Action.ADD_COLUMN


@pytest.mark.parametrize(
    "query",
    [
        "alter table t comment = 'it\\'s'",
        'ALTER TABLE `t` COMMENT = "a\\\\b"',
        "ALTER TABLE `t` COMMENT = 'it\\'s'",
        "ALTER TABLE `a` COMMENT = 'no backslash'",
        "ALTER TABLE `a` COMMENT = 'a\\nb' -- his",
    ],
)
def test_the_text_of_an_author_is_sent_as_it_is(query: str) -> None:
    assert for_servers(query) == query
