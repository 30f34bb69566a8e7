"""A snapshot's scan without a cluster: when it ends, what it requests, what it says of what stands in its way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from sidecar.shared.config import TikvSection
from sidecar.shared.errors import FeedLost, SourceLost
from sidecar.shared.model.nouns import CommitTs, ts_at
from sidecar.shared.rowcodec.key_values import KeyRange
from sidecar.shared.tikv import scan as tikv_scan
from sidecar.shared.tikv.locks import LockOutcome, LockResolver
from sidecar.shared.tikv.regions import Region, encoded
from sidecar.shared.tikv.scan import CALL_BYTES, CALL_ROWS_FIRST, CALL_ROWS_MAX, SnapshotScan
from tests.support.tikv.transactions import Lock
from ticdc_dump.tikv import kvrpcpb_pb2

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
    """Each answer of regions takes `answer_s` of a clock that stands otherwise. Of each range there is always one region more."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, scan: SnapshotScan, *, answer_s: float = 0.0) -> None:
        self.now_s, self.answer_s, self.requests = 0.0, answer_s, 0
        monkeypatch.setattr(scan._pd, "regions", self.regions)
        monkeypatch.setattr("sidecar.shared.tikv.scan.time.monotonic", lambda: self.now_s)

    def regions(self, start: bytes, end: bytes, *, at_most: int) -> Sequence[Region]:
        self.requests += 1
        assert self.requests < 10, "it does not end"
        self.now_s += self.answer_s
        return [Region(self.requests, encoded(start), encoded(start + b"m"), 1, 1, None)]


def test_borders_end_where_nobody_wants_them_any_more(monkeypatch: pytest.MonkeyPatch, scan: SnapshotScan) -> None:
    pd = MadePd(monkeypatch, scan)
    scan._stopped = lambda: pd.requests >= 2
    assert scan.borders(WANTED) == [b"bm", b"d", b"f"]
    assert pd.requests == 2


def test_borders_are_those_that_pd_reports_in_time(monkeypatch: pytest.MonkeyPatch, scan: SnapshotScan) -> None:
    pd = MadePd(monkeypatch, scan, answer_s=tikv_scan.READ_S_MAX / 2.5)
    assert scan.borders(WANTED) == [b"bm", b"bmm", b"d", b"f"]
    assert pd.requests == 3


# ---- how much a call requests ---------------------------------------------------------------------------------------


class MadeTikv:
    """Region `number` has the keys that begin with its number: so many rows of a width."""

    def __init__(self, scan: SnapshotScan, regions: Sequence[tuple[int, int]]) -> None:
        self.regions, self.answers = regions, [0] * len(regions)
        self.largest = [0] * len(regions)
        scan._pd.regions = self.of_keys  # type: ignore[method-assign]
        scan._calls.rows = self.rows  # type: ignore[method-assign]

    def of_keys(self, start: bytes, end: bytes, *, at_most: int | None = None) -> Sequence[Region]:
        return [
            Region(number + 1, encoded(self.key(number)), encoded(self.key(number + 1)), 1, 1, 1)
            for number in range(start[0], len(self.regions))
        ]

    def key(self, region: int, row: int = 0) -> bytes:
        return bytes([region]) + row.to_bytes(3, "big")

    def rows(self, region: Region, within: KeyRange, *, read_ts: CommitTs, limit: int, reverse: bool = False) -> Any:
        number = region.id - 1
        count, width = self.regions[number]
        keys = [key for row in range(count) if (key := self.key(number, row)) in within][:limit]
        self.answers[number] += 1
        self.largest[number] = max(self.largest[number], len(keys) * (len(self.key(0)) + width))
        return kvrpcpb_pb2.ScanResponse(pairs=[kvrpcpb_pb2.KvPair(key=key, value=b"v" * width) for key in keys])


