"""Each rule of matching by itself, and the recordings: raw messages of a real TiKV matched give what was recorded beside them."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import NamedTuple

import pytest

from sidecar.shared.errors import MessageUnreadable
from sidecar.shared.model.nouns import CommitTs
from sidecar.shared.rowcodec.key_values import KeyRange, KvEntry
from sidecar.shared.rowcodec.kv_matcher import COMMIT, COMMITTED, DELETE, INITIALIZED, PREWRITE, PUT, ROLLBACK, RegionMatcher
from tests.support.tikv.recorded import joined, raw

RANGE = KeyRange(b"b", b"d")
KEY = b"c"
REGION = 7
CHECKPOINT = CommitTs(100)


class R(NamedTuple):
    """`cdcpb.Event.Row`."""

    type: int
    start_ts: int = 0
    commit_ts: int = 0
    value: bytes = b""
    old_value: bytes = b""
    op_type: int = PUT
    key: bytes = KEY
    generation: int = 0


INIT = R(INITIALIZED)


def matcher(*before: R) -> RegionMatcher:
    made = RegionMatcher(REGION, RANGE, CHECKPOINT)
    made.entries(before)
    return made


def entry(start_ts: int, commit_ts: int, value: bytes = b"", old: bytes = b"") -> KvEntry:
    return KvEntry(CommitTs(commit_ts), start_ts, KEY, value, old, REGION)


def test_a_commit_has_the_values_of_its_prewrite() -> None:
    entries = matcher(INIT).entries([R(PREWRITE, 110, 0, b"new", b"old"), R(COMMIT, 110, 120, b"short value of the write record")])
    assert entries == [entry(110, 120, b"new", b"old")]


def test_a_delete_has_the_old_value_alone() -> None:
    entries = matcher(INIT).entries([R(PREWRITE, 110, old_value=b"old", op_type=DELETE), R(COMMIT, 110, 120, op_type=DELETE)])
    assert entries == [entry(110, 120, b"", b"old")]


def test_one_round_trip_commits_by_itself() -> None:
    assert matcher(INIT).entries([R(COMMITTED, 110, 120, b"new")]) == [entry(110, 120, b"new")]


def test_transactions_of_one_key_are_distinguished_by_start_ts() -> None:
    rows = [R(PREWRITE, 110, 0, b"1"), R(ROLLBACK, 110), R(PREWRITE, 111, 0, b"2"), R(COMMIT, 111, 120)]
    assert matcher(INIT).entries(rows) == [entry(111, 120, b"2")]


def test_what_is_rolled_back_is_held_no_longer() -> None:
    made = matcher(INIT, R(PREWRITE, 110, 0, b"new", b"old"))
    assert made.held_bytes == len(KEY + b"new" + b"old")
    made.entries([R(ROLLBACK, 110)])
    assert made.held_bytes == 0
    with pytest.raises(MessageUnreadable, match="without a prewrite"):
        made.entries([R(COMMIT, 110, 120)])


@pytest.mark.parametrize("end", [R(COMMIT, 110, 120), R(ROLLBACK, 110)])
def test_no_bytes_are_held_for_a_transaction_that_ended(end: R) -> None:
    made = matcher(INIT, R(PREWRITE, 110, 0, b"a"), R(PREWRITE, 110, 0, b"longer"), end)
    assert made.held_bytes == 0


def test_a_heartbeat_does_not_take_a_value_away() -> None:
    rows = [R(PREWRITE, 110, 0, b"new", b"old"), R(PREWRITE, 110, 0, b"", b"old"), R(COMMIT, 110, 120)]
    assert matcher(INIT).entries(rows) == [entry(110, 120, b"new", b"old")]


def test_a_commit_before_the_scan_has_ended_does_not_match_a_heartbeat() -> None:
    made = matcher(R(PREWRITE, 110, 0, b"", b"old"))
    assert made.entries([R(COMMIT, 110, 120), R(PREWRITE, 110, 0, b"new", b"old")]) == []
    assert made.entries([INIT]) == [entry(110, 120, b"new", b"old")]


def test_a_commit_before_its_prewrite_waits_for_the_end_of_the_scan() -> None:
    made = matcher()
    assert made.entries([R(COMMIT, 110, 120), R(PREWRITE, 110, 0, b"new")]) == []
    assert made.entries([INIT]) == [entry(110, 120, b"new")]


def test_a_commit_that_the_scan_reported_whole_is_not_reported_twice() -> None:
    assert matcher().entries([R(COMMIT, 110, 120), R(COMMITTED, 110, 120, b"new"), INIT]) == [entry(110, 120, b"new")]


def test_a_commit_with_a_heartbeat_alone_is_one_that_the_scan_reported_whole() -> None:
    rows = [R(PREWRITE, 110, 0, b"", b"old"), R(COMMIT, 110, 120), R(COMMITTED, 110, 120, b"new", b"old"), INIT]
    assert matcher().entries(rows) == [entry(110, 120, b"new", b"old")]


def test_a_rollback_before_the_prewrite_of_the_scan_ends_it() -> None:
    made = matcher(R(ROLLBACK, 110), R(PREWRITE, 110, 0, b"new"), INIT)
    assert made.held_bytes == 0


def test_of_a_pipelined_transaction_the_highest_generation_counts() -> None:
    rows = [R(PREWRITE, 110, 0, b"2", generation=2), R(PREWRITE, 110, 0, b"1", generation=1), R(COMMIT, 110, 120)]
    assert matcher(INIT).entries(rows) == [entry(110, 120, b"2")]


def test_a_later_flush_may_delete_what_an_earlier_one_wrote() -> None:
    rows = [R(PREWRITE, 110, 0, b"1", b"old", generation=1), R(PREWRITE, 110, 0, b"", b"old", op_type=DELETE, generation=2)]
    assert matcher(INIT, *rows).entries([R(COMMIT, 110, 120, op_type=DELETE)]) == [entry(110, 120, b"", b"old")]


def test_a_pipelined_transaction_waits_for_the_end_of_the_scan() -> None:
    made = matcher(R(PREWRITE, 110, 0, b"1", generation=1))
    assert made.entries([R(COMMIT, 110, 120), R(PREWRITE, 110, 0, b"2", generation=2)]) == []
    assert made.entries([INIT]) == [entry(110, 120, b"2")]


def test_writes_up_to_the_checkpoint_are_dropped() -> None:
    rows = [R(COMMITTED, 90, 100, b"at it"), R(PREWRITE, 95, 0, b"before"), INIT, R(COMMIT, 95, 99), R(COMMITTED, 99, 101, b"above")]
    assert matcher().entries(rows) == [entry(99, 101, b"above")]


def test_a_mark_counts_after_the_scan_and_when_it_rises() -> None:
    made = matcher()
    assert not made.resolve(CommitTs(150)), "the scan has not ended"
    made.entries([INIT])
    assert not made.resolve(CommitTs(90)), "below what was asked for"
    assert made.resolve(CommitTs(150))
    assert not made.resolve(CommitTs(150))
    assert not made.resolve(CommitTs(140)), "the lowest of a group of regions"
    assert made.resolved_ts == 150


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (R(COMMIT, 110, 160), "COMMIT .*start_ts 110, commit_ts 160.*without a prewrite"),
        (R(COMMITTED, 110, 150, b"v"), "COMMITTED .*resolved to 150"),
        (R(COMMITTED, 110, 160, b"v", key=b"d"), r"of key 64, .*outside the range \[62, 64\)"),
        (R(COMMITTED, 110, 160, b"v", key=b""), r"\(empty\)"),
        (R(PREWRITE, 110, 0, b"v", key=b"a"), "PREWRITE .*outside"),
        (R(COMMITTED, 110, 160), "a PUT with a value of 0 bytes"),
        (R(COMMITTED, 110, 160, b"v", op_type=DELETE), "a DELETE with a value of 1 bytes"),
        (R(COMMITTED, 110, 160, b"v", op_type=0), "operation 0"),
        (R(6, 110, 160), "log type 6"),
    ],
)
def test_what_cannot_be_is_named_with_its_region_and_key(row: R, message: str) -> None:
    made = matcher(INIT)
    made.resolve(CommitTs(150))
    with pytest.raises(MessageUnreadable, match=message) as refused:
        made.entries([row])
    assert f"region {REGION} " in str(refused.value)


RECORDINGS = ("demo", "shop", "shop-new", "ddl", "ddl-new", "restart", "large", "rowformats", "filter", "tz")

MARKS_THAT_CAME_TWICE = {"ddl": 8}
"""TiKV sent one ts in two messages running; the recorder kept both."""


@pytest.mark.recordings
@pytest.mark.parametrize("name", RECORDINGS)
def test_the_raw_messages_of_a_recording_give_its_entries(name: str) -> None:
    recorded = raw(name)
    matchers = {number: RegionMatcher(it.region, it.range, it.from_ts) for number, it in recorded.subscriptions.items()}
    of_region = defaultdict(list)
    for number, it in recorded.subscriptions.items():
        of_region[it.region].append(number)
    entries: Counter[tuple[int, KvEntry]] = Counter()
    marks: Counter[tuple[int, int, int]] = Counter()
    for message in recorded.events():
        for event in message.events:
            entries.update((event.request_id, it) for it in matchers[event.request_id].entries(event.entries.entries))
        for region in message.resolved_ts.regions:
            marks.update(
                (number, region, message.resolved_ts.ts) for number in of_region[region] if matchers[number].resolve(message.resolved_ts.ts)
            )
    wanted = joined(name)
    assert entries == wanted.entries
    assert not marks - wanted.resolved
    left = wanted.resolved - marks
    assert left.total() == MARKS_THAT_CAME_TWICE.get(name, 0)
    assert all(marks[place] for place in left)
