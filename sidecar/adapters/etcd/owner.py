"""Who may write for a changefeed: `Ownership` by a lease in etcd, and the fence that every other write passes.

    {root}/epoch    the last epoch granted; stays when the owner goes, so that epochs only rise
    {root}/owner    JSON of OwnerHolder; hangs on the lease and goes with it
    {root}/console  the address of its web console, if it has one; likewise
    {root}/log      the id of the log that it writes, once it does; likewise

- Becoming the owner is one transaction: nobody is there, the epoch is as read -> both are written. etcd decides.
- We are the owner until `lease_s` after the last successful keepalive was *sent*, less a margin, by our own clock, which also
  runs while the process is stopped or the machine sleeps. A reply that comes later changes nothing: lost is lost, until the
  next `acquire`. With a `keeper` another process of this machine sends the keepalives, by the same clock (keeper.py).
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

from sidecar.adapters.clock import running_clock
from sidecar.adapters.etcd.keeper import (
    BEATS_A_LEASE,
    KEEPALIVES_A_LEASE,
    NO_LEASE,
    KeeperProcess,
    LeaseKeeping,
    LeaseLoss,
    Order,
    Renewal,
    keep,
    lives_until,
    out_of_time,
)
from sidecar.adapters.etcd.keys import ROOT, Compare, Delete, KeyEntry, Keys, Put, Transaction, check_name
from sidecar.shared.errors import CoordinationError, OwnershipLost, TicdcDumpError
from sidecar.shared.process.background import Background
from sidecar.shared.ticdc.changefeed import ChangefeedName

POLL_S = 0.5
"""How often a standby asks whether the owner is gone: what a takeover may take longer than the lease."""


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


def owner(client: Keys, root: str) -> OwnerHolder | None:
    """Who owns the changefeed now, None if nobody does. Raises CoordinationError if what is there is no OwnerHolder."""
    entry = client.get(f"{root}/owner")
    if entry is None:
        return None
    try:
        return OwnerHolder(**json.loads(entry.value))
    except (TypeError, ValueError, RecursionError) as error:
        raise CoordinationError(
            f"etcd key {entry.key} does not name an owner: {error}", hint="another version's sidecar runs: use its command line, or stop it"
        ) from error


def owner_of_any(client: Keys, name: ChangefeedName) -> OwnerHolder | None:
    """Who owns an incarnation of the changefeed now, whichever it is: where TiCDC's definition is not in this etcd."""
    check_name(name)
    keys = client.get_prefix(f"{ROOT}{name.cluster}/{name.namespace}/{name.id}/", keys_only=True)
    roots = [entry.key.removesuffix("/owner") for entry in keys if entry.key.endswith("/owner")]
    return next((holder for root in roots if (holder := owner(client, root)) is not None), None)


def owner_console(client: Keys, root: str) -> str:
    """Where the owner's web console is, for a browser; empty for none."""
    entry = client.get(f"{root}/console")
    return entry.value.decode(errors="replace") if entry is not None else ""


def owner_log(client: Keys, root: str) -> str:
    """The id of the log that the owner writes (shared/log/identity.py); empty: it has not recorded it, as versions before 0.5 do not."""
    entry = client.get(f"{root}/log")
    return entry.value.decode(errors="replace") if entry is not None else ""


