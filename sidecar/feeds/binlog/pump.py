"""One pump's stream, and the thread that reads it.

- It begins above what was read last, every time; a pump sends in the order of commit_ts, also over connections, and one that does not
  stops the feed: what was released cannot be sorted any more.
- The first answer of each beginning counts after the pump has reported what it has removed (gaps.py): a pump that had removed nothing of
  what is to come by then had not when it began to send.
- A pump that cannot be reached is tried again for ever, at the address that its entry names by then: it holds the stream, and `why` says
  so. Only one that is offline, with binlogs that were never read, is given up after `gone_s`: nobody will start it again.
- A thread that waits on a dead connection does not see that. `follow` receives the pump's entry again and again; where that names another
  address, or more binlogs than have come for SILENT_S, the call is ended and begun again.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Lock
from time import monotonic
from typing import Any, NamedTuple

import grpc
from google.protobuf.message import DecodeError

from sidecar.binlog.nodes import OFFLINE, Node
from sidecar.feeds.binlog.channel import Connect, refusal, status_text
from sidecar.feeds.binlog.gaps import Metrics, check_kept
from sidecar.shared.errors import FeedLost, FeedUnsuitable, MessageUnreadable
from sidecar.shared.model.nouns import CommitTs
from sidecar.shared.process.background import Background
from ticdc_dump.binlog import binlog_pb2, pump_pb2, pump_pb2_grpc

WAITS_S = 0.1, 0.5, 1.0
"""Before the next try, by how many have failed in a row."""

SILENT_S = 15.0
"""Longer than a pump takes from its entry's max_commit_ts to sending it."""

Deliver = Callable[[CommitTs, bytes], bool]
"""Waits for room. False: nothing more is needed."""


class Reaching(NamedTuple):
    """How pumps are reached. `gone_s`: how long an offline pump is tried."""

    cluster_id: int
    connect: Connect
    metrics: Metrics
    gone_s: float


class PumpStream:
    """Reads from `after_ts` on, at once. `received_ts`: what came last. `why`: what keeps it from reading; empty: nothing does."""

    def __init__(self, node: Node, after_ts: CommitTs, reaching: Reaching, deliver: Deliver) -> None:
        self.node = node
        self.received_ts = after_ts
        self.why = "it is being connected to"
        self._reaching = reaching
        self._deliver = deliver
        self._lock = Lock()
        self._call: Any = None
        self._host = ""
        self._ended = False
        self._waits_since_s: float | None = None
        self._reading = Background(self._run, name=f"binlog-{node.node_id}")
        self.check = self._reading.check

    def follow(self, node: Node) -> None:
        """The pump's entry as it is now."""
        self.node = node
        since_s = self._waits_since_s
        silent = since_s is not None and monotonic() - since_s > SILENT_S and node.max_commit_ts > self.received_ts
        with self._lock:
            if self._call is not None and (silent or node.host != self._host):
                self._call.cancel()

    def close(self, *, wait_s: float) -> None:
        """The backlog's lane is closed before: a thread that waits for room must not block this."""
        with self._lock:
            self._ended = True
            if self._call is not None:
                self._call.cancel()
        self._reading.close(wait_s)

    # ---- the thread -------------------------------------------------------------------------------------------------

    def _run(self, ending: Event) -> None:
        failed, since_s = 0, monotonic()
        while not ending.is_set():
            before_ts = self.received_ts
            try:
                if not self._pull():
                    return
                self.why = "its stream ended"
            except grpc.RpcError as error:
                what = f"pump {self.node.node_id} ({self._host})"
                if refused := refusal(error, what, self._reaching.cluster_id):
                    raise refused from error
                self.why = status_text(error)
            except FeedLost as error:
                self.why = error.message
            if self.received_ts > before_ts:
                failed, since_s = 0, monotonic()
            elif self.node.state == OFFLINE and monotonic() - since_s > self._reaching.gone_s:
                raise _gone(self.node, self.received_ts, self.why)
            ending.wait(WAITS_S[min(failed, len(WAITS_S) - 1)])
            failed += 1

    def _pull(self) -> bool:
        """Until the stream ends. False: nothing more is needed."""
        host = self.node.host
        with self._reaching.connect(host) as channel:
            stub = pump_pb2_grpc.PumpStub(channel)  # type: ignore[no-untyped-call]  # generated without types
            request = pump_pb2.PullBinlogReq(clusterID=self._reaching.cluster_id, startFrom=pump_pb2.Pos(offset=self.received_ts))
            with self._lock:
                if self._ended:
                    return False
                self._host, self._call = host, stub.PullBinlogs(request)
            try:
                return self._read(self._call)
            finally:
                self._waits_since_s = None
                with self._lock:
                    self._call.cancel()
                    self._call = None

    def _read(self, call: Any) -> bool:
        self._waits_since_s = monotonic()
        is_requested = False
        for answer in call:
            self._waits_since_s = None
            if not is_requested:
                check_kept(self._reaching.metrics, self.node, self.received_ts)
                is_requested = True
            self.why = ""
            payload = answer.entity.payload
            commit_ts = CommitTs(answer.entity.meta.commitTs or _commit_ts(payload, self.node))
            if commit_ts <= self.received_ts:
                raise MessageUnreadable(
                    f"pump {self.node.node_id} ({self._host}) sent commit_ts {commit_ts} after {self.received_ts}: pumps send in order",
                    hint="see what the pump reads from: restored or mixed data; begin a new log with new sinks and dump again",
                )
            if not self._deliver(commit_ts, payload):
                return False
            self.received_ts = commit_ts
            self._waits_since_s = monotonic()
        return True


def _commit_ts(payload: bytes, node: Node) -> int:
    """For pumps that are too old to tell it beside."""
    try:
        return int(binlog_pb2.Binlog.FromString(payload).commit_ts)
    except DecodeError as error:
        raise MessageUnreadable(
            f"pump {node.node_id} ({node.host}) sent {len(payload)} bytes that are no binlog", hint="report this with the pump's version"
        ) from error


def _gone(node: Node, received_ts: CommitTs, why: str) -> FeedUnsuitable:
    return FeedUnsuitable(
        f"pump {node.node_id} ({node.host}) is offline, and of its binlogs those from TSO {received_ts} to {node.max_commit_ts} were never "
        f"read: {why}",
        hint="start it again on its data, and let it go offline (binlogctl -cmd offline-pump) once they are read; if its data are gone, "
        "begin a new log with new sinks and dump again",
    )
