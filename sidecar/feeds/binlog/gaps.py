"""What is lost without a word: binlogs that a pump has removed before they were read.

A pump keeps binlogs for some days by the clock, read or not. Who pulls from below gets what is left and no error; only the
pump's /metrics say up to where it has removed, as the milliseconds of a TSO. So they are read after the first answer to each pull, on
the address of the pull, before that answer counts, and from time to time while a pull continues.

From pingcap/tidb-binlog pump/storage/storage.go (PullCommitBinlog, doGCTS).
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from http.client import HTTPException
from urllib.request import HTTPSHandler, ProxyHandler, build_opener

from sidecar.binlog.nodes import Node
from sidecar.shared.config import Tls
from sidecar.shared.errors import ConfigError, FeedLost, FeedUnsuitable
from sidecar.shared.model.nouns import CommitTs, physical_ms, ts_at, utc

_GC = "binlog_pump_storage_gc_ts"
ANSWER_MAX_S = 5.0
_BYTES_MAX = 16 << 20

Metrics = Callable[[str], str]
"""What the pump at `host:port` returns at /metrics. Raises FeedLost."""


def metrics_of(tls: Tls) -> Metrics:
    """Reads the certificates once. Raises ConfigError."""
    direct = ProxyHandler({})
    scheme, opener = "http", build_opener(direct)
    if tls.ca_file:
        scheme, opener = "https", build_opener(direct, HTTPSHandler(context=_context(tls)))

    def metrics(host: str) -> str:
        try:
            with opener.open(f"{scheme}://{host}/metrics", timeout=ANSWER_MAX_S) as answer:
                return str(answer.read(_BYTES_MAX).decode())
        except (OSError, HTTPException, ValueError) as error:
            raise FeedLost(f"{host}/metrics does not answer: {error}", hint=_SEE) from error

    return metrics


def check_kept(metrics: Metrics, pump: Node, after_ts: CommitTs) -> None:
    """That the pump has everything that is committed after `after_ts`. Raises FeedUnsuitable; FeedLost if it does not tell."""
    removed_ms = gc_ms(metrics(pump.host), pump)
    if removed_ms and removed_ms >= physical_ms(after_ts):
        raise FeedUnsuitable(
            f"pump {pump.node_id} ({pump.host}) has removed its binlogs up to {utc(ts_at(removed_ms))}, and is to be read from "
            f"{utc(after_ts)} (TSO {after_ts}) on",
            hint="what is between cannot be read again: begin a new log with new sinks and dump again; a pump's setting gc says "
            "for how long a sidecar may be stopped",
        )


def gc_ms(metrics: str, pump: Node) -> int:
    """Up to where binlogs were removed; 0: none ever was. Raises FeedLost for an answer without it."""
    for line in metrics.splitlines():
        name, _, value = line.partition(" ")
        if name == _GC:
            try:
                return int(float(value))
            except ValueError:
                break
    raise FeedLost(f"pump {pump.node_id} ({pump.host}) has no {_GC} in its /metrics", hint=_SEE)


def _context(tls: Tls) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=tls.ca_file)
        if tls.cert_file:
            context.load_cert_chain(tls.cert_file, tls.key_file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"the files of binlog.tls cannot be used: {error}", hint="make them PEM files that this user can read") from error
    return context


_SEE = "see that the pump runs and that this machine reaches it; the sidecar tries again automatically"
