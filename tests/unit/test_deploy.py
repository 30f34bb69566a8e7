"""deploy/ against the code: settings, SQL, changefeed examples, alerts and dashboard, unit, images and manifests.

What is held here is what would otherwise drift: names, defaults, ports, paths and times. Whether the parts run is shown where
they can: see the end of deploy/README.md.
"""

from __future__ import annotations

import ast
import json
import re
import shlex
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from configparser import ConfigParser
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import msgspec
import pytest
import typer
import yaml  # type: ignore[import-untyped]
from packaging.utils import canonicalize_name
from prometheus_client.parser import text_string_to_metric_families

import sidecar
from sidecar.adapters.tidb import source as tidb
from sidecar.control.security import STOP_GRACE_S
from sidecar.control.status import LaneStatus, ServiceStatus, SidecarStatus
from sidecar.pace.controller import SinkState
from sidecar.run import merge_process
from sidecar.run.cycle import TableInSink, VerifiedSinks, VerifiedTable
from sidecar.run.gc_hold import DDLS, GcHoldState
from sidecar.run.metrics import MetricsServer, MetricsTally
from sidecar.shared.config import Config, read_config
from sidecar.shared.model.messages import Brackets
from sidecar.shared.model.nouns import MARK_TABLE, CommitTs, Lane, Seq, TableName
from sidecar.shared.model.progress import DumpState, Progress, TableProgress
from sidecar.shared.model.sink_delivery import SinkTables, TableFiles
from sidecar.shared.process.listening import check_listening
from sidecar.shared.ticdc.changefeed import ChangefeedName
from sidecar.shared.ticdc.changefeed_info import changefeed
from sidecar.shared.ticdc.suitability import problems
from tests.support.eventually import PATIENCE_S

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
EXAMPLE = DEPLOY / "config.example.toml"


def text(name: str) -> str:
    return (DEPLOY / name).read_text()


PAGES = sorted(DEPLOY.rglob("*.md"))


# ---- settings -------------------------------------------------------------------------------------------------------


def known_settings(section: type[msgspec.Struct], prefix: str = "") -> dict[str, Any]:
    """Every setting of the code, `section.name`, with its default; msgspec.NODEFAULT where one must be given."""
    result: dict[str, Any] = {}
    for field in msgspec.structs.fields(section):
        name = prefix + field.encode_name
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            result |= known_settings(field.type, f"{name}.")
        else:
            result[name] = field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default
    return result


