"""What a task reads, in which order, and what it holds: row groups, transactions over them, raw messages, the order of a segment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, get_args

import pyarrow as pa
import pytest

from sidecar.shared.errors import LogBroken
from sidecar.shared.log import rows_file
from sidecar.shared.log.manifest import Manifest
from sidecar.shared.log.segment_log import FolderLog
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.nouns import Change, CommitTs, Lane, Rank, Seq, TableName, TableSchema
from sidecar.shared.process.progress import watched_by
from spark_merge.codecs.decode.rows import decode
from spark_merge.delivery.batches import Delivery, JobSettings
from spark_merge.log import segments
from spark_merge.log.cache import DecodedRows
from spark_merge.log.segments import SegmentSource
from spark_merge.merge.task import portions
from spark_merge.port.contract import CHANGES, RANK_DELETE, RANK_PUT, Head, Order, Outcome, Portion, Task, Unit
from spark_merge.sinks.memory.committing import CommittingSink
from spark_merge.sinks.memory.hidden import HiddenSink
from spark_merge.sinks.memory.rows import read
from spark_merge.testing.histories import COLUMNS, RandomHistory, random_history, write_log
from spark_merge.testing.places import Here
from tests.support.requested_files import Requests
from tests.support.watched import RecordingWatch

ORDER = ("commit_ts", "rank", "ordinal")


def groups(random: Random) -> list[pa.Table]:
    """As decoded row groups of a log: commit_ts never falls, and a split update's delete comes with its put."""
    rows, commit_ts = [], 1
    for ordinal in range(random.randrange(40)):
        commit_ts += random.choice([0, 0, 0, 1])
        ranks = random.choice([[RANK_PUT], [RANK_PUT], [RANK_PUT, RANK_DELETE]])
        rows += [{"seq": 0, "commit_ts": commit_ts, "rank": rank, "ordinal": ordinal, "key": f"{ordinal}"} for rank in ranks]
    result, at = [], 0
    while at < len(rows):
        size = random.randrange(1, 8)
        result.append(pa.Table.from_pylist(rows[at : at + size], CHANGES))
        at += size
    return result


@pytest.mark.parametrize("held_rows_max", [0, 2, 1000])
@pytest.mark.parametrize("seed", range(30))
def test_row_groups_come_out_as_the_whole_segment_would(seed: int, held_rows_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "HELD_ROWS_MAX", held_rows_max)
    parts = groups(Random(seed))
    results = [row for rows in segments.in_order(lambda: iter(parts)) for row in rows.to_pylist()]
    every = [row for part in parts for row in part.to_pylist()]
    assert results == sorted(every, key=lambda row: [row[name] for name in ORDER])


