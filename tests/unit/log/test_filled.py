"""Words that a hole is filled."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.shared.errors import LogBroken
from sidecar.shared.log import storage
from sidecar.shared.log.filled import FilledWord, read_words, upto_seqs, write_word
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.nouns import Seq, TableName
from sidecar.shared.model.sink_delivery import SinkTables

A = TableName("shop", 'a"/..')
WORD = FilledWord("lake", A, Seq(7), "alice@db1", "restored by hand", 1_700_000_000_000)


def test_what_was_said_is_read(tmp_path: Path) -> None:
    log = open_folder(str(tmp_path))
    assert read_words(log) == []
    write_word(log, WORD)
    write_word(log, WORD)
    assert read_words(log) == [WORD, WORD]


def test_a_word_that_cannot_be_read_is_named_with_the_way_out(tmp_path: Path) -> None:
    log = open_folder(str(tmp_path))
    storage.create_exclusively(log, "filled/x.json", b"{")
    with pytest.raises(LogBroken, match=r"x\.json is not readable") as error:
        read_words(log)
    assert "remove it" in error.value.hint


@given(st.lists(st.tuples(st.sampled_from(["lake", "other"]), st.integers(0, 9))))
def test_the_latest_word_of_a_sink_counts_for_it(said: list[tuple[str, int]]) -> None:
    words = [FilledWord(sink, A, Seq(seq), "", "", 0) for sink, seq in said]
    mine = [seq for sink, seq in said if sink == "lake"]
    assert upto_seqs(words, SinkTables("lake", "", Seq(0), None, Seq(0), None)) == ({A: max(mine)} if mine else {})
