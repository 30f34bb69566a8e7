"""What an operator has left out of a log: on record once, for ever, and found by whoever reads the log."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sidecar.shared.errors import LogBroken
from sidecar.shared.log import storage
from sidecar.shared.log.layout import skip_name, skip_of
from sidecar.shared.log.manifest import Manifest
from sidecar.shared.log.segment_log import FolderLog
from sidecar.shared.log.skips import Skip, read_skips, skip_row, skipped_rows
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import CommitTs, Lane, Seq, TableName

SKIP = Skip(
    Seq(2), 7, CommitTs(470625330184847378), "put", TableName("ex_p", "pt"), "open-protocol", Lane("kafka/t/0"), 2**60, b"key", b"\xff\0",
    "message kafka/t/0@167: column b: …", 1795293161870, "me@here",
)  # fmt: skip


@pytest.fixture
def log(tmp_path: object) -> Folder:
    return Folder("file", f"{tmp_path}/log")


def test_a_log_without_any_has_none(log: Folder) -> None:
    assert skipped_rows(log) == {}
    assert read_skips(log) == []


def test_it_is_read_as_it_was_written_and_the_first_one_stays(log: Folder) -> None:
    assert skip_row(log, SKIP)
    assert not skip_row(log, replace(SKIP, reason="another", skipped_ms=1))
    assert skip_row(log, replace(SKIP, ordinal=9))
    assert skip_row(log, replace(SKIP, seq=Seq(0)))
    assert skipped_rows(log) == {Seq(0): frozenset({7}), Seq(2): frozenset({7, 9})}
    assert read_skips(log) == [replace(SKIP, seq=Seq(0)), SKIP, replace(SKIP, ordinal=9)]


def test_its_name_alone_decides(log: Folder) -> None:
    storage.write_atomically(log, skip_name(Seq(2), 7), b"{")
    storage.write_atomically(log, "skips/README", b"")
    assert skipped_rows(log) == {Seq(2): frozenset({7})}
    with pytest.raises(LogBroken, match="is not readable"):
        read_skips(log)
    assert skip_of(skip_name(Seq(2), 7)) == (2, 7)
    assert skip_of("skips/2-7.json") is None


def commit(log: FolderLog, *seqs: int, epoch: int) -> None:
    for seq in seqs:
        schemas = log.write_schemas({})
        log.commit(Manifest(Seq(seq), epoch, CommitTs(seq), CommitTs(seq + 1), None, 0, 0, {}, schemas, "kv"))


def test_neither_a_new_owner_nor_retention_removes_it(log: Folder) -> None:
    first = FolderLog(log)
    first.recover(epoch=1)
    commit(first, 0, 1, 2, 3, epoch=1)
    skip_row(log, replace(SKIP, seq=Seq(0)))
    second = FolderLog(log)
    assert second.recover(epoch=2) is not None
    commit(second, 4, epoch=2)
    assert second.retain(delivered=Seq(4), open_from=None)
    assert not storage.exists(log, "00000000000000000000.json")
    assert skipped_rows(log) == {Seq(0): frozenset({7})}
