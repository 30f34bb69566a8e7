"""The merge as the tasks carry it out, held equal to the slow rule; of Spark only what it does between them is left out: it brings
what is of one file together, in order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from sidecar.core.manifest import Manifest, to_json
from sidecar.core.model import CommitTs, Seq, TableName
from sidecar.storage import Folder, open_folder
from spark_merge import merge
from spark_merge.contract import CHANGES, DELIVERIES, RANK_CHUNK, RANK_KEYS, RANK_PUT, Delivered, SegmentHead
from spark_merge.job import JobSettings, deliveries_of, due_chunks
from spark_merge.merge import DueChunk, chunk_rows, key_rows
from spark_merge.read import LoggedSchemas
from spark_merge.sinks.registry import open_sink
from tests.support.deliveries import DELIVERED_ARROW, files_of
from tests.support.histories import SEGMENTS, check, random_history, write_log

ORDER = ("seq", "schema", "table", "part", "commit_ts", "rank", "ordinal")


def in_order(rows: pa.Table, random: Random) -> Iterator[pa.RecordBatch]:
    """As the job's shuffle and sort: what is equal may come in any order."""
    shuffled = rows.append_column("part", pa.repeat(pa.scalar(0, pa.int32()), rows.num_rows))
    shuffled = shuffled.take(pa.array(random.sample(range(rows.num_rows), rows.num_rows), pa.int64()))
    return iter(shuffled.sort_by([(name, "ascending") for name in ORDER]).to_batches(max_chunksize=random.choice([5, 100, 1000])))


def deliver(log: Folder, out: Folder, batch: list[Manifest], earlier: list[Manifest], random: Random) -> None:
    sink = open_sink(f"file://{out.root}", log_id="x")
    due = [chunk for manifest in batch for chunk in due_chunks(manifest)]
    pieces = pa.RecordBatch.from_pydict({"manifest": [to_json(manifest) for manifest in [*earlier, *batch]]})
    rows = pa.Table.from_batches(deliveries_of(iter([pieces]), settings=JobSettings(log), first=batch[0].seq, due=due), DELIVERIES)
    assert sink.accepted() in (None, batch[0].seq - 1)
    written = sink.writer(LoggedSchemas(log, batch[0].schemas), log)(in_order(rows, random))
    files = files_of(pa.Table.from_batches(written, DELIVERED_ARROW))
    sink.accept([SegmentHead(m.seq, m.upto_ts, ()) for m in batch], [Delivered(m.seq, tuple(files.get(m.seq, ()))) for m in batch])


@pytest.mark.parametrize("seed", range(16))
def test_every_row_of_random_windows_is_the_rules(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    monkeypatch.setattr(merge, "_KEYS_MAX", random.choice([2, 20_000]))
    history = random_history(random)
    log, out = open_folder(str(tmp_path / "log")), open_folder(str(tmp_path / "out"))
    manifests = write_log(log, history)
    size = random.choice([1, 2, SEGMENTS])
    for start in range(0, SEGMENTS, size):
        deliver(log, out, manifests[start : start + size], manifests[:start], random)
    check(history, manifests, out)


T, U = TableName("s", "t"), TableName("s", "u")


def due(path: str, low_ts: int, high_ts: int, *, table: TableName = T, number: int = 0) -> DueChunk:
    return DueChunk(table, CommitTs(low_ts), CommitTs(high_ts), Seq(3), number, "d", path)


def changed(*rows: tuple[int, str], table: TableName = T) -> pa.Table:
    """(commit_ts, key)"""
    found: list[dict[str, Any]] = [
        {
            "seq": 1,
            "commit_ts": ts,
            "rank": RANK_PUT,
            "ordinal": 0,
            "schema": table.schema,
            "table": table.table,
            "op": "insert",
            "key": key,
        }
        for ts, key in rows
    ]
    return pa.Table.from_pylist(found, CHANGES)


def keys_by_path(changes: pa.Table, chunks: list[DueChunk]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for row in (row for table in key_rows(changes, chunks) for row in table.to_pylist()):
        assert row["rank"] == RANK_KEYS
        found.setdefault(row["chunk"]["path"], []).extend(row["chunk"]["touched"])
    return found


def test_a_window_is_open_at_its_low_edge_and_closed_at_its_high_one() -> None:
    assert keys_by_path(changed((10, "low"), (11, "in"), (20, "high"), (21, "after")), [due("c", 10, 20)]) == {"c": ["in", "high"]}


def test_each_key_once_for_every_chunk_of_its_window_and_table() -> None:
    changes = pa.concat_tables([changed((11, "a"), (12, "a"), (15, "b")), changed((11, "x"), table=U)])
    chunks = [due("c1", 10, 20), due("u", 10, 20, table=U), due("c2", 10, 20, number=1), due("later", 12, 30)]
    assert keys_by_path(changes, chunks) == {"c1": ["a", "b"], "c2": ["a", "b"], "u": ["x"], "later": ["b"]}


def test_windows_that_nothing_touched_have_no_key_rows() -> None:
    assert keys_by_path(changed((5, "a")), [due("c", 10, 20)]) == {}
    assert keys_by_path(changed(), [due("c", 10, 20)]) == {}
    assert keys_by_path(changed((11, "a")), []) == {}


def test_a_chunk_comes_at_its_windows_high_edge_after_everything_else_there() -> None:
    (row,) = chunk_rows([due("c", 10, 20, number=4)]).to_pylist()
    assert (row["seq"], row["commit_ts"], row["rank"], row["ordinal"]) == (3, 20, RANK_CHUNK, 4)
    assert row["chunk"] == {"dump_id": "d", "path": "c", "touched": []}
