"""The merge worker of this process: of one epoch at a time, none where another manages it, and what it says of one that died."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sidecar.run import own_worker
from sidecar.run.log_event import LogEvent
from sidecar.run.merge_process import Death
from sidecar.run.own_worker import OwnWorker
from sidecar.shared.log.deliveries import LogDeliveries

UNREPORTED = cast("LogDeliveries", SimpleNamespace(report=None))
CONFIG = Path("/etc/sidecar.toml")


class Lives:
    """In place of MergeProcess: each that was made."""

    def __init__(self) -> None:
        self.commands: list[Sequence[str]] = []
        self.calls: list[str] = []
        self.last: Death | None = None
        self.noticed: list[Callable[[Death], object]] = []
        self.is_kept_from: Exception | None = None

    def __call__(self, command: Sequence[str], noticed: Callable[[Death], object]) -> Any:
        self.commands.append(command)
        self.noticed.append(noticed)
        return self

    def start(self) -> None:
        self.calls.append("start")

    def pid(self) -> int | None:
        return 7

    def check(self) -> None:
        if self.is_kept_from is not None:
            raise self.is_kept_from

    def close(self, *, at_once: bool) -> None:
        self.calls.append("end at once" if at_once else "end")

    def tell(self, line: bytes) -> None:
        self.calls += [f"tell {line.decode().strip()}"] if line else []

    def serve(self, command: Sequence[str], line: bytes) -> None:
        self.commands.append(command)
        self.calls.append(f"serve {line.decode().strip()}")

    def die(self) -> None:
        self.last = Death(-9, 3.0, 1.0, 7, 5)
        self.noticed[-1](self.last)


@pytest.fixture
def lives(monkeypatch: pytest.MonkeyPatch) -> Lives:
    made = Lives()
    monkeypatch.setattr(own_worker, "MergeProcess", made)
    return made


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[LogEvent]:
    lines: list[LogEvent] = []
    monkeypatch.setattr(own_worker, "say", lines.append)
    return lines


def test_it_serves_the_epoch_that_it_was_started_for_until_it_is_ended(lives: Lives) -> None:
    worker = OwnWorker(CONFIG, managed=True)
    assert (worker.epoch, worker.state(UNREPORTED)) == (None, "external")
    worker.start(3, "blue/ns/cf/1")
    worker.start(4, "blue/ns/cf/1")
    assert (worker.epoch, lives.calls) == (3, ["start"]), "there is one"
    assert worker.state(UNREPORTED) == "starting"
    worker.end(at_once=True)
    worker.end(at_once=True)
    assert (worker.epoch, lives.calls) == (None, ["start", "end at once"])
    worker.start(4, "blue/ns/cf/1")
    worker.end(at_once=False)
    assert lives.calls[2:] == ["start", "end"]
    assert [command[1:] for command in lives.commands] == [
        ["-m", "sidecar", "merge", "--config", str(CONFIG), "--end-with-stdin", "--log-id", "blue/ns/cf/1", "--epoch", epoch]
        for epoch in "34"
    ]


def test_it_serves_another_epoch_of_the_same_owner_from_then_on(lives: Lives) -> None:
    worker = OwnWorker(CONFIG, managed=True)
    worker.serve(3)
    worker.start(3, "cf/1")
    worker.serve(3)
    worker.serve(5)
    worker.serve(5)
    assert (worker.epoch, lives.calls) == (5, ["start", "serve 5"])
    assert lives.commands[1][-4:] == ["--log-id", "cf/1", "--epoch", "5"]


def test_where_another_manages_it_none_is_started(lives: Lives) -> None:
    worker = OwnWorker(CONFIG, managed=False)
    worker.start(3, "cf/1")
    worker.check()
    worker.end(at_once=True)
    assert (lives.commands, worker.epoch, worker.deaths) == ([], None, 0)
    assert (worker.state(UNREPORTED), worker.died(UNREPORTED)) == ("external", "")


def test_deaths_are_counted_over_all_that_there_were_and_each_is_a_line(lives: Lives, said: list[LogEvent]) -> None:
    worker = OwnWorker(CONFIG, managed=True)
    worker.start(3, "cf/1")
    lives.die()
    lives.die()
    assert "SIGKILL" in worker.died(UNREPORTED)
    worker.end(at_once=True)
    assert worker.died(UNREPORTED) == ""
    worker.start(4, "cf/1")
    lives.die()
    assert (worker.deaths, len(said)) == (3, 3)


def test_what_keeps_a_worker_from_being_started_is_raised(lives: Lives) -> None:
    worker = OwnWorker(CONFIG, managed=True)
    worker.start(3, "cf/1")
    worker.check()
    lives.is_kept_from = ZeroDivisionError("a defect")
    with pytest.raises(ZeroDivisionError):
        worker.check()