def _epoch(entry: KeyEntry) -> int:
    try:
        return int(entry.value)
    except ValueError as error:
        raise CoordinationError(
            f"etcd key {entry.key} is not an epoch: {entry.value[:40]!r}",
            hint="write the epoch of the log's last manifest there, in digits",
        ) from error


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
        client: Keys,
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
        self._keeping: Background | None = None
        self.keeper: KeeperProcess | None = None
        """Where the lease is kept by another process."""

    def acquire(self, *, timeout_s: float) -> int | None:
        """As `Ownership.acquire`. An etcd that cannot be reached is waited for as well; CoordinationLost if it still cannot
        be when the time is up."""
        self.release()
        if self.keeper is not None:
            self.keeper.start(timeout_s=self.lease_s)
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
        if self._keeping is not None:
            self._keeping.check()
        return self.lost() is None

    def lost(self) -> str | None:
        """Why it is not held, None while it is."""
        with self._lock:
            reign = self._reign
            if reign is None:
                return "it was not acquired, or is released"
            self._take_events(reign)
            if reign.lost is None and self._clock() >= reign.until:
                reign.lost = out_of_time(self.lease_s)
            return reign.lost

    def release(self) -> None:
        """As `Ownership.release`: a lease that cannot be ended runs out on its own."""
        if self._keeping is not None:
            self._keeping.close()
            self._keeping = None
        with self._lock:
            reign, self._reign = self._reign, None
            if self.keeper is not None and reign is not None and reign.lost is not None:
                self.keeper.close()  # it may be one that does nothing: the next lease has another one
            elif self.keeper is not None:
                self.keeper.keep(NO_LEASE)
        if reign is not None:
            with contextlib.suppress(TicdcDumpError):
                self.client.revoke(reign.lease, timeout_s=self.lease_s / KEEPALIVES_A_LEASE)

    def close(self) -> None:
        """Release it, and end the keeper."""
        self.release()
        if self.keeper is not None:
            self.keeper.close()

    def fenced(self, writes: Sequence[Put | Delete], *, compares: Sequence[Compare] = ()) -> Transaction:
        """Write if we are the owner still and `compares` hold, in one transaction, which reports whether they did. Raises
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

    def record_log(self, own_id: str) -> None:
        """Which log this owner writes, for those who wait: `owner_log`. Raises as `fenced` does."""
        reign = self._reign
        self.fenced([Put(f"{self.root}/log", own_id.encode(), reign.lease if reign is not None else NO_LEASE.lease)])

    def _fenced_off(self, why: str) -> OwnershipLost:
        return OwnershipLost(
            f"this process does not own {self.root}: {why}; nothing was written",
            hint="let the owner continue; start again to wait as its standby",
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
        self.epoch_min = epoch + 1  # also where etcd loses its keys meanwhile
        return _Reign(epoch, lease, created, lives_until(sent, self.lease_s))

    def _begin(self, reign: _Reign) -> None:
        self._reign = reign
        work = self._keep
        if self.keeper is not None:
            work = self._beat
            with self._lock:
                self.keeper.keep(Order(reign.lease, self.lease_s, reign.until))
        self._keeping = Background(partial(work, reign), name=f"owner {self.root}")

    def _beat(self, reign: _Reign, stop: threading.Event) -> None:
        """Let the keeper know that this process runs, until released or lost."""
        while not stop.wait(self.lease_s / BEATS_A_LEASE) and self.lost() is None:
            with self._lock:
                if self.keeper is not None:
                    self.keeper.beat(reign.until)

    def _take_events(self, reign: _Reign) -> None:
        for events in self.keeper.events() if self.keeper is not None else ():
            if events.lease != reign.lease:
                continue
            match events:
                case Renewal(sent=sent, answered=answered):
                    self._renew(reign, sent, answered)
                case LeaseLoss(why=why):
                    reign.lost = reign.lost or why

    def _renew(self, reign: _Reign, sent: float, answered: float) -> float:
        """With a keepalive that was answered while the lease lived. Returns until when it lives."""
        if reign.lost is None and answered < reign.until:
            reign.until = lives_until(sent, self.lease_s)
        return reign.until

    def _keep(self, reign: _Reign, stop: threading.Event) -> None:
        """In this process, until released or lost."""

        def keep_alive(lease: int, timeout_s: float) -> bool:
            return self.client.keep_alive(lease, timeout_s=timeout_s)

        def renewed(sent: float, answered: float) -> float:
            with self._lock:
                return self._renew(reign, sent, answered)

        def ends(wait_s: float) -> bool:
            return stop.wait(wait_s) or self.lost() is not None

        why = keep(Order(reign.lease, self.lease_s, reign.until), LeaseKeeping(keep_alive, self._clock, ends, renewed))
        if why:
            self._lose(reign, why)

    def _lose(self, reign: _Reign, why: str) -> None:
        with self._lock:
            reign.lost = reign.lost or why
