"""Credit in bytes: the bound holds whatever the senders do within their credit, and nobody starves."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.feeds.push.credits import BATCH_BYTES_MAX, SENDERS_MAX, Credits
from tests.lanes import examples

BOUND = 1 << 20


@dataclass(slots=True)
class Sending:
    credit: int = 0
    waiting: int = 0


STEPS = st.lists(
    st.tuples(st.sampled_from(["join", "send", "take", "replace", "leave"]), st.integers(0, SENDERS_MAX), st.floats(0, 1)), max_size=120
)


@settings(max_examples=examples(200))
@given(steps=STEPS)
def test_what_waits_never_passes_the_bound_and_everybody_can_go_on(steps: list[tuple[str, int, float]]) -> None:
    credits, sending = Credits(BOUND), dict[int, Sending]()
    closed: set[int] = set()
    joined = 0
    for step, which, part in steps:
        known = [*sending]
        number = known[which % len(known)] if known else 0
        if step == "join" and credits.join(joined + 1):
            joined += 1
            sending[joined] = Sending()
        elif step == "send" and known and number not in closed and sending[number].credit > 0:
            size = max(int(credits.batch_bytes * part), 1)
            sending[number].credit -= size
            sending[number].waiting += size
        elif step == "take" and known:
            size = int(sending[number].waiting * part)
            sending[number].waiting -= size
            credits.taken(number, size)
        elif step == "replace" and known and number not in closed:
            credits.close(number, waiting=sending[number].waiting)
            closed.add(number)
            sending[number].credit = 0  # what it did not use is void
        elif step == "leave" and known:
            credits.leave(number)
            closed.discard(number)
            del sending[number]
        for number, one in sending.items():
            one.credit += credits.grant(number)
            assert number in closed or one.credit > 0 or one.waiting > 0, "has no credit, and nothing that could be taken to get some"
        assert sum(one.waiting for one in sending.values()) <= BOUND
        assert sum(one.waiting + max(one.credit, 0) for one in sending.values()) <= BOUND


def test_a_sender_alone_gets_more_than_half_of_it_and_the_last_one_still_has_a_window() -> None:
    credits = Credits(BOUND)
    assert credits.join(1)
    assert credits.grant(1) > BOUND // 2 - credits.batch_bytes
    for number in range(2, SENDERS_MAX + 1):
        assert credits.join(number)
        assert credits.grant(number) >= BOUND // 2 // SENDERS_MAX - credits.batch_bytes
    assert not credits.join(SENDERS_MAX + 1)
    credits.leave(1)
    assert credits.join(SENDERS_MAX + 1)


def test_credit_comes_in_steps_and_not_for_every_byte() -> None:
    credits = Credits(BOUND)
    credits.join(1)
    credits.grant(1)
    credits.taken(1, credits.batch_bytes - 1)
    assert credits.grant(1) == 0
    credits.taken(1, 1)
    assert credits.grant(1) == credits.batch_bytes


@pytest.mark.parametrize("bound", [1, 600, 64 << 10, 128 << 20, 8 << 30])
def test_a_batch_fits_into_a_window_several_times(bound: int) -> None:
    credits = Credits(bound)
    credits.join(1)
    assert 1 <= credits.batch_bytes <= BATCH_BYTES_MAX
    assert credits.grant(1) >= 3 * credits.batch_bytes
