"""The tests must notice: each mutation breaks one promise in a copy of the source, and the test named beside it must fail.

A mutation whose text is no longer in the source exactly once fails here, so the list cannot go stale unseen.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Mutation:
    name: str
    file: str
    old: str
    new: str
    caught_by: str


CRASH_POINTS = "tests/simulation/test_crash_points.py"
SIMULATION = "tests/simulation/test_simulation.py::test_every_life_ends_with_the_output_equal_to_the_source[0]"

MERGE = "tests/unit/test_merge.py::test_every_row_of_random_windows_is_the_rules[0]"

DDL_SCENARIO = "tests/scenarios/test_scenarios.py::test_scenario[dump_ddl]"

MUTATIONS = [
    Mutation(
        "a key-value at a DDL's commit_ts has the schema after it",
        "sidecar/feeds/kv_schemas.py",
        "physical_id, ts = int(change.table), change.commit_ts - 1",
        "physical_id, ts = int(change.table), change.commit_ts",
        "tests/unit/feeds/test_kv_feed.py::test_rows_of_an_exchanged_partition_change_tables_at_the_ddl",
    ),
    Mutation(
        "a new table's rows are never asked for",
        "sidecar/feeds/kv_schemas.py",
        "            self.wanted.setdefault(one, event.commit_ts)\n",
        "            pass\n",
        "tests/unit/feeds/test_kv_feed.py::test_a_new_tables_lane_comes_with_its_ddl_and_holds_r_there",
    ),
    Mutation(
        "a chunk read with the columns before a DDL stays in its window",
        "sidecar/core/dump.py",
        "        self._windows.drop(before)\n",
        "",
        DDL_SCENARIO,
    ),
    Mutation(
        "a chunk that is under way when a DDL passes counts",
        "sidecar/core/dump.py",
        "                reader.work = None\n        self._plan.change(mine)",
        "                pass\n        self._plan.change(mine)",
        DDL_SCENARIO,
    ),
    Mutation(
        "the log does not say what the tables are after a DDL",
        "sidecar/pipeline.py",
        "                next_schemas=next_schemas,\n",
        "",
        "tests/unit/test_pipeline.py::test_whoever_takes_over_after_a_ddl_has_the_tables_after_it_from_the_log",
    ),
    Mutation(
        "a table whose rows were exchanged goes on from its cursor",
        "sidecar/core/schema_step.py",
        "return _key_of(old) == _key_of(new) and (ids == ids_now or added_or_dropped)",
        "return _key_of(old) == _key_of(new)",
        "tests/unit/core/test_schema_step.py::test_by_id_where_the_source_tells_ids",
    ),
    Mutation(
        "Spark merges on new-image keys only",
        "spark_merge/merge.py",
        "is_table = pc.and_(",
        'is_table = pc.and_(pc.not_equal(changes["op"], "delete"), ',
        MERGE,
    ),
    Mutation(
        "Spark's window from low_ts on, not after it",
        "spark_merge/merge.py",
        'pc.greater(rows["commit_ts"], low_ts)',
        'pc.greater_equal(rows["commit_ts"], low_ts)',
        MERGE,
    ),
    Mutation(
        "Spark's window without the high edge",
        "spark_merge/merge.py",
        'pc.less_equal(rows["commit_ts"], high_ts)',
        'pc.greater(rows["commit_ts"], low_ts)',
        MERGE,
    ),
    Mutation(
        "Spark puts survivors before the window's changes",
        "spark_merge/merge.py",
        '"commit_ts": [chunk.high_ts for chunk in due]',
        '"commit_ts": [chunk.low_ts for chunk in due]',
        MERGE,
    ),
    Mutation(
        "a window that began in an earlier segment has this segment's keys only",
        "spark_merge/job.py",
        "if chunk.low_ts < manifest.upto_ts and chunk.high_ts > manifest.after_ts",
        "if chunk.seq == manifest.seq",
        MERGE,
    ),
    Mutation(
        "merge on new-image keys only",
        "spark_merge/rule.py",
        "if c.table == chunk.table and",
        'if c.op != "delete" and c.table == chunk.table and',
        "tests/unit/test_rule.py::test_a_delete_inside_the_window_drops_the_row_by_its_old_image",
    ),
    Mutation(
        "merge on new-image keys only, in the life of a cluster",
        "spark_merge/rule.py",
        "if c.table == chunk.table and",
        'if c.op != "delete" and c.table == chunk.table and',
        SIMULATION,
    ),
    Mutation(
        "window from low_ts on, not after it",
        "spark_merge/rule.py",
        "window.low_ts < c.commit_ts",
        "window.low_ts <= c.commit_ts",
        "tests/unit/test_rule.py::test_a_change_at_low_ts_is_outside_the_window",
    ),
    Mutation(
        "window without the high edge",
        "spark_merge/rule.py",
        " <= window.high_ts}",
        "}",
        "tests/unit/test_rule.py::test_a_change_after_high_ts_is_outside_the_window_and_comes_after_the_row",
    ),
    Mutation(
        "survivors before the window's changes",
        "spark_merge/rule.py",
        "OutputRow(manifest.seq, window.high_ts, RANK_CHUNK",
        "OutputRow(manifest.seq, window.low_ts, RANK_CHUNK",
        "tests/unit/test_rule.py::test_survivors_come_after_every_change_of_the_window",
    ),
    Mutation(
        "release at R, not below it",
        "sidecar/core/sequence.py",
        "min(self.resolved[lane] for lane in lanes) - 1",
        "min(self.resolved[lane] for lane in lanes)",
        "tests/unit/core/test_sequence.py::test_releases_strictly_below_resolved",
    ),
    Mutation(
        "the fastest lane decides, not the slowest",
        "sidecar/core/sequence.py",
        "min(self.resolved[lane] for lane in lanes)",
        "max(self.resolved[lane] for lane in lanes)",
        SIMULATION,
    ),
    Mutation(
        "no check for repeats",
        "sidecar/core/sequence.py",
        "if envelope[0] > after_ts:",
        "if envelope[0] > 0:",
        SIMULATION,
    ),
    Mutation(
        "a lane counts before it has joined",
        "sidecar/core/sequence.py",
        "if not lanes or any(lane not in self.resolved for lane in lanes):",
        "lanes = [lane for lane in lanes if lane in self.resolved]\n        if not lanes:",
        SIMULATION,
    ),
    Mutation(
        "progress saved before the manifest",
        "sidecar/pipeline.py",
        "        outside.log.commit(\n",
        "        self._save_progress()\n        outside.log.commit(\n",
        CRASH_POINTS,
    ),
    Mutation(
        "a mark accepted without its uuid",
        "sidecar/core/marks.py",
        "number = self.number_of(mark.uuid)",
        "number = self.seen if self.seen < self.sent else None",
        SIMULATION,
    ),
    Mutation(
        "positions of what was read last, not of the oldest held",
        "sidecar/core/sequence.py",
        "if envelope.commit_ts > upto_ts and envelope.position < oldest[envelope.lane]:",
        "if False:",
        SIMULATION,
    ),
]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_the_mutation_is_caught(mutation: Mutation, tmp_path: Path) -> None:
    for folder in ("sidecar", "spark_merge", "tests"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__", "recordings"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    source = tmp_path / mutation.file
    text = source.read_text()
    assert text.count(mutation.old) == 1, f"{mutation.file} must hold this text exactly once: {mutation.old}"
    source.write_text(text.replace(mutation.old, mutation.new))
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", mutation.caught_by]
    found = subprocess.run(
        command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert found.returncode == 1, f"{mutation.caught_by} did not fail:\n{found.stdout[-2000:]}{found.stderr[-500:]}"
