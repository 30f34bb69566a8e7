"""Statements on Spark: rows, errors with the way out, and commits that others have overtaken, by Java's class of the error."""

from __future__ import annotations

import pytest
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
