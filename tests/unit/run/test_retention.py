"""What keeps segments that every sink has accepted: how long it may, and what is said of it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.run.log_event import LogEvent
from sidecar.run.retention import CERTIFICATES, KEPT_MAX_S, LINE_S, VERIFICATIONS, WINDOWS, NeededSegments, RetentionHolds
from sidecar.shared.errors import RefusedRequest
from sidecar.shared.model.nouns import Seq

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


@given(steps=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4), st.booleans()), max_size=30), known=st.booleans())
def test_a_verification_keeps_the_log_at_one_segment_for_a_bounded_time(steps: list[tuple[int, int, bool]], known: bool) -> None:
    """Of each step: the segment, the hours since the step before, and whether a term or a life begins. `known`: the worker's state says
    since when; a worker of an older version does not, and then a term begins to count."""
    now_ms = since_ms = 1_000

    def begun() -> NeededSegments:
        return NeededSegments(lambda: now_ms)

    kept, last = begun(), -1
    for first, hours, begins in steps:
        now_ms += hours * 3_600_000
        if begins:
            kept = begun()
        if first != last or (begins and not known):
            since_ms, last = now_ms, first
        if now_ms - since_ms >= KEPT_MAX_S * 1000:
            with pytest.raises(RefusedRequest, match=rf"kept the log from segment {first} on since .*, for 6 h without a step"):
                kept.put("v", Seq(first), since_ms if known else 0)
        else:
            kept.put("v", Seq(first), since_ms if known else 0)
        kept.put("w", Seq(9), now_ms)
        assert kept.first() == first
        kept.drop("w")
    kept.drop("v")
    assert kept.first() is None
