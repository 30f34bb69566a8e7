"""What people see while something runs: in a terminal one picture, redrawn in place; elsewhere, for logs and pipes, a line every few
seconds and at every change of kind. Both are made of the same `TerminalLook`, so that a log says what the terminal showed.

What is looked at is not known here. Texts are shown as they are, never as markup, and without control characters. What ended a command
is shown here too.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from io import TextIOWrapper
from time import monotonic
from typing import IO, Any, Literal, cast

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from sidecar.cli.usage import error_json
from sidecar.shared.errors import TicdcDumpError
from sidecar.shared.model.nouns import physical_ms
from sidecar.shared.process.printable import printable

PLAIN_LINE_EVERY_S = 2.0
PLAIN_WIDTH = 200
"""Columns where there is no terminal, and COLUMNS does not say how many: lines are not folded."""
REDRAWN_A_SECOND = 8
_BLANKS_AT_END = re.compile(r" +(?=\n)")


class _Printing(Console):
    """Its own control sequences (colours, the place of a picture) pass; what is in a text does not."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)


class _Trimmed:
    """A file whose lines end where their text does: tables fill theirs with blanks, which pipes and logs would keep."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def write(self, text: str) -> int:
        return self._file.write(_BLANKS_AT_END.sub("", text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def console_for(*, as_json: bool) -> Console:
    """With `as_json` it says nothing: the one JSON object is printed beside it. NO_COLOR, where it is not empty: no colours, and nothing
    that stands for them. Characters that the terminal's encoding lacks become question marks."""
    colors: Literal["auto"] | None = None if os.environ.get("NO_COLOR") else "auto"
    in_terminal = sys.stdout.isatty()
    file = None if in_terminal else cast("IO[str]", _Trimmed(sys.stdout))
    columns = os.environ.get("COLUMNS", "")
    plain_width = int(columns) if columns.isdecimal() and int(columns) else PLAIN_WIDTH
    printing = _Printing(quiet=as_json, width=None if in_terminal else plain_width, color_system=colors, file=file)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    return printing


def tell(error: TicdcDumpError, *, reason: str, as_json: bool) -> None:
    """What ended a command: for people on standard error, for programs as one object. `reason`: one word for programs."""
    if as_json:
        typer.echo(error_json(reason, str(error)))
    else:
        typer.echo(f"error: {printable(str(error))}", err=True)


@dataclass(frozen=True, slots=True)
class TerminalLook:
    """One moment. `kind`: a line reports a change of it at once. Either `picture` or `line` is called, or neither."""

    kind: object
    picture: Callable[[], RenderableType]
    line: Callable[[], str]


class View:
    """`every_s`: between two lines of one kind. `transient`: what a terminal showed goes with the view, where a report follows."""

    def __init__(
        self, console: Console, now_s: Callable[[], float] = monotonic, *, every_s: float = PLAIN_LINE_EVERY_S, transient: bool = False
    ) -> None:
        from rich.live import Live

        in_terminal = console.is_terminal and not console.is_dumb_terminal and not console.quiet
        self._live = Live(console=console, refresh_per_second=REDRAWN_A_SECOND, transient=transient) if in_terminal else None
        self._console, self._now_s, self._every_s = console, now_s, every_s
        self._kind: object = None
        self._shown_s = 0.0

    def __enter__(self) -> View:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *ended: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, look: TerminalLook) -> None:
        if self._live is not None:
            self._live.update(look.picture())
        elif look.kind != self._kind or self._now_s() - self._shown_s >= self._every_s:
            self._kind, self._shown_s = look.kind, self._now_s()
            self._console.print(look.line(), highlight=False, markup=False, soft_wrap=True)


def moment(ts: int) -> str:
    """A TSO as UTC time; a dash for none."""
    return datetime.fromtimestamp(physical_ms(ts) / 1000, UTC).strftime("%H:%M:%S.%f")[:-3] if ts else "-"
