"""The recorded puller keeps the puller's contract, whatever the seed, and is a cluster for a dump."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import pairwise

import pytest

from sidecar.adapters.memory.clock import MemoryClock
from sidecar.replay.feed import Play
from sidecar.replay.kv import KvRecording, RecordedPuller
from sidecar.replay.recording import Recording
from sidecar.shared.codecs.kv import KvCodec, images_of
from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.model.nouns import MARK_TABLE, Change, CommitTs, Lane, Mark, MarkKind, Rank
from sidecar.shared.rowcodec.frontier import Frontier
from sidecar.shared.rowcodec.key_values import DDL_JOB_TABLE_ID, KeyRange, KvEntry, KvEvent, Pulled, rows_of
from sidecar.shared.rowcodec.kv_key import record_key
from tests.support.recordings import recording

POLLS_MAX = 50_000


@cache
def demo() -> KvRecording:
    return KvRecording(Recording(recording("demo")))


@cache
def ranges() -> tuple[KeyRange, ...]:
    ids = {record_key(entry.key).table_id for entry in demo().entries} | {DDL_JOB_TABLE_ID}
    return tuple(rows_of(one) for one in sorted(ids))


START, END = demo().recording.start_ts, demo().recording.end_ts


def pulled(puller: RecordedPuller) -> Iterator[KvEvent]:
    for _ in range(POLLS_MAX):
        yield from puller.poll(timeout_s=0)
        if puller.exhausted:
            return
    raise AssertionError("does not end")


@pytest.mark.parametrize("seed", range(4))
def test_all_is_delivered_before_the_marks_that_cover_it(seed: int) -> None:
    puller = RecordedPuller(demo(), Play(seed=seed, resends=5, batch_messages_max=20))
    puller.want(dict.fromkeys(ranges(), START))
    frontiers = {one: Frontier(one, START) for one in ranges()}
    entries: dict[tuple[bytes, int], KvEntry] = {}
    repeats = moved = 0
    for event in pulled(puller):
        if isinstance(event, Pulled):
            (wanted,) = [one for one in ranges() if one.start <= event.range.start and event.range.end <= one.end]
            before = frontiers[wanted].ts()
            frontiers[wanted].forward(event.range, event.upto_ts)
            missing = [
                entry
                for entry in demo().entries
                if entry.key in event.range and entry.commit_ts <= event.upto_ts and (entry.key, entry.commit_ts) not in entries
            ]
            assert not missing
            moved += frontiers[wanted].ts() > before
        else:
            repeats += (event.key, event.commit_ts) in entries
            entries[event.key, event.commit_ts] = event
    assert sorted(entries.values()) == sorted(demo().entries)
    assert repeats > 0
    assert moved > len(ranges())
    assert puller.played_part() == 1.0


def test_equal_plays_are_equal_and_another_seed_is_another() -> None:
    def events(seed: int) -> list[KvEvent]:
        puller = RecordedPuller(demo(), Play(seed=seed))
        puller.want(dict.fromkeys(ranges(), START))
        return list(pulled(puller))

    assert events(1) == events(1)
    assert events(1) != events(2)


def test_a_range_that_is_wanted_later_has_its_history_from_its_ts_on() -> None:
    late, *others = [one for one in ranges() if sum(entry.key in one for entry in demo().entries) > 100]
    puller = RecordedPuller(demo(), Play(seed=1, batch_messages_max=50))
    puller.want(dict.fromkeys(others, START))
    assert not any(isinstance(event, KvEntry) and event.key in late for event in pulled(puller))
    from_ts = sorted(entry.commit_ts for entry in demo().entries if entry.key in late)[50]
    puller.want(dict.fromkeys(others, START) | {late: from_ts})
    commit_ts = {event.commit_ts for event in pulled(puller) if isinstance(event, KvEntry)}
    assert commit_ts == {entry.commit_ts for entry in demo().entries if entry.key in late and entry.commit_ts > from_ts}


def test_a_range_that_is_wanted_again_goes_on_and_one_that_ended_begins_again() -> None:
    one, other = [one for one in ranges() if sum(entry.key in one for entry in demo().entries) > 100][:2]
    puller = RecordedPuller(demo(), Play(seed=3))
    puller.want({one: START, other: START})
    first = list(pulled(puller))
    puller.want({one: START})
    assert not any(isinstance(event, KvEntry) for event in puller.poll(timeout_s=0))
    puller.want({one: START, other: START})
    again = [event for event in pulled(puller) if isinstance(event, KvEntry)]
    assert {event.key[:9] for event in again} == {other.start[:9]}
    assert {event for event in first if isinstance(event, KvEntry) and event.key in other} == set(again)


def test_after_its_end_ranges_are_pulled_up_to_a_rising_ts() -> None:
    puller = RecordedPuller(demo(), Play(seed=1, batch_messages_max=100))
    puller.want({ranges()[0]: START})
    list(pulled(puller))
    idle = [event.upto_ts for _ in range(5) for event in puller.poll(timeout_s=0) if isinstance(event, Pulled)]
    assert len(idle) > 5
    assert idle[-1] > END


@pytest.mark.parametrize("seed", range(3))
def test_marks_come_at_their_commit_ts_above_all_that_was_pulled(seed: int) -> None:
    puller = RecordedPuller(demo(), Play(seed=seed, resends=3))
    (mark_range,) = [one for one in ranges() if demo().mark_table.id == record_key(one.start + bytes(8)).table_id]
    puller.want(dict.fromkeys(ranges(), START))
    codec = KvCodec(lambda: demo().mark_table)
    sent: list[Mark] = []
    seen: list[Mark] = []
    times: list[int] = []
    before: tuple[str, MarkKind] | None = None
    upto_ts = START
    for number, event in enumerate(pulled(puller)):
        if isinstance(event, Pulled) and event.range.start >= mark_range.start and event.range.end <= mark_range.end:
            upto_ts = max(upto_ts, event.upto_ts)
        if isinstance(event, KvEntry) and event.key in mark_range:
            change = Change(
                event.commit_ts,
                Rank.PUT,
                *MARK_TABLE,
                event.key,
                (len(event.value)).to_bytes(4, "big") + event.value + event.old,
                Lane("a"),
                0,
            )
            mark = codec.mark(change)
            if mark is not None and mark.changefeed_id == "replay":
                seen.append(mark)
        if number % 100 == 0:
            ts = puller.now_ts()
            assert ts > upto_ts
            times.append(ts)
            kind = MarkKind.HIGH if number % 200 else MarkKind.LOW
            key, value = puller.config.encode_mark(
                commit_ts=ts, row_id=1, changefeed_id="replay", uuid=f"{number:032}", kind=kind, previous=before, now_ms=ts >> 18
            )
            assert bool(images_of(value).old) is (before is not None)
            puller.inject(ts, key, value)
            before = (f"{number:032}", kind)
            sent.append(Mark(ts, "replay", *before))
    assert all(one < other for one, other in pairwise(times))
    assert not {entry.commit_ts for entry in demo().entries} & set(times)
    assert set(seen) >= {mark for mark in sent if mark.commit_ts <= END}


def test_a_mark_below_what_was_pulled_is_refused() -> None:
    puller = RecordedPuller(demo(), Play(seed=1))
    puller.want(dict.fromkeys(ranges(), START))
    list(pulled(puller))
    key, value = puller.config.encode_mark(
        commit_ts=START + 1, row_id=1, changefeed_id="replay", uuid="u", kind=MarkKind.LOW, previous=None, now_ms=0
    )
    with pytest.raises(ValueError, match="is late"):
        puller.inject(CommitTs(START + 1), key, value)


def test_at_recorded_time_an_entry_is_there_when_its_time_has_come() -> None:
    clock = MemoryClock(100.0)
    puller = RecordedPuller(demo(), Play(seed=1, speed=10.0, batch_messages_max=100), clock=clock, wait=clock.wait)
    puller.want(dict.fromkeys(ranges(), START))
    for _ in range(POLLS_MAX):
        for event in puller.poll(timeout_s=0.05):
            ts = event.commit_ts if isinstance(event, KvEntry) else event.upto_ts
            assert ((ts - START) >> 18) / 10_000 <= clock.time_s - 100 + 0.001
        clock.time_s += 0.001
        if puller.exhausted:
            break
    assert puller.exhausted
    recorded_s = (END - START >> 18) / 1000
    assert recorded_s / 10 <= clock.time_s - 100 < recorded_s / 10 + 5


def test_recorded_time_needs_a_clock() -> None:
    with pytest.raises(ValueError, match="clock"):
        RecordedPuller(demo(), Play(speed=1.0))


def test_what_is_acknowledged_never_goes_back_and_ends_with_its_range() -> None:
    puller = RecordedPuller(demo())
    one, other = ranges()[:2]
    puller.want({one: START, other: START})
    puller.acknowledge({one: CommitTs(START + 5), other: CommitTs(START + 2)})
    puller.acknowledge({one: CommitTs(START + 3), rows_of(12345): CommitTs(START)})
    assert puller.durable == {one: START + 5, other: START + 2}
    puller.want({one: START})
    assert puller.durable == {one: START + 5}
    puller.close()


def test_a_recording_without_key_values_is_refused(tmp_path: object) -> None:
    result = Recording(recording("demo"))
    result.folder = tmp_path  # type: ignore[assignment]  # an empty one
    with pytest.raises(FeedUnsuitable, match="no key-values"):
        KvRecording(result)
