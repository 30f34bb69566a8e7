"""Manifests by their numbers: in their order, in bounded parts, None where there is none; the last one with all tables of its dumps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from sidecar.shared.errors import LogBroken
from sidecar.shared.log import storage
from sidecar.shared.log.layout import manifest_name
from sidecar.shared.log.manifest import Manifest
from sidecar.shared.log.manifests import MANIFESTS_AT_ONCE_MAX, decoded, kept, last_manifest, manifest_files, manifest_of
from sidecar.shared.log.segment_log import FolderLog
from sidecar.shared.log.storage import Folder, open_folder
from sidecar.shared.model.messages import Brackets
from sidecar.shared.model.nouns import CommitTs, Seq, TableName
from sidecar.shared.model.progress import DumpState, Progress, TableProgress, progress_from_json

COUNT = 2 * MANIFESTS_AT_ONCE_MAX + 2


def manifest(seq: int) -> Manifest:
    return Manifest(Seq(seq), 1, CommitTs(seq), CommitTs(seq + 1), None, 0, 0, {}, "schemas/0000000000000000.json", "canal-json")


@pytest.fixture
def log(tmp_path: Path) -> FolderLog:
    folder_log = FolderLog(open_folder(str(tmp_path)))
    folder_log.recover(epoch=1)
    return folder_log


def test_each_is_itself_or_none_in_the_order_of_the_numbers_and_in_bounded_parts(log: FolderLog, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = Random(7)
    for seq in range(COUNT):
        log.commit(manifest(seq))
    gone = set(rng.sample(range(COUNT), 9))
    storage.remove(log.folder, [manifest_name(Seq(seq)) for seq in gone])
    parts: list[int] = []

    def read_files(folder: Folder, names: Sequence[str], of_storage=storage.read_files) -> dict[str, bytes]:  # type: ignore[no-untyped-def]
        parts.append(len(names))
        return of_storage(folder, names)  # type: ignore[no-any-return]

    monkeypatch.setattr(storage, "read_files", read_files)
    for _ in range(20):
        wanted = rng.choices(range(COUNT + 3), k=rng.randrange(COUNT))
        parts.clear()
        there = [(seq, None if data is None else decoded(log.folder, seq, data).seq) for seq, data in manifest_files(log.folder, wanted)]
        assert there == [(seq, seq if seq < COUNT and seq not in gone else None) for seq in wanted]
        assert sum(parts) == len(wanted)
        assert max(parts, default=0) <= MANIFESTS_AT_ONCE_MAX


def test_one_that_is_not_there_is_none_and_one_that_cannot_be_read_is_named(log: FolderLog) -> None:
    log.commit(manifest(0))
    assert manifest_of(log.folder, Seq(0)) == manifest(0)
    assert manifest_of(log.folder, Seq(1)) is None
    Path(log.folder.root, manifest_name(Seq(0))).write_bytes(b"{")
    with pytest.raises(LogBroken, match=manifest_name(Seq(0))):
        manifest_of(log.folder, Seq(0))


def test_the_last_one_has_all_tables_of_its_dumps_and_an_empty_log_has_none(log: FolderLog) -> None:
    assert last_manifest(log.folder) is None
    tables = tuple(TableProgress(TableName("shop", f"t{number}"), (), complete_at=CommitTs(number)) for number in range(1, 4))
    dump = Progress("first", DumpState.RUNNING, Brackets.WATERMARK, 1, 1, 1, Seq(0), tables).to_json()
    for seq in range(3):
        log.commit(replace(manifest(seq), progress=dump))
    last = last_manifest(log.folder)
    assert last is not None
    assert last.seq == 2
    assert last.progress is not None
    assert [progress_from_json(dict(one)).tables for one in last.dumps] == [tables]
    assert kept(log.folder) == range(3)
