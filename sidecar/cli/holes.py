"""`ticdc-dump holes`: tables that lack rows in a sink, and an operator's word that they lack none any more.

Text for people, `--json` one object for programs. What a hole is lives in sidecar/shared/model/hole.py, what a word says of it in
sidecar/shared/log/filled.py.

    exit code  0 done        2 wrong usage        3 refused, or an error
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sidecar.cli.skip import check_owner, user
from sidecar.cli.usage import Command, Use

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sidecar.shared.log.filled import FilledWord
    from sidecar.shared.model.hole import OpenHole
    from sidecar.shared.model.nouns import TableName
    from sidecar.shared.model.sink_delivery import SinkTables

TABLES_NAMED = 10


def holes(
    config: Annotated[Path, typer.Option("--config", help="The sidecar's settings (TOML): which log, and which sinks.")],
    filled: Annotated[str | None, typer.Option(metavar="TABLE", help="Say that this table (schema.table) lacks no rows any more.")] = None,
    sink: Annotated[str | None, typer.Option(help="With --filled: in this sink alone. Default: in each with a hole of the table.")] = None,
    reason: Annotated[str | None, typer.Option(help="With --filled: how you know. It is kept with your name.")] = None,
    seq: Annotated[
        int | None, typer.Option(min=0, help="With --filled: refused if a hole of the table was noticed after this segment.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Show the tables that lack rows in a sink since a moment, or say that one lacks none any more.

    A hole ends when a dump that began after its cause is complete in the sink (dumpstart --holes), when a verification of the whole table
    ends without a difference, or by your word. The word is kept in the log's folder, filled/, with your name and the reason, and nothing
    removes it. It is of the holes that are listed now: a later one is open again. The merge worker applies it with the sink's next batch.
    """
    from sidecar.control.fields import names
    from sidecar.shared.config import read_config
    from sidecar.shared.log.filled import read_words, word_of, write_words
    from sidecar.shared.log.sink_tables import read_sink_tables
    from sidecar.shared.log.storage import open_folder
    from spark_merge.sinks.registry import outputs_of

    if (filled is None) != (reason is None) or (filled is None and (sink is not None or seq is not None)):
        raise typer.BadParameter("give --filled with --reason, or neither; --sink and --seq go with them")
    if reason is not None and (why := names(reason)):
        raise typer.BadParameter(why, param_hint="--reason")
    settings = read_config(config)
    os.umask(int(settings.files.umask, 8))
    log, sinks = open_folder(settings.log.uri), list(outputs_of(settings.sinks))
    there = read_sink_tables(log, sinks)
    tables = [there[name] for name in sinks if name in there]
    if filled is None or reason is None:
        _show(tables, read_words(log), as_json=as_json)
        return
    chosen = _chosen(tables, filled, sink, seq)
    check_owner(log, "holes")
    by, at_ms = user(), int(time.time() * 1000)
    words = [word_of(there[of], table, upto_seq=hole.seq, by=by, reason=reason, at_ms=at_ms) for of, table, hole in chosen]
    write_words(log, words)
    if as_json:
        typer.echo(json.dumps({"filled": [_word_json(word) for word in words]}))
        return
    for word, (_, _, hole) in zip(words, chosen, strict=True):
        where = f"{word.table} in sink {word.sink}, noticed up to segment {word.upto_seq}"
        typer.echo(f"filled: {where}: {hole.cause}: {hole.text} [{word.by}]")
    typer.echo("The merge worker applies it with the next batch of the sink.")


def _chosen(tables: Sequence[SinkTables], name: str, sink: str | None, seq: int | None) -> list[tuple[str, TableName, OpenHole]]:
    """The open holes of that table. Raises RefusedRequest."""
    from sidecar.shared.errors import RefusedRequest

    there = [(one.sink, table, hole) for one in tables for table, hole in sorted(one.holes.items()) if sink in (None, one.sink)]
    chosen = [one for one in there if str(one[1]) == name]
    where = "any sink" if sink is None else f"sink {sink}"
    if not chosen:
        known = ", ".join(dict.fromkeys(str(table) for _, table, _ in there[:TABLES_NAMED])) or "no table"
        raise RefusedRequest(
            f"table {name} has no hole in {where} that is open",
            hint=f"of {known} there is one: see `ticdc-dump holes --config FILE`",
        )
    late = [hole for _, _, hole in chosen if seq is not None and hole.seq > seq]
    if late:
        raise RefusedRequest(
            f"a hole of {name} was noticed in segment {late[0].seq}, after segment {seq}: {late[0].cause}: {late[0].text}",
            hint="look at `ticdc-dump holes --config FILE` again, check the table, and give the segment that is listed",
        )
    return chosen


def _show(tables: Sequence[SinkTables], words: Sequence[FilledWord], *, as_json: bool) -> None:
    from sidecar.control.hole_texts import hole_lines, holes_of

    if as_json:
        open_ = [_hole_json(one.sink, table, hole) for one in tables for table, hole in sorted(one.holes.items())]
        typer.echo(json.dumps({"holes": open_, "filled": [_word_json(word) for word in words]}))
        return
    lines = hole_lines(holes_of(tables), shown=None)
    typer.echo("\n".join(lines) if lines else "no table has a hole that is open in a sink")
    for word in words:
        typer.echo(f"filled: {word.table} in sink {word.sink}, noticed up to segment {word.upto_seq} [{word.by}]: {word.reason}")


def _hole_json(sink: str, table: TableName, hole: OpenHole) -> dict[str, Any]:
    where = {"sink": sink, "schema": table.schema, "table": table.table, "seq": hole.seq}
    return where | {"since_tso": str(hole.since_ts), "cause": hole.cause, "text": hole.text, "vanished": hole.vanished}


def _word_json(word: FilledWord) -> dict[str, Any]:
    where = {"sink": word.sink, "schema": word.table.schema, "table": word.table.table, "upto_seq": word.upto_seq}
    return where | {"by": word.by, "reason": word.reason, "at_ms": word.at_ms}


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command(name="holes", cls=Command, rich_help_panel=Use.RARE)(holes)
