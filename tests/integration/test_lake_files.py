"""How many files a reader of a lake's table opens, as its sink counts them from what it has in hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.sink_delivery import TableFiles
from spark_merge.port.maintained import CountsFiles
from spark_merge.sinks.registry import maintained_of, open_sink
from tests.support.deliveries import ORDERS, Segments, change, deliver, opened
from tests.support.lake import uri_of

pytestmark = pytest.mark.xdist_group("iceberg")

BATCHES = 6


@pytest.mark.parametrize("mode", ["append", "merge"])
@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_files_are_counted_as_of_the_last_commit_or_the_one_before(tmp_path: Path, kind: str, mode: str) -> None:
    uri = uri_of(tmp_path / "lake", mode=mode) if kind == "iceberg" else f"delta://{tmp_path}/out?mode={mode}"
    sink, lake = opened(open_sink(uri, log_id="log-1")), maintained_of(uri)
    assert isinstance(sink, CountsFiles)
    assert lake is not None
    assert (sink.small_files(), lake.totals(ORDERS)) == ([], None)
    now = None
    for seq in range(1, BATCHES + 1):
        before = now
        deliver(sink, Segments([seq], [change(seq, 100 * seq - 50, after=(f"{seq}", "new"))]), log=open_folder(str(tmp_path / "log")))
        (counted,) = sink.small_files()
        now = lake.totals(ORDERS)
        assert now is not None
        assert counted in [TableFiles(*ORDERS, one.files, one.extra()) for one in (before, now) if one is not None] or seq == 1
    assert now is not None
    assert now.files == BATCHES * (2 if (kind, mode) == ("iceberg", "merge") else 1)
    assert now.extra() == now.files - 1
    lake.close()
    sink.close()
