"""How live rows become parts, and windows tasks, by the manifests alone."""

from __future__ import annotations

import pytest

from sidecar.shared.log.manifest import Manifest
from sidecar.shared.model.chunk import ChunkFile, ClosedWindow
from sidecar.shared.model.nouns import CommitTs, Seq, TableName
from spark_merge.merge import cut
from spark_merge.merge.cut import BatchLimits, spread, stages, units
from spark_merge.port.contract import Head

T, HOT = TableName("s", "t"), TableName("s", "hot")


def head(seq: int, rows: dict[TableName, int] | None, *, total: int = 0, chunks: int = 0, first_seq: int = 0) -> Head:
    """With one window of `chunks` chunks of T, 10,000 rows each."""
    files = tuple(ChunkFile(T, f"c{number}", 10_000, 1, None, None) for number in range(chunks))
    windows = (ClosedWindow("d", CommitTs(100 * first_seq), CommitTs(100 * seq + 100), Seq(first_seq), files),) if chunks else ()
    count = total or sum((rows or {}).values())
    manifest = Manifest(
        Seq(seq), 1, CommitTs(100 * seq), CommitTs(100 * seq + 100), "d", count, 1, {}, "s", "c", (), windows, table_rows=rows
    )
    return Head(manifest, {}, {})


@pytest.mark.parametrize("rows", [1, 9, 10, 11, 100, 101])
def test_live_rows_are_cut_into_even_parts_that_hold_each_once(rows: int) -> None:
    results = units([head(0, {T: rows}, chunks=3)], chunk_parts=4, live_part_rows=10)
    live = [unit for unit in results if unit.live]
    assert [ordinal for unit in live for ordinal in (unit.within or range(rows))] == list(range(rows))
    assert max(len(unit.within or range(rows)) for unit in live) <= 10
    assert live[0].part == 0
    assert len({unit.part for unit in results}) == len(results), "names of their own, beside the chunks' parts"


def test_a_sink_in_commit_order_has_a_segment_in_one_unit() -> None:
    (unit,) = units([head(0, {T: 1_000_000}, chunks=3)], chunk_parts=0)
    assert (unit.within, len(unit.chunks)) == (None, 3)


def test_a_segment_with_nothing_but_marks_has_no_live_unit() -> None:
    assert units([head(0, {}, total=5)], chunk_parts=4) == []
    assert len(units([head(0, None, total=5)], chunk_parts=4)) == 1, "one that does not say is opened"


def sizes(heads: list[Head], *, cores: int) -> list[int]:
    """Chunks a task."""
    groups = spread([unit for unit in units(heads, chunk_parts=16) if not unit.live], heads, cores=cores)
    return [sum(len(unit.chunks) for unit in group) for group in groups]


def test_a_window_is_split_over_idle_cores_where_its_keys_cost_little() -> None:
    assert sizes([head(0, {T: 10, HOT: 10_000_000}, chunks=16)], cores=4) == [3, 3, 3, 3, 3, 1]


def test_a_window_is_not_split_where_its_keys_cost_more_than_its_chunks() -> None:
    assert sizes([head(0, {T: 100_000}, chunks=16)], cores=4) == [16]


def test_the_keys_of_segments_before_the_batch_count_too() -> None:
    assert sizes([head(5, {T: 10_000}, chunks=16, first_seq=4)], cores=4) == [6, 6, 4]
    assert sizes([head(5, {T: 10_000}, chunks=16, first_seq=0)], cores=4) == [16]


def test_windows_go_to_several_tasks_each_whole() -> None:
    heads = [head(seq, {T: 20_000}, chunks=4, first_seq=seq) for seq in range(8)]
    assert sizes(heads, cores=4) == [4] * 8


def test_a_log_that_does_not_say_which_tables_have_rows_is_taken_at_its_worst() -> None:
    assert sizes([head(0, None, total=100_000, chunks=16)], cores=4) == [16]


def test_few_rows_are_one_task() -> None:
    results = units([head(seq, {T: 10}) for seq in range(50)], chunk_parts=4)
    assert len(spread(results, [head(seq, {T: 10}) for seq in range(50)], cores=8)) == 1
    assert cut.TASK_COST_MIN > 50 * 10 * cut.LIVE_ROW_COST


def test_stages_are_live_rows_up_to_a_high_mark_its_chunks_and_what_comes_after() -> None:
    """A high mark at the segment's end leaves a unit behind it, for what tells that the segment is whole."""
    heads = [head(0, {T: 1}), head(1, {T: 1}), head(2, {T: 5}, chunks=3), head(3, {}, chunks=1), head(4, {T: 1})]
    tasks = stages(heads, chunk_parts=2)
    assert [[task.id for task in stage] for stage in tasks] == [
        ["live-0-0"], ["dump-2-1", "dump-2-2"], ["live-2-3"], ["dump-3-0"], ["live-3-2"],
    ]  # fmt: skip
    assert [(unit.seq, unit.between) for unit in tasks[0][0].units] == [(0, None), (1, None), (2, (200, 300))]
    assert [len(task.units[0].chunks) for task in tasks[1]] == [2, 1]
    assert [(unit.seq, unit.between) for unit in tasks[2][0].units] == [(2, (300, 300))]
    assert [(unit.seq, unit.between) for unit in tasks[4][0].units] == [(3, (400, 400)), (4, None)]
    places = [(unit.seq, unit.part) for stage in tasks for task in stage for unit in task.units]
    assert len(set(places)) == len(places)
    assert stages(heads, chunk_parts=2) == tasks


def test_few_rows_of_chunks_are_among_the_live_rows_of_their_segment() -> None:
    heads = [head(0, {T: 1}), head(1, {T: 5}, chunks=1), head(2, {}, chunks=2), head(3, {T: 1})]
    tasks = stages(heads, chunk_parts=2, few_rows=10_000)
    assert [[task.id for task in stage] for stage in tasks] == [["live-0-0"], ["dump-2-0", "dump-2-1"], ["live-2-2"]]
    assert [(unit.seq, unit.live, len(unit.chunks)) for unit in tasks[0][0].units] == [(0, True, 0), (1, True, 1)]


def test_a_batch_has_a_bounded_number_of_tables_with_rows() -> None:
    """So many files, of a sink with a file for each."""
    three = [head(seq, {T: 1, HOT: 1}, chunks=seq % 2).manifest for seq in range(6)]
    assert [manifest.seq for manifest in cut.cut(three, BatchLimits(tables_max=7))] == [0, 1, 2]
    assert [manifest.seq for manifest in cut.cut(three, BatchLimits(tables_max=6))] == [0, 1]
    assert [manifest.seq for manifest in cut.cut(three, BatchLimits(tables_max=1))] == [0], "a segment is a batch at least"
    assert len(cut.cut(three, BatchLimits())) == 6
