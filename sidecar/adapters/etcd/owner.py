"""Who may write for a changefeed: `Ownership` by a lease in etcd, and the fence that every other write passes.

    {root}/epoch    the last epoch granted; stays when the owner goes, so that epochs only rise
    {root}/owner    JSON of Holder; hangs on the lease and goes with it
    {root}/console  the address of its web console, if it has one; likewise

- Becoming the owner is one transaction: nobody is there, the epoch is as read -> both are written. etcd decides.
- We are the owner until `lease_s` after the last successful keepalive was *sent*, less a margin, by our own clock, which also
  runs while the process is stopped or the machine sleeps. A reply that comes later changes nothing: lost is lost, until the
  next `acquire`.
- `held` can be true one moment and wrong the next (a process may stop anywhere), so no write relies on it: each compares
  the owner key's creation, which etcd never gives twice.
- A standby asks every POLL_S. A watch would be a moment faster, and would have to be made again after every compaction,
  disconnect and change of token.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from sidecar.adapters.etcd.client import Compare, Delete, Entry, EtcdClient, Put, Transaction
from sidecar.errors import CoordinationError, OwnershipLost, TicdcDumpError
from sidecar.process.background import Background

POLL_S = 0.5
"""How often a standby asks whether the owner is gone: what a takeover may take longer than the lease."""

KEEPALIVES_A_LEASE = 3
"""Two may fail before the lease is in danger."""

MARGIN = 0.1
"""Of the lease, by which we give up before etcd can: for clocks that do not run alike."""


@dataclass(frozen=True, slots=True)
class OwnerHolder:
    """A process that owns, or wants to. `address`: of its control service, host:port. `epoch` and `since` (UTC) are set
    when it becomes the owner. `console`: the address of its pages, empty for none; it has a key of its own, as versions without a console
    read this one."""

    host: str
    pid: int
    address: str
    epoch: int = 0
    since: str = ""
    console: str = ""


def owner(client: EtcdClient, root: str) -> OwnerHolder | None:
    """Who owns the changefeed now, None if nobody does. Raises CoordinationError if what is there is no Holder."""
    found = client.get(f"{root}/owner")
    if found is None:
        return None
    try:
        return OwnerHolder(**json.loads(found.value))
    except (TypeError, ValueError, RecursionError) as error:
        raise CoordinationError(
            f"etcd key {found.key} does not name an owner: {error}", hint="another version's sidecar runs: use its command line, or stop it"
        ) from error


def owner_console(client: EtcdClient, root: str) -> str:
    """Where the owner's web console is, for a browser; empty for none."""
    found = client.get(f"{root}/console")
    return found.value.decode(errors="replace") if found is not None else ""


def _epoch(found: Entry) -> int:
    try:
        return int(found.value)
    except ValueError as error:
        raise CoordinationError(
            f"etcd key {found.key} is not an epoch: {found.value[:40]!r}",
            hint="write the epoch of the log's last manifest there, in digits",
        ) from error


