"""What keeps segments that every sink has accepted: how long it may, and what is said of it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.run.log_event import LogEvent
from sidecar.run.retention import CERTIFICATES, KEPT_MAX_S, LINE_S, LOOK_MAX_S, VERIFICATIONS, WINDOWS, NeededSegments, RetentionHolds
from sidecar.shared.errors import RefusedRequest
from sidecar.shared.log import storage
from sidecar.shared.log.owned import OwnedLog
from sidecar.shared.log.storage import open_folder
from sidecar.shared.log.verification import kept_stem
from sidecar.shared.log.verification_state import KeptLog
from sidecar.shared.model.nouns import OperationId, Seq

V, FOLDERS = OperationId("v1"), count()


BY = (WINDOWS, CERTIFICATES, VERIFICATIONS)
SEQ = st.none() | st.integers(0, 1)
LOOK = st.tuples(st.floats(1, 3 * LINE_S), SEQ, st.fixed_dictionaries(dict.fromkeys(BY, SEQ)))


@given(st.lists(LOOK, max_size=40))
def test_each_hold_that_lasts_has_one_line_and_another_when_it_ends(
    looks: list[tuple[float, int | None, Mapping[str, Seq | None]]],
) -> None:
    lines = list[LogEvent]()
    holds, now_s, since, long = RetentionHolds(lines.append), 0.0, dict[str, tuple[int, float]](), set[str]()
    for pause_s, delivered, needed in looks:
        now_s += pause_s
        lines.clear()
        holds.see(needed, None if delivered is None else Seq(delivered), now_s)
        held = {by: first for by, first in needed.items() if first is not None and delivered is not None and first <= delivered}
        since = {by: since[by] if by in since and since[by][0] == first else (first, now_s) for by, first in held.items()}
        assert {one.by: (one.first, one.seconds) for one in holds.states} == {by: (at, now_s - then) for by, (at, then) in since.items()}
        before, long = long, {by for by, (_, then) in since.items() if now_s - then >= LINE_S}
        assert {line.values["by"] for line in lines if line.event == "retention waits"} == long - before
        assert {line.values["by"] for line in lines if line.event == "retention continues"} == before - long


class Owners:
    """One after another, over a log, by a clock."""

    def __init__(self, *, counted_s: float = 0.0) -> None:
        self.folder, self.now_ms, self.epoch = open_folder(f"memory://retention-{next(FOLDERS)}"), 1_000_000_000, 1
        OwnedLog(self.folder, 1).write(kept_stem(V), KeptLog(0, counted_s, self.now_ms).to_json())
        self.next()

    def next(self) -> None:
        self.epoch += 1
        self.kept = NeededSegments(OwnedLog(self.folder, self.epoch), lambda: self.now_ms)

    def fails(self, first: int) -> bool:
        try:
            self.kept.put(V, Seq(first))
        except RefusedRequest as refused:
            return f"kept the log from segment {first} on for 6 h without a step" in str(refused)
        return False


HOUR_S = 3_600.0
STEP = st.tuples(st.integers(0, 1), st.sampled_from([0.0, 1.0, 59.0, 60.0, 61.0, HOUR_S, 9 * HOUR_S, -1.0, -HOUR_S]), st.booleans())


@given(steps=st.lists(STEP, max_size=30), counted_s=st.sampled_from([0.0, KEPT_MAX_S - 60.0]))
def test_a_verification_keeps_the_log_at_one_segment_for_a_bounded_time(steps: list[tuple[int, float, bool]], counted_s: float) -> None:
    """Of each step: the segment, the seconds by the clock since the step before, and whether an owner begins. `counted_s`: before."""
    owners = Owners(counted_s=counted_s)
    record = at, seconds, looked_ms = 0, counted_s, owners.now_ms
    written_s = counted_s
    for first, passed_s, begins in steps:
        owners.now_ms += int(passed_s * 1000)
        if begins:
            owners.next()
            at, seconds, looked_ms = record
            written_s = seconds
        if first != at:
            at, seconds, looked_ms, written_s = first, 0.0, owners.now_ms, 0.0
        seconds += min(max(owners.now_ms - looked_ms, 0) / 1000, LOOK_MAX_S)
        looked_ms = owners.now_ms
        if seconds - written_s >= LOOK_MAX_S:
            record, written_s = (at, seconds, looked_ms), seconds
        assert owners.fails(first) == (seconds >= KEPT_MAX_S)
        assert owners.kept.first() == first
    owners.kept.drop(V)
    assert owners.kept.first() is None


@pytest.mark.parametrize("asleep_s", [60.0, 9 * HOUR_S, 30 * 24 * HOUR_S, -HOUR_S])
def test_machines_that_sleep_and_clocks_that_jump_fail_no_verification(asleep_s: float) -> None:
    owners = Owners()
    for _ in range(40):
        assert not owners.fails(0)
        owners.now_ms += int(asleep_s * 1000)
        owners.next()


@pytest.mark.parametrize("life_s", [1, 45, 600])
def test_owners_that_die_soon_do_not_begin_the_count_again(life_s: int) -> None:
    owners = Owners(counted_s=LOOK_MAX_S)
    for passed_s in range(0, int(2 * KEPT_MAX_S), 15):
        if passed_s % life_s < 15:
            owners.next()
        if owners.fails(0):
            break
        owners.now_ms += 15_000
    assert KEPT_MAX_S - 2 * LOOK_MAX_S <= passed_s <= KEPT_MAX_S


def test_a_damaged_count_begins_again() -> None:
    owners = Owners(counted_s=KEPT_MAX_S)
    storage.write_atomically(owners.folder, OwnedLog(owners.folder, 1).name(kept_stem(V)), b'{"first": \xff')
    assert not owners.fails(0)
