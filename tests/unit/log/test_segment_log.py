"""FolderLog's own promises: bounded memory, whole manifests, a full disk. What every log keeps is in tests/contract."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sidecar.shared.errors import LogBroken, LogUnreachable, StorageFull
from sidecar.shared.log import storage
from sidecar.shared.log.identity import claim_log
from sidecar.shared.log.layout import chunk_name, data_name, dumps_name, manifest_name, retained_name, schemas_name
from sidecar.shared.log.manifest import DATA_COLUMNS, Manifest, from_json
from sidecar.shared.log.rows_file import ROW_GROUP_BYTES_MAX, ROW_GROUP_ROWS_MAX, ROWS_SCHEMA, write_chunk
from sidecar.shared.log.segment_log import FolderLog
from sidecar.shared.log.storage import Folder, open_folder
from sidecar.shared.model.nouns import Change, CommitTs, Lane, Rank, Seq
from tests.support.volumes import fill, small_volume


def changes(count: int, *, value_bytes: int = 500) -> Iterator[Change]:
    for number in range(count):
        yield Change(CommitTs(number), Rank.PUT, "shop", "orders", b"%d" % number, os.urandom(value_bytes), Lane("kafka/orders/1"), number)


def manifest(seq: int, *, epoch: int = 1, progress: dict[str, Any] | None = None) -> Manifest:
    return Manifest(
        Seq(seq),
        epoch,
        CommitTs(seq),
        CommitTs(seq + 1),
        None,
        0,
        0,
        {},
        "schemas/0000000000000000.json",
        "canal-json",
        progress=progress,
        open_from=None,
    )


def opened(path: Path | Folder) -> FolderLog:
    log = FolderLog(path if isinstance(path, Folder) else open_folder(str(path)))
    log.recover(epoch=1)
    return log


# ---- the data file --------------------------------------------------------------------------------------------------


def test_the_columns_are_the_contracts(tmp_path: Path) -> None:
    data = opened(tmp_path).write_data(Seq(0), epoch=1, codec="canal-json", changes=changes(3))
    assert data.name is not None
    schema = pq.read_schema(tmp_path / data.name)
    assert tuple(schema.names) == DATA_COLUMNS
    assert schema.equals(ROWS_SCHEMA)
    i, s, b = pa.int64(), pa.string(), pa.binary()
    assert schema.types == [i, i, s, s, s, s, b, b, s, i]


@pytest.mark.parametrize(("count", "value_bytes"), [(ROW_GROUP_ROWS_MAX * 2 + 1, 1), (40, ROW_GROUP_BYTES_MAX // 10)])
def test_row_groups_are_bounded_in_rows_and_bytes(tmp_path: Path, count: int, value_bytes: int) -> None:
    data = opened(tmp_path).write_data(Seq(0), epoch=1, codec="canal-json", changes=changes(count, value_bytes=value_bytes))
    metadata = pq.read_metadata(tmp_path / str(data.name))
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    assert metadata.num_rows == count
    assert len(groups) > 1
    assert max(group.num_rows for group in groups) <= ROW_GROUP_ROWS_MAX
    assert max(group.total_byte_size for group in groups) < ROW_GROUP_BYTES_MAX * 1.3
    ordinals = pq.read_table(tmp_path / str(data.name), columns=["ordinal"]).column(0).to_pylist()
    assert ordinals == list(range(count))
    assert (tmp_path / str(data.name)).stat().st_size == data.bytes


def test_a_transaction_longer_than_memory_passes_in_bounded_memory(tmp_path: Path) -> None:
    """In a process of its own, whose peak is the kernel's figure: 125 MB of rows through less than 64 MiB."""
    script = f"""
import resource
from sidecar.shared.model.nouns import Seq
from {__name__} import changes, opened
from pathlib import Path
log = opened(Path({str(tmp_path)!r}))
log.write_data(Seq(0), epoch=1, codec="canal-json", changes=changes(10))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
log.write_data(Seq(0), epoch=1, codec="canal-json", changes=changes(250_000))
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert int(result.stdout) < 64


def test_an_error_in_the_middle_of_the_rows_is_passed_on_and_leaves_no_file(tmp_path: Path) -> None:
    def breaks() -> Iterator[Change]:
        yield from changes(ROW_GROUP_ROWS_MAX + 5, value_bytes=1)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        opened(tmp_path).write_data(Seq(0), epoch=1, codec="canal-json", changes=breaks())
    assert [path.name for path in tmp_path.iterdir()] == ["exclusive.probe"]


# ---- the manifest ---------------------------------------------------------------------------------------------------


def test_a_reader_never_sees_half_a_manifest(tmp_path: Path) -> None:
    count = 60
    log = opened(tmp_path)
    big = {"text": "x" * 300_000}

    def write() -> None:
        for seq in range(count):
            log.commit(manifest(seq, progress=big))

    writer = Thread(target=write)
    writer.start()
    deadline = time.monotonic() + 60
    for seq in range(count):
        path = tmp_path / manifest_name(Seq(seq))
        while not path.exists():
            assert time.monotonic() < deadline
        assert from_json(path.read_bytes(), name=path.name).progress == big
    writer.join()


def test_temporary_files_of_a_crash_are_swept(tmp_path: Path) -> None:
    """An earlier owner's at once; others when nobody has written them for an hour: a process that lives may be about to name them."""
    names = (data_name(Seq(0), epoch=1), chunk_name("d1", epoch=1, number=0), schemas_name(b"", epoch=1), dumps_name(b"", epoch=1))
    earlier, own = (
        [tmp_path / re.sub(r"([^/]+)$", r".\1.12-ab.tmp", name.replace("0000000001", f"{epoch:010d}")) for name in names]
        for epoch in (1, 2)
    )
    of_others = [tmp_path / name for name in (".00000000000000000000.json.12-ab.tmp", ".delivered.json.12-ab.tmp", "verify/v1/.x.12.tmp")]
    old = [path.with_name(path.name.replace("12", "13")) for path in of_others]
    for path in (*earlier, *own, *of_others, *old):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"half")
    for path in old:
        os.utime(path, (time.time() - 3700, time.time() - 3700))
    stranger = tmp_path / "README"
    stranger.write_text("not the log's")
    log = FolderLog(open_folder(str(tmp_path)))
    log.recover(epoch=2)
    log.commit(manifest(0))
    assert not any(path.exists() for path in (*earlier, *old))
    assert all(path.exists() for path in (*own, *of_others, stranger))


