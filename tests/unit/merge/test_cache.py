"""What is decoded once for several, and what is kept of it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pyarrow as pa
import pytest

from spark_merge.log import cache
from spark_merge.log.cache import DecodedRows
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


def test_the_oldest_requested_for_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
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
