"""`ticdc-dump pump`: a pump of TiDB-Binlog, until a signal or a request ends it (deploy/PUMP.md)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sidecar.cli.usage import Command, Use


def pump(config: Annotated[Path, typer.Option("--config", help="The pump's settings (TOML); see deploy/pump.example.toml.")]) -> None:
    """Run a pump of TiDB-Binlog: TiDB writes its binlogs to it, drainers pull them in the order of their commits."""
    import os

    from sidecar.pump.app import Pump
    from sidecar.pump.config import read_pump_config
    from sidecar.run.logs import defects_reported, log, set_up
    from sidecar.shared.process.descriptors import raise_limit
    from sidecar.shared.process.signals import end_on_signal

    raise_limit()
    settings = read_pump_config(config)
    os.umask(0o077)
    set_up(settings.logging)
    made = Pump(settings.pump, log.info)
    end_on_signal(made.stop)
    with defects_reported():
        made.run()


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command(name="pump", cls=Command, rich_help_panel=Use.RUN)(pump)
