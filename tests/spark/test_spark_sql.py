"""Statements on Spark: rows, errors with the way out, and commits that others have overtaken, by Java's class of the error."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.sql import SparkSession

from sidecar.shared.errors import SinkError
from spark_merge.sinks.lake.steps import Outpaced
from spark_merge.worker import spark_sql
from spark_merge.worker.spark_sql import SparkSql


def test_a_session_begins_with_the_first_statement(spark: SparkSession) -> None:
    begun = list[bool]()

    def begin() -> SparkSession:
        begun.append(True)
        return spark

    sql = SparkSql(begin)
    assert not begun
    assert sql("SELECT 1 AS one, 'a' AS two") == [{"one": 1, "two": "a"}]
    assert sql("SELECT 2 AS one") == [{"one": 2}]
    assert len(begun) == 1


def test_what_spark_does_not_know_is_an_error_with_the_way_out(spark: SparkSession) -> None:
    with pytest.raises(SinkError, match="Spark does not carry out CALL `nowhere`") as error:
        SparkSql(lambda: spark)("CALL `nowhere`.system.rewrite_data_files(table => 'a')")
    assert "spark-defaults.conf" in error.value.hint
    assert "JVM stacktrace" not in error.value.message


@pytest.mark.parametrize("name", ["org.apache.spark.SparkRuntimeException", "java.lang.NumberFormatException"])
def test_a_commit_that_was_overtaken_is_known_by_the_class_of_any_cause(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    statement = "SELECT raise_error('too late')" if "Runtime" in name else "SELECT java_method('java.lang.Integer', 'parseInt', 'x')"
    sql = SparkSql(lambda: spark)
    with pytest.raises(SinkError):
        sql(statement)
    monkeypatch.setattr(spark_sql, "OVERTAKEN", frozenset({name}))
    with pytest.raises(Outpaced):
        sql(statement)


@pytest.mark.parametrize("error", [Py4JError("no answer"), Py4JNetworkError("no answer"), ConnectionRefusedError("refused")])
def test_whatever_py4j_raises_of_a_spark_that_is_gone_is_an_error_of_the_sink(error: Exception) -> None:
    """Without a JVM that is a child of this process, as under spark-submit: the end asks it too."""

    def raises(*_: Any) -> Any:
        raise error

    gone: Any = SimpleNamespace(sql=raises, stop=raises, sparkContext=SimpleNamespace(_gateway=None, _jsc=None))
    begun = list[bool]()

    def begin() -> Any:
        begun.append(True)
        return gone

    sql = SparkSql(begin)
    for count in (1, 2):
        with pytest.raises(SinkError, match="Spark has ended during SELECT 1"):
            sql("SELECT 1")
        assert len(begun) == count


def test_a_spark_that_does_not_end_is_an_error_of_the_sink() -> None:
    def refused() -> None:
        raise ConnectionRefusedError("refused")

    spark: Any = SimpleNamespace(sql=lambda _: SimpleNamespace(collect=list), stop=refused, sparkContext=SimpleNamespace(_gateway=None))
    sql = SparkSql(lambda: spark)
    assert sql("SELECT 1") == []
    with pytest.raises(SinkError, match="Spark does not end"):
        sql.close()
    sql.close()


DEATHS = """
import json
from sidecar.shared.errors import SinkError
from spark_merge.worker.session import session
from spark_merge.worker.spark_sql import SparkSql

jvms, said = [], []

def begin():
    spark = session(master="local[1]", memory="512m")
    jvms.append(spark.sparkContext._gateway.proc)
    return spark

def kill():
    jvms[-1].kill()
    jvms[-1].wait()

sql = SparkSql(begin)
for number in range(3):
    try:
        said.append(sql(f"SELECT {number} AS one")[0]["one"])
    except SinkError as error:
        said.append(error.message.partition(":")[0])
    if number != 1:
        kill()
sql.close()
print(json.dumps([said, len(jvms)]))
"""


def test_after_a_spark_that_was_killed_the_next_statement_begins_another_one() -> None:
    """And one that was killed after the last statement ends as any other."""
    done = subprocess.run([sys.executable, "-c", DEATHS], cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [[0, "Spark has ended during SELECT 1 AS one", 2], 2]
