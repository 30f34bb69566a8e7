"""What a sidecar refuses before it asks anybody anything."""

from __future__ import annotations

import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from types import SimpleNamespace

import msgspec
import pytest

from sidecar.adapters.etcd.owner import Holder
from sidecar.adapters.tidb import sql
from sidecar.adapters.tidb.schema import TidbSchemas
from sidecar.config import Config, SourceSection
from sidecar.control.status import SidecarStatus
from sidecar.core.model import CommitTs, Seq
from sidecar.errors import ConfigError, OwnershipLost, StorageFull
from sidecar.log.delivered import DeliveryReport
from sidecar.run import app
from sidecar.run.app import Sidecar, worker_state
from sidecar.run.merge_process import MergeProcess
from sidecar.run.news import Line
from sidecar.ticdc.changefeed import Changefeed, ChangefeedName
from tests.support.eventually import eventually
from tests.unit.run.test_term import SETTINGS


def settings(**sections: dict[str, object]) -> Config:
    return msgspec.convert(SETTINGS | {"log": {"uri": "/nowhere"}} | sections, Config)


def test_a_control_service_that_anybody_could_reach_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match=r"control\.listen"):
        Sidecar(settings(control={"listen": "0.0.0.0:8310"}), Path("sidecar.toml"))


def test_a_sidecar_that_is_told_to_stop_while_etcd_is_away_stops() -> None:
    sidecar = Sidecar(settings(), Path("sidecar.toml"))
    sidecar.stopping.set()
    sidecar.run()
    sidecar.close()
    assert (sidecar.tally.terms, sidecar.last_error) == (0, "")


def test_an_outage_at_the_start_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    sidecar = Sidecar(settings(etcd={"endpoints": ["127.0.0.1:1"], "timeout_s": 0.5}), Path("sidecar.toml"))
    waited: list[float] = []

    def wait(pause_s: float) -> bool:
        waited.append(pause_s)
        if len(waited) == 3:
            sidecar.stopping.set()
        return False

    monkeypatch.setattr(sidecar.stopping, "wait", wait)
    sidecar.run()
    sidecar.close()
    assert waited == [1.0, 2.0, 4.0]
    assert "etcd does not answer" in sidecar.last_error
    assert sidecar.tally.terms_ended == {"CoordinationLost": 3}


class OneStep:
    """A process whose term takes steps and does nothing; its parts are quiet."""

    pipeline = SimpleNamespace(tables={}, next_seq=0)

    def __init__(self, *_: object, **__: object) -> None:
        self.still_because, self.place = str, dict

    def acquire(self, *, timeout_s: float) -> int:
        return 1

    def run(self, stopping: Event, seen: Callable[[object, float], None]) -> None:
        seen(None, 1.0)

    def due(self, _: float) -> bool:
        return False

    def quiet(self, *_: object, **__: object) -> None:
        """Nothing is wrong."""

    begin = check = close = release = owner = quiet


@pytest.fixture
def sidecar(monkeypatch: pytest.MonkeyPatch) -> Sidecar:
    """It ends after its first term."""
    made = Sidecar(settings(), Path("sidecar.toml"))
    found = Changefeed(ChangefeedName("default", "default", "cf"), "1", "custom://x")
    for name in ("Term", "Gauge", "ChangefeedWatch"):
        monkeypatch.setattr(app, name, OneStep)
    monkeypatch.setattr(app, "MAKES", {"kafka": OneStep})
    monkeypatch.setattr(app, "read_changefeed", lambda *_: found)
    monkeypatch.setattr(app, "owner", lambda *_: None)
    monkeypatch.setattr(app, "sharing", lambda *_: ())
    monkeypatch.setattr(made, "_prepare", lambda: None)
    monkeypatch.setattr(made, "_start_worker", lambda _: None)
    monkeypatch.setattr(made.stopping, "wait", lambda _: made.stopping.set())
    for name in ("ownership", "server", "client", "deliveries", "estimates", "scope"):
        setattr(made, name, OneStep())
    made.changefeed = found
    return made


