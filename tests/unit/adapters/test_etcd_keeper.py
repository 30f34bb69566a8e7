"""When a keeper keeps a lease, and when it stops, by the test's clock and pipe; tests/contract/test_ownership.py runs the process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest

from sidecar.adapters.etcd.client import EtcdClient
from sidecar.adapters.etcd.keeper import (
    NO_LEASE,
    KeeperProcess,
    LeaseKeeping,
    LeaseLoss,
    Order,
    OwnerSigns,
    Renewal,
    keep,
    lives_until,
)
from sidecar.adapters.etcd.owner import EtcdOwner, OwnerHolder
from sidecar.shared.errors import ConfigError, CoordinationLost

LEASE_S = 10
ORDER = Order(7, LEASE_S, lives_until(100.0, LEASE_S))


@dataclass
class Etcd:
    """`lives_until`: of the lease, by etcd's clock, which is the keeper's. `answers`: how long each keepalive takes to come there, and
    how long its answer takes to come back, None: it is lost."""

    answers: Iterator[tuple[float, float] | None]
    now: float = 100.0
    lease_ends: float = 100.0 + LEASE_S
    until: float = ORDER.until
    waits: list[float] = field(default_factory=list)

    def keep_alive(self, lease: int, timeout_s: float) -> bool:
        assert lease == ORDER.lease
        answer = next(self.answers, None)
        if answer is None:
            self.now += timeout_s
            raise CoordinationLost("no answer", hint="wait")
        self.now += answer[0]
        alive = self.now < self.lease_ends
        self.lease_ends = self.now + LEASE_S if alive else self.lease_ends
        self.now += answer[1]
        return alive

    def wait(self, wait_s: float) -> bool:
        self.waits.append(wait_s)
        self.now += wait_s
        return False

    def renewed(self, sent: float, answered: float) -> float:
        assert sent <= answered < self.until, "an answer that comes too late renews nothing"
        self.until = lives_until(sent, LEASE_S)
        assert self.until < self.lease_ends, "the owner believes in its lease for longer than etcd does"
        return self.until

    def keep(self) -> str:
        return keep(ORDER, LeaseKeeping(self.keep_alive, lambda: self.now, self.wait, self.renewed))


@pytest.mark.parametrize("seed", range(50))
def test_the_owner_never_believes_in_its_lease_for_longer_than_etcd_does(seed: int) -> None:
    random = Random(seed)

    def answers() -> Iterator[tuple[float, float] | None]:
        for _ in range(100):
            slow = random.random() < 0.2
            yield None if random.random() < 0.3 else (random.uniform(0, 4 if slow else 0.1), random.uniform(0, 4 if slow else 0.1))

    etcd = Etcd(answers())
    why = etcd.keep()
    assert "no keepalive reached etcd within the lease of 10 s" in why or "its lease ran out in etcd" in why
    assert etcd.now >= etcd.until or "ran out" in why


def test_a_third_of_the_lease_is_between_two_keepalives_and_less_after_one_that_failed() -> None:
    etcd = Etcd(iter([(0.5, 0.5), None, (0.1, 0.1)]))
    etcd.keep()
    assert etcd.waits[:4] == pytest.approx([10 / 3, 10 / 3 - 1, 0.5, 10 / 3 - 0.2])


@pytest.mark.parametrize(("sent", "waits_s"), [(99.0, 10 / 3 - 1), (90.0, 0.0)])
def test_a_keeper_that_follows_another_one_sends_when_that_one_would_have(sent: float, waits_s: float) -> None:
    etcd = Etcd(iter([(0.1, 0.1)]))
    keep(Order(7, LEASE_S, lives_until(sent, LEASE_S)), LeaseKeeping(etcd.keep_alive, lambda: etcd.now, etcd.wait, etcd.renewed))
    assert etcd.waits[0] == pytest.approx(waits_s)


def test_what_cannot_pass_ends_it_with_the_cause() -> None:
    etcd = Etcd(iter(()))

    def refuse(*_: object) -> bool:
        raise ConfigError("no such user", hint="set etcd.user")

    assert keep(ORDER, LeaseKeeping(refuse, lambda: etcd.now, etcd.wait, etcd.renewed)).startswith("the keepalive failed: no such user")


class StillKeeper:
    """In place of KeeperProcess: one that says nothing. `asked`: what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def start(self, *, timeout_s: float) -> None:
        assert timeout_s > 0
        self.asked.append("start")

    def keep(self, order: Order) -> None:
        self.asked.append(f"keep {order.lease}")

    def beat(self, until: float) -> None:
        """The owner runs."""

    def events(self) -> list[Renewal | LeaseLoss]:
        return []

    def close(self) -> None:
        self.asked.append("close")


