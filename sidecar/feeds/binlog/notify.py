"""What a pump that comes calls on every drainer before it serves: Cistern/Notify. Answered when the registry has been read again, so that
the pump is a lane and holds the stream; else the pump receives an error and tries again.

A call makes the drainer look into PD, no more, and calls that come together share one look. So the caller needs no credentials, and the
server speaks TLS only where the cluster does.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from sidecar.shared.config import Tls
from sidecar.shared.process.listening import not_listening, server_options
from sidecar.shared.process.tls import server_credentials
from ticdc_dump.binlog import cistern_pb2, cistern_pb2_grpc

MESSAGE_BYTES_MAX = 64 << 10
CALLS_MAX = 8
NOTIFIED_S = 8.0
"""Pumps wait 10 s, three times."""


class NotifyServer:
    """`looked`: waits until the registry has been read after the call, so many seconds; whether it was. Close it."""

    def __init__(self, listen: str, tls: Tls, looked: Callable[[float], bool]) -> None:
        """Raises ConfigError for an address that cannot be listened on."""
        options = server_options(received_bytes_max=MESSAGE_BYTES_MAX, sent_bytes_max=MESSAGE_BYTES_MAX)
        self._server = grpc.server(ThreadPoolExecutor(CALLS_MAX, thread_name_prefix="binlog-notify"), options=options)
        cistern_pb2_grpc.add_CisternServicer_to_server(_Cistern(looked), self._server)  # type: ignore[no-untyped-call]  # generated without types
        try:
            if tls.cert_file:
                self.port = int(self._server.add_secure_port(listen, server_credentials(tls)))
            else:
                self.port = int(self._server.add_insecure_port(listen))
        except RuntimeError as error:  # grpc's only sign of a port that is taken or a certificate that it cannot use
            raise not_listening("binlog", listen) from error
        self._server.start()

    def close(self) -> None:
        self._server.stop(None)


class _Cistern(cistern_pb2_grpc.CisternServicer):
    def __init__(self, looked: Callable[[float], bool]) -> None:
        self._looked = looked

    def Notify(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802, ARG002  # the service's name, a handler's shape
        left_s = context.time_remaining()
        if not self._looked(NOTIFIED_S if left_s is None else min(left_s, NOTIFIED_S)):
            context.abort(grpc.StatusCode.UNAVAILABLE, "this drainer cannot read the registry: call again")
        return cistern_pb2.NotifyResp()
