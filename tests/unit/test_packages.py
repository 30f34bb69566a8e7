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


class Machine:
    """On which the package's scripts run: its /run is a folder, and systemctl and what else changes a machine are stubs. `running`:
    instances; those of `activating` are about to."""

    def __init__(self, folder: Path, running: set[str], activating: set[str]) -> None:
        self.run, self._bin, self._units = folder / "run", folder / "bin", folder / "units"
        for made in (self.run / "systemd" / "system", self._bin, self._units):
            made.mkdir(parents=True)
        for state, units in (("active", running), ("activating", activating)):
            for unit in units:
                (self._units / unit).write_text(state)
        self._stub("systemctl", _SYSTEMCTL.replace("@UNITS@", str(self._units)))
        for name in ("adduser", "deluser", "chown", "chmod", "getent"):
            self._stub(name, "")

    def _stub(self, name: str, text: str) -> None:
        path = self._bin / name
        path.write_text(f"#!/bin/sh\n{text}")
        path.chmod(0o755)

    @property
    def running(self) -> set[str]:
        return {path.name for path in self._units.iterdir()}

    @property
    def listed(self) -> bool:
        return (self.run / "ticdc-dump.stopped").exists()

    def script(self, name: str, *words: str) -> None:
        """`dpkg` calls it with these words."""
        text = (DEBIAN / name).read_text().replace("/run/", f"{self.run}/")
        path = {"PATH": f"{self._bin}:/usr/bin:/bin"}
        subprocess.run(["/bin/sh", "-c", text, name, *words], check=True, env=path)


_SYSTEMCTL = """
cd @UNITS@
what=$1
shift
case $what in
list-units) for unit in *; do case ,${3#--state=}, in *,$(cat "$unit"),*) echo "$unit loaded" ;; esac; done ;;
start) for unit in "$@"; do echo active > "$unit"; done ;;
stop) rm -f "$@" ;;
esac
"""

UNITS = {"ticdc-dump@a.service", "ticdc-dump@b.service"}, {"ticdc-dump@c.service"}
ABORTS = [("abort-upgrade", "2"), ("abort-remove",), ("abort-remove", "in-favour", "x", "1"), ("abort-deconfigure", "in-favour", "x", "1")]


@pytest.mark.parametrize("words", [("configure", "1"), *ABORTS])
def test_what_an_upgrade_or_a_removal_has_stopped_runs_again_however_that_ended(tmp_path: Path, words: tuple[str, ...]) -> None:
    machine = Machine(tmp_path, *UNITS)
    machine.script("prerm", "upgrade", "2")
    assert machine.running == set(), "one that was about to start as well"
    machine.script("postinst", *words)
    assert (machine.running, machine.listed) == (UNITS[0] | UNITS[1], False)


def test_an_upgrade_after_one_that_failed_forgets_nobody(tmp_path: Path) -> None:
    machine = Machine(tmp_path, *UNITS)
    for _ in range(2):  # the attempt, and the next one; nothing was started between them
        machine.script("prerm", "upgrade", "2")
    machine.script("prerm", "failed-upgrade", "1")
    machine.script("postinst", "configure", "1")
    assert machine.running == UNITS[0] | UNITS[1]


def test_what_was_removed_is_not_started_by_a_later_installation(tmp_path: Path) -> None:
    machine = Machine(tmp_path, *UNITS)
    machine.script("prerm", "remove")
    machine.script("postrm", "remove")
    machine.script("postinst", "configure")
    assert machine.running == set()


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
