"""`ticdc-dump remove` against a real etcd and a PD: what a sidecar kept is gone, what is others' stays, and a running one is left alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from sidecar.adapters.etcd.client import EtcdClient
from sidecar.adapters.etcd.keys import Put, changefeed_root
from sidecar.adapters.etcd.opening import open_keys
from sidecar.adapters.etcd.owner import EtcdOwner, OwnerHolder
from sidecar.run import leaving
from sidecar.run.changefeed_watch import read_changefeed
from sidecar.shared.config import EtcdSection, read_config
from sidecar.shared.errors import FeedLost, RefusedRequest
from sidecar.shared.ticdc.changefeed import ChangefeedName
from sidecar.shared.ticdc.changefeed_info import changefeed
from sidecar.shared.tikv.gc import reads_id, service_id
from tests.support.eventually import PATIENCE_S
from tests.support.services.etcd import Etcd
from tests.support.tikv.cluster import Cluster
from tests.support.tikv.recorded import History
from tests.support.tikv.server import TikvServers
from tests.tools.rig.changefeed import info, info_key

pytestmark = pytest.mark.xdist_group("leaving")

HISTORY = f"history/{'1' * 16}/entry"
ORDERS = ChangefeedName("default", "default", "orders")
OTHER = ChangefeedName("default", "default", "orders2")
PREVIOUS = "1700000000-1"


@dataclass
class Place:
    """An etcd and a PD that hold something of two incarnations of one changefeed, and of another one."""

    etcd: Etcd
    servers: TikvServers
    folder: Path
    client: EtcdClient
    incarnation: str

    def config(self, *, feed: str = "tikv", pd: list[str] | None = None, log: str = "log") -> Path:
        path = self.folder / "sidecar.toml"
        text = f"""
sinks = ["file://{self.folder}/output?format=jsonl", "s3://bucket/out?access-key=AK&secret-access-key=hush",
  "kafka://h:1/orders?sasl-password=hush", "mysql://me:hush@h:1/?position-schema=ours"]
