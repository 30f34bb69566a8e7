"""What the router decides by itself: which parts go together, how long a part rests, which stores are too old."""

from __future__ import annotations

import pytest

from sidecar.feeds.tikv.queue import WantedRange
from sidecar.feeds.tikv.router import RANGE_RETRY_FIRST_S, RANGE_RETRY_MAX_S, STORE_WAIT_MAX_S, WaitingRange, check_version, joined, later
from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.model.nouns import CommitTs
from sidecar.shared.rowcodec.key_values import KeyRange

WHOLE = WantedRange(KeyRange(b"a", b"m"), CommitTs(1))
OTHER = WantedRange(KeyRange(b"m", b"z"), CommitTs(1))


def waiting(
    start: bytes, end: bytes, *, wanted: WantedRange = WHOLE, resolved_ts: int = 10, since_s: float = 0.0, failures: int = 0
) -> WaitingRange:
    return WaitingRange(wanted, KeyRange(start, end), CommitTs(resolved_ts), 0.0, since_s, failures)


def test_parts_side_by_side_become_one_from_the_lower_ts() -> None:
    ranges = joined([waiting(b"f", b"m", resolved_ts=7, since_s=2.0, failures=3), waiting(b"a", b"f", resolved_ts=9, since_s=1.0)])
    assert ranges == [waiting(b"a", b"m", resolved_ts=7, since_s=1.0, failures=3)]


def test_parts_with_a_gap_or_of_two_requests_stay_separate() -> None:
    separate = [waiting(b"a", b"c"), waiting(b"d", b"m"), waiting(b"m", b"z", wanted=OTHER)]
    assert joined(separate) == separate


def test_each_failure_in_a_row_doubles_the_rest_up_to_a_bound() -> None:
    it, rests_s = waiting(b"a", b"m"), []
    for _ in range(12):
        it = later(it, "why", now_s=100.0)
        rests_s.append(it.due_s - 100.0)
    assert all(RANGE_RETRY_FIRST_S * 2**n / 2 <= rest_s <= RANGE_RETRY_FIRST_S * 2**n for n, rest_s in enumerate(rests_s[:5]))
    assert RANGE_RETRY_MAX_S / 2 <= rests_s[-1] <= RANGE_RETRY_MAX_S
    assert (it.failures, it.why, it.since_s) == (12, "why", 0.0)


@pytest.mark.parametrize(("requested_s", "given_s"), [(5.0, 5.0), (3600.0, STORE_WAIT_MAX_S)])
def test_a_store_is_given_the_rest_it_asks_for_within_a_bound(requested_s: float, given_s: float) -> None:
    assert later(waiting(b"a", b"m"), "busy", now_s=100.0, wait_s=requested_s).due_s == 100.0 + given_s


@pytest.mark.parametrize("version", ["7.1.0", "v7.5.1", "8.5.0-alpha", "9.0.0-beta.2", "10.0.0", "nightly"])
def test_stores_that_are_young_enough(version: str) -> None:
    check_version(version, "store 1")


@pytest.mark.parametrize("version", ["v7.0.0", "6.5.11", "v5.4.3"])
def test_stores_that_are_too_old_are_named(version: str) -> None:
    with pytest.raises(FeedUnsuitable, match=f"store 1 is version {version}"):
        check_version(version, "store 1")
