"""A replay for people: its looks while it runs, made of `ReplayStatus` alone, and the verdict at its end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from rich.console import Group, RenderableType
from rich.text import Text

from sidecar.cli.fitted import Bar, FittedColumn, FittedTable, facts_table
from sidecar.cli.terminal import TerminalLook, moment
from sidecar.replay.judge.table_replay import Findings
from sidecar.replay.judge.verify import VerifyVerdict
from sidecar.replay.report import ReplayReport, crashes_text
from sidecar.replay.status import ReplayStatus
from sidecar.shared.model.nouns import TableName
from sidecar.shared.model.progress import TableProgress

TABLE_COLUMNS = (
    FittedColumn("table", folds=True),
    FittedColumn("dump"),
    FittedColumn("rows", number=True),
    FittedColumn("chunks", number=True),
    FittedColumn(""),
)
VERDICT_COLUMNS = (
    FittedColumn("table", folds=True),
    *(FittedColumn(heading, number=True) for heading in ("rows", "log", "dump", "dropped", "truths")),
    FittedColumn("verdict"),
)
RATE_OVER_S = 1.5
"""Segments come about once a second of recorded time: a shorter look sees one or none."""


class _Rates:
    """Per second, from one shown status to the next."""

    def __init__(self) -> None:
        self._before: ReplayStatus | None = None
        self.changes_s = self.dump_rows_s = 0.0

    def take(self, status: ReplayStatus) -> None:
        if self._before is not None and status.elapsed_s - self._before.elapsed_s >= RATE_OVER_S:
            seconds = status.elapsed_s - self._before.elapsed_s
            self.changes_s = (status.changes - self._before.changes) / seconds
            self.dump_rows_s = (status.dump_rows - self._before.dump_rows) / seconds
        elif self._before is not None:
            return
        self._before = status


class ReplayLooks:
    """Looks at one replay, in the order of its statuses: rates are from one to a later one."""

    def __init__(self) -> None:
        self._rates = _Rates()

    def look(self, status: ReplayStatus) -> TerminalLook:
        self._rates.take(status)
        return TerminalLook(status.phase, picture=partial(self._picture, status), line=partial(self._line, status))

    def _line(self, status: ReplayStatus) -> str:
        done = sum(table.complete_at is not None for table in status.progress.tables) if status.progress else 0
        state = f"{status.progress.state} {done}/{len(status.progress.tables)} tables" if status.progress else "none"
        parts = (
            f"{status.elapsed_s:6.1f}s {status.phase:<10} resolved {moment(status.resolved_ts):<12}",
            f"{status.changes:,} live changes ({self._rates.changes_s:,.0f}/s)",
            f"{status.dump_rows:,} dump rows ({self._rates.dump_rows_s:,.0f}/s), {status.dropped:,} dropped in windows",
            f"dump {state}",
            f"{status.open_windows} windows open",
            f"delivered {status.delivered}/{status.logged}",
            *([crashes_text(status.crashes)] if status.crashes else []),
        )
        return "  ".join(parts)

    def _picture(self, status: ReplayStatus) -> RenderableType:
        tables = status.progress.tables if status.progress else ()
        return Group(facts_table(self._facts(status)), FittedTable(TABLE_COLUMNS, [_cells(table, status) for table in tables]))

    def _facts(self, status: ReplayStatus) -> Iterable[tuple[str, str]]:
        yield "phase", f"{status.phase}, {status.elapsed_s:.0f} s, {100 * status.played:.0f} % of the recording"
        yield "resolved", moment(status.resolved_ts)
        yield "live changes", f"{status.changes:,}  ({self._rates.changes_s:,.0f}/s)  repeats dropped {status.repeats:,}"
        yield "dump rows", f"{status.dump_rows:,}  ({self._rates.dump_rows_s:,.0f}/s)  dropped in windows {status.dropped:,}"
        yield "windows open", str(status.open_windows)
        yield "segments", f"{status.delivered} of {status.logged} delivered"
        if status.crashes:
            yield "crashes", str(status.crashes)


def _cells(table: TableProgress, status: ReplayStatus) -> Sequence[RenderableType | Bar]:
    bar = Bar.of_rows(table.rows, estimated=status.estimates.get(table.table, 0), complete=table.complete_at is not None)
    return str(table.table), bar, f"{table.rows:,}", f"{table.chunks:,}", _state(table, status)


def _state(table: TableProgress, status: ReplayStatus) -> str:
    if table.complete_at is not None:
        return f"complete at {moment(table.complete_at)}"
    return str(status.progress.state) if status.progress and table.chunks else "waiting"


def outcome(report: ReplayReport) -> Iterable[RenderableType]:
    """The verdict, what is wrong, and the summary. Texts are never markup."""
    if report.verdict is not None:
        yield verdict_table(report.verdict, report.dropped)
        yield from map(Text, findings(report.verdict))
    yield Text(report.summary())


def verdict_table(verdict: VerifyVerdict, dropped: Mapping[TableName, int]) -> FittedTable:
    """The end of a replay: rows at the end, output rows from the log and from the dump, chunk rows dropped in windows,
    truth snapshots compared, and whether the table equalled every one of them."""
    rows: list[Sequence[RenderableType]] = []
    for table in verdict.tables:
        text = Text("equal", style="green") if table.equal else Text("DIFFERENT", style="bold red")
        counts = (table.rows, table.from_log, table.from_dump, dropped.get(table.table, 0), table.snapshots_compared)
        rows.append((str(table.table), *(f"{count:,}" for count in counts), text))
    return FittedTable(VERDICT_COLUMNS, rows)


def findings(verdict: VerifyVerdict) -> Iterable[str]:
    """What is wrong, a line a key, and why a table could not be compared."""
    for table in verdict.tables:
        if table.reason is not None:
            yield f"{table.table}: {table.reason}"
        for kind in ("missing", "extra", "different", "went_back", "explained"):
            of_kind: Findings = getattr(table, kind)
            if of_kind.count:
                yield f"{table.table}: {of_kind.count} {kind.replace('_', ' ')}"
            yield from (f"  {', '.join(sample.key)} at {sample.at_ts}: {sample.what}" for sample in of_kind.samples)
    for name, place in verdict.unexpected_rows.items():
        yield f"{name}: must not be in the output ({place})"
