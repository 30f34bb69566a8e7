"""From where on a sink has a table whole, counted over the segments that it receives, one after another. Pure: manifests in, tables out.

    a dump is done with the table     complete from there on, if the pass began when the sink received segments already, and read all rows
    CREATE TABLE, TRUNCATE            complete from there on: the table has no rows then, and the sink receives each later one
    renamed inside the changefeed     as before, under its other name
    rows that the feed does not bring a hole: EXCHANGE PARTITION, RECOVER, a table that comes from outside, another key
    other rows, beside a DDL of others      a hole, and rows vanished: no sink has carried out what the changefeed hid
    a hole in the segment             incomplete (sidecar/shared/model/hole.py) until a pass that began later is done, or somebody's word
    a row that an operator skipped    a hole, too
    dropped                           not there

- It follows tables as the pipeline does (sidecar/shared/model/schema_step.py), by their ids. Only that a table has no rows is said by the
  statement alone; where the changefeed hides it, the table counts as incomplete.
- A claim is of a table's rows, by its ids, up to the end of a segment. A DDL ends its segment, after all windows that close in it: so what
  a dump was done with in that segment is claimed only if the DDL keeps the table's rows.
- A dump of some keys or of a predicate completes nothing. One that failed or was stopped completes the tables that it was done with.
- A table that was complete before a dump of it stays complete from the earlier commit-ts on, if it had no hole.
- No table has a hole and is complete. A hole follows its table as a claim does; one where rows vanished no dump fills.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from sidecar.shared.errors import UnsupportedDdl
from sidecar.shared.log.filled import FilledWord
from sidecar.shared.log.layout import completed_tables
from sidecar.shared.log.manifest import DdlRecord, Manifest
from sidecar.shared.model.hole import Hole, HoleCause, OpenHole, in_short, opened
from sidecar.shared.model.nouns import CommitTs, Seq, TableName, carried
from sidecar.shared.model.progress import CompletedTable
from sidecar.shared.model.schema_step import SchemaFate, Steps, Tables, TableStep, steps
from sidecar.shared.model.sink_delivery import SinkTables
from sidecar.shared.rowcodec.ddl_names import involved_by
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
    complete, holes = tables.complete, tables.holes
    if segment.next_schemas is None:
        done = {one.table: one.at for one in completed_tables(segment) if _completes(one, tables, one.table)}
    else:
        before, after = schemas(segment.schemas), schemas(segment.next_schemas)
        results = steps(before, after, named={TableName(ddl.schema, ddl.table) for ddl in segment.ddls})
        complete, holes = _over_ddls(tables, segment, results, after)
        was = _read_and_kept(segment, before, results)
        done = {one.table: one.at for one in completed_tables(segment) if one.table in was and _completes(one, tables, was[one.table])}
    if done.keys() - complete.keys():
        complete = {**done, **complete}
    if done or segment.next_schemas is not None:
        rest = {table: hole for table, hole in holes.items() if table not in done or hole.seq == segment.seq}
        tables = replace(tables, complete={table: at for table, at in complete.items() if table not in rest}, holes=rest)
    ids = ids_of(schemas(segment.next_schemas or segment.schemas)) if segment.holes else {}
    return replace(with_holes(tables, segment.holes, ids, segment.seq), seq=segment.seq, upto_ts=segment.upto_ts)


def ids_of(tables: Tables) -> dict[TableName, int]:
    """Of the tables of which a log has rows that are data."""
    return {name: tables[name].table_id for name in carried(tables)}


def with_holes(tables: SinkTables, holes: Iterable[Hole], ids: Mapping[TableName, int], seq: Seq) -> SinkTables:
    """`tables` with the holes of segment `seq`. `ids`: as of `ids_of`, of the log's tables."""
    then = opened(holes, tables.holes, ids, seq)
    if then == tables.holes:
        return tables
    kept = {table: replace(hole, complete=tables.complete.get(table, hole.complete)) for table, hole in then.items()}
    return replace(tables, complete={table: at for table, at in tables.complete.items() if table not in kept}, holes=kept)


