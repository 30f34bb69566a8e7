"""Who may reach the push feed, and its server: as the control service, for whoever hands over key-values decides what is dumped.

    loopback            as it is, or with TLS, or with a token
    anywhere else       mutual TLS, or TLS with a token: nothing less is listened with

A token without TLS would cross the network for all to read. With a token every call needs it, `authorization: Bearer …`,
compared in constant time. With `tls.ca_file` every connection needs a certificate of that authority. There is no health
service: nobody may come without a token.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import grpc

from sidecar.config import PushSection, Tls, read_secret
from sidecar.errors import ConfigError


def interceptors(push: PushSection) -> Sequence[grpc.ServerInterceptor]:
    """What asks for the token, if there is one. Raises ConfigError for a token that no client could send, and for an address
    that needs more protection than it has."""
    token = read_secret(push.token_file)
    if push.token_file and (not token or not token.isascii() or not token.isprintable() or token != token.strip()):
        raise ConfigError(
            f"the token in push.token_file {push.token_file} is not one line of ASCII", hint="write one such as `openssl rand -hex 32`"
        )
    _check_listening(push.listen, push.tls, has_token=bool(token))
    return [_TokenInterceptor(token)] if token else []


def bind(server: Any, push: PushSection) -> int:
    """The port. Raises ConfigError."""
    tls = push.tls
    try:
        if not tls.cert_file:
            return int(server.add_insecure_port(push.listen))
        credentials = grpc.ssl_server_credentials(
            [(_read_pem(tls.key_file), _read_pem(tls.cert_file))],
            root_certificates=_read_pem(tls.ca_file) if tls.ca_file else None,
            require_client_auth=bool(tls.ca_file),
        )
        return int(server.add_secure_port(push.listen, credentials))
    except RuntimeError as error:  # grpc's only sign of a port that is taken or a certificate that it cannot use
        raise ConfigError(
            f"push.listen {push.listen} cannot be listened on: {error}",
            hint="see whether another process has the port, whether the address is this machine's, and whether the PEM files fit",
        ) from error


def _check_listening(listen: str, tls: Tls, *, has_token: bool) -> None:
    host, colon, port = listen.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise ConfigError(f"push.listen is {listen!r}, expected host:port", hint="use 127.0.0.1:8312, or [::]:8312 for all addresses")
    if bool(tls.cert_file) != bool(tls.key_file) or (tls.ca_file and not tls.cert_file):
        raise ConfigError(
            "push.tls needs cert_file and key_file together, and ca_file only with them",
            hint="give the server's certificate and key; add ca_file to ask senders for certificates",
        )
    if _is_loopback(host.strip("[]")) or (tls.cert_file and (tls.ca_file or has_token)):
        return
    missing = "a token goes over the network unencrypted" if has_token else "anybody who reaches it could write into the dump"
    raise ConfigError(
        f"push.listen is {listen}, beyond this machine, and {missing}",
        hint="set push.tls cert_file and key_file, with ca_file (mutual TLS) or push.token_file; or listen on 127.0.0.1",
    )


def _is_loopback(host: str) -> bool:
    """Without asking a resolver: other names are not."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _read_pem(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(
            f"the certificate or key {path} cannot be read: {error.strerror}", hint="make it a PEM file for this user"
        ) from error


class _TokenInterceptor(grpc.ServerInterceptor):  # type: ignore[misc]  # grpc ships no types
    def __init__(self, token: str) -> None:
        self._expected = f"Bearer {token}".encode()
        self._refuse = grpc.stream_stream_rpc_method_handler(_refuse)

    def intercept_service(self, continuation: Callable[[Any], Any], handler_call_details: Any) -> Any:
        given = dict(handler_call_details.invocation_metadata).get("authorization", "")
        data = given if isinstance(given, bytes) else given.encode()
        return continuation(handler_call_details) if hmac.compare_digest(data, self._expected) else self._refuse


def _refuse(requests: Any, context: grpc.ServicerContext) -> None:  # noqa: ARG001  # a handler's shape
    context.abort(
        grpc.StatusCode.UNAUTHENTICATED,
        "the token is missing or wrong\n  what to do: send metadata `authorization: Bearer …` with that of push.token_file",
    )
