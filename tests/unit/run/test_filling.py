"""When a verification says that a table lacks no rows any more."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.run.filling import words, write_words
from sidecar.shared.errors import SinkError
from sidecar.shared.log import storage
from sidecar.shared.log.filled import FilledWord, read_words
from sidecar.shared.log.identity import claim_log, own_id
from sidecar.shared.log.sink_tables import write_sink_tables
from sidecar.shared.log.storage import Folder, open_folder
from sidecar.shared.log.verification import CheckState, RequestedTable, TableReport, Unjudged, VerifyReport, VerifyRequest
from sidecar.shared.model.hole import HoleCause, OpenHole
from sidecar.shared.model.nouns import CommitTs, OperationId, Seq, TableName
from sidecar.shared.model.sink_delivery import SinkTables

ID = OperationId("a" * 16)
A = TableName("shop", "orders")
REQUEST = VerifyRequest(ID, ("lake",), (RequestedTable(*A),))
UNJUDGED = Unjudged("lake", *A, ("extra",), "a filter hides deletes")


def sink(seq: int | None) -> SinkTables:
    """With a hole that was noticed in segment `seq`; None: with none."""
    holes = {} if seq is None else {A: OpenHole(HoleCause.IMPORT, CommitTs(5), Seq(seq), vanished=True, text="")}
    return SinkTables("lake", "", Seq(0), None, Seq(20), None, holes=holes)


@pytest.fixture
def log(tmp_path: Path) -> Folder:
    log = open_folder(str(tmp_path))
    claim_log(log, "cf/1")
    return log


@dataclass(frozen=True)
class Case:
    state: CheckState = CheckState.EQUAL
    partial: bool = False
    expected: int = 0
    after_seq: int | None = 7
    unjudged: tuple[Unjudged, ...] = ()

    @property
    def speaks(self) -> bool:
        return self == Case(after_seq=self.after_seq) and self.after_seq is not None


CASES = st.builds(
    Case,
    st.sampled_from(CheckState),
    st.booleans(),
    st.integers(0, 1),
    st.sampled_from([None, 6, 7, 8]),
    st.sampled_from([(), (UNJUDGED,), (Unjudged("copy", *A, ("extra",), ""),)]),
)


@given(CASES, st.sampled_from([None, 6, 7, 8]))
def test_only_a_whole_table_that_is_equal_fills_only_holes_of_before_it_was_read(
    tmp_path_factory: pytest.TempPathFactory, case: Case, seq: int | None
) -> None:
    log = open_folder(str(tmp_path_factory.mktemp("log")))
    claim_log(log, "cf/1")
    write_sink_tables(log, sink(seq), log_id=own_id(log))
    table = TableReport("lake", *A, case.state, partial=case.partial, expected=case.expected, after_seq=case.after_seq)
    request = VerifyRequest(ID, ("lake",), REQUEST.tables, unjudged=case.unjudged)
    report = VerifyReport(ID, CheckState.FAILED, 1, tables=[table, TableReport("lake", "shop", "other", CheckState.FAILED)])
    write_words(log, request, report, now_ms=9)
    of_another = all(one.sink != "lake" for one in case.unjudged)
    speaks = Case(case.state, case.partial, case.expected, case.after_seq).speaks and of_another
    fills = speaks and seq is not None and case.after_seq is not None and seq <= case.after_seq
    word = FilledWord("lake", A, Seq(case.after_seq or 0), f"verification {ID}", "equal", 9)
    assert read_words(log) == ([word] if fills else [])


def test_a_sink_that_has_no_file_has_no_hole() -> None:
    assert list(words(ID, [TableReport("lake", *A, CheckState.EQUAL, after_seq=7)], {}, now_ms=1)) == []


def test_a_file_that_cannot_be_read_is_an_error(log: Folder) -> None:
    storage.write_atomically(log, "sinks/lake.json", b"{")
    report = VerifyReport(ID, CheckState.EQUAL, 1, tables=[TableReport("lake", *A, CheckState.EQUAL, after_seq=7)])
    with pytest.raises(SinkError, match="not readable"):
        write_words(log, REQUEST, report, now_ms=1)
