"""`ticdc-dump init` against a real etcd that holds what a real TiCDC wrote: what it writes is what `check` and `run` begin with."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sidecar.adapters.etcd.client import EtcdClient
from sidecar.adapters.etcd.cluster import CLUSTER_ID_KEY
from sidecar.preflight.preflight import preflight
from sidecar.run.changefeed_watch import read_changefeed
from sidecar.shared.config import read_config
from sidecar.shared.process.checks import CheckOptions, CheckStatus
from tests.support.eventually import PATIENCE_S
from tests.support.recordings import recorded_cluster
from tests.support.services.etcd import Etcd, certificates, cluster

pytestmark = pytest.mark.xdist_group("init")

PROGRAM = (sys.executable, "-m", "sidecar", "init")
RECORDED = ("classic", "new")


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    with Etcd(tmp_path_factory.mktemp("etcd")) as running:
        fill(running)
        yield running


def fill(etcd: Etcd) -> None:
    for architecture in RECORDED:
        for key, value in recorded_cluster(architecture)["etcd"].items():
            etcd.put(key, value if isinstance(value, str) else json.dumps(value))
    etcd.put("/tidb/server/info/1", json.dumps({"ip": "10.0.0.1", "listening_port": 4000}))


def init(etcd: Etcd, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    command = [*PROGRAM, "--pd", etcd.endpoints[0], *arguments]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=PATIENCE_S, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def written(etcd: Etcd, folder: Path, *arguments: str) -> tuple[Path, dict[str, Any]]:
    path = folder / "sidecar.toml"
    places = ("--log", str(folder / "log"), "--sink", f"file://{folder}/output?format=jsonl")
    done = init(etcd, *arguments, *places, "--json", "-o", str(path))
    result: dict[str, Any] = json.loads(done.stdout)
    assert "secret" not in done.stdout + done.stderr + path.read_text(), "the recorded sink URI has an account"
    return path, result


def etcds_checks(path: Path) -> dict[str, CheckStatus]:
    results = preflight(path, CheckOptions(write=False, wait_s=1.0)).results
    return {result.name: result.status for result in results}


@pytest.mark.recordings
@pytest.mark.parametrize("ticdc", ["default", "newarch"])
def test_the_settings_of_a_recorded_changefeed_are_what_check_begins_with(etcd: Etcd, tmp_path: Path, ticdc: str) -> None:
    path, result = written(etcd, tmp_path, "-c", "cap-open", "--cluster", ticdc, "--tidb", "127.0.0.1:1")
    config = read_config(path)
    with closing(EtcdClient(config.etcd)) as client:
        assert read_changefeed(client, config).protocol == result["changefeed"]["protocol"] == "open-protocol"
    assert (config.changefeed.cluster, config.changefeed.id) == (ticdc, "cap-open")
    checked = etcds_checks(path)
    assert [checked[name] for name in ("settings", "secrets", "etcd", "changefeed", "changefeed state", "log")] == [CheckStatus.OK] * 6
    assert checked["tidb"] is CheckStatus.FAILED, "nobody is there"


@pytest.mark.recordings
def test_ids_of_two_clusters_are_distinguished_and_the_file_is_private(etcd: Etcd, tmp_path: Path) -> None:
    reported = init(etcd, "-c", "cap-open", "-y", "-o", str(tmp_path / "x.toml"), code=3).stderr
    assert "2 changefeeds fit" in reported
    assert "default/default/cap-open: normal, open-protocol to kafka://127.0.0.1:9092/cap-open-classic" in reported
    assert "newarch/default/cap-open" in reported
    assert "secret" not in reported
    path, result = written(etcd, tmp_path, "-c", "cap-filter", "--cluster", "default")
    assert path.stat().st_mode & 0o777 == 0o600
    against = [one["setting"] for one in result["problems"]]
    assert against[0] == "filter.ignore-txn-start-ts (changefeed)"
    assert not any("column-selectors" in setting for setting in against)
    assert "\nGRANT SELECT ON mysql.tidb_ddl_job TO 'ticdc_dump'@'%';" in result["sql"], "its event filter leaves DDLs out"
    assert read_config(path).source.host == "10.0.0.1"


@pytest.mark.recordings
@pytest.mark.parametrize(
    ("id", "what"),
    [
        ("ddl-0329-debezium", "protocol debezium cannot carry a dump"),
        ("nope", "no changefeed is */*/nope"),
    ],
)
def test_what_can_never_work_is_reported_and_nothing_is_written(etcd: Etcd, tmp_path: Path, id: str, what: str) -> None:
    assert what in init(etcd, "-c", id, "-y", "-o", str(tmp_path / "x.toml"), code=3).stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.recordings
def test_a_storage_sink_is_read_from_its_files(etcd: Etcd, tmp_path: Path) -> None:
    path, result = written(etcd, tmp_path, "-c", "ddl-0329-storage-csv", "--tidb", "127.0.0.1:1")
    assert read_config(path).feed == "storage"
    assert result["changefeed"]["protocol"] == "csv"
    assert [one["setting"] for one in result["problems"]] == ["source.password_file"]


@pytest.mark.recordings
def test_it_reads_etcd_and_writes_nothing_there(etcd: Etcd, tmp_path: Path) -> None:
    before = etcd.etcdctl("get", "", "--prefix", "--write-out=json")
    written(etcd, tmp_path, "-c", "cap-open", "--cluster", "default")
    revision = '"revision":'
    after = etcd.etcdctl("get", "", "--prefix", "--write-out=json")
    assert before.partition(revision)[2].partition(",")[0] == after.partition(revision)[2].partition(",")[0]


@pytest.mark.recordings
def test_on_a_real_terminal_it_asks(etcd: Etcd, tmp_path: Path) -> None:
    terminal, its = pty.openpty()
    command = [*PROGRAM, "-n", "default", "--cluster", "newarch"]
    asking = subprocess.Popen(command, stdin=its, stdout=its, stderr=its, cwd=tmp_path)
    os.close(its)
    answers = {
        "PD's client addresses": f"http://{etcd.endpoints[0]}",
        "Changefeed (number or id)": "cap-open",
        "TiDB's address": "",
        "account in TiDB": "me",
        "its password": "",
        "The log": str(tmp_path / "log"),
        "The sink's URI": "console:",
    }
    seen = ""
    while answers or "run --config" not in seen:
        assert select.select([terminal], [], [], PATIENCE_S)[0], seen
        try:
            seen += os.read(terminal, 4096).decode()
        except OSError:  # a terminal whose program has ended
            break
        for question in [question for question in answers if question in seen and seen.rstrip().endswith(":")]:
            seen = seen.replace(question, "")
            os.write(terminal, f"{answers.pop(question)}\n".encode())
    assert asking.wait(PATIENCE_S) == 0, seen
    os.close(terminal)
    config = read_config(tmp_path / "sidecar.toml")
    assert (config.changefeed.cluster, config.source.host, config.source.user, config.sinks) == ("newarch", "10.0.0.1", "me", ("console:",))


@pytest.mark.recordings
def test_by_tls_with_a_client_certificate(tmp_path: Path) -> None:
    made = certificates(tmp_path / "tls")
    with Etcd(tmp_path / "etcd", tls=made) as etcd:
        fill(etcd)
        common = ("-c", "cap-open", "--cluster", "default")
        output = init(etcd, *common, "-y", "-o", str(tmp_path / "x.toml"), code=3).stderr
        assert f"PD at {etcd.endpoints[0]} does not answer" in output
        assert "--ca" in output
        tls = ("--ca", str(made.ca), "--cert", str(made.client_cert), "--key", str(made.client_key))
        path, _ = written(etcd, tmp_path, *common, *tls)
        assert etcds_checks(path)["changefeed"] is CheckStatus.OK


@pytest.mark.recordings
def test_the_tidb_of_another_cluster_is_not_offered(etcd: Etcd, tmp_path: Path) -> None:
    try:
        etcd.etcdctl("put", CLUSTER_ID_KEY, "8 bytes.")
        output = init(etcd, "-c", "cap-open", "--cluster", "default", "-y", "-o", str(tmp_path / "x.toml"), code=2).stderr
        assert "--tidb" in output
    finally:
        etcd.etcdctl("del", CLUSTER_ID_KEY)


@pytest.mark.recordings
def test_pds_other_members_are_found_and_those_that_do_not_answer_are_told(tmp_path: Path) -> None:
    with cluster(tmp_path / "pd", 3) as members:
        fill(members[0])
        members[2].kill()
        path, result = written(members[0], tmp_path, "-c", "cap-open", "--cluster", "default")
        assert set(read_config(path).etcd.endpoints) == {members[0].endpoints[0], members[1].endpoints[0]}
        assert read_config(path).etcd.endpoints[0] == members[0].endpoints[0], "the one that was given is the first"
        (reported,) = (one["what"] for one in result["problems"] if one["setting"] == "etcd.endpoints")
        assert members[2].endpoints[0] in reported
