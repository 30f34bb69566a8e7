from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sidecar.shared.errors import SinkError
from sidecar.shared.log import storage
from sidecar.shared.log.storage import Folder, open_folder
from sidecar.shared.model.nouns import TableName
from spark_merge.sinks.files.reader import read_output, read_rows, read_segments
from spark_merge.sinks.files.sink import FileSink
from spark_merge.sinks.folder.layout import FileFormat
from spark_merge.sinks.kit.errors import sink_folder
from tests.support.deliveries import ORDERS, SCHEMA, Segments, change, deliver, opened, write

USERS = TableName("shop", "users")
SCHEMAS = {ORDERS: SCHEMA, USERS: replace(SCHEMA, name=USERS)}


def delivered(tmp_path: Path, file_format: FileFormat = "jsonl") -> Folder:
    """Segments 1 to 3, two rows in each and one of another table in the second; segment 4 is half written."""
    out, log = sink_folder(str(tmp_path / "out")), open_folder(str(tmp_path / "log"))
    sink = opened(FileSink(out, log_id="log-1", file_format=file_format))
    rows = [change(seq, 100 * seq, after=[str(i), "x\u2028\ny"], ordinal=i) for seq in (1, 2, 3) for i in (2, 1)]
    deliver(sink, Segments([1, 2, 3], [*rows, change(2, 5, after=["9", "x"], table=USERS)]), log=log, schemas=SCHEMAS)
    write(sink, Segments([4], [change(4, 5, after=["9", "x"])]), log=log)
    return out


def file_of_orders(out: Folder) -> str:
    """Of segment 2."""
    return next(file.path for file in read_segments(out)[1].files if file.table == ORDERS)


def test_rows_come_by_seq_table_and_output_order(tmp_path: Path) -> None:
    results = [(row["seq"], row["table"], row["key"]["id"]) for row in read_output(delivered(tmp_path))]
    assert results == [
        (1, "orders", "1"), (1, "orders", "2"), (2, "orders", "1"), (2, "orders", "2"), (2, "users", "9"), (3, "orders", "1"),
        (3, "orders", "2"),
    ]  # fmt: skip


def test_segments_name_their_files(tmp_path: Path) -> None:
    segments = read_segments(delivered(tmp_path))
    assert [(segment.seq, segment.upto_ts, [file.table for file in segment.files]) for segment in segments] == [
        (1, 100, [ORDERS]),
        (2, 200, [ORDERS, USERS]),
        (3, 300, [ORDERS]),
    ]


def test_a_folder_without_segments_has_no_rows(tmp_path: Path) -> None:
    assert list(read_output(sink_folder(str(tmp_path / "empty")))) == []


def test_a_gap_stops(tmp_path: Path) -> None:
    out = delivered(tmp_path)
    storage.remove(out, ["_segments/00000000000000000002.json"])
    with pytest.raises(SinkError, match="segment 2 is missing, 3 is there"):
        list(read_output(out))


def test_a_missing_file_stops(tmp_path: Path) -> None:
    out = delivered(tmp_path)
    path = file_of_orders(out)
    storage.remove(out, [path])
    with pytest.raises(SinkError, match=path):
        list(read_output(out))


@pytest.mark.parametrize(
    "spoil", [lambda data: data[:-1], lambda data: data[: data.index(b"\n") + 1], lambda data: data + data, lambda _: b""]
)
def test_a_file_of_another_length_stops(tmp_path: Path, spoil: object) -> None:
    out = delivered(tmp_path)
    assert callable(spoil)
    path = file_of_orders(out)
    storage.write_atomically(out, path, spoil(storage.read_file(out, path)))
    with pytest.raises(SinkError, match=r"whole lines, its segment says 2 \+ 0"):
        list(read_output(out))


def test_a_line_that_is_not_json_stops(tmp_path: Path) -> None:
    out = delivered(tmp_path)
    storage.write_atomically(out, file_of_orders(out), b"{}\n{\n")
    with pytest.raises(SinkError, match="is not JSON lines"):
        list(read_output(out))


def test_parquet_output_is_left_to_parquet_readers(tmp_path: Path) -> None:
    out = delivered(tmp_path, "parquet")
    with pytest.raises(SinkError, match="is not JSON lines"):
        read_rows(out, read_segments(out)[0].files[0])
