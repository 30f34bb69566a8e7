"""What PD keeps for a holder: of the cluster or of a keyspace, for how far back, and what it says of what is gone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.model.nouns import CommitTs, ts_at
from sidecar.shared.tikv.gc import VersionHold
from sidecar.shared.tikv.pd import PdClient
from tests.support.tikv.cluster import Cluster
from tests.support.tikv.recorded import History
from tests.support.tikv.server import GC_WORKER, TikvServers

NOW_MS = 1_795_000_000_000
HOUR_MS = 3_600_000
NAME, KEYSPACE = "reads", "tenant"


@pytest.fixture
def servers() -> Iterator[TikvServers]:
    with TikvServers(Cluster(History((), (), {}))) as made:
        yield made


@pytest.fixture
def pd(servers: TikvServers) -> Iterator[PdClient]:
    with closing(PdClient(servers.section())) as client:
        yield client


KINDS: dict[str, tuple[dict[str, tuple[int, bool]] | None, bool]] = {
    "a PD without keyspaces": (None, False),
    "no such keyspace": ({"other": (9, True)}, True),
    "a keyspace without a GC of its own": ({KEYSPACE: (7, False)}, True),
    "the same, of a PD without barriers": ({KEYSPACE: (7, False)}, False),
    "a keyspace with a GC of its own": ({KEYSPACE: (7, True)}, True),
}


@pytest.fixture(params=KINDS)
def held(request: pytest.FixtureRequest, servers: TikvServers) -> dict[bytes, int]:
    """What garbage collection goes by, of the keyspace."""
    servers.keyspaces, servers.has_barriers = KINDS[request.param]
    if request.param != "a keyspace with a GC of its own":
        return servers.safe_points
    return servers.of_keyspaces.setdefault(7, {GC_WORKER: 0})


def at(hours_ago: float) -> CommitTs:
    return ts_at(NOW_MS - round(hours_ago * HOUR_MS))


def hold_of(pd: PdClient) -> VersionHold:
    return VersionHold(pd, NAME, keep_s=600, hold_max_s=24 * 3600, keyspace=KEYSPACE)


def test_a_moment_is_kept_moved_and_let_go(pd: PdClient, held: dict[bytes, int]) -> None:
    hold = hold_of(pd)
    assert hold.keep(at(2), now_ms=NOW_MS) is None
    assert (hold.held, held) == (True, {GC_WORKER: 0, NAME.encode(): at(2) - 1})
    assert hold.keep(at(1), now_ms=NOW_MS) is None
    assert held[NAME.encode()] == at(1) - 1
    hold.let_go()
    assert (hold.held, held) == (False, {GC_WORKER: 0})


def test_what_garbage_collection_has_passed_is_reported_and_not_held(pd: PdClient, held: dict[bytes, int]) -> None:
    hold = hold_of(pd)
    held[GC_WORKER] = at(1)
    assert hold.keep(at(2), now_ms=NOW_MS) == at(1)
    assert not hold.held
    assert hold.keep(at(0.5), now_ms=NOW_MS) is None
    assert hold.held


def test_a_moment_beyond_the_bound_is_let_go_and_may_still_be_there(pd: PdClient, held: dict[bytes, int]) -> None:
    hold = hold_of(pd)
    hold.keep(at(23), now_ms=NOW_MS)
    assert hold.keep(at(23), now_ms=NOW_MS + 2 * HOUR_MS) is None
    assert (hold.held, held) == (False, {GC_WORKER: 0})
    held[GC_WORKER] = at(20)
    assert hold.keep(at(23), now_ms=NOW_MS + 2 * HOUR_MS) == at(20)


def test_a_keyspace_that_no_barrier_can_keep_is_refused(pd: PdClient, servers: TikvServers) -> None:
    servers.keyspaces = {KEYSPACE: (7, True)}
    hold = hold_of(pd)
    with pytest.raises(FeedUnsuitable, match="keyspace tenant has a garbage collection of its own"):
        hold.keep(at(1), now_ms=NOW_MS)
    hold.let_go()
    assert servers.safe_points == {GC_WORKER: 0}
