"""What every SegmentLog keeps: one suite for the twin in memory and for FolderLog on local disk, S3 (moto) and memory://."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from moto.server import ThreadedMotoServer

from sidecar.adapters.memory.log import MemoryDisk, MemoryLog
from sidecar.shared.errors import LogBroken, LogTaken
from sidecar.shared.log import manifest as manifest_format
from sidecar.shared.log import storage
from sidecar.shared.log.layout import chunk_name, data_name, logged_dumps, manifest_name, retained_name, schemas_name
from sidecar.shared.log.manifest import OPEN_NOT_KNOWN, DataFile, DdlRecord, Manifest, to_json
from sidecar.shared.log.rows_file import write_chunk
from sidecar.shared.log.schemas_file import schemas_to_json
from sidecar.shared.log.segment_log import FolderLog
from sidecar.shared.log.storage import Folder, dispatch, open_folder, s3
from sidecar.shared.model.chunk import ChunkFile, ClosedWindow
from sidecar.shared.model.messages import Brackets
from sidecar.shared.model.nouns import MARK_TABLE, Change, Column, CommitTs, Lane, Rank, Seq, TableName, TableSchema
from sidecar.shared.model.progress import DumpState, Progress, TableProgress
from spark_merge.log.read import read_rows, read_schemas

Log = FolderLog | MemoryLog
TABLE = TableName("shop", "orders")
SCHEMAS = {TABLE: TableSchema(TABLE, (Column("id", "int", nullable=False), Column("kind", "enum", elements=("a", "ü"))), ("id",))}
CHUNK = pa.table({"id": ["1", "2"], "kind": ["a", None]})


class Place(Protocol):
    """Where logs are opened, with the hands that break them."""

    def open(self) -> Log: ...
    def names(self) -> set[str]: ...
    def delete(self, name: str) -> None: ...
    def overwrite(self, name: str, data: bytes) -> None: ...
    def chunk(self, name: str) -> int: ...
    def rows(self, manifest: Manifest) -> list[Change]: ...
    def schemas(self, name: str) -> dict[TableName, TableSchema]: ...


class MemoryPlace:
    def __init__(self) -> None:
        self.disk = MemoryDisk()

    def open(self) -> MemoryLog:
        return MemoryLog(self.disk)

    def names(self) -> set[str]:
        return set(self.disk.names())

    def delete(self, name: str) -> None:
        self.disk.remove([name])

    def overwrite(self, name: str, data: bytes) -> None:
        self.disk.manifests[name] = data

    def chunk(self, name: str) -> int:
        return self.open().write_chunk(name, CHUNK).bytes

    def rows(self, manifest: Manifest) -> list[Change]:
        return self.open().read_data(manifest)

    def schemas(self, name: str) -> dict[TableName, TableSchema]:
        return self.open().read_schemas(name)


class FolderPlace:
    def __init__(self, folder: Folder) -> None:
        self.folder = folder

    def open(self) -> FolderLog:
        return FolderLog(self.folder)

    def names(self) -> set[str]:
        return set(storage.list_names(self.folder, deep=True)) - {"exclusive.probe"}

    def delete(self, name: str) -> None:
        storage.remove(self.folder, [name])

    def overwrite(self, name: str, data: bytes) -> None:
        storage.write_atomically(self.folder, name, data)

    def chunk(self, name: str) -> int:
        return write_chunk(self.folder, name, CHUNK).bytes

    def rows(self, manifest: Manifest) -> list[Change]:
        rows = read_rows(self.folder, manifest).to_pylist()
        assert [row["ordinal"] for row in rows] == list(range(len(rows)))
        assert {row["codec"] for row in rows} <= {"canal-json"}
        return [
            Change(
                row["commit_ts"],
                Rank.DELETE if row["op"] == "delete" else Rank.PUT,
                row["schema"],
                row["table"],
                row["key"],
                row["value"],
                row["lane"],
                row["position"],
            )
            for row in rows
        ]

    def schemas(self, name: str) -> dict[TableName, TableSchema]:
        return read_schemas(self.folder, name)


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """URL parts of a bucket on a real HTTP server: `prefix` goes between them."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"s3://logs/{{prefix}}?endpoint=http://{host}:{port}&region=us-east-1&access-key=x&secret-access-key=y"
    s3.fs(open_folder(url)).call_s3("create_bucket", Bucket="logs")
    yield url
    server.stop()


