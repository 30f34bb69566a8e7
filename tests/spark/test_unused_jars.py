"""Spark without the jars that an image removes (deploy/docker/unused_jars.py): a session, and a dump whose batches all run on it.

By hand, whole suites without them: SPARK_HOME=FOLDER, made as `without_unused` makes it, for tests/spark/test_cluster.py (a standalone
cluster, its encryption, lakes) and tests/spark/test_reads_on_spark.py (S3, chunks read by executors, deaths).
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pyspark
import pytest

from tests.support.recordings import recording

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]
SPARK = Path(pyspark.__file__).parent


@pytest.fixture(scope="module")
def unused_jars() -> ModuleType:
    spec = importlib.util.spec_from_file_location("unused_jars", ROOT / "deploy" / "docker" / "unused_jars.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def without_unused(home: Path, unused: set[Path]) -> None:
    """A Spark of links, but for `unused`."""
    (home / "jars").mkdir(parents=True)
    for path in (*(path for path in SPARK.iterdir() if path.name != "jars"), *(SPARK / "jars").iterdir()):
        if path not in unused:
            (home / path.relative_to(SPARK)).symlink_to(path)


def test_a_dump_is_merged_on_spark_without_them_and_equals_the_truth(unused_jars: ModuleType, tmp_path: Path) -> None:
    unused: set[Path] = unused_jars.unused(SPARK / "jars")
    without_unused(tmp_path / "spark", unused)
    environment = {**os.environ, "SPARK_HOME": str(tmp_path / "spark"), "JAVA_TOOL_OPTIONS": f"-Xlog:class+load:file={tmp_path}/loaded-%p"}
    arguments = ["--brackets", "watermark", "--worker-rows", "0", "--out", str(tmp_path / "out"), "--json"]
    command = [sys.executable, "-m", "sidecar", "replay", str(recording("demo")), *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["ok"]
    loaded = {name for path in tmp_path.glob("loaded-*") for name in re.findall(r"/jars/([^/\s]+\.jar)", path.read_text())}
    assert any(name.startswith("spark-core") for name in loaded)
    assert not loaded & {path.name for path in unused}, "with them there, Spark looks at some: mllib's and Hive's"


def test_each_pattern_names_jars_of_this_spark_and_none_of_what_reaches_a_cluster(unused_jars: ModuleType) -> None:
    names = {path.name for path in unused_jars.unused(SPARK / "jars")}
    for kept in ("spark-core", "spark-sql", "spark-kubernetes", "kubernetes-", "spark-yarn", "hadoop-client", "netty-transport", "tink"):
        assert not [name for name in names if name.startswith(kept) and "-osx" not in name and "-windows" not in name], kept


def test_a_pattern_without_a_jar_is_an_error(unused_jars: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="compare the list"):
        unused_jars.unused(tmp_path)
