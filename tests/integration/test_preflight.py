"""The preflight on real servers: all is well on a healthy rig, and each setting that is broken is found and named.

One rig for all: what is broken is broken in settings, in a changefeed of its own beside the rig's, or for an account of its own,
so that the rig stays whole. A test carries out the checks that it is about and what they need; some carry out all of them.
"""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import typer
from typer.testing import CliRunner

from sidecar.adapters.etcd.client import EtcdClient
from sidecar.cli.check import EXIT_FAILED, register
from sidecar.preflight.preflight import checks, preflight
from sidecar.run.changefeed_watch import read_changefeed
from sidecar.run.metrics import MetricsServer, MetricsTally
from sidecar.shared.codecs.open_protocol import encode_resolved
from sidecar.shared.config import read_config
from sidecar.shared.log.manifest import Manifest, to_json
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.nouns import MARK_TABLE, CommitTs, Lane, Seq
from sidecar.shared.process.checks import CheckOptions, CheckResult, CheckStatus, Result, carried_out
from spark_merge.sinks.registry import open_sink
from tests.support.deliveries import Segments, deliver, opened
from tests.support.eventually import PATIENCE_S
from tests.support.services.etcd import Etcd, certificates
from tests.support.services.kafka import READER, STRANGER, KafkaBroker
from tests.support.services.ports import free_port
from tests.support.sql_place import uri_of
from tests.tools.rig import changefeed
from tests.tools.rig.rig import Rig
from tests.tools.rig.sidecar_process import SidecarProcess
from tests.tools.rig.tables import SCHEMA

pytestmark = pytest.mark.xdist_group("rig-preflight")

SPARK_S = 240.0
SILENCE_S = 10.0
"""What must not come is waited for so long."""

Sections = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Stage:
    """A rig, a log and a sink. `findings` of a check tell what it found, with what to change."""

    rig: Rig
    folder: Path

    def config(self, *, log: str = "", sinks: tuple[str, ...] = (), **sections: Sections) -> Path:
        sections.setdefault("spark", {"managed": False})
        results = sinks or (f"file://{self.folder}/output?format=jsonl",)
        return self.rig.sidecar_config(sinks=results, log=log or f"file://{self.folder}/log", **sections)

    def check(self, *names: str, wait_s: float = PATIENCE_S, write: bool = True, **sections: Any) -> dict[str, Result]:
        """The results of these checks and of all that they need."""
        options = CheckOptions(wait_s=wait_s, write=write)
        every = {check.name: check for check in checks("kafka", options)}
        wanted = set(names)
        while more := {need.name for name in wanted for need in every[name].needs} - wanted:
            wanted |= more
        check_result = CheckResult(read_config(self.config(**sections)), options)
        try:
            results = carried_out([check for check in every.values() if check.name in wanted], check_result)
        finally:
            check_result.close()
        assert not any(result.defect for result in results), results
        return {result.name: result for result in results}

    def put_changefeed(
        self, id: str, *, topic: str = "", uri: str = "", change: Callable[[dict[str, Any]], None] | None = None
    ) -> Sections:
        """A changefeed beside the rig's, on its topic if no other is named; returns the settings that name it."""
        options = self.rig.options
        brokers = self.rig.kafka.bootstrap
        uri = uri or changefeed.sink_uri(brokers, topic or self.rig.topic, protocol=options.protocol, partitions=options.partitions)
        text = changefeed.info(
            id,
            sink_uri=uri,
            start_ts=self.rig.start_ts,
            created=datetime.now(UTC),
            filter_rules=options.filter_rules,
            dispatchers=(),
            protocol=options.protocol,
        )
        info = json.loads(text)
        if change is not None:
            change(info)
        self.rig.etcd.put(changefeed.info_key(id), json.dumps(info))
        self.rig.etcd.put(changefeed.status_key(id), changefeed.status(self.rig.start_ts))
        return {"changefeed": {"id": id}}

    def account(self, name: str, *grants: str) -> Sections:
        """An account with these rights and no others."""
        user = f"'{name}'@'%'"
        created = (f"drop user if exists {user}", f"create user {user} identified by 'secret'")
        self.rig.db.execute(*created, *(f"grant {grant} to {user}" for grant in grants))
        secret = self.folder / f"{name}.password"
        secret.write_text("secret\n")
        return {"source": {"user": name, "password_file": str(secret)}}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("rig-preflight")
    with Rig(folder, initial_rows=20) as rig:
        rig.db.execute("set time_zone = '+00:00'", "update shop.account set created = '2024-05-01 12:00:00', version = 7")
        rig.await_published()
        yield Stage(rig, folder)


def text_of(result: Result, status: CheckStatus) -> str:
    """All that its findings of this status say; each must name what to change."""
    findings = [finding for finding in result.findings if finding.status is status]
    assert findings, result
    assert status is CheckStatus.SKIPPED or all(finding.setting and finding.hint for finding in findings), findings
    return "\n".join(f"{finding.what} | {finding.setting} | {finding.hint}" for finding in findings)


def failure(result: Result) -> str:
    assert result.status is CheckStatus.FAILED, result
    return text_of(result, CheckStatus.FAILED)


