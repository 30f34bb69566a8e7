"""pyarrow without pandas: imported first by each process that stays.

Where pandas is installed, pyarrow loads it with its first array, in order to take its objects: 1.1 s of CPU and 50 MB in each process, and
nothing here has such objects. What asks for pandas itself (`to_pandas` in a sink of somebody's own) loads it then. Source: pyarrow's
pandas-shim.pxi, `_check_import`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

import pyarrow as pa


class _NoPandas(MetaPathFinder):
    def find_spec(self, name: str, _: Sequence[str] | None, __: ModuleType | None = None) -> ModuleSpec | None:
        if name == "pandas":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


def _settle() -> None:
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(finder)


_settle()