def shown_settings(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, value in table.items():
        if isinstance(value, dict) and prefix + name not in ("kafka.client", "binlog.filter"):
            result |= shown_settings(value, f"{prefix}{name}.")
        else:
            result[prefix + name] = value
    return result


def commented_settings() -> dict[str, str]:
    """Each setting of the example with the comment that stands right above it."""
    result: dict[str, str] = {}
    section, comment = "", ""
    for line in EXAMPLE.read_text().splitlines():
        if line.startswith("#"):
            comment += line[1:]
            continue
        if heading := re.fullmatch(r"\[(.+)\]", line):
            section = f"{heading[1]}."
            if comment:
                result[heading[1]] = comment
        elif setting := re.match(r"(\w+) = ", line):
            result[section + setting[1]] = comment
        comment = ""
    return result


def test_the_example_shows_every_setting_and_no_other() -> None:
    assert shown_settings(tomllib.loads(EXAMPLE.read_text())).keys() == known_settings(Config).keys()


@pytest.mark.parametrize("setting", sorted(known_settings(Config)))
def test_the_example_explains_each_setting_and_shows_its_default(setting: str) -> None:
    default = known_settings(Config)[setting]
    comment = commented_settings()[setting]
    assert len(comment.split()) > 3, f"{setting} is not explained"
    assert comment.startswith(" Required.") == (default is msgspec.NODEFAULT), "what must be given is marked, and nothing else"
    if comment.startswith(" Required, unless "):
        assert not default, "a setting beside it is the other way"
        assert shown_settings(tomllib.loads(EXAMPLE.read_text()))[setting]
    elif default is not msgspec.NODEFAULT:
        as_shown = list(default) if isinstance(default, tuple) else default
        assert shown_settings(tomllib.loads(EXAMPLE.read_text()))[setting] == as_shown


def test_the_example_is_read_as_it_is() -> None:
    assert read_config(EXAMPLE).changefeed.id == "orders"


@pytest.fixture
def kubernetes_settings(tmp_path: Path) -> Config:
    path = tmp_path / "sidecar.toml"
    path.write_text(only("ConfigMap")["data"]["sidecar.toml"].replace("@ADVERTISE@", "10-0-0-1.ticdc-dump-orders.ticdc-dump.svc:8310"))
    return read_config(path)


def test_the_manifests_settings_are_accepted_and_safe_to_listen_with(kubernetes_settings: Config) -> None:
    control = kubernetes_settings.control
    check_listening("control", control.listen, control.tls, has_token=bool(control.token_file))
    assert kubernetes_settings.log.uri.startswith("s3://"), "two pods on two nodes need one log"


# ---- TiDB and TiCDC -------------------------------------------------------------------------------------------------


def statements(name: str) -> list[str]:
    bare = re.sub(r"^--.*\n", "", text(name), flags=re.MULTILINE)
    return [statement.strip() for statement in bare.split(";") if statement.strip()]


def test_the_watermark_tables_sql_is_the_codes() -> None:
    assert statements("sql/changefeed_dump.sql") == [tidb.MARK_SCHEMA_DDL, tidb.MARK_TABLE_DDL]


def test_the_watermark_table_is_the_one_of_the_recordings_but_for_its_comments() -> None:
    history = (ROOT / "tests" / "recordings" / "demo" / "schema" / "ddl_history.jsonl").read_text().splitlines()
    queries = [json.loads(json.loads(line)["job_meta"])["query"] for line in history]
    recorded = {plain(query) for query in queries if query.startswith("create table") and str(MARK_TABLE) in query}
    assert recorded == {plain(tidb.MARK_TABLE_DDL)}
    assert tidb.MARK_TABLE_DDL.count(" COMMENT '") == 6


def plain(sql: str) -> str:
    return "".join(re.sub(r" COMMENT '[^']*'", "", sql).replace("`", "").lower().split())


def test_the_account_may_read_tables_and_write_the_watermark_row_and_nothing_else() -> None:
    _, *grants = statements("sql/account.sql")
    assert grants == [
        "GRANT SELECT ON `shop`.* TO 'ticdc_dump'@'%'",
        "GRANT SELECT, INSERT, UPDATE ON changefeed_dump.* TO 'ticdc_dump'@'%'",
    ]
    for grant in grants:
        assert f"{grant};" in text("PREPARE.md")
    optional = re.findall(r"^-- (GRANT .*)$", text("sql/account.sql"), flags=re.MULTILINE)
    assert len(optional) == 6
    assert all(grant in text("KV.md") for grant in optional[:3])
    assert all(grant in text("HOLES.md") for grant in (*optional[:2], *optional[3:]))


def test_no_grant_is_on_every_schema() -> None:
    """Neither made nor advised: what the account may not read, nobody reads through the sidecar."""
    advised = [
        path.name for path in Path(sidecar.__file__).parent.rglob("*.py") if re.search(r"GRANT [A-Z, ]+ ON \*\.\*", path.read_text())
    ]
    assert not advised
    assert not any("*.*" in statement for statement in statements("sql/account.sql"))


def definition(config: str, sink_uri: str) -> Any:
    """As TiCDC's etcd would hold a changefeed that was made with this file and URI."""
    info = {
        "sink-uri": sink_uri,
        "create-time": "2025-11-21T05:00:00+08:00",
        "start-ts": 1,
        "state": "normal",
        "config": tomllib.loads(config),
    }
    return changefeed(ChangefeedName("default", "default", "orders"), json.dumps(info))


def sink_uri(script: str) -> str:
    match = re.search(r"--sink-uri='([^']+)'", script)
    assert match is not None
    return match[1]


@pytest.mark.parametrize("name", ["ticdc/open-protocol.toml", "ticdc/canal-json.toml"])
def test_a_changefeed_of_the_examples_can_be_dumped(name: str) -> None:
    config = text(name)
    assert problems(definition(config, sink_uri(config))) == []


@pytest.mark.parametrize(
    ("broken", "by", "setting"),
    [("[filter]", "bdr-mode = true\n[filter]", "bdr-mode"), ("&enable-tidb-extension=true", "", "enable-tidb-extension")],
)
def test_without_what_the_examples_insist_on_it_cannot(broken: str, by: str, setting: str) -> None:
    config = text("ticdc/canal-json.toml")
    assert broken in config
    changed = config.replace(broken, by)
    assert [problem.setting for problem in problems(definition(changed, sink_uri(changed)))] == [setting]


# ---- metrics --------------------------------------------------------------------------------------------------------

TARGET_LABELS = {"job", "instance", "changefeed"}
"""Prometheus adds them to every series of a target."""
PROMETHEUS_SERIES = {"up"}
WORDS = {
    "sum",
    "min",
    "max",
    "count",
    "by",
    "and",
    "or",
    "on",
    "rate",
    "increase",
    "deriv",
    "changes",
    "topk",
    "absent",
    "group_left",
    "unless",
}


@pytest.fixture(scope="module")
def exported() -> dict[str, dict[str, set[str]]]:
    """Every series of an owner with a dump: its labels, and their values."""
    tables = (TableProgress(TableName("shop", "orders"), (), 1, 10, 100, CommitTs(5)),)
    progress = Progress("d" * 16, DumpState.RUNNING, Brackets.WATERMARK, 10, 1, 1, Seq(0), tables)
    lanes = (LaneStatus(Lane("kafka/orders/0"), CommitTs(7), 0.0),)
    sinks = (SinkState("file:///out", 0.6, 0.5, 0.04, 75_000, holds=True, lag_s=0.7, error="no leader"),)
    services = (ServiceStatus("certificates"),)
    name = ChangefeedName("default", "default", "orders")
    known = {"copy": SinkTables("copy", "", Seq(0), None, Seq(0), None)}
    files = {"lake": [TableFiles("shop", "orders", 9, 8)]}
    status = SidecarStatus(name, 1, "host:1", (progress,), lanes=lanes, sinks=sinks, services=services, sink_tables=known, files=files)
    verified = VerifiedSinks([VerifiedTable(TableInSink("copy", TableName("shop", "orders")), 3.0, 1)], 86_400.0)
    tally = MetricsTally(
        terms_ended={"FeedLost": 1, "StorageFull": 1},
        log_volume_bytes=(1, 2),
        verified=verified,
        against_takeover=(),
        gc_hold=lambda: GcHoldState({DDLS: 1.0}, kept_s=2.0),
    )
    server = MetricsServer("127.0.0.1:0", lambda: status, lambda: tally)
    try:
        with urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=PATIENCE_S) as answer:
            families = list(text_string_to_metric_families(answer.read().decode()))
    finally:
        server.close()
    result: dict[str, dict[str, set[str]]] = {}
    for sample in (sample for family in families for sample in family.samples):
        labels = result.setdefault(sample.name, {})
        for label, value in sample.labels.items():
            labels.setdefault(label, set()).add(value)
    return result


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(text("prometheus/alerts.yaml"))["groups"] for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    return [panel for panel in json.loads(text("grafana/dashboard.json"))["panels"] if panel["type"] != "row"]


