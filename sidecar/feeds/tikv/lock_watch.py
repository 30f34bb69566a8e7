"""Which parts of what is pulled do not advance, and may be held by a lock of a dead client: the thread that sees to those.

- A part is looked at when it is past its scan, its resolved ts is LATE_S behind PD's time and has not moved since the look before.
  A consumer that is slow makes parts late, too: then there is nothing to find.
- One look every LOOK_EVERY_S, REGIONS_MAX parts in each, those first that have waited longest for one: the requests to the
  cluster are bounded whatever state it is in.
- Nothing that a store or PD says ends the feed: it could continue if somebody else, any reader in TiDB, ended the transaction. What
  goes wrong is counted and reported, as is what is waited for; the next look tries again. A defect of ours is raised by `check`.
- It has a client of PD and connections of its own, made when first needed: the stream's and the router's threads wait for none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import Event

from sidecar.feeds.tikv.stream import RegionRequest
from sidecar.shared.config import TikvSection
from sidecar.shared.errors import TicdcDumpError
from sidecar.shared.model.nouns import CommitTs
from sidecar.shared.process.background import Background
from sidecar.shared.tikv.channel import connector
from sidecar.shared.tikv.kv import KvCalls
from sidecar.shared.tikv.locks import LockResolver, physical_ms
from sidecar.shared.tikv.pd import PdClient

LATE_S = 20.0
"""The TTL that TiDB renews while a transaction lives, and TiCDC's own patience; a resolved ts is a second behind where nothing holds it."""

LOOK_EVERY_S = 10.0
"""TiCDC's rest between two tries of one region (logservice/logpuller, resolveLockMinInterval)."""

REGIONS_MAX = 64
"""Of one look. A store that went down with clients leaves locks in many regions at once; those of one transaction end together."""

CLOSE_WAIT_S = 2.0


class LockWatch:
    """`subscriptions`: all that there are, from any thread. Everything public may be looked at from any thread."""

    def __init__(self, section: TikvSection, subscriptions: Callable[[], Sequence[RegionRequest]]) -> None:
        self._pd = PdClient(section)
        self._calls = KvCalls(self._pd, connector(section.tls))
        self._subscriptions = subscriptions
        self._seen: dict[RegionRequest, CommitTs] = {}
        self._looked: dict[RegionRequest, int] = {}
        self._looks = 0
        self.waits_for: Mapping[RegionRequest, str] = {}
        """What holds a part, or why that is not known, as of the last look at it."""
        self.resolved = 0
        self.errors = 0
        self.last_error = ""
        self._watching = Background(self._run, name="tikv-locks")
        self.check = self._watching.check

    def close(self) -> None:
        """A call that is under way ends by its own timeout."""
        self._watching.close(CLOSE_WAIT_S)

    # ---- the thread -------------------------------------------------------------------------------------------------

    def _run(self, closing: Event) -> None:
        try:
            while not closing.wait(LOOK_EVERY_S):
                try:
                    self._look(closing)
                except TicdcDumpError as error:
                    self._failed(error)
        finally:
            self._calls.close()
            self._pd.close()

    def _look(self, closing: Event) -> None:
        self._looks += 1
        initialized = [it for it in self._subscriptions() if it.matcher.initialized]
        unmoved = [it for it in initialized if self._seen.get(it) == it.matcher.resolved_ts]
        self._seen = {it: it.matcher.resolved_ts for it in initialized}
        self._looked = {it: self._looked.get(it, 0) for it in unmoved}
        self.waits_for = {it: why for it, why in self.waits_for.items() if it in self._looked}
        if not unmoved:
            return
        now_ts = self._pd.tso()
        late = [it for it in unmoved if physical_ms(now_ts) - physical_ms(it.matcher.resolved_ts) > LATE_S * 1000]
        late.sort(key=lambda it: (self._looked[it], it.matcher.resolved_ts))
        resolver = LockResolver(self._calls, now_ts)
        for it in late[:REGIONS_MAX]:
            if closing.is_set():
                return
            self._looked[it] = self._looks
            self._look_at(it, resolver)

    def _look_at(self, it: RegionRequest, resolver: LockResolver) -> None:
        try:
            resolved, why = resolver.resolve(it.range, it.matcher.resolved_ts)
            self.resolved += resolved
        except TicdcDumpError as error:  # of this part alone: the others are looked at
            why = f"may wait for a lock, which cannot be seen to: {self._failed(error)}"
        self.waits_for = {
            **{other: text for other, text in self.waits_for.items() if other is not it},
            **({it: why} if why else {}),
        }

    def _failed(self, error: TicdcDumpError) -> str:
        self.errors += 1
        self.last_error = str(error).partition("\n")[0]
        return self.last_error
