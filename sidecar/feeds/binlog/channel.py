"""The edge to gRPC for pumps: channels, TLS, and which answers no other try can help.

- A binlog is a whole transaction: messages have no bound but gRPC's own of 2 GiB.
- A pump's server counts pings that come more often than every five minutes as abuse and hangs up, so there are none: that a pump is gone
  is known by its entry in the registry, which says so or is no longer updated.
- Proxies of the environment are not used: pumps are machines of one's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc

from sidecar.shared.config import Tls
from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.process.tls import section_credentials

Connect = Callable[[str], Any]
"""A gRPC channel to `host:port`."""

_MISMATCH = "cluster ID are mismatch"
"""All that a real pump says of it: the status is UNKNOWN, as of everything else that it refuses (pump/server.go)."""

_REFUSED = {
    grpc.StatusCode.UNAUTHENTICATED: "set binlog.tls to a certificate and key that the pump accepts",
    grpc.StatusCode.PERMISSION_DENIED: "use a certificate whose common name is in the pump's cert-allowed-cn",
    grpc.StatusCode.UNIMPLEMENTED: "see whether a pump listens at the address that its entry in PD's etcd names",
    grpc.StatusCode.RESOURCE_EXHAUSTED: "gRPC cannot carry a transaction of more than 2 GiB: begin a new log after it, and dump again",
}


def connector(tls: Tls, *, gzip: bool) -> Connect:
    """Reads the certificates once. `gzip`: ask pumps to compress. Raises ConfigError."""
    options = (
        ("grpc.max_receive_message_length", -1),
        ("grpc.max_send_message_length", -1),
        ("grpc.enable_http_proxy", 0),
        ("grpc.use_local_subchannel_pool", 1),  # a new channel connects at once, whatever an earlier one has met
    )
    credentials = section_credentials("binlog.tls", tls)
    compression = grpc.Compression.Gzip if gzip else grpc.Compression.NoCompression
    if credentials is None:
        return lambda address: grpc.insecure_channel(address, options=options, compression=compression)
    return lambda address: grpc.secure_channel(address, credentials, options=options, compression=compression)


def refusal(error: grpc.RpcError, what: str, cluster_id: int) -> FeedUnsuitable | None:
    """For what no retry can help; None for what may pass."""
    if error.code() is grpc.StatusCode.UNKNOWN and _MISMATCH in (error.details() or ""):
        return FeedUnsuitable(
            f"{what} is of another cluster than PD, which is of cluster {cluster_id}: {error.details()}",
            hint="set binlog.pd to members of the pump's cluster; an entry that another cluster's pump left in this PD's etcd is to be "
            "made offline (binlogctl -cmd update-pump -state offline)",
        )
    hint = _REFUSED.get(error.code())
    return FeedUnsuitable(f"{what} refuses: {status_text(error)}", hint=hint) if hint else None


def status_text(error: grpc.RpcError) -> str:
    return f"{error.code().name}: {error.details() or 'no details'}"