def expressions() -> list[str]:
    return [rule["expr"] for rule in rules()] + [target["expr"] for panel in panels() for target in panel["targets"]]


def unknown(expression: str, exported: Mapping[str, Mapping[str, set[str]]]) -> Iterator[str]:
    """What stands in the expression and is neither an exported series, one of its labels, nor PromQL."""
    labels_known = TARGET_LABELS | {label for labels in exported.values() for label in labels}
    for name, matchers in re.findall(r"(\w+)\{([^}]*)\}", expression):
        for label, comparison, value in re.findall(r'(\w+)(=~|=|!=|!~)"([^"]*)"', matchers):
            values = exported.get(name, {}).get(label)
            if label not in TARGET_LABELS and values is None:
                yield f"{name} has no label {label}"
            elif values is not None and comparison == "=" and value not in values:
                yield f"{name} is never {label}={value}"
    bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]", " ", expression)
    for word in re.findall(r"[A-Za-z_]\w*", bare):
        if word not in exported and word not in labels_known | WORDS | PROMETHEUS_SERIES:
            yield f"{word} is not exported"


def test_an_alert_is_there_for_a_log_that_is_ahead_of_the_clock() -> None:
    """Finding H6: a negative lag, and changes that are all repeats while the log stands."""
    by_name = {rule["alert"]: rule["expr"] for rule in rules()}
    assert "ticdc_dump_resolved_lag_seconds) < -" in by_name["TicdcDumpAheadOfClock"]
    assert "ticdc_dump_repeats_total" in by_name["TicdcDumpOnlyRepeats"]
    assert "changes(ticdc_dump_resolved_tso[5m])) == 0" in by_name["TicdcDumpOnlyRepeats"]


