"""What is decoded once for several, and what is kept of it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_merge.log import cache
from spark_merge.log.cache import DecodedRows, DecodedTables
from spark_merge.port.contract import CHANGES
from tests.support.eventually import PATIENCE_S

ROWS = pa.table({"n": list(range(100))})


def never() -> pa.Table:
    raise AssertionError("it was decoded again")


def test_who_asks_while_it_is_decoded_waits_and_gets_the_same() -> None:
    rows, begun, go_on = DecodedRows(), Event(), Event()

    def decode() -> pa.Table:
        begun.set()
        assert go_on.wait(PATIENCE_S)
        return ROWS

    with ThreadPoolExecutor(2) as sinks:
        first = sinks.submit(rows.get, "a", decode)
        assert begun.wait(PATIENCE_S)
        second = sinks.submit(rows.get, "a", never)
        go_on.set()
        assert first.result(PATIENCE_S) is second.result(PATIENCE_S) is ROWS


def test_what_cannot_be_decoded_is_reported_and_tried_again() -> None:
    rows = DecodedRows()

    def broken() -> pa.Table:
        raise ValueError("broken")

    for _ in range(2):
        with pytest.raises(ValueError, match="broken"):
            rows.get("a", broken)
    assert rows.get("a", lambda: ROWS) is ROWS


def test_a_cache_of_its_own_bound_keeps_no_more() -> None:
    rows = DecodedRows(bytes_max=ROWS.nbytes)
    for place in ("a", "b"):
        rows.get(place, lambda: ROWS)
    assert len(rows) == 1
    assert rows.get("b", never) is ROWS


def test_the_oldest_that_was_requested_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "BYTES_MAX", 2 * ROWS.nbytes)
    rows = DecodedRows()
    for place in ("a", "b", "a", "c"):
        rows.get(place, lambda: ROWS)
    assert rows.get("a", never) is rows.get("c", never) is ROWS
    with pytest.raises(AssertionError, match="again"):
        rows.get("b", never)


def test_what_is_larger_than_all_that_may_be_kept_is_given_and_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "BYTES_MAX", ROWS.nbytes - 1)
    rows = DecodedRows()
    assert rows.get("a", lambda: ROWS) is ROWS
    with pytest.raises(AssertionError, match="again"):
        rows.get("a", never)


class Sized(DecodedTables):
    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes


def _decode(size: int, decoded: list[Sized]) -> Sized:
    decoded.append(Sized(size))
    return decoded[-1]


def _evict(kept: dict[int, tuple[float, int]], now_s: float) -> None:
    for one in list(kept):
        if sum(each for _, each in kept.values()) > 100 or kept[one][0] < now_s - cache.IDLE_MAX_S:
            del kept[one]


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 60), st.sampled_from([0.0, 20.0, 45.0, 61.0]), st.booleans()),
        max_size=60,
    )
)
def test_what_is_kept_is_bounded_in_bytes_and_in_time(requests: list[tuple[int, int, float, bool]]) -> None:
    """`requests`: a place, what its rows take if they are decoded, how long the next request takes to come, and whether somebody looks
    meanwhile."""
    now_s, kept = 0.0, dict[int, tuple[float, int]]()
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(cache, "BYTES_MAX", 100)
        rows = DecodedRows(lambda: now_s)
        for place, size, pause_s, looks in requests:
            decoded = list[Sized]()
            _evict(kept, now_s)
            rows.get(place, partial(_decode, size, decoded))
            assert bool(decoded) == (place not in kept)
            held = size if decoded else kept.pop(place)[1]
            kept[place] = now_s, held
            _evict(kept, now_s)
            now_s += pause_s
            if looks:
                rows.expire()
                _evict(kept, now_s)
                assert len(rows) == len(kept)


@pytest.mark.parametrize("tables", [1, 10, 100])
def test_rows_weigh_what_they_take_and_not_their_values_alone(tables: int) -> None:
    """Else 256 MB of segments of a row each would be 9 GB."""
    rows = pa.Table.from_pylist([{"schema": "shop", "table": f"t{number}", "commit_ts": 1} for number in range(tables)], CHANGES)
    assert DecodedTables(rows).nbytes >= rows.nbytes + cache.ROWS_BYTES + tables * cache.TABLE_BYTES
