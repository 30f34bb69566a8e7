"""PD's client against two members over gRPC: who leads, what time it is, what is where, and what becomes of a member that is gone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import grpc
import pytest

from sidecar.shared.config import TikvSection, Tls
from sidecar.shared.errors import ConfigError, FeedLost, FeedUnsuitable
from sidecar.shared.rowcodec.key_values import KeyRange
from sidecar.shared.tikv import pd as tikv_pd
from sidecar.shared.tikv.channel import KEEPALIVE_S, connector
from sidecar.shared.tikv.pd import PdClient
from sidecar.shared.tikv.regions import encoded
from tests.support.tikv.cluster import CLUSTER_ID, Cluster
from tests.support.tikv.recorded import History
from tests.support.tikv.server import TSO_PHYSICAL_MS, TikvServers


@pytest.fixture
def servers() -> Iterator[TikvServers]:
    with TikvServers(Cluster(History((), (), {}), keys_of_splits=[b"g", b"m"])) as made:
        yield made


@pytest.fixture
def pd(servers: TikvServers) -> Iterator[PdClient]:
    with closing(PdClient(servers.section())) as client:
        yield client


def test_a_timestamp_is_physical_and_logical_and_rises(pd: PdClient) -> None:
    first = pd.tso()
    assert (first >> 18, first & 0x3FFFF) == (TSO_PHYSICAL_MS, 1)
    assert pd.tso() > first


def test_pd_is_not_pinged_without_a_call_for_its_server_ends_such_connections(
    pd: PdClient, servers: TikvServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: dict[str, dict[str, int]] = {}
    connect = grpc.insecure_channel
    monkeypatch.setattr(grpc, "insecure_channel", lambda to, options: opened.update({to: dict(options)}) or connect(to, options))
    pd.tso()
    connector(Tls())(servers.addresses[1]).close()
    without_calls = {to: options["grpc.keepalive_permit_without_calls"] for to, options in opened.items()}
    assert without_calls.pop(servers.addresses[1]) == 1, "TiKV allows it, as TiCDC does"
    assert set(without_calls.values()) == {0}
    assert KEEPALIVE_S > 5, "PD's server allows one ping in 5 s during a call"


def test_regions_come_in_order_page_by_page(pd: PdClient, monkeypatch: pytest.MonkeyPatch) -> None:
    regions = pd.regions(b"a", b"z")
    assert [region.start for region in regions] == [b"", encoded(b"g"), encoded(b"m")]
    assert [region.leader_store for region in regions] == [1, 1, 1]
    monkeypatch.setattr(tikv_pd, "SCAN_REGIONS_MAX", 1)
    assert pd.regions(b"a", b"z") == regions
    assert pd.regions(*KeyRange(b"h", b"i")) == regions[1:2]


def test_a_store_that_is_not_known_is_none(pd: PdClient, servers: TikvServers) -> None:
    store = pd.store(1)
    assert store is not None
    assert store.address == servers.addresses[1]
    assert pd.store(99) is None


def test_another_leader_is_found(pd: PdClient, servers: TikvServers) -> None:
    assert pd.cluster_id() == CLUSTER_ID
    servers.cluster.pd_leader = 1
    assert pd.store(1) is not None
    servers.cluster.pd_leader = 0
    servers.stop_pd(1)
    assert pd.store(1) is not None


def test_without_any_member_it_is_lost_and_names_them_all(pd: PdClient, servers: TikvServers) -> None:
    pd.cluster_id()
    for number in range(2):
        servers.stop_pd(number)
    with pytest.raises(FeedLost) as lost:
        pd.store(1)
    assert all(address in str(lost.value) for address in servers.pd_addresses)


def test_a_timestamp_waits_for_a_leader_within_its_bound(pd: PdClient, servers: TikvServers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tikv_pd, "TSO_RETRY_S", 0.3)
    for number in range(2):
        servers.stop_pd(number)
    with pytest.raises(FeedLost, match="no leader"):
        pd.tso()


def test_members_of_another_cluster_are_refused(pd: PdClient, servers: TikvServers) -> None:
    pd.cluster_id()
    servers.pd_cluster_id = 4711
    with pytest.raises(FeedUnsuitable, match="4711"):
        pd.store(1)


def test_versions_that_are_gone_cannot_be_kept(pd: PdClient, servers: TikvServers) -> None:
    servers.safe_points[b"gc_worker"] = 100
    assert pd.keep_versions("me", above=200, keep_s=60) == 100
    assert servers.safe_points[b"me"] == 200
    servers.safe_points[b"gc_worker"] = 300
    assert pd.keep_versions("other", above=150, keep_s=60) == 200
    assert b"other" not in servers.safe_points


def test_versions_are_kept_no_longer_than_they_are_requested(pd: PdClient, servers: TikvServers) -> None:
    pd.keep_versions("me", above=200, keep_s=60)
    pd.forget_versions("me")
    pd.forget_versions("me")
    assert servers.safe_points.keys() == {b"gc_worker"}


def test_what_is_no_pd_is_distinguished_from_what_does_not_answer(pd: PdClient, servers: TikvServers) -> None:
    assert pd.answers_as_pd()
    with closing(PdClient(TikvSection(pd=(servers.addresses[1],)))) as store:
        assert not store.answers_as_pd()
    for number in range(2):
        servers.stop_pd(number)
    assert pd.answers_as_pd()


def test_no_endpoint_is_a_setting_that_cannot_be_used(servers: TikvServers) -> None:
    with pytest.raises(ConfigError, match=r"tikv\.pd"):
        PdClient(type(servers.section())())


def test_an_error_names_the_section_that_pd_is_set_in() -> None:
    with pytest.raises(ConfigError, match=r"binlog\.pd names no endpoint"):
        PdClient(TikvSection(), named="binlog")
    with (
        closing(PdClient(TikvSection(pd=("127.0.0.1:1",)), named="binlog")) as away,
        pytest.raises(FeedLost, match=r"binlog\.pd names its"),
    ):
        away.cluster_id()
