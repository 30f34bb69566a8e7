"""Any history of a region, told as TiKV may tell it, is matched as a slow and obvious reading of the whole telling has it; and gives
every commit above the checkpoint.

`Telling` is a region's life by random choices: transactions of all kinds on a few keys, observed from some moment on, scanned at a later
one, the scan's rows anywhere among the live ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.shared.model.nouns import CommitTs
from sidecar.shared.rowcodec.key_values import KeyRange, KvEntry
from sidecar.shared.rowcodec.kv_matcher import COMMIT, COMMITTED, DELETE, INITIALIZED, PREWRITE, PUT, ROLLBACK, RegionMatcher
from tests.lanes import examples

RANGE = KeyRange(b"a", b"z")
KEYS = (b"k", b"l", b"m")


class R(NamedTuple):
    """`cdcpb.Event.Row`."""

    type: int
    start_ts: int = 0
    commit_ts: int = 0
    op_type: int = 0
    key: bytes = b""
    value: bytes = b""
    old_value: bytes = b""
    generation: int = 0


@dataclass
class Region:
    """`live`: what was told since the region exists. `locks`: prewrites of open transactions, the last flush of each."""

    live: list[R] = field(default_factory=list)
    locks: dict[bytes, R] = field(default_factory=dict)
    rows: dict[bytes, bytes] = field(default_factory=dict)
    committed: list[R] = field(default_factory=list)
    ts: int = 0

    def step(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(KEYS))
        lock = self.locks.get(key)
        if lock is None:
            self._write(key, data.draw(st.sampled_from(["prewrite", "prewrite", "1pc"])), data)
            return
        match data.draw(st.sampled_from(["commit", "commit", "rollback", "heartbeat", "flush"])):
            case "commit":
                self.ts += 1
                del self.locks[key]
                self._commit(lock._replace(commit_ts=self.ts), COMMIT)
            case "rollback":
                del self.locks[key]
                self.live.append(R(ROLLBACK, lock.start_ts, key=key))
            case "heartbeat":
                self.live.append(lock._replace(value=b""))
            case "flush" if lock.generation:
                op_type = data.draw(st.sampled_from([PUT, DELETE]))
                again = lock._replace(op_type=op_type, value=self._value(op_type), generation=lock.generation + 1)
                self.locks[key] = again
                self.live.append(again)

    def _value(self, op_type: int) -> bytes:
        self.ts += 1
        return f"value {self.ts}".encode() if op_type == PUT else b""

    def _write(self, key: bytes, how: str, data: st.DataObject) -> None:
        self.ts += 1
        start_ts, op_type = self.ts, data.draw(st.sampled_from([PUT, PUT, DELETE]))
        generation = data.draw(st.sampled_from([0, 0, 1])) if how == "prewrite" else 0
        row = R(PREWRITE, start_ts, 0, op_type, key, self._value(op_type), self.rows.get(key, b""), generation)
        if how == "prewrite":
            self.locks[key] = row
            self.live.append(row)
        else:
            self.ts += 1
            self._commit(row._replace(commit_ts=self.ts, generation=0), COMMITTED)

    def _commit(self, row: R, kind: int) -> None:
        self.rows[row.key] = row.value
        self.committed.append(row._replace(type=COMMITTED))
        bare = row._replace(type=COMMIT, value=b"", old_value=b"", generation=0)
        self.live.append(bare if kind == COMMIT else row._replace(type=COMMITTED))


class Notifying(NamedTuple):
    rows: Sequence[R]
    checkpoint_ts: int
    commits: Sequence[R]


@st.composite
def tellings(draw: st.DrawFn) -> Notifying:
    data = draw(st.data())
    region = Region()
    before, early, late = (draw(st.integers(0, 25)) for _ in range(3))
    for _ in range(before):
        region.step(data)
    observed = len(region.live)
    for _ in range(early):
        region.step(data)
    checkpoint_ts = draw(st.integers(0, region.ts))
    scan = [row for row in region.committed if row.commit_ts > checkpoint_ts] + list(region.locks.values())
    seen = len(region.live)
    for _ in range(late):
        region.step(data)
    # What the scan's snapshot has in it, of the live rows too, is told before INITIALIZED; what came after it, at any time.
    reported = [(row, number < seen) for number, row in enumerate(region.live) if number >= observed]
    for row in draw(st.permutations(scan)):
        reported.insert(draw(st.integers(0, len(reported))), (row, True))
    last = max((number for number, (_, in_snapshot) in enumerate(reported) if in_snapshot), default=-1)
    rows = [row for row, _ in reported]
    rows.insert(draw(st.integers(last + 1, len(rows))), R(INITIALIZED))
    return Notifying(rows, checkpoint_ts, [row for row in region.committed if row.commit_ts > checkpoint_ts])


def obvious(rows: Sequence[R], checkpoint_ts: int) -> set[KvEntry]:
    """Looks through the whole telling for each commit."""
    initialized = rows.index(R(INITIALIZED))
    result = set()
    for number, row in enumerate(rows):
        if row.type == COMMITTED:
            result.add(row)
        if row.type == COMMIT:
            reported = [
                it for it in rows[: max(number, initialized)] if (it.type, it.start_ts, it.key) == (PREWRITE, row.start_ts, row.key)
            ]
            real = [it for it in reported if it.value or it.op_type == DELETE]  # no heartbeats
            if real:
                last = max(real, key=lambda it: it.generation)
                result.add(row._replace(value=last.value, old_value=last.old_value))
    return {_entry(row) for row in result if row.commit_ts > checkpoint_ts}


def _entry(row: R) -> KvEntry:
    return KvEntry(CommitTs(row.commit_ts), row.start_ts, row.key, row.value, row.old_value, 1)


@settings(max_examples=examples(120))
@given(notifying=tellings(), chunk=st.integers(1, 10))
def test_any_stream_of_a_region_gives_every_commit_once_or_more_with_its_values(notifying: Notifying, chunk: int) -> None:
    matcher = RegionMatcher(1, RANGE, CommitTs(notifying.checkpoint_ts))
    entries: list[KvEntry] = []
    for start in range(0, len(notifying.rows), chunk):
        entries += matcher.entries(notifying.rows[start : start + chunk])
    assert set(entries) == obvious(notifying.rows, notifying.checkpoint_ts)
    assert set(entries) == {_entry(row) for row in notifying.commits}
    assert len(entries) <= 2 * len(notifying.commits), "at most once live and once by the scan"
    assert matcher.held_bytes >= 0


@settings(max_examples=examples(60))
@given(notifying=tellings())
def test_marks_that_tikv_may_send_never_pass_a_commit(notifying: Notifying) -> None:
    """After each row the highest mark that the rest allows: nothing raises, and what was delivered is all up to it."""
    matcher = RegionMatcher(1, RANGE, CommitTs(notifying.checkpoint_ts))
    delivered: set[KvEntry] = set()
    commits = {_entry(row) for row in notifying.commits}
    for number, row in enumerate(notifying.rows):
        delivered.update(matcher.entries([row]))
        rest = [it.commit_ts for it in notifying.rows[number + 1 :] if it.commit_ts]
        matcher.resolve(CommitTs(min(rest, default=10_000) - 1))
        assert {it for it in commits if it.commit_ts <= matcher.resolved_ts} <= delivered
    assert delivered == commits
