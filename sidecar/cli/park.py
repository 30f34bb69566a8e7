"""`ticdc-dump park`: let the stream pass a message at which it has stopped, because nothing can read it.

Text for people, `--json` one object for programs. What that means lives in sidecar/shared/log/parked.py.

    exit code  0 done        2 wrong usage        3 refused, or an error
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sidecar.cli.skip import check_owner, user
from sidecar.cli.usage import Command, Use

if TYPE_CHECKING:
    from sidecar.shared.log.parked import Parked, StoppedAt
    from sidecar.shared.log.storage import Folder
    from sidecar.shared.model.nouns import TableName

SHOWN_BYTES = 300
"""Of a message's key and value; `--json` has all of them."""


def park(
    config: Annotated[Path, typer.Option("--config", help="The sidecar's settings (TOML): which log.")],
    table: Annotated[
        list[str] | None, typer.Option(help="A table that the message may have changed, as SCHEMA.TABLE. May be repeated.")
    ] = None,
    every: Annotated[bool, typer.Option("--every-table", help="Nobody knows which: each table of the changefeed.")] = False,
    show: Annotated[bool, typer.Option("--list", help="Show what has been parked, and why.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Let the stream pass a message that nothing can read. Alone: show the message at which it has stopped.

    The message stays in the log's folder, parked/, with its bytes and the reason. What it changed is missing in the outputs: the tables
    that you name are incomplete from there on, until `dumpstart --holes` has read them again. A message that holds a DDL cannot be read
    again: look at its bytes first. Correct the cause where you can, and start the sidecar again: a message that is parked stays so.
    """
    from sidecar.shared.config import read_config
    from sidecar.shared.errors import RefusedRequest
    from sidecar.shared.log.parked import Parked, read_parked, read_stopped
    from sidecar.shared.log.parked import park as park_message
    from sidecar.shared.log.storage import open_folder

    if sum((show, bool(table), every)) > 1:
        raise typer.BadParameter("give --table, or --every-table, or --list, or none of them; see --help")
    settings = read_config(config)
    os.umask(int(settings.files.umask, 8))
    log = open_folder(settings.log.uri)
    stopped = read_stopped(log)
    if show:
        _print(read_parked(log), as_json=as_json)
    elif not (table or every):
        _show(stopped, as_json=as_json)
    elif stopped is None:
        why = f"the stream of log {log} has not stopped at a message"
        raise RefusedRequest(why, hint="see the sidecar's own error, or run ticdc-dump check --config FILE")
    else:
        check_owner(log, "park")
        parked = Parked(stopped, None if every else _known(log, table or []), user(), int(time.time() * 1000))
        new = park_message(log, parked)
        _print([parked], as_json=as_json)
        if not as_json:
            typer.echo("Start the sidecar again; dumpstart --holes reads these tables when it runs." if new else "It was parked before.")


def _known(log: Folder, names: list[str]) -> tuple[TableName, ...]:
    """Raises RefusedRequest for one that the log does not have: a hole of it would be none."""
    from sidecar.shared.errors import RefusedRequest, nearest
    from sidecar.shared.log.manifests import last_manifest
    from sidecar.shared.model.nouns import carried
    from spark_merge.log.read import LoggedSchemas

    last = last_manifest(log)
    there = {str(name): name for name in carried(LoggedSchemas(log, last.next_schemas or last.schemas))} if last is not None else {}
    for name in names:
        if name not in there:
            raise RefusedRequest(
                f"the log has no table {name}{nearest(name, there)}",
                hint="name it as SCHEMA.TABLE, as dumpquery does; or give --every-table",
            )
    return tuple(there[name] for name in dict.fromkeys(names))


def _show(stopped: StoppedAt | None, *, as_json: bool) -> None:
    from sidecar.shared.log.parked import stopped_to_json

    if as_json:
        typer.echo(json.dumps({"stopped_at": None if stopped is None else stopped_to_json(stopped)}))
    elif stopped is None:
        typer.echo("the stream has not stopped at a message")
    else:
        typer.echo(f"{_looks(stopped)}\n\nto pass it: ticdc-dump park --config FILE --table SCHEMA.TABLE, or --every-table")


def _print(parked: list[Parked], *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({"parked": [one.to_json() for one in parked]}))
        return
    for one in parked:
        tables = "every table" if one.tables is None else ", ".join(map(str, one.tables))
        typer.echo(f"parked {one.stopped.message.at()} for {tables} [{one.by}]: {one.stopped.error}")
    if not parked:
        typer.echo("no message has been parked")


def _looks(stopped: StoppedAt) -> str:
    """The bytes as far as they are text; never what a terminal would carry out."""
    parts = ((name, part) for name, part in (("key", stopped.key), ("value", stopped.value)))
    lines = (
        f"{name}: " + ("null" if part is None else f"{len(part)} bytes: {part[:SHOWN_BYTES].decode('utf-8', 'backslashreplace')!a}")
        for name, part in parts
    )
    return "\n".join((stopped.error, "", *lines))


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command(name="park", cls=Command, rich_help_panel=Use.RARE)(park)
