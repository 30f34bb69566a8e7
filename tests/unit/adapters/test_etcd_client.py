"""What the etcd client decides without an etcd: which keys it writes, which settings it takes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.adapters.etcd.client import EtcdClient
from sidecar.adapters.etcd.keys import BY_OPTIONS, BY_SETTINGS, ROOT, Delete, EtcdNamed, Put, changefeed_root
from sidecar.shared.config import EtcdSection, Tls
from sidecar.shared.errors import ConfigError, CoordinationError, CoordinationLost
from sidecar.shared.ticdc.changefeed import ChangefeedName
from tests.support.eventually import PATIENCE_S

NOWHERE = EtcdSection(endpoints=("127.0.0.1:1",), timeout_s=0.2)


@pytest.fixture
def client() -> Iterator[EtcdClient]:
    made = EtcdClient(NOWHERE)
    yield made
    made.close()


@pytest.mark.parametrize("key", ["/tidb/cdc/default/x", "/tidb/cdc", "", "/", ROOT, ROOT.rstrip("/"), "/changefeed_dump/v10/x"])
@pytest.mark.parametrize("write", [lambda key: Put(key, b""), Delete], ids=["put", "delete"])
def test_only_keys_below_our_own_root_are_written(client: EtcdClient, key: str, write: type[Delete]) -> None:
    with pytest.raises(CoordinationError, match="not ours to write") as raised:
        client.transact([], [write(key)])
    assert not raised.value.retryable


def test_a_changefeeds_keys_are_below_our_own_root() -> None:
    name = ChangefeedName("prod-1", "default", "orders")
    root = changefeed_root(name, "2026-11-21T03:36:19.933428409Z-470609344557744131")
    assert root == f"{ROOT}prod-1/default/orders/2026-11-21T03:36:19.933428409Z-470609344557744131"


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        (ChangefeedName("a/b", "default", "x"), "cluster"),
        (ChangefeedName("a", "", "x"), "namespace"),
        (ChangefeedName("a", "default", "x y"), "id"),
        (ChangefeedName("a", "default", "x\n"), "id"),
        (ChangefeedName("a", "default", "x" * 129), "id"),
        (ChangefeedName("..", "default", "x"), "cluster"),
    ],
)
def test_a_name_that_could_leave_its_place_is_refused(name: ChangefeedName, setting: str) -> None:
    with pytest.raises(ConfigError, match=f"changefeed.{setting}"):
        changefeed_root(name, "1")


@pytest.mark.parametrize("incarnation", ["", "a/b", "a b", "1\n"])
def test_an_incarnation_that_could_leave_its_place_is_refused(incarnation: str) -> None:
    with pytest.raises(ConfigError, match="incarnation"):
        changefeed_root(ChangefeedName("a", "default", "x"), incarnation)


@pytest.mark.parametrize("endpoint", ["http://pd:2379", "pd", "pd:", "pd:2379/", "pd:x", "pd :2379", "::1:2379"])
def test_an_endpoint_that_is_not_host_and_port_is_refused(endpoint: str) -> None:
    with pytest.raises(ConfigError, match=r"etcd\.endpoints"):
        EtcdClient(EtcdSection(endpoints=(endpoint,)))


@pytest.mark.parametrize(
    ("named", "says", "not_said"),
    [(BY_SETTINGS, "check etcd.endpoints and etcd.tls", "--pd"), (BY_OPTIONS, "check --pd and --ca, --cert and --key", "etcd.endpoints")],
)
def test_what_is_said_names_what_the_operator_has_given(named: EtcdNamed, says: str, not_said: str) -> None:
    client = EtcdClient(NOWHERE, named=named)
    with pytest.raises(CoordinationLost) as error:
        client.get("/x")
    client.close()
    assert says in error.value.hint
    assert not_said not in error.value.hint
    with pytest.raises(ConfigError, match=f"set {named.endpoints} to PD's client addresses"):
        EtcdClient(EtcdSection(endpoints=("pd",)), named=named)


@pytest.mark.parametrize("endpoint", ["pd:2379", "10.0.0.1:2379", "[::1]:2379", "pd-0.pd.svc.cluster.local:2379"])
def test_endpoints_of_every_form_are_taken(endpoint: str) -> None:
    client = EtcdClient(EtcdSection(endpoints=(endpoint,)))
    client.close()
    assert client.section.endpoints == (endpoint,)


@pytest.mark.parametrize(
    ("tls", "setting"),
    [
        (Tls(cert_file="a", key_file="b"), "ca_file"),
        (Tls(ca_file="a", cert_file="b"), "key_file"),
        (Tls(ca_file="a", key_file="b"), "cert_file"),
        (Tls(ca_file="/nowhere/ca.pem"), r"etcd\.tls\.ca_file /nowhere/ca\.pem"),
    ],
)
def test_tls_settings_that_do_not_fit_are_named(tls: Tls, setting: str) -> None:
    with pytest.raises(ConfigError, match=setting):
        EtcdClient(EtcdSection(endpoints=("pd:2379",), tls=tls))


def test_a_password_file_that_is_gone_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"{tmp_path}/gone"):
        EtcdClient(EtcdSection(endpoints=("pd:2379",), user="u", password_file=str(tmp_path / "gone")))


def test_importing_the_client_does_no_work() -> None:
    """Neither etcd3 nor its messages are loaded until there is a client."""
    code = "import sys, sidecar.adapters.etcd.owner; sys.exit('etcd3' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=PATIENCE_S, check=False).returncode == 0
