"""Writes binlogs as TiDB does: a transaction's prewrite to a pump that takes it, its end to the same pump.

    prewrite   a pump by choice; one that fails: the next, RETRY_S later, until each had its turn and `write_max_s` is over; then every pump
               that is online, once more. None took it: FeedLost, and the transaction must not commit
    end        commit or rollback, to the prewrite's pump alone, END_RETRY_S apart, for `end_max_s`; then it is given up: the pump itself
               resolves what became of the transaction

- Pumps are those that PD's etcd names as online. One that has failed more than ERRORS_MAX times in a row is unavailable: not chosen any
  more, and probed every `probe_every_s`, with an empty payload, whether it is there. One that comes online is available.
- What a pump could not take however often it is sent (a binlog that is too large) is not tried again.
- An answer that was lost is no answer: the prewrite goes to another pump, and two have it. Readers drop the second.

From pingcap/tidb tidb-binlog/pump_client/client.go, pump.go. Unlike there, an end that is given up is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Event, Lock
from time import monotonic
from typing import Any

import grpc

from sidecar.binlog.nodes import ONLINE, Node
from sidecar.shared.errors import CoordinationLost, FeedLost
from sidecar.shared.process.background import Background
from tests.support.pump_client.choice import STRATEGIES, Strategy
from ticdc_dump.binlog import pump_pb2, pump_pb2_grpc

RETRY_S, END_RETRY_S = 0.1, 1.0
ERRORS_MAX = 10
FOLLOW_EVERY_S = 1.0

CHANNEL = (
    ("grpc.max_send_message_length", -1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),  # a new channel connects at once, whatever an earlier one has met
)
"""Options of every channel to a pump."""

Connect = Callable[[str, Sequence[tuple[str, int]]], Any]
"""A new gRPC channel to host:port with these options, as `grpc.insecure_channel` makes one."""

_HOPELESS = (grpc.StatusCode.RESOURCE_EXHAUSTED,)


@dataclass(frozen=True, slots=True)
class WriteSettings:
    """TiDB's own."""

    strategy: Strategy = "range"
    write_max_s: float = 15.0
    end_max_s: float = 600.0
    probe_every_s: float = 30.0


class _Connection:
    """`writes`: under way."""

    def __init__(self, channel: Any) -> None:
        self.channel = channel
        self.write = pump_pb2_grpc.PumpStub(channel).WriteBinlog  # type: ignore[no-untyped-call]  # generated without types
        self.writes = 0


class _Pump:
    """`errors`: in a row. `available`: whether it is chosen."""

    def __init__(self, node: Node, connect: Connect) -> None:
        self.node = node
        self.errors = 0
        self.available = True
        self._connect = connect
        self._lock = Lock()
        self._present: _Connection | None = None

    def write(self, request: Any, timeout_s: float) -> None:
        """Raises grpc.RpcError, FeedLost for what the pump says itself."""
        with self._lock:
            if self._present is None:
                self._present = _Connection(self._connect(self.node.host, CHANNEL))
            used = self._present
            used.writes += 1
        try:
            answer = used.write(request, timeout=timeout_s)
        finally:
            with self._lock:
                used.writes -= 1
                if used is not self._present and not used.writes:
                    used.channel.close()
        if answer.errmsg:
            raise FeedLost(f"pump {self.node.node_id}: {answer.errmsg}", hint=_SEE)

    def reset(self) -> None:
        """A channel that failed waits before it connects again: the next write is to have a new one. Those under way keep theirs, and the
        last of them closes it: a pump may have what is broken off."""
        with self._lock:
            left, self._present = self._present, None
            if left is not None and not left.writes:
                left.channel.close()


