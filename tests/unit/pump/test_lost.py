"""Lost ends: what TiKV says of a transaction is done, and nothing that it does not say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from threading import Barrier
from typing import Any
from unittest.mock import patch

import pytest

from sidecar.pump import lost as lost_module
from sidecar.pump.lost import OLD_S, Lost, LostStatus, LostTally, LostWrite, seconds
from sidecar.pump.storage import Storage
from sidecar.shared.errors import FeedLost
from sidecar.shared.model.nouns import CommitTs
from tests.support.eventually import PATIENCE_S
from tests.unit.pump.test_storage import CLUSTER_ID, ROOMY, fake, prewrite, reaches, settled, streamed, write

SECOND = 1000 << 18
NOW_TS = CommitTs(10_000 * SECOND)
YOUNG_TS, OLD_TS = NOW_TS - OLD_S * SECOND, NOW_TS - (OLD_S + 1) * SECOND


class MadeTikv:
    def __init__(self) -> None:
        self.writes: list[LostWrite] = []
        self.statuses: dict[int, LostStatus] = {}
        self.away = False
        self.asked: list[int] = []
        self.together: Barrier | None = None

    def mvcc_by_key(self, key: bytes) -> Sequence[LostWrite]:
        assert key == b"key"
        if self.together is not None:
            self.together.wait(timeout=PATIENCE_S)
        if self.away:
            raise FeedLost("store 1 does not answer", hint="see to it")
        return self.writes

    def txn_status(self, key: bytes, start_ts: int, now_ts: CommitTs) -> LostStatus:
        assert now_ts == NOW_TS
        self.asked.append(start_ts)
        return self.statuses[start_ts]

    def close(self) -> None:
        pass


class Rig:
    def __init__(self, storage: Storage) -> None:
        self.storage, self.tikv, self.notices = storage, MadeTikv(), []
        self.pd_is_away = False
        self.lost = Lost(storage, lambda: self.tikv, self._tso, self._notice)

    notices: list[tuple[str, dict[str, Any]]]

    def _tso(self) -> CommitTs:
        if self.pd_is_away:
            raise FeedLost("PD has no leader", hint="see to it")
        return NOW_TS

    def _notice(self, what: str, **values: Any) -> None:
        self.notices.append((what, values))

    def written(self, *start_ts: int) -> None:
        write(self.storage, *map(prewrite, start_ts))
        settled(self.storage, lambda: len(self.storage.held(longer_than_s=0)) == len(start_ts))


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with (
        patch.object(lost_module, "LOST_S", 0.0),
        closing(Storage(tmp_path, cluster_id=CLUSTER_ID, room=ROOMY)) as storage,
    ):
        rig = Rig(storage)
        with closing(rig.lost):
            yield rig


def test_a_commit_that_tikv_has_is_written_as_tidb_would_have(rig: Rig) -> None:
    rig.written(OLD_TS)
    rig.tikv.writes = [LostWrite(OLD_TS - 1, OLD_TS + 9), LostWrite(OLD_TS, OLD_TS + 5)]
    assert rig.lost.look() == 1
    reaches(rig.storage, OLD_TS + 5)
    assert streamed(rig.storage) == [(OLD_TS, OLD_TS + 5)]
    assert rig.lost.tally == LostTally(committed=1)
    assert rig.notices == [("TiKV had a lost commit", {"start_ts": OLD_TS, "commit_ts": OLD_TS + 5})]
    assert rig.lost.look() == 0


def test_what_tikv_rolled_back_is_dropped_counted_and_reported(rig: Rig) -> None:
    rig.written(YOUNG_TS)
    write(rig.storage, fake(NOW_TS))
    rig.tikv.writes = [LostWrite(YOUNG_TS, 0)]
    assert rig.lost.look() == 1
    reaches(rig.storage, NOW_TS)
    assert streamed(rig.storage) == [(NOW_TS, NOW_TS)]
    assert rig.lost.tally == LostTally(rolled_back=1)
    assert rig.notices[0][0].startswith("a transaction without an end was rolled back")


def test_a_young_transaction_without_a_write_is_left_alone(rig: Rig) -> None:
    rig.written(YOUNG_TS)
    assert seconds(NOW_TS) - seconds(YOUNG_TS) == OLD_S
    assert rig.lost.look() == 0
    assert rig.tikv.asked == []
    assert rig.storage.waiting == 1


def test_an_impossible_commit_ts_is_not_believed(rig: Rig) -> None:
    rig.written(YOUNG_TS)
    rig.tikv.writes = [LostWrite(YOUNG_TS, YOUNG_TS)]
    assert rig.lost.look() == 0
    assert rig.storage.waiting == 1


@pytest.mark.parametrize(
    ("status", "tally", "waiting"),
    [
        (LostStatus(0, lives=True), LostTally(status_queries=1), 1),
        (LostStatus(0, lives=False), LostTally(status_queries=1, rolled_back=1), 0),
        (LostStatus(OLD_TS + 5, lives=False), LostTally(status_queries=1, committed=1), 0),
    ],
)
def test_an_old_one_without_a_write_is_what_its_status_says(rig: Rig, status: LostStatus, tally: LostTally, waiting: int) -> None:
    rig.written(OLD_TS)
    rig.tikv.statuses[OLD_TS] = status
    rig.lost.look()
    assert rig.tikv.asked == [OLD_TS]
    assert rig.lost.tally == tally
    settled(rig.storage, lambda: rig.storage.waiting == waiting)


def test_all_that_hold_are_queried_at_once(rig: Rig) -> None:
    """Each question waits here for another one."""
    starts = [YOUNG_TS + number for number in range(8)]
    rig.written(*starts)
    rig.tikv.together = Barrier(2)
    rig.tikv.writes = [LostWrite(ts, ts + 100) for ts in starts]
    assert rig.lost.look() == len(starts)
    reaches(rig.storage, starts[-1] + 100)


def test_what_is_not_answered_is_reported_and_requested_again(rig: Rig) -> None:
    rig.written(YOUNG_TS)
    rig.tikv.writes = [LostWrite(YOUNG_TS, NOW_TS)]
    rig.tikv.away = True
    assert rig.lost.look() == 0
    rig.tikv.away, rig.pd_is_away = False, True
    assert rig.lost.look() == 0
    assert rig.lost.tally == LostTally(unanswered=1)
    assert [values["error"] for _, values in rig.notices] == ["store 1 does not answer", "PD has no leader"]
    rig.pd_is_away = False
    assert rig.lost.look() == 1


def test_an_end_without_room_waits_for_it(rig: Rig) -> None:
    rig.written(YOUNG_TS)
    rig.tikv.writes = [LostWrite(YOUNG_TS, NOW_TS)]
    with patch.object(rig.storage, "free_bytes", return_value=-1):
        assert rig.lost.look() == 0
    assert rig.notices[0][0] == "there is no room for the end of a transaction that TiKV reported"
    assert rig.lost.look() == 1
    assert rig.lost.tally == LostTally(committed=1)


def test_nobody_is_queried_before_something_has_waited(tmp_path: Path) -> None:
    with closing(Storage(tmp_path, cluster_id=CLUSTER_ID, room=ROOMY)) as storage:
        rig = Rig(storage)
        rig.pd_is_away = True
        with closing(rig.lost):
            rig.written(YOUNG_TS)
            assert rig.lost.look() == 0
            assert rig.notices == []


def test_an_end_that_tikv_reported_outlives_a_restart(tmp_path: Path) -> None:
    with closing(Storage(tmp_path, cluster_id=CLUSTER_ID, room=ROOMY)) as storage, patch.object(lost_module, "LOST_S", 0.0):
        rig = Rig(storage)
        with closing(rig.lost):
            rig.written(YOUNG_TS, YOUNG_TS + 1)
            rig.tikv.writes = [LostWrite(YOUNG_TS, 0), LostWrite(YOUNG_TS + 1, NOW_TS)]
            assert rig.lost.look() == 2
            reaches(storage, NOW_TS)
    with closing(Storage(tmp_path, cluster_id=CLUSTER_ID, room=ROOMY)) as storage:
        assert storage.waiting == 0
        assert streamed(storage) == [(YOUNG_TS + 1, NOW_TS)]