# ---- all of it ------------------------------------------------------------------------------------------------------


def test_on_a_healthy_rig_nothing_fails(stage: Stage) -> None:
    report = preflight(stage.config(spark={"managed": True}), CheckOptions(wait_s=PATIENCE_S))
    results = {result.name: result for result in report.results}
    assert report.ok, [result for result in report.results if result.status is CheckStatus.FAILED]
    not_ok = {result.name for result in report.results if result.status is not CheckStatus.OK} - {"disk space"}
    assert not_ok == {"tidb", "gc life time", "holes", "spark session"}, "MariaDB is no TiDB, and nobody asked for Spark"
    assert results["tidb"].status is CheckStatus.WARNING
    assert "12 of" in results["tables"].findings[0].what
    assert "commit_ts" in results["watermark arrives"].findings[0].what
    assert "UTC" in results["server time zone"].findings[0].what
    assert not any(entry.startswith("changefeed.txt") for entry in _names(stage.folder / "log")), "the log is not claimed"


def test_no_write_writes_nothing(stage: Stage) -> None:
    uuids = stage.rig.db.execute(f"select unique_identifier from {MARK_TABLE}")
    log = stage.folder / "untouched"
    results = stage.check("etcd write", "log", "watermark write", "watermark arrives", write=False, log=f"file://{log}")
    assert {results[name].status for name in ("etcd write", "watermark write", "watermark arrives")} == {CheckStatus.SKIPPED}
    assert results["log"].status is CheckStatus.OK
    assert not log.exists()
    assert stage.rig.db.execute(f"select unique_identifier from {MARK_TABLE}") == uuids


@pytest.mark.spark
def test_a_dump_that_runs_is_not_disturbed_and_its_ports_are_ours(stage: Stage) -> None:
    sinks = (f"file://{stage.folder}/running-output?format=jsonl",)
    spark = {"managed": True, "master": "local[1]", "memory": "512m"}
    path = stage.config(log=f"file://{stage.folder}/running-log", sinks=sinks, spark=spark, dump={"chunk_rows": 10})
    with SidecarProcess(path, stage.folder / "sidecar.log") as sidecar:
        sidecar.await_status(lambda value: value["merge_worker"] == "running", timeout_s=SPARK_S)
        sidecar.ask("dumpstart", "--rows-per-second", "10")
        sidecar.await_status(lambda value: rows_of(value) > 0, timeout_s=SPARK_S)
        report = preflight(path, CheckOptions(wait_s=PATIENCE_S))
        assert report.ok, [result for result in report.results if result.status is CheckStatus.FAILED]
        before = sidecar.ask("dumpquery")
        assert before["state"] == "running", "the preflight ran beside it"
        results = {result.name: result for result in report.results}
        assert "already" in results["control address"].findings[0].what
        assert "already" in results["metrics address"].findings[0].what
        assert "owned by" in results["changefeed"].findings[1].what
        other = stage.check("control address", changefeed={"id": "other"}, control={"listen": sidecar.address})
        assert "by another changefeed's sidecar" in failure(other["control address"])
        after = sidecar.await_status(lambda status: rows_of(status) > rows_of(before), timeout_s=SPARK_S)
        assert after["state"] in ("running", "finished")
        assert after["last_error"] == ""
        assert after["epoch"] == before["epoch"]


def rows_of(status: dict[str, Any]) -> int:
    return sum(int(table["rows"]) for table in status["tables"])


def app() -> typer.Typer:
    result = typer.Typer()
    result.callback()(lambda: None)
    register(result)
    return result


def test_the_command_reports_every_check_and_exits_with_1_for_a_failure(stage: Stage) -> None:
    path = stage.config(changefeed={"id": "nobody"}, metrics={"listen": ""})
    done = CliRunner().invoke(app(), ["check", "--config", str(path), "--json", "--wait", "1"])
    assert done.exit_code == EXIT_FAILED, done.output
    result = json.loads(done.output)
    assert result["ok"] is False
    by_name = {check["name"]: check for check in result["checks"]}
    assert by_name["changefeed"]["status"] == "failed"
    assert by_name["changefeed"]["findings"][0]["setting"].startswith("changefeed.id")
    assert by_name["resolved marks"]["status"] == "skipped"
    assert by_name["tidb"]["status"] == "warning"
    for_people = CliRunner().invoke(app(), ["check", "--config", str(path), "--wait", "1"])
    assert for_people.exit_code == EXIT_FAILED
    assert "rig-feed" in for_people.output, "the changefeeds that there are"
    assert "not ready" in for_people.output