class PumpClient:
    """`pumps` reads the registry, and raises CoordinationLost; `connect` makes channels. `prewrite` and `end` are for any
    thread. Close it."""

    def __init__(
        self, pumps: Callable[[], Sequence[Node]], connect: Connect, cluster_id: int, settings: WriteSettings = WriteSettings()
    ) -> None:
        """Raises CoordinationLost; FeedLost if there is no pump."""
        self._read, self._connect = pumps, connect
        self._cluster_id, self._settings = cluster_id, settings
        self._choose = STRATEGIES[settings.strategy]()
        self._lock = Lock()
        self._pumps: dict[str, _Pump] = {}
        self._of: dict[int, _Pump] = {}
        self._ending = Event()
        self.follow()
        if not self._pumps:
            raise FeedLost("PD's etcd names no pump", hint="start a pump")
        self._work = Background(self._follow_on, name="pump-client")

    def prewrite(self, start_ts: int, payload: bytes) -> str:
        """The node id of the pump that has it. Raises FeedLost: no pump does, or nobody knows; and what ended the following of pumps."""
        self._work.check()
        request, began_s, failed, why = self._request(payload), monotonic(), 0, "there is none"
        while ready := self._ready():
            pump = ready[self._choose(start_ts, failed, len(ready))]
            try:
                self._write(pump, request)
            except (grpc.RpcError, FeedLost) as error:
                why, failed = _text(pump, error), failed + 1
                if isinstance(error, grpc.RpcError) and error.code() in _HOPELESS:
                    raise _not_written(start_ts, why) from error
                if monotonic() - began_s > self._settings.write_max_s and failed > len(ready):
                    break
                if self._ending.wait(RETRY_S):
                    break
            else:
                self._of[start_ts] = pump
                return pump.node.node_id
        return self._last_try(start_ts, request, why)

    def end(self, start_ts: int, payload: bytes) -> bool:
        """The binlog of a commit or a rollback. False: it was given up. Raises KeyError without a prewrite of this client."""
        pump, request, began_s = self._of[start_ts], self._request(payload), monotonic()
        try:
            while True:
                try:
                    self._write(pump, request)
                    return True
                except (grpc.RpcError, FeedLost):
                    if monotonic() - began_s > self._settings.end_max_s or self._ending.wait(END_RETRY_S):
                        return False
        finally:
            del self._of[start_ts]

    def available(self) -> list[str]:
        """The node ids of the pumps that prewrites go to."""
        return [pump.node.node_id for pump in self._ready()]

    def follow(self) -> None:
        """Take the pumps as the registry names them now."""
        nodes = self._read()
        with self._lock:
            for node in nodes:
                pump = self._pumps.setdefault(node.node_id, _Pump(node, self._connect))
                came, moved = pump.node.state != ONLINE and node.state == ONLINE, pump.node.host != node.host
                pump.node = node
                if came or moved:
                    pump.errors, pump.available = 0, True
                    pump.reset()

    def probe(self) -> None:
        """Ask the pumps that are online and unavailable whether they are there."""
        for pump in self._online():
            if not pump.available:
                pump.reset()
                try:
                    pump.write(self._request(b""), self._settings.write_max_s)
                except (grpc.RpcError, FeedLost):
                    continue
                pump.errors, pump.available = 0, True

    def close(self) -> None:
        self._ending.set()
        self._work.close()
        for pump in self._pumps.values():
            pump.reset()

    def _write(self, pump: _Pump, request: Any) -> None:
        try:
            pump.write(request, self._settings.write_max_s)
        except (grpc.RpcError, FeedLost) as error:
            pump.errors += 1
            pump.available = pump.errors <= ERRORS_MAX
            if isinstance(error, grpc.RpcError) and error.code() is grpc.StatusCode.UNAVAILABLE:
                pump.reset()
            raise
        pump.errors, pump.available = 0, True

    def _last_try(self, start_ts: int, request: Any, why: str) -> str:
        for pump in self._online():
            pump.reset()
            try:
                self._write(pump, request)
            except (grpc.RpcError, FeedLost) as error:
                why = _text(pump, error)
                continue
            self._of[start_ts] = pump
            return pump.node.node_id
        raise _not_written(start_ts, why)

    def _online(self) -> list[_Pump]:
        with self._lock:
            return [pump for _, pump in sorted(self._pumps.items()) if pump.node.state == ONLINE]

    def _ready(self) -> list[_Pump]:
        return [pump for pump in self._online() if pump.available]

    def _request(self, payload: bytes) -> Any:
        return pump_pb2.WriteBinlogReq(clusterID=self._cluster_id, payload=payload)

    def _follow_on(self, ending: Event) -> None:
        probe_due_s = monotonic() + self._settings.probe_every_s
        while not ending.wait(FOLLOW_EVERY_S):
            with suppress(CoordinationLost):  # writes to the known pumps continue, as TiDB's do
                self.follow()
            if monotonic() >= probe_due_s:
                self.probe()
                probe_due_s = monotonic() + self._settings.probe_every_s


def _text(pump: _Pump, error: grpc.RpcError | FeedLost) -> str:
    what = error.message if isinstance(error, FeedLost) else f"{error.code().name}: {error.details() or 'no details'}"
    return f"pump {pump.node.node_id} ({pump.node.host}) answered {what}"


def _not_written(start_ts: int, why: str) -> FeedLost:
    return FeedLost(f"no pump took the prewrite binlog of transaction {start_ts}: {why}", hint=_SEE)


_SEE = "see that pumps run and are online (binlogctl -cmd pumps); the transaction must not commit"
