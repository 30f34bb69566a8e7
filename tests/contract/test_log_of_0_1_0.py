"""What version 0.1.0 wrote is read: its log, and its outputs beside it (tests/data/log-0.1.0/README.md)."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from sidecar.shared.errors import SinkError
from sidecar.shared.log import storage
from sidecar.shared.log.delivery_report import DELIVERED_NAME, report_from_json
from sidecar.shared.log.identity import claim_log, name_of
from sidecar.shared.log.manifest import Manifest
from sidecar.shared.log.segment_log import FolderLog
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import CommitTs, Lane, Seq, TableName
from sidecar.shared.model.progress import DumpState, progress_from_json
from spark_merge.delivery.batches import Delivery, JobSettings
from spark_merge.log.read import new_manifests, read_rows, read_schemas
from spark_merge.sinks.files.reader import read_output, read_segments
from spark_merge.sinks.registry import open_sink
from spark_merge.testing.places import Here, accepted
from tests.support.former import DELIVERED, PREVIOUS_LOG_ID, SEGMENTS, former, output_by_the_rule

T0 = 470609321672572950
ORDERS, NOTES = TableName("shop", "orders"), TableName("shop", "n ö.tes")


@pytest.fixture
def log(tmp_path: Path) -> Folder:
    return former("log", tmp_path)


def test_its_log_is_claimed_recovered_and_written_on(log: Folder) -> None:
    claim_log(log, PREVIOUS_LOG_ID)
    owner = FolderLog(log)
    last = owner.recover(epoch=3)
    assert last is not None
    assert (last.seq, last.epoch, last.upto_ts) == (5, 2, T0 + 5900)
    assert last.positions == {Lane("kafka/orders/0"): 6000, Lane("kv/1"): T0 + 5900}
    assert last.progress is not None
    progress = progress_from_json(last.progress)
    assert (progress.state, progress.revision, [table.complete_at for table in progress.tables]) == (
        DumpState.FINISHED, 9, [T0 + 5020, T0 + 1060],
    )  # fmt: skip
    schemas = owner.read_schemas(last.schemas)
    own = owner.write_schemas(schemas)
    assert owner.read_schemas(own) == schemas
    owner.commit(Manifest(Seq(6), 3, last.upto_ts, CommitTs(T0 + 7000), None, 0, 0, last.positions, own, "canal-json"))
    assert owner.retain(delivered=Seq(6), open_from=None) == SEGMENTS
    left = storage.list_names(log, deep=True)
    assert not [name for name in left if name.startswith("chunks/")]
    assert [name for name in left if name.startswith("schemas/")] == [own], "those without an epoch are an earlier owner's"


def test_all_of_its_log_is_read(log: Folder) -> None:
    manifests = new_manifests(log, after=None, limit=100)
    assert [manifest.seq for manifest in manifests] == list(range(SEGMENTS))
    assert [read_rows(log, manifest).num_rows for manifest in manifests] == [3, 3, 1, 1, 0, 1]
    assert [[chunk.table for window in manifest.windows for chunk in window.chunks] for manifest in manifests] == [
        [], [ORDERS, NOTES], [], [ORDERS], [], [ORDERS],
    ]  # fmt: skip
    (ddl,) = manifests[2].ddls
    assert (ddl.commit_ts, ddl.query) == (manifests[2].upto_ts, "ALTER TABLE `orders` ADD COLUMN state ENUM('new','ü')")
    assert manifests[2].next_schemas == manifests[3].schemas
    before, after = (read_schemas(log, manifests[seq].schemas) for seq in (2, 3))
    assert before.keys() == after.keys() == {ORDERS, NOTES}
    assert [column.name for column in after[ORDERS].columns[len(before[ORDERS].columns) :]] == ["state"]


def test_its_worker_reported_what_it_had_delivered(log: Folder) -> None:
    report = report_from_json(storage.read_file(log, DELIVERED_NAME))
    assert (report.seq, report.upto_ts, report.dropped) == (DELIVERED - 1, T0 + 3900, {ORDERS: 3, NOTES: 1})


def test_its_json_lines_are_what_the_rule_gives(log: Folder, tmp_path: Path) -> None:
    wanted = [row for row in output_by_the_rule(log) if row["seq"] < DELIVERED]
    assert list(read_output(former("jsonl", tmp_path))) == wanted
    assert len(wanted) == 12
    assert {row["origin"] for row in wanted} == {"log", "dump"}


def test_its_parquet_is_what_the_rule_gives(log: Folder, tmp_path: Path) -> None:
    out = former("parquet", tmp_path)
    results = [
        _reported(segment.seq, file.table, row)
        for segment in read_segments(out)
        for file in segment.files
        for row in pq.read_table(io.BytesIO(storage.read_file(out, file.path))).to_pylist()
    ]
    wanted = [
        (
            row["seq"],
            (row["schema"], row["table"]),
            int(row["commit_ts"]),
            row["ordinal"],
            row["op"],
            row["dump_id"],
            row["after"] or row["key"],
        )
        for row in output_by_the_rule(log)
        if row["seq"] < DELIVERED
    ]
    assert sorted(results, key=str) == sorted(wanted, key=str)


def _reported(seq: int, table: TableName, row: dict[str, Any]) -> tuple[Any, ...]:
    """Of a deleted row only the key, as texts."""
    keys = {ORDERS: ("id",), NOTES: ("name", "part")}[table]
    image = {
        name: None if value is None else str(value)
        for name, value in row.items()
        if not name.startswith("_") and (row["_op"] != "delete" or name in keys)
    }
    return seq, tuple(table), row["_commit_ts"], row["_ordinal"], row["_op"], row["_dump_id"], image


@pytest.mark.parametrize("file_format", ["jsonl", "parquet"])
def test_its_outputs_are_taken_on_once_and_then_are_ours(log: Folder, tmp_path: Path, file_format: str) -> None:
    out, name = former(file_format, tmp_path), name_of(PREVIOUS_LOG_ID, claim_log(log, PREVIOUS_LOG_ID))
    before = set(storage.list_names(out, deep=True))
    uri = f"file://{out.root}?format={file_format}"
    assert accepted(open_sink(uri, log_id=name)) == DELIVERED - 1
    delivery = Delivery(open_sink(uri, log_id=name), JobSettings(log), Here())
    assert delivery.accepted == DELIVERED - 1
    while delivery.deliver():
        pass
    assert before <= set(storage.list_names(out, deep=True))
    assert [segment.seq for segment in read_segments(out)] == list(range(SEGMENTS))
    if file_format == "jsonl":
        assert list(read_output(out)) == list(output_by_the_rule(log))
    again = open_sink(uri, log_id=name).open(epoch=None)
    assert again.accepted is not None
    assert (again.accepted.seq, again.owner.incarnation) == (SEGMENTS - 1, 2)
    assert b'"version":2' in storage.read_file(out, "_log.json")
    for other in (PREVIOUS_LOG_ID, name_of(PREVIOUS_LOG_ID, "0" * 32)):
        with pytest.raises(SinkError, match=f"holds the output of log {name}"):
            open_sink(uri, log_id=other).look()
