"""`ticdc-dump size`: what a deployment will need, from its shape. It connects to nothing.

    exit code  0 done    2 wrong usage    3 a shape, a sink or settings that cannot be sized

How it is computed, and from which measurements, lives in `sidecar/report`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sidecar.cli.usage import Command, Use
from sidecar.shared.model.messages import ReadWith

if TYPE_CHECKING:
    from rich.console import RenderableType

    from sidecar.report.sizing import SizedFigure, SizedLoad, SizedSettings, Sizes
    from sidecar.shared.config import Config

DEFAULT_SINK = "kafka"
_UNITS = {"k": 10, "m": 20, "g": 30, "t": 40}


def size(
    rows: Annotated[int, typer.Option("--rows", help="Rows of all tables that a dump reads.")],
    row_bytes: Annotated[int, typer.Option("--row-bytes", help="Mean bytes of a row's values.")],
    tables: Annotated[int, typer.Option("--tables", help="Tables of the changefeed.")],
    writes: Annotated[int, typer.Option("--writes", help="Row changes a second, of the whole changefeed.")],
    changing_tables: Annotated[
        int, typer.Option(help="Tables with a change within 0.2 seconds. Default, as 0: as many as the changes of that time can be in.")
    ] = 0,
    sink: Annotated[
        list[str] | None,
        typer.Option(help="A sink: its URI, or a name such as kafka, file:parquet or iceberg. May be repeated (default: kafka)."),
    ] = None,
    hours: Annotated[float, typer.Option(help="Hours for which a sink may be away (the log), or the sidecar (Kafka).")] = 8.0,
    message_bytes: Annotated[int, typer.Option(help="Mean bytes of a change's message. Default, as 0: 1.4 times the row.")] = 0,
    largest_row_bytes: Annotated[int, typer.Option(help="Bytes of the largest row. Default, as 0: all are like the mean.")] = 0,
    rows_per_second: Annotated[int, typer.Option(help="The pace of the dump, rows a second. Default, as 0: none.")] = 0,
    read_with: Annotated[ReadWith | None, typer.Option(help="How a dump reads (default: sql).")] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", help="Take bounds, and sinks unless --sink is given, from these settings (TOML).", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Print what a deployment will need: cores, memory, disk, etcd, Kafka, load on TiDB, time of a dump. Connects to nothing."""
    from sidecar.cli.terminal import console_for
    from sidecar.report.sizing import SizedLoad, SizedSettings, sink_named, sized
    from sidecar.shared.config import read_config

    settings = read_config(config) if config else None
    sinks = sink or (settings.sinks if settings else (DEFAULT_SINK,))
    load = SizedLoad(
        rows, row_bytes, tables, writes,
        sinks=tuple(map(sink_named, sinks)), changing_tables=changing_tables, hours=hours, message_bytes=message_bytes,
        largest_row_bytes=largest_row_bytes, rows_a_s=rows_per_second,
        read_with=read_with or (settings.dump.read_with if settings else ReadWith.SQL),
        settings=_settings(settings) if settings else SizedSettings(),
    )  # fmt: skip
    sizing = sized(load)
    if as_json:
        typer.echo(json.dumps(to_json(load, sizing)))
        return
    console = console_for(as_json=False)
    for part in views(sizing):
        console.print(part, highlight=False, markup=False)


def _settings(config: Config) -> SizedSettings:
    from sidecar.report.sizing import SizedSettings

    dump, memory = config.dump, config.spark.memory
    return SizedSettings(
        spark_bytes=int(memory[:-1]) << _UNITS[memory[-1].lower()],
        held_bytes_max=config.log.held_bytes_max,
        queue_bytes_max=getattr(config, config.feed).queue_bytes_max,
        chunk_bytes_max=dump.chunk_bytes_max,
        chunk_rows=dump.chunk_rows,
        readers=dump.readers,
        window_chunks=dump.window_chunks_max,
        lease_s=config.etcd.lease_s,
    )


def to_json(load: SizedLoad, sizes: Sizes) -> dict[str, Any]:
    """Bytes, seconds and cores as numbers: `figures` by their keys."""
    from sidecar.report.sizing import ACCURACY

    return {
        "ok": True,
        "sinks": list(load.sinks),
        "changing_tables": load.changing,
        "message_bytes": load.message,
        "figures": {
            one.key: {"value": one.value, "unit": one.unit, "basis": one.basis.value, "from": one.made_from} for one in sizes.figures
        },
        "limits": list(sizes.limits),
        "accuracy": ACCURACY,
    }


def views(sizes: Sizes) -> list[RenderableType]:
    """A table of the figures, then what limits them and how exact they are."""
    from sidecar.cli.fitted import FittedColumn, FittedTable
    from sidecar.report.sizing import ACCURACY

    columns = [
        FittedColumn("of", drop_order=1), FittedColumn("need", folds=True), FittedColumn("value", number=True),
        FittedColumn("basis"), FittedColumn("from", folds=True),
    ]  # fmt: skip
    return [FittedTable(columns, list(_rows(sizes.figures))), "", *sizes.limits, "", ACCURACY]


def _rows(figures: Sequence[SizedFigure]) -> list[list[str]]:
    groups = [""] + [one.group for one in figures]
    return [
        [one.group if one.group != before else "", one.name, shown(one.value, one.unit), one.basis.value, one.made_from]
        for before, one in zip(groups, figures, strict=False)
    ]


def shown(value: float, unit: str) -> str:
    """A value with its unit, as people read it."""
    from sidecar.report.figures import amount, duration

    match unit:
        case "bytes":
            return amount(value)
        case "s" if value < 10:
            return f"{value:.2f} s"
        case "s" | "CPU s":
            return duration(value)
        case "cores" | "a second":
            return f"{value:.2f} {unit}"
        case _:
            return f"{value:,.0f} {unit}"


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command(name="size", cls=Command, rich_help_panel=Use.PREPARE)(size)
