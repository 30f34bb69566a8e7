"""A pump as a process, from its start to its end.

    lock of data_dir, node id ► PD: cluster id ► storage, brought up ► the port, where callers wait ► online in the registry
      ► from offline: every online drainer is notified ► serve ► heartbeats, fakes, lost commits, collection ► a request to leave

    SIGTERM, pause   no prewrites any more, the calls under way are answered, paused in the registry, the process ends
    close            no prewrites any more; when all that is here has an end, and every drainer that is not offline has consumed it:
                     offline in the registry, the process ends. SIGTERM meanwhile: paused

- What may pass (etcd, PD, TiKV not answering) is logged and tried again; whatever ends the storage or is unknown ends the process.
- One thread at a time calls PD.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import socket
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import ExitStack
from pathlib import Path
from threading import Lock
from typing import Any

import grpc

from sidecar.adapters.etcd.binlog import EtcdNodes
from sidecar.binlog.nodes import PUMPS, NodeState
from sidecar.pump.config import PumpSection
from sidecar.pump.front import PROTOCOLS, Front, PumpAnswer, listening
from sidecar.pump.lost import Lost, Notice, Tikv
from sidecar.pump.metrics import Metrics
from sidecar.pump.node import PumpNode, notify_drainers
from sidecar.pump.pages import Pages, Shown
from sidecar.pump.record import ROLLBACK, made
from sidecar.pump.service import PumpService
from sidecar.pump.storage import Storage
from sidecar.pump.tikv import TikvCalls
from sidecar.shared.config import EtcdSection
from sidecar.shared.errors import ConfigError, TicdcDumpError
from sidecar.shared.model.nouns import CommitTs
from sidecar.shared.process.tls import server_context
from sidecar.shared.tikv.pd import PdClient
from ticdc_dump.binlog import pump_pb2_grpc

LOOK_S = 1.0
GC_EVERY_S = 3600.0
LEAVING_MAX_S = 10.0
"""For calls under way, once the pump is out of the registry."""
_DAY_MS = 86_400_000

OPTIONS = (
    ("grpc.max_receive_message_length", -1),  # gRPC's and protobuf's own bound is 2 GiB
    ("grpc.max_send_message_length", -1),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.so_reuseport", 0),
)


class Pump:
    """`connect`: a connection to TiKV. `stop` by any thread; `run` once."""

    def __init__(self, section: PumpSection, notice: Notice, *, connect: Callable[[], Tikv] | None = None) -> None:
        """Takes what only one process may have, and reads what is on the disk. Raises ConfigError, LogBroken, StorageFull, FeedLost."""
        self.section, self._notice = section, notice
        self._connect: Callable[[], Tikv] = connect or (lambda: TikvCalls(section.cluster))
        self._held = ExitStack()
        self._risen: Callable[[], None] = lambda: None
        try:
            folder = Path(section.data_dir)
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock_folder(folder)
            self._pd, self._pd_lock = PdClient(section.cluster, named="pump", tls="cluster_tls"), Lock()
            self._held.callback(self._pd.close)
            self.cluster_id = self._pd.cluster_id()
            self.storage = Storage(folder, cluster_id=self.cluster_id, room=section.room, risen=lambda: self._risen())
            self._held.callback(self.storage.close)
            if self.storage.cut_bytes:
                notice("a write that was not answered was cut", bytes=self.storage.cut_bytes)
            if self.storage.is_gc_assumed:
                notice("no record says what was collected: a drainer that is behind this TSO must begin again", upto_ts=self.storage.gc_ts)
            node_id, etcd = _node_id(folder, section), EtcdSection(endpoints=section.etcd or section.pd, tls=section.cluster_tls)
            registry = EtcdNodes(etcd, own=f"{PUMPS}{node_id}")
            self._held.callback(registry.close)
            self.node = PumpNode(registry, node_id, section.host, lambda: self.storage.max_commit_ts)
            self.lost = Lost(self.storage, self._connect, self.tso, notice)
            self._held.callback(self.lost.close)
            self._place = listening(section.listen)
            self._held.callback(self._place.close)
        except BaseException:
            self._held.close()
            raise
        self.metrics = Metrics()
        self.metrics.watch(self.storage, lambda: self.lost.tally)
        self.port: int = self._place.getsockname()[1]
        self._loop: asyncio.AbstractEventLoop | None = None
        self._leaving: asyncio.Future[NodeState] | None = None
        self._stopped = False

    def tso(self) -> CommitTs:
        with self._pd_lock:
            return self._pd.tso()

    def run(self) -> None:
        """Until a request to leave. Raises what it cannot continue after."""
        try:
            asyncio.run(self._main())
        finally:
            self._held.close()

    def stop(self) -> None:
        """Leave as paused."""
        self._stopped = True
        self._leave(NodeState.PAUSING)

    # ---- in the event loop ------------------------------------------------------------------------------------------

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._leaving = self._loop.create_future()
        service = PumpService(self.storage, self.cluster_id, lambda: self.node.state, self.metrics)
        self._risen = service.risen
        shown = Shown(self.node, self.storage, self.tso, self._connect, self.metrics, self._collect, self._leave)
        with tempfile.TemporaryDirectory(prefix="pump-") as private:
            server = grpc.aio.server(options=OPTIONS)
            pump_pb2_grpc.add_PumpServicer_to_server(service, server)  # type: ignore[no-untyped-call]  # generated without types
            path = f"{private}/grpc"
            server.add_insecure_port(f"unix:{path}")
            await server.start()
            tls = self.section.tls
            context = server_context(tls, protocols=PROTOCOLS) if tls.cert_file else None
            front = Front(self._place, context, path, _pages(Pages(shown)))
            try:
                await asyncio.to_thread(self._join)
                await front.serve()
                self._notice("the pump serves", node=self.node.node_id, host=self.node.host, max_commit_ts=self.storage.max_commit_ts)
                await self._serve(service)
                service.end_pulls()
                await server.stop(LEAVING_MAX_S)
                await asyncio.to_thread(self._left)
            finally:
                self._risen = lambda: None
                await front.close()
                await server.stop(0)
                service.close()

    def _join(self) -> None:
        previous = self.node.previous()
        self.node.set_clock(self.tso())
        self.node.move(NodeState.ONLINE)
        if previous != NodeState.OFFLINE:
            return
        try:
            drainer_ids = notify_drainers(self.node.registry, self.section.cluster_tls)
        except TicdcDumpError:
            self.node.move(NodeState.OFFLINE)
            raise
        self._notice("drainers know of this pump", drainers=", ".join(drainer_ids) or "there are none")

    async def _serve(self, service: PumpService) -> None:
        """Until it has left."""
        assert self._leaving is not None
        work: list[Coroutine[Any, Any, None]] = [
            _every(self.section.heartbeat_s, self._passing("a heartbeat was not written", self.node.refresh)),
            _every(LOOK_S, lambda: asyncio.to_thread(self._look)),
            _every(GC_EVERY_S, lambda: asyncio.to_thread(self._collect)),
            self._fake_when_idle(service),
        ]
        tasks = [asyncio.create_task(one) for one in work]
        leaving = asyncio.create_task(self._leave_on_signal())
        try:
            done, _ = await asyncio.wait([leaving, *tasks], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in (leaving, *tasks):
                task.cancel()
            await asyncio.gather(leaving, *tasks, return_exceptions=True)

    async def _leave_on_signal(self) -> None:
        assert self._leaving is not None
        state = await self._leaving
        self._notice("the pump leaves", state=state.value)
        await self._passing("the registry does not have it that this pump leaves", lambda: self.node.move(state))()
        if state is NodeState.CLOSING:
            await self._consumed()

    async def _consumed(self) -> None:
        """All that is here has an end, and drainers are past it; or the process must stop."""
        last_ts: int | None = None
        while not self._stopped:
            try:
                fake_ts = await asyncio.to_thread(self._fake)
                if last_ts is None and fake_ts is not None and await self._sorted(fake_ts):
                    last_ts = self.storage.max_commit_ts
                consumed_ts = await asyncio.to_thread(self.node.consumed_ts)
            except TicdcDumpError as error:
                self._notice("it is not known whether drainers are past this pump", error=error.message)
            else:
                if last_ts is not None and (consumed_ts is None or consumed_ts >= last_ts):
                    self.node.state = NodeState.OFFLINE
                    return
                self._notice("waiting to go offline", drainers_are_at=consumed_ts, needed=last_ts, waiting_prewrites=self.storage.waiting)
            await asyncio.sleep(LOOK_S)

    async def _sorted(self, ts: int) -> bool:
        for _ in range(20):
            if self.storage.max_commit_ts >= ts and not self.storage.waiting:
                return True
            await asyncio.sleep(LOOK_S / 20)
        return False

    def _left(self) -> None:
        """The last entry in the registry. Raises CoordinationError."""
        if self.node.state is not NodeState.OFFLINE:
            self.node.state = NodeState.PAUSED
        self.node.refresh()
        self._notice("the pump has left", state=self.node.state.value, max_commit_ts=self.storage.max_commit_ts)

    def _leave(self, state: NodeState) -> None:
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._left_on_signal, state)

    def _left_on_signal(self, state: NodeState) -> None:
        assert self._leaving is not None
        if not self._leaving.done():
            self._leaving.set_result(state)

    async def _fake_when_idle(self, service: PumpService) -> None:
        writes = service.writes
        while True:
            await asyncio.sleep(self.section.fake_s)
            if service.writes == writes:
                await self._passing("no fake binlog was written", self._fake)()
            writes = service.writes

    def _fake(self) -> int:
        """Its TSO is of before it is stored, so whatever comes after it commits later."""
        ts = self.tso()
        self.storage.write(made(ROLLBACK, ts, ts))
        return ts

    def _look(self) -> None:
        self.storage.check()
        self.lost.look()

    def _collect(self) -> bool:
        now_ms = time.time_ns() // 1_000_000
        ts = max(now_ms - int(self.section.gc_days * _DAY_MS), 0) << 18
        is_done = self.storage.collect(ts)
        if is_done:
            self._notice("binlogs are collected", upto_ts=ts)
        return is_done

    def _passing(self, what: str, act: Callable[[], object]) -> Callable[[], Awaitable[None]]:
        """`act` in a thread; an error that is known is logged, and passes: `_look` sees what ends the storage."""

        async def carried_out() -> None:
            try:
                await asyncio.to_thread(act)
            except TicdcDumpError as error:
                self._notice(what, error=str(error))

        return carried_out

    def _lock_folder(self, folder: Path) -> None:
        fd = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
        self._held.callback(os.close, fd)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ConfigError(f"another pump has {folder}", hint="end it, or set pump.data_dir to another folder") from error


def _node_id(folder: Path, section: PumpSection) -> str:
    """What it was once stays."""
    place = folder / ".node"
    if place.exists():
        kept = place.read_text().strip()
        if section.node_id and section.node_id != kept:
            raise ConfigError(
                f"pump.node_id is {section.node_id!r}, and {folder} is of node {kept!r}",
                hint="leave pump.node_id away, or give the new node a data_dir of its own",
            )
        return kept
    made_ = section.node_id or f"{socket.gethostname()}:{section.listen.rpartition(':')[2]}"
    place.write_text(made_)
    return made_


def _pages(pages: Pages) -> Callable[[str, str], Awaitable[PumpAnswer]]:
    async def answering(method: str, path: str) -> PumpAnswer:
        return await asyncio.to_thread(pages.answer, method, path)

    return answering


async def _every(seconds: float, act: Callable[[], Awaitable[object]]) -> None:
    while True:
        await asyncio.sleep(seconds)
        await act()
