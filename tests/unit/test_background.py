"""What breaks in the background is heard: by `Background` itself, and for each kind of thread by whoever owns it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from threading import Event
from time import monotonic
from types import SimpleNamespace
from typing import Any
from wsgiref.simple_server import WSGIServer

import pytest

from sidecar.adapters.etcd.client import EtcdClient
from sidecar.adapters.etcd.keys import Transaction
from sidecar.adapters.etcd.owner import EtcdOwner, OwnerHolder
from sidecar.adapters.tidb.source import MarkRow, TidbSource
from sidecar.feeds.push.puller import PushPuller
from sidecar.feeds.push.server import PushStream
from sidecar.feeds.tikv import lock_watch
from sidecar.feeds.tikv.lock_watch import LockWatch
from sidecar.feeds.tikv.puller import TikvPuller
from sidecar.feeds.tikv.queue import EventQueue
from sidecar.feeds.tikv.router import RegionRouter
from sidecar.feeds.tikv.stream import StoreStream
from sidecar.run import changefeed_watch
from sidecar.run.merge_process import MergeProcess
from sidecar.run.metrics import MetricsServer, MetricsTally
from sidecar.shared.config import PushSection, SourceSection, TikvSection
from sidecar.shared.errors import SourceLost
from sidecar.shared.log import deliveries as log_deliveries
from sidecar.shared.log import storage
from sidecar.shared.log.deliveries import LogDeliveries
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.messages import SendMark
from sidecar.shared.model.nouns import CommitTs, MarkKind
from sidecar.shared.process.background import Background, still_running
from sidecar.shared.rowcodec.key_values import KeyRange
from sidecar.shared.tikv.pd import Store
from tests.support.eventually import PATIENCE_S
from tests.unit.feeds.pushing import Polling, RawSender

SOURCE = SourceSection(host="127.0.0.1", port=1, user="u")
TIKV = TikvSection(pd=("127.0.0.1:1",))

IN_ETCD: Any = SimpleNamespace(changefeed=SimpleNamespace(file=""))
"""What a watch looks at of the settings."""


def breaks(*_: object, **__: object) -> Any:
    raise ZeroDivisionError("a defect")


def raises_a_defect(call: Callable[[], object]) -> None:
    """Some call of it does, soon."""
    until_s, pause = monotonic() + PATIENCE_S, Event()
    while monotonic() < until_s:
        try:
            call()
        except ZeroDivisionError:
            return
        pause.wait(0.005)
    pytest.fail("nobody hears of it")


# ---- Background -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [SourceLost("away", hint="wait"), ZeroDivisionError("a defect"), SystemExit(3)])
def test_what_ends_the_work_is_raised_as_it_is_and_again(error: BaseException) -> None:
    def work(_: Event) -> None:
        raise error

    result = Background(work, name="x")
    result.close()
    assert not result.alive
    for _ in range(2):
        with pytest.raises(type(error)) as raised:
            result.check()
        assert raised.value is error


def test_work_gets_a_stop_and_is_waited_for() -> None:
    result = Background(Event.wait, name="x")
    assert result.alive
    result.close()
    assert not result.alive
    result.check()
    result.close()


def test_work_that_does_not_end_is_left_behind() -> None:
    release = Event()
    result = Background(lambda _: release.wait(), name="x")
    result.close(0.01)
    assert result.alive
    release.set()
    result.close()


def test_of_many_those_that_run_are_kept_and_one_that_broke_is_raised() -> None:
    runs, done, broke = (
        Background(Event.wait, name="r"),
        Background(lambda _: None, name="d"),
        Background(breaks, name="b"),
    )
    done.close()
    broke.close()
    assert still_running([runs, done]) == [runs]
    with pytest.raises(ZeroDivisionError):
        still_running([runs, broke])
    runs.close()


# ---- the process ----------------------------------------------------------------------------------------------------


def test_a_watch_on_the_definition_that_breaks_raises_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changefeed_watch, "LOOK_EVERY_S", 0.001)
    monkeypatch.setattr(changefeed_watch, "read_changefeed", breaks)
    watch = changefeed_watch.ChangefeedWatch(None, IN_ETCD, None)  # type: ignore[arg-type]  # it breaks before it needs any
    raises_a_defect(watch.check)
    watch.close()


def test_metrics_that_are_not_served_any_more_raise_their_error(monkeypatch: pytest.MonkeyPatch) -> None:
    serve = WSGIServer.serve_forever

    def broken(self: WSGIServer) -> None:
        self.service_actions = breaks  # type: ignore[method-assign]  # called in its loop
        serve(self, poll_interval=0.001)

    monkeypatch.setattr(WSGIServer, "serve_forever", broken)
    server = MetricsServer("127.0.0.1:0", lambda: None, MetricsTally)
    raises_a_defect(server.check)
    server.close()


def test_the_error_of_a_merge_worker_that_cannot_be_started_at_all_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "Popen", breaks)
    worker = MergeProcess(["none"], lambda _: None)
    worker.check()
    worker.start()
    raises_a_defect(worker.check)
    worker.close(at_once=True)


def test_deliveries_that_are_not_read_any_more_raise_their_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_deliveries, "READ_EVERY_S", 0.001)
    deliveries = LogDeliveries(open_folder(str(tmp_path)))
    deliveries.check()
    deliveries.start()
    monkeypatch.setattr(storage, "read_files", breaks)
    raises_a_defect(deliveries.check)
    deliveries.close()


# ---- adapters -------------------------------------------------------------------------------------------------------


class Lease(EtcdClient):
    """An etcd that gives the lease at once, and breaks when it is kept."""

    def __init__(self) -> None:
        self.revoked = 0

    def get(self, *_: object, **__: object) -> None:
        return None

    def grant(self, *_: object, **__: object) -> int:
        return 7

    def transact(self, *_: object, **__: object) -> Transaction:
        return Transaction(True, 3, ())

    def keep_alive(self, *_: object, **__: object) -> bool:
        breaks()
        return True

    def revoke(self, *_: object, **__: object) -> None:
        self.revoked += 1


def test_a_keeper_of_the_lease_that_breaks_raises_its_error_at_whoever_asks_whether_it_is_held() -> None:
    owner = EtcdOwner(Lease(), "/root", lease_s=1, holder=OwnerHolder("here", 1, ""))
    assert owner.acquire(timeout_s=0) == 1
    raises_a_defect(owner.held)
    owner.release()
    assert not owner.held(), "it is given up all the same"


def test_a_source_whose_thread_breaks_reports_it_with_its_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MarkRow, "update", breaks)
    source = TidbSource(SOURCE, schemas={}, write_chunk=breaks, changefeed_id="cf")
    with closing(source):
        source.request(SendMark("0" * 32, MarkKind.LOW))
        raises_a_defect(source.results)


# ---- feeds ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def tikv() -> Iterator[Callable[[], TikvPuller]]:
    made: list[TikvPuller] = []

    def make() -> TikvPuller:
        made.append(TikvPuller(TIKV, name="cf/1"))
        return made[-1]

    yield make
    for puller in made:
        puller.close()


def test_a_router_that_breaks_raises_its_error_at_whoever_polls(tikv: Callable[[], TikvPuller], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RegionRouter, "_route", breaks)
    puller = tikv()
    puller.want({KeyRange(b"a", b"b"): CommitTs(1)})
    raises_a_defect(lambda: puller.poll(timeout_s=0.01))


def test_a_lock_watch_that_breaks_raises_its_error_at_whoever_polls(
    tikv: Callable[[], TikvPuller], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock_watch, "LOOK_EVERY_S", 0.001)
    monkeypatch.setattr(LockWatch, "_look", breaks)
    puller = tikv()
    raises_a_defect(lambda: puller.poll(timeout_s=0.01))


class NoStore:
    """A channel to a store whose stream ends at once."""

    def stream_stream(self, *_: object, **__: object) -> Callable[..., Iterator[object]]:
        return lambda *_, **__: iter(())

    unary_unary = unary_stream = stream_stream

    def close(self) -> None:
        pass


def test_a_store_stream_that_cannot_even_report_its_end_raises_its_error() -> None:
    stream = StoreStream(Store(1, "s:1", "8.5.0"), NoStore(), cluster_id=1, queue=EventQueue(1), ended=breaks, failed=breaks)
    raises_a_defect(stream.check)


def test_a_stream_of_a_sender_that_breaks_raises_its_error_at_whoever_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PushStream, "arrived", breaks)
    with closing(PushPuller(PushSection(listen="127.0.0.1:0"))) as puller, RawSender(puller.port) as sender:
        sender.hello("node-1")
        assert isinstance(Polling(puller).until_raises(), ZeroDivisionError)
