"""What the merge worker tells, and how the sidecar hears it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from sidecar.shared.log import deliveries as log_deliveries
from sidecar.shared.log import storage
from sidecar.shared.log.deliveries import LogDeliveries
from sidecar.shared.log.delivery_report import DELIVERED_NAME, DeliveryReport, report_from_json
from sidecar.shared.log.filled import FilledWord, write_words
from sidecar.shared.log.identity import OWN_ID_NAME
from sidecar.shared.log.layout import manifest_name
from sidecar.shared.log.sink_tables import write_sink_tables
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.hole import HoleCause, OpenHole
from sidecar.shared.model.nouns import CommitTs, Seq, TableName
from sidecar.shared.model.sink_delivery import BatchDone, DroppedRows, SinkDelivery, SinkTables, TableFiles
from tests.support.eventually import eventually
from tests.support.former import PREVIOUS

FILES = TableFiles("shop", "orders", 9, 8)
BATCH = BatchDone(Seq(7), 3, 10, 1_000, 0.25, 0.01, 1_700_000_000_000, (DroppedRows("s", "ü", 3),))
REPORT = DeliveryReport(
    Seq(7),
    CommitTs((1 << 62) + 1),
    "running",
    1_700_000_000_000,
    pid=42,
    dropped={TableName("s", "ü"): 3},
    rows={"worker": 10, "spark": 1_000},
    spark="ready",
    sinks=(SinkDelivery("parquet:/out", Seq(7), (BATCH,)), SinkDelivery("json:/out", None, error="full", files=(FILES,))),
    log="0" * 32,
    verification_waits_for="a processor",
)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """Of the log that the report is of, with the segment that it tells of."""
    result = storage.open_folder(str(tmp_path))
    storage.write_atomically(result, OWN_ID_NAME, REPORT.log.encode())
    storage.write_atomically(result, manifest_name(Seq(7)), b"of segment 7")
    return result


def test_a_report_comes_back_from_json_as_it_was() -> None:
    assert report_from_json(REPORT.to_json()) == REPORT
    assert report_from_json(DeliveryReport(None, CommitTs(0), "starting", 1).to_json()).seq is None


def test_a_report_of_version_0_1_0_is_read() -> None:
    report = report_from_json((PREVIOUS / "samples" / "delivered.json").read_bytes())
    assert (report.seq, report.error, report.dropped) == (
        None,
        'why "ü"\n',
        {TableName("shop", "orders"): 3, TableName("shop", "n ö.tes"): 0},
    )


def test_a_worker_that_does_not_report_dropped_rows_of_a_batch_is_read_as_not_known() -> None:
    result = json.loads(REPORT.to_json())
    del result["sinks"][0]["batches"][0]["dropped"]
    assert report_from_json(json.dumps(result).encode()).sinks[0].batches[0].dropped is None


def strange(**fields: object) -> list[bytes]:
    """Reports that are right but for one of these."""
    return [json.dumps(json.loads(REPORT.to_json()) | {name: value}).encode() for name, value in fields.items()]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b'{"seq": "x"}',
        b"null",
        b"[" * 100_000,
        *strange(
            seq=-1,
            upto_ts="-5",
            written_ms=1e300,
            pid="x",
            dropped=[["s", "t", -1]],
            sinks=[[]],
            log=7,
        ),
        *strange(seq=1 << 70, upto_ts="9" * 30, rows={"worker": -1}),
        *strange(upto_ts="9" * 5000),
    ],
)
def test_what_is_no_report_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        report_from_json(data)


def test_deliveries_are_read_in_the_background(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_deliveries, "READ_EVERY_S", 0.005)
    deliveries = LogDeliveries(folder)
    deliveries.start()
    try:
        assert deliveries.accepted() is None
        storage.write_atomically(folder, DELIVERED_NAME, REPORT.to_json())
        eventually(lambda: deliveries.accepted() is not None)
        assert deliveries.accepted() == 7
    finally:
        deliveries.close()


def test_whose_worker_it_is_and_what_that_has_found_out_comes_as_one(folder: Folder) -> None:
    deliveries = LogDeliveries(folder)

    def reported(report: DeliveryReport) -> tuple[int, Seq | None]:
        storage.write_atomically(folder, DELIVERED_NAME, report.to_json())
        deliveries._read()
        report_times = deliveries.report_times()
        assert report_times is not None
        assert report_times.written_ms == report.written_ms
        return report_times.epoch, report_times.accepted

    assert reported(replace(REPORT, epoch=3)) == (3, 7)
    assert reported(replace(REPORT, written_ms=2, epoch=4)) == (4, 7)
    came_to_nothing = replace(REPORT, written_ms=3, epoch=4, state="stopped")
    assert reported(came_to_nothing) == (4, None)


def test_a_file_that_cannot_be_read_is_shown_and_changes_nothing(folder: Folder) -> None:
    storage.write_atomically(folder, DELIVERED_NAME, REPORT.to_json())
    deliveries = LogDeliveries(folder)
    deliveries.start()
    deliveries.close()
    storage.write_atomically(folder, DELIVERED_NAME, b"not json")
    deliveries._read()
    assert deliveries.accepted() == 7
    assert "delivered.json cannot be used" in deliveries.trouble


@pytest.mark.parametrize(
    ("reported", "why"),
    [
        (replace(REPORT, seq=Seq(8)), "segment 8 is delivered, which is not in this log"),
        (replace(REPORT, seq=Seq(999_999)), "segment 999999 is delivered, which is not in this log"),
        (replace(REPORT, log="1" * 32), f"is of log {'1' * 32}, and this is log {REPORT.log}"),
    ],
    ids=["beyond its end", "far beyond", "another log"],
)
def test_what_names_another_log_or_what_is_not_in_this_one_is_trouble_and_no_event(
    folder: Folder, reported: DeliveryReport, why: str
) -> None:
    storage.write_atomically(folder, DELIVERED_NAME, reported.to_json())
    deliveries = LogDeliveries(folder)
    deliveries._read()
    assert (deliveries.accepted(), deliveries.sinks(), deliveries.report_times()) == (None, (), None)
    assert why in deliveries.trouble
    storage.write_atomically(folder, DELIVERED_NAME, REPORT.to_json())
    deliveries._read()
    assert (deliveries.accepted(), deliveries.trouble) == (7, "")


def test_who_filled_a_hole_is_read_before_the_table_has_none(folder: Folder) -> None:
    a = TableName("s", "a")
    hole = OpenHole(HoleCause.IMPORT, CommitTs(5), Seq(3), vanished=False, text="")
    holed = SinkTables("lake", "", Seq(0), None, Seq(6), None, holes={a: hole})
    word = FilledWord("lake", 0, a, 0, Seq(3), "alice@db1", "by hand", 1)
    deliveries = LogDeliveries(folder)

    def report(tables: SinkTables) -> None:
        write_sink_tables(folder, tables, log_id=REPORT.log)
        sink = SinkDelivery("lake", Seq(7), tables_seq=tables.seq)
        storage.write_atomically(folder, DELIVERED_NAME, replace(REPORT, sinks=(sink,)).to_json())
        deliveries._read()
        assert deliveries.trouble == ""

    report(holed)
    assert (deliveries.tables["lake"], deliveries.words) == (holed, ())
    write_words(folder, [word])
    report(replace(holed, seq=Seq(7), holes={}))
    assert deliveries.words == [word]
    storage.create_exclusively(folder, "filled/x.json", b"{")
    report(replace(holed, seq=Seq(8)))
    report(replace(holed, seq=Seq(9), holes={}))
    assert deliveries.words == [word], "one that is broken keeps no report back"
    assert deliveries.tables["lake"].holes == {}


def test_a_worker_of_before_names_no_log_and_is_believed(folder: Folder) -> None:
    storage.write_atomically(folder, DELIVERED_NAME, replace(REPORT, log="").to_json())
    deliveries = LogDeliveries(folder)
    deliveries._read()
    assert deliveries.accepted() == 7
