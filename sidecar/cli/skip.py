"""`ticdc-dump skip`: pass rows of the log that cannot be decoded, which hold delivery until somebody decides what is to become of them.

Text for people, `--json` one object for programs. What may be skipped, and what that means, lives in spark_merge/log/undecodable.py and
sidecar/shared/log/skips.py.

    exit code  0 done        2 wrong usage        3 refused, or an error
"""

from __future__ import annotations

import getpass
import json
import os
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sidecar.cli.usage import Command, Use

if TYPE_CHECKING:
    from sidecar.shared.log.skips import Skip
    from sidecar.shared.log.storage import Folder


def skip(
    config: Annotated[Path, typer.Option("--config", help="The sidecar's settings (TOML): which log, and how it is decoded.")],
    seq: Annotated[
        int | None, typer.Option(min=0, help="The segment, as the error names it. Alone: show what of it cannot be decoded.")
    ] = None,
    ordinal: Annotated[list[int] | None, typer.Option(min=0, help="The row of the segment that is to be skipped. May be repeated.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Skip all rows of the segment that cannot be decoded.")] = False,
    show: Annotated[bool, typer.Option("--list", help="Show what has been skipped, and why.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Skip rows that cannot be decoded in every output, so that delivery continues after them.

    The row stays in the log's folder, skips/SEGMENT-ORDINAL.json, with the message's bytes and the reason. The log, the metrics,
    dumpquery and a replay's report count it. A row that can be decoded is never skipped. What the row changed is missing in the outputs
    from then on: a dump of its key (dumpstart --keys) brings back a row that was inserted or updated, and removes one that was deleted.
    Correct the cause first: a row that is skipped stays skipped, also if a later version can decode it.
    """
    from sidecar.shared.config import read_config
    from sidecar.shared.log.skips import read_skips
    from sidecar.shared.log.storage import open_folder
    from sidecar.shared.model.nouns import Seq
    from spark_merge.log.undecodable import Decoding, leave_out, undecodable

    if show == (seq is not None) or (ordinal and every) or (seq is None and (ordinal or every)):
        raise typer.BadParameter("give --list, or --seq with --ordinal, with --all, or alone; see --help")
    settings = read_config(config)
    os.umask(int(settings.files.umask, 8))
    log, how = open_folder(settings.log.uri), Decoding(settings.kafka.server_tz, settings.kafka.ambiguous)
    if seq is None:
        _notify(read_skips(log), "skipped", as_json=as_json)
    elif not (ordinal or every):
        _notify(undecodable(log, Seq(seq), how), "undecodable", as_json=as_json)
    else:
        check_owner(log, "skip")
        done = leave_out(log, Seq(seq), None if every else ordinal, how, by=user(), now_ms=int(time.time() * 1000))
        _notify([result for result, _ in done], "skipped", as_json=as_json)
        if not as_json:
            new = sum(is_new for _, is_new in done)
            typer.echo(
                f"{new} skipped now, {len(done) - new} before. The merge worker continues when it tries again, within a minute or two."
            )


def check_owner(log: Folder, command: str) -> None:
    """What another user writes there the sidecar may not be able to read, and would end of. Raises RefusedRequest."""
    from sidecar.shared.errors import RefusedRequest

    if log.protocol == "file" and os.path.isdir(log.root) and (owner := os.stat(log.root).st_uid) != os.geteuid():
        raise RefusedRequest(
            f"the log {log} is user {owner}'s, and this is user {os.geteuid()}",
            hint=f'do it as the sidecar\'s user: runuser -u "$(id -nu {owner})" -- ticdc-dump {command} …',
        )


def user() -> str:
    """Who decides: user@host."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        name = f"uid {os.getuid()}"
    return f"{name}@{socket.gethostname()}"


def _notify(skips: list[Skip], what: str, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({what: [item.to_json() for item in skips]}))
        return
    for item in skips:
        typer.echo(f"{item.table} {item.op} at commit_ts {item.commit_ts}, {item}" + (f" [{item.by}]" if item.by else ""))
    if not skips:
        typer.echo("no row has been skipped" if what == "skipped" else "all rows of the segment can be decoded")


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command(name="skip", cls=Command, rich_help_panel=Use.RARE)(skip)
