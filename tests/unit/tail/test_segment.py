"""A table's events are the merge's rows, and what the merge drops; held against the slow rule."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from sidecar.shared.errors import LogBroken
from sidecar.shared.log import storage
from sidecar.shared.log.layout import chunk_name
from sidecar.shared.log.rows_file import write_chunk
from sidecar.shared.log.storage import Folder, open_folder
from sidecar.shared.model.chunk import ChunkFile
from sidecar.shared.model.hole import Hole, HoleCause
from sidecar.shared.model.nouns import CommitTs, Seq, TableName
from spark_merge.log.undecodable import Decoding, leave_out
from spark_merge.port.contract import RANK_CHUNK
from spark_merge.tail import segment
from spark_merge.tail.events import EventKind, TailEvent
from spark_merge.tail.segment import SegmentEvents, TailScope
from spark_merge.testing.histories import COLUMNS, RandomHistory, expected, poison, random_history, write_log
from tests.unit.tail.logs import ORDERS, WrittenLog, events_of, put, window

OTHER = TableName("shop", "item")


@pytest.fixture
def log(tmp_path: Path) -> Folder:
    return open_folder(str(tmp_path / "log"))


def as_output(event: TailEvent) -> tuple[object, ...]:
    return (event.seq, event.commit_ts, event.op, event.key, event.before, event.after, event.chunk and event.chunk.dump_id)


def dropped_by_the_rule(history: RandomHistory, table: TableName) -> list[tuple[object, ...]]:
    """Rows of chunks that the rule's output lacks, each with the last change of its key in the window."""
    dropped: list[tuple[object, ...]] = []
    for seq, windows in enumerate(history.windows):
        for one in windows:
            inside = [row for row in history.rows if row.table == table and one.low_ts < row.commit_ts <= one.high_ts]
            for chunk in one.chunks:
                rows = [(key, None) for key in history.absent.get(chunk.path, ())]
                rows += [(row[:2], row) for row in history.chunk_rows[chunk.path]]  # type: ignore[misc]  # no key is NULL
                for key, image in rows if chunk.table == table else ():
                    if changes := [row for row in inside if row.key == key]:
                        last = max(changes, key=lambda row: (row.commit_ts, row.rank, row.ordinal))
                        dropped.append((seq, one.high_ts, chunk.path, key, image, last.commit_ts, last.op, last.before, last.after))
    return dropped


@pytest.mark.parametrize("seed", range(6))
def test_the_events_are_the_slow_rules_rows_and_those_that_it_drops(log: Folder, seed: int) -> None:
    history = random_history(Random(seed))
    manifests = write_log(log, history)
    dropped_rows = 0
    for table in sorted({row.table for row in history.rows}):
        events = events_of(log, table)
        assert [as_output(event) for event in events if event.is_version] == expected(history, manifests, table)
        dropped = [event for event in events if event.kind is EventKind.DROPPED]
        facts = []
        for event in dropped:
            assert event.chunk is not None
            assert event.change is not None
            change = event.change
            place = (event.seq, event.commit_ts, event.chunk.path, event.key, event.after)
            facts.append((*place, change.commit_ts, change.op, change.before, change.after))
        assert sorted(facts, key=repr) == sorted(dropped_by_the_rule(history, table), key=repr)
        places = [(event.seq, event.commit_ts) for event in events]
        assert places == sorted(places)
        dropped_rows += len(dropped)
    assert dropped_rows


@pytest.mark.parametrize("seed", range(4))
def test_the_events_of_a_key_are_those_of_the_table_with_that_key(log: Folder, seed: int) -> None:
    history = random_history(Random(seed))
    write_log(log, history)
    for table in sorted({row.table for row in history.rows})[:3]:
        events = events_of(log, table)
        for key in {event.key for event in events if event.key is not None}:
            assert events_of(log, table, key=key) == [event for event in events if event.key == key]