def test_what_is_held_is_bounded_by_the_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table comes out as soon as a greater commit_ts has come: never more than two groups are waiting."""
    read_groups = 0

    def many() -> Iterator[pa.Table]:
        nonlocal read_groups
        for number in range(50):
            read_groups += 1
            yield pa.Table.from_pylist([{"seq": 0, "commit_ts": number, "rank": RANK_PUT, "ordinal": number}], CHANGES)

    for number, _ in enumerate(segments.in_order(many)):
        assert read_groups <= number + 2


@pytest.fixture
def history() -> RandomHistory:
    return random_history(Random(5))


def heads(folder: Path, history: RandomHistory) -> dict[Seq, Head]:
    manifests = write_log(open_folder(str(folder)), history)
    names = {row.table for row in history.rows}
    schemas = {name: TableSchema(name, COLUMNS, ("id", "part")) for name in names}
    return {manifest.seq: Head(manifest, schemas, schemas) for manifest in manifests}


def of_segment(folder: Path, history: RandomHistory, one: Task) -> list[Portion]:
    return list(portions(one, SegmentSource(open_folder(str(folder)), heads(folder, history))))


def test_in_the_order_of_a_segment_tables_come_as_they_were_committed(tmp_path: Path, history: RandomHistory) -> None:
    one = Task("0", (Unit(Seq(1), live=True),), order="segment")
    _, rows = read(portions(one, SegmentSource(open_folder(str(tmp_path)), heads(tmp_path, history))))
    expected = sorted((row for row in history.rows if row.seq == 1), key=lambda row: row[1:4])
    assert rows == expected
    assert len({row.table for row in rows}) > 3


def test_a_sink_that_asks_for_messages_gets_each_once(tmp_path: Path, history: RandomHistory) -> None:
    one = Task("0", (Unit(Seq(1), live=True),), order="segment", raw=True)
    results: list[dict[str, object]] = []
    for portion in portions(one, SegmentSource(open_folder(str(tmp_path)), heads(tmp_path, history))):
        for piece in portion.pieces:
            assert isinstance(piece, pa.Table)
            results += piece.to_pylist()
    by_ordinal = {row["ordinal"]: row["message_value"] for row in results if row["message_value"] is not None}
    assert by_ordinal == {ordinal: change.value for ordinal, change in enumerate(history.changes[1])}
    assert sum(row["message_value"] is not None for row in results) == len(history.changes[1])
    assert {row["lane"] for row in results if row["message_value"] is not None} == {"k/0"}


def test_a_task_requests_the_files_of_a_remote_log_together(history: RandomHistory, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after another they would wait for the network once each: 3.2 s of a batch of 16 segments at 200 ms. Those that its windows reach
    back to may be many, and few of them are read."""
    log = open_folder("memory://a-task-of-many-segments")
    manifests = write_log(log, history)
    names = {row.table for row in history.rows}
    schemas = {name: TableSchema(name, COLUMNS, ("id", "part")) for name in names}
    source = SegmentSource(log, {manifest.seq: Head(manifest, schemas, schemas) for manifest in manifests})
    requests = Requests(monkeypatch)
    live = [manifest for manifest in manifests if source.heads[manifest.seq].table_rows]
    assert len(live) > 2
    for units in (live, live[1:]):
        task = Task("0", tuple(Unit(manifest.seq, live=True) for manifest in units), order="segment")
        _, rows = read(portions(task, source))
        seqs = {manifest.seq for manifest in units}
        assert rows == sorted((row for row in history.rows if row.seq in seqs), key=lambda row: row[:4])
    assert (requests.single, requests.together) == ([], [[one.data for one in units] for units in (live, live[1:])])
    due = [chunk for head in source.heads.values() for chunk in head.due_chunks()]
    chunk = next(one for one in due if one.table in (source.heads[one.seq].table_rows or {}))
    read(portions(Task("0", (Unit(chunk.seq, live=False, chunks=(chunk,)),)), source))
    assert (bool(requests.single), len(requests.together)) == (True, 2)


