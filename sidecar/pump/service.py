"""What TiDB and drainers ask by gRPC (proto/ticdc_dump/binlog/pump.proto), in one event loop.

- WriteBinlog is answered when the storage says that it is durable; all that one sync made so are answered at once. An empty payload
  asks whether we are there. Prewrites are for a pump that is online, ends are taken in every state: their prewrites are here.
- PullBinlogs never ends. A drainer that does not read is waited for, by its stream alone.
- TiDB takes every refusal but RESOURCE_EXHAUSTED for a reason to write to another pump; so only what is too large for any is that.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from sidecar.binlog.nodes import NodeState
from sidecar.pump.metrics import Metrics
from sidecar.pump.record import PREWRITE, binlog_of
from sidecar.pump.storage import PAYLOAD_BYTES_MAX, Storage
from sidecar.shared.errors import LogBroken, RefusedRequest, TicdcDumpError
from ticdc_dump.binlog import pump_pb2 as pb
from ticdc_dump.binlog import pump_pb2_grpc

READERS_AT_ONCE = 8
"""Looks into the storage under way, of all pullers."""
PULL_LOOK_S = 1.0
_WRITTEN = pb.WriteBinlogResp()


class PumpService(pump_pb2_grpc.PumpServicer):
    """Made in the event loop. `state`: the pump's."""

    def __init__(self, storage: Storage, cluster_id: int, state: Callable[[], NodeState], metrics: Metrics) -> None:
        self._storage, self._cluster_id, self._state, self._metrics = storage, cluster_id, state, metrics
        self._loop = asyncio.get_running_loop()
        self._outcomes: deque[tuple[asyncio.Future[None], Exception | None]] = deque()
        self._risen = asyncio.Event()
        self._pool = ThreadPoolExecutor(READERS_AT_ONCE, thread_name_prefix="pump-readers")
        self.writes = 0
        """All that came, also what was refused and probes."""
        self.is_ending = False

    def risen(self) -> None:
        """The storage's mark rose; called by its thread."""
        self._loop.call_soon_threadsafe(self._wake)

    def end_pulls(self) -> None:
        """Each when it has all that is here."""
        self.is_ending = True
        self._wake()

    def close(self) -> None:
        self._pool.shutdown()

    # ---- the calls, as gRPC names them -----------------------------------------------------------------------------

    async def WriteBinlog(self, request: pb.WriteBinlogReq, context: Any) -> pb.WriteBinlogResp:  # noqa: N802
        begun_s = time.perf_counter()
        self.writes += 1
        label = "fail"
        try:
            await self._check_cluster(request.clusterID, context)
            await self._write(request.payload, context)
            label = "succ"
        finally:
            self._metrics.rpc("WriteBinlog", label, time.perf_counter() - begun_s)
        return _WRITTEN

    async def PullBinlogs(self, request: pb.PullBinlogReq, context: Any) -> AsyncIterator[pb.PullBinlogResp]:  # noqa: N802
        await self._check_cluster(request.clusterID, context)
        reader = await self._loop.run_in_executor(self._pool, self._storage.reader)
        self._metrics.pullers += 1
        try:
            after_ts = request.startFrom.offset
            while True:
                risen = self._risen
                binlogs, upto_ts = await self._loop.run_in_executor(self._pool, reader.read, after_ts)
                for start_ts, commit_ts, payload in binlogs:
                    meta = pb.Meta(startTs=start_ts, commitTs=commit_ts)
                    yield pb.PullBinlogResp(entity=pb.Entity(payload=payload, meta=meta))
                if upto_ts <= after_ts:
                    if self.is_ending:
                        return
                    await _waited(risen)
                after_ts = max(after_ts, upto_ts)
        except LogBroken as error:
            await context.abort(grpc.StatusCode.DATA_LOSS, str(error))
        finally:
            self._metrics.pullers -= 1
            self._pool.submit(reader.close)  # a look may still be under way

    async def _write(self, payload: bytes, context: Any) -> None:
        try:
            binlog = binlog_of(payload)
            if binlog.start_ts == 0 and binlog.commit_ts == 0:
                return
            if binlog.kind == PREWRITE and (state := self._state()) != NodeState.ONLINE:
                raise RefusedRequest(f"no online: {state.value}", hint="prewrites are for pumps that are online in the registry")
            written: asyncio.Future[None] = self._loop.create_future()
            self._storage.submit(binlog, lambda error: self._notify(written, error))
            await written
        except DecodeError as error:
            await context.abort(grpc.StatusCode.UNKNOWN, f"the payload is no binlog: {error}")
        except RefusedRequest as error:
            is_large = len(payload) > PAYLOAD_BYTES_MAX
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED if is_large else grpc.StatusCode.UNKNOWN, error.message)
        except TicdcDumpError as error:
            await context.abort(grpc.StatusCode.UNKNOWN, error.message)

    async def _check_cluster(self, given: int, context: Any) -> None:
        if given != self._cluster_id:
            await context.abort(grpc.StatusCode.UNKNOWN, f"cluster ID are mismatch, {given} vs {self._cluster_id}")

    def _notify(self, written: asyncio.Future[None], error: Exception | None) -> None:
        """By the storage's thread: the loop is woken once for all that comes in one go."""
        self._outcomes.append((written, error))
        if len(self._outcomes) == 1:
            self._loop.call_soon_threadsafe(self._answer)

    def _answer(self) -> None:
        while self._outcomes:
            written, error = self._outcomes.popleft()
            if written.done():
                continue  # the caller has gone
            if error is None:
                written.set_result(None)
            else:
                written.set_exception(error)

    def _wake(self) -> None:
        self._risen.set()
        self._risen = asyncio.Event()


async def _waited(risen: asyncio.Event) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(PULL_LOOK_S):
            await risen.wait()
