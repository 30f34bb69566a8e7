"""Reading the log: by exact name, whole, and never past what is lost."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sidecar.shared.errors import LogBroken, SinkError
from sidecar.shared.log import storage
from sidecar.shared.log.layout import completed_tables, dump_after, manifest_name
from sidecar.shared.log.manifest import DATA_COLUMNS, DataFile, Manifest
from sidecar.shared.log.rows_file import ROW_GROUP_ROWS_MAX, write_chunk
from sidecar.shared.log.segment_log import FolderLog
from sidecar.shared.log.storage import Folder, open_folder
from sidecar.shared.model.chunk import ClosedWindow
from sidecar.shared.model.messages import Brackets
from sidecar.shared.model.nouns import Change, Column, CommitTs, Lane, Rank, Seq, TableName, TableSchema
from sidecar.shared.model.progress import DumpState, Progress, TableProgress
from spark_merge.log.read import LoggedSchemas, beginning, new_manifests, read_rows, read_schemas
from spark_merge.merge.task import open_chunk
from spark_merge.port.contract import DueChunk

CHANGE = Change(CommitTs(1), Rank.PUT, "shop", "orders", b"k", b"v", Lane("kafka/orders/1"), 1)


@pytest.fixture
def log(tmp_path: Path) -> FolderLog:
    folder_log = FolderLog(open_folder(str(tmp_path)))
    folder_log.recover(epoch=1)
    return folder_log


def append(log: FolderLog, *seqs: int, rows: int = 0) -> Manifest:
    for seq in seqs:
        data = log.write_data(Seq(seq), epoch=1, codec="canal-json", changes=[CHANGE] * rows)
        written = manifest(seq, data)
        log.commit(written)
    return written


def manifest(seq: int, data: DataFile) -> Manifest:
    return Manifest(
        Seq(seq), 1, CommitTs(seq), CommitTs(seq + 1), data.name, data.rows, data.bytes, {}, "schemas/0000000000000000.json", "canal-json"
    )


def seqs(folder: Folder, after: int | None, limit: int = 100) -> list[int]:
    return [item.seq for item in new_manifests(folder, after=None if after is None else Seq(after), limit=limit)]


def test_an_empty_log_has_nothing_new(log: FolderLog) -> None:
    assert seqs(log.folder, None) == []
    assert seqs(log.folder, -1) == []


def test_what_follows_the_position_comes_in_order_up_to_the_limit(log: FolderLog) -> None:
    append(log, *range(30))
    assert seqs(log.folder, None) == seqs(log.folder, -1) == list(range(30))
    assert seqs(log.folder, 4) == list(range(5, 30))
    assert seqs(log.folder, 4, limit=7) == list(range(5, 12))
    assert seqs(log.folder, 4, limit=0) == []
    assert seqs(log.folder, 29) == []


def test_a_poll_lists_nothing(log: FolderLog, monkeypatch: pytest.MonkeyPatch) -> None:
    append(log, 0, 1)
    monkeypatch.setattr(storage, "list_names", None)
    assert seqs(log.folder, 0) == [1]
    assert seqs(log.folder, 1) == []


def test_a_manifest_is_held_with_the_tables_that_its_segment_completes(log: FolderLog) -> None:
    """Not with those of the whole dump: 600 manifests of a dump of 10,000 tables would take gigabytes."""
    tables = tuple(TableProgress(TableName("shop", f"t{number}"), (), complete_at=CommitTs(number)) for number in range(1, 51))
    dumps = [
        Progress(dump_id, DumpState.RUNNING, Brackets.WATERMARK, 1, 1, 1, Seq(0), tables[first:])
        for dump_id, first in (("first", 0), ("second", 10))
    ]
    whole = [
        replace(manifest(seq, DataFile(None, 0, 0)), progress=dumps[0].to_json(), more_dumps=(dumps[1].to_json(),)) for seq in range(20)
    ]
    for one in whole:
        log.commit(one)
    held = new_manifests(log.folder, after=Seq(-1), limit=20)
    assert [dump_after(one) for one in held] == [dump_after(one) for one in whole]
    assert [completed_tables(one) for one in held] == [completed_tables(one) for one in whole]
    assert max(len(dump["tables"]) for one in held for dump in one.dumps) == 1


def test_a_log_whose_beginning_is_retained_away_starts_where_it_is_kept(log: FolderLog) -> None:
    append(log, *range(6))
    log.retain(delivered=Seq(3), open_from=None)
    assert seqs(log.folder, None) == [3, 4, 5]
    assert seqs(log.folder, 2) == [3, 4, 5]
    assert seqs(log.folder, 3) == [4, 5]


@pytest.mark.parametrize("after", [0, 1])
def test_a_sink_that_was_away_for_longer_than_retention_stops_alone(log: FolderLog, after: int) -> None:
    """The log is whole, so the other sinks continue (loop.py)."""
    append(log, *range(6))
    log.retain(delivered=Seq(3), open_from=None)
    with pytest.raises(SinkError, match=f"has segments up to {after}, and segment log .* is kept from 3 on") as raised:
        seqs(log.folder, after)
    assert "name a new output" in raised.value.hint


def test_a_log_that_must_begin_with_its_first_segment_and_does_not_is_broken(log: FolderLog) -> None:
    append(log, *range(6))
    log.retain(delivered=Seq(3), open_from=None)
    with pytest.raises(LogBroken, match="is gone"):
        seqs(log.folder, -1)


@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_gap_is_broken_from_wherever_it_is_met(log: FolderLog, after: int, tmp_path: Path) -> None:
    append(log, *range(6))
    (tmp_path / manifest_name(Seq(3))).unlink()
    with pytest.raises(LogBroken, match=r"03\.json"):
        seqs(log.folder, after)


def test_a_manifest_that_comes_while_the_next_one_is_read_is_no_gap(log: FolderLog, monkeypatch: pytest.MonkeyPatch) -> None:
    append(log, *range(4))
    real, calls = storage.read_files, []

    def late(folder: Folder, names: list[str]) -> dict[str, bytes]:
        calls.append(names)
        result = real(folder, names)
        if len(calls) == 2:
            del result[manifest_name(Seq(2))]
        return result

    monkeypatch.setattr(storage, "read_files", late)
    assert seqs(log.folder, 0) == [1]
    assert seqs(log.folder, 1) == [2, 3]


def test_an_unreadable_manifest_is_broken(log: FolderLog, tmp_path: Path) -> None:
    append(log, 0)
    (tmp_path / manifest_name(Seq(1))).write_bytes(b'{"version":')
    with pytest.raises(LogBroken, match="not readable"):
        seqs(log.folder, 0)


@pytest.mark.parametrize("within", [range(2), range(5, ROW_GROUP_ROWS_MAX + 1), range(ROW_GROUP_ROWS_MAX, ROW_GROUP_ROWS_MAX + 2)])
def test_rows_are_read_whole_or_by_their_ordinals(log: FolderLog, within: range) -> None:
    """Inside one row group, over their edge, and all of the last one."""
    written = append(log, 0, rows=ROW_GROUP_ROWS_MAX + 2)
    whole, some = read_rows(log.folder, written), read_rows(log.folder, written, within)
    assert tuple(whole.column_names) == DATA_COLUMNS
    assert whole.column("ordinal").to_pylist() == list(range(ROW_GROUP_ROWS_MAX + 2))
    assert some.column("ordinal").to_pylist() == list(within)
    assert some.equals(whole.slice(within.start, len(within)))


@pytest.mark.parametrize("size_max", [0, 1 << 20])
def test_a_small_segment_that_is_not_on_this_machine_is_read_by_one_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size_max: int
) -> None:
    """To open it takes one for its size, and so a third more of what a segment waits for."""
    monkeypatch.setattr("spark_merge.log.read.WHOLE_FILE_BYTES_MAX", size_max)
    remote = FolderLog(open_folder(f"memory://logs{tmp_path}"))
    remote.recover(epoch=1)
    written, opened = append(remote, 0, rows=10), list[str]()
    open_to_read = storage.open_to_read

    def counted(folder: Folder, name: str) -> AbstractContextManager[IO[bytes]]:
        opened.append(name)
        return open_to_read(folder, name)

    monkeypatch.setattr(storage, "open_to_read", counted)
    assert read_rows(remote.folder, written)["key"].to_pylist() == [b"k"] * 10
    assert opened == ([] if size_max else [written.data])


@pytest.mark.parametrize(("tables", "kept"), [(1, 32), (10, 8)])
def test_the_schemas_that_are_kept_are_bounded_in_tables(log: FolderLog, monkeypatch: pytest.MonkeyPatch, tables: int, kept: int) -> None:
    """32 files of 10,000 tables would take gigabytes."""
    monkeypatch.setattr("spark_merge.log.read._SCHEMAS_KEPT", schemas_kept := dict[tuple[str, str], Mapping[TableName, TableSchema]]())
    monkeypatch.setattr("spark_merge.log.read.TABLES_KEPT_MAX", 50)
    most = 0
    for ddl in range(40):
        names = [TableName(f"after{ddl}", f"t{number}") for number in range(tables)]
        name = log.write_schemas({one: TableSchema(one, (), ()) for one in names})
        assert set(LoggedSchemas(log.folder, name)) == set(names)
        most = max(most, len(schemas_kept))
    assert most == kept


def test_no_rows_have_the_same_columns(log: FolderLog) -> None:
    empty, one = read_rows(log.folder, append(log, 0)), read_rows(log.folder, append(log, 1, rows=1))
    assert empty.num_rows == 0
    assert empty.schema.names == one.schema.names
    assert empty.schema.types == one.schema.types


@pytest.mark.parametrize("keep", [None, 0, 10, -4])
def test_rows_that_are_gone_or_cut_are_broken(log: FolderLog, tmp_path: Path, keep: int | None) -> None:
    written = append(log, 0, rows=5)
    path = tmp_path / str(written.data)
    data = path.read_bytes()
    path.unlink()
    if keep is not None:
        path.write_bytes(data[:keep])
    with pytest.raises(LogBroken, match="what to do"):
        read_rows(log.folder, written)


def test_rows_of_another_number_than_the_manifest_says_are_broken(log: FolderLog) -> None:
    written = append(log, 0, rows=5)
    with pytest.raises(LogBroken, match="has 5 rows, its manifest says 6"):
        read_rows(log.folder, manifest(0, DataFile(written.data, 6, written.bytes)))


@pytest.mark.parametrize(
    "changed",
    [
        lambda table: table.drop_columns(["key"]),
        lambda table: table.append_column("key", table["key"]),
        lambda table: table.set_column(1, "commit_ts", table["commit_ts"].cast(pa.string())),
    ],
    ids=["one less", "one twice", "another type"],
)
def test_rows_of_other_columns_are_broken(log: FolderLog, tmp_path: Path, changed: Callable[[pa.Table], pa.Table]) -> None:
    written = append(log, 0, rows=5)
    path = tmp_path / str(written.data)
    pq.write_table(changed(pq.read_table(path)), path)
    with pytest.raises(LogBroken, match="other columns than a segment's"):
        read_rows(log.folder, written)


def test_a_column_whose_name_is_no_text_is_broken(log: FolderLog, tmp_path: Path) -> None:
    written = append(log, 0, rows=5)
    path = tmp_path / str(written.data)
    path.write_bytes(path.read_bytes().replace(b"position", b"posit\xffon"))
    with pytest.raises(LogBroken, match="what to do"):
        read_rows(log.folder, written)


@pytest.mark.parametrize("rows", [{"id": ["1"]}, {"id": ["1"], "v": [1]}, {"other": ["1"], "v": ["1"]}])
def test_a_chunk_of_other_columns_is_broken(log: FolderLog, rows: dict[str, list[object]]) -> None:
    name, path = TableName("s", "t"), "chunks/d/0000000001-00000000.parquet"
    schema = TableSchema(name, (Column("id", "int"), Column("v", "text")), ("id",))
    write_chunk(log.folder, path, pa.table(rows))
    due = DueChunk(name, CommitTs(0), CommitTs(9), Seq(0), Seq(0), 0, "d", path, 1)
    with pytest.raises(LogBroken, match="other columns than id, v"):
        list(open_chunk(log.folder, schema, due, pa.array([], pa.string())))


def test_schemas_that_are_gone_or_unreadable_are_broken(log: FolderLog, tmp_path: Path) -> None:
    name = log.write_schemas({})
    assert read_schemas(log.folder, name) == {}
    (tmp_path / name).write_bytes(b"[")
    with pytest.raises(LogBroken, match="not readable"):
        read_schemas(log.folder, name)
    (tmp_path / name).write_bytes(b"[ ]")
    with pytest.raises(LogBroken, match="is not as it was written"):
        read_schemas(log.folder, name)
    (tmp_path / name).unlink()
    with pytest.raises(LogBroken, match="is gone"):
        read_schemas(log.folder, name)


def flipped(whole: bytes, bits: int) -> Iterator[bytes]:
    """The file with one bit of it changed, once for each of so many places."""
    random = Random(7)
    for _ in range(bits):
        place, bit = random.randrange(len(whole)), random.randrange(8)
        yield whole[:place] + bytes([whole[place] ^ 1 << bit]) + whole[place + 1 :]


FLIPS = 300
FOOTER_FLIPS_MAX = 0.02
"""Pages have checksums; what is left are some bytes of headers and of the footer."""


def test_a_flipped_bit_of_a_segment_is_an_error_and_not_other_rows(log: FolderLog, tmp_path: Path) -> None:
    changes = [CHANGE._replace(key=b"%d" % number, value=b"a row's %d text" % (number * number)) for number in range(2_000)]
    written = manifest(0, log.write_data(Seq(0), epoch=1, codec="canal-json", changes=changes))
    path = tmp_path / str(written.data)
    right, other = read_rows(log.folder, written), 0
    for data in flipped(path.read_bytes(), FLIPS):
        path.write_bytes(data)
        with suppress(LogBroken):
            other += not read_rows(log.folder, written).equals(right)
    assert other <= FLIPS * FOOTER_FLIPS_MAX


def test_a_flipped_bit_of_a_chunk_is_an_error_and_not_other_rows(log: FolderLog, tmp_path: Path) -> None:
    name, path = TableName("s", "t"), "chunks/d/0000000001-00000000.parquet"
    schema = TableSchema(name, (Column("id", "int"), Column("v", "text")), ("id",))
    rows = pa.table({"id": [str(number) for number in range(2_000)], "v": [f"text {number * number}" for number in range(2_000)]})
    write_chunk(log.folder, path, rows)
    due, keys, other = DueChunk(name, CommitTs(0), CommitTs(9), Seq(0), Seq(0), 0, "d", path, 2_000), pa.array([], pa.string()), 0
    for data in flipped((tmp_path / path).read_bytes(), FLIPS):
        (tmp_path / path).write_bytes(data)
        with suppress(LogBroken):
            other += not next(open_chunk(log.folder, schema, due, keys)).survivors.rows.equals(rows)
    assert other <= FLIPS * FOOTER_FLIPS_MAX


@pytest.mark.parametrize(
    "strange",
    [
        {"data": "../victim.txt"},
        {"data": "00000000000000000001-0000000001.parquet"},
        {"data": "/etc/passwd"},
        {"schemas": "schemas/../../victim.json"},
        {"next_schemas": "delivered.json"},
        {"windows": "chunks/../0000000001-00000000.parquet"},
        {"windows": "changefeed.txt"},
        {"windows": "chunks/d/0000000001-00000000.parquet/../../../x"},
    ],
)
def test_a_manifest_that_names_what_is_not_the_logs_is_broken(log: FolderLog, tmp_path: Path, strange: dict[str, str]) -> None:
    """Files are read, and removed, by these names."""
    append(log, 0, rows=1)
    path = tmp_path / manifest_name(Seq(0))
    result = json.loads(path.read_bytes())
    if "windows" in strange:
        chunk = {
            "schema": "s",
            "table": "t",
            "path": strange["windows"],
            "rows": 1,
            "bytes": 1,
            "after": None,
            "last": None,
            "read_tso": None,
        }
        result["windows"] = [{"dump_id": "d", "low_ts": "0", "high_ts": "1", "first_seq": 0, "chunks": [chunk]}]
    path.write_text(json.dumps(result | {name: value for name, value in strange.items() if name != "windows"}))
    for read in (lambda: seqs(log.folder, None), lambda: FolderLog(log.folder).recover(epoch=2)):
        with pytest.raises(LogBroken, match="names files that are not"):
            read()


def test_a_listing_that_retention_overtakes_is_looked_at_again(log: FolderLog, monkeypatch: pytest.MonkeyPatch) -> None:
    append(log, *range(4))
    listed, looks = storage.list_names, list[int]()

    def overtaken(folder: Folder, *, deep: bool, beginning: str = "") -> list[str]:
        looks.append(1)
        names = listed(folder, deep=deep, beginning=beginning)
        return names[1:] if len(looks) == 1 else names

    monkeypatch.setattr(storage, "list_names", overtaken)
    assert seqs(log.folder, None) == [0, 1, 2, 3]


def test_a_beginning_that_is_gone_without_a_note_is_broken(log: FolderLog, tmp_path: Path) -> None:
    """A lifecycle rule of a bucket, or a hand: retention notes first up to where it removes."""
    append(log, *range(4))
    for seq in (0, 1):
        (tmp_path / manifest_name(Seq(seq))).unlink()
    for read in (lambda: seqs(log.folder, None), lambda: FolderLog(log.folder).recover(epoch=2)):
        with pytest.raises(LogBroken, match=r"0{20}\.json is missing"):
            read()


# ---- where a sink that is new to the log begins ------------------------------------------------------------------------


def retained(log: FolderLog, *, windows: dict[int, int], open_from: int | None = None) -> Folder:
    """A log of segments 3 to 9, of ten; `windows`: by the segment that they close in, the one that they opened in."""
    for seq in range(10):
        due = tuple(ClosedWindow("d", CommitTs(0), CommitTs(seq), Seq(first), ()) for last, first in windows.items() if last == seq)
        last = replace(manifest(seq, log.write_data(Seq(seq), epoch=1, codec="canal-json", changes=[])), windows=due)
        log.commit(replace(last, open_from=None if open_from is None or seq < open_from else Seq(open_from)))
    needed_until = max(seq for seq in windows if windows[seq] < 3) if any(first < 3 for first in windows.values()) else 3
    log.retain(delivered=Seq(max(3, needed_until)), open_from=Seq(3))
    return log.folder


def test_a_new_sink_begins_with_the_log(log: FolderLog) -> None:
    assert beginning(log.folder) == 0
    append(log, *range(3))
    assert beginning(log.folder) == 0


@pytest.mark.parametrize(
    ("windows", "first"),
    [
        ({}, 3),
        ({4: 3, 6: 5}, 3),
        ({4: 2}, 5),
        ({4: 2, 6: 3}, 7),
        ({4: 2, 6: 5}, 5),
        ({4: 2, 5: 4, 7: 5, 9: 8}, 8),
    ],
)
def test_a_new_sink_begins_behind_the_windows_that_reach_back_to_what_was_removed(
    log: FolderLog, windows: dict[int, int], first: int
) -> None:
    folder = retained(log, windows=windows)
    assert seqs(folder, None)[0] == 3
    assert beginning(folder) == first


def test_a_new_sink_waits_for_a_window_that_reaches_back_and_is_open(log: FolderLog) -> None:
    folder = retained(log, windows={4: 2, 6: 3}, open_from=6)
    with pytest.raises(SinkError, match="cannot begin yet: a window of a dump may be open since segment 6") as error:
        beginning(folder)
    assert "dumppause" in error.value.hint
    log.commit(replace(manifest(10, log.write_data(Seq(10), epoch=1, codec="canal-json", changes=[])), open_from=None))
    assert beginning(folder) == 7
