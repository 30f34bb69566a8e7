"""Pumps that play what recorded ones streamed, by gRPC and /metrics on one port, and the world around them: a registry and PD's clock.

A pump has the binlogs that have arrived by the world's time, and can be killed and started at another address, frozen (it keeps its
connections and says nothing more), stuck (nothing beyond a commit_ts is ready), removed from below. `World.advance` plays a recording:
everything up to a moment happens, then PD's clock is there: no TSO is later than what the registry lacks.
"""

from __future__ import annotations

import gzip
import json
import socket
import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Condition, Event, Lock, Thread
from typing import Any, NamedTuple, Protocol

import grpc

from sidecar.binlog.nodes import ONLINE, Node, node_of
from sidecar.shared.model.nouns import CommitTs, physical_ms, ts_at
from ticdc_dump.binlog import binlog_pb2, pump_pb2, pump_pb2_grpc

CLUSTER_ID = 7_710_717_268_768_869_158
_FRAME = struct.Struct("<I")


class Sent(NamedTuple):
    """One binlog and when it was streamed."""

    at_ms: int
    commit_ts: int
    payload: bytes


class Registered(NamedTuple):
    at_ms: int
    node: Node


def fake(ts: int) -> bytes:
    return bytes(binlog_pb2.Binlog(tp=binlog_pb2.Rollback, start_ts=ts, commit_ts=ts).SerializeToString())


def transaction(start_ts: int, commit_ts: int, value: bytes, *, key: bytes = b"k") -> bytes:
    made = binlog_pb2.Binlog(tp=binlog_pb2.Commit, start_ts=start_ts, commit_ts=commit_ts, prewrite_key=key, prewrite_value=value)
    return bytes(made.SerializeToString())


class Registry(Protocol):
    def put(self, node: Node) -> None: ...


@dataclass
class MemoryNodes:
    """In the place of sidecar.adapters.etcd.binlog.EtcdNodes. `before_pumps`: what happens just before it is read."""

    own: str = "us"
    nodes: dict[str, Node] = field(default_factory=dict)
    entry: Node | None = None
    skipping: Sequence[str] = ()
    before_pumps: Callable[[], None] = lambda: None

    def pumps(self) -> Sequence[Node]:
        self.before_pumps()
        return list(self.nodes.values())

    def mine(self) -> Node | None:
        return self.entry

    def put(self, node: Node) -> None:
        if node.node_id == self.own:
            self.entry = node
        else:
            self.nodes[node.node_id] = node

    def without_binlogs(self) -> Sequence[str]:
        return self.skipping


class MadePd:
    """`error` is raised as long as there is one."""

    def __init__(self, now_ts: int = 0) -> None:
        self.now_ts = now_ts
        self.error: Exception | None = None
        self._lock = Lock()

    def cluster_id(self) -> int:
        return CLUSTER_ID

    def tso(self) -> CommitTs:
        if self.error is not None:
            raise self.error
        with self._lock:
            self.now_ts += 1
            return CommitTs(self.now_ts)

    def reach(self, ms: int) -> None:
        with self._lock:
            self.now_ts = max(self.now_ts, ts_at(ms))


