"""What `make dist` builds: the same bytes in any folder, each file of the product once, nothing of the tests, and a wheel that runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest

import sidecar
from tests.support import distribution
from tests.support.distribution import ROOT, build, tracked

PACKAGES = {"sidecar": "sidecar", "spark_merge": "spark_merge", "proto/ticdc_dump": "ticdc_dump"}
"""In the repository, and as they are imported."""
REPOSITORY_ONLY = ("deploy/completion/", "deploy/debian/", "deploy/docker/", "deploy/man/", "deploy/push/go/", "deploy/push/sink/")
"""Of deploy/: what is built in the repository, or lies in a wheel where shells and man look for it."""
NAME = f"ticdc_dump-{sidecar.__version__}"
DOC = f"{NAME}.data/data/share/doc/ticdc-dump/"


class Built(NamedTuple):
    sdist: Path
    wheel: Path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    place = tmp_path_factory.mktemp("distribution")
    return Built(*build(place / "source", place / "out"))


@pytest.fixture(scope="module")
def wheel_names(built: Built) -> list[str]:
    with zipfile.ZipFile(built.wheel) as wheel:
        return wheel.namelist()


def test_another_build_elsewhere_has_the_same_bytes(built: Built, tmp_path: Path) -> None:
    previous = os.umask(0o077)
    try:
        again = Built(*build(tmp_path / "a" / "longer place", tmp_path / "out"))
    finally:
        os.umask(previous)
    assert [one.name for one in again] == [one.name for one in built]
    assert [one.read_bytes() for one in again] == [one.read_bytes() for one in built]


def test_the_wheel_has_each_file_of_the_product_and_nothing_else(wheel_names: list[str]) -> None:
    packages = {
        name.replace(folder, package, 1)
        for name in map(str, tracked())
        for folder, package in PACKAGES.items()
        if name.startswith(f"{folder}/") and not name.endswith(".md")
    }
    installed = [name for name in wheel_names if not name.startswith(NAME)]
    assert sorted(installed) == sorted(packages)


def test_pages_and_examples_come_with_the_wheel(wheel_names: list[str]) -> None:
    """An error names a page as deploy/PAGE.md: it lies below share/doc/ticdc-dump."""
    pages = {name for name in map(str, tracked()) if name.startswith("deploy/") and not name.startswith(REPOSITORY_ONLY)}
    assert pages == {name.removeprefix(DOC) for name in wheel_names if name.startswith(f"{DOC}deploy/")}
    shells = {"bash-completion/completions/ticdc-dump", "zsh/site-functions/_ticdc-dump", "fish/vendor_completions.d/ticdc-dump.fish"}
    assert {f"{NAME}.data/data/share/{name}" for name in {*shells, "man/man1/ticdc-dump.1"}} <= set(wheel_names)


def test_the_source_distribution_has_tracked_files_only_and_no_tests(built: Built) -> None:
    with tarfile.open(built.sdist) as archive:
        files = {part.name.partition("/")[2] for part in archive if part.isfile()}
    made = {name for name in files if re.match(r"PKG-INFO$|setup\.cfg$|(proto/)?ticdc_dump\.egg-info/", name)}
    assert files - made <= set(map(str, tracked()))
    assert not {name for name in files if name.startswith(("tests/", "shared/", ".ci/"))}
    assert {"pyproject.toml", "LICENSE", "requirements-runtime.lock"} <= files


def test_the_folder_itself_builds_the_same_wheel(built: Built, tmp_path: Path) -> None:
    """As `pip install .` does, without the source distribution between."""
    for name in tracked():
        place = tmp_path / "source" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes((ROOT / name).read_bytes())
        place.chmod(0o755 if os.access(ROOT / name, os.X_OK) else 0o644)
    distribution.run_backend("wheel", tmp_path / "source", tmp_path / "out")
    (wheel,) = (tmp_path / "out").glob("*.whl")
    assert wheel.read_bytes() == built.wheel.read_bytes()


INSTALLED = """
import sys
from pathlib import Path
import sidecar, spark_merge.worker.session as session
from sidecar.replay.busy import make_busy_recording
assert Path(sidecar.__file__).is_relative_to(sys.argv[1]), sidecar.__file__
assert Path(session.LOG4J.removeprefix("file://")).is_file()
make_busy_recording(Path("busy"), seconds=0.5, scale=0.01)
"""


def test_what_is_installed_runs_in_a_folder_without_the_repository(built: Built, tmp_path: Path) -> None:
    place, elsewhere = tmp_path / "installed", tmp_path / "elsewhere"
    elsewhere.mkdir()
    with zipfile.ZipFile(built.wheel) as wheel:
        wheel.extractall(place)
    environment = {**os.environ, "PYTHONPATH": str(place)}

    def run(*arguments: str) -> str:
        return subprocess.run(
            [sys.executable, *arguments], cwd=elsewhere, env=environment, capture_output=True, text=True, check=True
        ).stdout

    run("-c", INSTALLED, str(place))
    assert run("-m", "sidecar", "--version") == f"ticdc-dump {sidecar.__version__}\n"
    replayed = run("-m", "sidecar", "replay", "busy", "--brackets", "snapshot", "--out", "out", "--report", "report.html", "--json")
    assert '"ok": true' in replayed
    assert (elsewhere / "report.html").is_file()
