"""The Helm chart: it says what deploy/kubernetes/ticdc-dump.yaml says, and its schema rejects what the sidecar would reject.

The schema is held by jsonschema everywhere. What is rendered needs `helm`, and is skipped where there is none.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
import yaml  # type: ignore[import-untyped]
from jsonschema import Draft7Validator  # type: ignore[import-untyped]

import sidecar
from sidecar.shared.config import Config, read_config
from tests.lanes import examples

DEPLOY = Path(__file__).parents[2] / "deploy"
CHART = DEPLOY / "helm" / "ticdc-dump"
VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
HELM = shutil.which("helm")
needs_helm = pytest.mark.skipif(HELM is None, reason="no helm here")
CHECKSUM = "checksum/settings"


def changed(path: str, value: object) -> dict[str, Any]:
    """The chart's own values but for one. `path`: names with dots between."""
    values = deepcopy(VALUES)
    *folders, last = path.split(".")
    place = values
    for name in folders:
        place = place.setdefault(name, {})
    place[last] = value
    return values


def errors(values: Mapping[str, Any]) -> list[str]:
    return [error.message for error in Draft7Validator(SCHEMA).iter_errors(values)]


def render(values: Mapping[str, Any], folder: Path, release: str = "orders") -> subprocess.CompletedProcess[str]:
    path = folder / "values.yaml"
    path.write_text(yaml.safe_dump(dict(values)))
    command = [str(HELM), "template", release, str(CHART), "--namespace", "ticdc-dump", "--kube-version", "1.30.0", "--values", str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def manifests(text: str) -> dict[tuple[str, str], dict[str, Any]]:
    return {(one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(text) if one is not None}


def settings_of(rendered: Mapping[tuple[str, str], dict[str, Any]], folder: Path) -> Config:
    (text,) = (one["data"]["sidecar.toml"] for (kind, _), one in rendered.items() if kind == "ConfigMap")
    path = folder / "sidecar.toml"
    path.write_text(text.replace("@ADVERTISE@", "10-0-0-1.ticdc-dump-orders.ticdc-dump.svc:8310"))
    return read_config(path)


def test_the_chart_has_this_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (sidecar.__version__, sidecar.__version__)


def test_its_own_values_are_valid_and_each_is_in_the_schema() -> None:
    assert errors(VALUES) == []
    assert VALUES.keys() | {"global"} == SCHEMA["properties"].keys()


@pytest.mark.parametrize("section", sorted(field.name for field in msgspec.structs.fields(Config)))
def test_the_schema_rejects_what_is_misspelt_in_each_section_of_the_settings(section: str) -> None:
    part = VALUES["settings"].get(section)
    if section in ("sinks", "feed"):
        assert errors(changed(f"settings.{section}", "misspelt"))
        return
    assert errors(changed(f"settings.{section}", {**(part or {}), "misspelt": 1}))
    assert errors(changed(f"settings.{section}x", part or {}))


BAD = [
    ("replicas", 0), ("replicas", "two"), ("image.repository", ""), ("image.pullPolicy", "Sometimes"), ("settings.sinks", []),
    ("settings.sinks", [""]), ("settings.dump", {"readers": 0}), ("settings.dump", {"delivery_bound_s": "0.5"}),
    ("settings.etcd", {"endpoints": "pd:2379"}), ("settings.control", {"listen": "8310"}),
    ("settings.metrics", {"listen": ""}), ("secrets.source", "Not_A_Name"),
    ("secrets.password", "in-the-values"), ("secrets.more", [{"name": "kafka"}]), ("persistence.size", "much"),
    ("persistence.accessModes", []), ("cacheSize", "20 GB"), ("extraPorts", [{"name": "push"}]),
    ("extraPorts", [{"name": "push", "port": 70000, "from": []}]), ("podDisruptionBudget.minAvailable", 0),
    ("serviceMonitor.interval", "often"), ("networkpolicy", {"enabled": True}),
]  # fmt: skip


LACKING = [("settings.control", {}), ("settings.source", {}), ("settings.log", {}), ("resources.limits", {"cpu": "1"})]
"""Helm adds what its own values have."""


@pytest.mark.parametrize(("path", "value"), [*BAD, *LACKING])
def test_the_schema_rejects_a_bad_value(path: str, value: object) -> None:
    assert errors(changed(path, value))


@pytest.mark.parametrize("uri", ["file:///var/lib/ticdc-dump/log", "/var/lib/ticdc-dump/log"])
def test_a_log_in_files_needs_a_volume_that_all_pods_can_write(uri: str) -> None:
    values = changed("settings.log.uri", uri)
    assert errors(values)
    values["persistence"]["enabled"] = True
    assert errors(values)
    assert errors({**values, "replicas": 1}) == []
    values["persistence"]["accessModes"] = ["ReadWriteMany"]
    assert errors(values) == []


@needs_helm
def test_helm_has_nothing_to_say_of_it() -> None:
    done = subprocess.run([str(HELM), "lint", "--strict", str(CHART)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "[WARNING]" not in done.stdout


@needs_helm
@pytest.mark.parametrize(("path", "value"), BAD)
def test_helm_refuses_what_the_schema_rejects(path: str, value: object, tmp_path: Path) -> None:
    done = render(changed(path, value), tmp_path)
    assert done.returncode != 0
    assert "values don't meet the specifications of the schema" in done.stderr


@needs_helm
def test_the_chart_says_what_the_manifest_says(tmp_path: Path) -> None:
    """But for the namespace, which Helm is given, and the checksum by which it replaces pods."""
    rendered = manifests(render(VALUES, tmp_path).stdout)
    plain = manifests((DEPLOY / "kubernetes" / "ticdc-dump.yaml").read_text())
    del plain["Namespace", "ticdc-dump"]
    for texts in (rendered, plain):
        config = texts["ConfigMap", "ticdc-dump-orders"]["data"]
        config["sidecar.toml"] = settings_of(texts, tmp_path)
        for container in _containers(texts):
            container.pop("imagePullPolicy", None)
    del rendered["Deployment", "ticdc-dump-orders"]["spec"]["template"]["metadata"]["annotations"][CHECKSUM]
    assert rendered == plain


def _containers(texts: Mapping[tuple[str, str], dict[str, Any]]) -> list[dict[str, Any]]:
    spec = texts["Deployment", "ticdc-dump-orders"]["spec"]["template"]["spec"]
    return [*spec["initContainers"], *spec["containers"]]


@needs_helm
def test_settings_of_every_type_arrive_as_they_are(tmp_path: Path) -> None:
    values = deepcopy(VALUES)
    values["settings"] |= {
        "sinks": [*VALUES["settings"]["sinks"], "kafka://kafka:9092/merged?protocol=canal-json&name=copy"],
        "dump": {"chunk_rows": 4_294_967_295, "delivery_bound_s": 0.5, "strict_bound": True, "chunk_bytes_max": 268_435_456},
        "kafka": {"client": {"socket.timeout.ms": "61000"}},
    }
    settings = settings_of(manifests(render(values, tmp_path).stdout), tmp_path)
    assert (len(settings.sinks), settings.kafka.client) == (2, {"socket.timeout.ms": "61000"})
    assert (settings.dump.chunk_rows, settings.dump.delivery_bound_s, settings.dump.strict_bound) == (4_294_967_295, 0.5, True)


@needs_helm
def test_a_release_with_everything_else(tmp_path: Path) -> None:
    """A log on a volume, one pod, a secret and a port more, an operator's Prometheus, rules for what goes out."""
    values = changed("settings.log.uri", "file:///var/lib/ticdc-dump/log") | {"replicas": 1}
    values["persistence"] |= {"enabled": True, "storageClass": "fast"}
    values["secrets"]["more"] = [{"name": "kafka-sasl", "folder": "kafka"}]
    values["extraPorts"] = [{"name": "push", "port": 8312, "from": [{"namespaceSelector": {}}]}]
    values["serviceMonitor"]["enabled"] = True
    values["networkPolicy"]["egress"] = [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}]
    values["serviceAccount"]["annotations"] = {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/r"}
    rendered = manifests(render(values, tmp_path).stdout)
    kinds = {kind for kind, _ in rendered}
    assert kinds == {"ConfigMap", "Deployment", "NetworkPolicy", "PersistentVolumeClaim", "Service", "ServiceAccount", "ServiceMonitor"}
    pod = rendered["Deployment", "ticdc-dump-orders"]["spec"]["template"]
    volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
    (container,) = pod["spec"]["containers"]
    assert volumes["work"] == {"name": "work", "persistentVolumeClaim": {"claimName": "ticdc-dump-orders"}}
    assert volumes["kafka"]["secret"]["secretName"] == "kafka-sasl"
    assert {mount["name"] for mount in container["volumeMounts"]} <= volumes.keys()
    assert {"name": "push", "containerPort": 8312} in container["ports"]
    assert "prometheus.io/scrape" not in pod["metadata"]["annotations"]
    policy = rendered["NetworkPolicy", "ticdc-dump-orders"]["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert [rule["ports"] for rule in policy["ingress"]] == [[{"port": name}] for name in ("control", "metrics", "push")]


LABEL_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?")
SERVICE_NAME = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
"""As Kubernetes takes them."""


def labels_in(part: object) -> list[str]:
    """The values of all labels, and of what selects by them."""
    if isinstance(part, list):
        return [value for one in part for value in labels_in(one)]
    if not isinstance(part, dict):
        return []
    own = [value for key in ("labels", "matchLabels") for value in part.get(key, {}).values()]
    return own + [value for one in part.values() for value in labels_in(one)]


@needs_helm
@pytest.mark.parametrize("seed", range(examples(4)))
def test_any_release_and_any_changefeed_give_names_and_labels_that_kubernetes_takes(seed: int, tmp_path: Path) -> None:
    """A release's name has 53 characters at most, a changefeed's id 128."""
    chance = Random(seed)

    def words(letters: str, between: str, most: int) -> str:
        text = "".join("".join(chance.choices(letters, k=chance.randrange(1, 30))) + chance.choice(between) for _ in range(9))
        return text[: chance.choice([1, 44, 45, most, most])].rstrip(between)

    release, changefeed = words("ab01", "-.", 53), words("aZ09", "-", 128)
    values = changed("settings.changefeed.id", changefeed)
    values["serviceMonitor"]["enabled"] = True
    values["persistence"] |= {"enabled": True, "accessModes": ["ReadWriteMany"]}
    done = render(values, tmp_path, release)
    assert done.returncode == 0, done.stderr
    rendered = manifests(done.stdout)
    assert all(SERVICE_NAME.fullmatch(name) for _, name in rendered), rendered.keys()
    assert len({name for kind, name in rendered if kind == "Service"}) == 2
    assert all(LABEL_VALUE.fullmatch(value) for value in labels_in(list(rendered.values())))
    (deployment,) = (one for (kind, _), one in rendered.items() if kind == "Deployment")
    label = deployment["spec"]["template"]["metadata"]["labels"]["changefeed"]
    assert label == changefeed[:63].rstrip("-")
    (headless,) = (name for kind, name in rendered if kind == "Service" and not name.endswith("-metrics"))
    assert f".{headless}.$POD_NAMESPACE.svc" in str(deployment["spec"]["template"]["spec"]["initContainers"])


def test_no_label_has_an_id_as_it_is_and_no_name_has_a_release_as_it_is() -> None:
    """Where there is no `helm`, too."""
    texts = {path.name: path.read_text() for path in (CHART / "templates").iterdir()}
    names = texts.pop("_names.tpl")
    assert len(re.findall(r"Release\.Name", names)) == 2, "the name, and the label of the release, which is short enough"
    assert not any(re.search(r"Release\.Name\b", text) for text in texts.values())
    assert re.findall(r"^ *(\S+) .*changefeed\.id", "\n".join(texts.values()), re.MULTILINE) == ["-"], "a target's label, of any length"


@needs_helm
def test_pods_are_replaced_when_a_setting_changes(tmp_path: Path) -> None:
    sums = [
        manifests(render(values, tmp_path).stdout)["Deployment", "ticdc-dump-orders"]["spec"]["template"]["metadata"]["annotations"][
            CHECKSUM
        ]
        for values in (VALUES, changed("settings.dump", {"readers": 3}), VALUES)
    ]
    assert sums[0] == sums[2] != sums[1]
