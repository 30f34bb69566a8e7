"""An http: sink by its URI, `https://receiver.example/orders?token-file=…`: with parameters of ours behind the `?`."""

from __future__ import annotations

from urllib.parse import unquote, urlunsplit

from sidecar.shared.errors import SinkError
from sidecar.shared.process.kept_secrets import keep
from spark_merge.port.contract import Sink
from spark_merge.port.kinds import SinkKind, SinkUri
from spark_merge.sinks.http.client import SECRET_KIND, Receiver, secret_of
from spark_merge.sinks.http.sink import HttpSink
from spark_merge.sinks.http.writer import BodyLimits
from spark_merge.sinks.kit.options import names_of, read


def receiver_of(uri: SinkUri) -> Receiver:
    """Asks nobody. Raises SinkError. A password is kept here, in this process and those that it starts."""
    parts, given = uri.parts, uri.parameters
    try:
        named = bool(parts.hostname) and parts.port != 0
    except ValueError:
        named = False
    if not named:
        raise SinkError(f"a {parts.scheme}: sink's URI has no usable host and port", hint=f"write {parts.scheme}://host:port/path")
    if parts.scheme != "https" and any(name in given for name in ("ca", "cert", "key")):
        raise SinkError("ca, cert and key are of TLS, and the sink's URI is http:", hint="write https:, or leave them out")
    if "key" in given and "cert" not in given:
        raise SinkError("key= without cert=", hint="name both, or a cert that has its key in the same file")
    if parts.username is not None and "token-file" in given:
        raise SinkError("a user and a token-file in one sink's URI", hint="give one of them")
    if (parts.username is None) != (parts.password is None):
        raise SinkError("a user without a password in the sink's URI, or a password alone", hint="write user:password@, or token-file=")
    url = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path or "/", "", ""))
    receiver = read(Receiver, given, url=url, user=unquote(parts.username or ""))
    if receiver.user:
        keep(SECRET_KIND, secret_of(receiver), unquote(parts.password or ""))
    return receiver


def _open(uri: SinkUri) -> Sink:
    return HttpSink(receiver_of(uri), read(BodyLimits, uri.parameters), log_id=uri.log_id)


def _leaves(_: SinkUri) -> str:
    return "the state that the receiver keeps for this URL, for a sink that is not to continue"


OPTIONS = (Receiver, BodyLimits)
HTTP = SinkKind(_open, names_of(*OPTIONS), leaves=_leaves)
