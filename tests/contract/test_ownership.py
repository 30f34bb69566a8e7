"""What every Ownership keeps: the one in etcd or in a local folder, and the twin in memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol
from uuid import uuid4

import pytest

from sidecar.adapters.etcd.folder import FolderKeys
from sidecar.adapters.etcd.keeper import KeeperProcess
from sidecar.adapters.etcd.keys import changefeed_root
from sidecar.adapters.etcd.opening import open_keys
from sidecar.adapters.etcd.owner import EtcdOwner, OwnerHolder
from sidecar.adapters.memory.owner import Election, MemoryOwner
from sidecar.ports import Ownership
from sidecar.shared.config import EtcdSection
from sidecar.shared.ticdc.changefeed import ChangefeedName
from tests.support.eventually import PATIENCE_S, eventually
from tests.support.services.etcd import Etcd

pytestmark = pytest.mark.xdist_group("etcd")
LEASE_S = 2 * int(PATIENCE_S)
"""No lease expires while a test waits: no machine is stuck for so long that the owner's keepalives get no answer."""
SHORT_LEASE_S = 15
"""For an owner whose lease the test revokes: the owner detects that at its next keepalive, after a third of this time."""


class Contest(Protocol):
    """One changefeed. `candidate`: another process; `expire`: the owner's lease runs out, and it is not told."""

    def candidate(self, lease_s: int = LEASE_S) -> Ownership: ...
    def expire(self) -> None: ...


@dataclass
class MemoryContest:
    election: Election = field(default_factory=Election)

    def candidate(self, lease_s: int = LEASE_S) -> Ownership:
        return MemoryOwner(self.election)

    def expire(self) -> None:
        self.election.expire()


@dataclass
class KeysContest:
    """`end_lease`: of this number, and its holder is not told."""

    section: EtcdSection
    end_lease: Callable[[int], object]
    root: str
    by_process: bool
    candidates: list[EtcdOwner] = field(default_factory=list)

    def candidate(self, lease_s: int = LEASE_S) -> Ownership:
        client = open_keys(self.section)
        holder = OwnerHolder("here", 1, f"127.0.0.1:{len(self.candidates)}")
        made = EtcdOwner(client, self.root, lease_s=lease_s, holder=holder)
        if self.by_process:
            made.keeper = KeeperProcess(client.section)
        self.candidates.append(made)
        return made

    def expire(self) -> None:
        entry = self.candidates[0].client.get(f"{self.root}/owner")
        assert entry is not None
        self.end_lease(entry.lease)

    def close(self) -> None:
        for candidate in self.candidates:
            candidate.close()
            candidate.client.close()


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    with Etcd(Path(tmp_path_factory.mktemp("etcd"))) as running:
        yield running


@pytest.fixture(params=["twin", "etcd", "etcd, kept by a process", "folder", "folder, kept by a process"])
def contest(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Contest]:
    if request.param == "twin":
        yield MemoryContest()
        return
    section = EtcdSection(folder=str(tmp_path / "state"))
    with closing(FolderKeys(section)) as other:
        end_lease: Callable[[int], object] = other.revoke
        if request.param.startswith("etcd"):
            etcd: Etcd = request.getfixturevalue("etcd")
            section = EtcdSection(endpoints=etcd.endpoints)
            end_lease = lambda lease: etcd.etcdctl("lease", "revoke", f"{lease:x}")  # noqa: E731 - as short as it is used
        root = changefeed_root(ChangefeedName("default", "default", f"test-{uuid4().hex}"), "1")
        real = KeysContest(section, end_lease, root, by_process="by a process" in request.param)
        yield real
        real.close()


def test_nobody_owns_at_first(contest: Contest) -> None:
    assert not contest.candidate().held()


def test_there_is_one_owner(contest: Contest) -> None:
    first, second = contest.candidate(), contest.candidate()
    assert first.acquire(timeout_s=0) == 1
    assert second.acquire(timeout_s=0) is None
    assert (first.held(), second.held()) == (True, False)


def test_waits_for_the_owner_no_longer_than_the_timeout(contest: Contest) -> None:
    contest.candidate().acquire(timeout_s=0)
    began = time.monotonic()
    assert contest.candidate().acquire(timeout_s=0.3) is None
    assert time.monotonic() - began >= 0.3


def test_of_many_that_try_at_once_one_becomes_the_owner(contest: Contest) -> None:
    candidates = [contest.candidate() for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        epochs = list(pool.map(lambda candidate: candidate.acquire(timeout_s=0), candidates))
    assert sorted(epoch for epoch in epochs if epoch is not None) == [1]
    assert [candidate.held() for candidate in candidates] == [epoch is not None for epoch in epochs]


def test_a_standby_takes_over_as_soon_as_the_owner_gives_up(contest: Contest) -> None:
    first, second = contest.candidate(), contest.candidate()
    first.acquire(timeout_s=0)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(second.acquire, timeout_s=PATIENCE_S)
        assert not waiting.done()
        first.release()
        assert waiting.result(timeout=PATIENCE_S) == 2
    assert (first.held(), second.held()) == (False, True)


def test_a_standby_takes_over_when_the_lease_ends_and_the_previous_owner_learns_it(contest: Contest) -> None:
    first, second = contest.candidate(SHORT_LEASE_S), contest.candidate()
    first.acquire(timeout_s=0)
    contest.expire()
    assert second.acquire(timeout_s=PATIENCE_S) == 2
    eventually(lambda: not first.held())
    assert second.held()


def test_a_previous_owner_that_gives_up_late_does_not_hurt_the_next_one(contest: Contest) -> None:
    first, second, third = contest.candidate(), contest.candidate(), contest.candidate()
    first.acquire(timeout_s=0)
    contest.expire()
    second.acquire(timeout_s=PATIENCE_S)
    first.release()
    assert second.held()
    assert third.acquire(timeout_s=0) is None


def test_epochs_only_rise(contest: Contest) -> None:
    epochs = []
    for _ in range(3):
        for candidate in (contest.candidate(), contest.candidate()):
            epochs += [candidate.acquire(timeout_s=0)]
            candidate.release()
    assert epochs == [1, 2, 3, 4, 5, 6]


def test_an_owner_that_acquires_again_gets_a_new_epoch_at_once(contest: Contest) -> None:
    owner = contest.candidate()
    assert [owner.acquire(timeout_s=0), owner.acquire(timeout_s=0)] == [1, 2]
    assert owner.held()


def test_giving_up_without_owning_is_harmless(contest: Contest) -> None:
    owner = contest.candidate()
    owner.release()
    owner.acquire(timeout_s=0)
    owner.release()
    owner.release()
    assert not owner.held()
