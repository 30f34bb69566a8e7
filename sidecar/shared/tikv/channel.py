"""The edge to gRPC for PD and TiKV: channels, TLS, and what a status code means.

- `tls.ca_file` makes a connection TLS; certificate and key, both, are for mutual TLS. Each address has the same settings.
- Statuses are classed by their code. What a person must change is FeedUnsuitable; everything else may pass and the caller tries
  it again, for as long as an outage may last. A wrong certificate is UNAVAILABLE to gRPC, so it is named after an outage.
- A peer that hangs is noticed by keepalive, in KEEPALIVE_S and KEEPALIVE_ANSWER_S: TiKV also while nobody reads, PD while a call runs.
- Proxies of the environment are not used: a cluster's stores are machines of one's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc

from sidecar.shared.config import Tls
from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.process.tls import section_credentials

MESSAGE_BYTES_MAX = 1 << 28
"""As TiCDC allows: TiKV batches up to 6 MiB, one row may be larger."""

KEEPALIVE_S, KEEPALIVE_ANSWER_S = 10, 3
"""As TiCDC sets them (ticdc logservice/logpuller/grpc_conn.go): servers end connections that ask more often than they allow. PD's is
etcd's server, which allows it every 5 s during a call and every 2 h without one, and answers more with GOAWAY `too_many_pings` (etcd
server/embed/etcd.go, KeepaliveEnforcementPolicy: MinTime 5 s, PermitWithoutStream false)."""

Connect = Callable[[str], Any]
"""A gRPC channel to `host:port`."""

_REFUSED = {
    grpc.StatusCode.UNAUTHENTICATED: "set its section's tls to a certificate and key that the cluster accepts",
    grpc.StatusCode.PERMISSION_DENIED: "use a certificate whose common name is in the cluster's cert-allowed-cn",
    grpc.StatusCode.UNIMPLEMENTED: "upgrade the cluster: TiKV's multiplexed change feed is needed; or use another feed",
}


def connector(tls: Tls, *, named: str = "tikv.tls", idle_pings: bool = True) -> Connect:
    """Reads the certificates once. `named`: what the settings call `tls`. `idle_pings`: the servers allow keepalive without a call.
    Raises ConfigError."""
    options = (
        ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
        ("grpc.keepalive_time_ms", KEEPALIVE_S * 1000),
        ("grpc.keepalive_timeout_ms", KEEPALIVE_ANSWER_S * 1000),
        ("grpc.keepalive_permit_without_calls", int(idle_pings)),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.enable_http_proxy", 0),
        ("grpc.use_local_subchannel_pool", 1),  # a new channel connects at once, whatever an earlier one has met
    )
    credentials = section_credentials(named, tls)
    if credentials is None:
        return lambda address: grpc.insecure_channel(address, options=options)
    return lambda address: grpc.secure_channel(address, credentials, options=options)


def refusal(error: grpc.RpcError, what: str) -> FeedUnsuitable | None:
    """For a status that no retry can help; None for what may pass."""
    hint = _REFUSED.get(error.code())
    return FeedUnsuitable(f"{what} refuses: {status_text(error)}", hint=hint) if hint else None


def status_text(error: grpc.RpcError) -> str:
    return f"{error.code().name}: {error.details() or 'no details'}"