def test_a_changefeed_of_which_no_process_answers_is_critical_whatever_the_others_do() -> None:
    """A target that is down has no series but `up`. The cases are in prometheus/alerts_test.yaml."""
    (rule,) = (rule for rule in rules() if rule["alert"] == "TicdcDumpNoOwner")
    assert rule["labels"]["severity"] == "critical"
    assert rule["expr"].endswith('or max by (changefeed) (up{job="ticdc-dump"}) == 0')


@pytest.mark.parametrize("expression", sorted(set(expressions())))
def test_alerts_and_panels_ask_only_for_what_is_exported(expression: str, exported: dict[str, dict[str, set[str]]]) -> None:
    assert list(unknown(expression, exported)) == []


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("ticdc_dump_terms > 1", "ticdc_dump_terms is not exported"),
        ('ticdc_dump_state{state="broken"}', "ticdc_dump_state is never state=broken"),
        ('ticdc_dump_owner{lane="a"}', "ticdc_dump_owner has no label lane"),
    ],
)
def test_an_expression_about_something_else_is_found(expression: str, message: str, exported: dict[str, dict[str, set[str]]]) -> None:
    assert list(unknown(expression, exported)) == [message]


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: str(rule["alert"]))
def test_every_alert_has_its_page_in_the_runbook(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    assert rule["annotations"]["summary"]
    assert f"\n#### {rule['alert']}\n" in text("ALERTS.md")
    assert rule["annotations"]["runbook"] == f"deploy/ALERTS.md#{rule['alert'].lower()}"


def test_the_runbook_has_no_page_without_its_alert() -> None:
    assert set(re.findall(r"^#### (TicdcDump\w+)$", text("ALERTS.md"), re.MULTILINE)) == {rule["alert"] for rule in rules()}


def test_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    board = json.loads(text("grafana/dashboard.json"))["panels"]
    assert len({panel["id"] for panel in board}) == len(board)
    cells = [
        (x, y)
        for panel in board
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) == 23


# ---- systemd --------------------------------------------------------------------------------------------------------

STOPPING_S = merge_process.END_S + merge_process.GROUP_END_S + merge_process.KILLED_S + STOP_GRACE_S + tidb.CLOSE_WAIT_S
"""What a graceful stop may take: the worker's batch, its JVM's end, calls under way, statements under way."""


def unit() -> ConfigParser:
    parser = ConfigParser(strict=False, interpolation=None, comment_prefixes=("#",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # names of directives are told apart by case
    parser.read_string(text("systemd/ticdc-dump@.service"))
    return parser


def test_the_unit_runs_one_changefeeds_settings_and_does_not_repeat_what_a_person_must_mend() -> None:
    service = unit()["Service"]
    assert service["ExecStart"].endswith("/bin/ticdc-dump run --config /etc/ticdc-dump/%i.toml")
    assert (service["Restart"], service["RestartPreventExitStatus"]) == ("on-failure", "2 3")
    assert service["WorkingDirectory"] == f"/var/lib/{service['StateDirectory']}"


def test_the_unit_leaves_time_for_a_graceful_stop_and_leaves_the_worker_to_the_sidecar() -> None:
    service = unit()["Service"]
    assert int(service["TimeoutStopSec"].removesuffix("s")) >= 1.5 * STOPPING_S
    assert (service["KillMode"], service["OOMPolicy"]) == ("mixed", "continue")


def test_the_unit_is_confined_as_far_as_java_allows() -> None:
    service = unit()["Service"]
    assert (service["User"], service["ProtectSystem"]) == ("ticdc-dump", "strict")
    for directive in ("NoNewPrivileges", "ProtectHome", "PrivateTmp", "PrivateDevices", "RestrictSUIDSGID"):
        assert service[directive] == "yes", directive
    assert "MemoryDenyWriteExecute" not in service


# ---- images and compose ---------------------------------------------------------------------------------------------


def compose() -> dict[str, Any]:
    return dict(yaml.safe_load(text("docker/compose.yaml")))


def is_pinned(image: str) -> bool:
    """A registry, and a version with at least a minor number: what is pulled next year is the same."""
    return re.fullmatch(r"docker\.io/[\w/-]+:v?\d+\.\d+[\w.-]*", image) is not None


def test_every_image_has_its_registry_and_version() -> None:
    own = "ticdc-dump:" + sidecar.__version__
    images = {service["image"] for service in compose()["services"].values()} - {own}
    bases = {line.split()[1] for line in text("docker/Dockerfile").splitlines() if line.startswith("FROM ")}
    assert [image for image in images | bases if not is_pinned(image)] == []
    assert {image.rpartition("/")[2] for image in manifest_images()} == {own}


def test_an_image_of_ours_has_this_version_wherever_it_is_named() -> None:
    """N5: two codes had one version."""
    named = [
        (path.name, version)
        for path in sorted(DEPLOY.rglob("*"))
        if path.is_file() and path.suffix not in (".png", ".pyc")
        for version in re.findall(r"\bticdc-dump(?:-spark)?:(\d[\w.-]*)", path.read_text())
    ]
    assert {version for _, version in named} == {sidecar.__version__}, named
    assert {"Dockerfile", "compose.yaml", "ticdc-dump.yaml", "ATTACH.md", "README.md"} <= {name for name, _ in named}


def test_every_file_that_compose_mounts_is_there() -> None:
    folder = DEPLOY / "docker"
    named = set(compose()["volumes"])
    for name, service in compose()["services"].items():
        for volume in service.get("volumes", []):
            source = volume.partition(":")[0]
            assert source in named or (folder / source).exists(), f"{name} mounts {source}"
        if build := service.get("build"):
            assert (folder / build["context"] / build["dockerfile"]).samefile(folder / "Dockerfile")
        assert set(service.get("secrets", [])) <= compose()["secrets"].keys()
        assert set(service.get("depends_on", [])) <= compose()["services"].keys()
    for secret in compose()["secrets"].values():
        assert (folder / secret["file"]).is_file()


def test_composes_parts_find_each_other() -> None:
    services = compose()["services"]
    settings = read_config(DEPLOY / "docker/sidecar.toml")
    assert {endpoint.partition(":")[0] for endpoint in settings.etcd.endpoints} | {settings.source.host} <= services.keys()
    assert settings.source.password_file == f"/run/secrets/{services['sidecar']['secrets'][0]}"
    (scrape,) = yaml.safe_load(text("prometheus/prometheus.yml"))["scrape_configs"]
    assert scrape["static_configs"][0]["targets"] == [f"sidecar:{settings.metrics.listen.rpartition(':')[2]}"]
    assert scrape["static_configs"][0]["labels"] == {"changefeed": settings.changefeed.id}
    assert f"--tz={settings.kafka.server_tz}" in services["ticdc"]["command"]
    assert int(services["sidecar"]["stop_grace_period"].removesuffix("s")) >= 1.5 * STOPPING_S


def test_composes_changefeed_can_be_dumped() -> None:
    script = text("docker/init-changefeed.sh")
    result = definition(text("ticdc/open-protocol.toml"), sink_uri(script))
    assert problems(result) == []
    assert set(result.sink.hosts) == {"kafka:9092"}
    assert f"--changefeed-id={read_config(DEPLOY / 'docker/sidecar.toml').changefeed.id} " in script


def test_the_images_files_are_in_the_build_and_the_rest_is_not() -> None:
    ignored, *taken = text("docker/Dockerfile.dockerignore").splitlines()
    assert ignored == "*"
    copied = [name for line in text("docker/Dockerfile").splitlines() if re.match(r"COPY [^-]", line) for name in line.split()[1:-1]]
    kept = {line.removeprefix("!") for line in taken if line.startswith("!")}
    assert kept <= set(copied)
    assert all(kept & {name, *map(str, Path(name).parents)} for name in copied)
    assert all((ROOT / name).exists() for name in copied)


def test_the_image_runs_ticdc_dump_as_nobody_special_and_asks_after_its_health() -> None:
    dockerfile = text("docker/Dockerfile")
    port = read_config(EXAMPLE).metrics.listen.rpartition(":")[2]
    assert 'ENTRYPOINT ["/usr/bin/tini", "--", "ticdc-dump"]' in dockerfile
    assert "\nUSER 10001:10001\n" in dockerfile
    assert f"http://127.0.0.1:{port}/healthz" in dockerfile
    installed = re.findall(r"pip .*\binstall (.*?)(?: \\)?$", dockerfile, re.MULTILINE)
    assert all("--require-hashes" in line or line == "--no-deps wheel/*.whl" for line in installed), installed
    assert "-r requirements-runtime.lock" in dockerfile


def locked(name: str) -> dict[str, str]:
    """Each distribution of a lock, with its version, marker and hashes."""
    parts = re.split(r"^(?=[a-z0-9])", (ROOT / name).read_text(), flags=re.MULTILINE)
    return {canonicalize_name(re.split(r"[=\[ ;]", part)[0]): part for part in parts if part}


def names_of(requirements: Iterable[str]) -> set[str]:
    return {canonicalize_name(re.split(r"[\[=><]", one)[0]) for one in requirements}


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
RUNTIME, EVERYTHING = locked("requirements-runtime.lock"), locked("requirements.lock")


def test_what_is_installed_at_run_time_is_what_was_tested() -> None:
    """Version by version, hash by hash; a marker may be wider where a tool needs a package on every platform."""
    for name, part in RUNTIME.items():
        version, hashes = part.split()[0], set(re.findall(r"sha256:\w+", part))
        assert (version, hashes) == (EVERYTHING[name].split()[0], set(re.findall(r"sha256:\w+", EVERYTHING[name]))), name


def test_the_runtime_lock_has_every_library_that_the_product_imports_and_no_development_tools() -> None:
    product = [path for top in ("sidecar", "spark_merge", "proto") for path in (ROOT / top).rglob("*.py") if "testing" not in path.parts]
    tops = {
        name.partition(".")[0]
        for path in product
        for node in ast.walk(ast.parse(path.read_text()))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module]
            if isinstance(node, ast.ImportFrom) and node.module and not node.level
            else []
        )
    } - sys.stdlib_module_names
    owners = packages_distributions()
    kept = {*RUNTIME, "ticdc-dump"}
    missing = {top for top in tops if top in owners and not {canonicalize_name(name) for name in owners[top]} & kept}
    assert missing == set()
    requirements = [
        *PROJECT["project"]["dependencies"],
        *(one for extra in PROJECT["project"]["optional-dependencies"].values() for one in extra),
    ]
    assert names_of(requirements) <= RUNTIME.keys()
    assert not names_of(PROJECT["dependency-groups"]["dev"]) & RUNTIME.keys()


# ---- Kubernetes -----------------------------------------------------------------------------------------------------


def manifests() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(text("kubernetes/ticdc-dump.yaml")))


