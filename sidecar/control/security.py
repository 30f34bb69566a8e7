"""The control service's server: it listens by the rules of `sidecar.shared.process.listening`, beside health and reflection.

- With a token every call needs it; only the health service answers without, for probes that have none. Who watches health takes few
  places, so that nobody without a token can take those of calls.
- Health says two things: the process as a whole serves, and the control service serves where it owns the changefeed.
- All amounts are bounded: threads, calls under way, bytes of a message, connections.
- The port is this server's alone: a second sidecar on it is refused, and does not share its calls.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import BoundedSemaphore
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from sidecar.control.answers import REQUEST_BYTES_MAX, RESPONSE_BYTES_MAX
from sidecar.control.service import WATCHERS_MAX, ControlService
from sidecar.control.subscribe import SUBSCRIBERS_AT_ONCE_MAX
from sidecar.shared.config import ControlSection
from sidecar.shared.process.listening import bind, interceptors, server_options
from ticdc_dump.v1 import control_pb2 as pb
from ticdc_dump.v1 import control_pb2_grpc

SERVICE_NAME: str = pb.DESCRIPTOR.services_by_name["Control"].full_name
HEALTH_PREFIX = f"/{health.SERVICE_NAME}/"
THREADS = WATCHERS_MAX + SUBSCRIBERS_AT_ONCE_MAX + 16
CALLS_MAX = 4 * THREADS
STOP_GRACE_S = 3.0
HEALTH_WATCHERS_MAX = 16


@dataclass(frozen=True, slots=True)
class ControlServer:
    """A server that listens. `port`: the one it got, where the setting's is 0."""

    server: Any
    port: int
    service: ControlService
    _health: Any
    _threads: ThreadPoolExecutor

    def owner(self, *, owns: bool) -> None:
        """Tell the health service whether this process owns its changefeed. The process as a whole serves in either case."""
        status = health_pb2.HealthCheckResponse.SERVING if owns else health_pb2.HealthCheckResponse.NOT_SERVING
        self._health.set(SERVICE_NAME, status)

    def close(self, *, grace_s: float = STOP_GRACE_S) -> None:
        """Take no new calls, end the watches, let the rest finish for `grace_s`, then cut them off."""
        self._health.enter_graceful_shutdown()
        stopped = self.server.stop(grace_s)
        self.service.close()
        stopped.wait()
        self._threads.shutdown(wait=False)


class _Health(health.HealthServicer):  # type: ignore[misc]  # grpc ships no types
    """Watches are bounded: each is a call under way for as long as its caller likes."""

    def __init__(self) -> None:
        super().__init__()
        self._watching = BoundedSemaphore(HEALTH_WATCHERS_MAX)

    def Watch(self, request: Any, context: Any, send_response_callback: Any = None) -> Any:  # noqa: N802  # as gRPC names it
        if not self._watching.acquire(blocking=False):
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, f"{HEALTH_WATCHERS_MAX} watch the health of this sidecar already: use Check")
        if not context.add_callback(self._watching.release):
            self._watching.release()
        return super().Watch(request, context, send_response_callback)


def serve(service: ControlService, control: ControlSection) -> ControlServer:
    """Listen as the settings say. Raises ConfigError for what is unsafe, unreadable, or taken by another process."""
    asking = interceptors("control", control, open_prefixes=[HEALTH_PREFIX])
    threads = ThreadPoolExecutor(THREADS, thread_name_prefix="control")
    server = grpc.server(
        threads,
        interceptors=asking,
        maximum_concurrent_rpcs=CALLS_MAX,
        options=server_options(received_bytes_max=REQUEST_BYTES_MAX, sent_bytes_max=RESPONSE_BYTES_MAX),
    )
    control_pb2_grpc.add_ControlServicer_to_server(service, server)  # type: ignore[no-untyped-call]  # generated without types
    checks = _Health()
    health_pb2_grpc.add_HealthServicer_to_server(checks, server)
    reflection.enable_server_reflection((SERVICE_NAME, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
    port = bind("control", server, control)
    listening = ControlServer(server, port, service, checks, threads)
    listening.owner(owns=False)
    server.start()
    return listening
