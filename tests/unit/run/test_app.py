"""What a sidecar refuses before it asks anybody anything."""

from __future__ import annotations

import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest

from sidecar.adapters.etcd.owner import OwnerHolder
from sidecar.adapters.memory.progress import MemoryProgress
from sidecar.adapters.tidb.schema import TidbSchemas
from sidecar.control.status import SidecarStatus
from sidecar.pace.controller import Controller
from sidecar.ports import NoSightings, SegmentLog
from sidecar.run import app, own_worker
from sidecar.run.app import Sidecar
from sidecar.run.log_event import LogEvent
from sidecar.run.merge_process import worker_state
from sidecar.run.retention import RetentionHolds
from sidecar.run.term import Opening
from sidecar.shared.config import Config, SourceSection
from sidecar.shared.errors import ConfigError, OwnershipLost, StorageFull
from sidecar.shared.log.delivery_report import DeliveryReport
from sidecar.shared.log.owned import OwnedLog
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import CommitTs, Seq
from sidecar.shared.mysql import retry
from sidecar.shared.ticdc.changefeed import Changefeed, ChangefeedName
from tests.support.eventually import eventually
from tests.support.volumes import fill, small_volume
from tests.unit.run.test_term import SETTINGS


def settings(**sections: dict[str, object]) -> Config:
    return msgspec.convert(SETTINGS | {"log": {"uri": "/nowhere"}} | sections, Config)


def test_a_control_service_that_anybody_could_reach_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match=r"control\.listen"):
        Sidecar(settings(control={"listen": "0.0.0.0:8310"}), Path("sidecar.toml"))


def test_a_sidecar_that_gets_a_stop_while_etcd_is_away_stops() -> None:
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


def stepping() -> SimpleNamespace:
    """A pipeline as far as the process sees it."""
    outside = SimpleNamespace(progress=MemoryProgress(), deliveries=None, log=SimpleNamespace(id="0"), sightings=NoSightings())
    counts, dump = SimpleNamespace(segments=0), SimpleNamespace(records=())
    return SimpleNamespace(tables={}, next_seq=0, counts=counts, outside=outside, dump=dump, pace=Controller())


class OneStep:
    """A process whose term takes steps and does nothing; its parts are quiet."""

    pipeline = stepping()
    epoch = 1
    parking = None

    def __init__(self, *_: object, **__: object) -> None:
        self.still_because, self.place = str, dict
        self.holds = RetentionHolds(self.quiet)

    def acquire(self, *, timeout_s: float) -> int:
        return 1

    def owned(self, folder: Folder) -> OwnedLog:
        return OwnedLog(folder, self.epoch)

    def run(self, stopping: Event, seen: Callable[[object, float], None]) -> None:
        seen(None, 1.0)

    def due(self, _: float) -> bool:
        return False

    def sinks(self) -> tuple[()]:
        return ()

    def serve_gc_hold(self, _: object) -> Callable[[], None]:
        return lambda: None

    def quiet(self, *_: object, **__: object) -> None:
        """Nothing is wrong."""

    def begin(self, opening: Opening) -> None:
        """It has its log, and opens the rest."""
        opening(cast("SegmentLog", SimpleNamespace(id="own")), ExitStack())

    make_room = check = close = release = owner = record_log = quiet


@pytest.fixture
def sidecar(monkeypatch: pytest.MonkeyPatch) -> Sidecar:
    """It ends after its first term."""
    made = Sidecar(settings(), Path("sidecar.toml"))
    changefeed = Changefeed(ChangefeedName("default", "default", "cf"), "1", "custom://x")
    for name in ("Term", "Gauge", "ChangefeedWatch"):
        monkeypatch.setattr(app, name, OneStep)
    monkeypatch.setattr(app, "MAKES", {"kafka": OneStep})
    monkeypatch.setattr(app, "settled_changefeed", lambda *_: changefeed)
    monkeypatch.setattr(app, "owner", lambda *_: None)
    monkeypatch.setattr(app, "sharing", lambda *_: ())
    for name in ("Lasting", "EtcdProgress", "outside_of"):
        monkeypatch.setattr(app, name, lambda *_: None)
    made._remote = None
    monkeypatch.setattr(made, "_prepare", lambda: None)
    monkeypatch.setattr(made._worker, "start", lambda *_: None)
    monkeypatch.setattr(made.stopping, "wait", lambda _: made.stopping.set())
    for name in ("ownership", "server", "client", "deliveries", "estimates", "scope"):
        setattr(made, name, OneStep())
    made.changefeed = changefeed
    return made


