"""Versions that are still to be pulled are kept from TiDB's garbage collection, as TiCDC does it: by a service safe point in PD.

- TiKV scans what is there: a version that was collected is missing without a word. So nothing is pulled from a ts before PD has
  agreed to keep what is above it; a ts that PD has left behind stops.
- It is kept from the lowest ts that is not durable here, and renewed all the time. A process that is gone keeps it for KEEP_S more,
  so that the next one can resume; garbage of the whole cluster waits as long.
- One name for one changefeed: two holders of one name would undo each other. `ticdc-dump remove` lets go by it.

From ticdc pkg/txnutil/gc (gc_service.go, gc_manager.go); pd server/grpc_service.go UpdateServiceGCSafePoint. With garbage collection by
keyspace (TiDB's next generation) PD keeps other books, which this does not write.
"""

from __future__ import annotations

from collections.abc import Collection

from sidecar.feeds.tikv.queue import WantedRange
from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.rowcodec.key_values import KeyRange
from sidecar.shared.tikv.pd import PdClient

KEEP_S = 24 * 3600
"""TiCDC's default (gc-ttl)."""

RENEW_EVERY_S = 60.0
"""As often as TiCDC does."""


def service_id(name: str) -> str:
    """By which PD knows the changefeed of this name."""
    return f"ticdc-dump-{name}"


class VersionKeeper:
    """`due_s`, by the caller's clock: when to renew next."""

    def __init__(self, pd: PdClient, name: str) -> None:
        self._pd = pd
        self._service_id = service_id(name)
        self.due_s = 0.0

    def renew(self, wanted: Collection[WantedRange], now_s: float) -> None:
        """Raises FeedUnsuitable where versions are gone already, FeedLost for PD."""
        if wanted:
            lowest = min(wanted, key=lambda it: it.durable_ts)
            safe_point = lowest.durable_ts - 1
            kept_from = self._pd.keep_versions(self._service_id, above=safe_point, keep_s=KEEP_S)
            if kept_from > safe_point:
                raise _versions_gone(lowest.range, lowest.durable_ts, kept_from)
        self.due_s = now_s + RENEW_EVERY_S


def _versions_gone(range_: KeyRange, from_ts: int, kept_from: int) -> FeedUnsuitable:
    return FeedUnsuitable(
        f"keys [{range_.start.hex()}, {range_.end.hex()}) are wanted from ts {from_ts}, and versions up to {kept_from} may be gone",
        hint="begin a new log with a dump of all tables; tidb_gc_life_time bounds how long a sidecar may be away before its first pull",
    )
