"""Who may reach the control service, and the server itself.

    loopback            as it is, or with TLS, or with a token
    anywhere else       mutual TLS, or TLS with a token: nothing less is listened with

A token without TLS would cross the network for all to read. With a token every call needs it, `authorization: Bearer …`,
compared in constant time; only the health service answers without, for probes that have none. With `ca_file` every
connection needs a certificate of that authority. All amounts are bounded: threads, calls under way, bytes of a message.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from sidecar.config import ControlSection, Tls, read_secret
from sidecar.control.service import WATCHERS_MAX, ControlService
from sidecar.errors import ConfigError
from ticdc_dump.v1 import control_pb2 as pb
from ticdc_dump.v1 import control_pb2_grpc

SERVICE_NAME: str = pb.DESCRIPTOR.services_by_name["Control"].full_name
HEALTH_PREFIX = f"/{health.SERVICE_NAME}/"
THREADS = WATCHERS_MAX + 16
CALLS_MAX = 4 * THREADS
REQUEST_BYTES_MAX = 16 << 20
"""A hundred thousand keys."""
RESPONSE_BYTES_MAX = 64 << 20
"""The status of ten thousand tables with the longest names that TiDB takes."""
KEEPALIVE_MS = 10_000
"""How often a client asks whether the server is still there; the server takes twice as many."""
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
    token = read_token(control)
    check_listening(control.listen, control.tls, has_token=bool(token))
    threads = ThreadPoolExecutor(THREADS, thread_name_prefix="control")
    server = grpc.server(
        threads,
        interceptors=[TokenInterceptor(token)] if token else [],
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
    port = _bind(server, control)
    listening = ControlServer(server, port, service, checks, threads)
    listening.owner(owns=False)
    server.start()
    return listening


def read_token(control: ControlSection) -> str:
    """Empty: none is asked for. Raises ConfigError for a token that no client could send."""
    token = read_secret(control.token_file)
    if control.token_file and not token:
        raise ConfigError(f"control.token_file {control.token_file} is empty", hint="write a token into it, or remove the setting")
    if not token.isascii() or not token.isprintable() or token != token.strip():
        raise ConfigError(f"the token in {control.token_file} is not one line of ASCII", hint="write one such as `openssl rand -hex 32`")
    return token


def check_listening(listen: str, tls: Tls, *, has_token: bool) -> None:
    """Raises ConfigError for an address that needs more protection than it has, or that is none."""
    host, colon, port = listen.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise ConfigError(f"control.listen is {listen!r}, expected host:port", hint="use 127.0.0.1:8310, or [::]:8310 for all addresses")
    if bool(tls.cert_file) != bool(tls.key_file) or (tls.ca_file and not tls.cert_file):
        raise ConfigError(
            "control.tls needs cert_file and key_file together, and ca_file only with them",
            hint="give the server's certificate and key; add ca_file to ask clients for certificates",
        )
    if is_loopback(listen) or (tls.cert_file and (tls.ca_file or has_token)):
        return
    missing = "a token goes over the network unencrypted" if has_token else "anybody who reaches it could stop the dump"
    raise ConfigError(
        f"control.listen is {listen}, beyond this machine, and {missing}",
        hint="set control.tls cert_file and key_file, with ca_file (mutual TLS) or control.token_file; or listen on 127.0.0.1",
    )


def is_loopback(address: str) -> bool:
    """Whether `host:port` is reached from this machine only, without asking a resolver: other names are not."""
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class TokenInterceptor(grpc.ServerInterceptor):  # type: ignore[misc]  # grpc ships no types
    def __init__(self, token: str) -> None:
        self._expected = f"Bearer {token}".encode()
        self._refuse = grpc.unary_unary_rpc_method_handler(_refuse)

    def intercept_service(self, continuation: Callable[[Any], Any], handler_call_details: Any) -> Any:
        if handler_call_details.method.startswith(HEALTH_PREFIX):
            return continuation(handler_call_details)
        given = dict(handler_call_details.invocation_metadata).get("authorization", "")
        data = given if isinstance(given, bytes) else given.encode()
        return continuation(handler_call_details) if hmac.compare_digest(data, self._expected) else self._refuse


def _refuse(request: Any, context: grpc.ServicerContext) -> None:  # noqa: ARG001  # a handler's shape
    context.abort(
        grpc.StatusCode.UNAUTHENTICATED,
        "the token is missing or wrong\n  what to do: give the sidecar's own with --token-file or TICDC_DUMP_TOKEN",
    )


def _bind(server: Any, control: ControlSection) -> int:
    tls = control.tls
    try:
        if not tls.cert_file:
            return int(server.add_insecure_port(control.listen))
        credentials = grpc.ssl_server_credentials(
            [(read_pem(tls.key_file), read_pem(tls.cert_file))],
            root_certificates=read_pem(tls.ca_file) if tls.ca_file else None,
            require_client_auth=bool(tls.ca_file),
        )
        return int(server.add_secure_port(control.listen, credentials))
    except RuntimeError as error:  # grpc's only sign of a port that is taken or a certificate that it cannot use
        raise ConfigError(
            f"control.listen {control.listen} cannot be listened on: {error}",
            hint="see whether another process has the port, whether the address is this machine's, and whether the PEM files fit",
        ) from error


def read_pem(path: str) -> bytes:
    """Raises ConfigError."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(
            f"the certificate or key {path} cannot be read: {error.strerror}", hint="make it a PEM file for this user"
        ) from error
