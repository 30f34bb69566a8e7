"""The pump: prewrites and commits from many sessions, each answered when it is on the disk.

The reference is an empty handler of the same server behind the same front in the same run: what gRPC in Python, the front and the client
cost before anybody looks at a binlog. Servers are processes of their own, and so is the client of both. p50 and p99 are at half of what
each can take.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple

import grpc

from sidecar.pump.app import OPTIONS
from sidecar.pump.front import Front, PumpAnswer, listening
from tests.support.pump_rig import PumpProcess, made_cluster
from tests.support.services.etcd import Etcd
from tests.support.services.ports import free_port
from tests.support.tikv.cluster import CLUSTER_ID
from tests.tools.bench.bench import Bench
from tests.tools.bench.figures import REPEATS, Figure, percentile
from tests.unit.pump.test_storage import commit, prewrite
from ticdc_dump.binlog import pump_pb2, pump_pb2_grpc

WRITES = 20_000
SESSIONS, CHANNELS = 64, 4
"""A TiDB server has a channel to each pump; 64 sessions commit at once."""
VALUE = bytes(300)
"""About what a row takes."""


class Load(NamedTuple):
    writes_per_s: float
    p50_ms: float
    p99_ms: float


def measure(bench: Bench) -> Iterator[Figure]:
    """Writes a second, and how long one takes at half of that."""
    count = bench.sized(WRITES)
    with ExitStack() as held:
        pump, empty = held.enter_context(_pump()), held.enter_context(_empty())
        _client(pump, count // 4, 0)
        loads = [(_client(pump, count, 0), _client(empty, count, 0)) for _ in range(REPEATS)]
        most, most_empty = max(load[0].writes_per_s for load in loads), max(load[1].writes_per_s for load in loads)
        half, half_empty = _client(pump, count // 2, most / 2), _client(empty, count // 2, most_empty / 2)
    yield Figure(
        "pump: binlogs written, durable",
        most,
        "writes/s",
        "≥ 0.5 × reference",
        "one core of the pump, most of it gRPC in Python",
        reference=f"empty handler of the same server {most_empty:,.0f} writes/s",
        ratio=most / most_empty,
    )
    for name, value, beside in (("p50", half.p50_ms, half_empty.p50_ms), ("p99", half.p99_ms, half_empty.p99_ms)):
        yield Figure(
            f"pump: a write at half load, {name}", value, "ms", "", "a sync of the disk", reference=f"empty handler {beside:,.2f} ms",
            ratio=beside / value,
        )  # fmt: skip


@contextmanager
def _pump() -> Iterator[str]:
    with (
        tempfile.TemporaryDirectory() as folder,
        Etcd(Path(folder) / "etcd") as etcd,
        made_cluster() as servers,
        PumpProcess(Path(folder), etcd, servers, free_port()) as pump,
    ):
        yield pump.address


@contextmanager
def _empty() -> Iterator[str]:
    address = f"127.0.0.1:{free_port()}"
    process = subprocess.Popen([sys.executable, "-m", "tests.tools.bench.pump", "empty", address], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    try:
        yield address
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def _client(address: str, count: int, per_s: float) -> Load:
    """In a process of its own. `per_s` 0: as many as are answered."""
    command = [sys.executable, "-m", "tests.tools.bench.pump", "client", address, str(count), str(per_s)]
    return Load(*json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout))


class _Empty(pump_pb2_grpc.PumpServicer):
    async def WriteBinlog(self, request: Any, context: Any) -> Any:  # noqa: N802  # the service's name
        return pump_pb2.WriteBinlogResp()


async def _serve_empty(address: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        server = grpc.aio.server(options=OPTIONS)
        pump_pb2_grpc.add_PumpServicer_to_server(_Empty(), server)  # type: ignore[no-untyped-call]  # generated without types
        server.add_insecure_port(f"unix:{folder}/grpc")
        await server.start()
        await Front(listening(address), None, f"{folder}/grpc", _no_pages).serve()
        sys.stdout.write("serving\n")
        sys.stdout.flush()
        await server.wait_for_termination()


async def _no_pages(_method: str, _path: str) -> PumpAnswer:
    return PumpAnswer(HTTPStatus.NOT_FOUND, "text/plain", b"")


async def _load(address: str, count: int, per_s: float) -> Load:
    options = (("grpc.use_local_subchannel_pool", 1),)
    channels = [grpc.aio.insecure_channel(address, options) for _ in range(CHANNELS)]
    calls = [pump_pb2_grpc.PumpStub(channel).WriteBinlog for channel in channels]  # type: ignore[no-untyped-call]  # generated
    took_ms: list[float] = []
    begun_s = time.perf_counter()

    async def session(number: int, write: Callable[[Any], Awaitable[Any]]) -> None:
        for turn in range(count // SESSIONS // 2):
            start_ts = (time.time_ns() // 1_000_000 << 18) + turn * SESSIONS * 2 + number * 2
            for step, binlog in enumerate((prewrite(start_ts, VALUE), commit(start_ts, start_ts + 1))):
                if per_s:
                    due_s = begun_s + ((turn * 2 + step) * SESSIONS + number) / per_s
                    await asyncio.sleep(max(0.0, due_s - time.perf_counter()))
                request = pump_pb2.WriteBinlogReq(clusterID=CLUSTER_ID, payload=binlog.payload)
                sent_s = time.perf_counter()
                await write(request)
                took_ms.append((time.perf_counter() - sent_s) * 1000)

    await asyncio.gather(*(session(number, calls[number % CHANNELS]) for number in range(SESSIONS)))
    wall_s = time.perf_counter() - begun_s
    for channel in channels:
        await channel.close()
    return Load(len(took_ms) / wall_s, percentile(took_ms, 0.5), percentile(took_ms, 0.99))


if __name__ == "__main__":
    if sys.argv[1] == "empty":
        asyncio.run(_serve_empty(sys.argv[2]))
    else:
        sys.stdout.write(json.dumps(asyncio.run(_load(sys.argv[2], int(sys.argv[3]), float(sys.argv[4])))))