class MadePump:
    """Starts at once; `registry` knows nothing of it until `register`. Close it."""

    def __init__(self, node_id: str, registry: Registry, *, sent: Sequence[Sent] = (), cluster_id: int = CLUSTER_ID) -> None:
        self.node_id = node_id
        self.cluster_id = cluster_id
        self.gc_ms = 0
        self.streamed_bytes = 0
        self.pulls: list[int] = []
        """The offset of each call, in order."""
        self.before_pull: Callable[[], None] = lambda: None
        """What happens just before a call is served."""
        self._registry = registry
        self._sent = list(sent)
        self._keys = [one.commit_ts for one in self._sent]
        self._ready = 0
        self._changed = Condition()
        self._server: Any = None
        self._front: _Front | None = None
        self.start()

    @property
    def host(self) -> str:
        assert self._front is not None
        return self._front.address

    @property
    def max_commit_ts(self) -> CommitTs:
        return CommitTs(self._keys[self._ready - 1] if self._ready else 0)

    def start(self) -> None:
        """At another address than before."""
        self._server = grpc.server(ThreadPoolExecutor(8), options=[("grpc.max_send_message_length", -1)])
        pump_pb2_grpc.add_PumpServicer_to_server(_Service(self), self._server)  # type: ignore[no-untyped-call]
        port = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()
        self._front = _Front(port, self._metrics)

    def kill(self) -> None:
        if self._front is not None:
            self._front.close()
            self._front = None
            with self._changed:
                server, self._server = self._server, None
                self._changed.notify_all()
            server.stop(None).wait()

    def freeze(self) -> None:
        assert self._front is not None
        self._front.flows.clear()

    def thaw(self) -> None:
        assert self._front is not None
        self._front.flows.set()

    def break_streams(self) -> None:
        assert self._front is not None
        self._front.hang_up()

    def register(self, state: str = ONLINE, *, update_ts: int = 0, max_commit_ts: int | None = None) -> None:
        max_ts = self.max_commit_ts if max_commit_ts is None else CommitTs(max_commit_ts)
        self._registry.put(Node(self.node_id, self.host, state, max_ts, CommitTs(update_ts)))

    def commit(self, commit_ts: int, payload: bytes) -> None:
        """One more, ready at once."""
        with self._changed:
            self._sent.append(Sent(0, commit_ts, payload))
            self._keys.append(commit_ts)
            self._ready = len(self._keys)
            self._changed.notify_all()

    def arrive(self, ms: int) -> None:
        """Everything that was streamed up to this moment is ready."""
        with self._changed:
            while self._ready < len(self._sent) and self._sent[self._ready].at_ms <= ms:
                self._ready += 1
            self._changed.notify_all()

    def stream(self, offset: int, over: Callable[[], bool]) -> Iterator[Any]:
        server, at = self._server, bisect_right(self._keys, offset)
        while True:
            with self._changed:
                while at >= self._ready:
                    if over() or self._server is not server:
                        return
                    self._changed.wait(0.2)
                one = self._sent[at]
            at += 1
            start_ts = binlog_pb2.Binlog.FromString(one.payload).start_ts
            meta = pump_pb2.Meta(startTs=start_ts, commitTs=one.commit_ts)
            self.streamed_bytes += len(one.payload)
            yield pump_pb2.PullBinlogResp(entity=pump_pb2.Entity(payload=one.payload, meta=meta))

    def _metrics(self) -> bytes:
        return f"# TYPE binlog_pump_storage_gc_ts gauge\nbinlog_pump_storage_gc_ts {float(self.gc_ms):.12e}\n".encode()


class _Service(pump_pb2_grpc.PumpServicer):
    def __init__(self, pump: MadePump) -> None:
        self._pump = pump

    def PullBinlogs(self, request: Any, context: Any) -> Iterator[Any]:  # noqa: N802  # the service's name
        if request.clusterID != self._pump.cluster_id:
            context.abort(grpc.StatusCode.UNKNOWN, f"cluster ID are mismatch, {request.clusterID} vs {self._pump.cluster_id}")
        self._pump.before_pull()
        self._pump.pulls.append(request.startFrom.offset)
        yield from self._pump.stream(request.startFrom.offset, lambda: not context.is_active())