def only(kind: str) -> dict[str, Any]:
    (result,) = (manifest for manifest in manifests() if manifest["kind"] == kind)
    return result


def pod() -> dict[str, Any]:
    return dict(only("Deployment")["spec"]["template"]["spec"])


def manifest_images() -> set[str]:
    return {container["image"] for container in (*pod()["initContainers"], *pod()["containers"])}


@pytest.mark.parametrize("manifest", manifests(), ids=lambda manifest: f"{manifest['kind']}-{manifest['metadata']['name']}")
def test_every_manifest_is_named_and_in_the_namespace(manifest: dict[str, Any]) -> None:
    assert manifest["apiVersion"]
    assert manifest["kind"] == "Namespace" or manifest["metadata"]["namespace"] == only("Namespace")["metadata"]["name"]


def test_two_pods_are_there_and_one_stays_when_nodes_are_drained() -> None:
    deployment, budget = only("Deployment")["spec"], only("PodDisruptionBudget")["spec"]
    assert (deployment["replicas"], budget["minAvailable"]) == (2, 1)
    labels = deployment["template"]["metadata"]["labels"].items()
    selectors = [deployment["selector"]["matchLabels"], budget["selector"]["matchLabels"]]
    selectors += [service["spec"]["selector"] for service in manifests() if service["kind"] == "Service"]
    assert all(selector.items() <= labels for selector in selectors)


