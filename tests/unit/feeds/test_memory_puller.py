"""What the in-memory puller does beyond the contract (tests/contract/test_pullers.py): its cluster's side."""

from __future__ import annotations

from threading import Thread

import pytest

from sidecar.adapters.memory.puller import MemoryPuller
from sidecar.shared.model.nouns import CommitTs
from sidecar.shared.rowcodec.key_values import KeyRange, KvEntry, Pulled

AM, AZ = KeyRange(b"a", b"m"), KeyRange(b"a", b"z")
T0 = CommitTs(100)


def entry(key: bytes, commit_ts: int, value: bytes = b"v") -> KvEntry:
    return KvEntry(CommitTs(commit_ts), commit_ts - 1, key, value, b"")


def test_a_commit_below_a_mark_that_covers_it_is_the_tests_mistake() -> None:
    puller = MemoryPuller()
    puller.resolve(120, AM)
    puller.commit(entry(b"n", 110), entry(b"b", 121))
    with pytest.raises(ValueError, match="at or below the mark 120"):
        puller.commit(entry(b"b", 120))


def test_repeat_delivers_everything_of_the_range_again() -> None:
    puller = MemoryPuller()
    puller.want({AZ: T0})
    puller.commit(entry(b"b", 110))
    puller.resolve(115)
    first = puller.poll(timeout_s=0)
    puller.repeat(AZ)
    assert puller.poll(timeout_s=0) == first == [entry(b"b", 110), Pulled(AZ, CommitTs(115))]


def test_a_poll_ends_at_its_bytes_and_the_mark_comes_after_the_entries() -> None:
    puller = MemoryPuller(poll_bytes_max=8)
    puller.want({AZ: T0})
    puller.commit(*(entry(b"b", ts, b"x" * 9) for ts in range(101, 104)))
    puller.resolve(110)
    assert [len(puller.poll(timeout_s=0)) for _ in range(5)] == [1, 1, 1, 1, 0]


def test_a_poll_that_waits_is_woken_by_a_commit() -> None:
    puller = MemoryPuller()
    puller.want({AZ: T0})
    committing = Thread(target=puller.commit, args=(entry(b"b", 110),))
    committing.start()
    assert puller.poll(timeout_s=20) == [entry(b"b", 110)]
    committing.join()


def test_what_is_wanted_can_be_requested() -> None:
    puller = MemoryPuller()
    puller.want({AZ: T0})
    puller.want({AZ: CommitTs(500), KeyRange(b"z", b"zz"): CommitTs(200)})
    assert puller.wanted() == {AZ: 100, KeyRange(b"z", b"zz"): 200}