class _Front:
    """A port that gives HTTP/1 to `metrics` and passes gRPC through, while it `flows`."""

    def __init__(self, port: int, metrics: Callable[[], bytes]) -> None:
        self.flows = Event()
        self.flows.set()
        self._port, self._metrics = port, metrics
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._open: set[socket.socket] = set()
        Thread(target=self._accept, name="made-pump", daemon=True).start()

    def hang_up(self) -> None:
        for one in list(self._open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.flows.set()
        self.hang_up()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._open.add(client)
                Thread(target=self._serve, args=(client,), name="made-pump-connection", daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            self.flows.wait()
            if client.recv(3, socket.MSG_PEEK) == b"GET":
                client.recv(65536)
                body = self._metrics()
                head = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
                client.sendall(head.encode() + body)
                return
            with socket.create_connection(("127.0.0.1", self._port)) as server:
                self._open.add(server)
                back = Thread(target=self._pass, args=(server, client), name="made-pump-back", daemon=True)
                back.start()
                self._pass(client, server)
                back.join()
        except OSError:
            pass
        finally:
            client.close()

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                self.flows.wait()
                target.sendall(data)
        for one in (source, target):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


# ---- recordings ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RecordedPumps:
    """`start_ts`: everything above it is in the streams. `registry` in the order of time."""

    start_ts: int
    sent: dict[str, Sequence[Sent]]
    registry: Sequence[Registered]

    def moments(self) -> list[int]:
        """Every wall clock at which something happens."""
        sent = {one.at_ms for sent in self.sent.values() for one in sent}
        return sorted(sent | {one.at_ms for one in self.registry})

    def merged(self) -> list[tuple[int, int]]:
        """(commit_ts, start_ts) of every transaction above `start_ts`, by the slow way: all of them, sorted, each once, without fakes."""
        result = set()
        for sent in self.sent.values():
            for one in sent:
                binlog = binlog_pb2.Binlog.FromString(one.payload)
                if binlog.start_ts != binlog.commit_ts and binlog.commit_ts > self.start_ts:
                    result.add((binlog.commit_ts, binlog.start_ts))
        return sorted(result)


def recorded_pumps(folder: Path) -> RecordedPumps:
    pumps = json.loads((folder / "pumps" / "pumps.json").read_text())
    sent: dict[str, Sequence[Sent]] = {}
    for pump in pumps["pumps"]:
        place = folder / "pumps" / pump["node_id"]
        payloads = _frames(gzip.decompress(Path(f"{place}.bin.gz").read_bytes()))
        lines = gzip.decompress(Path(f"{place}.arrivals.jsonl.gz").read_bytes()).splitlines()
        arrivals = [json.loads(line) for line in lines]
        assert len(payloads) == len(arrivals), place
        sent[pump["node_id"]] = [Sent(at, int(ts), payload) for (at, _, ts), payload in zip(arrivals, payloads, strict=True)]
    start_ts = int(json.loads((folder / "recording.json").read_text())["start_ts"])
    return RecordedPumps(start_ts, sent, list(_registered(pumps)))


def _registered(pumps: Any) -> Iterator[Registered]:
    """An entry says when it was written; a watcher saw it later."""
    for key, value in pumps["registry_before"].items():
        if "/pumps/" in key:
            yield Registered(0, node_of(key, value.encode()))
    for event in pumps["events"]:
        if event["event"] == "registry" and "/pumps/" in event["key"]:
            node = node_of(event["key"], event["value"].encode())
            yield Registered(min(event["at_ms"], physical_ms(node.update_ts)), node)


def _frames(data: bytes) -> list[bytes]:
    frames, at = [], 0
    while at < len(data):
        (size,) = _FRAME.unpack_from(data, at)
        frames.append(data[at + 4 : at + 4 + size])
        at += 4 + size
    return frames


class World:
    """A recording's pumps, before its first moment. Close it."""

    def __init__(self, recorded: RecordedPumps, registry: Registry, pd: MadePd) -> None:
        self.pumps = {node_id: MadePump(node_id, registry, sent=sent) for node_id, sent in recorded.sent.items()}
        self._registry, self._pd = registry, pd
        self._left = sorted(recorded.registry, key=lambda one: one.at_ms)
        self._entries: dict[str, Node] = {}
        self.advance(0)

    def __enter__(self) -> World:
        return self

    def __exit__(self, *ended: object) -> None:
        for pump in self.pumps.values():
            pump.kill()

    def advance(self, ms: int) -> None:
        while self._left and self._left[0].at_ms <= ms:
            node = self._left.pop(0).node
            self._entries[node.node_id] = node
            self._put(node)
        for pump in self.pumps.values():
            pump.arrive(ms)
        self._pd.reach(ms)

    def restart(self, node_id: str) -> None:
        """Killed, and started at another address."""
        self.pumps[node_id].kill()
        self.pumps[node_id].start()
        if node_id in self._entries:
            self._put(self._entries[node_id])

    def _put(self, node: Node) -> None:
        pump = self.pumps.get(node.node_id)
        self._registry.put(node if pump is None else replace(node, host=pump.host))
