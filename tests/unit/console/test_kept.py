"""Answers that are used again, and what an outage leaves of them."""

from __future__ import annotations

from typing import Any, NoReturn

import grpc
import pytest

from sidecar.console.kept import LAST_MAX, KeptAnswers
from sidecar.control.answers import OWNER_METADATA
from sidecar.control.local_call import CallRejected


def rejects(code: grpc.StatusCode = grpc.StatusCode.UNAVAILABLE, **trailing: str) -> Any:
    def made() -> NoReturn:
        raise CallRejected(code, "etcd does not answer", {name.replace("_", "-"): value for name, value in trailing.items()})

    return made


def test_a_fresh_answer_is_used_again_until_it_is_forgotten() -> None:
    kept, requests = KeptAnswers(), list[int]()
    for _ in range(3):
        kept.fresh("status", 60.0, lambda: requests.append(1))
    kept.forget()
    kept.fresh("status", 60.0, lambda: requests.append(1))
    assert len(requests) == 2


def test_what_was_requested_before_it_was_forgotten_is_not_kept() -> None:
    kept = KeptAnswers()

    def made() -> str:
        kept.forget()
        return "before"

    assert kept.fresh("status", 60.0, made) == "before"
    assert kept.fresh("status", 60.0, lambda: "after") == "after"


def test_in_an_outage_the_last_answer_stays_and_says_of_when_it_is() -> None:
    kept = KeptAnswers()
    assert (kept.asked("status", 0.0, lambda: 7), kept.outage) == (7, None)
    for _ in range(2):
        assert kept.asked("status", 0.0, rejects()) == 7
        assert kept.outage is not None
        assert kept.outage.why == "etcd does not answer"
        kept.forget()
    assert (kept.asked("status", 0.0, lambda: 8), kept.outage) == (8, None)


@pytest.mark.parametrize("made", [rejects(grpc.StatusCode.FAILED_PRECONDITION), rejects(ticdc_dump_owner="10.0.0.9:8310")])
def test_of_another_owner_or_of_what_was_wrong_to_ask_nothing_stays(made: Any) -> None:
    assert OWNER_METADATA == "ticdc-dump-owner"
    kept = KeptAnswers()
    kept.asked("status", 0.0, lambda: 7)
    with pytest.raises(CallRejected):
        kept.asked("status", 0.0, made)
    assert kept.outage is None


def test_a_few_answers_are_kept_the_last_ones_that_were_requested() -> None:
    kept = KeptAnswers()
    for number in range(LAST_MAX + 1):
        kept.asked("history", 0.0, lambda: "all")
        kept.asked(number, 0.0, number.__int__)
    assert kept.asked("history", 0.0, rejects()) == "all"
    assert kept.asked(LAST_MAX, 0.0, rejects()) == LAST_MAX
    with pytest.raises(CallRejected):
        kept.asked(0, 0.0, rejects())
