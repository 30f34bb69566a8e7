"""The control service's server: it listens by the rules of `sidecar.process.listening`, beside health and reflection.

- With a token every call needs it; only the health service answers without, for probes that have none.
- Health says two things: the process as a whole serves, and the control service serves where it owns the changefeed.
- All amounts are bounded: threads, calls under way, bytes of a message.
- The port is this server's alone: a second sidecar on it is refused, and does not share its calls.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from sidecar.config import ControlSection
from sidecar.control.answers import KEEPALIVE_MS, REQUEST_BYTES_MAX, RESPONSE_BYTES_MAX
from sidecar.control.service import WATCHERS_MAX, ControlService
from sidecar.process.listening import bind, interceptors
from ticdc_dump.v1 import control_pb2 as pb
from ticdc_dump.v1 import control_pb2_grpc

SERVICE_NAME: str = pb.DESCRIPTOR.services_by_name["Control"].full_name
HEALTH_PREFIX = f"/{health.SERVICE_NAME}/"
THREADS = WATCHERS_MAX + 16
CALLS_MAX = 4 * THREADS
STOP_GRACE_S = 3.0


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


def serve(service: ControlService, control: ControlSection) -> ControlServer:
    """Listen as the settings say. Raises ConfigError for what is unsafe, unreadable, or taken by another process."""
    asking = interceptors("control", control, open_prefixes=[HEALTH_PREFIX])
    threads = ThreadPoolExecutor(THREADS, thread_name_prefix="control")
    server = grpc.server(
        threads,
        interceptors=asking,
        maximum_concurrent_rpcs=CALLS_MAX,
        options=(
            ("grpc.max_receive_message_length", REQUEST_BYTES_MAX),
            ("grpc.max_send_message_length", RESPONSE_BYTES_MAX),
            ("grpc.http2.min_ping_interval_without_data_ms", KEEPALIVE_MS // 2),
            ("grpc.so_reuseport", 0),  # else a second sidecar would listen on the same port and get half of the calls
        ),
    )
    control_pb2_grpc.add_ControlServicer_to_server(service, server)  # type: ignore[no-untyped-call]  # generated without types
    checks = health.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(checks, server)
    reflection.enable_server_reflection((SERVICE_NAME, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
    port = bind("control", server, control)
    listening = ControlServer(server, port, service, checks, threads)
    listening.owner(owns=False)
    server.start()
    return listening
