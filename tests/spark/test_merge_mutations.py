"""The tests must notice, as in tests/mutations: each mutation of Spark's merge makes it differ from the slow rule."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
from pyspark.sql import SparkSession

from spark_merge import job, merge
from tests.spark.test_merge_is_the_rule import test_every_row_of_random_windows_is_the_rules as held_against_the_rule

SOURCE = Path(merge.__file__)

MUTATIONS = {
    "merges on new-image keys only": (
        'changes.select("schema", "table", "commit_ts", "key")',
        'changes.where(F.col("op") != "delete").select("schema", "table", "commit_ts", "key")',
    ),
    "a window from low_ts on, not after it": ('F.col("commit_ts") > F.col("low_ts")', 'F.col("commit_ts") >= F.col("low_ts")'),
    "a window without the high edge": (' & (F.col("commit_ts") <= F.col("high_ts"))', ""),
    "survivors before the window's changes": ('F.col("high_ts").alias("commit_ts")', 'F.col("low_ts").alias("commit_ts")'),
}


def module_of(text: str) -> ModuleType:
    module = ModuleType(merge.__name__)
    exec(compile(text, str(SOURCE), "exec"), module.__dict__)
    return module


@pytest.mark.spark
@pytest.mark.parametrize("name", MUTATIONS)
def test_the_mutation_is_caught(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    old, new = MUTATIONS[name]
    text = SOURCE.read_text()
    assert text.count(old) == 1, f"{SOURCE} must hold this text exactly once: {old}"
    mutated = module_of(text.replace(old, new))
    monkeypatch.setattr(job, "dumped", mutated.dumped)
    monkeypatch.setattr(job, "live", mutated.live)
    with pytest.raises(AssertionError, match=r"seed 0, s\.t"):
        held_against_the_rule(spark, tmp_path, 0)


@pytest.mark.spark
def test_the_source_as_it_is_is_not_caught(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    same = module_of(SOURCE.read_text())
    monkeypatch.setattr(job, "dumped", same.dumped)
    monkeypatch.setattr(job, "live", same.live)
    held_against_the_rule(spark, tmp_path, 0)
