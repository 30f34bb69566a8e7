"""One Spark session for all tests of a process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from sidecar.shared.log.storage import open_folder
from spark_merge.worker.session import session

S3_KEYS = "access-key=k&secret-access-key=s"
"""Of the tests' S3, as parameters of a URI."""


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    open_folder(f"s3://any?{S3_KEYS}")  # Spark's workers have the secrets of URIs that were read before they were started
    result = session(master="local[2]")
    yield result
    result.stop()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """pyspark leaves the sockets of its results to the garbage collector: a warning of a third party, in these tests only."""
    for item in items:
        if "tests/spark/" in str(item.path):
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
