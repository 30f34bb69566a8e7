"""The workers of a session start from our daemon."""

from __future__ import annotations

import importlib
import zipimport

import pytest
from pyspark.sql import SparkSession

from spark_merge.worker import daemon


def _what_a_worker_does(_: int) -> str:
    name = zipimport.zipimporter.invalidate_caches.__name__
    importlib.invalidate_caches()
    return name


@pytest.mark.spark
def test_workers_keep_the_directories_of_zips_on_their_path(spark: SparkSession) -> None:
    results = spark.sparkContext.parallelize(range(3), 3).map(_what_a_worker_does).collect()
    assert set(results) == {daemon._keep_directory.__name__}
