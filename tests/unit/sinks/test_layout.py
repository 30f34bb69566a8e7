from __future__ import annotations

from dataclasses import replace
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.shared.errors import SinkError, StorageFull
from sidecar.shared.log import storage
from sidecar.shared.model.nouns import CommitTs, Seq, TableName
from sidecar.shared.model.progress import DumpState, SegmentDump
from spark_merge.port.contract import Owner
from spark_merge.sinks.folder.layout import (
    COMMIT,
    FOLDER_NAME_BYTES_MAX,
    SEGMENT,
    DeliveredFile,
    DeliveredSegment,
    FolderCommit,
    file_path,
    owner_of,
    seq_of,
    table_folder,
)
from spark_merge.sinks.kit.errors import sink_error

NAMES = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=64)


@pytest.mark.parametrize(
    ("schema", "table", "folder"),
    [
        ("shop", "orders", "shop.orders"),
        ("Shop-1", "_orders", "Shop-1._orders"),
        ("_shop", "orders", "%5Fshop.orders"),
        ("a.b", "c/d", "a%2Eb.c%2Fd"),
        ("..", "~", "%2E%2E.%7E"),
        ("100%", "a b", "100%25.a%20b"),
        ("é", "表", "%C3%A9.%E8%A1%A8"),
    ],
)
def test_a_table_folder_is_the_names_percent_encoded(schema: str, table: str, folder: str) -> None:
    assert table_folder(TableName(schema, table)) == folder


@given(NAMES, NAMES)
def test_names_come_back_from_a_folder_that_is_not_cut(schema: str, table: str) -> None:
    folder = table_folder(TableName(schema, table))
    assert len(folder.encode()) <= FOLDER_NAME_BYTES_MAX
    assert not folder.startswith(("_", "."))
    if "~" not in folder:
        assert tuple(map(unquote, folder.split("."))) == (schema, table)


def test_long_names_that_begin_alike_have_folders_of_their_own() -> None:
    folders = {table_folder(TableName("表" * 64, "名" * 63 + last)) for last in "ab"}
    assert len(folders) == 2
    assert all("~" in folder for folder in folders)


def test_files_of_a_table_sort_by_seq() -> None:
    path = file_path(TableName("a", "b"), 12, "parquet", part=3, owner=Owner(7, 2), attempt="0af3")
    assert path == "a.b/00000000000000000012-3.7-2-0af3.parquet"
    assert path < file_path(TableName("a", "b"), 100, "parquet", part=0, owner=Owner(1, 1), attempt="00")
    assert seq_of(path.rpartition("/")[2]) == 12


@pytest.mark.parametrize(
    ("name", "owner"),
    [
        ("00000000000000000012-3.7-2-0af3.parquet", Owner(7, 2)),
        (".00000000000000000012.7-12-0af3.jsonl.41-9f.tmp", Owner(7, 12)),
        ("00000000000000000012.jsonl", Owner(-1, 0)),
        ("00000000000000000012-3.parquet", Owner(-1, 0)),
    ],
)
def test_a_file_reports_whose_it_is(name: str, owner: Owner) -> None:
    assert owner_of(name) == owner


@pytest.mark.parametrize("name", ["", "12.json", "0000000000000000001x.json", ".00000000000000000001.json.1-a.tmp", "README.md"])
def test_other_files_have_no_seq(name: str) -> None:
    assert seq_of(name) is None


def test_a_segment_comes_back_from_json() -> None:
    file = DeliveredFile("a.b/1.jsonl", TableName("a", "ü"), 1, 2, 3)
    segment = DeliveredSegment(Seq(7), CommitTs((1 << 63) - 1), (file,), "_ddl/7.json")
    assert SEGMENT.from_json(SEGMENT.to_json(segment), name="x") == segment
    in_a_dump = replace(segment, dump=SegmentDump("d1", DumpState.PAUSED, (TableName("a", "ü"),)))
    assert SEGMENT.from_json(SEGMENT.to_json(in_a_dump), name="x") == in_a_dump


def test_a_commit_comes_back_from_json() -> None:
    segment = DeliveredSegment(Seq(7), CommitTs(9), (DeliveredFile("a.b/1.jsonl", TableName("a", "ü"), 1, 2, 3),), None)
    for commit in (FolderCommit(0, Owner(3, 1), "a", None), FolderCommit(1, Owner(3, 1), "a", Seq(7), (segment,))):
        assert COMMIT.from_json(COMMIT.to_json(commit), name="x") == commit


@pytest.mark.parametrize("data", [b"", b"[]", b'{"version":1}', b'{"version":2}', b'{"version":1,"seq":"x"}'])
def test_a_segment_that_cannot_be_read_is_named(data: bytes) -> None:
    with pytest.raises(SinkError, match=r"_segments/x\.json"):
        SEGMENT.from_json(data, name="_segments/x.json")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (storage.Full("no room"), StorageFull),
        (storage.Refused("No space left on device"), SinkError),
        (storage.Absent("gone"), SinkError),
        (storage.Unreachable("no answer"), SinkError),
    ],
)
def test_errors_of_the_storage_are_a_sinks(error: Exception, kind: type[SinkError | StorageFull]) -> None:
    of_reader = sink_error("/var/out", "a", error)
    assert type(of_reader) is kind
    assert of_reader.message == (
        f"no room left in /var/out/a: {error}" if kind is StorageFull else f"/var/out/a cannot be read or written: {error}"
    )
