"""`ticdc-dump replay` plays a recording in the place of a cluster; `ticdc-dump demo` makes one first, and needs nothing but this package.

    exit code  0 the output equals the recorded tables    1 it differs    2 wrong usage    3 an error that names the cause and the way out

How a recording is played lives in `sidecar/replay`.
"""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sidecar.cli.dump_commands import DeliveryBound, RowsPerSecond
from sidecar.cli.usage import Command, Use

if TYPE_CHECKING:
    from sidecar.replay.report import ReplaySettings

EXIT_DIFFERENT = 1


class ReplayBrackets(StrEnum):
    RECORDED = "recorded"
    WATERMARK = "watermark"
    SNAPSHOT = "snapshot"


def replay(
    recording: Annotated[Path, typer.Argument(help="Folder of a recording (recording.json, truth/, schema/, kafka/).")],
    feed: Annotated[
        str | None, typer.Option(help="The recording's changefeed to play, kv (raw key-values) or binlog (TiDB-Binlog's pumps).")
    ] = None,
    brackets: Annotated[
        ReplayBrackets, typer.Option(help="recorded: the dump that really ran; watermark or snapshot: a dump of our own.")
    ] = ReplayBrackets.RECORDED,
    chunk_rows: Annotated[int, typer.Option(min=1, help="Rows a chunk SELECT asks for (not with recorded brackets).")] = 1000,
    tables: Annotated[str, typer.Option(help="Tables to dump, as TiCDC table rules: shop.*,!shop.event_*")] = "*.*",
    schedule_seed: Annotated[int, typer.Option(help="Decides interleaving, moments of reads and marks, pauses, restarts, crashes.")] = 0,
    crashes: Annotated[
        int, typer.Option(min=0, help="How often the sidecar dies between two durable steps; with --speed spread over the recording.")
    ] = 0,
    resends: Annotated[int, typer.Option(min=0, help="How often TiCDC restarts and sends the tail of its lanes again.")] = 0,
    speed: Annotated[float | None, typer.Option(min=0.1, help="Recorded seconds a second; default: as fast as it goes.")] = None,
    sink: Annotated[list[str] | None, typer.Option(help="Sink URI, may be repeated; default: file://OUT/output?format=jsonl")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the log and the default sink; default: out/NAME-FEED-BRACKETS.")] = None,
    master: Annotated[str, typer.Option(help="Spark master.")] = "local[*]",
    worker_rows: Annotated[
        int | None, typer.Option(min=0, help="Live rows of a batch up to which it never runs on Spark; default: 20,000; 0: all batches do.")
    ] = None,
    rows_per_second: RowsPerSecond = None,
    delivery_bound_seconds: DeliveryBound = None,
    report: Annotated[Path | None, typer.Option(help="Write the report of the dump to this file (HTML), as a sidecar does.")] = None,
    key_life: Annotated[
        bool, typer.Option("--key-life", help="Tell the life of one key that a live change has replaced in a chunk.")
    ] = False,
    verify: Annotated[bool, typer.Option(help="Compare the output with the recorded tables.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Play a recorded TiCDC stream with a dump in the middle of it, and compare the merged output with the recorded tables."""
    from sidecar.replay.report import ReplaySettings
    from sidecar.shared.model.messages import Pace
    from sidecar.shared.ticdc.table_rules import split_rules
    from spark_merge.delivery.places import WORKER_ROWS

    settings = ReplaySettings(
        recording, feed=feed, brackets=brackets.value, chunk_rows=chunk_rows, tables=tuple(split_rules(tables)), seed=schedule_seed,
        crashes=crashes, resends=resends, speed=speed, sinks=tuple(sink or ()), out=out, master=master, verify=verify,
        pace=Pace(rows_per_s=rows_per_second or 0, delivery_bound_s=delivery_bound_seconds or 0.0),
        worker_rows=WORKER_ROWS if worker_rows is None else worker_rows, report=report, key_life=key_life,
    )  # fmt: skip
    _play(settings, as_json=as_json)


def demo(
    out: Annotated[Path, typer.Option(help="Folder for what it writes: demo-recording, demo (log and output), demo-report.html.")] = Path(
        "out"
    ),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Dump 110,000 rows beside a busy stream, through a crash, and compare the output with its source. No server is needed."""
    from sidecar.replay.busy import make_busy_recording
    from sidecar.replay.report import ReplaySettings
    from sidecar.shared.model.messages import Pace

    recording = out / "demo-recording"
    make_busy_recording(recording)
    settings = ReplaySettings(
        recording, brackets=ReplayBrackets.WATERMARK.value, chunk_rows=2000, seed=5, crashes=1, speed=1.0, out=out / "demo",
        pace=Pace(rows_per_s=6500, delivery_bound_s=2.0), report=out / "demo-report.html", key_life=True,
    )  # fmt: skip
    _play(settings, as_json=as_json)


def _play(settings: ReplaySettings, *, as_json: bool) -> None:
    """Ends the command with its exit code."""
    from sidecar.cli.terminal import View, console_for
    from sidecar.cli.views import ReplayLooks, outcome
    from sidecar.replay.replay import run

    console, looks = console_for(as_json=as_json), ReplayLooks()
    with View(console) as view:
        done = run(settings, lambda status: view.show(looks.look(status)))
    if as_json:
        typer.echo(json.dumps(done.to_json()))
    for part in outcome(done):
        console.print(part, highlight=False, soft_wrap=True)
    raise typer.Exit(0 if done.ok else EXIT_DIFFERENT)


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.command(name="replay", cls=Command, rich_help_panel=Use.RARE)(replay)
    app.command(name="demo", cls=Command, rich_help_panel=Use.RARE)(demo)
