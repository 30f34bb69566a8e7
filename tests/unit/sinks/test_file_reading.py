"""Reading a files output back for a verification: what of its `_segments` is in memory, and which of its files a table is read from."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from sidecar.shared.errors import SinkError
from sidecar.shared.log import storage
from sidecar.shared.log.manifest import DdlRecord
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import CommitTs, Seq, TableName
from spark_merge.port.contract import Owner
from spark_merge.sinks.files import reader
from spark_merge.sinks.files.reading import FilesPart, read_back
from spark_merge.sinks.folder.layout import (
    COMMIT,
    DDLS_OF_SEGMENT,
    SEGMENT,
    DeliveredFile,
    DeliveredSegment,
    FolderCommit,
    SegmentDdls,
    ddl_path,
    file_path,
    segment_path,
)
from spark_merge.sinks.kit.errors import sink_folder
from tests.support.deliveries import ORDERS, SCHEMA

TABLES = (ORDERS, *(TableName("shop", f"table_{number}") for number in range(19)))
RENAMED = TableName("shop", "bought")
OWNER = Owner(1, 1)


def segment(seq: int, tables: tuple[TableName, ...], *, ddl: str | None = None) -> DeliveredSegment:
    files = tuple(DeliveredFile(file_path(one, seq, "parquet", part=0, owner=OWNER, attempt="aa"), one, 1, 0, 0) for one in tables)
    return DeliveredSegment(Seq(seq), CommitTs(100 * seq + 99), files, ddl)


def output(folder: Path, segments: list[DeliveredSegment], *, shown: int | None = None) -> Folder:
    """The last commit accepts the last two; of all, `shown` are there for readers."""
    out = sink_folder(str(folder))
    for one in segments[:shown]:
        SEGMENT.write(out, segment_path(one.seq), one)
    COMMIT.write(out, f"_commits/{7:020d}.json", FolderCommit(7, OWNER, "me", segments[-1].seq, tuple(segments[-2:]), segments[0].seq))
    return out


def paths_read(out: Folder) -> list[str]:
    parts = read_back(out, SCHEMA, parts=3).parts
    assert all(isinstance(part, FilesPart) for part in parts)
    return sorted(file.path for part in parts if isinstance(part, FilesPart) for file, _ in part.files)


@pytest.mark.parametrize("at_once", [1, 2, 500])
@pytest.mark.parametrize("shown", [3, 4, 5])
def test_a_table_is_read_from_its_own_files_of_every_segment(
    tmp_path: Path, at_once: int, shown: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`shown` 3: the worker died before the last commit's segments were there for readers."""
    monkeypatch.setattr(reader, "SEGMENTS_HELD_MAX", at_once)
    segments = [segment(seq, TABLES[: seq % 4]) for seq in range(5)]
    expected = [one.files[0].path for one in segments if one.files]
    assert paths_read(output(tmp_path, segments, shown=shown)) == expected


def test_what_the_files_of_other_tables_take_does_not_grow_with_the_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """400 segments of 20 tables held a list of 8,000 files: 4 MB, and 1.2 GB after an hour of verifications of all tables."""
    monkeypatch.setattr(reader, "SEGMENTS_HELD_MAX", 10)
    out = output(tmp_path, [segment(seq, TABLES) for seq in range(400)])
    paths_read(out)  # what is imported and cached
    tracemalloc.start()
    try:
        assert len(paths_read(out)) == 400
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1_500_000


def test_a_name_from_before_a_ddl_is_the_tables(tmp_path: Path) -> None:
    renamed = DdlRecord(CommitTs(199), "shop", "orders", "RENAME TABLE bought TO orders")
    segments = [segment(0, (RENAMED,)), segment(1, (RENAMED, TABLES[1]), ddl=ddl_path(1)), segment(2, TABLES[:3])]
    out = output(tmp_path, segments)
    DDLS_OF_SEGMENT.write(out, ddl_path(1), SegmentDdls(1, [renamed]))
    later = DdlRecord(CommitTs(399), "shop", "orders", "TRUNCATE TABLE orders")
    DDLS_OF_SEGMENT.write(out, ddl_path(3), SegmentDdls(3, [later]))  # of a batch that no commit accepts yet
    assert paths_read(out) == sorted(one.files[0].path for one in segments)


def test_ddls_that_are_gone_are_an_error(tmp_path: Path) -> None:
    out = output(tmp_path, [segment(0, TABLES[:1]), segment(1, TABLES[:1], ddl=ddl_path(1)), segment(2, TABLES[:1])])
    with pytest.raises(SinkError, match=r"_ddl/0+1\.json is gone"):
        read_back(out, SCHEMA, parts=1)


def test_ddls_that_are_gone_are_named_before_what_cannot_be_read_without_them(tmp_path: Path) -> None:
    """The one that is gone created the table again, so what the other one says of older rows does not matter."""
    out = output(tmp_path, [segment(0, TABLES[:1]), *(segment(seq, TABLES[:1], ddl=ddl_path(seq)) for seq in (1, 2)), segment(3, ())])
    exchanged = DdlRecord(CommitTs(199), "shop", "orders", "ALTER TABLE orders EXCHANGE PARTITION p0 WITH TABLE other")
    DDLS_OF_SEGMENT.write(out, ddl_path(1), SegmentDdls(1, [exchanged]))
    with pytest.raises(SinkError, match=r"_ddl/0+2\.json is gone"):
        read_back(out, SCHEMA, parts=1)
    DDLS_OF_SEGMENT.write(out, ddl_path(2), SegmentDdls(2, []))
    with pytest.raises(SinkError, match="EXCHANGE PARTITION"):
        read_back(out, SCHEMA, parts=1)


def test_ddls_from_before_the_outputs_first_segment_are_not_read(tmp_path: Path) -> None:
    """Its first opening died, and retention let it begin later."""
    out = output(tmp_path, [segment(seq, TABLES[:1]) for seq in (5, 6)])
    storage.write_atomically(out, ddl_path(3), b"not readable")
    assert len(paths_read(out)) == 2


def test_a_segment_that_goes_away_while_it_is_read_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "SEGMENTS_HELD_MAX", 2)
    out = output(tmp_path, [segment(seq, TABLES[:1]) for seq in range(6)])
    segments = reader.segments_of(out, reader.delivered_seqs(out))
    assert next(segments).seq == 0
    storage.remove(out, [segment_path(4)])
    with pytest.raises(SinkError, match="1 segments went away"):
        list(segments)
