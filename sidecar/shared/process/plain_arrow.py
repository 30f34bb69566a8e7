"""pyarrow without pandas, and with no more threads than this process has processors: imported first by each process that stays.

Where pandas is installed, pyarrow loads it with its first array, in order to take its objects: 0.4 s of CPU and 50 MB in each process, and
nothing here has such objects. Source: pyarrow's pandas-shim.pxi, `_check_import`.

A sink of somebody's own may make arrays of pandas' objects, in which NaN is NULL: where one is installed, pyarrow is left as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import entry_points
from types import ModuleType

import pyarrow as pa

from sidecar.shared.process.limits import limits

SINKS = "ticdc_dump.sinks"
"""The group of entry points (`ENTRY_POINTS` of spark_merge/port/kinds.py)."""


class _NoPandas(MetaPathFinder):
    def find_spec(self, name: str, _: Sequence[str] | None, __: ModuleType | None = None) -> ModuleSpec | None:
        if name == "pandas":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


def _settle() -> None:
    pa.set_cpu_count(limits().cpus)  # it takes the machine's, also in a container
    if entry_points(group=SINKS):
        return
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(finder)


_settle()
