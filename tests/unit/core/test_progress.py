from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.shared.model.messages import Brackets, Pace
from sidecar.shared.model.nouns import CommitTs, Seq, TableName
from sidecar.shared.model.progress import (
    OVER,
    DumpState,
    Progress,
    SegmentDump,
    Span,
    TableProgress,
    blocking,
    holding,
    leading,
    newest,
    progress_from_json,
    state_after,
)

keys = st.none() | st.lists(st.text(), min_size=1).map(tuple)
numbers = st.integers(0, (1 << 64) - 1)
tables = st.builds(
    TableProgress,
    table=st.builds(TableName, st.text(), st.text()),
    spans=st.lists(st.builds(Span, keys, keys)).map(tuple),
    where=st.none() | st.text(),
    chunks=numbers,
    rows=numbers,
    bytes=numbers,
    complete_at=st.none() | numbers.map(CommitTs),
    since_seq=numbers.map(Seq),
)
progresses = st.builds(
    Progress,
    dump_id=st.text(),
    state=st.sampled_from(DumpState),
    brackets=st.sampled_from(Brackets),
    chunk_rows=numbers,
    epoch=numbers,
    revision=numbers,
    seq=numbers.map(Seq),
    tables=st.lists(tables, max_size=3).map(tuple),
    reason=st.none() | st.text(),
    pace=st.builds(Pace, numbers, numbers, numbers, st.floats(0, 1e6)),
    log=st.text(),
    for_ddl=st.none() | numbers.map(CommitTs),
    exact=st.none() | st.booleans(),
)


@given(progresses)
def test_comes_back_from_json_as_it_was(progress: Progress) -> None:
    assert progress_from_json(json.loads(json.dumps(progress.to_json()))) == progress


def test_a_progress_of_version_0_1_0_is_read() -> None:
    tables = (TableProgress(TableName("s", "t"), since_seq=Seq(7)),)
    result = Progress("d1", DumpState.PAUSED, Brackets.WATERMARK, 1, 1, 1, Seq(0), tables, pace=Pace(2, 3, 4)).to_json()
    del result["pace"]["delivery_bound_s"], result["log"], result["tables"][0]["since_seq"]
    read = progress_from_json(result)
    assert (read.pace, read.tables[0].since_seq) == (Pace(2, 3, 4, 0.0), 0)


def test_a_ts_is_text_so_that_no_reader_rounds_it() -> None:
    progress = Progress(
        "d1", DumpState.RUNNING, Brackets.WATERMARK, 1, 1, 1, Seq(0), (TableProgress(TableName("s", "t"), complete_at=CommitTs(1 << 62)),)
    )
    assert progress.to_json()["tables"][0]["complete_at"] == str(1 << 62)


def test_a_segment_reports_the_state_and_the_tables_that_it_completed() -> None:
    """By itself: whoever delivers it again tells the same."""
    ends = {"before": 10, "first": 11, "last": 20, "after": 21, "open": None}
    tables = tuple(TableProgress(TableName("s", name), complete_at=None if ts is None else CommitTs(ts)) for name, ts in ends.items())
    result = Progress("d1", DumpState.PAUSED, Brackets.WATERMARK, 1, 1, 1, Seq(0), tables).to_json()
    tables_reported = (TableName("s", "first"), TableName("s", "last"))
    first = SegmentDump("d1", DumpState.PAUSED, tables_reported)
    assert state_after([json.loads(json.dumps(result))], after_ts=CommitTs(10), upto_ts=CommitTs(20)) == first
    both = state_after([result, result | {"dump_id": "d2", "tables": []}], after_ts=CommitTs(10), upto_ts=CommitTs(20))
    assert both == replace(first, others=(SegmentDump("d2", DumpState.PAUSED),))
    assert state_after([], after_ts=CommitTs(10), upto_ts=CommitTs(20)) is None


def record(number: int, state: DumpState, revision: int, *tables: str, log: str = "log", seq: int = 0) -> Progress:
    each = tuple(TableProgress(TableName("s", table)) for table in tables)
    return Progress(f"d{number}", state, Brackets.WATERMARK, 1, 1, revision, Seq(seq), each, log=log, number=number)


def test_the_copy_with_the_newest_change_knows_which_dumps_there_are() -> None:
    a, b = record(1, DumpState.RUNNING, 4), record(2, DumpState.PAUSED, 6)
    started = (replace(a, revision=7), record(3, DumpState.QUEUED, 8))
    assert newest((a, b), started, log="log", last_seq=Seq(0)) == started, "b was restarted as another one, and no segment has that yet"
    assert newest(started, (a, b), log="log", last_seq=Seq(0)) == started, "the store is behind"
    assert newest((a, b), (replace(a, revision=5), b), log="log", last_seq=Seq(0)) == (replace(a, revision=5), b), "each by itself"
    assert newest((), started, log="log", last_seq=Seq(0)) == started


def test_a_dump_that_is_queued_waits_for_those_before_it_that_have_its_tables() -> None:
    first, other, queued = (
        record(1, DumpState.PAUSED, 1, "a"),
        record(2, DumpState.RUNNING, 1, "c"),
        record(3, DumpState.QUEUED, 1, "b", "a"),
    )
    behind = record(4, DumpState.QUEUED, 1, "a")
    dumps = [first, other, queued, behind]
    assert [[one.number for one in blocking(dump, dumps)] for dump in dumps] == [[], [], [1], [1, 3]]
    assert [one.number for one in holding({TableName("s", "c")}, dumps)] == [2]
    assert leading(dumps) is other
    assert leading([first, behind]) is first
    assert leading([replace(first, state=DumpState.FAILED), replace(other, state=DumpState.FINISHED)]) == replace(
        other, state=DumpState.FINISHED
    )
    assert leading([]) is None


@pytest.mark.parametrize("field", ["dump_id", "state", "tables", "seq", "reason"])
def test_a_missing_field_is_an_error(field: str) -> None:
    result = Progress("d1", DumpState.PAUSED, Brackets.WATERMARK, 1, 1, 1, Seq(0), ()).to_json()
    del result[field]
    with pytest.raises(KeyError):
        progress_from_json(result)


def test_an_unknown_state_is_an_error() -> None:
    result = Progress("d1", DumpState.PAUSED, Brackets.WATERMARK, 1, 1, 1, Seq(0), ()).to_json()
    with pytest.raises(ValueError, match="asleep"):
        progress_from_json(result | {"state": "asleep"})


def test_a_dump_that_runs_or_may_run_on_is_not_over() -> None:
    assert set(DumpState) - OVER == {DumpState.QUEUED, DumpState.RUNNING, DumpState.PAUSED}
