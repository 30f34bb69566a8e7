"""Tables that fit the width of the terminal.

Where the width is too small, the table drops its bars first, then the columns that have a drop order, one after another. If it is still too
wide, the texts of the columns that fold take several lines. Where that leaves them less than FOLDED_MIN, each row is a paragraph: the texts
that fold, and below them the other values with their headings. So no text vanishes, however narrow the terminal is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

BAR_WIDTH_MIN, BAR_WIDTH_MAX = 10, 60
PADDING = 2
"""Characters between two columns."""
FOLDED_MIN = 12
"""Characters of a text that folds."""
PERCENT_WIDTH = 5
WIDTH_UNBOUND = 10_000
"""Characters. It is wider than any table, to measure what a table needs."""


@dataclass(frozen=True, slots=True)
class FittedColumn:
    """`drop_order`: the lowest is dropped first; a column with 0 is never dropped."""

    heading: str
    number: bool = False
    folds: bool = False
    drop_order: int = 0


@dataclass(frozen=True, slots=True)
class Bar:
    """A cell of the column of bars, as wide as the other columns leave room for."""

    total: int
    done: int

    @classmethod
    def of_rows(cls, rows: int, *, estimated: int, complete: bool) -> Bar:
        """Of a table's dump. The estimate may be 0 or too small; a complete table is full all the same."""
        total = max(estimated, rows, 1)
        return cls(total, total if complete else rows)


@dataclass(frozen=True, slots=True)
class OverallBar:
    """A percentage, and where there is room a bar beside it."""

    percent: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        text, room = f"{self.percent} %", options.max_width - PERCENT_WIDTH - PADDING
        if room < BAR_WIDTH_MIN:
            yield Text(text)
            return
        line = Table.grid(padding=(0, PADDING, 0, 0))
        line.add_row(Text(f"{text:>{PERCENT_WIDTH}}"), ProgressBar(total=100, completed=self.percent, width=min(room, BAR_WIDTH_MAX)))
        yield line


@dataclass(frozen=True, slots=True)
class FittedTable:
    """Each of `rows` has a cell for each column. Texts are never markup."""

    columns: Sequence[FittedColumn]
    rows: Sequence[Sequence[RenderableType | Bar]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        bars = {at for row in self.rows for at, cell in enumerate(row) if isinstance(cell, Bar)}
        shown = [at for at in range(len(self.columns)) if at not in bars]
        room = self._room(shown, console, options) - PADDING
        if bars and room >= BAR_WIDTH_MIN:
            yield self._table(range(len(self.columns)), min(room, BAR_WIDTH_MAX))
            return
        for at in sorted((at for at in shown if self.columns[at].drop_order), key=lambda at: self.columns[at].drop_order):
            if self._room(shown, console, options) >= 0:
                break
            shown.remove(at)
        if self._folds(shown, console, options):
            yield self._table(shown)
        else:
            yield from self._paragraphs(shown)

    def _folds(self, shown: Sequence[int], console: Console, options: ConsoleOptions) -> bool:
        """Whether the texts that fold have room enough."""
        folding = [at for at in shown if self.columns[at].folds]
        fixed = [at for at in shown if at not in folding]
        return self._room(shown, console, options) >= 0 or self._room(fixed, console, options) >= len(folding) * (FOLDED_MIN + PADDING)

    def _paragraphs(self, shown: Sequence[int]) -> Iterable[RenderableType]:
        for row in self.rows:
            for at in shown:
                if self.columns[at].folds:
                    yield _cell(row[at])
            values = [(self.columns[at].heading, row[at]) for at in shown if not self.columns[at].folds and str(row[at])]
            parts = [Text.assemble((f"{heading} " if heading else "", "dim"), _text(value)) for heading, value in values]
            yield Padding(Text(" " * PADDING).join(parts), (0, 0, 0, PADDING))

    def _room(self, shown: Sequence[int], console: Console, options: ConsoleOptions) -> int:
        """Characters that these columns leave of the terminal's width; negative if they do not fit."""
        return options.max_width - console.measure(self._table(shown), options=options.update(width=WIDTH_UNBOUND)).maximum

    def _table(self, shown: Sequence[int], bar_width: int = 0) -> Table:
        table = Table(box=None, padding=(0, PADDING, 0, 0), pad_edge=False, header_style="dim")
        for at in shown:
            column = self.columns[at]
            table.add_column(column.heading, justify="right" if column.number else "left", no_wrap=not column.folds, overflow="fold")
        for row in self.rows:
            table.add_row(*(_cell(row[at], bar_width) for at in shown))
        return table


def facts_table(facts: Iterable[tuple[str, str | RenderableType]]) -> Table:
    """A name and a value in each line; a long value continues below its beginning. Texts are never markup."""
    table = Table.grid(padding=(0, PADDING))
    table.add_column(no_wrap=True, style="dim")
    table.add_column(overflow="fold")
    for name, value in facts:
        table.add_row(_cell(name), _cell(value))
    return table


def _text(cell: RenderableType | Bar) -> Text:
    return cell if isinstance(cell, Text) else Text(str(cell))


def _cell(cell: RenderableType | Bar, bar_width: int = 0) -> RenderableType:
    match cell:
        case Bar(total, done):
            return ProgressBar(total=total, completed=done, width=bar_width)
        case str():
            return Text(cell)
        case _:
            return cell
