"""csv in TiCDC's storage layout, beside its own bytes into one file."""

from __future__ import annotations

import os
from pathlib import Path

from tests.tools.bench.figures import Cost, timed
from tests.tools.bench.sinks import Target


def storage(folder: Path) -> Target:
    return Target(
        "storage csv",
        lambda name: f"file://{folder}/{name}?protocol=csv&csv.include-commit-ts=true&date-separator=none&flush-interval=0s",
        lambda name: _copied(folder, folder / name),
        "its bytes into one file",
        "a core a task",
    )


def _copied(folder: Path, output: Path) -> Cost:
    results = [path.read_bytes() for path in sorted(output.rglob("CDC*.csv"))]
    cost = Cost()
    with timed(cost), (folder / "copy").open("wb") as file:
        file.writelines(results)
        file.flush()
        os.fsync(file.fileno())
    return cost
