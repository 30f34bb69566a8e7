"""A snapshot's scan without a cluster: when it ends, what it requests, what it says of what stands in its way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from sidecar.config import TikvSection
from sidecar.rowcodec.key_values import KeyRange
from sidecar.tikv import scan as tikv_scan
from sidecar.tikv.regions import Region, encoded
from sidecar.tikv.scan import SnapshotScan

SECTION = TikvSection(pd=("127.0.0.1:1",), outage_max_s=0.1)
WANTED = [KeyRange(b"b", b"c"), KeyRange(b"d", b"e"), KeyRange(b"f", b"g")]


@pytest.fixture
def scan() -> Iterator[SnapshotScan]:
    result = SnapshotScan(SECTION)
    try:
        yield result
    finally:
        result.close()


class MadePd:
    """Each answer of regions takes `answer_s` of a clock that stands otherwise. A region begins at each key of two bytes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, scan: SnapshotScan, *, answer_s: float = 0.0) -> None:
        self.now_s, self.answer_s, self.requested = 0.0, answer_s, 0
        monkeypatch.setattr(scan._pd, "regions", self.regions)
        monkeypatch.setattr(tikv_scan.time, "monotonic", lambda: self.now_s)

    def regions(self, start: bytes, end: bytes, *, at_most: int) -> Sequence[Region]:
        self.requested += 1
        self.now_s += self.answer_s
        return [Region(self.requested, encoded(start), encoded(start + b"m"), 1, 1, None)]


def test_borders_end_where_nobody_wants_them_any_more(monkeypatch: pytest.MonkeyPatch, scan: SnapshotScan) -> None:
    pd = MadePd(monkeypatch, scan)
    scan._stopped = lambda: pd.requested >= 2
    assert scan.borders(WANTED) == [b"bm", b"d", b"f"]
    assert pd.requested == 2


def test_borders_are_those_that_pd_reports_in_time(monkeypatch: pytest.MonkeyPatch, scan: SnapshotScan) -> None:
    pd = MadePd(monkeypatch, scan, answer_s=tikv_scan.READ_S_MAX / 2.5)
    assert scan.borders(WANTED) == [b"bm", b"bmm", b"d", b"f"]
    assert pd.requested == 3
