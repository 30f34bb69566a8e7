"""What counts as a difference, and which state follows from that."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sidecar.shared.log.verification import CellDifference, CheckState, RowDifference, TableReport, Unjudged
from sidecar.shared.ticdc.hidden_changes import KINDS
from spark_merge.verify.tally import DUPLICATES, Tally

CELL = CellDifference("v", "1", "2")


def unjudged(*kinds: str) -> list[Unjudged]:
    return [Unjudged("copy", "shop", "orders", (kind,), f"{kind} is hidden") for kind in kinds]


def concluded(tally: Tally, *difference: RowDifference) -> TableReport:
    report = TableReport("copy", "shop", "orders", rows=10)
    for one in difference:
        tally.count(report, one)
    tally.conclude(report)
    return report


@pytest.mark.parametrize("kind", [*KINDS, "duplicate"])
def test_a_difference_is_one_unless_its_kind_is_not_judged(kind: str) -> None:
    row = RowDifference(kind, ("1",), (CELL,))
    tally = Tally()
    report = concluded(tally, row)
    assert (report.state, report.differences, getattr(report, kind)) == (CheckState.DIFFERENT, 1, 1)
    assert (list(tally.all()), report.examples, report.columns, report.expected) == ([row], [row], {"v": 1}, 0)
    assert report.equal == (10 if kind == "extra" else 9)
    assert report.why == (DUPLICATES if kind == "duplicate" else "")
    if kind != "duplicate":
        tally = Tally(unjudged(kind))
        report = concluded(tally, row)
        assert (report.state, report.differences, report.expected, report.why) == (CheckState.EQUAL, 0, 1, "")
        assert (list(tally.all()), report.examples, report.columns) == ([], [], {}), "no repair corrects it"
        assert report.equal == (10 if kind == "extra" else 9), "it is not equal either"


def test_a_table_of_which_nothing_is_judged_is_not_equal_however_much_was_read() -> None:
    report = concluded(Tally(unjudged(*KINDS)), RowDifference("extra", ("1",)))
    assert (report.state, report.expected) == (CheckState.SKIPPED, 1)
    assert report.why == "any difference can be right: missing is hidden; extra is hidden; different is hidden"
    assert concluded(Tally(unjudged(*KINDS)), RowDifference("duplicate", ("1",))).state is CheckState.DIFFERENT


def test_keys_that_are_not_looked_at_again_are_differences_too() -> None:
    tally, report = Tally(), TableReport("copy", "shop", "orders", rows=10)
    tally.count_unlooked(report, "extra", pa.array(['["7"]', '["8"]']))
    assert [(one.kind, one.key) for one in tally.all()] == [("extra", ("7",)), ("extra", ("8",))]
    assert (report.extra, report.unlooked) == (2, 2)


@pytest.mark.parametrize("missing", [0, 1])
@pytest.mark.parametrize("kind", [*KINDS, "duplicate"])
def test_what_a_sink_lacks_is_incomplete_and_all_else_is_judged(kind: str, missing: int) -> None:
    tally = Tally(lacks="a dump brings them")
    tally.expect("missing", missing)
    report = concluded(tally, RowDifference(kind, ("1",), (CELL,)))
    lacking = missing + (kind == "missing")
    assert report.state is (CheckState.INCOMPLETE if kind == "missing" else CheckState.DIFFERENT)
    assert (report.expected, len(list(tally.all()))) == (lacking, kind != "missing")
    assert ("a dump brings them" in report.why) == bool(lacking)
    assert concluded(Tally(lacks="a dump brings them")).state is CheckState.EQUAL, "another program has filled the table"