def test_it_stops_within_seconds_while_the_database_says_nothing(sidecar: Sidecar, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(app, "say", lambda *lines: told.extend(line.event for line in lines))
    monkeypatch.setattr(sql, "_ending", Event())
    with socket.create_server(("127.0.0.1", 0)) as silent, ThreadPoolExecutor() as pool:
        source = SourceSection(host="127.0.0.1", port=silent.getsockname()[1], user="u", retry_s=600)
        monkeypatch.setattr(app, "MAKES", {"kafka": lambda *_: TidbSchemas(source).tables()})
        running = pool.submit(sidecar.run)
        connected, _ = silent.accept()

        def stopped() -> bool:
            sidecar.stop()  # again, as who was told does, for a question may have begun after the first time
            return running.done()

        eventually(stopped)
        connected.close()
    assert running.exception() is None
    assert told == ["started", "stopped as told"]


def breaks(*_: object) -> None:
    raise ZeroDivisionError("a defect")


def test_a_term_whose_parts_are_well_ends_when_told(sidecar: Sidecar) -> None:
    sidecar.run()
    assert sidecar.tally.terms == 1


def test_a_watch_on_the_changefeed_that_broke_ends_the_process_and_is_told(sidecar: Sidecar, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(OneStep):
        def check(self, *_: object, **__: object) -> None:
            breaks()

    monkeypatch.setattr(app, "ChangefeedWatch", Broken)
    with pytest.raises(ZeroDivisionError):
        sidecar.run()


def test_a_minder_of_the_merge_worker_that_broke_ends_the_process_and_is_told(sidecar: Sidecar, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = MergeProcess([], print)
    monkeypatch.setattr(worker, "check", breaks)
    monkeypatch.setattr(sidecar, "_start_worker", lambda _: setattr(sidecar, "_worker", worker))
    with pytest.raises(ZeroDivisionError):
        sidecar.run()


@pytest.mark.parametrize("owns", [True, False])
def test_what_lives_as_long_as_the_process_and_broke_ends_it_owner_or_standby(
    sidecar: Sidecar, monkeypatch: pytest.MonkeyPatch, owns: bool
) -> None:
    def acquire(*, timeout_s: float) -> int | None:
        sidecar._checks.append(breaks)
        return 1 if owns else None

    monkeypatch.setattr(sidecar.ownership, "acquire", acquire)
    with pytest.raises(ZeroDivisionError):
        sidecar.run()
    assert sidecar.tally.terms == owns


def test_a_standby_tells_it_once_and_an_owner_what_it_attached_to(sidecar: Sidecar, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Line] = []
    epochs = iter([None, None, 4])
    status = SidecarStatus(sidecar.changefeed.name, 4, "here:1")
    monkeypatch.setattr(app, "say", lambda *lines: told.extend(lines))
    monkeypatch.setattr(app, "owner", lambda *_: Holder("other", 1, "other:8310"))
    monkeypatch.setattr(sidecar.ownership, "acquire", lambda **_: next(epochs))
    monkeypatch.setattr(OneStep, "due", lambda *_: True)
    monkeypatch.setattr(OneStep, "read", lambda *_, **__: status, raising=False)
    monkeypatch.setattr(OneStep, "report", None, raising=False)
    sidecar.run()
    assert [line.event for line in told] == ["started", "standby", "attached", "stopped as told"]
    assert told[1].values == {"owner": "other:8310"}
    assert told[2].values["epoch"] == 4


def test_what_keeps_an_owner_from_serving_is_told_until_it_serves_or_stands_by(sidecar: Sidecar, monkeypatch: pytest.MonkeyPatch) -> None:
    hindered: list[str] = []
    no_room = StorageFull("/log is full", hint="make room")
    ends = iter([no_room, no_room, None, OwnershipLost("the lease is another's", hint="nothing")])
    granted = iter([1, 2, 3, 4])

    def acquire(**_: object) -> int | None:
        hindered.append(sidecar.hindered)
        if (epoch := next(granted, None)) is None:
            sidecar.stopping.set()
        return epoch

    def begin(*_: object) -> None:
        hindered.append(sidecar.hindered)
        if (error := next(ends)) is not None:
            raise error

    monkeypatch.setattr(sidecar.ownership, "acquire", acquire)
    monkeypatch.setattr(OneStep, "begin", begin)
    monkeypatch.setattr(sidecar.stopping, "wait", lambda _: False)
    sidecar.run()
    attaching, full = "it is attaching to the changefeed", str(no_room)
    assert hindered == ["", attaching, full, full, full, full, "", attaching, ""]
    assert sidecar.hindered == ""


@pytest.mark.parametrize(
    ("pid", "reported_by", "state"), [(None, 7, "stopped"), (8, 7, "starting"), (8, None, "starting"), (8, 8, "running")]
)
def test_a_workers_state_is_what_it_reported_itself(pid: int | None, reported_by: int | None, state: str) -> None:
    report = DeliveryReport(Seq(3), CommitTs(30), "running", 0, pid=reported_by) if reported_by is not None else None
    assert worker_state(pid, report) == state
