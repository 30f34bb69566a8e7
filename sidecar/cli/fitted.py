"""Tables that fit their terminal. What takes the least from the reader gives way first: the bar, then the columns that say they may, one
after another; then the texts that may be folded take several lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

BAR_WIDTH_MIN, BAR_WIDTH_MAX = 10, 60
PADDING = 2
"""Columns of the terminal between two of the table."""
WIDTH_UNBOUND = 10_000
"""To ask what a table would take."""


@dataclass(frozen=True, slots=True)
class FittedColumn:
    """`goes`: its turn to give way, the lowest first; 0 for one that stays."""

    heading: str
    number: bool = False
    folds: bool = False
    goes: int = 0


@dataclass(frozen=True, slots=True)
class Bar:
    """A cell of the one column of bars, as wide as the others leave room for."""

    total: float
    done: float


@dataclass(frozen=True, slots=True)
class FittedTable:
    """`rows`: a cell a column, each."""

    columns: Sequence[FittedColumn]
    rows: Sequence[Sequence[RenderableType | Bar]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        bars = {at for row in self.rows for at, cell in enumerate(row) if isinstance(cell, Bar)}
        shown = [at for at in range(len(self.columns)) if at not in bars]
        room = self._room(shown, console, options) - PADDING
        if bars and room >= BAR_WIDTH_MIN:
            yield self._table(range(len(self.columns)), min(room, BAR_WIDTH_MAX))
            return
        for at in sorted((at for at in shown if self.columns[at].goes), key=lambda at: self.columns[at].goes):
            if self._room(shown, console, options) >= 0:
                break
            shown.remove(at)
        yield self._table(shown)

    def _room(self, shown: Sequence[int], console: Console, options: ConsoleOptions) -> int:
        """Columns of the terminal that are left beside these of the table; less than 0 where they do not fit."""
        return options.max_width - console.measure(self._table(shown), options=options.update(width=WIDTH_UNBOUND)).maximum

    def _table(self, shown: Sequence[int], bar_width: int = 0) -> Table:
        found = Table(box=None, padding=(0, PADDING, 0, 0), pad_edge=False, header_style="dim")
        for at in shown:
            column = self.columns[at]
            found.add_column(column.heading, justify="right" if column.number else "left", no_wrap=not column.folds, overflow="fold")
        for row in self.rows:
            found.add_row(*(_drawn(row[at], bar_width) for at in shown))
        return found


def facts_table(facts: Iterable[tuple[str, str | RenderableType]]) -> Table:
    """A name and a value a line; long values fold below their own beginning. Texts are never markup."""
    found = Table.grid(padding=(0, PADDING))
    found.add_column(no_wrap=True, style="dim")
    found.add_column(overflow="fold")
    for name, value in facts:
        found.add_row(name, Text(value) if isinstance(value, str) else value)
    return found


def _drawn(cell: RenderableType | Bar, bar_width: int) -> RenderableType:
    return ProgressBar(total=cell.total, completed=cell.done, width=bar_width) if isinstance(cell, Bar) else cell
