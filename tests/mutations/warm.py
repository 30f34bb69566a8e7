"""A process that has the libraries loaded and nothing of ours: each mutation is lived through in a fork of it.

    a line in   {"place", "old", "new", "test"}     as of a Mutation
    a line out  {"code", "output"}                 pytest's exit code and the end of what it printed

A fork loads the mutated module from the changed text and all others from disk: no copy of the source, and nothing that the mutation did
outlives its fork. The process must have one Python thread: so it loads no gRPC, which forks badly, and a test worker starts it as a new
program instead of forking.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import Any, Self

from tests.choice.selected import VARIABLE
from tests.mutations.mutation import mutated

ROOT = Path(__file__).parents[2]
LIBRARIES = (
    "pytest",
    "_hypothesis_pytestplugin",
    "hypothesis",
    "anyio.pytest_plugin",
    "pytest_instafail",
    "pytest_timeout",
    "xdist.looponfail",
    "xdist.plugin",
    "pyarrow.compute",
    "pyarrow.parquet",
    "pyspark.sql",
    "cramjam",
    "msgspec",
    "moto.server",
    "s3fs",
    "confluent_kafka.admin",
    "cryptography.x509",
    "pymysql",
    "urllib3",
    "structlog",
    "starlette.applications",
    "uvicorn",
    "jinja2",
    "clickhouse_connect.driver.client",
    "google.protobuf.internal.builder",
    "opensearchpy",
    "polars",
    "pydantic",
    "pyiceberg.catalog.rest",
    "re2",
    "stamina",
    "typer",
)
"""The libraries that take pytest, the named tests and their conftest the longest to load."""
OPTIONS = ("-x", "-p", "no:cacheprovider", "--timeout=600", "-W", "ignore::pytest.PytestAssertRewriteWarning")
"""A test that hangs fails before the test that waits for it (900 s, pyproject.toml): otherwise the next mutation waits for its end. The
warning is of plugins that are loaded already."""
OUTPUT_CHARS_MAX = 3000


class Warm:
    """The process, seen from a test."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            cwd=ROOT,
            env={name: text for name, text in os.environ.items() if name != VARIABLE},  # its tests are named: nothing chooses among them
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.communicate()  # its input ends, and so does it

    def run(self, *, place: str, old: str, new: str, test: str) -> tuple[int, str]:
        """pytest's exit code for `test` with `old` replaced in `place`, and the end of what it printed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"place": place, "old": old, "new": new, "test": test}) + "\n")
        answer = json.loads(self._process.stdout.readline())
        return answer["code"], answer["output"]


class _Mutated(SourceFileLoader):
    """Loads a module from other text than its file holds; bytecode is neither read nor written."""

    def __init__(self, place: str, old: str, new: str) -> None:
        file = place.partition("::")[0]
        super().__init__(file.removesuffix(".py").replace("/", "."), str(ROOT / file))
        self._text = mutated(Path(self.path).read_text(), place, old, new)

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self._text.encode(), self.path)


class _Finder(MetaPathFinder):
    """Finds this one module, and leaves all others to the finders after it."""

    def __init__(self, loader: _Mutated) -> None:
        self._loader = loader

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        return spec_from_file_location(fullname, self._loader.path, loader=self._loader) if fullname == self._loader.name else None


def _in_a_fork(requested: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryFile() as said:
        child = os.fork()
        if child == 0:
            _live(requested, said.fileno())
        _, status = os.waitpid(child, 0)
        said.seek(0)
        return {"code": os.waitstatus_to_exitcode(status), "output": said.read().decode(errors="replace")[-OUTPUT_CHARS_MAX:]}


def _live(requested: dict[str, Any], said: int) -> None:
    """Does not return: what pytest leaves behind goes with the process."""
    code = -1
    os.environ["TICDC_DUMP_PATIENCE_S"] = "60"
    try:
        os.dup2(said, 1)
        os.dup2(said, 2)
        sys.meta_path.insert(0, _Finder(_Mutated(requested["place"], requested["old"], requested["new"])))
        pytest: Any = importlib.import_module("pytest")
        code = int(pytest.main([*OPTIONS, requested["test"]]))
    except BaseException:  # noqa: BLE001 - printed, and the process ends
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    for library in LIBRARIES:
        importlib.import_module(library)
    gc.collect()
    gc.freeze()  # the garbage collector of a fork skips the libraries; pytest runs it twice
    for line in sys.stdin:
        print(json.dumps(_in_a_fork(json.loads(line))), flush=True)  # noqa: T201 - the answer
