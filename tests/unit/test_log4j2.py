"""Spark's settings of its log are a file that operators name in settings of their clusters, so it stays where it is."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from spark_merge.worker.session import LOG4J


def test_spark_is_given_a_file_that_is_there() -> None:
    file = files("spark_merge") / "log4j2.properties"
    assert file.is_file()
    assert Path(str(file)).as_uri() == LOG4J
