"""From where on a sink has a table whole, counted over the segments that it receives, one after another. Pure: manifests in, tables out.

    a dump is done with the table     complete from there on, if the pass began when the sink received segments already, and read all rows
    CREATE TABLE, TRUNCATE            complete from there on: the table has no rows then, and the sink receives each later one
    renamed inside the changefeed     as before, under its other name
    rows that the feed does not bring incomplete: EXCHANGE PARTITION, RECOVER, a table that comes from outside, another key
    dropped                           not there

- It follows tables as the pipeline does (sidecar/shared/model/schema_step.py), by their ids. Only that a table has no rows is said by the
  statement alone; where the changefeed hides it, the table counts as incomplete.
- A claim is of a table's rows, by its ids, up to the end of a segment. A DDL ends its segment, after all windows that close in it: so what
  a dump was done with in that segment is claimed only if the DDL keeps the table's rows.
- A dump of some keys or of a predicate completes nothing. One that failed or was stopped completes the tables that it was done with.
- A table that was complete before a dump of it stays complete from the earlier commit-ts on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from sidecar.shared.errors import UnsupportedDdl
from sidecar.shared.log.layout import completed_tables
from sidecar.shared.log.manifest import DdlRecord, Manifest
from sidecar.shared.model.nouns import CommitTs, TableName
from sidecar.shared.model.schema_step import SchemaFate, Steps, Tables, steps
from sidecar.shared.model.sink_delivery import SinkTables
from sidecar.shared.schema.ddl import Action
from sidecar.shared.ticdc.ddl_text import action_of

_EMPTYING = frozenset({Action.CREATE_TABLE, Action.TRUNCATE_TABLE})


def received(manifest: Manifest, sink: str) -> Manifest:
    """What the sink of this name receives of the segment: neither windows nor progress of a dump that is for others."""
    dumps = tuple(one for one in manifest.dumps if sink in (one.get("sinks") or (sink,)))
    windows = tuple(window for window in manifest.windows if not window.sinks or sink in window.sinks)
    if len(dumps) == len(manifest.dumps) and len(windows) == len(manifest.windows):
        return manifest
    return replace(manifest, windows=windows, progress=dumps[0] if dumps else None, more_dumps=dumps[1:])


def followed(tables: SinkTables, segment: Manifest, schemas: Callable[[str], Tables]) -> SinkTables:
    """`tables` with the next segment counted in, as its sink receives it (`received`). `schemas`: a schemas file of the log by its name.
    Raises LogBroken for a segment whose progress is none."""
    complete = tables.complete
    done = {one.table: one.at for one in completed_tables(segment) if one.whole and one.since_seq >= tables.began_seq}
    if segment.next_schemas is not None:
        before, after = schemas(segment.schemas), schemas(segment.next_schemas)
        results = steps(before, after, named={TableName(ddl.schema, ddl.table) for ddl in segment.ddls})
        complete = _over_ddls(complete, segment, results)
        done = {table: at for table, at in done.items() if table in _read_and_kept(segment, before, results)}
    if done.keys() - complete.keys():
        complete = {**done, **complete}
    return replace(tables, seq=segment.seq, upto_ts=segment.upto_ts, complete=complete)


def _read_and_kept(segment: Manifest, before: Tables, value: Steps) -> set[TableName]:
    """The tables of which the segment has chunks and whose rows its DDLs keep, by the names after these. Records of dumps have them;
    up to 0.4 the record of a dump that finished in the segment had those before, and such a name counts for its own table only."""
    read = {chunk.table for window in segment.windows for chunk in window.chunks}
    names = {table: table for table in before} | {step.before: None for step in value if step.before is not None}
    names |= {step.before: step.after for step in value if step.before is not None and step.fate is SchemaFate.KEPT}
    return {now for table in read if (now := names.get(table)) is not None}


def _over_ddls(complete: Mapping[TableName, CommitTs], segment: Manifest, value: Steps) -> dict[TableName, CommitTs]:
    """A name that a table has from now on says nothing of the table that had it before."""
    emptied = set(_emptied(segment.ddls))
    touched = {name for step in value for name in (step.before, step.after)}
    then = {table: since_ts for table, since_ts in complete.items() if table not in touched}
    for step in value:
        if step.after is None:
            continue
        if step.fate is SchemaFate.KEPT and step.before is not None:
            if step.before in complete:
                then[step.after] = complete[step.before]
        elif step.after in emptied:
            then[step.after] = segment.upto_ts
    return then


def _emptied(ddls: tuple[DdlRecord, ...]) -> Iterator[TableName]:
    """Tables that have no rows after such a statement of theirs, by its text."""
    for ddl in ddls:
        try:
            action = action_of(ddl.query)
        except UnsupportedDdl:
            continue
        if action in _EMPTYING:
            yield TableName(ddl.schema, ddl.table)
