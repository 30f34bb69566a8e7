"""The result of comparing a table: differences, what is none because it can be right, and the state that follows from both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from sidecar.shared.log.verification import EXAMPLES_MAX, CheckState, RowDifference, TableReport, Unjudged
from sidecar.shared.ticdc.hidden_changes import are_all
from spark_merge.verify.look import key_of

LACKS = "the sink has not received all rows of the table: a dump that runs brings them, else dumpstart; then verify again"
DUPLICATES = "the target keeps one row of each key and has keys in several rows: another program has written there"


@dataclass
class Tally:
    """`lacks`: why the sink lacks rows of the table, so that missing ones are not judged; empty: it has them all. `unjudged`: of the table
    in the sink. `differences`: those that were looked at twice. `unlooked`: keys (merge.key_text) of the
    others, by kind. `expected_rows`: rows of each kind that is not judged."""

    unjudged: Sequence[Unjudged] = ()
    differences: list[RowDifference] = field(default_factory=list)
    unlooked: list[tuple[str, pa.Array]] = field(default_factory=list)
    expected_rows: dict[str, int] = field(default_factory=dict)
    lacks: str = ""

    def all(self) -> Iterator[RowDifference]:
        yield from self.differences
        for kind, keys in self.unlooked:
            yield from (RowDifference(kind, key_of(key.as_py())) for key in keys)

    def judges(self, kind: str) -> bool:
        return not any(kind in one.kinds for one in self.unjudged) and not (self.lacks and kind == "missing")

    def expect(self, kind: str, rows: int) -> None:
        """Of a kind that is not judged."""
        self.expected_rows[kind] = self.expected_rows.get(kind, 0) + rows

    def count_unlooked(self, report: TableReport, kind: str, keys: pa.Array) -> None:
        self.unlooked.append((kind, keys))
        report.unlooked += len(keys)
        setattr(report, kind, getattr(report, kind) + len(keys))

    def count(self, report: TableReport, difference: RowDifference) -> None:
        if not self.judges(difference.kind):
            self.expect(difference.kind, 1)
            return
        setattr(report, difference.kind, getattr(report, difference.kind) + 1)
        for cell in difference.cells:
            report.columns[cell.column] = report.columns.get(cell.column, 0) + 1
        self.differences.append(difference)
        if len(report.examples) < EXAMPLES_MAX:
            report.examples.append(difference.shortened())

    def conclude(self, report: TableReport, narrowed: str = "") -> None:
        """A table of which no kind of difference is judged is not equal, whatever was read, nor one that was not read whole although all of
        it was wanted: `narrowed` says why. Nor is one incomplete that lacks rows in truth: a table that another program has filled is known
        as one that lacks rows, and can be equal."""
        known = (
            report.missing
            + report.different
            + report.duplicate
            + self.expected_rows.get("missing", 0)
            + self.expected_rows.get("different", 0)
        )
        report.equal = max(report.rows - known - report.moving, 0)
        report.expected = sum(self.expected_rows.values())
        report.state = CheckState.DIFFERENT if report.differences else CheckState.EQUAL
        report.why = DUPLICATES if report.duplicate else ""
        if self.lacks and self.expected_rows.get("missing"):
            report.why = "; ".join(filter(None, [report.why, self.lacks]))
            report.state = CheckState.DIFFERENT if report.differences else CheckState.INCOMPLETE
        if narrowed:
            report.why = f"{report.why}; {narrowed}" if report.why else narrowed
            report.state = CheckState.DIFFERENT if report.differences else CheckState.SKIPPED
        if not report.differences and are_all(one.kinds for one in self.unjudged):
            report.state = CheckState.SKIPPED
            report.why = "any difference can be right: " + "; ".join(dict.fromkeys(one.why for one in self.unjudged))
