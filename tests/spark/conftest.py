"""One Spark session for all tests of a process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from spark_merge.job import session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    found = session(master="local[2]")
    yield found
    found.stop()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """pyspark leaves the sockets of its results to the garbage collector: a warning of a third party, in these tests only."""
    for item in items:
        if "tests/spark/" in str(item.path):
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
