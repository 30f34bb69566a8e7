"""The command line. One function a command; what a command does lives elsewhere.

A module of commands loads what it takes to declare them and their options; what a command's body needs, the body imports. So `--help`
loads no gRPC, no Arrow and no rich, and nothing of a sidecar's insides (tests/unit/cli/test_quick.py).

Exit codes: 0 done (and, for a replay, equal to the truth); 1 the output differs from the truth; 2 wrong usage;
3 stopped by an error that is named with the way out; 130 interrupted.
"""

from __future__ import annotations

import gc
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import sidecar.cli.environment  # first: before gRPC is loaded
from sidecar.cli import check, completion, dump_commands, holes, init, maintain, park, pump, remove, replay, size, skip, tail
from sidecar.cli.usage import CONTEXT, Command, Commands, Use
from sidecar.shared.errors import TicdcDumpError

if TYPE_CHECKING:
    from sidecar.shared.config import Config

EXIT_ERROR = 3


ConfigPath = Annotated[Path, typer.Option("--config", help="The sidecar's settings (TOML); see deploy/config.example.toml.")]


app = typer.Typer(
    name="ticdc-dump",
    cls=Commands,
    context_settings=CONTEXT,
    help="Adds the existing rows to a running TiCDC changefeed, interleaved with the live changes.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _print_version(wanted_version: bool) -> None:
    if wanted_version:
        typer.echo(f"ticdc-dump {sidecar.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")] = False,
) -> None:
    """Adds the existing rows to a running TiCDC changefeed, interleaved with the live changes."""


def _begun(path: Path) -> Config:
    """What a process that stays begins with: its settings, the rights of its files, its log lines."""
    from sidecar.run.logs import set_up
    from sidecar.shared.config import read_config

    settings = read_config(path)
    os.umask(int(settings.files.umask, 8))
    set_up(settings.logging)
    return settings


@app.command(cls=Command, rich_help_panel=Use.RUN)
def run(config: ConfigPath) -> None:
    """Attach to a running changefeed: read it, deliver it to the sinks, and dump on request."""
    import sidecar.shared.process.plain_arrow  # noqa: F401  # before anything makes an array
    from sidecar.run.app import Sidecar
    from sidecar.run.logs import defects_reported
    from sidecar.shared.log.storage import log_folder
    from sidecar.shared.process.descriptors import raise_limit
    from sidecar.shared.process.signals import end_on_signal
    from spark_merge.sinks.registry import open_sinks, outputs_of, seen_from_here
    from spark_merge.sinks.spool.uri import spool_of

    def holds_rows(uri: str, log_id: str) -> bool:
        from spark_merge.sinks import registry

        return registry.holds_rows(uri, log_id=log_id)

    raise_limit()
    settings = _begun(config)
    if settings.spark.managed:
        open_sinks(settings.sinks, log_id="")  # what the worker could not open is reported before it is started
    uris = dict(zip(outputs_of(settings.sinks), settings.sinks, strict=True))
    known = {name: seen_from_here(uri, log_id="", elsewhere=not settings.spark.managed) for name, uri in uris.items()}
    sinks, targets = {name: why for name, (why, _) in known.items()}, {name: one for name, (_, one) in known.items() if one is not None}
    spool = spool_of(settings.sinks, log_folder(settings.log.uri))
    attached = Sidecar(settings, config, holds_rows=holds_rows, spool=spool, sinks=sinks, targets=targets)
    end_on_signal(attached.stop)
    with defects_reported(settings.logging):
        try:
            attached.run()
        finally:
            attached.close()


def _log_of(settings: Config) -> str:
    from sidecar.run.changefeed_watch import log_of

    return log_of(settings)


@app.command(cls=Command, rich_help_panel=Use.RUN)
def merge(
    config: ConfigPath,
    log_id: Annotated[str, typer.Option(help="The changefeed that owns the log, as the sidecar passes it; default: read from etcd.")] = "",
    epoch: Annotated[int | None, typer.Option(help="The owner's epoch that this worker serves; default: any.")] = None,
    end_with_stdin: Annotated[bool, typer.Option(help="End when standard input does.")] = False,
) -> None:
    """Run the Spark merge worker alone: it delivers the log to the sinks. `run` starts one unless spark.managed is false."""
    import sidecar.shared.process.plain_arrow  # noqa: F401  # before anything makes an array
    from sidecar.run.logs import defects_reported
    from sidecar.shared.log.disjoint import check_disjoint
    from sidecar.shared.log.identity import name_of, own_id
    from sidecar.shared.log.storage import log_folder
    from sidecar.shared.process.descriptors import raise_limit
    from sidecar.shared.process.signals import end_on_signal
    from spark_merge.delivery.batches import JobSettings
    from spark_merge.delivery.watchdog import Watchdog
    from spark_merge.verify.lateness import LATE_S
    from spark_merge.worker.source_server import source_server
    from spark_merge.worker.worker import Worker, WorkerSettings
    from spark_merge.worker.worker import end_with_stdin as watch_stdin

    raise_limit()
    settings = _begun(config)
    check_disjoint(settings.log.uri, settings.sinks)
    log_id = log_id or _log_of(settings)
    log, kafka = log_folder(settings.log.uri), settings.kafka
    job = JobSettings(log, server_tz=kafka.server_tz, ambiguous=kafka.ambiguous, epoch_max=epoch)
    spark, reading = settings.spark, None
    if settings.reads_on_spark:
        from spark_merge.worker.read_reach import reading_settings

        reading = reading_settings(settings)
    worker = Worker(
        WorkerSettings(
            *(job, settings.sinks, name_of(log_id, own_id(log)), spark.master, spark.memory, spark.worker_rows),
            source=source_server(settings.source),
            late_s=settings.dump.delivery_bound_s or LATE_S,
            reading=reading,
            idle_s=spark.idle_s,
        ),
        watched=Watchdog().watched,
        notice=logging.getLogger("ticdc-dump").warning,
    )
    if end_with_stdin:
        watch_stdin(worker)
    end_on_signal(worker.ending.set)
    with defects_reported(settings.logging):
        worker.run()


replay.register(app)
dump_commands.register(app)
init.register(app)
check.register(app)
size.register(app)
skip.register(app)
park.register(app)
holes.register(app)
tail.register(app)
maintain.register(app)
remove.register(app)
pump.register(app)
completion.register(app)


def tune_collector() -> None:
    """Changes are many small objects that are never part of a cycle: looking through them every 700 allocations costs a third
    of the envelope side's time (`make bench`)."""
    gc.set_threshold(50_000, 20, 50)


def main() -> None:
    """The entry point: errors of ours are printed in full, without a trace."""
    tune_collector()
    try:
        app()
    except TicdcDumpError as error:
        from sidecar.cli.terminal import tell

        tell(error, reason="error", as_json="--json" in sys.argv)
        raise SystemExit(EXIT_ERROR) from error
