"""The merge as tasks carry it out, held equal to the slow rule, in every cut; of Spark only that it runs the tasks is left out."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from threading import Barrier
from typing import Any

import pyarrow as pa
import pytest

from sidecar.shared.log import rows_file
from sidecar.shared.log.manifest import Manifest
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.nouns import CommitTs, TableSchema
from spark_merge.codecs.decode.rows import decode
from spark_merge.delivery.batches import Delivery, JobSettings
from spark_merge.log import cache, segments
from spark_merge.log.segments import SegmentSource
from spark_merge.merge import cut
from spark_merge.merge.cut import BatchLimits, units
from spark_merge.merge.rule import OutputRow
from spark_merge.merge.survivors import touched
from spark_merge.merge.task import portions
from spark_merge.port.contract import CHANGES, RANK_PUT, Head, Task, Unit
from spark_merge.sinks.memory.rows import read
from spark_merge.sinks.registry import open_sink
from spark_merge.testing.histories import COLUMNS, SEGMENTS, RandomHistory, check, random_history, write_log
from spark_merge.testing.places import Here
from tests.support.eventually import PATIENCE_S


@pytest.mark.parametrize("seed", range(16))
def test_every_row_of_random_windows_is_the_rules(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    monkeypatch.setattr(segments, "ROWS_MAX", random.choice([0, 3, 200_000]))
    monkeypatch.setattr(segments, "TOGETHER_ROWS", random.choice([1, 5, 512]))
    monkeypatch.setattr(segments, "LIVE_BYTES_MAX", random.choice([500, 3_000, 64 << 20]))
    monkeypatch.setattr(segments, "HELD_ROWS_MAX", random.choice([0, 200_000]))
    monkeypatch.setattr(cache, "BYTES_MAX", random.choice([0, 5_000, 256 << 20]))
    monkeypatch.setattr(cut, "TASK_COST_MIN", random.choice([1, 30, 30_000]))
    history = random_history(random)
    log, out = open_folder(str(tmp_path / "log")), open_folder(str(tmp_path / "out"))
    manifests = write_log(log, history)
    limits = BatchLimits(segments_max=random.choice([1, 2, SEGMENTS]))
    delivery = Delivery(
        open_sink(f"file://{out.root}", log_id="x"), JobSettings(log, limits=limits), Here(at_once=random.choice([1, 2, 5]))
    )
    while delivery.deliver():
        pass
    check(history, manifests, out)


@pytest.mark.parametrize("seed", range(16))
def test_any_cut_in_any_order_and_any_number_of_times_is_the_rules(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Units in random groups, shuffled, some done twice, all again in another cut; with a cache that is shared, and without."""
    random = Random(seed)
    monkeypatch.setattr(rows_file, "ROW_GROUP_ROWS_MAX", random.choice([2, 7, 1000]))
    monkeypatch.setattr(segments, "ROWS_MAX", random.choice([0, 3, 200_000]))
    monkeypatch.setattr(segments, "TOGETHER_ROWS", random.choice([1, 5, 512]))
    monkeypatch.setattr(segments, "LIVE_BYTES_MAX", random.choice([500, 3_000, 64 << 20]))
    monkeypatch.setattr(segments, "STREAMED_ROWS", random.choice([0, 200_000]))
    monkeypatch.setattr(segments, "HELD_ROWS_MAX", random.choice([0, 200_000]))
    history, log, shared = random_history(random), open_folder(str(tmp_path)), cache.DecodedRows()
    manifests = write_log(log, history)
    heads = heads_of(history, manifests)
    source = SegmentSource(log, {head.seq: head for head in heads})
    for live_part_rows in (random.randrange(1, 12), random.choice([0, 5])):
        results = units(heads, chunk_parts=random.choice([1, 4]), live_part_rows=live_part_rows)
        left, rows = results + random.sample(results, len(results) // 3), dict[Unit, list[OutputRow]]()
        random.shuffle(left)
        while left:
            size = random.randrange(1, 6)
            group, left = dict.fromkeys(left[:size]), left[size:]
            for unit, done in rows_of(Task("0", tuple(group)), source, random.choice([None, shared])).items():
                assert rows.setdefault(unit, done) == done
        assert sorted(map(repr, (row for done in rows.values() for row in done))) == sorted(map(repr, history.merged(manifests)))


def heads_of(history: RandomHistory, manifests: list[Manifest]) -> list[Head]:
    tables = {row.table for row in history.rows} | {c.table for windows in history.windows for w in windows for c in w.chunks}
    schemas = {name: TableSchema(name, COLUMNS, ("id", "part")) for name in tables}
    return [Head(manifest, schemas, schemas) for manifest in manifests]


def rows_of(task: Task, source: SegmentSource, shared: cache.DecodedRows | None) -> dict[Unit, list[OutputRow]]:
    """Each portion's rows in `commit_ts, rank`, a chunk's after all at its high mark."""
    output_rows: dict[Unit, list[OutputRow]] = {unit: [] for unit in task.units}
    for portion in portions(task, source, shared):
        _, rows = read(iter([portion]))
        assert [row[1:3] for row in rows] == sorted(row[1:3] for row in rows)
        output_rows[portion.unit] += rows
    return output_rows


def test_two_sinks_at_once_get_from_one_cache_what_each_would_decode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And each table of each segment is decoded once."""
    history, log, shared = random_history(Random(11)), open_folder(str(tmp_path)), cache.DecodedRows()
    heads = heads_of(history, write_log(log, history))
    source, together = SegmentSource(log, {head.seq: head for head in heads}), Barrier(2)
    tasks = [Task("0", tuple(units(heads, chunk_parts=parts))) for parts in (0, 3)]
    alone = [rows_of(task, source, None) for task in tasks]
    decoded: list[int] = []

    def counted(rows: pa.Table, **options: Any) -> pa.Table:
        decoded.append(rows.num_rows)
        return decode(rows, **options)

    def sink(task: Task) -> dict[Unit, list[OutputRow]]:
        together.wait(timeout=PATIENCE_S)
        return rows_of(task, source, shared)

    monkeypatch.setattr(segments, "decode", counted)
    with ThreadPoolExecutor(2) as sinks:
        assert list(sinks.map(sink, tasks)) == alone
    assert sum(decoded) == sum(map(len, history.changes))


def changed(*rows: tuple[int, str]) -> pa.Table:
    """(commit_ts, key)"""
    names = {"seq": 1, "rank": RANK_PUT, "ordinal": 0, "schema": "s", "table": "t", "op": "insert"}
    results = [names | {"commit_ts": ts, "key": key} for ts, key in rows]
    return pa.Table.from_pylist(results, CHANGES)


def keys(changes: pa.Table) -> list[str]:
    results: list[str] = touched(changes, CommitTs(10), CommitTs(20)).to_pylist()
    return results


def test_a_window_is_open_at_its_low_edge_and_closed_at_its_high_one() -> None:
    assert keys(changed((10, "low"), (11, "in"), (20, "high"), (21, "after"))) == ["in", "high"]


def test_each_key_comes_once() -> None:
    assert keys(changed((11, "a"), (12, "a"), (15, "b"))) == ["a", "b"]


def test_a_window_that_nothing_touched_has_no_keys() -> None:
    assert keys(changed((5, "a"))) == keys(changed()) == []
