"""Versions that are still to be pulled are kept from TiDB's garbage collection, as TiCDC does it: by a service safe point in PD
(shared/tikv/gc.py).

- TiKV scans what is there: a version that was collected is missing without a word. So nothing is pulled from a ts before PD has
  agreed to keep what is above it; a ts that PD has left behind stops.
- It is kept from the lowest ts that is not durable here, and renewed all the time. A process that is gone keeps it for KEEP_S more,
  so that the next one can resume; garbage of the whole cluster waits as long.
- A feed that is further behind than gc.hold_max_s pulls on while PD says that its versions are there.
- `ticdc-dump remove` lets go by the changefeed's name.

From ticdc pkg/txnutil/gc (gc_service.go, gc_manager.go). The feed reads no keyspaces.
"""

from __future__ import annotations

from collections.abc import Collection

from sidecar.feeds.tikv.queue import WantedRange
from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.rowcodec.key_values import KeyRange
from sidecar.shared.tikv.gc import VersionHold, service_id
from sidecar.shared.tikv.pd import PdClient

KEEP_S = 24 * 3600
"""TiCDC's default (gc-ttl)."""

RENEW_EVERY_S = 60.0
"""As often as TiCDC does."""


class VersionKeeper:
    """`due_s`, by the caller's clock: when to renew next."""

    def __init__(self, pd: PdClient, name: str, *, hold_max_s: float) -> None:
        self._hold = VersionHold(pd, service_id(name), keep_s=KEEP_S, hold_max_s=hold_max_s)
        self.due_s = 0.0

    def renew(self, wanted: Collection[WantedRange], now_s: float, *, now_ms: int) -> None:
        """Raises FeedUnsuitable where versions are gone already, FeedLost for PD."""
        if wanted:
            lowest = min(wanted, key=lambda it: it.durable_ts)
            if (gone := self._hold.keep(lowest.durable_ts, now_ms=now_ms)) is not None:
                raise _versions_gone(lowest.range, lowest.durable_ts, gone)
        self.due_s = now_s + RENEW_EVERY_S


def _versions_gone(range_: KeyRange, from_ts: int, kept_from: int) -> FeedUnsuitable:
    return FeedUnsuitable(
        f"keys [{range_.start.hex()}, {range_.end.hex()}) are wanted from ts {from_ts}, and versions up to {kept_from} may be gone",
        hint="begin a new log with a dump of all tables; tidb_gc_life_time bounds how long a sidecar may be away before its first pull",
    )