def filled(tables: SinkTables, words: Iterable[FilledWord]) -> SinkTables:
    """`tables` without the holes that somebody's word says are filled (sidecar/shared/log/filled.py). A table that was complete before its
    hole is so again."""
    said = [word for word in words if word.is_of(tables)]
    told = {table: hole for table, hole in tables.holes.items() if any(word.ends(table, hole) for word in said)}
    if not told:
        return tables
    again = {table: hole.complete for table, hole in told.items() if hole.complete is not None}
    rest = {table: hole for table, hole in tables.holes.items() if table not in told}
    return replace(tables, complete={**tables.complete, **again}, holes=rest)


def _completes(one: CompletedTable, tables: SinkTables, name: TableName) -> bool:
    """It read all rows of the table that the sink lacks. `name`: of the table in `tables`."""
    hole = tables.holes.get(name)
    return one.whole and one.since_seq >= tables.began_seq and (hole is None or (one.since_seq > hole.seq and not hole.vanished))


def _read_and_kept(segment: Manifest, before: Tables, value: Steps) -> dict[TableName, TableName]:
    """The tables of which the segment has chunks and whose rows its DDLs keep, by the names after these, with those before. Records of
    dumps have those after; up to 0.4 the record of a dump that finished in the segment had those before, and such a name counts for its
    own table only."""
    read = {chunk.table for window in segment.windows for chunk in window.chunks}
    names = {table: table for table in before} | {step.before: None for step in value if step.before is not None}
    names |= {step.before: step.after for step in value if step.before is not None and step.fate is SchemaFate.KEPT}
    return {now: table for table in read if (now := names.get(table)) is not None}


def _over_ddls(
    tables: SinkTables, segment: Manifest, value: Steps, after: Tables
) -> tuple[dict[TableName, CommitTs], dict[TableName, OpenHole]]:
    """What is complete and what has a hole, among the tables `after`. A name that a table has from now on says nothing of the table that
    had it before."""
    emptied = set(_emptied(segment.ddls))
    touched = {name for step in value for name in (step.before, step.after)}
    complete = {table: since_ts for table, since_ts in tables.complete.items() if table not in touched}
    holes = {table: hole for table, hole in tables.holes.items() if table not in touched}
    for step in value:
        if step.after is None:
            continue
        if step.fate is SchemaFate.KEPT and step.before is not None:
            if step.before in tables.complete:
                complete[step.after] = tables.complete[step.before]
            if step.before in tables.holes:
                holes[step.after] = tables.holes[step.before]
        elif step.after in emptied:
            complete[step.after] = segment.upto_ts
        else:
            holes[step.after] = replace(_of_ddl(step, segment, tables), table_id=after[step.after].table_id)
    return complete, holes


def _of_ddl(step: TableStep, segment: Manifest, tables: SinkTables) -> OpenHole:
    """The sinks carry out a DDL of the table, with what goes by it: only rows that it brought are missing. Where the segment has DDLs of
    other tables alone, an earlier one was hidden by the changefeed: nobody has carried it out, and rows that went are still there."""
    names = {name.folded() for name in (step.before, step.after) if name is not None}
    query = next((ddl.query for ddl in segment.ddls if names & named_tables(ddl)), "")
    vanished = bool(segment.ddls) and not query and step.before is not None
    claimed, there = (None, None) if step.before is None else (tables.complete.get(step.before), tables.holes.get(step.before))
    if there is not None:
        return replace(there, seq=segment.seq, vanished=there.vanished or vanished)
    text = in_short(query) or ("a DDL that the changefeed hides" if vanished else "a DDL")
    return OpenHole(HoleCause.DDL, segment.upto_ts, segment.seq, vanished, text, complete=claimed)


def named_tables(ddl: DdlRecord) -> set[TableName]:
    """Whose DDL it is, names folded: an EXCHANGE PARTITION is of two tables, a RENAME may be of several."""
    action = _action(ddl)
    also = () if action is None else involved_by(action, ddl.query, ddl.schema)
    return {name.folded() for name in (TableName(ddl.schema, ddl.table), *also)}


def _emptied(ddls: tuple[DdlRecord, ...]) -> Iterator[TableName]:
    """Tables that have no rows after such a statement of theirs, by its text."""
    yield from (TableName(ddl.schema, ddl.table) for ddl in ddls if _action(ddl) in _EMPTYING)


def _action(ddl: DdlRecord) -> Action | None:
    try:
        return action_of(ddl.query)
    except UnsupportedDdl:
        return None
