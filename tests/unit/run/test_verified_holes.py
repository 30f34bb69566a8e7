"""When a verification says that a table lacks no rows any more."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from sidecar.run.verified_holes import words, write_verified
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


def sink(seq: int | None) -> SinkTables:
    """With a hole that was noticed in segment `seq`; None: with none."""
    holes = {} if seq is None else {A: OpenHole(HoleCause.IMPORT, CommitTs(5), Seq(seq), vanished=True, text="")}
    return SinkTables("lake", "", Seq(0), None, Seq(20), None, holes=holes)


@pytest.fixture
def log(tmp_path: Path) -> Folder:
    log = open_folder(str(tmp_path))
    claim_log(log, "cf/1")
    return log


STATES = (CheckState.EQUAL, CheckState.DIFFERENT, CheckState.INCOMPLETE, CheckState.RUNNING)
UNJUDGED = ((), (Unjudged("lake", *A, ("extra",), "a filter hides deletes"),), (Unjudged("copy", *A, ("extra",), "the same elsewhere"),))
CASES = list(product(STATES, (False, True), (0, 1), UNJUDGED, (None, 6, 7, 8)))


@pytest.mark.parametrize("seq", [None, 6, 7, 8])
def test_only_a_whole_table_that_is_equal_fills_only_holes_of_before_it_was_read(log: Folder, seq: int | None) -> None:
    """All cases, each with its number as the time."""
    write_sink_tables(log, sink(seq), log_id=own_id(log))
    fills = set[int]()
    for number, (state, is_partial, unexplained, unjudged, after_seq) in enumerate(CASES):
        table = TableReport("lake", *A, state, partial=is_partial, expected=unexplained, after_seq=after_seq)
        request = VerifyRequest(ID, ("lake",), REQUEST.tables, unjudged=unjudged)
        report = VerifyReport(ID, CheckState.FAILED, 1, tables=[table, TableReport("lake", "shop", "other", CheckState.FAILED)])
        write_verified(log, request, report, now_ms=number)
        is_whole = state is CheckState.EQUAL and not is_partial and not unexplained and unjudged is not UNJUDGED[1]
        if is_whole and seq is not None and after_seq is not None and seq <= after_seq:
            fills.add(number)
    written = read_words(log)
    assert {word.at_ms for word in written} == fills
    assert len(written) == len(fills) == {None: 0, 6: 6, 7: 4, 8: 2}[seq]
    for word in written:
        after_seq = CASES[word.at_ms][-1]
        assert after_seq is not None
        assert word == FilledWord("lake", 0, A, 0, Seq(after_seq), f"verification {ID}", "equal", word.at_ms)


def test_a_sink_that_has_no_file_has_no_hole() -> None:
    assert list(words(ID, [TableReport("lake", *A, CheckState.EQUAL, after_seq=7)], {}, now_ms=1)) == []


@pytest.mark.parametrize(("of_the_hole", "compared", "is_said"), [(10, 10, True), (10, 11, False), (0, 0, True)])
def test_the_word_is_of_the_table_that_was_compared_and_not_of_its_name(of_the_hole: int, compared: int, is_said: bool) -> None:
    """Another one may have the name when the verification of all tables is over."""
    known = sink(6)
    known = replace(known, holes={A: replace(known.holes[A], table_id=of_the_hole)})
    table = TableReport("lake", *A, CheckState.EQUAL, after_seq=7, table_id=compared)
    assert bool([*words(ID, [table], {"lake": known}, now_ms=1)]) is is_said


def test_a_file_that_cannot_be_read_is_an_error(log: Folder) -> None:
    storage.write_atomically(log, "sinks/lake.json", b"{")
    report = VerifyReport(ID, CheckState.EQUAL, 1, tables=[TableReport("lake", *A, CheckState.EQUAL, after_seq=7)])
    with pytest.raises(SinkError, match="not readable"):
        write_verified(log, REQUEST, report, now_ms=1)