@pytest.mark.parametrize("lost", [True, False])
def test_a_lease_that_was_lost_is_the_last_one_of_its_keeper(lost: bool) -> None:
    """One that is frozen, or hangs, would keep none of the next ones either."""
    now, keeper = [100.0], StillKeeper()
    client = SimpleNamespace(
        get=lambda _: None,
        grant=lambda _: 7,
        transact=lambda *_, **__: SimpleNamespace(succeeded=True, entries=(), revision=1),
        revoke=lambda *_, **__: None,
    )
    owner = EtcdOwner(cast("EtcdClient", client), "/cf", lease_s=LEASE_S, holder=OwnerHolder("here", 1, ""), clock=lambda: now[0])
    owner.keeper = cast("KeeperProcess", keeper)
    assert owner.acquire(timeout_s=0) == 1
    now[0] += LEASE_S if lost else 1
    assert owner.held() is not lost
    assert owner.acquire(timeout_s=0) == 2
    assert owner.held()
    assert keeper.asked[-4:] == ["keep 7", "close" if lost else "keep 0", "start", "keep 7"]
    owner.close()


@pytest.fixture
def now() -> list[float]:
    return [100.0]


@pytest.fixture
def pipe(now: list[float]) -> Iterator[tuple[OwnerSigns, int]]:
    """A keeper's view of its owner, and the end that the owner writes to."""
    reading, writing = os.pipe()

    def clock() -> float:
        now[0] += 0.25  # what is looked at often passes by itself
        return now[0]

    yield OwnerSigns(reading, clock), writing
    os.close(reading)


def order_of(owner: OwnerSigns, writing: int, order: Order) -> Order:
    os.write(writing, msgspec.json.encode(order) + b"\n")
    owner.follow(0.0)
    assert owner.order == order
    return owner.order


def test_it_waits_while_the_owner_gives_signs(pipe: tuple[OwnerSigns, int], now: list[float]) -> None:
    owner, writing = pipe
    order = order_of(owner, writing, ORDER)
    began = now[0]
    os.write(writing, b"\n" * 3)
    assert not owner.ends(order, 0.5)
    assert now[0] - began < LEASE_S
    os.close(writing)


def test_an_owner_that_is_gone_ends_it_at_once(pipe: tuple[OwnerSigns, int], now: list[float]) -> None:
    owner, writing = pipe
    order = order_of(owner, writing, ORDER)
    os.close(writing)
    began = now[0]
    assert owner.ends(order, 600.0)
    assert now[0] - began < LEASE_S


def test_another_order_ends_it(pipe: tuple[OwnerSigns, int]) -> None:
    owner, writing = pipe
    order = order_of(owner, writing, ORDER)
    os.write(writing, msgspec.json.encode(NO_LEASE) + b"\n")
    assert owner.ends(order, 600.0)
    os.close(writing)


def test_an_owner_that_is_silent_for_a_lease_gets_no_keepalive_until_the_lease_has_run_out(
    pipe: tuple[OwnerSigns, int], now: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is frozen; `keep` then sees that the lease has run out."""
    owner, writing = pipe
    order = order_of(owner, writing, ORDER)
    monkeypatch.setattr("sidecar.adapters.etcd.keeper.AGAIN_S", 0.0)
    now[0] += LEASE_S
    silent_since = owner.last_line_s
    assert not owner.ends(order, 0.0)
    assert now[0] - silent_since >= 2 * LEASE_S
    os.close(writing)
