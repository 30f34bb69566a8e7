"""Operators' requests: carried out once, answered to everybody who waits, and nobody waits for ever."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from sidecar.control.requests import WAITING_MAX, QueuedRequests
from sidecar.shared.errors import CoordinationLost, RefusedRequest
from sidecar.shared.model.messages import Asker, PauseDump, Request, RestartDump, ResumeDump, StopDump
from tests.support.eventually import PATIENCE_S


def waiting(requests: QueuedRequests, callers: int) -> None:
    """Return when so many callers wait, which they tell nobody but the queue."""
    pause = Event()
    while sum(ticket.callers for ticket in requests._waiting) < callers:
        pause.wait(0.001)


def test_a_caller_returns_when_the_pipeline_has_carried_its_request_out() -> None:
    requests = QueuedRequests()
    with ThreadPoolExecutor() as threads:
        call = threads.submit(requests.submit, PauseDump(), timeout_s=PATIENCE_S)
        waiting(requests, 1)
        assert requests.take() == PauseDump()
        assert not call.done()
        requests.answer(None)
        assert call.result(PATIENCE_S) is None
    assert requests.take() is None


def test_a_request_is_given_again_until_it_is_answered() -> None:
    requests = QueuedRequests()
    with ThreadPoolExecutor() as threads:
        call = threads.submit(requests.submit, PauseDump(), timeout_s=PATIENCE_S)
        waiting(requests, 1)
        assert requests.take() == requests.take() == PauseDump()
        requests.answer(None)
        call.result(PATIENCE_S)


def test_a_request_made_again_from_another_port_is_the_same_and_is_its_first_callers() -> None:
    requests = QueuedRequests()
    first, again = (PauseDump(asker=Asker("certificate alice", f"10.0.0.7:{port}")) for port in (41000, 41001))
    with ThreadPoolExecutor() as threads:
        call = [threads.submit(requests.submit, first, timeout_s=PATIENCE_S)]
        waiting(requests, 1)
        call.append(threads.submit(requests.submit, again, timeout_s=PATIENCE_S))
        waiting(requests, 2)
        taken = requests.take()
        assert taken is not None
        assert taken.asker == first.asker
        requests.answer(None)
        assert [one.result(PATIENCE_S) for one in call] == [None, None]
    assert requests.take() is None


def test_a_refusal_is_reported_to_the_caller() -> None:
    requests = QueuedRequests()
    with ThreadPoolExecutor() as threads:
        call = threads.submit(requests.submit, ResumeDump(), timeout_s=PATIENCE_S)
        waiting(requests, 1)
        requests.take()
        requests.answer(RefusedRequest("the dump is finished", hint="start another"))
        with pytest.raises(RefusedRequest, match="the dump is finished"):
            call.result(PATIENCE_S)


def test_equal_requests_in_a_row_are_carried_out_once_and_answered_to_all() -> None:
    requests = QueuedRequests()
    with ThreadPoolExecutor() as threads:
        call = [threads.submit(requests.submit, RestartDump("a" * 16), timeout_s=PATIENCE_S) for _ in range(5)]
        waiting(requests, 5)
        assert requests.take() == RestartDump("a" * 16)
        requests.answer(None)
        for one in call:
            one.result(PATIENCE_S)
    assert requests.take() is None


def test_a_request_does_not_join_an_older_one_behind_which_another_waits() -> None:
    requests = QueuedRequests()
    with ThreadPoolExecutor() as threads:
        requested = []
        made: tuple[Request, ...] = (PauseDump(), ResumeDump(), PauseDump())
        for number, request in enumerate(made):
            requested.append(threads.submit(requests.submit, request, timeout_s=PATIENCE_S))
            waiting(requests, number + 1)
        taken = []
        while (request_taken := requests.take()) is not None:
            taken.append(request_taken)
            requests.answer(None)
        assert taken == list(made)
        for one in requested:
            one.result(PATIENCE_S)


def test_a_caller_that_gave_up_before_its_turn_took_its_request_back() -> None:
    requests = QueuedRequests()
    with pytest.raises(CoordinationLost, match=r"within 0.02 s") as error:
        requests.submit(StopDump(), timeout_s=0.02)
    assert error.value.retryable
    assert requests.take() is None


def test_a_request_that_was_taken_is_answered_though_its_caller_gave_up() -> None:
    requests = QueuedRequests()
    with ThreadPoolExecutor() as threads:
        call = threads.submit(requests.submit, StopDump(), timeout_s=3.0)
        waiting(requests, 1)
        assert requests.take() == StopDump()
        with pytest.raises(CoordinationLost):
            call.result(PATIENCE_S)
    assert requests.take() == StopDump()
    requests.answer(None)
    assert requests.take() is None


def test_one_of_two_callers_giving_up_leaves_the_request_to_the_other() -> None:
    requests = QueuedRequests()
    with ThreadPoolExecutor() as threads:
        patient = threads.submit(requests.submit, StopDump(), timeout_s=PATIENCE_S)
        waiting(requests, 1)
        with pytest.raises(CoordinationLost):
            requests.submit(StopDump(), timeout_s=0.02)
        assert requests.take() == StopDump()
        requests.answer(None)
        patient.result(PATIENCE_S)


def test_losing_ownership_sends_everybody_away_and_serves_the_next_term() -> None:
    requests = QueuedRequests()
    with ThreadPoolExecutor() as threads:
        call = [threads.submit(requests.submit, request, timeout_s=PATIENCE_S) for request in (PauseDump(), StopDump())]
        waiting(requests, 2)
        requests.take()
        requests.abandon("the lease is lost")
        for one in call:
            with pytest.raises(CoordinationLost, match="the lease is lost"):
                one.result(PATIENCE_S)
        assert requests.take() is None
        later = threads.submit(requests.submit, ResumeDump(), timeout_s=PATIENCE_S)
        waiting(requests, 1)
        assert requests.take() == ResumeDump()
        requests.answer(None)
        later.result(PATIENCE_S)


def test_after_close_nobody_waits_and_the_first_reason_stays() -> None:
    requests = QueuedRequests()
    requests.close("the sidecar is ending")
    requests.close("another reason")
    with pytest.raises(CoordinationLost, match="the sidecar is ending"):
        requests.submit(PauseDump(), timeout_s=PATIENCE_S)


def test_more_requests_than_operators_make_are_turned_away() -> None:
    requests = QueuedRequests()
    with ThreadPoolExecutor(WAITING_MAX) as threads:
        call = [threads.submit(requests.submit, RestartDump(f"{number:016d}"), timeout_s=PATIENCE_S) for number in range(WAITING_MAX)]
        waiting(requests, WAITING_MAX)
        with pytest.raises(CoordinationLost, match="waiting already"):
            requests.submit(PauseDump(), timeout_s=PATIENCE_S)
        requests.abandon("the end of the test")
        for one in call:
            with pytest.raises(CoordinationLost):
                one.result(PATIENCE_S)