feed = "{feed}"
changefeed = {{ id = "orders" }}
etcd = {{ endpoints = ["{self.etcd.endpoints[0]}"] }}
source = {{ host = "h", user = "u" }}
log = {{ uri = "{self.folder}/{log}" }}
tikv = {{ pd = {json.dumps(self.servers.pd_addresses if pd is None else pd)} }}
"""
        path.write_text(text)
        return path

    def entries(self) -> list[str]:
        return [entry.key for entry in self.client.get_prefix("/", keys_only=True)]

    def safe_points(self) -> set[bytes]:
        return set(self.servers.safe_points)

    def remove(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "sidecar", "remove", *arguments]
        return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=PATIENCE_S, check=False)

    def removed(self, *arguments: str) -> dict[str, Any]:
        done = self.remove(*arguments, "--json")
        assert done.returncode == 0, done.stdout + done.stderr
        result: dict[str, Any] = json.loads(done.stdout)
        return result


def points(*incarnations: str) -> set[bytes]:
    return {held(f"{ORDERS}/{one}").encode() for one in incarnations for held in (service_id, reads_id)}


OTHERS = {b"gc_worker", service_id(f"{OTHER}/{PREVIOUS}").encode()}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with (
        Etcd(tmp_path / "etcd") as etcd,
        TikvServers(Cluster(History((), (), {}))) as servers,
        closing(EtcdClient(EtcdSection(endpoints=etcd.endpoints))) as client,
    ):
        text = info(
            "orders",
            sink_uri="kafka://127.0.0.1:1/orders?protocol=open-protocol",
            start_ts=470609344557744131,
            created=datetime.now(UTC),
            filter_rules=("shop.*",),
            dispatchers=(),
            protocol="open-protocol",
        )
        etcd.put(info_key("orders"), text)
        made = Place(etcd, servers, tmp_path, client, changefeed(ORDERS, text.encode()).incarnation)
        for name, incarnation in ((ORDERS, made.incarnation), (ORDERS, PREVIOUS), (OTHER, PREVIOUS)):
            root = changefeed_root(name, incarnation)
            client.transact([], [Put(f"{root}/{key}", b"3") for key in ("epoch", "progress", "progress/a/00000", HISTORY)])
            for held in (service_id, reads_id) if name == ORDERS else (service_id,):
                servers.safe_points[held(f"{name}/{incarnation}").encode()] = 100
        yield made


def test_what_a_sidecar_kept_is_gone_and_what_is_others_stays(place: Place) -> None:
    (place.folder / "log").mkdir()
    (place.folder / "log" / "changefeed.txt").write_text(f"{ORDERS}/{place.incarnation}")
    (place.folder / "log" / f"{0:020d}.json").write_text("{}")
    result = place.removed("--config", str(place.config()), "--yes")
    assert result["removed"] is True
    assert len(result["etcd_keys"]) == 8
    assert not [key for key in place.entries() if "/orders/" in key and not key.startswith("/tidb/cdc/")]
    assert [key for key in place.entries() if "/orders2/" in key]
    assert place.etcd.get(info_key("orders")), "TiCDC's own is never touched"
    assert place.safe_points() == OTHERS
    left = {one["what"]: one["how"] for one in result["left"]}
    assert f"log file://{place.folder}/log, 1 segments" in left
    assert f"output of sink file://{place.folder}/output?format=jsonl" in left
    assert "--delete --topic _ticdc_dump_orders:" in left["output of sink kafka://h:1/orders"]
    assert "DROP DATABASE `ours`" in left["output of sink mysql://h:1/"]
    assert "hush" not in json.dumps(result)
    assert "DELETE FROM changefeed_dump.changefeed_dump_event WHERE changefeed_id = 'orders';" in left.values()
    assert left["changefeed default/default/orders in TiCDC"].startswith("only if nothing else reads what it writes")
    assert left["changefeed default/default/orders in TiCDC"].endswith(": cdc cli changefeed remove -c orders")


def test_it_can_be_done_again_after_the_changefeed_has_gone_too(place: Place) -> None:
    arguments = ("-c", "orders", "--pd", place.etcd.endpoints[0], "--yes")
    config = str(place.config())
    place.removed("--config", config, "--yes")
    place.etcd.etcdctl("del", info_key("orders"))
    again = place.removed("--config", config, "--yes")
    assert (again["etcd_keys"], again["service_safe_points"]) == ([], [])
    assert not any("in TiCDC" in one["what"] for one in again["left"])
    assert place.removed(*arguments)["etcd_keys"] == []


def test_a_dry_run_reports_all_of_it_and_removes_nothing(place: Place) -> None:
    before, points_before = place.entries(), place.safe_points()
    result = place.removed("--config", str(place.config()), "--dry-run")
    assert result["removed"] is False
    assert set(result["service_safe_points"]) == {one.decode() for one in points(PREVIOUS, place.incarnation)}
    text = place.remove("--config", str(place.config()), "--dry-run").stdout
    assert f"etcd key {result['etcd_keys'][0]}" in text
    assert "nothing was removed" in text
    assert (place.entries(), place.safe_points()) == (before, points_before)


def test_an_etcd_that_is_no_pd_has_no_safe_points_to_remove(place: Place) -> None:
    result = place.removed("-c", "orders", "--pd", f"http://{place.etcd.endpoints[0]}", "--yes")
    assert (len(result["etcd_keys"]), result["service_safe_points"]) == (8, [])
    assert points(PREVIOUS) <= place.safe_points()
    assert "--config" in result["left"][0]["how"]


def test_the_log_names_an_incarnation_that_etcd_has_forgotten(place: Place) -> None:
    (place.folder / "log").mkdir()
    (place.folder / "log" / "changefeed.txt").write_text(f"{ORDERS}/{PREVIOUS}")
    place.removed("-c", "orders", "--pd", place.etcd.endpoints[0], "--yes")
    place.etcd.etcdctl("del", info_key("orders"))
    place.removed("--config", str(place.config()), "--yes")
    assert place.safe_points() == OTHERS | points(place.incarnation)


def test_a_running_sidecar_is_named_and_nothing_of_it_is_removed(place: Place) -> None:
    before = place.safe_points()
    holder = OwnerHolder("machine-7", 4711, "10.0.0.7:8310")
    running = EtcdOwner(place.client, changefeed_root(ORDERS, place.incarnation), lease_s=10, holder=holder)
    assert running.acquire(timeout_s=PATIENCE_S)
    with ExitStack() as held:
        held.callback(running.release)
        for how in ("--yes", "--dry-run"):
            done = place.remove("--config", str(place.config()), how)
            assert done.returncode == 3
            assert "process 4711 on machine-7, reached at 10.0.0.7:8310" in done.stderr
            assert "stop it and its standby" in done.stderr
        assert running.held()
        assert f"{running.root}/epoch" in place.entries()
        assert place.safe_points() == before


def test_a_sidecar_that_begins_between_the_look_and_the_removal_loses_nothing(place: Place) -> None:
    reach = leaving.reach_of(read_config(place.config()))
    kept = leaving.look(place.client, reach)
    begun = EtcdOwner(place.client, kept.roots[0], lease_s=10, holder=OwnerHolder("here", os.getpid(), "127.0.0.1:8310"))
    assert begun.acquire(timeout_s=PATIENCE_S)
    before, points_before = place.entries(), place.safe_points()
    with ExitStack() as held:
        held.callback(begun.release)
        with pytest.raises(RefusedRequest, match=f"process {os.getpid()}"):
            leaving.remove(place.client, reach, kept)
        assert begun.held()
        assert (place.entries(), place.safe_points()) == (before, points_before)


def test_while_pd_is_away_etcd_keeps_what_names_the_safe_points(place: Place) -> None:
    reach = leaving.reach_of(read_config(place.config()))
    kept = leaving.look(place.client, reach)
    before = set(place.entries())
    for number in range(len(place.servers.pd_addresses)):
        place.servers.stop_pd(number)
    with pytest.raises(FeedLost):
        leaving.remove(place.client, reach, kept)
    assert set(place.entries()) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "there is no terminal to ask"),
        (("--json",), "there is no terminal to ask"),
        (("--yes",), "give --config FILE, or --changefeed-id and --pd"),
        (("--yes", "-c", "orders"), "give --config FILE"),
    ],
)
def test_nothing_is_removed_by_halves_of_a_command(place: Place, arguments: tuple[str, ...], message: str) -> None:
    before = place.entries()
    done = place.remove(*arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert place.entries() == before


def test_settings_of_another_changefeed_are_refused(place: Place) -> None:
    done = place.remove("--config", str(place.config()), "-c", "orders2", "--yes")
    assert (done.returncode, "is of changefeed default/default/orders" in done.stderr) == (2, True)


def test_a_log_of_another_changefeed_is_reported_and_left_alone(place: Place) -> None:
    (place.folder / "log").mkdir()
    (place.folder / "log" / "changefeed.txt").write_text(f"{OTHER}/{PREVIOUS}")
    result = place.removed("--config", str(place.config()), "--yes")
    assert any("which is of changefeed default/default/orders2" in one["what"] for one in result["left"])
    assert place.safe_points() == OTHERS


def test_what_a_folder_in_etcds_place_has_is_removed(tmp_path: Path) -> None:
    """The settings name no PD."""
    file = tmp_path / "orders.toml"
    file.write_text('sink-uri = "kafka://127.0.0.1:1/orders?protocol=open-protocol"\n')
    path = tmp_path / "sidecar.toml"
    path.write_text(f"""
sinks = ["console:"]
changefeed = {{ id = "orders", file = "{file}" }}
etcd = {{ folder = "{tmp_path}/state" }}
source = {{ host = "h", user = "u" }}
log = {{ uri = "{tmp_path}/log" }}
""")
    config = read_config(path)
    with closing(open_keys(config.etcd)) as keys:
        root = changefeed_root(ORDERS, read_changefeed(keys, config).incarnation)
        mine = EtcdOwner(keys, root, lease_s=10, holder=OwnerHolder("here", 1, "here:8310"))
        assert mine.acquire(timeout_s=0) is not None
        command = [sys.executable, "-m", "sidecar", "remove", "--config", str(path), "--yes"]
        refused = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        assert (refused.returncode, "a sidecar owns changefeed" in refused.stderr) == (3, True)
        mine.release()
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        assert done.returncode == 0, done.stderr
        assert keys.get_prefix("/", keys_only=True) == []