def test_it_stops_within_seconds_while_the_database_says_nothing(sidecar: Sidecar, monkeypatch: pytest.MonkeyPatch) -> None:
    reports: list[str] = []
    monkeypatch.setattr(app, "say", lambda *lines: reports.extend(line.event for line in lines))
    monkeypatch.setattr(retry, "_ending", Event())
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
    assert reports == ["started", "stopping", "stopped on request"]


def breaks(*_: object) -> None:
    raise ZeroDivisionError("a defect")


def test_a_term_whose_parts_are_well_ends_on_request(sidecar: Sidecar) -> None:
    sidecar.run()
    assert sidecar.tally.terms == 1


def test_a_watch_on_the_changefeed_that_broke_ends_the_process_and_is_reported(sidecar: Sidecar, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(OneStep):
        def check(self, *_: object, **__: object) -> None:
            breaks()

    monkeypatch.setattr(app, "ChangefeedWatch", Broken)
    with pytest.raises(ZeroDivisionError):
        sidecar.run()


def test_a_minder_of_the_merge_worker_that_broke_ends_the_process_and_is_reported(
    sidecar: Sidecar, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sidecar._worker, "check", breaks)
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


def test_a_standby_reports_it_once_and_an_owner_what_it_attached_to(sidecar: Sidecar, monkeypatch: pytest.MonkeyPatch) -> None:
    reports: list[LogEvent] = []
    epochs = iter([None, None, 4])
    status = SidecarStatus(sidecar.changefeed.name, 4, "here:1")
    monkeypatch.setattr(app, "say", lambda *lines: reports.extend(lines))
    monkeypatch.setattr(app, "owner", lambda *_: OwnerHolder("other", 1, "other:8310"))
    monkeypatch.setattr(sidecar.ownership, "acquire", lambda **_: next(epochs))
    monkeypatch.setattr(OneStep, "due", lambda *_: True)
    monkeypatch.setattr(OneStep, "read", lambda *_, **__: status, raising=False)
    monkeypatch.setattr(OneStep, "report", None, raising=False)
    sidecar.run()
    assert [line.event for line in reports] == ["started", "standby", "attached", "stopped on request"]
    assert reports[1].values == {"owner": "other:8310"}
    assert reports[2].values["epoch"] == 4


def test_what_keeps_an_owner_from_serving_is_reported_until_it_serves_or_is_a_standby(
    sidecar: Sidecar, monkeypatch: pytest.MonkeyPatch
) -> None:
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


# ---- the merge worker and the lease ---------------------------------------------------------------------------------------


class Workers:
    """In place of MergeProcess: what was started, for which epoch, and how it was ended."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def __call__(self, command: list[str], _: object) -> Workers:
        self.epoch = command[command.index("--epoch") + 1]
        return self

    last = None

    def start(self) -> None:
        self.notes.append(f"worker of {self.epoch} started")

    def serve(self, command: list[str], line: bytes) -> None:
        self.epoch = command[command.index("--epoch") + 1]
        self.notes.append(f"worker serves {line.decode().strip()}")

    def close(self, *, at_once: bool) -> None:
        self.notes.append(f"worker of {self.epoch} ended" + (" at once" if at_once else ""))

    def check(self) -> None:
        """It is well."""


@pytest.fixture
def workers(sidecar: Sidecar, monkeypatch: pytest.MonkeyPatch) -> Workers:
    """The notes have the lease's release, too."""
    made = Workers()
    monkeypatch.setattr(own_worker, "MergeProcess", made)
    monkeypatch.delattr(sidecar._worker, "start")
    monkeypatch.setattr(sidecar.ownership, "release", lambda: made.notes.append("lease released"))
    return made


@pytest.mark.parametrize("part", ["Term", "ChangefeedWatch"])
def test_a_part_that_closes_badly_keeps_neither_worker_nor_lease_and_is_reported(
    sidecar: Sidecar, workers: Workers, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    class ClosesBadly(OneStep):
        def close(self, *_: object, **__: object) -> None:
            breaks()

    monkeypatch.setattr(app, part, ClosesBadly)
    with pytest.raises(ZeroDivisionError):
        sidecar.run()
    assert workers.notes == ["worker of 1 started", "worker of 1 ended at once", "lease released"]


def test_of_what_lives_as_long_as_the_process_all_is_closed_though_one_closes_badly(sidecar: Sidecar, workers: Workers) -> None:
    closed: list[str] = []
    sidecar._worker.start(1, "default/cf")
    sidecar._parts.callback(closed.append, "client")
    sidecar._parts.callback(breaks)
    with pytest.raises(ZeroDivisionError):
        sidecar.close()
    assert closed == ["client"]
    assert workers.notes[-1] == "worker of 1 ended at once"


FULL = StorageFull("no room left in file:///nowhere", hint="make room", place="file:///nowhere")


def test_a_full_log_keeps_worker_and_lease_until_an_own_segment_is_written(
    sidecar: Sidecar, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the sinks accept meanwhile is what makes room. The first term is full before it has a worker."""
    epochs, ends = iter([1, 2, 3]), iter([FULL, FULL, None])
    made: list[dict[str, object]] = []

    class Full(OneStep):
        def __init__(self, *_: object, **given: object) -> None:
            super().__init__()
            self.epoch = int(str(given["epoch"]))
            self.pipeline = stepping()
            made.append(given)

        def make_room(self, *_: object, **__: object) -> None:
            workers.notes.append(f"room for {self.epoch}")

        def begin(self, *_: object, **__: object) -> None:
            if (error := next(ends)) is not None:
                raise error

        def run(self, stopping: Event, seen: Callable[[object, float], None]) -> None:
            seen(None, 1.0)
            workers.notes.append("a step")
            self.pipeline.counts.segments = 1
            seen(None, 2.0)
            sidecar.stopping.set()

    monkeypatch.setattr(app, "Term", Full)
    monkeypatch.setattr(sidecar.ownership, "acquire", lambda **_: next(epochs))
    monkeypatch.setattr(sidecar.stopping, "wait", lambda _: False)
    sidecar.run()
    assert [given["worker_epoch"] for given in made] == [None, 1, 1]
    assert workers.notes == [
        "worker of 1 started",
        "room for 2",
        "room for 3",
        "a step",
        "worker serves 3",
        "worker of 3 ended",
        "lease released",
    ]


@pytest.mark.parametrize("then", ["standby", "stopped", "no room elsewhere"])
def test_a_worker_that_was_kept_ends_with_what_it_was_kept_for(
    sidecar: Sidecar, workers: Workers, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    ends = iter([FULL, StorageFull("no room left in /tmp", hint="make room", place="/tmp")])
    epochs = iter([1, None if then == "standby" else 2])
    waits = iter([then == "stopped", True])

    def begin(*_: object) -> None:
        raise next(ends)

    monkeypatch.setattr(OneStep, "begin", begin)
    monkeypatch.setattr(sidecar.ownership, "acquire", lambda **_: next(epochs, None))
    monkeypatch.setattr(sidecar, "_owner_address", lambda: sidecar.stopping.set())
    monkeypatch.setattr(sidecar.stopping, "wait", lambda _: sidecar.stopping.set() if next(waits) else None)
    sidecar.run()
    ended = "worker of 1 ended" + (" at once" if then == "standby" else "")
    assert workers.notes == ["worker of 1 started", *(["lease released"] if then == "no room elsewhere" else []), ended]


def test_a_process_that_loses_its_lease_and_regains_it_keeps_its_worker_and_says_that_the_machine_is_too_busy(
    sidecar: Sidecar, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    epochs, ends = iter([1, 2, 3]), iter([OwnershipLost("it ran out", hint="nothing"), OwnershipLost("again", hint="nothing"), None])

    class Short(OneStep):
        def __init__(self, *_: object, **given: object) -> None:
            super().__init__()
            self.epoch = int(str(given["epoch"]))

        def run(self, *_: object) -> None:
            if (error := next(ends)) is not None:
                raise error
            sidecar.stopping.set()

    monkeypatch.setattr(app, "Term", Short)
    monkeypatch.setattr(sidecar.ownership, "acquire", lambda **_: next(epochs))
    monkeypatch.setattr(sidecar.stopping, "wait", lambda _: False)
    sidecar.run()
    assert workers.notes == [
        "worker of 1 started",
        "lease released",
        "worker serves 2",
        "lease released",
        "worker serves 3",
        "worker of 3 ended",
        "lease released",
    ]
    assert "the lease was lost 2 times in 1 min: this machine is too busy" in sidecar.last_error


def test_the_room_on_the_logs_volume_is_counted_once_there_is_a_folder(tmp_path: Path) -> None:
    with small_volume(tmp_path / "disk", size="2m") as disk:
        sidecar = Sidecar(settings(log={"uri": f"{disk}/log"}), Path("sidecar.toml"))
        assert sidecar._count().log_volume_bytes is None
        (disk / "log").mkdir()
        fill(disk)
        assert sidecar._count().log_volume_bytes == (0, 2 << 20)
    assert Sidecar(settings(log={"uri": "s3://bucket/log"}), Path("sidecar.toml"))._count().log_volume_bytes is None
