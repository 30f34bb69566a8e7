"""What the merge worker tells, and how the sidecar hears it."""

from __future__ import annotations

from pathlib import Path
from time import monotonic

import pytest

from sidecar.core.model import CommitTs, Seq, TableName
from sidecar.log import deliveries as log_deliveries
from sidecar.log import storage
from sidecar.log.delivered import DELIVERED_NAME, DeliveryReport, report_from_json
from sidecar.log.deliveries import LogDeliveries
from sidecar.pace.sinks import BatchDone, SinkDelivery
from tests.support.former import FORMER

BATCH = BatchDone(Seq(7), 3, 10, 1_000, 0.25, 0.01, 1_700_000_000_000)
REPORT = DeliveryReport(
    Seq(7),
    CommitTs((1 << 62) + 1),
    "running",
    1_700_000_000_000,
    pid=42,
    dropped={TableName("s", "ü"): 3},
    rows={"worker": 10, "spark": 1_000},
    spark="ready",
    sinks=(SinkDelivery("parquet:/out", Seq(7), (BATCH,)), SinkDelivery("json:/out", None, error="full")),
)


def test_a_report_comes_back_from_json_as_it_was() -> None:
    assert report_from_json(REPORT.to_json()) == REPORT
    assert report_from_json(DeliveryReport(None, CommitTs(0), "starting", 1).to_json()).seq is None


def test_a_report_of_version_0_1_0_is_read() -> None:
    found = report_from_json((FORMER / "samples" / "delivered.json").read_bytes())
    assert (found.seq, found.error, found.dropped) == (None, 'why "ü"\n', {TableName("shop", "orders"): 3, TableName("shop", "n ö.tes"): 0})


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"seq": "x"}', b"null"])
def test_what_is_no_report_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        report_from_json(data)


def test_hears_of_deliveries_in_the_background(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_deliveries, "READ_EVERY_S", 0.005)
    folder = storage.open_folder(str(tmp_path))
    deliveries = LogDeliveries(folder)
    deliveries.start()
    try:
        assert deliveries.accepted() is None
        storage.write_atomically(folder, DELIVERED_NAME, REPORT.to_json())
        until_s = monotonic() + 10
        while deliveries.accepted() is None and monotonic() < until_s:
            pass
        assert deliveries.accepted() == 7
    finally:
        deliveries.close()


def test_a_file_that_cannot_be_read_is_shown_and_changes_nothing(tmp_path: Path) -> None:
    folder = storage.open_folder(str(tmp_path))
    storage.write_atomically(folder, DELIVERED_NAME, REPORT.to_json())
    deliveries = LogDeliveries(folder)
    deliveries.start()
    deliveries.close()
    storage.write_atomically(folder, DELIVERED_NAME, b"not json")
    deliveries._read()
    assert deliveries.accepted() == 7
    assert "delivered.json cannot be read" in deliveries.trouble
