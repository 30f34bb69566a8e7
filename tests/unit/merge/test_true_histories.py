"""The logs of the suite of dumps have what it is for: else it holds nothing."""

from __future__ import annotations

from collections import defaultdict
from random import Random

import pytest

from spark_merge.testing import histories
from spark_merge.testing.dumps_port import PASSES, SEEDS
from spark_merge.testing.story import TABLES
from spark_merge.testing.true_histories import MINE, OTHER, true_history


@pytest.mark.parametrize("seed", SEEDS)
def test_each_log_of_the_suite_has_dumps_of_every_kind(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(histories, "TABLES", TABLES)
    history = true_history(Random(seed), passes=PASSES)
    windows = [(seq, window) for seq, results in enumerate(history.windows) for window in results]
    assert {sinks for _, window in windows for sinks in window.sinks} == {MINE, OTHER}
    mine = [(seq, window, window.chunks[0]) for seq, window in windows if OTHER not in window.sinks]
    assert sum(chunk.absent for _, _, chunk in mine) > 8, "keys that the source does not have"
    assert all(len(history.absent[chunk.path]) == chunk.absent for _, _, chunk in mine)
    dumps, firsts = defaultdict[tuple[int, str], set[str]](set), dict[str, int]()
    for seq, window, chunk in mine:
        dumps[seq, chunk.table.table].add(window.dump_id)
        firsts.setdefault(chunk.table.table, chunk.absent)
    assert any(len(results) > 1 for results in dumps.values()), "two dumps of a table in one segment"
    assert any(firsts.values()), "a table whose first chunk deletes"
    updates = [row.before for row in history.rows if row.op == "update"]
    assert any(before is not None and before[2] == "gone" for before in updates), "a row that comes as an UPDATE of one that no output has"
    marks = [(window.chunks[0].table, window.high_ts) for _, window in windows]
    assert len(set(marks)) == len(marks), "each mark is a transaction of its own"
