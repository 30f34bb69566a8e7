from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.core.messages import Brackets, Pace
from sidecar.core.model import CommitTs, Seq, TableName
from sidecar.core.progress import OVER, DumpState, DumpTold, Progress, Span, TableProgress, progress_from_json, told

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
)


@given(progresses)
def test_comes_back_from_json_as_it_was(progress: Progress) -> None:
    assert progress_from_json(json.loads(json.dumps(progress.to_json()))) == progress


def test_a_progress_of_version_0_1_0_is_read() -> None:
    tables = (TableProgress(TableName("s", "t"), since_seq=Seq(7)),)
    found = Progress("d1", DumpState.PAUSED, Brackets.WATERMARK, 1, 1, 1, Seq(0), tables, pace=Pace(2, 3, 4)).to_json()
    del found["pace"]["delivery_bound_s"], found["log"], found["tables"][0]["since_seq"]
    read = progress_from_json(found)
    assert (read.pace, read.tables[0].since_seq) == (Pace(2, 3, 4, 0.0), 0)


def test_a_ts_is_text_so_that_no_reader_rounds_it() -> None:
    progress = Progress(
        "d1", DumpState.RUNNING, Brackets.WATERMARK, 1, 1, 1, Seq(0), (TableProgress(TableName("s", "t"), complete_at=CommitTs(1 << 62)),)
    )
    assert progress.to_json()["tables"][0]["complete_at"] == str(1 << 62)


def test_a_segment_tells_the_state_and_the_tables_that_it_completed() -> None:
    """By itself: whoever delivers it again tells the same."""
    ends = {"before": 10, "first": 11, "last": 20, "after": 21, "open": None}
    tables = tuple(TableProgress(TableName("s", name), complete_at=None if ts is None else CommitTs(ts)) for name, ts in ends.items())
    found = Progress("d1", DumpState.PAUSED, Brackets.WATERMARK, 1, 1, 1, Seq(0), tables).to_json()
    tables_told = (TableName("s", "first"), TableName("s", "last"))
    assert told(json.loads(json.dumps(found)), after_ts=CommitTs(10), upto_ts=CommitTs(20)) == DumpTold("d1", DumpState.PAUSED, tables_told)


@pytest.mark.parametrize("field", ["dump_id", "state", "tables", "seq", "reason"])
def test_a_missing_field_is_an_error(field: str) -> None:
    found = Progress("d1", DumpState.PAUSED, Brackets.WATERMARK, 1, 1, 1, Seq(0), ()).to_json()
    del found[field]
    with pytest.raises(KeyError):
        progress_from_json(found)


def test_an_unknown_state_is_an_error() -> None:
    found = Progress("d1", DumpState.PAUSED, Brackets.WATERMARK, 1, 1, 1, Seq(0), ()).to_json()
    with pytest.raises(ValueError, match="asleep"):
        progress_from_json(found | {"state": "asleep"})


def test_a_dump_that_runs_or_may_run_on_is_not_over() -> None:
    assert set(DumpState) - OVER == {DumpState.RUNNING, DumpState.PAUSED}