def test_tables_with_few_rows_are_decoded_once_for_all_sinks(
    tmp_path: Path, history: RandomHistory, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, decoded, shared = SegmentSource(open_folder(str(tmp_path)), heads(tmp_path, history)), 0, DecodedRows()
    assert len(source.heads[Seq(1)].table_rows or {}) > 1

    def counted(*rows: Any, **how: Any) -> pa.Table:
        nonlocal decoded
        decoded += 1
        return decode(*rows, **how)

    monkeypatch.setattr(segments, "decode", counted)
    orders: tuple[Order, ...] = ("table", "segment", "table")
    for order in orders:
        assert read(portions(Task("0", (Unit(Seq(1), live=True),), order=order), source, shared))
    assert decoded == 1


def test_a_window_decodes_its_table_alone_where_nobody_shares_what_is_decoded(
    tmp_path: Path, history: RandomHistory, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = SegmentSource(open_folder(str(tmp_path)), heads(tmp_path, history))
    chunk = next(chunk for head in source.heads.values() for chunk in head.due_chunks() if chunk.table in (head.table_rows or {}))
    decoded: set[str] = set()

    def counted(rows: pa.Table, **how: Any) -> pa.Table:
        decoded.update(rows["table"].to_pylist())
        return decode(rows, **how)

    monkeypatch.setattr(segments, "decode", counted)
    read(portions(Task("0", (Unit(chunk.seq, live=False, chunks=(chunk,)),)), source))
    assert decoded == {chunk.table.table}


@pytest.mark.parametrize(("name", "bound"), [("ROWS_MAX", 3), ("LIVE_BYTES_MAX", 1)])
def test_a_large_segment_comes_out_as_a_small_one(
    tmp_path: Path, history: RandomHistory, name: str, bound: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it is large by its rows or by its bytes; a table at a time and as committed."""
    source = SegmentSource(open_folder(str(tmp_path)), heads(tmp_path, history))
    tasks = [Task("0", (Unit(Seq(1), live=True),), order=order) for order in ("table", "segment")]
    small = [read(portions(one, source)) for one in tasks]
    monkeypatch.setattr(segments, name, bound)
    streamed, whole = 0, segments.in_order

    def counted(groups: Callable[[], Iterator[pa.Table]]) -> Iterator[pa.Table]:
        nonlocal streamed
        streamed += 1
        return whole(groups)

    monkeypatch.setattr(segments, "in_order", counted)
    assert [read(portions(one, source)) for one in tasks] == small
    assert streamed


def test_a_chunk_that_is_gone_is_reported_by_its_name(tmp_path: Path, history: RandomHistory) -> None:
    seq = next(seq for seq, windows in enumerate(history.windows) if any(chunk.rows for w in windows for chunk in w.chunks))
    result = heads(tmp_path, history)
    chunks = tuple(result[Seq(seq)].due_chunks())
    (tmp_path / chunks[0].path).unlink()
    one = Task("0", (Unit(Seq(seq), live=False, chunks=chunks[:1]),))
    with pytest.raises(LogBroken, match=r"chunk chunks/.*cannot be read"):
        read(portions(one, SegmentSource(open_folder(str(tmp_path)), result)))


def test_a_segment_that_a_window_reaches_back_to_and_that_is_gone_is_an_error(tmp_path: Path, history: RandomHistory) -> None:
    """Never "no keys": the chunk's touched rows would come out."""
    log = open_folder(str(tmp_path))
    write_log(log, history)
    first = next(w.first_seq for seq, windows in enumerate(history.windows) for w in windows if w.first_seq < seq and w.chunks[0].rows)
    to = HiddenSink(f"gone-{tmp_path.name}", log_id="log-1")
    delivery = Delivery(to, JobSettings(log), Here())
    (tmp_path / f"{first:020d}.json").rename(tmp_path / "aside")
    with pytest.raises(LogBroken, match=r"is gone|is missing"):
        delivery.deliver()


def test_a_transaction_larger_than_memory_comes_deletes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A swap of keys over row groups: whoever applies it in order ends with both rows."""
    monkeypatch.setattr(rows_file, "ROW_GROUP_ROWS_MAX", 3)
    monkeypatch.setattr(segments, "ROWS_MAX", 5)
    monkeypatch.setattr(segments, "HELD_ROWS_MAX", 5)
    history, count = random_history(Random(1)), 20
    table = TableName("s", "t0")

    def moved(number: int) -> Change:
        from json import dumps

        def row(key: int) -> dict[str, str]:
            return {"id": str(key % count), "part": "0", "v": f"row {number}"}

        event = {
            "database": "s", "table": "t0", "isDdl": False, "type": "UPDATE", "sql": "",
            "mysqlType": {"id": "varchar", "part": "int", "v": "text"}, "data": [row(number + 1)], "old": [row(number)],
            "_tidb": {"commitTs": 7},
        }  # fmt: skip
        return Change(CommitTs(7), Rank.PUT, "s", "t0", b"", dumps(event).encode(), Lane("k/0"), number)

    history.changes[0] = [moved(number) for number in range(count)]
    log = FolderLog(open_folder(str(tmp_path)))
    log.recover(epoch=1)
    schemas = log.write_schemas({table: TableSchema(table, COLUMNS, ("id", "part"))})
    data = log.write_data(Seq(0), epoch=1, codec="canal-json", changes=history.changes[0])
    log.commit(Manifest(Seq(0), 1, CommitTs(0), CommitTs(9), data.name, data.rows, data.bytes, {}, schemas, "canal-json"))
    name = f"swap-{tmp_path.name}"
    outcomes: list[Outcome] = []

    class Noting(Here):
        def run(self, work):  # type: ignore[no-untyped-def]  # the port's own signature
            outcomes.extend(super().run(work))
            return outcomes

    Delivery(CommittingSink(name, log_id="log-1"), JobSettings(open_folder(str(tmp_path))), Noting()).deliver()
    from spark_merge.sinks.memory.target import target

    rows = target(name).rows
    assert [row.rank for row in rows] == [RANK_DELETE] * count + [RANK_PUT] * count
    state: dict[tuple[str | None, ...], tuple[str | None, ...]] = {}
    for row in rows:
        if row.after is None:
            state.pop(row.key, None)
        else:
            state[row.key] = row.after
    assert len(state) == count


@pytest.mark.parametrize("order", get_args(Order))
def test_each_portion_and_each_piece_is_progress(tmp_path: Path, history: RandomHistory, order: Order) -> None:
    result = heads(tmp_path, history)
    units = tuple(Unit(head.seq, live=True, chunks=tuple(head.due_chunks())) for head in result.values())
    watch, steps, progress = RecordingWatch(), 0, 0
    with watched_by(watch):
        for portion in portions(Task("0", units, order), SegmentSource(open_folder(str(tmp_path)), result)):
            for _ in (portion, *portion.pieces):
                steps += 1
            progress, before = watch.progress, progress
            assert progress > before
    assert watch.progress >= steps > len(units)
