"""The merge rule by hand: one window, one chunk, changes on and around its edges."""

from __future__ import annotations

from collections.abc import Iterable

from sidecar.shared.log.manifest import Manifest
from sidecar.shared.model.chunk import ChunkFile, ClosedWindow
from sidecar.shared.model.nouns import CommitTs, Seq, TableName
from spark_merge.merge.rule import Image, OutputRow, merged
from spark_merge.port.contract import RANK_DELETE, RANK_PUT

T = TableName("s", "t")
LOW, HIGH = 100, 200
CHUNK_KEYS = ("a", "b", "c")


def change(ts: int, key: str, op: str = "update", *, seq: int = 1, ordinal: int = 0, table: TableName = T) -> OutputRow:
    image: Image = (key, f"live{ts}")
    rank = RANK_DELETE if op == "delete" else RANK_PUT
    return OutputRow(seq, ts, rank, ordinal, table, op, (key,), image, None if op == "delete" else image)


def chunk_rows(_: ChunkFile) -> Iterable[tuple[Image, Image]]:
    return [((key,), (key, "dump")) for key in CHUNK_KEYS]


def manifest(windows: tuple[ClosedWindow, ...] | None = None) -> Manifest:
    chunk = ChunkFile(T, "chunks/x", len(CHUNK_KEYS), 1, None, ("c",))
    window = ClosedWindow("d" * 16, CommitTs(LOW), CommitTs(HIGH), Seq(0), (chunk,))
    return Manifest(Seq(1), 1, CommitTs(50), CommitTs(300), "x", 1, 1, {}, "s", "canal-json", (), (window,) if windows is None else windows)


def out(*changes: OutputRow) -> list[tuple[int, str, str | None]]:
    rows = merged(manifest(), changes, rows_of=chunk_rows)
    return [(row.commit_ts, str(row.key[0]), row.after[1] if row.after else None) for row in rows]


def dumped(*changes: OutputRow) -> list[str]:
    return [key for _, key, value in out(*changes) if value == "dump"]


def test_untouched_rows_come_out_at_high_ts_in_the_chunks_order() -> None:
    assert out() == [(HIGH, "a", "dump"), (HIGH, "b", "dump"), (HIGH, "c", "dump")]


def test_a_change_inside_the_window_drops_the_chunks_row() -> None:
    assert dumped(change(150, "b")) == ["a", "c"]


def test_a_change_at_low_ts_is_outside_the_window() -> None:
    assert dumped(change(LOW, "b")) == ["a", "b", "c"]


def test_a_change_at_high_ts_is_inside_the_window() -> None:
    assert dumped(change(HIGH, "b")) == ["a", "c"]


def test_a_change_after_high_ts_is_outside_the_window_and_comes_after_the_row() -> None:
    assert out(change(HIGH + 1, "b")) == [(HIGH, "a", "dump"), (HIGH, "b", "dump"), (HIGH, "c", "dump"), (HIGH + 1, "b", "live201")]


def test_a_delete_inside_the_window_drops_the_row_by_its_old_image() -> None:
    assert dumped(change(150, "a", "delete")) == ["b", "c"]


def test_changes_of_earlier_segments_count_but_do_not_come_out_again() -> None:
    assert out(change(150, "b", seq=0)) == [(HIGH, "a", "dump"), (HIGH, "c", "dump")]


def test_changes_of_another_table_do_not_count() -> None:
    assert dumped(change(150, "b", table=TableName("s", "other"))) == ["a", "b", "c"]


def test_survivors_come_after_every_change_of_the_window() -> None:
    rows = out(change(LOW + 1, "x"), change(HIGH, "y"), change(HIGH + 1, "z"))
    assert [key for _, key, _ in rows] == ["x", "y", "a", "b", "c", "z"]


def test_a_chunk_all_of_whose_rows_changed_gives_nothing() -> None:
    assert dumped(*[change(150, key) for key in CHUNK_KEYS]) == []


def test_without_windows_the_changes_pass_by() -> None:
    rows = merged(manifest(windows=()), [change(150, "b"), change(140, "a")], rows_of=chunk_rows)
    assert [row.commit_ts for row in rows] == [140, 150]
