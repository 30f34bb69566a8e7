"""Spark as a reader of Iceberg tables, with Iceberg's own runtime, in a process of its own: the tests' Spark has no such jar.

    with IcebergSpark({"prod": catalog.uri}, folder) as spark:
        spark.rows("SELECT * FROM prod.lake.shop.orders VERSION AS OF 1")

Its time zone is UTC. Nothing of a table is kept between two statements.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
from pyspark.sql import SparkSession

from tests.support.services.jars import jars
from tests.support.services.java import QUICK_JAVA

POM = Path(__file__).with_name("iceberg-spark-pom.xml")
ANSWER_S_MAX = 600.0
MEMORY = "900m"
LOG = "spark.log"


class IcebergSpark:
    """`catalogs`: REST catalogs' URIs by the names that they have in SQL. `folder`: what Spark itself leaves. `more`: settings."""

    def __init__(self, catalogs: Mapping[str, str], folder: Path, more: Mapping[str, str] | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._catalogs, self._folder, self._more = dict(catalogs), folder, dict(more or {})
        self._process: Any = None
        self._to: Connection | None = None

    def __enter__(self) -> Self:
        settings = _settings(self._catalogs, self._folder, jars(POM)) | self._more
        context = multiprocessing.get_context("spawn")
        self._to, own = context.Pipe()
        self._process = context.Process(target=_serve, args=(own, settings, str(self._folder)), daemon=True)
        self._process.start()
        own.close()
        self.arrow("SELECT 1")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self._to is not None
        self._to.close()
        self._process.join(ANSWER_S_MAX)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
            raise RuntimeError("the Spark that reads Iceberg does not end")

    def arrow(self, statement: str) -> pa.Table:
        """Raises RuntimeError with what Spark says."""
        assert self._to is not None
        self._to.send(statement)
        if not self._to.poll(ANSWER_S_MAX):
            raise RuntimeError(f"Spark does not answer within {ANSWER_S_MAX:.0f} s: {statement}")
        try:
            result: bytes | str = self._to.recv()
        except EOFError as error:
            raise RuntimeError(f"Spark has ended: {(self._folder / LOG).read_text(errors='replace')[-4000:]}") from error
        if isinstance(result, str):
            raise RuntimeError(f"{statement}: {result}")
        return pa.ipc.open_stream(result).read_all()

    def rows(self, statement: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.arrow(statement).to_pylist()
        return rows


def _settings(catalogs: Mapping[str, str], folder: Path, home: Path) -> dict[str, str]:
    settings = {
        "spark.jars": ",".join(map(str, sorted(home.glob("*.jar")))),
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": f"{folder}/spark",
        "spark.ui.enabled": "false",
        "spark.driver.memory": MEMORY,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"{' '.join(QUICK_JAVA)} -Duser.timezone=UTC -Dderby.system.home={folder}",
    }
    for name, uri in catalogs.items():
        catalog = f"spark.sql.catalog.{name}"
        settings |= {catalog: "org.apache.iceberg.spark.SparkCatalog", f"{catalog}.type": "rest", f"{catalog}.uri": uri}
        settings[f"{catalog}.cache-enabled"] = "false"
    return settings


def _serve(requested: Connection, settings: Mapping[str, str], folder: str) -> None:
    """A statement in, its rows as an Arrow stream out; or a text, what it failed of."""
    os.chdir(folder)
    with Path(LOG).open("ab") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    os.environ["TZ"] = "UTC"
    os.environ.pop("SPARK_CONF_DIR", None)
    spark = SparkSession.builder.master("local[2]").appName("reader").config(map=dict(settings)).getOrCreate()
    try:
        while True:
            try:
                statement = requested.recv()
            except EOFError:
                return
            try:
                requested.send(_stream(spark.sql(statement).toArrow()))
            except Exception as error:  # noqa: BLE001 - the test that requested it gets it
                requested.send(f"{type(error).__name__}: {error}")
    finally:
        spark.stop()


def _stream(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as to:
        to.write_table(rows)
    stream: bytes = sink.getvalue().to_pybytes()
    return stream
