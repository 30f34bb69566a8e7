"""Versions that something of ours still has to read are kept from TiDB's garbage collection, for a bounded time: by a hold in PD.

    keyspace with a GC of its own     a GC barrier of that keyspace           SetGCBarrier
    any other, and a PD without       a service safe point of the cluster     UpdateServiceGCSafePoint

- A read as of a ts is possible until PD's safe point has passed it. PD keeps the lowest of all holds, each for its TTL after the last
  renewal: what a dead process held ends with that.
- A hold never keeps a moment that is further back than `hold_max_s`, as TiCDC's (gc-ttl): it is let go, and what was held may go.
- One name for one holder: two of one name would undo each other.
- Each answer of PD says whether versions are gone, that to a holder who lets go, too.

TiDB itself keeps what a running transaction reads, for as long as tidb_gc_max_wait_time (24 h by default) at most: a SELECT that takes a
timestamp of its own needs nothing of this. It does not keep what a session with `tidb_snapshot` reads, and knows nothing of who reads TiKV.

Sources: pd server/gc_service.go, pkg/gc/gc_state_manager.go (SetGCBarrier; redirectKeyspace: a keyspace without a GC of its own has the
cluster's; CompatibleUpdateServiceGCSafePoint); ticdc pkg/txnutil/gc/gc_service.go, gc_manager.go; tidb pkg/store/gcworker/gc_worker.go
(calcSafePointByMinStartTS), pkg/sessiontxn/staleread.
"""

from __future__ import annotations

from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.model.nouns import CommitTs, physical_ms
from sidecar.shared.tikv.pd import Keyspace, PdClient


def service_id(name: str) -> str:
    """By which PD knows the changefeed of this name: what its feed of TiKV still has to pull."""
    return f"ticdc-dump-{name}"


def reads_id(name: str) -> str:
    """By which PD knows what else of it reads as of a ts."""
    return f"{service_id(name)}-reads"


class VersionHold:
    """One holder's, under `name`. `keyspace`: whose versions these are, by its name; empty: the cluster's. One thread.

    `held`: PD keeps versions for it, by its last answer. Methods raise as PdClient's, and FeedUnsuitable for a keyspace whose versions PD
    cannot keep."""

    def __init__(self, pd: PdClient, name: str, *, keep_s: int, hold_max_s: float, keyspace: str = "") -> None:
        self._pd, self._name = pd, name
        self._keep_s, self._hold_max_s = keep_s, hold_max_s
        self._keyspace_name = keyspace
        self._keyspace: Keyspace | None = None
        self._looked_up = not keyspace
        self.held = False

    def keep(self, from_ts: CommitTs, *, now_ms: int) -> CommitTs | None:
        """Reads as of `from_ts` and later stay possible, if they are and it is not too long ago. None; or, where versions may be gone from
        there on, up to where."""
        above = from_ts - 1
        too_old = now_ms - physical_ms(from_ts) > self._hold_max_s * 1000
        kept_from = self._set(above, 0 if too_old else self._keep_s)
        self.held = not too_old and kept_from <= above
        return None if kept_from <= above else CommitTs(kept_from)

    def let_go(self) -> None:
        self._set(0, 0)
        self.held = False

    def _set(self, above: int, keep_s: int) -> int:
        """`keep_s` 0: keep none. The lowest ts that PD keeps versions above."""
        if (keyspace := self._of()) is not None:
            if keep_s:
                kept_from = self._pd.set_barrier(keyspace.id, self._name, above=above, keep_s=keep_s)
            else:
                kept_from = self._pd.delete_barrier(keyspace.id, self._name)
            if kept_from is not None:
                return kept_from
            if keyspace.own_gc and keep_s:
                what = f"keyspace {self._keyspace_name} has a garbage collection of its own, and PD has no GC barriers"
                raise FeedUnsuitable(f"{what}: nothing keeps its versions", hint="upgrade PD, or raise tidb_gc_life_time")
        return self._pd.keep_versions(self._name, above=above, keep_s=keep_s)

    def _of(self) -> Keyspace | None:
        if not self._looked_up:
            self._keyspace = self._pd.keyspace(self._keyspace_name)
            self._looked_up = True
        return self._keyspace
