"""What a storage's errors become for whoever writes, reads or merges a log: one mapping."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pyarrow as pa
import pytest

from sidecar.shared.errors import LogBroken, LogUnreachable, StorageFull, TicdcDumpError
from sidecar.shared.log import storage
from sidecar.shared.log.manifest import Manifest
from sidecar.shared.log.segment_log import FolderLog
from sidecar.shared.log.storage import Folder, local, log_error, open_folder
from sidecar.shared.model.nouns import Column, CommitTs, Seq, TableName, TableSchema
from spark_merge.log.read import iter_rows, new_manifests, read_rows, read_schemas
from spark_merge.merge.task import open_chunk
from spark_merge.port.contract import DueChunk

MANIFEST = Manifest(Seq(0), 1, CommitTs(0), CommitTs(1), "rows.parquet", 1, 1, {}, "schemas/x.json", "canal-json")
SCHEMA = TableSchema(TableName("s", "t"), (Column("id", "int"),), ("id",))
DUE = DueChunk(SCHEMA.name, CommitTs(0), CommitTs(1), Seq(0), Seq(0), 0, "d1", "c.parquet", 1)
STANDARD_STREAMS = 3
KINDS = [
    (storage.Full("no room"), StorageFull, "no room left in /var/log: no room"),
    (storage.Unreachable("no answer"), LogUnreachable, "/var/log cannot be reached: no answer"),
    (storage.Exhausted("no files"), LogUnreachable, "/var/log cannot be read or written now: no files"),
    (storage.Absent("no bucket"), LogBroken, "/var/log cannot be read or written: no bucket"),
    (storage.Refused("not allowed"), LogBroken, "/var/log cannot be read or written: not allowed"),
    (pa.ArrowInvalid("no Parquet"), LogBroken, "/var/log cannot be read or written: no Parquet"),
]


@pytest.mark.parametrize(("error", "kind", "says"), KINDS)
def test_each_error_of_the_storage_is_one_of_the_log(error: Exception, kind: type[TicdcDumpError], says: str) -> None:
    of_reader = log_error("/var/log", "a", error)
    assert type(of_reader) is kind
    assert of_reader.message == says
    assert of_reader.retryable is (kind is not LogBroken)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR, errno.EIO, errno.ENOSPC])
def test_what_a_machine_lacks_for_a_while_ends_a_term_and_not_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def lacks(*_: object, **__: object) -> NoReturn:
        raise OSError(number, os.strerror(number))

    log = FolderLog(open_folder(str(tmp_path)))
    monkeypatch.setattr(os, "open", lacks)
    monkeypatch.setattr(os, "scandir", lacks)
    with pytest.raises(TicdcDumpError, match=os.strerror(number)) as raised:
        log.recover(epoch=1)
    assert raised.value.retryable


def test_a_process_without_a_descriptor_goes_on_when_it_has_one(tmp_path: Path) -> None:
    (tmp_path / "changefeed.txt").write_text("x")
    folder, (soft, hard) = open_folder(str(tmp_path)), resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (STANDARD_STREAMS, hard))
    try:
        with pytest.raises(LogUnreachable, match="Too many open files"):
            storage.read_file(folder, "changefeed.txt")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert storage.read_file(folder, "changefeed.txt") == b"x"


def test_what_is_not_the_storages_passes() -> None:
    error = ValueError("a socket")
    assert log_error("/var/log", "a", error) is error


def fails(*_: object, **__: object) -> NoReturn:
    raise storage.Unreachable("no answer")


READS: dict[str, Callable[[Folder], object]] = {
    "recover": lambda folder: FolderLog(folder).recover(epoch=1),
    "manifests": lambda folder: new_manifests(folder, after=None, limit=1),
    "schemas": lambda folder: read_schemas(folder, "schemas/x.json"),
    "rows": lambda folder: read_rows(folder, MANIFEST),
    "row groups": lambda folder: list(iter_rows(folder, MANIFEST)),
    "chunk": lambda folder: list(open_chunk(folder, SCHEMA, DUE, pa.array([], pa.string()))),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_storage_out_of_reach_is_a_matter_of_time_for_every_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[[Folder], object]
) -> None:
    for name in ("list_names", "exists", "read_file", "create", "open_to_read"):
        monkeypatch.setattr(local, name, fails)
    with pytest.raises(LogUnreachable, match="continues automatically"):
        read(open_folder(str(tmp_path)))
