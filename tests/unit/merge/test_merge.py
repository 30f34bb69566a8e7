"""The merge as tasks carry it out, held equal to the slow rule, in every cut; of Spark only that it runs the tasks is left out."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from sidecar.core.model import CommitTs
from sidecar.log.storage import open_folder
from spark_merge import cache, cut, segments
from spark_merge.contract import CHANGES, RANK_PUT
from spark_merge.cut import BatchLimits
from spark_merge.delivery import Delivery, JobSettings
from spark_merge.merge import touched
from spark_merge.sinks.registry import open_sink
from tests.support.histories import SEGMENTS, check, random_history, write_log
from tests.support.sinks import Here


@pytest.mark.parametrize("seed", range(16))
def test_every_row_of_random_windows_is_the_rules(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    monkeypatch.setattr(segments, "ROWS_MAX", random.choice([0, 3, 200_000]))
    monkeypatch.setattr(segments, "HELD_ROWS_MAX", random.choice([0, 200_000]))
    monkeypatch.setattr(cache, "BYTES_MAX", random.choice([0, 5_000, 256 << 20]))
    monkeypatch.setattr(cut, "TASK_COST_MIN", random.choice([1, 30, 30_000]))
    history = random_history(random)
    log, out = open_folder(str(tmp_path / "log")), open_folder(str(tmp_path / "out"))
    manifests = write_log(log, history)
    limits = BatchLimits(segments_max=random.choice([1, 2, SEGMENTS]))
    delivery = Delivery(open_sink(f"file://{out.root}", log_id="x"), JobSettings(log, limits=limits), Here(cores=random.choice([1, 2, 5])))
    while delivery.deliver():
        pass
    check(history, manifests, out)


def changed(*rows: tuple[int, str]) -> pa.Table:
    """(commit_ts, key)"""
    names = {"seq": 1, "rank": RANK_PUT, "ordinal": 0, "schema": "s", "table": "t", "op": "insert"}
    found = [names | {"commit_ts": ts, "key": key} for ts, key in rows]
    return pa.Table.from_pylist(found, CHANGES)


def keys(changes: pa.Table) -> list[str]:
    found: list[str] = touched(changes, CommitTs(10), CommitTs(20)).to_pylist()
    return found


def test_a_window_is_open_at_its_low_edge_and_closed_at_its_high_one() -> None:
    assert keys(changed((10, "low"), (11, "in"), (20, "high"), (21, "after"))) == ["in", "high"]


def test_each_key_comes_once() -> None:
    assert keys(changed((11, "a"), (12, "a"), (15, "b"))) == ["a", "b"]


def test_a_window_that_nothing_touched_has_no_keys() -> None:
    assert keys(changed((5, "a"))) == keys(changed()) == []