@pytest.fixture(params=["twin", "local", "s3", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return MemoryPlace() if request.param == "twin" else folder_of(request, tmp_path)


@pytest.fixture(params=["local", "s3", "memory"])
def folder_place(request: pytest.FixtureRequest, tmp_path: Path) -> FolderPlace:
    """Without the twin, which does in one step what the others do in several."""
    return folder_of(request, tmp_path)


def folder_of(request: pytest.FixtureRequest, tmp_path: Path) -> FolderPlace:
    match request.param:
        case "local":
            return FolderPlace(open_folder(str(tmp_path / "log")))
        case "memory":
            return FolderPlace(open_folder(f"memory://logs{tmp_path}"))
        case _:
            return FolderPlace(open_folder(request.getfixturevalue("bucket").format(prefix=f"of/{tmp_path.name}")))


def change(ts: int, *, key: int = 0, rank: Rank = Rank.PUT) -> Change:
    return Change(CommitTs(ts), rank, "shop", "orders", b'{"id":%d}' % key, b"\x00value\xff", Lane("kafka/orders/2"), 7)


def window(first: int, *chunks: str) -> ClosedWindow:
    files = tuple(ChunkFile(TABLE, name, 2, 100, None, ("2",), CommitTs(5)) for name in chunks)
    return ClosedWindow("d1", CommitTs(first * 10), CommitTs(first * 10 + 5), Seq(first), files)


def manifest(seq: int, *, epoch: int = 1, data: DataFile | None = None, **more: object) -> Manifest:
    result = Manifest(
        seq=Seq(seq),
        epoch=epoch,
        after_ts=CommitTs(seq * 10),
        upto_ts=CommitTs(seq * 10 + 10),
        data=data.name if data else None,
        rows=data.rows if data else 0,
        bytes=data.bytes if data else 0,
        positions={Lane("kafka/orders/2"): 8},
        schemas="schemas/0000000000000000.json",
        codec="canal-json",
        open_from=None,
    )
    return replace(result, **more)  # type: ignore[arg-type]  # fields by name


def append(log: Log, seq: int, *, epoch: int = 1, rows: int = 1, **more: object) -> Manifest:
    """One whole segment."""
    data = log.write_data(Seq(seq), epoch=epoch, codec="canal-json", changes=[change(seq * 10 + 1, key=key) for key in range(rows)])
    written = manifest(seq, epoch=epoch, data=data, **more)
    log.commit(written)
    return written


def recovered(log: Log, *, epoch: int) -> Manifest:
    """The last manifest as its owner gave it to the log."""
    result = log.recover(epoch=epoch)
    assert result is not None
    return replace(result, previous="")


def owner(place: Place, *, epoch: int) -> Log:
    log = place.open()
    log.recover(epoch=epoch)
    return log


# ---- each manifest has the sum of the one before it ------------------------------------------------------------------


def test_each_manifest_has_the_sum_of_the_one_before_it_whoever_wrote_that(place: Place) -> None:
    log, result = owner(place, epoch=1), []
    append(log, 0)
    result.append(log.recover(epoch=1))
    for epoch in (1, 2):
        log = owner(place, epoch=epoch)
        for _ in range(2):
            append(log, len(result), epoch=epoch)
            result.append(place.open().recover(epoch=epoch))
    sums = [None if one is None else hashlib.sha256(to_json(one)).hexdigest() for one in result]
    assert [one and one.previous for one in result] == ["", *sums[:-1]]


def test_a_commit_that_is_repeated_has_the_same_previous_also_after_a_recovery(place: Place) -> None:
    log = owner(place, epoch=1)
    append(log, 0)
    written = append(log, 1)
    before = place.open().recover(epoch=1)
    log.commit(written)
    again = owner(place, epoch=1)
    again.commit(written)
    assert before == place.open().recover(epoch=1)
    append(again, 2)


def test_a_log_of_a_version_without_sums_is_continued_with_the_sum_of_its_last_manifest(folder_place: FolderPlace) -> None:
    old = to_json(replace(manifest(0), id=""))
    folder_place.overwrite(manifest_name(Seq(0)), old)
    append(owner(folder_place, epoch=2), 1, epoch=2)
    result = folder_place.open().recover(epoch=2)
    assert result is not None
    assert result.previous == hashlib.sha256(old).hexdigest()


def test_the_sums_of_files_are_those_of_their_bytes(folder_place: FolderPlace) -> None:
    folder = folder_place.folder
    data = append(owner(folder_place, epoch=1), 0, rows=3).data
    assert data is not None
    file = owner(folder_place, epoch=1).write_data(Seq(1), epoch=1, codec="canal-json", changes=[change(11)])
    assert file.name is not None
    chunk = write_chunk(folder, "chunks/d1/0000000001-00000001.parquet", CHUNK)
    written = storage.read_files(folder, [file.name, "chunks/d1/0000000001-00000001.parquet"])
    assert [hashlib.sha256(one).hexdigest() for one in written.values()] == [file.sha256, chunk.sha256]


# ---- what is written is there --------------------------------------------------------------------------------------


def test_an_empty_log_has_no_last_manifest(place: Place) -> None:
    assert place.open().recover(epoch=1) is None
    assert place.open().recover(epoch=2) is None


def test_recovers_the_last_manifest_and_reads_back_what_was_written(place: Place) -> None:
    log = owner(place, epoch=1)
    append(log, 0)
    changes = [change(11, rank=Rank.DELETE), change(11, key=2), change(1 << 62, key=3)]
    data = log.write_data(Seq(1), epoch=1, codec="canal-json", changes=iter(changes))
    written = manifest(
        1,
        data=data,
        ddls=(DdlRecord(CommitTs(20), "shop", "orders", "ALTER TABLE `ü`"),),
        windows=(window(0),),
        progress={"dump_id": "d1", "tables": []},
    )
    log.commit(written)
    assert data.rows == 3
    assert data.bytes > 0
    assert recovered(place.open(), epoch=2) == written
    assert place.rows(written) == changes


def test_a_segment_without_rows_has_no_data_file(place: Place) -> None:
    log = owner(place, epoch=1)
    assert log.write_data(Seq(0), epoch=1, codec="canal-json", changes=iter([])) == DataFile(None, 0, 0)
    log.commit(manifest(0))
    assert place.names() == {manifest_name(Seq(0))}
    assert place.rows(manifest(0)) == []


def test_data_says_how_many_rows_each_table_has_but_the_watermark_table(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    log, names = owner(place, epoch=1), [("s", "b"), ("s", "a"), MARK_TABLE, ("s", "b")]
    changes = [Change(CommitTs(5), Rank.PUT, *name, b"k", b"v", Lane("l"), at) for at, name in enumerate(names)]
    file = log.write_data(Seq(0), epoch=1, codec="canal-json", changes=iter(changes))
    assert (file.rows, file.table_rows) == (4, {TableName("s", "a"): 1, TableName("s", "b"): 2})
    monkeypatch.setattr(manifest_format, "TABLES_COUNTED_MAX", 1)
    assert log.write_data(Seq(0), epoch=1, codec="canal-json", changes=iter(changes)).table_rows is None


def test_schemas_are_named_by_their_content(place: Place) -> None:
    log = owner(place, epoch=1)
    name, again = log.write_schemas(SCHEMAS), owner(place, epoch=1).write_schemas(SCHEMAS)
    other, later = log.write_schemas({}), owner(place, epoch=2).write_schemas(SCHEMAS)
    assert name == again
    assert len({name, other, later}) == 3, "an owner can remove its own file without removing a later owner's"
    assert place.schemas(name) == SCHEMAS
    assert place.schemas(other) == {}


def many_tables(count: int) -> Progress:
    tables = tuple(TableProgress(TableName("shop", f"t{number:03d}"), (), complete_at=CommitTs(5)) for number in range(count))
    return Progress("d1", DumpState.FINISHED, Brackets.WATERMARK, 1_000, 1, 1, Seq(0), tables)


def with_dumps(log: Log, *dumps: Progress) -> dict[str, Any]:
    """What a manifest has of them."""
    logged = log.write_dumps(dumps)
    return {"progress": logged.dumps[0], "more_dumps": logged.dumps[1:], "dumps_file": logged.file}


def test_dumps_of_many_tables_are_recovered_whole_and_their_file_goes_with_the_last_manifest_that_names_it(place: Place) -> None:
    log, first, more = owner(place, epoch=1), many_tables(200), many_tables(400)
    for seq in range(3):
        append(log, seq, **with_dumps(log, first))
    (file,) = [name for name in place.names() if name.startswith("dumps/")]
    assert [dump.dump_id for dump in logged_dumps(recovered(place.open(), epoch=2).dumps)] == ["d1"]
    assert logged_dumps(recovered(place.open(), epoch=2).dumps) == (first,)
    append(log, 3, **with_dumps(log, more))
    assert logged_dumps(recovered(place.open(), epoch=2).dumps) == (more,)
    assert log.retain(delivered=Seq(2), open_from=None) == 2
    assert file in place.names()
    assert log.retain(delivered=Seq(3), open_from=None) == 1
    (other,) = [name for name in place.names() if name.startswith("dumps/")]
    assert other != file
    append(log, 4)
    assert log.retain(delivered=Seq(4), open_from=None) == 1
    assert other in place.names(), "the next manifest may name it"


def test_dumps_whose_file_is_gone_stop_an_owner(place: Place) -> None:
    log = owner(place, epoch=1)
    written = append(log, 0, **with_dumps(log, many_tables(200)))
    place.delete(written.dumps_file)
    with pytest.raises(LogBroken, match=written.dumps_file):
        place.open().recover(epoch=2)


# ---- one owner -----------------------------------------------------------------------------------------------------


def test_a_second_owner_of_a_segment_is_reported_and_the_first_ones_manifest_stays(place: Place) -> None:
    first, second = owner(place, epoch=1), owner(place, epoch=2)
    written = append(second, 0, epoch=2, rows=2)
    with pytest.raises(LogTaken, match="what to do"):
        append(first, 0, epoch=1)
    assert recovered(place.open(), epoch=3) == written
    assert len(place.rows(written)) == 2


def test_a_commit_whose_answer_was_lost_may_be_repeated(place: Place) -> None:
    log = owner(place, epoch=1)
    written = append(log, 0)
    log.commit(written)
    other = owner(place, epoch=1)
    other.commit(written)
    append(other, 1)
    last = owner(place, epoch=2).recover(epoch=3)
    assert last is not None
    assert last.seq == 1


def test_a_repeated_commit_of_something_else_is_refused(place: Place) -> None:
    log = owner(place, epoch=1)
    append(log, 0)
    with pytest.raises(LogTaken):
        log.commit(manifest(0, rows=5))


def test_of_eight_owners_at_once_exactly_one_wins(place: Place) -> None:
    append(owner(place, epoch=1), 0)
    logs = {epoch: owner(place, epoch=epoch) for epoch in range(2, 10)}
    together = Barrier(len(logs))

    def race(epoch: int) -> bool:
        together.wait()
        try:
            logs[epoch].commit(manifest(1, epoch=epoch))
        except LogTaken:
            return False
        return True

    with ThreadPoolExecutor(len(logs)) as threads:
        won = [epoch for epoch, ok in zip(logs, threads.map(race, logs), strict=True) if ok]
    last = place.open().recover(epoch=10)
    assert last is not None
    assert won == [last.epoch]


def test_the_same_owner_may_write_the_data_again(place: Place) -> None:
    log = owner(place, epoch=1)
    log.write_data(Seq(0), epoch=1, codec="canal-json", changes=[change(1)] * 3)
    written = append(log, 0, rows=2)
    assert len(place.rows(written)) == 2


def test_a_previous_owner_cannot_replace_data(place: Place) -> None:
    previous, later = owner(place, epoch=1), owner(place, epoch=2)
    written = append(later, 0, epoch=2, rows=2)
    previous.write_data(Seq(0), epoch=1, codec="canal-json", changes=[change(1)] * 5)
    assert len(place.rows(written)) == 2
    assert recovered(place.open(), epoch=3) == written


@pytest.mark.parametrize("seq", [0, 2])
def test_a_seq_that_is_not_the_next_one_writes_nothing(place: Place, seq: int) -> None:
    log = owner(place, epoch=1)
    append(log, 0)
    before = place.names()
    with pytest.raises(LogBroken, match="the next is 1"):
        log.write_data(Seq(seq), epoch=1, codec="canal-json", changes=[change(1)])
    with pytest.raises((LogBroken, LogTaken)):
        log.commit(manifest(seq))
    assert place.names() == before


# ---- what is broken stops ------------------------------------------------------------------------------------------


def filled(place: Place, *, segments: int = 3) -> list[Manifest]:
    log = owner(place, epoch=1)
    return [append(log, seq) for seq in range(segments)]


def test_a_gap_stops(place: Place) -> None:
    filled(place)
    place.delete(manifest_name(Seq(1)))
    with pytest.raises(LogBroken, match=r"01\.json is missing"):
        place.open().recover(epoch=2)


def test_data_beyond_the_last_manifest_means_that_manifests_are_lost(place: Place) -> None:
    filled(place)
    place.delete(manifest_name(Seq(1)))
    place.delete(manifest_name(Seq(2)))
    with pytest.raises(LogBroken, match=r"01\.json is missing"):
        place.open().recover(epoch=2)


def test_a_beginning_that_is_gone_stops_unless_retention_noted_it(place: Place) -> None:
    filled(place)
    place.delete(manifest_name(Seq(0)))
    with pytest.raises(LogBroken, match=manifest_name(Seq(0))):
        place.open().recover(epoch=2)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (to_json(manifest(2))[:-20], "not readable"),
        (b"", "not readable"),
        (json.dumps({"version": 99}).encode(), r"written by a later version, in format 99[^\n]*\n.*run that version or a later one"),
        (json.dumps({"version": 1}).encode(), "lacks or breaks a field"),
        (to_json(manifest(5)), "says that it is segment 5"),
    ],
    ids=["truncated", "empty", "newer", "lacking", "another"],
)
def test_an_unreadable_last_manifest_stops(place: Place, data: bytes, says: str) -> None:
    filled(place)
    place.overwrite(manifest_name(Seq(2)), data)
    with pytest.raises(LogBroken, match=says):
        place.open().recover(epoch=2)


def test_a_missing_data_file_stops(place: Place) -> None:
    last = filled(place)[-1]
    assert last.data is not None
    place.delete(last.data)
    with pytest.raises(LogBroken, match="which a manifest names, is gone"):
        place.open().recover(epoch=2)


def test_a_missing_chunk_file_stops(place: Place) -> None:
    names = [chunk_name("d1", epoch=1, number=number) for number in (1, 2)]
    for name in names:
        place.chunk(name)
    log = owner(place, epoch=1)
    append(log, 0)
    append(log, 1, windows=(window(0, *names),))
    place.delete(names[1])
    with pytest.raises(LogBroken, match=names[1]):
        place.open().recover(epoch=2)


# ---- crashes -------------------------------------------------------------------------------------------------------

OLD_CHUNKS = [chunk_name("d1", epoch=1, number=number) for number in (1, 2)]


@pytest.mark.parametrize("steps", range(5), ids=["nothing", "named chunk", "chunks", "data", "manifest"])
def test_after_a_crash_at_any_step_the_next_owner_keeps_what_is_named_and_removes_the_rest(place: Place, steps: int) -> None:
    log = owner(place, epoch=1)
    kept = append(log, 0)
    named = {manifest_name(Seq(0)), data_name(Seq(0), epoch=1)}
    for name in OLD_CHUNKS[: min(steps, 2)]:
        place.chunk(name)
    if steps >= 3:
        data = log.write_data(Seq(1), epoch=1, codec="canal-json", changes=[change(11)])
    if steps >= 4:
        kept = manifest(1, data=data, windows=(window(1, OLD_CHUNKS[0]),))
        log.commit(kept)
        named |= {manifest_name(Seq(1)), data_name(Seq(1), epoch=1), OLD_CHUNKS[0]}

    later = place.open()
    assert recovered(later, epoch=2) == kept
    mine = chunk_name("d1", epoch=2, number=1)
    place.chunk(mine)
    written = append(later, kept.seq + 1, epoch=2)
    later.retain(delivered=Seq(0), open_from=None)
    assert place.names() == named | {mine, manifest_name(written.seq), data_name(written.seq, epoch=2)}
    assert recovered(place.open(), epoch=3) == written


def test_chunks_named_anywhere_in_the_log_stay(place: Place) -> None:
    log = owner(place, epoch=1)
    for name in OLD_CHUNKS:
        place.chunk(name)
    append(log, 0, windows=(window(0, OLD_CHUNKS[0]),))
    append(log, 1)
    later = owner(place, epoch=2)
    later.retain(delivered=Seq(0), open_from=None)
    assert place.names() >= set(OLD_CHUNKS), "a previous owner might still name them"
    append(later, 2, epoch=2)
    later.retain(delivered=Seq(0), open_from=None)
    assert place.names() & set(OLD_CHUNKS) == {OLD_CHUNKS[0]}


def test_a_previous_owner_that_commits_after_the_next_one_recovered_still_has_its_files(place: Place) -> None:
    """The next owner must not sweep before it has fenced the former one off by a commit of its own."""
    previous = owner(place, epoch=1)
    append(previous, 0)
    place.chunk(OLD_CHUNKS[0])
    data = previous.write_data(Seq(1), epoch=1, codec="canal-json", changes=[change(11)])
    later = owner(place, epoch=2)
    written = manifest(1, data=data, windows=(window(1, OLD_CHUNKS[0]),))
    previous.commit(written)
    with pytest.raises(LogTaken):
        append(later, 1, epoch=2)
    assert recovered(place.open(), epoch=2) == written
    assert place.rows(written) == [change(11)]


# ---- retention -----------------------------------------------------------------------------------------------------


def kept_seqs(place: Place) -> list[int]:
    return sorted(int(name[:20]) for name in place.names() if name[20:] == ".json")


@pytest.mark.parametrize(
    ("delivered", "open_from", "kept"),
    [
        (0, None, [0, 1, 2, 3, 4, 5]),
        (3, None, [3, 4, 5]),
        (5, None, [5]),
        (99, None, [5]),
        (4, 2, [2, 3, 4, 5]),
        (2, 4, [2, 3, 4, 5]),
        (4, 0, [0, 1, 2, 3, 4, 5]),
    ],
)
def test_keeps_what_is_undelivered_or_under_an_open_window(place: Place, delivered: int, open_from: int | None, kept: list[int]) -> None:
    filled(place, segments=6)
    log = owner(place, epoch=2)
    assert log.retain(delivered=Seq(delivered), open_from=None if open_from is None else Seq(open_from)) == 6 - len(kept)
    assert kept_seqs(place) == kept
    assert {name for name in place.names() if name.endswith("-0000000001.parquet")} == {data_name(Seq(seq), epoch=1) for seq in kept}
    assert log.retain(delivered=Seq(delivered), open_from=None if open_from is None else Seq(open_from)) == 0


def test_keeps_the_segments_of_a_window_that_closed_after_what_is_delivered(place: Place) -> None:
    log = owner(place, epoch=1)
    for seq in range(4):
        append(log, seq)
    append(log, 4, windows=(window(1),))
    append(log, 5)
    assert log.retain(delivered=Seq(3), open_from=None) == 1
    assert kept_seqs(place) == [1, 2, 3, 4, 5]
    assert owner(place, epoch=2).retain(delivered=Seq(4), open_from=None) == 3
    assert kept_seqs(place) == [4, 5]


def test_chunks_and_schemas_go_with_the_last_manifest_that_names_them(place: Place) -> None:
    log = owner(place, epoch=1)
    first, second = log.write_schemas(SCHEMAS), log.write_schemas({})
    for name in OLD_CHUNKS:
        place.chunk(name)
    append(log, 0, windows=(window(0, OLD_CHUNKS[0]),), schemas=first)
    append(log, 1, schemas=first)
    append(log, 2, windows=(window(2, OLD_CHUNKS[1]),), schemas=second)
    assert log.retain(delivered=Seq(1), open_from=None) == 1
    assert {OLD_CHUNKS[1], first, second} == {name for name in place.names() if "/" in name}
    assert log.retain(delivered=Seq(2), open_from=None) == 1
    assert {OLD_CHUNKS[1], second} == {name for name in place.names() if "/" in name}


def test_until_an_owner_has_written_what_a_previous_ones_windows_reach_back_to_stays(place: Place) -> None:
    """A former owner that slept amid a commit may still close a window that was open when it wrote last."""
    previous = owner(place, epoch=1)
    for seq in range(6):
        append(previous, seq, open_from=Seq(2))
    later = owner(place, epoch=2)
    assert later.retain(delivered=Seq(5), open_from=None) == 2
    assert later.retain(delivered=Seq(5), open_from=None) == 0
    append(later, 6, epoch=2)
    assert later.retain(delivered=Seq(5), open_from=None) == 3


def test_where_a_manifest_does_not_say_what_was_open_nothing_is_retained_before_the_owner_has_written(place: Place) -> None:
    previous = owner(place, epoch=1)
    for seq in range(6):
        append(previous, seq, open_from=OPEN_NOT_KNOWN)
    later = owner(place, epoch=2)
    assert later.retain(delivered=Seq(5), open_from=None) == 0
    append(later, 6, epoch=2)
    assert later.retain(delivered=Seq(5), open_from=None) == 5


def test_a_retained_log_goes_on(place: Place) -> None:
    filled(place, segments=6)
    log = owner(place, epoch=2)
    log.retain(delivered=Seq(5), open_from=None)
    append(log, 6, epoch=2)
    later = owner(place, epoch=3)
    append(later, 7, epoch=3)
    later.retain(delivered=Seq(7), open_from=None)
    assert kept_seqs(place) == [7]
    assert len([name for name in place.names() if name.startswith("retained-")]) == 1


@pytest.mark.parametrize("seq", [0, 2])
def test_an_owner_that_slept_cannot_write_a_segment_that_is_retained_away(place: Place, seq: int) -> None:
    """Its manifest's name is free again: the fence must not depend on the name alone."""
    first = owner(place, epoch=1)
    for past in range(seq):
        append(first, past)
    asleep, awake = owner(place, epoch=1), owner(place, epoch=2)
    for later in range(seq, seq + 4):
        append(awake, later, epoch=2)
    awake.retain(delivered=Seq(seq + 3), open_from=None)
    with pytest.raises(LogTaken):
        append(asleep, seq, epoch=1)
    last = place.open().recover(epoch=3)
    assert last is not None
    assert (last.seq, last.epoch) == (seq + 3, 2)
    append(owner(place, epoch=3), seq + 4, epoch=3)
    assert kept_seqs(place) == [seq + 3, seq + 4]


@pytest.mark.parametrize("done", range(6))
def test_nor_can_it_amid_a_removal_in_any_order(folder_place: FolderPlace, done: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """S3 removes many at once in no order: here the last ones first, until the remover dies."""
    place, steps, removed = folder_place, iter(range(done)), storage.remove

    def dies(folder: Folder, names: Iterable[str]) -> None:
        for name in sorted(names, reverse=True):
            if next(steps, None) is None:
                raise KeyboardInterrupt
            removed(folder, [name])

    first = owner(place, epoch=1)
    for past in range(2):
        append(first, past)
    asleep, awake = owner(place, epoch=1), owner(place, epoch=2)
    for later in range(2, 6):
        append(awake, later, epoch=2)
    with monkeypatch.context() as patch:
        patch.setattr(storage, "remove", dies)
        with pytest.raises(KeyboardInterrupt):
            awake.retain(delivered=Seq(5), open_from=None)
    with pytest.raises(LogTaken):
        append(asleep, 2, epoch=1)
    append(owner(place, epoch=3), 6, epoch=3)
    assert kept_seqs(place) == [5, 6]


def test_a_previous_owner_retains_nothing(place: Place) -> None:
    """It does not know the windows that the next owner has open."""
    filled(place)
    previous = owner(place, epoch=1)
    append(owner(place, epoch=2), 3, epoch=2)
    with pytest.raises(LogTaken):
        previous.retain(delivered=Seq(2), open_from=None)
    assert kept_seqs(place) == [0, 1, 2, 3]


@pytest.mark.parametrize("done", range(6))
def test_a_crash_inside_retention_is_finished_by_the_next_owner(
    folder_place: FolderPlace, done: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = folder_place
    log = owner(place, epoch=1)
    for seq in range(3):
        place.chunk(chunk_name("d1", epoch=1, number=seq))
        append(log, seq, windows=(window(seq, chunk_name("d1", epoch=1, number=seq)),))
    with monkeypatch.context() as patch:
        steps = iter(range(done))

        def dies(folder: Folder, names: list[str]) -> None:
            for name in names:
                if next(steps, None) is None:
                    raise KeyboardInterrupt
                removed(folder, [name])

        removed = storage.remove
        patch.setattr(storage, "remove", dies)
        with pytest.raises(KeyboardInterrupt):
            log.retain(delivered=Seq(2), open_from=None)
    later = owner(place, epoch=2)
    last = append(later, 3, epoch=2)
    later.retain(delivered=Seq(2), open_from=None)
    assert recovered(place.open(), epoch=3) == last
    assert place.names() - {name for name in place.names() if name.startswith("retained-")} == {
        *(manifest_name(Seq(seq)) for seq in (2, 3)),
        data_name(Seq(2), epoch=1),
        data_name(Seq(3), epoch=2),
        chunk_name("d1", epoch=1, number=2),
    }


# ---- S3 itself -----------------------------------------------------------------------------------------------------


def test_an_upload_that_fails_leaves_no_object_and_no_parts(bucket: str) -> None:
    folder = open_folder(bucket.format(prefix="parts"))

    def changes() -> Iterator[Change]:
        for key in range(3):
            yield change(1, key=key)._replace(value=bytes(s3.PART_BYTES + 1))
        raise KeyboardInterrupt

    log = FolderLog(folder)
    log.recover(epoch=1)
    with pytest.raises(KeyboardInterrupt):
        log.write_data(Seq(0), epoch=1, codec="canal-json", changes=changes())
    assert storage.list_names(folder, deep=True) == ["exclusive.probe"]
    assert not s3.fs(folder).call_s3("list_multipart_uploads", Bucket="logs").get("Uploads")


def test_a_bucket_that_does_not_exist_stops_with_the_way_out(bucket: str) -> None:
    folder = open_folder(bucket.format(prefix="x").replace("s3://logs", "s3://nowhere"))
    with pytest.raises(LogBroken, match="make it exist"):
        FolderLog(folder).recover(epoch=1)
    for deep in (True, False):
        with pytest.raises(LogBroken):
            storage.list_names(folder, deep=deep)


def test_a_storage_without_exclusive_create_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def overwrites(folder: Folder, name: str, data: bytes) -> bool:
        storage.write_atomically(folder, name, data)
        return True

    monkeypatch.setattr(dispatch, "create_exclusively", overwrites)
    with pytest.raises(LogBroken, match="created twice"):
        FolderLog(open_folder(str(tmp_path))).recover(epoch=1)


def test_a_chunk_reads_back_as_text(folder_place: FolderPlace) -> None:
    name = chunk_name("d1", epoch=1, number=1)
    size = folder_place.chunk(name)
    folder = folder_place.folder
    assert len(storage.read_file(folder, name)) == size
    with storage.open_to_read(folder, name) as file:
        assert pq.read_table(file).equals(CHUNK)


# ---- gone is not broken ----------------------------------------------------------------------------------------------


def folder_owner(place: FolderPlace, *, epoch: int) -> FolderLog:
    log = FolderLog(place.folder)
    log.recover(epoch=epoch)
    return log


def several(place: FolderPlace) -> None:
    log = folder_owner(place, epoch=1)
    for seq in range(6):
        append(log, seq)


def test_what_another_owner_has_retained_away_is_no_loss_to_the_rightful_one(folder_place: FolderPlace) -> None:
    """An earlier owner that was frozen after its look at the next manifest removes what it had decided to."""
    several(folder_place)
    rightful = folder_owner(folder_place, epoch=2)
    storage.write_atomically(folder_place.folder, retained_name(Seq(3)), b"")
    for seq in range(3):
        storage.remove(folder_place.folder, [manifest_name(Seq(seq))])
    assert rightful.retain(delivered=Seq(4), open_from=None) == 1
    append(rightful, 6, epoch=2)
    assert rightful.segments == range(4, 7)


def test_an_owner_behind_anothers_retention_is_fenced_off(folder_place: FolderPlace) -> None:
    several(folder_place)
    frozen = folder_owner(folder_place, epoch=1)
    newer = folder_owner(folder_place, epoch=2)
    for seq in range(6, 9):
        append(newer, seq, epoch=2)
    assert newer.retain(delivered=Seq(8), open_from=None) == 8
    with pytest.raises(LogTaken):
        frozen.retain(delivered=Seq(4), open_from=None)


@pytest.mark.parametrize("lost", [3, 5], ids=["amid the log", "its last"])
def test_a_manifest_that_is_gone_above_the_floor_is_a_broken_log(folder_place: FolderPlace, lost: int) -> None:
    several(folder_place)
    log = folder_owner(folder_place, epoch=2)
    storage.remove(folder_place.folder, [manifest_name(Seq(lost))])
    with pytest.raises(LogBroken, match=manifest_name(Seq(lost))):
        log.retain(delivered=Seq(4), open_from=None)


def test_a_schemas_file_that_an_earlier_owner_may_name_again_stays_until_the_newer_one_has_committed(folder_place: FolderPlace) -> None:
    first = folder_owner(folder_place, epoch=1)
    name = first.write_schemas(SCHEMAS)
    append(first, 0, schemas=name)
    other = first.write_schemas({})
    for seq in range(1, 4):
        append(first, seq, schemas=other)
    newer = folder_owner(folder_place, epoch=2)
    assert newer.retain(delivered=Seq(3), open_from=None) == 3
    assert name in folder_place.names()
    append(first, 4, schemas=first.write_schemas(SCHEMAS))
    assert folder_place.open().recover(epoch=3) is not None
    newest = folder_owner(folder_place, epoch=3)
    append(newest, 5, epoch=3, schemas=newest.write_schemas({}))
    newest.retain(delivered=Seq(5), open_from=None)
    assert [one for one in folder_place.names() if one.startswith("schemas/")] == [schemas_name(schemas_to_json({}), epoch=3)]
