"""`ticdc-dump maintain`: the tables of a lake are compacted, and versions of before expire, while the sink writes to them.

What is done, and why no row changes by it, lives in spark_merge/sinks/lake/maintenance.py. Whatever ends a run, `--json` says what it did
of each table until then.

    exit code  0 done        2 wrong usage        3 a table could not be maintained, or an error        130 interrupted
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sidecar.cli.usage import Command, Use

if TYPE_CHECKING:
    from sidecar.shared.config import Config
    from sidecar.shared.model.nouns import TableName
    from spark_merge.port.maintained import Maintained, Sql, Upkeep
    from spark_merge.sinks.lake.maintenance import TableUpkeep

EXIT_FAILED, EXIT_INTERRUPTED = 3, 130
MIB = 1 << 20


def maintain(
    config: Annotated[Path, typer.Option("--config", help="The sidecar's settings (TOML): which log, sinks and Spark.")],
    sink: Annotated[list[str] | None, typer.Option(help="A sink's name. May be repeated; default: each Delta and Iceberg sink.")] = None,
    tables: Annotated[str, typer.Option(help="Tables of the source, as TiCDC table rules: shop.*,!shop.event_*")] = "*.*",
    file_mib: Annotated[int, typer.Option(min=1, max=4096, help="MiB that a compacted file has, about.")] = 128,
    min_files: Annotated[int, typer.Option(min=2, max=100_000, help="A table, or partition, with fewer small files stays as it is.")] = 5,
    keep_hours: Annotated[int, typer.Option(min=24, max=87_600, help="For so long readers find earlier versions of a table.")] = 168,
    dry_run: Annotated[bool, typer.Option(help="Count the files of each table. Changes nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Compact the tables of Delta and Iceberg sinks, and expire their old versions, while the sidecar runs.

    The sink's commits come first: what they overtake is tried again. Iceberg needs Spark, whose configuration has the catalog.
    """
    from sidecar.shared.config import read_config
    from sidecar.shared.errors import TicdcDumpError
    from spark_merge.port.maintained import Upkeep

    settings = read_config(config)
    upkeep, sinks, code, ended = Upkeep(file_mib * MIB, min_files, keep_hours), list[dict[str, Any]](), EXIT_FAILED, dict[str, str]()
    try:
        failed = False
        for name, lake in _lakes(settings, sink or ()):
            done: list[dict[str, Any]] = []
            sinks.append({"sink": name, "tables": done})
            for one in _each(settings, name, lake, (tables, upkeep), dry_run=dry_run):
                done.append(one.to_json())
                failed |= bool(one.error)
                if not as_json:
                    typer.echo(f"{name}: {line(one)}")
        code = EXIT_FAILED if failed else 0
    except KeyboardInterrupt:
        code, ended = EXIT_INTERRUPTED, {"exit_reason": "interrupted"}
    except TicdcDumpError as error:
        if not as_json:
            raise
        ended = {"exit_reason": "error", "error": str(error)}
    finally:
        if as_json:
            typer.echo(json.dumps({"ok": not code, "sinks": sinks, **ended}))
    raise typer.Exit(code)


def _lakes(settings: Config, names: Collection[str]) -> Iterator[tuple[str, Maintained]]:
    """Raises ConfigError for a name that no such sink has."""
    from sidecar.shared.errors import ConfigError
    from spark_merge.sinks.registry import maintained_of, name_of

    lakes = {name_of(uri): lake for uri in settings.sinks if (lake := maintained_of(uri)) is not None}
    if (unknown := [name for name in names if name not in lakes]) or not lakes:
        what = f"{unknown[0]} is no Delta or Iceberg sink of the settings" if unknown else "the settings have no Delta or Iceberg sink"
        raise ConfigError(what, hint=f"name one of {', '.join(lakes)}" if lakes else "other targets need no such care")
    yield from ((name, lakes[name]) for name in names or lakes)


def _each(settings: Config, sink: str, lake: Maintained, what: tuple[str, Upkeep], *, dry_run: bool) -> Iterator[TableUpkeep]:
    from contextlib import closing

    from sidecar.shared.log.sink_tables import read_sink_tables
    from sidecar.shared.log.storage import log_folder
    from spark_merge.sinks.lake.maintenance import looked_at, maintained

    log, (rules, upkeep) = log_folder(settings.log.uri), what
    names = _tables(settings, rules)
    with closing(lake):
        if dry_run:
            yield from looked_at(lake, names)
            return
        known = read_sink_tables(log, [sink]).get(sink)
        with _spark(settings) if lake.needs_spark else nullcontext(_no_spark) as sql:
            yield from maintained(lake, names, upkeep, sql, complete=known.complete if known is not None else ())


@contextmanager
def _spark(settings: Config) -> Iterator[Sql]:
    from contextlib import closing
    from functools import partial

    from spark_merge.worker.session import session
    from spark_merge.worker.spark_sql import SparkSql

    with closing(SparkSql(partial(session, master=settings.spark.master, memory=settings.spark.memory))) as sql:
        yield sql


def _no_spark(statement: str) -> Sequence[Mapping[str, Any]]:
    raise AssertionError(f"nobody needs Spark for {statement}")


def _tables(settings: Config, rules: str) -> list[TableName]:
    """Those at the log's end that have rows. Raises RefusedRequest for a log without a segment, and for rules that match none."""
    from sidecar.shared.errors import RefusedRequest
    from sidecar.shared.log.manifests import last_manifest
    from sidecar.shared.log.storage import log_folder
    from sidecar.shared.model.nouns import carried
    from sidecar.shared.ticdc.table_rules import matching, split_rules
    from spark_merge.log.read import read_schemas

    log = log_folder(settings.log.uri)
    last = last_manifest(log)
    if last is None:
        raise RefusedRequest(
            f"the log {log} has no segment yet", hint="compare log.uri; wait until the sidecar has written one: see dumpquery"
        )
    there = carried(read_schemas(log, last.next_schemas or last.schemas))
    if not (result := matching(split_rules(rules), there)):
        raise RefusedRequest(f"--tables {rules!r} matches no table of the log", hint="write rules as TiCDC's: shop.*, or leave it out")
    return result


def line(one: TableUpkeep) -> str:
    """For people."""
    if one.error:
        return f"{one.table}: {one.error}"
    if not one.before.files:
        return f"{one.table}: no files"
    files = f"{one.before.files:,} files, {one.before.bytes / MIB:,.1f} MiB"
    if one.after != one.before:
        files += f" -> {one.after.files:,} files, {one.after.bytes / MIB:,.1f} MiB"
    notes = {"dump": "not compacted: the sink does not have the whole table yet", "overtaken": "overtaken by the sink: try again later"}
    more = [f"{one.removed:,} old files removed"] if one.removed else []
    more += [note for state, note in notes.items() if one.state == state]
    return "; ".join([f"{one.table}: {files}", *more, *([f"{one.seconds:.1f} s"] if one.seconds else [])])


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command(name="maintain", cls=Command, rich_help_panel=Use.RARE)(maintain)
