"""`ticdc-dump tail`: what became of a table's rows, or of one row, out of the log; and what the sinks have of it.

Text for people, a line an event; `--json` one object a line for programs (deploy/TAIL.md names its fields). What an event is, and how a
sink's row is judged, lives in spark_merge/tail.

    exit code  0 done        1 a sink has another row than the log says        2 wrong usage        3 refused, or an error
             130 interrupted
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sidecar.cli.usage import Command, Use

if TYPE_CHECKING:
    from collections.abc import Callable

    from sidecar.shared.log.storage import Folder
    from spark_merge.tail.events import TailEvent
    from spark_merge.tail.shown import ShownValues
    from spark_merge.tail.stream import TableStream
    from spark_merge.tail.verdict import KeyVersions, SinkHas

EXIT_DIFFERENT, EXIT_INTERRUPTED = 1, 130
EVENTS_SHOWN = 50
VALUE_CHARS = 40


def tail(
    table: Annotated[str, typer.Argument(help="The table, as SCHEMA.TABLE.", show_default=False)],
    config: Annotated[Path, typer.Option("--config", help="The sidecar's settings (TOML): which log, and which sinks.")],
    key: Annotated[
        str | None, typer.Option(help="Only the row with this handle key, and what the sinks have of it: 42, or 42,a of two columns.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for what comes, until interrupted.")] = False,
    since: Annotated[int | None, typer.Option(min=0, help="From this segment on, or from this commit-ts (TSO) on.")] = None,
    limit: Annotated[
        int | None, typer.Option(min=0, max=100_000, help="The last so many events; 0: all. Default: 50, with --since all.")
    ] = None,
    sink: Annotated[
        str | None, typer.Option(help="As the sink of this name receives and has it: its columns, the dumps that are for it.")
    ] = None,
    value_chars: Annotated[
        int | None, typer.Option(min=0, help="Characters of a value that are shown; 0: all. Default: 40, with --json all.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line, and nothing else.")] = False,
) -> None:
    """Show a table's changes and dump rows from the log, and why a row of a dump was dropped.

    It reads the log beside a running sidecar and writes nothing. Columns that a sink masks are shown as the sink has them. With --key
    it also reads the row from each sink that can find a row by its key, and compares it with the log's last version.
    """
    import sidecar.shared.process.plain_arrow  # noqa: F401  # before anything makes an array
    from sidecar.shared.config import read_config
    from sidecar.shared.log.storage import log_folder
    from spark_merge.log.undecodable import Decoding
    from spark_merge.sinks.registry import masking_of, outputs_of
    from spark_merge.tail.segment import TailScope
    from spark_merge.tail.shown import ShownValues
    from spark_merge.tail.stream import Since, TableStream
    from spark_merge.tail.verdict import KeyVersions, LookedUpKey, Verdict
    from spark_merge.tail.wanted import parse_key, table_named

    settings = read_config(config)
    log = log_folder(settings.log.uri)
    sinks = _chosen(dict(zip(outputs_of(settings.sinks), settings.sinks, strict=True)), sink)
    maskings = {name: masking.opened() for name, uri in sinks.items() if (masking := masking_of(uri, log_id="")) is not None}
    chars_max = (0 if as_json else VALUE_CHARS) if value_chars is None else value_chars
    followed, schema = table_named(log, table)
    one = None if key is None else parse_key(schema, key)
    scope = TailScope(log, Decoding(settings.kafka.server_tz, settings.kafka.ambiguous), one, sink or "")
    stream = TableStream(scope, followed, Since() if since is None else Since.of(since))
    show = _printer(ShownValues(maskings, chars_max=chars_max), as_json=as_json)
    limit = (EVENTS_SHOWN if since is None else 0) if limit is None else limit
    differs = False
    try:
        versions = KeyVersions(stream, show)
        is_whole = _show_there(stream, versions, limit)
        if one is not None:
            looked_up = LookedUpKey(log, _log_id(log), followed, one, versions, whole=is_whole and since is None)
            for has in looked_up.at(sinks):
                show(has)
                differs |= has.verdict is Verdict.DIFFERENT
        for event in stream.coming(time.sleep) if follow else ():
            show(event)
    except KeyboardInterrupt:
        raise typer.Exit(EXIT_INTERRUPTED) from None
    raise typer.Exit(EXIT_DIFFERENT if differs else 0)


def _chosen(sinks: dict[str, str], name: str | None) -> dict[str, str]:
    """URIs by names. Raises RefusedRequest."""
    from sidecar.shared.errors import RefusedRequest, nearest

    if name is not None and name not in sinks:
        raise RefusedRequest(f"the settings have no sink {name}{nearest(name, sinks)}", hint=f"name one of {', '.join(sinks)}")
    return sinks if name is None else {name: sinks[name]}


def _log_id(log: Folder) -> str:
    """As its outputs are marked with."""
    from sidecar.shared.log import storage
    from sidecar.shared.log.identity import CHANGEFEED_NAME, known_id, name_of

    changefeed = storage.read_if_there(log, CHANGEFEED_NAME) or b""
    return name_of(changefeed.decode(errors="replace"), known_id(log))


def _show_there(stream: TableStream, versions: KeyVersions, limit: int) -> bool:
    """What is in the log, `limit` 0: all of it. Returns whether that is every version that the log has of the key."""
    versions.note(stream.begin())
    count = 0
    for event in stream.last(limit) if limit else stream.all():
        versions.note(event)
        count += 1
    return (not limit or count < limit) and len(versions.known) < (versions.known.maxlen or 0)


def _printer(shown: ShownValues, *, as_json: bool) -> Callable[[TailEvent | SinkHas], None]:
    """Each line is there at once, also for a program that reads a pipe."""
    from sidecar.cli.tail_view import event_line, sink_line
    from sidecar.cli.terminal import console_for
    from spark_merge.tail.events import TailEvent
    from spark_merge.tail.shown import event_json
    from spark_merge.tail.verdict import sink_json

    console = console_for(as_json=as_json)

    def show(one: TailEvent | SinkHas) -> None:
        if as_json:
            typer.echo(json.dumps(event_json(one, shown) if isinstance(one, TailEvent) else sink_json(one, shown)))
        else:
            line = event_line(one, shown) if isinstance(one, TailEvent) else sink_line(one, shown)
            console.print(line, highlight=False, markup=False, soft_wrap=True)

    return show


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command(name="tail", cls=Command, rich_help_panel=Use.RARE)(tail)
