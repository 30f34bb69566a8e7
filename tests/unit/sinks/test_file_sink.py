"""The files sink where it meets a broken disk, log or batch. What holds on every storage is in contract/test_sinks."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Barrier
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sidecar.shared.errors import LogBroken, SinkError, StorageFull
from sidecar.shared.log import storage
from sidecar.shared.log.hashed import sha256_of
from sidecar.shared.log.manifest import DdlRecord
from sidecar.shared.log.storage import Folder, dispatch, local, open_folder
from sidecar.shared.model.nouns import CommitTs, Seq
from spark_merge.port.contract import CHANGES, Owner, Portion, Task, Unit
from spark_merge.sinks.files.reader import read_segments
from spark_merge.sinks.files.sink import FileSink
from spark_merge.sinks.files.writer import FileWriter
from spark_merge.sinks.folder.layout import FILE_FORMATS, FileFormat, segment_path
from spark_merge.sinks.formats import parquet
from spark_merge.sinks.kit.errors import sink_folder
from spark_merge.testing.places import accepted
from tests.support.deliveries import SCHEMA, Segments, change, chunk, deliver, write, write_chunk
from tests.support.eventually import PATIENCE_S


@pytest.fixture
def out(tmp_path: Path) -> Folder:
    return sink_folder(str(tmp_path / "out"))


@pytest.fixture
def log(tmp_path: Path) -> Folder:
    return open_folder(str(tmp_path / "log"))


@pytest.fixture(params=FILE_FORMATS)
def file_format(request: pytest.FixtureRequest) -> FileFormat:
    param: FileFormat = request.param
    return param


def sink_on(out: Folder, file_format: FileFormat = "jsonl") -> FileSink:
    sink = FileSink(out, log_id="log-1", file_format=file_format)
    sink.open(epoch=None)
    return sink


def files_in(out: Folder) -> set[str]:
    return {name for name in storage.list_names(out, deep=True) if not name.startswith("_")}


def names(out: Folder) -> list[str]:
    return storage.list_names(out, deep=True)


def failing(code: int, *, after: int = 0) -> Callable[..., None]:
    """A system call that answers with an error from its `after`th use on."""
    calls = iter(range(after))

    def call(*_: Any) -> None:
        if next(calls, None) is None:
            raise OSError(code, os.strerror(code))

    return call


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_storage_full_and_leaves_nothing(
    out: Folder, log: Folder, file_format: FileFormat, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = sink_on(out, file_format)
    deliver(sink, Segments([1]), log=log)
    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", failing(code))
        with pytest.raises(StorageFull):
            write(sink, Segments([2], [change(2, 10, after=["1", "x"])]), log=log)
    assert files_in(out) == set()
    deliver(sink, Segments([2], [change(2, 10, after=["1", "x"])]), log=log)
    assert accepted(sink) == 2


def test_a_disk_that_fills_up_while_rows_are_written_is_storage_full(
    out: Folder, log: Folder, file_format: FileFormat, monkeypatch: pytest.MonkeyPatch
) -> None:
    """/dev/full refuses what is flushed to it, as a disk does in the middle of a file."""
    write_chunk(log, "c1", [(str(i), "x" * 100) for i in range(5000)])

    def open_full(path: str, mode: str = "r") -> Any:
        return open("/dev/full", "wb") if mode == "xb" else open(path, mode)

    sink = sink_on(out, file_format)
    deliver(sink, Segments([1]), log=log)
    monkeypatch.setattr(local, "open", open_full, raising=False)
    with pytest.raises(StorageFull):
        write(sink, Segments([2], [chunk(2, 10, "c1")]), log=log)


@pytest.mark.parametrize("after", range(6))
def test_a_disk_that_fills_up_while_a_batch_is_accepted_accepts_all_of_it_or_nothing(
    out: Folder, log: Folder, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = sink_on(out)
    deliver(sink, Segments([1]), log=log)
    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", failing(errno.ENOSPC, after=after))
        with suppress(StorageFull):
            deliver(sink, Segments([2, 3]), log=log)
    seq = accepted(FileSink(out, log_id="log-1", file_format="jsonl"))
    assert seq in (1, 3)
    next_owner = sink_on(out)
    assert accepted(next_owner) == seq
    assert [segment.seq for segment in read_segments(out)] == list(range(1, seq + 1))
    deliver(next_owner, Segments(range(seq + 1, 5)), log=log)
    assert [segment.seq for segment in read_segments(out)] == [1, 2, 3, 4]


def test_another_disk_error_is_a_sink_error(out: Folder, log: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = sink_on(out)
    deliver(sink, Segments([1]), log=log)
    monkeypatch.setattr(os, "fsync", failing(errno.EIO))
    with pytest.raises(SinkError, match="cannot be read or written"):
        write(sink, Segments([2], [change(2, 10, after=["1", "x"])]), log=log)


def test_a_task_that_fails_half_way_leaves_no_file_under_a_name(out: Folder, log: Folder, file_format: FileFormat) -> None:
    rows = [change(1, 10, after=["1", "x"]), change(1, 11, after=["2", "x", "a column too many"])]
    with pytest.raises(SinkError, match="has 3 columns, its schema has 2"):
        write(sink_on(out, file_format), Segments([1], rows), log=log)
    assert files_in(out) == set()


def test_a_chunk_that_is_gone_is_the_logs_fault(out: Folder, log: Folder, file_format: FileFormat) -> None:
    with pytest.raises(LogBroken, match=r"chunk c1 of shop\.orders cannot be read"):
        write(sink_on(out, file_format), Segments([1], [chunk(1, 10, "c1")]), log=log)


def test_rows_of_a_table_without_a_schema_stop(out: Folder, log: Folder) -> None:
    with pytest.raises(SinkError, match=r"rows of shop\.orders, but no schema"):
        write(sink_on(out), Segments([1], [change(1, 10, after=["1", "x"])]), log=log, schemas={})


def test_the_stream_is_never_held(out: Folder, log: Folder, file_format: FileFormat) -> None:
    """A piece is taken only after the one before it was written: one at a time is alive."""
    alive_before = pa.total_allocated_bytes()
    peak = 0

    def pieces() -> Iterator[pa.Table]:
        nonlocal peak
        for number in range(30):
            peak = max(peak, pa.total_allocated_bytes() - alive_before)
            rows = [change(1, number, after=[str(i), "x" * 1000], ordinal=i) for i in range(500)]
            yield pa.Table.from_pylist(rows, CHANGES)

    unit = Unit(Seq(1), live=True)
    portion = Portion(unit, SCHEMA, pieces())
    FileWriter(out, file_format, Owner(1, 1))(Task("0", (unit,)), iter([portion]))
    assert peak < 10 * 500 * 1000


def test_files_of_a_task_end_side_by_side_on_a_storage_that_is_far_away(out: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of each waits until another one's is there."""
    meeting, new_file = Barrier(2, timeout=PATIENCE_S), local.new_file

    @contextmanager
    def far(folder: Folder, name: str, *, durable: bool) -> Iterator[IO[bytes]]:
        with new_file(folder, name, durable=durable) as file:
            yield file
            meeting.wait()

    monkeypatch.setattr(local, "READS_AT_ONCE_MAX", 16)
    monkeypatch.setattr(local, "new_file", far)
    units = [Unit(Seq(number), live=True) for number in range(8)]
    rows = pa.Table.from_pylist([change(1, 10, after=["1", "x"])], CHANGES)
    portions = (Portion(unit, SCHEMA, iter([rows])) for unit in units)
    outcome = FileWriter(out, "jsonl", Owner(1, 1))(Task("0", tuple(units)), portions)
    assert files_in(out) == {file.path for _, file in outcome.note}
    assert len(outcome.note) == 8