@settings(deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])  # shrinking reads megabytes many times
@given(st.lists(st.tuples(st.integers(0, 300), st.sampled_from([1, 100, 10_000, 100_000])), min_size=1, max_size=5))
def test_what_tikv_answers_is_bounded_by_the_rows_of_its_region_and_not_by_those_before(regions: list[tuple[int, int]]) -> None:
    scan = SnapshotScan(SECTION)
    try:
        tikv = MadeTikv(scan, regions)
        wanted = [KeyRange(tikv.key(0), tikv.key(len(regions)))]
        rows = scan.rows(wanted, CommitTs(1), rows_max=10_000, bytes_max=1 << 40)
    finally:
        scan.close()
    assert rows.whole
    assert [len(value) for value in rows.values] == [width for count, width in regions for _ in range(count)]
    for (count, width), largest, answers in zip(regions, tikv.largest, tikv.answers, strict=True):
        assert largest <= max(CALL_ROWS_FIRST * (width + 4), CALL_BYTES)
        assert answers <= 8 + count * (width + 4) // (CALL_BYTES // 4)


def test_many_narrow_rows_of_a_region_need_few_calls(scan: SnapshotScan) -> None:
    tikv = MadeTikv(scan, [(20 * CALL_ROWS_MAX, 10)])
    assert scan.rows([KeyRange(tikv.key(0), tikv.key(1))], CommitTs(1), rows_max=1 << 20, bytes_max=1 << 40).whole
    assert tikv.answers == [4 + 20]


# ---- what stands in its way -----------------------------------------------------------------------------------------

START_TS = ts_at(1_795_000_000_000, 7)
LOCK = Lock(b"key", START_TS, primary=b"first", ttl_ms=20_000).info()
OF_LOCK = f"waits for a lock of transaction {START_TS}, which began at 2026-11-18 11:06:40 UTC, primary {b'first'.hex()}, TTL 20000 ms"

TRIED = f"this read {OF_LOCK}; it was tried for 0.1 s"


def away(*_: object) -> LockOutcome:
    raise FeedLost("PD is away", hint="start PD")


@pytest.mark.parametrize(
    ("resolves", "reason", "hint"),
    [
        pytest.param(
            lambda *_: LockOutcome(0, OF_LOCK), f"this read {OF_LOCK}; it was tried for 0.1 s", "KILL TIDB", id="a live transaction"
        ),
        pytest.param(lambda *_: LockOutcome(0, ""), TRIED, "KILL TIDB", id="a lock in memory"),
        pytest.param(away, "no store has served this read for 0.1 s; last: PD is away", "start PD", id="nobody says whether it lives"),
    ],
)
def test_a_lock_is_reported_as_what_it_is(
    monkeypatch: pytest.MonkeyPatch, scan: SnapshotScan, resolves: Any, reason: str, hint: str
) -> None:
    locked = kvrpcpb_pb2.ScanResponse(error=kvrpcpb_pb2.KeyError(locked=LOCK))
    tikv = MadeTikv(scan, [(1, 1)])
    monkeypatch.setattr(scan._calls, "rows", lambda *_, **__: locked)
    monkeypatch.setattr(scan._pd, "tso", lambda: CommitTs(START_TS))
    monkeypatch.setattr(LockResolver, "resolve", resolves)
    with pytest.raises(SourceLost) as caught:
        scan.rows([KeyRange(tikv.key(0), tikv.key(1))], CommitTs(START_TS + 1), rows_max=1, bytes_max=1)
    assert caught.value.message == reason
    assert hint in caught.value.hint


def test_a_store_that_does_not_serve_is_no_lock(monkeypatch: pytest.MonkeyPatch, scan: SnapshotScan) -> None:
    tikv = MadeTikv(scan, [(1, 1)])
    monkeypatch.setattr(scan._calls, "rows", lambda *_, **__: away())
    with pytest.raises(SourceLost) as caught:
        scan.rows([KeyRange(tikv.key(0), tikv.key(1))], CommitTs(START_TS + 1), rows_max=1, bytes_max=1)
    assert caught.value.message == "no store has served this read for 0.1 s; last: PD is away"
