"""What a sidecar refuses before it asks anybody anything."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from sidecar.app import Sidecar, worker_state
from sidecar.config import Config
from sidecar.core.delivered import DeliveryReport
from sidecar.core.model import CommitTs, Seq
from sidecar.errors import ConfigError
from tests.unit.test_term import SETTINGS


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


@pytest.mark.parametrize(
    ("pid", "reported_by", "state"), [(None, 7, "stopped"), (8, 7, "starting"), (8, None, "starting"), (8, 8, "running")]
)
def test_a_workers_state_is_what_it_reported_itself(pid: int | None, reported_by: int | None, state: str) -> None:
    report = DeliveryReport(Seq(3), CommitTs(30), "running", 0, pid=reported_by) if reported_by is not None else None
    assert worker_state(pid, report) == state
