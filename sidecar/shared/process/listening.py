"""Who may reach a server of this process: the rules that the control service, the push feed and the console share.

    loopback            as it is, or with TLS, or with a token
    anywhere else       mutual TLS, or TLS with a token: nothing less is listened with

A token without TLS would cross the network for all to read. With a token every call needs it, `authorization: Bearer …`,
compared in constant time; what answers without is named by the server that has it. With `tls.ca_file` every connection needs
a certificate of that authority. `section` is the name of the settings' section, for what an operator reads.

A connection comes before any token, so it costs little: there are a few hundred at most, who does not speak HTTP/2 within seconds is
sent away, and so is who has made no call for a minute. A token on loopback goes in plain text: it keeps other users of this machine
out, but for one who takes the port while no sidecar has it.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Literal

import grpc

from sidecar.shared.config import ConsoleSection, ControlSection, PushSection, Tls
from sidecar.shared.config_files import read_secret
from sidecar.shared.errors import ConfigError, with_hint
from sidecar.shared.process.addresses import bind_error
from sidecar.shared.process.descriptors import connections_max
from sidecar.shared.process.tls import server_credentials

TOKEN_LENGTH_MIN = 16
"""Characters: fewer can be guessed over the network, however slowly."""
TOKEN_LENGTH_MAX = 4096
"""Of a header's 8 KiB, beside the others."""
TOKEN_HINT = "write one such as `openssl rand -hex 32`"
HANDSHAKE_MS = 10_000
KEEPALIVE_MS = 10_000
"""How often a connection is pinged; one without an answer for as long is cut, and what it held is free."""
IDLE_MS = 60_000

SectionName = Literal["control", "push", "console"]
Settings = ControlSection | PushSection | ConsoleSection


@dataclass(frozen=True, slots=True)
class _Texts:
    """What differs for those who read an error. `peers`: who connects. `harm`: what one who may not could do there."""

    port: int
    peers: str
    harm: str
    give_token: str


_TEXTS: dict[SectionName, _Texts] = {
    "control": _Texts(8310, "clients", "stop the dump", "give the sidecar's own with --token-file or TICDC_DUMP_TOKEN"),
    "console": _Texts(8320, "browsers", "read what it shows", "log in with that of console.token_file"),
    "push": _Texts(8312, "senders", "write into the dump", "send metadata `authorization: Bearer …` with that of push.token_file"),
}


def interceptors(section: SectionName, settings: Settings, *, open_prefixes: Sequence[str] = ()) -> Sequence[grpc.ServerInterceptor]:
    """What asks for the token, if there is one; methods that begin so are open to all. Raises ConfigError for what is unsafe."""
    token = read_token(section, settings)
    check_listening(section, settings.listen, settings.tls, has_token=bool(token))
    return [TokenInterceptor(token, _TEXTS[section].give_token, open_prefixes)] if token else []


