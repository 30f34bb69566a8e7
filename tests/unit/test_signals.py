"""A process that is told to end by a signal."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from threading import Event

import pytest

from sidecar.shared.process import signals
from tests.support.eventually import PATIENCE_S

REPORTED = """
import signal, sys
from threading import Event
ending = Event()
if "ignored" in sys.argv:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
from sidecar.shared.process.signals import end_on_signal
end_on_signal(ending.set)
print("ready", flush=True)
ending.wait()
print("closed")
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_to_end_ends_it_after_its_closing(number: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", REPORTED], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        assert process.stdout.read() == "closed\n"
    assert process.returncode == 0


def test_a_hangup_that_is_ignored_stays_so() -> None:
    with subprocess.Popen([sys.executable, "-c", REPORTED, "ignored"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGHUP)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.5)
        process.send_signal(signal.SIGTERM)
        assert process.stdout.read() == "closed\n"


def test_it_is_reported_again_for_what_may_just_have_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    handlers: dict[int, Callable[[int, object], None]] = {}
    monkeypatch.setattr(signals, "AGAIN_S", 0.01)
    monkeypatch.setattr(signal, "signal", handlers.__setitem__)
    times: list[int] = []
    thrice = Event()

    def stop() -> None:
        times.append(1)
        if len(times) == 3:
            thrice.set()
            raise SystemExit  # ends the thread

    signals.end_on_signal(stop)
    assert not times
    handlers[signal.SIGTERM](signal.SIGTERM, None)
    assert thrice.wait(PATIENCE_S)
