"""Services beside the stream: whatever ends one of them ends nothing else, and it begins again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from threading import Event, Thread, current_thread
from time import monotonic

import pytest

from sidecar.control.status import ServiceStatus
from sidecar.run import auxiliary
from sidecar.run.auxiliary import CLOSE_S, LONG_LIFE_S, Services
from sidecar.run.log_event import LogEvent
from sidecar.shared.errors import SourceError
from tests.support.eventually import PATIENCE_S, eventually


@pytest.fixture
def services(monkeypatch: pytest.MonkeyPatch) -> Iterator[Services]:
    monkeypatch.setattr(auxiliary, "PAUSE_FIRST_S", 0.001)
    monkeypatch.setattr(auxiliary, "PAUSE_MAX_S", 0.01)
    with closing(Services(log_line=LINES.append)) as made:
        LINES.clear()
        yield made


LINES = list[LogEvent]()


@pytest.mark.parametrize("error", [SourceError("denied", hint="grant it"), ZeroDivisionError("a defect")])
def test_what_ends_a_life_is_reported_once_and_the_next_one_begins(services: Services, error: Exception) -> None:
    lives = list[Thread]()

    def life(ending: Event) -> None:
        lives.append(current_thread())
        if len(lives) < 4:
            raise error
        ending.wait()

    services.serve("copying", life)
    eventually(lambda: len(lives) == 4)
    [state] = services.states()
    assert (state.name, state.failures, state.again_s) == ("copying", 3, 0)
    assert ("denied" if isinstance(error, SourceError) else "a defect: ZeroDivisionError") in state.error
    assert [line.values["service"] for line in LINES] == ["copying"], "three times the same"
    assert current_thread() not in lives


def test_one_that_fails_ends_no_other(services: Services) -> None:
    ended = Event()

    def steady(ending: Event) -> None:
        ending.wait()
        ended.set()

    services.serve("steady", steady)
    services.serve("broken", lambda _: 1 // 0)
    eventually(lambda: services.states()[1].failures > 2)
    assert services.states()[0].failures == 0
    services.close()
    assert ended.wait(PATIENCE_S)


def test_a_pause_doubles_and_is_short_again_after_a_long_life(monkeypatch: pytest.MonkeyPatch) -> None:
    waited = list[float]()

    class Checking(Event):
        def wait(self, timeout: float | None = None) -> bool:
            waited.append(timeout or 0.0)
            if len(waited) == 5:
                self.set()
            return self.is_set()

    now_s = 0.0
    made = Services(log_line=lambda _: None, now_s=lambda: now_s)
    made._put(ServiceStatus("one"))

    def life(_: Event) -> None:
        nonlocal now_s
        now_s += LONG_LIFE_S + 1 if len(waited) == 3 else 1
        raise SourceError("denied", hint="")

    made._serve("one", life, Checking())
    assert waited == [1.0, 2.0, 4.0, 1.0, 2.0]


def test_the_end_of_a_term_waits_for_none_that_hangs(services: Services) -> None:
    let_go = Event()
    services.serve("hangs", lambda _: let_go.wait())
    began_s = monotonic()
    services.close()
    assert monotonic() - began_s < CLOSE_S + PATIENCE_S / 2
    let_go.set()


def test_an_error_is_forgotten_after_a_long_life() -> None:
    now_s = 0.0
    lives = 0

    def life(ending: Event) -> None:
        nonlocal lives
        lives += 1
        if lives == 1:
            raise SourceError("denied", hint="")
        ending.wait()

    with closing(Services(log_line=lambda _: None, now_s=lambda: now_s)) as made:
        made.serve("one", life)
        eventually(lambda: lives == 2)
        assert "denied" in made.states()[0].error
        now_s = LONG_LIFE_S + 1
        assert made.states()[0].error == ""
        assert made.states()[0].failures == 1


def test_what_the_pipelines_own_thread_can_do_without_ends_nothing_and_is_reported_once() -> None:
    now_s = [0.0]
    lines = list[LogEvent]()
    with closing(Services(log_line=lines.append, now_s=lambda: now_s[0])) as services:
        for _ in range(3):
            services.spare("samples", lambda: 1 // 0)
        assert services.states() == (ServiceStatus("samples", "a defect: ZeroDivisionError('integer division or modulo by zero')", 3),)
        assert len(lines) == 1
        now_s[0] = LONG_LIFE_S + 1
        services.spare("samples", lambda: None)
        assert services.states() == (ServiceStatus("samples", "", 3),)