def test_retention_removes_a_bounded_number_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sidecar.shared.log.segment_log.SEGMENTS_REMOVED_MAX", 2)
    monkeypatch.setattr("sidecar.shared.log.segment_log.MANIFESTS_READ_MAX", 3)
    log = opened(tmp_path)
    for seq in range(8):
        log.commit(manifest(seq))
    assert [log.retain(delivered=Seq(7), open_from=None) for _ in range(5)] == [2, 2, 2, 1, 0]
    for seq in range(8, 16):
        log.commit(manifest(seq))
    fresh = opened(tmp_path)
    assert [fresh.retain(delivered=Seq(9), open_from=None) for _ in range(5)] == [0, 0, 2, 0, 0]


@pytest.mark.parametrize("segments", [8, 32])
def test_removing_a_backlog_lists_it_once_and_leaves_nothing_of_others(
    tmp_path: Path, segments: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One listing for each call, and 100,000 segments would be listed 1,000 times."""
    monkeypatch.setattr("sidecar.shared.log.segment_log.SEGMENTS_REMOVED_MAX", 2)
    log = opened(tmp_path)
    for seq in range(segments + 1):
        log.commit(manifest(seq))
    (tmp_path / data_name(Seq(3), epoch=7)).touch()  # of an owner whose attempt came to nothing
    listings, list_names = [], storage.list_names

    def counted(folder: Folder, *, deep: bool, beginning: str = "") -> list[str]:
        listings.append(beginning)
        return list_names(folder, deep=deep, beginning=beginning)

    monkeypatch.setattr(storage, "list_names", counted)
    assert [log.retain(delivered=Seq(segments), open_from=None) for _ in range(segments // 2 + 1)] == [*[2] * (segments // 2), 0]
    assert len(listings) == 1
    assert {path.name for path in tmp_path.iterdir()} == {"exclusive.probe", manifest_name(Seq(segments)), retained_name(Seq(segments))}


def test_a_sweep_requests_only_the_names_of_what_was_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = opened(tmp_path)
    for seq in range(24):
        log.commit(manifest(seq))
    log.retain(delivered=Seq(20), open_from=None)
    requests: list[str] = []

    def counted(_: Folder, *, deep: bool, beginning: str = "") -> list[str]:
        assert not deep
        requests.append(beginning)
        return []

    monkeypatch.setattr(storage, "list_names", counted)
    log.retain(delivered=Seq(23), open_from=None)
    assert requests == [manifest_name(Seq(20))[:19]]


@pytest.mark.parametrize("segments", [10, 40])
def test_recovery_and_retention_hold_few_manifests_at_once_however_long_the_log_is(
    tmp_path: Path, segments: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a dump of 10,000 tables, a manifest is megabytes."""
    monkeypatch.setattr("sidecar.shared.log.segment_log.MANIFESTS_HELD_MAX", 5)
    log = opened(tmp_path)
    for seq in range(segments):
        log.commit(manifest(seq))
    write_chunk(log.folder, chunk_name("d1", epoch=1, number=1), ROWS)
    at_once, read_files, read_if_there = [], storage.read_files, storage.read_if_there

    def counted(folder: Folder, names: Iterable[str]) -> dict[str, bytes]:
        requested = list(names)
        at_once.append(len(requested))
        return read_files(folder, requested)

    def one(folder: Folder, name: str) -> bytes | None:
        at_once.append(1)
        return read_if_there(folder, name)

    monkeypatch.setattr(storage, "read_files", counted)
    monkeypatch.setattr(storage, "read_if_there", one)
    later = FolderLog(log.folder)
    later.recover(epoch=2)
    assert at_once == [1], "the last one, whose bytes the next manifest follows"
    assert later.retain(delivered=Seq(segments), open_from=None) == segments - 1
    assert sum(at_once) == 1 + segments + segments - 1
    assert max(at_once) == 5


@pytest.mark.parametrize("segments", [10, 40])
def test_retention_removes_the_manifests_of_an_epoch_by_one_request(tmp_path: Path, segments: int, monkeypatch: pytest.MonkeyPatch) -> None:
    log = opened(tmp_path)
    for seq in range(segments):
        log.commit(manifest(seq, epoch=1 if seq < 5 else 2))
    requests, remove = [], storage.remove

    def counted(folder: Folder, names: Iterable[str]) -> None:
        requests.append(sorted(names))
        remove(folder, requests[-1])

    monkeypatch.setattr(storage, "remove", counted)
    log.retain(delivered=Seq(segments), open_from=None)
    of_epochs = [[manifest_name(Seq(seq)) for seq in seqs] for seqs in (range(5), range(5, segments - 1))]
    assert requests[:2] == of_epochs
    assert requests[2:] == [[retained_name(Seq(0))]]


# ---- no room --------------------------------------------------------------------------------------------------------


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    with small_volume(tmp_path, size="1m") as volume:
        yield volume


Write = Callable[[FolderLog], object]
ROWS = pa.table({"id": [os.urandom(64).hex() for _ in range(20_000)]})
WRITES: dict[str, Write] = {
    "data": lambda log: log.write_data(Seq(0), epoch=1, codec="canal-json", changes=changes(1000)),
    "manifest": lambda log: log.commit(manifest(0, progress={"text": "x" * 100_000})),
    "schemas": lambda log: log.write_schemas({}),
    "chunk": lambda log: write_chunk(log.folder, "chunks/d1/0000000001-00000001.parquet", ROWS.slice(0, 1000)),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_full_disk_is_reported_leaves_nothing_and_passes_when_there_is_room(tiny_disk: Path, write: Write) -> None:
    log = opened(tiny_disk)
    for name in ("schemas", "chunks/d1"):
        (tiny_disk / name).mkdir(parents=True)
    filler = fill(tiny_disk)
    with pytest.raises(StorageFull, match="make room") as full:
        write(log)
    assert full.value.retryable
    assert {path.name for path in tiny_disk.rglob("*") if path.is_file()} == {"exclusive.probe", "filler"}
    filler.unlink()
    write(log)


def test_a_log_on_a_full_disk_is_recovered_and_retained_without_room(tiny_disk: Path) -> None:
    """Only the note of retention needs an entry of the folder, and no byte."""
    log = opened(tiny_disk)
    name = log.write_schemas({})
    for seq in range(6):
        log.commit(manifest(seq))
    fill(tiny_disk)
    fresh = FolderLog(open_folder(str(tiny_disk)))
    last = fresh.recover(epoch=2)
    assert last is not None
    assert last.seq == 5
    with pytest.raises(StorageFull):
        fresh.write_schemas({})
    assert fresh.retain(delivered=Seq(4), open_from=None) == 4
    assert fresh.write_schemas({}) != name
    assert fresh.segments == range(4, 6)


@pytest.mark.parametrize("name", ["changefeed.txt", "log.txt"])
def test_whose_log_it_is_is_known_without_room(tiny_disk: Path, name: str) -> None:
    folder = open_folder(str(tiny_disk))
    own = claim_log(folder, "cf")
    filler = fill(tiny_disk)
    assert claim_log(folder, "cf") == own
    with pytest.raises(LogBroken, match="serves other"):
        claim_log(folder, "other")
    (tiny_disk / name).unlink()
    fill(tiny_disk)
    with pytest.raises(StorageFull):
        claim_log(folder, "cf")
    filler.unlink()
    claim_log(folder, "cf")


def test_a_file_that_is_there_is_made_durable_instead_of_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever wrote it may have died before it was durable, and a manifest is about to rely on it."""
    durable: list[str] = []
    folder = open_folder(str(tmp_path))
    claim_log(folder, "cf")
    name = opened(tmp_path).write_schemas({})
    monkeypatch.setattr(storage, "make_durable", lambda _, names: durable.extend(names))
    claim_log(folder, "cf")
    opened(tmp_path).write_schemas({})
    assert durable == ["changefeed.txt", "log.txt", name]


def test_no_segment_is_committed_before_it_is_proven_that_creation_is_exclusive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full volume keeps a recovery from proving it; the first commit makes up for that."""

    def full(*_: object) -> bool:
        raise storage.log_error("log", "", storage.Full("no room"))

    log = FolderLog(open_folder(str(tmp_path)))
    with monkeypatch.context() as patch:
        patch.setattr(storage, "keeps_exclusive", full)
        log.recover(epoch=1)
        with pytest.raises(StorageFull):
            log.commit(manifest(0))
        patch.setattr(storage, "keeps_exclusive", lambda *_: False)
        with pytest.raises(LogBroken, match="created twice"):
            log.commit(manifest(0))
    assert not [*tmp_path.glob("*.json")]
    log.commit(manifest(0))


def test_a_disk_that_fills_up_in_the_middle_of_a_segment(tiny_disk: Path) -> None:
    log = opened(tiny_disk)
    with pytest.raises(StorageFull):
        log.write_data(Seq(0), epoch=1, codec="canal-json", changes=changes(200_000))
    with pytest.raises(StorageFull):
        write_chunk(log.folder, "chunks/d1/0000000001-00000001.parquet", ROWS)
    assert [path.name for path in tiny_disk.rglob("*") if path.is_file()] == ["exclusive.probe"]
    log.write_data(Seq(0), epoch=1, codec="canal-json", changes=changes(100))


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_room_that_ends_at_fsync_is_reported_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Write, code: int) -> None:
    log = opened(tmp_path)

    def full(_: int) -> None:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StorageFull):
            write(log)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["exclusive.probe"]
    write(log)


def test_a_storage_that_does_not_answer_can_be_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = opened(tmp_path)

    def gone(_: int) -> None:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    monkeypatch.setattr(os, "fsync", gone)
    with pytest.raises(LogUnreachable, match="continues automatically") as error:
        log.write_data(Seq(0), epoch=1, codec="open-protocol", changes=changes(3))
    assert error.value.retryable


def test_a_folder_that_cannot_be_written_is_broken_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("a file where the folder should be")
    with pytest.raises(LogBroken, match="make it exist"):
        opened(tmp_path / "log" / "x")