def server_options(*, received_bytes_max: int, sent_bytes_max: int) -> tuple[tuple[str, int], ...]:
    """gRPC's, for a server of ours. Of one message."""
    return (
        ("grpc.max_receive_message_length", received_bytes_max),
        ("grpc.max_send_message_length", sent_bytes_max),
        ("grpc.max_allowed_incoming_connections", connections_max()),
        ("grpc.server_handshake_timeout_ms", HANDSHAKE_MS),
        ("grpc.max_connection_idle_ms", IDLE_MS),
        ("grpc.keepalive_time_ms", KEEPALIVE_MS),
        ("grpc.keepalive_timeout_ms", KEEPALIVE_MS),
        ("grpc.http2.min_ping_interval_without_data_ms", KEEPALIVE_MS // 2),
        ("grpc.so_reuseport", 0),  # else a second sidecar would listen on the same port and get half of the calls
    )


def bind(section: SectionName, server: grpc.Server, settings: Settings) -> int:
    """The port. Raises ConfigError for files that are unreadable and an address that is taken."""
    tls = settings.tls
    try:
        if not tls.cert_file:
            return int(server.add_insecure_port(settings.listen))
        return int(server.add_secure_port(settings.listen, server_credentials(tls)))
    except RuntimeError as error:  # grpc's only sign of a port that is taken or a certificate that it cannot use
        raise not_listening(section, settings.listen) from error


def not_listening(section: str, listen: str) -> ConfigError:
    """What to raise where gRPC cannot listen there, whose own text is for its developers."""
    what = f"{section}.listen {listen} cannot be listened on"
    if (taken := bind_error(listen)) is not None:
        hint = f"see which process has the port (ss -ltnp), or set {section}.listen to a free port on an address of this machine"
        return ConfigError(f"{what}: {getattr(taken, 'strerror', None) or taken}", hint=hint)
    return ConfigError(f"{what} with the files of {section}.tls", hint="see whether certificate and key are PEM files that belong together")


def read_token(section: SectionName, settings: Settings) -> str:
    """Empty: none is required. Raises ConfigError for a token that nobody could send, and for one that could be guessed."""
    token = read_secret(settings.token_file)
    if settings.token_file and not token:
        raise ConfigError(f"{section}.token_file {settings.token_file} is empty", hint="write a token into it, or remove the setting")
    check_token(token, f"{section}.token_file {settings.token_file}")
    if 0 < len(token) < TOKEN_LENGTH_MIN:
        raise ConfigError(
            f"the token in {section}.token_file {settings.token_file} has {len(token)} characters, expected {TOKEN_LENGTH_MIN} at least",
            hint=TOKEN_HINT,
        )
    return token


def check_token(token: str, place: str) -> None:
    """For client and server: a token that no header can carry is refused before a call is made with it. Raises ConfigError."""
    if not token.isascii() or not token.isprintable() or token != token.strip():
        raise ConfigError(f"the token in {place} is not one line of ASCII", hint=TOKEN_HINT)
    if len(token) > TOKEN_LENGTH_MAX:
        raise ConfigError(
            f"the token in {place} has {len(token):,} characters, expected {TOKEN_LENGTH_MAX:,} at most: no call can carry it",
            hint=TOKEN_HINT,
        )


def check_listening(section: SectionName, listen: str, tls: Tls, *, has_token: bool) -> None:
    """Raises ConfigError for an address that needs more protection than it has, or that is none."""
    texts = _TEXTS[section]
    host, colon, port = listen.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise ConfigError(
            f"{section}.listen is {listen!r}, expected host:port",
            hint=f"use 127.0.0.1:{texts.port}, or [::]:{texts.port} for all addresses",
        )
    if bool(tls.cert_file) != bool(tls.key_file) or (tls.ca_file and not tls.cert_file):
        raise ConfigError(
            f"{section}.tls needs cert_file and key_file together, and ca_file only with them",
            hint=f"give the server's certificate and key; add ca_file to ask {texts.peers} for certificates",
        )
    if is_loopback(listen) or (tls.cert_file and (tls.ca_file or has_token)):
        return
    missing = "a token goes over the network unencrypted" if has_token else f"anybody who reaches it could {texts.harm}"
    raise ConfigError(
        f"{section}.listen is {listen}, beyond this machine, and {missing}",
        hint=f"set {section}.tls cert_file and key_file, with ca_file (mutual TLS) or {section}.token_file; or listen on 127.0.0.1",
    )


def is_loopback(address: str) -> bool:
    """Whether `host:port` is reached from this machine only, without asking a resolver: other names are not."""
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class TokenInterceptor(grpc.ServerInterceptor):  # type: ignore[misc]  # grpc ships no types
    """Each call needs `token`, but those of methods that begin so. `hint`: for who has none."""

    def __init__(self, token: str, hint: str, open_prefixes: Sequence[str] = ()) -> None:
        self._authorization = f"Bearer {token}".encode()
        self._open = tuple(open_prefixes)
        self._text = with_hint("the token is missing or wrong", hint)
        # Of this shape for methods of every shape: the others would wait for a request before they refuse.
        self._refusing = grpc.stream_stream_rpc_method_handler(self._refuse)

    def intercept_service(self, continuation: Callable[[Any], Any], handler_call_details: Any) -> Any:
        if handler_call_details.method.startswith(self._open):
            return continuation(handler_call_details)
        given = [value for key, value in handler_call_details.invocation_metadata if key == "authorization"]
        data = given[0] if len(given) == 1 else b""  # of two nobody can say which one counts
        data = data if isinstance(data, bytes) else data.encode()
        return continuation(handler_call_details) if hmac.compare_digest(data, self._authorization) else self._refusing

    def _refuse(self, requests: Any, context: grpc.ServicerContext) -> None:  # noqa: ARG002  # a handler's shape
        context.abort(grpc.StatusCode.UNAUTHENTICATED, self._text)