def running_clock() -> float:
    """Seconds that also pass while the machine sleeps, where the system has such a clock (Linux)."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


@dataclass(slots=True)
class _Reign:
    """One ownership. `until`: when the lease could have run out, by our clock; only ever moved on while it has not."""

    epoch: int
    lease: int
    created: int
    until: float
    lost: str | None = None


class EtcdOwner:
    """`Ownership` of the changefeed at `root`. One thread acquires and releases; `held` and `fenced` may be called by any."""

    def __init__(
        self,
        client: EtcdClient,
        root: str,
        *,
        lease_s: int,
        holder: OwnerHolder,
        epoch_min: int = 1,
        clock: Callable[[], float] = running_clock,
    ) -> None:
        """`epoch_min`: the least epoch to grant, for a log that is older than what etcd remembers."""
        self.client = client
        self.root = root
        self.lease_s = lease_s
        self.holder = holder
        self.epoch_min = epoch_min
        self._clock = clock
        self._lock = threading.Lock()
        self._reign: _Reign | None = None
        self._keeper: Background | None = None

    def acquire(self, *, timeout_s: float) -> int | None:
        """As `Ownership.acquire`. An etcd that cannot be reached is waited for as well; CoordinationLost if it still cannot
        be when the time is up."""
        self.release()
        deadline = self._clock() + timeout_s
        while True:
            try:
                reign = self._try()
                lost = None
            except TicdcDumpError as error:
                if not (error.retryable or isinstance(error, OwnershipLost)):
                    raise
                reign, lost = None, error
            if reign is not None:
                self._begin(reign)
                return reign.epoch
            left_s = deadline - self._clock()
            if left_s <= 0:
                if lost is not None:
                    raise lost
                return None
            time.sleep(min(POLL_S, left_s))

    def held(self) -> bool:
        """As `Ownership.held`. Once False it stays so until the next `acquire`. Raises what the keeper of the lease broke of."""
        if self._keeper is not None:
            self._keeper.check()
        return self.lost() is None

    def lost(self) -> str | None:
        """Why it is not held, None while it is."""
        with self._lock:
            reign = self._reign
            if reign is None:
                return "it was not acquired, or is released"
            if reign.lost is None and self._clock() >= reign.until:
                reign.lost = f"no keepalive reached etcd within the lease of {self.lease_s} s (etcd away, or this process stood still)"
            return reign.lost

    def release(self) -> None:
        """As `Ownership.release`: a lease that cannot be ended runs out by itself."""
        if self._keeper is not None:
            self._keeper.close()
            self._keeper = None
        with self._lock:
            reign, self._reign = self._reign, None
        if reign is not None:
            with contextlib.suppress(TicdcDumpError):
                self.client.revoke(reign.lease, timeout_s=self.lease_s / KEEPALIVES_A_LEASE)

    def fenced(self, writes: Sequence[Put | Delete], *, compares: Sequence[Compare] = ()) -> Transaction:
        """Write if we are the owner still and `compares` hold, in one transaction, which tells whether they did. Raises
        OwnershipLost when we are not the owner: etcd decides, whatever our clock says."""
        key, reign = f"{self.root}/owner", self._reign
        if (why := self.lost()) is not None or reign is None:
            raise self._fenced_off(why or "it is released")
        ours = Compare(key, "created", reign.created)
        done = self.client.transact([ours, *compares], writes, otherwise=[key], timeout_s=self.lease_s / KEEPALIVES_A_LEASE)
        if not done.succeeded:
            there = done.entries[0]
            if there is None or there.created != reign.created:
                why = "another one is the owner" if there else "its lease ran out in etcd"
                self._lose(reign, why)
                raise self._fenced_off(why)
        return done

    def _fenced_off(self, why: str) -> OwnershipLost:
        return OwnershipLost(
            f"this process does not own {self.root}: {why}; nothing was written",
            hint="let the owner go on; start again to wait as its standby",
        )

    def _try(self) -> _Reign | None:
        """One attempt; None if there is an owner. A transaction whose reply was lost may have made us the owner: the key
        hangs on our lease then, and on nobody else's."""
        owner_key, epoch_key = f"{self.root}/owner", f"{self.root}/epoch"
        if self.client.get(owner_key) is not None:
            return None
        last = self.client.get(epoch_key)
        epoch = max(self.epoch_min, 1 + (_epoch(last) if last else 0))
        sent = self._clock()
        lease = self.client.grant(self.lease_s)
        mine = dataclasses.asdict(dataclasses.replace(self.holder, epoch=epoch, since=datetime.now(UTC).isoformat(timespec="seconds")))
        console = mine.pop("console")
        done = self.client.transact(
            [Compare(owner_key, "created", 0), Compare(epoch_key, "modified", last.modified if last else 0)],
            [
                Put(owner_key, json.dumps(mine).encode(), lease),
                Put(f"{self.root}/console", console.encode(), lease),
                Put(epoch_key, str(epoch).encode()),
            ],
            otherwise=[owner_key],
        )
        there = done.entries[0] if done.entries else None
        if done.succeeded:
            created = done.revision
        elif there is not None and there.lease == lease:
            created = there.created
        else:
            self.client.revoke(lease)
            return None
        return _Reign(epoch, lease, created, sent + self.lease_s * (1 - MARGIN))

    def _begin(self, reign: _Reign) -> None:
        self._reign = reign
        self._keeper = Background(partial(self._keep, reign), name=f"owner {self.root}")

    def _keep(self, reign: _Reign, stop: threading.Event) -> None:
        """Until released or lost. An etcd that does not answer is asked again while the lease could still live."""
        every_s = self.lease_s / KEEPALIVES_A_LEASE
        wait_s = every_s
        while not stop.wait(wait_s) and self.lost() is None:
            sent = self._clock()
            try:
                alive = self.client.keep_alive(reign.lease, timeout_s=every_s)
            except TicdcDumpError as error:
                if not error.retryable:
                    self._lose(reign, f"the keepalive failed: {error}")
                    return
                wait_s = min(every_s, POLL_S)
                continue
            if not alive:
                self._lose(reign, "its lease ran out in etcd")
                return
            wait_s = max(0.0, sent + every_s - self._clock())
            with self._lock:
                if reign.lost is None and self._clock() < reign.until:
                    reign.until = sent + self.lease_s * (1 - MARGIN)

    def _lose(self, reign: _Reign, why: str) -> None:
        with self._lock:
            reign.lost = reign.lost or why
