"""The commands: CPU of whole processes from a warm file cache, beside a Python that does nothing.

`dumpquery` asks a control service in this process, whose CPU is not counted. Nothing here is a rate: a figure is the best of its
repetitions, in milliseconds.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.tools.bench.bench import Bench
from tests.tools.bench.figures import Figure
from tests.unit.control.serving import Owner, Serving

REPEATS = 15
"""Processes of a tenth of a second: many are cheap, and one that nothing disturbed is among them."""
MAIN, CDC = "from sidecar.cli.main import main; main()", "from sidecar.cli.cdc import main; main()"


def measure(bench: Bench) -> Iterator[Figure]:
    """Each process ends with 0, else this raises CalledProcessError."""
    real = bench.new_folder("real") / "cdc"
    real.symlink_to(_nothing())
    repeats = bench.sized(REPEATS)
    with Owner() as owner, Serving(owner.served()) as serving:
        query = ("dumpquery", "-c", "cf", "--sidecar", serving.address)
        commands: tuple[tuple[str, str, Sequence[str], str, str], ...] = (
            ("ticdc-dump --help", MAIN, ("--help",), "≤ 150", "typer"),
            ("ticdc-dump dumpstart --help", MAIN, ("dumpstart", "--help"), "≤ 150", "typer"),
            (
                "cdc cli changefeed list, passed on",
                CDC,
                ("cli", "changefeed", "list"),
                "≤ 150",
                "Python itself; to its exec and the end of `true`",
            ),
            ("ticdc-dump dumpquery", MAIN, query, "≤ 300", "typer with pydantic, gRPC, rich"),
            ("cdc cli changefeed dumpquery", CDC, ("cli", "changefeed", *query), "≤ 300", "typer with pydantic, gRPC, rich"),
        )
        nothing_s = _cpu_s("pass", (), real, repeats)
        for name, program, arguments, aim, limit in commands:
            cpu_s = _cpu_s(program, arguments, real, repeats)
            yield Figure(
                f"CPU of {name}",
                cpu_s * 1000,
                "ms",
                aim,
                limit,
                reference=f"{cpu_s / nothing_s:.0f} × python -c pass ({nothing_s * 1000:.0f} ms)",
                cpu_ratio=nothing_s / cpu_s,
            )


def _nothing() -> Path:
    """A program that does nothing, in the place of TiCDC's own `cdc`."""
    return next(path for path in map(Path, ("/bin/true", "/usr/bin/true")) if path.exists())


def _cpu_s(program: str, arguments: Sequence[str], real_cdc: Path, repeats: int) -> float:
    """User and system time of the best of `repeats` processes, after one that warms the file cache."""
    costs = []
    for _ in range(repeats + 1):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-c", program, *arguments]
        subprocess.run(command, env=os.environ | {"TICDC_CDC_BINARY": str(real_cdc)}, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        costs.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(costs[1:])
