"""An http: sink by its URI, `https://receiver.example/orders?token-file=…`: with parameters of ours behind the `?`."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote, urlunsplit

from sidecar.errors import SinkError
from sidecar.process.kept_secrets import keep
from spark_merge.contract import Sink
from spark_merge.sinks.http.client import SECRET_KIND, Receiver, secret_of
from spark_merge.sinks.http.sink import HttpSink
from spark_merge.sinks.http.writer import Limits
from spark_merge.sinks.kind import SinkKind, SinkUri
from spark_merge.sinks.parameters import Parameters

PARAMETERS = frozenset({"token-file", "ca", "cert", "key", "timeout", "compression", "body-bytes", "body-rows"})
BODY_BYTES_MIN, BODY_BYTES_MAX = 1_000, 1 << 30
BODY_ROWS_MAX = 1_000_000
TIMEOUT_S = 60


def receiver_of(uri: SinkUri) -> Receiver:
    """Asks nobody. Raises SinkError. A password is kept here, in this process and those that it starts."""
    parts, found, given = uri.parts, uri.parameters, Parameters(uri.parameters)
    try:
        named = bool(parts.hostname) and parts.port != 0
    except ValueError:
        named = False
    if not named:
        raise SinkError(f"a {parts.scheme}: sink's URI has no usable host and port", hint=f"write {parts.scheme}://host:port/path")
    if parts.scheme != "https" and any(name in found for name in ("ca", "cert", "key")):
        raise SinkError("ca, cert and key are of TLS, and the sink's URI is http:", hint="write https:, or leave them out")
    if "key" in found and "cert" not in found:
        raise SinkError("key= without cert=", hint="name both, or a cert that has its key in the same file")
    if parts.username is not None and "token-file" in found:
        raise SinkError("a user and a token-file in one sink's URI", hint="give one of them")
    if (parts.username is None) != (parts.password is None):
        raise SinkError("a user without a password in the sink's URI, or a password alone", hint="write user:password@, or token-file=")
    url = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path or "/", "", ""))
    receiver = Receiver(
        url=url,
        user=unquote(parts.username or ""),
        token_file=found.get("token-file", ""),
        ca=found.get("ca", ""),
        cert=found.get("cert", ""),
        key=found.get("key", ""),
        timeout_s=int(given.seconds("timeout", TIMEOUT_S)),
        gzip=given.one_of("compression", ("none", "gzip")) == "gzip",
    )
    if receiver.user:
        keep(SECRET_KIND, secret_of(receiver), unquote(parts.password or ""))
    return receiver


def limits_of(given: Mapping[str, str]) -> Limits:
    found = Parameters(given)
    return Limits(
        found.number("body-bytes", Limits().bytes_max, BODY_BYTES_MAX, least=BODY_BYTES_MIN),
        found.number("body-rows", Limits().rows_max, BODY_ROWS_MAX),
    )


def _open(uri: SinkUri) -> Sink:
    return HttpSink(receiver_of(uri), limits_of(uri.parameters), log_id=uri.log_id)


def _leaves(_: SinkUri) -> str:
    return "the state that the receiver keeps for this URL, for a sink that is not to go on"


HTTP = SinkKind(_open, PARAMETERS, leaves=_leaves)
