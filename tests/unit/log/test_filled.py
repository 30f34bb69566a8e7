"""Words that a hole is filled."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.shared.errors import LogBroken
from sidecar.shared.log import storage
from sidecar.shared.log.filled import FilledWord, Words, read_words, word_of, write_words
from sidecar.shared.log.identity import own_id
from sidecar.shared.log.storage import Folder, open_folder
from sidecar.shared.model.hole import HoleCause, OpenHole
from sidecar.shared.model.nouns import CommitTs, Seq, TableName
from sidecar.shared.model.sink_delivery import SinkTables

A, B = TableName("shop", 'a"/..'), TableName("shop", "b")
WORD = FilledWord("lake", 2, A, 10, Seq(7), "alice@db1", "restored by hand", 1_700_000_000_000)
HOLE = OpenHole(HoleCause.IMPORT, CommitTs(5), Seq(7), False, "", table_id=10)
TABLES = SinkTables("lake", "file:///out", Seq(0), None, Seq(9), None, holes={A: HOLE}, generation=2)


def test_what_was_said_is_read_in_the_order_of_its_times(tmp_path: Path) -> None:
    log = open_folder(str(tmp_path))
    own_id(log)
    assert read_words(log) == []
    earlier = replace(WORD, at_ms=1)
    write_words(log, [WORD, replace(WORD, table=B)])
    write_words(log, [earlier])
    assert read_words(log) == [earlier, WORD, replace(WORD, table=B)]
    assert len(storage.list_names(log, under="filled", deep=False)) == 2, "one file each time"


def test_each_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is never changed, and there is one for each verification that filled something."""
    log, reads = open_folder(str(tmp_path)), list[int]()
    own_id(log)
    read_files = storage.read_files

    def counted(folder: Folder, names: Iterable[str]) -> dict[str, bytes]:
        reads.extend([1 for name in names if name.startswith("filled/")])
        return read_files(folder, names)

    monkeypatch.setattr(storage, "read_files", counted)
    words = Words(log)
    for number in range(3):
        write_words(log, [replace(WORD, at_ms=number)])
        assert len(words.read()) == number + 1
        assert words.read() == words.read()
    assert reads == [1, 1, 1]


def test_what_another_log_left_in_the_folder_says_nothing(tmp_path: Path) -> None:
    log = open_folder(str(tmp_path))
    own_id(log)
    write_words(log, [WORD])
    (tmp_path / "log.txt").unlink()
    own_id(log)
    assert read_words(log) == []


def test_a_file_that_cannot_be_read_is_named_with_the_way_out(tmp_path: Path) -> None:
    log = open_folder(str(tmp_path))
    storage.create_exclusively(log, "filled/x.json", b"{")
    with pytest.raises(LogBroken, match=r"x\.json is not readable") as error:
        read_words(log)
    assert "remove it" in error.value.hint
    own_id(log)
    write_words(log, [WORD])
    assert Words(log).read() == [WORD], "it is no word, and stops no sink"


def test_a_word_is_of_a_table_and_not_of_its_name() -> None:
    word = word_of(TABLES, A, upto_seq=Seq(7), by="alice", reason="", at_ms=0)
    assert word.ends(B, HOLE), "it has another name by now"
    assert not word.ends(A, replace(HOLE, table_id=11)), "another table has the name"
    nameless = replace(word, table_id=0)
    assert nameless.ends(A, replace(HOLE, table_id=0)), "the source has no ids"
    assert not nameless.ends(B, replace(HOLE, table_id=0))


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 3))
def test_a_word_is_of_holes_up_to_its_segment_in_the_sink_as_it_was(upto: int, seq: int, generation: int) -> None:
    word = word_of(TABLES, A, upto_seq=Seq(upto), by="alice", reason="", at_ms=0)
    assert word.ends(A, replace(HOLE, seq=Seq(seq))) is (seq <= upto)
    assert word.is_of(replace(TABLES, generation=generation)) is (generation == 2)
    assert not word.is_of(replace(TABLES, sink="other"))
