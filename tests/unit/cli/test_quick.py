"""What a command loads, asked of a process of its own: what takes long to load and is not needed is not there.

Not by the clock: `python -m tests.tools.bench --only cli` measures.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sidecar.cli.cdc import COMMANDS
from tests.support.eventually import PATIENCE_S

HEAVY = ("pyarrow", "numpy", "polars", "pyspark", "etcd3", "confluent_kafka", "connectorx", "pymysql", "fsspec", "s3fs")
FRAMEWORKS = ("grpc", "rich", "stamina", "structlog")

PROGRAM = """
import os, sys
def loaded(*_):
    sys.stderr.write("loaded " + " ".join(sorted({name.partition(".")[0] for name in sys.modules})))
    sys.stderr.flush()
    os._exit(0)
os.execve = loaded
module, sys.argv[1:] = sys.argv[1], sys.argv[2:]
try:
    __import__(module, fromlist=["main"]).main()
except SystemExit:
    pass
loaded()
"""
"""The program `module.main` up to its end, or to the other program that it becomes; then what it has loaded."""


def loaded(module: str, *arguments: str, real_cdc: Path | None = None) -> tuple[set[str], str]:
    """The libraries that the program had loaded at its end, and what it wrote to standard output."""
    command = [sys.executable, "-c", PROGRAM, module, *arguments]
    environment = {"TICDC_CDC_BINARY": str(real_cdc)} if real_cdc is not None else {}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    return set(done.stderr.rpartition("loaded ")[2].split()), done.stdout


COMMANDS_OF_OURS = ("replay", "demo", "run", "merge", "init", "check", "size", "remove", "skip", "holes", "tail", "completion", *COMMANDS)


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], *([name, "--help"] for name in COMMANDS_OF_OURS)], ids=" ".join)
def test_help_loads_what_declares_the_options_and_no_more(arguments: list[str]) -> None:
    results, output = loaded("sidecar.cli.main", *arguments)
    assert output.strip()
    assert not results & {*HEAVY, *FRAMEWORKS}


@pytest.mark.parametrize("name", COMMANDS)
def test_help_by_the_name_of_cdc_is_as_quick(name: str) -> None:
    results, output = loaded("sidecar.cli.cdc", "cli", "changefeed", name, "--help")
    assert f"cdc cli changefeed {name}" in output
    assert not results & {*HEAVY, *FRAMEWORKS}


@pytest.mark.parametrize("arguments", [["version"], ["cli", "changefeed", "list", "--pd", "http://h:1"], ["server"]], ids=" ".join)
def test_what_is_passed_on_loads_the_standard_library_alone(arguments: list[str], tmp_path: Path) -> None:
    real = tmp_path / "cdc"
    real.write_text("#!/bin/sh\n")
    real.chmod(0o755)
    results, _ = loaded("sidecar.cli.cdc", *arguments, real_cdc=real)
    installed = {name for name in results if name not in sys.stdlib_module_names and not name.startswith(("__", "_distutils_hack"))}
    assert installed == {"sidecar"}


def test_a_request_loads_its_way_to_the_sidecar_and_nothing_of_a_sidecars_insides() -> None:
    arguments = ("dumpquery", "-c", "orders", "--sidecar", "127.0.0.1:1", "--timeout", "0.1", "--json")
    results, output = loaded("sidecar.cli.main", *arguments)
    assert '"exit_reason": "unreachable"' in output
    assert "grpc" in results
    assert not results & {*HEAVY, "structlog"}
