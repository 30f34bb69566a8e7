"""`ticdc-dump check`: the preflight, for people line by line as it goes, with --json as one object at the end.

    exit code  0 nothing failed (there may be warnings)    3 the preflight itself broke
               1 something failed                        130 interrupted
               2 wrong usage

What is checked, and what each answer means, lives in `sidecar/preflight`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sidecar.cli.usage import Command, Use

if TYPE_CHECKING:
    from rich.text import Text

    from sidecar.preflight.preflight import PreflightReport
    from sidecar.shared.process.checks import Result

EXIT_FAILED, EXIT_DEFECT, EXIT_INTERRUPTED = 1, 3, 130
STYLES = {"ok": "green", "warning": "yellow", "failed": "bold red", "skipped": "dim"}
STATUS_WIDTH, NAME_WIDTH = 8, 22


def check(
    config: Annotated[Path, typer.Option("--config", help="The sidecar's settings (TOML); see deploy/config.example.toml.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print what each result is made of, too, as --json does.")] = False,
    no_write: Annotated[bool, typer.Option("--no-write", help="Probe by reading only: no key, no file, no row is written.")] = False,
    spark: Annotated[
        bool, typer.Option("--spark", help="Start a Spark session. Its tasks list the log and, if they read dumps, read from the source.")
    ] = False,
    standby: Annotated[
        bool, typer.Option("--standby", help="Check, by reading only, what a standby needs to take over. A standby does so itself.")
    ] = False,
    wait: Annotated[float, typer.Option(min=1.0, help="Seconds to wait for messages of the feed.")] = 15.0,
) -> None:
    """Check everything that would make a dump wrong or stuck, and name the setting to change."""
    from stamina import instrumentation

    from sidecar.cli.terminal import console_for
    from sidecar.preflight.preflight import preflight
    from sidecar.shared.process.checks import CheckOptions

    instrumentation.set_on_retry_hooks([])  # a retry is part of asking; the answer alone is for the user
    console = console_for(as_json=as_json)

    def shown(result: Result) -> None:
        for line in lines(result, verbose=verbose):
            console.print(line, soft_wrap=True)

    try:
        with console.status("") as under_way:  # in a terminal only, and gone at the end
            options = CheckOptions(write=not (no_write or standby), spark=spark, wait_s=wait, standby=standby)
            report = preflight(config, options, shown, lambda name: under_way.update(f"checking: {name}"))
    except KeyboardInterrupt:
        raise typer.Exit(EXIT_INTERRUPTED) from None
    if as_json:
        typer.echo(json.dumps(report.to_json()))
    else:
        console.print(summary(report, standby=standby), highlight=False)
    raise typer.Exit(exit_code(report))


def exit_code(report: PreflightReport) -> int:
    if report.defect:
        return EXIT_DEFECT
    return 0 if report.ok else EXIT_FAILED


def lines(result: Result, *, verbose: bool = False) -> Iterator[Text]:
    """A line a finding, the way out below it. `verbose`: with its detail."""
    from rich.text import Text

    name = result.name
    for finding in result.findings:
        head = Text(f"{finding.status.value:<{STATUS_WIDTH}}", style=STYLES[finding.status.value])
        yield head.append(f"{name:<{NAME_WIDTH}}", style="default").append(finding.what, style="default")
        for title, text in (("detail", finding.detail if verbose else ""), ("setting", finding.setting), ("what to do", finding.hint)):
            if text:
                yield Text(f"{'':<{STATUS_WIDTH}}{'  ' + title:<{NAME_WIDTH}}{text}")
        name = ""


def summary(report: PreflightReport, *, standby: bool = False) -> str:
    counts = ", ".join(f"{count} {status}" for status, count in report.counts().items() if count)
    ready = "a standby with these settings can take over" if standby else "a dump can run"
    verdict = ready if report.ok else "not ready: correct what failed, then check again"
    return f"{counts}: {verdict}"


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command(name="check", cls=Command, rich_help_panel=Use.PREPARE)(check)