@pytest.mark.spark
@pytest.mark.parametrize(
    ("master", "port", "status", "what"),
    [
        ("local[1]", None, "ok", ("sees the log's", "and reads from ")),
        ("local[1]", 1, "failed", (f"a task on {socket.gethostname()} (executor in ", "127.0.0.1:1")),
        ("nonsense://host", None, "failed", ("Spark at nonsense://host does not start",)),
    ],
)
def test_a_task_of_a_real_session_sees_the_log_and_reads_from_the_source(
    stage: Stage, master: str, port: int | None, status: str, what: tuple[str, ...]
) -> None:
    path = stage.config(
        log=f"file://{stage.folder}/spark-log",
        spark={"managed": True, "master": master, "memory": "512m"},
        dump={"read_on": "spark"},
        source={"port": port or stage.rig.source.port, "retry_s": 1},
    )
    program = "import typer; from sidecar.cli.check import register; a = typer.Typer(); a.callback()(lambda: None); register(a); a()"
    done = subprocess.run(
        [sys.executable, "-c", program, "check", "--config", str(path), "--json", "--spark", "--wait", "60"],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == (0 if status == "ok" else EXIT_FAILED), done.stdout + done.stderr
    (result,) = [check for check in json.loads(done.stdout)["checks"] if check["name"] == "spark session"]
    assert result["status"] == status
    assert all(part in result["findings"][0]["what"] for part in what)
    assert port is None or 'dump.read_on = "sidecar"' in result["findings"][0]["hint"]


# ---- this machine ---------------------------------------------------------------------------------------------------


def test_a_secret_that_is_not_there_or_empty_is_named(stage: Stage, tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("")
    results = stage.check("secrets", source={"password_file": "/nowhere/secret"}, etcd={"password_file": str(tmp_path / "empty")})
    text = failure(results["secrets"])
    assert "/nowhere/secret" in text
    assert "source.password_file" in text
    assert "is empty | etcd.password_file" in text


def test_control_beyond_this_machine_without_protection_is_refused(stage: Stage) -> None:
    results = stage.check("control address", control={"listen": "0.0.0.0:8310"})
    assert "control.tls cert_file" in failure(results["control address"])


def test_a_port_that_is_taken_where_tls_is_spoken_is_a_warning(stage: Stage, tmp_path: Path) -> None:
    made = certificates(tmp_path)
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        section = {
            "listen": f"127.0.0.1:{taken.getsockname()[1]}",
            "tls": {"cert_file": str(made.server_cert), "key_file": str(made.server_key)},
        }
        results = stage.check("control address", control=section)
    assert "control.listen" in text_of(results["control address"], CheckStatus.WARNING)


def test_ports_of_others_are_named(stage: Stage) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        results = stage.check("control address", "metrics address", control={"listen": listen}, metrics={"listen": listen})
    assert f"{listen}: Address already in use" in failure(results["control address"])
    assert "metrics.listen" in failure(results["metrics address"])


def test_metrics_of_a_sidecar_that_runs_are_its_own(stage: Stage) -> None:
    with closing(MetricsServer("127.0.0.1:0", lambda: None, MetricsTally)) as server:
        results = stage.check("metrics address", metrics={"listen": f"127.0.0.1:{server.port}"})
    assert "already" in results["metrics address"].findings[0].what


def test_the_log_of_another_changefeed_is_refused(stage: Stage, tmp_path: Path) -> None:
    (tmp_path / "changefeed.txt").write_text("default/default/other/1")
    results = stage.check("log", "sinks", log=f"file://{tmp_path}")
    assert "default/default/other/1" in failure(results["log"])
    assert "log.uri" in failure(results["log"])
    assert "needs 'log'" in text_of(results["sinks"], CheckStatus.SKIPPED)


def test_a_log_that_cannot_be_written_is_refused(stage: Stage, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    results = stage.check("log", "disk space", log=f"file://{tmp_path}/file/log")
    assert "log.uri" in failure(results["log"])
    assert "log.uri" in failure(results["disk space"])


def test_no_room_for_what_may_be_written_is_reported(stage: Stage) -> None:
    results = stage.check("disk space", dump={"chunk_bytes_max": 1 << 50})
    assert "dump.chunk_bytes_max" in failure(results["disk space"])


def test_little_room_is_a_warning(stage: Stage) -> None:
    third = shutil.disk_usage(stage.folder).free // 3
    assert "log.uri" in text_of(stage.check("disk space", dump={"chunk_bytes_max": third})["disk space"], CheckStatus.WARNING)


def test_a_sink_of_another_log_is_refused(stage: Stage, tmp_path: Path) -> None:
    uri = f"file://{tmp_path}/output?format=jsonl"
    deliver(opened(open_sink(uri, log_id="default/default/other/1")), Segments([0]), log=open_folder(str(tmp_path)))
    results = stage.check("sinks", sinks=(uri,), log=f"file://{tmp_path}/log")
    assert "sinks (number 1)" in failure(results["sinks"])
    assert "default/default/other/1" in failure(results["sinks"])


def test_a_sink_that_is_ahead_of_the_log_is_refused(stage: Stage, tmp_path: Path) -> None:
    uri = f"file://{tmp_path}/output?format=jsonl"
    log_id = _log_id(stage)
    deliver(opened(open_sink(uri, log_id=log_id)), Segments([0]), log=open_folder(str(tmp_path)))
    results = stage.check("sinks", sinks=(uri,), log=f"file://{tmp_path}/log")
    assert "accepted segment 0, and the log" in failure(results["sinks"])
    assert "is empty" in failure(results["sinks"])


def test_a_sink_in_the_logs_folder_is_refused(stage: Stage, tmp_path: Path) -> None:
    results = stage.check("sinks", sinks=(f"file://{tmp_path}/log/output",), log=f"file://{tmp_path}/log")
    assert "is in the folder of log.uri" in failure(results["sinks"])


def test_a_target_that_lacks_the_tables_is_named_with_the_sink(stage: Stage, tmp_path: Path) -> None:
    db = stage.rig.db
    uri = uri_of(db, "not_there", routes=quote(f"{SCHEMA}.*=>nowhere.*"))
    results = stage.check("sinks", "targets", sinks=(uri,), log=f"file://{tmp_path}/log")
    assert "is not at the target" in failure(results["targets"])
    assert "sinks (number 1)" in failure(results["targets"])
    making = stage.check("sinks", "targets", sinks=(f"{uri}&create-tables=true",), log=f"file://{tmp_path}/log")
    assert "nothing is against rows" in making["targets"].findings[0].what
    assert f"(mysql://{db.host}:{db.port}/?position-schema=not_there)" in making["sinks"].findings[0].what, "no account is shown"


def test_java_that_is_missing_or_too_old_is_named(stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert "JAVA_HOME" in failure(stage.check("spark", spark={"managed": True})["spark"])
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    java.chmod(0o755)
    assert "Spark needs 17" in failure(stage.check("spark", spark={"managed": True})["spark"])


def test_spark_that_runs_elsewhere_or_is_not_installed_is_reported(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "spark.managed is false" in text_of(stage.check("spark")["spark"], CheckStatus.SKIPPED)
    monkeypatch.setattr("sidecar.preflight.machine.util.find_spec", lambda name: None)
    assert "pip install pyspark" in failure(stage.check("spark", spark={"managed": True})["spark"])


# ---- etcd and the changefeed ------------------------------------------------------------------------------------------


def test_etcd_that_is_away_fails_and_what_needs_it_is_skipped(stage: Stage) -> None:
    endpoint = f"127.0.0.1:{free_port()}"
    results = stage.check("changefeed", "tidb", etcd={"endpoints": [endpoint], "timeout_s": 1.0})
    assert "etcd.endpoints" in failure(results["etcd"])
    assert "needs 'etcd'" in text_of(results["changefeed"], CheckStatus.SKIPPED)
    assert results["tidb"].status is CheckStatus.WARNING, "what does not need it is carried out"


@pytest.mark.parametrize("lease_s", [2, 120])
def test_a_lease_that_is_very_short_or_long_is_a_warning(stage: Stage, lease_s: int) -> None:
    assert "etcd.lease_s" in text_of(stage.check("etcd", etcd={"lease_s": lease_s})["etcd"], CheckStatus.WARNING)


def test_an_etcd_user_that_may_not_write_our_root_is_named(stage: Stage, tmp_path: Path) -> None:
    key = changefeed.info_key(stage.rig.options.changefeed_id)
    (tmp_path / "secret").write_text("secret")
    with Etcd(tmp_path / "etcd") as server:
        server.put(key, stage.rig.etcd.get(key) or "")
        server.etcdctl("role", "add", "reader")
        server.etcdctl("role", "grant-permission", "--prefix=true", "reader", "read", "/")
        server.etcdctl("user", "add", "reader:secret")
        server.etcdctl("user", "grant-role", "reader", "reader")
        server.enable_auth("root")
        section = {"endpoints": list(server.endpoints), "user": "reader", "password_file": str(tmp_path / "secret")}
        results = stage.check("etcd write", etcd=section)
        assert "readwrite on /changefeed_dump/v1/" in failure(results["etcd write"])
        section["user"] = "nobody"
        assert "etcd.password_file" in failure(stage.check("etcd", etcd=section)["etcd"])


def test_a_wrong_cluster_id_lists_the_changefeeds_that_there_are(stage: Stage) -> None:
    text = failure(stage.check("changefeed", changefeed={"cluster": "other"})["changefeed"])
    assert "changefeed.cluster" in text
    assert "default/default/rig-feed" in text


@pytest.mark.parametrize("state", ["stopped", "failed", "finished", "removed"])
def test_a_changefeed_that_does_not_run_fails_by_its_state(stage: Stage, state: str) -> None:
    sections = stage.put_changefeed("state-feed", change=lambda info: info.update(state=state, **{"admin-job-type": 0}))
    results = stage.check("changefeed state", "changefeed settings", "resolved marks", **sections)
    assert "state (changefeed)" in failure(results["changefeed state"])
    assert results["changefeed settings"].status is CheckStatus.OK, "told once"
    assert "needs 'changefeed state'" in text_of(results["resolved marks"], CheckStatus.SKIPPED)


def test_a_changefeed_that_tries_again_is_a_warning_with_ticdcs_error(stage: Stage) -> None:
    why = {"addr": "", "code": "CDC:ErrKafkaNewProducer", "message": "no broker"}
    sections = stage.put_changefeed("warning-feed", change=lambda info: info.update(state="warning", warning=why))
    assert "CDC:ErrKafkaNewProducer" in text_of(stage.check("changefeed state", **sections)["changefeed state"], CheckStatus.WARNING)


def test_without_etcd_the_checks_say_what_is_not_known(stage: Stage) -> None:
    """A rig has its definition in a file too."""
    sections: Sections = {
        "changefeed": {"file": str(stage.rig.definition)},
        "etcd": {"endpoints": [], "folder": str(stage.folder / "state")},
    }
    names = ("etcd write", "changefeed state", "other changefeeds", "resolved marks", "brackets")
    results = stage.check(*names, **sections)
    said = " ".join(finding.what for finding in results["changefeed"].findings)
    assert f"{stage.rig.definition} says: a change of the changefeed since it was written is not seen" in said
    assert "not known, as a file has the definition" in results["changefeed state"].findings[0].what
    assert "whether another changefeed writes the same topics is not known" in text_of(results["other changefeeds"], CheckStatus.SKIPPED)
    assert all(results[name].status is CheckStatus.OK for name in ("etcd", "etcd write", "changefeed state", "resolved marks"))
    missing = sections | {"changefeed": {"file": str(stage.folder / "none")}}
    assert "changefeed.file" in failure(stage.check("changefeed", **missing)["changefeed"])


def test_a_filter_without_the_watermark_table_is_named(stage: Stage) -> None:
    sections = stage.put_changefeed("blind-feed", change=lambda info: info["config"]["filter"].update(rules=["shop.*"]))
    results = stage.check("changefeed settings", "brackets", "watermark arrives", **sections)
    assert results["changefeed settings"].status is CheckStatus.OK, "a dump by snapshots needs no mark"
    text = failure(results["brackets"])
    assert 'add "changefeed_dump.*"' in text
    assert "the source is no TiDB" in text
    assert "needs 'watermark write'" in text_of(results["watermark arrives"], CheckStatus.SKIPPED)


def test_an_event_filter_on_the_watermark_table_is_named(stage: Stage) -> None:
    events: list[dict[str, Any]] = [{"matcher": ["*.*"], "ignore-event": ["update"]}]
    sections = stage.put_changefeed("event-feed", change=lambda info: info["config"]["filter"].update({"event-filters": events}))
    results = stage.check("brackets", "tables", **sections)
    assert "ignore-event" in failure(results["brackets"])
    assert "omits updates" in text_of(results["tables"], CheckStatus.WARNING)
    events[0].update({"matcher": ["shop.uid"], "ignore-event": ["insert"]})
    sections = stage.put_changefeed("event-feed", change=lambda info: info["config"]["filter"].update({"event-filters": events}))
    assert "shop.uid is excluded from dumps" in text_of(stage.check("tables", **sections)["tables"], CheckStatus.WARNING)


def test_canal_json_without_the_extension_is_named(stage: Stage) -> None:
    uri = f"kafka://{stage.rig.kafka.bootstrap}/{stage.rig.topic}?protocol=canal-json"
    results = stage.check("changefeed settings", "messages", **stage.put_changefeed("canal-feed", uri=uri))
    assert "enable-tidb-extension=true" in failure(results["changefeed settings"])
    assert "see 'changefeed settings'" in text_of(results["messages"], CheckStatus.SKIPPED)


def test_a_sink_that_is_none_of_kafkas_is_named(stage: Stage) -> None:
    results = stage.check("changefeed settings", "kafka", **stage.put_changefeed("mysql-feed", uri="mysql://root@127.0.0.1:3306/"))
    assert "sink-uri" in failure(results["changefeed settings"])
    assert results["kafka"].status is CheckStatus.SKIPPED


# ---- Kafka ----------------------------------------------------------------------------------------------------------


def test_brokers_that_are_away_are_named(stage: Stage) -> None:
    results = stage.check("kafka", "topics", kafka={"brokers": f"127.0.0.1:{free_port()}"})
    assert "kafka.brokers" in failure(results["kafka"])
    assert "needs 'kafka'" in text_of(results["topics"], CheckStatus.SKIPPED)


def test_credentials_that_kafka_refuses_are_named(stage: Stage, tmp_path: Path) -> None:
    secret = tmp_path / "secret"

    def checked(user: str, password: str, **client: str) -> dict[str, Result]:
        secret.write_text(password)
        login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": user} if user else {}
        section = {"brokers": broker.sasl, "client": login | client, "sasl_password_file": str(secret)}
        return stage.check("messages", kafka=section)

    with KafkaBroker(tmp_path / "kafka", secured=True) as broker:
        broker.create_topic(stage.rig.topic, 1)
        assert "kafka.sasl_password_file" in failure(checked(READER[0], "wrong")["kafka"])
        assert "kafka.client security.protocol" in failure(checked("", "unused")["kafka"])
        assert "grant this user Read and Describe" in failure(checked(*STRANGER)["topics"])
        assert checked(*READER)["messages"].status is CheckStatus.OK
        assert "kafka.client" in failure(checked(*READER, **{"no.such.setting": "1"})["kafka"])


def test_a_topic_that_is_missing_is_named(stage: Stage) -> None:
    results = stage.check("topics", "messages", **stage.put_changefeed("lost-feed", topic="no-such-topic"))
    assert "topic no-such-topic does not exist" in failure(results["topics"])
    assert results["messages"].status is CheckStatus.SKIPPED


@pytest.mark.parametrize(("parameter", "status"), [("", CheckStatus.WARNING), ("&auto-create-topic=false", CheckStatus.FAILED)])
def test_a_tables_topic_that_is_missing_fails_where_ticdc_does_not_make_it(stage: Stage, parameter: str, status: CheckStatus) -> None:
    uri = f"kafka://{stage.rig.kafka.bootstrap}/{stage.rig.topic}?protocol=open-protocol{parameter}"
    dispatchers = [{"matcher": ["shop.account"], "topic": "of_{schema}_{table}"}]
    sections = stage.put_changefeed("split-feed", uri=uri, change=lambda info: info["config"]["sink"].update(dispatchers=dispatchers))
    results = stage.check("tables", "topics", **sections)
    assert results["topics"].status is status
    assert "topic of_shop_account does not exist" in text_of(results["topics"], status)


def test_rows_of_a_table_that_was_dropped_are_a_warning(stage: Stage) -> None:
    stage.rig.kafka.create_topic("former", 1)
    key, value = b'{"ts":9,"scm":"shop","tbl":"gone","t":1}', b'{"u":{"id":{"t":3,"h":true,"f":11,"v":1}}}'
    framed = [len(part).to_bytes(8, "big") + part for part in (key, value)]
    stage.rig.kafka.write("former", [(0, (1).to_bytes(8, "big") + framed[0], framed[1])])
    results = stage.check("select rights", "messages", **stage.put_changefeed("former-feed", topic="former"))
    assert "rows of shop.gone" in text_of(results["messages"], CheckStatus.WARNING)


def test_messages_of_another_protocol_are_named_by_their_place(stage: Stage) -> None:
    stage.rig.kafka.create_topic("garbled", 1)
    stage.rig.kafka.write("garbled", [(0, b"not a frame", b"nor this")])
    results = stage.check("messages", "resolved marks", **stage.put_changefeed("garbled-feed", topic="garbled"))
    assert "kafka/garbled/0@0" in failure(results["messages"])
    assert "needs 'messages'" in text_of(results["resolved marks"], CheckStatus.SKIPPED)


def test_a_gap_between_the_log_and_the_topic_is_named(stage: Stage, tmp_path: Path) -> None:
    stage.rig.kafka.create_topic("short", 1)
    stage.rig.kafka.write("short", [(0, *encode_resolved(1, 0)) for _ in range(9)])
    stage.rig.kafka.delete_records("short", 0, 5)
    _write_log(tmp_path, {Lane("kafka/short/0"): 2})
    sections = stage.put_changefeed("short-feed", topic="short")
    assert "retention.ms" in failure(stage.check("offsets", log=f"file://{tmp_path}", **sections)["offsets"])
    (tmp_path / f"{0:020d}.json").unlink()
    _write_log(tmp_path, {Lane("kafka/short/0"): 7})
    assert stage.check("offsets", log=f"file://{tmp_path}", **sections)["offsets"].status is CheckStatus.OK


def test_a_partition_without_marks_is_named_with_partition_num(stage: Stage) -> None:
    stage.rig.kafka.create_topic("starved", 2)
    uri = changefeed.sink_uri(stage.rig.kafka.bootstrap, "starved", protocol="open-protocol", partitions=1)
    sections = stage.put_changefeed("starved-feed", uri=uri)
    with marks_every_moment(stage.rig, "starved"):
        text = failure(stage.check("resolved marks", wait_s=SILENCE_S, **sections)["resolved marks"])
    assert "in kafka/starved/1 |" in text
    assert "set partition-num=2" in text
    uri = changefeed.sink_uri(stage.rig.kafka.bootstrap, "starved", protocol="open-protocol", partitions=2)
    sections = stage.put_changefeed("starved-feed", uri=uri)
    with marks_every_moment(stage.rig, "starved"):
        text = failure(stage.check("resolved marks", wait_s=SILENCE_S, **sections)["resolved marks"])
    assert "let TiCDC count the 2 partitions of topic starved again" in text


def test_a_publisher_that_is_stuck_sends_no_marks(stage: Stage) -> None:
    stage.rig.publisher.freeze()
    try:
        results = stage.check("resolved marks", "lag", "watermark arrives", wait_s=SILENCE_S)
    finally:
        stage.rig.publisher.thaw()
    assert "no partition got any" in failure(results["resolved marks"])
    assert "checkpoint is" in failure(results["resolved marks"])
    assert "needs 'resolved marks'" in text_of(results["lag"], CheckStatus.SKIPPED)
    assert "has not come" in failure(results["watermark arrives"])


def test_a_source_that_is_not_the_changefeeds_is_found_by_its_mark(stage: Stage) -> None:
    stage.rig.kafka.create_topic("elsewhere", 1)
    sections = stage.put_changefeed("elsewhere-feed", topic="elsewhere")
    with marks_every_moment(stage.rig, "elsewhere"):
        results = stage.check("resolved marks", "watermark arrives", wait_s=SILENCE_S, **sections)
    assert results["resolved marks"].status is CheckStatus.OK
    assert "source.host" in failure(results["watermark arrives"])


def test_a_feed_that_is_late_is_a_warning(stage: Stage) -> None:
    stage.rig.kafka.create_topic("late", 1)
    with marks_every_moment(stage.rig, "late", back_s=120):
        results = stage.check("lag", **stage.put_changefeed("late-feed", topic="late"))
    (behind_s,) = re.findall(r"is ([\d.]+) s behind", text_of(results["lag"], CheckStatus.WARNING))
    assert 120 <= float(behind_s) < 120 + PATIENCE_S


def test_the_zone_of_ticdcs_server_is_reported_by_rows(stage: Stage) -> None:
    results = stage.check("server time zone", kafka={"server_tz": "Asia/Shanghai"})
    text = failure(results["server time zone"])
    assert "kafka.server_tz" in text
    assert "likely UTC" in text


# ---- the source -------------------------------------------------------------------------------------------------------


def test_a_wrong_password_is_named_and_what_needs_the_source_is_skipped(stage: Stage, tmp_path: Path) -> None:
    (tmp_path / "wrong").write_text("wrong")
    results = stage.check("schemas", "changefeed settings", source={"password_file": str(tmp_path / "wrong")})
    assert "source.password_file" in failure(results["tidb"])
    assert results["schemas"].status is CheckStatus.SKIPPED
    assert results["changefeed settings"].status is CheckStatus.OK, "judged without the tables"


def test_a_source_that_is_away_is_named(stage: Stage) -> None:
    assert "127.0.0.1" in failure(stage.check("tidb", source={"port": free_port()})["tidb"])


def test_a_right_that_was_revoked_is_named_with_its_grant(stage: Stage) -> None:
    tables = [name for name in stage.rig.tables() if name.table != "ledger"]
    sections = stage.account("narrow", f"select on {MARK_TABLE}", "insert on shop.ledger", *(f"select on {name}" for name in tables))
    results = stage.check("select rights", **sections)
    text = failure(results["select rights"])
    assert "GRANT SELECT ON `shop`.`ledger` TO 'narrow'" in text
    assert "account" not in text.partition("GRANT")[0]
    assert "no SELECT on all of" in text_of(results["select rights"], CheckStatus.WARNING)


def test_a_table_that_the_account_does_not_see_is_found_in_the_feed(stage: Stage) -> None:
    tables = [name for name in stage.rig.tables() if name.table != "account"]
    sections = stage.account("blind", f"select on {MARK_TABLE}", *(f"select on {name}" for name in tables))
    results = stage.check("select rights", "messages", **sections)
    assert "GRANT SELECT ON `shop`.`account` TO 'blind'" in failure(results["messages"])


def test_a_watermark_table_that_is_not_there_is_named(stage: Stage) -> None:
    sections = stage.account("unmarked", "select on shop.*")
    results = stage.check("brackets", "watermark table", "watermark write", **sections)
    text = failure(results["brackets"])
    assert f"CREATE TABLE IF NOT EXISTS {MARK_TABLE}" in text
    assert f"GRANT SELECT, INSERT, UPDATE ON {MARK_TABLE.schema}.* TO 'unmarked'" in text
    assert "needs 'brackets'" in text_of(results["watermark table"], CheckStatus.SKIPPED)
    assert "needs 'watermark table'" in text_of(results["watermark write"], CheckStatus.SKIPPED)


def test_a_watermark_table_of_another_shape_is_refused(stage: Stage) -> None:
    rig = stage.rig
    rig.db.execute(
        f"alter table {MARK_TABLE} drop key changefeed_id, add unique key (unique_identifier), modify event_type varchar(9) not null,"
        " modify changefeed_id varchar(60) not null"
    )
    try:
        text = failure(stage.check("watermark table")["watermark table"])
    finally:
        rig.db.execute(
            f"alter table {MARK_TABLE} add unique key changefeed_id (changefeed_id), drop key unique_identifier,"
            " modify event_type tinyint not null, modify changefeed_id varchar(128) not null"
        )
    assert "unique_identifier is part of key unique_identifier" in text
    assert "no unique key of changefeed_id alone" in text
    assert "column event_type is a text" in text
    assert "column changefeed_id holds 60 characters, expected 128" in text


def test_marks_that_may_not_be_written_are_named_with_their_grant(stage: Stage) -> None:
    sections = stage.account("reader", "select on *.*")
    uuids = stage.rig.db.execute(f"select unique_identifier from {MARK_TABLE}")
    assert f"GRANT SELECT, INSERT, UPDATE ON {MARK_TABLE.schema}.*" in failure(stage.check("brackets", **sections)["brackets"])
    inserts = stage.account("inserts", "select on *.*", f"insert on {MARK_TABLE}")
    assert "cannot be written: UPDATE command denied" in failure(stage.check("brackets", **inserts)["brackets"])
    updates = stage.account("updates", "select on *.*", f"update on {MARK_TABLE}")
    assert "cannot be written: INSERT command denied" in failure(stage.check("brackets", **updates)["brackets"])
    assert stage.check("brackets")["brackets"].status is CheckStatus.OK
    assert stage.rig.db.execute(f"select unique_identifier from {MARK_TABLE}") == uuids, "trying it writes nothing"


def test_a_probe_row_that_somebody_else_writes_is_reported(stage: Stage) -> None:
    assert stage.check("watermark write")["watermark write"].status is CheckStatus.OK
    kept = ", ".join(f"new.{column} = old.{column}" for column in ("unique_identifier", "event_type", "update_time"))
    stage.rig.db.execute(f"create trigger {MARK_TABLE.schema}.undone before update on {MARK_TABLE} for each row set {kept}")
    try:
        text = failure(stage.check("watermark write")["watermark write"])
    finally:
        stage.rig.db.execute(f"drop trigger {MARK_TABLE.schema}.undone")
    assert "let nothing else write that table" in text


def test_rights_that_take_too_long_to_ask_for_are_a_warning(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sidecar.preflight.source.RIGHTS_MAX_S", -1.0)
    assert "13 of 13 tables were not checked" in text_of(stage.check("select rights")["select rights"], CheckStatus.WARNING)


def test_tables_that_cannot_be_dumped_are_warnings_and_none_at_all_is_a_failure(stage: Stage) -> None:
    sections = stage.put_changefeed(
        "odd-feed", change=lambda info: info["config"]["filter"].update(rules=["odd.*", f"{MARK_TABLE.schema}.*"])
    )
    assert "filter.rules" in failure(stage.check("tables", **sections)["tables"])
    stage.rig.db.execute(
        "create database odd", "create table odd.good (id int primary key)", "create table odd.keyless (v int)",
        "create table odd.floating (f float primary key)",
    )  # fmt: skip
    try:
        results = stage.check("tables", "read keys", **sections)
    finally:
        stage.rig.db.execute("drop database odd")
    assert "odd.keyless" in text_of(results["tables"], CheckStatus.WARNING)
    assert "odd.floating" in text_of(results["read keys"], CheckStatus.WARNING)


def test_a_column_type_that_is_not_known_is_named(stage: Stage) -> None:
    stage.rig.db.execute("create database shapes", "create table shapes.place (id int primary key, at point)")
    try:
        results = stage.check("tables", "watermark table")
    finally:
        stage.rig.db.execute("drop database shapes")
    assert "table shapes.place, column at: type point is unknown" in failure(results["schemas"])
    assert results["tables"].status is CheckStatus.SKIPPED


def test_many_tables_are_queried_in_few_statements(stage: Stage) -> None:
    names = [f"many.t{number}" for number in range(230)]
    stage.rig.db.execute("create database many", *(f"create table {name} (id int primary key)" for name in names))
    try:
        change: Callable[[dict[str, Any]], None] = lambda info: info["config"]["filter"].update(rules=["many.*", "changefeed_dump.*"])  # noqa: E731
        feed = stage.put_changefeed("many-feed", change=change)
        grants = (f"{'insert' if name.endswith('7') else 'select'} on {name}" for name in names)
        account = stage.account("most", f"select on {MARK_TABLE}", *grants)
        before = selects(stage)
        text = failure(stage.check("select rights", **feed, **account)["select rights"])
        assert selects(stage) - before < len(names)
        assert "`many`.`t117`" in text
        assert "nor from many." in text, "23 of 230, and 20 have a line of their own"
        assert text.count("may not SELECT from") == 20
    finally:
        stage.rig.db.execute("drop database many")


def selects(stage: Stage) -> int:
    """That the server has carried out, for whomever."""
    ((_, count),) = stage.rig.db.execute("show global status like 'Com_select'")
    return int(count)


# ---- helpers ----------------------------------------------------------------------------------------------------------


@contextmanager
def marks_every_moment(rig: Rig, topic: str, *, back_s: float = 0) -> Iterator[None]:
    """Resolved marks of the present (or `back_s` before it) in partition 0 of `topic`."""
    ending = threading.Event()

    def write() -> None:
        while not ending.wait(0.2):
            ts = int((time.time() - back_s) * 1000) << 18
            rig.kafka.write(topic, [(0, *encode_resolved(ts, 0))])

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    try:
        yield
    finally:
        ending.set()
        writer.join()


def _log_id(stage: Stage) -> str:
    config = read_config(stage.config())
    with closing(EtcdClient(config.etcd)) as client:
        return read_changefeed(client, config).log_id


def _write_log(folder: Path, positions: dict[Lane, int]) -> None:
    manifest = Manifest(
        seq=Seq(0),
        epoch=1,
        after_ts=CommitTs(0),
        upto_ts=CommitTs(1),
        data=None,
        rows=0,
        bytes=0,
        positions=positions,
        schemas="schemas/0000000000000000.json",
        codec="open-protocol",
        ddls=(),
        windows=(),
        progress=None,
    )
    (folder / f"{0:020d}.json").write_bytes(to_json(manifest))


def _names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()] if folder.exists() else []
