"""Keeps a lease of etcd alive, in a process of its own: work in the owner's process cannot hold a keepalive up.

    owner (owner.py)                         keeper
    ─ Order: which lease, until when ──────► sends keepalives, a third of the lease apart
    ─ a blank line every tenth of a lease ─► knows that the owner runs
    ◄────────────── Renewal: sent, answered ─
    ◄─────────────────────── LeaseLoss: why ─

- A keepalive is a call of gRPC, which hands Python's lock from thread to thread many times: in a process with busy threads, on a busy
  machine, it takes seconds. This process has nothing else to do. The owner only writes a byte now and then, and reads what has come.
- Both read one clock, which is the machine's. A Renewal says when its keepalive was sent and when it was answered, so it counts however
  late the owner reads it: it was answered before the lease could have run out, or it is none.
- It stops as soon as its standard input ends (the owner is gone, however it died), and while the owner has been silent for a lease (it is
  frozen): then the lease runs out, within two leases after the owner's last sign.
- One that has lost a lease keeps no other: the next lease has a keeper that has shown that it runs.
- Signals to the process group are not for it: the owner may still need the lease to end well.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from sidecar.adapters.clock import running_clock
from sidecar.adapters.etcd.keys import Keys
from sidecar.adapters.etcd.opening import open_keys
from sidecar.shared.config import EtcdSection
from sidecar.shared.errors import TicdcDumpError
from sidecar.shared.process.scratch import WANTING

KEEPALIVES_A_LEASE = 3
"""Two may fail before the lease is in danger."""

BEATS_A_LEASE = 10

AGAIN_S = 0.5
"""After a keepalive that was not answered."""

MARGIN = 0.1
"""Of the lease, by which we give up before etcd can: for clocks that do not run alike."""

READY = b"ready\n"

_STDIN, _STDOUT = 0, 1


class Order(msgspec.Struct, frozen=True):
    """`until`: when the lease could run out, by the clock of both. `lease` 0: none is to be kept."""

    lease: int
    lease_s: int
    until: float


NO_LEASE = Order(0, 1, 0.0)


class Renewal(msgspec.Struct, frozen=True, tag="renewal"):
    lease: int
    sent: float
    answered: float


class LeaseLoss(msgspec.Struct, frozen=True, tag="loss"):
    lease: int
    why: str


@dataclass(frozen=True, slots=True)
class LeaseKeeping:
    """What a keeper needs. `keep_alive(lease, timeout_s)` as of EtcdClient. `wait(seconds)`: True if it is to stop.
    `renewed(sent, answered)` returns until when the lease lives."""

    keep_alive: Callable[[int, float], bool]
    clock: Callable[[], float]
    wait: Callable[[float], bool]
    renewed: Callable[[float, float], float]


def keep(order: Order, keeping: LeaseKeeping) -> str:
    """Until it is to stop (empty), or the lease is lost: why. An etcd that does not answer is tried again while the lease can live."""
    every_s = order.lease_s / KEEPALIVES_A_LEASE
    until, clock = order.until, keeping.clock
    wait_s = max(0.0, until - lives_until(0.0, order.lease_s) + every_s - clock())  # since the last one, which another keeper may have sent
    while not keeping.wait(wait_s):
        sent = clock()
        if sent >= until:
            return out_of_time(order.lease_s)
        try:
            alive = keeping.keep_alive(order.lease, every_s)
        except TicdcDumpError as error:
            if not error.retryable:
                return f"the keepalive failed: {error}"
            wait_s = min(every_s, AGAIN_S)
            continue
        if not alive:
            return "its lease ran out in etcd"
        answered = clock()
        if answered >= until:
            return out_of_time(order.lease_s)
        until = keeping.renewed(sent, answered)
        wait_s = max(0.0, sent + every_s - answered)
    return ""


def lives_until(sent: float, lease_s: int) -> float:
    return sent + lease_s * (1 - MARGIN)


def out_of_time(lease_s: int) -> str:
    return f"no keepalive reached etcd within the lease of {lease_s} s (etcd away, or this process stood still)"


# ---- in the owner's process --------------------------------------------------------------------------------------------


class KeeperProcess:
    """The keeper of `section`'s leases, one after another. Not for several threads at once."""

    def __init__(self, section: EtcdSection) -> None:
        self._section = section
        self._process: subprocess.Popen[bytes] | None = None
        self._order = NO_LEASE
        self._read = b""

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def start(self, *, timeout_s: float) -> None:
        """Unless it runs. Waits until it is ready, so that its start takes nothing of a lease; no longer than `timeout_s`."""
        if self._process is None or self._process.poll() is not None:
            self._begin()
            if self._process is not None and self._process.stdout is not None:
                select.select([self._process.stdout], [], [], timeout_s)

    def keep(self, order: Order) -> None:
        """Keep this lease, and no other."""
        self._order = order
        self._say(msgspec.json.encode(order) + b"\n")

    def beat(self, until: float) -> None:
        """The owner runs. `until`: as the owner knows it, for a keeper that follows one that has died."""
        if self._process is None or self._process.poll() is not None:
            self._begin()
            self.keep(msgspec.structs.replace(self._order, until=until))
        self._say(b"\n")

    def events(self) -> list[Renewal | LeaseLoss]:
        """What has come since the last call."""
        process = self._process
        if process is None or process.stdout is None:
            return []
        with suppress(BlockingIOError):
            self._read += os.read(process.stdout.fileno(), 1 << 16)
        *lines, self._read = self._read.split(b"\n")
        return [msgspec.json.decode(line, type=Renewal | LeaseLoss) for line in lines if line and line + b"\n" != READY]

    def close(self) -> None:
        if self._process is not None:
            process, self._process = self._process, None
            process.kill()  # it holds nothing
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()

    def _begin(self) -> None:
        """Where the machine has no room for it, it is tried again with the next sign of the owner."""
        self.close()
        self._read = b""
        try:
            process = subprocess.Popen(
                [sys.executable, "-m", "sidecar.adapters.etcd.keeper"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            if error.errno not in WANTING:
                raise
            return
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
        self._process = process
        self._say(msgspec.json.encode(self._section) + b"\n")

    def _say(self, line: bytes) -> None:
        """To a keeper that has died, or does not read: the next beat starts another one."""
        if self._process is None or self._process.stdin is None:
            return
        try:
            os.write(self._process.stdin.fileno(), line)
        except OSError:
            self._process.kill()


# ---- in the keeper's process -------------------------------------------------------------------------------------------


class OwnerSigns:
    """What the owner writes to `stdin`: when it last wrote something, its last `order`, and `gone`: it writes nothing more."""

    def __init__(self, stdin: int, clock: Callable[[], float]) -> None:
        self._stdin, self._clock, self._lines = stdin, clock, b""
        self.last_line_s, self.gone, self.order = clock(), False, NO_LEASE

    def listen(self, timeout_s: float) -> list[bytes]:
        """Lines that have come within this time, the first of them at once."""
        if self.gone or not select.select([self._stdin], [], [], max(timeout_s, 0.0))[0]:
            return []
        data = os.read(self._stdin, 1 << 16)
        self.gone = not data
        self.last_line_s = self._clock()
        *lines, self._lines = (self._lines + data).split(b"\n")
        return [line for line in lines if line]

    def follow(self, timeout_s: float) -> None:
        for line in self.listen(timeout_s):
            self.order = msgspec.json.decode(line, type=Order)

    def ends(self, order: Order, wait_s: float) -> bool:
        """Wait, and longer while the owner is silent: not whether the lease has run out, which is `keep`'s to see."""
        until, silent_s = self._clock() + wait_s, float(order.lease_s)
        while not self.gone and self.order is order:
            now = self._clock()
            silent = now - self.last_line_s >= silent_s
            if now >= until and not silent:
                return False
            if silent and now - self.last_line_s >= 2 * silent_s:
                return False  # the lease has run out by now
            self.follow(until - now if now < until else AGAIN_S)
        return True


def main() -> None:
    """Ends when its standard input does, or when nobody reads what it says."""
    with suppress(BrokenPipeError):
        _serve()


def _serve() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    owner = OwnerSigns(_STDIN, running_clock)
    lines: list[bytes] = []
    while not lines and not owner.gone:
        lines = owner.listen(60.0)
    if not lines:
        return
    client = open_keys(msgspec.json.decode(lines[0], type=EtcdSection))
    for line in lines[1:]:
        owner.order = msgspec.json.decode(line, type=Order)
    _notify(READY)
    while not owner.gone:
        order = owner.order
        if order.lease:
            _keep(client, owner, order)
        while owner.order is order and not owner.gone:
            owner.follow(60.0)


def _keep(client: Keys, owner: OwnerSigns, order: Order) -> None:
    def renewed(sent: float, answered: float) -> float:
        _notify(msgspec.json.encode(Renewal(order.lease, sent, answered)) + b"\n")
        return lives_until(sent, order.lease_s)

    def keep_alive(lease: int, timeout_s: float) -> bool:
        return client.keep_alive(lease, timeout_s=timeout_s)

    why = keep(order, LeaseKeeping(keep_alive, running_clock, lambda wait_s: owner.ends(order, wait_s), renewed))
    if why:
        _notify(msgspec.json.encode(LeaseLoss(order.lease, why)) + b"\n")


def _notify(line: bytes) -> None:
    os.write(_STDOUT, line)


if __name__ == "__main__":
    main()