def test_rows_are_cut_into_parts_and_none_is_lost(log: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    history = random_history(Random(3))
    write_log(log, history)
    table = history.rows[0].table
    whole = events_of(log, table)
    monkeypatch.setattr(segment, "ROWS_AT_ONCE", 2)
    assert events_of(log, table) == whole


def test_a_row_that_cannot_be_decoded_is_named_and_the_others_follow(log: Folder) -> None:
    history = random_history(Random(5))
    table = TableName(history.changes[2][3].schema, history.changes[2][3].table)
    poison(history, 2, 3)
    manifests = write_log(log, history)
    for name in sorted({row.table for row in history.rows}):
        events = events_of(log, name)
        assert [as_output(one) for one in events if one.is_version] == expected(history, manifests, name)
        bad = [event for event in events if event.kind is EventKind.UNDECODABLE]
        assert [(one.seq, one.text.partition(":")[0]) for one in bad] == ([(2, "ordinal 3")] if name == table else [])
    leave_out(log, Seq(2), [3], Decoding(), by="me@here", now_ms=1)
    (skipped,) = [event for event in events_of(log, table) if event.kind in (EventKind.SKIPPED, EventKind.UNDECODABLE)]
    assert skipped.kind is EventKind.SKIPPED
    assert skipped.text.endswith("[me@here]")


def test_an_error_that_is_no_rows_is_raised(log: Folder) -> None:
    to = WrittenLog(log, {ORDERS: 1})
    manifest = to.segment(put(ORDERS, 5, "a", "x"))
    storage.remove(log, [str(manifest.data)])
    with pytest.raises(LogBroken, match="is gone"):
        events_of(log)


def chunk_of(log: Folder, *rows: tuple[str, str, str], name: TableName = ORDERS, number: int = 1) -> ChunkFile:
    path = chunk_name("d" * 16, epoch=1, number=number)
    columns = {column.name: pa.array([row[n] for row in rows], pa.string()) for n, column in enumerate(COLUMNS)}
    write_chunk(log, path, pa.table(columns))
    return ChunkFile(name, path, len(rows), 1, None, None)


def test_a_window_that_begins_before_the_log_has_rows_of_which_nothing_is_said(log: Folder) -> None:
    to = WrittenLog(log, {ORDERS: 1})
    to.segment(put(ORDERS, 5, "a", "x"))
    chunk = chunk_of(log, ("a", "1", "old"), ("b", "1", "y"))
    manifest = to.segment(put(ORDERS, 150, "a", "z"), windows=[window(1, 140, 0, chunk)])
    events = SegmentEvents(TailScope(log, Decoding()))
    (before,) = (one for one in to.log.read_schemas(manifest.schemas).values())
    kinds = [(one.kind, one.commit_ts, one.key) for one in events.of(manifest, (before, before), Seq(1))]
    assert kinds == [
        (EventKind.UNKNOWN, 140, ("a", "1")), (EventKind.UNKNOWN, 140, ("b", "1")), (EventKind.LIVE, 150, ("a", "1")),
    ]  # fmt: skip
    kinds = [(one.kind, one.commit_ts, one.key) for one in events.of(manifest, (before, before), Seq(0))]
    assert kinds == [
        (EventKind.DUMP, 140, ("b", "1")), (EventKind.DROPPED, 140, ("a", "1")), (EventKind.LIVE, 150, ("a", "1")),
    ]  # fmt: skip


def test_a_dump_for_some_sinks_is_no_other_sinks(log: Folder) -> None:
    to = WrittenLog(log, {ORDERS: 1})
    to.segment(windows=[window(1, 50, 0, chunk_of(log, ("a", "1", "x")), sinks=("lake",))])
    (event,) = events_of(log)
    assert event.sinks == ("lake",)
    assert events_of(log, sink="lake") == [event]
    assert events_of(log, sink="copy") == []


def test_ddls_and_holes_of_the_table_end_its_segment(log: Folder) -> None:
    to = WrittenLog(log, {ORDERS: 1, OTHER: 2})
    hole = Hole(HoleCause.IMPORT, CommitTs(60), (ORDERS,), vanished=True, text="IMPORT INTO orders")
    holes = [hole, replace(hole, tables=(OTHER,)), replace(hole, tables=None, cause=HoleCause.PARKED, vanished=False, text="a message")]
    to.segment(put(ORDERS, 5, "a", "x"), ddl="ALTER TABLE orders COMMENT 'x'", holes=holes)
    to.segment(ddl="ALTER TABLE item COMMENT 'y'", of=OTHER)
    to.segment(ddl="DROP DATABASE shop", of=TableName("shop", ""))
    assert [(one.kind, one.seq, one.commit_ts, one.text) for one in events_of(log)] == [
        (EventKind.LIVE, 0, 5, ""),
        (EventKind.DDL, 0, 100, "ALTER TABLE orders COMMENT 'x'"),
        (EventKind.HOLE, 0, 60, "import: IMPORT INTO orders; rows may be gone in the source"),
        (EventKind.HOLE, 0, 60, "parked: a message"),
        (EventKind.DDL, 2, 300, "DROP DATABASE shop"),
    ]


def test_ranks_of_chunks_come_behind_changes_of_their_commit_ts(log: Folder) -> None:
    """A kept row and a change of another key at the window's high end: the order of the output."""
    to = WrittenLog(log, {ORDERS: 1})
    to.segment(put(ORDERS, 50, "b", "x"), put(ORDERS, 51, "c", "x"), windows=[window(1, 50, 0, chunk_of(log, ("a", "1", "x")))])
    assert [one.key for one in events_of(log)] == [("b", "1"), ("a", "1"), ("c", "1")]
    assert RANK_CHUNK > 1