def test_what_the_pod_names_is_there(kubernetes_settings: Config) -> None:
    (container,) = pod()["containers"]
    volumes = {volume["name"]: volume for volume in pod()["volumes"]}
    mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    assert set(mounts.values()) <= volumes.keys()
    assert volumes["settings"]["configMap"]["name"] == only("ConfigMap")["metadata"]["name"]
    assert pod()["serviceAccountName"] == only("ServiceAccount")["metadata"]["name"]
    settings = kubernetes_settings
    secret_files = [settings.source.password_file, settings.control.token_file, settings.control.tls.cert_file]
    for file in (*secret_files, settings.control.tls.key_file):
        assert "secret" in volumes[mounts[str(Path(file).parent)]], file
    for secret in (volume["secret"]["secretName"] for volume in volumes.values() if "secret" in volume):
        assert f"create secret generic {secret} " in text("ATTACH.md"), secret


def test_ports_and_probes_are_those_of_the_settings(kubernetes_settings: Config) -> None:
    (container,) = pod()["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    settings = kubernetes_settings
    assert ports == {name: int(getattr(settings, name).listen.rpartition(":")[2]) for name in ("control", "metrics")}
    served = {port["name"]: port["port"] for service in manifests() if service["kind"] == "Service" for port in service["spec"]["ports"]}
    assert served == ports
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"] == {"path": "/healthz", "port": "metrics"}
    assert pod()["terminationGracePeriodSeconds"] >= 1.5 * STOPPING_S
    assert container["env"][0]["value"] == "ticdc-dump-orders.ticdc-dump.svc:8310"


def test_the_pods_own_address_is_below_the_headless_service() -> None:
    (settings,) = pod()["initContainers"]
    (control,) = (
        manifest for manifest in manifests() if manifest["kind"] == "Service" and manifest["spec"]["ports"][0]["name"] == "control"
    )
    assert control["spec"]["clusterIP"] == "None"
    assert f".{control['metadata']['name']}.$POD_NAMESPACE.svc:{control['spec']['ports'][0]['port']}" in settings["command"][-1]


def test_containers_have_bounds_and_no_privileges() -> None:
    assert pod()["securityContext"]["runAsNonRoot"] is True
    for container in (*pod()["initContainers"], *pod()["containers"]):
        assert {"cpu", "memory"} <= container["resources"]["requests"].keys()
        assert "memory" in container["resources"]["limits"]
        security = container["securityContext"]
        assert (security["allowPrivilegeEscalation"], security["readOnlyRootFilesystem"]) == (False, True)


# ---- the guide ------------------------------------------------------------------------------------------------------


GUIDE_WORDS_MAX = 1_500
"""Of a page with a section for each task, or of one sink. The frames of tables are no words."""
GUIDE = [str(page.relative_to(DEPLOY).with_suffix("")) for page in PAGES]
GENERATED = {"COMMANDS"}
"""As long as the command line is."""


def outside_code(page: Path) -> str:
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings: letters, digits, "-" and "_" stay, blanks become "-"."""
    headings = re.findall(r"^#+ (.+)$", outside_code(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def lost_links(page: Path) -> Iterator[str]:
    """Links to files and sections that are not there."""
    links = [link for link in re.findall(r"\]\(([^)]+)\)", outside_code(page)) if "://" not in link]
    for file, _, anchor in (link.partition("#") for link in links):
        target = page.parent / file if file else page
        if not target.exists():
            yield file
        elif anchor and anchor not in anchors(target):
            yield f"{file}#{anchor}"


OTHER_PAGES = [
    *sorted(ROOT.glob("*.md")), *sorted((ROOT / "sidecar").rglob("*.md")), *sorted((ROOT / "spark_merge").rglob("*.md")),
    *sorted((ROOT / "tests").glob("*.md")),
]  # fmt: skip


@pytest.mark.parametrize("page", [*PAGES, *OTHER_PAGES], ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_to_a_file_and_a_section(page: Path) -> None:
    assert list(lost_links(page)) == []


def test_a_link_to_nowhere_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A page: `of mine`\n[a](#a-page-of-mine) [b](#a-page) [c](gone.md)\n```\n# no heading\n[d](no-link.md)\n```\n")
    assert list(lost_links(page)) == ["#a-page", "gone.md"]


def test_the_index_leads_to_every_page() -> None:
    linked = {(DEPLOY / link.partition("#")[0]).resolve() for link in re.findall(r"\]\(([^):]+)\)", text("README.md"))}
    assert set(PAGES) - linked == {DEPLOY / "README.md"}


@pytest.mark.parametrize("page", [page for page in GUIDE if page not in GENERATED])
def test_a_page_of_the_guide_is_short(page: str) -> None:
    assert len(re.findall(r"\S*\w\S*", text(f"{page}.md"))) <= GUIDE_WORDS_MAX


def test_the_guide_reports_every_exit_code_of_the_commands() -> None:
    from sidecar.cli.dump_commands import EXIT_CODES

    for code in re.findall(r"(\d+) [a-z]", EXIT_CODES):
        assert re.search(rf"^\| {code} \|", text("TROUBLESHOOT.md"), re.MULTILINE), code


def commands_of(page: Path) -> Iterator[str]:
    """Lines of its blocks that run one of our programs."""
    for block in re.findall(r"^```\w*\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            if match := re.search(r"\bticdc-dump ((?:dump|check|skip|size|remove|run|merge)\w* .*)", line):
                yield re.split(r" +#|\|", match[1])[0].strip()


@pytest.mark.parametrize("page", GUIDE)
def test_every_command_of_the_guide_has_options_that_there_are(page: str) -> None:
    from sidecar.cli.main import app

    known = typer.main.get_command(app)
    for line in commands_of(DEPLOY / f"{page}.md"):
        name, *given = shlex.split(line.replace("$ACCESS", ""))
        command = known.get_command(typer.Context(known), name)  # type: ignore[attr-defined]
        assert command is not None, line
        options = {option for param in command.params for option in (*param.opts, *param.secondary_opts)}
        assert {word for word in given if word.startswith("-")} <= options, line
