"""The Debian package and the image's list of parts, held without building them (deploy/INSTALL.md has what was tried)."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

import sidecar

DEPLOY = Path(__file__).parents[2] / "deploy"
DEBIAN = DEPLOY / "debian"
UNIT = (DEPLOY / "systemd" / "ticdc-dump@.service").read_text()
BUILD = (DEBIAN / "build").read_text()


@pytest.mark.parametrize("script", ["build", "postinst", "prerm", "postrm"])
def test_each_script_can_be_run_and_ends_at_its_first_error(script: str) -> None:
    path = DEBIAN / script
    shell = path.read_text().splitlines()[0].removeprefix("#!").split()[-1]
    subprocess.run([shell, "-n", str(path)], check=True)
    assert re.search(r"^set -e", path.read_text(), re.MULTILINE)


def test_the_package_has_what_the_unit_names() -> None:
    (program,) = re.findall(r"^ExecStart=(/opt/ticdc-dump)/venv/bin/ticdc-dump run", UNIT, re.MULTILINE)
    assert f"home={program} venv=$stage{program}/venv" in BUILD
    (user,) = re.findall(r"^User=(.+)$", UNIT, re.MULTILINE)
    assert f"--no-create-home --shell /usr/sbin/nologin {user}\n" in (DEBIAN / "postinst").read_text()
    placed = re.findall(r"^put \d+ (\S+) (\S+)$", BUILD, re.MULTILINE)
    assert all((DEPLOY.parent / source).is_file() for source, _ in placed)
    for conffile in (DEBIAN / "conffiles").read_text().split():
        assert conffile in {place for _, place in placed}
        assert f"EnvironmentFile=-{conffile}\n" in UNIT


def test_each_blank_of_the_control_file_is_filled() -> None:
    blanks = set(re.findall(r"@[A-Z_]+@", (DEBIAN / "control.in").read_text()))
    assert blanks == set(re.findall(r"s/(@[A-Z_]+@)/", BUILD))


@pytest.fixture(scope="module")
def sbom() -> dict[str, Any]:
    command = [sys.executable, "-B", str(DEPLOY / "docker" / "sbom.py")]
    first, again = (subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(2))
    assert first == again, "the same environment, the same document"
    return dict(json.loads(first))


def test_the_list_of_parts_has_python_packages_and_jars_with_the_names_that_scanners_know(sbom: dict[str, Any]) -> None:
    assert (sbom["bomFormat"], sbom["specVersion"]) == ("CycloneDX", "1.6")
    assert sbom["metadata"]["component"]["purl"] == f"pkg:pypi/ticdc-dump@{sidecar.__version__}"
    purls = {component["purl"] for component in sbom["components"]}
    spark = version("pyspark")
    assert {f"pkg:pypi/pyspark@{spark}", f"pkg:maven/org.apache.spark/spark-core_2.13@{spark}"} <= purls
    assert f"pkg:pypi/s3fs@{version('s3fs')}" in purls


def test_each_part_has_a_reference_of_its_own_and_the_product_depends_on_it(sbom: dict[str, Any]) -> None:
    references = [component["bom-ref"] for component in sbom["components"]]
    assert len(references) == len(set(references)) > 100
    (own,) = sbom["dependencies"]
    assert own["dependsOn"] == sorted(references)
