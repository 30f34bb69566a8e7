"""The history of operations for people, made of the service's messages alone. Texts of the server are never markup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.text import Text

from sidecar.cli.dump_view import STATE_STYLES
from sidecar.cli.fitted import FittedColumn, FittedTable
from sidecar.control.wire import KIND_NAMES, STATE_NAMES, scope_text
from sidecar.report.figures import asker_text, clock_time, duration
from ticdc_dump.v1 import control_pb2 as pb

HISTORY_WIDTH_MIN = 160
"""Columns below which an operation takes several lines."""
HISTORY_COLUMNS = (
    FittedColumn("started (UTC)"),
    FittedColumn("kind"),
    FittedColumn("id"),
    FittedColumn("result", folds=True),
    FittedColumn("rows", number=True),
    FittedColumn("time", number=True),
    FittedColumn("scope", folds=True),
    FittedColumn("requested by", folds=True),
)


def history_view(operations: Iterable[pb.Operation]) -> RenderableType:
    """Each with its later commands below it: a line for each, or, in a narrow terminal, a line and what it is about below that."""
    return _HistoryView(list(operations))


@dataclass(frozen=True, slots=True)
class _HistoryView:
    operations: Sequence[pb.Operation]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if options.max_width >= HISTORY_WIDTH_MIN:
            yield FittedTable(HISTORY_COLUMNS, [row for one in self.operations for row in _operation_rows(one)])
            return
        for one in self.operations:
            started, kind, result_id, result, rows, took, *about = _operation(one)
            yield Text(f"{started}  {kind}  {result_id}  {rows} {'row' if rows == '1' else 'rows'}  {took}")
            for detail in (result, *about, *_later(one)):
                yield Padding(detail, (0, 0, 0, 4))


def _operation_rows(one: pb.Operation) -> Iterable[Sequence[RenderableType]]:
    yield _operation(one)
    yield from (("", "", "", later, "", "", "", "") for later in _later(one))


def _operation(one: pb.Operation) -> tuple[str, str, Text, Text, str, str, Text, Text]:
    """What history_view shows of one, in the order of its columns."""
    state = STATE_NAMES[one.state]
    return (
        clock_time(one.started_ms),
        KIND_NAMES[one.kind],
        Text(one.id),
        Text(f"{state}: {one.result}" if one.result else state, style=STATE_STYLES.get(state, ""), overflow="fold"),
        f"{one.rows:,}",
        duration(one.seconds),
        Text(scope_text(one.scope), overflow="fold"),
        Text(asker_text(one.asked_by), overflow="fold"),
    )


def _later(one: pb.Operation) -> Iterable[Text]:
    """The commands that changed it, if there are any."""
    if one.commands:
        earlier = f"… {one.commands_before:,} earlier commands, " if one.commands_before else ""
        later = ", ".join(f"{command.command} {clock_time(command.at_ms)} by {asker_text(command.asked_by)}" for command in one.commands)
        yield Text(earlier + later, style="dim", overflow="fold")