def test_row_groups_are_bounded(out: Folder, log: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "ROW_GROUP_ROWS_MAX", 100)
    write_chunk(log, "c1", [(str(i), "x") for i in range(250)])
    deliver(sink_on(out, "parquet"), Segments([1], [chunk(1, 10, "c1")]), log=log)
    [path] = files_in(out)
    metadata = pq.ParquetFile(out.path(path)).metadata
    assert [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)] == [100, 100, 50]


def test_a_gap_in_what_version_1_delivered_is_refused(out: Folder, log: Folder) -> None:
    deliver(sink_on(out), Segments([1, 2, 3]), log=log)
    storage.remove(out, ["_segments/00000000000000000002.json", "_head.json", *(n for n in names(out) if n.startswith("_commits/"))])
    with pytest.raises(SinkError, match="has a gap before 3"):
        sink_on(out)


def test_a_storage_without_exclusive_create_is_refused(out: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    def overwrites(folder: Folder, name: str, data: bytes) -> bool:
        storage.write_atomically(folder, name, data)
        return True

    monkeypatch.setattr(dispatch, "create_exclusively", overwrites)
    with pytest.raises(SinkError, match="created twice"):
        sink_on(out)


def test_segments_without_an_identity_are_refused(out: Folder, log: Folder) -> None:
    deliver(sink_on(out), Segments([1]), log=log)
    storage.remove(out, ["_log.json"])
    with pytest.raises(SinkError, match=r"has segments but no _log\.json"):
        sink_on(out)


@pytest.mark.parametrize(
    "identity",
    [
        b"", b"[]", b'{"version": 1}', b'{"version": 3, "log_id": "log-1", "format": "jsonl"}', b"[" * 100_000, b"null", b"7",
        b'{"version": true, "log_id": "log-1", "format": "jsonl"}',
        b'{"version": 2, "log_id": "log-1", "format": "jsonl", "chunk_parts": 1e400, "live_part_rows": 0}',
    ],
)  # fmt: skip
def test_an_identity_that_cannot_be_read_is_refused(out: Folder, identity: bytes) -> None:
    storage.write_atomically(out, "_log.json", identity)
    with pytest.raises(SinkError, match=r"_log\.json"):
        sink_on(out)


def test_the_sweep_takes_what_previous_owners_left_and_nothing_of_others(out: Folder, log: Folder) -> None:
    deliver(sink_on(out), Segments([1], [change(1, 10, after=["1", "x"])]), log=log)
    mine = files_in(out)
    write(sink_on(out), Segments([2], [change(2, 10, after=["1", "x"])]), log=log)
    others = {"shop.orders/notes.txt", "backup/00000000000000000009.jsonl", "README.md"}
    of_a_later_owner = {"shop.orders/00000000000000000002.99-1-aa.jsonl", "shop.orders/.00000000000000000003.99-1-aa.jsonl.1-a.tmp"}
    of_previous_ones = {
        "shop.orders/.00000000000000000002.jsonl.1-a.tmp",
        "shop.orders/00000000000000000002.jsonl",
        "shop.orders/00000000000000000003.0-1-bb.jsonl",
    }
    for name in others | of_a_later_owner | of_previous_ones:
        storage.write_atomically(out, name, b"x")
    sink_on(out)
    assert files_in(out) == others | of_a_later_owner | mine


def test_what_a_consumer_has_done_with_may_be_removed(out: Folder, log: Folder, file_format: FileFormat) -> None:
    """As deploy/OUTPUT.md says it: all but the last batch, while the sink goes on and when another one opens the folder."""
    sink = sink_on(out, file_format)
    for seq in (1, 2, 3):
        ddls = {seq: (DdlRecord(CommitTs(100 * seq), "shop", "orders", "ALTER TABLE orders COMMENT 'x'"),)}
        deliver(sink, Segments([seq], [change(seq, 10 * seq, after=[str(seq), "x"])], ddls), log=log)
    for segment in read_segments(out)[:2]:
        assert segment.ddl is not None
        storage.remove(out, [segment_path(segment.seq), *(file.path for file in segment.files), segment.ddl])
    deliver(sink, Segments([4]), log=log)
    next_owner = sink_on(out, file_format)
    assert accepted(next_owner) == 4
    deliver(next_owner, Segments([5]), log=log)
    assert [segment.seq for segment in read_segments(out)] == [3, 4, 5]


def test_a_segment_entry_names_files_and_counts(out: Folder, log: Folder) -> None:
    write_chunk(log, "c1", [("1", "a"), ("2", "b")])
    deliver(sink_on(out), Segments([1], [change(1, 10, after=["1", "x"]), chunk(1, 20, "c1", touched=["1"])]), log=log)
    [path] = files_in(out)
    assert path.startswith("shop.orders/00000000000000000001.0-1-")
    assert json.loads(storage.read_file(out, "_segments/00000000000000000001.json")) == {
        "version": 1,
        "seq": 1,
        "upto_ts": "100",
        "manifest": "",
        "files": [
            {
                "path": path,
                "schema": "shop",
                "table": "orders",
                "from_log": 1,
                "from_dump": 1,
                "dropped": 1,
                "sha256": sha256_of(storage.read_file(out, path)),
            }
        ],
        "ddl": None,
        "counts": {"from_log": 1, "from_dump": 1, "dropped": 1},
    }
