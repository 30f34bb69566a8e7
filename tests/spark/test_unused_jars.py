"""Spark without the jars that an image removes (deploy/docker/unused_jars.py): a session, a dump whose batches all run on it, and
Iceberg's procedures as `ticdc-dump maintain` calls them.

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
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pyspark
import pytest

from sidecar.shared.model.nouns import TableName
from spark_merge.port.maintained import Upkeep
from spark_merge.sinks.lake.maintenance import SNAPSHOTS_KEPT
from spark_merge.sinks.registry import maintained_of
from tests.support.recordings import recording
from tests.support.services.iceberg_spark import POM
from tests.support.services.jars import jars

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


PROCEDURES = """
import json, sys
from contextlib import closing
from functools import partial
from spark_merge.worker.session import session
from spark_merge.worker.spark_sql import SparkSql

with closing(SparkSql(partial(session, master="local[1]", memory="1g"))) as sql:
    print(json.dumps([sql(statement) for statement in json.load(sys.stdin)]))
"""


def maintenance() -> list[str]:
    """What a run says of a merged table to Spark; each snapshot is older than an hour from now."""
    said = list[str]()

    def sql(statement: str) -> Sequence[Mapping[str, Any]]:
        said.append(statement)
        return ()

    lake = maintained_of("iceberg://prod/lake?mode=merge")
    assert lake is not None
    for act in (lake.compact, lake.expire):
        act(TableName("shop", "orders"), Upkeep(1 << 20, 2, -1), sql)
    return said


def test_iceberg_maintains_a_table_on_spark_without_them(unused_jars: ModuleType, tmp_path: Path) -> None:
    """Files of rows and of deletes are compacted, and more snapshots are old than stay."""
    without_unused(tmp_path / "spark", unused_jars.unused(SPARK / "jars"))
    (tmp_path / "conf").mkdir()
    settings = {
        "spark.jars": ",".join(map(str, sorted(jars(POM).glob("*.jar")))),
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.prod": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.prod.type": "hadoop",
        "spark.sql.catalog.prod.warehouse": str(tmp_path / "lake"),
    }
    (tmp_path / "conf" / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    table = "prod.lake.shop.orders"
    statements = [
        f"CREATE TABLE {table} (id bigint, v string) USING iceberg TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')",
        *(f"INSERT INTO {table} SELECT id, 'v' FROM range({number}, {number + 2}, 1, 1)" for number in range(0, 2 * SNAPSHOTS_KEPT, 2)),
        f"DELETE FROM {table} WHERE id = 1",
        *maintenance(),
        f"SELECT count(*) AS rows FROM {table}",
    ]
    environment = {**os.environ, "SPARK_HOME": str(tmp_path / "spark"), "SPARK_CONF_DIR": str(tmp_path / "conf")}
    done = subprocess.run(
        [sys.executable, "-c", PROCEDURES],
        cwd=ROOT,
        env=environment,
        input=json.dumps(statements),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    *_, (compacted,), (expired,), (left,) = json.loads(done.stdout)
    assert compacted["rewritten_data_files_count"] == SNAPSHOTS_KEPT
    assert expired["deleted_manifest_lists_count"] > 0
    assert left["rows"] == 2 * SNAPSHOTS_KEPT - 1


def test_each_pattern_names_jars_of_this_spark_and_none_of_what_reaches_a_cluster(unused_jars: ModuleType) -> None:
    names = {path.name for path in unused_jars.unused(SPARK / "jars")}
    for kept in ("spark-core", "spark-sql", "spark-kubernetes", "kubernetes-", "spark-yarn", "hadoop-client", "netty-transport", "tink"):
        assert not [name for name in names if name.startswith(kept) and "-osx" not in name and "-windows" not in name], kept


def test_a_pattern_without_a_jar_is_an_error(unused_jars: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="compare the list"):
        unused_jars.unused(tmp_path)
