"""What keeps segments that every sink has accepted: how long it may, and what is said of it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.core.model import Seq
from sidecar.errors import RefusedRequest
from sidecar.run import retention
from sidecar.run.log_event import LogEvent
from sidecar.run.retention import CERTIFICATES, KEPT_MAX_S, LINE_S, VERIFICATIONS, WINDOWS, NeededSegments, RetentionHolds

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


def test_a_verification_keeps_the_log_at_one_segment_for_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0
    monkeypatch.setattr(retention, "monotonic", lambda: now_s)
    kept = NeededSegments()
    for first in (3, 3, 4, 4):
        kept.put("v", Seq(first))
        kept.put("w", Seq(9))
        assert kept.first() == first
        kept.drop("w")
        now_s += KEPT_MAX_S - 1
        kept.drop("v") if first == 3 else None
    with pytest.raises(RefusedRequest, match=r"kept the log from segment 4 on for 6 h"):
        kept.put("v", Seq(4))
    kept.drop("v")
    assert kept.first() is None
