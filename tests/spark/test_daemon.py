"""The workers of a session start from our daemon."""

from __future__ import annotations

import importlib
import zipimport
from collections.abc import Iterable

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from spark_merge import daemon


def _what_a_worker_does(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    for batch in batches:
        name = zipimport.zipimporter.invalidate_caches.__name__
        importlib.invalidate_caches()
        yield pa.RecordBatch.from_pylist([{"name": name}] * batch.num_rows)


@pytest.mark.spark
def test_workers_keep_the_directories_of_zips_on_their_path(spark: SparkSession) -> None:
    found = spark.range(3).mapInArrow(_what_a_worker_does, "name string").collect()
    assert {row.name for row in found} == {daemon._keep_directory.__name__}
